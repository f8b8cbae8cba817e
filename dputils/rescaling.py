"""Ranges bought with a part of the budget, and the regression on them: one private pipeline.

Letters: X the table of n rows and d columns, y the response; L and U the ends of a wide public
range (a limit); q1 and q3 released quantiles of a column, m = (q1 + q3)/2 their middle, w =
(q3 - q1)/2, c the stretch; rho the cost of both steps together, of which the ranges get a share.

1. On the public scale of its limits a column lies in [-1, 1]. Both quantiles are drawn there by the
   exponential mechanism on the grid of 2^-16, each at an epsilon_1 of its own: epsilon_1^2/8-zCDP.
   For k bought columns (the response is one of them) that is k epsilon_1^2/4 in all.
2. The range is [m - c w, m + c w], cut to the limits, with w at least 2^-10 of the half width of
   the limits. It is computed from released numbers and public ones alone.
3. Given the ranges, each record is clamped and mapped by itself, and both sums have the bounds of
   `preprocessing.Ranges.bounds`, whatever the ranges are. So the mechanism of the fit is fixed
   before the first draw, and both steps fit one planned ledger.
4. Coefficients go back to the units of the data by the released ranges.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, preprocessing, private, quantiles, regression
from dputils.accounting import curves, renyi
from dputils.accounting.costs import ZCDP, Approximate
from dputils.accounting.ledger import Ledger
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.rounding import lower, root_below

GRID = Fraction(1, 1 << 16)  # of the public scale, on which quantiles are drawn
_LEAST = 2.0**-10  # of the half width of the limits: the least w
_FLATTEST = 2.0**-18  # the width of limits, in units of their larger end
_NARROWEST = 1e-90  # and at all: a released range is up to 2^11 times narrower
_RHOS = (1e-12, 1e6)
_STRETCHES = (1, 1e3)
_SHARES = (1e-6, 1 - 1e-6)
_DELTA = 1e-6  # at which a mu is handed on to the fit; any other says the same
METHODS = ("ridge", "spectral", "AdaSSP")


@dataclass(frozen=True)
class Rule:
    """How ranges are bought. All of it is public, and fixed before the table is looked at.

    Parameters
    ----------
    limits : preprocessing.Ranges
        Wide ranges of columns and response; the width of one is at least 2^-18 of its larger end,
        and 1e-90, so that no released range is too narrow for `preprocessing.Ranges`.
    bought : tuple of int, optional
        Which columns get a range of their own, d being the response; all by default. The others
        keep their limits. A column that has few values may have equal quartiles, and needs none.
    levels : (number, number)
        Of the two quantiles, in increasing order: quartiles by default.
    stretch : number
        c, from 1 to 1000.

    Raises
    ------
    ValueError
        If one of these is out of range.
    """

    limits: preprocessing.Ranges
    bought: tuple | None = None
    levels: tuple = (Fraction(1, 4), Fraction(3, 4))
    stretch: float = 4.0

    def __post_init__(self):
        """Check the fields."""
        if not isinstance(self.limits, preprocessing.Ranges):
            raise ValueError(f"limits must be preprocessing.Ranges, got {self.limits!r}")
        for low, high in self.pairs:
            if not high - low >= max(_FLATTEST * max(abs(low), abs(high)), _NARROWEST):
                raise ValueError(f"limits must be wider for their ends, got {(low, high)!r}")
        object.__setattr__(self, "bought", self._places())
        low, high = self._levels()
        object.__setattr__(self, "levels", (low, high))
        stretch = float(checks.within("stretch", self.stretch, *_STRETCHES))
        object.__setattr__(self, "stretch", stretch)

    @property
    def pairs(self):
        """The limits of all columns, those of the response last."""
        return (*self.limits.columns, self.limits.response)

    def _places(self):
        every = tuple(range(len(self.pairs)))
        chosen = every if self.bought is None else self.bought
        listed = isinstance(chosen, (tuple, list)) and all(place in every for place in chosen)
        if not listed or not chosen or len(set(chosen)) < len(chosen):
            raise ValueError(
                f"bought must name columns from 0 to {every[-1]}, each once, got {self.bought!r}"
            )
        return tuple(checks.integer("bought", place) for place in chosen)

    def _levels(self):
        if not isinstance(self.levels, (tuple, list)) or len(self.levels) != 2:
            raise ValueError(f"levels must be a pair of numbers, got {self.levels!r}")
        low, high = (
            checks.as_fraction("levels", checks.within("levels", q, 0, 1)) for q in self.levels
        )
        if not low < high:
            raise ValueError(f"levels must be in increasing order, got {self.levels!r}")
        return low, high


@dataclass(frozen=True)
class Published:
    """What a pipeline publishes.

    Parameters
    ----------
    ranges : preprocessing.Ranges
        The ranges that were bought, and the limits of the columns that kept them.
    fit : regression.Fit
        On the scale of the ranges, the column of ones first.
    coefficients : array of shape (d + 1,)
        In the units of the data, the intercept first.
    """

    ranges: preprocessing.Ranges
    fit: regression.Fit
    coefficients: np.ndarray


def end_epsilon(rule, rho):
    """Return epsilon_1, what each released quantile may cost: a fraction, rounded down.

    sqrt(4 rho/k), for two quantiles of each of the k columns that are bought.
    """
    exact = checks.as_fraction("rho", checks.within("rho", rho, *_RHOS))
    return root_below(4 * exact / len(rule.bought))


def end_mechanisms(rule, neighbours, rho, *, unit="row"):
    """Return the two mechanisms, of the lower and of the upper quantile, of a bought column.

    They read a column on the public scale of its limits.
    """
    return [
        quantiles.mechanism(level, -1, 1, GRID, neighbours, end_epsilon(rule, rho), unit=unit)
        for level in rule.levels
    ]


def ranges_of(ends, rule):
    """Return the ranges that belong to released quantiles: point 2 of the module.

    Privacy
        Post-processing.

    Parameters
    ----------
    ends : array of shape (k, 2)
        The lower and the upper quantile of each bought column, on the public scale; where they
        stand in the wrong order, they are exchanged.
    rule : Rule

    Returns
    -------
    preprocessing.Ranges
    """
    pairs = list(rule.pairs)
    for place, (low, high) in zip(rule.bought, np.sort(np.asarray(ends, dtype=float), axis=1)):
        half = rule.stretch * max((high - low) / 2, _LEAST)
        around = (low + high) / 2
        cut = np.clip([around - half, around + half], -1, 1)
        pairs[place] = _in_units(cut, pairs[place])
    return preprocessing.Ranges(pairs[:-1], pairs[-1])


def _in_units(cut, limits):
    """Return a range on the public scale in the units of the data; its ends stay in the limits."""
    low, high = limits
    ends = (low + high) / 2 + (high - low) / 2 * cut
    return tuple(float(end) for end in np.clip(ends, low, high))


def ranges_mechanism(rule, neighbours, rho, *, unit="row"):
    """Return the purchase of ranges by private quantiles, for a `Ledger`.

    Privacy
        rho-zCDP, exactly, for a `unit` that has one record. Public: the rule; under replace-one
        also the number of records. How long a draw takes depends on the table.

    Parameters
    ----------
    rule : Rule
    neighbours : {"add-remove", "replace-one"}
    rho : int, float or Fraction
        Of all columns together, in equal parts.
    unit : str

    Returns
    -------
    Mechanism
        From a table (X, y), as `preprocessing.into` reads it, to `preprocessing.Ranges`. What is
        missing counts as the lower limit.

    Error
        In rank, each end, at most `quantiles.accuracy` of `quantiles.scale`(q, epsilon_1,
        neighbours) and 2^17 + 1 points.

    Source
        McSherry and Talwar 2007; Smith 2011; derived in the chapter on preprocessing in private.
    """
    if not isinstance(rule, Rule):
        raise ValueError(f"rule must be rescaling.Rule, got {rule!r}")
    exact = checks.as_fraction("rho", checks.within("rho", rho, *_RHOS))
    ends = end_mechanisms(rule, neighbours, exact, unit=unit)
    return Mechanism(
        name=f"{2 * len(rule.bought)} quantiles for the ranges of {len(rule.bought)} columns, "
        f"epsilon {float(end_epsilon(rule, rho)):.6g} each",
        costs=(ZCDP(exact),),
        neighbours=neighbours,
        unit=unit,
        read=partial(_read, rule=rule, end=ends[0]),
        draw=partial(_bought, rule=rule, ends=ends, rho=exact),
        exact=True,
    )


def _read(table, rule, end):
    """Return a table of floats, and its bought columns as an end mechanism reads them."""
    Z, v = preprocessing.into(table, rule.limits)
    X, y = (private.floats(private.answer(name, part)) for name, part in zip("Xy", table))
    columns = [*Z.T[1:], v]
    steps = {place: np.sort(end.read(columns[place])) for place in rule.bought}
    return (X.reshape(len(y), len(rule.limits.columns)), y), steps


def _as_read(value):
    return value


def _bought(read, rule, ends, rho, *, rng):
    _, steps = read
    plan = [
        (f"{side} quantile of column {place}", replace(end, read=_as_read))
        for place in rule.bought
        for side, end in zip(("lower", "upper"), ends)
    ]
    ledger = Ledger(ZCDP(rho), neighbours=ends[0].neighbours, unit=ends[0].unit, plan=plan)
    drawn = [
        ledger.release(label, end, steps[place], rng=rng)
        for (label, end), place in zip(plan, np.repeat(rule.bought, 2))
    ]
    return ranges_of(np.reshape(drawn, (-1, 2)), rule)


def fit_mechanism(columns, neighbours, rho, *, method="AdaSSP", unit="row"):
    """Return a regression on mapped records at the cost rho, for a `Ledger`.

    Privacy
        mu-Gaussian private with mu^2/2 <= rho, so rho-zCDP; exactly, with the reservation of
        `regression.adassp_mechanism` for that method.

    Parameters
    ----------
    columns : int
        d, without the column of ones.
    neighbours : {"add-remove", "replace-one"}
    rho : int, float or Fraction
    method : {"ridge", "spectral", "AdaSSP"}
        `regression.ssp_mechanism` with its default penalty or threshold, or
        `regression.adassp_mechanism`.
    unit : str

    Returns
    -------
    Mechanism
        From what `preprocessing.into` returns to a `regression.Fit`.
    """
    checks.one_of("method", method, METHODS)
    d = checks.integer("columns", columns, low=1) + 1
    bounds = regression.Bounds(d, d**0.5, 1.0)
    epsilon = _epsilon_of(rho)
    if method == "AdaSSP":
        return regression.adassp_mechanism(bounds, neighbours, epsilon, _DELTA, unit=unit)
    return regression.ssp_mechanism(bounds, neighbours, epsilon, _DELTA, method=method, unit=unit)


def _epsilon_of(rho):
    """Return an epsilon that asks at _DELTA for a mu with mu^2/2 <= rho, and hardly less."""
    exact = checks.as_fraction("rho", checks.within("rho", rho, *_RHOS))
    mu = root_below(2 * exact)
    epsilon = Fraction(float(curves.gaussian_epsilon(mu, _DELTA)))
    if not lower(epsilon) >= checks.EPSILONS[0]:
        raise ValueError(f"rho must leave more for the fit, got {float(exact)!r}")
    shrink = Fraction(1, 10**12)
    while Fraction(float(curves.gaussian_mu(lower(epsilon), _DELTA))) > mu:  # stays above 0
        epsilon, shrink = epsilon * (1 - shrink), 10 * shrink
    return lower(epsilon)


def mechanism(rule, neighbours, epsilon, delta, *, share, method="AdaSSP", unit="row"):
    """Return the whole pipeline as one `Mechanism`, for a `Ledger`: ranges, fit, coefficients.

    Privacy
        rho-zCDP for the largest rho that implies (epsilon, delta), and (epsilon, delta)-
        differentially private for a `unit` that has one record: points 1 to 4 of the module;
        exactly, as far as `fit_mechanism` is. Public: the rule, the share, the method, epsilon,
        delta, and that there are fewer than 2^32 rows; under replace-one their number. How long a
        draw takes depends on the table.

    Parameters
    ----------
    rule : Rule
    neighbours : {"add-remove", "replace-one"}
    epsilon, delta : float
    share : float
        Of rho, for the ranges; the fit gets the rest.
    method : {"ridge", "spectral", "AdaSSP"}
    unit : str

    Returns
    -------
    Mechanism
        From a table (X, y) to a `Published`.

    Raises
    ------
    ValueError
        If a public argument is out of range.

    Error
        The noise of the fit is larger by 1/sqrt(1 - share) than without a purchase at the same rho.
    """
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    checks.within("delta", checks.probability("delta", delta), *checks.DELTAS)
    part = checks.as_fraction("share", checks.within("share", share, *_SHARES))
    stated = Approximate(epsilon, delta)
    rho = Fraction(renyi.zcdp_rho(lower(stated.epsilon), lower(stated.delta)))
    whole = ranges_mechanism(rule, neighbours, part * rho, unit=unit)
    find = replace(whole, read=_as_read)  # the pipeline has read the table before
    fit = fit_mechanism(
        len(rule.limits.columns), neighbours, (1 - part) * rho, method=method, unit=unit
    )
    return Mechanism(
        name=f"{fit.name}, after {find.name}",
        costs=(ZCDP(rho), stated),
        neighbours=neighbours,
        unit=unit,
        read=whole.read,
        draw=partial(_draw, find=find, fit=fit, rho=rho),
        exact=True,
    )


def _draw(read, find, fit, rho, *, rng):
    table, _ = read
    plan = [("ranges", find), ("fit", fit)]
    ledger = Ledger(ZCDP(rho), neighbours=fit.neighbours, unit=fit.unit, plan=plan)
    ranges = ledger.release("ranges", find, read, rng=rng)
    theta = ledger.release("fit", fit, preprocessing.into(table, ranges), rng=rng)
    return Published(ranges, theta, preprocessing.unstandardised(theta.coefficients, ranges))
