"""Classifiers from counts alone: laws, sensitivities, public structures, odd input."""

import csv
import itertools
import json
import math
import os

import numpy as np
import pytest
from sklearn.naive_bayes import CategoricalNB

from dputils import audit, from_counts, geometric, noise, sensitivity, trees
from dputils.book import data
from tools import counts_measured as recorded
from tools import trees_measured

SIZES, CLASSES = (2, 3, 2), 2
MADE = {
    "bayes": lambda eps, near: from_counts.bayes_mechanism(SIZES, CLASSES, eps, near),
    "budget": lambda eps, near: from_counts.forest_mechanism(SIZES, CLASSES, 2, 3, eps, near),
    "persons": lambda eps, near: from_counts.forest_mechanism(
        SIZES, CLASSES, 2, 3, eps, near, share="persons"
    ),
    "noisy": lambda eps, near: from_counts.noisy_tree_mechanism(SIZES, CLASSES, 2, eps, near),
}


def rng(label=0):
    return np.random.default_rng([79, label])


def people(n, source):
    X = np.stack([source.integers(size, size=n) for size in SIZES], axis=1)
    return X, (X[:, 1] + source.integers(2, size=n) > 1).astype(int)


def tables_of(rows):
    """Return all tables of persons (values..., class) as one vector."""
    found = [np.zeros((size, CLASSES), dtype=int) for size in SIZES]
    for *values, c in rows:
        for n, v in zip(found, values):
            n[v, c] += 1
    return np.concatenate([n.ravel() for n in found])


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_sensitivity_of_all_tables_by_brute_force(neighbours):
    domain = list(itertools.product(*map(range, SIZES), range(CLASSES)))
    pairs = sensitivity.neighbour_pairs(domain, 2, neighbours)
    found, _ = sensitivity.brute_force(tables_of, pairs, "l1")
    made = from_counts.bayes_mechanism(SIZES, CLASSES, 1, neighbours)
    assert found == made.sensitivity.size == 3 * (1 + (neighbours == "replace-one"))
    assert made.law(1)(0) == pytest.approx(geometric.cdf(0, float(found)))


def off_by(name, made, value, source):
    """Return the noise of one release, of the first three values of each table or tree."""
    found = made(value, rng=source)
    if name == "bayes":
        exact = from_counts.bayes_exact(*value, SIZES, CLASSES).counts
        return np.concatenate([(a - b).ravel()[:6] for a, b in zip(found.counts, exact)])
    return np.concatenate([(tree.counts - leaves(tree, value)).ravel()[:6] for tree in found])


def leaves(tree, value):
    at = CLASSES * trees.leaf(tree, value[0]) + value[1]
    return np.bincount(at, minlength=tree.counts.size).reshape(-1, CLASSES)


def fits(draws, scale, source):
    """Whether noise has its law, cell by cell, in pairs and together; no release is exact."""
    draws, law = np.array(draws), lambda z: geometric.cdf(z, scale)
    flat = audit.law_test(draws.ravel(), law, discrete=True, rng=source)
    each = audit.law_test(draws, law, discrete=True, rng=source)
    return each.passes(1e-6) and flat.passes(1e-6) and not (draws == 0).all(axis=1).any()


@pytest.mark.parametrize(("neighbours", "moves"), [("add-remove", 1), ("replace-one", 2)])
@pytest.mark.parametrize(("name", "moved"), [("bayes", 3), ("budget", 3)])
@pytest.mark.parametrize("persons", [0, 50])
def test_noise_has_the_stated_scale(name, moved, persons, neighbours, moves):
    """Two false alarms in 10^6 runs."""
    made, source = MADE[name](0.5, neighbours), rng(1)
    value = people(persons, rng(3))
    assert made.sensitivity.size == moved * moves
    draws = [off_by(name, made, value, source) for _ in range(300)]
    assert fits(draws, moves * moved / 0.5, source)


@pytest.mark.parametrize(("neighbours", "moves"), [("add-remove", 1), ("replace-one", 2)])
@pytest.mark.parametrize("persons", [0, 50])
def test_noise_of_dealt_persons(persons, neighbours, moves):
    """All persons are alike, in the first cell of their tree; the sum of these cells is known."""
    made, source, scale = MADE["persons"](0.5, neighbours), rng(1), moves / 0.5
    alike = np.zeros((persons, 3), dtype=int), np.zeros(persons, dtype=int)
    found = [made(alike, rng=source) for _ in range(400)]
    empty = [np.concatenate([tree.counts.ravel()[1:6] for tree in forest]) for forest in found]
    assert fits(empty, scale, source)
    one = np.exp(geometric.logpmf(np.arange(-400, 401), scale))
    three = np.convolve(np.convolve(one, one), one).cumsum()

    def law(z):  # of the sum over three trees
        return three[np.clip(np.asarray(z, dtype=int) + 1200, 0, 2400)]

    sums = np.array([sum(tree.counts[0, 0] for tree in forest) for forest in found]) - persons
    assert audit.law_test(sums, law, discrete=True, rng=source).passes(1e-6)


