"""The discrete Gaussian mechanism: Gaussian noise on whole numbers, exactly.

Letters: f the query, Delta its l2 sensitivity, sigma the parameter of the noise z, P(z)
proportional to g(z) = exp(-z^2/(2 sigma^2)), N = sum of g(z) its normaliser, rho = Delta^2/(2
sigma^2); x = a/sigma; alpha an accuracy that is missed with probability beta.

Ranges: sigma 2^-50 to 2^50 (1e-6 to 1e6 where delta is computed), epsilon 0 to 1e3 for `sigma`,
beta 1e-250 to 1 - 2^-53.

1. Normaliser. By Poisson summation N = sigma sqrt(2 pi) (1 + 2 exp(-2 pi^2 sigma^2) + ...); from
   sigma = 2 on the first term is right to 1e-33, below it a sum of 20 terms is.
2. Upper tail, P(Z >= m) for m >= 1. Below sigma = 256 the terms themselves are added, the smallest
   first. From there on by the Euler-Maclaurin formula at the midpoint a = m - 1/2: the sum of g is
   its integral from a, sigma sqrt(pi/2) erfc(x/sqrt 2), plus g'(a)/24 - 7 g'''(a)/5760 +
   31 g^(5)(a)/967680, with g^(j)(a) = (-1/sigma)^j He_j(x) g(a) and the Hermite polynomials He_j.
   The part left out is below 2 (x/(2 pi sigma))^8 of the sum: for x up to 38, where all floats end,
   and sigma from 256 on below 2e-13 of it.
"""

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from scipy import special

from dputils import checks, gaussian, noise, private
from dputils.accounting.costs import ZCDP, Approximate
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.rounding import upper
from dputils.laplace import beta_of_one, centred
from dputils.sensitivity import named, reader, size_of

_NORMS = ("absolute", "l2")
_WINDOW = 1 << 16  # terms of a sum taken at a time
_SMOOTH = 256  # from this sigma on tails come from the Euler-Maclaurin formula
_WIDE = 2  # from this sigma on the normaliser is that of the continuous law
_MIDPOINT = {1: -1 / 24, 3: 7 / 5760, 5: -31 / 967680}  # times (-1)^j for odd j
_SIGMAS = (1e-6, 1e6)


# ------------------------------------------------------------------------------------------ scales


def zcdp_sigma(sensitivity, rho):
    """Return a sigma of rho-zCDP noise, just above sensitivity/sqrt(2 rho).

    It is above by at most 2^-39 of it: the root is irrational.

    Parameters
    ----------
    sensitivity : Sensitivity in the norm "absolute" or "l2", or its size
        An int, a float or a Fraction; floats are read as decimals. It need not be whole.
    rho : int, float or Fraction
        Positive.

    Returns
    -------
    Fraction

    Raises
    ------
    ValueError
        If an argument is not positive, or sigma would lie outside 2^-50 to 2^50.
    """
    size = checks.as_fraction("sensitivity", size_of(sensitivity, *_NORMS))
    square = size**2 / checks.as_fraction("rho", checks.positive("rho", rho)) / 2
    if not Fraction(1, 1 << 100) <= square < 1 << 100:
        side, grid = ("above 2**50", "coarser") if square > 1 else ("below 2**-50", "finer")
        raise ValueError(
            f"sensitivity and rho ask for a sigma {side}, got {sensitivity!r} and {rho!r}: "
            f"take a {grid} grid"
        )
    bits = 40 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return (math.isqrt(math.floor(square * Fraction(4) ** bits)) + 1) / Fraction(2) ** bits


