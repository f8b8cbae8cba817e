"""The one door of randomness: floating-point noise for experiments, exact integer noise for releases.

Every function takes `rng`: a `np.random.Generator` (reproducible and pseudo-random: never for a release), or `SYSTEM`
(bits of the operating system, for releases), which the floating-point samplers refuse: rounding can reveal the data
(Mironov 2012). Timing is not protected: how long a draw takes depends on the draw.

Exact means: given independent fair bits, the law is the stated one; no rounding and no cut tail decides an outcome. All
bits of the integer samplers come from `_bits`, read as little-endian: a seed gives the same draws on every platform.

1. Lazy inversion. Let T_0 <= T_1 <= ... be the cumulative probabilities of a law on 0, 1, ..., and U = 0.u1u2u3... for
   fair bits u_i. J = #{j : T_j <= U} has that law: P(J = j) = T_j - T_(j-1). The first b bits of U are an integer u
   with u <= 2^b U < u + 1; integers low_j <= 2^b T_j <= high_j are computed. If high_j <= u then T_j <= U; if
   low_j > u then low_j >= u + 1, so T_j > U. Hence #{high_j <= u} <= J <= #{low_j <= u}. Equal counts are J, whatever
   bits follow. Unequal counts answer nothing: more bits of the same U and closer enclosures are taken until they agree,
   with probability one, as high_j - low_j stays bounded while b grows. `_Table.cells` is what the first 15 bits decide.
2. Enclosures. The weights g(m) = exp(-E(m)), E(m) = alpha m + beta m(m - 1)/2, are the discrete Laplace law for
   alpha = 1/t, beta = 0, and the discrete Gaussian for alpha = 1/(2 sigma^2), beta = 1/sigma^2. With r_0 = exp(-alpha),
   g(m + 1) = g(m) r_m and r_(m+1) = r_m exp(-beta) are computed in fixed point, once rounded down and once up. As r_m
   never increases, the weights from m on sum to at most g(m)/(1 - r_(m-1)): added to the upper normaliser. A U above
   the last enclosed threshold is undecided (step 1), never folded into a neighbour: more bits bring more thresholds.
3. Signs. One more fair bit s. For scales below 256, |z| has weights g(0), 2 g(1), 2 g(2), ..., and s picks |z| or -|z|.
4. Large scales. With M = 2^k propose a block h of weight g(hM), a fair s, a uniform d in [0, M); z = hM + d (s = 0) or
   -1 - hM - d (s = 1), so |z| = hM + d' with d' = d + s. Accept with probability g(|z|)/g(hM) = exp(-x) <= 1, where
   x = E(hM + d') - E(hM) = d' (alpha + beta (2hM + d' - 1)/2): a uniform V >= 1 - exp(-x), compared lazily (`_accept`).
   Each z has one proposal, of weight proportional to g(hM), so it is accepted with weight proportional to g(|z|).
"""
import decimal
import math
import os
from bisect import bisect_right
from collections import namedtuple
from fractions import Fraction
from functools import lru_cache, partial
from types import SimpleNamespace

import numpy as np

from dputils import checks

SYSTEM = SimpleNamespace(is_operating_system=True, bytes=os.urandom)
_CHUNK = 1 << 16         # draws made at a time: a chunk and its table stay in the processor's cache
_DEEP = 47               # bits of U that a table decides with arrays: 15 for the cell, 32 more if that is undecided
_UNDECIDED = -(1 << 31)  # a cell that meets the enclosure of a threshold
# A law for step 1. law(b): sorted lists low, high; fold(J, sign bit): the outcome; low, high: law(_DEEP) as arrays;
# cells: the outcome of each word of 16 bits (a sign bit, 15 bits of U), or _UNDECIDED.
_Table = namedtuple("_Table", "law fold low high cells")


def laplace(scale, size=None, *, rng):
    """Draw floating-point Laplace noise, density exp(-|y|/scale)/(2 scale), for experiments.

    Privacy: none claimed, it is rounded; releases use `discrete_laplace`. `scale` is a positive number, or an array of
    them that broadcasts to `size`. Error: variance 2 scale^2. Source: a difference of two exponentials is Laplace.
    """
    return _scaled("scale", scale, size, rng, lambda rng, n: rng.standard_exponential(n) - rng.standard_exponential(n))


