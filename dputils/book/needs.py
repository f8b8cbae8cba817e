"""The map of the book: which chapters a chapter needs, and the picture of it.

Read from the first cell of each chapter: what its sentence "**You need** ..." links to. What stands
behind that sentence is a remark. A chapter whose needs contain another one's shows only the last:
who needs AdaSSP needs sums of products before it, and no arrow says so twice.
"""

import json
import re
from functools import lru_cache
from typing import NamedTuple

from dputils.book import chapter, plots

PARTS = (
    ("I Foundations", range(1, 20)),
    ("II Statistics", range(20, 50)),
    ("III Linear queries and places", range(50, 70)),
    ("IV Learning", range(70, 85)),
    ("V Trust", range(85, 99)),
)
COLOURS = (plots.BLUE, plots.GREEN, plots.PURPLE, plots.ORANGE, plots.RED)
SENTENCE = re.compile(r"\*\*You need\*\* (.+?\.)(?=\s|\Z)(?!\s+[a-z])", re.DOTALL)
LINK = re.compile(r"\]\((\d\d)-[a-z0-9-]+\.ipynb")
HEADS = ("chapter", "what it needs", "to read before it, in this order")
PIXELS = 900  # of the map
TOP, LINE = 0.32, 0.125  # inches: the title of a part, a line in a box
SIZE = 7  # points of the letters of a title


class Chapter(NamedTuple):
    """A chapter and what it needs."""

    number: int
    title: str  # without its number
    file: str
    needs: tuple  # numbers of chapters, ascending

    @property
    def part(self):
        """The index of its part."""
        return next(i for i, (_, numbers) in enumerate(PARTS) if self.number in numbers)


@lru_cache(maxsize=1)
def chapters(folder=chapter.BOOK):
    """Return `{number: Chapter}` of all notebooks of a folder that say what a reader needs."""
    found = {}
    for path in sorted(folder.glob("[0-9][0-9]-*.ipynb")):
        source = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        if (said := needed(source)) is not None:
            number, title = int(path.name[:2]), chapter.plain_title(source)[2:].strip()
            found[number] = Chapter(number, title, path.name, said)
    return found


def needed(source):
    """Return the numbers that the sentence "You need" links to, None without such a sentence."""
    said = SENTENCE.search(source)
    return tuple(sorted({int(number) for number in LINK.findall(said[1])})) if said else None


def before(name, book=None):
    """Return the chapters that must be read before one, in the order of their numbers.

    Parameters
    ----------
    name : int or str
        The chapter's number, its title, or the beginning of its title: `74`, `"AdaSSP"`.
    book : dict, optional
        Chapters as `chapters` returns them, which is what is taken without it.

    Raises
    ------
    ValueError
        If no chapter or more than one is called so.
    """
    book = chapters() if book is None else book
    open_, found = list(_called(name, book).needs), set()
    while open_:
        number = open_.pop()
        if number not in found:
            found.add(number)
            open_ += book[number].needs
    return [book[number] for number in sorted(found)]


def _called(name, book):
    said = str(name).strip().lower()
    exact = [c for c in book.values() if said in (str(c.number), f"{c.number:02}", c.title.lower())]
    found = exact or [c for c in book.values() if said and c.title.lower().startswith(said)]
    if len(found) != 1:
        raise ValueError(f"name must be the number or the title of one chapter, got {name!r}")
    return found[0]


def reduced(book):
    """Return `{number: what it needs}` without what another need of it needs already."""
    behind = {number: {one.number for one in before(number, book)} for number in book}
    return {
        number: tuple(n for n in one.needs if not any(n in behind[m] for m in one.needs))
        for number, one in book.items()
    }


# ---- what a reader sees --------------------------------------------------------------------------


def listing():
    """Display what each chapter needs and all that comes before it, a folded table for a part."""
    from IPython.display import display

    html, plain, book = [], [], chapters()
    for i, (part, _) in enumerate(PARTS):
        rows = [one for one in book.values() if one.part == i]
        html.append(chapter.folded(f"<b>Part {part}</b>", HEADS, (_cells(one) for one in rows)))
        plain += [f"{one.number:02}: {_numbers(before(one.number))}" for one in rows]
    display({"text/html": "\n".join(html), "text/plain": "\n".join(plain)}, raw=True)


def _cells(one):
    yield _anchor(one)
    yield ", ".join(_anchor(chapters()[number]) for number in one.needs) or "nothing"
    yield _numbers(before(one.number)) or "nothing"


def _anchor(one):
    return f'<a href="{one.file}">{one.number:02} {one.title}</a>'


