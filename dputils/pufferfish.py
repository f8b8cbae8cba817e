"""Pufferfish privacy for one count over dependent days: two-state Markov chains, the distance that
a secret moves the law of the count, and noise calibrated to it.

Letters: n the number of days, X_t the state of day t, 0 or 1; F = X_1 + ... + X_n the count; W the
distance of two laws of F; epsilon the budget.

Ranges: n from 2 to 120; probabilities between 0 and 1 exclusive, multiples of 1/10,000 (the law of
F is computed in whole numbers); at most 64 chains; epsilon 1e-6 to 1e3.

1. The promise. A class of chains is public. For each chain of the class, each day t and each
   output o: P(o | X_t = 0) and P(o | X_t = 1) differ by a factor of at most e^epsilon. The
   probabilities are over the chain and over the noise. Nothing is promised about a chain that is
   not in the class, and in general nothing about a mixture of two chains of the class: the state
   of a day can tell which chain it was. (If all chains give each day the same odds, it tells
   nothing, and mixtures are covered.) The states are those that are read: days as they come, with
   missing ones as 0, must be such a chain.
2. W of two laws is the smallest w for which two numbers with these laws can be drawn together so
   that they are never more than w apart. On the line the best way is to draw them at the same
   level u: W <= w exactly if F(k) <= G(k + w) and G(k) <= F(k + w) for all k, F and G being the
   distribution functions. Noise of scale W/epsilon keeps the promise, W being the largest over
   all days and chains of the class.
3. The account. If A and B are two such releases of the *same* count, with epsilon and epsilon',
   the same two numbers are behind both, and together they keep the promise with their sum. Two
   releases of different answers need not: each alone may say nothing of a day, and both together
   all. So the unit of a release names the number of days and the class of chains, and a basic
   ledger of this unit adds what it should. This is a guard against mistakes and no more: who
   writes this unit on a sensitivity asserts that the release depends on the days through the
   count alone, and who gives a column to `mechanism` asserts that it is the same diary each time,
   unchanged. Two ledgers for two classes do not see each other: a chain of both classes pays both.
4. No group and no sample of days is accounted for by the rules of differential privacy.
"""

import hashlib
import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from dputils import checks, geometric, private
from dputils.sensitivity import Sensitivity

_DAYS, _CHAINS, _GRID = 120, 64, 10_000


@dataclass(frozen=True)
class Chain:
    """A two-state Markov chain of days.

    Parameters
    ----------
    days : int
        n, at least 2 and at most 120.
    rise, fall : float or Fraction
        The probabilities of going from 0 to 1, and from 1 to 0, from one day to the next; strictly
        between 0 and 1, multiples of 1/10,000. Floats are read as decimals.
    start : float or Fraction, optional
        The probability that day 1 is in state 1, strictly between 0 and 1; without it that of
        the long run, rise/(rise + fall).
    """

    days: int
    rise: Fraction
    fall: Fraction
    start: Fraction | None = None

    def __post_init__(self):
        """Check the fields, and keep them exactly."""
        if checks.integer("days", self.days, low=2) > _DAYS:
            raise ValueError(f"days must be at most {_DAYS}, got {self.days}")
        object.__setattr__(self, "days", int(self.days))
        for name in ("rise", "fall"):
            object.__setattr__(self, name, _on_grid(name, getattr(self, name)))
        long_run = self.rise / (self.rise + self.fall)
        start = long_run if self.start is None else _on_grid("start", self.start)
        object.__setattr__(self, "start", start)


def symmetric(days, stay):
    """Return the chain that stays in its state with one probability, and starts in either alike.

    Its states correlate by 2 stay - 1 from one day to the next; a spell of equal days lasts
    1/(1 - stay) days on average.

    Parameters
    ----------
    days : int
    stay : float or Fraction
    """
    change = 1 - _on_grid("stay", stay)
    return Chain(days, change, change)


