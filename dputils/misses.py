"""What a law test would not notice: the distance it sees, the budget and the disclosure that pass.

A test that finds nothing proves little. These functions say how little, for the comparisons that
`audit.law_test` makes, so that an audit can print it beside its result.
"""

import math
from dataclasses import dataclass

import numpy as np

from dputils import checks, law_tests
from dputils.law_tests import ALPHA


@dataclass(frozen=True)
class Misses:
    """What a law test would not notice: see `would_miss`."""

    draws: int
    budget: float | None
    disclosure: float

    def __str__(self):
        larger = "any larger budget" if self.budget == math.inf else None
        if self.budget is not None and larger is None:
            larger = f"a budget up to {self.budget:.4g} times the stated one"
        percent = 100 * self.disclosure
        shown = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
        share = f"an exact disclosure in {shown} % of the releases"
        what = share if larger is None else f"{larger}, or {share},"
        return f"{self.draws:,} draws; {what} would pass."


def reach(tests, alpha, beta):
    """The distance that is caught, times the square root of the number of draws."""
    checks.probability("alpha", alpha)
    checks.probability("beta", beta)
    checks.integer("tests", tests, low=1)
    return math.sqrt(math.log(4 * tests / alpha) / 2) + math.sqrt(math.log(2 / beta) / 2)


def would_miss(
    n, law, *, k=1, weaker=None, disclosed=None, discrete=False, zero=None, alpha=ALPHA, beta=ALPHA
):
    """What a law test may not notice: a larger budget, or an exact disclosure.

    Two laws at distance d* = sqrt(ln(12 k^2/alpha)/(2 n)) + sqrt(ln(2/beta)/(2 n)) or less may
    not be told apart; at a larger distance the wrong one is caught with probability 1 - beta.

    Parameters
    ----------
    n, k : int, the draws and the coordinates of each
    law : the claimed law, as for `law_test`
    weaker : function or None, c -> the mechanism's own law at c times its budget, for c >= 1
    disclosed : for a finite law: the law of the samples if each release is a disclosure, or None.
        By default that is one outcome, the same in all releases; state it where the truth differs
        between releases and the samples hold it.
    discrete : bool, as for `law_test`
    zero : float or None
        The law's own probability of an output equal to the truth; by default that of the law,
        1e-15 for a continuous one.
    alpha, beta : float, the probability of a false alarm, and of a miss

    Returns
    -------
    Misses
        `budget`: the largest c whose law is within d*, rounded up to three digits (None without
        `weaker`, inf if no c is caught). `disclosure`: the largest probability with which the
        truth itself may come out unnoticed: the smaller of d*/max(F(0-), 1 - F(0)) and what the
        count of zeros lets pass, 1 - beta^(1/n) if one is enough; for a finite law, where the
        truth may be any outcome, the first at the worst of them, or d* over the distance of the
        law `disclosed`.
    """
    checks.integer("n", n, low=1)
    nearest = reach(3 * checks.integer("k", k, low=1) ** 2, alpha, beta) / math.sqrt(n)
    budget = None if weaker is None else _largest_budget(law, weaker, discrete, nearest)
    if callable(law):
        zero = _own_zero(law, discrete) if zero is None else zero
        seen = _zeros_missed(n, zero, alpha / (2 * law_tests.KINDS * k), beta)
        shares = (nearest / max(1e-300, _step(law, discrete)), seen)
    elif disclosed is not None:  # a mixture's distance is its share of the whole one's
        shares = (nearest / max(1e-300, law_distance(law, disclosed)),)
    else:
        masses = law_tests.finite_law("law", law)[1]
        upto = np.cumsum(masses)
        shares = (nearest / max(1e-300, np.maximum(upto - masses, 1 - upto).min()),)
    return Misses(n, budget, float(min(1.0, *shares)))


def _own_zero(law, discrete):
    below, upto = np.asarray(law(np.array([-1.0, 0.0])), dtype=float)
    return upto - below if discrete else law_tests.GRANULARITY


def _step(law, discrete):
    """The distance of a law from an exact disclosure, max(F(0-), 1 - F(0))."""
    below, upto = np.asarray(law(np.array([-1.0, 0.0])), dtype=float)
    return float(max(below if discrete else upto, 1 - upto))


def _zeros_missed(n, zero, level, beta):
    """The disclosure rate at which there are too many zeros with probability 1 - beta."""
    from scipy.special import betainccinv

    hits = np.arange(n + 1)
    alarms = hits[law_tests.at_least(hits, n, zero) < level]
    if not alarms.size:
        return 1.0
    needed = int(alarms[0])
    rate = betainccinv(needed, n - needed + 1, beta)
    return max(0.0, (rate - zero) / (1 - zero))


def _largest_budget(law, weaker, discrete, nearest):
    low, high = 1.0, 2.0
    while law_distance(law, weaker(high), discrete=discrete) <= nearest:
        low, high = high, 2 * high
        if high > 1e6:
            return math.inf
    while (
        high - low > 1e-4 * low
    ):  # the law at `low` times the budget is near, the one at `high` is not
        middle = (low + high) / 2
        if law_distance(law, weaker(middle), discrete=discrete) <= nearest:
            low = middle
        else:
            high = middle
    return _rounded_up(high)


def _rounded_up(x):
    """Three significant digits, never below x."""
    digits = 10.0 ** (2 - math.floor(math.log10(x)))
    return math.ceil(x * digits) / digits


def law_distance(law, other, *, discrete=False):
    """The Kolmogorov distance of two laws, given as for `audit.law_test`.

    Exact for finite laws, their outcomes in the order of the first. For distribution functions
    the largest gap at 4,096 quantiles of the first, from below and short of the supremum by at
    most 1/2048.
    """
    if not callable(law):
        first, second = (
            dict(zip(*law_tests.finite_law(*given))) for given in (("law", law), ("other", other))
        )
        names = dict.fromkeys([*first, *second])
        gaps = [first.get(name, 0.0) - second.get(name, 0.0) for name in names]
        return float(np.abs(np.cumsum(gaps)).max())
    points = _quantiles(law, discrete)
    return float(np.abs(np.asarray(law(points)) - np.asarray(other(points))).max())


def _quantiles(cdf, discrete, m=4096):
    levels = (np.arange(m) + 0.5) / m
    whole = np.floor if discrete else np.asarray
    width = 1.0
    while cdf(np.array([-width]))[0] > levels[0] or cdf(np.array([width]))[0] < levels[-1]:
        width *= 2
    low, high = np.full(m, -width), np.full(m, width)
    for _ in range(90):  # F(low) < level <= F(high)
        middle = (low + high) / 2
        below = cdf(whole(middle)) < levels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.unique(whole(high))
