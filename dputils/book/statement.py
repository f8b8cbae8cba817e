"""The privacy statement of a mechanism: all that a reader must know before using its output.

Every line is read from the mechanism itself, so that statement and release cannot drift apart;
only what is public has to be said. Numbers are rounded up: a printed epsilon is never below the
one that holds.
"""

import decimal
from dataclasses import fields
from fractions import Fraction

from dputils import checks
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure, Renyi
from dputils.accounting.curves import gaussian_epsilon
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.renyi import rdp_to_epsilon, zcdp_epsilon
from dputils.accounting.rounding import ceiling, lower, upper
from dputils.sensitivity import NORMS

SCHEMA = 1
DIGITS = 6  # of a printed number
NOTIONS = {
    Pure: "pure differential privacy",
    Approximate: "approximate differential privacy",
    ZCDP: "zero-concentrated differential privacy",
    Gaussian: "Gaussian differential privacy",
}
PAIRS = {"add-remove": "one {} is added or removed", "replace-one": "one {} is replaced by another"}
ARITHMETIC = {True: "exact", False: "real arithmetic: for experiments, not for a release"}
# notions without an epsilon of their own: the smallest epsilon, rounded up, that a cost implies
# at a delta
IMPLIED = {
    ZCDP: lambda cost, delta: zcdp_epsilon(upper(cost.rho), delta),
    Gaussian: lambda cost, delta: gaussian_epsilon(upper(cost.mu), delta),
    Renyi: lambda cost, delta: rdp_to_epsilon(cost.orders, cost.divergences, delta),
}


def content(mechanism, public, delta=None):
    """Return what a privacy statement says, as a dict that JSON can hold.

    Numbers are strings that `Fraction` reads exactly.

    Parameters
    ----------
    mechanism : Mechanism
    public : str
        What is public: bounds, the number of records, candidates, the schema.
    delta : float or Fraction, optional
        For costs that state rho, mu or a Renyi curve: the delta in (0, 1) at which the epsilon that
        they imply is stated as well.

    Returns
    -------
    dict
        `schema`, `mechanism`, `exact`, `unit`, `neighbours`, `sensitivity` (`size` and `norm`, or
        None), `costs` (each with its `notion` and its numbers), `implied` (each with `by`,
        `epsilon`, `delta`), `public`.

    Raises
    ------
    ValueError
        If there is no text on what is public, if the mechanism's sensitivity is for another
        relation or unit, or if a delta is given that no cost needs.
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(
            f"mechanism must be a dputils.accounting.mechanism.Mechanism, got {mechanism!r}"
        )
    checks.named("public", public)
    return {
        "schema": SCHEMA,
        "mechanism": mechanism.name,
        "exact": mechanism.exact,
        "unit": mechanism.unit,
        "neighbours": mechanism.neighbours,
        "sensitivity": _sensitivity(mechanism),
        "costs": [_cost(cost) for cost in mechanism.costs],
        "implied": [] if delta is None else _implied(mechanism, delta),
        "public": " ".join(public.split()),
    }


def lines(content):
    """Return a statement's content in words, as a list of pairs (label, text)."""
    rows = [
        ("Mechanism", content["mechanism"]),
        ("Arithmetic", ARITHMETIC[content["exact"]]),
        ("Unit", content["unit"]),
        (
            "Neighbours",
            f"{content['neighbours']}: {_changed(content['neighbours'], content['unit'])}",
        ),
        ("Sensitivity", _size(content["sensitivity"])),
    ]
    return [*rows, *_guarantee(content), ("Public", content["public"])]


def rounded_up(x):
    """Return a positive number as decimal text of six significant digits, rounded up."""
    x = Fraction(x)
    context = decimal.Context(
        prec=DIGITS, rounding=decimal.ROUND_CEILING, Emin=-(10**6), Emax=10**6
    )
    value = context.divide(decimal.Decimal(x.numerator), decimal.Decimal(x.denominator)).normalize(
        context
    )
    return format(value, "f" if -5 < value.adjusted() < 15 else "e").replace("e+", "e")


def _changed(neighbours, unit):
    """Return what happens between neighbours, of a unit such as "person" or "one person's row"."""
    return PAIRS[neighbours].format(unit.removeprefix("one "))


def _sensitivity(mechanism):
    """Return size and norm of the sensitivity; refuse one of another relation or unit."""
    sensitivity = mechanism.sensitivity
    if sensitivity is None:
        return None
    for name in ("neighbours", "unit"):
        if getattr(sensitivity, name) != getattr(mechanism, name):
            raise ValueError(
                f"mechanism must have the {name} of its sensitivity, "
                f"{getattr(sensitivity, name)!r}, "
                f"got {getattr(mechanism, name)!r}"
            )
    return {"size": str(checks.as_fraction("size", sensitivity.size)), "norm": sensitivity.norm}


def _cost(cost):
    """Return a cost as its notion and its numbers, or its own words where they are a curve."""
    if type(cost) in NOTIONS:
        return {
            "notion": type(cost).__name__,
            **{f.name: str(getattr(cost, f.name)) for f in fields(cost)},
        }
    return {"notion": type(cost).__name__, "words": str(cost)}


def _implied(mechanism, delta):
    """Return the pairs (epsilon, delta) that the costs without an epsilon of their own imply."""
    checks.probability("delta", delta)
    delta = checks.as_fraction("delta", delta)
    implied = {
        type(cost).__name__: IMPLIED[type(cost)](cost, lower(delta))
        for cost in mechanism.costs
        if type(cost) in IMPLIED
    }
    found = [
        {"by": notion, "epsilon": repr(ceiling(Fraction(epsilon))), "delta": str(delta)}
        for notion, epsilon in implied.items()
    ]
    if not found:
        raise ValueError(
            f"delta must be left out for the {mechanism.name}, whose costs need no conversion, "
            f"got {float(delta)!r}"
        )
    return found


def _size(sensitivity):
    if sensitivity is None:
        return "none stated"
    return f"{rounded_up(sensitivity['size'])} ({NORMS[sensitivity['norm']]})"


def _guarantee(content):
    """Return the lines on epsilon and delta, an entry for each pair, and those on other notions."""
    words = {kind.__name__: text for kind, text in NOTIONS.items()}
    pairs = [
        (cost["epsilon"], cost.get("delta", "0"), words[cost["notion"]])
        for cost in content["costs"]
        if "epsilon" in cost
    ]
    pairs += [
        (pair["epsilon"], pair["delta"], f"implied by {_letter(pair['by'])}")
        for pair in content["implied"]
    ]
    others = [
        (_letter(cost["notion"]).capitalize(), _other(cost, words))
        for cost in content["costs"]
        if "epsilon" not in cost
    ]
    if not pairs:
        letters = " and ".join(label.lower() for label, _ in others)
        return [
            ("Epsilon", f"not stated by itself: {letters} implies one for every delta"),
            ("Delta", "not stated by itself"),
            *others,
        ]
    return [
        ("Epsilon", "; ".join(f"{_shown(epsilon)} ({how})" for epsilon, _, how in pairs)),
        ("Delta", "; ".join(_shown(delta) for _, delta, _ in pairs)),
        *others,
    ]


def _letter(notion):
    """Return the letter in which a notion is measured, or its name where it is not one number."""
    return {"ZCDP": "rho", "Gaussian": "mu", "Renyi": "Renyi curve"}.get(notion, notion)


def _other(cost, words):
    if "words" in cost:
        return cost["words"]
    return f"{_shown(cost[_letter(cost['notion'])])} ({words[cost['notion']]})"


def _shown(number):
    return rounded_up(number) if Fraction(number) else "0"
