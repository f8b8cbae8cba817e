"""Releases of a reader's own table: plans, refusals, the cross-check, laws, intervals, two runs.

What opendp draws cannot be seeded. A test of it that is right fails with probability 1e-9 at most.
"""

import gzip
import json
import math
import os
import shlex
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import nbformat
import numpy as np
import papermill
import pytest

from dputils import accounting, audit, checks, geometric, noise, own_parts, own_release, selection
from dputils.book import chapter, kernels, run
from dputils.book.parameters import read_notebook, read_parameters
from tools import setup

NOTEBOOK = setup.ROOT / "notebooks" / "release-template.ipynb"
ALPHA = 1e-9
SMALL = "age,income,vote,who\n" + "".join(
    f"{20 + i % 50},{1 + i % 24},{i % 3},p{i % 40}\n" for i in range(200)
)
ASKED = {
    "decided_for": "t.csv",
    "separator": "comma",
    "no_line_breaks_in": "t.csv",
    "person": "",
    "nobody": "NA, unknown",
    "rows_per_person": 1,
    "neighbours": "add-remove",
    "missing": "leave out",
    "bounds": "age: 18, 95; income: 1, 24",
    "count": True,
    "counts": "vote: 0, 1",
    "histogram": "age: 18, 30, 45, 95",
    "mean": "income",
    "quantile": "age: 0.25, 0.5",
    "regression": "income: age",
    "epsilon": 7.0,
    "shares": "",
    "confidence": 0.95,
    "expected_rows": 200,
}
NOTHING = dict.fromkeys(("counts", "histogram", "mean", "quantile", "regression"), "")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(SMALL)
    return path


def planned(path, **changed):
    return own_release.plan(path, **{**ASKED, **changed})


def only(path, **changed):
    """Return the one release of a plan for it alone."""
    (release,) = planned(
        path, **{**NOTHING, "count": False, "expected_rows": 0, **changed}
    ).releases
    return release


def opened(plan, epsilon=7.0):
    return accounting.Ledger(
        epsilon, neighbours=plan.facts["neighbours"], unit="person", plan=plan.lines
    )


def drawn(path, **changed):
    plan = planned(path, **changed)
    return plan, own_release.publish(plan, opened(plan), path)


# ----------------------------------------------------------------------------------------- the plan


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 7])
def test_the_costs_are_the_shares_and_opendps_maps_agree(table, neighbours, rows):
    plan = planned(table, neighbours=neighbours, rows_per_person=rows, expected_rows=0)
    assert [release.label for release in plan.releases] == [
        "number of rows",
        "rows by vote",
        "histogram of age",
        "mean of income",
        "quantile 0.25 of age",
        "quantile 0.5 of age",
        "regression of income",
    ]
    distance = rows * (1 if neighbours == "add-remove" else 2)
    for release, row in zip(plan.releases, own_release.shown(plan)):
        assert release.epsilon == 1 and release.mechanism.costs == (accounting.Pure(1),)
        assert release.mechanism.neighbours == neighbours and release.mechanism.unit == "person"
        theirs = sum(Fraction(part.measurement.map(distance)) for part in release.parts)
        assert 1 - Fraction(1, 10**9) <= theirs <= 1
        assert row["epsilon"] == 1 and row["opendp's map"] == pytest.approx(float(theirs))
    assert opened(plan).budget == (7, 0)


def test_scales_are_those_of_the_field(table):
    """Count d/epsilon, sum d w/2 over epsilon, quantile 2 d max(a, 1 - a)/epsilon."""
    count, _, _, mean, quarter, median, fit = planned(
        table, rows_per_person=3, expected_rows=0
    ).releases
    assert count.parts[0].scale == pytest.approx(3)
    half = mean.parts[0].moves
    assert [part.scale for part in mean.parts] == pytest.approx([6 * half, 6])
    assert quarter.parts[0].scale == pytest.approx(2 * 3 * 0.75 / 0.9)
    assert median.parts[0].scale == pytest.approx(3 / 0.9)
    assert quarter.parts[1].scale == median.parts[1].scale == pytest.approx(3 / 0.1)
    assert len(fit.parts) == 5  # a count, two sums, one square, one product
    square = own_parts.COARSE**2
    assert sorted(part.moves for part in fit.parts) == [
        1,
        square // 1024,
        square // 1024,
        square,
        square,
    ]
    for part in fit.parts:
        assert part.scale == pytest.approx(3 * 5 * part.moves)


def test_one_row_moves_each_answer_by_no_more_than_the_part_says(table):
    """The vectors of neighbouring tables differ in one entry, of the size that the scale takes."""
    plan = planned(table, missing="middle")
    base = {"age": ["20", "95", "40"], "income": ["24", "1", "x"], "vote": ["1", "0", "9"]}
    for age, income in [("18", "1"), ("95", "24"), ("-9", "99"), ("nan", ""), ("inf", "-inf")]:
        more = {k: [*v, {"age": age, "income": income, "vote": "2"}[k]] for k, v in base.items()}
        for part in (part for release in plan.releases for part in release.parts):
            before, after = part.read(base), part.read(more)
            assert list(after[:-1]) == list(before)
            if "sum" in part.what:
                assert abs(after[-1]) <= part.moves


