"""Thresholds on noisy counts of listed bins: what is below becomes 0.

Letters: c a count, Z two-sided geometric noise of scale s on it, a = exp(-1/s); theta the
threshold, m the number of empty bins. A threshold on noisy counts is post-processing. A count
survives with P(Z >= theta - c); for j >= 1, P(Z >= j) = a^j/(1 + a), and Z - j given Z >= j is
geometric on 0, 1, ..., with ratio a.

Ranges: counts and thresholds up to 2^50, scales as in `geometric`.
"""

import math

import numpy as np

from dputils import checks, geometric

_MOST = 1 << 50


def hard(noisy, theta):
    """Return noisy counts with those below the threshold set to 0.

    Privacy
        Computed from what is published alone. Compared with *exact* counts, no epsilon holds.

    Parameters
    ----------
    noisy : array of any shape
    theta : number

    Returns
    -------
    array of the shape and dtype of `noisy`
    """
    return np.where(np.asarray(noisy) >= theta, noisy, 0)


def soft(noisy, theta):
    """Return noisy counts lowered by the threshold, those below it set to 0 (as `hard`)."""
    return np.maximum(np.asarray(noisy) - theta, 0)


def kept(counts, theta, scale):
    """Return the probability that counts survive a threshold, P(c + Z >= theta) (any shape).

    Parameters
    ----------
    counts : array of whole numbers of any shape, -2^50 to 2^50
    theta : int, 1 to 2^50
    scale : number
        s, of the geometric noise.

    Returns
    -------
    float array of the shape of `counts`
    """
    return geometric.cdf(_whole(counts) - _theta(theta), scale)  # the noise is symmetric


def smallest(empty, scale, beta):
    """Return the smallest threshold that no empty bin survives with probability 1 - beta.

    The smallest whole theta, at least 1, with 1 - (1 - a^theta/(1 + a))^m <= beta, m = `empty`.

    Parameters
    ----------
    empty : int, 1 to 2^50
        The number m of bins.
    scale : number
    beta : float

    Returns
    -------
    int
    """
    m = checks.within("empty", checks.integer("empty", empty, low=1), 1, _MOST)
    s = float(checks.within("scale", scale, *checks.STEPS))
    one = -math.expm1(math.log1p(-checks.within("beta", beta, *checks.BETAS)) / m)
    closed = math.ceil(-s * math.log(one * (1 + math.exp(-1 / s))))
    # the closed form is rounded, by less than 1e-13 s: start below it, the law decides
    theta = max(1, closed - 2 - int(1e-13 * s))
    while geometric.cdf(-theta, s) > one:
        theta += 1
    return theta


def errors(counts, theta, scale, *, lowered=False):
    """Return the bias and the mean squared error of counts after a threshold.

    Parameters
    ----------
    counts, theta, scale
        As for `kept`, counts from 0 on.
    lowered : bool
        Whether what survives is lowered by theta (`soft`), or stays as it is (`hard`).

    Returns
    -------
    (bias, mse) : float arrays of the shape of `counts`
    """
    c, s = _whole(counts, low=0), float(checks.within("scale", scale, *checks.STEPS))
    by = float(_theta(theta))
    mass, first, second = _upper_moments(by - c, s)
    if lowered:
        first, second = first - by * mass, second - 2 * by * first + by**2 * mass
    lost = geometric.cdf(by - c - 1, s)
    return first - c * lost, second + c**2 * lost


def _upper_moments(j, s):
    """Return P(Z >= j), E[Z; Z >= j] and E[Z^2; Z >= j]: for j >= 1 as above, else by symmetry,
    from what lies at 1 - j or beyond.
    """
    far = np.where(j >= 1, j, 1 - j)
    rest = -math.expm1(-1 / s)
    beyond = math.exp(-1 / s) / rest  # the mean of Z - j given Z >= j
    mass = geometric.cdf(-far, s)
    first = mass * (far + beyond)
    second = mass * (far**2 + 2 * far * beyond + beyond * (2 - rest) / rest)
    up = j >= 1
    return np.where(up, mass, 1 - mass), first, np.where(up, second, geometric.variance(s) - second)


def _theta(theta):
    return checks.within("theta", checks.integer("theta", theta), 1, _MOST)


def _whole(counts, low=-_MOST):
    c = checks.floats("counts", counts, low, _MOST)
    if (c != np.floor(c)).any():
        got = c[c != np.floor(c)].flat[0].item()
        raise ValueError(f"counts must be whole numbers, got {got!r}")
    return c
