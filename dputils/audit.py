"""Attacks on a stated guarantee: the law, exactly, and the code, by its samples.

An audit has two halves. The *law*: what is the smallest epsilon (or delta) of two output laws on neighbouring
tables? Exact for finite laws, a supremum or a quadrature for densities. The *code*: do a release's samples follow
the law it claims (`law_test`), and if no law is known, which epsilon is certainly exceeded (`epsilon_lower_bound`)?
An audit that finds nothing proves nothing; `law_test_size` says how many samples catch a twin at a known distance.
"""
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dputils import checks, noise

ALPHA = 1e-6  # probability of a false alarm of one test, unless said otherwise


def finite_epsilon(p, q):
    """The smallest epsilon of two laws on a finite set: max |ln(p/q)|, inf if one can give what the other cannot.

    Parameters
    ----------
    p, q : two dicts or two sequences of probabilities by output; `Fraction`s stay exact, a missing key means 0
    """
    worst = Fraction(1)
    for a, b in _matched(p, q):
        if (a == 0) != (b == 0):
            return math.inf
        if a:
            worst = max(worst, a / b, b / a)
    if worst < 2:
        return math.log1p(worst - 1)  # keeps the digits of a small epsilon
    return math.log(int(worst)) if 1e300 < worst < math.inf else math.log(worst)


def finite_delta(p, q, epsilon):
    """The smallest delta at an epsilon >= 0 for two finite laws: the larger of sum (p - e^epsilon q)_+ both ways."""
    factor = math.exp(min(checks.not_negative("epsilon", epsilon), 709))  # the largest power of e: errs upwards
    pairs = [(float(a), float(b)) for a, b in _matched(p, q)]
    one, other = pairs, [(b, a) for a, b in pairs]
    return max(math.fsum(max(0.0, a - factor * b) for a, b in way) for way in (one, other))


def mechanism_epsilon(law, pairs):
    """The smallest epsilon of a `law` (table -> dict of probabilities) over pairs of neighbours, and the worst pair."""
    worst = max(pairs, key=lambda pair: finite_epsilon(law(pair[0]), law(pair[1])))
    return finite_epsilon(law(worst[0]), law(worst[1])), worst


def _matched(p, q):
    if isinstance(p, dict) != isinstance(q, dict) or not isinstance(p, dict) and len(p) != len(q):
        raise ValueError(f"p and q must be two dicts or two sequences of one length, got {p!r} and {q!r}")
    keys = dict.fromkeys([*p, *q]) if isinstance(p, dict) else ()
    pairs = [(p.get(key, 0), q.get(key, 0)) for key in keys] if isinstance(p, dict) else list(zip(p, q))
    for name, value in ((name, value) for pair in pairs for name, value in zip("pq", pair)):
        if not 0 <= value <= 1 + 1e-9:  # also refuses NaN
            raise ValueError(f"{name} must hold probabilities, got {value!r}")
    return pairs


def density_epsilon(log_p, log_q, points, reach=40.0):
    """The supremum of |log p(x) - log q(x)| over the line, for two log densities; inf if it grows in a tail.

    Exact where the log-ratio is monotone between neighbouring `points`, which holds for Laplace and all piecewise
    linear log densities when `points` contains their kinks. Beyond the points the ratio is followed out to `reach`
    spans on each side, no further. If it still rises there, what it gained over the last doubling of the distance
    is compared with the doubling before: inf unless the gain shrank to 3/4 or less (right for a ratio that grows,
    cautious for one that levels off slowly), else the level it heads for.

    Parameters
    ----------
    log_p, log_q : vectorised log densities on the two neighbouring tables
    points : sequence of float, at least two: kinks and a grid between them
    reach : float, how far the tails are followed, in units of the points' span

    Returns
    -------
    float : inf too where one density is 0 and the other is not, and where a log density is NaN.
    """
    points = _grid(points)
    steps = (points[-1] - points[0]) * np.linspace(0, checks.positive("reach", reach), 81)[1:]
    x = np.concatenate([points[0] - steps[::-1], points, points[-1] + steps])
    a, b = np.asarray(log_p(x), dtype=float), np.asarray(log_q(x), dtype=float)
    with np.errstate(invalid="ignore"):
        ratio = np.where(a == b, 0.0, np.abs(a - b))  # minus infinity twice: neither law goes there
    if not np.isfinite(ratio).all():
        return math.inf
    return float(max(ratio.max(), _heading(*ratio[[60, 40, 0]]), _heading(*ratio[[-61, -41, -1]])))


def _heading(quarter, half, end):
    """Where a log-ratio is heading that was seen at a quarter, at half and at all of the way out."""
    before, last = half - quarter, end - half
    if last <= 1e-9 * max(1.0, end):
        return end
    return math.inf if last > 0.75 * before else end + last * last / (before - last)  # the rest as a geometric series


