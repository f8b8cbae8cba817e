"""Each rule of the new form turns red on a chapter made to break that rule, and on no other."""

from pathlib import Path

import pytest
from nbformat import v4

from tools import anatomy, chapters, form

PATH = Path("90-good-chapter.ipynb")
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mN"
    "kYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
TEXT = "Noise of the right size hides one person and keeps the crowd, which is what was asked for. "
BOX = "Unit person\nNeighbours add-remove\nSensitivity 1\nEpsilon 0.5\nDelta 0\nPublic the question"


def md(source, *tags):
    return v4.new_markdown_cell(source, metadata={"tags": list(tags)} if tags else {})


def code(source, *tags, outputs=()):
    metadata = {"tags": list(tags)} if tags else {}
    return v4.new_code_cell(source, metadata=metadata, outputs=list(outputs))


def displayed(**data):
    return v4.new_output(
        "display_data", data={key.replace("__", "/"): value for key, value in data.items()}
    )


def printed(text):
    return v4.new_output("stream", name="stdout", text=text)


def picture():
    return displayed(
        image__png=PIXEL, text__plain="[figure: one pixel, standing for a figure of 777]"
    )


def exercise(number):
    return [
        md(f"### Exercise {number}\n\n{TEXT}"),
        code("# Your turn", "try"),
        code(f"answer = solve({number})\nassert answer > {number}", "solution"),
    ]


def chapter():
    """Return a small chapter that keeps every rule of the new form."""
    record = displayed(
        **{anatomy.RECORD.replace("/", "__"): {"schema": 1}, "text__plain": "a table"}
    )
    cells = [
        md("# 90 A chapter that keeps the rules"),
        code("epsilon: float = 1.0  # budget\nseed: int = 0  # seed", "parameters"),
        code('chapter.open("90-good-chapter", globals())'),
        md("## By hand\n\nThe first answer is 0.37, or 36.8 %.", "worked-case"),
        code(
            "N_PEOPLE = 1_234\nshare = by_hand(N_PEOPLE)\nassert abs(share - 0.4) < 0.1",
            outputs=[printed("The share is 0.3679.\n")],
        ),
        md("## In general\n\nThe noise has scale $b=1/\\varepsilon$. $$p = e^{-x/b} \\tag{90.1}$$"),
        md("**Theorem 90.1.** The release is private. See [Theorem 90.1](#theorem-90-1)."),
        md("**Proof sketch.** By (90.1) the ratio is bounded. " + TEXT * 2, "proof-sketch"),
        code("count = laplace.mechanism(s, epsilon)\nrng = chapter.stream(seed, 'release')"),
        code("noise = draws(count, rng)", outputs=[printed("20,000 draws")]),
        code(
            "fig, ax = plots.figure()\nax.plot(noise)\nfor x in noise:\n    ax.plot(x)\nheight = 3",
            "hide-input",
            outputs=[picture()],
        ),
        md("*The noise, drawn 20,000 times: flat beyond* $\\pm 1$*.*"),
        code(
            "chapter.statement(count, public='the question')",
            "privacy-statement",
            outputs=[displayed(text__plain=BOX)],
        ),
        code("audit.assert_mechanism(count, 7, rng=rng)", "audit"),
        code("twin = broken(count)\naudit.assert_caught(twin, law(epsilon))", "broken-twin"),
        md("## What it costs\n\n" + TEXT),
        md("## Try it\n\n" + TEXT),
        code("plots.explore(draw, frames={'eps': [0.1, 1, 2]})", "explorer", outputs=[picture()]),
        md("## When not to use it\n\n" + TEXT),
        md("## In short\n\n- " + TEXT),
        md("## Exercises"),
    ]
    for number in range(1, 5):
        cells += exercise(number)
    cells += [
        md("## What was spent"),
        code("chapter.results(ledger)", "results", outputs=[record]),
        md("## References\n\n- Somebody, Theorem 7.8, page 4711."),
        md("## Notes on the sources\n\nThe thesis prints 0.999.", "notes"),
        code("sources.check('x')", "sources", "notes"),
    ]
    told = {"kind": "chapter"}
    return renumbered(v4.new_notebook(cells=cells, metadata={"dputils": told}))


def renumbered(nb):
    for count, cell in enumerate((c for c in nb.cells if c.cell_type == "code"), 1):
        cell.execution_count = count
    return nb


def first(nb, text):
    return next(cell for cell in nb.cells if text in cell.source)


def cell_of(nb, tag):
    return next(cell for cell in nb.cells if tag in cell.metadata.get("tags", []))


