"""Ratios: the law of a quotient against quadrature and simulation, its clamped error, the split of
a budget against a search, the release against its law and its refusals.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from dputils import audit, laplace, noise, ratios, sensitivity
from dputils.accounting import BudgetExceeded, Ledger, Pure
from tests.examples import HOSTILE

CASES = [  # f1, f2, b1, b2
    (14.4, 3, 10.0, 1.0),
    (14.4, 3, 100.0, 0.526),
    (28.1, 3, 6.667, 2.0),
    (0.0, 5, 2.0, 3.0),
    (7.0, 0, 2.0, 1.0),
    (0.0, 0, 1.0, 1.0),
    (-14.4, 3, 10.0, 1.0),
]
POINTS = [-30.0, -3.0, -0.5, 0.0, 1e-9, 0.5, 1.0, 4.8, 10.0, 12.0, 200.0]


def rng(seed=0):
    return np.random.default_rng(seed)


def by_quadrature(r, f1, f2, b1, b2):
    """P(R <= r), integrated over the noise of the denominator."""

    def inner(y):
        at = laplace.cdf(r * (f2 + y) - f1, b1)
        return math.exp(-abs(y) / b2) / (2 * b2) * float(at if f2 + y > 0 else 1 - at)

    cuts = {-f2, 0.0, *((f1 / r - f2,) if r else ())}
    limits = sorted({-60 * b2 - f2, *(c for c in cuts if abs(c) < 60 * b2), 60 * b2})
    pieces = zip(limits, limits[1:], strict=False)
    return math.fsum(quad(inner, lo, hi, epsabs=1e-13, limit=400)[0] for lo, hi in pieces)


@pytest.mark.parametrize("case", CASES)
def test_the_law_equals_its_quadrature(case):
    exact = [by_quadrature(r, *case) for r in POINTS]
    np.testing.assert_allclose(ratios.cdf(np.array(POINTS), *case), exact, atol=1e-9)


def test_the_law_where_scales_coincide():
    # |r| b2 = b1, and next to it
    for r in (2.0, -2.0, 2.0 + 1e-12, 2.0 - 1e-9):
        assert ratios.cdf(r, 5.0, 3, 4.0, 2.0) == pytest.approx(
            by_quadrature(r, 5.0, 3, 4.0, 2.0), abs=1e-9
        )
        assert ratios.difference_cdf(-3.0, r, 4.0, 2.0) == pytest.approx(
            0.5 * (1 + 3 / 8) * math.exp(-3 / 4), abs=1e-8
        )


@given(st.floats(-1e3, 1e3), st.integers(0, 500), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_law_is_one(f1, f2, b1, b2):
    far = np.geomspace(1e-6, 1e9, 60)
    law = ratios.cdf(np.concatenate([-far[::-1], far]), f1, f2, b1, b2)
    assert np.isfinite(law).all() and (np.diff(law) >= -1e-12).all()
    assert law.min() >= 0 and law.max() <= 1


def test_the_law_fits_draws():
    # the distance of 200,000 draws exceeds 0.00603 with probability 1e-6 (Dvoretzky, Kiefer,
    # Wolfowitz and Massart: 2 exp(-2 n d^2))
    f1, f2, b1, b2 = 14.4, 3, 10.0, 1.0
    draws = (f1 + noise.laplace(b1, 200_000, rng=rng())) / (
        f2 + noise.laplace(b2, 200_000, rng=rng(1))
    )
    law = ratios.cdf(np.sort(draws), f1, f2, b1, b2)
    places = np.arange(1, 200_001) / 200_000
    assert np.abs(law - places).max() < math.sqrt(math.log(2e6) / 4e5) + 5e-6


def test_the_difference_has_its_law():
    v = np.linspace(-40, 40, 81)
    for r in (0.0, 0.3, 4.8, -4.8):
        for b1, b2 in ((10.0, 1.0), (1.0, 5.0)):
            exact = [
                quad(
                    lambda y: math.exp(-abs(y) / b2) / (2 * b2) * laplace.cdf(x + r * y, b1),
                    -60 * b2,
                    60 * b2,
                    points=sorted({0.0, max(-50 * b2, min(50 * b2, -x / r))} if r else {0.0}),
                    limit=400,
                )[0]
                for x in v[::8]
            ]
            np.testing.assert_allclose(ratios.difference_cdf(v[::8], r, b1, b2), exact, atol=1e-7)


def test_the_tail_has_index_one():
    f1, f2, b1, b2 = 14.4, 3, 20 / 3, 2.0
    limit = math.exp(-f2 / b2) / b2 * (f1 + b1 * math.exp(-f1 / b1))
    t = 1e6
    tail = 1 - ratios.cdf(t, f1, f2, b1, b2) + ratios.cdf(-t, f1, f2, b1, b2)
    assert t * tail == pytest.approx(limit, rel=1e-4)


@pytest.mark.parametrize("case", CASES[:3])
def test_the_clamped_error_fits_draws(case):
    f1, f2, b1, b2 = case
    draws = (f1 + noise.laplace(b1, 400_000, rng=rng(2))) / (
        f2 + noise.laplace(b2, 400_000, rng=rng(3))
    )
    squared = (np.clip(draws, 4, 10) - f1 / f2) ** 2
    # bounded by 36: Hoeffding, false alarm at most 1e-6
    assert abs(squared.mean() - ratios.squared_error(*case, 4, 10)) < 36 * math.sqrt(
        math.log(2e6) / 8e5
    )


def test_the_clamped_error_equals_a_quadrature():
    f1, f2, b1, b2 = CASES[0]
    r = f1 / f2
    exact = (
        quad(lambda x: 2 * (x - r) * (1 - ratios.cdf(x, *CASES[0])), r, 10)[0]
        + quad(lambda x: 2 * (r - x) * ratios.cdf(x, *CASES[0]), 4, r)[0]
    )
    assert ratios.squared_error(f1, f2, b1, b2, 4, 10) == pytest.approx(exact, rel=1e-9)
    # a large count: the delta method
    near = ratios.squared_error(7e4, 1e4, 10.0, 1.0, 4, 10)
    assert near == pytest.approx(2 / 1e8 * (100 + 49), rel=1e-5)


@given(
    st.floats(1e-6, 1e3),
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6),
)
def test_the_split_is_exact_and_stationary(epsilon, weights):
    shares = ratios.split(epsilon, weights)
    assert sum(shares) == Fraction(repr(epsilon)) and min(shares) > 0
    slopes = [w**2 / float(s) ** 3 for w, s in zip(weights, shares, strict=True)]
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)


def test_no_other_split_is_better():
    weights = [10.0, 4.8]
    best = ratios.split(2, weights)
    error = sum((w / float(s)) ** 2 for w, s in zip(weights, best, strict=True))
    x = np.linspace(0.01, 1.99, 1999)
    assert error <= (100 / x**2 + 4.8**2 / (2 - x) ** 2).min() + 1e-12
    assert error == pytest.approx((10 ** (2 / 3) + 4.8 ** (2 / 3)) ** 3 / 4)


@pytest.mark.parametrize("values", [[], [math.nan] * 3, HOSTILE, np.array([]), [9.6, 9.4]])
def test_the_release_never_refuses_a_record(values):
    made = ratios.mechanism(4, 10, 1, 1, "add-remove")
    with np.errstate(all="raise"):
        total, count = made(values, rng=rng())
    assert math.isfinite(total) and math.isfinite(count)


def test_one_record_moves_sum_and_count_no_further_than_stated():
    made = ratios.mechanism(4, 10, 1, 1, "add-remove")
    for record in [*HOSTILE, 4, 10, -1e300, 1e300, math.nan, math.inf]:
        moved = made.read([5.0, record]) - made.read([5.0])
        assert 4 - 1e-9 <= moved[0] <= 10 + 1e-9 and moved[1] == 1
    assert made.read([math.nan])[0] == 7


def test_the_release_is_two_independent_laplace_noises():
    made = ratios.mechanism(4, 10, 1.5, 0.5, "add-remove", unit="student")
    assert made.costs == (Pure(2),)
    draws = np.array([made([4.8, 4.9], rng=rng_) for rng_ in [rng(5)] for _ in range(6000)])
    scaled = (draws - [9.7, 2]) / [10 / 1.5, 2]
    audit.assert_law(scaled, lambda x: laplace.cdf(x, 1.0))
    v = (draws - [9.7, 2]) @ [1, -4.85]
    audit.assert_law(v, lambda x: ratios.difference_cdf(x, 4.85, 10 / 1.5, 2))


def _one_draw(n):
    y = noise.laplace(1.0, n, rng=rng(6))
    return 10 * y, y


def _truth(n):
    shown = rng(8).random(n) < 0.02
    y = np.where(shown, 0, noise.laplace(10.0, n, rng=rng(6)))
    return y, np.where(shown, 0, noise.laplace(1.0, n, rng=rng(7)))


def _scaled(c, d):
    return lambda n: (noise.laplace(c, n, rng=rng(6)), noise.laplace(d, n, rng=rng(7)))


@pytest.mark.parametrize(
    "broken",
    [_one_draw, _truth, _scaled(2.5, 0.25), _scaled(6.0, 1.0)],
    ids=["one draw", "truth", "a quarter of the noise", "sensitivity of the range"],
)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_audit_catches_broken_releases(broken, share):
    # the difference alone misses some of them where one noise dominates; pair and difference do not
    scale = np.array([0.5 / share, 0.5 / (1 - share)])
    y1, y2 = broken(8000)
    pair = np.column_stack([y1 / 10, y2])
    v = y1 * scale[0] - 4.8 * y2 * scale[1]
    b1, b2 = 10 * scale[0], scale[1]
    tests = [
        audit.law_test(pair, lambda x: laplace.cdf(x, 1.0)),
        audit.law_test(v, lambda x: ratios.difference_cdf(x, 4.8, b1, b2)),
    ]
    assert not all(test.passes() for test in tests)


def test_a_ledger_books_both_epsilons_once():
    ledger = Ledger(2, neighbours="add-remove", unit="student")
    made = ratios.mechanism(4, 10, 1.5, 0.5, "add-remove", unit="student")
    ledger.release("average", made, [4.8], rng=rng())
    assert ledger.remaining == (0, 0)
    with pytest.raises(BudgetExceeded):
        ledger.release("again", made, [4.8], rng=rng())
    assert made == ratios.mechanism(4, 10, 1.5, 0.5, "add-remove", unit="student")
    assert sensitivity.of_sum(4, 10, "add-remove").size == 10


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ratios.mechanism(10, 4, 1, 1, "add-remove"), "lower"),
        (lambda: ratios.mechanism(4, 10, 0, 1, "add-remove"), "epsilon"),
        (lambda: ratios.mechanism(4, 10, 1, math.nan, "add-remove"), "epsilon"),
        (lambda: ratios.mechanism(4, 10, 1, 1, "replace-one"), "neighbours"),
        (lambda: ratios.mechanism(4, 1e13, 1, 1, "add-remove"), "upper"),
        (lambda: ratios.cdf(1, 1, -1, 1, 1), "f2"),
        (lambda: ratios.cdf(1, math.inf, 1, 1, 1), "f1"),
        (lambda: ratios.cdf(1, 1, 1, 0, 1), "b1"),
        (lambda: ratios.cdf(1, 1, 1, 1, -1), "b2"),
        (lambda: ratios.difference_cdf(1, 1, 1, "x"), "b2"),
        (lambda: ratios.squared_error(1, 0, 1, 1, 0, 1), "f2"),
        (lambda: ratios.squared_error(5, 1, 1, 1, 0, 1), "f1/f2"),
        (lambda: ratios.squared_error(1, 1, 1, 1, 2, 1), "lower"),
        (lambda: ratios.split(0, [1, 1]), "epsilon"),
        (lambda: ratios.split(1, []), "weights"),
        (lambda: ratios.split(1, "ab"), "weights"),
        (lambda: ratios.split(1, [1, 0]), r"weights\[1\]"),
        (lambda: ratios.mechanism(4, 10, 1, 1, "add-remove")([1.0], rng=noise.SYSTEM), "rng"),
        (lambda: ratios.mechanism(4, 10, 1, 1, "add-remove")([1.0], rng=3), "rng"),
        (lambda: ratios.mechanism(4, 10, 1, 1, "add-remove")("ab", rng=rng()), "values"),
    ],
)
def test_refusals_name_the_argument(call, name):
    with pytest.raises(ValueError, match=rf"^{name} "):
        call()
