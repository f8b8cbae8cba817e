"""The form of a chapter, checked on the stored notebook: rules for those that have been re-cut.

A rule is a generator of sentences about what is wrong, `rule(path, nb)`. `EVERY` holds all kinds of
notebooks, `CHAPTER` the chapters; the rules that older chapters keep as well are in `anatomy.py`.
Parts of a chapter are found by tags and headings:

    privacy-statement      a code cell that calls `chapter.statement(mechanism, public=...)`
    audit, broken-twin     code cells behind it, each with a check that raises
    try, solution          in each exercise, a cell that opens with `# Your turn`, then the answer
    explorer               one code cell that calls `plots.explore(..., frames=...)`
    sources, notes         claims checked, and all cells of the notes at the end
    hide-input, solution, appendix, notes      folded
    a caption              the Markdown cell behind a picture: one paragraph in italics
"""

import ast
import re

from tools import prose, references, stored, syntax, terms
from tools.stored import place, tagged, tags

SECTIONS = (
    "What it costs",
    "Try it",
    "When not to use it",
    "In short",
    "Exercises",
    "What was spent",
    "References",
    "Notes on the sources",
)
LABELS = ("Unit", "Neighbours", "Sensitivity", "Epsilon", "Delta", "Public")
OWN_FACTS = ("unit", "neighbours", "sensitivity", "epsilon", "delta")  # the mechanism's, not typed
CAUGHT = "audit.assert_caught"  # the form of a twin; all other audit.assert_... are of audits
PRINTS = ("print", "chapter.table", "chapter.statement", "chapter.results", "sources.*", "audit.*")
DRAWN_WITH = {"plt", "plots", "fig", "figure", "ax", "axes"}
FRAMES, EXERCISES, SHORT = 48, (4, 6), 3  # frames at most; lines of drawing that may be visible
CAPTION = re.compile(r"(?s)\*(?!\*)(?!\s)(?:(?!\n\s*\n).)+(?<!\s)\*")


# ---- every notebook ----------------------------------------------------------------------------


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


# ---- chapters ----------------------------------------------------------------------------------


def in_order(path, nb):
    """The closing sections stand there, once each, in order, with something in them.

    Only an appendix, all of whose cells are tagged so, may stand between them. The notes on the
    sources are asked for where a claim is checked, and are folded.
    """
    asked = SECTIONS if tagged(nb, "sources") else SECTIONS[:-1]
    parts = [part for part in stored.sections(nb) if not _is_tagged(part, nb, "appendix")]
    titles = [part.title for part in parts]
    first = min((titles.index(title) for title in asked if title in titles), default=len(titles))
    closing = [
        title
        for title in titles[first:]
        if title != SECTIONS[-1]
        or asked is SECTIONS
        or not _is_tagged(parts[titles.index(title)], nb, "notes")
    ]
    if closing != list(asked):
        yield f"the closing sections are {', '.join(closing) or 'missing'}; asked for: {asked}"
    for part in parts[first:]:
        text = "\n".join(text for _, text in part.prose)
        if len(re.sub(r"(?m)^#.*$", "", text).split()) < 5 and not part.code:
            yield f"the section {part.title!r} is empty"
        if part.title == SECTIONS[-1] and not _is_tagged(part, nb, "notes"):
            yield f"the section {part.title!r} has a cell without the tag notes"
    for i in tagged(nb, "sources"):
        if stored.section(nb, i) != SECTIONS[-1]:
            yield f"{place(nb, i)} checks a claim outside of the notes on the sources"


def _is_tagged(part, nb, tag):
    indices = [i for i, _ in [*part.prose, *part.code]]
    return bool(indices) and all(tag in tags(nb.cells[i]) for i in indices)


def sources_tagged(path, nb):
    """A cell that checks a claim of the documents is tagged `sources`."""
    for i, cell in stored.code_cells(nb):
        checks = syntax.calls(syntax.tree(cell.source), "sources.check", "sources.not_checkable")
        if checks and "sources" not in tags(cell):
            yield f"{place(nb, i)} checks a claim without the tag sources"


def stated(path, nb):
    """Each privacy statement is printed from the mechanism itself, with every label in its box."""
    for i in tagged(nb, "privacy-statement", "markdown"):
        yield f"{place(nb, i)} is a privacy statement typed by hand"
    cells = tagged(nb, "privacy-statement")
    if not cells:
        yield "no code cell tagged privacy-statement"
    for i in cells:
        box = "\n".join(map(stored.shown, nb.cells[i].outputs))
        if missing := [label for label in LABELS if not re.search(rf"\b{label}\b", box)]:
            yield f"{place(nb, i)} shows no {', '.join(missing)}"
        found = syntax.calls(syntax.tree(nb.cells[i].source), "chapter.statement")
        if not found:
            yield f"{place(nb, i)} does not call chapter.statement(mechanism, public=...)"
        for call in found:
            yield from _of_a_mechanism(nb, i, call)
    for i, cell in stored.code_cells(nb):
        if i not in cells and syntax.calls(syntax.tree(cell.source), "chapter.statement"):
            yield f"{place(nb, i)} calls chapter.statement without the tag privacy-statement"


def _of_a_mechanism(nb, i, call):
    """The mechanism is one that another cell releases with or audits; no fact is typed."""
    if syntax.keyword(call, "public") is None:
        yield f"{place(nb, i)} does not say what is public"
    for word in call.keywords:
        if word.arg in OWN_FACTS:
            yield f"{place(nb, i)} types {word.arg} by hand, which is the mechanism's"
    first = call.args[0] if call.args else None
    names = (
        syntax.loads(first)
        if isinstance(first, (ast.Name, ast.Attribute, ast.Subscript))
        else set()
    )
    used = any(
        names & syntax.free(syntax.tree(cell.source)) for j, cell in stored.code_cells(nb) if j != i
    )
    if not used:
        yield f"{place(nb, i)} states a mechanism that no other cell releases with or audits"


