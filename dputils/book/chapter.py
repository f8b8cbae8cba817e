"""What every chapter opens and closes with: checked parameters, labelled random streams, tables, the results record.

A chapter calls `chapter.open(name, globals())` after its cell tagged `parameters` (`parameters.py` has their form),
draws from `chapter.stream(seed, label)`, shows tables through `chapter.table` and ends with `chapter.results`.
"""
import hashlib
import html
import math
import re
from numbers import Integral, Rational, Real
from pathlib import Path

import numpy as np

from dputils import checks
from dputils.book.parameters import converted, declared, problems, tagged
from dputils.book.parameters import Parameter, parse_parameters, read_parameters  # noqa: F401  (part of this module's face)

BOOK = Path(__file__).resolve().parents[2] / "notebooks"
RECORD = "application/vnd.dputils.record+json"
SCHEMA = 1
RESERVED = ("status", "error")  # columns of every sweep
_current = {}  # name and parameters of the chapter that is open in this kernel


def open(name, namespace):
    """Check the parameters of chapter `name` in `namespace`, the notebook's `globals()`, and note them for the record.

    The declaration is the last executed cell that declares `seed: int`. Where executed cells are not kept (nbval, plain
    scripts) it is read from the file `name`.ipynb in the current folder or in the book.

    Raises
    ------
    ValueError
        If a parameter is missing, of the wrong type or out of range: all of them in one sentence.
    """
    _current.clear()
    try:
        parameters = declared(_source(name, namespace))
        values = {p.name: namespace[p.name] for p in parameters if p.name in namespace}
        missing = [f"{p.name} is not defined: run the parameters cell" for p in parameters if p.name not in values]
        if found := missing + problems(parameters, values):
            raise ValueError("; ".join(found))
    except ValueError as error:
        sentence = f"ValueError: {error}"
        error._render_traceback_ = lambda: [sentence]  # IPython shows the sentence without the frames of this module
        raise
    values = converted(parameters, values)
    namespace.update(values)
    _current.update(chapter=name, parameters=values)


def stream(seed, label):
    """Return the random generator of one section: it depends on `seed` and `label` alone, not on earlier draws."""
    checks.integer("seed", seed, 0)
    if not isinstance(label, str) or not label.strip():
        raise ValueError(f"label must be a string that names what is drawn, got {label!r}")
    words = np.frombuffer(hashlib.sha256(label.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=tuple(map(int, words))))


def fmt(x, digits=4):
    """Return a number as readers write it: `digits` significant digits, never fewer than its whole part, no minus zero.

    Integers are exact; from five digits on they are grouped by commas; a float below 0.0001 or from 1e15 on is written
    `1.5e-7`. A sequence gives its numbers joined by commas, a string itself, None nothing.
    """
    if isinstance(x, (np.generic, np.ndarray)):
        x = x.tolist()
    if isinstance(x, (list, tuple)):
        return ", ".join(fmt(value, digits) for value in x)
    if isinstance(x, bool) or not isinstance(x, Real):
        return "" if x is None else str(x)
    if isinstance(x, Rational) and x.denominator == 1:
        return f"{int(x):,}" if abs(x) >= 10_000 else str(int(x))
    x = float(x) + 0.0  # minus zero becomes zero
    if 10 ** (digits - 1) <= abs(x) < 1e15:
        return fmt(round(x))
    mantissa, _, exponent = f"{x:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def table(data, digits=4, index=False, caption=None):
    """Display a table: numbers by `fmt` and to the right, text to the left.

    Parameters
    ----------
    data : DataFrame, list of dict, or dict of columns
    digits : int
        Significant digits of numbers that are not integers.
    index : bool
        Show the index of a DataFrame as its first columns.
    caption : str, optional
        A line above the table.
    """
    from IPython.display import display
    display(_bundle(data, digits, index, caption), raw=True)


def results(ledger, **headline):
    """Close the chapter, in its cell tagged `results`: show the headline numbers and store the record of this run.

    Parameters
    ----------
    ledger : dputils.accounting.Ledger or None
        What the chapter spent.
    **headline
        Numbers, strings, truth values, or lists, arrays and dicts of them. Floats are rounded to 6 significant digits.
        JSON knows no NaN and no infinity: they become null and the strings "inf" and "-inf", which `float` reads.

    Raises
    ------
    ValueError
        If the chapter has not been opened, or if a name or a value cannot be stored.
    """
    from IPython.display import display
    if not _current:
        raise ValueError("chapter.open has not run: a results record needs the chapter's name and parameters")
    for name in headline:
        if name in _current["parameters"] or name in RESERVED:
            raise ValueError(f"{name} is already a column of every sweep of this chapter: name the result otherwise")
    spent = None if ledger is None else _plain("ledger", ledger.record())
    record = {"schema": SCHEMA, "chapter": _current["chapter"], "parameters": dict(_current["parameters"]),
              "ledger": spent, "results": _plain("results", headline)}
    rows = [{"quantity": name, "value": value} for name, value in flat(record).items()]
    display({**_bundle(rows, 6, False, None), RECORD: record}, raw=True)


