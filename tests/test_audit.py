"""The audit audited: laws with known epsilons, releases that are correct and must pass, broken twins that must be caught.

False alarms and misses have probability at most 1e-6 each. The number of samples against a twin is computed from the Kolmogorov
distance between what is compared and what the claim says of it (`law_test_size`); draws are seeded.
"""
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dputils import audit, geometric, laplace, noise, sensitivity

HALF = Fraction(1, 2)
DECADES = 10.0 ** np.arange(-5, 6)


def rng(seed=0):
    return np.random.default_rng(seed)


def laplace_pair(scale, other_scale=None, shift=1.0):
    return [lambda x, c=c, b=b: laplace.logpdf(np.asarray(x) - c, b) for c, b in ((0, scale), (shift, other_scale or scale))]


def gaussian_pair(sigma, shift=1.0):
    return [lambda x, c=c: -0.5 * ((np.asarray(x) - c) / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi)) for c in (0, shift)]


def uniform_pair(width, shift):
    return [lambda x, c=c: np.where(np.abs(np.asarray(x) - c) <= width, -math.log(2 * width), -np.inf) for c in (0, shift)]


# ----------------------------------------------------------------------------------------------------------- the law, finite


def test_finite_epsilon_of_fractions_is_exact():
    assert audit.finite_epsilon([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]) == math.log(3)
    assert audit.finite_epsilon({"a": HALF, "b": HALF}, {"b": HALF, "a": HALF}) == 0
    tiny = Fraction(1, 10**20)
    assert audit.finite_epsilon([HALF + tiny, HALF - tiny], [HALF, HALF]) == pytest.approx(2e-20, rel=1e-9)
    assert audit.finite_epsilon([Fraction(1, 2**2000), 1 - Fraction(1, 2**2000)], [HALF, HALF]) == pytest.approx(1999 * math.log(2))
    assert audit.finite_epsilon([5e-324, 1.0], [1.0, 5e-324]) == math.inf  # the ratio of these floats overflows


def test_an_output_that_only_one_law_gives_has_no_epsilon():
    assert audit.finite_epsilon({"a": 1}, {"b": 1}) == math.inf
    assert audit.finite_epsilon({"a": 1 - 1e-12, "b": 1e-12}, {"a": 1}) == math.inf
    assert audit.finite_epsilon({"a": 1, "b": 0}, {"a": 1}) == 0


@given(st.lists(st.integers(1, 50), min_size=2, max_size=6), st.data())
def test_finite_epsilon_and_delta_belong_together(weights, data):
    others = data.draw(st.lists(st.integers(1, 50), min_size=len(weights), max_size=len(weights)))
    p, q = ([Fraction(w, sum(ws)) for w in ws] for ws in (weights, others))
    epsilon = audit.finite_epsilon(p, q)
    assert epsilon == audit.finite_epsilon(q, p)
    assert audit.finite_epsilon(*([float(x) for x in law] for law in (p, q))) == pytest.approx(epsilon, rel=1e-9, abs=1e-15)
    total_variation = float(sum(abs(a - b) for a, b in zip(p, q)) / 2)
    assert audit.finite_delta(p, q, 0) == pytest.approx(total_variation, abs=1e-15)
    assert audit.finite_delta(p, q, epsilon) <= 1e-15
    assert epsilon == 0 or audit.finite_delta(p, q, 0.9 * epsilon) > 0
    curve = [audit.finite_delta(p, q, share * epsilon) for share in np.linspace(0, 1, 7)]
    assert all(a >= b - 1e-15 for a, b in zip(curve, curve[1:]))


def test_finite_delta_takes_the_worse_direction_and_any_epsilon():
    p, q = [0.1, 0.9], [0.0, 1.0]
    assert audit.finite_delta(p, q, 5) == audit.finite_delta(q, p, 5) == pytest.approx(0.1)
    assert audit.finite_delta(p, q, 10**6) == pytest.approx(0.1)
    assert audit.finite_delta([1.0], [1.0], 0) == 0


