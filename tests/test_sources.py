"""The list of claims is sound; its checks print a short line or raise where it is contradicted."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from dputils.book import errata, sources

RECORDS = list(sources.claims().itertuples(index=False))
HOLDS, WRONG, IMPRECISE, UNCHECKED = "000-T2.2", "000-T2.4-avg", "001-lapf", "000-T2.5"


# The list


def test_all_claims_of_the_five_documents_are_listed():
    found = Counter(one[:3] for one in {errata.undivided(record.id) for record in RECORDS})
    assert found == {"000": 143, "001": 39, "002": 53, "003": 84, "004": 28}
    assert len(RECORDS) == 363


def test_ids_are_unique_plain_and_start_with_their_source():
    assert len({record.id for record in RECORDS}) == len(RECORDS)
    for record in RECORDS:
        assert re.fullmatch(r"00[0-4]-[A-Za-z0-9.-]{1,14}", record.id), record.id
        assert record.id.startswith(record.source + "-")


@pytest.mark.parametrize(
    "column, allowed",
    [
        ("verdict", {*sources.VERDICTS, ""}),
        ("artefact", {"yes", "no", "undecidable"}),
        ("kind", {"definition", "theorem", "number", "algorithm", "empirical", "figure"}),
    ],
)
def test_columns_keep_to_their_words(column, allowed):
    assert {getattr(record, column) for record in RECORDS} <= allowed


def test_every_claim_names_a_chapter_by_its_short_name():
    for record in RECORDS:
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", record.chapter), record.id


@pytest.mark.parametrize(
    "chapter, stem, expected",
    [
        ("laplace-mechanism", "04-laplace-mechanism", True),
        ("laplace-mechanism", "03-laplace-mechanism", True),
        ("04-laplace-mechanism", "04-laplace-mechanism", False),
        ("04", "04-laplace-mechanism", False),
        ("laplace", "04-laplace-mechanism", False),
        ("mechanism", "04-laplace-mechanism", False),
        ("", "04-laplace-mechanism", False),
    ],
)
def test_a_claim_belongs_to_a_notebook_by_its_short_name(chapter, stem, expected):
    record = sources.claim(HOLDS)._replace(chapter=chapter)
    assert sources.belongs(record, stem) is expected


def test_every_verdict_has_what_it_needs():
    for record in RECORDS:
        assert record.where and record.claim, record.id
        assert bool(record.evidence) == bool(record.verdict), (
            f"{record.id}: evidence goes with a verdict"
        )
        assert record.correction or record.verdict not in ("wrong", "imprecise"), (
            f"{record.id} lacks a correction"
        )
        assert not record.correction or record.verdict in ("wrong", "imprecise", "not checkable"), (
            record.id
        )


def test_artefacts_of_text_extraction_never_count_as_errors():
    assert not {("yes", "wrong"), ("yes", "imprecise"), ("undecidable", "wrong")} & {
        (record.artefact, record.verdict) for record in RECORDS
    }


def test_cells_are_single_lines_of_plain_ascii():
    for record in RECORDS:
        for text in record:
            assert text.isascii() and text.isprintable(), (record.id, text)
            assert text == " ".join(text.split()), (record.id, text)


def test_the_file_survives_pandas_and_csv(tmp_path):
    again = pd.read_csv(sources.PATH, dtype=str, keep_default_na=False, encoding="utf-8")
    pd.testing.assert_frame_equal(again, sources.claims(), check_dtype=False)
    again.to_csv(tmp_path / "claims.csv", index=False, lineterminator="\n")
    assert (tmp_path / "claims.csv").read_bytes() == sources.PATH.read_bytes()


def test_claims_returns_a_table_of_its_own():
    table = sources.claims()
    table.loc[0, "verdict"] = "spoilt"
    assert "spoilt" not in set(sources.claims()["verdict"])


def test_claims_are_found_from_any_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources._records.cache_clear()
    assert sources.claim(WRONG).chapter == "laplace-mechanism"


@pytest.mark.parametrize("id", ["000-T2.4-avgs", 5, ["000-T2.2"]])
def test_an_unknown_id_is_refused(id):
    with pytest.raises(
        ValueError, match="id must be a claim of data/claims.csv, got " + re.escape(repr(id))
    ):
        sources.claim(id)


def test_an_unknown_id_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean '000-T2.4-avg'"):
        sources.check("000-T2.4-avgs", holds=True, because="x")


# The checks


def test_agreement_supports_holds(capsys):
    sources.check(
        HOLDS,
        printed=8.4,
        computed=np.float64(42) / 5,
        tolerance=0.05,
        because="grades of Table 2.2",
    )
    assert capsys.readouterr().out == (
        "000-T2.2            holds          "
        "printed 8.4           computed 8.4           grades of Table 2.2\n"
    )


def test_a_difference_with_its_correction_supports_wrong(capsys):
    sources.check(WRONG, printed=8.375, computed=8.625, tolerance=5e-4, corrected=8.625)
    assert (
        "wrong          printed 8.375         computed 8.625         Table 2.4"
        in capsys.readouterr().out
    )


def test_a_failing_statement_with_its_narrowed_form_supports_imprecise(capsys):
    because = "the factor also takes values up to exp(1/lambda)"
    sources.check(IMPRECISE, holds=np.False_, corrected=np.True_, because=because)
    assert capsys.readouterr().out == (f"001-lapf            imprecise      {because}\n")


def test_a_reason_supports_not_checkable(capsys):
    sources.not_checkable(UNCHECKED, "two draws, no scale")
    sources.not_checkable(["000-T5.3-row1", "000-T5.3-row2"], "a single draw")
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == [UNCHECKED, "000-T5.3-row1", "000-T5.3-row2"]


@pytest.mark.parametrize(
    "id, arguments, message",
    [
        (
            HOLDS,
            dict(printed=8.4, computed=8.5, tolerance=0.05),
            "'holds', but printed and computed differ",
        ),
        (
            HOLDS,
            dict(printed=8.4, computed=np.nan, tolerance=0.05),
            "but printed and computed differ",
        ),
        (
            HOLDS,
            dict(printed=(7.5, 8), computed=(7.5, 8.2), tolerance=0.1),
            "but printed and computed differ",
        ),
        (
            HOLDS,
            dict(printed=8.4, computed=8.5, tolerance=0.05, corrected=8.5),
            "but printed and computed differ",
        ),
        (
            HOLDS,
            dict(holds=False, corrected=True, because="no"),
            "'holds', but the statement fails",
        ),
        (
            WRONG,
            dict(printed=8.375, computed=8.375, tolerance=5e-4, corrected=8.625),
            "but printed and computed agree",
        ),
        (
            WRONG,
            dict(printed=8.375, computed=8.5, tolerance=5e-4, corrected=8.625),
            "but its correction is not confirmed",
        ),
        (IMPRECISE, dict(holds=True, because="yes"), "'imprecise', but the statement holds"),
        (
            IMPRECISE,
            dict(holds=False, corrected=False, because="no"),
            "'imprecise', but its correction is not confirmed",
        ),
        (UNCHECKED, dict(holds=True, because="yes"), "'not checkable', but the statement holds"),
        (
            UNCHECKED,
            dict(holds=False, corrected=True, because="no"),
            "'not checkable', but the statement fails",
        ),
    ],
)
def test_a_contradicted_record_raises_and_prints_nothing(id, arguments, message, capsys):
    with pytest.raises(
        sources.ContradictedClaim, match=f"^{re.escape(id)} is recorded as .*{message}"
    ):
        sources.check(id, **arguments)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "id, verdict", [(HOLDS, "holds"), (WRONG, "wrong"), (IMPRECISE, "imprecise")]
)
def test_calling_a_decided_claim_not_checkable_raises(id, verdict, capsys):
    with pytest.raises(
        sources.ContradictedClaim, match=f"{id} .*'{verdict}', but was called not checkable"
    ):
        sources.not_checkable(id, "too hard")
    with pytest.raises(
        sources.ContradictedClaim, match=f"{id} .*'{verdict}', but was called not checkable"
    ):
        sources.not_checkable([UNCHECKED, id], "too hard")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [UNCHECKED]


@pytest.mark.parametrize(
    "call",
    [
        lambda id: sources.check(id, printed=1, computed=1, tolerance=0),
        lambda id: sources.check(id, holds=False, corrected=True, because="x"),
        lambda id: sources.not_checkable(id, "x"),
    ],
)
def test_an_open_claim_raises(call, monkeypatch):
    record = sources.claim(HOLDS)._replace(id="open", verdict="")
    monkeypatch.setattr(sources, "_records", lambda: {"open": record})
    with pytest.raises(
        sources.ContradictedClaim, match="^open has no verdict yet: decide it in data/claims.csv"
    ):
        call("open")


@pytest.mark.parametrize(
    "id, arguments, message",
    [
        (HOLDS, dict(printed=8.4, computed=8.4), "numbers need printed, computed and tolerance"),
        (HOLDS, dict(printed=8.4, tolerance=0.1), "numbers need printed, computed and tolerance"),
        (HOLDS, dict(), "statements need holds and because"),
        (
            HOLDS,
            dict(printed=8.4, computed=8.4, tolerance=-0.1),
            "tolerance must not be negative, got -0.1",
        ),
        (HOLDS, dict(printed=8.4, computed=8.4, tolerance=np.inf), "tolerance must be finite"),
        (
            HOLDS,
            dict(printed=(8, 9), computed=(8, 9, 10), tolerance=0.1),
            r"one shape, got \(2,\) and \(3,\)",
        ),
        (
            HOLDS,
            dict(printed=8.4, computed=8.4, tolerance=0.1, corrected=8.4),
            "'holds' and takes no corrected",
        ),
        (HOLDS, dict(holds=True, printed=8.4, because="x"), "a statement takes holds and because"),
        (HOLDS, dict(holds=True), "a statement takes holds and because"),
        (HOLDS, dict(holds=1, because="x"), "must be True or False, got 1"),
        (WRONG, dict(printed=8.375, computed=8.625, tolerance=5e-4), "'wrong' and needs corrected"),
        (IMPRECISE, dict(holds=False, because="x"), "'imprecise' and needs corrected"),
        (
            [HOLDS, WRONG],
            dict(printed=8.4, computed=8.4, tolerance=0.1),
            "2 ids need as many printed, computed",
        ),
        (
            [HOLDS, WRONG],
            dict(printed=(8, 9), computed=(8,), tolerance=0.1),
            "2 ids need as many printed, computed",
        ),
        ([HOLDS, WRONG], dict(holds=True, because="x"), "statements go one by one"),
    ],
)
def test_misuse_is_refused(id, arguments, message):
    with pytest.raises(ValueError, match=message):
        sources.check(id, **arguments)


def test_not_checkable_needs_a_reason():
    with pytest.raises(
        ValueError, match="reason must say why the claim cannot be checked, got ' '"
    ):
        sources.not_checkable(UNCHECKED, " ")


def test_a_list_of_ids_is_checked_element_by_element(capsys):
    ours = np.array([8.4, 8.625])
    sources.check(
        [HOLDS, WRONG], printed=[8.4, 8.375], computed=ours, tolerance=5e-4, corrected=[None, 8.625]
    )
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        [HOLDS, "holds"],
        [WRONG, "wrong"],
    ]
    with pytest.raises(sources.ContradictedClaim, match="^000-T2.4-avg is recorded as 'wrong'"):
        sources.check([HOLDS, WRONG], printed=[8.4, 8.625], computed=[8.4, 8.625], tolerance=5e-4)


def test_a_tolerance_met_exactly_is_met():
    sources.check(HOLDS, printed=8.4, computed=8.4 + 0.05, tolerance=0.05)
    with pytest.raises(sources.ContradictedClaim):
        sources.check(HOLDS, printed=8.4, computed=8.4 + 0.0501, tolerance=0.05)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
@pytest.mark.parametrize("printed", [8.4, -8.4, 1e12, 1e-12])
def test_a_tolerance_is_a_few_units_in_the_last_place_wide_at_most(printed, tolerance):
    tolerance, unit = tolerance * abs(printed), np.spacing(abs(printed))
    for away in (-1, 1):
        near = printed + away * (tolerance + 4 * unit)
        sources.check(HOLDS, printed=printed, computed=near, tolerance=tolerance)
        far = printed + away * (tolerance + 20 * unit)
        with pytest.raises(sources.ContradictedClaim):
            sources.check(HOLDS, printed=printed, computed=far, tolerance=tolerance)


def test_equal_infinities_agree():
    sources.check(HOLDS, printed=np.inf, computed=np.inf, tolerance=0)
    with pytest.raises(sources.ContradictedClaim):
        sources.check(HOLDS, printed=np.inf, computed=-np.inf, tolerance=1)


@pytest.mark.parametrize(
    "printed, computed, line",
    [
        (-0.0, 0.0, "printed 0             computed 0 "),
        (np.float64(1) / 3, 0.33333, "printed 0.3333        computed 0.3333 "),
        (14, 14.0, "printed 14            computed 14 "),
        (123456, 123456, "printed 123456        computed 123456 "),
        (1234567.0, 1234567.0, "printed 1.235e+06     computed 1.235e+06 "),
        ((2, 3), np.array([2.0, 3.0]), "printed (2, 3)        computed (2, 3) "),
        (np.arange(24.0), np.arange(24.0) + 4e-4, "printed 24 values     computed gap 0.0004 "),
    ],
)
def test_numbers_are_shown_short(printed, computed, line, capsys):
    sources.check(HOLDS, printed=printed, computed=computed, tolerance=1e-3)
    assert line in capsys.readouterr().out


def test_differing_arrays_say_how_many_differ(capsys):
    ours = np.arange(24.0) + (np.arange(24) < 5)
    sources.check(WRONG, printed=np.arange(24.0), computed=ours, tolerance=0.5, corrected=ours)
    assert "printed 24 values     computed 5 differ " in capsys.readouterr().out


def test_lines_are_aligned_and_short(capsys):
    words = "many words " * 20
    for record in RECORDS:
        if record.verdict == "holds":
            sources.check(
                record.id, printed=-1.2345e-10, computed=-1.2345e-10, tolerance=0, because=words
            )
            sources.check(record.id, holds=True, because=words)
        elif record.verdict == "not checkable":
            sources.not_checkable(record.id, words)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 110 and all(
        line.endswith("...") and line == line.rstrip() for line in lines
    )
    assert {line[18:20] + line[33:35] for line in lines} == {"    "}
    assert " " not in {line[place] for line in lines for place in (0, 20, 35)}
