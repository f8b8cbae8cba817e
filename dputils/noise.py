"""The one door of randomness: floating noise for experiments, exact noise for releases.

Every function takes `rng`: a `np.random.Generator` (reproducible and pseudo-random: never for a
release), or `SYSTEM` (bits of the operating system, for releases), which the floating-point
samplers refuse: rounding can reveal the data (Mironov 2012). Timing is not protected: how long a
draw takes depends on the draw.

Exact means: given independent fair bits, the law is the stated one; no rounding and no cut tail
decides an outcome. How is proved in `inversion`; all bits come through `bits.words`.

Letters: b or t the scale of Laplace noise (real, on the integers), sigma the standard deviation of
Gaussian noise, y a real draw, z a draw on the integers. Scales of floating-point noise lie between
1e-100 and 1e100, those of exact noise between 2^-50 and 2^50; exact ones are read as fractions, a
float as the decimal that prints it.
"""

import math

import numpy as np

from dputils import bits, checks, inversion
from dputils.bits import SYSTEM

__all__ = [
    "SYSTEM",
    "bernoulli_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential",
    "gaussian",
    "gumbel",
    "integers",
    "laplace",
    "uniform",
]
_CHUNK = 1 << 16  # draws made at a time: a chunk and its table stay in the processor's cache
_LARGEST = 1 << 62  # the most outcomes of `integers`


# ------------------------------------------------------------------------ floating-point samplers


def laplace(scale, size=None, *, rng):
    """Draw floating-point Laplace noise, density exp(-|y|/scale)/(2 scale), for experiments.

    Privacy
        None claimed, it is rounded; releases use `discrete_laplace`.

    Parameters
    ----------
    scale : number or array of numbers between 1e-100 and 1e100
        Public. An array broadcasts to `size`.
    size : None, int or tuple of int
        The shape of the result; None for that of `scale`.
    rng : numpy.random.Generator

    Returns
    -------
    float, or float array of shape `size`

    Raises
    ------
    ValueError
        If an argument is none of these.

    Error
        Unbiased, variance 2 scale^2.

    Source
        A difference of two exponential draws is Laplace.
    """
    return _scaled("scale", scale, size, rng, _two_exponentials)


def gaussian(sigma, size=None, *, rng):
    """Draw floating-point Gaussian noise of standard deviation `sigma` (see `laplace`)."""
    return _scaled("sigma", sigma, size, rng, np.random.Generator.standard_normal)


def exponential(scale, size=None, *, rng):
    """Draw floating-point exponential noise of mean `scale` (see `laplace`)."""
    return _scaled("scale", scale, size, rng, np.random.Generator.standard_exponential)


def gumbel(scale, size=None, *, rng):
    """Draw floating-point Gumbel noise, P(Y <= y) = exp(-exp(-y/scale)) (see `laplace`)."""
    return _scaled("scale", scale, size, rng, _minus_log_exponential)


def uniform(low, high, size=None, *, rng):
    """Draw floating-point numbers uniform on [low, high) (see `laplace`)."""
    checks.bounds(low, high)
    _floating(rng)
    return _fill(lambda n: rng.uniform(float(low), float(high), n), size, float, rng)


def _two_exponentials(rng, n):
    first = rng.standard_exponential(n)
    return first - rng.standard_exponential(n)


def _minus_log_exponential(rng, n):
    """Standard Gumbel draws, faster than by a uniform and two logarithms.

    An exponential draw of 0 counts as the smallest float.
    """
    return -np.log(np.maximum(rng.standard_exponential(n), math.ulp(0.0)))


def _scaled(name, scale, size, rng, draw):
    """Return `scale` (a number or an array) times standard draws `draw(rng, n)`."""
    _floating(rng)
    if np.ndim(scale):
        scales = checks.floats(name, scale, *checks.SIZES)
    else:
        scales = float(checks.within(name, scale, *checks.SIZES))
    shape = np.shape(scales) if size is None else _shape(size)
    if not _broadcasts(np.shape(scales), shape):
        raise ValueError(
            f"{name} must broadcast to size {size!r}, got an array of shape {scales.shape}"
        )
    noise = _fill(lambda n: draw(rng, n), shape, float, rng)
    noise *= scales
    return noise


def _broadcasts(small, shape):
    """Whether an array of shape `small` can multiply one of `shape` in place."""
    pairs = zip(small[::-1], shape[::-1])
    return len(small) <= len(shape) and all(m in (1, n) for m, n in pairs)


