"""The mean of bounded records, when their number is private: two shares, an estimate, an interval.

Letters: x_i the records, clamped to [L, U], W = U - L, n their number, r their mean; f_1 = sum(x_i
- L) and f_2 = sum(U - x_i) the two shares, f_1' and f_2' with noise, b_1 and b_2 the scales.

The mean is the one x at which w_1(x) f_1 = w_2(x) f_2, for two linear functions w_1 and w_2 that
depend on how it is published: U - x and x - L for shares, 1 and x - c for a sum of x_i - c and a
count. Such a pair of functions is an *equation* here, a function of x that returns (w_1, w_2).

Ranges: bounds up to 1e12 in size, scales 1e-6 to 2^50, beta 1e-250 to 1 - 2^-53.
"""

from functools import partial

import numpy as np

from dputils import checks, geometric, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.ratios import difference_cdf
from dputils.sensitivity import Sensitivity

_LARGEST = 1e12
_SCALES = (1e-6, 2.0**50)  # the largest that exact noise has
_HALVINGS = 60  # of the range; a float has 53 bits


def sensitivity_of(lower, upper, neighbours, *, unit="row"):
    """Return the l1 sensitivity of the two shares (sum(x_i - lower), sum(upper - x_i)).

    Returns
    -------
    Sensitivity
        upper - lower under add-remove, whatever the record; 2 (upper - lower) under replace-one.
    """
    lower, upper = checks.bounds(lower, upper)
    units = 1 if checks.neighbours(neighbours) == "add-remove" else 2
    return Sensitivity(units * (upper - lower), "l1", neighbours, unit)


def mechanism(lower, upper, grid, neighbours, epsilon, *, unit="row"):
    """Return the release of the two shares, for a `Ledger`: each with geometric noise, exactly.

    Privacy
        epsilon-differentially private for `neighbours`, for a `unit` that has one value in the
        column; so is all that is computed from the two numbers. Public: lower, upper, grid,
        epsilon. The number of records is private.

    Parameters
    ----------
    lower, upper, grid : int, float or Fraction
        Public: floats are read as decimals; lower and upper are multiples of grid. Each record is
        clamped and rounded to the grid; what is missing counts as lower (`private.to_grid`).
    neighbours : {"add-remove", "replace-one"}
        Under replace-one the number of records is public, and the noisy sum alone is better.
    epsilon : int, float or Fraction
    unit : str
        What is added, removed or replaced.

    Returns
    -------
    Mechanism
        Exact. It reads a column as its two shares in steps of the grid, and draws two integers, in
        steps as well; at n (upper - lower)/grid of 2^63 and more the shares wrap around, which
        keeps the privacy and spoils the answer. Its law is that of the release minus the shares,
        coordinate by coordinate.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Geometric noise of (upper - lower)/(grid epsilon) steps on each share under add-remove. For
        the mean see `estimate`.

    Source
        Kulesza, Suresh, Wang 2024.
    """
    low, high = private.grid_steps(lower, upper, grid)
    moved = sensitivity_of(low, high, neighbours, unit=unit)
    s = geometric.scale(moved, epsilon)
    return Mechanism(
        name=f"two shares in steps of {float(grid):.6g}, geometric noise of {float(s):.6g} steps",
        costs=(Pure(epsilon),),
        neighbours=neighbours,
        unit=unit,
        read=partial(_shares, lower=lower, upper=upper, grid=grid),
        draw=partial(_draw, s=s),
        exact=True,
        sensitivity=moved,
        law=lambda c: partial(geometric.cdf, scale=float(s) / c),
        discrete=True,
    )


def _shares(values, lower, upper, grid):
    """Return (sum(x_i - lower), sum(upper - x_i)) in steps of the grid, modulo 2^64."""
    low, high = private.grid_steps(lower, upper, grid)
    steps = private.to_grid(values, lower, upper, grid)
    return np.array([(steps - low).sum(dtype=np.int64), (high - steps).sum(dtype=np.int64)])


def _draw(shares, s, *, rng):
    return shares + noise.discrete_laplace(s, 2, rng=rng)


def of_shares(lower, upper):
    """Return the equation of two shares: the mean is where (upper - x) f_1 = (x - lower) f_2."""
    low, high = map(float, checks.bounds(lower, upper, _LARGEST))
    return lambda x: (high - x, x - low)


def of_sum_and_count(centre=0):
    """Return the equation of a sum of records minus a centre, f_1, and of their number, f_2.

    The mean is where f_1 = (x - centre) f_2.
    """
    c = float(checks.within("centre", centre, -_LARGEST, _LARGEST))
    return lambda x: (1.0, x - c)


