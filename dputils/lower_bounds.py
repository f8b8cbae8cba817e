"""More ways to a lower bound on epsilon: scores as events, one run with many coins, and power.

`attacks.epsilon_lower_bound` finds an event among half-lines. Here an event is made from a score
that a classifier gives; one run in which many persons are in or out by coins gives a bound by
itself; and the runs that an audit needs are computed before it begins.

Letters: p and q the probabilities of an event on two neighbouring tables, n the runs on each; alpha
the probability of a false alarm, beta that of a miss. In one run: m persons whose coins decide
whether they are in, k guesses of their coins, v of them right, W a binomial number of k trials with
probability e^epsilon/(1 + e^epsilon).

Ranges: n up to 2^30, m up to 2^24.
"""

import math
from dataclasses import dataclass

import numpy as np

from dputils import audit, checks, noise

_RUNS, _PERSONS, _COIN, _GROUPS = 1 << 30, 1 << 24, 1 << 32, 400


def bound_power(n, p, q, epsilon, *, delta=0.0, alpha=audit.ALPHA):
    """Return the chance that n runs on each table show by an event that `epsilon` does not hold.

    Parameters
    ----------
    n : int
    p, q : float
        The event's probabilities on the two tables; the event is chosen beforehand.
    epsilon, delta : float
        What is stated.
    alpha : float
        The bound is `attacks.ratio_bound` with error alpha/2 each.

    Returns
    -------
    float
        Rounded down: exact up to 400 different counts, and otherwise by groups of counts of
        which the least stands for all.
    """
    _public(p, q, epsilon, delta, alpha)
    n = checks.within("n", checks.integer("n", n, low=1), 1, _RUNS)
    return _power(n, float(p), float(q), float(epsilon), float(delta), alpha / 2)


def _public(p, q, epsilon, delta, alpha):
    checks.within("p", p, 1e-300, 1)
    checks.within("q", q, 0, 1)
    checks.not_negative("epsilon", epsilon)
    checks.delta(delta)
    checks.probability("alpha", alpha)


def _power(n, p, q, epsilon, delta, error):
    from scipy.special import betaincinv

    first, last = _quantile(n, p, 1e-15), n - _quantile(n, 1 - p, 1e-15)
    groups = min(last - first + 1, _GROUPS)
    counts = np.unique(np.linspace(first, last, groups).astype(np.int64))
    upto = np.append(_upto(counts - 1, n, p), 1.0)
    low = np.where(counts > 0, betaincinv(counts, n - counts + 1.0, error), 0.0)
    limit = np.clip((low - delta) * math.exp(-min(epsilon, 700)), 0, 1 - 2**-53)
    most = _most(n, limit, error)  # that many on the second table still show it
    return float(np.sum(np.diff(upto) * _upto(most, n, q)))


def _upto(counts, n, p):
    """Return the chances of at most so many of n; -1 is possible, n is not asked for."""
    from scipy.special import betaincc

    return np.where(counts >= 0, betaincc(np.maximum(counts, 0) + 1.0, n - counts, p), 0.0)


def _quantile(n, p, error):
    """Return a count that n trials of probability p fall short of with at most this error."""
    if p in (0, 1):
        return int(n * p)
    return max(0, int(_most(n, np.array([p]), error)[0]))


def _most(n, chances, error):
    """Return the largest counts that n trials do not exceed with at most this error, or -1."""
    from scipy.special import bdtrik

    counts = np.floor(np.nan_to_num(bdtrik(error, n, chances))).clip(0, n - 1)
    counts -= _upto(counts, n, chances) > error  # the search may end on either side
    fits = (chances > 0) & (_upto(counts, n, chances) <= error)
    return np.where(fits, counts, -1).astype(np.int64)


def runs_needed(p, q, epsilon, *, delta=0.0, alpha=audit.ALPHA, beta=audit.ALPHA):
    """Return a number of runs on each table that show by an event that `epsilon` does not hold.

    Parameters
    ----------
    p, q, epsilon, delta, alpha : as for `bound_power`
        ln((p - delta)/q) must exceed epsilon.
    beta : float
        The probability of a miss.

    Returns
    -------
    int
        An n with `bound_power` at least 1 - beta, not always the least. For delta = 0 it grows
        like ((z_a (s + t) + z_b sqrt(s^2 + t^2))/(ln(p/q) - epsilon))^2, where s^2 = (1 - p)/p,
        t^2 = (1 - q)/q, and z_a, z_b are the upper normal quantiles of alpha/2 and beta.

    Raises
    ------
    ValueError
        If the event cannot show it, or not in 2^30 runs.
    """
    _public(p, q, epsilon, delta, alpha)
    checks.probability("beta", beta)
    if not p - delta > q * math.exp(min(epsilon, 700)):
        raise ValueError(f"p must exceed delta + e^epsilon q, got {p!r} beside q = {q!r}")

    def power(n):
        return _power(n, float(p), float(q), float(epsilon), float(delta), alpha / 2)

    low, high = 0, 1
    while power(high) < 1 - beta:
        low, high = high, 2 * high
        if high > _RUNS:
            raise ValueError(f"p must show epsilon in at most 2^30 runs, got {p!r} and {q!r}")
    while high - low > max(1, high >> 12):  # `high` runs are enough, `low` are not
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= 1 - beta else (middle, high)
    return high


