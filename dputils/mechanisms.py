"""The Laplace and the geometric mechanism: scales, laws, errors and releases.

A *scale* turns a sensitivity (`sensitivity.py`) and an epsilon into the size of the noise. A *law* is a density or
a distribution function. A *release* draws: `laplace_release` is floating point and serves experiments;
`geometric_release` and `grid_sum_release` are exact and take `noise.SYSTEM` for real releases.

Letters: f the query, Delta its sensitivity, b or s = Delta/epsilon the scale, a = exp(-1/s) the ratio of the
geometric law.
"""
import math
from fractions import Fraction
from numbers import Integral, Real

import numpy as np

from dputils import checks, noise
from dputils.sensitivity import of_sum

# ------------------------------------------------------------------------------------------------------- Laplace


def laplace_scale(sensitivity, epsilon):
    """Return the scale b = sensitivity/epsilon of the Laplace mechanism (Dwork, McSherry, Nissim, Smith 2006)."""
    checks.positive("sensitivity", sensitivity), checks.epsilon(epsilon)
    with np.errstate(all="ignore"):
        return checks.positive("sensitivity/epsilon", float(np.float64(sensitivity) / np.float64(epsilon)))


def laplace_release(value, sensitivity, epsilon, *, rng):
    """Add Laplace noise of scale sensitivity/epsilon to a number or to each coordinate of a vector, in floating point.

    Privacy
        In real arithmetic epsilon-differentially private for the neighbour relation in which `sensitivity` bounds
        the L1 distance of the values of neighbouring tables. In floating point it is not: the low bits of the
        output can tell the tables apart (Mironov 2012). For experiments only; release integers with
        `geometric_release` and sums with `grid_sum_release`.

    Parameters
    ----------
    value : number or array of numbers of any shape
        The exact answer. What lies beyond all floats counts as the largest float of its sign, which brings no two
        values further apart; NaN, which no sensitivity bounds, counts as 0.
    sensitivity, epsilon : float, both positive; sensitivity in the unit of the value
    rng : numpy.random.Generator

    Returns
    -------
    float or array
        Of the shape of `value`.

    Error
        Per coordinate: unbiased, variance 2 b^2, P(|error| > t) = exp(-t/b).

    Source: Dwork, McSherry, Nissim, Smith 2006; Dwork and Roth 2014, Theorem 3.6.
    """
    value = _reals(value)
    with np.errstate(over="ignore"):
        return value + noise.laplace(laplace_scale(sensitivity, epsilon), value.shape or None, rng=rng)


def _reals(value):
    """Private numbers as finite floats."""
    array, masked = np.asarray(value), isinstance(value, np.ma.MaskedArray)
    if array.dtype == object and all(isinstance(v, Real) for v in array.flat):
        array = np.array([_float(v) for v in array.flat], dtype=float).reshape(array.shape)
    if masked or array.dtype.kind not in "iufb":
        kinds = {type(v).__name__ for v in array.flat} if array.dtype == object else {str(array.dtype)}
        shown = "a masked array" if masked else f"type {', '.join(sorted(kinds))}"
        raise ValueError(f"value must be a number or an array of numbers, got {shown}")
    with np.errstate(over="ignore"):
        return np.nan_to_num(array.astype(float))


def laplace_logpdf(x, scale):
    """Log density of the centred Laplace law at x (any shape): -|x|/b - ln(2 b)."""
    b = float(checks.positive("scale", scale))
    return -np.abs(x) / b - math.log(2 * b)


def laplace_cdf(x, scale):
    """Distribution function of the centred Laplace law at x (any shape)."""
    tail = 0.5 * np.exp(-np.abs(x) / float(checks.positive("scale", scale)))
    return np.where(np.asarray(x) < 0, tail, 1 - tail)


def laplace_variance(scale):
    """Variance 2 b^2 of Laplace noise of scale b."""
    b = float(checks.positive("scale", scale))
    return 2 * b * b


