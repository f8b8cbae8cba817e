"""How large the chapters are and how long they take, beside the design's numbers: `python -m tools.report`.

Nothing fails here: `tools.anatomy` refuses what is far outside. The seconds are processor time of the last runs on this
machine, kept in the environment: `stored` by `make book` or nbval, `low` and `high` by the reruns of `make test`.
"""
from tools import setup

TIMES = setup.VENV / "seconds"  # one small file for each notebook and way; never committed
WAYS = ("stored", "low", "high")


def remember(stem, way, seconds):
    """Keep how long a notebook took, where there is an environment to keep it in."""
    if TIMES.parent.is_dir():
        TIMES.mkdir(exist_ok=True)
        (TIMES / f"{stem}.{way}").write_text(f"{seconds:.1f}\n")


def seconds(way):
    """Return the seconds of the last run by notebook, for those that ran this way."""
    return {path.stem: float(path.read_text()) for path in TIMES.glob(f"*.{way}")}
