"""The functional mechanism for linear and expanded logistic regression: noise in the coefficients
of the function that a fit minimises.

Letters: d columns and n rows; b the scale of the noise. Each column, and the response y, has public
bounds and is measured from the middle of its range in units of half the range: it lies between -1
and 1. A row x has length p: its d values, and a 1 with an intercept. The squared error of weights
theta over a table is theta'G theta - 2h'theta plus a constant, with G the sum of x x' and h that of
y x. Its coefficients are those of the monomials theta_j theta_l with j <= l, in which the two
entries of G off the diagonal are taken together, and of the theta_j. The constant moves no minimum:
it is not computed.

Ranges: d 1 to 1000; bounds up to 1e12 in size; grids of 1 to 2^15 steps, as long as the noise has a
scale of at most 2^50 of the grid's squared steps.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dputils import checks, geometric, noise, private
from dputils.sensitivity import Sensitivity

_WIDEST = 1000
_LARGEST = 1e12
_FINEST = 1 << 15
_CHUNK = 1 << 12  # rows in the processor's cache; their products are whole floats below 2^42


@dataclass(frozen=True, eq=False)
class Objective:
    """A published squared error as a function of the weights: theta'G theta - 2h'theta, without
    its constant.

    Parameters
    ----------
    quadratic : array of shape (p, p)
        G, symmetric; not always positive definite. All three arrays are read-only.
    linear : array of shape (p,)
        -2h. With an intercept its weight is the last one.
    sd : float
        The standard deviation of the noise of one coefficient; off the diagonal G has half of it.
    columns : tuple of pairs of floats
        The public bounds of the d columns.
    response : pair of floats
    coefficients : int64 array
        As they were drawn, in steps: G in the order of `numpy.triu_indices(p)`, with both entries
        off the diagonal together, then -2h.
    """

    quadratic: np.ndarray
    linear: np.ndarray
    sd: float
    columns: tuple
    response: tuple
    coefficients: np.ndarray


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit that was read off an `Objective`: y is about x @ slopes + intercept.

    Parameters
    ----------
    slopes : array of shape (d,)
        In the units of the data.
    intercept : float
    dropped : int
        In how many directions (eigenvectors of G) the eigenvalue, with the ridge, was at most
        `trim` standard deviations of the noise. If it is not 0, the fit is no minimum: the weights
        are 0 in these directions, or in all if none were to be trimmed.
    """

    slopes: np.ndarray
    intercept: float
    dropped: int


def of_squares(d, neighbours, *, intercept, radius=None, unit="row"):
    """Return how far one row moves the coefficients of the squared error, in l1.

    Parameters
    ----------
    d : int
        The number of columns, each between -1 and 1 like the response.
    neighbours : {"add-remove", "replace-one"}
        Under replace-one the number of rows is public: it is the coefficient of the squared
        intercept.
    intercept : bool
    radius : float, optional
        A public bound on the Euclidean length of the d values, which must then be enforced.
    unit : str

    Returns
    -------
    Sensitivity
        Add-remove: (L + 1)^2 - 1, with L the largest l1 length of a row x: d, or
        radius sqrt(d) if that is smaller, and one more with an intercept. Replace-one: (d + 1)^2,
        with an intercept (d + 2)^2. Both are attained. Replace-one with a radius: the smaller of
        that and an upper bound by the inequality of Cauchy and Schwarz.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Source
        Derived in the chapter on the functional mechanism, and for a replaced row with a radius in
        `_replaced`. Zhang, Zhang, Xiao, Yang, Winslett 2012 have 2 (d + 1)^2 for replace-one
        without an intercept.
    """
    d, intercept = _dimension(d), _truth("intercept", intercept)
    length = math.inf if radius is None else float(checks.within("radius", radius, 1e-3, 1e3))
    reach = length * math.sqrt(d)
    if checks.neighbours(neighbours) == "add-remove":
        size = (min(d, reach) + intercept + 1) ** 2 - 1
    else:
        size = (d + intercept + 1) ** 2
        if reach < d:
            size = min(size, _replaced(length, d, intercept))
    return Sensitivity(size, "l1", neighbours, unit)


