"""Sweeps on a cluster that is not there, has no workers or others, or is lost: no finished run is
lost, none is made twice, and each refusal is one sentence.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dputils.book import engine, finished, run
from tests.slow_sweeps import Sweep, cut_off, filled, interrupted, kept, last, slow_chapter

SCRIPTS = Path(sys.executable).parent


@pytest.fixture
def path(tmp_path):
    return slow_chapter(tmp_path)


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
def cluster(tmp_path, port):
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
