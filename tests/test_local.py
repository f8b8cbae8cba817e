"""Counts without a curator: each protocol's epsilon, (p, q), estimate and code, by enumeration and
against closed forms.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dputils import accounting, audit, local, noise
from dputils import randomized_response as rr

MAKERS = {
    "direct": local.direct,
    "symmetric": local.symmetric_unary,
    "unary": local.unary,
    "hashing": local.hashing,
    "hadamard": local.hadamard,
    "hashing to 5": lambda d, epsilon: local.hashing(d, epsilon, g=5),
}
EVERY = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def rng(label=0):
    return np.random.default_rng([85, label])


# ---- laws ----------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("d", [2, 4, 5])
@pytest.mark.parametrize("epsilon", [1e-5, 0.3, 1.0, 2.5])
def test_the_law_of_a_report_attains_epsilon_and_has_the_stated_p_and_q(make, d, epsilon):
    protocol = make(d, epsilon)
    laws = [local.law(protocol, v) for v in range(d)]
    for first, second in itertools.permutations(laws, 2):
        assert math.isclose(audit.finite_epsilon(first, second), epsilon, rel_tol=1e-8)
    for truth, law in enumerate(laws):
        assert math.isclose(math.fsum(law.values()), 1, rel_tol=1e-12)
        reports, chances = np.array(list(law)), np.array(list(law.values()))
        for value in range(d):
            stated = protocol.p if value == truth else protocol.q
            found = chances[protocol.support(reports, value)].sum()
            assert math.isclose(found, stated, rel_tol=1e-11)
    assert math.isclose(protocol.gap, protocol.p - protocol.q, rel_tol=1e-9, abs_tol=1e-16)


def test_laws_in_fractions():
    """e^epsilon = 3, without a float: unary bits, and a hash of four values to three numbers."""
    bits = {
        v: {
            b: math.prod(
                Fraction(1, 2) if u == v else Fraction(1, 4) if b[u] else Fraction(3, 4)
                for u in range(4)
            )
            for b in itertools.product((0, 1), repeat=4)
        }
        for v in range(4)
    }
    assert max(bits[0][b] / bits[3][b] for b in bits[0]) == 3
    hashes = {
        v: {
            (a, b, y): Fraction(1, 9)
            * Fraction(3 if y == (a * (v % 3) + b * (v // 3)) % 3 else 1, 5)
            for a, b, y in itertools.product(range(3), repeat=3)
        }
        for v in range(4)
    }
    assert max(hashes[1][r] / hashes[3][r] for r in hashes[1]) == 3
    for exact, protocol in (
        (bits, local.unary(4, math.log(3))),
        (hashes, local.hashing(4, math.log(3), g=3)),
    ):
        for v in range(4):
            law = local.law(protocol, v)
            assert law.keys() == exact[v].keys()
            assert all(math.isclose(law[r], exact[v][r], rel_tol=1e-12) for r in law)


@EVERY
def test_the_code_follows_the_law_for_every_value(make):
    d, epsilon = 4, 1.0
    protocol = make(d, epsilon)
    mechanism, source = local.mechanism(protocol), rng(1)
    truth = source.integers(d, size=6000)
    reports = mechanism(truth, rng=source)
    seen = [(v, *row) for v, row in zip(truth.tolist(), reports.tolist())]
    law = {(v, *r): c / d for v in range(d) for r, c in local.law(protocol, v).items()}
    assert audit.law_test(seen, law, rng=source).passes()  # false alarm at most 1e-6
    told = [(v, *row) for v, row in zip(truth.tolist(), mechanism(0 * truth, rng=source).tolist())]
    assert not audit.law_test(told, law, rng=source).passes()


@EVERY
def test_bits_of_the_operating_system_serve(make):
    mechanism = local.mechanism(make(6, 0.7))
    assert mechanism.exact
    assert len(mechanism([0, 5, 3], rng=noise.SYSTEM)) == 3


@pytest.mark.parametrize(("d", "g"), [(4, 2), (7, 3), (30, 5), (11, 13)])
def test_two_values_have_equal_hashes_for_one_in_g_of_the_hashes(d, g):
    m = local.hashing(d, 1.0, g=g).width - 1
    every = np.array(list(itertools.product(range(g), repeat=m)))
    table = np.array([local.hashed(every, v, g) for v in range(d)])
    for first, second in itertools.combinations(table, 2):
        assert np.count_nonzero(first == second) * g == g**m


def test_hashing_to_two_is_a_row_of_the_matrix_of_hadamard():
    matrix = np.array([[1]])
    for _ in range(3):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    rows = np.arange(8)[:, None] >> np.arange(3) & 1
    for value in range(8):
        assert ((-1) ** local.hashed(rows, value, 2) == matrix[:, value]).all()
    with_two, response = local.hashing(8, 1.0, g=2), local.hadamard(8, 1.0)
    assert (with_two.p, with_two.q, with_two.width) == (response.p, response.q, response.width)


def test_a_hash_of_an_array_is_that_of_each_value():
    coefficients, values = rng(2).integers(5, size=(40, 3)), np.arange(40)
    each = [local.hashed(coefficients[i : i + 1], v, 5)[0] for i, v in enumerate(values)]
    assert local.hashed(coefficients, values, 5).tolist() == each


# ---- estimates -----------------------------------------------------------------------------------


@EVERY
def test_the_estimate_is_unbiased_and_its_variance_exact_by_enumeration(make):
    d, epsilon, truth = 3, 0.8, (0, 2, 2)
    protocol = make(d, epsilon)
    counts = [truth.count(v) for v in range(d)]
    mean, square = np.zeros(d), np.zeros(d)
    alone = []  # the estimate of a sum of persons is the sum of their own
    for v in truth:
        law = local.law(protocol, v)
        own = np.array([local.estimate(protocol, np.array([r]))[0] for r in law])
        chances = np.array(list(law.values()))
        alone.append((chances @ own, chances @ own**2))
    mean = sum(first for first, _ in alone)
    square = sum(second - first**2 for first, second in alone)
    np.testing.assert_allclose(mean, counts, atol=1e-10)
    np.testing.assert_allclose(square, local.variance(protocol, counts, 3), rtol=1e-10)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 4.0])
def test_variances_in_closed_form(epsilon):
    n, c = 1000, math.exp(epsilon)
    held = np.array([0, 10, 1000.0])
    least = n / math.sinh(epsilon / 2) ** 2
    for protocol, closed in (
        (local.unary(40, epsilon), least + held),
        (local.hadamard(40, epsilon), least + n - held),
        (local.symmetric_unary(40, epsilon), n / (4 * math.sinh(epsilon / 4) ** 2) + 0 * held),
        (
            local.direct(40, epsilon),
            n * (38 + c) / math.expm1(epsilon) ** 2 + held * 38 / math.expm1(epsilon),
        ),
    ):
        np.testing.assert_allclose(local.variance(protocol, held, n), closed, rtol=1e-7)
    assert local.variance(local.direct(9, epsilon), 5, n) == pytest.approx(
        n**2 * rr.variance(5 / n, n, 9, epsilon)
    )


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0, 2.0, 3.0, 6.0])
def test_direct_encoding_wins_below_three_e_to_epsilon_plus_two(epsilon):
    border = 3 * math.exp(epsilon) + 2
    bits = local.variance(local.unary(2, epsilon), 0, 1)
    for d in range(2, math.ceil(2 * border)):
        assert (local.variance(local.direct(d, epsilon), 0, 1) < bits) == (d < border)


@pytest.mark.parametrize("epsilon", np.geomspace(1e-5, 11, 80))
def test_the_best_prime_is_the_best_and_costs_at_most_three_percent(epsilon):
    g, ratio = local.best_groups(epsilon), math.exp(epsilon)

    def cost(k):
        return (ratio + k - 1) ** 2 / (k - 1)

    primes = [k for k in range(2, min(int(3 * ratio) + 9, 3000)) if all(k % i for i in range(2, k))]
    if ratio < 900:
        assert cost(g) == min(map(cost, primes))
    assert cost(g) <= 1.031 * 4 * ratio
    assert local.best_groups(500) == 65521


def test_estimates_of_many_people_are_within_their_errors():
    truth = np.repeat(np.arange(30), np.arange(30) * 20)
    counts = np.bincount(truth, minlength=30)
    for label, make in enumerate(MAKERS.values()):
        protocol = make(30, 2.0)
        reports = local.mechanism(protocol)(truth, rng=rng(10 + label))
        found, errors = local.estimate(protocol, reports)
        exact = np.sqrt(local.variance(protocol, counts, truth.size))
        assert (np.abs(found - counts) < 6.5 * exact).all()  # false alarm below 1e-8 each
        np.testing.assert_allclose(errors, exact, rtol=0.35)


def test_no_reports_at_all():
    protocol = local.unary(4, 1.0)
    counts, errors = local.estimate(protocol, np.zeros((0, 4), dtype=int))
    assert counts.tolist() == errors.tolist() == [0] * 4


# ---- private and public --------------------------------------------------------------------------


@EVERY
def test_private_values_decide_no_error(make):
    mechanism = local.mechanism(make(4, 1.0))
    odd = [0, -7, 99, math.nan, None, "text", 2.4, 2.5, 1.5, math.inf, 10**400, pd.NA]
    read = [0, 0, 3, 0, 0, 0, 2, 2, 2, 3, 3, 0]
    assert mechanism(odd, rng=rng(3)).tolist() == mechanism(read, rng=rng(3)).tolist()
    assert len(mechanism([], rng=rng(3))) == 0


@EVERY
def test_a_ledger_books_one_epsilon(make):
    mechanism = local.mechanism(make(3, 0.5))
    ledger = accounting.Ledger(1.0, neighbours="replace-one", unit=local.UNIT)
    ledger.release("first", mechanism, [0, 1, 2], rng=rng(5))
    assert ledger.spent == (Fraction(1, 2), 0)
    ledger = accounting.Ledger(1.0, neighbours="add-remove", unit=local.UNIT)
    with pytest.raises(ValueError, match="add-remove"):
        ledger.release("first", mechanism, [0, 1, 2], rng=rng(5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: local.direct(1, 1.0), "d must be at least 2, got 1"),
        (lambda: local.unary(2.5, 1.0), "d must be an integer, got 2.5"),
        (lambda: local.unary(2**21, 1.0), "d must be between 2 and 1e+06, got 2097152"),
        (lambda: local.hadamard(4, -1.0), "epsilon must be positive and finite, got -1.0"),
        (lambda: local.symmetric_unary(4, 501), "epsilon must be between 1e-05 and 500, got 501"),
        (lambda: local.hashing(4, 1.0, g=1), "g must be at least 2, got 1"),
        (lambda: local.hashing(4, 1.0, g=6), "g must be a prime, got 6"),
        (lambda: local.hashing(4, 1.0, g=65537), "g must be between 2 and 65521, got 65537"),
        (lambda: local.best_groups(0), "epsilon must be positive and finite, got 0"),
        (lambda: local.law(local.direct(4, 1.0), 4), "value must be between 0 and 3, got 4"),
        (
            lambda: local.law(local.unary(18, 1.0), 0),
            "protocol must have at most 131072 reports, got 262144",
        ),
        (
            lambda: local.supports(local.unary(3, 1.0), np.zeros((5, 2), dtype=int)),
            "reports must have shape (n, 3), got (5, 2)",
        ),
        (
            lambda: local.supports(local.direct(3, 1.0), np.zeros((5, 1))),
            "reports must hold integers, got float64",
        ),
        (
            lambda: local.estimate(local.direct(3, 1.0), np.array([[3]])),
            "reports must hold numbers from 0 to 2",
        ),
        (lambda: local.variance(local.direct(3, 1.0), 0, -1), "n must be at least 0, got -1"),
        (
            lambda: local.variance(local.direct(3, 1.0), -1, 4),
            "count must be between 0 and 4, got -1.0",
        ),
        (
            lambda: local.variance(local.direct(3, 1.0), [2, math.nan], 4),
            "count must be between 0 and 4, got [2.0, nan]",
        ),
        (
            lambda: local.mechanism(local.direct(3, 1.0))(np.zeros((2, 2)), rng=noise.SYSTEM),
            "values must have shape (n,), got (2, 2)",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message
