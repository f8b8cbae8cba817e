"""The audit audited: laws with known epsilons, releases that are correct and must pass, broken
twins that must be caught.

False alarms and misses have probability at most 1e-6 each. The number of samples against a twin is
computed from the Kolmogorov distance between what is compared and what the claim says of it
(`law_test_size`); draws are seeded."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dputils import audit, geometric, laplace, misses, noise, sensitivity

HALF = Fraction(1, 2)
DECADES = 10.0 ** np.arange(-5, 6)


def rng(seed=0):
    return np.random.default_rng(seed)


def laplace_pair(scale, other_scale=None, shift=1.0):
    return [
        lambda x, c=c, b=b: laplace.logpdf(np.asarray(x) - c, b)
        for c, b in ((0, scale), (shift, other_scale or scale))
    ]


def gaussian_pair(sigma, shift=1.0):
    return [
        lambda x, c=c: (
            -0.5 * ((np.asarray(x) - c) / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
        )
        for c in (0, shift)
    ]


def uniform_pair(width, shift):
    return [
        lambda x, c=c: np.where(np.abs(np.asarray(x) - c) <= width, -math.log(2 * width), -np.inf)
        for c in (0, shift)
    ]


# ---------------------------------------------------------------------------------- the law, finite


def test_finite_epsilon_of_fractions_is_exact():
    assert audit.finite_epsilon(
        [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    ) == math.log(3)
    assert audit.finite_epsilon({"a": HALF, "b": HALF}, {"b": HALF, "a": HALF}) == 0
    tiny = Fraction(1, 10**20)
    assert audit.finite_epsilon([HALF + tiny, HALF - tiny], [HALF, HALF]) == pytest.approx(
        2e-20, rel=1e-9
    )
    assert audit.finite_epsilon(
        [Fraction(1, 2**2000), 1 - Fraction(1, 2**2000)], [HALF, HALF]
    ) == pytest.approx(1999 * math.log(2))
    assert (
        audit.finite_epsilon([5e-324, 1.0], [1.0, 5e-324]) == math.inf
    )  # the ratio of these floats overflows


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
    assert audit.finite_epsilon(*([float(x) for x in law] for law in (p, q))) == pytest.approx(
        epsilon, rel=1e-9, abs=1e-15
    )
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
    law = lambda table: {z: 2.0 ** -abs(z - sum(table)) / 3 for z in range(-40, 50)}
    epsilon, worst = audit.mechanism_epsilon(law, pairs)
    assert epsilon == pytest.approx(3 * math.log(2)) and abs(sum(worst[0]) - sum(worst[1])) == 3


# ------------------------------------------------------------------------------ the law, continuous


@pytest.mark.parametrize("scale", DECADES)
def test_density_epsilon_of_laplace_noise_is_the_shift_over_the_scale(scale):
    for shift in (1.0, 0.25):
        assert audit.density_epsilon(
            *laplace_pair(scale, shift=shift), [0, shift]
        ) == pytest.approx(shift / scale, rel=1e-9)


@pytest.mark.parametrize(
    "pair,points",
    [
        (laplace_pair(1.0, 1.001), [0, 1]),  # scales that differ: grows in both tails
        (gaussian_pair(5.0), [-20, 0, 1, 20]),  # no pure epsilon
        (uniform_pair(3.0, 1.0), [-3, -2, 3, 4]),  # an output that only one table gives
        ([stats.t(1).logpdf, stats.t(3).logpdf], np.linspace(-5, 5, 41)),  # grows like a logarithm
        ([lambda x: np.full(np.shape(x), np.nan), stats.norm.logpdf], [0, 1]),
    ],
)
def test_density_epsilon_is_infinite_where_the_ratio_is_unbounded(pair, points):
    assert (
        audit.density_epsilon(*pair, points)
        == math.inf
        == audit.density_epsilon(*pair[::-1], points)
    )


def test_density_epsilon_of_noise_that_is_bounded_for_both_tables():
    inside = lambda x: np.where(np.abs(np.asarray(x)) <= 2, 0, -np.inf)
    tilted = [lambda x: inside(x) + 0.3 * np.asarray(x), lambda x: inside(x) - 0.1 * np.asarray(x)]
    assert audit.density_epsilon(*tilted, [-2, 2]) == pytest.approx(0.8)


def test_density_epsilon_sees_a_tail_that_grows_below_the_peak():
    bump = lambda x: 5 * np.exp(-x * x)
    assert (
        audit.density_epsilon(
            lambda x: bump(x) + 0.001 * np.abs(x), lambda x: 0 * x, np.linspace(-2, 2, 41)
        )
        == math.inf
    )
    assert audit.density_epsilon(bump, lambda x: 0 * x, np.linspace(-2, 2, 41)) == 5


def test_density_epsilon_follows_a_tail_that_levels_off():
    cauchy = [lambda x, s=s: np.log(s / (math.pi * (s * s + x * x))) for s in (1.0, 2.0)]
    assert audit.density_epsilon(*cauchy, np.linspace(-5, 5, 21)) == pytest.approx(
        math.log(2), rel=1e-5
    )
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
            assert audit.density_delta(*laplace_pair(scale), epsilon, grid) == pytest.approx(
                expected, abs=1e-10
            )


@pytest.mark.parametrize("sigma", [0.01, 0.3, 1, 20, 1e4])
@pytest.mark.parametrize("epsilon", [0, 0.1, 1, 8])
def test_density_delta_of_gaussian_noise(sigma, epsilon):
    expected = stats.norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * stats.norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )
    found = audit.density_delta(
        *gaussian_pair(sigma), epsilon, np.linspace(-12 * sigma, 1 + 12 * sigma, 49)
    )
    assert found == pytest.approx(expected, abs=1e-10)


def test_density_delta_of_bounded_noise_and_of_laws_that_differ_in_one_direction():
    assert audit.density_delta(*uniform_pair(2.0, 1.0), 0.5, [-2, -1, 0, 2, 3]) == pytest.approx(
        0.25, abs=1e-10
    )
    pair = laplace_pair(1.0, 3.0, shift=0.0)
    forth, back = (
        audit.density_delta(*p, 0.7, np.linspace(-120, 120, 97)) for p in (pair, pair[::-1])
    )
    assert forth == back
    x = np.linspace(-200, 200, 2_000_001)
    by_sums = [
        np.trapezoid(np.maximum(0, np.exp(f(x)) - math.exp(0.7) * np.exp(g(x))), x)
        for f, g in (pair, pair[::-1])
    ]
    assert forth == pytest.approx(max(by_sums), abs=1e-7) and min(by_sums) < 0.7 * max(by_sums)


def test_density_delta_finds_the_crossing_beyond_its_points():
    sigma, epsilon = 10.0, 0.9  # p = e^0.4 q at -39.5, p = e^0.9 q at -89.5
    expected = stats.norm.cdf(0.05 - 9) - math.exp(epsilon) * stats.norm.cdf(-0.05 - 9)
    close = stats.norm.cdf(0.05 - 4) - math.exp(0.4) * stats.norm.cdf(-0.05 - 4)
    assert audit.density_delta(*gaussian_pair(sigma), 0.4, [-2, 0, 1, 3]) == pytest.approx(
        close, rel=1e-6
    )
    assert audit.density_delta(*gaussian_pair(sigma), epsilon, [-2, 0, 1, 3]) == pytest.approx(
        expected, abs=1e-13
    )


def test_density_delta_refuses_points_that_miss_the_mass():
    with pytest.raises(
        ValueError,
        match="points must cover the mass of both densities, the quadrature finds .* in place of 1",
    ):
        audit.density_delta(*laplace_pair(1e-6), 0.5, [-1e6, 3e5, 1e6])
    with pytest.raises(ValueError, match="finds 2 in place of 1"):
        audit.density_delta(
            lambda x: stats.norm.logpdf(x) + math.log(2),
            stats.norm.logpdf,
            0,
            np.linspace(-9, 9, 37),
        )


# ------------------------------------------------------------- the code: broken releases are caught

EPSILON = 0.5


def laplace_law(scale):
    return lambda x: laplace.cdf(x, scale)


def geometric_law(scale):
    return lambda z: geometric.cdf(z, scale)


def distance_of_laws(cdf, claimed, points):
    """The Kolmogorov distance of two laws, from below: on a fine grid or on all integers that
    matter.
    """
    return float(np.abs(cdf(points) - claimed(points)).max())


GRID, INTEGERS = np.linspace(-200, 200, 400_001), np.arange(-2000, 2001)


def caught(twin, distance, claimed, k=1, discrete=False):
    """Whether `law_test` catches the noise `twin(n, rng)`, shape (n, k), at the sample size
    computed for `distance`.
    """
    n = (
        audit.law_test_size(distance, tests=3 * k * k) + 1
    )  # one more: comparisons with the release before have n - 1 numbers
    assert n < 500_000
    return not audit.law_test(twin(n, rng(1)), claimed, discrete=discrete, rng=rng(2)).passes()


def test_noise_of_half_the_scale_is_caught():
    b = laplace.scale(1, EPSILON)
    distance = distance_of_laws(laplace_law(b / 2), laplace_law(b), GRID)
    assert distance == pytest.approx(1 / 8, abs=1e-6)
    assert caught(
        lambda n, r: laplace.release(np.zeros(n), 1, 2 * EPSILON, rng=r), distance, laplace_law(b)
    )


def test_the_inverted_scale_is_caught():
    distance = distance_of_laws(laplace_law(EPSILON), laplace_law(1 / EPSILON), GRID)
    assert caught(
        lambda n, r: noise.laplace(1 * EPSILON, n, rng=r), distance, laplace_law(1 / EPSILON)
    )


def test_a_histogram_with_the_sensitivity_of_the_other_relation_is_caught():
    """A histogram under replace-one moves by 2; the twin draws for 1, and is right under
    add-remove.
    """
    counts = np.array([40, 0, 7])
    scales = {
        r: geometric.scale(sensitivity.of_histogram(r).size, EPSILON)
        for r in ("add-remove", "replace-one")
    }
    claimed = geometric_law(scales["replace-one"])
    distance = distance_of_laws(geometric_law(scales["add-remove"]), claimed, INTEGERS)

    def twin(n, r):
        return (
            geometric.release(
                np.tile(counts, (n, 1)), sensitivity.of_histogram("add-remove").size, EPSILON, rng=r
            )
            - counts
        )

    assert caught(twin, distance, claimed, k=3, discrete=True)
    under_add_remove = audit.law_test(
        twin(20_000, rng(3)), geometric_law(scales["add-remove"]), discrete=True, rng=rng(4)
    )
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
    """Equal noise makes U - V, mirrored noise U + V, one number: distance at least 1/2 from
    uniform.
    """
    assert caught(reused(sign), 0.5, laplace_law(2.0), k=3)
    n = 5000
    samples = reused(sign)(n, rng(1))
    assert all(audit.law_test(samples[:, j], laplace_law(2.0)).passes() for j in range(3))
    seen = audit.law_test(samples, laplace_law(2.0))
    assert (
        seen.where == f"coordinate 3 and coordinate 1 of the same release, "
        f"{'difference' if sign == 1 else 'sum'}"
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_integer_noise_used_for_two_coordinates_is_caught(sign):
    """Ties are broken independently, so U - V (or U + V) spreads over the width of an atom: its
    distance from uniform is computed.
    """
    scale = Fraction(4)
    masses = np.exp(geometric.logpmf(INTEGERS, scale))
    w = np.linspace(0, 1, 2001)[1:-1, None]
    spread = lambda w: np.where(
        w < 0, 0.5 * np.clip(1 + w, 0, 1) ** 2, 1 - 0.5 * np.clip(1 - w, 0, 1) ** 2
    )
    big = masses[masses > 1e-7]
    # P((U - V) mod 1 <= w) for U - V = mass * T, T triangular on (-1, 1); the mirrored sum has the
    # same law by symmetry
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
    """Half of the differences (sums) of consecutive releases are one number: distance at least 1/2,
    less 1/n for the odd ones.
    """

    def twin(n, r):
        fresh = noise.laplace(2.0, n // 2 + 2, rng=r)
        return np.column_stack([fresh, sign * fresh]).ravel()[first : first + n]

    assert caught(twin, 0.49, laplace_law(2.0))
    assert audit.law_test(twin(2000, rng(1))[::2], laplace_law(2.0)).passes()


def test_noise_handed_on_to_another_coordinate_of_the_next_call_is_caught():
    assert caught(lambda n, r: from_a_pool(n, 3, r, 1), 0.5, laplace_law(2.0), k=3)
    assert caught(lambda n, r: from_a_pool(n, 3, r, 2), 0.5, laplace_law(2.0), k=3)
    assert audit.law_test(
        from_a_pool(3000, 3, rng(1), 3), laplace_law(2.0)
    ).passes()  # no overlap: correct
    seen = audit.law_test(from_a_pool(3000, 3, rng(1), 2), laplace_law(2.0))
    assert seen.where == "coordinate 1 and coordinate 3 of the release before, difference"


def test_a_release_that_seeds_its_own_generator_is_caught():
    """The same noise at each call: a law with one value is at least 1/2 away from any continuous
    one.
    """

    def twin(n, r):
        return np.array([noise.laplace(2.0, rng=rng(7)) for _ in range(n)])

    assert caught(twin, 0.5, laplace_law(2.0))


def test_a_constant_seed_by_size_is_caught_through_its_repeats():
    def twin(n, r):
        return np.array(
            [noise.laplace(2.0, 3, rng=rng(i // 2)) for i in range(n)]
        )  # a seed that changes every second call

    assert caught(twin, 0.49, laplace_law(2.0), k=3)


@pytest.mark.parametrize(
    "name,twin,cdf",
    [
        (
            "gaussian of the same variance",
            lambda n, r: noise.gaussian(2 * math.sqrt(2), n, rng=r),
            stats.norm(scale=2 * math.sqrt(2)).cdf,
        ),
        (
            "cut at three scales",
            lambda n, r: np.clip(noise.laplace(2.0, n, rng=r), -6, 6),
            lambda x: np.where(x >= 6, 1.0, np.where(x < -6, 0.0, laplace.cdf(x, 2.0))),
        ),
        ("one sided", lambda n, r: noise.exponential(2.0, n, rng=r), stats.expon(scale=2).cdf),
        (
            "shifted",
            lambda n, r: noise.laplace(2.0, n, rng=r) + 0.3,
            lambda x: laplace.cdf(x - 0.3, 2.0),
        ),
        (
            "nine in ten",
            lambda n, r: noise.laplace(2.0, n, rng=r) * (r.random(n) < 0.9),
            lambda x: 0.9 * laplace.cdf(x, 2.0) + 0.1 * (x >= 0),
        ),
    ],
)
def test_noise_of_another_shape_is_caught(name, twin, cdf):
    distance = distance_of_laws(cdf, laplace_law(2.0), GRID)
    assert caught(twin, distance, laplace_law(2.0)), name


def test_values_that_the_law_cannot_give_fail_at_once():
    for bad in (math.nan, math.inf, -math.inf):
        samples = noise.laplace(2.0, 1000, rng=rng())
        samples[500] = bad
        outcome = audit.law_test(samples, laplace_law(2.0))
        assert (
            outcome == audit.LawTest(1.0, "values that the law cannot give", 0.0, 1000)
            and not outcome.passes()
        )
    fraction = noise.discrete_laplace(2, 1000, rng=rng()) + 0.25  # its floor follows the law
    assert not audit.law_test(fraction, geometric_law(2), discrete=True, rng=rng()).passes()


# ------------------------------------------------------------------ the code: correct releases pass


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
    """400 correct releases at alpha = 0.2: more alarms than the binomial quantile have probability
    1e-6. The uniforms are the null.
    """
    alarms, n, k = 0, 60, 2
    for seed in range(400):
        generator = rng(seed)
        if discrete:  # a coarse law: most of the work is done by the breaking of ties
            samples, cdf = noise.discrete_laplace(HALF, (n, k), rng=generator), geometric_law(HALF)
        else:
            samples, cdf = generator.random((n, k)), lambda x: np.clip(x, 0, 1)
        alarms += not audit.law_test(samples, cdf, discrete=discrete, rng=generator).passes(
            alpha=0.2
        )
    assert 0 < alarms <= stats.binom.isf(1e-6, 400, 0.2)


def test_law_test_bounds_the_p_value_of_the_largest_distance():
    samples = stats.uniform.rvs(size=500, random_state=1) ** 1.4
    outcome = audit.law_test(samples, lambda x: x)
    exact = stats.kstest(samples, "uniform")
    assert outcome.where == "coordinate 1" and outcome.distance == pytest.approx(exact.statistic)
    assert (
        outcome.p_value == pytest.approx(12 * math.exp(-2 * 500 * exact.statistic**2))
        and outcome.p_value >= exact.pvalue
    )
    assert (
        outcome.samples == 500
        and outcome.passes(outcome.p_value / 2)
        and not outcome.passes(outcome.p_value)
    )


@given(st.floats(0.001, 1), st.integers(1, 1000), st.floats(1e-12, 0.5), st.floats(1e-12, 0.5))
def test_law_test_size_is_the_smallest_that_its_inequality_allows(distance, tests, alpha, beta):
    n = audit.law_test_size(distance, tests, alpha, beta)

    def seen(
        n,
    ):  # the smallest distance that fails, and how far below the true one it stays
        return math.sqrt(math.log(4 * tests / alpha) / (2 * n)) + math.sqrt(
            math.log(2 / beta) / (2 * n)
        )

    assert seen(n) <= distance * (1 + 1e-12) and (n == 1 or seen(n - 1) > distance * (1 - 1e-9))
    assert (
        audit.law_test_size(distance / 2, tests, alpha, beta)
        >= n
        <= audit.law_test_size(distance, tests + 1, alpha, beta)
    )


# ------------------------------------------------------------------------------- forms that raise


@pytest.mark.parametrize(
    "p,q",
    [
        ([HALF, HALF], [HALF, HALF + Fraction(1, 10**30)]),
        ([0.5, 0.5], [0.5, 0.5 + 2e-9]),
        ({"a": 0.9}, {"a": 0.9}),
        ([0.6, 0.6], [0.5, 0.5]),
        ([1, 1], [1, 0]),
        ([], []),
    ],
)
def test_a_law_whose_mass_is_not_one_is_refused(p, q):
    for comparison in (audit.finite_epsilon, lambda p, q: audit.finite_delta(p, q, 1.0)):
        with pytest.raises(
            ValueError, match=r"^[pq] must sum to 1, its probabilities sum to 1 [+-]"
        ):
            comparison(p, q)
    assert audit.finite_epsilon([0.5, 0.5], [0.5, 0.5 + 5e-10]) < 1.1e-9  # rounding is none


@pytest.mark.parametrize("confidence", [0.5, 0.9, 1 - 1e-6])
@pytest.mark.parametrize("hits", [0, 1, 17, 50])
def test_rates_are_bounded_by_clopper_and_pearson(hits, confidence):
    exact = stats.binomtest(hits, 50).proportion_ci(confidence, "exact")
    assert audit.rate_bounds(hits, 50, confidence) == pytest.approx(
        (exact.low, exact.high), rel=1e-6
    )


def test_assert_epsilon_prints_what_is_attained_against_what_is_stated(capsys):
    laws = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    assert audit.assert_epsilon(*laws, math.log(3)) == math.log(3)
    assert (
        capsys.readouterr().out
        == "The largest log-ratio of the two laws is 1.099; 1.099 is stated.\n"
    )
    with pytest.raises(
        audit.AuditFailed, match="^The largest log-ratio of the two laws is 1.099; 1.09 is stated.$"
    ):
        audit.assert_epsilon(*laws, 1.09)
    assert capsys.readouterr().out == ""
    assert audit.assert_epsilon(*laws, 1.0, delta=0.1) == audit.finite_delta(*laws, 1.0)
    with pytest.raises(
        audit.AuditFailed, match="^At epsilon 0.5 the laws need delta 0.3378; 0.3 is stated.$"
    ):
        audit.assert_epsilon(*laws, 0.5, delta=0.3)
    capsys.readouterr()
    assert audit.assert_epsilon(*laws, 1.2, delta=1e-6) == 0
    assert (
        capsys.readouterr().out
        == "At epsilon 1.2 the laws need delta below 1e-15; 1e-06 is stated.\n"
    )
    assert issubclass(audit.AuditFailed, AssertionError)


def test_assert_epsilon_of_densities():
    assert audit.assert_epsilon(*laplace_pair(2.0), 0.5, points=[0, 1]) == pytest.approx(0.5)
    for pair, epsilon in ((laplace_pair(2.0), 0.49), (gaussian_pair(5.0), 100.0)):
        with pytest.raises(audit.AuditFailed):
            audit.assert_epsilon(*pair, epsilon, points=[0, 1])
    grid = np.linspace(-12, 13, 51)
    exact = stats.norm.cdf(0.5 - 1) - math.e * stats.norm.cdf(-0.5 - 1)
    assert audit.assert_epsilon(
        *gaussian_pair(1.0), 1.0, delta=exact, points=grid
    ) == pytest.approx(exact)
    with pytest.raises(audit.AuditFailed):
        audit.assert_epsilon(*gaussian_pair(1.0), 1.0, delta=0.999 * exact, points=grid)


def test_assert_law_says_what_would_pass_and_raises_for_a_twin(capsys):
    def weaker(c):
        return laplace_law(2.0 / c)

    honest, twin = (noise.laplace(b, 20_000, rng=rng(1)) for b in (2.0, 1.0))
    found = audit.assert_law(honest, laplace_law(2.0), weaker=weaker)
    expected = misses.would_miss(20_000, laplace_law(2.0), weaker=weaker)
    assert found.passes() and found.missed.budget == expected.budget == 1.24
    assert found.missed.disclosure == pytest.approx(expected.disclosure)
    assert capsys.readouterr().out == (
        "The draws fit the stated law. 20,000 draws; a budget up to 1.24 times the stated "
        "one, or an exact disclosure "
        "in 0.069 % of the releases, would pass.\n"
    )
    with pytest.raises(
        audit.AuditFailed,
        match="^The draws do not follow the stated law: coordinate 1, distance 0.12",
    ):
        audit.assert_law(twin, laplace_law(2.0))


def test_assert_law_counts_coordinates_and_knows_the_resolution(capsys):
    samples = noise.laplace(2.0, (5000, 3), rng=rng(1))
    expected = misses.would_miss(5000, laplace_law(2.0), k=3).disclosure
    assert audit.assert_law(samples, laplace_law(2.0)).missed.disclosure == pytest.approx(expected)
    coarse = (2.0**45 + samples) - 2.0**45
    assert audit.assert_law(coarse, laplace_law(2.0)).missed.disclosure > 3 * expected
    assert "an exact disclosure in" in capsys.readouterr().out


def test_assert_caught_raises_unless_the_twin_is_caught(capsys):
    twin = noise.laplace(1.0, 20_000, rng=rng(1))
    assert not audit.assert_caught(twin, laplace_law(2.0)).passes()
    said = capsys.readouterr().out
    assert (
        said.startswith("The broken release is caught: coordinate 1, distance 0.12")
        and "p-value below 10^-" in said
    )
    with pytest.raises(
        audit.AuditFailed, match="^The broken release passes: .*, in 20,000 draws.$"
    ):
        audit.assert_caught(twin, laplace_law(1.0))
    with pytest.raises(audit.AuditFailed):  # at this alpha the same twin passes
        audit.assert_caught(noise.laplace(1.9, 2000, rng=rng(1)), laplace_law(2.0), alpha=1e-12)


def test_finite_laws_go_straight_into_the_test():
    law = {"left": 0.2, "right": 0.5, ("up", "down"): 0.3}
    drawn = rng(1).choice(3, 20_000, p=list(law.values()))
    names = list(law)
    honest = [names[i] for i in drawn]
    assert audit.assert_law(honest, law, rng=rng(2)).passes()
    assert audit.assert_law(drawn, list(law.values()), rng=rng(2)).passes()
    assert audit.assert_law(drawn, np.array(list(law.values())), rng=rng(2)).passes()
    pairs = rng(3).choice(2, (5000, 2), p=[0.25, 0.75])
    assert (
        audit.assert_law(pairs, [Fraction(1, 4), Fraction(3, 4)], rng=rng(2)).missed.draws == 5000
    )
    assert not audit.law_test(pairs[:, [0, 0]], [0.25, 0.75], rng=rng(2)).passes()
    assert not audit.law_test(np.tile(drawn[:5000], 4), list(law.values()), rng=rng(2)).passes()
    assert audit.law_test([*honest, "up"], law, rng=rng(2)) == audit.LawTest(
        1.0, "values that the law cannot give", 0.0, 20_001
    )
    with pytest.raises(ValueError, match="law must sum to 1"):
        audit.law_test(drawn, [0.5, 0.6], rng=rng(2))
    with pytest.raises(ValueError, match="rng must be"):
        audit.law_test(drawn, [0.2, 0.5, 0.3])


def test_a_four_fold_randomized_response_needs_the_computed_number_of_draws():
    """At epsilon 0.01 the twin spends 0.04: the laws are 0.0075 apart, and this many draws tell
    them.
    """
    yes = [1 / (1 + math.exp(-c * 0.01)) for c in (1, 4)]
    n = audit.law_test_size(yes[1] - yes[0], tests=3)
    assert 500_000 < n < 600_000
    honest, twin = ((rng(1).random(n) < p).astype(int) for p in yes)
    assert audit.law_test(honest, [1 - yes[0], yes[0]], rng=rng(2)).passes()
    audit.assert_caught(twin, [1 - yes[0], yes[0]], rng=rng(2))


def test_ties_are_broken_by_the_operating_system_too():
    whole = noise.discrete_laplace(2, 5000, rng=noise.SYSTEM)  # a false alarm has probability 1e-6
    assert audit.law_test(whole, geometric_law(2), discrete=True, rng=noise.SYSTEM).passes()
    assert not audit.law_test(2 * whole, geometric_law(2), discrete=True, rng=noise.SYSTEM).passes()


def test_integers_beyond_the_floats_are_refused():
    with pytest.raises(ValueError, match=r"samples must lie within 2\^53 of zero"):
        audit.law_test(np.array([2.0**60, 1.0]), geometric_law(2), discrete=True, rng=rng())


# ------------------------------------------------------------------------------- noise of a release


@pytest.mark.parametrize(
    "value,dtype,shape",
    [
        (3, np.int64, (7,)),
        (2.5, float, (7,)),
        ([1, 2], np.int64, (7, 2)),
        (np.ones((2, 3)), float, (7, 6)),
        (2**70, np.int64, (7,)),
        ([2**62 + 1, -(2**63)], np.int64, (7, 2)),
        (np.uint8(250), np.int64, (7,)),
    ],
)
def test_the_noise_of_a_release_is_exact_for_whole_numbers(value, dtype, shape):
    """The release adds 10 as a Python number: nothing wraps and nothing is rounded."""

    def release(value, *, rng):
        return np.asarray(value).astype(object) + 10

    samples = audit.noise_of(release, value, 7, rng=None)
    assert samples.dtype == dtype and samples.shape == shape and (samples == 10).all()


def test_the_noise_of_a_release_is_drawn_anew_and_has_the_values_shape():
    samples = audit.noise_of(
        lambda value, rng: value + noise.laplace(2.0, 3, rng=rng), np.arange(3), 2000, rng=rng()
    )
    assert samples.shape == (2000, 3) and audit.law_test(samples, laplace_law(2.0)).passes()
    with pytest.raises(
        ValueError, match=r"release must return the shape \(3,\) of its value, got \(\)"
    ):
        audit.noise_of(lambda value, rng: value.sum(), np.arange(3), 5, rng=rng())
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        audit.noise_of(lambda value, rng: value, 1, 0, rng=rng())


def geometric_mechanism(scale, drawn_scale):
    def draw(value, *, rng):
        return np.asarray(value) + noise.discrete_laplace(
            drawn_scale, np.shape(value) or None, rng=rng
        )

    draw.law = lambda c: geometric_law(scale / c)
    draw.discrete = True
    return draw


@pytest.mark.parametrize("value", [5, [0, 3, 9]])
def test_a_mechanism_is_tested_against_its_own_law(value, capsys):
    found = audit.assert_mechanism(geometric_mechanism(4, 4), value, rng=rng(1), n=3000)
    k = np.size(value)
    expected = misses.would_miss(
        3000, geometric_law(4), k=k, discrete=True, weaker=lambda c: geometric_law(4 / c)
    )
    assert found.missed == expected and str(expected) in capsys.readouterr().out
    with pytest.raises(audit.AuditFailed):
        audit.assert_mechanism(geometric_mechanism(4, 2), value, rng=rng(1), n=3000)
    assert audit.assert_mechanism(geometric_mechanism(4, 4), 0, rng=rng(1)).samples == 20_000
    without = geometric_mechanism(4, 4)
    without.law = None
    with pytest.raises(
        ValueError, match="mechanism must have a law to be tested against, got None"
    ):
        audit.assert_mechanism(without, 5, rng=rng(1))


# ----------------------------------------------------------------------------------------- refusals


NORMAL = stats.norm.logpdf


@pytest.mark.parametrize(
    "call,message",
    [
        (
            lambda: audit.finite_epsilon([1], [0.5, 0.5]),
            "p and q must be two dicts or two sequences of one length, got [1] and [0.5, 0.5]",
        ),
        (
            lambda: audit.finite_epsilon({0: 1}, [1]),
            "p and q must be two dicts or two sequences of one length, got {0: 1} and [1]",
        ),
        (lambda: audit.finite_epsilon([math.nan, 1], [0, 1]), "p must hold probabilities, got nan"),
        (lambda: audit.finite_epsilon([0, 1], [-0.5, 1]), "q must hold probabilities, got -0.5"),
        (lambda: audit.finite_delta([20, 30], [25, 25], 1), "p must hold probabilities, got 20"),
        (lambda: audit.finite_delta([1], [1], -0.1), "epsilon must be at least 0, got -0.1"),
        (lambda: audit.finite_delta([1], [1], math.inf), "epsilon must be finite, got inf"),
        (
            lambda: audit.density_epsilon(NORMAL, NORMAL, [1, 1]),
            "points must hold at least two different numbers, all finite, got [1.0]",
        ),
        (
            lambda: audit.density_epsilon(NORMAL, NORMAL, [0, math.inf]),
            "points must hold at least two different numbers, all finite, got [0.0, inf]",
        ),
        (
            lambda: audit.density_epsilon(NORMAL, NORMAL, [0, 1], reach=0),
            "reach must be positive and finite, got 0",
        ),
        (
            lambda: audit.density_delta(NORMAL, NORMAL, -1, [0, 1]),
            "epsilon must be at least 0, got -1",
        ),
        (
            lambda: audit.density_delta(NORMAL, NORMAL, 1, []),
            "points must hold at least two different numbers, all finite, got []",
        ),
        (
            lambda: audit.law_test([], stats.norm.cdf),
            "samples must have shape (n,) or (n, k), n and k at least 1, got (0,)",
        ),
        (
            lambda: audit.law_test(1.0, stats.norm.cdf),
            "samples must have shape (n,) or (n, k), n and k at least 1, got ()",
        ),
        (
            lambda: audit.law_test(np.ones((2, 2, 2)), stats.norm.cdf),
            "samples must have shape (n,) or (n, k), n and k at least 1, got (2, 2, 2)",
        ),
        (
            lambda: audit.law_test([1, 2], geometric_law(1), discrete=True),
            "rng must be a np.random.Generator or dputils.noise.SYSTEM, got None",
        ),
        (
            lambda: audit.law_test([1.0, 2.0], lambda x: 2 * x),
            "cdf must give probabilities, got values from 2.0 to 4.0",
        ),
        (
            lambda: audit.law_test([1.0, 2.0], lambda x: x * math.nan),
            "cdf must give probabilities, got values from nan to nan",
        ),
        (lambda: audit.tail_test_size(0), "probability must be strictly between 0 and 1, got 0"),
        (lambda: audit.tail_test_size(0.1, 0), "k must be at least 1, got 0"),
        (
            lambda: audit.tail_test_size(0.1, alpha=1),
            "alpha must be strictly between 0 and 1, got 1",
        ),
        (lambda: audit.rate_bounds(5, 4), "hits must be at most n, got 5 of 4"),
        (lambda: audit.rate_bounds(-1, 4), "hits must be at least 0, got -1"),
        (lambda: audit.rate_bounds(0, 0), "n must be at least 1, got 0"),
        (lambda: audit.rate_bounds(0, 4, 1), "confidence must be strictly between 0 and 1, got 1"),
        (lambda: audit.assert_epsilon([1], [1], -1), "epsilon must be at least 0, got -1"),
        (lambda: audit.assert_epsilon([1], [1], 1, delta=1), "delta must be in [0, 1), got 1"),
        (
            lambda: audit.assert_epsilon(NORMAL, NORMAL, 1),
            "points must be given for log densities, got None",
        ),
        (
            lambda: audit.assert_law([1.0], NORMAL, alpha=0),
            "alpha must be strictly between 0 and 1, got 0",
        ),
        (
            lambda: audit.assert_caught([1.0], NORMAL, alpha=1),
            "alpha must be strictly between 0 and 1, got 1",
        ),
        (lambda: audit.law_test_size(0), "distance must be positive and finite, got 0"),
        (lambda: audit.law_test_size(1.5), "distance must be at most 1, got 1.5"),
        (lambda: audit.law_test_size(0.5, 0), "tests must be at least 1, got 0"),
        (
            lambda: audit.law_test_size(0.5, alpha=0),
            "alpha must be strictly between 0 and 1, got 0",
        ),
        (lambda: audit.law_test_size(0.5, beta=1), "beta must be strictly between 0 and 1, got 1"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message
