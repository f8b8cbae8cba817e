"""Run tests on a tree, in a fork of a warm process."""

import importlib
import multiprocessing
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600  # a change that makes its tests hang is noticed too
OWN = ("dputils", "tests", "tools")  # what each tree imports for itself
WARM = "numpy scipy.stats scipy.integrate scipy.optimize mpmath pandas pytest hypothesis nbformat"
ENDED = 100  # added to pytest's status: a process that dies of something else is no test that fails
SERVER = multiprocessing.get_context("forkserver")


def warm():
    """Let the server of forks import once what all tests import."""
    SERVER.set_forkserver_preload(WARM.split())


def run(tests, root):
    """Run pytest on some tests of a tree, in a fork of a process that has imported what all tests
    import; return its exit status, 1 when it hangs.
    """
    with TemporaryDirectory(prefix="mutant-said-") as folder:
        said = Path(folder) / "said.txt"
        process = SERVER.Process(target=run_here, args=(tests, str(root), said))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.terminate()
            process.join()
            return 1
        status = process.exitcode - ENDED
        if status not in (0, 1, 2):  # 2: a file that cannot be imported
            output = said.read_text(errors="replace")[-2000:] if said.exists() else ""
            raise RuntimeError(f"pytest ended with {status} on {' '.join(tests)}:\n{output}")
        return status


def run_here(tests, root, said):
    """Run pytest in this process on the tree `root`, and end the process with its status."""
    with said.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(root)
    os.environ |= {"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [root, *(path for path in sys.path if path not in ("", str(ROOT)))]
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]
    importlib.invalidate_caches()
    status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
    sys.stdout.flush()
    os._exit(ENDED + int(status))
