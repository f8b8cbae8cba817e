"""Disjoint parts of a table: which rows are in which part, and releases on them.

Releases on disjoint parts are composed in parallel: they cost as much as on the most expensive one.

A row's part follows from one value of that row. What is disjoint for rows need not be so for what
is protected: a person with a row in every year is in the part of every year. A partition therefore
bounds in how many parts a unit has rows, by dropping the others, and its ledger counts that many.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from numbers import Number
from uuid import UUID

import numpy as np

from dputils import checks

_OWNERS = (str, bytes, Number, np.generic, date, UUID)  # what is compared by its value


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a partition.

    Its relation is always add-remove, whichever the ledger has: a replaced unit can leave one part
    and enter another, which changes both their sizes.

    Parameters
    ----------
    name : str
    mask : bool array of shape (n,)
        Private: which rows of the table are in this part, read only.
    release : function of (label, mechanism, value, *, rng)
        As `Ledger.release`, for an add-remove mechanism of the ledger's unit; `value` is computed
        from these rows.
    spend : function of (label, cost, delta=0)
        As `Ledger.spend`: the cost of adding or removing one unit.
    """

    name: str
    mask: np.ndarray
    release: Callable = field(repr=False)
    spend: Callable = field(repr=False)


class Partition:
    """Disjoint parts of a table, made by `Ledger.partition`; `partition["north"]` is a `Part`.

    Attributes
    ----------
    name : str
    parts : tuple of str
    most : int
        The most parts in which one unit has rows.
    """

    def __init__(self, name, values, rule, parts, *, examples, owners, most, release, spend):
        """Try the rule on the examples, evaluate it on the table, bound what each unit touches."""
        self.name, self.parts = checks.named("name", name), _names(parts)
        self.most = checks.integer("most", most, 1)
        if owners is None and self.most != 1:
            raise ValueError(f"most must be 1 where each row is a unit of its own, got {most!r}")
        _try(rule, self.parts, examples)
        index = _assigned(rule, self.parts, values)
        if owners is not None:
            _bound(index, _column("owners", owners, index.size), self.most)
        self._made = {
            part: Part(
                part,
                _frozen(index == i),
                partial(release, self.name, part),
                partial(spend, self.name, part),
            )
            for i, part in enumerate(self.parts)
        }

    def __getitem__(self, part):
        """Return a `Part` by its name."""
        return self._made[checks.one_of("part", part, self.parts)]


def _names(parts):
    names = tuple(_name(part) for part in _listed("parts", parts))
    if not names or None in names or len(set(names)) != len(names):
        raise ValueError(f"parts must be different strings, at least one, got {parts!r}")
    return names


def _listed(name, values):
    """Return public values as a list; refuse what cannot be walked through."""
    if not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a sequence, got {values!r}")
    return list(values)


def _try(rule, parts, examples):
    """Try the rule on public examples: what fails here fails loudly, on the table silently."""
    if not callable(rule):
        raise ValueError(f"rule must be a function of one row's value, got {rule!r}")
    reached = set()
    for example in _listed("examples", examples):
        try:
            names = [_name(rule(example)) for _ in range(3)]
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
            raise ValueError(
                f"rule must not fail on the public example {example!r}, got {got}"
            ) from error
        if len(set(names)) > 1:
            raise ValueError(
                f"rule must not be random, got {names} for the public example {example!r}"
            )
        reached.update(names)
    missing = [part for part in parts if part not in reached]
    if missing:
        names = ", ".join(map(repr, missing))
        raise ValueError(f"examples must reach every part by the rule, got none for {names}")


def _name(value):
    """The plain string in what a rule returned; None for anything else."""
    return str.__str__(value) if isinstance(value, str) else None


def _column(name, values, n=None):
    """Refuse what is no column of a table, or of another length."""
    one_axis = getattr(values, "ndim", 1) == 1 and hasattr(values, "__len__")
    if not one_axis or isinstance(values, (str, bytes, Mapping, Set)):
        raise ValueError(f"{name} must be a sequence of shape (n,), got {type(values).__name__}")
    if n not in (None, len(values)):
        raise ValueError(f"{name} must have one element for each row, {n}, got {len(values)}")
    return values


def _assigned(rule, parts, values):
    """The index of the part of each row, -1 for none; the rule is evaluated once for each row."""
    order = {part: i for i, part in enumerate(parts)}

    def index(value):
        try:
            return order.get(_name(rule(value)), -1)
        except (Exception, SystemExit):  # on which private value a rule fails is private
            return -1

    column = _column("values", values)
    with np.errstate(all="ignore"):  # so is on which one it warns
        return np.fromiter((index(value) for value in column), dtype=np.int64)


def _bound(index, owners, most):
    """Take rows out of all parts: a unit's beyond its first `most` parts, and those of no owner."""
    kept = {}
    for row, owner in enumerate(owners):
        if index[row] >= 0 and not _admits(kept, owner, index[row], most):
            index[row] = -1


def _admits(kept, owner, part, most):
    """Whether a unit may have a row in a part; notes that it has."""
    try:
        if not _names_a_unit(owner):
            return False
        own = kept.setdefault(owner, set())
    except Exception:  # an owner that cannot be compared is a missing one
        return False
    if len(own) < most:
        own.add(part)
    return part in own


def _names_a_unit(owner):
    """Whether an owner is compared by value, and equals itself: not None, no NaN, no object."""
    if isinstance(owner, tuple):
        return all(map(_names_a_unit, owner))
    return isinstance(owner, _OWNERS) and bool(owner == owner)


def _frozen(mask):
    """Return a mask that nothing can make writeable again: its memory is a bytes object."""
    return np.frombuffer(mask.tobytes(), dtype=bool)
