"""The ledger: exact sums, refusals before booking, parallel composition against laws that attain it."""
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, mechanisms, noise
from dputils.accounting import BudgetExceeded, Ledger

BOTH = ("add-remove", "replace-one")


def ledger(epsilon=1.0, delta=0.0, neighbours="add-remove"):
    return Ledger(epsilon, delta, neighbours=neighbours)


# ------------------------------------------------------------------------------------------------------- exact arithmetic


def test_ten_tenths_fit_one_and_not_a_bit_more():
    book = ledger(1.0, 1e-5)
    for i in range(10):
        book.spend(f"release {i}", 0.1, 1e-6)
    assert book.spent == (1, Fraction(1, 10**5)) and book.remaining == (0, 0)
    with pytest.raises(BudgetExceeded):
        book.spend("more", 1e-300)
    book.free("a mean")
    assert book.spent[0] == 1


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.integers(0, 9))
def test_decimal_costs_add_up_exactly(costs, places):
    total = Fraction(sum(costs), 10**places)
    book = ledger(total)
    for i, cost in enumerate(costs):
        book.spend(str(i), float(Fraction(cost, 10**places)))
        assert book.spent[0] == Fraction(sum(costs[:i + 1]), 10**places)
    assert book.remaining == (0, 0)
    with pytest.raises(BudgetExceeded):
        book.spend("more", Fraction(1, 10**30))


@pytest.mark.parametrize("epsilon", 10.0 ** np.arange(-5, 6))
def test_thirds_of_a_budget_as_fractions(epsilon):
    book = ledger(epsilon)
    third = Fraction(str(epsilon)) / 3
    for i in range(3):
        book.spend(str(i), third)
    assert book.remaining[0] == 0


# ------------------------------------------------------------------------------------------------------------- refusals


def test_nothing_is_booked_when_the_budget_is_exceeded():
    book = ledger(1.0, 1e-6)
    book.spend("first", 0.75)
    before = book.spent, book.costs(), book.record()
    for arguments in [("big", 0.2500001), ("big", 0.1, 2e-6), ("big", 10**300)]:
        with pytest.raises(BudgetExceeded):
            book.spend(*arguments)
        assert (book.spent, book.costs(), book.record()) == before
    book.spend("the rest", 0.25, 1e-6)


def test_the_message_says_what_is_asked_and_what_is_left():
    book = ledger(0.3)
    book.spend("first", 0.2)
    with pytest.raises(BudgetExceeded) as caught:
        book.spend("second", 0.1000001, 1e-9)
    assert str(caught.value) == "'second' asks for epsilon 0.1000001, delta 1e-09; left are epsilon 0.1, delta 0"
    assert isinstance(caught.value, ValueError)


def test_the_message_of_a_part_says_what_the_whole_table_would_pay():
    book = ledger(0.8, neighbours="replace-one")
    parts = book.partition("sex", str, ["f", "m"])
    with pytest.raises(BudgetExceeded) as caught:
        parts.spend("f", "count", 0.5)
    assert str(caught.value) == "'count' asks for epsilon 1, delta 0; left are epsilon 0.8, delta 0"
    parts.spend("f", "count", 0.4)
    assert book.spent == (Fraction(4, 5), 0)


def test_spend_first_then_draw():
    book, generator = ledger(0.5), np.random.default_rng(4)
    state = generator.bit_generator.state
    with pytest.raises(BudgetExceeded):
        book.spend("count", 1)
        mechanisms.geometric_release(3, 1, 1, rng=generator)
    assert generator.bit_generator.state == state


