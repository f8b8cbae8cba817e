"""Comparisons of a release's noise with the law it claims, each with a proven bound on its p-value.

`audit.law_test` puts them together. Each function here takes numbers that are independent and of
a known law if the release is correct, and returns a list of `Finding`s. U, shape (n, k), stands
for the samples mapped through the claimed distribution function (ties of a discrete law broken at
random): independent and uniform on [0, 1] for a correct release.

What makes several comparisons of the same numbers valid is one fact: for independent uniform U_1,
U_2, ..., the numbers (U_1, U_2 + c U_1, U_3 + c' U_2, ...) mod 1 with any whole c, c' are
independent and uniform as well, because the map keeps volumes. So differences and sums at any lag
need no table of their own.
"""

import math
from numbers import Rational
from typing import NamedTuple

import numpy as np

ALPHA = 1e-6  # probability of a false alarm of one test, unless said otherwise
MASS_TOLERANCE = 1e-9  # how far floating-point probabilities may be from a sum of 1
KINDS = 6  # beside the distances: triples, lags, tails, residues or outcomes, zeros, repeats
MODULI = (2, 3, 4, 5, 7, 8, 10, 16)
TRIPLES_UP_TO = 8  # coordinates; above, only triples of neighbouring coordinates are compared
GRANULARITY = 1e-15  # probability that any floating-point sampler may give to one number
TAIL_PRECISION = 1e-12  # absolute error that a distribution function may have in its tails
EXPECTED_REPEATS = (1e-3, 1.0, 0.01)  # of all draws; the last one is a share of the number of draws


def checked_masses(name, values):
    """Refuse numbers that are no probabilities or do not sum to 1 (exactly, for fractions)."""
    for value in values:
        if not 0 <= value <= 1 + MASS_TOLERANCE:  # also refuses NaN
            raise ValueError(f"{name} must hold probabilities, got {value!r}")
    exact = all(isinstance(value, Rational) for value in values)
    excess = sum(values) - 1 if exact else math.fsum(values) - 1
    if abs(excess) > (0 if exact else MASS_TOLERANCE):
        raise ValueError(f"{name} must sum to 1, its probabilities sum to 1 {float(excess):+.3g}")


def finite_law(name, law):
    """The outcomes and their probabilities of a dict, or of a sequence for 0, ..., m - 1."""
    names = list(law) if isinstance(law, dict) else list(range(len(law)))
    values = list(law.values()) if isinstance(law, dict) else list(law)
    checked_masses(name, values)
    return names, np.clip(np.array([float(value) for value in values]), 0, 1)


class Finding(NamedTuple):
    """One comparison: a bound on the logarithm of its p-value, what was measured, and where."""

    log_p: float
    distance: float
    where: str


# ------------------------------------------------------------------ one law, two coordinates, three


def distances(u):
    """Compare each coordinate, and sums and differences of pairs, with the uniform law.

    A pair is two coordinates of one release, or one coordinate and one of the release before.
    Noise that is used twice makes the difference constant, mirrored noise the sum. These are 3 k^2
    findings.

    Parameters
    ----------
    u : array of shape (n, k)

    Returns
    -------
    list of Finding, P(D > t) <= 2 exp(-2 n t^2) for the largest gap D of two distribution functions

    Source
        Massart 1990: the tight constant of the Dvoretzky-Kiefer-Wolfowitz inequality.
    """
    return [_kolmogorov(values, name) for name, values in pairs(u)]


def pairs(u):
    """Yield the name and the numbers of each of the 3 k^2 comparisons of `distances`."""
    for j, after in enumerate(u.T):
        yield f"coordinate {j + 1}", after
        for i, other in enumerate(u.T):
            together = [("the release before", after[1:], other[:-1])]
            together += [("the same release", after, other)] * (i < j)
            for which, a, b in together:
                name = f"coordinate {j + 1} and coordinate {i + 1} of {which}"
                yield f"{name}, difference", (a - b) % 1
                yield f"{name}, sum", (a + b) % 1


def triples(u):
    """Compare U_i +- U_j +- U_m mod 1 of one release with the uniform law.

    Four findings for each triple. All triples are compared up to 8 coordinates, and triples of
    neighbours (j, j + 1, j + 2) above, where all would be too many.
    """
    found = []
    for i, j, m in _threes(u.shape[1]):
        for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            name = f"coordinates {i + 1}, {j + 1} and {m + 1} with signs +, {a:+d}, {b:+d}"
            found.append(_kolmogorov((u[:, i] + a * u[:, j] + b * u[:, m]) % 1, name))
    return found


