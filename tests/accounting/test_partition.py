"""Partitions: rules tried in public, rows assigned in silence, units bounded, masks for good."""

import copy
import math
import pickle
import uuid
import warnings
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils.accounting import BudgetExceeded, Ledger, Mechanism, Pure

EXAMPLES = ("a", "b", "c")


def ledger(epsilon=1.0, neighbours="add-remove", unit="row"):
    return Ledger(epsilon, neighbours=neighbours, unit=unit)


def parted(values, rule=str, parts="abc", examples=EXAMPLES, **more):
    return ledger(**{k: more.pop(k) for k in ("neighbours", "unit") if k in more}).partition(
        "p", values, rule, parts, examples=examples, **more
    )


def masks(partition):
    return {part: partition[part].mask.tolist() for part in partition.parts}


# ----------------------------------------------------------------------------------------- refusals


def failing(value):
    return {"a": "a", "b": "b"}[value]


def undefined(value):
    return nowhere(value)  # noqa: F821


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: parted([], parts=[]), "parts must be different strings, at least one, got []"),
        (
            lambda: parted([], parts=["a", "a"]),
            "parts must be different strings, at least one, got ['a', 'a']",
        ),
        (
            lambda: parted([], parts=["a", 1]),
            "parts must be different strings, at least one, got ['a', 1]",
        ),
        (
            lambda: parted([], parts=[["a"]]),
            "parts must be different strings, at least one, got [['a']]",
        ),
        (lambda: parted([], parts=None), "parts must be a sequence, got None"),
        (lambda: parted([], parts=5), "parts must be a sequence, got 5"),
        (lambda: parted([], rule=None), "rule must be a function of one row's value, got None"),
        (lambda: parted([], rule="age"), "rule must be a function of one row's value, got 'age'"),
        (lambda: parted([], examples=None), "examples must be a sequence, got None"),
        (
            lambda: parted([], examples=[]),
            "examples must reach every part by the rule, got none for 'a', 'b', 'c'",
        ),
        (
            lambda: parted([], examples=["a", "c"]),
            "examples must reach every part by the rule, got none for 'b'",
        ),
        (
            lambda: parted([], rule=failing),
            "rule must not fail on the public example 'c', got KeyError: 'c'",
        ),
        (
            lambda: parted([], rule=undefined),
            "rule must not fail on the public example 'a', got NameError: name 'nowhere' is not "
            "defined",
        ),
        (lambda: parted([])["d"], "part must be one of 'a', 'b', 'c', got 'd'"),
        (lambda: parted([])[["a"]], "part must be one of 'a', 'b', 'c', got ['a']"),
        (lambda: parted("abc"), "values must be a sequence of shape (n,), got str"),
        (lambda: parted({"a": 1}), "values must be a sequence of shape (n,), got dict"),
        (
            lambda: parted(pd.DataFrame({"1": [1, 2]})),
            "values must be a sequence of shape (n,), got DataFrame",
        ),
        (lambda: parted(np.ones((2, 2))), "values must be a sequence of shape (n,), got ndarray"),
        (lambda: parted(np.float64(1)), "values must be a sequence of shape (n,), got float64"),
        (
            lambda: parted(iter("abc")),
            "values must be a sequence of shape (n,), got str_ascii_iterator",
        ),
        (lambda: parted(["a"], owners="x"), "owners must be a sequence of shape (n,), got str"),
        (
            lambda: parted(["a"], owners=[1, 2]),
            "owners must have one element for each row, 1, got 2",
        ),
        (
            lambda: parted(["a"], most=2),
            "most must be 1 where each row is a unit of its own, got 2",
        ),
        (
            lambda: parted(["a"], owners=None, most=2),
            "most must be 1 where each row is a unit of its own, got 2",
        ),
        (lambda: parted(["a"], most=1.0), "most must be an integer, got 1.0"),
        (lambda: parted(["a"], most=True), "most must be an integer, got True"),
        (lambda: parted(["a"], owners=[1], most=0), "most must be at least 1, got 0"),
        (
            lambda: parted(["a"], unit="person"),
            "owners must say which person each row belongs to, or be None if each row is a person "
            "of its own",
        ),
    ],
)
def test_refusals_of_partitions(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_a_random_rule_is_refused():
    rng = np.random.default_rng(3)
    with pytest.raises(
        ValueError, match="rule must not be random, got .* for the public example 0"
    ):
        parted([], rule=lambda value: "ab"[rng.integers(2)], parts="ab", examples=range(20))


def test_a_rule_that_counts_its_calls_is_refused():
    calls = []
    with pytest.raises(ValueError, match="rule must not be random"):
        parted([], rule=lambda value: calls.append(0) or "abc"[len(calls) % 3])


def test_a_name_is_new_and_nothing_else_was_registered():
    book = ledger()
    for wrong in ({"parts": []}, {"examples": []}, {"rule": undefined}, {"owners": [1]}):
        arguments = {"rule": str, "parts": "abc", "examples": EXAMPLES, **wrong}
        rule, parts = arguments.pop("rule"), arguments.pop("parts")
        with pytest.raises(ValueError):
            book.partition("p", [], rule, parts, **arguments)
    book.partition("p", [], str, "abc", examples=EXAMPLES)
    with pytest.raises(ValueError, match="name must be new to the ledger, got 'p' twice"):
        book.partition("p", [], str, "abc", examples=EXAMPLES)
    assert book.spent == (0, 0) and book.costs() == []


# ------------------------------------------------------------------------ private values in silence


def test_a_mask_follows_the_rule_on_each_value():
    def age_group(age):
        return "young" if age < 30 else "old"

    parts = parted(np.array([20, 40, 29, math.nan]), age_group, ["young", "old"], (1, 99))
    assert masks(parts) == {"young": [True, False, True, False], "old": [False, True, False, True]}
    empty = parted([], age_group, ["young", "old"], (1, 99))["old"].mask
    assert empty.shape == (0,) and empty.dtype == bool


class Odd:
    def __eq__(self, other):
        raise RuntimeError("the value was 17")

    __hash__ = None


class AlwaysEqual(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def raising(error):
    def rule(value):
        if value == 17:
            raise error("17")
        return value if value in ("a", "c") else "a"

    return rule


def returning(thing):
    return lambda value: thing() if value == 17 else "c" if value == "c" else "a"


@pytest.mark.parametrize(
    "rule",
    [
        returning(lambda: pd.NA),
        returning(lambda: np.array(["a", "a"])),
        returning(Odd),
        returning(lambda: AlwaysEqual("b")),
        returning(lambda: ["a"]),
        returning(lambda: None),
        returning(lambda: "a" + None),
        returning(lambda: 1 / 0),
        raising(TypeError),
        raising(KeyError),
        raising(StopIteration),
        raising(RecursionError),
        raising(SystemExit),
        raising(MemoryError),
    ],
)
def test_no_private_value_decides_whether_a_partition_raises(rule):
    parts = parted([1, 17, 2], rule, ["a", "c"], ("a", "c"))
    assert masks(parts) == {"a": [True, False, True], "c": [False, False, False]}
    assert masks(parted([17, 17], rule, ["a", "c"], ("a", "c")))["c"] == [False, False]


def test_no_private_value_decides_whether_numpy_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = np.array([1.0, 0.0, -1.0])
        parts = parted(values, lambda v: "a" if np.log(v) > -1 else "b", "ab", (1.0, 0.1))
    assert masks(parts) == {"a": [True, False, False], "b": [False, True, True]}


def test_an_interrupt_is_none_of_the_rules_business():
    def rule(value):
        if value == 17:
            raise KeyboardInterrupt
        return "a"

    with pytest.raises(KeyboardInterrupt):
        parted([17], rule, "a", ["a"])


def test_the_rule_is_evaluated_once_for_each_row():
    seen = []
    parted(list("abcab"), lambda value: seen.append(value) or value)
    assert seen[3 * len(EXAMPLES) :] == list("abcab")


@pytest.mark.parametrize(
    "values",
    [
        ["a", "c", "b"],
        ("a", "c", "b"),
        np.array(["a", "c", "b"]),
        np.array(["a", "c", "b"], dtype=object),
        pd.Series(["a", "c", "b"], index=[7, 7, 1]),
        pd.array(["a", "c", "b"], dtype="string"),
        pd.Series(["a", "c", "b"], dtype="category"),
    ],
)
def test_columns_of_every_kind_are_read(values):
    assert masks(parted(values)) == {
        "a": [True, False, False],
        "b": [False, False, True],
        "c": [False, True, False],
    }


def test_missing_and_masked_values_are_in_no_part_or_where_the_rule_says():
    values = pd.array([1, None, 3], dtype="Int64")
    parts = parted(values, lambda v: "low" if v < 2 else "high", ["low", "high"], (1, 5))
    assert masks(parts) == {"low": [True, False, False], "high": [False, False, True]}
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    parts = parted(masked, lambda v: "low" if v < 2 else "high", ["low", "high"], (1, 5))
    assert parts["low"].mask.tolist() == [True, False, False]


def test_names_from_an_array_of_strings_count():
    names = np.array(["a", "b"])
    parts = parted([0, 1, 0], lambda v: names[v], names, (0, 1))
    assert masks(parts) == {"a": [True, False, True], "b": [False, True, False]}
    assert parts.parts == ("a", "b") and type(parts.parts[0]) is str
    assert parts[np.str_("b")] is parts["b"]


def test_a_forged_string_reaches_the_part_that_it_spells():
    parts = parted(list("abc"))
    assert parts[AlwaysEqual("b")] is parts["b"]
    with pytest.raises(ValueError, match="part must be one of"):
        parts[AlwaysEqual("d")]


def test_a_mask_stays_as_it_is():
    mask = parted(list("abc"))["a"].mask
    for change in (lambda: mask.setflags(write=True), lambda: mask.__setitem__(0, False)):
        with pytest.raises(ValueError):
            change()
    assert mask.tolist() == [True, False, False]


def test_parts_are_not_copied_with_their_ledger():
    parts = parted(list("abc"))
    for thing in (parts, parts["a"]):
        with pytest.raises(TypeError, match="a ledger cannot be copied or pickled"):
            copy.deepcopy(thing)
        with pytest.raises(TypeError):
            pickle.dumps(thing)


# -------------------------------------------------------------------------------------------- units

PEOPLE = [1, 1, 1, 1, 1, 2, 2, 3]
YEARS = ["y1", "y2", "y3", "y4", "y5", "y2", "y4", "y1"]
ALL = ("y1", "y2", "y3", "y4", "y5")


def by_year(book, **more):
    return book.partition("year", YEARS, str, ALL, examples=ALL, **more)


def test_five_years_of_one_person_are_not_booked_as_one():
    """Person-years: a count in every year at 1 costs 5 if a person can be in all five of them."""
    book = ledger(5, unit="person")
    with pytest.raises(ValueError, match="owners must say which person"):
        by_year(book)
    years = by_year(book, owners=PEOPLE, most=5)
    for year in ALL:
        years[year].spend("count", 1)
    assert book.spent == (5, 0)
    assert sum(years[year].mask.sum() for year in ALL) == len(YEARS)


def test_a_persons_rows_outside_the_first_parts_are_dropped():
    book = ledger(2, unit="person")
    years = by_year(book, owners=PEOPLE, most=2)
    assert years["y1"].mask.tolist() == [True] + [False] * 6 + [True]
    assert [int(years[year].mask.sum()) for year in ALL] == [2, 2, 0, 1, 0]
    for year in ALL:
        years[year].spend("count", 1)
    assert book.spent == (2, 0)


def test_rows_as_units_need_no_owners():
    book = ledger(1)
    years = by_year(book)
    for year in ALL:
        years[year].spend("count", 1)
    assert book.spent == (1, 0) and sum(years[year].mask.sum() for year in ALL) == len(YEARS)
    person = by_year(ledger(1, unit="person"), owners=None)
    assert sum(person[year].mask.sum() for year in ALL) == len(YEARS)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), max_size=14), st.integers(1, 3)
)
def test_no_unit_reaches_more_parts_than_its_bound_and_no_other_unit_changes(rows, most):
    owners, values = [row[0] for row in rows], [row[1] for row in rows]
    found = masks(parted(values, owners=owners, most=most, unit="person"))
    for unit in set(owners):
        reached = {p for p in "abc" if any(m and o == unit for m, o in zip(found[p], owners))}
        assert len(reached) == min(most, len({v for o, v in rows if o == unit}))
        others = [row for row in rows if row[0] != unit]  # without this unit
        fewer = masks(
            parted([v for _, v in others], owners=[o for o, _ in others], most=most, unit="p")
        )
        for p in "abc":
            assert fewer[p] == [m for m, o in zip(found[p], owners) if o != unit]


