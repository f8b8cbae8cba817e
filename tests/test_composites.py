"""Composites: estimates without bias by exact sums, shares against brute force and moments, the
release against its law and its refusals.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, composites, geometric, noise, sensitivity
from dputils.accounting import Ledger, Pure
from tests.examples import HOSTILE

ONE = [(1, 7, 1)]
TWO = [(1, 7, 1), (3.2, 5.1, 0.01)]


def rng(seed=0):
    return np.random.default_rng(seed)


def expected(g, f, s):
    """The mean of g(f + Z), to about 1e-15 of the largest term within 45 scales."""
    z = np.arange(-int(45 * s) - 40, int(45 * s) + 41)
    return math.fsum(np.exp(geometric.logpmf(z, s)) * g(f + z))


def corner(k):
    return np.log(np.maximum(k, 1))


@pytest.mark.parametrize("function", [corner, np.square, np.abs, lambda k: np.maximum(k, 0) ** 0.5])
@pytest.mark.parametrize("scale", [0.2, 1, 2.0, Fraction(7, 2), 10])
def test_the_estimate_has_no_bias(function, scale):
    for f in (-3, 0, 1, 2, 17, 1000):
        mean = expected(lambda k: composites.unbiased(function, k, scale), f, float(scale))
        exact = float(function(np.array(float(f))))
        assert mean == pytest.approx(exact, abs=1e-9 * (1 + abs(exact)))


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=9), st.floats(0.1, 100))
def test_the_estimate_of_a_square(released, scale):
    found = composites.unbiased(np.square, np.array(released), scale)
    exact = [k * k - geometric.variance(scale) for k in released]
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-6)


@pytest.mark.parametrize("k, scale", [(10**9, 10**4), (10**9 + 7, 10**7), (10**12, 10**9)])
def test_the_rounding_of_the_estimate_is_as_stated(k, scale):
    v, exact_bend = geometric.variance(scale), math.log1p(-1 / k**2)
    exact = math.log(k) - v / 2 * exact_bend
    found = float(composites.unbiased(np.log, k, scale))
    assert abs(found - exact) <= v * 4 * math.log(k + 1) * 2.0**-53 + 1e-12


def test_the_estimate_keeps_shapes():
    assert composites.unbiased(np.square, 3, 2).shape == ()
    assert composites.unbiased(np.square, np.zeros((2, 0), dtype=int), 2).shape == (2, 0)
    assert composites.unbiased(corner, np.ones((2, 3), dtype=np.uint8), 2).shape == (2, 3)


@pytest.mark.parametrize(
    "arguments, name",
    [
        ((np.square, 1.5, 2), "released"),
        ((np.square, 2**53, 2), "released"),
        ((np.square, [], 2), "released"),
        ((3, 1, 2), "function"),
        ((lambda k: np.where(k < 0, np.nan, k), 0, 2), "function"),
        ((lambda k: 1.0, [1, 2], 2), "function"),
        ((np.square, 1, 0), "scale"),
    ],
)
def test_the_estimate_refuses(arguments, name):
    with pytest.raises(ValueError, match=name):
        composites.unbiased(*arguments)


def by_hand(values, columns):
    """Exact shares in steps, record by record."""
    total = np.zeros((3,) * len(columns), dtype=object)
    for record in zip(*values, strict=True):
        parts = []
        for value, (low, high, grid) in zip(record, columns, strict=True):
            low, high, grid = (Fraction(repr(x)) for x in (low, high, grid))
            place = round((min(max(Fraction(repr(value)), low), high) - low) / grid)
            w = round((high - low) / grid)
            parts.append(np.array([(w - place) ** 2, 2 * place * (w - place), place**2], object))
        total += parts[0] if len(parts) == 1 else np.multiply.outer(*parts)
    return total


@given(
    st.lists(
        st.tuples(st.integers(-3, 12), st.decimals(2, 6, places=2).map(float)),
        max_size=12,
    )
)
def test_shares_by_hand(records):
    values = [[r[0] for r in records], [r[1] for r in records]]
    m = composites.mechanism(TWO, 1, "add-remove")
    assert (m.read(values) == by_hand(values, TWO)).all()
    m = composites.mechanism(ONE, 1, "add-remove")
    assert (m.read(values[:1]) == by_hand(values[:1], ONE)).all()


@pytest.mark.parametrize("columns", [[(0, 3, 1)], [(0, 2, 1), (-1, 1, 1)]])
def test_the_sensitivity_is_one_record(columns):
    m = composites.mechanism(columns, 1, "add-remove")
    domains = [range(low, high + 1) for low, high, _ in columns]
    records = np.array(np.meshgrid(*domains)).reshape(len(columns), -1).T.tolist()
    pairs = sensitivity.neighbour_pairs([tuple(r) for r in records], 3, "add-remove")

    def shares(table):
        return m.read([[r[i] for r in table] for i in range(len(columns))]).ravel()

    far = [np.abs(shares(a) - shares(b)).sum() for a, b in pairs]
    assert set(far) == {m.sensitivity.size}


def test_power_sums_are_those_of_the_table():
    x, y = rng().integers(1, 8, 500), rng(1).integers(320, 511, 500) / 100
    m = composites.mechanism(TWO, 1, "add-remove")
    sums = composites.power_sums(m.read([x, y]), TWO)
    t, u = (x - 1) / 6, (y - 3.2) / 1.9
    exact = [[np.sum(t**i * u**j) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(sums, exact, rtol=1e-12)
    m = composites.mechanism(ONE, 1, "add-remove")
    np.testing.assert_allclose(
        composites.power_sums(m.read([x]), ONE), [np.sum(t**i) for i in range(3)], rtol=1e-12
    )


@pytest.mark.parametrize("columns, epsilon", [(ONE, 0.3), (TWO, 2), (TWO, 0.05)])
def test_the_release_has_its_law(columns, epsilon):
    # false alarm 1e-6 each
    m = composites.mechanism(columns, epsilon, "add-remove", unit="person")
    for table in ([[], []], [[7, 1, 99], [5.1, 3.2, 4.0]]):
        values = table[: len(columns)]
        exact = by_hand(values, columns).astype(np.int64)
        drawn = [m(values, rng=r) - exact for r in [rng(3)] for _ in range(4000)]
        drawn = np.reshape(drawn, (4000, -1))
        assert audit.law_test(drawn, m.law(1), discrete=True, rng=rng(4)).passes()
        for twin in (drawn * 0, drawn // 4, drawn[:, :1] + 0 * drawn, 2 * drawn):
            assert not audit.law_test(twin, m.law(1), discrete=True, rng=rng(5)).passes()


def test_the_price_and_the_scale():
    m = composites.mechanism(TWO, 2, "add-remove", unit="person")
    assert m.costs == (Pure(2),) and m.unit == "person" and m.exact
    assert m.sensitivity.size == (6 * 190) ** 2 and m.sensitivity.norm == "l1"
    scale = geometric.scale((6 * 190) ** 2, 2)
    z = np.array([-1e6, 0, 3e5])
    np.testing.assert_allclose(m.law(1)(z), geometric.cdf(z, scale))
    ledger = Ledger(2, neighbours="add-remove", unit="person")
    assert ledger.release("shares", m, [[1], [4.0]], rng=noise.SYSTEM).shape == (3, 3)
    assert ledger.remaining == (0, 0)


@pytest.mark.parametrize("values", HOSTILE, ids=repr)
def test_private_records_never_raise(values):
    m = composites.mechanism(ONE, 1, "add-remove")
    column = [values, 4]
    assert m.read([column]).sum() == 2 * 36
    assert m(([*column],), rng=rng()).shape == (3,)


def test_missing_is_low_and_bounds_hold():
    m = composites.mechanism(ONE, 1, "add-remove")
    for odd, place in ((math.nan, 0), (None, 0), (-math.inf, 0), (1e300, 6), (10**400, 6)):
        assert m.read([[odd]]).tolist() == [(6 - place) ** 2, 0, place**2]
    assert m.read([[]]).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "columns, epsilon, neighbours, name",
    [
        ([], 1, "add-remove", "columns"),
        (ONE * 3, 1, "add-remove", "columns"),
        ((1, 7, 1), 1, "add-remove", "columns"),
        ([(1, 7)], 1, "add-remove", "columns"),
        ([(0, 2**16, 1)], 1, "add-remove", "columns"),
        ([(7, 1, 1)], 1, "add-remove", "lower"),
        ([(1, 7, 0.4)], 1, "add-remove", "grid"),
        (ONE, 0, "add-remove", "epsilon"),
        (ONE, 1, "replace-one", "neighbours"),
        (ONE, 1, "both", "neighbours"),
    ],
)
def test_public_arguments_are_refused(columns, epsilon, neighbours, name):
    with pytest.raises(ValueError, match=name):
        composites.mechanism(columns, epsilon, neighbours)


def test_shapes_are_refused():
    m = composites.mechanism(TWO, 1, "add-remove")
    for values in ([[1]], [[1], [1, 2]], [1, 2], 3, [np.array(["a"]), [1]]):
        with pytest.raises(ValueError, match="value"):
            m.read(values)
    with pytest.raises(ValueError, match="shares"):
        composites.power_sums(np.zeros(3), TWO)
    with pytest.raises(ValueError, match="columns"):
        composites.power_sums(np.zeros(3), [])


def test_generators():
    m = composites.mechanism(ONE, 1, "add-remove")
    with pytest.raises(ValueError, match="rng"):
        m([[1]], rng=7)
    assert m([[1]], rng=noise.SYSTEM).dtype == np.int64
