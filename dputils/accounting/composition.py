"""Composition: what several releases cost together, when all their costs are fixed beforehand.

A *cost* says what one release guarantees: `Pure`, `Approximate`, `ZCDP` or `Gaussian`, for one neighbour relation. An
*account* turns a list of costs into one guarantee. Each release may be chosen after seeing the earlier ones, its cost
may not; the accounts that allow that too are the filters of `accounting.Ledger`.

Why a list of costs is all that counts: an epsilon-private release is randomized response on "which neighbour?", with
something computed from the answer (Kairouz, Oh, Viswanath 2015, Theorem 2.5); an (epsilon, delta)-private one is
randomized response that gives the neighbour away with probability delta; a mu-Gaussian one is the Gaussian mechanism
on one bit. However the analyst goes on, everything is computed from one table of such independent bits.

Costs are exact fractions; floats are read as the decimals that print them. Where a logarithm enters, results are floats
rounded up: no epsilon, delta, rho or mu returned here is below the exact one.
"""
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from fractions import Fraction

from dputils import checks
from dputils.accounting import curves, renyi
from dputils.accounting.costs import KINDS, ZCDP, Approximate, Gaussian, Pure
from dputils.accounting.losses import exact_pure_epsilon, numerical_epsilon
from dputils.accounting.rounding import above, ceiling, log_rest, lower, root, share, upper

ACCOUNTS = ("basic", "advanced", "zcdp", "gaussian", "exact", "numerical")


def basic(costs):
    """Return the sums `(epsilon, delta)`, exact fractions, of `Pure` and `Approximate` costs (Dwork, McSherry, Nissim,
    Smith 2006; Dwork and Roth 2014, Theorem 3.16)."""
    groups = _groups(costs, "basic", Pure, Approximate).items()
    return (sum((k * c.epsilon for c, k in groups), Fraction(0)), sum((k * _delta(c) for c, k in groups), Fraction(0)))


def advanced(costs, slack):
    """Return `(epsilon, delta)` of advanced composition, for `Pure` and `Approximate` costs that may differ.

    The privacy loss of each bit has mean epsilon_i tanh(epsilon_i/2) and lies within epsilon_i, so the sum exceeds its
    mean by sqrt(2 ln(1/slack) sum epsilon_i^2) with probability at most `slack` (Hoeffding). For few releases the
    result is larger than the basic sum.

    Parameters
    ----------
    costs : list of Pure or Approximate
    slack : float
        Probability in (0, 1) that is added to the costs' own deltas: delta = 1 - (1 - slack) prod(1 - delta_i).

    Source
        Dwork, Rothblum, Vadhan 2010; Kairouz, Oh, Viswanath 2015, Theorem 3.5 (the last of its three terms).
    """
    chance = share(checks.probability("slack", slack))
    groups = _groups(costs, "advanced", Pure, Approximate)
    pairs = [(_fit("advanced", upper(c.epsilon)), k) for c, k in groups.items()]
    mean = math.fsum(k * e * math.tanh(e / 2) for e, k in pairs)
    square = math.fsum(k * e * e for e, k in pairs)
    epsilon = above(mean + math.sqrt(2 * -math.log(checks.probability("slack", chance)) * square)) if pairs else 0.0
    leak = _log_kept(groups)
    return epsilon, slack if not leak else min(1.0, above(-math.expm1(math.log1p(-chance) + leak)))


def zcdp(costs):
    """Return `(rho, delta)`, exact fractions: all costs together are delta-approximate rho-zCDP.

    `Pure` costs count epsilon^2/2, `Gaussian` costs mu^2/2; `Approximate` costs are delta-approximate epsilon^2/2-zCDP
    (Bun and Steinke 2016, Propositions 1.4 and 1.6, section 8).
    """
    groups = _groups(costs, "zcdp", Pure, Approximate, ZCDP, Gaussian).items()
    return sum((k * _rho(c) for c, k in groups), Fraction(0)), sum((k * _delta(c) for c, k in groups), Fraction(0))


def gaussian(costs):
    """Return the mu, rounded up, of `Gaussian` and `Pure` costs together: the root of the sum of their squares.

    A pure cost counts as the mu that covers it (`renyi.pure_to_gaussian`). Exact for Gaussian costs alone (Dong, Roth,
    Su 2022, Corollary 3.3).
    """
    return root(sum((k * square(c) for c, k in _groups(costs, "gaussian", Gaussian, Pure).items()), Fraction(0)))


def square(cost):
    """Return mu^2 of a `Gaussian` or `Pure` cost as a fraction, never below the exact value: the unit that Gaussian
    accounts add."""
    mu = cost.mu if isinstance(cost, Gaussian) else Fraction(float(renyi.pure_to_gaussian(upper(cost.epsilon))))
    return mu * mu


def numerical(costs, delta):
    """Return epsilon at `delta`, rounded up, by privacy loss distributions (dp-accounting), for `Pure`, `Approximate`
    and `Gaussian` costs; see `_losses.numerical_epsilon`."""
    groups = _groups(costs, "numerical", Pure, Approximate, Gaussian)
    checks.probability("delta", delta)
    mu = root(sum((k * c.mu ** 2 for c, k in groups.items() if isinstance(c, Gaussian)), Fraction(0)))
    responses = [(c.epsilon, _delta(c), k) for c, k in groups.items() if not isinstance(c, Gaussian)]
    _fit("numerical", max([mu, *(e for e, _, _ in responses)]))
    return numerical_epsilon(responses, mu, delta) if groups else 0.0