def _grid(points):
    points = np.unique(np.asarray(points, dtype=float))
    if points.size < 2 or not np.isfinite(points).all():
        raise ValueError(f"points must hold at least two different numbers, all finite, got {points.tolist()}")
    return points


def density_delta(log_p, log_q, epsilon, points):
    """The hockey-stick divergence at epsilon of two densities, the larger of both directions, to about 1e-10.

    Parameters
    ----------
    log_p, log_q : log densities
    epsilon : float, at least 0
    points : sequence of float
        Kinks and a grid that covers the mass; the places where p = e^epsilon q are found between them by bisection
        and become limits of integration, as do the points themselves, with both tails to infinity. Refused if the
        same quadrature misses 1e-9 of the mass.
    """
    from scipy.integrate import quad
    from scipy.optimize import brentq

    def one_way(first, second):
        def gap(x):
            return float(first(x) - second(x)) - epsilon

        def excess(x):
            a, b = float(first(x)), float(second(x))
            return math.exp(a) - math.exp(epsilon + b) if a > epsilon + b else 0.0

        sign = [gap(x) for x in grid]
        cuts = [brentq(gap, lo, hi) for lo, hi, a, b in zip(grid, grid[1:], sign, sign[1:]) if a * b < 0]
        limits = [-np.inf, *sorted({*grid, *cuts}), np.inf]
        mass, delta = (math.fsum(quad(f, lo, hi, epsabs=1e-13, full_output=1)[0] for lo, hi in zip(limits, limits[1:]))
                       for f in (lambda x: math.exp(first(x)), excess))
        if not abs(mass - 1) < 1e-9:
            raise ValueError(f"points must cover the mass of both densities, the quadrature finds "
                         f"{mass:.10g} in place of 1")
        return delta

    checks.not_negative("epsilon", epsilon)
    grid = _grid(points)
    return max(one_way(log_p, log_q), one_way(log_q, log_p))


@dataclass(frozen=True)
class LawTest:
    """Outcome of `law_test`: the largest distance, which test saw it, a bound on its p-value over all tests."""

    distance: float
    where: str
    p_value: float
    samples: int

    def passes(self, alpha=ALPHA):
        """Whether the samples fit the claimed law; a correct release fails with probability at most alpha."""
        return self.p_value > alpha


def law_test(samples, cdf, *, discrete=False, rng=None):
    """Test samples of a release's noise against the law it claims, coordinate by coordinate and for independence.

    Each coordinate's empirical distribution is compared with the claimed one. Then each pair of coordinates of one
    release, and each coordinate with each of the release before, is tested for reused noise: mapped to uniforms U,
    V through the claimed law, both U - V and U + V (mod 1) are uniform if the noises are independent; equal or
    mirrored noise makes one of them constant. With k coordinates these are 3 k^2 comparisons. Values that are not
    finite, or not whole for a discrete law, fail at once. Reuse from further back is not seen.

    Parameters
    ----------
    samples : array of shape (n,) or (n, k), released minus exact value of n releases of k coordinates
    cdf : function, the distribution function of the claimed noise, vectorised
    discrete : bool, whether the law lives on the integers; then the map to uniforms breaks ties at random
    rng : numpy.random.Generator, required if discrete

    Returns
    -------
    LawTest
        Its p-value bound holds for every n: each distance D has P(D > t) <= 2 exp(-2 n t^2) (Massart 1990, the
        tight constant of the Dvoretzky-Kiefer-Wolfowitz inequality), times the number of tests (Bonferroni).
    """
    x = np.asarray(samples, dtype=float)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"samples must have shape (n,) or (n, k), n and k at least 1, got {np.shape(samples)}")
    n, k = x.shape
    ties = noise.uniform(0, 1, x.shape, rng=rng) if discrete else 0.0
    if not np.isfinite(x).all() or discrete and (x != np.rint(x)).any():
        return LawTest(1.0, "values that the law cannot give", 0.0, n)
    u = np.asarray(cdf(x))
    u = u - (u - cdf(x - 1)) * ties if discrete else u
    if not ((u > -1e-9) & (u < 1 + 1e-9)).all():  # also refuses NaN
        raise ValueError(f"cdf must give probabilities, got values from {u.min()} to {u.max()}")
    results = [(*_distance_from_uniform(values), name) for name, values in _comparisons(u)]
    d, size, where = max(results, key=lambda result: result[0] * math.sqrt(result[1]))
    return LawTest(d, where, min(1.0, 2 * 3 * k * k * math.exp(-2 * size * d * d)), n)


def _comparisons(u):
    """Yield names and arrays of numbers that are independent and uniform if u, shape (n, k), is.

    Overlapping pairs are: (U_1, U_2 - U_1, U_3 - U_2, ...) mod 1 is a measure-preserving image; so for sums.
    """
    for j, after in enumerate(u.T):
        yield f"coordinate {j + 1}", after
        for i, other in enumerate(u.T):
            pairs = [("the release before", after[1:], other[:-1])] + [("the same release", after, other)] * (i < j)
            for which, a, b in pairs:
                yield f"coordinate {j + 1} and coordinate {i + 1} of {which}, difference", (a - b) % 1
                yield f"coordinate {j + 1} and coordinate {i + 1} of {which}, sum", (a + b) % 1


