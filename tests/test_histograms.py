"""Histograms and trees: counts against one comparison a record, least squares against numpy's, the
projection against its conditions, laws against exact and drawn ones.
"""

import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import accounting, audit, geometric, histograms, noise, sensitivity
from tests.examples import HOSTILE

RELATIONS = ("add-remove", "replace-one")


def rng(seed=0):
    return np.random.default_rng(seed)


def matrix(n, branching):
    """One row a node: which bins its block holds."""
    return np.array([histograms.node_counts(row, branching) for row in np.eye(n)]).T


def place(value, starts):
    """The bin of one record, by comparison with each start."""
    try:
        missing = value is None or value is pd.NA or isinstance(value, str) or value != value
    except (TypeError, ValueError):
        missing = True
    if missing:
        return 0
    return max(0, sum(value >= start for start in starts) - 1)


# ------------------------------------------------------------------------------------------ counts


@pytest.mark.parametrize(
    "dtype",
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
    + "float16 float32 float64 longdouble".split(),
)
@pytest.mark.parametrize(
    "starts",
    [[0], [-3, 0, 5, 6, 100], [0.5, 1, 1.25, 40.75], [-(2**53), -7, 0, 2**53], range(0, 90_001, 9)],
)
def test_counts_of_each_dtype(dtype, starts):
    starts, draw = list(starts), rng(1)
    values = np.concatenate(
        [draw.integers(-130, 130, 300), [0, 1, 5, 6, 40, 41, 2**31, -(2**60), 2**63 - 1]]
    )
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            values = (values / 4).astype(dtype)
        values = np.append(values, np.array([np.nan, np.inf, -np.inf], dtype))
    else:
        values = values.astype(dtype)
    want = [0] * len(starts)
    for value in values.tolist() if dtype != "longdouble" else values:
        want[place(value, starts)] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted = histograms.counts(values, starts)
    assert counted.tolist() == want and counted.dtype == np.int64


