"""The parameters of a chapter: declared once, in its cell tagged `parameters`, one literal a line.

    epsilon: float = 1.0  # privacy budget of the chapter, range (0, 20]
    dataset: str = "randhie"  # embedded table, one of randhie, anes96
    seed: int = 1  # seed of all random streams, range [0, 4294967295]
    detail: bool = False  # whether to draw the fine grid too
    path: str = "data/anes96.csv"  # a table of the reader's own, any text

The comment says what the parameter is, with its unit, and ends with the allowed values. These are
written nowhere else: `chapter.open`, `dputils.run` and `dputils.sweep` read them from this cell.
A notebook whose noise cannot be seeded has a line `# no seed: why` in place of `seed: int`.
"""

import ast
import io
import math
import re
import tokenize
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path

import numpy as np

# declared type: Python type, what is accepted, in words
TYPES = {
    "int": (int, Integral, "an integer"),
    "float": (float, Real, "a number"),
    "str": (str, str, "a string"),
    "bool": (bool, (bool, np.bool_), "True or False"),
}
LONGEST = 60  # characters of a value that a message repeats
_RANGE = re.compile(
    r"(?P<text>.*\S),? range (?P<left>[\[(])(?P<low>[^\s,]+), ?(?P<high>[^\s,]+)(?P<right>[\])])"
)
_FREE = re.compile(r"(?P<text>.*\S), any text")
SEEDED = re.compile(r"^(?:seed\s*:\s*int\b|# no seed: \S)", re.MULTILINE)  # in such a cell alone
_CHOICES = re.compile(r"(?P<text>.*\S),? one of (?P<choices>.+)")
_FORM = (
    "must have the form 'name: type = literal  # text, range [low, high]', one line, "
    "type int, float, str or bool"
)


@dataclass(frozen=True)
class Parameter:
    """One declared parameter.

    Parameters
    ----------
    name : str
    type : {"int", "float", "str", "bool"}
    default : int, float, str or bool
    text : str
        What the parameter is.
    low, high : int or float, optional
        The ends of the range of a number.
    low_open, high_open : bool
        Whether the range stops short of its end.
    choices : tuple
        The allowed values, where they are listed: strings or numbers.
    """

    name: str
    type: str
    default: int | float | str | bool
    text: str
    low: int | float | None = None
    high: int | float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple = ()

    @property
    def range(self):
        """The allowed values as they follow "must be": `in (0, 20]`, `one of a, b`."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        if self.low is None:
            return TYPES[self.type][2]
        left, right = "[("[self.low_open], "])"[self.high_open]
        return f"in {left}{self.low}, {self.high}{right}"

    def admits(self, value):
        """Return whether a value of the declared type is among those allowed."""
        if self.choices:
            return value in self.choices
        if self.low is None:
            return True
        above = self.low < value if self.low_open else self.low <= value
        below = value < self.high if self.high_open else value <= self.high
        return above and below


def parse_parameters(source):
    """Return the declared parameters of a `parameters` cell, in order, as a list of `Parameter`.

    Raises
    ------
    ValueError
        If a line is not a literal with a type and a comment that ends with its allowed values, if
        papermill's own help would miss the line, if `seed: int` is not declared, or if a default
        lies outside its own range.
    """
    parameters = declared(source)
    if found := problems(parameters, {p.name: p.default for p in parameters}):
        raise ValueError("parameters cell: " + "; ".join(found))
    return parameters


def read_parameters(notebook):
    """Return the declared parameters of a notebook (a path or a notebook node)."""
    return parse_parameters(tagged(notebook, "parameters")[1].source)


def declared(source):
    """Return the parameters of a `parameters` cell, wherever their defaults lie.

    Raises
    ------
    ValueError
        As `parse_parameters`, but for the defaults.
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise ValueError(f"parameters cell, line {error.lineno}: {error.msg}") from None
    lines, comments = source.splitlines(), _comments(source)
    parameters = [
        _parameter(s, lines[s.lineno - 1].strip(), comments.get(s.lineno, "")) for s in statements
    ]
    names = [p.name for p in parameters]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"parameters cell: {twice[0]} is declared twice")
    seeded = any(p.name == "seed" and p.type == "int" for p in parameters)
    if not seeded and not any(comment.startswith("no seed: ") for comment in comments.values()):
        raise ValueError("parameters cell: every chapter declares 'seed: int'")
    return parameters


def problems(parameters, values):
    """Return what is wrong with `values` (name -> value): name, type or range, a sentence each."""
    known = {p.name: p for p in parameters}
    found = [
        _problem(known[name], value) if name in known else _unknown(name, known)
        for name, value in values.items()
    ]
    return [sentence for sentence in found if sentence]


def converted(parameters, values):
    """Return `values`, which have no problems, in their declared types (2 becomes a float 2.0)."""
    types = {p.name: TYPES[p.type][0] for p in parameters}
    return {name: types[name](value) for name, value in values.items()}


