"""Compare synthetic tables with what they copy: writes data/results/synthetic_compared.csv.

    DPUTILS_DATA=... python -m tools.synthetic_compared

A row for each table, method, epsilon and seed. For each seed a third of the persons is hidden;
`persons` is how many are left. Their table is copied by `synthetic.mechanism` with a whole tree or
without edges, or drawn with replacement (bootstrap, without privacy), or taken itself. Measured:

- two, three: the total variation distance between copy and copied rows, the mean over all marginals
  of two and of three columns;
- accuracy: how often a decision tree that learned on the copy is right about the last column of a
  hidden person. For the method "commoner value" it always says the commoner one.

Beside it `synthetic_compared.json` says how it was made. A table that is there is not done again,
unless the file is deleted.
"""

import csv
import itertools
import json
import math
import platform

import numpy as np
import sklearn
from sklearn.tree import DecisionTreeClassifier

from dputils import synthetic
from dputils.book import chapter, data

EPSILONS, SEEDS = (0.3, 1, 3, 10, 30), range(20)
METHODS = ("tree", "independent")  # with epsilon
LIMITS = ("bootstrap", "real rows", "commoner value")  # without
RULE = {"max_depth": 4, "min_samples_leaf": 10, "random_state": 0}
COMMAND = "DPUTILS_DATA=<folder> python -m tools.synthetic_compared"
NAMES = ("data", "persons", "method", "epsilon", "seed", "two", "three", "accuracy")
FOLDER = data.FOLDER / "results"

# The public domains: columns and how many values each has; the last column is the one to predict.
# Those of adult follow the lists in the archive's adult.names and round numbers.
DOMAINS = {
    "election": {
        "age": 8,
        "education": 7,
        "income": 8,
        "party": 7,
        "position": 7,
        "vote": 2,
    },
    "health": {
        "sex": 2,
        "age": 7,
        "share of the bill": 4,
        "health": 4,
        "limitation": 2,
        "three visits": 2,
    },
    "adult": {
        "age": 8,
        "employer": 9,
        "education": 16,
        "marital status": 7,
        "occupation": 15,
        "relationship": 6,
        "race": 5,
        "sex": 2,
        "capital gain": 4,
        "capital loss": 2,
        "hours": 5,
        "born in the United States": 2,
        "income": 2,
    },
}
EMPLOYERS = (
    "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
)
STATUSES = (
    "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse"
)
OCCUPATIONS = (
    "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
    "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
    "Priv-house-serv Protective-serv Armed-Forces"
)
RELATIONSHIPS = "Wife Own-child Husband Not-in-family Other-relative Unmarried"
RACES = "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"


