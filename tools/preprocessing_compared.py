"""Compare preparations of a table for regression: writes data/results/preprocessing_compared.csv.

    DPUTILS_DATA=... python -m tools.preprocessing_compared

The strategies of document 003 on four sets, the same ten folds for all, at three budgets, delta
1e-6, noise for rows and responses of length 1: SSP (two noisy sums and the inverse), the same with
the norm of the noise as penalty (ridge), and AdaSSP. A row for each data set, strategy,
response (raw, or centred by the mean), source of the statistics (the training rows, or all rows),
epsilon and method: the mean squared error on the rows left out divided by the variance of the
response, its median over the folds and draws, and its mean, which for SSP depends on stray fits.
"no noise" is least squares on the same rows, "mean" predicts the mean of the training rows.

All strategies but "public ranges" look at the private table, so that the budgets are what they
state and not what they cost. The public ranges were written down from what the columns mean; of
elevators we know no such description. Ranges 3 and 10 times as wide lie around the same middles.

The noise is simulated in floating point with the standard deviations of the exact mechanisms; all
strategies with the same number of columns share the noise of a fold.
"""

import csv
import itertools
import json
import platform
import time

import numpy as np

from dputils import preprocessing
from dputils.book import chapter, data
from tools import regressions_compared as regressions

COMMAND = "DPUTILS_DATA=<folder> python -m tools.preprocessing_compared"
EPSILONS = (0.1, 1, 10)
DELTA, FOLDS, DRAWS = 1e-6, 10, 20
CLIP = 3.0  # in deviations above the mean
WAYS = ("row norm", "row norm, response too", "longest row", "intercept", "clipped")
WAYS += ("test rows clipped", "own statistics")
WIDTHS = {"public ranges": 1, "3 times as wide": 3, "10 times as wide": 10}
RESPONSES, SOURCES = ("raw", "centred"), ("training rows", "all rows")
METHODS = {
    "SSP": regressions.ssp,
    "ridge": regressions.fixed_ridge,
    "AdaSSP": regressions.adassp_joint,
}
NAMES = ("data", "n", "d", "strategy", "response", "statistics", "epsilon", "method")
NAMES += ("median", "mean")
VOTERS = ["population", "age", "education", "tv_news"]
SETS = ("anes96", "airfoil", "elevators", "bike")
UNIT = [(0, 1)] * 4
RANGES = {
    "anes96": preprocessing.Ranges([(0, 10_000), (18, 100), (1, 7), (0, 7)], (1, 24)),
    "airfoil": preprocessing.Ranges(
        [(0, 20_000), (0, 30), (0, 0.5), (0, 100), (0, 0.1)], (80, 160)
    ),
    "bike": preprocessing.Ranges(
        [(2011, 2012), (1, 12), (1, 31), (1, 4), (0, 1), (1, 12), (0, 23), (0, 1), (0, 6), (0, 1)]
        + [(1, 4), *UNIT, (0, 1000), (0, 1000)],
        (0, float(np.log(2000))),
    ),
}
FOLDER = data.FOLDER / "results"


def table(name):
    """Return X and y of a data set; the responses of elevators and bike are logarithms."""
    if name == "anes96":
        voters = data.load("anes96")
        return voters[VOTERS].to_numpy(dtype=float), voters["income"].to_numpy(dtype=float)
    return regressions.table(name)


def lengths(z):
    """Return the length of each row, 1 for rows of zeros."""
    size = np.linalg.norm(z, axis=1)
    return np.where(size > 0, size, 1.0)


def statistics(X, y, clip):
    """Return what the strategies take from rows and responses."""
    cut = X.mean(axis=0) + clip * X.std(axis=0) if clip else np.full(X.shape[1], np.inf)
    X = np.minimum(X, cut)
    mean, sd = X.mean(axis=0), X.std(axis=0)
    sd = np.where(sd > 0, sd, np.inf)
    size = lengths((X - mean) / sd)
    return {
        "cut": cut,
        "mean": mean,
        "sd": sd,
        "longest": size.max(),
        "largest": np.abs(y).max(),
        "steepest": np.max(np.abs(y) / size),
    }


def prepared(way, X, told):
    """Return the rows in the unit ball, and the unit of each row's response."""
    z = (X - told["mean"]) / told["sd"]
    size, unit = lengths(z), np.full(len(X), told["largest"])
    if way == "row norm":
        return z / size[:, None], unit
    if way == "row norm, response too":
        return z / size[:, None], told["steepest"] * size
    z = z / told["longest"]
    return (z if way == "longest row" else np.insert(z, 0, 1, axis=1) / np.sqrt(2)), unit


def both(way, kept, out, source):
    """Return (rows, responses) to fit, and (rows, units) to predict, of raw tables (X, y)."""
    clip = CLIP if "clipped" in way else None
    told = statistics(*source, clip)
    rows, unit = prepared(way, np.minimum(kept[0], told["cut"]), told)
    new = np.minimum(out[0], told["cut"]) if way == "test rows clipped" else out[0]
    if way == "own statistics":  # the analyst's rows are the new ones
        own = statistics(*out, None)
        told = told | {name: own[name] for name in ("mean", "sd", "longest")}
    return (rows, kept[1] / unit), prepared(way, new, told)