class Loud:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("whose row this is")


@pytest.mark.parametrize(
    "owner",
    [
        None,
        math.nan,
        np.float64("nan"),
        pd.NA,
        pd.NaT,
        np.datetime64("NaT"),
        Decimal("nan"),
        Decimal("snan"),
        Loud(),
        object(),
        [1],
        {1},
        np.array([1]),
        np.ma.masked,
        (1, math.nan),
        (1, None),
        lambda: 1,
    ],
)
def test_rows_of_no_owner_are_in_no_part(owner):
    """Else each such row would be a unit of its own, and a person could be in all parts."""
    found = masks(parted(list("abca"), owners=[owner, owner, 5, owner], unit="person"))
    assert found == {"a": [False] * 4, "b": [False] * 4, "c": [False, False, True, False]}


@pytest.mark.parametrize(
    "owner",
    [
        0,
        1.5,
        "x",
        b"x",
        Fraction(1, 3),
        Decimal("0.1"),
        np.int8(3),
        np.str_("x"),
        np.datetime64("2020-01-01"),
        date(2020, 1, 1),
        pd.Timestamp("2020-01-01"),
        uuid.UUID(int=7),
        ("household", 3),
        2**70,
        True,
    ],
)
def test_owners_that_compare_by_value_are_units(owner):
    found = masks(parted(list("aba"), owners=[owner, copy.copy(owner), owner]))
    assert found == {"a": [True, False, True], "b": [False] * 3, "c": [False] * 3}


