"""Reading private values: exactly, by public rules, never refusing a record; rounding to a public
grid.

What is public may be refused, with a `ValueError`: the type of a container (a list, an array, a
column; not a set or a generator), its dtype where it has one, its shape, and how lists are nested
in an answer. State a dtype where a table is read: one that is inferred from the records says
something about them.

What is private never decides an error or a warning. That is every record and every answer that has
no dtype of its own: Python's numbers, what a list or an array or column of objects holds, cells
that are masked or NA. `exact` reads each by itself as the number it is, so that no record changes
how another is read and neighbouring tables stay neighbours:

- an int, a float, a `Fraction`, a `Decimal`, a numpy number (also half and longdouble) or an array
  of no dimension is its number, exactly; True is 1, False is 0;
- what is masked, NA, NaN or None, and what is no real number (text, a complex number, a date, a
  list in a column), is *missing*. What counts in its place, each function says.

Numbers beyond 2^20000 count as 2^20000: a whole `Decimal` of an exponent of 10^9 fits no memory.
Timing is not protected: objects take longer than arrays.
"""

import itertools
import math
import operator
from collections import deque
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real

import numpy as np

from dputils import checks

NUMBERS = "iufb"  # the kinds of numpy's dtypes that hold real numbers
INTEGERS = "iu"
_NOUNS = {NUMBERS: ("a number", "numbers"), INTEGERS: ("an integer", "integers")}
_FAR = 1 << 20000
_TINY = Fraction(1, _FAR)


def reals(value):
    """Return a private answer as finite floats.

    Parameters
    ----------
    value : number, or numbers in an array, a column, a data frame or lists of one shape
        Rounded once, to the nearest float. What lies beyond all floats counts as the largest float
        of its sign, which brings no two answers further apart; what is missing counts as 0.

    Returns
    -------
    float array of the shape of `value`

    Raises
    ------
    ValueError
        If the dtype is not one of real numbers, or the shape is none.
    """
    return np.nan_to_num(floats(answer("value", value)))


def integers(value):
    """Return a private answer of whole numbers as int64, modulo 2^64.

    Parameters
    ----------
    value : int, or integers in an array, a column, a data frame or lists of one shape
        Whether a number fits 64 bits must not show in an error: it is read modulo 2^64, which is a
        function of the exact number. What is missing or infinite counts as 0. A number between
        integers, where no dtype excludes it, is rounded down: a single one moves by no more than a
        whole sensitivity, each coordinate of several by up to one step more.

    Returns
    -------
    int64 array of the shape of `value`

    Raises
    ------
    ValueError
        If the dtype is not one of integers, or the shape is none.
    """
    cells = answer("value", value, INTEGERS)
    if cells.dtype == object:
        wrapped = [_modulo_2_64(number) for number in cells.flat]
        return np.array(wrapped, dtype=np.int64).reshape(cells.shape)
    return cells.astype(np.int64)


def to_grid(values, lower, upper, grid=1):
    """Clamp each record to [lower, upper] and round it to a public grid; returns whole numbers of
    grid steps.

    Rounding before summing is what makes the sum an integer with a known sensitivity; rounding
    after would not be.

    Parameters
    ----------
    values : list, array or column of shape (n,)
        Private. Each record is rounded exactly to the nearest multiple of grid; halfway between
        two, to the even one. Infinities are clamped; what is missing counts as `lower`.
    lower, upper, grid : int, float or Fraction
        Public; floats are read as decimals; lower and upper must be multiples of grid, at most 2^53
        of them, and grid lies between 1e-100 and 1e100.

    Returns
    -------
    int64 array of shape (n,)
        Between lower/grid and upper/grid.

    Raises
    ------
    ValueError
        If `values` has another shape or a dtype that is not one of real numbers, or a public number
        is out of range.
    """
    low, high = grid_steps(lower, upper, grid)
    cells, step = column("values", values), checks.as_fraction("grid", grid)
    with np.errstate(all="ignore"):  # a warning would tell of the records
        steps = floats(cells) / float(step)
        np.fmax(steps, low, out=steps)  # what is missing counts as low
        np.fmin(steps, high, out=steps)
    nearest = np.rint(steps)
    if not _divides_exactly(cells.dtype, step):
        unsure = _near_a_tie(steps, nearest, max(abs(low), abs(high)))
        nearest[unsure] = _rounded(cells[unsure].tolist(), step, low, high)
    return nearest.astype(np.int64)


