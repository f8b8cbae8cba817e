"""The index of dputils lists each public name once, with a sentence and the cell that uses it
first.
"""

import ast
import json
import re
from collections import Counter

import nbformat
import pytest
from nbformat import v4

from dputils.book import chapter, index

PATH = chapter.BOOK / "reference-index.ipynb"
NB = nbformat.read(PATH, as_version=4)
NAMES = list(index.public(index.files()))


def outputs(mime):
    """Return the stored outputs of a form, by the source of their cells."""
    return {
        cell.source: "\n".join(output.get("data", {}).get(mime, "") for output in cell.outputs)
        for cell in NB.cells
        if cell.cell_type == "code"
    }


def test_each_public_name_stands_in_the_lists_once():
    shown = outputs("text/plain")
    lists = [shown[f"index.listing({package})"] for package in ("", '"accounting"', '"book"')]
    listed = [line.split("  ")[0] for text in lists for line in text.splitlines()]
    assert Counter(listed) == Counter(NAMES)
    lines = [line.partition(": ") for line in shown["index.alphabetical()"].splitlines()]
    assert Counter(f"{home}.{name}" for name, _, homes in lines for home in homes.split(", ")) == (
        Counter(NAMES)
    )


def test_each_name_has_a_sentence():
    assert not [entry for entry in index.entries() if len(entry.sentence) < 10]


def test_the_links_lead_to_cells_that_say_the_name():
    cells = {}
    for entry in index.entries():
        name, _, id = entry.link.partition("#cell-id=")
        if not name:
            continue
        if name not in cells:
            found = json.loads((chapter.BOOK / name).read_text(encoding="utf-8"))["cells"]
            cells[name] = {cell["id"]: "".join(cell["source"]) for cell in found}
        assert re.search(rf"\b{entry.name}\b", cells[name][id]), entry
    links = re.findall(r'href="([^"]+)"', "\n".join(outputs("text/html").values()))
    assert set(links) == {entry.link for entry in index.entries() if entry.link}


def test_the_first_use_comes_before_all_others(tmp_path):
    cells = {
        "reference-a": ["from dputils import accounting", "accounting.Ledger(1)"],
        "01-a": ["from dputils import laplace", "'laplace.scale'", "laplace.scale(1)"],
        "02-b": [
            "from dputils.accounting import ledger",
            "%matplotlib inline\nledger.Ledger(2)",
            "from dputils import laplace as l",
            "l.scale(1); l.release(2)",
        ],
    }
    for stem, sources in cells.items():
        made = [v4.new_markdown_cell(f"# {stem[:2]} $d_{{\\mathcal X}}$ of all")]
        made += [v4.new_code_cell(source) for source in sources]
        for number, cell in enumerate(made):
            cell.id = f"c{number}"
        nbformat.write(v4.new_notebook(cells=made), tmp_path / f"{stem}.ipynb")
    found = index._first_uses({"accounting.Ledger": "accounting.ledger.Ledger"}, tmp_path)
    assert found["laplace.scale"] == ("01 d_X of all", "01-a.ipynb#cell-id=c3")
    assert found["laplace.release"][1] == "02-b.ipynb#cell-id=c4"
    assert found["accounting.ledger.Ledger"][1] == "02-b.ipynb#cell-id=c2"


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Return x. More.", "Return x"),
        ("Return x, e.g. y.\n\nMore.", "Return x, e.g. y"),
        ("Return x\nof y: all.", "Return x of y: all"),
        ("Return x.", "Return x"),
    ],
)
def test_the_first_sentence(docstring, sentence):
    node = ast.parse(f'def f():\n    """{docstring}"""').body[0]
    assert index._sentence(node) == sentence


def test_an_unknown_package_is_refused():
    with pytest.raises(ValueError, match="package must be one of dputils, got 'laplace'"):
        index.listing("laplace")