def estimate(noisy, equation, lower, upper):
    """Return the mean that solves w_1(x) f_1' = w_2(x) f_2', clamped to [lower, upper].

    Parameters
    ----------
    noisy : array of shape (..., 2)
        Published numbers (f_1', f_2').
    equation : function of x
        From `of_shares` or `of_sum_and_count`.
    lower, upper : float
        Public bounds.

    Returns
    -------
    float array of shape (...)
        The middle of the bounds where the noisy count, the slope of the equation, is not positive.

    Error
        To first order, for equal scales of Laplace noise W/epsilon on two shares: mean squared
        error 2 (t^2 + (1 - t)^2) W^2/(n epsilon)^2 with t = (r - L)/W.

    Source
        Kulesza, Suresh, Wang 2024; derived in the chapter on means.
    """
    f = _pairs(noisy)
    low, high = map(float, checks.bounds(lower, upper, _LARGEST))
    at_low, at_high = _left_over(f, equation, low), _left_over(f, equation, high)
    count = at_low - at_high
    share = np.divide(at_low, count, out=np.full(count.shape, 0.5), where=count > 0)
    return low + (high - low) * np.clip(share, 0, 1)


def interval(noisy, equation, scales, lower, upper, beta, *, slack=(0.0, 0.0)):
    """Return an interval that holds the mean with probability at least 1 - beta, for any records.

    It holds all x at which w_1(x) f_1' - w_2(x) f_2' is no larger than its noise is with
    probability 1 - beta, and where a bound is such an x, all that lie before it. It speaks of the
    noise only: of the mean of this table, which has one record or more, and so few that its shares
    do not wrap around (see `mechanism`).

    Privacy
        Computed from published numbers, so it costs nothing.

    Parameters
    ----------
    noisy : array of shape (..., 2)
        Published numbers (f_1', f_2').
    equation : function of x
        From `of_shares` or `of_sum_and_count`.
    scales : (float, float)
        Of the independent Laplace noises on f_1 and f_2, in the unit of f_1 and f_2. For pairs of
        `mechanism`, which are in steps: (upper - lower)/(grid epsilon), twice.
    lower, upper : float
        Public bounds of the records, and so of the mean.
    beta : float
    slack : (float, float)
        How far each noise can be from the Laplace number that it is drawn from, in the unit of f_1
        and f_2: (0, 0) for Laplace noise, (1, 1) for geometric noise in steps.

    Returns
    -------
    float array of shape (..., 2)
        (low, high), all of [lower, upper] where the noisy count is not positive or the estimate
        does not fit.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Source
        Fieller 1954, for normal noise; derived in the chapter on means.
    """
    f = _pairs(noisy)
    low, high = map(float, checks.bounds(lower, upper, _LARGEST))
    b = [float(checks.within(f"scales[{i}]", scale, *_SCALES)) for i, scale in enumerate(scales)]
    step = [float(checks.not_negative(f"slack[{i}]", extra)) for i, extra in enumerate(slack)]
    checks.within("beta", checks.probability("beta", beta), *checks.BETAS)

    def excluded(x):
        w1, w2 = np.abs(np.broadcast_arrays(*equation(x)))
        beyond = np.abs(_left_over(f, equation, x)) - w1 * step[0] - w2 * step[1]
        return _tail(beyond, w1 * b[0], w2 * b[1]) < beta

    start = estimate(f, equation, low, high)
    slope = _left_over(f, equation, low) - _left_over(f, equation, high)
    all_fit = (slope <= 0) | excluded(start)
    ends = [_end(excluded, start, np.full(start.shape, bound)) for bound in (low, high)]
    return np.stack([np.where(all_fit, low, ends[0]), np.where(all_fit, high, ends[1])], axis=-1)


def _end(excluded, inside, outside):
    """Return where exclusion begins between a point that fits and a bound; the bound if it fits.

    `inside` always fits, `outside` never does, if the bound does not.
    """
    fits, bound = ~excluded(outside), outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        out = excluded(middle)
        inside, outside = np.where(out, inside, middle), np.where(out, middle, outside)
    return np.where(fits, bound, outside)


def _tail(v, b1, b2):
    """P(|Y_1 - Y_2| > v) for Laplace noises of scales b_1 and b_2, not both 0."""
    larger, smaller = np.maximum(b1, b2), np.minimum(b1, b2)
    return 2 * difference_cdf(-np.maximum(v, 0) / larger, smaller / larger, 1.0, 1.0)


def _left_over(f, equation, x):
    """w_1(x) f_1 - w_2(x) f_2: positive below the mean, negative above."""
    w1, w2 = equation(x)
    return w1 * f[..., 0] - w2 * f[..., 1]


def _pairs(noisy):
    f = np.asarray(noisy, dtype=float)
    if f.ndim == 0 or f.shape[-1] != 2:
        raise ValueError(f"noisy must have shape (..., 2), got {f.shape}")
    return f