def counts(chain, day, state):
    """Return the law of the count, given the state of one day.

    Parameters
    ----------
    chain : Chain
    day : int
        From 1 to n.
    state : {0, 1}

    Returns
    -------
    list of n + 1 Fractions
        The probabilities of the counts 0, ..., n; they sum to 1 exactly.

    Source
        Forward and backward recursion over the days, with one polynomial for each state.
    """
    day = _day(chain, day)
    if checks.integer("state", state, low=0) > 1:
        raise ValueError(f"state must be 0 or 1, got {state}")
    weights = _weights(chain)[day - 1][int(state)]
    total = sum(weights)
    return [Fraction(weight, total) for weight in weights]


def w_infinity(p, q):
    """Return W, the infinity-Wasserstein distance, of two laws on 0, ..., m (point 2).

    Parameters
    ----------
    p, q : sequences of m + 1 whole numbers or fractions, at least 0
        Probabilities, or weights in proportion to them. Floats are refused: W jumps, and a
        rounded sum can fall on the wrong side.

    Returns
    -------
    int

    Source
        Point 2 of the module. The coupling at equal levels is the best one on the line for each
        cost that is convex in the distance, too (Villani, Topics in optimal transportation, 2003).
    """
    F, G = (list(itertools.accumulate(_weighed(name, law))) for name, law in zip("pq", (p, q)))
    if len(F) != len(G):
        raise ValueError(f"q must have as many entries as p, {len(F)}, got {len(G)}")
    scaled = [f * G[-1] for f in F], [g * F[-1] for g in G]
    return max(_reach(*scaled), _reach(*scaled[::-1]))


def worst_day(chain):
    """Return `(W, day)`: the day whose state moves the law of the count furthest.

    Parameters
    ----------
    chain : Chain

    Returns
    -------
    tuple of two ints
        The first such day, from 1 to n.
    """
    return _worst_day(_chain(chain))


def of_count(chains):
    """Return how far the state of one day moves the law of the count, as the sensitivity of the
    count in the sense of Pufferfish.

    Parameters
    ----------
    chains : sequence of Chain
        The class, public: at least one and at most 64 chains of the same number of days. No
        promise holds outside it, also not for mixtures of its chains (point 1).

    Returns
    -------
    Sensitivity
        The largest W, in the norm "absolute", with the relation "replace-one" (the number of days
        is public), in a unit that names the count and the class (point 3).

    Source
        Song, Wang, Chaudhuri 2017.
    """
    chains = _of_one_length(chains)
    size = max(worst_day(chain)[0] for chain in chains)
    return Sensitivity(size, "absolute", "replace-one", _unit(chains))


def mechanism(chains, epsilon):
    """Return the Wasserstein mechanism for the count of days in state 1, for a `Ledger`.

    Privacy
        epsilon-Pufferfish private for the state of each single day, over the class of chains
        (point 1), exactly, if the days as they are read are such a chain. The other days are drawn
        and not fixed: with the other days fixed it is epsilon/W-differentially private, and
        nothing better, which says little of dependent days. Its cost is `Pure(epsilon)` in the
        unit of this count and class, and adds up with other releases of this count alone
        (point 3). Public: the class of chains, the number of days, epsilon.

    Parameters
    ----------
    chains : sequence of Chain
        As in `of_count`.
    epsilon : int, float or Fraction

    Returns
    -------
    Mechanism
        It reads a column of n states (others are clamped and rounded to 0 and 1, missing ones
        count as 0) as its sum. Its law is that of the release minus this sum.

    Raises
    ------
    ValueError
        If a public argument is out of range, or the column has another length.

    Error
        Geometric noise of scale W/epsilon.

    Source
        Song, Wang, Chaudhuri 2017 (their Wasserstein mechanism), with geometric noise: W is whole.
    """
    chains = _of_one_length(chains)
    moved = of_count(chains)
    inner = geometric.mechanism(moved, checks.within("epsilon", epsilon, *checks.EPSILONS))
    name = f"Wasserstein mechanism (Pufferfish privacy) on a count of days, {inner.name}"
    return replace(inner, name=name, read=partial(_count, days=chains[0].days))


def _count(states, days):
    steps = private.to_grid(states, 0, 1)
    if len(steps) != days:
        raise ValueError(f"value must be the states of {days} days, got {len(steps)}")
    return np.asarray(steps.sum(dtype=np.int64))