def _replaced(length, d, intercept):
    """An upper bound of the l1 move when one row of Euclidean length at most R replaces another.

    The d^2 products move by at most d times their Euclidean distance, which for rows of length R at
    the angle t is sqrt(2) R^2 sin(t). The terms with y move by at most 2 sqrt(d) |yx - y'x'|, those
    with the 1 of an intercept by 2 sqrt(d) |x - x'| + 2 |y - y'|. All is convex in (y, y'), so both
    are 1 or -1. Without an intercept it is enough, by x' -> -x', to look at 4 R sqrt(d) cos(t/2).
    With one and opposite responses |x - x'| + |x + x'| is at most 2 sqrt(2) R, and the 1 moves by
    4; equal responses with 8 R sqrt(d) cos(t/2) stay below that by 4 - 2 sqrt(2). Rows of other
    lengths are no worse: growing the longer one to R raises every term, and then the shorter one
    either does so, too, or is beaten by two rows of length R at an angle with the same |x + x'|.
    """
    reach, square = length * math.sqrt(d), math.sqrt(2) * length**2 * d
    return square + 4 * math.sqrt(2) * reach + 4 if intercept else _highest(square, 4 * reach)


def _highest(a, b):
    """The largest a sin(t) + b cos(t/2), for a and b above 0."""
    s = (math.sqrt(b * b / 4 + 8 * a * a) - b / 2) / (4 * a)
    return (2 * a * s + b) * math.sqrt(1 - s * s)


def mechanism(
    columns, response, epsilon, neighbours, *, intercept=True, radius=None, steps=1000, unit="row"
):
    """Return the functional mechanism for linear regression, for a `Ledger`.

    Privacy
        epsilon-differentially private, exactly, for `neighbours`: each row becomes whole numbers of
        a public grid by itself, and the coefficients, which are whole numbers of steps, get
        geometric noise. Whatever is computed from the published objective costs nothing more.
        Public: columns, response, intercept, radius, steps, epsilon; under replace-one the number
        of rows, too, which is published as it is. In a list of rows each cell is a record; that a
        row is a list of d cells is public.

    Parameters
    ----------
    columns : list of d pairs (lower, upper)
        Public bounds of the columns of X, to which a value is clamped; what is missing counts as
        their middle.
    response : pair (lower, upper)
        Public bounds of y.
    epsilon : int, float or Fraction
    neighbours : {"add-remove", "replace-one"}
    intercept : bool
        Without one the fit passes through the middle of all ranges.
    radius : float, optional
        A row of greater Euclidean length, in units of half the ranges, is shortened to it.
    steps : int
        Steps of the grid to half a range, 1 to 2^15: a coefficient is a multiple of 1/steps^2.
    unit : str
        Each row is one unit.

    Returns
    -------
    Mechanism
        Exact. Of a pair (X, y) of shapes (n, d) and (n,), or of a list or a generator of such
        pairs: chunks of one table, of which only sums are kept. It draws an `Objective`. Its `read`
        gives the exact coefficients in steps, and its law is that of `Objective.coefficients` minus
        these, on whole numbers; under replace-one the number of rows has no noise.

    Raises
    ------
    ValueError
        If a public argument is out of range, or X and y have other shapes.

    Error
        Each coefficient has noise of scale of_squares(...)/epsilon. Rounding to the grid moves a
        value by at most 1/(2 steps), and a row that is shortened by at most 1.5 sqrt(d)/steps.

    Source
        Zhang, Zhang, Xiao, Yang, Winslett 2012, Algorithm 1.
    """
    ranges = tuple(_pair(f"columns[{j}]", pair) for j, pair in enumerate(_listed(columns)))
    ranges += (_pair("response", response),)
    steps = checks.within("steps", checks.integer("steps", steps, low=1), 1, _FINEST)
    d = _dimension(len(ranges) - 1)
    moved = of_squares(d, neighbours, intercept=intercept, radius=radius, unit=unit)
    read = partial(_sums, ranges=ranges, intercept=intercept, radius=radius, steps=steps)
    return _of_coefficients("functional mechanism", moved, epsilon, read)


