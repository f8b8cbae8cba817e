"""The exact piecewise-constant fit of a sequence: k segments, or as many as pay a penalty each.

Letters: y the values, v their weights; a segment of y costs the sum of v (y - m)^2, m its weighted
mean; k the number of segments, c the penalty. A partition is the array of the places where its
segments start, the first one 0.

Ranges: 1 to 2^24 values between -2^50 and 2^50, weights between 2^-50 and 2^50 whose sum is at most
2^40 times the least of them, penalties from 0 to 2^200.

1. Precision. Costs are differences of running sums of y and y^2, taken around the mean, in floating
   point: each is off by at most about n^1.5 2^-52 times the cost of the whole sequence in one
   segment, and mostly by far less; values whose squares vanish in floating point (around the mean
   below 1e-150) count as equal. Weights so unequal that running sums would not move by the least of
   them are refused. A partition is the best one up to k times as much; where several are that
   close, one of them.
2. Sorted values. With j the start of the last segment, the best j never moves back as the end moves
   on (the cost of a segment of sorted values satisfies the quadrangle inequality). So the best j of
   the middle end splits the ends and the starts into two smaller problems: O(n log n) a layer in
   place of O(n^2).
3. Penalties. Let F(t) be the least cost of the first t values. A start j with F(j) + cost(j..t) >=
   F(t) will never again be better than t, because splitting lowers a cost: it is dropped (PELT).
   Few starts are left where there are many segments, too many where there are few. The other
   pruning looks at the cost as a function of the mean m of the last segment: for each start a
   parabola, of which only those on the lower envelope matter (FPOP). For noise around steps it
   keeps few in both cases, but takes longer for each. So the first one runs with a bound on its
   work, the second if that is reached. On a long trend (a ramp) neither drops much, and the time
   is that of O(n^2).
4. Both loops take plain sequences, so one text serves twice: on lists, which plain Python reads
   faster than arrays, and on arrays, compiled. From a thousand values on the compiled one is worth
   its start. The arithmetic is the same.
"""

import math
from functools import lru_cache

import numpy as np

from dputils import checks

_LENGTH = 1 << 24
_REACH = 2.0**50
_PENALTIES = 2.0**200
_LONG = 1000  # from so many values on the loops are compiled
_UNEQUAL = 2.0**40  # the sum of the weights over the least of them
_WORK = 12  # starts looked at per value, beyond which dropping them is not enough


def penalised(values, penalty, weights=None):
    """Return the partition that minimises its cost plus a penalty for each segment.

    Parameters
    ----------
    values : array of shape (n,)
    penalty : float
        c, in the unit of the squared values (times that of the weights).
    weights : array of shape (n,), optional
        1 each if left out.

    Returns
    -------
    int64 array of shape (k,)
        Where the segments start.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes differ.

    Error
        Time about linear in n for noise around steps, up to O(n^2) on a trend (point 3).

    Source
        Jackson and others 2005 for the recursion; Killick, Fearnhead, Eckley 2012 and Maidstone,
        Hocking, Rigaill, Fearnhead 2017 for the two prunings.
    """
    penalty = float(checks.within("penalty", penalty, 0, _PENALTIES))
    y, v = _sequence(values, weights)
    sums = _running(y, v)
    last, _, done = _loop(_drop_dominated, sums, penalty, (float(_WORK),))
    if not done:
        reach = 1 + float(y.max() - y.min())  # values around their mean lie within
        last, _, _ = _loop(_drop_hidden, sums, penalty, (-reach, reach, 0))
    return _trace(last)


def least_squares(values, k, weights=None):
    """Return the partition into k segments that costs least.

    Parameters
    ----------
    values : array of shape (n,)
        Sorted values (up or down) are fitted in O(k n log n), others in O(k n^2) at most; from a
        thousand values on in about O(k n).
    k : int
        From 1 to n.
    weights : array of shape (n,), optional

    Returns
    -------
    int64 array of shape (k,)
        Where the segments start.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes differ.

    Source
        Bellman 1961; Jagadish and others 1998 for histograms. Point 2 for sorted values.
    """
    _, choices = tables(values, k, weights)
    end, starts = choices.shape[1] - 1, []
    for choice in choices[::-1]:
        end = choice[end]
        starts.insert(0, end)
    return np.array(starts, dtype=np.int64)


