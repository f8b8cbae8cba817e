"""Conversions between zero-concentrated, Renyi, pure and Gaussian privacy."""
import math
from fractions import Fraction

import numpy as np
from scipy import special

from dputils import checks
from dputils.accounting.curves import mills
from dputils.accounting.rounding import ULP, elementwise, upper_exp


def zcdp_delta(rho, epsilon):
    """Return the smallest delta <= 1 that rho-zCDP is known to give at epsilon >= 0, never below the formula's value.

    For every order alpha > 1, ln delta is at most (alpha - 1)(alpha rho - epsilon) + alpha ln(1 - 1/alpha) -
    ln(alpha - 1) (Canonne, Kamath, Steinke 2020, Corollary 13): a search that misses the best alpha costs a little
    and breaks nothing. rho positive, epsilon at least 0; floats or arrays.
    """
    def log_delta(rho, epsilon):  # with t = alpha - 1 the slope in t is (2t + 1) rho - epsilon - ln(1 + 1/t), rising
        t = _crossing(lambda t: (2 * t + 1) * rho - epsilon - np.log1p(1 / t), rho)
        log = np.maximum(t * ((1 + t) * rho - epsilon) - t * np.log1p(1 / t) - np.log1p(t), -1e300)
        return np.minimum(log + 8 * ULP * (1 + np.abs(log) + np.minimum(t * ((1 + t) * rho + epsilon), 1e300)), 0)

    return upper_exp(elementwise(log_delta, checks.floats("rho", rho, "positive"), checks.floats("epsilon", epsilon)))


def zcdp_epsilon(rho, delta):
    """Return the smallest epsilon >= 0 that rho-zCDP is known to give at delta, never below the formula's value.

    With t = alpha - 1 and l = ln(1/delta) the bound of `zcdp_delta` reads epsilon = (1 + t) rho + (l - ln(1 + t))/t -
    ln(1 + 1/t), smallest where rho t^2 + ln(1 + t) = l. rho positive, delta in (0, 1); floats or arrays.
    """
    def epsilon(rho, delta):
        l = -np.log(delta)
        t = _crossing(lambda t: rho * t * t + np.log1p(t) - l, rho)
        value = (1 + t) * rho + (l - np.log1p(t)) / t - np.log1p(1 / t)
        return np.maximum(value + 8 * ULP * ((1 + t) * rho + (l + np.log1p(t)) / t + np.log1p(1 / t)), 0)

    return elementwise(epsilon, checks.floats("rho", rho, "positive"), checks.floats("delta", delta, "share"))


def zcdp_rho(epsilon, delta):
    """Return the largest rho whose zCDP is known to give (epsilon, delta), never above the formula's value.

    The bound of `zcdp_epsilon` solved for rho is (epsilon + ln(1 + 1/t) - (l - ln(1 + t))/t)/(1 + t), largest where
    (l - ln(1 + t))(1 + 2t)/t^2 - ln(1 + 1/t) = epsilon. epsilon at least 0, delta in (0, 1); floats or arrays.
    """
    def rho(epsilon, delta):
        l = -np.log(delta)
        t = _crossing(lambda t: epsilon + np.log1p(1 / t) - (l - np.log1p(t)) * (1 + 2 * t) / t / t, delta)
        value = epsilon + np.log1p(1 / t) - (l - np.log1p(t)) / t
        error = 8 * ULP * (epsilon + np.log1p(1 / t) + (l + np.log1p(t)) / t)
        return np.maximum(value - error, 0) / (1 + t)

    return elementwise(rho, checks.floats("epsilon", epsilon), checks.floats("delta", delta, "share"))


def _crossing(rising, like):
    """Return t > 0 where a rising function changes sign, to 1e-10 of t, by bisection on ln t."""
    low, high = np.full_like(like, -700.0), np.full_like(like, 700.0)
    for _ in range(44):
        below = rising(np.exp(middle := (low + high) / 2)) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.exp((low + high) / 2)


