"""Decision trees: scores and their sensitivities, the law of a whole tree, doubt, odd input."""

import csv
import functools
import itertools
import json
import math
import os
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dputils import audit, geometric, noise, selection, sensitivity, trees
from dputils.book import data
from tools import trees_measured as recorded

SMALL = (2, 3, 2)


def rng(label=0):
    return np.random.default_rng([78, label])


def people(n, source, sizes=SMALL, classes=2):
    X = np.stack([source.integers(size, size=n) for size in sizes], axis=1)
    return X, source.integers(classes, size=n)


# ---- scores --------------------------------------------------------------------------------------


def counts_of(table, values=2, classes=2):
    n = np.zeros((values, classes), dtype=int)
    for v, c in table:
        n[v, c] += 1
    return n


OF = {
    "errors": lambda N, neighbours: sensitivity.of_errors(neighbours),
    "gini": sensitivity.of_gini,
    "gain": sensitivity.of_gain,
}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("score", trees.SCORES)
@pytest.mark.parametrize(("classes", "n"), [(2, 5), (3, 4)])
def test_sensitivities_by_brute_force(score, neighbours, classes, n):
    domain = list(itertools.product(range(2), range(classes)))
    pairs = sensitivity.neighbour_pairs(domain, n, neighbours)
    found, _ = sensitivity.brute_force(
        lambda table: trees.split_score(counts_of(table, 2, classes), score), pairs, "absolute"
    )
    stated = OF[score](n, neighbours).size
    assert math.isclose(found, stated, rel_tol=1e-12) and found <= float(stated) + 1e-15
    assert OF[score](n, neighbours).neighbours == neighbours


def test_the_bound_of_the_gain_beside_that_of_the_paper():
    for N in (20, 10**6, 2**30):
        size = sensitivity.of_gain(N, "add-remove").size
        assert size <= math.log2(N + 1) + 1 / math.log(2) < size + 0.2
    assert round(sensitivity.of_gain(20, "add-remove").size, 3) == 5.728


def impurity(n, score):
    """Return the impurity of one answer from its counts n: point 1."""
    total, n = n.sum(), n[n > 0]
    if score == "errors":
        return total - n.max(initial=0)
    return total - (n**2 / total).sum() if score == "gini" else (n * np.log2(total / n)).sum()


@pytest.mark.parametrize("score", trees.SCORES)
def test_scores_by_their_formulas(score):
    tables = rng(8).integers(0, 9, (50, 4, 3)) * rng(9).integers(0, 2, (50, 4, 1))
    found = trees.split_score(tables, score)
    assert np.allclose(found, [-sum(impurity(n, score) for n in table) for table in tables])


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(1, 30),
    st.sampled_from(trees.SCORES),
)
@settings(deadline=None, max_examples=400)
def test_a_person_lowers_a_score_by_no_more_than_is_stated(counts, v, c, most, score):
    """Points 2 and 3: also where a count is cut off."""
    before = np.array(counts)
    after = before.copy()
    after[v % len(counts), c] += 1
    moved = trees.split_score(np.minimum(before, most), score)
    moved = moved - trees.split_score(np.minimum(after, most), score)
    assert -1e-9 <= moved <= float(OF[score](2 * most + 1, "add-remove").size) + 1e-9


def moved_pairs(classes, most, source):
    """Yield pairs of counts of two questions of two answers, a person apart, also beyond `most`."""
    full = np.zeros((2, 2, classes), dtype=int)
    full[0, 0, :-1] = 10**6 * most  # the others' classes are cut off, that of the new one is empty
    full[1, :, 0] = full[:, 1, 1] = 3
    for k in range(150):
        n = source.integers(0, 2 * most + 2, (2, 2, classes)) * source.integers(0, 2, classes)
        n = n * source.choice([1, 100]) + full * (k % 2)
        m = n.copy()
        m[tuple(source.integers(0, 2, 2)) + (source.integers(0, classes),)] += 1
        yield n, m
    m = full.copy()
    m[0, 0, -1] += 1
    yield full, m


