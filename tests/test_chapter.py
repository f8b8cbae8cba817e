"""The opening and closing of a chapter: declarations, refusals, streams, numbers and tables, the results record."""
import json
from fractions import Fraction

import nbformat
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook, new_output

from dputils.book import chapter

SEED = "seed: int = 1  # seed of all random streams, range [0, 4294967295]\n"
SOURCE = """# what can be changed
epsilon: float = 1.0  # privacy budget of the chapter, range (0, 20]
""" + SEED + """delta: float = 1e-5  # delta of the releases, range [1e-12, 0.1)
dataset: str = "randhie"  # embedded table, one of randhie, anes96
folds: int = 5  # folds of the cross-validation, one of 2, 5, 10
detail: bool = False  # whether to draw the fine grid too
"""
GOOD = {"epsilon": 2, "seed": 7, "delta": 0.01, "dataset": "anes96", "folds": 10, "detail": True}


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


def test_parse_reads_every_field():
    epsilon, seed, delta, dataset, folds, detail = chapter.parse_parameters(SOURCE)
    assert (epsilon.name, epsilon.type, epsilon.default) == ("epsilon", "float", 1.0)
    assert (epsilon.text, detail.text) == ("privacy budget of the chapter", "whether to draw the fine grid too")
    assert (epsilon.low, epsilon.high, epsilon.low_open, epsilon.high_open) == (0, 20, True, False)
    assert (delta.low, delta.high, delta.low_open, delta.high_open) == (1e-12, 0.1, False, True)
    assert [p.range for p in (epsilon, seed, delta)] == ["in (0, 20]", "in [0, 4294967295]", "in [1e-12, 0.1)"]
    assert [p.range for p in (dataset, folds, detail)] == ["one of randhie, anes96", "one of 2, 5, 10", "True or False"]


def test_papermill_reads_the_same_declaration():
    from papermill.translators import PythonTranslator
    theirs = {p.name: (p.inferred_type_name, p.help) for p in PythonTranslator.inspect({"source": SOURCE})}
    ours = {p.name: p.type for p in chapter.parse_parameters(SOURCE)}
    assert {name: kind for name, (kind, _) in theirs.items()} == ours
    assert theirs["epsilon"][1] == "privacy budget of the chapter, range (0, 20]"


@pytest.mark.parametrize("line, message", [
    ("epsilon = 1.0  # budget, range (0, 20]", "must have the form 'name: type = literal"),
    ("epsilon: float  # budget, range (0, 20]", "must have the form"),
    ("epsilon: int | None = 1  # budget, range (0, 20]", "must have the form"),
    ("epsilon: np.float64 = 1.0  # budget, range (0, 20]", "must have the form"),
    ("epsilon: float = 2 * 3  # budget, range (0, 20]", "must have the form"),
    ("print(1)", "must have the form"),
    ("epsilon: float = (\n1.0)  # budget, range (0, 20]", "must have the form"),
    ("epsilon: float = 1.0  # budget, must be >= 0, range (0, 20]", "has a second '='"),
    ("epsilon: float = 1.0", "epsilon needs a comment that says what it is and ends like 'range (0, 20]'"),
    ("epsilon: float = 1.0  # budget", "and ends like 'range (0, 20]'"),
    ("epsilon: float = 1.0  # range (0, 20]", "needs a comment that says what it is"),
    ("epsilon: float = 1.0  # budget, range (0, 20] or so", "and ends like"),
    ("epsilon: float = 1.0  # budget, range (20, 0]", "and ends like"),
    ("epsilon: float = 1.0  # budget, range (zero, 20]", "and ends like"),
    ("folds: int = 2  # folds, one of 2, many", "and ends like"),
    ("dataset: str = 'a'  # table", "dataset needs a comment that says what it is and ends like 'one of a, b'"),
    ("detail: bool = True", "detail needs a comment that says what it is"),
    ("epsilon: float = 21.0  # budget, range (0, 20]", "epsilon must be in (0, 20], got 21.0"),
    ("epsilon: float = 'x'  # budget, range (0, 20]", "epsilon must be a number, got 'x'"),
    ("seed: int = 1  # again, range [0, 9]", "seed is declared twice"),
    ("epsilon: float = = 1", "parameters cell, line 2: invalid syntax"),
])
def test_parse_refuses(line, message):
    with pytest.raises(ValueError) as refusal:
        chapter.parse_parameters(SEED + line)
    assert message in str(refusal.value)
    with pytest.raises(ValueError, match="every chapter declares 'seed: int'"):
        chapter.parse_parameters(SOURCE.replace("seed:", "seeds:"))


