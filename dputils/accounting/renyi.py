"""Renyi and zero-concentrated privacy, and what pure, Gaussian and sampled releases are in these
notions.

A release has Renyi divergence D at an order alpha > 1 if D bounds the divergence of that order
between its laws on neighbouring tables; a *curve* gives D for several orders. It is rho-zCDP if D
<= rho alpha for every order (rho = mu^2/2 for Gaussian noise). A guarantee (epsilon, delta) is
rounded up, a budget rho down. Arguments are numbers or arrays, which broadcast; numbers give a
float, arrays an array. Ranges: epsilon 0 or 1e-9 to 1e6, rho 1e-24 to 1e8, delta 1e-300 to 1 -
2^-53, orders 1.0001 to 1e6; what lies outside is refused.
"""

import logging
import math
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
from scipy import special

from dputils import checks
from dputils.accounting.curves import EPSILON, deltas, epsilons, mills
from dputils.accounting.rounding import ULP, elementwise, ends, upper, upper_exp

RHO, ORDER = ends(1e-24, 1e8), (1.0001, 1e6)
ORDERS = tuple(
    [1 + i / 10 for i in range(1, 100)] + list(range(11, 65)) + [80, 96, 128, 256, 512, 1024]
)


def zcdp_delta(rho, epsilon):
    """Return the smallest delta <= 1 that rho-zCDP is known to give at epsilon, never below the
    formula's value.

    For every order alpha > 1, ln delta is at most (alpha - 1)(alpha rho - epsilon) + alpha ln(1 -
    1/alpha) - ln(alpha - 1): a search that misses the best alpha costs a little and breaks nothing.

    Parameters
    ----------
    rho, epsilon : float or array

    Source
        Canonne, Kamath, Steinke 2020, Corollary 13.
    """

    def log_delta(rho, epsilon):
        # with t = alpha - 1 the slope in t is (2t + 1) rho - epsilon - ln(1 + 1/t), rising
        t = _crossing(lambda t: (2 * t + 1) * rho - epsilon - np.log1p(1 / t), rho)
        log = t * ((1 + t) * rho - epsilon) - t * np.log1p(1 / t) - np.log1p(t)
        error = 8 * ULP * (1 + np.abs(log) + t * ((1 + t) * rho + epsilon))
        return np.minimum(log + error, 0)

    return upper_exp(elementwise(log_delta, checks.floats("rho", rho, *RHO), epsilons(epsilon)))


def zcdp_epsilon(rho, delta):
    """Return the smallest epsilon >= 0 that rho-zCDP is known to give at delta, never below the
    formula's value.

    With t = alpha - 1 and l = ln(1/delta) the bound of `zcdp_delta` reads epsilon = (1 + t) rho +
    (l - ln(1 + t))/t - ln(1 + 1/t), smallest where rho t^2 + ln(1 + t) = l.

    Parameters
    ----------
    rho, delta : float or array
    """

    def epsilon(rho, delta):
        log = -np.log(delta)
        t = _crossing(lambda t: rho * t * t + np.log1p(t) - log, rho)
        value = (1 + t) * rho + (log - np.log1p(t)) / t - np.log1p(1 / t)
        error = 8 * ULP * ((1 + t) * rho + (log + np.log1p(t)) / t + np.log1p(1 / t))
        return np.maximum(value + error, 0)

    return elementwise(epsilon, checks.floats("rho", rho, *RHO), deltas(delta))


def zcdp_rho(epsilon, delta):
    """Return the largest rho whose zCDP is known to give (epsilon, delta), never above the
    formula's value.

    The bound of `zcdp_epsilon` solved for rho is (epsilon + ln(1 + 1/t) - (l - ln(1 + t))/t)/(1 +
    t), largest where (l - ln(1 + t))(1 + 2t)/t^2 - ln(1 + 1/t) = epsilon.

    Parameters
    ----------
    epsilon, delta : float or array
    """

    def rho(epsilon, delta):
        log = -np.log(delta)
        t = _crossing(
            lambda t: epsilon + np.log1p(1 / t) - (log - np.log1p(t)) * (1 + 2 * t) / t / t, delta
        )
        value = epsilon + np.log1p(1 / t) - (log - np.log1p(t)) / t
        error = 8 * ULP * (epsilon + np.log1p(1 / t) + (log + np.log1p(t)) / t)
        return np.maximum(value - error, 0) / (1 + t)

    return elementwise(rho, epsilons(epsilon), deltas(delta))


def _crossing(rising, like):
    """Return t > 0 where a rising function changes sign, to 1e-10 of t, by bisection on ln t."""
    low, high = np.full_like(like, -120.0), np.full_like(like, 120.0)
    for _ in range(42):
        middle = (low + high) / 2
        below = rising(np.exp(middle)) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.exp((low + high) / 2)


def pure_to_zcdp(epsilon):
    """Return the rho = epsilon^2/2 of zCDP that epsilon-differential privacy implies.

    Parameters
    ----------
    epsilon : int, Fraction, or float
        A float is read as the decimal that prints it, and must be in the range of this module; the
        exact ones have no range.

    Returns
    -------
    Fraction for an int or a Fraction; for a float the smallest float not below the exact value

    Source
        Bun and Steinke 2016, Proposition 3.3.
    """
    rho = checks.as_fraction("epsilon", checks.epsilon(epsilon)) ** 2 / 2
    if isinstance(epsilon, (int, Fraction)):
        return rho
    checks.within("epsilon", epsilon, *EPSILON)
    return upper(rho)


