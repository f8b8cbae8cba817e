"""Neighbouring bins put together to buckets: where to cut, chosen in private.

Letters: x the counts of n bins; B a bucket, L its length, a power of two up to W; d(B) the sum of
|x_i - m| over its bins, m their median; p the price of a bucket. A partition costs the sum of d(B)
+ p over its buckets.

Ranges: 2 to 2^16 bins; W a power of two from 2 to 2^12, at most n; prices from 0 to 2^40 counts;
epsilon 1e-6 to 1e3.

1. How far d(B) moves. The median makes the sum of distances as small as it can be, and with m fixed
   the sum moves by 1 if one count does; so d(B) moves by at most 1, up or down, and by 0 if L = 1.
   (Distances from the mean can move by 2 - 2/L.)
2. Why one noisy minimum is enough. A record in bin j moves the costs of all buckets that hold j,
   and there are many. But a partition has exactly one of them. Let V(B) be the smallest noisy cost
   of the bins outside B. The bucket that holds j in the best partition minimises d(B) + noise +
   V(B) over the buckets that hold j, and no V(B) knows of x_j. This is a noisy minimum: fix the
   noise of all buckets but B; then B wins if its noise stays below a threshold, and a record moves
   that by at most 1 for B itself (0 if L = 1) and 1 for the best of the others. With noise of scale
   2/epsilon (1/epsilon if L = 1) the probability changes by a factor of at most exp(epsilon). What
   is cut outside B depends on x_j through B alone.
3. That needs noise in every bucket, also in those of one bin, although no record moves their d(B) =
   0; and noisy costs that are not cut off at 0. Otherwise a bucket can win because all others have
   high noise, and the probability of this can change by a factor for each of them.
4. A record that is replaced leaves one bin and enters another: two steps of adding or removing, and
   twice the scale.
5. Exactly. d(B) is a whole number, and so is its discrete Laplace noise. A tie between partitions
   goes to the one whose last bucket that differs is longer: a rule that looks at no count, so a
   threshold is a whole number, too.
"""

from fractions import Fraction
from functools import partial

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dputils import checks, histograms, noise
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import of_scores

_BINS = 1 << 16
_LONGEST = 1 << 12
_PRICES = 1 << 40
_ROOM = 1 << 20  # numbers of windows that are held at a time


def bucket_costs(x, longest):
    """Return how far the bins of each bucket are from their median, in sum.

    Privacy
        None; a record moves each cost by at most 1.

    Parameters
    ----------
    x : int array of shape (n,)
        Counts, from `histograms.counts`.
    longest : int
        W, a power of two from 2 to n.

    Returns
    -------
    list of int64 arrays
        For L = 1, 2, 4, ..., W an array of shape (n - L + 1,): d(B) of the bucket that starts at
        each place.

    Raises
    ------
    ValueError
        If `longest` is no such power, or x has another dtype or shape.
    """
    x = np.asarray(x)
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise ValueError(f"x must be integers of shape (n,), got {x.dtype} of shape {x.shape}")
    return [_costs(x.astype(np.int64), length) for length in _lengths(longest, x.size)]


def cheapest(costs, price):
    """Return the partition whose buckets have the least costs and prices in sum.

    Parameters
    ----------
    costs : list of int arrays
        In the form of `bucket_costs`.
    price : int
        Of each bucket.

    Returns
    -------
    int64 array of shape (k,)
        The bins where the buckets start.

    Error
        Time O(n log W).
    """
    n = len(costs[0])
    rows = [(1 << i, row.tolist()) for i, row in enumerate(costs)]  # whole numbers of any size
    best, last = [0] * (n + 1), [0] * (n + 1)
    for end in range(1, n + 1):
        totals = [(best[end - w] + row[end - w], -w) for w, row in rows if w <= end]
        least, back = min(totals)
        best[end], last[end] = least + price, end + back
    starts, end = [], n
    while end:
        end = last[end]
        starts.append(end)
    return np.array(starts[::-1], dtype=np.int64)


