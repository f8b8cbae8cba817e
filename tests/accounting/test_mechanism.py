"""Mechanisms: what they refuse, what makes two of them equal, where they draw from."""

import dataclasses

import numpy as np
import pytest

from dputils import noise
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure
from dputils.accounting.mechanism import Mechanism


def read(value):
    return int(value)


def draw(value, *, rng):
    return value + int(rng.integers(2))


def coin(**changes):
    fields = {
        "name": "a coin",
        "costs": (Pure(1), ZCDP(0.5)),
        "neighbours": "add-remove",
        "unit": "row",
        "read": read,
        "draw": draw,
    }
    return Mechanism(**{**fields, **changes})


class Equal(str):
    """A string that says that it equals every other."""

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Costs(tuple):
    def __eq__(self, other):
        return True

    __hash__ = tuple.__hash__


class Cheap(Pure):
    pass


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"name": ""}, "name must be a string that is not empty, got ''"),
        ({"name": None}, "name must be a string that is not empty, got None"),
        ({"costs": ()}, "costs must be a tuple of costs, at least one, got ()"),
        ({"costs": [Pure(1)]}, "costs must be a tuple of costs, at least one, got [Pure("),
        ({"costs": Pure(1)}, "costs must be a tuple of costs, at least one, got Pure("),
        ({"costs": Costs((Pure(1),))}, "costs must be a tuple of costs, at least one, got (Pure("),
        ({"costs": (1,)}, "costs must be Pure, Approximate, ZCDP, Gaussian, Renyi, got 1"),
        ({"costs": (Cheap(1),)}, "costs must be Pure, Approximate, ZCDP, Gaussian, Renyi, got "),
        (
            {"neighbours": "both"},
            "neighbours must be one of 'add-remove', 'replace-one', got 'both'",
        ),
        (
            {"neighbours": Equal("both")},
            "neighbours must be one of 'add-remove', 'replace-one', got 'both'",
        ),
        ({"unit": "  "}, "unit must be a string that is not empty, got '  '"),
        ({"read": None}, "read must be a function, got None"),
        ({"draw": 3}, "draw must be a function, got 3"),
    ],
)
def test_refusals_of_mechanisms(changes, message):
    with pytest.raises(ValueError) as caught:
        coin(**changes)
    assert str(caught.value).startswith(message)


def test_two_are_equal_if_name_costs_relation_and_unit_are():
    other = coin(read=lambda value: value, draw=lambda value, *, rng: 0, exact=True)
    assert coin() == other and hash(coin()) == hash(other)
    changed = [
        {"name": "another coin"},
        {"costs": (Pure(1),)},
        {"costs": (ZCDP(0.5), Pure(1))},
        {"costs": (Pure(2), ZCDP(0.5))},
        {"neighbours": "replace-one"},
        {"unit": "person"},
    ]
    for changes in changed:
        assert coin(**changes) != coin()


def test_names_compare_as_they_read():
    forged = coin(name=Equal("another"), unit=Equal("person"))
    assert type(forged.name) is str and type(forged.unit) is str and forged != coin()


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        coin().costs = (Pure(1e-9),)


def test_a_call_reads_then_draws():
    rng = np.random.default_rng(1)
    assert coin()("3", rng=rng) in (3, 4)
    spy = np.random.default_rng(1)
    state = spy.bit_generator.state
    with pytest.raises(ValueError):
        coin()("three", rng=spy)
    assert spy.bit_generator.state == state


@pytest.mark.parametrize("rng", [None, 7, np.random])
def test_randomness_is_required(rng):
    with pytest.raises(ValueError, match="rng must be a np.random.Generator"):
        coin()(3, rng=rng)


def test_rounded_noise_refuses_the_bits_of_the_system():
    with pytest.raises(ValueError, match="rng must be a np.random.Generator for the a coin, whose"):
        coin()(3, rng=noise.SYSTEM)
    assert coin(exact=True).source(noise.SYSTEM) is noise.SYSTEM


def test_it_says_what_it_costs_and_for_whom():
    gauss = coin(name="Gaussian", costs=(Gaussian(0.5), Approximate(1, 1e-6)))
    assert str(gauss) == "Gaussian (mu 0.5; add-remove, unit row)"
