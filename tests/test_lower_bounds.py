"""Lower bounds from scores and from one run, and the runs that a bound needs."""

import math

import numpy as np
import pytest
from scipy import stats

from dputils import attacks, audit, lower_bounds, noise


def rng(seed=0):
    return np.random.default_rng(seed)


# ------------------------------------------------------------------------------------------- power


@pytest.mark.parametrize(
    "p,q,epsilon,delta",
    [(0.75, 0.25, 0.9, 0.0), (0.02, 0.005, 1.0, 0.0), (0.5, 0.1, 1.0, 0.05), (1.0, 0.0, 5.0, 0.0)],
)
def test_the_runs_needed_show_it_as_often_as_stated(p, q, epsilon, delta):
    """2,000 simulated audits; more misses than the binomial quantile have probability 1e-6."""
    alpha, beta, r = 0.01, 0.05, rng(1)
    n = lower_bounds.runs_needed(p, q, epsilon, delta=delta, alpha=alpha, beta=beta)
    hits = zip(r.binomial(n, p, 2000).tolist(), r.binomial(n, q, 2000).tolist(), strict=True)
    missed = sum(bound(x, y, n, delta, alpha) <= epsilon for x, y in hits)
    assert missed <= stats.binom.isf(1e-6, 2000, beta)


def bound(x, y, n, delta, alpha):
    return attacks.ratio_bound(x, n, y, n, delta, alpha / 2)


@pytest.mark.parametrize("p,q,epsilon", [(0.75, 0.25, 0.9), (0.02, 0.005, 1.0), (0.5, 0.4, 0.2)])
def test_the_runs_needed_are_near_the_normal_formula_and_half_of_them_mostly_fail(p, q, epsilon):
    alpha, beta, r = 1e-3, 1e-3, rng(2)
    n = lower_bounds.runs_needed(p, q, epsilon, alpha=alpha, beta=beta)
    s, t = math.sqrt((1 - p) / p), math.sqrt((1 - q) / q)
    u, v = stats.norm.isf(alpha / 2), stats.norm.isf(beta)
    normal = ((u * (s + t) + v * math.hypot(s, t)) / (math.log(p / q) - epsilon)) ** 2
    assert 0.9 < n / normal < 1.3
    half = n // 2
    hits = zip(r.binomial(half, p, 500).tolist(), r.binomial(half, q, 500).tolist(), strict=True)
    shown = sum(bound(x, y, half, 0.0, alpha) > epsilon for x, y in hits)
    assert shown < 475


@pytest.mark.parametrize(
    "n,p,q,epsilon,delta", [(30, 0.8, 0.2, 0.5, 0.0), (25, 0.9, 0.0, 1.0, 0.1)]
)
def test_the_power_is_the_sum_over_all_pairs_of_counts(n, p, q, epsilon, delta):
    alpha, total = 0.1, 0.0
    for x in range(n + 1):
        for y in range(n + 1):
            if bound(x, y, n, delta, alpha) > epsilon:
                total += stats.binom.pmf(x, n, p) * stats.binom.pmf(y, n, q)
    found = lower_bounds.bound_power(n, p, q, epsilon, delta=delta, alpha=alpha)
    assert 0.01 < found == pytest.approx(total, abs=1e-12)


def test_the_power_of_many_runs_is_rounded_down_and_near_the_exact_one():
    n, p, q, epsilon, alpha = 40_000, 0.5, 0.45, 0.08, 0.05
    found = lower_bounds.bound_power(n, p, q, epsilon, alpha=alpha)
    r = rng(5)
    hits = zip(r.binomial(n, p, 4000).tolist(), r.binomial(n, q, 4000).tolist(), strict=True)
    low, high = audit.rate_bounds(sum(bound(x, y, n, 0.0, alpha) > epsilon for x, y in hits), 4000)
    assert 0.2 < low - 0.02 < found < high < 0.9999
    assert lower_bounds.bound_power(1 << 30, p, q, epsilon) == pytest.approx(1)
    assert lower_bounds.bound_power(n, p, p, epsilon) < 1e-6


def test_runs_by_hand_where_the_event_is_the_truth():
    """Always on one table, never on the other: alpha/2 = q^n both ways."""
    n = lower_bounds.runs_needed(1, 0, 3.0, alpha=0.05)
    least = [1 / (0.025 ** (-1 / m) - 1) > math.exp(3) for m in (n, n - 1)]
    assert least == [True, False]


@pytest.mark.parametrize(
    "name,arguments",
    [
        ("p", (0.0, 0.1, 1.0)),
        ("p", (0.5, 0.5, 0.1)),
        ("q", (0.5, -0.1, 0.1)),
        ("epsilon", (0.5, 0.1, -1.0)),
        ("p", (1e-200, 1e-201, 1.0)),
    ],
)
def test_runs_refuse_what_cannot_be_shown(name, arguments):
    with pytest.raises(ValueError, match=f"^{name} must"):
        lower_bounds.runs_needed(*arguments)


# ----------------------------------------------------------------------------------------- one run


def chance(v, k, m, delta, epsilon):
    """The paper's sum, term by term."""
    law = stats.binom(k, 1 / (1 + math.exp(-epsilon)))
    masses = [law.pmf(j) for j in range(k + 1)]
    steepest = max(sum(masses[v - i : v]) / i for i in range(1, v + 1))
    return sum(masses[v:]) + 2 * m * delta * steepest


