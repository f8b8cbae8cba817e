"""The errata: every claim has one verdict and one deciding cell, and what the page shows is what
the list of claims and the chapters hold.
"""

import json
import re
import shutil
from collections import Counter
from html import escape

import nbformat
import pytest

from dputils.book import chapter, errata, sources
from tools import stored

PATH = chapter.BOOK / "93-errata-of-the-sources.ipynb"
NB = nbformat.read(PATH, as_version=4)
CLAIMS = {id: sources.claim(id) for id in sources.claims()["id"]}
WRITTEN = {path.stem[3:] for path in chapter.BOOK.glob("[0-9][0-9]-*.ipynb")}
STORY = re.compile(r"#### (\d+)\. ")
SIGNED = re.compile(r"(?<![\w.])(?:(?<!\d)-)?\d+(?:[.,]\d+)*(?:e-?\d+)?")
TOLD = {  # the numbers of a story with the words around them
    "000-T2.4-avg": ["without Alex as {claim[0]}", "left have the average {correction[0]}"],
    "000-T4.2-row5": ["were {correction[1]} and not {claim[3]}"],
    "001-em-p": [
        "add up to {evidence[0]}",
        "the scores {claim[0]} and {claim[1]}",
        "probabilities are {claim[2]} and {claim[3]}",
        "If it is the second, it should be {correction[1]}",
        "if it is the first, {correction[3]}",
    ],
    "001-dt-val": [
        "gain is {claim[0]} for age and {claim[1]} for income",
        "more than {line[0]} bit",
        "by age, the best cut gains {line[1]}; by income, it gains {line[2]}",
    ],
    "000-E2.4": ["delta is at most {evidence[0]}:"],
    "002-lap-scale": ["a nominal {line[0]} is really {line[1]}", "At epsilon {evidence[0]} both"],
    "000-R5.1": ["tends to {evidence[2]} at the split {evidence[3]}/{evidence[4]}"],
    "000-T5.3-p": [
        "has the scale {evidence[1]}.",
        "a mean size of {evidence[0]}",
        "has the probability {evidence[2]}, less than",
        "A scale of {correction[0]}/{correction[1]} would",
    ],
    "000-T5.3-6-bucket": [
        "All {line[0]} are printed inside",
        "about {correction[0]} of them",
        "sum and count, {evidence[2]}.",
        "The chance of all is {line[1]}",
    ],
    "000-E-sens": [
        "grades that is {line[1]} (or {line[0]}, as printed,",
        "all tables of five grades it is {line[2]}",
    ],
    "000-4.2-sens": [
        "the distance {evidence[7]} and",
        "response from {evidence[0]} to {evidence[1]}:",
        "slope moves by {line[1]}.",
        "At the distance {evidence[8]} it moves by {line[2]},",
    ],
    "003-S3.3-sens": [
        "no row is longer than {claim[0]},",
        "by at most {claim[0]}.",
        "{evidence[1]} rows of length 1,",
        "add one of length {evidence[0]}",
        "sums move by about {line[0]}",
    ],
    "003-A2-joint": [
        "For delta {evidence[12]}, where epsilon {line[1]} is stated,",
        "the exact account gives {line[0]};",
        "up to epsilon {correction[1]}",
    ],
    "003-eps1-a": [
        "epsilon is below {correction[0]}",
        "must not exceed {claim[0]}",
        "for delta {evidence[1]} it is, up to epsilon {line[0]}",
    ],
    "000-5.4-base": [
        "error is {line[0]}, below all four",
        "its table gives {evidence[1]}",
        "expected errors are {line[1]} to {line[2]}",
    ],
    "002-F4": [
        "at epsilon {claim[0]} with plain privacy at {claim[1]}",
        "up to {claim[0]}, plain privacy up to {claim[1]}",
        "both promise {claim[0]} there",
    ],
    "002-order2": ["at most {evidence[0]} km"],
}
HREF = re.compile(r'href="([^"]+)"')


def waiting(found, claims=CLAIMS, written=WRITTEN):
    """Return the claims without a verdict or a cell whose chapter is there."""
    return [
        id
        for id, claim in claims.items()
        if claim.chapter in written and not (id in found and claim.verdict in sources.VERDICTS)
    ]


