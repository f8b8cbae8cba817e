"""What nbval lets pass and only a fresh run can show; a pytest plugin, loaded by `make test` with
`-p tools.strict`.

nbval runs each cell and compares text, JSON and errors with the stored outputs, but it skips
pictures and never looks at the clock. Here, after each cell that nbval accepts:

- the cell was executed when it was stored (nbval runs such a cell and compares nothing);
- the pictures are as many as the stored ones and show the same. Under the matplotlib of the lock
they must agree in the
  pixels; under another one, which draws letters and lines a little differently, in the averages
  over a coarse grid;
- a whole notebook takes its kernel no more processor time than `tools.anatomy` allows.

How well must pixels agree? The wheels of the lock draw the same everywhere, but the last bit of an
exponential depends on the processor, and can move the edge of a line over a rounding. The seven
notebooks that were stored by one processor were run on another (without AVX-512), as it is, with
numpy's AVX2 kernels switched off (`NPY_DISABLE_CPU_FEATURES=X86_V3`), and with those, OpenBLAS
(`OPENBLAS_CORETYPE=Nehalem`) and the C library (`GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA`) all
as on a processor of 2010: 4 of the pictures differed, in 1 to 29 pixels, by one grey level of 255,
and never by two. On a processor with AVX-512 a chapter of a later part differed in 64 pixels by one
level, and with OpenBLAS and numpy held to AVX2 in 27, some of them by two. So a few hundred pixels
are let pass, and no more than two levels.

`--nbval-lax` switches all of it off. What the stored file alone can show is in `tools.anatomy`.
"""

import base64
import io
import sys
from importlib.metadata import version

import numpy as np
import pytest

from tools import anatomy, lock, times

LEVELS, FEW = 2, 200  # of 255 grey levels, in so many pixels: see above
GRID, COARSE_RMS = (
    12,
    6.0,
)  # two versions differ by up to 4, another histogram by 40; a moved thin line is not seen


def pytest_configure(config):
    """Tell nbval not to colour its messages where no terminal shows them."""
    if config.option.color == "auto" and not sys.stdout.isatty():
        config.option.color = "no"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Add the checks of this module to each cell that nbval has accepted."""
    result = yield
    if hasattr(item, "cell_num") and item.config.option.nbval and not item.config.option.nbval_lax:
        for problem in problems(item):
            item.raise_cell_error(problem)
    return result


def problems(item):
    """Yield what is wrong with a cell that nbval has run and accepted."""
    if item.cell.execution_count is None:
        yield "This cell was never executed: its stored outputs cannot be checked"
    stored, fresh = pictures(item.cell.outputs), pictures(item.test_outputs)
    if len(stored) != len(fresh):
        yield f"The cell draws {len(fresh)} pictures, {len(stored)} are stored"
    exact = version("matplotlib") == lock.version_of("matplotlib")
    for number, pair in enumerate(zip(stored, fresh), 1):
        if difference := compare(*pair, exact):
            yield f"Picture {number} of the cell is not the stored one: {difference}"
    code_cells = sum(cell.cell_type == "code" for cell in item.parent.nb.cells)
    if item.cell_num == code_cells - 1:
        yield from too_long(item)


def too_long(item):
    """Yield that a notebook, of which the last cell has run, took more time than is allowed."""
    seconds, allowed = kernel_seconds(item.parent.kernel), anatomy.LIMITS.seconds
    times.remember(item.path.stem, "stored", seconds)
    if seconds > allowed:
        took = f"The notebook took {seconds:.0f} s of processor time"
        yield f"{took}, at most {allowed:.0f} are allowed"


def pictures(outputs):
    """Return the PNG pictures of a cell's outputs as encoded text, in order."""
    return [
        output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})
    ]


def compare(stored, fresh, exact):
    """Return how two encoded PNG pictures differ by more than is allowed, or an empty string."""
    if stored.strip() == fresh.strip():
        return ""
    a, b = pixels(stored), pixels(fresh)
    if not exact:
        difference = np.sqrt(np.mean((coarse(a) - coarse(b)) ** 2))
        return (
            f"RMS {difference:.1f} on a coarse grid, allowed {COARSE_RMS}"
            if difference > COARSE_RMS
            else ""
        )
    if a.shape != b.shape:
        return f"{b.shape[1]} x {b.shape[0]} pixels, stored {a.shape[1]} x {a.shape[0]}"
    apart = np.abs(a - b).max(axis=2)
    differing, most = np.count_nonzero(apart), apart.max()
    return (
        f"{differing} pixels differ, by up to {most:.0f} of 255"
        if most > LEVELS or differing > FEW
        else ""
    )


def pixels(encoded):
    """Return an encoded PNG as an array (height, width, 3) of floats on white ground."""
    from PIL import Image

    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    return np.asarray(Image.alpha_composite(white, picture).convert("RGB"), dtype=float)


def coarse(picture):
    """Return the averages over a grid of about `GRID` x `GRID` blocks."""
    rows = np.array_split(picture, GRID, axis=0)
    return np.array(
        [[block.mean(axis=(0, 1)) for block in np.array_split(row, GRID, axis=1)] for row in rows]
    )


def kernel_seconds(kernel):
    """Return the processor time of a kernel and its finished children."""
    import psutil

    return sum(psutil.Process(kernel.km.provisioner.pid).cpu_times()[:4])
