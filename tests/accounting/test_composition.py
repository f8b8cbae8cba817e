"""Composition: every account against exact laws, known values, and each other; none may state too
little."""

import functools
import itertools
import math
import random
import warnings
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dputils.accounting import composition, costs, curves, losses, renyi
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure, Renyi

TENTHS = [Pure(0.1)] * 100


def response(epsilon, delta=0.0):
    """Randomized response that gives the neighbour away with probability delta: losses and their
    probabilities."""
    p = 1 / (1 + math.exp(-epsilon))
    return {epsilon: (1 - delta) * p, -epsilon: (1 - delta) * (1 - p), math.inf: delta}


@functools.lru_cache
def composed(costs):
    """The law of the total loss of a tuple of costs by brute force: dict from loss to
    probability."""

    def add(one, other):
        out = {}
        for (a, p), (b, q) in itertools.product(one.items(), other.items()):
            out[round(a + b, 12)] = out.get(round(a + b, 12), 0.0) + p * q
        return out

    return functools.reduce(
        add, [response(float(c.epsilon), float(getattr(c, "delta", 0))) for c in costs], {0.0: 1.0}
    )


def true_delta(costs, epsilon):
    """Delta of responses and Gaussian releases together: the mean, over the responses' losses, of
    the Gaussian curve."""
    law = composed(tuple(c for c in costs if not isinstance(c, Gaussian)))
    mu = math.sqrt(sum(float(c.mu) ** 2 for c in costs if isinstance(c, Gaussian)))

    def left(e):  # delta of the Gaussian part at e, which may be negative
        if not mu:
            return max(0.0, -math.expm1(e))
        return (
            curves.gaussian_delta(e, mu)
            if e >= 0
            else 1 - math.exp(e) * (1 - curves.gaussian_delta(-e, mu))
        )

    return math.fsum(
        p * (1.0 if loss == math.inf else left(epsilon - loss)) for loss, p in law.items() if p
    )


def grid(costs):
    """A 4096th of the spread of the loss: the numerical account may be off by as much at its upper
    end."""
    return math.sqrt(sum(float(getattr(c, "epsilon", 0) or c.mu) ** 2 for c in costs)) / 4096


def true_epsilon(costs, delta):
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if true_delta(costs, middle) <= delta else (middle, high)
    return high


KINDS = "Pure, Approximate, ZCDP, Gaussian, Renyi"
LIST = f"costs must be a list of {KINDS}, got "
ONE = f"cost must be one of {KINDS}, got "


