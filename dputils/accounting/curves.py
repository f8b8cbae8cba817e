"""Privacy curves of the Gaussian mechanism: epsilon, delta and mu, in logarithms and on the private
side.

mu is the sensitivity of a Gaussian release divided by its standard deviation. A guarantee (epsilon,
delta) is rounded up, a budget (mu) down, by a margin that covers the rounding of the computation.
Arguments are numbers or arrays, which broadcast; numbers give a float, arrays an array. Ranges:
epsilon 0 or 1e-9 to 1e6, mu 1e-12 to 1e4, delta 1e-300 to 1 - 2^-53; what lies outside is refused.

The privacy loss between N(0, 1) and N(mu, 1) is N(mu^2/2, mu^2), so with a = epsilon/mu - mu/2, b =
epsilon/mu + mu/2, the upper tail Q and the density phi of N(0, 1)

    delta = Q(a) - e^epsilon Q(b)                                  (Balle and Wang 2018, Theorem 8).

1. Both terms can be below all floats, and nearly equal. But b^2 - a^2 = 2 epsilon, so
   e^epsilon phi(b) = phi(a):
       delta = phi(a) D,  D = R(a) - R(b);    1 - delta = phi(a) S,  S = R(-a) + R(b);    R = Q/phi.
   R(x) = sqrt(pi/2) erfcx(x/sqrt 2) is smooth, e^epsilon is gone, ln phi(a) = -a^2/2 - ln sqrt(2
   pi) has all the size. S is a sum without cancellation: it serves where a < -1 (there delta is
   above 0.68).
2. R' = x R - 1, so D is the integral of G(x) = 1 - x R(x) > 0 over [a, b], an interval of length
   mu. The difference loses a factor R(a)/D of accuracy, about (2 + epsilon/mu)/mu. Where this
   exceeds 125, three Gauss-Legendre nodes take the integral; the nodes' relative error is below
   (mu/2/(2 + epsilon/mu))^6 < 5e-15.
3. d delta/d mu = phi(a) and d delta/d epsilon = -e^epsilon Q(b) = -phi(a) R(b). For L = ln delta
   this makes
       dL/d ln mu = mu/D =: g,         second derivative g (1 + a b - g);
       dL/d epsilon = -R(b)/D =: g,    second derivative g (1 - 1/(mu R(b)) - g):
   two derivatives for the price of two erfcx. For L = ln(1 - delta) put -S for D. `_solve` takes
   Halley's steps.
4. The relative error of mu is that of delta times D/mu <= max(1, R(a)/mu): small delta makes mu
   easy, not hard.
"""

import math

import numpy as np
from scipy import special

from dputils import checks
from dputils.accounting.rounding import ULP, elementwise, ends, upper_exp

EPSILON, MU, DELTA = ends(1e-9, 1e6), ends(1e-12, 1e4), (ends(1e-300, 1)[0], 1 - 2.0**-53)
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def epsilons(value):
    """Return epsilons, 0 or in the range of this module, as a float array."""
    return checks.floats("epsilon", value, *EPSILON, zero=True)


def deltas(value):
    """Return deltas in the range of this module as a float array."""
    return checks.floats("delta", value, *DELTA)


def gaussian_log_delta(epsilon, mu):
    """Return ln delta of the Gaussian mechanism at epsilon, never below the exact value.

    Above the exact value by at most 2e-13 + 1e-15 (|ln delta| + (epsilon/mu)^2), for both orders of
    N(0, 1), N(mu, 1).

    Parameters
    ----------
    epsilon : float or array
    mu : float or array
        Sensitivity divided by standard deviation.

    Source
        Balle and Wang 2018, Theorem 8; steps 1 and 2 above.
    """
    return elementwise(_log_delta, epsilons(epsilon), checks.floats("mu", mu, *MU))


def gaussian_delta(epsilon, mu):
    """Return delta of the Gaussian mechanism at epsilon, never below the exact value.

    It is exp of `gaussian_log_delta`, with the same arguments.
    """
    return upper_exp(gaussian_log_delta(epsilon, mu))


def gaussian_mu(epsilon, delta):
    """Return the largest mu whose Gaussian mechanism is (epsilon, delta)-differentially private.

    Never above the exact root, and below it by at most 1e-12 of it for epsilon from 1e-6 to 1e3 and
    delta up to 0.1. sensitivity/mu is the smallest standard deviation.

    Parameters
    ----------
    epsilon, delta : float or array

    Source
        Balle and Wang 2018, Algorithm 1 (the problem); steps 1-4 above.
    """

    def mu(epsilon, delta):
        side, target = _side(delta)

        def step(i, y):
            mu = np.exp(y)
            log, a, b, _, gap = _log_side(epsilon[i], mu, side[i])
            g = mu / gap
            return log - target[i], g, 1 + a * b - g, 1 / (1 + b)

        root = np.exp(_solve(step, np.log(_start_mu(epsilon, delta)), side))
        gap = _log_side(epsilon, root, side)[-1]
        return root * (1 - 6e-14 - 8 * ULP * np.fmin(np.abs(target * gap) / root, 700))

    return elementwise(mu, epsilons(epsilon), deltas(delta))


