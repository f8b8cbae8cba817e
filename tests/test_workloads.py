"""Workloads: what a batch does against its matrix, sensitivities against all neighbours, the error
formula against the weights of the noise, the best strategy against its limit, laws and draws.
"""

import math
import warnings
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import accounting, audit, geometric, histograms, noise, sensitivity, workloads
from tests.examples import HOSTILE

RELATIONS = ("add-remove", "replace-one")
SHAPE = (2, 3, 4)
SETS = [of for k in range(4) for of in combinations(range(3), k)]


def rng(seed=0):
    return np.random.default_rng(seed)


def random_matrix(seed, rows=5, cells=4):
    return rng(seed).integers(-4, 5, (rows, cells))


BATCHES = {
    "matrix": lambda: workloads.of_matrix(random_matrix(1)),
    "the last two far apart": lambda: workloads.of_matrix([[0, 1, 5, -5]]),
    "floats": lambda: workloads.of_matrix(rng(2).standard_normal((5, 4))),
    "prefixes": lambda: workloads.prefixes(5),
    "ranges": lambda: workloads.ranges(6),
    "one cell": lambda: workloads.ranges(1),
    "toeplitz": lambda: workloads.toeplitz([3, 1, -2, 0, 5]),
    "square root": lambda: workloads.toeplitz(workloads.square_root(6)),
    "product": lambda: workloads.product(
        workloads.prefixes(3), workloads.of_matrix(random_matrix(3, 2, 3)), workloads.ranges(2)
    ),
    "stacked": lambda: workloads.stacked(
        workloads.of_matrix(-random_matrix(4, 2, 6)), workloads.ranges(6)
    ),
    "marginals": lambda: workloads.marginals(SHAPE, SETS),
    "one table": lambda: workloads.marginals(SHAPE, [(0, 2)]),
    "residuals": lambda: workloads.residuals(SHAPE, {of: 1 + len(of) for of in SETS}),
    "few residuals": lambda: workloads.residuals(SHAPE, {(1,): 3, (0, 2): 7}),
}


@pytest.fixture(params=BATCHES, ids=str)
def batch(request):
    return BATCHES[request.param]()


# ----------------------------------------------------------------------------- what a batch does


def test_a_batch_does_what_its_matrix_does(batch):
    weights = batch.matrix()
    assert weights.shape == (batch.rows, batch.cells)
    assert (weights.dtype == np.int64) == batch.whole
    x = rng(5).integers(-9, 9, (2, 3, batch.cells))
    np.testing.assert_allclose(batch.dot(x), x @ weights.T, atol=1e-12)
    if batch.whole:
        assert batch.dot(x).dtype == np.int64
    np.testing.assert_allclose(batch.gram(), weights.T @ weights, atol=1e-9)
    for power in (1, 2):
        np.testing.assert_allclose(batch.columns(power), (np.abs(weights) ** power).sum(axis=0))


def test_the_fit_is_least_squares(batch):
    y = rng(6).standard_normal((3, batch.rows))
    np.testing.assert_allclose(
        workloads.estimate(batch, y), y @ np.linalg.pinv(batch.matrix()).T, atol=1e-9
    )


@pytest.mark.parametrize("shape", [(10, 10, 10), (2,) * 10, (4,) * 5])
def test_a_strategy_of_low_rank(shape):
    one_way = workloads.marginals(shape, [(i,) for i in range(len(shape))])
    x = rng(11).integers(0, 100, one_way.cells)
    fitted = workloads.estimate(one_way, one_way.dot(x))
    np.testing.assert_allclose(one_way.dot(fitted), one_way.dot(x), rtol=1e-9)
    assert (fitted**2).sum() <= (x**2).sum()  # the smallest cells that fit
    rank = 1 + sum(m - 1 for m in shape)  # W W+ is a projection
    assert workloads.variance(one_way, one_way) == pytest.approx(rank, rel=1e-9)


def test_coefficients_are_copied():
    c = np.array([2, 1, 1])
    made = workloads.toeplitz(c)
    c[:] = 9
    np.testing.assert_allclose(workloads.estimate(made, made.dot([1, 2, 3])), [1, 2, 3])


