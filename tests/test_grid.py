"""Columns of private values rounded to a public grid (`private.to_grid`)."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import private
from tests.examples import HOSTILE


def test_to_grid_clamps_rounds_and_refuses_nothing():
    steps = private.to_grid(HOSTILE, -1, 2, 0.5)
    assert (
        steps.tolist() == [-2, 4, -2, 4, -2, 0, -2, -2, 4, -2, -2, -2, -2, -2, -2, 2]
        and steps.dtype == np.int64
    )
    assert private.to_grid([0.24, 0.26, -0.74, 1.99, 7], -1, 2, 0.5).tolist() == [0, 1, -1, 4, 4]
    assert private.to_grid([], 0, 1).shape == (0,) and private.to_grid(
        pd.Series([1.2, None]), 0, 3
    ).tolist() == [1, 0]
    assert private.to_grid([0.1, 0.3, 0.7], 0.1, 0.7, 0.1).tolist() == [1, 3, 7]
    assert private.to_grid(np.array([2**64 - 1, 0], dtype=np.uint64), 0, 5).tolist() == [5, 0]
    assert private.to_grid([np.array(3), np.array([3]), 2], 0, 5).tolist() == [
        3,
        0,
        2,
    ]  # a number of no dimension is a number


@given(
    st.lists(st.one_of(st.floats(), st.integers(), st.none(), st.text(max_size=3)), max_size=6),
    st.integers(-50, 50),
    st.integers(1, 100),
    st.sampled_from([1, 0.1, Fraction(1, 3), 0.25]),
)
def test_a_record_is_read_alike_in_any_company(values, low, width, grid):
    lower, upper = low * grid, (low + width) * grid
    if Fraction(str(grid)) == Fraction(
        1, 10
    ):  # floats such as 3 * 0.1 print no multiple of the grid
        lower, upper = Fraction(low, 10), Fraction(low + width, 10)
    together = private.to_grid(values, lower, upper, grid)
    alone = [private.to_grid([value], lower, upper, grid).item() for value in values]
    assert (
        together.tolist()
        == alone
        == private.to_grid([*values, "x", 10**400], lower, upper, grid).tolist()[:-2]
    )
    assert all(low <= step <= low + width for step in alone)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: private.to_grid([1], 1, 1), "lower must be less than upper, got lower=1, upper=1"),
        (lambda: private.to_grid([1], 0, 1, 0), "grid must be positive and finite, got 0"),
        (
            lambda: private.to_grid([1], 0, 1, 0.3),
            "grid must divide lower and upper, got grid=0.3, lower=0, upper=1",
        ),
        (
            lambda: private.to_grid([1], 0, 1, 1e-17),
            "grid must cut lower and upper into at most 2**53 steps, got grid=1e-17, "
            "lower=0, upper=1",
        ),
        (
            lambda: private.to_grid([1], 0, Fraction(1, 10**400), Fraction(1, 10**400)),
            f"grid must be between 1e-100 and 1e+100, got {Fraction(1, 10**400)!r}",
        ),
    ],
)
def test_refusals_of_grids(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_no_record_changes_how_another_is_read():
    for extra in (
        0,
        [1, 2],
        "x",
        None,
        np.timedelta64(1, "D"),
        np.datetime64("2020-01-01"),
        {},
        3 + 4j,
        b"7",
        10**400,
        np.array([9]),
    ):
        plain = [5] * 50
        with_extra = private.to_grid([*plain, extra], 0, 5)
        assert with_extra[:50].tolist() == [5] * 50 and 0 <= with_extra[50] <= 5
        odd = [[5]] * 50  # records of a wrong kind are read alone too
        assert (
            private.to_grid([*odd, extra], 0, 5)[:50].tolist()
            == private.to_grid(odd, 0, 5).tolist()
        )


@pytest.mark.parametrize("shape", [(2, 2), (1, 5), ()])
def test_values_with_more_than_one_axis_are_refused(shape):
    with pytest.raises(ValueError, match=r"values must have shape \(n,\), got \("):
        private.to_grid(np.zeros(shape), 0, 5)


def test_a_data_frame_is_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"values must have shape \(n,\), got \(3, 2\)"):
        private.to_grid(pd.DataFrame(np.ones((3, 2))), 0, 5)
    assert private.to_grid(pd.Series([1.0, 9.0]), 0, 5).tolist() == [1, 5]


@pytest.mark.parametrize("upper", [4 * 10**14, 900_719_925_474_099])
def test_records_far_outside_of_many_steps_are_clamped(upper):
    records = [1e300, -1e300, upper + 1000.0, upper + 0.07, math.inf, 3.0]
    assert private.to_grid(records, 0, upper, 0.1).tolist() == [
        10 * upper,
        0,
        *[10 * upper] * 3,
        30,
    ]
