"""Shrinkage: formulas against brute force, estimates without bias, far counts, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dputils import geometric, noise, shrinkage, thresholds

SCALES = (0.2, 0.5, 2.0, 5.0, 40.0)
PI = shrinkage.power_prior(0.1)


def law(y, x, s):
    return np.exp(geometric.logpmf(y - x, s))


def around(x, s):
    return np.arange(x - math.ceil(45 * s) - 1, x + math.ceil(45 * s) + 2)


def test_power_prior():
    pi = shrinkage.power_prior(0.25, 4)
    assert pi[0] == 0.75 and np.isclose(pi.sum(), 1)
    assert np.allclose(pi[1:] / pi[1], [1, 2**-1.5, 3**-1.5, 1 / 8])
    assert shrinkage.power_prior(0, 3).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("s", [0.5, 2, 7])
def test_posterior_mean_is_bayes_rule_in_exact_numbers(s):
    ratio = Fraction(math.exp(-1 / s))
    prior = [Fraction(3, 4), 0, Fraction(1, 8), Fraction(1, 8)]
    for y in range(-5, 9):
        weights = [p * ratio ** abs(y - x) for x, p in enumerate(prior)]
        mean = sum(x * w for x, w in enumerate(weights)) / sum(weights)
        assert shrinkage.posterior_mean(y, [float(p) for p in prior], s) == pytest.approx(
            float(mean), rel=1e-12
        )


def test_posterior_mean_far_from_the_prior_and_at_small_scales():
    empty = np.append(1, np.zeros(250))
    assert shrinkage.posterior_mean([-(2**50), 380, 2**50], empty, 0.5).tolist() == [0, 0, 0]
    far = shrinkage.posterior_mean([250, 251, 10**6, 2**50], PI, 0.02)
    assert np.allclose(far, far[0]) and 0 < far[0] <= 250
    assert shrinkage.posterior_mean(100, [0.5, *[0] * 99, 0.5], 0.01) == 100


def test_posterior_mean_keeps_shapes_and_never_falls():
    y = np.arange(-20, 300)
    for s in SCALES:
        m = shrinkage.posterior_mean(y.reshape(4, 80), PI, s)
        assert m.shape == (4, 80) and np.all(np.diff(m.ravel()) > -1e-9)
    assert shrinkage.posterior_mean([], PI, 2).shape == (0,)
    assert np.allclose(shrinkage.posterior_mean(y, 7 * PI, 2), shrinkage.posterior_mean(y, PI, 2))


@pytest.mark.parametrize("s", SCALES)
def test_risk_of_the_counts_as_drawn_is_the_variance_and_of_a_threshold_its_error(s):
    assert np.isclose(shrinkage.risk(lambda y: y, PI, s), geometric.variance(s))
    _, mse = thresholds.errors(np.arange(len(PI)), 8, s)
    found = shrinkage.risk(lambda y: thresholds.hard(y, 8), PI, s)
    assert np.isclose(found, PI @ mse)
    assert np.isclose(shrinkage.risk(lambda y: y, PI / 2, s), geometric.variance(s) / 2)


@pytest.mark.parametrize("s", SCALES)
def test_risk_is_that_of_the_posterior_mean_and_the_distance_from_it(s):
    def best(y):
        return shrinkage.posterior_mean(y, PI, s)

    curve = shrinkage.best_curve(PI, s, shrinkage.even_knots(s))
    y = around(0, s)
    y = np.arange(y[0], y[-1] + len(PI))
    weight = sum(p * law(y, x, s) for x, p in enumerate(PI))
    distance = weight @ (curve(y) - best(y)) ** 2
    assert np.isclose(shrinkage.risk(curve, PI, s), shrinkage.risk(best, PI, s) + distance)
    assert np.isclose(weight.sum(), 1)


def test_even_knots_lie_at_least_1_apart():
    assert shrinkage.even_knots(2.5, -1, 2).tolist() == [-2.5, 0, 2.5, 5]
    assert shrinkage.even_knots(0.2, -1, 2).tolist() == [-1, 0, 1, 2]
    rising = shrinkage.best_curve(PI, 0.5, shrinkage.even_knots(0.5))
    assert np.all(np.diff(rising.values) > -1e-12)


def test_hats_add_up_to_1_and_stay_at_the_ends():
    knots = np.array([-1.5, 0, 0.5, 4])
    z = np.linspace(-9, 9, 200).reshape(2, 100)
    B = shrinkage.hats(z, knots)
    assert B.shape == (2, 100, 4) and np.allclose(B.sum(axis=-1), 1) and B.min() >= 0
    assert np.allclose(shrinkage.hats(knots, knots), np.eye(4))
    assert shrinkage.hats(-(10**9), knots).tolist() == [1, 0, 0, 0]
    assert shrinkage.hats(2**50, knots).tolist() == [0, 0, 0, 1]
    curve = shrinkage.Curve(knots, [2, -1, 3, 5])
    assert np.allclose(curve(z), B @ curve.values + shrinkage.beyond(z, knots))
    assert curve(104) == 105


def test_learn_finds_a_curve_of_its_own_kind():
    rng = np.random.default_rng(5)
    knots = shrinkage.even_knots(1.5)
    truth = shrinkage.Curve(knots, rng.normal(size=17))
    y = rng.uniform(-6, 40, 400)
    assert np.allclose(shrinkage.learn(truth(y), y, knots).values, truth.values)


def test_learn_keeps_near_to_max_knot_0_where_no_example_is():
    knots = shrinkage.even_knots(2)
    start = tuple(np.maximum(knots, 0).tolist())
    assert shrinkage.learn([], [], knots).values == pytest.approx(start)
    one = shrinkage.learn([24], [26], knots)
    assert one.values[:16] == pytest.approx(start[:15] + (24,))
    # whole numbers alone, with a knot between each two of them
    rng = np.random.default_rng(6)
    x = rng.choice(len(PI), 3000, p=PI)
    y = x + noise.discrete_laplace(Fraction(1, 2), 3000, rng=rng)
    curve = shrinkage.learn(x, y, np.arange(-2, 15) / 2)
    assert curve(3.5) > 1 and curve(2.5) > 0.5


def test_learn_from_few_examples_is_not_worse_than_a_threshold_by_much():
    rng = np.random.default_rng(7)
    x = rng.choice(len(PI), (40, 100), p=PI)
    y = x + noise.discrete_laplace(2, x.shape, rng=rng)
    risks = [
        shrinkage.risk(shrinkage.learn(*at, shrinkage.even_knots(2)), PI, 2)
        for at in zip(x, y, strict=True)
    ]
    assert np.median(risks) < 2.6 and np.median(risks) < geometric.variance(2) / 3


@pytest.mark.parametrize("s", SCALES)
def test_best_curve_has_the_least_risk_of_all_curves(s):
    knots = shrinkage.even_knots(s)
    best = shrinkage.best_curve(PI, s, knots)
    least = shrinkage.risk(best, PI, s)
    rng = np.random.default_rng(8)
    for _ in range(20):
        other = shrinkage.Curve(knots, np.array(best.values) + rng.normal(size=17) * 0.1)
        assert shrinkage.risk(other, PI, s) > least * (1 - 1e-12)


@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize("count", [0, 1, 3, 20, 250, 5000])
def test_right_side_has_no_bias(s, count):
    knots = shrinkage.even_knots(s)
    y = around(count, s)
    h = shrinkage.right_side(y, s, knots)
    wanted = (count - shrinkage.beyond(y, knots))[:, None] * shrinkage.hats(y, knots)
    chance = law(y, count, s)
    assert np.allclose(chance @ h, chance @ wanted, atol=1e-6 * (1 + s) * (1 + count / 100))


def test_right_side_does_not_move_beyond_its_table():
    for s in SCALES:
        knots = shrinkage.even_knots(s)
        far = shrinkage.right_side([10**5, 10**9, 2**50], s, knots)
        assert np.allclose(far, [0] * 16 + [knots[-1]], atol=1e-6)
        low = shrinkage.right_side([-(2**50), -(10**6)], s, knots)
        assert np.array_equal(low[0], low[1]) and np.all(np.isfinite(low))


def error_on(x, s, rng, **how):
    y = x + noise.discrete_laplace(Fraction(s), x.shape, rng=rng)
    knots = shrinkage.even_knots(s)
    curve = shrinkage.learn_from_release(y, s, knots, PI, **how)
    return np.mean((curve(y) - x) ** 2)


@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize("count", [1990, 2500, 3000, 10**6, 2**49])
def test_a_count_far_beyond_the_knots_does_not_spoil_the_curve(s, count):
    rng = np.random.default_rng(9)
    x = rng.choice(len(PI), 1820, p=PI)
    x[5] = count
    knots = shrinkage.even_knots(s)
    least = shrinkage.risk(shrinkage.best_curve(PI, s, knots), PI, s)
    runs = [error_on(x, s, rng) for _ in range(5)]
    own = geometric.variance(s) / len(x)  # what the one count adds
    few = geometric.variance(s) / 8 if s > 10 else 0  # knots beyond the prior, seen by few
    assert np.median(runs) < 1.4 * least + 8 * own + few
    x[:] = count
    assert error_on(x, s, rng) < 1.3 * geometric.variance(s)


def test_the_release_mends_a_wrong_prior_if_it_has_many_cells():
    rng = np.random.default_rng(10)
    x = np.full(20_000, 5)
    knots = shrinkage.even_knots(2)
    wrong = shrinkage.risk(shrinkage.best_curve(PI, 2, knots), (np.arange(251) == 5) * 1.0, 2)
    assert error_on(x, 2, rng) < 0.5 < wrong
    few = [error_on(x[:10], 2, rng) for _ in range(50)]
    assert np.mean(few) > 5  # as its text says: the prior outweighs ten cells
    without = [error_on(x[:1000], 2, rng, bins=0) for _ in range(5)]
    assert np.mean(without) < 2


def test_learning_is_free_of_state_and_order():
    rng = np.random.default_rng(11)
    y = rng.integers(-9, 60, (30, 40))
    knots = shrinkage.even_knots(2)
    before = y.copy(), knots.copy()
    a = shrinkage.learn_from_release(y, 2, knots, PI)
    b = shrinkage.learn_from_release(y.astype(float), 2.0, knots.tolist(), PI.tolist())
    c = shrinkage.learn_from_release(rng.permutation(y.ravel()), 2, knots, PI)
    assert a == b and np.allclose(a.values, c.values)
    assert np.array_equal(y, before[0]) and np.array_equal(knots, before[1])
    empty = shrinkage.learn_from_release([], 2, knots, PI, bins=0)
    assert empty.values == pytest.approx(np.maximum(knots, 0).tolist())


KNOTS = shrinkage.even_knots(2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: shrinkage.power_prior(1.1), "full must be"),
        (lambda: shrinkage.power_prior(0.1, 0), "largest must be"),
        (lambda: shrinkage.power_prior(0.1, 2.0), "largest must be"),
        (lambda: shrinkage.posterior_mean(0.5, PI, 2), "noisy must be whole"),
        (lambda: shrinkage.posterior_mean(np.nan, PI, 2), "noisy must be"),
        (lambda: shrinkage.posterior_mean(1, PI, 0), "scale must be"),
        (lambda: shrinkage.posterior_mean(1, PI, 1e4), "scale must be"),
        (lambda: shrinkage.posterior_mean(1, [0, 0], 2), "prior must be"),
        (lambda: shrinkage.posterior_mean(1, [1, -1], 2), "prior must be"),
        (lambda: shrinkage.posterior_mean(1, [], 2), "prior must be"),
        (lambda: shrinkage.posterior_mean(1, [[1.0]], 2), "prior must be"),
        (lambda: shrinkage.posterior_mean(1, [np.nan], 2), "prior must be"),
        (lambda: shrinkage.risk(3, PI, 2), "shown must be"),
        (lambda: shrinkage.risk(abs, PI, -1), "scale must be"),
        (lambda: shrinkage.even_knots(0), "scale must be"),
        (lambda: shrinkage.even_knots(2, 3, 3), "first must be below"),
        (lambda: shrinkage.even_knots(2, -2, 1000), "last must be"),
        (lambda: shrinkage.hats(np.nan, KNOTS), "noisy must be"),
        (lambda: shrinkage.hats(1, [0]), "knots must be"),
        (lambda: shrinkage.hats(1, [0, 0]), "knots must be"),
        (lambda: shrinkage.hats(1, [0, np.nan]), "knots must be"),
        (lambda: shrinkage.hats(1, [0, 1e6]), "knots must be"),
        (lambda: shrinkage.Curve([0, 1], [1]), "values must be as many"),
        (lambda: shrinkage.Curve([0, 1], [1, np.inf]), "values must be"),
        (lambda: shrinkage.Curve([0, 1], [0, 1])(np.inf), "noisy must be"),
        (lambda: shrinkage.learn([1, 2], [1], KNOTS), "noisy must be as many"),
        (lambda: shrinkage.learn([np.nan], [1], KNOTS), "counts must be"),
        (lambda: shrinkage.right_side([0.5], 2, KNOTS), "noisy must be whole"),
        (lambda: shrinkage.right_side([2**51], 2, KNOTS), "noisy must be"),
        (lambda: shrinkage.learn_from_release([1], 2, KNOTS, PI, bins=-1), "bins must be"),
        (lambda: shrinkage.learn_from_release([1.5], 2, KNOTS, PI), "noisy must be whole"),
        (lambda: shrinkage.best_curve(PI, 2, [1]), "knots must be"),
    ],
)
def test_refusals_name_the_argument(call, said):
    with pytest.raises(ValueError, match=said):
        call()
