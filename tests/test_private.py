"""Reading private values: exactly, by one rule a record, and never refusing one; neighbours stay
neighbours.
"""

import datetime
import math
import warnings
from collections import deque
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import (
    discrete_gaussian,
    gaussian,
    geometric,
    laplace,
    noise,
    private,
    randomized_response,
    selection,
    sensitivity,
)

pytestmark = pytest.mark.filterwarnings("error")
LARGEST = np.finfo(float).max
LONG = np.longdouble


def rng(seed=1):
    return np.random.default_rng(seed)


# -------------------------------------------------------------------------------- hostile records


class Refuses(Exception):
    pass


def refuse(*_):
    raise Refuses


class Hostile:
    """An object that raises whatever it is asked."""

    __float__ = __int__ = __index__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = refuse
    __len__ = __iter__ = __bool__ = __array__ = __hash__ = __abs__ = __sub__ = __rsub__ = refuse
    __repr__ = __str__ = __getitem__ = as_integer_ratio = refuse
    __class__ = property(refuse)
    dtype = shape = ndim = numerator = denominator = to_numpy = property(refuse)


class HostileInt(int):
    __float__ = __int__ = __index__ = __eq__ = __lt__ = __floor__ = __sub__ = __abs__ = refuse
    __hash__ = __bool__ = as_integer_ratio = refuse
    numerator = property(refuse)


class HostileFloat(float):
    __float__ = __int__ = __eq__ = __lt__ = __floor__ = __sub__ = __hash__ = refuse
    as_integer_ratio = refuse


class HostileText(str):
    __len__ = __eq__ = __hash__ = __str__ = __float__ = refuse


class HostileFraction(Fraction):
    __float__ = __floor__ = __lt__ = __sub__ = __abs__ = refuse
    numerator = property(refuse)


class HostileDecimal(Decimal):
    is_finite = is_nan = adjusted = as_tuple = __float__ = refuse


class Unhashable(type):
    __hash__ = __eq__ = refuse


class OfAnUnhashableType(metaclass=Unhashable):
    pass


class Colour(IntEnum):
    RED = 7


def containing_itself():
    record = []
    record.append(record)
    array = np.empty((), dtype=object)
    array[()] = array
    return record, array


MISSING = [None, math.nan, Decimal("NaN"), Decimal("sNaN"), np.float32("nan"), LONG("nan"), pd.NA]
MISSING += [pd.NaT, np.ma.masked, np.ma.array(3, mask=True), np.array(None), np.array(math.nan)]
MISSING += ["7", "", b"7", "nan", HostileText("7"), 1j, 3 + 0j, np.complex64(2), {}, {1}, object()]
MISSING += [np.datetime64(9, "s"), np.timedelta64(9, "s"), datetime.date(2020, 1, 1), int, len]
MISSING += [datetime.timedelta(3), Hostile(), HostileFraction(3), HostileDecimal(3), Fraction]
MISSING += [
    OfAnUnhashableType(),
    containing_itself()[1],
    (x for x in "ab"),
    deque([3]),
    memoryview(b"3"),
]
LISTS = [[], [9], (1, 2), [[1], [2, 3]], np.array([9]), np.ones((2, 2)), pd.Series([9]), range(3)]
LISTS += [containing_itself()[0], np.ma.array([9], mask=[1])]
SEVENS = [7, 7.0, True + 6, np.int8(7), np.uint64(7), np.float16(7), np.float32(7), LONG(7)]
SEVENS += [Fraction(7), Decimal(7), Decimal("7.00"), np.array(7), np.array(7, dtype=object)]
SEVENS += [
    HostileInt(7),
    HostileFloat(7),
    Colour.RED,
    mpmath.mpf(7),
    np.ma.array(7),
    np.array(LONG(7)),
]
SEVENS += [Decimal("7e0"), Fraction(14, 2)]


@pytest.mark.parametrize("seven", SEVENS, ids=lambda x: type(x).__name__)
def test_a_number_is_read_as_itself_whatever_its_type(seven):
    number = private.exact(seven)
    assert number == 7 and type(number) in (int, float, Fraction)
    for values in ([seven, 5], (seven, 5), np.array([seven, 5], dtype=object)):
        assert private.to_grid(values, 0, 10).tolist() == [7, 5]
        assert private.reals(values).tolist() == [7, 5]
        assert private.integers(values).tolist() == [7, 5]
        assert selection.score_steps(values, 1).tolist() == [7, 5]
    if not isinstance(seven, np.generic | np.ndarray):
        assert private.reals(seven) == 7 == private.integers(seven)


