"""Shuffled reports: the bound against enumerated laws, brute-force clones and long arithmetic; the
order, and the release.
"""

import itertools
import math
from collections import Counter
from functools import partial

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from dputils import accounting, audit, local, noise, shuffling

BUDGETS = [0.1, 1.0, 2.5, 5.0]


def rng(label=0):
    return np.random.default_rng([86, label])


def two(epsilon0):
    return local.direct(2, epsilon0)


def pair(n, epsilon0, t):
    """The two laws of (a, C), by their definition."""
    r = 1 / (1 + math.exp(-epsilon0))
    laws = {}, {}
    for c in range(n):
        for a in range(c + 1):
            mass = stats.binom.pmf(c, n - 1, t) * stats.binom.pmf(a, c, 0.5)
            for law, bias in zip(laws, (r, 1 - r)):
                law[a + 1, c] = law.get((a + 1, c), 0) + mass * bias
                law[a, c] = law.get((a, c), 0) + mass * (1 - bias)
    return laws


def mixed(protocol, values):
    """The law of the reports of a few persons without their order."""
    law = Counter()
    laws = [local.law(protocol, v).items() for v in values]
    for reports in itertools.product(*laws):
        key = tuple(sorted(report for report, _ in reports))
        law[key] += math.prod(chance for _, chance in reports)
    return law


def worst_count(n, epsilon0, epsilon):
    laws = [shuffling.count_law(ones, n, epsilon0) for ones in range(n + 1)]
    return max(audit.finite_delta(p, q, epsilon) for p, q in itertools.pairwise(laws))


# ---- the guarantee -------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon0", BUDGETS)
@pytest.mark.parametrize("n", [1, 2, 3, 9, 24])
@pytest.mark.parametrize("make", [two, partial(local.direct, 5), partial(local.unary, 3)])
def test_delta_is_the_divergence_of_the_two_laws(make, n, epsilon0):
    protocol = make(epsilon0)
    laws = pair(n, epsilon0, shuffling.clones(protocol))
    for share in (0, 0.2, 0.5, 0.9):
        exact = audit.finite_delta(*laws, share * epsilon0)
        stated = shuffling.central_delta(protocol, n, share * epsilon0)
        assert exact * (1 - 1e-10) <= stated <= exact * (1 + 1e-8) + 1e-10


@pytest.mark.parametrize("epsilon0", BUDGETS)
@pytest.mark.parametrize(
    "protocol_at",
    [two, *(partial(make, 4) for make in (local.direct, local.unary, local.hadamard))],
)
def test_every_report_is_a_clone_with_the_stated_probability(protocol_at, epsilon0):
    protocol = protocol_at(epsilon0)
    gamma, laws = shuffling.clones(protocol), [local.law(protocol, v) for v in range(protocol.d)]
    rest = min(
        (law[report] - gamma * (first[report] + second[report]) / 2) / law[report]
        for law in laws
        for first, second in itertools.combinations(laws, 2)
        for report in law
    )
    assert rest >= -1e-12


@pytest.mark.parametrize("epsilon0", BUDGETS)
@pytest.mark.parametrize("n", [1, 2, 5, 17, 40])
def test_no_two_tables_of_zeros_and_ones_need_more(n, epsilon0):
    for share in (0, 0.1, 0.4, 0.8, 0.999):
        epsilon = share * epsilon0
        bound = shuffling.central_delta(two(epsilon0), n, epsilon)
        assert worst_count(n, epsilon0, epsilon) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("epsilon0", [0.5, 2.0])
@pytest.mark.parametrize(
    "protocol_at",
    [
        partial(local.direct, 3),
        partial(local.unary, 2),
        partial(local.symmetric_unary, 2),
        partial(local.hadamard, 2),
        partial(local.hashing, 3, g=3),
    ],
)
def test_no_reports_of_other_protocols_need_more(protocol_at, epsilon0):
    protocol, n = protocol_at(epsilon0), 3
    for others in itertools.combinations_with_replacement(range(protocol.d), n - 1):
        laws = [mixed(protocol, (v, *others)) for v in range(protocol.d)]
        for (p, q), share in itertools.product(itertools.combinations(laws, 2), (0, 0.3, 0.7)):
            needed = audit.finite_delta(p, q, share * epsilon0)
            stated = shuffling.central_delta(protocol, n, share * epsilon0)
            assert needed <= stated * (1 + 1e-9)


