"""One rerun of a chapter with checked parameters.

    python -m dputils.run CHAPTER [-p name=value ...] [-o OUT]

Plain papermill only warns about a misspelled name and starts a kernel before it looks at a value.
Here every name, type and range is first checked against the chapter's parameters cell, and all
problems are told in one message.

Exit status: 0 when the notebook ran and was written, 1 when it failed (then nothing is written;
an older file of that name stays as it was), 2 when the request was refused before any kernel
started.
"""

import argparse
import contextlib
import logging
import os
import sys
from difflib import get_close_matches
from pathlib import Path

from dputils import checks
from dputils.book import chapter, kernels
from dputils.book.parameters import (
    converted,
    problems,
    read_notebook,
    read_parameters,
    shortened,
    tagged,
)

TIMEOUT = 600  # seconds that one cell may take
# What makes reruns alike: the kernel of this environment, a fixed order of sets, one thread for
# linear algebra.
ENVIRONMENT = {
    "JUPYTER_PREFER_ENV_PATH": "1",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# A kernel logs to the terminal it was started from, from warnings on (that it talks over TCP, for
# example): only its command line can tell it not to. What matters is raised.
KERNEL = ["--log-level=50"]


def find(name):
    """Return the path of a chapter given as `3`, `03`, `03-laplace-mechanism` or a path.

    What has no number, such as `reference-machinery`, is given by its name.

    Raises
    ------
    ValueError
        If there is no such chapter or file; a near miss is named.
    """
    if str(name).endswith(".ipynb"):
        if not Path(name).is_file():
            raise ValueError(f"there is no notebook {str(name)!r}")
        return Path(name)
    book = {path.stem: path for path in of_the_book()}
    wanted = str(name).zfill(2) if str(name).isdecimal() else str(name)
    for stem, path in book.items():
        if wanted == stem or (wanted.isdecimal() and stem.startswith(f"{wanted}-")):
            return path
    close = get_close_matches(wanted, book, n=1, cutoff=0.5)
    hint = (
        f"did you mean {close[0]!r}?" if close else f"there are {', '.join(book) or 'no chapters'}"
    )
    raise ValueError(f"unknown chapter {str(name)!r}: {hint}")


def of_the_book():
    """Return the paths of the book's notebooks, in order, without executed copies (*.out.ipynb)."""
    return [path for path in sorted(chapter.BOOK.glob("*.ipynb")) if "." not in path.stem]


def describe(parameters):
    """Return the parameters as text, a line each: name, type, default, meaning, allowed values."""
    heads = [f"{p.name}: {p.type} = {p.default!r}" for p in parameters]
    width = max(map(len, heads))
    return "\n".join(
        f"{head.ljust(width)}  {p.text}, {p.range}" for head, p in zip(heads, parameters)
    )


def check(name, values):
    """Return what stands against running a chapter with `values` (name -> value), in sentences."""
    try:
        return problems(_prepared(find(name)), values)
    except ValueError as error:
        return [str(error)]


def execute(name, values, out=None, timeout=TIMEOUT, progress=False):
    """Run a chapter in a new kernel and return its results record.

    Parameters
    ----------
    name : str or Path
        The chapter, as `find` takes it.
    values : dict
        Parameters that differ from their defaults.
    out : path, optional
        Where to write the executed notebook; it appears there whole or not at all.
    timeout : int
        Seconds that one cell may take.
    progress : bool
        Whether to show a progress bar.

    Raises
    ------
    ValueError
        If a parameter is unknown, of the wrong type or out of range, or if nothing can be written
        to `out` or it is a notebook of the book (all in one sentence); nothing has run then.
    RuntimeError
        If the notebook fails, runs out of time or leaves no record; nothing is written then.
    """
    checks.integer("timeout", timeout, 1)
    path = find(name)
    parameters = _prepared(path)
    found = problems(parameters, values)
    if out is not None:
        found += [f"out {problem}" for problem in output_problems(path, Path(out))]
    if found:
        raise ValueError("; ".join(found))
    record, text = executed(path, converted(parameters, values), timeout, progress)
    if out is not None:
        write_whole({out: text.encode()})
    return record


def executed(path, values, timeout=TIMEOUT, progress=False):
    """Run a notebook on values without problems; return its record, and itself as text.

    Raises
    ------
    RuntimeError
        If it fails, runs out of time or leaves no record.
    """
    import nbformat

    notebook = _papermill(path, values, timeout, progress)
    try:
        return chapter.read_record(notebook), nbformat.writes(notebook) + "\n"
    except ValueError as error:
        raise RuntimeError(f"{path.stem}: {error}") from None


def from_text(parameter, text):
    """Return the value that `text` writes for a parameter.

    Where it is none, the text comes back, which `problems` will refuse.
    """
    if parameter.type == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return {"int": int, "float": float, "str": str}[parameter.type](text)
    except ValueError:
        return text


def split_pairs(pairs):
    """Return the texts of the command line's `name=value` arguments by name, and what is wrong."""
    texts, found = {}, []
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            found.append(f"-p {shortened(pair)} must be written name=value")
        elif name in texts:
            found.append(f"{name} is given twice")
        else:
            texts[name] = text
    return texts, found


def write_whole(files):
    """Write files that appear whole or not at all, and none of them if one cannot be written.

    Parameters
    ----------
    files : dict
        Path -> bytes.
    """
    parts = {
        Path(path): Path(path).with_name(f".{Path(path).name}.{os.getpid()}.part") for path in files
    }
    try:
        for path, content in files.items():
            parts[Path(path)].write_bytes(content)
        for path, part in parts.items():
            os.replace(part, path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def output_problems(path, out):
    """Return why a run of `path` cannot be written to `out`, as a list of at most one sentence."""
    if out.suffix != ".ipynb":
        return [f"must name an .ipynb file or a folder that exists, got {shortened(str(out))}"]
    if not out.parent.is_dir():
        return [f"names a folder that does not exist: {shortened(str(out.parent))}"]
    if out.exists() and out.samefile(path):
        return ["would overwrite the chapter itself"]
    if out.exists() and (own := [one for one in of_the_book() if out.samefile(one)]):
        return [f"would overwrite a notebook of the book, {own[0].name}"]
    return folder_problems(out.parent)


def folder_problems(folder):
    """Return why nothing can be written into a folder, at most one sentence; it is tried."""
    try:
        write_whole({folder / f".{os.getpid()}.tried": b""})
        (folder / f".{os.getpid()}.tried").unlink()
    except OSError as error:
        return [f"names a folder that cannot be written to: {folder} ({error.strerror})"]
    return []


def main(arguments=None):
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        path = find(options.chapter)
        parameters = _prepared(path)
        if options.describe:
            return _say(describe(parameters))
        values, out = _request(path, parameters, options)
    except ValueError as error:
        return refused("run", options.chapter, error)
    try:
        record = execute(path, values, out, options.timeout, progress=sys.stderr.isatty())
    except (RuntimeError, OSError) as error:
        print(f"dputils.run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dputils.run: interrupted, nothing was written", file=sys.stderr)
        return 130
    print(f"wrote {out}")
    for name, value in chapter.flat({**record, "parameters": {}, "ledger": None}).items():
        print(f"  {name} = {chapter.fmt(value, 6)}")
    return 0


def _say(text):
    """Print a text, for as long as somebody reads it (`| head` does not to the end); return 0."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def refused(command, name, error):
    """Print the arguments of a `ValueError`, a line each; return the exit status of a refusal."""
    print(
        "\n  ".join([f"dputils.{command}: {name} does not run:", *map(str, error.args)]),
        file=sys.stderr,
    )
    return 2


def add_chapter(parser, form, text):
    """Add the chapter and its parameters to the arguments of a command."""
    parser.add_argument("chapter", help="4, 04, 04-laplace-mechanism, or a path to a notebook")
    parser.add_argument("-p", "--parameter", action="append", default=[], metavar=form, help=text)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m dputils.run", description="Run a chapter with other parameters."
    )
    add_chapter(parser, "name=value", "set a parameter")
    parser.add_argument(
        "-o",
        "--out",
        help="the notebook to write, or its folder (default: NN-name.out.ipynb, here)",
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=TIMEOUT,
        help="seconds one cell may take (default: %(default)s)",
    )
    parser.add_argument(
        "--describe", action="store_true", help="list the chapter's parameters and stop"
    )
    return parser


def _request(path, parameters, options):
    """Return values and output path of a command line; a `ValueError` holds all problems."""
    texts, found = split_pairs(options.parameter)
    types = {p.name: p for p in parameters}
    values = {
        name: from_text(types[name], text) if name in types else text
        for name, text in texts.items()
    }
    found += problems(parameters, values)
    if options.timeout < 1:
        found.append(f"--timeout must be at least 1, got {options.timeout}")
    out = Path(options.out or ".")
    if out.is_dir():
        out = out / f"{path.stem}.out.ipynb"
    found += [f"-o {problem}" for problem in output_problems(path, out)]
    if found:
        raise ValueError(*found)
    return values, out


def _prepared(path):
    """Return the parameters of a notebook that has what a rerun needs, a results cell as well."""
    tagged(path, "results")
    return read_parameters(path)


def _papermill(path, values, timeout, progress):
    """Return the executed notebook with papermill's injected cell, no clock times, no paths."""
    import papermill
    from nbclient.exceptions import CellTimeoutError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what matters is raised
    try:
        with environment(), kernels.use(None):
            notebook = papermill.execute_notebook(
                read_notebook(path),
                None,
                parameters=values,
                kernel_name="python3",
                language="python",
                progress_bar=progress,
                execution_timeout=timeout,
                record_timing=False,
                extra_arguments=KERNEL,
            )
    except papermill.PapermillExecutionError as error:
        sentence = " ".join(error.evalue.split())
        raise RuntimeError(
            f"{path.stem} failed in cell [{error.exec_count}]: {error.ename}: {sentence}"
        ) from None
    except CellTimeoutError:
        raise RuntimeError(f"{path.stem} failed: a cell took longer than {timeout} s") from None
    except Exception as error:
        raise RuntimeError(
            f"{path.stem} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from None
    return _without_traces(notebook)


@contextlib.contextmanager
def environment():
    """Let kernels that are started here have `ENVIRONMENT`; then all is as it was before."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _without_traces(notebook):
    """Return a notebook without what papermill notes in its metadata."""
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"
    return notebook


if __name__ == "__main__":
    sys.exit(main())
