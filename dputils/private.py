"""Reading private values: exactly, by public rules for what is odd, never refusing a record; rounding to a grid."""
import math
from numbers import Integral, Real

import numpy as np

from dputils import checks


def reals(value):
    """Private numbers as finite floats."""
    array, masked = np.asarray(value), isinstance(value, np.ma.MaskedArray)
    if array.dtype == object and all(isinstance(v, Real) for v in array.flat):
        array = np.array([number(v) for v in array.flat], dtype=float).reshape(array.shape)
    if masked or array.dtype.kind not in "iufb":
        kinds = {type(v).__name__ for v in array.flat} if array.dtype == object else {str(array.dtype)}
        shown = "a masked array" if masked else f"type {', '.join(sorted(kinds))}"
        raise ValueError(f"value must be a number or an array of numbers, got {shown}")
    with np.errstate(over="ignore"):
        return np.nan_to_num(array.astype(float))


def integers(value):
    """Integers as an int64 array, modulo 2^64: whether a private integer fits 64 bits must not show in an error."""
    value = np.asarray(value) if hasattr(value, "dtype") else np.asarray(value, dtype=object)
    if value.dtype == object and all(isinstance(v, Integral) and not isinstance(v, bool) for v in value.flat):
        wrapped = [(int(v) + 2**63) % 2**64 - 2**63 for v in value.flat]
        value = np.array(wrapped, dtype=np.int64).reshape(value.shape)
    if value.dtype.kind not in "iu":
        kinds = {type(v).__name__ for v in value.flat} if value.dtype == object else {str(value.dtype)}
        raise ValueError(f"value must be an integer or an array of integers, got type {', '.join(sorted(kinds))}")
    return value.astype(np.int64)


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
    low, high = grid_steps(lower, upper, grid)
    values = column(values)
    values = np.where(np.isnan(values), float(lower), np.clip(values, float(lower), float(upper)))
    return np.clip(np.rint(values / float(grid)), low, high).astype(np.int64)


def column(values):
    """Private values as floats: an array's shape and type are public; all else is read record by record, so that no
    record changes how another is read."""
    if np.ndim(values) != 1 if hasattr(values, "dtype") else hasattr(values, "ndim"):  # the latter: a data frame
        raise ValueError(f"values must have shape (n,), got {np.shape(values)}")
    if hasattr(values, "dtype") and getattr(values.dtype, "kind", "O") in "iufb":
        return np.asarray(values, dtype=float)
    return np.array([number(value) for value in values], dtype=float)


def number(value):
    value = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    try:
        if hasattr(value, "__len__") or isinstance(value, (np.datetime64, np.timedelta64)):
            return math.nan if not isinstance(value, str) else float(value)
        return float(value)
    except (TypeError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def grid_steps(lower, upper, grid):
    checks.bounds(lower, upper), checks.positive("grid", grid), checks.positive("grid", float(grid))
    step = checks.as_fraction("grid", grid)
    steps = [checks.as_fraction("lower", lower) / step, checks.as_fraction("upper", upper) / step]
    if any(step.denominator != 1 for step in steps):
        raise ValueError(f"grid must divide lower and upper, got grid={grid!r}, lower={lower!r}, upper={upper!r}")
    if max(map(abs, steps)) > 2**53:
        raise ValueError(f"grid must cut lower and upper into at most 2**53 steps, got grid={grid!r}, "
                         f"lower={lower!r}, upper={upper!r}")
    return int(steps[0]), int(steps[1])
