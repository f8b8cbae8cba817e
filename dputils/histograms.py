"""Histograms: private records counted in public bins, trees of such counts, and what makes noisy
counts agree with each other.

Letters: x the counts of n bins; b the branching of a tree, h the number of its levels; y the noisy
counts of all its nodes, level by level from the top. Level j = 1, ..., h from below has a node for
each block of b^(j-1) bins, the last one for what is left; h is the smallest number with b^h >= n.
There is no root: a single node above these would only repeat their sum.

Ranges: 1 to 2^24 bins that start between -2^53 and 2^53, branching 2 to 2^50; scales as in
`geometric`.
"""

from bisect import bisect_right
from dataclasses import replace
from functools import partial

import numpy as np

from dputils import checks, geometric, private
from dputils.sensitivity import of_histogram

_BINS = 1 << 24
_REACH = 2.0**53
_CELLS = 1 << 16  # the most cells of a table of whole numbers, which is smaller than a cache
_CHUNK = 1 << 17  # records counted at a time, in one piece of memory


def counts(values, starts):
    """Count private records in public bins.

    Privacy
        Adding or removing one record changes one count by 1, whatever the record is: none is left
        out, none makes a difference to how another one is read. Public: the starts.

    Parameters
    ----------
    values : list, array or column of shape (N,)
        Private, read by `private.column`. A record counts in the last bin that starts at or below
        it; in the first one if it lies below all of them or is missing.
    starts : array of shape (n,)
        Where the bins start, increasing. The last bin has no upper end.

    Returns
    -------
    int64 array of shape (n,)

    Raises
    ------
    ValueError
        If `values` has another shape or dtype, or `starts` are not increasing.
    """
    starts = _increasing(starts)
    cells = private.column("values", values)
    if cells.dtype == object:
        return _count(cells, starts, partial(_by_object, starts=starts.tolist()))
    if cells.dtype.kind != "f":
        starts = np.append(np.floor(starts[0]), np.ceil(starts[1:]))  # the same whole numbers
    if starts[-1] - starts[0] <= _CELLS and (starts == np.floor(starts)).all():
        return _by_table(cells, starts.astype(np.int64))
    return _count(cells, starts, partial(_by_search, starts=starts))


def _increasing(starts):
    """Return the public starts of bins as floats."""
    starts = checks.floats("starts", starts, -_REACH, _REACH)
    if starts.ndim != 1 or not 1 <= starts.size <= _BINS:
        raise ValueError(f"starts must have shape (n,), n from 1 to 2**24, got {starts.shape}")
    if (np.diff(starts) <= 0).any():
        at = int(np.argmax(np.diff(starts) <= 0))
        got = f"{starts[at].item()!r} before {starts[at + 1].item()!r}"
        raise ValueError(f"starts must be increasing, got {got}")
    return starts


def _count(cells, starts, places):
    """Count the places 0, ..., n - 1 of the records, chunk by chunk."""
    total = np.zeros(starts.size, dtype=np.int64)
    for first in range(0, cells.size, _CHUNK):
        total += np.bincount(places(cells[first : first + _CHUNK]), minlength=total.size)
    return total


def _by_table(cells, starts):
    """Count between whole starts: all whole numbers from the first to the last in one table."""
    low, high = int(starts[0]), int(starts[-1])
    room = np.empty(
        min(_CHUNK, cells.size), np.int64
    )  # the same memory each time: a quarter of the time
    table = _count(cells, np.zeros(high - low + 1), partial(_steps, low=low, high=high, room=room))
    up_to = np.concatenate([[0], np.cumsum(table)])
    return np.diff(up_to[np.append(starts - low, table.size)])


def _steps(chunk, low, high, room):
    """The whole steps of numbers above low, rounded down, between 0 and high - low."""
    if chunk.dtype.kind == "f":
        steps = np.floor(_wide(chunk))
        chunk = np.fmin(np.fmax(steps, low), high)  # what is not a number becomes low
    whole = np.clip(_signed(chunk), low, high, out=room[: chunk.size])
    return whole - low if low else whole


