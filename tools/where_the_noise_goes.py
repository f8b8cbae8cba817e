"""Compare the places for the noise of a fit: writes data/results/where_the_noise_goes.csv.

    DPUTILS_DATA=... python -m tools.where_the_noise_goes

A row for each table, method, epsilon and fold (ten folds; five of adult): the mean error of the
draws on the persons left out. The error is the mean square of a regression, in half ranges of the
response, and the share of wrong labels of a classification, where a margin of 0 is half wrong;
beside it stands the mean logistic loss. All methods have the same folds, so that they can be
compared fold by fold.

The same for all methods: neighbours replace one person by another, so the number n of persons is
public; each column and the response has a public range and is moved to [-1, 1], and a 1 stands
before the d columns: p = d + 1 numbers, at most sqrt(p) long. How many values a column of whole
numbers can have is public, too. Noisy sums get the public n in the place of the noisy one. All
mechanisms are those of the book.

What is free is fixed, or chosen by rules that look at no table; where these guess, columns spread
uniformly over their ranges (mean square 1/3) and coefficients have length 1. After a first look at
results the steps became 100 in place of 30, the guessed noise of tilt and steps was limited, the
filter of the cells made finer, and a column of `income` exchanged. Where noisy sums meet labels of
1 and -1, the margins are twice the least-squares fit (chapter 72). Beside the
table `where_the_noise_goes.json` says how it was made.
"""

import csv
import itertools
import json
import math
import platform
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import scipy

from dputils import functional, geometric, gradient, objectives, regression, synthetic
from dputils.book import chapter, data
from dputils.sensitivity import Sensitivity

EPSILONS, DELTA = (0.1, 0.3, 1, 3, 10), 1e-6
RELATION, UNIT = "replace-one", "person"
GRID = 1000  # steps of a value to half a range
CELLS, VALUES = 4, 8  # of a column in the table of all cells; in the copy
STEPS, CLIP = 100, 1.0
RIDGE = 0.1  # of plain fits
COMMAND = "DPUTILS_DATA=<folder> python -m tools.where_the_noise_goes"
NAMES = ("data", "n", "d", "place", "method", "promise", "epsilon", "fold", "error", "loss")
FOLDER = data.FOLDER / "results"


@dataclass(frozen=True, eq=False)
class Task:
    """Rows with a 1 first, responses, how many values each column and the response can have."""

    name: str
    X: np.ndarray
    y: np.ndarray
    values: tuple
    labelled: bool
    folds: int
    draws: int

    @property
    def parts(self):
        """Yield which rows are kept and which are left out."""
        shuffled = chapter.stream(3, "folds").permutation(len(self.y))
        for out in np.array_split(shuffled, self.folds):
            yield np.setdiff1d(shuffled, out), out


@dataclass(frozen=True)
class Facts:
    """What is public: n persons, how many values columns and response have, if it is a label."""

    n: int
    values: tuple
    labelled: bool

    @property
    def p(self):
        """The numbers in a row: the 1 and the columns."""
        return len(self.values)

    @property
    def loss(self):
        """The loss of the methods that minimise one."""
        return objectives.logistic_loss() if self.labelled else objectives.capped_squares(1, 1)

    @property
    def longest(self):
        """B, the longest row."""
        return math.sqrt(self.p)

    @property
    def bowl(self):
        """The curvature n c/3 that uniform columns would give the objective."""
        return self.n * self.loss.curvature / 3

    @property
    def factor(self):
        """From a least-squares fit of the response to the coefficients of the task."""
        return 2 if self.labelled else 1


# ------------------------------------------------------------------------------------------ tables


def centred(values, low, high):
    """Return values clamped to a public range and moved to [-1, 1]."""
    return (2 * np.clip(np.asarray(values, dtype=float), low, high) - low - high) / (high - low)


def _task(name, frame, ranges, response, folds=10, draws=20):
    columns = [centred(frame[column], *ends) for column, ends in ranges.items()]
    X = np.column_stack([np.ones(len(frame)), *columns])
    labelled = response[1:] == (0, 1)
    ends = [*ranges.values(), response[1:]]
    values = tuple(math.inf if name == "diabetes" else high - low + 1 for low, high in ends)
    y = centred(frame[response[0]], *response[1:])
    return Task(name, X, y, values, labelled, folds, draws)


