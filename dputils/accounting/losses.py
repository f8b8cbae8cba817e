"""The privacy loss of composed releases as a probability law.

k randomized responses in closed form, mixtures with others by numerical convolution.

The loss of an output is the logarithm of its probability under one neighbour over that under the
other. The losses of independent releases add up, so their laws convolve, and the law of the total L
gives every (epsilon, delta) at once: delta = E (1 - e^(epsilon - L))+. Every epsilon and delta
returned is rounded up.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy import special

from dputils import checks
from dputils.accounting.rounding import ULP, above, ceiling, log_rest, share, upper

_SPREAD = 14  # standard deviations of a loss kept on a grid: by Hoeffding at most e^-98 lies above
_FINE = 4096  # steps of a grid per standard deviation
_MOST = 1e6  # the largest sum of epsilons whose loss is computed


class GridLaw(NamedTuple):
    """A law of privacy losses on the multiples of a step.

    `masses[i]` lies at (low + i) steps, `lost` at infinity.
    """

    low: int
    masses: np.ndarray
    lost: float


# ------------------------------------------------------------- k equal responses, in closed form


def exact_pure_delta(epsilon0, k, epsilon):
    """Return the smallest delta, rounded up, that k epsilon0-private releases have at epsilon.

    Every composition of them is (epsilon, delta)-differentially private, and one attains it.
    It is that of k randomized responses: i of them are lies with probability C(k, i) p^(k-i)
    (1-p)^i, p = 1/(1 + e^-epsilon0), the loss is then (k - 2i) epsilon0, and delta is the sum of
    P(i) (1 - e^(epsilon - loss)) over the losses above epsilon: positive terms, no cancellation.

    Parameters
    ----------
    epsilon0 : float
        Cost of each release.
    k : int
        Number of releases; 100,000 take milliseconds. k epsilon0 is at most 1e6.
    epsilon : float or array, at least 0

    Source
        Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    each, k = _equal(epsilon0, k)
    if np.ndim(epsilon):
        deltas = [exact_pure_delta(epsilon0, k, e) for e in np.ravel(epsilon)]
        return np.array(deltas).reshape(np.shape(epsilon))
    if checks.as_fraction("epsilon", checks.not_negative("epsilon", epsilon)) >= k * each:
        return 0.0
    logs, losses = _lies(upper(each), k)
    # losses are raised by more than their rounding: the smallest difference is on the safe side
    gaps = float(epsilon) - losses - 4 * ULP * (losses[0] + float(epsilon))
    terms = logs[gaps < 0] + np.log(-np.expm1(gaps[gaps < 0]))
    return math.exp(min(0.0, special.logsumexp(terms) + _slop(k, losses[0])))


def exact_pure_epsilon(epsilon0, k, delta):
    """Return the smallest epsilon >= 0, rounded up, that k epsilon0-private releases have at delta.

    `exact_pure_delta` is at most `delta` there. Arguments as there; delta is in [0, 1).
    """
    each, k = _equal(epsilon0, k)
    most = ceiling(k * each)
    if share(checks.delta(delta)) == 0:
        return most
    logs, losses = _lies(upper(each), k)
    slop = 2 * _slop(k, losses[0])  # so that the loop below, which decides, has little to do
    epsilon = min(most, max(0.0, _between_losses(logs, losses, math.log(share(delta)) - slop)))
    step = ULP * most
    while epsilon < most and exact_pure_delta(epsilon0, k, epsilon) > delta:  # rounding alone
        epsilon, step = min(most, epsilon + step), 2 * step
    return epsilon


def _equal(epsilon0, k):
    """Return the epsilon of each of k releases as a fraction, and k; refuse too large sums."""
    each = checks.as_fraction("epsilon0", checks.epsilon(epsilon0, "epsilon0"))
    if checks.integer("k", k, 1) * each > _MOST:
        raise ValueError(f"k epsilon0 must be at most {_MOST:g}, got k={k}, epsilon0={epsilon0!r}")
    return each, k


