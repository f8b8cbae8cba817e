"""The Gaussian mechanism: scales, laws, errors and releases of vectors, Gram matrices and integers.

A scale turns an l2 sensitivity and a pair (epsilon, delta) into a standard deviation sigma. What a release of l2
sensitivity Delta costs depends on mu = Delta/sigma alone: N(0, I) against its shift by a vector of length mu is, along
that vector, N(0, 1) against N(mu, 1), and the other coordinates say nothing. `release` and `gram_release` are floating
point and serve experiments; `discrete_release` is exact and takes `noise.SYSTEM` for real releases.
"""
import math
from functools import lru_cache

import numpy as np
from scipy import special

from dputils import checks, noise, private
from dputils.accounting import curves
from dputils.sensitivity import of_gram


def classical_sigma(sensitivity, epsilon, delta):
    """Return sigma = sqrt(2 ln(1.25/delta)) sensitivity/epsilon, for epsilon below 1 only (Dwork and Roth 2014,
    Theorem A.1). Numbers only. `sigma` is smaller and holds for every epsilon."""
    _public(sensitivity, checks.epsilon(epsilon), delta)
    if epsilon >= 1:
        raise ValueError(f"epsilon must be below 1, got {epsilon!r}: the classical formula is proved there only; use "
                         "sigma")
    size, e, d = checks.floats("sensitivity", sensitivity, "positive"), checks.floats("epsilon", epsilon, "positive"), float(delta)
    log = math.log(1.25 / d) if d > 1e-300 else math.log(1.25) - math.log(checks.floats("delta", delta, "share"))
    with np.errstate(over="ignore"):
        return _deviation(math.sqrt(2 * log) * size / e, sensitivity, epsilon, delta)


def sigma(sensitivity, epsilon, delta):
    """Return the smallest sigma whose Gaussian noise is (epsilon, delta)-private, rounded up by at most 1e-12 of it.

    Parameters
    ----------
    sensitivity, epsilon, delta : float or array
        l2 sensitivity, positive; epsilon at least 0; delta strictly between 0 and 1. They broadcast.

    Returns
    -------
    float or array
        sensitivity/mu, in the unit of the sensitivity.

    Source
        Balle and Wang 2018, Theorem 8 and Algorithm 1; `curves.gaussian_mu`.
    """
    size = checks.floats("sensitivity", sensitivity, "positive")
    with np.errstate(over="ignore", divide="ignore"):
        sigma = size / curves.gaussian_mu(epsilon, delta)  # mu's margin covers the division
    return _deviation(sigma, sensitivity, epsilon, delta)


def release(value, sensitivity, epsilon, delta, *, rng):
    """Add Gaussian noise of standard deviation `sigma` to a number or to each coordinate of an array.

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
    value = private.reals(value)
    with np.errstate(over="ignore"):
        noisy = value + noise.gaussian(_sigma(sensitivity, epsilon, delta), value.shape or None, rng=rng)
    return noisy if value.shape else float(noisy)


_cached = lru_cache(maxsize=64)(sigma)  # releases repeat the same calibration


def _sigma(sensitivity, epsilon, delta):
    return _cached(*_public(sensitivity, epsilon, delta))


def _public(sensitivity, epsilon, delta):
    """Return the three public numbers of a release; arrays are refused."""
    return checks.positive("sensitivity", sensitivity), checks.not_negative("epsilon", epsilon), checks.probability(
        "delta", delta)


def _deviation(sigma, sensitivity, epsilon, delta):
    """Return standard deviations, subnormal ones rounded up; refuse those beyond all floats."""
    if np.isinf(sigma).any():
        raise ValueError(f"sensitivity, epsilon and delta ask for a sigma beyond all floats, got {sensitivity!r}, "
                         f"{epsilon!r}, {delta!r}")
    sigma = np.where(sigma < 1e-300, np.nextafter(sigma, 1), sigma)
    return sigma if sigma.ndim else sigma.item()


def logpdf(x, sigma):
    """Log density of N(0, sigma^2) at x (any shape)."""
    s = float(checks.positive("sigma", sigma))
    return -(np.asarray(x) / s) ** 2 / 2 - math.log(s * math.sqrt(2 * math.pi))


def cdf(x, sigma):
    """Distribution function of N(0, sigma^2) at x (any shape)."""
    return special.ndtr(np.asarray(x) / float(checks.positive("sigma", sigma)))


def tail(t, sigma):
    """P(|Y| > t) of N(0, sigma^2) for t >= 0, and 1 below (any shape)."""
    return special.erfc(np.maximum(t, 0) / (math.sqrt(2) * float(checks.positive("sigma", sigma))))


def accuracy(sigma, beta, k=1):
    """The alpha for which all of k independent real noises stay within alpha with probability exactly 1 - beta.

    For discrete Gaussian noise of the same sigma alpha + 1 does: P(|Z| >= m) <= P(|Y| >= m - 1) for whole m >= 1
    (Canonne, Kamath, Steinke 2020).
    """
    checks.positive("sigma", sigma), checks.probability("beta", beta), checks.integer("k", k, low=1)
    one = -math.expm1(math.log1p(-beta) / k) if k < 1 << 1000 else 0.0  # the share of one noise
    if one < 1e-300:  # its logarithm then, as it is about -log1p(-beta)/k
        log = math.log(-math.log1p(-float(checks.floats("beta", beta, "share")))) - math.log(2 * k)
        return -float(sigma) * float(special.ndtri_exp(log))
    return float(sigma) * math.sqrt(2) * float(special.erfcinv(one))


def combined_mu(sensitivities, sigmas):
    """Return the mu of several independent Gaussian releases seen as one: sqrt(sum (sensitivity/sigma)^2), rounded up.

    Each release divided by its sigma has unit noise; all of them together are one vector with unit noise, whose l2
    sensitivity adds in squares (Dong, Roth, Su 2022, Corollary 3.3). Arrays or numbers that broadcast, positive.
    """
    sizes, sigmas = checks.floats("sensitivities", sensitivities, "positive"), checks.floats("sigmas", sigmas, "positive")
    with np.errstate(over="ignore"):
        ratios = np.asarray(sizes / sigmas)
    if not ratios.size:
        raise ValueError(f"sensitivities and sigmas must not be empty, got shapes {sizes.shape} and {sigmas.shape}")
    ratios = np.where(ratios < 1e-300, np.nextafter(ratios, 1), ratios)  # subnormal: the margin below would do nothing
    return math.hypot(*ratios.flat) * (1 + 4 * 2.0**-52)


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
        Frobenius error is sigma^2 d(d + 1)/2, with sigma = `sigma`(`sensitivity.of_gram`, epsilon, delta).
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