def test_counts_in_chunks_and_the_last_digits():
    values = rng(2).integers(-5, 300, 200_001)
    want = np.bincount(np.clip(values, 0, 255), minlength=256)
    np.testing.assert_array_equal(histograms.counts(values, np.arange(256)), want)
    np.testing.assert_array_equal(histograms.counts(values + 0.9, np.arange(256)), want)
    assert histograms.counts([np.nextafter(3, 0), 3.0], [0, 3]).tolist() == [1, 1]
    assert histograms.counts(np.array([2**24 + 1]), [0, 2**24 + 1]).tolist() == [0, 1]
    assert histograms.counts(np.float16([5000]), [0, 5001]).tolist() == [1, 0]
    assert histograms.counts(np.float32([2**24]), [0, 2**24 + 1]).tolist() == [1, 0]
    long = np.nextafter(np.array([0.3], np.longdouble), 0)
    if np.finfo(np.longdouble).eps < np.finfo(float).eps:
        assert histograms.counts(long, [0, 0.3]).tolist() == [1, 0]
    exact = [Fraction(1, 3), Decimal("0.25"), 10**400, -(10**400)]
    assert histograms.counts(exact, [0, 0.25, 0.3]).tolist() == [1, 1, 2]
    uint64 = np.array([2**64 - 1, 2**63], np.uint64)
    assert histograms.counts(uint64, [0, 2**53]).tolist() == [0, 2]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_hostile_record_counts_once_and_changes_no_other(value):
    starts = [0, 1, 5]
    base = histograms.counts([0.5, 2, 7], starts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = histograms.counts([0.5, 2, 7, value], starts) - base
        for make in (
            histograms.mechanism(starts, "add-remove", 1),
            histograms.tree_mechanism(starts, 2, "add-remove", 1),
        ):
            make([0.5, 2, 7, value], rng=rng())
    assert sorted(moved.tolist()) == [0, 0, 1]


@pytest.mark.parametrize(
    "empty", [[], np.array([]), np.array([], dtype=int), pd.Series([], dtype=object)]
)
def test_an_empty_table_is_answered(empty):
    assert histograms.counts(empty, [0, 1]).tolist() == [0, 0]
    assert histograms.mechanism([0, 1], "replace-one", 1)(empty, rng=rng()).shape == (2,)
    assert histograms.tree_mechanism([0, 1], 2, "replace-one", 1)(empty, rng=rng()).shape == (2,)


def test_missing_cells_of_columns_count_in_the_first_bin():
    column = pd.array([1, None, 7], dtype="Int64")
    assert histograms.counts(pd.Series(column), [0, 1, 5]).tolist() == [1, 1, 1]
    masked = np.ma.array([1, 2, 7], mask=[False, True, False])
    assert histograms.counts(masked, [0, 1, 5]).tolist() == [1, 1, 1]


def refused(function, *arguments, named, **options):
    with pytest.raises(ValueError, match=f"^{named} must "):
        function(*arguments, **options)


@pytest.mark.parametrize(
    "starts",
    [[], [[0, 1]], 3, [1, 0], [0, 0], [0, math.nan], [0, math.inf], [2.0**54], ["a"], [0, 1e-400]],
)
def test_starts_are_refused(starts):
    refused(histograms.counts, [1], starts, named="starts")
    refused(histograms.mechanism, starts, "add-remove", 1, named="starts")
    refused(histograms.tree_mechanism, starts, 2, "add-remove", 1, named="starts")


def test_other_refusals():
    refused(histograms.counts, np.zeros((2, 2)), [0, 1], named="values")
    refused(histograms.counts, np.array(["a"]), [0, 1], named="values")
    refused(histograms.counts, 3, [0, 1], named="values")
    for b in (1, 0, 2.5, "2", True, 2**51):
        refused(histograms.widths, 8, b, named="branching")
        refused(histograms.tree_mechanism, [0, 1], b, "add-remove", 1, named="branching")
        refused(histograms.node_counts, [1, 2], b, named="branching")
        refused(histograms.consistent, [1.0], 1, b, named="branching")
    for n in (0, 2.5, 2**25):
        refused(histograms.widths, n, 2, named="n")
    refused(histograms.node_counts, [[1]], 2, named="x")
    refused(histograms.node_counts, [], 2, named="x")
    refused(histograms.consistent, np.zeros(5), 4, 2, named="nodes")
    refused(histograms.consistent, 1.0, 1, 2, named="nodes")
    refused(histograms.nonnegative, 1.0, named="x")
    refused(histograms.nonnegative, [], named="x")
    for make in (histograms.mechanism, lambda s, *a, **k: histograms.tree_mechanism(s, 2, *a, **k)):
        refused(make, [0], "bounded", 1, named="neighbours")
        refused(make, [0], "add-remove", 0, named="epsilon")
        refused(make, [0], "add-remove", 1, unit="", named="unit")


# ------------------------------------------------------------------------------------------- trees


@given(st.integers(1, 3000), st.integers(2, 70))
def test_widths(n, b):
    widths = histograms.widths(n, b)
    assert widths == [b**level for level in reversed(range(len(widths)))]
    assert b ** len(widths) >= n and (len(widths) == 1 or b ** (len(widths) - 1) < n)


@given(st.integers(1, 60), st.integers(2, 70))
def test_a_record_is_in_one_node_of_each_level_and_nodes_add_up(n, b):
    a = matrix(n, b)
    assert (a.sum(axis=0) == len(histograms.widths(n, b))).all()
    x = rng(n).integers(0, 9, n)
    np.testing.assert_array_equal(histograms.node_counts(x, b), a @ x)
    np.testing.assert_allclose(histograms.consistent(a @ x, n, b), x, atol=1e-12)


@given(st.integers(1, 70), st.integers(2, 80), st.integers(0, 9))
def test_consistency_is_least_squares(n, b, seed):
    a = matrix(n, b)
    y = rng(seed).normal(scale=10, size=(2, len(a)))
    best = np.linalg.lstsq(a, y.T, rcond=None)[0].T
    np.testing.assert_allclose(histograms.consistent(y, n, b), best, atol=1e-11)


def test_consistency_is_the_formula_of_hay_on_complete_trees():
    """z = ((b^l - b^(l-1)) y + (b^(l-1) - 1) sum z)/(b^l - 1), x = z + (x_parent - sum z)/b."""
    for b, height in ((2, 5), (3, 3), (5, 2)):
        n = b**height
        y = rng(b).normal(size=sum(n // w for w in histograms.widths(n, b)))
        sizes = [n // w for w in histograms.widths(n, b)]
        levels = np.split(y, np.cumsum(sizes)[:-1])
        z = [levels[-1]]
        for k, level in enumerate(reversed(levels[:-1]), start=2):
            s = z[-1].reshape(-1, b).sum(axis=1)
            z.append(((b**k - b ** (k - 1)) * level + (b ** (k - 1) - 1) * s) / (b**k - 1))
        x = z.pop()
        while z:
            low = z.pop().reshape(-1, b)
            x = (low + ((x - low.sum(axis=1)) / b)[:, None]).ravel()
        np.testing.assert_allclose(histograms.consistent(y, n, b), x, atol=1e-12)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40))
def test_nonnegative_meets_the_conditions_of_the_nearest_point(x):
    """At the projection all positive bins are lowered by one number, and no zero by less."""
    x = np.array(x)
    got, total = histograms.nonnegative(x), max(x.sum(), 0)
    assert (got >= 0).all() and got.sum() == pytest.approx(total, abs=1e-9)
    if got.any():
        shift = (x - got)[got > 0]
        assert np.ptp(shift) < 1e-9 and (x[got == 0] <= shift.max() + 1e-9).all()
    stacked = histograms.nonnegative(np.stack([x, -x, x]))
    np.testing.assert_allclose(stacked[[0, 2]], [got, got], atol=1e-9)


# -------------------------------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("branching", [None, 2, 3, 5])
def test_the_sensitivity_is_the_largest_move_of_any_neighbours(neighbours, branching):
    starts = [0, 1, 2, 3, 4]
    if branching is None:
        made = histograms.mechanism(starts, neighbours, 0.5, unit="person")
    else:
        made = histograms.tree_mechanism(starts, branching, neighbours, 0.5, unit="person")
    pairs = sensitivity.neighbour_pairs((-1, 0, 1, 2.5, 4, 9), 2, neighbours)
    most, _ = sensitivity.brute_force(made.read, pairs)
    assert most == made.sensitivity.size and made.sensitivity.norm == "l1"
    assert made.unit == "person" and made.neighbours == neighbours and made.exact
    assert made.costs == (accounting.Pure(0.5),)
    scale = float(geometric.scale(made.sensitivity, 0.5))
    z = np.arange(-9, 10)
    np.testing.assert_allclose(made.law(1)(z), geometric.cdf(z, scale))


def test_the_joint_law_of_a_small_tree_attains_epsilon():
    """Two levels over two pairs of bins, exactly: the product over the nodes of one record."""
    made = histograms.tree_mechanism([0, 1, 2, 3], 2, "add-remove", 0.7)
    laws = []
    for centre in (0, 1):
        below = made.law(1)(np.arange(-3, 4) - centre)
        one = np.diff(below, prepend=0, append=1)
        laws.append(np.outer(one, one).ravel())
    assert audit.finite_epsilon(*laws) == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("source", [rng(5), noise.SYSTEM], ids=["seeded", "system"])
def test_releases_follow_their_law(source):
    """False alarm 1e-6 for each of the two mechanisms."""
    values, starts = np.array([0, 0, 1, 3, 3, 3, 9]), [0, 1, 2, 3]
    truth = histograms.counts(values, starts)
    for made, exact in (
        (histograms.mechanism(starts, "replace-one", 1), truth),
        (histograms.tree_mechanism(starts, 2, "add-remove", 1), histograms.node_counts(truth, 2)),
    ):
        drawn = np.array([made(values, rng=source) for _ in range(3000)]) - exact
        audit.assert_law(drawn, made.law(1), discrete=True, rng=source)


TWINS = {
    "the truth": lambda z, draw: z * 0,
    "a quarter of the noise": lambda z, draw: np.rint(z / 4),
    "the whole budget on each level": lambda z, draw: noise.discrete_laplace(2, z.shape, rng=draw),
    "one draw for all levels": lambda z, draw: z[:, [0, 1, 0, 0, 1, 1]],
    "one draw for two bins": lambda z, draw: z[:, [0, 1, 2, 2, 4, 5]],
}


@pytest.mark.parametrize("twin", TWINS)
def test_twins_are_caught(twin):
    made = histograms.tree_mechanism([0, 1, 2, 3], 2, "add-remove", 0.5)
    draw = rng(7)
    drawn = np.array([made([], rng=draw) for _ in range(3000)])
    audit.assert_caught(TWINS[twin](drawn, draw), made.law(1), discrete=True, rng=draw)


def test_a_ledger_books_the_whole_histogram_once():
    ledger = accounting.Ledger(1, neighbours="add-remove", unit="person")
    made = histograms.mechanism([0, 1], "add-remove", Fraction(1, 2), unit="person")
    tree = histograms.tree_mechanism([0, 1], 2, "add-remove", Fraction(1, 2), unit="person")
    for label, mechanism in (("bins", made), ("tree", tree)):
        ledger.release(label, mechanism, [1, 2, "odd"], rng=noise.SYSTEM)
    assert ledger.remaining == (0, 0)


def test_the_variance_of_ranges_after_consistency():
    """Theory against 4,000 draws: each of four ranges within 6 standard errors."""
    n, b = 27, 3
    cover = np.linalg.inv(matrix(n, b).T @ matrix(n, b))
    z = noise.discrete_laplace(6, (4000, len(matrix(n, b))), rng=rng(8))
    x = histograms.consistent(z, n, b)
    for low, high in ((0, 1), (3, 9), (2, 20), (0, 27)):
        theory = geometric.variance(6) * cover[low:high, low:high].sum()
        squares = x[:, low:high].sum(axis=1) ** 2
        assert abs(squares.mean() - theory) < 6 * squares.std() / math.sqrt(4000)