@pytest.mark.parametrize("call,message", [
    (lambda b: Ledger(0, neighbours="add-remove"), "epsilon must be positive and finite, got 0"),
    (lambda b: Ledger(math.inf, neighbours="add-remove"), "epsilon must be positive and finite, got inf"),
    (lambda b: Ledger(1, 1, neighbours="add-remove"), "delta must be in [0, 1), got 1"),
    (lambda b: Ledger(1, neighbours="unbounded"), "neighbours must be one of 'add-remove', 'replace-one', got 'unbounded'"),
    (lambda b: b.spend("x", -0.1), "epsilon must be positive and finite, got -0.1"),
    (lambda b: b.spend("x", math.nan), "epsilon must be positive and finite, got nan"),
    (lambda b: b.spend("x", True), "epsilon must be positive and finite, got True"),
    (lambda b: b.spend("x", 0.1, -1e-9), "delta must be in [0, 1), got -1e-09"),
    (lambda b: b.partition("p", str, []), "parts must be different names, at least one, got ()"),
    (lambda b: b.partition("p", str, ["a", "a"]), "parts must be different names, at least one, got ('a', 'a')"),
    (lambda b: [b.partition("p", str, ["a"]) for _ in range(2)], "name must be new to the ledger, got 'p' twice"),
    (lambda b: b.partition("p", str, ["a"]).spend("b", "x", 0.1), "part must be one of 'a', got 'b'"),
    (lambda b: b.partition("p", str, ["a"]).spend("a", "x", 0), "epsilon must be positive and finite, got 0"),
    (lambda b: b.partition("p", str, ["a"]).spend("a", "x", 0.1, 2), "delta must be in [0, 1), got 2"),
    (lambda b: b.partition("p", str, ["a"]).mask([1], "b"), "part must be one of 'a', got 'b'"),
])
def test_refusals_leave_the_ledger_empty(call, message):
    book = ledger()
    with pytest.raises(ValueError) as caught:
        call(book)
    assert str(caught.value) == message and type(caught.value) is ValueError
    assert book.spent == (0, 0) and book.costs() == []


# ------------------------------------------------------------------------------------------------- parallel composition


def parallel(neighbours, *spends):
    book = ledger(100, 0.9, neighbours)
    parts = book.partition("p", str, "abc")
    for part, epsilon, delta in spends:
        parts.spend(part, "x", epsilon, delta)
    return book.spent


def test_parts_cost_their_maximum_under_add_remove_and_twice_that_under_replace_one():
    spends = [("a", 0.1, 0), ("b", 0.3, 0), ("a", 0.25, 0), ("c", 0.05, 0)]
    assert parallel("add-remove", *spends) == (Fraction(35, 100), 0)
    assert parallel("replace-one", *spends) == (Fraction(70, 100), 0)


def test_partitions_and_whole_table_releases_add_up():
    book = ledger(2.0)
    first, second = (book.partition(name, str, "ab") for name in ("one", "two"))
    book.spend("total", 0.5)
    for part in "ab":
        first.spend(part, "count", 0.25)
        second.spend(part, "count", 0.5)
    second.spend("b", "sum", 0.5)
    assert book.spent == (Fraction(7, 4), 0)
    assert book.costs() == [("total", Fraction(1, 2)), ("one", Fraction(1, 4)), ("two", 1)]
    assert sum(cost for _, cost in book.costs()) == book.spent[0]
    with pytest.raises(BudgetExceeded):
        second.spend("b", "more", 0.3)
    second.spend("a", "more", 0.5)  # the other part pays nothing until it has caught up
    assert book.spent[0] == Fraction(7, 4)


def capped_geometric(count, n):
    """Geometric noise of ratio 1/2 on a count, the result clamped to 0..n: exactly ln 2 for counts that differ by one."""
    a = Fraction(1, 2)
    law = {r: (1 - a) / (1 + a) * a ** abs(r - count) for r in range(1, n)}
    law[0], law[n] = a**count / (1 + a), a ** (n - count) / (1 + a)
    assert sum(law.values()) == 1
    return law


@pytest.mark.parametrize("neighbours", BOTH)
def test_parallel_composition_books_what_released_counts_attain(neighbours):
    """Counts of two parts with exact laws: the epsilon found by enumeration over neighbours is the one that is booked."""
    n, step = 3, math.log(2)

    def joint(sizes):
        laws = [capped_geometric(size, n) for size in sizes]
        return {(x, y): laws[0][x] * laws[1][y] for x in laws[0] for y in laws[1]}

    tables = list(itertools.product(range(n + 1), repeat=2))  # sizes of parts a and b
    moves = {(1, 0), (0, 1)} if neighbours == "add-remove" else {(1, -1), (-1, 1)}
    pairs = [(s, t) for s in tables for t in tables if (s[0] - t[0], s[1] - t[1]) in moves]
    attained, _ = audit.mechanism_epsilon(joint, pairs)
    booked = parallel(neighbours, ("a", step, 0), ("b", step, 0))
    assert attained == pytest.approx(float(booked[0]), rel=1e-12)