def test_the_rows_of_ranges_and_tables():
    assert workloads.ranges(3).matrix().tolist() == [
        [1, 0, 0],
        [1, 1, 0],
        [1, 1, 1],
        [0, 1, 0],
        [0, 1, 1],
        [0, 0, 1],
    ]
    assert workloads.marginals((2, 2), [(), (1,)]).matrix().tolist() == [
        [1, 1, 1, 1],
        [1, 0, 1, 0],
        [0, 1, 0, 1],
    ]
    assert workloads.residuals((2, 2), {(0,): 5}).matrix().tolist() == [
        [5, 5, -5, -5],
        [-5, -5, 5, 5],
    ]


def test_tables_against_sums_over_axes():
    x = rng(7).integers(0, 50, SHAPE)
    answers = workloads.marginals(SHAPE, SETS).dot(x.ravel())
    want = [x.sum(axis=tuple(i for i in range(3) if i not in of)).ravel() for of in SETS]
    np.testing.assert_array_equal(answers, np.concatenate(want))


def test_residuals_of_different_sets_are_orthogonal():
    parts = [workloads.residuals(SHAPE, {of: 1}).matrix() for of in SETS]
    for i, j in combinations(range(len(SETS)), 2):
        assert not (parts[i] @ parts[j].T).any()


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_square_root_is_one(n):
    c = workloads.square_root(n)
    np.testing.assert_allclose(c, [math.comb(2 * k, k) / 4**k for k in range(n)], rtol=1e-13)
    root = workloads.toeplitz(c).matrix()
    np.testing.assert_allclose(root @ root, workloads.prefixes(n).matrix(), atol=1e-12)


def test_a_million_cells_without_a_matrix():
    big = workloads.marginals([100, 100, 100], [(0, 1), (2,), ()])
    x = rng(8).integers(0, 5, 1_000_000)
    np.testing.assert_array_equal(big.dot(x)[-1], x.sum())
    assert set(big.columns(1)) == {3}
    deep = workloads.residuals([100, 100, 100], {(): 1, (0,): 2, (0, 1, 2): 1})
    assert workloads.estimate(deep, deep.dot(x)).shape == x.shape
    long = workloads.ranges(2000)
    assert long.dot(np.ones(2000, dtype=np.int64)).max() == 2000
    for name in ("matrix", "gram"):
        with pytest.raises(ValueError, match="^queries must "):
            getattr(big, name)()


# --------------------------------------------------------------------------------- sensitivities


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_sensitivities_against_all_neighbours(batch, relation, norm):
    if not batch.whole:
        with pytest.raises(ValueError, match="^strategy must be Queries of whole weights"):
            workloads.sensitivity_of(batch, relation, norm)
        return
    if batch.cells == 1 and relation == "replace-one":
        with pytest.raises(ValueError, match="^strategy must have an answer"):
            workloads.sensitivity_of(batch, relation, norm)
        return
    pairs = sensitivity.neighbour_pairs(range(batch.cells), 1, relation)

    def query(table):
        return batch.dot(np.bincount(np.array(table, dtype=int), minlength=batch.cells))

    most, _ = sensitivity.brute_force(query, pairs, norm)
    found = workloads.sensitivity_of(batch, relation, norm, unit="person")
    assert found.size == pytest.approx(most, rel=1e-14) and found.size >= most * (1 - 1e-15)
    assert (found.norm, found.neighbours, found.unit) == (norm, relation, "person")


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivities_of_the_heaviest_columns(relation):
    most = 2**15 - 1
    signs = workloads.of_matrix([[most, -most, most]])
    heavy = workloads.product(workloads.of_matrix([[most]]), signs)
    tall = workloads.of_matrix(np.outer(np.full(2**20, 2**20), [1, -1]))
    times = 2 if relation == "replace-one" else 1
    for strategy, l1, l2 in ((heavy, most**2, most**2), (tall, 2**40, 2**30)):
        for norm, want in (("l1", l1), ("l2", l2)):
            assert workloads.sensitivity_of(strategy, relation, norm).size == times * want


@given(st.integers(1, 2**62))
def test_roots_are_never_too_small(square):
    root = workloads._root(square)
    assert Fraction(repr(root)) ** 2 >= square and root <= math.sqrt(square) * (1 + 1e-15)


# ------------------------------------------------------------------------------------ mechanisms