def gaussian(sigma, size=None, *, rng):
    """Draw floating-point Gaussian noise of standard deviation `sigma`, for experiments (see `laplace`)."""
    return _scaled("sigma", sigma, size, rng, np.random.Generator.standard_normal)


def exponential(scale, size=None, *, rng):
    """Draw floating-point exponential noise of mean `scale`, for experiments (see `laplace`)."""
    return _scaled("scale", scale, size, rng, np.random.Generator.standard_exponential)


def gumbel(scale, size=None, *, rng):
    """Draw floating-point Gumbel noise, P(Y <= y) = exp(-exp(-y/scale)), for experiments (see `laplace`)."""
    # minus the logarithm of an exponential draw, at least the smallest float: faster than a uniform and two logarithms
    return _scaled("scale", scale, size, rng, lambda rng, n: -np.log(np.maximum(rng.standard_exponential(n), 5e-324)))


def uniform(low, high, size=None, *, rng):
    """Draw floating-point numbers uniform on [low, high), for experiments (see `laplace`)."""
    checks.bounds(low, high), _floating(rng)
    return _fill(lambda n: rng.uniform(float(low), float(high), n), size, float, rng)


def _scaled(name, scale, size, rng, draw):
    """Return `scale` (a number or an array) times standard draws `draw(rng, n)`."""
    _floating(rng)
    scales = np.asarray(scale if np.ndim(scale) else checks.positive(name, scale), dtype=float)
    if not np.all(np.isfinite(scales) & (scales > 0)):
        raise ValueError(f"{name} must be positive and finite everywhere, got {scale!r}")
    shape = scales.shape if size is None else _shape(size)
    if scales.ndim > len(shape) or any(m not in (1, n) for m, n in zip(scales.shape[::-1], shape[::-1])):
        raise ValueError(f"{name} must broadcast to size {size!r}, got an array of shape {scales.shape}")
    noise = _fill(lambda n: draw(rng, n), shape, float, rng)
    noise *= scales if shape else float(scales)
    return noise


def _floating(rng):
    """Refuse what is not a generator, and `SYSTEM` where numbers are rounded."""
    if not isinstance(checks.generator(rng), np.random.Generator):
        raise ValueError("rng must be a np.random.Generator for floating-point noise, got SYSTEM: rounded noise is "
                         "for experiments, a release draws exact integers (discrete_laplace, discrete_gaussian)")


def integers(high, size=None, *, rng):
    """Draw integers uniform on 0, ..., high - 1 exactly, 1 <= high <= 2^62: k fair bits, redrawn until below it."""
    if checks.integer("high", high, 1) > 1 << 62:
        raise ValueError(f"high must be at most 2**62, got {high}")
    k = (int(high) - 1).bit_length()
    return _fill(lambda n: (value := _bits(k, n, rng))[value < high], size, np.int64, rng)


def bernoulli_exp(x, size=None, *, rng):
    """Draw True with probability exp(-x) exactly, x >= 0 rational (int, Fraction, or float read as its decimal)."""
    if (exponent := checks.as_fraction("x", x)) < 0:
        raise ValueError(f"x must be at least 0, got {x!r}")
    table = _exp_table(exponent)
    return _fill(lambda n: _invert(table, n, rng) == 0, size, bool, rng)


def discrete_laplace(scale, size=None, *, rng):
    """Draw integers z with P(z) proportional to exp(-|z|/scale), exactly (two-sided geometric noise).

    Privacy: integer statistics of l1 sensitivity Delta plus one draw of scale Delta/epsilon each are epsilon-private.

    Parameters
    ----------
    scale : positive rational t, at most 2^50 (int, Fraction, or float read as the decimal that prints it)
    size : shape of the result, an int or a tuple; None for one int
    rng : np.random.Generator for experiments, SYSTEM for releases

    Returns
    -------
    int, or int64 array of shape `size`

    Raises
    ------
    ValueError for arguments out of range; OverflowError if |z| reaches 2^61 (probability below exp(-1000))

    Error: variance 2a/(1 - a)^2, a = exp(-1/t). Source: Ghosh, Roughgarden, Sundararajan 2009 (law); steps 1-4 above.
    """
    return _signed("scale", scale, lambda t: (1 / t, Fraction(0)), size, rng)


