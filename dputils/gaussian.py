"""The Gaussian mechanism: scales, releases of numbers, vectors and Gram matrices, law and errors.

Letters: f the query, Delta its l2 sensitivity, sigma the standard deviation of the noise y, mu =
Delta/sigma; X a matrix of n rows and d columns; alpha an accuracy that is missed with probability
beta.

A scale turns an l2 sensitivity and a pair (epsilon, delta) into sigma. What a release costs depends
on mu alone: N(0, I) against its shift by a vector of length mu is, along that vector, N(0, 1)
against N(mu, 1), and the other coordinates say nothing. The noise is floating point and serves
experiments; `discrete_gaussian` is exact.

Ranges: sensitivities and sigmas 1e-100 to 1e100, epsilon 0 to 1e3, delta 1e-300 to 1, beta 1e-250
to 1 - 2^-53. With these no sum of a value and its noise leaves the floats.
"""

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from scipy import special

from dputils import checks, noise, private
from dputils.accounting import curves
from dputils.accounting.costs import Approximate, Gaussian
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.rounding import lower, upper
from dputils.laplace import beta_of_one, centred
from dputils.sensitivity import Sensitivity, named, of_gram, reader, size_of

_NORMS = ("absolute", "l2")
_MARGIN = 4 * 2.0**-52  # relative; above the rounding of the root of a sum of squares


# ------------------------------------------------------------------------------------------ scales


def classical_sigma(sensitivity, epsilon, delta):
    """Return sigma = sqrt(2 ln(1.25/delta)) sensitivity/epsilon, for epsilon below 1 only.

    `sigma` is smaller and holds for every epsilon.

    Parameters
    ----------
    sensitivity : Sensitivity in the norm "absolute" or "l2", or its size
    epsilon : float
        From 1e-6, below 1.
    delta : float
        From 1e-300, below 1.

    Source
        Dwork and Roth 2014, Theorem A.1.
    """
    size = checks.within("sensitivity", size_of(sensitivity, *_NORMS), *checks.SIZES)
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    checks.within("delta", checks.probability("delta", delta), *checks.DELTAS)
    if epsilon >= 1:
        raise ValueError(
            f"epsilon must be below 1, got {epsilon!r}: the classical formula is proved "
            "there only; use sigma"
        )
    factor = math.sqrt(2 * math.log(1.25 / float(delta)))
    return checks.within("sigma", factor * float(size) / float(epsilon), *checks.SIZES)


def sigma(sensitivity, epsilon, delta):
    """Return the smallest sigma whose Gaussian noise is (epsilon, delta)-private.

    It is rounded up, by at most 1e-12 of it.

    Parameters
    ----------
    sensitivity : Sensitivity in the norm "absolute" or "l2", or its size, a float or array
    epsilon : float or array
        From 0 to 1e3.
    delta : float or array
        From 1e-300, below 1. The three broadcast.

    Returns
    -------
    float or array
        sensitivity/mu, in the unit of the sensitivity.

    Raises
    ------
    ValueError
        If an argument is out of range, or sigma is.

    Source
        Balle and Wang 2018, Theorem 8 and Algorithm 1; `curves.gaussian_mu`.
    """
    if isinstance(sensitivity, Sensitivity):
        sensitivity = size_of(sensitivity, *_NORMS)
    size = checks.floats("sensitivity", sensitivity, *checks.SIZES)
    checks.floats("epsilon", epsilon, *checks.EPSILONS, zero=True)
    curves.deltas(delta)
    with np.errstate(over="ignore"):
        root = size / curves.gaussian_mu(epsilon, delta)  # mu's margin covers the division
    sigmas = checks.floats("sigma", root, *checks.SIZES)
    return sigmas if sigmas.ndim else sigmas.item()


_kept = lru_cache(maxsize=64)(sigma)  # releases repeat the same calibration


def _sigma_of_numbers(sensitivity, epsilon, delta):
    """Return `sigma` for one release, whose three arguments are numbers."""
    size = size_of(sensitivity, *_NORMS)
    checks.not_negative("epsilon", epsilon)
    checks.probability("delta", delta)
    return _kept(size, epsilon, delta)


