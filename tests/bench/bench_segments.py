"""Segments: processor time of the penalised fit beside the compiled `KernelCPD` of ruptures.

Many segments: Laplace noise and the penalty of twice its variance. Few: the same noise around a
constant and a penalty 25 times as large, where dropping dominated starts alone would be quadratic.
Target: never slower than `KernelCPD` from 10^3 to 10^6 values. Linear: the time of 10^6 values is
about ten times that of 10^5. A ramp, on which hardly a start can be dropped, is quadratic. Beside
them the two running sums that no fit can leave out, and k segments of sorted values and of values
in any order.
"""

from time import process_time as clock

import numpy as np
import ruptures

from dputils import segments
from tests.bench import medians

SIGMA2 = 2.0
PENALTIES = {"many segments": 2 * SIGMA2, "few segments": 50 * SIGMA2}


def penalised(rng):
    """Yield the time of penalised fits; the peer is left out where it is quadratic."""
    for n in (10**3, 10**4, 10**5, 10**6):
        y = rng.laplace(0, 1, n)
        for name, penalty in PENALTIES.items():
            jobs = {"fit": lambda y=y, p=penalty: segments.penalised(y, p)}
            if name == "many segments" or n <= 10**4:
                jobs["KernelCPD"] = lambda y=y, p=penalty: kernel_cpd(y, p)
            jobs["running sums"] = lambda y=y: (np.cumsum(y), np.cumsum(y * y))
            seconds = medians(jobs, 5, clock)
            peer = "KernelCPD" if "KernelCPD" in jobs else "running sums"
            yield f"penalised, {n:.0e} values, {name}", seconds["fit"], peer, seconds[peer]


def trend():
    """Yield the time of the worst case: a long trend and a penalty of 1 % of its whole cost."""
    for n in (10**3, 10**4):
        y = np.arange(n)
        jobs = {"fit": lambda y=y, n=n: segments.penalised(y, 0.01 * n * np.var(y))}
        yield f"penalised, {n:.0e} values, a ramp", medians(jobs, 3, clock)["fit"]


def kernel_cpd(y, penalty):
    """Return the ends of the segments that ruptures finds."""
    return ruptures.KernelCPD(kernel="linear", min_size=1).fit(y).predict(pen=penalty)


def fixed(rng):
    """Yield the time of k segments; 410 of 4096 is what StructureFirst asks of its first step, for
    which the program of its authors was recorded to take 6.6 s.
    """
    for n, k, name in ((10**5, 10, "sorted"), (4096, 10, "any order"), (4096, 410, "any order")):
        y = rng.normal(size=n)
        y = np.sort(y) if name == "sorted" else y
        jobs = {"fit": lambda y=y, k=k: segments.least_squares(y, k)}
        yield f"{k} segments of {n} values, {name}", medians(jobs, 3, clock)["fit"]


def main():
    """Yield seconds of both kinds of fit."""
    rng = np.random.default_rng(1)
    yield from penalised(rng)
    yield from trend()
    yield from fixed(rng)