def test_a_mechanism_answers_the_strategy():
    strategy = workloads.of_matrix(random_matrix(9))
    moved = workloads.sensitivity_of(strategy, "add-remove").size
    made = workloads.mechanism(strategy, "add-remove", 0.5, unit="person")
    assert made.exact and made.discrete and made.unit == "person"
    assert made.costs == (accounting.Pure(0.5),)
    assert made.sensitivity.size == moved == np.abs(strategy.matrix()).sum(axis=0).max()
    at = np.arange(-9, 10)
    np.testing.assert_allclose(made.law(1)(at), geometric.cdf(at, moved / 0.5))
    assert made([5, 0, 0, 2], rng=noise.SYSTEM).shape == (5,)
    by_rho = workloads.mechanism(strategy, "replace-one", rho=0.1)
    assert by_rho.costs == (accounting.ZCDP(0.1),)
    assert by_rho.sensitivity == workloads.sensitivity_of(strategy, "replace-one", "l2")
    by_epsilon = workloads.mechanism(strategy, "replace-one", 1)
    assert by_epsilon.sensitivity == workloads.sensitivity_of(strategy, "replace-one")
    assert by_rho([5, 0, 0, 2], rng=noise.SYSTEM).dtype == np.int64


@pytest.mark.parametrize("options", [{"epsilon": 1}, {"rho": 0.5}])
def test_the_noise_of_a_mechanism_follows_its_law(options):
    strategy = workloads.of_matrix([[3, 0, 1], [0, 2, 1]])
    made, source = workloads.mechanism(strategy, "add-remove", **options), rng(10)
    x = np.array([0, 7, 1000])
    drawn = np.array([made(x, rng=source) for _ in range(20_000)]) - strategy.dot(x)
    test = audit.law_test(drawn, made.law(1), discrete=True, rng=source)  # false alarm 1e-6
    assert test.p_value > audit.ALPHA
    half = audit.law_test(drawn, made.law(4), discrete=True, rng=source)
    assert half.p_value < audit.ALPHA


