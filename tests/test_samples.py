"""Mechanisms on a secret sample: their costs, the coins, the exact law of what they publish, and
what they refuse.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dputils import audit, gaussian, geometric, noise, randomized_response, samples, sensitivity
from dputils.accounting import ZCDP, Approximate, Ledger, Mechanism, Pure, Renyi, composition
from dputils.accounting.costs import subsampled
from dputils.accounting.curves import gaussian_delta
from dputils.accounting.renyi import ORDERS, sampled_gaussian_rdp

COUNT = sensitivity.of_count("add-remove", unit="person")


def count_on_sample(epsilon=1, rate=0.1, neighbours="add-remove"):
    return samples.poisson(geometric.mechanism(COUNT, epsilon), np.sum, rate, neighbours)


def mechanism_of(*costs, **changes):
    fields = {
        "name": "a mechanism",
        "costs": costs,
        "neighbours": "add-remove",
        "unit": "row",
        "read": lambda value: value,
        "draw": lambda value, rng: value,
    }
    return Mechanism(**{**fields, **changes})


# ------------------------------------------------------------------------------------------- costs


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon,delta,rate", [(1, 0, 0.1), (0.5, 1e-6, 0.01), (3, 1e-9, 1)])
def test_epsilon_and_delta_become_those_of_a_sample(epsilon, delta, rate, neighbours):
    own = Approximate(epsilon, delta) if delta else Pure(epsilon)
    stated = samples.poisson(mechanism_of(own), np.sum, rate, neighbours).costs
    least = subsampled(epsilon, delta, rate, neighbours)
    assert stated == ((Approximate(*least) if delta else Pure(least[0])),)


def test_gaussian_noise_on_a_sample_costs_its_renyi_curve_under_add_remove():
    inner = gaussian.mechanism(COUNT, mu=Fraction(2, 3))
    (cost,) = samples.poisson(inner, np.sum, 0.1, "add-remove").costs
    exact = sampled_gaussian_rdp(ORDERS, 1.5, 0.1)
    assert isinstance(cost, Renyi) and cost.orders == tuple(map(float, ORDERS))
    np.testing.assert_allclose(cost.divergences, exact, rtol=1e-12)
    both = gaussian.mechanism(COUNT, 1, 1e-6)
    kinds = [type(cost) for cost in samples.poisson(both, np.sum, 0.1, "add-remove").costs]
    assert kinds == [Renyi, Approximate]
    kinds = [type(cost) for cost in samples.poisson(both, np.sum, 0.1, "replace-one").costs]
    assert kinds == [Approximate]


def test_the_curve_of_gaussian_noise_on_a_sample_covers_its_exact_delta():
    """Against the exact curve, q delta(epsilon) at ln(1 + q (e^epsilon - 1))."""
    inner = gaussian.mechanism(COUNT, mu=1)
    cost = samples.poisson(inner, np.sum, 0.05, "add-remove").costs[0]
    for epsilon in (4.0, 6.0):
        exact = 0.05 * float(gaussian_delta(epsilon, 1.0))
        at = math.log1p(0.05 * math.expm1(epsilon))
        stated, _ = composition.epsilon_at([cost], exact, "renyi")
        assert at <= stated <= 1.5 * at


def test_a_sample_of_everybody_costs_the_same():
    assert count_on_sample(Fraction(1, 2), 1).costs == (Pure(Fraction(1, 2)),)


def test_a_ledger_books_the_cost_of_the_sample():
    ledger = Ledger(0.2, neighbours="add-remove", unit="person")
    ledger.release("a", count_on_sample(), np.ones(30, int), rng=np.random.default_rng(1))
    assert ledger.spent[0] == Fraction(repr(subsampled(1, 0, 0.1, "add-remove")[0]))


# --------------------------------------------------------------------------------------------- law


def law_of_count(table, epsilon, rate, top=4):
    """The exact law of the noisy count of a sample, clipped to 0, ..., top: all samples."""
    law = np.zeros(top + 1)
    for kept in itertools.product((0, 1), repeat=len(table)):
        total = sum(x for x, keep in zip(table, kept) if keep)
        weight = math.prod(rate if keep else 1 - rate for keep in kept)
        cdf = geometric.cdf(np.arange(top), 1 / epsilon, total)
        law += weight * np.diff(np.concatenate([[0.0], cdf, [1.0]]))
    return law / law.sum()


@pytest.mark.parametrize("epsilon,rate", [(1.0, 0.1), (0.3, 0.5), (2.0, 0.9)])
def test_no_pair_of_neighbours_exceeds_the_stated_epsilon_and_one_attains_it(epsilon, rate):
    pairs = sensitivity.neighbour_pairs((0, 1), 4, "add-remove")
    stated = float(count_on_sample(epsilon, rate).costs[0].epsilon)
    worst = max(
        audit.finite_epsilon(*(law_of_count(t, epsilon, rate) for t in pair)) for pair in pairs
    )
    assert worst == pytest.approx(stated, rel=1e-6)


def test_what_is_published_follows_the_law_of_the_sample():
    mechanism, rng = count_on_sample(1, 0.3), np.random.default_rng(7)
    drawn = [mechanism([1, 1, 0, 1], rng=rng) for _ in range(4000)]
    law = dict(enumerate(law_of_count((1, 1, 0, 1), 1, 0.3)))
    assert audit.law_test(np.clip(drawn, 0, 4).tolist(), law, rng=rng).passes()


def test_a_sample_by_a_rule_is_caught_by_the_law():
    rng = np.random.default_rng(7)
    exact = np.full(4000, sum([1, 1, 0, 1][::2]))
    drawn = np.clip(geometric.release(exact, 1, 1, rng=rng), 0, 4).tolist()
    law = dict(enumerate(law_of_count((1, 1, 0, 1), 1, 0.5)))
    assert not audit.law_test(drawn, law, rng=rng).passes()


@pytest.mark.parametrize("rate", [0.1, Fraction(1, 3), 1])
def test_coins_have_the_rate_and_are_independent(rate):
    kept = np.array(
        [samples.poisson_sample(3, rate, rng=noise.SYSTEM) for _ in range(3000)], dtype=int
    )
    codes = (kept @ [1, 2, 4]).tolist()
    law = {
        code: math.prod(float(rate) if code >> i & 1 else 1 - float(rate) for i in range(3))
        for code in range(8)
    }
    assert audit.law_test(codes, law, rng=np.random.default_rng(1)).passes()


def test_a_coin_is_exact_to_its_last_bit(monkeypatch):
    """With two bits at a time: 0.3 is 01.00 11 00 11 ... in base two, and so a uniform number with
    the bits 01 00 11 00 10 is below it, and one with 01 00 11 01 is not. One that begins with 01
    is not below a quarter.
    """
    monkeypatch.setattr(samples, "_BITS", 2)
    words = iter([[0, 2, 1, 1], [0, 0], [3, 3], [0, 1], [2], [0, 1]])

    def drawn(k, n, rng):
        found = np.array(next(words))
        assert k == 2 and len(found) == n
        return found

    monkeypatch.setattr(samples.bits, "words", drawn)
    kept = samples.poisson_sample(4, 0.3, rng=np.random.default_rng(1))
    assert kept.tolist() == [True, False, True, False]
    assert samples.poisson_sample(2, 0.25, rng=np.random.default_rng(1)).tolist() == [True, False]
    assert next(words, None) is None


# ----------------------------------------------------------------------------------- what it reads


def test_rows_of_a_table_of_columns_are_records():
    wide = sensitivity.of_counts(2, "add-remove", unit="person")
    inner = geometric.mechanism(wide, 100)
    whole = samples.poisson(inner, lambda rows: rows.sum(axis=0), 1, "add-remove")
    table = [[1, 2], [3, 4], [5, 6]]
    assert whole(table, rng=np.random.default_rng(1)).tolist() == [9, 12]
    assert whole(np.zeros((0, 2), int), rng=np.random.default_rng(1)).tolist() == [0, 0]


def test_exact_coins_and_exact_noise_draw_from_the_system():
    assert count_on_sample().exact
    count_on_sample()([1, 0, 1], rng=noise.SYSTEM)
    rounded = samples.poisson(gaussian.mechanism(COUNT, mu=1), np.sum, 0.1, "add-remove")
    assert not rounded.exact
    with pytest.raises(ValueError, match="rng must be a np.random.Generator"):
        rounded([1.0], rng=noise.SYSTEM)


def test_a_query_that_fails_on_no_records_is_refused_before_it_is_booked():
    ledger = Ledger(1, neighbours="add-remove", unit="person")
    first = samples.poisson(geometric.mechanism(COUNT, 1), lambda rows: rows[0], 0.1, "add-remove")
    with pytest.raises(IndexError):
        ledger.release("first", first, [3, 4], rng=np.random.default_rng(1))
    assert ledger.spent == (0, 0)


def test_unit_relation_and_sensitivity():
    same, crossed = count_on_sample(), count_on_sample(neighbours="replace-one")
    assert (same.unit, same.neighbours, same.sensitivity) == ("person", "add-remove", COUNT)
    assert (crossed.unit, crossed.neighbours) == ("person", "replace-one")
    assert crossed.sensitivity is None
    assert same.name == "geometric mechanism, scale 1, on a Poisson sample of rate 0.1"


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: samples.poisson(1, np.sum, 0.1, "add-remove"), "mechanism must be a Mechanism"),
        (
            lambda: samples.poisson(
                randomized_response.mechanism(2, 1), np.sum, 0.1, "replace-one"
            ),
            "mechanism must be for add-remove neighbours of the sample",
        ),
        (
            lambda: samples.poisson(mechanism_of(Pure(1)), None, 0.1, "add-remove"),
            "query must be a function of the sampled records, got None",
        ),
        (
            lambda: samples.poisson(mechanism_of(ZCDP(1)), np.sum, 0.1, "add-remove"),
            "mechanism must have a cost that sampling is known to lower under add-remove",
        ),
        (lambda: count_on_sample(rate=0), "rate must be positive and finite, got 0"),
        (lambda: count_on_sample(rate=1.5), "rate must be at most 1, got 1.5"),
        (lambda: count_on_sample(neighbours="both"), "neighbours must be one of 'add-remove', "),
        (lambda: count_on_sample(epsilon=501), "epsilon must be at most 500 for a sample"),
        (
            lambda: count_on_sample()(3, rng=np.random.default_rng(1)),
            "value must be a table, an array of records, got a single number",
        ),
        (
            lambda: samples.poisson_sample(-1, 0.1, rng=np.random.default_rng(1)),
            "n must be at least 0, got -1",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(message)
