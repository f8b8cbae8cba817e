"""The workshop: executing leaves the same bytes, and the strict run catches each way in which a
stored output is wrong.

A toy notebook is executed by tools.book; then its stored outputs are doctored and nbval is run with
tools.strict.
"""

import base64
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from nbformat import v4
from PIL import Image

from tools import book, normalise, setup, strict, times

DRAW = """import io, base64
from PIL import Image
from IPython.display import display
def draw(width, colour):
    picture = Image.new("RGB", (60, 40), "white")
    picture.paste(colour, (5, 5, 5 + width, 30))
    buffer = io.BytesIO()
    picture.save(buffer, format="png")
    encoded = base64.b64encode(buffer.getvalue()).decode()
    display({"image/png": encoded, "text/plain": "[figure: a box]"}, raw=True)"""
SOURCES = {
    "parts": 'import sys\nprint("a"); sys.stdout.flush(); print("b")',
    "record": "from IPython.display import display\n"
    'record = {"results": {"x": 0.25}}\n'
    'display({"application/vnd.dputils.record+json": record, "text/plain": "one row"}, raw=True)',
    "tools": DRAW,
    "box": 'draw(20, "blue")',
    "nearly": 'draw(20, "green")',
    "vanished": 'draw(20, "red")',
    "widget": 'view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}\n'
    'display(view, raw=True); display({**view, "text/plain": "[sliders]"}, raw=True)',
    "error": "1 / 0",
    "unexecuted": "6 * 7",
    "warning": 'print("done")',
    "last": "print(3)",
}


def toy():
    """Return a notebook as an editor leaves it: random ids, stray metadata, never executed."""
    cells = [
        v4.new_markdown_cell("# A toy\n\n", metadata={"collapsed": True, "tags": ["proof-sketch"]})
    ]
    cells += [v4.new_code_cell(source, metadata={"trusted": True}) for source in SOURCES.values()]
    cells[1 + list(SOURCES).index("error")].metadata["tags"] = ["raises-exception"]
    return v4.new_notebook(
        cells=cells, metadata={"dputils": {"kind": "essay"}, "widgets": {"state": {}}, "vscode": 1}
    )


def run(*arguments, folder):
    """Run a module of this environment and return `(status, all output)`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=setup.ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout.replace(str(folder), "FOLDER")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A folder with the toy and a notebook that fails, both run by tools.book once; and what it
    said.
    """
    folder = tmp_path_factory.mktemp("workshop")
    nbformat.write(toy(), folder / "01-toy.ipynb")
    nbformat.write(
        v4.new_notebook(
            cells=[
                v4.new_code_cell("x = 1"),
                v4.new_code_cell("# here\nraise KeyError('gone')"),
                v4.new_code_cell("x"),
            ]
        ),
        folder / "02-fails.ipynb",
    )
    stale = [
        v4.new_code_cell("1 / 0"),
        v4.new_code_cell("x = 1", execution_count=2),
    ]  # cell 2 ran at another time
    nbformat.write(v4.new_notebook(cells=stale), folder / "04-stale.ipynb")
    before = (folder / "02-fails.ipynb").read_bytes()
    status, said = run("tools.book", "--folder", folder, folder=folder)
    return SimpleNamespace(
        folder=folder, status=status, said=said, before=before, toy=folder / "01-toy.ipynb"
    )


def outputs(nb, name):
    return nb.cells[1 + list(SOURCES).index(name)].outputs


def test_a_failure_is_named_left_alone_and_stops_no_other(workshop):
    assert workshop.status == 1
    assert re.search(r"01-toy +\d+\.\d s  changed\n", workshop.said)
    assert re.search(
        r"02-fails +\d+\.\d s  FAILED: cell 2 \(# here\): KeyError: 'gone'", workshop.said
    )
    assert re.search(
        r"04-stale +\d+\.\d s  FAILED: cell 1 \(1 / 0\): ZeroDivisionError", workshop.said
    )
    assert re.search(r"3 notebooks in \d+\.\d s, 2 failed\nchanged: 01-toy\n", workshop.said)
    assert (workshop.folder / "02-fails.ipynb").read_bytes() == workshop.before
    assert "WARNING" not in workshop.said and not list(workshop.folder.glob("*.partial"))


def test_the_stored_form_holds_nothing_of_the_run(workshop):
    text = workshop.toy.read_text(encoding="utf-8")
    nb = nbformat.read(workshop.toy, as_version=4)
    assert dict(nb.metadata) == {**normalise.METADATA, "dputils": {"kind": "essay"}}
    kept = [dict(cell.metadata) for cell in nb.cells if cell.metadata]
    assert kept == [{"tags": ["proof-sketch"]}, {"tags": ["raises-exception"]}]
    assert [cell.execution_count for cell in nb.cells[1:]] == list(range(1, len(SOURCES) + 1))
    assert [output.text for output in outputs(nb, "parts")] == ["a\nb\n"]
    assert outputs(nb, "error")[0].traceback == ["ZeroDivisionError: division by zero"]
    assert [dict(output.data) for output in outputs(nb, "widget")] == [{"text/plain": "[sliders]"}]
    assert text.endswith("}\n") and text.startswith('{\n "cells"')
    assert "\x1b" not in text and str(setup.ROOT) not in text


