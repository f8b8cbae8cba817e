"""Segments: against enumeration, against the quadratic recursion, twins against each other,
precision, refusals.
"""

import itertools

import numpy as np
import pytest
import ruptures
from hypothesis import given, settings
from hypothesis import strategies as st

from dputils import segments

FEW = np.array([0])


def rng(seed=0):
    return np.random.default_rng(seed)


def cases(count, largest, seed=1):
    """Yield values and weights of many kinds: ties, steps, noise, far from 0, weighted or not."""
    source = rng(seed)
    for i in range(count):
        n = int(source.integers(1, largest + 1))
        y = source.integers(0, source.choice([1, 2, 10, 1000]), n) + 1e6 * (i % 5 == 0)
        if i % 3:
            y = y + source.laplace(size=n) + 20 * (np.arange(n) > n / 2)
        yield y, None if i % 2 else source.uniform(0.1, 5, n)


def partitions(n, k):
    return [np.array([0, *inner]) for inner in itertools.combinations(range(1, n), k - 1)]


def close(a, b, y, weights):
    """Whether two costs agree as far as running sums can tell."""
    whole = segments.cost(y, FEW, weights)
    return abs(a - b) <= 2.0**-50 * y.size * (whole + abs(b) + 1e-9 * np.abs(y).max() + 1e-300)


def recursion(y, penalty, weights=None):
    """The least penalised cost by the quadratic recursion, each cost from its own segment."""
    v = np.ones(y.size) if weights is None else weights
    best = [0.0]
    for t in range(1, y.size + 1):
        parts = [(y[j:t], v[j:t]) for j in range(t)]
        own = [np.sum(w * (x - np.average(x, weights=w)) ** 2) for x, w in parts]
        best.append(min(f + c for f, c in zip(best, own)) + penalty)
    return best[-1]


def test_k_segments_cost_least_of_all_partitions():
    for y, v in cases(60, 8):
        for k in range(1, y.size + 1):
            starts = segments.least_squares(y, k, v)
            least = min(segments.cost(y, other, v) for other in partitions(y.size, k))
            assert starts.size == k and close(segments.cost(y, starts, v), least, y, v)


@pytest.mark.parametrize("direction", [1, -1])
def test_sorted_values_cost_the_same_by_the_layer_that_compares_all_starts(direction, monkeypatch):
    for y, v in cases(60, 40, seed=2):
        y = np.sort(y)[::direction]
        k = min(5, y.size)
        fast, places = segments.tables(y, k, v)
        with monkeypatch.context() as patch:
            patch.setattr(segments, "_is_sorted", lambda y: False)
            slow, _ = segments.tables(y, k, v)
        assert (np.isinf(fast) == np.isinf(slow)).all() and (places <= np.arange(y.size + 1)).all()
        reached = np.isfinite(fast)
        assert all(close(a, b, y, v) for a, b in zip(fast[reached], slow[reached]))


def test_tables_hold_the_best_costs_of_all_first_parts():
    for y, v in cases(20, 7, seed=3):
        costs, choices = segments.tables(y, y.size, v)
        for i, t in itertools.product(range(y.size), range(y.size + 1)):
            if t <= i:
                assert np.isinf(costs[i, t]) and choices[i, t] == 0
                continue
            part = None if v is None else v[:t]
            least = min(segments.cost(y[:t], s, part) for s in partitions(t, i + 1))
            assert close(costs[i, t], least, y, v)


@pytest.mark.parametrize("work", [0, 2, 12])
def test_a_penalised_fit_costs_what_the_quadratic_recursion_finds(work, monkeypatch):
    monkeypatch.setattr(segments, "_WORK", work)
    for y, v in cases(100, 40, seed=4):
        for penalty in (0, 0.5, 4, 100, 1e7):
            starts = segments.penalised(y, penalty, v)
            found = segments.cost(y, starts, v) + penalty * starts.size
            assert close(found, recursion(y, penalty, v), y, v)


def test_where_the_best_partition_is_unique_it_is_found():
    for y, _ in cases(40, 9, seed=5):
        y = y + rng(6).normal(size=y.size)  # ties have probability 0
        every = [s for k in range(1, y.size + 1) for s in partitions(y.size, k)]
        costs = [segments.cost(y, s) + 3.0 * s.size for s in every]
        best, second = np.sort(np.append(costs, np.inf))[:2]
        if second - best > 1e-6:
            assert segments.penalised(y, 3.0).tolist() == every[int(np.argmin(costs))].tolist()


def test_both_prunings_give_one_partition_of_long_sequences(monkeypatch):
    for seed, penalty in [(1, 4.0), (2, 40.0), (3, 1000.0)]:
        steps = np.repeat(rng(seed).normal(0, 5, 50), 60)
        y = steps + rng(seed + 10).laplace(size=steps.size)
        found = []
        for work in (0, 1e9):
            monkeypatch.setattr(segments, "_WORK", work)
            found.append(segments.penalised(y, penalty).tolist())
        assert found[0] == found[1]


def test_compiled_and_plain_kernels_agree(monkeypatch):
    for y, v in cases(60, 200, seed=7):
        for work, penalty in itertools.product((0, 12), (0.5, 4, 1000)):
            monkeypatch.setattr(segments, "_WORK", work)
            plain = segments.penalised(y, penalty, v)
            with monkeypatch.context() as patch:
                patch.setattr(segments, "_LONG", 0)
                assert segments.penalised(y, penalty, v).tolist() == plain.tolist()


