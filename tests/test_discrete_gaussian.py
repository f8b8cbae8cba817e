"""The discrete Gaussian mechanism: delta by its definition, scales, laws against sums; releases
against their laws.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dputils import audit, discrete_gaussian, gaussian, noise, sensitivity
from dputils.accounting import ZCDP, Approximate, curves

RNG = np.random.default_rng


def discrete_cdf(sigma):
    """Distribution function of the discrete Gaussian law, from its weights."""
    width = math.ceil(12 * float(sigma)) + 2
    z = np.arange(-width, width + 1)
    weights = np.exp(-z * z / (2 * float(sigma) ** 2))
    total = np.concatenate([[0], np.cumsum(weights)]) / weights.sum()
    return lambda x: total[np.clip(np.floor(x).astype(int) + width + 1, 0, total.size - 1)]


# --------------------------------------------------------------------------------- delta and scales


def exact_discrete_delta(epsilon, sigma, shift=1):
    """Sum of (p(k) - e^epsilon p(k - shift))_+ with 60 digits, as it is defined, and the other
    direction.
    """
    epsilon, s2 = mpf(repr(float(epsilon))), mpf(repr(float(sigma))) ** 2
    width = int(40 * sigma) + 3 * shift + 5
    weight = {k: mp.exp(-(mpf(k) ** 2) / (2 * s2)) for k in range(-width, width + 1)}
    size, factor = mp.fsum(weight.values()), mp.exp(epsilon)
    p, zero = (lambda k: weight.get(k, mpf(0))), mpf(0)
    there = (
        mp.fsum(max(zero, p(k) - factor * p(k - shift)) for k in range(-width + shift, width))
        / size
    )
    back = (
        mp.fsum(max(zero, p(k - shift) - factor * p(k)) for k in range(-width + shift, width))
        / size
    )
    return max(there, back)


def test_discrete_delta_known_values():
    assert discrete_gaussian.delta(1, 1) == pytest.approx(0.14135, abs=5e-6)
    assert curves.gaussian_delta(1, 1) == pytest.approx(0.12694, abs=5e-6)
    assert discrete_gaussian.delta(1, 2) == pytest.approx(0.0072488, abs=5e-8)
    assert curves.gaussian_delta(1, 0.5) == pytest.approx(0.0068296, abs=5e-8)
    assert discrete_gaussian.delta(0.5, 1) == pytest.approx(0.20398, abs=5e-6)
    assert curves.gaussian_delta(0.5, 1) == pytest.approx(0.23842, abs=5e-6)


def test_discrete_delta_is_the_definition_rounded_up():
    rng = RNG(7)
    cases = [
        (
            rng.choice([0, 0.01, 0.5, 1, 3, 10]),
            round(10 ** rng.uniform(-1.2, 1.3), 3),
            int(rng.integers(1, 12)),
        )
        for _ in range(60)
    ]
    with mpmath.workdps(60):
        for epsilon, sigma, shift in cases + [(1, 0.05, 1), (2, 1, 2), (0, 1, 40), (1, 3, 200)]:
            true, ours = (
                exact_discrete_delta(epsilon, sigma, shift),
                discrete_gaussian.delta(epsilon, sigma, shift),
            )
            if true > 1e-300:
                assert (
                    true * (1 - mpf(10) ** -50)
                    <= ours
                    <= true * (1 + 1e-13 + 1e-15 * abs(mp.log(true)))
                )
            else:
                assert ours <= 1e-299


def test_discrete_delta_of_large_sigma_meets_the_continuous_curve_and_tiny_delta():
    for epsilon, sigma in [(0.01, 300), (0.001, 1e4), (1e-6, 1e6), (1e-4, 3e5)]:
        smooth = curves.gaussian_delta(epsilon, 1 / sigma)
        assert discrete_gaussian.delta(epsilon, sigma) == pytest.approx(smooth, rel=1e-3)
    assert math.log(discrete_gaussian.delta(1, 36.5)) == pytest.approx(
        curves.gaussian_log_delta(1, 1 / 36.5), rel=1e-3
    )
    assert 1e-296 < discrete_gaussian.delta(1, 36.5) < 1e-288
    assert discrete_gaussian.delta(1e9, 1000) == discrete_gaussian.delta(1e308, 1e6) == 5e-324
    assert discrete_gaussian.delta(0, 1e-6) == discrete_gaussian.delta(1, 1, 10**30) == 1
    assert (
        discrete_gaussian.delta(1, 1, 10**300) == discrete_gaussian.delta(1e200, 1e6, 10**300) == 1
    )
    assert discrete_gaussian.delta(1, 38.3) > 5e-324 == discrete_gaussian.delta(1, 41)
    assert discrete_gaussian.delta(Fraction(1, 3), Fraction(7, 2)) == pytest.approx(
        discrete_gaussian.delta(1 / 3, 3.5)
    )


def test_a_larger_shift_is_never_cheaper():
    for epsilon, sigma in [(0, 1), (0.3, 2), (1, 0.7), (2, 5)]:
        deltas = [discrete_gaussian.delta(epsilon, sigma, shift) for shift in range(1, 20)]
        assert all(a <= b * (1 + 1e-12) for a, b in zip(deltas, deltas[1:]))


@settings(max_examples=60)
@given(st.integers(1, 9), st.floats(-3, 1.5), st.floats(-30, -0.1))
def test_discrete_sigma_holds_and_one_step_less_does_not(shift, log_epsilon, log_delta):
    epsilon, delta = round(10**log_epsilon, 6) + 1e-6, 10**log_delta
    sigma = discrete_gaussian.sigma(shift, epsilon, delta)
    step = Fraction(2) ** (math.frexp(gaussian.sigma(shift, epsilon, delta))[1] - 21)
    assert type(sigma) is Fraction and (sigma / step).denominator == 1
    assert discrete_gaussian.delta(epsilon, sigma, shift) <= delta
    assert sigma == step or discrete_gaussian.delta(epsilon, sigma - step, shift) > delta


def test_discrete_sigma_beside_the_continuous_one():
    assert float(discrete_gaussian.sigma(1, 1, 1e-6)) == pytest.approx(
        4.230782, abs=1e-5
    )  # above 4.224679
    assert float(discrete_gaussian.sigma(1, 10, 1e-6)) == pytest.approx(
        0.499906, abs=1e-5
    )  # below 0.541087


def test_discrete_release_draws_its_law_exactly_and_twins_are_caught():
    value, n = np.array([[3, -7]]), 40_000
    sigma = discrete_gaussian.zcdp_sigma(math.sqrt(2), Fraction(1, 9))
    assert float(sigma) == pytest.approx(3, rel=1e-10)
    drawn = (
        discrete_gaussian.release(
            np.repeat(value, n, axis=0), math.sqrt(2), Fraction(1, 9), rng=RNG(8)
        )
        - value
    )
    assert drawn.dtype == np.int64
    law = discrete_cdf(sigma)
    assert audit.law_test(drawn, law, discrete=True, rng=RNG(9)).passes()
    small = discrete_gaussian.release(np.zeros((n, 2), dtype=int), 1.2, Fraction(1, 9), rng=RNG(8))
    rounded = np.rint(
        noise.gaussian(3.0, (n, 2), rng=RNG(10))
    )  # variance sigma^2 + 1/12: not the same law
    same = np.repeat(drawn[:, :1], 2, axis=1)
    assert not audit.law_test(small, law, discrete=True, rng=RNG(9)).passes()
    assert not audit.law_test(same, law, discrete=True, rng=RNG(9)).passes()
    tight = discrete_cdf(0.5)
    rounded = np.rint(
        noise.gaussian(0.5, n, rng=RNG(10))
    )  # rounding a continuous noise is another law
    assert not audit.law_test(rounded, tight, discrete=True, rng=RNG(9)).passes()


@given(st.fractions(Fraction(1, 10**9), 10**9), st.fractions(Fraction(1, 10**9), 10**9))
def test_the_scale_of_a_zcdp_release_is_just_above_the_root(size, rho):
    sigma = discrete_gaussian.zcdp_sigma(size, rho)
    assert size**2 / (2 * rho) < sigma**2 < size**2 / (2 * rho) * (1 + Fraction(1, 2**37))


@pytest.mark.filterwarnings("error")
def test_a_sum_beyond_64_bits_wraps_without_a_warning():
    drawn = [discrete_gaussian.release(2**63 - 1, 1, 0.01, rng=RNG(seed)) for seed in range(20)]
    assert min(drawn) < 0 < max(drawn)


def test_discrete_release_of_numbers_and_the_system():
    assert type(discrete_gaussian.release(5, 1, 0.1, rng=noise.SYSTEM)) is int
    assert discrete_gaussian.release(
        np.zeros((2, 3), dtype=np.int8), 1, 0.1, rng=noise.SYSTEM
    ).shape == (2, 3)
    assert (
        discrete_gaussian.release(2**63 + 5, 1, 10**6, rng=RNG(1)) == -(2**63) + 5
    )  # wraps, never raises


# ----------------------------------------------------------------------------------- law and errors


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1, 1.9, 2, 7.5, 255.9, 256, Fraction(901, 3)])
def test_laws_against_sums_of_many_digits(sigma):
    with mpmath.workdps(60):
        s = mpf(Fraction(sigma).numerator) / Fraction(sigma).denominator
        weights = [mp.exp(-(mpf(m) ** 2) / (2 * s * s)) for m in range(int(38 * s) + 3)]
        normaliser = 2 * mp.fsum(weights) - 1
        beyond, total = {}, mpf(0)
        for m in reversed(range(len(weights))):
            total += weights[m]
            beyond[m] = total / normaliser  # P(Z >= m)
        variance = 2 * mp.fsum(m * m * w for m, w in enumerate(weights)) / normaliser
        reach = sorted(
            {m for x in (0.01, 0.5, 1, 3, 10, 20, 30, 36) if (m := round(float(x * s))) >= 1}
        )
        for m in reach:
            if beyond[m] > 1e-300:
                assert discrete_gaussian.cdf(-m, sigma) == pytest.approx(
                    float(beyond[m]), rel=1e-12, abs=0
                )
                assert discrete_gaussian.tail(m - 1, sigma) == pytest.approx(
                    float(2 * beyond[m]), rel=1e-12, abs=0
                )
            assert discrete_gaussian.cdf(m - 1, sigma) == pytest.approx(
                float(1 - beyond[m]), rel=1e-14
            )
            exact = mp.log(weights[m] / normaliser)
            assert discrete_gaussian.logpmf(-m, sigma) == pytest.approx(
                float(exact), rel=1e-14, abs=1e-15
            )
    assert discrete_gaussian.variance(sigma) == pytest.approx(float(variance), rel=1e-12, abs=0)


def test_laws_at_the_ends():
    z = np.array([-1.0, -0.5, 0, 0.5, 1])
    assert (
        discrete_gaussian.cdf(z, 3).tolist() == discrete_gaussian.cdf([-1, -1, 0, 0, 1], 3).tolist()
    )
    assert discrete_gaussian.logpmf(z, 3)[[1, 3]].tolist() == [-math.inf] * 2
    for sigma in (1, 1000, 2.0**50):
        assert (
            discrete_gaussian.cdf(math.inf, sigma) == 1
            and discrete_gaussian.cdf(-math.inf, sigma) == 0
        )
        assert (
            discrete_gaussian.tail(-1, sigma) == 1
            and discrete_gaussian.tail(60 * sigma, sigma) == 0
        )
        both = discrete_gaussian.cdf(-1, sigma) + np.exp(discrete_gaussian.logpmf(0, sigma))
        assert both == pytest.approx(float(discrete_gaussian.cdf(0, sigma)), rel=1e-14)
    assert (
        discrete_gaussian.cdf(z, 3, centre=4).tolist() == discrete_gaussian.cdf(z - 4, 3).tolist()
    )
    assert discrete_gaussian.logpmf(7, 3, centre=4) == discrete_gaussian.logpmf(3, 3)


@pytest.mark.parametrize("sigma", [0.05, 1, Fraction(7, 3), 40, 1e6, 2.0**45])
@pytest.mark.parametrize("beta, k", [(1e-6, 1), (0.05, 1), (0.05, 12), (0.9, 3)])
def test_accuracy_is_the_smallest_integer(sigma, beta, k):
    alpha = discrete_gaussian.accuracy(sigma, beta, k)
    one = -math.expm1(math.log1p(-beta) / k)
    assert isinstance(alpha, int) and 0 <= alpha <= gaussian.accuracy(sigma, beta, k) + 1
    assert discrete_gaussian.tail(alpha, sigma) <= one < discrete_gaussian.tail(alpha - 1, sigma)


# --------------------------------------------------------------------------------------- mechanisms

COUNT = sensitivity.of_count("add-remove", unit="person")


def test_the_mechanism_is_its_release():
    moved = sensitivity.of_counts(5, "replace-one", "l2")
    mechanism = discrete_gaussian.mechanism(moved, 0.1)
    assert mechanism.costs == (ZCDP(Fraction(1, 10)),) and mechanism.exact and mechanism.discrete
    assert (mechanism.neighbours, mechanism.unit, mechanism.sensitivity) == (
        "replace-one",
        "row",
        moved,
    )
    values = np.array([[3, 2**62], [0, -5]])
    assert (
        mechanism(values, rng=RNG(3)).tolist()
        == discrete_gaussian.release(values, moved, 0.1, rng=RNG(3)).tolist()
    )
    assert type(discrete_gaussian.mechanism(COUNT, 0.1)(5, rng=noise.SYSTEM)) is int


@pytest.mark.parametrize("size, epsilon, delta", [(1, 1, 1e-6), (3, 0.1, 1e-9), (1, 10, 0.01)])
def test_the_mechanism_of_one_integer_at_epsilon_and_delta(size, epsilon, delta):
    moved = sensitivity.of_sum(0, size, "add-remove")
    mechanism = discrete_gaussian.mechanism(moved, epsilon=epsilon, delta=delta)
    sigma = mechanism.draw.keywords["sigma"]
    assert (
        sigma
        == discrete_gaussian.sigma(moved, epsilon, delta)
        == discrete_gaussian.sigma(size, epsilon, delta)
    )
    assert discrete_gaussian.delta(epsilon, sigma, moved) <= delta
    rho, pair = mechanism.costs
    assert pair == Approximate(epsilon, delta)
    assert (
        Fraction(size**2) / (2 * sigma**2)
        <= rho.rho
        < Fraction(size**2) / (2 * sigma**2) * (1 + Fraction(1, 2**51))
    )


def test_the_law_of_the_mechanism_is_that_of_its_draws_and_of_its_budget():
    value, generator = np.array([5, -2]), RNG(21)
    vector = discrete_gaussian.mechanism(
        sensitivity.of_counts(2, "add-remove", "l2"), Fraction(1, 9)
    )
    drawn = np.array([vector(value, rng=generator) for _ in range(8000)]) - value
    one = discrete_gaussian.mechanism(COUNT, epsilon=1, delta=1e-3)
    alone = np.array([one(4, rng=generator) for _ in range(8000)]) - 4
    for samples, law in ((drawn, vector.law), (alone, one.law)):
        assert audit.law_test(samples, law(1), discrete=True, rng=RNG(3)).passes()
        assert not audit.law_test(samples, law(2), discrete=True, rng=RNG(3)).passes()
        assert not audit.law_test(samples // 2, law(1), discrete=True, rng=RNG(3)).passes()
    assert not audit.law_test(drawn * [1, 0], vector.law(1), discrete=True, rng=RNG(3)).passes()
    assert vector.law(4)(3) == discrete_gaussian.cdf(
        3, float(discrete_gaussian.zcdp_sigma(math.sqrt(2), Fraction(1, 9))) / 2
    )


@pytest.mark.parametrize(
    "call,sentence",
    [
        (
            lambda: discrete_gaussian.release(1, 1, 1e-300, rng=RNG(1)),
            "sensitivity and rho ask for a sigma above "
            "2**50, got 1 and 1e-300: take a coarser grid",
        ),
        (lambda: discrete_gaussian.delta(-1, 1), "epsilon must be at least 0, got -1"),
        (
            lambda: discrete_gaussian.delta(1, 2e6),
            "sigma must be between 1e-6 and 1e6 steps of the grid, got 2000000.0",
        ),
        (lambda: discrete_gaussian.delta(1, 1, 1.5), "sensitivity must be an integer, got 1.5"),
        (
            lambda: discrete_gaussian.sigma(0, 1, 0.1),
            "sensitivity must be positive and finite, got 0",
        ),
        (lambda: discrete_gaussian.sigma(1, 1, 0), "delta must be strictly between 0 and 1, got 0"),
        (
            lambda: discrete_gaussian.release(1, 0, 1, rng=RNG(1)),
            "sensitivity must be positive and finite, got 0",
        ),
        (
            lambda: discrete_gaussian.release(1, 1, -1, rng=RNG(1)),
            "rho must be positive and finite, got -1",
        ),
        (
            lambda: discrete_gaussian.sigma(1, 1e-6, 1e-9),
            "sensitivity, epsilon and delta ask for sigma 2.44e+06; sigma reaches 9.9e5 "
            "steps of the grid: take a coarser grid",
        ),
        (
            lambda: discrete_gaussian.sigma(1, 1001, 1e-9),
            "epsilon must be between 1e-06 and 1000 or 0, got 1001",
        ),
        (
            lambda: discrete_gaussian.sigma(sensitivity.of_counts(2, "add-remove", "l2"), 1, 1e-9),
            "sensitivity must be in the norm 'absolute', got",
        ),
        (
            lambda: discrete_gaussian.zcdp_sigma(1, 1e40),
            "sensitivity and rho ask for a sigma below 2**-50, got 1 and 1e+40: take a finer grid",
        ),
        (
            lambda: discrete_gaussian.mechanism(1, 1),
            "sensitivity must be a Sensitivity, which names the relation and the unit",
        ),
        (
            lambda: discrete_gaussian.mechanism(sensitivity.of_histogram("add-remove"), 1),
            "sensitivity must be in the norm 'absolute' or 'l2'",
        ),
        (
            lambda: discrete_gaussian.mechanism(COUNT),
            "epsilon must be positive and finite, got None",
        ),
        (
            lambda: discrete_gaussian.mechanism(COUNT, epsilon=1),
            "delta must be strictly between 0 and 1, got None",
        ),
        (
            lambda: discrete_gaussian.mechanism(COUNT, 1, epsilon=1),
            "rho must be left out beside epsilon and delta, got 1",
        ),
        (
            lambda: discrete_gaussian.mechanism(COUNT, 1)([1], rng=RNG(1)),
            "value must be one number for a sensitivity in the norm 'absolute'",
        ),
        (lambda: discrete_gaussian.cdf(0, 2.0**51), "sigma must be between 2**-50 and 2**50, got"),
        (lambda: discrete_gaussian.logpmf(0, 0), "sigma must be positive and finite, got 0"),
        (lambda: discrete_gaussian.tail(0, -1), "sigma must be positive and finite, got -1"),
        (lambda: discrete_gaussian.variance("1"), "sigma must be positive and finite, got '1'"),
        (lambda: discrete_gaussian.accuracy(1, 0), "beta must be strictly between 0 and 1, got 0"),
    ],
)
def test_refusals_name_argument_and_value(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(sentence)