def discrete_gaussian(sigma, size=None, *, rng):
    """Draw integers z with P(z) proportional to exp(-z^2/(2 sigma^2)), exactly.

    Privacy: integer statistics of l2 sensitivity Delta plus one draw each are Delta^2/(2 sigma^2)-zCDP.
    Parameters, Returns, Raises: as `discrete_laplace`. Error: variance at most sigma^2, 0.9999998 of it at sigma = 1.
    Source: Canonne, Kamath, Steinke 2020 (law, privacy); steps 1-4 above instead of their rejection sampler.
    """
    return _signed("sigma", sigma, lambda sigma: (1 / (2 * sigma**2), 1 / sigma**2), size, rng)


def _signed(name, scale, weights, size, rng):
    """Draw z of weight g(|z|): step 3 for scales below 256, else step 4 with scale/2^k in [64, 128)."""
    if (exact := checks.as_fraction(name, checks.positive(name, scale))) > 1 << 50:
        raise ValueError(f"{name} must be at most 2**50, got {scale!r}")
    k = int(exact).bit_length() - 7 if exact >= 256 else 0
    alpha, beta = weights(exact)
    draw, table = partial(_blocks, alpha, beta, k) if k else _invert, _noise_table(alpha, beta, k)
    return _fill(lambda n: draw(table, n, rng), size, np.int64, rng)


def _blocks(alpha, beta, k, table, n, rng):
    """Return those of `n` proposals of step 4 that are accepted.

    1 - exp(-x) <= x <= x(d' = M), so V is accepted at once if its first 16 bits v exceed 2^16 x(M), plus 1 for
    rounding: the float x, products and sums of terms >= 0 in 8 roundings, is right to a factor within 1 +- 2^-49.
    """
    def exponent(h, step, a=float(alpha), c=float(beta)):
        return step * (a + c * ((h << k + 1) + step - 1) / 2)

    block, d, v = _invert(table, n, rng).astype(np.int64), _bits(k, n, rng).astype(np.int64), _bits(16, n, rng)
    minus = block >> 63
    h = block ^ minus
    if int(h.max()) >> 61 - k:
        raise OverflowError(f"a draw reached 2**61 at alpha={alpha}, beta={beta}")
    keep = v > exponent(h, 1 << k) * 2.0**16 + 1
    doubt = np.flatnonzero(~keep)
    if doubt.size:
        near, step = h[doubt], d[doubt] - minus[doubt]
        keep[doubt] = _accept(exponent(near, step), v[doubt], rng,
                              exact=lambda i: exponent(int(near[i]), int(step[i]), alpha, beta))
    return (((h << k) + d) ^ minus)[keep]


def _accept(x, v, rng, exact):
    """Decide V >= 1 - exp(-x) for floats x, exact(i) as Fractions; `v` is the first 16 bits of V.

    Where x < 1/8 the alternating series y of 1 - exp(-x), cut after x^9/9! and evaluated inside out (which at least
    halves each error), is right to 2^-49, 2^48 y to 1: 48 bits of V decide unless that close. Else step 1 decides.
    """
    y = 0.0
    for j in range(9, 0, -1):
        y = x / j * (1 - y)
    u = v.astype(np.int64) << 32 | _bits(32, v.size, rng)
    keep = (x < 0.125) & (u > y * 2.0**48 + 1)
    for i in np.flatnonzero(~keep & ((x >= 0.125) | (u >= y * 2.0**48 - 2))):
        keep[i] = _locate(lambda b: [[(1 << b) - e] for e in reversed(_exp(exact(i), b))], int(u[i]), 48, rng) == 1
    return keep


