"""Whole histograms by every method of the book, under one call, so that they can be compared.

Letters: x the counts of n bins; v the variance of geometric noise of scale 1/epsilon. Each method
takes counts and a budget, and returns estimates of all bins. Whatever it has to choose is a
function of n and epsilon alone: branching 16; a quarter of the budget for buckets, of at most the
largest power of two up to n bins; thresholds ln(n)/epsilon, rounded up; for learned thresholds a
prior of 10 % full bins, which weighs as 200 bins; for groups of bins that are alike half of the
budget, and 0.35 ln(n)/epsilon_1 below which a bin counts as empty.

Ranges: 2 to 2^12 bins; epsilon 2e-3 to 100.
"""

import math
from functools import partial

import numpy as np
from scipy.signal import fftconvolve

from dputils import (
    boundaries,
    checks,
    geometric,
    histograms,
    noise,
    partitions,
    segments,
    shrinkage,
    thresholds,
)
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import of_histogram

_BINS = 1 << 12
_BRANCHING = 16
_EPSILONS = (2e-3, 1e2)
_MULTIPLE = 3  # of 1/epsilon_1 in the price of a bucket, from made-up shapes
_PRIOR = shrinkage.power_prior(0.1)  # the one of the chapter on learned thresholds
_LOW = 0.35  # of ln(n)/epsilon_1, of the authors of AHP


def mechanism(name, starts, neighbours, epsilon, *, unit="row"):
    """Return the mechanism that publishes a histogram by one of the METHODS.

    Privacy
        epsilon-differentially private, exactly, with whole-numbered noise; the rest looks at noisy
        numbers alone. A record that is replaced is one removed and one added: each half of epsilon.
        Public: the method and the starts. Whoever chooses the method by the data must pay for the
        choice.

    Parameters
    ----------
    name : str
        One of METHODS.
    starts : array of shape (n,)
        Where the bins start, as for `histograms.counts`.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
    unit : str
        What has one record in the column.

    Returns
    -------
    Mechanism
        It reads a column and releases a float array of shape (n,).

    Raises
    ------
    ValueError
        If there is no such method, or a public argument is out of range.
    """
    if name not in METHODS:
        raise ValueError(f"name must be one of {', '.join(METHODS)}, got {name!r}")
    inner = histograms.mechanism(starts, neighbours, epsilon, unit=unit)  # reads, and refuses
    n = np.size(starts)
    if not 2 <= n <= _BINS:
        raise ValueError(f"starts must be those of 2 to 2**12 bins, got {n}")
    checks.within("epsilon", epsilon, *_EPSILONS)
    moved = of_histogram(neighbours, unit=unit)
    each = checks.as_fraction("epsilon", epsilon) / moved.size  # for a record added or removed
    return Mechanism(
        name=f"histogram of {n} bins, method: {name}",
        costs=(Pure(epsilon),),
        neighbours=inner.neighbours,
        unit=inner.unit,
        read=inner.read,
        draw=partial(METHODS[name], epsilon=each),
        exact=True,
        sensitivity=moved,
    )


def range_errors(errors, lengths):
    """Return the mean squared error of ranges of each length, over all their places.

    Parameters
    ----------
    errors : array of shape (..., n)
        Estimates minus counts, bin by bin.
    lengths : list of int
        From 1 to n.

    Returns
    -------
    float array of shape (..., len(lengths))
    """
    errors = np.asarray(errors, dtype=float)
    up_to = np.cumsum(np.pad(errors, [(0, 0)] * (errors.ndim - 1) + [(1, 0)]), axis=-1)
    squares = [(up_to[..., m:] - up_to[..., :-m]) ** 2 for m in lengths]
    return np.stack([square.mean(axis=-1) for square in squares], axis=-1)


