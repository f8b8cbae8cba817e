"""Run the public package dpmm beside the book: writes data/results/synthetic_public.csv.

    DPUTILS_DATA=... PYTHONPATH=. <environment>/bin/python -m tools.synthetic_public

dpmm (github.com/sassoftware/dpmm, Apache-2.0) is no dependency of the book and wants older packages
than it has; the Python that runs this is of an environment of its own, made by `pip install dpmm`.
Rows, domains, splits and measures are those of `tools.synthetic_compared`; `sizes` are given to the
package as public. Its copies are (epsilon, delta)-differentially private with delta 1e-9, by its
own account. Its noise comes from the operating system: other runs give other numbers. AIM is left
out for the large table: one copy was not done after seven minutes of processor time. A row that is
there is not done again.
"""

import csv
import importlib.metadata
import itertools
import json
import platform

import numpy as np
import pandas as pd

from tools import synthetic_compared as compared

DELTA, EPSILONS = 1e-9, (0.3, 3, 30)
SETTINGS = {"MST": {"n_iters": 1000}, "AIM": {"n_iters": 300}}  # the rest as the package has it
METHODS = {"election": ("MST", "AIM"), "health": ("MST", "AIM"), "adult": ("MST",)}
SEEDS = range(3)
COMMAND = "DPUTILS_DATA=<folder> PYTHONPATH=. <environment>/bin/python -m tools.synthetic_public"
PACKAGES = ("dpmm", "opendp", "numpy", "scipy", "scikit-learn")


def models():
    """Return the package's generators by their names."""
    try:
        from dpmm.models.aim import AIMGM
        from dpmm.models.mst import MSTGM
    except ImportError:
        missing = "dpmm is missing: run this with the Python of an environment that has it"
        raise SystemExit(missing) from None
    return {"MST": MSTGM, "AIM": AIMGM}


def copy_of(kept, sizes, method, epsilon, seed):
    """Return the rows that the package makes from the kept ones; it chooses how many."""
    names = [f"column {i}" for i in range(len(sizes))]
    model = models()[method](
        epsilon=epsilon,
        delta=DELTA,
        domain=dict(zip(names, sizes)),
        random_state=np.random.RandomState(seed),
        n_jobs=1,
        **SETTINGS[method],
    )
    model.fit(pd.DataFrame(kept, columns=names))
    return model.generate()[names].to_numpy(dtype=np.int64)


def cases():
    """Yield table, seed, method and epsilon; the large table comes last."""
    for name, methods in METHODS.items():
        yield from itertools.product([name], SEEDS, methods, EPSILONS)


def main():
    """Write the table and its sidecar."""
    models()  # refuses before anything is written
    path = compared.FOLDER / "synthetic_public.csv"
    done = set()
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            keys = ("data", "seed", "method", "epsilon")
            done = {tuple(row[key] for key in keys) for row in csv.DictReader(file)}
    with open(path, "a", newline="", encoding="utf-8") as file:
        write = csv.writer(file, lineterminator="\n").writerow
        if not done:
            write(compared.NAMES)
        for name, seed, method, epsilon in cases():
            if (name, str(seed), method, str(epsilon)) not in done:
                rows, sizes = compared.table(name)
                kept, hidden = compared.split(name, rows, seed)
                copy = copy_of(kept, sizes, method, epsilon, seed)
                start = (name, len(kept), method, epsilon, seed)
                write(compared.measured(start, copy, kept, hidden, sizes))
                file.flush()
    beside = compared.FOLDER / "synthetic_compared.json"
    sidecar = {
        "command": COMMAND,
        "delta": DELTA,
        "epsilons": list(EPSILONS),
        "seeds": [SEEDS[0], SEEDS[-1]],
        "methods": METHODS,
        "settings": SETTINGS,
        "sha256": json.loads(beside.read_text(encoding="utf-8"))["sha256"],
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in PACKAGES},
    }
    text = json.dumps(sidecar, indent=1) + "\n"
    (compared.FOLDER / "synthetic_public.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
