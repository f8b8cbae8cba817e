"""Costs and the ledger: what has been spent, under one neighbour relation, before anything is drawn.

A ledger adds budgets as exact decimal numbers (0.1 means one tenth), so ten releases at 0.1 fit a budget of 1. Each
spend comes before its draw: when it does not fit, `BudgetExceeded` is raised and nothing has been drawn.
"""
import math
from dataclasses import dataclass
from fractions import Fraction

from dputils import checks


class BudgetExceeded(ValueError):
    """A spend does not fit into what is left of the budget; nothing was drawn, nothing was booked."""


@dataclass(frozen=True)
class Entry:
    """One line of a ledger: a release, its cost as exact fractions, and the part of a partition it was made on, if
    any."""

    label: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    partition: str | None = None
    part: str | None = None


class Ledger:
    """A privacy budget (epsilon, delta) for one table under one neighbour relation.

    Privacy
        By basic composition (Dwork and Roth 2014, Theorem 3.16; adaptive: Appendix B) all releases booked here are
        together (epsilon, delta)-differentially private for the ledger's neighbours, also when a later release and
        its cost are chosen after seeing an earlier one (Rogers, Roth, Ullman, Vadhan 2016), as long as each single
        release has the cost booked for it.

    Parameters
    ----------
    epsilon : float, int or Fraction
        Budget, positive; floats are read as the decimal that prints them.
    delta : float
        Budget, in [0, 1).
    neighbours : {"add-remove", "replace-one"}
        The relation that every cost booked here refers to.

    Source
        Basic composition: Dwork, McSherry, Nissim, Smith 2006; parallel composition: McSherry 2009, Theorem 4.
    """

    def __init__(self, epsilon, delta=0.0, *, neighbours):
        checks.epsilon(epsilon), checks.delta(delta)
        self.epsilon = checks.as_fraction("epsilon", epsilon)
        self.delta = checks.as_fraction("delta", delta)
        self.neighbours = checks.neighbours(neighbours)
        self._entries = []
        self._partitions = {}

    def spend(self, label, epsilon, delta=0.0):
        """Book a release that is (epsilon, delta)-differentially private for the ledger's neighbours; call it
        before drawing.

        Raises
        ------
        BudgetExceeded
            If the total would exceed the budget. The ledger is then unchanged.
        """
        checks.epsilon(epsilon), checks.delta(delta)
        self._book(Entry(label, checks.as_fraction("epsilon", epsilon), checks.as_fraction("delta", delta)))

    def free(self, label):
        """Book a result that is computed from earlier releases alone: post-processing costs nothing."""
        self._entries.append(Entry(label, Fraction(0)))

    def partition(self, name, rule, parts):
        """Return a `Partition` of the table's records into disjoint `parts` by a `rule` on a record's value.

        Parameters
        ----------
        name : str
            Name of the partition in the ledger's table; each name once.
        rule : function
            From the value of one record to the name of its part; it must not look at the other records or at the
            row's position.
        parts : sequence of str
            The names of all parts, public and fixed beforehand.
        """
        if name in self._partitions:
            raise ValueError(f"name must be new to the ledger, got {name!r} twice")
        self._partitions[name] = Partition(self, name, rule, tuple(parts))
        return self._partitions[name]

    @property
    def spent(self):
        """The total `(epsilon, delta)` booked so far, as exact fractions."""
        return self._total(self._entries)

    @property
    def remaining(self):
        """What is left, `(epsilon, delta)`."""
        epsilon, delta = self.spent
        return self.epsilon - epsilon, self.delta - delta

    def costs(self):
        """List `(label, epsilon)` in the order of booking; a partition appears once, with the cost of all its parts
        together."""
        rows, seen = [], set()
        for entry in self._entries:
            if entry.partition is None:
                rows.append((entry.label, entry.epsilon))
            elif entry.partition not in seen:
                seen.add(entry.partition)
                rows.append((entry.partition, self._parallel(self._entries, entry.partition)[0]))
        return rows

    def table(self):
        """Return the entries as a `pandas.DataFrame` with the columns release, part, epsilon, delta."""
        import pandas as pd
        return pd.DataFrame([{"release": e.label, "part": f"{e.partition}: {e.part}" if e.partition else "whole table",
                              "epsilon": float(e.epsilon), "delta": float(e.delta)} for e in self._entries],
                            columns=["release", "part", "epsilon", "delta"])

    def record(self):
        """Return the ledger as plain numbers and strings, for a results record."""
        epsilon, delta = self.spent
        return {"neighbours": self.neighbours, "epsilon": float(self.epsilon), "delta": float(self.delta),
                "epsilon_spent": float(epsilon), "delta_spent": float(delta),
                "entries": self.table().to_dict("records")}

    def _book(self, entry):
        epsilon, delta = self._total([*self._entries, entry])
        if epsilon > self.epsilon or delta > self.delta:
            spent, left = self.spent, self.remaining
            more = epsilon - spent[0], delta - spent[1]  # what the entry adds: on a part not just its own cost
            raise BudgetExceeded(f"{entry.label!r} asks for epsilon {float(more[0]):.12g}, "
                                 f"delta {float(more[1]):.12g}; left are epsilon {float(left[0]):.12g}, "
                                 f"delta {float(left[1]):.12g}")
        self._entries.append(entry)

    def _total(self, entries):
        whole = [(e.epsilon, e.delta) for e in entries if e.partition is None]
        names = dict.fromkeys(e.partition for e in entries if e.partition is not None)
        costs = whole + [self._parallel(entries, name) for name in names]
        return sum((c[0] for c in costs), Fraction(0)), sum((c[1] for c in costs), Fraction(0))

    def _parallel(self, entries, name):
        """Cost of all releases on the parts of one partition, from the costs for adding or removing one record of a
        part.

        Add-remove: one record lies in one part, so the largest part counts. Replace-one: the record leaves one part
        and enters another (epsilon_a + epsilon_b), or changes inside a part, which is a removal and an addition
        there (2 epsilon_a; by group privacy delta grows to (1 + exp(epsilon_a)) delta_a). Twice the largest covers
        both.
        """
        parts = {}
        for e in (e for e in entries if e.partition == name):
            epsilon, delta = parts.get(e.part, (Fraction(0), Fraction(0)))
            parts[e.part] = epsilon + e.epsilon, delta + e.delta
        epsilon, delta = max(c[0] for c in parts.values()), max(c[1] for c in parts.values())
        if self.neighbours == "add-remove":
            return epsilon, delta
        # 1 + 1e-12 is far above the rounding of exp: never below the exact delta; 1 is always enough
        group = max((min(1, d * (1 + Fraction(math.exp(e) * (1 + 1e-12)))) if e < 700 else Fraction(1)
                     for e, d in parts.values() if d), default=Fraction(0))
        return 2 * epsilon, group