def _numbers(some):
    return ", ".join(f"{one.number:02}" for one in some)


# ---- the picture ---------------------------------------------------------------------------------


def draw():
    """Return the figure of the map: bands for the parts, boxes for the chapters, arrows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    needs, width = reduced(chapters()), PIXELS / plots.DPI
    bands = [
        _Band(part, colour, grid(numbers, needs), width) for (part, numbers), colour in _shown()
    ]
    whole = sum(band.height for band in bands) + 0.1
    fig = Figure(figsize=(width, whole))
    FigureCanvasAgg(fig)
    axes = fig.add_axes([0, 0, 1, 1])
    axes.set(xlim=(0, width), ylim=(whole, 0))
    axes.axis("off")
    top = 0.05
    for band in bands:
        band.draw(axes, top, needs)
        top += band.height
    return fig


def _wrapped(title, inches):
    """Return the lines of a title that are no wider than some inches, a longer word by itself."""
    from matplotlib.textpath import TextPath

    lines = []
    for word in title.split():
        line = f"{lines[-1]} {word}" if lines else word
        if lines and TextPath((0, 0), line, size=SIZE).get_extents().width <= 72 * inches:
            lines[-1] = line
        else:
            lines.append(word)
    return lines


def _shown():
    """Return `((part, numbers), colour)` of the parts that have chapters."""
    held = {one.part for one in chapters().values()}
    return [(PARTS[i], COLOURS[i]) for i in sorted(held)]


class _Band:
    """One part of the map."""

    def __init__(self, part, colour, places, width):
        self.part, self.colour, self.places = part, colour, places
        self.column = min((width - 0.2) / (1 + max(x for x, _ in places.values())), 2.4)
        self.breadth = min(self.column - 0.18, 2.1)
        self.titles = {
            number: _wrapped(chapters()[number].title, self.breadth - 0.14)
            for number in places
            if isinstance(number, int)
        }
        self.box = 0.2 + LINE * max(map(len, self.titles.values()))
        self.row = self.box + 0.1
        self.height = TOP + 0.04 + self.row * (1 + max(y for _, y in places.values()))

    def draw(self, axes, top, needs):
        """Draw its ground, its arrows, its boxes."""
        axes.axhspan(top + 0.02, top + self.height - 0.02, color=self.colour, alpha=0.08, lw=0)
        title = f"Part {self.part}"
        axes.text(0.1, top + 0.17, title, color=self.colour, weight="bold", size=10, va="center")
        at = {
            key: (0.1 + self.column * (x + 0.5), top + TOP + self.row * (y + 0.45))
            for key, (x, y) in self.places.items()
        }
        for way in ways(self.places, needs):
            _arrow(axes, [at[step] for step in way], self.breadth, self.colour)
        for number in self.titles:
            others = [n for n in needs[number] if n not in self.titles]
            self._draw_box(axes, *at[number], number, others)

    def _draw_box(self, axes, x, y, number, others):
        """Draw one chapter: its number, its title, and what it needs of earlier parts."""
        from matplotlib.patches import FancyBboxPatch

        left, upper = x - self.breadth / 2, y - self.box / 2
        corner, sides = (left + 0.03, upper + 0.03), (self.breadth - 0.06, self.box - 0.06)
        look = {"boxstyle": "round,pad=0.03", "fc": "white", "ec": self.colour, "lw": 1}
        axes.add_patch(FancyBboxPatch(corner, *sides, **look))
        line = {"size": 8, "va": "center"}
        axes.text(
            left + 0.05, upper + 0.1, f"{number:02}", color=self.colour, weight="bold", **line
        )
        title = "\n".join(self.titles[number])
        axes.text(left + 0.05, upper + 0.17, title, size=SIZE, va="top", linespacing=1.05)
        end = left + self.breadth - 0.05
        for other in reversed(others):
            shade = COLOURS[chapters()[other].part]
            axes.text(end, upper + 0.1, f"{other:02}", color=shade, ha="right", **line)
            end -= 0.18
        if others:
            axes.text(end, upper + 0.1, "from", color=plots.GREY, ha="right", **line)


def _arrow(axes, points, breadth, colour):
    """Draw a way from the right side of a box to the left side of another, round at its bends."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    half = breadth / 2
    stops = [(points[0][0] + half, points[0][1])]
    for x, y in points[1:-1]:
        stops += [(x - half, y), (x + half, y)]
    stops.append((points[-1][0] - half - 0.01, points[-1][1]))
    vertices, codes = [stops[0]], [Path.MOVETO]
    for i, ((x, y), (to_x, to_y)) in enumerate(zip(stops, stops[1:])):
        bent = i % 2 == 0
        middle = (x + to_x) / 2
        vertices += [(middle, y), (middle, to_y), (to_x, to_y)] if bent else [(to_x, to_y)]
        codes += [Path.CURVE4] * 3 if bent else [Path.LINETO]
    axes.add_patch(
        FancyArrowPatch(
            path=Path(vertices, codes),
            arrowstyle="-|>",
            mutation_scale=8,
            color=colour,
            lw=1.1,
            shrinkA=0,
            shrinkB=0,
        )
    )


