"""Measure classifiers from private counts: writes data/results/learning_from_counts.csv.

    DPUTILS_DATA=... python -m tools.counts_measured

A row for each table, method and epsilon (inf: naive Bayes without noise): the share of the test
rows that are classified rightly, mean over the seeds with its standard error. Tables, cut points
and test rows are those of `trees_measured`. Trees of
noisy counts: depth and score. Forests: depth, number of trees, what they share.
Beside it `learning_from_counts.json` says how it was made.
"""

import csv
import functools
import json
import platform

import numpy as np

from dputils import from_counts, trees
from dputils.book import chapter, data
from tools import trees_measured

EPSILONS, SEEDS = (0.01, 0.03, 0.1, 0.3, 1, 3), range(20)
COMMAND = "DPUTILS_DATA=<folder> python -m tools.counts_measured"
NAMES = ("data", "method", "epsilon", "accuracy", "se")
FORESTS = tuple((L, T, share) for L in (2, 4) for T in (10, 30) for share in ("budget", "persons"))
GROWN = tuple((L, score) for L in (1, 2, 3, 4) for score in ("errors", "gini"))
METHODS = {
    "bayes": (from_counts.bayes_mechanism, from_counts.bayes_predict),
    **{
        f"noisy tree {L} {score}": (
            functools.partial(from_counts.noisy_tree_mechanism, depth=L, score=score),
            trees.predict,
        )
        for L, score in GROWN
    },
    **{
        f"forest {L} {T} {share}": (
            functools.partial(from_counts.forest_mechanism, depth=L, many=T, share=share),
            from_counts.forest_predict,
        )
        for L, T, share in FORESTS
    },
}


def accuracies(table, method, epsilon, seeds=SEEDS):
    """Return the accuracy for each seed; without noise, of naive Bayes, one number."""
    columns, sizes, labels, test, _ = table
    train = columns[~test], labels[~test]
    make, predict = METHODS[method]
    if epsilon == np.inf:
        made = [from_counts.bayes_exact(*train, sizes, 2)]
    else:
        mechanism = make(
            sizes=sizes, classes=2, epsilon=chapter.exactly(epsilon), neighbours="add-remove"
        )
        made = (mechanism(train, rng=chapter.stream(s, f"{method} {epsilon:g}")) for s in seeds)
    return [float((predict(m, columns[test]) == labels[test]).mean()) for m in made]


def rows():
    """Yield the rows of the table."""
    for name, table in (("anes96", trees_measured.voters()), ("adult", trees_measured.people())):
        for method in METHODS:
            for epsilon in (*EPSILONS, np.inf) if method == "bayes" else EPSILONS:
                found = accuracies(table, method, epsilon)
                se = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
                yield name, method, epsilon, f"{np.mean(found):.5f}", f"{se:.5f}"


def main():
    """Write the table, and how it was made."""
    folder = trees_measured.FOLDER
    with (folder / "learning_from_counts.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([NAMES, *rows()])
    listed = data.tables()
    beside = {
        "command": COMMAND,
        "epsilons": EPSILONS,
        "seeds": [SEEDS[0], SEEDS[-1]],
        "sha256": {"anes96.csv": listed["anes96"].sha256[0], **listed["adult"].local},
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(beside, indent=1) + "\n"
    (folder / "learning_from_counts.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
