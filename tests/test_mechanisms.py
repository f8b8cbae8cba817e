"""Scales, laws and errors against sums, integrals and other libraries; releases against their laws; refusals."""
import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, geometric, laplace, noise, private

SCALES = [0.02, 0.3, 1, Fraction(10, 3), 25.0, 400]
DECADES = 10.0 ** np.arange(-5, 6)


def rng(seed=0):
    return np.random.default_rng(seed)


class Untouchable:
    """A source of randomness that must not be read: a refusal comes before any draw."""

    is_operating_system = True

    def bytes(self, n):
        raise AssertionError("drawn before the refusal")


# ------------------------------------------------------------------------------------------------------------------ Laplace

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
    density = lambda t: mpmath.exp(-abs(t) / b) / (2 * b)  # noqa: E731
    for point in x[::4]:
        below = mpmath.quad(density, [-mpmath.inf, min(point, 0), point])
        assert float(laplace.cdf(point, scale)) == pytest.approx(float(below), rel=1e-12)
    np.testing.assert_allclose(np.exp(laplace.logpdf(x, scale)), [float(density(t)) for t in x], rtol=1e-13)
    t = np.abs(x)
    both_sides = 1 - laplace.cdf(t, scale) + laplace.cdf(-t, scale)
    np.testing.assert_allclose(laplace.tail(t, scale), both_sides, rtol=1e-9, atol=1e-15)
    assert laplace.variance(scale) == pytest.approx(float(2 * mpmath.quad(lambda t: t * t * density(t), [0, b, mpmath.inf])))
    assert laplace.tail(-1, scale) == 1 and laplace.cdf(-math.inf, scale) == 0 and laplace.cdf(math.inf, scale) == 1


@pytest.mark.parametrize("k", [1, 2, 7, 1000])
@pytest.mark.parametrize("beta", [1e-9, 0.05, 0.5, 0.999])
def test_laplace_accuracy_is_exact_and_below_the_union_bound(beta, k):
    for scale in DECADES:
        alpha = laplace.accuracy(scale, beta, k)
        inside = k * math.log1p(-float(laplace.tail(alpha, scale)))  # log of the probability that all stay within alpha
        assert inside == pytest.approx(math.log1p(-beta), rel=1e-9)
        assert alpha <= scale * math.log(k / beta) * (1 + 1e-12)
    assert laplace.accuracy(3, beta) == pytest.approx(3 * math.log(1 / beta))


@given(st.floats(1e-5, 1e5), st.floats(1.001, 100))
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
    largest = np.finfo(float).max  # NaN counts as 0: nothing comes through the noise unchanged, or as an error
    assert 0 < abs(released[0]) < 50 and released[1] == largest and released[2] == -largest and released[3] == 1e308


# ---------------------------------------------------------------------------------------------------------------- geometric

@given(st.integers(1, 10**6), st.fractions(Fraction(1, 1000), 1000))
def test_geometric_scale_is_exact(sensitivity, epsilon):
    assert geometric.scale(sensitivity, epsilon) * epsilon == sensitivity
    assert geometric.scale(sensitivity, 0.1) == 10 * sensitivity