def grid_steps(lower, upper, grid):
    """Return public bounds as whole numbers of grid steps, two ints (see `to_grid`)."""
    checks.bounds(lower, upper)
    checks.within("grid", grid, *checks.SIZES)
    step = checks.as_fraction("grid", grid)
    steps = [checks.as_fraction("lower", lower) / step, checks.as_fraction("upper", upper) / step]
    shown = f"got grid={grid!r}, lower={lower!r}, upper={upper!r}"
    if any(bound.denominator != 1 for bound in steps):
        raise ValueError(f"grid must divide lower and upper, {shown}")
    if max(map(abs, steps)) > 2**53:
        raise ValueError(f"grid must cut lower and upper into at most 2**53 steps, {shown}")
    return int(steps[0]), int(steps[1])


def column(name, values, kinds=NUMBERS):
    """Return private records as an array of shape (n,).

    Parameters
    ----------
    name : str
        The argument's name, for errors.
    values : list, array or column of shape (n,)
    kinds : {NUMBERS, INTEGERS}
        The dtypes that are not refused, beside those of objects.

    Returns
    -------
    array of shape (n,)
        Of numpy's numbers where `values` has a dtype of these kinds or each record fits one (float
        or int64); else of objects, each an int, a float or a `Fraction`, NaN for what is missing.
    """
    if hasattr(values, "shape") and len(values.shape) != 1:
        raise ValueError(f"{name} must have shape (n,), got {tuple(values.shape)}")
    if hasattr(values, "dtype"):
        return _typed(values, kinds, f"{name} must be {_NOUNS[kinds][1]}")
    if not _is_list(values):
        kind = type(values).__name__
        raise ValueError(f"{name} must be a list or an array of shape (n,), got type {kind}")
    return _records(list(values), kinds)


def answer(name, value, kinds=NUMBERS):
    """Return a private answer, a number or numbers of any shape, as an array (see `column`).

    A list of lists has a shape, which is public and must be one; what stands in the innermost lists
    is private.
    """
    expected = f"{name} must be {_NOUNS[kinds][0]} or an array of {_NOUNS[kinds][1]}"
    if value is np.ma.masked:  # what a masked array gives where nothing is left, of any dtype
        return np.array(math.nan, dtype=object)
    if _has(value, "dtype"):
        return _typed(value, kinds, expected)
    if _has(value, "to_numpy") and _has(value, "shape"):
        return _typed(value.to_numpy(dtype=object), kinds, expected)
    text = issubclass(type(value), (str, bytes, bytearray, memoryview))
    if _has(value, "__iter__") and not _is_list(value) and not text:
        raise ValueError(f"{expected}, got type {type(value).__name__}")
    shape, leaves = _nested(value, expected)
    return _records(leaves, kinds).reshape(shape)


def table(X, y, columns):
    """Return a table's rows and responses as arrays, in their own types.

    Parameters
    ----------
    X : array of shape (n, columns), data frame or lists
        Private; an empty list is a table without rows.
    y : array, column or list of length n
        Private.
    columns : int

    Returns
    -------
    tuple
        X and y.

    Raises
    ------
    ValueError
        If a type or a shape, which are public, does not fit.
    """
    X, y = answer("X", X), column("y", y)
    if X.shape == (0,):
        X = X.reshape(0, columns)
    if X.ndim != 2 or X.shape[1] != columns:
        got = f"{X.ndim} axes of {X.shape[1:]} columns"
        raise ValueError(f"X must have shape (n, {columns}), got {got}")
    if len(X) != len(y):
        raise ValueError("y must have one response for each row of X, got another number of them")
    return X, y


def exact(value):
    """Return one private record as an int, a float or a `Fraction`; NaN if it is missing."""
    if type(value) is float:
        return value
    try:
        return _exact(value)
    except Exception:  # a record whose own methods fail is no number
        return math.nan


def floats(cells):
    """Return what `column` or `answer` gave as floats, each rounded once."""
    if cells.dtype == object:
        rounded = [nearest_float(number) for number in cells.flat]
        return np.array(rounded, dtype=float).reshape(cells.shape)
    with np.errstate(all="ignore"):
        return cells.astype(float, copy=False)


def nearest_float(number):
    """Return the float next to an exact number, infinite beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _exact(value):
    """Read one record by its type, whose methods are asked rather than the record's own."""
    kind = type(value)
    if issubclass(kind, int):
        return _within_reach(int.__index__(value))
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, Decimal):
        return _exact_decimal(value)
    if issubclass(kind, np.ndarray):
        odd = value.ndim or np.ma.getmaskarray(value).any()
        return math.nan if odd else _exact(np.asarray(value)[()])
    if issubclass(kind, np.bool_):
        return int(value)
    if issubclass(kind, np.timedelta64) or not issubclass(kind, Real):
        return math.nan
    if issubclass(kind, Rational):
        return _within_reach(Fraction(int(value.numerator), int(value.denominator)))
    return _exact_real(value)


