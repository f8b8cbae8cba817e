"""Each rule of tools.anatomy turns red on a notebook made to break just that rule, and no other."""

from pathlib import Path

import pytest
from nbformat import v4

from tools import anatomy

PATH = Path("90-good-chapter.ipynb")
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mN"
    "k+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FILLER = (
    "Noise of the right size hides one person and keeps the crowd, "
    "which is what a count was asked for then. " * 3
)


def md(source, *tags):
    return v4.new_markdown_cell(source, metadata={"tags": list(tags)} if tags else {})


def code(source, *tags, outputs=()):
    return v4.new_code_cell(
        source, metadata={"tags": list(tags)} if tags else {}, outputs=list(outputs)
    )


def shown(**data):
    return v4.new_output(
        "display_data", data={key.replace("__", "/"): value for key, value in data.items()}
    )


def chapter():
    """Return a small chapter that keeps every rule of `anatomy`."""
    picture = shown(image__png=PIXEL, text__plain="[figure: one pixel, which stands for a figure]")
    record = v4.new_output(
        "display_data", data={anatomy.RECORD: {"schema": 1}, "text/plain": "a table"}
    )
    said = v4.new_output("stream", name="stdout", text="-0.5 at most, 3 rows, 10s of them")
    cells = [
        md("# 90 A chapter that keeps the rules"),
        code("epsilon: float = 1.0  # budget\nseed: int = 0  # seed", "parameters"),
        code('chapter.open("90-good-chapter", globals())'),
        md("## 1. By hand", "worked-case"),
        code("assert 1 + 1 == 2", outputs=[said]),
        md("## 2. In general"),
        md("*Proof sketch.* " + FILLER, "proof-sketch"),
    ]
    for k in range(10):
        cells += [md(FILLER * 3), code(f"show({k})", outputs=[picture] if k < 5 else [])]
    cells += [
        md("## What was spent"),
        code("chapter.results(ledger)", "results", outputs=[record]),
        md("## References"),
    ]
    nb = v4.new_notebook(cells=cells, metadata={"dputils": {"kind": "chapter"}})
    return renumbered(nb)


def renumbered(nb):
    for count, cell in enumerate((cell for cell in nb.cells if cell.cell_type == "code"), 1):
        cell.execution_count = count
    return nb


def cell_of(nb, tag):
    return next(cell for cell in nb.cells if tag in cell.metadata.get("tags", []))


def first(nb, text):
    return next(cell for cell in nb.cells if text in cell.source)


def untag(tag):
    return lambda nb: cell_of(nb, tag).metadata.tags.remove(tag)


def replace(old, new):
    def change(nb):
        cell = first(nb, old)
        cell.source = cell.source.replace(old, new, 1)

    return change


def prints(text, name="stdout"):
    return lambda nb: first(nb, "show(9)").outputs.append(
        v4.new_output("stream", name=name, text=text)
    )


def displays(**data):
    return lambda nb: first(nb, "show(9)").outputs.append(shown(**data))


def sets(text, **changes):
    return lambda nb: first(nb, text).update(changes)


def error(nb):
    first(nb, "show(9)").outputs.append(
        v4.new_output("error", ename="ValueError", evalue="no", traceback=[])
    )


def without(text):
    def change(nb):
        nb.cells.remove(first(nb, text))
        renumbered(nb)

    return change


def insert(cell, at=20):
    def change(nb):
        nb.cells.insert(at, cell)
        renumbered(nb)

    return change


def long(nb):
    nb.cells[-1:-1] = [md("more") for _ in range(110)]


def kind(value):
    return lambda nb: nb.metadata.dputils.update(kind=value)


def short_sketch(nb):
    cell_of(nb, "proof-sketch").source = "It is clear."


BROKEN = [
    ("named", replace("# 90 A", "# 91 A"), "does not open with the title"),
    ("named", kind("novel"), "'novel', not one of"),
    ("within_limits", long, "at most 120"),
    ("within_limits", insert(md(FILLER * 80)), "at most 4000"),
    ("within_limits", insert(code("\n\n".join("x = 1" for _ in range(16)))), "has 16 lines"),
    ("within_limits", insert(code("y = 1\nx = " + "1" * 85)), "has a code line of 89 characters"),
    ("within_limits", insert(code("\n")), "empty code cell"),
    (
        "within_limits",
        insert(code("draw()", outputs=[shown(image__jpeg="A" * 1_000_001)])),
        "bytes",
    ),
    ("executed", sets("show(9)", execution_count=None), "never executed"),
    ("executed", sets("show(9)", execution_count=4), "as number 4"),
    ("executed", error, "without the tag raises-exception"),
    ("executed", insert(code("x", "raises-exception")), "despite the tag raises-exception"),
    ("clean", prints("DeprecationWarning: old", "stderr"), "stores stderr"),
    ("clean", prints("np.float64(0.5)"), "a bare scalar: np.float64("),
    ("clean", displays(text__plain="[np.int64(3)]"), "a bare scalar: np.int64("),
    ("clean", prints("the mean is -0.00"), "a minus zero: -0.00"),
    ("clean", displays(text__html="<td>\u22120</td>"), "a minus zero"),
    ("clean", displays(application__json={"x": -0.0}), "a minus zero: -0.0"),
    ("clean", prints("read /" + "home/reader/x.csv"), "a path"),
    ("clean", prints("read C:\\x.csv"), "a path"),
    ("clean", prints("<f at 0x7f00aabbccdd>"), "a memory address"),
    ("clean", prints("done in 3.2 s"), "a timing: 3.2 s"),
    ("clean", prints("12ms a draw"), "a timing: 12ms"),
    ("clean", prints("run on 2031-02-03"), "a date"),
    ("described", displays(image__png=PIXEL), "without a description"),
    (
        "described",
        displays(image__png=PIXEL, text__plain="<Figure size 640x480 with 1 Axes>"),
        "without a description",
    ),
    ("checkable", insert(code("x", "brokentwin")), "unknown tag 'brokentwin'"),
    ("checkable", insert(code("x", "nbval-skip")), "unknown tag 'nbval-skip'"),
    ("checkable", insert(code("# NBVAL_IGNORE_OUTPUT\nx")), "NBVAL_IGNORE_OUTPUT"),
    ("checkable", insert(code("widgets.interact(f)")), "uses interact("),
    ("opened", untag("parameters"), "is tagged parameters; found: []"),
    ("opened", insert(code("x = 1", "parameters"), 12), "found: [2, 13]"),
    ("opened", replace("seed: int", "grain: int"), "declares no 'seed: int'"),
    ("opened", replace("chapter.open(", "print("), "does not call chapter.open"),
    ("closed", untag("results"), "tagged results"),
    ("closed", replace("chapter.results", "print"), "calls chapter.results"),
    ("closed", sets("chapter.results", outputs=[]), "stores no results record"),
    ("closed", insert(code("chapter.results()", "results")), "tagged results"),
    ("derived", replace("assert 1 + 1", "1 + 1"), "tagged worked-case with an assert"),
    ("derived", untag("worked-case"), "tagged worked-case with an assert"),
    ("derived", untag("proof-sketch"), "tagged proof-sketch"),
    ("derived", short_sketch, "is no proof sketch"),
]


