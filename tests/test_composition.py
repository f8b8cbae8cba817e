"""Composition: every account against exact laws, known values, and each other; none may state too little."""
import functools
import itertools
import math
import random
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dputils import accounting, audit
from dputils.accounting import composition, costs, curves, losses, renyi
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure

TENTHS = [Pure(0.1)] * 100


# ------------------------------------------------------------------------------------------------------------ the truth


def response(epsilon, delta=0.0):
    """Randomized response that gives the neighbour away with probability delta: losses and their probabilities."""
    p = 1 / (1 + math.exp(-epsilon))
    return {epsilon: (1 - delta) * p, -epsilon: (1 - delta) * (1 - p), math.inf: delta}


@functools.lru_cache
def composed(costs):
    """The law of the total loss of a tuple of costs by brute force: dict from loss to probability."""
    def add(one, other):
        out = {}
        for (a, p), (b, q) in itertools.product(one.items(), other.items()):
            out[round(a + b, 12)] = out.get(round(a + b, 12), 0.0) + p * q
        return out
    return functools.reduce(add, [response(float(c.epsilon), float(getattr(c, "delta", 0))) for c in costs], {0.0: 1.0})


def true_delta(costs, epsilon):
    """Delta of responses and Gaussian releases together: the mean, over the responses' losses, of the Gaussian curve."""
    law = composed(tuple(c for c in costs if not isinstance(c, Gaussian)))
    mu = math.sqrt(sum(float(c.mu) ** 2 for c in costs if isinstance(c, Gaussian)))

    def left(e):  # delta of the Gaussian part at e, which may be negative
        if not mu:
            return max(0.0, -math.expm1(e))
        return curves.gaussian_delta(e, mu) if e >= 0 else 1 - math.exp(e) * (1 - curves.gaussian_delta(-e, mu))
    return math.fsum(p * (1.0 if loss == math.inf else left(epsilon - loss)) for loss, p in law.items() if p)


def grid(costs):
    """A 4096th of the spread of the loss: the numerical account may be off by as much at its upper end."""
    return math.sqrt(sum(float(getattr(c, "epsilon", 0) or c.mu) ** 2 for c in costs)) / 4096


def true_epsilon(costs, delta):
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if true_delta(costs, middle) <= delta else (middle, high)
    return high


# ------------------------------------------------------------------------------------------------------------ typed costs


def test_costs_are_exact_and_compare_by_value():
    assert Pure(0.1).epsilon == Fraction(1, 10) and Pure(1) == Pure(1.0) and Pure(1) != ZCDP(1)
    assert Approximate(0.1, 1e-6) == Approximate(Fraction(1, 10), Fraction(1, 10**6))
    assert [str(c) for c in (Pure(0.1), Approximate(1, 1e-6), ZCDP(0.05), Gaussian(Fraction(1, 3)))] == [
        "epsilon 0.1", "epsilon 1, delta 1e-06", "rho 0.05", "mu 0.333333"]
    with pytest.raises(AttributeError):
        Pure(0.1).epsilon = 2


