"""The parameters of a chapter: declared once, in its cell tagged `parameters`, one literal a line.

    epsilon: float = 1.0  # privacy budget of the chapter, range (0, 20]
    dataset: str = "randhie"  # embedded table, one of randhie, anes96
    seed: int = 1  # seed of all random streams, range [0, 4294967295]
    detail: bool = False  # whether to draw the fine grid too

The comment says what the parameter is, with its unit, and ends with the allowed values. These are written nowhere else:
`chapter.open`, `dputils.run` and `dputils.sweep` read them from this cell.
"""
import ast
import io
import re
import tokenize
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path

import numpy as np

TYPES = {"int": (int, Integral, "an integer"), "float": (float, Real, "a number"), "str": (str, str, "a string"),
         "bool": (bool, (bool, np.bool_), "True or False")}  # declared type: Python type, what is accepted, in words
_RANGE = re.compile(r"(?P<text>.*\S),? range (?P<left>[\[(])(?P<low>[^\s,]+), ?(?P<high>[^\s,]+)(?P<right>[\])])")
_CHOICES = re.compile(r"(?P<text>.*\S),? one of (?P<choices>.+)")
_FORM = "must have the form 'name: type = literal  # text, range [low, high]', one line, type int, float, str or bool"


@dataclass(frozen=True)
class Parameter:
    """One declared parameter: `text` says what it is; a number has `low` and `high`, or `choices` as strings have."""

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
        """The allowed values as they follow "must be": `in (0, 20]`, `one of a, b`, `True or False`."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        if self.low is None:
            return TYPES[self.type][2]
        return f"in {'(' if self.low_open else '['}{self.low}, {self.high}{')' if self.high_open else ']'}"

    def admits(self, value):
        """Return whether a value of the right type is among those allowed."""
        if self.choices or self.low is None:
            return value in self.choices or not self.choices
        return self.low <= value <= self.high and not (
            self.low_open and value == self.low or self.high_open and value == self.high)


def parse_parameters(source):
    """Return the declared parameters of a `parameters` cell, in order, as a list of `Parameter`.

    Raises
    ------
    ValueError
        If a line is not a literal with a type and a comment that ends with its allowed values, if papermill's own help
        would miss the line, if `seed: int` is not declared, or if a default lies outside its own range.
    """
    parameters = declared(source)
    if found := problems(parameters, {p.name: p.default for p in parameters}):
        raise ValueError("parameters cell: " + "; ".join(found))
    return parameters


def read_parameters(notebook):
    """Return the declared parameters of a notebook (a path or a notebook node)."""
    return parse_parameters(tagged(notebook, "parameters")[1].source)


def problems(parameters, values):
    """Return what is wrong with `values` (name -> value), a sentence each: unknown name, wrong type, out of range."""
    known, found = {p.name: p for p in parameters}, []
    for name, value in values.items():
        if name in known:
            found.append(_problem(known[name], value))
        else:
            close = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            found.append(f"unknown parameter {name!r}: {hint}")
    return [sentence for sentence in found if sentence]


def converted(parameters, values):
    """Return `values`, which have no problems, as Python values of their declared types (2 becomes 2.0 for a float)."""
    types = {p.name: TYPES[p.type][0] for p in parameters}
    return {name: types[name](value) for name, value in values.items()}


def _problem(parameter, value):
    python, accepted, words = TYPES[parameter.type]
    if not isinstance(value, accepted) or parameter.type != "bool" and isinstance(value, (bool, np.bool_)):
        return f"{parameter.name} must be {words}, got {value!r}"
    if not parameter.admits(value):
        return f"{parameter.name} must be {parameter.range}, got {python(value)!r}"


def declared(source):
    """Return the parameters of a `parameters` cell without a look at whether the defaults lie in their ranges."""
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise ValueError(f"parameters cell, line {error.lineno}: {error.msg}") from None
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0]: t.string.lstrip("# ").rstrip() for t in tokens if t.type == tokenize.COMMENT}
    lines = source.splitlines()
    parameters = [_parameter(s, lines[s.lineno - 1].strip(), comments.get(s.lineno, "")) for s in statements]
    names = [p.name for p in parameters]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"parameters cell: {twice[0]} is declared twice")
    if not any(p.name == "seed" and p.type == "int" for p in parameters):
        raise ValueError("parameters cell: every chapter declares 'seed: int'")
    return parameters


def _parameter(node, line, comment):
    kind = node.annotation.id if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Name) else None
    one_line = node.lineno == node.end_lineno
    if kind not in TYPES or not isinstance(node.target, ast.Name) or node.value is None or not one_line:
        raise ValueError(f"parameters cell: {line!r} {_FORM}")
    if line.count("=") > 1:
        raise ValueError(f"parameters cell: {line!r} has a second '=': papermill drops such a line from its help")
    try:
        default = ast.literal_eval(node.value)
    except ValueError:
        raise ValueError(f"parameters cell: {line!r} {_FORM}") from None
    return Parameter(node.target.id, kind, default, **_domain(node.target.id, kind, comment))


def _domain(name, kind, comment):
    """Return the fields of a `Parameter` that its comment states."""
    try:
        if kind == "bool" and comment:
            return {"text": comment}
        if kind != "bool" and (match := _CHOICES.fullmatch(comment)):
            words = [TYPES[kind][0](word.strip()) for word in match["choices"].split(",")]
            return {"text": match["text"].rstrip(","), "choices": tuple(words)}
        if kind in ("int", "float") and (match := _RANGE.fullmatch(comment)):
            low, high = _number(match["low"]), _number(match["high"])
            if low < high:
                return {"text": match["text"].rstrip(","), "low": low, "high": high,
                        "low_open": match["left"] == "(", "high_open": match["right"] == ")"}
    except ValueError:
        pass  # an end or a choice that is not a number
    endings = {"bool": "", "str": " and ends like 'one of a, b'"}
    raise ValueError(f"parameters cell: {name} needs a comment that says what it is"
                     + endings.get(kind, " and ends like 'range (0, 20]' or 'one of 1, 2, 5'"))


def _number(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def tagged(notebook, tag):
    """Return the name of a notebook (a path or a notebook node) and its one code cell with this tag."""
    import nbformat
    name = "the notebook"
    if not isinstance(notebook, nbformat.NotebookNode):
        name = Path(notebook).name
        try:
            notebook = nbformat.read(notebook, as_version=4)
        except (nbformat.reader.NotJSONError, nbformat.ValidationError, UnicodeDecodeError):
            raise ValueError(f"{name} is not a notebook") from None
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and tag in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ValueError(f"{name} has {len(cells) or 'no'} cell{'s' * (len(cells) > 1)} tagged {tag!r}, it needs one")
    return name, cells[0]
