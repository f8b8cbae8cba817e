"""The table of the benchmarks: one header, and rows of one shape."""

import re

import pytest

from tests import bench
from tests.bench import __main__ as command


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (1.5e-3, "1.5 ms"), (1e-6, "1 us"), (3.21e-8, "32.1 ns"), (4e-11, "0.04 ns")],
)
def test_times_have_units(seconds, text):
    assert bench.shown(seconds) == text


def test_medians_are_of_interleaved_runs_after_a_warm_up():
    calls, ticks = [], iter(range(100))
    jobs = {name: lambda name=name: calls.append(name) for name in "ab"}
    assert bench.medians(jobs, repeats=2, clock=lambda: next(ticks)) == {"a": 1, "b": 1}
    assert calls == ["a", "b"] * 3


def test_the_table_has_one_header_and_rows_of_one_shape(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(
        command.subprocess,
        "run",
        lambda line: ran.append(line[-1]) or type("Done", (), {"returncode": 0}),
    )
    assert command.main(["noise", "selection"]) == 0
    assert [re.search(r"run\('(\w+)'\)", line)[1] for line in ran] == ["noise", "selection"]
    header = capsys.readouterr().out.rstrip("\n")
    rows = [
        bench.row("noise", "laplace", 2e-8, "numpy laplace", 1e-8),
        bench.row("noise", "a table", 0.5),
    ]
    assert header.split() == ["benchmark", "job", "time", "peer", "its", "time", "ratio"]
    for text in rows:
        assert text.index("noise") == header.index("benchmark")
        assert text.rindex("s", 0, header.index("time") + 4) == header.index("time") + 3
    assert rows[0].endswith(" 2") and rows[0].index("numpy") == header.index("peer")
    with pytest.raises(
        SystemExit,
        match="no benchmark 'speed'; there are: boundaries, composition, gaussian",
    ):
        command.main(["speed"])
