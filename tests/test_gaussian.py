"""The Gaussian mechanism: scales, laws, combination, Gram matrices; each release against its law
and broken twins.
"""

import csv
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from dputils import audit, gaussian, noise, sensitivity
from dputils.accounting import Approximate, Gaussian, Ledger, curves
from dputils.book import data

RNG = np.random.default_rng


# ---------------------------------------------------------------------------------- scales and laws


def test_known_scales():
    assert gaussian.classical_sigma(1, 0.1, 1e-6) == pytest.approx(52.98803, abs=1e-5)
    assert gaussian.classical_sigma(2, 0.5, 1e-6) == pytest.approx(
        4 * math.sqrt(2 * math.log(1.25e6))
    )
    assert gaussian.sigma(1, 1, 1e-6) == pytest.approx(4.224678889327, abs=1e-12)
    assert gaussian.sigma(3, 0.1, 1e-6) == pytest.approx(
        3 * gaussian_mechanism.get_sigma_gaussian(0.1, 1e-6)
    )
    table = gaussian.sigma([[1.0], [2.0]], [0.1, 1, 10], 1e-6)
    assert table.shape == (2, 3) and np.all(table[1] == 2 * table[0])
    assert table[0, 1] == gaussian.sigma(1, 1, 1e-6)
    assert type(gaussian.sigma(1, 1, 0.1)) is float


@given(st.floats(-6, -0.001), st.floats(-12, -1))
def test_the_classical_scale_is_enough_below_one_and_never_smaller(log_epsilon, log_delta):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    sigma = gaussian.classical_sigma(1, epsilon, delta)
    assert (
        sigma > gaussian.sigma(1, epsilon, delta)
        and curves.gaussian_delta(epsilon, 1 / sigma) < delta
    )


def test_the_classical_formula_fails_beyond_where_it_is_refused():
    sigma = math.sqrt(2 * math.log(1.25e6)) / 10
    assert curves.gaussian_delta(10, 1 / sigma) == pytest.approx(1.90e-6, rel=0.01)


def test_laws_against_many_digits():
    for sigma in (1e-3, 1, 7.5, 1e6):
        for z in (-12, -3, -0.1, 0, 0.1, 2, 12):
            x = float(z * sigma)
            exact = mpf(x) / mpf(sigma)
            assert gaussian.logpdf(x, sigma) == pytest.approx(
                float(mp.log(mp.npdf(exact) / mpf(sigma))), rel=1e-13
            )
            assert gaussian.cdf(x, sigma) == pytest.approx(float(mp.ncdf(exact)), rel=1e-12)
            assert gaussian.tail(x, sigma) == pytest.approx(
                float(mp.erfc(max(exact, 0) / mp.sqrt(2))), rel=1e-12
            )
    assert gaussian.tail([-1, 0], 1).tolist() == [1, 1] and gaussian.cdf(
        np.zeros((2, 3)), 1
    ).shape == (2, 3)


def test_accuracy_is_the_exact_quantile_of_the_largest_noise():
    for beta, k in [(0.05, 1), (0.5, 10), (1e-9, 1000), (0.999, 3)]:
        alpha = gaussian.accuracy(2, beta, k)
        assert -math.expm1(k * math.log1p(-gaussian.tail(alpha, 2))) == pytest.approx(
            beta, rel=1e-10
        )
    assert gaussian.accuracy(1, 0.05) == pytest.approx(1.959964, abs=1e-6)


def test_combined_mu_adds_squares_and_bounds_them():
    assert gaussian.combined_mu([3, 4], [1, 1]) == pytest.approx(5, rel=1e-14)
    assert gaussian.combined_mu(1, [2, 2, 2, 2]) == pytest.approx(1, rel=1e-14)
    for seed in range(50):
        ratio = RNG(seed).exponential(size=7)
        exact = sum(Fraction(r) ** 2 for r in ratio.tolist())
        assert (
            exact
            <= Fraction(gaussian.combined_mu(ratio, 1)) ** 2
            <= exact * (1 + Fraction(1, 10**14))
        )


