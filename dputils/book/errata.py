"""Which cell of the book decides which claim: what the errata show, read from the chapters.

A claim of `data/claims.csv` is decided by the one code cell that calls `sources.check` or
`sources.not_checkable` with its id, in the notebook that its column `chapter` names. The cells are
found in the sources of the notebooks, and what a cell printed is read from its stored output:
nothing is listed a second time. A claim that is checked twice, elsewhere, by the wrong function, or
with another verdict than the file records is refused. Whether a stored output is what the cell
prints today only a fresh execution tells. An open claim has no cell until its chapter is written.
"""

import ast
import json
import re
from functools import lru_cache
from html import escape
from typing import NamedTuple

from dputils.book import chapter, sources

OWN = "errata-of-the-sources"  # its outputs are being made while it reads the others
DOCUMENTS = {
    "000": "the thesis on averages",
    "001": "the slides",
    "002": "the report on distances",
    "003": "the thesis on preprocessing",
    "004": "the report on thresholds",
}
HEADS = ("claim", "the document says", "what was found", "decided in")
ORDER = ("wrong", "imprecise", "holds", "not checkable", "")  # of the tables of a document
NUMBERS = re.compile(r"printed (.{13}) computed (.{13}) ")


class Decision(NamedTuple):
    """Where a claim is decided, and what was printed there."""

    claim: sources.Claim
    notebook: str  # NN-short-name
    title: str  # of the notebook, as plain text
    cell: str  # the cell's id in the file
    line: str  # what the check printed behind id and verdict; empty in the errata themselves

    @property
    def link(self):
        """The address of the cell for a notebook beside it: JupyterLab and the site follow it."""
        return f"{self.notebook}.ipynb#cell-id={self.cell}"

    @property
    def numbers(self):
        """The pair (printed, computed) that a check of numbers printed, or None."""
        found = NUMBERS.match(self.line)
        return (found[1].strip(), found[2].strip()) if found else None


