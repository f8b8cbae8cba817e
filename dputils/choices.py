"""The two limits of epsilon: the largest that a person is paid for, the smallest that a purpose
needs.

Letters: epsilon and delta the promise; E the base cost, what a person expects to pay for bad events
if a study is made on the neighbouring table, without their record; W the largest cost that any
event can have; n the number of persons in a study, alpha its error, missed with probability beta.

What a person pays is c(o) >= 0, a function of the published output o alone. Let P be the law of o
with the person and Q the one without, E the mean of c under Q.

1. The mean of c under P is the integral of P(c > t) over t from 0 to W, and P(c > t) <= e^epsilon
   Q(c > t) + delta. So it is at most e^epsilon E + delta W. (If delta is 0, W may be infinite.)
2. The same for W - c, with P and Q exchanged: W - E <= e^epsilon (W - mean under P) + delta W.
3. Nobody pays more than W. The surcharge is the smallest of the three bounds, minus E.

Epsilons are returned as decimals of three significant digits, rounded to the safe side, from 1e-6
to 1e3. Nothing here sees data.
"""

import math
from functools import partial

from dputils import checks, geometric

_DECADES = range(-8, 1)  # the decimal exponents of a number of three digits
_GRID = 900 * len(_DECADES)  # places of the grid, the last of which is 1000
_MOST = 1 << 50
_ROUNDING = 1 + 1e-15  # more than what floats can take off a surcharge


def surcharge(epsilon, base_cost, delta=0, worst_cost=None):
    """Return how much more a person may expect to pay if they take part in a study.

    Parameters
    ----------
    epsilon : float
    base_cost : float
        E, in a currency: the expected cost if the study is made on the neighbouring table: without
        the person under add-remove, with another record or a blank under replace-one.
    delta : float
    worst_cost : float, optional
        W, the largest cost of any event, at least E. Required where delta is not 0.

    Returns
    -------
    float
        In the same currency: point 3 of the module; (e^epsilon - 1) E if nothing else is given.

    Source
        Hsu et al. 2014 (points 2 and 3, and delta, are in the module's docstring).
    """
    rate = float(checks.within("epsilon", epsilon, *checks.EPSILONS))
    base = float(checks.within("base_cost", base_cost, *checks.SIZES))
    delta = float(checks.delta(delta))
    try:
        more = base * math.expm1(rate)
    except OverflowError:
        more = math.inf
    if worst_cost is None:
        if delta:
            raise ValueError("worst_cost must be given where delta is not 0, got None")
        return more
    worst = float(checks.within("worst_cost", worst_cost, base, checks.SIZES[1]))
    from_above = (worst - base) * -math.expm1(-rate) + math.exp(-rate) * delta * worst
    return min(more + delta * worst, from_above, worst - base)


def largest_epsilon(money, base_cost):
    """Return the largest epsilon at which a person's surcharge (e^epsilon - 1) E is within `money`.

    Parameters
    ----------
    money : float
        What can be paid to one person.
    base_cost : float
        E, in the same currency.

    Returns
    -------
    float
        ln(1 + money/E), rounded down.

    Raises
    ------
    ValueError
        If an argument is out of range, or not even epsilon 1e-6 can be paid.

    Source
        Hsu et al. 2014.
    """
    money = float(checks.within("money", money, *checks.SIZES))

    def paid(place):
        return surcharge(_decimal(place), base_cost) * _ROUNDING <= money

    if not paid(0):
        raise ValueError(f"money must pay for an epsilon of at least 1e-06, got {money:g}")
    return _decimal(_last(paid, _GRID))


def smallest_epsilon(accuracy, alpha):
    """Return the smallest epsilon at which an error is at most alpha.

    Parameters
    ----------
    accuracy : callable
        The error at an epsilon, with the probability of missing it fixed; it must not rise with
        epsilon. Public: a formula, not a measurement on the data.
    alpha : float
        The wanted error, in the same unit.

    Returns
    -------
    float
        Rounded up; infinity if not even epsilon 1000 is enough.
    """
    alpha = float(checks.not_negative("alpha", alpha))

    def too_inaccurate(place):  # an error that is not a number is not accurate
        return not accuracy(_decimal(place)) <= alpha

    if too_inaccurate(_GRID):
        return math.inf
    return _decimal(_last(too_inaccurate, _GRID - 1) + 1)


def share_error(n, beta, epsilon=None):
    """Return the error of a published share as an estimate of the share in the population.

    The n persons are drawn independently from the population (or without replacement), n is public,
    and their count is published with geometric noise.

    Parameters
    ----------
    n : int
        Between 1 and 2^50.
    beta : float
        The probability that the error is larger, at most; half of it for the sample, half for the
        noise. At least 2e-250.
    epsilon : float, optional
        Between 1e-6 and 1e3. None for a share that is published without noise; then all of beta is
        the sample's.

    Returns
    -------
    float
        sqrt(ln(4/beta)/(2 n)), plus `geometric.accuracy` of a count of sensitivity 1 over n.

    Source
        Hoeffding 1963 for the sample.
    """
    n = checks.within("n", checks.integer("n", n, low=1), 1, _MOST)
    checks.within("beta", beta, 2 * checks.BETAS[0], checks.BETAS[1])
    if epsilon is None:
        return math.sqrt(math.log(2 / beta) / (2 * n))
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    noise = geometric.accuracy(geometric.scale(1, epsilon), beta / 2)
    return math.sqrt(math.log(4 / beta) / (2 * n)) + noise / n


def smallest_sample(alpha, beta, epsilon=None):
    """Return the smallest number of persons at which `share_error` is at most alpha.

    Parameters
    ----------
    alpha : float
        Between 1e-6 and 1.
    beta : float
    epsilon : float, optional
        None for a study without noise.

    Returns
    -------
    int
        Infinity if not even 2^50 persons are enough.
    """
    checks.within("alpha", alpha, 1e-6, 1)
    error = partial(share_error, beta=beta, epsilon=epsilon)
    if error(_MOST) > alpha:
        return math.inf
    return _last(lambda n: n == 0 or error(n) > alpha, _MOST) + 1


def _last(holds, high):
    """Return the last of 0, ..., high at which `holds` is true (true first, then false), or -1."""
    low, high = -1, high + 1  # it holds at low, if that is 0 or more, and not at high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _decimal(place):
    """Return the number of three digits at a place of the grid: 1e-6, 1.01e-6, ..., 1000."""
    decade, digits = divmod(place, 900)
    return float(f"{100 + digits}e{decade + _DECADES[0]}")