@pytest.mark.parametrize("call,message", [
    (lambda: Pure(0), "epsilon must be positive and finite, got 0"),
    (lambda: Pure(math.inf), "epsilon must be positive and finite, got inf"),
    (lambda: Approximate(-1, 0.1), "epsilon must be positive and finite, got -1"),
    (lambda: Approximate(1, 1), "delta must be in [0, 1), got 1"),
    (lambda: ZCDP(0), "rho must be positive and finite, got 0"),
    (lambda: Gaussian("1"), "mu must be positive and finite, got '1'"),
    (lambda: composition.basic([0.1]), "cost must be Pure, Approximate, ZCDP or Gaussian, got 0.1"),
    (lambda: composition.basic(None), "costs must be a list of Pure, Approximate, ZCDP or Gaussian, got None"),
    (lambda: composition.basic({Pure(1): -5}), "costs must be a list of Pure, Approximate, ZCDP or Gaussian, got {Pure(epsilon=Fraction(1, 1)): -5}"),
    (lambda: composition.zcdp({Pure(1)}), "costs must be a list of Pure, Approximate, ZCDP or Gaussian, got {Pure(epsilon=Fraction(1, 1))}"),
    (lambda: composition.epsilon_at(Pure(1), 0.1), "costs must be a list of Pure, Approximate, ZCDP or Gaussian, got Pure(epsilon=Fraction(1, 1))"),
    (lambda: composition.epsilon_at(None, 0.1), "costs must be a list of Pure, Approximate, ZCDP or Gaussian, got None"),
    (lambda: composition.numerical("1", 0.1), "costs must be a list of Pure, Approximate, ZCDP or Gaussian, got '1'"),
    (lambda: composition.gaussian([[Pure(1)]]), "cost must be Pure, Approximate, ZCDP or Gaussian, got [Pure(epsilon=Fraction(1, 1))]"),
    (lambda: composition.epsilon_at([Pure(1), None], 0.1), "cost must be Pure, Approximate, ZCDP or Gaussian, got None"),
    (lambda: composition.advanced([Pure(1e300)], 0.1), "costs must be at most 1e+150 for the advanced account, got 1e+300"),
    (lambda: composition.numerical([Pure(1e300), Pure(1)], 0.1), "costs must be at most 1e+150 for the numerical account, got 1e+300"),
    (lambda: composition.numerical([Gaussian(1e200)], 0.1), "costs must be at most 1e+150 for the numerical account, got inf"),
    (lambda: composition.epsilon_at([Gaussian(1e153)], 0.1, "gaussian"), "costs must be at most 1e+150 for the gaussian account, got 1e+153"),
    (lambda: composition.epsilon_at([Pure(1e200)], 0.1, "zcdp"), "costs must be at most 1e+300 for the zcdp account, got inf"),
    (lambda: composition.advanced(TENTHS, Fraction(1, 10**400)), "slack must be strictly between 0 and 1, got 0.0"),
    (lambda: composition.basic([ZCDP(1)]), "the basic account takes Pure and Approximate costs, got ZCDP: rho 1"),
    (lambda: composition.advanced([Gaussian(1)], 0.1), "the advanced account takes Pure and Approximate costs, got Gaussian: mu 1"),
    (lambda: composition.advanced(TENTHS, 0), "slack must be strictly between 0 and 1, got 0"),
    (lambda: composition.gaussian([ZCDP(1)]), "the gaussian account takes Gaussian and Pure costs, got ZCDP: rho 1"),
    (lambda: composition.gaussian([Approximate(1, 0.1)]),
     "the gaussian account takes Gaussian and Pure costs, got Approximate: epsilon 1, delta 0.1"),
    (lambda: composition.numerical([ZCDP(1)], 0.1), "the numerical account takes Pure and Approximate and Gaussian costs, got ZCDP: rho 1"),
    (lambda: composition.numerical(TENTHS, 0), "delta must be strictly between 0 and 1, got 0"),
    (lambda: composition.numerical([Gaussian(1)], 1e-14), "delta must be above 2e-14 for the numerical account, got 1e-14"),
    (lambda: composition.numerical([Approximate(1, 0.1)], 0.05), "delta must exceed the costs' own deltas for the numerical account, got 0.05"),
    (lambda: composition.epsilon_at(TENTHS, 1), "delta must be in [0, 1), got 1"),
    (lambda: composition.epsilon_at(TENTHS, 0.1, "rdp"),
     "account must be one of 'basic', 'advanced', 'zcdp', 'gaussian', 'exact', 'numerical', got 'rdp'"),
    (lambda: composition.epsilon_at([Approximate(1, 0.1)], 0.05, "basic"), "delta must be at least 0.1 for the basic account, got 0.05"),
    (lambda: composition.epsilon_at([Approximate(1, 0.1)], 0.1, "zcdp"), "delta must exceed the costs' own deltas for the zcdp account, got 0.1"),
    (lambda: composition.epsilon_at([Approximate(1, 0.1)], 0.1, "exact"), "delta must exceed the costs' own deltas for the exact account, got 0.1"),
    (lambda: composition.epsilon_at([Pure(1), Pure(2)], 0.1, "exact"),
     "the exact account needs releases of one epsilon, or Gaussian costs alone"),
    (lambda: composition.epsilon_at([Pure(1), Gaussian(2)], 0.1, "exact"),
     "the exact account needs releases of one epsilon, or Gaussian costs alone"),
    (lambda: losses.exact_pure_delta(0, 3, 1), "epsilon0 must be positive and finite, got 0"),
    (lambda: losses.exact_pure_delta(1, 0, 1), "k must be at least 1, got 0"),
    (lambda: losses.exact_pure_delta(1, 1, -1), "epsilon must be at least 0, got -1"),
    (lambda: losses.exact_pure_epsilon(1, 1.5, 0.1), "k must be an integer, got 1.5"),
    (lambda: losses.exact_pure_epsilon(1, 1, 1), "delta must be in [0, 1), got 1"),
    (lambda: costs.group(1, 0, 0), "k must be at least 1, got 0"),
    (lambda: costs.subsampled(1, 0, 0), "rate must be positive and finite, got 0"),
    (lambda: costs.subsampled(1, 0, 1.5), "rate must be at most 1, got 1.5"),
])
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_costs_may_come_from_a_generator():
    costs = [Approximate(0.1, 1e-3)] * 20 + [Approximate(0.2, 1e-4)]
    assert composition.advanced(iter(costs), 1e-6) == composition.advanced(costs, 1e-6)
    assert composition.advanced(costs, 1e-6)[1] > 0.0199
    assert composition.epsilon_at(iter(costs), 0.05) == composition.epsilon_at(costs, 0.05)


