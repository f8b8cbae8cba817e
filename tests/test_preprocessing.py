"""Public scales: a record by itself into [-1, 1], and a fit back into the units of the data."""

import numpy as np
import pytest

from dputils import preprocessing, regression
from dputils.preprocessing import Ranges

RANGES = Ranges([(0, 10), (-5, 15), (100, 101)], (20, 60))
RNG = np.random.default_rng(5)
INSIDE = RNG.uniform(*np.array(RANGES.columns).T, (50, 3)), RNG.uniform(20, 60, 50)


def test_ends_and_middles_become_one_and_zero():
    Z, v = preprocessing.into(([[0, 15, 100.5], [5, 5, 101]], [20, 40]), RANGES)
    assert np.array_equal(Z, [[1, -1, 1, 0], [1, 0, 0, 1]]) and np.array_equal(v, [-1, 0])


def test_a_fit_predicts_the_same_on_both_scales():
    Z, v = preprocessing.into(INSIDE, RANGES)
    theta = RNG.normal(size=(7, 4))
    back = preprocessing.unstandardised(theta, RANGES)
    ours = 40 + 20 * Z @ theta.T
    assert np.allclose(back[:, 0] + INSIDE[0] @ back[:, 1:].T, ours)
    assert np.allclose(preprocessing.unstandardised(theta[0], RANGES), back[0])


def test_least_squares_does_not_depend_on_the_scale():
    Z, v = preprocessing.into(INSIDE, RANGES)
    theta = np.linalg.lstsq(Z, v)[0]
    raw = np.linalg.lstsq(np.insert(INSIDE[0], 0, 1, axis=1), INSIDE[1])[0]
    assert np.allclose(preprocessing.unstandardised(theta, RANGES), raw)


@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, -np.inf, np.nan, None, "x"])
def test_whatever_a_record_holds_the_others_stay_and_nothing_raises(value):
    X, y = (part.astype(object) for part in INSIDE)
    X[3, 1] = y[7] = value
    Z, v = preprocessing.into((X, y), RANGES)
    honest = preprocessing.into(INSIDE, RANGES)
    others = np.delete(np.arange(50), 3), np.delete(np.arange(50), 7)
    assert np.array_equal(Z[others[0]], honest[0][others[0]])
    assert np.array_equal(v[others[1]], honest[1][others[1]])
    assert np.nanmax(np.abs(Z)) <= 1 and np.nanmax(np.abs(v)) <= 1
    assert np.isfinite(regression.sums((Z, v), RANGES.bounds).gram).all()


def test_mapped_records_keep_the_bounds_and_neighbours():
    Z, v = preprocessing.into(INSIDE, RANGES)
    fewer = preprocessing.into((INSIDE[0][1:], INSIDE[1][1:]), RANGES)
    assert np.array_equal(fewer[0], Z[1:]) and np.array_equal(fewer[1], v[1:])
    assert RANGES.bounds == regression.Bounds(4, 2.0, 1.0)
    moved = regression.sums((Z[:1], v[:1]), RANGES.bounds)
    assert np.linalg.norm(moved.gram) <= 4 and np.linalg.norm(moved.products) <= 2


@pytest.mark.parametrize("missing", [np.nan, None, "x"])
def test_what_is_missing_remains_missing_and_counts_as_zeros(missing):
    X, y = (part.astype(object) for part in INSIDE)
    X[3, 1] = y[7] = missing
    Z, v = preprocessing.into((X, y), RANGES)
    assert np.isnan(Z[3, 2]) and np.isnan(v[7]) and np.isnan(Z).sum() == np.isnan(v).sum() == 1
    for place in (3, 7):  # a record with a gap adds nothing to either sum
        one = regression.sums((Z[[place]], v[[place]]), RANGES.bounds)
        assert not one.products.any() and not one.gram.any()


def test_values_beyond_the_ends_count_as_the_ends_on_either_side():
    Z, v = preprocessing.into(([[1e9, -1e9, 0]], [1e9]), RANGES)
    assert np.array_equal(Z, [[1, 1, -1, -1]]) and np.array_equal(v, [1])
    assert np.array_equal(preprocessing.into(([[0, 0, 100]], [-np.inf]), RANGES)[1], [-1])


def test_the_narrowest_ranges_bring_no_coefficient_beyond_all_floats():
    narrow = Ranges([(0, 2e-100), (-1e12, 1e12)], (-1e12, 1e12))
    with np.errstate(all="raise"):
        line = preprocessing.unstandardised([1e9, 1e9, 1e9], narrow)
    assert np.isfinite(line).all()


def test_rounding_leaves_no_value_beyond_one():
    """Ends whose difference is rounded; the outer clamp holds what the division lets through."""
    rng = np.random.default_rng(1)
    low = rng.uniform(-1, 1, 3000) * 10.0 ** rng.integers(-3, 9, 3000)
    high = low + rng.uniform(2e-9, 1, 3000) * np.maximum(np.abs(low), 1e-3)
    several = Ranges(list(zip(low, high, strict=True)), (0, 1))
    for ends in (low, high, np.nextafter(low, high), np.nextafter(high, low)):
        assert np.abs(preprocessing.into(([ends], [1]), several)[0]).max() <= 1


def test_no_rows():
    Z, v = preprocessing.into(([], []), RANGES)
    assert Z.shape == (0, 4) and v.shape == (0,)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Ranges([], (0, 1)), "columns must have at least one"),
        (lambda: Ranges([(1, 1)], (0, 1)), r"columns\[0\] must be a pair with low below"),
        (lambda: Ranges([(0, 1)], (0, np.inf)), "response must be"),
        (lambda: Ranges([(1e11, 1e11 + 1)], (0, 1)), r"columns\[0\] must be a pair with low"),
        (lambda: Ranges([5], (0, 1)), r"columns\[0\] must be a pair"),
        (lambda: Ranges(None, (0, 1)), "columns must be a sequence"),
        (lambda: Ranges([(0, 1)], None), "response must be a pair"),
        (lambda: Ranges([(0, 1e-320)], (0, 1)), r"columns\[0\] must be a pair with low"),
        (lambda: preprocessing.into(([[1]], [1]), "no"), "ranges must be preprocessing.Ranges"),
        (lambda: preprocessing.unstandardised([1], None), "ranges must be preprocessing.Ranges"),
        (lambda: preprocessing.into(([[1, 2]], [1]), RANGES), "X must have shape"),
        (lambda: preprocessing.into(([[1, 2, 3]], [1, 2]), RANGES), "y must have one"),
        (lambda: preprocessing.unstandardised([1, 2], RANGES), "coefficients must have 4"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError, match=said):
        call()
