"""The ledger: what has been spent, under one neighbour relation, before anything is drawn.

A ledger adds exact numbers (0.1 means one tenth), so ten releases at 0.1 fit a budget of 1. Each spend comes before its
draw: when it does not fit, `BudgetExceeded` is raised and nothing has been drawn.

What it adds is the account's unit: epsilon and delta ("basic"), rho ("zcdp"), or mu^2 ("gaussian"). These three are
*filters*: the costs may be chosen on the way, after seeing earlier results, and the budget set at the start is the
guarantee. The accounts "advanced", "exact" and "numerical" hold for costs fixed beforehand, which a *plan* lists.
"""
from dataclasses import dataclass
from fractions import Fraction

from dputils import checks
from dputils.accounting import accounts, composition
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure
from dputils.accounting.rounding import ceiling, upper


class BudgetExceeded(ValueError):
    """A spend or a plan does not fit into what is left of the budget; nothing was drawn, nothing was booked."""


@dataclass(frozen=True)
class Entry:
    """One line of a ledger: a release, its cost (None for post-processing), and the part of a partition it was made
    on, if any."""

    label: str
    cost: Pure | Approximate | ZCDP | Gaussian | None
    partition: str | None = None
    part: str | None = None


class Ledger:
    """A privacy budget for one table under one neighbour relation.

    Privacy
        All releases booked here together have the guarantee of the budget, for the ledger's neighbours, as long as
        each has the cost booked for it. With the accounts "basic", "zcdp" and "gaussian" that holds also when a
        later release and its cost are chosen after seeing an earlier one; with a plan the releases may still be chosen
        so, and their order, the costs not.

    Parameters
    ----------
    epsilon : float, int, Fraction, or a cost
        Budget, positive; floats are read as the decimal that prints them. A `composition.Pure`, `Approximate`, `ZCDP`
        or `Gaussian` is a budget in its own notion.
    delta : float
        Budget, in [0, 1).
    neighbours : {"add-remove", "replace-one"}
        The relation that every cost booked here refers to.
    account : {"basic", "zcdp", "gaussian", "advanced", "exact", "numerical"}, optional
        "basic" if the budget does not say otherwise. "zcdp" and "gaussian" turn (epsilon, delta) once, here, into the
        largest rho or mu that implies it.
    plan : list of (label, cost), optional
        All releases, with costs fixed before the first draw. What is not in the plan is then refused.

    Source
        Basic composition: Dwork, McSherry, Nissim, Smith 2006; parallel composition: McSherry 2009, Theorem 4. Filters:
        Rogers, Roth, Ullman, Vadhan 2016 (basic); Feldman, Zrnic 2021 and Whitehouse, Ramdas, Rogers, Wu 2023 (zCDP);
        Smith, Thakurta 2022 (Gaussian). Fixed costs: `composition`.
    """

    def __init__(self, epsilon, delta=0.0, *, neighbours, account=None, plan=None):
        budget = accounts.as_cost(epsilon, delta)
        self.neighbours = checks.neighbours(neighbours)
        natural = {ZCDP: "zcdp", Gaussian: "gaussian"}.get(type(budget), "basic")
        self.account = natural if account is None else checks.one_of("account", account, composition.ACCOUNTS)
        self.unit = accounts.UNITS.get(self.account)
        self.epsilon, self.delta = getattr(budget, "epsilon", None), getattr(budget, "delta", Fraction(0))
        self.cap = accounts.cap(budget, self.account)
        self._entries, self._partitions, self._plan, self._spent = [], {}, None, (Fraction(0), Fraction(0))
        if plan is not None:
            self._plan = [Entry(*line) for line in accounts.lines(plan)]
            self._open = list(self._plan)
            self._check_plan()
        elif not self.unit:
            raise ValueError(f"account {self.account!r} needs plan=[(label, cost), ...]: its bound is proven for costs "
                             "fixed before the first draw; 'basic', 'zcdp', 'gaussian' let costs be chosen on the way")

    def spend(self, label, epsilon=None, delta=0.0):
        """Book a release before drawing: it is (epsilon, delta)-differentially private for the ledger's neighbours, or
        has the `composition` cost given as `epsilon`. With a plan the label is enough; a delta alone is refused.

        Raises
        ------
        BudgetExceeded
            If the total would exceed the budget. The ledger is then unchanged.
        """
        if self._plan is None:
            return self._book(Entry(label, accounts.as_cost(epsilon, delta)))
        if epsilon is None and checks.delta(delta):
            raise ValueError(f"delta must be left out beside a planned label, got {delta!r}")
        line = self._planned(label, None if epsilon is None else accounts.as_cost(epsilon, delta))
        self._book(line)
        self._open.remove(line)

    def free(self, label):
        """Book a result that is computed from earlier releases alone: post-processing costs nothing."""
        self._entries.append(Entry(label, None))

    def partition(self, name, rule, parts):
        """Return a `Partition` of the table's records into disjoint `parts` by a `rule` on a record's value.

        Parameters
        ----------
        name : str, each name once in a ledger
        rule : function
            From the value of one record to the name of its part; it must not look at the other records or at the
            row's position.
        parts : sequence of str, the names of all parts, public and fixed beforehand
        """
        if self._plan is not None:
            raise ValueError(f"a ledger with a plan has no partitions, got {name!r}: plan the releases on "
                             "all parts of a partition as one release")
        if name in self._partitions:
            raise ValueError(f"name must be new to the ledger, got {name!r} twice")
        self._partitions[name] = Partition(self, name, rule, tuple(parts))
        return self._partitions[name]

    @property
    def budget(self):
        """The cap `(amount, delta)`, exact fractions, the amount in the ledger's `unit`: epsilon, rho or mu^2."""
        return accounts.amount(self.cap, self.account) if self.unit else (self.epsilon, self.delta)

    @property
    def spent(self):
        """The total booked so far, `(amount, delta)`, in the ledger's unit. An account that needs a plan has no unit
        that adds up: the whole plan is paid at the start."""
        return self._spent

    @property
    def remaining(self):
        """What is left of the budget, `(amount, delta)`."""
        return tuple(b - s for b, s in zip(self.budget, self.spent))

    def total(self, notion, delta=None):
        """Return a guarantee in one notion, a float that is never too small.

        Without a plan it is for all that is and will be booked, and follows from the cap: a filter bounds its cap, not
        what happens to be spent. One exception: "pure" is the sum of the epsilons booked, an ex-post bound on the privacy
        loss of what has been released, also when they were chosen on the way: no results seen are more than e^epsilon
        times as probable under one neighbour as under the other. With a plan it is for all of it, by the cheapest account.

        Parameters
        ----------
        notion : {"pure", "approximate", "zcdp", "gaussian"}
            What is returned: epsilon, epsilon at `delta`, rho, or mu.
        delta : float, optional
            For "approximate"; the budget's own if left out.
        """
        kinds = {"pure": (Pure,), "zcdp": (Pure, ZCDP, Gaussian), "gaussian": (Pure, Gaussian)}
        checks.one_of("notion", notion, ("approximate", *kinds))
        costs = [self.cap] if self._plan is None else [line.cost for line in self._plan]
        if notion == "approximate":
            delta = self.delta if delta is None else checks.as_fraction("delta", checks.delta(delta))
            best = composition.epsilon_at(costs, delta)[0]
            return min(best, ceiling(self.epsilon)) if self.epsilon is not None and delta >= self.delta else best
        if notion == "pure" and self._plan is None:
            costs = [e.cost for e in self._entries if e.cost]
        if other := next((c for c in costs if not isinstance(c, kinds[notion])), None):
            raise ValueError(f"notion {notion!r} does not follow from a cost of {other}")
        if notion == "pure":
            return ceiling(self._total(self._entries if self._plan is None else self._plan, "basic")[0])
        return ceiling(composition.zcdp(costs)[0]) if notion == "zcdp" else composition.gaussian(costs)

    def advice(self, delta):
        """Return sentences: what the costs booked, or planned, come to at `delta`, and what they would have come to by
        cheaper accounts; "none is cheaper" if none is. Where the cap alone is guaranteed (`total`), they end with: "The
        guarantee stays the cap's; these numbers are for choosing the next ledger."
        """
        whole, partitions = self._grouped(self._entries if self._plan is None else self._plan)
        return accounts.advice(whole, partitions, self.neighbours, self.account, delta, planned=self._plan is not None)

    def costs(self):
        """List `(label, amount)` in the order of booking, in the ledger's unit; a partition appears once, with the cost
        of all its parts together. An account that needs a plan has one line, the plan."""
        if not self.unit:
            return [("plan", self._spent[0])]
        rows = {}
        for i, entry in enumerate(self._entries):
            key = ("", i) if entry.partition is None else (entry.partition,)
            rows.setdefault(key, []).append(entry)
        return [(group[0].partition or group[0].label, self._total(group)[0]) for group in rows.values()]

    def table(self):
        """Return the entries as a `pandas.DataFrame`: release, part, and epsilon and delta, or for other accounts the
        cost in words and its amount in the ledger's unit."""
        import pandas as pd
        shown = {"basic": ["epsilon", "delta"], "zcdp": ["cost", "rho"], "gaussian": ["cost", "mu^2"]}
        columns = ["release", "part", *shown.get(self.account, ["cost"])]
        rows = []
        for e in self._entries:
            amount, delta = accounts.amount(e.cost, self.account) if self.unit else (0, 0)
            row = {"release": e.label, "part": f"{e.partition}: {e.part}" if e.partition else "whole table",
                   "cost": str(e.cost or ""), self.unit: float(amount), "delta": float(delta)}
            rows.append({name: row[name] for name in columns})
        return pd.DataFrame(rows, columns=columns)

    def record(self):
        """Return the ledger as plain numbers and strings, for a results record."""
        amount, delta = self.spent
        record = {"neighbours": self.neighbours} | ({"account": self.account} if self.account != "basic" else {})
        if self.epsilon is not None:
            record |= {"epsilon": float(self.epsilon), "delta": float(self.delta)}
        if self.account in ("zcdp", "gaussian"):
            record |= {self.unit: float(self.budget[0]), f"{self.unit}_spent": float(amount)}
        else:
            record |= {"epsilon_spent": float(amount), "delta_spent": float(delta)}
        return record | {"entries": self.table().to_dict("records")}

    def _check_plan(self):
        """Refuse a plan that the account cannot take, or that asks for more than the budget."""
        if self.unit:
            price = self._total(self._plan)
        else:
            epsilon, _ = composition.epsilon_at([line.cost for line in self._plan], self.delta, self.account)
            price = self._spent = checks.as_fraction("epsilon", epsilon), self.delta
        if any(p > b for p, b in zip(price, self.budget)):
            raise BudgetExceeded(f"the plan asks for {self._words(price)}; the budget is {self._words(self.budget)}")

    def _planned(self, label, cost):
        """Return the first line of the plan that is not booked yet and has this label, and this cost if given."""
        lines = [line for line in self._open if line.label == label]
        if not lines:
            names = list(dict.fromkeys(repr(line.label) for line in self._open))
            shown = ", ".join(names[:5] + ["..."] * (len(names) > 5)) or "none is left"
            raise ValueError(f"label must be a line of the plan that is not used yet ({shown}), got {label!r}")
        found = next((line for line in lines if cost in (None, line.cost)), None)
        if found is None:
            raise ValueError(f"cost of {label!r} must be the planned one, {lines[0].cost}, got {cost}")
        return found

    def _book(self, entry):
        if self.unit:
            more = self._more(entry)
            after = tuple(s + m for s, m in zip(self._spent, more))
            if any(a > b for a, b in zip(after, self.budget)):
                raise BudgetExceeded(f"{entry.label!r} asks for {self._words(more)}; left are "
                                     f"{self._words(self.remaining)}")
            self._spent = after
        self._entries.append(entry)

    def _more(self, entry):
        """What an entry adds to the total: on a part not just its own cost."""
        if entry.partition is None:
            return accounts.amount(entry.cost, self.account)
        same = [e for e in self._entries if e.partition == entry.partition]
        return tuple(a - b for a, b in zip(self._total([*same, entry]), self._total(same)))

    def _words(self, pair):
        amount, delta = (f"{upper(x):.12g}" for x in pair)
        one = self.account in ("zcdp", "gaussian")
        return f"{self.unit} {amount}" if one else f"epsilon {amount}, delta {delta}"

    def _grouped(self, entries):
        """Return the costs on the whole table, and of each partition a dict from part to costs."""
        whole, partitions = [e.cost for e in entries if e.partition is None], {}
        for e in (e for e in entries if e.partition is not None):
            partitions.setdefault(e.partition, {}).setdefault(e.part, []).append(e.cost)
        return whole, list(partitions.values())

    def _total(self, entries, account=None):
        return accounts.total(*self._grouped(entries), self.neighbours, account or self.account)