@pytest.mark.filterwarnings("error")
def test_scales_at_the_ends_of_the_ranges():
    assert gaussian.classical_sigma(1, 0.5, 1e-300) == pytest.approx(
        2 * math.sqrt(2 * (math.log(1.25) + 300 * math.log(10)))
    )
    for size, epsilon, delta in ((1e-98, 1000, 0.9), (1e90, 1e-6, 1e-300), (3, 0, 0.5)):
        mu = Fraction(curves.gaussian_mu(epsilon, delta))
        exact = Fraction(size) / mu
        assert (
            exact * (1 - Fraction(1, 2**52))
            <= Fraction(gaussian.sigma(size, epsilon, delta))
            <= exact * (1 + Fraction(1, 2**52))
        )
    assert gaussian.combined_mu(1e100, 1e-100) == pytest.approx(1e200)
    for beta, k in ((1e-250, 2**50), (1 - 2.0**-53, 1), (1e-250, 1)):
        alpha = gaussian.accuracy(1, beta, k)
        with mpmath.workdps(320):
            one = 1 - (1 - mpf(beta)) ** (mpf(1) / k)
            assert float(mp.erfc(mpf(alpha) / mp.sqrt(2)) / one) == pytest.approx(1, rel=1e-8)


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(
    "broken, name",
    [((1, 1e-300), "sigma"), ((1e101, 0.1), "sensitivity"), ((1e-101, 0.1), "sensitivity")],
)
def test_one_pair_out_of_range_is_refused_among_others_that_are_not(position, broken, name):
    """A check of all in place of any would let infinite noise through."""
    sizes, deltas = np.array([1.0, 1.0]) * (1e99 if name == "sigma" else 1), np.array([0.1, 0.1])
    sizes[position], deltas[position] = (1e99, broken[1]) if name == "sigma" else broken
    with pytest.raises(
        ValueError, match=f"^{name} must be (between 1e-100 and 1e.100|positive and finite), got"
    ):
        gaussian.sigma(sizes, 0, deltas)
    assert np.isfinite(gaussian.sigma(1.0, 0, 0.1))


def test_several_releases_have_the_loss_of_one():
    """The privacy loss of two independent releases, drawn, has the law of one release with the
    combined mu.
    """
    mus, n = np.array([0.7, 1.1]), 200_000
    y = noise.gaussian(1.0, (n, 2), rng=RNG(1))
    loss = (mus * mus / 2 - mus * y).sum(axis=1)
    mu = gaussian.combined_mu(mus, 1)
    assert audit.law_test(loss - mu * mu / 2, lambda x: gaussian.cdf(x, mu)).passes()
    assert not audit.law_test(loss - mu * mu / 2, lambda x: gaussian.cdf(x, mus.sum())).passes()


# ----------------------------------------------------------------------------------------- releases


def test_release_draws_its_law_and_a_smaller_scale_is_caught():
    value, sigma = np.full((30_000, 2), 5.0), gaussian.sigma(3, 1, 1e-5)
    drawn = gaussian.release(value, 3, 1, 1e-5, rng=RNG(2)) - value
    assert audit.law_test(drawn, lambda x: gaussian.cdf(x, sigma)).passes()
    small = noise.gaussian(gaussian.sigma(3 / 1.2, 1, 1e-5), value.shape, rng=RNG(2))
    assert not audit.law_test(small, lambda x: gaussian.cdf(x, sigma)).passes()
    assert type(gaussian.release(1, 1, 1, 0.1, rng=RNG(1))) is float
    assert gaussian.release(np.zeros((2, 3, 4)), 1, 1, 0.1, rng=RNG(1)).shape == (2, 3, 4)