def to_total(bins, total):
    """Return bins moved by one number each, so that their sum is a total that is public.

    Privacy
        Computed from what is published and from the total, which costs nothing only if it is
        public: then neighbours have equal totals, which is replace-one.

    Parameters
    ----------
    bins : array of shape (..., n)
    total : number

    Returns
    -------
    float array of the shape of bins
    """
    bins = np.asarray(bins, dtype=float)
    return bins + (total - bins.sum(axis=-1, keepdims=True)) / bins.shape[-1]


def least_cost(x, epsilon):
    """Return what the cheapest partition into buckets costs, with the price of the method
    "buckets".

    A score, not an error: the bins of that method are mostly off by less in sum, down to a tenth.
    That they are better than plain bins where it is below n/epsilon is a rule that was measured,
    for single bins.

    Privacy
        None. A record moves it by at most 1: it moves the cost of each partition by at most 1
        (`partitions`, point 1), and so the least of them.

    Parameters
    ----------
    x : int array of shape (n,)
        Counts, from `histograms.counts`; n from 2 to 2^12.
    epsilon : int, float or Fraction
        What the histogram is going to cost.

    Returns
    -------
    int
    """
    epsilon = checks.within("epsilon", epsilon, *_EPSILONS)
    price = _price(checks.as_fraction("epsilon", epsilon))
    costs = partitions.bucket_costs(x, _longest(np.size(x)))
    starts = partitions.cheapest(costs, price)
    rows = np.diff(starts, append=len(costs[0]))
    found = (costs[int(w).bit_length() - 1][start] for start, w in zip(starts, rows))
    return int(sum(map(int, found))) + price * len(starts)


def law_of_two(a, b, epsilon, low):
    """Return the law of the method "buckets" on two bins, in four classes.

    Computed from the definition, apart from the code that draws: the two bins share a bucket if
    the noisy distance |a - b| + Y, Y of scale 2/epsilon_1, is at most the price of a second bucket
    and two noises of scale 1/epsilon_1; then their count is halved.

    Parameters
    ----------
    a, b : int
        Persons in the bins.
    epsilon : int, float or Fraction
    low : int
        What is below this is low.

    Returns
    -------
    dict
        Probabilities of "equal, low", "equal, high", "low" and "high": whether both bins are shown
        equal, and how large the first one is. Off by less than 1e-12.
    """
    cut, counts = float(epsilon) / 4, 3 * float(epsilon) / 4
    far = math.ceil(40 / cut)
    grid = np.arange(min(a, b, low) - far, max(a, b, low) + far + 1)
    noises = np.exp(geometric.logpmf(np.arange(-far, far + 1), 1 / cut))
    two = np.arange(-2 * far, 2 * far + 1)  # noises of two single bins, added
    room = two + _price(checks.as_fraction("epsilon", epsilon)) - abs(a - b)
    pair = fftconvolve(noises, noises) @ geometric.cdf(room, 2 / cut)
    one, other = (np.exp(geometric.logpmf(grid, 1 / counts, x)) for x in (a, b))
    below, same = grid < low, one * other
    equal_low = (
        pair * geometric.cdf(2 * low - 1 - a - b, 1 / counts) + (1 - pair) * same[below].sum()
    )
    law = {
        "equal, low": float(equal_low),
        "equal, high": float(pair + (1 - pair) * same.sum() - equal_low),
        "low": float((1 - pair) * (one - same)[below].sum()),
    }
    return law | {"high": 1 - sum(law.values())}


# ----------------------------------------------------------------------------------------- methods


def _bins(x, epsilon, *, rng):
    return x + noise.discrete_laplace(1 / epsilon, x.size, rng=rng)


def _uniform(x, epsilon, *, rng):
    total = int(x.sum()) + noise.discrete_laplace(1 / epsilon, 1, rng=rng)
    return np.repeat(total / x.size, x.size)


def _bins_at_0(x, epsilon, *, rng):
    return np.maximum(_bins(x, epsilon, rng=rng), 0)


def _projected(x, epsilon, *, rng):
    return histograms.nonnegative(_bins(x, epsilon, rng=rng))