def one_run_bound(right, guesses, persons, *, delta=0.0, confidence=1 - audit.ALPHA):
    """Bound epsilon from below by one run in which fair coins decided who is in.

    Each of m persons was put in or left out by a coin of their own. Whoever saw the release, and
    not the coins, guessed k of the m coins; v guesses are right.

    Parameters
    ----------
    right, guesses, persons : int
        v, k and m. k is fixed before the run; which coins are guessed may depend on the release.
    delta : float
        The delta granted. It counts with all m persons, guessed or not.
    confidence : float
        The probability that the bound is right, at least 1e-12.

    Returns
    -------
    float
        The least epsilon >= 0 at which Pr[W >= v] + 2 m delta max_i Pr[v - i <= W < v]/i exceeds
        1 - confidence, for add-remove of one person; 0 where 2 m delta is above 1. (Up to 1 this
        sum rises with epsilon, so there is one such place.)

    Source
        Steinke, Nasr, Jagielski 2023, with code in Appendix D.
    """
    from scipy.special import betainccinv, betaincinv

    m = checks.within("persons", checks.integer("persons", persons, low=1), 1, _PERSONS)
    k = checks.within("guesses", checks.integer("guesses", guesses, low=1), 1, m)
    v = checks.within("right", checks.integer("right", right, low=0), 0, k)
    checks.delta(delta)
    error = 1 - checks.within("confidence", checks.probability("confidence", confidence), 1e-12, 1)
    share = float(betaincinv(v, k - v + 1, error)) if v else 0.0
    if share <= 0.5 or 2 * m * delta > 1:
        return 0.0
    pure = math.log(share) - math.log(betainccinv(k - v + 1, v, error))  # share may round to 1
    if not delta or _chance(v, k, m, delta, pure) <= error:
        return pure
    low, high = 0.0, pure
    if _chance(v, k, m, delta, low) > error:
        return 0.0
    while high - low > 1e-9:  # epsilon = low is refuted, epsilon = high is not
        middle = (low + high) / 2
        refuted = _chance(v, k, m, delta, middle) <= error
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _chance(v, k, m, delta, epsilon):
    """Return the bound on the chance of v right guesses or more at (epsilon, delta)."""
    from scipy.special import betainc

    share = 1 / (1 + math.exp(-epsilon))
    below = _upto(np.arange(-1, v), k, share)  # Pr[W < j] for j = 0, ..., v
    steps = np.arange(1, v + 1)
    steepest = ((below[v] - below[v - steps]) / steps).max()
    return float(betainc(v, k - v + 1, share)) + 2 * m * delta * steepest


@dataclass(frozen=True)
class ScoreEvent:
    """The outputs whose score is above a threshold, and a random share of those that equal it."""

    threshold: float
    tie: float

    def holds(self, scores, *, rng):
        """Return for each score whether its output is in the event; NaN is below all numbers.

        Parameters
        ----------
        scores : array of any shape
        rng : numpy.random.Generator or noise.SYSTEM
        """
        scores = _numbers(scores)
        coins = noise.integers(_COIN, scores.shape, rng=rng) < self.tie * _COIN
        return (scores > self.threshold) | (scores == self.threshold) & coins


def score_event(scores, share):
    """Return the event of the largest scores that holds for a share of the given ones.

    Parameters
    ----------
    scores : array of shape (n,)
        Of outputs on the second table, for choosing only: the bound is counted on others.
    share : float
        c, the probability of the event on the second table, on average over its ties.

    Returns
    -------
    ScoreEvent

    Source
        Bichsel, Steffen, Bogunovic, Vechev 2021.
    """
    checks.probability("share", share)
    ordered = np.sort(_numbers(scores).ravel())[::-1]
    if not ordered.size:
        raise ValueError("scores must hold at least one number, got none")
    wanted = share * ordered.size
    threshold = ordered[math.ceil(wanted) - 1]
    above, equal = np.sum(ordered > threshold), np.sum(ordered == threshold)
    return ScoreEvent(float(threshold), float((wanted - above) / equal))


def _numbers(scores):
    scores = np.asarray(scores, dtype=float)
    return np.where(np.isnan(scores), -np.inf, scores)
