"""What a stored notebook must look like, checked without a kernel: limits, clean outputs, anatomy.

`problems(path)` returns one sentence for each thing that is wrong. A rule is a generator of such
sentences; which rules hold a notebook depends on its kind, `metadata.dputils.kind`: those of this
file and of `form.py` hold all, those of `chapters.py` a chapter. Its parts are found by tags and
headings.
"""

import re
from dataclasses import dataclass

import nbformat

from dputils.book.chapter import RECORD
from tools import chapters, form, stored
from tools.stored import code_cells, outputs, place, section, shown, tagged

KINDS = ("chapter", "essay", "reference", "template")
SHORT_NAME = "[a-z0-9]+(?:-[a-z0-9]+)*"
BESIDE = {
    "reference": rf"reference-{SHORT_NAME}\.ipynb",
    "template": r"release-template\.ipynb",
}  # what has no number, by kind
BYTES, ALT = 1_000_000, 20
SEED = (r"seed: int = \d", "seed: int")  # how a cell of parameters says it, and in a refusal
NO_SEED = (r"# no seed: \S", "# no seed: ")
SPENT = "What was spent"  # the section of the results record
TAGS = {
    "parameters",
    "results",
    "explorer",
    "worked-case",
    "sources",
    "proof-sketch",
    "privacy-statement",
    "audit",
    "broken-twin",
    "solution",
    "raises-exception",
    "allow-stderr",
    "hide-input",
    "hide-output",
    "hide-cell",
    "try",
    "appendix",
    "notes",
}
TRACES = {
    "a path of one machine": r"(?<![\w.])/(?:home|Users|tmp|root|var|usr|opt|private)/\w"
    r"|\b[A-Z]:\\|site-packages",
    "a memory address": r"\b0x[0-9a-f]{6,}",
    "a bare scalar": r"\bnp\.(?:float|int|uint|bool|str|complex)\w*\(",
    "a minus zero": r"(?<![\w.])[-\u2212]0(?:\.0+)?(?:e[+-]?\d+)?(?!\.?\d|\w)",
    "a timing": r"\b\d+(?:\.\d+)? (?:ns|us|µs|ms|s|sec|seconds?)\b"
    r"|\b\d+(?:\.\d+)?(?:ns|us|µs|ms)\b",
    "a date or time of day": r"\b20[2-9]\d-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b",
}


@dataclass(frozen=True)
class Limits:
    """Beyond these a notebook is refused."""

    cells: int
    words: int
    visible: int  # lines of a code cell that is not folded
    folded: int  # lines of one that is
    width: int  # the page cuts longer code lines off at the right
    seconds: float  # of processor time of a run with the stored parameters
    rerun: float  # and at the ends of their ranges


LIMITS = Limits(120, 4000, 15, 25, 88, 30, 20)


def problems(path, nb=None):
    """Return what is wrong with a stored notebook, one sentence each; `nb` is its content."""
    nb = nb or nbformat.read(path, as_version=4)
    return [problem for rule in rules(nb) for problem in rule(path, nb)]


def rules(nb):
    """Return the rules that hold a notebook, by its kind."""
    return EVERY + form.EVERY + OF_KIND.get(stored.about(nb).get("kind"), ())


# ---- every notebook ----------------------------------------------------------------------------


def named(path, nb):
    """The file is NN-short-name.ipynb, opens with the title `# NN Title`, is of a known kind.

    What stands beside the chapters has no number: reference-short-name.ipynb and
    release-template.ipynb, of the kinds that their names say.
    """
    kind = stored.about(nb).get("kind")
    beside = next((of for of, name in BESIDE.items() if re.fullmatch(name, path.name)), None)
    if not beside and not re.fullmatch(rf"\d\d-{SHORT_NAME}\.ipynb", path.name):
        yield f"the file is called {path.name}, not NN-short-name.ipynb"
    title = "# " if beside else f"# {path.name[:2]} "
    first = nb.cells[0] if nb.cells else None
    opens = first is not None and first.cell_type == "markdown"
    if not opens or not re.match(rf"{title}\S", first.source):
        yield f"the first cell does not open with the title '{title}...'"
    if beside and kind != beside:
        yield f"metadata.dputils.kind is {kind!r}, not {beside}, as the file's name says"
    elif kind not in KINDS:
        yield f"metadata.dputils.kind is {kind!r}, not one of {', '.join(KINDS)}"


def within_limits(path, nb):
    """No more cells, words, lines, characters in a line and bytes than a reader can take."""
    words = stored.words(nb)
    if len(nb.cells) > LIMITS.cells:
        yield f"{len(nb.cells)} cells, at most {LIMITS.cells} are allowed"
    if words > LIMITS.words:
        yield f"{words} words of text, at most {LIMITS.words} are allowed"
    for i, cell in code_cells(nb):
        yield from _cell_within(nb, i, cell)
    size = path.stat().st_size if path.exists() else len(nbformat.writes(nb).encode())
    if size > BYTES:
        yield f"the file has {size} bytes, at most {BYTES} are allowed"


