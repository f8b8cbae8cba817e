"""Attacks on a black box: bounds that hold as often as stated, and are as strong as computed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dputils import attacks, audit, geometric, noise


def rng(seed=0):
    return np.random.default_rng(seed)


def leaky(p, n, r):
    """An output of 0 or 1, 1 with probability p."""
    return (r.random(n) < p).astype(float)


@pytest.mark.parametrize(
    "claimed,spent,delta", [(0.5, 1.0, 0.0), (1.0, 1.5, 0.0), (0.5, 1.0, 0.01), (0.1, 0.25, 0.0)]
)
def test_a_lower_bound_catches_what_its_power_says(claimed, spent, delta):
    """Randomized response at `spent`, sold as `claimed`: a miss has probability below 1e-6."""
    p = 1 / (1 + math.exp(-spent))

    def worst_bound(n):  # at the worst of counts with probability 1 - 1e-6 on each half
        x, y = stats.binom.ppf(1.25e-7, n // 2, p), stats.binom.isf(1.25e-7, n // 2, 1 - p)
        return attacks.ratio_bound(int(x), n // 2, int(y), n // 2, delta, audit.ALPHA / 2)

    n = next(n for n in 2 ** np.arange(8, 24) if worst_bound(n) > claimed)
    found = attacks.epsilon_lower_bound(leaky(p, n, rng(1)), leaky(1 - p, n, rng(2)), delta=delta)
    true = math.log((p - delta) / (1 - p))
    assert claimed < found.epsilon <= true and found.confidence == 1 - audit.ALPHA


@pytest.mark.parametrize("confidence", [0.5, 0.9, 1 - 1e-6])
def test_a_lower_bound_splits_its_error_between_two_clopper_pearson_bounds(confidence):
    first, second = (
        np.tile([1, 1, 1, 0], 100),
        np.tile([0, 0, 0, 1], 50),
    )  # halves alike: 150 of 200 against 25 of 100
    error = (1 - confidence) / 2
    low = stats.binomtest(150, 200, alternative="greater").proportion_ci(1 - error, "exact").low
    high = stats.binomtest(25, 100, alternative="less").proportion_ci(1 - error, "exact").high
    found = attacks.epsilon_lower_bound(first, second, confidence=confidence)
    other = stats.binomtest(75, 100, alternative="greater").proportion_ci(1 - error, "exact").low
    back = stats.binomtest(50, 200, alternative="less").proportion_ci(1 - error, "exact").high
    assert (
        found.epsilon == pytest.approx(math.log(max(low / high, other / back)))
        and found.confidence == confidence
    )


def test_lower_bounds_are_right_as_often_as_stated():
    """600 runs at confidence 0.9: more overshoots than the binomial quantile have 1e-6."""
    overshoots, runs, n = 0, 600, 120
    for seed in range(runs):
        r = rng(seed)
        outputs = [geometric.release(np.full(n, c), 1, 0.5, rng=r) for c in (0, 1)]
        overshoots += attacks.epsilon_lower_bound(*outputs, confidence=0.9).epsilon > 0.5
    assert overshoots <= stats.binom.isf(1e-6, runs, 0.1)


def test_the_bound_holds_on_one_half_when_all_choice_is_made_on_the_other():
    """Equal laws: choosing among 192 events on all data would overshoot 0 often; on halves not."""
    overshoots = sum(
        attacks.epsilon_lower_bound(*rng(seed).normal(size=(2, 200)), confidence=0.9).epsilon > 0
        for seed in range(400)
    )
    assert overshoots <= stats.binom.isf(1e-6, 400, 0.1)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_lower_bound_finds_the_direction_and_the_side(direction):
    outputs = [
        noise.exponential(1.0, 20_000, rng=rng(seed)) + shift
        for seed, shift in ((1, 0.0), (2, 1.0))
    ]
    found = attacks.epsilon_lower_bound(*outputs[::direction])
    assert (
        found.epsilon > 3
    )  # the law's epsilon is infinite: outputs below 1 come from the first table only
    assert (
        found.event.endswith(f"more likely on table {1 if direction == 1 else 2}")
        and "<=" in found.event
    )


def test_a_lower_bound_sees_single_values_and_missing_ones():
    atoms = [noise.discrete_laplace(2, 20_000, rng=rng(1)) for _ in range(2)]
    atoms[1] = np.where(
        rng(2).random(20_000) < 0.5, 3, atoms[1]
    )  # one value in the middle, twice over
    assert attacks.epsilon_lower_bound(*atoms).event.startswith(
        "output == 3, more likely on table 2"
    )
    numbers = noise.laplace(1.0, 4000, rng=rng(3))
    missing = np.where(rng(4).random(4000) < 0.2, math.nan, numbers)
    found = attacks.epsilon_lower_bound(numbers, missing)
    assert found.epsilon > 2 and found.event == "output is NaN, more likely on table 2"
    assert attacks.epsilon_lower_bound(np.full(99, math.nan), np.full(99, math.nan)).epsilon == 0
    assert attacks.epsilon_lower_bound(np.full(4000, math.inf), numbers).epsilon > 4


def test_a_lower_bound_grants_its_delta():
    first, second = leaky(0.04, 40_000, rng(1)), leaky(0.0, 40_000, rng(2))
    assert attacks.epsilon_lower_bound(first, second).epsilon > 3
    assert attacks.epsilon_lower_bound(first, second, delta=0.05).epsilon == 0
    assert attacks.epsilon_lower_bound(first, second, delta=0.01).epsilon > 2


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_ratio_is_bounded_by_clopper_and_pearson(x, y):
    low = stats.binomtest(x, 50, alternative="greater").proportion_ci(0.99, "exact").low
    high = stats.binomtest(y, 50, alternative="less").proportion_ci(0.99, "exact").high
    expected = math.log(low / high) if low > 0 else -math.inf
    assert attacks.ratio_bound(x, 50, y, 50, 0.0, 0.01) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "call,message",
    [
        (
            lambda: attacks.epsilon_lower_bound([1], [1, 2]),
            "outputs_p and outputs_q must hold at least two outputs each, got 1 and 2",
        ),
        (
            lambda: attacks.epsilon_lower_bound([1, 2], [1, 2], delta=1),
            "delta must be in [0, 1), got 1",
        ),
        (
            lambda: attacks.epsilon_lower_bound([1, 2], [1, 2], confidence=1.0),
            "confidence must be strictly between 0 and 1, got 1.0",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_first_uniforms_are_those_of_numpy_bit_by_bit():
    seeds = np.concatenate(
        [[0, 1, 2**31, 2**32 - 1], np.random.default_rng(1).integers(2**32, size=300)]
    )
    own = attacks.first_uniforms(seeds)
    assert np.array_equal(own, [np.random.RandomState(int(s)).random_sample() for s in seeds])


def test_first_uniforms_keep_their_order_over_blocks_and_take_none():
    seeds = np.arange(3 * 2**14 + 5)
    own = attacks.first_uniforms(seeds)
    for s in (0, 2**14 - 1, 2**14, 3 * 2**14 + 4):
        assert own[s] == np.random.RandomState(s).random_sample()
    assert attacks.first_uniforms(seeds[:0]).shape == (0,)
    assert seeds[-1] == 3 * 2**14 + 4  # what was given is left alone


@pytest.mark.parametrize(
    "seeds", [np.array([0.5]), np.array([[1]]), np.array([-1]), np.array([2**32]), 7]
)
def test_first_uniforms_refuse_what_is_no_list_of_seeds(seeds):
    with pytest.raises(ValueError, match=r"seeds must"):
        attacks.first_uniforms(seeds)
