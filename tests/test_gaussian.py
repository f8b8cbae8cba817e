"""The Gaussian mechanism: scales, laws, combination, Gram matrices, and the exact discrete mechanism, each release
against its law and beside broken twins."""
import csv
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dputils import audit, discrete_gaussian, gaussian, noise, sensitivity
from dputils.accounting import curves
from dputils.book import data

RNG = np.random.default_rng


def discrete_cdf(sigma):
    """Distribution function of the discrete Gaussian law, from its weights."""
    width = math.ceil(12 * float(sigma)) + 2
    z = np.arange(-width, width + 1)
    weights = np.exp(-z * z / (2 * float(sigma) ** 2))
    total = np.concatenate([[0], np.cumsum(weights)]) / weights.sum()
    return lambda x: total[np.clip(np.floor(x).astype(int) + width + 1, 0, total.size - 1)]


# ------------------------------------------------------------------------------------------------ scales and laws


def test_known_scales():
    assert gaussian.classical_sigma(1, 0.1, 1e-6) == pytest.approx(52.98803, abs=1e-5)
    assert gaussian.classical_sigma(2, 0.5, 1e-6) == pytest.approx(4 * math.sqrt(2 * math.log(1.25e6)))
    assert gaussian.sigma(1, 1, 1e-6) == pytest.approx(4.224678889327, abs=1e-12)
    assert gaussian.sigma(3, 0.1, 1e-6) == pytest.approx(3 * gaussian_mechanism.get_sigma_gaussian(0.1, 1e-6))
    table = gaussian.sigma([[1.0], [2.0]], [0.1, 1, 10], 1e-6)
    assert table.shape == (2, 3) and np.all(table[1] == 2 * table[0])
    assert table[0, 1] == gaussian.sigma(1, 1, 1e-6)
    assert type(gaussian.sigma(1, 1, 0.1)) is float


@given(st.floats(-6, -0.001), st.floats(-12, -1))
def test_the_classical_scale_is_enough_below_one_and_never_smaller(log_epsilon, log_delta):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    sigma = gaussian.classical_sigma(1, epsilon, delta)
    assert sigma > gaussian.sigma(1, epsilon, delta) and curves.gaussian_delta(epsilon, 1 / sigma) < delta


def test_the_classical_formula_fails_beyond_where_it_is_refused():
    sigma = math.sqrt(2 * math.log(1.25e6)) / 10
    assert curves.gaussian_delta(10, 1 / sigma) == pytest.approx(1.90e-6, rel=0.01)


def test_laws_against_many_digits():
    for sigma in (1e-3, 1, 7.5, 1e6):
        for z in (-12, -3, -0.1, 0, 0.1, 2, 12):
            x = float(z * sigma)
            exact = mpf(x) / mpf(sigma)
            assert gaussian.logpdf(x, sigma) == pytest.approx(float(mp.log(mp.npdf(exact) / mpf(sigma))), rel=1e-13)
            assert gaussian.cdf(x, sigma) == pytest.approx(float(mp.ncdf(exact)), rel=1e-12)
            assert gaussian.tail(x, sigma) == pytest.approx(float(mp.erfc(max(exact, 0) / mp.sqrt(2))), rel=1e-12)
    assert gaussian.tail([-1, 0], 1).tolist() == [1, 1] and gaussian.cdf(np.zeros((2, 3)), 1).shape == (2, 3)


def test_accuracy_is_the_exact_quantile_of_the_largest_noise():
    for beta, k in [(0.05, 1), (0.5, 10), (1e-9, 1000), (0.999, 3)]:
        alpha = gaussian.accuracy(2, beta, k)
        assert -math.expm1(k * math.log1p(-gaussian.tail(alpha, 2))) == pytest.approx(beta, rel=1e-10)
    assert gaussian.accuracy(1, 0.05) == pytest.approx(1.959964, abs=1e-6)