def _cell_within(nb, i, cell):
    lines = stored.lines_of(cell)
    form = stored.about(nb).get("kind") == "template" and "parameters" in stored.tags(cell)
    most = LIMITS.folded if stored.is_folded(cell) or form else LIMITS.visible  # a form to fill in
    if lines > most:
        yield f"{place(nb, i)} has {lines} lines, at most {most} are allowed"
    widest = max(map(len, cell.source.splitlines()), default=0)
    if widest > LIMITS.width:
        most = LIMITS.width
        yield f"{place(nb, i)} has a code line of {widest} characters, at most {most} are allowed"
    if not lines:
        yield f"{place(nb, i)} is an empty code cell"


def executed(path, nb):
    """Code cells were executed, top to bottom in one kernel; errors only where a tag says so."""
    for number, (i, cell) in enumerate(code_cells(nb), 1):
        if cell.execution_count is None:
            yield f"{place(nb, i)} was never executed"
        elif cell.execution_count != number:
            yield f"{place(nb, i)} was executed as number {cell.execution_count}, not {number}"
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed != ("raises-exception" in cell.metadata.get("tags", [])):
            stored = "stores an error without" if failed else "stores no error despite"
            yield f"{place(nb, i)} {stored} the tag raises-exception"


def clean(path, nb):
    """Outputs hold nothing of the machine, the clock or the numpy version, and no warnings."""
    for i, output in outputs(nb):
        if output.get("name") == "stderr" and "allow-stderr" not in nb.cells[i].metadata.get(
            "tags", []
        ):
            yield f"{place(nb, i)} stores stderr: {output.text.strip()[:60]}"
        for what, pattern in TRACES.items():
            if found := re.search(pattern, shown(output)):
                yield f"{place(nb, i)} shows {what}: {found[0]}"


def described(path, nb):
    """Every picture comes with a sentence for readers who cannot see it."""
    for i, output in outputs(nb):
        alt = output.get("data", {}).get("text/plain", "")
        if "image/png" in output.get("data", {}) and (len(alt) < ALT or alt.startswith("<")):
            yield f"{place(nb, i)} shows a picture without a description: {alt[:40]!r}"


def checkable(path, nb):
    """Tags are known, nbval sees each cell, no widget captures output (headless runs hang)."""
    for i, cell in enumerate(nb.cells):
        for tag in sorted(set(cell.metadata.get("tags", [])) - TAGS):
            yield f"{place(nb, i)} has the unknown tag {tag!r}"
        evasion = r"#\s*(?:NBVAL|PYTEST_VALIDATE)_\w+|\b(?:interact|interactive|Output)\("
        if cell.cell_type == "code" and (found := re.search(evasion, cell.source)):
            yield f"{place(nb, i)} uses {found[0]}"


# ---- chapters ----------------------------------------------------------------------------------


def opened(path, nb):
    """Cell 2 or 3 is tagged `parameters`, with a seed; the next code cell calls `chapter.open`.

    What a template draws cannot be seeded: it says so instead.
    """
    found = tagged(nb, "parameters")
    if len(found) != 1 or found[0] not in (1, 2):
        cells = [i + 1 for i in found]
        yield f"exactly one code cell, the second or third, is tagged parameters; found: {cells}"
        return
    template = stored.about(nb).get("kind") == "template"
    wanted, line = NO_SEED if template else SEED
    if not re.search(rf"(?m)^{wanted}", nb.cells[found[0]].source):
        yield f"the parameters cell declares no {line!r}"
    following = next((cell.source for i, cell in code_cells(nb) if i > found[0]), "")
    if "chapter.open(" not in following:
        yield "the code cell after the parameters does not call chapter.open(...)"


def closed(path, nb):
    """One code cell tagged `results` calls `chapter.results` and stores a record."""
    found = tagged(nb, "results")
    cell = nb.cells[found[0]] if len(found) == 1 else None
    if cell is None or "chapter.results(" not in cell.source:
        cells = [i + 1 for i in found]
        yield f"exactly one cell is tagged results and calls chapter.results(...); found: {cells}"
    elif not any(RECORD in output.get("data", {}) for output in cell.outputs):
        yield f"{place(nb, found[0])} stores no results record"
    elif section(nb, found[0]) not in ("", SPENT):
        there = section(nb, found[0])
        yield f"{place(nb, found[0])} stands in the section {there!r}, not in {SPENT!r}"


def derived(path, nb):
    """A small case is worked and asserted by hand, and at least one proof is sketched in words."""
    worked = {
        section(nb, i) for kind in ("code", "markdown") for i in tagged(nb, "worked-case", kind)
    }
    if not any(
        section(nb, i) in worked and re.search(r"\bassert\b", cell.source)
        for i, cell in code_cells(nb)
    ):
        yield "no cell tagged worked-case with an assert in its section"
    sketches = tagged(nb, "proof-sketch", "markdown")
    if not sketches:
        yield "no Markdown cell tagged proof-sketch"
    for i in sketches:
        if len(nb.cells[i].source.split()) < 25:
            yield f"{place(nb, i)} is no proof sketch: fewer than 25 words"


EVERY = (named, within_limits, executed, clean, described, checkable)
ENDS = (opened, closed)
CHAPTER = (*ENDS, derived)
OF_KIND = {"chapter": CHAPTER + chapters.CHAPTER, "template": ENDS}
