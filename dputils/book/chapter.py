"""What every chapter opens and closes with: parameters, random streams, tables, the record.

A chapter calls `chapter.open(name, globals())` after its cell tagged `parameters`
(`parameters.py` has their form), draws from `chapter.stream(seed, label)`, shows tables through
`chapter.table`, states a mechanism's guarantee with `chapter.statement` and ends with
`chapter.results`.
"""

import ast
import hashlib
import html
import math
import re
import textwrap
from decimal import Decimal
from numbers import Integral, Rational, Real
from pathlib import Path

import numpy as np

from dputils import checks
from dputils.book import statement as statements
from dputils.book.parameters import SEEDED, converted, declared, problems, tagged

BOOK = Path(__file__).resolve().parents[2] / "notebooks"
RECORD = "application/vnd.dputils.record+json"
STATEMENT = "application/vnd.dputils.statement+json"
SCHEMA = 1
RESERVED = ("run", "status", "error")  # columns of every sweep
PAGE = 88  # characters of a printed line that a page shows whole
_current = {}  # name and parameters of the chapter that is open in this kernel


def open(name, namespace):
    """Check the parameters of chapter `name` in `namespace`, the notebook's `globals()`.

    The declaration is the last executed cell that declares `seed: int` or says `# no seed:`. Where
    executed cells are not kept (nbval, plain scripts) it is read from the file `name`.ipynb in the
    current folder or in the book.

    Raises
    ------
    ValueError
        If a parameter is missing, of the wrong type or out of range: all of them in one sentence.
    """
    _current.clear()
    try:
        values = _checked(declared(_source(name, namespace)), namespace)
    except ValueError as error:
        sentence = f"ValueError: {error}"
        error._render_traceback_ = lambda: [
            sentence
        ]  # IPython shows the sentence without the frames of this module
        raise
    namespace.update(values)
    _current.update(chapter=name, parameters=values)


def stream(seed, label):
    """Return the random generator of one section.

    It depends on `seed` and the whole `label` alone, not on earlier draws.
    """
    checks.integer("seed", seed, 0)
    if not isinstance(label, str) or not label.strip():
        raise ValueError(f"label must be a string that names what is drawn, got {label!r}")
    words = np.frombuffer(hashlib.sha256(label.encode()).digest(), dtype="<u4")
    return np.random.default_rng(
        np.random.SeedSequence(int(seed), spawn_key=tuple(map(int, words)))
    )


def exactly(x):
    """Return a number as the exact `Fraction` of the decimal that prints it: 0.1 is one tenth.

    A parameter of a chapter is a float; a quarter of it, as an exact share of a budget, is
    `exactly(epsilon) / 4`.
    """
    return checks.as_fraction("x", x)


def refused(function, *args, **kwargs):
    """Call a function that must refuse its arguments; print the type and words of its `ValueError`.

    Raises
    ------
    AssertionError
        If the function refused nothing. Any other error than a `ValueError` (`BudgetExceeded` is
        one) passes through.
    """
    try:
        function(*args, **kwargs)
    except ValueError as refusal:
        print(f"{type(refusal).__name__}: {refusal}")
    else:
        raise AssertionError(f"{getattr(function, '__qualname__', repr(function))} refused nothing")


