"""Privacy curves against many-digit arithmetic, dp_accounting, closed forms and one another, on the private side."""
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import special

from dputils.accounting import curves, renyi

GRID = [(10.0**e, 10.0**d) for e in (-6, -4, -2, -1, 0, 1, 2, 3) for d in (-300, -100, -30, -15, -9, -6, -3, -1)]


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(80):
        yield


def upper(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def exact_delta(epsilon, mu):
    """The two terms of Balle and Wang's Theorem 8 with 80 digits, and delta's derivatives for mu and minus epsilon."""
    e, m = mpf(float(epsilon)), mpf(float(mu))
    a, b = e / m - m / 2, e / m + m / 2
    return upper(a) - mp.exp(e) * upper(b), mp.npdf(a), mp.exp(e) * upper(b)


def pairs(n, seed, low=-300, high=-1):
    rng = np.random.default_rng(seed)
    deltas = np.where(np.arange(n) % 2, rng.uniform(low, high, n), rng.uniform(-20, high, n))
    return list(zip(10 ** rng.uniform(-6, 3, n), 10**deltas))


def excess_of_mu(epsilon, delta, mu):
    """How far mu lies below the exact root, relative to mu: delta's gap over its slope (a gap below 1e-9 is linear)."""
    value, slope, _ = exact_delta(epsilon, mu)
    return float((mpf(delta) - value) / (slope * mpf(mu)))


# ------------------------------------------------------------------------------------------------------ Gaussian


def test_mu_is_the_exact_root_to_1e_12_and_never_above_it():
    cases = GRID + pairs(400, seed=1)
    mus = curves.gaussian_mu(*np.array(cases).T)
    gaps = [excess_of_mu(e, d, mu) for (e, d), mu in zip(cases, mus)]
    assert 0 <= min(gaps) and max(gaps) <= 2e-13


def test_mu_for_large_delta_no_epsilon_and_extreme_arguments():
    for epsilon, delta in [(0, 0.5), (0, 1e-9), (1e-6, 0.999999), (1, 0.5), (1, 0.5000001), (3, 1 - 2**-53),
                           (1000, 0.9999), (1e6, 1e-10), (1e12, 1e-10), (1, 5e-324), (1e-320, 0.1)]:
        assert 0 <= excess_of_mu(epsilon, delta, curves.gaussian_mu(epsilon, delta)) <= 1e-12, (epsilon, delta)
    for epsilon in (1e15, 1e30, 1e200, 1.7e308):
        mu = curves.gaussian_mu(epsilon, 1e-5)
        assert 1 - 1e-6 < mu / math.sqrt(2) / math.sqrt(epsilon) < 1


def test_mu_and_epsilon_at_the_ends_of_the_floats_stay_private_and_close():
    mp.dps = 400  # two terms near 1/2 differ by 1e-323
    for epsilon, delta in [(0, 1.5e-323), (0, 1.63e-322), (0, 5e-324), (1e-322, 5e-324), (3e-320, 1e-320)]:
        mu = curves.gaussian_mu(epsilon, delta)
        assert mu == 0 or exact_delta(epsilon, mu)[0] <= mpf(delta), (epsilon, delta)
        assert mpf(mu) >= mpf(delta) * mp.sqrt(2 * mp.pi) - 3e-323
    for mu, delta in [(9.6e-318, 3.5e-305), (1e-310, 5e-324), (1e-320, 1e-321)]:
        assert exact_delta(curves.gaussian_epsilon(mu, delta), mu)[0] <= mpf(delta), (mu, delta)


@pytest.mark.parametrize("delta", [1e-2, 1e-10, 0.3])
def test_between_the_moderate_and_the_enormous_the_root_is_not_replaced_by_a_bound(delta):
    for epsilon in (2e10, 1e11, 1e12):  # a bound from delta <= Q(a) would be off by 1e-11 of mu at the first
        assert 0 <= excess_of_mu(epsilon, delta, curves.gaussian_mu(epsilon, delta)) <= 2e-13
    for mu in (1.1e5, 1e6, 1e7):
        epsilon = curves.gaussian_epsilon(mu, delta)
        value, _, slope = exact_delta(epsilon, mu)
        assert 0 <= float((mpf(delta) - value) / slope) <= 4e-13 * epsilon


def test_few_steps_solve_for_floats_of_all_sizes(monkeypatch):
    """Six steps are the most seen; the loop allows twelve. Each step calls the curve once."""
    calls, log_side = [], curves._log_side
    monkeypatch.setattr(curves, "_log_side", lambda *x: calls.append(1) or log_side(*x))
    rng = np.random.default_rng(13)
    for _ in range(40):
        delta = np.concatenate([10 ** rng.uniform(-323, 0, 250), 1 - 10 ** rng.uniform(-15, -0.1, 50)])
        for size in (10 ** rng.uniform(-322, 308, 300), 10 ** rng.uniform(-8, 9, 300)):
            for solve in (curves.gaussian_mu, curves.gaussian_epsilon):
                calls.clear()
                solve(size, delta)
                assert len(calls) <= 7 + 2


def test_delta_bounds_the_exact_one_closely():
    rng = np.random.default_rng(2)
    mu = 10 ** rng.uniform(-8, 3, 500)
    some = np.maximum(mu * mu / 2 + mu * rng.uniform(-9, 40, 500), 0)
    for m, e in zip(mu, np.where(np.arange(500) % 3, some, 10 ** rng.uniform(-9, 4, 500))):
        value = exact_delta(e, m)[0]
        log, ours = curves.gaussian_log_delta(e, m), curves.gaussian_delta(e, m)
        true = mp.log(value) if value > 0 else -mp.inf
        slack = 2e-13 + 1e-15 * (abs(float(true)) + (e / m) ** 2)
        assert true - mpf(10) ** -70 <= log <= true + slack, (e, m)
        assert min(value, 1) - mpf(10) ** -70 <= ours <= float(value) * (1 + 2 * slack) + 1e-323, (e, m)


def test_delta_at_the_ends():
    assert curves.gaussian_delta(1e3, 1e-3) == curves.gaussian_delta(1e300, 1e-300) == 5e-324
    assert curves.gaussian_log_delta(1e3, 1e-3) == pytest.approx(-5e11)
    assert curves.gaussian_log_delta(1, 1e9) == 0 and curves.gaussian_delta(1, [1e9, 1e308]).tolist() == [1, 1]
    for mu in (5e-324, 2e-320, 1e-310):  # subnormal numbers lose digits: bounded from above all the same
        assert mp.log(mpf(mu) / mp.sqrt(2 * mp.pi)) <= curves.gaussian_log_delta(0, mu) < -690
    assert curves.gaussian_delta(0, 2) == pytest.approx(special.erf(1 / math.sqrt(2)), rel=1e-12)


def test_epsilon_is_the_exact_root_and_never_below_it():
    rng = np.random.default_rng(3)
    for i in range(400):
        mu = 10 ** rng.uniform(-6, 3)
        delta = 10 ** rng.uniform(-300, -0.0001) if i % 3 else 10 ** rng.uniform(-12, -1e-6)
        epsilon = curves.gaussian_epsilon(mu, delta)
        value, _, slope = exact_delta(epsilon, mu)
        assert value <= delta
        if epsilon > 0:
            gap = float((mpf(delta) - value) / slope)
            assert gap <= 3e-13 * epsilon + 1e-12 * float(delta / slope) + 1e-14 * mu * mu, (mu, delta)
    assert curves.gaussian_epsilon(1e200, 1e-6) == math.inf
    assert curves.gaussian_epsilon(1e9, 1e-6) == pytest.approx(5e17 + 4.753424e9, rel=1e-12)


def test_round_trips_over_ten_decades():
    epsilon, delta = (x.ravel() for x in np.meshgrid(np.logspace(-5, 3, 33), np.logspace(-40, -1, 40)))
    mu = curves.gaussian_mu(epsilon, delta)
    back = curves.gaussian_epsilon(mu, delta)
    slope = np.exp(epsilon + special.log_ndtr(-epsilon / mu - mu / 2))
    assert np.all(np.abs(back - epsilon) <= 1e-12 * epsilon + 2e-12 * delta / slope)
    np.testing.assert_allclose(curves.gaussian_log_delta(epsilon, mu), np.log(delta), rtol=0, atol=2e-10)
    mu = np.logspace(-8, 2, 41)[:, None]
    tried = np.logspace(-5, 3, 17)
    deltas = curves.gaussian_delta(tried, mu)
    sharp = (deltas > 1e-300) & (deltas < 0.99)
    np.testing.assert_allclose(curves.gaussian_mu(tried, np.minimum(deltas, 0.999))[sharp],
                               np.broadcast_to(mu, deltas.shape)[sharp], rtol=3e-12)


@given(st.floats(-6, 3), st.floats(-300, -0.001), st.floats(1e-9, 1))
def test_more_epsilon_or_delta_allows_more_mu_and_more_mu_costs_more(log_epsilon, log_delta, more):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    mu = curves.gaussian_mu(epsilon, delta)
    assert mu <= curves.gaussian_mu(epsilon * (1 + more), delta) * (1 + 2e-12)
    assert mu <= curves.gaussian_mu(epsilon, delta ** (1 - more / 2)) * (1 + 2e-12)
    assert curves.gaussian_log_delta(epsilon, mu) <= curves.gaussian_log_delta(epsilon, mu * (1 + more)) + 1e-11
    assert curves.gaussian_log_delta(epsilon * (1 + more), mu) <= curves.gaussian_log_delta(epsilon, mu) + 1e-11
    assert curves.gaussian_epsilon(mu, delta) <= curves.gaussian_epsilon(mu * (1 + more), delta) * (1 + 1e-11) + 1e-11


def test_dp_accounting_agrees_where_its_difference_does_not_cancel():
    for epsilon, delta in [(e, d) for e, d in GRID + pairs(60, 4) if 1e-2 <= e <= 100]:
        sigma = 1 / curves.gaussian_mu(epsilon, delta)
        assert sigma == pytest.approx(gaussian_mechanism.get_sigma_gaussian(epsilon, delta), rel=3e-10)
        if sigma < 1e3:
            theirs = gaussian_mechanism.get_epsilon_gaussian(sigma, delta)
            assert epsilon == pytest.approx(theirs, rel=1e-9)


def test_dp_accounting_loses_digits_at_small_epsilon():
    sigma = gaussian_mechanism.get_sigma_gaussian(1e-6, 1e-300)
    assert sigma < 36475988.4 < 1 / curves.gaussian_mu(1e-6, 1e-300) < 36475988.5
    assert exact_delta(1e-6, 1 / sigma)[0] > 1.00003e-300


def test_an_absolute_tolerance_on_delta_breaks_small_delta():
    for epsilon, delta, error in [(1, 1e-9, 1.33e-5), (1, 1e-15, -0.065), (100, 1e-20, -0.12), (5, 1e-100, -0.62),
                                  (30, 1e-12, 0.036)]:
        sigma = absolute_tolerance(epsilon, delta)
        assert sigma * curves.gaussian_mu(epsilon, delta) - 1 == pytest.approx(error, rel=0.05), (epsilon, delta)
    assert exact_delta(5, 1 / absolute_tolerance(5, 1e-100))[0] > 1e-16


def absolute_tolerance(epsilon, delta, tolerance=1e-12):
    """sigma as in the published script: with sigma sqrt(2 epsilon) = sqrt(1 + u/2) -+ sqrt(u/2), bisect u until delta
    is met to 1e-12, in double precision."""
    def phi(t):
        return 0.5 * (1 + math.erf(t / math.sqrt(2)))

    def value(u, sign):
        x = math.sqrt(epsilon * u) if sign > 0 else -math.sqrt(epsilon * u)
        return phi(x) - math.exp(epsilon) * phi(-math.sqrt(epsilon * (u + 2)))

    if abs(value(0, 1) - delta) <= tolerance:
        return 1 / math.sqrt(2 * epsilon)
    sign = 1 if value(0, 1) < delta else -1
    low, high = 0.0, 1.0
    while (value(high, sign) - delta) * sign < 0:
        low, high = high, 2 * high
    for _ in range(200):
        u = (low + high) / 2
        gap = (value(u, sign) - delta) * sign
        if abs(gap) <= tolerance:
            break
        low, high = (u, high) if gap < 0 else (low, u)
    return (math.sqrt(1 + u / 2) - sign * math.sqrt(u / 2)) / math.sqrt(2 * epsilon)


# ---------------------------------------------------------------------------------------- zCDP, pure, Renyi privacy


def bisected(rising):
    low, high = mpf(-800), mpf(800)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(mp.exp(middle)) < 0 else (low, middle)
    return mp.exp(low)


def exact_zcdp_epsilon(rho, delta):
    """The optimum over all orders with 80 digits, in the words of Canonne, Kamath, Steinke 2020."""
    rho, log = mpf(float(rho)), mp.log(mpf(float(delta)))
    alpha = 1 + bisected(lambda t: rho * t * t + mp.log1p(t) + log)
    return max(0, alpha * rho - (log + mp.log(alpha - 1)) / (alpha - 1) + alpha / (alpha - 1) * mp.log1p(-1 / alpha))


def exact_zcdp_log_delta(rho, epsilon):
    rho, epsilon = mpf(float(rho)), mpf(float(epsilon))
    alpha = 1 + bisected(lambda t: (2 * t + 1) * rho - epsilon - mp.log1p(1 / t))
    return min(0, (alpha - 1) * (alpha * rho - epsilon) + alpha * mp.log1p(-1 / alpha) - mp.log(alpha - 1))


def test_zcdp_known_values():
    assert renyi.zcdp_epsilon(0.1, 1e-6) == pytest.approx(2.1419389284, abs=1e-10)
    assert renyi.zcdp_epsilon(0.1, 1e-6) < 0.1 + 2 * math.sqrt(0.1 * math.log(1e6))  # 2.45079
    assert renyi.zcdp_delta(0.1, 2.1419389284) == pytest.approx(1e-6, rel=1e-8)
    assert math.sqrt(1 / 2 / renyi.zcdp_rho(1, 1e-6)) == pytest.approx(4.530877, abs=1e-6)


def test_zcdp_conversions_are_the_optimum_over_orders_and_on_the_private_side():
    rng = np.random.default_rng(5)
    for i in range(50):
        rho, epsilon = 10 ** rng.uniform(-8, 4), 10 ** rng.uniform(-8, 4)
        delta = 10 ** rng.uniform(-300, -1e-3) if i % 2 else 10 ** rng.uniform(-12, -1e-3)
        true, ours = exact_zcdp_epsilon(rho, delta), renyi.zcdp_epsilon(rho, delta)
        assert true <= ours <= true * (1 + 1e-12) + 1e-15
        true, ours = exact_zcdp_log_delta(rho, epsilon), renyi.zcdp_delta(rho, epsilon)
        assert mp.exp(true) <= ours <= max(mp.exp(true + mpf(10) ** -11), mpf(5e-324))
        rho = renyi.zcdp_rho(epsilon, delta)
        assert exact_zcdp_epsilon(rho, delta) <= epsilon < exact_zcdp_epsilon(rho * (1 + 1e-10), delta)


def test_zcdp_delta_of_extreme_arguments_is_a_number_on_the_private_side():
    for rho, epsilon in [(1, 1e155), (1e-3, 1e153), (1e-300, 1e5), (1, 1e308), (5e-324, 5e-324), (1e308, 1e308)]:
        true, ours = mp.exp(exact_zcdp_log_delta(rho, epsilon)), renyi.zcdp_delta(rho, epsilon)
        assert true <= ours <= max(true * (1 + mpf(10) ** -11), mpf(5e-324)), (rho, epsilon)
    rng = np.random.default_rng(12)
    wide, delta = 10 ** rng.uniform(-323, 308, (2, 2000)), 10 ** rng.uniform(-323, -1e-9, 2000)
    for values in (renyi.zcdp_delta(*wide), renyi.zcdp_epsilon(wide[0], delta), renyi.zcdp_rho(wide[0], delta)):
        assert not np.isnan(values).any() and (values >= 0).all()


def test_zcdp_never_beats_the_gaussian_curve_it_bounds():
    epsilon, delta = np.meshgrid(np.logspace(-3, 2, 21), np.logspace(-50, -1, 26))
    rho = renyi.zcdp_rho(epsilon, delta)
    assert np.all(np.sqrt(2 * rho) < curves.gaussian_mu(epsilon, delta))
    assert np.all(np.diff(rho, axis=0) > 0) and np.all(np.diff(rho, axis=1) > 0)
    np.testing.assert_allclose(renyi.zcdp_epsilon(rho, delta), epsilon, rtol=1e-9)


def test_pure_to_zcdp_is_exact():
    assert renyi.pure_to_zcdp(Fraction(1, 3)) == Fraction(1, 18) and isinstance(renyi.pure_to_zcdp(1), Fraction)
    assert renyi.pure_to_zcdp(0.1) == 0.005


@given(st.floats(5e-324, 1e154))
def test_pure_to_zcdp_of_a_float_is_the_smallest_float_not_below_the_decimal(epsilon):
    exact = Fraction(repr(epsilon)) ** 2 / 2
    rho = renyi.pure_to_zcdp(epsilon)
    assert Fraction(math.nextafter(rho, 0)) < exact <= Fraction(rho)


def test_pure_to_gaussian_passes_through_the_kink_from_above():
    assert renyi.pure_to_gaussian(5e-324) == 1e-323  # 6.2e-324, rounded up
    for epsilon in (1e-310, 3e-322, 1e-300, 9e-301):
        assert 0 <= mpf(renyi.pure_to_gaussian(epsilon)) - epsilon * mp.sqrt(mp.pi / 2) <= 3e-15 * epsilon + 1e-323
    for epsilon in (1e-12, 1e-6, 0.01, 0.5, 1.9, 1.999999, 2, 2.1, 5, 50, 700, 1e5):
        half = mpf(renyi.pure_to_gaussian(epsilon)) / 2
        kink, slope = 1 / (1 + mp.exp(mpf(epsilon))), mp.npdf(half)
        assert 0 <= float((kink - upper(half)) / (slope * half)) <= 4e-15, epsilon


def test_pure_to_gaussian_curve_lies_below_the_two_lines():
    p = np.linspace(1e-4, 1 - 1e-4, 999)
    for epsilon in (0.01, 0.5, 1, 4):
        gaussian = special.ndtr(special.ndtri(1 - p) - renyi.pure_to_gaussian(epsilon))
        lines = np.maximum(0, np.maximum(1 - math.exp(epsilon) * p, math.exp(-epsilon) * (1 - p)))
        assert np.all(gaussian <= lines + 1e-14)
        assert np.any(special.ndtr(special.ndtri(1 - p) - 0.99 * renyi.pure_to_gaussian(epsilon)) > lines + 1e-6)


def test_laplace_rdp_bounds_the_exact_divergence():
    rng = np.random.default_rng(6)
    for _ in range(200):
        order, scale = 1 + 10 ** rng.uniform(-4, 6), 10 ** rng.uniform(-4, 5)
        a, b = mpf(order), mpf(scale)
        true = mp.log(a / (2 * a - 1) * mp.exp((a - 1) / b) + (a - 1) / (2 * a - 1) * mp.exp(-a / b)) / (a - 1)
        ours = renyi.laplace_rdp(order, scale)
        assert true <= ours <= min(1 / b, true + 1e-14 * (1 / b + (1 + mp.log(a)) / (a - 1) + a / (a - 1) / b) + 1e-20)
    for order in (2, 5):
        moment = mp.quad(lambda x: mp.exp(-order * abs(x) / 2 + (order - 1) * abs(x - 1) / 2) / 4,
                         [-mp.inf, 0, 1, mp.inf])
        assert renyi.laplace_rdp(order, 2) == pytest.approx(float(mp.log(moment) / (order - 1)), rel=1e-13)


def test_rdp_to_epsilon_takes_the_best_order():
    orders = np.array([1.5, 2, 4, 8, 16, 32, 64])
    theirs, order = rdp_privacy_accountant.compute_epsilon(orders, 0.05 * orders, 1e-6)
    assert order == 16 and theirs <= renyi.rdp_to_epsilon(orders, 0.05 * orders, 1e-6) <= theirs * (1 + 1e-12)
    fine = 1 + np.logspace(-2, 3, 4001)  # zCDP is a line of divergences: the same bound, up to the grid of orders
    assert 0 <= renyi.rdp_to_epsilon(fine, 0.1 * fine, 1e-6) / renyi.zcdp_epsilon(0.1, 1e-6) - 1 < 1e-6
    assert renyi.rdp_to_epsilon(50, 0, 0.9) == 0
    fine = np.linspace(1.01, 60, 10001)
    assert renyi.rdp_to_epsilon(fine, 100 * renyi.laplace_rdp(fine, 10), 1e-6) == pytest.approx(4.98417, abs=1e-4)


def test_rdp_to_epsilon_is_never_below_the_formula():
    rng = np.random.default_rng(14)
    for _ in range(200):
        orders = 1 + 10 ** rng.uniform(-3, 5, 5)
        divergences, delta = orders * 10 ** rng.uniform(-8, 3), 10 ** rng.uniform(-300, -0.1)
        exact = min(mpf(d) + mp.log1p(-1 / mpf(a)) - mp.log(mpf(a) * mpf(delta)) / (mpf(a) - 1)
                    for a, d in zip(orders, divergences))
        ours = renyi.rdp_to_epsilon(orders, divergences, delta)
        assert max(0, exact) <= ours <= max(0, exact) * (1 + 1e-13) + mpf(10) ** -11


def test_rdp_to_epsilon_skips_infinite_divergences():
    finite = renyi.rdp_to_epsilon([2, 8], [0.1, 0.4], 1e-6)
    assert renyi.rdp_to_epsilon([2, 8, 64], [0.1, 0.4, math.inf], 1e-6) == finite
    assert renyi.rdp_to_epsilon([2, 64], math.inf, 1e-6) == math.inf


# --------------------------------------------------------------------------------------------------------- arguments


def test_numbers_give_floats_and_arrays_broadcast():
    for function in (curves.gaussian_log_delta, curves.gaussian_delta, curves.gaussian_mu, curves.gaussian_epsilon,
                     renyi.zcdp_delta, renyi.zcdp_epsilon, renyi.zcdp_rho):
        assert type(function(0.5, 0.1)) is float and type(function(Fraction(1, 2), np.float64(0.1))) is float
        table = function(np.array([[0.5], [1.0]]), [0.1, 0.2, 0.3])
        assert table.shape == (2, 3) and table[0, 0] == function(0.5, 0.1) and table[1, 2] == function(1, 0.3)
        assert function(np.empty((0, 2)), 0.1).shape == (0, 2)
        assert function(np.full(20000, 0.5), 0.1)[-1] == function(0.5, 0.1)  # more than one chunk
    assert type(renyi.pure_to_gaussian(1)) is float and type(renyi.laplace_rdp(2, 1)) is float


@pytest.mark.parametrize("call,sentence", [
    (lambda: curves.gaussian_mu(-1, 0.1), "epsilon must be at least 0 and finite, got -1"),
    (lambda: curves.gaussian_mu([1, math.nan], 0.1), "epsilon must be at least 0 and finite, got nan"),
    (lambda: curves.gaussian_mu(1, 0), "delta must be strictly between 0 and 1, got 0"),
    (lambda: curves.gaussian_mu(1, [0.1, 1.0]), "delta must be strictly between 0 and 1, got 1.0"),
    (lambda: curves.gaussian_delta(math.inf, 1), "epsilon must be at least 0 and finite, got inf"),
    (lambda: curves.gaussian_delta(1, 0.0), "mu must be positive and finite, got 0.0"),
    (lambda: curves.gaussian_epsilon("1", 0.1), "mu must be positive and finite, got '1'"),
    (lambda: curves.gaussian_epsilon(True, 0.1), "mu must be positive and finite, got True"),
    (lambda: renyi.zcdp_epsilon(None, 0.1), "rho must be a number, got None"),
    (lambda: renyi.zcdp_delta(0, 1), "rho must be positive and finite, got 0"),
    (lambda: renyi.zcdp_rho(1, 10**400), "delta must be finite, got 1000"),
    (lambda: renyi.pure_to_zcdp(0), "epsilon must be positive and finite, got 0"),
    (lambda: renyi.pure_to_gaussian(0.0), "epsilon must be positive and finite, got 0.0"),
    (lambda: renyi.laplace_rdp(1, 1), "order must be above 1 and finite, got 1"),
    (lambda: renyi.laplace_rdp(2, 0), "scale must be positive and finite, got 0"),
    (lambda: renyi.rdp_to_epsilon([2, 1], [1, 1], 0.1), "orders must be above 1 and finite, got 1"),
    (lambda: renyi.rdp_to_epsilon([2], [-1.0], 0.1), "divergences must be at least 0, got -1.0"),
    (lambda: renyi.rdp_to_epsilon([2], math.nan, 0.1), "divergences must be at least 0, got nan"),
    (lambda: renyi.rdp_to_epsilon([], [], 0.1), "orders and divergences must not be empty, got shapes (0,) and (0,)"),
    (lambda: renyi.rdp_to_epsilon([2], [1], [0.1, 0.2]), "delta must be strictly between 0 and 1, got [0.1, 0.2]"),
    (lambda: curves.gaussian_mu(1, 1 - np.longdouble("1e-18")), "delta must be strictly between 0 and 1, got 1.0"),
    (lambda: renyi.pure_to_zcdp(1e200), "epsilon must have a half square that is a float, got 1e+200: pass"),
])
def test_refusals_name_argument_and_value(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(sentence)
