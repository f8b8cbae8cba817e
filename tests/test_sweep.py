"""Sweeps: the same bytes each time, failures as rows, what is run again, what is refused."""

import contextlib
import hashlib
import io
import json

import pandas as pd
import pytest
from test_run import toy

from dputils.book import chapter, engine, finished, run, sweep

CLOSE = "chapter.results(None, mean_error=abs(noise).mean(), counts=[1, 2], bound=float('inf'))"


@pytest.fixture(scope="module")
def cluster():
    """Two workers of this machine for all tests of this file."""
    with engine.local(2)() as client:
        yield client


@pytest.fixture
def sweeps(cluster, monkeypatch):
    """Return a function that runs the command on those workers and returns its exit status."""
    monkeypatch.setattr(engine, "local", lambda jobs: lambda: contextlib.nullcontext(cluster))
    return lambda path, folder, *more: sweep.main([str(path), "-o", str(folder), *more])


@pytest.fixture
def path(tmp_path):
    return toy(tmp_path, CLOSE)


def lines(folder):
    return (folder / "97-toy.runs.jsonl").read_text().splitlines()


def test_a_refusal_starts_and_writes_nothing(path, capsys, monkeypatch):
    monkeypatch.setattr(sweep, "rerun", lambda *_, **__: pytest.fail("a kernel was about to start"))
    pairs = ["-p", "epsilon=1,99", "-p", "sede=0:2"]
    out = str(path.parent / "out")
    assert sweep.main([str(path), *pairs, "-o", out, "-j", "0", "--timeout", "0"]) == 2
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


def test_a_second_sweep_into_a_folder_is_refused(path, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sweep, "rerun", lambda *_, **__: pytest.fail("a kernel was about to start"))
    with finished.only_one(tmp_path):
        assert sweep.main([str(path), "-o", str(tmp_path)]) == 2
    sentence = f"  another sweep is writing into {tmp_path}: wait for it\n"
    assert capsys.readouterr().err.endswith(sentence)


def test_a_sweep_with_a_failing_run_twice(path, tmp_path, sweeps, capsys):
    grid, a, b = ["-p", "epsilon=0.5", "-p", "seed=2:4"], tmp_path / "a", tmp_path / "b"
    assert sweeps(path, a, *grid, "--keep") == 1
    out, err = capsys.readouterr()
    assert out == (
        f"wrote {a / '97-toy.csv'}: 2 runs, 1 failed "
        "(see the column 'error'; the same command runs them again)\n"
    )
    assert "| 2/2 " in err.splitlines()[-1] and "\r" not in err  # progress, a line at a time
    table = pd.read_csv(a / "97-toy.csv", keep_default_na=False)
    parameters = ["epsilon", "seed", "dataset", "detail"]
    results = ["mean_error", "counts.0", "counts.1", "bound"]
    assert list(table) == [*parameters, "run", "status", "error", *results]
    assert list(table.seed) == [2, 3] and list(table.status) == ["ok", "failed"]
    assert table.error[1] == "97-toy failed in cell [4]: ArithmeticError: a line and another"
    assert (table["counts.1"][0], table["counts.1"][1], table.bound[0]) == ("2", "", "inf")
    (kept,) = (a / "97-toy.runs").iterdir()
    assert kept.name == f"{table.run[0]}.ipynb"
    assert chapter.read_record(kept)["results"]["mean_error"] == float(table.mean_error[0])

    assert sweeps(path, b, *grid) == 1  # elsewhere, the same bytes
    for name in ("97-toy.csv", "97-toy.json"):
        assert (a / name).read_bytes() == (b / name).read_bytes()
    text = (b / "97-toy.json").read_text()
    beside = json.loads(text)
    assert beside["command"] == "python -m dputils.sweep 97-toy -p epsilon=0.5 -p seed=2:4 -o DIR"
    values = {"epsilon": [0.5], "seed": [2, 3], "dataset": "randhie", "detail": False}
    assert beside["parameters"] == values
    assert (beside["runs"], beside["failed"], beside["seeds"]) == (2, 1, [2, 3])
    digest = hashlib.sha256((b / "97-toy.csv").read_bytes()).hexdigest()
    assert beside["sha256"]["table"] == digest
    assert set(beside["sha256"]) == {"table", "notebook_code", "dputils", "data"}
    assert set(beside["versions"]) == {"python", "numpy", "scipy", "pandas"}
    assert str(tmp_path) not in text


