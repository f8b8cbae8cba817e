"""Partitions: costs by brute force, the cheapest by enumeration, the exact law of a choice on three
bins, hostile columns, refusals.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, geometric, histograms, noise, partitions, sensitivity
from dputils.accounting import Ledger, Pure

PRICE = 3


def rng(seed=0):
    return np.random.default_rng(seed)


def all_partitions(n, longest):
    """All ways to cut n bins into buckets of lengths 1, 2, 4, ..., longest."""
    if n == 0:
        return [[]]
    lengths = [1 << i for i in range(longest.bit_length()) if 1 << i <= n]
    return [[*rest, n - w] for w in lengths for rest in all_partitions(n - w, longest)]


def total(costs, starts, n, price):
    ends = [*starts[1:], n]
    return sum(int(costs[int(math.log2(b - a))][a]) + price for a, b in zip(starts, ends))


def exact_law(x, scales, price, reach=60):
    """The law of the choice of three bins into buckets of one or two, by summing over the noise of
    two buckets at a time; `scales` of one bin (0: no noise) and of two.
    """
    z = np.arange(-reach, reach + 1)
    p, q = (np.exp(geometric.logpmf(z, b)) if b else (z == 0) * 1.0 for b in scales)
    tail = lambda law, t: np.append(law[::-1].cumsum()[::-1], 0)[np.clip(t + reach, 0, z.size)]
    pair = lambda t: (
        tail(q, t[..., None] + z) @ p
    )  # a pair's noise less that of a bin is at least t
    first, last = abs(x[0] - x[1]), abs(x[1] - x[2])
    singles = np.sum(p * pair(z + price - first + 1) * pair(z + price - last + 1))
    more = z[None, :] + last - z[:, None]  # the last pair's cost less that of the last bin
    right = p @ (tail(p, more - price) * pair(more - first)) @ q
    return {(0, 1, 2): singles, (0, 1): right, (0, 2): 1 - singles - right}


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40))
def test_costs_are_distances_from_the_median(x):
    longest = 1 << (len(x).bit_length() - 1)
    costs = partitions.bucket_costs(np.array(x), longest)
    for i, row in enumerate(costs):
        parts = [x[a : a + (1 << i)] for a in range(len(x) - (1 << i) + 1)]
        assert row.tolist() == [sum(abs(v - np.median(part)) for v in part) for part in parts]


@given(st.lists(st.integers(0, 9), min_size=8, max_size=8), st.integers(0, 7))
def test_a_record_moves_no_cost_by_more_than_one_and_single_bins_not_at_all(x, at):
    y = np.array(x)
    y[at] += 1
    for i, (p, q) in enumerate(
        zip(partitions.bucket_costs(np.array(x), 8), partitions.bucket_costs(y, 8))
    ):
        assert np.abs(p - q).max() <= (i > 0)


def test_the_windows_are_cut_into_pieces(monkeypatch):
    x = rng().integers(0, 50, 64)
    whole = partitions.bucket_costs(x, 16)
    monkeypatch.setattr(partitions, "_ROOM", 40)
    assert all((a == b).all() for a, b in zip(whole, partitions.bucket_costs(x, 16)))


def test_the_cheapest_partition_is_the_cheapest_of_all():
    source = rng(1)
    for _ in range(60):
        n = int(source.integers(2, 11))
        longest = 1 << int(source.integers(1, n.bit_length()))
        costs = partitions.bucket_costs(source.integers(0, 12, n), longest)
        costs = [row + source.integers(-5, 6, row.size) for row in costs]
        price = int(source.integers(0, 6))
        every = all_partitions(n, longest)
        found = partitions.cheapest(costs, price).tolist()
        assert found in every
        assert total(costs, found, n, price) == min(total(costs, s, n, price) for s in every)


def test_ties_go_to_the_longer_last_bucket():
    zeros = [np.zeros(4 - (1 << i) + 1, dtype=int) for i in range(2)]
    assert partitions.cheapest(zeros, 0).tolist() == [0, 2]
    assert partitions.cheapest([row[: 3 - i] for i, row in enumerate(zeros)], 0).tolist() == [0, 1]


def test_costs_beyond_64_bits_are_added_exactly():
    huge = [np.full(4, 2**62), np.full(3, 2**62)]
    assert partitions.cheapest(huge, 2**40).tolist() == [0, 2]


def test_the_scale_is_that_of_a_noisy_minimum():
    assert partitions.scale(1, "add-remove", 0.1) == 10
    assert partitions.scale(8, "add-remove", Fraction(1, 3)) == 6
    assert partitions.scale(2, "replace-one", 2) == 2


def test_the_exact_law_on_three_bins_stays_within_epsilon():
    epsilon, worst = 1.0, 0.0
    scales = [float(partitions.scale(w, "add-remove", epsilon)) for w in (1, 2)]
    laws = {
        x: exact_law(x, scales, PRICE, 40)
        for x in itertools.product(range(3), (0, 1, 4, 5), (0, 3))
    }
    for x, law in laws.items():
        for at in range(3):
            y = tuple(v + (i == at) for i, v in enumerate(x))
            if y in laws:
                worst = max(worst, audit.finite_epsilon(law, laws[y]))
    assert 0.5 < worst <= epsilon + 1e-6  # what the sum cuts off is below 1e-9 of the least mass


def test_without_noise_in_single_bins_the_exact_law_changes():
    laws = [exact_law(x, (0, 1), 8) for x in ((5, 5, 5), (5, 6, 5))]  # half the noise in pairs
    assert audit.finite_epsilon(*laws) == pytest.approx(2, abs=1e-6)  # 1 for each of two pairs


def test_draws_follow_the_exact_law():
    made = partitions.mechanism([0, 1, 2], 2, "add-remove", 1, PRICE)
    for x in ((0, 5, 1), (2, 2, 2)):
        column = np.repeat([0, 1, 2], x)
        source = rng(2)
        drawn = [tuple(made(column, rng=source).tolist()) for _ in range(4000)]
        audit.assert_law(drawn, exact_law(x, (1, 2), PRICE), rng=source)  # false alarm 1e-6


@pytest.mark.parametrize("epsilon", [0.5, 0.0125])
def test_every_bucket_gets_noise_of_its_own(monkeypatch, epsilon):
    seen = []
    monkeypatch.setattr(partitions, "cheapest", lambda costs, price: seen.append(costs))
    made = partitions.mechanism(np.arange(8), 8, "add-remove", epsilon, 1)
    column, source = [0, 0, 3, 7, 7, 7], rng(3)
    exact = partitions.bucket_costs(histograms.counts(column, np.arange(8)), 8)
    for _ in range(3000):
        made(column, rng=source)
    for i, row in enumerate(exact):
        drawn = np.array([costs[i] for costs in seen]) - row
        b = (2 if i else 1) / epsilon
        law = lambda z: geometric.cdf(z, b)
        audit.assert_law(drawn, law, discrete=True, rng=source)


@pytest.mark.parametrize(
    "column",
    [
        [],
        [np.nan, np.inf, -np.inf, 1e300],
        pd.Series([1, None, 3]),
        np.array([2**64 - 1], dtype=np.uint64),
        [10**400, Fraction(1, 3)],
    ],
)
def test_no_private_column_raises(column):
    for relation in ("add-remove", "replace-one"):
        made = partitions.mechanism(np.arange(5), 4, relation, 0.1, 2.5)
        buckets = made(column, rng=noise.SYSTEM)
        assert buckets[0] == 0 and (np.diff(buckets) > 0).all() and buckets[-1] < 5


def test_smallest_and_largest_budgets_draw():
    for epsilon in (1e-6, 1e3):
        made = partitions.mechanism(np.arange(32), 32, "add-remove", epsilon, 1 << 40)
        assert made([1, 2, 3], rng=noise.SYSTEM)[0] == 0


def test_a_ledger_books_the_choice_and_then_the_counts():
    ledger = Ledger(1, neighbours="add-remove", unit="person")
    starts = np.arange(16)
    cut = partitions.mechanism(starts, 8, "add-remove", 0.25, 4, unit="person")
    assert cut.costs == (Pure(0.25),) and cut.exact
    assert cut.sensitivity == sensitivity.of_scores(1, "add-remove", unit="person")
    buckets = ledger.release("buckets", cut, [1, 2, 3, 15], rng=rng(4))
    count = histograms.mechanism(starts[buckets], "add-remove", 0.75, unit="person")
    assert ledger.release("counts", count, [1, 2, 3, 15], rng=rng(5)).shape == buckets.shape
    assert ledger.remaining[0] == 0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([0], 2, "add-remove", 1, 1), "starts"),
        (([0, 0], 2, "add-remove", 1, 1), "starts"),
        (([0, 1, 2], 4, "add-remove", 1, 1), "longest"),
        (([0, 1, 2], 1, "add-remove", 1, 1), "longest"),
        (([0, 1, 2, 3], 3, "add-remove", 1, 1), "longest"),
        (([0, 1, 2], 2.0, "add-remove", 1, 1), "longest"),
        (([0, 1, 2], 2, "bounded", 1, 1), "neighbours"),
        (([0, 1, 2], 2, "add-remove", 0, 1), "epsilon"),
        (([0, 1, 2], 2, "add-remove", 1, -1), "price"),
        (([0, 1, 2], 2, "add-remove", 1, np.nan), "price"),
        (([0, 1, 2], 2, "add-remove", 1, "2"), "price"),
    ],
)
def test_public_arguments_are_refused_by_name(arguments, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        partitions.mechanism(*arguments)


def test_functions_refuse_by_name():
    for call, name in [
        (lambda: partitions.bucket_costs([1.5, 2], 2), "x"),
        (lambda: partitions.bucket_costs([[1, 2]], 2), "x"),
        (lambda: partitions.bucket_costs([1, 2, 3], 3), "longest"),
        (lambda: partitions.scale(0, "add-remove", 1), "length"),
        (lambda: partitions.scale(1, "add-remove", 2e3), "epsilon"),
        (lambda: partitions.scale(1, "both", 1), "neighbours"),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} must"):
            call()
