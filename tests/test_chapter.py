"""The opening and closing of a chapter: streams, numbers, tables, refusals, the record."""

import json
import re
from fractions import Fraction

import nbformat
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook, new_output

from dputils.accounting import Ledger
from dputils.book import chapter
from tests.examples import GOOD, SOURCE

FIRST = [19, 297, 286, 604, 765]  # as drawn when the book was begun


@pytest.fixture
def shown(monkeypatch):
    """The bundles that a chapter displays."""
    bundles = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    return bundles


@pytest.fixture
def opened():
    chapter.open("97-toy", {**GOOD, "In": ["", SOURCE]})
    yield
    chapter._current.clear()


def cell(source, *tags):
    return new_code_cell(source, metadata={"tags": list(tags)})


def test_open_converts_and_remembers(opened):
    namespace = {**GOOD, "In": ["", SOURCE, "# Parameters\nepsilon = 2\n"]}
    assert chapter.open("97-toy", namespace) is None
    assert type(namespace["epsilon"]) is float and namespace["epsilon"] == 2.0
    assert chapter._current == {"chapter": "97-toy", "parameters": GOOD}


def test_open_takes_the_latest_declaration():
    with pytest.raises(ValueError, match=r"epsilon must be in \(0, 1\], got 2.0"):
        chapter.open(
            "97-toy", {**GOOD, "In": [SOURCE, SOURCE.replace("(0, 20]", "(0, 1]"), "x = 1"]}
        )


def test_open_tells_all_problems_in_one_sentence_without_a_traceback():
    with pytest.raises(ValueError) as refusal:
        chapter.open("97-toy", {**GOOD, "epsilon": -1.0, "seed": "x", "In": [SOURCE]})
    sentence = "epsilon must be in (0, 20], got -1.0; seed must be an integer, got 'x'"
    assert str(refusal.value) == sentence
    assert refusal.value._render_traceback_() == ["ValueError: " + sentence]


def test_open_names_what_is_not_defined():
    with pytest.raises(ValueError, match="^delta is not defined: run the parameters cell$"):
        chapter.open("97-toy", {**{n: v for n, v in GOOD.items() if n != "delta"}, "In": [SOURCE]})


def test_a_refused_opening_forgets_the_one_before(opened):
    with pytest.raises(ValueError):
        chapter.open("97-toy", {**GOOD, "epsilon": -1.0, "In": [SOURCE]})
    with pytest.raises(ValueError, match="chapter.open has not run"):
        chapter.results(None, x=1)


def test_open_falls_back_on_the_file_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError, match="no parameters of '97-toy' were found: run the cell tagged 'parameters'"
    ):
        chapter.open("97-toy", dict(GOOD))
    nbformat.write(new_notebook(cells=[cell(SOURCE, "parameters")]), "97-toy.ipynb")
    chapter.open("97-toy", dict(GOOD))
    with pytest.raises(ValueError, match="epsilon must be in"):
        chapter.open("97-toy", {**GOOD, "epsilon": 0.0})


def test_streams_depend_on_seed_and_label_alone():
    first = chapter.stream(1, "counts").random(4)
    chapter.stream(1, "a new cell").random(100)
    assert np.array_equal(first, chapter.stream(1, "counts").random(4))
    others = ((1, "sums"), (2, "counts"), (1, "Counts"), (1 << 32, "counts"))
    assert all(not np.array_equal(first, chapter.stream(*other).random(4)) for other in others)


def test_the_first_draws_of_a_label_never_change():
    draws = chapter.stream(1, "counts of the small table").integers(0, 1000, 5)
    assert draws.tolist() == FIRST


def test_streams_of_labels_that_begin_alike_differ():
    labels = ["counts of men", "counts of women", "counts of", "counts of men "]
    draws = [tuple(chapter.stream(1, label).integers(0, 2**63, 2).tolist()) for label in labels]
    assert len(set(draws)) == len(labels)


def test_streams_of_two_labels_are_uncorrelated():
    # The correlation of 40,000 independent pairs is nearly normal with deviation 1/200; beyond
    # six of these: 2e-9.
    a, b = (chapter.stream(1, label).standard_normal(40_000) for label in ("a", "b"))
    assert abs(np.corrcoef(a, b)[0, 1]) < 6 / 200