def test_only_what_is_missing_failed_or_changed_is_run_again(path, tmp_path, sweeps):
    out = tmp_path / "out"
    assert sweeps(path, out, "-p", "seed=2:4") == 1
    first = lines(out)
    assert sweeps(path, out, "-p", "seed=1:4") == 1  # one more, and the failed one again
    assert lines(out)[:2] == first and len(lines(out)) == 4
    table = pd.read_csv(out / "97-toy.csv")
    assert list(table.seed) == [1, 2, 3]
    assert sweeps(path, out, "-p", "seed=1:3") == 0 and len(lines(out)) == 4  # all there
    assert sweeps(path, out, "-p", "seed=1:3", "-p", "epsilon=2") == 0 and len(lines(out)) == 6
    toy(tmp_path, CLOSE.replace("[1, 2]", "[1, 3]"))
    assert sweeps(path, out, "-p", "seed=1:3") == 0 and len(lines(out)) == 8
    assert list(pd.read_csv(out / "97-toy.csv")["counts.1"]) == [3, 3]


def test_a_smaller_sweep_leaves_no_notebook_of_the_larger(path, tmp_path, sweeps):
    out = tmp_path / "out"
    for seeds, count in (("0:3", 3), ("1:2", 1), ("0:2", 2)):
        assert sweeps(path, out, "-p", f"seed={seeds}", "--keep") == 0
        kept = {file.stem for file in (out / "97-toy.runs").iterdir()}
        assert kept == set(pd.read_csv(out / "97-toy.csv").run) and len(kept) == count


def test_a_cell_that_takes_too_long_is_a_row(path, tmp_path, sweeps):
    assert sweeps(path, tmp_path / "out", "-p", "seed=4,5", "--timeout", "2") == 1
    table = pd.read_csv(tmp_path / "out" / "97-toy.csv", keep_default_na=False)
    assert list(table.error) == ["97-toy failed: a cell took longer than 2 s", ""]


def test_code_that_changes_during_a_sweep_makes_no_table(path, tmp_path, sweeps, capsys):
    add = finished.Runs.add

    def change(runs, key, row):
        toy(tmp_path, CLOSE.replace("[1, 2]", "[1, 3]"))
        add(runs, key, row)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finished.Runs, "add", change)
        assert sweeps(path, tmp_path / "out", "-p", "seed=1:3") == 1
    assert "97-toy, dputils or the data changed during the sweep" in capsys.readouterr().err
    assert not (tmp_path / "out" / "97-toy.csv").exists()


def test_columns_keep_their_type_beside_missing_values():
    frame = sweep._frame(
        [{"a": 1, "b": True, "c": 1.5, "d": "x", "e": 1}, {"a": None, "e": 0.5}, {"a": 3, "d": 4}]
    )
    assert frame.to_csv(index=False) == "a,b,c,d,e\n1,True,1.5,x,1.0\n,,,,0.5\n3,,,4,\n"
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    assert list(pd.read_parquet(buffer)["a"])[::2] == [1, 3]


def test_parquet_and_sidecar_are_written_both_or_not_at_all(path, tmp_path, monkeypatch):
    options = type(
        "Options", (), {"format": "parquet", "parameter": ["seed=1"], "timeout": run.TIMEOUT}
    )
    rows = [{"seed": 1, "status": "ok", "x": 0.5}]
    frame, out = sweep._frame(rows), tmp_path / "out"
    out.mkdir()
    write = type(path).write_bytes

    def full(file, content):
        if ".json" in file.name:
            raise OSError(28, "No space left on device")
        return write(file, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(path), "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            sweep._write(path, {"seed": [1]}, frame, out, options)
    assert list(out.iterdir()) == []
    file = sweep._write(path, {"seed": [1]}, frame, out, options)
    assert file == out / "97-toy.parquet" and pd.read_parquet(file).to_dict("records") == rows
    command = json.loads((out / "97-toy.json").read_text())["command"]
    assert command.endswith("-o DIR --format parquet")
