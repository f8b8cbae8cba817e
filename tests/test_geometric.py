"""The geometric mechanism: scale, laws and errors against sums with many digits; releases and sums
on a grid.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, geometric, laplace, noise, sensitivity
from dputils.accounting import Pure
from tests.examples import HOSTILE
from tests.oracles import Untouchable

SCALES = [0.02, 0.3, 1, Fraction(10, 3), 25.0, 400]


def rng(seed=0):
    return np.random.default_rng(seed)


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
    np.testing.assert_allclose(
        geometric.tail(np.arange(5) + 0.5, scale), tails, rtol=1e-9, atol=1e-15
    )
    assert geometric.variance(scale) == pytest.approx(variance, rel=1e-12)
    assert geometric.variance(scale) < laplace.variance(scale)


def test_geometric_laws_at_the_ends():
    assert (
        geometric.tail(-1, 5) == 1 == geometric.cdf(math.inf, 5)
        and geometric.cdf(-math.inf, 5) == 0
    )
    assert geometric.variance(1e-4) == 0 and geometric.variance(2**50) == pytest.approx(2.0**101)
    assert geometric.variance(1e6) == pytest.approx(2e12, rel=1e-9)
    # numpy's small and unsigned integers must not wrap around
    z = np.array([0, 3, 127], dtype=np.uint8)
    np.testing.assert_array_equal(geometric.cdf(z, 2), geometric.cdf(z.astype(float), 2))
    assert geometric.logpmf(np.int8(-128), 2) == geometric.logpmf(128, 2)
    assert geometric.logpmf(np.int64(-(2**63)), 2) < -1e18


@pytest.mark.parametrize("scale", [0.05, 1, Fraction(7, 3), 40, 1e6, 2.0**50])
@pytest.mark.parametrize("beta,k", [(1e-6, 1), (0.05, 1), (0.05, 12), (0.9, 3)])
def test_geometric_accuracy_is_the_smallest_integer(scale, beta, k):
    alpha = geometric.accuracy(scale, beta, k)
    # 1 - (1 - tail)^k is the probability that one of k noises leaves [-alpha, alpha]
    missed = [
        -math.expm1(k * math.log1p(-float(geometric.tail(t, scale))))
        if geometric.tail(t, scale) < 1
        else 1
        for t in (alpha, alpha - 1)
    ]
    assert isinstance(alpha, int) and alpha >= 0 and missed[0] <= beta * (1 + 1e-9)
    assert alpha == 0 or missed[1] > beta * (1 - 1e-9)


def test_geometric_release_is_exact_noise_plus_the_value():
    values = np.array([[3, -1], [10**12, 0]])
    released = geometric.release(values, 2, 0.5, rng=rng(1))
    np.testing.assert_array_equal(
        released - values, noise.discrete_laplace(Fraction(4), (2, 2), rng=rng(1)), strict=True
    )
    assert type(geometric.release(5, 1, 1.0, rng=rng())) is int
    assert type(geometric.release(np.uint8(5), 1, Fraction(1, 3), rng=noise.SYSTEM)) is int
    for empty in ([], np.array([], dtype=np.int32)):
        assert geometric.release(empty, 1, 1.0, rng=rng()).shape == (0,)


@pytest.mark.parametrize(
    "value",
    [
        2**63 - 1,
        -(2**63),
        2**63,
        2**64 + 5,
        -(10**30),
        [2**63, -1],
        [10**40, 0],
        np.uint64(2**64 - 1),
        np.array([10**25, 3], dtype=object),
        pd.Series([1, 2**62]),
    ],
)
def test_geometric_release_wraps_around_whatever_integer_comes(value):
    drawn = noise.discrete_laplace(2, np.shape(value) or None, rng=rng(3))
    exact = [int(v) for v in np.ravel(np.asarray(value, dtype=object))]
    expected = [(v + int(z) + 2**63) % 2**64 - 2**63 for v, z in zip(exact, np.ravel(drawn))]
    assert np.ravel(geometric.release(value, 1, 0.5, rng=rng(3))).tolist() == expected


@pytest.mark.parametrize(
    "neighbours,scale", [("add-remove", Fraction(40)), ("replace-one", Fraction(60))]
)
def test_grid_sum_release_is_the_integer_sum_with_its_own_scale(neighbours, scale):
    values = [0.2, 3.0, math.nan, -7.0, 1.26]
    exact = Fraction(1, 10) * (2 + 20 - 10 - 10 + 13)
    released = geometric.sum_release(values, -1, 2, 0.1, neighbours, 0.5, rng=rng(8))
    assert released == float(exact + Fraction(1, 10) * noise.discrete_laplace(scale, rng=rng(8)))


@pytest.mark.parametrize(
    "values", [[], [math.nan] * 3, HOSTILE, np.array([]), np.array(HOSTILE[:6], dtype=float)]
)
def test_grid_sum_release_never_refuses_a_value(values):
    with np.errstate(all="raise"):
        released = geometric.sum_release(values, 0, 10, 0.5, "replace-one", 1, rng=noise.SYSTEM)
    assert type(released) is float and (2 * released).is_integer()


def test_scales_and_accuracies_agree_with_opendp():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib", "idealized-numerics")
    for size in (1, 3):
        for epsilon in (0.01, 0.5, 2.0):
            scale = laplace.scale(size, epsilon)
            real = dp.m.make_laplace(
                dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale
            )
            integers = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
            whole = dp.m.make_laplace(*integers, float(geometric.scale(size, epsilon)))
            assert real.map(float(size)) == pytest.approx(epsilon, rel=1e-12)
            assert whole.map(size) == pytest.approx(epsilon, rel=1e-12)
            assert laplace.accuracy(scale, 0.05) == pytest.approx(
                dp.laplacian_scale_to_accuracy(scale, 0.05), rel=1e-12
            )
            # theirs solves P(|Z| >= alpha) = beta for a real alpha, ours is the integer with P(|Z|
            # > alpha) <= beta
            assert geometric.accuracy(scale, 0.05) == math.ceil(
                dp.discrete_laplacian_scale_to_accuracy(scale, 0.05) - 1
            )


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda r: geometric.scale(1.0, 1), "sensitivity must be an integer, got 1.0"),
        (lambda r: geometric.scale(0, 1), "sensitivity must be positive and finite, got 0"),
        (
            lambda r: geometric.release(1, 1, math.nan, rng=r),
            "epsilon must be positive and finite, got nan",
        ),
        (
            lambda r: geometric.release(np.ones(2), 1, 1, rng=r),
            "value must be an integer or an array of integers, got type float64",
        ),
        (
            lambda r: geometric.release(np.ones(2, bool), 1, 1, rng=r),
            "value must be an integer or an array of integers, got type bool",
        ),
        (
            lambda r: geometric.release(1, 1, 1, rng=None),
            "rng must be a np.random.Generator or dputils.noise.SYSTEM, got None",
        ),
        (lambda r: geometric.variance(0), "scale must be positive and finite, got 0"),
        (lambda r: geometric.tail(1, 0), "scale must be positive and finite, got 0"),
        (lambda r: geometric.cdf(1, -2), "scale must be positive and finite, got -2"),
        (lambda r: geometric.logpmf(1, "2"), "scale must be positive and finite, got '2'"),
        (lambda r: geometric.accuracy(2, 1), "beta must be strictly between 0 and 1, got 1"),
        (
            lambda r: geometric.accuracy(1e30, 0.5),
            "scale must be between 2**-50 and 2**50, got 1e+30",
        ),
        (
            lambda r: geometric.sum_release([1], 0, 1, 1, "unbounded", 1, rng=r),
            "neighbours must be one of 'add-remove', 'replace-one', got 'unbounded'",
        ),
        (
            lambda r: geometric.sum_release([1], 0, 1, 1, "add-remove", 0, rng=r),
            "epsilon must be positive and finite, got 0",
        ),
        (
            lambda r: geometric.scale(1, 1e-16),
            "sensitivity/epsilon must be between 2**-50 and 2**50, got "
            "Fraction(10000000000000000, 1)",
        ),
        (
            lambda r: geometric.scale(Fraction(3, 2), 1),
            "sensitivity must be an integer, got Fraction(3, 2)",
        ),
        (
            lambda r: geometric.mechanism(2, 1),
            "sensitivity must be a Sensitivity, which names the relation and the unit, "
            "got 2: see sensitivity.of_count, sensitivity.of_sum and their like",
        ),
        (
            lambda r: geometric.mechanism(sensitivity.of_counts(4, "add-remove", "l2"), 1),
            "sensitivity must be in the norm 'absolute' or 'l1', got 'l2'",
        ),
        (
            lambda r: geometric.mechanism(sensitivity.of_count("add-remove"), 1)([1, 2], rng=r),
            "value must be one number for a sensitivity in the norm 'absolute', got an array "
            "of shape (2,): take a "
            "sensitivity in l1 or l2",
        ),
        (
            lambda r: geometric.sum_mechanism(0, 1, 1e-101, "add-remove", 1),
            "grid must be between 1e-100 and 1e+100, got 1e-101",
        ),
        (
            lambda r: geometric.sum_release([1], 0, 1e308, 1e308, "add-remove", 1, rng=r),
            "grid must be between 1e-100 and 1e+100, got 1e+308",
        ),
        (
            lambda r: geometric.sum_mechanism(0, 1, 0.3, "add-remove", 1),
            "grid must divide lower and upper, got grid=0.3, lower=0, upper=1",
        ),
        (
            lambda r: geometric.sum_mechanism(0, 1, 1, "add-remove", 1, unit=" "),
            "unit must be a string that is not empty, got ' '",
        ),
        (
            lambda r: geometric.sum_release([1], math.nan, 1, 1, "add-remove", 1, rng=r),
            "lower must be finite, got nan",
        ),
    ],
)
def test_refusals_come_before_any_draw(call, message):
    with pytest.raises(ValueError) as caught:
        call(Untouchable())
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [np.arange(3, 10), np.arange(2), 4])
def test_each_coordinate_of_a_release_as_it_is_called_is_noised(value):
    # the shape of a real call: one vector or one number a time, never a stack of releases; false
    # alarm 1e-6
    rng = np.random.default_rng(20)
    n = audit.law_test_size(0.35, tests=3 * max(1, np.size(value)) ** 2)
    for release, cdf, discrete in (
        (geometric.release, lambda z: geometric.cdf(z, 2), True),
        (laplace.release, lambda x: laplace.cdf(x, 2.0), False),
    ):
        residuals = np.array([release(value, 1, 0.5, rng=rng) for _ in range(n)]) - value
        assert audit.law_test(residuals, cdf, discrete=discrete, rng=rng).passes()
        bare = residuals.copy().reshape(n, -1)
        bare[:, -1] = 0  # the twin: the last coordinate comes out exact
        assert not audit.law_test(bare, cdf, discrete=discrete, rng=rng).passes()


@pytest.mark.filterwarnings("error")
def test_a_sum_beyond_64_bits_wraps_without_a_warning():
    drawn = [geometric.release(2**63 - 1, 1, 0.01, rng=rng(seed)) for seed in range(20)]
    assert min(drawn) < 0 < max(drawn)


@pytest.mark.filterwarnings("error")
def test_sums_of_any_records_and_any_grid_do_not_raise():
    for grid in (1e-100, 1e100):
        for values in ([1e308] * 3, [-1e308] * 2000, HOSTILE):
            released = geometric.sum_release(
                values, -(2**53) * grid, 2**53 * grid, grid, "add-remove", 2**10, rng=rng(1)
            )
            assert type(released) is float and math.isfinite(released)


def test_the_mechanism_is_its_release():
    moved = sensitivity.of_histogram("replace-one", unit="person")
    mechanism = geometric.mechanism(moved, 0.1)
    assert mechanism.costs == (Pure(Fraction(1, 10)),) and mechanism.exact and mechanism.discrete
    assert (mechanism.neighbours, mechanism.unit, mechanism.sensitivity) == (
        "replace-one",
        "person",
        moved,
    )
    values = np.array([[3, 2**62], [0, -5]])
    assert (
        mechanism(values, rng=rng(3)).tolist()
        == geometric.release(values, 2, 0.1, rng=rng(3)).tolist()
    )
    assert mechanism(7, rng=rng(3)) == geometric.release(7, moved, 0.1, rng=rng(3))
    assert (
        type(geometric.mechanism(sensitivity.of_count("add-remove"), 1)(5, rng=noise.SYSTEM)) is int
    )


@pytest.mark.parametrize("neighbours, steps", [("add-remove", 20), ("replace-one", 30)])
def test_the_sum_mechanism_is_its_release_and_says_its_sensitivity_in_the_unit_of_the_values(
    neighbours, steps
):
    mechanism = geometric.sum_mechanism(-1, 2, 0.1, neighbours, 0.5, unit="person")
    values = [0.2, 3.0, math.nan, -7.0, 1.26]
    assert mechanism.read(values) == 2 + 20 - 10 - 10 + 13
    released = geometric.sum_release(values, -1, 2, 0.1, neighbours, 0.5, rng=rng(8))
    assert mechanism(values, rng=rng(8)) == released
    assert mechanism.sensitivity == sensitivity.Sensitivity(
        Fraction(steps, 10), "absolute", neighbours, "person"
    )
    assert mechanism.law(1)(3) == geometric.cdf(3, 2 * steps)


def test_the_laws_of_mechanisms_are_those_of_their_draws_and_of_their_budgets():
    """Each of the correct ones fails with probability at most 1e-6 (fixed seeds)."""
    counts, generator = np.array([7, 0]), rng(2)
    mechanism = geometric.mechanism(sensitivity.of_histogram("replace-one"), 0.7)
    drawn = np.array([mechanism(counts, rng=generator) for _ in range(8000)]) - counts
    column = [1, 2.5, 9]
    total = geometric.sum_mechanism(0, 4, 0.5, "add-remove", 0.8)
    sums = np.array([total(column, rng=generator) for _ in range(8000)])
    steps = np.rint(sums / 0.5) - total.read(column)
    for samples, law in ((drawn, mechanism.law), (steps, total.law)):
        assert audit.law_test(samples, law(1), discrete=True, rng=rng(3)).passes()
        assert not audit.law_test(samples, law(1.4), discrete=True, rng=rng(3)).passes()
        assert not audit.law_test(samples // 2, law(1), discrete=True, rng=rng(3)).passes()


def test_laws_around_a_centre():
    z = np.arange(-5, 9)
    assert geometric.logpmf(z, 2, centre=3).tolist() == geometric.logpmf(z - 3, 2).tolist()
    assert geometric.cdf(z, 2, 3).tolist() == geometric.cdf(z - 3, 2).tolist()
    assert geometric.logpmf([0.5, 1], 2).tolist() == [-math.inf, geometric.logpmf(1, 2)]