def _between_losses(logs, losses, target):
    """Return the epsilon at which ln delta is `target`.

    Between two losses delta is A - e^epsilon B, where A and B are the probabilities, under the two
    neighbours, of all losses above.
    """
    total = np.logaddexp.accumulate(logs)
    other = np.logaddexp.accumulate(logs - losses)
    with np.errstate(divide="ignore"):
        kinks = total + np.log(-np.expm1(np.minimum(other + losses - total, 0)))
    j = max(0, int(np.searchsorted(kinks, target, side="right")) - 1)
    if total[j] <= target:
        return 0.0
    return float(total[j] + math.log1p(-math.exp(target - total[j])) - other[j])


def _lies(epsilon0, k):
    """Return ln P(i) and the loss (k - 2i) epsilon0 of i lies in k responses, losses from 0 on."""
    i = np.arange(k // 2 + 1)
    logs = special.gammaln(k + 1) - special.gammaln(i + 1) - special.gammaln(k - i + 1)
    return logs - i * epsilon0 - k * math.log1p(math.exp(-epsilon0)), (k - 2 * i) * epsilon0


def _slop(k, loss):
    """A bound on the rounding of the logarithms in `_lies` and of sums over them: ln k! most."""
    return 4 * ULP * (float(special.gammaln(k + 1)) + k + 2 * loss + 10)


# ------------------------------------------------------------------------ mixtures, by convolution


def numerical_epsilon(responses, mu, delta):
    """Return epsilon at `delta`, rounded up, by privacy loss distributions (dp-accounting).

    Equal responses enter by the exact law of their sum. A loss between two points of the grid is
    split between them so that its probability under both neighbours is kept: the true law can be
    computed from the split one, which is therefore an upper bound, with an error of second order in
    the step. The grid is one on which the losses of the responses fall, if there is one.

    Parameters
    ----------
    responses : list of (epsilon, delta, k)
        k randomized responses each, which give the neighbour away with probability delta;
        fractions.
    mu : float, at least 0
        Of one Gaussian release beside them; 0 for none.
    delta : float

    Raises
    ------
    ValueError
        If `delta` is not above twice the rounding of the Gaussian part, or not above the deltas of
        the responses and what lies beyond the grid.
    """
    step, reach = grid_step(responses, mu)
    law = _convolved(responses, step, math.ceil(reach / step))
    total, rounding = _with_gaussian(law, mu, step, bool(responses))
    target = share(delta) * (1 - 16 * ULP * (1 + len(responses))) - rounding
    if target <= rounding:
        least = f"must be above {2 * rounding:.2g}"
        raise ValueError(f"delta {least} for the numerical account, got {float(delta):.6g}")
    epsilon = total.get_epsilon_for_delta(target)
    if not math.isfinite(epsilon):
        own = any(d for _, d, _ in responses)
        least = "exceed the costs' own deltas" if own else f"be above {law.lost + rounding:.2g}"
        raise ValueError(f"delta must {least} for the numerical account, got {float(delta):.6g}")
    # the library's search is checked, not trusted
    while total.get_delta_for_epsilon(epsilon) > target:
        epsilon = epsilon * (1 + 1e-9) + 1e-15
    return above(epsilon) if epsilon else 0.0


def _convolved(responses, step, most):
    """Return the law of the sum of all responses, cut to `most` steps on both sides.

    A law has few points that are not zero; sums of positive numbers, unlike Fourier transforms,
    keep small ones.
    """
    total = GridLaw(0, np.ones(1), 0.0)
    for epsilon, leak, k in responses:
        law = on_grid(epsilon, leak, k, step)
        masses = np.zeros(total.masses.size + law.masses.size - 1)
        for i in np.flatnonzero(law.masses):
            masses[i : i + total.masses.size] += law.masses[i] * total.masses
        total = cut(GridLaw(total.low + law.low, masses, total.lost + law.lost), most)
    return total


def _with_gaussian(law, mu, step, mixed):
    """Return dp-accounting's distribution of a law and a Gaussian release, and delta's rounding.

    The rounding: three Fourier transforms of n < 2^20 points, each with relative error 7 log2(n)
    ulp in the 2-norm (Higham 2002, Theorem 24.2); sqrt(n) times that bounds the sum of all errors.
    The Gaussian law itself comes from differences of deltas, right to 1e-14.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    pmf = pld_pmf.DensePLDPmf(step, law.low, law.masses, min(1.0, above(law.lost)), True)
    total = pld.PrivacyLossDistribution(pmf)
    if not mu:
        return total, 0.0
    size = float(np.linalg.norm(law.masses)) * min(1.0, math.sqrt(step / mu))
    rounding = 21 * ULP * 20 * 2**10 * size if mixed else 0.0
    gaussian = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)
    return total.compose(gaussian), 1e-14 + rounding


def grid_step(responses, mu):
    """Return the step of the grid, and how far the grid reaches.

    The step divides all epsilons if such a step is not much finer than needed. Beyond the reach
    lies at most e^-98 of the responses' mass (Hoeffding).
    """
    sizes = [(upper(e), k) for e, _, k in responses]
    spread = math.sqrt(math.fsum(k * e**2 for e, k in sizes))
    reach = math.fsum(k * e * math.tanh(e / 2) for e, k in sizes) + _SPREAD * spread
    spread = math.hypot(spread, mu)
    wanted = max(min(spread, mu or spread) / _FINE, spread / (4 * _FINE))
    unit = _common_divisor([e for e, _, _ in responses])
    if not unit or unit < wanted / 4:
        return wanted, reach
    return float(unit / math.ceil(unit / Fraction(wanted)) if mu else unit), reach


def _common_divisor(fractions):
    """The largest fraction of which all are whole multiples; 0 for none."""
    unit = Fraction(0)
    for x in fractions:
        numerator = math.gcd(x.numerator * unit.denominator, unit.numerator * x.denominator)
        unit = Fraction(numerator, x.denominator * unit.denominator)
    return unit


def on_grid(epsilon, leak, k, step):
    """Return the `GridLaw` of the sum of k responses on multiples of `step`, under the first
    neighbour.

    Losses further than _SPREAD standard deviations from 0 count as infinite ones.
    """
    e = upper(epsilon)
    masses, losses = _both_signs(*_lies(e, k))
    lost = -math.expm1(k * log_rest(leak))
    kept = np.abs(losses) <= k * e * math.tanh(e / 2) + _SPREAD * math.sqrt(k) * e
    beyond = above(float(masses[~kept].sum()))
    low, split = _split(losses[kept] / step, masses[kept] * (1 - lost), step)
    return GridLaw(low, split, above(lost) + beyond if lost else beyond)


def _both_signs(logs, losses):
    """Return probabilities, rounded up, and all losses.

    The negative losses mirror the positive, e^-loss as probable.
    """
    k = 2 * (losses.size - 1) if losses[-1] == 0 else 2 * losses.size - 1
    mirrored = slice(None, None if k % 2 else -1)
    every = np.concatenate([logs, (logs - losses)[mirrored][::-1]])
    return np.exp(every + _slop(k, losses[0])), np.concatenate([losses, -losses[mirrored][::-1]])


def _split(losses, masses, step):
    """Split masses at losses, in steps, between the two next whole numbers.

    Returns the lowest of them and the masses from it on.
    """
    losses = losses * (1 + 4 * ULP * np.sign(losses))
    floor = np.floor(losses)
    upward = np.clip(np.expm1((floor - losses) * step) / math.expm1(-step), 0, 1)
    index = (floor - floor.min()).astype(int)
    law = np.bincount(index, masses * (1 - upward), index.max() + 2)
    law += np.bincount(index + 1, masses * upward, index.max() + 2)
    return int(floor.min()), law


def cut(law, most):
    """Cut a law to the multiples from -most to most.

    What lies below is raised to the lowest, what lies above goes to infinity.
    """
    end = max(0, most - law.low + 1)
    beyond = float(law.masses[end:].sum())
    masses = law.masses[: max(1, end)]
    below = max(0, -most - law.low)
    if below:
        masses = np.concatenate([[masses[: below + 1].sum()], masses[below + 1 :]])
    return GridLaw(law.low + below, masses, law.lost + beyond)