def test_combined_mu_adds_squares_and_bounds_them():
    assert gaussian.combined_mu([3, 4], [1, 1]) == pytest.approx(5, rel=1e-14)
    assert gaussian.combined_mu(1, [2, 2, 2, 2]) == pytest.approx(1, rel=1e-14)
    for seed in range(50):
        ratio = RNG(seed).exponential(size=7)
        exact = sum(Fraction(r) ** 2 for r in ratio.tolist())
        assert exact <= Fraction(gaussian.combined_mu(ratio, 1)) ** 2 <= exact * (1 + Fraction(1, 10**14))


@pytest.mark.filterwarnings("error")
def test_scales_at_the_ends_of_the_floats_round_up():
    assert gaussian.combined_mu([1e-300], [1e300]) >= 5e-324 and gaussian.combined_mu(1e300, 1e-300) == math.inf
    for sizes in ([3e-322], [5e-324] * 3, [1e-310, 7e-315], [1e-323] * 100):
        exact = sum(Fraction(s) ** 2 for s in sizes) / 49
        assert exact <= Fraction(gaussian.combined_mu(sizes, 7.0)) ** 2
    assert Fraction(gaussian.sigma(5e-324, 1000, 0.9)) >= Fraction(5e-324) / Fraction(
        curves.gaussian_mu(1000, 0.9))
    assert gaussian.classical_sigma(1, 0.5, 5e-324) == pytest.approx(2 * math.sqrt(2 * (math.log(1.25) + 744.4400719)))
    assert gaussian.accuracy(1, 0.05, 10**400) == pytest.approx(
        float(mp.findroot(lambda a: mp.log(mp.erfc(a / mp.sqrt(2))) - mp.log(-mp.log(0.95)) + 400 * mp.log(10), 43)))
    assert gaussian.accuracy(1, 1e-250, 10**60) == pytest.approx(gaussian.accuracy(1, 1e-290, 10**20), rel=1e-12)


def test_several_releases_have_the_loss_of_one():
    """The privacy loss of two independent releases, drawn, has the law of one release with the combined mu."""
    mus, n = np.array([0.7, 1.1]), 200_000
    y = noise.gaussian(1.0, (n, 2), rng=RNG(1))
    loss = (mus * mus / 2 - mus * y).sum(axis=1)
    mu = gaussian.combined_mu(mus, 1)
    assert audit.law_test(loss - mu * mu / 2, lambda x: gaussian.cdf(x, mu)).passes()
    assert not audit.law_test(loss - mu * mu / 2, lambda x: gaussian.cdf(x, mus.sum())).passes()


# ------------------------------------------------------------------------------------------------------ releases


def test_release_draws_its_law_and_a_smaller_scale_is_caught():
    value, sigma = np.full((30_000, 2), 5.0), gaussian.sigma(3, 1, 1e-5)
    drawn = gaussian.release(value, 3, 1, 1e-5, rng=RNG(2)) - value
    assert audit.law_test(drawn, lambda x: gaussian.cdf(x, sigma)).passes()
    small = noise.gaussian(gaussian.sigma(3 / 1.2, 1, 1e-5), value.shape, rng=RNG(2))
    assert not audit.law_test(small, lambda x: gaussian.cdf(x, sigma)).passes()
    assert type(gaussian.release(1, 1, 1, 0.1, rng=RNG(1))) is float
    assert gaussian.release(np.zeros((2, 3, 4)), 1, 1, 0.1, rng=RNG(1)).shape == (2, 3, 4)