def test_one_number_alone_gets_noise_of_the_whole_sigma():
    sigma = gaussian.sigma(3, 1, 1e-5)
    assert gaussian.release(4, 3, 1, 1e-5, rng=RNG(7)) == 4 + noise.gaussian(sigma, rng=RNG(7))
    vector = gaussian.release([4, 5], 3, 1, 1e-5, rng=RNG(7))
    assert vector.tolist() == ([4, 5] + noise.gaussian(sigma, 2, rng=RNG(7))).tolist()


@pytest.mark.filterwarnings("error")
def test_private_numbers_of_every_size_are_released_without_error_or_warning():
    huge, longer = np.finfo(float).max, np.array([np.finfo(np.longdouble).max])
    noisy = gaussian.release([math.nan, math.inf, -math.inf, 0.5], 1, 1, 0.1, rng=RNG(1))
    plain = gaussian.release([0, huge, -huge, 0.5], 1, 1, 0.1, rng=RNG(1))
    assert noisy.tolist() == plain.tolist()
    for value, counts_as in [
        (10**400, huge),
        (-Fraction(10**400, 3), -huge),
        (longer, [huge]),
        (True, 1),
        ([10**400, Fraction(1, 2)], [huge, 0.5]),
    ]:
        for size in (1, 1e90):
            noisy = gaussian.release(value, size, 1, 0.1, rng=RNG(2))
            assert np.array_equal(noisy, gaussian.release(counts_as, size, 1, 0.1, rng=RNG(2)))
    X = np.vstack([np.full((1, 2), longer), np.ones((1, 2), dtype=np.longdouble)])
    assert np.array_equal(
        gaussian.gram_release(X, 1, "add-remove", 1, 0.1, rng=RNG(3)),
        gaussian.gram_release(np.array([[0.0, 0], [1, 1]]), 1, "add-remove", 1, 0.1, rng=RNG(3)),
    )
    gaussian.gram_release(np.full((9, 2), 1e154), 1e45, "add-remove", 1000, 0.9, rng=RNG(4))


def test_a_repeated_calibration_does_not_pass_a_bool():
    gaussian.release(0, 1, 1, 0.1, rng=RNG(1))
    for arguments in [(True, 1, 0.1), (1, True, 0.1), (1.0, np.True_, 0.1)]:
        with pytest.raises(ValueError, match="must be"):
            gaussian.release(0, *arguments, rng=RNG(1))


def test_coordinates_keep_the_frobenius_norm():
    z = RNG(1).normal(size=(5, 4, 4))
    matrices = z + z.transpose(0, 2, 1)
    ours = gaussian.coordinates(matrices)
    assert ours.shape == (5, 10)
    np.testing.assert_allclose(
        np.linalg.norm(ours, axis=1), np.linalg.norm(matrices, axis=(1, 2)), rtol=1e-14
    )


def test_symmetric_noise_is_isotropic_and_twins_are_not():
    rng, n, d, sigma = RNG(3), 20_000, 3, 2.5
    drawn = np.array([gaussian.symmetric_noise(d, sigma, rng=rng) for _ in range(n)])
    assert np.all(drawn == drawn.transpose(0, 2, 1))
    law = lambda x: gaussian.cdf(x, sigma)
    assert audit.law_test(gaussian.coordinates(drawn), law).passes()
    raw = noise.gaussian(sigma, (n, d, d), rng=rng)
    upper = np.triu(raw) + np.triu(raw, 1).transpose(
        0, 2, 1
    )  # mirrored: twice the variance off the diagonal
    small = (raw + raw.transpose(0, 2, 1)) / 2 - raw * np.eye(d) * (
        1 - 1 / math.sqrt(2)
    )  # half of it on the diagonal
    one = np.repeat(noise.gaussian(sigma, (n, 1, 1), rng=rng), d, axis=1) * np.ones(
        (1, 1, d)
    )  # one number everywhere
    for twin in (upper, small, one):
        assert not audit.law_test(gaussian.coordinates(twin), law).passes()


