"""Which bins share a count: boundaries of buckets by private choices, groups of a noisy list.

Letters: x the counts of n bins, each cut off at F, the cap; a bucket of L bins costs the sum of
squares around its mean, SSE = sum x^2 - S^2/L, S its sum; K the number of buckets, t_1 < ... <
t_(K-1) the places where all but the first of them start; Delta how far the cost of a partition
moves, R how far two of these moves lie apart.

Ranges: 3 to 2^12 bins (2^10 at once), K from 2 to n - 1, caps from 1 to 2^20; epsilon 1e-6 to 1e3.

1. Delta. A record that makes x_j one larger moves the SSE of the bucket that holds j by (2 x_j + 1)
   - (2 S + 1)/L, and no other one. Capped counts have 0 <= x_j <= F - 1 before and others between 0
   and F, so this is between -(2F - 1)(1 - 1/L) and (2F - 1)(1 - 1/L); both are attained. A bucket
   of K has at most n - K + 1 bins, and Delta = (2F - 1)(1 - 1/(n - K + 1)). A record in a bin above
   F moves nothing. The least cost over a set of partitions moves by no less than the cost of one of
   them and by no more than that of another.
2. R, the spread. The choices below need no more noise than the largest move minus the smallest one
   asks for (point 1 of `selection`), and not all moves from -Delta to Delta go together: the record
   is in one bin of count x_j. In a bucket of mean m it moves the cost by 2 (x_j - m) + 1 - 1/L. Two
   buckets of L and L' bins that hold j have means between x_j/L and F - (F - x_j)/L', so their
   moves differ by at most 2F (1 - 1/L') + (2 x_j + 1)(1/L' - 1/L). This is linear in x_j, hence
   at most 2F - (2F - 1)/max(L, L') - 1/min(L, L'), and with n - K + 1 for both R = 2F (1 - 1/(n -
   K + 1)): F/(2F - 1) of 2 Delta, about half of it unless the cap is tiny, all of it for F = 1.
3. One by one (StructureFirst). The last bucket starts at t with score -(least cost of the first t
   bins in K - 1 buckets + SSE of the rest), then the one before it, and so on: K - 1 choices that
   share epsilon. Each of them is a permute-and-flip.
4. At once. The exponential mechanism on all partitions into K buckets: one choice, which has the
   whole epsilon. Its weights are products over buckets, so sums over partitions are sums over the
   start of the last bucket, layer by layer; a partition is drawn from the last bucket to the first.
5. A record that is replaced leaves one bin and enters another: two steps, at most twice Delta and
   twice R. That is an upper bound: one record cannot always do both at their worst.
6. Exactly. The least costs come from `segments.tables` in floating point. Around the mean the
   running sums of squares and of values stay below n F^2/4 and n F/2, each off by n 2^-53 of that
   at most, so the cost of a bucket is off by about e_1 = 1.25 n^2 F^2 2^-52. Where all starts are
   compared, a cost of K buckets is off by K e_1. Sorted counts (whether they are is private) take
   the way of halves of `segments`: of two starts that look alike it may keep the worse one, which
   by the quadrangle inequality loses at most 2 e_1 in each of log2 n halvings. With n up to 1000
   both stay below 21 K e_1 < e = K n^2 F^2 2^-47. Scores are rounded down to steps of at least 4 e.
   So each of the four scores behind two moves is off by a quarter of a step at most and then loses
   less than a step, and two moves that lie in [c, c + R], whatever c is, lie less than R/step + 3
   whole steps apart: at most R/step, rounded up, + 2. (Off by half a step it would be more.) Beyond
   1000 bins the table leaves starts out on the way, and `at_once` draws by floating-point weights:
   both refuse `noise.SYSTEM`.
7. Groups. With the sizes and means of groups fixed, it is best to give the lowest values to the
   lowest mean, and so on: the best groups by SSE and a share v/L of noise each are runs of the
   sorted list. (Both satisfy the quadrangle inequality there, so O(n log n) would be possible.)
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, geometric, histograms, noise, segments, selection
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import of_histogram, of_scores

_BINS = 1 << 12
_AT_ONCE = 1 << 10
_COMPARED = 1000  # bins up to which `segments.tables` leaves no start out by a bound (point 6)
_CAPS = 1 << 20
_VARIANCES = 2.0**60


def score_sensitivity(n, k, cap, neighbours, *, unit="row"):
    """Return how far one record moves the cost of a partition of capped counts.

    Parameters
    ----------
    n, k : int
        Bins and buckets.
    cap : int
        F, public: larger counts are read as F.
    neighbours : {"add-remove", "replace-one"}
    unit : str

    Returns
    -------
    Sensitivity
        (2F - 1)(1 - 1/(n - K + 1)), a fraction, attained; under replace-one twice that, an upper
        bound (points 1 and 5).

    Raises
    ------
    ValueError
        If a public argument is out of range.
    """
    n, k, cap = _checked(n, k, cap)
    size = _steps_of(neighbours) * (2 * cap - 1) * Fraction(n - k, n - k + 1)
    return of_scores(size, neighbours, unit=unit)


def score_spread(n, k, cap, neighbours):
    """Return how far the moves of two partitions' costs can lie apart, between two neighbours.

    Parameters, Raises
        As `score_sensitivity`.

    Returns
    -------
    Fraction
        2F (1 - 1/(n - K + 1)); under replace-one twice that, an upper bound (points 2 and 5).
        Choices by cost need a scale of this over epsilon.
    """
    n, k, cap = _checked(n, k, cap)
    return _steps_of(neighbours) * 2 * cap * Fraction(n - k, n - k + 1)


def _checked(n, k, cap):
    n = checks.within("n", checks.integer("n", n, low=3), 3, _BINS)
    k = checks.within("k", checks.integer("k", k, low=2), 2, n - 1)
    return n, k, checks.within("cap", checks.integer("cap", cap, low=1), 1, _CAPS)


def _steps_of(neighbours):
    """How many records are added or removed, one by one, between neighbours."""
    return 1 if checks.neighbours(neighbours) == "add-remove" else 2


def one_by_one(starts, k, cap, neighbours, epsilon, *, unit="row"):
    """Return the mechanism that chooses the boundaries of k buckets from right to left.

    Privacy
        epsilon-differentially private: k - 1 choices of epsilon/(k - 1) each (points 2, 3, 5 and
        6). Public: starts, k, cap. It releases where the buckets start and nothing else; their
        counts are a release of their own, for example by `histograms.mechanism(starts[buckets],
        ...)`, which needs no cap.

    Parameters
    ----------
    starts : array of shape (n,)
        Where the bins start, as for `histograms.counts`.
    k, cap
        As for `score_sensitivity`; not chosen by looking at the records.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
    unit : str
        What has one record in the column.

    Returns
    -------
    Mechanism
        It reads a column and releases an int64 array of shape (k,), increasing from 0.

    Raises
    ------
    ValueError
        If a public argument is out of range, or the cap so large that costs are rounded by more
        than a record moves them.

    Error
        Each choice has a cost within (k - 1) R/epsilon (ln n + u) of the best one with probability
        at least 1 - exp(-u), given the choices before it.

    Source
        Xu, Zhang, Xiao, Yang, Yu 2012 (StructureFirst), with permute-and-flip in place of the
        exponential mechanism, counts that are cut off, and R in place of 2 (2F + 1).
    """
    inner, moved, spread = _public(starts, k, cap, neighbours, epsilon, unit)
    step = _step(np.size(starts), k, cap)
    if step > moved.size:
        raise ValueError(
            f"cap must be smaller for {k} of {np.size(starts)} bins, got {cap}: costs would be "
            f"rounded to {float(step):g}, and a record moves them by {float(moved.size):g}"
        )
    each = Fraction(checks.as_fraction("epsilon", epsilon), k - 1)
    rounded = replace(moved, size=_half_in_steps(spread, step))
    scale = selection.exponential_scale(rounded, each) * float(step)  # refuses as a draw would
    choose = partial(selection.exact_release, sensitivity=rounded, epsilon=each)
    return Mechanism(
        name=f"boundaries of {k} buckets of {np.size(starts)} bins one by one, cap {cap}, "
        f"scale {scale:.4g}",
        costs=(Pure(epsilon),),
        neighbours=inner.neighbours,
        unit=inner.unit,
        read=partial(_capped, read=inner.read, cap=cap),
        draw=partial(_draw_one_by_one, k=k, step=step, choose=choose),
        exact=np.size(starts) <= _COMPARED,
        sensitivity=moved,
    )


def at_once(starts, k, cap, neighbours, epsilon, *, unit="row"):
    """Return the exponential mechanism on all partitions into k buckets, in floating point.

    Privacy
        In real arithmetic epsilon-differentially private (points 2, 4 and 5): one choice, however
        many buckets. Rounded: for experiments only. Public: starts, k, cap.

    Parameters, Returns, Raises
        As `one_by_one`; at most 2^10 bins.

    Error
        A partition has a probability proportional to exp(-cost/lambda), lambda = R/epsilon. Its
        cost is within lambda (ln C(n - 1, k - 1) + u) of the least one with probability at least 1
        - exp(-u). Time O(n^2 k).

    Source
        McSherry and Talwar 2007. Drawing from exponentially many candidates layer by layer: as
        Blocki, Datta, Bonneau 2016 do for integer partitions.
    """
    inner, moved, spread = _public(starts, k, cap, neighbours, epsilon, unit)
    if np.size(starts) > _AT_ONCE:
        raise ValueError(f"starts must be those of at most 2**10 bins, got {np.size(starts)}")
    scale = selection.exponential_scale(spread / 2, epsilon)
    return Mechanism(
        name=f"boundaries of {k} buckets of {np.size(starts)} bins at once, cap {cap}, "
        f"scale {scale:.4g}",
        costs=(Pure(epsilon),),
        neighbours=inner.neighbours,
        unit=inner.unit,
        read=partial(_capped, read=inner.read, cap=cap),
        draw=partial(_draw_at_once, k=k, scale=scale),
        sensitivity=moved,
    )


def _public(starts, k, cap, neighbours, epsilon, unit):
    """Return what reads the bins and refuses, the sensitivity, and the spread of the moves."""
    inner = histograms.mechanism(starts, neighbours, epsilon, unit=unit)
    if not 3 <= np.size(starts) <= _BINS:
        raise ValueError(f"starts must be those of 3 to 2**12 bins, got {np.size(starts)}")
    moved = score_sensitivity(np.size(starts), k, cap, neighbours, unit=unit)
    return inner, moved, score_spread(np.size(starts), k, cap, neighbours)


def _step(n, k, cap):
    """Return the step of the scores: a power of two, at least four times what costs are off."""
    least, step = max(Fraction(k * (n * cap) ** 2, 1 << 45), Fraction(cap, 1 << 20)), Fraction(1)
    while step >= 2 * least:
        step /= 2
    while step < least:
        step *= 2
    return step


def _half_in_steps(spread, step):
    """Return half of what whole scores can spread over, rounded up: the size whose double a choice
    allows for (point 6).
    """
    return math.ceil(spread / step / 2) + 1


def _capped(values, read, cap):
    return np.minimum(read(values), cap)


def _last_costs(x, end, first):
    """The costs of the buckets that start at first, ..., end - 1 and go up to `end`."""
    squares, sums = np.cumsum((x * x)[first:end][::-1])[::-1], np.cumsum(x[first:end][::-1])[::-1]
    return squares - sums * (sums / np.arange(end - first, 0, -1))


def _draw_one_by_one(x, k, step, choose, *, rng):
    best, _ = segments.tables(x, k - 1)
    starts, end = [], x.size
    for i in range(k - 1, 0, -1):
        costs = best[i - 1, i:end] + _last_costs(x, end, i)
        end = i + choose(selection.score_steps(-costs, step), rng=rng)
        starts.append(end)
    return np.array([0, *starts[::-1]], dtype=np.int64)


def _draw_at_once(x, k, scale, *, rng):
    weights = np.full((x.size, x.size + 1), -np.inf)  # logarithms, of the bucket from row to column
    for end in range(1, x.size + 1):
        weights[:end, end] = -_last_costs(x, end, 0) / scale
    layers = [weights[0, :-1]]
    for _ in range(k - 2):
        sums = np.logaddexp.reduce(layers[-1][:, None] + weights[:, :-1], axis=0)
        layers.append(sums)
    starts, end = [], x.size
    for layer in layers[::-1]:
        logs = layer + weights[:, end]
        end = int(np.argmax(logs + noise.gumbel(1, x.size, rng=rng)))
        starts.append(end)
    return np.array([0, *starts[::-1]], dtype=np.int64)


# ------------------------------------------------------------------------------------------ groups


def groups(values, variance):
    """Return the best groups of bins that are alike by noisy values, neighbours or not.

    They minimise the sum of SSE + v/L over the groups: what the bins of a group differ, and what
    one noise of variance v, shared by L bins, adds to their squared errors.

    Privacy
        Computed from what is published alone.

    Parameters
    ----------
    values : array of shape (n,)
        Noisy bins.
    variance : float
        v, of the noise in a group's count that comes later.

    Returns
    -------
    int64 array of shape (n,)
        The group of each bin: 0 for the lowest values, then 1, ...

    Error
        Time O(n^2). The costs are differences of running sums around the mean of all values: the
        groups are the best ones where the largest value is up to about 1e6 times what tells groups
        apart; one value far beyond that blurs the others.

    Source
        Zhang, Chen, Xu, Meng, Xie 2014 (AHP), with the best groups in place of greedy ones.
    """
    y = checks.floats("values", values, -(2.0**50), 2.0**50)
    if y.ndim != 1 or not 1 <= y.size <= _BINS:
        raise ValueError(f"values must have shape (n,), n from 1 to 2**12, got {y.shape}")
    variance = float(checks.within("variance", variance, 0, _VARIANCES))
    order = np.argsort(y, kind="stable")
    y = y[order] - y.mean()
    best, last = np.zeros(y.size + 1), np.zeros(y.size + 1, dtype=np.int64)
    for end in range(1, y.size + 1):
        totals = best[:end] + _last_costs(y, end, 0) + variance / np.arange(end, 0, -1)
        last[end] = np.argmin(totals)
        best[end] = totals[last[end]]
    first, end = np.zeros(y.size, dtype=np.int64), y.size
    while end:
        end = last[end]
        first[end] = end > 0
    labels = np.empty(y.size, dtype=np.int64)
    labels[order] = np.cumsum(first)
    return labels


def group_mechanism(starts, labels, neighbours, epsilon, *, unit="row"):
    """Return the mechanism that counts the records of groups of bins, with geometric noise.

    Privacy
        epsilon-differentially private, exactly: a record is in one bin, a bin in one group. Public:
        starts, and labels, which come from the public or from an earlier release.

    Parameters
    ----------
    starts : array of shape (n,)
    labels : int array of shape (n,)
        The group of each bin, 0 to g - 1, as `groups` returns it.
    neighbours, epsilon, unit
        As for `histograms.mechanism`.

    Returns
    -------
    Mechanism
        It reads a column and releases an int64 array of shape (g,). Its law is that of the release
        minus the exact counts of the groups.

    Error
        A group has the variance of one geometric noise, each of its L bins 1/L^2 of that.
    """
    inner = histograms.mechanism(starts, neighbours, epsilon, unit=unit)
    labels = np.asarray(labels)
    if labels.shape != np.shape(starts) or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers of shape {np.shape(starts)}, got {labels!r}")
    named = np.unique(labels)
    if named[0] != 0 or named[-1] != named.size - 1:
        raise ValueError(f"labels must be 0 to g - 1 with none left out, got {named!r}")
    noisy = geometric.mechanism(of_histogram(neighbours, unit=unit), epsilon)
    name = f"{named.size} groups of {labels.size} bins, {noisy.name}"
    return replace(inner, name=name, read=partial(_grouped, read=inner.read, labels=labels))


def _grouped(values, read, labels):
    totals = np.zeros(labels.max() + 1, dtype=np.int64)
    np.add.at(totals, labels, read(values))
    return totals