def test_nothing_costs_nothing():
    assert composition.advanced([], 1e-6) == (0.0, 1e-6)
    assert composition.numerical([], 0.5) == composition.numerical([Pure(0.1)], 0.9) == 0.0
    assert [composition.epsilon_at([], 0.5, name)[0] for name in ("basic", "advanced", "zcdp", "gaussian", "exact", "numerical")] == [0] * 6


def test_the_ends_of_all_floats_give_numbers_without_warnings():
    tiny, nearly = Fraction(1, 10**400), 1 - Fraction(1, 10**30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert losses.exact_pure_delta(1e308, 10, 5) == losses.exact_pure_delta(1e308, 1, 5) == 1
        assert losses.exact_pure_delta(1e308, 1, 1e308) == 0
        assert losses.exact_pure_epsilon(1e308, 10, 0.5) == math.inf and losses.exact_pure_epsilon(1e307, 10, 0.5) == 1e308
        assert losses.exact_pure_epsilon(0.1, 3, tiny) == 0.3 and losses.exact_pure_epsilon(0.1, 3, nearly) == 0
        for name in ("advanced", "zcdp", "exact", "numerical"):
            assert 0 <= composition.epsilon_at([Pure(0.1)] * 3, nearly, name)[0] < 0.1
        assert composition.epsilon_at([Pure(1e300), Pure(2e300)], 0.1) == (3e300, "basic")
        assert costs.group(1, 1e-9, 10**400) == (10**400, 1)
        for certain in (nearly, 1 - tiny):
            assert 1 - 1e-11 < composition.advanced([Approximate(1, certain)], 1e-6)[1] <= 1
            for name in ("advanced", "exact", "numerical"):
                with pytest.raises(ValueError, match=f"must exceed the costs' own deltas for the {name} account, got 0.5"):
                    composition.epsilon_at([Approximate(1, certain)] * 2, 0.5, name)
        assert composition.epsilon_at([ZCDP(tiny)], 0.1, "zcdp")[0] >= 0 and composition.gaussian([Gaussian(1e-200)]) >= 1e-200


def test_no_account_at_all_says_why():
    with pytest.raises(ValueError, match="no account applies: the basic account takes .*; delta must exceed"):
        composition.epsilon_at([ZCDP(1)], 0)


# ------------------------------------------------------------------------------------------------------------ known values


@pytest.mark.parametrize("account,epsilon", [("basic", 10), ("advanced", 5.7561055), ("zcdp", 5.2215344),
                                             ("gaussian", 6.3301158), ("exact", 4.7745676), ("numerical", 4.7745676)])
def test_a_hundred_tenths(account, epsilon):
    assert composition.epsilon_at(TENTHS, 1e-6, account) == (pytest.approx(epsilon, abs=1e-7), account)


def test_ten_thousand_hundredths():
    assert losses.exact_pure_epsilon(0.01, 10**4, 1e-6) == pytest.approx(4.8855156, abs=1e-7)
    costs = [Pure(0.01)] * 10**4
    assert composition.numerical(costs, 1e-6) == pytest.approx(4.8855156, abs=1e-7)  # its default grid would say 5.360
    assert composition.epsilon_at(costs, 1e-6) == (pytest.approx(4.8855156, abs=1e-7), "exact")


def test_advanced_is_worse_than_basic_for_few_releases():
    few, many = [Pure(0.1)] * 10, [Pure(0.1)] * 40
    mean = 10 * 0.1 * math.tanh(0.05)
    assert composition.advanced(few, 1e-6) == (pytest.approx(mean + math.sqrt(20 * math.log(1e6)) * 0.1), 1e-6)
    assert composition.advanced(few, 1e-6)[0] > 1.7 > composition.basic(few)[0] == 1
    assert composition.advanced(many, 1e-6)[0] < composition.basic(many)[0] == 4


def test_basic_sums_are_exact():
    assert composition.basic([Pure(0.1)] * 3 + [Approximate(0.2, 1e-7)] * 2) == (Fraction(7, 10), Fraction(2, 10**7))
    assert composition.basic([]) == (0, 0) and composition.epsilon_at([], 0) == (0, "basic")


def test_zcdp_sums_are_exact():
    costs = [Pure(0.1)] * 10 + [Gaussian(0.3), ZCDP(Fraction(1, 3)), Approximate(1, 1e-9)]
    assert composition.zcdp(costs) == (Fraction(5, 100) + Fraction(45, 1000) + Fraction(1, 3) + Fraction(1, 2), Fraction(1, 10**9))


def test_gaussian_releases_are_one_gaussian_release():
    costs = [Gaussian(3), Gaussian(4)]
    assert 0 <= composition.gaussian(costs) - 5 < 1e-11
    exact = curves.gaussian_epsilon(5.0, 1e-6)
    for account in ("gaussian", "exact"):
        assert exact <= composition.epsilon_at(costs, 1e-6, account)[0] <= exact * (1 + 1e-10)
    assert exact <= composition.numerical(costs, 1e-6) < exact * (1 + 1e-6)
    assert composition.epsilon_at(costs, 1e-6)[1] in ("gaussian", "exact")
    assert composition._square(Pure(1)) >= Fraction(renyi.pure_to_gaussian(1.0)) ** 2 and composition._square(Gaussian(0.1)) == Fraction(1, 100)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 5, 30])
