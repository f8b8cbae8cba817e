"""The refusals: every one with its argument and value, and what passes comes back unchanged."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import checks, noise

HUGE = 10**400
NOT_NUMBERS = [None, "1", True, np.True_, 1j, [1.0], np.array([1.0]), Decimal("0.1")]
NOT_FINITE = [math.nan, math.inf, -math.inf, HUGE, -HUGE, Fraction(HUGE, 3)]


def refusal(check, *arguments):
    with pytest.raises(ValueError) as caught:
        check(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_a_number_is_real_and_no_truth_value(value):
    plain = value.item() if isinstance(value, np.generic) else value
    assert refusal(checks.number, "clip", value) == f"clip must be a number, got {plain!r}"
    assert (
        refusal(checks.positive, "clip", value)
        == f"clip must be positive and finite, got {plain!r}"
    )
    assert refusal(checks.as_fraction, "clip", value).startswith("clip must be a number")


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_number_is_finite_also_beyond_all_floats(value):
    assert refusal(checks.number, "clip", value) == f"clip must be finite, got {value!r}"
    assert (
        refusal(checks.positive, "clip", value)
        == f"clip must be positive and finite, got {value!r}"
    )
    assert refusal(checks.epsilon, value) == f"epsilon must be positive and finite, got {value!r}"


@pytest.mark.parametrize(
    "value", [0, 0.0, -0.0, -1.0, Fraction(-1, 10**400), np.float64(-2.5), np.int64(-3)]
)
def test_an_epsilon_is_positive(value):
    plain = value.item() if isinstance(value, np.generic) else value
    assert refusal(checks.epsilon, value) == f"epsilon must be positive and finite, got {plain!r}"
    assert refusal(checks.epsilon, value, "epsilon_1").startswith("epsilon_1 must be positive")


@pytest.mark.parametrize(
    "value", [1e-300, 5e-324, 1, np.float32(0.5), np.int8(3), Fraction(1, HUGE), 10**300]
)
def test_what_is_positive_comes_back_unchanged(value):
    assert checks.epsilon(value) is value and checks.positive("scale", value) is value
    assert checks.number("scale", value) is value and checks.not_negative("scale", value) is value


def test_not_negative_admits_zero_only_at_the_end():
    assert checks.not_negative("epsilon", 0) == 0
    assert (
        refusal(checks.not_negative, "epsilon", -1e-9) == "epsilon must be at least 0, got -1e-09"
    )
    assert refusal(checks.not_negative, "epsilon", math.nan) == "epsilon must be finite, got nan"


@pytest.mark.parametrize(
    "value", [-1e-9, 1, 1.0, 2, math.nan, math.inf, True, "0", None, HUGE, np.float64(1.5)]
)
def test_a_delta_is_in_zero_one(value):
    plain = value.item() if isinstance(value, np.generic) else value
    assert refusal(checks.delta, value) == f"delta must be in [0, 1), got {plain!r}"


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, False, "0.5", None])
def test_a_probability_is_strictly_inside(value):
    assert (
        refusal(checks.probability, "beta", value)
        == f"beta must be strictly between 0 and 1, got {value!r}"
    )


def test_delta_and_probability_admit_their_ends_and_insides():
    assert (
        checks.delta(0) == 0
        and checks.delta(Fraction(1, 2)) == Fraction(1, 2)
        and checks.delta(1 - 1e-16) < 1
    )
    assert (
        checks.probability("beta", 1e-300) == 1e-300
        and checks.probability("beta", np.float32(0.5)) == 0.5
    )


@pytest.mark.parametrize("value", [1.0, np.float64(2), "1", None, True, np.True_, Fraction(3, 2)])
def test_an_integer_is_not_a_whole_float(value):
    plain = value.item() if isinstance(value, np.generic) else value
    assert refusal(checks.integer, "k", value) == f"k must be an integer, got {plain!r}"


def test_an_integer_has_a_lower_end():
    assert refusal(checks.integer, "k", 1, 2) == "k must be at least 2, got 1"
    assert (
        checks.integer("k", np.int16(2), 2) == 2 and type(checks.integer("k", np.int16(2))) is int
    )
    assert checks.integer("k", -5) == -5 and checks.integer("k", HUGE) == HUGE


def test_bounds_are_ordered_finite_and_plain():
    assert checks.bounds(0, 1) == (0, 1)
    assert (
        refusal(checks.bounds, 1.0, 1.0)
        == "lower must be less than upper, got lower=1.0, upper=1.0"
    )
    assert (
        refusal(checks.bounds, np.int8(3), np.int8(2))
        == "lower must be less than upper, got lower=3, upper=2"
    )
    assert refusal(checks.bounds, -math.inf, 1) == "lower must be finite, got -inf"
    assert refusal(checks.bounds, 0, math.nan) == "upper must be finite, got nan"
    assert checks.bounds(-2, 2, 2) == (-2, 2)
    for ends, name in (((-3, 2), "lower"), ((-2, 3), "upper")):
        text = f"{name} must be between -2 and 2, got {ends[name == 'upper']}"
        assert refusal(checks.bounds, *ends, 2) == text
    lower, upper = checks.bounds(np.int8(-100), np.int8(100))
    assert upper - lower == 200  # in numpy's int8 it is -56


def test_neighbours_are_one_of_two_names():
    assert [checks.neighbours(name) for name in checks.NEIGHBOURS] == ["add-remove", "replace-one"]
    expected = "neighbours must be one of 'add-remove', 'replace-one', got "
    for value in ("bounded", "Add-Remove", None, 1):
        assert refusal(checks.neighbours, value) == expected + repr(value)


@pytest.mark.parametrize(
    "value", [None, 1.5, "seed", np.random, np.random.default_rng, np.random.RandomState(1)]
)
def test_a_generator_is_required(value):
    assert (
        refusal(checks.generator, value)
        == f"rng must be a np.random.Generator or dputils.noise.SYSTEM, got {value!r}"
    )


def test_an_integer_seed_is_refused_with_a_way_out():
    message = refusal(checks.generator, 7)
    assert message.endswith("got 7; for a reproducible stream pass np.random.default_rng(7)")


def test_generators_pass():
    rng = np.random.default_rng(0)
    assert checks.generator(rng) is rng and checks.generator(noise.SYSTEM) is noise.SYSTEM


@given(st.integers(-(10**9), 10**9), st.integers(0, 12))
def test_a_float_is_read_as_the_decimal_that_prints_it(digits, places):
    value = float(Decimal(digits).scaleb(-places))
    assert checks.as_fraction("epsilon", value) == Fraction(digits, 10**places)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_reading_a_float_loses_nothing(value):
    assert float(checks.as_fraction("x", value)) == value


def test_fractions_and_integers_stay_exact():
    assert checks.as_fraction("x", Fraction(1, 3)) == Fraction(1, 3)
    assert checks.as_fraction("x", np.int64(2**62 + 1)) == 2**62 + 1
    assert checks.as_fraction("x", np.float64(0.1)) == Fraction(1, 10)
    assert sum(checks.as_fraction("x", 0.1) for _ in range(10)) == 1 != sum(0.1 for _ in range(10))
    assert checks.as_fraction("x", np.float32(0.1)) == Fraction(
        "0.10000000149011612"
    )  # its exact value as a double


# --------------------------------------------------------------------- forged and odd public values


class Equal(str):
    """A string that says that it equals every other."""

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Sly(int):
    """An integer that says that it is large."""

    def __lt__(self, other):
        return False


def test_one_of_reads_a_string_as_it_is_spelt():
    assert refusal(checks.one_of, "norm", Equal("l3"), ("l1", "l2")).endswith("got 'l3'")
    plain = checks.one_of("norm", Equal("l2"), ("l1", "l2"))
    assert plain == "l2" != "l1" and type(plain) is str
    assert type(checks.one_of("norm", np.str_("l1"), ("l1",))) is str


@pytest.mark.parametrize("value", [None, 1, ["l1"], {"l1"}, np.array(["l1", "l2"]), b"l1"])
def test_one_of_refuses_what_is_no_string(value):
    assert refusal(checks.one_of, "norm", value, ("l1", "l2")).startswith(
        "norm must be one of 'l1', 'l2', got "
    )


@pytest.mark.parametrize("value", ["", "  ", "\n", None, 3, b"x", ["x"]])
def test_a_name_is_a_string_with_something_in_it(value):
    assert (
        refusal(checks.named, "unit", value)
        == f"unit must be a string that is not empty, got {value!r}"
    )


def test_a_name_comes_back_plain():
    assert checks.named("unit", "person") == "person"
    assert type(checks.named("unit", Equal("person"))) is str


def test_an_integer_is_checked_as_it_is_returned():
    assert refusal(checks.integer, "k", Sly(-3), 1) == "k must be at least 1, got -3"


@pytest.mark.parametrize("value", [1, 2.5, 4, Fraction(7, 2), np.float32(3)])
def test_within_admits_both_ends(value):
    assert checks.within("sigma", value, 1, 4) is value


@pytest.mark.parametrize("value,shown", [(0.99, "0.99"), (4.01, "4.01"), (np.float64(5), "5.0")])
def test_within_refuses_outside(value, shown):
    assert (
        refusal(checks.within, "sigma", value, 1, 4)
        == f"sigma must be between 1 and 4, got {shown}"
    )
    assert refusal(checks.within, "sigma", value, -2, 0.5) == (
        f"sigma must be between -2 and 0.5, got {shown}"
    )


@pytest.mark.parametrize("value, shown", [(-1, "-1"), (math.nan, "nan"), ("2", "'2'")])
def test_within_a_positive_range_says_positive(value, shown):
    said = f"sigma must be positive and finite, got {shown}"
    assert refusal(checks.within, "sigma", value, 1, 4) == said


@pytest.mark.parametrize(
    "value,result",
    [
        (1, 1.0),
        ([1, 2], [1.0, 2.0]),
        (Fraction(1, 2), 0.5),
        ([Fraction(1, 2), 3], [0.5, 3.0]),
        (np.float32(0.5), 0.5),
        (np.array([[2], [3]], dtype=np.int8), [[2.0], [3.0]]),
        ([], []),
        (np.longdouble(2), 2.0),
        (2**60, 2.0**60),
    ],
)
def test_floats_of_every_kind_keep_their_shape(value, result):
    found = checks.floats("mu", value, 0.25, 2.0**70)
    assert found.dtype == float and found.tolist() == result


@pytest.mark.parametrize(
    "value,message",
    [
        (0, "mu must be between 1 and 4, got 0.0"),
        ([2, 5], "mu must be between 1 and 4, got 5.0"),
        ([2, math.nan], "mu must be between 1 and 4, got nan"),
        (4 + np.longdouble("1e-15"), "mu must be between 1 and 4, got 4.00000000000000"),
        (True, "mu must be a number or an array of numbers, got type bool"),
        ("2", "mu must be a number or an array of numbers, got type <U1"),
        (1j, "mu must be a number or an array of numbers, got type complex128"),
        (None, "mu must be a number, got None"),
        ([Fraction(2), None], "mu must be a number, got None"),
        (10**400, "mu must be finite, got 1000"),
        (Decimal("2"), "mu must be a number, got Decimal('2')"),
    ],
)
def test_floats_refuse_what_lies_outside_or_is_no_number(value, message):
    assert refusal(checks.floats, "mu", value, 1, 4).startswith(message)


def test_floats_admit_zero_beside_the_range_where_asked():
    assert checks.floats("epsilon", [0, -0.0, 2], 1, 4, zero=True).tolist() == [0, 0, 2]
    message = "epsilon must be between 1 and 4 or 0, got 0.5"
    with pytest.raises(ValueError, match=message):
        checks.floats("epsilon", 0.5, 1, 4, zero=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e-6, 1, Fraction(1, 3), np.float32(2), np.int8(3), 1000])
def test_within_public_ends(value):
    assert checks.within("epsilon", value, *checks.EPSILONS) is value
    assert checks.within("scale", value, *checks.SIZES) is value


@pytest.mark.parametrize(
    "value, ends, sentence",
    [
        (1e-7, checks.EPSILONS, "x must be between 1e-06 and 1000, got 1e-07"),
        (
            Fraction(1001),
            checks.EPSILONS,
            "x must be between 1e-06 and 1000, got Fraction(1001, 1)",
        ),
        (2**50 + 1, checks.STEPS, "x must be between 2**-50 and 2**50, got 1125899906842625"),
        (0, checks.EPSILONS, "x must be positive and finite, got 0"),
        (True, (0, 1), "x must be a number, got True"),
        (math.nan, (0, 1), "x must be finite, got nan"),
        (-0.5, (0, 1), "x must be between 0 and 1, got -0.5"),
    ],
)
def test_what_is_not_within_is_named(value, ends, sentence):
    assert refusal(checks.within, "x", value, *ends) == sentence
