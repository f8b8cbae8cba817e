"""Apply each change of the list, run the tests that must notice it, print the score: `make mutants
[ARGS="ledger"]`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("changes.toml")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "__pycache__", ".pytest_cache", "*.egg-info"
)
SECONDS = 900  # a change that makes its tests hang is noticed too


@dataclass(frozen=True)
class Change:
    """One change: in `file`, the text `before` becomes `after`; the pytest arguments `tests` must
    turn red.
    """

    file: str
    before: str
    after: str
    tests: tuple
    why: str


def listed(path=LIST):
    """Return the changes of the list; unknown or missing keys raise TypeError."""
    changes = tomllib.loads(path.read_text(encoding="utf-8"))["change"]
    return [Change(**{**change, "tests": tuple(change["tests"])}) for change in changes]


def apply(change, root):
    """Make the change in the tree `root`.

    Raises
    ------
    ValueError
        If the text does not stand in the file exactly once.
    """
    path = root / change.file
    if path.suffix == ".ipynb":
        return _apply_to_notebook(change, path)
    path.write_text(_replaced(change, path.read_text(encoding="utf-8")), encoding="utf-8")


def _apply_to_notebook(change, path):
    """Change the source of one cell, or, if the text is in no source, the file as it is stored."""
    nb = nbformat.read(path, as_version=4)
    cells = [cell for cell in nb.cells if change.before in cell.source]
    if not cells:
        return path.write_text(
            _replaced(change, path.read_text(encoding="utf-8")), encoding="utf-8"
        )
    sources = "\0".join(cell.source for cell in cells)
    _replaced(change, sources)
    cells[0].source = cells[0].source.replace(change.before, change.after)
    path.write_text(nbformat.writes(nb).rstrip("\n") + "\n", encoding="utf-8")


def _replaced(change, text):
    count = text.count(change.before)
    if count != 1:
        raise ValueError(f"{change.file}: {change.before!r} stands there {count} times, not once")
    return text.replace(change.before, change.after)


def noticed(change):
    """Return whether the tests of a change turn red, in a copy of the tree in which it was made."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        root = Path(folder) / "book"
        shutil.copytree(ROOT, root, ignore=LEFT_OUT, symlinks=True)
        apply(change, root)
        return run(change.tests, root) != 0


def run(tests, root):
    """Run pytest on some tests of a tree with this environment; return its exit status, 1 when it
    hangs.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return 1
    if done.returncode not in (0, 1, 2):  # 2: a file that cannot be imported
        raise RuntimeError(
            f"pytest ended with {done.returncode} on {' '.join(tests)}:\n{done.stdout[-2000:]}"
        )
    return done.returncode


def main(arguments=None):
    """Try the changes whose file or reason holds the words given; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="only changes whose file or reason contains one of these"
    )
    parser.add_argument("-j", "--jobs", type=int, default=2, help="at the same time (2)")
    options = parser.parse_args(arguments)
    changes = [
        c for c in listed() if not options.words or any(w in c.file + c.why for w in options.words)
    ]
    if broken := unchanged_failures(changes):
        print(f"these tests fail before any change: {', '.join(broken)}")
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(_tried, changes))
    print(score(changes, results))
    return 0 if all(result == "noticed" for result in results) else 1


def unchanged_failures(changes):
    """Return the test arguments that fail on the tree as it is: what they would notice means
    nothing.
    """
    return [
        " ".join(tests) for tests in sorted({c.tests for c in changes}) if run(tests, ROOT) != 0
    ]


def _tried(change):
    try:
        result = "noticed" if noticed(change) else "SURVIVED"
    except (ValueError, RuntimeError) as error:
        result = str(error)
    print(f"{result:8}  {change.file}: {change.why}", flush=True)
    return result


def score(changes, results):
    """Return the score as text, one line a file: noticed of tried."""
    tried = Counter(change.file for change in changes)
    kept = Counter(change.file for change, result in zip(changes, results) if result == "noticed")
    lines = [f"{file:45} {kept[file]:3} of {tried[file]:3}" for file in sorted(tried)]
    return "\n".join([*lines, f"{'all':45} {kept.total():3} of {tried.total():3}"])


if __name__ == "__main__":
    sys.exit(main())
