"""Renyi and concentrated privacy against many-digit arithmetic, quadrature, dp-accounting."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import special

from dputils.accounting import composition, curves, renyi
from dputils.accounting.costs import ZCDP, Gaussian, Pure, Renyi

pytestmark = pytest.mark.usefixtures("many_digits")


def of(x):
    """An exact fraction with many digits."""
    return mpf(x.numerator) / x.denominator


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
    return max(
        0,
        alpha * rho
        - (log + mp.log(alpha - 1)) / (alpha - 1)
        + alpha / (alpha - 1) * mp.log1p(-1 / alpha),
    )


def exact_zcdp_log_delta(rho, epsilon):
    rho, epsilon = mpf(float(rho)), mpf(float(epsilon))
    alpha = 1 + bisected(lambda t: (2 * t + 1) * rho - epsilon - mp.log1p(1 / t))
    return min(
        0, (alpha - 1) * (alpha * rho - epsilon) + alpha * mp.log1p(-1 / alpha) - mp.log(alpha - 1)
    )


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
        assert (
            exact_zcdp_epsilon(rho, delta) <= epsilon < exact_zcdp_epsilon(rho * (1 + 1e-10), delta)
        )


def test_zcdp_at_the_ends_of_its_ranges_is_a_number_on_the_private_side():
    for rho, epsilon in itertools.product(renyi.RHO, (0, *curves.EPSILON)):
        true, ours = mp.exp(exact_zcdp_log_delta(rho, epsilon)), renyi.zcdp_delta(rho, epsilon)
        assert true <= ours <= max(true * (1 + mpf(10) ** -7), mpf(5e-324)), (rho, epsilon)
    for rho, delta in itertools.product(renyi.RHO, curves.DELTA):
        true, ours = exact_zcdp_epsilon(rho, delta), renyi.zcdp_epsilon(rho, delta)
        assert true <= ours <= true * (1 + mpf(10) ** -11) + mpf(10) ** -14, (rho, delta)
    for epsilon, delta in itertools.product((0, *curves.EPSILON), curves.DELTA):
        rho = renyi.zcdp_rho(epsilon, delta)
        assert rho == 0 or exact_zcdp_epsilon(rho, delta) <= epsilon, (epsilon, delta)
        assert rho > 0 or epsilon < 1e-8 and delta < 1e-299, (epsilon, delta)
    rng = np.random.default_rng(12)
    rho, delta = 10 ** rng.uniform(-24, 8, 2000), 10 ** rng.uniform(-300, -1e-9, 2000)
    epsilon = 10 ** rng.uniform(-9, 6, 2000)
    answers = (
        renyi.zcdp_delta(rho, epsilon),
        renyi.zcdp_epsilon(rho, delta),
        renyi.zcdp_rho(epsilon, delta),
    )
    for values in answers:
        assert not np.isnan(values).any() and (values >= 0).all()


def test_zcdp_never_beats_the_gaussian_curve_it_bounds():
    epsilon, delta = np.meshgrid(np.logspace(-3, 2, 21), np.logspace(-50, -1, 26))
    rho = renyi.zcdp_rho(epsilon, delta)
    assert np.all(np.sqrt(2 * rho) < curves.gaussian_mu(epsilon, delta))
    assert np.all(np.diff(rho, axis=0) > 0) and np.all(np.diff(rho, axis=1) > 0)
    np.testing.assert_allclose(renyi.zcdp_epsilon(rho, delta), epsilon, rtol=1e-9)


def test_pure_to_zcdp_is_exact():
    assert renyi.pure_to_zcdp(Fraction(1, 3)) == Fraction(1, 18) and isinstance(
        renyi.pure_to_zcdp(1), Fraction
    )
    assert renyi.pure_to_zcdp(0.1) == 0.005


@given(st.floats(1e-9, 1e6))
def test_pure_to_zcdp_of_a_float_is_the_smallest_float_not_below_the_decimal(epsilon):
    exact = Fraction(repr(epsilon)) ** 2 / 2
    rho = renyi.pure_to_zcdp(epsilon)
    assert Fraction(math.nextafter(rho, 0)) < exact <= Fraction(rho)


def test_pure_to_gaussian_passes_through_the_kink_from_above():
    for epsilon in (1e-9, 1e-6, 0.01, 0.5, 1.9, 1.999999, 2, 2.1, 5, 50, 700, 1e5, 1e6):
        half = mpf(renyi.pure_to_gaussian(epsilon)) / 2
        kink, slope = 1 / (1 + mp.exp(mpf(epsilon))), mp.npdf(half)
        assert 0 <= float((kink - mp.ncdf(-half)) / (slope * half)) <= 4e-15, epsilon


def test_pure_to_gaussian_curve_lies_below_the_two_lines():
    p = np.linspace(1e-4, 1 - 1e-4, 999)
    for epsilon in (0.01, 0.5, 1, 4):
        gaussian = special.ndtr(special.ndtri(1 - p) - renyi.pure_to_gaussian(epsilon))
        lines = np.maximum(0, np.maximum(1 - math.exp(epsilon) * p, math.exp(-epsilon) * (1 - p)))
        assert np.all(gaussian <= lines + 1e-14)
        assert np.any(
            special.ndtr(special.ndtri(1 - p) - 0.99 * renyi.pure_to_gaussian(epsilon))
            > lines + 1e-6
        )


def test_laplace_rdp_bounds_the_exact_divergence():
    rng = np.random.default_rng(6)
    for _ in range(200):
        order, scale = 1.0001 + 10 ** rng.uniform(-4, 5.99), 10 ** rng.uniform(-6, 9)
        a, b = mpf(order), mpf(scale)
        true = mp.log(
            a / (2 * a - 1) * mp.exp((a - 1) / b) + (a - 1) / (2 * a - 1) * mp.exp(-a / b)
        ) / (a - 1)
        ours = renyi.laplace_rdp(order, scale)
        assert (
            true
            <= ours
            <= min(
                1 / b, true + 1e-14 * (1 / b + (1 + mp.log(a)) / (a - 1) + a / (a - 1) / b) + 1e-20
            )
        )
    for order in (2, 5):

        def integrand(x, order=order):
            return mp.exp(-order * abs(x) / 2 + (order - 1) * abs(x - 1) / 2) / 4

        moment = mp.quad(integrand, [-mp.inf, 0, 1, mp.inf])
        assert renyi.laplace_rdp(order, 2) == pytest.approx(
            float(mp.log(moment) / (order - 1)), rel=1e-13
        )


def test_rdp_to_epsilon_takes_the_best_order():
    orders = np.array([1.5, 2, 4, 8, 16, 32, 64])
    theirs, order = rdp_privacy_accountant.compute_epsilon(orders, 0.05 * orders, 1e-6)
    assert order == 16 and theirs <= renyi.rdp_to_epsilon(orders, 0.05 * orders, 1e-6) <= theirs * (
        1 + 1e-12
    )
    fine = 1 + np.logspace(
        -2, 3, 4001
    )  # zCDP is a line of divergences: the same bound, up to the grid of orders
    assert (
        0 <= renyi.rdp_to_epsilon(fine, 0.1 * fine, 1e-6) / renyi.zcdp_epsilon(0.1, 1e-6) - 1 < 1e-6
    )
    assert renyi.rdp_to_epsilon(50, 0, 0.9) == 0
    fine = np.linspace(1.01, 60, 10001)
    assert renyi.rdp_to_epsilon(fine, 100 * renyi.laplace_rdp(fine, 10), 1e-6) == pytest.approx(
        4.98417, abs=1e-4
    )


def test_rdp_to_epsilon_is_never_below_the_formula():
    rng = np.random.default_rng(14)
    for _ in range(200):
        orders = 1.0001 + 10 ** rng.uniform(-4, 5.99, 5)
        divergences, delta = orders * 10 ** rng.uniform(-8, 3), 10 ** rng.uniform(-300, -0.1)
        exact = min(
            mpf(d) + mp.log1p(-1 / mpf(a)) - mp.log(mpf(a) * mpf(delta)) / (mpf(a) - 1)
            for a, d in zip(orders, divergences)
        )
        ours = renyi.rdp_to_epsilon(orders, divergences, delta)
        assert max(0, exact) <= ours <= max(0, exact) * (1 + 1e-13) + mpf(10) ** -11


def test_rdp_to_epsilon_skips_infinite_divergences():
    finite = renyi.rdp_to_epsilon([2, 8], [0.1, 0.4], 1e-6)
    assert renyi.rdp_to_epsilon([2, 8, 64], [0.1, 0.4, math.inf], 1e-6) == finite
    assert renyi.rdp_to_epsilon([2, 64], math.inf, 1e-6) == math.inf


# ---------------------------------------------------------------------------------- curves as costs


def test_pure_rdp_bounds_the_divergence_of_randomized_response_closely():
    rng = np.random.default_rng(7)
    cases = list(zip(1.0001 + 10 ** rng.uniform(-4, 5.9, 150), 10 ** rng.uniform(-9, 6, 150)))
    for order, epsilon in cases + list(itertools.product(renyi.ORDER, curves.EPSILON)):
        a, e = mpf(order), mpf(epsilon)
        q = 1 / (1 + mp.exp(e))
        with mpmath.workdps(120):
            true = mp.log(q * mp.exp(a * e) + q * mp.exp((1 - a) * e)) / (a - 1)
        ours = renyi.pure_rdp(order, epsilon)
        assert true * (1 - mpf(10) ** -70) <= ours <= min(e, a * e * e / 2 * (1 + mpf(10) ** -14))
        assert ours <= true + 1e-14 * (1 + a * e) / (a - 1)


def test_pure_rdp_is_attained_by_no_release_less_private():
    """Any two laws within e^epsilon of each other diverge less than randomized response."""
    rng = np.random.default_rng(8)
    for _ in range(300):
        epsilon, order = 10 ** rng.uniform(-1, 1), 1.1 + 10 ** rng.uniform(-1, 1.5)
        p = rng.dirichlet(np.ones(4))
        q = p * np.exp(rng.uniform(0, epsilon, 4))
        q /= q.sum()
        assert np.abs(np.log(q / p)).max() <= epsilon
        moment = np.sum(q**order * p ** (1 - order))
        assert math.log(moment) / (order - 1) <= renyi.pure_rdp(order, epsilon) + 1e-12


def sampled_moment(order, sigma, rate):
    """ln of the moment of a sampled Gaussian, by quadrature over the output; the mean taken out."""
    a, s, q = mpf(order), mpf(sigma), mpf(rate)

    def integrand(z):
        odds = mp.expm1((2 * z - 1) / (2 * s * s))
        return mp.npdf(z, 0, s) * ((1 + q * odds) ** a - 1 - a * q * odds)

    ends = sorted({-12 * s, -4 * s, mpf(0), 4 * s, a / 2, a, a + 4 * s, a + 12 * s})
    return mp.log1p(mp.quad(integrand, ends))


@pytest.mark.parametrize("sigma,rate", [(1, 0.01), (1, 0.3), (4, 1e-4), (0.7, 0.05), (20, 0.9)])
def test_sampled_gaussian_divergences_cover_the_integral(sigma, rate):
    orders = [1.5, 2.0, 3.7, 8.0]
    ours = renyi.sampled_gaussian_rdp(orders, sigma, rate)
    with mpmath.workdps(25):
        for order, divergence in zip(orders, ours):
            true = sampled_moment(order, sigma, rate) / (order - 1)
            assert true <= divergence
            if order.is_integer():
                assert divergence <= true * (1 + mpf("2e-9")) + mpf(10) ** -14


def test_sampled_gaussian_divergences_cover_small_rates():
    """The moment is 1 but for its last digits: dp-accounting's rounding alone would be below."""
    for sigma, rate, order in itertools.product(
        (0.3, 1, 4, 50, 1e6), (1e-9, 1e-6, 1e-4, 0.3, 1 - 1e-6), (2, 3, 8, 64, 256)
    ):
        s, q = mpf(sigma), mpf(rate)
        rise = mp.fsum(
            mp.binomial(order, k)
            * (1 - q) ** (order - k)
            * q**k
            * mp.expm1((k * k - k) / (2 * s * s))
            for k in range(2, order + 1)
        )
        ours = renyi.sampled_gaussian_rdp([order], sigma, rate)[0] * (order - 1)
        assert mp.log1p(rise) <= ours * (1 + 2**-50) <= mp.log1p(rise) * (1 + 2e-9) + 1e-11