def fmt(x, digits=4):
    """Return a number as readers write it, with `digits` significant digits.

    They are never fewer than its whole part has, and there is no minus zero.
    Integers are exact; from five digits on they are grouped by commas; a float below 0.0001 or
    from 1e15 on is written `1.5e-7`. With `digits=None` a float is written in full, as the binary
    number that it is. A sequence gives its numbers joined by commas, a string itself, None
    nothing.
    """
    if isinstance(x, (np.generic, np.ndarray)):
        x = x.tolist()
    if isinstance(x, (list, tuple)):
        return ", ".join(fmt(value, digits) for value in x)
    if isinstance(x, bool) or not isinstance(x, Real):
        return "" if x is None else str(x)
    if isinstance(x, Rational) and x.denominator == 1:
        return _whole(int(x))
    return _in_full(x) if digits is None else _rounded(float(x), digits)


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

    Raises
    ------
    ValueError
        If `data` has none of these forms.
    """
    from IPython.display import display

    display(_table(_frame(data, index), digits, caption), raw=True)


def statement(mechanism, *, public, delta=None):
    """Display the privacy statement of a mechanism: one box, read from the mechanism itself.

    Mechanism, arithmetic, unit, neighbours, sensitivity, epsilon, delta (rho, mu), public. The
    same content is stored beside the box in a form that programs read (`STATEMENT`); numbers are
    rounded up.

    Parameters
    ----------
    mechanism : dputils.accounting.mechanism.Mechanism
    public : str
        What is public: bounds, the number of records, candidates, the schema.
    delta : float or Fraction, optional
        For costs that state rho, mu or a Renyi curve: a delta in (0, 1) at which the epsilon that
        they imply is stated as well.

    Raises
    ------
    ValueError
        If `public` says nothing, the mechanism contradicts its own sensitivity, or no cost needs
        a `delta`.
    """
    from IPython.display import display

    content = statements.content(mechanism, public, delta)
    display({**_box("Privacy statement", statements.lines(content)), STATEMENT: content}, raw=True)


def results(ledger, **headline):
    """Close the chapter, in its cell tagged `results`: show headline numbers, store the record.

    Parameters
    ----------
    ledger : dputils.accounting.Ledger or None
        What the chapter spent.
    **headline
        Numbers, strings, truth values, or lists, arrays and dicts of them. Floats are rounded to
        6 significant digits. JSON knows no NaN and no infinity: they become null and the strings
        "inf" and "-inf", which `float` reads.

    Raises
    ------
    ValueError
        If the chapter has not been opened, or if a name or a value cannot be stored.
    """
    from IPython.display import display

    if not _current:
        raise ValueError(
            "chapter.open has not run: a results record needs the chapter's name and parameters"
        )
    for name in headline:
        if name in _current["parameters"] or name in RESERVED:
            raise ValueError(
                f"{name} is already a column of every sweep of this chapter: "
                "name the result otherwise"
            )
    spent = None if ledger is None else _storable("ledger", ledger.record())
    record = {
        "schema": SCHEMA,
        "chapter": _current["chapter"],
        "parameters": dict(_current["parameters"]),
        "ledger": spent,
        "results": _storable("results", headline),
    }
    rows = [{"quantity": name, "value": value} for name, value in flat(record).items()]
    display({**_table(_frame(rows), 6), RECORD: record}, raw=True)


def flat(record):
    """Return a record as one row: parameters, `ledger.*` without its entries, results.

    Dots join nested names.
    """
    ledger = {name: value for name, value in (record["ledger"] or {}).items() if name != "entries"}
    return dict(
        [*record["parameters"].items(), *_leaves("ledger", ledger), *_leaves("", record["results"])]
    )


def read_record(notebook):
    """Return the results record of an executed notebook (a path or a notebook node).

    Raises
    ------
    ValueError
        If the notebook has not exactly one cell tagged `results` with exactly one record of a
        known schema.
    """
    name, cell = tagged(notebook, "results")
    found = [
        output.data[RECORD]
        for output in cell.get("outputs", [])
        if RECORD in output.get("data", {})
    ]
    if len(found) != 1:
        state = (
            "no record: has it been executed?" if not found else f"{len(found)} records, not one"
        )
        raise ValueError(f"the results cell of {name} holds {state}")
    if found[0].get("schema") != SCHEMA:
        raise ValueError(
            f"the record of {name} has schema {found[0].get('schema')!r}, "
            f"this version reads {SCHEMA}"
        )
    return found[0]


def _source(name, namespace):
    """Return the source of the cell that declares the parameters."""
    for cell in reversed(namespace.get("In", ())):
        if SEEDED.search(cell):
            return cell
    for path in (Path.cwd() / f"{name}.ipynb", BOOK / f"{name}.ipynb"):
        if path.is_file():
            return tagged(path, "parameters")[1].source
    raise ValueError(
        f"no parameters of {name!r} were found: "
        "run the cell tagged 'parameters' before chapter.open"
    )


def _checked(parameters, namespace):
    """Return the parameters' values in a namespace, converted; refuse all wrong ones at once."""
    values = {p.name: namespace[p.name] for p in parameters if p.name in namespace}
    missing = [
        f"{p.name} is not defined: run the parameters cell"
        for p in parameters
        if p.name not in values
    ]
    if found := missing + problems(parameters, values):
        raise ValueError("; ".join(found))
    return converted(parameters, values)


# ---- numbers and tables --------------------------------------------------------------------------


def _whole(n):
    return f"{n:,}" if abs(n) >= 10_000 else str(n)


def _rounded(x, digits):
    x = x + 0.0  # minus zero becomes zero
    if 10 ** (digits - 1) <= abs(x) < 1e15:
        return _whole(round(x))
    mantissa, _, exponent = f"{x:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _in_full(x):
    if isinstance(x, Rational):
        return f"{x.numerator}/{x.denominator}"
    return str(Decimal(x)) if math.isfinite(x) else str(x)


