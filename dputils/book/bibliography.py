"""The bibliography: each work that the chapters cite, with what each of them takes from it.

Read from the cells "References" of the chapters, where each line is `Authors. *Title.* Venue year.
What is taken.` Data and programs stand there without authors. Nothing is listed a second time: two
chapters cite the same work if they write the same authors, title and venue.
"""

import json
import re
import unicodedata
from functools import lru_cache
from html import escape
from typing import NamedTuple

from dputils.book import chapter

OPENING = "## References"
BULLET = re.compile(r"(?P<authors>[^*]*?)\*(?P<title>[^*]+)\* (?P<venue>.+?)\.(?: (?P<taken>.+))?")
SYMBOLS = {
    "gamma": "γ",
    "varepsilon": "ε",
    "delta": "δ",
    "rho": "ρ",
    "mu": "μ",
    "eta": "η",
    "omega": "ω",
    "ell": "ℓ",
    "mathcal": "",
}
PARTICLES = ("von", "van", "de", "der", "du", "la", "di")  # a surname may begin with them


class Work(NamedTuple):
    """One work as the chapters cite it."""

    authors: str  # `C. Dwork, A. Roth`; empty for data and programs
    title: str  # with its final stop or question mark, in Markdown
    venue: str

    @property
    def key(self):
        """What the list is sorted by: the first author's surname, or the title without authors."""
        return (plain(_surname(self.authors) or self.title), plain(self.authors), plain(self.title))


class Use(NamedTuple):
    """What one chapter takes from a work."""

    title: str  # of the chapter, with its number
    link: str  # to its references
    taken: str  # in Markdown; empty if the chapter does not say


def _surname(authors):
    """Return the surname of the first author, without particles; of an institution all of it."""
    first = re.split(r", | and ", authors)[0].rstrip(".")
    if not re.match(r"(?:[^\W\d_]+\.-?)+ ", first):  # no initials
        return first
    words = re.sub(r"^(?:(?:[^\W\d_]+\.-?)+ )+", "", first).split()
    while len(words) > 1 and words[0] in PARTICLES:
        words = words[1:]
    return " ".join(words)


def plain(text):
    """Return a text as it is sorted: small letters without accents and marks."""
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return " ".join(re.sub(r"[^a-z0-9 ]", " ", letters.lower()).split())


# ---- what the chapters cite ----------------------------------------------------------------------


def _bullets(cells):
    """Yield the lines of a notebook's references, without their dashes."""
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and source.startswith(OPENING):
            for line in source.splitlines():
                if line.startswith("- "):
                    yield line.removeprefix("- ").strip()


def read(bullet):
    """Return `(work, what is taken)` of a line.

    Raises
    ------
    ValueError
        If the line has not one title between asterisks, or no venue.
    """
    found = BULLET.fullmatch(bullet)
    if bullet.count("*") != 2 or not found:
        raise ValueError(f"not `Authors. *Title.* Venue. What is taken.`: {bullet}")
    work = Work(found["authors"].strip().removesuffix("."), found["title"], found["venue"])
    return work, found["taken"] or ""


@lru_cache(maxsize=1)
def works(folder=chapter.BOOK):
    """Return `{Work: list of Use}` of all chapters of a folder, in the order of the list.

    A line that cannot be read is left out here and told by `unread`.
    """
    found = {}
    for path, title, bullet in _lines_of(folder):
        if _is_read(bullet):
            work, taken = read(bullet)
            found.setdefault(work, []).append(Use(title, f"{path.name}#References", taken))
    return dict(sorted(found.items(), key=lambda item: item[0].key))


def unread(folder=chapter.BOOK):
    """Return `(name of the chapter, line)` of each line of references that cannot be read."""
    return [(path.stem, line) for path, _, line in _lines_of(folder) if not _is_read(line)]


def _lines_of(folder):
    for path in sorted(folder.glob("[0-9][0-9]-*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title = chapter.plain_title("".join(cells[0]["source"]))
        for bullet in _bullets(cells):
            yield path, title, bullet


def _is_read(bullet):
    try:
        read(bullet)
    except ValueError:
        return False
    return True


# ---- what a reader sees --------------------------------------------------------------------------


def listing():
    """Display the works with authors under the letters of their first authors' surnames."""
    by_letter = {}
    for work, uses in works().items():
        if work.authors:
            by_letter.setdefault(work.key[0][0].upper(), []).append((work, uses))
    _display(by_letter)


def data_and_programs():
    """Display what is cited without authors: data, libraries, their documentation."""
    _display({"": [(work, uses) for work, uses in works().items() if not work.authors]})


def _display(groups):
    """Display works under headings, `{heading: list of (work, uses)}`."""
    from IPython.display import display

    html, text = [], []
    for heading, entries in groups.items():
        html += [f"<p><b>{heading}</b></p>"] * bool(heading)
        text += [heading] * bool(heading)
        html += ["<ul>", *(_entry(work, uses) for work, uses in entries), "</ul>"]
        text += [line for work, uses in entries for line in _lines(work, uses)]
    display({"text/html": "\n".join(html), "text/plain": "\n".join(text)}, raw=True)


def _entry(work, uses):
    takes = "".join(
        f'<li><a href="{one.link}">{escape(one.title)}</a>: {marked(one.taken)}</li>\n'
        for one in uses
    )
    return f"<li>{marked(_cited(work))}\n<ul>\n{takes}</ul></li>"


def _lines(work, uses):
    yield f"- {_cited(work)}"
    for one in uses:
        yield f"  - {one.title} ({one.link}): {one.taken}"


def _cited(work):
    return f"{work.authors}. " * bool(work.authors) + f"*{work.title}* {work.venue}."


def marked(text):
    """Return a line of references as HTML: titles, code, links, and formulas as plain text.

    A formula with more than letters, numbers, indices and exponents stays as LaTeX.
    """
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    text = re.sub(r"\[([^]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', text)
    text = re.sub(r"\*([^*]+)\*", r"<i>\1</i>", text)
    return re.sub(r"\$([^$]+)\$", lambda found: _formula(found[1]), text)


def _formula(latex):
    """Return a short formula as HTML: `\\varepsilon^2/8`, `d_{\\mathcal X}`."""
    text = re.sub(r"\\([a-zA-Z]+) ?", lambda found: SYMBOLS.get(found[1], found[0]), latex)
    for mark, tag in (("_", "sub"), ("^", "sup")):
        text = re.sub(
            rf"{re.escape(mark)}(?:\{{([^{{}}]*)\}}|(\w))",
            lambda found: f"<{tag}>{found[1] or found[2]}</{tag}>",  # noqa: B023
            text,
        )
    return f"<code>{latex}</code>" if re.search(r"[\\{}^_]", text) else text
