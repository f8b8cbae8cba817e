"""What a chapter must hold: its closing sections, statements, audits, twins, exercises.

A rule is a generator of sentences about what is wrong, `rule(path, nb)`; `CHAPTER` are the rules.
Parts of a chapter are found by tags and headings:

    privacy-statement      a code cell that calls `chapter.statement(mechanism, public=...)`
    audit, broken-twin     code cells behind it, each with a check that raises
    explorer               one code cell that calls `plots.explore(..., frames=...)`
    try, solution          in each exercise, a cell that opens with `# Your turn`, then the answer
    sources, notes         claims checked, and all cells of the notes at the end
"""

import ast
import re

from tools import stored, syntax
from tools.stored import place, tagged, tags

SECTIONS = (
    "What it costs",
    "Try it",
    "When not to use it",
    "In short",
    stored.EXERCISES,
    "What was spent",
    stored.REFERENCES,
    stored.NOTES,
)
LABELS = ("Unit", "Neighbours", "Sensitivity", "Epsilon", "Delta", "Public")
OWN_FACTS = ("unit", "neighbours", "sensitivity", "epsilon")  # the mechanism's, not typed
CAUGHT = "audit.assert_caught"  # the form of a twin; all other audit.assert_... are of audits
FRAMES, EXERCISES = 48, (4, 6)


def in_order(path, nb):
    """The closing sections stand there, once each and in order.

    Only an appendix, all of whose cells are tagged so, may stand between them. The notes on the
    sources are asked for where a claim is checked.
    """
    titles = [part.title for part in _closing(nb)]
    noted = stored.NOTES in titles or tagged(nb, "sources")
    asked = [title for title in SECTIONS if noted or title != stored.NOTES]
    if titles != asked:
        there = ", ".join(titles) or "missing"
        yield f"the closing sections are {there}; asked for: {', '.join(asked)}"


def filled(path, nb):
    """No closing section is empty; the notes on the sources are folded and hold all claims."""
    for part in _closing(nb):
        text = "\n".join(text for _, text in part.prose)
        if len(re.sub(r"(?m)^#.*$", "", text).split()) < 5 and not part.code:
            yield f"the section {part.title!r} is empty"
        if part.title == stored.NOTES and not _is_tagged(part, nb, "notes"):
            yield f"the section {part.title!r} has a cell without the tag notes"
    for i in tagged(nb, "sources"):
        if stored.section(nb, i) != stored.NOTES:
            yield f"{place(nb, i)} checks a claim outside of the notes on the sources"


def _closing(nb):
    """Return the sections from the first closing one on, without appendices."""
    parts = [part for part in stored.sections(nb) if not _is_tagged(part, nb, "appendix")]
    at = [k for k, part in enumerate(parts) if part.title in SECTIONS]
    return parts[at[0] :] if at else []


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


CHAPTER = (
    in_order,
    filled,
    sources_tagged,
    stated,
    attacked,
    twins_at_parameters,
    explored,
    exercised,
)