def combined_mu(sensitivities, sigmas):
    """Return the mu of several independent Gaussian releases seen as one.

    The root of the sum of (sensitivity/sigma)^2, rounded up.

    Each release divided by its sigma has unit noise; all of them together are one vector with unit
    noise, whose l2 sensitivity adds in squares.

    Parameters
    ----------
    sensitivities, sigmas : float or array
        They broadcast; between 1e-100 and 1e100.

    Source
        Dong, Roth, Su 2022, Corollary 3.3.
    """
    sizes = checks.floats("sensitivities", sensitivities, *checks.SIZES)
    sigmas = checks.floats("sigmas", sigmas, *checks.SIZES)
    ratios = np.asarray(sizes / sigmas)
    if not ratios.size:
        raise ValueError(
            "sensitivities and sigmas must not be empty, got shapes "
            f"{sizes.shape} and {sigmas.shape}"
        )
    return math.hypot(*ratios.flat) * (1 + _MARGIN)


# ---------------------------------------------------------------------------------------- releases


def release(value, sensitivity, epsilon, delta, *, rng):
    """Add Gaussian noise of standard deviation `sigma` to a number or to each entry of an array.

    Privacy
        In real arithmetic (epsilon, delta)-differentially private for the neighbour relation in
        which `sensitivity` bounds the l2 distance of the values of neighbouring tables. In floating
        point it is not (see `laplace.release`): for experiments only; release integers with
        `discrete_gaussian.release`. Public: the type and shape of the value, sensitivity, epsilon,
        delta.

    Parameters
    ----------
    value : number or array of numbers of any shape
        Private: the exact answer, read by `private.reals`.
    sensitivity : Sensitivity in the norm "absolute" or "l2", or its size
        In the unit of the value.
    epsilon, delta : float
        As in `sigma`.
    rng : numpy.random.Generator

    Returns
    -------
    float or array
        Of the shape of `value`.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Per coordinate: unbiased, variance sigma^2, P(|error| > t) = `tail`(t, sigma).

    Source
        Balle and Wang 2018, Theorem 8.
    """
    deviation = _sigma_of_numbers(sensitivity, epsilon, delta)
    return _draw(private.reals(value), deviation, rng=rng)


def mechanism(sensitivity, epsilon=None, delta=None, *, mu=None):
    """Return the Gaussian mechanism for answers of a sensitivity, for a `Ledger`.

    Privacy
        As `release`, for the relation and the unit of the sensitivity. Its costs are
        `Gaussian(mu)`, and, where they were asked for, `Approximate(epsilon, delta)`; sigma is
        rounded up, so that neither is below the truth.

    Parameters
    ----------
    sensitivity : Sensitivity
        In the norm "absolute" for one number, in "l2" for arrays of any shape.
    epsilon, delta : float, optional
        As in `sigma`, epsilon from 1e-6.
    mu : int, float or Fraction, optional
        In place of epsilon and delta: sensitivity/sigma, between 1e-6 and 1e3.

    Returns
    -------
    Mechanism
        Its law is that of the release minus the value, coordinate by coordinate, at c mu.
    """
    named(sensitivity, *_NORMS)
    deviation, costs = _calibrated(sensitivity, epsilon, delta, mu)
    return Mechanism(
        name=f"Gaussian mechanism, sigma {deviation:.6g}",
        costs=costs,
        neighbours=sensitivity.neighbours,
        unit=sensitivity.unit,
        read=reader(private.reals, sensitivity),
        draw=partial(_draw, sigma=deviation),
        sensitivity=sensitivity,
        law=lambda c: partial(cdf, sigma=deviation / c),
    )


def _calibrated(sensitivity, epsilon, delta, mu):
    """Return sigma, at least sensitivity/mu, and the costs of noise of this sigma."""
    if mu is None:
        mu = _mu_of(epsilon, delta)
        costs = (Gaussian(mu), Approximate(epsilon, delta))
    elif epsilon is not None or delta is not None:
        raise ValueError(f"mu must be left out beside epsilon and delta, got {mu!r}")
    else:
        costs = (Gaussian(checks.within("mu", mu, *checks.EPSILONS)),)
    deviation = upper(_exact_size(sensitivity) / costs[0].mu)
    return checks.within("sigma", deviation, *checks.SIZES), costs


