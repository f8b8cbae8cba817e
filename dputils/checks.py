"""Refusals of public arguments: a `ValueError` that names the argument and its value.

Public arguments (budgets, bounds, shapes, generators) are refused early and loudly. Private values
never are: whether a release raises must not depend on the data, so nothing here looks at a record.

An epsilon given as a float is read as the decimal number that prints it: `0.1` means one tenth
(`as_fraction`). Ledgers add such numbers and exact samplers use them without rounding.
"""

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Rational, Real

import numpy as np

NEIGHBOURS = ("add-remove", "replace-one")
EPSILONS = (1e-6, 1e3)  # the range of epsilon, unless a function says otherwise
DELTAS = (1e-300, 1)  # of a delta that is not 0; always below 1
BETAS = (1e-250, 1 - 2.0**-53)  # of the probability of missing an accuracy
SIZES = (1e-100, 1e100)  # of sensitivities, scales and standard deviations that are floats
STEPS = (Fraction(1, 1 << 50), 1 << 50)  # of the scales of exact noise, in steps of the grid


def as_fraction(name, value):
    """Return a number as an exact `Fraction`; a float is read as the decimal that prints it.

    Raises
    ------
    ValueError
        If `value` is not a finite real number.
    """
    number(name, value)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return _decimal(float(value))


@lru_cache(maxsize=4096)
def _decimal(value):
    """Return the decimal that prints a float, as a fraction; ledgers read the same ones again."""
    return Fraction(repr(value))


def number(name, value):
    """Return a finite real number unchanged; refuse bool, NaN, infinities and anything else."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {_shown(value)}")
    if not _finite(value):
        raise ValueError(f"{name} must be finite, got {_shown(value)}")
    return value


def positive(name, value):
    """Return a finite number above zero unchanged."""
    if (
        isinstance(value, (bool, np.bool_))
        or not isinstance(value, Real)
        or not (_finite(value) and value > 0)
    ):
        raise ValueError(f"{name} must be positive and finite, got {_shown(value)}")
    return value


def not_negative(name, value):
    """Return a finite number of at least zero unchanged."""
    if number(name, value) < 0:
        raise ValueError(f"{name} must be at least 0, got {_shown(value)}")
    return value


def within(name, value, low, high):
    """Return a number between the public ends `low` and `high`, both included, unchanged.

    Raises
    ------
    ValueError
        If `value` is not a finite number, is not positive where `low` is, or lies outside.
    """
    if low > 0:
        positive(name, value)
    else:
        number(name, value)
    if not low <= _plain(value) <= high:
        raise ValueError(f"{name} must be {_between(low, high)}, got {_shown(value)}")
    return value


def integer(name, value, low=None):
    """Return a whole number (an int, not a float that happens to be whole) of at least `low`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be an integer, got {_shown(value)}")
    whole = int(value)  # what is checked is what is returned, whatever a subclass says of itself
    if low is not None and whole < low:
        raise ValueError(f"{name} must be at least {low}, got {whole}")
    return whole


def epsilon(value, name="epsilon"):
    """Return an epsilon: positive and finite."""
    return positive(name, value)


def delta(value, name="delta"):
    """Return a delta: in [0, 1)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real) or not 0 <= value < 1:
        raise ValueError(f"{name} must be in [0, 1), got {_shown(value)}")
    return value


def probability(name, value):
    """Return a probability strictly between 0 and 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real) or not 0 < value < 1:
        raise ValueError(f"{name} must be strictly between 0 and 1, got {_shown(value)}")
    return value


def bounds(lower, upper, largest=None):
    """Return public bounds `lower < upper`, both finite, as Python's own numbers.

    Differences of numpy's small integers would wrap around. `largest` limits their size.
    """
    for name, value in (("lower", lower), ("upper", upper)):
        number(name, value)
        if largest is not None:
            within(name, value, -largest, largest)
    if not lower < upper:
        raise ValueError(
            f"lower must be less than upper, got lower={_shown(lower)}, upper={_shown(upper)}"
        )
    return _plain(lower), _plain(upper)


def neighbours(value):
    """Return the neighbour relation, `"add-remove"` or `"replace-one"`."""
    return one_of("neighbours", value, NEIGHBOURS)


def one_of(name, value, allowed):
    """Return `value` as a plain string if it is one of the strings `allowed`."""
    plain = str.__str__(value) if isinstance(value, str) else None
    if plain not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return plain


def named(name, value):
    """Return a string that names something, as a plain one: not empty, not only spaces."""
    plain = str.__str__(value) if isinstance(value, str) else ""
    if not plain.strip():
        raise ValueError(f"{name} must be a string that is not empty, got {value!r}")
    return plain


def generator(rng):
    """Return a source of randomness: a `np.random.Generator`, or `noise.SYSTEM`.

    An int or None is refused.
    """
    if isinstance(rng, np.random.Generator) or getattr(rng, "is_operating_system", False):
        return rng
    hint = (
        f"; for a reproducible stream pass np.random.default_rng({rng})"
        if isinstance(rng, Integral)
        else ""
    )
    raise ValueError(
        f"rng must be a np.random.Generator or dputils.noise.SYSTEM, got {rng!r}{hint}"
    )


def _between(low, high):
    return f"between {_end(low)} and {_end(high)}"


def _end(value):
    return f"2**{math.log2(value):.0f}" if value in STEPS else f"{float(value):g}"


def _finite(value):
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer or a fraction beyond all floats
        return False


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _shown(value):
    return repr(_plain(value))


def floats(name, value, low, high, *, zero=False):
    """Return numbers as a float array of their shape; refuse what lies outside [low, high].

    A longer format is rounded to a float first: what is computed with is what is checked.

    Parameters
    ----------
    value : number or array of numbers of any shape
    low, high : float
    zero : bool
        Whether 0 is admitted beside the range.
    """
    array = np.asarray(value)
    if array.dtype.kind == "O":  # fractions, integers beyond 64 bits
        array = np.array([float(number(name, v)) for v in array.flat]).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number or an array of numbers, got type {array.dtype}")
    with np.errstate(over="ignore"):
        result = array.astype(float)
    good = (result >= low) & (result <= high) | zero & (result == 0)
    if not good.all():
        words = f"between {low:g} and {high:g}" + " or 0" * zero
        raise ValueError(f"{name} must be {words}, got {result[~good].flat[0].item()!r}")
    return result
