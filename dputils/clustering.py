"""Segments of persons: k-means on bounded profiles, with noise in the sums of each round.

Letters: n persons, d parts of a profile, k segments, R rounds, epsilon the budget of all rounds, s
= R/epsilon the scale of the noise, in persons.

Ranges: d and k 1 to 64, R 1 to 100, epsilon 1e-6 to 1e3; a table has fewer than 2^32 rows.

1. Profile. A person with m rows, c_j of them in part j, has the profile c/m, in whole steps of
   1/STEPS: part j goes from floor(STEPS (c_1 + ... + c_(j-1))/m) to floor(STEPS (c_1 + ... +
   c_j)/m). So each profile is d whole numbers that are not negative and add up to STEPS, exactly,
   and only the rows of this person decide it.
2. One round. Given centres, each person belongs to the nearest one, by whole numbers and with the
   first of equals, so that only the person's own profile decides. The k d sums of the profiles by
   segment move by STEPS in l1 when a person joins or leaves: d of them by the profile, no other.
   Noise of scale STEPS R/epsilon makes them epsilon/R-private. The number of persons in a segment
   is not released beside them: it is the total of its d sums, over STEPS.
3. All rounds. The start and the number of rounds are public, the centres of a round come from the
   noisy sums of the one before. Basic composition: epsilon. Everything that is drawn is released;
   the centres are computed from it (`path`).
4. A centre follows its segment if the noisy total is at least 2 sqrt(2 d) s persons, twice the
   standard deviation of its noise or a bit more, and stays where it is otherwise. This is a public
   rule on released numbers, and keeps a centre that nobody is near from following noise alone.
5. Error. A centre S/N of a segment of N persons becomes (S + z)/(N + sum of z); to first order it
   is off by e = (z - (S/N) sum of z)/N, and with c = S/N, |c|_1 = 1, and v = 2 s^2 the variance of
   one noise, E|e|^2 = v (d - 2 + d |c|^2)/N^2. The mean squared distance of all n persons from
   their centres rises by the sum of N E|e|^2/n.
"""

import math
from functools import partial

import numpy as np

from dputils import checks, contributions, geometric
from dputils.accounting.costs import Pure
from dputils.accounting.ledger import Ledger
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import Sensitivity

STEPS = 1000  # of a share
_MOST = 64  # parts, segments
_ROUNDS = 100


def of_person(*, unit="person"):
    """Return how far one person moves the sums of a round, under add-remove: point 2.

    Returns
    -------
    Sensitivity
        STEPS, in l1.
    """
    return Sensitivity(STEPS, "l1", "add-remove", unit)


def profiles(owners, parts, d):
    """Return the profile of each person: which share of their rows is in which part.

    Privacy
        None: these are exact values of private data.

    Parameters
    ----------
    owners : list, array or column of shape (rows,)
        Private, as for `contributions.rows`: rows of nobody are left out.
    parts : list, array or column of shape (rows,)
        Private: the part of each row, 0 to d - 1; read as the places of `contributions.bounded`.
    d : int

    Returns
    -------
    int64 array of shape (n, d)
        In steps; each row adds up to STEPS. Persons stand in the order in which they appear.
    """
    return _read((owners, parts), _small("d", d))


def nearest(x, centres):
    """Return the number of the centre next to each profile; of equally near ones the first.

    Parameters
    ----------
    x : int array of shape (n, d)
        Private: profiles.
    centres : int array of shape (k, d)
        Public.

    Returns
    -------
    int64 array of shape (n,)
        Exact, and each person's own profile alone decides.
    """
    return np.argmin(_squares(_whole("x", x), _centres("centres", centres)), axis=1)


def segments(owners, parts, centres):
    """Return the segment of the person of each row: the number of the centre next to them.

    Privacy
        None: these are exact values of private data. A person's own rows alone decide it.

    Parameters
    ----------
    owners, parts : list, array or column of shape (rows,)
        Private, as for `profiles`.
    centres : int array of shape (k, d)
        Public.

    Returns
    -------
    int64 array of shape (rows,)
        -1 for a row of nobody.
    """
    at = _centres("centres", centres)
    own = nearest(_read((owners, parts), at.shape[1]), at)
    return np.append(own, -1)[contributions.persons(owners)]


def cost(x, centres):
    """Return the mean squared distance of profiles from their nearest centres; 0 without any.

    Privacy
        None: this is an exact value of private data. In squared shares.
    """
    squares = _squares(_whole("x", x), _centres("centres", centres)).min(axis=1)
    return float(squares.sum()) / max(len(squares), 1) / STEPS**2


def sums(x, centres):
    """Return the sums of the profiles of each segment: int64 array of shape (k, d), in steps.

    Privacy
        None by itself: noise is added to these. A person moves them by `of_person`.
    """
    x, centres = _whole("x", x), _centres("centres", centres)
    total = np.zeros(centres.shape, dtype=np.int64)
    np.add.at(total, nearest(x, centres), x)
    return total


