"""Conversions between zero-concentrated, pure, Gaussian and Renyi privacy, and what all curves share: the reading of
arguments and the rounding. The inner half of `curves`.
"""
import math
from fractions import Fraction

import numpy as np
from scipy import special

from dputils import checks

_ULP = 2.0**-52
_CHUNK = 1 << 13  # pairs solved at a time: their arrays stay in the processor's cache


def zcdp_delta(rho, epsilon):
    """Return the smallest delta <= 1 that rho-zCDP is known to give at epsilon >= 0, never below the formula's value.

    For every order alpha > 1, ln delta is at most (alpha - 1)(alpha rho - epsilon) + alpha ln(1 - 1/alpha) -
    ln(alpha - 1) (Canonne, Kamath, Steinke 2020, Corollary 13): a search that misses the best alpha costs a little
    and breaks nothing. rho positive, epsilon at least 0; floats or arrays.
    """
    def log_delta(rho, epsilon):  # with t = alpha - 1 the slope in t is (2t + 1) rho - epsilon - ln(1 + 1/t), rising
        t = _crossing(lambda t: (2 * t + 1) * rho - epsilon - np.log1p(1 / t), rho)
        log = np.maximum(t * ((1 + t) * rho - epsilon) - t * np.log1p(1 / t) - np.log1p(t), -1e300)
        return np.minimum(log + 8 * _ULP * (1 + np.abs(log) + np.minimum(t * ((1 + t) * rho + epsilon), 1e300)), 0)

    return _upper_exp(_each(log_delta, _floats("rho", rho, "positive"), _floats("epsilon", epsilon)))


def zcdp_epsilon(rho, delta):
    """Return the smallest epsilon >= 0 that rho-zCDP is known to give at delta, never below the formula's value.

    With t = alpha - 1 and l = ln(1/delta) the bound of `zcdp_delta` reads epsilon = (1 + t) rho + (l - ln(1 + t))/t -
    ln(1 + 1/t), smallest where rho t^2 + ln(1 + t) = l. rho positive, delta in (0, 1); floats or arrays.
    """
    def epsilon(rho, delta):
        l = -np.log(delta)
        t = _crossing(lambda t: rho * t * t + np.log1p(t) - l, rho)
        value = (1 + t) * rho + (l - np.log1p(t)) / t - np.log1p(1 / t)
        return np.maximum(value + 8 * _ULP * ((1 + t) * rho + (l + np.log1p(t)) / t + np.log1p(1 / t)), 0)

    return _each(epsilon, _floats("rho", rho, "positive"), _floats("delta", delta, "share"))


def zcdp_rho(epsilon, delta):
    """Return the largest rho whose zCDP is known to give (epsilon, delta), never above the formula's value.

    The bound of `zcdp_epsilon` solved for rho is (epsilon + ln(1 + 1/t) - (l - ln(1 + t))/t)/(1 + t), largest where
    (l - ln(1 + t))(1 + 2t)/t^2 - ln(1 + 1/t) = epsilon. epsilon at least 0, delta in (0, 1); floats or arrays.
    """
    def rho(epsilon, delta):
        l = -np.log(delta)
        t = _crossing(lambda t: epsilon + np.log1p(1 / t) - (l - np.log1p(t)) * (1 + 2 * t) / t / t, delta)
        value = epsilon + np.log1p(1 / t) - (l - np.log1p(t)) / t
        error = 8 * _ULP * (epsilon + np.log1p(1 / t) + (l + np.log1p(t)) / t)
        return np.maximum(value - error, 0) / (1 + t)

    return _each(rho, _floats("epsilon", epsilon), _floats("delta", delta, "share"))


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
        large += (special.log_ndtr(-large) - log) * _mills(large)  # a step of Newton: ndtri_exp is right to 1e-12 only
        mu = 2 * np.where(epsilon < 2, small, large) * (1 + 8 * _ULP)
        tiny = np.nextafter(epsilon * (math.sqrt(math.pi / 2) * (1 + 8 * _ULP)), 1)  # above mu(epsilon), see its series
        return np.where(epsilon < 1e-300, tiny, mu)

    return _each(mu, _floats("epsilon", epsilon, "positive"))