PATIENTS = {"bmi": (15, 45), "bp": (60, 140), "s3": (20, 100), "s5": (3, 7)}
EARNERS = {"age": (18, 98), "education": (1, 7), "party": (0, 6), "tv_news": (0, 7)}
VOTERS = {
    "age": (18, 98),
    "education": (1, 7),
    "income": (1, 24),
    "party": (0, 6),
    "self_left_right": (1, 7),
}
WORKERS = {"age": (17, 90), "education_num": (1, 16), "man": (0, 1), "married": (0, 1)}
PEOPLE = WORKERS | {"hours_per_week": (1, 99)}


def adult():
    """Return the table of the census with columns for sex, marriage and a large income."""
    frame = data.load("adult")
    return frame.assign(
        man=frame["sex"] == "Male",
        married=frame["marital_status"] == "Married-civ-spouse",
        large=frame["income"] == ">50K",
    )


TASKS = {
    "diabetes": lambda: _task("diabetes", data.load("diabetes"), PATIENTS, ("target", 0, 400)),
    "income": lambda: _task("income", data.load("anes96"), EARNERS, ("income", 1, 24)),
    "hours": lambda: _task("hours", adult(), WORKERS, ("hours_per_week", 1, 99), 5, 8),
    "vote": lambda: _task("vote", data.load("anes96"), VOTERS, ("vote", 0, 1)),
    "large income": lambda: _task("large income", adult(), PEOPLE, ("large", 0, 1), 5, 8),
}


# --------------------------------------------------------------------- methods
# Each returns a mechanism, what it is given of (X, y), and what makes coefficients of a release.


def filtered(facts, gram, products, entry):
    """Return a fit of noisy sums whose entries off the diagonal have a standard deviation."""
    gram = gram.copy()
    gram[0, 0] = facts.n  # public
    level = 2 * entry * math.sqrt(facts.p)  # s root(2p), s = root(2) times the entry
    return facts.factor * regression.spectral_filter(gram, products, level)


def records(facts, epsilon):
    """Noise on each value of each person, who needs to trust nobody; pure."""
    moved = Sensitivity(2 * GRID * facts.p, "l1", RELATION, UNIT)
    made = geometric.mechanism(moved, epsilon)
    v = geometric.variance(geometric.scale(moved, epsilon)) / GRID**2

    def given(X, y):
        return np.rint(GRID * np.column_stack([X[:, 1:], y])).astype(np.int64)

    def fit(released, rng):
        noisy = np.insert(released / GRID, 0, 1, axis=1)
        X, y = noisy[:, :-1], noisy[:, -1]
        gram = X.T @ X - facts.n * v * np.diag([0] + [1] * (facts.p - 1))
        return filtered(facts, gram, X.T @ y, math.sqrt(facts.n * (v * v + 2 * v / 3)))

    return made, given, fit


def middles(size, values):
    """Return the middles of cells between -1 and 1, or the values themselves if each has one."""
    if size == values:
        return np.linspace(-1, 1, size)
    return (2 * np.arange(size) + 1) / size - 1


def grids(facts, cells):
    """Return the middles for each column and the response: at most so many cells."""
    return [middles(int(min(cells, values)), values) for values in facts.values]


def coded(X, y, grids):
    """Return for each column and the response the number of the middle next to each value."""
    return [
        np.searchsorted((grid[1:] + grid[:-1]) / 2, values, side="right")
        for values, grid in zip((*X.T[1:], y), grids, strict=True)
    ]


def cells(facts, epsilon, each=CELLS):
    """Noise on the count of each combination of cells; pure."""
    made = geometric.mechanism(Sensitivity(2, "l1", RELATION, UNIT), epsilon)
    grid = grids(facts, each)
    sizes = [len(one) for one in grid]
    points = np.array(list(itertools.product([1.0], *grid)))
    squares = points[:, :-1] ** 2
    products = (squares.T @ squares)[np.triu_indices(facts.p, 1)]
    entry = math.sqrt(geometric.variance(2 / epsilon) * products.mean())

    def given(X, y):
        at = np.ravel_multi_index(coded(X, y, grid), sizes)
        return np.bincount(at, minlength=len(points)).astype(np.int64)

    def fit(released, rng):
        X, y = points[:, :-1], points[:, -1]
        return filtered(facts, (X.T * released) @ X, (X.T * released) @ y, entry)

    return made, given, fit


