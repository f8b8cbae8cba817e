"""Privacy curves against many-digit arithmetic, dp_accounting, closed forms, on the private
side."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import special

from dputils.accounting import curves

pytestmark = pytest.mark.usefixtures("many_digits")
GRID = [
    (10.0**e, 10.0**d)
    for e in (-6, -4, -2, -1, 0, 1, 2, 3)
    for d in (-300, -100, -30, -15, -9, -6, -3, -1)
]


def exact_delta(epsilon, mu):
    """The two terms of Balle and Wang's Theorem 8 with 80 digits, and delta's derivatives for mu
    and minus epsilon."""
    e, m = mpf(float(epsilon)), mpf(float(mu))
    a, b = e / m - m / 2, e / m + m / 2
    return mp.ncdf(-a) - mp.exp(e) * mp.ncdf(-b), mp.npdf(a), mp.exp(e) * mp.ncdf(-b)


def pairs(n, seed, low=-300, high=-1):
    rng = np.random.default_rng(seed)
    deltas = np.where(np.arange(n) % 2, rng.uniform(low, high, n), rng.uniform(-20, high, n))
    return list(zip(10 ** rng.uniform(-6, 3, n), 10**deltas))


def excess_of_mu(epsilon, delta, mu):
    """How far mu lies below the exact root, relative to mu: delta's gap over its slope (a gap below
    1e-9 is linear)."""
    value, slope, _ = exact_delta(epsilon, mu)
    return float((mpf(delta) - value) / (slope * mpf(mu)))


# ----------------------------------------------------------------------------------------- Gaussian


def test_mu_is_the_exact_root_to_1e_12_and_never_above_it():
    cases = GRID + pairs(400, seed=1)
    mus = curves.gaussian_mu(*np.array(cases).T)
    gaps = [excess_of_mu(e, d, mu) for (e, d), mu in zip(cases, mus)]
    assert 0 <= min(gaps) and max(gaps) <= 2e-13


def test_mu_for_large_delta_no_epsilon_and_large_epsilon():
    for epsilon, delta in [
        (0, 0.5),
        (0, 1e-9),
        (1e-6, 0.999999),
        (1, 0.5),
        (1, 0.5000001),
        (3, 1 - 2**-53),
        (1000, 0.9999),
        (1e6, 1e-10),
        (1, 1e-300),
        (1e-9, 0.1),
    ]:
        mu = curves.gaussian_mu(epsilon, delta)
        assert 0 <= excess_of_mu(epsilon, delta, mu) <= 1e-12, (epsilon, delta)
    assert 0.99 < curves.gaussian_mu(1e6, 1e-5) / math.sqrt(2e6) < 1


def test_mu_at_the_ends_of_the_ranges_is_private_and_close():
    mp.dps = 700  # two terms near 1/2 differ by 1e-300
    for epsilon, delta in itertools.product((0, *curves.EPSILON), curves.DELTA):
        mu = curves.gaussian_mu(epsilon, delta)
        assert 0 <= excess_of_mu(epsilon, delta, mu) <= 2e-12, (epsilon, delta)


def test_epsilon_at_the_ends_of_the_ranges_is_private_and_close():
    mp.dps = 700
    for mu, delta in itertools.product(curves.MU, curves.DELTA):
        epsilon = curves.gaussian_epsilon(mu, delta)
        value, _, slope = exact_delta(epsilon, mu)
        assert value <= mpf(delta), (mu, delta)
        if epsilon > 0:
            gap = float((mpf(delta) - value) / slope)
            assert gap <= 3e-13 * epsilon + 1e-12 * float(delta / slope) + 1e-14 * mu * mu


def test_delta_at_the_ends_of_the_ranges_is_never_below():
    mp.dps = 700
    for epsilon, mu in itertools.product((0, *curves.EPSILON), curves.MU):
        value = exact_delta(epsilon, mu)[0]
        log = curves.gaussian_log_delta(epsilon, mu)
        if (epsilon / mu) ** 2 > 1e9:  # delta has a billion digits: 700 of them say nothing
            assert log < -1e8 and curves.gaussian_delta(epsilon, mu) > 0
            continue
        slack = 2e-13 + 1e-15 * (abs(float(mp.log(value))) + (epsilon / mu) ** 2)
        assert mp.log(value) - mpf(10) ** -70 <= log <= mp.log(value) + slack, (epsilon, mu)


@pytest.mark.parametrize("delta", [1e-2, 1e-10, 0.3])
def test_at_large_epsilon_and_mu_the_root_is_not_replaced_by_a_bound(delta):
    for epsilon in (2e4, 1e5, 1e6):
        assert 0 <= excess_of_mu(epsilon, delta, curves.gaussian_mu(epsilon, delta)) <= 2e-13
    for mu in (1.1e2, 1e3, 1e4):
        epsilon = curves.gaussian_epsilon(mu, delta)
        value, _, slope = exact_delta(epsilon, mu)
        assert 0 <= float((mpf(delta) - value) / slope) <= 4e-13 * epsilon


def test_few_steps_solve_over_the_whole_ranges(monkeypatch):
    """Six steps are the most seen; the loop allows twelve. Each step calls the curve once."""
    calls, log_side = [], curves._log_side
    monkeypatch.setattr(curves, "_log_side", lambda *x: calls.append(1) or log_side(*x))
    rng = np.random.default_rng(13)
    for _ in range(40):
        delta = np.concatenate(
            [10 ** rng.uniform(-300, 0, 250), 1 - 10 ** rng.uniform(-15, -0.1, 50)]
        )
        for solve, low, high in (
            (curves.gaussian_mu, -9, 6),
            (curves.gaussian_epsilon, -12, 4),
        ):
            calls.clear()
            solve(10 ** rng.uniform(low, high, 300), delta)
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
        assert min(value, 1) - mpf(10) ** -70 <= ours <= float(value) * (1 + 2 * slack) + 1e-323, (
            e,
            m,
        )


def test_a_delta_below_all_floats_is_the_smallest_and_one_is_one():
    assert curves.gaussian_delta(1e3, 1e-3) == curves.gaussian_delta(1e6, 1e-12) == 5e-324
    assert curves.gaussian_log_delta(1e3, 1e-3) == pytest.approx(-5e11)
    assert curves.gaussian_log_delta(1, 1e4) == 0
    assert curves.gaussian_delta(1, [1e3, 1e4]).tolist() == [1, 1]
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
            assert gap <= 3e-13 * epsilon + 1e-12 * float(delta / slope) + 1e-14 * mu * mu, (
                mu,
                delta,
            )
    assert curves.gaussian_epsilon(1e4, 1e-6) == pytest.approx(5e7 + 4.753424e4, rel=1e-7)


def test_round_trips_over_ten_decades():
    epsilon, delta = (
        x.ravel() for x in np.meshgrid(np.logspace(-5, 3, 33), np.logspace(-40, -1, 40))
    )
    mu = curves.gaussian_mu(epsilon, delta)
    back = curves.gaussian_epsilon(mu, delta)
    slope = np.exp(epsilon + special.log_ndtr(-epsilon / mu - mu / 2))
    assert np.all(np.abs(back - epsilon) <= 1e-12 * epsilon + 2e-12 * delta / slope)
    np.testing.assert_allclose(
        curves.gaussian_log_delta(epsilon, mu), np.log(delta), rtol=0, atol=2e-10
    )
    mu = np.logspace(-8, 2, 41)[:, None]
    tried = np.logspace(-5, 3, 17)
    deltas = curves.gaussian_delta(tried, mu)
    sharp = (deltas > 1e-300) & (deltas < 0.99)
    np.testing.assert_allclose(
        curves.gaussian_mu(tried, np.clip(deltas, 1e-300, 0.999))[sharp],
        np.broadcast_to(mu, deltas.shape)[sharp],
        rtol=3e-12,
    )


@given(st.floats(-6, 3), st.floats(-300, -0.001), st.floats(1e-9, 1))
def test_more_epsilon_or_delta_allows_more_mu_and_more_mu_costs_more(log_epsilon, log_delta, more):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    mu = curves.gaussian_mu(epsilon, delta)
    assert mu <= curves.gaussian_mu(epsilon * (1 + more), delta) * (1 + 2e-12)
    assert mu <= curves.gaussian_mu(epsilon, delta ** (1 - more / 2)) * (1 + 2e-12)
    assert (
        curves.gaussian_log_delta(epsilon, mu)
        <= curves.gaussian_log_delta(epsilon, mu * (1 + more)) + 1e-11
    )
    assert (
        curves.gaussian_log_delta(epsilon * (1 + more), mu)
        <= curves.gaussian_log_delta(epsilon, mu) + 1e-11
    )
    assert (
        curves.gaussian_epsilon(mu, delta)
        <= curves.gaussian_epsilon(mu * (1 + more), delta) * (1 + 1e-11) + 1e-11
    )


def test_dp_accounting_agrees_where_its_difference_does_not_cancel():
    for epsilon, delta in [(e, d) for e, d in GRID + pairs(60, 4) if 1e-2 <= e <= 100]:
        sigma = 1 / curves.gaussian_mu(epsilon, delta)
        assert sigma == pytest.approx(
            gaussian_mechanism.get_sigma_gaussian(epsilon, delta), rel=3e-10
        )
        if sigma < 1e3:
            theirs = gaussian_mechanism.get_epsilon_gaussian(sigma, delta)
            assert epsilon == pytest.approx(theirs, rel=1e-9)


def test_dp_accounting_loses_digits_at_small_epsilon():
    sigma = gaussian_mechanism.get_sigma_gaussian(1e-6, 1e-300)
    assert sigma < 36475988.4 < 1 / curves.gaussian_mu(1e-6, 1e-300) < 36475988.5
    assert exact_delta(1e-6, 1 / sigma)[0] > 1.00003e-300


def test_an_absolute_tolerance_on_delta_breaks_small_delta():
    for epsilon, delta, error in [
        (1, 1e-9, 1.33e-5),
        (1, 1e-15, -0.065),
        (100, 1e-20, -0.12),
        (5, 1e-100, -0.62),
        (30, 1e-12, 0.036),
    ]:
        sigma = absolute_tolerance(epsilon, delta)
        assert sigma * curves.gaussian_mu(epsilon, delta) - 1 == pytest.approx(error, rel=0.05), (
            epsilon,
            delta,
        )
    assert exact_delta(5, 1 / absolute_tolerance(5, 1e-100))[0] > 1e-16


def absolute_tolerance(epsilon, delta, tolerance=1e-12):
    """sigma as in the published script: with sigma sqrt(2 epsilon) = sqrt(1 + u/2) -+ sqrt(u/2),
    bisect u until delta is met to 1e-12, in double precision."""

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


# ---------------------------------------------------------------------------------------- arguments


def test_numbers_give_floats_and_arrays_broadcast():
    functions = (
        curves.gaussian_log_delta,
        curves.gaussian_delta,
        curves.gaussian_mu,
        curves.gaussian_epsilon,
    )
    for function in functions:
        assert type(function(0.5, 0.1)) is float
        assert type(function(Fraction(1, 2), np.float64(0.1))) is float
        table = function(np.array([[0.5], [1.0]]), [0.1, 0.2, 0.3])
        assert table.shape == (2, 3)
        assert table[0, 0] == function(0.5, 0.1) and table[1, 2] == function(1, 0.3)
        assert function(np.empty((0, 2)), 0.1).shape == (0, 2)
        assert function(np.full(20000, 0.5), 0.1)[-1] == function(0.5, 0.1)  # more than one chunk


EPSILON = "epsilon must be between 1e-09 and 1e+06 or 0, got "
DELTA = "delta must be between 1e-300 and 1, got "
MU = "mu must be between 1e-12 and 10000, got "


@pytest.mark.parametrize(
    "call,sentence",
    [
        (lambda: curves.gaussian_mu(-1, 0.1), EPSILON + "-1.0"),
        (lambda: curves.gaussian_mu(-0.5, 0.1), EPSILON + "-0.5"),
        (lambda: curves.gaussian_mu([1, math.nan], 0.1), EPSILON + "nan"),
        (lambda: curves.gaussian_mu(9.9e-10, 0.1), EPSILON + "9.9e-10"),
        (lambda: curves.gaussian_mu(1000001, 0.1), EPSILON + "1000001.0"),
        (lambda: curves.gaussian_delta(math.inf, 1), EPSILON + "inf"),
        (lambda: curves.gaussian_mu(1, 0), DELTA + "0.0"),
        (lambda: curves.gaussian_mu(1, [0.1, 1.0]), DELTA + "1.0"),
        (lambda: curves.gaussian_mu(1, 9e-301), DELTA + "9e-301"),
        (lambda: curves.gaussian_mu(1, 1 - np.longdouble("1e-18")), DELTA + "1.0"),
        (lambda: curves.gaussian_delta(1, 0.0), MU + "0.0"),
        (lambda: curves.gaussian_delta(1, 9e-13), MU + "9e-13"),
        (lambda: curves.gaussian_epsilon(10001, 0.1), MU + "10001.0"),
        (lambda: curves.gaussian_log_delta(1, math.inf), MU + "inf"),
        (
            lambda: curves.gaussian_epsilon("1", 0.1),
            "mu must be a number or an array of numbers, got ",
        ),
        (
            lambda: curves.gaussian_epsilon(True, 0.1),
            "mu must be a number or an array of numbers, got ",
        ),
        (
            lambda: curves.gaussian_epsilon(1j, 0.1),
            "mu must be a number or an array of numbers, got ",
        ),
        (lambda: curves.gaussian_epsilon(None, 0.1), "mu must be a number, got None"),
        (lambda: curves.gaussian_mu(10**400, 0.1), "epsilon must be finite, got 1000"),
        (lambda: curves.gaussian_mu(1, Fraction(10**400)), "delta must be finite, got "),
    ],
)
def test_refusals_name_argument_and_value(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(sentence)