def flat(record):
    """Return a record as one row: parameters, `ledger.*` without its entries, results; dots join nested names."""
    ledger = {name: value for name, value in (record["ledger"] or {}).items() if name != "entries"}
    return dict([*record["parameters"].items(), *_leaves("ledger", ledger), *_leaves("", record["results"])])


def read_record(notebook):
    """Return the results record of an executed notebook (a path or a notebook node).

    Raises
    ------
    ValueError
        If the notebook has not exactly one cell tagged `results` with exactly one record of a known schema.
    """
    name, cell = tagged(notebook, "results")
    found = [output.data[RECORD] for output in cell.get("outputs", []) if RECORD in output.get("data", {})]
    if len(found) != 1:
        state = "no record: has it been executed?" if not found else f"{len(found)} records, not one"
        raise ValueError(f"the results cell of {name} holds {state}")
    if found[0].get("schema") != SCHEMA:
        raise ValueError(f"the record of {name} has schema {found[0].get('schema')!r}, this version reads {SCHEMA}")
    return found[0]


def _source(name, namespace):
    """Return the source of the cell that declares the parameters."""
    for cell in reversed(namespace.get("In", ())):
        if re.search(r"^seed\s*:\s*int\b", cell, re.MULTILINE):
            return cell
    for path in (Path.cwd() / f"{name}.ipynb", BOOK / f"{name}.ipynb"):
        if path.is_file():
            return tagged(path, "parameters")[1].source
    raise ValueError(f"no parameters of {name!r} were found: run the cell tagged 'parameters' before chapter.open")


def _plain(name, value):
    """Return `value` as JSON holds it, floats rounded; refuse by name what is no number, string or made of them."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        value = float(value)
        return float(f"{value:.5e}") + 0.0 if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(f"{name}.{i}", item) for i, item in enumerate(value)]
    raise ValueError(f"{name} must be a number, a string, or a list, array or dict of them, got {type(value).__name__}")


def _leaves(name, value):
    if not isinstance(value, (dict, list)):
        return [(name, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for key, item in items for leaf in _leaves(f"{name}.{key}" if name else str(key), item)]


def _bundle(data, digits, index, caption):
    """Return a table in the two forms that a notebook stores, HTML and plain text."""
    columns, rows = _grid(data, index)
    right = [any(isinstance(r[i], Real) and not isinstance(r[i], bool) for r in rows) for i in range(len(columns))]
    texts = [columns] + [[fmt(value, digits) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    padded = [[t.rjust(w) if r else t.ljust(w) for t, w, r in zip(line, widths, right)] for line in texts]
    head = f"<caption>{html.escape(caption)}</caption>\n" if caption else ""
    top, *body = [_html_row("th" if line is columns else "td", line, right) for line in texts]
    markup = f"<table>\n{head}<thead>\n{top}\n</thead>\n<tbody>\n" + "\n".join(body) + "\n</tbody>\n</table>"
    plain = ([caption] if caption else []) + ["  ".join(line).rstrip() for line in padded]
    return {"text/html": markup, "text/plain": "\n".join(plain)}


def _html_row(tag, texts, right):
    sides = ["right" if r else "left" for r in right]
    cells = [f'<{tag} style="text-align: {side}">{html.escape(text)}</{tag}>' for text, side in zip(texts, sides)]
    return "<tr>" + "".join(cells) + "</tr>"


def _grid(data, index):
    """Return the column names and the rows of any of the forms that `table` takes."""
    import pandas as pd
    if not isinstance(data, pd.DataFrame):
        try:
            data = pd.DataFrame(data, dtype=object)
        except ValueError as error:
            raise ValueError(f"data must be a DataFrame, a list of dicts or a dict of columns: {error}") from None
    if index:
        data = data.reset_index(names=[name or "" for name in data.index.names])
    columns = [" ".join(map(fmt, column if isinstance(column, tuple) else (column,))) for column in data.columns]
    return columns, list(data.itertuples(index=False, name=None))