def delta(epsilon, sigma, sensitivity=1):
    """Return delta of one integer plus discrete Gaussian noise at epsilon, rounded up.

    Parameters
    ----------
    epsilon : float or Fraction
        At least 0, read as its decimal.
    sigma : float or Fraction
        Between 1e-6 and 1e6; the noise has P(z) proportional to exp(-z^2/(2 sigma^2)).
    sensitivity : Sensitivity in the norm "absolute", or its size
        A whole number, at least 1.

    Returns
    -------
    float
        The same in both directions, since the law is symmetric, and the largest over all shifts up
        to the sensitivity; above the exact value by at most 1e-13 + 1e-15 |ln delta| of it.

    Notes
    -----
    The privacy loss of outcome -j, (Delta^2 + 2 j Delta)/(2 sigma^2), rises with j: outcomes with j
    > c = epsilon sigma^2/Delta - Delta/2 count, with p(j)(1 - exp(-Delta (j - c)/sigma^2)) each.
    All terms are positive. The first j - c is an exact fraction: nothing cancels.

    Source
        Canonne, Kamath, Steinke 2020, Section 2.3 (the exact delta).
    """
    shift = _whole(sensitivity)
    exact = checks.as_fraction("epsilon", checks.not_negative("epsilon", epsilon))
    square = _steps_of_the_grid(sigma) ** 2
    c = exact * square / shift - Fraction(shift, 2)
    if math.floor(c) > 40 * sigma:  # delta is below exp(-800): below all floats
        return math.ulp(0.0)
    if c < -100 * sigma:  # all outcomes above -10 sigma count, and lose less than exp(-18000)
        return 1.0
    log = _log_delta(c, square, shift)
    return min(math.nextafter(math.exp(log), 1) * (1 + 5e-14 + 5e-16 * abs(log)), 1.0)


def _log_delta(c, square, shift):
    """Return ln delta: a sum over j > c, in units of its largest p(j), until that fell by e^-50."""
    variance = float(square)
    # outcomes below -10 sigma weigh less than 1e-21
    first = max(math.floor(c) + 1, -math.ceil(10 * math.sqrt(variance)))
    lead = max(first, 0)
    end = math.ceil(math.sqrt(lead * lead + 100 * variance)) + 1
    total = math.fsum(
        _window(start, min(start + _WINDOW, end), lead, c, variance, shift)
        for start in range(first, end, _WINDOW)
    )
    peak = float(lead * lead / (2 * square))
    return math.log(total) - peak - math.log(_normaliser(variance))


def _window(start, stop, lead, c, square, shift):
    """Sum p(j)(1 - exp(-Delta (j - c)/sigma^2)) over start <= j < stop, in units of p(lead) N."""
    steps = np.arange(stop - start, dtype=float)
    squares = (steps + (start - lead)) * (steps + (start + lead))  # j^2 - lead^2
    gain = -np.expm1(-shift / square * (steps + float(start - c)))
    return float(np.sum(np.exp(-(squares / (2 * square))) * gain))


def sigma(sensitivity, epsilon, delta):
    """Return a sigma for which one integer plus its noise is (epsilon, delta)-private.

    The calibration is exact to 2^-20 of sigma.

    Parameters
    ----------
    sensitivity : Sensitivity in the norm "absolute", or its size
        A whole number, at least 1.
    epsilon : float or Fraction
        From 0 to 1e3.
    delta : float
        From 1e-300, below 1.

    Returns
    -------
    Fraction
        A multiple of 2^-20 times the power of two next below `sigma`. The function `delta` at it is
        at most delta, and one step of this grid lower it is not. delta need not fall with sigma, so
        a smaller sigma further down may hold as well, and a larger one may fail: the value is meant
        to be used, not rounded. Draw with `noise.discrete_gaussian(sigma, rng=rng)`.
    """
    size = _whole(sensitivity)
    checks.probability("delta", delta)
    near = gaussian.sigma(size, float(checks.not_negative("epsilon", epsilon)), delta)
    if near > 0.99 * _SIGMAS[1]:
        raise ValueError(
            f"sensitivity, epsilon and delta ask for sigma {near:.3g}; sigma reaches 9.9e5 steps "
            "of the grid: take a coarser grid"
        )
    step = Fraction(2) ** (math.frexp(near)[1] - 21)
    middle = round(near / step)
    return step * _first_that_holds(lambda n: _holds(n * step, size, epsilon, delta), middle)


def _holds(sigma, size, epsilon, target):
    return delta(epsilon, sigma, size) <= target


def _first_that_holds(holds, middle):
    """Return an n for which `holds` and n - 1 does not, or 1, near `middle`."""
    widths = [256 << i for i in range(40)]
    high = next(n for n in (middle + width for width in widths) if holds(n))
    low = next(n for n in (max(middle - width, 1) for width in widths) if n == 1 or not holds(n))
    while high - low > 1:  # invariant: low fails or is 1, high holds
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _whole(sensitivity):
    return checks.integer("sensitivity", size_of(sensitivity, "absolute"), low=1)


