"""The recorded comparison of regressions: whole, its simulated methods, a sample computed again."""

import csv
import functools
import json
import math
import os

import numpy as np
import pytest
from scipy import stats

from dputils import gaussian, regression
from dputils.accounting import curves
from dputils.book import data
from tools import regressions_compared as compared

with (compared.FOLDER / "regressions_compared.csv").open(encoding="utf-8") as file:
    RECORDED = list(csv.DictReader(file))
BESIDE = json.loads((compared.FOLDER / "regressions_compared.json").read_text(encoding="utf-8"))
KEYS = ("data", "prepared", "epsilon", "method")
TAILS = ("SSP", "SSP, Wang's code", "ridge", "boosted, 3 rounds", "boosted, 100 rounds")


def fold(rows=400, d=3, epsilons=(0.5, 2.0), draws=5, seed=0):
    """A small fold of made rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.clip(X @ np.linspace(-0.5, 0.5, d) + 0.1 * rng.standard_normal(rows), -1, 1)
    gram = X.T @ X
    return compared.Fold(
        X,
        y,
        gram,
        X.T @ y,
        float(np.linalg.eigvalsh(gram)[0]),
        np.array(epsilons)[:, None],
        1e-6,
        rng.standard_normal((draws, d, d)),
        rng.standard_normal((draws, d)),
        rng.standard_normal(draws),
        rng,
    )


def test_the_recorded_table_is_whole():
    keys = [tuple(row[key] for key in KEYS) for row in RECORDED]
    wanted = {
        (name, prepared, str(epsilon), method)
        for prepared, some in compared.OF.items()
        for name in compared.SETS
        for epsilon in compared.EPSILONS
        for method in some
    }
    assert set(keys) == wanted and len(keys) == len(wanted) and len(compared.SETS) == 27
    assert all(float(row["mean"]) > 0 and float(row["se"]) >= 0 for row in RECORDED)
    assert BESIDE["command"] == compared.COMMAND and BESIDE["methods"] == list(compared.METHODS)
    assert BESIDE["epsilons"] == list(compared.EPSILONS) and BESIDE["delta"] == compared.DELTA
    for name in compared.SETS:
        registered = name if name in ("airfoil", "bike") else f"wang_{name}"
        assert data.tables()[registered].local.items() <= BESIDE["sha256"].items()


def test_what_is_stored_stands_beside_the_same_method_on_the_same_preparation():
    for row in RECORDED:
        known = row["method"] in compared.STORED and row["prepared"] == "rows"
        assert bool(row["stored"]) == bool(row["stored_sd"]) == known


@pytest.mark.skipif(not os.environ.get("DPUTILS_DATA"), reason="needs the optional tables")
@pytest.mark.parametrize(
    ("name", "prepared"), [("yacht", "rows"), ("fertility", "longest"), ("autompg", "as coded")]
)
def test_recorded_rows_are_computed_again(name, prepared):
    methods = [method for method in compared.OF[prepared] if method not in TAILS]
    stored = compared.stored_results()
    again = [
        dict(zip(compared.NAMES, row, strict=True))
        for row in compared.rows(name, prepared, methods, stored)
    ]
    kept = {tuple(row[key] for key in KEYS): row for row in RECORDED}
    for row in again:
        mine = kept[tuple(str(row[key]) for key in KEYS)]
        for column in ("mean", "median", "fold_sd"):
            assert math.isclose(float(mine[column]), float(row[column]), rel_tol=1e-3)
        assert mine["stored"] == str(row["stored"])


@pytest.mark.parametrize("name", ["zero", "not private", *compared.METHODS])
def test_methods_give_coefficients_for_each_epsilon_and_draw(name):
    small = fold()
    theta = compared.METHODS[name](small)
    assert theta.shape[0] == 2 and theta.shape[2] == 3 and np.isfinite(theta).all()
    large = fold(rows=40_000, epsilons=(10.0,))
    exact = np.linalg.solve(large.gram, large.products)
    if name != "zero":  # with much data every method is near least squares
        assert np.abs(compared.METHODS[name](large) - exact).max() < 0.05


def test_the_simulated_noise_is_that_of_the_mechanisms():
    small = fold(draws=20_000, epsilons=(1.0,))
    s = regression.scale("add-remove", 1.0, 1e-6, pieces=2)
    gram, products = small.noisy(np.array([[s]]))
    away = gaussian.coordinates(gram[0] - small.gram) / s
    every = np.concatenate([away, (products[0] - small.products) / s], axis=1)
    assert min(stats.kstest(column, "norm").pvalue for column in every.T) > 1e-6 / every.shape[1]
    thesis = math.sqrt(2 * math.log(3.75 / 1e-6)) * 3
    made = regression.adassp_mechanism(
        regression.Bounds(3, 1, 1), "add-remove", 1.0, 1e-6, calibration="thesis"
    )
    assert math.isclose(
        made.draw(made.read((small.X, small.y)), rng=small.rng).noise, thesis, rel_tol=1e-6
    )


def test_adassp_has_the_penalty_of_the_module():
    """With no noise on the sums only the penalty differs: recompute it from the coefficients."""
    small = fold(draws=1, epsilons=(1.0,))
    small.square[:], small.vector[:], small.number[:] = 0, 0, 0
    s = regression.scale("add-remove", 1.0, 1e-6, pieces=3)
    low = max(small.smallest - s * math.sqrt(math.log(6 / 1e-6)), 0)
    level = max(s * math.sqrt(3 * math.log(2 * 9 / 0.05)) - low, 0)
    expected = np.linalg.solve(small.gram + level * np.eye(3), small.products)
    assert np.allclose(compared.adassp_joint(small)[0, 0], expected)


def test_bartlett_has_the_law_of_a_gram_matrix():
    rng = np.random.default_rng(1)
    lower = compared.bartlett(7, (20_000,), 3, rng)
    drawn = lower @ np.swapaxes(lower, 1, 2)
    G = rng.standard_normal((20_000, 7, 3))
    direct = np.swapaxes(G, 1, 2) @ G
    for i, j in ((0, 0), (1, 2), (2, 2), (0, 1)):
        assert stats.ks_2samp(drawn[:, i, j], direct[:, i, j]).pvalue > 1e-7
    determinants = np.linalg.det(drawn), np.linalg.det(direct)
    assert stats.ks_2samp(*determinants).pvalue > 1e-7


@functools.cache
def losses(k, gamma, mu, size=400_000):
    """Privacy losses of mixing, simulated from normal numbers one by one."""
    rng = np.random.default_rng(3)
    square = stats.chi2.rvs(k * compared.ROUNDS, size=size, random_state=rng)
    r, gauss = 1 / gamma, rng.standard_normal(size) * mu + mu**2 / 2
    shrunk = -k * compared.ROUNDS / 2 * math.log1p(-r)
    larger = -shrunk + square / 2 * (1 / (1 - r) - 1)
    smaller = shrunk - (1 - r) * square / 2 * (1 / (1 - r) - 1)
    return larger + gauss, smaller + gauss


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_the_cost_of_mixing_is_that_of_simulated_losses(epsilon):
    k, gamma, mu = 20, 30.0, 0.5
    sides = []
    for loss in losses(k, gamma, mu):
        above = np.maximum(-np.expm1(epsilon - loss), 0)
        sides.append((above.mean(), above.std() / math.sqrt(len(above))))
    found = compared.mixing_delta(epsilon, gamma, k, mu)
    mean, error = max(sides)
    assert abs(found - mean) < 6 * error


def test_the_cost_of_mixing_is_that_of_mixed_rows():
    """A row that attains the bound, in matrices of mixed rows; hardly any Gaussian noise beside."""
    k, gamma, epsilon = 10, 4.0, 0.5
    joined = np.array([[gamma, 0.0], [0.0, 9.0]])
    without = joined - np.diag([1.0, 0.0])
    shape = (20_000, k * compared.ROUNDS, 2)
    mixed = np.random.default_rng(3).normal(size=shape) @ np.linalg.cholesky(joined).T

    def log_law(covariance):
        inner = np.einsum("nki,ij,nkj->n", mixed, np.linalg.inv(covariance), mixed)
        return -inner / 2 - shape[1] / 2 * math.log(np.linalg.det(covariance))

    above = np.maximum(-np.expm1(epsilon - log_law(joined) + log_law(without)), 0)
    found = compared.mixing_delta(epsilon, gamma, k, 1e-3)
    assert abs(found - above.mean()) < 6 * above.std() / math.sqrt(len(above))


def test_without_sketches_the_cost_of_mixing_is_that_of_gaussian_noise():
    for epsilon, mu in ((0.5, 0.2), (1.0, 0.3), (3.0, 1.0)):
        found = compared.mixing_delta(epsilon, 1e9, 20, mu)
        assert math.isclose(found, curves.gaussian_delta(epsilon, mu), rel_tol=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1, 10])
def test_the_noise_of_mixing_spends_the_budget(epsilon):
    gamma, steps = compared.mixing_noise(epsilon, 1e-6, 111)
    assert math.isclose(compared.mixing_epsilon(gamma, steps, 1e-6, 111), epsilon, rel_tol=1e-3)
    more, slower = compared.mixing_published(epsilon, 1e-6, 111)
    assert more > gamma and compared.mixing_epsilon(more, slower, 1e-6, 111) < epsilon


def test_gradient_clips_each_residual():
    small = fold(rows=3000)
    theta = np.array([[[30.0, 0, 0]]])
    residual = np.clip(small.y - small.X @ theta[0, 0], -1, 1)
    assert np.allclose(compared.gradient(small, theta)[0, 0], small.X.T @ residual)


@pytest.mark.skipif(not os.environ.get("DPUTILS_DATA"), reason="needs the optional tables")
@pytest.mark.parametrize("name", ["housing", "yacht"])
def test_as_coded_no_response_is_centred_and_some_columns_stay(name):
    assert ("housing" in compared.RAW) and "yacht" not in compared.RAW
    X, y = compared.table(name)
    for train, response, out, response_out in compared.folds(name, "as coded"):
        assert math.isclose(np.linalg.norm(train, axis=1).max(), 1)
        assert math.isclose(np.abs(response).max(), 1)
        every = np.concatenate([response, response_out])
        assert math.isclose(every.mean() / every.std(), y.mean() / y.std(), rel_tol=1e-6)
        if name in compared.RAW:  # columns keep their proportions
            scales = np.concatenate([train, out]).mean(axis=0) / X.mean(axis=0)
            assert np.allclose(scales, scales[0])
        else:
            assert np.abs(train.mean(axis=0)).max() < 1e-9


def test_two_penalties_at_the_same_noise():
    """With no noise on the sums both are ridge, and the stricter constant penalises more."""
    small = fold(draws=1, epsilons=(0.3,))
    small.square[:], small.vector[:], small.number[:] = 0, 0, 0
    s = regression.scale("add-remove", 0.3, 1e-6, pieces=3)
    low = max(small.smallest - s**2, 0)
    level = max(s * math.sqrt(3 * math.log(2 * 9 / 1e-7)) - low, 0)
    expected = np.linalg.solve(small.gram + level * np.eye(3), small.products)
    found = compared.adassp_their_penalty(small)[0, 0]
    assert np.allclose(found, expected) and level > 0
    assert np.linalg.norm(found) < np.linalg.norm(compared.adassp_joint(small)[0, 0])


def mean_ratio(name, other, prepared, epsilon):
    """The geometric mean of a ratio and a 90 % interval, from the record."""
    errors = {
        (row["data"], row["method"]): math.log(float(row["mean"]))
        for row in RECORDED
        if row["prepared"] == prepared and float(row["epsilon"]) == epsilon
    }
    away = np.array([errors[one, name] - errors[one, other] for one in compared.SETS])
    picks = np.random.default_rng(0).integers(len(away), size=(2000, len(away)))
    return np.exp([away.mean(), *np.quantile(away[picks].mean(axis=1), [0.05, 0.95])])


def test_what_the_chapter_says_of_orders_is_recorded():
    def interval(name, prepared, epsilon):
        return mean_ratio(name, "two sums, learned", prepared, epsilon)

    for epsilon in compared.EPSILONS:
        assert interval("Hessian mixing", "rows", epsilon)[1] > 1
        _, low, high = interval("Hessian mixing", "longest", epsilon)
        assert low < 1 < high or (low > 1 and epsilon < 0.1)
        assert interval("Hessian mixing", "as coded", epsilon)[1] < 1
        assert interval("Hessian mixing", "as coded", epsilon)[2] > 1
        for prepared in compared.PREPARATIONS:
            assert interval("Hessian mixing, published", prepared, epsilon)[0] > 1
    for prepared in ("longest", "as coded"):
        for epsilon in (5, 10):
            mean, low, high = interval("boosted, 3 rounds", prepared, epsilon)
            assert low < 1 < high
        assert mean < min(1, interval("Hessian mixing", prepared, 10)[0])


def test_what_the_chapter_says_of_margins_is_recorded():
    margins = {
        prepared: [
            math.log(mean_ratio(name, other, prepared, 1)[0])
            for name, other in (
                ("Hessian mixing, published", "AdaSSP, each piece"),
                ("Hessian mixing", "AdaSSP, their penalty"),
                ("Hessian mixing", "AdaSSP, joint"),
            )
        ]
        for prepared in compared.PREPARATIONS
    }
    published, exact, same = margins["rows"]
    assert published < exact - 0.03 < exact < same - 0.03 < 0
    for prepared in ("longest", "as coded"):
        published, exact, same = margins[prepared]
        assert exact < published + 1e-3 and exact < same - 0.03 < 0
