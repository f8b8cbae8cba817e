"""Sizes of a notebook, the limits that hold it, and how tests are spread by the time they take."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import anatomy, report, spread, times

PATH = Path("90-sizes.ipynb")


def notebook(*cells):
    return new_notebook(cells=list(cells), metadata={"dputils": {"kind": "chapter"}})


def code(lines, *tags):
    return new_code_cell("\n\n".join(["x = 1"] * lines), metadata={"tags": list(tags)})


@pytest.mark.parametrize(
    "cells, said",
    [
        ([new_markdown_cell("x") for _ in range(121)], "121 cells, at most 120 are allowed"),
        ([new_markdown_cell("word " * 4001)], "4001 words of text, at most 4000 are allowed"),
        ([code(16)], "has 16 lines, at most 15 are allowed"),
        ([code(26, "hide-input")], "has 26 lines, at most 25 are allowed"),
        ([code(26, "solution")], "has 26 lines, at most 25 are allowed"),
    ],
)
def test_a_notebook_is_held_to_the_design(cells, said):
    found = list(anatomy.within_limits(PATH, notebook(*cells)))
    assert len(found) == 1 and said in found[0]


@pytest.mark.parametrize(
    "cells",
    [
        [new_markdown_cell("x") for _ in range(120)],
        [new_markdown_cell("word " * 4000)],
        [code(15)],
        [code(25, "hide-input")],
        [code(25, "appendix")],
    ],
)
def test_what_is_just_inside_passes(cells):
    assert list(anatomy.within_limits(PATH, notebook(*cells))) == []


def test_the_sizes_of_a_notebook():
    picture = new_output("display_data", data={"image/png": "x"})
    cells = [
        new_markdown_cell("# One two"),
        code(3),
        code(5),
        code(40, "hide-input"),
        code(4),
        new_markdown_cell("## References\n\n- many words that do not count"),
    ]
    cells[1].outputs = [picture, picture]
    assert report.sizes(notebook(*cells)) == {
        "cells": 5,
        "in all": 6,
        "words": 3,
        "code lines": 52,
        "median": 4,
        "figures": 2,
    }


def test_the_report_shows_each_notebook_under_the_design(tmp_path, monkeypatch):
    import nbformat

    monkeypatch.setattr(times, "FOLDER", tmp_path / "seconds")
    times.remember("90-sizes", "low", 7.25)
    nbformat.write(notebook(code(3)), tmp_path / PATH)
    rows = report.table([tmp_path / PATH])
    assert rows[0] == ["", *report.DESIGN] and rows[1][0] == "design"
    assert rows[2] == ["90-sizes", "1", "1", "0", "3", "3", "0", "-", "7.2", "-"]
    lines = report.show(rows).splitlines()
    assert len(lines) == 3 and len(set(map(len, lines))) == 1


def test_each_rerun_is_a_portion_and_the_cells_of_a_notebook_stay_together():
    rerun = (
        "tests/test_notebooks.py::test_a_rerun_at_an_end_of_the_ranges[03-laplace-mechanism-low]"
    )
    assert spread.portion(rerun) == rerun and spread.short(rerun) == "03-laplace-mechanism-low"
    assert (
        spread.portion("notebooks/03-a.ipynb::Cell 3") == "notebooks/03-a.ipynb"
        and spread.short("notebooks/03-a.ipynb") == "03-a"
    )
    assert (
        spread.portion("tests/test_notebooks.py::test_the_anatomy_is_kept[03]")
        == "tests/test_notebooks.py"
    )
    assert spread.portion("tests/test_site.py::test_a") == spread.portion(
        "tests/test_site_pages.py::test_b"
    )


def test_the_longest_portions_come_first_and_the_slowest_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(spread, "TIMES", tmp_path / "seconds" / "portions.json")
    clock, lines = spread.Clock(), []
    for file, took in (
        ("tests/test_a.py", 1.0),
        ("tests/test_b.py", 2.0),
        ("tests/test_a.py", 3.5),
    ):
        clock.pytest_runtest_logreport(SimpleNamespace(nodeid=f"{file}::test", duration=took))
    clock.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
    assert lines == ["slowest: test_a 4 s, test_b 2 s"]
    (tmp_path / "small.ipynb").write_text("x")
    (tmp_path / "large.ipynb").write_text("x" * 9)
    names = [
        "tests/test_b.py::one",
        "small.ipynb::Cell 0",
        "tests/test_a.py::one",
        "large.ipynb::Cell 0",
        "small.ipynb::Cell 1",
    ]
    items = [SimpleNamespace(nodeid=name) for name in names]
    spread.pytest_collection_modifyitems(SimpleNamespace(rootpath=tmp_path), items)
    assert [item.nodeid for item in items] == [names[3], names[1], names[4], names[2], names[0]]
