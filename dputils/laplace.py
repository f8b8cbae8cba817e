"""The Laplace mechanism: scale, law, errors and release.

Letters: f the query, Delta its l1 sensitivity, b = Delta/epsilon the scale.
"""
import math

import numpy as np

from dputils import checks, noise, private


def scale(sensitivity, epsilon):
    """Return the scale b = sensitivity/epsilon of the Laplace mechanism (Dwork, McSherry, Nissim, Smith 2006)."""
    checks.positive("sensitivity", sensitivity), checks.epsilon(epsilon)
    with np.errstate(all="ignore"):
        return checks.positive("sensitivity/epsilon", float(np.float64(sensitivity) / np.float64(epsilon)))


def release(value, sensitivity, epsilon, *, rng):
    """Add Laplace noise of scale sensitivity/epsilon to a number or to each coordinate of a vector, in floating point.

    Privacy
        In real arithmetic epsilon-differentially private for the neighbour relation in which `sensitivity` bounds
        the L1 distance of the values of neighbouring tables. In floating point it is not: the low bits of the
        output can tell the tables apart (Mironov 2012). For experiments only; release integers with
        `geometric_release` and sums with `grid_sum_release`.

    Parameters
    ----------
    value : number or array of numbers of any shape
        The exact answer. What lies beyond all floats counts as the largest float of its sign, which brings no two
        values further apart; NaN, which no sensitivity bounds, counts as 0.
    sensitivity, epsilon : float, both positive; sensitivity in the unit of the value
    rng : numpy.random.Generator

    Returns
    -------
    float or array
        Of the shape of `value`.

    Error
        Per coordinate: unbiased, variance 2 b^2, P(|error| > t) = exp(-t/b).

    Source: Dwork, McSherry, Nissim, Smith 2006; Dwork and Roth 2014, Theorem 3.6.
    """
    value = private.reals(value)
    with np.errstate(over="ignore"):
        return value + noise.laplace(scale(sensitivity, epsilon), value.shape or None, rng=rng)


def logpdf(x, scale):
    """Log density of the centred Laplace law at x (any shape): -|x|/b - ln(2 b)."""
    b = float(checks.positive("scale", scale))
    return -np.abs(x) / b - math.log(2 * b)


def cdf(x, scale):
    """Distribution function of the centred Laplace law at x (any shape)."""
    tail = 0.5 * np.exp(-np.abs(x) / float(checks.positive("scale", scale)))
    return np.where(np.asarray(x) < 0, tail, 1 - tail)


def variance(scale):
    """Variance 2 b^2 of Laplace noise of scale b."""
    b = float(checks.positive("scale", scale))
    return 2 * b * b


def tail(t, scale):
    """P(|Y| > t) = exp(-t/b) for t >= 0 (any shape)."""
    return np.exp(-np.maximum(t, 0) / float(checks.positive("scale", scale)))


def accuracy(scale, beta, k=1):
    """The alpha for which all of k independent noises stay within alpha with probability exactly 1 - beta.

    Returns
    -------
    float
        -b ln(1 - (1 - beta)^(1/k)), which for k = 1 is b ln(1/beta) and never above the union bound b ln(k/beta).

    Source
        Dwork and Roth 2014, Theorem 3.8 (with the union bound).
    """
    checks.positive("scale", scale), checks.probability("beta", beta), checks.integer("k", k, low=1)
    return -float(scale) * math.log(-math.expm1(math.log1p(-beta) / k))