def tables(values, k, weights=None):
    """Return what the first t values cost at least in 1, ..., k segments, and where the last one of
    these starts.

    Parameters
    ----------
    values, k, weights
        As for `least_squares`.

    Returns
    -------
    costs : float array of shape (k, n + 1)
        Row i, column t: the first t values in i + 1 segments; inf where t is too small.
    choices : int64 array of shape (k, n + 1)
        0 where t is too small.
    """
    y, v = _sequence(values, weights)
    k = checks.within("k", checks.integer("k", k, low=1), 1, y.size)
    sums = _running(y, v)
    layer = _any_layer if y.size <= _LONG else _pruned_layer
    layer = _monotone_layer if _is_sorted(y) else layer
    costs, choices = np.full((k, y.size + 1), math.inf), np.zeros((k, y.size + 1), dtype=np.int64)
    costs[0, 1:] = _cost(sums, np.zeros(y.size, dtype=np.int64), np.arange(1, y.size + 1))
    for i in range(1, k):
        costs[i, i + 1 :], choices[i, i + 1 :] = layer(costs[i - 1], i, sums)
    return costs, choices


def cost(values, starts, weights=None):
    """Return the cost of a partition: the sum of weighted squares around the means of its
    segments.

    Parameters
    ----------
    values : array of shape (n,)
    starts : int array of shape (k,)
        Increasing, the first one 0, the last one below n.
    weights : array of shape (n,), optional
    """
    y, v = _sequence(values, weights)
    return float(np.sum(v * (y - fit(y, starts, v)) ** 2))


def fit(values, starts, weights=None):
    """Return the values with each segment replaced by its weighted mean, float array of shape
    (n,).

    Parameters: as for `cost`.
    """
    y, v = _sequence(values, weights)
    starts = _partition(starts, y.size)
    centre = y.mean()
    sums = np.add.reduceat(v * (y - centre), starts)
    means = centre + sums / np.add.reduceat(v, starts)
    return np.repeat(means, np.diff(starts, append=y.size))


def _partition(starts, n):
    """Return the starts of the segments of n places, checked, as an int64 array."""
    array = np.asarray(starts)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise ValueError(f"starts must be integers of shape (k,), k at least 1, got {starts!r}")
    array = array.astype(np.int64)
    if array[0] != 0 or array[-1] >= n or (np.diff(array) <= 0).any():
        raise ValueError(f"starts must increase from 0 and stay below {n}, got {starts!r}")
    return array


def _sequence(values, weights):
    y = checks.floats("values", values, -_REACH, _REACH)
    if y.ndim != 1 or not 1 <= y.size <= _LENGTH:
        raise ValueError(f"values must have shape (n,), n from 1 to 2**24, got {y.shape}")
    v = checks.floats("weights", 1 if weights is None else weights, 1 / _REACH, _REACH)
    if weights is not None and v.shape != y.shape:
        raise ValueError(f"weights must have the shape {y.shape} of values, got {v.shape}")
    if v.size > 1 and v.sum() > _UNEQUAL * v.min():
        times = v.sum() / v.min()
        raise ValueError(f"weights must sum to at most 2**40 times the least, got {times:g} times")
    return y, np.broadcast_to(v, y.shape)


def _running(y, v):
    """Running sums of weights, values and squares, from 0; values around their mean (point 1)."""
    y = y - np.dot(v, y) / v.sum()
    sums = np.zeros((3, y.size + 1))
    for row, x in zip(sums, (v, v * y, v * y * y)):
        np.cumsum(x, out=row[1:])
    return tuple(sums)


def _is_sorted(y):
    steps = np.diff(y)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _cost(sums, start, end):
    """The costs of the segments from `start` up to `end`, which is not in them."""
    weight, first, second = (x[end] - x[start] for x in sums)
    return second - first * first / weight


# ------------------------------------------------------------------------------- a layer of tables


def _any_layer(before, i, sums):
    """Least costs, and starts, of the last segment for each end above i, comparing all starts."""
    ends = np.arange(i + 1, before.size)
    best, choice = np.empty(ends.size), np.empty(ends.size, dtype=np.int64)
    for place, end in enumerate(ends):
        totals = before[i:end] + _cost(sums, slice(i, end), end)
        choice[place] = i + np.argmin(totals)
        best[place] = totals[choice[place] - i]
    return best, choice


def _monotone_layer(before, i, sums):
    """The same where the best start never moves back: the middle ends of all blocks at once."""
    ends = np.arange(i + 1, before.size)
    best, choice = np.empty(ends.size), np.empty(ends.size, dtype=np.int64)
    low, high = np.array([0]), np.array([ends.size])  # blocks of ends that are still open
    first, last = np.array([i]), np.array([before.size - 1])  # their starts, both ends included
    while low.size:
        middle = (low + high) // 2
        width = np.minimum(last, ends[middle] - 1) - first + 1
        offsets = np.cumsum(width) - width
        starts = np.arange(width.sum()) + np.repeat(first - offsets, width)
        totals = before[starts] + _cost(sums, starts, np.repeat(ends[middle], width))
        best[middle] = np.minimum.reduceat(totals, offsets)
        hits = np.flatnonzero(totals == np.repeat(best[middle], width))
        choice[middle] = starts[hits[np.searchsorted(hits, offsets)]]
        low, high = np.append(low, middle + 1), np.append(middle, high)
        first, last = np.append(first, choice[middle]), np.append(choice[middle], last)
        open_ = low < high
        low, high, first, last = low[open_], high[open_], first[open_], last[open_]
    return best, choice


