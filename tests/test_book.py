"""The book as a whole: every public name of dputils is introduced in it, and its links lead
somewhere.
"""

import re
from urllib.parse import unquote

import nbformat
import pytest

from tools import book, setup, site_pages

ROOT = setup.ROOT
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [
    path
    for path in map(ROOT.joinpath, ("README.md", "data/README.md", ".github/CONTRIBUTING.md"))
    if path.exists()
]
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def markdown(path):
    """Return the Markdown of a notebook or a page."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def prose(path):
    """Return the Markdown of a notebook or a page, without code and formulas."""
    text = markdown(path)
    return re.sub(r"(?s)(`+).+?\1|\$\$.+?\$\$|\$[^$\n]+\$", "", text)


def links(text):
    """Return the targets of Markdown links, pictures and references, and of HTML attributes."""
    return (
        re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
        + re.findall(r"(?m)^\[[^\]]+\]:\s*(\S+)", text)
        + re.findall(r"(?:href|src)=\"([^\"]+)\"", text)
    )


def anchors(path):
    """Return what a link can lead to: headings, in JupyterLab's form and in the lower-case form of
    code hosts; equations with a number and statements in bold, in the form that the website gives
    them."""
    titles = re.findall(r"(?m)^#{1,6} (.+?)\s*$", prose(path))
    host = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    text, own = markdown(path), path.name[:2].lstrip("0")
    numbers = [("equation", number) for number in re.findall(r"\\tag\{([\d.]+)\}", text)]
    numbers += re.findall(
        rf"(?:\A|(?<=\n\n))\*\*({site_pages.STATEMENTS})\s({own}\.\d+)\b", text, re.IGNORECASE
    )
    named = {f"{kind.lower()}-{number.replace('.', '-')}" for kind, number in numbers}
    return {title.replace(" ", "-") for title in titles} | set(host) | named


def dead_links(path):
    """Return the relative links of a page that lead nowhere."""
    dead = []
    for target in links(prose(path)):
        if OUTSIDE.match(target):
            continue
        file, _, anchor = unquote(target).partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or (
            anchor and to.suffix in (".ipynb", ".md") and anchor not in anchors(to)
        ):
            dead.append(target)
    return dead


def test_the_picture_of_the_readme_is_the_first_figure_of_the_book():
    assert (ROOT / ".github" / "picture.png").read_bytes() == book.first_picture(
        ROOT / "notebooks" / f"{book.COVER}.ipynb"
    )


def test_the_readme_and_the_first_chapter_list_the_same_chapters():
    listed = [
        re.findall(r"(?m)(?<=[|,\[])\s?(\d\d [^|\],]+?)(?=[|\],]| \|)", rows)
        for rows in (tables(ROOT / "README.md"), tables(ROOT / "notebooks" / f"{book.COVER}.ipynb"))
    ]
    plain = [{re.sub(r"\$.*?\$", "d_X", name).strip() for name in names} for names in listed]
    assert plain[0] == plain[1]
    assert len(plain[0]) == len({name[:2] for name in plain[0]}) == 68


def tables(path):
    """Return the rows of the tables of chapters of a page."""
    _, chapters = markdown(path).split("\n## The chapters\n")
    return "\n".join(row for row in chapters.split("\n## ")[0].splitlines() if row.startswith("|"))


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert not dead_links(path)


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "02.md").write_text("# One two, three\n")
    page = tmp_path / "01.md"
    page.write_text(
        "# Here\n[a](02.md) ![b](no.png) [c](02.md#One-two,-three) [d](02.md#one-two-three)\n"
        '[e](02.md#four) [f](#Here) [g](#There) <img src="none.png"> [h](https://example.org/x)\n'
        "`[code](x)` $[0](1)$\n\n[ref]: gone.md\n"
    )
    (tmp_path / "03.md").write_text(
        "$$ x \\tag{3.1} $$\n\n**Theorem 3.2 (Nobody).** By **Lemma 3.3**, so.\n\n"
        "**Theorem 4.1** of 04.\n"
    )
    mentions = [
        "03.md#equation-3-1",
        "03.md#theorem-3-2",
        "03.md#lemma-3-3",
        "03.md#theorem-4-1",
        "03.md#equation-3-2",
    ]
    (tmp_path / "05.md").write_text(" ".join(f"[x]({mention})" for mention in mentions))
    assert dead_links(tmp_path / "05.md") == mentions[2:]
    assert dead_links(page) == ["no.png", "02.md#four", "#There", "gone.md", "none.png"]
