"""A reader's own CSV file: the header is public, no line decides how another one is read."""

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import noise, own_table

HEADER = "name,age,town\n"


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "t.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_header_is_read_and_nothing_below_it(written):
    for first in ("name,age,town", '\ufeffname , age,"town"\r'):
        path = written(first + "\n" + "x" * 3_000_000)
        assert own_table.header(path, "comma") == ["name", "age", "town"]
    assert own_table.header(written("a;b\tc"), "semicolon") == ["a", "b\tc"]
    assert own_table.header(written("a;b\tc"), "tab") == ["a;b", "c"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "path must name a table with a header line"),
        ("\n1,2\n", "path must name a table with a header line"),
        (",,\n1,2,3\n", "path must name a table with a header line"),
        ("age,b\n1,2\n".encode("utf-16"), "path must name a file in UTF-8"),
        ("age,b\n1,2\n".encode("utf-16-be"), "path must name a file in UTF-8"),
        ("a,b,a\n", "first line must name each column once"),
    ],
)
def test_what_has_no_header_is_refused(written, content, said):
    with pytest.raises(ValueError, match=said):
        own_table.header(written(content), "comma")


@pytest.mark.parametrize("path", ["no-such.csv", "", "data"])
def test_what_is_no_file_is_refused(path):
    with pytest.raises(ValueError, match="path must name a CSV file that exists"):
        own_table.header(path, "comma")


def test_a_file_of_the_book_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert own_table.header("data/cities.csv", "comma")[0] == "name"


def test_a_separator_or_a_column_that_is_not_there_is_refused(written):
    with pytest.raises(ValueError, match="separator must be"):
        own_table.header(written(HEADER), ",")
    with pytest.raises(ValueError, match="must have the column 'income'"):
        own_table.rows(written(HEADER), "comma", ["income"])


def test_a_header_alone_is_a_table_without_rows(written):
    assert own_table.rows(written(HEADER), "comma", ["age"]) == {"age": []}
    assert own_table.rows(written("name,age,town"), "comma", ["age"]) == {"age": []}


ODD = [
    b'"Ann,30,Rome',
    b'Ann,"30',
    b"Ann",
    b"Ann,30,Rome,more,and,more",
    b"\xff\xfe\x00,\x80,\xe2\x82",
    b"a\rb,30,c",
    b"x" * 200_000 + b",1,2",
    b'""",",',
    b",,",
    "Ann,３０,Ölme\u2028x\x0b\x85".encode(),
]


@pytest.mark.parametrize("line", ODD)
def test_an_odd_line_is_one_row_and_changes_no_other(written, line):
    plain = [b"Bob,41,Paris", b'Cy,"42","Oslo, N"', b"Di,43,Kiel"]
    alone = own_table.rows(written(HEADER.encode() + b"\n".join(plain)), "comma", ["age", "town"])
    assert alone == {"age": ["41", "42", "43"], "town": ["Paris", "Oslo, N", "Kiel"]}
    for place in range(4):
        lines = plain[:place] + [line] + plain[place:]
        table = own_table.rows(written(HEADER.encode() + b"\n".join(lines)), "comma", list(alone))
        assert {name: len(texts) for name, texts in table.items()} == {"age": 4, "town": 4}
        assert {n: t[:place] + t[place + 1 :] for n, t in table.items()} == alone


def test_line_ends_of_both_kinds_and_empty_lines(written):
    table = own_table.rows(written('a,b\r\n1,"x"\r\n\r\n \n2,y\n'), "comma", ["a", "b"])
    assert table == {"a": ["1", "2"], "b": ["x", "y"]}
    for separator, mark in own_table.SEPARATORS.items():  # a row whose fields are all empty is one
        table = own_table.rows(written(f"a{mark}b\n1{mark}2\n{mark}\n"), separator, ["b"])
        assert table == {"b": ["2", ""]}


def test_a_quoted_field_after_a_space_is_one_field(written):
    table = own_table.rows(written('a,b,c\nx, "Oslo, N", 3\n'), "comma", ["b", "c"])
    assert table == {"b": ["Oslo, N"], "c": ["3"]}


@given(st.sets(st.binary(min_size=1, max_size=4), min_size=2, max_size=6))
def test_different_bytes_are_different_persons(names):
    """But for spaces and quotation marks around them, which do not count."""
    names = sorted(n for n in names if not set(n) & set(b'",\n\r') and n == n.strip())
    plain = [
        n
        for n in names
        if n.decode("utf-8", "surrogateescape").strip().encode("utf-8", "surrogateescape") == n
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(b"who,x\n" + b"".join(n + b",1\n" for n in plain))
        owners = own_table.rows(path, "comma", ["who"])["who"]
    assert len(set(owners)) == len(plain)
    kept = own_table.kept(owners, 1, rng=noise.SYSTEM)
    assert kept.tolist() == list(range(len(plain)))


def test_latin_letters_do_not_merge_people(written):
    path = written(b"who,x\nM\xfcller,1\nM\xf6ller,2\n")
    owners = own_table.rows(path, "comma", ["who"])["who"]
    assert own_table.kept(owners, 1, rng=noise.SYSTEM).tolist() == [0, 1]


def test_texts_that_name_nobody_are_nobodys():
    owners = ["NA", "a", "na", "", "Unknown", "NAN"]
    assert own_table.kept(owners, 9, nobody=["na", "unknown"], rng=noise.SYSTEM).tolist() == [1, 5]


def test_numbers_are_what_float_reads_and_the_rest_is_missing():
    found = own_table.numbers(["1", " 2.5e1 ", "-inf", "", "NA", "nan", "1,5", "0x10", "１"])
    assert found[:3].tolist() == [1, 25, -math.inf] and found[8] == 1
    assert np.isnan(found[3:8]).all()


@given(st.lists(st.sampled_from(["a", "b", "c", "07", "7", ""]), max_size=40), st.integers(1, 4))
def test_each_person_keeps_at_most_so_many_rows_and_nobody_keeps_none(owners, most):
    rows = own_table.kept(owners, most, rng=np.random.default_rng(1)).tolist()
    assert rows == sorted(set(rows))
    names = [owners[i] for i in rows]
    for owner in set(owners):
        expected = min(most, owners.count(owner)) if owner else 0
        assert names.count(owner) == expected


def test_kept_rows_are_drawn_at_random_from_either_source():
    owners = ["a"] * 4 + ["b"]
    for rng in (np.random.default_rng(2), noise.SYSTEM):
        first = np.array([own_table.kept(owners, 1, rng=rng)[0] for _ in range(800)])
        counts = np.bincount(first, minlength=4)
        assert counts.size == 4
        assert abs(counts - 200).max() < 100  # by Hoeffding's bound wrong with probability 1e-9
    with pytest.raises(ValueError, match="most must be at least 1"):
        own_table.kept(owners, 0, rng=noise.SYSTEM)
