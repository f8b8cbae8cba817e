"""Randomized response, binary and k-ary: probabilities, exact release, estimate, errors.

Each person randomizes their own answer before it leaves their hands; nobody is trusted. Letters: k
categories, p the probability of reporting the truth, q that of each other category, p/q =
e^epsilon; f the true frequency of a category among n persons; alpha an accuracy that is missed with
probability beta.

Ranges: epsilon 1e-6 to 1e3; k, n up to 2^50. `probabilities` has the place of a scale in the other
mechanisms.
"""

import math
from functools import partial

import numpy as np

from dputils import checks, noise
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.private import to_grid

_COUNTS = 1 << 50
_HIGHEST = checks.EPSILONS[1]  # where a lie is too rare for a float: so are larger budgets


def probabilities(epsilon, k=2):
    """Return (p, q), the probabilities of reporting one's true and each other category.

    p = e^epsilon/(e^epsilon + k - 1), q = 1/(e^epsilon + k - 1); p/q = e^epsilon exactly, which is
    the privacy statement.
    """
    _public(epsilon, k)
    other = math.exp(-epsilon)
    p = 1 / (1 + (k - 1) * other)
    return p, other / (1 + (k - 1) * other)


def release(values, k, epsilon, *, rng):
    """Report each person's category truthfully with probability p, each other with probability q.

    The draw is exact; categories are 0, ..., k - 1.

    Privacy
        Each report is epsilon-differentially private on its own (local model, replace-one on one's
        own value). Nobody is trusted. Public: the number of persons, k, epsilon.

    Parameters
    ----------
    values : integer array of shape (n,)
        Private, read by `private.to_grid`: values outside 0..k-1 are clamped, NaN is category 0,
        nothing is refused.
    k : int
        Number of categories, at least 2.
    epsilon : float or Fraction
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int64 array of shape (n,)

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        That of `estimate`: `variance`, `accuracy`.

    Source
        Warner 1965 (k = 2); Kairouz, Bonawitz, Ramage 2016 (k-ary). Sampled by rejection: propose a
        uniform category, keep the true one always and another one with probability exp(-epsilon),
        so that the ratio of the two is e^epsilon with no rounding. The number of proposals, on
        average k p <= min(k, e^epsilon) a person, has the same law whatever the truth.
    """
    _public(epsilon, k)
    checks.generator(rng)
    return _draw(to_grid(values, 0, k - 1), k, epsilon, rng=rng)


def mechanism(k, epsilon):
    """Return randomized response as a mechanism, for a `Ledger`.

    It turns an array of persons' categories into reports.

    Privacy
        As `release`: local, so the unit is one person's own value and the relation replace-one.

    Parameters
    ----------
    k : int
    epsilon : float or Fraction

    Returns
    -------
    Mechanism
        Exact. Its law is that of the reports of persons whose category is 0, on whole numbers.
    """
    _public(epsilon, k)
    return Mechanism(
        name=f"randomized response, {k} categories",
        costs=(Pure(epsilon),),
        neighbours="replace-one",
        unit="one person's own value",
        read=partial(to_grid, lower=0, upper=k - 1),
        draw=partial(_draw, k=k, epsilon=epsilon),
        exact=True,
        law=lambda c: partial(cdf, truth=0, k=k, epsilon=min(c * float(epsilon), _HIGHEST)),
        discrete=True,
    )


def _draw(truth, k, epsilon, *, rng):
    """Propose until something is kept; everybody at once, those who wait again."""
    report, waiting = truth.copy(), np.arange(truth.size)
    while waiting.size:
        proposal = noise.integers(k, waiting.size, rng=rng)
        coin = noise.bernoulli_exp(epsilon, waiting.size, rng=rng)
        kept = (proposal == truth[waiting]) | coin
        report[waiting[kept]] = proposal[kept]
        waiting = waiting[~kept]
    return report


def logpmf(report, truth, k, epsilon):
    """Log probability of a report by a person of category `truth`; -inf if it is no category.

    Arrays of any shapes that broadcast.
    """
    p, q = probabilities(epsilon, k)
    report = np.asarray(report, dtype=float)
    known = (report == np.floor(report)) & (report >= 0) & (report < k)
    chance = np.where(report == truth, p, q)
    with np.errstate(divide="ignore"):
        return np.log(np.where(known, chance, 0.0))


def cdf(x, truth, k, epsilon):
    """Distribution function at x of the report of a person of category `truth`.

    Arrays of any shapes that broadcast.
    """
    p, q = probabilities(epsilon, k)
    below = np.clip(np.floor(np.asarray(x, dtype=float)) + 1, 0, k)  # categories up to x
    inner = below * q + np.where(below > truth, p - q, 0.0)
    return np.where(below == k, 1.0, inner)


def tail(t, n, k, epsilon):
    """Bound on P(|error| > t) of the estimate of one frequency among n persons.

    For t >= 0; 1 below (any shape).

    2 exp(-2 n (p - q)^2 t^2), at most 1 (Hoeffding 1963): the share of reports of one category is a
    mean of n independent numbers 0 or 1, whatever the n fixed persons say.
    """
    reach = np.maximum(t, 0) * _gap(epsilon, k)
    return np.minimum(2 * np.exp(-2 * _persons(n) * reach**2), 1.0)


def estimate(reports, k, epsilon):
    """Return the unbiased estimate (share of reports - q)/(p - q) of the k frequencies.

    Returns
    -------
    float array of shape (k,)
        Sums to 1 and may leave [0, 1]. With no reports at all the estimate is 1/k everywhere.
    """
    q = probabilities(epsilon, k)[1]
    reports = to_grid(reports, 0, k - 1)
    share = np.bincount(reports, minlength=k) / reports.size if reports.size else np.full(k, 1 / k)
    return (share - q) / _gap(epsilon, k)


def variance(frequency, n, k, epsilon):
    """Variance, over the coins alone, of the estimated frequency among n fixed persons.

    Returns
    -------
    float or array of the shape of `frequency`
        (f p(1 - p) + (1 - f) q(1 - q))/(n (p - q)^2) with f the true frequency.
    """
    p, q = probabilities(epsilon, k)
    f = np.asarray(frequency, dtype=float)
    return (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (_persons(n) * _gap(epsilon, k) ** 2)


def accuracy(n, k, epsilon, beta):
    """Return the alpha within which the estimate of one frequency stays with probability 1 - beta.

    The probability is at least 1 - beta.

    Returns
    -------
    float
        sqrt(ln(2/beta)/(2 n))/(p - q), where `tail` is beta.
    """
    checks.within("beta", checks.probability("beta", beta), *checks.BETAS)
    return math.sqrt(math.log(2 / beta) / (2 * _persons(n))) / _gap(epsilon, k)


def _public(epsilon, k):
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    checks.within("k", checks.integer("k", k, low=2), 2, _COUNTS)


def _persons(n):
    return checks.within("n", checks.integer("n", n, low=1), 1, _COUNTS)


def _gap(epsilon, k):
    """p - q without cancellation at small epsilon."""
    _public(epsilon, k)
    return -math.expm1(-epsilon) / (1 + (k - 1) * math.exp(-epsilon))
