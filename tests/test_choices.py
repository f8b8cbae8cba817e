"""The two limits of epsilon: bounds attained by linear programs, searches on the safe side."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from dputils import choices, geometric, laplace

BETA = 0.05
rates = st.floats(0.01, 5)


def worst_surcharge(epsilon, delta, base, worst):
    """The largest mean under P of a cost in [0, worst] whose mean under Q is `base`.

    By a linear program over the laws of two events, cost 0 and cost `worst`.
    """
    q = base / worst
    limits = [  # P(S) <= e^eps Q(S) + delta and the reverse, for S the event and its complement
        ([1], math.exp(epsilon) * q + delta),
        ([-1], math.exp(epsilon) * (1 - q) + delta - 1),
        ([-1], (delta - q) * math.exp(-epsilon)),
        ([1], 1 - (1 - q - delta) * math.exp(-epsilon)),
    ]
    a, b = zip(*limits, strict=True)
    return worst * -linprog([-1], np.array(a), np.array(b), bounds=[(0, 1)]).fun - base


@given(rates, st.floats(0, 0.5), st.floats(0.01, 1))
def test_the_surcharge_is_the_worst_there_is(epsilon, delta, share):
    worst = 100.0
    found = choices.surcharge(epsilon, share * worst, delta, worst)
    assert found == pytest.approx(worst_surcharge(epsilon, delta, share * worst, worst), abs=1e-6)


def test_without_a_worst_cost_it_is_the_formula_of_hsu_and_others():
    assert choices.surcharge(math.log(3), 5.0) == pytest.approx(10)
    assert choices.surcharge(1000, 5.0) == math.inf
    assert choices.surcharge(1000, 5.0, 0, 80.0) == pytest.approx(75)


@given(st.floats(1e-3, 1e3), st.floats(1e-2, 1e3))
def test_the_largest_epsilon_is_paid_for_and_the_next_is_not(money, base):
    found = choices.largest_epsilon(money, base)
    assert choices.surcharge(found, base) <= money
    assert found == 1000 or choices.surcharge(found * 1.0101, base) > money
    assert found <= math.log1p(money / base) * (1 + 1e-12) < found * 1.0101 or found == 1000


@given(st.floats(0.01, 1e4))
def test_the_smallest_epsilon_is_enough_and_the_one_before_is_not(alpha):
    def error(epsilon):
        return laplace.accuracy(1 / epsilon, BETA)

    found = choices.smallest_epsilon(error, alpha)
    assert error(found) <= alpha < error(found / 1.0101)
    assert found >= math.log(1 / BETA) / alpha * (1 - 1e-12)


def test_ends_of_the_grid():
    assert choices.smallest_epsilon(lambda epsilon: 0, 0) == 1e-6
    assert choices.smallest_epsilon(lambda epsilon: 1, 0.5) == math.inf
    assert choices.smallest_epsilon(lambda epsilon: epsilon < 1000, 0.5) == 1000
    assert choices.smallest_epsilon(lambda epsilon: epsilon < 1e-6 * 1.005, 0.5) == 1.01e-6
    assert choices.largest_epsilon(1e99, 1e-99) > 450


@given(st.floats(0.005, 1), rates)
def test_the_smallest_sample_is_enough_and_one_person_less_is_not(alpha, epsilon):
    for rate in (None, epsilon):
        n = choices.smallest_sample(alpha, BETA, rate)
        assert choices.share_error(n, BETA, rate) <= alpha
        assert n == 1 or choices.share_error(n - 1, BETA, rate) > alpha


@pytest.mark.parametrize("n", [1, 60, 944])
@pytest.mark.parametrize("beta", [0.05, 0.3])
def test_the_error_of_a_share_is_that_of_the_sample_and_that_of_the_noise(n, beta):
    assert choices.share_error(n, beta) == pytest.approx(math.sqrt(math.log(2 / beta) / 2 / n))
    for epsilon in (0.01, 0.3, 2.0):
        ratio, off = math.exp(-epsilon), 0
        while 2 * ratio ** (off + 1) / (1 + ratio) > beta / 2:  # P(|noise| > off)
            off += 1
        expected = math.sqrt(math.log(4 / beta) / 2 / n) + off / n
        assert choices.share_error(n, beta, epsilon) == pytest.approx(expected)


def test_no_sample_may_be_enough():
    assert choices.smallest_sample(1e-6, 2e-250, 1e-6) == math.inf
    assert choices.smallest_sample(1e-6, 2e-250) < 1 << 50


def test_an_error_that_is_no_number_is_not_accurate():
    assert choices.smallest_epsilon(lambda epsilon: math.nan, 1.0) == math.inf
    assert choices.smallest_epsilon(lambda e: math.nan if e < 1 else 0, 1.0) == 1.0


def test_the_largest_epsilon_is_paid_for_in_exact_arithmetic():
    rng = np.random.default_rng(3)
    with localcontext(prec=50):
        for _ in range(300):  # amounts that lie on a grid value but for a rounding
            base, place = 10 ** rng.uniform(-2, 3), choices._decimal(int(rng.integers(1, 6000)))
            for money in np.nextafter(base * math.expm1(place), [0, 1e9]):
                found = Decimal(choices.largest_epsilon(float(money), base))
                assert Decimal(base) * (found.exp() - 1) <= Decimal(float(money))


def test_the_error_of_a_share_is_kept():
    """False alarm at most 1e-6: 40,000 studies, of which at most a twentieth may miss."""
    rng = np.random.default_rng(1)
    n, epsilon, runs = 400, 0.2, 40_000
    for share in (0.5, 0.05):
        noise = geometric.release(np.zeros(runs, dtype=int), 1, epsilon, rng=rng)
        off = np.abs((rng.binomial(n, share, runs) + noise) / n - share)
        missed = np.mean(off > choices.share_error(n, BETA, epsilon))
        assert missed <= BETA + 5 * math.sqrt(BETA / runs)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: choices.surcharge(0, 1.0), "epsilon"),
        (lambda: choices.surcharge(1, -1.0), "base_cost"),
        (lambda: choices.surcharge(1, 1.0, 1.5), "delta"),
        (lambda: choices.surcharge(1, 1.0, 1e-6), "worst_cost must be given"),
        (lambda: choices.surcharge(1, 1.0, 0, 0.5), "worst_cost"),
        (lambda: choices.largest_epsilon(0, 1.0), "money"),
        (lambda: choices.largest_epsilon(1e-9, 1.0), "money must pay"),
        (lambda: choices.smallest_epsilon(lambda epsilon: 0, -1), "alpha"),
        (lambda: choices.share_error(0, 0.05), "n must"),
        (lambda: choices.share_error(2.5, 0.05), "n must"),
        (lambda: choices.share_error(10, 0), "beta"),
        (lambda: choices.share_error(10, 1e-250, 1.0), "beta must be between 2e-250"),
        (lambda: choices.share_error(10, 0.05, -1), "epsilon"),
        (lambda: choices.share_error(10, 0.05, 1e-9), "epsilon"),
        (lambda: choices.smallest_sample(0, 0.05), "alpha"),
        (lambda: choices.smallest_sample(2, 0.05), "alpha"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
