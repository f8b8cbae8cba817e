"""Whether what the text refers to exists: linked files, anchors, chapters, equations, theorems.

Links are Markdown links to other notebooks, with or without an anchor, or to an anchor of the page.
Anchors are headings as JupyterLab writes them (spaces become hyphens), `equation-3-9` for an
equation with `\\tag{3.9}`, and `theorem-3-1` for a paragraph that opens with **Theorem 3.1**.
Plain mentions ("chapter 04", "equation (3.9)", "exercise 2") are looked up, too, outside the
references and outside sentences about somebody else's document. The book's own numbers begin with
the number of their chapter.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from tools import stored

STATEMENTS = "theorem|lemma|proposition|corollary|definition|claim|example|algorithm"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s\"[^\"]*\")?\)")
TAG = re.compile(r"\\tag\{(\d{1,2}\.\d{1,2})\}")
STATED = re.compile(rf"(?im)^(?:\s*$\n)?\*\*({STATEMENTS}) (\d{{1,2}}\.\d{{1,2}})\b")
EXERCISE = re.compile(r"Exercise (\d+)\b")
NUMBER = r"\d{1,2}(?:\.\d{1,2})?\b"
MENTION = re.compile(
    rf"\b(?P<word>chapter|equation|formula|inequality|exercise|{STATEMENTS})s?\s+"
    rf"(?P<numbers>\(?{NUMBER}\)?(?:(?:,\s|,?\s(?:and|or|to)\s|[-\u2013])\(?{NUMBER}\)?)*)",
    re.I,
)
BARE = re.compile(r"\((\d{1,2}\.\d{1,2})\)")
NUMBERED = ("chapter", "exercise")  # by whole numbers; the others of this book by 3.1
EQUATIONS = ("equation", "formula", "inequality")
# Somebody else's numbers: a document, a book or a year in the same sentence; an owner beside them.
FOREIGN = re.compile(r"(?i)\b(?:documents?|slides?|thesis|paper|report|(?:19|20)\d\d)\b|\bet al\b")
OWNER_BEFORE = re.compile(r"(?:\b[Ii]ts|\b[Tt]heir|'s|s')\s*\Z")
OWNER_BEHIND = re.compile(r"\s+(?:of|in|by|from)\s+(?!chapter\b)[A-Z\u201c]")
LOCAL = re.compile(r"\s+(?:of|in)\s+chapter\s+(\d{1,2})\b")
EXEMPT = (stored.REFERENCES, stored.NOTES, "Against the sources")


@dataclass(frozen=True)
class Targets:
    """What a notebook offers to refer to."""

    anchors: frozenset  # of links
    equations: tuple  # numbers in order, `3.9`; twice if numbered twice
    statements: frozenset  # (kind, number): ("theorem", "3.1")
    exercises: frozenset  # numbers, `2`


def targets(nb):
    """Return what a notebook offers to refer to."""
    text = "\n\n".join(
        stored.without_fences(cell.source) for cell in nb.cells if cell.cell_type == "markdown"
    )
    titles = [found[2] for found in stored.HEADING.finditer(text)]
    equations = tuple(TAG.findall(text))
    statements = frozenset((kind.lower(), number) for kind, number in STATED.findall(text))
    named = [f"equation-{number.replace('.', '-')}" for number in equations]
    named += [f"{kind}-{number.replace('.', '-')}" for kind, number in statements]
    exercises = [EXERCISE.match(stored.title_of(title)) for title in titles]
    return Targets(
        frozenset([*map(slug, titles), *named]),
        equations,
        statements,
        frozenset(found[1] for found in exercises if found),
    )


def slug(title):
    """Return the anchor of a heading: its text without marks, spaces as hyphens."""
    return re.sub(r"[`*$]", "", title).strip().replace(" ", "-")


def book(path, nb):
    """Return `{file name: targets}` of the notebooks beside a path; `nb` is the one at the path."""
    beside = [
        other for other in sorted(path.parent.glob("*.ipynb")) if stored.NAMED.fullmatch(other.name)
    ]
    found = {other.name: targets(stored.read(other)) for other in beside if other.name != path.name}
    return {**found, path.name: targets(nb)}


def equations(pages):
    """Return the numbers of all equations of a book."""
    return {number for page in pages.values() for number in page.equations}


def problems(path, nb):
    """Yield a sentence for each reference that leads nowhere and each number out of place."""
    pages = book(path, nb)
    yield from misnumbered(path.name[:2], pages[path.name])
    for part in stored.sections(nb):
        for i, text in part.prose:
            where = stored.place(nb, i)
            plain = re.sub(r"`[^`]*`", " ", text)
            for link in LINK.findall(plain):
                if lost := _dead(link, path, pages):
                    yield f"{where} links to {link}: {lost}"
            if part.title not in EXEMPT:
                unlinked = stored.LATEX.sub(" \ufffc ", LINK.sub("\ufffc", plain))
                for mention in dangling(unlinked, path.name, pages):
                    yield f"{where} refers to {mention}, which does not exist"


def misnumbered(number, page):
    """Yield a sentence for each equation or theorem with a number of another one.

    What stands beside the chapters has no number, and so no numbered equations.
    """
    chapter = f"chapter {number}" if number.isdigit() else "a chapter"
    number = int(number) if number.isdigit() else None
    for equation in sorted(set(page.equations)):
        if page.equations.count(equation) > 1:
            yield f"equation ({equation}) is there {page.equations.count(equation)} times"
        if int(equation.split(".")[0]) != number:
            yield f"equation ({equation}) does not bear the number of {chapter}"
    for kind, statement in sorted(page.statements):
        if int(statement.split(".")[0]) != number:
            yield f"{kind} {statement} does not bear the number of {chapter}"


def _dead(link, path, pages):
    """Return why a link leads nowhere, or an empty string."""
    if re.match(r"[a-z]+:", link):
        return ""
    file, _, anchor = unquote(link).partition("#")
    there = path.parent / file
    name = there.name if file else path.name
    if name in pages and (not file or there.parent == path.parent):
        known = not anchor or anchor in pages[name].anchors
        return "" if known else "no such heading, equation or theorem there"
    return "" if there.exists() and file else "no such file"


def dangling(text, name, pages):
    """Yield what a text without links and formulas mentions and no notebook of the book has.

    Parameters
    ----------
    text : str
        Markdown, its formulas and links replaced.
    name : str
        The file the text stands in; its exercises are its own.
    pages : dict
        `{file name: targets}` of the book.
    """
    for sentence in re.split(r"(?<=[.!?;])\s+(?!\d)", text):
        for found in MENTION.finditer(sentence):
            kind = found["word"].lower()
            if kind != "chapter" and _is_foreign(sentence, found.start(), found.end()):
                continue
            local = LOCAL.match(sentence, found.end())
            page = _page(local[1], pages) if local else name
            for number in re.findall(NUMBER, found["numbers"]):
                if (kind in NUMBERED or "." in number) and not _exists(kind, number, page, pages):
                    yield f"{kind} {number}"
        for found in BARE.finditer(sentence):
            named = MENTION.search(sentence[: found.end()])
            if named and named.end() == found.end() or _is_foreign(sentence, *found.span()):
                continue
            if _is_like_an_equation(found[1], name, pages) and found[1] not in equations(pages):
                yield f"equation ({found[1]})"


def _is_like_an_equation(number, name, pages):
    """Return whether a bare number in brackets can only be an equation of a chapter.

    A number such as (1.24) may be a value; it is taken for an equation where the chapter of its
    whole part has equations, and that chapter is this one or an earlier one.
    """
    page = _page(number.split(".")[0], pages)
    return bool(page and page <= name and pages[page].equations)


def _is_foreign(sentence, start, end):
    return bool(
        FOREIGN.search(sentence)
        or OWNER_BEFORE.search(sentence[:start])
        or OWNER_BEHIND.match(sentence, end)
    )


def _page(number, pages):
    """Return the file with a number, or None."""
    return next((name for name in pages if name[:2] == f"{int(number):02}"), None)


def _exists(kind, number, page, pages):
    if kind == "chapter":  # a chapter 2.3 is a document's
        return "." in number or _page(number, pages) is not None
    if kind == "exercise":
        return page in pages and number in pages[page].exercises
    if kind in EQUATIONS:
        return number in equations(pages)
    return any((kind, number) in each.statements for each in pages.values())
