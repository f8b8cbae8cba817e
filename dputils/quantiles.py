"""Quantiles of a private column: the exponential mechanism on a public grid, one or several
quantiles, and noisy binary search.

Letters: n the number of records, q the level of a quantile (1/2 for the median), y a candidate, a
point of the public grid; L(y) and U(y) the numbers of records below y, and below or at y; d(y) the
distance of q n from the interval [L(y), U(y)], in records; Delta its sensitivity, lambda = 2
Delta/epsilon the scale; m the number of quantiles.

Ranges: levels 0 to 1 with a denominator up to 10^6, epsilon 1e-6 to 1e3, at most 2^40 grid points,
at most 2^50 records.

1. Sensitivity. Both L(y) - q n and (1 - q) n - (n - U(y)) move by 1 - q or -q when a record joins,
   and d(y) = max(0, L(y) - q n, q n - U(y)): it moves by at most max(q, 1 - q). If a record is
   replaced, n stays, L and U move by at most 1, and so does d(y).
2. The best candidate has d(y) = 0: neighbouring values and the gaps between them have intervals
   that meet, from 0 to n. So the weights exp(-d(y)/lambda) sum to at least 1, and P(d(y) >= t) is
   at most N exp(-t/lambda) for N grid points.
3. Drawing it exactly. Cut the grid into pieces on which d is constant, and one piece for all that
   is far. A piece of M points gets a whole number V as its weight, computed in floating point and
   rounded up so far that V >= 2^K M exp(-d/lambda) for each of its points. Draw a piece with
   probability proportional to V, a point of it uniformly, both by exact integers; keep it with
   probability 2^K M exp(-d/lambda)/V, by an exact coin, else begin again. A point is kept with
   probability proportional to V/M times that, to exp(-d/lambda): rounding costs repetitions, never
   the law.
4. Only ranks within lambda (ln N + 5) of q n have pieces of their own: all else together has less
   than exp(-5) of the mass. After the records are sorted, a draw takes time proportional to
   lambda ln N, or to n if that is less.
5. Several quantiles one after another (Kaplan, Schnapp, Stemmer 2022). The middle one is drawn from
   the whole table; then those below it from the records up to the released point, and those above
   from the others. Whoever is added or removed changes one of the two parts, so that a generation
   costs as much as one draw, and 1 + floor(log2 m) generations share epsilon. A replaced record may
   leave one part and enter the other: add-remove only.
6. Ties. A value that many records share would fall to one part as a whole. So each record is moved
   to one of 2^20 substeps of its grid step, drawn at random for each record by itself, and the
   released substep is rounded down to its step. Neighbouring tables draw alike for the records that
   they share, so that the promise holds given all these draws, and on average.
"""

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, noise, private
from dputils.accounting.costs import ZCDP, Pure
from dputils.accounting.mechanism import Mechanism
from dputils.selection import exponential_law
from dputils.sensitivity import Sensitivity

SUBSTEPS = 1 << 20  # of a grid step, on which ties are broken
_POINTS = 1 << 40
_DENOMINATOR = 10**6
_LISTED = 1 << 22  # grid points of which a law is listed
_BITS = 62
_NEAR = 5  # what lies further, in scales beyond ln N, is one piece a side
_FAR = 1000  # a coin of a larger exponent is two coins


def of_rank(level, neighbours, *, unit="row"):
    """Return the sensitivity of the distances in rank d(y), one for each candidate.

    max(q, 1 - q) under add-remove, 1 under replace-one: point 1 of the module.

    Parameters
    ----------
    level : int, float or Fraction
        q, from 0 to 1.
    neighbours : {"add-remove", "replace-one"}
    unit : str

    Returns
    -------
    Sensitivity
        In the norm "max", in records.
    """
    q = _level(level)
    size = max(q, 1 - q) if checks.neighbours(neighbours) == "add-remove" else Fraction(1)
    return Sensitivity(size, "max", neighbours, unit)


