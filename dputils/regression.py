"""Linear regression from two sums: X'X and X'y, published once with Gaussian noise.

Letters: X the table of n rows and d columns, y the response, G = X'X, h = X'y, theta the
coefficients; B_x bounds the length of a row, B_y the size of a response. One row adds x x' to G and
x y to h, whatever the other rows are. s is the standard deviation of the noise in units of the
bounds: s B_x^2 on the diagonal of G, s B_x^2/sqrt(2) off it, s B_x B_y on h. w and V are the
eigenvalues and eigenvectors of the noisy G.

What is exact. Each record is rounded by itself to whole steps, 2^15 of which are B_x (or B_y), and
is never longer than 2^15 of them; so both sums are whole numbers, added without rounding, with a
known sensitivity, and the noise is discrete Gaussian. All partial sums of a piece are below 2^53,
so that floating-point matrix products give them exactly.

What it costs. Each number of the triangle of G and of h has discrete Gaussian noise of its own, of
some sigma_i in steps, and each answer is a whole number. If continuous noise of the variances
sigma_i^2 - 16 makes the release mu-Gaussian private, with mu from 10^-7 to 40, and there are at
most 10^20 numbers, then the discrete noise makes it mu'-Gaussian private with mu' = (1 + 2^-40) mu:
Theorem 73.3 of the chapter on sums of products, with its proof in the appendix there. The variances
sigma^2 on the diagonal and sigma^2/2 off it make this 16 a 32 in the code. (Noise of a few steps,
booked with the mu of a bell of the same sigma, has no such bound: `discrete_gaussian`.)

Source
    Vu and Slavkovic 2009, Foulds et al. 2016 (sums with noise); Dwork, Talwar, Thakurta, Zhang 2014
    (the Gram matrix); Wang 2018 (AdaSSP); Dong, Roth, Su 2022 (several releases as one); Peikert
    2010, Theorem 3.1 (two Gaussian steps).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from dputils import checks, gaussian, noise, private
from dputils.accounting import curves
from dputils.accounting.costs import Approximate, Gaussian
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.rounding import ceiling, lower, upper
from dputils.sensitivity import Sensitivity

STEPS = 1 << 15  # of a bound: a record is rounded to B/2^15
_EXACT = 2.0**53
_SQUARE = STEPS * STEPS  # one unit of both sums, in steps
_SMOOTHED = 32  # twice the 16 in the head of this module
_LOSS = 1 + Fraction(1, 1 << 40)
_MUS = (Fraction(1, 10**6), 40)
_SIGMAS = (1 << 10, 1 << 50)  # in steps
_NORMS = (1e-40, 1e40)
_EIGENVALUE = 1 + Fraction(1, 1 << 10)  # its sensitivity, with what LAPACK rounds
_COLUMNS = 1000  # of AdaSSP: the rounding of an eigenvalue grows with them
_PIECE = 1 << 18  # numbers of X worked on at a time: they stay in the processor's cache
_MANY = 1 << 17  # numbers of a piece from which on the pass over it is compiled
METHODS = ("inverse", "ridge", "spectral")


@dataclass(frozen=True)
class Bounds:
    """What is public of a table of rows and responses.

    Parameters
    ----------
    columns : int
        The number d of columns of X, at least 1.
    norm : float
        B_x, the longest Euclidean length of a row, between 1e-40 and 1e40. A column of ones for an
        intercept counts, too.
    response : float
        B_y, the largest size of a response, in the same range.
    """

    columns: int
    norm: float
    response: float

    def __post_init__(self):
        """Check the fields."""
        object.__setattr__(self, "columns", checks.integer("columns", self.columns, low=1))
        for name in ("norm", "response"):
            value = float(checks.within(name, getattr(self, name), *_NORMS))
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Sums:
    """G = X'X, of shape (d, d), and h = X'y, of shape (d,), exact or noisy."""

    gram: np.ndarray
    products: np.ndarray


@dataclass(frozen=True)
class Fit:
    """A published regression.

    Parameters
    ----------
    coefficients : array of shape (d,)
    gram, products : arrays of shape (d, d) and (d,)
        The noisy sums, in the units of the data: published as well.
    noise : float
        Standard deviation of the diagonal of `gram`; off it is smaller by sqrt 2.
    product_noise : float
        Standard deviation of each of the `products`.
    penalty : float
        What was added to the diagonal of `gram` before it was inverted.
    """

    coefficients: np.ndarray
    gram: np.ndarray
    products: np.ndarray
    noise: float
    product_noise: float
    penalty: float


# --------------------------------------------------------------------------------------- two sums


def sums(table, bounds):
    """Return X'X and X'y of the clamped and rounded rows, in one pass of bounded memory.

    Parameters
    ----------
    table : tuple (X, y), or an iterable of such tuples
        Private. X of shape (n, d), y of shape (n,), n at least 0, arrays, columns, data frames or
        lists; of an iterable each piece is read once and forgotten. A record is a row of X with its
        response: a row longer than the norm is shortened to it, a response is clamped, and a record
        with anything missing, or an infinity in its row, counts as zeros. There are fewer than 2^32
        rows.
    bounds : Bounds

    Returns
    -------
    Sums
        In the units of the data. A record is rounded to `STEPS` steps of each bound, by itself.

    Raises
    ------
    ValueError
        If a type or shape, which are public, is none of these.
    """
    return _in_units(*_in_steps(table, bounds), bounds)


def _in_steps(table, bounds):
    """Return G and h as whole numbers of steps, int64."""
    d = bounds.columns
    width = -(-(d + 1) // 4) * 4  # of records (x, y, 0, ...): products are faster with fours
    total = np.zeros((width, width), np.int64)
    for X, y in [table] if isinstance(table, tuple) else table:
        X, y = private.table(X, y, d)
        rows = max(1024, _PIECE // d)
        space = np.zeros((min(rows, len(X)), width))
        for start in range(0, len(X), rows):
            records = _whole(X[start : start + rows], y[start : start + rows], bounds, space)
            total += (records.T @ records).astype(np.int64)  # below 2^53: no rounding
    return total[:d, :d], total[:d, d]


def _whole(X, y, bounds, space):
    """Return the records (x, y) of a piece in whole steps, in `space`; no x is longer than STEPS.

    Each row by itself: where a row stands, and beside which others, changes nothing.
    """
    rows, responses = private.floats(X), private.floats(y)
    records = space[: len(rows)]
    steps, last = records[:, : bounds.columns], records[:, bounds.columns]
    compiled = rows.size >= _MANY
    written = _compiled(_round_and_shorten) if compiled else _round
    with np.errstate(all="ignore"):  # a warning would tell of the rows
        squares = written(rows, responses, STEPS / bounds.norm, STEPS / bounds.response, records)
        odd = np.flatnonzero(~(squares <= _SQUARE))
        if odd.size:
            steps[odd] = _shortened(steps[odd], squares[odd], rows, odd, bounds.norm)
    records[np.isnan(last)] = 0
    return records


def _round(rows, responses, per_x, per_y, records):
    """Write the records in whole steps, not yet shortened; return the squared length of each x."""
    steps, last = records[:, : rows.shape[1]], records[:, rows.shape[1]]
    np.multiply(rows, per_x, out=steps)
    np.clip(responses * per_y, -STEPS, STEPS, out=last)
    np.rint(records, out=records)
    return np.vecdot(steps, steps)


def _round_and_shorten(rows, responses, per_x, per_y, records):
    """Do what `_round` and, up to 2^53, `_shortened` do, with one look at a row; to be compiled."""
    n, d = rows.shape
    squares = np.empty(n)
    for i in range(n):
        square, nearest = 0.0, 0.0
        for j in range(d):
            step = np.rint(rows[i, j] * per_x)
            records[i, j] = step
            square += step * step
        if _SQUARE < square < _EXACT:
            factor = STEPS / np.sqrt(square)
            for j in range(d):
                nearest += np.rint(records[i, j] * factor) ** 2
            for j in range(d):
                exact = records[i, j] * factor
                records[i, j] = np.rint(exact) if nearest <= _SQUARE else np.trunc(exact)
            square = 0.0
        squares[i] = square
        records[i, d] = np.rint(min(max(responses[i] * per_y, -STEPS), STEPS))
    return squares


@lru_cache(None)
def _compiled(kernel):
    import numba

    return numba.njit(cache=True, error_model="numpy", fastmath={"reassoc"})(kernel)


def _shortened(steps, squares, rows, odd, norm):
    """Return rows that are too long in whole steps, none longer than STEPS; odd ones as zeros.

    A sum of squares of whole numbers that is below 2^53 is exact, in whatever order it was added:
    so it shortens a row in the same way beside any other rows.
    """
    far = ~(squares < _EXACT)
    exact = steps * (STEPS / np.sqrt(squares))[:, None]
    if far.any():
        exact[far] = _from_afar(rows[odd[far]], norm)
    nearest = np.rint(exact)
    over = np.flatnonzero(np.vecdot(nearest, nearest) > _SQUARE)
    nearest[over] = np.trunc(exact[over])  # no longer than before, and whole: at most STEPS^2
    return nearest


def _from_afar(rows, norm):
    """Return rows of any length, shortened to STEPS, and zeros for rows that are not finite."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    unit = rows / np.where(largest > 0, largest, 1.0)
    square = np.zeros((len(rows), 1))
    for column in unit.T:  # in this order in every row: a sum's rounding depends on it
        square += (column * column)[:, None]
    return unit * np.minimum(largest * (STEPS / norm), STEPS / np.sqrt(np.maximum(square, 1)))