def _wide(chunk):
    """Floats in a format that holds all starts."""
    return chunk.astype(np.promote_types(chunk.dtype, float), copy=False)


def _signed(chunk):
    """Whole numbers as int64; those beyond are cut off at 2^53, above which no bin starts."""
    if chunk.dtype == np.uint64:
        chunk = np.minimum(chunk, int(_REACH))
    return chunk.astype(np.int64, copy=False)


def _by_search(chunk, starts):
    """The bins of numbers; what is not a number counts in the first one."""
    if chunk.dtype.kind == "f":
        chunk = _wide(chunk)
        places = np.searchsorted(starts[1:].astype(chunk.dtype), chunk, side="right")
        places[np.isnan(chunk)] = 0
        return places
    return np.searchsorted(starts[1:].astype(np.int64), _signed(chunk), side="right")


def _by_object(chunk, starts):
    """The bins of exact numbers, which Python compares with floats exactly."""
    return [bisect_right(starts, x, lo=1) - 1 if x == x else 0 for x in chunk]


# -------------------------------------------------------------------------------------- mechanisms


def mechanism(starts, neighbours, epsilon, *, unit="row"):
    """Return the mechanism that counts records in bins and adds geometric noise to each count.

    Privacy
        epsilon-differentially private, exactly: the bins are disjoint, so one unit moves one count
        by 1 under add-remove, two counts under replace-one. Public: the starts.

    Parameters
    ----------
    starts : array of shape (n,)
        As for `counts`.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
    unit : str
        What has one record in the column.

    Returns
    -------
    Mechanism
        It reads a column and releases an int64 array of shape (n,). Its law is that of the release
        minus `counts`, bin by bin.

    Error
        A bin has variance v = 2 a/(1 - a)^2, a = exp(-epsilon/Delta); a range of m bins m v.

    Source
        Dwork, McSherry, Nissim, Smith 2006; Ghosh and others 2009 for the noise.
    """
    starts = _increasing(starts)
    inner = geometric.mechanism(of_histogram(neighbours, unit=unit), epsilon)
    name = f"histogram of {starts.size} bins, {inner.name}"
    return replace(inner, name=name, read=partial(counts, starts=starts))


def tree_mechanism(starts, branching, neighbours, epsilon, *, unit="row"):
    """Return the mechanism that counts records in all blocks of a tree over the bins and adds
    geometric noise to each count.

    Privacy
        epsilon-differentially private, exactly: a record is in one block of each of the h levels,
        so the sensitivity is h times that of a histogram. Public: starts, branching.

    Parameters
    ----------
    starts, neighbours, epsilon, unit
        As for `mechanism`.
    branching : int
        How many blocks of one level make one of the next, at least 2.

    Returns
    -------
    Mechanism
        It reads a column and releases the int64 counts of all nodes, in the order of `node_counts`;
        `consistent` turns them into bins. Its law is that of the release minus `node_counts`.

    Error
        A node has variance v = 2 a/(1 - a)^2, a = exp(-epsilon/(h Delta)). A range is a sum of at
        most 2 (b - 1) h nodes; after `consistent` its variance is never larger than that of any
        such sum.

    Source
        Hay, Rastogi, Miklau, Suciu 2010; Qardaji, Yang, Li 2013 for the branching.
    """
    starts = _increasing(starts)
    levels = len(widths(starts.size, branching))
    one = of_histogram(neighbours, unit=unit)
    inner = geometric.mechanism(replace(one, size=levels * one.size), epsilon)
    name = f"tree of {levels} levels over {starts.size} bins, {inner.name}"
    read = partial(_read_tree, starts=starts, branching=branching)
    return replace(inner, name=name, read=read)


def _read_tree(values, starts, branching):
    return node_counts(counts(values, starts), branching)


# ------------------------------------------------------------------------------------------- trees