def laplace_rdp(order, scale):
    """Return the Renyi divergence of Laplace noise from its shift by 1, rounded up.

    ln((alpha e^((alpha - 1)/b) + (alpha - 1) e^(-alpha/b))/(2 alpha - 1))/(alpha - 1) for an order alpha > 1 and a
    scale b, in units of the sensitivity; floats or arrays. Source: Mironov 2017, Proposition 6.
    """
    def divergence(order, scale):
        t, e = order - 1, 1 / scale
        log = np.logaddexp(np.log(order) + t * e, np.log(t) - order * e) - np.log(2 * order - 1)
        return np.minimum((log + 8 * _ULP * (1 + np.log(order) + order * e)) / t, e)  # never above the pure epsilon

    return _each(divergence, _floats("order", order, "order"), _floats("scale", scale, "positive"))


def rdp_to_epsilon(orders, divergences, delta):
    """Return the smallest epsilon >= 0 that Renyi divergences are known to give at delta, rounded up.

    The least of D + ln(1 - 1/alpha) - ln(alpha delta)/(alpha - 1) over orders alpha > 1 and divergences D >= 0, arrays
    that broadcast; delta is one number (Canonne, Kamath, Steinke 2020, Proposition 12). An infinite divergence says
    nothing about its order: the others decide, and inf comes back if there are none.
    """
    order, divergence = _floats("orders", orders, "order"), _floats("divergences", divergences, "divergence")
    l, t = -math.log(_floats("delta", checks.probability("delta", delta), "share")), order - 1
    if not order.size or not divergence.size:
        raise ValueError(f"orders and divergences must not be empty, got shapes {order.shape} and {divergence.shape}")

    def epsilon(order, t, divergence):
        value = divergence - np.log1p(1 / t) + (l - np.log(order)) / t
        return value + 8 * _ULP * (divergence + np.log1p(1 / t) + (l + np.log(order)) / t)

    return max(0.0, float(np.min(_each(epsilon, order, t, divergence))))


_KINDS = {"not negative": ("at least 0 and finite", lambda x: (x >= 0) & (x < math.inf)),
          "order": ("above 1 and finite", lambda x: (x > 1) & (x < math.inf)),
          "positive": ("positive and finite", lambda x: (x > 0) & (x < math.inf)),
          "share": ("strictly between 0 and 1", lambda x: (x > 0) & (x < 1)),
          "divergence": ("at least 0", lambda x: x >= 0)}


def _floats(name, value, kind="not negative"):
    """Return numbers as a float array; refuse what is not of the kind. A longer format is rounded to a float first:
    what is computed with is what is checked."""
    array = np.asarray(value)
    if array.dtype.kind == "O":  # fractions, integers beyond 64 bits
        array = np.array([float(checks.number(name, v)) for v in array.flat]).reshape(array.shape)
    with np.errstate(over="ignore"):
        floats = array.astype(float) if array.dtype.kind in "iuf" else np.full(array.shape, math.nan)
    good = _KINDS[kind][1](floats)
    if not good.all():
        shown = floats if array.dtype.kind == "f" else array
        raise ValueError(f"{name} must be {_KINDS[kind][0]}, got {shown[~good].flat[0].item()!r}")
    return floats


def _each(function, *arrays):
    """Apply a function of one-dimensional arrays to broadcast arrays, a chunk at a time."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    flat = [np.broadcast_to(a, shape).ravel() for a in arrays]
    with np.errstate(all="ignore"):
        parts = [function(*(a[i:i + _CHUNK] for a in flat)) for i in range(0, flat[0].size, _CHUNK)]
    return np.concatenate(parts or [np.empty(0)]).reshape(shape) if shape else parts[0].item()


def _upper_exp(log):
    """exp, rounded up, at most 1."""
    value = np.minimum(np.nextafter(np.exp(log), 2) * (1 + 2 * _ULP), 1)
    return value if np.ndim(value) else value.item()


def _mills(x):
    """R(x), the upper tail of N(0, 1) divided by its density."""
    return math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2))
