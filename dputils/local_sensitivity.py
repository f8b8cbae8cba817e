"""The median of a private column by two roads around its global sensitivity: noise scaled to a
smooth bound of the local one, and the choice of a value by its distance from being a median.

What `stability` has besides, a test and chunks, reads its tables here.

Values are clamped to public bounds [L, U] and rounded to a public grid, as `private.to_grid` does;
a unit has one value. Neighbours are add-remove throughout: the number n of values is private.

Letters: x_1 <= ... <= x_n the values, with x_i = L for i < 1 and x_i = U for i > n; A_k the largest
local sensitivity among all tables up to k units away; beta how fast a smooth bound may change; c
how many smooth sensitivities are one scale of the noise; b a bound that somebody proposes.

Ranges: epsilon 1e-6 to 1e3 (smooth sensitivity: 1e-3 to 20), delta 1e-300 to 1; the bounds are at
most 2^40 steps of the grid apart, candidates at most 2^20.

1. The median is the mean of the x_i at the places floor((n + 1)/2) and ceil((n + 1)/2), so the
   midpoint of the range for an empty table. It is half a sum of two whole numbers of steps: all
   that follows counts half steps, exactly.
2. A_k. An even table of 2p values has the local sensitivity (x_(p+1) - x_p)/2; an odd one, half the
   larger of the two gaps beside its middle value. To open a gap between x_i and x_j at the median,
   the j - i - 1 values between must leave, and i values on its left must balance n + 1 - j on its
   right, up to one: every unit of imbalance beyond costs a unit as well. As long as the imbalance d
   = i + j - n - 1 is 2 or more in size, moving the end on the heavier side outwards costs nothing
   more (the value at the end leaves anyway) and widens the gap. So the widest gap within k units
   has j = i + k + 1 and d = 0, or d = 1 or -1: A_k = (x_(i+k+1) - x_i)/2, the larger of i =
   floor((n - k)/2) and its ceiling.
3. Cauchy noise. Of two Cauchy laws with centres m, m' and scales s, s' the largest log-ratio is
   the distance of (m, s) and (m', s') in the hyperbolic half-plane, arcosh(1 + ((m - m')^2 + (s -
   s')^2)/(2 s s')) (the sharp form of Harnack's inequality). Here s = c S and s' = c S', where S
   and S' differ by a factor of at most e^beta, and |m - m'| <= min(S, S'). With S' = S e^r the
   argument of arcosh is at most cosh r + e^-r/(2 c^2), which is convex in r: it is largest at r = 0
   or at r = beta.
4. Laplace noise of scale s = 2 S/epsilon. First change the scale to s' at the same centre, then
   move the centre by at most S' at the scale s', which costs epsilon/2. In the first step, if s =
   s' e^r is the wider scale, the log-ratio -r + (e^r - 1)|z|/s exceeds epsilon/2 for |z|/s > t =
   (epsilon/2 + r)/(e^r - 1), and the delta at epsilon/2 is e^-t (1 - e^-r), which grows with r. If
   s is the narrower one, the log-ratio is at most beta: no delta as long as beta <= epsilon/2.
"""

import math
from functools import partial

import numpy as np

from dputils import checks, noise, private, selection
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import of_scores

SMOOTH_EPSILONS = (1e-3, 20.0)
_STEPS, _CANDIDATES = 1 << 40, 1 << 20
_FLOOR = 2.0**-30  # of the range: a constant below which no smooth bound falls, itself smooth


# ------------------------------------------------------------------------------ how a table is read


def padded(values, lower, upper, grid=1):
    """Return the lower bound, the sorted values, the upper bound, all in steps of the grid.

    Private, nothing is released: what the functions below and those of `stability` begin with.

    Parameters
    ----------
    values : list, array or column of shape (n,)
        Private, read by `private.to_grid`.
    lower, upper, grid : int, float or Fraction
        Public.

    Returns
    -------
    int64 array of shape (n + 2,)
    """
    low, high = _bounds(lower, upper, grid)
    return np.concatenate([[low], np.sort(private.to_grid(values, lower, upper, grid)), [high]])


