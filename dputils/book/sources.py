"""The claims of the five documents the book grew out of, and the checks that hold them.

`data/claims.csv` lists every claim with its recorded verdict: `holds`, `wrong`, `imprecise`, `not
checkable`, or empty while its chapter is still to be written. A chapter computes, then calls
`check` or `not_checkable` once for each of its claims. The call prints one line and raises
`ContradictedClaim` when the outcome does not support the record:

    outcome                                                       supports
    printed and computed agree, or the statement holds            holds
    they differ (the statement fails) and the correction is true  wrong, imprecise
    a reason why nothing can be computed                          not checkable

A `wrong` or `imprecise` claim therefore needs `corrected=`: a check that merely fails does not
support such a verdict.
"""

import csv
import difflib
import textwrap
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dputils import checks

PATH = Path(__file__).resolve().parents[2] / "data" / "claims.csv"
VERDICTS = ("holds", "wrong", "imprecise", "not checkable")
WIDTH = 110  # of a printed line


class ContradictedClaim(AssertionError):
    """The outcome of a check does not support the verdict recorded in data/claims.csv."""


class Claim(NamedTuple):
    """One row of data/claims.csv."""

    id: str
    source: str
    where: str
    kind: str
    claim: str
    verdict: str
    evidence: str
    correction: str
    artefact: str
    chapter: str


@lru_cache(maxsize=1)
def _records():
    with PATH.open(encoding="utf-8", newline="") as file:
        return {row["id"]: Claim(**row) for row in csv.DictReader(file)}


def claims():
    """Return all claims as a new pandas table of strings, a row each; the file is read once."""
    import pandas as pd

    return pd.DataFrame(list(_records().values()), columns=Claim._fields)


def claim(id):
    """Return one claim by its id; an unknown id raises `ValueError` with the nearest names."""
    if not isinstance(id, str) or id not in _records():
        near = difflib.get_close_matches(str(id), _records(), n=3)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(f"id must be a claim of data/claims.csv, got {id!r}{hint}")
    return _records()[id]


def belongs(claim, stem):
    """Return whether a claim belongs to a notebook NN-short-name: its chapter is the short name."""
    return claim.chapter == stem.partition("-")[2]


def check(
    id, *, printed=None, computed=None, tolerance=None, holds=None, corrected=None, because=""
):
    """Hold a claim, or each of a list of numeric ones, against what was computed; print a line.

    Numbers: `check(id, printed=8.4, computed=mean, tolerance=0.05)`.
    Statements: `check(id, holds=ratio <= bound, because="triangle inequality")`.

    Parameters
    ----------
    id : str or list of str
        With a list, `printed`, `computed` and `corrected` have one element an id (`None` where
        nothing is corrected).
    printed, computed : numbers or arrays of one shape
        The document's and ours; they agree when no difference exceeds `tolerance` (absolute,
        required).
    holds : bool
        Whether the claim, a statement, is true as printed.
    corrected : number, array or bool, optional
        For a claim recorded as wrong or imprecise: the right value, which `computed` must meet
        within `tolerance`; for a statement, whether its corrected or narrowed form is true.
    because : str
        A few words, shortened to the line; for a statement required.

    Raises
    ------
    ContradictedClaim
        If the outcome does not support the recorded verdict, or there is none yet.
    ValueError
        If the id is unknown or the arguments fit neither form.
    """
    if isinstance(id, (list, tuple)):
        return _check_each(
            id, printed, computed, corrected, tolerance=tolerance, holds=holds, because=because
        )
    record = claim(id)
    if holds is not None:
        if not because or any(given is not None for given in (printed, computed, tolerance)):
            raise ValueError(
                f"{id}: a statement takes holds and because, and no printed, computed or tolerance"
            )
        agrees, right = _judged(id, holds, corrected)
        outcome, shown = f"the statement {'holds' if agrees else 'fails'}", ""
    else:
        agrees, right = _compare(id, printed, computed, tolerance, corrected)
        outcome = f"printed and computed {'agree' if agrees else 'differ'}"
        shown = _numbers(printed, computed, tolerance)
    _support(record, agrees, corrected is not None, right, outcome)
    _print(record, because or record.where, shown)


def not_checkable(id, reason):
    """Print why a claim (or each of a list) cannot be checked; raise unless that is its verdict."""
    for one in [id] if isinstance(id, str) else id:
        record = claim(one)
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(
                f"{one}: reason must say why the claim cannot be checked, got {reason!r}"
            )
        _decided(record)
        if record.verdict != "not checkable":
            raise ContradictedClaim(
                f"{one} is recorded as {record.verdict!r}, but was called not checkable."
            )
        _print(record, reason)


