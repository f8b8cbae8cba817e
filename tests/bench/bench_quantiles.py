"""Quantiles: processor time of a whole release of a million rows, read, sorted and drawn, beside
numpy's sort of the same rows, interleaved.

Target: nine quantiles in at most three times the sort. Linear: the ratio at 10^5 rows is not much
larger than at 10^6. Beside it one quantile, noisy binary search, and opendp's quantile of a
thousand candidates.
"""

from time import process_time as clock

import numpy as np

from dputils import quantiles
from tests.bench import medians

NINE = [k / 10 for k in range(1, 10)]
RANGE = (-(2**20), 2**20)
SHAPES = {
    "normal": lambda rng, n: rng.normal(0, 1000, n),
    "lognormal": lambda rng, n: rng.lognormal(3, 2, n),
    "sorted": lambda rng, n: np.sort(rng.normal(0, 1000, n)),
    "whole, many ties": lambda rng, n: rng.poisson(10, n).astype(float),
}


def releases(column, grid, epsilon, rng):
    """The jobs on one column, and numpy's sort of it."""
    made = {
        "nine quantiles": quantiles.several(NINE, *RANGE, grid, epsilon),
        "one quantile": quantiles.mechanism(0.5, *RANGE, grid, "add-remove", epsilon),
        "binary search": quantiles.search(0.5, *RANGE, grid, "add-remove", epsilon),
    }
    jobs = {name: lambda make=make: make(column, rng=rng) for name, make in made.items()}
    return {"np.sort": lambda: np.sort(column)} | jobs


def opendp_quantile(column):
    """A job of opendp's quantile, among a thousand candidates."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    candidates = np.linspace(*RANGE, 1000).tolist()
    theirs = dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, 0.5, 1.0)
    return lambda: theirs(column)


def main():
    """Yield seconds of a whole release."""
    rng = np.random.default_rng(1)
    for shape, draw in SHAPES.items():
        jobs = releases(draw(rng, 10**6), 2.0**-7, 1.0, rng)
        seconds = medians(jobs, 9, clock)
        for name in list(jobs)[1:]:
            yield f"{name}, 1e6 {shape}", seconds[name], "np.sort", seconds["np.sort"]
    for n, grid, epsilon in ((10**5, 2.0**-7, 1.0), (10**6, 0.01, 1.0), (10**6, 2.0**-7, 0.01)):
        jobs = releases(rng.normal(0, 1000, n), grid, epsilon, rng)
        seconds = medians(jobs, 9, clock)
        name = f"nine quantiles, {n:.0e}, grid {grid:.3g}, epsilon {epsilon:g}"
        yield name, seconds["nine quantiles"], "np.sort", seconds["np.sort"]
    column = rng.normal(0, 1000, 10**6)
    jobs = {
        "ours": releases(column, 2.0**-7, 1.0, rng)["one quantile"],
        "opendp": opendp_quantile(column),
    }
    seconds = medians(jobs, 3, clock)
    yield "one quantile, 1e6 normal", seconds["ours"], "opendp", seconds["opendp"]
