"""Grids of reruns: what a grid may be, failures as rows, the same bytes each time, refusals."""

import hashlib
import io
import json

import pandas as pd
import pytest
from test_run import toy

from dputils.book import chapter, run, sweep
from dputils.book.parameters import read_parameters


@pytest.fixture
def path(tmp_path):
    return toy(
        tmp_path,
        "chapter.results(None, mean_error=abs(noise).mean(), counts=[1, 2], bound=float('inf'))",
    )


@pytest.fixture
def parameters(path):
    return read_parameters(path)


def test_a_grid_of_values_and_half_open_ranges(parameters):
    texts = {
        "seed": "7,0:3",
        "epsilon": "0.1, 1",
        "dataset": "anes96,randhie",
        "detail": "true,False",
    }
    values, found = sweep.grid(parameters, texts)
    assert found == [] and list(values) == list(texts)
    assert values == {
        "seed": [7, 0, 1, 2],
        "epsilon": [0.1, 1.0],
        "dataset": ["anes96", "randhie"],
        "detail": [True, False],
    }


@pytest.mark.parametrize(
    "texts, sentences",
    [
        (
            {"epsilon": "1,-1,30"},
            ["epsilon must be in (0, 20], got -1.0", "epsilon must be in (0, 20], got 30.0"],
        ),
        ({"epsilon": "1,,2"}, ["epsilon must be a number, got ''"]),
        ({"epsilon": "1:3"}, ["epsilon must be a number, got '1:3'"]),
        ({"epsilon": "1,2,1.0"}, ["epsilon takes 1.0 twice"]),
        ({"seed": "0:3,2"}, ["seed takes 2 twice"]),
        ({"seed": "5:5"}, ["seed=5:5 is not a range a:b of at most 100000 whole numbers, a < b"]),
        (
            {"seed": "0:100001"},
            ["seed=0:100001 is not a range a:b of at most 100000 whole numbers, a < b"],
        ),
        ({"seed": "0:x"}, ["seed=0:x is not a range a:b of at most 100000 whole numbers, a < b"]),
        ({"seed": "0:50001", "detail": "true,false"}, ["the grid has more than 100000 runs"]),
        (
            {"seed": f"0:{'9' * 100}x"},
            [
                f"seed=0:{'9' * 28}... (103 characters) is not a range a:b of at most 100000 whole "
                "numbers, a < b"
            ],
        ),
        ({"sede": "0:3"}, ["unknown parameter 'sede': did you mean 'seed'?"]),
    ],
)
def test_a_grid_is_refused(parameters, texts, sentences):
    assert sweep.grid(parameters, texts)[1] == sentences


def test_a_long_range_out_of_bounds_takes_three_sentences(parameters):
    assert len(sweep.grid(parameters, {"seed": "-50:0"})[1]) == 3


def test_a_refusal_starts_and_writes_nothing(path, capsys, monkeypatch):
    monkeypatch.setattr(sweep, "rerun", lambda *_, **__: pytest.fail("a kernel was about to start"))
    status = sweep.main(
        [
            str(path),
            "-p",
            "epsilon=1,99",
            "-p",
            "sede=0:2",
            "-o",
            str(path.parent / "out"),
            "-j",
            "0",
            "--timeout",
            "0",
        ]
    )
    assert status == 2
    assert capsys.readouterr().err.splitlines() == [
        f"dputils.sweep: {path} does not run:",
        "  epsilon must be in (0, 20], got 99.0",
        "  unknown parameter 'sede': did you mean 'seed'?",
        "  --timeout must be at least 1, got 0",
        "  --jobs must be at least 1, got 0",
    ]
    assert list(path.parent.iterdir()) == [path]
    assert sweep.main([str(path), "-o", str(path)]) == 2
    assert "-o must name a folder, got the file" in capsys.readouterr().err