def test_executing_again_changes_no_byte(workshop):
    before = workshop.toy.read_bytes()
    status, said = run("tools.book", "--folder", workshop.folder, "01", folder=workshop.folder)
    assert (status, workshop.toy.read_bytes()) == (0, before), said
    assert "unchanged" in said and said.rstrip().endswith("nothing changed")


def doctored(workshop):
    """Return a copy of the executed toy with a wrong stored output in most of its cells."""
    nb = nbformat.read(workshop.toy, as_version=4)
    outputs(nb, "parts")[0].text = "a\nc\n"
    outputs(nb, "record")[0].data["application/vnd.dputils.record+json"]["results"]["x"] = 0.26
    for name, change in (("box", 200), ("nearly", 1)):
        data = outputs(nb, name)[0].data
        pixels = strict.pixels(data["image/png"]).astype(np.uint8)
        pixels[8:10, 8:12] ^= np.uint8(change)
        data["image/png"] = encoded(pixels)
    del outputs(nb, "vanished")[0].data["image/png"]
    outputs(nb, "error")[0].evalue = "division by two"
    cell = nb.cells[1 + list(SOURCES).index("unexecuted")]
    cell.execution_count, cell.outputs = None, []
    nb.cells[
        1 + list(SOURCES).index("warning")
    ].source += "; import sys; print('careful', file=sys.stderr)"
    path = workshop.folder / "03-doctored.ipynb"
    nbformat.write(nb, path)
    return path


def encoded(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="png")
    return base64.b64encode(buffer.getvalue()).decode()


PYTEST = (
    "pytest",
    "-p",
    "tools.strict",
    "-p",
    "no:xdist",
    "-p",
    "no:cacheprovider",
    "-q",
    "-rfE",
    "--color=no",
    "--nbval-current-env",
)


def test_each_doctored_output_is_caught_and_the_true_ones_pass(workshop):
    path = doctored(workshop)
    status, said = run(
        *PYTEST,
        "--nbval",
        f"--rootdir={workshop.folder}",
        workshop.toy,
        path,
        folder=workshop.folder,
    )
    numbers = re.findall(r"(?m)^FAILED \S*03-doctored\.ipynb::Cell (\d+)", said)
    failed = [list(SOURCES)[int(number)] for number in numbers]
    assert status == 1
    assert sorted(failed) == sorted(
        ["parts", "record", "box", "vanished", "error", "unexecuted", "warning"]
    ), said
    assert not re.search(r"FAILED \S*01-toy", said), said
    for sentence in (
        "Picture 1 of the cell is not the stored one: 8 pixels differ",
        "never executed",
        "draws 1 pictures, 0 are stored",
        "'stderr'",
        "division by two",
        "0.26",
    ):
        assert sentence in said


def test_the_lax_mode_runs_the_cells_and_compares_nothing(workshop):
    path = doctored(workshop)
    status, said = run(
        *PYTEST, "--nbval-lax", f"--rootdir={workshop.folder}", path, folder=workshop.folder
    )
    assert status == 0 and f"{len(SOURCES)} passed" in said, said


