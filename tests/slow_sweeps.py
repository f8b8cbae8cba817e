"""A chapter that takes a moment, and sweeps over it that are cut off, in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time

import nbformat
import pandas as pd
import psutil
from nbformat.v4 import new_code_cell, new_notebook

from dputils.book import chapter

PARAMETERS = """epsilon: float = 1.0  # privacy budget of the chapter, range (0, 20]
seed: int = 1  # seed of all random streams, range [0, 4294967295]"""
OPEN = "from dputils.book import chapter\nchapter.open('97-slow', globals())"
BODY = "import time\ntime.sleep(0.3)\ndraw = int(chapter.stream(seed, 'draw').integers(10**5))"
GONE = "The runs that have ended are kept: the same command goes on from there.\n"


def slow_chapter(folder):
    """Write a chapter that takes a moment into a folder, and return its path."""
    cells = [
        new_code_cell(PARAMETERS, id="p", metadata={"tags": ["parameters"]}),
        new_code_cell(OPEN, id="o"),
        new_code_cell(BODY, id="b"),
        new_code_cell("chapter.results(None, draw=draw)", id="r", metadata={"tags": ["results"]}),
    ]
    path = folder / "97-slow.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


class Sweep:
    """A sweep over seeds in a process of its own."""

    def __init__(self, path, seeds, *more):
        self.out = path.parent / "out"
        self.file = self.out / "97-slow.runs.jsonl"
        command = [sys.executable, "-m", "dputils.sweep", str(path), "-p", f"seed=0:{seeds}"]
        self.process = subprocess.Popen(
            [*command, "-o", str(self.out), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def lines(self):
        return self.file.read_text().splitlines() if self.file.exists() else []

    def wait_for(self, count):
        """Wait until so many runs stand in the file."""
        end = time.monotonic() + 60
        while len(self.lines()) < count:
            assert time.monotonic() < end and self.process.poll() is None, self.lines()
            time.sleep(0.05)

    def family(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self):
        """Return exit status, what was printed, and the last sentence of the errors."""
        out, err = self.process.communicate(timeout=90)
        return self.process.returncode, out, err

    def check(self, count):
        """The table has each run once, with what it draws; the file has no run twice."""
        table = pd.read_csv(self.out / "97-slow.csv")
        assert list(table.seed) == list(range(count)) and set(table.status) == {"ok"}
        streams = (chapter.stream(seed, "draw") for seed in range(count))
        assert list(table.draw) == [stream.integers(10**5) for stream in streams]
        assert len({json.loads(line)["run"] for line in self.lines()}) == len(self.lines()) == count


def last(err):
    return err.splitlines(keepends=True)[-1]


def gone(family, within=10):
    _, left = psutil.wait_procs(family, timeout=within)
    return [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


def interrupted(sweep, number):
    """Send a signal to a sweep and return how it ended, in the form of `filled`.

    Ctrl-C reaches all processes of a terminal, another signal the one that it is sent to.
    """
    family = sweep.family()
    send = os.killpg if number == signal.SIGINT else os.kill
    send(sweep.process.pid, number)
    status, _, err = sweep.end()
    assert gone(family) == []
    return status, err


def filled(sweep):
    """Let a sweep's file grow by 20 bytes and no more; return exit status and errors."""
    most = sweep.file.stat().st_size + 20
    psutil.Process(sweep.process.pid).rlimit(psutil.RLIMIT_FSIZE, (most, most))
    status, _, err = sweep.end()
    return status, err


def cut_off(err, reason):
    """Return whether a sweep said in one sentence why it ended, and how to go on."""
    said = f"dputils.sweep: {reason}; no table was written. {GONE}"
    return "Traceback" not in err and last(err) == said


def kept(sweep, done):
    """Return the lines of a sweep that was cut off: those before it, more, and no table."""
    assert not (sweep.out / "97-slow.csv").exists()
    lines = sweep.lines()
    assert lines[: len(done)] == done and len(lines) > len(done)
    return lines
