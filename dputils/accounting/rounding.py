"""Directed rounding: guarantees up, budgets down."""
import math
from fractions import Fraction

import numpy as np

from dputils import checks

ULP = 2.0**-52
_ROUNDING = 1e-12  # relative; far above the rounding of the short computations it follows
_CHUNK = 1 << 13  # pairs solved at a time: their arrays stay in the processor's cache


def ceiling(x):
    """Return a float that, read as the decimal that prints it, is not below the fraction x: the nearest or the next."""
    y = nearest(x)
    return y if math.isinf(y) or checks.as_fraction("x", y) >= x else math.nextafter(y, math.inf)


def upper(x):
    """Return the smallest float that is not below the fraction x."""
    y = nearest(x)
    return y if y >= x else math.nextafter(y, math.inf)


def lower(x):
    """Return the largest float that is not above the fraction x."""
    y = nearest(x)
    return y if y <= x else math.nextafter(y, -math.inf)


def above(x):
    """Return x >= 0 raised by more than the rounding of a short computation."""
    return math.nextafter(x * (1 + _ROUNDING), math.inf)


def share(delta):
    """Return a delta below 1 as a float: a float as it is, a fraction rounded down."""
    return lower(delta) if isinstance(delta, Fraction) else float(delta)


def log_rest(delta):
    """Return ln(1 - delta) of a fraction, with 1 - delta rounded down; near 1 not a digit is lost."""
    rest = lower(1 - delta)
    return math.log1p(-upper(delta)) if 2 * delta < 1 else math.log(rest) if rest else -math.inf


def root(square):
    """Return the square root of a fraction, rounded up."""
    return above(math.sqrt(upper(square))) if square else 0.0


def nearest(x):
    try:
        return float(x)
    except OverflowError:  # a fraction beyond all floats
        return math.inf


def upper_exp(log):
    """exp, rounded up, at most 1."""
    value = np.minimum(np.nextafter(np.exp(log), 2) * (1 + 2 * ULP), 1)
    return value if np.ndim(value) else value.item()


def elementwise(function, *arrays):
    """Apply a function of one-dimensional arrays to broadcast arrays, a chunk at a time."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    flat = [np.broadcast_to(a, shape).ravel() for a in arrays]
    with np.errstate(all="ignore"):
        parts = [function(*(a[i:i + _CHUNK] for a in flat)) for i in range(0, flat[0].size, _CHUNK)]
    return np.concatenate(parts or [np.empty(0)]).reshape(shape) if shape else parts[0].item()