def _in_units(gram, products, bounds):
    x, y = bounds.norm / STEPS, bounds.response / STEPS
    return Sums(gram * (x * x), products * (x * y))


# ------------------------------------------------------------------------------ sensitivity, scale


def sensitivity_of(neighbours, *, unit="row"):
    """Return the l2 sensitivity of (X'X, X'y) as one vector, in units of the bounds.

    X'X is measured in B_x^2 as a matrix (Frobenius norm), X'y in B_x B_y.

    Returns
    -------
    Sensitivity
        sqrt(2) under add-remove: 1 from each sum. sqrt(4.5) under replace-one: the two sums alone
        move by up to sqrt(2) and 2, but not for the same pair of rows. Both are rounded up, and
        attained from two columns on.

    Source
        Derived in the chapter on sums of products.
    """
    square = 2 if checks.neighbours(neighbours) == "add-remove" else 4.5
    return Sensitivity(math.nextafter(math.sqrt(square), 5), "l2", neighbours, unit)


def scale(neighbours, epsilon, delta, *, pieces=2):
    """Return s, the standard deviation in units of the bounds that (epsilon, delta) asks for.

    Parameters
    ----------
    neighbours : {"add-remove", "replace-one"}
    epsilon, delta : float
        As in `gaussian.sigma`, epsilon from 1e-6.
    pieces : {2, 3}
        2 for X'X and X'y, 3 if the smallest eigenvalue of X'X, which moves by at most B_x^2 under
        both relations, is published as well with noise of the same s.

    Returns
    -------
    float
        By the exact curve of one Gaussian release, all pieces jointly.
    """
    mu = curves.gaussian_mu(*_budget(epsilon, delta))
    return float(_square_moved(neighbours, pieces)) ** 0.5 / mu