@pytest.mark.parametrize("odd", range(len(MISSING)))
def test_what_is_missing_or_no_number_counts_as_the_function_says(odd):
    odd = MISSING[odd]
    assert math.isnan(private.exact(odd))
    for values in ([odd, 5], (5, odd)[::-1], pd.Series([odd, 5], dtype=object)):
        assert private.to_grid(values, 2, 10).tolist() == [2, 5]
        assert selection.score_steps(values, 1).tolist() == [1 - 2**62, 5]
        if not issubclass(type(odd), np.ndarray | deque):  # lists in an answer are its shape
            assert private.reals(values).tolist() == [0, 5]
            assert private.integers(values).tolist() == [0, 5]


@pytest.mark.parametrize("odd", range(len(LISTS)))
def test_a_list_that_is_a_record_of_a_column_is_no_number(odd):
    odd = LISTS[odd]
    for values in ([odd, 5], [odd], [odd, odd]):
        assert private.to_grid(values, 2, 10).tolist() == [
            5 if x == 5 else 2 for x in map(id_or_5, values)
        ]
        assert selection.exact_release(values, 1, 1, rng=rng()) in range(len(values))


def id_or_5(record):
    return 5 if type(record) is int else None


EXACT = [2**53 + 1, 2**64 + 1, 10**30 + 1, Decimal(10**30 + 1), Decimal("0.1"), Decimal("1e-400")]
EXACT += [Fraction(1, 3), Fraction(10**400, 7), LONG(2) ** 63 + 1, LONG("1e4000"), LONG("1e-4000")]
EXACT += [5e-324, 1e308, 10**400, Decimal("1e6000"), np.float16(0.1), np.uint64(2**64 - 1)]


@pytest.mark.parametrize("value", EXACT, ids=repr)
def test_numbers_are_read_to_their_last_digit(value):
    exact = private.exact(value)
    assert Fraction(exact) == ratio(value)


def ratio(value):
    return (
        Fraction(int(value))
        if isinstance(value, np.integer)
        else Fraction(*value.as_integer_ratio())
    )


def test_what_no_memory_holds_is_cut_off_and_rounded_down():
    far = 1 << 20000
    for huge in (
        far + 1,
        far**3,
        Decimal("1e999999999999999999"),
        Fraction(far**2, 3),
        Decimal(10) ** 6021,
    ):
        negative = huge.copy_negate() if isinstance(huge, Decimal) else -huge
        assert private.exact(huge) == far and private.exact(negative) == -far
        assert private.integers([huge, negative, 0.5]).tolist() == [0, 0, 0]
    tiny = Decimal("1e-999999999999999999")
    assert private.exact(tiny) == 0 and 0 > private.exact(tiny.copy_negate()) > Fraction(
        -1, 10**6000
    )
    assert private.integers([tiny, tiny.copy_negate()]).tolist() == [0, -1]


# ------------------------------------------------------------------------------------ reals


def test_reals_are_rounded_once_and_finite():
    odd = [
        math.inf,
        -math.inf,
        10**400,
        Fraction(-(10**400)),
        Decimal("1e999"),
        LONG("-1e4000"),
        1 / 3,
    ]
    read = private.reals(odd)
    assert read.tolist() == [LARGEST, -LARGEST, LARGEST, -LARGEST, LARGEST, -LARGEST, 1 / 3]
    assert private.reals([2**53 + 1, Fraction(1, 3), Decimal("0.1")]).tolist() == [
        2.0**53,
        1 / 3,
        0.1,
    ]
    assert private.reals(np.array([LONG("1e4000"), LONG("nan")])).tolist() == [LARGEST, 0]
    assert private.reals(np.array([65504, np.inf], dtype=np.float16)).tolist() == [65504, LARGEST]


