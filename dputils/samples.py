"""Mechanisms on a secret random sample of the records: who was drawn is a part of the noise.

Letters: q the rate of a Poisson sample, epsilon and delta the cost of the mechanism on the sample,
mu that of Gaussian noise.

Ranges: q in (0, 1], a float read as the decimal that prints it; for Gaussian noise from 1e-9, with
sigma 0.1 to 1e6 sensitivities; epsilon at most 500.
"""

from functools import partial

import numpy as np

from dputils import bits, checks
from dputils.accounting.costs import Approximate, Gaussian, Pure, Renyi, as_cost, subsampled
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.renyi import ORDERS, sampled_gaussian_rdp
from dputils.accounting.rounding import lower, upper

_BITS = 62  # of a coin's uniform number that are drawn at a time


def poisson_sample(n, rate, *, rng):
    """Draw which of n records are in a Poisson sample: each with probability `rate`, independently.

    Parameters
    ----------
    n : int, at least 0
    rate : float or Fraction
        q, in (0, 1].
    rng : numpy.random.Generator or noise.SYSTEM

    Returns
    -------
    bool array of shape (n,)
        The coins are exact.
    """
    return _coins(_rate(rate), checks.integer("n", n, 0), checks.generator(rng))


def poisson(mechanism, query, rate, neighbours):
    """Return a mechanism that answers a query on a secret Poisson sample, for a `Ledger`.

    Privacy
        For the relation `neighbours` between *tables*, if `mechanism` has its costs for add-remove
        neighbours of the *sample*, a record being all that a unit has in the table. A `Pure` or
        `Approximate` cost becomes that of `costs.subsampled`; a `Gaussian` one becomes, under
        add-remove, the Renyi curve of Gaussian noise on a sample. Other costs are not carried over.
        Nothing but the answer may be published: neither who is in the sample nor how many are.
        Public: the rate, the query, the mechanism.

    Parameters
    ----------
    mechanism : Mechanism
        For add-remove neighbours; it reads what the query returns.
    query : function of an array of records
        It must answer every set of records, the empty one too, without raising and with answers of
        one type and shape; it is tried on the empty one before anything is booked.
    rate : float or Fraction
        q, in (0, 1].
    neighbours : {"add-remove", "replace-one"}

    Returns
    -------
    Mechanism
        Reads a table, an array whose first axis runs over the records. Exact if `mechanism` is.

    Raises
    ------
    ValueError
        If an argument is none of these, or no cost of the mechanism can be carried over.

    Source
        Balle, Barthe, Gaboardi 2018, Theorem 8; Mironov, Talwar, Zhang 2019, section 3.3.
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, got {mechanism!r}")
    if mechanism.neighbours != "add-remove":
        raise ValueError(
            "mechanism must be for add-remove neighbours of the sample, whose size changes, got "
            f"{mechanism.neighbours!r}"
        )
    if not callable(query):
        raise ValueError(f"query must be a function of the sampled records, got {query!r}")
    q, same = _rate(rate), checks.neighbours(neighbours) == "add-remove"
    return Mechanism(
        name=f"{mechanism.name}, on a Poisson sample of rate {float(q):.6g}",
        costs=_sampled_costs(mechanism, q, neighbours),
        neighbours=neighbours,
        unit=mechanism.unit,
        read=partial(_read, mechanism, query),
        draw=partial(_draw, mechanism, query, q),
        exact=mechanism.exact,
        sensitivity=mechanism.sensitivity if same else None,
    )


def _rate(rate):
    """Return q as an exact fraction."""
    q = checks.as_fraction("rate", checks.positive("rate", rate))
    if q > 1:
        raise ValueError(f"rate must be at most 1, got {rate!r}")
    return q


def _coins(q, n, rng):
    """Return n coins of probability q: is a uniform number below q? Where its first bits are those
    of q, the next ones decide.
    """
    whole, rest = divmod(q * (1 << _BITS), 1)
    first = bits.words(_BITS, n, rng)
    kept, ties = first < whole, np.flatnonzero(first == whole)
    if ties.size and rest:
        kept[ties] = _coins(rest, ties.size, rng)
    return kept


def _sampled_costs(mechanism, q, neighbours):
    costs = [_sampled_cost(cost, q, neighbours) for cost in mechanism.costs]
    if not any(costs):
        own = " or ".join(map(str, mechanism.costs))
        raise ValueError(
            f"mechanism must have a cost that sampling is known to lower under {neighbours}, an "
            f"epsilon or, under add-remove, a mu; got {own}"
        )
    return tuple(cost for cost in costs if cost)


def _sampled_cost(cost, q, neighbours):
    """Return what a cost becomes on a sample, or None if it is not carried over."""
    if isinstance(cost, (Pure, Approximate)):
        epsilon, delta = subsampled(cost.epsilon, getattr(cost, "delta", 0), q, neighbours)
        return as_cost(epsilon, delta) if delta < 1 else None
    if isinstance(cost, Gaussian) and neighbours == "add-remove":
        divergences = sampled_gaussian_rdp(ORDERS, lower(1 / cost.mu), upper(q))
        return Renyi(ORDERS, divergences)
    return None


def _read(mechanism, query, table):
    """Return the records as an array; try the query on none of them, which tells only its type."""
    records = np.asarray(table)
    if not records.ndim:
        raise ValueError("value must be a table, an array of records, got a single number")
    mechanism.read(query(records[:0]))
    return records


def _draw(mechanism, query, q, records, *, rng):
    kept = poisson_sample(len(records), q, rng=rng)
    return mechanism.draw(mechanism.read(query(records[kept])), rng=rng)
