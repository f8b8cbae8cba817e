"""The points of a sweep: what `epsilon=0.1,1` and `seed=0:10` stand for.

A parameter takes values separated by commas; for whole numbers `a:b` is the half-open range, so
`seed=0:10` is 0 to 9. A range stays a `range` and the points are made one by one, so that a grid of
a million points costs nothing before it is run.
"""

import itertools
import math

from dputils.book import run
from dputils.book.parameters import problems, shortened

MOST = 1_000_000  # points of one sweep


def read(parameters, texts):
    """Return the values that texts stand for, by name, and what is wrong, in sentences.

    Parameters
    ----------
    parameters : list of Parameter
        Those of the chapter.
    texts : dict
        Name -> text such as `0.1,1` or `0:10`.

    Returns
    -------
    (dict, list)
        Name -> list or range of values; sentences, none if the grid can be run.
    """
    types, values, found = {p.name: p for p in parameters}, {}, []
    for name, text in texts.items():
        if name in types:
            values[name], wrong = _values(types[name], text)
            found += wrong
        else:
            found += problems(parameters, {name: text})
    if size(values) > MOST:
        found.append(f"the grid has more than {MOST:,} points")
    return values, found


def size(values):
    """Return the number of points of a grid."""
    return math.prod(map(len, values.values()))


def points(values):
    """Yield the points of a grid, each a dict, the last parameter fastest."""
    for point in itertools.product(*values.values()):
        yield dict(zip(values, point))


def _values(parameter, text):
    """Return `(values, found)` of one swept parameter."""
    parts, found = [], []
    for item in text.split(","):
        part, wrong = _part(parameter, item)
        parts.append(part)
        found += wrong
    if found or len(parts) == 1:
        return parts[0], found
    values = list(itertools.chain(*parts))
    counted = itertools.groupby(sorted(values, key=str))
    twice = [value for value, others in counted if len(list(others)) > 1]
    return values, [f"{parameter.name} takes {value!r} twice" for value in twice[:3]]


def _part(parameter, item):
    """Return what one text between commas stands for, and what is wrong with it."""
    low, colon, high = item.partition(":")
    if parameter.type != "int" or not colon:
        part = [run.from_text(parameter, item.strip())]
        return part, problems([parameter], {parameter.name: part[0]})
    ends = [run.from_text(parameter, end) for end in (low, high)]
    if any(isinstance(end, str) for end in ends) or not 0 < ends[1] - ends[0] <= MOST:
        return [], [
            f"{parameter.name}={shortened(item)} is not a range a:b of at most {MOST:,} "
            "whole numbers, a < b"
        ]
    part = range(*ends)
    tried = part if parameter.choices else dict.fromkeys((part[0], part[-1]))
    found = [problems([parameter], {parameter.name: value}) for value in tried]
    return part, list(itertools.chain(*found))[:3]
