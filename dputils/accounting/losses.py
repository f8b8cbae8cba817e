"""The privacy loss of composed releases as a probability law: k randomized responses in closed form, mixtures with
others by numerical convolution.

The loss of an output is the logarithm of its probability under one neighbour over that under the other. The losses of
independent releases add up, so their laws convolve, and the law of the total L gives every (epsilon, delta) at once:
delta = E (1 - e^(epsilon - L))+. Every epsilon and delta returned is rounded up.
"""
import math
from fractions import Fraction

import numpy as np
from scipy import special

from dputils import checks
from dputils.accounting.rounding import ULP, above, ceiling, log_rest, share, upper

_SPREAD = 14  # standard deviations of a loss kept on a grid: by Hoeffding at most e^-98 lies above
_FINE = 4096  # steps of a grid per standard deviation
_HUGE = 1e300  # beyond it nothing is left of a loss but its rounding


def exact_pure_delta(epsilon0, k, epsilon):
    """Return the smallest delta, rounded up, at which every composition of k epsilon0-private releases is
    (epsilon, delta)-differentially private.

    It is that of k randomized responses: i of them are lies with probability C(k, i) p^(k-i) (1-p)^i,
    p = 1/(1 + e^-epsilon0), the loss is then (k - 2i) epsilon0, and delta is the sum of
    P(i) (1 - e^(epsilon - loss)) over the losses above epsilon: positive terms, no cancellation.

    Parameters
    ----------
    epsilon0 : float
        Cost of each release.
    k : int
        Number of releases; 100,000 take milliseconds.
    epsilon : float or array, at least 0

    Source
        Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    each, k = checks.as_fraction("epsilon0", checks.epsilon(epsilon0, "epsilon0")), checks.integer("k", k, 1)
    if np.ndim(epsilon):
        return np.array([exact_pure_delta(epsilon0, k, e) for e in np.ravel(epsilon)]).reshape(np.shape(epsilon))
    if checks.as_fraction("epsilon", checks.not_negative("epsilon", epsilon)) >= k * each:
        return 0.0
    if k * each > _HUGE:
        return 1.0
    logs, losses = _lies(upper(each), k)
    # losses are raised by more than their rounding, so that the smallest difference is still on the safe side
    gaps = float(epsilon) - losses - 4 * ULP * (losses[0] + float(epsilon))
    terms = logs[gaps < 0] + np.log(-np.expm1(gaps[gaps < 0]))
    return math.exp(min(0.0, special.logsumexp(terms) + _slop(k, losses[0])))


def exact_pure_epsilon(epsilon0, k, delta):
    """Return the smallest epsilon >= 0, rounded up, at which every composition of k epsilon0-private releases is
    (epsilon, delta)-differentially private: `exact_pure_delta` is at most `delta` there."""
    each, k = checks.as_fraction("epsilon0", checks.epsilon(epsilon0, "epsilon0")), checks.integer("k", k, 1)
    most = ceiling(k * each)
    if share(checks.delta(delta)) == 0 or most > _HUGE:
        return most
    logs, losses = _lies(upper(each), k)
    # between two losses delta is A - e^epsilon B, where A and B are the probabilities of all losses above
    total, other = np.logaddexp.accumulate(logs), np.logaddexp.accumulate(logs - losses)
    with np.errstate(divide="ignore"):
        kinks = total + np.log(-np.expm1(np.minimum(other + losses - total, 0)))
    target = math.log(share(delta)) - 2 * _slop(k, losses[0])  # so that the loop below, which decides, has little to do
    j = max(0, int(np.searchsorted(kinks, target, side="right")) - 1)
    epsilon = 0.0 if total[j] <= target else total[j] + math.log1p(-math.exp(target - total[j])) - other[j]
    epsilon, step = min(most, max(0.0, float(epsilon))), ULP * most
    while epsilon < most and exact_pure_delta(epsilon0, k, epsilon) > delta:  # rounding alone
        epsilon, step = min(most, epsilon + step), 2 * step
    return epsilon


def numerical_epsilon(responses, mu, delta):
    """Return epsilon at `delta`, rounded up, by privacy loss distributions (dp-accounting).

    Equal responses enter by the exact law of their sum. A loss between two points of the grid is split between them
    so that its probability under both neighbours is kept: the true law can be computed from the split one, which is
    therefore an upper bound, with an error of second order in the step. The grid is one on which the losses of the
    responses fall, if there is one.

    Parameters
    ----------
    responses : list of (epsilon, delta, k)
        k randomized responses each, which give the neighbour away with probability delta; fractions.
    mu : float, at least 0
        Of one Gaussian release beside them; 0 for none.
    delta : float

    Raises
    ------
    ValueError
        If `delta` is not above twice the rounding of the Gaussian part, or not above the deltas of the responses and
        what lies beyond the grid.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    step, reach = _step(responses, mu)
    low, law, lost, rounding = 0, np.ones(1), 0.0, 0.0
    for epsilon, leak, k in responses:
        first, masses, gone = _on_grid(epsilon, leak, k, step)
        # a law has few points that are not zero; sums of positive numbers, unlike Fourier transforms, keep small ones
        new = np.zeros(law.size + masses.size - 1)
        for i in np.flatnonzero(masses):
            new[i:i + law.size] += masses[i] * law
        low, law, cut = _cut(low + first, new, math.ceil(reach / step))
        lost += gone + cut
    total = pld.PrivacyLossDistribution(pld_pmf.DensePLDPmf(step, low, law, min(1.0, above(lost)), True))
    if mu:
        # three Fourier transforms of n < 2^20 points, each with relative error 7 log2(n) ulp in the 2-norm (Higham
        # 2002, Theorem 24.2); sqrt(n) times that bounds the sum of all errors, by which delta can be wrong
        rounding = 21 * ULP * 20 * 2**10 * float(np.linalg.norm(law)) * min(1.0, math.sqrt(step / mu))
        rounding = 1e-14 + (rounding if responses else 0)  # the Gaussian law itself comes from differences of deltas
        total = total.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step))
    target = share(delta) * (1 - 16 * ULP * (1 + len(responses))) - rounding
    if target <= rounding:
        raise ValueError(f"delta must be above {2 * rounding:.2g} for the numerical account, got {float(delta):.6g}")
    epsilon = total.get_epsilon_for_delta(target)
    if not math.isfinite(epsilon):
        least = "exceed the costs' own deltas" if any(d for _, d, _ in responses) else f"be above {lost + rounding:.2g}"
        raise ValueError(f"delta must {least} for the numerical account, got {float(delta):.6g}")
    while total.get_delta_for_epsilon(epsilon) > target:  # the library's search is checked, not trusted
        epsilon = epsilon * (1 + 1e-9) + 1e-15
    return above(epsilon) if epsilon else 0.0


