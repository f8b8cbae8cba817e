"""What the site makes of plain Markdown, shown on a toy book: links, folded solutions, described
pictures, refusals.
"""

import base64
import html
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
from nbformat import v4

from dputils.book import plots
from tools import setup

PICTURE = {
    "image/png": base64.b64encode(plots.png(plots.figure()[0])).decode(),
    "text/plain": '[figure: A line <rises> & "falls".]',
}

ONE = [
    r"""# 01 Toys

Take $x_1$ (and $|x_2|$, not `$x_3$`). Costs `$5`. [Chapter 02](02-more-toys.ipynb)
uses [(1.1)](#equation-1-1); (1.2) and chapter 02 are not linked.

$$ x = 1. \tag{1.1} $$

**Theorem 1.1 (Nobody 2001).** By [(1.1)](#equation-1-1), {math}`x` stays as typed.
% so does this line

$$\begin{aligned} a &= b \\ &= c \end{aligned} \tag{1.2}$$
**Theorem 1.1** once more, and **Theorem 7.7** of another chapter.

Theorem 1.1 of Balle and Wang is not [ours](#theorem-1-1), [exercise 1](#Exercise-1:-none) is.""",
    ("y = 1", ()),
    ("print('worked')", ("solution",)),
    ("print('drawn')", ("hide-input",)),
    ("figure()", ("explorer",)),
    "## Exercises\n\n### Exercise 1: none",
    "## References\n\n- Wang. Theorem 1.1, chapter 02.",
]
TWO = [
    "# 02 More toys\n\nSee equation [(1.2)](01-toys.ipynb#equation-1-2) and "
    "[Theorem 1.1](01-toys.ipynb#theorem-1-1).\n\n"
    "> **Privacy statement**\n>\n> | | |\n> |---|---|\n> | Delta | $0$ |\n\n"
    "Back to [the first](01-toys.ipynb#Exercises)."
]


def write(path, cells):
    """Write an executed notebook: strings are Markdown, pairs are code and its tags."""
    made = [
        v4.new_markdown_cell(cell)
        if isinstance(cell, str)
        else v4.new_code_cell(cell[0], metadata={"tags": list(cell[1])}, execution_count=1)
        for cell in cells
    ]
    for cell in made:
        if cell.source.startswith("print"):
            cell.outputs = [v4.new_output("stream", text=cell.source[7:-2] + "\n")]
        elif cell.source == "figure()":
            widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
            cell.outputs = [v4.new_output("display_data", data={**widget, **PICTURE})]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(
        v4.new_notebook(cells=made, metadata={"language_info": {"name": "python"}}), path
    )


def run(*arguments):
    """Run tools.site in a fresh process and return `(status, what it said)`."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", *map(str, arguments)],
        cwd=setup.ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A book of two toy chapters, and its site."""
    root = tmp_path_factory.mktemp("toy")
    write(root / "notebooks" / "01-toys.ipynb", ONE)
    write(root / "notebooks" / "02-more-toys.ipynb", TWO)
    (root / "README.md").write_text("# Toys\n\nStart with [01](notebooks/01-toys.ipynb).\n")
    status, said = run("--root", root, "--into", root / "site")
    assert status == 0, said
    return SimpleNamespace(root=root, one=page(root, "01-toys"), two=page(root, "02-more-toys"))


def page(root, name):
    """Return the ids, links, alternative texts and article of a page."""
    source = (root / "site" / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
    article = re.search(r"<article.*?</article>", source, re.DOTALL)[0]
    found = {
        name: [html.unescape(value) for value in re.findall(rf' {name}="([^"]*)"', source)]
        for name in ("id", "href", "alt")
    }
    return SimpleNamespace(
        ids=set(found["id"]), links=found["href"], alts=found["alt"], article=article
    )


def named(page, words):
    """Return where the links of the article with this text lead."""
    text = rf"(?:<span[^>]*>)?{re.escape(words)}(?:</span>)?"
    return re.findall(rf'<a class="reference internal" href="([^"]*)">{text}</a>', page.article)


def test_equations_and_theorems_can_be_linked_also_across_chapters(toy):
    one, two = "01-toys.html", "02-more-toys.html"
    assert {"equation-1-1", "equation-1-2", "theorem-1-1"} <= toy.one.ids
    assert toy.one.article.count('id="theorem-') == 1
    assert named(toy.one, "(1.1)") == ["#equation-1-1"] * 2
    assert named(toy.one, "ours") == ["#theorem-1-1"] and named(toy.one, "exercise 1") == [
        "#exercise-1-none"
    ]
    assert named(toy.one, "Chapter 02") == [two]
    assert named(toy.two, "(1.2)") == [f"{one}#equation-1-2"] and named(toy.two, "Theorem 1.1") == [
        f"{one}#theorem-1-1"
    ]
    assert f"{one}#exercises" in toy.two.links


def test_nothing_becomes_a_link_that_the_author_has_not_linked(toy):
    assert (
        named(toy.one, "(1.2)")
        == named(toy.one, "chapter 02")
        == named(toy.one, "Theorem 1.1")
        == []
    )


def test_the_markdown_stays_plain(toy):
    assert "{math}" in toy.one.article and "% so does this line" in toy.one.article
    assert r"\[\begin{aligned} a &amp;= b \\ &amp;= c \end{aligned} \tag{1.2}\]" in toy.one.article
    assert r'<span class="together">(and ' not in toy.one.article
    assert re.search(
        r'<span class="together"><span class="math[^>]*>\\\(\|x_2\|\\\)</span>,</span>',
        toy.one.article,
    )
    assert toy.one.article.count('<span class="math') == 2 and "<blockquote>" in toy.two.article


def test_solutions_are_folded_and_figures_described(toy):
    folded = re.findall(r"<details.*?</details>", toy.one.article, re.DOTALL)
    assert len(folded) == 2 and "Show solution" in folded[0] and "worked" in folded[0]
    assert "Show code cell source" in folded[1] and "drawn" in folded[1]
    assert toy.one.alts == ['A line <rises> & "falls".']
    assert "[figure:" not in toy.one.article


def test_a_page_can_be_downloaded_as_the_notebook_it_came_from(toy):
    assert "../_sources/notebooks/01-toys.ipynb" in toy.one.links
    stored, given = (
        toy.root / place / "notebooks" / "01-toys.ipynb" for place in ("", "site/_sources")
    )
    assert given.read_bytes() == stored.read_bytes()


def test_building_again_changes_no_byte(toy, tmp_path):
    assert run("--root", toy.root, "--into", tmp_path / "site")[0] == 0
    first, again = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (toy.root / "site", tmp_path / "site")
    )
    assert first == again


def test_a_warning_is_an_error_and_leaves_the_old_site_alone(toy, tmp_path):
    shutil.copytree(toy.root / "notebooks", tmp_path / "notebooks")
    write(
        tmp_path / "notebooks" / "03-bad.ipynb",
        ["# 03 Bad\n\n[gone](04-gone.ipynb) [no](#theorem-3-9)\n\n$$x \\tag{1.1}$$"],
    )
    (tmp_path / "README.md").write_text("# Toys\n")
    (tmp_path / "site").mkdir()
    status, said = run("--root", tmp_path, "--into", tmp_path / "site")
    assert status == 1 and said.endswith("the site was not built\n")
    assert (
        "equation 1.1 is numbered twice" in said
        and "04-gone.ipynb" in said
        and "theorem-3-9" in said
    )
    assert re.search(r"(?m)^notebooks/03-bad\.ipynb:", said) and str(tmp_path) not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "notebooks", "site"]