def _threes(k):
    if k > TRIPLES_UP_TO:
        return [(j, j + 1, j + 2) for j in range(k - 2)]
    return [(i, j, m) for m in range(k) for j in range(m) for i in range(j)]


def _kolmogorov(u, where):
    distance = distance_from_uniform(u)
    return Finding(math.log(2) - 2 * len(u) * distance**2, distance, where)


def distance_from_uniform(u):
    """The Kolmogorov distance of the numbers u, shape (n,), from the uniform law."""
    u, n = np.sort(u), len(u)
    if n == 0:
        return 0.0
    above = (np.arange(1, n + 1) / n - u).max()
    return float(max(above, (u - np.arange(n) / n).max()))


# -------------------------------------------------------------------------------------------- tails


def tails(u):
    """Compare the most extreme of n draws with the law, six findings for each coordinate.

    The smallest of n independent uniform numbers is above t with probability (1 - t)^n, exactly.
    This is asked of U (the lower tail), 1 - U (the upper) and 2 min(U, 1 - U) (both), in both
    directions: noise that is cut never comes near its tail, and a draw that is too far out comes
    from somewhere else. A distance below 1e-12 from the end counts as 1e-12: distribution
    functions are not more precise than that. A t above 0.999 counts as 0.999, so that a single
    draw that rounds to the median is no alarm.
    """
    found = []
    for j, column in enumerate(u.T):
        nearest = {"lower tail": column.min(), "upper tail": (1 - column).min()}
        nearest["tails"] = 2 * min(nearest.values())
        for name, t in nearest.items():
            t = float(np.clip(t, TAIL_PRECISION, 0.999))
            short = len(column) * _log(1 - t)
            found.append(Finding(short, t, f"the {name} of coordinate {j + 1}, never reached"))
            far = _log(-math.expm1(short))
            found.append(Finding(far, t, f"the {name} of coordinate {j + 1}, too far out"))
    return found


def _log(x):
    return math.log(x) if x > 0 else -math.inf


# ---------------------------------------------------------------------------------------- long lags


def lags(u):
    """Compare every pair of coordinates at every distance in time: 2 k^2 findings.

    With S = the sum of exp(2 pi i (U_(t + L) - U_t)) over the N = n - L places, a correct release
    has |S| of the size sqrt(N); noise reused after L releases adds N. All n - 1 lags L come from
    one Fourier transform and make one finding. So do the sums U_(t + L) + U_t, for mirrored noise.

    For N independent directions E I_0(x |S|) = I_0(x)^N <= exp(N x^2/4), so by Markov's inequality
    at x = 2 s/N P(|S| >= s) <= exp(v)/I_0(2 v), v = s^2/N: about exp(-v) sqrt(4 pi v). This times
    n - 1 is the bound for all lags.
    """
    n = len(u)
    if n < 2:
        return []
    length = 1 << (2 * n - 1).bit_length()
    turns = np.exp(2j * np.pi * u)
    forward = np.fft.fft(turns, length, axis=0)
    mirrored = np.fft.fft(turns.conj(), length, axis=0)
    found = []
    for j in range(u.shape[1]):
        for i in range(u.shape[1]):
            for sign, other in (("difference", forward), ("sum", mirrored)):
                sums = np.abs(np.fft.ifft(forward[:, j] * other[:, i].conj())[1:n])
                found.append(_longest(sums, f"coordinate {j + 1} and coordinate {i + 1}", sign))
    return found


def _longest(sums, coordinates, sign):
    from scipy.special import i0e

    places = np.arange(len(sums), 0, -1)
    v = sums**2 / places
    lag = int(np.argmax(v))
    log_p = math.log(len(sums)) - v[lag] - math.log(i0e(2 * v[lag]))
    where = f"{coordinates} at a lag of {lag + 1:,}, {sign}"
    return Finding(float(log_p), float(sums[lag] / places[lag]), where)


# --------------------------------------------------------------------- values that come back, atoms


def resolution(x):
    """How far rounding may have moved each of the numbers x, shape (n, k), of a release.

    A release adds noise to a value v and rounds; minus v, all samples of a coordinate are
    multiples of a power of two g of at least ulp(v)/4, and the largest such g is seen in the
    samples. Rounding moved each by at most 4 max(g, ulp(x)), which is returned. It holds for one
    value v per coordinate; where the values differ by rows, it holds up to rounding of the
    largest value, which is harmless below 10^6 scales of the noise.
    """
    with np.errstate(invalid="ignore"):
        mantissa, exponent = np.frexp(x)
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.ldexp((whole & -whole).astype(float), exponent - 53)
    grid = np.where(x == 0, np.inf, lowest).min(axis=0)
    return 4 * np.maximum(grid, np.spacing(np.abs(x)))


