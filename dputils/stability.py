"""Private answers from how stable the median of a table is: propose-test-release, and the mean of
the medians of random chunks.

Values, neighbours and the distance D to the next table where a bound is wrong are those of
`local_sensitivity`. Both mechanisms are exact: medians are whole numbers of half steps of the grid,
sums of m of them are, too, and the noise is geometric.

Letters: b the proposed bound; D the number of units that must join or leave until the local
sensitivity exceeds b; t the threshold of the test; m the number of chunks.

Ranges: epsilon 1e-6 to 1e3, delta 1e-300 to 1; the bounds are at most 2^40 steps of the grid apart,
chunks at most 2^20.

1. D has the sensitivity 1, so D plus geometric noise of scale 2/epsilon is epsilon/2-private. If
   one of two neighbours has D >= 1, its local sensitivity is at most b, and the two medians are no
   further apart. If both have D = 0, both give an answer with the same probability, at most delta.
2. Each unit is in one chunk, by a draw of its own. Given all draws, two neighbours differ in one
   chunk, so that the sum of the m medians moves by at most half the range: whatever the draws are.
"""

import math
from functools import partial

import numpy as np

from dputils import checks, local_sensitivity, noise, private
from dputils.accounting.costs import Approximate, Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import Sensitivity

_CHUNKS = 1 << 20


# ----------------------------------------------------------------------------- propose-test-release


def threshold(epsilon, delta):
    """Return the smallest whole t, at least 1, that geometric noise of epsilon reaches with
    probability at most delta.

    Parameters
    ----------
    epsilon : float or Fraction
        Of the test alone.
    delta : float

    Returns
    -------
    int
        P(Z >= t) = a^t/(1 + a) <= delta, a = e^-epsilon.
    """
    e = float(checks.within("epsilon", epsilon, *checks.EPSILONS))
    delta = float(checks.within("delta", checks.probability("delta", delta), *checks.DELTAS))
    need = -math.log(delta) - math.log1p(math.exp(-e))
    return max(1, math.ceil(need / e * (1 + 1e-12)))


def ptr_mechanism(lower, upper, grid, bound, epsilon, delta, *, unit="row"):
    """Return propose-test-release for the median, for a `Ledger`, exactly.

    Half of epsilon tests whether the table is far from all whose local sensitivity exceeds the
    bound; if so, the other half pays for the median with noise of scale 2 bound/epsilon. If not,
    the answer is None.

    Privacy
        (epsilon, delta)-differentially private under add-remove, with no floating-point caveat, for
        a `unit` that has one value. Pass `noise.SYSTEM` for a real release. Whether the test is
        passed is a part of the release. Public: the bounds, the grid, the bound b, epsilon, delta.

    Parameters
    ----------
    lower, upper, grid : int, float or Fraction
    bound : int, float or Fraction
        b, proposed without looking at the table: a multiple of grid/2, at least that, below half
        the range.
    epsilon, delta : float or Fraction
    unit : str

    Returns
    -------
    Mechanism
        From a column of values to a float, a multiple of grid/2 within the bounds, or None.

    Error
        None with probability P(Z < t - D), D the `distance`; else geometric noise of scale 2
        b/epsilon.

    Source
        Dwork and Lei 2009; Dwork and Roth 2014, section 7.
    """
    halves = local_sensitivity.half_steps(bound, lower, upper, grid)
    low, high = private.grid_steps(lower, upper, grid)
    half = checks.as_fraction("epsilon", checks.within("epsilon", epsilon, *checks.EPSILONS)) / 2
    t, step = threshold(half, delta), checks.as_fraction("grid", grid)
    for size in (1, halves):
        checks.within("bound/epsilon", size / half, *checks.STEPS)
    return Mechanism(
        name=f"propose-test-release for the median, bound {float(bound):.6g}, threshold {t}",
        costs=(Approximate(epsilon, delta),),
        neighbours="add-remove",
        unit=unit,
        read=partial(_read_ptr, lower=lower, upper=upper, bound=bound, grid=grid),
        draw=partial(
            _draw_ptr,
            t=t,
            scales=(1 / half, halves / half),
            ends=(2 * low, 2 * high),
            step=step / 2,
        ),
        exact=True,
    )


