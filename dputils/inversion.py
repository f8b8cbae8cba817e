"""The engine of exact noise: laws drawn from fair bits, with no rounding and no cut tail.

Letters: U and V uniform in [0, 1) with fair bits, u and v their first bits as integers, T_j
cumulative probabilities, g(m) = exp(-E(m)) the weight of the integer m >= 0, alpha and beta the
numbers that fix E, M = 2^k the block size.

1. Lazy inversion (`locate`). Let T_0 <= T_1 <= ... be the cumulative probabilities of a law on 0,
   1, ..., and U = 0.u1u2u3... for fair bits u_i. J = #{j : T_j <= U} has that law: P(J = j) = T_j -
   T_(j-1). The first b bits of U are an integer u with u <= 2^b U < u + 1; integers low_j <= 2^b
   T_j <= high_j are computed. If high_j <= u then T_j <= U; if low_j > u then low_j >= u + 1, so
   T_j > U. Hence #{high_j <= u} <= J <= #{low_j <= u}. Equal counts are J, whatever bits follow.
   Unequal counts answer nothing: more bits of the same U and closer enclosures are taken until they
   agree, with probability one, as high_j - low_j stays bounded while b grows. `Table.cells` is what
   the first 15 bits decide.
2. Enclosures (`cumulative`). The weights g(m), E(m) = alpha m + beta m(m - 1)/2, are the discrete
   Laplace law for alpha = 1/t, beta = 0, and the discrete Gaussian for alpha = 1/(2 sigma^2), beta
   = 1/sigma^2. With r_0 = exp(-alpha), g(m + 1) = g(m) r_m and r_(m+1) = r_m exp(-beta) are
   computed in fixed point, once rounded down and once up. As r_m never increases, the weights from
   m on sum to at most g(m)/(1 - r_(m-1)): added to the upper normaliser. A U above the last
   enclosed threshold is undecided (step 1), never folded into a neighbour: more bits bring more
   thresholds.
3. Signs (`signed_table`). One more fair bit s. For scales below 256, |z| has weights g(0), 2 g(1),
   2 g(2), ..., and s picks |z| or -|z|.
4. Large scales (`large`). With M = 2^k propose a block h of weight g(hM), a fair s, a uniform d in
   [0, M); z = hM + d (s = 0) or -1 - hM - d (s = 1), so |z| = hM + d' with d' = d + s. Accept with
   probability g(|z|)/g(hM) = exp(-x) <= 1, where x = E(hM + d') - E(hM) = d' (alpha + beta (2hM +
   d' - 1)/2): a uniform V >= 1 - exp(-x), compared lazily (`accept`). Each z has one proposal, of
   weight proportional to g(hM), so it is accepted with weight proportional to g(|z|).

Source
    Canonne, Kamath, Steinke 2020 (the laws; steps 1 to 4 stand here instead of their rejection
    sampler).
"""

import decimal
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from dputils import bits

DEEP = 47  # bits of U that a table decides with arrays: 15 for the cell, 32 more if undecided
UNDECIDED = -(1 << 31)  # a cell that meets the enclosure of a threshold
LARGE = 256  # scales from here on are drawn in blocks
SERIES = 0.125  # below it `one_minus_exp` is right to 2^-49
_TERMS = 9
_CELLS = 1 << 15


@dataclass(frozen=True)
class Table:
    """A law for step 1.

    Parameters
    ----------
    law : function of b
        Returns the sorted lists low and high: the enclosures of the thresholds at b bits.
    fold : function of J and the sign bit
        Returns the outcome.
    low, high : int64 arrays, law(DEEP)
    cells : int32 array of shape (2^16,)
        The outcome of each word of 16 bits (a sign bit, 15 bits of U), or UNDECIDED.
    """

    law: Callable
    fold: Callable
    low: np.ndarray
    high: np.ndarray
    cells: np.ndarray


# ------------------------------------------------------------------------ step 1: lazy inversion


def plain(index, sign):
    """The outcome J itself, whatever the sign bit: laws on 0, 1, ..."""
    return index


def tabulate(law, fold=plain):
    """Return the `Table` of a law.

    The cell of 2^47 U in [e, e') is decided if #{high <= e} = #{low < e'}.
    """
    low, high = (np.array(side, dtype=np.int64) for side in law(DEEP))
    edges = np.arange(_CELLS + 1) << DEEP - 15
    first = high.searchsorted(edges[:-1], "right")
    last = low.searchsorted(edges[1:], "left")
    cells = [np.where(first == last, fold(first, sign), UNDECIDED) for sign in (0, 1)]
    return Table(law, fold, low, high, np.concatenate(cells).astype(np.int32))