def _square_moved(neighbours, pieces):
    if checks.integer("pieces", pieces) not in (2, 3):
        raise ValueError(f"pieces must be 2 or 3, got {pieces!r}")
    square = 2 if checks.neighbours(neighbours) == "add-remove" else Fraction(9, 2)
    return Fraction(square) + pieces - 2


def _budget(epsilon, delta):
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    checks.within("delta", checks.probability("delta", delta), *checks.DELTAS)
    return lower(checks.as_fraction("epsilon", epsilon)), lower(checks.as_fraction("delta", delta))


@dataclass(frozen=True)
class _Noise:
    """Whole-numbered noise: sigma in steps of the diagonal and of X'y, and mu with its costs."""

    sigma: int
    costs: tuple

    @property
    def beside(self):
        """Sigma off the diagonal: sigma/sqrt(2), rounded up."""
        return math.isqrt(self.sigma * self.sigma // 2) + 1

    @property
    def share(self):
        """The noise s in units of the bounds."""
        return self.sigma / _SQUARE


def _joint(neighbours, epsilon, delta, pieces):
    """Return the noise that (epsilon, delta) asks for, by the exact curve."""
    budget = _budget(epsilon, delta)
    mu = Fraction(float(curves.gaussian_mu(*budget)))
    _within_mus(mu)
    moved = _square_moved(neighbours, pieces) * _SQUARE**2
    sigma = _root_above(moved * (_LOSS / mu) ** 2 + _SMOOTHED)
    return _checked(_Noise(sigma, (Gaussian(mu), Approximate(epsilon, delta))))


def _stated(neighbours, share, delta, pieces):
    """Return the noise of a stated share, with what it really costs."""
    sigma = math.ceil(checks.within("noise", share, 1e-6, 1e9) * _SQUARE)
    _checked(_Noise(sigma, ()))
    moved = _square_moved(neighbours, pieces) * _SQUARE**2
    square = moved / (sigma * sigma - _SMOOTHED) * _LOSS**2
    mu = ceiling(Fraction(math.nextafter(math.sqrt(upper(square)), math.inf)))
    _within_mus(mu)
    epsilon = ceiling(Fraction(float(curves.gaussian_epsilon(mu, lower(delta)))))
    costs = (Gaussian(mu), *((Approximate(epsilon, delta),) if epsilon else ()))
    return _Noise(sigma, costs)


def _within_mus(mu):
    if not _MUS[0] <= mu <= _MUS[1]:
        raise ValueError(
            f"epsilon and delta must ask for a mu between 1e-6 and 40, got {float(mu)!r}"
        )


def _root_above(square):
    """Return a whole number whose square is at least a fraction."""
    return math.isqrt(math.ceil(square)) + 1


def _checked(noise_):
    if not _SIGMAS[0] <= noise_.sigma <= _SIGMAS[1]:
        share = noise_.sigma / _SQUARE
        raise ValueError(
            "epsilon and delta must ask for noise between 1e-6 and 1e6 times the bounds, "
            f"got {share!r}"
        )
    return noise_


# --------------------------------------------------------------------------------- post-processing


def ridge(gram, products, penalty=0.0):
    """Return the coefficients (G + penalty I)^-1 h: of least squares for a penalty of 0.

    Privacy
        Computed from released sums it costs nothing.

    Parameters
    ----------
    gram : array of shape (..., d, d)
        Symmetric; noisy ones may have negative eigenvalues.
    products : array of shape (..., d)
    penalty : float or array of shape (...)
        Added to each eigenvalue. It should exceed what noise can take away from the smallest one.

    Returns
    -------
    array of shape (..., d)
        A direction whose eigenvalue with the penalty is exactly 0 gets no part.

    Source
        Hoerl and Kennard 1970.
    """
    extra = np.asarray(penalty, dtype=float)[..., None]
    return _filtered(gram, products, lambda w: _inverse(w + extra))


def spectral_filter(gram, products, threshold):
    """Return the coefficients V diag(w/(w^2 + threshold^2), where w > 0) V' h of noisy sums.

    A direction that holds far more than the threshold is inverted, one that holds less is shrunk
    towards 0, one whose eigenvalue is not positive, which only noise can make, is left out. No
    third release is needed.

    Privacy
        As `ridge`.

    Parameters
    ----------
    gram, products
        As in `ridge`.
    threshold : float or array of shape (...)
        Of the size of the noise of an eigenvalue, positive: s B_x^2 sqrt(2 d) is the spectral norm
        that the noise of `ssp_mechanism` has for large d.

    Returns
    -------
    array of shape (..., d)
    """
    level = np.asarray(threshold, dtype=float)[..., None]
    if not (level > 0).all():
        raise ValueError(f"threshold must be positive, got {threshold!r}")
    return _filtered(gram, products, lambda w: np.maximum(w, 0) / (w * w + level * level))


def _filtered(gram, products, of_eigenvalues):
    """Return V f(w) V' h."""
    values, vectors = np.linalg.eigh(np.asarray(gram, dtype=float))
    h = np.asarray(products, dtype=float)[..., None]
    inner = np.swapaxes(vectors, -1, -2) @ h
    return (vectors @ (of_eigenvalues(values)[..., None] * inner))[..., 0]


def _inverse(values):
    zero = values == 0
    return np.where(zero, 0.0, 1 / np.where(zero, 1.0, values))


def standardised(released, exact, scales):
    """Return the noise of released sums, each coordinate divided by its standard deviation.

    The coordinates of the symmetric matrix (`gaussian.coordinates`), and behind them X'y: what an
    audit compares with independent N(0, 1).

    Parameters
    ----------
    released, exact : Sums or Fit
    scales : (float, float)
        Standard deviations of the diagonal of the Gram matrix and of the products.
    """
    matrix = gaussian.coordinates(released.gram - exact.gram) / scales[0]
    return np.concatenate([matrix, (released.products - exact.products) / scales[1]], axis=-1)


# ---------------------------------------------------------------------------------------- releases


def ssp_mechanism(
    bounds, neighbours, epsilon, delta, *, method="inverse", penalty=None, unit="row"
):
    """Return linear regression from two noisy sums (SSP), for a `Ledger`.

    Privacy
        mu-Gaussian private and (epsilon, delta)-differentially private for `neighbours`, exactly
        (see the head of this module), for a `unit` that has one record; so is all that is computed
        from the two sums. Public: the bounds, epsilon, delta, the method, the penalty, and that
        there are fewer than 2^32 rows, whose number is private under add-remove.

    Parameters
    ----------
    bounds : Bounds
    neighbours : {"add-remove", "replace-one"}
    epsilon, delta : float
        As in `gaussian.sigma`, epsilon from 1e-6; together they ask for mu of 40 at most, and for
        noise of at most 2^20 times the bounds.
    method : {"inverse", "ridge", "spectral"}
        How coefficients are computed from the noisy sums: `ridge` without and with a penalty, or
        `spectral_filter`.
    penalty : float, optional
        Public: of "ridge" the penalty, of "spectral" the threshold; "inverse" has none. By default
        the spectral norm s B_x^2 sqrt(2 d) of the noise.
    unit : str

    Returns
    -------
    Mechanism
        It reads a table as `sums` does and draws a `Fit`. Its law is that of each coordinate of
        `standardised` for noise of budgets c times as large, N(0, 1/c^2), to 10^-3/s.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        On G: s^2 B_x^4 d(d + 1)/2 in squared Frobenius norm, on h: s^2 B_x^2 B_y^2 d, with s =
        `scale`(neighbours, epsilon, delta). Of "inverse" no moment of the coefficients exists: the
        noisy G can be singular to any degree.

    Source
        Vu and Slavkovic 2009; Wang 2018, Section 3.
    """
    drawn = _joint(neighbours, epsilon, delta, 2)
    checks.one_of("method", method, METHODS)
    if penalty is not None:
        if method == "inverse":
            raise ValueError(f'penalty must be None for the method "inverse", got {penalty!r}')
        penalty = float(checks.within("penalty", penalty, *checks.SIZES))
    return _mechanism(
        f"SSP, {method}",
        bounds,
        neighbours,
        unit,
        drawn,
        partial(_solved, method=method, penalty=penalty),
        Fraction(_square_moved(neighbours, 2)),
    )


def adassp_mechanism(
    bounds,
    neighbours,
    epsilon,
    delta,
    *,
    calibration="joint",
    failure=0.05,
    unit="row",
):
    """Return linear regression from two noisy sums and an adaptive penalty (AdaSSP).

    Besides the two sums the smallest eigenvalue of X'X is published with noise; where a cautious
    lower bound of it is below the size of the noise, the difference becomes the penalty.

    Privacy
        As `ssp_mechanism`, of three releases that are calibrated as one, with one difference. The
        eigenvalue is computed in floating point; its noise has 2^-10 more than the theorem asks
        for, room for an error of 2^20 squared steps, one B_x^2 being 2^30. The errors of LAPACK
        that were observed, for sums of 2^32 full rows, are below 1 % of this. The proven bounds of
        its rounding are larger, up to a thousand times this room for a thousand columns: the
        promise rests on what was observed, and on LAPACK's convergence.

    Parameters
    ----------
    bounds, neighbours, epsilon, delta, unit
        As in `ssp_mechanism`.
    calibration : {"joint", "wang", "thesis"}
        The noise s: by the exact curve for three releases as one; sqrt(ln(6/delta))/(epsilon/3), as
        Wang prints; or sqrt(2 ln(3.75/delta))/(epsilon/3), as Algorithm 3 of document 003 prints.
        Of the last two the costs are what they really are: below epsilon where delta is small. Both
        print the whole s for each entry of a mirrored triangle; here, as in `ssp_mechanism`, it is
        s/sqrt(2) off the diagonal, so the errors are smaller than those of the printed recipes.
    failure : float
        The probability rho in the penalty s B_x^2 sqrt(d ln(2 d^2/rho)).

    Returns
    -------
    Mechanism
        Of a `Fit`.

    Raises
    ------
    ValueError
        If a public argument is out of range, or there are more than 1000 columns.

    Source
        Wang 2018, Algorithm 2; Kalaja 2020 (document 003), Algorithm 3.
    """
    checks.one_of("calibration", calibration, ("joint", "wang", "thesis"))
    checks.within("failure", checks.probability("failure", failure), *checks.BETAS)
    amount, small = _budget(epsilon, delta)
    if isinstance(bounds, Bounds) and bounds.columns > _COLUMNS:
        raise ValueError(f"bounds must have at most {_COLUMNS} columns, got {bounds.columns}")
    logs = {"thesis": 2 * math.log(3.75 / small)}
    log = logs.get(calibration, math.log(6 / small))
    if calibration == "joint":
        drawn = _joint(neighbours, epsilon, delta, 3)
    else:
        exact_delta = checks.as_fraction("delta", delta)
        drawn = _stated(neighbours, math.sqrt(log) / (amount / 3), exact_delta, 3)
    _checked(_Noise(_for_eigenvalue(drawn), ()))
    return _mechanism(
        f"AdaSSP, {calibration}",
        bounds,
        neighbours,
        unit,
        drawn,
        partial(_adaptive, log=log, failure=float(failure)),
        Fraction(_square_moved(neighbours, 3)),
    )


def _mechanism(name, bounds, neighbours, unit, drawn, finish, square):
    if not isinstance(bounds, Bounds):
        raise ValueError(f"bounds must be regression.Bounds, got {bounds!r}")
    size = math.nextafter(math.sqrt(float(square)), math.inf)
    return Mechanism(
        name=f"{name}, {bounds.columns} columns, noise of {drawn.share:.6g} bounds",
        costs=drawn.costs,
        neighbours=neighbours,
        unit=unit,
        read=partial(_in_steps, bounds=bounds),
        draw=partial(_draw, bounds=bounds, drawn=drawn, finish=finish),
        exact=True,
        sensitivity=Sensitivity(size, "l2", neighbours, unit),
        law=lambda c: partial(gaussian.cdf, sigma=1 / c),
    )


def _draw(steps, bounds, drawn, finish, *, rng):
    """Return the `Fit` of exact sums in steps, with noise."""
    gram, products = steps
    noisy = gram + _symmetric(len(gram), drawn, rng=rng)
    with_noise = products + noise.discrete_gaussian(drawn.sigma, len(products), rng=rng)
    released = _in_units(noisy, with_noise, bounds)
    s = drawn.share * bounds.norm**2
    solved, penalty = finish(released, s, gram, bounds, drawn, rng=rng)
    return Fit(
        solved,
        released.gram,
        released.products,
        s,
        drawn.share * bounds.norm * bounds.response,
        penalty,
    )


def _symmetric(d, drawn, *, rng):
    """Draw a symmetric matrix of whole numbers, sigma on the diagonal and sigma/sqrt(2) off it."""
    matrix = np.zeros((d, d), np.int64)
    matrix[np.diag_indices(d)] = noise.discrete_gaussian(drawn.sigma, d, rng=rng)
    i, j = np.triu_indices(d, 1)
    matrix[i, j] = matrix[j, i] = noise.discrete_gaussian(drawn.beside, len(i), rng=rng)
    return matrix


def _solved(released, s, gram, bounds, drawn, method, penalty, *, rng):
    """Coefficients from the noisy sums alone, and the penalty."""
    level = s * math.sqrt(2 * bounds.columns) if penalty is None else penalty
    if method == "spectral":
        return spectral_filter(released.gram, released.products, level), 0.0
    level = level if method == "ridge" else 0.0
    return ridge(released.gram, released.products, level), level


def _adaptive(released, s, gram, bounds, drawn, log, failure, *, rng):
    """Coefficients with the penalty of AdaSSP, for which the smallest eigenvalue is released."""
    noisy = _smallest(gram) + noise.discrete_gaussian(_for_eigenvalue(drawn), rng=rng)
    lowest = max(noisy * (bounds.norm / STEPS) ** 2 - s * math.sqrt(log), 0.0)
    d = bounds.columns
    level = max(s * math.sqrt(d * math.log(2 * d * d / failure)) - lowest, 0.0)
    return ridge(released.gram, released.products, level), level


def _for_eigenvalue(drawn):
    """Sigma of the smallest eigenvalue, in steps."""
    return math.ceil(drawn.sigma * _EIGENVALUE)


def _smallest(gram):
    """The smallest eigenvalue of a whole-numbered Gram matrix, rounded down, at least 0.

    Where LAPACK did not converge it would be 0, a jump of any size, for a refusal would tell of the
    rows. No such symmetric matrix is known: the promise rests on this, too.
    """
    try:
        value = float(np.linalg.eigvalsh(gram.astype(float))[0])
    except np.linalg.LinAlgError:
        value = 0.0
    return math.floor(max(value, 0.0))