def pure_to_zcdp(epsilon):
    """Return the rho = epsilon^2/2 of zCDP that epsilon-differential privacy implies (Bun and Steinke 2016, Proposition
    3.3): a Fraction for an int or a Fraction; for a float, read as its decimal, the smallest float not below it."""
    rho = checks.as_fraction("epsilon", checks.epsilon(epsilon)) ** 2 / 2
    if isinstance(epsilon, (int, Fraction)):
        return rho
    if rho > Fraction(np.finfo(float).max):
        raise ValueError(f"epsilon must have a half square that is a float, got {float(epsilon)!r}: pass a Fraction")
    return near if (near := float(rho)) >= rho else math.nextafter(near, math.inf)


def pure_to_gaussian(epsilon):
    """Return the mu of Gaussian differential privacy that epsilon-differential privacy implies, rounded up.

    mu = -2 Phi^-1(1/(1 + e^epsilon)), about epsilon sqrt(pi/2) for small epsilon. The trade-off curve of
    epsilon-privacy is two lines that meet on the diagonal at 1/(1 + e^epsilon); the convex curve of N(0, 1) against
    N(mu, 1) passes through that kink and runs below both lines (Dong, Roth, Su 2022: the notions).
    """
    def mu(epsilon):  # Phi(mu/2) - 1/2 = tanh(epsilon/2)/2 keeps small epsilon exact, logarithms large ones
        small, log = special.erfinv(np.tanh(np.minimum(epsilon, 2) / 2)) * math.sqrt(2), -np.logaddexp(0, epsilon)
        large = -special.ndtri_exp(log)
        large += (special.log_ndtr(-large) - log) * mills(large)  # a step of Newton: ndtri_exp is right to 1e-12 only
        mu = 2 * np.where(epsilon < 2, small, large) * (1 + 8 * ULP)
        tiny = np.nextafter(epsilon * (math.sqrt(math.pi / 2) * (1 + 8 * ULP)), 1)  # above mu(epsilon), see its series
        return np.where(epsilon < 1e-300, tiny, mu)

    return elementwise(mu, checks.floats("epsilon", epsilon, "positive"))


def laplace_rdp(order, scale):
    """Return the Renyi divergence of Laplace noise from its shift by 1, rounded up.

    ln((alpha e^((alpha - 1)/b) + (alpha - 1) e^(-alpha/b))/(2 alpha - 1))/(alpha - 1) for an order alpha > 1 and a
    scale b, in units of the sensitivity; floats or arrays. Source: Mironov 2017, Proposition 6.
    """
    def divergence(order, scale):
        t, e = order - 1, 1 / scale
        log = np.logaddexp(np.log(order) + t * e, np.log(t) - order * e) - np.log(2 * order - 1)
        return np.minimum((log + 8 * ULP * (1 + np.log(order) + order * e)) / t, e)  # never above the pure epsilon

    return elementwise(divergence, checks.floats("order", order, "order"), checks.floats("scale", scale, "positive"))


def rdp_to_epsilon(orders, divergences, delta):
    """Return the smallest epsilon >= 0 that Renyi divergences are known to give at delta, rounded up.

    The least of D + ln(1 - 1/alpha) - ln(alpha delta)/(alpha - 1) over orders alpha > 1 and divergences D >= 0, arrays
    that broadcast; delta is one number (Canonne, Kamath, Steinke 2020, Proposition 12). An infinite divergence says
    nothing about its order: the others decide, and inf comes back if there are none.
    """
    order, divergence = checks.floats("orders", orders, "order"), checks.floats("divergences", divergences, "divergence")
    l, t = -math.log(checks.floats("delta", checks.probability("delta", delta), "share")), order - 1
    if not order.size or not divergence.size:
        raise ValueError(f"orders and divergences must not be empty, got shapes {order.shape} and {divergence.shape}")

    def epsilon(order, t, divergence):
        value = divergence - np.log1p(1 / t) + (l - np.log(order)) / t
        return value + 8 * ULP * (divergence + np.log1p(1 / t) + (l + np.log(order)) / t)

    return max(0.0, float(np.min(elementwise(epsilon, order, t, divergence))))