def twice_median(table):
    """Return twice the median of what `padded` returns, a whole number of steps: private."""
    n = len(table) - 2
    return int(table[(n + 1) // 2] + table[(n + 2) // 2])


def half_steps(bound, lower, upper, grid=1):
    """Return a public bound as a whole number of half steps of the grid.

    Parameters
    ----------
    bound : int, float or Fraction
        b, a multiple of grid/2 below half the range.
    lower, upper, grid : int, float or Fraction
    """
    low, high = _bounds(lower, upper, grid)
    halves = 2 * checks.as_fraction("bound", checks.positive("bound", bound))
    halves /= checks.as_fraction("grid", grid)
    if halves.denominator != 1 or not halves < high - low:
        raise ValueError(f"bound must be a multiple of grid/2 below half the range, got {bound!r}")
    return int(halves)


# ------------------------------------------------------------------------ what the table looks like


def median(values, lower, upper, grid=1):
    """Return the exact median of the values, clamped and rounded: private, nothing is released.

    Parameters
    ----------
    values : list, array or column of shape (n,)
        Private, read by `private.to_grid`.
    lower, upper, grid : int, float or Fraction
        Public.

    Returns
    -------
    float
        (lower + upper)/2 for an empty table.
    """
    step = checks.as_fraction("grid", grid)
    return float(twice_median(padded(values, lower, upper, grid)) * step / 2)


def moves(values, lower, upper, grid=1):
    """Return A_0, ..., A_n: the largest local sensitivity of the median among all tables that are
    up to k units away.

    Private, nothing is released. A_0 is the local sensitivity of the table itself, A_n is half the
    range, the global one.

    Returns
    -------
    float array of shape (n + 1,)
        In the unit of the values, never falling; in O(n log n) (point 2 of the module).

    Source
        Nissim, Raskhodnikova, Smith 2007, section 3.1, for replace-one neighbours.
    """
    return _windows(padded(values, lower, upper, grid)) * (float(grid) / 2)


def smooth_sensitivity(values, lower, upper, beta, grid=1):
    """Return max_k e^(-beta k) A_k, the smallest beta-smooth bound of the local sensitivity.

    Private, nothing is released. Between neighbours it changes by a factor of at most e^beta. Never
    below 2^-30 of half the range, so that no scale vanishes: the larger of the two is smooth, too.

    Parameters
    ----------
    values, lower, upper, grid
        As in `median`.
    beta : float, from 1e-9 to 1e3

    Source
        Nissim, Raskhodnikova, Smith 2007, Definition 2.1 and Lemma 2.3.
    """
    return _smooth(padded(values, lower, upper, grid), _beta(beta)) * float(grid) / 2


def distance(values, lower, upper, bound, grid=1):
    """Return how many units must join or leave until the local sensitivity exceeds `bound`.

    Private, nothing is released. It is the smallest k with A_k > bound, from 0 to n, and itself has
    the sensitivity 1.

    Parameters
    ----------
    values, lower, upper, grid
        As in `median`.
    bound : int, float or Fraction
        b, a multiple of grid/2 below half the range.
    """
    halves = half_steps(bound, lower, upper, grid)
    widths = _windows(padded(values, lower, upper, grid))
    return int(np.searchsorted(widths, halves, side="right"))


def rank_distances(values, lower, upper, grid=1):
    """Return for each value of the grid how many units must join or leave until it is a median.

    t is a median if at least half of the values are at most t and at least half at least t.
    Private, nothing is released; each has the sensitivity 1.

    Returns
    -------
    int64 array of shape (m,)
        For lower, lower + grid, ..., upper: max(0, |below - above| - equal).
    """
    low, high = _bounds(lower, upper, grid)
    _few_enough(low, high)
    return _ranks(private.to_grid(values, lower, upper, grid), low, high)


# ------------------------------------------------------------------------------- smooth sensitivity


def cauchy_beta(epsilon):
    """Return the beta for `cauchy_scale`: the larger of ln(2 cosh(epsilon) - 1) and
    epsilon/sqrt(2).

    Any beta below epsilon is private with the scale that belongs to it. Up to the first of the two
    a larger beta costs nothing; where A_k grows in proportion to k the error is proportional to
    c/beta, which for small epsilon is smallest at the second.
    """
    e = float(checks.within("epsilon", epsilon, *SMOOTH_EPSILONS))
    return max(math.log(2 * math.cosh(e) - 1), e / math.sqrt(2))


def cauchy_scale(epsilon, beta):
    """Return the smallest c for which Cauchy noise of scale c S is epsilon-private.

    Parameters
    ----------
    epsilon : float, from 1e-3 to 20
    beta : float, below epsilon

    Returns
    -------
    float
        1/(2 c^2) is the smaller of cosh(epsilon) - 1 and e^beta (cosh(epsilon) - cosh(beta)).

    Source
        Point 3 of the module. Nissim, Raskhodnikova, Smith 2007 have c = 6/epsilon for beta =
        epsilon/6.
    """
    e = float(checks.within("epsilon", epsilon, *SMOOTH_EPSILONS))
    beta = _beta(beta)
    if not beta < e:
        raise ValueError(f"beta must be below epsilon, got beta={beta!r}, epsilon={e!r}")
    apart = 2 * math.sinh((e + beta) / 2) * math.sinh((e - beta) / 2)  # cosh(e) - cosh(beta)
    least = min(2 * math.sinh(e / 2) ** 2, math.exp(beta) * apart)
    return 1 / math.sqrt(2 * least)


def laplace_beta(epsilon, delta):
    """Return the largest beta, up to epsilon/2, for which Laplace noise of scale 2 S/epsilon is
    (epsilon, delta)-private by the two steps of point 4.

    Parameters
    ----------
    epsilon : float, from 1e-3 to 20
    delta : float, from 1e-300 to 1

    Source
        Nissim, Raskhodnikova, Smith 2007, section 2, for the two steps.
    """
    e = float(checks.within("epsilon", epsilon, *SMOOTH_EPSILONS))
    delta = float(checks.within("delta", checks.probability("delta", delta), *checks.DELTAS))
    low, high = 0.0, e / 2
    if _dilation(high, e / 2) <= delta:
        return high
    while high - low > 1e-12 * high:  # the delta at `low` is at most the one stated
        middle = (low + high) / 2
        low, high = (middle, high) if _dilation(middle, e / 2) <= delta else (low, middle)
    return low


def smooth_mechanism(lower, upper, grid, epsilon, *, beta=None, unit="row"):
    """Return the median with Cauchy noise scaled to its smooth sensitivity, for a `Ledger`.

    The answer is clamped to the bounds.

    Privacy
        In real arithmetic epsilon-differentially private under add-remove, for a `unit` that has
        one value. Rounded: for experiments. Public: the bounds, the grid, epsilon, beta; not the
        scale of the noise.

    Parameters
    ----------
    lower, upper, grid : int, float or Fraction
    epsilon : float or Fraction, from 1e-3 to 20
    beta : float, optional
        Below epsilon; by default `cauchy_beta`.
    unit : str

    Returns
    -------
    Mechanism
        From a column of values to a float.

    Error
        Beyond c S cot(pi p/2) with probability at most p.

    Source
        Nissim, Raskhodnikova, Smith 2007, section 2, for the form; point 3 for the numbers.
    """
    low, high = _bounds(lower, upper, grid)
    used = cauchy_beta(epsilon) if beta is None else _beta(beta)
    c = cauchy_scale(epsilon, used)
    checks.within("upper - lower", float(grid) * (high - low), 1e-80, 1e80)
    return Mechanism(
        name=f"median, Cauchy noise of {c:.6g} smooth sensitivities, beta {used:.6g}",
        costs=(Pure(epsilon),),
        neighbours="add-remove",
        unit=unit,
        read=partial(_read_smooth, lower=lower, upper=upper, grid=grid, beta=used, c=c),
        draw=partial(_draw_smooth, lower=float(lower), upper=float(upper)),
    )


def _read_smooth(values, lower, upper, grid, beta, c):
    table, step = padded(values, lower, upper, grid), float(grid) / 2
    return twice_median(table) * step, c * step * _smooth(table, beta)


def _draw_smooth(read, lower, upper, *, rng):
    centre, scale = read
    cauchy = math.tan(math.pi * noise.uniform(-0.5, 0.5, rng=rng))
    return min(max(centre + scale * cauchy, lower), upper)


def _dilation(r, e):
    """The delta at e of a Laplace law and one that is e^r times as narrow, both around 0."""
    return math.exp(-(e + r) / math.expm1(r)) * -math.expm1(-r) if r else 0.0


# ------------------------------------------------------------------------------ inverse sensitivity


def inverse_mechanism(lower, upper, grid, epsilon, *, unit="row"):
    """Return the inverse sensitivity mechanism for the median, for a `Ledger`, exactly.

    It chooses a value of the grid, scored by minus its `rank_distances`: the fewer units must join
    or leave until it is a median, the likelier it is. The choice is by permute-and-flip.

    Privacy
        epsilon-differentially private under add-remove, with no floating-point caveat, for a `unit`
        that has one value. Pass `noise.SYSTEM` for a real release. Public: the bounds, the grid,
        epsilon.

    Parameters
    ----------
    lower, upper, grid : int, float or Fraction
        At most 2^20 candidates.
    epsilon : float or Fraction
    unit : str

    Returns
    -------
    Mechanism
        From a column of values to a float, a value of the grid.

    Error
        In ranks: with m candidates, as `selection.permute_and_flip_law` of scale 2/epsilon.

    Source
        Asi and Duchi 2020, with permute-and-flip in place of the exponential mechanism.
    """
    low, high = _bounds(lower, upper, grid)
    _few_enough(low, high)
    chosen = selection.mechanism(of_scores(1, "add-remove", unit=unit), epsilon)
    return Mechanism(
        name=f"inverse sensitivity mechanism for the median, {high - low + 1} candidates",
        costs=chosen.costs,
        neighbours="add-remove",
        unit=unit,
        read=partial(_read_ranks, chosen.read, lower=lower, upper=upper, grid=grid),
        draw=partial(_draw_rank, chosen.draw, low=low, step=checks.as_fraction("grid", grid)),
        exact=True,
        sensitivity=chosen.sensitivity,
    )


def _read_ranks(read, values, lower, upper, grid):
    return read(-rank_distances(values, lower, upper, grid))


def _draw_rank(draw, scores, low, step, *, rng):
    return float((low + draw(scores, rng=rng)) * step)


# -------------------------------------------------------------------------------------------- steps


def _bounds(lower, upper, grid):
    """Return public bounds in steps, not too far apart."""
    low, high = private.grid_steps(lower, upper, grid)
    if high - low > _STEPS:
        raise ValueError(f"grid must cut the range into at most 2**40 steps, got {grid!r}")
    return low, high


def _few_enough(low, high):
    if high - low >= _CANDIDATES:
        raise ValueError(f"grid must leave at most 2**20 candidates, got {high - low + 1}")


def _beta(beta):
    return float(checks.within("beta", beta, 1e-9, 1e3))


def _windows(table):
    """Return 2 A_0, ..., 2 A_n in steps (point 2)."""
    n = len(table) - 2
    k = np.arange(n + 1)
    starts = (n - k) // 2, (n - k + 1) // 2
    return np.maximum(*(table[i + k + 1] - table[i] for i in starts))


def _smooth(table, beta):
    """Return the smooth sensitivity in half steps, at least a constant share of the range."""
    widths = _windows(table)
    falling = np.exp(-beta * np.arange(widths.size))
    return float(max((falling * widths).max(), _FLOOR * widths[-1]))


def _ranks(steps, low, high):
    counts = np.bincount(steps - low, minlength=high - low + 1)
    below = np.cumsum(counts) - counts
    above = steps.size - below - counts
    return np.maximum(0, np.abs(below - above) - counts)