def test_each_person_is_dealt_by_a_draw_of_their_own():
    """Four persons, each a class of their own; one false alarm in 10^6 runs."""
    made = from_counts.forest_mechanism((2, 2), 4, 1, 2, 1000, "add-remove", share="persons")
    four, source = (np.zeros((4, 2), dtype=int), np.arange(4)), rng(8)
    first = [made(four, rng=source)[0].counts.sum(axis=0) for _ in range(800)]
    uniform = dict.fromkeys(itertools.product((0, 1), repeat=4), 1 / 16)
    ways = [tuple(int(k) for k in n) for n in first]
    assert audit.law_test(ways, uniform, rng=source).passes(1e-6)


CUBE = np.array(list(itertools.product((0, 1), repeat=3)) * 5)


def structure(tree):
    return int(tree.splits[0][0]), *map(int, tree.splits[1])


@pytest.mark.parametrize("share", ["budget", "persons"])
def test_whole_structures_are_uniform_where_one_question_is_the_best(share):
    made = from_counts.forest_mechanism((2, 2, 2), 2, 2, 2, 1, "add-remove", share=share)
    source, value = rng(9), (CUBE, CUBE[:, 0] & CUBE[:, 1])
    asked = [structure(tree) for _ in range(600) for tree in made(value, rng=source)]
    allowed = [s for s in itertools.product(range(3), repeat=3) if s[0] not in s[1:]]
    assert audit.law_test(asked, dict.fromkeys(allowed, 1 / 12), rng=source).passes(1e-6)


@pytest.mark.parametrize(("neighbours", "moves"), [("add-remove", 1), ("replace-one", 2)])
def test_the_leaves_of_the_noisy_tree_have_the_noise_of_its_last_level(neighbours, moves):
    """On a crowd in which both levels are certain."""
    made = from_counts.noisy_tree_mechanism((2, 2, 2), 2, 2, 2, neighbours)
    by_first = np.where(CUBE[:, 0] == 0, CUBE[:, 1], CUBE[:, 2])
    classes = np.where(np.arange(40) < 16, CUBE[:, 0], by_first)
    crowd, source = (np.repeat(CUBE, 200, axis=0), np.repeat(classes, 200)), rng(2)
    found = [made(crowd, rng=source) for _ in range(400)]
    assert {structure(tree) for tree in found} == {(0, 1, 2)}
    assert {tree.scale for tree in found} == {2.0 * moves}  # two open attributes, two levels
    off = [(tree.counts - leaves(tree, crowd)).ravel() for tree in found]
    assert fits(off, 2.0 * moves, source)


@pytest.mark.parametrize(("neighbours", "moves"), [("add-remove", 1), ("replace-one", 2)])
def test_the_noisy_tree_chooses_by_noisy_counts(neighbours, moves):
    """Three equal attributes: the law of the first question, from noise that is drawn apart."""
    made, source = from_counts.noisy_tree_mechanism((2, 2, 2), 2, 2, 2, neighbours), rng(10)
    table = np.array([[6, 4], [3, 7]])
    answers = np.repeat((0, 0, 1, 1), table.ravel())
    alike = np.stack([answers] * 3, axis=1), np.repeat((0, 1, 0, 1), table.ravel())
    p = 1 - math.exp(-1 / (3.0 * moves))  # three open attributes, two levels
    drawn = source.geometric(p, (200_000, 3, 2, 2)) - source.geometric(p, (200_000, 3, 2, 2))
    errors = np.maximum(table + drawn, 0).min(axis=-1).sum(axis=-1)
    law = np.bincount(errors.argmin(axis=1), minlength=3) / 200_000
    firsts = [int(made(alike, rng=source).splits[0][0]) for _ in range(1500)]
    shares = np.bincount(firsts, minlength=3) / 1500
    assert np.all(abs(shares - law) < 6 * math.sqrt(0.25 / 1500))
    assert law[0] + 6 * math.sqrt(0.25 / 1500) < 1  # a choice by exact counts is seen


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_what_is_booked_is_what_was_stated(name, neighbours):
    (cost,) = MADE[name](0.5, neighbours).costs
    assert cost.epsilon == 0.5


@pytest.mark.parametrize("name", MADE)
def test_a_large_budget_gives_the_exact_counts(name):
    X, y = people(200, rng(3))
    found = MADE[name](1000, "add-remove")((X, y), rng=rng(4))
    if name == "bayes":
        plain = from_counts.bayes_exact(X, y, SIZES, CLASSES)
        assert all(np.array_equal(a, b) for a, b in zip(found.counts, plain.counts))
        assert np.array_equal(
            np.concatenate([n.ravel() for n in plain.counts]), tables_of(np.column_stack([X, y]))
        )
        return
    if name == "noisy":
        plain = trees.exact(X, y, SIZES, CLASSES, 2)
        assert all(np.array_equal(a, b) for a, b in zip(found.splits, plain.splits))
        assert np.array_equal(found.counts, plain.counts)
        return
    total = sum(tree.counts.sum(axis=0) for tree in found)
    assert np.array_equal(total, np.bincount(y) * (3 if name == "budget" else 1))
    for tree in found if name == "budget" else ():
        exact = np.bincount(2 * trees.leaf(tree, X) + y, minlength=tree.counts.size)
        assert np.array_equal(tree.counts.ravel(), exact)