RULES = anatomy.EVERY + anatomy.CHAPTER  # those of form.py and chapters.py have tests of their own


def complaints(nb, path=PATH):
    return {rule.__name__: found for rule in RULES if (found := list(rule(path, nb)))}


def test_a_good_chapter_passes():
    assert complaints(chapter()) == {}


@pytest.mark.parametrize(
    ("rule", "change", "said"), BROKEN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_rule_catches_what_it_is_for(rule, change, said):
    nb = chapter()
    change(nb)
    found = complaints(nb)
    assert list(found) == [rule], found
    assert any(said in sentence for sentence in found[rule]), found


def test_every_rule_is_broken_above():
    assert {rule.__name__ for rule in RULES} == {rule for rule, _, _ in BROKEN}


@pytest.mark.parametrize(
    "name", ["good-chapter.ipynb", "9-good.ipynb", "90-Good.ipynb", "90_good.ipynb"]
)
def test_a_file_name_off_the_pattern_is_caught(name):
    assert any("NN-short-name" in sentence for sentence in anatomy.named(Path(name), chapter()))


@pytest.mark.parametrize(
    ("name", "kind"), [("reference-machinery", "reference"), ("release-template", "template")]
)
def test_what_has_no_number_is_of_the_kind_that_its_name_says(name, kind):
    nb = chapter()
    nb.cells[0].source = "# A title without a number"
    assert any("as the file's name says" in s for s in anatomy.named(Path(f"{name}.ipynb"), nb))
    nb.metadata.dputils["kind"] = kind
    assert list(anatomy.named(Path(f"{name}.ipynb"), nb)) == []
    assert len(list(anatomy.named(Path(f"{name}-Copy1.ipynb"), nb))) >= 1
    nb.cells[0].source = "No title"
    assert list(anatomy.named(Path(f"{name}.ipynb"), nb)) == [
        "the first cell does not open with the title '# ...'"
    ]


def test_kinds_are_excused_from_what_they_cannot_have():
    nb = chapter()
    del nb.cells[3:], nb.metadata.dputils["kind"]
    assert any("kind is None" in sentence for sentence in anatomy.problems(PATH, nb))
    for name in ("essay", "reference"):
        nb.metadata.dputils["kind"] = name
        assert anatomy.problems(PATH, nb) == []
    nb.metadata.dputils["kind"] = "template"
    found = anatomy.problems(PATH, nb)
    assert len(found) == 2 and "no '# no seed: '" in found[0]  # a template cannot be seeded
    first(nb, "seed: int").source = "# no seed: why\nepsilon: float = 1.0  # budget"
    assert len(anatomy.problems(PATH, nb)) == 1  # it ends with its results
    nb.metadata.dputils["kind"] = "chapter"
    assert len(anatomy.problems(PATH, nb)) > 5


def test_the_form_that_a_template_has_to_fill_in_may_be_longer_than_other_cells():
    nb = chapter()
    lines = [f"p{i}: str = 'x'  # text, any text" for i in range(22)]
    cell_of(nb, "parameters").source = "\n".join(["# no seed: why", *lines])
    assert any("has 23 lines" in said for said in anatomy.problems(PATH, nb))
    nb.metadata.dputils["kind"] = "template"
    assert not any("lines" in said for said in anatomy.problems(PATH, nb))


def test_a_line_of_the_allowed_width_passes_and_a_longer_one_in_no_kind_of_notebook():
    nb = chapter()
    first(nb, "show(9)").source = "# " + "x" * (anatomy.LIMITS.width - 2)
    insert(md("x" * (anatomy.LIMITS.width + 1)))(nb)
    assert complaints(nb) == {}
    first(nb, "# xx").source += "x"
    for name in anatomy.KINDS:
        nb.metadata.dputils["kind"] = name
        assert any("code line" in sentence for sentence in anatomy.problems(PATH, nb)), name


def test_an_announced_error_and_an_allowed_warning_pass():
    nb = chapter()
    error(nb)
    prints("a warning that the text explains", "stderr")(nb)
    first(nb, "show(9)").metadata["tags"] = ["raises-exception", "allow-stderr"]
    assert complaints(nb) == {}