def attacked(path, nb):
    """Behind each privacy statement stand an audit and a broken twin; each such cell can raise."""
    cells = tagged(nb, "privacy-statement")
    for i, end in zip(cells, [*cells, len(nb.cells)][1:], strict=True):
        for tag in ("audit", "broken-twin"):
            if not any(i < j < end for j in tagged(nb, tag)):
                yield f"{place(nb, i)} is followed by no code cell tagged {tag}"
    for tag, can_raise in (("audit", _audits), ("broken-twin", _catches)):
        for i in tagged(nb, tag):
            if not can_raise(syntax.tree(nb.cells[i].source)):
                yield f"{place(nb, i)} has the tag {tag} and nothing in it can raise"


def _audits(module):
    return syntax.can_fail(module, "audit.assert_*", but=(CAUGHT,))


def _catches(module):
    return syntax.can_fail(module, CAUGHT)


def twins_at_parameters(path, nb):
    """A broken twin runs at the chapter's parameters: what it computes depends on one of them."""
    for i, used in twins(nb):
        if not used:
            yield f"{place(nb, i)} is a broken twin that depends on no parameter of the chapter"


def twins(nb):
    """Return `(index, parameters other than the seed that it depends on)` of each broken twin."""
    found = tagged(nb, "parameters")
    declared = syntax.tree(nb.cells[found[0]].source) if found else ast.Module([], [])
    names = syntax.stores(declared) - {"seed"}
    reaches, result = {name: {name} for name in names}, []
    for i, cell in stored.code_cells(nb):
        if found and i == found[0]:
            continue
        met = set()
        for statement in syntax.tree(cell.source).body:
            met |= _spread(statement, reaches)
        if "broken-twin" in tags(cell) and names:
            result.append((i, met))
    return result


def _spread(statement, reaches):
    """Note for the names a statement binds which parameters they depend on, and return these."""
    used = [reaches.get(name, set()) for name in syntax.loads(statement)]
    met = set().union(*used)
    for name in syntax.binds(statement):
        kept = reaches.get(name, set()) if name in syntax.loads(statement) else set()
        reaches[name] = met | kept
    return met


def warnings(path, nb):
    """Yield what an author should look at and no rule can decide: twins that do not use epsilon."""
    found = tagged(nb, "parameters")
    if found and "epsilon" in syntax.stores(syntax.tree(nb.cells[found[0]].source)):
        for i, used in twins(nb):
            if used and "epsilon" not in used:
                yield (
                    f"{place(nb, i)} is a broken twin that does not run at epsilon: "
                    f"it depends on {', '.join(sorted(used))}"
                )


def explored(path, nb):
    """One explorer stands under 'Try it' and declares the frames that the site makes of it."""
    found = tagged(nb, "explorer")
    calls = [
        call
        for i in found
        for call in syntax.calls(syntax.tree(nb.cells[i].source), "plots.explore")
    ]
    if len(found) != 1 or not calls or stored.section(nb, found[0]) != SECTIONS[1]:
        yield f"exactly one cell, under {SECTIONS[1]!r}, is tagged explorer and calls plots.explore"
        return
    frames = syntax.keyword(calls[0], "frames")
    if frames is None:
        yield f"{place(nb, found[0])} declares no frames"
    elif _count(frames) > FRAMES:
        yield f"{place(nb, found[0])} declares {_count(frames)} frames, at most {FRAMES} are kept"


def _count(frames):
    """Return the number of frames of a dict of lists; what is computed counts as one."""
    total = 1
    for values in frames.values if isinstance(frames, ast.Dict) else ():
        total *= len(values.elts) if isinstance(values, (ast.List, ast.Tuple)) else 1
    return total


def exercised(path, nb):
    """Four to six exercises, each with a cell to try in and then a solution that can fail."""
    found = stored.headings(nb)
    exercises = [
        (i, title) for i, level, title in found if level == 3 and title.startswith("Exercise ")
    ]
    if not EXERCISES[0] <= len(exercises) <= EXERCISES[1]:
        yield f"{len(exercises)} exercises, {EXERCISES[0]} to {EXERCISES[1]} are asked for"
    for number, (i, title) in enumerate(exercises, 1):
        if not re.match(rf"Exercise {number}\b", title) or stored.section(nb, i) != SECTIONS[4]:
            yield f"{place(nb, i)} is not 'Exercise {number}' of the section {SECTIONS[4]!r}"
        end = next((j for j, level, _ in found if j > i and level <= 3), len(nb.cells))
        yield from _tried_and_solved(nb, i, range(i + 1, end))


def _tried_and_solved(nb, i, inside):
    tries = [j for j in tagged(nb, "try") if j in inside]
    solutions = [j for j in tagged(nb, "solution") if j in inside]
    opened = [j for j in tries if nb.cells[j].source.startswith("# Your turn")]
    if not opened or solutions and opened[0] > solutions[0]:
        yield f"{place(nb, i)} has no cell tagged try, '# Your turn', before its solution"
    if not any(
        syntax.can_fail(syntax.tree(nb.cells[j].source), "audit.assert_*") for j in solutions
    ):
        yield f"{place(nb, i)} has no solution that asserts"


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
CHAPTER = (in_order, sources_tagged, stated, attacked, twins_at_parameters, explored, exercised)