@pytest.mark.parametrize(
    "seed, label, message",
    [
        (-1, "a", "seed must be at least 0, got -1"),
        (1.5, "a", "seed must be an integer, got 1.5"),
        (1, "", "label must be a string that names what is drawn, got ''"),
        (1, " ", "label must be"),
        (1, 2, "got 2"),
    ],
)
def test_stream_refuses(seed, label, message):
    with pytest.raises(ValueError) as refusal:
        chapter.stream(seed, label)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "value, text",
    [
        (1, "1"),
        (1996, "1996"),
        (20190, "20,190"),
        (-20190, "-20,190"),
        (1.0, "1"),
        (-0.0, "0"),
        (1 / 3, "0.3333"),
        (0.5, "0.5"),
        (12345.678, "12,346"),
        (999.96, "1000"),
        (9999.7, "10,000"),
        (1e6, "1,000,000"),
        (1e15, "1e15"),
        (3.21987e20, "3.22e20"),
        (0.0001234567, "0.0001235"),
        (1e-5, "1e-5"),
        (-1.23456e-7, "-1.235e-7"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (np.float64(2 / 3), "0.6667"),
        (np.int64(123456), "123,456"),
        (np.True_, "True"),
        (Fraction(1, 3), "0.3333"),
        (Fraction(4, 2), "2"),
        (None, ""),
        ("a", "a"),
        ([1, 2.5], "1, 2.5"),
        (np.array([0.0, 1 / 3]), "0, 0.3333"),
    ],
)
def test_fmt(value, text):
    assert chapter.fmt(value) == text


@given(st.floats(-1e300, 1e300), st.integers(1, 8))
def test_fmt_keeps_the_digits_it_promises(x, digits):
    # half a unit of the last significant digit, in the worst case half of 10^(1 - digits) of the
    # value
    back = float(chapter.fmt(x, digits).replace(",", ""))
    assert abs(back - x) <= 0.5000001 * 10.0 ** (1 - digits) * abs(x)
    assert not chapter.fmt(x, digits).startswith("-0") or x < 0


@pytest.mark.parametrize(
    "value, text",
    [
        (0.1, "0.1000000000000000055511151231257827021181583404541015625"),
        (0.5, "0.5"),
        (3, "3"),
        (-0.0, "-0"),
        (12345.0, "12345"),
        (1e22, "10000000000000000000000"),
        (Fraction(1, 3), "1/3"),
        (Fraction(4, 2), "2"),
        (float("inf"), "inf"),
        (np.float64(0.25), "0.25"),
        ([0.5, 0.25], "0.5, 0.25"),
    ],
)
def test_a_number_in_full(value, text):
    assert chapter.fmt(value, digits=None) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_in_full_is_the_float(x):
    assert Fraction(chapter.fmt(x, digits=None)) == Fraction(x)


@pytest.mark.parametrize(
    "value, exact",
    [
        (0.1, Fraction(1, 10)),
        (1e-6, Fraction(1, 10**6)),
        (2, 2),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.3), Fraction(3, 10)),
    ],
)
def test_exactly_reads_the_decimal_that_prints_a_float(value, exact):
    assert chapter.exactly(value) == exact and isinstance(chapter.exactly(value), Fraction)


def test_exactly_refuses_what_is_no_number():
    for value in ("0.1", None, float("nan"), True):
        with pytest.raises(ValueError, match="^x must be"):
            chapter.exactly(value)


