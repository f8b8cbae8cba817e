"""What a ledger adds: the amounts of costs in an account's unit, in sequence and in parallel, and its caps.

A filter refuses a release that would bring the sum of amounts above a cap set at the start; costs may then be chosen on
the way, and the cap is the guarantee. Amounts are pairs (amount, delta) of exact fractions: epsilon ("basic"), rho
("zcdp") or mu^2 ("gaussian"); delta is 0 but for "basic". Where a logarithm enters, amounts are rounded up, caps down.
"""
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from itertools import zip_longest

from dputils import checks
from dputils.accounting import composition, curves, renyi
from dputils.accounting.composition import square
from dputils.accounting.costs import KINDS, ZCDP, Approximate, Gaussian, Pure, group
from dputils.accounting.rounding import lower, root

UNITS = {"basic": "epsilon", "zcdp": "rho", "gaussian": "mu^2"}
_ZERO = (Fraction(0), Fraction(0))


def as_cost(epsilon, delta=0.0):
    """Return a cost: the one given, or `Pure` or `Approximate` from numbers."""
    if isinstance(epsilon, KINDS):
        if delta:
            raise ValueError(f"delta must be left out beside a cost, got {delta!r} beside {epsilon!r}")
        return epsilon
    checks.epsilon(epsilon), checks.delta(delta)
    return Approximate(epsilon, delta) if delta else Pure(epsilon)


def lines(plan):
    """Return the (label, cost) pairs of a plan."""
    plan = list(plan) if isinstance(plan, Iterable) and not isinstance(plan, (Mapping, str)) else [plan]
    if not all(isinstance(line, (tuple, list)) and len(line) == 2 for line in plan):
        raise ValueError(f"plan must be a list of (label, cost) pairs, got {plan!r}")
    return [(label, as_cost(cost)) for label, cost in plan]


def cap(budget, account):
    """Return the cost that is the cap of an account for a budget, a cost: "zcdp" and "gaussian" take the largest rho or
    mu that implies (epsilon, delta)."""
    own = {ZCDP: "zcdp", Gaussian: "gaussian"}.get(type(budget))
    if own not in (None, account):
        raise ValueError(f"account must be {own!r} for a budget of {budget}, got {account!r}")
    if own or account == "basic":
        return budget
    delta = getattr(budget, "delta", 0)
    if not delta:
        raise ValueError(f"delta must be positive for the {account} account, got 0")
    if account not in ("zcdp", "gaussian"):
        return budget
    kind, largest = (ZCDP, renyi.zcdp_rho) if account == "zcdp" else (Gaussian, curves.gaussian_mu)
    most = largest(lower(budget.epsilon), lower(delta)) if lower(delta) else 0.0
    if not 0 < most < math.inf:
        raise ValueError(f"epsilon and delta must be {'larger' if not most else 'smaller'} for the {account} account, "
                         f"whose cap would be {most:g}, got {budget}")
    return kind(Fraction(most))  # a float that was rounded down is taken bit by bit


def amount(cost, account):
    """Return what a cost adds in an account; no cost adds nothing.

    Raises
    ------
    ValueError
        If the account is a filter that cannot take the cost; the sentence says which one can.
    """
    if cost is None:
        return _ZERO
    if account == "basic" and isinstance(cost, (Pure, Approximate)):
        return cost.epsilon, getattr(cost, "delta", Fraction(0))
    if account == "gaussian" and isinstance(cost, (Pure, Gaussian)):
        return square(cost), Fraction(0)
    if account == "zcdp" and not getattr(cost, "delta", 0):
        return composition.zcdp([cost])[0], Fraction(0)
    hint = {Pure: "", Approximate: "; a basic ledger adds deltas",
            ZCDP: "; open the ledger with account='zcdp'",
            Gaussian: "; open the ledger with account='gaussian' or account='zcdp'"}[type(cost)]
    raise ValueError(f"the {account} account cannot take a cost of {cost}{hint}")


def total(whole, partitions, neighbours, account):
    """Return the sum of the costs on the whole table and of partitions, each a dict from part to its costs."""
    pairs = [amount(cost, account) for cost in whole] + [parallel(p, neighbours, account) for p in partitions]
    return sum((a for a, _ in pairs), Fraction(0)), sum((d for _, d in pairs), Fraction(0))