@pytest.mark.parametrize("epsilon0", [1.0, 4.0])
@pytest.mark.parametrize("n", [3000, 300_000])
def test_taking_numbers_of_clones_together_errs_upwards_and_little(n, epsilon0):
    protocol = two(epsilon0)
    epsilon = shuffling.central_epsilon(protocol, n, 1e-6)
    t, r = shuffling.clones(protocol), 1 / (1 + math.exp(-epsilon0))
    c = np.arange(n)
    lead, back = r - math.exp(epsilon) * (1 - r), math.exp(epsilon) * r - (1 - r)
    m = np.floor((c + 1) * back / (lead + back)) + 1
    each = lead * stats.binom.sf(m - 2, c, 0.5) - back * stats.binom.sf(m - 1, c, 0.5)
    exact = float(stats.binom.pmf(c, n - 1, t) @ each)
    assert exact <= shuffling.central_delta(protocol, n, epsilon) <= 1.05 * exact


@pytest.mark.parametrize(("c", "sds"), [(10, 1), (10**4, 5), (10**6, 7), (10**8, 4)])
def test_tails_of_fair_coins_are_right_within_the_slack(c, sds):
    m = math.ceil(c / 2 + sds * math.sqrt(c) / 2)
    with mpmath.workdps(40):
        term = mpmath.binomial(c, m) * mpmath.mpf(2) ** -c
        total, k = term, m
        while k < c and term > total * mpmath.mpf(10) ** -20:
            term *= mpmath.mpf(c - k) / (k + 1)
            total, k = total + term, k + 1
    assert abs(special.betainc(m, c - m + 1, 0.5) / float(total) - 1) < 1e-11


@pytest.mark.parametrize("make", [two, partial(local.hadamard, 9)])
def test_more_persons_and_a_larger_epsilon_need_less(make):
    found = [shuffling.central_epsilon(make(2.0), n, 1e-6) for n in (1, 30, 900, 10**5, 10**9)]
    assert found == sorted(found, reverse=True)
    assert 2 * (1 - 1e-5) < found[0] <= 2
    deltas = [shuffling.central_delta(make(2.0), 500, e) for e in np.linspace(0, 2.2, 12)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] == 0


@pytest.mark.parametrize("n", [4, 300, 50_000])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 1e-3])
def test_the_searches_return_the_side_on_which_the_guarantee_holds(n, delta):
    epsilon = shuffling.central_epsilon(two(3.0), n, delta)
    assert shuffling.central_delta(two(3.0), n, epsilon) <= delta
    assert epsilon < 1e-3 or shuffling.central_delta(two(3.0), n, epsilon * (1 - 1e-6)) > delta
    budget = shuffling.local_epsilon(two, n, 0.7, delta)
    assert 0.7 <= budget <= 30
    assert shuffling.central_delta(two(budget), n, 0.7) <= delta
    assert shuffling.central_delta(two(budget * (1 + 1e-6)), n, 0.7) > delta


# ---- the release ---------------------------------------------------------------------------------


def test_every_order_is_as_likely():
    source = rng(1)
    seen = [tuple(shuffling.order(4, rng=source).tolist()) for _ in range(6000)]
    law = dict.fromkeys(itertools.permutations(range(4)), 1 / 24)
    assert audit.law_test(seen, law, rng=source).passes()  # false alarm at most 1e-6
    assert sorted(shuffling.order(9, rng=noise.SYSTEM)) == list(range(9))
    assert shuffling.order(0, rng=source).size == 0