def draw(table, n, rng):
    """Return `n` outcomes of a law by step 1.

    A look-up; where undecided 32 more bits; then one draw at a time.

    Parameters
    ----------
    table : Table
    n : int
    rng : numpy.random.Generator or bits.SYSTEM

    Returns
    -------
    int32 array of shape (n,)
    """
    word = bits.words(16, n, rng)
    answer = table.cells.take(word)
    todo = np.flatnonzero(answer == UNDECIDED)
    if todo.size:
        answer[todo] = decide(table, word[todo].astype(np.int64), rng)
    return answer


def decide(table, word, rng):
    """Return the outcomes of draws whose 16-bit words fell into undecided cells."""
    u = (word & _CELLS - 1) << 32 | bits.words(32, word.size, rng)
    index = table.high.searchsorted(u, "right")
    last = table.low.searchsorted(u, "right")
    for i in np.flatnonzero(index != last):
        index[i] = locate(table.law, int(u[i]), DEEP, rng)
    return table.fold(index, word >> 15)


def locate(law, u, b, rng):
    """Return J for the U whose first `b` bits are `u`: double b until the enclosures decide."""
    while True:
        low, high = law(b)
        index = bisect_right(high, u)
        if index == bisect_right(low, u):
            return index
        fresh = 8 * (b // 8 + 1)
        u = u << fresh | bits.number(fresh, rng)
        b += fresh


# ---------------------------------------------------------------------------- step 2: enclosures


def exp_enclosure(x, b):
    """Return integers low <= 2^b exp(-x) <= high, at most 3 apart, for a Fraction x >= 0.

    With d digits the quotient x is off by a factor 1 + e, |e| <= 10^(1-d)/2, moving exp(-x) by at
    most |e|; `decimal` rounds exp correctly: another 10^(1-d)/2. As 10^(1-d) < 2^-b/4, the floor of
    2^b exp(-x) is off by one at most.
    """
    if x == 0:
        return 1 << b, 1 << b
    if x >= b:
        return 0, 1
    context = decimal.Context(prec=b * 302 // 1000 + 3)
    exponent = context.divide(decimal.Decimal(-x.numerator), decimal.Decimal(x.denominator))
    floor = math.floor(Fraction(context.exp(exponent)) * (1 << b))
    return max(0, floor - 1), min(1 << b, floor + 2)


@lru_cache(maxsize=64)
def exp_table(x):
    """Return the table of a law whose outcome 0 has probability exp(-x), x a Fraction."""
    return tabulate(lambda b: [[side] for side in exp_enclosure(x, b)])


def cumulative(alpha, beta, double, b):
    """Enclose 2^b times the cumulative probabilities of weights g(0), double g(1), ... (step 2)."""
    low, high, rest = running_sums(alpha, beta, double, b, 2 * b + 64)
    total = high[-1] + rest
    return [(c << b) // total for c in low], [ceiling(c << b, low[-1]) for c in high]


def running_sums(alpha, beta, double, b, p):
    """Enclose the sums of the weights, in units of 2^-p, until 2^b g(m) <= 1; bound the rest."""
    one = 1 << p
    ratio_low, ratio_high = exp_enclosure(alpha, p)
    step_low, step_high = exp_enclosure(beta, p)
    weight_low = one
    weight_high = up(one * ratio_high, p)
    low, high = [one], [one]
    while weight_high << b > one:
        weight_low = weight_low * ratio_low >> p
        low.append(low[-1] + double * weight_low)
        high.append(high[-1] + double * weight_high)
        ratio_low = ratio_low * step_low >> p
        ratio_high = up(ratio_high * step_high, p)
        weight_high = up(weight_high * ratio_high, p)
    return low, high, double * ceiling(weight_high << p, one - ratio_high)


def up(x, p):
    """x/2^p, rounded up."""
    return -(-x >> p)


def ceiling(x, y):
    """x/y, rounded up."""
    return -(-x // y)


# --------------------------------------------------------------- steps 3 and 4: signs and blocks


def either_sign(index, sign):
    """|z| with its sign."""
    return (index ^ -sign) + sign


def either_block(index, sign):
    """The block h, or -1 - h in place of -h: both are needed for h = 0."""
    return index ^ -sign


def signed_table(alpha, beta):
    """Return the table of z of weight g(|z|) (step 3)."""
    return tabulate(partial(cumulative, alpha, beta, 2), either_sign)


def block_table(alpha, beta, k):
    """Return the table of the block h of step 4, as h or, with a minus sign, as -1 - h.

    g(hM), as a function of h, has the form of step 2 with the two numbers E(M) and beta M^2.
    """
    M = 1 << k
    return tabulate(partial(cumulative, rise(alpha, beta, 0, M), M**2 * beta, 1), either_block)


def rise(alpha, beta, start, step):
    """E(start + step) - E(start), in the arithmetic of its arguments: floats or fractions."""
    return step * (alpha + beta * (2 * start + step - 1) / 2)


@lru_cache(maxsize=64)
def laplace(t):
    """Return the function (n, rng) that draws at most n discrete Laplace numbers of scale t."""
    return sampler(t, 1 / t, Fraction(0))


@lru_cache(maxsize=64)
def gaussian(sigma):
    """Return the function (n, rng) that draws at most n discrete Gaussian numbers of sigma."""
    return sampler(sigma, 1 / (2 * sigma**2), 1 / sigma**2)


def sampler(scale, alpha, beta):
    """Return the function (n, rng) of step 3, or of step 4 with scale/2^k in [64, 128)."""
    if scale < LARGE:
        return partial(draw, signed_table(alpha, beta))
    k = int(scale).bit_length() - 7
    return partial(large, block_table(alpha, beta, k), alpha, beta, k)


def large(table, alpha, beta, k, n, rng):
    """Return those of `n` proposals of step 4 that are accepted, each a z of weight g(|z|).

    1 - exp(-x) <= x <= x(d' = M), so V is accepted at once if its first 16 bits v exceed 2^16 x(M),
    plus 1 for rounding: the float x, products and sums of terms >= 0 in 8 roundings, is right to a
    factor within 1 +- 2^-49.

    Raises
    ------
    OverflowError
        If a proposal reaches 2^61.
    """
    start, minus = blocks(table, k, n, rng)
    d = bits.words(k, n, rng).astype(np.int64)
    v = bits.words(16, n, rng)
    a, c = float(alpha), float(beta)
    keep = v > rise(a, c, start, 1 << k) * 2.0**16 + 1
    doubt = np.flatnonzero(~keep)
    if doubt.size:
        near, step = start[doubt], d[doubt] - minus[doubt]
        exact = partial(exact_rise, alpha, beta, near, step)
        keep[doubt] = accept(rise(a, c, near, step), v[doubt], rng, exact)
    return ((start + d) ^ minus)[keep]


def blocks(table, k, n, rng):
    """Return hM and -s of `n` proposals."""
    block = draw(table, n, rng).astype(np.int64)
    minus = block >> 63
    h = block ^ minus
    if int(h.max()) >> 61 - k:
        raise OverflowError(f"a draw reached 2**61 in blocks of 2**{k}")
    return h << k, minus


def exact_rise(alpha, beta, start, step, i):
    """The exact x of proposal i, a Fraction."""
    return rise(alpha, beta, int(start[i]), int(step[i]))


def accept(x, v, rng, exact):
    """Decide V >= 1 - exp(-x) for floats x >= 0; `v` is the first 16 bits of V.

    Where x < 1/8, y = `one_minus_exp`(x) is right to 2^-49 and 2^48 y to 1: 48 bits of V decide
    unless that close. Else step 1 decides, from `exact(i)`, the exact x of proposal i.
    """
    u = v.astype(np.int64) << 32 | bits.words(32, v.size, rng)
    y = one_minus_exp(x)
    keep = (x < SERIES) & (u > y * 2.0**48 + 1)
    for i in np.flatnonzero(~keep & ((x >= SERIES) | (u >= y * 2.0**48 - 2))):
        keep[i] = locate(partial(complement, exact(i)), int(u[i]), 48, rng) == 1
    return keep


def one_minus_exp(x):
    """Return 1 - exp(-x) by its alternating series, cut after x^9/9!.

    For floats 0 <= x < 1/8 right to 2^-49.

    The first term left out is below 2^-51; evaluated inside out, each step at least halves the
    error of the last.
    """
    y = 0.0
    for j in range(_TERMS, 0, -1):
        y = x / j * (1 - y)
    return y


def complement(x, b):
    """Enclose 2^b (1 - exp(-x)): the law of V >= 1 - exp(-x) for step 1."""
    return [[(1 << b) - side] for side in reversed(exp_enclosure(x, b))]
