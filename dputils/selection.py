"""Choosing one of m candidates by its score, larger is better: exponential mechanism, noisy maximum, permute-and-flip.

A *law* is the exact distribution of the chosen index for given scores and a scale lambda. A *release* draws an index;
`exact_release` alone is free of floating point and takes `noise.SYSTEM`, the others serve experiments.

Letters: q_i the scores, q* the largest, Delta their sensitivity (how far one neighbour moves any one score), lambda =
2 Delta/epsilon, p_i = exp(-(q* - q_i)/lambda). The number m of candidates is public, and so is the type of the scores.

1. Why noisy maxima are private. Fix the noise of all candidates but i. Then i wins if its noise exceeds x = max_j (q_j
   + noise_j) - q_i, and a neighbour moves x by at most 2 Delta, or by at most Delta if all scores move the same way
   (monotone). So P(i wins) changes by a factor of at most exp(epsilon) if P(noise > x + lambda t) >= exp(-t) P(noise >
   x) for all x and t >= 0: if the hazard rate is at most 1/lambda. It is for Laplace, exponential and Gumbel noise.
2. Why permute-and-flip is one of them. Visiting the candidates in random order and accepting i with probability p_i
   returns a uniform member of A, where each i is in A with probability p_i, independently: the first of A in a random
   order. With exponential noise, let A = {i : q_i + noise_i >= q*}; the excesses over q* are again independent
   exponentials of one scale, so the largest belongs to a uniform member of A (Ding et al. 2021).
3. Scores are private: none makes a release raise. What is missing or no number is read as the smallest float, as are
   NaN and -inf; +inf as the largest. No two scores move apart, so finite ones keep their sensitivity. A wrong shape or
   type is refused, both being public: a set, a complex array, a list of nothing but lists.
4. Exactly, on a grid. A candidate g steps below the best is in A with probability exp(-g/lambda). Flips of probability
   exp(-x) and exp(-y) both succeed with probability exp(-x - y): if g >= 2^c, where 2^c/lambda > 8, one flip for 2^c;
   then, for the few that are left, one for each binary digit of the rest. Candidates are visited in random batches
   that grow, up to the first that meets A: batches treat all members of A alike, so a uniform member of A in this one
   is a uniform member of A. Expected time is that of about one flip a candidate, whatever the scores: where many flips
   are owed, many candidates are accepted, and an early batch meets one.
"""
import math
from collections.abc import Sequence
from numbers import Number, Rational, Real

import numpy as np

from dputils import checks, geometric, laplace, noise as noises, private

NOISES = ("laplace", "exponential", "gumbel")
_BLOCK = 1 << 12  # candidates whose weights are summed before one of them is drawn
_LIMIT = (1 << 62) - 1  # the largest score on a grid: differences fit 64 bits
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)  # on a panel of length 1 right to 1e-18 for the integrands here


def exponential_scale(sensitivity, epsilon, *, monotone=False):
    """Return lambda = 2 sensitivity/epsilon, the scale of every mechanism here; half of it if the scores are monotone.

    `sensitivity` is the largest change of any one score between neighbouring tables. `monotone` says that all scores
    move in the same direction (or stay) when a record is added, as counts do; only for add-remove neighbours, as under
    replace-one a record leaves and another comes. Source: McSherry and Talwar 2007; point 1 of the module.
    """
    if not isinstance(monotone, (bool, np.bool_)):
        raise ValueError(f"monotone must be True or False, got {monotone!r}")
    return checks.positive("scale", laplace.scale(sensitivity, epsilon) * (1 if monotone else 2))


def exponential_law(scores, scale):
    """Probabilities of the exponential mechanism, proportional to exp(score/scale), shape (m,); Gumbel noise of this
    scale on the scores gives the same. Here and below, probabilities under 1e-308 lose digits and then read 0."""
    weights = np.exp(-_gaps(scores, scale))
    return weights / weights.sum()


def permute_and_flip_law(scores, scale):
    """Probabilities of permute-and-flip (McKenna and Sheldon 2020), shape (m,), to about 1e-13 relative, also m = 10^6.

    P(i) = p_i E[1/|A| given i in A] = p_i times the integral over t from 0 to 1 of prod_(j != i) (1 - t p_j), which is
    at most exp(1 - S t) for S = sum p_j: the integral is cut at t = 64/S and taken over panels that double in length.
    """
    p = np.exp(-_gaps(scores, scale))
    law, edges = np.zeros(p.size), np.unique(np.minimum([0, *2.0 ** np.arange(7) / p.sum()], 1))
    for low, width in zip(edges, np.diff(edges)):
        nodes = np.minimum(low + width * (1 + _NODES) / 2, 1 - 2.0**-53)  # below 1 also in a panel of no width
        for t, weight in zip(nodes, _WEIGHTS * width / 2):
            law += weight * math.exp(np.log1p(-t * p).sum()) / (1 - t * p)
    return law * p


