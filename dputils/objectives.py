"""Fits made private by noise on their output or in their objective: losses, exact minimisers, laws.

Letters: x_i the rows of X, cut to length B (1 in the chapter); y_i the labels; theta the
coefficients; z = x'theta; phi(z, y) a loss that is convex in z, with slope |dphi/dz| <= L and
curvature d^2 phi/dz^2 <= c; Lambda the ridge; v the push, b its scale. The objective is a sum, not
a mean:

    F(theta) = sum_i phi(x_i'theta, y_i) + Lambda |theta|^2/2.

Its gradient grows by at least Lambda times the distance, which is all that the sensitivity of the
minimiser needs (`of_fit`). Objective perturbation minimises F(theta) + v'theta for a random v; its
law needs the curvature as well (`shares`).

A minimiser counts as found where the gradient is at most `STOP` L B long. What this leaves open is
paid for: by the sensitivity in `output_mechanism`, by a second, small noise in
`objective_mechanism`. In real arithmetic every fit ends there. In floating point it does so where
the rounding errors of a gradient are shorter. They are of the order of 1e-16 n B (L + c B |theta|),
where |theta| <= 2 |v|/Lambda + sqrt(2 n phi(0)/Lambda), since the objective is no larger than at
theta = 0.
The ranges below keep this under the stop for the two losses here, v = 0 and up to 10,000 rows; no
fit of such tables that was tried, with or without v, ended above it. The noises and the fits are
floating point and serve experiments.

Ranges: B, L and bounds 1e-6 to 1e6, a cap at least a hundredth of its bound, Lambda from c B^2/1000
to 10^9 c B^2, d up to 1,000, epsilon 1e-6 to 1e3 (in the objective from 1e-3).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy import special

from dputils import checks, gaussian, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import Sensitivity

STOP = 1e-7  # of L B: how long a gradient may be where a fit ends
_FOR_STOP = 0.01  # of epsilon, in objective perturbation: what the end of the fit costs
_STEPS, _TRIALS = 10_000, 60  # of Newton's method, and of one step's length
_LENGTHS = (1e-6, 1e6)
_BOUND = 100  # times the cap: no bound of the labels is larger
_RIDGES = (1e-3, 1e9)  # of c B^2
_EPSILONS = (1e-3, 1e3)  # in the objective: a smaller one has tilts that round too coarsely
_FOR_NOISE = 0.1  # of epsilon, at least, for the same reason
_MOVED = {"add-remove": 1, "replace-one": 2}  # gradients of one row between neighbours


# ------------------------------------------------------------------------------------------ losses


@dataclass(frozen=True)
class Loss:
    """A convex loss phi(z, y) of a prediction z = x'theta.

    Parameters
    ----------
    name : str
    slope : float
        L, a bound on |dphi/dz|.
    curvature : float
        c, a bound on d^2 phi/dz^2.
    first, second : functions of z and y, vectorised
        dphi/dz and d^2 phi/dz^2. The first must be Lipschitz in z (no kink of phi).
    labels : function of a float array
        Reads private labels; what is missing is NaN there.
    """

    name: str
    slope: float
    curvature: float
    first: Callable = field(compare=False, repr=False)
    second: Callable = field(compare=False, repr=False)
    labels: Callable = field(compare=False, repr=False)


def logistic_loss():
    """Return ln(1 + exp(-y z)) for labels y = 1 (above 0) and -1 (all others): L = 1, c = 1/4."""
    return Loss("logistic loss", 1.0, 0.25, _logistic_first, _logistic_second, _signs)


def _logistic_first(z, y):
    return -y * special.expit(-y * z)


def _logistic_second(z, y):
    return special.expit(z) * special.expit(-z)


def _signs(y):
    return np.where(y > 0, 1.0, -1.0)


def capped_squares(cap, bound):
    """Return half the square of the residual z - y up to a cap, and a straight line beyond it.

    Parameters
    ----------
    cap : float
        Public: L, at least a hundredth of the bound. Where |z - y| <= cap the loss is
        (z - y)^2/2. With cap = B R + bound this is so for all rows and all theta
        of length at most R.
    bound : float
        Public: labels are clamped to [-bound, bound]; missing ones count as 0.

    Raises
    ------
    ValueError
        If cap or bound is out of range.

    Source
        Huber 1964.
    """
    cap = float(checks.within("cap", cap, *_LENGTHS))
    bound = float(checks.within("bound", bound, *_LENGTHS))
    if bound > _BOUND * cap:
        raise ValueError(f"cap must be at least a hundredth of bound {bound:.6g}, got {cap:.6g}")
    return Loss(
        f"squared loss, residuals capped at {cap:.6g}",
        cap,
        1.0,
        lambda z, y: np.clip(z - y, -cap, cap),
        lambda z, y: (np.abs(z - y) <= cap).astype(float),
        lambda y: np.clip(np.nan_to_num(y, nan=0.0), -bound, bound),
    )


# -------------------------------------------------------------------------------------------- fits


def read(value, loss, columns, norm):
    """Return private data (X, y) as rows cut to a length, and labels as the loss reads them.

    Parameters
    ----------
    value : pair of X, numbers of shape (n, d), and y, numbers of shape (n,)
        Private. Two empty lists are a table of nobody. A row that holds what is missing or
        infinite counts as zeros; a longer row is shortened to the norm (`gaussian.clip_rows`).
    loss : Loss
    columns : int
        d, public.
    norm : float
        B, public.

    Returns
    -------
    pair of float arrays of shape (n, d), (n,)

    Raises
    ------
    ValueError
        If value is no pair of such shapes, whatever numbers it holds.
    """
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"value must be a pair (X, y), got {type(value).__name__}")
    rows = private.floats(private.answer("X", value[0]))
    labels = private.floats(private.column("y", value[1]))
    if rows.shape == (0,):
        rows = rows.reshape(0, columns)
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"X must have shape (n, {columns}), got {rows.shape}")
    if len(rows) != len(labels):
        raise ValueError(f"y must have one label for each row of X, got {labels.shape}")
    return gaussian.clip_rows(rows, norm), loss.labels(labels)


def gradient(loss, rows, labels, ridge, theta):
    """Return the gradient of F, shape (d,): sum_i phi'(x_i'theta, y_i) x_i + Lambda theta."""
    return loss.first(rows @ theta, labels) @ rows + ridge * theta


def minimise(loss, rows, labels, ridge, push=0.0, *, stop=STOP):
    """Return the theta that minimises F(theta) + push'theta, by Newton's method.

    A step ends where the gradient is half as long as it ever was, or where the objective still
    falls along the step, but at most half as steeply. The first happens finitely often, and the
    second makes every convex F fall enough: in real arithmetic this ends for every table. The code
    gives up after 10,000 steps, so that it ends as well where rounding errors are longer than
    `stop`: for arguments outside of the ranges at the head of this module, or far more rows.

    Parameters
    ----------
    loss : Loss
    rows, labels : float arrays of shape (n, d), (n,)
        As `read` gives them. n may be 0.
    ridge : float
        Lambda, public.
    push : float array of shape (d,), or 0
        The vector v of objective perturbation.
    stop : float
        The fit ends where the gradient is at most this long.

    Returns
    -------
    float array of shape (d,)
        At most stop/Lambda from the minimiser, unless it gave up.
    """
    theta = np.zeros(rows.shape[1])
    slope = gradient(loss, rows, labels, ridge, theta) + push
    flattest = np.linalg.norm(slope)
    for _ in range(_STEPS):
        if flattest <= stop:
            break
        step = _newton(loss, rows, labels, ridge, theta, slope)
        low, high, part, falls = 0.0, np.inf, 1.0, slope @ step
        for _ in range(_TRIALS):
            near = theta - part * step
            there = gradient(loss, rows, labels, ridge, near) + push
            length = np.linalg.norm(there)
            if length <= flattest / 2 or 0 <= there @ step <= falls / 2:
                break
            low, high = (part, high) if there @ step > 0 else (low, part)
            part = min(2 * part, (low + high) / 2)
        theta, slope, flattest = near, there, min(flattest, length)
    return theta


def _newton(loss, rows, labels, ridge, theta, slope):
    """Return the inverse of the second derivatives of F at theta, times a gradient."""
    bend = (rows.T * loss.second(rows @ theta, labels)) @ rows
    bend.flat[:: len(theta) + 1] += ridge
    sizes, axes = np.linalg.eigh(bend)
    return axes @ (slope @ axes / np.maximum(sizes, ridge))  # none is below, but for rounding


# ------------------------------------------------------------------------------------------- noise


def spherical(d, scale, *, rng):
    """Draw a vector of density proportional to exp(-|v|/scale): a uniform direction, gamma length.

    In floating point, for experiments (`noise.laplace`); for d = 1 it is Laplace noise.

    Parameters
    ----------
    d : int, from 1 to 1,000
    scale : float
    rng : numpy.random.Generator

    Returns
    -------
    float array of shape (d,)

    Error
        The length has mean d scale and mean square d (d + 1) scale^2.

    Source
        Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 1. The surface of a sphere of radius r grows
        like r^(d - 1), so the length has a density like r^(d - 1) exp(-r/scale): that of the sum of
        d exponentials.
    """
    length = noise.exponential(scale, _width(d), rng=rng).sum()
    direction = noise.gaussian(1, d, rng=rng)
    return direction * (length / np.linalg.norm(direction))


def _length_cdf(r, d, scale):
    """Return the distribution function of the length of `spherical` noise at r (any shape)."""
    return special.gammainc(_width(d), np.maximum(r, 0) / scale)


def uniforms(noises, scale):
    """Map vectors of spherical noise to independent uniform numbers, for tests of the law.

    The first is the law of the length. The share v_j/|(v_j, ..., v_d)|, moved to [0, 1], has a beta
    law for each j below d - 1, and the last two coordinates have a uniform angle; all of these are
    independent.

    Parameters
    ----------
    noises : array of shape (n, d), d at least 2
    scale : float

    Returns
    -------
    float array of shape (n, d)
    """
    n, d = noises.shape
    rest = np.sqrt(np.cumsum(noises[:, ::-1] ** 2, axis=1))[:, ::-1]  # length of v_j, ..., v_d
    out = np.empty((n, d))
    out[:, 0] = _length_cdf(rest[:, 0], d, scale)
    for j in range(d - 2):
        half = (d - j - 1) / 2
        out[:, j + 1] = special.betainc(half, half, (1 + noises[:, j] / rest[:, j]) / 2)
    out[:, d - 1] = np.arctan2(noises[:, d - 1], noises[:, d - 2]) / (2 * math.pi) % 1
    return out


def _width(d):
    if checks.integer("d", d, low=1) > 1000:
        raise ValueError(f"d must be at most 1000, got {d}")
    return int(d)


# ---------------------------------------------------------------------------- sensitivity, scales


def of_fit(loss, norm, ridge, neighbours, *, unit="row"):
    """Return the l2 sensitivity of the fit that `minimise` finds.

    L B/Lambda under add-remove, twice that under replace-one, and 2 stop/Lambda for two fits that
    end before the minimum.

    Source
        Chaudhuri, Monteleoni, Sarwate 2011, Lemma 7 and Corollary 8 (2/(n Lambda) for means).
    """
    steep = _steepest(loss, norm)
    moved = _MOVED[checks.neighbours(neighbours)] + 2 * STOP
    size = moved * steep / _ridge(loss, norm, ridge) * (1 + 2**-50)
    return Sensitivity(size, "l2", neighbours, unit)


def shares(loss, norm, ridge, epsilon):
    """Return what objective perturbation spends of epsilon on its noise, its volume and its end.

    Parameters
    ----------
    loss, norm, ridge, epsilon
        As in `objective_mechanism`.

    Returns
    -------
    (float, float, float)
        ln(1 + c B^2/Lambda) for the change of volume, epsilon/100 for the end of the fit, and the
        rest, which comes first, for the noise. They add up to epsilon.

    Raises
    ------
    ValueError
        If less than a tenth of epsilon is left for the noise: Lambda is then too small.
    """
    eps = float(checks.within("epsilon", epsilon, *_EPSILONS))
    for_volume = math.log1p(_steepest_bend(loss, norm) / _ridge(loss, norm, ridge))
    for_noise = eps * (1 - _FOR_STOP) - for_volume
    if for_noise < _FOR_NOISE * eps:
        raise ValueError(
            f"ridge must be larger at epsilon {eps:.6g}, got {ridge!r}: the change of volume "
            f"alone costs {for_volume:.6g} (see `ridge_for`)"
        )
    return for_noise, for_volume, eps * _FOR_STOP


def ridge_for(loss, norm, epsilon, share=0.25):
    """Return the Lambda at which the change of volume costs a share of epsilon.

    c B^2/(exp(share epsilon) - 1), or the smallest Lambda in range if that is larger.
    """
    checks.within("epsilon", epsilon, *_EPSILONS)
    part = float(checks.probability("share", share)) * float(epsilon)
    factor = max(1 / math.expm1(min(part, 700.0)), _RIDGES[0])
    return _ridge(loss, norm, factor * _steepest_bend(loss, norm))


def _steepest(loss, norm):
    """L B, the longest gradient of one row."""
    if not isinstance(loss, Loss):
        raise ValueError(f"loss must be a Loss, got {loss!r}")
    return loss.slope * float(checks.within("norm", norm, *_LENGTHS))


def _steepest_bend(loss, norm):
    """c B^2, the largest eigenvalue of the Hessian of one row."""
    return _steepest(loss, norm) / loss.slope * loss.curvature * float(norm)


def _ridge(loss, norm, ridge):
    low, high = (part * _steepest_bend(loss, norm) for part in _RIDGES)
    return float(checks.within("ridge", ridge, low * (1 - 1e-12), high))


# -------------------------------------------------------------------------------------- mechanisms


def output_mechanism(loss, columns, norm, ridge, epsilon, neighbours, *, unit="row"):
    """Return output perturbation, for a `Ledger`: the fit plus spherical noise.

    Privacy
        In real arithmetic epsilon-differentially private for `neighbours` and a `unit` that has one
        row. Public: loss, columns, norm, ridge, epsilon; under add-remove not the number of rows.
        In floating point the last digits are not covered, and the fit keeps to `of_fit` where
        rounding errors of its gradient are below `STOP` L B (see the head of this module).

    Parameters
    ----------
    loss : Loss
    columns : int
        The number d of columns.
    norm : float
        B: longer rows are shortened to it.
    ridge : float
        Lambda, in the units of a sum over rows.
    epsilon : float
    neighbours : {"add-remove", "replace-one"}
    unit : str

    Returns
    -------
    Mechanism
        It reads a pair (X, y) and releases theta, shape (d,). Its law is that of the Euclidean
        length of the release minus the fit, at c epsilon.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        Beside the bias of the ridge, E|noise|^2 = d (d + 1) scale^2, where scale = `of_fit`/epsilon
        does not fall with n.

    Source
        Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 1 and Theorem 6.
    """
    d = _width(columns)
    moved = of_fit(loss, norm, ridge, neighbours, unit=unit)
    eps = checks.within("epsilon", epsilon, *checks.EPSILONS)
    scale = moved.size / float(eps)
    fitted = partial(_fit, loss=loss, norm=norm, ridge=_ridge(loss, norm, ridge))
    return Mechanism(
        name=f"output perturbation, {loss.name}, ridge {ridge:.6g}, scale {scale:.6g}",
        costs=(Pure(epsilon),),
        neighbours=neighbours,
        unit=unit,
        read=partial(read, loss=loss, columns=d, norm=norm),
        draw=lambda data, *, rng: fitted(data) + spherical(d, scale, rng=rng),
        sensitivity=moved,
        law=lambda c: partial(_length_cdf, d=d, scale=scale / c),
    )


def objective_mechanism(loss, columns, norm, ridge, epsilon, neighbours, *, unit="row"):
    """Return objective perturbation, for a `Ledger`: the minimiser of F(theta) + v'theta.

    Here v is random.

    Privacy
        As `output_mechanism`. A second noise, of scale 2 stop/(Lambda epsilon/100), covers a fit
        that ends before the minimum (`STOP`).

    Parameters
    ----------
    loss, columns, norm, ridge, epsilon, neighbours, unit
        As in `output_mechanism`; the ridge must be at least c B^2/(exp(0.89 epsilon) - 1).

    Returns
    -------
    Mechanism
        It reads a pair (X, y) and releases theta, shape (d,). Its sensitivity is that of the
        gradient. Its law is that of the Euclidean length of v at c epsilon: of the gradient of F
        at the release, up to the second noise.

    Raises
    ------
    ValueError
        If a public argument is out of range, or the ridge is too small (`shares`).

    Error
        The minimiser moves by about H^-1 v, H the Hessian of F at the fit, and E|v|^2 = d (d + 1)
        scale^2.

    Source
        Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 2; Kifer, Smith, Thakurta 2012, Algorithm 1.
        That one row has a Hessian of rank one is used under both relations: a replacement costs
        ln(1 + c B^2/Lambda) once. The second noise: Iyengar et al. 2019, for Gaussian noise.
    """
    d = _width(columns)
    relation = checks.neighbours(neighbours)
    moved = Sensitivity(_MOVED[relation] * _steepest(loss, norm), "l2", relation, unit)
    for_noise, for_volume, for_stop = shares(loss, norm, ridge, epsilon)
    scale = moved.size / for_noise
    end = 2 * STOP * _steepest(loss, norm) / float(ridge) / for_stop
    fitted = partial(_fit, loss=loss, norm=norm, ridge=_ridge(loss, norm, ridge))

    def draw(data, *, rng):
        push = spherical(d, scale, rng=rng)
        return fitted(data, push=push) + spherical(d, end, rng=rng)

    def law(c):
        left = c * float(epsilon) * (1 - _FOR_STOP) - for_volume
        if left <= 0:
            raise ValueError(f"c must be larger, got {c!r}: nothing is left for the noise")
        return partial(_length_cdf, d=d, scale=moved.size / left)

    return Mechanism(
        name=f"objective perturbation, {loss.name}, ridge {ridge:.6g}, scale {scale:.6g}",
        costs=(Pure(epsilon),),
        neighbours=relation,
        unit=unit,
        read=partial(read, loss=loss, columns=d, norm=norm),
        draw=draw,
        sensitivity=moved,
        law=law,
    )


def _fit(data, loss, norm, ridge, push=0.0):
    return minimise(loss, *data, ridge, push, stop=STOP * _steepest(loss, norm))
