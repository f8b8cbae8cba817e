"""Apply each change of the list, run the tests that must notice it, print the score: `make mutants
[ARGS="ledger"]`.
"""

import argparse
import base64
import io
import shutil
import sys
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import numpy as np
from PIL import Image

from tests.mutants.trial import run, warm

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("changes.toml")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "__pycache__", ".pytest_cache", "*.egg-info"
)
PICTURE = "image/png"


@dataclass(frozen=True)
class Change:
    """One change: in `file`, the text `before` becomes `after`, or `pixels` of the first stored
    picture of a notebook, in reading order, become darker by `levels`; the pytest arguments `tests`
    must turn red.
    """

    file: str
    tests: tuple
    why: str
    before: str = ""
    after: str = ""
    pixels: int = 0
    levels: int = 0
    every: bool = False  # each place where `before` stands, not the one

    def __post_init__(self):
        if bool(self.before) == bool(self.pixels and self.levels):
            raise ValueError(f"{self.file}: {self.why} must be a text or pixels, got {self}")


def listed(path=LIST):
    """Return the changes of the list; an unknown or missing key raises TypeError."""
    changes = tomllib.loads(path.read_text(encoding="utf-8"))["change"]
    return [Change(**{**change, "tests": tuple(change["tests"])}) for change in changes]


def apply(change, root):
    """Make the change in the tree `root`.

    Raises
    ------
    ValueError
        If the text does not stand in the file exactly once, or the notebook has no picture.
    """
    path = root / change.file
    if change.pixels:
        return _darken(change, path)
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
    for cell in cells:
        cell.source = cell.source.replace(change.before, change.after)
    path.write_text(nbformat.writes(nb).rstrip("\n") + "\n", encoding="utf-8")


def _darken(change, path):
    """Change pixels of the first picture that a notebook stores."""
    nb = nbformat.read(path, as_version=4)
    outputs = [output for cell in nb.cells for output in cell.get("outputs", [])]
    stored = next((o.data for o in outputs if PICTURE in o.get("data", {})), None)
    if stored is None:
        raise ValueError(f"{change.file}: no picture is stored there")
    stored[PICTURE] = darkened(stored[PICTURE], change.pixels, change.levels)
    path.write_text(nbformat.writes(nb).rstrip("\n") + "\n", encoding="utf-8")


def darkened(encoded, pixels, levels):
    """Return a picture, in base64 as a notebook stores it, of which the first `pixels` that can be
    darker by `levels` of 255 are.
    """
    picture = np.array(Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB"))
    flat = picture.reshape(-1, 3)
    bright = np.flatnonzero((flat >= levels).all(axis=1))[:pixels]
    if bright.size < pixels:
        raise ValueError(f"the picture has {bright.size} pixels to darken, not {pixels}")
    flat[bright] -= np.uint8(levels)
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="png")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _replaced(change, text):
    count = text.count(change.before)
    if change.every and count:
        return text.replace(change.before, change.after)
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


def main(arguments=None):
    """Try the changes whose file or reason holds the words given; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="only changes whose file or reason contains one of these"
    )
    parser.add_argument(
        "--trust", action="store_true", help="do not run the tests on the tree as it is first"
    )
    parser.add_argument("-j", "--jobs", type=int, default=2, help="at the same time (2)")
    options = parser.parse_args(arguments)
    changes = [
        c for c in listed() if not options.words or any(w in c.file + c.why for w in options.words)
    ]
    warm()
    if not options.trust and (broken := unchanged_failures(changes, options.jobs)):
        print(f"these tests fail before any change: {'; '.join(broken)}")
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(_tried, changes))
    print(score(changes, results))
    return 0 if all(result == "noticed" for result in results) else 1


def unchanged_failures(changes, jobs):
    """Return the test arguments that fail on the tree as it is: what they would notice means
    nothing. Those of one file run together, if they have no options.
    """
    wanted = {change.tests for change in changes}
    apart = {tests for tests in wanted if any(test.startswith("-") for test in tests)}
    together = {test for tests in wanted - apart for test in tests}
    by_file = groupby(sorted(together), lambda test: test.partition("::")[0])
    groups = [*sorted(apart), *(tuple(tests) for _, tests in by_file)]
    with ThreadPoolExecutor(jobs) as pool:
        statuses = list(pool.map(lambda tests: run(tests, ROOT), groups))
    return [" ".join(tests) for tests, status in zip(groups, statuses) if status != 0]


def _tried(change):
    try:
        result = "noticed" if noticed(change) else "SURVIVED"
    except (ValueError, RuntimeError) as error:
        result = str(error)
    print(f"{result:8}  {change.file}: {change.why}", flush=True)
    return result


def score(changes, results):
    """Return the score as text: by module, noticed of tried."""
    tried = Counter(change.file for change in changes)
    kept = Counter(change.file for change, result in zip(changes, results) if result == "noticed")
    lines = [f"{file:45} {kept[file]:3} of {tried[file]:3}" for file in sorted(tried)]
    return "\n".join([*lines, f"{'all':45} {kept.total():3} of {tried.total():3}"])


if __name__ == "__main__":
    sys.exit(main())
