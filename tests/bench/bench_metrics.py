"""Metrics: processor time of the exact scale of a query beside a comparison of all pairs in numpy.

Places are uniform in a square of side 100. Queries: independent random numbers, a disc of 0 and 1,
a smooth bump, alone and with noise, one coordinate, and the distance to a point, in which every
place has others to which it is nearly as steep as can be. Targets in the Euclidean metric: with
10,000 places at least 300 times faster than numpy for random queries, 30 times for the distance,
and the same number to the last digit; with a million places less than a fifth of a second for
random, disc and noisy queries. The tree, which is made once for a metric, is timed by itself. The
comparison in numpy takes each pair once, in blocks that stay in the cache.
"""

from time import process_time as clock

import numpy as np

from dputils import metrics
from tests.bench import medians

SIDE, RADIUS = 100, 20


def queries(x, rng):
    """Return queries by name."""
    away = np.hypot(x[:, 0] - 40.3, x[:, 1] - 50.2)
    bump = np.exp(-((away / 30) ** 2))
    return {
        "random": rng.random(len(x)),
        "disc": (away <= RADIUS).astype(float),
        "bump with noise": bump + 0.1 * rng.random(len(x)),
        "bump": bump,
        "coordinate": x[:, 0].copy(),
        "distance": away,
    }


def all_pairs(query, x, form, rows=128):
    """Return the largest quotient over all pairs."""
    (u, v), (floor, rate, reach), best = x.T.copy(), form, 0.0
    for i in range(0, len(query), rows):
        dx, dy = u[i : i + rows, None] - u[i:], v[i : i + rows, None] - v[i:]
        moved = np.abs(query[i : i + rows, None] - query[i:])
        d = np.sqrt(dx * dx + dy * dy)
        g = np.maximum(floor, rate * d)
        moved[(d > reach) | (moved == 0)] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            best = max(best, np.nanmax(moved / g))
    return best


def against_all_pairs(rng):
    """Yield times at 10,000 places, and refuse another number than that of all pairs."""
    x = SIDE * rng.random((10**4, 2))
    made = {
        "Euclidean": metrics.euclidean(x, 1),
        "Blowfish": metrics.blowfish(x, RADIUS, 1),
        "Smooth": metrics.smooth(x, RADIUS, 1),
    }
    for kind, d in made.items():
        form = d.steepest.keywords["form"]
        for name, q in queries(x, rng).items():
            assert metrics.scale(q, d) == all_pairs(q, x, form) * (1 + 2.0**-40), (kind, name)
            jobs = {"scale": lambda: metrics.scale(q, d), "all": lambda: all_pairs(q, x, form)}
            seconds = medians(jobs, 3, clock)
            yield f"{kind}, 1e+04, {name}", seconds["scale"], "numpy, all pairs", seconds["all"]


def large(rng):
    """Yield times at a million places, beside one pass that reads the query in the tree's order."""
    x = SIDE * rng.random((10**6, 2))
    yield "tree, 1e+06", medians({"tree": lambda: metrics._tree(x)}, 3, clock)["tree"]
    made = {
        "Euclidean": metrics.euclidean(x, 1),
        "Blowfish": metrics.blowfish(x, RADIUS, 1),
        "Smooth": metrics.smooth(x, RADIUS, 1),
    }
    for kind, d in made.items():
        order = d.steepest.keywords["tree"]().order
        for name, q in queries(x, rng).items():
            if name in ("coordinate", "distance"):
                continue
            jobs = {"scale": lambda: metrics.scale(q, d), "read": lambda: np.ptp(q[order])}
            seconds = medians(jobs, 3, clock)
            yield f"{kind}, 1e+06, {name}", seconds["scale"], "one pass", seconds["read"]


def main():
    """Yield seconds of scales."""
    rng = np.random.default_rng(1)
    yield from against_all_pairs(rng)
    yield from large(rng)
