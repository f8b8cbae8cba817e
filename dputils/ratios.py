"""A ratio of two noisy numbers: the release of a sum and a count, the exact law of their quotient,
the best split of a budget.

Letters: f_1 and f_2 the exact numerator and denominator, Y_1 and Y_2 independent Laplace noises of
scales b_1 and b_2, R = (f_1 + Y_1)/(f_2 + Y_2) the quotient, r = f_1/f_2 the exact one.

R has no mean, whatever the numbers: the noisy denominator comes near 0 too often. It has a law,
and an answer clamped to public bounds has a mean squared error; both are exact here.

Ranges: f_1, f_2 and bounds up to 1e12 in size, scales 1e-6 to 1e12.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.laplace import scale
from dputils.sensitivity import of_count, of_sum

_LARGEST = 1e12
_SCALES = (1e-6, _LARGEST)
_WEIGHTS = (1e-6, 1e6)


def mechanism(lower, upper, epsilon_sum, epsilon_count, neighbours, *, unit="row"):
    """Return the release of a noisy sum and a noisy count, for a `Ledger`: perturb, then compose.

    Privacy
        (epsilon_sum + epsilon_count)-differentially private under add-remove, in real arithmetic;
        whatever is computed from the two published numbers, their quotient too, costs nothing more.
        In floating point the last digits can tell tables apart: for experiments. Public: the
        bounds, the two epsilons.

    Parameters
    ----------
    lower, upper : float
        Public bounds, to which each record is clamped; what is missing counts as their middle.
    epsilon_sum, epsilon_count : float or Fraction
    neighbours : "add-remove"
        Under replace-one the count is public: release the sum alone.
    unit : str
        Each record is one unit.

    Returns
    -------
    Mechanism
        Of a column of records; it draws an array (noisy sum, noisy count). The scales are
        max(|lower|, |upper|)/epsilon_sum and 1/epsilon_count.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Both numbers are unbiased; of their quotient see `cdf` and `squared_error`.

    Source
        Dwork and Roth 2014, Theorems 3.6 and 3.14, Proposition 2.1.
    """
    if checks.neighbours(neighbours) != "add-remove":
        raise ValueError(
            "neighbours must be 'add-remove', got 'replace-one', under which the count is public"
        )
    low, high = map(float, checks.bounds(lower, upper, _LARGEST))
    moved = of_sum(low, high, neighbours, unit=unit), of_count(neighbours, unit=unit)
    scales = scale(moved[0], epsilon_sum), scale(moved[1], epsilon_count)
    total = checks.as_fraction("epsilon_sum", epsilon_sum) + checks.as_fraction(
        "epsilon_count", epsilon_count
    )
    return Mechanism(
        name=f"Laplace noise of scale {scales[0]:.6g} on a sum of sensitivity {moved[0].size:.6g}, "
        f"of scale {scales[1]:.6g} on a count of sensitivity 1",
        costs=(Pure(total),),
        neighbours=neighbours,
        unit=unit,
        read=partial(_sum_and_count, lower=low, upper=high),
        draw=partial(_draw, scales=np.array(scales)),
    )


def _sum_and_count(values, lower, upper):
    records = private.floats(private.column("values", values))
    records = np.where(np.isnan(records), (lower + upper) / 2, records)
    return np.array([math.fsum(np.clip(records, lower, upper)), float(len(records))])


def _draw(value, scales, *, rng):
    return value + noise.laplace(scales, rng=rng)


def difference_cdf(v, r, b1, b2):
    """Return P(Y_1 - r Y_2 <= v) for independent Laplace noises of scales b_1 and b_2.

    This is the law of f_1' - r f_2' around its exact value, so the one a release is tested with.

    Parameters
    ----------
    v, r : finite numbers or arrays, broadcast against each other
    b1, b2 : float

    Returns
    -------
    array
        With m and n the larger and the smaller of b_1 and |r| b_2, the tail beyond t >= 0 is
        (m^2 e^(-t/m) - n^2 e^(-t/n))/(2 (m^2 - n^2)), written without cancellation.
    """
    b1, b2 = _scale("b1", b1), _scale("b2", b2)
    v, s = np.asarray(v, dtype=float), np.abs(np.asarray(r, dtype=float)) * b2
    t, m, n = np.abs(v), np.maximum(b1, s), np.maximum(np.minimum(b1, s), 1e-200)
    tail = 0.5 * np.exp(-t / m) * (1 + (n / m) * t / (m + n) * _falling(t / n - t / m))
    return np.where(v < 0, tail, 1 - tail)


def cdf(r, f1, f2, b1, b2):
    """Return P((f_1 + Y_1)/(f_2 + Y_2) <= r), exactly.

    Parameters
    ----------
    r : finite number or array
    f1 : float
    f2 : float
        At least 0.
    b1, b2 : float
        Scales of the two Laplace noises.

    Returns
    -------
    array of the shape of `r`
        F_V(r f_2 - f_1) + e^(-f_2/b_2)/2 (1 - 2 P(Y_1 + r E <= -f_1)), with V = Y_1 - r Y_2 and E
        exponential of mean b_2: below zero the noisy denominator has no memory.

    Raises
    ------
    ValueError
        If a number is out of range.

    Source
        Derived in the chapter on ratios.
    """
    f1, f2 = _exact("f1", f1), _exact("f2", f2, low=0.0)
    b1, b2 = _scale("b1", b1), _scale("b2", b2)
    r = np.asarray(r, dtype=float)
    if f1 < 0:  # the quotient of -f_1 is -R in law, and R has no atoms
        return 1 - cdf(-r, -f1, f2, b1, b2)
    above = difference_cdf(r * f2 - f1, r, b1, b2)
    return np.clip(above + math.exp(-f2 / b2) * (0.5 - _below(r, f1, b1, b2)), 0, 1)


def _below(r, f1, b1, b2):
    """P(Y_1 + r E <= -f_1) for f_1 >= 0 and E exponential of mean b_2."""
    s = np.abs(r) * b2
    far = 0.5 * b1 / (b1 + s)
    s = np.maximum(s, 1e-200)
    larger, smaller = np.maximum(s, b1), np.minimum(s, b1)
    u = f1 / smaller - f1 / larger
    between = 0.5 * (f1 / s) * np.exp(-f1 / larger) * _falling(u)
    return np.where(r < 0, between + np.exp(-f1 / s) * (1 - far), math.exp(-f1 / b1) * far)


def _falling(u):
    """(1 - e^-u)/u, 1 at 0."""
    from scipy.special import exprel

    return exprel(-u)


def squared_error(f1, f2, b1, b2, lower, upper):
    """Return the mean squared error of the quotient, clamped to [lower, upper], around f_1/f_2.

    Parameters
    ----------
    f1, f2 : float
        f_2 above 0, and f_1/f_2 within the bounds.
    b1, b2 : float
    lower, upper : float
        Public bounds.

    Returns
    -------
    float
        The integral of 2 |x - r| P(R lies beyond x, seen from r), by Gauss-Legendre quadrature on
        pieces that shorten towards r.
    """
    low, high = map(float, checks.bounds(lower, upper, _LARGEST))
    checks.positive("f2", f2)
    truth = _exact("f1", f1) / float(f2)
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    if not low - slack <= truth <= high + slack:
        raise ValueError(f"f1/f2 must lie between lower and upper, got {truth!r}")
    law = partial(cdf, f1=f1, f2=f2, b1=b1, b2=b2)
    above = _weighted(lambda t: 1 - law(truth + t), max(0.0, high - truth))
    return above + _weighted(lambda t: law(truth - t), max(0.0, truth - low))


def _weighted(tail, reach):
    """The integral of 2 t tail(t) from 0 to reach."""
    edges = reach * np.concatenate([[0], 2.0 ** np.arange(-40, 1)])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    t = edges[:-1, None] + half * (1 + nodes)
    return float(np.sum(half * weights * 2 * t * tail(t)))


def split(epsilon, weights):
    """Return the split of a budget over noisy numbers that makes a smooth function of them best.

    Parameters
    ----------
    epsilon : float or Fraction
    weights : sequence of float
        |c_i| Delta_i: how far one unit can move the function through the i-th number, c_i being its
        slope. Public: a guess, never the slope at the private numbers. Between 1e-6 and 1e6.

    Returns
    -------
    list of Fraction
        Shares that sum to epsilon exactly and minimise sum (weights_i/epsilon_i)^2: proportional to
        weights_i^(2/3), rounded to floats but for the largest, which takes the rest.

    Error
        The variance to first order is 2 (sum weights_i^(2/3))^3/epsilon^2.

    Source
        Lagrange; derived in the chapter on ratios.
    """
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    budget = checks.as_fraction("epsilon", epsilon)
    if not isinstance(weights, (list, tuple, np.ndarray)) or not 1 <= np.size(weights) <= 1000:
        raise ValueError(f"weights must be a sequence of 1 to 1000 numbers, got {weights!r}")
    powers = [
        float(checks.within(f"weights[{i}]", weight, *_WEIGHTS)) ** (2 / 3)
        for i, weight in enumerate(weights)
    ]
    shares = [budget * Fraction(power / math.fsum(powers)) for power in powers]
    largest = int(np.argmax(powers))
    shares[largest] += budget - sum(shares)
    return shares


def _exact(name, value, low=-_LARGEST):
    return float(checks.within(name, value, low, _LARGEST))


def _scale(name, value):
    return float(checks.within(name, value, *_SCALES))
