"""A grid of reruns on this machine.

    python -m dputils.sweep CHAPTER -p epsilon=0.1,1 -p seed=0:10 -o DIR

A parameter takes values separated by commas; for whole numbers `a:b` is the half-open range, so
`seed=0:10` is 0 to 9. All values are checked before anything starts. The records come back as one
tidy table, DIR/NN-name.csv: a row for each run in the order of the grid, failed ones too (columns
`status` and `error`). DIR/NN-name.json says what the table was made from. Rows with one seed
share their random bits across the other parameters: compare over seeds. Neither file holds clock
times or paths: the same sweep gives the same bytes.

Exit status: 0 when every run succeeded, 1 when some failed, 2 when the request was refused before
anything started.
"""

import argparse
import hashlib
import io
import itertools
import json
import math
import os
import shlex
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from dputils import checks
from dputils.book import chapter, run
from dputils.book.parameters import problems, read_notebook, read_parameters, shortened, tagged

MOST = 100_000  # runs in one sweep
ROOT = Path(__file__).resolve().parents[2]


def grid(parameters, texts):
    """Return the values that texts such as `0.1,1` or `0:10` stand for by name, and problems."""
    types, values, found = {p.name: p for p in parameters}, {}, []
    for name, text in texts.items():
        if name not in types:
            found += problems(parameters, {name: text})
            continue
        values[name], wrong = _values(types[name], text)
        wrong += [
            sentence for value in values[name] for sentence in problems(parameters, {name: value})
        ]
        found += wrong[:3]  # a long range that is out of bounds needs no sentence for each value
    if math.prod(map(len, values.values())) > MOST:
        found.append(f"the grid has more than {MOST} runs")
    return values, found


def rerun(name, values, timeout=run.TIMEOUT, jobs=1, keep=None, progress=False):
    """Run a chapter on every point of a grid, a kernel for each; return the table of the records.

    Parameters
    ----------
    name : str or Path
        The chapter, as `run.find` takes it.
    values : dict
        Name -> list of values, without problems (see `grid`).
    timeout : int
        Seconds that one cell may take.
    jobs : int
        Runs at the same time.
    keep : Path, optional
        Folder for the executed notebooks, named by the number of the row.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        A row for each run in the order of the grid: all parameters, `status` ("ok" or "failed"),
        `error`, the record.
    """
    from tqdm import tqdm

    path, jobs = run.find(name), checks.integer("jobs", jobs, 1)
    defaults = {p.name: p.default for p in read_parameters(path)}
    points = [dict(zip(values, point)) for point in itertools.product(*values.values())]
    rows = [{**defaults, **point} for point in points]
    with ProcessPoolExecutor(min(jobs, len(points)), get_context("spawn")) as pool:
        futures = {
            pool.submit(_attempt, path, point, keep and Path(keep) / f"{i:05d}.ipynb", timeout): i
            for i, point in enumerate(points)
        }
        try:
            for future in tqdm(
                as_completed(futures), total=len(points), unit="run", disable=not progress
            ):
                # a worker that was killed takes the waiting runs with it: they become rows as well
                rows[futures[future]] |= (
                    _failed(future.exception()) if future.exception() else future.result()
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return _frame(rows)


def sidecar(path, values, table, command):
    """Return what a table of results was made from, as a dict for JSON.

    Of the notebook the code cells count (neither prose nor outputs), of `data` all but
    `data/results`: so a chapter can show a table that was made by running it.
    """
    cells = [cell.source for cell in read_notebook(path).cells if cell.cell_type == "code"]
    data = [
        p
        for p in sorted((ROOT / "data").rglob("*"))
        if p.is_file() and "results" not in p.relative_to(ROOT).parts
    ]
    code = sorted((ROOT / "dputils").rglob("*.py"))
    defaults = {p.name: p.default for p in read_parameters(path)}
    return {
        "command": command,
        "chapter": path.stem,
        "runs": len(table),
        "failed": int((table.status != "ok").sum()),
        "parameters": {name: values.get(name, default) for name, default in defaults.items()},
        "seeds": values.get("seed", [defaults["seed"]]),
        "sha256": {
            "notebook_code": _digest((str(i), source.encode()) for i, source in enumerate(cells)),
            "dputils": _digest((p.relative_to(ROOT).as_posix(), p.read_bytes()) for p in code),
            "data": _digest((p.relative_to(ROOT).as_posix(), p.read_bytes()) for p in data),
        },
        "versions": {
            "python": "{}.{}".format(*sys.version_info),
            **{package: version(package) for package in ("numpy", "scipy", "pandas")},
        },
    }


def main(arguments=None):
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        path, values = _request(options)
    except ValueError as error:
        return run.refused("sweep", options.chapter, error)
    folder = Path(options.out)
    keep = folder / f"{path.stem}.runs" if options.keep else None
    if found := _made(keep or folder):
        return run.refused("sweep", options.chapter, ValueError(*found))
    try:
        table = rerun(
            path, values, options.timeout, options.jobs, keep, progress=sys.stderr.isatty()
        )
    except KeyboardInterrupt:
        print("dputils.sweep: interrupted, no table was written", file=sys.stderr)
        return 130
    file, failed = _write(path, values, table, folder, options), int((table.status != "ok").sum())
    print(
        f"wrote {file}: {len(table)} runs, {failed} failed"
        + (" (see the column 'error')" if failed else "")
    )
    return 1 if failed else 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m dputils.sweep", description="Run a chapter on a parameter grid."
    )
    parser.add_argument("chapter", help="4, 04, 04-laplace-mechanism, or a path to a notebook")
    parser.add_argument(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="name=values",
        help="0.1,1 or 0:10",
    )
    parser.add_argument(
        "-o", "--out", required=True, metavar="DIR", help="folder of the table, made if need be"
    )
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        default=_cores(),
        help="runs at the same time (default: all cores)",
    )
    parser.add_argument(
        "--timeout", type=int, default=run.TIMEOUT, help="seconds for a cell (default: %(default)s)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the executed notebooks in DIR/NN-name.runs"
    )
    return parser