def _floating(rng):
    """Refuse what is not a generator, and `SYSTEM` where numbers are rounded."""
    if not isinstance(checks.generator(rng), np.random.Generator):
        raise ValueError(
            "rng must be a np.random.Generator for floating-point noise, got SYSTEM: rounded noise "
            "is for experiments, a release draws exact integers (discrete_laplace, "
            "discrete_gaussian)"
        )


# --------------------------------------------------------------------------------- exact samplers


def integers(high, size=None, *, rng):
    """Draw integers uniform on 0, ..., high - 1 exactly: k fair bits, redrawn until below `high`.

    Parameters
    ----------
    high : int, 1 to 2^62
    size, rng
        As `discrete_laplace`.

    Returns
    -------
    int, or int64 array of shape `size`
    """
    if checks.integer("high", high, 1) > _LARGEST:
        raise ValueError(f"high must be at most 2**62, got {high}")
    k = (int(high) - 1).bit_length()
    return _fill(lambda n: _below(high, bits.words(k, n, rng)), size, np.int64, rng)


def _below(high, words):
    return words[words < high]


def bernoulli_exp(x, size=None, *, rng):
    """Draw True with probability exp(-x) exactly.

    Parameters
    ----------
    x : int, float or Fraction, at least 0
    size, rng
        As `discrete_laplace`.

    Returns
    -------
    bool, or bool array of shape `size`
    """
    exponent = checks.as_fraction("x", x)
    if exponent < 0:
        raise ValueError(f"x must be at least 0, got {x!r}")
    table = inversion.exp_table(exponent)
    return _fill(lambda n: inversion.draw(table, n, rng) == 0, size, bool, rng)


def discrete_laplace(scale, size=None, *, rng):
    """Draw integers z with P(z) proportional to exp(-|z|/scale), exactly.

    Also called two-sided geometric noise.

    Privacy
        Integer statistics of l1 sensitivity Delta plus one draw of scale Delta/epsilon each are
        epsilon-private.

    Parameters
    ----------
    scale : int, float or Fraction between 2^-50 and 2^50
        Public: t, a float read as the decimal that prints it.
    size : None, int or tuple of int
        The shape of the result; None for one int.
    rng : numpy.random.Generator for experiments, SYSTEM for releases

    Returns
    -------
    int, or int64 array of shape `size`

    Raises
    ------
    ValueError
        If an argument is out of range.
    OverflowError
        If |z| reaches 2^61 (probability below exp(-1000)).

    Error
        Unbiased, variance 2a/(1 - a)^2, a = exp(-1/t).

    Source
        Ghosh, Roughgarden, Sundararajan 2009 (law); `inversion` (sampler).
    """
    draw = inversion.laplace(_steps("scale", scale))
    return _fill(lambda n: draw(n, rng), size, np.int64, rng)


def discrete_gaussian(sigma, size=None, *, rng):
    """Draw integers z with P(z) proportional to exp(-z^2/(2 sigma^2)), exactly.

    Privacy
        Integer statistics of l2 sensitivity Delta plus one draw each are Delta^2/(2 sigma^2)-zCDP.

    Parameters, Returns and Raises are those of `discrete_laplace`.

    Error
        Unbiased, variance at most sigma^2, 0.9999998 of it at sigma = 1.

    Source
        Canonne, Kamath, Steinke 2020 (law, privacy); `inversion` (sampler).
    """
    draw = inversion.gaussian(_steps("sigma", sigma))
    return _fill(lambda n: draw(n, rng), size, np.int64, rng)


def _steps(name, scale):
    """Return the exact scale as a Fraction."""
    checks.positive(name, scale)
    return checks.within(name, checks.as_fraction(name, scale), *checks.STEPS)


# ----------------------------------------------------------------------------------------- shapes


def _shape(size):
    """Return `size` (None, an int, a tuple of ints) as a tuple."""
    if size is None:
        return ()
    sides = size if isinstance(size, tuple) else (size,)
    return tuple(checks.integer("size", side, 0) for side in sides)


def _fill(draw, size, dtype, rng):
    """Return an array of shape `size`, or a number, filled by `draw(n)`, at most n values."""
    checks.generator(rng)
    shape = _shape(size)
    out = np.empty(math.prod(shape), dtype)
    start = 0
    while start < out.size:
        values = draw(min(_CHUNK, out.size - start))
        out[start : start + len(values)] = values
        start += len(values)
    return out.reshape(shape) if shape else out.item()
