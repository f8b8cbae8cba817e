"""MWEM: one correction, pieces against cells, the law of two rounds, the bound, refusals."""

import dataclasses
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dputils import audit, geometric, mwem, noise, selection, sensitivity

ALL = [(a, b) for a in range(3) for b in range(a + 1, 4)]  # all ranges of three cells
RANGES = mwem.Ranges(*np.array(ALL).T, 3)


def rng(label=0):
    return np.random.default_rng([54, label])


def random_ranges(m, cells, source):
    ends = np.sort([source.choice(cells + 1, 2, replace=False) for _ in range(m)], axis=1)
    return mwem.Ranges(ends[:, 0], ends[:, 1], cells)


def matrix(queries):
    if isinstance(queries, mwem.Subsets):
        return queries.inside
    at = np.arange(queries.cells)
    return (queries.starts[:, None] <= at) & (at < queries.stops[:, None])


def dense(rule, released):
    """The guess by corrections of all cells."""
    y, inside = rule.start, matrix(rule.queries)
    for t in range(1, len(released) + 1):
        rows = released[:t] if rule.sweeps else released[t - 1 : t]
        for _ in range(max(rule.sweeps, 1)):
            for q, measured in rows:
                y = mwem.corrected(y, inside[q], measured, rule.step)
    return y


def test_one_correction_by_hand():
    y = mwem.corrected([5, 5, 5, 5], np.array([True, True, False, False]), 14)
    assert np.allclose(y, [10 / (1 + math.exp(-0.1))] * 2 + [10 / (1 + math.exp(0.1))] * 2)
    assert abs(y[0] - 5.2497919) < 1e-7
    cut = mwem.corrected([5, 5, 5, 5], np.array([True, True, False, False]), 10**9)
    assert np.allclose(cut, mwem.corrected([5, 5, 5, 5], np.array([1, 1, 0, 0]), 20))


@pytest.mark.parametrize("sweeps", [0, 1, 7])
@pytest.mark.parametrize("step", [1, 3.5, 8])
@pytest.mark.parametrize("kind", ["ranges", "subsets"])
def test_pieces_are_the_dense_version(sweeps, step, kind):
    source = rng(1)
    queries = random_ranges(40, 300, source)
    if kind == "subsets":
        queries = mwem.Subsets(source.random((40, 300)) < 0.4)
    start = source.uniform(0.5, 4, 300)
    rule = mwem.Rule(queries, start, sweeps, step)
    released = np.stack([source.integers(40, size=12), source.integers(-50, 900, 12)], axis=1)
    y = mwem.estimate(rule, released)
    assert np.allclose(y, dense(rule, released), rtol=1e-11, atol=0)
    assert math.isclose(y.sum(), start.sum(), rel_tol=1e-12)
    guesses = [mwem.estimate(rule, released[:t]) for t in range(12)]
    mean = mwem.estimate(rule, released, average=True)
    assert np.allclose(mean, np.mean(guesses, axis=0), rtol=1e-11)
    assert np.array_equal(mwem.estimate(rule, released[:0]), start)
    assert np.array_equal(mwem.estimate(rule, released[:0], average=True), start)


def test_the_compiled_sweep_is_its_plain_twin():
    source = rng(2)
    inside = (source.random((5, 9)) < 0.5).astype(float)
    measured, weights = source.uniform(0, 20, 5), source.uniform(1, 3, 9)
    plain, fast = weights.copy(), weights.copy()
    for floor in (mwem._FLOOR, 0.05):
        mwem._sweep(plain, inside, measured, weights.sum(), 2.0, 4, floor)
        mwem._compiled()(fast, inside, measured, weights.sum(), 2.0, 4, floor)
        assert np.allclose(plain, fast, rtol=1e-13)
    assert plain.min() == 0.05 * weights.sum()


def test_queries_of_no_cell_and_of_all_cells_change_nothing():
    queries = mwem.Subsets(np.array([[False] * 4, [True] * 4, [True, False, False, True]]))
    rule = mwem.Rule(queries, np.full(4, 5.0), 3)
    assert np.allclose(mwem.estimate(rule, [[0, 9], [1, 7], [0, -3]]), 5)
    released = np.array([[0, 9], [2, 14], [1, 3]])
    assert np.allclose(mwem.estimate(rule, released), dense(rule, released))


