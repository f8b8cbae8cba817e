"""Sweeps: a short rerun beside plain papermill with as many workers, and what the sweep itself adds
to a point. The latter is also written to `build/bench/sweep_growth.csv`; the gallery of the site
draws the copy in `data/results`.

Targets: short reruns at least 2.5 times faster than plain papermill (a ratio of 0.4); what the
sweep adds, without any kernel, the same for 10 points and for 10,000. Start-up of the workers is
not counted.
"""

import contextlib
import logging
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pandas as pd
from nbformat.v4 import new_code_cell, new_notebook

from dputils.book import engine, run, sweep
from tools import setup

WORKERS, ROUNDS, SHORT = 2, 3, 10  # rounds of short reruns, in turns with papermill
SIZES = {10: 5, 100: 5, 1000: 3, 10_000: 1}  # points of a grid -> how often it is measured
GROWTH = setup.ROOT / "build" / "bench" / "sweep_growth.csv"
CELLS = {
    "parameters": "seed: int = 1  # seed of all random streams, range [0, 4294967295]",
    "open": "from dputils.book import chapter\nchapter.open('97-empty', globals())",
    "results": "chapter.results(None, twice=2 * seed)",
}


def chapter_with_an_empty_body(folder):
    """Write a notebook that does nothing but open and close, and return its path."""
    cells = [
        new_code_cell(source, id=name, metadata={"tags": [name]}) for name, source in CELLS.items()
    ]
    path = Path(folder) / "97-empty.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def plain(path, seed):
    """Run one point as papermill does by itself."""
    import papermill

    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    papermill.execute_notebook(
        path,
        None,
        parameters={"seed": seed},
        kernel_name="python3",
        language="python",
        progress_bar=False,
    )


def no_kernel(path, point, *_):
    """Stand in for `engine.attempt`: the row of a run that took no time."""
    return {"status": "ok", "error": "", "twice": 2 * point["seed"]}, None


def without_kernels():
    """Let this worker's runs take no time."""
    engine.attempt = no_kernel


def taken(job):
    """Return the seconds that a job takes."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def growth(ours, n, times):
    """Return the seconds that a sweep of n points adds to each, the median of some sweeps."""
    starts = [10**5 * n + n * i for i in range(times)]  # no seed twice
    return statistics.median(taken(lambda: ours(range(at, at + n))) / n for at in starts)


def keep(added):
    """Write what was measured as a table."""
    GROWTH.parent.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(
        {"points": added.keys(), "milliseconds": [1e3 * s for s in added.values()]}
    )
    table.round(2).to_csv(GROWTH, index=False)


def main():
    """Yield rows of the table."""
    with (
        TemporaryDirectory() as folder,
        run.environment(),
        engine.local(WORKERS)() as client,
        ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool,
    ):
        path = chapter_with_an_empty_body(folder)

        def ours(seeds):
            sweep.rerun(path, {"seed": seeds}, folder, lambda: contextlib.nullcontext(client))

        def theirs(seeds):
            list(pool.map(plain, [path] * len(seeds), seeds))

        for job in (ours, theirs):  # imports, warm parents
            job(range(2 * WORKERS))
        starts = range(100, 100 + ROUNDS * SHORT, SHORT)
        seeds = [range(start, start + SHORT) for start in starts]
        fast, slow = zip(*[(taken(lambda: ours(s)), taken(lambda: theirs(s))) for s in seeds])
        runs = ROUNDS * SHORT
        yield f"a rerun, of {runs}", sum(fast) / runs, "plain papermill", sum(slow) / runs
        client.run(without_kernels)
        engine.attempt, before = no_kernel, engine.attempt
        try:
            added = {n: growth(ours, n, times) for n, times in SIZES.items()}
            for n, seconds in added.items():
                yield f"what the sweep adds to a point, of {n:,}", seconds
            keep(added)
        finally:
            engine.attempt = before
