"""The ledger: exact sums, refusals before booking, parallel composition against laws that attain it, adversaries, plans."""
import functools
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import accounting, audit, geometric, laplace, noise
from dputils.accounting import accounts, composition, costs, curves, losses, renyi
from dputils.accounting import BudgetExceeded, Ledger
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure

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
        geometric.release(3, 1, 1, rng=generator)
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
    (lambda b: b.partition("p", str, []), "parts must be different strings, at least one, got ()"),
    (lambda b: b.partition("p", str, ["a", "a"]), "parts must be different strings, at least one, got ('a', 'a')"),
    (lambda b: b.partition("p", str, ["a", 1]), "parts must be different strings, at least one, got ('a', 1)"),
    (lambda b: b.partition("p", str, [["a"]]), "parts must be different strings, at least one, got (['a'],)"),
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


class Odd:
    def __eq__(self, other):
        raise RuntimeError("the value was 17")

    __hash__ = None


class AlwaysEqual(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def failing(error):
    def rule(value):
        if value == 17:
            raise error("17")
        return "a"
    return rule


@pytest.mark.parametrize("rule", [
    lambda v: pd.NA if v == 17 else "a", lambda v: np.array(["a", "a"]) if v == 17 else "a", lambda v: Odd() if v == 17 else "a",
    lambda v: AlwaysEqual("b") if v == 17 else "a", lambda v: ["a"] if v == 17 else "a", lambda v: None if v == 17 else "a",
    lambda v: {1: "a", 2: "a"}[v], lambda v: "a" + (None if v == 17 else ""), failing(TypeError), failing(KeyError), failing(StopIteration)])
def test_no_private_value_decides_whether_a_mask_raises(rule):
    parts = ledger().partition("p", rule, ["a", "c"])
    assert parts.mask([1, 17, 2], "a").tolist() == [True, False, True]
    assert parts.mask([17, 17], "c").tolist() == [False, False]


def test_names_from_an_array_of_strings_count():
    parts = ledger().partition("p", lambda v: np.array(["a", "b"])[v], np.array(["a", "b"]))
    assert parts.mask([0, 1, 0], "a").tolist() == [True, False, True] and parts.mask([0, 1], np.str_("b")).tolist() == [False, True]


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
    scale = geometric.scale(1, 0.3)
    assert 1 / scale == book.spent[0]
    assert geometric.release(4, 1, book.spent[0], rng=np.random.default_rng(2)) == 4 + noise.discrete_laplace(
        scale, rng=np.random.default_rng(2))


# ------------------------------------------------------------------------------------------------- typed costs and filters


def test_typed_costs_and_numbers_are_the_same_to_a_basic_ledger():
    one, two = ledger(1, 1e-5), ledger(Approximate(1, 1e-5))
    one.spend("a", 0.1), one.spend("b", 0.2, 1e-6)
    two.spend("a", Pure(0.1)), two.spend("b", Approximate(0.2, 1e-6))
    assert one.record() == two.record() and one.spent == two.spent and one.table().equals(two.table())
    assert one.unit == "epsilon" and one.budget == (1, Fraction(1, 10**5))


@pytest.mark.parametrize("budget,account,unit,cap", [
    (ZCDP(0.5), "zcdp", "rho", Fraction(1, 2)), (Gaussian(0.3), "gaussian", "mu^2", Fraction(9, 100)),
    (Pure(2), "basic", "epsilon", 2)])
def test_a_budget_in_its_own_notion(budget, account, unit, cap):
    book = ledger(budget)
    assert (book.account, book.unit, book.budget) == (account, unit, (cap, 0))


def test_zcdp_and_gaussian_amounts_add_up_exactly():
    book = ledger(ZCDP(0.5))
    book.spend("a", 0.1), book.spend("b", ZCDP(0.1)), book.spend("c", Gaussian(0.2))
    assert book.costs() == [("a", Fraction(5, 1000)), ("b", Fraction(1, 10)), ("c", Fraction(2, 100))]
    book.spend("rest", ZCDP(Fraction(375, 1000)))
    assert book.remaining == (0, 0)
    with pytest.raises(BudgetExceeded) as caught:
        book.spend("more", ZCDP(1e-300))
    assert str(caught.value) == "'more' asks for rho 1e-300; left are rho 0"
    book = ledger(Gaussian(1))
    book.spend("a", Gaussian(0.6)), book.spend("b", Gaussian(0.8)), book.free("c")
    assert book.remaining == (0, 0) and book.costs()[-1] == ("c", 0)
    assert list(book.table().columns) == ["release", "part", "cost", "mu^2"] and book.table()["cost"].tolist() == ["mu 0.6", "mu 0.8", ""]
    assert book.record() == {"neighbours": "add-remove", "account": "gaussian", "mu^2": 1.0, "mu^2_spent": 1.0,
                             "entries": book.table().to_dict("records")}


@pytest.mark.parametrize("epsilon,delta", [(0.1, 1e-9), (1, 1e-6), (1 / 3, 1e-12), (8, 1e-5), (30, 0.01)])
def test_a_budget_is_converted_once_and_on_the_safe_side(epsilon, delta):
    for account in ("zcdp", "gaussian"):
        book = Ledger(epsilon, delta, neighbours="add-remove", account=account)
        cap = book.budget[0]
        cost = ZCDP(cap) if account == "zcdp" else Gaussian(book.cap.mu)
        assert composition.epsilon_at([cost], delta, account)[0] <= epsilon * (1 + 1e-9)
        assert epsilon * (1 - 1e-6) <= book.total("approximate") <= epsilon
        book.spend("all", cost)
        assert book.remaining == (0, 0)
        with pytest.raises(BudgetExceeded):
            book.spend("more", 1e-9)
        record = book.record()
        assert (record["epsilon"], record["delta"], record[book.unit]) == (epsilon, delta, float(cap))


@pytest.mark.parametrize("call,message", [
    (lambda: ledger(1, 1e-6).spend("x", ZCDP(1)), "the basic account cannot take a cost of rho 1; open the ledger with account='zcdp'"),
    (lambda: ledger(1, 1e-6).spend("x", Gaussian(1)),
     "the basic account cannot take a cost of mu 1; open the ledger with account='gaussian' or account='zcdp'"),
    (lambda: ledger(ZCDP(1)).spend("x", 1, 1e-9), "the zcdp account cannot take a cost of epsilon 1, delta 1e-09; a basic ledger adds deltas"),
    (lambda: ledger(Gaussian(1)).spend("x", ZCDP(1)), "the gaussian account cannot take a cost of rho 1; open the ledger with account='zcdp'"),
    (lambda: ledger(Gaussian(1)).spend("x", 1, 1e-9),
     "the gaussian account cannot take a cost of epsilon 1, delta 1e-09; a basic ledger adds deltas"),
    (lambda: ledger(1).spend("x", Pure(0.1), 1e-9), "delta must be left out beside a cost, got 1e-09 beside Pure(epsilon=Fraction(1, 10))"),
    (lambda: ledger(1).spend("x"), "epsilon must be positive and finite, got None"),
    (lambda: account("zcdp", 1e-300, 1e-300),
     "epsilon and delta must be larger for the zcdp account, whose cap would be 0, got epsilon 1e-300, delta 1e-300"),
    (lambda: account("gaussian", 1, Fraction(1, 10**400)),
     "epsilon and delta must be larger for the gaussian account, whose cap would be 0, got epsilon 1, delta 0"),
    (lambda: account("basic", 1, 1e-3, plan=[("a", 0.5)]).spend("a", delta=0.3), "delta must be left out beside a planned label, got 0.3"),
    (lambda: account("basic", 1, 1e-3, plan=[("a", 0.5)]).spend("a", delta=None), "delta must be in [0, 1), got None"),
    (lambda: account("basic", 1, 1e-3, plan=[("a", 0.5)]).spend("a", 0.5, 0.3),
     "cost of 'a' must be the planned one, epsilon 0.5, got epsilon 0.5, delta 0.3"),
    (lambda: account("zcdp", 1, 0), "delta must be positive for the zcdp account, got 0"),
    (lambda: account("basic", ZCDP(1), 0), "account must be 'zcdp' for a budget of rho 1, got 'basic'"),
    (lambda: account("exact", Gaussian(1), 0), "account must be 'gaussian' for a budget of mu 1, got 'exact'"),
    (lambda: account("rdp", 1, 0), "account must be one of 'basic', 'advanced', 'zcdp', 'gaussian', 'exact', 'numerical', got 'rdp'"),
])
def test_refusals_of_kinds(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message and type(caught.value) is ValueError


def account(name, epsilon, delta, neighbours="add-remove", **more):
    return Ledger(epsilon, delta, neighbours=neighbours, account=name, **more)


def test_a_cap_for_a_delta_between_two_floats_is_rounded_down():
    small = Fraction(8, 5) * Fraction(1, 2**1074)  # the nearest float is a quarter above
    with mpmath.workdps(60):
        for epsilon in (0.5, 3, 40):
            log, e = -mpmath.log(mpmath.mpf(8) / 5 / mpmath.mpf(2) ** 1074), mpmath.mpf(epsilon)
            t = mpmath.findroot(lambda t: (log - mpmath.log1p(t)) * (1 + 2 * t) / t**2 - mpmath.log1p(1 / t) - e,
                                log / e * (1 + mpmath.sqrt(1 + e / log)))
            exact = (e + mpmath.log1p(1 / t) - (log - mpmath.log1p(t)) / t) / (1 + t)
            assert exact * 0.99 <= account("zcdp", epsilon, small).cap.rho <= exact
            mu = account("gaussian", epsilon, small).cap.mu
            mu = mpmath.mpf(mu.numerator) / mu.denominator
            with mpmath.workdps(400):  # the two terms differ by 1e-324
                delta = mpmath.erfc((e / mu - mu / 2) / mpmath.sqrt(2)) / 2 - mpmath.exp(e) * mpmath.erfc((e / mu + mu / 2) / mpmath.sqrt(2)) / 2
            assert 0 < delta <= mpmath.mpf(8) / 5 / mpmath.mpf(2) ** 1074


def test_one_cost_for_an_amount_is_never_below_it():
    for i in range(1, 60):
        most = Fraction(i, 7 ** (i % 9)) * 10 ** (i % 5)
        assert accounts._one((most, 0), "zcdp") == [ZCDP(most)] and accounts._one((0, 0), "gaussian") == []
        assert most <= accounts._one((most, 0), "gaussian")[0].mu ** 2 <= most * (1 + Fraction(1, 10**11))
    assert accounts._one((Fraction(1, 10**400), 0), "gaussian")[0].mu ** 2 >= Fraction(1, 10**400)


@pytest.mark.parametrize("budget", [ZCDP(0.1), Gaussian(0.1)])
def test_a_refused_spend_changes_nothing(budget):
    book = ledger(budget)
    parts = book.partition("p", str, "ab")
    book.spend("a", Pure(0.01)), parts.spend("a", "b", 0.01)
    before = book.spent, book.costs(), book.record()
    for wrong in (lambda: book.spend("x", 10), lambda: parts.spend("b", "x", 10), lambda: book.spend("x", 1e-3, 1e-9),
                  lambda: book.spend("x", 10**300), lambda: parts.spend("b", "x", "1")):
        with pytest.raises(ValueError):
            wrong()
        assert (book.spent, book.costs(), book.record()) == before


# ----------------------------------------------------------------------------- parallel composition in the other units


@pytest.mark.parametrize("neighbours", BOTH)
def test_parts_in_units_of_rho_and_mu_squared(neighbours):
    for budget, cost, unit in ((ZCDP(10), ZCDP, 1), (Gaussian(10), Gaussian, 2)):
        book = ledger(budget, neighbours=neighbours)
        parts = book.partition("p", str, "abc")
        book.spend("whole", cost(0.2))
        for part, amount in (("a", 0.1), ("b", 0.3), ("b", 0.1), ("c", 0.2)):
            parts.spend(part, "x", cost(amount))
        most = max(sum(Fraction(n, 10) ** unit for n in ns) for ns in ((1,), (3, 1), (2,)))
        factor = 1 if neighbours == "add-remove" else 4
        assert book.spent == (Fraction(2, 10) ** unit + factor * most, 0)
        assert sum(c for _, c in book.costs()) == book.spent[0]


@pytest.mark.parametrize("neighbours", BOTH)
def test_gaussian_sums_of_parts_attain_what_is_booked(neighbours):
    """Sums of values in [-1, 1] over two parts, noise of standard deviation s: the shift, in closed form, over all neighbours."""
    spreads = {"a": 2.0, "b": 5.0}
    book = ledger(Gaussian(10), neighbours=neighbours)
    parts = book.partition("p", str, "ab")
    for part, spread in spreads.items():
        parts.spend(part, "sum", Gaussian(1 / spread))  # a record more or less moves a sum by at most 1
    records = list(itertools.product("ab", (-1, 0, 1)))
    moves = []
    for part, value in records:
        if neighbours == "add-remove":
            moves.append({part: value})
        for other, new in records:
            if neighbours == "replace-one":
                moves.append({p: new * (p == other) - value * (p == part) for p in "ab"})
    attained = max(sum((move.get(p, 0) / spreads[p]) ** 2 for p in "ab") for move in moves)
    assert attained == pytest.approx(float(book.spent[0]), rel=1e-12)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("unit", ["zcdp", "gaussian"])
def test_pure_releases_on_parts_stay_within_rho_and_mu(neighbours, unit):
    """Exact laws of sums with geometric noise, values in [-1, 1]: Renyi divergences and deltas over all neighbours."""
    step, n = math.log(2), 3
    book = ledger(ZCDP(10) if unit == "zcdp" else Gaussian(10), neighbours=neighbours)
    parts = book.partition("p", str, "ab")
    parts.spend("a", "sum", step), parts.spend("b", "sum", step)
    moves = [(1, 0), (0, 1)] if neighbours == "add-remove" else [(1, 1), (1, -1), (2, 0), (0, 2)]
    spent = float(book.spent[0])
    for one in itertools.product(range(n + 1), repeat=2):
        for move in moves:
            other = tuple(a + b for a, b in zip(one, move))
            if not all(0 <= x <= n for x in other):
                continue
            laws = [{(i, j): float(p * q) for (i, p), (j, q) in itertools.product(
                capped_geometric(t[0], n).items(), capped_geometric(t[1], n).items())} for t in (one, other)]
            if unit == "gaussian":
                for e in (0, 0.2, 0.7, 1.3):
                    assert audit.finite_delta(*laws, e) <= curves.gaussian_delta(e, math.sqrt(spent))
                continue
            for order in (1.001, 1.5, 2, 4, 16):
                total = math.fsum(p**order * laws[1][o] ** (1 - order) for o, p in laws[0].items())
                assert math.log(total) / (order - 1) <= order * spent * (1 + 1e-9)


# ---------------------------------------------------------------------------------------- costs chosen on the way: adversaries


def adversary(epsilon, choices, allowed):
    """The most that delta at `epsilon` can become when each next randomized response, of cost n quarters, is chosen from
    the answers so far: exact, over the whole tree. `allowed(counts)` says what the filter lets pass."""
    @functools.lru_cache(None)
    def most(counts, position):
        best = max(0.0, -math.expm1(epsilon - position / 4))
        for i, n in enumerate(choices):
            after = tuple(c + (j == i) for j, c in enumerate(counts))
            if allowed(after):
                p = 1 / (1 + math.exp(-n / 4))
                best = max(best, p * most(after, position + n) + (1 - p) * most(after, position - n))
        return best
    return most((0,) * len(choices), 0)


@pytest.mark.parametrize("name,budget", [("zcdp", (1.5, 0.1)), ("zcdp", (2.0, 0.01)), ("gaussian", (1.5, 0.1)),
                                         ("gaussian", (1.8, 0.05)), ("basic", (1.5, 0.0))])
def test_no_adversary_passes_the_cap_of_a_filter(name, budget):
    choices = (1, 2, 4)
    book = account(name, *budget)
    amounts = [accounts.amount(Pure(Fraction(n, 4)), name)[0] for n in choices]
    cap = book.budget[0]
    assert any(a <= cap for a in amounts)
    worst = adversary(budget[0], choices, lambda counts: sum(c * a for c, a in zip(counts, amounts)) <= cap)
    assert worst <= budget[1]
    if name != "basic":
        assert worst > 0  # there was something to attack
        loose = adversary(budget[0], choices, lambda counts: sum(c * a for c, a in zip(counts, amounts)) <= 4 * cap)
        assert loose > budget[1]  # the broken twin, a cap four times too large


def stopped(epsilon0, bounds):
    """Delta that an adversary reaches against bounds stated after each of n releases, by stopping when it pays: exact."""
    p, n = 1 / (1 + math.exp(-epsilon0)), len(bounds)

    def gain(k, i):
        return max(0.0, -math.expm1(bounds[k - 1] - (k - 2 * i) * epsilon0)) if k else 0.0
    values = [gain(n, i) for i in range(n + 1)]
    for k in range(n - 1, -1, -1):
        values = [max(gain(k, i), p * values[i] + (1 - p) * values[i + 1]) for i in range(k + 1)]
    return values[0]


@pytest.mark.parametrize("name,delta,times", [("exact", 0.01, 4.3), ("exact", 1e-6, 12.2), ("zcdp", 0.01, 1.66), ("zcdp", 1e-6, 1.03)])
def test_the_realised_amount_is_no_bound(name, delta, times):
    """Why a ledger without a plan states its cap: stop when the loss is high, and the total of what was spent is false."""
    bounds = [composition.epsilon_at([Pure(0.1)] * k, delta, name)[0] for k in range(1, 301)]
    assert stopped(0.1, bounds[-1:] * 300) <= delta * (1 + 1e-6)  # the same bound, fixed beforehand
    assert stopped(0.1, bounds) > times * delta


def test_an_exact_account_is_no_filter():
    """Why "exact" needs a plan: two ways to go on with one price, chosen by the first answer, cost more than the price."""
    epsilon, first = 1.0, 0.5

    def delta(left, costs):
        law = {0.0: 1.0}
        for e in costs:
            p, new = 1 / (1 + math.exp(-e)), {}
            for loss, q in law.items():
                new[loss + e], new[loss - e] = new.get(loss + e, 0) + p * q, new.get(loss - e, 0) + (1 - p) * q
            law = new
        return sum(q * max(0.0, -math.expm1(left - loss)) for loss, q in law.items())
    one = [1.0]
    low, high = 1e-6, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(epsilon, [first] + [middle] * 4) <= delta(epsilon, [first, *one]) else (low, middle)
    four, price, p = [low] * 4, delta(epsilon, [first, *one]), 1 / (1 + math.exp(-first))
    switching = sum(q * max(delta(left, one), delta(left, four)) for q, left in ((p, epsilon - first), (1 - p, epsilon + first)))
    assert delta(epsilon, [first, *four]) == pytest.approx(price, rel=1e-9) and switching > 1.1 * price


# ------------------------------------------------------------------------------------------------------------------- plans

PLAN = [(f"wave {i}", Pure(0.1)) for i in range(100)]
NEEDS_PLAN = ("advanced", "exact", "numerical")


@pytest.mark.parametrize("name", NEEDS_PLAN)
def test_no_plan_no_such_account(name):
    with pytest.raises(ValueError) as caught:
        account(name, 5, 1e-6)
    assert str(caught.value) == (f"account {name!r} needs plan=[(label, cost), ...]: its bound is proven for costs fixed before the "
                                 "first draw; 'basic', 'zcdp', 'gaussian' let costs be chosen on the way")


@pytest.mark.parametrize("name,price", [("advanced", 5.7561055), ("exact", 4.7745676), ("numerical", 4.7745676), ("zcdp", 5.2215344)])
def test_a_plan_is_checked_before_the_first_draw(name, price):
    for neighbours in BOTH:
        book = account(name, round(price + 1e-6, 6), 1e-6, neighbours, plan=PLAN)
        assert book.total("approximate") == pytest.approx(4.7745676, abs=1e-7)
        with pytest.raises(BudgetExceeded, match="^the plan asks for "):
            account(name, round(price - 1e-6, 6), 1e-6, neighbours, plan=PLAN)
    if name in NEEDS_PLAN:
        assert float(book.spent[0]) == pytest.approx(price, abs=1e-7) and book.spent[1] == Fraction(1, 10**6)
        assert book.costs() == [("plan", book.spent[0])] and book.remaining[0] == book.epsilon - book.spent[0]
        assert book.record()["epsilon_spent"] == float(book.spent[0]) and book.record()["account"] == name
    with pytest.raises(BudgetExceeded):
        account(name, 4, 1e-6, plan=PLAN)


def test_the_plan_must_be_followed_in_any_order():
    plan = [("a", Pure(0.1)), ("b", Approximate(0.1, 1e-8)), ("a", Pure(0.1)), ("c", 0.1)]
    book = account("exact", 1, 1e-6, plan=plan)
    book.spend("c", 0.1), book.spend("a"), book.free("mean")
    assert book.table().values.tolist() == [["c", "whole table", "epsilon 0.1"], ["a", "whole table", "epsilon 0.1"], ["mean", "whole table", ""]]
    before = book.record()
    for call, message in [
            (lambda: book.spend("d"), "label must be a line of the plan that is not used yet ('b', 'a'), got 'd'"),
            (lambda: book.spend("c"), "label must be a line of the plan that is not used yet ('b', 'a'), got 'c'"),
            (lambda: book.spend("b", 0.1), "cost of 'b' must be the planned one, epsilon 0.1, delta 1e-08, got epsilon 0.1"),
            (lambda: book.spend("a", 0.05), "cost of 'a' must be the planned one, epsilon 0.1, got epsilon 0.05"),
            (lambda: book.partition("p", str, "ab"), "a ledger with a plan has no partitions, got 'p': plan the releases on all parts "
                                                     "of a partition as one release")]:
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == message and book.record() == before
    book.spend("b", 0.1, 1e-8), book.spend("a", Pure(0.1))
    with pytest.raises(ValueError, match="none is left"):
        book.spend("a")


def test_a_filter_with_a_plan_adds_as_it_goes():
    book = account("basic", 1, 0.0, plan=[("a", 0.4), ("b", 0.6)])
    book.spend("b")
    assert book.spent == (Fraction(6, 10), 0) and book.total("pure") == 1 and book.costs() == [("b", Fraction(6, 10))]
    with pytest.raises(BudgetExceeded, match="the plan asks for epsilon 1.1, delta 0; the budget is epsilon 1, delta 0"):
        account("basic", 1, 0.0, plan=[("a", 0.4), ("b", 0.7)])
    with pytest.raises(BudgetExceeded, match="^the plan asks for epsilon 0.8, delta 2e-06; the budget is epsilon 1, delta 1e-06$"):
        account("basic", 1, 1e-6, plan=[("a", Approximate(0.4, 1e-6))] * 2)
    with pytest.raises(ValueError, match="the zcdp account cannot take a cost of epsilon 1, delta 1e-09"):
        account("zcdp", 5, 1e-6, plan=[("a", Approximate(1, 1e-9))])
    with pytest.raises(ValueError, match="one epsilon"):
        account("exact", 5, 1e-6, plan=[("a", 1), ("b", 2)])


# ------------------------------------------------------------------------------------------------------- totals and advice


def test_totals_follow_from_the_cap_and_the_pure_one_from_what_is_booked():
    book = ledger(2.0)
    assert book.total("pure") == 0 and book.total("zcdp") == 2 and book.total("approximate") == 2
    book.spend("a", 0.3)
    assert book.total("pure") == 0.3 and book.total("zcdp") == 2  # a filter bounds its cap
    assert book.total("gaussian") == pytest.approx(renyi.pure_to_gaussian(2.0), rel=1e-9)
    assert losses.exact_pure_epsilon(2, 1, 1e-3) == book.total("approximate", 1e-3) < 2
    book = ledger(ZCDP(0.1))
    book.spend("a", 0.1), book.partition("p", str, "ab").spend("a", "b", 0.2)
    assert book.total("zcdp") == 0.1 and book.total("pure") == 0.3
    assert book.total("approximate", 1e-6) == pytest.approx(2.14194, abs=1e-5)
    book.spend("c", Gaussian(0.1))
    book2 = ledger(Gaussian(0.5))
    assert book2.total("zcdp") == 0.125 and book2.total("gaussian") == pytest.approx(0.5)
    for call, message in [(lambda: book.total("pure"), "notion 'pure' does not follow from a cost of mu 0.1"),
                          (lambda: book.total("gaussian"), "notion 'gaussian' does not follow from a cost of rho 0.1"),
                          (lambda: ledger(1, 1e-6).total("zcdp"), "notion 'zcdp' does not follow from a cost of epsilon 1, delta 1e-06"),
                          (lambda: book.total("rdp"), "notion must be one of 'approximate', 'pure', 'zcdp', 'gaussian', got 'rdp'")]:
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == message
    for delta in (1e-7, 0):  # no default stands in for a delta that is asked
        with pytest.raises(ValueError, match="no account applies"):
            ledger(1, 1e-6).total("approximate", delta)
    assert ledger(1).total("approximate", 0) == 1


def test_the_budgets_epsilon_is_not_stated_for_a_smaller_delta():
    for name, tight in (("zcdp", 1.1046), ("gaussian", 1.1148)):
        book = account(name, 1, 1e-6)
        assert book.total("approximate", 1e-7) == pytest.approx(tight, abs=1e-4)
        assert book.total("approximate", 1e-6) == pytest.approx(1, abs=1e-9) and book.total("approximate", 1e-5) < 0.95


@pytest.mark.parametrize("delta", [1e-5, 1e-6, 3e-7, 0.01])
def test_the_default_delta_is_the_budgets_own(delta):
    assert ledger(1, delta).total("approximate") == ledger(1, delta).total("approximate", delta) == 1


def test_advice_is_true():
    book = ledger(20)
    for i in range(100):
        book.spend(str(i), 0.1)
    assert book.advice(1e-6) == (
        "By the basic account the costs booked come to epsilon 10 at delta 1e-06. Fixed beforehand, they would have cost at most "
        "epsilon 4.775 by the exact account. A zcdp ledger, which lets costs be chosen on the way, would have needed epsilon 5.222 "
        "at delta 1e-06.")
    account("exact", 4.775, 1e-6, plan=PLAN)
    cheaper = account("zcdp", 5.222, 1e-6)
    for i in range(100):
        cheaper.spend(str(i), 0.1)
    with pytest.raises(BudgetExceeded):
        [account("zcdp", 5.221, 1e-6).spend(str(i), ZCDP(0.5)) for i in range(1)]
    planned = account("advanced", 6, 1e-6, plan=PLAN)
    assert planned.advice(1e-6) == "By the advanced account the plan costs epsilon 5.757 at delta 1e-06. By the exact account it costs epsilon 4.775."
    for quiet in (ledger(1), account("exact", 5, 1e-6, plan=PLAN), ledger(Gaussian(1))):
        assert quiet.advice(1e-6) == "none is cheaper"
    one = ledger(1)
    one.spend("a", 0.5)
    assert one.advice(1e-6) == "none is cheaper" and one.advice(0) == "none is cheaper"
    deltas = ledger(5, 1e-5)
    deltas.spend("a", 1, 1e-6)
    assert deltas.advice(1e-7) == "none is cheaper"


def test_advice_says_that_numbers_below_a_cap_are_no_guarantee():
    end = " The guarantee stays the cap's; these numbers are for choosing the next ledger."
    for name, cost in (("zcdp", Pure(0.01)), ("gaussian", Pure(0.01)), ("basic", Approximate(0.1, 1e-9))):
        book = account(name, 8, 1e-6)
        for i in range(60):
            book.spend(str(i), cost)
        said = book.advice(1e-6)
        assert said.startswith(f"By the {name} account the costs booked come to epsilon ") and said.endswith(end), said
        assert float(said.split()[10]) < 8 and book.total("approximate") == pytest.approx(8, rel=1e-9)
        book.free("mean")
        assert book.advice(1e-6) == said
    pure = ledger(8, 1e-6)
    for i in range(60):
        pure.spend(str(i), 0.1)
    assert pure.advice(1e-6).endswith(" at delta 1e-06.") and end not in pure.advice(1e-6)
    planned = account("zcdp", 6, 1e-6, plan=PLAN).advice(1e-6)  # the plan's costs are the guarantee
    assert planned == "By the zcdp account the plan costs epsilon 5.222 at delta 1e-06. By the exact account it costs epsilon 4.775."


def test_advice_where_no_costs_cover_all_parts():
    book = ledger(10, 0.9999, "replace-one")
    parts = book.partition("p", str, "ab")
    parts.spend("a", "x", 3, 1e-4), parts.spend("b", "x", 0.01, 0.4)
    assert book.advice(0.99991) == book.advice(Fraction(99991, 10**5)) == "none is cheaper"
    assert book.spent == (6, costs.group(0.01, 0.4, 2)[1])


@pytest.mark.parametrize("neighbours", BOTH)
def test_advice_with_parts_covers_the_dearest_way_through(neighbours):
    """Fixed beforehand: every list of costs that one record can meet costs at most what is advised."""
    book = ledger(100, 0.5, neighbours)
    parts = book.partition("p", str, "ab")
    for i in range(30):
        book.spend("w", 0.1)
        parts.spend("a", "x", 0.2), parts.spend("b", "x", 0.1)
    stated = float(book.advice(1e-6).split("at most epsilon ")[1].split()[0])
    lists = {"add-remove": [[0.2] * 30, [0.1] * 30], "replace-one": [[0.2] * 30 + [0.1] * 30, [0.4] * 30]}[neighbours]
    needed = [composition.epsilon_at([Pure(0.1)] * 30 + [Pure(e) for e in costs], 1e-6)[0] for costs in lists]
    assert max(needed) <= stated <= max(needed) * 1.001


@pytest.mark.parametrize("cost,doubled", [(ZCDP(0.1), ZCDP(0.4)), (Gaussian(0.3), Gaussian(0.6)), (Pure(0.3), Pure(0.6)),
                                          (Approximate(0.5, 1e-3), Approximate(*costs.group(0.5, 1e-3, 2)))])
def test_a_replacement_inside_a_part_is_covered_by_two_steps(cost, doubled):
    """The cover of one release costs what the ledger books for it, in every account that takes it."""
    parts = {"a": [cost], "b": [type(cost)(*(getattr(cost, f) / 2 for f in vars(cost)))]}
    assert accounts.covering([], [parts], "add-remove") == [cost] and accounts.covering([], [parts], "replace-one") == [doubled]
    for name in ("basic", "zcdp", "gaussian"):
        try:
            booked = accounts.parallel(parts, "replace-one", name)
        except ValueError:
            continue
        covered = accounts.amount(doubled, name)
        if isinstance(cost, Pure) and name == "gaussian":  # mu of 2 epsilon is less than twice mu of epsilon
            assert covered[0] < booked[0]
        else:
            assert covered == booked
    if isinstance(cost, Approximate):
        assert doubled.delta >= (1 + Fraction(math.exp(0.5)) * (1 - Fraction(1, 10**15))) * cost.delta


@pytest.mark.parametrize("cost,step", [(ZCDP(0.02), 2), (Gaussian(0.2), 2), (Approximate(0.05, 1e-9), None)])
def test_advice_on_parts_in_every_kind(cost, step):
    """Under replace-one each of 40 releases on a part counts as two steps; here the epsilon advised is computed again."""
    book = ledger(cost if step else 100, 0 if step else 0.5, "replace-one")
    book = Ledger(type(cost)(50), neighbours="replace-one") if step else book
    parts = book.partition("p", str, "ab")
    for i in range(40):
        parts.spend("a", str(i), cost)
    said = book.advice(1e-6)
    two = {ZCDP: lambda: ZCDP(4 * cost.rho), Gaussian: lambda: Gaussian(2 * cost.mu),
           Approximate: lambda: Approximate(*costs.group(cost.epsilon, cost.delta, 2))}[type(cost)]()
    needed = composition.epsilon_at([two] * 40, 1e-6)[0]
    own = composition.epsilon_at([two] * 40, 1e-6, book.account)[0]
    if "at most epsilon" in said:
        assert needed <= float(said.split("at most epsilon ")[1].split()[0]) <= needed * 1.001
    else:
        assert said == "none is cheaper" and own == pytest.approx(needed, rel=1e-6)


@given(st.lists(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)), max_size=4), min_size=1, max_size=3), st.sampled_from(BOTH))
def test_covering_costs_are_at_least_each_part(parts, neighbours):
    parts = {str(i): [accounts.as_cost(Fraction(e, 10), Fraction(d, 100)) for e, d in part] for i, part in enumerate(parts) if part}
    if not parts:
        return
    whole = [Pure(0.1)]
    cover = accounts.covering(whole, [parts], neighbours)
    for part in parts.values():
        most, least = composition.basic(cover), composition.basic(whole + part)
        assert all(a >= b for a, b in zip(most, least)) and composition.zcdp(cover) >= composition.zcdp(whole + part)
        own = accounts.total(whole, [{"a": part}], neighbours, "basic")
        assert composition.basic(cover)[0] >= own[0]


