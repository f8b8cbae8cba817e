"""Gradient descent: rows of whole numbers, their sensitivity, the cost and the law of a run."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import comb
from scipy.stats import binom

from dputils import audit, discrete_gaussian, gradient, noise, sensitivity
from dputils.accounting import ZCDP, Ledger, Renyi, composition
from dputils.accounting.renyi import zcdp_epsilon

K = 1 << 20


def rng(label=0):
    return np.random.default_rng([80, label])


def rule(loss="logistic", d=2, steps=3, clip=0.5, rate=2.0, size=10.0):
    response = (0, 1) if loss == "logistic" else (-3, 5)
    return gradient.Rule(loss, [0] * d, [4] * d, response, steps, clip, rate, size)


def table(n=30, d=2, label=1):
    source = rng(label)
    return source.uniform(-1, 5, (n, d)), source.integers(0, 2, n)


# ------------------------------------------------------------------------------------------- rows


def test_records_are_scaled_by_public_bounds():
    Z, y = gradient.scaled(rule(), ([[0, 4], [1, math.inf], [math.nan, -9]], [0, 1, None]))
    assert Z.tolist() == [[1, -1, 1], [1, -0.5, 1], [1, 0, -1]]
    assert y.tolist() == [0, 1, 0.5]
    _, y = gradient.scaled(rule("squared"), (np.zeros((3, 2)), [-3, 1, 99]))
    assert y.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_rows_are_clipped_derivatives_of_the_loss(loss):
    own, theta = rule(loss, d=3), rng(2).normal(size=4)
    Z, y = gradient.scaled(own, table(50, 3))

    def losses(theta):
        m = Z @ theta
        return np.logaddexp(0, m) - y * m if loss == "logistic" else (m - y) ** 2 / 2

    h = 1e-6 * np.eye(4)
    g = np.stack([(losses(theta + e) - losses(theta - e)) / 2e-6 for e in h], axis=1)
    lengths = np.linalg.norm(g, axis=1, keepdims=True)
    assert (lengths > 0.5).any() and (lengths < 0.5).any()
    expected = g * np.minimum(1, 0.5 / lengths)
    rows = gradient.gradients(own, theta, Z, y)
    assert np.allclose(rows * 0.5 / K, expected, atol=2e-6)
    assert (np.abs(rows) <= np.abs(expected) * K / 0.5 + 2e-3 * K).all()


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=3, max_size=3),
    st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=6),
    st.integers(1, 24),
    st.sampled_from(["logistic", "squared"]),
    st.floats(1e-6, 1e6),
)
@settings(deadline=None, max_examples=200)
def test_no_row_is_longer_than_the_clip_norm(theta, records, bits, loss, clip):
    own = rule(loss, clip=clip)
    X, y = [list(r[:2]) for r in records], [r[2] for r in records]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = gradient.gradients(own, theta, *gradient.scaled(own, (X, y)), 1 << bits)
    assert rows.shape == (len(records), 3)
    assert all(sum(int(v) ** 2 for v in row) <= 4**bits for row in rows)


def test_a_row_that_rounding_made_too_long_loses_a_step():
    """Whole vectors whose square is barely above K^2: what is rounded towards zero hits them."""
    grid, found = 1 << 24, []
    for first in range(13_000_000, 13_001_000):
        second = math.isqrt(grid**2 - first**2)
        third = math.isqrt(grid**2 - first**2 - second**2) + 1
        if first**2 + second**2 + third**2 - grid**2 < 200:
            found.append((first, second, third))
    v = np.array(found, dtype=float)
    Z = np.asfortranarray(v / v[:, :1])
    rows = gradient.gradients(rule(clip=0.25), np.zeros(3), Z, np.ones(len(v)), grid)
    assert (np.abs(rows) == v - 1).all(axis=1).any()
    assert all(sum(int(c) ** 2 for c in row) <= grid**2 for row in rows)


def test_a_row_is_computed_from_its_own_record_alone():
    own, theta = rule(d=7), rng(3).normal(size=8) * 3
    X, y = table(1001, 7)
    rows = gradient.gradients(own, theta, *gradient.scaled(own, (X, y)), 1 << 24)
    for chosen in (slice(1, None), rng(4).permutation(1001), [500], slice(3, 10)):
        some = gradient.gradients(
            own, theta, *gradient.scaled(own, (X[chosen], y[chosen])), 1 << 24
        )
        assert np.array_equal(some, rows[chosen])


def test_a_long_gradient_along_an_axis_uses_the_whole_norm():
    own = rule(clip=0.25)
    rows = gradient.gradients(own, np.zeros(3), *gradient.scaled(own, ([[2, 2]], [1])), 1000)
    assert rows.tolist() == [[-1000, 0, 0]]


# ----------------------------------------------------------------------------- sensitivity and cost


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_sensitivity_by_brute_force(neighbours):
    own, grid = rule(clip=0.25), 100
    domain = [(x, y) for x in (0, 2, 4) for y in (0, 1)]

    def total(records):
        value = [[x, 4 - x] for x, _ in records], [y for _, y in records]
        return gradient.gradients(own, np.zeros(3), *gradient.scaled(own, value), grid).sum(axis=0)

    pairs = sensitivity.neighbour_pairs(domain, 2, neighbours)
    found, _ = sensitivity.brute_force(total, pairs, norm="l2")
    stated = gradient.sensitivity_of(grid, neighbours).size
    assert 0.99 * stated <= found <= stated


def test_the_cost_of_all_steps():
    own = rule(steps=7)
    for neighbours, units in (("add-remove", 1), ("replace-one", 2)):
        made = gradient.mechanism(own, Fraction(3, 2), neighbours)
        assert made.costs == (ZCDP(7 * units**2 * Fraction(2, 9)),)
        assert made.neighbours == neighbours and made.exact
        one = gradient.step(3, Fraction(3, 2), neighbours)
        assert one.costs == (ZCDP(units**2 * Fraction(2, 9)),)
        assert one.sensitivity.size == units * K
        assert made.sensitivity is None  # of a step, not of all numbers of a run


def test_the_cost_of_a_sampled_run_is_the_binomial_formula_at_whole_orders():
    (cost,) = gradient.mechanism(rule(steps=5), 2, "add-remove", sample=0.1).costs
    assert isinstance(cost, Renyi) and cost.orders == tuple(map(float, gradient.ORDERS))
    assert min(gradient.ORDERS) == 2
    for order in (2, 3, 17, 60):
        j = np.arange(order + 1)
        terms = comb(order, j) * 0.9 ** (order - j) * 0.1**j * np.exp(j * (j - 1) / 8)
        stated = dict(zip(cost.orders, cost.divergences, strict=True))[order]
        exact = 5 * math.log(terms.sum()) / (order - 1)
        assert exact <= stated * (1 + 1e-12) and stated <= exact * (1 + 1e-7)


@pytest.mark.parametrize("sigma,grid", [(0.5, 1), (0.8, 3), (2.0, 2)])
@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
def test_discrete_noise_on_a_sample_keeps_the_booked_curve_both_ways(sigma, grid, q):
    z = np.arange(-int(60 * sigma * grid) - 60, int(60 * sigma * grid) + 61)
    one = gradient.step(1, sigma, "add-remove", sample=q, grid=grid)
    stated = dict(zip(one.costs[0].orders, one.costs[0].divergences, strict=True))
    for v in range(1, grid + 1):
        p0, p1 = (discrete_gaussian.logpmf(z, sigma * grid, c) for c in (0, v))
        mixed = np.logaddexp(p0 + math.log1p(-q), p1 + math.log(q))
        for order in (2, 3, 5):
            one_way, other = (
                np.logaddexp.reduce(order * a + (1 - order) * b) / (order - 1)
                for a, b in ((mixed, p0), (p0, mixed))
            )
            assert other <= one_way * (1 + 1e-9) + 1e-12
            assert one_way <= stated[order] * (1 + 1e-9)
            if v == grid:
                assert one_way >= stated[order] * (1 - 1e-6)


def test_the_other_direction_is_never_larger_at_any_ratio():
    r, q = np.exp(np.linspace(-9, 9, 1801))[:, None], np.array([1e-4, 0.01, 0.1, 0.5, 0.9, 0.999])
    for order in (2, 3, 10, 64):

        def f(r, order=order):
            m = 1 - q + q * r
            return m**order - m ** (1 - order)

        assert (f(r) + r * f(1 / r) >= -1e-9 * (abs(f(r)) + abs(r * f(1 / r)))).all()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_noise_multiplier_of_full_batches(epsilon, neighbours):
    sigma = gradient.noise_multiplier(epsilon, 1e-6, 12, neighbours)
    (cost,) = gradient.mechanism(rule(steps=12), sigma, neighbours).costs
    assert epsilon * (1 - 1e-8) <= zcdp_epsilon(float(cost.rho), 1e-6) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("sample,epsilon", [(0.1, 1.0), (0.01, 4.0)])
def test_the_noise_multiplier_of_samples(sample, epsilon):
    sigma = gradient.noise_multiplier(epsilon, 1e-6, 12, "add-remove", sample=sample)
    spent = [
        composition.epsilon_at(
            gradient.mechanism(rule(steps=12), s, "add-remove", sample=sample).costs, 1e-6
        )[0]
        for s in (sigma, 0.998 * sigma)
    ]
    assert spent[0] <= epsilon < spent[1]


def test_the_least_noise_on_a_sample_can_be_used():
    sigma = gradient.noise_multiplier(300, 1e-6, 1, "add-remove", sample=0.1)
    assert 0.125 <= sigma < 0.1251
    for least in (sigma, 0.125, Fraction(1, 8)):
        made = gradient.step(2, least, "add-remove", sample=0.1)
        assert made([[1, 1]], rng=rng(20)).shape == (2,)


# --------------------------------------------------------------------------------------------- laws


def left_over(made, own, value, n, source, grid):
    """The noise of n runs: what was released minus the sums at the published iterates."""
    Z, y = gradient.scaled(own, value)
    found = []
    for _ in range(n):
        released = made(value, rng=source)
        path = gradient.iterates(own, released, grid=grid)
        sums = [gradient.gradients(own, theta, Z, y, grid).sum(axis=0) for theta in path[:-1]]
        found.append((released - np.array(sums)).ravel())
    return np.array(found)


@pytest.mark.parametrize("loss,grid", [("logistic", 4), ("squared", K)])
def test_a_run_is_its_sums_at_the_published_iterates_plus_noise(loss, grid):
    """False alarm 1e-6 each; power: half of the noise is far beyond the distance of 800 draws."""
    own = rule(loss)
    made = gradient.mechanism(own, 2, "replace-one", grid=grid)
    found = left_over(made, own, table(), 800, rng(5), grid)
    law = gradient.step(3, 2, "replace-one", grid=grid).law
    audit.assert_law(found, law(1), discrete=True, rng=rng(6))
    audit.assert_caught(found, law(4), discrete=True, rng=rng(6))


def test_a_sampled_step_tosses_a_coin_for_each_row():
    rows = np.tile([3, -4], (40, 1))
    one = gradient.step(2, Fraction(1, 5), "add-remove", sample=0.25, grid=5)
    drawn = np.array([one(rows, rng=rng(7)) for _ in range(1)])
    assert drawn.shape == (1, 2)
    source = rng(8)
    drawn = np.array([one(rows, rng=source) for _ in range(3000)])
    chances = binom.pmf(np.arange(41), 40, 0.25)

    def cdf(x, each):
        return sum(p * discrete_gaussian.cdf(x - each * j, 1.0) for j, p in enumerate(chances))

    for column, each in enumerate((3, -4)):
        audit.assert_law(
            drawn[:, column], lambda x, each=each: cdf(x, each), discrete=True, rng=rng(9)
        )


def test_each_row_has_a_coin_of_its_own():
    """Noise far below a row shows each coin; false alarm below 1e-7 by Hoeffding."""
    one = gradient.step(4, 0.125, "add-remove", sample=0.3, grid=1 << 10)
    source, rows = rng(21), np.eye(4, dtype=int) << 10
    drawn = np.array([one(rows, rng=source) for _ in range(4000)]) > 512
    together = drawn.T.astype(float) @ drawn / 4000
    assert np.allclose(together, np.where(np.eye(4), 0.3, 0.09), atol=0.05)


def test_iterates_divide_by_rate_and_size():
    own = rule(rate=2.0, clip=0.5, size=10)
    released = np.array([[K, 0, -2 * K], [0, K, 0]])
    path = gradient.iterates(own, released)
    assert np.allclose(path, [[0, 0, 0], [-0.1, 0, 0.2], [-0.1, -0.1, 0.2]])
    assert np.allclose(gradient.iterates(own, released, sample=0.1)[1], [-1, 0, 2])
    assert gradient.iterates(own, released[:0]).shape == (1, 3)


def test_with_little_noise_the_run_finds_the_least_loss():
    source = rng(10)
    X = source.uniform(0, 4, (500, 2))
    y = 1 + 0.5 * X[:, 0] - 0.75 * X[:, 1]
    own = rule("squared", steps=200, clip=100, rate=1.0, size=500)
    made = gradient.mechanism(own, 1e-3, "replace-one")
    theta = gradient.iterates(own, made((X, y), rng=source))[-1]
    Z, scaled = gradient.scaled(own, (X, y))
    assert np.allclose(Z @ theta, scaled, atol=2e-2)


def test_a_ledger_takes_a_run_and_the_system_draws_it():
    for sample, budget in ((1, {"account": "zcdp"}), (0.1, {"account": "renyi"})):
        made = gradient.mechanism(rule(), 4, "add-remove", sample=sample, unit="person")
        ledger = Ledger(
            5, 1e-6, neighbours="add-remove", unit="person", plan=[("run", made)], **budget
        )
        released = ledger.release("run", made, table(), rng=noise.SYSTEM)
        assert released.shape == (3, 3) and released.dtype == np.int64


# ------------------------------------------------------------------------------ odd private values


@pytest.mark.parametrize(
    "value",
    [
        ([], []),
        (np.empty((0, 2)), np.empty(0)),
        ([[math.nan, math.inf]], [-math.inf]),
        ([["a", None], [10**400, 1e308]], ["b", 2**70]),
        (np.ma.masked_all((2, 2)), [0, 1]),
    ],
)
@pytest.mark.parametrize("sample", [1, 0.5])
def test_private_values_never_raise(value, sample):
    made = gradient.mechanism(rule(), 2, "add-remove", sample=sample)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made(value, rng=rng(11)).shape == (3, 3)


def test_a_step_counts_rows_that_are_too_long_as_zeros():
    one = gradient.step(2, Fraction(1, 500), "add-remove", grid=5)
    rows = [[3, 4], [4, 4], [-(2**63), 0], [2**63 - 1, 1], [0, -5], [6, 0]]
    assert one(np.array(rows), rng=rng(12)).tolist() == [3, -1]
    assert one([], rng=rng(12)).tolist() == [0, 0]


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("argument", "field", "wrong"),
    [
        ("loss", "loss", "hinge"),
        ("lower", "lower", []),
        ("lower", "lower", [math.nan, 0]),
        ("upper", "upper", [0, 4]),
        ("upper", "upper", [4]),
        ("response", "response", 3),
        ("upper", "response", (1, 0)),
        ("steps", "steps", 0),
        ("steps", "steps", 2.0),
        ("clip", "clip", 0),
        ("rate", "rate", -1),
        ("size", "size", 0.5),
    ],
)
def test_a_rule_refuses(argument, field, wrong):
    fields = dict(
        loss="logistic",
        lower=[0, 0],
        upper=[4, 4],
        response=(0, 1),
        steps=3,
        clip=1,
        rate=1,
        size=9,
    )
    with pytest.raises(ValueError, match=argument):
        gradient.Rule(**{**fields, field: wrong})


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("rule", lambda: gradient.mechanism(3, 1, "add-remove")),
        ("sigma", lambda: gradient.mechanism(rule(), 0, "add-remove")),
        ("neighbours", lambda: gradient.mechanism(rule(), 1, "bounded")),
        ("sample", lambda: gradient.mechanism(rule(), 1, "replace-one", sample=0.5)),
        ("sample", lambda: gradient.mechanism(rule(), 1, "add-remove", sample=0)),
        ("sample", lambda: gradient.mechanism(rule(), 1, "add-remove", sample=1.5)),
        ("grid", lambda: gradient.mechanism(rule(), 1, "add-remove", grid=0)),
        ("grid", lambda: gradient.step(2, 1, "add-remove", grid=1 << 25)),
        ("columns", lambda: gradient.step(0, 1, "add-remove")),
        ("sigma", lambda: gradient.step(1, 0.12, "add-remove", sample=0.5)),
        ("theta", lambda: gradient.gradients(rule(), [0.0], np.ones((4, 3)), np.ones(4))),
        ("theta", lambda: gradient.gradients(rule(), [0, math.nan, 0], np.ones((4, 3)), [0] * 4)),
        ("Z", lambda: gradient.gradients(rule(), [0, 0, 0], np.ones((4, 2)), np.ones(4))),
        ("value", lambda: gradient.mechanism(rule(), 1, "add-remove").read(3)),
        ("X", lambda: gradient.scaled(rule(), ([[1]], [1]))),
        ("X", lambda: gradient.scaled(rule(), (np.array([["a", "b"]]), [1]))),
        ("y", lambda: gradient.scaled(rule(), ([[1, 2]], [1, 1]))),
        ("value", lambda: gradient.step(2, 1, "add-remove").read([[1, 2, 3]])),
        ("released", lambda: gradient.iterates(rule(), np.zeros((2, 3)))),
        ("released", lambda: gradient.iterates(rule(), np.zeros((2, 2), int))),
        ("epsilon", lambda: gradient.noise_multiplier(0, 1e-6, 3, "add-remove")),
        ("delta", lambda: gradient.noise_multiplier(1, 0, 3, "add-remove")),
        ("steps", lambda: gradient.noise_multiplier(1, 1e-6, 0, "add-remove")),
        ("neighbours", lambda: gradient.noise_multiplier(1, 1e-6, 3, "x")),
        ("rng", lambda: gradient.mechanism(rule(), 1, "add-remove")(table(), rng=1)),
    ],
)
def test_public_arguments_are_refused(argument, call):
    with pytest.raises(ValueError, match=argument):
        call()


def test_the_noise_of_the_end_follows_the_first_order_covariance():
    """The Error section of `mechanism`: S_(t + 1) = A S_t A' + (eta sigma C/size)^2 I."""
    values = np.random.default_rng(5)
    X = values.uniform(-1, 1, (300, 2))
    rule = gradient.Rule("logistic", [-1, -1], [1, 1], (0, 1), 5, 0.5, 2.0, 300)
    table = X, (X[:, 0] > values.uniform(-1, 1, 300)).astype(float)
    records = gradient.scaled(rule, table)

    def slope(theta):
        return gradient.gradients(rule, theta, *records).sum(axis=0) * 0.5 / 2**20 / 300

    theta, covariance = np.zeros(3), np.zeros((3, 3))
    for _ in range(rule.steps):
        columns = [(slope(theta + h) - slope(theta)) / 1e-3 for h in 1e-3 * np.eye(3)]
        carried = np.eye(3) - 2.0 * np.array(columns).T
        covariance = carried @ covariance @ carried.T + (2.0 * 0.5 / 300) ** 2 * np.eye(3)
        theta = theta - 2.0 * slope(theta)
    run, rng = gradient.mechanism(rule, 2, "add-remove"), np.random.default_rng(6)
    ends = [gradient.iterates(rule, run(table, rng=rng))[-1] for _ in range(400)]
    squares = ((np.array(ends) - theta) ** 2).sum(axis=1) / (4 * np.trace(covariance))
    # Six standard errors of the mean: a false alarm is rarer than one in 10^8.
    assert abs(squares.mean() - 1) < 6 * squares.std() / 20
    without_pull = 5 * 3 * (2.0 * 0.5 / 300) ** 2
    assert np.trace(covariance) < 0.9 * without_pull
