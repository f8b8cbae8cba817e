"""noise: the integer samplers against an independent inversion at 600 bits and against their laws; the refusals.

The oracle (`Law`) knows closed forms and mpmath only. `Script` is a source whose bytes the test chooses, so that draws
fall exactly where a sampler that rounds, or cuts its tail, would go wrong. Statistical tests are seeded (except on the
operating system's bits), each with false-alarm probability 1e-6.
"""
import io
import math
import os
import subprocess
import sys
from bisect import bisect_right
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies
from scipy import stats

from dputils import noise

ALARM = 1e-6
GROUPS = (32, 48, 96, 192)  # bits of U drawn after the first 15; each group of bytes is read as little-endian
SMALL = (Fraction(1, 50), 0.1, 0.7, 1, Fraction(7, 3), 10, 100, 255.9)
LARGE = (256, Fraction(123457, 10), 10**9, 2**50)
SAMPLERS = {"laplace": noise.discrete_laplace, "gaussian": noise.discrete_gaussian}
FLOATS = {"laplace": stats.laplace, "gaussian": stats.norm, "exponential": stats.expon, "gumbel": stats.gumbel_r}
EXACT = ("discrete_laplace", "discrete_gaussian", "integers", "bernoulli_exp")
both = pytest.mark.parametrize("kind", SAMPLERS)
generator = np.random.default_rng
mp = mpmath.MPContext()
mp.prec = 600


class Script(io.BytesIO):
    """A source of bits written down in advance."""
    is_operating_system = True

    def bytes(self, n):
        assert len(head := self.read(n)) == n, "the sampler asked for more bits than the test wrote"
        return head


class Law:
    """Cumulative probabilities of |z| (k = 0), or of the block h of 2^k integers (k > 0), from closed forms."""

    def __init__(self, kind, scale):
        self.kind, self.k = kind, 0 if scale < 256 else math.floor(math.log2(scale)) - 6
        t = Fraction(str(scale))
        self.weights = (1 / t, Fraction(0)) if kind == "laplace" else (1 / (2 * t**2), 1 / t**2)
        self.table = noise._noise_table(*self.weights, self.k)
        self.scale, self.sums = mp.mpf(t) / 2**self.k, [mp.mpf(1)]
        dual = 1 / (2 * mp.pi * self.scale) if self.scale > 0.5 else self.scale  # Poisson summation
        whole = 1 + 2 * sum(mp.exp(-m * m / (2 * dual**2)) for m in range(1, 100))
        whole *= self.scale * mp.sqrt(2 * mp.pi) if self.scale > 0.5 else 1
        self.total = (whole + 1) / 2 if self.k else whole

    def threshold(self, j):
        if self.kind == "laplace":
            a = mp.exp(-1 / self.scale)
            return 1 - a ** (j + 1) * (1 if self.k else 2 / (1 + a))
        while len(self.sums) <= j:
            term = mp.exp(-(mp.mpf(len(self.sums)) ** 2) / (2 * self.scale**2))
            self.sums.append(self.sums[-1] + term * (1 if self.k else 2))
        return self.sums[j] / self.total

    def index(self, u):
        """#{j : T_j <= u}, searched up to 1 - T_j < 2^-400."""
        reach = int((300 if self.kind == "laplace" else 25) * self.scale) + 9
        return bisect_right(range(reach), u, key=self.threshold)

    def hard_points(self):
        """Numbers in [0, 1): at random, beside a threshold (5 to 300 bits in common), and far out in the tail."""
        rng = generator(1)
        yield from (mp.mpf(int.from_bytes(rng.bytes(48))) / 2**384 for _ in range(20))
        for bits in (5, 15, 16, 30, 46, 47, 48, 60, 94, 96, 120) + (200, 300) * (self.scale < 20):
            tie, step = self.threshold(self.index(mp.mpf(rng.random()))), mp.mpf(2) ** -bits * (0.5 + rng.random() / 2)
            yield from (u for u in (tie - step, tie + step) if 0 <= u < 1)
        yield from (1 - mp.mpf(2) ** -bits for bits in (15, 16, 40, 47, 50, 95, 100))