@pytest.mark.filterwarnings("error")
def test_private_numbers_of_every_size_are_released_without_error_or_warning():
    huge, longer = np.finfo(float).max, np.array([np.finfo(np.longdouble).max])
    noisy = gaussian.release([math.nan, math.inf, -math.inf, 0.5], 1, 1, 0.1, rng=RNG(1))
    plain = gaussian.release([0, huge, -huge, 0.5], 1, 1, 0.1, rng=RNG(1))
    assert noisy.tolist() == plain.tolist()
    for value, counts_as in [(10**400, huge), (-Fraction(10**400, 3), -huge), (longer, [huge]), (True, 1),
                             ([10**400, Fraction(1, 2)], [huge, 0.5])]:
        for size in (1, 1e306):
            noisy = gaussian.release(value, size, 1, 0.1, rng=RNG(2))
            assert np.array_equal(noisy, gaussian.release(counts_as, size, 1, 0.1, rng=RNG(2)))
    X = np.vstack([np.full((1, 2), longer), np.ones((1, 2), dtype=np.longdouble)])
    assert np.array_equal(gaussian.gram_release(X, 1, "add-remove", 1, 0.1, rng=RNG(3)),
                          gaussian.gram_release(np.array([[0.0, 0], [1, 1]]), 1, "add-remove", 1, 0.1, rng=RNG(3)))
    gaussian.gram_release(np.full((9, 2), 1e154), 1e154, "add-remove", 1000, 0.9, rng=RNG(4))


def test_a_repeated_calibration_does_not_pass_a_bool():
    gaussian.release(0, 1, 1, 0.1, rng=RNG(1))
    for arguments in [(True, 1, 0.1), (1, True, 0.1), (1.0, np.True_, 0.1)]:
        with pytest.raises(ValueError, match="must be"):
            gaussian.release(0, *arguments, rng=RNG(1))


def coordinates(matrices):
    """Symmetric matrices as vectors of equal length: the diagonal, and what is above it times sqrt 2."""
    i, j = np.triu_indices(matrices.shape[-1])
    return matrices[..., i, j] * np.where(i == j, 1, math.sqrt(2))


def test_symmetric_noise_is_isotropic_and_twins_are_not():
    rng, n, d, sigma = RNG(3), 20_000, 3, 2.5
    drawn = np.array([gaussian.symmetric_noise(d, sigma, rng=rng) for _ in range(n)])
    assert np.all(drawn == drawn.transpose(0, 2, 1))
    law = lambda x: gaussian.cdf(x, sigma)  # noqa: E731
    assert audit.law_test(coordinates(drawn), law).passes()
    raw = noise.gaussian(sigma, (n, d, d), rng=rng)
    upper = np.triu(raw) + np.triu(raw, 1).transpose(0, 2, 1)     # mirrored: twice the variance off the diagonal
    small = (raw + raw.transpose(0, 2, 1)) / 2 - raw * np.eye(d) * (1 - 1 / math.sqrt(2))  # half of it on the diagonal
    one = np.repeat(noise.gaussian(sigma, (n, 1, 1), rng=rng), d, axis=1) * np.ones((1, 1, d))  # one number everywhere
    for twin in (upper, small, one):
        assert not audit.law_test(coordinates(twin), law).passes()


def test_gram_release_has_symmetric_noise_of_its_sensitivity():
    X, rng = RNG(4).normal(size=(40, 2)) / 3, RNG(5)
    rows = X * np.minimum(1, 0.5 / np.linalg.norm(X, axis=1))[:, None]
    exact = rows.T @ rows
    assert not np.allclose(exact, X.T @ X)  # clipping does something
    for neighbours, factor in (("add-remove", 1), ("replace-one", math.sqrt(2))):
        drawn = np.array([gaussian.gram_release(X, 0.5, neighbours, 1, 1e-5, rng=rng) for _ in range(20_000)]) - exact
        assert np.all(drawn == drawn.transpose(0, 2, 1))
        sigma = gaussian.sigma(0.25 * factor, 1, 1e-5)
        assert audit.law_test(coordinates(drawn), lambda x: gaussian.cdf(x, sigma)).passes()
        assert not audit.law_test(coordinates(drawn), lambda x: gaussian.cdf(x, 1.2 * sigma)).passes()


