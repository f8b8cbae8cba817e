"""The recorded comparison of preparations: whole, by the document's formulas, computed again."""

import csv
import itertools
import json
import math
import os

import numpy as np
import pytest

from dputils.book import data
from tools import preprocessing_compared as compared

with (compared.FOLDER / "preprocessing_compared.csv").open(encoding="utf-8") as file:
    RECORDED = list(csv.DictReader(file))
BESIDE = json.loads((compared.FOLDER / "preprocessing_compared.json").read_text(encoding="utf-8"))
KEYS = compared.NAMES[:8]
KEPT = {tuple(row[key] for key in KEYS): row for row in RECORDED}
RNG = np.random.default_rng(3)
X = RNG.normal([3, -1], [2, 5], (40, 2))
y = 5 + X @ [1, 0.5] + RNG.normal(size=40)
NEW = X[:10] + 1


def test_the_recorded_table_is_whole():
    of_ways = len(compared.WAYS) * len(compared.RESPONSES) * len(compared.SOURCES)
    each = len(compared.METHODS) * len(compared.EPSILONS) + 1
    wanted = {
        name: (of_ways + len(compared.WIDTHS) * (name in compared.RANGES)) * each + 1
        for name in compared.SETS
    }
    found = [row["data"] for row in RECORDED]
    assert {name: found.count(name) for name in compared.SETS} == wanted
    assert len(KEPT) == len(RECORDED) and all(float(row["median"]) > 0 for row in RECORDED)
    assert BESIDE["command"] == compared.COMMAND and BESIDE["delta"] == compared.DELTA
    assert BESIDE["ranges"].keys() == compared.RANGES.keys()
    for name, ranges in compared.RANGES.items():
        assert np.array_equal(BESIDE["ranges"][name]["columns"], ranges.columns)
    for name in ("airfoil", "wang_elevators", "bike"):
        assert data.tables()[name].local.items() <= BESIDE["sha256"].items()


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("anes96", ("row norm", "clipped", "public ranges")),
        pytest.param(
            "airfoil",
            ("own statistics", "row norm, response too", "3 times as wide"),
            marks=pytest.mark.skipif(
                not os.environ.get("DPUTILS_DATA"), reason="needs the optional tables"
            ),
        ),
    ],
)
def test_recorded_rows_are_computed_again(name, ways):
    again = [list(map(str, row)) for row in compared.rows(name, ways)]
    assert {row[3] for row in again} == {*ways, "mean"}
    for *key, median, mean in again:
        mine = KEPT[tuple(key)]
        assert math.isclose(float(mine["median"]), float(median), rel_tol=1e-3)
        assert math.isclose(float(mine["mean"]), float(mean), rel_tol=1e-3)


def by_hand(way, theta):
    """Predictions for NEW as the document's equations 3.3 to 3.5 have them."""
    m, sd = X.mean(axis=0), X.std(axis=0)
    z, old = (NEW - m) / sd, (X - m) / sd
    size, before = np.linalg.norm(z, axis=1), np.linalg.norm(old, axis=1)
    if way == "row norm":
        return np.abs(y).max() * (z / size[:, None]) @ theta
    if way == "row norm, response too":
        return (np.abs(y) / before).max() * z @ theta
    if way == "longest row":
        return np.abs(y).max() * z @ theta / before.max()
    inside = theta[0] + z @ theta[1:] / before.max()
    return np.abs(y).max() * inside / np.sqrt(2)


@pytest.mark.parametrize("way", compared.WAYS[:4])
def test_predictions_are_those_of_the_document(way):
    (rows, responses), (new, units) = compared.both(way, (X, y), (NEW, y[:10]), (X, y))
    theta = RNG.normal(size=rows.shape[1])
    assert np.allclose(units * (new @ theta), by_hand(way, theta))
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12 and np.abs(responses).max() <= 1 + 1e-12


