"""Audits of a stated guarantee: the law, exactly, and the code, by its samples.

An audit has two halves. The *law*: what is the smallest epsilon (or delta) of two output laws on
neighbouring tables? Exact for finite laws, a supremum or a quadrature for densities. The *code*:
do a release's samples follow the law it claims (`law_test`)? If no law is known,
`attacks.epsilon_lower_bound` looks at outputs alone.

A test that finds nothing proves little, so each form that raises prints what would have passed
(`misses.would_miss`), and `law_test_size` says how many samples catch a twin at a known distance.
**Broken releases that still pass**, in how many of 50 runs of 20,000 draws (Laplace noise of
scale 2 and two-sided geometric noise of scale 4, unless said otherwise):

| broken release | passes |
|---|---|
| 1.05 times the stated budget (1.1 times: 19; 1.24 times: 0) | 50 |
| the truth itself in one of 20,000 releases of Laplace noise (in one of 1,450: 0) | 24 |
| the truth itself in one of 200 releases of geometric noise, which gives it anyway | 50 |
| Laplace noise cut off at 8 scales (at 7 scales: 0; see `tail_test_size`) | 50 |
| Laplace noise rounded to multiples of 2^-9, as if that were its precision | 50 |
| 10,000 geometric draws, each release takes one of them at random | 49 |
| one geometric draw in 50 is a copy of an earlier one at random | 50 |
| every third number is the sum mod 1 of the two before it, as uniforms | 50 |
| the fourth of four numbers is the sum mod 1 of the other three, as uniforms | 50 |
| geometric noise of scale 1,000 that is never 3 modulo 11 | 50 |
| no noise on empty bins, tried on a histogram that has none | 50 |

No number of draws helps against what a test of noise does not look at: a fault at values, sizes
or budgets that were not tried, a seed that others know, last bits of floating-point numbers that
depend on the value, time.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dputils import checks, law_tests, misses, noise
from dputils.law_tests import ALPHA

_WHOLE = 2.0**53  # whole numbers up to here are exact as floats


class AuditFailed(AssertionError):
    """A release, or a law, that is not what it claims; or a broken twin that nothing caught."""


# --------------------------------------------------------------------------------- the law, exactly


def finite_epsilon(p, q):
    """The smallest epsilon of two laws on a finite set: max |ln(p/q)|.

    It is inf if one law can give what the other cannot.

    Parameters
    ----------
    p, q : two dicts or two sequences of probabilities by output
        `Fraction`s stay exact, a missing key means 0. Each law must sum to 1: exactly where all
        its probabilities are whole numbers or fractions, within 1e-9 otherwise.

    Raises
    ------
    ValueError
        If a law is none: lengths that differ, a number that is no probability, a mass that is not
        1.
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
    """The smallest delta at an epsilon >= 0 for two finite laws.

    The larger of sum (p - e^epsilon q)_+ both ways.

    The laws are given, and refused, as in `finite_epsilon`.
    """
    exponent = min(checks.not_negative("epsilon", epsilon), 709)  # more is no float: errs upwards
    factor = math.exp(exponent)
    pairs = [(float(a), float(b)) for a, b in _matched(p, q)]
    one, other = pairs, [(b, a) for a, b in pairs]
    return max(math.fsum(max(0.0, a - factor * b) for a, b in way) for way in (one, other))


def mechanism_epsilon(law, pairs):
    """The smallest epsilon of a `law` over pairs of neighbours, and the worst pair.

    A `law` is a function of a table that returns a dict of probabilities.
    """
    worst = max(pairs, key=lambda pair: finite_epsilon(law(pair[0]), law(pair[1])))
    return finite_epsilon(law(worst[0]), law(worst[1])), worst


def _matched(p, q):
    """The pairs of probabilities of two finite laws, each checked."""
    dicts = isinstance(p, dict), isinstance(q, dict)
    if dicts[0] != dicts[1] or not dicts[0] and len(p) != len(q):
        raise ValueError(
            f"p and q must be two dicts or two sequences of one length, got {p!r} and {q!r}"
        )
    for name, law in (("p", p), ("q", q)):
        law_tests.checked_masses(name, list(law.values()) if isinstance(law, dict) else list(law))
    if dicts[0]:
        return [(p.get(key, 0), q.get(key, 0)) for key in dict.fromkeys([*p, *q])]
    return list(zip(p, q))


