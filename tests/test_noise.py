"""noise: every sampler against its law, its draws as they are on every platform, and the refusals.

Statistical tests are seeded (except on the operating system's bits), each with false-alarm
probability 1e-6."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dputils import inversion, noise
from tests.oracles import ALARM, SAMPLERS, Law, Script, generator, mp, scripted

FLOATS = {
    "laplace": stats.laplace,
    "gaussian": stats.norm,
    "exponential": stats.expon,
    "gumbel": stats.gumbel_r,
}
EXACT = ("discrete_laplace", "discrete_gaussian", "integers", "bernoulli_exp")
both = pytest.mark.parametrize("kind", SAMPLERS)

# 50 draws one at a time (size None) or one array, from seed 2024, as little-endian int64, or
# float64 to nine digits: the first 16 hexadecimal digits of their SHA-256.
DRAWS = [
    ("laplace", (1.0,), None, "72173186162a98af"),
    ("laplace", (1.0,), 150001, "f0f2e3ea74901dd9"),
    ("laplace", ([0.5, 20.0],), None, "3be3e7b5d434d89a"),
    ("laplace", ([0.5, 20.0],), (75000, 2), "9cadeb2cfbc0d57e"),
    ("gaussian", (1.0,), None, "f4bb74a4c2bf3501"),
    ("gaussian", (1.0,), 150001, "8fd39661e813971f"),
    ("gaussian", ([0.5, 20.0],), None, "46afb671b67b84af"),
    ("gaussian", ([0.5, 20.0],), (75000, 2), "3a289c3b893653eb"),
    ("exponential", (3,), None, "2a0c3cc8b0d7f104"),
    ("exponential", (3,), 150001, "6f846296aabdfc33"),
    ("gumbel", (0.25,), None, "11724d1d91bed72b"),
    ("gumbel", (0.25,), 150001, "a0cab70d91af0036"),
    (
        "uniform",
        (
            -2,
            3,
        ),
        None,
        "9f23ad720b2c7067",
    ),
    (
        "uniform",
        (
            -2,
            3,
        ),
        150001,
        "3087a83d0b95cf49",
    ),
    ("integers", (2,), None, "12edb103d9566b5b"),
    ("integers", (2,), 150001, "1afb3b90c5fe2055"),
    ("integers", (5,), None, "c2e812c03bb87a19"),
    ("integers", (5,), 150001, "7e1fa7f67d3f539b"),
    ("integers", (1000,), None, "e7c5cb207f082d3a"),
    ("integers", (1000,), 150001, "a94464954e69b4d2"),
    ("integers", (7696581394432,), None, "653ce37a17e89ccb"),
    ("integers", (7696581394432,), 150001, "47a840a1f9301d91"),
    ("integers", (4611686018427387904,), None, "24eea70905977954"),
    ("integers", (4611686018427387904,), 150001, "2537c5ed337b8009"),
    ("bernoulli_exp", (0,), None, "f33daf5fc5cddc53"),
    ("bernoulli_exp", (0,), 150001, "eeee28cc6df5b15d"),
    ("bernoulli_exp", (0.1,), None, "166bd1e914ad07c3"),
    ("bernoulli_exp", (0.1,), 150001, "8f8fec889a1aac0d"),
    ("bernoulli_exp", (Fraction(2, 3),), None, "bcb86583083e51fc"),
    ("bernoulli_exp", (Fraction(2, 3),), 150001, "8418da2e6e8366bd"),
    ("bernoulli_exp", (4,), None, "7a12e561363385e9"),
    ("bernoulli_exp", (4,), 150001, "0f1e36cfb7905ce1"),
    ("discrete_laplace", (Fraction(1, 50),), None, "7a12e561363385e9"),
    ("discrete_laplace", (Fraction(1, 50),), 150001, "09c7ad452af101cd"),
    ("discrete_laplace", (0.1,), None, "7a12e561363385e9"),
    ("discrete_laplace", (0.1,), 150001, "3adf597210bb84c6"),
    ("discrete_laplace", (0.7,), None, "172936b11a2f6486"),
    ("discrete_laplace", (0.7,), 150001, "bfc5bfefcfde6b39"),
    ("discrete_laplace", (Fraction(7, 3),), None, "37108a774897e1a8"),
    ("discrete_laplace", (Fraction(7, 3),), 150001, "8713e27a33fa8cf8"),
    ("discrete_laplace", (10,), None, "16a710e896190d5a"),
    ("discrete_laplace", (10,), 150001, "df5253c5beba3767"),
    ("discrete_laplace", (255.9,), None, "2efbec584a1be2a7"),
    ("discrete_laplace", (255.9,), 150001, "8f93eb9d15ec7050"),
    ("discrete_laplace", (256,), None, "1c87b108d98065e7"),
    ("discrete_laplace", (256,), 150001, "d0e768c211fb0bff"),
    ("discrete_laplace", (1000,), None, "70c8c8526f505ab8"),
    ("discrete_laplace", (1000,), 150001, "4934affef1e7240c"),
    ("discrete_laplace", (123456.7,), None, "551dd26619e42c0d"),
    ("discrete_laplace", (123456.7,), 150001, "fff5bafb7c7e9bab"),
    ("discrete_laplace", (1000000000,), None, "fb519e24d511bd79"),
    ("discrete_laplace", (1000000000,), 150001, "c6164fdde5b1a495"),
    ("discrete_laplace", (1125899906842624,), None, "24f8d72197986b8f"),
    ("discrete_laplace", (1125899906842624,), 150001, "7b68efa33c91cdab"),
    ("discrete_gaussian", (0.1,), None, "7a12e561363385e9"),
    ("discrete_gaussian", (0.1,), 150001, "09c7ad452af101cd"),
    ("discrete_gaussian", (0.7,), None, "4ac7cbe6a9f71d59"),
    ("discrete_gaussian", (0.7,), 150001, "457f18f0bb778a3d"),
    ("discrete_gaussian", (Fraction(7, 3),), None, "6b323bdc1c632144"),
    ("discrete_gaussian", (Fraction(7, 3),), 150001, "85fb2a57d48af277"),
    ("discrete_gaussian", (10,), None, "8fea86f9cbbec530"),
    ("discrete_gaussian", (10,), 150001, "72430a5fb8042517"),
    ("discrete_gaussian", (255.9,), None, "0461bd6454908923"),
    ("discrete_gaussian", (255.9,), 150001, "42cc77992c4f241d"),
    ("discrete_gaussian", (256,), None, "b14dace19df796cc"),
    ("discrete_gaussian", (256,), 150001, "4eec615178126c26"),
    ("discrete_gaussian", (1000,), None, "de62447ee75b132d"),
    ("discrete_gaussian", (1000,), 150001, "786d5e3ae5a6e002"),
    ("discrete_gaussian", (123456.7,), None, "b98793d8d0705848"),
    ("discrete_gaussian", (123456.7,), 150001, "05376dfb12269461"),
    ("discrete_gaussian", (1000000000,), None, "7c092e7b21002f07"),
    ("discrete_gaussian", (1000000000,), 150001, "67990b4959aaafba"),
    ("discrete_gaussian", (1125899906842624,), None, "00c257777579819d"),
    ("discrete_gaussian", (1125899906842624,), 150001, "2e9acf9100108af9"),
]


@pytest.mark.parametrize("name, arguments, size, expected", DRAWS)
def test_draws_of_a_seed_are_these(name, arguments, size, expected):
    rng, draw = generator(2024), getattr(noise, name)
    if size is None:
        drawn = np.asarray([draw(*arguments, rng=rng) for _ in range(50)])
    else:
        drawn = draw(*arguments, size, rng=rng)
    floating = drawn.dtype.kind == "f"
    plain = np.round(drawn, 9).astype("<f8") if floating else drawn.astype("<i8")
    assert hashlib.sha256(plain.tobytes()).hexdigest()[:16] == expected


def cdf(kind, scale, z):
    """P(Z <= z) for an array of integers, in floating point."""
    if kind == "laplace":
        return stats.dlaplace(1 / scale).cdf(z)
    m = np.arange(-int(12 * scale) - 5, int(12 * scale) + 6)
    mass = np.exp(-(m**2) / (2 * scale**2))
    return np.cumsum(mass)[z - m[0]] / mass.sum()


def p_value(draws, kind, scale):
    """Chi-square of draws against the law in about 200 cells of integers; in the tests each expects
    over 200 draws.
    """
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


def test_a_threshold_moved_by_half_a_percent_is_caught(monkeypatch):
    """Power of the chi-square."""
    for kind, build in (("laplace", "laplace"), ("gaussian", "gaussian")):
        law = Law(kind, 10)
        sides = [
            [c + (150 << 32) * (j == 5) for j, c in enumerate(side)] for side in law.table.law(47)
        ]
        broken = inversion.tabulate(lambda bits, sides=sides: sides, law.table.fold)
        monkeypatch.setattr(
            inversion, build, lambda t, broken=broken: lambda n, rng: inversion.draw(broken, n, rng)
        )
        assert p_value(SAMPLERS[kind](10, 300_000, rng=generator(3)), kind, 10) < ALARM


@both
@pytest.mark.parametrize("scale", (10**6, 10**9, 2**50, Fraction(2**40, 3)))
def test_huge_scales(kind, scale):
    """Mean and mean square within 5 standard errors (6e-7), last four bits uniform, z/scale close
    to its limit law.
    """
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


def test_seeded_draws_are_these_on_every_platform_and_a_float_scale_is_its_decimal():
    for scale in (2.7, Fraction(27, 10), np.float64(2.7)):
        assert noise.discrete_gaussian(scale, 8, rng=generator(7)).tolist() == [
            2,
            -4,
            2,
            -1,
            4,
            -1,
            -2,
            -3,
        ]
    assert noise.discrete_laplace(1000, 6, rng=generator(7)).tolist() == [
        877,
        -2207,
        717,
        -288,
        1787,
        -464,
    ]
    assert noise.integers(1000, 6, rng=generator(7)).tolist() == [298, 967, 262, 640, 426, 700]
    assert inversion.laplace(Fraction(1, 10)) is inversion.laplace(Fraction("0.1"))
    before = inversion.laplace.cache_info().misses
    noise.discrete_laplace(0.1, rng=generator(1))
    assert inversion.laplace.cache_info().misses == before


@pytest.mark.parametrize("name", EXACT)
def test_shapes(name):
    draw, rng, kind = getattr(noise, name), generator(8), bool if name == "bernoulli_exp" else int
    assert type(draw(1, rng=rng)) is kind and draw(1, 0, rng=rng).shape == (0,)
    many = draw(1 if kind is bool else 300, (3, 50_000), rng=rng)
    assert (
        many.shape == (3, 50_000)
        and many.dtype == (np.int64, bool)[kind is bool]
        and (many[2] != many[0]).any()
    )


def test_integers():
    """5 takes the top 3 bits of a byte and refuses 5, 6, 7: each value has 32 of the 256 bytes."""
    assert (
        np.bincount(noise.integers(5, 160, rng=Script(bytes(range(256)) * 2))).tolist() == [32] * 5
    )
    assert not noise.integers(1, 10, rng=noise.SYSTEM).any()
    for high in (2, 7, 7 * 2**40, 3 * 2**60, 2**62):
        draws, parts = noise.integers(high, 60_000, rng=generator(9)), min(high, 7)
        assert 0 <= draws.min() and draws.max() < high
        assert (
            stats.chisquare(
                np.bincount([int(v) * parts // high for v in draws], minlength=parts)
            ).pvalue
            > ALARM
        )


@pytest.mark.parametrize("x", (Fraction(1, 1000), 0.1, Fraction(2, 3), 1, 4, 12.5))
def test_bernoulli_exp(x):
    hits, chance = (
        noise.bernoulli_exp(x, 500_000, rng=generator(10)).sum(),
        mp.exp(-mp.mpf(Fraction(str(x)))),
    )
    assert stats.binomtest(int(hits), 500_000, float(chance)).pvalue > ALARM
    for bits in (10, 16, 30, 47, 48, 60, 100, 200, 300):
        for side in (-1, 1):
            script, u = scripted(
                min(max(chance + side * mp.mpf(2) ** -bits, 0), 1 - mp.mpf(2) ** -350), 0
            )
            assert noise.bernoulli_exp(x, rng=script) == (u < chance)
    assert (
        noise.bernoulli_exp(0, 9, rng=generator(0)).all()
        and not noise.bernoulli_exp(1e9, 9, rng=generator(0)).any()
    )


@pytest.mark.parametrize("name", FLOATS)
def test_floating_samplers(name):
    draw, scales = getattr(noise, name), np.array([0.5, 20.0])
    for scale, column in zip(scales, draw(scales, (100_000, 2), rng=generator(11)).T):
        assert stats.kstest(column / scale, FLOATS[name].cdf).pvalue > ALARM
    assert isinstance(draw(2, rng=generator(1)), float) and draw(
        scales, rng=generator(1)
    ).shape == (2,)
    assert np.array_equal(draw(4, 5, rng=generator(1)), 4 * draw(Fraction(1), 5, rng=generator(1)))
    assert (
        stats.kstest((noise.uniform(-1, 3, 100_000, rng=generator(12)) + 1) / 4, "uniform").pvalue
        > ALARM
    )


def law_test(draws, name):
    """p-value of one-dimensional draws against the standard law of a floating sampler."""
    return stats.kstest(draws, FLOATS[name].cdf).pvalue


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("scale", [0.25, 1, 7.5, Fraction(9, 4), np.float32(3)])
def test_one_number_a_time_has_the_scale_it_is_asked_for(name, scale):
    """The shape of a real call: no size, or no array.

    Half the scale, or none, is caught with either.
    """
    draw = getattr(noise, name)
    alone = np.array([draw(scale, rng=rng) for rng in [generator(13)] for _ in range(4000)])
    rows = np.array([draw(scale, 1, rng=rng)[0] for rng in [generator(14)] for _ in range(4000)])
    for drawn in (alone, rows):
        assert law_test(drawn / float(scale), name) > ALARM
        assert law_test(drawn / float(scale) / 2, name) < ALARM
    assert law_test(alone * 0, name) < ALARM


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("scales", [[0.5, 20.0, 3.0], [[2.0], [5.0]], 4.0])
def test_every_coordinate_of_an_array_has_its_own_noise_of_its_own_scale(name, scales):
    shape = (2, 3)
    draws = np.array(
        [
            getattr(noise, name)(scales, shape, rng=rng)
            for rng in [generator(15)]
            for _ in range(4000)
        ]
    )
    flat = (draws / np.broadcast_to(scales, shape)).reshape(4000, 6)
    for i, column in enumerate(flat.T):
        assert (
            law_test(column, name) > ALARM
        )  # fails at half the scale and where a coordinate has no noise
        for other in flat.T[:i]:
            # Kendall's test has no moments to assume; equal or mirrored noise has a tau of 1 or -1
            assert stats.kendalltau(column, other).pvalue > ALARM


@pytest.mark.parametrize("name", [*FLOATS, "uniform", *EXACT])
def test_rng_is_required_and_checked(name):
    arguments = (0, 1, 2) if name == "uniform" else (1, 2)
    for wrong in (None, 7, np.random.RandomState(7), np.random):
        with pytest.raises(
            ValueError, match="rng must be a np.random.Generator or dputils.noise.SYSTEM"
        ) as refusal:
            getattr(noise, name)(*arguments, rng=wrong)
        assert wrong != 7 or "np.random.default_rng(7)" in str(refusal.value)
    with pytest.raises(TypeError, match="rng"):
        getattr(noise, name)(*arguments)
    if name in FLOATS or name == "uniform":
        with pytest.raises(
            ValueError,
            match="Generator for floating-point noise, got SYSTEM: .* draws exact integers",
        ):
            getattr(noise, name)(*arguments, rng=noise.SYSTEM)


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        *(
            (
                name,
                (value,),
                f"{'sigma' if 'gaussian' in name else 'scale'} must be positive and finite, "
                f"got {value!r}",
            )
            for name in (*FLOATS, *EXACT[:2])
            for value in (0, -1.5, math.nan, math.inf, "1", True, None)
        ),
        (
            "discrete_laplace",
            (2**50 + 1,),
            "scale must be between 2**-50 and 2**50, got Fraction(1125899906842625, 1)",
        ),
        ("discrete_gaussian", (1e16,), "sigma must be between 2**-50 and 2**50, got Fraction("),
        ("discrete_laplace", (1e-16,), "scale must be between 2**-50 and 2**50, got Fraction("),
        ("laplace", (1e-101,), "scale must be between 1e-100 and 1e+100, got 1e-101"),
        ("gaussian", (1e101,), "sigma must be between 1e-100 and 1e+100, got 1e+101"),
        ("exponential", ([1, 1e-101],), "scale must be between 1e-100 and 1e+100, got 1e-101"),
        ("discrete_laplace", ([1, 2],), "scale must be positive and finite, got [1, 2]"),
        ("discrete_laplace", (1, -1), "size must be at least 0, got -1"),
        ("discrete_laplace", (1, 2.0), "size must be an integer, got 2.0"),
        ("laplace", ([1, 0.0],), "scale must be between 1e-100 and 1e+100, got 0.0"),
        ("gaussian", ([1, math.nan],), "sigma must be between 1e-100 and 1e+100, got nan"),
        ("laplace", ([1, 2], 3), "scale must broadcast to size 3, got an array of shape (2,)"),
        ("gumbel", ([[1, 2]], 2), "scale must broadcast to size 2, got an array of shape (1, 2)"),
        ("uniform", (2, 1), "lower must be less than upper, got lower=2, upper=1"),
        ("integers", (0,), "high must be at least 1, got 0"),
        ("integers", (2**62 + 1,), "high must be at most 2**62, got 4611686018427387905"),
        ("integers", (2.0,), "high must be an integer, got 2.0"),
        ("bernoulli_exp", (-0.5,), "x must be at least 0, got -0.5"),
        ("bernoulli_exp", (math.nan,), "x must be finite, got nan"),
    ],
)
def test_refusals_name_the_argument_and_its_value(name, arguments, message):
    with pytest.raises(ValueError) as refusal:
        getattr(noise, name)(*arguments, rng=generator(0))
    assert message in str(refusal.value)