def _exact_decimal(value):
    if not value.is_finite():
        return math.nan if value.is_nan() else float(value)
    if value and value.adjusted() > 6021:  # beyond 2^20000
        return _FAR if value > 0 else -_FAR
    if value and value.adjusted() < -6021:  # rounded down, as whole numbers are
        return 0 if value > 0 else -_TINY
    return _within_reach(Fraction(value))


def _exact_real(value):
    """A half, a longdouble, a real number of another library."""
    try:
        return _within_reach(Fraction(*value.as_integer_ratio()))
    except (AttributeError, OverflowError, ValueError):  # without a ratio; an infinity; NaN
        return float(value)


def _within_reach(number):
    return number if abs(number.numerator) <= _FAR else max(-_FAR, min(number, _FAR))


def _modulo_2_64(number):
    """Return the int64 congruent to an exact number rounded down; 0 if that is not finite."""
    if isinstance(number, float) and not math.isfinite(number):
        return 0
    return (math.floor(number) + 2**63) % 2**64 - 2**63


def _typed(values, kinds, expected):
    """Return what has a dtype, as it is where it holds numpy's numbers and nothing is masked."""
    kind = getattr(values.dtype, "kind", "O")
    if kind not in kinds + "O":
        raise ValueError(f"{expected}, got type {values.dtype}")
    if isinstance(values, np.ma.MaskedArray):
        mask, values = np.ma.getmaskarray(values), np.ma.getdata(values)
    else:
        mask = np.False_
    if isinstance(values.dtype, np.dtype) and kind != "O" and not mask.any():
        return np.asarray(values)
    cells = np.array(values, dtype=object)
    cells[mask] = math.nan
    return _records(cells.ravel().tolist(), kinds).reshape(cells.shape)


def _records(values, kinds):
    """Return a list of records, each read by itself, as an array, of numbers if that holds all."""
    cells = _fitting(values, kinds)
    if cells is None:
        values = [exact(value) for value in values]
        cells = _fitting(values, kinds)
    if cells is None:
        cells = np.empty(len(values), dtype=object)
        cells[:] = values
    return cells


def _fitting(numbers, kinds):
    """Return Python's floats, or its ints of 64 bits, as an array; None for what is neither."""
    if kinds == NUMBERS and _all_of(float, numbers):
        return np.array(numbers, dtype=float)
    if _all_of(int, numbers) and _fit_64_bits(numbers):
        return np.array(numbers, dtype=np.int64)
    return None


def _all_of(kind, values):
    return all(map(operator.is_, map(type, values), itertools.repeat(kind)))


def _fit_64_bits(numbers):
    return not numbers or (-(2**63) <= min(numbers) and max(numbers) < 2**63)


def _nested(value, expected):
    """Return the shape of nested lists, and what stands in the innermost ones, in order."""
    if _has(value, "dtype") and np.ndim(value):
        cells = np.ma.array(value, dtype=object).filled(math.nan)
        return cells.shape, cells.ravel().tolist()
    if not _is_list(value):
        return (), [value]
    if _all_of(float, value) or _all_of(int, value):
        return (len(value),), list(value)
    parts = [_nested(part, expected) for part in value]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        shown = ", ".join(map(str, sorted(shapes)))
        raise ValueError(f"{expected}, got lists of several shapes, {shown}")
    leaves = [leaf for _, inner in parts for leaf in inner]
    return (len(value), *(shapes.pop() if shapes else ())), leaves


def _has(value, name):
    """Whether an object has an attribute; one that fails to say so has none."""
    try:
        return hasattr(value, name)
    except Exception:
        return False


def _is_list(value):
    return issubclass(type(value), (list, tuple, range, deque))


def _near_a_tie(steps, nearest, largest):
    """Return where a quotient, rounded three times, may lie on the other side of a half."""
    distance = np.subtract(steps, nearest, out=steps)
    np.abs(distance, out=distance)
    return np.flatnonzero(distance >= 0.5 - largest * 2.0**-50)


def _rounded(records, step, low, high):
    """Return records, as multiples of `step`, rounded exactly and cut off at low and high."""
    steps = {record: _steps(exact(record), step, low, high) for record in set(records)}
    return [steps[record] for record in records]


def _steps(number, step, low, high):
    if isinstance(number, float) and not math.isfinite(number):
        return high if number > 0 else low
    return max(low, min(round(Fraction(number) / step), high))


def _divides_exactly(dtype, step):
    """Whether the quotient of a record within the bounds by `step` is a float, without rounding.

    So it is for a power of two and floats of 64 bits or less. Integers are floats up to 2^53, and
    what lies beyond is cut off if the step is at most 1: the bounds are at most 2^53 steps.
    """
    power = step.numerator & (step.numerator - 1) == 0 == step.denominator & (step.denominator - 1)
    if dtype.kind == "f":
        return power and dtype.itemsize <= 8
    return power and dtype.kind in "iub" and step <= 1
