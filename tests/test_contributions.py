"""Bounded contributions: sensitivities by brute force, laws of samples, refusals, odd rows."""

import csv
import itertools
import json
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, hypergeom

from dputils import audit, contributions, geometric, noise
from dputils.book import data
from tools import check_ins

RULES, STEPS = contributions.RULES, contributions.STEPS


def rng(label=0):
    return np.random.default_rng([31, label])


def table_of(persons):
    """The columns of a tuple of persons, each a tuple of bins."""
    owners = [number for number, bins in enumerate(persons) for _ in bins]
    return owners, [place for bins in persons for place in bins]


PERSONS = [bins for m in range(5) for bins in itertools.combinations_with_replacement(range(3), m)]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_person_moves_the_counts_further_than_stated(rule, norm, most):
    order = {"l1": 1, "l2": 2}[norm]
    size = contributions.of_person(most, rule, norm).size
    moved = [
        np.linalg.norm(contributions.bounded(*table_of((one,)), 3, most, rule, rng=rng(k)), order)
        for one in PERSONS
        for k in range(6)
    ]
    assert max(moved) <= size
    assert math.isclose(max(moved), size)  # attained: three bins are enough for 3 of them


@pytest.mark.parametrize("rule", RULES)
def test_persons_add_up(rule):
    """What a person contributes does not depend on the others, where no coin decides."""
    for first, second in itertools.product(PERSONS, repeat=2):
        few = [len(set(bins)) if rule == "once" else len(bins) for bins in (first, second)]
        if rule == "weigh" or max(few) <= 2:
            both, one, other = (
                contributions.bounded(*table_of(persons), 3, 2, rule, rng=rng())
                for persons in ((first, second), (first,), (second,))
            )
            assert (both == one + other).all()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=40), st.integers(1, 6))
@settings(deadline=None, max_examples=200)
def test_each_rule_against_a_loop(rows, most):
    owners, places = [list(column) for column in zip(*rows)] or ([], [])
    of = {who: [p for o, p in rows if o == who] for who in set(owners)}
    sample, weigh, once = (
        contributions.bounded(owners, places, 5, most, rule, rng=rng()) for rule in RULES
    )
    assert sample.sum() == sum(min(len(bins), most) for bins in of.values())
    assert (sample <= np.bincount(np.array(places, dtype=int), minlength=5)).all()
    assert once.sum() == sum(min(len(set(bins)), most) for bins in of.values())
    expected = [0] * 5
    for bins in of.values():
        for place in set(bins):
            share = Fraction(min(len(bins), most), len(bins)) * bins.count(place) * STEPS
            expected[place] += math.floor(share)
    assert weigh.tolist() == expected
    assert sorted(contributions.rows(owners)) == sorted(len(bins) for bins in of.values())


def test_a_sample_is_hypergeometric_and_no_row_is_preferred():
    """Chi-square tests, false alarm 1e-6 each."""
    owners, places = [7] * 9 + [8] * 2, [0] * 4 + [1] * 5 + [2, 2]
    draws = np.array(
        [contributions.bounded(owners, places, 3, 3, "sample", rng=rng(k)) for k in range(4000)]
    )
    assert (draws.sum(axis=1) == 5).all() and (draws[:, 2] == 2).all()
    expected = 4000 * hypergeom.pmf(range(4), 9, 4, 3)
    seen = np.bincount(draws[:, 0], minlength=4)
    assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 3)
    each = np.array(
        [contributions.bounded([0] * 9, range(9), 9, 3, "once", rng=rng(k)) for k in range(3000)]
    ).sum(axis=0)
    assert ((each - 1000) ** 2 / 1000).sum() < chi2.isf(1e-6, 8)


def test_many_persons_are_sorted_alike():
    """The two ways to sort give the same rows for the same keys."""
    owners = np.sort(rng().integers(0, 50, 2000))
    few = contributions._at_most(owners, 3, rng(1))
    many = contributions._at_most(owners + (1 << 22), 3, rng(1))
    assert (few == many).all() and few.size == 150