def _threshold(x, epsilon, *, rng):
    theta = max(1, math.ceil(math.log(x.size) / epsilon))
    return thresholds.hard(_bins(x, epsilon, rng=rng), theta)


def _learned(x, epsilon, *, rng):
    scale = float(1 / epsilon)
    noisy = _bins(x, epsilon, rng=rng)
    knots = shrinkage.even_knots(scale)
    return shrinkage.learn_from_release(noisy, scale, knots, _PRIOR)(noisy)


def _noise_first(x, epsilon, *, rng, mended):
    penalty = 2 * geometric.variance(1 / epsilon)
    if mended:
        penalty = geometric.accuracy(1 / epsilon, 0.5, x.size) ** 2 / 2
    noisy = _bins(x, epsilon, rng=rng)
    return segments.fit(noisy, segments.penalised(noisy, penalty))


def _tree(x, epsilon, *, rng, branching):
    nodes = histograms.node_counts(x, branching)
    scale = len(histograms.widths(x.size, branching)) / epsilon
    noisy = nodes + noise.discrete_laplace(scale, nodes.size, rng=rng)
    return histograms.consistent(noisy, x.size, branching)


def _wavelet(x, epsilon, *, rng):
    """Haar: the total, and by how much the left half of each block exceeds the right one."""
    size = 1 << (x.size - 1).bit_length()  # empty bins behind the last one
    sums, differences = np.pad(x, (0, size - x.size)), []
    while sums.size > 1:
        left, right = sums[::2], sums[1::2]
        differences.append(left - right)
        sums = left + right
    scale = (1 + len(differences)) / epsilon  # a record moves so many numbers by 1
    found = sums + noise.discrete_laplace(scale, 1, rng=rng)
    for row in reversed(differences):
        noisy = row + noise.discrete_laplace(scale, row.size, rng=rng)
        found = np.stack([found + noisy, found - noisy], axis=-1).ravel() / 2
    return found[: x.size]


def _buckets(x, epsilon, *, rng, count):
    """Buckets chosen in private with a quarter of the budget, counted with the rest."""
    longest, price = _longest(x.size), _price(epsilon)
    cut = partitions.mechanism(np.arange(x.size), longest, "add-remove", epsilon / 4, price)
    starts = cut.draw(x, rng=rng)
    widths = np.diff(starts, append=x.size)
    return np.repeat(count(np.add.reduceat(x, starts), 3 * epsilon / 4, rng=rng) / widths, widths)


def _alike(x, epsilon, *, rng):
    """AHP: groups of bins that look alike in noisy bins, counted with the other half."""
    half = epsilon / 2
    noisy = _bins(x, half, rng=rng)
    seen = noisy * (noisy > _LOW * math.log(x.size) / half)
    labels = boundaries.groups(seen, geometric.variance(1 / half))
    totals = np.zeros(labels.max() + 1, dtype=np.int64)
    np.add.at(totals, labels, x)
    return (_bins(totals, half, rng=rng) / np.bincount(labels))[labels]


def _longest(n):
    return 1 << (n.bit_length() - 1)


def _price(epsilon):
    """The noise of a count, and a multiple of that of a cost."""
    return round(1 / (3 * epsilon / 4) + _MULTIPLE / (epsilon / 4))


METHODS = {  # a line adds a method: counts, budget, rng -> bins
    "uniform": _uniform,
    "bins": _bins,
    "bins at 0": _bins_at_0,
    "projected": _projected,
    "threshold": _threshold,
    "learned": _learned,
    "NoiseFirst": partial(_noise_first, mended=False),
    "NoiseFirst mended": partial(_noise_first, mended=True),
    "AHP": _alike,
    "binary tree": partial(_tree, branching=2),
    "tree": partial(_tree, branching=_BRANCHING),
    "wavelet": _wavelet,
    "buckets": partial(_buckets, count=_bins),
    "buckets and tree": partial(_buckets, count=partial(_tree, branching=_BRANCHING)),
}