def density_epsilon(log_p, log_q, points, reach=40.0):
    """The supremum of |log p(x) - log q(x)| over the line; inf if it grows in a tail.

    Exact where the log-ratio is monotone between neighbouring `points`, which holds for Laplace
    and all piecewise linear log densities when `points` contains their kinks. Beyond the points
    the ratio is followed out to `reach` spans on each side, no further. If it still rises there,
    what it gained over the last doubling of the distance is compared with the doubling before:
    inf unless the gain shrank to 3/4 or less (right for a ratio that grows, cautious for one that
    levels off slowly), else the level it heads for.

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
    """Where a log-ratio heads that was seen at a quarter, at half and at all of the way out."""
    before, last = half - quarter, end - half
    if last <= 1e-9 * max(1.0, end):
        return end
    if last > 0.75 * before:
        return math.inf
    return end + last * last / (before - last)  # the rest as a geometric series


def _grid(points):
    points = np.unique(np.asarray(points, dtype=float))
    if points.size < 2 or not np.isfinite(points).all():
        raise ValueError(
            f"points must hold at least two different numbers, all finite, got {points.tolist()}"
        )
    return points


def density_delta(log_p, log_q, epsilon, points):
    """The hockey-stick divergence at epsilon of two densities, both ways, to about 1e-10.

    Parameters
    ----------
    log_p, log_q : log densities
    epsilon : float, at least 0
    points : sequence of float
        Kinks and a grid that covers the mass; the places where p = e^epsilon q are found between
        them, and up to 40 spans beyond them, by bisection and become limits of integration, as do
        the points themselves, with both tails to infinity. Refused if the same quadrature misses
        1e-9 of the mass.
    """
    from scipy.optimize import brentq

    def one_way(first, second):
        def gap(x):
            a, b = float(first(x)), float(second(x))
            return a - b - epsilon

        def excess(x):
            a, b = float(first(x)), float(second(x))
            return math.exp(a) - math.exp(epsilon + b) if a > epsilon + b else 0.0

        steps = [(lo, hi) for lo, hi in zip(wide, wide[1:]) if gap(lo) * gap(hi) < 0]
        cuts = [brentq(gap, lo, hi) for lo, hi in steps]
        limits = [-np.inf, *sorted({*grid, *cuts}), np.inf]
        mass = _integral(lambda x: math.exp(first(x)), limits)
        if not abs(mass - 1) < 1e-9:
            raise ValueError(
                f"points must cover the mass of both densities, the quadrature finds "
                f"{mass:.10g} in place of 1"
            )
        return _integral(excess, limits)

    checks.not_negative("epsilon", epsilon)
    grid = _grid(points)
    beyond = (grid[-1] - grid[0]) * np.linspace(0, 40, 81)[1:]
    wide = [*(grid[0] - beyond[::-1]), *grid, *(grid[-1] + beyond)]
    return max(one_way(log_p, log_q), one_way(log_q, log_p))


def _integral(f, limits):
    from scipy.integrate import quad

    parts = zip(limits, limits[1:])
    return math.fsum(quad(f, lo, hi, epsabs=1e-13, full_output=1)[0] for lo, hi in parts)


def assert_epsilon(p, q, epsilon, *, delta=0.0, points=None):
    """Print what two laws attain against what is stated, and raise `AuditFailed` if they exceed it.

    Parameters
    ----------
    p, q : two finite laws (dicts or sequences of probabilities), or two vectorised log densities
    epsilon, delta : float, the statement; with delta = 0 the largest log-ratio is compared,
        otherwise the delta
    points : sequence of float, required for densities (see `density_epsilon` and `density_delta`)

    Returns
    -------
    float
        The attained epsilon, or the attained delta at `epsilon`. The comparison forgives 1e-9 of
        the stated number, for rounding (and 1e-10 for a delta by quadrature).
    """
    epsilon = float(checks.not_negative("epsilon", epsilon))
    checks.delta(delta)
    if callable(p) and points is None:
        raise ValueError("points must be given for log densities, got None")
    densities = callable(p)
    if not delta:
        attained = density_epsilon(p, q, points) if densities else finite_epsilon(p, q)
        said = f"The largest log-ratio of the two laws is {attained:.4g}; {epsilon:.4g} is stated."
        return _within(attained, epsilon * (1 + 1e-9) + 1e-15, said)
    if densities:
        attained, forgiven = density_delta(p, q, epsilon, points), 1e-10
    else:
        attained, forgiven = finite_delta(p, q, epsilon), 0.0
    rounding = 1e-9 * delta  # less than that differs between processors
    needed = f"{attained:.4g}" if attained > rounding else f"below {rounding:.4g}"
    said = f"At epsilon {epsilon:.4g} the laws need delta {needed}; {delta:.4g} is stated."
    return _within(attained, delta * (1 + 1e-9) + forgiven, said)


def _within(attained, stated, said):
    if attained > stated:
        raise AuditFailed(said)
    print(said)
    return attained


# ----------------------------------------------------------------------------- the code, by samples


@dataclass(frozen=True)
class LawTest:
    """Outcome of `law_test`: a distance, which comparison saw it, a bound on the p-value of all."""

    distance: float
    where: str
    p_value: float
    samples: int
    missed: misses.Misses | None = None

    def passes(self, alpha=ALPHA):
        """Whether the samples fit the law; a correct release fails with probability <= alpha."""
        return self.p_value > alpha


def law_test(samples, law, *, discrete=False, rng=None):
    """Test samples of a release's noise against the law it claims.

    The samples are mapped to uniforms U through the claimed law. Compared are each coordinate,
    and pairs of coordinates of one release and of neighbouring ones (`law_tests.distances`, 3 k^2
    comparisons for k coordinates: half of alpha is theirs); and, with a twelfth of alpha for each
    kind: triples of coordinates, all longer lags, the extreme tails, values that come back, exact
    zeros (releases that equal the truth), and residues of integers. Finite laws: the count of
    each outcome in place of the last three. Values that are not finite, not whole for a discrete
    law, or of an unknown outcome fail at once. What passes nevertheless: the table at the head of
    this module.

    Parameters
    ----------
    samples : array of shape (n,) or (n, k)
        Released minus exact value of n independent releases of k coordinates, all of one value;
        or outcomes.
    law : function, dict or sequence
        The vectorised distribution function of the claimed noise, exact to 1e-12; or the
        probabilities by outcome; or the probabilities of 0, ..., m - 1.
    discrete : bool, whether a distribution function is of a law on the integers; ties are then
        broken at random
    rng : numpy.random.Generator or noise.SYSTEM, required unless the law is continuous

    Returns
    -------
    LawTest
        P(p-value <= a) <= a for a correct release, any n and any a: each comparison's bound is
        proven, and they are added up (Bonferroni).
    """
    if not callable(law):
        return _outcome_test(samples, law, rng)
    x = _columns(np.asarray(samples, dtype=float))
    ties = _uniform(x.shape, rng) if discrete else None
    if not np.isfinite(x).all() or discrete and (x != np.rint(x)).any():
        return LawTest(1.0, "values that the law cannot give", 0.0, len(x))
    if discrete and np.abs(x).max() > _WHOLE:
        raise ValueError(f"samples must lie within 2^53 of zero, got {np.abs(x).max():.4g}")
    if discrete:
        return _verdict(law_tests.of_integers(x, law, ties), len(x))
    return _verdict(law_tests.of_reals(x, law), len(x))


def _verdict(kinds, n):
    log_p, distance, where = law_tests.smallest(kinds)
    return LawTest(distance, where, min(1.0, math.exp(log_p)), n)


def _columns(x):
    if x.ndim not in (1, 2) or x.size == 0:
        raise ValueError(
            f"samples must have shape (n,) or (n, k), n and k at least 1, got {x.shape}"
        )
    return x.reshape(len(x), -1)


def _uniform(shape, rng):
    """Numbers that break ties, from a generator or from the operating system."""
    if isinstance(checks.generator(rng), np.random.Generator):
        return noise.uniform(0, 1, shape, rng=rng)
    words = np.frombuffer(rng.bytes(8 * math.prod(shape)), "<u8")
    return ((words >> 11) * 2.0**-53).reshape(shape)


def _outcome_test(samples, law, rng):
    checks.generator(rng)
    names, masses = law_tests.finite_law("law", law)
    codes = _codes(samples, names)
    if codes is None:
        return LawTest(1.0, "values that the law cannot give", 0.0, len(samples))
    kinds = law_tests.of_outcomes(codes, masses, names, _uniform(codes.shape, rng))
    return _verdict(kinds, len(codes))


def _codes(samples, names):
    """The place of each outcome in `names`, shape (n, k), or None if one is not among them."""
    places = {name: place for place, name in enumerate(names)}
    rows = samples.tolist() if isinstance(samples, np.ndarray) else list(samples)
    if isinstance(samples, np.ndarray) and samples.ndim == 2:
        codes = [[places.get(entry) for entry in row] for row in rows]
    else:
        codes = [places.get(row) for row in rows]
    codes = _columns(np.array(codes, dtype=object))
    return None if (codes == None).any() else codes.astype(np.int64)  # noqa: E711


def law_test_size(distance, tests=1, alpha=ALPHA, beta=ALPHA):
    """Samples for `law_test` to catch a law at a distance, with probability at least 1 - beta.

    Parameters
    ----------
    distance : float in (0, 1], Kolmogorov distance of the true from the claimed law
    tests : int, the distances compared: 3 k^2 for k coordinates (a scalar: the law, and two with
        the release before)
    alpha, beta : float, the probability of a false alarm, and of a miss

    Returns
    -------
    int
        ceil((sqrt(ln(4 tests/alpha)/2) + sqrt(ln(2/beta)/2))^2/distance^2), by the same
        inequality used twice; half of alpha belongs to these comparisons.
    """
    checks.positive("distance", distance)
    if distance > 1:
        raise ValueError(f"distance must be at most 1, got {distance!r}")
    return math.ceil((misses.reach(tests, alpha, beta) / distance) ** 2)


def tail_test_size(probability, k=1, alpha=ALPHA):
    """Samples for `law_test` to catch, with certainty, a tail that is never reached.

    Truncation of Laplace noise at 8 scales cuts off a tail of `probability` exp(-8): 53,923 draws
    for one number. Returns ceil(ln(72 k/alpha)/-ln(1 - probability)): six tail tests a
    coordinate, a twelfth of alpha for them.
    """
    checks.probability("probability", probability)
    checks.integer("k", k, low=1)
    checks.probability("alpha", alpha)
    return math.ceil(math.log(6 * k * 2 * law_tests.KINDS / alpha) / -math.log1p(-probability))


def rate_bounds(hits, n, confidence=1 - ALPHA):
    """Bounds (low, high) on the probability of an event that was seen `hits` times of n.

    Exact binomial bounds, each wrong with probability at most (1 - confidence)/2, so that both are
    right with the confidence.

    Source
        Clopper and Pearson 1934.
    """
    from scipy.special import betaincinv

    checks.integer("n", n, low=1)
    checks.integer("hits", hits, low=0)
    checks.probability("confidence", confidence)
    if hits > n:
        raise ValueError(f"hits must be at most n, got {hits} of {n}")
    error = (1 - confidence) / 2
    low = float(betaincinv(hits, n - hits + 1, error)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - error)) if hits < n else 1.0
    return low, high


# --------------------------------------------------------------------------------- forms that raise


def assert_law(samples, law, *, weaker=None, disclosed=None, discrete=False, rng=None, alpha=ALPHA):
    """Test samples against a law: print what would have passed, or raise `AuditFailed`.

    Parameters
    ----------
    samples, law, discrete, rng : as for `law_test`
    weaker, disclosed : as for `misses.would_miss`
    alpha : float, the probability of a false alarm

    Returns
    -------
    LawTest : with `missed` filled.
    """
    checks.probability("alpha", alpha)
    test = law_test(samples, law, discrete=discrete, rng=rng)
    if not test.passes(alpha):
        raise AuditFailed(f"The draws do not follow the stated law: {_shown(test)}.")
    n, k, zero = test.samples, _coordinates(samples, law), None
    if callable(law) and not discrete:
        zero = float(law_tests.zero_mass(_columns(np.asarray(samples, dtype=float)), law).max())
    missed = misses.would_miss(
        n,
        law,
        k=k,
        weaker=weaker,
        disclosed=disclosed,
        discrete=discrete,
        zero=zero,
        alpha=alpha,
    )
    print(f"The draws fit the stated law. {missed}")
    return replace(test, missed=missed)


def _coordinates(samples, law):
    """The number k of coordinates; in a list, an outcome of a finite law may itself be a tuple."""
    if not callable(law) and not isinstance(samples, np.ndarray):
        return 1
    return np.shape(samples)[1] if np.ndim(samples) == 2 else 1


def assert_caught(samples, law, *, discrete=False, rng=None, alpha=ALPHA):
    """Print where a broken twin is caught, and raise `AuditFailed` if `law_test` lets it pass.

    Parameters as for `assert_law`. Returns the LawTest.
    """
    checks.probability("alpha", alpha)
    test = law_test(samples, law, discrete=discrete, rng=rng)
    if test.passes(alpha):
        raise AuditFailed(f"The broken release passes: {_shown(test)}, in {test.samples:,} draws.")
    print(f"The broken release is caught: {_shown(test)}.")
    return test


def _shown(test):
    exponent = max(-300, math.ceil(math.log10(test.p_value))) if test.p_value else -300
    size = f"below 10^{exponent}" if test.p_value < 1e-4 else f"{test.p_value:.2g}"
    return f"{test.where}, distance {test.distance:.3g}, p-value {size}"


def noise_of(release, value, n, *, rng):
    """The noise of n releases of one value: each output minus the value, exact for integers.

    Parameters
    ----------
    release : function of a value and a keyword `rng`, returns an array (or number) of the value's
        shape
    value : number or array, what is released
    n : int, the number of releases
    rng : as the release takes it

    Returns
    -------
    array of shape (n,) for a number, (n, k) for k numbers of any shape
        int64 if all outputs and values are whole, otherwise float.
    """
    checks.integer("n", n, low=1)
    truth = np.asarray(value)
    outputs = [np.asarray(release(value, rng=rng)) for _ in range(n)]
    for output in outputs:
        if output.shape != truth.shape:
            raise ValueError(
                f"release must return the shape {truth.shape} of its value, got {output.shape}"
            )
    entries = np.array([output.tolist() for output in outputs], dtype=object)
    exact = entries.reshape(n, truth.size) - truth.astype(object).ravel()
    whole = all(isinstance(entry, int) for entry in exact.flat)
    exact = exact.astype(np.int64 if whole else float)
    return exact if truth.ndim else exact[:, 0]


def assert_mechanism(mechanism, value, *, rng, n=None):
    """Release a value n times by a `Mechanism` and give its noise to `assert_law`.

    Parameters
    ----------
    mechanism : called as mechanism(value, rng=rng)
        `mechanism.law(c)` is the distribution function of output minus value at c times the
        stated budget, `mechanism.discrete` says whether it lives on the integers.
    value : number or array
    rng : numpy.random.Generator or noise.SYSTEM, for the releases and to break ties
    n : int, 20,000 by default

    Returns
    -------
    LawTest : with `missed` filled.
    """
    if not callable(mechanism.law):
        raise ValueError(f"mechanism must have a law to be tested against, got {mechanism.law!r}")
    samples = noise_of(mechanism, value, 20_000 if n is None else n, rng=rng)
    law = mechanism.law(1)
    return assert_law(samples, law, weaker=mechanism.law, discrete=mechanism.discrete, rng=rng)