@pytest.mark.parametrize("most", [1, 2, 4, 1000])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("score", trees.SCORES)
def test_a_choice_is_private_for_counts_beyond_most(score, classes, most):
    """Points 2 to 4, through what `mechanism` computes: the moves, and the exact law."""
    made, step = trees._moved(score, classes, most, "person")
    worst, attained = 0, 0.0
    for pair in moved_pairs(classes, most, rng(1)):
        found = [
            trees.all_scores(
                [n.sum(1)[None], n.sum(0)[None]], score, np.array([[0, 1]]), step, most
            )
            for n in pair
        ]
        moves = (found[0] - found[1]).ravel()
        worst = max(worst, max(moves.max(), 0) - min(moves.min(), 0))
        laws = [
            selection.permute_and_flip_law([int(x) for x in scores[0]], float(made.size))
            for scores in found
        ]
        attained = max(attained, audit.finite_epsilon(*laws))
    assert worst <= made.size and attained <= 1 + 1e-9
    if classes == 2 or score != "gini":  # then the bound is attained, but for the grid
        assert worst >= made.size - 3


def test_the_grid_by_hand():
    made, step = trees._moved("gini", 2, 1000, "person")
    assert step == Fraction(1, 64) and made.size == math.ceil(64 * Fraction(2000, 1001)) + 2
    counts = [np.array([[[2, 1], [0, 0]]])]  # 3 - 5/3 = 85.33/64, rounded down with its sign
    assert trees.all_scores(counts, "gini", np.array([[0]]), step, 1000).tolist() == [[-86]]
    assert trees._moved("errors", 3, 1, "person")[1] is None


# ---- trees ---------------------------------------------------------------------------------------


def naive(X, y, sizes, classes, depth, score, open_ones):
    """Return (splits by level, leaves), by recursion."""
    if not depth:
        return [], [np.bincount(y, minlength=classes)]
    scores = []
    for a in open_ones:
        n = np.zeros((sizes[a], classes), dtype=int)
        np.add.at(n, (X[:, a], y), 1)
        scores.append(trees.split_score(n, score))
    a = open_ones[int(np.argmax(scores))]
    rest = [b for b in open_ones if b != a]
    parts = [
        naive(X[X[:, a] == v], y[X[:, a] == v], sizes, classes, depth - 1, score, rest)
        for v in range(sizes[a])
    ]
    below = [sum((part[0][level] for part in parts), []) for level in range(depth - 1)]
    return [[a], *below], sum((part[1] for part in parts), [])


@pytest.mark.parametrize("score", trees.SCORES)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [0, 3, 400])
def test_the_exact_tree_by_recursion(score, depth, n):
    X, y = people(n, rng(2), classes=3)
    tree = trees.exact(X, y, SMALL, 3, depth, score=score)
    splits, leaves = naive(X, y, SMALL, 3, depth, score, [0, 1, 2])
    assert [list(split) for split in tree.splits] == splits
    assert np.array_equal(tree.counts, leaves)
    assert tree.counts.sum() == n
    at = trees.leaf(tree, X)
    for i in range(len(tree.counts)):
        assert np.array_equal(np.bincount(y[at == i], minlength=3), tree.counts[i])


def test_of_equal_scores_the_first_attribute_is_taken():
    """Also where floats tell sums of the same numbers in another order apart."""
    n = np.array([[17, 25, 26], [14, 0, 1], [18, 20, 13], [12, 25, 17]])
    rows = np.repeat(np.argwhere(n >= 0), n.ravel(), axis=0)
    assert trees.split_score(n, "gain") != trees.split_score(n[::-1], "gain")
    for columns in ([rows[:, 0], 3 - rows[:, 0]], [3 - rows[:, 0], rows[:, 0]]):
        for score in trees.SCORES:
            tree = trees.exact(columns, rows[:, 1], (4, 4), 3, 1, score=score)
            assert tree.splits[0].tolist() == [0]
    with pytest.raises(ValueError, match="score must"):
        trees.exact(columns, rows[:, 1], (4, 4), 3, 0, score="ratio")