def epsilon_at(costs, delta, account=None):
    """Return `(epsilon, account)`: the epsilon, rounded up, of all costs together at a total `delta`, by one account or
    by the cheapest that applies.

    Parameters
    ----------
    costs : list of Pure, Approximate, ZCDP, Gaussian
    delta : float, in [0, 1)
        At 0 only the basic account of pure costs applies.
    account : {"basic", "advanced", "zcdp", "gaussian", "exact", "numerical"}, optional
        "exact" is for releases of one epsilon, whatever their deltas, and for Gaussian costs.

    Raises
    ------
    ValueError
        If the account does not apply to the costs or to delta, or if none does.
    """
    costs = _listed(costs)
    checks.delta(delta)
    if account is not None:
        return _BY[checks.one_of("account", account, ACCOUNTS)](costs, delta), account
    found, reasons = {}, []
    for name in ACCOUNTS:
        if name == "numerical" and "exact" in found:
            continue
        try:
            found[name] = _BY[name](costs, delta)
        except ValueError as error:
            reasons.append(str(error))
    if not found:
        raise ValueError("no account applies: " + "; ".join(reasons))
    best = min(found, key=found.get)
    return found[best], best


def _basic_at(costs, delta):
    epsilon, least = basic(costs)
    if least > checks.as_fraction("delta", delta):
        raise ValueError(f"delta must be at least {_shown(ceiling(least))} for the basic account, got {_shown(delta)}")
    return ceiling(epsilon)


def _zcdp_at(costs, delta):
    rho, least = zcdp(costs)
    left = _left("zcdp", checks.as_fraction("delta", delta) - least, delta)
    return renyi.zcdp_epsilon(_fit("zcdp", upper(rho), 1e300), lower(left)) if rho else 0.0


def _gaussian_at(costs, delta):
    mu, left = gaussian(costs), _left("gaussian", lower(checks.as_fraction("delta", delta)), delta)
    return curves.gaussian_epsilon(_fit("gaussian", mu), left) if mu else 0.0


def _exact_at(costs, delta):
    groups = _groups(costs, "exact", Pure, Approximate, Gaussian)
    if all(isinstance(c, Gaussian) for c in groups):
        return _gaussian_at(costs, delta)
    if len({getattr(c, "epsilon", None) for c in groups}) > 1:
        raise ValueError("the exact account needs releases of one epsilon, or Gaussian costs alone")
    return exact_pure_epsilon(next(iter(groups)).epsilon, len(costs), _slack("exact", costs, delta))


_BY = {"basic": _basic_at, "zcdp": _zcdp_at, "gaussian": _gaussian_at, "exact": _exact_at, "numerical": numerical,
       "advanced": lambda costs, delta: advanced(costs, _slack("advanced", costs, delta))[0]}


def _slack(account, costs, delta):
    """What the costs' own deltas leave of delta, rounded down: 1 - (1 - delta)/prod(1 - delta_i)."""
    rest = upper(1 - checks.as_fraction("delta", delta))
    log = math.log1p(-share(delta)) if rest > 0.5 else math.log(rest)
    return _left(account, min(-math.expm1(log * (1 - 1e-14) - _log_kept(costs)), 1 - 2**-53), delta)


def _left(account, left, delta):
    if left <= 0:
        raise ValueError(f"delta must exceed the costs' own deltas for the {account} account, got {_shown(delta)}")
    return left


def _log_kept(costs):
    """ln prod(1 - delta_i), rounded down."""
    return math.fsum(k * log_rest(_delta(c)) for c, k in Counter(costs).items() if _delta(c)) * (1 + 1e-14)


def _fit(account, size, most=1e150):
    """Return an epsilon, rho or mu; refuse one whose square, or other use, would be beyond all floats."""
    if size > most:
        raise ValueError(f"costs must be at most {most:g} for the {account} account, got {upper(size):g}")
    return size


def _listed(costs):
    """Return a list of costs; refuse what would lose how often each is paid, and what is no cost."""
    if isinstance(costs, (Mapping, Set, str)) or not isinstance(costs, Iterable):
        raise ValueError(f"costs must be a list of Pure, Approximate, ZCDP or Gaussian, got {costs!r}")
    costs = list(costs)
    for cost in costs:
        if not isinstance(cost, KINDS):
            raise ValueError(f"cost must be Pure, Approximate, ZCDP or Gaussian, got {cost!r}")
    return costs


def _groups(costs, account, *allowed):
    """Count equal costs; refuse costs of a kind that the account cannot take."""
    groups = Counter(_listed(costs))
    for cost in groups:
        if not isinstance(cost, allowed):
            raise ValueError(f"the {account} account takes {' and '.join(c.__name__ for c in allowed)} costs, "
                             f"got {type(cost).__name__}: {cost}")
    return groups


def _delta(cost):
    return cost.delta if isinstance(cost, Approximate) else Fraction(0)


def _rho(cost):
    return cost.rho if isinstance(cost, ZCDP) else (cost.mu if isinstance(cost, Gaussian) else cost.epsilon) ** 2 / 2


def _shown(x):
    return f"{float(x):.6g}"