def _bits(k, n, rng):
    """Return `n` unsigned integers of `k` <= 64 fair bits: the only place where an exact sampler reads `rng`."""
    width = next(width for width in (8, 16, 32, 64) if width >= k)
    return np.frombuffer(rng.bytes(n * width // 8), dtype=f"<u{width // 8}") >> (width - k)


def _shape(size):
    """Return `size` (None, an int, a tuple of ints) as a tuple."""
    sides = () if size is None else size if isinstance(size, tuple) else (size,)
    return tuple(checks.integer("size", side, 0) for side in sides)


def _fill(draw, size, dtype, rng):
    """Return an array of shape `size`, or a plain number, filled by `draw(n)`, which returns at most n values."""
    checks.generator(rng)
    shape, start = _shape(size), 0
    out = np.empty(math.prod(shape), dtype)
    while start < out.size:
        values = draw(min(_CHUNK, out.size - start))
        out[start:start + len(values)] = values
        start += len(values)
    return out.reshape(shape) if shape else out.item()


def _table(law, fold=lambda index, sign: index):
    """Tabulate a law: the cell of 2^47 U in [e, e') is decided if #{high <= e} = #{low < e'}."""
    low, high = (np.array(side, dtype=np.int64) for side in law(_DEEP))
    edges = np.arange((1 << 15) + 1) << _DEEP - 15
    first, last = high.searchsorted(edges[:-1], "right"), low.searchsorted(edges[1:], "left")
    cells = [np.where(first == last, fold(first, sign), _UNDECIDED) for sign in (0, 1)]
    return _Table(law, fold, low, high, np.concatenate(cells).astype(np.int32))


@lru_cache(maxsize=64)
def _exp_table(x):
    """Tabulate a law whose outcome 0 has probability exp(-x)."""
    return _table(lambda b: [[side] for side in _exp(x, b)])


@lru_cache(maxsize=64)
def _noise_table(alpha, beta, k):
    """Tabulate z (k = 0, step 3), or the block h of step 4 as h or, with a minus sign, as -1 - h."""
    if k == 0:
        return _table(partial(_cumulative, alpha, beta, 2), lambda index, sign: (index ^ -sign) + sign)
    M = 1 << k  # g(hM), as a function of h, has the form of step 2 with these two numbers
    return _table(partial(_cumulative, M * alpha + beta * M * (M - 1) / 2, M**2 * beta, 1), lambda j, sign: j ^ -sign)


def _invert(table, n, rng):
    """Return `n` outcomes by step 1: a look-up; where undecided 32 more bits; then one draw at a time."""
    word = _bits(16, n, rng)
    answer = table.cells.take(word)
    todo = np.flatnonzero(answer == _UNDECIDED)
    if todo.size:
        word = word[todo].astype(np.int64)
        u = (word & 0x7FFF) << 32 | _bits(32, todo.size, rng)
        index, last = table.high.searchsorted(u, "right"), table.low.searchsorted(u, "right")
        for i in np.flatnonzero(index != last):
            index[i] = _locate(table.law, int(u[i]), _DEEP, rng)
        answer[todo] = table.fold(index, word >> 15)
    return answer


def _locate(law, u, b, rng):
    """Return J for the U whose first `b` bits are `u`, about doubling b until the enclosures decide."""
    while True:
        low, high = law(b)
        if (index := bisect_right(high, u)) == bisect_right(low, u):
            return index
        fresh = b // 8 + 1
        u = u << 8 * fresh | int.from_bytes(_bits(8, fresh, rng).tobytes(), "little")
        b += 8 * fresh


def _cumulative(alpha, beta, double, b):
    """Enclose 2^b times the cumulative probabilities of weights g(0), double g(1), double g(2), ... (step 2)."""
    p, one = 2 * b + 64, 1 << 2 * b + 64
    (ratio_low, ratio_high), (step_low, step_high) = _exp(alpha, p), _exp(beta, p)
    weight_low = weight_high = one
    low, high = [one], [one]
    while (weight_high := -(-weight_high * ratio_high >> p)) << b > one:
        weight_low = weight_low * ratio_low >> p
        low.append(low[-1] + double * weight_low)
        high.append(high[-1] + double * weight_high)
        ratio_low, ratio_high = ratio_low * step_low >> p, -(-ratio_high * step_high >> p)
    total = high[-1] + double * -(-(weight_high << p) // (one - ratio_high))
    return [(c << b) // total for c in low], [-(-(c << b) // low[-1]) for c in high]


def _exp(x, b):
    """Return integers low <= 2^b exp(-x) <= high, at most 3 apart, for a Fraction x >= 0.

    With d digits the quotient x is off by a factor 1 + e, |e| <= 10^(1-d)/2, moving exp(-x) by at most |e|; `decimal`
    rounds exp correctly: another 10^(1-d)/2. As 10^(1-d) < 2^-b/4, the floor of 2^b exp(-x) is off by one at most.
    """
    if x == 0 or x >= b:
        return (1 << b, 1 << b) if x == 0 else (0, 1)
    context = decimal.Context(prec=b * 302 // 1000 + 3)
    value = context.exp(context.divide(decimal.Decimal(-x.numerator), decimal.Decimal(x.denominator)))
    floor = math.floor(Fraction(value) * (1 << b))
    return max(0, floor - 1), min(1 << b, floor + 2)
