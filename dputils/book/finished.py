"""The finished runs of a sweep: one line of JSON each, kept while the sweep goes on and after it.

A line says which run it is (`key`: the point and all that it was made from) and what came out. It
is written before the next run is waited for, so whatever ends a sweep, no finished run is lost: the
same command reads the file and runs the rest. A line that was cut off in the middle is dropped. The
file is found again by offsets, so that a million runs need no million records in memory.
"""

import contextlib
import hashlib
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

from dputils.book.parameters import read_notebook

LOCK = ".sweep.lock"
ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def only_one(folder):
    """Hold a results folder; `ValueError` if another sweep holds it.

    The operating system lets go of it however the process ends.
    """
    import filelock

    lock = filelock.FileLock(Path(folder) / LOCK, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise ValueError(f"another sweep is writing into {folder}: wait for it") from None
    try:
        yield
    finally:
        lock.release()


def key(origin, point):
    """Return the name of a run, 16 letters: a hash of all parameters and of what it is made from.

    Parameters
    ----------
    origin : dict
        What every run of the sweep is made from (`origin`).
    point : dict
        All parameters of the chapter, name -> value.
    """
    text = json.dumps([origin, point], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def origin(path):
    """Return what every run of a chapter is made from: hashes and versions, a dict of strings.

    Of the notebook the code cells count (neither prose nor outputs), of `data` all but
    `data/results`: so a chapter can show a table that was made by running it.
    """
    cells = [cell.source for cell in read_notebook(path).cells if cell.cell_type == "code"]
    data = [
        p
        for p in sorted((ROOT / "data").rglob("*"))
        if p.is_file() and "results" not in p.relative_to(ROOT).parts
    ]
    return {
        "notebook_code": _digest((str(i), source.encode()) for i, source in enumerate(cells)),
        "dputils": code(),
        "data": _digest((p.relative_to(ROOT).as_posix(), p.read_bytes()) for p in data),
        "python": "{}.{}".format(*sys.version_info),
        **{package: version(package) for package in ("numpy", "scipy", "pandas")},
    }


def code():
    """Return the hash of `dputils` as it stands on disk."""
    files = sorted((ROOT / "dputils").rglob("*.py"))
    return _digest((p.relative_to(ROOT).as_posix(), p.read_bytes()) for p in files)


def lock():
    """Return the hash of the lock that the environment was made from, in a dict."""
    return {"lock": hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()}


class Runs:
    """The lines of one file, last one first where a run has several.

    Parameters
    ----------
    path : Path
        Made if it is not there. Only one process may hold it (`only_one`).
    """

    def __init__(self, path):
        """Open the file, drop what was cut off at its end, and note where each run stands."""
        self._file = open(path, "a+b")
        self._places = {}
        self._file.seek(0)
        end = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self._note(line, end)
            end += len(line)
        self._file.truncate(end)

    def __enter__(self):
        """Return the runs."""
        return self

    def __exit__(self, *_):
        """Close the file."""
        self._file.close()

    def __contains__(self, run):
        """Whether a run has succeeded; one that has failed is run again."""
        return self._places.get(run, (0, False))[1]

    def add(self, run, row):
        """Write a line; nothing of it stays if it does not fit on the disk (`OSError`)."""
        line = json.dumps({"run": run, **row}).encode() + b"\n"
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line)
            self._file.flush()
        except OSError:
            self._file = _cut(self._file, end)
            raise
        self._note(line, end)

    def row(self, run):
        """Return what came out of a run, None if it has not ended yet."""
        if run not in self._places:
            return None
        self._file.seek(self._places[run][0])
        row = json.loads(self._file.readline())
        del row["run"]
        return row

    def _note(self, line, place):
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a foreign line is no run
            row = json.loads(line)
            self._places[row["run"]] = place, row["status"] == "ok"


def _cut(file, end):
    """Return the file opened anew and cut at `end`; what its buffer holds is thrown away."""
    path = file.name
    with contextlib.suppress(OSError):
        file.close()
    os.truncate(path, end)
    return open(path, "a+b")


def _digest(parts):
    """Return the SHA-256 of named byte strings."""
    total = hashlib.sha256()
    for name, content in parts:
        total.update(f"{name}\n{len(content)}\n".encode() + content)
    return total.hexdigest()