def _check_each(ids, printed, computed, corrected, **common):
    corrected = [None] * len(ids) if corrected is None else corrected
    if not all(
        np.iterable(values) and len(values) == len(ids) for values in (printed, computed, corrected)
    ):
        raise ValueError(
            f"{len(ids)} ids need as many printed, computed and corrected; statements go one by one"
        )
    for id, theirs, ours, right in zip(ids, printed, computed, corrected):
        check(id, printed=theirs, computed=ours, corrected=right, **common)


def _judged(id, holds, corrected):
    """Return whether a statement is true as printed, and whether its corrected form is."""
    for value in (holds, corrected):
        if not isinstance(value, (bool, np.bool_, type(None))):
            raise ValueError(
                f"{id}: holds and corrected must be True or False, got {holds!r} and {corrected!r}"
            )
    return bool(holds), bool(corrected)


def _compare(id, printed, computed, tolerance, corrected):
    if printed is None or computed is None or tolerance is None:
        raise ValueError(
            f"{id}: numbers need printed, computed and tolerance; statements need holds and because"
        )
    if checks.number("tolerance", tolerance) < 0:
        raise ValueError(f"tolerance must not be negative, got {tolerance!r}")
    agrees = _within("printed", printed, computed, tolerance)
    return agrees, corrected is not None and _within("corrected", corrected, computed, tolerance)


def _within(name, theirs, computed, tolerance):
    if np.shape(theirs) != np.shape(computed):
        raise ValueError(
            f"{name} and computed must have one shape, "
            f"got {np.shape(theirs)} and {np.shape(computed)}"
        )
    return bool(np.all(_gap(theirs, computed) <= tolerance))


def _gap(theirs, computed):
    """Return the absolute differences, lowered by eight units in the last place.

    So a tolerance that is met exactly is met.
    """
    theirs, computed = np.asarray(theirs, dtype=float), np.asarray(computed, dtype=float)
    with np.errstate(invalid="ignore"):
        gap = np.where(theirs == computed, 0.0, np.abs(theirs - computed))
        return np.maximum(
            gap - 8 * np.spacing(np.abs(np.where(np.isfinite(theirs), theirs, 0.0))), 0.0
        )


def _support(record, agrees, has_correction, right, outcome):
    _decided(record)
    if record.verdict not in (("holds",) if agrees else ("wrong", "imprecise")):
        raise ContradictedClaim(f"{record.id} is recorded as {record.verdict!r}, but {outcome}.")
    if agrees and has_correction:
        raise ValueError(f"{record.id} is recorded as 'holds' and takes no corrected")
    if not agrees and not has_correction:
        raise ValueError(
            f"{record.id} is recorded as {record.verdict!r} and needs corrected, "
            "what is right instead"
        )
    if not (agrees or right):
        raise ContradictedClaim(
            f"{record.id} is recorded as {record.verdict!r}, but its correction is not confirmed."
        )


def _decided(record):
    if not record.verdict:
        raise ContradictedClaim(f"{record.id} has no verdict yet: decide it in data/claims.csv.")


def _print(record, text, numbers=""):
    head = f"{record.id:<18}  {record.verdict:<13}  {numbers}"
    print((head + textwrap.shorten(text, WIDTH - len(head), placeholder="...")).rstrip())


def _numbers(printed, computed, tolerance):
    printed, computed = np.asarray(printed), np.asarray(computed)
    left, right = _shown(printed), _shown(computed)
    if max(len(left), len(right)) > 13:
        gap = _gap(printed, computed)
        beyond = int(np.sum(~(gap <= tolerance)))
        left, right = (
            f"{printed.size} values",
            f"{beyond} differ" if beyond else _told(gap.max()),
        )
    return f"printed {left:<13} computed {right:<13} "


def _told(gap):  # rounding differs between processors
    return f"gap {_number(gap)}" if gap > 1e-12 else "gap < 1e-12"


def _shown(values):
    if values.ndim == 0:
        return _number(values.item())
    return "(" + ", ".join(_number(value) for value in values.ravel().tolist()) + ")"


def _number(value):
    """Return a number with four significant digits (integers below a million whole)."""
    if isinstance(value, Integral) and abs(value) < 1_000_000:
        return str(int(value))
    return f"{float(value) or 0.0:.4g}"