@pytest.mark.parametrize("epsilon,delta", [(0.5, 1e-3), (1e-3, 0.01), (3.0, 1e-3)])
def test_replacing_inside_one_part_attains_the_group_delta(epsilon, delta):
    """Three laws, each (epsilon, delta)-close to the next: a table, without one of its records, with another in its place."""
    leaks = [(1 + math.exp(epsilon)) * delta, delta, 0.0]  # probabilities of one telling output
    laws = [{"tells": leak, "silent": 1 - leak} for leak in leaks]
    for a, b in zip(laws, laws[1:]):
        assert audit.finite_delta(a, b, epsilon) == pytest.approx(delta, rel=1e-9)
    booked = parallel("replace-one", ("a", epsilon, delta))
    attained = audit.finite_delta(laws[0], laws[2], 2 * epsilon)
    assert float(booked[0]) == pytest.approx(2 * epsilon)
    assert attained == pytest.approx(float(booked[1]), rel=1e-9) and booked[1] >= Fraction(leaks[0]) * (1 - Fraction(1, 10**15))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 500), st.integers(0, 50)), min_size=1, max_size=6))
def test_booked_parts_cover_every_replacement(spends):
    spends = [(part, e / 1000, d / 10**5) for part, e, d in spends]
    totals = {part: [sum(s[i] for s in spends if s[0] == part) for i in (1, 2)] for part in "abc"}
    epsilon, delta = (float(x) for x in parallel("replace-one", *spends))
    for (e1, d1), (e2, d2) in itertools.combinations(totals.values(), 2):  # out of one part, into another
        assert e1 + e2 <= epsilon + 1e-12 and min(1, d1 + d2) <= delta + 1e-12
    for e, d in totals.values():  # inside a part
        assert 2 * e <= epsilon + 1e-12 and min(1, (1 + math.exp(e)) * d) <= delta + 1e-12
    one = [float(x) for x in parallel("add-remove", *spends)]
    assert one == pytest.approx([max(t[i] for t in totals.values()) for i in (0, 1)]) and one[0] <= epsilon and one[1] <= delta


def test_a_group_delta_beyond_all_floats_is_refused_like_any_other():
    book = ledger(10**4, 0.5, "replace-one")
    parts = book.partition("p", str, "a")
    with pytest.raises(BudgetExceeded):
        parts.spend("a", "x", 1000, 1e-300)
    parts.spend("a", "x", 1000)
    assert book.spent == (2000, 0)


def test_a_mask_follows_the_rule_on_each_value():
    parts = ledger().partition("age", lambda age: "young" if age < 30 else "old", ["young", "old"])
    ages = np.array([20, 40, 29, math.nan])
    assert parts.mask(ages, "young").tolist() == [True, False, True, False]
    assert (parts.mask(ages, "young") ^ parts.mask(ages, "old")).all()
    assert parts.mask([], "old").shape == (0,) and parts.mask([], "old").dtype == bool


# ------------------------------------------------------------------------------------------------------------ what it shows


@pytest.mark.parametrize("neighbours", BOTH)
def test_table_and_record(neighbours):
    book = ledger(1.0, 1e-6, neighbours)
    assert list(book.table().columns) == ["release", "part", "epsilon", "delta"] and len(book.table()) == 0
    book.spend("count", 0.25, 1e-7)
    book.partition("sex", str, ["f", "m"]).spend("f", "sum", 0.125)
    book.free("mean")
    assert book.table().values.tolist() == [["count", "whole table", 0.25, 1e-7], ["sum", "sex: f", 0.125, 0.0],
                                            ["mean", "whole table", 0.0, 0.0]]
    record = book.record()
    spent = 0.375 if neighbours == "add-remove" else 0.5
    assert {k: v for k, v in record.items() if k != "entries"} == {
        "neighbours": neighbours, "epsilon": 1.0, "delta": 1e-6, "epsilon_spent": spent, "delta_spent": 1e-7}
    assert [entry["release"] for entry in record["entries"]] == ["count", "sum", "mean"]


def test_the_booked_epsilon_is_the_one_that_the_release_uses():
    book = ledger(0.3)
    book.spend("count", 0.3)
    scale = mechanisms.geometric_scale(1, 0.3)
    assert 1 / scale == book.spent[0]
    assert mechanisms.geometric_release(4, 1, book.spent[0], rng=np.random.default_rng(2)) == 4 + noise.discrete_laplace(
        scale, rng=np.random.default_rng(2))