def parallel(parts, neighbours, account):
    """Cost of all releases on the parts of one partition, from the costs for adding or removing one record of a part.

    Add-remove: one record lies in one part, so the largest part counts. Replace-one: the record leaves one part and
    enters another (epsilon_a + epsilon_b, rho_a + rho_b, mu_a^2 + mu_b^2), or changes inside a part, which is a removal
    and an addition there: 2 epsilon, 4 rho (Bun and Steinke 2016, Proposition 1.9), twice mu, and by group privacy a
    delta of (1 + e^epsilon) delta. The second, for the largest part, covers both.
    """
    sums = [total(costs, (), neighbours, account) for costs in parts.values()]
    most, delta = max(a for a, _ in sums), max(d for _, d in sums)
    if neighbours == "add-remove":
        return most, delta
    if account != "basic":
        return 4 * most, delta
    return 2 * most, max((_twice(e, d) for e, d in sums if d), default=Fraction(0))


def covering(whole, partitions, neighbours):
    """Return a list of costs on the whole table that cover, as fixed costs, all those of a ledger.

    Kind by kind the i-th dearest of any part stands for the i-th of every part; under replace-one it counts as a
    removal and an addition, which also covers two releases, one on the part left and one on the part entered.
    (Epsilons and deltas are ranked apart: an account sees the lists, not the pairs.)

    Raises
    ------
    ValueError
        If the delta of a cover would be 1.
    """
    costs = [c for c in whole if c is not None]
    for parts in partitions:
        for kind in KINDS:
            columns = []
            for field in fields(kind):
                ranked = [sorted((getattr(c, field.name) for c in part if type(c) is kind), reverse=True)
                          for part in parts.values()]
                columns.append([max(row) for row in zip_longest(*ranked, fillvalue=Fraction(0))])
            covers = [kind(*row) for row in zip(*columns)]
            costs += covers if neighbours == "add-remove" else map(_doubled, covers)
    return costs


def advice(whole, partitions, neighbours, account, delta, *, planned):
    """Return the sentences of `Ledger.advice`; every epsilon in them is rounded up to four digits."""
    at = f"at delta {float(checks.delta(delta)):.6g}"

    def filtered(name):
        return composition.epsilon_at(_one(total(whole, partitions, neighbours, name), name), delta, name)[0]

    own = _epsilon(lambda: composition.epsilon_at(whole, delta, account)[0] if planned else filtered(account))
    best, name = _epsilon(lambda: composition.epsilon_at(covering(whole, partitions, neighbours), delta),
                          (math.inf, ""))
    others = {} if planned else {f: _epsilon(lambda: filtered(f)) for f in UNITS if f != account}
    others = {f: x for f, x in others.items() if _digits(x) < _digits(own)}
    found = []
    if (partitions or any(whole)) and _digits(best) < _digits(own):
        found.append(f"Fixed beforehand, they would have cost at most epsilon {_digits(best):g} by the {name} "
                     "account.")
    if others:
        f = min(others, key=others.get)
        found.append(f"A {f} ledger, which lets costs be chosen on the way, would have needed epsilon "
                     f"{_digits(others[f]):g} {at}.")
    if not found:
        return "none is cheaper"
    if planned:
        found = [f"By the {name} account it costs epsilon {_digits(best):g}."]
    elif account != "basic" or total(whole, partitions, neighbours, account)[1]:
        found.append("The guarantee stays the cap's; these numbers are for choosing the next ledger.")
    subject, verb = ("the plan", "costs") if planned else ("the costs booked", "come to")
    first = f"epsilon {_digits(own):g} {at}" if own < math.inf else f"no epsilon {at}"
    return " ".join([f"By the {account} account {subject} {verb} {first}.", *found])


def _epsilon(function, otherwise=math.inf):
    """The value of a function, or `otherwise` where an account does not apply or no costs cover all parts."""
    try:
        return function()
    except ValueError:
        return otherwise


def _one(pair, account):
    """The amounts of a filter as one cost, or none."""
    most, delta = pair
    if not most:
        return []
    if account == "basic":
        return [as_cost(most, delta)]
    return [ZCDP(most) if account == "zcdp" else Gaussian(Fraction(root(most)))]


def _digits(x):
    """A float, read as its decimal, rounded up to four digits."""
    return float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(float(x))))


def _twice(epsilon, delta):
    return group(epsilon, delta, 2)[1] if epsilon else min(Fraction(1), 2 * delta)


def _doubled(cost):
    if isinstance(cost, Approximate):
        return Approximate(*group(cost.epsilon, cost.delta, 2))
    return ZCDP(4 * cost.rho) if isinstance(cost, ZCDP) else type(cost)(2 * getattr(cost, fields(cost)[0].name))

