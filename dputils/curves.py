"""Privacy curves: what one notion of privacy guarantees in terms of another, in logarithms and on the private side.

mu is the sensitivity of a Gaussian release divided by its standard deviation; rho is the parameter of zero-concentrated
privacy (zCDP). A guarantee (epsilon, delta) is rounded up, a budget (mu, rho) down, by a margin that covers the
rounding of the computation. Arguments are numbers or arrays, which broadcast; numbers give a float, arrays an array.

The Gaussian curve. The privacy loss between N(0, 1) and N(mu, 1) is N(mu^2/2, mu^2), so with a = epsilon/mu - mu/2,
b = epsilon/mu + mu/2, the upper tail Q and the density phi of N(0, 1)

    delta = Q(a) - e^epsilon Q(b)                                                  (Balle and Wang 2018, Theorem 8).

1. Both terms can be below all floats, and nearly equal. But b^2 - a^2 = 2 epsilon, so e^epsilon phi(b) = phi(a):
       delta = phi(a) D,  D = R(a) - R(b);    1 - delta = phi(a) S,  S = R(-a) + R(b);    R = Q/phi.
   R(x) = sqrt(pi/2) erfcx(x/sqrt 2) is smooth, e^epsilon is gone, ln phi(a) = -a^2/2 - ln sqrt(2 pi) has all the size.
   S is a sum without cancellation: it serves where a < -1 (there delta is above 0.68).
2. R' = x R - 1, so D is the integral of G(x) = 1 - x R(x) > 0 over [a, b], an interval of length mu. The difference
   loses a factor R(a)/D of accuracy, about (2 + epsilon/mu)/mu. Where this exceeds 125, three Gauss-Legendre nodes take
   the integral; the nodes' relative error is below (mu/2/(2 + epsilon/mu))^6 < 5e-15.
3. d delta/d mu = phi(a) and d delta/d epsilon = -e^epsilon Q(b) = -phi(a) R(b). For L = ln delta this makes
       dL/d ln mu = mu/D =: g,         second derivative g (1 + a b - g);
       dL/d epsilon = -R(b)/D =: g,    second derivative g (1 - 1/(mu R(b)) - g):
   two derivatives for the price of two erfcx. For L = ln(1 - delta) put -S for D. `_solve` takes Halley's steps.
4. The relative error of mu is that of delta times D/mu <= max(1, R(a)/mu): small delta makes mu easy, not hard.
"""
import math
from fractions import Fraction

import numpy as np
from scipy import special

from dputils import checks

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_ULP = 2.0**-52
_CHUNK = 1 << 13  # pairs solved at a time: their arrays stay in the processor's cache


def gaussian_log_delta(epsilon, mu):
    """Return ln delta of the Gaussian mechanism at epsilon, never below the exact value.

    Parameters
    ----------
    epsilon : float or array, at least 0
    mu : float or array, positive: sensitivity divided by standard deviation

    Above the exact value by at most 2e-13 + 1e-15 (|ln delta| + (epsilon/mu)^2), for both orders of N(0, 1), N(mu, 1).
    Source: Balle and Wang 2018, Theorem 8; steps 1 and 2 above.
    """
    return _each(_log_delta, _floats("epsilon", epsilon), _floats("mu", mu, "positive"))


def gaussian_delta(epsilon, mu):
    """Return delta of the Gaussian mechanism at epsilon: exp of `gaussian_log_delta`, never below the exact value."""
    return _upper_exp(gaussian_log_delta(epsilon, mu))


