"""Histograms: a whole release from ten million rows beside what cannot be left out, and the time of
consistency per node.

Target: a release takes at most 1.5 times the processor time of `numpy.bincount`, which neither
bounds nor reads the records, together with the noise of the bins. Beside floats stands
`numpy.histogram`, which gives no place to what lies out of bounds. Linear: consistency at 2^12 and
at 2^20 bins.
"""

from time import process_time as clock

import numpy as np

from dputils import histograms, noise
from tests.bench import medians

ROWS, BINS = 10_000_000, 100


def releases(rng):
    """Yield a release of 100 bins, from the operating system's bits, for each type of the rows."""
    made = histograms.mechanism(np.arange(BINS), "add-remove", 1.0)
    rows = rng.integers(0, BINS, ROWS)

    def with_noise(count):
        return count + noise.discrete_laplace(1, BINS, rng=noise.SYSTEM)

    for dtype in (np.int64, np.int32, np.uint8, np.float64):
        values = rows.astype(dtype)
        plain = {
            "bincount and noise": lambda v=values: with_noise(np.bincount(v, minlength=BINS)),
            "histogram and noise": lambda v=values: with_noise(np.histogram(v, BINS, (0, BINS))[0]),
        }
        peer = "histogram and noise" if dtype is np.float64 else "bincount and noise"
        jobs = {"release": lambda v=values: made(v, rng=noise.SYSTEM), peer: plain[peer]}
        seconds = medians(jobs, 9, clock)
        job = f"release of 1e7 rows, {np.dtype(dtype).name}"
        yield job, seconds["release"], peer, seconds[peer]


def trees(rng):
    """Yield consistency per node, two sizes and two branchings."""
    for branching in (2, 16):
        for n in (1 << 12, 1 << 20):
            nodes = histograms.node_counts(rng.integers(0, 100, n), branching)
            jobs = {"fit": lambda y=nodes, n=n, b=branching: histograms.consistent(y, n, b)}
            seconds = medians(jobs, 7, clock)["fit"]
            yield f"consistent, {n} bins, branching {branching}, a node", seconds / nodes.size


def main():
    """Yield seconds of a release, and per node of a tree."""
    rng = np.random.default_rng(1)
    yield from releases(rng)
    yield from trees(rng)
