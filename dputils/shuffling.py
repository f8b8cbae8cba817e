"""Shuffled reports: what a promise about one report becomes if all reports arrive mixed.

n persons report by one epsilon0-private `local.Protocol`; somebody who is trusted with this, and
with nothing else, forwards the reports in a random order, without names. Two tables differ in one
person's value, x or y.

1. *Clones.* Let each other person's report follow, with probability gamma, the even mixture of the
   laws of x and of y, whatever this person's value is. Such a gamma exists: every law of the
   protocol is at least e^-epsilon0 times that of x, and of y, so gamma = e^-epsilon0 will do. By
   direct encoding x and y are reported with probability q at least, p + q from the mixture twice;
   other values with q at least, in the mixture with q: gamma = 2 q/(p + q) = 2/(e^epsilon0 + 1).
2. *Two laws.* The laws of x and y are mixtures of two laws U and V with the weights (r, 1 - r)
   and (1 - r, r), r = e^epsilon0/(e^epsilon0 + 1) (Kairouz, Oh, Viswanath 2015). So a clone draws
   from U or V by a fair coin, the person by a coin of bias r. Let C ~ Bin(n - 1, gamma) be the
   number of clones, and a of the C + 1 draws be from U. From (a, C) all else is made in the same
   way on both tables; the hockey-stick divergence of the law of (a, C) is an upper bound.
3. For a given C = c the ratio of the two laws of a rises with a, so the set that attains the
   divergence is a >= m, m = 1 + floor((c + 1) back/(lead + back)), and with T the upper tail of
   Bin(c, 1/2)
       delta_c = lead T(m - 1) - back T(m),   lead = r - e^epsilon (1 - r),
                                              back = e^epsilon r - (1 - r).
4. delta_c falls as c grows, since a further fair coin could be thrown by anybody. So neighbouring c
   may be treated as the smallest of them, which errs upwards; by Bernstein's inequality at most 2
   e^-60 lies outside the c that are looked at, and delta_c <= lead.

Ranges: epsilon0 from 1e-3 to 30, n up to 10^9, delta from 1e-20.
"""

import math
from functools import partial

import numpy as np
from scipy import special

from dputils import checks, local, noise, randomized_response
from dputils.accounting.costs import Approximate, Pure
from dputils.accounting.mechanism import Mechanism

_BUDGETS = (1e-3, 30)
_PERSONS = 10**9
_DELTAS = (1e-20, 1 - 2.0**-53)
_FAR = 60  # e^-60 of the clones' law lies beyond, on each side
_CELLS = 1 << 9
_SLACK = 1e-11  # relative; beyond the rounding of the tails of Bin(c, 1/2)


# ------------------------------------------------------------------------------------ the guarantee


def clones(protocol):
    """Return the probability that another person's report hides whose value was replaced.

    Returns
    -------
    float
        gamma of step 1: 2/(e^epsilon0 + 1) for direct encoding, else e^-epsilon0.

    Source
        Feldman, McMillan, Talwar 2021 (e^-epsilon0) and 2023 (the larger probability).
    """
    budget = _budget(protocol)
    if protocol.name == "direct encoding":
        return 2 * randomized_response.probabilities(budget)[1]
    return math.exp(-budget)


def central_delta(protocol, n, epsilon):
    """Return a delta, rounded up, at which shuffled reports are (epsilon, delta)-private.

    Parameters
    ----------
    protocol : local.Protocol
    n : int
        The persons who report by the protocol and keep their report to themselves, the one who is
        protected among them.
    epsilon : float, at least 0

    Source
        Feldman, McMillan, Talwar 2021; steps 1 to 4 above.
    """
    checks.not_negative("epsilon", epsilon)
    return _delta(float(epsilon), _budget(protocol), *_clone_law(n, clones(protocol)))


def central_epsilon(protocol, n, delta):
    """Return an epsilon, rounded up, at which shuffled reports are (epsilon, delta)-private.

    It is at most the protocol's own, whatever delta is. Arguments as for `central_delta`.
    """
    delta = float(checks.within("delta", delta, *_DELTAS))
    budget, law = _budget(protocol), _clone_law(n, clones(protocol))
    low, high = 0.0, budget  # at `high` the guarantee holds
    while high - low > 1e-8 * high and high > 1e-12:
        middle = (low + high) / 2
        if _delta(middle, budget, *law) <= delta:
            high = middle
        else:
            low = middle
    return high


