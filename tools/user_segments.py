"""Measure private segments of users on made and on real tables: writes
data/results/user_segments.csv.

    DPUTILS_DATA=... python -m tools.user_segments

The chapter on segments of users draws the table; nothing in it is about one person. Beside it
`user_segments.json` says how it was made.
"""

import csv
import json
import platform
from fractions import Fraction

import numpy as np

from dputils import clustering, contributions, selection, sensitivity
from dputils.book import chapter, data, made

DATASETS = ("made", "checkins_nyc", "restaurant_ratings")
ROUNDS, CAP, SEEDS = 3, 2, range(20)
EPSILONS = ("0.1", "0.25", "0.5", "1", "2", "4")  # half for the segments, half for the favourites
STARTS = {
    4: [[700, 100, 100, 100], [100, 700, 100, 100], [100, 100, 400, 400]],
    3: [[800, 100, 100], [100, 800, 100], [100, 100, 800]],
}
COMMAND = "DPUTILS_DATA=<folder> python -m tools.user_segments"
NAMES = ("dataset", "users", "epsilon", "cost", "exact", "peer", "one", "start", "found", "peeled")


def part_of_week(hour):
    """Return 0 and 1 for day and evening of working days, 2 and 3 for those of the weekend."""
    late = (hour % 24 >= 19) | (hour % 24 < 5)
    return 2 * (hour // 24 >= 5) + late


def table(dataset):
    """Return one table: (d, (owners, parts), (which rows are likes, places), number of places)."""
    if dataset == "restaurant_ratings":
        return restaurants()
    if dataset == "made":
        own = made.kinds_of_users()
        return week(own["user"], own["hour"], own["venue"], 600)
    real = data.load("checkins_nyc")
    return week(real["user"], real["hour_of_week"] - 1, real["venue"], 3628)


def restaurants():
    """Return the ratings: parts are price classes, likes are ratings of 2."""
    ratings, prices = data.load("restaurant_ratings"), data.load("restaurant_prices")
    classes = {"low": 0, "medium": 1, "high": 2}
    price = dict(zip(prices["place"], prices["price"].map(classes), strict=True))
    number = {place: i for i, place in enumerate(sorted(prices["place"]))}
    rated = (ratings["user"], ratings["place"].map(price))
    return 3, rated, (ratings["rating"] == 2, ratings["place"].map(number)), len(number)


def week(user, hour, venue, venues):
    """Return one table of check-ins in the form of `table`."""
    return 4, (user, part_of_week(hour)), (np.full(len(user), True), venue), venues


def lloyd(x, start, rounds):
    """Return the centres after rounds without noise."""
    history = [clustering.sums(x, start)]
    while len(history) < rounds:
        history.append(clustering.sums(x, clustering.path(start, history, 1000)[-1]))
    return clustering.path(start, history, 1000)[-1]


def limits(x, start):
    """Return four costs without noise: these rounds, scikit-learn's best of ten starts, one centre
    for all, the start.
    """
    from sklearn.cluster import KMeans

    peer = KMeans(len(start), n_init=10, random_state=0).fit(x).inertia_ / len(x)
    one = ((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()
    square = clustering.STEPS**2
    exact, at_start = (clustering.cost(x, c) for c in (lloyd(x, start, ROUNDS), start))
    return exact, peer / square, one / square, at_start


def measured(table, epsilon, seed):
    """Return the cost of one release, and how many of the ten favourites of a segment are found by
    a histogram and by peeling, on average over the segments.

    The favourites are those of the segments by the released centres.
    """
    d, weeks, (liked, places), bins = table
    start, half = np.array(STARTS[d]), Fraction(epsilon) / 2
    rng = chapter.stream(seed, f"{bins} places, epsilon {epsilon}")
    noisy = clustering.mechanism(start, ROUNDS, half)(weeks, rng=rng)
    centres = clustering.path(start, noisy, half)[-1]
    x = clustering.profiles(*weeks, d)
    cells = (clustering.segments(*weeks, centres) * bins + places)[liked]
    who = weeks[0][liked]
    exact = contributions.bounded(who, cells, 3 * bins, bins, "once", rng=rng).reshape(3, bins)
    counts = contributions.mechanism(3 * bins, CAP, "once", half)((who, cells), rng=rng)
    one = sensitivity.of_scores(1, "add-remove", unit="user")
    peel = selection.top_k_mechanism(10, one, half, monotone=True)
    found = common(top_ten(exact), top_ten(counts.reshape(3, bins)))
    peeled = common(top_ten(exact), [peel(scores, rng=rng) for scores in exact])
    return clustering.cost(x, centres), found, peeled


def top_ten(counts):
    """Return the numbers of the ten largest counts of each segment."""
    return np.argsort(-counts, axis=1, kind="stable")[:, :10]


def common(first, second):
    """Return how many of the ten of one list are in the other, on average over the segments."""
    both = [np.intersect1d(a, b).size for a, b in zip(first, second, strict=True)]
    return float(np.mean(both))


def row(dataset, table, epsilon):
    """Return one row of the table: means over the seeds, four digits."""
    d, weeks = table[:2]
    x = clustering.profiles(*weeks, d)
    cost, *found = np.mean([measured(table, epsilon, seed) for seed in SEEDS], axis=0)
    numbers = (cost, *limits(x, np.array(STARTS[d])), *found)
    return (dataset, len(x), epsilon, *(f"{number:.4g}" for number in numbers))


def main():
    """Write the table and its sidecar."""
    read = {name: table(name) for name in DATASETS}
    rows = [row(name, one, eps) for name, one in read.items() for eps in EPSILONS]
    folder = data.FOLDER / "results"
    with open(folder / "user_segments.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([NAMES, *rows])
    names = ("checkins_nyc", "restaurant_ratings", "restaurant_prices")
    sums = {path: sha for name in names for path, sha in data.tables()[name].local.items()}
    sidecar = {
        "command": COMMAND,
        "rounds": ROUNDS,
        "cap": CAP,
        "seeds": list(SEEDS),
        "sha256": sums,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }
    text = json.dumps(sidecar, indent=1) + "\n"
    (folder / "user_segments.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
