"""Many linear queries at once: batches of queries on the counts of cells, strategies that are asked
in their place, and the best of these.

Letters: x the counts of n cells; W the workload, the queries to be answered, one row each; A the
strategy, the queries that are asked; y = A x + noise, A+ the pseudoinverse, and W A+ y the answers.
V = W'W is the Gram matrix of the workload, X = A'A that of the strategy.

Ranges: at most 2^22 rows (2^24 where no row is stored), whole weights up to 2^20 (products of them
in `product`), sums of squared weights of a column up to 2^60, 4,096 cells where a matrix of cells
by cells is needed; scales as in `geometric` and `discrete_gaussian`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dputils import checks, discrete_gaussian, geometric, private
from dputils.sensitivity import Sensitivity

_ROWS, _CELLS, _WEIGHT = 1 << 22, 1 << 24, 1 << 20
_DENSE = 4096  # the most cells of a matrix of cells by cells
_ENTRIES = 1 << 26  # the most entries of a matrix of queries by cells
_PAIRS = 1024  # the most cells of which all pairs are compared
_ROUNDING = 1e-14  # times the cells: below it, as a share of the largest, an eigenvalue is 0
_SUMS = 1 << 60  # up to it the squares of the difference of two columns have sums below 2^63


# ------------------------------------------------------------------------------ batches of queries


@dataclass(frozen=True, eq=False)
class Queries:
    """A batch of linear queries on n cells, known by what it does; the matrix need not be stored.

    Parameters
    ----------
    rows, cells : int
        How many queries, on how many cells.
    whole : bool
        Whether all weights are whole numbers.
    dot : function of an array of shape (..., cells)
        The answers, of shape (..., rows); in whole numbers where weights and counts are.
    gram : function of nothing
        The float matrix of shape (cells, cells) of the products of columns.
    columns : function of 1 or 2
        For each cell the sum of the absolute weights, or of their squares, int64 if `whole`.
    fit : function of an array of shape (..., rows)
        The least-squares cells of shape (..., cells), the smallest ones if several fit.
    """

    rows: int
    cells: int
    whole: bool
    dot: Callable
    gram: Callable
    columns: Callable
    fit: Callable

    def matrix(self):
        """Return the matrix, one row a query.

        Raises
        ------
        ValueError
            If it has more than 2^26 entries.
        """
        if self.rows * self.cells > _ENTRIES:
            raise ValueError(
                f"queries must have at most 2**26 weights for a matrix, got {self.rows} rows of "
                f"{self.cells} cells"
            )
        return self.dot(np.eye(self.cells, dtype=np.int64 if self.whole else float)).T


def _queries(rows, cells, whole, dot, gram, columns, fit=None):
    """Return `Queries` whose `fit`, if none is given, solves for the cells with the matrix."""
    if rows > _CELLS:
        raise ValueError(f"queries must have at most 2**24 rows, got {rows}")
    made = Queries(rows, cells, whole, dot, partial(_few_cells, cells, gram), columns, fit)
    return made if fit else replace(made, fit=partial(_fit, made))


def _few_cells(cells, gram):
    if cells > _DENSE:
        raise ValueError(f"queries must have at most {_DENSE} cells for a Gram matrix, got {cells}")
    return gram()


def _fit(queries, y):
    """Return A+ y; singular values below rounding count as 0."""
    y = np.asarray(y, dtype=float)
    matrix = queries.matrix().astype(float)
    x = np.linalg.lstsq(matrix, y.reshape(-1, queries.rows).T, rcond=None)[0]
    return x.T.reshape(*y.shape[:-1], queries.cells)


def of_matrix(weights):
    """Return the queries that a matrix lists.

    Parameters
    ----------
    weights : array of shape (rows, cells)
        Public. Whole numbers if its dtype is one of integers (or of truth values).

    Raises
    ------
    ValueError
        If the shape or the dtype is another one, a weight is above 2^20, or the squares of a column
        of whole weights have a sum above 2^60.
    """
    weights = np.asarray(weights)
    if weights.ndim != 2 or not weights.size or weights.shape[0] > _ROWS:
        raise ValueError(f"weights must have shape (rows, cells), got {weights.shape}")
    checks.floats(
        "weights", weights.astype(np.int8) if weights.dtype == bool else weights, -_WEIGHT, _WEIGHT
    )
    whole = weights.dtype.kind in "iub"
    weights = weights.astype(np.int64 if whole else float)
    wide = weights.astype(float)
    made = _queries(
        *weights.shape,
        whole,
        lambda x: np.asarray(x) @ weights.T,
        lambda: wide.T @ wide,
        lambda power: (np.abs(weights) ** power).sum(axis=0),
    )
    if whole and int(made.columns(2).max()) > _SUMS:
        raise ValueError("weights must have sums of squares up to 2**60 in each column")
    return made


def prefixes(n):
    """Return the sums of the first 1, 2, ..., n cells: the running total."""
    n = _number_of_cells(n)
    return _queries(
        n,
        n,
        True,
        lambda x: np.cumsum(x, axis=-1),
        lambda: n - np.maximum.outer(np.arange(n), np.arange(n)).astype(float),
        lambda power: np.arange(n, 0, -1),
        lambda y: np.diff(np.asarray(y, dtype=float), axis=-1, prepend=0),
    )


def ranges(n):
    """Return the sums of all n (n + 1)/2 ranges of cells, those that begin at the first one first.

    Cells i <= j are together in (i + 1)(n - j) ranges, counted from 0: that is the Gram matrix.
    """
    n = checks.within("n", checks.integer("n", n, low=1), 1, _DENSE)
    first, last = np.triu_indices(n)
    step = np.arange(n, dtype=np.int64)

    def dot(x):
        up_to = np.concatenate([np.zeros_like(x[..., :1]), np.cumsum(x, axis=-1)], axis=-1)
        return up_to[..., last + 1] - up_to[..., first]

    def gram():
        return (np.minimum.outer(step, step) + 1.0) * (n - np.maximum.outer(step, step))

    return _queries(
        first.size,
        n,
        True,
        lambda x: dot(np.asarray(x)),
        gram,
        lambda power: (step + 1) * (n - step),
    )


def toeplitz(coefficients):
    """Return the queries y_t = c_0 x_t + c_1 x_(t-1) + ... + c_(n-1) x_(t-n+1), each of which
    weighs the cells up to its own by their distance.

    Parameters
    ----------
    coefficients : array of shape (n,)
        c_0, ..., c_(n-1), c_0 not 0; whole numbers if the dtype is one of integers.

    Returns
    -------
    Queries
        `fit` solves for one cell after the other: that is the only solution.
    """
    c = np.array(coefficients)
    if c.ndim != 1 or not 1 <= c.size <= _DENSE or c[0] == 0:
        raise ValueError(
            f"coefficients must have shape (n,), n up to {_DENSE}, the first not 0, got {c.shape}"
        )
    place = np.subtract.outer(np.arange(c.size), np.arange(c.size))
    return replace(of_matrix(np.where(place >= 0, c[place], 0)), fit=partial(_divided, c))


def _divided(c, y):
    """Return the series x with c x = y, one cell after the other."""
    y = np.asarray(y, dtype=float)
    x = np.zeros_like(y)
    for t in range(c.size):
        x[..., t] = (y[..., t] - x[..., :t] @ c[t:0:-1]) / c[0]
    return x


def square_root(n):
    """Return the first n coefficients binom(2k, k)/4^k of (1 - z)^(-1/2): 1, 1/2, 3/8, ...

    As `toeplitz` they are the square root of `prefixes`.

    Returns
    -------
    float array of shape (n,)
    """
    k = np.arange(1, checks.integer("n", n, low=1))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def stacked(*parts):
    """Return the queries of several batches on the same cells, one batch after the other.

    Parameters
    ----------
    *parts : Queries
    """
    cells = {part.cells for part in parts}
    if len(cells) != 1:
        raise ValueError(f"parts must have one number of cells, got {sorted(cells)}")
    _exact_sums("parts", sum, parts)
    return _queries(
        sum(part.rows for part in parts),
        cells.pop(),
        all(part.whole for part in parts),
        lambda x: np.concatenate([part.dot(x) for part in parts], axis=-1),
        lambda: sum(part.gram() for part in parts),
        lambda power: sum(part.columns(power) for part in parts),
    )


def product(*factors):
    """Return the Kronecker product of batches: queries on a table with one axis for each factor.

    A query is a product of one of each factor. Cells and rows are numbered as numpy flattens: the
    last axis fastest.

    Parameters
    ----------
    *factors : Queries
    """
    if not factors:
        raise ValueError("factors must be at least one batch of queries, got none")
    _exact_sums("factors", math.prod, factors)
    cells, rows = ([getattr(f, name) for f in factors] for name in ("cells", "rows"))
    return _queries(
        math.prod(rows),
        _number_of_cells(math.prod(cells)),
        all(f.whole for f in factors),
        lambda x: _by_axis([f.dot for f in factors], cells, x),
        lambda: _kron([f.gram() for f in factors]),
        lambda power: _kron([f.columns(power) for f in factors]),
        lambda y: _by_axis([f.fit for f in factors], rows, y),
    )


def _exact_sums(name, together, batches):
    """Refuse batches whose columns have sums of weights, or of their squares, beyond 64 bits."""
    for power in (1, 2):
        if together([int(np.max(of.columns(power))) + 1 for of in batches]) > _SUMS:
            raise ValueError(f"{name} must have sums of squared weights below 2**60 together")


def _by_axis(functions, shape, x):
    """Apply to each axis of a flattened table its own function."""
    x = np.asarray(x)
    first = x.shape[:-1]
    x = x.reshape(*first, *shape)
    for axis, function in enumerate(functions, start=len(first)):
        x = np.moveaxis(function(np.moveaxis(x, axis, -1)), -1, axis)
    return x.reshape(*first, -1)


def _kron(arrays):
    made = arrays[0]
    for array in arrays[1:]:
        made = np.kron(made, array)
    return made


def marginals(shape, kept):
    """Return contingency tables: all sums of a table over the axes that are not kept.

    Parameters
    ----------
    shape : sequence of int
        The number of categories of each attribute.
    kept : sequence of tuples of int
        For each table the attributes that it keeps, in increasing order; () is the total.

    Returns
    -------
    Queries
        Table by table, each flattened.
    """
    shape, kept = _attributes(shape, kept)
    return stacked(*(product(*map(_kept_or_summed, shape, _marks(shape, of))) for of in kept))


def residuals(shape, weights):
    """Return the deviations of contingency tables from what their margins say, weighted.

    For each set of attributes a table is asked in which a kept attribute of m categories is m times
    its category less the sum of all of them, and the others are summed over. Tables of different
    sets have nothing in common: their rows are orthogonal.

    Parameters
    ----------
    shape : sequence of int
    weights : dict, tuple of attributes -> int
        A positive whole weight for each set.

    Returns
    -------
    Queries
    """
    shape, kept = _attributes(shape, list(weights))
    if len(set(kept)) != len(kept):
        raise ValueError(f"weights must name each set once, got {kept}")
    scales = [
        checks.within("weights", checks.integer("weights", w, low=1), 1, _WEIGHT)
        for w in weights.values()
    ]
    parts = [
        product(of_matrix([[scale]]), *map(_deviation_or_summed, shape, _marks(shape, of)))
        for scale, of in zip(scales, kept, strict=True)
    ]
    ends = np.cumsum([part.rows for part in parts])[:-1]

    def fit(y):
        of_part = np.split(np.asarray(y, dtype=float), ends, axis=-1)
        return sum(part.fit(own) for part, own in zip(parts, of_part, strict=True))

    return replace(stacked(*parts), fit=fit)


def _attributes(shape, kept):
    shape = [checks.integer("shape", m, low=1) for m in shape]
    _number_of_cells(math.prod(shape))
    kept = [tuple(checks.integer("kept", i, low=0) for i in of) for of in kept]
    if not kept or any(
        list(of) != sorted(set(of)) or max(of, default=0) >= max(len(shape), 1) for of in kept
    ):
        raise ValueError(
            f"kept must list sets of attributes from 0 to {len(shape) - 1} in increasing order, "
            f"got {kept}"
        )
    return shape, kept


def _marks(shape, of):
    return [i in of for i in range(len(shape))]


def _kept_or_summed(m, kept):
    if not kept:
        return _total(m)
    return _queries(
        m,
        m,
        True,
        np.asarray,
        lambda: np.eye(m),
        lambda power: np.ones(m, dtype=np.int64),
        lambda y: np.asarray(y, dtype=float),
    )


def _deviation_or_summed(m, kept):
    if not kept:
        return _total(m)
    return _queries(
        m,
        m,
        True,
        lambda x: m * x - x.sum(axis=-1, keepdims=True),
        lambda: m * (m * np.eye(m) - 1),
        lambda power: np.full(m, (m - 1) ** power + m - 1),
        lambda y: (y - y.mean(axis=-1, keepdims=True)) / m,
    )


def _total(m):
    return _queries(
        1,
        m,
        True,
        lambda x: np.asarray(x).sum(axis=-1, keepdims=True),
        lambda: np.ones((m, m)),
        lambda power: np.ones(m, dtype=np.int64),
        lambda y: np.repeat(np.asarray(y, dtype=float) / m, m, axis=-1),
    )


def _number_of_cells(n):
    return checks.within("n", checks.integer("n", n, low=1), 1, _CELLS)


# -------------------------------------------------------------------------------------- mechanisms


def sensitivity_of(strategy, neighbours, norm="l1", *, unit="row"):
    """Return the sensitivity of the answers to whole-numbered queries, from their columns.

    A record that comes or goes moves the answers by the column of its cell, one that is replaced by
    the difference of two columns.

    Parameters
    ----------
    strategy : Queries
        Of whole weights. Under replace-one at most 1,024 cells.
    neighbours : {"add-remove", "replace-one"}
    norm : {"l1", "l2"}
    unit : str
        What is counted once, in one cell.

    Returns
    -------
    Sensitivity
        Exact in l1; in l2 a root, rounded up.
    """
    if not isinstance(strategy, Queries) or not strategy.whole:
        raise ValueError(
            "strategy must be Queries of whole weights, whose answers are whole, got "
            f"{strategy if not isinstance(strategy, Queries) else 'real weights: round them'!r}"
        )
    power = 1 if checks.one_of("norm", norm, ("l1", "l2")) == "l1" else 2
    if checks.neighbours(neighbours) == "add-remove":
        far = int(np.max(strategy.columns(power)))
    else:
        far = _furthest_pair(strategy, power)
    if not far:
        raise ValueError("strategy must have an answer that a record can move, got none")
    return Sensitivity(far if power == 1 else _root(far), norm, neighbours, unit)


def _furthest_pair(strategy, power):
    """Return the largest distance of two columns, squared if `power` is 2.

    It is at most four times the largest sum of squares, 2^62: exact in int64.
    """
    if strategy.cells > _PAIRS:
        raise ValueError(
            f"strategy must have at most {_PAIRS} cells under replace-one, got {strategy.cells}"
        )
    columns = strategy.matrix().T
    return max(int((np.abs(columns - one) ** power).sum(axis=1).max()) for one in columns)


def _root(square):
    """Return a float not below the root of a whole number, as ledgers and mechanisms read it."""
    root = math.sqrt(square)
    while checks.as_fraction("root", root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def mechanism(strategy, neighbours, epsilon=None, *, rho=None, unit="row"):
    """Return the mechanism that answers a strategy on counts of cells, with exact noise.

    Privacy
        epsilon-differentially private with geometric noise, or rho-zCDP with discrete Gaussian
        noise, exactly: the answers are whole numbers, and the sensitivity is that of the strategy
        as it is (`sensitivity_of`). Assumed: a unit is counted once, in one cell. Public: the
        strategy, with its number of cells.

    Parameters
    ----------
    strategy : Queries
        Of whole weights; it must not depend on the counts.
    neighbours : {"add-remove", "replace-one"}
    epsilon : int, float or Fraction
        Or else rho.
    rho : int, float or Fraction
    unit : str

    Returns
    -------
    Mechanism
        It reads whole counts of shape (cells,), modulo 2^64, and releases the int64 answers of
        shape (rows,), from which `estimate` computes cells. Its law is that of the release minus
        `strategy.dot`, answer by answer.

    Error
        `variance` times the variance of one noise.

    Source
        Li, Hay, Rastogi, Miklau, McGregor 2010.
    """
    if (epsilon is None) == (rho is None):
        raise ValueError(f"epsilon or rho must be given, and not both, got {epsilon!r} and {rho!r}")
    if rho is None:
        moved = sensitivity_of(strategy, neighbours, "l1", unit=unit)
        inner = geometric.mechanism(moved, epsilon)
    else:
        moved = sensitivity_of(strategy, neighbours, "l2", unit=unit)
        inner = discrete_gaussian.mechanism(moved, rho)
    name = f"{strategy.rows} queries on {strategy.cells} cells, {inner.name}"
    return replace(inner, name=name, read=partial(_answers, strategy=strategy))


def _answers(x, strategy):
    """Return the whole answers on private counts, modulo 2^64."""
    x = private.integers(x)
    if x.shape != (strategy.cells,):
        raise ValueError(f"x must have shape ({strategy.cells},), got {x.shape}")
    return strategy.dot(x)


def estimate(strategy, y):
    """Return the cells that fit noisy answers best, by least squares: A+ y.

    Privacy
        Computed from what is published alone.

    Parameters
    ----------
    strategy : Queries
    y : array of shape (..., rows)

    Returns
    -------
    float array of shape (..., cells)
        Any query that is a sum of asked ones has the same answer whichever way it is summed, and,
        if the noises are uncorrelated and of one variance, the least variance of all unbiased
        estimates that are linear in y.
    """
    y = np.asarray(y, dtype=float)
    if not y.ndim or y.shape[-1] != strategy.rows:
        raise ValueError(f"y must have shape (..., {strategy.rows}), got {y.shape}")
    return strategy.fit(y)


# ------------------------------------------------------------------------------------------- error


def variance(workload, strategy):
    """Return the sum of the variances of all answers W A+ y, for noise of variance 1.

    Parameters
    ----------
    workload, strategy : Queries
        On the same cells, at most 4,096. Queries of the workload count as often as they stand
        there.

    Returns
    -------
    float
        tr V X+, which is the squared Frobenius norm of W A+.

    Raises
    ------
    ValueError
        If the strategy does not determine an answer, or the cells differ. An answer with weights
        below a millionth of those of another one may be overlooked.
    """
    v, x = workload.gram(), strategy.gram()
    if v.shape != x.shape:
        raise ValueError(f"strategy must have {len(v)} cells, got {len(x)}")
    length = np.sqrt(np.where(np.diag(x) > 0, np.diag(x), 1))
    values, vectors = np.linalg.eigh(x / np.outer(length, length))
    vectors = vectors / length[:, None]
    asked = values > _ROUNDING * len(x) * values[-1]
    unseen = vectors[:, ~asked]  # no answer of the strategy moves along these
    scale = np.sqrt(np.diag(v)) @ np.abs(unseen)
    if np.any(np.sum(unseen * (v @ unseen), axis=0) > 1e-12 * scale**2):
        raise ValueError(
            "strategy must determine all answers of the workload, got one that leaves some open"
        )
    half = vectors[:, asked] / np.sqrt(values[asked])
    return float(np.sum(half * (v @ half)))


def best_gram(workload, tolerance=1e-4):
    """Return the Gram matrix of the best strategy for Gaussian noise, and a limit for all others.

    Among all strategies whose columns have length at most 1, the sum of the variances (`variance`)
    is least where V = X U X for a diagonal matrix U. Weights u_i >= 0 with sum 1 give the limit
    (tr R)^2 for every strategy, R = (U^(1/2) V U^(1/2))^(1/2), and a strategy, X in proportion to
    U^(-1/2) R U^(-1/2); the next weights are in proportion to the diagonal of R.

    Parameters
    ----------
    workload : Queries
        On at most 4,096 cells, with answers that determine the cells.
    tolerance : float
        From 1e-9 to 1: how far, as a share, the strategy may be above the limit.

    Returns
    -------
    gram : array of shape (cells, cells)
        X, its diagonal at most 1. Any A with A'A = X is such a strategy.
    limit : float
        No strategy of columns of length at most 1 has a smaller sum of variances, up to rounding.
        With equal weights it is the bound by singular values.

    Raises
    ------
    ValueError
        If the answers do not determine the cells, or do so only within rounding: where some weights
        are some thousand times others, X cannot be computed from V.

    Source
        The limit for equal weights: Li, Miklau 2013. The problem: Yuan, Yang, Zhang, Hao 2016. The
        iteration: Denisov, McMahan, Rush, Smith, Thakurta 2022.
    """
    checks.within("tolerance", tolerance, 1e-9, 1)
    v = workload.gram()
    values = np.linalg.eigvalsh(v)
    if values[0] <= 1e-12 * values[-1]:
        raise ValueError("workload must determine all cells, got one that leaves some open")
    u, limit = np.full(len(v), 1 / len(v)), 0.0
    for _ in range(1000):
        d = np.sqrt(u)
        values, vectors = np.linalg.eigh(d[:, None] * v * d)
        if values[0] <= _ROUNDING * len(v) * values[-1]:
            break
        root = (vectors * np.sqrt(values)) @ vectors.T
        most, trace = np.max(root.diagonal() / u), float(np.trace(root))
        limit = max(limit, trace**2)
        gram = root / np.outer(d, d) / most
        if most * trace <= (1 + tolerance) * limit:  # the left side is tr V X^(-1)
            if np.linalg.eigvalsh(gram)[0] <= _ROUNDING * len(v):
                break
            return gram, limit
        u = root.diagonal() / trace
    raise ValueError("workload must determine all cells beyond rounding, got weights too different")