def _frame(data, index=False):
    """Return any of the forms that `table` takes as a DataFrame; columns are named by strings."""
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        try:
            data = pd.DataFrame(data, dtype=object)
        except ValueError as error:
            raise ValueError(
                f"data must be a DataFrame, a list of dicts or a dict of columns: {error}"
            ) from None
    if index:
        data = data.reset_index(names=[name or "" for name in data.index.names])
    names = [column if isinstance(column, tuple) else (column,) for column in data.columns]
    return data.set_axis([" ".join(map(fmt, name)) for name in names], axis="columns")


def _table(frame, digits, caption=None):
    """Return a table in the two forms that a notebook stores, HTML and plain text."""
    texts = frame.astype(object).map(lambda value: fmt(value, digits))
    left = [i for i in range(frame.shape[1]) if not _has_numbers(frame.iloc[:, i])]
    plain = texts.to_string(index=False) if len(texts) else " ".join(texts.columns)
    lines = [caption] * bool(caption) + [line.rstrip() for line in plain.splitlines()]
    return {"text/html": _styled(texts, left, caption).to_html(), "text/plain": "\n".join(lines)}


def _has_numbers(column):
    return any(isinstance(value, Real) and not isinstance(value, bool) for value in column)


def _styled(texts, left, caption):
    """Return a frame of texts as a `Styler`, columns `left` to the left, others to the right.

    A Styler names its table by a random id to which its rules refer. Here the sides of the
    columns are the name: it is the same in every run, and tables of one name have the same rules.
    """
    from pandas.io.formats.style import Styler

    sides = ["left" if i in left else "right" for i in range(texts.shape[1])]
    rules = [
        {"selector": f".col{i}", "props": f"text-align: {side}"} for i, side in enumerate(sides)
    ]
    escaped = texts.map(html.escape).set_axis(
        [html.escape(name) for name in texts.columns], axis="columns"
    )
    styler = Styler(escaped, uuid="".join(side[0] for side in sides), cell_ids=False).hide(
        axis="index"
    )
    return styler.set_table_styles(rules).set_caption(html.escape(caption or ""))


def _box(title, lines):
    """Return pairs (label, text) under a title in the two forms that a notebook stores."""
    labels, texts = zip(*lines)
    styler = _styled(_frame({"label": labels, "text": texts}), [0, 1], title)
    width = max(map(len, labels)) + 2
    wrap = textwrap.TextWrapper(PAGE, subsequent_indent=" " * width)
    plain = [title, *(wrap.fill(label.ljust(width) + text) for label, text in lines)]
    return {"text/html": styler.hide(axis="columns").to_html(), "text/plain": "\n".join(plain)}


# ---- records -------------------------------------------------------------------------------------


def _storable(name, value):
    """Return `value` as JSON holds it, floats rounded; refuse by name what cannot be stored."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _storable(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(f"{name}.{i}", item) for i, item in enumerate(value)]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _storable_float(float(value))
    raise ValueError(
        f"{name} must be a number, a string, or a list, array or dict of them, "
        f"got {type(value).__name__}"
    )


def _storable_float(x):
    if math.isnan(x):
        return None
    return float(f"{x:.5e}") + 0.0 if math.isfinite(x) else str(x)


def _leaves(name, value):
    if not isinstance(value, (dict, list)):
        return [(name, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        leaf for key, item in items for leaf in _leaves(f"{name}.{key}" if name else str(key), item)
    ]


# ---- what pages that show other notebooks need ---------------------------------------------------


def plain_title(source):
    """Return the title in the source of a notebook's first cell, without the marks of Markdown."""
    title = source.partition("\n")[0].removeprefix("# ")
    return re.sub(r"\\mathcal\s*|[$`*{}]", "", title)


def parsed(source):
    """Return the syntax tree of a code cell, without the lines that only IPython reads."""
    return ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", source))


def folded(summary, heads, rows):
    """Return the HTML of a table that opens when its summary is clicked.

    Parameters
    ----------
    summary : str
    heads : sequence of str
        The names of the columns.
    rows : iterable of iterables of str
        The cells of each row. As the summary, they are HTML.
    """
    head = _row("th", heads)
    body = "\n".join(_row("td", row) for row in rows)
    return (
        f"<details><summary>{summary}</summary>\n<table><thead>{head}</thead>\n"
        f"<tbody>\n{body}\n</tbody></table></details>"
    )


def _row(tag, cells):
    left = f'<{tag} style="text-align: left; vertical-align: top">'
    return f"<tr>{''.join(f'{left}{cell}</{tag}>' for cell in cells)}</tr>"
