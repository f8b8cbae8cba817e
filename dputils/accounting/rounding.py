"""Directed rounding: what is guaranteed is rounded up, what is granted is rounded down.

Costs are exact fractions. Where a logarithm or a root enters, the result is a float on the side on
which the guarantee holds; the functions here say which side that is.
"""

import math
from fractions import Fraction

import numpy as np

from dputils import checks

ULP = 2.0**-52  # the distance of 1 from the next float
ROUNDING = 1e-12  # relative; far above the rounding of the short computations it follows
CHUNK = 1 << 13  # numbers computed at a time: their arrays stay in the processor's cache


def ends(low, high):
    """Return the ends of a range, widened so that a number rounded at an end is still inside."""
    return low * (1 - 1e-9), high * (1 + 1e-9)


def nearest(x):
    """Return the float nearest to the fraction x; infinity beyond all floats."""
    try:
        return float(x)
    except OverflowError:
        return math.inf


def upper(x):
    """Return the smallest float that is not below the fraction x."""
    y = nearest(x)
    return y if y >= x else math.nextafter(y, math.inf)


def lower(x):
    """Return the largest float that is not above the fraction x."""
    y = nearest(x)
    return y if y <= x else math.nextafter(y, -math.inf)


def ceiling(x):
    """Return a float that, read as the decimal that prints it, is not below the fraction x.

    It is the nearest float or the next.
    """
    y = nearest(x)
    if math.isinf(y) or checks.as_fraction("x", y) >= x:
        return y
    return math.nextafter(y, math.inf)


def above(x):
    """Return x >= 0 raised by more than the rounding of a short computation."""
    return math.nextafter(x * (1 + ROUNDING), math.inf)


def share(delta):
    """Return a delta below 1 as a float: a float as it is, a fraction rounded down."""
    return lower(delta) if isinstance(delta, Fraction) else float(delta)


def log_rest(delta):
    """Return ln(1 - delta) of a fraction, with 1 - delta rounded down: exact also near 1."""
    if 2 * delta < 1:
        return math.log1p(-upper(delta))
    rest = lower(1 - delta)
    return math.log(rest) if rest else -math.inf


def root(square):
    """Return the square root of a fraction, rounded up."""
    return above(math.sqrt(upper(square))) if square else 0.0


def root_below(square, bits=60):
    """Return a fraction below the square root of a positive fraction, by at most 2^-bits of it."""
    size = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    unit = Fraction(2) ** (bits + 2 - size)
    return math.isqrt(math.floor(square * unit * unit)) / unit


def upper_exp(log):
    """Return exp of a logarithm (any shape), rounded up, at most 1."""
    value = np.minimum(np.nextafter(np.exp(log), 2) * (1 + 2 * ULP), 1)
    return value if np.ndim(value) else value.item()


def elementwise(function, *arrays):
    """Apply a function of one-dimensional arrays to arrays that broadcast, a chunk at a time.

    Returns
    -------
    float for numbers, else an array of the broadcast shape
    """
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    flat = [np.broadcast_to(a, shape).ravel() for a in arrays]
    with np.errstate(all="ignore"):
        parts = [function(*(a[i : i + CHUNK] for a in flat)) for i in range(0, flat[0].size, CHUNK)]
    if not shape:
        return parts[0].item()
    return np.concatenate(parts or [np.empty(0)]).reshape(shape)