def test_mechanism_epsilon_finds_the_worst_pair():
    pairs = sensitivity.neighbour_pairs((0, 1, 3), 2, "replace-one")
    law = lambda table: {z: 2.0 ** -abs(z - sum(table)) / 3 for z in range(-40, 50)}  # noqa: E731
    epsilon, worst = audit.mechanism_epsilon(law, pairs)
    assert epsilon == pytest.approx(3 * math.log(2)) and abs(sum(worst[0]) - sum(worst[1])) == 3


# ------------------------------------------------------------------------------------------------------- the law, continuous


@pytest.mark.parametrize("scale", DECADES)
def test_density_epsilon_of_laplace_noise_is_the_shift_over_the_scale(scale):
    for shift in (1.0, 0.25):
        assert audit.density_epsilon(*laplace_pair(scale, shift=shift), [0, shift]) == pytest.approx(shift / scale, rel=1e-9)


@pytest.mark.parametrize("pair,points", [
    (laplace_pair(1.0, 1.001), [0, 1]),        # scales that differ: grows in both tails
    (gaussian_pair(5.0), [-20, 0, 1, 20]),     # no pure epsilon
    (uniform_pair(3.0, 1.0), [-3, -2, 3, 4]),  # an output that only one table gives
    ([stats.t(1).logpdf, stats.t(3).logpdf], np.linspace(-5, 5, 41)),  # grows like a logarithm
    ([lambda x: np.full(np.shape(x), np.nan), stats.norm.logpdf], [0, 1]),
])
def test_density_epsilon_is_infinite_where_the_ratio_is_unbounded(pair, points):
    assert audit.density_epsilon(*pair, points) == math.inf == audit.density_epsilon(*pair[::-1], points)


def test_density_epsilon_of_noise_that_is_bounded_for_both_tables():
    inside = lambda x: np.where(np.abs(np.asarray(x)) <= 2, 0, -np.inf)  # noqa: E731
    tilted = [lambda x: inside(x) + 0.3 * np.asarray(x), lambda x: inside(x) - 0.1 * np.asarray(x)]
    assert audit.density_epsilon(*tilted, [-2, 2]) == pytest.approx(0.8)


def test_density_epsilon_sees_a_tail_that_grows_below_the_peak():
    bump = lambda x: 5 * np.exp(-x * x)  # noqa: E731
    assert audit.density_epsilon(lambda x: bump(x) + 0.001 * np.abs(x), lambda x: 0 * x, np.linspace(-2, 2, 41)) == math.inf
    assert audit.density_epsilon(bump, lambda x: 0 * x, np.linspace(-2, 2, 41)) == 5


def test_density_epsilon_follows_a_tail_that_levels_off():
    cauchy = [lambda x, s=s: np.log(s / (math.pi * (s * s + x * x))) for s in (1.0, 2.0)]
    assert audit.density_epsilon(*cauchy, np.linspace(-5, 5, 21)) == pytest.approx(math.log(2), rel=1e-5)
    rising = audit.density_epsilon(lambda x: 3 - 3 / (1 + np.abs(x)), lambda x: 0 * x, [-1, 0, 1])
    assert rising == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize("scale", DECADES)
def test_density_delta_of_laplace_noise(scale):
    grid = [0, 1, *np.linspace(-40 * scale, 1 + 40 * scale, 41)]
    for share in (0, 0.1, 0.9, 1, 1.5):
        epsilon = share / scale
        expected = -math.expm1(min(0.0, epsilon - 1 / scale) / 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert audit.density_delta(*laplace_pair(scale), epsilon, grid) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 1, 20, 1e4])
@pytest.mark.parametrize("epsilon", [0, 0.1, 1, 8])
def test_density_delta_of_gaussian_noise(sigma, epsilon):
    expected = stats.norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * stats.norm.cdf(-0.5 / sigma - epsilon * sigma)
    found = audit.density_delta(*gaussian_pair(sigma), epsilon, np.linspace(-12 * sigma, 1 + 12 * sigma, 49))
    assert found == pytest.approx(expected, abs=1e-10)


