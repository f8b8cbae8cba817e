"""Releasing a place itself: planar Laplace noise, its exact version on a grid, and the best law on
a small grid by linear programming.

Letters: x and y two true places, o what is published, |x - y| their distance, epsilon the budget
for a distance of 1 in the unit of the coordinates, s the step of a public grid, a = epsilon s the
budget of one step; K the number of cells, a cell being a place of the grid and all that is rounded
to it; z a pair of whole numbers, |z| its Euclidean length, |z|_1 the sum of its absolute values.

Ranges: epsilon 1e-6 to 1e3 and a 1e-6 to 1e3; a grid has 2 to 2^12 columns and rows and at most
2^20 cells; laws as matrices are for K up to 2^11 and a of at least 1/20, the linear program for K
up to 49 and a up to 20.

1. The promise. Neighbours are two tables of one record, a place: x in one and y in the other. A
   release is private if its probabilities differ by a factor of at most exp(epsilon |x - y|). This
   is d-privacy with the Euclidean metric (`metrics.euclidean`), whose unit and account it shares.
2. In the plane. The density epsilon^2/(2 pi) exp(-epsilon |o - x|) keeps the promise by the
   triangle inequality. The direction is uniform, the distance R has P(R > r) = (1 + epsilon r)
   exp(-epsilon r).
3. On a grid. The law P(z) = exp(-a |z|)/Z on *all* pairs of whole numbers has one Z, whatever the
   cell, so the noise on a cell's number keeps the promise between cells with no factor lost. What
   falls outside the grid is moved to the nearest cell, which is post-processing. A law with
   weights exp(-a |o - x|) on the finite grid alone has a Z for each cell, and loses up to a factor
   of 2 of the budget.
4. Exactly. Draw both coordinates with two-sided geometric noise of scale 10/(7 a), and accept z
   with probability exp(-a (|z| - 0.7 |z|_1)), which is at most 1 because |z|_1 <= sqrt(2) |z|; what
   is accepted has the law of point 3. About three proposals in four are, for a up to 2, and more
   beyond. The exponent is irrational: a coin is decided in floating point where 64 random bits are
   farther from the probability than rounding can reach, and by intervals of rational numbers where
   they are not. So the time depends on the noise and, once the output is known, on the place:
   timing is not protected.
5. Rounding. A place is rounded to its cell before the noise. So two places in one cell look quite
   alike, and two that are close, on both sides of a border, differ as their cells' centres do, a
   step apart, or sqrt(2) steps at a corner. The promise is that of the centres. Rounding moves each
   of two places on the map by at most s/sqrt(2), so for them it is at most epsilon (|x - y| +
   sqrt(2) s), and not epsilon |x - y|.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import bits, checks, inversion, metrics, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import Sensitivity

_SIDE, _CELLS = 1 << 12, 1 << 20
_MATRIX, _PROGRAM = 1 << 11, 49
_LEAST = 0.05  # a of a law as a matrix
_MOST = 20.0  # a of a linear program
_LAST = 45.0  # budgets behind which a tail is cut off: exp(-45) is below 2^-53
_FAR = 1e10  # factor from which on a pair has no inequality of its own
_PROPOSED = Fraction(7, 10)
_GUARD = 2.0**-30  # far above what rounding moves a probability by, while a |z| is below _NEAR
_NEAR = 1e4
_BATCH = 8


@dataclass(frozen=True)
class Grid:
    """A public grid of places: cell (i, j) is at (i step, j step), its number is i rows + j.

    Parameters
    ----------
    columns, rows : int
    step : int, float or Fraction
        In the unit of the coordinates; a float is read as the decimal that prints it.
    """

    columns: int
    rows: int
    step: object

    def __post_init__(self):
        """Check the fields."""
        for name in ("columns", "rows"):
            if not 2 <= checks.integer(name, getattr(self, name)) <= _SIDE:
                raise ValueError(f"{name} must be between 2 and 2**12, got {getattr(self, name)}")
        if self.size > _CELLS:
            raise ValueError(f"columns times rows must be at most 2**20, got {self.size}")
        checks.within("step", self.step, 1e-6, 1e6)

    @property
    def size(self):
        """K, the number of cells."""
        return self.columns * self.rows

    @property
    def places(self):
        """The cells' centres, a float array of shape (K, 2)."""
        i, j = np.divmod(np.arange(self.size), self.rows)
        return np.column_stack([i, j]) * float(self.step)

    @property
    def distances(self):
        """The distances of the centres, a float array of shape (K, K); for K up to 2^11."""
        if self.size > _MATRIX:
            raise ValueError(f"grid must have at most 2**11 cells, got {self.size}")
        return np.hypot(*(self.places[:, None] - self.places).transpose(2, 0, 1))

    def metric(self, epsilon):
        """Return epsilon times the distance of the centres, as `metrics.euclidean`."""
        return metrics.euclidean(self.places, epsilon, record="place")

    def cell(self, place):
        """Return the cell (i, j) of a private place: each coordinate rounded exactly to the nearest
        centre, clamped, and read as 0 if it is missing.
        """
        pair = private.answer("place", place)
        if pair.shape != (2,):
            raise ValueError(f"place must be two coordinates, got shape {pair.shape}")
        step, last = checks.as_fraction("step", self.step), np.array([self.columns, self.rows]) - 1
        steps = private.to_grid(pair, 0, int(last.max()) * step, step)
        return np.minimum(steps, last)