def test_gram_release_has_symmetric_noise_of_its_sensitivity():
    X, rng = RNG(4).normal(size=(40, 2)) / 3, RNG(5)
    rows = X * np.minimum(1, 0.5 / np.linalg.norm(X, axis=1))[:, None]
    exact = rows.T @ rows
    assert not np.allclose(exact, X.T @ X)  # clipping does something
    for neighbours, factor in (("add-remove", 1), ("replace-one", math.sqrt(2))):
        drawn = (
            np.array(
                [gaussian.gram_release(X, 0.5, neighbours, 1, 1e-5, rng=rng) for _ in range(20_000)]
            )
            - exact
        )
        assert np.all(drawn == drawn.transpose(0, 2, 1))
        sigma = gaussian.sigma(0.25 * factor, 1, 1e-5)
        assert audit.law_test(
            gaussian.coordinates(drawn), lambda x: gaussian.cdf(x, sigma)
        ).passes()
        assert not audit.law_test(
            gaussian.coordinates(drawn), lambda x: gaussian.cdf(x, 1.2 * sigma)
        ).passes()


def test_the_moved_gram_matrix_of_clipped_rows_stays_within_the_sensitivity():
    rng, largest = RNG(6), np.finfo(float).max
    special = np.array(
        [
            [np.nan, 1],
            [np.inf, 0],
            [-np.inf, np.nan],
            [1e308, -1e308],
            [1e200, 3],
            [5e-324, 0],
            [0, 0],
            [0.3, 0.4],
            [-1e154, 1e154],
            [largest, largest],
        ]
    )
    rows = np.vstack([special, rng.normal(size=(200, 2)) * 10 ** rng.uniform(-5, 5, (200, 1))])
    grams = np.array(
        [gaussian.clip_rows(row[None], 0.7).T @ gaussian.clip_rows(row[None], 0.7) for row in rows]
    )
    assert np.isfinite(grams).all()
    assert np.linalg.norm(grams, axis=(1, 2)).max() == pytest.approx(
        sensitivity.of_gram(0.7, "add-remove").size, rel=1e-14
    )
    pairs = np.linalg.norm(grams[:, None] - grams[None], axis=(2, 3)).max()
    limit = sensitivity.of_gram(0.7, "replace-one").size
    assert 0.99 * limit < pairs <= limit * (1 + 1e-14)
    assert np.all(gaussian.clip_rows(rows[:3], 0.7) == 0) and np.all(
        gaussian.clip_rows(rows[7:8], 0.7) == rows[7]
    )
    expected = [[math.sqrt(0.5), -math.sqrt(0.5)], [1, 3e-200]]
    np.testing.assert_allclose(gaussian.clip_rows(rows[3:5], 1), expected, rtol=1e-14)


def test_gram_release_raises_by_type_and_shape_never_by_value():
    for X in (
        np.full((3, 2), np.nan),
        np.zeros((0, 2)),
        np.ones((3, 2), dtype=bool),
        np.full((2, 2), -(2**63)),
        np.full((1, 2), 1e308),
    ):
        assert np.isfinite(gaussian.gram_release(X, 1, "add-remove", 1, 0.1, rng=RNG(1))).all()


# --------------------------------------------------------------------------------------- mechanisms


def test_the_mechanism_is_its_release():
    moved = sensitivity.of_counts(3, "replace-one", "l2", unit="person")
    mechanism = gaussian.mechanism(moved, 1, 1e-6)
    assert not mechanism.exact and not mechanism.discrete
    assert (mechanism.neighbours, mechanism.unit, mechanism.sensitivity) == (
        "replace-one",
        "person",
        moved,
    )
    values = [3.0, -1.0, math.nan]
    np.testing.assert_allclose(
        mechanism(values, rng=RNG(3)),
        gaussian.release(values, moved, 1, 1e-6, rng=RNG(3)),
        rtol=1e-14,
    )
    assert (
        type(gaussian.mechanism(sensitivity.of_count("add-remove"), 1, 0.1)(5, rng=RNG(1))) is float
    )
    assert gaussian.sigma(moved, 1, 1e-6) == gaussian.sigma(moved.size, 1, 1e-6)


