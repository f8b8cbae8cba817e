"""Decision trees: a chain of private choices, one for each level, and noisy counts of the leaves.

Letters: n persons with one row each, d attributes of K_1, ..., K_d values, C classes; L the depth;
n_vc how many persons of a node have value v and class c, n_v their sum over the classes; s the
scale of the noise of a count, v = 2 a/(1 - a)^2, a = exp(-1/s), its variance.

Ranges: 1 to 63 attributes of 1 to 4096 values, 2 to 64 classes; sum(K_i) C at most 2^12; L from 0
to d, and so that the largest tree has at most 2^16 leaves; epsilon/(L + 1) from 1e-6 to 1e3, half
of that under replace-one; `most` from 1 to 2^30; fewer than 2^30 persons.

1. Scores. A split by an attribute is as good as its values are pure. The score is minus the sum
   over values v of an impurity of (n_v1, ..., n_vC): n_v - max_c n_vc persons of another class than
   the most frequent ("errors"), n_v - sum_c n_vc^2/n_v ("gini"), sum_c n_vc log2(n_v/n_vc) bits
   ("gain"; the gain is n H(C), the same for all attributes, minus this). None is divided by the
   size of the node, which is private.
2. They are monotone under add-remove. All three impurities I are homogeneous (I(t x) = t I(x)) and
   concave, so I(x + y) >= I(x) + I(y); and one person alone has impurity 0. So a person who joins
   lowers no impurity, and no score of any attribute rises. Under add-remove the scale of a choice
   is S/epsilon, not 2 S/epsilon, with S from `sensitivity.of_errors`, `of_gini`, `of_gain`.
3. Of a value with at most N persons. S depends on N for "gain". That no table breaks it: each n_vc
   is cut off at `most`, so a value has at most (C - 1) most + 1 persons after the one step that
   moves its score: that of one class that grows from below `most`, beside C - 1 full ones. (By the
   grouping rule of entropy the step of a class with b persons beside a others is at most that for b
   = 0.) Cutting off never turns a step around.
4. Exactly. Scores "errors" are whole numbers. The others are computed in floats, off by less than
   2^-8 for fewer than 2^30 persons, rounded down to whole 64ths, and the sensitivity is enlarged
   for that (`selection.rounded_sensitivity`).
5. Siblings are disjoint: a person is in one node of each level. So all choices of a level together
   cost as much as one (parallel composition), and so do the counts of all leaves. L levels and the
   leaves, one after the other, cost epsilon/(L + 1) each. All nodes of a level split, also empty
   ones: which are empty is private. A person who is replaced leaves one node and enters another:
   that is two steps, so under replace-one each part is computed for half of epsilon.
6. Doubt. From the root down a node takes the class of its parent unless another class leads it by
   more than t standard deviations of this lead, sqrt(2 v m) for m leaves below it. Only what was
   released is read, so it is free. A part of the tree in which all leaves have one class can be cut
   off.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, geometric, private, selection, sensitivity
from dputils.accounting.costs import Pure
from dputils.accounting.ledger import Ledger
from dputils.accounting.mechanism import Mechanism

_CELLS = 1 << 12
LEAVES = 1 << 16
_PERSONS = 1 << 30
_STEP = Fraction(1, 64)


@dataclass(frozen=True, eq=False)
class Tree:
    """What `mechanism` releases, and all that a prediction needs.

    Parameters
    ----------
    sizes : tuple of int
        K_1, ..., K_d.
    splits : tuple of L int64 arrays
        The attribute of each node, level by level. Child v of node i stands at place v behind the
        children of the nodes before i.
    counts : int64 array of shape (leaves, C)
        Noisy.
    scale : number
        s of their noise; 0 for exact counts.
    """

    sizes: tuple
    splits: tuple
    counts: np.ndarray
    scale: float


# ------------------------------------------------------------------------------------------- scores


def _errors(n):
    return n.sum(axis=-1) - n.max(axis=-1)


def _gini(n):
    total = n.sum(axis=-1)
    return total - (n.astype(float) ** 2).sum(axis=-1) / np.maximum(total, 1)


def _gain(n):
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = n * np.log2(n.sum(axis=-1, keepdims=True) / n)
    return np.where(n > 0, bits, 0.0).sum(axis=-1)


_IMPURITIES = {"errors": _errors, "gini": _gini, "gain": _gain}
SCORES = tuple(_IMPURITIES)


def split_score(counts, score):
    """Return the score of a split from exact counts: point 1.

    Privacy
        None by itself: a choice is made by it.

    Parameters
    ----------
    counts : int array of shape (values, C), or (..., values, C)
    score : {"errors", "gini", "gain"}

    Returns
    -------
    number, or array of shape (...)
        At most 0; in persons, for "gain" in bits.
    """
    impurity = _IMPURITIES[checks.one_of("score", score, SCORES)]
    return -impurity(np.asarray(counts)).sum(axis=-1)


def _moved(score, classes, most, unit):
    """Return how far a person moves a score, and on which grid it is read."""
    if score == "errors":
        return sensitivity.of_errors("add-remove", unit=unit), None
    of = sensitivity.of_gini if score == "gini" else sensitivity.of_gain
    exact = of((classes - 1) * most + 1, "add-remove", unit=unit)
    return selection.rounded_sensitivity(exact, _STEP, monotone=True), _STEP


# ---------------------------------------------------------------------------------------- mechanism


def mechanism(
    sizes, classes, depth, epsilon, neighbours, *, score="errors", most=_PERSONS, unit="person"
):
    """Return the private growth of a tree as one `Mechanism`, for a `Ledger`.

    Privacy
        epsilon-differentially private, exactly, for a `unit` that has one row: points 2 to 5.
        Public: the attributes and how many values each has, the classes, the depth, the score.

    Parameters
    ----------
    sizes : sequence of int
        K_1, ..., K_d.
    classes : int
        C.
    depth : int
        L; 0 releases noisy counts of the classes alone.
    epsilon : int, float or Fraction
        Of all levels and the leaves together, in equal parts.
    neighbours : {"add-remove", "replace-one"}
    score : {"errors", "gini", "gain"}
    most : int
        What counts are cut off at before they are scored, best the largest number of persons that
        is thought possible; only "gain" costs more for a larger one.
    unit : str

    Returns
    -------
    Mechanism
        Exact. From a pair (columns, labels) to a `Tree`: d columns of shape (n,), or one array or
        frame of shape (n, d), and one column of classes, all counted from 0. A value is rounded to
        a whole number; below 0 or missing it counts as 0, from K_i on as K_i - 1. Choices are made
        by permute-and-flip.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        A choice loses as a permute-and-flip of scale S (L + 1)/epsilon does
        (`selection.exponential_tail` bounds it); a count has the variance v of s = (L +
        1)/epsilon. Twice these scales under replace-one.

    Source
        Friedman and Schuster 2010, Algorithm 2 (DiffPID3), here with half of the noise (point 2),
        permute-and-flip, and no counts of inner nodes.
    """
    sizes, classes, depth = form(sizes, classes, depth)
    checks.one_of("score", score, SCORES)
    checks.within("most", checks.integer("most", most, low=1), 1, _PERSONS)
    moves = 1 if checks.neighbours(neighbours) == "add-remove" else 2
    whole = checks.as_fraction("epsilon", checks.epsilon(epsilon)) / moves
    part = checks.within("epsilon/(depth + 1)", whole / (depth + 1), *checks.EPSILONS)
    moved, grid = _moved(score, classes, int(most), unit)
    choose = selection.parallel_mechanism(moved, part, monotone=True)
    count = geometric.mechanism(sensitivity.of_histogram("add-remove", unit=unit), part)
    return Mechanism(
        name=(
            f"tree of depth {depth} by {score!r}, {len(sizes)} attributes, {classes} classes, each "
            f"level and the leaves with 1/{moves * (depth + 1)} of epsilon"
        ),
        costs=(Pure(epsilon),),
        neighbours=neighbours,
        unit=unit,
        read=partial(read, sizes=(*sizes, classes)),
        draw=partial(_draw, sizes, classes, depth, whole, choose, count, score, int(most), grid),
        exact=True,
    )


def exact(columns, labels, sizes, classes, depth, *, score="errors"):
    """Return the tree without noise: the limit for a large epsilon. **Not private.**

    Parameters
    ----------
    columns, labels, sizes, classes, depth, score
        As `mechanism`.

    Returns
    -------
    Tree
        Scores less than 1e-6 apart count as equal; of equal ones the first attribute is taken.
    """
    sizes, classes, depth = form(sizes, classes, depth)
    checks.one_of("score", score, SCORES)
    codes = read((columns, labels), (*sizes, classes))

    def choose(level, counts, open_ones):
        scores = all_scores(counts, score, open_ones)
        return np.argmax(scores > scores.max(axis=1, keepdims=True) - 1e-6, axis=1)

    return grown(codes, sizes, classes, depth, choose, lambda leaves: leaves, 0)


def _draw(sizes, classes, depth, epsilon, choose, count, score, most, grid, codes, *, rng):
    plan = [(f"choices of level {level}", choose) for level in range(depth)]
    ledger = Ledger(
        epsilon, neighbours="add-remove", unit=count.unit, plan=[*plan, ("leaves", count)]
    )

    def chosen(level, counts, open_ones):
        scores = all_scores(counts, score, open_ones, grid, most)
        return ledger.release(f"choices of level {level}", choose, scores, rng=rng)

    def counted(leaves):
        return ledger.release("leaves", count, leaves, rng=rng)

    scale = 1 / count.costs[0].epsilon
    return grown(codes, sizes, classes, depth, chosen, counted, scale)


def grown(codes, sizes, classes, depth, choose, count, scale):
    """Grow a tree: `choose` gets the counts of all nodes of a level, `count` those of the leaves.

    Each attribute is counted in one pass over the persons, for all nodes of a level at once.
    """
    cells = [code * classes + codes[-1] for code in codes[:-1]]
    node, nodes, splits = np.zeros(codes.shape[1], dtype=np.int64), 1, []
    open_ones = np.arange(len(sizes))[None]
    for level in range(depth):
        counts = [
            np.bincount(node * (size * classes) + cell, minlength=nodes * size * classes)
            for size, cell in zip(sizes, cells)
        ]
        shaped = [n.reshape(nodes, -1, classes) for n in counts]
        at = choose(level, shaped, open_ones)
        split, children, open_ones = asked(open_ones, at, sizes)
        splits.append(split)
        node = _children(codes, node, split, children)
        nodes = int(children.sum())
    leaves = np.bincount(node * classes + codes[-1], minlength=nodes * classes)
    released = count(leaves.reshape(nodes, classes))
    return Tree(tuple(sizes), tuple(splits), released, scale)


def asked(open_ones, at, sizes):
    """Return the attribute and the number of children of each node, and what the children ask."""
    nodes = len(open_ones)
    split = open_ones[np.arange(nodes), at]
    children = np.asarray(sizes)[split]
    rest = np.arange(open_ones.shape[1]) != at[:, None]
    return split, children, np.repeat(open_ones[rest].reshape(nodes, -1), children, axis=0)


def _children(codes, node, split, children):
    """Return the node of each person one level down."""
    first = np.cumsum(children) - children
    return first[node] + codes[split[node], np.arange(node.size)]


def all_scores(counts, score, open_ones, grid=None, most=_PERSONS):
    """Return the scores of the open attributes of all nodes, on the grid if there is one."""
    scores = np.stack([split_score(np.minimum(n, most), score) for n in counts], axis=1)
    scores = np.take_along_axis(scores, open_ones, axis=1)
    return scores if grid is None else np.floor(scores / float(grid)).astype(np.int64)


# --------------------------------------------------------------------------------- from the release


def leaf(tree, columns):
    """Return the leaf of each row: int array of shape (rows,).

    Parameters
    ----------
    tree : Tree
    columns : as `mechanism` takes them
    """
    return leaf_of(read_columns(columns, tree.sizes), tree.splits, tree.sizes)


def leaf_of(codes, splits, sizes):
    """Return the leaf of each row of codes of shape (attributes, rows), by the questions alone."""
    node = np.zeros(codes.shape[1], dtype=np.int64)
    for split in splits:
        node = _children(codes, node, split, np.asarray(sizes)[split])
    return node


def labels(tree, doubt=1):
    """Return the class of each node, level by level, the leaves last: point 6.

    Privacy
        Costs nothing: it reads what was released.

    Parameters
    ----------
    tree : Tree
    doubt : number
        t, at least 0: by how many standard deviations of the noise another class must lead.

    Returns
    -------
    list of L + 1 int arrays
    """
    checks.not_negative("doubt", doubt)
    s = float(tree.scale)
    variance = geometric.variance(s) if s else 0.0
    sums, below = [np.asarray(tree.counts)], [np.ones(len(tree.counts))]
    for split in reversed(tree.splits):
        starts = _starts(tree, split)
        sums.insert(0, np.add.reduceat(sums[0], starts, axis=0))
        below.insert(0, np.add.reduceat(below[0], starts))
    found = [np.argmax(sums[0], axis=1)]
    for split, counts, m in zip(tree.splits, sums[1:], below[1:]):
        above = np.repeat(found[-1], np.asarray(tree.sizes)[split])
        lead = counts.max(axis=1) - counts[np.arange(len(counts)), above]
        own = lead > doubt * np.sqrt(2 * variance * m)
        found.append(np.where(own, np.argmax(counts, axis=1), above))
    return found


def predict(tree, columns, doubt=1):
    """Return the class of each row, by the leaf that it falls into: int array of shape (rows,).

    Privacy
        Costs nothing for the persons of the release. Whoever is classified is not protected by it.

    Parameters
    ----------
    tree, doubt
        As `labels`.
    columns : as `mechanism` takes them
    """
    return labels(tree, doubt)[-1][leaf(tree, columns)]


def _starts(tree, split):
    children = np.asarray(tree.sizes)[split]
    return np.cumsum(children) - children


# ------------------------------------------------------------------------------------------ reading


def form(sizes, classes, depth):
    """Return the public form of a tree, checked."""
    sizes = tuple(checks.integer("sizes", size, low=1) for size in sizes)
    if not 1 <= len(sizes) <= 63:
        raise ValueError(f"sizes must be 1 to 63 numbers, got {len(sizes)}")
    classes = checks.within("classes", checks.integer("classes", classes, low=2), 2, 64)
    if sum(sizes) * classes > _CELLS:
        raise ValueError(f"sizes must add up to at most 2**12/classes, got {sum(sizes)}")
    depth = checks.integer("depth", depth, low=0)
    if depth > len(sizes) or math.prod(sorted(sizes)[len(sizes) - depth :]) > LEAVES:
        raise ValueError(
            f"depth must be at most the number of attributes, {len(sizes)}, and give at most 2**16 "
            f"leaves, got {depth}"
        )
    return sizes, classes, depth


def read(value, sizes):
    """Return codes of shape (d + 1, n), the class last; refuse a public type or shape only."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError(f"value must be a pair (columns, labels), got {type(value).__name__}")
    return _codes([*_listed(value[0]), value[1]], sizes)


def read_columns(columns, sizes):
    """Return codes of shape (d, n) of columns without a class, read as `mechanism` reads them."""
    return _codes(_listed(columns), sizes)


def _listed(columns):
    if getattr(columns, "ndim", 1) == 2:
        cells = getattr(columns, "iloc", columns)  # of a frame
        return [cells[:, i] for i in range(columns.shape[1])]  # a mask stays
    return list(columns)


def _codes(columns, sizes):
    """Return private columns as int64 codes, by the public rule of `mechanism`."""
    if len(columns) != len(sizes):
        raise ValueError(f"columns must be {len(sizes)}, one for each of sizes, got {len(columns)}")
    codes = [_code(column, size) for column, size in zip(columns, sizes)]
    if len({code.size for code in codes}) > 1:
        raise ValueError("columns must have the same length, and labels, too")
    return np.stack(codes)


def _code(column, size):
    cells = private.column("columns", column)
    if cells.dtype.kind in "iu":
        wide = cells.astype(np.uint64 if cells.dtype.kind == "u" else np.int64, copy=False)
        return np.clip(wide, 0, size - 1).astype(np.int64)
    return np.minimum(private.to_grid(cells, 0, size), size - 1)
