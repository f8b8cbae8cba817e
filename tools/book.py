"""Execute the notebooks in place: `python -m tools.book [NAME ...]`, called by `make book`.

Two at a time, the longest first, one line each; last those that show what the others hold. A NAME
is a file, a stem or the beginning of one (`03`). A notebook that fails is left as it was, the
others go on, and the exit status is 1. `--check` writes nothing and fails when a fresh run differs.
Ctrl-C or a TERM stops at once: no kernel is left, and a notebook is whole, as it was or as it is
new.
"""

import argparse
import base64
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from dputils.book import kernels
from tools import setup, times

READERS = (
    "93-errata-of-the-sources",
    "reference-bibliography",
    "reference-index",
    "reference-map",
)  # show what the other notebooks hold, so they are executed when those are stored
COVER = "00-start-here"  # its first figure stands in the README
CELL_TIMEOUT = 300  # a cell that takes longer hangs
WORTH_FORKING = 3  # notebooks; the imports of one or two are done sooner by themselves
KERNEL = [
    "--log-level=40",
    "--HistoryManager.hist_file=:memory:",
]  # no warnings on the terminal, no shared file


def execute(path, parent=None, folder=None):
    """Run one notebook from top to bottom in a fresh kernel and return `(text, problem)`; one of
    the two is None.

    If the kernel is forked from a warm `parent`, the processor time that it took is remembered. The
    file that says how to reach it lies in `folder`, if one is given.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    from tools import normalise

    nb, begun = nbformat.read(path, as_version=4), []
    client = NotebookClient(
        nb,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        on_cell_execute=lambda cell, cell_index: begun.append(cell_index),
        extra_arguments=KERNEL,
        resources={"metadata": {"path": str(path.parent)}},
    )
    manager = client.create_kernel_manager()
    if folder:
        manager.connection_file = str(Path(folder) / f"{path.stem}.json")
    try:
        client.execute(cleanup_kc=True)
    except CellExecutionError as error:
        return None, f"{place(nb, begun)}: {error.ename}: {error.evalue}"
    except CellTimeoutError:
        return None, f"{place(nb, begun)}: no answer within {CELL_TIMEOUT} s"
    except DeadKernelError:
        return None, f"{place(nb, begun)}: the kernel died"
    if parent and (seconds := parent.seconds.get(manager.provisioner.pid)):
        times.remember(path.stem, "stored", seconds)
    return normalise.text(normalise.normalise(nb, path.stem)), None


def place(nb, begun):
    """Return the number and first line of the cell that was begun last, by the indices of those
    that were begun.
    """
    if not begun:
        return "before the first cell"
    return f"cell {begun[-1] + 1} ({nb.cells[begun[-1]].source.splitlines()[0][:60]})"


def run(path, check, parent=None, folder=None):
    """Execute, compare, and write unless `check`; return `(path, changed, problem, seconds)`."""
    start = time.monotonic()
    before = path.read_bytes()
    fresh, problem = execute(path, parent, folder)
    changed = problem is None and fresh.encode() != before
    if changed and not check:
        partial = path.with_suffix(".partial")
        partial.write_bytes(fresh.encode())
        os.replace(partial, path)
    return path, changed, problem, time.monotonic() - start


def select(names, folder):
    """Return the notebooks that the names mean, all without a name."""
    every = sorted(folder.glob("*.ipynb"))
    chosen = {
        name: [p for p in every if p.stem.startswith(Path(name).name.removesuffix(".ipynb"))]
        for name in names
    }
    for name, found in chosen.items():
        if not found:
            sys.exit(
                f"no notebook {name!r}; there are: {', '.join(p.stem for p in every) or 'none'}"
            )
    return sorted({path for found in chosen.values() for path in found}) if names else every


def longest_first(paths):
    """Sort by the seconds that the last run took here, and by size where a notebook has not been
    timed.
    """
    known = times.seconds("stored")
    return sorted(
        paths, key=lambda p: (known.get(p.stem, float("inf")), p.stat().st_size), reverse=True
    )


def tell(changed, folder, check):
    """Say which files changed, and how the folder stands against the last commit where git can
    tell.
    """
    verb = "would change" if check else "changed"
    print(f"{verb}: {', '.join(sorted(changed))}" if changed else "nothing changed", flush=True)
    git = ["git", "-C", str(folder), "--no-pager"]
    if changed and not check and setup.runs(*git, "rev-parse", "HEAD"):
        subprocess.run([*git, "diff", "--stat", "--", "."])


def first_picture(path):
    """Return the first stored figure of a notebook as PNG bytes."""
    import nbformat

    nb = nbformat.read(path, as_version=4)
    return next(
        base64.b64decode(output.data["image/png"])
        for cell in nb.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    )


def execute_all(paths, check, jobs):
    """Run notebooks, some at a time, with a line for each; return the names of those that changed
    and that failed.
    """
    changed, failed, done, pool = [], [], count(1), ThreadPoolExecutor(jobs)
    with (
        kernels.forked() if len(paths) >= WORTH_FORKING else kernels.use(None) as parent,
        TemporaryDirectory() as folder,
    ):
        for group in readers_last(paths):
            running = [pool.submit(run, path, check, parent, folder) for path in group]
            try:
                for job in as_completed(running):
                    path, different, problem, took = job.result()
                    state = "changed" if different else "unchanged"
                    state = f"FAILED: {problem}" if problem else state
                    place = f"[{next(done):2}/{len(paths)}]"
                    print(f"{place} {path.stem:32} {took:5.1f} s  {state}", flush=True)
                    changed += [path.stem] * different
                    failed += [path.stem] * bool(problem)
            except KeyboardInterrupt:
                abandon(pool, running, parent, folder)
    return changed, failed


def readers_last(paths):
    """Return two groups of paths in their order: the others, and those that read the others."""
    return (
        [path for path in paths if path.stem not in READERS],
        [path for path in paths if path.stem in READERS],
    )


def abandon(pool, running, parent, folder):
    """Kill the kernels and leave this process, without waiting for what its threads still do."""
    import psutil

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    print("interrupted: what was not finished is as it was", flush=True)
    # The clients complain about dead kernels.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    pool.shutdown(wait=False, cancel_futures=True)
    if parent:
        parent.close()
    while family := psutil.Process().children(
        recursive=True
    ):  # again, in case a thread has just started one
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=0.5)
    for process in psutil.Process().children(recursive=True):
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(128 + signal.SIGINT)


def main(arguments=None):
    """Execute the chosen notebooks and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.book", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="file, stem, or the beginning of one; all without"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail when a fresh run differs"
    )
    parser.add_argument(
        "--folder", type=Path, default=setup.ROOT / "notebooks", help=argparse.SUPPRESS
    )
    parser.add_argument("-j", "--jobs", type=int, default=2, help="notebooks at a time (2)")
    options = parser.parse_args(arguments)
    paths = longest_first(select(options.names, options.folder))
    start = time.monotonic()
    changed, failed = execute_all(paths, options.check, options.jobs)
    plural, took = "s" * (len(paths) != 1), time.monotonic() - start
    print(f"{len(paths)} notebook{plural} in {took:.1f} s, {len(failed)} failed", flush=True)
    if COVER in changed and not options.check and options.folder.parent == setup.ROOT:
        (setup.ROOT / ".github" / "picture.png").write_bytes(
            first_picture(options.folder / f"{COVER}.ipynb")
        )
    tell(changed, options.folder, options.check)
    return 1 if failed or (options.check and changed) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
