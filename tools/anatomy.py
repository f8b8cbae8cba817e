"""What a stored notebook must look like, checked without a kernel: limits, clean outputs, the anatomy of a chapter.

`problems(path)` returns one sentence for each thing that is wrong. A rule is a generator of such sentences; which rules
hold a notebook depends on its kind, `metadata.dputils.kind`. The parts of a chapter are found by tags and headings:

    parameters, results, explorer             one code cell each
    worked-case                               a cell in whose section the small case is asserted
    sources                                   code cells
    proof-sketch, privacy-statement           Markdown cells
    audit, broken-twin                        code cells behind each privacy statement
    solution                                  a code cell behind each `### Exercise n`
"""
import json
import re
from dataclasses import dataclass

import nbformat

from dputils.chapter import RECORD

KINDS = ("chapter", "essay", "reference", "template")
LEAST_CELLS, LEAST_WORDS, BYTES = 45, 1800, 1_000_000
WIDTH = 100  # characters; JupyterLab cuts longer code lines off at the right
FIGURES, EXERCISES, ALT = 5, (4, 6), 20
SECTIONS = ("Against the sources", "What it costs", "Try it", "When not to use it", "Exercises", "What was spent",
            "References")
STATEMENT = ("Neighbours", "Sensitivity", "Epsilon", "Delta", "Public")
TAGS = {"parameters", "results", "explorer", "worked-case", "sources", "proof-sketch", "privacy-statement", "audit",
        "broken-twin", "solution", "raises-exception", "allow-stderr", "hide-input", "hide-output", "hide-cell"}
TRACES = {
    "a path of one machine": r"(?<![\w.])/(?:home|Users|tmp|root|var|usr|opt|private)/\w|\b[A-Z]:\\|site-packages",
    "a memory address": r"\b0x[0-9a-f]{6,}",
    "a bare scalar": r"\bnp\.(?:float|int|uint|bool|str|complex)\w*\(",
    "a minus zero": r"(?<![\w.])[-\u2212]0(?:\.0+)?(?:e[+-]?\d+)?(?!\.?\d|\w)",
    "a timing": r"\b\d+(?:\.\d+)? (?:ns|us|µs|ms|s|sec|seconds?)\b|\b\d+(?:\.\d+)?(?:ns|us|µs|ms)\b",
    "a date or time of day": r"\b20[2-9]\d-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b",
}


@dataclass(frozen=True)
class Limits:
    """What is far outside the design: cells, words, lines in a visible and in a folded code cell, and processor seconds
    of a run with the stored parameters and at the ends of their ranges."""

    cells: int
    words: int
    visible: int
    folded: int
    seconds: float
    rerun: float


# A notebook whose metadata says `recut` is held to the limits of the design, the others to what they were written for.
LIMITS = {True: Limits(120, 4000, 15, 25, 40.0, 40.0), False: Limits(130, 5000, 25, 25, 60.0, 120.0)}
FOLDED = {"hide-input", "hide-cell", "solution"}  # tags of code cells that a reader opens on purpose


def limits(nb):
    """Return the limits that hold a notebook."""
    return LIMITS[bool(nb.metadata.get("dputils", {}).get("recut"))]


def problems(path, nb=None):
    """Return what is wrong with a stored notebook, one sentence each; `nb` is the file's content if it is at hand."""
    nb = nb or nbformat.read(path, as_version=4)
    kind = nb.metadata.get("dputils", {}).get("kind")
    rules = EVERY + {"chapter": CHAPTER, "template": TEMPLATE}.get(kind, ())
    return [problem for rule in rules for problem in rule(path, nb)]


def tagged(nb, tag, kind="code"):
    """Return the indices of the cells of a kind (`code` or `markdown`) that carry a tag."""
    return [i for i, cell in enumerate(nb.cells) if cell.cell_type == kind and tag in cell.metadata.get("tags", [])]


def headings(nb):
    """Return `(index of the cell, level, title)` of every heading, numbers in front of a title left out."""
    found = []
    for i, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            text = re.sub(r"(?ms)^```.*?^```", "", cell.source)
            lines = re.finditer(r"(?m)^(#{1,6}) (?:\d+(?:\.\d+)*\.? )?(.*)$", text)
            found += [(i, len(line[1]), line[2].strip()) for line in lines]
    return found


def section(nb, index):
    """Return the title of the section (level 2) that a cell stands in, or an empty string."""
    return next((title for i, level, title in reversed(headings(nb)) if level == 2 and i <= index), "")


def words(nb):
    """Return the number of words in the Markdown cells."""
    return sum(len(cell.source.split()) for cell in nb.cells if cell.cell_type == "markdown")


def shown(output):
    """Return all text of one output: streams, errors, every form of a displayed value except pictures."""
    forms = [value if isinstance(value, str) else json.dumps(value) for mime, value in output.get("data", {}).items()
             if not mime.startswith("image/")]
    return "\n".join([*forms, output.get("text", ""), output.get("evalue", "")])


