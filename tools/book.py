"""Execute the notebooks in place: `python -m tools.book [NAME ...]`, called by `make book`.

Two at a time, the longest first, one line each. A NAME is a file, a stem or the beginning of one (`03`). A notebook
that fails is left as it was, the others go on, and the exit status is 1. `--check` writes nothing and fails when a
fresh run differs.
"""
import argparse
import base64
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import nbformat

from tools import normalise, setup

COVER = "04-laplace-mechanism"  # its first figure stands in the README
SECONDS = setup.VENV / "seconds.json"  # how long each notebook took here; never committed
CELL_TIMEOUT = 300  # a cell that takes longer hangs
KERNEL = ["--log-level=40", "--HistoryManager.hist_file=:memory:"]  # no warnings on the terminal, no shared file


def execute(path):
    """Run one notebook from top to bottom in a fresh kernel and return `(text, problem)`; one of the two is None."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    nb = nbformat.read(path, as_version=4)
    client = NotebookClient(nb, timeout=CELL_TIMEOUT, kernel_name="python3", record_timing=False,
                            extra_arguments=KERNEL, resources={"metadata": {"path": str(path.parent)}})
    try:
        client.execute()
    except CellExecutionError as error:
        return None, f"{_last_executed(nb)}: {error.ename}: {error.evalue}"
    except CellTimeoutError:
        return None, f"{_last_executed(nb)}: no answer within {CELL_TIMEOUT} s"
    except DeadKernelError:
        return None, f"{_last_executed(nb)}: the kernel died"
    return normalise.text(normalise.normalise(nb, path.stem)), None


def _last_executed(nb):
    """Return the place and first line of the code cell that ran last."""
    ran = [(i, cell) for i, cell in enumerate(nb.cells, 1) if cell.cell_type == "code" and _ran(cell)]
    return f"cell {ran[-1][0]} ({ran[-1][1].source.splitlines()[0][:60]})" if ran else "before the first cell"


def _ran(cell):
    return cell.execution_count is not None or any(output.output_type == "error" for output in cell.outputs)


def run(path, check):
    """Execute, compare, and write unless `check`; return `(path, changed, problem, seconds)`."""
    start = time.monotonic()
    before = path.read_bytes()
    fresh, problem = execute(path)
    changed = problem is None and fresh.encode() != before
    if changed and not check:
        partial = path.with_suffix(".partial")
        partial.write_bytes(fresh.encode())
        os.replace(partial, path)
    return path, changed, problem, time.monotonic() - start


def select(names, folder):
    """Return the notebooks that the names mean, all without a name."""
    every = sorted(folder.glob("*.ipynb"))
    chosen = {name: [p for p in every if p.stem.startswith(Path(name).name.removesuffix(".ipynb"))] for name in names}
    for name, found in chosen.items():
        if not found:
            sys.exit(f"no notebook {name!r}; there are: {', '.join(p.stem for p in every) or 'none'}")
    return sorted({path for found in chosen.values() for path in found}) if names else every


def longest_first(paths):
    """Sort by the seconds taken here the last time, and by size where a notebook has not been timed."""
    known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    return sorted(paths, key=lambda p: (known.get(p.stem, float("inf")), p.stat().st_size), reverse=True)


def remember(seconds):
    """Add the seconds of this run to what is known, where there is an environment to keep them in."""
    if SECONDS.parent.is_dir():
        known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
        SECONDS.write_text(json.dumps({**known, **seconds}))


def report(changed, folder, check):
    """Say which files changed, and how the folder stands against the last commit where git can tell."""
    verb = "would change" if check else "changed"
    print(f"{verb}: {', '.join(sorted(changed))}" if changed else "nothing changed", flush=True)
    git = ["git", "-C", str(folder), "--no-pager"]
    if changed and not check and setup.runs(*git, "rev-parse", "HEAD"):
        subprocess.run([*git, "diff", "--stat", "--", "."])


def first_picture(path):
    """Return the first stored figure of a notebook as PNG bytes."""
    nb = nbformat.read(path, as_version=4)
    return next(base64.b64decode(output.data["image/png"]) for cell in nb.cells for output in cell.get("outputs", [])
                if "image/png" in output.get("data", {}))


def main(arguments=None):
    """Execute the chosen notebooks and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.book", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="file, stem, or the beginning of one; all without")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a fresh run differs")
    parser.add_argument("--folder", type=Path, default=setup.ROOT / "notebooks", help=argparse.SUPPRESS)
    parser.add_argument("-j", "--jobs", type=int, default=2, help="notebooks at a time (2)")
    options = parser.parse_args(arguments)
    paths = longest_first(select(options.names, options.folder))
    start, changed, failed, seconds = time.monotonic(), [], [], {}
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run, path, options.check) for path in paths]
        for done, job in enumerate(as_completed(jobs), 1):
            path, different, problem, took = job.result()
            seconds[path.stem] = round(took, 1)
            state = f"FAILED: {problem}" if problem else "changed" if different else "unchanged"
            print(f"[{done:2}/{len(paths)}] {path.stem:32} {took:5.1f} s  {state}", flush=True)
            changed += [path.stem] * different
            failed += [path.stem] * bool(problem)
    total, plural = time.monotonic() - start, "s" * (len(paths) != 1)
    print(f"{len(paths)} notebook{plural} in {total:.1f} s, {len(failed)} failed", flush=True)
    remember(seconds)
    if COVER in changed and not options.check and options.folder.parent == setup.ROOT:
        (setup.ROOT / ".github" / "picture.png").write_bytes(first_picture(options.folder / f"{COVER}.ipynb"))
    report(changed, options.folder, options.check)
    return 1 if failed or (options.check and changed) else 0


if __name__ == "__main__":
    sys.exit(main())