def _request(options):
    """Return path and grid of a command line; a `ValueError` has all problems as arguments."""
    path = run.find(options.chapter)
    texts, found = run.split_pairs(options.parameter)
    tagged(path, "results")
    values, wrong = grid(read_parameters(path), texts)
    found += wrong
    for name in ("timeout", "jobs"):
        if getattr(options, name) < 1:
            found.append(f"--{name} must be at least 1, got {getattr(options, name)}")
    if Path(options.out).exists() and not Path(options.out).is_dir():
        found.append(f"-o must name a folder, got the file {options.out}")
    if found:
        raise ValueError(*found)
    return path, values


def _made(folder):
    """Make a folder for results; return why that is not possible, in sentences."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return [f"-o names a folder that cannot be made: {folder} ({error.strerror})"]
    return [f"-o {problem}" for problem in run.folder_problems(folder)]


def _values(parameter, text):
    """Return `(values, found)` of one swept parameter."""
    values = []
    for item in text.split(","):
        low, colon, high = item.partition(":")
        if parameter.type != "int" or not colon:
            values.append(run.from_text(parameter, item.strip()))
            continue
        low, high = (run.from_text(parameter, end) for end in (low, high))
        if isinstance(low, str) or isinstance(high, str) or not 0 < high - low <= MOST:
            return [], [
                f"{parameter.name}={shortened(item)} is not a range a:b of at most {MOST} "
                "whole numbers, a < b"
            ]
        values.extend(range(low, high))
    twice = [
        value
        for value, others in itertools.groupby(sorted(values, key=str))
        if len(list(others)) > 1
    ]
    return values, [f"{parameter.name} takes {value!r} twice" for value in twice]


def _attempt(path, point, out, timeout):
    """Run one point in a worker; return the columns that its row gains."""
    try:
        record = run.execute(path, point, out, timeout)
    except Exception as error:
        return _failed(error)
    columns = chapter.flat({**record, "parameters": {}})
    return {
        "status": "ok",
        "error": "",
        **{n: float(v) if v in ("inf", "-inf") else v for n, v in columns.items()},
    }


def _failed(error):
    return {"status": "failed", "error": str(error) or type(error).__name__}


def _frame(rows):
    """Return the rows as a DataFrame, each column of one type, missing values or not."""
    import pandas as pd

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame({name: _column(pd, [row.get(name) for row in rows]) for name in names})


def _column(pd, values):
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return pd.array(values, dtype="Int64")
    if str in kinds and len(kinds) > 1:
        values = [value if value is None else str(value) for value in values]
    return pd.Series(values, dtype=None if kinds <= {int, float} else object)


def _write(path, values, table, folder, options):
    """Write table and sidecar, each whole or not at all; return the table's path."""
    if options.format == "csv":
        content = table.to_csv(index=False, lineterminator="\n").encode()
    else:
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        content = buffer.getvalue()
    pairs = [word for pair in options.parameter for word in ("-p", pair)]
    words = ["python", "-m", "dputils.sweep", path.stem, *pairs, "-o", "DIR"]
    words += ["--format", options.format] * (options.format != "csv")
    words += ["--timeout", str(options.timeout)] * (options.timeout != run.TIMEOUT)
    origin = sidecar(path, values, table, shlex.join(words))
    origin["sha256"]["table"] = hashlib.sha256(content).hexdigest()
    file = folder / f"{path.stem}.{options.format}"
    run.write_whole(file, content)
    run.write_whole(folder / f"{path.stem}.json", json.dumps(origin, indent=1).encode() + b"\n")
    return file


def _digest(parts):
    """Return the SHA-256 of named byte strings."""
    total = hashlib.sha256()
    for name, content in parts:
        total.update(f"{name}\n{len(content)}\n".encode() + content)
    return total.hexdigest()


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
