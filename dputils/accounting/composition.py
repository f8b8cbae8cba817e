"""Composition: what several releases cost together, when all their costs are fixed beforehand.

A *cost* (`costs`) says what one release guarantees, for one neighbour relation. An *account* turns
a list of costs into one guarantee. Each release may be chosen after seeing the earlier ones, its
cost may not; the accounts that allow that too are the filters of `ledger.Ledger`.

Why a list of costs is all that counts: an epsilon-private release is randomized response on "which
neighbour?", with something computed from the answer (Kairouz, Oh, Viswanath 2015, Theorem 2.5); an
(epsilon, delta)-private one is randomized response that gives the neighbour away with probability
delta; a mu-Gaussian one is the Gaussian mechanism on one bit. However the analyst goes on,
everything is computed from one table of such independent bits.

Costs are exact fractions; floats are read as the decimals that print them. Where a logarithm
enters, results are floats rounded up: no epsilon, delta, rho or mu returned here is below the exact
one.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from fractions import Fraction

import numpy as np

from dputils import checks
from dputils.accounting import curves
from dputils.accounting import renyi as renyi_curves
from dputils.accounting.costs import KINDS, ZCDP, Approximate, Gaussian, Pure, Renyi, is_cost
from dputils.accounting.losses import exact_pure_epsilon, numerical_epsilon
from dputils.accounting.rounding import (
    ULP,
    above,
    ceiling,
    log_rest,
    lower,
    root,
    share,
    upper,
)

# --------------------------------------------------------------------- sums, each in its own notion


def basic(costs):
    """Return the sums `(epsilon, delta)`, exact fractions, of `Pure` and `Approximate` costs.

    Source
        Dwork, McSherry, Nissim, Smith 2006; Dwork and Roth 2014, Theorem 3.16.
    """
    groups = _groups(costs, "basic").items()
    return _sum(k * c.epsilon for c, k in groups), _sum(k * own_delta(c) for c, k in groups)


def advanced(costs, slack):
    """Return `(epsilon, delta)` of advanced composition of `Pure` and `Approximate` costs.

    The costs may differ.

    The privacy loss of each bit has mean epsilon_i tanh(epsilon_i/2) and lies within epsilon_i, so
    the sum exceeds its mean by sqrt(2 ln(1/slack) sum epsilon_i^2) with probability at most `slack`
    (Hoeffding). For few releases the result is larger than the basic sum.

    Parameters
    ----------
    costs : list of Pure or Approximate
        Of epsilons up to 1e6.
    slack : float
        Probability in (0, 1) that is added to the costs' own deltas: delta = 1 - (1 - slack) prod(1
        - delta_i).

    Source
        Dwork, Rothblum, Vadhan 2010; Kairouz, Oh, Viswanath 2015, Theorem 3.5 (the last of its
        three terms).
    """
    chance = checks.probability("slack", share(checks.probability("slack", slack)))
    groups = _groups(costs, "advanced")
    if not groups:
        return 0.0, slack
    pairs = [(upper(c.epsilon), k) for c, k in groups.items()]
    if (most := max(e for e, _ in pairs)) > 1e6:
        raise ValueError(f"costs must be at most 1e+06 for the advanced account, got {most:g}")
    mean = math.fsum(k * e * math.tanh(e / 2) for e, k in pairs)
    square = math.fsum(k * e * e for e, k in pairs)
    epsilon = above(mean + math.sqrt(2 * -math.log(chance) * square))
    leak = _log_kept(groups)
    return epsilon, min(1.0, above(-math.expm1(math.log1p(-chance) + leak))) if leak else slack


def zcdp(costs):
    """Return `(rho, delta)`, exact fractions: all costs together are delta-approximate rho-zCDP.

    `Pure` costs count epsilon^2/2, `Gaussian` costs mu^2/2; `Approximate` costs are
    delta-approximate epsilon^2/2-zCDP.

    Source
        Bun and Steinke 2016, Propositions 1.4 and 1.6, section 8.
    """
    groups = _groups(costs, "zcdp").items()
    return _sum(k * rho(c) for c, k in groups), _sum(k * own_delta(c) for c, k in groups)


def gaussian(costs):
    """Return the mu, rounded up, of `Gaussian` and `Pure` costs: the root of the sum of squares.

    A pure cost counts as the mu that covers it (`renyi.pure_to_gaussian`). Exact for Gaussian costs
    alone.

    Source
        Dong, Roth, Su 2022, Corollary 3.3.
    """
    return root(_sum(k * mu_square(c) for c, k in _groups(costs, "gaussian").items()))


def renyi(costs):
    """Return the `Renyi` cost of all costs together: divergences add up, order by order.

    The orders are those of the curves among the costs, or `renyi.ORDERS` if there are none. A
    divergence never falls with its order, so a curve without an order answers with its next larger
    one.

    Source
        Mironov 2017, Proposition 1.
    """
    groups = _groups(costs, "renyi")
    listed = sorted({order for c in groups if isinstance(c, Renyi) for order in c.orders})
    orders = np.array(listed or renyi_curves.ORDERS)
    total = np.zeros(orders.size)
    for cost, k in groups.items():
        total += k * _divergences(cost, orders)
    return Renyi(orders, total * (1 + (len(groups) + 1) * ULP))


def numerical(costs, delta):
    """Return epsilon at `delta`, rounded up, by privacy loss distributions (dp-accounting).

    For `Pure`, `Approximate` and `Gaussian` costs; see `losses.numerical_epsilon`.
    """
    groups = _groups(costs, "numerical")
    checks.probability("delta", delta)
    gaussians = {c: k for c, k in groups.items() if isinstance(c, Gaussian)}
    mu = root(_sum(k * c.mu**2 for c, k in gaussians.items()))
    responses = [(c.epsilon, own_delta(c), k) for c, k in groups.items() if c not in gaussians]
    if not groups:
        return 0.0
    most = max([mu, *(e for e, _, _ in responses)])
    if most > 1e4:
        raise ValueError(
            f"costs must be at most 10000 for the numerical account, got {upper(most):g}"
        )
    return numerical_epsilon(responses, mu, delta)


# --------------------------------------------------------------------- one guarantee, by an account


def epsilon_at(costs, delta, account=None):
    """Return `(epsilon, account)`: the epsilon, rounded up, of all costs together at `delta`.

    By one account, or by the cheapest that applies.

    Parameters
    ----------
    costs : list of Pure, Approximate, ZCDP, Gaussian, Renyi
    delta : float, in [0, 1)
        At 0 only the basic account of pure costs applies.
    account : {"basic", "advanced", "zcdp", "gaussian", "exact", "renyi", "numerical"}, optional
        "exact" is for releases of one epsilon, whatever their deltas, and for Gaussian costs.

    Raises
    ------
    ValueError
        If the account does not apply to the costs or to delta, or if none does.
    """
    costs = _listed(costs)
    checks.delta(delta)
    if account is not None:
        return BY[checks.one_of("account", account, tuple(BY))](costs, delta), account
    found, reasons = {}, []
    for name, function in BY.items():
        if name == "numerical" and "exact" in found:
            continue
        try:
            found[name] = function(costs, delta)
        except ValueError as error:
            reasons.append(str(error))
    if not found:
        raise ValueError("no account applies: " + "; ".join(reasons))
    best = min(found, key=found.get)
    return found[best], best


def _basic_at(costs, delta):
    epsilon, least = basic(costs)
    if least > checks.as_fraction("delta", delta):
        least = f"{ceiling(least):.6g}"
        raise ValueError(
            f"delta must be at least {least} for the basic account, got {float(delta):.6g}"
        )
    return ceiling(epsilon)


def _advanced_at(costs, delta):
    return advanced(costs, _slack("advanced", costs, delta))[0]


def _zcdp_at(costs, delta):
    total, least = zcdp(costs)
    left = _left("zcdp", checks.as_fraction("delta", delta) - least, delta)
    return renyi_curves.zcdp_epsilon(upper(total), lower(left)) if total else 0.0


def _gaussian_at(costs, delta):
    mu = gaussian(costs)
    left = _left("gaussian", lower(checks.as_fraction("delta", delta)), delta)
    return curves.gaussian_epsilon(mu, left) if mu else 0.0


def _exact_at(costs, delta):
    groups = _groups(costs, "exact")
    if all(isinstance(c, Gaussian) for c in groups):
        return _gaussian_at(costs, delta)
    if len({getattr(c, "epsilon", None) for c in groups}) > 1:
        raise ValueError("the exact account needs releases of one epsilon, or Gaussian costs alone")
    slack = _slack("exact", costs, delta)
    return exact_pure_epsilon(next(iter(groups)).epsilon, len(costs), slack)


def _renyi_at(costs, delta):
    curve = renyi(costs)
    left = _left("renyi", lower(checks.as_fraction("delta", delta)), delta)
    return renyi_curves.rdp_to_epsilon(curve.orders, curve.divergences, left) if costs else 0.0


BY = {
    "basic": _basic_at,
    "advanced": _advanced_at,
    "zcdp": _zcdp_at,
    "gaussian": _gaussian_at,
    "exact": _exact_at,
    "renyi": _renyi_at,
    "numerical": numerical,
}
TAKES = {
    "basic": (Pure, Approximate),
    "advanced": (Pure, Approximate),
    "zcdp": (ZCDP, Gaussian, Pure, Approximate),
    "gaussian": (Gaussian, Pure),
    "exact": (Gaussian, Pure, Approximate),
    "renyi": (Renyi, Gaussian, ZCDP, Pure),
    "numerical": (Gaussian, Pure, Approximate),
}


# ---------------------------------------------------------------------- one cost, in another notion


def own_delta(cost):
    """Return the delta of a cost; 0 for a cost that has none."""
    return cost.delta if isinstance(cost, Approximate) else Fraction(0)


def rho(cost):
    """Return the rho of a cost that is not a Renyi curve, beside its own delta."""
    if isinstance(cost, ZCDP):
        return cost.rho
    return (cost.mu if isinstance(cost, Gaussian) else cost.epsilon) ** 2 / 2


def mu_square(cost):
    """Return mu^2 of a `Gaussian` or `Pure` cost as a fraction, never below the exact value.

    It is the unit that Gaussian accounts add.
    """
    if isinstance(cost, Gaussian):
        return cost.mu**2
    return Fraction(renyi_curves.pure_to_gaussian(upper(cost.epsilon))) ** 2


def _divergences(cost, orders):
    """The Renyi divergences of a cost at rising orders, rounded up; inf above a curve's last."""
    if isinstance(cost, Renyi):
        next_larger = np.searchsorted(cost.orders, orders)
        return np.append(cost.divergences, math.inf)[next_larger]
    if isinstance(cost, Pure):
        return renyi_curves.pure_rdp(orders, upper(cost.epsilon))
    return orders * upper(rho(cost)) * (1 + ULP)