def election():
    """Return the columns of the election study, a row for each person."""
    t = data.load("anes96")
    columns = [(t["age"] - 18) // 10, t["education"] - 1, (t["income"] - 1) // 3]
    return [*columns, t["party"], t["self_left_right"] - 1, t["vote"]]


def health():
    """Return the columns of the RAND experiment: the first row of each person."""
    t = data.load("randhie").drop_duplicates("person")
    plan = np.searchsorted([1, 3.6, 4.3], t["log_coinsurance"])
    own = t["health_good"] + 2 * t["health_fair"] + 3 * t["health_poor"]
    limited = t["physical_limitation"]
    return [t["female"], t["age"] // 10, plan, own, limited, t["visits"] >= 3]


def adult():
    """Return the columns of the census extract, a row for each person; a missing employer or
    occupation is a value of its own, the last one.
    """
    t = data.load("adult")
    return [
        (t["age"] - 17) // 10,
        _places(t["workclass"], EMPLOYERS),
        t["education_num"] - 1,
        _places(t["marital_status"], STATUSES),
        _places(t["occupation"], OCCUPATIONS),
        _places(t["relationship"], RELATIONSHIPS),
        _places(t["race"], RACES),
        t["sex"] == "Female",
        np.searchsorted([1, 5000, 10_000], t["capital_gain"], side="right"),
        t["capital_loss"] > 0,
        np.searchsorted([35, 40, 41, 50], t["hours_per_week"], side="right"),
        t["native_country"] == "United-States",
        t["income"] == ">50K",
    ]


def _places(column, values):
    """Return the place of each value in a public list; what is not there is after its end."""
    places = {value: i for i, value in enumerate(values.split())}
    return column.map(places).fillna(len(places))


TABLES = {"election": election, "health": health, "adult": adult}


def table(name):
    """Return one table, an int64 array with a row for each person, and its numbers of values."""
    sizes = tuple(DOMAINS[name].values())
    return synthetic.read(TABLES[name](), sizes), sizes


def split(name, rows, seed):
    """Return the rows that are copied and the third that is hidden."""
    order = chapter.stream(seed, f"{name}, hidden").permutation(len(rows))
    return rows[order[len(rows) // 3 :]], rows[order[: len(rows) // 3]]


def copy_of(kept, sizes, method, epsilon, *, rng):
    """Return the rows that stand for the kept ones."""
    if method == "real rows":
        return kept
    if method == "bootstrap":
        return kept[rng.integers(0, len(kept), len(kept))]
    edges = len(sizes) - 1 if method == "tree" else 0
    release = synthetic.mechanism(sizes, edges, epsilon)
    return synthetic.sample(release.draw(kept, rng=rng), rng=rng)


def distances(copy, kept, sizes):
    """Return the mean total variation distance of all marginals of two and of three columns."""
    means = []
    for k in (2, 3):
        sets = list(itertools.combinations(range(len(sizes)), k))
        means.append(math.fsum(_distance(copy, kept, sizes, which) for which in sets) / len(sets))
    return means


def _distance(copy, kept, sizes, which):
    one, two = (synthetic.marginal(rows, sizes, which) / len(rows) for rows in (copy, kept))
    return np.abs(one - two).sum() / 2


def accuracy(copy, hidden):
    """Return how often a decision tree from the copy is right about the hidden persons."""
    rule = DecisionTreeClassifier(**RULE).fit(copy[:, :-1], copy[:, -1])
    return rule.score(hidden[:, :-1], hidden[:, -1])


def commoner(kept, hidden):
    """Return how often the commoner value of the kept rows is right about the hidden persons."""
    return np.mean(hidden[:, -1] == np.bincount(kept[:, -1]).argmax())


def row(name, rows, sizes, method, epsilon, seed):
    """Return one row of the table."""
    kept, hidden = split(name, rows, seed)
    start = (name, len(kept), method, epsilon, seed)
    if method == "commoner value":
        return (*start, "", "", f"{commoner(kept, hidden):.4g}")
    rng = chapter.stream(seed, f"{name}, {method}, epsilon {epsilon}")
    exactly = epsilon if epsilon == "" else chapter.exactly(epsilon)
    return measured(start, copy_of(kept, sizes, method, exactly, rng=rng), kept, hidden, sizes)


def measured(start, copy, kept, hidden, sizes):
    """Return a row of the table for a copy of the kept rows."""
    numbers = (*distances(copy, kept, sizes), accuracy(copy, hidden))
    return (*start, *(f"{number:.4g}" for number in numbers))


def cases():
    """Return methods with epsilons and seeds of one table."""
    settings = [*itertools.product(METHODS, EPSILONS), *((method, "") for method in LIMITS)]
    return [(*pair, seed) for pair in settings for seed in SEEDS]


def main():
    """Write the table and its sidecar."""
    path = FOLDER / "synthetic_compared.csv"
    done = set()
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            done = {row["data"] for row in csv.DictReader(file)}
    with open(path, "a", newline="", encoding="utf-8") as file:
        write = csv.writer(file, lineterminator="\n").writerows
        if not done:
            write([NAMES])
        for name in TABLES:
            if name not in done:
                own = table(name)
                write([row(name, *own, *case) for case in cases()])
                file.flush()  # whole, or not at all
    listed = data.tables()
    sums = {f"{one}.csv": listed[one].sha256[0] for one in ("anes96", "randhie")}
    packages = {"numpy": np.__version__, "scikit-learn": sklearn.__version__}
    sidecar = {
        "command": COMMAND,
        "epsilons": list(EPSILONS),
        "seeds": [SEEDS[0], SEEDS[-1]],
        "methods": [*METHODS, *LIMITS],
        "domains": DOMAINS,
        "classifier": {"DecisionTreeClassifier": RULE},
        "sha256": sums | listed["adult"].local,
        "versions": {"python": platform.python_version(), **packages},
    }
    text = json.dumps(sidecar, indent=1) + "\n"
    (FOLDER / "synthetic_compared.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