def _of_coefficients(name, moved, epsilon, read):
    """Return the mechanism that publishes what `read`, a partial of `_sums`, reads."""
    ranges, intercept, steps = (read.keywords[k] for k in ("ranges", "intercept", "steps"))
    d = len(ranges) - 1
    whole = replace(moved, size=_in_steps(moved.size, steps))
    inner = geometric.mechanism(whole, epsilon)
    scale = geometric.scale(whole, epsilon)
    published = partial(
        _published, ranges=ranges, p=d + intercept, steps=steps, sd=_deviation(scale, steps)
    )
    noisy = _moving(d, intercept, moved.neighbours)
    return replace(
        inner,
        name=f"{name} for {d} columns{' and an intercept' * intercept}, "
        f"geometric noise of scale {float(scale) / steps**2:.6g} on each coefficient"
        f"{' but the number of rows' * (not noisy.all())}",
        read=read,
        draw=partial(_draw, scale=scale, noisy=noisy, published=published),
        sensitivity=replace(moved, size=whole.size / steps**2),
    )


def _in_steps(size, steps):
    """Return a sensitivity in whole steps, rounded up; an int is exact as it is."""
    whole = size * steps * steps
    return whole if isinstance(size, int) else math.ceil(whole * (1 + 1e-12))


def _deviation(scale, steps):
    return math.sqrt(geometric.variance(scale)) / steps**2


