"""The geometric mechanism: two-sided geometric (discrete Laplace) noise on whole numbers, exactly.

Letters: f the query, Delta its l1 sensitivity, s = Delta/epsilon the scale, a = exp(-1/s) the ratio
of the law, z the noise; alpha an accuracy that is missed with probability beta.

Ranges: the scale s 2^-50 to 2^50, whatever Delta and epsilon; a grid 1e-100 to 1e100; beta 1e-250
to 1 - 2^-53.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.laplace import beta_of_one, centred
from dputils.sensitivity import named, of_sum, reader, size_of

_NORMS = ("absolute", "l1")


def scale(sensitivity, epsilon):
    """Return the exact scale s = sensitivity/epsilon of the geometric mechanism.

    Parameters
    ----------
    sensitivity : Sensitivity in the norm "absolute" or "l1", or its size
        A whole number, at least 1.
    epsilon : int, float or Fraction
        Positive; a float is read as the decimal that prints it.

    Returns
    -------
    Fraction
    """
    size = checks.integer("sensitivity", size_of(sensitivity, *_NORMS), low=1)
    s = Fraction(size) / checks.as_fraction("epsilon", checks.epsilon(epsilon))
    return checks.within("sensitivity/epsilon", s, *checks.STEPS)


def release(value, sensitivity, epsilon, *, rng):
    """Add two-sided geometric noise to an integer or to each entry of an integer array, exactly.

    Privacy
        epsilon-differentially private, with no floating-point caveat, for the neighbour relation in
        which the whole number `sensitivity` bounds the l1 distance of the values of neighbouring
        tables. Pass `noise.SYSTEM` for a real release. Public: the type and shape of the value,
        sensitivity, epsilon.

    Parameters
    ----------
    value : int or integer array of any shape
        Private: the exact answer, read by `private.integers`; arrays of floats are refused: their
        type is public, rounding a decision apart. In a list, which has no dtype, a number between
        integers is rounded down, each by itself: (0.5, 0.5) and (1, 1) are 1 apart, and 2 apart as
        read. The sensitivity has to bound the distance of what is read.
    sensitivity : Sensitivity in the norm "absolute" or "l1", or its size
        A whole number, at least 1.
    epsilon : int, float or Fraction
        Positive; a float is read as the decimal that prints it.
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int or int64 array
        Of the shape of `value`. A sum beyond 64 bits wraps around, which is a function of the exact
        sum and so costs nothing.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Unbiased, variance 2 a/(1 - a)^2 with a = exp(-epsilon/sensitivity).

    Source
        Ghosh, Roughgarden, Sundararajan 2009 (SIAM J. Comput. 2012).
    """
    s = scale(sensitivity, epsilon)
    return _draw(private.integers(value), s, rng=rng)


def mechanism(sensitivity, epsilon):
    """Return the geometric mechanism for whole-numbered answers of a sensitivity, for a `Ledger`.

    Privacy
        As `release`, for the relation and the unit of the sensitivity; its cost is `Pure(epsilon)`.

    Parameters
    ----------
    sensitivity : Sensitivity
        A whole number; in the norm "absolute" for one integer, in "l1" for integer arrays of any
        shape.
    epsilon : int, float or Fraction

    Returns
    -------
    Mechanism
        Exact. Its law is that of the release minus the value, coordinate by coordinate, on whole
        numbers.
    """
    s = scale(named(sensitivity, *_NORMS), epsilon)
    return Mechanism(
        name=f"geometric mechanism, scale {float(s):.6g}",
        costs=(Pure(epsilon),),
        neighbours=sensitivity.neighbours,
        unit=sensitivity.unit,
        read=reader(private.integers, sensitivity),
        draw=partial(_draw, s=s),
        exact=True,
        sensitivity=sensitivity,
        law=lambda c: partial(cdf, scale=float(s) / c),
        discrete=True,
    )


def sum_release(values, lower, upper, grid, neighbours, epsilon, *, rng):
    """Release the sum of clamped values, rounded per record to a grid, with exact noise.

    Privacy
        epsilon-differentially private for `neighbours`. Public: lower, upper, grid, epsilon.

    Parameters
    ----------
    values : array of shape (n,)
        Private, read by `private.to_grid`; their number is private, too.
    lower, upper, grid : int, float or Fraction
        Floats are read as decimals; lower and upper are multiples of grid.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    float
        The noisy sum in the unit of the values, a multiple of grid.

    Error
        Noise: grid times geometric noise of scale max(|lower|, |upper|)/(grid epsilon) under
        add-remove, (upper - lower)/(grid epsilon) under replace-one. Rounding: at most grid/2 a
        record. Clamping: what it cuts off.
    """
    return sum_mechanism(lower, upper, grid, neighbours, epsilon)(values, rng=rng)


def sum_mechanism(lower, upper, grid, neighbours, epsilon, *, unit="row"):
    """Return the mechanism of `sum_release`, for a `Ledger`.

    It clamps, rounds each record to a grid, sums, and draws exactly.

    Privacy
        As `sum_release`, for a `unit` that has one value in the column.

    Parameters
    ----------
    lower, upper, grid : int, float or Fraction
        Public, as in `sum_release`.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
    unit : str
        What is added, removed or replaced.

    Returns
    -------
    Mechanism
        Exact. It reads a column as its sum in steps of the grid. Its law is that of the release
        minus this sum, both in steps of the grid: (release - grid read(values))/grid, on whole
        numbers.
    """
    step = checks.as_fraction("grid", checks.within("grid", grid, *checks.SIZES))
    moved = of_sum(*private.grid_steps(lower, upper, grid), neighbours, unit=unit)
    s = scale(moved, epsilon)
    return Mechanism(
        name=f"sum on the grid {float(step):.6g}, geometric noise of {float(s):.6g} steps",
        costs=(Pure(epsilon),),
        neighbours=neighbours,
        unit=unit,
        read=partial(_steps, lower=lower, upper=upper, grid=grid),
        draw=partial(_draw_multiple, s=s, step=step),
        exact=True,
        sensitivity=replace(moved, size=moved.size * step),
        law=lambda c: partial(cdf, scale=float(s) / c),
        discrete=True,
    )


def _draw(value, s, *, rng):
    """Return value plus noise, modulo 2^64."""
    noisy = value + noise.discrete_laplace(s, value.shape or None, rng=rng)
    return noisy if value.shape else int(noisy)


def _steps(values, lower, upper, grid):
    """Return the sum of a column in steps of the grid, modulo 2^64."""
    steps = private.to_grid(values, lower, upper, grid)
    return np.asarray(steps.sum(dtype=np.int64))


def _draw_multiple(total, s, step, *, rng):
    return float(_draw(total, s, rng=rng) * step)


def logpmf(z, scale, centre=0):
    """Log probability of the two-sided geometric law around a whole centre at the integers z.

    ln((1 - a)/(1 + a)) - |z - centre|/s, of any shape; -inf between the integers.
    """
    s, y = _number(scale), centred(z, centre)
    log = math.log(math.tanh(0.5 / s)) - np.abs(y) / s
    return np.where(y == np.floor(y), log, -np.inf)[()]


def cdf(z, scale, centre=0):
    """Distribution function of the two-sided geometric law around a whole centre at z (any shape).

    Numbers between integers are rounded down. P(Z <= z) = a^-z/(1 + a) below zero; from zero on
    1 - P(Z >= z + 1) = 1 - a^(z+1)/(1 + a).
    """
    s = _number(scale)
    z = np.floor(centred(z, centre))
    tail = np.exp(np.where(z < 0, z, -z - 1) / s) / (1 + math.exp(-1 / s))
    return np.where(z < 0, tail, 1 - tail)


def tail(t, scale):
    """P(|Z| > t) = 2 a^(floor(t) + 1)/(1 + a) for t >= 0, and 1 below (any shape)."""
    s, t = _number(scale), np.asarray(t, dtype=float)
    beyond = np.floor(np.maximum(t, 0)) + 1
    return np.where(t < 0, 1.0, 2 * np.exp(-beyond / s) / (1 + math.exp(-1 / s)))


def variance(scale):
    """Variance 2 a/(1 - a)^2 of two-sided geometric noise: below 2 scale^2, the Laplace value."""
    s = _number(scale)
    return 2 * math.exp(-1 / s) / math.expm1(-1 / s) / math.expm1(-1 / s)


def accuracy(scale, beta, k=1):
    """Return the smallest alpha within which all of k noises stay with probability 1 - beta.

    alpha is a whole number; the probability is at least 1 - beta.
    """
    s, one = _number(scale), beta_of_one(beta, k)
    # the closed form is rounded, by less than 1e-13 s: start below it, the tail decides
    closed = math.floor(-s * math.log(one * (1 + math.exp(-1 / s)) / 2))
    alpha = max(0, closed - 2 - int(1e-13 * s))
    while tail(alpha, s) > one:
        alpha += 1
    return alpha


def _number(scale):
    return float(checks.within("scale", scale, *checks.STEPS))