def test_answers_and_pieces():
    source = rng(3)
    for queries in (random_ranges(30, 50, source), mwem.Subsets(source.random((30, 50)) < 0.3)):
        inside = matrix(queries)
        x = source.integers(0, 9, 50)
        assert np.array_equal(queries.answers(x), inside.astype(int) @ x)
        assert queries.answers(x).dtype == np.int64
        labels, held = queries.pieces([4, 7, 7, 2])
        assert np.array_equal(held[:, labels], inside[[4, 7, 7, 2]])
        assert held.shape[1] <= (9 if isinstance(queries, mwem.Ranges) else 16)
        assert len(queries) == 30


@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(any),
    st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 99)), min_size=1, max_size=6),
    st.floats(0.01, 8),
)
@settings(deadline=None, max_examples=300)
def test_each_correction_makes_the_progress_of_point_3(x, steps, step):
    x, y = np.array(x), np.full(3, sum(x) / 3)
    n, inside = x.sum(), matrix(RANGES)

    def entropy(y):
        held = x > 0
        return np.sum(x[held] / n * np.log(x[held] / y[held]))

    for q, r in steps:
        a = (x - y)[inside[q]].sum()
        z = np.clip(r, 0, n) - x[inside[q]].sum()
        after = mwem.corrected(y, inside[q], r, step)
        least = step * (a**2 - z**2) / (4 * n**2) + step * (8 - step) * (a + z) ** 2 / 32 / n**2
        assert entropy(y) - entropy(after) >= least - 1e-12
        y = after


def law_of_two_rounds(x, rule, epsilon):
    """Log-probabilities of (query, count, query), the counts cut off where the guess does not see
    a difference: exact, as all beyond has one factor.
    """
    scale, n = 4 / epsilon, round(rule.start.sum())
    exact = rule.queries.answers(np.array(x))

    def chosen(y):
        expected = np.rint(rule.queries.answers(y))
        return np.log(selection.permute_and_flip_law(np.abs(exact - expected), 2 * scale))

    law = {}
    first = chosen(rule.start)
    for q, r in itertools.product(range(len(exact)), range(-1, n + 2)):
        begun = first[q] + geometric.logpmf(r - exact[q], scale)
        second = chosen(mwem.estimate(rule, np.array([[q, r]])))
        law |= {(q, r, p): begun + second[p] for p in range(len(exact))}
    return law, exact


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("step", [1, 8])
def test_the_law_of_two_rounds_keeps_epsilon(relation, step):
    epsilon, n = 2.0, 3
    rule = mwem.Rule(RANGES, np.full(3, n / 3), sweeps=2, step=step)
    tables = [x for x in itertools.product(range(4), repeat=3) if sum(x) <= 3]
    worst = 0
    for x, y in itertools.combinations(tables, 2):
        moved = np.subtract(y, x)
        if relation == "add-remove" and np.abs(moved).sum() != 1:
            continue
        if relation == "replace-one" and (moved.sum() or np.abs(moved).sum() != 2 or sum(x) < 3):
            continue
        (one, a), (other, b) = (law_of_two_rounds(t, rule, epsilon) for t in (x, y))
        for key in one:  # the second count moves by the last factor
            last = abs(int(a[key[2]] - b[key[2]])) * epsilon / 4
            worst = max(worst, abs(one[key] - other[key]) + last)
    assert worst <= epsilon * (1 + 1e-9)
    assert worst > 0.4 * epsilon