def scale(level, epsilon, neighbours):
    """Return the exact scale lambda = 2 Delta/epsilon of the mechanism for one level, in records.

    Parameters
    ----------
    level : int, float or Fraction
    epsilon : int, float or Fraction
    neighbours : {"add-remove", "replace-one"}

    Returns
    -------
    Fraction
    """
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    return 2 * of_rank(level, neighbours).size / checks.as_fraction("epsilon", epsilon)


def distances(values, level, lower, upper, grid, points):
    """Return the distance in rank d(y) of points of the grid from the quantile, in records.

    Parameters
    ----------
    values : list, array or column of shape (n,)
        Private, read by `private.to_grid`.
    level : int, float or Fraction
    lower, upper, grid : int, float or Fraction
        Public; multiples of grid.
    points : list or array of shape (k,)
        Public, read by `private.to_grid` as well.

    Returns
    -------
    float array of shape (k,)
    """
    q = float(_level(level))
    steps = np.sort(_read(values, lower=lower, upper=upper, grid=grid))
    y = private.to_grid(points, lower, upper, grid)
    below = np.searchsorted(steps, y, side="left") - q * steps.size
    above = q * steps.size - np.searchsorted(steps, y, side="right")
    return np.maximum(0.0, np.maximum(below, above))


def law(values, level, lower, upper, grid, scale):
    """Return the probabilities of all grid points, lower first, under the mechanism for one level.

    Parameters
    ----------
    values, level, lower, upper, grid
        As `distances`; at most 2^22 grid points.
    scale : number
        lambda, in records.

    Returns
    -------
    array of shape (N,)
    """
    low, high = _grid(lower, upper, grid)
    if high - low >= _LISTED:
        raise ValueError(f"grid must have at most 2**22 points to be listed, got {high - low + 1}")
    listed = np.arange(low, high + 1).astype(object) * checks.as_fraction("grid", grid)
    return exponential_law(-distances(values, level, lower, upper, grid, list(listed)), scale)


def accuracy(scale, points, beta):
    """Return the distance in rank that is exceeded with probability at most beta, in records.

    lambda ln(N/beta), by point 2 of the module, whatever the table.

    Parameters
    ----------
    scale : number
        lambda, in records.
    points : int
        N, the number of grid points.
    beta : float

    Returns
    -------
    float
    """
    checks.within("scale", scale, *checks.SIZES)
    checks.within("beta", beta, *checks.BETAS)
    return float(scale) * math.log(checks.integer("points", points, low=1) / beta)


def mechanism(level, lower, upper, grid, neighbours, epsilon, *, unit="row"):
    """Return the exponential mechanism for one quantile on a public grid, for a `Ledger`.

    Privacy
        epsilon-differentially private, and epsilon^2/8-zCDP, exactly, for a `unit` that has one
        value in the column. Public: level, lower, upper, grid, epsilon; under replace-one also the
        number of records. How long a draw takes depends on the table.

    Parameters
    ----------
    level : int, float or Fraction
        q, from 0 to 1.
    lower, upper, grid : int, float or Fraction
        Floats are read as decimals; lower and upper are multiples of grid, at most 2^40 points.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
    unit : str

    Returns
    -------
    Mechanism
        Exact; reads a column by `private.to_grid` (clamped and rounded, what is missing counts as
        lower) and releases a float, a multiple of grid. An empty column is answered by a uniform
        point.

    Error
        In rank at most `accuracy(scale(...), points, beta)` with probability 1 - beta.

    Source
        McSherry and Talwar 2007; Smith 2011; points 1 to 4 of the module.
    """
    ends = _grid(lower, upper, grid)
    lam = scale(level, epsilon, neighbours)
    moved = of_rank(level, neighbours, unit=unit)
    step, q = checks.as_fraction("grid", grid), _level(level)
    return Mechanism(
        name=f"exponential mechanism for the quantile of level {float(q):.6g}, "
        f"scale {float(lam):.6g} records",
        costs=_costs(epsilon, 1),
        neighbours=neighbours,
        unit=unit,
        read=partial(_read, lower=lower, upper=upper, grid=grid),
        draw=partial(_one, ends=ends, level=q, rate=1 / lam, step=step),
        exact=True,
        sensitivity=moved,
    )