def test_density_delta_of_bounded_noise_and_of_laws_that_differ_in_one_direction():
    assert audit.density_delta(*uniform_pair(2.0, 1.0), 0.5, [-2, -1, 0, 2, 3]) == pytest.approx(0.25, abs=1e-10)
    pair = laplace_pair(1.0, 3.0, shift=0.0)
    forth, back = (audit.density_delta(*p, 0.7, np.linspace(-120, 120, 97)) for p in (pair, pair[::-1]))
    assert forth == back
    x = np.linspace(-200, 200, 2_000_001)
    by_sums = [np.trapezoid(np.maximum(0, np.exp(f(x)) - math.exp(0.7) * np.exp(g(x))), x) for f, g in (pair, pair[::-1])]
    assert forth == pytest.approx(max(by_sums), abs=1e-7) and min(by_sums) < 0.7 * max(by_sums)


def test_density_delta_refuses_points_that_miss_the_mass():
    with pytest.raises(ValueError, match="points must cover the mass of both densities, the quadrature finds .* in place of 1"):
        audit.density_delta(*laplace_pair(1e-6), 0.5, [-1e6, 3e5, 1e6])
    with pytest.raises(ValueError, match="finds 2 in place of 1"):
        audit.density_delta(lambda x: stats.norm.logpdf(x) + math.log(2), stats.norm.logpdf, 0, np.linspace(-9, 9, 37))


# ------------------------------------------------------------------------------------- the code: broken releases are caught

EPSILON = 0.5


def laplace_law(scale):
    return lambda x: laplace.cdf(x, scale)


def geometric_law(scale):
    return lambda z: geometric.cdf(z, scale)


def distance_of_laws(cdf, claimed, points):
    """The Kolmogorov distance of two laws, from below: on a fine grid or on all integers that matter."""
    return float(np.abs(cdf(points) - claimed(points)).max())


GRID, INTEGERS = np.linspace(-200, 200, 400_001), np.arange(-2000, 2001)


def caught(twin, distance, claimed, k=1, discrete=False):
    """Whether `law_test` catches the noise `twin(n, rng)`, shape (n, k), at the sample size computed for `distance`."""
    n = audit.law_test_size(distance, tests=3 * k * k) + 1  # one more: comparisons with the release before have n - 1 numbers
    assert n < 500_000
    return not audit.law_test(twin(n, rng(1)), claimed, discrete=discrete, rng=rng(2)).passes()


def test_noise_of_half_the_scale_is_caught():
    b = laplace.scale(1, EPSILON)
    distance = distance_of_laws(laplace_law(b / 2), laplace_law(b), GRID)
    assert distance == pytest.approx(1 / 8, abs=1e-6)
    assert caught(lambda n, r: laplace.release(np.zeros(n), 1, 2 * EPSILON, rng=r), distance, laplace_law(b))


def test_the_inverted_scale_is_caught():
    distance = distance_of_laws(laplace_law(EPSILON), laplace_law(1 / EPSILON), GRID)
    assert caught(lambda n, r: noise.laplace(1 * EPSILON, n, rng=r), distance, laplace_law(1 / EPSILON))


def test_a_histogram_with_the_sensitivity_of_the_other_relation_is_caught():
    """A histogram under replace-one moves by 2; the twin draws for 1, and is right under add-remove."""
    counts = np.array([40, 0, 7])
    scales = {r: geometric.scale(sensitivity.of_histogram(r).size, EPSILON) for r in ("add-remove", "replace-one")}
    claimed = geometric_law(scales["replace-one"])
    distance = distance_of_laws(geometric_law(scales["add-remove"]), claimed, INTEGERS)

    def twin(n, r):
        return geometric.release(np.tile(counts, (n, 1)), sensitivity.of_histogram("add-remove").size, EPSILON, rng=r) - counts

    assert caught(twin, distance, claimed, k=3, discrete=True)
    under_add_remove = audit.law_test(twin(20_000, rng(3)), geometric_law(scales["add-remove"]), discrete=True, rng=rng(4))
    assert under_add_remove.passes()


@pytest.mark.parametrize("coordinate", [0, 2])
def test_an_unnoised_coordinate_is_caught(coordinate):
    scale = geometric.scale(2, EPSILON)
    claimed = geometric_law(scale)
    distance = float(claimed(-1))  # nothing below 0 where the claim has this much

    def twin(n, r):
        released = geometric.release(np.zeros((n, 3), dtype=int), 2, EPSILON, rng=r)
        released[:, coordinate] = 0
        return released

    assert caught(twin, distance, claimed, k=3, discrete=True)