@pytest.mark.parametrize("scale", SCALES)
def test_geometric_laws_equal_their_sums(scale):
    with mpmath.workdps(40):
        s = mpmath.mpf(Fraction(scale).numerator) / Fraction(scale).denominator
        a = mpmath.exp(-1 / s)
        reach = int(110 * s) + 2
        weights = [a**z for z in range(reach + 1)]
        total = 2 * mpmath.fsum(weights) - 1
        pmf = {z: weights[abs(z)] / total for z in range(-reach, reach + 1)}
        running, cdf = mpmath.mpf(0), {}
        for z, probability in pmf.items():
            running += probability
            cdf[z] = float(running)
        variance = float(mpmath.fsum(z * z * probability for z, probability in pmf.items()))
    near = np.arange(-min(reach // 2, 60), min(reach // 2, 60) + 1)
    exact = [float(mpmath.log(pmf[z])) for z in near]
    np.testing.assert_allclose(geometric.logpmf(near, scale), exact, rtol=1e-12, atol=1e-20)
    np.testing.assert_allclose(geometric.cdf(near, scale), [cdf[z] for z in near], rtol=1e-12)
    np.testing.assert_allclose(geometric.cdf(near + 0.7, scale), [cdf[z] for z in near], rtol=1e-12)
    tails = [float(1 - mpmath.fsum(pmf[z] for z in range(-t, t + 1))) for t in range(5)]
    np.testing.assert_allclose(geometric.tail(np.arange(5) + 0.5, scale), tails, rtol=1e-9, atol=1e-15)
    assert geometric.variance(scale) == pytest.approx(variance, rel=1e-12)
    assert geometric.variance(scale) < laplace.variance(scale)


def test_geometric_laws_at_the_ends():
    assert geometric.tail(-1, 5) == 1 == geometric.cdf(math.inf, 5) and geometric.cdf(-math.inf, 5) == 0
    assert geometric.variance(1e-4) == 0 and geometric.variance(1e200) == math.inf == laplace.variance(1e200)
    assert geometric.variance(1e6) == pytest.approx(2e12, rel=1e-9)
    # numpy's small and unsigned integers must not wrap around
    z = np.array([0, 3, 127], dtype=np.uint8)
    np.testing.assert_array_equal(geometric.cdf(z, 2), geometric.cdf(z.astype(float), 2))
    assert geometric.logpmf(np.int8(-128), 2) == geometric.logpmf(128, 2)
    assert geometric.logpmf(np.int64(-2**63), 2) < -1e18


@pytest.mark.parametrize("scale", [0.05, 1, Fraction(7, 3), 40, 1e6, 2.0**50])
@pytest.mark.parametrize("beta,k", [(1e-6, 1), (0.05, 1), (0.05, 12), (0.9, 3)])
def test_geometric_accuracy_is_the_smallest_integer(scale, beta, k):
    alpha = geometric.accuracy(scale, beta, k)
    # 1 - (1 - tail)^k is the probability that one of k noises leaves [-alpha, alpha]
    missed = [-math.expm1(k * math.log1p(-float(geometric.tail(t, scale)))) if geometric.tail(t, scale) < 1 else 1
              for t in (alpha, alpha - 1)]
    assert isinstance(alpha, int) and alpha >= 0 and missed[0] <= beta * (1 + 1e-9)
    assert alpha == 0 or missed[1] > beta * (1 - 1e-9)


def test_geometric_release_is_exact_noise_plus_the_value():
    values = np.array([[3, -1], [10**12, 0]])
    released = geometric.release(values, 2, 0.5, rng=rng(1))
    np.testing.assert_array_equal(released - values, noise.discrete_laplace(Fraction(4), (2, 2), rng=rng(1)), strict=True)
    assert type(geometric.release(5, 1, 1.0, rng=rng())) is int
    assert type(geometric.release(np.uint8(5), 1, Fraction(1, 3), rng=noise.SYSTEM)) is int
    for empty in ([], np.array([], dtype=np.int32)):
        assert geometric.release(empty, 1, 1.0, rng=rng()).shape == (0,)


@pytest.mark.parametrize("value", [2**63 - 1, -2**63, 2**63, 2**64 + 5, -10**30, [2**63, -1], [10**40, 0], np.uint64(2**64 - 1),
                                   np.array([10**25, 3], dtype=object), pd.Series([1, 2**62])])
def test_geometric_release_wraps_around_whatever_integer_comes(value):
    drawn = noise.discrete_laplace(2, np.shape(value) or None, rng=rng(3))
    exact = [int(v) for v in np.ravel(np.asarray(value, dtype=object))]
    expected = [(v + int(z) + 2**63) % 2**64 - 2**63 for v, z in zip(exact, np.ravel(drawn))]
    assert np.ravel(geometric.release(value, 1, 0.5, rng=rng(3))).tolist() == expected


# --------------------------------------------------------------------------------------------------------- sums on a grid

HOSTILE = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, None, "no number", 10**400, -10**400, [1, 2], 1j, pd.NA,
           b"\xff", {}, True]


def test_to_grid_clamps_rounds_and_refuses_nothing():
    steps = private.to_grid(HOSTILE, -1, 2, 0.5)
    assert steps.tolist() == [-2, 4, -2, 4, -2, 0, -2, -2, 4, -2, -2, -2, -2, -2, -2, 2] and steps.dtype == np.int64
    assert private.to_grid([0.24, 0.26, -0.74, 1.99, 7], -1, 2, 0.5).tolist() == [0, 1, -1, 4, 4]
    assert private.to_grid([], 0, 1).shape == (0,) and private.to_grid(pd.Series([1.2, None]), 0, 3).tolist() == [1, 0]
    assert private.to_grid([0.1, 0.3, 0.7], 0.1, 0.7, 0.1).tolist() == [1, 3, 7]
    assert private.to_grid(np.array([2**64 - 1, 0], dtype=np.uint64), 0, 5).tolist() == [5, 0]
    assert private.to_grid([np.array(3), np.array([3]), 2], 0, 5).tolist() == [3, 0, 2]  # a number of no dimension is a number


@given(st.lists(st.one_of(st.floats(), st.integers(), st.none(), st.text(max_size=3)), max_size=6), st.integers(-50, 50),
       st.integers(1, 100), st.sampled_from([1, 0.1, Fraction(1, 3), 0.25]))
def test_a_record_is_read_alike_in_any_company(values, low, width, grid):
    lower, upper = low * grid, (low + width) * grid
    if Fraction(str(grid)) == Fraction(1, 10):  # floats such as 3 * 0.1 print no multiple of the grid
        lower, upper = Fraction(low, 10), Fraction(low + width, 10)
    together = private.to_grid(values, lower, upper, grid)
    alone = [private.to_grid([value], lower, upper, grid).item() for value in values]
    assert together.tolist() == alone == private.to_grid([*values, "x", 10**400], lower, upper, grid).tolist()[:-2]
    assert all(low <= step <= low + width for step in alone)


@pytest.mark.parametrize("neighbours,scale", [("add-remove", Fraction(40)), ("replace-one", Fraction(60))])
def test_grid_sum_release_is_the_integer_sum_with_its_own_scale(neighbours, scale):
    values = [0.2, 3.0, math.nan, -7.0, 1.26]
    exact = Fraction(1, 10) * (2 + 20 - 10 - 10 + 13)
    released = geometric.sum_release(values, -1, 2, 0.1, neighbours, 0.5, rng=rng(8))
    assert released == float(exact + Fraction(1, 10) * noise.discrete_laplace(scale, rng=rng(8)))


@pytest.mark.parametrize("values", [[], [math.nan] * 3, HOSTILE, np.array([]), np.array(HOSTILE[:6], dtype=float)])
def test_grid_sum_release_never_refuses_a_value(values):
    with np.errstate(all="raise"):
        released = geometric.sum_release(values, 0, 10, 0.5, "replace-one", 1, rng=noise.SYSTEM)
    assert type(released) is float and (2 * released).is_integer()


# --------------------------------------------------------------------------------------------------- code against the law

def test_releases_follow_their_laws():
    """Correct releases pass; each of the three fails with probability at most 1e-6 (fixed seeds)."""
    values = np.array([5.0, -2.0, 0.0])
    generator = rng(1)
    laplace = np.array([laplace.release(values, 2, 0.5, rng=generator) - values for _ in range(4000)])
    assert audit.law_test(laplace, lambda x: laplace.cdf(x, 4)).passes()
    counts = np.tile([7, 0], (20_000, 1))
    geometric = geometric.release(counts, 2, 0.7, rng=rng(2)) - counts
    law = lambda z: geometric.cdf(z, Fraction(20, 7))  # noqa: E731
    assert audit.law_test(geometric, law, discrete=True, rng=rng(3)).passes()
    generator = rng(4)
    sums = np.array([geometric.sum_release([1, 2.5], 0, 4, 0.5, "add-remove", 0.8, rng=generator) for _ in range(3000)]) - 3.5
    assert audit.law_test(2 * sums, lambda z: geometric.cdf(z, 10), discrete=True, rng=rng(5)).passes()


# -------------------------------------------------------------------------------------------------------- other libraries

def test_scales_and_accuracies_agree_with_opendp():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib", "idealized-numerics")
    for sensitivity in (1, 3):
        for epsilon in (0.01, 0.5, 2.0):
            scale = laplace.scale(sensitivity, epsilon)
            real = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale)
            integers = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
            whole = dp.m.make_laplace(*integers, float(geometric.scale(sensitivity, epsilon)))
            assert real.map(float(sensitivity)) == pytest.approx(epsilon, rel=1e-12)
            assert whole.map(sensitivity) == pytest.approx(epsilon, rel=1e-12)
            assert laplace.accuracy(scale, 0.05) == pytest.approx(dp.laplacian_scale_to_accuracy(scale, 0.05), rel=1e-12)
            # theirs solves P(|Z| >= alpha) = beta for a real alpha, ours is the integer with P(|Z| > alpha) <= beta
            assert geometric.accuracy(scale, 0.05) == math.ceil(dp.discrete_laplacian_scale_to_accuracy(scale, 0.05) - 1)