def test_a_large_budget_gives_the_exact_tree():
    source = rng(3)
    X, _ = people(2000, source)
    y = ((X[:, 1] == 2) ^ (source.random(2000) < 0.2)).astype(int)
    for score in trees.SCORES:
        made = trees.mechanism(SMALL, 2, 1, 1000, "replace-one", score=score, most=2000)
        tree, plain = made((X, y), rng=source), trees.exact(X, y, SMALL, 2, 1, score=score)
        assert np.array_equal(tree.splits[0], plain.splits[0]) and tree.splits[0] == 1
        assert np.array_equal(tree.counts, plain.counts)


def test_labels_by_hand():
    split = (np.array([0]), np.array([1, 1]))
    counts = np.array([[9, 1], [4, 6], [0, 8], [3, 2]])
    exact = trees.Tree((2, 2), split, counts, 0)
    assert [x.tolist() for x in trees.labels(exact)] == [[1], [0, 1], [0, 1, 1, 0]]
    tied = trees.Tree((2, 2), split, np.array([[5, 5], [3, 3], [1, 2], [2, 2]]), 0)
    assert [x.tolist() for x in trees.labels(tied)] == [[1], [1, 1], [1, 1, 1, 1]]
    noisy = trees.Tree((2, 2), split, counts, 1.0)
    sd = math.sqrt(2 * geometric.variance(1.0))
    assert 1 < sd < 2
    # the leads over the class of the parent: 6 of two leaves; then 2 and, in the other node, 1
    assert [x.tolist() for x in trees.labels(noisy, 1)] == [[1], [0, 1], [0, 1, 1, 1]]
    assert [x.tolist() for x in trees.labels(noisy, 7)] == [[1], [1, 1], [1, 1, 1, 1]]
    assert trees.predict(noisy, np.array([[0, 0], [1, 1]]), 1).tolist() == [0, 1]
    # a node of two leaves: leads of 2 and 3 against sqrt(2 v 2), which lies between them
    assert math.sqrt(2) * sd < 3 and math.sqrt(2 * sd**2 / 2) < 2 < math.sqrt(2) * sd
    for last, found in (([1, 2], [[0], [0, 0], [0] * 4]), ([1, 3], [[0], [0, 1], [0, 0, 1, 1]])):
        led = trees.Tree((2, 2), split, np.array([[9, 0], [0, 0], [3, 4], last]), 1.0)
        assert [x.tolist() for x in trees.labels(led, 1)] == found
    with pytest.raises(ValueError, match="doubt must"):
        trees.labels(noisy, -1)


# ---- the law of a whole tree ---------------------------------------------------------------------

OUTCOMES = list(
    itertools.product(range(3), range(2), range(2))
)  # of three attributes of two values


@functools.cache
def chances(scores, scale):
    return selection.permute_and_flip_law(list(scores), scale)


def choice_law(T, scale):
    scores = [
        int(trees.split_score(T.sum(axis=tuple(b for b in range(T.ndim - 1) if b != a)), "errors"))
        for a in range(T.ndim - 1)
    ]
    return chances(tuple(scores), scale)


def structure_law(T, scale):
    """Probabilities of (root, choice of its child 0, of its child 1), both of those left."""
    root = choice_law(T, scale)
    kids = [[choice_law(np.take(T, v, axis=a), scale) for v in (0, 1)] for a in range(3)]
    return {(a, b, c): root[a] * kids[a][0][b] * kids[a][1][c] for a, b, c in OUTCOMES}


