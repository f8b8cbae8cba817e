"""What a grid of points may be, told from texts; a million points cost nothing before they run."""

import itertools

import pytest
from test_run import PARAMETERS

from dputils.book import grid
from dputils.book.parameters import parse_parameters


@pytest.fixture
def parameters():
    return parse_parameters(PARAMETERS)


def test_a_grid_of_values_and_half_open_ranges(parameters):
    texts = {
        "seed": "7,0:3",
        "epsilon": "0.1, 1",
        "dataset": "anes96,randhie",
        "detail": "true,False",
    }
    values, found = grid.read(parameters, texts)
    assert found == [] and list(values) == list(texts) and grid.size(values) == 32
    assert values == {
        "seed": [7, 0, 1, 2],
        "epsilon": [0.1, 1.0],
        "dataset": ["anes96", "randhie"],
        "detail": [True, False],
    }
    first, second, *_ = grid.points(values)
    assert first == {"seed": 7, "epsilon": 0.1, "dataset": "anes96", "detail": True}
    assert second == {**first, "detail": False}


@pytest.mark.parametrize(
    "texts, sentences",
    [
        (
            {"epsilon": "1,-1,30"},
            ["epsilon must be in (0, 20], got -1.0", "epsilon must be in (0, 20], got 30.0"],
        ),
        ({"epsilon": "1,,2"}, ["epsilon must be a number, got ''"]),
        ({"epsilon": "1:3"}, ["epsilon must be a number, got '1:3'"]),
        ({"epsilon": "1,2,1.0"}, ["epsilon takes 1.0 twice"]),
        ({"seed": "0:3,2"}, ["seed takes 2 twice"]),
        (
            {"seed": "-50:5"},
            ["seed must be in [0, 4294967295], got -50"],
        ),
        (
            {"seed": "5:5"},
            ["seed=5:5 is not a range a:b of at most 1,000,000 whole numbers, a < b"],
        ),
        (
            {"seed": "0:1000001"},
            ["seed=0:1000001 is not a range a:b of at most 1,000,000 whole numbers, a < b"],
        ),
        (
            {"seed": "0:x"},
            ["seed=0:x is not a range a:b of at most 1,000,000 whole numbers, a < b"],
        ),
        (
            {"seed": f"0:{'9' * 100}x"},
            [
                f"seed=0:{'9' * 28}... (103 characters) is not a range a:b of at most 1,000,000 "
                "whole numbers, a < b"
            ],
        ),
        ({"seed": "0:500001", "detail": "true,false"}, ["the grid has more than 1,000,000 points"]),
        ({"sede": "0:3"}, ["unknown parameter 'sede': did you mean 'seed'?"]),
    ],
)
def test_a_grid_is_refused(parameters, texts, sentences):
    assert grid.read(parameters, texts)[1] == sentences


def test_a_million_points_are_made_one_by_one(parameters):
    values, found = grid.read(parameters, {"seed": "5:500005", "detail": "true,false"})
    assert found == [] and grid.size(values) == 1_000_000
    assert values["seed"] == range(5, 500_005)
    assert list(itertools.islice(grid.points(values), 2)) == [
        {"seed": 5, "detail": True},
        {"seed": 5, "detail": False},
    ]