@pytest.mark.parametrize("long", [0, 1000])
def test_pruned_layers_cost_the_same_as_layers_that_compare_all_starts(long, monkeypatch):
    for y, v in cases(40, 60, seed=9):
        k = min(7, y.size)
        with monkeypatch.context() as patch:
            patch.setattr(segments, "_is_sorted", lambda y: False)
            slow, _ = segments.tables(y, k, v)
            patch.setattr(segments, "_any_layer", segments._pruned_layer)
            patch.setattr(segments, "_LONG", long)
            fast, choices = segments.tables(y, k, v)
        assert (np.isinf(fast) == np.isinf(slow)).all()
        reached = np.isfinite(fast)
        assert all(close(a, b, y, v) for a, b in zip(fast[reached], slow[reached]))
        assert (choices[1:] < np.maximum(np.arange(y.size + 1), 1)).all()


def test_ruptures_finds_the_same_cost():
    for y, _ in cases(30, 300, seed=8):
        for penalty in (0.5, 4, 1000):
            near = y - y.mean()  # far from 0 its sums lose what ours, around the mean, keep
            ends = ruptures.KernelCPD(kernel="linear", min_size=1).fit(near).predict(pen=penalty)
            theirs = np.array([0, *ends[:-1]])
            ours = segments.penalised(y, penalty)
            total = segments.cost(y, theirs) + penalty * theirs.size
            assert close(segments.cost(y, ours) + penalty * ours.size, total, y, None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=30),
    st.sampled_from([0, 1, 2**60, 2**101]),
)
def test_the_largest_values_are_fitted_as_well_as_their_sums_allow(values, penalty):
    y = np.array(values, dtype=np.int64)
    starts = segments.penalised(y, penalty)
    found = segments.cost(y, starts) + penalty * starts.size
    least = recursion(y.astype(float), float(penalty))
    assert found - least <= y.size * 2.0**-50 * (segments.cost(y, FEW) + 1)


def test_small_steps_far_from_zero_are_seen():
    y = 2**50 - np.array([4, 4, 4, 0, 0, 0, 2, 2])
    assert segments.penalised(y, 1).tolist() == [0, 3, 6]
    assert segments.least_squares(y, 3).tolist() == [0, 3, 6]
    assert segments.fit(y, [0, 3, 6]).tolist() == y.tolist()


def test_weights_count_as_repeated_values():
    y, v = np.array([1.0, 4, 4.5, 9, 0]), np.array([1, 3, 2, 1, 4])
    assert segments.cost(y, [0, 3], v) == pytest.approx(segments.cost(np.repeat(y, v), [0, 6]))
    for k in range(1, 6):
        assert segments.cost(y, segments.least_squares(y, k, v), v) == pytest.approx(
            segments.cost(np.repeat(y, v), segments.least_squares(np.repeat(y, v), k)), abs=1e-9
        )


def test_weights_that_running_sums_cannot_hold_are_refused():
    for small in (2.0**-50, 2.0**-41):
        for call in (
            lambda v: segments.penalised([0, 1, 2], 1, v),
            lambda v: segments.least_squares([3, 3, 3], 3, v),
            lambda v: segments.tables([0, 5, 2], 3, v),
        ):
            with pytest.raises(ValueError, match=r"^weights must sum to at most 2"):
                call([1, small, small])
    assert segments.penalised([7.0], 1, [2.0**-50]).tolist() == [0]


def test_the_most_unequal_weights_that_are_allowed_still_cut_right():
    source = np.random.default_rng(8)
    for _ in range(200):
        y = source.integers(-50, 51, 8).astype(float)
        v = np.append(2.0**39, np.ones(7))
        starts = segments.least_squares(y, 8, v)
        assert starts.size == 8 and segments.cost(y, starts, v) == 0
        assert segments.penalised(y, 0.0, v).size >= 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: segments.penalised([1, 2], -1), "penalty"),
        (lambda: segments.penalised([1, 2], np.nan), "penalty"),
        (lambda: segments.penalised([1, 2], "3"), "penalty"),
        (lambda: segments.penalised([1, 2], 1e70), "penalty"),
        (lambda: segments.penalised([], 1), "values"),
        (lambda: segments.penalised([[1, 2]], 1), "values"),
        (lambda: segments.penalised([1, np.nan], 1), "values"),
        (lambda: segments.penalised([1, 2.0**51], 1), "values"),
        (lambda: segments.penalised(["a"], 1), "values"),
        (lambda: segments.penalised([1, 2], 1, [1]), "weights"),
        (lambda: segments.penalised([1, 2], 1, [1, 0]), "weights"),
        (lambda: segments.least_squares([1, 2], 3), "k"),
        (lambda: segments.least_squares([1, 2], 0), "k"),
        (lambda: segments.least_squares([1, 2], 1.0), "k"),
        (lambda: segments.tables([1, 2], 3), "k"),
        (lambda: segments.cost([1, 2], [1]), "starts"),
        (lambda: segments.cost([1, 2], [0, 2]), "starts"),
        (lambda: segments.cost([1, 2], [0.0]), "starts"),
        (lambda: segments.fit([1, 2, 3], [0, 1, 1]), "starts"),
        (lambda: segments.fit([1, 2, 3], []), "starts"),
    ],
)
def test_public_arguments_are_refused_by_name(call, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        call()