@pytest.mark.parametrize("name, value, sentence", [
    ("epsilon", -1.0, "epsilon must be in (0, 20], got -1.0"),
    ("epsilon", -1, "epsilon must be in (0, 20], got -1.0"),
    ("epsilon", 0, "epsilon must be in (0, 20], got 0.0"),
    ("epsilon", float("nan"), "epsilon must be in (0, 20], got nan"),
    ("epsilon", float("inf"), "epsilon must be in (0, 20], got inf"),
    ("epsilon", True, "epsilon must be a number, got True"),
    ("epsilon", "1", "epsilon must be a number, got '1'"),
    ("delta", 0.1, "delta must be in [1e-12, 0.1), got 0.1"),
    ("seed", 1.0, "seed must be an integer, got 1.0"),
    ("seed", 4294967296, "seed must be in [0, 4294967295], got 4294967296"),
    ("folds", 3, "folds must be one of 2, 5, 10, got 3"),
    ("dataset", "adult", "dataset must be one of randhie, anes96, got 'adult'"),
    ("dataset", 3, "dataset must be a string, got 3"),
    ("detail", 1, "detail must be True or False, got 1"),
    ("epsilonn", 1.0, "unknown parameter 'epsilonn': did you mean 'epsilon'?"),
    ("zzz", 1.0, "unknown parameter 'zzz': there are epsilon, seed, delta, dataset, folds, detail"),
])
def test_problems_name_argument_and_value(name, value, sentence):
    assert chapter.problems(chapter.parse_parameters(SOURCE), {name: value}) == [sentence]


def test_values_at_closed_ends_have_no_problem():
    parameters = chapter.parse_parameters(SOURCE)
    for values in (GOOD, {"epsilon": 20, "seed": 0, "delta": 1e-12}, {"seed": 4294967295}, {"seed": np.int64(3)}):
        assert chapter.problems(parameters, values) == []


def test_open_converts_and_remembers(opened):
    namespace = {**GOOD, "In": ["", SOURCE, "# Parameters\nepsilon = 2\n"]}
    assert chapter.open("97-toy", namespace) is None
    assert type(namespace["epsilon"]) is float and namespace["epsilon"] == 2.0
    assert chapter._current == {"chapter": "97-toy", "parameters": GOOD}


def test_open_takes_the_latest_declaration():
    with pytest.raises(ValueError, match=r"epsilon must be in \(0, 1\], got 2.0"):
        chapter.open("97-toy", {**GOOD, "In": [SOURCE, SOURCE.replace("(0, 20]", "(0, 1]"), "x = 1"]})


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
    with pytest.raises(ValueError, match="no parameters of '97-toy' were found: run the cell tagged 'parameters'"):
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


def test_streams_of_two_labels_are_uncorrelated():
    # The correlation of 40,000 independent pairs is nearly normal with deviation 1/200; beyond six of these: 2e-9.
    a, b = (chapter.stream(1, label).standard_normal(40_000) for label in ("a", "b"))
    assert abs(np.corrcoef(a, b)[0, 1]) < 6 / 200


@pytest.mark.parametrize("seed, label, message", [
    (-1, "a", "seed must be at least 0, got -1"), (1.5, "a", "seed must be an integer, got 1.5"),
    (1, "", "label must be a string that names what is drawn, got ''"), (1, " ", "label must be"), (1, 2, "got 2"),
])
def test_stream_refuses(seed, label, message):
    with pytest.raises(ValueError) as refusal:
        chapter.stream(seed, label)
    assert message in str(refusal.value)


@pytest.mark.parametrize("value, text", [
    (1, "1"), (1996, "1996"), (20190, "20,190"), (-20190, "-20,190"), (1.0, "1"), (-0.0, "0"), (1 / 3, "0.3333"),
    (0.5, "0.5"), (12345.678, "12,346"), (999.96, "1000"), (9999.7, "10,000"), (1e6, "1,000,000"), (1e15, "1e15"),
    (3.21987e20, "3.22e20"), (0.0001234567, "0.0001235"), (1e-5, "1e-5"), (-1.23456e-7, "-1.235e-7"),
    (float("inf"), "inf"), (float("nan"), "nan"),
    (np.float64(2 / 3), "0.6667"), (np.int64(123456), "123,456"), (np.True_, "True"), (Fraction(1, 3), "0.3333"),
    (Fraction(4, 2), "2"), (None, ""), ("a", "a"), ([1, 2.5], "1, 2.5"), (np.array([0.0, 1 / 3]), "0, 0.3333"),
])
def test_fmt(value, text):
    assert chapter.fmt(value) == text


@given(st.floats(-1e300, 1e300), st.integers(1, 8))
def test_fmt_keeps_the_digits_it_promises(x, digits):
    # half a unit of the last significant digit, in the worst case half of 10^(1 - digits) of the value
    back = float(chapter.fmt(x, digits).replace(",", ""))
    assert abs(back - x) <= 0.5000001 * 10.0 ** (1 - digits) * abs(x)
    assert not chapter.fmt(x, digits).startswith("-0") or x < 0