def test_a_plan_reads_the_header_alone(table):
    first = own_release.shown(planned(table))
    table.write_text(SMALL.splitlines()[0] + "\n\xff,bad\n" + '"' * 99)
    assert own_release.shown(planned(table)) == first


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"decided_for": "anes96.csv"}, "decided_for must be 't.csv'"),
        ({"separator": "pipe"}, "separator must be"),
        ({"separator": "tab"}, "must have the column 'vote'"),
        ({"person": "name"}, "must have the column 'name': its first line"),
        ({"no_line_breaks_in": ""}, "no_line_breaks_in must be 't.csv', got .*: if a field"),
        (
            {"no_line_breaks_in": "anes96.csv"},
            "no_line_breaks_in must be 't.csv', got .*: if a field",
        ),
        ({"count": "no"}, "count must be True or False"),
        ({"rows_per_person": 0}, "rows_per_person must be at least 1"),
        ({"rows_per_person": 1.5}, "rows_per_person must be an integer"),
        ({"neighbours": "bounded"}, "neighbours must be"),
        ({"neighbours": None}, "neighbours must be"),
        ({"missing": "drop"}, "missing must be"),
        ({"bounds": "age: 18, 95"}, "bounds must be given for 'income'"),
        (
            {"bounds": "age: 95, 18; income: 1, 24"},
            "bounds of 'age' must be 2 numbers or more, increasing",
        ),
        ({"bounds": "age: 18; income: 1, 24"}, "bounds of 'age' must be 2 numbers or more"),
        ({"bounds": "age: 18, 20, 30; income: 1, 24"}, "must be a lower and an upper"),
        ({"bounds": "age: low, 20; income: 1, 24"}, "bounds of 'age' must be numbers"),
        ({"bounds": "age: 18, inf; income: 1, 24"}, "bounds of 'age' must be numbers"),
        ({"bounds": "age: 18, nan; income: 1, 24"}, "bounds of 'age' must be numbers"),
        ({"bounds": "age: 0, 1234567890123457; income: 1, 24"}, "have fewer digits"),
        ({"bounds": "age: 1e9, 1000000000.1; income: 1, 24"}, "have fewer digits"),
        ({"bounds": "age: 0, 1e18; income: 1, 24"}, "nearer to 0 or to each other"),
        (
            {"bounds": "age: 0, 9; income: 0, 1e17", "rows_per_person": 1000},
            "epsilon of the sum of income must suit its bounds and rows_per_person",
        ),
        ({"bounds": "age: 18, 95; age: 18, 95; income: 1, 2"}, "name each column once, got 'age'"),
        ({"bounds": "age: 18, 95; income: 1, 24; size: 0, 1"}, "must have the column 'size'"),
        ({"bounds": ": 18, 95"}, "bounds must have the form"),
        ({"counts": "vote"}, "counts of 'vote' must be different categories"),
        ({"counts": "vote: 1, 1"}, "counts of 'vote' must be different categories"),
        ({"counts": "vote: 'a', 'b'"}, "double quotation marks stand around a whole category"),
        ({"counts": 'vote: "a, b'}, "counts must close each quotation mark"),
        ({"counts": 'vote: 5" pipe, 6" pipe'}, "around a whole category"),
        ({"counts": 'vote: "", 1'}, "around a whole category"),
        ({"nobody": '"a, b'}, "nobody must close each quotation mark"),
        ({"counts": "vote: (any other), 1"}, "and not .any other."),
        (
            {"counts": "vote: 0, 1; day ward"},
            "got none; after a semicolon comes the next column, so put",
        ),
        ({"bounds": "age: total: 0, 9"}, "got 'total: 0'; put double quotation marks around"),
        ({"histogram": "age: 01.01.2025, 01.02.2025"}, "a date is not a number: add a column"),
        ({"mean": "income 1-24", "bounds": "income 1-24"}, "got nothing after a colon"),
        ({"shares": "1, 1"}, "the epsilon of number of rows, of rows by vote, of histogram of"),
        ({"counts": "vot: 1"}, "must have the column 'vot'"),
        ({"histogram": "age: 18"}, "histogram of 'age' must be 2 numbers or more"),
        ({"histogram": "age: 18, 18"}, "histogram of 'age' must be 2 numbers or more, increasing"),
        ({"mean": "vote"}, "bounds must be given for 'vote'"),
        ({"mean": "income, age"}, "'income, age', which mean uses: between columns stands a semi"),
        ({"mean": "income: 2"}, "takes no more than the column"),
        ({"quantile": "age"}, "quantile of 'age' must be 1 number or more"),
        ({"quantile": "age: 50"}, "must lie between 0 and 1"),
        ({"quantile": "age: 0.33333"}, "must lie between 0 and 1 with at most 4 decimals"),
        ({"quantile": "age: 0.5, 0.50"}, "quantile of 'age' must be different ranks"),
        ({"regression": "income"}, "must have other columns"),
        ({"regression": "income: income"}, "must have other columns"),
        ({"regression": "income: vote"}, "bounds must be given for 'vote'"),
        ({**NOTHING, "count": False}, "nothing is to be released"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"epsilon": 0.006}, "epsilon of each of 7 releases must be at least 0.001"),
        ({"epsilon": 0.5}, "epsilon 0.0714 is too small for 'mean of income': its noise"),
        ({"shares": "1, 1"}, "shares must have one number for each of 7 releases"),
        ({"shares": "1, 1, 1, 1, 1, 1, 1.1"}, "shares must sum to at most epsilon 7"),
        ({"shares": "1, 1, 1, 1, 1, 1, x"}, "shares must be numbers"),
        ({"shares": "1, 1, 1, 1, 1, 1, -1"}, "must be at least 0.001"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"expected_rows": -1}, "expected_rows must be at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_row_is_read(table, changed, said, monkeypatch):
    monkeypatch.setattr(own_release.own_table, "rows", None)
    with pytest.raises(ValueError, match=said):
        planned(table, **changed)