def test_naive_bayes_as_scikit_learn_has_it_where_no_count_is_small():
    source = rng(7)
    X, y = people(20_000, source)
    y = np.where(source.integers(4, size=y.size) > 0, y, 1 - y)
    tables = from_counts.bayes_exact(X, y, SIZES, CLASSES)
    assert min(n.min() for n in tables.counts) > 1
    theirs = CategoricalNB(alpha=1e-9).fit(X, y)
    rows = np.array(list(itertools.product(*map(range, SIZES))))
    assert np.array_equal(from_counts.bayes_predict(tables, rows), theirs.predict(rows))


def test_a_forest_votes_with_shares():
    one = trees.Tree((2,), (np.array([0]),), np.array([[9, 1], [2, 8]]), 0)
    two = trees.Tree((2,), (np.array([0]),), np.array([[-5, 9], [8, 2]]), 0)
    assert from_counts.forest_predict((one, two), [[0, 1]]).tolist() == [0, 0]
    assert from_counts.forest_predict((two,), [[0, 1]]).tolist() == [1, 0]


def test_small_counts_are_cut_by_the_public_rule():
    sd = math.sqrt(geometric.variance(4.0))
    assert from_counts.cut_counts(np.array([-7, 3, 100]), 4.0).tolist() == [sd, sd, 100]
    assert from_counts.cut_counts(np.array([-7, 0, 3]), 0).tolist() == [1, 1, 3]


@pytest.mark.parametrize("name", MADE)
def test_no_private_value_is_refused_and_the_system_draws(name):
    made = MADE[name](1, "replace-one")
    odd = [np.nan, np.inf, -1e300, 1e300, -5, 2.5]
    made(([odd, odd, odd], odd), rng=noise.SYSTEM)
    made(([[], [], []], []), rng=noise.SYSTEM)
    with pytest.raises(ValueError, match="value must be a pair"):
        made([[0], [0]], rng=rng())
    with pytest.raises(ValueError, match="columns must be 4"):
        made(([[0]], [0]), rng=rng())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: from_counts.forest_mechanism(SIZES, 2, 2, 0, 1, "add-remove"), "many must be"),
        (
            lambda: from_counts.forest_mechanism((40,) * 3, 2, 3, 20, 1, "add-remove"),
            "many must give",
        ),
        (lambda: from_counts.forest_mechanism(SIZES, 2, 2, 2, 1, "add-remove", share="x"), "share"),
        (lambda: from_counts.noisy_tree_mechanism(SIZES, 2, 0, 1, "add-remove"), "depth must be"),
        (
            lambda: from_counts.noisy_tree_mechanism(SIZES, 2, 1, 1, "add-remove", score="x"),
            "score",
        ),
        (lambda: from_counts.bayes_mechanism(SIZES, 2, 2e-6, "add-remove"), "epsilon divided"),
        (lambda: from_counts.bayes_mechanism(SIZES, 1, 1, "add-remove"), "classes must be"),
        (lambda: from_counts.bayes_mechanism(SIZES, 2, 1, "near"), "neighbours must be"),
    ],
)
def test_public_arguments_are_refused_by_name(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# ---- the recorded table --------------------------------------------------------------------------

with (trees_measured.FOLDER / "learning_from_counts.csv").open(encoding="utf-8") as file:
    RECORDED = list(csv.DictReader(file))


def test_the_recorded_table_is_whole():
    keys = {tuple(row[key] for key in recorded.NAMES[:3]) for row in RECORDED}
    assert len(keys) == len(RECORDED) == 2 * (len(recorded.METHODS) * len(recorded.EPSILONS) + 1)
    text = (trees_measured.FOLDER / "learning_from_counts.json").read_text(encoding="utf-8")
    beside = json.loads(text)
    assert beside["command"] == recorded.COMMAND
    assert beside["sha256"]["anes96.csv"] == data.tables()["anes96"].sha256[0]
    assert beside["sha256"].items() >= data.tables()["adult"].local.items()


@pytest.mark.parametrize("method", ["bayes", "forest 2 10 persons", "noisy tree 2 gini"])
def test_recorded_rows_are_computed_again(method):
    row = next(r for r in RECORDED if list(r.values())[:3] == ["anes96", method, "0.3"])
    found = recorded.accuracies(trees_measured.voters(), method, 0.3)
    assert row["accuracy"] == f"{np.mean(found):.5f}"


@pytest.mark.skipif(
    not os.environ.get("DPUTILS_DATA"),
    reason="DPUTILS_DATA names no local copy of the optional tables",
)
@pytest.mark.parametrize("method", ["bayes", "noisy tree 2 gini"])
def test_rows_of_adult_are_computed_again(method):
    row = next(r for r in RECORDED if list(r.values())[:3] == ["adult", method, "0.1"])
    found = recorded.accuracies(trees_measured.people(), method, 0.1)
    assert row["accuracy"] == f"{np.mean(found):.5f}"