def widened(ranges, k):
    """Return ranges k times as wide around the same middles."""
    pairs = [((1 + k) / 2 * a + (1 - k) / 2 * b, (1 + k) / 2 * b + (1 - k) / 2 * a)
             for a, b in ranges.columns]  # fmt: skip
    return preprocessing.Ranges(pairs, ranges.response)


def fits(rows, responses, number, name):
    """Return {method: coefficients of the shape (epsilons, draws, columns)}."""
    gram, products, d = rows.T @ rows, responses @ rows, rows.shape[1]
    rng = chapter.stream(number, f"{name}, {d} columns, noise")
    normal = [rng.standard_normal((DRAWS, *shape)) for shape in ((d, d), (d,), ())]
    smallest = max(float(np.linalg.eigvalsh(gram)[0]), 0.0)
    budgets = np.array(EPSILONS, dtype=float)[:, None]
    fold = regressions.Fold(rows, responses, gram, products, smallest, budgets, DELTA, *normal, rng)
    made = {method: function(fold) for method, function in METHODS.items()}
    exact = np.linalg.lstsq(rows, responses, rcond=1e-10)[0]
    return made | {"no noise": exact[None, None]}


def errors(name, only=None):
    """Return {(strategy, response, statistics): {method: errors of all folds}} and the size."""
    X, y = table(name)
    shuffled = chapter.stream(1, f"{name}, folds").permutation(len(y))
    found = {}
    for number, out in enumerate(np.array_split(shuffled, FOLDS)):
        kept = np.setdiff1d(shuffled, out)
        for key, (rows, responses, predict) in _tables(name, X, y, kept, out, only):
            by_method = found.setdefault(key, {})
            for method, theta in fits(rows, responses, number, name).items():
                error = predict(theta) / y.var()
                by_method.setdefault(method, []).append(error)
        flat = np.mean((y[out] - y[kept].mean()) ** 2) / y.var()
        found.setdefault(("mean", "", ""), {}).setdefault("mean", []).append(np.full((1, 1), flat))
    return {
        key: {method: np.array(one) for method, one in by_method.items()}
        for key, by_method in found.items()
    }, X.shape


def _tables(name, X, y, kept, out, only):
    """Yield each way's key, rows and responses to fit, and a function of fits: their errors."""
    for way, response, source in itertools.product(WAYS, RESPONSES, SOURCES):
        if only is not None and way not in only:
            continue
        seen = kept if source == "training rows" else np.concatenate([kept, out])
        v = y - y[seen].mean() if response == "centred" else y
        fit, (rows, units) = both(way, (X[kept], v[kept]), (X[out], v[out]), (X[seen], v[seen]))
        new, rest = units[:, None] * rows, v[out]
        yield (
            (way, response, source),
            (*fit, lambda theta, new=new, rest=rest: regressions.mean_error(theta, new, rest)),
        )
    for way, k in WIDTHS.items():
        if name not in RANGES or (only is not None and way not in only):
            continue
        ranges = widened(RANGES[name], k)
        Z, v = preprocessing.into((X[kept], y[kept]), ranges)
        new = np.insert(X[out], 0, 1.0, axis=1)
        root = ranges.bounds.norm  # rows of length 1, as the noise is for these

        def predict(theta, ranges=ranges, new=new, root=root):
            line = preprocessing.unstandardised(theta / root, ranges)
            return np.mean((line @ new.T - y[out]) ** 2, axis=-1)

        yield (way, "", ""), (Z / root, v, predict)


def rows(name, only=None):
    """Yield the rows of one data set."""
    found, size = errors(name, only)
    for key, by_method in found.items():
        for method, error in by_method.items():  # folds, epsilons, draws
            budgets = EPSILONS if method in METHODS else ("",)
            for i, epsilon in enumerate(budgets):
                each = error[:, i]
                numbers = f"{np.median(each):.5g}", f"{each.mean():.5g}"
                yield (name, *size, *key, epsilon, method, *numbers)


def main():
    """Write the table and its sidecar."""
    begun = time.process_time()
    with open(FOLDER / "preprocessing_compared.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(NAMES)
        for name in SETS:
            writer.writerows(rows(name))
    registered = ["airfoil", "wang_elevators", "bike"]
    sidecar = {
        "command": COMMAND,
        "delta": DELTA,
        "epsilons": list(EPSILONS),
        "folds": FOLDS,
        "draws": DRAWS,
        "clip": CLIP,
        "ranges": {
            name: {"columns": list(map(list, one.columns)), "response": list(one.response)}
            for name, one in RANGES.items()
        },
        "sha256": {
            path: sha for one in registered for path, sha in data.tables()[one].local.items()
        },
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(sidecar, indent=1) + "\n"
    (FOLDER / "preprocessing_compared.json").write_text(text, encoding="utf-8")
    print(f"{time.process_time() - begun:.0f} CPU seconds")


if __name__ == "__main__":
    main()
