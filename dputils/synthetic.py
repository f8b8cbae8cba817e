"""Synthetic tables: noisy marginals of a private table, joined in a tree, and rows drawn from it.

Letters: n persons with one row each, d columns of K_1, ..., K_d values, e edges; M_i the counts of
column i, M_ij those of columns i and j; y their noisy versions; s the scale of the noise, v its
variance; t = d + e the number of measured tables.

Ranges: 1 to 64 columns of 1 to 4096 values, at most 2^20 cells for two columns, epsilon 1e-6 to
1e3, and at least 3e-6 for each edge, so that a choice has 1e-6; fewer than 2^32 persons.

1. One person, one row. A row is in one cell of each marginal. So when a person joins, each marginal
   moves by 1 in l1 and geometric noise of scale 1/a makes it a-private.
2. The score of an edge. Let E_ij be what the noisy y_i and y_j would give if the columns were
   independent, in whole persons. It is computed from released numbers, so it is fixed: when a
   person joins, one cell of M_ij moves by 1, and the score |M_ij - E_ij|_1 by exactly 1, up or
   down. With exact M_i M_j'/n in place of E_ij it would move by more. A public number is taken off:
   the l1 distance that noise alone would put into M_ij if it were measured, K_i K_j E|z|.
3. The tree. Edge by edge, permute-and-flip chooses among the pairs that close no circle with those
   chosen before (the rounds of Kruskal's algorithm for a maximum spanning tree). Which pairs these
   are follows from earlier choices, which are released.
4. The budget. A third of epsilon for the choices, in equal parts; the rest for t tables, in equal
   parts, so that all have noise of one scale. Without edges, all of it for the d columns.
5. Least squares (`consistent`). With one total N for all tables, an edge with the noisy table y has
   its best fit, given the marginals p_i and p_j that it must have, at a squared distance of
   |p_i - y_i.|^2/K_j + |p_j - y_.j|^2/K_i - (N - y_..)^2/(K_i K_j). So, given N, each p_i is a
   weighted mean of what is known of column i: y_i with weight 1, the margin of each edge with
   weight 1/K_j; then all its entries are moved by one number so that they add up to N. The best N
   is the mean of all totals, weighted with 1/(number of cells).
6. Rows. From the root (the first column of each part of the tree) outwards, each column is drawn
   given the one before it. Rows with the same value there get the shares of the next column as
   exactly as whole numbers allow, in random order.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from dputils import checks, geometric, histograms, noise, private, selection
from dputils.accounting.costs import Pure
from dputils.accounting.ledger import Ledger
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import of_histogram, of_scores

_COLUMNS = 64
_VALUES = 1 << 12
_CELLS = 1 << 20
_PERSONS = 1 << 32
_FINE = 1 << 53


@dataclass(frozen=True)
class Measured:
    """What `mechanism` releases.

    Parameters
    ----------
    columns : tuple of int64 arrays of shape (K_i,)
        The noisy counts of each column.
    edges : tuple of (int, int)
        The pairs of columns chosen, i < j, in the order of the choices.
    pairs : tuple of int64 arrays of shape (K_i, K_j)
        Their noisy counts.
    """

    columns: tuple
    edges: tuple
    pairs: tuple


def of_edges(neighbours, *, unit="person"):
    """Return how far one person moves the scores of all edges: point 2.

    Returns
    -------
    Sensitivity
        1 under add-remove, 2 under replace-one, in the norm "max". The scores are not monotone.
    """
    return of_scores(
        1 if checks.neighbours(neighbours) == "add-remove" else 2, neighbours, unit=unit
    )


def marginal(table, sizes, which):
    """Count the rows of a table by their values in some columns.

    Privacy
        None by itself: noise is added to these. A person moves one cell by 1.

    Parameters
    ----------
    table : int array of shape (n, d)
        Private, as `read` gives it, or rows of `sample`.
    sizes : sequence of int
        K_1, ..., K_d.
    which : sequence of int
        The columns, counted from 0.

    Returns
    -------
    int64 array of shape (K_i for i in which)
    """
    shape = tuple(sizes[i] for i in which)
    cells = np.zeros(len(table), dtype=np.int64)
    for i, size in zip(which, shape):
        cells = cells * size + table[:, i]
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(np.int64)


def read(columns, sizes):
    """Return private columns as an int64 array of shape (n, d), by a public rule for what is odd.

    Parameters
    ----------
    columns : sequence of d lists, arrays or columns of shape (n,), or one array of shape (n, d)
        Private, read by `private.to_grid`: a value is rounded to a whole number, below 0 or missing
        it counts as 0, from K_i - 1 on as K_i - 1.
    sizes : sequence of int

    Raises
    ------
    ValueError
        If there are not d columns of one length.
    """
    sizes = _sizes(sizes)
    if getattr(columns, "ndim", 1) == 2:
        columns = [columns[:, i] for i in range(columns.shape[1])]  # a mask stays
    if len(columns) != len(sizes):
        raise ValueError(f"columns must be {len(sizes)}, one for each of sizes, got {len(columns)}")
    codes = [_codes(column, size) for column, size in zip(columns, sizes)]
    if len({code.size for code in codes}) > 1:
        raise ValueError("columns must have the same length")
    return np.stack(codes, axis=1)


def _independent(one, other, total):
    """Return E_ij of point 2: the counts of two independent columns, rounded down.

    Parameters
    ----------
    one, other : int arrays of shape (K_i,), (K_j,)
        Released counts; negative ones count as 0.
    total : number
        Released: how many persons.

    Returns
    -------
    int64 array of shape (K_i, K_j)
    """
    a, b = (np.maximum(np.asarray(y, dtype=float), 0) for y in (one, other))
    share = np.outer(a / max(a.sum(), 1), b / max(b.sum(), 1))
    return np.floor(share * min(max(float(total), 0), _PERSONS)).astype(np.int64)


def scores(table, columns, pairs, step):
    """Return the scores of pairs of columns for a private table: point 2.

    Privacy
        None by itself: an edge is chosen by these in private. A person moves each by `of_edges`.

    Parameters
    ----------
    table : int64 array of shape (n, d)
        Private, from `read`.
    columns : sequence of int arrays of shape (K_i,)
        Released counts.
    pairs : sequence of (int, int)
        The candidates.
    step : float or Fraction
        The scale s of the noise with which a pair would be measured.

    Returns
    -------
    int64 array of shape (len(pairs),)
    """
    sizes = [len(y) for y in columns]
    total = _mean_total(columns)
    return np.array([_score(table, columns, sizes, pair, total, step) for pair in pairs])


def _score(table, columns, sizes, pair, total, step):
    i, j = pair
    away = np.abs(marginal(table, sizes, pair) - _independent(columns[i], columns[j], total))
    return int(away.sum()) - int(sizes[i] * sizes[j] * _mean_size(step))


def _mean_size(step):
    """Return E|z| of two-sided geometric noise: 2a/(1 - a^2) = 1/sinh(1/s)."""
    x = 1 / float(step)
    return 1 / np.sinh(x) if x < 700 else 0.0


def _mean_total(tables):
    """Return the mean of the totals of noisy tables, each weighted with 1/(number of cells)."""
    sums, cells = np.array([[np.sum(y, dtype=float), np.size(y)] for y in tables]).T
    return float((sums / cells).sum() / (1 / cells).sum())


def scale(sizes, edges, epsilon):
    """Return the scale s of the noise in each count that `mechanism` releases, a Fraction."""
    d = len(_sizes(sizes))
    return 1 / _shares(d, _edges(edges, d), epsilon)[0]


def mechanism(sizes, edges, epsilon, *, unit="person"):
    """Return the mechanism that measures all columns and the pairs of a tree chosen in private, for
    a `Ledger`.

    Privacy
        epsilon-differentially private, exactly, under add-remove for a `unit` that has at most one
        row: points 1 to 4. Public: the columns and how many values each has, the number of edges.

    Parameters
    ----------
    sizes : sequence of int
        K_1, ..., K_d.
    edges : int
        e, from 0 (all columns independent) to d - 1 (a tree).
    epsilon : int, float or Fraction
        Of all choices and tables together.
    unit : str
        What has one row.

    Returns
    -------
    Mechanism
        Exact. It reads columns as `read` does and releases a `Measured`. Its law is that of each
        count minus the exact one. All these differences are independent, and those of the pairs are
        independent of the edges, too; those of the columns are not, since the scores use them.

    Raises
    ------
    ValueError
        If sizes, edges or epsilon are outside the ranges of the module.

    Error
        Each count has the variance v = 2a/(1 - a)^2, a = exp(-1/s), about 2 s^2, with s = 3(d +
        e)/(2 epsilon), or d/epsilon without edges.

    Source
        McKenna, Miklau, Sheldon 2021 (MST), here with geometric noise and pure epsilon.
    """
    sizes = _sizes(sizes)
    e = _edges(edges, len(sizes))
    for_table, for_choice = _shares(len(sizes), e, epsilon)
    count = geometric.mechanism(of_histogram("add-remove", unit=unit), for_table)
    choose = None
    if e:
        choose = selection.mechanism(of_edges("add-remove", unit=unit), for_choice)
    return Mechanism(
        name=f"{len(sizes)} columns and {e} pairs of a tree, each by the {count.name}",
        costs=(Pure(epsilon),),
        neighbours="add-remove",
        unit=unit,
        read=partial(read, sizes=sizes),
        draw=partial(_draw, sizes=sizes, edges=e, epsilon=epsilon, count=count, choose=choose),
        exact=True,
        sensitivity=count.sensitivity,
        law=count.law,
        discrete=True,
    )


def _draw(table, sizes, edges, epsilon, count, choose, *, rng):
    plan = [(f"column {i}", count) for i in range(len(sizes))]
    plan += [(f"choice {r}", choose) for r in range(edges)]
    plan += [(f"pair {r}", count) for r in range(edges)]
    ledger = Ledger(epsilon, neighbours="add-remove", unit=count.unit, plan=plan)
    columns, chosen, pairs = [], [], []
    for i in range(len(sizes)):
        exact = marginal(table, sizes, [i])
        columns.append(ledger.release(f"column {i}", count, exact, rng=rng))
    step = scale(sizes, edges, epsilon)
    everything = [(i, j) for j in range(len(sizes)) for i in range(j)]
    ranks = dict(zip(everything, scores(table, columns, everything, step) if edges else []))
    for r in range(edges):
        open_ones = candidates(len(sizes), chosen)
        values = np.array([ranks[pair] for pair in open_ones])
        chosen.append(open_ones[ledger.release(f"choice {r}", choose, values, rng=rng)])
    for r, pair in enumerate(chosen):
        exact = marginal(table, sizes, pair)
        pairs.append(ledger.release(f"pair {r}", count, exact, rng=rng))
    return Measured(tuple(columns), tuple(chosen), tuple(pairs))


def candidates(d, chosen):
    """Return the pairs of d columns that close no circle with those chosen, in a public order."""
    part = list(range(d))
    for i, j in chosen:
        joined = part[j]
        part = [part[i] if p == joined else p for p in part]
    return [(i, j) for j in range(d) for i in range(j) if part[i] != part[j]]


# --------------------------------------------------------------------------- from the release


def consistent(measured):
    """Return columns and pairs that agree with each other, by least squares: point 5.

    Privacy
        Costs nothing: it reads what was released.

    Parameters
    ----------
    measured : Measured

    Returns
    -------
    columns : list of float arrays of shape (K_i,)
    pairs : list of float arrays of shape (K_i, K_j)
        With the margins `columns`. Nothing keeps a cell from being negative.

    Error
        For edges that were fixed beforehand: unbiased, and of all unbiased linear estimates the one
        of least variance, for each cell. Edges chosen by noisy columns leave a small bias, since
        the weights depend on the edges and these on the noise.
    """
    total = _mean_total([*measured.columns, *measured.pairs])
    known = [[(np.asarray(y, dtype=float), 1.0)] for y in measured.columns]
    for (i, j), y in zip(measured.edges, measured.pairs):
        known[i].append((y.sum(axis=1), 1 / y.shape[1]))
        known[j].append((y.sum(axis=0), 1 / y.shape[0]))
    columns = [_with_total(_weighted(estimates), total) for estimates in known]
    pairs = [
        _with_margins(np.asarray(y, dtype=float), columns[i], columns[j])
        for (i, j), y in zip(measured.edges, measured.pairs)
    ]
    return columns, pairs


def _weighted(estimates):
    return sum(w * y for y, w in estimates) / sum(w for _, w in estimates)


def _with_total(y, total):
    return y + (total - y.sum()) / y.size


def _with_margins(y, one, other):
    """Return the table next to y that has the margins `one` and `other`, of one total."""
    y = y + ((one - y.sum(axis=1)) / y.shape[1])[:, None]
    return y + (other - y.sum(axis=0)) / y.shape[0]


def sample(measured, rows=None, *, rng):
    """Draw a synthetic table from what was released: points 5 and 6.

    Privacy
        Costs nothing: it reads what was released.

    Parameters
    ----------
    measured : Measured
    rows : int, optional
        How many; by default the released estimate of n, at least 1.
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int64 array of shape (rows, d)
        Its rows are no independent draws: where the tree allows it, counts are right to about one
        row.
    """
    columns, pairs = consistent(measured)
    if rows is None:
        rows = min(max(round(float(columns[0].sum())), 1), _PERSONS)
    rows = checks.integer("rows", rows, low=1)
    drawn = np.zeros((rows, len(columns)), dtype=np.int64)
    for column, parent, table in _outwards(columns, measured.edges, pairs):
        above = np.zeros(rows, dtype=np.int64) if parent is None else drawn[:, parent]
        for value in np.unique(above):
            own = np.flatnonzero(above == value)
            drawn[own, column] = _spread(_weights(table[value]), own.size, rng)
    return drawn


def _outwards(columns, edges, pairs):
    """Return (column, parent, counts by the parent's value), each parent before its children."""
    near = {i: [] for i in range(len(columns))}
    for (i, j), table in zip(edges, pairs):
        near[i].append((j, table))
        near[j].append((i, table.T))
    order, seen = [], set()
    for root in range(len(columns)):
        if root in seen:
            continue
        seen.add(root)
        waiting = [(root, None, columns[root][None])]
        while waiting:
            column, parent, table = waiting.pop()
            order.append((column, parent, table))
            new = [(j, column, t) for j, t in near[column] if j not in seen]
            seen |= {j for j, _, _ in new}
            waiting += new
    return order


def _weights(counts):
    """Return counts as shares, without negative ones; even shares where nothing is left."""
    positive = histograms.nonnegative(counts)
    total = positive.sum()
    return positive / total if total > 0 else np.full(counts.size, 1 / counts.size)


def _spread(shares, n, rng):
    """Return n values in random order: each comes n times its share, rounded up or down."""
    start = noise.integers(_FINE, rng=rng) / _FINE
    at = np.searchsorted(np.cumsum(shares), (np.arange(n) + start) / n, side="right")
    last = int(np.flatnonzero(shares)[-1])  # rounding may leave the sum below 1
    return np.minimum(at, last)[np.argsort(noise.integers(_FINE, n, rng=rng), kind="stable")]


# ---------------------------------------------------------------------------------------- reading


def _codes(column, size):
    return np.minimum(private.to_grid(column, 0, size, 1), size - 1)


def _sizes(sizes):
    """Return the public numbers of values of the columns."""
    sizes = [checks.integer("sizes", size, low=1) for size in sizes]
    if not 1 <= len(sizes) <= _COLUMNS or max(sizes) > _VALUES:
        raise ValueError(
            f"sizes must be 1 to {_COLUMNS} numbers of at most {_VALUES} values, got {sizes}"
        )
    largest = sorted(sizes)[-2:]
    if np.prod(largest) > _CELLS:
        raise ValueError(f"sizes must give at most 2**20 cells for two columns, got {largest}")
    return tuple(sizes)


def _edges(edges, d):
    return checks.within("edges", checks.integer("edges", edges, low=0), 0, d - 1)


def _shares(d, edges, epsilon):
    """Return what one table and one choice get of epsilon, exactly: point 4."""
    least, most = checks.EPSILONS
    least = float(max(1, 3 * edges) * checks.as_fraction("least", least))
    whole = checks.as_fraction("epsilon", checks.within("epsilon", epsilon, least, most))
    if not edges:
        return whole / d, None
    return 2 * whole / (3 * (d + edges)), whole / (3 * edges)
