"""Compare the methods for histograms: writes data/results/histograms_compared.csv.

    DPUTILS_DATA=... python -m tools.histograms_compared

A row for each table, size of the domain, multiple of the counts, epsilon, method and length of the
ranges: the squared error of a range, the mean over all its places, and of that the mean, the 95th
percentile and the standard error of the mean over the seeds: 50, and 20 for AHP on more than 1,024
bins, which takes time. StructureFirst is measured on 256 bins alone. Of the table its records, the
share of its bins that are empty, and `methods.least_cost` as a multiple of n/epsilon. Beside it
`histograms_compared.json` says how it was made. A method that is done on a table is not done again,
unless the file is deleted.
"""

import csv
import json
import math
import platform

import numpy as np

from dputils import boundaries, histograms, methods
from dputils.book import chapter, data

EPSILONS, SEEDS = (0.01, 0.03, 0.1, 0.3, 1), range(50)
SLOW = {"AHP": (1024, range(20)), "StructureFirst": (256, ())}  # on more bins than these: seeds
LENGTHS = [4**j for j in range(7)]
COMMAND = "DPUTILS_DATA=<folder> python -m tools.histograms_compared"
NAMES = ("data", "bins", "records", "times", "empty", "cost", "epsilon", "method", "length")
NAMES += ("mean", "p95", "se")
BENCHMARK = ("HEPTH", "MEDCOST", "INCOME", "PATENT", "MDSALARY", "BIDS-FJ", "LC-REQ-F1")
BENCHMARK += ("LC-DTIR-F2",)
SCALED = {10: (0.1, 0.01), 100: (0.01,)}  # times so many records: epsilons
SCALED_TABLES = (("visits", 256), ("MEDCOST", 256), ("HEPTH", 256), ("LC-DTIR-F2", 256))
FOLDER = data.FOLDER / "results"


def embedded():
    """Return `{name: counts}` of the histograms that need no optional data."""
    of_person = data.load("randhie").groupby("person")
    cities = data.load("cities")
    row = np.clip(np.floor(cities["latitude"]) - 24, 0, 25)
    column = np.clip(np.floor(cities["longitude"]) + 125, 0, 58)
    columns = {
        "ages": (of_person["age"].min(), np.arange(256) / 4),
        "visits": (of_person["visits"].sum(), np.arange(256)),
        "longitudes": (cities["longitude"], np.arange(1024) / 16 - 128),
        "squares": (59 * row + column, np.arange(26 * 59)),
        "residence": (data.load("anes96")["population"], 2 * np.arange(4096)),
    }
    return {name: histograms.counts(*column) for name, column in columns.items()}


def tables():
    """Yield name and counts of each table."""
    yield from embedded().items()
    benchmark = data.load("dpbench_1d")
    for name in BENCHMARK:
        counts = benchmark[name].to_numpy()
        yield name, counts
        yield name, counts.reshape(256, 16).sum(axis=1)


def structure_first(x, epsilon, *, rng):
    """StructureFirst, all boundaries at once: half of epsilon for n/16 buckets, half for their
    totals. The cap is where one bin can save what chance costs: F^2 = (4F/epsilon) k ln(n/k). The
    choice is drawn in floating point, so that this is for measurement only.
    """
    n, half = x.size, epsilon / 2
    k = n // 16
    cap = math.ceil(4 * k * math.log(n / k) / epsilon)
    cut = boundaries.at_once(np.arange(n), k, cap, "add-remove", half)
    starts = cut.draw(np.minimum(x, cap), rng=rng)
    widths = np.diff(starts, append=n)
    totals = methods.METHODS["bins"](np.add.reduceat(x, starts), half, rng=rng)
    return np.repeat(totals / widths, widths)


METHODS = methods.METHODS | {"StructureFirst": structure_first}


def seeds_of(n, method):
    """Return the seeds of a method on n bins."""
    most, few = SLOW.get(method, (n, SEEDS))
    return SEEDS if n <= most else few


def found(name, x, times, epsilon, method):
    """Return the squared errors of ranges, a row for each seed and a column for each length."""
    label = f"{name}, {len(x)} bins, {times} times, epsilon {epsilon}, {method}"
    known, _, total = method.partition(", total public")
    results = []
    for seed in seeds_of(len(x), method):
        rng = chapter.stream(seed, label)
        bins = METHODS[known](x * times, chapter.exactly(epsilon), rng=rng)
        if total or method != known:
            bins = methods.to_total(bins, x.sum() * times)
        results.append(methods.range_errors(bins - x * times, lengths(len(x))))
    return np.array(results)


def lengths(n):
    """Return the lengths 1, 4, 16, ... of ranges up to n."""
    return [m for m in LENGTHS if m <= n]


def rows(name, x, times, epsilon, method):
    """Yield the rows of the table for one method."""
    errors = found(name, x, times, epsilon, method)
    cost = methods.least_cost(x * times, epsilon) * epsilon / len(x)
    facts = f"{np.mean(x == 0):.4g}", f"{cost:.4g}"
    se = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    numbers = zip(errors.mean(axis=0), np.quantile(errors, 0.95, axis=0), se)
    for m, three in zip(lengths(len(x)), numbers):
        head = (name, len(x), int(x.sum()) * times, times, *facts, epsilon, method, m)
        yield (*head, *(_short(*pair) for pair in zip(three, (4, 3, 2))))


def _short(number, digits):
    """A number with some digits; what is only rounding is 0."""
    return f"{number if number > 1e-9 else 0:.{digits}g}"


def all_methods():
    """Return the names of the methods; three of them again with a total that is public."""
    return [*METHODS, *(f"{m}, total public" for m in ("uniform", "bins", "tree"))]


def cases():
    """Yield table, multiple of the counts and epsilons."""
    for name, x in tables():
        yield name, x, 1, EPSILONS
        if (name, len(x)) in SCALED_TABLES:
            for times, epsilons in SCALED.items():
                yield name, x, times, epsilons


def main():
    """Write the table and its sidecar."""
    path = FOLDER / "histograms_compared.csv"
    done = set()
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            keys = ("data", "bins", "times", "method")
            done = {tuple(row[key] for key in keys) for row in csv.DictReader(file)}
    with open(path, "a", newline="", encoding="utf-8") as file:
        write = csv.writer(file, lineterminator="\n").writerows
        if not done:
            write([NAMES])
        for name, x, times, epsilons in cases():
            for method in all_methods():
                new = (name, str(len(x)), str(times), method) not in done
                if new and seeds_of(len(x), method):
                    write([row for e in epsilons for row in rows(name, x, times, e, method)])
                    file.flush()  # whole, or not at all
    names = ("randhie", "cities", "anes96")
    sidecar = {
        "command": COMMAND,
        "epsilons": list(EPSILONS),
        "seeds": [SEEDS[0], SEEDS[-1]],
        "fewer": {method: [most, len(few)] for method, (most, few) in SLOW.items()},
        "methods": all_methods(),
        "sha256": {f"{one}.csv": data.tables()[one].sha256[0] for one in names}
        | data.tables()["dpbench_1d"].local,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(sidecar, indent=1) + "\n"
    (FOLDER / "histograms_compared.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