@pytest.mark.parametrize("rule", RULES)
def test_the_release_is_the_bounded_counts_with_geometric_noise(rule):
    """One bin a person: no coin decides. False alarm 1e-6."""
    owners = np.repeat([0, 1, 2, 3], [500, 1, 4, 30])
    places = np.repeat([0, 1, 1, 3], [500, 1, 4, 30])
    release = contributions.mechanism(4, 4, rule, 0.5)
    exact = contributions.bounded(owners, places, 4, 4, rule, rng=rng())
    stream = rng(3)
    draws = np.array([release((owners, places), rng=stream) for _ in range(4000)]) - exact
    assert audit.law_test(draws, release.law(1), discrete=True, rng=stream).passes()
    assert not audit.law_test(draws, release.law(1.5), discrete=True, rng=stream).passes()


def test_the_law_with_coins_has_the_stated_epsilon():
    """A person with two rows in one bin and one in another, of whom two rows are kept."""
    eps, z = 0.5, np.arange(-40, 41)
    scale = float(geometric.scale(contributions.of_person(2, "sample"), eps))
    p = [np.exp(geometric.logpmf(z - moved, scale)) for moved in range(3)]
    without = np.outer(p[0], p[0])
    with_person = np.outer(p[2], p[0]) / 3 + np.outer(p[1], p[1]) * 2 / 3
    ratios = np.abs(np.log(with_person / without))
    assert math.isclose(ratios.max(), eps)


def test_system_randomness_serves():
    for rule in RULES:
        release = contributions.mechanism(3, 1, rule, 1.0)
        released = release(([1, 1, 2], [0, 1, 2]), rng=noise.SYSTEM)
        assert released.shape == (3,) and released.dtype == np.int64


ODD = [None, math.nan, "a", 1, [], {}, object(), np.float64("nan"), 10**30, "1", True, b"x", 1j]


@pytest.mark.parametrize("rule", RULES)
def test_odd_rows_never_raise(rule):
    for owners in (ODD, np.array(ODD, dtype=object), np.ma.array([1, 2] * 6 + [3], mask=[1] * 13)):
        places = [0, -5, 10**400, math.inf, -math.inf, math.nan, None, "x", 2.5, [], 1, 2, 3]
        found = contributions.bounded(owners, places, 4, 2, rule, rng=rng())
        assert found.shape == (4,) and (found >= 0).all()
    empty = contributions.bounded([], [], 4, 2, rule, rng=rng())
    assert empty.tolist() == [0] * 4
    assert contributions.rows([]).size == 0


@pytest.mark.parametrize("rule", RULES)
def test_rows_of_nobody_are_left_out(rule):
    owners = [None, math.nan, [], object(), None, 3, 1j, np.timedelta64(3, "D"), b"3"]
    assert contributions.rows(owners).tolist() == [1]
    one = STEPS if rule == "weigh" else 1
    found = contributions.bounded(owners, [0] * 5 + [1] + [0] * 3, 2, 2, rule, rng=rng())
    assert found.tolist() == [0, one]
    column = np.array([math.nan, math.nan, 1.0])
    assert contributions.rows(column).tolist() == [1]
    assert contributions.rows(np.ma.array([1, 2, 2], mask=[1, 0, 0])).tolist() == [2]
    nobody = contributions.bounded([None] * 9, [0] * 9, 2, 2, rule, rng=rng())
    assert nobody.tolist() == [0, 0]


class Low(str):
    """A text that is equal to any other of the same letters, large or small."""

    def __eq__(self, other):
        return self.lower() == str(other).lower()

    def __hash__(self):
        return hash(self.lower())