def test_a_gaussian_release_covers_a_pure_one(epsilon):
    """The Gaussian curve is nowhere below that of randomized response, and touches it."""
    mu = math.sqrt(composition._square(Pure(epsilon)))
    grid = np.linspace(0, epsilon * (1 - 1e-9), 200)
    ours = [losses.exact_pure_delta(epsilon, 1, e) for e in grid]
    assert (curves.gaussian_delta(grid, mu) >= np.array(ours) * (1 - 1e-9)).all()
    assert curves.gaussian_delta(0.0, mu) == pytest.approx(ours[0], rel=1e-9)


# --------------------------------------------------------------------------------------------------- exact for pure costs


def precise(epsilon0, k, epsilon):
    """Delta of k responses at 40 digits, by the sum over the number of lies."""
    with mpmath.workdps(40):
        e0, e = mpmath.mpf(repr(epsilon0)), mpmath.mpf(repr(epsilon))
        terms = (mpmath.binomial(k, i) * max(0, mpmath.exp((k - i) * e0) - mpmath.exp(e + i * e0)) for i in range(k + 1))
        return mpmath.fsum(terms) / (1 + mpmath.exp(e0)) ** k


@pytest.mark.parametrize("k", range(1, 13))
def test_exact_delta_by_enumeration_of_all_answers(k):
    """All 2^k answer patterns with fractions: odds of truth 3 to 2, thresholds rational in e^epsilon."""
    truth = Fraction(3, 5)
    epsilon0 = math.log(1.5)
    for power in range(k):
        odds = Fraction(3, 2) ** power * Fraction(11, 10)
        delta = Fraction(0)
        for lies in itertools.product((0, 1), repeat=k):
            i = sum(lies)
            delta += max(Fraction(0), truth ** (k - i) * (1 - truth) ** i - odds * truth**i * (1 - truth) ** (k - i))
        ours = losses.exact_pure_delta(epsilon0, k, math.log(odds))
        assert ours == pytest.approx(float(delta), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("epsilon0,k", [(1e-5, 7), (0.01, 400), (0.1, 100), (1.0, 1), (1.0, 60), (3.0, 9), (40.0, 3), (0.5, 1500)])
def test_exact_delta_is_never_below_and_hardly_above(epsilon0, k):
    total = epsilon0 * k
    for epsilon in [0.0, total * 1e-3, total * 0.11, total / 3, total * 0.7, total * (1 - 1e-6)]:
        ours, exact = losses.exact_pure_delta(epsilon0, k, epsilon), precise(epsilon0, k, epsilon)
        assert exact <= ours <= exact * (1 + 1e-8) + mpmath.mpf(10) ** -300
    assert losses.exact_pure_delta(epsilon0, k, total * 1.01) == 0
    grid = np.array([[0, total / 2], [total / 3, total]])
    assert (losses.exact_pure_delta(epsilon0, k, grid) == [[losses.exact_pure_delta(epsilon0, k, e) for e in row]
                                                               for row in grid]).all()


@pytest.mark.parametrize("epsilon0,k", [(1e-5, 7), (0.001, 10**5), (0.01, 400), (0.1, 100), (1.0, 1), (3.0, 9), (40.0, 3)])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30, 1e-10, 1e-6, 1e-3, 0.1, 0.4])
def test_exact_epsilon_is_the_smallest_on_the_safe_side(epsilon0, k, delta):
    epsilon = losses.exact_pure_epsilon(epsilon0, k, delta)
    assert 0 <= epsilon <= math.nextafter(epsilon0 * k, math.inf)
    assert losses.exact_pure_delta(epsilon0, k, epsilon) <= delta
    if epsilon:
        assert losses.exact_pure_delta(epsilon0, k, epsilon * (1 - 1e-7)) > delta * (1 - 1e-7)
    if k <= 400:
        assert precise(epsilon0, k, epsilon) <= delta


def test_exact_epsilon_without_delta_is_the_sum():
    assert losses.exact_pure_epsilon(0.1, 3, 0) == 0.3 and losses.exact_pure_delta(0.1, 3, 0.3) == 0
    assert losses.exact_pure_epsilon(10**307, 100, 0.1) == math.inf