def _pruned_layer(before, i, sums):
    """The same without the starts that are hidden below others (point 3), for long sequences."""
    y = np.diff(sums[1]) / np.diff(sums[0])
    reach = 1 + 2 * float(np.abs(y).max())
    last, found, _ = _loop(_drop_hidden, sums, 0.0, (-reach, reach, i), before)
    return found[i + 1 :], last[i + 1 :]


# --------------------------------------------------------------------------------------- penalties


def _loop(kernel, sums, penalty, numbers, before=0.0):
    """Run a kernel on running sums. Returns the start of the last segment and the second row of
    numbers for each end, and whether the kernel came to the end.
    """
    n = sums[0].size
    whole, real = np.zeros((3, 2 * n + 64), dtype=np.int64), np.zeros((6, 2 * n + 64))
    real[0, :n] = before
    if n <= _LONG:
        lists = [x.tolist() for x in (*sums, *whole, *real)]
        done = kernel(*lists[:3], penalty, *numbers, *lists[3:])
        return lists[3][:n], lists[7][:n], done
    done = _compiled(kernel)(*sums, penalty, *numbers, *whole, *real)
    return memoryview(whole[0, :n]), real[1, :n], done  # a view of memory gives its items faster


@lru_cache(None)
def _compiled(kernel):
    import numba

    return numba.njit(cache=True)(kernel)


def _trace(last):
    """Go back from the end; return the starts in order."""
    starts, end = [], len(last) - 1
    while end > 0:
        end = last[end]
        starts.append(end)
    return np.array(starts[::-1], dtype=np.int64)


def _drop_dominated(
    weight, first, second, penalty, work, last, alive, _a, best, totals, _b, _c, _d, _e
):
    """PELT on running sums; writes the best start of each end into `last`.

    `best[t]` is F(t), `alive` the starts that are left. Returns False, unfinished, once the starts
    looked at are more than `work` for each value.
    """
    n = len(weight) - 1
    count, done = 1, 0.0
    for t in range(1, n + 1):
        least, at = math.inf, 0
        for i in range(count):
            j = alive[i]
            s = first[t] - first[j]
            totals[i] = best[j] + (second[t] - second[j] - s * s / (weight[t] - weight[j]))
            if totals[i] < least:
                least, at = totals[i], j
        best[t], last[t] = least + penalty, at
        done += count
        kept = 0
        for i in range(count):
            if totals[i] < best[t]:
                alive[kept] = alive[i]
                kept += 1
        alive[kept] = t
        count = kept + 1
        if done > work * n:
            return False
    return True


def _drop_hidden(
    weight,
    first,
    second,
    penalty,
    low,
    high,
    layer,
    last,
    origin,
    new,
    best,
    found,
    edge,
    moved,
    least,
    centre,
):
    """FPOP on running sums; writes the best start of each end into `last`, the least cost into
    `found`.

    With `layer` 0 what comes before the last segment costs F, which is found on the way; else it
    costs `best`, what `layer` segments cost, and the last segment starts at `layer` or later.

    The lower envelope over the means from `low` to `high` has pieces i = 0, ..., count - 1, each
    from edge[i] to edge[i + 1], where the parabola of the start origin[i] is the lowest: least[i] +
    w (m - centre[i])^2. A new start is worth best[t] whatever its mean will be: it takes the place
    of what lies above that.
    """
    n = len(weight) - 1
    edge[0], edge[1], origin[0], count = low, high, layer, 1
    for t in range(layer + 1, n + 1):
        lowest, at = math.inf, 0
        for i in range(count):
            j = origin[i]
            s, w = first[t] - first[j], weight[t] - weight[j]
            centre[i] = s / w
            least[i] = best[j] + (second[t] - second[j] - s * s / w)
            beside = min(max(centre[i], edge[i]), edge[i + 1]) - centre[i]
            total = least[i] + w * beside * beside
            if total < lowest:
                lowest, at = total, j
        found[t], last[t] = lowest, at
        if layer == 0:
            best[t] = lowest + penalty
        m = 0
        for i in range(count):
            left, right, below = edge[i], edge[i + 1], best[t] - least[i]
            a = b = right
            if below > 0:
                half = math.sqrt(below / (weight[t] - weight[origin[i]]))
                a, b = max(centre[i] - half, left), min(centre[i] + half, right)
                if a >= b:
                    a = b = right
            if left < a and (m == 0 or new[m - 1] != t):
                moved[m], new[m] = left, t
                m += 1
            if a < b:
                moved[m], new[m] = a, origin[i]
                m += 1
            if b < right and new[m - 1] != t:
                moved[m], new[m] = b, t
                m += 1
        moved[m], count = high, m
        edge, moved, origin, new = moved, edge, new, origin
    return True