@lru_cache(maxsize=1)
def decisions(folder=chapter.BOOK):
    """Return `{id: Decision}` of all claims that the notebooks of a folder decide.

    Raises
    ------
    ValueError
        If a claim is decided twice, in another chapter than its own, by `not_checkable` although
        it is recorded as checked (or the other way round), or if its cell did not print it once,
        in full, with the verdict that `data/claims.csv` records.
    """
    found = {}
    for path in sorted(folder.glob("[0-9][0-9]-*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title = chapter.plain_title("".join(cells[0]["source"]))
        for cell in cells:
            for name, id in _calls("".join(cell["source"])) if cell["cell_type"] == "code" else []:
                if id in found:
                    raise ValueError(f"{id} is decided twice: {found[id].link}, {path.name}")
                found[id] = _decision(id, name, path.stem, title, cell)
    return found


def _decision(id, name, stem, title, cell):
    claim = sources.claim(id)
    if not sources.belongs(claim, stem):
        raise ValueError(f"{id} belongs to chapter {claim.chapter}, and {stem} checks it")
    if (name == "not_checkable") != (claim.verdict == "not checkable"):
        raise ValueError(f"{id} is recorded as {claim.verdict!r}, and {stem} calls {name}")
    head, line = f"{id:<18}  {claim.verdict:<13}  ", ""
    if claim.chapter != OWN:
        shown = "".join("".join(output.get("text", "")) for output in cell["outputs"])
        said = [line for line in shown.splitlines() if line.split(" ")[0] == id]
        if len(said) != 1 or not said[0].startswith(head):
            raise ValueError(f"{stem} does not print {id} once as {claim.verdict!r}: execute it")
        line = said[0].removeprefix(head)
        if line.endswith("..."):
            raise ValueError(f"{stem} has no room for what it prints on {id}: shorten it")
    return Decision(claim, stem, title, cell["id"], line)


def undivided(id):
    """Return the id that a claim had before it was divided into -a, -b, -c.

    A claim of several statements stands in the file as several rows, each with its own verdict.
    """
    half = re.fullmatch(r"(.+)-[abc]", id)
    ids = set(sources.claims()["id"])
    whole = ("000-4.4-a", "000-4.4-b")  # two claims of the document, not two halves of one
    divided = half and id not in whole and {half[1] + "-a", half[1] + "-b"} <= ids
    return half[1] if divided else id


# ---- the calls in a cell -------------------------------------------------------------------------


def checked(source):
    """Return the ids that the source of a code cell decides, in its order.

    A check is a plain statement of its cell with the id, or a list of ids, typed out: then a
    reader and this function see from the source alone what is decided where.

    Raises
    ------
    ValueError
        If a check stands in a loop, condition, function or expression, under another name, or with
        an id that is computed.
    """
    return [id for _, id in _calls(source)]


def _calls(source):
    """Return a pair (name of the function, id) for each check of a cell; see `checked`."""
    if "sources" not in source:
        return []
    tree, calls = chapter.parsed(source), []
    plain = {id(node.value) for node in tree.body if isinstance(node, ast.Expr)}
    callers = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if _renames(node):
            raise ValueError(
                f"line {node.lineno}: call the checks as sources.check and sources.not_checkable"
            )
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith(
            ("sources.check", "sources.not_checkable")
        ):
            if id(callers.get(id(node))) not in plain:
                raise ValueError(f"line {node.lineno}: a check is a plain statement of its cell")
            calls.append(callers[id(node)])
    calls.sort(key=lambda call: call.lineno)
    return [(call.func.attr, id) for call in calls for id in _literal_ids(call)]


def _renames(node):
    """Return whether a node imports the checks under another name."""
    if isinstance(node, ast.ImportFrom) and node.module == "dputils.book.sources":
        return True
    names = node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []
    return any("sources" in one.name and one.asname for one in names)


def _literal_ids(call):
    try:
        value = ast.literal_eval(call.args[0])
    except (ValueError, IndexError):
        raise ValueError(
            f"line {call.lineno}: the id of a check is typed out as a string"
        ) from None
    return [value] if isinstance(value, str) else list(value)


# ---- what a reader sees --------------------------------------------------------------------------


def show(id, reads=""):
    """Display the verdict on one claim, what its cell printed, and the link to the cell.

    `reads` is a sentence for readers who do not know the letters that the cell prints.
    """
    from IPython.display import display

    one = decisions()[id]
    said = f"{one.claim.verdict} ({DOCUMENTS[one.claim.source]}, {_place(one.claim)})."
    printed = " ".join(filter(None, [_said(one), reads]))
    line = f"<b>{id}</b> {escape(said)} {escape(printed)} Decided in {_anchor(one)}."
    plain = f"{id} {said} {printed}\nDecided in {one.link}"
    display({"text/html": f"<p>{line}</p>", "text/plain": plain}, raw=True)


def listing(document):
    """Display all claims of a document ("000" to "004"), a folded table for each verdict.

    Raises
    ------
    ValueError
        If there is no such document.
    """
    from IPython.display import display

    own = [claim for claim in _claims() if claim.source == document]
    if not own:
        raise ValueError(f"document must be one of the sources of the claims, got {document!r}")
    html, plain = [], []
    for verdict in ORDER:
        rows = [claim for claim in own if claim.verdict == verdict]
        if rows:
            html.append(
                chapter.folded(f"{verdict or 'open'}: {len(rows)}", HEADS, map(_cells, rows))
            )
            plain += [f"{c.id:<18}  {verdict or 'open':<13}  {_target(c)}".rstrip() for c in rows]
    display({"text/html": "\n".join(html), "text/plain": "\n".join(plain)}, raw=True)


def _claims():
    return [sources.Claim(*row) for row in sources.claims().itertuples(index=False)]


def _target(claim):
    one = decisions().get(claim.id)
    return one.link if one else ""


def _cells(claim):
    """Yield the four cells of a claim's row."""
    one = decisions().get(claim.id)
    yield f"<b style='white-space: nowrap'>{claim.id}</b><br>{escape(claim.where)}"
    yield f"{escape(claim.claim)}"
    instead = f"Instead: {claim.correction}" if claim.correction else ""
    found = [escape(part) for part in (_said(one), claim.evidence, instead) if part]
    yield f"{'<br>'.join(found)}"
    yield f"{_anchor(one) if one else 'its chapter is not written'}"


def _said(one):
    """Return a sentence on what the deciding cell printed, or an empty string."""
    if not one or not one.line:
        return ""
    if not one.numbers:
        return f"The cell prints: {one.line}."
    printed, computed = one.numbers
    pair = f"Printed {printed}, computed {computed}"
    if printed.endswith(" values"):
        pair = f"Of {printed}: {computed}"
    more = NUMBERS.sub("", one.line, count=1)
    return f"{pair}." if more == one.claim.where else f"{pair} ({more})."


def _place(claim):
    """Return where a claim stands in its document; sections are given by their numbers alone."""
    return f"section {claim.where}" if claim.where[0].isdigit() else claim.where


def _anchor(one):
    return f'<a href="{escape(one.link)}">{escape(one.title)}</a>'