@pytest.mark.parametrize("v,k,m", [(80, 100, 100), (20, 20, 200), (60, 100, 400), (150, 200, 200)])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
def test_one_run_solves_the_papers_inequality(v, k, m, delta):
    found = lower_bounds.one_run_bound(v, k, m, delta=delta, confidence=0.95)
    at = chance(v, k, m, delta, found)
    assert at == pytest.approx(0.05, rel=1e-5) if found else at > 0.05
    grid = [chance(v, k, m, delta, e) for e in np.linspace(0, found, 20)]
    assert found == 0 or (np.diff(grid) > 0).all() and max(grid) <= 0.05 + 1e-7


def test_one_run_shows_nothing_by_chance_alone_and_grants_delta():
    assert lower_bounds.one_run_bound(50, 100, 100) == 0
    assert lower_bounds.one_run_bound(0, 5, 5) == 0
    assert lower_bounds.one_run_bound(100, 100, 10_000, delta=1e-3) == 0
    assert lower_bounds.one_run_bound(5000, 5000, 10_000, delta=1e-4, confidence=0.95) == 0
    bounds = [
        lower_bounds.one_run_bound(95, 100, 1000, delta=d, confidence=0.9)
        for d in (0, 1e-9, 1e-6, 1e-5, 1e-4)
    ]
    assert bounds == sorted(bounds, reverse=True) and bounds[0] > bounds[-1]
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-3)


def test_one_run_is_right_as_often_as_stated_where_each_guess_is_as_good_as_it_can_be():
    """2,000 runs of m independent coins through randomised response: the worst case."""
    epsilon, m, runs = 1.5, 60, 2000
    right = rng(3).binomial(m, 1 / (1 + math.exp(-epsilon)), runs).tolist()
    values = {v: lower_bounds.one_run_bound(v, m, m, confidence=0.9) for v in set(right)}
    wrong = sum(values[v] > epsilon for v in right)
    assert wrong <= stats.binom.isf(1e-6, runs, 0.1)


def names_and_guesses(m, k, epsilon, delta):
    """The law of right guesses: each coin named with probability delta, all others as noisy as
    epsilon allows; the named are guessed first."""
    law = np.zeros(k + 1)
    for named, chance_of_it in enumerate(stats.binom.pmf(np.arange(m + 1), m, delta)):
        sure = min(named, k)
        others = stats.binom.pmf(np.arange(k - sure + 1), k - sure, 1 / (1 + math.exp(-epsilon)))
        law[sure:] += chance_of_it * others
    return law


@pytest.mark.parametrize(
    "m,k,epsilon,delta", [(500, 5, 0.0, 0.001), (500, 20, 0.0, 0.001), (200, 20, 0.5, 0.002)]
)
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.97])
def test_one_run_is_right_as_often_as_stated_where_some_coins_are_named(
    m, k, epsilon, delta, confidence
):
    """Exact. With delta forgotten, or k in place of m beside it, the first is wrong too often."""
    bounds = [
        lower_bounds.one_run_bound(v, k, m, delta=delta, confidence=confidence)
        for v in range(k + 1)
    ]
    wrong = names_and_guesses(m, k, epsilon, delta)[np.array(bounds) > epsilon + 1e-9].sum()
    assert wrong <= 1 - confidence


@pytest.mark.parametrize("k", [1, 20, 1 << 24])
@pytest.mark.parametrize("confidence", [1e-12, 0.05, 0.95, 1 - 1e-6])
def test_one_run_by_hand_where_all_guesses_are_right(k, confidence):
    log_share = math.log(1 - confidence) / k
    by_hand = log_share - math.log(-math.expm1(log_share))
    found = lower_bounds.one_run_bound(k, k, k, confidence=confidence)
    assert found == pytest.approx(max(0, by_hand), rel=1e-9)


@pytest.mark.parametrize(
    "name,arguments",
    [
        ("right", (6, 5, 5)),
        ("right", (-1, 5, 5)),
        ("guesses", (1, 6, 5)),
        ("persons", (0, 1, 0)),
        ("right", (2.5, 5, 5)),
    ],
)
def test_one_run_refuses_what_makes_no_sense(name, arguments):
    with pytest.raises(ValueError, match=f"^{name} must"):
        lower_bounds.one_run_bound(*arguments)


@pytest.mark.parametrize("confidence", [0.0, 1e-13, 1.0])
def test_one_run_refuses_a_confidence_that_is_none(confidence):
    with pytest.raises(ValueError, match="^confidence must"):
        lower_bounds.one_run_bound(5, 5, 5, confidence=confidence)


# ------------------------------------------------------------------------------------------ scores


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
@pytest.mark.parametrize("kind", ["many values", "three values", "one value"])
def test_a_score_event_has_the_share_that_is_asked_for(share, kind):
    n, r = 40_000, rng(4)
    draw = {
        "many values": lambda: r.normal(size=n),
        "three values": lambda: r.integers(0, 3, n),
        "one value": lambda: np.zeros(n),
    }[kind]
    event = lower_bounds.score_event(draw(), share)
    held = int(event.holds(draw(), rng=r).sum())
    low, high = audit.rate_bounds(held, n)
    slack = audit.rate_bounds(round(share * n), n)
    assert low < slack[1] and slack[0] < high and 0 <= event.tie <= 1


def test_score_events_take_odd_scores_and_the_systems_bits():
    event = lower_bounds.score_event([np.nan, -np.inf, np.inf, 2.0], 0.5)
    assert event == lower_bounds.ScoreEvent(2.0, 1.0)
    held = event.holds([np.nan, np.inf, 2.0, 1.9], rng=noise.SYSTEM)
    assert held.tolist() == [False, True, True, False]
    with pytest.raises(ValueError, match="^scores must"):
        lower_bounds.score_event([], 0.5)
    with pytest.raises(ValueError, match="^share must"):
        lower_bounds.score_event([1.0], 1.5)
    with pytest.raises(ValueError, match="^rng must"):
        event.holds([1.0], rng=3)