def places(release, source, n=944, rounds=100):
    """Of two neighbours in the list, in eighths: where one comes out, and the other from there."""
    for one in rounds * [0, n // 2, n - 1]:
        values = np.zeros(n, dtype=int)
        values[one], values[one - 1] = 1, 2
        reports = release(values, rng=source)[:, 0]
        place, other = (int(np.argmax(reports == mark)) for mark in (1, 2))
        yield 8 * place // n, 8 * ((other - place) % n - 1) // (n - 1)


def test_a_long_list_is_mixed_as_a_whole():
    n, loud, source = 944, local.direct(3, 30), rng(3)
    part = Counter(8 * k // (n - 1) for k in range(n - 1))
    law = {(i, j): part[j] / (n - 1) / 8 for i, j in itertools.product(range(8), repeat=2)}
    seen = list(places(shuffling.mechanism(loud, n, 1e-6), source))
    assert audit.law_test(seen, law, rng=source).passes()  # false alarm at most 1e-6

    def rotated(values, rng):
        return np.roll(values, shuffling.order(n, rng=rng)[0])[:, None]

    def in_batches(values, rng):
        return np.concatenate([b[shuffling.order(118, rng=rng)] for b in np.split(values, 8)])[
            :, None
        ]

    for broken in (rotated, in_batches, lambda values, rng: values[:, None]):
        assert not audit.law_test(list(places(broken, source)), law, rng=source).passes()


def test_a_full_table_is_answered_by_the_stated_coins():
    mechanism, source = shuffling.mechanism(two(2.0), 944, 1e-6), rng(4)
    seen = [int(mechanism(np.ones(944), rng=source).sum()) for _ in range(200)]
    law = stats.binom.pmf(np.arange(945), 944, 1 / (1 + math.exp(-2)))
    assert audit.law_test(seen, law, rng=source).passes()  # false alarm at most 1e-6


def test_equal_keys_are_drawn_again(monkeypatch):
    keys = iter([np.array([5, 5, 1]), np.array([7, 2, 9])])
    monkeypatch.setattr(noise, "integers", lambda high, size, rng: next(keys))
    assert shuffling.order(3, rng=rng()).tolist() == [1, 0, 2]


def test_the_code_follows_the_law_whatever_the_order_of_the_table():
    mechanism, source = shuffling.mechanism(two(1.5), 3, 1e-6), rng(2)
    counts = shuffling.count_law(2, 3, 1.5)
    law = {s: counts[sum(s)] / math.comb(3, sum(s)) for s in itertools.product((0, 1), repeat=3)}
    for table in ([1, 1, 0], [0, 1, 1]):
        seen = [tuple(mechanism(table, rng=source)[:, 0].tolist()) for _ in range(1500)]
        assert audit.law_test(seen, law, rng=source).passes()  # false alarm at most 1e-6
        told = [tuple(local.mechanism(two(1.5))(table, rng=source)[:, 0]) for _ in range(1500)]
        assert not audit.law_test(told, law, rng=source).passes()


@pytest.mark.parametrize("ones", [0, 1, 4, 6])
def test_the_law_of_a_count_is_that_of_the_reports(ones):
    law = mixed(two(1.2), [1] * ones + [0] * (6 - ones))
    counts = shuffling.count_law(ones, 6, 1.2)
    assert all(
        math.isclose(counts[sum(r[0] for r in key)], mass, rel_tol=1e-12)
        for key, mass in law.items()
    )
    assert math.isclose(counts.sum(), 1, rel_tol=1e-12)


def test_private_values_are_read_and_not_refused():
    mechanism = shuffling.mechanism(local.unary(4, 1.0), 5, 1e-6)
    odd = pd.array([9, -3, None, 2, 1], dtype="Int64")
    assert mechanism(odd, rng=noise.SYSTEM).shape == (5, 4)
    assert mechanism([math.nan, math.inf, -math.inf, 1e300, 0.5], rng=rng()).shape == (5, 4)


def test_it_costs_what_is_computed_in_either_account():
    mechanism = shuffling.mechanism(two(2.0), 1000, 1e-6)
    cost, alone = mechanism.costs
    assert float(cost.epsilon) == shuffling.central_epsilon(two(2.0), 1000, 1e-6)
    assert float(alone.epsilon) == 2
    public = {"neighbours": "replace-one", "unit": local.UNIT}
    shuffled = accounting.Ledger(cost.epsilon, cost.delta, **public)
    reports = shuffled.release("yes", mechanism, np.ones(1000), rng=rng())
    assert shuffled.remaining == (0, 0)
    counts, errors = local.estimate(two(2.0), reports)
    assert abs(counts[1] - 1000) < 6 * errors[1]
    with pytest.raises(accounting.BudgetExceeded):
        shuffled.release("again", mechanism, np.ones(1000), rng=rng())


def test_those_who_tell_their_reports_do_not_hide_anybody():
    told = shuffling.mechanism(two(2.0), 1000, 1e-6, honest=100)
    assert told.costs[0] == shuffling.mechanism(two(2.0), 100, 1e-6).costs[0]
    assert told != shuffling.mechanism(two(2.0), 1000, 1e-6)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: shuffling.mechanism(two(1.0), 0, 1e-6), "n"),
        (lambda: shuffling.mechanism(two(1.0), 5, 0), "delta"),
        (lambda: shuffling.mechanism(two(1.0), 5, 1.0), "delta"),
        (lambda: shuffling.mechanism(two(1.0), 5, 1e-6, honest=6), "honest"),
        (lambda: shuffling.mechanism(two(1.0), 5, 1e-6, honest=0), "honest"),
        (lambda: shuffling.mechanism(two(1.0), 5, 1e-6)([0, 1], rng=rng()), "values"),
        (lambda: shuffling.mechanism(two(1.0), 2, 1e-6)([0, 1], rng=1), "rng"),
        (lambda: shuffling.mechanism(two(31.0), 5, 1e-6), "epsilon0"),
        (lambda: shuffling.central_delta(1.0, 5, 0.5), "protocol"),
        (lambda: shuffling.central_delta(two(1.0), 5.5, 0.5), "n"),
        (lambda: shuffling.central_delta(two(1.0), 5, -0.5), "epsilon"),
        (lambda: shuffling.central_epsilon(two(1.0), 5, math.nan), "delta"),
        (lambda: shuffling.local_epsilon(two, 5, 0, 1e-6), "epsilon"),
        (lambda: shuffling.count_law(6, 5, 1.0), "ones"),
        (lambda: shuffling.order(-1, rng=rng()), "n"),
    ],
)
def test_public_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named} must"):
        call()