@pytest.mark.parametrize(
    "value,expected",
    [
        (3, 3.0),
        ([], []),
        ([[], []], [[], []]),
        ([[1, 2], [3, None]], [[1, 2], [3, 0]]),
        ([(1, 2.5), np.array([3, 4])], [[1, 2.5], [3, 4]]),
        ([np.array(1), 2], [1, 2]),
        ([pd.Series([1, 2])], [[1, 2]]),
        ([np.ma.array([1, 2], mask=[0, 1]), [3, 4]], [[1, 0], [3, 4]]),
        (np.array([[True, False]]), [[1, 0]]),
        (np.ma.array([[1.5, 2]], mask=[[False, True]]), [[1.5, 0]]),
        (np.ma.masked, 0.0),
        (None, 0.0),
        ("7", 0.0),
        (pd.DataFrame({"a": [1, 2], "b": [0.5, None]}), [[1, 0.5], [2, 0]]),
        (pd.Series([1.5, None], dtype="Float64"), [1.5, 0]),
        (range(3), [0, 1, 2]),
    ],
    ids=repr,
)
def test_reals_of_every_shape(value, expected):
    read = private.reals(value)
    assert np.asarray(read).dtype == float and read.tolist() == expected


def test_reading_leaves_the_caller_s_array_alone():
    for values in (np.array([1.0, math.nan, math.inf]), np.ma.array([1.0, 2], mask=[0, 1])):
        before = values.copy()
        private.reals(values)
        private.to_grid(values, 0, 1)
        selection.score_steps(values, 1)
        np.testing.assert_array_equal(np.ma.getdata(values), np.ma.getdata(before))
        np.testing.assert_array_equal(np.ma.getmaskarray(values), np.ma.getmaskarray(before))
    assert private.reals(values := np.ones(2)) is not values
    assert private.integers(values := np.ones(2, dtype=np.int64)) is not values


# ------------------------------------------------------------------------------------ integers


@given(st.lists(st.integers(-(10**30), 10**30), max_size=5))
def test_integers_are_read_modulo_two_to_the_64(values):
    expected = [(x + 2**63) % 2**64 - 2**63 for x in values]
    for same in (values, tuple(values), np.array(values, dtype=object), [*map(Decimal, values)]):
        read = private.integers(same)
        assert read.tolist() == expected and read.dtype == np.int64


@pytest.mark.parametrize(
    "value,expected",
    [
        (3, 3),
        (-(2**63) - 1, 2**63 - 1),
        (2.9, 2),
        ([2.9, -2.1, True, Fraction(-1, 2), Decimal("7.5")], [2, -3, 1, -1, 7]),
        ([math.inf, None, -math.inf], [0, 0, 0]),
        ([[1, 2], [3, None]], [[1, 2], [3, 0]]),
        (np.array([2**64 - 1], dtype=np.uint64), [-1]),
        (np.ma.array([5, 6], mask=[1, 0]), [0, 6]),
        (np.ma.masked, 0),
        (pd.NA, 0),
        (pd.Series([3, pd.NA], dtype="Int64"), [3, 0]),
        (pd.Series([2**60 + 1, None], dtype=pd.ArrowDtype(pa.int64())), [2**60 + 1, 0]),
        (pd.Series([2**64 - 1, None], dtype="UInt64"), [-1, 0]),
        (pd.DataFrame({"a": [2**60 + 1, 2], "b": [3, 4]}), [[2**60 + 1, 3], [2, 4]]),
    ],
    ids=repr,
)
def test_integers_of_every_type(value, expected):
    assert private.integers(value).tolist() == expected


# -------------------------------------------------------------------------------------- the grid


GRIDS = [
    (0, 10, 1),
    (-1, 2, 0.1),
    (Fraction(-1, 3), 1, Fraction(1, 3)),
    (-21, 70, 7),
    (-1, 1, 2.0**-20),
    (0, 4, 0.5),
    (0, 2958593919054266.5, 0.7),
    (-(2**53), 2**53, 1),
    (0, 10**60, 10**50),
    (0, Fraction(3, 10**60), Fraction(1, 10**60)),
    (-(2**62), 2**62, 1024),
]


def by_the_rule(value, lower, upper, grid):
    step = Fraction(str(grid))
    low, high = (Fraction(str(bound)) / step for bound in (lower, upper))
    return int(max(low, min(round(ratio(value) / step), high)))