@pytest.mark.parametrize("most", [np.uint8(2), np.int8(2), np.int64(2), 2])
def test_a_bound_in_any_kind_of_integer_counts_the_same(most):
    """Minus a small unsigned two is 254: a slice from there on would cost nothing."""
    book = ledger(9, unit="person")
    years = by_year(book, owners=PEOPLE, most=most)
    for year in ALL:
        years[year].spend("count", 1)
    assert book.spent == (2, 0) and type(years.most) is int


def test_a_bound_that_says_that_it_is_positive_is_refused():
    class Sly(int):
        def __lt__(self, other):
            return False

        def __neg__(self):
            return -1

    with pytest.raises(ValueError, match="most must be at least 1, got -3"):
        by_year(ledger(9, unit="person"), owners=PEOPLE, most=Sly(-3))


# ---------------------------------------------------------------------------- a part's own relation


def counter(neighbours, unit="row", epsilon=1):
    return Mechanism(
        "count", (Pure(epsilon),), neighbours, unit, read=len, draw=lambda value, *, rng: value
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_part_takes_add_remove_mechanisms_alone(neighbours):
    book, rng = ledger(4, neighbours), np.random.default_rng(1)
    parts = book.partition("p", list("aab"), str, "ab", examples="ab")
    with pytest.raises(ValueError) as caught:
        parts["a"].release("n", counter("replace-one"), "aa", rng=rng)
    assert str(caught.value).startswith("neighbours must be 'add-remove' on ")
    with pytest.raises(ValueError, match="neighbours must be 'add-remove' on"):
        parts["a"].spend("n", counter("replace-one"))
    with pytest.raises(ValueError, match="unit must be 'row' in this ledger, got 'person'"):
        parts["a"].release("n", counter("add-remove", "person"), "aa", rng=rng)
    assert book.spent == (0, 0)
    assert parts["a"].release("n", counter("add-remove"), "aa", rng=rng) == 2
    assert parts["b"].release("n", counter("add-remove"), "b", rng=rng) == 1
    assert book.spent == (1 if neighbours == "add-remove" else 2, 0)


def test_the_message_of_a_part_says_what_the_whole_table_would_pay():
    book = ledger(0.8, "replace-one")
    parts = book.partition("sex", list("fm"), str, ["f", "m"], examples="fm")
    with pytest.raises(BudgetExceeded) as caught:
        parts["f"].spend("count", 0.5)
    assert str(caught.value) == "'count' asks for epsilon 1, delta 0; left are epsilon 0.8, delta 0"
    parts["f"].spend("count", 0.4)
    assert book.spent == (Fraction(4, 5), 0)


def test_a_rule_that_spends_books_what_it_spends():
    book = ledger(1)

    def rule(value):
        if value == "spend":
            book.spend("from the rule", 0.4)
        return "a"

    parts = book.partition("p", ["spend", "x"], rule, "a", examples=["a"])
    assert book.spent == (Fraction(2, 5), 0) and parts["a"].mask.tolist() == [True, True]


def test_a_rule_that_opens_the_same_partition_does_not_open_it_twice():
    book = ledger(1)

    def rule(value):
        if value == "again":
            book.partition("p", ["x"], lambda v: "a", "a", examples=["a"])
        return "a"

    with pytest.raises(ValueError, match="name must be new to the ledger, got 'p' twice"):
        book.partition("p", ["again"], rule, "a", examples=["a"])