def test_the_moved_gram_matrix_of_clipped_rows_stays_within_the_sensitivity():
    rng, largest = RNG(6), np.finfo(float).max
    special = np.array([[np.nan, 1], [np.inf, 0], [-np.inf, np.nan], [1e308, -1e308], [1e200, 3], [5e-324, 0],
                        [0, 0], [0.3, 0.4], [-1e154, 1e154], [largest, largest]])
    rows = np.vstack([special, rng.normal(size=(200, 2)) * 10 ** rng.uniform(-5, 5, (200, 1))])
    grams = np.array([gaussian._clipped(row[None], 0.7).T @ gaussian._clipped(row[None], 0.7) for row in rows])
    assert np.isfinite(grams).all()
    assert np.linalg.norm(grams, axis=(1, 2)).max() == pytest.approx(sensitivity.of_gram(0.7, "add-remove"), rel=1e-14)
    pairs = np.linalg.norm(grams[:, None] - grams[None], axis=(2, 3)).max()
    limit = sensitivity.of_gram(0.7, "replace-one")
    assert 0.99 * limit < pairs <= limit * (1 + 1e-14)
    assert np.all(gaussian._clipped(rows[:3], 0.7) == 0) and np.all(gaussian._clipped(rows[7:8], 0.7) == rows[7])
    expected = [[math.sqrt(0.5), -math.sqrt(0.5)], [1, 3e-200]]
    np.testing.assert_allclose(gaussian._clipped(rows[3:5], 1), expected, rtol=1e-14)


def test_gram_release_raises_by_type_and_shape_never_by_value():
    for X in (np.full((3, 2), np.nan), np.zeros((0, 2)), np.ones((3, 2), dtype=bool), np.full((2, 2), -(2**63)),
              np.full((1, 2), 1e308)):
        assert np.isfinite(gaussian.gram_release(X, 1, "add-remove", 1, 0.1, rng=RNG(1))).all()


# ---------------------------------------------------------------------------------------------- discrete Gaussian


def exact_discrete_delta(epsilon, sigma, shift=1):
    """Sum of (p(k) - e^epsilon p(k - shift))_+ with 60 digits, as it is defined, and the other direction."""
    epsilon, s2 = mpf(repr(float(epsilon))), mpf(repr(float(sigma))) ** 2
    width = int(40 * sigma) + 3 * shift + 5
    weight = {k: mp.exp(-mpf(k) ** 2 / (2 * s2)) for k in range(-width, width + 1)}
    size, factor = mp.fsum(weight.values()), mp.exp(epsilon)
    p, zero = (lambda k: weight.get(k, mpf(0))), mpf(0)
    there = mp.fsum(max(zero, p(k) - factor * p(k - shift)) for k in range(-width + shift, width)) / size
    back = mp.fsum(max(zero, p(k - shift) - factor * p(k)) for k in range(-width + shift, width)) / size
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
    cases = [(rng.choice([0, 0.01, 0.5, 1, 3, 10]), round(10 ** rng.uniform(-1.2, 1.3), 3), int(rng.integers(1, 12)))
             for _ in range(60)]
    with mpmath.workdps(60):
        for epsilon, sigma, shift in cases + [(1, 0.05, 1), (2, 1, 2), (0, 1, 40), (1, 3, 200)]:
            true, ours = exact_discrete_delta(epsilon, sigma, shift), discrete_gaussian.delta(epsilon, sigma, shift)
            if true > 1e-300:
                assert true * (1 - mpf(10) ** -50) <= ours <= true * (1 + 1e-13 + 1e-15 * abs(mp.log(true)))
            else:
                assert ours <= 1e-299


