"""Scales and laws of Gaussian noise: the standard deviation that a sensitivity and (epsilon, delta) ask for, the law,
its errors, and what several releases amount to. The inner half of `gaussian`.
"""
import math
from functools import lru_cache

import numpy as np
from scipy import special

from dputils import checks, curves
from dputils._conversions import _floats


def classical_sigma(sensitivity, epsilon, delta):
    """Return sigma = sqrt(2 ln(1.25/delta)) sensitivity/epsilon, for epsilon below 1 only (Dwork and Roth 2014,
    Theorem A.1). Numbers only. `analytic_sigma` is smaller and holds for every epsilon."""
    _public(sensitivity, checks.epsilon(epsilon), delta)
    if epsilon >= 1:
        raise ValueError(f"epsilon must be below 1, got {epsilon!r}: the classical formula is proved there only; use "
                         "analytic_sigma")
    size, e, d = _floats("sensitivity", sensitivity, "positive"), _floats("epsilon", epsilon, "positive"), float(delta)
    log = math.log(1.25 / d) if d > 1e-300 else math.log(1.25) - math.log(_floats("delta", delta, "share"))
    with np.errstate(over="ignore"):
        return _deviation(math.sqrt(2 * log) * size / e, sensitivity, epsilon, delta)


def analytic_sigma(sensitivity, epsilon, delta):
    """Return the smallest sigma whose Gaussian noise is (epsilon, delta)-private, rounded up by at most 1e-12 of it.

    Parameters
    ----------
    sensitivity, epsilon, delta : float or array
        l2 sensitivity, positive; epsilon at least 0; delta strictly between 0 and 1. They broadcast.

    Returns
    -------
    float or array
        sensitivity/mu, in the unit of the sensitivity.

    Source
        Balle and Wang 2018, Theorem 8 and Algorithm 1; `curves.gaussian_mu`.
    """
    size = _floats("sensitivity", sensitivity, "positive")
    with np.errstate(over="ignore", divide="ignore"):
        sigma = size / curves.gaussian_mu(epsilon, delta)  # mu's margin covers the division
    return _deviation(sigma, sensitivity, epsilon, delta)


_cached = lru_cache(maxsize=64)(analytic_sigma)  # releases repeat the same calibration


def _sigma(sensitivity, epsilon, delta):
    return _cached(*_public(sensitivity, epsilon, delta))


def _public(sensitivity, epsilon, delta):
    """Return the three public numbers of a release; arrays are refused."""
    return checks.positive("sensitivity", sensitivity), checks.not_negative("epsilon", epsilon), checks.probability(
        "delta", delta)


def _deviation(sigma, sensitivity, epsilon, delta):
    """Return standard deviations, subnormal ones rounded up; refuse those beyond all floats."""
    if np.isinf(sigma).any():
        raise ValueError(f"sensitivity, epsilon and delta ask for a sigma beyond all floats, got {sensitivity!r}, "
                         f"{epsilon!r}, {delta!r}")
    sigma = np.where(sigma < 1e-300, np.nextafter(sigma, 1), sigma)
    return sigma if sigma.ndim else sigma.item()


def logpdf(x, sigma):
    """Log density of N(0, sigma^2) at x (any shape)."""
    s = float(checks.positive("sigma", sigma))
    return -(np.asarray(x) / s) ** 2 / 2 - math.log(s * math.sqrt(2 * math.pi))


def cdf(x, sigma):
    """Distribution function of N(0, sigma^2) at x (any shape)."""
    return special.ndtr(np.asarray(x) / float(checks.positive("sigma", sigma)))


def tail(t, sigma):
    """P(|Y| > t) of N(0, sigma^2) for t >= 0, and 1 below (any shape)."""
    return special.erfc(np.maximum(t, 0) / (math.sqrt(2) * float(checks.positive("sigma", sigma))))


def accuracy(sigma, beta, k=1):
    """The alpha for which all of k independent real noises stay within alpha with probability exactly 1 - beta.

    For discrete Gaussian noise of the same sigma alpha + 1 does: P(|Z| >= m) <= P(|Y| >= m - 1) for whole m >= 1
    (Canonne, Kamath, Steinke 2020).
    """
    checks.positive("sigma", sigma), checks.probability("beta", beta), checks.integer("k", k, low=1)
    one = -math.expm1(math.log1p(-beta) / k) if k < 1 << 1000 else 0.0  # the share of one noise
    if one < 1e-300:  # its logarithm then, as it is about -log1p(-beta)/k
        log = math.log(-math.log1p(-float(_floats("beta", beta, "share")))) - math.log(2 * k)
        return -float(sigma) * float(special.ndtri_exp(log))
    return float(sigma) * math.sqrt(2) * float(special.erfcinv(one))


def combined_mu(sensitivities, sigmas):
    """Return the mu of several independent Gaussian releases seen as one: sqrt(sum (sensitivity/sigma)^2), rounded up.

    Each release divided by its sigma has unit noise; all of them together are one vector with unit noise, whose l2
    sensitivity adds in squares (Dong, Roth, Su 2022, Corollary 3.3). Arrays or numbers that broadcast, positive.
    """
    sizes, sigmas = _floats("sensitivities", sensitivities, "positive"), _floats("sigmas", sigmas, "positive")
    with np.errstate(over="ignore"):
        ratios = np.asarray(sizes / sigmas)
    if not ratios.size:
        raise ValueError(f"sensitivities and sigmas must not be empty, got shapes {sizes.shape} and {sigmas.shape}")
    ratios = np.where(ratios < 1e-300, np.nextafter(ratios, 1), ratios)  # subnormal: the margin below would do nothing
    return math.hypot(*ratios.flat) * (1 + 4 * 2.0**-52)
