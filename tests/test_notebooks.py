"""Every notebook keeps the anatomy of its kind; every chapter runs with other parameters and its record reads back.

That each stored output is what a fresh run gives is checked cell by cell by nbval, in the same `make test`.
"""
import nbformat
import papermill
import pytest

from dputils.book import chapter
from dputils.book.parameters import parse_parameters, problems, read_parameters
from tools import anatomy, normalise, setup

NOTEBOOKS = sorted((setup.ROOT / "notebooks").glob("*.ipynb"))
KINDS = {path: nbformat.read(path, as_version=4).metadata.get("dputils", {}).get("kind") for path in NOTEBOOKS}
CHAPTERS = [path for path in NOTEBOOKS if KINDS[path] == "chapter"]


def stem(path):
    return path.stem


def other_values(parameters, chosen):
    """Return non-default values in the declared ranges for all parameters that have some; `chosen` ones come first."""
    values = {p.name: chosen.get(p.name, other_value(p)) for p in parameters}
    return {name: value for name, value in values.items() if value is not None}


def other_value(parameter):
    """Return a value that is allowed and not the default, or None where there is no other."""
    if parameter.type == "bool":
        return not parameter.default
    if parameter.type in ("int", "float"):
        exact = int if parameter.type == "int" else float
        half, double = exact(parameter.default / 2), exact(parameter.default * 2)
        candidates = [half, double, parameter.default + 1, parameter.low, parameter.high]
    else:
        candidates = []
    admitted = (value for value in [*parameter.choices, *candidates] if value is not None and parameter.admits(value))
    return next((value for value in admitted if value != parameter.default), None)


def test_there_is_a_book_and_its_numbers_are_unique():
    assert CHAPTERS
    assert len({path.name[:2] for path in NOTEBOOKS}) == len(NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=stem)
def test_the_anatomy_is_kept(path):
    found = anatomy.problems(path)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=stem)
def test_the_stored_form_is_the_normalised_one(path):
    nb = nbformat.read(path, as_version=4)
    assert normalise.text(normalise.normalise(nb, path.stem)) == path.read_text(encoding="utf-8"), "run make book"


@pytest.mark.parametrize("path", CHAPTERS, ids=stem)
def test_the_stored_record_is_of_this_chapter_and_its_defaults(path):
    record = chapter.read_record(path)
    assert record["chapter"] == path.stem
    assert record["parameters"] == {p.name: p.default for p in read_parameters(path)}


@pytest.mark.parametrize("path", CHAPTERS, ids=stem)
def test_a_rerun_with_other_parameters_ends_in_a_record(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a chapter runs from any folder
    parameters = read_parameters(path)
    chosen = nbformat.read(path, as_version=4).metadata.dputils.get("rerun", {})
    values = other_values(parameters, chosen)
    defaults = {p.name: p.default for p in parameters}
    assert values["seed"] != defaults["seed"] and len(values) > 1
    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(path, out, parameters=values, progress_bar=False, execution_timeout=120)
    fresh, stored = chapter.read_record(out), chapter.read_record(path)
    assert fresh["parameters"] == {**defaults, **values}
    assert fresh["results"].keys() == stored["results"].keys()
    assert fresh["results"] != stored["results"]


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("path", CHAPTERS, ids=stem)
def test_a_rerun_at_the_ends_of_the_ranges_breaks_on_no_check(path, end, tmp_path):
    values = {p.name: getattr(p, end) for p in read_parameters(path) if getattr(p, end) is not None}
    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(path, out, parameters=values, progress_bar=False, execution_timeout=120)
    assert chapter.read_record(out)["parameters"].items() >= values.items()


@pytest.mark.parametrize(("line", "value"), [
    ("epsilon: float = 1.0  # budget, range (0, 20]", 0.5), ("n: int = 1  # rows, range [1, 9]", 2),
    ("n: int = 9  # rows, range [9, 10]", 10), ("p: float = 0.0  # share, range [0, 1]", 1.0),
    ("name: str = 'b'  # table, one of a, b", "a"), ("flag: bool = True  # whether", False)])
def test_other_values_are_allowed_and_not_the_default(line, value):
    parameters = parse_parameters(f"{line}\nseed: int = 0  # seed, range [0, 99]")
    values = other_values(parameters, {"seed": 7})
    assert values == {parameters[0].name: value, "seed": 7}
    assert not problems(parameters, values)
