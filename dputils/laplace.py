"""The Laplace mechanism: scale, release, law and errors.

Letters: f the query, Delta its l1 sensitivity, b = Delta/epsilon the scale, y the noise; alpha an
accuracy that is missed with probability beta.

Ranges: sensitivities and scales 1e-100 to 1e100, epsilon 1e-6 to 1e3, beta 1e-250 to 1 - 2^-53.
With these no sum of a value and its noise leaves the floats.
"""

import math
from functools import partial

import numpy as np

from dputils import checks, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import named, reader, size_of

_NORMS = ("absolute", "l1")


def scale(sensitivity, epsilon):
    """Return the scale b = sensitivity/epsilon of the Laplace mechanism.

    Parameters
    ----------
    sensitivity : Sensitivity in the norm "absolute" or "l1", or its size
    epsilon : float

    Returns
    -------
    float
        In the unit of the sensitivity.
    """
    size = checks.within("sensitivity", size_of(sensitivity, *_NORMS), *checks.SIZES)
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    return checks.within("sensitivity/epsilon", float(size) / float(epsilon), *checks.SIZES)


def release(value, sensitivity, epsilon, *, rng):
    """Add Laplace noise of scale sensitivity/epsilon to a number or to each coordinate of a vector.

    In floating point.

    Privacy
        In real arithmetic epsilon-differentially private for the neighbour relation in which
        `sensitivity` bounds the l1 distance of the values of neighbouring tables. In floating point
        it is not: the low bits of the output can tell the tables apart (Mironov 2012). For
        experiments only; release integers with `geometric.release` and sums with
        `geometric.sum_release`. Public: the type and shape of the value, sensitivity, epsilon.

    Parameters
    ----------
    value : number or array of numbers of any shape
        Private: the exact answer, read by `private.reals`.
    sensitivity : Sensitivity in the norm "absolute" or "l1", or its size
        In the unit of the value.
    epsilon : float
    rng : numpy.random.Generator

    Returns
    -------
    float or array
        Of the shape of `value`.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Per coordinate: unbiased, variance 2 b^2, P(|error| > t) = exp(-t/b).

    Source
        Dwork, McSherry, Nissim, Smith 2006; Dwork and Roth 2014, Theorem 3.6.
    """
    b = scale(sensitivity, epsilon)
    return _draw(private.reals(value), b, rng=rng)


def mechanism(sensitivity, epsilon):
    """Return the Laplace mechanism for answers of a sensitivity, for a `Ledger`.

    Privacy
        As `release`, for the relation and the unit of the sensitivity; its cost is `Pure(epsilon)`.

    Parameters
    ----------
    sensitivity : Sensitivity
        In the norm "absolute" for one number, in "l1" for arrays of any shape.
    epsilon : float

    Returns
    -------
    Mechanism
        Its law is that of the release minus the value, coordinate by coordinate.
    """
    b = scale(named(sensitivity, *_NORMS), epsilon)
    return Mechanism(
        name=f"Laplace mechanism, scale {b:.6g}",
        costs=(Pure(epsilon),),
        neighbours=sensitivity.neighbours,
        unit=sensitivity.unit,
        read=reader(private.reals, sensitivity),
        draw=partial(_draw, b=b),
        sensitivity=sensitivity,
        law=lambda c: partial(cdf, scale=b / c),
    )


def _draw(value, b, *, rng):
    return value + noise.laplace(b, value.shape or None, rng=rng)


def logpdf(x, scale, centre=0):
    """Log density -|x - centre|/b - ln(2 b) of the Laplace law around a centre (any shape)."""
    b = _number(scale)
    return -np.abs(centred(x, centre)) / b - math.log(2 * b)


def cdf(x, scale, centre=0):
    """Distribution function of the Laplace law around a centre at x (any shape)."""
    b, y = _number(scale), centred(x, centre)
    tail = 0.5 * np.exp(-np.abs(y) / b)
    return np.where(y < 0, tail, 1 - tail)


def tail(t, scale):
    """P(|Y| > t) = exp(-t/b) for t >= 0, and 1 below (any shape)."""
    return np.exp(-np.maximum(t, 0) / _number(scale))


def variance(scale):
    """Variance 2 b^2 of Laplace noise of scale b."""
    b = _number(scale)
    return 2 * b * b


def accuracy(scale, beta, k=1):
    """Return the alpha within which all of k noises stay with probability exactly 1 - beta.

    Returns
    -------
    float
        -b ln(1 - (1 - beta)^(1/k)), which for k = 1 is b ln(1/beta) and never above the union bound
        b ln(k/beta).

    Source
        Dwork and Roth 2014, Theorem 3.8 (with the union bound).
    """
    return -_number(scale) * math.log(beta_of_one(beta, k))


def beta_of_one(beta, k):
    """Return the beta of each of k noises that all stay inside with probability 1 - beta.

    Parameters
    ----------
    beta : float
        Between 1e-250 and 1 - 2^-53.
    k : int
        Between 1 and 2^50.

    Returns
    -------
    float
        1 - (1 - beta)^(1/k), without cancellation.
    """
    checks.within("beta", checks.probability("beta", beta), *checks.BETAS)
    checks.within("k", checks.integer("k", k, low=1), 1, 1 << 50)
    return -math.expm1(math.log1p(-float(beta)) / k)


def centred(x, centre):
    """Return x - centre as floats: numpy's small integers would wrap around."""
    y = np.asarray(x, dtype=float)
    return y - centre if np.any(centre) else y


def _number(scale):
    return float(checks.within("scale", scale, *checks.SIZES))
