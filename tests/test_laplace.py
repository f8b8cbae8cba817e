"""The Laplace mechanism: scale, laws and errors against integrals, many digits and other libraries;
its release.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, geometric, laplace, noise, sensitivity
from dputils.accounting import Pure
from tests.oracles import Untouchable

SCALES = [0.02, 0.3, 1, Fraction(10, 3), 25.0, 400]
DECADES = 10.0 ** np.arange(-5, 3)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("sensitivity", [1, 0.25, Fraction(7, 2), np.int64(3)])
def test_laplace_scale_and_the_epsilon_it_gives_over_ten_decades(sensitivity):
    for epsilon in DECADES:
        b = laplace.scale(sensitivity, epsilon)
        shifted = [lambda x, c=c: laplace.logpdf(x - c, b) for c in (0, float(sensitivity))]
        attained = audit.density_epsilon(*shifted, points=[0, float(sensitivity)])
        assert attained == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_laws_agree_with_one_another(scale):
    b = float(scale)
    x = np.linspace(-8 * b, 8 * b, 33)
    density = lambda t: mpmath.exp(-abs(t) / b) / (2 * b)
    for point in x[::4]:
        below = mpmath.quad(density, [-mpmath.inf, min(point, 0), point])
        assert float(laplace.cdf(point, scale)) == pytest.approx(float(below), rel=1e-12)
    np.testing.assert_allclose(
        np.exp(laplace.logpdf(x, scale)), [float(density(t)) for t in x], rtol=1e-13
    )
    t = np.abs(x)
    both_sides = 1 - laplace.cdf(t, scale) + laplace.cdf(-t, scale)
    np.testing.assert_allclose(laplace.tail(t, scale), both_sides, rtol=1e-9, atol=1e-15)
    assert laplace.variance(scale) == pytest.approx(
        float(2 * mpmath.quad(lambda t: t * t * density(t), [0, b, mpmath.inf]))
    )
    assert (
        laplace.tail(-1, scale) == 1
        and laplace.cdf(-math.inf, scale) == 0
        and laplace.cdf(math.inf, scale) == 1
    )


@pytest.mark.parametrize("k", [1, 2, 7, 1000])
@pytest.mark.parametrize("beta", [1e-9, 0.05, 0.5, 0.999])
def test_laplace_accuracy_is_exact_and_below_the_union_bound(beta, k):
    for scale in DECADES:
        alpha = laplace.accuracy(scale, beta, k)
        inside = k * math.log1p(
            -float(laplace.tail(alpha, scale))
        )  # log of the probability that all stay within alpha
        assert inside == pytest.approx(math.log1p(-beta), rel=1e-9)
        assert alpha <= scale * math.log(k / beta) * (1 + 1e-12)
    assert laplace.accuracy(3, beta) == pytest.approx(3 * math.log(1 / beta))


@given(st.floats(1e-5, 10), st.floats(1.001, 100))
def test_more_epsilon_never_costs_accuracy(epsilon, factor):
    one, more = laplace.scale(1, epsilon), laplace.scale(1, factor * epsilon)
    assert more < one and laplace.variance(more) < laplace.variance(one)
    assert laplace.accuracy(more, 0.1) < laplace.accuracy(one, 0.1)
    assert geometric.variance(more) <= geometric.variance(one)
    assert geometric.accuracy(more, 0.1) <= geometric.accuracy(one, 0.1)


def test_laplace_release_adds_the_noise_of_the_scale_to_every_coordinate():
    values = np.array([[1.0, -4.0, 1e6], [0.0, 2.5, 3.0]])
    released = laplace.release(values, 3, 1.5, rng=rng(5))
    np.testing.assert_array_equal(released, values + noise.laplace(2.0, (2, 3), rng=rng(5)))
    assert np.ndim(laplace.release(4, 1, 1.0, rng=rng())) == 0
    assert laplace.release([], 1, 1.0, rng=rng()).shape == (0,)


def test_laplace_release_never_refuses_a_value():
    with np.errstate(all="raise"):
        released = laplace.release([math.nan, math.inf, -math.inf, 1e308], 1, 1.0, rng=rng())
    largest = np.finfo(
        float
    ).max  # NaN counts as 0: nothing comes through the noise unchanged, or as an error
    assert (
        0 < abs(released[0]) < 50
        and released[1] == largest
        and released[2] == -largest
        and released[3] == 1e308
    )


@pytest.mark.parametrize("scale", [0.5, 2.0, 10.0])
def test_laplace_delta_agrees_with_dp_accounting(scale):
    losses = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    theirs = losses.LaplacePrivacyLoss(scale, sensitivity=1)
    laws = [lambda x, c=c: laplace.logpdf(np.asarray(x) - c, scale) for c in (0, 1)]
    grid = np.linspace(-40 * scale, 40 * scale + 1, 81)
    for epsilon in (0, 0.05, 0.4, 1 / scale, 3):
        ours = audit.density_delta(*laws, epsilon, [0, 1, *grid])
        assert ours == pytest.approx(theirs.get_delta_for_epsilon(epsilon), abs=1e-10)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda r: laplace.scale(0, 1), "sensitivity must be positive and finite, got 0"),
        (lambda r: laplace.scale(1, -1.0), "epsilon must be positive and finite, got -1.0"),
        (lambda r: laplace.scale(1, 9e-7), "epsilon must be between 1e-06 and 1000, got 9e-07"),
        (lambda r: laplace.scale(1, 1001), "epsilon must be between 1e-06 and 1000, got 1001"),
        (
            lambda r: laplace.scale(1e101, 1),
            "sensitivity must be between 1e-100 and 1e+100, got 1e+101",
        ),
        (
            lambda r: laplace.scale(1e-100, 10),
            "sensitivity/epsilon must be between 1e-100 and 1e+100, got 1e-101",
        ),
        (
            lambda r: laplace.scale(sensitivity.of_scores(1, "add-remove"), 1),
            "sensitivity must be in the norm 'absolute' or 'l1', got 'max'",
        ),
        (
            lambda r: laplace.mechanism(sensitivity.of_counts(2, "add-remove", "l2"), 1),
            "sensitivity must be in the norm 'absolute' or 'l1', got 'l2'",
        ),
        (
            lambda r: laplace.mechanism(1, 1),
            "sensitivity must be a Sensitivity, which names the relation and the unit, got "
            "1: see sensitivity.of_count, "
            "sensitivity.of_sum and their like",
        ),
        (
            lambda r: laplace.mechanism(sensitivity.of_count("add-remove"), 0),
            "epsilon must be positive and finite, got 0",
        ),
        (
            lambda r: laplace.mechanism(sensitivity.of_count("add-remove"), 1)(
                [1], rng=np.random.default_rng(1)
            ),
            "value must be one number for a sensitivity in the norm 'absolute', got an array "
            "of shape (1,): take a "
            "sensitivity in l1 or l2",
        ),
        (
            lambda r: laplace.mechanism(sensitivity.of_count("add-remove"), 1)(1, rng=r),
            "rng must be a np.random.Generator for the Laplace mechanism, scale 1, whose "
            "noise is rounded: noise.SYSTEM is "
            "for exact releases",
        ),
        (
            lambda r: laplace.logpdf(0.0, 1e101),
            "scale must be between 1e-100 and 1e+100, got 1e+101",
        ),
        (lambda r: laplace.accuracy(1, 1e-251), "beta must be between 1e-250 and 1, got 1e-251"),
        (
            lambda r: laplace.accuracy(1, 0.5, 2**50 + 1),
            "k must be between 1 and 2**50, got 1125899906842625",
        ),
        (
            lambda r: laplace.release(0.0, math.inf, 1, rng=r),
            "sensitivity must be positive and finite, got inf",
        ),
        (lambda r: laplace.release(0.0, 1, 0, rng=r), "epsilon must be positive and finite, got 0"),
        (
            lambda r: laplace.release(0.0, 1, 1, rng=1),
            "rng must be a np.random.Generator or dputils.noise.SYSTEM, got 1; for a "
            "reproducible stream pass np.random.default_rng(1)",
        ),
        (lambda r: laplace.logpdf(0.0, 0), "scale must be positive and finite, got 0"),
        (lambda r: laplace.cdf(0.0, -1), "scale must be positive and finite, got -1"),
        (lambda r: laplace.variance(math.nan), "scale must be positive and finite, got nan"),
        (lambda r: laplace.tail(1, True), "scale must be positive and finite, got True"),
        (lambda r: laplace.accuracy(1, 0), "beta must be strictly between 0 and 1, got 0"),
        (lambda r: laplace.accuracy(1, 0.5, 0), "k must be at least 1, got 0"),
    ],
)
def test_refusals_come_before_any_draw(call, message):
    with pytest.raises(ValueError) as caught:
        call(Untouchable())
    assert str(caught.value) == message


@pytest.mark.parametrize("beta", [1e-250, 1e-9, 1 - 1e-9, 1 - 2.0**-53, Fraction(1, 3)])
@pytest.mark.parametrize("k", [1, 10**6, 2**50])
def test_accuracy_at_the_ends_of_its_range(beta, k):
    with mpmath.workdps(400):
        one = 1 - (1 - mpmath.mpf(Fraction(beta).numerator) / Fraction(beta).denominator) ** (
            mpmath.mpf(1) / k
        )
        exact = float(-3 * mpmath.log(one))
    assert laplace.accuracy(3, beta, k) == pytest.approx(exact, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(
    "beta, k", [(1 - Fraction(1, 10**40), 1), (1e-300, 10**25), (5e-324, 2), (0.5, 2**60)]
)
def test_where_accuracy_had_no_value_it_is_refused_by_name(beta, k):
    """1 - beta is 0 as a float, or (1 - beta)^(1/k) is 1: the logarithm of 0 was taken."""
    with pytest.raises(
        ValueError, match="beta must be between 1e-250 and|k must be between 1 and 2"
    ):
        laplace.accuracy(1, beta, k)


@pytest.mark.filterwarnings("error")
def test_no_warning_depends_on_a_private_value():
    """At the largest scale no noise moves the largest float: it ends a digit 192 places higher."""
    largest = np.finfo(float).max
    for seed in range(50):
        with np.errstate(all="raise"):
            released = laplace.release(
                [largest, -largest, 0, math.inf, 10**400], 1e100, 1, rng=rng(seed)
            )
        assert released[:2].tolist() == [largest, -largest]


def test_one_number_alone_gets_noise_of_the_whole_scale():
    """The shape of a real call; half the scale for numbers alone is caught by the law, and by the
    draws themselves.
    """
    generator = rng(7)
    drawn = np.array([laplace.release(4, 3, 1.5, rng=generator) for _ in range(6000)]) - 4
    assert audit.law_test(drawn, lambda x: laplace.cdf(x, 2)).passes()
    assert not audit.law_test(drawn / 2, lambda x: laplace.cdf(x, 2)).passes()
    assert laplace.release(4, 3, 1.5, rng=rng(7)) == 4 + noise.laplace(2.0, rng=rng(7))


@pytest.mark.parametrize("unit", ["row", "person"])
def test_the_mechanism_is_its_release(unit):
    values = [3.0, -1.0, math.nan]
    moved = sensitivity.of_counts(3, "replace-one", unit=unit)
    mechanism = laplace.mechanism(moved, 0.5)
    assert mechanism.costs == (Pure(0.5),) and not mechanism.exact and not mechanism.discrete
    assert (mechanism.neighbours, mechanism.unit, mechanism.sensitivity) == (
        "replace-one",
        unit,
        moved,
    )
    released = laplace.release(values, moved, 0.5, rng=rng(3))
    assert mechanism(values, rng=rng(3)).tolist() == released.tolist()
    assert released.tolist() == laplace.release(values, 3, 0.5, rng=rng(3)).tolist()
    assert laplace.mechanism(moved, 0.5) == mechanism != laplace.mechanism(moved, 0.6)
    assert laplace.mechanism(sensitivity.of_count("add-remove"), 1)(5, rng=rng(1)).shape == ()


def test_the_law_of_the_mechanism_is_that_of_its_draws_and_of_its_budget():
    value = np.array([5.0, -2.0, 0.0])
    mechanism = laplace.mechanism(sensitivity.of_counts(3, "add-remove"), 0.75)
    generator = rng(1)
    drawn = np.array([mechanism(value, rng=generator) for _ in range(4000)]) - value
    assert audit.law_test(drawn, mechanism.law(1)).passes()
    assert not audit.law_test(drawn, mechanism.law(1.4)).passes()
    assert not audit.law_test(drawn / 2, mechanism.law(1)).passes()
    assert not audit.law_test(drawn * [1, 1, 0], mechanism.law(1)).passes()  # one coordinate bare
    assert not audit.law_test(
        drawn[:, [0, 0, 0]], mechanism.law(1)
    ).passes()  # the same noise three times
    assert mechanism.law(2)(1.0) == laplace.cdf(1.0, 2)


def test_laws_around_a_centre():
    x = np.linspace(-5, 9, 29)
    assert laplace.logpdf(x, 2, centre=3).tolist() == laplace.logpdf(x - 3, 2).tolist()
    assert laplace.cdf(x, 2, 3).tolist() == laplace.cdf(x - 3, 2).tolist()
    assert laplace.logpdf(np.int8(-128), 2, centre=100) == laplace.logpdf(228, 2)