def _read_ptr(values, lower, upper, bound, grid):
    table = local_sensitivity.padded(values, lower, upper, grid)
    far = local_sensitivity.distance(values, lower, upper, bound, grid)
    return local_sensitivity.twice_median(table), far


def _draw_ptr(read, t, scales, ends, step, *, rng):
    centre, far = read
    tested, answer = (noise.discrete_laplace(scale, rng=rng) for scale in scales)
    if far + tested < t:
        return None
    return float(min(max(centre + answer, ends[0]), ends[1]) * step)


# ----------------------------------------------------------------------------- sample and aggregate


def aggregate_mechanism(lower, upper, grid, chunks, epsilon, *, unit="row"):
    """Return the mean of the medians of random chunks, for a `Ledger`, exactly.

    Each unit is put into one of `chunks` chunks by a draw of its own, which depends on no other
    unit. One unit then moves one chunk's median, by at most half the range.

    Privacy
        epsilon-differentially private under add-remove, with no floating-point caveat, for a `unit`
        that has one value. Pass `noise.SYSTEM` for a real release. Neither the chunks nor their
        sizes may be published. Public: the bounds, the grid, the number of chunks, epsilon.

    Parameters
    ----------
    lower, upper, grid : int, float or Fraction
    chunks : int
        m, at least 1 and at most 2^20.
    epsilon : float or Fraction
    unit : str

    Returns
    -------
    Mechanism
        From a column of values to a float within the bounds.

    Error
        Noise: geometric, of scale (upper - lower)/(2 m epsilon) where m is large. Besides it, the
        mean of the chunks' medians is not the median of the table; an empty chunk is answered by
        the midpoint.

    Source
        Nissim, Raskhodnikova, Smith 2007, section 4, for chunks; the mean as aggregator is the
        simplest.
    """
    low, high = (int(end) for end in local_sensitivity.padded([], lower, upper, grid))
    m = checks.integer("chunks", chunks, low=1)
    if m > _CHUNKS:
        raise ValueError(f"chunks must be at most 2**20, got {m}")
    e = checks.as_fraction("epsilon", checks.within("epsilon", epsilon, *checks.EPSILONS))
    scale = checks.within("(upper - lower)/epsilon", (high - low) / e, *checks.STEPS)
    step = checks.as_fraction("grid", grid)
    return Mechanism(
        name=f"mean of the medians of {m} random chunks",
        costs=(Pure(epsilon),),
        neighbours="add-remove",
        unit=unit,
        read=partial(local_sensitivity.padded, lower=lower, upper=upper, grid=grid),
        draw=partial(_draw_aggregate, m=m, scale=scale, step=step / (2 * m)),
        exact=True,
        sensitivity=Sensitivity((high - low) * step / (2 * m), "absolute", "add-remove", unit),
    )


def _draw_aggregate(table, m, scale, step, *, rng):
    places = noise.integers(m, len(table) - 2, rng=rng)
    low, high = (2 * m * int(end) for end in table[[0, -1]])
    above = int(_chunk_medians(table - table[0], places, m).sum())  # below 2^62
    noisy = low + above + noise.discrete_laplace(scale, rng=rng)
    return float(min(max(noisy, low), high) * step)


def _chunk_medians(table, places, m):
    """Return twice the median of each of m chunks, in steps, given the chunk of each value."""
    by_chunk = table[1:-1][np.argsort(places, kind="stable")]
    sizes = np.bincount(places, minlength=m)
    starts = np.cumsum(sizes) - sizes
    middle = np.full(m, table[0] + table[-1])
    some = sizes > 0
    first = starts[some]
    n = sizes[some]
    middle[some] = by_chunk[first + (n - 1) // 2] + by_chunk[first + n // 2]
    return middle