def _start_mu(epsilon, delta):
    """A first mu, the larger of two bounds: delta <= Q(a), delta >= total variation distance."""
    a = -special.ndtri(delta)
    root = math.sqrt(2) * np.sqrt(a * a / 2 + epsilon)
    from_tail = np.where(a < 0, root - a, epsilon / (root + a) * 2)
    return np.fmax(from_tail, math.sqrt(8) * special.erfinv(delta))


def gaussian_epsilon(mu, delta):
    """Return the smallest epsilon >= 0 for which the Gaussian mechanism of this mu is (epsilon,
    delta)-private.

    Never below the exact value; 0 where delta is at least the total variation distance
    2 Phi(mu/2) - 1.

    Parameters
    ----------
    mu, delta : float or array
    """

    def epsilon(mu, delta):
        out = np.zeros_like(mu)
        pick = np.flatnonzero(_log_delta(np.zeros_like(mu), mu) > np.log(delta))
        out[pick] = _positive_epsilon(mu[pick], delta[pick])
        return out

    return elementwise(epsilon, checks.floats("mu", mu, *MU), deltas(delta))


def _positive_epsilon(mu, delta):
    """The positive root in epsilon, raised by more than its rounding; the search starts above."""
    side, target = _side(delta)

    def step(i, y):
        log, _, b, far, gap = _log_side(y, mu[i], side[i])
        g = -far / gap
        return log - target[i], g, 1 - 1 / (mu[i] * far) - g, mu[i] / (1 + b)

    start = np.maximum(mu * (mu / 2 - special.ndtri(delta)), 0)  # as delta <= Q(a)
    root = _solve(step, start, -side, low=0.0)
    *_, far, gap = _log_side(root, mu, side)
    error = (1e-13 + 8 * ULP * np.abs(target)) * np.abs(gap) / far
    return root + 1e-13 * root + 8 * ULP * mu * mu + error


def mills(x):
    """Return R(x) (any shape), the upper tail of N(0, 1) divided by its density."""
    return math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2))


def _slope(x):
    """G(x) = 1 - x R(x); by its continued fraction where the difference would be noise."""
    slope = 1 - x * mills(x)
    if (far := x >= 100).any():
        x = x[far]
        slope[far] = 1 / (1 + x * (x + 2 / (x + 3 / (x + 4 / x))))
    return slope


def _log_side(epsilon, mu, side):
    """Return ln delta (side 1) or ln(1 - delta) (side -1), a, b, R(b), and D or -S (steps 1, 2)."""
    m, h = epsilon / mu, mu / 2
    a, b = m - h, m + h
    far = mills(b)
    gap = side * mills(side * a) - far
    if (close := (mu < 0.008 * (2 + m)) & (side > 0)).any():
        m, h = m[close], h[close]
        node = math.sqrt(0.6) * h
        first, middle, last = _slope(np.stack([m - node, m, m + node]))
        gap[close] = h / 9 * (5 * first + 8 * middle + 5 * last)
    return np.log(np.abs(gap)) - a * a / 2 - _LOG_ROOT, a, b, far, gap


def _log_delta(epsilon, mu):
    side = np.where(epsilon / mu - mu / 2 < -1, -1.0, 1.0)
    log, a, b, *_ = _log_side(epsilon, mu, side)
    up = 1e-13 + 2 * ULP * (np.abs(log) + np.abs(a) * b)
    from_rest = np.log1p(-np.exp(np.minimum(log - up, -1e-300))) * (1 - 2 * ULP)
    return np.where(side < 0, from_rest, np.minimum(log + up, 0))


def _side(delta):
    """Return 1 and ln delta up to 1/2, -1 and ln(1 - delta) above."""
    return np.where(delta > 0.5, -1.0, 1.0), np.where(delta > 0.5, np.log1p(-delta), np.log(delta))


def _solve(step, y, rising, low=-np.inf):
    """Return the roots of functions of y, rising (1) or falling (-1), by Halley's steps kept inside
    a bracket.

    `step(i, y)` gives for the functions with indices i at y: value, slope, second derivative over
    slope, and a length on which these three describe the function: after a step of 1e-6 of it, or
    of the rounding of y, nothing is left to gain. Over floats of all sizes six steps were the most
    ever taken; twice that are allowed.
    """
    y, todo = y.copy(), np.arange(y.size)
    low, high = np.full_like(y, low), np.full_like(y, np.inf)
    for _ in range(12):
        here = y[todo]
        f, g, bend, length = step(todo, here)
        below = f * rising[todo] < 0
        low[todo] = np.where(below, here, low[todo])
        high[todo] = np.where(below, high[todo], here)
        there = here - f / g / np.maximum(1 - 0.5 * bend * f / g, 0.4)
        done = np.abs(there - here) <= np.maximum(1e-6 * length, 4 * ULP * np.abs(here))
        inside = done | (there > low[todo]) & (there < high[todo])
        y[todo] = np.where(inside, there, (low[todo] + high[todo]) / 2)
        if not (todo := todo[~done]).size:
            break
    return y