class Cheap(Pure):
    """A cost that says that it equals every other."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: composition.basic([0.1]), ONE + "0.1"),
        (lambda: composition.basic([Pure(1), Cheap(1)]), ONE + "Cheap(epsilon=Fraction(1, 1))"),
        (lambda: composition.basic(None), LIST + "None"),
        (lambda: composition.basic({Pure(1): -5}), LIST + "{Pure(epsilon=Fraction(1, 1)): -5}"),
        (lambda: composition.zcdp({Pure(1)}), LIST + "{Pure(epsilon=Fraction(1, 1))}"),
        (lambda: composition.epsilon_at(Pure(1), 0.1), LIST + "Pure(epsilon=Fraction(1, 1))"),
        (lambda: composition.epsilon_at(None, 0.1), LIST + "None"),
        (lambda: composition.numerical("1", 0.1), LIST + "'1'"),
        (lambda: composition.gaussian([[Pure(1)]]), ONE + "[Pure(epsilon=Fraction(1, 1))]"),
        (lambda: composition.epsilon_at([Pure(1), None], 0.1), ONE + "None"),
        (
            lambda: composition.numerical([Pure(1e300), Pure(1)], 0.1),
            "costs must be at most 10000 for the numerical account, got 1e+300",
        ),
        (
            lambda: composition.numerical([Gaussian(1e200)], 0.1),
            "costs must be at most 10000 for the numerical account, got inf",
        ),
        (
            lambda: composition.epsilon_at([Gaussian(10001)], 0.1, "gaussian"),
            "mu must be between 1e-12 and 10000, got ",
        ),
        (
            lambda: composition.epsilon_at([Pure(2e4)], 0.1, "zcdp"),
            "rho must be between 1e-24 and 1e+08, got 200000000.0",
        ),
        (
            lambda: composition.epsilon_at([ZCDP(1e-25)], 0.1, "zcdp"),
            "rho must be between 1e-24 and 1e+08, got 1e-25",
        ),
        (
            lambda: composition.epsilon_at([ZCDP(1)], 1e-301, "zcdp"),
            "delta must be between 1e-300 and 1, got 9.99",
        ),
        (
            lambda: composition.advanced([Pure(1e300)], 0.1),
            "costs must be at most 1e+06 for the advanced account, got 1e+300",
        ),
        (
            lambda: composition.advanced(TENTHS, Fraction(1, 10**400)),
            "slack must be strictly between 0 and 1, got 0.0",
        ),
        (
            lambda: composition.basic([ZCDP(1)]),
            "the basic account takes Pure and Approximate costs, got ZCDP: rho 1",
        ),
        (
            lambda: composition.advanced([Gaussian(1)], 0.1),
            "the advanced account takes Pure and Approximate costs, got Gaussian: mu 1",
        ),
        (lambda: composition.advanced(TENTHS, 0), "slack must be strictly between 0 and 1, got 0"),
        (
            lambda: composition.gaussian([ZCDP(1)]),
            "the gaussian account takes Gaussian and Pure costs, got ZCDP: rho 1",
        ),
        (
            lambda: composition.gaussian([Approximate(1, 0.1)]),
            "the gaussian account takes Gaussian and Pure costs, got Approximate: epsilon 1, ",
        ),
        (
            lambda: composition.renyi([Approximate(1, 0.1)]),
            "the renyi account takes Renyi and Gaussian and ZCDP and Pure costs, got "
            "Approximate: epsilon 1, delta 0.1",
        ),
        (
            lambda: composition.basic([Renyi([2], [1])]),
            "the basic account takes Pure and Approximate costs, got Renyi: a Renyi curve of 1 ",
        ),
        (
            lambda: composition.numerical([ZCDP(1)], 0.1),
            "the numerical account takes Gaussian and Pure and Approximate costs, got ZCDP: rho 1",
        ),
        (lambda: composition.numerical(TENTHS, 0), "delta must be strictly between 0 and 1, got 0"),
        (
            lambda: composition.numerical([Gaussian(1)], 1e-14),
            "delta must be above 2e-14 for the numerical account, got 1e-14",
        ),
        (
            lambda: composition.numerical([Approximate(1, 0.1)], 0.05),
            "delta must exceed the costs' own deltas for the numerical account, got 0.05",
        ),
        (lambda: composition.epsilon_at(TENTHS, 1), "delta must be in [0, 1), got 1"),
        (
            lambda: composition.epsilon_at(TENTHS, 0.1, "rdp"),
            "account must be one of 'basic', 'advanced', 'zcdp', 'gaussian', 'exact', 'renyi', "
            "'numerical', got 'rdp'",
        ),
        (
            lambda: composition.epsilon_at([Approximate(1, 0.1)], 0.05, "basic"),
            "delta must be at least 0.1 for the basic account, got 0.05",
        ),
        (
            lambda: composition.epsilon_at([Approximate(1, 0.1)], 0.1, "zcdp"),
            "delta must exceed the costs' own deltas for the zcdp account, got 0.1",
        ),
        (
            lambda: composition.epsilon_at([Approximate(1, 0.1)], 0.1, "exact"),
            "delta must exceed the costs' own deltas for the exact account, got 0.1",
        ),
        (
            lambda: composition.epsilon_at([Pure(1), Pure(2)], 0.1, "exact"),
            "the exact account needs releases of one epsilon, or Gaussian costs alone",
        ),
        (
            lambda: composition.epsilon_at([Pure(1), Gaussian(2)], 0.1, "exact"),
            "the exact account needs releases of one epsilon, or Gaussian costs alone",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_costs_may_come_from_a_generator():
    costs = [Approximate(0.1, 1e-3)] * 20 + [Approximate(0.2, 1e-4)]
    assert composition.advanced(iter(costs), 1e-6) == composition.advanced(costs, 1e-6)
    assert composition.advanced(costs, 1e-6)[1] > 0.0199
    assert composition.epsilon_at(iter(costs), 0.05) == composition.epsilon_at(costs, 0.05)


def test_nothing_costs_nothing():
    assert composition.advanced([], 1e-6) == (0.0, 1e-6)
    assert composition.numerical([], 0.5) == composition.numerical([Pure(0.1)], 0.9) == 0.0
    assert [composition.epsilon_at([], 0.5, name)[0] for name in composition.BY] == [0] * 7


def test_the_ends_of_the_ranges_give_numbers_without_warnings():
    tiny, nearly = Fraction(1, 10**400), 1 - Fraction(1, 10**30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("advanced", "zcdp", "exact", "numerical", "renyi"):
            assert 0 <= composition.epsilon_at([Pure(0.1)] * 3, nearly, name)[0] < 0.1
        assert composition.epsilon_at([Pure(1e300), Pure(2e300)], 0.1)[0] == 3e300
        assert costs.group(1, 1e-9, 10**400) == (10**400, 1)
        for certain in (nearly, 1 - tiny):
            assert 1 - 1e-11 < composition.advanced([Approximate(1, certain)], 1e-6)[1] <= 1
            for name in ("advanced", "exact", "numerical"):
                own = f"must exceed the costs' own deltas for the {name} account, got 0.5"
                with pytest.raises(ValueError, match=own):
                    composition.epsilon_at([Approximate(1, certain)] * 2, 0.5, name)
        for rho in (1e-24, 1e8):
            assert composition.epsilon_at([ZCDP(rho)], 0.1, "zcdp")[0] >= 0
        for mu in (1e-12, 1e4):
            assert composition.epsilon_at([Gaussian(mu)], 0.1, "gaussian")[0] >= 0
        assert composition.gaussian([Gaussian(1e-200)]) >= 1e-200


def test_no_account_at_all_says_why():
    with pytest.raises(
        ValueError, match="no account applies: the basic account takes .*; delta must exceed"
    ):
        composition.epsilon_at([ZCDP(1)], 0)


@pytest.mark.parametrize(
    "account,epsilon",
    [
        ("basic", 10),
        ("advanced", 5.7561055),
        ("zcdp", 5.2215344),
        ("gaussian", 6.3301158),
        ("exact", 4.7745676),
        ("numerical", 4.7745676),
    ],
)
def test_a_hundred_tenths(account, epsilon):
    assert composition.epsilon_at(TENTHS, 1e-6, account) == (
        pytest.approx(epsilon, abs=1e-7),
        account,
    )


def test_ten_thousand_hundredths():
    assert losses.exact_pure_epsilon(0.01, 10**4, 1e-6) == pytest.approx(4.8855156, abs=1e-7)
    costs = [Pure(0.01)] * 10**4
    assert composition.numerical(costs, 1e-6) == pytest.approx(
        4.8855156, abs=1e-7
    )  # its default grid would say 5.360
    assert composition.epsilon_at(costs, 1e-6) == (pytest.approx(4.8855156, abs=1e-7), "exact")


def test_advanced_is_worse_than_basic_for_few_releases():
    few, many = [Pure(0.1)] * 10, [Pure(0.1)] * 40
    mean = 10 * 0.1 * math.tanh(0.05)
    assert composition.advanced(few, 1e-6) == (
        pytest.approx(mean + math.sqrt(20 * math.log(1e6)) * 0.1),
        1e-6,
    )
    assert composition.advanced(few, 1e-6)[0] > 1.7 > composition.basic(few)[0] == 1
    assert composition.advanced(many, 1e-6)[0] < composition.basic(many)[0] == 4


def test_basic_sums_are_exact():
    assert composition.basic([Pure(0.1)] * 3 + [Approximate(0.2, 1e-7)] * 2) == (
        Fraction(7, 10),
        Fraction(2, 10**7),
    )
    assert composition.basic([]) == (0, 0) and composition.epsilon_at([], 0) == (0, "basic")


def test_zcdp_sums_are_exact():
    costs = [Pure(0.1)] * 10 + [Gaussian(0.3), ZCDP(Fraction(1, 3)), Approximate(1, 1e-9)]
    assert composition.zcdp(costs) == (
        Fraction(5, 100) + Fraction(45, 1000) + Fraction(1, 3) + Fraction(1, 2),
        Fraction(1, 10**9),
    )


def test_gaussian_releases_are_one_gaussian_release():
    costs = [Gaussian(3), Gaussian(4)]
    assert 0 <= composition.gaussian(costs) - 5 < 1e-11
    exact = curves.gaussian_epsilon(5.0, 1e-6)
    for account in ("gaussian", "exact"):
        assert exact <= composition.epsilon_at(costs, 1e-6, account)[0] <= exact * (1 + 1e-10)
    assert exact <= composition.numerical(costs, 1e-6) < exact * (1 + 1e-6)
    assert composition.epsilon_at(costs, 1e-6)[1] in ("gaussian", "exact")
    assert composition.mu_square(Pure(1)) >= Fraction(
        renyi.pure_to_gaussian(1.0)
    ) ** 2 and composition.mu_square(Gaussian(0.1)) == Fraction(1, 100)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 5, 30])
def test_a_gaussian_release_covers_a_pure_one(epsilon):
    """The Gaussian curve is nowhere below that of randomized response, and touches it."""
    mu = math.sqrt(composition.mu_square(Pure(epsilon)))
    grid = np.linspace(0, epsilon * (1 - 1e-9), 200)
    ours = [losses.exact_pure_delta(epsilon, 1, e) for e in grid]
    assert (curves.gaussian_delta(grid, mu) >= np.array(ours) * (1 - 1e-9)).all()
    assert curves.gaussian_delta(0.0, mu) == pytest.approx(ours[0], rel=1e-9)


EPSILONS = st.sampled_from([0.03, 0.1, 0.25, 0.31415926, 0.7, 1.0, 2.5])
SIMPLE = st.one_of(
    EPSILONS.map(Pure),
    st.tuples(EPSILONS, st.sampled_from([1e-9, 1e-4])).map(lambda p: Approximate(*p)),
)
MIXED = st.one_of(SIMPLE, st.sampled_from([0.05, 0.4, 1.5]).map(Gaussian))


@settings(deadline=None, max_examples=30)
@given(st.lists(MIXED, min_size=1, max_size=6), st.sampled_from([1e-6, 1e-3, 0.05]))
def test_no_account_states_too_little(costs, delta):
    stated = {}
    for account in composition.BY:
        try:
            stated[account] = composition.epsilon_at(costs, delta, account)[0]
        except ValueError:
            continue
    if not stated:
        return
    truth = true_epsilon(costs, delta)
    for account, epsilon in stated.items():
        assert epsilon >= truth * (1 - 1e-9) - 1e-12, (account, epsilon, truth)
    for account in {"exact", "numerical"} & set(
        stated
    ):  # these two are the truth, to the grid's error
        assert stated[account] <= truth + 1e-5 + grid(costs), (account, stated[account], truth)
    assert composition.epsilon_at(costs, delta)[0] == pytest.approx(min(stated.values()), rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.lists(SIMPLE, min_size=1, max_size=6), MIXED, st.sampled_from([1e-3, 0.05]))
def test_one_more_cost_or_a_smaller_delta_never_lowers_epsilon(costs, more, delta):
    for account in composition.BY:
        try:
            longer = composition.epsilon_at([*costs, more], delta, account)[0]
            tighter = composition.epsilon_at(costs, delta * 0.9, account)[0]
            epsilon = composition.epsilon_at(costs, delta, account)[0]
        except ValueError:
            continue
        assert longer >= epsilon * (1 - 1e-5) - 1e-6 and tighter >= epsilon * (1 - 1e-5) - 1e-6, (
            account
        )


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
    found = {
        a: composition.epsilon_at(costs, 1e-6, a)[0]
        for a in ("basic", "advanced", "zcdp", "numerical")
    }
    assert found["numerical"] < found["zcdp"] < found["advanced"] < found["basic"]


@pytest.mark.parametrize(
    "costs",
    [
        [Pure(0.3)] * 40,
        [Pure(0.3), Pure(0.7), Pure(1.1)] * 3,
        [Approximate(0.3, 1e-7)] * 30,
        [Pure(1 / 3)] * 5 + [Pure(math.sqrt(0.1))] * 4,
        [Pure(0.2)] * 5 + [Gaussian(0.5)] * 3,
        [Gaussian(0.02)] * 9 + [Pure(3)],
        [Gaussian(4.0), Pure(0.01), Approximate(0.1, 1e-8)],
    ],
)
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


def of(x):
    return mpmath.mpf(x.numerator) / x.denominator


def seeded(n=60):
    draw = random.Random(11)
    for _ in range(n):
        yield (
            [
                cost
                for _ in range(draw.randint(1, 4))
                for cost in [
                    draw.choice(
                        [
                            Pure,
                            lambda e: Approximate(e, draw.choice([1e-9, 3e-7, 1e-4, 0.01])),
                            Gaussian,
                        ]
                    )(round(10 ** draw.uniform(-4, 1), 6))
                ]
                * draw.choice([1, 3, 50, 1000])
            ],
            draw,
        )


def test_advanced_is_rounded_up_at_forty_digits():
    with mpmath.workdps(40):
        for costs, draw in seeded():
            costs, slack = (
                [c for c in costs if not isinstance(c, Gaussian)],
                10 ** draw.uniform(-12, -0.1),
            )
            epsilons = [of(c.epsilon) for c in costs]
            exact = mpmath.fsum(e * mpmath.tanh(e / 2) for e in epsilons) + mpmath.sqrt(
                -2 * mpmath.log(mpmath.mpf(slack)) * mpmath.fsum(e * e for e in epsilons)
            )
            kept = mpmath.fprod(1 - of(composition.own_delta(c)) for c in costs)
            epsilon, delta = composition.advanced(costs, slack)
            assert (
                exact <= epsilon <= exact * (1 + 2e-12)
                and 1 - (1 - mpmath.mpf(slack)) * kept <= delta
            )


def test_roots_are_rounded_up():
    for mixed, _ in seeded():
        some = [c for c in mixed if isinstance(c, (Pure, Gaussian))]
        square = sum(map(composition.mu_square, some))
        mu = composition.gaussian(some)
        assert square <= Fraction(mu) ** 2 <= square * (1 + Fraction(1, 10**11))


def test_what_the_costs_own_deltas_leave_is_rounded_down():
    with mpmath.workdps(40):
        for costs, draw in seeded(150):
            costs = [c for c in costs if not isinstance(c, Gaussian)]
            kept = mpmath.fprod(1 - of(composition.own_delta(c)) for c in costs)
            stated = composition._log_kept(Counter(costs))
            assert mpmath.log(kept) * (1 + 2e-14) <= stated <= mpmath.log(kept)
            delta = float(1 - kept * (1 - 10 ** draw.uniform(-12, -1)))
            left = 1 - (1 - of(Fraction(repr(delta)))) / kept  # the delta is read as its decimal
            if left > 1e-12:
                assert left - 1e-12 <= composition._slack("exact", costs, delta) <= left


SMALL = Fraction(8, 5) * Fraction(1, 10**299)
SMALL += Fraction(math.ulp(float(SMALL))) * 3 / 5  # between two floats, nearer to the one above


def test_a_delta_between_two_floats_is_rounded_down_for_zcdp():
    with mpmath.workdps(60):
        for rho in (0.01, 0.5, 3):
            r, log = mpmath.mpf(repr(rho)), -mpmath.log(of(SMALL))

            def slope(t, r=r, log=log):
                return r * t * t + mpmath.log1p(t) - log

            t = mpmath.findroot(slope, mpmath.sqrt(log / r))
            exact = (1 + t) * r + (log - mpmath.log1p(t)) / t - mpmath.log1p(1 / t)
            ours = composition.epsilon_at([ZCDP(rho)], SMALL, "zcdp")[0]
            assert exact <= ours <= exact * (1 + mpmath.mpf(10) ** -12)


def test_a_basic_sum_is_rounded_up():
    for count in (4, 10):  # the nearest floats lie below and above
        exact = count * Fraction(1, 3)
        ours = composition.epsilon_at([Pure(Fraction(1, 3))] * count, 0, "basic")[0]
        assert exact <= Fraction(ours) <= exact + Fraction(math.ulp(ours))


def test_a_zcdp_conversion_is_asked_for_no_less_rho_and_no_more_delta_than_is_stated(monkeypatch):
    asked = []

    def converted(*stated):
        asked.append(tuple(map(Fraction, stated)))
        return 1.0

    monkeypatch.setattr(composition.renyi_curves, "zcdp_epsilon", converted)
    rho, delta = (
        Fraction(x) + Fraction(math.ulp(x)) * part / 5 for x, part in ((0.3, 2), (1e-6, 3))
    )
    composition.epsilon_at([ZCDP(rho)], delta, "zcdp")
    ((upper, lower),) = asked
    assert Fraction(0.3) < rho <= upper and lower == Fraction(1e-6)


@pytest.mark.parametrize("error", ["search", "rounding"])
@pytest.mark.parametrize(
    "costs,delta", [([Gaussian(1.0)], 5e-14), ([Gaussian(0.3)], 1e-13), ([Pure(0.3)] * 20, 1e-6)]
)
def test_numerical_survives_a_library_that_is_a_little_off(error, costs, delta, monkeypatch):
    """A search that stops too early, and deltas too small by less than the bound that is stated for
    them."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    of_epsilon, of_delta = (
        getattr(pld.PrivacyLossDistribution, f"get_{name}")
        for name in ("delta_for_epsilon", "epsilon_for_delta")
    )
    off = 9e-15 * (error == "rounding") * isinstance(costs[0], Gaussian)
    early = 1 - 1e-6 * (error == "search")
    monkeypatch.setattr(
        pld.PrivacyLossDistribution,
        "get_delta_for_epsilon",
        lambda self, e: of_epsilon(self, e) - off,
    )
    monkeypatch.setattr(
        pld.PrivacyLossDistribution,
        "get_epsilon_for_delta",
        lambda self, d: of_delta(self, d + off) * early,
    )
    epsilon = composition.numerical(costs, delta)
    assert (
        curves.gaussian_delta(epsilon, float(costs[0].mu)) <= delta
        if off or isinstance(costs[0], Gaussian)
        else True
    )
    assert isinstance(costs[0], Gaussian) or losses.exact_pure_delta(0.3, 20, epsilon) <= delta * (
        1 + 1e-11
    )