def test_the_law_of_two_levels_uses_all_of_epsilon():
    scale, cells = 3.0, list(itertools.product((0, 1), repeat=4))
    found = 0.0
    for pair in itertools.combinations(cells[:8], 2):
        T = np.zeros((2, 2, 2, 2), dtype=int)
        for cell in pair:
            T[cell] += 4
        before = structure_law(T, scale)
        for cell in cells:
            U = T.copy()
            U[cell] += 1
            found = max(found, audit.finite_epsilon(before, structure_law(U, scale)))
    assert 2 / 3 - 1e-9 < found <= 2 / 3 + 1e-9  # and the leaves 1/3


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_code_follows_the_law(relation):
    epsilon, source = 1.5, rng(4)
    scale = 3 / epsilon * (2 if relation == "replace-one" else 1)
    T = np.zeros((2, 2, 2, 2), dtype=int)
    for cell, k in {(0, 0, 0, 0): 6, (0, 1, 1, 1): 4, (0, 0, 1, 1): 3, (1, 1, 0, 0): 2}.items():
        T[cell] = k
    records = np.repeat(np.argwhere(T >= 0), T.ravel(), axis=0)
    X, y = records[:, :3], records[:, 3]
    made = trees.mechanism((2, 2, 2), 2, 2, epsilon, relation)
    drawn, noises = [], []
    for _ in range(1500):
        tree = made((X, y), rng=source)
        a, kids = int(tree.splits[0][0]), tree.splits[1]
        rest = [b for b in range(3) if b != a]
        drawn.append((a, *(rest.index(int(b)) for b in kids)))
        n = np.bincount(trees.leaf(tree, X) * 2 + y, minlength=8).reshape(4, 2)
        noises.append((tree.counts - n).ravel())
        assert float(tree.scale) == scale
    assert audit.law_test(drawn, structure_law(T, scale), rng=source).passes()

    def law(z):
        return geometric.cdf(z, scale)

    assert audit.law_test(np.array(noises), law, discrete=True, rng=source).passes()


def test_choices_in_disjoint_parts_follow_their_laws():
    source, moved = rng(5), sensitivity.of_errors("add-remove")
    scores = np.array([[0, -2, -9, 4], [7, 7, 7, 7], [2**62, 0, 0, 2**62 - 5]])
    for monotone, scale in ((True, 2.0), (False, 4.0)):
        made = selection.parallel_mechanism(moved, 0.5, monotone=monotone)
        drawn = np.array([made(scores, rng=source) for _ in range(1500)])
        for row, chosen in zip(scores, drawn.T):
            law = selection.permute_and_flip_law(np.minimum(row, 2**62 - 1), scale)
            assert audit.law_test(chosen, law, rng=source).passes()
    assert np.corrcoef(drawn[:, 0] == 3, drawn[:, 1] == 0)[0, 1] < 0.1
    for bad in (np.zeros(3, dtype=int), np.zeros((2, 0), dtype=int)):
        with pytest.raises(ValueError, match="scores must"):
            made(bad, rng=source)
    with pytest.raises(ValueError, match="neighbours must"):
        selection.parallel_mechanism(sensitivity.of_errors("replace-one"), 1)


# ---- what comes in -------------------------------------------------------------------------------


def test_odd_private_input_is_read_by_the_rule():
    made = trees.mechanism((2, 3), 2, 2, 1000, "add-remove")
    X = np.ma.array([[0, 9], [7, 1], [1, 2]], mask=[[0, 0], [0, 0], [1, 0]])
    odd = [np.nan, 2.4, 1e300], ["a", None, math.inf]
    assert made.read((X, [5, -3, None])).tolist() == [[0, 1, 0], [2, 1, 2], [1, 0, 0]]
    assert made.read((odd, [0, 1, 1])).tolist() == [[0, 1, 1], [0, 0, 2], [0, 1, 1]]
    frame = pd.DataFrame({"a": [0.0, 9], "b": pd.array([2, None], dtype="Int64")})
    assert made.read((frame, [0, 1])).tolist() == [[0, 1], [2, 0], [0, 1]]
    wide = np.array([2**64 - 1, 0, 1], dtype=np.uint64), np.array([-128, 127, 0], dtype=np.int8)
    assert made.read((wide, np.array([True, False, True]))).tolist() == [
        [1, 0, 1],
        [0, 2, 0],
        [1, 0, 1],
    ]
    for n in (0, 1):
        empty = np.zeros((n, 2), dtype=int), np.zeros(n, dtype=int)
        for rng_ in (rng(6), noise.SYSTEM):
            tree = made(empty, rng=rng_)
            assert len(tree.counts) == 6 and tree.counts.dtype == np.int64