def test_a_sweep_with_a_failing_run_twice(path, tmp_path, capsys):
    arguments = [str(path), "-p", "epsilon=0.5", "-p", "seed=2:4", "-o"]
    assert sweep.main([*arguments, str(tmp_path / "a"), "-j", "2", "--keep"]) == 1
    out, err = capsys.readouterr()
    assert (
        err == ""
        and out
        == f"wrote {tmp_path / 'a' / '97-toy.csv'}: 2 runs, 1 failed (see the column 'error')\n"
    )
    table = pd.read_csv(tmp_path / "a" / "97-toy.csv", keep_default_na=False)
    assert list(table) == [
        "epsilon",
        "seed",
        "dataset",
        "detail",
        "status",
        "error",
        "mean_error",
        "counts.0",
        "counts.1",
        "bound",
    ]
    assert list(table.seed) == [2, 3] and list(table.status) == ["ok", "failed"]
    assert table.error[1] == "97-toy failed in cell [4]: ArithmeticError: a line and another"
    assert (table["counts.1"][0], table["counts.1"][1], table.bound[0]) == ("2", "", "inf")
    kept = tmp_path / "a" / "97-toy.runs"
    assert [p.name for p in kept.iterdir()] == ["00000.ipynb"]
    assert chapter.read_record(kept / "00000.ipynb")["results"]["mean_error"] == float(
        table.mean_error[0]
    )

    # another number of workers, the same bytes
    assert sweep.main([*arguments, str(tmp_path / "b"), "-j", "1"]) == 1
    for name in ("97-toy.csv", "97-toy.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == ["97-toy.csv", "97-toy.json"]

    text = (tmp_path / "b" / "97-toy.json").read_text()
    origin = json.loads(text)
    assert origin["command"] == "python -m dputils.sweep 97-toy -p epsilon=0.5 -p seed=2:4 -o DIR"
    assert origin["parameters"] == {
        "epsilon": [0.5],
        "seed": [2, 3],
        "dataset": "randhie",
        "detail": False,
    }
    assert (origin["runs"], origin["failed"], origin["seeds"]) == (2, 1, [2, 3])
    assert (
        origin["sha256"]["table"]
        == hashlib.sha256((tmp_path / "b" / "97-toy.csv").read_bytes()).hexdigest()
    )
    assert (
        set(origin["versions"]) == {"python", "numpy", "scipy", "pandas"}
        and str(tmp_path) not in text
    )


def test_the_sidecar_follows_code_and_data_but_not_results(path, tmp_path, monkeypatch):
    table = pd.DataFrame({"status": ["ok"]})
    for folder in ("dputils/accounting", "data/results", "data/inner"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(sweep, "ROOT", tmp_path)

    def hashes():
        return sweep.sidecar(path, {}, table, "")["sha256"]

    seen = [hashes()]
    (tmp_path / "data/results/old.csv").write_text("1")
    assert hashes() == seen[0]
    for file in ("dputils/a.py", "dputils/accounting/a.py", "data/b.csv", "data/inner/b.csv"):
        for content in ("1", "2"):
            (tmp_path / file).write_text(content)
            seen.append(hashes())
    toy(tmp_path)  # another last cell
    seen.append(hashes())
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])
    code, tables = [one["dputils"] for one in seen], [one["data"] for one in seen]
    assert (
        len(set(code)) == 5
        and code[4] == code[9]
        and len(set(tables)) == 5
        and tables[0] == tables[4]
    )


def test_a_killed_worker_leaves_rows(path, monkeypatch):
    class Broken:
        def __init__(self, *_, **__): ...
        def __enter__(self):
            return self

        def __exit__(self, *_): ...

        def submit(self, *_):
            from concurrent.futures import Future

            future = Future()
            future.set_exception(RuntimeError("a process was terminated abruptly"))
            return future

    monkeypatch.setattr(sweep, "ProcessPoolExecutor", Broken)
    table = sweep.rerun(path, {"seed": [1, 2]})
    assert (
        list(table.status) == ["failed"] * 2
        and list(table.error) == ["a process was terminated abruptly"] * 2
    )


def test_columns_keep_their_type_beside_missing_values():
    frame = sweep._frame(
        [{"a": 1, "b": True, "c": 1.5, "d": "x", "e": 1}, {"a": None, "e": 0.5}, {"a": 3, "d": 4}]
    )
    assert frame.to_csv(index=False) == "a,b,c,d,e\n1,True,1.5,x,1.0\n,,,,0.5\n3,,,4,\n"
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    assert list(pd.read_parquet(buffer)["a"])[::2] == [1, 3]


def test_parquet_is_written_whole(path, tmp_path):
    options = type(
        "Options", (), {"format": "parquet", "parameter": ["seed=1"], "timeout": run.TIMEOUT}
    )
    rows = [{"seed": 1, "status": "ok", "x": 0.5}]
    file = sweep._write(path, {"seed": [1]}, sweep._frame(rows), tmp_path, options)
    assert file == tmp_path / "97-toy.parquet" and pd.read_parquet(file).to_dict("records") == rows
    assert json.loads((tmp_path / "97-toy.json").read_text())["command"].endswith(
        "-o DIR --format parquet"
    )