def lines_of(cell):
    """Return the number of lines of a cell that are not blank."""
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def folded(cell):
    """Return whether the code of a cell is folded where it is read."""
    return bool(FOLDED.intersection(cell.metadata.get("tags", [])))


def _code(nb):
    return [(i, cell) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]


def _outputs(nb):
    return [(i, output) for i, cell in _code(nb) for output in cell.outputs]


def _place(nb, index):
    lines = nb.cells[index].source.splitlines() or ["empty"]
    return f"cell {index + 1} ({lines[0][:40]})"


# ---- every notebook --------------------------------------------------------------------------------------------------

def named(path, nb):
    """The file is NN-short-name.ipynb, opens with the title `# NN Title`, and its metadata says a known kind."""
    if not re.fullmatch(r"\d\d-[a-z0-9]+(?:-[a-z0-9]+)*\.ipynb", path.name):
        yield f"the file is called {path.name}, not NN-short-name.ipynb"
    first = nb.cells[0] if nb.cells else None
    if first is None or first.cell_type != "markdown" or not re.match(rf"# {path.name[:2]} \S", first.source):
        yield f"the first cell does not open with the title '# {path.name[:2]} ...'"
    if nb.metadata.get("dputils", {}).get("kind") not in KINDS:
        yield f"metadata.dputils.kind is {nb.metadata.get('dputils', {}).get('kind')!r}, not one of {', '.join(KINDS)}"


def within_limits(path, nb):
    """No more cells, words, lines in a code cell, characters in a code line and bytes than a reader can take."""
    allowed = limits(nb)
    if len(nb.cells) > allowed.cells:
        yield f"{len(nb.cells)} cells, at most {allowed.cells} are allowed"
    if words(nb) > allowed.words:
        yield f"{words(nb)} words of text, at most {allowed.words} are allowed"
    for i, cell in _code(nb):
        lines, most = lines_of(cell), allowed.folded if folded(cell) else allowed.visible
        if lines > most:
            yield f"{_place(nb, i)} has {lines} lines, at most {most} are allowed"
        widest = max(map(len, cell.source.splitlines()), default=0)
        if widest > WIDTH:
            yield f"{_place(nb, i)} has a code line of {widest} characters, at most {WIDTH} are allowed"
        if not lines:
            yield f"{_place(nb, i)} is an empty code cell"
    size = path.stat().st_size if path.exists() else len(nbformat.writes(nb).encode())
    if size > BYTES:
        yield f"the file has {size} bytes, at most {BYTES} are allowed"


def executed(path, nb):
    """Every code cell was executed, from top to bottom in one kernel, with errors only where a tag announces them."""
    for number, (i, cell) in enumerate(_code(nb), 1):
        if cell.execution_count is None:
            yield f"{_place(nb, i)} was never executed"
        elif cell.execution_count != number:
            yield f"{_place(nb, i)} was executed as number {cell.execution_count}, not {number}"
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed != ("raises-exception" in cell.metadata.get("tags", [])):
            stored = "stores an error without" if failed else "stores no error despite"
            yield f"{_place(nb, i)} {stored} the tag raises-exception"


def clean(path, nb):
    """Outputs hold nothing of the machine, the clock or the numpy version, and no warnings."""
    for i, output in _outputs(nb):
        if output.get("name") == "stderr" and "allow-stderr" not in nb.cells[i].metadata.get("tags", []):
            yield f"{_place(nb, i)} stores stderr: {output.text.strip()[:60]}"
        for what, pattern in TRACES.items():
            if found := re.search(pattern, shown(output)):
                yield f"{_place(nb, i)} shows {what}: {found[0]}"


def described(path, nb):
    """Every picture comes with a sentence for readers who cannot see it."""
    for i, output in _outputs(nb):
        alt = output.get("data", {}).get("text/plain", "")
        if "image/png" in output.get("data", {}) and (len(alt) < ALT or alt.startswith("<")):
            yield f"{_place(nb, i)} shows a picture without a description: {alt[:40]!r}"


def checkable(path, nb):
    """Tags are known ones, no cell is hidden from nbval, and no widget captures output (which hangs headless runs)."""
    for i, cell in enumerate(nb.cells):
        for tag in sorted(set(cell.metadata.get("tags", [])) - TAGS):
            yield f"{_place(nb, i)} has the unknown tag {tag!r}"
        evasion = r"#\s*(?:NBVAL|PYTEST_VALIDATE)_\w+|\b(?:interact|interactive|Output)\("
        if cell.cell_type == "code" and (found := re.search(evasion, cell.source)):
            yield f"{_place(nb, i)} uses {found[0]}"


# ---- chapters --------------------------------------------------------------------------------------------------------

def substantial(path, nb):
    """A chapter has the cells, words and figures that its subject needs."""
    if len(nb.cells) < LEAST_CELLS:
        yield f"{len(nb.cells)} cells, at least {LEAST_CELLS} are asked for"
    if words(nb) < LEAST_WORDS:
        yield f"{words(nb)} words of text, at least {LEAST_WORDS} are asked for"
    figures = sum("image/png" in output.get("data", {}) for _, output in _outputs(nb))
    if figures < FIGURES:
        yield f"{figures} figures, at least {FIGURES} are asked for"


