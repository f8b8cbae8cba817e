"""How large the chapters are and how long they take, beside the design's numbers: `python -m
tools.report`.

Nothing fails here: `tools.anatomy` refuses what is far outside. Cells and words are those of one
sitting, without references, notes on the sources, exercises and appendices; `in all` counts every
cell; code lines are those that are not blank; the median
is that of the visible code cells. The seconds are processor time of the last runs on this machine,
kept in the environment: `stored` by `make book` or nbval, `low` and `high` by the reruns of `make
test`.
"""

import nbformat

from tools import anatomy, chapters, setup, stored, times

RANGES = {
    name.replace("_", " ").replace(" code cell", ""): f"{low}-{high}" if low else f"<= {high}"
    for name, (low, high) in stored.READING_LINE.items()
}
DESIGN = {
    "cells": RANGES["cells"],
    "in all": f"<= {anatomy.LIMITS.cells}",
    **RANGES,
    **dict.fromkeys(times.WAYS, "<= 12"),
}


def sizes(nb):
    """Return cells (read, in all), words, code lines, median lines of a visible code cell, figures
    of a notebook, by name."""
    return {
        "cells": stored.cells(nb),
        "in all": len(nb.cells),
        "words": stored.words(nb),
        "code lines": stored.code_lines(nb),
        "median": stored.median_code_cell(nb),
        "figures": stored.figures(nb),
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


def to_look_at(paths):
    """Return what an author should look at and no rule can decide, a sentence a line."""
    return [
        f"{path.stem}: {sentence}"
        for path in paths
        for sentence in chapters.warnings(path, nbformat.read(path, as_version=4))
    ]


def main():
    """Print the report of the book."""
    paths = sorted((setup.ROOT / "notebooks").glob("*.ipynb"))
    print(show(table(paths)), *to_look_at(paths), sep="\n")


if __name__ == "__main__":
    main()