def test_orders_without_a_bound_are_inf_and_nothing_is_logged(caplog):
    """At half of the records the series of small orders does not converge: dp-accounting warns."""
    low, high = renyi.sampled_gaussian_rdp([1.1, 2], 2.23, 0.5)
    assert low == math.inf and 0 < high < 0.3
    assert not caplog.records


def test_sampled_gaussian_divergences_are_those_of_dp_accounting():
    orders = list(renyi.ORDERS)
    theirs = RdpAccountant(orders)
    theirs.compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1)), 1000)
    curve = composition.renyi([Renyi(orders, renyi.sampled_gaussian_rdp(orders, 1.1, 0.01))] * 1000)
    epsilon = renyi.rdp_to_epsilon(curve.orders, curve.divergences, 1e-5)
    assert theirs.get_epsilon(1e-5) <= epsilon <= theirs.get_epsilon(1e-5) * (1 + 1e-8)


def test_composition_and_conversion_agree_with_dp_accounting():
    orders = list(renyi.ORDERS)
    theirs = RdpAccountant(orders)
    theirs.compose(GaussianDpEvent(5), 10).compose(LaplaceDpEvent(4), 3)
    costs = [Gaussian(0.2)] * 10 + [Renyi(orders, renyi.laplace_rdp(orders, 4))] * 3
    curve = composition.renyi(costs)
    assert np.allclose(curve.divergences, theirs.rdp, rtol=1e-12)
    epsilon, account = composition.epsilon_at(costs, 1e-6)
    assert account == "renyi"
    assert theirs.get_epsilon(1e-6) <= epsilon <= theirs.get_epsilon(1e-6) * (1 + 1e-12)