@pytest.mark.parametrize(
    "ends", [("0", "1e-17"), ("0", "1e15"), ("-1e6", "1e6"), ("18", "95"), ("-0.125", "0.1")]
)
def test_a_grid_holds_the_bounds_and_their_middle(ends):
    lower, upper = (checks.as_fraction("end", float(end)) for end in ends)
    scale = own_parts.scale("x", lower, upper)
    assert own_parts.STEPS <= scale.half <= own_parts.FINEST
    assert scale.grid * 2 * scale.half == upper - lower and (scale.middle / scale.grid) % 1 == 0
    steps = scale.steps(np.array([float(lower), float(upper), float(scale.middle), np.nan]))
    assert steps.tolist() == [-scale.half, scale.half, 0, -scale.half]
    most = own_parts.COARSE
    assert scale.coarse(steps).tolist() == [-most, most, 0, -most]


def test_a_refusal_repeats_nothing_of_the_first_line(table):
    for line in ("41,secret,9", "secret,secret,age", "age,secret,9"):
        table.write_text(line + "\n40,5,0\n")
        with pytest.raises(ValueError) as refusal:
            planned(table)
        assert "secret" not in str(refusal.value) and "41" not in str(refusal.value)


def test_other_columns_and_files_are_refused(tmp_path, table):
    with pytest.raises(ValueError, match="must name a CSV file that exists.* from the folders"):
        planned(tmp_path / "other.csv")
    table.write_text("")
    with pytest.raises(ValueError, match="must name a table with a header line"):
        planned(table)


# ---------------------------------------------------------------------------------- the cross-check


def test_a_measurement_with_a_quarter_of_its_noise_is_refused(table):
    for release in planned(table).releases:
        for other in planned(table, epsilon=28.0).releases:
            if other.label == release.label:
                twin = [
                    replace(part, measurement=theirs.measurement)
                    for part, theirs in zip(release.parts, other.parts)
                ]
                with pytest.raises(ValueError, match="opendp's map says .*nothing is released"):
                    own_release.check(twin, 1)
        own_release.check(release.parts, 1)


def test_a_person_of_many_rows_or_a_doubled_relation_that_was_forgotten_is_refused(table):
    parts = planned(table).releases[0].parts
    for distance in (2, 5):
        with pytest.raises(ValueError, match=f"for {distance} rows"):
            own_release.check(parts, distance)


def test_a_rank_that_opendp_rounds_is_caught_by_its_map(table):
    maker = own_parts.Maker(
        distance=1,
        neighbours="add-remove",
        missing="middle",
        scales={"age": own_parts.scale("age", Fraction(18), Fraction(95))},
        beta=0.05,
    )
    release = maker.quantile("age", Fraction(33333, 100000), "third", Fraction(1))
    with pytest.raises(ValueError, match="opendp's map says"):
        own_release.check(release.parts, 1)


def test_none_of_opendps_constructors_has_completed_vetting(locked):
    number, vetted = own_release.outside_contrib()
    assert number > 80 and vetted == []
    assert all(row["vetting completed"] == "no: contrib" for row in own_release.constructors())


def test_the_constructors_that_are_listed_are_those_that_are_called(table, monkeypatch):
    """Without one of the listed constructors a plan fails; with all others gone it is made."""
    from opendp import combinators, measurements, transformations

    modules = {
        "combinators": combinators,
        "measurements": measurements,
        "transformations": transformations,
    }
    listed = {f"make_{n}" for names in own_release.CONSTRUCTORS.values() for n in names}
    called = set()
    for module in modules.values():
        for name in [n for n in vars(module) if n.startswith("make_")]:
            made = getattr(module, name)
            if made.__module__ == module.__name__:
                monkeypatch.setattr(module, name, _noting(called, name, made))
    planned(table)
    assert called - {"make_chain_tt", "make_chain_mt"} <= listed
    assert {"make_count", "make_sum", "make_clamp", "make_laplace"} <= called


def _noting(called, name, made):
    def noted(*args, **kwargs):
        called.add(name)
        return made(*args, **kwargs)

    return noted


# --------------------------------------------------------------------------- what private data does


ODD = ["", "NA", "nan", "inf", "-inf", "1e400", "-9", "x" * 1000, "\x00", "９", "1;2"]


@pytest.mark.parametrize("missing", own_release.MISSING)
def test_no_private_value_is_an_error_or_a_warning(tmp_path, missing, recwarn):
    header = SMALL.splitlines()[0] + "\n"
    path = tmp_path / "t.csv"
    bodies = ["", "\n\n", '"', ",,,\n", "1\n", *(f"{v},{v},{v},{v}\n" * 3 for v in ODD)]
    for body in bodies:
        path.write_bytes((header + body).encode())
        for person in ("", "who"):
            _, answers = drawn(path, missing=missing, person=person)
            checks_drawn = 2 if missing == "leave out" else 5
            assert len(answers) == 1 + 3 + 3 + 2 + 2 + 3 + 2 * checks_drawn
            assert all(math.isfinite(float(row["released"])) for row in answers)
    assert not recwarn


