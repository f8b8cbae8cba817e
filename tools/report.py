"""How large the chapters are and how long they take, beside the design's numbers: `python -m
tools.report`.

Nothing fails here: `tools.anatomy` refuses what is far outside. Words are those of the text without
references, notes on the sources and exercises; code lines are those that are not blank; the median
is that of the visible code cells. The seconds are processor time of the last runs on this machine,
kept in the environment: `stored` by `make book` or nbval, `low` and `high` by the reruns of `make
test`.
"""

import statistics

import nbformat

from tools import anatomy, setup, times

DESIGN = {
    "cells": "45-90",
    "words": "1600-3200",
    "code lines": "<= 400",
    "median": "3-6",
    "figures": "5-10",
    "stored": "<= 12",
    "low": "<= 12",
    "high": "<= 12",
}
APART = (
    "Exercises",
    "References",
    "Notes on the sources",
    "Against the sources",
)  # sections whose words do not count


def sizes(nb):
    """Return cells, words, code lines, median lines of a visible code cell, and figures of a
    notebook, by name.
    """
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    visible = [anatomy.lines_of(cell) for cell in code if not anatomy.folded(cell)]
    text = [
        cell.source
        for i, cell in enumerate(nb.cells)
        if cell.cell_type == "markdown" and anatomy.section(nb, i) not in APART
    ]
    return {
        "cells": len(nb.cells),
        "words": sum(len(source.split()) for source in text),
        "code lines": sum(map(anatomy.lines_of, code)),
        "median": statistics.median(visible or [0]),
        "figures": sum(
            "image/png" in output.get("data", {}) for cell in code for output in cell.outputs
        ),
    }


def table(paths):
    """Return the rows of the report: a header, the design's numbers, and one for each notebook."""
    taken = {way: times.seconds(way) for way in times.WAYS}
    rows = [["", *DESIGN], ["design", *DESIGN.values()]]
    for path in paths:
        found = sizes(nbformat.read(path, as_version=4))
        found |= {way: taken[way].get(path.stem, "-") for way in times.WAYS}
        rows.append(
            [path.stem, *(f"{found[name]:g}" if found[name] != "-" else "-" for name in DESIGN)]
        )
    return rows


def show(rows):
    """Return rows of text as a table whose columns stand to the right, but for the first."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def main():
    """Print the report of the book."""
    print(show(table(sorted((setup.ROOT / "notebooks").glob("*.ipynb")))))


if __name__ == "__main__":
    main()