@given(st.floats(1e-90, 1e90), st.floats(-3, 2), st.floats(-12, -1))
def test_no_cost_is_below_the_truth_of_the_sigma_that_is_drawn_with(size, log_epsilon, log_delta):
    epsilon, delta = float(f"{10**log_epsilon:.4g}"), float(f"{10**log_delta:.4g}")
    mechanism = gaussian.mechanism(
        sensitivity.Sensitivity(size, "l2", "add-remove"), epsilon, delta
    )
    booked, stated = mechanism.costs
    sigma = Fraction(mechanism.draw.keywords["sigma"])
    assert booked.mu >= Fraction(size) / sigma and booked.mu * sigma >= Fraction(str(size))
    assert booked.mu < Fraction(size) / sigma * (1 + Fraction(1, 2**51))
    assert stated == Approximate(epsilon, delta)
    assert curves.gaussian_delta(epsilon, float(booked.mu)) <= delta * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1, 2.5, Fraction(1, 3)])
def test_a_mechanism_fits_a_gaussian_ledger_of_its_own_budget(epsilon):
    booked = gaussian.mechanism(sensitivity.of_count("add-remove"), epsilon, 1e-6).costs[0]
    ledger = Ledger(epsilon, 1e-6, neighbours="add-remove", unit="row", account="gaussian")
    assert booked.mu <= ledger.cap.mu


@given(
    st.sampled_from([1, 0.1, 0.3, math.sqrt(2), Fraction(1, 3), 7]),
    st.fractions(Fraction(1, 1000), 1000),
)
def test_a_mechanism_of_a_given_mu_is_not_below_it(size, mu):
    mechanism = gaussian.mechanism(sensitivity.Sensitivity(size, "absolute", "add-remove"), mu=mu)
    sigma = Fraction(mechanism.draw.keywords["sigma"])
    assert mechanism.costs == (Gaussian(mu),) and Fraction(size) <= mu * sigma <= Fraction(size) * (
        1 + Fraction(1, 2**51)
    )


def test_the_law_of_the_mechanism_is_that_of_its_draws_and_of_its_budget():
    value, generator = np.array([[5.0, -2.0]]), RNG(21)
    mechanism = gaussian.mechanism(sensitivity.of_counts(2, "add-remove", "l2"), mu=Fraction(3, 4))
    drawn = np.array([mechanism(value, rng=generator).ravel() for _ in range(8000)]) - value
    one = gaussian.mechanism(sensitivity.of_count("add-remove"), 1, 1e-3)
    alone = np.array([one(4, rng=generator) for _ in range(8000)]) - 4
    for samples, law in ((drawn, mechanism.law), (alone, one.law)):
        assert audit.law_test(samples, law(1)).passes()
        assert not audit.law_test(samples, law(1.4)).passes()
        assert not audit.law_test(samples / 2, law(1)).passes()
    assert not audit.law_test(drawn * [1, 0], mechanism.law(1)).passes()  # one coordinate bare
    assert not audit.law_test(drawn[:, [0, 0]], mechanism.law(1)).passes()  # the same noise twice


def test_the_gram_mechanism_is_its_release_and_its_law_that_of_coordinates():
    X, generator = RNG(4).normal(size=(40, 2)) / 3, RNG(5)
    mechanism = gaussian.gram_mechanism(0.5, 2, "replace-one", 1, 1e-5, unit="person")
    assert (mechanism.neighbours, mechanism.unit) == ("replace-one", "person")
    assert mechanism.sensitivity == sensitivity.of_gram(0.5, "replace-one", unit="person")
    released = gaussian.gram_release(X, 0.5, "replace-one", 1, 1e-5, rng=RNG(6))
    np.testing.assert_allclose(mechanism(X, rng=RNG(6)), released, rtol=1e-13)
    drawn = np.array([mechanism(X, rng=generator) for _ in range(8000)]) - mechanism.read(X)
    assert audit.law_test(gaussian.coordinates(drawn), mechanism.law(1)).passes()
    assert not audit.law_test(gaussian.coordinates(drawn), mechanism.law(1.3)).passes()
    for X in (np.zeros((3, 3)), np.zeros((3, 1))):
        with pytest.raises(ValueError, match=f"X must have 2 columns, got {X.shape[1]}"):
            mechanism(X, rng=RNG(1))