def mechanism(start, rounds, epsilon, *, unit="person"):
    """Return private k-means, for a `Ledger`: the noisy sums of all rounds.

    Privacy
        epsilon-differentially private, exactly, for a `unit` with any number of rows, under
        add-remove: points 1 to 3. Rows of nobody are left out. Public: the start, the number of
        rounds, epsilon, the dtypes of the columns.

    Parameters
    ----------
    start : int array of shape (k, d)
        Public centres, in steps: not negative, each adds up to STEPS. They must not come from the
        table.
    rounds : int
        R.
    epsilon : int, float or Fraction
        Of all rounds together; each has an equal part.
    unit : str
        Whom an owner names.

    Returns
    -------
    Mechanism
        Exact. It reads a pair (owners, parts) of columns and releases an int64 array of shape
        (R, k, d), in steps; `path` makes centres of it. Its law is that of each number minus the
        exact sum, given the rounds before.

    Error
        Point 5: to first order the cost rises by the sum of 2 (R/epsilon)^2 (d - 2 + d |c|^2)/(n
        N) over the segments, of N persons and with the centre c.

    Source
        Blum, Dwork, McSherry, Nissim 2005; Su, Cao, Li, Bertino, Jin 2016 (the rounds).
    """
    start, R = _centres("start", start), _rounds(rounds)
    share = _share(R, epsilon)
    inner = geometric.mechanism(of_person(unit=unit), share)
    k, d = start.shape
    return Mechanism(
        name=f"k-means, {k} segments, {d} parts, {R} rounds, each by the {inner.name}",
        costs=(Pure(epsilon),),
        neighbours=inner.neighbours,
        unit=inner.unit,
        read=partial(_read, d=d),
        draw=partial(_draw, start=start, rounds=R, epsilon=epsilon, inner=inner),
        exact=True,
        sensitivity=inner.sensitivity,
        law=inner.law,
        discrete=True,
    )


def path(start, released, epsilon):
    """Return the centres before the first round and after each, from what `mechanism` released.

    Privacy
        Costs nothing: it reads what was released.

    Parameters
    ----------
    start : int array of shape (k, d)
    released : int array of shape (R, k, d)
    epsilon : int, float or Fraction
        As for `mechanism`.

    Returns
    -------
    int64 array of shape (R + 1, k, d)
        In steps; each centre adds up to STEPS.
    """
    centres, noisy = [_centres("start", start)], np.asarray(released)
    if noisy.ndim != 3 or noisy.shape[1:] != centres[0].shape or noisy.dtype.kind not in "iu":
        raise ValueError(f"released must be integers of shape (R, k, d), got shape {noisy.shape}")
    least = _least(centres[0].shape[1], _rounds(len(noisy)), epsilon)
    for of_round in noisy:
        centres.append(_followed(centres[-1], of_round, least))
    return np.array(centres)


def _draw(x, start, rounds, epsilon, inner, *, rng):
    plan = [(f"round {r}", inner) for r in range(rounds)]
    ledger = Ledger(epsilon, neighbours=inner.neighbours, unit=inner.unit, plan=plan)
    centres, least, released = start, _least(start.shape[1], rounds, epsilon), []
    for label, _ in plan:
        noisy = ledger.release(label, inner, sums(x, centres), rng=rng)
        centres = _followed(centres, noisy, least)
        released.append(noisy)
    return np.array(released)


def _followed(centres, noisy, least):
    """Return the centres after a round: point 4."""
    follows = noisy.sum(axis=1) >= least
    positive = np.maximum(noisy, 0)
    positive[~follows] = centres[~follows]
    return _in_steps(positive)


def _least(d, rounds, epsilon):
    """Return how large, in steps, the noisy total of a segment must be: point 4."""
    return math.ceil(2 * math.sqrt(2 * d) * STEPS / float(_share(rounds, epsilon)))


def _in_steps(weights):
    """Return rows of whole weights, not negative and not all 0, as shares in steps: point 1."""
    upto = np.cumsum(weights, axis=1)
    return np.diff(upto * STEPS // upto[:, -1:], axis=1, prepend=0)


def _squares(x, centres):
    """Return the squared distances, whole numbers, of shape (n, k)."""
    if x.shape[1] != centres.shape[1]:
        raise ValueError(f"x must have {centres.shape[1]} parts, got shape {x.shape}")
    columns = [((x - centre) ** 2).sum(axis=1) for centre in centres]
    return np.stack(columns, axis=1)


# ------------------------------------------------------------------------------------------ reading


def _read(table, d):
    """Return the profiles of a pair (owners, parts) of columns."""
    owners, parts = contributions.mechanism(d, 1, "weigh", 1).read(table)
    n = int(owners[-1]) + 1 if owners.size else 0
    counts = np.bincount(owners * d + parts, minlength=n * d).reshape(n, d)
    return _in_steps(counts.astype(np.int64))


def _small(name, value):
    return checks.within(name, checks.integer(name, value, low=1), 1, _MOST)


def _rounds(rounds):
    return checks.within("rounds", checks.integer("rounds", rounds, low=1), 1, _ROUNDS)


def _share(rounds, epsilon):
    return (
        checks.as_fraction("epsilon", checks.within("epsilon", epsilon, *checks.EPSILONS)) / rounds
    )


def _whole(name, value):
    array = np.asarray(value)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        kind = f"type {array.dtype} and shape {array.shape}"
        raise ValueError(f"{name} must be whole numbers with two axes, got {kind}")
    return array.astype(np.int64)


def _centres(name, value):
    """Return public centres: whole numbers, not negative, each adding up to STEPS."""
    array = _whole(name, value)
    for size in array.shape:
        if not 1 <= size <= _MOST:
            raise ValueError(f"{name} must have 1 to {_MOST} rows and parts, got {array.shape}")
    if (array < 0).any() or (array.sum(axis=1) != STEPS).any():
        raise ValueError(f"{name} must hold shares of {STEPS} steps, got {array.tolist()}")
    return array