def test_the_release_has_the_law_of_two_rounds():
    """Thirty persons and step 8: the second choice depends much on the first count. False alarm
    below 1e-6.
    """
    rule = mwem.Rule(RANGES, np.full(3, 10.0), sweeps=1, step=8)
    x, n = (30, 0, 0), 3000
    law, exact = law_of_two_rounds(x, rule, 2.0)
    made = mwem.mechanism(rule, 2, 2, "replace-one")
    source = rng(4)
    released = np.array([made(x, rng=source) for _ in range(n)])
    masses = Counter()
    for (q, r, p), log in law.items():
        if 0 < r < 30:
            masses[q, r // 10, p] += math.exp(log)
    seen = Counter((q, r // 10, p) for (q, r), (p, _) in released.tolist() if 0 < r < 30)
    masses["beyond"], seen["beyond"] = 1 - sum(masses.values()), n - sum(seen.values())
    for key, mass in masses.items():
        sd = math.sqrt(n * mass * (1 - mass))
        assert abs(seen[key] - n * mass) < 7.5 * sd + 12, key
    noises = np.stack([released[:, t, 1] - exact[released[:, t, 0]] for t in (0, 1)], axis=1)
    law_of_noise = geometric.mechanism(sensitivity.of_count("replace-one"), Fraction(1, 2)).law
    audit.assert_law(noises, law_of_noise(1), discrete=True, rng=rng(5))


def test_a_query_is_not_chosen_again_without_repeats():
    rule = mwem.Rule(RANGES, np.ones(3))
    made = mwem.mechanism(rule, 6, 1, "add-remove", repeats=False)
    for _ in range(20):
        assert sorted(made([3, 0, 9], rng=rng())[:, 0]) == list(range(6))


def test_the_averaged_guess_keeps_the_bound():
    source = rng(7)
    queries = random_ranges(60, 64, source)
    x = np.zeros(64, dtype=int)
    x[[3, 50]] = 5000, 1000
    missed = 0
    for step in (1, 8):
        rule = mwem.Rule(queries, np.full(64, 6000 / 64), step=step)
        bound = mwem.accuracy(rule, 8, 4, 0.1)
        made = mwem.mechanism(rule, 8, 4, "replace-one")
        for _ in range(20):
            y = mwem.estimate(rule, made(x, rng=source), average=True)
            missed += np.abs(queries.answers(x - y)).max() > bound
    assert missed <= 16  # 40 with probability 0.1 at most: false alarm 1e-6
    assert mwem.accuracy(mwem.Rule(queries, rule.start), 8, 4, 0.1) > bound


@pytest.mark.parametrize(
    "x",
    [
        [float("nan"), None, "a"],
        [10**30, -5, 2.5],
        np.array([2**63 - 1, -(2**63), 0]),
        np.array([2**64 - 1, 1, 1], dtype=np.uint64),
        np.ma.array([1, 2, 3], mask=[0, 1, 0]),
        [0, 0, 0],
        [True, False, True],
    ],
)
def test_no_private_count_raises(x):
    made = mwem.mechanism(mwem.Rule(RANGES, np.ones(3), 3, 8), 4, 1e-5, "add-remove")
    for source in (rng(), noise.SYSTEM):
        released = made(x, rng=source)
        assert released.shape == (4, 2) and released.dtype == np.int64
        y = mwem.estimate(mwem.Rule(RANGES, np.ones(3), 1000, 8), released)
        assert np.isfinite(y).all() and math.isclose(y.sum(), 3)
    assert made.read(x).max() <= 3 * 2**40


@pytest.mark.parametrize("step", [1, 4, 8])
@pytest.mark.parametrize("more", [30, 80])
def test_the_sum_that_the_cells_have_is_divided_by(step, more):
    """The query of all cells, measured 0, may move nothing: the errors of a sum must not grow."""
    rule = mwem.Rule(RANGES, np.array([1, 1.1, 1.3]), 1, step)
    released = [[ALL.index((0, 1)), 2], [ALL.index((1, 2)), 1]] + [[ALL.index((0, 3)), 0]] * more
    y = mwem.estimate(rule, np.array(released))
    assert np.allclose(y, dense(rule, np.array(released)), rtol=1e-9, atol=0)
    assert math.isclose(y.sum(), 3.4, rel_tol=1e-12)


@pytest.mark.parametrize(
    "pair",
    [
        [[ALL.index((0, 2)), 3], [ALL.index((0, 2)), 0]],
        [[ALL.index((0, 1)), 3], [ALL.index((1, 2)), 3]],
        [[ALL.index((0, 1)), 0], [ALL.index((0, 3)), 0]],
    ],
)
def test_measurements_that_contradict_each_other_leave_a_guess(pair):
    rule = mwem.Rule(RANGES, np.ones(3), 1000, 8)
    for rounds in (1, 5, 30):
        y = mwem.estimate(rule, np.array(pair * rounds))
        assert np.isfinite(y).all() and math.isclose(y.sum(), 3, rel_tol=1e-12)
        assert y.min() > 2.9 * mwem._FLOOR


def test_a_cell_that_fell_to_the_floor_can_grow_again():
    down = [[ALL.index((0, 1)), 3], [ALL.index((1, 2)), 3]] * 600
    rule = mwem.Rule(RANGES, np.ones(3), 0, 8)
    assert 2.9 * mwem._FLOOR < mwem.estimate(rule, np.array(down))[2] < 1e-140
    up = [[ALL.index((2, 3)), 2]] * 400
    assert abs(mwem.estimate(rule, np.array(down + up))[2] - 2) < 1e-9


def test_the_floor_is_one_of_cells_and_not_only_of_pieces():
    """Cell 0 falls alone, then as a part of pieces of two and of three cells."""
    queries = mwem.Ranges([1, 4, 2, 4, 3, 4], [4, 5, 4, 5, 4, 5], 5)
    rule = mwem.Rule(queries, np.ones(5), 0, 8)
    down = [[[first, 5], [first + 1, 5]] * 600 for first in (0, 2, 4)]
    y = mwem.estimate(rule, np.concatenate(down))
    assert y.min() > 4.9 * mwem._FLOOR and math.isclose(y.sum(), 5, rel_tol=1e-12)


def test_the_plain_twin_has_the_floor_too():
    y = np.array([5.0, 5, 10])
    for _ in range(400):
        y = mwem.corrected(y, [1, 0, 1], 0, 8)
        y = mwem.corrected(y, [1, 1, 0], 0, 8)
    assert 19.9 * mwem._FLOOR < y[0] < 1e-140 and math.isclose(y.sum(), 20)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_scores_of_neighbours_differ_by_1_whatever_the_guess_is(monkeypatch):
    for guess in ([np.nan] * 3, [np.inf, 1, 2], [-np.inf, np.inf, 0], [2.0**80] * 3, [-9, 1, 2]):
        monkeypatch.setattr(mwem, "_followed", lambda rule, y, released, g=guess: np.array(g))
        runs = []
        for x in ([3, 0, 0], [2, 1, 0]):
            scores, _ = inputs(mwem.Rule(RANGES, np.ones(3)), 3, x, rng())
            runs.append(scores)
        assert all(np.abs(a - b).max() <= 1 for a, b in zip(*runs, strict=True))
        assert all(score.min() >= 0 for scores in runs for score in scores)


def inputs(rule, rounds, x, source, **options):
    """Run a release; return the scores and the counts that its mechanisms were given, by round."""
    scores, counts, parts = [], [], mwem._parts

    def recorded(made, seen):
        def read(value):
            seen.append(np.array(value))
            return made.read(value)

        return dataclasses.replace(made, read=read)

    def recording(*arguments):
        choose, measure = parts(*arguments)
        return recorded(choose, scores), recorded(measure, counts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mwem, "_parts", recording)
        made = mwem.mechanism(rule, rounds, 4, "replace-one", **options)
    released = made(x, rng=source)
    return scores, (counts, released)


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize(("sweeps", "step"), [(0, 1), (0, 8), (3, 4)])
def test_what_is_chosen_from_and_counted_in_each_round(sweeps, step, repeats):
    source = rng(8)
    for queries in (RANGES, random_ranges(30, 9, source)):
        x = source.integers(0, 60, queries.cells)
        rule = mwem.Rule(queries, np.full(x.size, x.sum() / x.size), sweeps, step)
        scores, (counts, released) = inputs(rule, 6, x, source, repeats=repeats)
        exact, left = matrix(queries).astype(int) @ x, np.arange(len(queries))
        for t, (q, _) in enumerate(released):
            answers = matrix(queries) @ dense(rule, released[:t])
            assert np.array_equal(scores[t], np.abs(exact - np.floor(answers + 0.5))[left])
            assert counts[t] == exact[q] and q in left
            left = left if repeats else left[left != q]


def test_the_bound_is_the_formula():
    rule = mwem.Rule(RANGES, np.array([10, 20, 70.0]), step=5)
    T, m, n, epsilon, beta = 7, 6, 100, 0.5, 0.2
    z = next(k for k in range(10**6) if at_most(k, 2 * T / epsilon) ** T >= 1 - beta / 2)
    c = 4 * T / epsilon * math.log(2 * (m - 1) * T / beta)
    bound = math.sqrt(4 * n**2 * math.log(10) / (5 * T) + z**2) + c + 1
    found = mwem.accuracy(rule, T, epsilon, beta)
    worse = math.sqrt(4 * n**2 * math.log(10) / (5 * T) + (z * 1.05 + 1) ** 2) + c + 1
    assert bound * (1 - 1e-12) <= found <= worse  # a union bound over the noises
    one = mwem.Rule(mwem.Ranges([0], [3], 3), rule.start, step=5)
    assert math.isclose(mwem.accuracy(one, T, epsilon, beta), found - c)


def at_most(k, scale):
    """The probability that geometric noise lies within -k and k."""
    p = math.exp(-1 / scale)
    return 1 - 2 * p ** (k + 1) / (1 + p)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mwem.Ranges([0], [4], 3), "stops must"),
        (lambda: mwem.Ranges([1], [1], 3), "stops must"),
        (lambda: mwem.Ranges([0, 1], [2], 3), "stops must"),
        (lambda: mwem.Ranges([0.0], [2], 3), "starts must"),
        (lambda: mwem.Ranges([0], [2], 2**21), "cells must"),
        (lambda: mwem.Ranges([], [], 2), "starts must"),
        (lambda: mwem.Subsets([[1, 0]]), "inside must"),
        (lambda: mwem.Subsets(np.zeros((0, 2), bool)), "inside must"),
        (lambda: mwem.Rule("ranges", np.ones(3)), "queries must"),
        (lambda: mwem.Rule(RANGES, np.ones(4)), "start must"),
        (lambda: mwem.Rule(RANGES, [1, 0, 1]), "start must"),
        (lambda: mwem.Rule(RANGES, [1, math.nan, 1]), "start must"),
        (lambda: mwem.Rule(RANGES, np.ones(3), -1), "sweeps must"),
        (lambda: mwem.Rule(RANGES, np.ones(3), 1001), "sweeps must"),
        (lambda: mwem.Rule(RANGES, np.ones(3), 1, 8.1), "step must"),
        (lambda: mwem.Rule(RANGES, np.ones(3), 1, 0), "step must"),
        (lambda: mwem.mechanism(RANGES, 1, 1, "add-remove"), "rule must"),
        (lambda: mwem.mechanism(RULE, 0, 1, "add-remove"), "rounds must"),
        (lambda: mwem.mechanism(RULE, 1, 0, "add-remove"), "epsilon must"),
        (lambda: mwem.mechanism(RULE, 1, 1e-6, "add-remove"), "epsilon/"),
        (lambda: mwem.mechanism(RULE, 1, 1, "swap"), "neighbours must"),
        (lambda: mwem.mechanism(RULE, 1, 1, "add-remove", repeats=2), "repeats must"),
        (lambda: mwem.mechanism(RULE, 7, 1, "add-remove", repeats=False), "rounds must"),
        (lambda: mwem.mechanism(RULE, 1, 1, "add-remove")([1, 2], rng=rng()), "counts must"),
        (lambda: mwem.mechanism(RULE, 1, 1, "add-remove")(np.ones(3), rng=rng()), "counts must"),
        (lambda: mwem.estimate(RULE, [[6, 1]]), "released must"),
        (lambda: mwem.estimate(RULE, [1, 2]), "released must"),
        (lambda: mwem.accuracy(mwem.Rule(RANGES, np.ones(3), 1), 1, 1, 0.1), "sweeps must"),
        (lambda: mwem.accuracy(RULE, 1, 1, 0), "beta must"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        call()


RULE = mwem.Rule(RANGES, np.ones(3))