def stories(nb):
    """Return `(number, text, id)` of each story: a heading with a number, then one `show`."""
    found = []
    for cell, below in zip(nb.cells, nb.cells[1:]):
        if number := STORY.match(cell.source):
            shown = re.fullmatch(r'errata\.show\("([^"]+)"(?:, "[^"]+")?\)', below.source)
            found.append((int(number[1]), cell.source, shown and shown[1]))
    return found


def filled(phrases, one):
    """Return phrases with the numbers of a claim in the places that name their field and rank.

    `{claim[0]}` is the first number of what the document says, `{line[1]}` the second that the
    deciding cell printed; signs and digits are as the field has them.
    """
    fields = {**one.claim._asdict(), "line": one.line}
    numbers = {name: SIGNED.findall(text) for name, text in fields.items()}
    return [phrase.format(**numbers) for phrase in phrases]


def untold(text, phrases, one):
    """Return the phrases that a story lacks, and its numbers that stand in none of them."""
    text = " ".join(text.split())
    phrases = filled(phrases, one)
    rest = text
    for phrase in phrases:
        rest = rest.replace(phrase, " ", 1)
    free = SIGNED.findall(re.sub(r"^#### \d+\.|\$[^$]*\$", " ", rest))
    return [phrase for phrase in phrases if phrase not in text] + free


def outputs(nb, mime):
    """Return the stored outputs of a form, one text a cell that calls `errata`, by its source."""
    return {
        cell.source: "\n".join(output.get("data", {}).get(mime, "") for output in cell.outputs)
        for _, cell in stored.code_cells(nb)
        if cell.source.startswith("errata.")
    }


# ---- the claims and their cells ------------------------------------------------------------------


def test_every_claim_has_one_verdict_and_one_deciding_cell():
    found = errata.decisions()
    assert waiting(found) == []
    assert found.keys() <= CLAIMS.keys()
    open_claims = CLAIMS.keys() - found.keys()
    assert all(CLAIMS[id].chapter not in WRITTEN for id in open_claims)
    assert all(one.line or one.claim.chapter == errata.OWN for one in found.values())


def test_the_cell_of_a_claim_is_there_and_calls_its_check():
    cells = {}
    for id, one in errata.decisions().items():
        if one.notebook not in cells:
            nb = json.loads((chapter.BOOK / f"{one.notebook}.ipynb").read_text(encoding="utf-8"))
            cells[one.notebook] = {cell["id"]: "".join(cell["source"]) for cell in nb["cells"]}
        assert id in errata.checked(cells[one.notebook][one.cell])


def test_a_claim_that_nobody_decides_is_found():
    found = dict(errata.decisions())
    del found["000-T2.2"]
    open_one = {"000-E2.1": CLAIMS["000-E2.1"]._replace(verdict="")}
    assert waiting(found) == ["000-T2.2"]
    assert waiting(errata.decisions(), CLAIMS | open_one) == ["000-E2.1"]
    assert waiting(found, CLAIMS, WRITTEN - {"privacy-in-databases"}) == []


@pytest.fixture
def folder(tmp_path):
    """A folder with two chapters in it, and a function that changes the text of one."""
    for stem in ("01-privacy-in-databases", "06-exponential-mechanism"):
        shutil.copy(chapter.BOOK / f"{stem}.ipynb", tmp_path)

    def change(stem, old, new):
        path = next(tmp_path.glob(f"{stem}-*.ipynb"))
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        return errata.decisions.__wrapped__(tmp_path)

    return change


def test_a_check_that_is_gone_leaves_its_claim_undecided(folder):
    found = folder("06", r"sources.check(\"001-em-p\"", r"print(\"001-em-p\"")
    both = {"privacy-in-databases", "exponential-mechanism"}
    assert waiting(found, CLAIMS, both) == ["001-em-p"]


