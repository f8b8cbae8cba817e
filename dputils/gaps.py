"""How far private scores lie below the best: exactly, whatever their type, then rounded once.

Scores are private: none makes a release raise. They are cut off at +-M, M the largest float, and
what is missing (`private`) counts as -M. No two scores move apart, so they keep their sensitivity.
The gaps q* - q_i are taken exactly (of longdoubles to 64 digits of base two) and rounded once: far
out, scores are no floats, but their gaps are. A gap is right to 2^-53 of it.

On a grid, scores are whole numbers of steps: rounded down, cut off at +-(2^62 - 1), which what is
missing counts as with a minus sign, and nothing after that is rounded.
"""

import math
from fractions import Fraction

import numpy as np

from dputils import checks, private

LIMIT = (1 << 62) - 1  # the largest score on a grid: differences fit 64 bits
_LARGEST = np.finfo(float).max


def read_scores(scores, kinds=private.NUMBERS):
    """Return private scores, at least one, as `private.column` reads them."""
    cells = private.column("scores", scores, kinds)
    if not cells.size:
        raise ValueError("scores must have shape (m,), m at least 1, got shape (0,)")
    return cells


def gaps_below_best(scores, scale=1):
    """Return (q* - q_i)/scale as a new float array of shape (m,).

    Each is at least 0, 0 for the best, and infinite where too large for a float.
    """
    scale = float(checks.within("scale", scale, *checks.SIZES))
    cells = read_scores(scores)
    gaps = {"f": _float_gaps, "O": _exact_gaps}.get(cells.dtype.kind, _integer_gaps)
    with np.errstate(all="ignore"):  # a warning would tell of the scores
        below = gaps(cells)
        return np.divide(below, scale, out=below)


def steps_below_best(scores):
    """Return q* - q_i of scores that are whole numbers of grid steps, as an int64 array."""
    steps = whole_steps(read_scores(scores, private.INTEGERS))
    return steps.max() - steps


def whole_steps(cells, step=1):
    """Return what `read_scores` gave in whole steps of a grid, rounded down, as an int64 array."""
    if step == 1 and cells.dtype.kind in "iu":
        wide = cells.astype(np.uint64 if cells.dtype.kind == "u" else np.int64, copy=False)
        return np.maximum(np.minimum(wide, LIMIT).astype(np.int64, copy=False), -LIMIT)
    steps = [_whole(private.exact(score), step) for score in cells.tolist()]
    return np.array(steps, dtype=np.int64)


def _whole(score, step):
    if isinstance(score, float) and not math.isfinite(score):
        return LIMIT if score > 0 else -LIMIT
    return max(-LIMIT, min(math.floor(Fraction(score) / step), LIMIT))


def _float_gaps(scores):
    """Differences of floats; longer ones are kept until the difference is taken."""
    gaps = scores.astype(np.promote_types(scores.dtype, float))
    best = gaps.max()
    if not (best <= _LARGEST and gaps.min() >= -_LARGEST):
        gaps = np.clip(np.where(np.isnan(gaps), -_LARGEST, gaps), -_LARGEST, _LARGEST)
        best = gaps.max()
    return np.subtract(best, gaps, out=gaps).astype(float, copy=False)


def _integer_gaps(scores):
    """Differences of integers: of floats where all are floats, else modulo 2^64, where all fit."""
    if scores.max() <= 2**53 and scores.min() >= -(2**53):
        return _float_gaps(scores)
    wrapped = scores.astype(np.uint64)
    return (wrapped[scores.argmax()] - wrapped).astype(float)


def _exact_gaps(scores):
    """Differences of exact numbers."""
    numbers = [_cut_off(score) for score in scores]
    best = max(numbers)
    return np.array([private.nearest_float(best - number) for number in numbers], dtype=float)


def _cut_off(score):
    """Return a score as an int or a Fraction between -M and M; a missing one as -M."""
    largest = int(_LARGEST)
    if not isinstance(score, float):
        return max(-largest, min(score, largest))
    if math.isfinite(score):
        return Fraction(score)
    return largest if score > 0 else -largest
