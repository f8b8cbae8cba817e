"""A reader's own table: a CSV file, read line by line by rules that are public.

Public are the file's first line (the names of the columns) and the character between fields. All
below it is private, and what stands in one line never decides how another line is read, whether an
error is raised, or whether there is an answer:

1. A line is a row. A quotation mark that is not closed ends with its line, so a field cannot hold a
   line break. Readers that let a field run on over lines would let one person swallow the rows
   of all who follow. Lines of nothing but spaces are no rows. What is promised is
   promised for lines: if the program that wrote the file put a text with line breaks into a field,
   the person of this row has many lines, and some may name another person. That cannot be told
   from a file, so who gives it must know that there are none: `no_line_breaks_in` of
   `own_release`.
2. A field that a line does not have is empty; what it has beyond the named columns is not read.
   Spaces around a field do not count.
3. Texts are UTF-8. Bytes that are not are kept as they are, each as a character of its own: two
   fields of different bytes stay different, up to spaces and quotation marks around them.
4. A number is what Python's `float` reads: a decimal point, no mark between thousands, no sign of a
   currency. Anything else is *missing*, and so is an empty field. What counts in place of what is
   missing, `own_release` says.
5. A person is a text in the column of persons: two spellings are two persons, and all rows of one
   text are one person's. A row with no text there, or with one of the public texts that name
   nobody, in small letters or capitals, is no one's and does not count.
6. A table without rows is a table: a refusal would tell that nobody is in it.

No refusal repeats anything of the file: where the header was forgotten, the first line is a row.
Timing is not protected, and neither is the file.
"""

import csv
import math
from pathlib import Path

import numpy as np

from dputils import checks, contributions, noise

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}
HEADER = 1 << 20  # bytes that a header has at most
BOOK = Path(__file__).resolve().parents[1]


def find(path):
    """Return a file named from the current folder or else from the folder of the book.

    Raises
    ------
    ValueError
        If there is none.
    """
    for found in (Path(path).expanduser(), BOOK / path):
        if str(path).strip() and found.is_file():
            return found
    raise ValueError(
        f"path must name a CSV file that exists, got {str(path)!r}, looked for from the folders "
        f"{str(Path.cwd())!r} and {str(BOOK)!r}"
    )


def header(path, separator):
    """Return the names of the columns of a table: its first line is read, nothing else.

    Parameters
    ----------
    path : str or Path
        Public.
    separator : {"comma", "semicolon", "tab"}

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If there is no such file, its first line holds zero bytes, as UTF-16 does, or it names no
        columns, or one twice.
    """
    checks.one_of("separator", separator, tuple(SEPARATORS))
    with open(find(path), "rb") as file:
        line = file.readline(HEADER)
    if b"\0" in line:
        raise ValueError("path must name a file in UTF-8, got zero bytes in the first line")
    names = _fields(line.decode("utf-8-sig", errors="replace").rstrip("\r\n"), separator)
    if not any(names):
        raise ValueError(f"path must name a table with a header line, got {str(path)!r}")
    if len(set(filter(None, names))) < len(list(filter(None, names))):
        raise ValueError("the first line must name each column once, got a name twice")
    return names


def rows(path, separator, columns):
    """Return some columns of a table as texts, by the rules of the module.

    Privacy
        None: these are the private values themselves.

    Parameters
    ----------
    path, separator
        As for `header`.
    columns : sequence of str
        Names that the header has.

    Returns
    -------
    dict
        Column -> list of n texts, empty where a field is missing.

    Raises
    ------
    ValueError
        As `header`, or if a column is not in it.
    """
    places = {name: i for i, name in enumerate(header(path, separator))}
    for name in columns:
        if name not in places:
            raise ValueError(f"the table must have the column {name!r}")
    lines = find(path).read_bytes().decode("utf-8-sig", errors="surrogateescape").split("\n")[1:]
    table = [_fields(line.rstrip("\r"), separator) for line in lines if line.strip("\r ")]
    return {name: [_field(row, places[name]) for row in table] for name in columns}


def numbers(texts):
    """Return texts as floats, NaN for what is missing."""
    return np.array([_number(text) for text in texts], dtype=float)


def kept(owners, most, *, nobody=(), rng):
    """Return which rows count if each person keeps at most `most` of theirs, drawn at random.

    Privacy
        None by itself. Which rows of a person are kept depends on the rows of this person and on
        coins, so a person moves what is computed from the kept rows by at most `most` rows. A row
        without an owner is not kept: it would belong to nobody.

    Parameters
    ----------
    owners : list of str, of length n
        Private; the person of each row, empty for none.
    most : int
        Public, at least 1.
    nobody : collection of str
        Public; texts that name no person, in small letters: point 5 of the module.
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    int64 array
        The places of the rows that are kept, in the order of the table.
    """
    checks.integer("most", most, low=1)
    nobody = {"", *nobody}
    persons = contributions.persons(
        [None if owner.casefold() in nobody else owner for owner in owners]
    )
    order = np.lexsort((noise.integers(1 << 60, persons.size, rng=rng), persons))
    persons = persons[order]
    first = np.searchsorted(persons, persons)  # where each person's rows begin
    mine = (np.arange(persons.size) - first < most) & (persons >= 0)
    return np.sort(order[mine])


def _fields(line, separator):
    """Return the fields of one line; a line that cannot be read has none."""
    try:
        reader = csv.reader([line], delimiter=SEPARATORS[separator], skipinitialspace=True)
        return [field.strip() for field in next(reader)]
    except (csv.Error, StopIteration):
        return []


def _field(row, place):
    return row[place] if place < len(row) else ""


def _number(text):
    try:
        return float(text)
    except ValueError:
        return math.nan