def shown(value):
    """Return a value as a message repeats it: its `repr`, or the beginning and the length of it."""
    if isinstance(value, Integral) and abs(value) >= 10**LONGEST:
        return f"a whole number of about {math.log10(abs(value)):,.0f} digits"
    return shortened(repr(value))


def shortened(text):
    """Return a text, of a long one only the beginning and the length."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}... ({len(text):,} characters)"


def tagged(notebook, tag):
    """Return the name of a notebook (a path or a node) and its one code cell with this tag.

    Raises
    ------
    ValueError
        If the file is not a notebook, or if it has no such cell or several.
    """
    import nbformat

    name = "the notebook"
    if not isinstance(notebook, nbformat.NotebookNode):
        name, notebook = Path(notebook).name, read_notebook(notebook)
    cells = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and tag in cell.metadata.get("tags", [])
    ]
    if len(cells) != 1:
        raise ValueError(
            f"{name} has {len(cells) or 'no'} cell{'s' * (len(cells) > 1)} tagged {tag!r}, "
            "it needs one"
        )
    return name, cells[0]


def read_notebook(path):
    """Return the notebook in a file, in the newest form of the format.

    Raises
    ------
    ValueError
        If the file cannot be read or is not a notebook, whatever else it holds.
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except OSError as error:
        raise ValueError(f"{Path(path).name} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, KeyError, nbformat.ValidationError):
        # JSON of another shape (`[]`, `{"cells": 1}`) fails inside nbformat wherever it is first
        # looked at
        raise ValueError(f"{Path(path).name} is not a notebook") from None


def _unknown(name, known):
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
    return f"unknown parameter {shown(name)}: {hint}"


def _problem(parameter, value):
    """Return what is wrong with the value of a known parameter, or None."""
    python, accepted, words = TYPES[parameter.type]
    is_truth = isinstance(value, (bool, np.bool_))
    if not isinstance(value, accepted) or is_truth and parameter.type != "bool":
        return f"{parameter.name} must be {words}, got {shown(value)}"
    try:
        value = python(value)
    except OverflowError:  # a whole number beyond all floats
        return f"{parameter.name} must be {parameter.range}, got {shown(value)}"
    return (
        None
        if parameter.admits(value)
        else f"{parameter.name} must be {parameter.range}, got {shown(value)}"
    )


def _comments(source):
    """Return the comments of a cell by line number."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        t.start[0]: t.string.lstrip("# ").rstrip() for t in tokens if t.type == tokenize.COMMENT
    }


def _parameter(node, line, comment):
    """Return the parameter that a statement of the cell declares; `line` is its text."""
    kind = _annotated_type(node)
    if kind is None:
        raise ValueError(f"parameters cell: {line!r} {_FORM}")
    if line.count("=") > 1:
        raise ValueError(
            f"parameters cell: {line!r} has a second '=': papermill drops such a line from its help"
        )
    try:
        default = ast.literal_eval(node.value)
    except ValueError:
        raise ValueError(f"parameters cell: {line!r} {_FORM}") from None
    return Parameter(node.target.id, kind, default, **_domain(node.target.id, kind, comment))


def _annotated_type(node):
    """Return the type in a one-line statement `name: type = value`, or None for another form."""
    if not isinstance(node, ast.AnnAssign) or node.value is None or node.lineno != node.end_lineno:
        return None
    if not isinstance(node.target, ast.Name) or not isinstance(node.annotation, ast.Name):
        return None
    return node.annotation.id if node.annotation.id in TYPES else None


def _domain(name, kind, comment):
    """Return the fields of a `Parameter` that its comment states."""
    if kind == "bool":
        found, ending = {"text": comment} if comment else None, ""
    elif kind == "str":
        found = _choices(kind, comment) or _free(comment)
        ending = " and ends like 'one of a, b' or 'any text'"
    else:
        found = _choices(kind, comment) or _interval(comment)
        ending = " and ends like 'range (0, 20]' or 'one of 1, 2, 5'"
    if not found:
        raise ValueError(f"parameters cell: {name} needs a comment that says what it is{ending}")
    return found


def _choices(kind, comment):
    """Return the fields of a comment `text, one of a, b`, or None where it is another one."""
    match = _CHOICES.fullmatch(comment)
    if not match:
        return None
    try:
        choices = tuple(TYPES[kind][0](word.strip()) for word in match["choices"].split(","))
    except ValueError:  # a choice that is not a number
        return None
    return {"text": match["text"].rstrip(","), "choices": choices}


def _free(comment):
    """Return the fields of a comment `text, any text`, or None where it is another one."""
    match = _FREE.fullmatch(comment)
    return {"text": match["text"]} if match else None


def _interval(comment):
    """Return the fields of a comment `text, range (low, high]`, or None where it is another one."""
    match = _RANGE.fullmatch(comment)
    if not match:
        return None
    try:
        low, high = _number(match["low"]), _number(match["high"])
    except ValueError:  # an end that is not a number
        return None
    if not low < high:
        return None
    return {
        "text": match["text"].rstrip(","),
        "low": low,
        "high": high,
        "low_open": match["left"] == "(",
        "high_open": match["right"] == ")",
    }


def _number(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