def _steps_of_the_grid(sigma):
    """Return the exact sigma."""
    checks.positive("sigma", sigma)
    if not _SIGMAS[0] <= sigma <= _SIGMAS[1]:
        raise ValueError(
            f"sigma must be between 1e-6 and 1e6 steps of the grid, got {sigma!r}: "
            "take another grid"
        )
    return checks.as_fraction("sigma", sigma)


# ---------------------------------------------------------------------------------------- releases


def release(value, sensitivity, rho, *, rng):
    """Add discrete Gaussian noise to an integer or to each coordinate of an integer array, exactly.

    Privacy
        rho-zCDP, with no floating-point caveat, for the neighbour relation in which `sensitivity`
        bounds the l2 distance of the values of neighbouring tables. `renyi.zcdp_epsilon` gives an
        (epsilon, delta) for any dimension; for one integer `delta` is exact. Pass `noise.SYSTEM`
        for a real release. Public: the type and shape of the value, sensitivity, rho.

    Parameters
    ----------
    value : int or integer array of any shape
        Private: the exact answer, read by `private.integers`. In a list, which has no dtype, a
        number between integers is rounded down, each by itself; the sensitivity has to bound the
        distance of what is read.
    sensitivity : Sensitivity in the norm "absolute" or "l2", or its size
    rho : int, float or Fraction
        Positive, floats read as decimals. The sigma they ask for lies between 2^-50 and 2^50.
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int or int64 array
        Of the shape of `value`; a sum beyond 64 bits wraps around.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Unbiased; variance at most sigma^2 = sensitivity^2/(2 rho), up to 2^-38 of it; all of k
        coordinates within `accuracy`(sigma, beta, k) with probability at least 1 - beta.

    Source
        Canonne, Kamath, Steinke 2020, Theorem 14.
    """
    return _draw(private.integers(value), zcdp_sigma(sensitivity, rho), rng=rng)


def mechanism(sensitivity, rho=None, *, epsilon=None, delta=None):
    """Return the discrete Gaussian mechanism for whole-numbered answers, for a `Ledger`.

    Privacy
        As `release`, for the relation and the unit of the sensitivity; its cost is `ZCDP(rho)`. For
        one integer epsilon and delta may stand in place of rho: the costs are then the ZCDP of that
        sigma and `Approximate(epsilon, delta)`, which is exact (`sigma`).

    Parameters
    ----------
    sensitivity : Sensitivity
        In the norm "absolute" for one integer, in "l2" for integer arrays of any shape.
    rho : int, float or Fraction, optional
    epsilon, delta : float, optional
        As in `sigma`, epsilon from 1e-6; only for a whole number in the norm "absolute".

    Returns
    -------
    Mechanism
        Exact. Its law is that of the release minus the value, coordinate by coordinate, on whole
        numbers, at c rho.
    """
    named(sensitivity, *_NORMS)
    deviation, costs = _calibrated(sensitivity, rho, epsilon, delta)
    return Mechanism(
        name=f"discrete Gaussian mechanism, sigma {float(deviation):.6g}",
        costs=costs,
        neighbours=sensitivity.neighbours,
        unit=sensitivity.unit,
        read=reader(private.integers, sensitivity),
        draw=partial(_draw, sigma=deviation),
        exact=True,
        sensitivity=sensitivity,
        law=lambda c: partial(cdf, sigma=float(deviation) / math.sqrt(c)),
        discrete=True,
    )


def _calibrated(sensitivity, rho, epsilon, delta):
    """Return sigma and the costs of noise of this sigma."""
    if rho is not None:
        if epsilon is not None or delta is not None:
            raise ValueError(f"rho must be left out beside epsilon and delta, got {rho!r}")
        return zcdp_sigma(sensitivity, rho), (ZCDP(rho),)
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    deviation = sigma(sensitivity, epsilon, delta)
    true_rho = Fraction(sensitivity.size) ** 2 / (2 * deviation**2)
    return deviation, (ZCDP(Fraction(upper(true_rho))), Approximate(epsilon, delta))