def laplace_tail(t, scale):
    """P(|Y| > t) = exp(-t/b) for t >= 0 (any shape)."""
    return np.exp(-np.maximum(t, 0) / float(checks.positive("scale", scale)))


def laplace_accuracy(scale, beta, k=1):
    """The alpha for which all of k independent noises stay within alpha with probability exactly 1 - beta.

    Returns
    -------
    float
        -b ln(1 - (1 - beta)^(1/k)), which for k = 1 is b ln(1/beta) and never above the union bound b ln(k/beta).

    Source
        Dwork and Roth 2014, Theorem 3.8 (with the union bound).
    """
    checks.positive("scale", scale), checks.probability("beta", beta), checks.integer("k", k, low=1)
    return -float(scale) * math.log(-math.expm1(math.log1p(-beta) / k))


# ------------------------------------------------------------------------------------------------------ geometric


def geometric_scale(sensitivity, epsilon):
    """Return the exact scale s = sensitivity/epsilon of the geometric mechanism as a `Fraction`; sensitivity is a
    whole number."""
    checks.integer("sensitivity", sensitivity, low=1), checks.epsilon(epsilon)
    return Fraction(int(sensitivity)) / checks.as_fraction("epsilon", epsilon)


def geometric_release(value, sensitivity, epsilon, *, rng):
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
    scale = geometric_scale(sensitivity, epsilon)
    value = _int64(value)
    with np.errstate(over="ignore"):
        noisy = value + noise.discrete_laplace(scale, value.shape or None, rng=rng)
    return int(noisy) if value.shape == () else noisy


def _int64(value):
    """Integers as an int64 array, modulo 2^64: whether a private integer fits 64 bits must not show in an error."""
    value = np.asarray(value) if hasattr(value, "dtype") else np.asarray(value, dtype=object)
    if value.dtype == object and all(isinstance(v, Integral) and not isinstance(v, bool) for v in value.flat):
        wrapped = [(int(v) + 2**63) % 2**64 - 2**63 for v in value.flat]
        value = np.array(wrapped, dtype=np.int64).reshape(value.shape)
    if value.dtype.kind not in "iu":
        kinds = {type(v).__name__ for v in value.flat} if value.dtype == object else {str(value.dtype)}
        raise ValueError(f"value must be an integer or an array of integers, got type {', '.join(sorted(kinds))}")
    return value.astype(np.int64)


def geometric_logpmf(z, scale):
    """Log probability of the two-sided geometric law at the integers z: ln((1 - a)/(1 + a)) - |z|/s."""
    s = float(checks.positive("scale", scale))
    return math.log(math.tanh(0.5 / s)) - np.abs(np.asarray(z, dtype=float)) / s


def geometric_cdf(z, scale):
    """Distribution function of the two-sided geometric law at z (any shape; numbers between integers are rounded
    down)."""
    s = float(checks.positive("scale", scale))
    z = np.floor(np.asarray(z, dtype=float))
    # P(Z <= z) = a^-z/(1 + a) below zero; from zero on 1 - P(Z >= z + 1) = 1 - a^(z+1)/(1 + a)
    tail = np.exp(np.where(z < 0, z, -z - 1) / s) / (1 + math.exp(-1 / s))
    return np.where(z < 0, tail, 1 - tail)


def geometric_variance(scale):
    """Variance 2 a/(1 - a)^2 of two-sided geometric noise, a = exp(-1/scale): below 2 scale^2, the Laplace value."""
    s = float(checks.positive("scale", scale))
    return 2 * math.exp(-1 / s) / math.expm1(-1 / s) / math.expm1(-1 / s)


def geometric_tail(t, scale):
    """P(|Z| > t) = 2 a^(floor(t) + 1)/(1 + a) for t >= 0, and 1 below (any shape)."""
    s, t = float(checks.positive("scale", scale)), np.asarray(t, dtype=float)
    return np.where(t < 0, 1.0, 2 * np.exp(-(np.floor(np.maximum(t, 0)) + 1) / s) / (1 + math.exp(-1 / s)))


