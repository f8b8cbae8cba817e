"""Forked kernels: they are those of a fresh start but for the time they take, and none outlives who
asked for it.
"""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from dputils.book import kernels, run
from tools import book, setup

PROBE = """import os, sys, threading
import numpy as np, pandas as pd
from dputils.book import chapter, plots
print(__name__, sys.argv[0], os.getcwd(), sys.path)
print([name in sys.modules for name in ("tools", "matplotlib_inline.backend_inline")])
settings = sorted((name, value) for name, value in os.environ.items() if name != "JPY_PARENT_PID")
print([name for name, _ in settings], hash(str(settings)))
print(hash("a string"), sorted(thread.name.split("-")[0] for thread in threading.enumerate()))
print(os.getpid() == os.getpgrp() == os.getsid(0), sys.stdin.closed)"""
OWN = "import numpy as np\nprint(np.random.random(), os.getpid())"
SLEEP = "import subprocess, time\nsubprocess.Popen(['sleep', '300'])\ntime.sleep(300)"


@pytest.fixture
def settings(monkeypatch):
    """The environment in which kernels can be forked."""
    for name, value in run.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def parent(settings, warm):
    """The warm parent of these tests, not yet in use."""
    if warm is None:
        pytest.skip("kernels are not forked on this platform")
    return warm


def write(folder, names, *sources):
    """Write notebooks with these code cells, and return their paths."""
    for name in names:
        nbformat.write(
            new_notebook(cells=[new_code_cell(source) for source in sources]),
            folder / f"{name}.ipynb",
        )
    return [folder / f"{name}.ipynb" for name in names]


def texts(path, parent=None):
    """Execute a notebook and return what its cells print."""
    with kernels.use(None):
        text, problem = book.execute(path, parent)
    assert problem is None, problem
    return [
        "".join(output.text for output in cell.outputs)
        for cell in nbformat.reads(text, as_version=4).cells
    ]


def test_a_forked_kernel_is_a_fresh_one(parent, tmp_path):
    (path,) = write(tmp_path, ["01-probe"], PROBE, OWN)
    ordinary, known = texts(path), set(parent.seconds)
    with kernels.use(parent):
        first, second = texts(path, parent), texts(path, parent)
    taken = [seconds for number, seconds in parent.seconds.items() if number not in known]
    assert len(taken) == 2 and all(0.05 < seconds < 20 for seconds in taken)
    assert first[0] == second[0] == ordinary[0]
    assert (
        len({first[1], second[1], ordinary[1]}) == 3
    )  # numbers from nowhere stay numbers from nowhere


def test_the_parent_has_one_thread_and_its_kernels_are_its_children(parent, tmp_path):
    (path,) = write(tmp_path, ["01-a"], "import os\nprint(os.getppid())")
    with kernels.use(parent):
        assert texts(path) == [f"{parent.process.pid}\n"]
        assert psutil.Process(parent.process.pid).num_threads() == 1
        assert (
            parent.ask("poll", 1) == [-signal.SIGKILL, None] and parent.ask("signal", 1, 0) is False
        )
    assert texts(path) == [f"{os.getpid()}\n"]


def test_what_a_fork_cannot_be_starts_in_the_ordinary_way(parent, tmp_path, monkeypatch):
    (path,) = write(tmp_path, ["01-a"], "import os\nprint(hash('a'), os.getppid())")
    with kernels.use(parent):
        monkeypatch.setenv("PYTHONHASHSEED", "7")
        other = texts(path)[0].split()
        monkeypatch.setenv("PYTHONHASHSEED", "0")
        forked = texts(path)[0].split()
        command = [sys.executable, "-m", "ipykernel_launcher"]
        assert kernels.serves(parent, command, os.environ)
        assert not kernels.serves(parent, ["/usr/bin/other", *command[1:]], os.environ)
        assert not kernels.serves(parent, [*command[:2], "another_kernel"], os.environ)
    assert other[0] != forked[0] and other[1] == str(os.getpid()) != forked[1]
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with kernels.forked() as none:
        assert none is None


def test_a_kernel_that_dies_is_noticed(parent, tmp_path):
    (path,) = write(tmp_path, ["01-dies"], "import os\nos._exit(3)")
    with kernels.use(parent):
        assert book.execute(path, parent) == (None, "cell 1 (import os): the kernel died")


def alive(processes):
    """Return those of the processes that still run; one that nobody has waited for yet does not."""
    return [
        process
        for process in processes
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def started(folder, *arguments):
    """Start tools.book on a folder as make does, and return it and all its processes when a cell
    sleeps.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.book", "--folder", folder, *arguments],
        cwd=setup.ROOT,
        env={**environment, **run.ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 90
    while time.monotonic() < end:
        family = psutil.Process(process.pid).children(recursive=True)
        if any(child.name() == "sleep" for child in family):
            return SimpleNamespace(process=process, family=family)
        time.sleep(0.05)
    process.kill()
    pytest.fail(f"no kernel sleeps: {process.communicate()[0]}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("names", [["01-a"], ["01-a", "02-b", "03-c"]], ids=["ordinary", "forked"])
def test_an_interrupt_stops_at_once_and_leaves_nothing(tmp_path, number, names):
    paths = write(tmp_path, names, SLEEP)
    before = [path.read_bytes() for path in paths]
    work = started(tmp_path)
    start = time.monotonic()
    (os.killpg if number == signal.SIGINT else os.kill)(
        work.process.pid, number
    )  # Ctrl-C reaches the whole group
    said, _ = work.process.communicate(timeout=30)
    assert time.monotonic() - start < 15  # the cell would sleep for 300 seconds
    assert (
        said == "interrupted: what was not finished is as it was\n"
        and work.process.returncode == 130
    )
    assert alive(work.family) == []
    assert [path.read_bytes() for path in paths] == before and len(list(tmp_path.iterdir())) == len(
        paths
    )


def test_little_is_imported_before_an_interrupt_is_caught():
    heavy = "{'nbformat', 'numpy', 'jupyter_client', 'dputils.book.run'}"
    code = f"import sys, tools.book; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=setup.ROOT, capture_output=True, text=True
    )
    assert done.stdout == "set()\n"


def test_forked_kernels_die_with_a_client_that_is_killed(tmp_path):
    write(tmp_path, ["01-a", "02-b", "03-c"], SLEEP)
    work = started(tmp_path)
    work.process.kill()
    work.process.wait()
    gone, left = psutil.wait_procs(work.family, timeout=15)
    assert alive(left) == []


def test_no_kernel_waits_for_a_port_that_another_may_take(parent, tmp_path):
    ask = """import os
from ipykernel.kernelapp import IPKernelApp
print(IPKernelApp.instance().transport, IPKernelApp.instance().ip, os.getppid())"""
    (path,) = write(tmp_path, ["01-asks"], ask)
    for one, starter in ((None, os.getpid()), (parent, parent.process.pid)):
        with kernels.use(one), kernels.use(None):  # the outer block stays in force
            transport, place, started_by = texts(path)[0].split()
        assert (transport, int(started_by)) == ("ipc", starter)
        assert not os.path.exists(os.path.dirname(place))
