"""What to show for a noisy count: the posterior mean, and curves that come near to it.

Letters: x a count, Z two-sided geometric noise of scale s on it, y = x + Z; pi the prior, the
weights of the counts 0, 1, 2, ...; m(y) = E[x | y] the posterior mean. A curve goes in straight
lines from knot to knot, is constant below the first knot and rises with slope 1 above the last:
phi(y) = sum of w_k psi_k(y) + b(y), where b is the excess over the last knot and the hats psi_k add
up to 1.

All functions are post-processing if what they are given is public or published: the prior, the
scale, the knots, made-up or public examples, and noisy counts. A curve learned from *exact* counts
of a private table has no finite epsilon.

Ranges: scales from 0.01 to 1000, counts and noisy counts up to 2^50, priors up to the count 10^5, 2
to 201 knots up to 10^5 from 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.signal import fftconvolve

from dputils import checks, geometric

_SCALES = (1e-2, 1e3)
_MOST = 1 << 50
_LARGEST = 10**5
_RIDGE = 1e-6  # of one bin, for knots that nothing reaches
_CELLS = 1 << 22  # entries of a table that is held at once


def power_prior(full, largest=250):
    """Return the prior with a share of full bins, whose counts c have weights c^(-3/2).

    Privacy
        Reads public arguments alone.

    Parameters
    ----------
    full : float, 0 to 1
        The probability that a bin is not empty.
    largest : int, 1 to 10^5

    Returns
    -------
    float array of `largest` + 1 probabilities, of the counts 0, 1, ..., `largest`
    """
    full = float(checks.within("full", full, 0, 1))
    checks.within("largest", checks.integer("largest", largest, low=1), 1, _LARGEST)
    weights = np.arange(1, largest + 1) ** -1.5
    return np.append(1 - full, full * weights / weights.sum())


def posterior_mean(noisy, prior, scale):
    """Return m(y) = E[x | y], the number with the least mean squared error for a noisy count.

    Beyond the counts of the prior m is constant: there all weights shrink by the same factor.

    Privacy
        Post-processing, if the prior is public.

    Parameters
    ----------
    noisy : array of whole numbers of any shape, up to 2^50 from 0
    prior : array of weights of the counts 0, 1, ...
        Not negative and not all 0; they need not add up to 1.
    scale : number
        s, of the geometric noise.

    Returns
    -------
    float array of the shape of `noisy`
    """
    pi, s = _prior(prior), _scale(scale)
    x = np.arange(len(pi))
    inside = np.clip(_whole("noisy", noisy), 0, len(pi) - 1)
    places, at = np.unique(inside, return_inverse=True)
    with np.errstate(divide="ignore"):
        logs = np.log(pi)
    means = np.empty(len(places))
    step = max(1, _CELLS // len(pi))
    for start in range(0, len(places), step):
        part = slice(start, start + step)
        weights = logs - np.abs(places[part, None] - x) / s
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        means[part] = weights @ x / weights.sum(axis=1)
    return means[at].reshape(inside.shape)


def risk(shown, prior, scale):
    """Return the sum over x of pi(x) E(shown(x + Z) - x)^2.

    Noise is summed up to 40 scales from 0; what is left out has the probability e^(-40).

    Parameters
    ----------
    shown : function of an array of noisy counts
        Returns the numbers to show, an array of the same shape.
    prior, scale
        As for `posterior_mean`. With weights that do not add up to 1, the sum is not divided.

    Returns
    -------
    float
    """
    pi, s = _prior(prior), _scale(scale)
    if not isinstance(shown, Callable):
        raise ValueError(f"shown must be a function of noisy counts, got {shown!r}")
    noise, chance = _noise(s)
    values = np.asarray(shown(np.arange(noise[0], len(pi) + noise[-1])), dtype=float)
    total = 0.0
    for x in np.flatnonzero(pi):
        total += pi[x] * (chance @ (values[x : x + len(noise)] - x) ** 2)
    return float(total)


def even_knots(scale, first=-2, last=14):
    """Return the knots k max(s, 1) for the whole numbers k from `first` to `last`.

    Noisy counts are whole: knots that lie closer than 1 would leave values open between them.

    Parameters
    ----------
    scale : number
    first, last : int
        `first` < `last`, both within 100 of 0.

    Returns
    -------
    float array
    """
    for name, k in (("first", first), ("last", last)):
        checks.within(name, checks.integer(name, k), -100, 100)
    if not first < last:
        raise ValueError(f"first must be below last, got first={first}, last={last}")
    return max(_scale(scale), 1) * np.arange(first, last + 1)


def hats(noisy, knots):
    """Return the hats psi_k at the given places: they are 1 at their own knot, 0 at all others,
    straight in between. Below the first knot the first hat stays 1, above the last the last.

    Parameters
    ----------
    noisy : array of finite numbers of any shape
    knots : increasing numbers
        At least two.

    Returns
    -------
    float array of the shape of `noisy` and one more axis, for the knots
    """
    places = _knots(knots)
    z = np.clip(_finite("noisy", noisy), places[0], places[-1])
    k = np.clip(np.searchsorted(places, z, side="right") - 1, 0, len(places) - 2)
    right = (z - places[k]) / (places[k + 1] - places[k])
    numbers = np.arange(len(places))
    own, following = numbers == k[..., None], numbers == k[..., None] + 1
    return own * (1 - right[..., None]) + following * right[..., None]


@dataclass(frozen=True)
class Curve:
    """A shrinkage function of straight lines; call it with noisy counts.

    Parameters
    ----------
    knots : increasing numbers
        At least two.
    values : numbers, as many
        What is shown at the knots. Values may fall, or be negative: nothing is rounded.
    """

    knots: tuple
    values: tuple

    def __post_init__(self):
        places = _knots(self.knots)
        heights = _finite("values", self.values)
        if heights.shape != places.shape:
            raise ValueError(
                f"values must be as many as the knots, {len(places)}, got shape {heights.shape}"
            )
        object.__setattr__(self, "knots", tuple(places.tolist()))
        object.__setattr__(self, "values", tuple(heights.tolist()))

    def __call__(self, noisy):
        """Return what is shown for noisy counts, a float array of their shape."""
        z = _finite("noisy", noisy)
        return np.interp(z, self.knots, self.values) + beyond(z, self.knots)


def beyond(noisy, knots):
    """Return by how much noisy counts exceed the last knot, 0 where they do not."""
    return np.maximum(_finite("noisy", noisy) - _knots(knots)[-1], 0)


def learn(counts, noisy, knots):
    """Return the curve with the least squared error on examples.

    Where examples leave values open, those nearest to max(knot, 0) are taken.

    Privacy
        Free for public or made-up examples. With exact counts of a private table there is no
        finite epsilon.

    Parameters
    ----------
    counts, noisy : arrays of finite numbers of one shape
        The examples: true counts, and the same with noise.
    knots : increasing numbers

    Returns
    -------
    Curve
    """
    places = _knots(knots)
    x, y = _finite("counts", counts).ravel(), _finite("noisy", noisy).ravel()
    if x.size != y.size:
        raise ValueError(f"noisy must be as many as counts, {x.size}, got {y.size}")
    return _nearest(hats(y, places), x - beyond(y, places), places)


def best_curve(prior, scale, knots):
    """Return the curve with the least risk under a prior, the limit of infinitely many examples.

    Parameters
    ----------
    prior, scale
        As for `posterior_mean`.
    knots : increasing numbers

    Returns
    -------
    Curve
    """
    pi, s, places = _prior(prior), _scale(scale), _knots(knots)
    y, weight = _noisy_law(pi, s)
    target = posterior_mean(y, pi, s) - beyond(y, places)
    root = np.sqrt(weight)
    return _nearest(root[:, None] * hats(y, places), root * target, places)


def right_side(noisy, scale, knots):
    """Return unbiased estimates of what the normal equations need of the exact counts.

    Of each noisy count y = x + Z and each knot: h_k(y) with E h_k(y) = E (x - b(y)) psi_k(y), b(y)
    the excess over the last knot. With f(j) = j E psi_k(j + Z) and the variance v of the noise it
    is f(y) - v/2 (f(y + 1) - 2 f(y) + f(y - 1)) - b(y) psi_k(y). From 40 scales above the last
    knot on it is constant; noisy counts 40 scales below the least of 0 and the first knot are
    raised to there (an event of a probability below e^(-40)).

    Privacy
        Post-processing of noisy counts.

    Parameters
    ----------
    noisy : array of whole numbers of any shape, up to 2^50 from 0
    scale : number
    knots : increasing numbers

    Returns
    -------
    float array of the shape of `noisy` and one more axis, for the knots
    """
    low, table = _right_sides(_scale(scale), tuple(_knots(knots).tolist()))
    return table[np.clip(_whole("noisy", noisy), low, low + len(table) - 1) - low]


@lru_cache(maxsize=16)
def _right_sides(s, knots):
    """Return the first noisy count of a table of `right_side`, and the table."""
    places = np.array(knots)
    z, chance = _noise(s)
    low = math.floor(min(0, places[0])) + int(z[0]) - 2
    high = math.ceil(max(0, places[-1])) + int(z[-1]) + 2
    j = np.arange(low - 1, high + 2)
    wide = np.arange(j[0] + z[0], j[-1] + z[-1] + 1)
    smooth = fftconvolve(hats(wide, places), chance[:, None], "valid", axes=0)
    f = j[:, None] * smooth
    bend = f[2:] - 2 * f[1:-1] + f[:-2]
    y = j[1:-1]
    table = f[1:-1] - geometric.variance(s) / 2 * bend
    table -= beyond(y, places)[:, None] * hats(y, places)
    return low, table


def learn_from_release(noisy, scale, knots, prior, bins=200):
    """Return a curve learned from noisy counts alone, and from some bins of a public prior.

    The normal equations of least squares are added up, with `right_side` for the noisy counts and
    `bins` times the exact ones of the prior.

    Privacy
        Post-processing of noisy counts: nothing is paid.

    Parameters
    ----------
    noisy : array of whole numbers of any shape, up to 2^50 from 0
        A release, with noise of the scale.
    scale : number
    knots : increasing numbers
    prior : array of weights of the counts 0, 1, ...
    bins : number, 0 to 10^9
        How many bins of the prior are added: what the prior weighs against the release.

    Returns
    -------
    Curve

    Error
        A prior that is wrong is mended where the release has many more bins than `bins`.
    """
    s, places = _scale(scale), _knots(knots)
    bins = float(checks.within("bins", bins, 0, 1e9))
    y = _whole("noisy", noisy).ravel()
    B = hats(y, places)
    left, right = _of_prior(tuple(_prior(prior).tolist()), s, tuple(places.tolist()))
    left = B.T @ B + bins * left
    right = right_side(y, s, places).sum(axis=0) + bins * right
    start = np.maximum(places, 0)
    change = np.linalg.solve(left + _RIDGE * np.eye(len(places)), right - left @ start)
    return Curve(places, start + change)


@lru_cache(maxsize=16)
def _of_prior(prior, s, knots):
    """Return both sides of the normal equations of one bin of a prior."""
    places, pi = np.array(knots), np.array(prior)
    y, weight = _noisy_law(pi / pi.sum(), s)
    B = hats(y, places)
    target = posterior_mean(y, pi, s) - beyond(y, places)
    return B.T @ (weight[:, None] * B), B.T @ (weight * target)


def _nearest(B, target, places):
    """Return the curve of least squares whose values are nearest to max(knot, 0)."""
    start = np.maximum(places, 0)
    change = np.linalg.lstsq(B, target - B @ start, rcond=None)[0]
    return Curve(places, start + change)


def _noise(s):
    """Return the noises up to 40 scales and their probabilities."""
    z = np.arange(-math.ceil(40 * s) - 1, math.ceil(40 * s) + 2)
    return z, np.exp(geometric.logpmf(z, s))


def _noisy_law(pi, s):
    """Return the noisy counts up to 40 scales from the prior's, and their weights."""
    z, chance = _noise(s)
    y = np.arange(z[0], len(pi) + z[-1])
    return y, np.maximum(fftconvolve(pi, chance), 0)


def _scale(scale):
    return float(checks.within("scale", scale, *_SCALES))


def _prior(prior):
    pi = checks.floats("prior", prior, 0, 1e100)
    if pi.ndim != 1 or not 0 < pi.size <= _LARGEST + 1 or not pi.any():
        raise ValueError(
            f"prior must be a list of 1 to {_LARGEST + 1} weights, not all 0, got shape {pi.shape}"
        )
    return pi


def _knots(knots):
    places = checks.floats("knots", knots, -1e5, 1e5)
    if places.ndim != 1 or not 2 <= len(places) <= 201 or not np.all(np.diff(places) > 0):
        raise ValueError(f"knots must be 2 to 201 increasing numbers, got {knots!r}")
    return places


def _finite(name, values):
    return checks.floats(name, values, -1e100, 1e100)


def _whole(name, values):
    numbers = checks.floats(name, values, -_MOST, _MOST)
    if not np.all(numbers == np.floor(numbers)):
        raise ValueError(f"{name} must be whole numbers")
    return numbers.astype(np.int64)
