"""How long the notebooks and the tests took here the last time; kept in the environment, never
committed.
"""

from tools import setup

FOLDER = setup.VENV / "seconds"  # one small file for each notebook and way
WAYS = ("stored", "low", "high")  # with the stored parameters, at the ends of their ranges


def remember(stem, way, seconds):
    """Keep how long a notebook took, where there is an environment to keep it in."""
    if FOLDER.parent.is_dir():
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{stem}.{way}").write_text(f"{seconds:.1f}\n")


def seconds(way):
    """Return the processor seconds of the last run by notebook, for those that ran this way."""
    return {path.stem: float(path.read_text()) for path in FOLDER.glob(f"*.{way}")}