def geometric_accuracy(scale, beta, k=1):
    """The smallest integer alpha for which all of k noises stay within alpha with probability at least 1 - beta;
    scale up to 2^50."""
    checks.probability("beta", beta), checks.integer("k", k, low=1)
    each = -math.expm1(math.log1p(-beta) / k)
    s = float(checks.positive("scale", scale))
    if s > 2**50:
        raise ValueError(f"scale must be at most 2**50, got {scale!r}")
    # the closed form is rounded, by less than 1e-13 s: start below it and let the tail decide, in a few steps
    alpha = max(0, math.floor(-s * math.log(each * (1 + math.exp(-1 / s)) / 2)) - 2 - int(1e-13 * s))
    while geometric_tail(alpha, s) > each:
        alpha += 1
    return alpha


# ----------------------------------------------------------------------------------- sums of real values, exactly


def to_grid(values, lower, upper, grid=1):
    """Clamp each record to [lower, upper] and round it to a public grid; returns whole numbers of grid steps.

    Rounding before summing is what makes the sum an integer with a known sensitivity; rounding after would not be.

    Parameters
    ----------
    values : array of shape (n,)
        Private; NaN and whatever is not a number are read as `lower`, values outside are clamped, nothing is refused.
    lower, upper, grid : int, float or Fraction
        Public; floats are read as decimals; lower and upper must be multiples of grid, at most 2^53 of them.

    Returns
    -------
    int64 array of shape (n,)
        Between lower/grid and upper/grid.
    """
    low, high = _grid_bounds(lower, upper, grid)
    values = _floats(values)
    values = np.where(np.isnan(values), float(lower), np.clip(values, float(lower), float(upper)))
    return np.clip(np.rint(values / float(grid)), low, high).astype(np.int64)


def _floats(values):
    """Private values as floats: an array's shape and type are public; all else is read record by record, so that no
    record changes how another is read."""
    if np.ndim(values) != 1 if hasattr(values, "dtype") else hasattr(values, "ndim"):  # the latter: a data frame
        raise ValueError(f"values must have shape (n,), got {np.shape(values)}")
    if hasattr(values, "dtype") and getattr(values.dtype, "kind", "O") in "iufb":
        return np.asarray(values, dtype=float)
    return np.array([_float(value) for value in values], dtype=float)


def _float(value):
    value = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    try:
        if hasattr(value, "__len__") or isinstance(value, (np.datetime64, np.timedelta64)):
            return math.nan if not isinstance(value, str) else float(value)
        return float(value)
    except (TypeError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def grid_sum_release(values, lower, upper, grid, neighbours, epsilon, *, rng):
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
    low, high = _grid_bounds(lower, upper, grid)
    steps = to_grid(values, lower, upper, grid)
    noisy = geometric_release(steps.sum(dtype=np.int64), of_sum(low, high, neighbours), epsilon, rng=rng)
    return float(noisy * checks.as_fraction("grid", grid))


def _grid_bounds(lower, upper, grid):
    checks.bounds(lower, upper), checks.positive("grid", grid), checks.positive("grid", float(grid))
    step = checks.as_fraction("grid", grid)
    steps = [checks.as_fraction("lower", lower) / step, checks.as_fraction("upper", upper) / step]
    if any(step.denominator != 1 for step in steps):
        raise ValueError(f"grid must divide lower and upper, got grid={grid!r}, lower={lower!r}, upper={upper!r}")
    if max(map(abs, steps)) > 2**53:
        raise ValueError(f"grid must cut lower and upper into at most 2**53 steps, got grid={grid!r}, "
                         f"lower={lower!r}, upper={upper!r}")
    return int(steps[0]), int(steps[1])