def checker():
    """A picture of 320 x 600 pixels with some structure."""
    x, y = np.meshgrid(np.arange(600), np.arange(320))
    return np.repeat((255 * ((x // 40 + y // 40) % 2))[:, :, None], 3, axis=2).astype(np.uint8)


def changed(levels, *where):
    """Return the checker with the pixels of a region changed by so many grey levels, towards the
    middle.
    """
    picture = checker().astype(int)
    picture[where] += np.where(picture[where] > 127, -levels, levels)
    return encoded(picture.astype(np.uint8))


@pytest.mark.parametrize(
    "levels, where, said",
    [
        (
            1,
            (slice(100, 120), slice(50, 60)),
            "",
        ),  # what another processor may do: 200 pixels by one level
        (1, (slice(100, 103), slice(50, 117)), "201 pixels differ, by up to 1 of 255"),
        (2, (100, slice(50, 60)), ""),
        (3, (100, 50), "1 pixels differ, by up to 3 of 255"),
        (255, (100, slice(50, 53)), "3 pixels differ, by up to 255 of 255"),
        (1, (slice(None), slice(None)), "192000 pixels differ, by up to 1 of 255"),
    ],
)
def test_pictures_agree_in_their_pixels(levels, where, said):
    assert strict.compare(encoded(checker()), changed(levels, *where), exact=True) == said


def test_another_size_is_another_picture():
    a = checker()
    assert "stored 600 x 320" in strict.compare(encoded(a), encoded(a[:300]), exact=True)


def test_under_another_matplotlib_only_the_coarse_picture_counts():
    a, moved = checker(), np.roll(checker(), 1, axis=1)
    assert strict.compare(encoded(a), encoded(moved[:318]), exact=False) == ""
    assert "coarse grid" in strict.compare(encoded(a), encoded(255 - a // 2), exact=False)


def test_a_notebook_that_takes_too_long_is_refused(monkeypatch, tmp_path):
    kernel = SimpleNamespace(km=SimpleNamespace(provisioner=SimpleNamespace(pid=os.getpid())))
    assert 0 < strict.kernel_seconds(kernel) <= sum(os.times()[:4])
    cells = [v4.new_code_cell("1", execution_count=1), v4.new_code_cell("2", execution_count=2)]
    nb = v4.new_notebook(cells=cells)
    parent = SimpleNamespace(nb=nb, kernel=kernel)
    items = [
        SimpleNamespace(
            cell=cell, cell_num=i, test_outputs=[], parent=parent, path=Path("90-long.ipynb")
        )
        for i, cell in enumerate(cells)
    ]
    monkeypatch.setattr(times, "FOLDER", tmp_path / "seconds")
    monkeypatch.setattr(strict, "kernel_seconds", lambda kernel: 60.9)
    said = "The notebook took 61 s of processor time, at most {} are allowed"
    assert [list(strict.problems(item)) for item in items] == [[], [said.format(30)]]
    assert times.seconds("stored") == {"90-long": 60.9}


def test_what_is_folded_follows_from_the_tags():
    left = {"collapsed": True, "jupyter": {"source_hidden": True}, "jp-MarkdownHeadingCollapsed": 1}

    def form(make, source, *tags):
        cell = make(source, metadata={**left, "tags": list(tags)})
        nb = normalise.normalise(v4.new_notebook(cells=[cell]), "01-a")
        return {name: value for name, value in nb.cells[0].metadata.items() if name != "tags"}

    code, text = v4.new_code_cell, v4.new_markdown_cell
    hidden = {"source_hidden": True}
    assert form(code, "x") == form(code, "x", "audit") == form(text, "## A heading") == {}
    for tag in ("hide-input", "appendix", "notes"):
        assert form(code, "x", tag) == {"jupyter": hidden}
    assert form(code, "x", "solution") == {"jupyter": {**hidden, "outputs_hidden": True}}
    for tag in ("appendix", "notes"):
        assert form(text, "## A section", tag) == {"jp-MarkdownHeadingCollapsed": True}
        assert form(text, "A paragraph of it.", tag) == {}


def test_ids_are_kept_and_new_ones_come_from_the_source():
    nb = v4.new_notebook(
        cells=[v4.new_code_cell("x"), v4.new_code_cell("y"), v4.new_code_cell("x")]
    )
    first = [cell.id for cell in normalise.normalise(nb, "01-a").cells]
    assert len(set(first)) == 3 and all(normalise.ID.fullmatch(name) for name in first)
    nb.cells[1].source = "y = 2"
    nb.cells.insert(1, v4.new_code_cell("z"))
    nb.cells.append(v4.new_code_cell("copied", id=first[0]))
    again = [cell.id for cell in normalise.normalise(nb, "01-a").cells]
    assert [again[0], again[2], again[3]] == first and len(set(again)) == 5


def test_names_select_notebooks_and_a_wrong_one_is_refused(tmp_path):
    for name in ("03-laplace", "13-location", "20-choice"):
        (tmp_path / f"{name}.ipynb").write_text("{}")
    chosen = [path.stem for path in book.select(["03", "notebooks/20-choice.ipynb"], tmp_path)]
    assert chosen == ["03-laplace", "20-choice"]
    assert len(book.select([], tmp_path)) == 3
    with pytest.raises(
        SystemExit, match="no notebook '04'; there are: 03-laplace, 13-location, 20-choice"
    ):
        book.select(["04"], tmp_path)


def test_the_longest_comes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(times, "FOLDER", tmp_path / "seconds")
    paths = [tmp_path / name for name in ("a.ipynb", "b.ipynb", "c.ipynb", "d.ipynb")]
    for size, path in enumerate(paths):
        path.write_text("x" * size)
    for stem, taken in (("b", 9.0), ("d", 3.0)):
        times.remember(stem, "stored", taken)
    assert [path.stem for path in book.longest_first(paths)] == ["c", "a", "b", "d"]


def test_what_shows_the_other_notebooks_is_executed_after_them():
    paths = [Path(f"{stem}.ipynb") for stem in (book.READERS[0], "03-a", book.READERS[1], "01-b")]
    first, last = book.readers_last(paths)
    assert [path.stem for path in first] == ["03-a", "01-b"]
    assert [path.stem for path in last] == list(book.READERS[:2])
