"""Counts of many values without a curator: each person perturbs their own value, five protocols.

Letters: d values 0, ..., d - 1; n persons, n_v of whom have the value v; a report *supports* a set
of values. p is the probability that the report of a person supports their own value, q that it
supports a given other one; C_v reports support v. Then

    (C_v - n q)/(p - q) is an unbiased estimate of n_v, with the variance
    (n_v p (1 - p) + (n - n_v) q (1 - q))/(p - q)^2 over the coins of n fixed persons,

because C_v is a sum of n independent numbers 0 or 1. The protocols differ in what is sent, and
in (p, q), and in nothing else:

1. Direct encoding sends a value, `randomized_response` with d categories; it supports itself.
2. Unary encoding sends d bits, of which the bit of one's own value is 1 with probability p, each
   other with probability q; a 1 supports its value. Two values differ in two bits, so the report
   is private for e^epsilon = p (1 - q)/(q (1 - p)). "Optimized": p = 1/2, q = 1/(e^epsilon + 1),
   which has the least variance for a value that nobody has. "Symmetric": q = 1 - p, each bit at
   epsilon/2.
3. Local hashing sends a hash that was drawn for this person alone, and one of g numbers:
   `randomized_response` of the hashed value with g categories; it supports all values that the
   hash sends there. A value is written in digits of base g, a prime; the hash adds up these digits
   times random coefficients, modulo g. Two values differ in a digit, so whatever the other
   coefficients are, their hashes are equal for exactly one of the g values of that digit's
   coefficient: q = 1/g with no rounding. Best is g = e^epsilon + 1; the better of the two primes
   around it costs at most 3.1 % of variance, up to epsilon 11.
4. Hadamard response is local hashing with g = 2: (-1)^hash is an entry of Hadamard's matrix. One
   bit is sent beside the row.

Ranges: epsilon 1e-5 to 500; d from 2 to 10^6; g at most 65521; fewer than 2^50 persons.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dputils import checks, noise, private, randomized_response
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism

_EPSILONS = (1e-5, 500)
_VALUES = 10**6
_GROUPS = 65521  # the largest prime below 2^16: products of two of them fit int64 many times
_LISTED = 1 << 17  # outcomes that `law` writes down
UNIT = "one person's own value"


@dataclass(frozen=True)
class Protocol:
    """How one person reports a value from a public list.

    Parameters
    ----------
    name : str
    d : int
        The length of the list.
    epsilon : float or Fraction
    p, q : float
        The probabilities that a report supports one's own and a given other value.
    gap : float
        p - q, computed without cancellation.
    width : int
        The numbers in one report.
    top : int
        The largest number that a report can hold.
    draw : function of the true values, shape (n,), and the keyword rng
        Returns the reports, shape (n, width).
    support : function of reports and a value
        Returns which of them support it, shape (n,).
    chances : function of a value
        Returns the law of its report, pairs of a tuple and its probability.
    """

    name: str
    d: int
    epsilon: object
    p: float
    q: float
    gap: float
    width: int
    top: int
    draw: Callable = field(compare=False, repr=False)
    support: Callable = field(compare=False, repr=False)
    chances: Callable = field(compare=False, repr=False)


# --------------------------------------------------------------------------------------- protocols


def direct(d, epsilon):
    """Direct encoding: a value is reported, one's own with probability e^epsilon times that of each
    other (see `randomized_response`).

    Error
        For a value that nobody has, n (d - 2 + e^epsilon)/(e^epsilon - 1)^2: below that of `unary`
        exactly if d < 3 e^epsilon + 2.

    Source
        Warner 1965 (d = 2); Kairouz, Bonawitz, Ramage 2016.
    """
    _public(d, epsilon)
    p, q = randomized_response.probabilities(epsilon, d)
    return Protocol(
        name="direct encoding",
        d=d,
        epsilon=epsilon,
        p=p,
        q=q,
        gap=-math.expm1(-epsilon) * p,
        width=1,
        top=d - 1,
        draw=partial(_draw_direct, d=d, epsilon=epsilon),
        support=lambda reports, value: reports[:, 0] == value,
        chances=lambda value: (((r,), p if r == value else q) for r in range(d)),
    )


def symmetric_unary(d, epsilon):
    """Symmetric unary encoding: one bit for each value, each reported truthfully with probability
    e^(epsilon/2)/(e^(epsilon/2) + 1).

    Error
        For each value n/(4 sinh^2(epsilon/4)), whoever has it.

    Source
        Erlingsson, Pihur, Korolova 2014 (a report that is sent once); Wang and others 2017.
    """
    _public(d, epsilon)
    half = checks.as_fraction("epsilon", epsilon) / 2
    p, q = randomized_response.probabilities(half)
    draw = partial(_draw_symmetric, d=d, half=half)
    return _unary("symmetric unary encoding", d, epsilon, (p, q), math.tanh(epsilon / 4), draw)


def unary(d, epsilon):
    """Optimized unary encoding: one bit for each value, 1 with probability 1/2 for one's own value
    and 1/(e^epsilon + 1) for each other.

    Error
        n/sinh^2(epsilon/2) + n_v.

    Source
        Wang, Blocki, Li, Jha 2017.
    """
    _public(d, epsilon)
    q = randomized_response.probabilities(epsilon)[1]
    draw = partial(_draw_unary, d=d, epsilon=epsilon)
    return _unary("unary encoding", d, epsilon, (0.5, q), math.tanh(epsilon / 2) / 2, draw)


def _unary(name, d, epsilon, chance, gap, draw):
    return Protocol(
        name=name,
        d=d,
        epsilon=epsilon,
        p=chance[0],
        q=chance[1],
        gap=gap,
        width=d,
        top=1,
        draw=draw,
        support=lambda reports, value: reports[:, value] == 1,
        chances=partial(_bits_law, d=d, chance=chance),
    )


def hashing(d, epsilon, g=None):
    """Local hashing: a hash drawn for this person, and the hashed value by `randomized_response`.

    A report holds the coefficients of the hash, then the number.

    Parameters
    ----------
    d : int
    epsilon : float or Fraction
    g : prime, at most 65521, optional
        The numbers to which values are hashed; by default the better prime around e^epsilon + 1.

    Error
        For a value that nobody has n (e^epsilon + g - 1)^2/((g - 1)(e^epsilon - 1)^2), which is
        that of `unary` for g = e^epsilon + 1.

    Source
        Wang, Blocki, Li, Jha 2017 (the best g); Bassily, Smith 2015 (g = 2); Carter, Wegman 1979
        (the hash).
    """
    _public(d, epsilon)
    g = best_groups(epsilon) if g is None else checks.integer("g", g, low=2)
    checks.within("g", g, 2, _GROUPS)
    if not _is_prime(g):
        raise ValueError(f"g must be a prime, got {g}")
    return _hashing(f"local hashing to {g}", d, epsilon, g)


def hadamard(d, epsilon):
    """Hadamard response: local hashing to one bit.

    Error
        n/sinh^2(epsilon/2) + n - n_v.

    Source
        Bassily, Smith 2015; Acharya, Sun, Zhang 2019 (who send row and bit as one number, and use
        larger blocks of the matrix at a large epsilon).
    """
    _public(d, epsilon)
    return _hashing("Hadamard response", d, epsilon, 2)


def _hashing(name, d, epsilon, g):
    p, _ = randomized_response.probabilities(epsilon, g)
    m = _digits(d, g)
    return Protocol(
        name=name,
        d=d,
        epsilon=epsilon,
        p=p,
        q=1 / g,
        gap=-math.expm1(-epsilon) * p * (g - 1) / g,
        width=m + 1,
        top=g - 1,
        draw=partial(_draw_hashed, epsilon=epsilon, g=g, m=m),
        support=lambda reports, value: hashed(reports[:, :-1], value, g) == reports[:, -1],
        chances=partial(_hash_law, epsilon=epsilon, g=g, m=m),
    )


def best_groups(epsilon):
    """Return the prime g of the least variance (e^epsilon + g - 1)^2/(g - 1): one of the two around
    e^epsilon + 1, at most 65521.
    """
    checks.within("epsilon", epsilon, *_EPSILONS)
    ratio = math.exp(min(float(epsilon), 20.0))
    below = min(int(ratio) + 1, _GROUPS)
    while not _is_prime(below):
        below -= 1
    above = min(below + 1, _GROUPS)
    while not _is_prime(above):
        above += 1
    return min((below, above), key=lambda g: (ratio + g - 1) ** 2 / (g - 1))


def hashed(coefficients, values, g):
    """Return the hashes of values: their digits in base g times the coefficients, modulo g.

    Parameters
    ----------
    coefficients : integer array of shape (n, m)
    values : int, or integer array of shape (n,)
        Below g^m.
    g : int

    Returns
    -------
    int64 array of shape (n,)
    """
    total, rest = np.zeros(len(coefficients), dtype=np.int64), values
    for column in coefficients.T:
        rest, digit = np.divmod(rest, g)
        total += column * digit
    return total % g


# ------------------------------------------------------------------------------ reports and counts


def mechanism(protocol):
    """Return a protocol as a mechanism, for a `Ledger`: a column of values becomes reports.

    Privacy
        Each report is epsilon-differentially private on its own: any two values of this person
        give it laws within e^epsilon of each other, hash included. So the list of all reports is
        epsilon-differentially private when one person's own value is replaced, since the other
        reports do not change. Nobody is trusted. Public: the list of values, who reports, epsilon.

    Parameters
    ----------
    protocol : Protocol

    Returns
    -------
    Mechanism
        Exact; it returns an int64 array of shape (n, width). Private values are read by
        `private.to_grid`: one above the list counts as d - 1, one below it or missing as 0,
        one between two values as the nearer (ties to even). No entry of a numeric or object
        column is refused.
    """
    return Mechanism(
        name=f"{protocol.name}, {protocol.d} values",
        costs=(Pure(protocol.epsilon),),
        neighbours="replace-one",
        unit=UNIT,
        read=partial(private.to_grid, lower=0, upper=protocol.d - 1),
        draw=protocol.draw,
        exact=True,
    )


def law(protocol, value):
    """Return the law of the report of a person of this value.

    Returns
    -------
    dict from a report, a tuple, to its probability

    Raises
    ------
    ValueError
        If there are more than 2^17 reports, or the value is not on the list.
    """
    checks.within("value", checks.integer("value", value, low=0), 0, protocol.d - 1)
    outcomes = (protocol.top + 1) ** protocol.width
    if outcomes > _LISTED:
        raise ValueError(f"protocol must have at most {_LISTED} reports, got {outcomes}")
    return dict(protocol.chances(value))


def supports(protocol, reports):
    """Return C_v for each value: how many reports support it. Takes n d steps.

    Returns
    -------
    int64 array of shape (d,)
    """
    reports = np.asarray(reports)
    if reports.ndim != 2 or reports.shape[1] != protocol.width:
        raise ValueError(f"reports must have shape (n, {protocol.width}), got {reports.shape}")
    if reports.dtype.kind not in private.INTEGERS:
        raise ValueError(f"reports must hold integers, got {reports.dtype}")
    if reports.size and not 0 <= reports.min() <= reports.max() <= protocol.top:
        raise ValueError(f"reports must hold numbers from 0 to {protocol.top}")
    return np.array([np.count_nonzero(protocol.support(reports, v)) for v in range(protocol.d)])


def estimate(protocol, reports):
    """Return unbiased estimates of n_v for each value, and their standard errors.

    Both are made from the reports alone, so they are post-processing.

    Returns
    -------
    two float arrays of shape (d,)
        The estimates may be negative. The errors are roots of `variance` at them, cut off at 0 and
        n.
    """
    counts = (supports(protocol, reports) - len(reports) * protocol.q) / protocol.gap
    n = len(reports)
    return counts, np.sqrt(variance(protocol, np.clip(counts, 0, n), n))


def variance(protocol, count, n):
    """Variance, over the coins, of the estimate of `count` among n fixed persons.

    Returns
    -------
    float or array of the shape of `count`
        (count p (1 - p) + (n - count) q (1 - q))/(p - q)^2.

    Raises
    ------
    ValueError
        If a count is not between 0 and n.
    """
    checks.within("n", checks.integer("n", n, low=0), 0, 1 << 50)
    p, q, count = protocol.p, protocol.q, np.asarray(count, dtype=float)
    if not ((0 <= count) & (count <= n)).all():  # also refuses NaN
        raise ValueError(f"count must be between 0 and {n}, got {count.tolist()}")
    return (count * p * (1 - p) + (n - count) * q * (1 - q)) / protocol.gap**2


# ------------------------------------------------------------------------------------------- steps


def _draw_direct(truth, d, epsilon, *, rng):
    return randomized_response.release(truth, d, epsilon, rng=rng)[:, None]


def _draw_symmetric(truth, d, half, *, rng):
    own = np.arange(d) == truth[:, None]
    told = randomized_response.release(own.ravel().astype(np.int64), 2, half, rng=rng)
    return told.reshape(own.shape)


def _draw_unary(truth, d, epsilon, *, rng):
    others = np.zeros(truth.size * d, dtype=np.int64)
    bits = randomized_response.release(others, 2, epsilon, rng=rng).reshape(-1, d)
    bits[np.arange(truth.size), truth] = noise.integers(2, truth.size, rng=rng)
    return bits


def _draw_hashed(truth, epsilon, g, m, *, rng):
    coefficients = noise.integers(g, (truth.size, m), rng=rng)
    place = hashed(coefficients, truth, g)
    told = randomized_response.release(place, g, epsilon, rng=rng)
    return np.column_stack([coefficients, told])


def _bits_law(value, d, chance):
    one = [chance[0] if v == value else chance[1] for v in range(d)]
    for bits in itertools.product((0, 1), repeat=d):
        yield bits, math.prod(c if bit else 1 - c for bit, c in zip(bits, one, strict=True))


def _hash_law(value, epsilon, g, m):
    told, other = randomized_response.probabilities(epsilon, g)
    for coefficients in itertools.product(range(g), repeat=m):
        place = hashed(np.array([coefficients]), value, g)[0]
        for number in range(g):
            chance = told if number == place else other
            yield (*coefficients, number), chance / g**m


def _digits(d, g):
    """The digits in base g that d values need."""
    m = 1
    while g**m < d:
        m += 1
    return m


def _is_prime(g):
    return g >= 2 and all(g % i for i in range(2, math.isqrt(g) + 1))


def _public(d, epsilon):
    checks.within("epsilon", epsilon, *_EPSILONS)
    checks.within("d", checks.integer("d", d, low=2), 2, _VALUES)
