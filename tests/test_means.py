"""Means: the two shares against brute force, their release against its law, the estimate against
its first-order error, the interval against a fine grid, against quadrature and by its coverage.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq

from dputils import audit, geometric, laplace, means, noise, sensitivity
from dputils.accounting import BudgetExceeded, Ledger, Pure
from tests.examples import HOSTILE

UNIT = means.of_shares(0, 1)
CENTRED = means.of_sum_and_count(0.5)
PLAIN = means.of_sum_and_count()
WAYS = [  # equation, scales of the noise at epsilon 1
    (UNIT, (1.0, 1.0)),
    (CENTRED, (1.0, 2.0)),
    (PLAIN, (2.0, 2.0)),
]


def rng(seed=0):
    return np.random.default_rng(seed)


def exact_pair(equation, t, n):
    """The exact numbers behind an equation, for n records of mean t in [0, 1]."""
    if equation is UNIT:
        return np.array([n * t, n * (1 - t)])
    return np.array([n * (t - (0.5 if equation is CENTRED else 0.0)), n])


@pytest.mark.parametrize(("lower", "upper"), [(0, 3), (-2, 1), (5, 7)])
def test_the_sensitivity_is_that_of_brute_force(lower, upper):
    for relation in ("add-remove", "replace-one"):
        made = means.mechanism(lower, upper, 1, relation, 1)
        pairs = sensitivity.neighbour_pairs(range(lower - 1, upper + 2), 3, relation)
        found, _ = sensitivity.brute_force(lambda t: made.read(list(t)), pairs)
        assert found == made.sensitivity.size
        assert found == means.sensitivity_of(lower, upper, relation).size


def test_every_record_moves_the_shares_by_the_whole_range():
    made = means.mechanism(0, 20, Fraction(1, 4), "add-remove", 1)
    empty = made.read([])
    assert empty.tolist() == [0, 0]
    for record in (-3, 0, 0.3, 7, 19.99, 20, 1e9, math.nan):
        assert np.abs(made.read([record]) - empty).sum() == 80


@given(st.lists(st.floats(-1e3, 1e3), max_size=30))
def test_the_shares_of_a_table(records):
    one, other = means.mechanism(-4, 6, 0.5, "add-remove", 1).read(records)
    steps = [round(min(max(x, -4), 6) / 0.5) for x in records]
    assert one == sum(x + 8 for x in steps) and other == sum(12 - x for x in steps)


def test_odd_records_never_raise_and_move_no_further():
    made = means.mechanism(0, 20, 1, "add-remove", 1)
    for odd in HOSTILE:
        moved = made.read([3, odd]) - made.read([3])
        assert np.abs(moved).sum() == 20 and moved.min() >= 0
    assert made(HOSTILE, rng=rng()).dtype == np.int64
    assert made([], rng=noise.SYSTEM).shape == (2,)


@pytest.mark.parametrize("epsilon", [0.2, 1, 5])
@pytest.mark.parametrize("table", [[], [0] * 5, [20] * 50, [-1e9, 3, 1e9, math.nan]])
def test_the_release_follows_its_law(epsilon, table):
    # false alarm at most 1e-6 each
    made = means.mechanism(0, 20, 1, "add-remove", epsilon)
    source = rng(5)
    drawn = np.array([made(table, rng=source) for _ in range(3000)]) - made.read(table)
    audit.assert_law(drawn, made.law(1), discrete=True, rng=source)
    assert made.exact and made.costs == (Pure(epsilon),)


@pytest.mark.parametrize("epsilon", [0.2, 5])
@pytest.mark.parametrize(
    "fault", ["truth", "quarter", "one draw", "one record", "unclamped", "range"]
)
def test_the_audit_catches_broken_releases(epsilon, fault):
    source, n, s = rng(6), 4000, 20 / epsilon
    drawn = noise.discrete_laplace(s, (n, 2), rng=source)
    if fault == "truth":
        drawn[source.random(n) < 0.1] = 0
    if fault == "quarter":
        drawn = noise.discrete_laplace(s / 4, (n, 2), rng=source)
    if fault == "one draw":
        drawn[:, 1] = drawn[:, 0]
    if fault == "one record":  # the noise for half of the range
        drawn = noise.discrete_laplace(s / 2, (n, 2), rng=source)
    if fault == "unclamped":
        drawn[:, 1] -= 200
    if fault == "range":  # noise for the range of the data, of a table whose records agree
        drawn[:] = 0
    law = means.mechanism(0, 20, 1, "add-remove", epsilon).law(1)
    assert not audit.law_test(drawn, law, discrete=True, rng=source).passes()


@pytest.mark.parametrize("epsilon", [0.2, 1])
@pytest.mark.parametrize("every", [0, 20])
def test_the_count_is_exact_no_more_often_than_by_law(epsilon, every):
    # a test of each share alone lets noises (z, -z) in one release of twenty pass
    made, source, n = means.mechanism(0, 20, 1, "add-remove", epsilon), rng(8), 4000
    drawn = np.array([made([3] * 5, rng=source) for _ in range(n)]) - made.read([3] * 5)
    if every:
        drawn[::every, 1] = -drawn[::every, 0]
    by_law = np.sum(np.diff(made.law(1)(np.arange(-10_000, 10_001))) ** 2)
    low, high = audit.rate_bounds(int(np.sum(drawn.sum(axis=1) == 0)), n)
    assert (low <= by_law <= high) == (every == 0)


def test_a_ledger_books_it_once():
    ledger = Ledger(1, neighbours="add-remove", unit="person")
    made = means.mechanism(0, 20, 1, "add-remove", 1, unit="person")
    ledger.release("visits", made, [1, 2, 3], rng=rng())
    assert ledger.remaining == (0, 0)
    with pytest.raises(BudgetExceeded):
        ledger.release("again", made, [1], rng=rng())


def test_the_estimate_of_exact_numbers_is_the_mean():
    for t in (0, 0.2, 0.5, 1):
        for equation, _ in WAYS:
            assert means.estimate(exact_pair(equation, t, 7), equation, 0, 1) == pytest.approx(t)
    assert means.estimate([120, 180], means.of_shares(0, 100), 0, 100) == pytest.approx(40)


def test_an_empty_or_negative_count_is_answered_by_the_middle():
    for pair in ([0, 0], [-3, 1], [-1, -1]):
        assert means.estimate(pair, means.of_shares(2, 6), 2, 6) == 4
        assert means.interval(pair, means.of_shares(2, 6), (4, 4), 2, 6, 0.05).tolist() == [2, 6]
    assert means.estimate([5, -2], PLAIN, 0, 1) == 0.5


def test_the_estimate_is_clamped():
    assert means.estimate([[-1, 5], [5, -1]], UNIT, 0, 1).tolist() == [0, 1]
    with np.errstate(all="raise"):
        assert means.estimate([[0, 0], [1, 1]], UNIT, 0, 1).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("way", "t"), [(w, t) for w in range(3) for t in (0.1, 0.5, 0.9)])
def test_the_error_to_first_order(way, t):
    equation, scales = WAYS[way]
    n, runs = 2000, 40_000
    drawn = exact_pair(equation, t, n) + noise.laplace(
        np.array(scales), (runs, 2), rng=rng(10 * way)
    )
    squares = (n * (means.estimate(drawn, equation, 0, 1) - t)) ** 2
    theory = [
        2 * (t**2 + (1 - t) ** 2),
        2 + 8 * (t - 0.5) ** 2,
        8 + 8 * t**2,
    ][way]
    # false alarm below 1e-6 by the normal approximation, with 1 % for higher orders
    assert abs(squares.mean() - theory) < 5 * squares.std() / math.sqrt(runs) + 0.01 * theory


@given(st.floats(0, 1))
def test_the_centred_error_is_twice_that_of_shares(t):
    assert 2 + 8 * (t - 0.5) ** 2 == pytest.approx(4 * (t**2 + (1 - t) ** 2))


def tail_by_quadrature(v, b1, b2):
    """P(|Y_1 - Y_2| > v), integrated over Y_2."""

    def inner(y):
        beyond = 1 - laplace.cdf(v + y, b1) + laplace.cdf(y - v, b1)
        return math.exp(-abs(y) / b2) / (2 * b2) * float(beyond)

    cuts = sorted({-60 * b2, -v, 0.0, v, 60 * b2})
    cuts = [c for c in cuts if abs(c) <= 60 * b2]
    return math.fsum(quad(inner, *ends)[0] for ends in zip(cuts, cuts[1:], strict=False))


@pytest.mark.parametrize("x", [0.01, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("way", [0, 1, 2])
def test_the_ends_have_the_stated_tail(x, way):
    # from the end inwards the noise that would explain what was seen has probability beta
    equation, scales = WAYS[way]
    low, high = means.interval(exact_pair(equation, x, 60), equation, scales, 0, 1, 0.05)
    seen = exact_pair(equation, x, 60)
    for end in (low, high):
        if 0 < end < 1:
            w1, w2 = np.abs(equation(end))
            missed = abs(equation(end)[0] * seen[0] - equation(end)[1] * seen[1])
            tail = tail_by_quadrature(missed, w1 * scales[0], max(w2 * scales[1], 1e-9))
            assert tail == pytest.approx(0.05, abs=1e-6)
    assert low <= x <= high and high - low < 0.5


def accepted(pair, equation, scales, beta, x):
    w1, w2 = equation(x)
    missed = np.abs(w1 * pair[0] - w2 * pair[1])
    larger = np.maximum(np.abs(w1) * scales[0], np.abs(w2) * scales[1])
    smaller = np.minimum(np.abs(w1) * scales[0], np.abs(w2) * scales[1])
    with np.errstate(all="ignore"):
        formula = (
            larger**2 * np.exp(-missed / larger) - smaller**2 * np.exp(-missed / smaller)
        ) / (larger**2 - smaller**2)
    same = np.isclose(larger, smaller)
    return np.where(same, np.exp(-missed / larger) * (1 + missed / larger / 2), formula) >= beta


@pytest.mark.parametrize("way", [0, 1, 2])
@given(f1=st.floats(-30, 60), f2=st.floats(-30, 60), beta=st.sampled_from([1e-6, 0.05, 0.5]))
def test_no_mean_that_fits_lies_outside(way, f1, f2, beta):
    equation, scales = WAYS[way]
    low, high = means.interval([f1, f2], equation, scales, 0, 1, beta)
    x = np.linspace(0, 1, 1001)
    fits = x[accepted((f1, f2), equation, scales, beta, x)]
    if fits.size:
        assert low <= fits.min() + 1e-9 and fits.max() - 1e-9 <= high
    whole = (low, high) == (0, 1)
    if fits.size and not whole:  # and it is no longer than it must be
        assert fits.min() - low < 0.0011 and high - fits.max() < 0.0011
    guess = means.estimate([f1, f2], equation, 0, 1)
    assert low <= guess <= high


def test_an_interval_where_nothing_fits_is_the_whole_range():
    assert means.interval([-50, 60], UNIT, (1, 1), 0, 1, 0.05).tolist() == [0, 1]
    assert means.interval([40, 3], PLAIN, (1, 1), 0, 1, 0.05).tolist() == [0, 1]


def test_bounds_that_fit_are_ends_even_if_the_middle_does_not():
    x = np.array([0.0, 0.5, 1.0])
    fits = accepted((2.9, -2.7), UNIT, (1.0, 1.0), 0.05, x)
    assert fits.tolist() == [True, False, True]
    assert means.interval([2.9, -2.7], UNIT, (1, 1), 0, 1, 0.05).tolist() == [0, 1]


def test_coverage_of_coarse_geometric_noise_needs_the_slack():
    # a draw other than 0 has probability 0.196, Laplace noise beyond 0.96 only 0.12
    s, beta, runs = Fraction(9, 20), 0.12, 20_000
    drawn = np.array([15, 585]) + noise.discrete_laplace(s, (runs, 2), rng=rng(4))  # mean 0.5
    missed = []
    for slack in ((0, 0), (1, 1)):
        low, high = means.interval(
            drawn, means.of_shares(0, 20), (float(s), float(s)), 0, 20, beta, slack=slack
        ).T
        missed.append(np.mean((low > 0.5) | (high < 0.5)))
    margin = math.sqrt(math.log(1e6) / (2 * runs))
    assert missed[1] < beta + margin < missed[0]


@pytest.mark.parametrize("beta", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("way", [0, 1, 2])
def test_the_noise_bound_is_convex_in_the_mean(way, beta):
    # the reason why what is excluded is one piece on each side of the estimate
    equation, scales = WAYS[way]

    def bound(x):
        w1, w2 = np.abs(equation(x))
        b = np.sort([w1 * scales[0], w2 * scales[1]])
        b[0] = max(b[0], 1e-9)
        if b[1] - b[0] < 1e-9:
            b[1] += 1e-7

        def tail(v):
            parts = b[1] ** 2 * math.exp(-v / b[1]) - b[0] ** 2 * math.exp(-min(v / b[0], 700))
            return parts / (b[1] ** 2 - b[0] ** 2) - beta

        return brentq(tail, 0, 100 * b[1], xtol=1e-13)

    q = np.array([bound(x) for x in np.linspace(0, 1, 101)])
    assert (q[2:] + q[:-2] - 2 * q[1:-1] > -1e-6).all()


@pytest.mark.parametrize("n", [0, 1, 4, 30, 400])
@pytest.mark.parametrize("way", [0, 1, 2])
def test_coverage_for_small_and_large_tables(way, n):
    # Hoeffding: a false alarm has probability at most 1e-6
    equation, scales = WAYS[way]
    runs, beta = 20_000, 0.05
    for t in (0.0, 0.1, 0.5, 0.9, 1.0):
        drawn = exact_pair(equation, t, n) + noise.laplace(np.array(scales), (runs, 2), rng=rng(n))
        low, high = np.moveaxis(means.interval(drawn, equation, scales, 0, 1, beta), -1, 0)
        missed = np.mean(t < low) + np.mean(t > high)
        assert missed < beta + math.sqrt(math.log(1e6) / (2 * runs))
        assert max(np.mean(t < low), np.mean(t > high)) < beta / 2 + 0.012  # Bernstein
        if n == 400 and 0 < t < 1:
            assert missed > beta - math.sqrt(math.log(1e6) / (2 * runs))


@pytest.mark.parametrize("epsilon", [0.2, 1, 20])
def test_coverage_of_the_exact_release(epsilon):
    made = means.mechanism(0, 20, 1, "add-remove", epsilon)
    table, source, runs, beta = [2] * 30 + [19], rng(9), 4000, 0.05
    drawn = np.array([made(table, rng=source) for _ in range(runs)])
    scale = 20 / epsilon
    equation = means.of_shares(0, 20)
    kept = means.interval(drawn, equation, (scale, scale), 0, 20, beta, slack=(1, 1))
    missed = np.mean((kept[:, 0] > 79 / 31) | (kept[:, 1] < 79 / 31))
    assert missed < beta + math.sqrt(math.log(1e6) / (2 * runs))


def test_scales_of_the_interval_are_in_steps_as_the_shares_are():
    made = means.mechanism(0, 20, Fraction(1, 4), "add-remove", 1)
    table, source, runs, beta = [2.25] * 90 + [19] * 10, rng(11), 8000, 0.05
    drawn = np.array([made(table, rng=source) for _ in range(runs)])
    truth, missed = np.mean(table), []
    for scale in (80, 20):  # W/(grid epsilon), and the slip W/epsilon
        ends = means.interval(
            drawn, means.of_shares(0, 20), (scale, scale), 0, 20, beta, slack=(1, 1)
        )
        missed.append(np.mean((ends[:, 0] > truth) | (ends[:, 1] < truth)))
    assert missed[0] < beta + math.sqrt(math.log(1e6) / (2 * runs)) < 0.4 < missed[1]


def test_what_a_fine_grid_releases_has_an_interval():
    made = means.mechanism(0, 1, Fraction(1, 10**15), "add-remove", 1)
    pair = made([0.25] * 100, rng=rng(12))
    low, high = means.interval(pair, UNIT, (1e15, 1e15), 0, 1, 1e-6, slack=(1, 1))
    assert 0 < low < 0.25 < high < 1


@pytest.mark.parametrize("s", [0.05, 0.5, 1, 3, 100, 1e6])
def test_a_geometric_number_lies_within_a_step_of_a_laplace_number(s):
    # |Z| >= k exactly where |Y| >= t_k: then | |Z| - |Y| | <= 1 with the same sign
    k = np.arange(1, 40)
    with np.errstate(divide="ignore"):
        t = -s * np.log(geometric.tail(k - 1, s))
    t = t[np.isfinite(t)]
    k = k[: t.size]
    assert (k - 0.5 - 1e-6 <= t).all() and (t <= k + 1e-6).all()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: means.mechanism(3, 1, 1, "add-remove", 1), "lower"),
        (lambda: means.mechanism(0, 1, 0.3, "add-remove", 1), "grid"),
        (lambda: means.mechanism(0, 1, 0, "add-remove", 1), "grid"),
        (lambda: means.mechanism(0, 1, 1, "bounded", 1), "neighbours"),
        (lambda: means.mechanism(0, 1, 1, "add-remove", 0), "epsilon"),
        (lambda: means.mechanism(0, 1, 1, "add-remove", 1)("ab", rng=rng()), "values"),
        (lambda: means.mechanism(0, 1, 1, "add-remove", 1)([1.0], rng=3), "rng"),
        (lambda: means.sensitivity_of(1, 1, "add-remove"), "lower"),
        (lambda: means.sensitivity_of(0, 1, "both"), "neighbours"),
        (lambda: means.of_shares(1, 0), "lower"),
        (lambda: means.of_shares(0, 1e13), "upper"),
        (lambda: means.of_sum_and_count(math.nan), "centre"),
        (lambda: means.estimate([1, 2, 3], UNIT, 0, 1), "noisy"),
        (lambda: means.estimate(3.0, UNIT, 0, 1), "noisy"),
        (lambda: means.estimate([1, 2], UNIT, 1, 0), "lower"),
        (lambda: means.interval([1, 2], UNIT, (1, 0), 0, 1, 0.05), r"scales\[1\]"),
        (lambda: means.interval([1, 2], UNIT, (1, 1), 0, 1, 0), "beta"),
        (lambda: means.interval([1, 2], UNIT, (1, 1), 0, 1, 0.05, slack=(-1, 0)), r"slack\[0\]"),
    ],
)
def test_refusals_name_the_argument(call, name):
    with pytest.raises(ValueError, match=rf"^{name} "):
        call()
