"""Examples that tests share: odd values of a private column, the parameters of a chapter."""

import math

import pandas as pd

HOSTILE = [
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    -1e308,
    5e-324,
    None,
    "no number",
    10**400,
    -(10**400),
    [1, 2],
    1j,
    pd.NA,
    b"\xff",
    {},
    True,
]

SEED = "seed: int = 1  # seed of all random streams, range [0, 4294967295]\n"
SOURCE = (
    """# what can be changed
epsilon: float = 1.0  # privacy budget of the chapter, range (0, 20]
"""
    + SEED
    + """delta: float = 1e-5  # delta of the releases, range [1e-12, 0.1)
dataset: str = "randhie"  # embedded table, one of randhie, anes96
folds: int = 5  # folds of the cross-validation, one of 2, 5, 10
detail: bool = False  # whether to draw the fine grid too
"""
)
GOOD = {"epsilon": 2, "seed": 7, "delta": 0.01, "dataset": "anes96", "folds": 10, "detail": True}
