"""The ledger: what has been spent, under one neighbour relation and for one unit.

`release` is the whole transaction: it reads the private value, books the cost of the mechanism,
draws. A value of a wrong type burns no budget, and when the cost does not fit, `BudgetExceeded` is
raised and nothing has been drawn. `spend` books alone, for what draws its noise by hand. A ledger
adds exact numbers (0.1 means one tenth), so ten releases at 0.1 fit a budget of 1.

What it adds is the account's unit: epsilon and delta ("basic"), rho ("zcdp"), or mu^2 ("gaussian").
These three are *filters*: the costs may be chosen on the way, after seeing earlier results, and the
budget set at the start is the guarantee. The other accounts of `composition` hold for costs fixed
beforehand, which a *plan* lists.

A ledger is the only one of its budget: it cannot be copied or pickled, another process cannot spend
from it, and threads wait for each other.
"""

import os
import threading
from dataclasses import dataclass
from fractions import Fraction

from dputils import checks
from dputils.accounting import accounts, composition
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure, Renyi, as_cost, is_cost
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.partition import Partition
from dputils.accounting.rounding import ceiling, root_below, upper


class BudgetExceeded(ValueError):
    """A spend or a plan does not fit what is left; nothing was drawn, nothing was booked."""


@dataclass(frozen=True)
class Entry:
    """One line of a ledger.

    Parameters
    ----------
    label : str
    cost : a cost, or None for post-processing
    partition, part : str or None
        The part of a partition on which the release was made, if any.
    randomness : str
        "system" for a release drawn from the operating system, "seeded" for one drawn from a seeded
        generator, which protects nobody; empty where nothing was drawn through the ledger.
    """

    label: str
    cost: Pure | Approximate | ZCDP | Gaussian | Renyi | None
    partition: str | None = None
    part: str | None = None
    randomness: str = ""


@dataclass(frozen=True)
class Planned:
    """One line of a plan: the label, the mechanism or cost, and the cost that is booked for it."""

    label: str
    what: object
    cost: object


