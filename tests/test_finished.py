"""The file of finished runs: what is kept however a sweep ends, and what names a run."""

import json
import subprocess
import sys

import pytest
from test_run import toy

from dputils.book import finished

resource = pytest.importorskip("resource")
ROW = {"status": "ok", "error": "", "x": 0.1}


def test_a_run_is_found_again_and_a_failed_one_is_not_done(tmp_path):
    with finished.Runs(tmp_path / "runs") as runs:
        runs.add("a", ROW)
        runs.add("b", {"status": "failed", "error": "too slow"})
        assert runs.row("a") == ROW and runs.row("c") is None
    with finished.Runs(tmp_path / "runs") as runs:
        assert "a" in runs and "b" not in runs and "c" not in runs
        assert runs.row("b") == {"status": "failed", "error": "too slow"}
        runs.add("b", ROW)
        assert "b" in runs and runs.row("b") == ROW
    assert (tmp_path / "runs").read_text().count("\n") == 3


def test_every_number_comes_back_as_it_was(tmp_path):
    row = ROW | {"a": 1, "b": 0.1 + 0.2, "c": float("inf"), "d": None, "e": True, "f": 10**30}
    with finished.Runs(tmp_path / "runs") as runs:
        runs.add("a", row)
        back = runs.row("a")
    assert back == row and list(map(type, back.values())) == list(map(type, row.values()))


@pytest.mark.parametrize("end", [b"", b'{"run": "b", "sta', b"nonsense\n", b"[1]\n", b"\xff\n"])
def test_what_was_cut_off_or_is_foreign_is_no_run(tmp_path, end):
    path = tmp_path / "runs"
    whole = json.dumps({"run": "a", **ROW}).encode() + b"\n"
    path.write_bytes(whole + end)
    with finished.Runs(path) as runs:
        assert "a" in runs and "b" not in runs
        runs.add("b", ROW)
        assert runs.row("b") == ROW and runs.row("a") == ROW
    with finished.Runs(path) as runs:
        assert "a" in runs and "b" in runs


def test_a_line_that_does_not_fit_leaves_nothing(tmp_path):
    path, limits = tmp_path / "runs", resource.getrlimit(resource.RLIMIT_FSIZE)
    with finished.Runs(path) as runs:
        runs.add("a", ROW)
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                runs.add("b", ROW)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before and "b" not in runs and runs.row("a") == ROW
        runs.add("b", ROW)
        assert runs.row("b") == ROW
    assert path.read_text().count("\n") == 2


def test_one_sweep_at_a_time_writes_into_a_folder(tmp_path):
    code = (
        "import sys; from dputils.book import finished\n"
        "with finished.only_one(sys.argv[1]):\n    print('held', flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout.readline() == b"held\n"
        sentence = f"another sweep is writing into {tmp_path}: wait for it"
        with pytest.raises(ValueError) as refused, finished.only_one(tmp_path):
            pass
        assert str(refused.value) == sentence
    finally:
        other.kill()
        other.communicate()
    with finished.only_one(tmp_path):  # the operating system has let go of it
        pass


def test_a_key_names_the_point_and_what_it_is_made_from():
    origin, point = {"dputils": "1", "data": "2"}, {"epsilon": 1.0, "seed": 1}
    key = finished.key(origin, point)
    assert len(key) == 16 and key == finished.key(dict(reversed(origin.items())), {**point})
    others = [
        finished.key(origin | {"data": "3"}, point),
        finished.key(origin, point | {"seed": 2}),
        finished.key(origin, point | {"epsilon": 0.5}),
    ]
    assert len({key, *others}) == 4


def test_the_origin_follows_code_and_data_but_not_results(tmp_path, monkeypatch):
    path = toy(tmp_path)
    for folder in ("dputils/accounting", "data/results", "data/inner"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(finished, "ROOT", tmp_path)
    seen = [finished.origin(path)]
    (tmp_path / "data/results/old.csv").write_text("1")
    assert finished.origin(path) == seen[0]
    for file in ("dputils/a.py", "dputils/accounting/a.py", "data/b.csv", "data/inner/b.csv"):
        for content in ("1", "2"):
            (tmp_path / file).write_text(content)
            seen.append(finished.origin(path))
    toy(tmp_path, close="chapter.results(None, other=1)")
    seen.append(finished.origin(path))
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])
    code, tables = [one["dputils"] for one in seen], [one["data"] for one in seen]
    assert len(set(code)) == 5 and code[4] == code[9]
    assert len(set(tables)) == 5 and tables[0] == tables[4]