def _draw(value, sigma, *, rng):
    """Return value plus noise, modulo 2^64."""
    noisy = value + noise.discrete_gaussian(sigma, value.shape or None, rng=rng)
    return noisy if value.shape else int(noisy)


# ---------------------------------------------------------------------------------- law and errors


def logpmf(z, sigma, centre=0):
    """Log probability of discrete Gaussian noise around a whole centre (any shape).

    -inf between the integers.

    -(z - centre)^2/(2 sigma^2) - ln N, to 1e-14 of the first term and 1e-15 for the second.
    """
    s, y = _number(sigma), centred(z, centre)
    log = -((y / s) ** 2) / 2 - math.log(_normaliser(s * s))
    return np.where(y == np.floor(y), log, -np.inf)[()]


def cdf(z, sigma, centre=0):
    """Distribution function of discrete Gaussian noise around a whole centre at z (any shape).

    Numbers between integers are rounded down. Right to 1e-12 of itself where it is at least 1e-300.
    """
    s = _number(sigma)
    z = np.floor(centred(z, centre))
    beyond = _upper_tail(np.where(z < 0, -z, z + 1), s)
    return np.where(z < 0, beyond, 1 - beyond)


def tail(t, sigma):
    """P(|Z| > t) for t >= 0, and 1 below (any shape).

    Right to 1e-12 of itself where it is at least 1e-300.
    """
    t, s = np.asarray(t, dtype=float), _number(sigma)
    beyond = _upper_tail(np.floor(np.maximum(t, 0)) + 1, s)
    return np.where(t < 0, 1.0, 2 * beyond)


def variance(sigma):
    """Variance of discrete Gaussian noise: at most sigma^2, as a float equal to it from 2 on."""
    s = _number(sigma)
    if s >= _WIDE:
        return s * s
    z = np.arange(1, 20)
    return float(2 * np.sum(z * z * np.exp(-((z / s) ** 2) / 2)) / _normaliser(s * s))


def accuracy(sigma, beta, k=1):
    """Return the smallest alpha within which all of k noises stay with probability 1 - beta.

    alpha is a whole number; the probability is at least 1 - beta.
    """
    s, one = _number(sigma), beta_of_one(beta, k)
    low, high = -1, math.ceil(s * math.sqrt(2) * float(special.erfcinv(one))) + 1
    while high - low > 1:  # invariant: low fails, high holds (P(|Z| >= m) <= P(|Y| >= m - 1))
        middle = (low + high) // 2
        if tail(middle, s) <= one:
            high = middle
        else:
            low = middle
    return high


def _number(sigma):
    return float(checks.within("sigma", sigma, *checks.STEPS))


def _normaliser(square):
    """N for sigma^2 (step 1)."""
    if square >= _WIDE**2:
        return math.sqrt(2 * math.pi * square)
    return float(2 * np.sum(np.exp(-(np.arange(1, 20) ** 2) / (2 * square))) + 1)


def _upper_tail(m, sigma):
    """P(Z >= m) for whole floats m >= 1 (step 2)."""
    if sigma >= _SMOOTH:
        return _smooth_tail((m - 0.5) / sigma, sigma)
    sums = _tail_sums(sigma)
    return sums[np.minimum(m, sums.size - 1).astype(int)]


@lru_cache(maxsize=64)
def _tail_sums(sigma):
    """P(Z >= m) for m = 0, 1, ..., until it is below all floats; the entry at 0 is not used."""
    m = np.arange(math.ceil(40 * sigma) + 1, -1, -1)
    sums = np.cumsum(np.exp(-((m / sigma) ** 2) / 2))[::-1] / _normaliser(sigma * sigma)
    sums[-1] = 0.0
    return sums


def _smooth_tail(x, sigma):
    """P(Z >= m) for large sigma, x = (m - 1/2)/sigma."""
    x = np.minimum(x, 50.0)  # beyond it there is nothing, and He_5 stays a float
    corrections = sum(c * special.eval_hermitenorm(j, x) / sigma**j for j, c in _MIDPOINT.items())
    return special.ndtr(-x) + corrections * np.exp(-x * x / 2) / (sigma * math.sqrt(2 * math.pi))
