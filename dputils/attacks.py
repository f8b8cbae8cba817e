"""Attacks on a black box: its outputs on two tables prove that an epsilon is exceeded.

Where a law is known, `audit` compares samples with it. Where none is known, `epsilon_lower_bound`
looks for the event that tells two tables apart best. It proves that an epsilon is too small,
never that one is large enough. Where the noise came from a seeded generator, `first_uniforms` tries
all seeds.
"""

import math
from dataclasses import dataclass

import numpy as np

from dputils import audit, checks


@dataclass(frozen=True)
class LowerBound:
    """An epsilon that a mechanism needs at least, and the event that shows it."""

    epsilon: float
    event: str
    confidence: float


def epsilon_lower_bound(outputs_p, outputs_q, *, delta=0.0, confidence=1 - audit.ALPHA):
    """Bound a black box's epsilon from below by its outputs on two neighbouring tables.

    The events are half-lines {output <= t}, {output >= t}, single values {output == v} and
    {output is NaN}. One event and one direction are chosen on the first half of the outputs; its
    two probabilities are bounded on the second half by one-sided Clopper-Pearson bounds, each at
    error (1 - confidence)/2, so that choosing costs nothing.

    Parameters
    ----------
    outputs_p, outputs_q : array of shape (n,)
        Independent outputs on the two tables (of vectors a fixed function).
    delta : float, the delta granted, in [0, 1)
    confidence : float, the probability that the bound is right

    Returns
    -------
    LowerBound : its epsilon is 0 when nothing can be shown.

    Source
        Clopper and Pearson 1934; Ding et al. 2018 and Bichsel et al. 2021 for choosing the event
        on a part of the samples.
    """
    checks.delta(delta)
    checks.probability("confidence", confidence)
    halves = [_halves(outputs_p, outputs_q, half) for half in (0, 1)]
    error = (1 - confidence) / 2

    def bound(name, holds, first, half):
        hits = [int(holds(outputs).sum()) for outputs in halves[half]]
        sizes = [outputs.size for outputs in halves[half]]
        last = 1 - first
        return ratio_bound(hits[first], sizes[first], hits[last], sizes[last], delta, error)

    events = _events(np.concatenate(halves[0]))
    choices = [(name, holds, first) for name, holds in events for first in (0, 1)]
    chosen = max(choices, key=lambda choice: bound(*choice, 0))
    event = f"{chosen[0]}, more likely on table {chosen[2] + 1}"
    return LowerBound(max(0.0, bound(*chosen, 1)), event, confidence)


def _halves(outputs_p, outputs_q, half):
    outputs = [np.asarray(o, dtype=float).ravel() for o in (outputs_p, outputs_q)]
    if min(o.size for o in outputs) < 2:
        raise ValueError(
            "outputs_p and outputs_q must hold at least two outputs each, got "
            f"{outputs[0].size} and {outputs[1].size}"
        )
    return [np.array_split(o, 2)[half] for o in outputs]


def _events(outputs, most=64):
    """Names and tests of the events: at most 64 half-lines each way, 64 values, NaN."""
    values, counts = np.unique(outputs[~np.isnan(outputs)], return_counts=True)
    events = []
    for t in _cuts(values, counts, most):
        events.append((f"output <= {t:.4g}", lambda x, t=t: x <= t))
        events.append((f"output >= {t:.4g}", lambda x, t=t: x >= t))
    if (counts > 1).any():
        for v in values[np.argsort(-counts, kind="stable")][:most]:
            events.append((f"output == {v:.4g}", lambda x, v=v: x == v))
    if counts.sum() < outputs.size:
        events.append(("output is NaN", np.isnan))
    return events


def _cuts(values, counts, most):
    if not values.size:
        return values
    levels = np.linspace(0.002, 0.998, most) * counts.sum()
    return values[np.unique(np.searchsorted(counts.cumsum(), levels))]


def ratio_bound(x, n, y, m, delta, error):
    """Bound ln((p - delta)/q) from below, with p seen x times of n and q seen y times of m.

    The bounds of p and of q are each wrong with probability at most `error`.
    """
    low = audit.rate_bounds(x, n, 1 - 2 * error)[0]
    high = audit.rate_bounds(y, m, 1 - 2 * error)[1]
    return math.log((low - delta) / high) if low > delta else -math.inf


# ------------------------------------------------------------------------------------ all the seeds

_BLOCK = 1 << 14  # seeds tried at a time: their words stay in the processor's cache
_STEPS = 398  # the last of the 624 words of MT19937's state that the first number needs


def first_uniforms(seeds):
    """Return the first uniform number of numpy's `RandomState(seed)` for each of many seeds.

    Privacy
        None: with it a seed is found by trying all, a million of them in less than a second.

    Parameters
    ----------
    seeds : integer array of shape (n,)
        Each between 0 and 2^32 - 1.

    Returns
    -------
    float array of shape (n,)
        What `RandomState(seed).random_sample()` gives, bit by bit: multiples of 2^-53.

    Raises
    ------
    ValueError
        If `seeds` is not such an array.

    Source
        Matsumoto and Nishimura 1998 (MT19937), seeded as `init_genrand` of 2002 does.
    """
    seeds = np.asarray(seeds)
    if seeds.ndim != 1 or seeds.dtype.kind not in "iu":
        raise ValueError(
            f"seeds must be integers of shape (n,), got {seeds.dtype} of shape {seeds.shape}"
        )
    if seeds.size and not 0 <= int(seeds.min()) <= int(seeds.max()) < 1 << 32:
        raise ValueError(f"seeds must lie in [0, 2**32 - 1], got {seeds.min()} to {seeds.max()}")
    starts = range(0, seeds.size, _BLOCK)
    blocks = [_first_of_block(seeds[i : i + _BLOCK].astype(np.uint32)) for i in starts]
    return np.concatenate([np.empty(0), *blocks])


def _first_of_block(word):
    """`first_uniforms` of seeds that are given as uint32 and overwritten."""
    kept = {0: word.copy()}
    for i in range(1, _STEPS + 1):
        word ^= word >> 30
        word *= np.uint32(1812433253)
        word += np.uint32(i)
        if i in (1, 2, _STEPS - 1, _STEPS):
            kept[i] = word.copy()
    high = _output(kept[0], kept[1], kept[_STEPS - 1])
    low = _output(kept[1], kept[2], kept[_STEPS])
    return ((high >> 5) * 2.0**26 + (low >> 6)) * 2.0**-53


def _output(word, following, far):
    """One tempered output of MT19937 from three words of its state."""
    y = (word & np.uint32(0x80000000)) | (following & np.uint32(0x7FFFFFFF))
    y = far ^ (y >> 1) ^ ((y & 1) * np.uint32(0x9908B0DF))
    y ^= y >> 11
    y ^= (y << 7) & np.uint32(0x9D2C5680)
    y ^= (y << 15) & np.uint32(0xEFC60000)
    return y ^ (y >> 18)