def noisy_max_law(scores, scale, noise="exponential"):
    """Probabilities that a score plus independent noise is the largest, shape (m,), to about 1e-12 relative.

    P(i) is the integral of f(x - q_i) prod_(j != i) F(x - q_j), with f and F the density and distribution function of
    the noise ("laplace", "exponential" or "gumbel"): Gauss-Legendre in log space over panels that are at most one scale
    long and end at every kink. Time grows with the square of the number of different scores: for small cases.
    """
    checks.one_of("noise", noise, NOISES)
    s, inverse, counts = np.unique(-_gaps(scores, scale), return_inverse=True, return_counts=True)  # the best at 0
    # below `low` no integral has mass worth 1e-17 of its own; exp(-746) is 0
    low = {"laplace": max(s[0], -745.0) - 40, "exponential": 0.0, "gumbel": -7.0}[noise]
    edges = np.unique(np.concatenate([s[s > low], np.arange(low, 44 + math.log(inverse.size))]))
    law = np.zeros(s.size)
    for left, width in zip(edges, np.diff(edges)):
        logpdf, logcdf = _log_noise((left + width * (1 + _NODES[:, None]) / 2) - s, noise)
        law += _WEIGHTS * width / 2 @ np.exp(logpdf - logcdf + (logcdf @ counts)[:, None])
    return law[inverse]


def _log_noise(z, noise):
    """Log density and log distribution function of standard noise; exponential noise is asked for z > 0 only."""
    if noise == "gumbel":
        return -z - np.exp(-z), -np.exp(-z)
    if noise == "exponential":
        return -z, np.log(-np.expm1(-z))
    return math.log(0.5) - np.abs(z), np.where(z < 0, z + math.log(0.5), np.log1p(-np.exp(-np.abs(z)) / 2))


def expected_error(law, scores):
    """The expected distance sum_i law_i (q* - q_i) of the chosen score from the best, in the unit of the scores."""
    gaps, law = _gaps(scores, 1), _array("law", law).astype(float)
    if law.shape != gaps.shape:
        raise ValueError(f"law must have the shape {gaps.shape} of scores, got {law.shape}")
    if not (law >= 0).all() or abs(law.sum() - 1) > 1e-9:
        raise ValueError(f"law must be probabilities that sum to 1, got least {law.min()}, sum {law.sum()}")
    return float(np.dot(law[law > 0], gaps[law > 0]))


def exponential_tail(t, scale, m, best=1):
    """The largest P(q* - chosen score >= t) of the exponential mechanism over all m scores of which `best` are largest.

    It is r/(1 + r), r = (m - best)/best exp(-t/scale), for t > 0 (any shape), attained when all others lie t below the
    best. The utility theorem bounds it by (m/best) exp(-t/scale): an error of scale (ln(m/best) + u) has probability
    at most exp(-u). Source: McSherry and Talwar 2007; Dwork and Roth 2014, Theorem 3.11.
    """
    m, best = checks.integer("m", m, low=1), checks.integer("best", best, low=1)
    scale = checks.positive("scale", float(checks.positive("scale", scale)))
    if not 1 <= m // best <= 10**300:
        raise ValueError(f"best must be at most m, and m at most 10**300 best, got best={best}, m={m}")
    t = np.asarray(t, dtype=object)
    if odd := [x for x in t.flat if not isinstance(x, Real) or x != x]:
        raise ValueError(f"t must be a number, or numbers, other than NaN, got {odd[0]!r}")
    t = np.array([private.number(x) for x in t.flat]).reshape(t.shape)
    r = (m - best) / best * np.exp(-np.maximum(t, 0) / scale)
    return np.where(t > 0, r / (1 + r), 1.0)


