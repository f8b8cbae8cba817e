"""Labels that nobody listed: counts with noise, published where they reach a threshold.

Letters: Z two-sided geometric noise of scale s = k/epsilon, a = exp(-1/s); tau the threshold, k the
most labels in which one unit counts.

Counts of the labels that occur, with noise, published where they are at least tau, are
(epsilon, delta)-private under add-remove with delta = 1 - (1 - p)^k, p = P(1 + Z >= tau) =
a^(tau - 1)/(1 + a). Let a unit have j labels of its own and k - j others, and let S be a set of
outputs. Unless one of its own labels is published (probability 1 - (1 - p)^j at most), the laws
without the unit (P) and with it (P') differ by the noise on the others, exp((k - j) epsilon/k), and
by the factor (1 - p)^j. So P'(S) <= delta + e^epsilon P(S); and P(S) is at most
min(1, e^((k - j) epsilon/k) P'(S)/(1 - p)^j), so that P(S) - e^epsilon P'(S) <= 1 - (1 - p)^j. With
j = k the first bound is attained.

Ranges: thresholds up to 2^50, scales as in `geometric`; epsilon 1e-6 to 1e3, delta 1e-300 to 1; up
to 2^20 labels a unit.
"""

import math
from functools import partial

import numpy as np

from dputils import checks, noise
from dputils.accounting.costs import Approximate
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import Sensitivity

_MOST = 1 << 50
_LABELS = 1 << 20


def attained(tau, epsilon, labels=1):
    """Return the delta of `mechanism` with the threshold tau: 1 - (1 - p)^k.

    Parameters
    ----------
    tau : int, at least 1
    epsilon : int, float or Fraction
    labels : int

    Returns
    -------
    float
    """
    k, s = _scale(epsilon, labels)
    above = checks.within("tau", checks.integer("tau", tau), 1, _MOST) - 1
    p = math.exp(-above / float(s)) / (1 + math.exp(-1 / float(s)))
    return -math.expm1(k * math.log1p(-p)) if p < 1 else 1.0


def cut(epsilon, delta, labels=1):
    """Return the smallest threshold tau for which `mechanism` is (epsilon, delta)-private.

    About 1 + (k/epsilon) ln(k/((1 + a) delta)), a whole number.

    Parameters
    ----------
    epsilon, delta : int, float or Fraction
    labels : int
        k, the most labels in which one unit counts.

    Returns
    -------
    int
    """
    k, s = _scale(epsilon, labels)
    most = float(checks.within("delta", checks.delta(delta), *checks.DELTAS))
    one = -math.expm1(math.log1p(-most) / k)
    closed = 1 - float(s) * math.log(one * (1 + math.exp(-1 / float(s))))
    tau = max(1, math.floor(closed) - 2 - int(1e-12 * float(s)))
    # `attained` is right to 1e-12 of itself: what passes here is at most delta
    while attained(tau, epsilon, k) * (1 + 1e-11) > most:
        tau += 1
    return tau


def mechanism(epsilon, delta, labels=1, *, unit="row"):
    """Return the mechanism that counts the labels that occur, adds geometric noise, and publishes
    the noisy counts that are at least `cut(epsilon, delta, labels)`.

    Privacy
        (epsilon, delta)-differentially private under add-remove. Nobody has to list the labels;
        which of them occur is private. Public: epsilon, delta, labels. How long a draw takes
        depends on the table.

    Parameters
    ----------
    epsilon, delta : int, float or Fraction
    labels : int
        k, the most labels in which one record counts.
    unit : str
        What has one record in the column.

    Returns
    -------
    Mechanism
        Exact. It reads a list, an array or a column of shape (n,), of whatever type: a text is a
        label; a list or tuple counts once in each of the first k different texts in it; what is
        anything else counts nowhere. It releases a dict, label -> noisy count, in the order of the
        labels, which says nothing of the table.

    Error
        A label with c units is published with probability
        `thresholds.kept(c, tau, labels/epsilon)`.

    Source
        Korolova, Kenthapadi, Mishra, Ntoulas 2009; Bun, Nissim, Stemmer 2016 (one label a unit).
    """
    k, s = _scale(epsilon, labels)
    tau = cut(epsilon, delta, k)
    return Mechanism(
        name=f"labels with a noisy count of at least {tau}, geometric noise, scale {float(s):.6g}",
        costs=(Approximate(epsilon, delta),),
        neighbours="add-remove",
        unit=unit,
        read=partial(_count, most=k),
        draw=partial(_draw, s=s, tau=tau),
        exact=True,
        sensitivity=Sensitivity(k, "l1", "add-remove", unit),
    )


def optimal(count, epsilon, delta):
    """Return the largest probabilities with which a label of 0, 1, ..., `count` units can be
    published, if each unit has one label.

    pi_0 = 0, pi_(n+1) = min(e^epsilon pi_n + delta, 1 - e^-epsilon (1 - pi_n - delta), 1).

    Parameters
    ----------
    count : int, up to 2^24
    epsilon, delta : int, float or Fraction

    Returns
    -------
    array of shape (count + 1,)

    Source
        Desfontaines, Voss, Gipson, Mandayam 2022.
    """
    n = checks.within("count", checks.integer("count", count, low=0), 0, 1 << 24)
    e = float(checks.within("epsilon", epsilon, *checks.EPSILONS))
    d = float(checks.within("delta", checks.delta(delta), *checks.DELTAS))
    factor, pi = math.exp(min(e, 700)), np.ones(n + 1)  # either factor makes 1 of any positive pi
    pi[0] = 0
    for i in range(n):
        pi[i + 1] = min(factor * pi[i] + d, 1 - math.exp(-e) * (1 - pi[i] - d), 1)
        if pi[i + 1] == 1:
            break
    return pi


def _scale(epsilon, labels):
    """Return the number of labels and the exact scale k/epsilon of the noise."""
    k = checks.within("labels", checks.integer("labels", labels, low=1), 1, _LABELS)
    checks.within("epsilon", epsilon, *checks.EPSILONS)
    s = k / checks.as_fraction("epsilon", epsilon)
    return k, checks.within("labels/epsilon", s, *checks.STEPS)


def _count(values, most):
    """Return how many records count in each label."""
    total = {}
    for record in _records(values):
        for label in _labels(record)[:most]:
            total[label] = total.get(label, 0) + 1
    return total


def _records(values):
    """Return private records as a list; refuse a public shape. What type a column has may depend on
    its records (all missing: numbers), so that it decides nothing.
    """
    if hasattr(values, "dtype") and hasattr(values, "shape"):
        if len(values.shape) != 1:
            raise ValueError(f"values must have shape (n,), got {tuple(values.shape)}")
        return values.tolist()
    if not isinstance(values, (list, tuple)):
        kind = type(values).__name__
        raise ValueError(f"values must be a list or a column of shape (n,), got type {kind}")
    return list(values)


def _labels(record):
    """Return the different texts of one record, in its order."""
    parts = record if type(record) in (list, tuple) else [record]
    texts = [str.__str__(part) for part in parts if issubclass(type(part), str)]
    return list(dict.fromkeys(texts))


def _draw(counts, s, tau, *, rng):
    names = sorted(counts)
    noisy = noise.discrete_laplace(s, len(names), rng=rng)
    found = zip(names, noisy.tolist(), strict=True)
    return {name: counts[name] + z for name, z in found if counts[name] + z >= tau}