@pytest.mark.parametrize("lower,upper,grid", GRIDS)
def test_records_are_rounded_to_the_nearest_step_exactly_whatever_their_type(lower, upper, grid):
    generator, width = rng(), float(upper) - float(lower)
    spread = generator.uniform(float(lower) - width / 10, float(upper) + width / 10, 300)
    halves = [float((Fraction(k) + Fraction(1, 2)) * Fraction(str(grid))) for k in range(-30, 31)]
    near = [np.nextafter(x, x + s * math.inf) for x in halves[1:] for s in (-1, 1)]
    reals = np.concatenate([spread, halves, near, [0.0, 5e-324, -5e-324, LARGEST, -LARGEST]])
    whole = np.clip(reals, -(2.0**62), 2.0**62).astype(np.int64) + generator.integers(
        -3, 4, reals.size
    )
    ratios = [Fraction(x) for x in reals]
    decimals = [Decimal(repr(x)) for x in reals.tolist()]
    ties = [(Fraction(k) + Fraction(1, 2)) * Fraction(str(grid)) for k in range(-30, 31)]
    with np.errstate(over="ignore"):
        columns = [reals, reals.astype(">f8"), reals.astype(np.float32), reals.astype(np.float16)]
    columns[-1] = columns[-1][np.isfinite(columns[-1])]
    columns[-2] = columns[-2][np.isfinite(columns[-2])]
    columns += [reals.astype(LONG) * (1 + LONG(2) ** -60), whole, abs(whole).astype(np.uint64)]
    columns += [reals.tolist(), whole.tolist(), ratios, decimals, ties, [*decimals, None][:-1]]
    for column in columns:
        read = private.to_grid(column, lower, upper, grid)
        assert read.tolist() == [by_the_rule(x, lower, upper, grid) for x in column]
        assert read.dtype == np.int64


def test_infinities_are_clamped_and_what_is_missing_is_the_lower_bound():
    for lower, upper, grid in GRIDS:
        low, high = private.grid_steps(lower, upper, grid)
        odd = [math.inf, -math.inf, math.nan, None, 10**400, -(10**400), LONG("1e4000")]
        expected = [high, low, low, low, high, low, high]
        assert private.to_grid(odd, lower, upper, grid).tolist() == expected
        floats = np.array([math.inf, -math.inf, math.nan])
        for dtype in (np.float16, np.float32, np.float64, LONG):
            assert private.to_grid(floats.astype(dtype), lower, upper, grid).tolist() == [
                high,
                low,
                low,
            ]
    assert private.to_grid([math.inf], 0, 2958593919054266.5, 0.7).tolist() == [4226562741506095]


@pytest.mark.parametrize(
    "column,expected",
    [
        (pd.Series([3, pd.NA], dtype="Int64"), [3, 1]),
        (pd.Series([2.5, pd.NA], dtype="Float64"), [2, 1]),
        (pd.Series([True, pd.NA], dtype="boolean"), [1, 1]),
        (pd.Series([3, None], dtype=pd.ArrowDtype(pa.int8())), [3, 1]),
        (pd.Series([3.5, None], dtype=pd.ArrowDtype(pa.float32())), [4, 1]),
        (pd.Series([True, None], dtype=pd.ArrowDtype(pa.bool_())), [1, 1]),
        (pd.Series([Decimal("3.5"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))), [4, 1]),
        (pd.Series([3, None], dtype="category"), [3, 1]),
        (pd.Series([3.0, math.nan], dtype="Sparse[float]"), [3, 1]),
        (pd.Series([3, 4], dtype="Int64").array, [3, 4]),
        (pd.array([3, None], dtype="Int64"), [3, 1]),
        (pd.Index([3, 4]), [3, 4]),
        (np.ma.array([3, 4], mask=[0, 1]), [3, 1]),
        (np.ma.array([3.5, 4], mask=[1, 0]), [1, 4]),
        (np.ma.array([3, "x"], mask=[0, 1], dtype=object), [3, 1]),
        (deque([3, None]), [3, 1]),
    ],
    ids=lambda x: str(getattr(x, "dtype", x)),
)
def test_missing_cells_of_columns_are_the_lower_bound(column, expected):
    assert private.to_grid(column, 1, 5).tolist() == expected