def _moving(d, intercept, neighbours):
    """Which coefficients get noise: all but the squared intercept's where that is public."""
    p = d + intercept
    noisy = np.ones(p * (p + 1) // 2 + p, dtype=bool)
    if intercept and neighbours == "replace-one":
        noisy[p * (p + 1) // 2 - 1] = False
    return noisy


def _draw(value, scale, noisy, published, *, rng):
    drawn = value.copy()
    drawn[noisy] += noise.discrete_laplace(scale, int(noisy.sum()), rng=rng)
    return published(drawn)


def _published(coefficients, ranges, p, steps, sd):
    """Return coefficients in steps as an `Objective`."""
    exact = coefficients / steps**2
    upper = np.zeros((p, p))
    upper[np.triu_indices(p)] = exact[:-p] / 2
    arrays = upper + upper.T, exact[-p:], coefficients
    for array in arrays:
        array.setflags(write=False)
    return Objective(*arrays[:2], sd, ranges[:-1], ranges[-1], coefficients)


def _sums(value, ranges, intercept, radius, steps, labels=False):
    """Return the exact coefficients of a table, in steps, modulo 2^64; with labels -4h, not -2h."""
    p = len(ranges) - 1 + intercept
    products = np.zeros((p + 1, p + 1), dtype=np.int64)
    for chunk in _chunks(value):
        X, y = _table(chunk, len(ranges) - 1)
        for start in range(0, len(y), _CHUNK):
            rows = slice(start, start + _CHUNK)
            answers = _signs(y[rows]) if labels else y[rows]
            parts = _rows(X[rows], answers, ranges, intercept, radius, steps)
            products += (parts.T @ parts).astype(np.int64)
    quadratic = products[:p, :p] * (2 - np.eye(p, dtype=np.int64))
    linear = (-4 if labels else -2) * products[:p, p]
    return np.concatenate([quadratic[np.triu_indices(p)], linear])


def _signs(y):
    """Return 1 for a label above 0 and -1 for any other, which a missing one is."""
    return np.where(private.floats(y) > 0, 1.0, -1.0)


def _chunks(value):
    if not hasattr(value, "__iter__") or isinstance(value, (str, bytes, dict)):
        raise ValueError(f"value must be a pair (X, y) or chunks, got type {type(value).__name__}")
    return [value] if isinstance(value, tuple) else value


def _table(chunk, d):
    """Return a pair of public type and shape as two arrays."""
    if not isinstance(chunk, (tuple, list)) or len(chunk) != 2:
        raise ValueError("value must be a pair (X, y), or a list of such pairs")
    X, y = chunk[0], private.column("y", chunk[1])
    X = _listed_rows(X, d) if isinstance(X, (list, tuple)) else private.answer("X", X)
    if X.shape != (len(y), d) and not X.size == len(y) == 0:
        raise ValueError(f"X must have shape ({len(y)}, {d}), as y and columns say, got {X.shape}")
    return X.reshape(len(y), d), y


def _listed_rows(X, d):
    """Return a list of rows of d cells as an array; what stands in a cell is private."""
    rows = [private.column("X: a row", row) for row in X]
    if any(len(row) != d for row in rows):
        raise ValueError(f"X must be a list of rows of {d} numbers, got another length")
    return np.array(rows).reshape(len(rows), d)


def _rows(X, y, ranges, intercept, radius, steps):
    """Return rows (x, 1, y) in whole steps, as floats whose products and sums are exact."""
    bounds = np.array(ranges).T
    x = _whole(private.floats(X), *bounds[:, :-1], steps)
    if radius is not None:
        x = _shortened(x, radius * steps)
    ones = np.full((len(x), int(intercept)), float(steps))
    return np.column_stack([x, ones, _whole(private.floats(y), *bounds[:, -1], steps)])


def _whole(values, lower, upper, steps):
    """Return values in whole steps from the middle of their range; what is missing counts as it."""
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    with np.errstate(all="ignore"):  # a warning would tell of the records
        whole = values - middle
        whole /= half
        whole *= steps
    np.clip(np.rint(whole, out=whole), -steps, steps, out=whole)
    whole[np.isnan(whole)] = 0
    return whole


def _shortened(x, longest):
    """Return whole rows with those longer than `longest` scaled down and rounded towards zero."""
    length = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    return np.where(length > longest, np.trunc(x * (longest / np.maximum(length, 1))), x)


def of_logistic(d, neighbours, *, intercept, radius=None, unit="row"):
    """Return how far one row moves the coefficients of the expanded logistic loss, in l1.

    They are those of 8 times the expansion, theta'G theta - 4h'theta: divide by 8 for its own.

    Parameters
    ----------
    d : int
        The number of columns, each between -1 and 1; the label s is 1 or -1.
    neighbours : {"add-remove", "replace-one"}
        Under replace-one the number of rows is public, as in `of_squares`.
    intercept : bool
    radius : float, optional
        A public bound on the Euclidean length of the d values, which must then be enforced.
    unit : str

    Returns
    -------
    Sensitivity
        Let p be d, and one more with an intercept. Add-remove: L^2 + 4L, with L as in `of_squares`.
        Replace-one: (p + 2)^2, but 8 if p is 1. Both are attained. Replace-one with a radius: the
        smaller of that and an upper bound.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Source
        Derived in the chapter on logistic regression by expansion, and for a replaced row with a
        radius in `_relabelled`. Zhang, Zhang, Xiao, Yang, Winslett 2012 have d^2/4 + 3d for
        replace-one without an intercept, that is 2d^2 + 24d here.
    """
    d, intercept = _dimension(d), _truth("intercept", intercept)
    length = math.inf if radius is None else float(checks.within("radius", radius, 1e-3, 1e3))
    reach, p = length * math.sqrt(d), d + intercept
    joined = min(d, reach) + intercept
    joined *= joined + 4
    if checks.neighbours(neighbours) == "add-remove":
        return Sensitivity(joined, "l1", neighbours, unit)
    size = (p + 2) ** 2 if p > 1 else 8
    if reach < d:
        size = min(size, _relabelled(length, d, intercept))
    return Sensitivity(size, "l1", neighbours, unit)


def _relabelled(length, d, intercept):
    """An upper bound of the l1 move when a labelled row of Euclidean length at most R replaces one.

    Without an intercept only u = s x counts. Let t be the distance of u and u'. The d^2 products
    move by at most d t sqrt((4R^2 - t^2)/2) if both have length R, and 4h by 4 sqrt(d) t; t is
    2R cos(a/2) if the angle between u and -u' is a. Other lengths can beat the first term for
    t < 2R/3 only, by d t (2R - t), which grows up to there. With an intercept the products move by
    at most sqrt(2) d R^2 for any lengths, and those with the 1 by 2 sqrt(d) |x - x'|; 4h moves by
    4 sqrt(d) |x - x'| for equal labels, and by 4 sqrt(d) |x + x'| + 8 for others, where
    2 |x - x'| + 4 |x + x'| is at most 2 sqrt(20) R by the inequality of Cauchy and Schwarz.
    """
    reach, square = length * math.sqrt(d), math.sqrt(2) * length**2 * d
    if not intercept:
        return _highest(square, 8 * reach)
    return square + max(12 * reach, 2 * math.sqrt(20) * reach + 8)


def logistic_mechanism(
    columns, epsilon, neighbours, *, intercept=True, radius=None, steps=1000, unit="row"
):
    """Return the functional mechanism for logistic regression, expanded to second order.

    With labels s = 1 and -1 the loss of a margin z = x'theta is ln(1 + exp(-sz)), and its expansion
    at 0 is ln 2 - sz/2 + z^2/8. Published is 8 times the sum of that, without its constant:
    theta'G theta - 4h'theta, with G the sum of x x' and h that of s x. Its minimum is twice the
    least-squares fit of s. For another curvature b in place of 1/8 multiply the weights by 1/(8b),
    for free.

    Privacy
        As `mechanism`. Public: columns, intercept, radius, steps, epsilon; under replace-one the
        number of rows.

    Parameters
    ----------
    columns, epsilon, neighbours, intercept, radius, steps, unit
        As for `mechanism`.

    Returns
    -------
    Mechanism
        As that of `mechanism`, of (X, y) where a label y above 0 counts as 1 and any other, also a
        missing one, as -1. `minimise` reads margins off the `Objective` that it draws: of the two
        labels 1 is the likelier where x @ slopes + intercept is positive.

    Raises
    ------
    ValueError
        If a public argument is out of range, or X and y have other shapes.

    Error
        Each coefficient has noise of scale of_logistic(...)/epsilon. The minimum of the expansion
        is not that of the logistic loss, however many rows there are; if there are as many weights
        as kinds of rows, the latter has twice the artanh of half its margins.

    Source
        Zhang, Zhang, Xiao, Yang, Winslett 2012, section 5.
    """
    ranges = tuple(_pair(f"columns[{j}]", pair) for j, pair in enumerate(_listed(columns)))
    steps = checks.within("steps", checks.integer("steps", steps, low=1), 1, _FINEST)
    moved = of_logistic(len(ranges), neighbours, intercept=intercept, radius=radius, unit=unit)
    read = partial(
        _sums,
        ranges=(*ranges, (-1.0, 1.0)),
        intercept=intercept,
        radius=radius,
        steps=steps,
        labels=True,
    )
    return _of_coefficients("expanded logistic regression", moved, epsilon, read)


def minimise(objective, *, ridge=0.0, trim=None):
    """Return the fit at the minimum of a published objective.

    Privacy
        Post-processing: it costs nothing, as long as ridge and trim were not chosen by looking at
        the table.

    Parameters
    ----------
    objective : Objective
    ridge : float
        At least 0: this many standard deviations of the noise are added to the diagonal of G.
    trim : float, optional
        Leave out the directions (eigenvectors of G) whose eigenvalue, with the ridge, is at most
        `trim` standard deviations of the noise, and minimise in the others. Without it all weights
        are 0 unless G with the ridge is positive definite: a saddle point is not solved for.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        If an argument is out of range.

    Source
        Zhang, Zhang, Xiao, Yang, Winslett 2012, section 6 (with a ridge of 4 and a trim of 0).
    """
    if not isinstance(objective, Objective):
        raise ValueError(f"objective must be an Objective, got {objective!r}")
    added = float(checks.within("ridge", ridge, 0, 1e6)) * objective.sd
    floor = 0.0 if trim is None else float(checks.within("trim", trim, 0, 1e6)) * objective.sd
    values, vectors = np.linalg.eigh(objective.quadratic)
    rounding = 1e-12 * np.abs(values).max()
    values = values + added
    kept = values > floor + rounding
    if trim is None and not kept.all():
        kept[:] = False
    along = vectors.T @ objective.linear
    weights = vectors[:, kept] @ (-along[kept] / (2 * values[kept]))
    return _in_units(weights, objective, int(np.sum(values <= floor + rounding)))


def _in_units(weights, objective, dropped):
    """Return weights for columns and response between -1 and 1 as a fit in the data's units."""
    lower, upper = np.array([*objective.columns, objective.response]).T
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    d = len(objective.columns)
    slopes = half[-1] * weights[:d] / half[:-1]
    constant = weights[d] if len(weights) > d else 0.0
    intercept = middle[-1] + half[-1] * constant - slopes @ middle[:-1]
    return Fit(slopes, float(intercept), dropped)


def _dimension(d):
    return int(checks.within("d", checks.integer("d", d, low=1), 1, _WIDEST))


def _truth(name, value):
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _listed(columns):
    if not isinstance(columns, (list, tuple)) or not 1 <= len(columns) <= _WIDEST:
        raise ValueError(f"columns must be a list of 1 to 1000 pairs, got {columns!r}")
    return columns


def _pair(name, pair):
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ValueError(f"{name} must be a pair (lower, upper), got {pair!r}")
    lower, upper = map(float, checks.bounds(*pair, _LARGEST))
    checks.within(f"{name}: upper - lower", upper - lower, 1e-12, 2 * _LARGEST)
    return lower, upper
