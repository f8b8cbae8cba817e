"""The gallery of sweeps: its tables are those of its commands, a rerun gives the same rows, and the
page shows every command and figure.
"""

import hashlib
import json
import shlex

import numpy as np
import pandas as pd
import pytest

from dputils.book import chapter, grid, kernels, plots, run
from dputils.book.parameters import read_parameters
from tools import gallery, setup

PLATES = gallery.plates()
NAMES = [plate.chapter for plate in PLATES]


def table_of(plate):
    return pd.read_csv(setup.ROOT / plate.file)


def values_of(plate):
    """Return the grid of a plate's command, and what is wrong with it."""
    pairs, wrong = run.split_pairs(list(plate.grid))
    values, problems = grid.read(read_parameters(run.find(plate.chapter)), pairs)
    return values, wrong + problems


def unlike(plate, row, record):
    """Return the columns in which a stored row and a record differ."""
    found = chapter.flat({**record, "parameters": {}})
    return [name for name, value in found.items() if str(row[name]) != str(value)]


@pytest.mark.parametrize("plate", PLATES, ids=NAMES)
def test_table_and_sidecar_are_those_of_the_command(plate):
    values, wrong = values_of(plate)
    table = table_of(plate)
    assert not wrong and len(table) == grid.size(values) and set(table.status) == {"ok"}
    points = list(grid.points(values))
    assert table[list(points[0])].to_dict("records") == points
    path = setup.ROOT / plate.file
    beside = json.loads(path.with_suffix(".json").read_text())
    assert beside["sha256"]["table"] == hashlib.sha256(path.read_bytes()).hexdigest()
    typed, stored = shlex.split(plate.command), shlex.split(beside["command"])
    assert (beside["runs"], beside["failed"]) == (len(table), 0)
    assert typed[4:-1] == stored[4:-1] and stored[3] == plate.chapter
    assert run.find(typed[3]) == run.find(plate.chapter)


def test_a_rerun_gives_the_stored_row():
    """One run of each table, in the middle of the grid."""
    with kernels.forked():
        for plate in PLATES:
            table = table_of(plate)
            row = table.iloc[len(table) // 2]
            path = run.find(plate.chapter)
            point = {p.name: row[p.name].item() for p in read_parameters(path)}
            record, _ = run.executed(path, point, run.TIMEOUT)
            assert record["parameters"] == point and unlike(plate, row, record) == []
            headline = next(name for name, value in record["results"].items() if value)
            assert unlike(plate, row.replace({row[headline]: "x"}), record) != []


@pytest.mark.parametrize("plate", PLATES, ids=NAMES)
def test_the_figure_follows_the_table(plate):
    table = table_of(plate)
    plots.style()
    picture = plots.png(plate.draw(table))
    numbers = table.select_dtypes("number").columns.difference(read_names(plate))
    changed = table.assign(**{name: table[name] * 1.5 for name in numbers})
    assert plots.png(plate.draw(table)) == picture != plots.png(plate.draw(changed))


def read_names(plate):
    return [p.name for p in read_parameters(run.find(plate.chapter))]


def test_the_page_shows_every_plate_and_without_tables_there_is_none(tmp_path):
    assert gallery.page(tmp_path, tmp_path) is None and list(tmp_path.iterdir()) == []
    assert gallery.page(setup.ROOT, tmp_path) == "gallery"
    text = (tmp_path / "gallery.md").read_text()
    for plate in PLATES:
        typed = gallery.on_lines(plate.command)
        assert f"```\n{typed}\n```" in text and f"## {plate.title}\n" in text
        assert typed.replace("\\\n", "").split() == plate.command.split()
        assert max(map(len, typed.splitlines())) <= 78
        assert (tmp_path / "gallery" / f"{plate.chapter}.png").stat().st_size > 5000
    assert len(PLATES) >= 4 and text.count("](gallery/") == len(PLATES) + 1  # and the growth


def test_groups_are_in_order_with_a_row_each():
    table = pd.DataFrame({"x": [2, 1, 2, 1], "y": [5, 6, 7, 8]})
    at, found = gallery.over(table, "x", "y")
    assert at.tolist() == [1, 2] and np.array_equal(found, [[6, 8], [5, 7]])


def test_the_commands_are_printed(capsys):
    gallery.main()
    assert capsys.readouterr().out.splitlines() == [plate.command for plate in PLATES]