@pytest.mark.parametrize(
    ("stem", "old", "new", "message"),
    [
        ("01", '"000-T2.1"', '"001-em-p"', "belongs to chapter exponential-mechanism"),
        ("06", '"001-em-p"', '"000-T2.1"', "000-T2.1 is decided twice|belongs to chapter"),
        ("01", "000-T2.1            holds", "000-T2.1            wrong", "does not print 000-T2.1"),
        ("01", "000-T2.1            holds", "000-T2.X            holds", "does not print 000-T2.1"),
        ("01", '"000-T2.2', '"000-T2.1', "000-T2.1 is decided twice"),
        ("06", 'sources.check("001-em-p"', 'sources.not_checkable("001-em-p"', "calls not_check"),
        ("06", "they add up to 1.10\\n", "they add...\\n", "has no room"),
    ],
)
def test_a_check_elsewhere_twice_or_of_another_verdict_is_refused(folder, stem, old, new, message):
    with pytest.raises(ValueError, match=message):
        folder(stem, old.replace('"', r"\""), new.replace('"', r"\""))


def test_a_claim_of_several_statements_counts_once():
    assert errata.undivided("000-5.2-a") == "000-5.2-a" or "000-5.2-b" in CLAIMS
    assert errata.undivided("001-em-c-a") == errata.undivided("001-em-c-b") == "001-em-c"
    assert errata.undivided("000-4.4-a") == "000-4.4-a"
    assert errata.undivided("000-T2.2") == "000-T2.2"


# ---- the page ------------------------------------------------------------------------------------


def test_the_lists_have_each_claim_once_with_its_verdict_and_link():
    shown = "\n".join(outputs(NB, "text/plain").values())
    lines = [re.split(r" {2,}", line) for line in shown.splitlines() if "  " in line]
    found = errata.decisions()
    assert Counter(line[0] for line in lines) == Counter(list(CLAIMS))
    for id, verdict, *link in lines:
        assert verdict == (CLAIMS[id].verdict or "open")
        assert link == ([found[id].link] if id in found else [])


def test_the_tables_say_what_the_claims_say():
    html = outputs(NB, "text/html")
    for document in "000", "001", "002", "003", "004":
        table = html[f'errata.listing("{document}")']
        own = [claim for claim in CLAIMS.values() if claim.source == document]
        assert re.findall(r"<tr><td [^>]*><b [^>]*>([^<]+)</b>", table) == [
            claim.id for verdict in errata.ORDER for claim in own if claim.verdict == verdict
        ]
        counts = Counter(claim.verdict or "open" for claim in own)
        summaries = re.findall(r"<summary>([a-z ]+): (\d+)</summary>", table)
        assert {verdict: int(count) for verdict, count in summaries} == counts
        assert table.count("<details>") == table.count("</details>") == len(counts)


def test_every_link_leads_to_a_cell():
    links = [link for html in outputs(NB, "text/html").values() for link in HREF.findall(html)]
    assert set(links) == {one.link for one in errata.decisions().values()}
    ids = {}
    for link in links:
        name, _, cell = link.partition("#cell-id=")
        if name not in ids:
            nb = json.loads((chapter.BOOK / name).read_text(encoding="utf-8"))
            ids[name] = {one["id"] for one in nb["cells"]}
        assert cell in ids[name], link


def test_the_counts_are_those_of_the_list():
    shown = "\n".join(
        stored.shown(output)
        for _, cell in stored.code_cells(NB)
        if "rows by document" in cell.source or "undivided" in cell.source
        for output in cell.outputs
        if "text/plain" in output.get("data", {}) or "text" in output
    )
    assert f"{len({errata.undivided(id) for id in CLAIMS})} claims stand in {len(CLAIMS)}" in shown
    for column in ("source", "kind"):
        for name, own in sources.claims().groupby(column):
            counts = [int((own["verdict"] == verdict).sum()) for verdict in sources.VERDICTS]
            holds, wrong, imprecise, unchecked = counts
            row = rf"(?m)^\s*{name} +{holds} +{imprecise} +{wrong} +{unchecked} .*\b{len(own)}$"
            assert re.search(row, shown), name


# ---- the stories ---------------------------------------------------------------------------------


