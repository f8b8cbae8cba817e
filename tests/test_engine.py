"""Sweeps on real worker processes that are killed, cut off, lost and found again: no finished run
is lost, none is made twice, nothing is left running, and each refusal is one sentence.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from dputils.book import chapter, engine, finished, run

PARAMETERS = """epsilon: float = 1.0  # privacy budget of the chapter, range (0, 20]
seed: int = 1  # seed of all random streams, range [0, 4294967295]"""
OPEN = "from dputils.book import chapter\nchapter.open('97-slow', globals())"
BODY = "import time\ntime.sleep(0.3)\ndraw = int(chapter.stream(seed, 'draw').integers(10**5))"
SCRIPTS = Path(sys.executable).parent
GONE = "The runs that have ended are kept: the same command goes on from there.\n"


@pytest.fixture
def path(tmp_path):
    """A chapter that takes a moment, in a folder of its own."""
    cells = [
        new_code_cell(PARAMETERS, id="p", metadata={"tags": ["parameters"]}),
        new_code_cell(OPEN, id="o"),
        new_code_cell(BODY, id="b"),
        new_code_cell("chapter.results(None, draw=draw)", id="r", metadata={"tags": ["results"]}),
    ]
    path = tmp_path / "97-slow.ipynb"
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


def test_a_sweep_on_this_machine_goes_on_after_ctrl_c_a_kill_and_the_loss_of_a_worker(path):
    done = []
    for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        sweep = Sweep(path, 30, "-j", "1")
        sweep.wait_for(len(done) + 1)
        ended, err = interrupted(sweep, number)
        assert ended == status and (number == signal.SIGKILL or cut_off(err, "interrupted"))
        done = kept(sweep, done)

    count = len(done) + 4
    sweep = Sweep(path, count, "-j", "2")
    sweep.wait_for(len(done) + 1)
    next(filter(engaged, sweep.family())).kill()
    status, out, err = sweep.end()
    assert status == 0 and f"{count} runs, 0 failed" in out and "Traceback" not in err
    assert sweep.lines()[: len(done)] == done
    sweep.check(count)


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


def engaged(process):
    """Return whether a process is a worker with kernels of its own."""
    return "spawn_main" in " ".join(process.cmdline()) and process.children()


# ---- a cluster


class Cluster:
    """A scheduler and a worker, started by Dask's own commands."""

    def __init__(self, folder, port):
        self.address = f"tcp://127.0.0.1:{port}"
        self.folder, self.port, self.processes = folder, port, []

    def start(self, *kinds):
        quiet = ["--no-dashboard"]
        arguments = {
            "scheduler": ["--host", "127.0.0.1", "--port", str(self.port), *quiet],
            "worker": [self.address, "--nthreads", "1", *quiet],
        }
        for kind in kinds:
            process = subprocess.Popen(
                [SCRIPTS / "dask", kind, *arguments[kind]],
                cwd=self.folder,
                env={**os.environ, **run.ENVIRONMENT},
                stderr=subprocess.DEVNULL,
            )
            self.processes.append(process)
        end = time.monotonic() + 60
        while not self.answers():
            assert time.monotonic() < end
            time.sleep(0.1)

    def answers(self):
        """Return whether the scheduler has opened its door."""
        with socket.socket() as door:
            return door.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self):
        for process in self.processes:
            family = [process, *psutil.Process(process.pid).children(recursive=True)]
            for one in family:
                one.kill()
            process.wait()
        self.processes = []


@pytest.fixture
def cluster(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = Cluster(tmp_path, port)
    yield cluster
    cluster.kill()


def test_a_cluster_that_is_not_there_has_no_workers_others_or_is_lost(path, cluster):
    """One story, since each start of a cluster takes seconds."""
    status, _, err = Sweep(path, 2, "--scheduler", cluster.address).end()
    assert status == 2 and f"no scheduler answers at {cluster.address} within 5 s" in last(err)

    cluster.start("scheduler")
    sweep = Sweep(path, 2, "--scheduler", cluster.address)
    status, _, err = sweep.end()
    needed = f"start one by `dask worker {cluster.address} --nthreads 1`"
    assert status == 2 and needed in last(err) and sweep.lines() == []

    cluster.start("worker")
    refused_if_it_has_another_version(path, cluster)
    done = []
    for end, status, reason in (
        (lambda sweep: interrupted(sweep, signal.SIGTERM), 143, "interrupted"),
        (filled, 1, "[Errno 27] File too large"),
    ):
        sweep = Sweep(path, 30, "--scheduler", cluster.address)
        sweep.wait_for(len(done) + 1)
        ended, err = end(sweep)
        assert ended == status and cut_off(err, reason)
        done = kept(sweep, done)

    count = len(done) + 4
    sweep = Sweep(path, count, "--scheduler", cluster.address)
    sweep.wait_for(len(done) + 2)
    cluster.kill()
    done = sweep.lines()
    cluster.start("scheduler", "worker")
    status, out, err = sweep.end()
    assert status == 0 and f"{count} runs, 0 failed" in out and "Traceback" not in err
    assert sweep.lines()[: len(done)] == done
    sweep.check(count)


def refused_if_it_has_another_version(path, cluster):
    origin, lock = finished.origin(path), finished.lock()
    with engine.remote(cluster.address)() as client:
        client.wait_for_workers(1, timeout=60)
        engine.check(client, path, origin, lock)
        for wrong in ({"dputils": "x"}, {"notebook_code": "x", "numpy": "1.0"}):
            with pytest.raises(ValueError) as refused:
                engine.check(client, path, origin | wrong, lock)
            assert f"has another {' and another '.join(wrong)}: it needs" in str(refused.value)
        with pytest.raises(ValueError, match="has another lock"):
            engine.check(client, path, origin, {"lock": "x"})
        with pytest.raises(ValueError, match="cannot run .*: there is no notebook"):
            engine.check(client, path.parent / "elsewhere.ipynb", origin, lock)


def test_a_worker_starts_one_parent_and_remembers_what_it_was_found_to_have(path, monkeypatch):
    started = []
    monkeypatch.setattr(engine, "_checked", set())
    monkeypatch.setattr(engine.kernels, "can_fork", lambda: True)
    monkeypatch.setattr(engine.kernels, "start", lambda: started.append(1) or "parent")
    engine._parent.cache_clear()
    try:
        wanted = engine._version(finished.origin(path))
        facts = engine._facts(str(path), wanted)
        assert facts == finished.origin(path) | finished.lock() and engine._checked == {wanted}
        engine._must_be(wanted, path)
        assert engine._parent() == "parent" and len(started) == 1
        monkeypatch.setattr(engine, "LOADED", "an older one")
        facts = engine._facts(str(path), "another version")
        assert facts["dputils"] == "changed since the worker was started"
        row, notebook = engine.attempt(str(path), {"seed": 1}, 10, False, "another version")
        assert row == {"status": "failed", "error": "the worker has another version of the book"}
        assert notebook is None and engine._checked == {wanted}
    finally:
        engine._parent.cache_clear()


def test_a_run_that_takes_every_worker_with_it_is_a_failed_row_without_addresses():
    with engine.local(1)() as client:
        future = client.submit(os._exit, 1, key=("sweep", "run"))
        row = {"status": "failed", "error": "it has taken 3 workers with it"}
        assert engine._outcome(future) == (row, None)