class Partition:
    """Disjoint parts of a table, made by `Ledger.partition`; releases on different parts are composed in parallel.

    Each spend is the cost for adding or removing one record of that part, whichever relation the ledger has: a
    replaced record can leave one part and enter another, which changes both their sizes.
    """

    def __init__(self, ledger, name, rule, parts):
        if not parts or not all(isinstance(part, str) for part in parts) or len(set(parts)) != len(parts):
            raise ValueError(f"parts must be different strings, at least one, got {parts!r}")
        if not callable(rule):
            raise ValueError(f"rule must be a function of one record's value, got {rule!r}")
        self.ledger, self.name, self.rule, self.parts = ledger, name, rule, parts

    def mask(self, values, part):
        """Return a boolean array that marks the records of `part` in a list or one-dimensional array of values.

        A value for which the rule fails, or gives no part's name, is in none: private values decide no error."""
        import numpy as np
        checks.one_of("part", part, self.parts)
        if getattr(values, "ndim", 1) != 1:
            raise ValueError(f"values must be one-dimensional, got {values.ndim} dimensions")
        return np.fromiter((self._names(value, part) for value in values), dtype=bool)

    def _names(self, value, part):
        try:
            name = self.rule(value)
            return isinstance(name, str) and str.__eq__(name, part)  # no comparison but that of strings is asked
        except Exception:  # the rule is the user's; which value it fails on is private
            return False

    def spend(self, part, label, epsilon, delta=0.0):
        """Book a release on one part, before drawing; see `Ledger.spend`."""
        checks.one_of("part", part, self.parts)
        self.ledger._book(Entry(label, accounts.as_cost(epsilon, delta), self.name, part))