def replace(old, new):
    def change(nb):
        cell = first(nb, old)
        cell.source = cell.source.replace(old, new, 1)

    return change


def insert(*cells, before):
    def change(nb):
        at = nb.cells.index(first(nb, before))
        nb.cells[at:at] = list(cells)
        renumbered(nb)

    return change


def without(*texts):
    def change(nb):
        for text in texts:
            nb.cells.remove(first(nb, text))
        renumbered(nb)

    return change


def untag(tag):
    return lambda nb: cell_of(nb, tag).metadata.tags.remove(tag)


def tag(text, name):
    return lambda nb: first(nb, text).metadata.setdefault("tags", []).append(name)


def output(text, new):
    return lambda nb: first(nb, text).update(outputs=[new])


def adds(text, new):
    return lambda nb: first(nb, text).outputs.append(new)


def both(*changes):
    def change(nb):
        for one in changes:
            one(nb)

    return change


def swap(nb):
    a, b = (nb.cells.index(first(nb, text)) for text in ("## What it costs", "## When not to"))
    nb.cells[a], nb.cells[b] = nb.cells[b], nb.cells[a]


def try_last(nb):
    a, b = (nb.cells.index(first(nb, text)) for text in ("# Your turn", "answer = solve(1)"))
    nb.cells[a], nb.cells[b] = nb.cells[b], nb.cells[a]
    renumbered(nb)


def fold(nb):
    first(nb, "noise = draws").metadata["jupyter"] = {"source_hidden": True}


def cite(**facts):
    return lambda nb: nb.metadata.dputils.update(cited=facts)


def beside(source):
    """Return the change that adds a visible code cell behind the worked case."""
    return insert(code(source), before="## In general")


def said(sentence):
    return replace("The first answer", f"{sentence} The first answer")


