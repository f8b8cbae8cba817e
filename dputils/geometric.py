"""The geometric mechanism: two-sided geometric (discrete Laplace) noise on whole numbers, exactly.

Letters: f the query, Delta its l1 sensitivity, s = Delta/epsilon the scale, a = exp(-1/s) the ratio of the law.
"""
import math
from fractions import Fraction

import numpy as np

from dputils import checks, noise, private
from dputils.sensitivity import of_sum


def scale(sensitivity, epsilon):
    """Return the exact scale s = sensitivity/epsilon of the geometric mechanism as a `Fraction`; sensitivity is a
    whole number."""
    checks.integer("sensitivity", sensitivity, low=1), checks.epsilon(epsilon)
    return Fraction(int(sensitivity)) / checks.as_fraction("epsilon", epsilon)


def release(value, sensitivity, epsilon, *, rng):
    """Add two-sided geometric (discrete Laplace) noise to an integer or to each coordinate of an integer vector,
    exactly.

    Privacy
        epsilon-differentially private, with no floating-point caveat, for the neighbour relation in which the whole
        number `sensitivity` bounds the L1 distance of the values of neighbouring tables. Pass `noise.SYSTEM` for a
        real release.

    Parameters
    ----------
    value : int or integer array of any shape
        The exact answer, Python integers of any size included; floats are refused: their type is public, rounding a
        decision apart.
    sensitivity : int, at least 1
    epsilon : float or Fraction, positive; a float is read as the decimal that prints it
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int or int64 array
        Of the shape of `value`. A sum beyond 64 bits wraps around, which is a function of the exact sum and so
        costs nothing.

    Error
        Unbiased, variance 2 a/(1 - a)^2 with a = exp(-epsilon/sensitivity).

    Source: Ghosh, Roughgarden, Sundararajan 2009 (SIAM J. Comput. 2012).
    """
    s = scale(sensitivity, epsilon)
    value = private.integers(value)
    with np.errstate(over="ignore"):
        noisy = value + noise.discrete_laplace(s, value.shape or None, rng=rng)
    return int(noisy) if value.shape == () else noisy


def logpmf(z, scale):
    """Log probability of the two-sided geometric law at the integers z: ln((1 - a)/(1 + a)) - |z|/s."""
    s = float(checks.positive("scale", scale))
    return math.log(math.tanh(0.5 / s)) - np.abs(np.asarray(z, dtype=float)) / s


def cdf(z, scale):
    """Distribution function of the two-sided geometric law at z (any shape; numbers between integers are rounded
    down)."""
    s = float(checks.positive("scale", scale))
    z = np.floor(np.asarray(z, dtype=float))
    # P(Z <= z) = a^-z/(1 + a) below zero; from zero on 1 - P(Z >= z + 1) = 1 - a^(z+1)/(1 + a)
    tail = np.exp(np.where(z < 0, z, -z - 1) / s) / (1 + math.exp(-1 / s))
    return np.where(z < 0, tail, 1 - tail)


def variance(scale):
    """Variance 2 a/(1 - a)^2 of two-sided geometric noise, a = exp(-1/scale): below 2 scale^2, the Laplace value."""
    s = float(checks.positive("scale", scale))
    return 2 * math.exp(-1 / s) / math.expm1(-1 / s) / math.expm1(-1 / s)


def tail(t, scale):
    """P(|Z| > t) = 2 a^(floor(t) + 1)/(1 + a) for t >= 0, and 1 below (any shape)."""
    s, t = float(checks.positive("scale", scale)), np.asarray(t, dtype=float)
    return np.where(t < 0, 1.0, 2 * np.exp(-(np.floor(np.maximum(t, 0)) + 1) / s) / (1 + math.exp(-1 / s)))


def accuracy(scale, beta, k=1):
    """The smallest integer alpha for which all of k noises stay within alpha with probability at least 1 - beta;
    scale up to 2^50."""
    checks.probability("beta", beta), checks.integer("k", k, low=1)
    each = -math.expm1(math.log1p(-beta) / k)
    s = float(checks.positive("scale", scale))
    if s > 2**50:
        raise ValueError(f"scale must be at most 2**50, got {scale!r}")
    # the closed form is rounded, by less than 1e-13 s: start below it and let the tail decide, in a few steps
    alpha = max(0, math.floor(-s * math.log(each * (1 + math.exp(-1 / s)) / 2)) - 2 - int(1e-13 * s))
    while tail(alpha, s) > each:
        alpha += 1
    return alpha


def sum_release(values, lower, upper, grid, neighbours, epsilon, *, rng):
    """Release the sum of clamped values, rounded per record to a public grid, with exact geometric noise.

    Privacy
        epsilon-differentially private for `neighbours`; lower, upper and grid are public, nothing else is assumed
        known.

    Parameters
    ----------
    values, lower, upper, grid
        See `to_grid`.
    neighbours : {"add-remove", "replace-one"}
    epsilon : float or Fraction
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    float
        The noisy sum in the unit of the values, a multiple of grid.

    Error
        Noise: grid times geometric noise of scale max(|lower|, |upper|)/(grid epsilon) under add-remove, (upper -
        lower)/(grid epsilon) under replace-one. Rounding: at most grid/2 a record. Clamping: what it cuts off.
    """
    low, high = private.grid_steps(lower, upper, grid)
    steps = private.to_grid(values, lower, upper, grid)
    noisy = release(steps.sum(dtype=np.int64), of_sum(low, high, neighbours), epsilon, rng=rng)
    return float(noisy * checks.as_fraction("grid", grid))
