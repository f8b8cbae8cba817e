"""Histograms of tables in which a person has many rows: what one person contributes is bounded
before anything is counted.

Letters: m the number of rows of a person, k the cap, B the number of bins, s = k/epsilon the scale
of the noise.

Ranges: k 1 to 2^20, B 1 to 2^24; a table has fewer than 2^32 rows.

1. Bounding. A rule looks at the rows of one person and at coins of its own for this person, at
   nothing else, and gives B whole numbers that are not negative and have a sum of at most k. The
   sum of these vectors over all persons then moves by at most k in l1 when a person joins or
   leaves, for any outcome of the coins: all others contribute what they contributed before. Given
   the coins of the others, geometric noise of scale k/epsilon makes the release
   epsilon-differentially private; so it does on average over all coins. Weights are whole numbers
   of steps, in which k and the noise are counted, too.
2. Three rules. "sample" keeps min(m, k) rows, drawn at random. "weigh" keeps all of them, each with
   the weight min(1, k/m), which is what "sample" keeps on average; in whole steps of 1/STEPS row,
   each bin of a person rounded down. "once" keeps each bin of a person once, at most k bins, drawn
   at random.
3. In l2 a person moves "sample" and "weigh" by at most k, attained where all rows lie in one bin,
   and "once" by at most sqrt(k).
4. The coins decide what is kept, not how much: were they unfair, the promise would still hold.
5. Who owns a row is read from this row alone: a text by its characters, a number by its exact value
   (1, 1.0 and True are one person, 1 and "1" are two). Rows of any other owner, such as None or
   NaN, are left out: nothing that is released depends on them. Several people behind one owner are
   one person, whose rows change by up to 2k when one of them leaves: each is promised 2 epsilon.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from dputils import checks, geometric, noise, private
from dputils.sensitivity import Sensitivity

RULES = ("sample", "weigh", "once")
STEPS = 1000  # of the weight of one row
_BINS = 1 << 24
_MOST = 1 << 20
_READ_AT_ONCE = {np.dtype(code).str for code in "?bhilqBHILQd"}  # dtypes of native order
_KEY = 40  # bits by which the rows of a person are put in random order


def rows(owners):
    """Return how many rows each person of a table has, one number a person.

    Privacy
        None: these are exact values of private data, a column with one record a person.

    Parameters
    ----------
    owners : list, array or column of shape (n,)
        Private: the person of each row, a number or a text. Rows of no person are left out: point
        5 of the module.

    Returns
    -------
    int64 array of shape (persons,)
        In the order in which the persons appear.

    Raises
    ------
    ValueError
        If `owners` has another shape, or a dtype that holds neither numbers nor texts.
    """
    codes = persons(owners)
    return np.bincount(codes[codes >= 0]).astype(np.int64)


def persons(owners):
    """Return the person of each row as a number: 0, 1, ... in the order of their first rows.

    Privacy
        None: these are exact values of private data.

    Parameters
    ----------
    owners : list, array or column of shape (n,)
        Private, as in `rows`.

    Returns
    -------
    int64 array of shape (n,)
        -1 for a row of no person.
    """
    import pandas as pd

    if hasattr(owners, "shape") and len(owners.shape) != 1:
        raise ValueError(f"owners must have shape (n,), got {tuple(owners.shape)}")
    if not hasattr(owners, "dtype") and not isinstance(owners, (list, tuple, range)):
        kind = type(owners).__name__
        raise ValueError(f"owners must be a list or an array of shape (n,), got type {kind}")
    dtype = getattr(owners, "dtype", np.dtype(object))
    if getattr(dtype, "kind", "O") not in private.NUMBERS + "OUT":
        raise ValueError(f"owners must be numbers or texts, got type {dtype}")
    exact = isinstance(dtype, np.dtype) and dtype.str in _READ_AT_ONCE
    if exact and not np.ma.isMA(owners):
        return pd.factorize(np.asarray(owners))[0].astype(np.int64)  # -1 for NaN
    cells = np.ma.getdata(owners).astype(object) if np.ma.isMA(owners) else owners
    if np.ma.isMA(owners):
        cells[np.ma.getmaskarray(owners)] = None
    seen = {None: -1}
    codes = (seen.setdefault(_name(cell), len(seen) - 1) for cell in cells)
    return np.fromiter(codes, dtype=np.int64)


def of_person(most, rule, norm="l1", *, unit="person"):
    """Return how far one person moves the bounded counts, under add-remove: points 1 and 3.

    Parameters
    ----------
    most : int
        k, at least 1.
    rule : {"sample", "weigh", "once"}
    norm : {"l1", "l2"}
    unit : str

    Returns
    -------
    Sensitivity
        k in l1, sqrt(k), rounded up, in l2 for "once", otherwise k; in rows, for "weigh" in steps
        of 1/STEPS row.
    """
    k = _bound(most)
    once = checks.one_of("rule", rule, RULES) == "once"
    size = k * STEPS if rule == "weigh" else k
    if checks.one_of("norm", norm, ("l1", "l2")) == "l2" and once:
        root = math.isqrt(k)
        size = root if root * root == k else math.nextafter(math.sqrt(k), math.inf)
    return Sensitivity(size, norm, "add-remove", unit)


def bounded(owners, places, bins, most, rule, *, rng):
    """Count rows in bins, after what each person contributes has been bounded.

    Privacy
        None by itself: these are the counts to which noise is added. A person moves them by at most
        `of_person`.

    Parameters
    ----------
    owners : list, array or column of shape (n,)
        Private, as in `rows`.
    places : list, array or column of shape (n,)
        Private: the bin of each row, 0 to bins - 1, read by `private.to_grid`: what lies outside
        counts in the first or the last bin, what is missing in the first.
    bins : int
        B, public.
    most : int
        k, public.
    rule : {"sample", "weigh", "once"}
    rng : numpy.random.Generator or noise.SYSTEM
        For the rows that are kept.

    Returns
    -------
    int64 array of shape (bins,)
        In rows; for "weigh" in steps of 1/STEPS row.

    Raises
    ------
    ValueError
        If the columns differ in length, or a public argument is out of range.

    Source
        Amin, Kulesza, Munoz Medina, Vassilvitskii 2019 and Wilson and others 2020 for samples;
        Epasto and others 2020 for weights.
    """
    checks.generator(rng)
    B, k = _number_of_bins(bins), _bound(most)
    checks.one_of("rule", rule, RULES)
    return _count(_read((owners, places), bins=B), B, k, rule, rng=rng)


def mechanism(bins, most, rule, epsilon, *, unit="person"):
    """Return the mechanism that bounds what each person contributes, counts, and adds geometric
    noise to each bin.

    Privacy
        epsilon-differentially private, exactly, for a `unit` with any number of rows, under
        add-remove: point 1 of the module. Rows of no owner are left out. Public: bins, most, the
        rule, epsilon, the dtypes of the columns.

    Parameters
    ----------
    bins, most, rule
        As for `bounded`.
    epsilon : int, float or Fraction
    unit : str
        Whom an owner names.

    Returns
    -------
    Mechanism
        Exact. It reads a pair (owners, places) of columns and releases an int64 array of shape
        (bins,), in rows, for "weigh" in steps of 1/STEPS row. Its law is that of the release minus
        the bounded counts, bin by bin.

    Error
        With L rows cut off, the absolute errors of "sample", summed over all bins, have a mean of
        at most L + B k/epsilon.
    """
    B, k = _number_of_bins(bins), _bound(most)
    inner = geometric.mechanism(of_person(k, rule, unit=unit), epsilon)
    name = f"histogram of {B} bins, at most {k} a {unit} by the rule {rule!r}, {inner.name}"
    draw = partial(_draw, bins=B, most=k, rule=rule, add=inner.draw)
    return replace(inner, name=name, read=partial(_read, bins=B), draw=draw)


def _draw(table, bins, most, rule, add, *, rng):
    return add(_count(table, bins, most, rule, rng=rng), rng=rng)


# ------------------------------------------------------------------------------------------ reading


def _number_of_bins(bins):
    return checks.within("bins", checks.integer("bins", bins, low=1), 1, _BINS)


def _bound(most):
    return checks.within("most", checks.integer("most", most, low=1), 1, _MOST)


def _read(table, bins):
    """Return the codes of the persons and the bins of the rows, sorted by person."""
    if not isinstance(table, tuple) or len(table) != 2:
        raise ValueError("value must be a pair (owners, places) of columns")
    owners, places = persons(table[0]), private.to_grid(table[1], 0, bins, 1)
    if owners.size != places.size:
        raise ValueError("owners and places must have the same length")
    order = np.argsort(owners, kind="stable")
    order = order[np.count_nonzero(owners < 0) :]  # without the rows of nobody
    return owners[order], np.minimum(places[order], bins - 1)


def _name(cell):
    """Return a text or an exact number by which a person is known; None for anything else.

    Both are plain: their hashes agree with their equality, whatever the methods of the cell say.
    """
    if issubclass(type(cell), str):
        return str.__str__(cell)
    number = private.exact(cell)
    return None if number != number else number


# -------------------------------------------------------------------------------------- three rules


def _count(table, bins, most, rule, *, rng):
    owners, places = table
    if rule == "weigh":
        return _weighed(owners, places, bins, most)
    if rule == "once":
        cells = np.unique(owners * bins + places)  # below 2^56
        owners, places = np.divmod(cells, bins)
    kept = places[_at_most(owners, most, rng)]
    return np.bincount(kept, minlength=bins).astype(np.int64)


def _at_most(owners, most, rng):
    """Return where the rows are of which each person keeps at most `most`, drawn at random."""
    if not owners.size or np.bincount(owners).max() <= most:
        return np.arange(owners.size)
    keys = noise.integers(1 << _KEY, owners.size, rng=rng)
    if owners[-1] < 1 << (62 - _KEY):  # one sort of numbers is ten times as fast as two
        order = np.argsort((owners << _KEY) | keys, kind="stable")
    else:
        order = np.lexsort((keys, owners))
    return order[_rank(owners) < most]  # owners are sorted: each keeps their stretch


def _rank(owners):
    """Return 0, 1, ..., m - 1 for the rows of each person; owners are sorted."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return np.arange(owners.size) - np.repeat(starts, np.diff(starts, append=owners.size))


def _weighed(owners, places, bins, most):
    cells, c = np.unique(owners * bins + places, return_counts=True)
    of, place = np.divmod(cells, bins)
    m = np.bincount(owners)[of] if owners.size else c
    whole = c * STEPS
    steps = np.where(m > most, whole * most // np.maximum(m, 1), whole)
    total = np.zeros(bins, dtype=np.int64)
    np.add.at(total, place, steps)
    return total
