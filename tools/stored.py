"""What a stored notebook holds, read without a kernel: cells by tag, headings, sections, sizes.

The sizes are those that the design gives for one sitting: `cells`, `words`, `code_lines`,
`median_code_cell`, `figures`. `READING_LINE` has their ranges; they are reported, not enforced.
"""

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median

import nbformat

FOLDED = ("hide-input", "solution", "appendix", "notes")  # tags that fold a cell
REFERENCES, NOTES, EXERCISES = "References", "Notes on the sources", "Exercises"
UNREAD = (REFERENCES, NOTES, EXERCISES)  # sections that are no part of one sitting
READING_LINE = {
    "cells": (45, 90),
    "words": (1600, 3200),
    "code_lines": (0, 400),
    "median_code_cell": (3, 6),
    "figures": (5, 10),
}
NAMED = re.compile(r"(?:\d\d|reference|release)-[a-z0-9-]+\.ipynb")  # no copies, no drafts
HEADING = re.compile(r"(?m)^(#{1,6}) (.*)$")
FENCE = re.compile(r"(?ms)^```.*?^```")
LATEX = re.compile(r"\$\$.+?\$\$|\$(?!\s).+?(?<!\s)\$(?!\d)", re.DOTALL)


@dataclass
class Section:
    """A part of a notebook from one heading of the second level to the next."""

    title: str
    prose: list = field(default_factory=list)  # (index of the cell, its text in this section)
    code: list = field(default_factory=list)  # (index of the cell, the cell)


def read(path):
    """Return the notebook at a path, not to be changed: an unchanged file is read once."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path, _):
    return nbformat.read(path, as_version=4)


def about(nb):
    """Return what the notebook's metadata says to the workshop: `kind`, `cited`"""
    return nb.metadata.get("dputils", {})


def tags(cell):
    """Return the tags of a cell."""
    return cell.metadata.get("tags", [])


def is_folded(cell):
    """Return whether a tag folds the cell."""
    return any(tag in FOLDED for tag in tags(cell))


def opens_a_folded_section(cell):
    """Return whether a cell is the heading of an appendix or of the notes."""
    folds = bool({"appendix", "notes"} & set(tags(cell)))
    return cell.cell_type == "markdown" and folds and cell.source.startswith("## ")


def tagged(nb, tag, kind="code"):
    """Return the indices of the cells of a kind (`code` or `markdown`) that carry a tag."""
    return [i for i, cell in enumerate(nb.cells) if cell.cell_type == kind and tag in tags(cell)]


def code_cells(nb):
    """Return `(index, cell)` of every code cell."""
    return [(i, cell) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]


def outputs(nb):
    """Return `(index of the cell, output)` of every output."""
    return [(i, output) for i, cell in code_cells(nb) for output in cell.outputs]


def has_picture(cell):
    """Return whether a picture is stored with the cell."""
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def shown(output):
    """Return all text of one output: streams, errors, displayed values except pictures."""
    data = output.get("data", {})
    forms = [
        value if isinstance(value, str) else json.dumps(value)
        for mime, value in data.items()
        if not mime.startswith("image/")
    ]
    return "\n".join([*forms, output.get("text", ""), output.get("evalue", "")])


def place(nb, index):
    """Return the number of a cell and how it begins, for a message."""
    lines = nb.cells[index].source.splitlines() or ["empty"]
    return f"cell {index + 1} ({lines[0][:40]})"


def without_fences(text):
    """Return Markdown without its fenced code."""
    return FENCE.sub("", text)


def title_of(heading):
    """Return the title of a heading without the number in front of it."""
    return re.sub(r"^\d+(?:\.\d+)*\.? ", "", heading).strip()


def headings(nb):
    """Return `(index of the cell, level, title)` of every heading, without the number in front."""
    return [
        (i, len(found[1]), title_of(found[2]))
        for i, cell in enumerate(nb.cells)
        if cell.cell_type == "markdown"
        for found in HEADING.finditer(without_fences(cell.source))
    ]


def section(nb, index):
    """Return the title of the section (level 2) that a cell stands in, or an empty string."""
    above = [title for i, level, title in headings(nb) if level == 2 and i <= index]
    return above[-1] if above else ""


def sections(nb):
    """Return the sections in order; what stands before the first heading has the title ''."""
    found = [Section("")]
    for i, cell in enumerate(nb.cells):
        if cell.cell_type == "code":
            found[-1].code.append((i, cell))
            continue
        for piece in re.split(r"(?m)^(?=## )", without_fences(cell.source)):
            if piece.startswith("## "):
                found.append(Section(title_of(piece.splitlines()[0][3:])))
            if piece:
                found[-1].prose.append((i, piece))
    return found


# ---- sizes -------------------------------------------------------------------------------------


def cells(nb):
    """Return the cells of one sitting: no references, source notes, exercises, appendices."""
    read = {
        i
        for part in sections(nb)
        if part.title not in UNREAD
        for i, _ in part.prose + part.code
        if "appendix" not in tags(nb.cells[i])
    }
    return len(read)


def words(nb):
    """Return the words of one sitting: no references, source notes, exercises, folded cells."""
    return sum(
        len(text.split())
        for part in sections(nb)
        if part.title not in UNREAD
        for i, text in part.prose
        if not is_folded(nb.cells[i])
    )


def lines_of(cell):
    """Return the number of lines of a cell that are not blank."""
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def code_lines(nb):
    """Return the lines of all code cells that are not blank."""
    return sum(lines_of(cell) for _, cell in code_cells(nb))


def median_code_cell(nb):
    """Return the median of the lines of a code cell that is neither folded nor there to try in."""
    visible = [
        lines_of(cell)
        for _, cell in code_cells(nb)
        if not is_folded(cell) and "try" not in tags(cell)
    ]
    return median(visible) if visible else 0


def figures(nb):
    """Return the number of stored pictures."""
    return sum("image/png" in output.get("data", {}) for _, output in outputs(nb))
