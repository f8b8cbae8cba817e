"""All methods for histograms under one call: laws, formulas, refusals, and the recorded sweep."""

import csv
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import (
    audit,
    boundaries,
    geometric,
    histograms,
    methods,
    noise,
    partitions,
    shrinkage,
)
from dputils.accounting import Ledger
from dputils.accounting.costs import Pure
from dputils.book import chapter, data
from tools import histograms_compared as compared

EPS = Fraction(1, 2)


@pytest.mark.parametrize("name", methods.METHODS)
@pytest.mark.parametrize("n", [2, 3, 17, 256, 300])
def test_each_method_gives_finite_bins_at_both_ends(name, n):
    x = np.arange(n) % 7 * 10
    for epsilon in (1e-3, 0.7, 100):
        rng = chapter.stream(1, f"{name} {n} {epsilon}")
        bins = methods.METHODS[name](x, chapter.exactly(epsilon), rng=rng)
        assert bins.shape == (n,) and np.isfinite(bins).all()


@pytest.mark.parametrize(
    "name", sorted(set(methods.METHODS) - {"uniform", "buckets", "buckets and tree", "AHP"})
)
def test_methods_that_keep_all_bins_find_the_truth_without_noise(name):
    x = np.array([40, 0, 17, 300, 300, 25, 90])
    found = methods.METHODS[name](x, Fraction(100), rng=chapter.stream(1, name))
    assert np.allclose(found, x)


def test_uniform_spreads_the_total_and_buckets_find_steps():
    x = np.repeat([500, 0], 8)
    rng = chapter.stream(1, "steps")
    assert np.allclose(methods.METHODS["uniform"](x, Fraction(100), rng=rng), 250)
    for name in ("buckets", "buckets and tree"):
        assert np.allclose(methods.METHODS[name](x, Fraction(100), rng=rng), x)


def test_alike_bins_share_a_count_where_they_are_apart():
    x = np.tile([500, 0], 8)
    found = methods.METHODS["AHP"](x, Fraction(1), rng=chapter.stream(1, "alike"))
    assert len(np.unique(found)) < 8 and np.abs(found - x).max() < 5


def test_groups_of_bins_are_counted_with_half_of_the_budget_each():
    x, half = np.arange(32) ** 2, EPS / 2
    found = methods.METHODS["AHP"](x, EPS, rng=chapter.stream(3, "a"))
    rng = chapter.stream(3, "a")
    first = histograms.mechanism(np.arange(32), "add-remove", half)
    noisy = first.draw(x, rng=rng)
    seen = noisy * (noisy > 0.35 * math.log(32) / half)
    labels = boundaries.groups(seen, geometric.variance(2 / EPS))
    second = boundaries.group_mechanism(np.arange(32), labels, "add-remove", half)
    drawn = second(np.repeat(np.arange(32), x), rng=rng)
    assert np.array_equal(found, (drawn / np.bincount(labels))[labels])


def test_the_learned_threshold_is_the_curve_of_the_release():
    x = np.arange(64) % 5 * 20
    found = methods.METHODS["learned"](x, EPS, rng=chapter.stream(3, "l"))
    noisy = x + noise.discrete_laplace(2, 64, rng=chapter.stream(3, "l"))
    knots, prior = shrinkage.even_knots(2), shrinkage.power_prior(0.1)
    assert np.array_equal(found, shrinkage.learn_from_release(noisy, 2, knots, prior)(noisy))


def test_a_mechanism_reads_charges_and_draws_like_its_method():
    column = np.array([0.5, 3, 3, np.nan, 99, -np.inf])
    x = histograms.counts(column, np.arange(8))
    for name, method in methods.METHODS.items():
        release = methods.mechanism(name, np.arange(8), "add-remove", EPS, unit="person")
        assert release.costs == (Pure(EPS),) and release.unit == "person"
        first = release(column, rng=chapter.stream(1, name))
        assert np.array_equal(first, method(x, EPS, rng=chapter.stream(1, name)))
        ledger = Ledger(EPS, neighbours="add-remove", unit="person")
        assert ledger.release("all", release, column, rng=noise.SYSTEM).shape == (8,)
        assert ledger.remaining == (0, 0)
        empty = release(np.array([]), rng=chapter.stream(1, name))
        assert empty.shape == (8,)


def test_replacing_costs_half_the_budget_for_each_step():
    for name in methods.METHODS:
        twice = methods.mechanism(name, np.arange(8), "replace-one", 2 * EPS)
        once = methods.mechanism(name, np.arange(8), "add-remove", EPS)
        one, two = (m([1, 5, 5], rng=chapter.stream(1, name)) for m in (once, twice))
        assert np.array_equal(one, two)


