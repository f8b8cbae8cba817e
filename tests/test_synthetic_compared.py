"""The recorded comparison of synthetic tables: whole, and a sample of it computed again."""

import csv
import importlib.util
import itertools
import json
import os

import numpy as np
import pytest

from dputils import synthetic
from dputils.book import chapter, data
from tools import synthetic_compared as compared
from tools import synthetic_public as public

FOLDER = data.FOLDER / "results"
KEYS = ("data", "method", "epsilon", "seed")
CASES = [("tree", 3), ("independent", 0.3), ("bootstrap", ""), ("real rows", "")]
CASES += [("commoner value", "")]


def recorded(name):
    with open(FOLDER / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def beside(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def keys(rows):
    return {tuple(row[key] for key in KEYS) for row in rows}


def in_range(rows):
    for row in rows:
        if row["method"] != "commoner value":
            assert 0 <= float(row["two"]) <= float(row["three"]) <= 1
        assert 0 <= float(row["accuracy"]) <= 1


def test_the_recorded_table_is_whole():
    rows = recorded("synthetic_compared")
    each = {tuple(map(str, case)) for case in compared.cases()}
    assert keys(rows) == {(name, *case) for name in compared.TABLES for case in each}
    assert len(rows) == len(keys(rows))
    in_range(rows)
    said = beside("synthetic_compared")
    assert said["command"] == compared.COMMAND and said["domains"] == compared.DOMAINS
    assert said["epsilons"] == list(compared.EPSILONS)
    assert said["seeds"] == [compared.SEEDS[0], compared.SEEDS[-1]]
    assert said["classifier"] == {"DecisionTreeClassifier": compared.RULE}
    for one in ("anes96", "randhie"):
        assert said["sha256"][f"{one}.csv"] == data.tables()[one].sha256[0]
    assert data.tables()["adult"].local.items() <= said["sha256"].items()


@pytest.mark.parametrize("name", compared.TABLES)
def test_recorded_rows_are_computed_again(name):
    if name == "adult" and not os.environ.get("DPUTILS_DATA"):
        pytest.skip("DPUTILS_DATA names no local copy of the optional tables")
    rows, sizes = compared.table(name)
    mine = [tuple(row.values()) for row in recorded("synthetic_compared")]
    for method, epsilon in CASES[:2] if name == "adult" else CASES:
        again = compared.row(name, rows, sizes, method, epsilon, 7)
        assert tuple(map(str, again)) in mine


@pytest.mark.skipif(not os.environ.get("DPUTILS_DATA"), reason="needs the optional tables")
def test_the_public_lists_name_every_value_of_adult():
    lists = {
        "workclass": compared.EMPLOYERS,
        "marital_status": compared.STATUSES,
        "occupation": compared.OCCUPATIONS,
        "relationship": compared.RELATIONSHIPS,
        "race": compared.RACES,
    }
    table = data.load("adult")
    for column, values in lists.items():
        assert set(table[column].dropna()) == set(values.split())
    copied, sizes = compared.table("adult")
    missing = (table["workclass"].isna(), table["occupation"].isna())
    for which, absent in zip((1, 4), missing, strict=True):
        assert np.array_equal(copied[:, which] == sizes[which] - 1, absent)


@pytest.mark.skipif(not os.environ.get("DPUTILS_DATA"), reason="needs the optional tables")
@pytest.mark.parametrize(("epsilon", "joined"), [(0.3, True), (1, False)])
def test_a_small_budget_joins_income_and_education(epsilon, joined):
    """Which is why the recorded accuracies on adult are higher there."""
    rows, sizes = compared.table("adult")
    for seed in range(3):
        kept, _ = compared.split("adult", rows, seed)
        rng = chapter.stream(seed, f"adult, tree, epsilon {epsilon}")
        release = synthetic.mechanism(sizes, 12, chapter.exactly(epsilon))
        near = [i for i, j in release.draw(kept, rng=rng).edges if j == 12]
        assert (2 in near) == joined
        assert joined or len(near) == 3


def test_a_split_hides_a_third_and_loses_nobody():
    rows = np.arange(100)[:, None]
    kept, hidden = compared.split("election", rows, 3)
    assert len(hidden) == 33 and sorted([*kept[:, 0], *hidden[:, 0]]) == list(range(100))
    assert not np.array_equal(hidden, compared.split("election", rows, 4)[1])


def test_measures_by_hand():
    bits = np.array(list(itertools.product((0, 1), repeat=3)))
    other = np.array([[0, 0, 0], [1, 1, 1]])
    assert compared.distances(bits, bits, (2, 2, 2)) == [0, 0]
    assert compared.distances(other, bits, (2, 2, 2)) == [0.5, 0.75]
    same = np.repeat(other, 20, axis=0)
    assert compared.accuracy(same, other) == 1
    assert compared.accuracy(same, np.array([[0, 0, 1], [1, 1, 1]])) == 0.5
    assert compared.commoner(np.array([[5, 1], [4, 1], [3, 0]]), other[:, 1:]) == 0.5


def test_the_public_package_was_run_on_the_same_persons():
    rows, own = recorded("synthetic_public"), recorded("synthetic_compared")
    wanted = {tuple(map(str, (n, m, e, s))) for n, s, m, e in public.cases()}
    assert keys(rows) == wanted and len(rows) == len(wanted)
    in_range(rows)
    persons = {(row["data"], row["persons"]) for row in own}
    assert {(row["data"], row["persons"]) for row in rows} <= persons
    said = beside("synthetic_public")
    assert said["command"] == public.COMMAND and said["settings"] == public.SETTINGS
    assert said["delta"] == public.DELTA and "dpmm" in said["versions"]


@pytest.mark.skipif(importlib.util.find_spec("dpmm") is not None, reason="the package is there")
def test_without_the_public_package_there_is_a_clear_error():
    with pytest.raises(SystemExit, match="dpmm is missing"):
        public.main()
