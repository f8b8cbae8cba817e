"""Labels that nobody listed: delta against exhaustive comparison of laws, the optimal selection
against its constraints, private labels of all kinds.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import accounting, audit, geometric, noise, thresholds, unlisted
from tests.examples import HOSTILE

EPSILONS = st.sampled_from([0.05, 0.3, 1.0, 2.5])


def rng(seed=0):
    return np.random.default_rng(seed)


def law(count, tau, scale, last):
    """The law of what is published of one label: 0 for nothing, `last` for all from there on."""
    if not count:
        return {0: 1.0}
    values = np.arange(tau, last)
    p = np.exp(geometric.logpmf(values, scale, count))
    below = float(geometric.cdf(tau - 1 - count, scale))
    beyond = float(geometric.cdf(count - last, scale))  # the noise is symmetric
    return {0: below, **dict(zip(values.tolist(), p)), last: beyond}


@given(EPSILONS, st.sampled_from([1e-9, 1e-4, 0.01, 0.4]))
def test_one_label_delta_by_comparing_laws(epsilon, delta):
    tau = unlisted.cut(epsilon, delta)
    s, last = 1 / epsilon, 2 * tau + 5
    deltas = [
        audit.finite_delta(law(c, tau, s, last), law(c + 1, tau, s, last), epsilon)
        for c in sorted({0, 1, 2, tau - 1, tau, tau + 1, 2 * tau})
    ]
    assert deltas[0] == pytest.approx(unlisted.attained(tau, epsilon), rel=1e-9)
    assert max(deltas[1:]) < 1e-12
    assert deltas[0] <= delta
    assert tau == 1 or unlisted.attained(tau - 1, epsilon) > delta


def joint(counts, tau, scale, last):
    laws = [law(c, tau, scale, last) for c in counts]
    return {
        tuple(out for out, _ in cell): math.prod(p for _, p in cell)
        for cell in itertools.product(*(each.items() for each in laws))
    }


@pytest.mark.parametrize("epsilon", [0.7, 2.0])
@pytest.mark.parametrize("delta", [0.02, 0.45])
def test_two_labels_a_unit_over_all_small_tables(epsilon, delta):
    tau = unlisted.cut(epsilon, delta, 2)
    s, last = 2 / epsilon, tau + 8
    found = {}
    for counts in itertools.product((0, 1, 2, tau, tau + 3), repeat=2):
        for more in ((1, 1), (1, 0), (0, 1)):
            pair = [joint(c, tau, s, last) for c in (counts, np.add(counts, more).tolist())]
            found[counts, more] = audit.finite_delta(*pair, epsilon)
    worst = max(found, key=found.get)
    assert worst == ((0, 0), (1, 1))
    assert found[worst] == pytest.approx(unlisted.attained(tau, epsilon, 2), rel=1e-9)
    assert found[worst] <= delta


@given(
    st.sampled_from([1e-6, 0.003, 1.0, 40.0, 1e3]),
    st.sampled_from([1e-300, 1e-30, 1e-6, 0.3, 0.999]),
    st.sampled_from([1, 2, 17, 2**20]),
)
def test_the_cut_is_the_smallest_over_the_ranges(epsilon, delta, labels):
    tau = unlisted.cut(epsilon, delta, labels)
    assert unlisted.attained(tau, epsilon, labels) <= delta
    assert tau == 1 or unlisted.attained(tau - 1, epsilon, labels) * (1 + 2e-11) > delta


def test_the_laplace_threshold_of_the_literature_is_near():
    for epsilon in (0.1, 1.0):
        laplace = 1 + math.log(1 / (2 * 1e-6)) / epsilon
        assert laplace < unlisted.cut(epsilon, 1e-6) < laplace + 2


def test_what_is_read_as_labels():
    odd = ["a", "b", "a", None, 3, math.nan, b"a", ["a", "a", "c"], ("c", 5, "b"), [], {"a"}, "a\0"]
    one, two = (unlisted.mechanism(1, 1e-6, k).read for k in (1, 2))
    assert one(odd) == {"a": 3, "b": 1, "c": 1, "a\0": 1}
    assert two(odd) == {"a": 3, "b": 2, "c": 2, "a\0": 1}
    assert one(pd.Series(["x", None, "x"])) == one(pd.array(["x", pd.NA, "x"])) == {"x": 2}
    assert one(np.array(["x", "y"])) == one(("y", "x")) == {"x": 1, "y": 1}
    assert one(np.ma.array(["x", "y"], mask=[0, 1])) == {"x": 1}
    assert one([]) == one(np.array([])) == one(np.array([], dtype=object)) == {}
    assert one(pd.Series(["u", "u", "w"], dtype="category")) == {"u": 2, "w": 1}


def test_the_type_of_a_column_decides_nothing():
    """Whether all labels are missing, or look like numbers, is private."""
    read = unlisted.mechanism(1, 1e-6).read
    for column in (pd.Series([None, None], dtype=float), pd.Series([2, 3]), np.ones(2), [2.5]):
        assert read(column) == {}
    assert read(pd.Series([2, "3-0"])) == read(pd.Series(["3-0", None])) == {"3-0": 1}
    assert read(np.array(["2020-01-01"], dtype="M8[D]")) == {}


class Loud(str):
    def __str__(self):
        raise RuntimeError

    def __hash__(self):
        raise RuntimeError

    __eq__ = None


@pytest.mark.parametrize("record", [*HOSTILE, Loud("a"), [Loud("a")], "\ud800"], ids=repr)
def test_no_record_raises_and_each_moves_at_most_its_labels(record):
    for k in (1, 2):
        release = unlisted.mechanism(1, 0.1, k)
        before, after = release.read(["a", "b"]), release.read(["a", "b", record])
        moved = {name: after[name] - before.get(name, 0) for name in after}
        assert sum(moved.values()) <= k and set(moved.values()) <= {0, 1}
        release(["a", record], rng=rng())


def test_the_release_is_a_sorted_dict_without_small_counts():
    release = unlisted.mechanism(1, 1e-6, unit="person")
    table = ["b"] * 500 + ["a"] * 400 + ["c"]
    out = release(table, rng=noise.SYSTEM)
    assert list(out) == ["a", "b"] and abs(out["b"] - 500) < 60
    assert release([], rng=rng()) == {}
    ledger = accounting.Ledger(1, 1e-6, neighbours="add-remove", unit="person")
    ledger.release("labels", release, table, rng=rng())
    assert ledger.remaining == (0, 0)


@pytest.mark.parametrize("k", [1, 3])
def test_the_code_follows_its_law(k):
    """False-alarm probability 1e-6 each, and a release with one less in the threshold is caught."""
    epsilon, delta, n = Fraction(3, 2), 0.05, 20_000
    release = unlisted.mechanism(epsilon, delta, k)
    tau, s = unlisted.cut(epsilon, delta, k), float(k / epsilon)
    counts = {"once": 1, "below": max(tau - 1, 1), "at": tau, "far": 3 * tau}
    table = [name for name, c in counts.items() for _ in range(c)]
    draw = rng(1)
    outs = [release(table, rng=draw) for _ in range(n)]
    for name, c in counts.items():
        last = c + tau + 3
        drawn = np.array([min(out.get(name, 0), last) for out in outs])
        assert audit.law_test(drawn, law(c, tau, s, last), rng=draw).passes()
        assert (
            not audit.law_test(drawn, law(c, tau + 1, s, last), rng=draw).passes() or c == 3 * tau
        )


# ---------------------------------------------------------------------------- the best selection


@given(EPSILONS, st.sampled_from([1e-9, 1e-3, 0.2]))
def test_the_optimal_selection_is_private_and_each_step_is_tight(epsilon, delta):
    pi = unlisted.optimal(3000, epsilon, delta)
    e = math.exp(epsilon)
    down, up = pi[:-1], pi[1:]
    slack = np.stack(
        [
            e * down + delta - up,
            e * (1 - up) + delta - (1 - down),
            e * up + delta - down,
            e * (1 - down) + delta - (1 - up),
        ]
    )
    assert (slack > -1e-12).all()
    assert ((slack[:2].min(axis=0) < 1e-12) | (up == 1)).all()
    assert pi[0] == 0 and pi[1] == pytest.approx(delta) and pi[-1] == 1


@given(EPSILONS, st.sampled_from([1e-9, 1e-4, 0.01]))
def test_no_threshold_beats_it(epsilon, delta):
    tau = unlisted.cut(epsilon, delta)
    counts = np.arange(3 * tau)
    survives = np.where(counts > 0, thresholds.kept(counts, tau, 1 / epsilon), 0)
    assert (survives <= unlisted.optimal(3 * tau - 1, epsilon, delta) + 1e-12).all()


def test_the_optimal_selection_at_the_ends_of_its_ranges():
    assert unlisted.optimal(0, 1, 0.1).tolist() == [0]
    assert unlisted.optimal(3, 1e3, 1e-300)[2] == 1
    assert unlisted.optimal(5, 1e-6, 1e-300)[-1] == pytest.approx(5e-300, rel=1e-4)


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: unlisted.cut(1, 0), "delta must be positive and finite, got 0"),
        (lambda: unlisted.cut(1, 1), "delta must be in [0, 1), got 1"),
        (lambda: unlisted.cut(-1, 0.1), "epsilon must be positive and finite, got -1"),
        (lambda: unlisted.cut(1, 0.1, 0), "labels must be at least 1, got 0"),
        (lambda: unlisted.attained(0, 1), "tau must be positive and finite, got 0"),
        (lambda: unlisted.optimal(-1, 1, 0.1), "count must be at least 0, got -1"),
        (lambda: unlisted.mechanism(1, 0.1).read({"a"}), "values must be a list or a column"),
        (lambda: unlisted.mechanism(1, 0.1).read("abc"), "values must be a list or a column"),
        (lambda: unlisted.mechanism(1, 0.1).read(np.eye(2)), "values must have shape (n,)"),
        (lambda: unlisted.mechanism(1, 0.1)(["a"], rng=3), "rng must be a np.random.Generator"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError) as refusal:
        call()
    assert str(refusal.value).startswith(said)
