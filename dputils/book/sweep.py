"""A grid of reruns, on the cores of this machine or on a Dask cluster.

    python -m dputils.sweep CHAPTER -p epsilon=0.1,1 -p seed=0:10 -o DIR

A parameter takes values separated by commas; for whole numbers `a:b` is the half-open range, so
`seed=0:10` is 0 to 9. All values are checked before anything starts. The records come back as one
tidy table, DIR/NN-name.csv: a row for each run in the order of the grid, failed ones too (columns
`run`, `status` and `error`). DIR/NN-name.json says what the table was made from. Rows with one seed
share their random bits across the other parameters: compare over seeds. Neither file holds clock
times or paths: the same sweep gives the same bytes.

DIR/NN-name.runs.jsonl keeps every run that has ended, from the moment it ends. The same command
runs what is missing or has failed. A run is the same if all its parameters, the chapter's code,
`dputils`, the data and the versions are.

`--scheduler tcp://host:port` hands the runs to a Dask cluster. Its workers need this version of the
book, in a folder that they share or as the package that they have installed, which is checked.

Exit status: 0 when every run succeeded, 1 when some failed or the sweep was cut off, 2 when the
request was refused before anything started, 130 after Ctrl-C, 143 after a TERM.

At a million points on a thousand workers: a run takes a second or more, and a scheduler handles a
few thousand tasks a second, so it has room; four runs a worker are handed out at a time. All
results come through one process, about a kilobyte each: a gigabyte in the file of runs, and more
than twice that in memory while the table is made. That process is the limit, not the number of
workers. Beyond it workers would each write a file of runs of their own, and the table would be read
from those, as Parquet, without ever being whole in memory. Executed notebooks (`--keep`) have 300
kilobytes each: not for a million.
"""

import argparse
import contextlib
import hashlib
import io
import json
import logging
import os
import shlex
import signal
import sys
from pathlib import Path

from dputils.book import engine, finished, grid, run
from dputils.book.parameters import converted, read_parameters, tagged


def rerun(name, values, folder, connect, timeout=run.TIMEOUT, keep=False, progress=False):
    """Run a chapter on the points of a grid that are not finished yet; return the table of all.

    Parameters
    ----------
    name : str or Path
        The chapter, as `run.find` takes it.
    values : dict
        Name -> values, without problems (see `grid.read`).
    folder : Path
        Where finished runs are kept. Nobody else may write there (`finished.only_one`).
    connect : function
        To the workers (`engine.local`, `engine.remote`).
    timeout : int
        Seconds that one cell may take.
    keep : bool
        Whether to keep the executed notebooks, as folder/NN-name.runs/RUN.ipynb; those of other
        runs are removed.
    progress : bool
        Whether the progress is shown on a terminal or, line by line, in a file.

    Returns
    -------
    pandas.DataFrame
        A row for each run in the order of the grid: all parameters, `run`, `status` ("ok" or
        "failed"), `error`, the record.

    Raises
    ------
    ValueError
        If no worker answers, or one would run something else; nothing has been run then.
    RuntimeError
        If chapter, code or data change meanwhile, or the scheduler is lost.
    OSError
        If nothing more can be written. The finished runs are kept, whatever ends a sweep.
    """
    path, folder = run.find(name), Path(folder)
    parameters, made_from = read_parameters(path), finished.origin(path)
    defaults = {p.name: p.default for p in parameters}
    notebooks = folder / f"{path.stem}.runs" if keep else None

    def named():
        for point in grid.points(values):
            full = defaults | converted(parameters, point)
            yield finished.key(made_from, full), full

    def done(key):
        return key in runs and not (keep and not (notebooks / f"{key}.ipynb").exists())

    with finished.Runs(folder / f"{path.stem}.runs.jsonl") as runs:
        tasks = ((key, full) for key, full in named() if not done(key))
        results = engine.execute(connect, path, tasks, made_from, finished.lock(), timeout, keep)
        total, before = grid.size(values), sum(done(key) for key, _ in named())
        with contextlib.closing(results), _bar(total, before, progress) as bar:
            for key, row, notebook in results if before < total else ():
                if notebook:
                    run.write_whole({notebooks / f"{key}.ipynb": notebook.encode()})
                runs.add(key, row)
                bar.update()
        if finished.origin(path) != made_from:
            raise RuntimeError(f"{path.stem}, dputils or the data changed during the sweep")
        rows = [{**full, "run": key, **runs.row(key)} for key, full in named()]
    if keep:
        _remove_others(notebooks, {row["run"] for row in rows})
    return _frame(rows)