def test_a_refusal_is_shown(capsys):
    chapter.refused(chapter.stream, -1, label="a")
    ledger = Ledger(1.0, neighbours="add-remove", unit="row")
    chapter.refused(ledger.spend, "too much", 2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ValueError: seed must be at least 0, got -1"
    assert lines[1].startswith("BudgetExceeded: ") and len(lines) == 2


def test_what_refuses_nothing_is_told(capsys):
    with pytest.raises(AssertionError, match="^stream refused nothing$"):
        chapter.refused(chapter.stream, 1, "a")
    with pytest.raises(NameError):  # an error of the code is no refusal
        chapter.refused(lambda: undefined)  # noqa: F821
    assert capsys.readouterr().out == ""


def test_a_table_in_both_forms(shown):
    rows = [{"name": "<b>", "n": 20190, "share": 1 / 3}, {"name": "longer", "n": 3, "share": -0.0}]
    chapter.table(rows, caption="Two & more")
    plain = ["Two & more", "  name      n  share", "   <b> 20,190 0.3333", "longer      3      0"]
    assert shown[0]["text/plain"].splitlines() == plain
    markup = shown[0]["text/html"]
    assert (
        "<caption>Two &amp; more</caption>" in markup
        and "&lt;b&gt;" in markup
        and "<b>" not in markup
    )
    assert sides(markup) == ["left", "right", "right"]
    cells = re.findall(r"<td [^>]*>([^<]*)</td>", markup)
    assert cells == ["&lt;b&gt;", "20,190", "0.3333", "longer", "3", "0"]


def sides(markup):
    """The side to which each column of a table is set."""
    return re.findall(r"\.col\d+ {\s*text-align: (\w+)", markup)


def test_the_id_of_a_table_tells_its_rules_and_nothing_else(shown):
    for value in (1, 2):
        chapter.table({"name": ["a"], "<n>": [value]})
    chapter.table({"name": ["a"], "note": ["b"]})
    first, second, third = (bundle["text/html"] for bundle in shown)
    assert first.replace("1</td>", "2</td>") == second
    ids = [re.findall(r'id="(\w+)"', markup) for markup in (first, second, third)]
    assert ids == [["T_lr"], ["T_lr"], ["T_ll"]] and sides(third) == ["left", "left"]
    assert "&lt;n&gt;" in first and "<n>" not in first


def test_truth_values_are_words_and_mixed_columns_numbers(shown):
    chapter.table({"safe": [True, np.False_], "value": ["none", 2.5]})
    assert sides(shown[0]["text/html"]) == ["left", "right"]


def test_tables_from_other_forms_agree(shown):
    columns = {"k": [1, 2], "v": [0.5, None]}
    chapter.table(columns)
    chapter.table([{"k": 1, "v": 0.5}, {"k": 2, "v": None}])
    chapter.table(pd.DataFrame(columns, dtype=object))
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["text/plain"] == "k   v\n1 0.5\n2"


def test_table_shows_an_index_only_when_asked(shown):
    frame = pd.DataFrame({"v": [1.5]}, index=pd.Index(["u"], name="group"))
    chapter.table(frame)
    chapter.table(frame, index=True)
    chapter.table(frame * 2 / 3, digits=1)
    assert [b["text/plain"] for b in shown] == ["  v\n1.5", "group   v\n    u 1.5", "v\n1"]


def test_columns_of_several_levels_and_of_one_name(shown):
    levels = pd.MultiIndex.from_tuples([("error", 10), ("error", 20_000)])
    chapter.table(pd.DataFrame([[1, 2]], columns=levels))
    chapter.table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert shown[0]["text/plain"].split() == ["error", "10", "error", "20,000", "1", "2"]
    assert shown[1]["text/plain"].split() == ["a", "a", "1", "2"]


def test_a_table_without_rows_and_one_without_columns(shown):
    chapter.table({"a": [], "b": []})
    assert shown[0]["text/plain"] == "a b" and shown[0]["text/html"].count("<th ") == 2
    with pytest.raises(
        ValueError, match="data must be a DataFrame, a list of dicts or a dict of columns"
    ):
        chapter.table({"a": 1, "b": 2})


class Spent:
    """Stands for a ledger."""

    def record(self):
        return {
            "epsilon": 1.0,
            "neighbours": "add-remove",
            "entries": [{"label": "count", "epsilon": 1 / 3}],
        }


def executed(shown):
    """A notebook whose results cell holds what was displayed, as it comes back from a file."""
    close = cell("chapter.results(...)", "results")
    close.outputs = [new_output("display_data", data=bundle) for bundle in shown]
    return nbformat.reads(
        nbformat.writes(new_notebook(cells=[cell(SOURCE, "parameters"), close])), as_version=4
    )


def test_record_round_trip(opened, shown, tmp_path):
    chapter.results(
        Spent(),
        errors=[1 / 3, 2e-9],
        counts=np.arange(2),
        share=Fraction(1, 8),
        best="laplace",
        safe=np.True_,
        by_size={100: 1.0, "all": np.float32(2.5)},
        undefined=float("nan"),
        bound=float("inf"),
        zero=-0.0,
    )
    path = tmp_path / "97-toy.ipynb"
    nbformat.write(executed(shown), path)
    record = chapter.read_record(path)
    assert record == chapter.read_record(executed(shown))
    assert (
        record["chapter"] == "97-toy"
        and record["parameters"] == GOOD
        and record["schema"] == chapter.SCHEMA
    )
    assert record["ledger"]["entries"] == [{"label": "count", "epsilon": 0.333333}]
    assert record["results"] == {
        "errors": [0.333333, 2e-9],
        "counts": [0, 1],
        "share": 0.125,
        "best": "laplace",
        "safe": True,
        "by_size": {"100": 1.0, "all": 2.5},
        "undefined": None,
        "bound": "inf",
        "zero": 0.0,
    }
    assert str(record["results"]["zero"]) == "0.0"
    json.dumps(record, allow_nan=False)
    row = chapter.flat(record)
    assert [row[n] for n in ("errors.1", "by_size.all", "ledger.epsilon", "epsilon")] == [
        2e-9,
        2.5,
        1.0,
        2.0,
    ]
    assert not any("entries" in name for name in row)
    assert "bound" in shown[0]["text/plain"] and "<table " in shown[0]["text/html"]


@pytest.mark.parametrize(
    "name, value, message",
    [
        (
            "x",
            object(),
            "results.x must be a number, a string, or a list, array or dict of them, got object",
        ),
        (
            "x",
            {"a": [1, {2}]},
            "results.x.a.1 must be a number, a string, or a list, array or dict of them, got set",
        ),
        ("x", 1j, "results.x must be a number"),
        ("epsilon", 1.0, "epsilon is already a column of every sweep"),
        ("status", 1.0, "status is already a column"),
        ("error", 1.0, "error is already a column"),
    ],
)
def test_results_refuse_by_name(opened, shown, name, value, message):
    with pytest.raises(ValueError) as refusal:
        chapter.results(None, **{name: value})
    assert message in str(refusal.value) and not shown


def test_reading_a_record_refuses(opened, shown, tmp_path):
    chapter.results(None, x=1)
    with pytest.raises(
        ValueError, match="the results cell of the notebook holds no record: has it been executed?"
    ):
        chapter.read_record(executed([]))
    with pytest.raises(ValueError, match="holds 2 records, not one"):
        chapter.read_record(executed(shown * 2))
    with pytest.raises(ValueError, match="has schema 99, this version reads 1"):
        chapter.read_record(executed([{chapter.RECORD: {"schema": 99}}]))
    for number, cells in (("no cell", []), ("2 cells", [cell("", "results"), cell("", "results")])):
        with pytest.raises(ValueError, match=f"has {number} tagged 'results'"):
            chapter.read_record(new_notebook(cells=cells))
    (tmp_path / "a.ipynb").write_text("not JSON")
    with pytest.raises(ValueError, match="a.ipynb is not a notebook"):
        chapter.read_record(tmp_path / "a.ipynb")


def test_a_title_is_plain():
    assert chapter.plain_title("# 50 $d_{\\mathcal X}$-privacy\n\nText.") == "50 d_X-privacy"
    assert chapter.plain_title("# The `index` of *all*") == "The index of all"


def test_a_cell_is_parsed_without_the_lines_of_ipython():
    tree = chapter.parsed("%matplotlib inline\n!ls\nx = 7 % 3")
    assert len(tree.body) == 1 and tree.body[0].lineno == 3


def test_a_folded_table_holds_what_it_is_given():
    html = chapter.folded("<b>two</b>: 2", ("a", "b"), [("1", "2"), iter(("3", "4"))])
    assert html.startswith("<details><summary><b>two</b>: 2</summary>")
    assert re.findall(r"<t[hd] [^>]*>([^<]*)</t[hd]>", html) == ["a", "b", "1", "2", "3", "4"]
    assert html.count("<tr>") == html.count("</tr>") == 3