def _unit(chains):
    days, words = chains[0].days, repr(sorted({repr(chain) for chain in chains}))
    digits = hashlib.sha256(words.encode()).hexdigest()[:12]
    return f"state of one day, the others drawn by a chain of class {digits} (count of {days} days)"


@lru_cache(maxsize=512)
def _worst_day(chain):
    found = [w_infinity(*laws) for laws in _weights(chain)]
    return max(found), found.index(max(found)) + 1


@lru_cache(maxsize=4)
def _weights(chain):
    """For each day and state the weights of the counts 0, ..., n: whole numbers in proportion to
    the probabilities.
    """
    before, after = _before(chain), _after(chain)
    return [
        tuple(tuple(np.convolve(before[t][s], after[t][s]).tolist()) for s in (0, 1))
        for t in range(chain.days)
    ]


def _steps(chain):
    """The probabilities of going from state to state, as whole numbers with one denominator."""
    whole = math.lcm(chain.rise.denominator, chain.fall.denominator)
    rise, fall = (int(step * whole) for step in (chain.rise, chain.fall))
    return (whole - rise, rise), (fall, whole - fall)


def _before(chain):
    """For each day t and state s the weights of (X_t = s and X_1 + ... + X_t = k), k = 0, ..., t.

    Whole numbers; the two states of one day have one common factor.
    """
    step = _steps(chain)
    numerator, whole = chain.start.numerator, chain.start.denominator
    weights = [(_whole([whole - numerator, 0]), _whole([0, numerator]))]
    for _ in range(chain.days - 1):
        zero, one = weights[-1]
        into = [zero * step[0][s] + one * step[1][s] for s in (0, 1)]
        weights.append((np.append(into[0], 0), np.append(_whole([0]), into[1])))
    return weights


def _after(chain):
    """For each day t and state s the weights of (X_(t+1) + ... + X_n = k given X_t = s)."""
    step = _steps(chain)
    weights = [(_whole([1]), _whole([1]))]
    for _ in range(chain.days - 1):
        zero, one = np.append(weights[-1][0], 0), np.append(_whole([0]), weights[-1][1])
        weights.append(tuple(zero * step[s][0] + one * step[s][1] for s in (0, 1)))
    return weights[::-1]


def _whole(values):
    return np.array(values, dtype=object)


def _reach(F, G):
    """The largest j - k with j the first place at which G is not below F(k)."""
    j, furthest = 0, 0
    for k, level in enumerate(F):
        while G[j] < level:
            j += 1
        furthest = max(furthest, j - k)
    return furthest


def _weighed(name, law):
    law = list(law)
    for weight in law:
        if isinstance(weight, bool) or not isinstance(weight, (int, Fraction)) or weight < 0:
            raise ValueError(
                f"{name} must hold whole numbers or fractions of at least 0, got {weight!r}"
            )
    if not sum(law):
        raise ValueError(f"{name} must have a positive sum, got {law!r}")
    return law


def _on_grid(name, value):
    exact = checks.as_fraction(name, checks.probability(name, value))
    if (exact * _GRID).denominator != 1:
        raise ValueError(f"{name} must be a multiple of 1/{_GRID:,}, got {value!r}")
    return exact


def _chain(chain):
    if not isinstance(chain, Chain):
        raise ValueError(f"chain must be a Chain, got {chain!r}")
    return chain


def _day(chain, day):
    days = _chain(chain).days
    if checks.integer("day", day, low=1) > days:
        raise ValueError(f"day must be at most {days}, got {day}")
    return int(day)


def _of_one_length(chains):
    chains = tuple(chains) if isinstance(chains, (list, tuple)) else ()
    if not 1 <= len(chains) <= _CHAINS or not all(isinstance(c, Chain) for c in chains):
        raise ValueError(f"chains must be a list of 1 to {_CHAINS} chains, got {chains!r}")
    if len({chain.days for chain in chains}) > 1:
        lengths = sorted({chain.days for chain in chains})
        raise ValueError(f"chains must have one number of days, got {lengths}")
    return chains