def repeats(x, mass):
    """Count values that were seen before, in any coordinate: three findings.

    Parameters
    ----------
    x : array of shape (n, k)
    mass : array of shape (n, k), an upper bound on the law's probability of each of these values

    Returns
    -------
    list of Finding
        For three levels m (0.001, 1, and a hundredth of the draws): only values with mass at most
        q = m/C(N, 2) are counted, N = n k. Whatever the draws before, the i-th is among them with
        probability at most (i - 1) q, so the count R has E exp(s R) <= exp(m (e^s - 1)), and P(R
        >= r) <= exp(r - m - r ln(r/m)) for r > m (Chernoff).
    """
    values, total = x.ravel(), x.size
    again = np.ones(total, dtype=bool)
    again[np.unique(values, return_index=True)[1]] = False
    found = []
    for level in EXPECTED_REPEATS:
        expected = level * total if level == EXPECTED_REPEATS[-1] else level
        rare = mass.ravel() + GRANULARITY <= expected / max(1, math.comb(total, 2))
        seen = int((again & rare).sum())
        found.append(Finding(_chernoff(seen, expected), seen / total, "values that come back"))
    return found


def _chernoff(seen, expected):
    return seen - expected - seen * math.log(seen / expected) if seen > expected else 0.0


def equalities(x, mass):
    """Count exact zeros (releases that equal the truth), one finding for each coordinate.

    `mass`, shape (k,), bounds the law's probability of a zero. P(at least h of n) is exact
    (Clopper and Pearson 1934).
    """
    found = []
    for j, zeros in enumerate((x == 0).sum(axis=0).tolist()):
        log_p = _log(at_least(zeros, len(x), mass[j]))
        found.append(Finding(log_p, zeros / len(x), f"coordinate {j + 1}, equal to the truth"))
    return found


def agreements(z, cdf):
    """Count where two whole numbers other than 0 agree, or are opposite: 2 k^2 + k (k - 1)
    findings.

    A pair is two coordinates of one release, or one coordinate and one of the release before, for
    every second release. Noise that is nearly always 0 hides, in sums and differences, that it is
    used twice; among the numbers other than 0 it shows. Given the first numbers of all pairs, the
    second ones are independent and take each value with the law's probability, so the count has a
    mean m that is known, and P(R >= r) <= exp(r - m - r ln(r/m)) for r > m (Chernoff).
    """
    found = []
    for sign, which in ((1, "equal"), (-1, "opposite")):
        given = sign * z
        chance = np.where(z == 0, 0, np.clip(cdf(given) - cdf(given - 1), 0, 1))
        for i, j in np.ndindex(z.shape[1], z.shape[1]):
            for lag, place in [(1, "the release before")] + [(0, "the same release")] * (i < j):
                rows = slice(0, len(z) - lag, 1 + lag)
                same = (z[lag :: 1 + lag, j] == given[rows, i]) & (z[rows, i] != 0)
                log_p = _chernoff(same.sum(), max(chance[rows, i].sum(), 1e-300))
                where = f"coordinate {j + 1} and coordinate {i + 1} of {place}, {which}"
                found.append(Finding(log_p, float(same.mean()), where))
    return found


def at_least(hits, n, p):
    """P(at least `hits` of n) for independent events of probability p (numbers or arrays)."""
    from scipy.special import betainc

    hits = np.asarray(hits)
    inner = betainc(np.maximum(hits, 1), np.maximum(n - hits + 1, 1), p)
    return np.where(hits <= 0, 1.0, np.where(hits > n, 0.0, inner))[()]


# ------------------------------------------------------------------------ integers, finite outcomes


def residues(z, cdf, ties):
    """Compare integers with the law within blocks of m = 2, 3, 4, 5, 7, 8, 10, 16 numbers.

    These are 8 k findings. Given the block [m h, m h + m) in which z lies, the number
    (F(z - 1) - F(m h - 1) + t P(z))/P(block) is uniform, with t uniform: exact at any scale, with
    no sum over the integers. Noise that is always even gives numbers below 1/2. A block of
    probability below 1e-10 is taken as even over its m numbers.

    Parameters
    ----------
    z : array of shape (n, k) of whole numbers
    cdf : function, the law's distribution function at such an array
    ties : array of shape (n, k), uniform on [0, 1)
    """
    below, upto = cdf(z - 1), cdf(z)
    found = []
    for m in MODULI:
        start = m * np.floor(z / m)
        before = cdf(start - 1)
        block = cdf(start + m - 1) - before
        likely = block > 1e-10
        place = (below - before + ties * (upto - below)) / np.where(likely, block, 1)
        place = np.clip(np.where(likely, place, (z - start + ties) / m), 0, 1)
        for j, column in enumerate(place.T):
            found.append(_kolmogorov(column, f"coordinate {j + 1} modulo {m}"))
    return found