def law_test_size(distance, tests=1, alpha=ALPHA, beta=ALPHA):
    """Samples that make one comparison of `law_test` catch a wrong law with probability at least 1 - beta.

    Parameters
    ----------
    distance : float in (0, 1], Kolmogorov distance of the true from the claimed law
    tests : int, the comparisons made: 3 k^2 for k coordinates (a scalar: the law, and two with the release before)
    alpha, beta : float, the probability of a false alarm, and of a miss

    Returns
    -------
    int : ceil((sqrt(ln(2 tests/alpha)/2) + sqrt(ln(2/beta)/2))^2/distance^2), by the same inequality used twice.
    """
    checks.probability("alpha", alpha), checks.probability("beta", beta), checks.positive("distance", distance)
    if distance > 1:
        raise ValueError(f"distance must be at most 1, got {distance!r}")
    checks.integer("tests", tests, low=1)
    reach = math.sqrt(math.log(2 * tests / alpha) / 2) + math.sqrt(math.log(2 / beta) / 2)
    return math.ceil((reach / distance) ** 2)


def _distance_from_uniform(u):
    u, n = np.sort(u), len(u)
    return (float(max((np.arange(1, n + 1) / n - u).max(), (u - np.arange(n) / n).max())) if n else 0.0), n


@dataclass(frozen=True)
class LowerBound:
    """An epsilon that a mechanism needs at least, with the stated confidence, and the event that shows it."""

    epsilon: float
    event: str
    confidence: float


def epsilon_lower_bound(outputs_p, outputs_q, *, delta=0.0, confidence=1 - ALPHA):
    """Bound a black box's epsilon from below by its outputs on two neighbouring tables, with no knowledge of its law.

    The events are half-lines {output <= t}, {output >= t}, single values {output == v} and {output is NaN}. One
    event and one direction are chosen on the first half of the outputs; its two probabilities are bounded on the
    second half by one-sided Clopper-Pearson bounds, each at error (1 - confidence)/2, so that choosing costs
    nothing.

    Parameters
    ----------
    outputs_p, outputs_q : array of shape (n,), independent outputs on the two tables (of vectors a fixed function)
    delta : float, the delta granted, in [0, 1)
    confidence : float, the probability that the bound is right

    Returns
    -------
    LowerBound : its epsilon is 0 when nothing can be shown.

    Source
        Clopper and Pearson 1934; Ding et al. 2018 and Bichsel et al. 2021 for choosing the event on a part of the
        samples.
    """
    checks.delta(delta), checks.probability("confidence", confidence)
    outputs = [np.asarray(o, dtype=float).ravel() for o in (outputs_p, outputs_q)]
    if min(o.size for o in outputs) < 2:
        raise ValueError("outputs_p and outputs_q must hold at least two outputs each, got "
                         f"{outputs[0].size} and {outputs[1].size}")
    choosing, testing = zip(*(np.array_split(o, 2) for o in outputs))

    def bound(holds, first, halves):
        (x, n), (y, m) = ((int(holds(halves[i]).sum()), halves[i].size) for i in (first, 1 - first))
        return _ratio_bound(x, n, y, m, delta, (1 - confidence) / 2)

    choices = [(name, holds, first) for name, holds in _events(np.concatenate(choosing)) for first in (0, 1)]
    name, holds, first = max(choices, key=lambda choice: bound(*choice[1:], choosing))
    return LowerBound(max(0.0, bound(holds, first, testing)), f"{name}, more likely on table {first + 1}", confidence)


def _events(outputs, most=64):
    values, counts = np.unique(outputs[~np.isnan(outputs)], return_counts=True)
    ranks = np.searchsorted(counts.cumsum(), np.linspace(0.002, 0.998, most) * counts.sum()) if values.size else []
    cuts = values[np.unique(ranks).astype(int)]
    atoms = values[np.argsort(-counts, kind="stable")][:most] if (counts > 1).any() else []
    return ([(f"output <= {t:.4g}", lambda x, t=t: x <= t) for t in cuts]
            + [(f"output >= {t:.4g}", lambda x, t=t: x >= t) for t in cuts]
            + [(f"output == {v:.4g}", lambda x, v=v: x == v) for v in atoms]
            + ([("output is NaN", np.isnan)] if counts.sum() < outputs.size else []))


def _ratio_bound(x, n, y, m, delta, error):
    from scipy.special import betaincinv
    low = betaincinv(x, n - x + 1, error) if x else 0.0
    high = betaincinv(y + 1, m - y, 1 - error) if y < m else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf
