"""Discrete Gaussian noise on whole numbers, exactly: delta, sigma and release."""
import math
from fractions import Fraction

import numpy as np

from dputils import checks, gaussian, noise, private

_WINDOW = 1 << 16  # terms of a sum taken at a time


def delta(epsilon, sigma, sensitivity=1):
    """Return delta of one integer plus discrete Gaussian noise at epsilon, rounded up.

    Parameters
    ----------
    epsilon : float or Fraction, at least 0, read as its decimal
    sigma : float or Fraction
        Between 1e-6 and 1e6; the noise has P(z) proportional to exp(-z^2/(2 sigma^2)).
    sensitivity : int, at least 1

    Returns
    -------
    float
        The same in both directions, since the law is symmetric, and the largest over all shifts up to the sensitivity;
        above the exact value by at most 1e-13 + 1e-15 |ln delta| of it.

    Notes
    -----
    The privacy loss of outcome -j, (Delta^2 + 2 j Delta)/(2 sigma^2), rises with j: outcomes with j > c = epsilon
    sigma^2/Delta - Delta/2 count, with p(j)(1 - exp(-Delta (j - c)/sigma^2)) each. All terms are positive. The first
    j - c is an exact fraction: nothing cancels. The sum ends where p(j) has fallen by e^-50; the normaliser is
    sigma sqrt(2 pi) (1 + 2 exp(-2 pi^2 sigma^2) + ...), a sum of few terms for sigma below 2.

    Source
        Canonne, Kamath, Steinke 2020, Section 2.3 (the exact delta).
    """
    checks.not_negative("epsilon", epsilon), checks.positive("sigma", sigma)
    shift, s2 = checks.integer("sensitivity", sensitivity, low=1), checks.as_fraction("sigma", sigma) ** 2
    if not 1e-6 <= sigma <= 1e6:
        raise ValueError(f"sigma must be between 1e-6 and 1e6 steps of the grid, got {sigma!r}: take another grid")
    c = checks.as_fraction("epsilon", epsilon) * s2 / shift - Fraction(shift, 2)
    first = max(math.floor(c) + 1, -math.ceil(10 * sigma))  # outcomes below -10 sigma weigh less than 1e-21
    lead, var = max(first, 0), float(s2)
    if lead > 40 * sigma:  # delta is below exp(-800): below all floats
        return math.ulp(0.0)
    if c < -100 * sigma:  # all outcomes above -10 sigma count, and lose less than exp(-18000)
        return 1.0
    end = math.ceil(math.sqrt(lead * lead + 100 * var)) + 1
    total = []
    for start in range(first, end, _WINDOW):
        steps = np.arange(start - first, min(start + _WINDOW, end) - first, dtype=float)
        over = (steps + (first - lead)) * (steps + (first + lead)) / (2 * var)  # (j^2 - lead^2)/(2 sigma^2)
        total.append(np.sum(np.exp(-over) * -np.expm1(-shift / var * (steps + float(first - c)))))
    size = 2 * np.sum(np.exp(-np.arange(1, 20) ** 2 / (2 * var))) + 1 if var < 4 else math.sqrt(2 * math.pi * var)
    log = math.log(math.fsum(total)) - float(lead * lead / (2 * s2)) - math.log(size)
    return min(math.nextafter(math.exp(log), 1) * (1 + 5e-14 + 5e-16 * abs(log)), 1.0)


def sigma(sensitivity, epsilon, delta):
    """Return a sigma for which one integer plus discrete Gaussian noise is (epsilon, delta)-private, to 2^-20 of it.

    Parameters
    ----------
    sensitivity : int, at least 1
    epsilon : float or Fraction, at least 0
    delta : float, strictly between 0 and 1

    Returns
    -------
    Fraction
        A multiple of 2^-20 times the power of two next below `sigma`. `delta` at it is at most delta,
        and one step of this grid lower it is not. delta need not fall with sigma, so a smaller sigma further down
        may hold as well, and a larger one may fail: the value is meant to be used, not rounded. Draw with
        `noise.discrete_gaussian(sigma, rng=rng)`.
    """
    checks.integer("sensitivity", sensitivity, low=1)
    near = gaussian.sigma(sensitivity, float(checks.not_negative("epsilon", epsilon)), checks.probability("delta", delta))
    if not 1e-5 <= near <= 9.9e5:
        raise ValueError(f"sensitivity, epsilon and delta ask for sigma {near:.3g}; sigma reaches 1e-5 to "
                         f"9.9e5 steps of the grid: take a {'coarser' if near > 1 else 'finer'} grid")
    step = Fraction(2) ** (math.frexp(near)[1] - 21)

    def holds(n):
        return delta(epsilon, n * step, sensitivity) <= delta

    # invariant: low fails, high holds
    width, middle = 1 << 8, round(near / step)
    high = next(n for n in (middle + (width << i) for i in range(40)) if holds(n))
    low = next(n for n in (max(middle - (width << i), 1) for i in range(40)) if n == 1 or not holds(n))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high * step


def release(value, sensitivity, rho, *, rng):
    """Add discrete Gaussian noise to an integer or to each coordinate of an integer array, exactly.

    Privacy
        rho-zCDP, with no floating-point caveat, for the neighbour relation in which `sensitivity` bounds the l2
        distance of the values of neighbouring tables. `curves.zcdp_epsilon` gives an (epsilon, delta) for any
        dimension; for one integer `delta` is exact. Pass `noise.SYSTEM` for a real release.

    Parameters
    ----------
    value : int or integer array of any shape (see `mechanisms.geometric_release`)
    sensitivity, rho : int, float or Fraction
        Positive, floats read as decimals; sensitivity need not be whole. The sigma they ask for is at most 2^50.
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int or int64 array
        Of the shape of `value`; a sum beyond 64 bits wraps around.

    Error
        Unbiased; variance at most sigma^2 = sensitivity^2/(2 rho), up to 2^-38 of it; all of k coordinates within
        `accuracy`(sigma, beta, k) + 1 with probability at least 1 - beta.

    Source
        Canonne, Kamath, Steinke 2020, Theorem 14.
    """
    sigma, value = _zcdp_sigma(sensitivity, rho), private.integers(value)
    noisy = value + noise.discrete_gaussian(sigma, value.shape or None, rng=rng)
    return int(noisy) if value.shape == () else noisy


def _zcdp_sigma(sensitivity, rho):
    """Return a Fraction above sensitivity/sqrt(2 rho), by at most 2^-39 of it: the root is irrational."""
    checks.positive("sensitivity", sensitivity), checks.positive("rho", rho)
    square = checks.as_fraction("sensitivity", sensitivity) ** 2 / checks.as_fraction("rho", rho) / 2
    if square >= 1 << 100:
        raise ValueError(f"sensitivity and rho ask for a sigma above 2**50, got {sensitivity!r} and {rho!r}: take a "
                         "coarser grid")
    bits = 40 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return (math.isqrt(math.floor(square * Fraction(4) ** bits)) + 1) / Fraction(2) ** bits