def test_all_nodes_split_whoever_is_there():
    X, y = np.zeros((50, 3), dtype=int), np.zeros(50, dtype=int)
    for score in trees.SCORES:
        made = trees.mechanism(SMALL, 2, 3, 1, "add-remove", score=score, most=100)
        tree = made((X, y), rng=rng(7))
        assert len(tree.counts) == 12 and [len(s) for s in tree.splits][0] == 1
        assert trees.predict(tree, X).shape == (50,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": (2, 2.0)}, "sizes must be an integer"),
        ({"sizes": ()}, "sizes must be 1 to 63"),
        ({"sizes": (2000, 200)}, "sizes must add up"),
        ({"classes": 1}, "classes must"),
        ({"depth": -1}, "depth must"),
        ({"depth": 4}, "depth must"),
        ({"sizes": (200, 200, 200), "depth": 3}, "depth must"),
        ({"epsilon": 0}, "epsilon must"),
        ({"epsilon": 2e-6}, r"epsilon/\(depth \+ 1\) must"),
        ({"neighbours": "bounded"}, "neighbours must"),
        ({"score": "ratio"}, "score must"),
        ({"most": 0}, "most must"),
        ({"unit": ""}, "unit must"),
    ],
)
def test_refusals(change, said):
    arguments = {"sizes": SMALL, "classes": 2, "depth": 2, "epsilon": 1} | change
    arguments.setdefault("neighbours", "add-remove")
    with pytest.raises(ValueError, match=said):
        trees.mechanism(**arguments)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([[0], [1]], "value must be a pair"),
        (([[0], [1]], [1]), "columns must be 4"),
        (([[0], [1], [1, 2]], [1]), "columns must have the same length"),
        ((["a", [1], [2]], [1]), "columns must be a list"),
    ],
)
def test_public_shapes_are_refused(value, said):
    made = trees.mechanism(SMALL, 2, 1, 1, "add-remove")
    with pytest.raises(ValueError, match=said):
        made(value, rng=rng())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sensitivity.of_gain(1, "add-remove"), "most must"),
        (lambda: sensitivity.of_gini(1.5, "add-remove"), "most must"),
        (lambda: sensitivity.of_errors("swap"), "neighbours must"),
        (lambda: trees.split_score([[1, 2]], "ratio"), "score must"),
    ],
)
def test_refusals_of_scores(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# ---- the recorded table --------------------------------------------------------------------------

with (recorded.FOLDER / "decision_trees.csv").open(encoding="utf-8") as file:
    RECORDED = list(csv.DictReader(file))


def test_the_recorded_table_is_whole():
    keys = {tuple(row[key] for key in recorded.NAMES[:4]) for row in RECORDED}
    many = 2 * len(trees.SCORES) * len(recorded.DEPTHS) * (len(recorded.EPSILONS) + 1)
    assert len(keys) == len(RECORDED) == many
    text = (recorded.FOLDER / "decision_trees.json").read_text(encoding="utf-8")
    beside = json.loads(text)
    assert beside["command"] == recorded.COMMAND
    assert beside["sha256"]["anes96.csv"] == data.tables()["anes96"].sha256[0]
    assert beside["sha256"].items() >= data.tables()["adult"].local.items()


def test_a_voter_who_is_left_out_moves_nobody_between_the_parts():
    frame = data.load("anes96")
    whole, less = recorded.voters(frame), recorded.voters(frame.drop(index=100))
    assert np.array_equal(less[3], np.delete(whole[3], 100))
    assert np.array_equal(less[0], np.delete(whole[0], 100, axis=0))
    assert whole[4] >= len(frame) and recorded.MOST["adult"] >= data.tables()["adult"].rows


def test_recorded_rows_are_computed_again():
    table = recorded.voters()
    for row in RECORDED:
        if (row["data"], row["depth"]) == ("anes96", "2") and row["epsilon"] in ("0.3", "inf"):
            epsilon = float(row["epsilon"])
            found = recorded.accuracies(table, row["score"], 2, epsilon)
            assert row["accuracy"] == f"{np.mean(found):.5f}"


@pytest.mark.skipif(
    not os.environ.get("DPUTILS_DATA"),
    reason="DPUTILS_DATA names no local copy of the optional tables",
)
def test_a_row_of_adult_is_computed_again():
    row = next(r for r in RECORDED if tuple(r.values())[:4] == ("adult", "errors", "2", "0.1"))
    found = recorded.accuracies(recorded.people(), "errors", 2, 0.1)
    assert row["accuracy"] == f"{np.mean(found):.5f}"