def test_discrete_delta_of_large_sigma_meets_the_continuous_curve_and_tiny_delta():
    for epsilon, sigma in [(0.01, 300), (0.001, 1e4), (1e-6, 1e6), (1e-4, 3e5)]:
        smooth = curves.gaussian_delta(epsilon, 1 / sigma)
        assert discrete_gaussian.delta(epsilon, sigma) == pytest.approx(smooth, rel=1e-3)
    assert math.log(discrete_gaussian.delta(1, 36.5)) == pytest.approx(curves.gaussian_log_delta(1, 1 / 36.5), rel=1e-3)
    assert 1e-296 < discrete_gaussian.delta(1, 36.5) < 1e-288
    assert discrete_gaussian.delta(1e9, 1000) == discrete_gaussian.delta(1e308, 1e6) == 5e-324
    assert discrete_gaussian.delta(0, 1e-6) == discrete_gaussian.delta(1, 1, 10**30) == 1
    assert discrete_gaussian.delta(1, 1, 10**400) == discrete_gaussian.delta(1e308, 1e6, 10**400) == 1
    assert discrete_gaussian.delta(1, 38.3) > 5e-324 == discrete_gaussian.delta(1, 41)
    assert discrete_gaussian.delta(Fraction(1, 3), Fraction(7, 2)) == pytest.approx(discrete_gaussian.delta(1 / 3, 3.5))


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
    assert float(discrete_gaussian.sigma(1, 1, 1e-6)) == pytest.approx(4.230782, abs=1e-5)   # above 4.224679
    assert float(discrete_gaussian.sigma(1, 10, 1e-6)) == pytest.approx(0.499906, abs=1e-5)  # below 0.541087


def test_discrete_release_draws_its_law_exactly_and_twins_are_caught():
    value, n = np.array([[3, -7]]), 40_000
    sigma = gaussian._zcdp_sigma(math.sqrt(2), Fraction(1, 9))
    assert float(sigma) == pytest.approx(3, rel=1e-10)
    drawn = discrete_gaussian.release(np.repeat(value, n, axis=0), math.sqrt(2), Fraction(1, 9), rng=RNG(8)) - value
    assert drawn.dtype == np.int64
    law = discrete_cdf(sigma)
    assert audit.law_test(drawn, law, discrete=True, rng=RNG(9)).passes()
    small = discrete_gaussian.release(np.zeros((n, 2), dtype=int), 1.2, Fraction(1, 9), rng=RNG(8))
    rounded = np.rint(noise.gaussian(3.0, (n, 2), rng=RNG(10)))  # variance sigma^2 + 1/12: not the same law
    same = np.repeat(drawn[:, :1], 2, axis=1)
    assert not audit.law_test(small, law, discrete=True, rng=RNG(9)).passes()
    assert not audit.law_test(same, law, discrete=True, rng=RNG(9)).passes()
    tight = discrete_cdf(0.5)
    rounded = np.rint(noise.gaussian(0.5, n, rng=RNG(10)))  # rounding a continuous noise is another law
    assert not audit.law_test(rounded, tight, discrete=True, rng=RNG(9)).passes()


@given(st.fractions(Fraction(1, 10**9), 10**9), st.fractions(Fraction(1, 10**9), 10**9))
def test_the_scale_of_a_zcdp_release_is_just_above_the_root(size, rho):
    sigma = gaussian._zcdp_sigma(size, rho)
    assert size**2 / (2 * rho) < sigma**2 < size**2 / (2 * rho) * (1 + Fraction(1, 2**37))


@pytest.mark.filterwarnings("error")
def test_a_sum_beyond_64_bits_wraps_without_a_warning():
    drawn = [discrete_gaussian.release(2**63 - 1, 1, 0.01, rng=RNG(seed)) for seed in range(20)]
    assert min(drawn) < 0 < max(drawn)


def test_discrete_release_of_numbers_and_the_system():
    assert type(discrete_gaussian.release(5, 1, 0.1, rng=noise.SYSTEM)) is int
    assert discrete_gaussian.release(np.zeros((2, 3), dtype=np.int8), 1, 0.1, rng=noise.SYSTEM).shape == (2, 3)
    assert discrete_gaussian.release(2**63 + 5, 1, 10**6, rng=RNG(1)) == -(2**63) + 5  # wraps, never raises