def test_published_in_the_units_of_the_data_predictions_are_the_same():
    """Equation 3.7: its errors are those of the strategy with an intercept."""
    _, (new, units) = compared.both("intercept", (X, y), (NEW, y[:10]), (X, y))
    theta, m, sd = RNG.normal(size=3), X.mean(axis=0), X.std(axis=0)
    told = compared.statistics(X, y, None)
    slopes = told["largest"] * theta[1:] / (np.sqrt(2) * told["longest"] * sd)
    first = told["largest"] * theta[0] / np.sqrt(2) - slopes @ m
    assert np.allclose(units * (new @ theta), first + NEW @ slopes)


def test_clipping_is_one_sided_and_reaches_the_new_rows_only_where_it_should():
    far = X.copy()
    far[0], far[1] = X.mean(axis=0) + 50 * X.std(axis=0), X.mean(axis=0) - 50 * X.std(axis=0)
    cut = far.mean(axis=0) + 3 * far.std(axis=0)
    told = compared.statistics(far, y, 3.0)
    assert np.allclose(told["cut"], cut)
    assert np.allclose(told["mean"], np.minimum(far, cut).mean(axis=0))
    one, other = (
        compared.both(way, (far, y), (far, y), (far, y)) for way in ("clipped", "test rows clipped")
    )
    assert np.array_equal(one[0][0], other[0][0]) and not np.allclose(one[1][0], other[1][0])
    assert np.allclose(other[1][0], other[0][0])


def test_the_analyst_with_own_statistics_sees_only_the_new_rows():
    fit, (new, units) = compared.both("own statistics", (X, y), (NEW, y[:10]), (X, y))
    plain, _ = compared.both("intercept", (X, y), (NEW, y[:10]), (X, y))
    told = compared.statistics(NEW, y[:10], None)
    assert np.array_equal(fit[0], plain[0]) and np.all(units == np.abs(y).max())
    assert np.allclose(new[:, 1:] * np.sqrt(2) * told["longest"] * told["sd"] + told["mean"], NEW)


def errors(method, response="centred", statistics="training rows", epsilon="1"):
    """Recorded medians {(data, strategy): error} of the seven strategies."""
    return {
        (row["data"], row["strategy"]): float(row["median"])
        for row in RECORDED
        if (row["method"], row["response"], row["statistics"], row["epsilon"])
        == (method, response, statistics, epsilon)
    }


def test_what_the_chapter_says_of_orders_is_recorded():
    centred, raw = errors("AdaSSP"), errors("AdaSSP", "raw")
    for name, method in itertools.product(compared.SETS, compared.METHODS):
        each = errors(method)
        assert each[name, "row norm"] < min(each[name, way] for way in compared.WAYS[2:])
    for name in compared.SETS:
        assert centred[name, "row norm"] == min(
            centred[name, way] for way in compared.WAYS if way != "row norm, response too"
        )
        for way in compared.WAYS[:3]:
            assert raw[name, way] > 7
    public = {
        row["data"]: float(row["median"])
        for row in RECORDED
        if (row["strategy"], row["method"], row["epsilon"]) == ("public ranges", "AdaSSP", "1")
    }
    for name in ("airfoil", "bike"):
        assert public[name] > max(centred[name, way] for way in compared.WAYS)
    assert public["anes96"] < 1.002 * min(centred["anes96", way] for way in compared.WAYS)
    for way in ("intercept", "clipped"):
        assert all(raw[name, way] >= centred[name, way] for name in compared.SETS)
    for epsilon in ("0.1", "1", "10"):
        mine = errors("AdaSSP", epsilon=epsilon)
        every = errors("AdaSSP", statistics="all rows", epsilon=epsilon)
        assert max(abs(every[key] / mine[key] - 1) for key in mine) < 0.02


def test_adassp_against_the_plain_inverse_and_the_fixed_penalty():
    ahead = {}
    for epsilon, other in (("0.1", "SSP"), ("1", "SSP"), ("1", "ridge")):
        adaptive, against = errors("AdaSSP", epsilon=epsilon), errors(other, epsilon=epsilon)
        ahead[epsilon, other] = sum(adaptive[key] < against[key] for key in against)
    assert ahead == {("0.1", "SSP"): 28, ("1", "SSP"): 25, ("1", "ridge"): 2}