def test_what_is_missing_or_out_of_bounds_counts_by_the_rule(table):
    texts = {"age": ["10", "", "20", "200"], "vote": ["0", "", "1", " 0"]}
    for missing, filled in (
        ("leave out", [18, 20, 95]),
        ("lower bound", [18, 18, 20, 95]),
        ("middle", [18, 56.5, 20, 95]),
    ):
        release = only(table, quantile="age: 0.5", missing=missing)
        scale = own_parts.scale("age", Fraction(18), Fraction(95))
        steps = release.parts[0].read(texts)
        assert [scale.value(step) for step in steps] == pytest.approx(filled)
    bins = only(table, histogram="age: 18, 30, 95", missing="middle").parts[0].read(texts)
    assert bins == [0, 1, 0, 1]
    assert only(table, counts="vote: 0, 1").parts[0].read(texts) == [0, 2, 1, 2]


def test_a_person_counts_with_so_many_rows_and_rows_of_nobody_do_not(tmp_path):
    path = tmp_path / "t.csv"
    rows = ["30,5,0,a\n", "30,5,0,\n", "30,5,0,NA\n", "30,5,0,Unknown\n"]
    path.write_text("age,income,vote,who\n" + "".join(row * 500 for row in rows) + "30,5,0,b\n")
    plan = planned(path, **{**NOTHING, "person": "who", "rows_per_person": 3, "epsilon": 60.0})
    (row,) = own_release.publish(plan, opened(plan, 60.0), path)
    assert abs(row["released"] - 4) <= 1  # noise of scale 1/20: 2 or more with exp(-40)


def test_people_whose_names_are_no_utf8_are_not_one_person(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"age,income,vote,who\n" + b"30,5,0,M\xfcller\n30,5,0,M\xf6ller\n" * 9)
    plan = planned(path, **{**NOTHING, "person": "who", "expected_rows": 0, "epsilon": 60.0})
    (row,) = own_release.publish(plan, opened(plan, 60.0), path)
    assert row["released"] == 2  # otherwise with exp(-60)


# ---------------------------------------------------------------------------------------- the draws


def released(release, texts, n):
    """Return what is drawn n times, an array for each part."""
    value = release.mechanism.read(texts)
    runs = [release.mechanism.draw(value, rng=noise.SYSTEM) for _ in range(n)]
    return [np.array(part) for part in zip(*runs)]


# Eleven people of the highest age and income; what each part is without noise, by hand, and how far
# a person moves it. Steps of a mean are in own_parts.scale, those of a regression are COARSE.
HALF = own_parts.scale("income", Fraction(1), Fraction(24)).half
UNIT = own_parts.COARSE
NOISY = {
    "count": ({"count": True}, [11], [1]),
    "counts": ({"counts": "vote: 0, 1"}, [[0, 11, 0]], [1]),
    "histogram": ({"histogram": "age: 18, 30, 45, 95"}, [[0, 0, 11]], [1]),
    "mean": ({"mean": "income"}, [11 * HALF, 11], [HALF, 1]),
    "regression": (
        {"regression": "income: age"},  # rows, sum and square of age, of income, their product
        [11, 11 * UNIT, 11 * UNIT**2, 11 * UNIT, 11 * UNIT**2],
        [1, UNIT, UNIT**2, UNIT, UNIT**2],
    ),
}


@pytest.mark.parametrize("kind", NOISY)
def test_each_part_of_each_release_has_the_noise_that_is_stated(table, kind):
    """Each entry of each part is looked at apart, and by how often it is the exact answer."""
    asked, exact, moves = NOISY[kind]
    texts = {"age": ["95"] * 11, "income": ["24"] * 11, "vote": ["1"] * 11}
    release = only(table, epsilon=0.5, **asked)
    parts = released(release, texts, 1000)
    assert len(parts) == len(exact) == len(moves)
    rng = np.random.default_rng(3)
    for samples, truth, most in zip(parts, exact, moves):
        scale = most * len(parts) / 0.5
        samples = samples - np.array(truth)
        for entry in samples.T if samples.ndim == 2 else [samples]:
            for s, assert_that in ((scale, audit.assert_law), (scale / 4, audit.assert_caught)):
                law = lambda z, s=s: geometric.cdf(z, s)
                assert_that(entry, law, discrete=True, rng=rng, alpha=ALPHA)
            if scale > 1e4:  # one in 2e4 is the exact answer, so 7 of 1000 with less than 1e-12
                assert np.sum(entry == 0) < 7


def test_every_number_that_is_published_varies(table):
    """Counts of scale 7 or more: all of 14 draws alike have a probability below 1e-15."""
    runs = [drawn(table, epsilon=1.0, expected_rows=0)[1] for _ in range(14)]
    for rows in zip(*runs):
        assert len({row["released"] for row in rows}) > 1, rows[0]


def test_no_two_entries_share_their_noise(table):
    texts = {"age": ["95"] * 11, "income": ["24"] * 11, "vote": ["1"] * 11}
    for asked in ({"counts": "vote: 0, 1"}, {"histogram": "age: 18, 30, 45, 95"}):
        (samples,) = released(only(table, epsilon=0.5, **asked), texts, 1000)
        entries = (samples - np.median(samples, axis=0)).T
        for a, b in ((0, 1), (0, 2), (1, 2)):
            assert np.mean(entries[a] == entries[b]) < 0.5  # 0.12 if independent