def test_bounds_and_grid_lie_in_a_stated_range():
    for grid in (1e308, 1e-101, Fraction(1, 10**400)):
        with pytest.raises(ValueError, match=r"grid must be between 1e-100 and 1e\+100, got"):
            private.grid_steps(0, grid, grid)
    with pytest.raises(ValueError, match=r"grid must be between 1e-100 and 1e\+100, got 1e\+308"):
        geometric.sum_release([1e308] * 3, 0, 1e308, 1e308, "add-remove", 1, rng=rng())
    assert private.grid_steps(0, 1e100, 1e100) == (0, 1)
    assert private.to_grid([1e308] * 3, 0, 1e100, 1e100).tolist() == [1, 1, 1]


# ------------------------------------------------------------------------- what is public, refused


@pytest.mark.parametrize("kind", ["U1", "S1", "c8", "M8[D]", "m8[D]", "i4,i4", "V3"])
def test_dtypes_that_hold_no_real_numbers_are_refused(kind):
    for values in (np.zeros(2, dtype=kind), np.zeros(0, dtype=kind), np.ma.zeros(2, dtype=kind)):
        for read in (private.reals, private.integers, lambda v: private.to_grid(v, 0, 1)):
            with pytest.raises(ValueError, match="must be .*(numbers|integers), got type"):
                read(values)


@pytest.mark.parametrize(
    "values", [np.ones(2), np.ones(2, bool), pd.Series([1.0]), pd.array([1.5, None])]
)
def test_integers_refuse_dtypes_of_other_numbers(values):
    with pytest.raises(
        ValueError, match="value must be an integer or an array of integers, got type"
    ):
        private.integers(values)


def test_containers_without_an_order_or_a_length_are_refused():
    for values in (
        {1, 2},
        {1: 2},
        {1: 2}.values(),
        iter([1, 2]),
        (x for x in (1, 2)),
        map(int, "12"),
    ):
        for read in (private.reals, private.integers):
            with pytest.raises(ValueError, match=f"got type {type(values).__name__}"):
                read(values)
    for values in (3, None, "12", b"12", {1}, iter([1]), 2.5, pd.NA, memoryview(b"1"), Fraction):
        kind = type(values).__name__
        with pytest.raises(
            ValueError, match=rf"values must be a list or an array of shape \(n,\), got type {kind}"
        ):
            private.to_grid(values, 0, 1)


def test_the_shape_of_an_answer_is_public():
    for ragged in ([[1, 2], [3]], [1, [2]], [[[1]], [2]], [np.ones(2), np.ones(3)]):
        for read in (private.reals, private.integers):
            with pytest.raises(ValueError, match="got lists of several shapes"):
                read(ragged)
    for values in (np.zeros((2, 2)), np.array(3.0), np.float64(3), pd.DataFrame({"a": [1]})):
        with pytest.raises(ValueError, match=r"values must have shape \(n,\), got \("):
            private.to_grid(values, 0, 1)


# ------------------------------------------------- every release: neighbours over all input types


@pytest.fixture
def noiseless(monkeypatch):
    """Releases without noise: what comes out is what was read."""

    def zeros(scale, size=None, *, rng):
        return np.zeros(size or ()) if size is not None else 0.0

    def whole(scale, size=None, *, rng):
        return np.zeros(size, dtype=np.int64) if size is not None else 0

    for name in ("laplace", "gaussian"):
        monkeypatch.setattr(noise, name, zeros)
    for name in ("discrete_laplace", "discrete_gaussian"):
        monkeypatch.setattr(noise, name, whole)


ADDED = sensitivity.of_scores(1, "add-remove")
ANSWERS = {
    "laplace": lambda v: laplace.release(v, 1, 1.0, rng=rng()),
    "geometric": lambda v: geometric.release(v, 1, 1.0, rng=rng()),
    "gaussian": lambda v: gaussian.release(v, 1, 1.0, 0.1, rng=rng()),
    "discrete gaussian": lambda v: discrete_gaussian.release(v, 1, 1.0, rng=rng()),
}
COLUMNS = {
    "sum": lambda v: geometric.sum_release(v, 0, 5, 0.5, "add-remove", 1.0, rng=rng()),
    "randomized response": lambda v: randomized_response.release(v, 4, 1.0, rng=rng()),
    "exponential mechanism": lambda v: selection.exponential_release(v, 1, 1.0, rng=rng()),
    "permute and flip": lambda v: selection.permute_and_flip_release(v, 1, 1.0, rng=rng()),
    "exact": lambda v: selection.exact_release(v, 1, 1.0, rng=rng()),
    "top k": lambda v: selection.top_k_release(v, 2, 1, 1.0, rng=rng()),
    "exact mechanism": lambda v: selection.mechanism(ADDED, 1.0)(v, rng=rng()),
    "top k mechanism": lambda v: selection.top_k_mechanism(2, ADDED, 1.0)(v, rng=rng()),
    **{
        kind: lambda v, kind=kind: selection.noisy_max_release(v, 1, 1.0, noise=kind, rng=rng())
        for kind in selection.NOISES
    },
    **{
        f"{choice} mechanism": lambda v, c=choice: selection.mechanism(ADDED, 1.0, choice=c)(
            v, rng=rng()
        )
        for choice in selection.CHOICES
    },
}
RELEASES = ANSWERS | COLUMNS