@pytest.mark.parametrize("scale", [0.5, 2.0, 10.0])
def test_laplace_delta_agrees_with_dp_accounting(scale):
    losses = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    theirs = losses.LaplacePrivacyLoss(scale, sensitivity=1)
    laws = [lambda x, c=c: laplace.logpdf(np.asarray(x) - c, scale) for c in (0, 1)]
    grid = np.linspace(-40 * scale, 40 * scale + 1, 81)
    for epsilon in (0, 0.05, 0.4, 1 / scale, 3):
        ours = audit.density_delta(*laws, epsilon, [0, 1, *grid])
        assert ours == pytest.approx(theirs.get_delta_for_epsilon(epsilon), abs=1e-10)


# --------------------------------------------------------------------------------------------------------------- refusals

@pytest.mark.parametrize("call,message", [
    (lambda r: laplace.scale(0, 1), "sensitivity must be positive and finite, got 0"),
    (lambda r: laplace.scale(1, -1.0), "epsilon must be positive and finite, got -1.0"),
    (lambda r: laplace.scale(1, 5e-324), "sensitivity/epsilon must be positive and finite, got inf"),
    (lambda r: laplace.scale(1, Fraction(1, 10**400)), "sensitivity/epsilon must be positive and finite, got inf"),
    (lambda r: laplace.release(0.0, math.inf, 1, rng=r), "sensitivity must be positive and finite, got inf"),
    (lambda r: laplace.release(0.0, 1, 0, rng=r), "epsilon must be positive and finite, got 0"),
    (lambda r: laplace.release(0.0, 1, 1, rng=1),
     "rng must be a np.random.Generator or dputils.noise.SYSTEM, got 1; for a reproducible stream pass np.random.default_rng(1)"),
    (lambda r: laplace.logpdf(0.0, 0), "scale must be positive and finite, got 0"),
    (lambda r: laplace.cdf(0.0, -1), "scale must be positive and finite, got -1"),
    (lambda r: laplace.variance(math.nan), "scale must be positive and finite, got nan"),
    (lambda r: laplace.tail(1, True), "scale must be positive and finite, got True"),
    (lambda r: laplace.accuracy(1, 0), "beta must be strictly between 0 and 1, got 0"),
    (lambda r: laplace.accuracy(1, 0.5, 0), "k must be at least 1, got 0"),
    (lambda r: geometric.scale(1.0, 1), "sensitivity must be an integer, got 1.0"),
    (lambda r: geometric.scale(0, 1), "sensitivity must be at least 1, got 0"),
    (lambda r: geometric.release(1, 1, math.nan, rng=r), "epsilon must be positive and finite, got nan"),
    (lambda r: geometric.release(np.ones(2), 1, 1, rng=r), "value must be an integer or an array of integers, got type float64"),
    (lambda r: geometric.release(np.ones(2, bool), 1, 1, rng=r), "value must be an integer or an array of integers, got type bool"),
    (lambda r: geometric.release(1, 1, 1, rng=None), "rng must be a np.random.Generator or dputils.noise.SYSTEM, got None"),
    (lambda r: geometric.variance(0), "scale must be positive and finite, got 0"),
    (lambda r: geometric.tail(1, 0), "scale must be positive and finite, got 0"),
    (lambda r: geometric.cdf(1, -2), "scale must be positive and finite, got -2"),
    (lambda r: geometric.logpmf(1, "2"), "scale must be positive and finite, got '2'"),
    (lambda r: geometric.accuracy(2, 1), "beta must be strictly between 0 and 1, got 1"),
    (lambda r: geometric.accuracy(1e30, 0.5), "scale must be at most 2**50, got 1e+30"),
    (lambda r: private.to_grid([1], 1, 1), "lower must be less than upper, got lower=1, upper=1"),
    (lambda r: private.to_grid([1], 0, 1, 0), "grid must be positive and finite, got 0"),
    (lambda r: private.to_grid([1], 0, 1, 0.3), "grid must divide lower and upper, got grid=0.3, lower=0, upper=1"),
    (lambda r: private.to_grid([1], 0, 1, 1e-17),
     "grid must cut lower and upper into at most 2**53 steps, got grid=1e-17, lower=0, upper=1"),
    (lambda r: private.to_grid([1], 0, Fraction(1, 10**400), Fraction(1, 10**400)), f"grid must be between 1e-100 and 1e+100, got {Fraction(1, 10**400)!r}"),
    (lambda r: geometric.sum_release([1], 0, 1, 1, "unbounded", 1, rng=r),
     "neighbours must be one of 'add-remove', 'replace-one', got 'unbounded'"),
    (lambda r: geometric.sum_release([1], 0, 1, 1, "add-remove", 0, rng=r), "epsilon must be positive and finite, got 0"),
    (lambda r: geometric.sum_release([1], math.nan, 1, 1, "add-remove", 1, rng=r), "lower must be finite, got nan"),
])
def test_refusals_come_before_any_draw(call, message):
    with pytest.raises(ValueError) as caught:
        call(Untouchable())
    assert str(caught.value) == message


