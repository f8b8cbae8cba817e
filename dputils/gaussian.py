"""The Gaussian mechanism: scales, laws, errors and releases of vectors, Gram matrices and integers.

A scale turns an l2 sensitivity and a pair (epsilon, delta) into a standard deviation sigma. What a release of l2
sensitivity Delta costs depends on mu = Delta/sigma alone: N(0, I) against its shift by a vector of length mu is, along
that vector, N(0, 1) against N(mu, 1), and the other coordinates say nothing. `release` and `gram_release` are floating
point and serve experiments; `discrete_release` is exact and takes `noise.SYSTEM` for real releases.
"""
import math
from fractions import Fraction

import numpy as np

from dputils import checks, noise
from dputils._scales import _sigma
from dputils._scales import accuracy, analytic_sigma, cdf, classical_sigma, combined_mu, logpdf, tail  # noqa: F401
from dputils.mechanisms import _int64, _reals
from dputils.sensitivity import of_gram

_WINDOW = 1 << 16  # terms of a sum taken at a time


def release(value, sensitivity, epsilon, delta, *, rng):
    """Add Gaussian noise of standard deviation `analytic_sigma` to a number or to each coordinate of an array.

    Privacy
        In real arithmetic (epsilon, delta)-differentially private for the neighbour relation in which `sensitivity`
        bounds the l2 distance of the values of neighbouring tables. In floating point it is not (see
        `mechanisms.laplace_release`): for experiments only; release integers with `discrete_release`.

    Parameters
    ----------
    value : number or array of numbers of any shape
        Its type and shape are public; NaN and what is beyond all floats as in `mechanisms.laplace_release`.
    sensitivity, epsilon, delta : float
        l2 sensitivity in the unit of the value; epsilon at least 0, delta strictly between 0 and 1.
    rng : numpy.random.Generator

    Returns
    -------
    float or array
        Of the shape of `value`.

    Error
        Per coordinate: unbiased, variance sigma^2, P(|error| > t) = `tail`(t, sigma).
    """
    value = _reals(value)
    with np.errstate(over="ignore"):
        noisy = value + noise.gaussian(_sigma(sensitivity, epsilon, delta), value.shape or None, rng=rng)
    return noisy if value.shape else float(noisy)


# ---------------------------------------------------------------------------------------------------- Gram matrices


def symmetric_noise(d, sigma, *, rng):
    """Draw a symmetric d x d Gaussian matrix that is isotropic in the Frobenius norm.

    Its variance is sigma^2 on the diagonal and sigma^2/2 off it: an entry off the diagonal stands twice in the matrix,
    so half the variance gives it the weight of one coordinate. It is the symmetric part of a matrix of d^2 independent
    noises of sigma. `sigma` is measured against a Frobenius sensitivity (`sensitivity.of_gram`).
    """
    z = noise.gaussian(sigma, (checks.integer("d", d, low=1),) * 2, rng=rng)
    return (z + z.T) / 2


def gram_release(X, norm, neighbours, epsilon, delta, *, rng):
    """Release the Gram matrix X'X of rows clipped to a public norm, with symmetric Gaussian noise, in floating point.

    Privacy
        In real arithmetic (epsilon, delta)-differentially private for `neighbours`; a record is a row. norm and the
        number of columns d are public; the number of rows is private under add-remove. For experiments only
        (`release`).

    Parameters
    ----------
    X : array of numbers of shape (n, d), d at least 1, n at least 0
        Private. A row that holds a NaN or, as floats, an infinity counts as a row of zeros; a row longer than norm is
        shortened to it. Masked arrays and matrices are refused: a mask would be ignored, `*` is another product.
    norm : float, positive
        Bound on the Euclidean length of a row.
    neighbours : {"add-remove", "replace-one"}
    epsilon, delta : float
    rng : numpy.random.Generator

    Returns
    -------
    array of shape (d, d)
        Symmetric; it may have negative eigenvalues.

    Error
        Besides clipping: unbiased, variance sigma^2 on the diagonal and sigma^2/2 off it, so the expected squared
        Frobenius error is sigma^2 d(d + 1)/2, with sigma = `analytic_sigma`(`sensitivity.of_gram`, epsilon, delta).
    """
    plain = isinstance(X, np.ndarray) and not isinstance(X, (np.ma.MaskedArray, np.matrix))
    if not plain or X.dtype.kind not in "iufb" or X.ndim != 2 or X.shape[1] == 0:
        shown = (X.dtype.name, X.shape) if plain else type(X).__name__
        raise ValueError(f"X must be a numpy array of numbers of shape (n, d), got {shown}")
    sigma = _sigma(of_gram(norm, neighbours), epsilon, delta)
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of the rows
        rows = _clipped(X.astype(float), float(norm))
        return rows.T @ rows + symmetric_noise(X.shape[1], sigma, rng=rng)


def _clipped(rows, norm):
    """Shorten rows to `norm`; a row that is not finite becomes zero. Lengths are taken after division by the largest
    entry: squares of large entries would overflow."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    unit = rows / np.where(largest > 0, largest, 1.0)
    length = np.sqrt((unit * unit).sum(axis=1, keepdims=True))  # between 1 and sqrt(d), or 0
    return np.where(largest > norm / np.maximum(length, 1), unit * (norm / np.maximum(length, 1)), rows)


# --------------------------------------------------------------------------------------------------- exact, integers


def discrete_delta(epsilon, sigma, sensitivity=1):
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


def discrete_sigma(sensitivity, epsilon, delta):
    """Return a sigma for which one integer plus discrete Gaussian noise is (epsilon, delta)-private, to 2^-20 of it.

    Parameters
    ----------
    sensitivity : int, at least 1
    epsilon : float or Fraction, at least 0
    delta : float, strictly between 0 and 1

    Returns
    -------
    Fraction
        A multiple of 2^-20 times the power of two next below `analytic_sigma`. `discrete_delta` at it is at most delta,
        and one step of this grid lower it is not. delta need not fall with sigma, so a smaller sigma further down
        may hold as well, and a larger one may fail: the value is meant to be used, not rounded. Draw with
        `noise.discrete_gaussian(sigma, rng=rng)`.
    """
    checks.integer("sensitivity", sensitivity, low=1)
    near = _sigma(sensitivity, float(checks.not_negative("epsilon", epsilon)), delta)
    if not 1e-5 <= near <= 9.9e5:
        raise ValueError(f"sensitivity, epsilon and delta ask for sigma {near:.3g}; discrete_sigma reaches 1e-5 to "
                         f"9.9e5 steps of the grid: take a {'coarser' if near > 1 else 'finer'} grid")
    step = Fraction(2) ** (math.frexp(near)[1] - 21)

    def holds(n):
        return discrete_delta(epsilon, n * step, sensitivity) <= delta

    # invariant: low fails, high holds
    width, middle = 1 << 8, round(near / step)
    high = next(n for n in (middle + (width << i) for i in range(40)) if holds(n))
    low = next(n for n in (max(middle - (width << i), 1) for i in range(40)) if n == 1 or not holds(n))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high * step


def discrete_release(value, sensitivity, rho, *, rng):
    """Add discrete Gaussian noise to an integer or to each coordinate of an integer array, exactly.

    Privacy
        rho-zCDP, with no floating-point caveat, for the neighbour relation in which `sensitivity` bounds the l2
        distance of the values of neighbouring tables. `curves.zcdp_epsilon` gives an (epsilon, delta) for any
        dimension; for one integer `discrete_delta` is exact. Pass `noise.SYSTEM` for a real release.

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
    sigma, value = _zcdp_sigma(sensitivity, rho), _int64(value)
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