@pytest.mark.parametrize("epsilon0,k,delta", [(0.1, 100, 1e-6), (0.5, 20, 1e-4), (1.0, 3, 1e-3)])
def test_exact_agrees_with_dp_accounting(epsilon0, k, delta):
    """Its randomized response on a grid that rounds losses up by at most 1e-4 each."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    flip = pld.from_randomized_response(2 / (1 + math.exp(epsilon0)), 2, value_discretization_interval=1e-4)
    theirs = flip.self_compose(k).get_epsilon_for_delta(delta)
    assert theirs * (1 - 0.002) < losses.exact_pure_epsilon(epsilon0, k, delta) <= theirs * (1 + 1e-12)


def test_dp_accounting_on_a_bad_grid_says_more():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    flip = pld.from_randomized_response(2 / (1 + math.exp(0.01)), 2, value_discretization_interval=1e-4)
    assert flip.self_compose(10**4).get_epsilon_for_delta(1e-6) == pytest.approx(5.360, abs=1e-3)


# --------------------------------------------------------------------------------------------------------- upper bounds

EPSILONS = st.sampled_from([0.03, 0.1, 0.25, 0.31415926, 0.7, 1.0, 2.5])
SIMPLE = st.one_of(EPSILONS.map(Pure), st.tuples(EPSILONS, st.sampled_from([1e-9, 1e-4])).map(lambda p: Approximate(*p)))
MIXED = st.one_of(SIMPLE, st.sampled_from([0.05, 0.4, 1.5]).map(Gaussian))


@settings(deadline=None, max_examples=30)
@given(st.lists(MIXED, min_size=1, max_size=6), st.sampled_from([1e-6, 1e-3, 0.05]))
def test_no_account_states_too_little(costs, delta):
    stated = {}
    for account in composition.ACCOUNTS:
        try:
            stated[account] = composition.epsilon_at(costs, delta, account)[0]
        except ValueError:
            continue
    if not stated:
        return
    truth = true_epsilon(costs, delta)
    for account, epsilon in stated.items():
        assert epsilon >= truth * (1 - 1e-9) - 1e-12, (account, epsilon, truth)
    for account in {"exact", "numerical"} & set(stated):  # these two are the truth, to the grid's error
        assert stated[account] <= truth + 1e-5 + grid(costs), (account, stated[account], truth)
    assert composition.epsilon_at(costs, delta)[0] == pytest.approx(min(stated.values()), rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.lists(SIMPLE, min_size=1, max_size=6), MIXED, st.sampled_from([1e-3, 0.05]))
def test_one_more_cost_or_a_smaller_delta_never_lowers_epsilon(costs, more, delta):
    for account in composition.ACCOUNTS:
        try:
            longer = composition.epsilon_at([*costs, more], delta, account)[0]
            tighter = composition.epsilon_at(costs, delta * 0.9, account)[0]
            epsilon = composition.epsilon_at(costs, delta, account)[0]
        except ValueError:
            continue
        assert longer >= epsilon * (1 - 1e-5) - 1e-6 and tighter >= epsilon * (1 - 1e-5) - 1e-6, account


@settings(deadline=None, max_examples=60)
@given(st.lists(SIMPLE, min_size=1, max_size=7), st.sampled_from([1e-6, 1e-3, 0.05]))
def test_the_slack_of_advanced_composition_covers_the_tail(costs, slack):
    epsilon, delta = composition.advanced(costs, slack)
    leak = 1 - math.prod(1 - float(getattr(c, "delta", 0)) for c in costs)
    assert delta == pytest.approx(1 - (1 - slack) * (1 - leak), rel=1e-9) and delta >= slack
    tail = math.fsum(p for loss, p in composed(tuple(costs)).items() if loss > epsilon)
    assert tail <= delta and true_delta(costs, epsilon) <= delta


def test_advanced_covers_numerical_for_unequal_costs():
    costs = [Pure(e) for e in np.linspace(0.01, 0.3, 150).round(3)]
    found = {a: composition.epsilon_at(costs, 1e-6, a)[0] for a in ("basic", "advanced", "zcdp", "numerical")}
    assert found["numerical"] < found["zcdp"] < found["advanced"] < found["basic"]


@pytest.mark.parametrize("costs", [[Pure(0.3)] * 40, [Pure(0.3), Pure(0.7), Pure(1.1)] * 3, [Approximate(0.3, 1e-7)] * 30,
                                   [Pure(1 / 3)] * 5 + [Pure(math.sqrt(0.1))] * 4, [Pure(0.2)] * 5 + [Gaussian(0.5)] * 3,
                                   [Gaussian(0.02)] * 9 + [Pure(3)], [Gaussian(4.0), Pure(0.01), Approximate(0.1, 1e-8)]])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_numerical_is_an_upper_bound_and_close(costs, delta):
    try:
        epsilon = composition.numerical(costs, delta)
    except ValueError:
        assert true_delta(costs, 50.0) > delta * (1 - 1e-9)  # the costs' own deltas are as much
        return
    assert true_delta(costs, epsilon) <= delta * (1 + 1e-12)
    truth = true_epsilon(costs, delta)
    assert truth * (1 - 1e-12) <= epsilon <= truth + 1e-5 + (delta < 1e-7) * 2 * grid(costs)


def test_a_split_loss_keeps_both_probabilities():
    """The law on a grid has the mass of k responses under both neighbours, to rounding, and never less delta."""
    low, law, lost = losses._on_grid(Fraction(1, 3), Fraction(0), 7, 0.1)
    points = (low + np.arange(law.size)) * 0.1
    assert law.sum() + lost == pytest.approx(1) and (law * np.exp(-points)).sum() == pytest.approx(1)
    for epsilon in np.linspace(0, 2.3, 24):
        delta = lost + (law * np.maximum(0, -np.expm1(epsilon - points))).sum()
        assert losses.exact_pure_delta(1 / 3, 7, epsilon) * (1 - 1e-12) <= delta < losses.exact_pure_delta(1 / 3, 7, epsilon) + 5e-4


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(3, 10), Fraction(1, 10), Fraction(10**30 + 1), Fraction(1, 10**400), Fraction(10**400)])
def test_directed_rounding(x):
    assert losses.lower(x) <= x <= losses.upper(x)
    assert losses.upper(x) in (losses.lower(x), math.nextafter(losses.lower(x), math.inf))
    assert math.isinf(losses.ceiling(x)) or Fraction(repr(losses.ceiling(x))) >= x


# -------------------------------------------------------------------------------------------------- groups and subsamples


@pytest.mark.parametrize("epsilon,delta", [(0.5, 1e-3), (1e-6, 0.01), (3.0, 1e-6)])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_a_group_attains_its_delta(epsilon, delta, k):
    """k + 1 laws, each (epsilon, delta)-close to the next: the first tells with just the probability that is stated."""
    leaks = [0.0]
    for _ in range(k):
        leaks.append(math.exp(epsilon) * leaks[-1] + delta)
    laws = [{"tells": leak, "silent": 1 - leak} for leak in leaks]
    for a, b in itertools.pairwise(laws):
        assert audit.finite_delta(b, a, epsilon) == pytest.approx(delta, rel=1e-9)
        assert audit.finite_delta(a, b, epsilon) <= delta * (1 + 1e-9)
    stated = costs.group(epsilon, delta, k)
    assert stated[0] == k * Fraction(str(epsilon))
    assert audit.finite_delta(laws[-1], laws[0], float(stated[0])) == pytest.approx(float(stated[1]), rel=1e-9)
    with mpmath.workdps(40):
        e = mpmath.mpf(repr(epsilon))
        exact = mpmath.mpf(repr(delta)) * mpmath.expm1(k * e) / mpmath.expm1(e)
        assert exact * (1 - mpmath.mpf(10) ** -30) <= mpmath.mpf(stated[1].numerator) / stated[1].denominator <= exact * (1 + 1e-9)


def test_groups_at_the_edges():
    assert costs.group(0.1, 0, 7) == (Fraction(7, 10), 0)
    assert costs.group(300, 1e-6, 3) == (900, 1) and costs.group(1, 0.5, 2) == (2, 1)
    assert 0 < costs.group(400, 1e-300, 2)[1] < 1e-125


# ------------------------------------------------------------------------------- the last digits, where the margins decide

SMALL = Fraction(8, 5) * Fraction(1, 2**1074)  # the nearest float is a quarter above


def of(x):
    return mpmath.mpf(x.numerator) / x.denominator


def seeded(n=60):
    draw = random.Random(11)
    for _ in range(n):
        yield [cost for _ in range(draw.randint(1, 4)) for cost in [draw.choice([Pure, lambda e: Approximate(e, draw.choice(
            [1e-9, 3e-7, 1e-4, 0.01])), Gaussian])(round(10 ** draw.uniform(-4, 1), 6))] * draw.choice([1, 3, 50, 1000])], draw


def test_advanced_is_rounded_up_at_forty_digits():
    with mpmath.workdps(40):
        for costs, draw in seeded():
            costs, slack = [c for c in costs if not isinstance(c, Gaussian)], 10 ** draw.uniform(-12, -0.1)
            epsilons = [of(c.epsilon) for c in costs]
            exact = mpmath.fsum(e * mpmath.tanh(e / 2) for e in epsilons) + mpmath.sqrt(
                -2 * mpmath.log(mpmath.mpf(slack)) * mpmath.fsum(e * e for e in epsilons))
            kept = mpmath.fprod(1 - of(composition._delta(c)) for c in costs)
            epsilon, delta = composition.advanced(costs, slack)
            assert exact <= epsilon <= exact * (1 + 2e-12) and 1 - (1 - mpmath.mpf(slack)) * kept <= delta


def test_roots_are_rounded_up():
    for costs, _ in seeded():
        square = sum(composition._square(c) for c in costs if isinstance(c, (Pure, Gaussian)))
        mu = composition.gaussian([c for c in costs if isinstance(c, (Pure, Gaussian))])
        assert square <= Fraction(mu) ** 2 <= square * (1 + Fraction(1, 10**11))


def test_what_the_costs_own_deltas_leave_is_rounded_down():
    with mpmath.workdps(40):
        for costs, draw in seeded(150):
            costs = [c for c in costs if not isinstance(c, Gaussian)]
            kept = mpmath.fprod(1 - of(composition._delta(c)) for c in costs)
            stated = composition._log_kept(costs)
            assert mpmath.log(kept) * (1 + 2e-14) <= stated <= mpmath.log(kept)
            delta = float(1 - kept * (1 - 10 ** draw.uniform(-12, -1)))
            left = 1 - (1 - of(Fraction(repr(delta)))) / kept  # the delta is read as its decimal
            if left > 1e-12:
                assert left - 1e-12 <= composition._slack("exact", costs, delta) <= left


def test_a_delta_between_two_floats_is_rounded_down_for_zcdp():
    with mpmath.workdps(60):
        for rho in (0.01, 0.5, 3):
            r, log = mpmath.mpf(repr(rho)), -mpmath.log(of(SMALL))
            t = mpmath.findroot(lambda t: r * t * t + mpmath.log1p(t) - log, mpmath.sqrt(log / r))
            exact = (1 + t) * r + (log - mpmath.log1p(t)) / t - mpmath.log1p(1 / t)
            assert exact <= composition.epsilon_at([ZCDP(rho)], SMALL, "zcdp")[0] <= exact * 1.01


@pytest.mark.parametrize("epsilon0", [0.1, 0.3, 0.7, 1.1, Fraction(1, 3), 2.3])
def test_the_highest_loss_counts_up_to_its_last_digit(epsilon0):
    """Just below the sum of all epsilons only the highest loss is left, by less than its rounding."""
    with mpmath.workdps(60):
        for k in range(1, 40):
            most, epsilon = k * Fraction(str(epsilon0)), losses.lower(k * Fraction(str(epsilon0)))
            if Fraction(repr(epsilon)) < most:  # read as its decimal
                exact = (1 + mpmath.exp(-of(Fraction(str(epsilon0))))) ** -k * -mpmath.expm1(of(Fraction(repr(epsilon)) - most))
                assert 0 < exact <= losses.exact_pure_delta(epsilon0, k, epsilon)


@pytest.mark.parametrize("epsilon0,k,step", [(0.7, 3, 0.7), (0.1, 7, 0.1), (0.3, 5, 0.1), (1.1, 9, 1.1), (0.75, 3, 0.15), (0.5, 4, 0.13)])
def test_a_law_on_the_grid_is_nowhere_below_the_true_one(epsilon0, k, step):
    """Also just below each loss, where the true law has its kinks; a step is a float, the losses are decimals."""
    with mpmath.workdps(50):
        low, law, lost = losses._on_grid(Fraction(str(epsilon0)), Fraction(0), k, step)
        e0, points = mpmath.mpf(str(epsilon0)), [(low + i) * mpmath.mpf(step) for i in range(law.size)]
        p = 1 / (1 + mpmath.exp(-e0))
        true = [(mpmath.binomial(k, i) * p ** (k - i) * (1 - p) ** i, (k - 2 * i) * e0) for i in range(k + 1)]

        def delta(law, epsilon):
            return mpmath.fsum(m * max(0, -mpmath.expm1(epsilon - loss)) for m, loss in law)
        for _, loss in true[:k // 2 + 1]:
            for below in (1e-25, 1e-17, 1e-9, 0.01):
                ours = lost + delta([(mpmath.mpf(m), x) for m, x in zip(law.tolist(), points)], loss - below)
                assert delta(true, loss - below) <= ours


def test_what_the_grid_cuts_off_counts_as_an_infinite_loss():
    for costs, delta in (([Pure(0.1)] * 1000, 1e-60), ([Pure(0.1)] * 150 + [Pure(0.2)] * 150, 1e-90)):
        with pytest.raises(ValueError, match=r"^delta must be above \d\.?\d*e-\d\d for the numerical account, got 1e-[69]0$"):
            composition.numerical(costs, delta)
    assert composition.numerical([Pure(0.1)] * 1000, 1e-40) >= losses.exact_pure_epsilon(0.1, 1000, 1e-40) * (1 - 1e-11)
    low, law, lost = losses._on_grid(Fraction(1, 10), Fraction(0), 1000, 0.1)
    with mpmath.workdps(40):
        p, top = 1 / (1 + mpmath.exp(-mpmath.mpf("0.1"))), low + int(np.flatnonzero(law)[-1]) - 1
        tail = mpmath.fsum(mpmath.binomial(1000, i) * p ** (1000 - i) * (1 - p) ** i for i in range(501) if 1000 - 2 * i > top)
        assert 0 < tail <= lost < 1e-42
    assert [x if np.isscalar(x) else x.tolist() for x in losses._cut(-3, np.arange(1.0, 9), 2)] == [-2, [3.0, 3, 4, 5, 6], 15.0]


@pytest.mark.parametrize("error", ["search", "rounding"])
@pytest.mark.parametrize("costs,delta", [([Gaussian(1.0)], 5e-14), ([Gaussian(0.3)], 1e-13), ([Pure(0.3)] * 20, 1e-6)])
def test_numerical_survives_a_library_that_is_a_little_off(error, costs, delta, monkeypatch):
    """A search that stops too early, and deltas too small by less than the bound that is stated for them."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    of_epsilon, of_delta = (getattr(pld.PrivacyLossDistribution, f"get_{name}") for name in ("delta_for_epsilon", "epsilon_for_delta"))
    off = 9e-15 * (error == "rounding") * isinstance(costs[0], Gaussian)
    early = 1 - 1e-6 * (error == "search")
    monkeypatch.setattr(pld.PrivacyLossDistribution, "get_delta_for_epsilon", lambda self, e: of_epsilon(self, e) - off)
    monkeypatch.setattr(pld.PrivacyLossDistribution, "get_epsilon_for_delta", lambda self, d: of_delta(self, d + off) * early)
    epsilon = composition.numerical(costs, delta)
    assert curves.gaussian_delta(epsilon, float(costs[0].mu)) <= delta if off or isinstance(costs[0], Gaussian) else True
    assert isinstance(costs[0], Gaussian) or losses.exact_pure_delta(0.3, 20, epsilon) <= delta * (1 + 1e-11)


