"""Gaps below the best score: exact before they are rounded, for every type, with one rule for odd
scores.
"""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import selection
from dputils.gaps import LIMIT, gaps_below_best, steps_below_best, whole_steps

pytestmark = pytest.mark.filterwarnings("error")
LARGEST = int(np.finfo(float).max)


def exact(score):
    return (
        Fraction(int(score))
        if isinstance(score, int | np.integer)
        else Fraction(*score.as_integer_ratio())
    )


def rounded(number):
    try:
        return float(number)
    except OverflowError:
        return math.inf


FAR_OUT = [
    [2**53, 2**53 + 1],
    [2**63, 2**63 + 1, 0],
    [10**30, 10**30 - 7, 5],
    [Fraction(10**30), Fraction(10**30) - Fraction(1, 3)],
    [Decimal(10**30), Decimal(10**30 - 1)],
    [Decimal(10**30), 10**30 - 1, float(2**90)],
    [1e16, 10**16 + 1],
    [True, Fraction(1, 2)],
    np.array([2**53, 2**53 + 1]),
    np.array([2**63 - 1, -(2**63), 2**63 - 2]),
    np.array([2**64 - 1, 2**64 - 2, 0], dtype=np.uint64),
    np.array([127, -128], dtype=np.int8),
    np.array([255, 0], dtype=np.uint8),
    np.array([2**60, 2**60 + 1], dtype=">i8"),
    np.array([2**60, 2**60 + 1], dtype=object),
    np.array([2, 3], dtype=np.longdouble) + np.longdouble(2) ** 62,
    np.array([65504, -65504], dtype=np.float16),
]


@pytest.mark.parametrize("scores", FAR_OUT, ids=repr)
def test_gaps_are_exact_before_they_are_rounded(scores):
    best = max(map(exact, scores))
    expected = [rounded(best - exact(score)) for score in scores]
    np.testing.assert_array_equal(gaps_below_best(scores), expected, strict=True)
    law = selection.exponential_law(expected, 1.0)[::-1]
    assert law.sum() == pytest.approx(1)


def test_a_score_that_moves_by_one_moves_one_gap_by_one():
    for base in (2**53, 2**62, 2**63, 10**30, 10**300):
        here, there = (selection.exponential_law([base + move, base], 2.0) for move in (0, 1))
        assert math.log(there[0] / here[0] * here[1] / there[1]) == pytest.approx(0.5)


@pytest.mark.parametrize("kind", ["list", "object", "float64", "longdouble"])
def test_scores_are_cut_off_at_the_largest_float_and_what_is_missing_is_the_lowest(kind):
    odd = [math.nan, -math.inf, -float(LARGEST), math.inf, float(LARGEST), 0.0]
    scores = odd if kind == "list" else np.array(odd, dtype=kind)
    half = float(LARGEST)
    np.testing.assert_array_equal(
        gaps_below_best(scores), [math.inf] * 3 + [0, 0, half], strict=True
    )
    low = [math.nan, -math.inf] if kind == "list" else np.array([math.nan, -math.inf], dtype=kind)
    assert gaps_below_best(low).tolist() == [0, 0]


def test_numbers_beyond_all_floats_are_cut_off_in_every_type():
    for huge in (10**400, Fraction(10**400), Decimal("1e400"), np.longdouble("1e400"), math.inf):
        assert gaps_below_best([huge, LARGEST, 0]).tolist() == [0, 0, float(LARGEST)]
    far = np.array([np.longdouble("1e4000"), np.longdouble("-1e4000"), 0])
    assert gaps_below_best(far).tolist() == [0, math.inf, float(LARGEST)]


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "Int8"])
def test_a_missing_cell_lies_below_every_number(dtype):
    column = pd.Series([3, None, 5], dtype=dtype)
    assert gaps_below_best(column).tolist() == [2, float(LARGEST), 0]
    assert steps_below_best(column).tolist() == [2, 5 + LIMIT, 0]
    assert gaps_below_best(pd.Series([None, None], dtype=dtype)).tolist() == [0, 0]
    masked = np.ma.array([3, 9, 5], mask=[0, 1, 0])
    assert gaps_below_best(masked).tolist() == [2, float(LARGEST), 0]
    assert steps_below_best(masked).tolist() == [2, 5 + LIMIT, 0]


EXACT_NUMBERS = st.one_of(
    st.integers(-(10**25), 10**25),
    st.fractions(-(10**6), 10**6, max_denominator=99),
    st.decimals(-(10**6), 10**6, places=3),
    st.floats(-(2.0**70), 2.0**70),
)


@given(EXACT_NUMBERS, st.integers(0, 5))
def test_whole_steps_never_move_further_than_a_whole_sensitivity(score, move):
    here, there = [score], [Fraction(score) + move]
    apart = whole_steps(np.array(there, dtype=object)) - whole_steps(np.array(here, dtype=object))
    assert 0 <= apart.item() <= move


def test_whole_steps_round_down():
    twelfths = [Fraction(i, 12) for i in range(-40, 41)]
    for a in twelfths:
        for step in (Fraction(1, 12), Fraction(1, 2), Fraction(1), Fraction(4, 3)):
            down = whole_steps(np.array([a, a + step], dtype=object))
            assert down.tolist() == [math.floor(a), math.floor(a + step)]


def test_two_decimals_that_move_by_one_do_so_as_read():
    """Read through floats, 2^61 + 128 and 2^61 + 129 came out 256 apart: epsilon 1 was 128."""
    for kind in (int, Decimal, Fraction, np.longdouble):
        for base in (2**61 + 127, 2**61 + 128, 2**61 + 255):
            scores = [kind(base), kind(base + 1), kind(0)]
            assert steps_below_best(scores).tolist() == [1, 0, base + 1]
            assert steps_below_best(np.array(scores, dtype=object)).tolist() == [1, 0, base + 1]