def pure_to_gaussian(epsilon):
    """Return the mu of Gaussian differential privacy that epsilon-differential privacy implies,
    rounded up.

    mu = -2 Phi^-1(1/(1 + e^epsilon)), about epsilon sqrt(pi/2) for small epsilon. The trade-off
    curve of epsilon-privacy is two lines that meet on the diagonal at 1/(1 + e^epsilon); the convex
    curve of N(0, 1) against N(mu, 1) passes through that kink and runs below both lines (Dong,
    Roth, Su 2022: the notions).

    Parameters
    ----------
    epsilon : float or array, positive
    """

    def mu(epsilon):
        # Phi(mu/2) - 1/2 = tanh(epsilon/2)/2 keeps small epsilon exact, logarithms large ones
        small = special.erfinv(np.tanh(np.minimum(epsilon, 2) / 2)) * math.sqrt(2)
        log = -np.logaddexp(0, epsilon)
        large = -special.ndtri_exp(log)
        large += (special.log_ndtr(-large) - log) * mills(
            large
        )  # Newton: ndtri_exp is right to 1e-12 only
        return 2 * np.where(epsilon < 2, small, large) * (1 + 8 * ULP)

    return elementwise(mu, checks.floats("epsilon", epsilon, *EPSILON))


def pure_rdp(order, epsilon):
    """Return the Renyi divergence, rounded up, of any epsilon-differentially private release.

    It is that of randomized response, ln(q e^(alpha epsilon) + q e^((1 - alpha) epsilon))/(alpha -
    1) with q = 1/(1 + e^epsilon), and never above alpha epsilon^2/2 or epsilon.

    Parameters
    ----------
    order, epsilon : float or array

    Source
        Kairouz, Oh, Viswanath 2015, Theorem 2.5 (the worst case); Bun and Steinke 2016, Proposition
        3.3.
    """

    def divergence(order, epsilon):
        logs = np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(0, epsilon)
        exact = (logs + 8 * ULP * (1 + order * epsilon)) / (order - 1)
        return np.minimum(np.minimum(exact, order * epsilon**2 / 2 * (1 + 4 * ULP)), epsilon)

    orders = checks.floats("order", order, *ORDER)
    return elementwise(divergence, orders, checks.floats("epsilon", epsilon, *EPSILON))


def laplace_rdp(order, scale):
    """Return the Renyi divergence of Laplace noise from its shift by 1, rounded up.

    ln((alpha e^((alpha - 1)/b) + (alpha - 1) e^(-alpha/b))/(2 alpha - 1))/(alpha - 1).

    Parameters
    ----------
    order : float or array
    scale : float or array
        b, in units of the sensitivity, 1e-6 to 1e9.

    Source
        Mironov 2017, Proposition 6.
    """

    def divergence(order, scale):
        t, e = order - 1, 1 / scale
        log = np.logaddexp(np.log(order) + t * e, np.log(t) - order * e) - np.log(2 * order - 1)
        bound = (log + 8 * ULP * (1 + np.log(order) + order * e)) / t
        return np.minimum(bound, e)  # never above the pure epsilon

    orders = checks.floats("order", order, *ORDER)
    return elementwise(divergence, orders, checks.floats("scale", scale, 1e-6, 1e9))


def sampled_gaussian_rdp(orders, sigma, rate):
    """Return the Renyi divergences of Gaussian noise on a secret Poisson sample, for add-remove
    neighbours.

    Computed by dp-accounting, in floating point, and raised by more than its rounding: by 1e-9 of
    themselves, and by that of the binomial coefficients, which is absolute. For orders that are
    not whole it adds up the sizes of alternating terms, which costs up to a fifth at order 1.5.

    Parameters
    ----------
    orders : sequence of floats
    sigma : float
        Standard deviation in units of the l2 sensitivity, 0.1 to 1e6.
    rate : float
        Probability with which each record is in the sample, independently, 1e-9 to 1.

    Returns
    -------
    float array of the length of `orders`
        inf where the computation gives no finite bound.

    Source
        Mironov, Talwar, Zhang 2019, section 3.3.
    """
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = checks.floats("orders", orders, *ORDER)
    checks.within("sigma", sigma, 0.1, 1e6)
    checks.within("rate", rate, 1e-9, 1)
    accountant = RdpAccountant(orders.tolist())
    with _quiet("absl"):  # it warns of the orders that get inf
        accountant.compose(PoissonSampledDpEvent(float(rate), GaussianDpEvent(float(sigma))))
    rounding = 8 * ULP * (2 + special.gammaln(orders + 1)) / (orders - 1)
    return np.maximum(np.asarray(accountant.rdp), 0) * (1 + 1e-9) + rounding


@contextmanager
def _quiet(name):
    """Keep a logger's warnings to itself."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def rdp_to_epsilon(orders, divergences, delta):
    """Return the smallest epsilon >= 0, rounded up, that Renyi divergences give at delta.

    The least of D + ln(1 - 1/alpha) - ln(alpha delta)/(alpha - 1) over the orders. An infinite
    divergence says nothing about its order: the others decide, and inf comes back if there are
    none.

    Parameters
    ----------
    orders, divergences : float or array
        They broadcast; divergences at least 0.
    delta : float

    Source
        Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    order = checks.floats("orders", orders, *ORDER)
    divergence = checks.floats("divergences", divergences, 0, math.inf)
    if not order.size or not divergence.size:
        shapes = f"{order.shape} and {divergence.shape}"
        raise ValueError(f"orders and divergences must not be empty, got shapes {shapes}")
    log, t = -math.log(deltas(checks.probability("delta", delta))), order - 1

    def epsilon(order, t, divergence):
        value = divergence - np.log1p(1 / t) + (log - np.log(order)) / t
        return value + 8 * ULP * (divergence + np.log1p(1 / t) + (log + np.log(order)) / t)

    return max(0.0, float(np.min(elementwise(epsilon, order, t, divergence))))