def subsample_laws(n, x, rate, law):
    """Output laws with and without a record that would be counted, by all inclusion patterns of the n others and it."""
    out = []
    for records in ([0] * n + [x], [0] * n):
        mixed = {}
        for pattern in itertools.product((0, 1), repeat=len(records)):
            weight = math.prod(rate if kept else 1 - rate for kept in pattern)
            for output, p in law(sum(r for r, kept in zip(records, pattern) if kept)).items():
                mixed[output] = mixed.get(output, 0.0) + weight * p
        out.append(mixed)
    return out


@pytest.mark.parametrize("epsilon,delta", [(1.0, 0.0), (0.1, 1e-3), (4.0, 0.05)])
@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_a_poisson_sample_attains_its_bound(epsilon, delta, rate):
    """Randomized response on "is anyone counted?" that tells the truth outright with probability delta."""
    p = 1 / (1 + math.exp(-epsilon))

    def law(total):
        yes = bool(total)
        return {"yes": (1 - delta) * (p if yes else 1 - p), "no": (1 - delta) * (1 - p if yes else p), f"sure {yes}": delta}
    one, other = subsample_laws(3, 1, rate, law)
    stated, lost = costs.subsampled(epsilon, delta, rate)
    union = {o: 0.0 for o in {*one, *other}}
    one, other = union | one, union | other
    assert audit.finite_delta(one, other, stated) == pytest.approx(lost, rel=1e-9, abs=1e-11)
    assert audit.finite_delta(other, one, stated) <= lost + 1e-12
    if delta == 0:
        assert math.log(one["yes"] / other["yes"]) == pytest.approx(stated, rel=1e-9)
    assert audit.finite_delta(one, other, stated * 0.99) > lost