def local_epsilon(protocol_at, n, epsilon, delta):
    """Return the largest budget of a report, rounded down, whose shuffled reports are (epsilon,
    delta)-private; at least epsilon, at most 30.

    Parameters
    ----------
    protocol_at : function of a budget
        Returns the protocol, for example `partial(local.direct, 2)`.
    n, epsilon, delta
        As for `central_delta`.
    """
    checks.within("epsilon", epsilon, *_BUDGETS)
    checks.within("delta", delta, *_DELTAS)
    low, high = float(epsilon), _BUDGETS[1]  # at `low` the guarantee holds
    while high - low > 1e-8 * low:
        middle = (low + high) / 2
        if central_delta(protocol_at(middle), n, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def _delta(epsilon, budget, counts, masses, rest):
    """Step 3, summed over the numbers of clones of step 4."""
    if epsilon >= budget:
        return 0.0
    q = math.exp(-budget) / (1 + math.exp(-budget))
    lead = -math.expm1(epsilon - budget) / (1 + math.exp(-budget))
    back = math.expm1(epsilon + budget) * q
    m = np.floor((counts + 1) * (back / (lead + back))) + 1
    first, second = lead * _tail(counts, m - 1), back * _tail(counts, m)
    each = np.clip(first - second + _SLACK * (first + second), 0, lead)
    return min(1.0, (float(masses @ each) + rest * lead) * (1 + 1e-9))


def _tail(c, m):
    """P(Bin(c, 1/2) >= m)."""
    inside = (m >= 1) & (m <= c)
    safe = np.where(inside, m, 1), np.where(inside, c - m + 1, 1)
    return np.where(inside, special.betainc(*safe, 0.5), np.where(m < 1, 1.0, 0.0))


def _clone_law(n, gamma):
    """Numbers of clones with their probabilities, and the probability of all others."""
    others = checks.within("n", checks.integer("n", n, low=1), 1, _PERSONS) - 1
    reach = _FAR / 3 + math.sqrt(_FAR**2 / 9 + 2 * others * gamma * (1 - gamma) * _FAR)
    low = max(0, math.floor(others * gamma - reach))
    high = min(others, math.ceil(others * gamma + reach))
    c = np.arange(low, high + 1)
    steps = np.log((others - c[:-1]) / (c[:-1] + 1)) + math.log(gamma / (1 - gamma))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    masses = np.exp(logs - special.logsumexp(logs))
    starts = np.arange(0, c.size, -(-c.size // _CELLS))
    rest = 0.0 if high - low == others else 2 * math.exp(-_FAR)
    return c[starts], np.add.reduceat(masses, starts), rest


# -------------------------------------------------------------------------------------- the release


def mechanism(protocol, n, delta, *, honest=None):
    """Return a protocol with a shuffler as a mechanism, for a `Ledger`: a column of n values
    becomes n reports in a random order.

    Privacy
        (`central_epsilon`, delta)-differentially private when one honest person's own value is
        replaced, towards all who see only the shuffled list; epsilon0-private without trust in
        anybody. Trusted: that the order is random and secret, that no name, time or address is
        kept with a report, and that `honest` of the n persons (this one among them) report by the
        protocol and tell nobody what they sent. Public: who reports, n, the values, epsilon0.

    Parameters
    ----------
    protocol : local.Protocol
    n : int
        How many persons report.
    delta : float
    honest : int, at most n
        By default all.

    Returns
    -------
    Mechanism
        Exact. Refuses a column of another length than n; values are read as by
        `local.mechanism`.

    Raises
    ------
    ValueError
        If a public argument is out of range.
    """
    checks.within("n", checks.integer("n", n, low=1), 1, _PERSONS)
    honest = n if honest is None else checks.integer("honest", honest, low=1)
    if honest > n:
        raise ValueError(f"honest must be at most n, got honest={honest}, n={n}")
    inner = local.mechanism(protocol)
    epsilon = central_epsilon(protocol, honest, delta)
    return Mechanism(
        name=f"shuffled {protocol.name}, {protocol.d} values, {n} persons, {honest} honest",
        costs=(Approximate(epsilon, delta), Pure(protocol.epsilon)),
        neighbours="replace-one",
        unit=local.UNIT,
        read=partial(_read, n=n, inner=inner),
        draw=partial(_draw, inner=inner),
        exact=True,
    )


def order(n, *, rng):
    """Draw a random order of n things exactly: random numbers are sorted, all anew if two are
    equal.

    Returns
    -------
    int64 array of shape (n,)
    """
    checks.within("n", checks.integer("n", n, low=0), 0, _PERSONS)
    while True:
        keys = noise.integers(1 << 62, n, rng=rng)
        found = np.argsort(keys)
        if (np.diff(keys[found]) > 0).all():
            return found


def count_law(ones, n, epsilon0):
    """Return the law of the number of ones among the reports of n persons, `ones` of whom have a
    one, by direct encoding of two values.

    That number is all that a shuffled list of such reports says.

    Returns
    -------
    float array of shape (n + 1,)
        Bin(ones, p) + Bin(n - ones, q), from sums of positive terms.
    """
    checks.within("n", checks.integer("n", n, low=1), 1, 10**4)
    checks.within("ones", checks.integer("ones", ones, low=0), 0, n)
    p, q = randomized_response.probabilities(checks.within("epsilon0", epsilon0, *_BUDGETS))
    return np.convolve(_binomial(ones, p, q), _binomial(n - ones, q, p))


def _binomial(n, p, q):
    """The law of Bin(n, p), q = 1 - p."""
    k = np.arange(n + 1)
    choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return np.exp(choose + k * math.log(p) + (n - k) * math.log(q))


def _read(values, n, inner):
    truth = inner.read(values)
    if truth.size != n:
        raise ValueError(f"values must hold the answers of n={n} persons, got {truth.size}")
    return truth


def _draw(truth, inner, *, rng):
    return inner.draw(truth, rng=rng)[order(truth.size, rng=rng)]


def _budget(protocol):
    if not isinstance(protocol, local.Protocol):
        raise ValueError(f"protocol must be a local.Protocol, got {protocol!r}")
    return float(checks.within("epsilon0", protocol.epsilon, *_BUDGETS))