def copy(facts, epsilon, each=VALUES):
    """A synthetic copy of chapter 58, a tree over all columns, and a plain fit; pure.

    Half of epsilon for adding and removing makes epsilon for replacing.
    """
    grid = grids(facts, each)
    sizes = [len(one) for one in grid]
    half = chapter.exactly(epsilon) / 2
    made = synthetic.mechanism(sizes, facts.p - 1, half, unit=UNIT)

    def given(X, y):
        return coded(X, y, grid)

    def fit(released, rng):
        rows = synthetic.sample(released, facts.n, rng=rng)
        values = [one[column] for one, column in zip(grid, rows.T, strict=True)]
        return plain(facts, np.column_stack([np.ones(len(rows)), *values[:-1]]), values[-1])

    return made, given, fit


def plain(facts, X, y):
    """Return the fit without noise."""
    if facts.labelled:
        return objectives.minimise(objectives.logistic_loss(), X, y, RIDGE)
    return regression.ridge(X.T @ X, X.T @ y, RIDGE)


def pair(X, y):
    """Rows with their 1, and responses."""
    return X, y


def columns(X, y):
    """Rows without their 1, and responses."""
    return X[:, 1:], y


def mean(facts, epsilon):
    """Noise on the sum of the responses alone; pure."""
    made = geometric.mechanism(Sensitivity(2 * GRID, "l1", RELATION, UNIT), epsilon)

    def given(X, y):
        return np.array([np.rint(GRID * y).sum()], dtype=np.int64)

    def fit(released, rng):
        level = np.clip(released[0] / (GRID * facts.n), -0.99, 0.99)
        level = 2 * np.arctanh(level) if facts.labelled else level
        return level * np.eye(facts.p)[0]

    return made, given, fit


def sums(facts, epsilon):
    """Gaussian noise on X'X and X'y, and the spectral filter; needs a delta."""
    bounds = regression.Bounds(facts.p, facts.longest, 1)
    made = regression.ssp_mechanism(bounds, RELATION, epsilon, DELTA, method="spectral", unit=UNIT)

    def fit(released, rng):
        return filtered(facts, released.gram, released.products, released.noise / math.sqrt(2))

    return made, pair, fit


def adassp(facts, epsilon):
    """The same with a noisy smallest eigenvalue, and AdaSSP's penalty; needs a delta."""
    bounds = regression.Bounds(facts.p, facts.longest, 1)
    made = regression.adassp_mechanism(bounds, RELATION, epsilon, DELTA, unit=UNIT)

    def fit(released, rng):
        gram = released.gram.copy()
        gram[0, 0] = facts.n  # public
        return facts.factor * regression.ridge(gram, released.products, released.penalty)

    return made, pair, fit


def coefficients(facts, epsilon):
    """The functional mechanism, of labels by expansion, with ridge 1 and trim 1; pure."""
    ranges = [(-1, 1)] * (facts.p - 1)
    if facts.labelled:
        made = functional.logistic_mechanism(ranges, epsilon, RELATION, unit=UNIT)
    else:
        made = functional.mechanism(ranges, (-1, 1), epsilon, RELATION, unit=UNIT)

    def fit(released, rng):
        found = functional.minimise(released, ridge=1.0, trim=1.0)
        return np.append(found.intercept, found.slopes)

    return made, columns, fit


def objective(facts, epsilon):
    """Objective perturbation; pure.

    The volume costs a quarter of epsilon, or less where the noise asks for a larger ridge: guessed
    by uniform columns, it moves the coefficients by length 1 at most.
    """
    ridge = objectives.ridge_for(facts.loss, facts.longest, epsilon)
    share = objectives.shares(facts.loss, facts.longest, ridge, epsilon)[0]
    push = 2 * facts.loss.slope * facts.longest * facts.p / share
    ridge = max(ridge, push - facts.bowl)
    made = objectives.objective_mechanism(
        facts.loss, facts.p, facts.longest, ridge, epsilon, RELATION, unit=UNIT
    )
    return made, pair, lambda released, rng: released


def output_ridge(facts, epsilon):
    """Return the ridge where shrinking, Lambda/(n c/3), and noise, 2LBp/(Lambda epsilon), meet."""
    return math.sqrt(2 * facts.loss.slope * facts.longest * facts.p / epsilon * facts.bowl)


def output(facts, epsilon):
    """Output perturbation; pure."""
    made = objectives.output_mechanism(
        facts.loss,
        facts.p,
        facts.longest,
        output_ridge(facts, epsilon),
        epsilon,
        RELATION,
        unit=UNIT,
    )
    return made, pair, lambda released, rng: released