def several(levels, lower, upper, grid, epsilon, *, unit="row", substeps=SUBSTEPS):
    """Return the mechanism for several quantiles, one after another on parts, for a `Ledger`.

    Privacy
        epsilon-differentially private for add-remove, exactly, and, with g generations,
        epsilon^2/(8 g)-zCDP. Public: levels, lower, upper, grid, epsilon.

    Parameters
    ----------
    levels : list, tuple or array of m numbers from 0 to 1, in increasing order
    lower, upper, grid, epsilon, unit
        As `mechanism`; epsilon is for all m together, each of the 1 + floor(log2 m) generations
        gets an equal share.
    substeps : int
        On how many substeps of a grid step ties are broken, 1 to 2^20; with 1 a value that many
        records share falls to one part as a whole (point 6).

    Returns
    -------
    Mechanism
        Exact; releases a float array of shape (m,), never decreasing.

    Error
        Each generation errs, in its part, by `accuracy` with N times `substeps` points at its share
        of epsilon, and hands a part of its error on to the next.

    Source
        Kaplan, Schnapp, Stemmer 2022; points 5 and 6 of the module.
    """
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    ends, qs = _grid(lower, upper, grid), _increasing(levels)
    share = checks.as_fraction("epsilon", epsilon) / len(qs).bit_length()
    if checks.integer("substeps", substeps, low=1) > SUBSTEPS:
        raise ValueError(f"substeps must be at most 2**20, got {substeps}")
    fine = {"substeps": substeps, "step": checks.as_fraction("grid", grid)}
    return Mechanism(
        name=f"{len(qs)} quantiles in {len(qs).bit_length()} generations, epsilon "
        f"{float(share):.6g} each",
        costs=_costs(epsilon, len(qs).bit_length()),
        neighbours="add-remove",
        unit=unit,
        read=partial(_read, lower=lower, upper=upper, grid=grid),
        draw=partial(_all, ends=ends, levels=qs, share=share, **fine),
        exact=True,
        sensitivity=Sensitivity(_largest_move(qs), "max", "add-remove", unit),
    )


def search(level, lower, upper, grid, neighbours, epsilon, *, unit="row"):
    """Return noisy binary search for one quantile on a public grid, for a `Ledger`.

    It asks ceil(log2 N) times whether U(y) - q n is negative, with geometric noise, and goes on in
    the upper or the lower half.

    Privacy
        epsilon-differentially private, exactly, by composition: each question has the sensitivity
        of `of_rank` and gets an equal share. Public as in `mechanism`.

    Parameters, Returns
        As `mechanism`.

    Error
        With T questions all noises stay below geometric accuracy at scale T Delta/epsilon: some
        (T Delta/epsilon) ln(T/beta) records.
    """
    ends = _grid(lower, upper, grid)
    moved, q = of_rank(level, neighbours, unit=unit), _level(level)
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    questions = (ends[1] - ends[0]).bit_length()
    share = checks.as_fraction("epsilon", epsilon) / questions
    b = moved.size * q.denominator / share
    checks.within("sensitivity/epsilon", b, *checks.STEPS)
    return Mechanism(
        name=f"binary search for the quantile of level {float(q):.6g}, {questions} questions",
        costs=(Pure(epsilon),),
        neighbours=neighbours,
        unit=unit,
        read=partial(_read, lower=lower, upper=upper, grid=grid),
        draw=partial(_searched, ends=ends, level=q, b=b, step=checks.as_fraction("grid", grid)),
        exact=True,
        sensitivity=moved,
    )


# ------------------------------------------------------------------------------- public arguments