def widths(n, branching):
    """Return how many bins a block has in each level of a tree, from the top: b^(h-1), ..., b, 1.

    Parameters
    ----------
    n : int
        The number of bins.
    branching : int

    Returns
    -------
    list of int
    """
    n = checks.within("n", checks.integer("n", n, low=1), 1, _BINS)
    b = checks.within("branching", checks.integer("branching", branching, low=2), 2, 1 << 50)
    blocks = [1]
    while b * blocks[0] < n:
        blocks.insert(0, b * blocks[0])
    return blocks


def node_counts(x, branching):
    """Return the sums of all blocks of a tree over bins, from the top level to the bins.

    Parameters
    ----------
    x : array of shape (n,)
        Counts of bins.
    branching : int

    Returns
    -------
    array of shape (nodes,), of the dtype of x
    """
    x = np.asarray(x)
    if x.ndim != 1 or not x.size:
        raise ValueError(f"x must have shape (n,), n at least 1, got {x.shape}")
    levels = widths(x.size, branching)
    return np.concatenate([np.add.reduceat(x, np.arange(0, x.size, w)) for w in levels])


def consistent(nodes, n, branching):
    """Return the bins that fit noisy counts of a tree best, by least squares, in time O(nodes).

    Up: z is the best estimate of a node from its own count and what is below it, of variance v;
    with the sums S and V of z and v over its children, z = (V y + S)/(V + 1), v = V/(V + 1). Down:
    what the children miss of their parent is given to them in proportion to v.

    Privacy
        Computed from what is published alone.

    Parameters
    ----------
    nodes : array of shape (..., nodes)
        In the order of `node_counts`, with independent noise of one variance.
    n : int
        The number of bins.
    branching : int

    Returns
    -------
    float array of shape (..., n)
        Any block is best estimated by the sum of its bins; nothing keeps a bin from being negative.

    Error
        Unbiased, and of all unbiased estimates that are linear in the nodes the one of least
        variance, for each range (Gauss and Markov).

    Source
        Hay, Rastogi, Miklau, Suciu 2010, Theorem 3, for complete trees.
    """
    sizes = [-(-n // w) for w in widths(n, branching)]
    nodes = np.asarray(nodes, dtype=float)
    if not nodes.ndim or nodes.shape[-1] != sum(sizes):
        raise ValueError(f"nodes must have shape (..., {sum(sizes)}), got {nodes.shape}")
    *above, z = np.split(nodes, np.cumsum(sizes)[:-1], axis=-1)
    v, seen = np.ones(n), []
    for y in reversed(above):
        s, total = _of_children(z, branching), _of_children(v, branching)
        seen.append((z, v, s, total))
        z, v = (total * y + s) / (total + 1), total / (total + 1)
    for low, v, s, total in reversed(seen):
        missing = ((z - s) / total).repeat(branching, axis=-1)[..., : low.shape[-1]]
        z = low + v * missing
    return z


def _of_children(x, branching):
    return np.add.reduceat(x, np.arange(0, x.shape[-1], branching), axis=-1)


# -------------------------------------------------------------------------------- no negative bins


def nonnegative(x):
    """Return the bins nearest to noisy ones among those that are not negative and have their sum.

    All bins are lowered by one number, and those that would be negative are set to 0. (If the sum
    is not positive, all are.)

    Privacy
        Computed from what is published alone.

    Parameters
    ----------
    x : array of shape (..., n)
        Noisy bins.

    Returns
    -------
    float array of the shape of x

    Source
        Duchi, Shalev-Shwartz, Singer, Chandra 2008, Figure 1.
    """
    x = np.asarray(x, dtype=float)
    if not x.ndim or not x.shape[-1]:
        raise ValueError(f"x must have shape (..., n), n at least 1, got {x.shape}")
    total = np.maximum(x.sum(axis=-1, keepdims=True), 0)
    falling = -np.sort(-x, axis=-1)
    over = np.cumsum(falling, axis=-1) - total
    k = np.arange(1, x.shape[-1] + 1)
    kept = np.maximum((falling * k > over).sum(axis=-1, keepdims=True), 1)
    return np.maximum(x - np.take_along_axis(over, kept - 1, axis=-1) / kept, 0)