def test_a_public_sample_does_not_amplify():
    """Broken twin: who is in the sample is published too, so the record that is in it pays the full epsilon."""
    p = 1 / (1 + math.exp(-1.0))
    worst = max(math.log(p / (1 - p)) if kept else 0.0 for kept in (0, 1))
    assert worst > 2 * costs.subsampled(1.0, 0, 0.3)[0]


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1))
def test_subsampling_formula_at_forty_digits(epsilon, rate):
    stated, lost = costs.subsampled(epsilon, 1e-5, rate)
    with mpmath.workdps(40):
        exact = mpmath.log1p(mpmath.mpf(repr(rate)) * mpmath.expm1(mpmath.mpf(repr(epsilon))))
        assert exact * (1 - mpmath.mpf(10) ** -30) <= mpmath.mpf(repr(stated)) <= exact * (1 + 1e-11)
    assert Fraction(repr(lost)) >= Fraction(repr(rate)) / 10**5


@pytest.mark.parametrize("epsilon0", 10.0 ** np.arange(-8, 3))
def test_exact_pure_round_trip_over_ten_decades(epsilon0):
    for k in (1, 30, 1000):
        for share in (0.1, 0.5, 0.9):
            epsilon = share * k * epsilon0
            delta = losses.exact_pure_delta(epsilon0, k, epsilon)
            if not 1e-300 < delta < 1:
                continue
            back = losses.exact_pure_epsilon(epsilon0, k, delta)
            # epsilon itself is ill-conditioned where delta hardly falls: judge by delta
            assert delta * (1 - 1e-6) - 1e-14 <= losses.exact_pure_delta(epsilon0, k, back) <= delta
            more = losses.exact_pure_delta(epsilon0, k, 1.01 * epsilon)
            assert more <= delta  # falls with epsilon