class Partition:
    """Disjoint parts of a table, made by `Ledger.partition`; releases on different parts are composed in parallel.

    Each spend is the cost for adding or removing one record of that part, whichever relation the ledger has: a
    replaced record can leave one part and enter another, which changes both their sizes.
    """

    def __init__(self, ledger, name, rule, parts):
        if not parts or len(set(parts)) != len(parts):
            raise ValueError(f"parts must be different names, at least one, got {parts!r}")
        self.ledger, self.name, self.rule, self.parts = ledger, name, rule, parts

    def mask(self, values, part):
        """Return a boolean array that marks the records of `part`.

        The rule sees one value at a time. A value for which it fails, or names no part, is in none of them: whether
        a release raises must not depend on a private value.
        """
        import numpy as np
        checks.one_of("part", part, self.parts)
        return np.fromiter((self._part(value) == part for value in values), dtype=bool)

    def _part(self, value):
        try:
            return self.rule(value)
        except Exception:  # the rule is the user's; which value it fails on is private
            return None

    def spend(self, part, label, epsilon, delta=0.0):
        """Book a release on one part, before drawing; see `Ledger.spend`."""
        checks.one_of("part", part, self.parts), checks.epsilon(epsilon), checks.delta(delta)
        cost = checks.as_fraction("epsilon", epsilon), checks.as_fraction("delta", delta)
        self.ledger._book(Entry(label, *cost, self.name, part))
