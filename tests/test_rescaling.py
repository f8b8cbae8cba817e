"""Ranges from private quantiles, and the pipeline: laws, costs, what a record can do, refusals."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from dputils import audit, noise, preprocessing, quantiles, regression, rescaling
from dputils.accounting import Ledger
from dputils.preprocessing import Ranges
from dputils.rescaling import Rule

LIMITS = Ranges([(0, 10), (-500, 1500)], (0, 60))
RULE = Rule(LIMITS, bought=(1, 2))
RNG = np.random.default_rng(5)
TABLE = RNG.uniform((0, 0), (10, 100), (600, 2)), RNG.uniform(20, 40, 600)
RELATIONS = ("add-remove", "replace-one")


def pipeline(rule=RULE, neighbours="add-remove", epsilon=1, share=0.2, method="spectral"):
    return rescaling.mechanism(rule, neighbours, epsilon, 1e-6, share=share, method=method)


# ------------------------------------------------------------------------------------------- ranges


def test_ranges_by_hand():
    found = rescaling.ranges_of([[-0.5, -0.4], [0.1, -0.1]], RULE)  # the second are exchanged
    assert found.columns[0] == (0, 10)  # not bought
    assert np.allclose(found.columns[1], (-500 + 1000 * 0.35, -500 + 1000 * 0.75))
    assert np.allclose(found.response, (30 - 12, 30 + 12))


@pytest.mark.parametrize("ends", [(-1, -1), (1, 1), (0, 0), (-1, 1), (0.3, 0.3), (1, -1)])
@pytest.mark.parametrize(
    "limits", [(0, 1), (-1e12, 1e12), (1e11, 1.1e11), (1e-9, 2e-9), (0, 1e-90), (-1e-85, 1e-90)]
)
@pytest.mark.parametrize("stretch", [1, 4, 1000])
def test_any_ends_give_a_range_inside_the_limits(ends, limits, stretch):
    rule = Rule(Ranges([limits], limits), stretch=stretch)
    found = rescaling.ranges_of([ends, ends], rule)
    for low, high in (*found.columns, found.response):
        assert limits[0] <= low < high <= limits[1]


def test_the_narrowest_limits_that_are_taken_give_ranges():
    low = 1e12 * (1 - 2.0**-18 * 1.001)
    rule = Rule(Ranges([(low, 1e12)], (0, 1)), stretch=1)
    for end in (-1, 0, 1):
        rescaling.ranges_of([[end, end], [0, 0]], rule)


def test_the_released_ends_follow_the_exponential_mechanism():
    rule = Rule(LIMITS, bought=(2,), stretch=1)
    rho, n = Fraction(2), 4000
    column = preprocessing.into(TABLE, LIMITS)[1][:40]
    find = rescaling.ranges_mechanism(rule, "add-remove", rho)
    read = find.read((TABLE[0][:40], TABLE[1][:40]))
    drawn = np.array([find.draw(read, rng=RNG).response for _ in range(n)])
    steps = np.rint((drawn / 30 - 1) * 2**16).astype(int)
    points = np.arange(-(2**16), 2**16 + 1)
    epsilon = float(rescaling.end_epsilon(rule, rho))
    for level, released in zip((0.25, 0.75), steps.T):
        sorted_ = np.sort(np.rint(column * 2**16))
        below = np.searchsorted(sorted_, points, side="left") - level * 40
        above = level * 40 - np.searchsorted(sorted_, points, side="right")
        law = np.exp(-np.maximum(0, np.maximum(below, above)) * epsilon / 1.5)
        upto = np.append(0, np.cumsum(law / law.sum()))
        at = released + 2**16
        inside = RNG.uniform(size=n)
        scores = special.ndtri((1 - inside) * upto[at] + inside * upto[at + 1])
        assert audit.law_test(scores, special.ndtr).passes(1e-6)
        quarter = np.exp(np.log(law) / 4)  # the law of a quarter of the budget is another
        upto = np.append(0, np.cumsum(quarter / quarter.sum()))
        scores = special.ndtri((1 - inside) * upto[at] + inside * upto[at + 1])
        assert not audit.law_test(scores, special.ndtr).passes(1e-6)


# -------------------------------------------------------------------------------------------- costs


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.01, 30])
@pytest.mark.parametrize("share", [1e-6, 0.999])
@pytest.mark.parametrize("method", rescaling.METHODS)
def test_both_steps_fit_the_stated_rho_and_use_it(neighbours, epsilon, share, method):
    if epsilon == 0.01 and share == 0.999 and method == "AdaSSP":
        share = 0.9
    made = pipeline(RULE, neighbours, epsilon, share, method)
    rho, part = made.costs[0].rho, Fraction(str(share))
    end = rescaling.end_epsilon(RULE, part * rho)
    assert 4 * end**2 / 8 <= part * rho < 4 * end**2 / 8 * (1 + 1e-12)
    fit = rescaling.fit_mechanism(2, neighbours, (1 - part) * rho, method=method)
    mu = fit.costs[0].mu
    assert mu**2 / 2 <= (1 - part) * rho < mu**2 / 2 * (1 + 1e-6)
    assert made.costs[1].epsilon == Fraction(str(epsilon))


def test_the_cost_of_an_end_is_that_of_its_mechanism():
    for neighbours in RELATIONS:
        for one in rescaling.end_mechanisms(RULE, neighbours, 0.5):
            assert one.costs[0].rho <= Fraction(1, 8)
            level = Fraction(1, 4) if "0.25" in one.name else Fraction(3, 4)
            assert one.sensitivity == quantiles.of_rank(level, neighbours)


@pytest.mark.parametrize("method", rescaling.METHODS)
def test_the_pipeline_is_one_release_under_a_ledger(method):
    made = pipeline(method=method)
    ledger = Ledger(1, 1e-6, neighbours="add-remove", unit="row", account="zcdp")
    published = ledger.release("all", made, TABLE, rng=np.random.default_rng(1))
    assert ledger.remaining[0] == 0
    back = preprocessing.unstandardised(published.fit.coefficients, published.ranges)
    assert np.array_equal(back, published.coefficients)


# ------------------------------------------------------------------------------------------ the fit


def test_the_noise_of_the_fit_given_the_ranges_when_a_far_record_joined():
    far = np.array([[5.0, 1e300]]), np.array([np.inf])
    joined = np.vstack([TABLE[0], far[0]]), np.append(TABLE[1], far[1])
    made = pipeline()
    read, noises = made.read(joined), []
    for _ in range(400):
        one = made.draw(read, rng=RNG)
        old, new = (
            regression.sums(preprocessing.into(t, one.ranges), one.ranges.bounds)
            for t in (TABLE, far)
        )
        truth = regression.Sums(old.gram + new.gram, old.products + new.products)
        scales = one.fit.noise, one.fit.product_noise
        noises.append(regression.standardised(one.fit, truth, scales))
    assert audit.law_test(np.array(noises), special.ndtr).passes(1e-6)
    once = np.repeat(noises[:1], 400, axis=0)
    assert not audit.law_test(once, special.ndtr).passes(1e-6)
    assert not audit.law_test(np.array(noises) / 4, special.ndtr).passes(1e-6)


def test_releases_are_the_steps_one_after_another_with_random_numbers_of_their_own():
    made, (first, second) = pipeline(), (np.random.default_rng(7) for _ in range(2))
    rho = made.costs[0].rho
    fit = rescaling.fit_mechanism(2, "add-remove", Fraction(4, 5) * rho, method="spectral")
    price = rescaling.end_epsilon(RULE, rho / 5)
    quartiles = [
        quantiles.mechanism(level, -1, 1, rescaling.GRID, "add-remove", price)
        for level in RULE.levels
    ]
    Z, v = preprocessing.into(TABLE, LIMITS)
    for _ in range(5):
        one = made(TABLE, rng=first)
        ends = [[end(column, rng=second) for end in quartiles] for column in (Z[:, 2], v)]
        theta = fit(preprocessing.into(TABLE, one.ranges), rng=second)
        assert one.ranges == rescaling.ranges_of(ends, RULE)
        assert np.array_equal(one.fit.gram, theta.gram)
        assert np.array_equal(one.fit.products, theta.products)
        assert np.array_equal(one.fit.coefficients, theta.coefficients)


ODD = [np.nan, np.inf, -np.inf, 1e300, -1e300, None, "x", 10**400]


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_no_record_makes_a_release_raise(value, neighbours):
    X, y = (part[:20].astype(object) for part in TABLE)
    X[3, 1] = X[4, 0] = y[7] = value
    published = pipeline(neighbours=neighbours)((X, y), rng=np.random.default_rng(2))
    assert np.isfinite(published.coefficients).all()


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_no_record_makes_a_release_raise_on_the_narrowest_limits(neighbours):
    narrow = Rule(Ranges([(0, 1e-90), (-1e12, 1e12)], (-1e-90, 0)), stretch=1)
    made = pipeline(narrow, neighbours, epsilon=900)
    for X, y in ((np.zeros((9, 2)), np.zeros(9)), (np.full((9, 2), 1e300), np.full(9, -1e-90))):
        for _ in range(10):
            assert np.isfinite(made((X, y), rng=RNG).coefficients).all()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_records_are_answered(n):
    table = TABLE[0][:n], TABLE[1][:n]
    for rng in (np.random.default_rng(3), noise.SYSTEM):
        assert np.isfinite(pipeline()(table, rng=rng).coefficients).all()
    assert np.isfinite(pipeline()(([], []), rng=noise.SYSTEM).coefficients).all()


def test_lists_and_arrays_are_read_alike():
    made = pipeline()
    one, two = (
        made(table, rng=np.random.default_rng(4))
        for table in (TABLE, (TABLE[0].tolist(), TABLE[1].tolist()))
    )
    assert np.array_equal(one.coefficients, two.coefficients)


def test_a_large_budget_gives_least_squares_inside_the_ranges():
    X = RNG.uniform((2, 40), (8, 60), (3000, 2))
    y = 20 + X @ [0.5, 0.2]
    line = pipeline(epsilon=900, share=0.5)((X, y), rng=RNG).coefficients
    assert np.allclose(line, [20, 0.5, 0.2], atol=0.05)


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Rule("x"), "limits must be preprocessing.Ranges"),
        (lambda: Rule(Ranges([(1e12 - 3e6, 1e12)], (0, 1))), "limits must be wider"),
        (lambda: Rule(Ranges([(0, 1e-95)], (0, 1))), "limits must be wider"),
        (lambda: Rule(Ranges([(0, 1)], (0, 1e-95))), "limits must be wider"),
        (lambda: Rule(LIMITS, bought=()), "bought must name"),
        (lambda: Rule(LIMITS, bought=(3,)), "bought must name"),
        (lambda: Rule(LIMITS, bought=(-1,)), "bought must name"),
        (lambda: Rule(LIMITS, bought=(1, 1)), "bought must name"),
        (lambda: Rule(LIMITS, bought=(1.0,)), "bought must be"),
        (lambda: Rule(LIMITS, bought=1), "bought must name"),
        (lambda: Rule(LIMITS, levels=(0.75, 0.25)), "levels must be in increasing"),
        (lambda: Rule(LIMITS, levels=(0.75,)), "levels must be a pair"),
        (lambda: Rule(LIMITS, levels=(-0.1, 0.5)), "levels must be"),
        (lambda: Rule(LIMITS, stretch=0.5), "stretch must be"),
        (lambda: Rule(LIMITS, stretch=np.nan), "stretch must be"),
        (lambda: rescaling.ranges_mechanism("x", "add-remove", 1), "rule must be"),
        (lambda: rescaling.ranges_mechanism(RULE, "add-remove", 0), "rho must be"),
        (lambda: rescaling.ranges_mechanism(RULE, "bounded", 1), "neighbours must be"),
        (lambda: rescaling.fit_mechanism(2, "add-remove", 1, method="x"), "method must be"),
        (lambda: rescaling.fit_mechanism(0, "add-remove", 1), "columns must be"),
        (lambda: rescaling.fit_mechanism(2, "add-remove", 2e-12), "rho must leave more"),
        (lambda: pipeline(share=0), "share must be"),
        (lambda: pipeline(share=1), "share must be"),
        (lambda: pipeline(epsilon=-1), "epsilon must be"),
        (lambda: pipeline().read((TABLE[0][:, :1], TABLE[1])), "X must have shape"),
        (lambda: pipeline().read((TABLE[0], TABLE[1][:5])), "y must have one"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError, match=said):
        call()