def grouped(x, groups):
    """The first bits of x in [0, 1) as little-endian groups of bytes, and the number that these bits are."""
    bits, ends = int(mp.floor(x * mp.mpf(2) ** sum(groups))), np.cumsum(groups) // 8
    words = bits.to_bytes(ends[-1])
    parts = b"".join(words[end - width // 8:end][::-1] for end, width in zip(ends, groups))
    return parts, mp.mpf(bits) / mp.mpf(2) ** sum(groups)


def scripted(u, sign):
    """A script of the sign bit and 383 bits of u, and the number that these bits are."""
    parts, value = grouped((u + sign) / 2, (16, *GROUPS))
    return Script(parts), 2 * value - sign


@both
@pytest.mark.parametrize("scale", SMALL + LARGE)
def test_draws_equal_a_600_bit_inversion_of_the_same_bits(kind, scale):
    law = Law(kind, scale)
    for u in law.hard_points():
        for sign in (0, 1):
            script, value = scripted(u, sign)
            draw = noise._invert(law.table, 1, script) if law.k else SAMPLERS[kind](scale, rng=script)
            assert draw == (law.index(value) ^ -sign) + (sign if law.k == 0 else 0)


@both
@pytest.mark.parametrize("scale", LARGE)
def test_acceptance_equals_a_600_bit_comparison_of_the_same_bits(kind, scale):
    """A proposal (h, sign, d) is scripted with its V put beside 1 - exp(-x)."""
    law, rng, t = Law(kind, scale), generator(2), Fraction(scale)
    k, width = law.k, next(width for width in (8, 16, 32, 64) if width >= law.k)
    decided = np.flatnonzero(law.table.cells[:1 << 15] != noise._UNDECIDED)
    for bits in (1, 10, 16, 17, 40, 47, 48, 49, 60, 100, 150, 200):
        for side in (-1, 1):
            word, sign, d = int(rng.choice(decided)), int(rng.integers(2)), int(rng.integers(1 << k))
            block = law.index(mp.mpf(word) / 2**15) << k
            size = block + d + sign
            x = Fraction(size - block) / t if kind == "laplace" else Fraction(size**2 - block**2) / (2 * t**2)
            tie = -mp.expm1(-mp.mpf(x))
            v, value = grouped(mp.mpf(max(tie + side * mp.mpf(2) ** -bits, 0)) % 1, (16, 32, 56, 112))
            words = (sign << 15 | word).to_bytes(2, "little"), (d << width - k).to_bytes(width // 8, "little")
            z = noise._blocks(*law.weights, k, law.table, 1, Script(b"".join(words) + v))
            assert z.tolist() == [-1 - block - d if sign else block + d] * (value >= tie), (bits, side)


@given(strategies.fractions(0, 400, max_denominator=10**6), strategies.integers(40, 500))
@settings(max_examples=100, deadline=None)
def test_exponential_is_enclosed(x, bits):
    low, high = noise._exp(x, bits)
    assert low <= mp.exp(-mp.mpf(x)) * mp.mpf(2) ** bits <= high <= low + 3


def wrong_cells(table, law):
    """How many of the 2^15 cells with sign bit 0 answer other than some U inside them would."""
    edges = [int(mp.ceil(law.threshold(j) * 2**15)) for j in range(len(table.low))]
    cells, starts = table.cells[:1 << 15], np.arange(1 << 15)
    first, last = np.searchsorted(edges, starts, "right"), np.searchsorted(edges, starts + 1, "right")
    return np.count_nonzero((cells != noise._UNDECIDED) & ((first != last) | (cells != first)))


@both
@pytest.mark.parametrize("scale", SMALL + LARGE)
def test_thresholds_are_enclosed_and_no_cell_answers_wrongly(kind, scale):
    law = Law(kind, scale)
    assert wrong_cells(law.table, law) == 0 and np.mean(law.table.cells == noise._UNDECIDED) < 0.05
    for bits in (47, 95):
        low, high = law.table.law(bits)
        assert low == sorted(low) and high == sorted(high) and high[-1] >= 2**bits
        for j in {0, len(low) - 1, *range(0, len(low), 1 + len(low) // 40)}:
            assert low[j] <= law.threshold(j) * mp.mpf(2) ** bits <= high[j] <= low[j] + 2**12


def cdf(kind, scale, z):
    """P(Z <= z) for an array of integers, in floating point."""
    if kind == "laplace":
        return stats.dlaplace(1 / scale).cdf(z)
    m = np.arange(-int(12 * scale) - 5, int(12 * scale) + 6)
    mass = np.exp(-(m**2) / (2 * scale**2))
    return np.cumsum(mass)[z - m[0]] / mass.sum()


def p_value(draws, kind, scale):
    """Chi-square of draws against the law in about 200 cells of integers; in the tests each expects over 200 draws."""
    ends = np.unique(np.linspace(-12 * scale - 4, 12 * scale + 4, 4001).astype(int))
    ends = np.unique(ends[np.searchsorted(cdf(kind, scale, ends), np.arange(0.005, 0.999, 0.005))])
    chance = np.diff(cdf(kind, scale, ends), prepend=0, append=1)
    counts = np.diff(np.searchsorted(np.sort(draws), ends, "right"), prepend=0, append=draws.size)
    return stats.chisquare(counts, chance * draws.size).pvalue


@both
@pytest.mark.parametrize("scale", (0.3, 0.6, 1, 2.5, 10, 100, 255, 256, 1000, 30_000))
def test_law(kind, scale):
    for rng in (generator(3), noise.SYSTEM):
        assert p_value(SAMPLERS[kind](scale, 300_000, rng=rng), kind, scale) > ALARM


@both
def test_moved_thresholds_are_caught(kind, monkeypatch):
    """Power: all moved by 2^-44, a draw beside one; one moved by 0.5 % of the mass, the cells and the chi-square."""
    law, table = Law(kind, 10), Law(kind, 10).table
    for candidate, answer in ((table, 4), (table._replace(low=table.low + 8, high=table.high + 8), 3)):
        script, value = scripted(law.threshold(3) + mp.mpf(2) ** -45, 0)
        assert law.index(value) == 4 and noise._invert(candidate, 1, script) == answer
    sides = [[c + (150 << 32) * (j == 5) for j, c in enumerate(side)] for side in table.law(47)]
    broken = noise._table(lambda bits: sides, table.fold)
    assert wrong_cells(broken, law) >= 149
    monkeypatch.setattr(noise, "_noise_table", lambda alpha, beta, k: broken)
    assert p_value(SAMPLERS[kind](10, 300_000, rng=generator(3)), kind, 10) < ALARM


@both
@pytest.mark.parametrize("scale", (10**6, 10**9, 2**50, Fraction(2**40, 3)))
def test_huge_scales(kind, scale):
    """Mean and mean square within 5 standard errors (6e-7), last four bits uniform, z/scale close to its limit law."""
    z = SAMPLERS[kind](scale, 200_000, rng=generator(4))
    unit, (square, fourth) = z / float(scale), ((2, 24) if kind == "laplace" else (1, 3))
    assert abs(unit.mean()) < 5 * math.sqrt(square / z.size)
    assert abs((unit**2).mean() - square) < 5 * math.sqrt((fourth - square**2) / z.size)
    assert stats.chisquare(np.bincount(z & 15)).pvalue > ALARM
    assert stats.kstest(unit, FLOATS[kind].cdf).pvalue > ALARM


@both
def test_tiny_scales_give_zero_but_the_tail_is_there(kind):
    scale = Fraction(1, 50) if kind == "laplace" else 0.1  # P(z != 0) is about 2^-71
    assert not SAMPLERS[kind](scale, 100_000, rng=generator(5)).any()
    assert SAMPLERS[kind](scale, rng=scripted(1 - mp.mpf(2) ** -80, 1)[0]) == -1


def test_a_draw_that_does_not_fit_is_refused_not_wrapped():
    law, far = Law("laplace", 2**50), np.full(1 << 16, 1 << 17, np.int32)
    with pytest.raises(OverflowError, match=r"a draw reached 2\*\*61"):
        noise._blocks(*law.weights, law.k, law.table._replace(cells=far), 3, generator(6))


def test_seeded_draws_are_these_on_every_platform_and_a_float_scale_is_its_decimal():
    for scale in (2.7, Fraction(27, 10), np.float64(2.7)):
        assert noise.discrete_gaussian(scale, 8, rng=generator(7)).tolist() == [2, -4, 2, -1, 4, -1, -2, -3]
    assert noise.discrete_laplace(1000, 6, rng=generator(7)).tolist() == [877, -2207, 717, -288, 1787, -464]
    assert noise.integers(1000, 6, rng=generator(7)).tolist() == [298, 967, 262, 640, 426, 700]
    assert Law("laplace", 0.1).table is noise._noise_table(Fraction(10), Fraction(0), 0)


@pytest.mark.parametrize("name", EXACT)
def test_shapes(name):
    draw, rng, kind = getattr(noise, name), generator(8), bool if name == "bernoulli_exp" else int
    assert type(draw(1, rng=rng)) is kind and draw(1, 0, rng=rng).shape == (0,)
    many = draw(1 if kind is bool else 300, (3, 50_000), rng=rng)
    assert many.shape == (3, 50_000) and many.dtype == (np.int64, bool)[kind is bool] and (many[2] != many[0]).any()


def test_integers():
    """5 takes the top 3 bits of a byte and refuses 5, 6, 7: each value has 32 of the 256 bytes."""
    assert np.bincount(noise.integers(5, 160, rng=Script(bytes(range(256)) * 2))).tolist() == [32] * 5
    assert not noise.integers(1, 10, rng=noise.SYSTEM).any()
    for high in (2, 7, 7 * 2**40, 3 * 2**60, 2**62):
        draws, parts = noise.integers(high, 60_000, rng=generator(9)), min(high, 7)
        assert 0 <= draws.min() and draws.max() < high
        assert stats.chisquare(np.bincount([int(v) * parts // high for v in draws], minlength=parts)).pvalue > ALARM


@pytest.mark.parametrize("x", (Fraction(1, 1000), 0.1, Fraction(2, 3), 1, 4, 12.5))
def test_bernoulli_exp(x):
    hits, chance = noise.bernoulli_exp(x, 500_000, rng=generator(10)).sum(), mp.exp(-mp.mpf(Fraction(str(x))))
    assert stats.binomtest(int(hits), 500_000, float(chance)).pvalue > ALARM
    for bits in (10, 16, 30, 47, 48, 60, 100, 200, 300):
        for side in (-1, 1):
            script, u = scripted(min(max(chance + side * mp.mpf(2) ** -bits, 0), 1 - mp.mpf(2) ** -350), 0)
            assert noise.bernoulli_exp(x, rng=script) == (u < chance)
    assert noise.bernoulli_exp(0, 9, rng=generator(0)).all() and not noise.bernoulli_exp(1e9, 9, rng=generator(0)).any()


@pytest.mark.parametrize("name", FLOATS)
def test_floating_samplers(name):
    draw, scales = getattr(noise, name), np.array([0.5, 20.0])
    for scale, column in zip(scales, draw(scales, (100_000, 2), rng=generator(11)).T):
        assert stats.kstest(column / scale, FLOATS[name].cdf).pvalue > ALARM
    assert isinstance(draw(2, rng=generator(1)), float) and draw(scales, rng=generator(1)).shape == (2,)
    assert np.array_equal(draw(4, 5, rng=generator(1)), 4 * draw(Fraction(1), 5, rng=generator(1)))
    assert stats.kstest((noise.uniform(-1, 3, 100_000, rng=generator(12)) + 1) / 4, "uniform").pvalue > ALARM


@pytest.mark.parametrize("name", [*FLOATS, "uniform", *EXACT])
def test_rng_is_required_and_checked(name):
    arguments = (0, 1, 2) if name == "uniform" else (1, 2)
    for wrong in (None, 7, np.random.RandomState(7), np.random):
        with pytest.raises(ValueError, match="rng must be a np.random.Generator or dputils.noise.SYSTEM") as refusal:
            getattr(noise, name)(*arguments, rng=wrong)
        assert wrong != 7 or "np.random.default_rng(7)" in str(refusal.value)
    with pytest.raises(TypeError, match="rng"):
        getattr(noise, name)(*arguments)
    if name in FLOATS or name == "uniform":
        with pytest.raises(ValueError, match="Generator for floating-point noise, got SYSTEM: .* draws exact integers"):
            getattr(noise, name)(*arguments, rng=noise.SYSTEM)


@pytest.mark.parametrize("name, arguments, message", [
    *((name, (value,), f"{'sigma' if 'gaussian' in name else 'scale'} must be positive and finite, got {value!r}")
      for name in (*FLOATS, *EXACT[:2])
      for value in (0, -1.5, math.nan, math.inf, "1", True, None)),
    ("discrete_laplace", (2**50 + 1,), "scale must be at most 2**50, got 1125899906842625"),
    ("discrete_gaussian", (1e16,), "sigma must be at most 2**50, got 1e+16"),
    ("discrete_laplace", ([1, 2],), "scale must be positive and finite, got [1, 2]"),
    ("discrete_laplace", (1, -1), "size must be at least 0, got -1"),
    ("discrete_laplace", (1, 2.0), "size must be an integer, got 2.0"),
    ("laplace", ([1, 0.0],), "scale must be positive and finite everywhere, got [1, 0.0]"),
    ("gaussian", ([1, math.nan],), "sigma must be positive and finite everywhere, got [1, nan]"),
    ("laplace", ([1, 2], 3), "scale must broadcast to size 3, got an array of shape (2,)"),
    ("gumbel", ([[1, 2]], 2), "scale must broadcast to size 2, got an array of shape (1, 2)"),
    ("uniform", (2, 1), "lower must be less than upper, got lower=2, upper=1"),
    ("integers", (0,), "high must be at least 1, got 0"),
    ("integers", (2**62 + 1,), "high must be at most 2**62, got 4611686018427387905"),
    ("integers", (2.0,), "high must be an integer, got 2.0"),
    ("bernoulli_exp", (-0.5,), "x must be at least 0, got -0.5"),
    ("bernoulli_exp", (math.nan,), "x must be finite, got nan"),
])
def test_refusals_name_the_argument_and_its_value(name, arguments, message):
    with pytest.raises(ValueError) as refusal:
        getattr(noise, name)(*arguments, rng=generator(0))
    assert message in str(refusal.value)


def test_system_bits_are_the_operating_systems_and_fresh_in_every_process():
    assert noise.SYSTEM.bytes is os.urandom
    program = "from dputils import noise; print(noise.discrete_laplace(10**6, 64, rng=noise.SYSTEM).tolist())"
    runs = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(runs) == 2  # 64 equal draws of scale 10^6 by chance: far below 1e-300