def test_a_quantile_follows_permute_and_flip(table, monkeypatch):
    monkeypatch.setattr(own_parts, "CANDIDATES", 3)
    release = only(table, quantile="age: 0.25", bounds="age: 0, 3", epsilon=0.5)
    values = [0, 0, 1, 1, 1, 2, 3]
    texts = {"age": list(map(str, values))}
    scores = [
        -abs(0.75 * sum(v < c for v in values) - 0.25 * sum(v > c for v in values))
        for c in range(4)
    ]
    law = selection.permute_and_flip_law(scores, 2 * 0.75 / 0.45)
    scale = own_parts.scale("age", Fraction(0), Fraction(3))
    samples, _ = released(release, texts, 3000)
    samples = [round(scale.value(s)) for s in samples]
    audit.assert_law(samples, law, rng=np.random.default_rng(4), alpha=ALPHA)
    far = selection.permute_and_flip_law(scores, 2 * 0.75 / 2.0)
    audit.assert_caught(samples, far, rng=np.random.default_rng(4), alpha=ALPHA)


def test_candidates_lie_close_between_narrow_bounds_and_hold_whole_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "".join(f"{0.3 + i / 10000}\n" for i in range(1000)))
    asked = {**NOTHING, "count": False, "expected_rows": 0, "epsilon": 60.0}
    plan = planned(path, **{**asked, "bounds": "age: 0, 1", "quantile": "age: 0.25, 0.5"})
    answers = own_release.publish(plan, opened(plan, 60.0), path)
    for row, exact in zip(answers[::3], (0.325, 0.35)):
        assert float(row["released"]) == pytest.approx(exact, abs=0.003)
        assert row["quantity"].startswith("of candidates 0.001 apart")
    for ends in ((0, 1), (18, 95), (0, 999), (0, 1000), (-7, 3)):
        scale = own_parts.scale("x", *map(Fraction, ends))
        values = {round(scale.value(step), 5) for step in own_parts._candidates(scale)}
        assert values >= set(range(ends[0], ends[1] + 1)) and 1001 <= len(values) <= 2000


def test_intervals_hold_what_they_say(table):
    """Each misses with probability 0.2 at most; more than 118 of 300 have probability 1e-9 less."""
    rows = [line.split(",") for line in SMALL.splitlines()[1:]]
    texts = {
        "age": [r[0] for r in rows],
        "income": [r[1] for r in rows],
        "vote": [r[2] for r in rows],
    }
    incomes, votes = [float(t) for t in texts["income"]], texts["vote"]
    exact = {
        "number of rows": [200],
        "rows by vote": [votes.count("0"), votes.count("1"), votes.count("2")],
        "mean of income": [np.mean(incomes)],
    }
    plan = planned(table, confidence=0.8)
    for release in plan.releases:
        if release.label in exact:
            value, hit = release.mechanism.read(texts), 0
            for _ in range(300):
                answer = release.answer(release.mechanism.draw(value, rng=noise.SYSTEM))
                inside = [r["from"] <= x <= r["to"] for r, x in zip(answer, exact[release.label])]
                hit += all(inside)
            assert 300 - hit <= 118, release.label


def test_a_quantile_is_as_near_to_its_place_as_it_says(table):
    release = only(table, quantile="age: 0.5", epsilon=0.5, confidence=0.8)
    ages = np.array([float(line.split(",")[0]) for line in SMALL.splitlines()[1:]])
    score = lambda c: abs(np.sum(ages < c) - np.sum(ages > c)) / 2
    best = min(score(c) for c in np.linspace(18, 95, 78 * 4))
    scale = own_parts.scale("age", Fraction(18), Fraction(95))
    drawn, _ = released(release, {"age": ages.astype(str).tolist()}, 300)
    missed = sum(score(scale.value(s)) - best > release.noise for s in drawn)
    assert missed <= 118


def test_the_interval_of_coefficients_holds_the_ridge_fit_without_noise(table):
    release = only(table, regression="income: age", epsilon=20.0, confidence=0.8)
    texts = {"age": [], "income": []}
    for i in range(3000):
        texts["age"].append(str(18 + i % 78))
        texts["income"].append(str(1 + (7 * i) % 24))
    value = release.mechanism.read(texts)
    exact = [sum(vector) if i else len(vector) for i, vector in enumerate(value)]
    centre = [row["released"] for row in release.answer(exact)][:2]  # then the number of rows
    plain = np.polyfit([float(t) for t in texts["age"]], [float(t) for t in texts["income"]], 1)
    assert centre == pytest.approx(plain[::-1], abs=0.05)
    hit = np.zeros(2)
    for _ in range(100):
        answer = release.answer(release.mechanism.draw(value, rng=noise.SYSTEM))
        hit += [row["from"] <= x <= row["to"] for row, x in zip(answer, centre)]
    assert (hit >= 100 - 56).all()  # 0.2 missed, and 6 standard deviations and more beside


