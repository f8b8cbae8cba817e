"""The parameters of a chapter: declarations read or refused, values told apart, any file."""

import json

import numpy as np
import pytest
from nbformat.v4 import new_notebook

from dputils.book import parameters
from tests.examples import GOOD, SEED, SOURCE


def test_parse_reads_every_field():
    epsilon, seed, delta, dataset, folds, detail = parameters.parse_parameters(SOURCE)
    assert (epsilon.name, epsilon.type, epsilon.default) == ("epsilon", "float", 1.0)
    assert (epsilon.text, detail.text) == (
        "privacy budget of the chapter",
        "whether to draw the fine grid too",
    )
    assert (epsilon.low, epsilon.high, epsilon.low_open, epsilon.high_open) == (0, 20, True, False)
    assert (delta.low, delta.high, delta.low_open, delta.high_open) == (1e-12, 0.1, False, True)
    assert [p.range for p in (epsilon, seed, delta)] == [
        "in (0, 20]",
        "in [0, 4294967295]",
        "in [1e-12, 0.1)",
    ]
    assert [p.range for p in (dataset, folds, detail)] == [
        "one of randhie, anes96",
        "one of 2, 5, 10",
        "True or False",
    ]


def test_papermill_reads_the_same_declaration():
    from papermill.translators import PythonTranslator

    theirs = {
        p.name: (p.inferred_type_name, p.help) for p in PythonTranslator.inspect({"source": SOURCE})
    }
    ours = {p.name: p.type for p in parameters.parse_parameters(SOURCE)}
    assert {name: kind for name, (kind, _) in theirs.items()} == ours
    assert theirs["epsilon"][1] == "privacy budget of the chapter, range (0, 20]"


@pytest.mark.parametrize(
    "line, message",
    [
        ("epsilon = 1.0  # budget, range (0, 20]", "must have the form 'name: type = literal"),
        ("epsilon: float  # budget, range (0, 20]", "must have the form"),
        ("epsilon: int | None = 1  # budget, range (0, 20]", "must have the form"),
        ("epsilon: np.float64 = 1.0  # budget, range (0, 20]", "must have the form"),
        ("epsilon: float = 2 * 3  # budget, range (0, 20]", "must have the form"),
        ("print(1)", "must have the form"),
        ("epsilon: float = (\n1.0)  # budget, range (0, 20]", "must have the form"),
        ("epsilon: float = 1.0  # budget, must be >= 0, range (0, 20]", "has a second '='"),
        (
            "epsilon: float = 1.0",
            "epsilon needs a comment that says what it is and ends like 'range (0, 20]'",
        ),
        ("epsilon: float = 1.0  # budget", "and ends like 'range (0, 20]'"),
        ("epsilon: float = 1.0  # range (0, 20]", "needs a comment that says what it is"),
        ("epsilon: float = 1.0  # budget, range (0, 20] or so", "and ends like"),
        ("epsilon: float = 1.0  # budget, range (20, 0]", "and ends like"),
        ("epsilon: float = 1.0  # budget, range (zero, 20]", "and ends like"),
        ("folds: int = 2  # folds, one of 2, many", "and ends like"),
        (
            "dataset: str = 'a'  # table",
            "dataset needs a comment that says what it is and ends like 'one of a, b'",
        ),
        ("path: str = 'a'  # any text", "ends like 'one of a, b' or 'any text'"),
        ("share: float = 1.0  # share, any text", "and ends like 'range (0, 20]'"),
        ("detail: bool = True", "detail needs a comment that says what it is"),
        ("epsilon: float = 21.0  # budget, range (0, 20]", "epsilon must be in (0, 20], got 21.0"),
        ("epsilon: float = 'x'  # budget, range (0, 20]", "epsilon must be a number, got 'x'"),
        ("seed: int = 1  # again, range [0, 9]", "seed is declared twice"),
        ("epsilon: float = = 1", "parameters cell, line 2: invalid syntax"),
    ],
)
def test_parse_refuses(line, message):
    with pytest.raises(ValueError) as refusal:
        parameters.parse_parameters(SEED + line)
    assert message in str(refusal.value)
    with pytest.raises(ValueError, match="every chapter declares 'seed: int'"):
        parameters.parse_parameters(SOURCE.replace("seed:", "seeds:"))


def test_a_string_of_any_text_is_a_parameter_and_a_cell_may_say_why_it_has_no_seed():
    source = "# no seed: the noise is opendp's\npath: str = 'a.csv'  # a table, any text"
    (path,) = parameters.parse_parameters(source)
    assert (path.text, path.range, path.choices) == ("a table", "a string", ())
    assert path.admits("any; text: 1, 2") and parameters.problems([path], {"path": ""}) == []
    assert parameters.problems([path], {"path": 3}) == ["path must be a string, got 3"]
    with pytest.raises(ValueError, match="every chapter declares 'seed: int'"):
        parameters.parse_parameters(source.replace("# no seed: ", "# no seed "))