@pytest.mark.parametrize("name", ["bins", "uniform", "tree", "binary tree", "wavelet"])
def test_linear_methods_have_their_variance(name):
    n, runs = 16, 4000
    x = np.arange(n)
    rng = chapter.stream(3, name)
    off = np.array([methods.METHODS[name](x, EPS, rng=rng) for _ in range(runs)])
    if name == "uniform":
        assert np.ptp(off, axis=1).max() == 0
        variances, truth = np.full(n, geometric.variance(2) / n**2), np.full(n, x.mean())
    else:
        truth = x
        rows = {
            "bins": np.eye(n),
            "tree": np.eye(n),
            "binary tree": np.array([histograms.node_counts(one, 2) for one in np.eye(n)]).T,
            "wavelet": haar(n),
        }[name]
        moved = np.abs(rows).sum(axis=0).max()
        one = geometric.variance(moved / EPS)
        variances = one * np.diag(np.linalg.inv(rows.T @ rows))
    error = (off - truth).mean(axis=0) / np.sqrt(variances / runs)
    assert np.abs(error).max() < 6  # 16 means, each off by chance less often than 1e-8
    # kurtosis of sums of such noises is at most 6: 6 standard errors of a variance
    assert np.abs(off.var(axis=0) / variances - 1).max() < 6 * math.sqrt(5 / runs)