@pytest.mark.parametrize("plan", [{"a": 0.1}, [("a", 0.1), "b"], {"ab": 0.1}, 5, "ab", [("a", 0.1, 2)], [["a"]]])
def test_a_plan_that_is_no_list_of_pairs_is_named(plan):
    with pytest.raises(ValueError, match=r"plan must be a list of \(label, cost\) pairs, got"):
        Ledger(1, neighbours="add-remove", plan=plan)


def test_a_plan_may_be_any_iterable_of_pairs():
    ledger = Ledger(1, neighbours="add-remove", plan=(line for line in [["a", 0.5], ("b", Pure(0.5))]))
    ledger.spend("b"), ledger.spend("a")
    assert ledger.remaining == (0, 0)


@pytest.mark.parametrize("rule", [None, "age", 3])
def test_a_partition_needs_a_function(rule):
    with pytest.raises(ValueError, match="rule must be a function of one record's value, got"):
        Ledger(1, neighbours="add-remove").partition("p", rule, ("a", "b"))


def test_a_mask_is_of_one_column():
    parts = Ledger(1, neighbours="add-remove").partition("p", str, ("1", "2"))
    assert parts.mask([1, 2, 1], "1").tolist() == [True, False, True]
    for table in (pd.DataFrame({"1": [1, 2]}), np.ones((2, 2))):  # a frame would be walked through by column names
        with pytest.raises(ValueError, match="values must be one-dimensional, got 2 dimensions"):
            parts.mask(table, "1")


def test_advice_shows_an_epsilon_that_is_short_as_it_was_written():
    ledger = Ledger(1, 1e-6, neighbours="add-remove", account="zcdp")
    ledger.spend("a", Pure(0.1))
    assert "needed epsilon 0.1 at" in ledger.advice(1e-6) and "0.1001" not in ledger.advice(1e-6)