def gram(value):
    return gaussian.gram_release(value, 1, "add-remove", 1.0, 0.1, rng=rng())


def outcome(release, value):
    """The shape of what comes out, or the error; a warning is an error."""
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        try:
            return np.shape(release(value))
        except ValueError as error:
            return str(error)


def extremes(dtype):
    """Values of a dtype that are as far apart as can be."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return [0, 3, np.iinfo(dtype).min, np.iinfo(dtype).max]
    if dtype.kind in "fc":
        return [
            0,
            3,
            math.nan,
            math.inf,
            -math.inf,
            np.finfo(dtype).max,
            np.finfo(dtype).tiny,
            -0.0,
        ]
    if dtype.kind in "mM":
        return [np.array(x, dtype) for x in (0, 3, "NaT")]
    return {"b": [True, False], "U": ["", "7", "nan"], "S": [b"", b"7"]}[dtype.kind]


KINDS = [f"{sign}{n}" for sign in "iu" for n in (1, 2, 4, 8)] + [
    "f2",
    "f4",
    "f8",
    "g",
    ">f8",
    ">i4",
]
KINDS += ["?", "c8", "c16", "M8[ns]", "m8[s]", "U3", "S3"]
NULLABLE = ["Int8", "Int64", "UInt64", "Float32", "Float64", "boolean", "object", "category", "str"]
NULLABLE += [
    pd.ArrowDtype(kind) for kind in (pa.int64(), pa.uint8(), pa.float32(), pa.bool_(), pa.string())
]
NULLABLE += [pd.ArrowDtype(pa.decimal128(9, 2))]


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_value_of_a_numpy_dtype_decides_an_error(release, kind):
    tables = []
    for value in extremes(kind):
        table = np.zeros(3, dtype=kind)
        table[1] = value
        tables += [table, np.ma.array(table, mask=False), np.ma.array(table, mask=[0, 1, 0])]
        tables += [np.ma.array(table, mask=True), pd.Series(table) if kind[0] in "iuf?" else table]
    outcomes = {outcome(release, table) for table in tables}
    assert len(outcomes) == 1, outcomes


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
@pytest.mark.parametrize("kind", NULLABLE, ids=str)
def test_no_missing_value_of_a_column_decides_an_error(release, kind):
    text = str(kind).startswith("str")
    values = ["a", "b", "7"] if text else [1, 0, 1]
    tables = [pd.Series([*values[:2], last], dtype=kind) for last in (values[2], None, values[0])]
    tables += [pd.Series([None] * 3, dtype=kind), pd.Series([values[2]] * 3, dtype=kind)]
    outcomes = {outcome(release, same) for table in tables for same in (table, table.array)}
    assert len(outcomes) == 1, outcomes


@pytest.mark.parametrize("name", RELEASES)
def test_no_record_of_a_list_decides_an_error(name):
    odd = [*MISSING, *SEVENS, *EXACT, math.inf, -math.inf, Decimal("-1e999999"), 10**7000]
    if name in COLUMNS:
        odd += LISTS
    else:
        odd = [x for x in odd if not issubclass(type(x), deque)]
    tables = [[1, record, 2] for record in odd] + [[record] * 3 for record in odd]
    tables += [[0, 0, 0], [0.5, 1.5, 2], odd[:3], (1, 2, None)]
    outcomes = {outcome(RELEASES[name], table) for table in tables}
    assert len(outcomes) == 1, outcomes


@pytest.mark.parametrize("release", ANSWERS.values(), ids=ANSWERS)
def test_no_answer_without_a_dtype_decides_an_error(release):
    odd = [
        x for x in (*MISSING, *SEVENS, *EXACT) if not issubclass(type(x), np.generic | np.ndarray)
    ]
    odd = [x for x in odd if not hasattr(type(x), "__iter__") or issubclass(type(x), str | bytes)]
    outcomes = {outcome(release, answer) for answer in (*odd, 3, 3.5, np.ma.masked, None)}
    assert outcomes == {()}


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_of_a_matrix_decides_an_error(kind):
    tables = [np.zeros((3, 2), dtype=kind) for _ in extremes(kind)]
    for table, value in zip(tables, extremes(kind)):
        table[1, 0] = value
    assert len({outcome(gram, table) for table in tables}) == 1


PAIRS = [
    (x, x + 1)
    for x in (0, 2**53, -(2**53) - 1, 2**62 - 1, 2**63 - 1, -(2**63) - 1, 2**64, 10**30, 10**400)
]


def as_every_type(number):
    """A whole number in all types that hold it exactly."""
    forms = [
        number,
        Fraction(number),
        HostileInt(number),
        Decimal(number),
        np.array(number, dtype=object),
    ]
    for kind in (np.int64, np.uint64, float, LONG, np.float32):
        with np.errstate(all="ignore"):
            try:
                form = kind(number)
            except OverflowError:
                continue
            if np.isfinite(form) and ratio(form) == number:
                forms.append(form)
    return forms


@pytest.mark.parametrize("a,b", PAIRS)
def test_answers_and_scores_that_move_by_one_are_read_one_apart_whatever_their_types(
    noiseless, a, b
):
    for x in as_every_type(a):
        for y in as_every_type(b):
            for name in ("geometric", "discrete gaussian"):
                one, other = (int(ANSWERS[name]([v, 5])[0]) for v in (x, y))
                assert (other - one) % 2**64 == 1, (type(x), type(y))
            steps = [selection.score_steps([v, 5], 1).tolist() for v in (x, y)]
            assert abs(steps[0][0] - steps[1][0]) <= 1 and steps[0][1] == steps[1][1] == 5
            if abs(a) < 1e300:
                law = selection.exponential_law([x, y], 1.0)
                assert law[1] / law[0] == pytest.approx(math.e), (type(x), type(y))


@pytest.mark.parametrize("name", ["sum", "randomized response"])
def test_one_record_moves_one_record(monkeypatch, name):
    """Whatever a record turns into, the others are read as they were, and it stays within the
    bounds.
    """
    for odd in (*MISSING, *LISTS, *EXACT, *SEVENS):
        for others in ([1, 2.5, 4], [None, "x", [1]], [10**400, Fraction(1, 3), True]):
            alone = private.to_grid(others, 0, 5, 0.5).tolist()
            beside = private.to_grid([odd, *others], 0, 5, 0.5).tolist()
            assert beside[1:] == alone and 0 <= beside[0] <= 10


def test_a_column_is_read_alike_in_every_container():
    values = [1.5, 3, -2, 7, 2.25]
    containers = [
        values,
        tuple(values),
        deque(values),
        np.array(values),
        np.array(values, dtype=object),
    ]
    containers += [
        np.array(values, dtype=LONG),
        np.array(values, dtype=np.float16),
        pd.Series(values),
    ]
    containers += [
        pd.Series(values, dtype="Float64"),
        pd.Series(values).array,
        [*map(Decimal, values)],
    ]
    containers += [
        [*map(Fraction, values)],
        np.ma.array(values),
        pd.Index(values),
        [*map(LONG, values)],
    ]
    assert {tuple(private.to_grid(same, 0, 5, 0.5).tolist()) for same in containers} == {
        (3, 6, 0, 10, 4)
    }
    laws = [selection.exponential_law(same, 0.7) for same in containers]
    assert all(np.array_equal(law, laws[0]) for law in laws)


def test_reading_asks_the_type_and_not_the_record():
    asked = []

    class Asks(int):
        def __int__(self):
            asked.append(self)
            return 0

        __index__ = __float__ = __floor__ = __int__

    assert private.to_grid([Asks(3)], 0, 5).tolist() == [3] == private.integers([Asks(3)]).tolist()
    assert not asked