def sidecar(path, values, table, command):
    """Return what a table of results was made from, as a dict for JSON."""
    defaults = {p.name: p.default for p in read_parameters(path)}
    made_from = finished.origin(path)
    hashes = ("notebook_code", "dputils", "data")
    return {
        "command": command,
        "chapter": path.stem,
        "runs": len(table),
        "failed": int((table.status != "ok").sum()),
        "parameters": {n: list(values[n]) if n in values else d for n, d in defaults.items()},
        "seeds": list(values.get("seed", [defaults["seed"]])),
        "sha256": {name: made_from[name] for name in hashes},
        "versions": {name: text for name, text in made_from.items() if name not in hashes},
    }


def main(arguments=None):
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        path, values = _request(options)
        folder = _made(options, path)
        workers = engine.local(options.jobs)
        if options.scheduler:
            workers = engine.remote(options.scheduler)
        with finished.only_one(folder), _terminable():
            table = rerun(
                path, values, folder, workers, options.timeout, options.keep, progress=True
            )
            file, failed = _write(path, values, table, folder, options), _failed(table)
    except ValueError as error:
        return run.refused("sweep", options.chapter, error)
    except (RuntimeError, OSError) as error:
        return _cut_off(str(error), 1)
    except KeyboardInterrupt as interrupt:
        return _cut_off("interrupted", 128 + (interrupt.args or (signal.SIGINT,))[0])
    print(
        f"wrote {file}: {len(table)} runs, {failed} failed"
        + (" (see the column 'error'; the same command runs them again)" if failed else "")
    )
    return 1 if failed else 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m dputils.sweep", description="Run a chapter on a parameter grid."
    )
    run.add_chapter(parser, "name=values", "0.1,1 or 0:10")
    parser.add_argument(
        "-o", "--out", required=True, metavar="DIR", help="folder of the table, made if need be"
    )
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        default=_cores(),
        help="runs at the same time on this machine (default: all cores)",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="run on a Dask cluster: tcp://host:port"
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
    values, wrong = grid.read(read_parameters(path), texts)
    found += wrong
    for name in ("timeout", "jobs"):
        if getattr(options, name) < 1:
            found.append(f"--{name} must be at least 1, got {getattr(options, name)}")
    if Path(options.out).exists() and not Path(options.out).is_dir():
        found.append(f"-o must name a folder, got the file {options.out}")
    if found:
        raise ValueError(*found)
    return path, values


def _made(options, path):
    """Make the folder for results and return it; `ValueError` if that is not possible."""
    folder = Path(options.out)
    inner = folder / f"{path.stem}.runs" if options.keep else folder
    try:
        inner.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"-o names a folder that cannot be made: {inner} ({error.strerror})"
        ) from None
    if found := run.folder_problems(inner):
        raise ValueError(*(f"-o {problem}" for problem in found))
    return folder


@contextlib.contextmanager
def _terminable():
    """Let a TERM end the block as Ctrl-C does."""

    def interrupted(number, _):
        # event loops and tasks that are cut off complain at the end
        sys.unraisablehook = lambda _: None
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise KeyboardInterrupt(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interrupted) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)


def _cut_off(reason, status):
    print(
        f"dputils.sweep: {reason}; no table was written. "
        "The runs that have ended are kept: the same command goes on from there.",
        file=sys.stderr,
    )
    return status


def _bar(total, before, progress):
    """Return a progress bar: on a terminal, or line by line where it goes to a file."""
    from tqdm import tqdm

    options = {"total": total, "initial": before, "unit": "run", "disable": not progress}
    if sys.stderr.isatty():
        return tqdm(**options)
    return tqdm(**options, file=_Lines(), mininterval=10, maxinterval=10, ncols=80, ascii=True)


class _Lines(io.TextIOBase):
    """Standard error for a bar that would draw over itself: each drawing becomes a line."""

    def write(self, text):
        line = text.strip("\r\n ")
        return sys.stderr.write(f"{line}\n") if line else 0

    def flush(self):
        sys.stderr.flush()


def _failed(table):
    return int((table.status != "ok").sum())


def _remove_others(folder, keys):
    for path in folder.glob("*.ipynb"):
        if path.stem not in keys:
            path.unlink()


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
    """Write table and sidecar, both or none; return the table's path."""
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
    beside = sidecar(path, values, table, shlex.join(words))
    beside["sha256"]["table"] = hashlib.sha256(content).hexdigest()
    file = folder / f"{path.stem}.{options.format}"
    run.write_whole(
        {
            file: content,
            folder / f"{path.stem}.json": json.dumps(beside, indent=1).encode() + b"\n",
        }
    )
    return file


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