AUDIT = "audit.assert_mechanism(count, 7, rng=rng)"
TWIN = "audit.assert_caught(twin, law(epsilon))"
ASSERT = "assert answer > 2"
STATEMENT = "chapter.statement(count, public='the question')"
BROKEN = [
    (
        "within_limits",
        insert(*[md("more") for _ in range(100)], before="## What it costs"),
        "at most 120",
    ),
    ("within_limits", said(TEXT * 230), "at most 4000"),
    ("within_limits", beside("\n".join(["x = f()"] * 16)), "has 16 lines, at most 15"),
    ("within_limits", replace("height = 3", "\n".join(["ax.plot(2)"] * 26)), "at most 25"),
    ("within_limits", beside(f"x = f({'1' * 82})"), "a code line of 89 characters, at most 88"),
    ("headed", said("Words.\n\n### A heading\n\n"), "does not start the cell"),
    ("headed", replace("## Exercises", "## Exercises\n\n### A second"), "does not start the cell"),
    ("captioned", without("*The noise, drawn"), "not its caption"),
    ("captioned", replace("*The noise, drawn", "The noise, drawn"), "not its caption"),
    ("captioned", replace("$\\pm 1$*.*", "$\\pm 1$*.*\n\nAnd then more."), "not its caption"),
    ("captioned", adds("noise = draws", picture()), "not its caption"),
    ("folded", fold, "folded by its metadata"),
    ("folded", tag("noise = draws", "hide-output"), "has the tag hide-output"),
    ("folded", tag("noise = draws", "hide-cell"), "has the tag hide-cell"),
    ("folded", untag("hide-input"), "more than 3 lines that draw"),
    ("hidden_cells_draw", replace("height = 3", "print(noise.max())"), "hidden and calls print"),
    ("hidden_cells_draw", replace("height = 3", "chapter.table(noise)"), "calls chapter.table"),
    (
        "hidden_cells_draw",
        insert(code("k = f()", "hide-input"), before="## What it"),
        "draws nothing",
    ),
    (
        "hidden_cells_draw",
        both(
            replace("height = 3", "leak = 3"),
            replace("twin = broken(count)", "print(f'The leak is {leak}.')\ntwin = broken(count)"),
        ),
        "uses leak, which is computed in a hidden cell",
    ),
    (
        "hidden_cells_draw",
        replace("twin = broken(count)", "height += 1; twin = broken(count)"),
        "uses height",
    ),
    ("meant", beside("assert True"), "constants only"),
    ("meant", beside("assert 1 + 1 == 2"), "constants only"),
    ("meant", beside("assert len('ab') == 2"), "constants only"),
    ("meant", beside("caught = True\nassert caught"), "constants only"),
    ("meant", beside("assert (share < 0, 'never')"), "a tuple is always true"),
    ("meant", beside("assert share < 0 or True"), "always true"),
    ("meant", beside("assert share == share"), "compares a thing with itself"),
    ("streams_labelled", beside("rng = chapter.stream(3, 'release')"), "the stream 'release'"),
    (
        "streams_labelled",
        beside("rngs = [chapter.stream(3, x) for x in ('a', 'release')]"),
        "the stream 'release'",
    ),
    (
        "streams_labelled",
        beside("chapter.stream(1, label=f'{k}')\nchapter.stream(2, f'{k}')"),
        "the stream f'{k}'",
    ),
    ("numbers_shown", replace("0.37", "0.38"), "says 0.38"),
    ("numbers_shown", replace("36.8 %", "36.9 %"), "says 36.9 %"),
    ("numbers_shown", said("There were $1{,}235$ of them."), "says 1,235"),
    ("numbers_shown", said("There were $10^{-6}$ of them."), "says 1e-6"),
    ("numbers_shown", said("It is 777."), "says 777"),
    ("numbers_shown", replace("drawn 20,000", "drawn 30,000"), "says 30,000"),
    ("numbers_shown", cite(**{"5,432": "printed by the office of statistics"}), "does not say"),
    ("numbers_shown", both(said("It is 5,432."), cite(**{"5,432": "why not"})), "gives no reason"),
    ("references_resolve", said("See [it](91-no-such-chapter.ipynb)."), "no such file"),
    ("references_resolve", said("See [it](#No-such-heading)."), "no such heading"),
    ("references_resolve", replace("(#theorem-90-1)", "(#theorem-90-2)"), "no such heading"),
    ("references_resolve", said("See chapter 99."), "refers to chapter 99"),
    ("references_resolve", said("See equation (90.99)."), "refers to equation 90.99"),
    ("references_resolve", said("See Theorem 90.7."), "refers to theorem 90.7"),
    ("references_resolve", said("See exercise 9."), "refers to exercise 9"),
    ("references_resolve", replace("\\tag{90.1}", "\\tag{90.1} \\tag{90.1}"), "there 2 times"),
    ("references_resolve", replace("\\tag{90.1}", "\\tag{90.1} \\tag{80.1}"), "equation (80.1)"),
    ("opened", replace("seed: int", "grain: int"), "declares no 'seed: int'"),
    ("closed", lambda nb: first(nb, "chapter.results").update(outputs=[]), "no results record"),
    ("derived", untag("worked-case"), "tagged worked-case with an assert"),
    ("in_order", swap, "the closing sections are"),
    ("in_order", without("## What it costs"), "the closing sections are"),
    ("in_order", without("## In short"), "the closing sections are"),
    ("in_order", without("## References"), "the closing sections are"),
    ("in_order", insert(md("## One more"), code("f()"), before="## In short"), "the closing"),
    ("filled", lambda nb: first(nb, "## In short").update(source="## In short"), "is empty"),
    ("filled", untag("notes"), "without the tag notes"),
    ("filled", insert(code("f()", "sources"), before="## What it costs"), "outside of the notes"),
    (
        "sources_tagged",
        insert(code("sources.check('y')", "notes"), before="sources.check('x')"),
        "without the tag sources",
    ),
    ("stated", untag("privacy-statement"), "no code cell tagged privacy-statement"),
    ("stated", insert(md("Epsilon 1", "privacy-statement"), before="## What it"), "typed by hand"),
    ("stated", output(STATEMENT, displayed(text__plain=BOX.replace("Delta", "D"))), "no Delta"),
    ("stated", output(STATEMENT, displayed(text__plain=BOX.replace("Unit", "U"))), "no Unit"),
    ("stated", replace(STATEMENT, "chapter.table(count)"), "does not call chapter.statement"),
    ("stated", replace(", public='the question'", ""), "does not say what is public"),
    ("stated", replace("public=", "epsilon=0.5, public="), "types epsilon by hand"),
    (
        "stated",
        replace("statement(count,", "statement(laplace.mechanism(s, 0.5),"),
        "no other cell",
    ),
    ("stated", replace("statement(count,", "statement(other,"), "no other cell"),
    ("attacked", without(AUDIT), "no code cell tagged audit"),
    ("attacked", without(TWIN), "no code cell tagged broken-twin"),
    ("attacked", replace(AUDIT, "audit.law_test(count, 7)"), "tag audit and nothing in it"),
    ("attacked", replace(AUDIT, "assert count"), "tag audit and nothing in it can raise"),
    ("attacked", replace(AUDIT, f"def check():\n    {AUDIT}"), "nothing in it can raise"),
    ("attacked", replace(AUDIT, f"if False:\n    {AUDIT}"), "nothing in it can raise"),
    ("attacked", replace(AUDIT, f"try:\n    {AUDIT}\nexcept Exception:\n    print('oh')"), "raise"),
    ("attacked", replace(AUDIT, TWIN), "tag audit and nothing in it can raise"),
    (
        "attacked",
        replace(TWIN, "audit.law_test(twin, law(epsilon))"),
        "tag broken-twin and nothing",
    ),
    (
        "attacked",
        insert(
            code(STATEMENT, "privacy-statement", outputs=[displayed(text__plain=BOX)]),
            before="## What it costs",
        ),
        "followed by no code cell tagged audit",
    ),
    (
        "twins_at_parameters",
        both(replace("broken(count)", "broken(0.5)"), replace("law(epsilon)", "law(0.5)")),
        "depends on no parameter",
    ),
    (
        "explored",
        both(untag("explorer"), lambda nb: first(nb, "plots.explore").update(outputs=[])),
        "exactly one cell",
    ),
    ("explored", replace(", frames={'eps': [0.1, 1, 2]}", ""), "declares no frames"),
    ("explored", replace("[0.1, 1, 2]", f"[{'1,' * 10}], 'n': [{'2,' * 5}]"), "declares 50 frames"),
    ("exercised", without("### Exercise 4", "answer = solve(4)"), "3 exercises"),
    ("exercised", replace("### Exercise 3", "### Exercise 6"), "is not 'Exercise 3'"),
    ("exercised", without("# Your turn"), "no cell tagged try"),
    ("exercised", replace("# Your turn", "# Here"), "no cell tagged try"),
    ("exercised", try_last, "no cell tagged try"),
    ("exercised", untag("solution"), "no solution that asserts"),
    ("exercised", replace(ASSERT, "print(answer)"), "no solution that asserts"),
    ("exercised", replace(ASSERT, "assert answer"), "no solution that asserts"),
]