class Rude(float):
    """A number whose own methods lie or fail."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        raise TypeError

    def __float__(self):
        return 7.0


ONES = [1, 1.0, True, np.int8(1), np.float32(1), np.bool_(True), Fraction(1), Rude(1)]
PEOPLE = [  # each list is one person, all lists are different persons
    ONES,
    ["1", np.str_("1")],
    ["A", Low("A")],
    ["a", Low("a")],
    ["\ud800"],
    ["'\\ud800'"],
    ["x\0"],
    ["x"],
    [0.4, np.float64(0.4), Rude(0.4)],
    [np.float32(0.4), Fraction(float(np.float32(0.4)))],
    [7, np.uint8(7), np.longdouble(7)],
    [2.0**53, 2**53, np.int64(2**53)],
    [2**53 + 1, np.int64(2**53 + 1)],
    [np.float32(0.9)],
    [0.9],
    [10**400],
    [math.inf, np.float32(math.inf)],
]
NOBODY = [None, math.nan, np.timedelta64(7, "D"), 7 + 0j, b"x", [], object()]


def test_how_one_owner_is_read_does_not_depend_on_another():
    """In random parts of a table of all owners, in random order, the same are one person."""
    of = [(cell, i) for i, cells in enumerate(PEOPLE) for cell in cells]
    of += [(cell, -1) for cell in NOBODY]
    stream = rng(4)
    for _ in range(1000):
        chosen = stream.permutation(len(of))[: stream.integers(1, len(of))]
        cells, people = zip(*(of[j] for j in chosen))
        codes = contributions.persons(list(cells))
        code_of = {}
        for code, person in zip(codes.tolist(), people):
            assert (code < 0) == (person < 0)
            assert code_of.setdefault(person, code) == code
        assert len(set(code_of.values())) == len(code_of)


def test_one_more_person_changes_no_other():
    """Texts with lone surrogates beside their descriptions, without and with a number."""
    texts = [f"u{i}\ud800" for i in range(200)]
    owners = texts + [repr(text) for text in texts]
    for more in ([], [3], [None], ["z"]):
        assert contributions.rows(owners + more).tolist() == [1] * (
            400 + len(more) - (None in more)
        )
        found = contributions.bounded(
            (owners + more) * 3, [0] * (3 * (400 + len(more))), 1, 3, "sample", rng=rng()
        )
        assert found.tolist() == [3 * (400 + len(more) - (None in more))]


@pytest.mark.parametrize("dtype", [">i8", ">f8", "f4", "f2", "g", "U3", object, "u1"])
def test_a_column_of_any_type_gives_the_same_persons(dtype):
    import pandas as pd

    column = np.array([1, 2, 1, 3]).astype(dtype)
    for cells in (column, list(column)):
        assert contributions.rows(cells).tolist() == [2, 1, 1]
    for kind in ("Int64", "Float64", "category", "string", "float64"):
        series = pd.Series([1, 2, 1, 3, None]).astype(kind)
        assert contributions.rows(series).tolist() == [2, 1, 1]


@pytest.mark.parametrize("rule", RULES)
def test_a_person_in_all_bins_counts_as_often_as_one_in_few(rule):
    """What a person adds in all bins together, over many bins and draws."""
    size = contributions.of_person(8, rule).size
    for bins in (3, 9, 168):
        places = np.arange(1000) % bins
        exact = min(bins, 8) if rule == "once" else size
        for label in range(20):
            found = contributions.bounded(np.zeros(1000), places, bins, 8, rule, rng=rng(label))
            assert found.sum() <= exact and (found >= 0).all()
            assert rule == "weigh" or found.sum() == exact


def test_places_outside_count_at_the_ends():
    found = contributions.bounded(range(5), [-1, 9, math.nan, 1, 2], 3, 1, "sample", rng=rng())
    assert found.tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bins", (0, 1, "sample", 1)),
        ("bins", (2.5, 1, "sample", 1)),
        ("most", (3, 0, "sample", 1)),
        ("most", (3, 2**21, "sample", 1)),
        ("rule", (3, 1, "first", 1)),
        ("epsilon", (3, 1, "sample", 0)),
    ],
)
def test_public_arguments_are_refused_by_name(name, arguments):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        contributions.mechanism(*arguments)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("value must be a pair", [1, 2, 3]),
        ("owners and places must have the same length", ([1, 2], [1])),
        (r"owners must have shape \(n,\)", (np.ones((2, 2)), [1, 1])),
        ("owners must be a list or an array", ({1, 2}, [1, 1])),
        ("owners must be numbers or texts", (np.array([1, 2], dtype="M8[D]"), [1, 1])),
        ("owners must be numbers or texts", (np.array([1, 2], dtype=complex), [1, 1])),
        ("values must", ([1, 2], "ab")),
    ],
)
def test_tables_of_another_form_are_refused(words, value):
    with pytest.raises(ValueError, match=words):
        contributions.mechanism(3, 1, "sample", 1.0)(value, rng=rng())


def test_rng_is_refused_by_name():
    with pytest.raises(ValueError, match="^rng must be"):
        contributions.bounded([1], [0], 1, 1, "weigh", rng=1)


def test_the_name_says_what_is_bounded():
    release = contributions.mechanism(168, 8, "sample", 0.25, unit="user")
    assert release.unit == "user" and release.neighbours == "add-remove" and release.exact
    assert release.name.startswith("histogram of 168 bins, at most 8 a user by the rule 'sample'")
    assert release.sensitivity.size == 8


# --- the recorded table

RECORDED = list(csv.DictReader((data.FOLDER / "results" / "check_ins.csv").open(encoding="utf-8")))


def test_the_recorded_table_is_complete():
    keys = {(r["dataset"], r["question"], r["rule"], int(r["most"])) for r in RECORDED}
    assert len(keys) == len(RECORDED) == 2 * 2 * len(RULES) * len(check_ins.BOUNDS)
    beside = json.loads((data.FOLDER / "results" / "check_ins.json").read_text(encoding="utf-8"))
    assert beside["command"] == check_ins.COMMAND
    assert beside["sha256"] == dict(data.tables()["checkins_nyc"].local)
    assert beside["epsilon"] == check_ins.EPSILON and beside["seeds"] == list(check_ins.SEEDS)


def test_the_caps_with_the_smallest_error_are_those_of_the_text():
    """Weights: some dozens of rows for hours, fewer for venues; shape and ranking at most 4."""
    best = {}
    for row in RECORDED:
        if row["rule"] == "weigh":
            other = float(row["shape"]) if row["question"] == "hour" else -float(row["top_ten"])
            for measure, size in (("error", float(row["error"])), ("other", other)):
                key = row["dataset"], row["question"], measure
                best[key] = min(best.get(key, (math.inf, 0)), (size, int(row["most"])))
    caps = {key: cap for key, (_, cap) in best.items()}
    assert caps["checkins_nyc", "hour", "error"] == 64 and caps["made", "hour", "error"] == 32
    assert caps["checkins_nyc", "venue", "error"] == 2 and caps["made", "venue", "error"] == 16
    assert all(cap <= 4 for (_, _, measure), cap in caps.items() if measure == "other")


@pytest.mark.parametrize("dataset", ["made", "checkins_nyc"])
def test_a_sample_of_the_recorded_table_is_recomputed(dataset):
    if dataset != "made" and not os.environ.get("DPUTILS_DATA"):
        pytest.skip("DPUTILS_DATA names no local copy of the optional tables")
    if dataset == "made":
        from dputils.book import made

        table = made.checkins()
        owners, places = table["user"], table["hour"]
    else:
        table = data.load("checkins_nyc")
        owners, places = table["user"], table["hour_of_week"] - 1
    for rule, most in (("sample", 8), ("once", 64)):
        row = check_ins.row(dataset, owners, "hour", places, 168, most, rule)
        assert list(map(str, row)) in [list(r.values()) for r in RECORDED]