@pytest.mark.parametrize(
    "name, value, sentence",
    [
        ("epsilon", -1.0, "epsilon must be in (0, 20], got -1.0"),
        ("epsilon", -1, "epsilon must be in (0, 20], got -1.0"),
        ("epsilon", 0, "epsilon must be in (0, 20], got 0.0"),
        ("epsilon", float("nan"), "epsilon must be in (0, 20], got nan"),
        ("epsilon", float("inf"), "epsilon must be in (0, 20], got inf"),
        ("epsilon", True, "epsilon must be a number, got True"),
        ("epsilon", "1", "epsilon must be a number, got '1'"),
        ("delta", 0.1, "delta must be in [1e-12, 0.1), got 0.1"),
        ("seed", 1.0, "seed must be an integer, got 1.0"),
        ("seed", 4294967296, "seed must be in [0, 4294967295], got 4294967296"),
        ("folds", 3, "folds must be one of 2, 5, 10, got 3"),
        ("dataset", "adult", "dataset must be one of randhie, anes96, got 'adult'"),
        ("dataset", 3, "dataset must be a string, got 3"),
        ("detail", 1, "detail must be True or False, got 1"),
        ("epsilonn", 1.0, "unknown parameter 'epsilonn': did you mean 'epsilon'?"),
        (
            "zzz",
            1.0,
            "unknown parameter 'zzz': there are epsilon, seed, delta, dataset, folds, detail",
        ),
    ],
)
def test_problems_name_argument_and_value(name, value, sentence):
    assert parameters.problems(parameters.parse_parameters(SOURCE), {name: value}) == [sentence]


def test_values_at_closed_ends_have_no_problem():
    ours = parameters.parse_parameters(SOURCE)
    for values in (
        GOOD,
        {"epsilon": 20, "seed": 0, "delta": 1e-12},
        {"seed": 4294967295},
        {"seed": np.int64(3)},
    ):
        assert parameters.problems(ours, values) == []


def told(name, value):
    """What is said of one wrong value."""
    (sentence,) = parameters.problems(parameters.parse_parameters(SOURCE), {name: value})
    return sentence


@pytest.mark.parametrize(
    "power, shown",
    [
        (400, "a whole number of about 400 digits"),
        (5000, "a whole number of about 5,000 digits"),
        (59, "1e+59"),
    ],
)
def test_whole_numbers_beyond_all_floats_are_refused_like_others(power, shown):
    for value in (10**power, -(10**power)):
        shown = shown if value > 0 else shown.replace("1e", "-1e")
        assert told("epsilon", value) == f"epsilon must be in (0, 20], got {shown}"


def test_a_long_value_is_not_repeated_whole():
    assert (
        told("seed", "9" * 5000)
        == f"seed must be an integer, got '{'9' * 29}... (5,002 characters)"
    )
    assert (
        told("seed", 10**5000)
        == "seed must be in [0, 4294967295], got a whole number of about 5,000 digits"
    )
    assert told("dataset", "x" * 58) == f"dataset must be one of randhie, anes96, got '{'x' * 58}'"
    assert len(told("n" * 5000, 1)) < 200


def test_an_unbounded_range_admits_no_number_beyond_all_floats():
    source = SEED + "scale: float = 1.0  # scale of the noise, range [0, inf]"
    ours = parameters.parse_parameters(source)
    assert parameters.problems(ours, {"scale": 10**300}) == []
    assert parameters.converted(ours, {"scale": 10**300}) == {"scale": 1e300}
    assert len(parameters.problems(ours, {"scale": 10**400})) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not JSON",
        "[]",
        "3",
        "null",
        "{}",
        '{"nbformat": 4}',
        '{"nbformat": 9, "cells": []}',
        "\udcff",
        *(
            json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
            for cells in (1, [1], [{"cell_type": "code"}])
        ),
    ],
)
def test_a_file_that_is_no_notebook_is_refused(tmp_path, content):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match="^a.ipynb is not a notebook$"):
        parameters.tagged(path, "parameters")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="^a.ipynb cannot be read: No such file or directory$"):
        parameters.read_notebook(tmp_path / "a.ipynb")
    with pytest.raises(ValueError, match="cannot be read: Is a directory$"):
        parameters.read_notebook(tmp_path)
    with pytest.raises(
        ValueError, match="the notebook has no cell tagged 'parameters', it needs one"
    ):
        parameters.read_parameters(new_notebook())