def gaussian_mu(epsilon, delta):
    """Return the largest mu whose Gaussian mechanism is (epsilon, delta)-differentially private.

    epsilon at least 0, delta in (0, 1); floats or arrays. Never above the exact root, and below it by at most 1e-12 of
    it for epsilon from 1e-6 to 1e3 and delta from 1e-300 to 0.1. sensitivity/mu is the smallest standard deviation.
    Source: Balle and Wang 2018, Algorithm 1 (the problem); steps 1-4 above.
    """
    def mu(epsilon, delta):
        side, target = _side(delta)
        a = -special.ndtri(delta)  # delta <= Q(a), and delta >= total variation: two lower bounds to start from
        root = math.sqrt(2) * np.sqrt(a * a / 2 + epsilon)
        start = np.fmax(np.where(a < 0, root - a, epsilon / (root + a) * 2), math.sqrt(8) * special.erfinv(delta))

        def step(i, y):
            mu = np.exp(y)
            log, a, b, _, gap = _log_side(near[i], mu, side[i])
            g = mu / gap
            return log - target[i], g, 1 + a * b - g, 1 / (1 + b)

        near = np.minimum(epsilon, 1e14)  # beyond it the first bound is the root, to 1e-13
        mu = np.where(epsilon > 1e14, start, np.exp(_solve(step, np.log(start), side)))
        gap = _log_side(near, mu, side)[-1]
        return mu * (1 - 6e-14 - 8 * _ULP * np.fmin(np.abs(target * gap) / mu, 700))

    return _each(mu, _floats("epsilon", epsilon), _floats("delta", delta, "share"))


def gaussian_epsilon(mu, delta):
    """Return the smallest epsilon >= 0 for which the Gaussian mechanism of this mu is (epsilon, delta)-private.

    mu positive, delta in (0, 1); floats or arrays. Never below the exact value; 0 where delta is at least the total
    variation distance 2 Phi(mu/2) - 1.
    """
    def epsilon(mu, delta):
        out, pick = np.zeros_like(mu), np.flatnonzero(_log_delta(np.zeros_like(mu), mu) > np.log(delta))
        mu, (side, target) = mu[pick], _side(delta[pick])
        start = np.maximum(mu * (mu / 2 - special.ndtri(delta[pick])), 0)  # an upper bound, from delta <= Q(a)

        def step(i, y):
            log, _, b, far, gap = _log_side(y, near[i], side[i])
            g = -far / gap
            return log - target[i], g, 1 - 1 / (near[i] * far) - g, near[i] / (1 + b)

        near = np.minimum(mu, 1e8)  # beyond it the bound is the root, to 1e-13
        root = np.where(mu > 1e8, start, _solve(step, np.where(mu > 1e8, 0.0, start), -side, low=0.0))
        *_, far, gap = _log_side(root, near, side)
        error = 1e-13 * root + 8 * _ULP * mu * mu + (1e-13 + 8 * _ULP * np.abs(target)) * np.abs(gap) / far
        out[pick] = np.where(mu > 1e8, root * (1 + 1e-13), root + error)
        return out

    return _each(epsilon, _floats("mu", mu, "positive"), _floats("delta", delta, "share"))


def _mills(x):
    """R(x), the upper tail of N(0, 1) divided by its density."""
    return math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2))


def _slope(x):
    """G(x) = 1 - x R(x); for large x by its continued fraction, where the difference would be noise."""
    return np.where(x < 100, 1 - x * _mills(x), 1 / (1 + x * (x + 2 / (x + 3 / (x + 4 / np.maximum(x, 1))))))


def _log_side(epsilon, mu, side):
    """Return ln delta (side 1) or ln(1 - delta) (side -1), a, b, R(b), and D or -S (steps 1 and 2)."""
    m, h = epsilon / mu, mu / 2
    a, b = m - h, m + h
    far = _mills(b)
    gap = side * _mills(side * a) - far
    if (close := (mu < 0.008 * (2 + m)) & (side > 0)).any():
        m, h = m[close], h[close]
        node = math.sqrt(0.6) * h
        gap[close] = h / 9 * (5 * _slope(m - node) + 8 * _slope(m) + 5 * _slope(m + node))
    return np.log(np.abs(gap)) - a * a / 2 - _LOG_ROOT, a, b, far, gap


def _log_delta(epsilon, mu):
    side = np.where(epsilon / mu - mu / 2 < -1, -1.0, 1.0)
    log, a, b, *_ = _log_side(epsilon, np.maximum(mu, 1e-300), side)  # delta rises with mu
    log = np.maximum(log, -1e300)
    up = 1e-13 + 2 * _ULP * (np.abs(log) + np.minimum(np.abs(a) * b, 1e300))
    return np.where(side < 0, np.log1p(-np.exp(log - up)) * (1 - 2 * _ULP), np.minimum(log + up, 0))