def _mu_of(epsilon, delta):
    """Return the largest mu that implies (epsilon, delta), read as decimals, as a fraction."""
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    checks.within("delta", checks.probability("delta", delta), *checks.DELTAS)
    most = lower(checks.as_fraction("epsilon", epsilon))
    return Fraction(curves.gaussian_mu(most, lower(checks.as_fraction("delta", delta))))


def _exact_size(sensitivity):
    """Return the size as a fraction: of a float the larger of its decimal and its binary value."""
    size = checks.within("sensitivity", sensitivity.size, *checks.SIZES)
    return max(checks.as_fraction("sensitivity", size), Fraction(size))


def _draw(value, sigma, *, rng):
    noisy = value + noise.gaussian(sigma, value.shape or None, rng=rng)
    return noisy if value.shape else float(noisy)


def symmetric_noise(d, sigma, *, rng):
    """Draw a symmetric d x d Gaussian matrix that is isotropic in the Frobenius norm.

    Its variance is sigma^2 on the diagonal and sigma^2/2 off it: an entry off the diagonal stands
    twice in the matrix, so half the variance gives it the weight of one coordinate. It is the
    symmetric part of a matrix of d^2 independent noises of sigma. `sigma` is measured against a
    Frobenius sensitivity (`sensitivity.of_gram`).

    Parameters
    ----------
    d : int, at least 1
    sigma : float
    rng : numpy.random.Generator

    Returns
    -------
    array of shape (d, d)
    """
    side = checks.integer("d", d, low=1)
    z = noise.gaussian(sigma, (side, side), rng=rng)
    return (z + z.T) / 2


def coordinates(matrix):
    """Return symmetric matrices as vectors: the diagonal, and what is above it times sqrt 2.

    Parameters
    ----------
    matrix : array of shape (..., d, d)

    Returns
    -------
    array of shape (..., d(d + 1)/2)
        Its Euclidean length is the Frobenius norm; of `symmetric_noise` all entries are independent
        N(0, sigma^2).
    """
    i, j = np.triu_indices(matrix.shape[-1])
    return matrix[..., i, j] * np.where(i == j, 1, math.sqrt(2))


def gram_release(X, norm, neighbours, epsilon, delta, *, rng):
    """Release the Gram matrix X'X of rows clipped to a public norm, with symmetric Gaussian noise.

    In floating point.

    Privacy
        In real arithmetic (epsilon, delta)-differentially private for `neighbours`; a record is a
        row. Public: norm, the number d of columns, epsilon, delta; the number of rows is private
        under add-remove. For experiments only (`release`).

    Parameters
    ----------
    X : array of numbers of shape (n, d), d at least 1, n at least 0
        Private. A row that holds a NaN or, as floats, an infinity counts as a row of zeros; a row
        longer than norm is shortened to it. Masked arrays and matrices are refused: a mask would be
        ignored, `*` is another product.
    norm : float
        Bound on the Euclidean length of a row, between 1e-50 and 1e49.
    neighbours : {"add-remove", "replace-one"}
    epsilon, delta : float
        As in `sigma`.
    rng : numpy.random.Generator

    Returns
    -------
    array of shape (d, d)
        Symmetric; it may have negative eigenvalues.

    Raises
    ------
    ValueError
        If a public argument is out of range, or X is no such array.

    Error
        Besides clipping: unbiased, variance sigma^2 on the diagonal and sigma^2/2 off it, so the
        expected squared Frobenius error is sigma^2 d(d + 1)/2, with sigma =
        `sigma`(`sensitivity.of_gram`, epsilon, delta).

    Source
        Dwork, Talwar, Thakurta, Zhang 2014 (Gaussian noise on the Gram matrix).
    """
    deviation = _sigma_of_numbers(of_gram(norm, neighbours), epsilon, delta)
    return _draw_symmetric(_gram(X, norm), deviation, rng=rng)