@given(st.integers(0, 2**32 - 1))
def test_the_exact_epsilon_of_small_strategies(seed):
    weights = rng(seed).integers(-3, 4, (4, 3))
    if not weights.any():
        return
    made = workloads.mechanism(workloads.of_matrix(weights), "add-remove", 0.7)
    scale = made.sensitivity.size / 0.7
    z = np.arange(-12, 13)
    worst = []
    for column in weights.T:  # the largest log-ratio, answer by answer
        logs = [geometric.logpmf(z, scale) - geometric.logpmf(z, scale, a) for a in column]
        worst.append(sum(np.max(np.abs(ratio)) for ratio in logs))
    assert max(worst) == pytest.approx(0.7)


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_hostile_count_is_answered(value):
    made = workloads.mechanism(workloads.ranges(3), "add-remove", 1)
    counts = np.array([1, None, 2], dtype=object)
    counts[1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made(counts, rng=rng()).shape == (6,)


def test_counts_wrap_around_exactly():
    strategy = workloads.product(workloads.prefixes(2), workloads.of_matrix([[7, -3]]))
    x = np.array([2**62, -(2**63), 5, 2**63 - 1])
    made = workloads.mechanism(strategy, "add-remove", 1)
    want = [int(row @ x.astype(object)) for row in strategy.matrix().astype(object)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = made.read(x)
    assert [(int(g) - w) % 2**64 for g, w in zip(got, want, strict=True)] == [0, 0]


def refused(function, *arguments, named, **options):
    with pytest.raises(ValueError, match=f"^{named} must "):
        function(*arguments, **options)


def test_refusals():
    one = workloads.of_matrix([[1, 2]])
    for weights in ([], [1, 2], [[]], np.zeros((2, 2, 2)), "a"):
        refused(workloads.of_matrix, weights, named="weights")
    for weights in ([[2**21]], [[math.nan]], [[math.inf]], np.array([["a"]]), [[1j]]):
        refused(workloads.of_matrix, weights, named="weights")
    for n in (0, 2.5, True, 2**25):
        refused(workloads.prefixes, n, named="n")
        refused(workloads.ranges, n, named="n")
        if not isinstance(n, int) or n < 1 or n is True:
            refused(workloads.square_root, n, named="n")
    for c in ([], 3, [0, 1], np.ones(5000), [[1]]):
        refused(workloads.toeplitz, c, named="coefficients")
    refused(workloads.stacked, one, workloads.prefixes(3), named="parts")
    refused(workloads.stacked, named="parts")
    refused(workloads.product, named="factors")
    heavy = workloads.of_matrix([[2**20]])
    refused(workloads.product, heavy, heavy, heavy, heavy, named="factors")
    light = workloads.of_matrix([[2**15 - 1]])
    nearly = workloads.product(light, light)
    refused(workloads.product, nearly, light, named="factors")
    refused(workloads.stacked, nearly, nearly, named="parts")
    refused(workloads.of_matrix, np.full((2**20 + 1, 1), 2**20), named="weights")
    many = workloads.ranges(4096)
    refused(workloads.product, many, many, named="queries")
    refused(workloads.stacked, many, many, many, named="queries")
    for kept in ([], [(2,)], [(1, 0)], [(0, 0)], [(-1,)], [(0.5,)]):
        refused(workloads.marginals, (2, 3), kept, named="kept")
    refused(workloads.marginals, (2, 0), [()], named="shape")
    refused(workloads.marginals, (2**13, 2**13), [()], named="n")
    for weight in (0, -1, 1.5, 2**21):
        refused(workloads.residuals, (2, 3), {(0,): weight}, named="weights")
    for strategy in ([[1]], np.eye(2), workloads.of_matrix(np.eye(2))):
        refused(workloads.mechanism, strategy, "add-remove", 1, named="strategy")
    refused(workloads.mechanism, workloads.of_matrix([[0, 0]]), "add-remove", 1, named="strategy")
    refused(workloads.mechanism, one, "other", 1, named="neighbours")
    refused(workloads.mechanism, workloads.prefixes(1100), "replace-one", 1, named="strategy")
    refused(workloads.sensitivity_of, one, "add-remove", "max", named="norm")
    for options in ({}, {"epsilon": 1, "rho": 1}):
        with pytest.raises(ValueError, match="^epsilon or rho must be given"):
            workloads.mechanism(one, "add-remove", **options)
    refused(workloads.mechanism, one, "add-remove", -1, named="epsilon")
    refused(workloads.mechanism, one, "add-remove", rho=0, named="rho")
    made = workloads.mechanism(one, "add-remove", 1)
    for x in ([1, 2, 3], 5, [[1, 2]]):
        refused(made, x, rng=rng(), named="x")
    refused(workloads.estimate, one, [1.0, 2.0], named="y")
    refused(workloads.estimate, one, 1.0, named="y")
    refused(workloads.variance, workloads.ranges(2), one, named="strategy")
    refused(workloads.variance, workloads.ranges(3), one, named="strategy")
    refused(workloads.best_gram, one, named="workload")
    for tolerance in (0, 2, math.nan):
        refused(workloads.best_gram, workloads.ranges(2), tolerance, named="tolerance")


# ------------------------------------------------------------------------------------------ error


@pytest.mark.parametrize("workload", ["prefixes", "ranges"])
@pytest.mark.parametrize("branching", [2, 3, 20])
def test_the_variance_is_that_of_the_answers(workload, branching):
    n = 20
    tree = [histograms.node_counts(row, branching) for row in np.eye(n, dtype=int)]
    w, a = getattr(workloads, workload)(n), workloads.of_matrix(np.array(tree).T)
    weights = w.dot(workloads.estimate(a, np.eye(a.rows)))  # what each noise does to each answer
    assert workloads.variance(w, a) == pytest.approx((weights**2).sum(), rel=1e-10)
    np.testing.assert_allclose(
        workloads.estimate(a, np.eye(a.rows)),
        histograms.consistent(np.eye(a.rows), n, branching),
        atol=1e-12,
    )


def test_some_answers_of_a_strategy_that_leaves_cells_open():
    tables = workloads.marginals(SHAPE, [(0,), (1,)])
    total = workloads.marginals(SHAPE, [()])
    weights = np.linalg.pinv(tables.matrix())
    want = ((total.matrix() @ weights) ** 2).sum()
    assert workloads.variance(total, tables) == pytest.approx(want, rel=1e-9)
    refused(workloads.variance, tables, total, named="strategy")


@pytest.mark.parametrize("weight", [1, 2000, 2**18])
def test_an_answer_that_is_left_open_beside_a_heavy_one(weight):
    heavy = workloads.of_matrix([[weight, 0], [0, 1]])
    refused(workloads.variance, heavy, workloads.of_matrix([[1, 0]]), named="strategy")
    both = workloads.of_matrix([[weight, weight], [1, -1]])
    refused(workloads.variance, both, workloads.of_matrix([[1, 1]]), named="strategy")
    for strategy in (heavy, both):
        assert workloads.variance(strategy, strategy) == pytest.approx(2)


def test_a_table_whose_best_strategy_leaves_cells_open():
    sizes = {(): 1, (0,): 4, (1,): 3, (0, 1): 12}
    weights = {of: round(1e5 * math.sqrt(2 / size)) for of, size in sizes.items()}
    asked = workloads.residuals((4, 3, 4), weights)
    tables = workloads.marginals((4, 3, 4), [(0, 1)])
    each = workloads.variance(tables, asked) * int(asked.columns(2)[0])
    assert each == pytest.approx(12, rel=1e-6)  # as from the 12 counts themselves


@pytest.mark.parametrize("n", [1, 2, 5, 32])
@pytest.mark.parametrize("workload", ["prefixes", "ranges"])
def test_the_best_strategy_attains_its_limit(workload, n):
    w = getattr(workloads, workload)(n)
    gram, limit = workloads.best_gram(w, 1e-6)
    assert gram.diagonal().max() <= 1 + 1e-12
    attained = np.trace(w.gram() @ np.linalg.inv(gram))
    assert limit * (1 - 1e-9) <= attained <= limit * (1 + 2e-6)
    a = workloads.of_matrix(np.linalg.cholesky(gram).T)
    assert workloads.variance(w, a) == pytest.approx(attained)
    singular = np.linalg.svd(w.matrix(), compute_uv=False).sum() ** 2 / n
    assert singular <= limit * (1 + 1e-9)


@given(st.integers(0, 2**32 - 1))
def test_no_strategy_is_below_the_limit(seed):
    draw = rng(seed)
    w = workloads.of_matrix(draw.integers(-3, 4, (9, 4)))
    a = draw.standard_normal((6, 4))
    if np.linalg.matrix_rank(w.matrix()) < 4:
        return
    gram, limit = workloads.best_gram(w)
    a /= np.sqrt((a**2).sum(axis=0)).max()
    assert workloads.variance(w, workloads.of_matrix(a)) >= limit * (1 - 1e-9)
    assert np.trace(w.gram() @ np.linalg.inv(gram)) <= limit * 1.0002


@pytest.mark.parametrize("seed", range(40))
def test_weights_of_very_different_sizes(seed):
    """A strategy whose variance is near the limit, or a refusal."""
    draw = rng(seed)
    n, size = int(draw.integers(2, 6)), 10 ** int(draw.integers(1, 6))
    heavy = size * draw.integers(0, 4, (int(draw.integers(1, 3)), n))
    w = workloads.of_matrix(np.vstack([heavy, np.eye(n, dtype=int)]))
    try:
        gram, limit = workloads.best_gram(w)
    except ValueError as error:
        assert str(error).startswith("workload must ") and size >= 1000
        return
    a = workloads.of_matrix(np.linalg.cholesky(gram).T)
    assert limit * (1 - 1e-6) <= workloads.variance(w, a) <= limit * (1 + 1e-3)


def test_residuals_attain_the_bound_by_singular_values_for_tables():
    kept = [of for of in SETS if len(of) <= 2]
    w = workloads.marginals(SHAPE, kept)
    n = math.prod(SHAPE)
    singular = np.linalg.svd(w.matrix(), compute_uv=False)
    bound = singular.sum() ** 2 / n
    strength = {
        of: math.sqrt(
            sum(
                math.prod(SHAPE[i] for i in range(3) if i not in k)
                for k in kept
                if set(of) <= set(k)
            )
        )
        for of in kept
    }  # of the strategy's Gram matrix: the root of the workload's
    size = {of: math.prod(SHAPE[i] for i in of) for of in kept}
    weights = {of: round(1e5 * math.sqrt(strength[of] / size[of])) for of in kept}
    a = workloads.residuals(SHAPE, weights)
    squares = a.columns(2)
    assert len(set(squares)) == 1
    assert workloads.variance(w, a) * int(squares[0]) == pytest.approx(bound, rel=1e-6)
