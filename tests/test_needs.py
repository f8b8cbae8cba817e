"""The map of the book: every need is in it, nothing needs a later chapter, boxes stand apart."""

import json
import re

import nbformat
import pytest

from dputils.book import chapter, needs
from tools import book, stored

PATH = chapter.BOOK / "reference-map.ipynb"
NB = nbformat.read(PATH, as_version=4)
BOOK = needs.chapters()
REDUCED = needs.reduced(BOOK)


def made(**links):
    """Return a small book: `made(c03=[1, 2])` has a chapter 03 that needs 1 and 2."""
    numbers = {int(name[1:]): tuple(n) for name, n in links.items()}
    return {n: needs.Chapter(n, f"title {n}", f"{n:02}-x.ipynb", m) for n, m in numbers.items()}


def test_every_chapter_is_on_the_map():
    for path in chapter.BOOK.glob("[0-9][0-9]-*.ipynb"):
        if stored.about(stored.read(path)).get("kind") == "chapter":
            assert int(path.name[:2]) in BOOK, f"{path.stem} does not say what it needs"


def test_nothing_needs_a_later_chapter_or_one_that_is_not_there():
    wrong = {
        one.number: one.needs
        for one in BOOK.values()
        if any(number >= one.number or number not in BOOK for number in one.needs)
    }
    assert wrong == {}


def test_each_link_of_a_need_is_an_arrow_a_number_or_follows():
    for one in BOOK.values():
        source = "".join(
            json.loads((chapter.BOOK / one.file).read_text(encoding="utf-8"))["cells"][0]["source"]
        )
        said = source.partition("**You need**")[2]
        sentence = re.split(r"(?<=\.)\s+(?=[A-Z])|\n\n", said)[0]
        linked = {int(number) for number in re.findall(r"\]\((\d\d)-", sentence)}
        assert linked == set(one.needs), one.title
        drawn = {*REDUCED[one.number]}
        follows = {m.number for n in drawn for m in needs.before(n)}
        assert linked <= drawn | follows and not drawn & follows, one.title


def test_the_boxes_of_a_part_stand_apart_and_right_of_what_they_need():
    for part, numbers in needs.PARTS:
        places = needs.grid(numbers, REDUCED)
        boxes = {key: place for key, place in places.items() if isinstance(key, int)}
        assert boxes.keys() == {n for n in BOOK if n in numbers}, part
        for a, (x, y) in boxes.items():
            for b, (other_x, other_y) in boxes.items():
                assert a == b or x != other_x or abs(y - other_y) > 1 - 1e-9, (a, b)
        for way in needs.ways(places, REDUCED):
            columns = [places[step][0] for step in way]
            assert columns == list(range(columns[0], columns[-1] + 1)), way
        drawn = {(way[0], way[-1]) for way in needs.ways(places, REDUCED)}
        assert drawn == {(m, n) for n in boxes for m in REDUCED[n] if m in boxes}
        assert min((y for _, y in places.values()), default=0) > -1e-9


def test_titles_are_wrapped_to_their_boxes():
    assert needs._wrapped("Gaussian noise on whole numbers", 9) == [
        "Gaussian noise on whole numbers"
    ]
    assert len(needs._wrapped("Gaussian noise on whole numbers", 0.8)) == 3
    assert needs._wrapped("Means", 0.1) == ["Means"]


def test_what_follows_is_left_out():
    small = made(c01=[], c02=[1], c03=[1, 2], c04=[3, 1], c05=[2])
    assert needs.reduced(small) == {1: (), 2: (1,), 3: (2,), 4: (3,), 5: (2,)}
    assert [one.number for one in needs.before(4, small)] == [1, 2, 3]
    assert needs.before("title 1", small) == []


def test_before_takes_numbers_titles_and_their_beginnings():
    assert needs.before("AdaSSP") == needs.before(74) == needs.before("74") == needs.before("ada")
    assert [one.number for one in needs.before(3)] == [1, 2]
    for name in ("the", "nothing of the kind", "", 0):
        with pytest.raises(ValueError, match="name must be the number or the title of one chapter"):
            needs.before(name)


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("#\n\n**You need** [b](02-b.ipynb), (2.4), [c](04-c.ipynb#d). Or [e](09.ipynb).", (2, 4)),
        ("**You need** no earlier chapter: only averages.", ()),
        ("**You need** [b](10-b.ipynb)\nand [c](03-c.ipynb).\n\nMore [d](01-d.ipynb).", (3, 10)),
        ("You need Python.", None),
    ],
)  # fmt: skip
def test_the_sentence_is_read(source, numbers):
    assert needs.needed(source) == numbers


def test_the_page_shows_the_needs_of_today():
    cell = next(cell for cell in NB.cells if cell.source == "needs.listing()")
    shown = "".join(cell.outputs[0]["data"]["text/plain"]).splitlines()
    known = [f"{n:02}: {', '.join(f'{m.number:02}' for m in needs.before(n))}" for n in BOOK]
    assert shown == known, "what a chapter needs has changed: run make book"
    html = "".join(cell.outputs[0]["data"]["text/html"])
    assert set(re.findall(r'href="([^"]+)"', html)) == {one.file for one in BOOK.values()}
    assert PATH.stem in book.READERS