def gram_mechanism(norm, columns, neighbours, epsilon=None, delta=None, *, mu=None, unit="row"):
    """Return the mechanism of `gram_release`, for a `Ledger`.

    It clips rows, multiplies, and adds symmetric noise.

    Privacy
        As `gram_release`, for a `unit` that has one row. Its costs are those of `mechanism`.

    Parameters
    ----------
    norm, neighbours
        As in `gram_release`.
    columns : int
        The number d of columns, public.
    epsilon, delta, mu
        As in `mechanism`.
    unit : str
        What is added, removed or replaced.

    Returns
    -------
    Mechanism
        It reads a matrix of rows as the Gram matrix of the clipped rows. Its law is that of
        `coordinates` of the release minus this matrix, at c mu.
    """
    d = checks.integer("columns", columns, low=1)
    moved = of_gram(norm, neighbours, unit=unit)
    deviation, costs = _calibrated(moved, epsilon, delta, mu)
    return Mechanism(
        name=f"Gram matrix of {d} columns, Gaussian noise of sigma {deviation:.6g}",
        costs=costs,
        neighbours=neighbours,
        unit=unit,
        read=partial(_gram, norm=norm, columns=d),
        draw=partial(_draw_symmetric, sigma=deviation),
        sensitivity=moved,
        law=lambda c: partial(cdf, sigma=deviation / c),
    )


def _draw_symmetric(gram, sigma, *, rng):
    return gram + symmetric_noise(len(gram), sigma, rng=rng)


def _gram(X, norm, columns=None):
    """Return the Gram matrix of the clipped rows of X, whose type and shape are public."""
    rows = clip_rows(_table(X, columns), norm)
    return rows.T @ rows


def _table(X, columns):
    """Return X as floats; refuse what is no array of numbers of shape (n, d), d = columns."""
    plain = isinstance(X, np.ndarray) and not isinstance(X, (np.ma.MaskedArray, np.matrix))
    if not plain or X.dtype.kind not in "iufb" or X.ndim != 2 or X.shape[1] == 0:
        shown = (X.dtype.name, X.shape) if plain else type(X).__name__
        raise ValueError(f"X must be a numpy array of numbers of shape (n, d), got {shown}")
    if columns not in (None, X.shape[1]):
        raise ValueError(f"X must have {columns} columns, got {X.shape[1]}")
    with np.errstate(over="ignore"):  # of longer formats; a warning would tell of the rows
        return X.astype(float)


def clip_rows(rows, norm):
    """Shorten the rows of a float array to a length; a row that is not finite becomes zero.

    Lengths are taken after division by the largest entry: squares of large entries would overflow.

    Parameters
    ----------
    rows : float array of shape (n, d)
        Private.
    norm : float
        Public, positive.

    Returns
    -------
    float array of shape (n, d)
    """
    norm = float(checks.positive("norm", norm))
    with np.errstate(all="ignore"):
        rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
        largest = np.abs(rows).max(axis=1, keepdims=True)
        unit = rows / np.where(largest > 0, largest, 1.0)
        length = np.sqrt((unit * unit).sum(axis=1, keepdims=True))  # between 1 and sqrt(d), or 0
        longest = norm / np.maximum(length, 1)
        return np.where(largest > longest, unit * longest, rows)


# ---------------------------------------------------------------------------------- law and errors


def logpdf(x, sigma, centre=0):
    """Log density of N(centre, sigma^2) at x (any shape)."""
    s = _number(sigma)
    return -((centred(x, centre) / s) ** 2) / 2 - math.log(s * math.sqrt(2 * math.pi))


def cdf(x, sigma, centre=0):
    """Distribution function of N(centre, sigma^2) at x (any shape)."""
    return special.ndtr(centred(x, centre) / _number(sigma))


def tail(t, sigma):
    """P(|Y| > t) of N(0, sigma^2) for t >= 0, and 1 below (any shape)."""
    return special.erfc(np.maximum(t, 0) / (math.sqrt(2) * _number(sigma)))


def variance(sigma):
    """Variance sigma^2 of Gaussian noise."""
    return _number(sigma) ** 2


def accuracy(sigma, beta, k=1):
    """Return the alpha within which all of k noises stay with probability exactly 1 - beta.

    For discrete Gaussian noise of the same sigma alpha + 1 does: P(|Z| >= m) <= P(|Y| >= m - 1) for
    whole m >= 1 (Canonne, Kamath, Steinke 2020); `discrete_gaussian.accuracy` is the smallest
    integer.
    """
    return _number(sigma) * math.sqrt(2) * float(special.erfcinv(beta_of_one(beta, k)))


def _number(sigma):
    return float(checks.within("sigma", sigma, *checks.SIZES))