def _side(delta):
    """Return 1 and ln delta up to 1/2, -1 and ln(1 - delta) above."""
    return np.where(delta > 0.5, -1.0, 1.0), np.where(delta > 0.5, np.log1p(-delta), np.log(delta))


def _solve(step, y, rising, low=-np.inf):
    """Return the roots of functions of y, rising (1) or falling (-1), by Halley's steps kept inside a bracket.

    `step(i, y)` gives for the functions with indices i at y: value, slope, second derivative over slope, and a length
    on which these three describe the function: after a step of 1e-6 of it nothing is left to gain.
    """
    y, todo = y.copy(), np.arange(y.size)
    low, high = np.full_like(y, low), np.full_like(y, np.inf)
    for _ in range(200):
        here = y[todo]
        f, g, bend, length = step(todo, here)
        below = f * rising[todo] < 0
        low[todo], high[todo] = np.where(below, here, low[todo]), np.where(below, high[todo], here)
        there = here - f / g / np.maximum(1 - 0.5 * bend * f / g, 0.4)
        done = np.abs(there - here) <= 1e-6 * length
        inside = done | (there > low[todo]) & (there < high[todo])
        y[todo] = np.where(inside, there, (low[todo] + high[todo]) / 2)
        if not (todo := todo[~done]).size:
            break
    return y


def zcdp_delta(rho, epsilon):
    """Return the smallest delta <= 1 that rho-zCDP is known to give at epsilon >= 0, never below the formula's value.

    For every order alpha > 1, ln delta is at most (alpha - 1)(alpha rho - epsilon) + alpha ln(1 - 1/alpha) -
    ln(alpha - 1) (Canonne, Kamath, Steinke 2020, Corollary 13): a search that misses the best alpha costs a little
    and breaks nothing. rho positive, epsilon at least 0; floats or arrays.
    """
    def log_delta(rho, epsilon):  # with t = alpha - 1 the slope in t is (2t + 1) rho - epsilon - ln(1 + 1/t), rising
        t = _crossing(lambda t: (2 * t + 1) * rho - epsilon - np.log1p(1 / t), rho)
        log = t * ((1 + t) * rho - epsilon) - t * np.log1p(1 / t) - np.log1p(t)
        return np.minimum(log + 8 * _ULP * (1 + np.abs(log) + t * ((1 + t) * rho + epsilon)), 0)

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
    3.3): a Fraction for an int or a Fraction, a float for a float, which is read as its decimal."""
    rho = checks.as_fraction("epsilon", checks.epsilon(epsilon)) ** 2 / 2
    return rho if isinstance(epsilon, (int, Fraction)) else float(rho)


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
        return 2 * np.where(epsilon < 2, small, large) * (1 + 8 * _ULP)

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
    that broadcast (Canonne, Kamath, Steinke 2020, Proposition 12).
    """
    order, divergence = _floats("orders", orders, "order"), _floats("divergences", divergences)
    l, t = -math.log(_floats("delta", delta, "share")), order - 1
    values = divergence - np.log1p(1 / t) + (l - np.log(order)) / t
    return max(0.0, float(np.min(values + 8 * _ULP * (divergence + np.log1p(1 / t) + (l + np.log(order)) / t))))


_KINDS = {"not negative": ("at least 0 and finite", lambda x: x >= 0), "order": ("above 1 and finite", lambda x: x > 1),
          "positive": ("positive and finite", lambda x: x > 0),
          "share": ("strictly between 0 and 1", lambda x: (x > 0) & (x < 1))}


def _floats(name, value, kind="not negative"):
    """Return numbers as a float array; refuse what is not finite or not of the kind."""
    array = np.asarray(value)
    if array.dtype.kind == "O":  # fractions, integers beyond 64 bits
        array = np.array([float(checks.number(name, v)) for v in array.flat]).reshape(array.shape)
    good = _KINDS[kind][1](array) & np.isfinite(array) if array.dtype.kind in "iuf" else np.zeros(array.shape, bool)
    if not good.all():
        raise ValueError(f"{name} must be {_KINDS[kind][0]}, got {array[~good].flat[0].item()!r}")
    return array.astype(float)


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