def test_there_are_twenty_stories_of_errors_from_all_documents():
    found = stories(NB)
    assert [number for number, _, _ in found] == list(range(1, 21))
    claims = [CLAIMS[id] for _, _, id in found]
    assert len({claim.id for claim in claims}) == 20
    assert {claim.verdict for claim in claims} <= {"wrong", "imprecise"}
    assert {claim.source for claim in claims} == {"000", "001", "002", "003", "004"}


@pytest.mark.parametrize("story", stories(NB), ids=lambda story: story[2])
def test_a_story_is_short_names_its_document_and_has_a_lesson(story):
    _, text, id = story
    body = text.partition("\n")[2]
    assert 40 <= len(body.split()) <= 90
    assert re.search(r"\n\n\*[A-Z][^*]+\.\*$", text)
    assert errata.DOCUMENTS[CLAIMS[id].source] in body.replace("The ", "the ")


@pytest.mark.parametrize("story", stories(NB), ids=lambda story: story[2])
def test_a_story_has_the_numbers_of_its_claim_and_no_others(story):
    _, text, id = story
    assert untold(text, TOLD.get(id, []), errata.decisions()[id]) == []


def test_the_phrases_belong_to_stories():
    assert TOLD.keys() <= {id for _, _, id in stories(NB)}


@pytest.mark.parametrize(
    ("id", "old", "new"),
    [
        ("000-T2.4-avg", ("8.375", "8.625"), ("8.625", "8.375")),
        ("003-A2-joint", ("epsilon 1 is", "0.596"), ("epsilon 0.596 is", "1")),
        ("000-5.4-base", ("0.0234", "5.6 to"), ("5.6", "0.0234 to")),
        ("003-eps1-a", ("8.78",), ("5.74",)),
        ("000-4.2-sens", ("by 200.",), ("by 2000.",)),
        ("000-4.2-sens", ("from -1 to 1",), ("from 1 to -1",)),
        ("000-E-sens", ("1.8",), ("0.225",)),
        ("002-mw-upd", ("same number",), ("same number 5",)),
    ],
)
def test_a_number_that_is_changed_or_swapped_is_found(id, old, new):
    text = next(text for _, text, one in stories(NB) if one == id)
    for k, part in enumerate(old):
        assert text.count(part) == 1
        text = text.replace(part, f"<{k}>")
    for k, part in enumerate(new):
        text = text.replace(f"<{k}>", part)
    assert untold(text, TOLD.get(id, []), errata.decisions()[id])


# ---- the rows that the page itself decides -------------------------------------------------------


def own_lines(nb):
    """Return the lines that the checks of the errata printed in their stored outputs."""
    shown = "\n".join(
        output["text"]
        for _, cell in stored.code_cells(nb)
        if errata.checked(cell.source)
        for output in cell.outputs
        if output.output_type == "stream"
    )
    return [line for line in shown.splitlines() if re.match(r"00\d-", line)]


def test_the_rows_of_the_page_are_printed_once_with_their_verdicts():
    own = [claim for claim in CLAIMS.values() if claim.chapter == errata.OWN]
    heads = Counter(f"{claim.id:<18}  {claim.verdict:<13}  " for claim in own)
    lines = own_lines(NB)
    assert Counter(line[:35] for line in lines) == heads
    assert not [line for line in lines if line.endswith("...") or not line[35:].strip()]


def test_a_row_of_the_page_without_a_line_is_found():
    spoilt = nbformat.from_dict(NB)
    for cell in spoilt.cells:
        if "002-bib-c" in cell.source and cell.cell_type == "code":
            cell.outputs = []
    assert len(own_lines(spoilt)) == len(own_lines(NB)) - 1


def test_what_a_cell_printed_is_told_in_full():
    one = errata.decisions()["000-T2.4-avg"]
    assert errata._said(one) == "Printed 8.375, computed 8.625 (8.375 leaves out Barry)."
    assert errata._said(errata.decisions()["000-T4.2-row5"]).endswith("computed (0.8, 0.7).")
    assert errata._said(errata.decisions()["002-d"]).startswith("Of 4 values: 3 differ (")
    html = "\n".join(outputs(NB, "text/html").values())
    for one in errata.decisions().values():
        assert escape(errata._said(one)) in html, one.claim.id