def haar(n):
    rows, width = [np.ones(n)], n
    while width > 1:
        sign = np.repeat([1.0, -1.0], width // 2)
        rows += [np.kron(one, sign) for one in np.eye(n // width)]
        width //= 2
    return np.array(rows)


def test_buckets_are_the_mechanism_of_partitions_and_its_counts():
    x, e1, e2 = np.arange(32) ** 2, EPS / 4, 3 * EPS / 4
    found = methods.METHODS["buckets"](x, EPS, rng=chapter.stream(3, "b"))
    rng = chapter.stream(3, "b")
    cut = partitions.mechanism(np.arange(32), 32, "add-remove", e1, 1 / e2 + 3 / e1)
    starts = cut.draw(x, rng=rng)
    drawn = np.add.reduceat(x, starts) + noise.discrete_laplace(1 / e2, starts.size, rng=rng)
    width = np.diff(starts, append=32)
    assert np.array_equal(found, np.repeat(drawn / width, width))


def test_the_law_of_buckets_over_two_bins():
    """All of the method at once, against a law computed apart from it."""
    z = np.arange(-400, 401)
    for counts in ((0, 0), (3, 9), (0, 40)):
        laws = {}
        single = np.exp(geometric.logpmf(z, 1 / (EPS / 4)))
        pair = np.exp(geometric.logpmf(z, 2 / (EPS / 4)))
        price = round(1 / (3 * EPS / 4) + 3 / (EPS / 4))
        both = np.convolve(single, single)  # from -800
        at_least = np.concatenate([np.cumsum(both[::-1])[::-1], [0]])
        moved = abs(counts[0] - counts[1]) - price + z + 800  # a tie goes to the pair
        laws["pair"] = pair @ at_least[np.clip(moved, 0, both.size)]
        laws["single"] = 1 - laws["pair"]
        column = np.repeat([0, 1], counts)
        release = methods.mechanism("buckets", [0, 1], "add-remove", EPS)
        rng = chapter.stream(3, f"two bins {counts}")
        drawn = np.array([release(column, rng=rng) for _ in range(5000)])
        names = ["pair" if a == b else "single" for a, b in drawn]
        noisy = [geometric.logpmf(z, 1 / (3 * EPS / 4), one) for one in counts]
        ties = laws["single"] * np.exp(sum(noisy)).sum()  # single bins, equal by chance
        share = names.count("pair") / len(names)
        room = 6 * math.sqrt(0.25 / len(names))
        assert abs(share - laws["pair"] - ties) < room
        stated = methods.law_of_two(*counts, EPS, 5)
        equal = stated["equal, low"] + stated["equal, high"]
        assert math.isclose(equal, laws["pair"] + ties, rel_tol=1e-9)
        kind = np.where(drawn[:, 0] < 5, "low", "high")
        for name, p in stated.items():
            mine = kind == name.split()[-1]
            mine &= (drawn[:, 0] == drawn[:, 1]) == name.startswith("equal")
            assert abs(mine.mean() - p) < room


@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1)])
def test_the_law_of_two_bins_keeps_its_budget(epsilon):
    low = round(4 / epsilon)
    for a in (0, low - 1, low, 3 * low):
        for b in (0, low, 9 * low):
            here = methods.law_of_two(a, b, epsilon, low)
            assert abs(sum(here.values()) - 1) < 1e-12 and min(here.values()) > -1e-12
            for more in ((a + 1, b), (a, b + 1)):
                there = methods.law_of_two(*more, epsilon, low)
                both = [{k: v for k, v in law.items() if v > 1e-9} for law in (here, there)]
                assert audit.finite_epsilon(*both) <= epsilon + 1e-6


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40))
def test_range_errors_are_means_over_all_places(errors):
    n = len(errors)
    lengths = sorted({1, max(1, n // 2), n})
    for m, found in zip(lengths, methods.range_errors(errors, lengths)):
        sums = [sum(errors[i : i + m]) ** 2 for i in range(n - m + 1)]
        assert math.isclose(found, np.mean(sums), abs_tol=1e-9)
    twice = methods.range_errors([errors, errors], lengths)
    assert twice.shape == (2, len(lengths))


def test_to_total_is_the_least_change():
    bins = np.array([[1.0, 5, -3], [0, 0, 0]])
    found = methods.to_total(bins, 9)
    assert np.allclose(found.sum(axis=1), 9) and np.allclose(np.ptp(found - bins, axis=1), 0)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=9), st.data())
def test_the_least_cost_is_the_least_and_moves_by_at_most_1(x, random):
    n, epsilon = len(x), 4.0
    price = round(1 / 3 + 3)
    best = [0]
    for end in range(1, n + 1):
        spans = [x[end - w : end] for w in (1, 2, 4, 8) if w <= end]
        cost = [sum(abs(c - sorted(b)[len(b) // 2]) for c in b) for b in spans]
        best.append(min(c + price + best[end - len(b)] for c, b in zip(cost, spans)))
    found = methods.least_cost(np.array(x), epsilon)
    assert found == best[-1]
    x[random.draw(st.integers(0, n - 1))] += 1
    assert abs(methods.least_cost(np.array(x), epsilon) - found) <= 1


def test_refusals():
    with pytest.raises(ValueError, match="name must be one of uniform, bins"):
        methods.mechanism("best", [0, 1], "add-remove", 1)
    with pytest.raises(ValueError, match="starts must be those of 2 to 2"):
        methods.mechanism("bins", [0], "add-remove", 1)
    with pytest.raises(ValueError, match="starts must be increasing"):
        methods.mechanism("bins", [0, 0], "add-remove", 1)
    with pytest.raises(ValueError, match="epsilon"):
        methods.mechanism("bins", [0, 1], "add-remove", -1)
    with pytest.raises(ValueError, match="epsilon must be between 0.002 and 100"):
        methods.mechanism("bins", [0, 1], "add-remove", 1e-3)
    with pytest.raises(ValueError, match="neighbours"):
        methods.mechanism("bins", [0, 1], "bounded", 1)
    with pytest.raises(ValueError, match="rng"):
        methods.mechanism("bins", [0, 1], "add-remove", 1)([0.5], rng=3)


# ---- the recorded table --------------------------------------------------------------------------

FOLDER = data.FOLDER / "results"
RECORDED = list(csv.DictReader((FOLDER / "histograms_compared.csv").open(encoding="utf-8")))
KEYS = ("data", "bins", "times", "epsilon", "method", "length")


def test_the_recorded_table_is_whole():
    keys = {tuple(row[key] for key in KEYS) for row in RECORDED}
    assert len(keys) == len(RECORDED)
    tables = {(row["data"], row["bins"]) for row in RECORDED}
    assert len(tables) == 5 + 2 * len(compared.BENCHMARK)
    plain = [row for row in RECORDED if row["times"] == "1"]
    lengths = sum(len(compared.lengths(int(bins))) for _, bins in tables)
    short = sum(5 for _, bins in tables if bins == "256")  # where StructureFirst is measured
    everywhere = len(compared.all_methods()) - 1
    assert len(plain) == (lengths * everywhere + short) * len(compared.EPSILONS)
    beside = json.loads((FOLDER / "histograms_compared.json").read_text(encoding="utf-8"))
    assert beside["command"] == compared.COMMAND and beside["methods"] == compared.all_methods()
    assert beside["epsilons"] == list(compared.EPSILONS)
    assert beside["seeds"] == [compared.SEEDS[0], compared.SEEDS[-1]]
    assert beside["fewer"] == {"AHP": [1024, 20], "StructureFirst": [256, 0]}
    sums = beside["sha256"]
    assert sums["histograms/dpbench_1d.npz"] in data.tables()["dpbench_1d"].local.values()
    for name in ("randhie", "cities", "anes96"):
        assert sums[f"{name}.csv"] == data.tables()[name].sha256[0]


AGAIN = ["bins", "tree", "NoiseFirst mended", "buckets", "learned", "AHP"]


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, method) for name in ("ages", "visits", "squares") for method in AGAIN),
        ("ages", "StructureFirst"),
    ],
)
def test_recorded_rows_are_computed_again(name, method):
    x = compared.embedded()[name]
    again = [
        dict(zip(compared.NAMES, map(str, row))) for row in compared.rows(name, x, 1, 0.1, method)
    ]
    mine = [
        row
        for row in RECORDED
        if (row["data"], row["times"]) == (name, "1")
        and (row["epsilon"], row["method"]) == ("0.1", method)
    ]
    assert again == mine


def test_the_bins_have_their_formula_in_the_table():
    for row in RECORDED:
        if row["method"] == "bins" and row["length"] == "1":
            v = geometric.variance(1 / float(row["epsilon"]))
            assert abs(float(row["mean"]) - v) < 6 * float(row["se"])