def exponential_release(scores, sensitivity, epsilon, *, monotone=False, rng):
    """Choose one candidate by the exponential mechanism, in floating point.

    Privacy
        In real arithmetic epsilon-differentially private for the neighbour relation in which `sensitivity` bounds the
        change of every score (and the scores are monotone, if `monotone`). Rounded: for experiments only.

    Parameters
    ----------
    scores : list or array of shape (m,), private; see point 3 of the module for those that are not finite
    sensitivity, epsilon, monotone : see `exponential_scale`; rng : numpy.random.Generator

    Returns: int, the index chosen, and nothing else: its score, noisy or not, is not covered.
    Error: see `exponential_law`, `expected_error` and `exponential_tail`. Source: McSherry and Talwar 2007.
    """
    weights = _gaps(scores, exponential_scale(sensitivity, epsilon, monotone=monotone))
    np.exp(np.negative(weights, out=weights), out=weights)
    start = _BLOCK * _draw(np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK)), rng)
    return start + _draw(weights[start:start + _BLOCK], rng)


def _draw(weights, rng):
    """An index with probability proportional to its weight, never one of weight 0."""
    total = weights.cumsum()
    return int(total.searchsorted(noises.uniform(0, total[-1], rng=rng), side="right"))


def noisy_max_release(scores, sensitivity, epsilon, *, noise="exponential", monotone=False, rng):
    """Choose the candidate whose score plus noise of scale `exponential_scale` is the largest, in floating point.

    Privacy, Parameters, Returns: as `exponential_release`; `noise` is "laplace", "exponential" or "gumbel".
    Error: see `noisy_max_law`; Gumbel noise is the exponential mechanism, exponential noise is permute-and-flip.
    Source: Dwork and Roth 2014, Claim 3.9 (Laplace noise, counts; the general case is point 1); points 1 and 2.
    """
    draw = getattr(noises, checks.one_of("noise", noise, NOISES))
    gaps = _gaps(scores, exponential_scale(sensitivity, epsilon, monotone=monotone))
    return int(np.argmax(np.subtract(draw(1, gaps.size, rng=rng), gaps, out=gaps)))


def permute_and_flip_release(scores, sensitivity, epsilon, *, monotone=False, rng):
    """Choose one candidate by permute-and-flip, in floating point: a uniform member of A (point 2 of the module).

    Privacy, Parameters, Returns: as `exponential_release`. Source: McKenna and Sheldon 2020.
    Error: see `permute_and_flip_law`; in expectation never above that of the exponential mechanism.
    """
    gaps = _gaps(scores, exponential_scale(sensitivity, epsilon, monotone=monotone))
    accepted = np.flatnonzero(noises.exponential(1, gaps.size, rng=rng) >= gaps)
    return int(accepted[noises.integers(accepted.size, rng=rng)])


def top_k_release(scores, k, sensitivity, epsilon, *, monotone=False, rng):
    """Choose k different candidates, in floating point: the k largest scores after adding Gumbel noise once.

    Privacy
        As `exponential_release`, for all k choices and their order together: the law is that of k rounds of the
        exponential mechanism without replacement, each with epsilon/k.

    Parameters: as `exponential_release`, with epsilon for all of the k, and k, a public int from 1 to m.
    Returns: int64 array of shape (k,), the indices, first choice first.
    Error: with lambda = k times `exponential_scale`, with probability at least 1 - beta each of the k scores is at
    least the k-th largest minus lambda ln(k m/beta). Source: Durfee and Rogers 2019, for the equality of the laws.
    """
    gaps = _gaps(scores, exponential_scale(sensitivity, epsilon, monotone=monotone))
    if checks.integer("k", k, low=1) > gaps.size:
        raise ValueError(f"k must be at most the number of candidates, {gaps.size}, got {k}")
    noisy = np.subtract(noises.gumbel(1, gaps.size, rng=rng), gaps / k, out=gaps)
    largest = np.argpartition(noisy, gaps.size - k)[gaps.size - k:]
    return largest[np.argsort(-noisy[largest], kind="stable")]


def exact_release(scores, sensitivity, epsilon, *, monotone=False, rng):
    """Choose one candidate by permute-and-flip, exactly, for scores that are whole numbers of steps of a public grid.

    Privacy
        epsilon-differentially private, with no floating-point caveat, under the conditions of `exponential_release`;
        pass `noise.SYSTEM` for a real release. How long it takes depends on the scores (point 4 of the module).

    Parameters
    ----------
    scores : integer array of shape (m,), or a list of Python integers of any size
        Private; cut off at +-(2^62 - 1) steps, NaN and what is not a number read as the lowest, other numbers in a list
        rounded down. An array of another type is refused, for its type is public: round it to a public grid first.
    sensitivity : int, in steps of the grid; it must bound the change of the scores as rounded
    epsilon : float or Fraction, a float is read as the decimal that prints it
    monotone : see `exponential_scale`; rng : numpy.random.Generator or noise.SYSTEM

    Returns, Error, Source: an int; see `permute_and_flip_law`; McKenna and Sheldon 2020, points 2 and 4 of the module.
    """
    exponential_scale(sensitivity, epsilon, monotone=monotone)
    theta = 1 / geometric.scale(sensitivity, epsilon) / (1 if monotone else 2)  # 1/lambda
    gaps = _steps_below_best(scores)
    fresh, size = np.ones(gaps.size, dtype=bool), 256
    while True:
        batch = fresh if 8 * size >= gaps.size else np.zeros(gaps.size, dtype=bool)
        if batch is not fresh:
            batch[noises.integers(gaps.size, size, rng=rng)] = True
        batch = np.flatnonzero(batch & fresh)
        accepted = batch[_accepted(gaps[batch], theta, rng)]
        if accepted.size:
            return int(accepted[noises.integers(accepted.size, rng=rng)])
        fresh[batch], size = False, 16 * size


