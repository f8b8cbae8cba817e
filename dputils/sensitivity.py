"""Sensitivities: how far one record can move an answer, under a named neighbour relation, and their check by brute
force.

The formulas are for the global sensitivity: the maximum over *all* neighbouring tables, never over the neighbours
of the table at hand. `neighbour_pairs` lists all neighbouring tables over a small domain; `brute_force` takes the
maximum over them.
"""
import itertools
import math

import numpy as np

from dputils import checks


def of_count(neighbours):
    """Sensitivity of the number of records with a property: 1 under both neighbour relations."""
    checks.neighbours(neighbours)
    return 1


def of_sum(lower, upper, neighbours):
    """Sensitivity of a sum of values clamped to [lower, upper].

    Returns
    -------
    number
        max(|lower|, |upper|) under add-remove, upper - lower under replace-one; in the unit of the values.
    """
    lower, upper = checks.bounds(lower, upper)
    return max(abs(lower), abs(upper)) if checks.neighbours(neighbours) == "add-remove" else upper - lower


def of_mean(lower, upper, neighbours, n=None):
    """Sensitivity of the mean of values clamped to [lower, upper].

    Parameters
    ----------
    lower, upper : float
        Public bounds.
    neighbours : {"add-remove", "replace-one"}
        Under replace-one the number of records is public and must be given as `n`. Under add-remove it is private:
        the sensitivity is (upper - lower)/2 whatever the size, attained when one record becomes two; an empty table
        is answered by the midpoint.
    n : int, optional
        Number of records, at least 1; only for replace-one.

    Returns
    -------
    float
        (upper - lower)/n under replace-one, (upper - lower)/2 under add-remove.
    """
    lower, upper = checks.bounds(lower, upper)
    if checks.neighbours(neighbours) == "replace-one":
        return (upper - lower) / checks.integer("n", n, low=1)
    if n is not None:
        raise ValueError(f"n must be left out under add-remove, where the number of records is private, got {n!r}")
    return (upper - lower) / 2


def of_histogram(neighbours):
    """L1 sensitivity of counts over disjoint bins: 1 under add-remove, 2 under replace-one (one bin loses, one
    gains)."""
    return 1 if checks.neighbours(neighbours) == "add-remove" else 2


def of_counts(k, neighbours):
    """L1 sensitivity of k counts whose predicates may overlap: k, since one record can be in all of them or in none."""
    checks.neighbours(neighbours)
    return checks.integer("k", k, low=1)


def of_gram(norm, neighbours):
    """l2 sensitivity of the Gram matrix X'X whose rows have length at most `norm`, as a matrix (Frobenius norm) or as
    its upper triangle: norm^2 under add-remove, sqrt(2) norm^2 under replace-one.

    A row x adds x x', of Frobenius norm |x|^2. Replacing x by y changes the matrix by |x x' - y y'|^2 = |x|^4 + |y|^4 -
    2 (x'y)^2 <= 2 norm^4, attained by two orthogonal rows of length norm; so is the same value of the upper triangle.
    With a single column, where no rows are orthogonal, norm^2 would do. norm^2 is the nearest float (2^-53 of it, for
    which `gaussian.analytic_sigma` has a margin), the next above where floats are subnormal; sqrt(2) norm^2 never less.
    """
    length = float(checks.positive("norm", norm))
    square = length * length if length > 1e-150 else math.nextafter(length * length, 1)
    bound = square if checks.neighbours(neighbours) == "add-remove" else math.nextafter(math.sqrt(2), 2) * square
    if length == 0 or math.isinf(bound):
        raise ValueError(f"norm must have a square (times sqrt 2 under replace-one) that is a float, got {norm!r}")
    return bound


def neighbour_pairs(domain, n, neighbours):
    """List all pairs of neighbouring small tables whose records come from a finite domain.

    Parameters
    ----------
    domain : sequence
        The possible records.
    n : int
        Largest number of records; under replace-one both tables have exactly n.
    neighbours : {"add-remove", "replace-one"}

    Returns
    -------
    list of (tuple, tuple)
        Tables as tuples of records in the order of the domain (a table is a multiset: the order of its rows carries
        nothing). Each unordered pair once; under add-remove the second table has one record less.
    """
    domain = list(domain)
    checks.integer("n", n, low=1), checks.neighbours(neighbours)
    ranks = range(len(domain))
    if neighbours == "add-remove":
        pairs = {(big, big[:i] + big[i + 1:]) for size in range(1, n + 1)
                 for big in itertools.combinations_with_replacement(ranks, size) for i in range(size)}
    else:
        rest = itertools.combinations_with_replacement(ranks, n - 1)
        pairs = {(tuple(sorted((*others, a))), tuple(sorted((*others, b))))
                 for others in rest for a in ranks for b in ranks if a < b}
    return [tuple(tuple(domain[r] for r in table) for table in pair) for pair in sorted(pairs)]


def brute_force(query, pairs):
    """Return the largest L1 distance of `query` over pairs of neighbouring tables, and a pair that attains it.

    Parameters
    ----------
    query : function
        From a table (tuple of records) to a number or a vector, whose length is the same for all tables.
    pairs : sequence of (tuple, tuple)
        From `neighbour_pairs`.

    Returns
    -------
    distance : float
        inf if an answer is NaN on some table: a query without an answer there has no sensitivity.
    pair : (tuple, tuple)
    """
    def distance(pair):
        a, b = (np.asarray(query(table), dtype=float) for table in pair)
        if a.shape != b.shape:
            raise ValueError(f"query must give answers of one shape, got {a.shape} and {b.shape} on {pair!r}")
        total = float(np.sum(np.abs(a - b)))
        return math.inf if math.isnan(total) else total

    worst = max(pairs, key=distance)
    return distance(worst), worst