def outcomes(codes, masses, names):
    """Compare how often each outcome occurs with its probability.

    Two findings for each outcome and coordinate: the exact binomial probabilities of as many or
    more, and of as many or fewer.
    """
    n = len(codes)
    found = []
    for j, column in enumerate(codes.T):
        counts = np.bincount(column, minlength=len(masses))
        many = at_least(counts, n, masses)
        few = at_least(n - counts, n, 1 - masses)
        for code, name in enumerate(names):
            share = float(abs(counts[code] / n - masses[code]))
            where = f"coordinate {j + 1}, outcome {name!r}"
            found.append(Finding(_log(many[code]), share, f"{where}, too often"))
            found.append(Finding(_log(few[code]), share, f"{where}, too rarely"))
    return found


# ------------------------------------------------------------------------- all comparisons of a law


def of_reals(x, cdf):
    """All comparisons of floating-point noise, shape (n, k), with a law: a list for each kind."""
    u = _probabilities(np.asarray(cdf(x), dtype=float))
    reach = resolution(x)
    masses = _mass_between(cdf, x - reach, x + reach)
    return [*_of_shape(u), equalities(x, zero_mass(x, cdf)), repeats(x, masses)]


def of_integers(z, cdf, ties):
    """All comparisons of whole numbers, shape (n, k), with a law; `ties` are uniform."""
    cdf = _by_value(cdf)
    below, upto = cdf(z - 1), cdf(z)
    u = _probabilities(upto - (upto - below) * ties)
    nothing = np.zeros((1, z.shape[1]))
    zero = np.clip(cdf(nothing) - cdf(nothing - 1), 0, 1)[0]
    same = equalities(z, zero) + agreements(z, cdf)
    return [*_of_shape(u), residues(z, cdf, ties), same, repeats(z, upto - below)]


def of_outcomes(codes, masses, names, ties):
    """All comparisons of outcomes 0, ..., m - 1, shape (n, k), with their probabilities."""
    upto = np.cumsum(masses)
    u = np.clip(upto[codes] - masses[codes] * ties, 0, 1)
    return [*_of_shape(u), outcomes(codes, masses, names)]


def _of_shape(u):
    return [distances(u), triples(u), lags(u), tails(u)]


def zero_mass(x, cdf):
    """A bound, shape (k,), on the probability of an exact zero of a floating-point release."""
    reach = resolution(x).min(axis=0)
    return np.clip(_mass_between(cdf, -reach, reach) + GRANULARITY, 0, 1)


def _mass_between(cdf, low, high):
    with np.errstate(all="ignore"):
        mass = np.asarray(cdf(high), dtype=float) - np.asarray(cdf(low), dtype=float)
    return np.where(
        mass >= 0, mass, 1.0
    )  # NaN too: beyond what a distribution function was written for


def _by_value(cdf):
    """The same function of an array, evaluated once for each value that occurs."""

    def evaluate(z):
        values, where = np.unique(z, return_inverse=True)
        try:
            upto = np.asarray(cdf(values), dtype=float)
        except IndexError:
            upto = np.array([_looked_up(cdf, value) for value in values])
        return upto[where].reshape(z.shape)

    return evaluate


def _looked_up(cdf, value):
    """F at one value, where `cdf` looks it up in an array: all of the law lies before its end."""
    try:
        return float(np.asarray(cdf(np.array([value])), dtype=float)[0])
    except IndexError:
        return float(value > 0)


def _probabilities(u):
    if not ((u > -1e-9) & (u < 1 + 1e-9)).all():  # also refuses NaN
        raise ValueError(f"cdf must give probabilities, got values from {u.min()} to {u.max()}")
    return np.clip(u, 0, 1)


def smallest(kinds):
    """The finding with the smallest p-value, bounded over all comparisons of all kinds.

    Half of the false alarms are granted to the first kind (the distances), the rest evenly to six
    others. Where several p-values are below exp(-700), the earliest kind is returned: it says
    most about the fault.
    """
    best = []
    for place, findings in enumerate(kinds):
        share = 2 if place == 0 else 2 * KINDS
        for worst in sorted(findings)[:1]:
            log_p = max(worst.log_p + math.log(share * len(findings)), -700.0)
            best.append(worst._replace(log_p=log_p))
    return min(best, key=lambda finding: finding.log_p)
