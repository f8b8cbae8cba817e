"""What a ledger adds: each account says its unit, which costs it takes, and what a replaced unit
costs on parts.

A *filter* refuses a release that would bring the sum of amounts above a cap set at the start; costs
may then be chosen on the way, and the cap is the guarantee. Amounts are pairs (amount, delta) of
exact fractions, in the unit of the account: epsilon, rho or mu^2; delta is 0 but for the basic one.
Where a logarithm enters, amounts are rounded up, caps down. The accounts that are no filters hold
for costs fixed beforehand, which a plan lists.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dputils import checks
from dputils.accounting import composition, costs, curves, renyi
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure, Renyi
from dputils.accounting.rounding import lower

ZERO = (Fraction(0), Fraction(0))


def _epsilon_and_delta(cost):
    return cost.epsilon, composition.own_delta(cost)


def _rho(cost):
    return composition.rho(cost), Fraction(0)


def _mu_square(cost):
    return composition.mu_square(cost), Fraction(0)


def _twice(amount, delta):
    """(epsilon, delta) of a removal and an addition: 2 epsilon, (1 + e^epsilon) delta (`group`)."""
    if not amount or delta >= Fraction(1, 2):
        return 2 * amount, min(Fraction(1), 2 * delta)
    return costs.group(amount, delta, 2)


def _four_times(amount, delta):
    """rho or mu^2 of a removal and an addition: both grow with the square of the steps.

    Bun and Steinke 2016, Proposition 1.9; Dong, Roth, Su 2022 (groups: twice mu).
    """
    return 4 * amount, delta


@dataclass(frozen=True)
class Account:
    """One way of adding costs on the way, as data.

    Parameters
    ----------
    unit : str
        What adds up.
    takes : dict
        From the kind of a cost to the function that returns its amount and delta, the kind that is
        booked first being the first of a mechanism's costs that stands here.
    replaced : function of (amount, delta)
        What the release costs for two steps: a unit that is removed, and one that is added.
    budget : type
        The kind of cost that is its cap.
    largest : function of (epsilon, delta), or None
        The largest rho or mu that implies them.
    hint : str
        What helps when a cost does not fit.
    """

    unit: str
    takes: Mapping
    replaced: Callable
    budget: type
    largest: Callable | None
    hint: str


FILTERS = {
    "basic": Account(
        "epsilon",
        {Pure: _epsilon_and_delta, Approximate: _epsilon_and_delta},
        _twice,
        Pure,
        None,
        "open the ledger with account='zcdp' or account='gaussian'",
    ),
    "zcdp": Account(
        "rho",
        {ZCDP: _rho, Gaussian: _rho, Pure: _rho},
        _four_times,
        ZCDP,
        renyi.zcdp_rho,
        "a basic ledger adds deltas",
    ),
    "gaussian": Account(
        "mu^2",
        {Gaussian: _mu_square, Pure: _mu_square},
        _four_times,
        Gaussian,
        curves.gaussian_mu,
        "a basic ledger adds deltas, a zcdp ledger rho",
    ),
}
NAMES = tuple(composition.BY)


def of_budget(budget):
    """Return the name of the account in whose unit a budget is given."""
    return {ZCDP: "zcdp", Gaussian: "gaussian"}.get(type(budget), "basic")


def cap(budget, name):
    """Return the cost that is the cap of an account for a budget.

    "zcdp" and "gaussian" take the largest rho or mu that implies (epsilon, delta).

    Raises
    ------
    ValueError
        If the budget is in the unit of another account, or has no delta where one is needed.
    """
    if isinstance(budget, Renyi):
        raise ValueError(f"epsilon must be a number or a cost that adds up, got {budget}")
    own = of_budget(budget)
    if own not in ("basic", name):
        raise ValueError(f"account must be {own!r} for a budget of {budget}, got {name!r}")
    if own == name:
        return budget
    delta = composition.own_delta(budget)
    if not delta:
        raise ValueError(f"delta must be positive for the {name} account, got 0")
    if name not in FILTERS:
        return budget
    account = FILTERS[name]
    most = account.largest(lower(budget.epsilon), lower(delta))
    if not most:
        raise ValueError(f"epsilon and delta must be larger for the {name} account, got {budget}")
    return account.budget(Fraction(most))  # a float that was rounded down, taken bit by bit


def amount(cost, name):
    """Return the pair (amount, delta) that a cost adds in a filter.

    Raises
    ------
    ValueError
        If the filter cannot take the cost; the sentence says which one can.
    """
    account = FILTERS[name]
    if type(cost) not in account.takes:
        raise ValueError(f"the {name} account cannot take a cost of {cost}; {account.hint}")
    return account.takes[type(cost)](cost)


def booked(mechanism, name):
    """Return the first of a mechanism's costs that an account takes, filter or not.

    Raises
    ------
    ValueError
        If there is none.
    """
    kinds = tuple(FILTERS[name].takes) if name in FILTERS else composition.TAKES[name]
    found = next((cost for cost in mechanism.costs if isinstance(cost, kinds)), None)
    if found is None:
        own = " or ".join(map(str, mechanism.costs))
        hint = f"; {FILTERS[name].hint}" if name in FILTERS else ""
        raise ValueError(
            f"the {name} account cannot take the cost of the {mechanism.name}, {own}{hint}"
        )
    return found


def as_plan(lines):
    """Return the lines of a plan as (label, mechanism or cost) pairs."""
    if isinstance(lines, (Mapping, str)) or not isinstance(lines, Iterable):
        raise ValueError(f"plan must be a list of (label, mechanism or cost) pairs, got {lines!r}")
    lines = list(lines)
    for line in lines:
        if not isinstance(line, (tuple, list)) or len(line) != 2:
            raise ValueError(
                f"plan must be a list of (label, mechanism or cost) pairs, got {line!r}"
            )
    return lines


class Parallel:
    """The running cost of releases on disjoint parts, of which one unit touches at most `most`.

    Every cost is that of adding or removing one unit. Add-remove: a unit lies in at most `most`
    parts, so the largest sums of as many parts count. Replace-one: a unit leaves its parts and
    another enters; a part that both touch sees a removal and an addition, which costs at least as
    much as two parts that see one step each, so a removal and an addition on each of the `most`
    most expensive parts cover everything.

    One more release costs a search among the sums of the parts, however many releases there were
    before.
    """

    def __init__(self, name, neighbours, most):
        """Start with nothing spent, in the account `name`."""
        self._name, self._neighbours = name, neighbours
        self.most = checks.integer("most", most, 1)
        self._sums = {}  # part: (amount, delta) for add-remove
        self._ranked = ([], [])  # what counts of each part, rising: amounts, deltas

    def after(self, part, more):
        """Return the pair (amount, delta) of all parts if `part` gets `more`; book nothing."""
        old, new = self._steps(part, more)
        return tuple(
            _largest(ranked, self.most, o, n)
            for ranked, o, n in zip(self._ranked, old, new, strict=True)
        )

    def add(self, part, more):
        """Book `more` on a part."""
        old, new = self._steps(part, more)
        # the new sums come before the old ones go: an interrupt in between leaves too much booked
        for ranked, o, n in zip(self._ranked, old, new, strict=True):
            insort(ranked, n)
            if ranked[i := bisect_left(ranked, o)] == o:
                ranked.pop(i)
        self._sums[part] = plus(self._sums.get(part, ZERO), more)

    def total(self):
        """Return the pair (amount, delta) of all parts together."""
        return tuple(sum(ranked[-self.most :], Fraction(0)) for ranked in self._ranked)

    def _steps(self, part, more):
        """What counts of a part before and after `more`."""
        before = self._sums.get(part, ZERO)
        return self._counted(before), self._counted(plus(before, more))

    def _counted(self, pair):
        if self._neighbours == "add-remove":
            return pair
        return FILTERS[self._name].replaced(*pair)


def plus(a, b):
    """Return the sum of two pairs (amount, delta)."""
    return a[0] + b[0], a[1] + b[1]


def _largest(ranked, most, old, new):
    """The sum of the `most` largest of a rising list in which `old`, if there, becomes `new`.

    `new` is at least `old`.
    """
    top = ranked[-most:]
    if old in top:
        top.remove(old)
    elif len(top) == most and new > top[0]:
        top.pop(0)
    elif len(top) == most:
        return sum(top, Fraction(0))
    return sum(top, new)