# ---- where the boxes stand -----------------------------------------------------------------------


def grid(numbers, needs):
    """Return `{number: (column, row)}` of the chapters of a part.

    A chapter stands right of all that it needs of its part. Where an arrow passes a column, it has
    a place of its own there, `{(from, to, column): (column, row)}`.
    """
    own = {n: [m for m in needs[n] if m in numbers] for n in needs if n in numbers}
    column = {}
    for number in own:  # ascending: what a chapter needs stands before it
        column[number] = max((column[m] + 1 for m in own[number]), default=0)
    last = {m: min((column[n] for n in own if m in own[n]), default=0) for m in own}
    for number in reversed(list(own)):  # what starts a thread stands right before its first use
        if not own[number] and last[number] > 1:
            column[number] = last[number] - 1
    parents = {}
    for number, mothers in own.items():
        parents[number] = []
        for mother in mothers:
            steps = [(mother, number, c) for c in range(column[mother] + 1, column[number])]
            for step, prior in zip(steps, [mother, *steps]):
                parents[step] = [prior]
            parents[number].append(([mother, *steps])[-1])
    layers = {}
    for key in parents:
        layers.setdefault(column[key] if isinstance(key, int) else key[2], []).append(key)
    return _rows({c: layers[c] for c in sorted(layers)}, parents)


def _rows(layers, parents):
    """Give each place of the columns a row, near its neighbours' rows and apart from the others."""
    row = {key: float(i) for keys in layers.values() for i, key in enumerate(keys)}
    children = {key: [c for c in parents if key in parents[c]] for key in parents}
    for sweep in range(24):
        forth = sweep % 2 == 0
        for c in sorted(layers, reverse=not forth):
            near = parents if forth else children
            wished = {
                key: sum(row[n] for n in near[key]) / len(near[key]) if near[key] else row[key]
                for key in layers[c]
            }
            keys = sorted(layers[c], key=lambda key: (wished[key], _order(key)))
            row |= _apart(keys, wished)
    row = _without_gaps(row)
    return {key: (c, row[key]) for c, keys in layers.items() for key in keys}


def _without_gaps(row):
    """Return the rows from 0 on, moved up where nothing stands in a strip right across."""
    shift, end, moved = 0.0, None, {}
    for key in sorted(row, key=lambda key: row[key] - _room(key) / 2):
        start = row[key] - _room(key) / 2
        shift += max(start - end, 0.0) if end is not None else start + 0.5 - (1 - _room(key)) / 2
        end = max(row[key] + _room(key) / 2, end or start)
        moved[key] = row[key] - shift
    return moved


def _order(key):
    return (key, 0) if isinstance(key, int) else (key[1], key[0])


def _room(key):
    return 1.0 if isinstance(key, int) else 0.5


def _apart(keys, wished):
    """Return rows near the wished ones, in the order of the keys and without overlap."""
    blocks = []  # [keys, offsets, first row]: they stand close together
    for key in keys:
        blocks.append([[key], [0.0], wished[key]])
        while len(blocks) > 1:
            (left, gaps, first), (right, more, second) = blocks[-2:]
            step = gaps[-1] + (_room(left[-1]) + _room(right[0])) / 2
            if first + step <= second:
                break
            joined, offsets = left + right, gaps + [step + gap for gap in more]
            mean = sum(wished[k] - gap for k, gap in zip(joined, offsets)) / len(joined)
            blocks[-2:] = [[joined, offsets, mean]]
    return {key: first + gap for some, gaps, first in blocks for key, gap in zip(some, gaps)}


def ways(places, needs):
    """Return the arrows of a part as lists of places, from what is needed to what needs it."""
    found = []
    for number in places:
        for mother in needs[number] if isinstance(number, int) else ():
            if mother in places:
                steps = [k for k in places if not isinstance(k, int) and k[:2] == (mother, number)]
                found.append([mother, *sorted(steps, key=lambda step: step[2]), number])
    return found