class Ledger:
    """A privacy budget for one table, under one neighbour relation, for one unit.

    Privacy
        All releases booked here together have the guarantee of the budget, for the ledger's
        neighbours, as long as each has the cost booked for it. With the accounts "basic", "zcdp"
        and "gaussian" that holds also when a later release and its cost are chosen after seeing an
        earlier one; with a plan the releases may still be chosen so, and their order, the costs
        not.

    Parameters
    ----------
    epsilon : float, int, Fraction, or a cost
        Budget, positive; floats are read as the decimal that prints them. A `Pure`, `Approximate`,
        `ZCDP` or `Gaussian` is a budget in its own notion.
    delta : float
        Budget, in [0, 1).
    neighbours : {"add-remove", "replace-one"}
        The relation that every cost booked here refers to.
    unit : str
        What is added, removed or replaced: "row", "person", ...
    account : str, optional
        "basic" if the budget does not say otherwise. "zcdp" and "gaussian" turn (epsilon, delta)
        once, here, into the largest rho or mu that implies it. "advanced", "exact", "renyi" and
        "numerical" need a plan.
    plan : list of (label, mechanism or cost), optional
        All releases, with costs fixed before the first draw. What is not in the plan is then
        refused.

    Raises
    ------
    BudgetExceeded
        If the plan does not fit the budget.
    ValueError
        If an argument is none of these, or the account cannot take the budget or a line of the
        plan.

    Source
        Basic composition: Dwork, McSherry, Nissim, Smith 2006; parallel composition: McSherry 2009,
        Theorem 4. Filters: Rogers, Roth, Ullman, Vadhan 2016 (basic); Feldman, Zrnic 2021 and
        Whitehouse, Ramdas, Rogers, Wu 2023 (zCDP); Smith, Thakurta 2022 (Gaussian). Fixed costs:
        `composition`.
    """

    def __init_subclass__(cls):
        """Refuse subclasses: one could change what is booked."""
        raise TypeError("a ledger cannot be subclassed: nobody could say what it books")

    def __init__(self, epsilon, delta=0.0, *, neighbours, unit, account=None, plan=None):
        """Open the ledger, with its plan if there is one."""
        if hasattr(self, "_entries"):
            raise TypeError("a ledger is opened once")
        self._budget = as_cost(epsilon, delta)
        self._neighbours, self._unit = checks.neighbours(neighbours), checks.named("unit", unit)
        account = accounts.of_budget(self._budget) if account is None else account
        self._account = checks.one_of("account", account, accounts.NAMES)
        self._cap = accounts.cap(self._budget, self._account)
        self._filter = accounts.FILTERS.get(self._account)
        whole = (self.epsilon, self.delta)
        self._limit = self._amount(self._cap) if self._filter else whole
        self._entries, self._partitions, self._plan = [], {}, None
        self._spent, self._process, self._lock = accounts.ZERO, os.getpid(), threading.RLock()
        if plan is not None:
            self._adopt(plan)
        elif not self._filter:
            raise ValueError(
                f"account {account!r} needs plan=[(label, mechanism or cost), ...]: its bound is "
                "proven for costs fixed before the first draw; 'basic', 'zcdp', 'gaussian' let "
                "costs be chosen on the way"
            )

    def __reduce__(self):
        """Refuse copies and pickles."""
        raise TypeError(
            "a ledger cannot be copied or pickled: a second one would double the budget"
        )

    # ---- what it is

    @property
    def neighbours(self):
        """The relation that every cost booked here refers to."""
        return self._neighbours

    @property
    def unit(self):
        """What is added, removed or replaced between neighbours: "row", "person", ..."""
        return self._unit

    @property
    def account(self):
        """The name of the account."""
        return self._account

    @property
    def measure(self):
        """What the ledger's numbers count: "epsilon", "rho" or "mu^2"."""
        return self._filter.unit if self._filter else "epsilon"

    @property
    def epsilon(self):
        """The epsilon of the budget, a fraction; None for a budget in rho or mu."""
        return getattr(self._budget, "epsilon", None)

    @property
    def delta(self):
        """The delta of the budget, a fraction; 0 for a budget that has none."""
        return composition.own_delta(self._budget)

    @property
    def cap(self):
        """The cost that is the cap of the filter, or the budget of a plan."""
        return self._cap

    @property
    def budget(self):
        """The cap `(amount, delta)`, exact fractions, the amount in the ledger's `measure`."""
        return self._limit

    @property
    def spent(self):
        """The total booked so far, `(amount, delta)`.

        An account that is no filter has no amounts that add up: it pays its whole plan at once.
        """
        return self._spent

    @property
    def remaining(self):
        """What is left of the budget, `(amount, delta)`."""
        return tuple(b - s for b, s in zip(self.budget, self.spent, strict=True))

    @property
    def entries(self):
        """The entries so far, a tuple in the order of booking."""
        return tuple(self._entries)

    # ---- spending

    def release(self, label, mechanism, value, *, rng):
        """Read a private value, book the mechanism's cost, draw: return the release.

        Parameters
        ----------
        label : str
            What is released; with a plan, a line of it.
        mechanism : Mechanism
            Of the ledger's relation and unit. The first of its costs that the account takes is
            booked.
        value : what the mechanism reads
            Private.
        rng : np.random.Generator for experiments, noise.SYSTEM for releases by an exact mechanism

        Raises
        ------
        BudgetExceeded
            If the cost does not fit. Nothing was drawn, and the ledger is unchanged.
        ValueError
            If the mechanism is for another relation or unit, its costs do not suit the account, it
            is not the planned one, or the public type or shape of `value` is wrong. The ledger is
            unchanged.
        """
        return self._release(label, mechanism, value, rng, self._neighbours)

    def spend(self, label, cost=None, delta=0):
        """Book a release alone, before its noise is drawn by hand.

        Parameters
        ----------
        label : str
            With a plan the label of one of its lines is enough.
        cost : a cost, a Mechanism, or an epsilon
            What the release guarantees for the ledger's neighbours and unit: of a cost nobody but
            the caller knows that. A number is an epsilon, and refused where the ledger's measure is
            another.
        delta : float
            Beside an epsilon.

        Raises
        ------
        BudgetExceeded
            If the total would exceed the budget. The ledger is then unchanged.
        """
        if cost is not None:
            cost = self._known(cost, delta, self._neighbours)
        elif delta or self._plan is None:
            raise ValueError(
                f"cost must be given for {label!r}, or the label of a planned line alone"
            )
        self._book(label, cost)

    def free(self, label):
        """Book a result computed from earlier releases alone: post-processing costs nothing."""
        entry = Entry(checks.named("label", label), None)
        self._here()
        with self._lock:
            self._entries.append(entry)

    def share(self, k):
        """Return a cost of which `k` releases on the whole table fit exactly into what is left.

        It is the k-th part of the amount, and of delta. For "gaussian" the mu whose square is the
        k-th part is irrational in general: it is rounded down by at most 2^-60 of itself, and k of
        them leave that much. On a part of a partition a release can cost more (`partition`).
        """
        amount, delta = (x / checks.integer("k", k, 1) for x in self.remaining)
        if not amount:
            raise BudgetExceeded(f"nothing is left to share among {k}")
        if self.measure == "mu^2":
            return Gaussian(root_below(amount))
        if self.measure == "rho":
            return ZCDP(amount)
        return as_cost(amount, delta)

    def partition(self, name, values, rule, parts, *, examples, owners=..., most=1):
        """Return a `Partition` of the table's rows into disjoint `parts`.

        A `rule` on one value of each row says which part it is in.

        Parameters
        ----------
        name : str
            New to the ledger.
        values : sequence of shape (n,)
            Private, one value for each row of the table.
        rule : function
            From the value of one row to the name of its part, or to anything else for a row in no
            part. It must not look at other rows. It is evaluated once for each row, here; a row on
            which it fails is in no part.
        parts : sequence of str
            The names of all parts, public and fixed beforehand.
        examples : sequence
            Public values on which the rule is tried before it sees the table; they must reach every
            part.
        owners : sequence of shape (n,), or None
            Which unit each row belongs to; None if each row is a unit of its own. Needed unless the
            ledger's unit is "row". Equal owners are one unit; a row whose owner is missing, or no
            string, number, date or tuple of these, is in no part.
        most : int
            The most parts that one unit can have rows in: public, and enforced. A unit's rows
            outside its first `most` parts are in no part. The parts cost as if one unit touched the
            `most` most expensive of them: their sum for add-remove, and for replace-one a removal
            and an addition on each.

        Raises
        ------
        ValueError
            If an argument is none of these, or the rule fails on an example.
        """
        if self._plan is not None:
            raise ValueError(
                f"a ledger with a plan has no partitions, got {name!r}: plan the releases on all "
                "parts of a partition as one release"
            )
        if owners is ... and self._unit != "row":
            raise ValueError(
                f"owners must say which {self._unit} each row belongs to, or be None if each row "
                f"is a {self._unit} of its own"
            )
        owners = None if owners is ... else owners
        made = Partition(
            name,
            values,
            rule,
            parts,
            examples=examples,
            owners=owners,
            most=most,
            release=self._release_on,
            spend=self._spend_on,
        )
        self._here()
        with self._lock:
            if made.name in self._partitions:
                raise ValueError(f"name must be new to the ledger, got {name!r} twice")
            shared = accounts.Parallel(self._account, self._neighbours, made.most)
            self._partitions[made.name] = shared
        return made

    # ---- what it came to

    def total(self, notion, delta=None):
        """Return a guarantee in one notion, a float that is never too small.

        Without a plan it is for all that is and will be booked, and follows from the cap: a filter
        bounds its cap, not what happens to be spent (`ex_post`). With a plan it is for all of it,
        by the cheapest account.

        Parameters
        ----------
        notion : {"pure", "approximate", "zcdp", "gaussian"}
            What is returned: epsilon, epsilon at `delta`, rho, or mu.
        delta : float, optional
            For "approximate"; the budget's own if left out.

        Raises
        ------
        ValueError
            If the notion does not follow from the costs.
        """
        kinds = {"pure": (Pure,), "zcdp": (Pure, ZCDP, Gaussian), "gaussian": (Pure, Gaussian)}
        checks.one_of("notion", notion, ("approximate", *kinds))
        costs = [self._cap] if self._plan is None else [line.cost for line in self._plan]
        if notion == "approximate":
            return self._approximate(costs, delta)
        if other := next((c for c in costs if not isinstance(c, kinds[notion])), None):
            raise ValueError(f"notion {notion!r} does not follow from a cost of {other}")
        if notion == "pure":
            return ceiling(composition.basic(costs)[0])
        if notion == "zcdp":
            return ceiling(composition.zcdp(costs)[0])
        return composition.gaussian(costs)

    def ex_post(self):
        """Return what the pure releases booked so far came to, a float rounded up.

        It is the sum of their epsilons, with partitions composed in parallel.

        It bounds the privacy loss of the results that were seen: none of them is more than
        e^epsilon times as probable under one neighbour as under the other, also if the epsilons
        were chosen on the way. It is no guarantee of the ledger: that is the cap, whatever was
        spent (`total`).

        Raises
        ------
        ValueError
            If a cost booked is not a pure epsilon: only those bound the loss of every result.
        """
        costs = [entry.cost for entry in self._entries if entry.cost is not None]
        if other := next((cost for cost in costs if not isinstance(cost, Pure)), None):
            raise ValueError(f"ex_post is for pure epsilons, got a cost of {other}")
        if self._account == "basic":
            return ceiling(self._spent[0])
        whole = [e.cost for e in self._entries if e.cost and e.partition is None]
        parts = sum((self._ex_post_parts(name) for name in self._partitions), Fraction(0))
        return ceiling(composition.basic(whole)[0] + parts)

    def costs(self):
        """List `(label, amount)` in the order of booking, as the ledger's `measure` counts.

        A partition appears once, with the cost of all its parts together. An account that is no
        filter has one line, the plan.
        """
        if not self._filter:
            return [("plan", self._spent[0])]
        rows = {}
        for i, entry in enumerate(self._entries):
            if entry.partition is None:
                rows[i] = (entry.label, self._amount(entry.cost)[0])
            else:
                shared = self._partitions[entry.partition]
                rows[entry.partition] = (entry.partition, shared.total()[0])
        return list(rows.values())

    def table(self):
        """Return the entries as a `pandas.DataFrame`.

        Its columns are release, part, and epsilon and delta, or for other accounts the cost in
        words and its amount; and whether the noise came from the system or from a seeded generator.
        """
        import pandas as pd

        shown = {
            "basic": ["epsilon", "delta"],
            "zcdp": ["cost", "rho"],
            "gaussian": ["cost", "mu^2"],
        }
        columns = ["release", "part", *shown.get(self._account, ["cost"]), "randomness"]
        rows = [{name: row[name] for name in columns} for row in map(self._row, self._entries)]
        return pd.DataFrame(rows, columns=columns)

    def record(self):
        """Return the ledger as plain numbers and strings, for a results record."""
        amount, delta = self.spent
        record = {"neighbours": self.neighbours, "unit": self.unit, "account": self.account}
        if self.epsilon is not None:
            record |= {"epsilon": float(self.epsilon), "delta": float(self.delta)}
        if self.measure == "epsilon":
            record |= {"epsilon_spent": float(amount), "delta_spent": float(delta)}
        else:
            record |= {self.measure: float(self.budget[0]), f"{self.measure}_spent": float(amount)}
        return record | {"entries": self.table().to_dict("records")}

    # ---- inside

    def _release(self, label, mechanism, value, rng, neighbours, partition=None, part=None):
        self._check(mechanism, neighbours)
        seeded = not getattr(mechanism.source(rng), "is_operating_system", False)
        private = mechanism.read(value)
        self._book(label, mechanism, partition, part, "seeded" if seeded else "system")
        return mechanism.draw(private, rng=rng)

    def _release_on(self, partition, part, label, mechanism, value, *, rng):
        return self._release(label, mechanism, value, rng, "add-remove", partition, part)

    def _spend_on(self, partition, part, label, cost, delta=0):
        self._book(label, self._known(cost, delta, "add-remove"), partition, part)

    def _known(self, cost, delta, neighbours):
        """Return what is to be booked: a mechanism that suits the ledger, or a cost."""
        if isinstance(cost, Mechanism):
            return self._check(cost, neighbours)
        return self._as_cost(cost, delta)

    def _check(self, mechanism, neighbours):
        """Return a mechanism; refuse one for another relation or unit."""
        if type(mechanism) is not Mechanism:  # a subclass could say that it equals a planned one
            raise ValueError(f"mechanism must be a Mechanism, got {mechanism!r}")
        where = "a part of a partition" if neighbours != self._neighbours else "this ledger"
        if mechanism.neighbours != neighbours:
            got = f"{mechanism.neighbours!r} from the {mechanism.name}"
            raise ValueError(f"neighbours must be {neighbours!r} on {where}, got {got}")
        if mechanism.unit != self._unit:
            got = f"{mechanism.unit!r} from the {mechanism.name}"
            raise ValueError(f"unit must be {self._unit!r} in this ledger, got {got}")
        return mechanism

    def _as_cost(self, cost, delta):
        if not is_cost(cost) and self.measure != "epsilon":
            raise ValueError(
                f"cost must say its notion where the ledger counts {self.measure}, got the number "
                f"{cost!r}: Pure(...), ZCDP(...) or Gaussian(...)"
            )
        return as_cost(cost, delta)

    def _book(self, label, what, partition=None, part=None, randomness=""):
        """Book a mechanism or a cost; with a plan, as one of its lines."""
        label = checks.named("label", label)
        self._here()
        with self._lock:
            line = None if self._plan is None else self._next(label, what)
            cost = self._cost_of(what) if line is None else line.cost
            entry = Entry(label, cost, partition, part, randomness)
            if self._filter:
                self._add(entry)
            if line is not None:
                self._open.remove(line)
            self._entries.append(entry)

    def _here(self):
        """Refuse another process, before it waits for a lock that nobody there will release."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "a ledger belongs to the process that opened it: another one doubles the budget"
            )

    def _cost_of(self, what):
        return accounts.booked(what, self._account) if isinstance(what, Mechanism) else what

    def _add(self, entry):
        """Add an entry to the total of a filter; refuse what does not fit."""
        more = self._amount(entry.cost)
        shared = self._partitions.get(entry.partition)
        if shared is not None:
            after = shared.after(entry.part, more)
            asked = tuple(a - b for a, b in zip(after, shared.total(), strict=True))
        else:
            asked = more
        spent = accounts.plus(self._spent, asked)
        if any(s > b for s, b in zip(spent, self._limit, strict=True)):
            left = self._words(self.remaining)
            raise BudgetExceeded(f"{entry.label!r} asks for {self._words(asked)}; left are {left}")
        self._spent = spent
        if shared is not None:
            shared.add(entry.part, more)

    def _amount(self, cost):
        return accounts.ZERO if cost is None else accounts.amount(cost, self._account)

    def _words(self, pair):
        amount, delta = (f"{upper(x):.12g}" for x in pair)
        if self.measure == "epsilon":
            return f"epsilon {amount}, delta {delta}"
        return f"{self.measure} {amount}"

    def _row(self, entry):
        amount, delta = self._amount(entry.cost) if self._filter else accounts.ZERO
        return {
            "release": entry.label,
            "part": f"{entry.partition}: {entry.part}" if entry.partition else "whole table",
            "cost": str(entry.cost or ""),
            self.measure: float(amount),
            "delta": float(delta),
            "randomness": entry.randomness,
        }

    def _approximate(self, costs, delta):
        delta = self.delta if delta is None else checks.as_fraction("delta", checks.delta(delta))
        best = composition.epsilon_at(costs, delta)[0]
        if self.epsilon is not None and delta >= self.delta:
            return min(best, ceiling(self.epsilon))
        return best

    def _ex_post_parts(self, name):
        """The sum of pure epsilons on the parts of one partition, composed in parallel."""
        sums = accounts.Parallel("basic", self._neighbours, self._partitions[name].most)
        for entry in self._entries:
            if entry.partition == name:
                sums.add(entry.part, accounts.amount(entry.cost, "basic"))
        return sums.total()[0]

    # ---- plans

    def _adopt(self, plan):
        """Take a plan; refuse one that the account cannot take, or that exceeds the budget."""
        self._plan = [
            Planned(checks.named("label", label), what, self._line_cost(what))
            for label, what in accounts.as_plan(plan)
        ]
        self._open = list(self._plan)
        costs = [line.cost for line in self._plan]
        if self._filter:
            pairs = [self._amount(cost) for cost in costs]
            columns = zip(*pairs, strict=True)
            price = tuple(sum(column, Fraction(0)) for column in columns) or accounts.ZERO
        else:
            epsilon, _ = composition.epsilon_at(costs, self.delta, self._account)
            price = self._spent = checks.as_fraction("epsilon", epsilon), self.delta
        if any(p > b for p, b in zip(price, self.budget, strict=True)):
            raise BudgetExceeded(
                f"the plan asks for {self._words(price)}; the budget is {self._words(self.budget)}"
            )

    def _line_cost(self, what):
        return self._cost_of(self._known(what, 0, self._neighbours))

    def _next(self, label, what):
        """Return the first unused line of the plan with this label, and this mechanism or cost."""
        lines = [line for line in self._open if line.label == label]
        if not lines:
            names = list(dict.fromkeys(repr(line.label) for line in self._open))
            shown = ", ".join(names[:5] + ["..."] * (len(names) > 5)) or "none is left"
            raise ValueError(
                f"label must be a line of the plan that is not used yet ({shown}), got {label!r}"
            )
        found = next((line for line in lines if what is None or self._fits(what, line)), None)
        if found is None:
            raise ValueError(f"{label!r} must be the planned release, {lines[0].what}, got {what}")
        return found

    def _fits(self, what, line):
        """Whether a mechanism or cost is the planned one.

        Where a cost was planned, any mechanism of that cost is.
        """
        if isinstance(what, Mechanism) and not isinstance(line.what, Mechanism):
            return any(cost == line.cost for cost in what.costs)
        return what == line.what or what == line.cost