def test_the_gram_mechanism_takes_mu_in_place_of_epsilon_and_delta():
    mu = Fraction(1, 7)
    mechanism = gaussian.gram_mechanism(3, 2, "add-remove", mu=mu, unit="person")
    assert mechanism.costs == (Gaussian(mu),)
    sigma = Fraction(mechanism.draw.keywords["sigma"])
    assert 63 <= sigma < 63 * (1 + Fraction(1, 2**51))
    with pytest.raises(ValueError, match="mu must be left out beside epsilon and delta"):
        gaussian.gram_mechanism(3, 2, "add-remove", 1, 1e-6, mu=mu)


def test_laws_around_a_centre_and_the_variance():
    x = np.linspace(-5, 9, 29)
    assert gaussian.logpdf(x, 2, centre=3).tolist() == gaussian.logpdf(x - 3, 2).tolist()
    assert gaussian.cdf(x, 2, 3).tolist() == gaussian.cdf(x - 3, 2).tolist()
    assert gaussian.variance(Fraction(3, 2)) == 2.25


@pytest.mark.parametrize(
    "call,sentence",
    [
        (lambda: gaussian.classical_sigma(1, 1, 1e-6), "epsilon must be below 1, got 1"),
        (
            lambda: gaussian.classical_sigma(0, 0.5, 1e-6),
            "sensitivity must be positive and finite, got 0",
        ),
        (
            lambda: gaussian.classical_sigma(1, 0.5, 0),
            "delta must be strictly between 0 and 1, got 0",
        ),
        (
            lambda: gaussian.sigma([1, -1.0], 1, 0.1),
            "sensitivity must be between 1e-100 and 1e+100, got -1.0",
        ),
        (lambda: gaussian.sigma(1, -1, 0.1), "epsilon must be between 1e-06 and 1000 or 0, got -1"),
        (lambda: gaussian.sigma(1, 1, 1), "delta must be between 1e-300 and 1, got 1"),
        (
            lambda: gaussian.release(1, 1, 1, 0.1, rng=noise.SYSTEM),
            "rng must be a np.random.Generator for floating-point",
        ),
        (
            lambda: gaussian.release(1, 1, 1, 0.1, rng=7),
            "rng must be a np.random.Generator or dputils.noise.SYSTEM, got 7",
        ),
        (
            lambda: gaussian.release(1, [1, 2], 1, 0.1, rng=RNG(1)),
            "sensitivity must be positive and finite, got [1, 2]",
        ),
        (
            lambda: gaussian.release(1, 1, np.ones(2), 0.1, rng=RNG(1)),
            "epsilon must be a number, got array([1., 1.])",
        ),
        (
            lambda: gaussian.release(1, 1, 1, [0.1], rng=RNG(1)),
            "delta must be strictly between 0 and 1, got [0.1]",
        ),
        (
            lambda: gaussian.gram_release(np.ma.ones((3, 2)), 1, "add-remove", 1, 0.1, rng=RNG(1)),
            "X must be a numpy array of numbers of shape (n, d), got MaskedArray",
        ),
        (
            lambda: gaussian.gram_release(
                np.ones((3, 2)).view(np.matrix), 1, "add-remove", 1, 0.1, rng=RNG(1)
            ),
            "X must be a numpy array of numbers of shape (n, d), got matrix",
        ),
        (lambda: gaussian.tail(1, 0), "sigma must be positive and finite, got 0"),
        (lambda: gaussian.cdf(1, -1), "sigma must be positive and finite, got -1"),
        (lambda: gaussian.logpdf(1, math.nan), "sigma must be positive and finite, got nan"),
        (lambda: gaussian.accuracy(1, 1), "beta must be strictly between 0 and 1, got 1"),
        (lambda: gaussian.accuracy(1, 0.1, 0), "k must be at least 1, got 0"),
        (
            lambda: gaussian.combined_mu([1, 0], 1),
            "sensitivities must be between 1e-100 and 1e+100, got 0",
        ),
        (
            lambda: gaussian.combined_mu("a", 1),
            "sensitivities must be a number or an array of numbers, got type <U1",
        ),
        (
            lambda: gaussian.combined_mu(True, 1),
            "sensitivities must be a number or an array of numbers, got type bool",
        ),
        (
            lambda: gaussian.combined_mu(1, [math.inf]),
            "sigmas must be between 1e-100 and 1e+100, got inf",
        ),
        (
            lambda: gaussian.combined_mu([], 1),
            "sensitivities and sigmas must not be empty, got shapes (0,)",
        ),
        (lambda: gaussian.symmetric_noise(0, 1, rng=RNG(1)), "d must be at least 1, got 0"),
        (
            lambda: gaussian.symmetric_noise(2, 0, rng=RNG(1)),
            "sigma must be positive and finite, got 0",
        ),
        (
            lambda: gaussian.gram_release([[1, 2]], 1, "add-remove", 1, 0.1, rng=RNG(1)),
            "X must be a numpy array",
        ),
        (
            lambda: gaussian.gram_release(np.ones(3), 1, "add-remove", 1, 0.1, rng=RNG(1)),
            "X must be a numpy array",
        ),
        (
            lambda: gaussian.gram_release(np.ones((3, 0)), 1, "add-remove", 1, 0.1, rng=RNG(1)),
            "X must be a numpy array",
        ),
        (
            lambda: gaussian.gram_release(np.array([["a"]]), 1, "add-remove", 1, 0.1, rng=RNG(1)),
            "X must be a numpy array",
        ),
        (
            lambda: gaussian.gram_release(np.ones((3, 2)), 0, "add-remove", 1, 0.1, rng=RNG(1)),
            "norm must be positive",
        ),
        (
            lambda: gaussian.gram_release(np.ones((3, 2)), 1, "both", 1, 0.1, rng=RNG(1)),
            "neighbours must be one of",
        ),
        (
            lambda: gaussian.classical_sigma(1, 1e-7, 0.1),
            "epsilon must be between 1e-06 and 1000, got 1e-07",
        ),
        (
            lambda: gaussian.classical_sigma(1, 0.5, 1e-301),
            "delta must be between 1e-300 and 1, got 1e-301",
        ),
        (
            lambda: gaussian.classical_sigma(1e100, 1e-5, 0.1),
            "sigma must be between 1e-100 and 1e+100, got 2.24",
        ),
        (
            lambda: gaussian.sigma(1e101, 1, 0.1),
            "sensitivity must be between 1e-100 and 1e+100, got 1e+101",
        ),
        (
            lambda: gaussian.sigma(1, 1001, 0.1),
            "epsilon must be between 1e-06 and 1000 or 0, got 1001",
        ),
        (lambda: gaussian.sigma(1, 1, 1e-301), "delta must be between 1e-300 and 1, got 1e-301"),
        (
            lambda: gaussian.release(1, 1e100, 1e-6, 1e-6, rng=RNG(1)),
            "sigma must be between 1e-100 and 1e+100, got",
        ),
        (
            lambda: gaussian.release(
                1, sensitivity.of_histogram("add-remove"), 1, 1e-6, rng=RNG(1)
            ),
            "sensitivity must be in the norm 'absolute' or 'l2', got 'l1'",
        ),
        (
            lambda: gaussian.mechanism(1, 1, 1e-6),
            "sensitivity must be a Sensitivity, which names the relation and the unit",
        ),
        (
            lambda: gaussian.mechanism(sensitivity.of_histogram("add-remove"), 1, 1e-6),
            "sensitivity must be in the norm 'abs",
        ),
        (
            lambda: gaussian.mechanism(sensitivity.of_count("add-remove"), 1),
            "delta must be strictly between 0 and 1, got None",
        ),
        (
            lambda: gaussian.mechanism(sensitivity.of_count("add-remove")),
            "epsilon must be positive and finite, got None",
        ),
        (
            lambda: gaussian.mechanism(sensitivity.of_count("add-remove"), 1, 0.1, mu=1),
            "mu must be left out beside epsilon",
        ),
        (
            lambda: gaussian.mechanism(sensitivity.of_count("add-remove"), mu=0),
            "mu must be positive and finite, got 0",
        ),
        (
            lambda: gaussian.mechanism(sensitivity.of_count("add-remove"), mu=1)(
                [1, 2], rng=RNG(1)
            ),
            "value must be one number",
        ),
        (
            lambda: gaussian.mechanism(sensitivity.of_count("add-remove"), mu=1)(
                1, rng=noise.SYSTEM
            ),
            "rng must be a np.random.G",
        ),
        (
            lambda: gaussian.gram_mechanism(1, 0, "add-remove", 1, 0.1),
            "columns must be at least 1, got 0",
        ),
        (
            lambda: gaussian.clip_rows(np.ones((2, 2)), -1),
            "norm must be positive and finite, got -1",
        ),
    ],
)
def test_refusals_name_argument_and_value(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(sentence)


def test_the_recorded_values_of_other_libraries_are_off_where_the_chapter_says():
    rows = {
        (row["library"], float(row["epsilon"]), float(row["delta"])): float(row["sigma"])
        for row in csv.DictReader((data.FOLDER / "results" / "gaussian_sigma.csv").open())
    }
    off = {key: sigma / gaussian.sigma(1, *key[1:]) - 1 for key, sigma in rows.items()}
    assert len(off) == 12
    for library, pair, expected in (
        ("autodp", (1, 1e-15), -0.0651),
        ("autodp", (100, 1e-20), -0.1211),
        ("autodp", (5, 1e-100), -0.6196),
        ("autodp", (30, 1e-12), 0.0357),
        ("diffprivlib", (1, 1e-15), -0.000676),
        ("diffprivlib", (5, 1e-100), -0.6228),
    ):
        assert off[library, *pair] == pytest.approx(expected, rel=2e-3)
    assert max(abs(off[library, 1.0, 1e-6]) for library in ("autodp", "diffprivlib")) < 2e-8


def test_the_recorded_values_are_those_of_the_two_attempts_that_the_appendix_names():
    tolerance = {"autodp": 1e-12, "diffprivlib": 0.0}
    with (data.FOLDER / "results" / "gaussian_sigma.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["library"] for row in rows} == set(tolerance)
    for row in rows:
        found = searched(float(row["epsilon"]), float(row["delta"]), tolerance[row["library"]])
        assert found == pytest.approx(float(row["sigma"]), rel=1e-12)


def searched(epsilon, delta, tolerance):
    """sigma as the script of Balle and Wang searches it, with sigma sqrt(2 epsilon) =
    sqrt(1 + s/2) -+ sqrt(s/2), until delta is met to a tolerance or no double is left between."""

    def phi(t):
        return 0.5 * (1 + math.erf(t / math.sqrt(2)))

    start = phi(0) - math.exp(epsilon) * phi(-math.sqrt(2 * epsilon))
    sign = 1 if delta > start else -1

    def gap(s):
        far = math.exp(epsilon) * phi(-math.sqrt(epsilon * (s + 2)))
        return phi(sign * math.sqrt(epsilon * s)) - far - delta

    low, high = 0.0, 1.0
    while sign * gap(high) < 0:
        low, high = high, 2 * high
    s = (low + high) / 2
    while abs(gap(s)) > tolerance and low < s < high:
        low, high = (s, high) if sign * gap(s) < 0 else (low, s)
        s = (low + high) / 2
    return (math.sqrt(1 + s / 2) - sign * math.sqrt(s / 2)) / math.sqrt(2 * epsilon)