def _level(level, name="level"):
    q = checks.as_fraction(name, checks.within(name, level, 0, 1))
    if q.denominator > _DENOMINATOR:
        raise ValueError(f"{name} must have a denominator of at most 10**6, got {level!r}")
    return q


def _increasing(levels):
    if not isinstance(levels, (list, tuple, np.ndarray)) or not len(levels):
        raise ValueError(f"levels must be a list of numbers, at least one, got {levels!r}")
    qs = [_level(level, "levels") for level in levels]
    if any(a >= b for a, b in zip(qs, qs[1:])):
        raise ValueError(f"levels must be in increasing order, got {levels!r}")
    return qs


def _grid(lower, upper, grid):
    """Return the first and the last grid point, in steps."""
    low, high = private.grid_steps(lower, upper, grid)
    if high - low >= _POINTS:
        raise ValueError(f"grid must have at most 2**40 points, got {high - low + 1}")
    return low, high


def _costs(epsilon, generations):
    """Bounded range epsilon/g in each of g generations: point 6 of `selection`."""
    exact = checks.as_fraction("epsilon", epsilon)
    return ZCDP(exact**2 / (8 * generations)), Pure(epsilon)


def _read(values, lower, upper, grid):
    return private.to_grid(values, lower, upper, grid)


# ------------------------------------------------------------------------------------------ draws


def _one(steps, ends, level, rate, step, *, rng):
    return float(_point(np.sort(steps), *ends, level, rate, rng) * step)