def test_no_record_changes_how_another_is_read():
    for extra in (0, [1, 2], "x", None, np.timedelta64(1, "D"), np.datetime64("2020-01-01"), {}, 3 + 4j, b"7", 10**400, np.array([9])):
        plain = [5] * 50
        with_extra = private.to_grid([*plain, extra], 0, 5)
        assert with_extra[:50].tolist() == [5] * 50 and 0 <= with_extra[50] <= 5
        odd = [[5]] * 50  # records of a wrong kind are read alone too
        assert private.to_grid([*odd, extra], 0, 5)[:50].tolist() == private.to_grid(odd, 0, 5).tolist()


@pytest.mark.parametrize("shape", [(2, 2), (1, 5), ()])
def test_values_with_more_than_one_axis_are_refused(shape):
    with pytest.raises(ValueError, match=r"values must have shape \(n,\), got \("):
        private.to_grid(np.zeros(shape), 0, 5)


def test_a_data_frame_is_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"values must have shape \(n,\), got \(3, 2\)"):
        private.to_grid(pd.DataFrame(np.ones((3, 2))), 0, 5)
    assert private.to_grid(pd.Series([1.0, 9.0]), 0, 5).tolist() == [1, 5]


@pytest.mark.parametrize("value", [np.arange(3, 10), np.arange(2), 4])
def test_each_coordinate_of_a_release_as_it_is_called_is_noised(value):
    # the shape of a real call: one vector or one number a time, never a stack of releases; false alarm 1e-6
    rng = np.random.default_rng(20)
    n = audit.law_test_size(0.35, tests=3 * max(1, np.size(value)) ** 2)
    for release, cdf, discrete in ((geometric.release, lambda z: geometric.cdf(z, 2), True),
                                   (laplace.release, lambda x: laplace.cdf(x, 2.0), False)):
        residuals = np.array([release(value, 1, 0.5, rng=rng) for _ in range(n)]) - value
        assert audit.law_test(residuals, cdf, discrete=discrete, rng=rng).passes()
        bare = residuals.copy().reshape(n, -1)
        bare[:, -1] = 0  # the twin: the last coordinate comes out exact
        assert not audit.law_test(bare, cdf, discrete=discrete, rng=rng).passes()
