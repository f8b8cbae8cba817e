"""The bibliography: each line of references is read, says what is taken, and names a work as all
other chapters name it; the stored page holds what the chapters cite.
"""

import difflib
import json
import re
from itertools import combinations

import nbformat
import pytest
from nbformat import v4

from dputils.book import bibliography, chapter
from tools import book

PATH = chapter.BOOK / "reference-bibliography.ipynb"
NB = nbformat.read(PATH, as_version=4)
WORKS = bibliography.works()
ALIKE = 0.9  # titles of one work, written in two ways


def stored(source, mime):
    """Return the stored output of a form of the cell with a source."""
    cell = next(cell for cell in NB.cells if cell.source == source)
    return "".join(cell.outputs[0]["data"][mime])


def chapters_of(uses):
    return [one.title for one in uses]


def same(one, other):
    """Return whether two works are one, by their titles and first authors."""
    a, b = bibliography.plain(one.title), bibliography.plain(other.title)
    if a == b:
        return True
    cut = any(
        longer.title.lower().startswith(shorter.title.rstrip(".?").lower() + ":")
        for shorter, longer in ((one, other), (other, one))
    )
    alike = cut or difflib.SequenceMatcher(None, a, b).ratio() > ALIKE
    return alike and one.key[0] == other.key[0]


def test_each_line_is_read():
    assert list(bibliography.unread()) == []


def test_each_line_says_what_is_taken():
    silent = [
        (one.title, work.title)
        for work, uses in WORKS.items()
        for one in uses
        if len(one.taken.split()) < 1 or not re.search(r"[.?!`)\"]$", one.taken)
    ]
    assert silent == []


def test_one_work_has_one_spelling():
    works = {work: uses for work, uses in WORKS.items() if uses}
    twice = [
        (one, other, chapters_of(works[one] + works[other]))
        for one, other in combinations(works, 2)
        if same(one, other)
    ]
    assert twice == []


def test_no_chapter_cites_a_work_twice():
    twice = [work.title for work, uses in WORKS.items() if len(set(uses)) < len(uses)]
    twice += [w.title for w, uses in WORKS.items() if len({one.link for one in uses}) < len(uses)]
    assert twice == []


def test_every_chapter_with_references_is_there():
    cited = {one.link.partition(".")[0] for uses in WORKS.values() for one in uses}
    for path in chapter.BOOK.glob("[0-9][0-9]-*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        has = any("".join(cell["source"]).startswith("## References") for cell in cells)
        assert has == (path.stem in cited), path.stem


def test_the_page_shows_what_the_chapters_cite():
    shown = stored("bibliography.listing()", "text/plain")
    shown += "\n" + stored("bibliography.data_and_programs()", "text/plain")
    known = {line for work, uses in WORKS.items() for line in bibliography._lines(work, uses)}
    listed = {line for line in shown.splitlines() if len(line) > 1}
    assert listed == known, "the references of a chapter have changed: run make book"
    assert PATH.stem in book.READERS


def test_the_links_of_the_page_lead_to_references():
    html = stored("bibliography.listing()", "text/html")
    for file in {link.partition("#")[0] for link in re.findall(r'href="(\d\d-[^"]+)"', html)}:
        assert (chapter.BOOK / file).exists()
    assert not re.search(r"[$`\\]", html)  # what is left of Markdown or LaTeX


@pytest.mark.parametrize(
    ("bullet", "authors", "venue", "taken", "key"),
    [
        ("C. Dwork, A. Roth. *T.* TCC 2006. A.", "C. Dwork, A. Roth", "TCC 2006", "A.", "dwork"),
        ("*GeoNames.* g.org, CC BY 4.0. Places.", "", "g.org, CC BY 4.0", "Places.", "geonames"),
        ("Y.-A. de Mon. *What? Yes.* S 3, 2013. 9 %.", "Y.-A. de Mon", "S 3, 2013", "9 %.", "mon"),
        ("US Census Bureau. *Keys.* 2021.", "US Census Bureau", "2021", "", "us census bureau"),
        ("Ú. Er and others. *R.* CCS 2014. $x$.", "Ú. Er and others", "CCS 2014", "$x$.", "er"),
    ],
)  # fmt: skip
def test_a_line_is_read(bullet, authors, venue, taken, key):
    work, said = bibliography.read(bullet)
    assert (work.authors, work.venue, said, work.key[0]) == (authors, venue, taken, key)


@pytest.mark.parametrize(
    "bullet",
    ["GeoNames, www.geonames.org.", "A. B. *One.* 1999. C. D. *Two.* 2000. Both.", "A. B. *One.*"],
)
def test_what_has_not_this_form_is_refused(bullet):
    with pytest.raises(ValueError, match="not `Authors"):
        bibliography.read(bullet)


def test_a_wrong_line_is_told_with_its_chapter(tmp_path):
    lines = "## References\n\n- nothing\n- A. B. *C.* D 1999. E."
    cells = [v4.new_markdown_cell("# 01 One"), v4.new_markdown_cell(lines)]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "01-one.ipynb")
    assert bibliography.unread(tmp_path) == [("01-one", "nothing")]
    (one,) = bibliography.works.__wrapped__(tmp_path).items()
    assert one == (("A. B", "C.", "D 1999"), [("01 One", "01-one.ipynb#References", "E.")])


def test_a_line_as_html():
    marked = bibliography.marked(r"*A < b.* `x_1` [c](d.ipynb) $\varepsilon^2/8$, $d_{\mathcal X}$")
    assert marked == (
        '<i>A &lt; b.</i> <code>x_1</code> <a href="d.ipynb">c</a> ε<sup>2</sup>/8, d<sub>X</sub>'
    )
    assert bibliography.marked(r"$e^{-\varepsilon_0}$") == "e<sup>-ε<sub>0</sub></sup>"
    assert bibliography.marked(r"$\frac12$") == r"<code>\frac12</code>"
