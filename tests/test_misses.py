"""What a law test would not notice: against independent formulas, and by twins on both sides."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from dputils import audit, gaussian, geometric, laplace, misses, noise

N = 20_000
ALPHA = BETA = 1e-6
NEAREST = math.sqrt(math.log(12 / ALPHA) / (2 * N)) + math.sqrt(math.log(2 / BETA) / (2 * N))


def rng(seed=0):
    return np.random.default_rng(seed)


def laplace_budget(c):
    return lambda x: laplace.cdf(x, 2.0 / c)


def gaussian_budget(c):
    return lambda x: gaussian.cdf(x, 2.0 / c)


def geometric_budget(c):
    return lambda z: geometric.cdf(z, 4 / c)


def laplace_distance(c):
    """The largest gap of two Laplace laws: (e^-x - e^-cx)/2 at x = ln(c)/(c - 1)."""
    x = math.log(c) / (c - 1)
    return (math.exp(-x) - math.exp(-c * x)) / 2


def gaussian_distance(c):
    """The largest gap of two centred normal laws, at x^2 = 2 ln(c)/(c^2 - 1)."""
    x = math.sqrt(2 * math.log(c) / (c * c - 1))
    return special.ndtr(c * x) - special.ndtr(x)


@pytest.mark.parametrize(
    "law,weaker,distance,shown",
    [
        (laplace_budget(1), laplace_budget, laplace_distance, 1.24),
        (gaussian_budget(1), gaussian_budget, gaussian_distance, 1.18),
    ],
)
def test_the_budget_that_20000_draws_miss(law, weaker, distance, shown):
    for c in (1.1, 1.5, 4):
        assert misses.law_distance(law, weaker(c)) == pytest.approx(distance(c), abs=1e-6)
    exact = optimize.brentq(lambda c: distance(c) - NEAREST, 1.01, 3)
    found = misses.would_miss(N, law, weaker=weaker)
    assert found.budget == shown == math.ceil(100 * exact) / 100
    assert found.disclosure == pytest.approx(1 - BETA ** (1 / N), rel=1e-9)
    assert str(found) == (
        f"20,000 draws; a budget up to {shown} times the stated one, or an exact disclosure "
        "in 0.069 % of the releases, would pass."
    )


@pytest.mark.parametrize("k", [1, 3])
def test_a_twin_at_the_missed_budget_is_caught_and_a_nearer_one_may_pass(k):
    """At c* a miss has probability below 1e-6; half way to it the distance is below the limit."""
    n = 4000
    budget = misses.would_miss(n, laplace_budget(1), k=k, weaker=laplace_budget).budget
    for seed in range(10):
        twin = noise.laplace(2.0 / budget, (n, k), rng=rng(seed))
        assert not audit.law_test(twin, laplace_budget(1)).passes()
        nearer = noise.laplace(2.0 / (1 + (budget - 1) / 4), (n, k), rng=rng(seed))
        assert audit.law_test(nearer, laplace_budget(1)).passes()


def test_the_truth_at_the_missed_rate_is_caught():
    rate = misses.would_miss(N, laplace_budget(1)).disclosure
    assert rate == pytest.approx(6.9e-4, rel=0.01)
    for seed in range(10):
        r = rng(seed)
        twin = noise.laplace(2.0, N, rng=r) * (r.random(N) >= rate)
        assert not audit.law_test(twin, laplace_budget(1)).passes()


def test_the_truth_in_integer_noise_is_missed_more_often():
    """The law gives zeros itself, so a rate is missed up to exact binomial bounds, below 2 d*."""
    law = geometric_budget(1)
    rate = misses.would_miss(N, law, discrete=True).disclosure
    zero = float(law(0) - law(-1))
    needed = stats.binom.isf(ALPHA / 12, N, zero) + 1
    own = zero + rate * (1 - zero)
    assert stats.binom.sf(needed - 1, N, own) == pytest.approx(1 - BETA, abs=1e-9)
    assert 0.02 < rate < 2 * NEAREST / (1 - zero)
    for seed in range(10):
        r = rng(seed)
        twin = noise.discrete_laplace(4, N, rng=r) * (r.random(N) >= rate)
        assert not audit.law_test(twin, law, discrete=True, rng=r).passes()


def test_few_draws_miss_everything():
    found = misses.would_miss(10, laplace_budget(1), weaker=laplace_budget)
    assert found.budget == math.inf and str(found).startswith("10 draws; any larger budget, or an")
    assert misses.would_miss(1, geometric_budget(1), discrete=True).disclosure == 1


def test_coarse_rounding_hides_disclosures_up_to_the_laws_distance():
    fine, coarse = (misses.would_miss(N, laplace_budget(1), zero=p) for p in (0.0, 0.2))
    assert fine.disclosure < 1e-3 and 0.02 < coarse.disclosure <= 2 * NEAREST
    assert misses.would_miss(N, laplace_budget(1), zero=1.0).disclosure == 2 * NEAREST


def test_finite_laws():
    def answer(c):
        yes = 1 / (1 + math.exp(-c))
        return {"yes": yes, "no": 1 - yes}

    found = misses.would_miss(N, answer(1), weaker=answer)
    exact = special.logit(answer(1)["yes"] + NEAREST)
    assert found.budget == pytest.approx(exact, abs=0.01) and found.budget >= exact
    # the truth "yes" moves the law by the probability of "no" times its rate
    assert found.disclosure == pytest.approx(NEAREST / answer(1)["no"])
    assert misses.law_distance({"a": 1.0}, {"b": 1.0}) == 1
    assert misses.law_distance([0.5, 0.5], [0.25, 0.75]) == 0.25
    assert misses.law_distance({1: 0.5, 2: 0.5}, {2: 0.5, 1: 0.5}) == 0


def test_a_finite_law_of_truth_and_answer_states_what_a_disclosure_is():
    """Even bits told truthfully with probability p: a disclosure moves 1 - p of the mass."""
    p = 0.8
    law = {(0, 0): p / 2, (1, 1): p / 2, (0, 1): (1 - p) / 2, (1, 0): (1 - p) / 2}
    plain = misses.would_miss(N, law)
    assert plain.disclosure == pytest.approx(NEAREST / (p / 2))
    found = misses.would_miss(N, law, disclosed={(0, 0): 0.5, (1, 1): 0.5})
    assert found.disclosure == pytest.approx(NEAREST / (1 - p))
    assert misses.would_miss(N, law, disclosed=law).disclosure == 1
    source = rng(3)

    def mixed(share):
        truth = source.integers(2, size=N)
        told = np.where(source.random(N) < p, truth, 1 - truth)
        told = np.where(source.random(N) < share, truth, told)
        return list(zip(truth.tolist(), told.tolist()))

    assert not audit.law_test(mixed(found.disclosure), law, rng=source).passes()
    test = audit.assert_law(
        mixed(found.disclosure / 10), law, disclosed={(0, 0): 0.5, (1, 1): 0.5}, rng=source
    )
    assert test.missed == found


def test_laws_far_from_zero_and_at_any_scale():
    for scale in (1e-9, 1.0, 1e9):
        laws = [lambda x, m=5 * scale, b=b: laplace.cdf(x - m, b) for b in (scale, scale / 2)]
        assert misses.law_distance(*laws) == pytest.approx(1 / 8, abs=1e-6)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: misses.would_miss(0, laplace_budget(1)), "n must be at least 1, got 0"),
        (lambda: misses.would_miss(9, laplace_budget(1), k=0), "k must be at least 1, got 0"),
        (
            lambda: misses.would_miss(9, laplace_budget(1), alpha=0),
            "alpha must be strictly between 0 and 1, got 0",
        ),
        (
            lambda: misses.would_miss(9, laplace_budget(1), beta=1),
            "beta must be strictly between 0 and 1, got 1",
        ),
        (
            lambda: misses.law_distance([0.5], [1.0]),
            "law must sum to 1, its probabilities sum to 1 -0.5",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_a_law_that_is_always_the_truth_discloses_whatever_the_draws():
    def nothing_added(x):
        return (np.asarray(x) >= 0).astype(float)

    assert misses.would_miss(1000, nothing_added, discrete=True).disclosure == 1


@pytest.mark.parametrize(
    ("disclosure", "shown"), [(0.997, "100 %"), (0.48, "48 %"), (0.0955, "9.6 %"), (7e-4, "0.07 %")]
)
def test_a_share_of_the_releases_is_written_without_a_power_of_ten(disclosure, shown):
    assert f"an exact disclosure in {shown} of" in str(misses.Misses(600, None, disclosure))