def opened(path, nb):
    """Cell 2 or 3 is the one tagged `parameters`, with a seed; the next code cell calls `chapter.open`."""
    found = tagged(nb, "parameters")
    if len(found) != 1 or found[0] not in (1, 2):
        yield f"exactly one code cell, the second or third, is tagged parameters; found: {[i + 1 for i in found]}"
        return
    if not re.search(r"(?m)^seed: int = \d", nb.cells[found[0]].source):
        yield "the parameters cell declares no 'seed: int'"
    following = next((cell.source for i, cell in _code(nb) if i > found[0]), "")
    if "chapter.open(" not in following:
        yield "the code cell after the parameters does not call chapter.open(...)"


def closed(path, nb):
    """One code cell tagged `results` calls `chapter.results` and stores a record."""
    found = tagged(nb, "results")
    cell = nb.cells[found[0]] if len(found) == 1 else None
    if cell is None or "chapter.results(" not in cell.source:
        yield f"exactly one code cell is tagged results and calls chapter.results(...); found: {[i + 1 for i in found]}"
    elif not any(RECORD in output.get("data", {}) for output in cell.outputs):
        yield f"{_place(nb, found[0])} stores no results record"
    elif section(nb, found[0]) not in ("", SECTIONS[5]):
        yield f"{_place(nb, found[0])} stands in the section {section(nb, found[0])!r}, not in {SECTIONS[5]!r}"


def in_order(path, nb):
    """The closing sections stand there, once each and in order, and hold what belongs to them."""
    titles = [title for _, level, title in headings(nb) if level == 2 and title in SECTIONS]
    if titles != list(SECTIONS):
        yield f"the closing sections are {', '.join(titles) or 'missing'}; asked for: {', '.join(SECTIONS)}"
    for tag, call, title in (("sources", "sources.check", SECTIONS[0]), ("explorer", "plots.explore(", SECTIONS[2])):
        if not any(call in nb.cells[i].source and section(nb, i) == title for i in tagged(nb, tag)):
            yield f"no code cell tagged {tag} with {call} in the section {title!r}"
    if len(tagged(nb, "explorer")) > 1:
        yield f"{len(tagged(nb, 'explorer'))} cells are tagged explorer, one is asked for"


def derived(path, nb):
    """A small case is worked and asserted by hand, and at least one proof is sketched in words."""
    worked = {section(nb, i) for kind in ("code", "markdown") for i in tagged(nb, "worked-case", kind)}
    if not any(section(nb, i) in worked and re.search(r"\bassert\b", cell.source) for i, cell in _code(nb)):
        yield "no cell tagged worked-case with an assert in its section"
    sketches = tagged(nb, "proof-sketch", "markdown")
    if not sketches:
        yield "no Markdown cell tagged proof-sketch"
    for i in sketches:
        if len(nb.cells[i].source.split()) < 25:
            yield f"{_place(nb, i)} is no proof sketch: fewer than 25 words"


def attacked(path, nb):
    """Behind each privacy statement, before the next one, stand an audit and a broken twin that it catches."""
    statements = tagged(nb, "privacy-statement", "markdown")
    if not statements:
        yield "no Markdown cell tagged privacy-statement"
    for i, end in zip(statements, [*statements[1:], len(nb.cells)]):
        missing = [label for label in STATEMENT
                   if not re.search(rf"(?m)\*\*{label}\b|^>? ?\| *{label} *\|", nb.cells[i].source)]
        if missing:
            yield f"{_place(nb, i)} has no row or bold label for {', '.join(missing)}"
        for tag, asked in (("audit", r"\bassert\b|\baudit\.\w+\("), ("broken-twin", r"\bassert\b")):
            if not any(i < j < end and re.search(asked, nb.cells[j].source) for j in tagged(nb, tag)):
                yield f"{_place(nb, i)} is followed by no code cell tagged {tag} that asserts"


def exercised(path, nb):
    """Four to six exercises, numbered from 1, each with a solution that runs and asserts."""
    all_headings = headings(nb)
    found = [(i, title) for i, level, title in all_headings if level == 3 and title.startswith("Exercise ")]
    if not EXERCISES[0] <= len(found) <= EXERCISES[1]:
        yield f"{len(found)} exercises, {EXERCISES[0]} to {EXERCISES[1]} are asked for"
    for number, (i, title) in enumerate(found, 1):
        if not re.match(rf"Exercise {number}\b", title) or section(nb, i) != "Exercises":
            yield f"{_place(nb, i)} is not 'Exercise {number}' of the section 'Exercises'"
        end = next((j for j, level, _ in all_headings if j > i and level <= 3), len(nb.cells))
        if not any(i < j < end and re.search(r"\bassert\b", nb.cells[j].source) for j in tagged(nb, "solution")):
            yield f"{_place(nb, i)} is followed by no code cell tagged solution that asserts"


EVERY = (named, within_limits, executed, clean, described, checkable)
TEMPLATE = (opened, closed)
CHAPTER = (substantial, opened, closed, in_order, derived, attacked, exercised)
