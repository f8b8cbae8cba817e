"""Directed rounding: always to the stated side, and never further than the next float."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils.accounting import rounding

SIZES = st.fractions(min_value=Fraction(1, 10**40), max_value=10**40)


@pytest.mark.parametrize(
    "x",
    [
        Fraction(1, 3),
        Fraction(3, 10),
        Fraction(1, 10),
        Fraction(10**30 + 1),
        Fraction(1, 10**400),
        Fraction(10**400),
    ],
)
def test_directed_rounding(x):
    assert rounding.lower(x) <= x <= rounding.upper(x)
    assert rounding.upper(x) in (rounding.lower(x), math.nextafter(rounding.lower(x), math.inf))
    assert math.isinf(rounding.ceiling(x)) or Fraction(repr(rounding.ceiling(x))) >= x


@given(SIZES)
def test_rounding_goes_to_the_next_float_at_most(x):
    low, high = rounding.lower(x), rounding.upper(x)
    assert Fraction(low) <= x <= Fraction(high)
    assert (low == high) == (Fraction(low) == x)
    assert low == high or math.nextafter(low, math.inf) == high


@given(SIZES)
def test_roots_enclose_the_exact_one(x):
    assert Fraction(rounding.root(x)) ** 2 >= x >= rounding.root_below(x) ** 2
    assert Fraction(rounding.root(x)) ** 2 <= x * (1 + Fraction(1, 10**11))
    assert rounding.root_below(x) ** 2 >= x * (1 - Fraction(1, 2**58))


@given(st.floats(0, 1e300))
def test_above_is_above_by_more_than_a_short_computation_loses(x):
    assert x * (1 + 5e-13) < rounding.above(x) <= x * (1 + 2e-12) + 5e-324


@given(st.fractions(min_value=0, max_value=1 - Fraction(1, 10**40)))
def test_the_log_of_the_rest_is_rounded_down_within_two_ulps(delta):
    with mpmath.workdps(60):
        exact = mpmath.log1p(-mpmath.mpf(delta.numerator) / delta.denominator)
        ours = rounding.log_rest(delta)
        assert exact * (1 + mpmath.mpf(2) ** -50) - mpmath.mpf(2) ** -1073 <= ours
        assert ours <= exact * (1 - mpmath.mpf(2) ** -51) + mpmath.mpf(2) ** -1073


def test_the_log_of_no_rest_is_minus_infinity():
    assert rounding.log_rest(1 - Fraction(1, 10**400)) == -math.inf


def test_an_exponential_is_rounded_up_and_never_above_one():
    logs = -np.logspace(-12, 2.8, 400)
    with mpmath.workdps(40):
        for log, value in zip(logs, rounding.upper_exp(logs)):
            assert mpmath.exp(log) <= value <= mpmath.exp(log) * (1 + 1e-15) + 5e-324
    assert rounding.upper_exp(0.0) == 1 and rounding.upper_exp(-1e9) > 0


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 1), (20001,)])
def test_elementwise_keeps_the_shape(shape):
    values = np.full(shape, 2.0)
    result = rounding.elementwise(lambda a, b: a * b, values, np.asarray(3.0))
    assert np.shape(result) == shape and np.all(np.asarray(result) == 6)
    assert type(result) is (float if shape == () else np.ndarray)
