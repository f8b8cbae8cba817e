"""The form of every notebook that has been re-cut: headings, captions, what is hidden, assertions.

A rule is a generator of sentences about what is wrong, `rule(path, nb)`; `EVERY` are those that
hold all kinds of notebooks, the ones on prose among them. What only a chapter has is in
`chapters.py`.

    hide-input, solution, appendix, notes      the tags that fold a cell
    a caption                                  the Markdown cell behind a picture, all in italics
"""

import ast
import re

from tools import prose, references, stored, syntax, terms
from tools.stored import place, tags

PRINTS = ("print", "chapter.table", "chapter.statement", "chapter.results", "sources.*", "audit.*")
DRAWN_WITH = {"plt", "plots", "fig", "figure", "ax", "axes"}
SHORT = 3  # lines of drawing that may be visible
CAPTION = re.compile(r"(?s)\*(?!\*)(?!\s)(?:(?!\n\s*\n).)+(?<!\s)\*")


def headed(path, nb):
    """A heading starts its cell."""
    for i, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            text = stored.without_fences(cell.source).strip()
            if any(found.start() for found in stored.HEADING.finditer(text)):
                yield f"{place(nb, i)} has a heading that does not start the cell"


def captioned(path, nb):
    """Behind each picture stands its caption, a Markdown cell with one paragraph in italics."""
    for i, cell in enumerate(nb.cells):
        if not stored.has_picture(cell) or {"explorer", "solution"} & set(tags(cell)):
            continue
        below = nb.cells[i + 1] if i + 1 < len(nb.cells) else None
        caption = below is not None and below.cell_type == "markdown"
        if not caption or not CAPTION.fullmatch(below.source.strip()):
            yield f"{place(nb, i)} draws a picture; the next cell is not its caption in italics"


def folded(path, nb):
    """Tags alone fold: no other way to hide a cell or an output, and drawing code is folded."""
    for i, cell in enumerate(nb.cells):
        for tag in sorted({"hide-output", "hide-cell"} & set(tags(cell))):
            yield f"{place(nb, i)} has the tag {tag}, which is none of {', '.join(stored.FOLDED)}"
        hidden = cell.metadata.get("jupyter", {})
        if (hidden.get("source_hidden") or hidden.get("outputs_hidden")) and not stored.is_folded(
            cell
        ):
            yield f"{place(nb, i)} is folded by its metadata, not by a tag"
        long = stored.has_picture(cell) and stored.lines_of(cell) > SHORT
        if long and not stored.is_folded(cell) and "explorer" not in tags(cell):
            yield f"{place(nb, i)} shows more than {SHORT} lines that draw: tag it hide-input"


def hidden_cells_draw(path, nb):
    """A hidden cell draws; it prints nothing and computes nothing that a visible cell uses."""
    behind = {}  # name -> hidden cell that bound it last
    for i, cell in stored.code_cells(nb):
        module = syntax.tree(cell.source)
        if "hide-input" in tags(cell):
            yield from _beside_drawing(nb, i, module)
            behind |= {name: i for name in _computed(module)}
            continue
        for name in sorted(syntax.free(module) & behind.keys()):
            yield f"{place(nb, i)} uses {name}, which is computed in a hidden cell"
        for statement in module.body:
            for name in syntax.binds(statement):
                behind.pop(name, None)


def _beside_drawing(nb, i, module):
    for call in syntax.calls(module, *PRINTS)[:1]:
        yield f"{place(nb, i)} is hidden and calls {syntax.dotted(call.func)}"
    if not stored.has_picture(nb.cells[i]) and not any(map(_is_drawing, module.body)):
        yield f"{place(nb, i)} is hidden and draws nothing"


def _computed(module):
    """Return the names that a cell binds to anything but pictures, functions that draw, imports."""
    names = set()
    for statement in module.body:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) and not _is_drawing(statement):
            names |= syntax.binds(statement)
    return names


def _is_drawing(statement):
    """Return whether a statement defines a function that draws, or binds a figure."""
    if isinstance(statement, ast.FunctionDef):
        arguments = {arg.arg for arg in ast.walk(statement) if isinstance(arg, ast.arg)}
        return bool(DRAWN_WITH & (syntax.loads(statement) | arguments))
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    return syntax.dotted(statement.value.func) in ("plots.figure", "plt.figure", "plt.subplots")


def meant(path, nb):
    """No assertion that cannot fail."""
    for i, cell in stored.code_cells(nb):
        module = syntax.tree(cell.source)
        known = syntax.settled(module)
        for statement in syntax.assertions(module):
            if why := syntax.emptiness(statement.test, known):
                yield f"{place(nb, i)} asserts {ast.unparse(statement.test)[:50]}: {why}"


def streams_labelled(path, nb):
    """Each label of a random stream occurs once."""
    seen = {}
    for i, label in labels(nb):
        if label in seen:
            yield f"{place(nb, i)} uses the stream {label}, as does {place(nb, seen[label])}"
        seen.setdefault(label, i)


def labels(nb):
    """Return `(index of the cell, label as code)` of the streams that a notebook opens.

    A label that is a variable of a loop or comprehension over constants counts as each of them; one
    that is computed otherwise is compared as it is written, a bare variable not at all.
    """
    found = []
    for i, cell in stored.code_cells(nb):
        module = syntax.tree(cell.source)
        for call in syntax.calls(module, "chapter.stream"):
            node = syntax.keyword(call, "label") or (call.args[1:] or [None])[0]
            found += [(i, ast.unparse(label)) for label in _values(node, module)]
    return found


def _values(node, module):
    if node is None or not isinstance(node, ast.Name):
        return [] if node is None else [node]
    loops = [
        part
        for part in ast.walk(module)
        if isinstance(part, (ast.For, ast.comprehension))
        and isinstance(part.target, ast.Name)
        and part.target.id == node.id
    ]
    return [
        label
        for loop in loops
        if isinstance(loop.iter, (ast.Tuple, ast.List))
        for label in loop.iter.elts
    ]


def numbers_shown(path, nb):
    """Each number in the text is shown by an output of its section, or cited with a reason."""
    if stored.about(nb).get("kind") != "reference":
        yield from prose.problems(nb, references.equations(references.book(path, nb)))


def terms_introduced(path, nb):
    """No key term of the field stands before the chapter that introduces it."""
    if stored.about(nb).get("kind") != "reference" and path.name[:2] != "00":
        yield from terms.problems(path, nb)


def references_resolve(path, nb):
    """Links, chapters, equations, theorems and exercises that the text refers to exist."""
    yield from references.problems(path, nb)


EVERY = (
    headed,
    captioned,
    folded,
    hidden_cells_draw,
    meant,
    streams_labelled,
    numbers_shown,
    terms_introduced,
    references_resolve,
)
