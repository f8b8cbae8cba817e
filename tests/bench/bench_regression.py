"""Linear regression from sums of products: a whole release beside the product alone.

Target at a million rows of 50 columns: at most 1.3 times the time of `X.T @ X`, and a tenth of that
of `numpy.linalg.lstsq`. Reached on one core: 1.1 times, and a seventeenth. Rows out of bounds are
shortened: a release where half of them are stands beside it, and takes 1.4 times.
"""

from functools import partial
from time import perf_counter as clock

import numpy as np

from dputils import noise, regression
from tests.bench import medians

ROWS, COLUMNS = 1_000_000, 50


def main():
    """Yield seconds of a release, and of what it is compared with."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS, COLUMNS)) / COLUMNS**0.5  # rows of length 1, give or take 0.1
    y = rng.normal(size=ROWS)
    jobs = {"X.T @ X": partial(np.matmul, X.T, X)}
    for name, norm in (("", 2.0), (", half of the rows too long", 1.0)):
        bounds = regression.Bounds(COLUMNS, norm, 5.0)
        for make in (regression.ssp_mechanism, regression.adassp_mechanism):
            made = make(bounds, "add-remove", 1.0, 1e-6)
            jobs[made.name.partition(",")[0] + name] = partial(made, (X, y), rng=noise.SYSTEM)
    seconds = medians(jobs, 9, clock)
    jobs = {"lstsq": partial(np.linalg.lstsq, X, y, rcond=None)}
    seconds |= medians(jobs, 3, clock)
    for name in list(seconds)[1:-1]:
        for peer in ("X.T @ X", "lstsq"):
            yield f"{name}, {ROWS} x {COLUMNS}", seconds[name], peer, seconds[peer]
