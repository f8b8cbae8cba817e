"""Measure what bounding costs on made and on real check-ins: writes data/results/check_ins.csv.

    DPUTILS_DATA=... python -m tools.check_ins

The chapter on check-ins draws the table; nothing in it is about one person. Beside it
`check_ins.json` says how it was made.
"""

import csv
import json
import platform

import numpy as np

from dputils import contributions
from dputils.book import chapter, data, made

EPSILON, SEEDS = 0.3, range(20)
BOUNDS = [2**j for j in range(10)]
COMMAND = "DPUTILS_DATA=<folder> python -m tools.check_ins"
NAMES = ("dataset", "question", "rule", "most", "error", "shape", "top_ten")


def tables():
    """Return `{dataset: (owners, {question: (places, bins)})}`."""
    own, real = made.checkins(), data.load("checkins_nyc")
    return {
        "made": (own["user"], {"hour": (own["hour"], 168), "venue": (own["venue"], 600)}),
        "checkins_nyc": (
            real["user"],
            {"hour": (real["hour_of_week"] - 1, 168), "venue": (real["venue"], 3628)},
        ),
    }


def measured(owners, places, bins, most, rule, seed):
    """Return the errors of one release of a histogram with epsilon 0.3 for a person.

    error: the absolute errors of all bins, as a share of all check-ins; shape: the total variation
    distance of the shares of the bins, negative bins as 0; top_ten: how many of the ten largest
    bins are among the ten largest published ones.
    """
    rng = chapter.stream(seed, f"{bins} bins, {most} a person, {rule}")
    release = contributions.mechanism(bins, most, rule, EPSILON)
    published = release((owners, places), rng=rng).astype(float)
    if rule == "weigh":
        published /= contributions.STEPS
    exact = np.bincount(places, minlength=bins)
    positive = np.maximum(published, 0)
    shares = positive / max(positive.sum(), 1)
    top = [set(np.argsort(-x, kind="stable")[:10].tolist()) for x in (published, exact)]
    return (
        np.abs(published - exact).sum() / exact.sum(),
        np.abs(shares - exact / exact.sum()).sum() / 2,
        len(top[0] & top[1]),
    )


def row(dataset, owners, question, places, bins, most, rule):
    """Return one row of the table: means over the seeds, four digits."""
    found = [measured(owners, places, bins, most, rule, seed) for seed in SEEDS]
    return (dataset, question, rule, most, *(f"{x:.4g}" for x in np.mean(found, axis=0)))


def rows():
    """Yield the rows of the table."""
    for dataset, (owners, questions) in tables().items():
        for question, (places, bins) in questions.items():
            for rule in contributions.RULES:
                for most in BOUNDS:
                    yield row(dataset, owners, question, places, bins, most, rule)


def main():
    """Write the table and its sidecar."""
    folder = data.FOLDER / "results"
    with open(folder / "check_ins.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([NAMES, *rows()])
    local = data.tables()["checkins_nyc"].local
    sidecar = {
        "command": COMMAND,
        "epsilon": EPSILON,
        "seeds": list(SEEDS),
        "sha256": dict(local),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }
    (folder / "check_ins.json").write_text(json.dumps(sidecar, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
