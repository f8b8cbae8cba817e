"""Boundaries and groups: sensitivities and laws by enumeration, costs against exact fractions, best
groups of all, hostile columns, refusals.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, boundaries, geometric, histograms, noise, segments, selection
from dputils.accounting import Ledger, Pure

BOTH = (boundaries.one_by_one, boundaries.at_once)


def rng(seed=0):
    return np.random.default_rng(seed)


def exact_cost(x, starts):
    """The cost of a partition, as a fraction."""
    parts = [x[a:b] for a, b in zip(starts, [*starts[1:], len(x)])]
    return sum(sum(v * v for v in p) - Fraction(sum(p) ** 2, len(p)) for p in parts)


def partitions_of(n, k):
    """All ways to cut n bins into k buckets."""
    return [(0, *cuts) for cuts in itertools.combinations(range(1, n), k - 1)]


def least_cost(x, k):
    return min(exact_cost(x, starts) for starts in partitions_of(len(x), k))


def steps_of(x, k, step):
    """The scores of the last boundary of k buckets, rounded down to steps, by enumeration."""
    costs = [least_cost(x[:t], k - 1) + exact_cost(x[t:], [0]) for t in range(k - 1, len(x))]
    return [math.floor(-cost / step) for cost in costs]


def law_one_by_one(x, k, step, scale):
    """The law of all boundaries, of permute-and-flip by permute-and-flip."""
    if k == 1:
        return {(0,): 1.0}
    law = {}
    chances = selection.permute_and_flip_law(steps_of(x, k, step), scale)
    for t, chance in zip(range(k - 1, len(x)), chances):
        for starts, p in law_one_by_one(x[:t], k - 1, step, scale).items():
            law[*starts, t] = chance * p
    return law


def law_at_once(x, k, scale):
    every = partitions_of(len(x), k)
    return dict(
        zip(every, selection.exponential_law([-float(exact_cost(x, s)) for s in every], scale))
    )


def one_more(x, cap):
    """All neighbours of capped counts with one record more."""
    for at in range(len(x)):
        if x[at] < cap:
            yield tuple(v + (i == at) for i, v in enumerate(x))


@pytest.mark.parametrize(("n", "k", "cap"), [(4, 2, 3), (4, 3, 2), (5, 3, 2), (3, 2, 5)])
def test_the_sensitivity_is_attained_and_not_exceeded(n, k, cap):
    moves = [0]
    for x in itertools.product(range(cap + 1), repeat=n):
        for y in one_more(x, cap):
            for t in range(k - 1, n):  # the least cost of the first t bins, and the last bucket
                scores = [least_cost(z[:t], k - 1) + exact_cost(z[t:], [0]) for z in (x, y)]
                moves.append(abs(scores[0] - scores[1]))
            moves += [abs(exact_cost(x, s) - exact_cost(y, s)) for s in partitions_of(n, k)]
    assert max(moves) == boundaries.score_sensitivity(n, k, cap, "add-remove").size
    twice = boundaries.score_sensitivity(n, k, cap, "replace-one").size
    assert twice == 2 * max(moves)


@pytest.mark.parametrize(("n", "k", "cap"), [(5, 2, 2), (5, 3, 2), (4, 2, 4), (6, 4, 1)])
def test_the_moves_lie_no_further_apart_than_the_spread(n, k, cap):
    spread, apart = boundaries.score_spread(n, k, cap, "add-remove"), 0
    for x in itertools.product(range(cap + 1), repeat=n):
        for y in one_more(x, cap):
            moves = [exact_cost(y, s) - exact_cost(x, s) for s in partitions_of(n, k)]
            least = []
            for t in range(k - 1, n):
                last = [least_cost(z[:t], k - 1) + exact_cost(z[t:], [0]) for z in (x, y)]
                least.append(last[1] - last[0])
            assert min(moves) <= min(least) and max(least) <= max(moves)
            apart = max(apart, max(moves) - min(moves))
    assert Fraction(2, 3) * spread < apart <= spread
    if n >= 2 * (n - k + 1) - 1:  # room for two buckets of full length around one bin
        assert apart == spread


def test_later_choices_move_no_further_than_the_first():
    most = boundaries.score_sensitivity(5, 3, 2, "add-remove").size
    for x in itertools.product(range(3), repeat=4):  # what is left when the last bucket is cut off
        for y in one_more(x, 2):
            for t in range(1, 4):
                moved = exact_cost(x, (0, t)) - exact_cost(y, (0, t))
                assert abs(moved) <= most


def test_replacing_moves_up_to_twice_as_far():
    moves = []
    for x in itertools.product(range(4), repeat=4):
        for a, b in itertools.permutations(range(4), 2):
            if x[a] < 3 and x[b] > 0:
                y = tuple(v + (i == a) - (i == b) for i, v in enumerate(x))
                moves += [
                    abs(exact_cost(x, s) - exact_cost(y, s)) for s in [(0, 1), (0, 2), (0, 3)]
                ]
    assert max(moves) == 5  # one by one 5 (1 - 1/3) each; 5 (1 - 1/2) in two pairs
    assert max(moves) <= boundaries.score_sensitivity(4, 2, 3, "replace-one").size


@given(st.lists(st.integers(0, 40), min_size=4, max_size=9), st.integers(2, 3), st.integers(1, 30))
def test_scores_are_those_of_exact_costs(x, k, cap):
    x = np.minimum(x, cap)
    step = boundaries._step(x.size, k, cap)
    best, _ = segments.tables(x, k - 1)
    costs = best[k - 2, k - 1 : x.size] + boundaries._last_costs(x, x.size, k - 1)
    exact = [-score for score in steps_of(x.tolist(), k, Fraction(1, 10**9))]
    assert np.abs(costs - np.array(exact, dtype=float) / 1e9).max() <= step / 2 + 1e-9


def test_steps_are_four_times_what_a_cost_is_off_and_never_coarse_for_small_tables():
    for n, k, cap in ((4, 2, 3), (256, 16, 400), (1000, 100, 1000), (4096, 410, 1000)):
        step = boundaries._step(n, k, cap)
        assert step >= 4 * Fraction(k * (n * cap) ** 2, 1 << 47)
        assert math.log2(step).is_integer()
    assert boundaries._step(256, 16, 400) < Fraction(799, 1000)


def spread_of_rounded_moves(spread, off):
    """How many whole steps two moves in [c, c + spread] lie apart, over all c and offsets, where
    each of the four scores is off by up to `off` steps before it is rounded down.
    """
    offsets, widest = [Fraction(a, 64) for a in range(64)], 0
    for c in (Fraction(i, 16) for i in range(-16, 16)):
        up = max(math.floor(a + c + spread + off) - math.floor(a - off) for a in offsets)
        down = min(math.floor(a + c - off) - math.floor(a + off) for a in offsets)
        widest = max(widest, up - down)
    return widest


@pytest.mark.parametrize("size", ["1", "5/4", "3/2", "2", "33/16", "3", "4", "6"])
def test_rounded_moves_spread_no_further_than_the_noise_allows_for(size):
    spread = Fraction(size)
    allowed = 2 * boundaries._half_in_steps(spread, 1)
    assert spread_of_rounded_moves(spread, Fraction(1, 4)) <= allowed
    if spread.denominator == 1 and spread % 2 == 0:
        assert spread_of_rounded_moves(spread, Fraction(1, 4)) == allowed  # needed
        assert spread_of_rounded_moves(spread, Fraction(1, 2)) > allowed  # half a step is too much


def test_costs_in_floating_point_are_far_closer_than_a_quarter_step():
    source = rng(1)
    for n, k, cap in ((300, 6, 1 << 16), (900, 4, 1 << 14)):
        mixed, high = source.integers(0, cap + 1, n), source.integers(0, cap + 1, n)
        high[: n // 2] = cap - high[: n // 2] // cap  # a large mean
        two = source.choice([0, 1, cap - 1, cap], n)  # sorted: many starts that look alike
        for x in (mixed, high, np.sort(mixed), np.sort(two), np.sort(high)[::-1]):
            starts = segments.least_squares(x, k)
            off = segments.tables(x, k)[0][-1, -1] - float(exact_cost(x.tolist(), starts.tolist()))
            assert abs(off) < boundaries._step(n, k, cap) / 20


def test_sorted_counts_cost_what_they_cost_where_all_starts_are_compared():
    source = rng(8)
    for n, k, cap in ((300, 6, 1 << 16), (900, 4, 1 << 14)):
        x = np.sort(source.choice([0, 1, 2, cap - 1, cap], n))
        sums = segments._running(x.astype(float), np.ones(n))
        layers, found = [segments.tables(x, 1)[0][0]], segments.tables(x, k)[0]
        for i in range(1, k):
            best, _ = segments._any_layer(layers[-1], i, sums)
            layers.append(np.append(np.full(i + 1, math.inf), best))
            off = np.abs(found[i, i + 1 :] - layers[i][i + 1 :]).max()
            assert off < boundaries._step(n, k, cap) / 20


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_draws_one_by_one_follow_the_exact_law(relation):
    cap, n, k = 30, 5, 3
    made = boundaries.one_by_one(np.arange(n), k, cap, relation, 2)
    step = boundaries._step(n, k, cap)
    spread = boundaries.score_spread(n, k, cap, relation)
    scale = 2 * boundaries._half_in_steps(spread, step) * (k - 1) / 2
    for x in ((40, 0, 29, 3, 3), (0, 0, 30, 30, 0)):
        column, source = np.repeat(np.arange(n), x), rng(2)
        law = law_one_by_one([min(v, cap) for v in x], k, step, scale)
        drawn = [tuple(made(column, rng=source).tolist()) for _ in range(3000)]
        audit.assert_law(drawn, law, rng=source)  # false alarm 1e-6


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_draws_at_once_follow_the_exact_law(relation):
    cap, n, k = 30, 6, 4
    made = boundaries.at_once(np.arange(n), k, cap, relation, 2)
    scale = float(boundaries.score_spread(n, k, cap, relation)) / 2
    for x in ((40, 0, 29, 3, 3, 9), (0, 0, 30, 30, 0, 0)):
        column, source = np.repeat(np.arange(n), x), rng(3)
        law = law_at_once([min(v, cap) for v in x], k, scale)
        drawn = [tuple(made(column, rng=source).tolist()) for _ in range(4000)]
        audit.assert_law(drawn, law, rng=source)


def test_two_buckets_are_drawn_alike_at_once_as_by_enumeration():
    made = boundaries.at_once(np.arange(3), 2, 9, "add-remove", 3)
    scale = float(boundaries.score_spread(3, 2, 9, "add-remove")) / 3
    source = rng(4)
    drawn = [tuple(made([0] * 9 + [1] * 9, rng=source).tolist()) for _ in range(4000)]
    audit.assert_law(drawn, law_at_once((9, 9, 0), 2, scale), rng=source)


def test_the_last_start_of_256_empty_bins_follows_its_closed_law():
    n, k, source = 256, 8, rng(9)
    places = range(k - 1, n)
    laws = {
        boundaries.one_by_one: dict.fromkeys(places, 1 / len(places)),
        boundaries.at_once: {t: math.comb(t - 1, k - 2) / math.comb(n - 1, k - 1) for t in places},
    }
    for make, law in laws.items():
        made = make(np.arange(n), k, 100, "add-remove", 1)
        drawn = [int(made([], rng=source)[-1]) for _ in range(250)]
        audit.assert_law(drawn, law, rng=source)


def test_a_name_says_the_scale():
    for make, choices in ((boundaries.one_by_one, 2), (boundaries.at_once, 1)):
        made = make(np.arange(4), 3, 40, "add-remove", 2)
        assert made.name.endswith(f"scale {choices * 40 / 2:.4g}")  # R = 40


def test_the_exact_laws_stay_within_epsilon():
    cap, n, k, epsilon = 8, 4, 3, 3
    step = boundaries._step(n, k, cap)
    spread = boundaries.score_spread(n, k, cap, "add-remove")
    scales = [2 * (k - 1) * boundaries._half_in_steps(spread, step) / epsilon]
    scales.append(float(spread) / epsilon)
    worst = [0.0, 0.0]
    for x in itertools.product((0, 1, 7, 8), repeat=n):
        for y in one_more(x, cap):
            for i, law in enumerate(
                (
                    lambda z: law_one_by_one(z, k, step, scales[0]),
                    lambda z: law_at_once(z, k, scales[1]),
                )
            ):
                worst[i] = max(worst[i], audit.finite_epsilon(law(x), law(y)))
    assert 1 < worst[0] <= epsilon and 2.7 < worst[1] <= epsilon


def test_a_cost_above_the_cap_is_not_seen():
    for make in BOTH:
        made = make(np.arange(4), 2, 5, "add-remove", 1)
        columns = [np.repeat(np.arange(4), x) for x in ((5, 0, 5, 2), (900, 0, 7, 2))]
        drawn = [
            [made(c, rng=source).tolist() for _ in range(50)] for c in columns if (source := rng(5))
        ]
        assert drawn[0] == drawn[1]


def test_extreme_weights_leave_one_partition():
    made = boundaries.at_once(np.arange(200), 4, 1 << 20, "add-remove", 1000)
    column = np.repeat(np.arange(200), np.repeat([3000, 0, 2000, 1000], 50))
    assert made(column, rng=rng()).tolist() == [0, 50, 100, 150]
    big = boundaries.at_once(np.arange(200), 4, 3000, "add-remove", 1000)
    assert big(column, rng=rng()).tolist() == [0, 50, 100, 150]
    one = boundaries.one_by_one(np.arange(200), 4, 3000, "add-remove", 1000)
    assert one(column, rng=rng()).tolist() == [0, 50, 100, 150]


@pytest.mark.parametrize("make", BOTH)
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
def test_no_private_column_raises(column, make):
    for relation in ("add-remove", "replace-one"):
        for k in (2, 4):
            made = make(np.arange(5), k, 3, relation, 0.1)
            buckets = made(column, rng=noise.SYSTEM if made.exact else rng())
            assert buckets[0] == 0 and (np.diff(buckets) > 0).all() and buckets.size == k


def test_smallest_and_largest_budgets_and_caps_draw():
    for epsilon, cap in itertools.product((1e-5, 1e3), (1, 1 << 20)):
        for make in BOTH:
            made = make(np.arange(8), 5, cap, "replace-one", epsilon)
            assert made([1, 2, 3, 3, 3], rng=rng()).size == 5


def test_only_what_is_exact_takes_bits_of_the_system():
    short = boundaries.one_by_one(np.arange(9), 3, 5, "add-remove", 1)
    long = boundaries.one_by_one(np.arange(1001), 3, 5, "add-remove", 1)
    once = boundaries.at_once(np.arange(9), 3, 5, "add-remove", 1)
    assert [short.exact, long.exact, once.exact] == [True, False, False]
    assert boundaries._COMPARED == segments._LONG  # beyond, tables leave starts out
    assert short([1, 2], rng=noise.SYSTEM).size == 3
    for made in (long, once):
        with pytest.raises(ValueError, match="SYSTEM"):
            made([1, 2], rng=noise.SYSTEM)
    assert long([1, 2, 7], rng=rng()).size == 3


def test_a_ledger_books_the_choice_and_then_the_counts():
    starts = np.arange(16)
    for make in BOTH:
        ledger = Ledger(1, neighbours="add-remove", unit="person")
        cut = make(starts, 3, 10, "add-remove", 0.25, unit="person")
        assert cut.costs == (Pure(0.25),)
        buckets = ledger.release("buckets", cut, [1, 2, 3, 15], rng=rng(4))
        count = histograms.mechanism(starts[buckets], "add-remove", 0.75, unit="person")
        assert ledger.release("counts", count, [1, 2, 3, 15], rng=rng(5)).shape == (3,)
        assert ledger.remaining[0] == 0


# ------------------------------------------------------------------------------------------ groups


def in_order(labels):
    """Labels named by their first place: the same groups, the same name."""
    names = list(dict.fromkeys(labels))
    return tuple(names.index(g) for g in labels)


def group_cost(y, labels, variance):
    parts = [y[labels == g] for g in np.unique(labels)]
    return sum(len(p) * np.var(p) + variance / len(p) for p in parts)


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=5), st.sampled_from([0, 0.5, 4, 30, 1000.0])
)
def test_groups_are_the_best_of_all(y, variance):
    y = np.array(y, dtype=float)
    found = boundaries.groups(y, variance)
    every = itertools.product(range(y.size), repeat=y.size)
    best = min(group_cost(y, np.array(labels), variance) for labels in set(map(in_order, every)))
    assert group_cost(y, found, variance) <= best + 1e-9
    assert (np.diff(found[np.argsort(y, kind="stable")]) >= 0).all()
    assert sorted(set(found.tolist())) == list(range(found.max() + 1))


def test_the_cost_of_a_group_satisfies_the_quadrangle_inequality():
    source = rng(6)
    for _ in range(300):
        y = np.sort(source.normal(size=12) * 10 ** source.uniform(-2, 2))
        cost = lambda i, j: (j - i) * np.var(y[i:j]) + 3 / (j - i)
        a, b, c, d = np.sort(source.choice(13, 4, replace=False))
        assert cost(a, c) + cost(b, d) <= cost(a, d) + cost(b, c) + 1e-8


def test_groups_are_counted_with_the_noise_of_one_count():
    starts, labels = np.arange(6), np.array([2, 0, 0, 1, 2, 0])
    made = boundaries.group_mechanism(starts, labels, "add-remove", 0.5)
    column = [-3, 0, 1, 1, 3, 4, 9, np.nan]
    exact = made.read(column)
    x = histograms.counts(column, starts)
    assert exact.tolist() == [x[labels == g].sum() for g in range(3)]
    source = rng(7)
    drawn = np.array([made(column, rng=source) for _ in range(3000)]) - exact
    law = lambda z: geometric.cdf(z, 2)
    audit.assert_law(drawn, law, discrete=True, rng=source)
    assert made.costs == (Pure(0.5),) and made(column, rng=noise.SYSTEM).shape == (3,)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([0, 1], 2, 5, "add-remove", 1), "starts"),
        (([0, 0, 1], 2, 5, "add-remove", 1), "starts"),
        (([0, 1, 2], 3, 5, "add-remove", 1), "k"),
        (([0, 1, 2], 1, 5, "add-remove", 1), "k"),
        (([0, 1, 2], 2.0, 5, "add-remove", 1), "k"),
        (([0, 1, 2], 2, 0, "add-remove", 1), "cap"),
        (([0, 1, 2], 2, 5.0, "add-remove", 1), "cap"),
        (([0, 1, 2], 2, (1 << 20) + 1, "add-remove", 1), "cap"),
        (([0, 1, 2], 2, 5, "bounded", 1), "neighbours"),
        (([0, 1, 2], 2, 5, "add-remove", 0), "epsilon"),
    ],
)
def test_public_arguments_are_refused_by_name(arguments, name):
    for make in BOTH:
        with pytest.raises(ValueError, match=rf"^{name} must"):
            make(*arguments)


def test_functions_refuse_by_name():
    for call, name in [
        (lambda: boundaries.one_by_one(np.arange(2000), 100, 1 << 20, "add-remove", 1), "cap"),
        (lambda: boundaries.one_by_one(np.arange(9), 5, 3, "add-remove", 2e-6), "epsilon"),
        (lambda: boundaries.at_once(np.arange(1025), 5, 3, "add-remove", 1), "starts"),
        (lambda: boundaries.one_by_one(np.arange(4097), 5, 3, "add-remove", 1), "starts"),
        (lambda: boundaries.score_sensitivity(2, 2, 3, "add-remove"), "n"),
        (lambda: boundaries.groups([[1.0]], 1), "values"),
        (lambda: boundaries.groups([np.nan], 1), "values"),
        (lambda: boundaries.groups([1.0], -1), "variance"),
        (lambda: boundaries.group_mechanism([0, 1], [0, 2], "add-remove", 1), "labels"),
        (lambda: boundaries.group_mechanism([0, 1], [0], "add-remove", 1), "labels"),
        (lambda: boundaries.group_mechanism([0, 1], [0.0, 1.0], "add-remove", 1), "labels"),
        (lambda: boundaries.group_mechanism([0, 1], [-1, 0], "add-remove", 1), "labels"),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} must"):
            call()
