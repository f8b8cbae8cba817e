"""Randomized response, binary and k-ary: probabilities, exact release, unbiased estimate, its variance and accuracy.

Each person randomizes their own answer before it leaves their hands; nobody is trusted. Letters: k categories, p
the probability of reporting the truth, q that of each other category, p/q = e^epsilon.
"""
import math

import numpy as np

from dputils import checks, noise
from dputils.private import to_grid


def probabilities(epsilon, k=2):
    """Return (p, q): the probability of reporting one's true category, and that of reporting each other one.

    p = e^epsilon/(e^epsilon + k - 1), q = 1/(e^epsilon + k - 1); p/q = e^epsilon exactly, which is the privacy
    statement.
    """
    checks.epsilon(epsilon), checks.integer("k", k, low=2)
    q = math.exp(-epsilon) / (1 + (k - 1) * math.exp(-epsilon))
    return 1 / (1 + (k - 1) * math.exp(-epsilon)), q


def release(values, k, epsilon, *, rng):
    """Report each person's category 0..k-1 truthfully with probability p, any other with probability q each, exactly.

    Privacy
        Each report is epsilon-differentially private on its own (local model, replace-one on one's own value).
        Nobody is trusted.

    Parameters
    ----------
    values : integer array of shape (n,)
        Private, read by `private.to_grid`: values outside 0..k-1 are clamped, NaN is category 0, nothing is refused.
    k : int
        Number of categories, at least 2.
    epsilon : float or Fraction
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int64 array of shape (n,)

    Source
        Warner 1965 (k = 2); Kairouz, Bonawitz, Ramage 2016 (k-ary). Sampled by rejection: propose a uniform
        category, keep the true one always and another one with probability exp(-epsilon), so that the ratio of the
        two is e^epsilon with no rounding. The number of proposals, on average k p <= min(k, e^epsilon) a person,
        has the same law whatever the truth.
    """
    checks.epsilon(epsilon), checks.integer("k", k, low=2), checks.generator(rng)
    truth = to_grid(values, 0, k - 1)
    report, waiting = truth.copy(), np.arange(truth.size)
    while waiting.size:
        proposal = noise.integers(k, waiting.size, rng=rng)
        coin = noise.bernoulli_exp(epsilon, waiting.size, rng=rng)
        kept = (proposal == truth[waiting]) | coin
        report[waiting[kept]] = proposal[kept]
        waiting = waiting[~kept]
    return report


def estimate(reports, k, epsilon):
    """Unbiased estimate of the k frequencies from reports: (share of reports - q)/(p - q); may leave [0, 1].

    Returns
    -------
    float array of shape (k,)
        Sums to 1. With no reports at all the estimate is 1/k everywhere.
    """
    q = probabilities(epsilon, k)[1]
    reports = to_grid(reports, 0, k - 1)
    share = np.bincount(reports, minlength=k) / reports.size if reports.size else np.full(k, 1 / k)
    return (share - q) / _gap(epsilon, k)


def variance(frequency, n, k, epsilon):
    """Variance, over the coins alone, of the estimated frequency of one category among n fixed persons.

    Returns
    -------
    float or array of the shape of `frequency`
        (f p(1 - p) + (1 - f) q(1 - q))/(n (p - q)^2) with f the true frequency.
    """
    p, q = probabilities(epsilon, k)
    checks.integer("n", n, low=1)
    frequency = np.asarray(frequency, dtype=float)
    return (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / (n * _gap(epsilon, k) ** 2)


def accuracy(n, k, epsilon, beta):
    """The alpha within which the estimate of one frequency stays with probability at least 1 - beta.

    Returns
    -------
    float
        sqrt(ln(2/beta)/(2 n))/(p - q): the share of reports of one category is a mean of n independent numbers 0 or 1
        (Hoeffding 1963), so P(|error| > t) <= 2 exp(-2 n (p - q)^2 t^2) whatever the n fixed persons say.
    """
    checks.integer("n", n, low=1), checks.integer("k", k, low=2), checks.epsilon(epsilon)
    return math.sqrt(math.log(2 / checks.probability("beta", beta)) / (2 * n)) / _gap(epsilon, k)


def _gap(epsilon, k):
    """p - q without cancellation at small epsilon."""
    return -math.expm1(-epsilon) / (1 + (k - 1) * math.exp(-epsilon))