def test_a_curve_answers_with_its_next_larger_order():
    one, two = Renyi([2, 4, 8], [0.1, 0.3, 0.9]), Renyi([3, 8], [0.2, 0.5])
    both = composition.renyi([one, two, two])
    assert both.orders == (2, 3, 4, 8)
    assert both.divergences == pytest.approx((0.1 + 0.4, 0.3 + 0.4, 0.3 + 1.0, 0.9 + 1.0))
    assert np.all(np.array(both.divergences) >= (0.5, 0.7, 1.3, 1.9))
    beyond = composition.renyi([one, Renyi([2, 16], [0.1, 1])])
    assert beyond.orders == (2, 4, 8, 16) and beyond.divergences[-1] == math.inf


def test_mixed_costs_add_up_order_by_order():
    curve = composition.renyi([Pure(0.5), ZCDP(0.1), Gaussian(0.3), Renyi([2, 10], [0.05, 0.2])])
    for order, divergence, own in zip(curve.orders, curve.divergences, (0.05, 0.2), strict=True):
        exact = order * (mpf("0.1") + mpf("0.045")) + mpf(own)
        e = mpf("0.5")
        q = 1 / (1 + mp.exp(e))
        exact += mp.log(q * mp.exp(order * e) + q * mp.exp((1 - order) * e)) / (order - 1)
        assert exact <= divergence <= exact * (1 + 1e-13)
    assert composition.renyi([]).divergences == (0.0,) * len(renyi.ORDERS)