def _lies(epsilon0, k):
    """Return ln P(i) and the loss (k - 2i) epsilon0 for i lies in k responses, as far as losses are not negative."""
    i = np.arange(k // 2 + 1)
    logs = special.gammaln(k + 1) - special.gammaln(i + 1) - special.gammaln(k - i + 1)
    return logs - i * epsilon0 - k * math.log1p(math.exp(-epsilon0)), (k - 2 * i) * epsilon0


def _slop(k, loss):
    """A bound on the rounding of the logarithms in `_lies` and of sums over them; ln k! counts most."""
    return 4 * ULP * (float(special.gammaln(k + 1)) + k + 2 * loss + 10)


def _step(responses, mu):
    """Return the step of the grid, a divisor of all epsilons if there is one not much finer than needed, and how far
    the grid reaches: beyond it lies at most e^-98 of the responses' mass (Hoeffding)."""
    spread = math.sqrt(math.fsum(k * upper(e) ** 2 for e, _, k in responses))
    reach = math.fsum(k * upper(e) * math.tanh(upper(e) / 2) for e, _, k in responses) + _SPREAD * spread
    spread = math.hypot(spread, mu)
    wanted = max(min(spread, mu or spread) / _FINE, spread / (4 * _FINE))
    unit = Fraction(0)
    for e, _, _ in responses:
        unit = Fraction(math.gcd(e.numerator * unit.denominator, unit.numerator * e.denominator),
                        e.denominator * unit.denominator)
    if not unit or unit < wanted / 4:
        return wanted, reach
    return float(unit / math.ceil(unit / Fraction(wanted)) if mu else unit), reach


def _on_grid(epsilon, leak, k, step):
    """Return the law of the sum of k responses on multiples of `step`: the lowest multiple, the probabilities under
    the first neighbour, and the probability of an infinite loss."""
    e = upper(epsilon)
    logs, losses = _lies(e, k)
    rest = slice(None, None if k % 2 else -1)  # the negative losses mirror the positive ones, e^-loss as probable
    masses = np.exp(np.concatenate([logs, (logs - losses)[rest][::-1]]) + _slop(k, losses[0]))
    losses = np.concatenate([losses, -losses[rest][::-1]])
    lost = -math.expm1(k * log_rest(leak))
    kept = np.abs(losses) <= k * e * math.tanh(e / 2) + _SPREAD * math.sqrt(k) * e
    cut = above(float(masses[~kept].sum()))  # counted as infinite losses
    losses = losses[kept] / step * (1 + 4 * ULP * np.sign(losses[kept]))
    floor = np.floor(losses)
    share = np.clip(np.expm1((floor - losses) * step) / math.expm1(-step), 0, 1)  # what goes to the upper point
    index = (floor - floor.min()).astype(int)
    masses = masses[kept] * (1 - lost)
    law = np.bincount(index, masses * (1 - share), index.max() + 2)
    law += np.bincount(index + 1, masses * share, index.max() + 2)
    return int(floor.min()), law, above(lost) + cut if lost else cut


def _cut(low, law, most):
    """Cut a law to the multiples from -most to most: what lies below is raised to the lowest, what lies above is
    returned, for infinity."""
    below, cut = max(0, -most - low), law[max(0, most - low + 1):].sum()
    law = law[:max(1, most - low + 1)]
    if below:
        law = np.concatenate([[law[:below + 1].sum()], law[below + 1:]])
    return low + below, law, float(cut)