def complaints(nb, path=PATH):
    found = {rule.__name__: list(rule(path, nb)) for rule in anatomy.rules(nb)}
    return {name: sentences for name, sentences in found.items() if sentences}


def test_a_good_chapter_passes():
    assert anatomy.problems(PATH, chapter()) == []


def test_the_delta_at_which_rho_is_read_may_be_typed():
    nb = chapter()
    replace("public=", "delta=1e-6, public=")(nb)
    assert anatomy.problems(PATH, nb) == []


@pytest.mark.parametrize(
    ("rule", "change", "says"), BROKEN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_rule_catches_what_it_is_for(rule, change, says):
    nb = chapter()
    change(nb)
    found = complaints(nb)
    assert list(found) == [rule], found
    assert any(says in sentence for sentence in found[rule]), found


def test_every_rule_of_the_new_form_is_broken_above():
    elsewhere = {"terms_introduced"}  # in test_prose.py: it needs a list of terms
    rules = {rule.__name__ for rule in form.EVERY + chapters.CHAPTER}
    assert rules - elsewhere <= {rule for rule, _, _ in BROKEN}


GOOD = {
    "an appendix between the closing sections": insert(
        md("## Appendix: a long proof", "appendix"), before="## What was spent"
    ),
    "a chapter that checks no claim has no notes": without("## Notes", "sources.check"),
    "an audit whose function is called": replace(AUDIT, f"def go():\n    {AUDIT}\n\ngo()"),
    "a twin caught by an assert": replace(
        TWIN,
        "try:\n    audit.assert_law(twin, law(epsilon))\n    caught = False\n"
        "except audit.AuditFailed:\n    caught = True\nassert caught is not False",
    ),
    "a name that is bound again before it is used": replace(
        "twin = broken(count)", "height = 4\nprint(height)\ntwin = broken(count)"
    ),
    "a name that another visible cell binds again": both(
        insert(code("height = 4"), before="twin = broken(count)"),
        replace("twin = broken(count)", "print(height)\ntwin = broken(count)"),
    ),
    "an explorer of some lines": replace(
        "plots.explore(draw", "def draw(eps):\n    fig = 1\n    return fig\n\nplots.explore(draw"
    ),
    "a name of a comprehension": replace(
        "twin = broken(count)", "print([x for x in (1, 2)])\ntwin = broken(count)"
    ),
    "a hidden function that draws, under an explorer": insert(
        code("def draw(epsilon):\n    fig, ax = plots.figure()", "hide-input"),
        before="plots.explore",
    ),
    "a picture in a solution": output("answer = solve(1)", picture()),
    "a long picture cell that a tag folds": both(
        output("answer = solve(1)", picture()),
        replace("answer = solve(1)", "a = 1\nb = f()\nplot(b)\nanswer = solve(1)"),
    ),
    "a figure drawn in three visible lines": insert(
        code("plots.show(fig)", outputs=[picture()]),
        md("*A caption of its own.*"),
        before="## What it costs",
    ),
    "a heading inside fenced code": said("\n```\nx\n# a comment\n```\n"),
    "a cited fact": both(
        said("There were 480,000 of them."),
        cite(**{"480,000": "subscribers, as the firm announced them"}),
    ),
    "somebody else's theorem": said("It is Theorem 3.16 of Dwork and Roth."),
    "a document's equation": said("Document 003 says so in its equation (2.99)."),
    "an exercise that exists, a value in brackets": said("See exercise 4. The share (0.368) is."),
    "the delta at which a mechanism of rho or mu states its epsilon": replace(
        "public='the question'", "public='the question', delta=delta"
    ),
    "words of folded cells are not of the reading line": insert(
        md(TEXT * 300, "appendix"), before="## What it costs"
    ),
}


@pytest.mark.parametrize("change", GOOD.values(), ids=GOOD)
def test_what_is_allowed_passes(change):
    nb = chapter()
    change(nb)
    assert complaints(nb) == {}


@pytest.mark.parametrize("kind", ["essay", "reference", "template"])
def test_other_kinds_are_excused_from_what_they_cannot_have(kind):
    nb = chapter()
    nb.metadata.dputils["kind"] = kind
    if kind == "template":  # what it draws cannot be seeded
        found = next(cell for cell in nb.cells if "parameters" in cell.metadata.get("tags", ()))
        found.source = found.source.replace("seed: int", "# no seed: the system's noise")
    del nb.cells[12:-5]  # keeps the results
    renumbered(nb)
    assert anatomy.problems(PATH, nb) == []
    beside("assert True")(nb)
    assert list(complaints(nb)) == ["meant"]


def test_a_reference_may_hold_numbers_and_an_essay_may_not():
    nb = chapter()
    said("There were 4,711 of them.")(nb)
    for kind, expected in (("essay", ["numbers_shown"]), ("reference", [])):
        nb.metadata.dputils["kind"] = kind
        assert list(complaints(nb)) == expected


def test_a_term_before_its_chapter_is_refused_except_in_the_first_page_and_in_references():
    nb = chapter()
    for cell in nb.cells:
        cell.source = cell.source.replace("90", "09").replace("(09.1)", "(9.1)")
        cell.source = cell.source.replace("09.1", "9.1").replace("-09-1", "-9-1")
    said("The sparse vector technique is for later.")(nb)
    assert list(complaints(nb, Path("09-good-chapter.ipynb"))) == ["terms_introduced"]
    assert "terms_introduced" not in complaints(nb, Path("00-good-chapter.ipynb"))
    assert "terms_introduced" not in complaints(nb, Path("90-good-chapter.ipynb"))
    nb.metadata.dputils["kind"] = "reference"
    assert complaints(nb, Path("09-good-chapter.ipynb")) == {}


def test_a_bare_number_of_an_equation_that_is_none_is_taken_for_both():
    nb = chapter()
    replace("By (90.1)", "By (90.99)")(nb)
    assert list(complaints(nb)) == ["numbers_shown", "references_resolve"]


def test_a_twin_that_runs_at_another_parameter_than_epsilon_is_a_warning():
    nb = chapter()
    assert list(chapters.warnings(PATH, nb)) == []
    replace("epsilon: float = 1.0", "epsilon: float = 1.0\nrate: float = 0.5")(nb)
    replace("broken(count)", "broken(rate)")(nb)
    replace("law(epsilon)", "law(rate)")(nb)
    assert complaints(nb) == {}
    assert "depends on rate" in "".join(chapters.warnings(PATH, nb))


def test_a_parameter_is_followed_through_names_and_functions():
    nb = chapter()
    replace("broken(count)", "broken(0.5)")(nb)
    replace("law(epsilon)", "law(0.5)")(nb)
    assert list(complaints(nb)) == ["twins_at_parameters"]
    replace("N_PEOPLE = 1_234", "N_PEOPLE = 1_234\ndef law(x):\n    return x * epsilon")(nb)
    assert complaints(nb) == {}