def test_a_table_in_both_forms(shown):
    rows = [{"name": "<b>", "n": 20190, "share": 1 / 3}, {"name": "longer", "n": 3, "share": -0.0}]
    chapter.table(rows, caption="Two & more")
    plain = ["Two & more", "name         n   share", "<b>     20,190  0.3333", "longer       3       0"]
    assert shown[0]["text/plain"].splitlines() == plain
    markup = shown[0]["text/html"]
    assert "<caption>Two &amp; more</caption>" in markup and "&lt;b&gt;" in markup and "<b>" not in markup
    assert '<td style="text-align: left">longer</td><td style="text-align: right">3</td>' in markup


def test_tables_from_other_forms_agree(shown):
    columns = {"k": [1, 2], "v": [0.5, None]}
    chapter.table(columns)
    chapter.table([{"k": 1, "v": 0.5}, {"k": 2, "v": None}])
    chapter.table(pd.DataFrame(columns, dtype=object))
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["text/plain"] == "k    v\n1  0.5\n2"


def test_table_shows_an_index_only_when_asked(shown):
    frame = pd.DataFrame({"v": [1.5]}, index=pd.Index(["u"], name="group"))
    chapter.table(frame), chapter.table(frame, index=True), chapter.table(frame * 2 / 3, digits=1)
    assert [b["text/plain"] for b in shown] == ["  v\n1.5", "group    v\nu      1.5", "v\n1"]


def test_a_table_without_rows_and_one_without_columns(shown):
    chapter.table({"a": [], "b": []})
    assert shown[0]["text/plain"] == "a  b"
    with pytest.raises(ValueError, match="data must be a DataFrame, a list of dicts or a dict of columns"):
        chapter.table({"a": 1, "b": 2})


class Spent:
    """Stands for a ledger."""

    def record(self):
        return {"epsilon": 1.0, "neighbours": "add-remove", "entries": [{"label": "count", "epsilon": 1 / 3}]}


def executed(shown):
    """A notebook whose results cell holds what was displayed, as it comes back from a file."""
    close = cell("chapter.results(...)", "results")
    close.outputs = [new_output("display_data", data=bundle) for bundle in shown]
    return nbformat.reads(nbformat.writes(new_notebook(cells=[cell(SOURCE, "parameters"), close])), as_version=4)


def test_record_round_trip(opened, shown, tmp_path):
    chapter.results(Spent(), errors=[1 / 3, 2e-9], counts=np.arange(2), share=Fraction(1, 8), best="laplace",
                    safe=np.True_, by_size={100: 1.0, "all": np.float32(2.5)}, undefined=float("nan"),
                    bound=float("inf"), zero=-0.0)
    path = tmp_path / "97-toy.ipynb"
    nbformat.write(executed(shown), path)
    record = chapter.read_record(path)
    assert record == chapter.read_record(executed(shown))
    assert record["chapter"] == "97-toy" and record["parameters"] == GOOD and record["schema"] == chapter.SCHEMA
    assert record["ledger"]["entries"] == [{"label": "count", "epsilon": 0.333333}]
    assert record["results"] == {
        "errors": [0.333333, 2e-9], "counts": [0, 1], "share": 0.125, "best": "laplace", "safe": True,
        "by_size": {"100": 1.0, "all": 2.5}, "undefined": None, "bound": "inf", "zero": 0.0}
    assert str(record["results"]["zero"]) == "0.0"
    json.dumps(record, allow_nan=False)
    row = chapter.flat(record)
    assert [row[n] for n in ("errors.1", "by_size.all", "ledger.epsilon", "epsilon")] == [2e-9, 2.5, 1.0, 2.0]
    assert not any("entries" in name for name in row)
    assert "bound" in shown[0]["text/plain"] and "<table>" in shown[0]["text/html"]


@pytest.mark.parametrize("name, value, message", [
    ("x", object(), "results.x must be a number, a string, or a list, array or dict of them, got object"),
    ("x", {"a": [1, {2}]}, "results.x.a.1 must be a number, a string, or a list, array or dict of them, got set"),
    ("x", 1j, "results.x must be a number"), ("epsilon", 1.0, "epsilon is already a column of every sweep"),
    ("status", 1.0, "status is already a column"), ("error", 1.0, "error is already a column"),
])
def test_results_refuse_by_name(opened, shown, name, value, message):
    with pytest.raises(ValueError) as refusal:
        chapter.results(None, **{name: value})
    assert message in str(refusal.value) and not shown


def test_reading_a_record_refuses(opened, shown, tmp_path):
    chapter.results(None, x=1)
    with pytest.raises(ValueError, match="the results cell of the notebook holds no record: has it been executed?"):
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