def test_printed_ends_are_never_inside():
    rng = np.random.default_rng(5)
    for size in (1e-12, 1e-3, 1.0, 1984.475, 1e9, 1e30):
        for width in (1e-9, 1e-3, 0.3, 40.0):
            for number in size * (1 + 0.1 * rng.standard_normal(20)):
                low, high = number - width * size, number + width * size
                row = own_parts.printed({"released": number, "from": low, "to": high})
                ends = Fraction(row["from"]), Fraction(row["to"])
                assert ends[0] <= Fraction(low) and Fraction(high) <= ends[1]
                assert ends[1] - ends[0] <= Fraction(high - low) * Fraction(103, 100) + 2
                assert ends[0] <= Fraction(row["released"]) <= ends[1]
    whole = {"released": 3, "from": 0, "to": 9}
    assert own_parts.printed(whole) == whole
    odd = own_parts.printed({"released": 0.125, "from": 0.125, "to": 0.125})
    assert (odd["from"], odd["to"]) == ("0", "1")


def test_published_intervals_are_rounded_outward(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("year\n" + "".join(f"{1950 + i % 70}\n" for i in range(5000)))
    asked = {**NOTHING, "count": False, "expected_rows": 0, "mean": "year"}
    plan = planned(path, **{**asked, "bounds": "year: 1900, 2025"})
    exact, real = [], own_parts.printed
    monkeypatch.setattr(own_parts, "printed", lambda row: exact.append(row) or real(row))
    for _ in range(20):
        mean, count = own_release.publish(plan, opened(plan), path)
        raw = exact[-2]
        assert Fraction(mean["from"]) <= raw["from"] < raw["to"] <= Fraction(mean["to"])
        assert Fraction(mean["to"]) - Fraction(mean["from"]) < Fraction(1, 2)
        assert count["quantity"] == own_parts.COUNTED and abs(count["released"] - 5000) < 20


def test_edges_are_printed_as_they_are(table):
    release = only(table, histogram="age: 1234567, 1234568, 1234569.25, 1e20")
    names = [row["quantity"] for row in release.answer([[1, 2, 3]])]
    assert names == [
        "1234567 to below 1234568",
        "1234568 to below 1234569.25",
        "1234569.25 to 1e+20",
    ]


def test_a_mean_of_numbers_that_are_not_read_shows_that_none_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("income\n" + '"3,5"\n1 000\n$5\n5%\n' * 100)
    asked = {**NOTHING, "count": False, "expected_rows": 0, "mean": "income"}
    _, answers = drawn(path, **{**asked, "bounds": "income: 1, 24"})
    assert answers[1]["quantity"] == own_parts.COUNTED and answers[1]["released"] < 30


@pytest.mark.parametrize("missing", own_release.MISSING)
def test_numbers_that_are_not_read_are_warned_of_under_every_rule(tmp_path, missing):
    """Decimal commas: without the check, a filled mean would be narrow and wrong.

    The noise of a check has scale 10/9, that of a count less: 40 of 400 rows have exp(-36).
    """
    path = tmp_path / "t.csv"
    asked = {
        **{**NOTHING, "count": False, "expected_rows": 0, "epsilon": 36.0, "missing": missing},
        "confidence": 0.9999,
        "bounds": "age: 18, 95; income: 1, 24",
        "mean": "income",
        "quantile": "income: 0.5",
        "regression": "age: income",
        "histogram": "income: 1, 12, 24",
    }
    for comma, some in ((True, 0), (False, 0), (False, 200)):
        lines = [
            '40,"3,5"\n' if comma or i < some else f"{20 + i % 60},{i % 24}\n" for i in range(400)
        ]
        path.write_text("age,income\n" + "".join(lines))
        plan = planned(path, **asked)
        answers = own_release.publish(plan, opened(plan, 36.0), path)
        warned = [s for s in own_release.report(plan, answers) if s.startswith("WARNING")]
        filled = missing != "leave out"
        if comma or some:
            least = {True: 4 if filled else 3, False: 4 if filled else 1}[comma]
            assert len(warned) == least, warned
        else:
            assert not warned
        for row in answers:
            if row["quantity"] == own_parts.UNREAD:
                assert abs(row["released"] - (400 if comma else some)) < 100
            if row["quantity"] == own_parts.READ:
                assert abs(row["released"] - (0 if comma else 400 - some)) < 100


def test_a_category_may_be_named_as_a_check_is(table):
    for name in (own_parts.UNREAD, own_parts.COUNTED):
        plan, answers = drawn(table, **{**NOTHING, "counts": f"vote: {name}"})
        assert name in {row["quantity"] for row in answers}
        assert not any("WARNING" in said for said in own_release.report(plan, answers))


def test_a_check_is_drawn_with_the_noise_that_is_paid_for(table):
    texts = {"age": ["95"] * 11, "income": ["24"] * 4 + ["3,5"] * 7}
    for kind in ({"mean": "income"}, {"quantile": "income: 0.5"}, {"regression": "age: income"}):
        release = only(table, epsilon=5.0, missing="middle", **kind)
        assert sum(part.epsilon for part in release.parts) == release.epsilon == 5
        assert release.mechanism.costs == (accounting.Pure(5),)
        check = release.parts[-1]
        assert check.epsilon == Fraction(1, 2) and check.moves == 1
        assert sorted(check.read(texts)) == [0] * 4 + [1] * 7
        samples = released(release, texts, 1000)[-1] - np.array([4, 7])
        rng = np.random.default_rng(6)
        for entry in samples.T:
            for s, assert_that in ((2, audit.assert_law), (0.5, audit.assert_caught)):
                law = lambda z, s=s: geometric.cdf(z, s)
                assert_that(entry, law, discrete=True, rng=rng, alpha=ALPHA)


def test_the_plan_says_what_it_understood_and_the_noise_in_the_unit_of_a_mean(table):
    plan = planned(table, person="who", rows_per_person=3, epsilon=60.0)
    shown = {row["release"]: row for row in own_release.shown(plan)}
    by_vote = shown["rows by vote (at most 3 of each person)"]
    assert by_vote["understood as"] == "0 | 1 | (any other)"
    assert "number of rows (at most 3 of each person)" in shown
    said = float(shown["mean of income"]["at expected_rows"].split()[1].rstrip(","))
    (mean,) = [release for release in plan.releases if release.kind == "mean"]
    half = mean.parts[0].moves
    for total in (-200 * half, 200 * half):  # everybody at a bound
        row = mean.answer([total, 200])[0]
        assert said * 0.9 <= row["to"] - row["from"] <= said * 1.01
    for other in (0, 100 * half):
        row = mean.answer([other, 200])[0]
        assert max(row["to"] - row["released"], row["released"] - row["from"]) <= 1.01 * said
    rank = shown["quantile 0.5 of age"]["at expected_rows"]
    assert rank.startswith("about rank 0.") and " to 0." in rank
    assert {
        row["at expected_rows"] for row in own_release.shown(planned(table, expected_rows=0))
    } == {""}


def test_the_report_speaks_of_what_was_asked_for(table):
    few = " ".join(own_release.report(planned(table, **NOTHING), []))
    assert few.startswith("1 answer about t.csv is planned")
    assert "ridge" not in few and "quantile" not in few
    every = " ".join(own_release.report(planned(table), []))
    assert "ridge" in every and "A quantile is" in every and "7 answers" in every


def test_a_seed_is_refused_and_the_ledger_holds_the_whole_plan(table):
    plan, answers = drawn(table, person="who", rows_per_person=5, expected_rows=0)
    assert {row["release"] for row in answers} == {release.label for release in plan.releases}
    release = plan.releases[0]
    with pytest.raises(ValueError, match="without a seed"):
        release.mechanism({"age": []}, rng=np.random.default_rng(1))
    with pytest.raises(ValueError, match="label must be a line of the plan"):
        ledger = opened(plan)
        own_release.publish(plan, ledger, table)
        own_release.publish(plan, ledger, table)
    with pytest.raises(accounting.BudgetExceeded):
        opened(plan, epsilon=6.9)


def test_the_report_says_whose_guarantee_it_is(table):
    mine = " ".join(own_release.report(planned(table, rows_per_person=3, expected_rows=0), []))
    assert "planned, none released" in mine and "assumed, not enforced" in mine
    plan, answers = drawn(table, person="who", neighbours="replace-one", expected_rows=0)
    theirs = " ".join(own_release.report(plan, answers))
    for said in (
        "were released",
        "column 'who'",
        "'NA', 'unknown'",
        "one person replaced",
        "epsilon 7 and delta 0",
        "1 for number of rows (at most 1 of each person), 1 for rows by vote (at most 1 of each",
        "A row is a line of the file",
        "counts of vote: 0, 1; histogram of age: 18, 30, 45, 95; mean of income",
    ):
        assert said in theirs


def test_the_epsilon_of_the_report_is_not_rounded_down(table):
    plan = planned(table, epsilon=7.000000000000001)
    said = own_release.report(plan, [])[1].split("with epsilon ")[1].split()[0]
    assert Fraction(said) >= plan.facts["epsilon"] > 7
    for epsilon in (
        Fraction(1, 3),
        Fraction(2, 3),
        Fraction(20),
        Fraction(1, 1000),
        Fraction(4, 7),
    ):
        said = Fraction(own_release._short(epsilon))
        assert epsilon <= said <= epsilon * (1 + Fraction(1, 10**5))


# ------------------------------------------------------------------------------------- the notebook


def executed(tmp_path, warm, **values):
    out = tmp_path / "out.ipynb"
    with kernels.use(warm):
        papermill.execute_notebook(
            NOTEBOOK,
            out,
            parameters=values,
            progress_bar=False,
            execution_timeout=120,
            kernel_name="python3",
            language="python",
        )
    return nbformat.read(out, as_version=4)


def shown(nb):
    return json.dumps([cell.get("outputs", []) for cell in nb.cells])


def student(tmp_path):
    """The table of a Portuguese school as it is distributed: semicolons, some fields quoted."""
    folder = os.environ.get("DPUTILS_DATA")
    if not folder:
        pytest.skip("DPUTILS_DATA names no local copy of the optional tables")
    path = tmp_path / "student.csv"
    path.write_bytes(gzip.decompress((Path(folder) / "people/student_por.csv.gz").read_bytes()))
    return path, {
        "separator": "semicolon",
        "bounds": "age: 15, 22; G3: 0, 20; absences: 0, 93",
        "counts": "school: GP, MS; Mjob: at_home, health, other, services, teacher",
        "histogram": "absences: 0, 1, 5, 10, 93",
        "mean": "G3",
        "quantile": "G3: 0.25, 0.5, 0.75",
        "regression": "G3: age, absences",
        "expected_rows": 649,
        "epsilon": 4.0,
    }


def insurance(tmp_path):
    return setup.ROOT / "data/randhie.csv", {
        "person": "person",
        "rows_per_person": 5,
        "bounds": "visits: 0, 30; age: 0, 70",
        "counts": "year: 1, 2, 3, 4, 5",
        "histogram": "age: 0, 18, 40, 70",
        "mean": "visits",
        "quantile": "visits: 0.5, 0.9",
        "regression": "visits: age",
        "expected_rows": 20000,
        "epsilon": 2.0,
    }


def cities(tmp_path):
    return setup.ROOT / "data/cities.csv", {
        "bounds": "latitude: 15, 75; population: 0, 10000000",
        "counts": "state: CA, TX, NY",
        "histogram": "population: 0, 20000, 100000, 10000000",
        "mean": "latitude",
        "quantile": "population: 0.5",
        "regression": "",
        "expected_rows": 1000,
        "neighbours": "replace-one",
    }


@pytest.mark.parametrize("real", [insurance, cities, student], ids=lambda made: made.__name__)
def test_papermill_releases_a_table_that_was_not_made_for_it(real, tmp_path, warm):
    import pandas as pd

    path, values = real(tmp_path)
    nb = executed(
        tmp_path,
        warm,
        path=str(path),
        decided_for=path.name,
        no_line_breaks_in=path.name,
        publish=True,
        **values,
    )
    record = chapter.read_record(nb)
    answers = record["results"]["answers"]
    assert record["results"]["published"] is True
    assert record["ledger"]["epsilon_spent"] == record["parameters"]["epsilon"]
    assert {entry["randomness"] for entry in record["ledger"]["entries"]} == {"system"}
    separator = {"semicolon": ";"}.get(values.get("separator"), ",")
    data = pd.read_csv(path, sep=separator)
    first = answers[0]  # ten times as far as the noise of a count goes in 19 of 20 runs
    assert abs(first["released"] - len(data)) <= 10 * (first["to"] - first["released"])
    assert "Guarantee" in shown(nb) and str(path.parent) not in shown(nb).replace(str(path), "")


def test_the_executed_copy_holds_no_private_value(tmp_path, warm):
    path = tmp_path / "secret.csv"
    lines = [f"{31.4159 + i},{17.2718},{i % 2},person-{90210 + i}\n" for i in range(60)]
    path.write_text("age,income,vote,who\n" + "".join(lines))
    asked = {
        **{k: v for k, v in ASKED.items() if k not in ("decided_for", "expected_rows")},
        "person": "who",
        "quantile": "",
    }
    asked |= {"path": str(path), "publish": True, "expected_rows": 0}
    asked |= dict.fromkeys(("decided_for", "no_line_breaks_in"), "secret.csv")
    out = tmp_path / "out.ipynb"
    with kernels.use(warm):
        run.execute("release-template", asked, out)
    text = out.read_text()
    nb = nbformat.reads(text, as_version=4)
    assert chapter.read_record(nb)["results"]["published"] is True
    for metadata in (nb.metadata, *(cell.metadata for cell in nb.cells)):
        assert not {"papermill", "execution"} & set(metadata)  # how long the draw took
    assert "duration" not in text
    for line in lines:
        for field in line.strip().split(","):
            assert len(field) < 3 or field not in text


def test_a_refused_run_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run.main(["release-template", "-p", "seed=1"]) == 2
    assert "unknown parameter 'seed'" in capsys.readouterr().err
    assert run.main(["release-template", "-p", "neighbours=bounded", "-p", "epsilon=0"]) == 2
    assert run.main(["release-template", "-p", "path=none.csv", "-p", "publish=true"]) == 1
    assert "path must name a CSV file that exists" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_stored_page_is_a_plan_without_a_draw():
    record = chapter.read_record(NOTEBOOK)
    assert record["results"] == {"published": False, "answers": []}
    assert record["ledger"]["entries"] == []


def test_quotation_marks_hold_a_name_together(tmp_path):
    """Commas, semicolons and colons within them are letters, in a category and in a column."""
    path = tmp_path / "t.csv"
    path.write_text(
        'ward,"age: years",who\n' + '"Emergency, Trauma",50,a\n' * 900 + "Eye; Ear,60,b\n" * 400
    )
    asked = (
        ASKED
        | NOTHING
        | {
            "bounds": '"age: years" : 0, 100',
            "counts": 'ward: "Emergency, Trauma" , "Eye; Ear", Cardiology',
            "mean": '"age: years"',
            "epsilon": 2,
            "nobody": 'NA, "not, known"',
        }
    )
    plan = own_release.plan(path, **asked)
    assert plan.facts["nobody"] == ("NA", "not, known")
    ledger = accounting.Ledger(2, neighbours="add-remove", unit="person", plan=plan.lines)
    answers = own_release.publish(plan, ledger, path)
    released = {row["quantity"]: row["released"] for row in answers}
    for name, number in (("Emergency, Trauma", 900), ("Eye; Ear", 400), ("Cardiology", 0)):
        assert abs(released[name] - number) < 100


def test_the_printed_commands_name_parameters_of_the_page():
    text = "\n".join(c.source for c in nbformat.read(NOTEBOOK, as_version=4).cells)
    commands = [c for c in text.split("```") if c.strip().startswith("python -m dputils.run")]
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "))
        given = [word.partition("=") for word in words if "=" in word]
        names = {parameter.name for parameter in read_parameters(read_notebook(NOTEBOOK))}
        assert {name for name, _, _ in given} <= names
        assert {"decided_for", "no_line_breaks_in"} <= {name for name, _, _ in given}