# ----------------------------------------------------------------------------------- in the plane


def farther(r, epsilon):
    """Return P(R > r) = (1 + epsilon r) exp(-epsilon r) for the distance R of planar Laplace noise.

    Parameters
    ----------
    r : number or numbers of any shape, at least 0
    epsilon : float
    """
    t = _budget(epsilon) * checks.floats("r", r, 0, 1e100, zero=True)
    return (1 + t) * np.exp(-t)


def radius(p, epsilon):
    """Return the distance that planar Laplace noise keeps within with probability p.

    Parameters
    ----------
    p : number or numbers of any shape, in [0, 1)
    epsilon : float

    Returns
    -------
    float or float array
        -(W((p - 1)/e) + 1)/epsilon, with W the branch of Lambert's function below -1; computed as a
        quantile of the gamma law of shape 2, which is the same and keeps its digits near p = 0.

    Error
        The mean distance is 2/epsilon, the median 1.678/epsilon.

    Source
        Andres, Bordenabe, Chatzikokolakis, Palamidessi 2013, section 4.
    """
    from scipy.special import gammaincinv

    p = checks.floats("p", p, 1e-300, 1 - 2.0**-53, zero=True)
    return gammaincinv(2, p) / _budget(epsilon)


def planar_laplace(epsilon, n, *, rng):
    """Draw planar Laplace noise in floating point, for experiments.

    Privacy
        Added to a place, epsilon times the distance in real arithmetic. None is claimed for the
        rounded numbers; a release uses `mechanism`.

    Parameters
    ----------
    epsilon : float
    n : int
    rng : numpy.random.Generator

    Returns
    -------
    float array of shape (n, 2)
    """
    n = checks.integer("n", n, low=0)
    angle = noise.uniform(0, 2 * math.pi, n, rng=rng)
    far = np.sum(noise.exponential(1 / _budget(epsilon), (n, 2), rng=rng), axis=1)
    return far[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def _budget(epsilon):
    return float(checks.within("epsilon", epsilon, *checks.EPSILONS))


# -------------------------------------------------------------------------------------- on a grid


def mechanism(grid, epsilon, times=1):
    """Return the release of a single place on a grid, for a `Ledger`.

    Privacy
        Between places in cells i and j, times epsilon times the distance of these cells' centres;
        exactly. Its cost is `Pure(times)` in the unit of `grid.metric(epsilon)`: releases of one
        place add up. The unit knows epsilon as the nearest float. Public: grid, epsilon, times.
        How long a release takes is not protected.

    Parameters
    ----------
    grid : Grid
    epsilon : int, float or Fraction
        For a distance of 1.
    times : int, float or Fraction

    Returns
    -------
    Mechanism
        It reads two coordinates (see `Grid.cell`) and gives a cell (i, j), an int64 array.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Error
        For a large grid and a small step the mean distance is about 2/(times epsilon), between
        cells. Clamping moves no release farther from the true cell.

    Source
        Points 3 and 4 of the module; planar Laplace noise: Andres and others 2013.
    """
    a, t = _rate(grid, epsilon, times)
    last = np.array([grid.columns - 1, grid.rows - 1])

    def draw(cell, *, rng):
        return np.clip(cell + lattice_noise(a, 1, rng=rng)[0], 0, last)

    unit = grid.metric(epsilon).unit
    return Mechanism(
        name=f"planar geometric mechanism, {float(a):.6g} for a step",
        costs=(Pure(t),),
        neighbours="replace-one",
        unit=unit,
        read=grid.cell,
        draw=draw,
        exact=True,
        sensitivity=Sensitivity(t / a, "l2", "replace-one", unit),  # in cells
    )


def lattice_noise(a, n, *, rng):
    """Draw pairs z of whole numbers with P(z) proportional to exp(-a |z|), exactly.

    Parameters
    ----------
    a : int, float or Fraction
        The budget of one step.
    n : int
    rng : numpy.random.Generator for experiments, noise.SYSTEM for releases

    Returns
    -------
    int64 array of shape (n, 2)

    Source
        Point 4 of the module.
    """
    a = checks.as_fraction("a", checks.within("a", a, *checks.EPSILONS))
    n, found, drawn = checks.integer("n", n, low=0), [], 0
    while drawn < n:
        size = max(_BATCH, min(3 * (n - drawn) // 2, 1 << 16))
        z = noise.discrete_laplace(1 / (_PROPOSED * a), (size, 2), rng=rng)
        found.append(z[_accepted(z, a, rng)])
        drawn += len(found[-1])
    return np.concatenate([np.empty((0, 2), np.int64), *found])[:n]


def _accepted(z, a, rng):
    """Toss a coin of probability exp(-a (|z| - 0.7 |z|_1)) for each row of z (point 4)."""
    far = float(a) * np.hypot(*z.T.astype(float))
    exponent = far - float(a * _PROPOSED) * np.abs(z).sum(axis=1)
    words = bits.words(64, len(z), rng)
    gap = np.exp(-np.maximum(exponent, 0)) - words * 2.0**-64
    accepted = gap > 0
    for i in np.flatnonzero((np.abs(gap) <= _GUARD) | (far >= _NEAR)):
        law = partial(_threshold, int(z[i, 0]), int(z[i, 1]), a)
        accepted[i] = inversion.locate(law, int(words[i]), 64, rng) == 0
    return accepted


def _threshold(i, j, a, b):
    """Enclose 2^b exp(-a (|z| - 0.7 |z|_1)), as `inversion.locate` takes it."""
    digits = b + 2 * max(i.bit_length(), j.bit_length()) + 64
    root = math.isqrt((i * i + j * j) << 2 * digits)
    least, most = (
        max(a * (Fraction(side, 1 << digits) - _PROPOSED * (abs(i) + abs(j))), Fraction(0))
        for side in (root, root + 1)
    )
    return [inversion.exp_enclosure(most, b)[0]], [inversion.exp_enclosure(least, b)[1]]


def law(grid, epsilon, times=1, *, cell=None):
    """Return the law of `mechanism` as a matrix: row x the probabilities of all cells if x is true.

    Parameters
    ----------
    grid : Grid
        K at most 2^11.
    epsilon, times : number
        The budget of a step, times epsilon step, is at least 1/20.
    cell : int, optional
        The number of a cell, if its row alone is wanted.

    Returns
    -------
    float array of shape (K, K), or (K,) for one row
        Right to 1e-12 of itself where it is above 1e-290.
    """
    a = float(_rate(grid, epsilon, times)[0])
    if grid.size > _MATRIX or a < _LEAST:
        raise ValueError(
            f"grid must have at most 2**11 cells and steps of a budget of at least {_LEAST:g}, "
            f"got {grid.size} cells, budget {a:.4g}"
        )
    reach = max(grid.columns, grid.rows) + math.ceil(_LAST / a)
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-a * np.hypot(z[:, None], z))
    weights /= weights.sum()
    if cell is not None:
        if not 0 <= checks.integer("cell", cell) < grid.size:
            raise ValueError(f"cell must be between 0 and {grid.size - 1}, got {cell}")
        i, j = divmod(int(cell), grid.rows)
        column = _folded(weights, reach - i, grid.columns)
        return _folded(column.T, reach - j, grid.rows).T.ravel()
    columns = [_folded(weights, reach - i, grid.columns) for i in range(grid.columns)]
    cells = [_folded(w.T, reach - j, grid.rows).T for w in columns for j in range(grid.rows)]
    return np.array(cells).reshape(grid.size, grid.size)


def _folded(weights, start, count):
    """Cut `count` rows out of a table; the first and the last take what lies beyond."""
    inner = weights[start : start + count].copy()
    inner[0] += weights[:start].sum(axis=0)
    inner[-1] += weights[start + count :].sum(axis=0)
    return inner


def _rate(grid, epsilon, times):
    if not isinstance(grid, Grid):
        raise ValueError(f"grid must be a Grid, got {type(grid).__name__}")
    e = checks.as_fraction("epsilon", checks.within("epsilon", epsilon, *checks.EPSILONS))
    t = checks.as_fraction("times", checks.within("times", times, *checks.EPSILONS))
    a = e * t * checks.as_fraction("step", grid.step)
    checks.within("times epsilon step", a, *checks.EPSILONS)
    return a, t


# ----------------------------------------------------------------------------------- the best law


def optimal(grid, epsilon, prior):
    """Return the law on a small grid whose mean distance from the true cell is least.

    Privacy
        As a law, epsilon times the distance of the centres for every pair of cells, whatever the
        prior. A draw from it is rounded: for experiments.

    Parameters
    ----------
    grid : Grid
        K at most 49.
    epsilon : number
        The budget of a step is at most 20.
    prior : array of shape (K,)
        Public: how probable each cell is as the true one; weights of which one is positive.

    Returns
    -------
    float array of shape (K, K)
        Row x is the law if x is the true cell. A little of the uniform law is mixed in, as much as
        makes up for the tolerance of the solver.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Error
        prior @ (law * distances).sum(axis=1), the least that the solver reaches: its tolerance is
        about 1e-7, and for large budgets of a step (5 and more for 25 cells and a skewed prior) it
        may stop above the least or give up. It is never more than that of `law` with the best
        guess after it, nor, where `law` has no matrix, than that of a constant, but for what is
        mixed in: less than 1e-12/a of the largest distance.
        It takes up to a minute for 49 cells.

    Source
        Bordenabe, Chatzikokolakis, Palamidessi 2014; linear program by HiGHS (scipy). A pair with a
        cell on the straight line between its two needs no inequality of its own.
    """
    from scipy.optimize import linprog

    a = float(_rate(grid, epsilon, 1)[0])
    if grid.size > _PROGRAM or a > _MOST:
        raise ValueError(
            f"grid must have at most {_PROGRAM} cells and steps of a budget of at most {_MOST:g}, "
            f"got {grid.size} cells, budget {a:.4g}"
        )
    p = checks.floats("prior", prior, 1e-50, 1e50, zero=True)
    if p.shape != (grid.size,) or not p.any():
        raise ValueError(f"prior must have shape ({grid.size},) and a positive sum, got {prior!r}")
    p, distances = p / p.sum(), grid.distances
    factors, cost = np.exp(float(epsilon) * distances), p[:, None] * distances
    known = _guessed(grid, epsilon, p) if a >= _LEAST else _constant(cost)
    laws = [_within_promise(known, factors)]
    bound, of_rows, ones = _inequalities(grid, factors), _rows(grid.size), np.ones(grid.size)
    for method in ("highs", "highs-ipm"):  # the second one only where the first one fails
        found = linprog(
            cost.ravel(), bound, np.zeros(bound.shape[0]), of_rows, ones, (0, 1), method
        )
        if found.x is not None:
            laws.append(_within_promise(found.x.reshape(grid.size, -1), factors))
        errors = [np.sum(cost * law) for law in laws]
        if found.status == 0 and errors[-1] <= errors[0]:
            break
    return laws[int(np.argmin(errors))]


def _guessed(grid, epsilon, prior):
    """The planar law, and then the guess with the smallest expected distance: a safe beginning."""
    planar = law(grid, epsilon)
    guess = (grid.distances @ (prior[:, None] * planar)).argmin(axis=0)
    return planar @ np.eye(grid.size)[guess]


def _constant(cost):
    """The law that publishes one cell, whatever is true."""
    return np.tile(np.eye(len(cost))[cost.sum(axis=0).argmin()], (len(cost), 1))


def _inequalities(grid, factors):
    """P(o | x) - factor(x, y) P(o | y) <= 0, a row for each o and each pair without a cell
    between, unless the factor is so large that what is mixed in afterwards is enough.
    """
    from scipy.sparse import csr_array

    K = grid.size
    i, j = np.divmod(np.arange(K), grid.rows)
    straight = np.gcd(np.abs(i[:, None] - i), np.abs(j[:, None] - j)) == 1
    pairs = _pairs(straight & (factors < _FAR))
    x, y, o = (side.ravel() for side in np.broadcast_arrays(*pairs, np.arange(K)))
    row = np.arange(x.size)
    entries = np.concatenate([np.ones(x.size), -factors[x, y]])
    at = np.concatenate([row, row]), np.concatenate([x * K + o, y * K + o])
    return csr_array((entries, at), shape=(x.size, K * K))


def _pairs(table):
    return tuple(side[:, None] for side in np.nonzero(table))


def _rows(K):
    from scipy.sparse import csr_array, eye_array, kron

    return csr_array(kron(eye_array(K), np.ones((1, K))))


def _within_promise(law, factors):
    """Mix in as much of the uniform law as the worst pair needs to keep the promise."""
    K = len(law)
    law = np.clip(law, 0, None)
    law /= law.sum(axis=1, keepdims=True)
    over = (law[:, None] - factors[:, :, None] * law).max(axis=2).clip(0) + 1e-14
    apart = ~np.eye(K, dtype=bool)
    share = (K * over[apart] / (K * over[apart] + factors[apart] - 1)).max()
    return (1 - share) * law + share / K