# ---------------------------------------------------------------------------------------- arguments


def test_numbers_give_floats_and_arrays_broadcast():
    for function in (renyi.zcdp_delta, renyi.zcdp_epsilon, renyi.zcdp_rho):
        assert type(function(0.5, 0.1)) is float
        assert type(function(Fraction(1, 2), np.float64(0.1))) is float
        table = function(np.array([[0.5], [1.0]]), [0.1, 0.2, 0.3])
        assert table.shape == (2, 3)
        assert table[0, 0] == function(0.5, 0.1) and table[1, 2] == function(1, 0.3)
        assert function(np.empty((0, 2)), 0.1).shape == (0, 2)
        assert function(np.full(20000, 0.5), 0.1)[-1] == function(0.5, 0.1)  # more than one chunk
    assert type(renyi.pure_to_gaussian(1)) is float and type(renyi.laplace_rdp(2, 1)) is float
    assert type(renyi.pure_rdp(2, 1)) is float and renyi.pure_rdp([2, 3], 1).shape == (2,)


RHO = "rho must be between 1e-24 and 1e+08, got "
ORDER = " must be between 1.0001 and 1e+06, got "


@pytest.mark.parametrize(
    "call,sentence",
    [
        (lambda: renyi.zcdp_epsilon(None, 0.1), "rho must be a number, got None"),
        (lambda: renyi.zcdp_delta(0, 1), RHO + "0.0"),
        (lambda: renyi.zcdp_delta(9e-25, 1), RHO + "9e-25"),
        (lambda: renyi.zcdp_epsilon(1.1e8, 0.1), RHO + "110000000.0"),
        (lambda: renyi.zcdp_rho(1, 10**400), "delta must be finite, got 1000"),
        (
            lambda: renyi.zcdp_rho(2e6, 0.1),
            "epsilon must be between 1e-09 and 1e+06 or 0, got 2000000.0",
        ),
        (lambda: renyi.pure_to_zcdp(0), "epsilon must be positive and finite, got 0"),
        (lambda: renyi.pure_to_zcdp(1e200), "epsilon must be between 1e-09 and 1e+06, got 1e+200"),
        (lambda: renyi.pure_to_zcdp(1e-200), "epsilon must be between 1e-09 and 1e+06, got 1e-200"),
        (lambda: renyi.pure_to_gaussian(0.0), "epsilon must be between 1e-09 and 1e+06, got 0.0"),
        (
            lambda: renyi.pure_to_gaussian(9e-10),
            "epsilon must be between 1e-09 and 1e+06, got 9e-10",
        ),
        (lambda: renyi.pure_rdp(1, 1), "order" + ORDER + "1.0"),
        (lambda: renyi.pure_rdp(2, 0), "epsilon must be between 1e-09 and 1e+06, got 0.0"),
        (lambda: renyi.laplace_rdp(1, 1), "order" + ORDER + "1.0"),
        (lambda: renyi.laplace_rdp(2e6, 1), "order" + ORDER + "2000000.0"),
        (lambda: renyi.laplace_rdp(2, 0), "scale must be between 1e-06 and 1e+09, got 0.0"),
        (lambda: renyi.sampled_gaussian_rdp([1], 1, 0.1), "orders" + ORDER + "1.0"),
        (
            lambda: renyi.sampled_gaussian_rdp([2], 0.05, 0.1),
            "sigma must be between 0.1 and 1e+06, got 0.05",
        ),
        (lambda: renyi.sampled_gaussian_rdp([2], 1, 0), "rate must be positive and finite, got 0"),
        (
            lambda: renyi.sampled_gaussian_rdp([2], 1, 1.5),
            "rate must be between 1e-09 and 1, got 1.5",
        ),
        (lambda: renyi.rdp_to_epsilon([2, 1], [1, 1], 0.1), "orders" + ORDER + "1.0"),
        (
            lambda: renyi.rdp_to_epsilon([2], [-1.0], 0.1),
            "divergences must be between 0 and inf, got -1.0",
        ),
        (
            lambda: renyi.rdp_to_epsilon([2], math.nan, 0.1),
            "divergences must be between 0 and inf, got nan",
        ),
        (
            lambda: renyi.rdp_to_epsilon([], [], 0.1),
            "orders and divergences must not be empty, got shapes (0,) and (0,)",
        ),
        (
            lambda: renyi.rdp_to_epsilon([2], [1], [0.1, 0.2]),
            "delta must be strictly between 0 and 1, got [0.1, 0.2]",
        ),
    ],
)
def test_refusals_name_argument_and_value(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(sentence)
