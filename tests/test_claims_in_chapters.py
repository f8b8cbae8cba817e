"""Each chapter checks every claim assigned to it exactly once, and no other.

How a chapter writes its checks: `sources.check("id", ...)` or `sources.not_checkable("id", ...)`,
the id (or a list of ids) typed out, as a plain statement of a code cell. No loop, condition,
function or comprehension around the call and no other name for it: a reader and `errata.checked`
can then see from the source alone which claims a chapter checks.
"""

from collections import Counter
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from dputils.book import errata, sources

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("[0-9][0-9]-*.ipynb"))
CLAIMS = {record.id: record for record in sources.claims().itertuples(index=False)}


def checked_ids(nb):
    """Return the ids a notebook checks, an entry a call and id; refuse forbidden calls."""
    code = [cell.source for cell in nb.cells if cell.cell_type == "code"]
    return [id for source in code for id in errata.checked(source)]


def faults(nb, stem, claims=CLAIMS):
    """Return what is wrong with the checks of one chapter, NN-short-name, a sentence each."""
    counts = Counter(checked_ids(nb))
    own = [id for id, claim in claims.items() if sources.belongs(claim, stem)]
    foreign = [id for id in counts if id in claims and id not in own]
    return [
        *(f"{id} is never checked" for id in own if id not in counts),
        *(f"{id} is checked {times} times" for id, times in counts.items() if times > 1),
        *(f"{id} is no claim" for id in counts if id not in claims),
        *(f"{id} belongs to chapter {claims[id].chapter}" for id in foreign),
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_claim_is_checked_once_and_in_its_chapter(path):
    assert not faults(nbformat.read(path, as_version=4), path.stem)


def notebook(*cells):
    return v4.new_notebook(
        cells=[v4.new_markdown_cell("`sources.check('000-T2.1')`"), *map(v4.new_code_cell, cells)]
    )


def test_the_finder_reads_code_cells():
    nb = notebook(
        "%matplotlib inline\nx = 1\nsources.check('a', holds=True, because='x')",
        "# sources.check('b')\n'sources.check'",
        "sources.not_checkable(['c', 'd'], 'why')\n"
        "sources.check(('e',), printed=[1], computed=[1])",
    )
    assert checked_ids(nb) == ["a", "c", "d", "e"]


@pytest.mark.parametrize(
    "source, message",
    [
        (
            "for id in ('a', 'b'):\n    sources.check(id, holds=True, because='x')",
            "plain statement",
        ),
        ("for _ in (1, 2):\n    sources.check('a', holds=True, because='x')", "plain statement"),
        ("if epsilon < 1:\n    sources.check('a', holds=True, because='x')", "plain statement"),
        ("def f():\n    sources.check('a', holds=True, because='x')", "plain statement"),
        ("[sources.check(id, holds=True, because='x') for id in ids]", "plain statement"),
        ("y = sources.not_checkable('a', 'x')", "plain statement"),
        ("confirm = sources.check", "plain statement"),
        ("sources.check(id, holds=True, because='x')", "typed out"),
        ("sources.check(f'a{k}', holds=True, because='x')", "typed out"),
        ("sources.check(id='a', holds=True, because='x')", "typed out"),
        (
            "from dputils.book.sources import check\ncheck('a', holds=True, because='x')",
            "call the checks as sources.check",
        ),
        (
            "from dputils.book import errata, sources as s\ns.check('a', holds=True, because='x')",
            "call the checks as sources.check",
        ),
        ("import dputils.book.sources as s", "call the checks as sources.check"),
    ],
)
def test_the_finder_refuses_what_it_cannot_follow(source, message):
    with pytest.raises(ValueError, match=message):
        checked_ids(notebook(source))


def test_faults_are_told_apart():
    claims, chapter = CLAIMS, "decision-trees"
    own = [id for id, claim in claims.items() if claim.chapter == chapter]
    full, stem = (
        f"sources.check({own!r}, printed=[], computed=[], tolerance=0)",
        "43-decision-trees",
    )

    def found(*cells):
        return faults(notebook(*cells), stem, claims)

    assert own and found(full) == []
    assert found() == [f"{id} is never checked" for id in own]
    assert found(full, full) == [f"{id} is checked 2 times" for id in own]
    assert found(full, "sources.check('000-none')") == ["000-none is no claim"]
    assert found(full, "sources.check('000-T2.2')") == [
        "000-T2.2 belongs to chapter privacy-in-databases"
    ]
    assert faults(notebook("x = 1"), "00-start-here") == []