def reused(sign):
    def twin(n, r):
        first = noise.laplace(2.0, n, rng=r)
        return np.column_stack([first, noise.laplace(2.0, n, rng=r), sign * first])
    return twin


@pytest.mark.parametrize("sign", [1, -1])
def test_noise_used_for_two_coordinates_is_caught_though_each_is_right(sign):
    """Equal noise makes U - V, mirrored noise U + V, one number: distance at least 1/2 from uniform."""
    assert caught(reused(sign), 0.5, laplace_law(2.0), k=3)
    n = 5000
    samples = reused(sign)(n, rng(1))
    assert all(audit.law_test(samples[:, j], laplace_law(2.0)).passes() for j in range(3))
    seen = audit.law_test(samples, laplace_law(2.0))
    assert seen.where == f"coordinate 3 and coordinate 1 of the same release, {'difference' if sign == 1 else 'sum'}"


@pytest.mark.parametrize("sign", [1, -1])
def test_integer_noise_used_for_two_coordinates_is_caught(sign):
    """Ties are broken independently, so U - V (or U + V) spreads over the width of an atom: its distance from uniform is computed."""
    scale = Fraction(4)
    masses = np.exp(geometric.logpmf(INTEGERS, scale))
    w = np.linspace(0, 1, 2001)[1:-1, None]
    spread = lambda w: np.where(w < 0, 0.5 * np.clip(1 + w, 0, 1) ** 2, 1 - 0.5 * np.clip(1 - w, 0, 1) ** 2)  # noqa: E731
    big = masses[masses > 1e-7]
    # P((U - V) mod 1 <= w) for U - V = mass * T, T triangular on (-1, 1); the mirrored sum has the same law by symmetry
    below = (big * (spread(w / big) - spread(0 / big) + spread((w - 1) / big))).sum(axis=1)
    distance = float(np.abs(below - w[:, 0]).max()) - 1e-4

    def twin(n, r):
        first = noise.discrete_laplace(scale, n, rng=r)
        return np.column_stack([first, sign * first])

    assert 0.3 < distance < 0.5
    assert caught(twin, distance, geometric_law(scale), k=2, discrete=True)


