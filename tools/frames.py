"""The pictures that a page without a kernel shows under an explorer's sliders: `frames.make(paths,
into)`, called by `make site`.

A notebook is executed up to its explorer, with a `plots.explore` that draws each of the declared
frames (`frames=`) instead of sliders. The pictures have 64 colours, as PNG, and are kept in a
folder named by what they came from (the notebook's code up to there, `dputils`, `data`, the lock):
made once, found the next time.
"""

import hashlib
import io
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import nbformat

from dputils.book import kernels
from tools import book, setup, stored

COLOURS = 64
CACHE = setup.ROOT / "build" / "frames"
MANIFEST = "explorer.json"
TIMEOUT = 300  # seconds for a cell, drawing the frames among them
PRELUDE = """
import sys
sys.path.append({root!r})
from tools import frames
frames.take_over({folder!r})
""".strip()


def explorer(nb):
    """Return the index of the cell that is tagged explorer, or None."""
    found = stored.tagged(nb, "explorer")
    return found[0] if found else None


def key(path):
    """Return what names the pictures of a notebook: a hash of all that they are drawn from."""
    nb = stored.read(path)
    code = [cell.source for cell in nb.cells[: explorer(nb) + 1] if cell.cell_type == "code"]
    files = [
        *sorted((setup.ROOT / "dputils").rglob("*.py")),
        *sorted((setup.ROOT / "data").rglob("*.csv")),
        setup.ROOT / "requirements.lock",
        Path(__file__),
    ]
    return hashlib.sha256(b"\0".join([*map(str.encode, code), *map(Path.read_bytes, files)]))


def make(paths, into, cache=CACHE, jobs=2):
    """Lay the frames of the notebooks that have an explorer into folders `into/STEM`.

    Parameters
    ----------
    paths : list of Path
        Notebooks; those without an explorer are passed over.
    into, cache : Path
        Where the site wants the pictures, and where they are kept between two builds.
    jobs : int
        Notebooks at a time.

    Raises
    ------
    ValueError
        If a cell up to the explorer fails, or the explorer declares no frames.
    """
    places = {path: cache / key(path).hexdigest()[:32] for path in paths if has_explorer(path)}
    missing = [path for path, folder in places.items() if not (folder / MANIFEST).exists()]
    with kernels.forked() if missing else nullcontext(), ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda path: draw(path, places[path]), missing))
    for path, folder in places.items():
        shutil.copytree(folder, into / path.stem, dirs_exist_ok=True)


def has_explorer(path):
    """Return whether a notebook has a cell that is tagged explorer."""
    return explorer(stored.read(path)) is not None


def draw(path, folder):
    """Execute a notebook up to its explorer and keep its frames in `folder`, all or none."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    nb = nbformat.read(path, as_version=4)
    last = explorer(nb)
    partial_folder = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    partial_folder.mkdir(parents=True)
    prelude = PRELUDE.format(root=str(setup.ROOT), folder=str(partial_folder))
    nb.cells = [*nb.cells[:last], nbformat.v4.new_code_cell(prelude), nb.cells[last]]
    client = NotebookClient(
        nb,
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=book.KERNEL,
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute(cleanup_kc=True)
    except CellExecutionError as error:
        raise ValueError(f"{path.name}: {error.ename}: {error.evalue}") from None
    if not (partial_folder / MANIFEST).exists():
        raise ValueError(f"{path.name}: its explorer declares no frames")
    shutil.rmtree(folder, ignore_errors=True)
    partial_folder.replace(folder)


# ---- in the kernel of the notebook -------------------------------------------------------------


def take_over(folder):
    """Let `plots.explore` draw its frames into a folder from now on, instead of showing sliders."""
    from dputils.book import plots

    plots.explore = partial(record, Path(folder))


def record(folder, draw, alt, *, frames=None, **sliders):
    """Draw the frames of an explorer into a folder, with a list of them; the arguments behind the
    first are those of `plots.explore`.
    """
    from dputils.book import plots

    if frames is None:
        return
    wanted = plots.frame_values(frames, sliders)
    for number, values in enumerate(wanted):
        (folder / f"{number:02}.png").write_bytes(few_colours(plots.png(draw(**values))))
    moved = [
        {
            "label": sliders[name][0],
            "values": [f"{value:g}" for value in values],
            "start": list(values).index(sliders[name][4]),
        }
        for name, values in ((name, frames[name]) for name in sliders if name in frames)
    ]
    text = json.dumps({"alt": alt, "sliders": moved, "pictures": len(wanted)}, indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def few_colours(picture):
    """Return a PNG with at most 64 colours."""
    from PIL import Image

    buffer = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