# ------------------------------------------------------------------------------------------ helpers


def _sum(fractions):
    return sum(fractions, Fraction(0))


def _slack(account, costs, delta):
    """What the costs leave of delta, rounded down: 1 - (1 - delta)/prod(1 - delta_i)."""
    rest = upper(1 - checks.as_fraction("delta", delta))
    log = math.log1p(-share(delta)) if rest > 0.5 else math.log(rest)
    left = -math.expm1(log * (1 - 1e-14) - _log_kept(Counter(costs)))
    return _left(account, min(left, 1 - 2**-53), delta)


def _left(account, left, delta):
    if left <= 0:
        own = f"exceed the costs' own deltas for the {account} account"
        raise ValueError(f"delta must {own}, got {float(delta):.6g}")
    return left


def _log_kept(groups):
    """ln prod(1 - delta_i) of counted costs, rounded down."""
    logs = [k * log_rest(own_delta(c)) for c, k in groups.items() if own_delta(c)]
    return math.fsum(logs) * (1 + 1e-14)


def _listed(costs):
    """Return a list of costs; refuse what would lose how often each is paid, or is no cost."""
    names = ", ".join(kind.__name__ for kind in KINDS)
    if isinstance(costs, (Mapping, Set, str)) or not isinstance(costs, Iterable):
        raise ValueError(f"costs must be a list of {names}, got {costs!r}")
    costs = list(costs)
    for cost in costs:
        if not is_cost(cost):
            raise ValueError(f"cost must be one of {names}, got {cost!r}")
    return costs


def _groups(costs, account):
    """Count equal costs; refuse costs of a kind that the account cannot take."""
    groups = Counter(_listed(costs))
    for cost in groups:
        if not isinstance(cost, TAKES[account]):
            kinds = " and ".join(kind.__name__ for kind in TAKES[account])
            got = f"{type(cost).__name__}: {cost}"
            raise ValueError(f"the {account} account takes {kinds} costs, got {got}")
    return groups