def _accepted(gaps, theta, rng):
    """The indices left if each is kept with probability exp(-gap theta), independently, as point 4 says."""
    left, top = np.arange(gaps.size), int(gaps.max(initial=0))
    far = (8 * theta.denominator // theta.numerator).bit_length()  # so that 2^far theta > 8
    if top >> far:
        owing = gaps >= 1 << far
        gaps = gaps - (owing.astype(np.int64) << far)
        left = _flip(left, owing, theta * 2**far, rng)
    for b in reversed(range(top.bit_length())):
        left = _flip(left, gaps[left] >> b & 1 != 0, theta * 2**b, rng)
    return left


def _flip(left, owing, x, rng):
    """Keep all that do not owe a flip, and each that does with probability exp(-x)."""
    keep = ~owing
    if not keep.all():
        keep[owing] = noises.bernoulli_exp(x, left.size - int(np.count_nonzero(keep)), rng=rng)
    return left[keep]


def _gaps(scores, scale):
    """(q* - q_i)/scale, at least 0, 0 for the best, as a new float array; inf where too large for a float."""
    scale = checks.positive("scale", float(checks.positive("scale", scale)))
    with np.errstate(over="ignore"):
        gaps = _array("scores", scores).astype(float)
        best = gaps.max()
        if not (math.isfinite(best) and math.isfinite(gaps.min())):
            best = np.nan_to_num(gaps, copy=False, nan=-np.finfo(float).max).max()
        return np.divide(np.subtract(best, gaps, out=gaps), scale, out=gaps)


def _array(name, values, kinds="iufb", read=private.number):
    """`values` as an array. What is public, shape and type, is refused here; elements of no numpy type are `read`."""
    listed = isinstance(values, Sequence) and not isinstance(values, (str, bytes, bytearray, memoryview))
    if not listed and not hasattr(values, "dtype") or isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} must be a list or an array of shape (m,), got type {type(values).__name__}")
    shape, dtype = ((len(values),), np.dtype(object)) if listed else (np.shape(values), values.dtype)
    if len(shape) != 1 or not shape[0]:
        raise ValueError(f"{name} must have shape (m,), m at least 1, got shape {shape}")
    if getattr(dtype, "kind", "O") not in kinds + "O":
        raise ValueError(f"{name} must be {'real numbers' if 'f' in kinds else 'integers'}, got type {dtype}")
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return np.asarray(values)
    values = [x[()] if isinstance(x, np.ndarray) and not x.ndim else x for x in values]
    if all(hasattr(x, "__len__") and not isinstance(x, (str, bytes)) for x in values):  # one or a few are merely odd
        raise ValueError(f"{name} must have shape (m,), got only elements such as {type(values[0]).__name__}")
    return np.array([read(x) for x in values])


def _whole(score):
    """A private element as an integer: rounded down, cut off at +-_LIMIT, the lowest if it is no number."""
    if isinstance(score, Rational) and not isinstance(score, np.timedelta64):
        return max(-_LIMIT, min(math.floor(score), _LIMIT))
    value = private.number(score) if isinstance(score, (Number, np.bool_)) else math.nan
    if math.isfinite(value):
        return max(-_LIMIT, min(math.floor(value), _LIMIT))
    return _LIMIT if value > 0 else -_LIMIT


def _steps_below_best(scores):
    """q* - q_i of whole numbers, cut off at +-_LIMIT, as int64."""
    scores = _array("scores", scores, "iu", _whole)
    scores = np.minimum(scores.astype(np.uint64 if scores.dtype.kind == "u" else np.int64), _LIMIT)
    scores = np.maximum(scores.astype(np.int64, copy=False), -_LIMIT)
    return scores.max() - scores