def steps(facts, epsilon):
    """Gradient descent in 100 steps; needs a delta, which is booked by zCDP.

    The rate is the inverse curvature of uniform columns, or less where the noise of all steps
    together would be longer than 1.
    """
    d = facts.p - 1
    sigma = gradient.noise_multiplier(epsilon, DELTA, STEPS, RELATION)
    longest = facts.n / (sigma * CLIP * math.sqrt(STEPS * facts.p))
    rule = gradient.Rule(
        "logistic" if facts.labelled else "squared",
        [-1] * d,
        [1] * d,
        (-1, 1),
        steps=STEPS,
        clip=CLIP,
        rate=min(1 / (facts.loss.curvature * (1 + d / 3)), longest),
        size=facts.n,
    )
    made = gradient.mechanism(rule, sigma, RELATION, unit=UNIT)
    return made, columns, lambda released, rng: gradient.iterates(rule, released)[-1]


METHODS = {
    "records": ("data", "pure", records),
    "copy": ("copy", "pure", copy),
    "coarse copy": ("copy", "pure", partial(copy, each=4)),
    "mean": ("statistics", "pure", mean),
    "cells": ("statistics", "pure", cells),
    "functional": ("statistics", "pure", coefficients),
    "sums": ("statistics", "delta", sums),
    "AdaSSP": ("statistics", "delta", adassp),
    "objective": ("objective", "pure", objective),
    "output": ("output", "pure", output),
    "steps": ("each step", "delta", steps),
}
LIMITS = {"nothing": 0, "constant": 1, "not private": math.inf}  # how many columns are used


# -------------------------------------------------------------------------------------------- rows


def judged(task, theta, out):
    """Return the error and the logistic loss (0 of a regression) on the persons left out."""
    z, y = task.X[out] @ theta, task.y[out]
    if not task.labelled:
        return np.mean((z - y) ** 2), 0.0
    return np.mean((1 - np.sign(z) * y) / 2), np.mean(np.logaddexp(0, -y * z))


def limit(facts, X, y, columns):
    """Return the fit without noise on the first columns alone."""
    return plain(facts, X * (np.arange(facts.p) < columns), y)


def errors(task, method, epsilon):
    """Return errors and losses, an array of shape (folds, draws, 2)."""
    found = []
    for fold, (kept, out) in enumerate(task.parts):
        X, y = task.X[kept], task.y[kept]
        facts = Facts(len(y), task.values, task.labelled)
        if method in LIMITS:
            found.append([judged(task, limit(facts, X, y, LIMITS[method]), out)])
            continue
        made, given, fit = METHODS[method][2](facts, epsilon)
        read = made.read(given(X, y))
        rng = chapter.stream(fold, f"{task.name}, {method}, {epsilon}")
        thetas = [fit(made.draw(read, rng=rng), rng) for _ in range(task.draws)]
        found.append([judged(task, theta, out) for theta in thetas])
    return np.array(found)


def rows(task, method, epsilon):
    """Return the rows of a table, a method and an epsilon, one for each fold."""
    place, promise, _ = METHODS.get(method, ("", "", None))
    about = (task.name, len(task.y), len(task.values) - 1, place, method, promise, epsilon)
    by_fold = errors(task, method, epsilon).mean(axis=1)
    return [(*about, k, f"{one:.5g}", f"{loss:.5g}") for k, (one, loss) in enumerate(by_fold)]


def all_rows(task):
    """Yield the rows of a table; the limits have epsilon inf."""
    for method in LIMITS:
        yield from rows(task, method, math.inf)
    for method in METHODS:
        for epsilon in EPSILONS:
            yield from rows(task, method, epsilon)


def main():
    """Write the table, and how it was made."""
    sizes = {}
    with (FOLDER / "where_the_noise_goes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(NAMES)
        for name, made in TASKS.items():
            task = made()
            writer.writerows(all_rows(task))
            file.flush()
            sizes[name] = [task.folds, task.draws]
    listed = data.tables()
    beside = {
        "command": COMMAND,
        "epsilons": EPSILONS,
        "delta": DELTA,
        "neighbours": RELATION,
        "folds and draws": sizes,
        "methods": list(METHODS),
        "sha256": {"anes96.csv": listed["anes96"].sha256[0], **listed["adult"].local},
        "versions": {
            "python": platform.python_version(),
            **{package.__name__: package.__version__ for package in (np, scipy, pd)},
        },
    }
    text = json.dumps(beside, indent=1) + "\n"
    (FOLDER / "where_the_noise_goes.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