@pytest.mark.parametrize("call,sentence", [
    (lambda: gaussian.classical_sigma(1, 1, 1e-6), "epsilon must be below 1, got 1"),
    (lambda: gaussian.classical_sigma(0, 0.5, 1e-6), "sensitivity must be positive and finite, got 0"),
    (lambda: gaussian.classical_sigma(1, 0.5, 0), "delta must be strictly between 0 and 1, got 0"),
    (lambda: gaussian.sigma([1, -1.0], 1, 0.1), "sensitivity must be positive and finite, got -1.0"),
    (lambda: gaussian.sigma(1, -1, 0.1), "epsilon must be at least 0 and finite, got -1"),
    (lambda: gaussian.sigma(1, 1, 1), "delta must be strictly between 0 and 1, got 1"),
    (lambda: gaussian.release(1, 1, 1, 0.1, rng=noise.SYSTEM), "rng must be a np.random.Generator for floating-point"),
    (lambda: gaussian.release(1, 1, 1, 0.1, rng=7), "rng must be a np.random.Generator or dputils.noise.SYSTEM, got 7"),
    (lambda: gaussian.classical_sigma(1, 5e-324, 0.1), "sensitivity, epsilon and delta ask for a sigma beyond"),
    (lambda: gaussian.classical_sigma(1, Fraction(1, 10**400), 0.1), "epsilon must be positive and finite, got 0.0"),
    (lambda: gaussian.classical_sigma(1, 0.5, Fraction(1, 10**400)), "delta must be strictly between 0 and 1, got 0.0"),
    (lambda: gaussian.sigma(1e308, 1e-6, 1e-6), "sensitivity, epsilon and delta ask for a sigma beyond"),
    (lambda: gaussian.release(1, 1e308, 1, 1e-6, rng=RNG(1)), "sensitivity, epsilon and delta ask for a sigma beyond"),
    (lambda: gaussian.release(1, [1, 2], 1, 0.1, rng=RNG(1)), "sensitivity must be positive and finite, got [1, 2]"),
    (lambda: gaussian.release(1, 1, np.ones(2), 0.1, rng=RNG(1)), "epsilon must be a number, got array([1., 1.])"),
    (lambda: gaussian.release(1, 1, 1, [0.1], rng=RNG(1)), "delta must be strictly between 0 and 1, got [0.1]"),
    (lambda: gaussian.gram_release(np.ma.ones((3, 2)), 1, "add-remove", 1, 0.1, rng=RNG(1)), "X must be a "
     "numpy array of numbers of shape (n, d), got MaskedArray"),
    (lambda: gaussian.gram_release(np.ones((3, 2)).view(np.matrix), 1, "add-remove", 1, 0.1, rng=RNG(1)),
     "X must be a numpy array of numbers of shape (n, d), got matrix"),
    (lambda: discrete_gaussian.sigma(1, 1e-9, 1e-9), "sensitivity, epsilon and delta ask for sigma 2.76e+08; disc"),
    (lambda: discrete_gaussian.sigma(1, 1e14, 1e-9), "sensitivity, epsilon and delta ask for sigma 7.07e-08; disc"),
    (lambda: discrete_gaussian.release(1, 1, 1e-300, rng=RNG(1)), "sensitivity and rho ask for a sigma above "
     "2**50, got 1 and 1e-300: take a coarser grid"),
    (lambda: gaussian.tail(1, 0), "sigma must be positive and finite, got 0"),
    (lambda: gaussian.cdf(1, -1), "sigma must be positive and finite, got -1"),
    (lambda: gaussian.logpdf(1, math.nan), "sigma must be positive and finite, got nan"),
    (lambda: gaussian.accuracy(1, 1), "beta must be strictly between 0 and 1, got 1"),
    (lambda: gaussian.accuracy(1, 0.1, 0), "k must be at least 1, got 0"),
    (lambda: gaussian.combined_mu([1, 0], 1), "sensitivities must be positive and finite, got 0"),
    (lambda: gaussian.combined_mu("a", 1), "sensitivities must be positive and finite, got 'a'"),
    (lambda: gaussian.combined_mu(True, 1), "sensitivities must be positive and finite, got True"),
    (lambda: gaussian.combined_mu(1, [math.inf]), "sigmas must be positive and finite, got inf"),
    (lambda: gaussian.combined_mu([], 1), "sensitivities and sigmas must not be empty, got shapes (0,)"),
    (lambda: gaussian.symmetric_noise(0, 1, rng=RNG(1)), "d must be at least 1, got 0"),
    (lambda: gaussian.symmetric_noise(2, 0, rng=RNG(1)), "sigma must be positive and finite, got 0"),
    (lambda: gaussian.gram_release([[1, 2]], 1, "add-remove", 1, 0.1, rng=RNG(1)), "X must be a numpy array"),
    (lambda: gaussian.gram_release(np.ones(3), 1, "add-remove", 1, 0.1, rng=RNG(1)), "X must be a numpy array"),
    (lambda: gaussian.gram_release(np.ones((3, 0)), 1, "add-remove", 1, 0.1, rng=RNG(1)), "X must be a numpy array"),
    (lambda: gaussian.gram_release(np.array([["a"]]), 1, "add-remove", 1, 0.1, rng=RNG(1)), "X must be a numpy array"),
    (lambda: gaussian.gram_release(np.ones((3, 2)), 0, "add-remove", 1, 0.1, rng=RNG(1)), "norm must be positive"),
    (lambda: gaussian.gram_release(np.ones((3, 2)), 1, "both", 1, 0.1, rng=RNG(1)), "neighbours must be one of"),
    (lambda: discrete_gaussian.delta(-1, 1), "epsilon must be at least 0, got -1"),
    (lambda: discrete_gaussian.delta(1, 2e6), "sigma must be between 1e-6 and 1e6 steps of the grid, got 2000000.0"),
    (lambda: discrete_gaussian.delta(1, 1, 1.5), "sensitivity must be an integer, got 1.5"),
    (lambda: discrete_gaussian.sigma(0, 1, 0.1), "sensitivity must be at least 1, got 0"),
    (lambda: discrete_gaussian.sigma(1, 1, 0), "delta must be strictly between 0 and 1, got 0"),
    (lambda: discrete_gaussian.release(1, 0, 1, rng=RNG(1)), "sensitivity must be positive and finite, got 0"),
    (lambda: discrete_gaussian.release(1, 1, -1, rng=RNG(1)), "rho must be positive and finite, got -1"),
    (lambda: discrete_gaussian.release(np.ones(2), 1, 1, rng=RNG(1)), "value must be an integer or an array of integers"),
])
def test_refusals_name_argument_and_value(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(sentence)


def test_the_recorded_values_of_other_libraries_are_off_where_the_chapter_says():
    rows = {(row["library"], float(row["epsilon"]), float(row["delta"])): float(row["sigma"])
            for row in csv.DictReader((data.FOLDER / "results" / "gaussian_sigma.csv").open())}
    off = {key: sigma / gaussian.sigma(1, *key[1:]) - 1 for key, sigma in rows.items()}
    assert len(off) == 12
    for library, pair, expected in (("autodp", (1, 1e-15), -0.0651), ("autodp", (100, 1e-20), -0.1211),
                                    ("autodp", (5, 1e-100), -0.6196), ("autodp", (30, 1e-12), 0.0357),
                                    ("diffprivlib", (1, 1e-15), -0.000676), ("diffprivlib", (5, 1e-100), -0.6228)):
        assert off[library, *pair] == pytest.approx(expected, rel=2e-3)
    assert max(abs(off[library, 1.0, 1e-6]) for library in ("autodp", "diffprivlib")) < 2e-8
