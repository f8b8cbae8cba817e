"""Classifiers that ask for counts alone: naive Bayes, random trees, a tree of noisy counts.

Letters, ranges and what is read are those of `trees`: d attributes of K_1, ..., K_d values, C
classes; L the depth; s the scale of the noise of a count, v its variance; T trees.

1. A person is in one cell of the table (value, class) of each attribute, so all d tables together
   have l1 sensitivity d, and d times that of a histogram under either relation.
2. A structure drawn without looking at the table costs nothing. Given it, a person is in one leaf
   of each of T trees: sensitivity T. If each person is dealt to one tree by a draw of their own, it
   is 1: the leaves of all trees are then disjoint.
3. A tree of noisy counts: on each level, for each node, the tables of all open attributes are
   counted with noise, at level l (from 0) of scale (d - l) L/epsilon. The nodes of a level are
   disjoint, and a person is in one cell of each open attribute of one node. The counts give the
   scores and, on the last level, the leaves. Nothing else is read.
4. A noisy count below one standard deviation of its noise, or below 1, is read as this deviation or
   as 1, whichever is larger: a public rule on what was released.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dputils import checks, geometric, noise, sensitivity, trees
from dputils.accounting.costs import Pure
from dputils.accounting.ledger import Ledger
from dputils.accounting.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class Tables:
    """What `bayes_mechanism` releases.

    Parameters
    ----------
    sizes : tuple of int
    counts : tuple of d int64 arrays of shape (K_i, C)
        Noisy.
    scale : number
        s of their noise; 0 for exact counts.
    """

    sizes: tuple
    counts: tuple
    scale: float


def bayes_mechanism(sizes, classes, epsilon, neighbours, *, unit="person"):
    """Return the counts of values by class, of all attributes, as one `Mechanism`.

    Privacy
        epsilon-differentially private, exactly, for a `unit` that has one row: point 1. Public:
        the attributes, how many values each has, the classes.

    Parameters
    ----------
    sizes, classes, epsilon, neighbours, unit
        As `trees.mechanism`.

    Returns
    -------
    Mechanism
        Exact. From a pair (columns, labels), read as `trees.mechanism` reads it, to `Tables`. Its
        law is that of each noisy count minus the exact one.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Each count has the variance v of s = d/epsilon, under replace-one of s = 2 d/epsilon.

    Source
        Vaidya, Shafiq, Basu, Hong 2013, for categorical attributes.
    """
    sizes, classes, _ = trees.form(sizes, classes, 0)
    count = _counting(len(sizes), epsilon, neighbours, unit)
    return replace(
        count,
        name=f"tables of {len(sizes)} attributes by {classes} classes, {count.name}",
        read=partial(trees.read, sizes=(*sizes, classes)),
        draw=partial(_draw_tables, sizes, classes, count),
    )


def _counting(tables, epsilon, neighbours, unit):
    """Return the geometric mechanism for histograms in each of which a unit has one place."""
    one = sensitivity.of_histogram(neighbours, unit=unit)
    part = checks.as_fraction("epsilon", checks.epsilon(epsilon)) / (tables * one.size)
    checks.within("epsilon divided by the sensitivity", part, *checks.EPSILONS)
    return geometric.mechanism(replace(one, size=tables * one.size), epsilon)


def _scale(count):
    return float(count.sensitivity.size / count.costs[0].epsilon)


def _tables(codes, sizes, classes):
    cells = zip(codes[:-1], sizes)
    found = [np.bincount(c * classes + codes[-1], minlength=k * classes) for c, k in cells]
    return [n.reshape(-1, classes) for n in found]


def _released(tables, count, *, rng):
    """Return tables of shape (.., C) with noise, all drawn at once."""
    noisy = count(np.concatenate(tables), rng=rng)
    return np.split(noisy, np.cumsum([len(n) for n in tables])[:-1])


def _draw_tables(sizes, classes, count, codes, *, rng):
    noisy = _released(_tables(codes, sizes, classes), count, rng=rng)
    return Tables(sizes, tuple(noisy), _scale(count))


def bayes_exact(columns, labels, sizes, classes):
    """Return the tables without noise: the limit for a large epsilon. **Not private.**

    Parameters
    ----------
    columns, labels, sizes, classes
        As `trees.mechanism`.

    Returns
    -------
    Tables
    """
    sizes, classes, _ = trees.form(sizes, classes, 0)
    return Tables(
        sizes, tuple(_tables(trees.read((columns, labels), (*sizes, classes)), sizes, classes)), 0
    )


def cut_counts(counts, scale):
    """Return counts that are no smaller than one standard deviation of their noise: point 4.

    Privacy
        Costs nothing: it reads what was released.

    Parameters
    ----------
    counts : int array
    scale : number
        s; 0 for exact counts.

    Returns
    -------
    float array
        At least 1.
    """
    return np.maximum(counts, max(1.0, math.sqrt(geometric.variance(scale)) if scale else 0.0))


def bayes_predict(tables, columns):
    """Return the class of each row by Bayes' rule, as if attributes were independent in a class.

    Privacy
        Costs nothing for the persons of the release.

    Parameters
    ----------
    tables : Tables
    columns : as `trees.mechanism` takes them

    Returns
    -------
    int array of shape (rows,)
        Of equally likely classes the first.
    """
    codes = trees.read_columns(columns, tables.sizes)
    cut = [cut_counts(n, tables.scale) for n in tables.counts]
    totals = sum(n.sum(axis=0) / len(n) for n in tables.counts)  # each weighted with its precision
    weights = sum(1 / len(n) for n in tables.counts)
    found = np.log(cut_counts(totals / weights, 0))
    logs = [np.log(n / n.sum(axis=0)) for n in cut]
    return np.argmax(found + sum(log[code] for log, code in zip(logs, codes)), axis=1)


def forest_mechanism(
    sizes, classes, depth, many, epsilon, neighbours, *, share="budget", unit="person"
):
    """Return a forest of random trees as one `Mechanism`: structures at random, leaves counted.

    Privacy
        epsilon-differentially private, exactly, for a `unit` that has one row: point 2. Public:
        attributes and values, classes, depth, number of trees, how they share.

    Parameters
    ----------
    sizes, classes, depth, epsilon, neighbours, unit
        As `trees.mechanism`.
    many : int
        T, from 1 to 1024; all trees together at most 2^20 leaves.
    share : {"budget", "persons"}
        Whether each tree has all persons and a T-th of epsilon, or each person is dealt to one
        tree at random, and each tree has all of epsilon.

    Returns
    -------
    Mechanism
        Exact. From a pair (columns, labels), read as `trees.mechanism` reads it, to a tuple of T
        `trees.Tree`.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Each count has the variance v of s = T/epsilon for "budget", 1/epsilon for "persons"; twice
        these scales under replace-one.

    Source
        Jagannathan, Pillaipakkamnatt, Wright 2009 ("budget").
    """
    sizes, classes, depth = trees.form(sizes, classes, depth)
    many = int(checks.within("many", checks.integer("many", many, low=1), 1, 1024))
    leaves = many * math.prod(sorted(sizes)[len(sizes) - depth :])
    if leaves > 16 * trees.LEAVES:
        raise ValueError(f"many must give at most 2**20 leaves in all, got {leaves}")
    split = checks.one_of("share", share, ("budget", "persons")) == "budget"
    count = _counting(many if split else 1, epsilon, neighbours, unit)
    return replace(
        count,
        name=f"{many} random trees of depth {depth} that share the {share}, {count.name}",
        read=partial(trees.read, sizes=(*sizes, classes)),
        draw=partial(_draw_forest, sizes, classes, depth, many, split, count),
    )


def _draw_forest(sizes, classes, depth, many, split, count, codes, *, rng):
    n = codes.shape[1]
    of = None if split or not n else noise.integers(many, n, rng=rng)
    splits = [_random_splits(sizes, depth, rng=rng) for _ in range(many)]
    shown = [codes if of is None else codes[:, of == t] for t in range(many)]
    counts = [_leaves(c, s, sizes, classes) for c, s in zip(shown, splits)]
    noisy = _released(counts, count, rng=rng)
    return tuple(trees.Tree(sizes, s, counts, _scale(count)) for s, counts in zip(splits, noisy))


def _random_splits(sizes, depth, *, rng):
    open_ones, splits = np.arange(len(sizes))[None], []
    for _ in range(depth):
        at = noise.integers(open_ones.shape[1], len(open_ones), rng=rng)
        split, _, open_ones = trees.asked(open_ones, at, sizes)
        splits.append(split)
    return tuple(splits)


def _leaves(codes, splits, sizes, classes):
    """Return the counts of the leaves of a given structure."""
    nodes = int(np.asarray(sizes)[splits[-1]].sum()) if splits else 1
    cells = trees.leaf_of(codes[:-1], splits, sizes) * classes + codes[-1]
    return np.bincount(cells, minlength=nodes * classes).reshape(nodes, classes)


def forest_predict(forest, columns):
    """Return the class of each row: that with the largest mean share over the trees.

    Privacy
        Costs nothing for the persons of the release.

    Parameters
    ----------
    forest : sequence of trees.Tree
    columns : as `trees.mechanism` takes them

    Returns
    -------
    int array of shape (rows,)
    """
    cut = [cut_counts(tree.counts, tree.scale) for tree in forest]
    shares = [n / n.sum(axis=1, keepdims=True) for n in cut]
    return np.argmax(sum(p[trees.leaf(tree, columns)] for p, tree in zip(shares, forest)), axis=1)


def noisy_tree_mechanism(
    sizes, classes, depth, epsilon, neighbours, *, score="errors", unit="person"
):
    """Return a tree whose questions are scored by noisy counts, as one `Mechanism`.

    Privacy
        epsilon-differentially private, exactly, for a `unit` that has one row: point 3. Public: as
        for `trees.mechanism`.

    Parameters
    ----------
    sizes, classes, depth, epsilon, neighbours, score, unit
        As `trees.mechanism`, with depth at least 1.

    Returns
    -------
    Mechanism
        Exact, for the score "errors"; for the others floats compare noisy counts, which are
        released. From a pair (columns, labels) to a `trees.Tree`.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        On level l (from 0) each count has the variance v of s = (d - l) L/epsilon, the leaves that
        of the last level; twice these scales under replace-one.

    Source
        Blum, Dwork, McSherry, Nissim 2005 (SuLQ ID3), with all counts of a level drawn at once.
    """
    sizes, classes, depth = trees.form(sizes, classes, depth)
    checks.integer("depth", depth, low=1)
    checks.one_of("score", score, trees.SCORES)
    moves = 1 if checks.neighbours(neighbours) == "add-remove" else 2
    whole = checks.as_fraction("epsilon", checks.epsilon(epsilon)) / moves
    levels = [
        _counting(len(sizes) - level, whole / depth, "add-remove", unit) for level in range(depth)
    ]
    return Mechanism(
        name=(
            f"tree of depth {depth} of noisy counts, {len(sizes)} attributes, {classes} classes, "
            f"each level with 1/{moves * depth} of epsilon"
        ),
        costs=(Pure(epsilon),),
        neighbours=neighbours,
        unit=unit,
        read=partial(trees.read, sizes=(*sizes, classes)),
        draw=partial(_draw_noisy_tree, sizes, classes, depth, whole, levels, score),
        exact=True,
    )


def _draw_noisy_tree(sizes, classes, depth, epsilon, levels, score, codes, *, rng):
    plan = [(f"tables of level {level}", count) for level, count in enumerate(levels)]
    ledger = Ledger(epsilon, neighbours="add-remove", unit=levels[0].unit, plan=plan)
    last = []

    def chosen(level, counts, open_ones):
        here = [(open_ones == a).any(axis=1) for a in range(len(sizes))]
        exact = [n[on].ravel() for n, on in zip(counts, here)]
        noisy = ledger.release(*plan[level], np.concatenate(exact), rng=rng)
        parts = np.split(noisy, np.cumsum([len(n) for n in exact])[:-1])
        tables = [np.zeros_like(n) for n in counts]
        for table, on, part in zip(tables, here, parts):
            table[on] = part.reshape(table[on].shape)
        scores = trees.all_scores([np.maximum(n, 0) for n in tables], score, open_ones)
        at = np.argmax(scores, axis=1)
        questions = open_ones[np.arange(len(at)), at]
        last[:] = [tables[a][node] for node, a in enumerate(questions)]
        return at

    def counted(leaves):
        return np.concatenate(last)  # the exact ones are not read

    return trees.grown(codes, sizes, classes, depth, chosen, counted, _scale(levels[-1]))