def scale(length, neighbours, epsilon):
    """Return the scale of the noise in the cost of a bucket of a length.

    Parameters
    ----------
    length : int
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction

    Returns
    -------
    Fraction
        2/epsilon, or 1/epsilon for a single bin; twice as much under replace-one (points 2 and 4).
    """
    sides = 1 if checks.integer("length", length, low=1) == 1 else 2
    epsilon = checks.as_fraction("epsilon", checks.within("epsilon", epsilon, *checks.EPSILONS))
    return Fraction(_moved(neighbours) * sides) / epsilon


def mechanism(starts, longest, neighbours, epsilon, price, *, unit="row"):
    """Return the mechanism that chooses the buckets of neighbouring bins whose noisy costs, prices
    included, have the smallest sum.

    Privacy
        epsilon-differentially private, exactly (points 1 to 5). Public: starts, longest, price. It
        releases where the buckets start and nothing else: their counts are a release of their own,
        for example by `histograms.mechanism(starts[buckets], ...)`.

    Parameters
    ----------
    starts : array of shape (n,)
        Where the bins start, as for `histograms.counts`.
    longest : int
        W, a power of two from 2 to n.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
    price : int, float or Fraction
        p, in counts; rounded to a whole number.
    unit : str
        What has one record in the column.

    Returns
    -------
    Mechanism
        It reads a column and releases an int64 array of shape (k,), increasing from 0.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Source
        Li, Hay, Miklau, Wang 2014 (DAWA) for the plan, with distances from the median in place of
        the mean and a price of its own. Unlike the authors' program (cutil.cpp, 2013) it has noise
        in the single bins and does not cut costs off: points 1 to 3.
    """
    inner = histograms.mechanism(starts, neighbours, epsilon, unit=unit)  # reads, and refuses
    n = np.size(starts)
    lengths = _lengths(longest, n)
    price = checks.as_fraction("price", checks.within("price", price, 0, _PRICES))
    scales = [scale(length, neighbours, epsilon) for length in lengths]
    return Mechanism(
        name=f"buckets of up to {lengths[-1]} of {n} bins by noisy costs, price {round(price)}",
        costs=(Pure(epsilon),),
        neighbours=inner.neighbours,
        unit=inner.unit,
        read=inner.read,
        draw=partial(_draw, scales=scales, price=round(price)),
        exact=True,
        sensitivity=of_scores(_moved(neighbours), neighbours, unit=unit),
    )


def _draw(x, scales, price, *, rng):
    costs = bucket_costs(x, 1 << (len(scales) - 1))
    noisy = [c + noise.discrete_laplace(b, c.size, rng=rng) for c, b in zip(costs, scales)]
    return cheapest(noisy, price)


def _moved(neighbours):
    """How many records are added or removed, one by one, between neighbours."""
    return 1 if checks.neighbours(neighbours) == "add-remove" else 2


def _lengths(longest, n):
    """Return the lengths 1, 2, 4, ..., longest of buckets of n bins."""
    longest, most = checks.integer("longest", longest, low=2), min(n, _LONGEST)
    if not 2 <= n <= _BINS:
        raise ValueError(f"starts must be those of 2 to 2**16 bins, got {n}")
    if longest & (longest - 1) or longest > most:
        raise ValueError(f"longest must be a power of two from 2 to {most}, got {longest}")
    return [1 << i for i in range(longest.bit_length())]


def _costs(x, length):
    """d(B) of the buckets of one length: what lies above the median minus what lies below."""
    found = np.zeros(x.size - length + 1, dtype=np.int64)
    windows, step = sliding_window_view(x, length), max(1, _ROOM // length)
    for first in range(0, found.size if length > 1 else 0, step):
        ordered = np.sort(windows[first : first + step], axis=1)
        upper, lower = ordered[:, length // 2 :], ordered[:, : length // 2]
        found[first : first + step] = (upper - lower).sum(axis=1)
    return found