def from_a_pool(n, k, r, stride):
    """Noise from a window that moves over a pool by `stride` numbers a release."""
    pool = noise.laplace(2.0, stride * (n - 1) + k, rng=r)
    return pool[np.arange(n)[:, None] * stride + np.arange(k)]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_noise_reused_by_every_second_call_is_caught_wherever_it_starts(first, sign):
    """Half of the differences (sums) of consecutive releases are one number: distance at least 1/2, less 1/n for the odd ones."""
    def twin(n, r):
        fresh = noise.laplace(2.0, n // 2 + 2, rng=r)
        return np.column_stack([fresh, sign * fresh]).ravel()[first:first + n]

    assert caught(twin, 0.49, laplace_law(2.0))
    assert audit.law_test(twin(2000, rng(1))[::2], laplace_law(2.0)).passes()


def test_noise_handed_on_to_another_coordinate_of_the_next_call_is_caught():
    assert caught(lambda n, r: from_a_pool(n, 3, r, 1), 0.5, laplace_law(2.0), k=3)
    assert caught(lambda n, r: from_a_pool(n, 3, r, 2), 0.5, laplace_law(2.0), k=3)
    assert audit.law_test(from_a_pool(3000, 3, rng(1), 3), laplace_law(2.0)).passes()  # no overlap: correct
    seen = audit.law_test(from_a_pool(3000, 3, rng(1), 2), laplace_law(2.0))
    assert seen.where == "coordinate 1 and coordinate 3 of the release before, difference"


def test_a_release_that_seeds_its_own_generator_is_caught():
    """The same noise at each call: a law with one value is at least 1/2 away from any continuous one."""
    def twin(n, r):
        return np.array([noise.laplace(2.0, rng=rng(7)) for _ in range(n)])

    assert caught(twin, 0.5, laplace_law(2.0))


def test_a_constant_seed_by_size_is_caught_through_its_repeats():
    def twin(n, r):
        return np.array([noise.laplace(2.0, 3, rng=rng(i // 2)) for i in range(n)])  # a seed that changes every second call

    assert caught(twin, 0.49, laplace_law(2.0), k=3)


@pytest.mark.parametrize("name,twin,cdf", [
    ("gaussian of the same variance", lambda n, r: noise.gaussian(2 * math.sqrt(2), n, rng=r), stats.norm(scale=2 * math.sqrt(2)).cdf),
    ("cut at three scales", lambda n, r: np.clip(noise.laplace(2.0, n, rng=r), -6, 6),
     lambda x: np.where(x >= 6, 1.0, np.where(x < -6, 0.0, laplace.cdf(x, 2.0)))),
    ("one sided", lambda n, r: noise.exponential(2.0, n, rng=r), stats.expon(scale=2).cdf),
    ("shifted", lambda n, r: noise.laplace(2.0, n, rng=r) + 0.3, lambda x: laplace.cdf(x - 0.3, 2.0)),
    ("nine in ten", lambda n, r: noise.laplace(2.0, n, rng=r) * (r.random(n) < 0.9),
     lambda x: 0.9 * laplace.cdf(x, 2.0) + 0.1 * (x >= 0)),
])
def test_noise_of_another_shape_is_caught(name, twin, cdf):
    distance = distance_of_laws(cdf, laplace_law(2.0), GRID)
    assert caught(twin, distance, laplace_law(2.0)), name


def test_values_that_the_law_cannot_give_fail_at_once():
    for bad in (math.nan, math.inf, -math.inf):
        samples = noise.laplace(2.0, 1000, rng=rng())
        samples[500] = bad
        outcome = audit.law_test(samples, laplace_law(2.0))
        assert outcome == audit.LawTest(1.0, "values that the law cannot give", 0.0, 1000) and not outcome.passes()
    fraction = noise.discrete_laplace(2, 1000, rng=rng()) + 0.25  # its floor follows the law
    assert not audit.law_test(fraction, geometric_law(2), discrete=True, rng=rng()).passes()


# ---------------------------------------------------------------------------------------- the code: correct releases pass


@pytest.mark.parametrize("k", [1, 2, 5])
def test_correct_releases_pass(k):
    n = 30_000 // k
    continuous = laplace.release(np.full((n, k), 3.0), 1, EPSILON, rng=rng(20 + k)) - 3.0
    assert audit.law_test(continuous, laplace_law(2.0)).passes()
    whole = geometric.release(np.full((n, k), 3), 1, EPSILON, rng=rng(30 + k)) - 3
    assert audit.law_test(whole, geometric_law(2), discrete=True, rng=rng(40 + k)).passes()
    assert audit.law_test(-whole, geometric_law(2), discrete=True, rng=rng(50 + k)).passes()


@pytest.mark.parametrize("discrete", [False, True])
def test_false_alarms_are_no_more_frequent_than_stated(discrete):
    """400 correct releases at alpha = 0.2: more alarms than the binomial quantile have probability 1e-6. The uniforms are the null."""
    alarms, n, k = 0, 60, 2
    for seed in range(400):
        generator = rng(seed)
        if discrete:  # a coarse law: most of the work is done by the breaking of ties
            samples, cdf = noise.discrete_laplace(HALF, (n, k), rng=generator), geometric_law(HALF)
        else:
            samples, cdf = generator.random((n, k)), lambda x: np.clip(x, 0, 1)
        alarms += not audit.law_test(samples, cdf, discrete=discrete, rng=generator).passes(alpha=0.2)
    assert 0 < alarms <= stats.binom.isf(1e-6, 400, 0.2)


def test_law_test_bounds_the_p_value_of_the_largest_distance():
    samples = stats.uniform.rvs(size=500, random_state=1) ** 1.4
    outcome = audit.law_test(samples, lambda x: x)
    exact = stats.kstest(samples, "uniform")
    assert outcome.where == "coordinate 1" and outcome.distance == pytest.approx(exact.statistic)
    assert outcome.p_value == pytest.approx(12 * math.exp(-2 * 500 * exact.statistic**2)) and outcome.p_value >= exact.pvalue
    assert outcome.samples == 500 and outcome.passes(outcome.p_value / 2) and not outcome.passes(outcome.p_value)


@given(st.floats(0.001, 1), st.integers(1, 1000), st.floats(1e-12, 0.5), st.floats(1e-12, 0.5))
def test_law_test_size_is_the_smallest_that_its_inequality_allows(distance, tests, alpha, beta):
    n = audit.law_test_size(distance, tests, alpha, beta)

    def seen(n):  # the smallest distance that is still a failure, and how far below the true one the empirical one stays
        return math.sqrt(math.log(4 * tests / alpha) / (2 * n)) + math.sqrt(math.log(2 / beta) / (2 * n))

    assert seen(n) <= distance * (1 + 1e-12) and (n == 1 or seen(n - 1) > distance * (1 - 1e-9))
    assert audit.law_test_size(distance / 2, tests, alpha, beta) >= n <= audit.law_test_size(distance, tests + 1, alpha, beta)


# ----------------------------------------------------------------------------------------------------------------- refusals


NORMAL = stats.norm.logpdf


@pytest.mark.parametrize("call,message", [
    (lambda: audit.finite_epsilon([1], [0.5, 0.5]), "p and q must be two dicts or two sequences of one length, got [1] and [0.5, 0.5]"),
    (lambda: audit.finite_epsilon({0: 1}, [1]), "p and q must be two dicts or two sequences of one length, got {0: 1} and [1]"),
    (lambda: audit.finite_epsilon([math.nan, 1], [0, 1]), "p must hold probabilities, got nan"),
    (lambda: audit.finite_epsilon([0, 1], [-0.5, 1]), "q must hold probabilities, got -0.5"),
    (lambda: audit.finite_delta([20, 30], [25, 25], 1), "p must hold probabilities, got 20"),
    (lambda: audit.finite_delta([1], [1], -0.1), "epsilon must be at least 0, got -0.1"),
    (lambda: audit.finite_delta([1], [1], math.inf), "epsilon must be finite, got inf"),
    (lambda: audit.density_epsilon(NORMAL, NORMAL, [1, 1]),
     "points must hold at least two different numbers, all finite, got [1.0]"),
    (lambda: audit.density_epsilon(NORMAL, NORMAL, [0, math.inf]),
     "points must hold at least two different numbers, all finite, got [0.0, inf]"),
    (lambda: audit.density_epsilon(NORMAL, NORMAL, [0, 1], reach=0), "reach must be positive and finite, got 0"),
    (lambda: audit.density_delta(NORMAL, NORMAL, -1, [0, 1]), "epsilon must be at least 0, got -1"),
    (lambda: audit.density_delta(NORMAL, NORMAL, 1, []), "points must hold at least two different numbers, all finite, got []"),
    (lambda: audit.law_test([], stats.norm.cdf), "samples must have shape (n,) or (n, k), n and k at least 1, got (0,)"),
    (lambda: audit.law_test(1.0, stats.norm.cdf), "samples must have shape (n,) or (n, k), n and k at least 1, got ()"),
    (lambda: audit.law_test(np.ones((2, 2, 2)), stats.norm.cdf),
     "samples must have shape (n,) or (n, k), n and k at least 1, got (2, 2, 2)"),
    (lambda: audit.law_test([1, 2], geometric_law(1), discrete=True),
     "rng must be a np.random.Generator or dputils.noise.SYSTEM, got None"),
    (lambda: audit.law_test([1.0, 2.0], lambda x: 2 * x), "cdf must give probabilities, got values from 2.0 to 4.0"),
    (lambda: audit.law_test([1.0, 2.0], lambda x: x * math.nan), "cdf must give probabilities, got values from nan to nan"),
    (lambda: audit.law_test_size(0), "distance must be positive and finite, got 0"),
    (lambda: audit.law_test_size(1.5), "distance must be at most 1, got 1.5"),
    (lambda: audit.law_test_size(0.5, 0), "tests must be at least 1, got 0"),
    (lambda: audit.law_test_size(0.5, alpha=0), "alpha must be strictly between 0 and 1, got 0"),
    (lambda: audit.law_test_size(0.5, beta=1), "beta must be strictly between 0 and 1, got 1"),
])
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message