def _all(steps, ends, levels, share, substeps, step, *, rng):
    low, high = ends  # substeps count from the first grid point: they fit 60 bits
    fine = (steps - low) * substeps + noise.integers(substeps, steps.size, rng=rng)
    last = (high - low + 1) * substeps - 1
    points = _split(np.sort(fine), 0, last, levels, (0, 1), share, rng)
    return np.array([float((low + point // substeps) * step) for point in points])


def _split(steps, low, high, levels, around, share, rng):
    """Draw the middle one of the levels, then those below and above it, each from its part.

    `around` are the levels to which the part reaches down and up.
    """
    if not levels:
        return []
    middle, (bottom, top) = len(levels) // 2, around
    q = levels[middle]
    rank = Fraction(q - bottom, top - bottom)
    point = _point(steps, low, high, rank, share / (2 * max(rank, 1 - rank)), rng)
    cut = int(np.searchsorted(steps, point, side="right"))
    below = _split(steps[:cut], low, point, levels[:middle], (bottom, q), share, rng)
    above = _split(steps[cut:], point, high, levels[middle + 1 :], (q, top), share, rng)
    return [*below, point, *above]


def _largest_move(levels, around=(0, 1)):
    """Return by how much the distances in any one part move at most, when a record joins it."""
    if not levels:
        return 0
    middle, (bottom, top) = len(levels) // 2, around
    rank = Fraction(levels[middle] - bottom, top - bottom)
    below = _largest_move(levels[:middle], (bottom, levels[middle]))
    above = _largest_move(levels[middle + 1 :], (levels[middle], top))
    return max(rank, 1 - rank, below, above)


def _searched(steps, ends, level, b, step, *, rng):
    (low, high), steps = ends, np.sort(steps)
    left = (high - low).bit_length()  # questions: as many on each way
    for _ in range(left):
        middle = (low + high) // 2
        upto = int(np.searchsorted(steps, middle, side="right"))
        asked = level.denominator * upto - level.numerator * steps.size
        answer = asked + noise.discrete_laplace(b, rng=rng)
        low, high = (min(middle + 1, high), high) if answer < 0 else (low, middle)
    return float(low * step)


def _point(steps, low, high, level, rate, rng):
    """Draw y in [low, high] with probability proportional to exp(-rate d(y)) (point 3).

    `steps` are sorted and lie between low and high; level and rate are exact.
    """
    starts, sizes, logs = _pieces(steps, low, high, level, float(rate))
    masses = sizes * np.exp(logs)
    power = 58 - math.frexp(masses.sum())[1]  # all weights together fit 61 bits
    weights = np.ldexp(masses, power) * (1 + 2.0**-30)
    weights = weights.astype(np.int64) + (sizes > 0)
    upto = weights.cumsum()
    while True:
        k = int(upto.searchsorted(noise.integers(int(upto[-1]), rng=rng), side="right"))
        point = int(starts[k]) + noise.integers(int(sizes[k]), rng=rng)
        factor = Fraction(2) ** power * int(sizes[k]) / int(weights[k])
        if _coin(factor, rate * _distance(steps, level, point), rng):
            return point


def _pieces(steps, low, high, level, rate):
    """Return starts, sizes and log weights of pieces of [low, high], on each of which d is constant
    but for two, the last, which get an upper bound (point 4).

    Gap i holds the points between the i-th record and the next one, its rank is i; the values stand
    between their gaps. Only ranks from `first` to `last` have pieces of their own.
    """
    n, target = steps.size, level * steps.size
    near = max(0.0, math.log(high - low + 1) + _NEAR) / rate + 1
    first, last = max(0, math.floor(target - near)), min(n, math.ceil(target + near))
    inner = steps[first:last]
    left = int(steps[first - 1]) if first else low - 1
    right = int(steps[last]) if last < n else high + 1
    edges = np.concatenate([[left], inner, [right]])
    gaps = np.maximum(np.diff(edges) - 1, 0)
    ranks = np.arange(first, last + 1) - math.floor(target) - float(target % 1)
    of_records = np.maximum(0.0, np.maximum(ranks[:-1], -ranks[1:]))
    heads = np.flatnonzero(np.diff(inner, prepend=left - 1))  # the first of each value
    of_values = np.minimum.reduceat(of_records, heads) if heads.size else of_records
    start_right = max(right, int(inner[-1]) + 1) if inner.size else right
    end_left = min(left, int(inner[0]) - 1) if inner.size else left
    starts = np.concatenate([edges[:-1] + 1, inner[heads], [low, start_right]])
    ones = np.ones(heads.size, dtype=np.int64)
    far = [max(0, end_left - low + 1), max(0, high - start_right + 1)]
    sizes = np.concatenate([gaps, ones, far])
    outside = [float(target - first), float(last - target)]
    return starts, sizes, -rate * np.concatenate([np.abs(ranks), of_values, outside])


def _distance(steps, level, point):
    """Return d(y) exactly."""
    below = int(np.searchsorted(steps, point, side="left"))
    upto = int(np.searchsorted(steps, point, side="right"))
    return max(Fraction(0), below - level * steps.size, level * steps.size - upto)


def _coin(factor, exponent, rng):
    """Draw True with probability factor exp(-exponent), at most 1, exactly.

    A uniform number is compared with bounds on that until they decide.
    """
    if exponent > _FAR:
        rest = noise.bernoulli_exp(exponent - _FAR, rng=rng)
        return _coin(factor, Fraction(_FAR), rng) and rest
    drawn, bits, digits = 0, 0, 30
    while True:
        drawn, bits = (drawn << _BITS) + noise.integers(1 << _BITS, rng=rng), bits + _BITS
        low, high = (factor * bound * 2**bits for bound in _exp_bounds(exponent, digits))
        if drawn + 1 <= low or drawn >= high:
            return drawn + 1 <= low
        digits += 20


def _exp_bounds(x, digits):
    """Return fractions below and above exp(-x), for x up to 1000, to some `digits` digits.

    Decimal's quotient and exponential are rounded correctly: with 6 digits more, x is off by less
    than 10^(-digits - 2), the exponential by less than 10^(1 - digits) of itself.
    """
    context = Context(prec=digits + 6, Emin=MIN_EMIN, Emax=MAX_EMAX)
    quotient = context.divide(Decimal(-x.numerator), Decimal(x.denominator))
    value, off = Fraction(context.exp(quotient)), Fraction(1, 10 ** (digits - 1))
    return value * (1 - off), value * (1 + off)
