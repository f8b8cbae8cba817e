"""Boundaries: processor time of a private choice beside the table of least costs that it starts
from.

Target: choosing 409 boundaries of 4096 bins takes no longer than their table, which segments.py
makes in about 0.1 s and the program of StructureFirst's authors was recorded to take 6.6 s for. At
the largest budgets nearly every candidate lies far below the best and owes many flips.
"""

from time import process_time as clock

import numpy as np

from dputils import boundaries, segments
from tests.bench import medians


def main():
    """Yield seconds of a choice, the table included, beside those of the table; and at once."""
    rng = np.random.default_rng(1)
    x = np.abs(rng.normal(0, 30, 4096)).astype(np.int64)
    column = np.repeat(np.arange(x.size), x)
    for epsilon in (0.1, 1, 100):
        made = boundaries.one_by_one(np.arange(x.size), 410, 100, "add-remove", epsilon)
        read = made.read(column)
        jobs = {
            "draw": lambda made=made, read=read: made.draw(read, rng=rng),
            "table": lambda read=read: segments.tables(read, 409),
        }
        seconds = medians(jobs, 5, clock)
        name = f"410 of 4096 bins, epsilon {epsilon}"
        yield name, seconds["draw"], "the table alone", seconds["table"]
    for n, k in ((256, 16), (1024, 16)):
        made = boundaries.at_once(np.arange(n), k, 100, "add-remove", 1)
        read = made.read(column)
        jobs = {"draw": lambda made=made, read=read: made.draw(read, rng=rng)}
        yield f"at once, {k} of {n} bins", medians(jobs, 5, clock)["draw"]
