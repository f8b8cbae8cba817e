"""MWEM: a public guess of a table, corrected where a private choice finds it worst.

Letters: x the private counts of N cells, n their sum; q_1, ..., q_m the queries, each the number
of persons in a set of cells; y a guess, positive, of sum n; T rounds; s the step; epsilon the
budget of all rounds; a = q(x) - q(y) the error of a guess in a query, z the noise of a count.

Ranges: N 1 to 2^20, m 1 to 2^20, T 1 to 1000; counts are read between 0 and 2^40, entries of a
guess lie between 2^-50 and 2^40; s between 0 and 8; up to 1000 sweeps; epsilon/(2T) 1e-6 to 1e3.

1. Why it is private. Given what was released before, the guess is the same on both neighbours, and
   so are its answers, rounded to whole persons. A person is in one cell and moves an answer of the
   table by at most 1, under both relations; so the score |q(x) - round(q(y))| moves by at most 1,
   too, up or down. Each round chooses a query with epsilon/(2T) and counts it with noise of scale
   2T/epsilon. All else is computed from what was released. The sum of the first guess is public.
   This needs whole-numbered scores that never wrap around: answers of a guess are cut off at 0 and
   2^60 before they become integers.
2. One correction multiplies the cells of the query by exp(h), h = s (r - q(y))/(2n), and then all
   cells by a number that makes the sum n again. Here r is the measurement q(x) + z, cut off at 0
   and n: that moves it nearer to q(x), or not at all. The paper has s = 1.
3. Progress. D(y), the sum of x/n ln(x/y), is never negative. By Hoeffding's lemma a correction
   lowers it by h a/n - ln(1 + (exp(h) - 1) q(y)/n) + h q(y)/n >= h a/n - h^2/8, and that is s (a^2
   - z^2)/(4 n^2) + s (8 - s) (a + z)^2/(32 n^2). For 0 < s <= 8 the last term is not negative. So
   the mean of a^2 over T rounds is at most 4 n^2 D/(s T) plus the largest z^2, with D = D(first
   guess) at most ln N for a uniform one (Hardt, Ligett and McSherry have exp(h) <= 1 + h + h^2 for
   queries between -1 and 1, and s = 1).
4. Ranges that were measured cut the line into pieces on which all corrections have one factor. A
   sweep over t measurements works on at most 2 t + 1 pieces, not on N cells; for other sets the
   pieces are the cells that lie in the same measured sets.
5. Measurements that contradict each other push a cell towards 0, as far as rounds and sweeps go. A
   cell is kept above 2^-500 of all persons, so a guess stays positive and can grow again, and each
   correction divides by the sum that the cells really have.
"""

import math
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from dputils import checks, gaps, geometric, private, selection
from dputils.accounting.costs import Pure
from dputils.accounting.ledger import Ledger
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import of_count, of_scores

_MOST = 1 << 20  # cells, queries
_PERSONS = 1 << 40  # in a cell
_ROUNDS = _SWEEPS = 1000
_FLOOR = 2.0**-500  # of all persons: no cell of a guess has less


@dataclass(frozen=True, eq=False)
class Ranges:
    """Queries that count the persons in the cells start, ..., stop - 1 of a line.

    Parameters
    ----------
    starts, stops : integer arrays of shape (m,)
        0 <= start < stop <= cells.
    cells : int
        N.
    """

    starts: np.ndarray
    stops: np.ndarray
    cells: int

    def __post_init__(self):
        """Check the fields, and keep copies of them."""
        _at_most("cells", checks.integer("cells", self.cells, low=1))
        ends = _ends("starts", self.starts), _ends("stops", self.stops)
        if ends[0].shape != ends[1].shape:
            raise ValueError(f"stops must have the shape {ends[0].shape}, got {ends[1].shape}")
        if (ends[0] < 0).any() or (ends[0] >= ends[1]).any() or (ends[1] > self.cells).any():
            raise ValueError(f"stops must lie above starts, both from 0 to {self.cells}")
        object.__setattr__(self, "starts", ends[0])
        object.__setattr__(self, "stops", ends[1])

    def __len__(self):
        """Return m."""
        return self.starts.size

    def answers(self, x):
        """Return the answers on N counts, or on a guess: array of shape (m,)."""
        up_to = np.concatenate([[0], np.cumsum(x)])
        return up_to[self.stops] - up_to[self.starts]

    def pieces(self, chosen):
        """Return the piece of each cell, and which pieces the chosen queries hold (point 4).

        Returns
        -------
        (integer array of shape (N,), bool array of shape (len(chosen), pieces))
        """
        starts, stops = self.starts[chosen], self.stops[chosen]
        cuts = np.unique(np.concatenate([[0], starts, stops]))
        cuts = cuts[cuts < self.cells]
        labels = np.repeat(np.arange(cuts.size), np.diff(cuts, append=self.cells))
        return labels, (starts[:, None] <= cuts) & (cuts < stops[:, None])


@dataclass(frozen=True, eq=False)
class Subsets:
    """Queries that count the persons in any sets of cells.

    Parameters
    ----------
    inside : bool array of shape (m, N)
    """

    inside: np.ndarray

    def __post_init__(self):
        """Check the field, and keep a copy of it."""
        inside = np.asarray(self.inside)
        if inside.ndim != 2 or inside.dtype != bool or not inside.size:
            kind = f"type {inside.dtype} and shape {inside.shape}"
            raise ValueError(f"inside must be bool with two axes, not empty, got {kind}")
        for size in inside.shape:
            _at_most("inside", size)
        object.__setattr__(self, "inside", inside.copy())

    @property
    def cells(self):
        """N."""
        return self.inside.shape[1]

    def __len__(self):
        """Return m."""
        return len(self.inside)

    def answers(self, x):
        """Return the answers on N counts, or on a guess: array of shape (m,)."""
        return self.inside @ np.asarray(x)

    def pieces(self, chosen):
        """Return the piece of each cell, and which pieces the chosen queries hold (point 4)."""
        inside, labels = np.unique(self.inside[chosen], axis=1, return_inverse=True)
        return labels.ravel(), inside


@dataclass(frozen=True, eq=False)
class Rule:
    """How a guess follows the measurements: public, and the same when it is computed again.

    Parameters
    ----------
    queries : Ranges or Subsets
    start : array of shape (N,)
        The first guess, positive; its sum is taken for the number n of persons. It must not come
        from the table unless that was paid for.
    sweeps : int
        0: a round corrects once, by its own measurement, as in the paper. Else: that many times by
        all measurements so far, in their order.
    step : number
        s, above 0 and at most 8; 1 is the paper's (point 2 of the module).
    """

    queries: Ranges | Subsets
    start: np.ndarray
    sweeps: int = 0
    step: float = 1

    def __post_init__(self):
        """Check the fields, and keep a copy of the first guess."""
        if not isinstance(self.queries, (Ranges, Subsets)):
            raise ValueError(f"queries must be Ranges or Subsets, got {self.queries!r}")
        start = checks.floats("start", self.start, 2.0**-50, float(_PERSONS))
        if start.shape != (self.queries.cells,):
            raise ValueError(f"start must have shape ({self.queries.cells},), got {start.shape}")
        checks.within("sweeps", checks.integer("sweeps", self.sweeps, low=0), 0, _SWEEPS)
        checks.within("step", checks.positive("step", self.step), 2.0**-50, 8)
        object.__setattr__(self, "start", start.copy())


def corrected(guess, inside, measured, step=1):
    """Return a guess after one correction by one measured query: point 2 of the module.

    Privacy
        Costs nothing: it reads what was released.

    Parameters
    ----------
    guess : array of shape (N,)
        Positive.
    inside : array of shape (N,)
        True or 1 for the cells that the query counts.
    measured : number
        Its noisy answer.
    step : number
        s.

    Returns
    -------
    array of shape (N,)
        Of the same sum.
    """
    y, inside, n = np.asarray(guess, dtype=float), np.asarray(inside, dtype=bool), np.sum(guess)
    h = step * (np.clip(measured, 0, n) - y[inside].sum()) / (2 * n)
    y = np.where(inside, y * np.exp(h), y)
    return np.maximum(y * (n / y.sum()), n * _FLOOR)


def estimate(rule, released, *, average=False):
    """Return the guess that follows from what was released.

    Privacy
        Costs nothing: it reads what was released and what is public. Whatever the rule of the
        release was, any other rule may be used here.

    Parameters
    ----------
    rule : Rule
    released : integer array of shape (T, 2)
        Of `mechanism`; its first t rows give the guess after t rounds.
    average : bool
        The mean of the guesses before each round, of which the theorem speaks (`accuracy`), in
        place of the last one.

    Returns
    -------
    array of shape (N,)
        Positive, of the sum of the first guess.
    """
    released = _released(rule.queries, released)
    y, total = rule.start, np.zeros(rule.start.size)
    for t in range(1, len(released) + 1):
        total += y
        y = _followed(rule, y, released[:t])
    return total / len(released) if average and len(released) else y.copy()


def mechanism(rule, rounds, epsilon, neighbours, *, unit="row", repeats=True):
    """Return MWEM, for a `Ledger`: the queries of all rounds, and their noisy counts.

    Privacy
        epsilon-differentially private, exactly, for a `unit` that is in one cell: point 1 of the
        module. Public: the rule, with the sum of its first guess; the number of rounds, epsilon.
        Under replace-one the number of persons is public anyway; under add-remove it must be public
        for another reason, or be the answer of an earlier release.

    Parameters
    ----------
    rule : Rule
    rounds : int
        T.
    epsilon : int, float or Fraction
        Of all rounds together; a float is read as the decimal that prints it.
    neighbours : {"add-remove", "replace-one"}
    unit : str
        What is added, removed or replaced.
    repeats : bool
        Whether a query may be chosen again. If not, there must be at least T queries.

    Returns
    -------
    Mechanism
        Exact. From the counts, integers of shape (N,), to an int64 array of shape (T, 2): in each
        round the number of the chosen query, and its count plus geometric noise of scale
        2T/epsilon. `estimate` makes a guess of it. Counts are cut off at 0 and 2^40; what is
        missing counts as 0. A query is chosen by permute-and-flip, which is exact.

    Error
        See `accuracy`.

    Source
        Hardt, Ligett, McSherry 2012, Figure 1; points 1 to 3 of the module.
    """
    if not isinstance(rule, Rule):
        raise ValueError(f"rule must be a Rule, got {rule!r}")
    T, m = _rounds(rounds), len(rule.queries)
    if not isinstance(repeats, (bool, np.bool_)):
        raise ValueError(f"repeats must be True or False, got {repeats!r}")
    if not repeats and T > m:
        raise ValueError(f"rounds must be at most the number of queries, {m}, got {T}")
    choose, measure = _parts(T, epsilon, neighbours, unit)
    name = (
        f"MWEM, {m} queries, {rule.queries.cells} cells, {T} rounds, {rule.sweeps} sweeps, step "
        f"{float(rule.step):g}, with{'' if repeats else 'out'} repeats"
    )
    return Mechanism(
        name=name,
        costs=(Pure(epsilon),),
        neighbours=choose.neighbours,
        unit=choose.unit,
        read=partial(_read, rule.queries),
        draw=partial(_draw, rule, T, epsilon, repeats, choose, measure),
        exact=True,
        sensitivity=choose.sensitivity,
    )


def accuracy(rule, rounds, epsilon, beta):
    """Return what the largest error of the averaged guess exceeds with probability at most beta.

    It is sqrt(4 n^2 D/(s T) + z^2) + c + 1, with D = ln(n/min(start)), z a bound on all T noises
    and c on how far each chosen query is from the worst, by a union bound; 1 for the rounding of
    the answers of the guess, if n is so far below 2^53 that the sums of a guess have errors below a
    person. In persons.

    Parameters
    ----------
    rule : Rule
        Without sweeps: the proof is about one correction a round. Its first guess must have the
        sum of the counts, and a query may be chosen again.
    rounds : int
    epsilon : int, float or Fraction
    beta : float

    Returns
    -------
    float

    Source
        Hardt, Ligett, McSherry 2012, Theorem 2.2, with the step of point 3 and exact tails.
    """
    if rule.sweeps:
        raise ValueError(f"sweeps must be 0 for the theorem, got {rule.sweeps}")
    T, m, n = _rounds(rounds), len(rule.queries), float(rule.start.sum())
    _, measure = _parts(T, epsilon, "replace-one", "row")
    scale = 2 * T / float(epsilon)
    z = geometric.accuracy(scale, checks.probability("beta", beta) / 2, T)
    c = 2 * scale * max(0.0, math.log(2 * (m - 1) * T / beta)) if m > 1 else 0.0
    D = math.log(n / rule.start.min())
    return math.sqrt(4 * n**2 * D / (float(rule.step) * T) + z**2) + c + 1


def _parts(rounds, epsilon, neighbours, unit):
    """Return the two mechanisms of each round, of half of epsilon/T each."""
    half = checks.as_fraction("epsilon", checks.epsilon(epsilon)) / (2 * rounds)
    checks.within("epsilon/(2 rounds)", half, *checks.EPSILONS)
    choose = selection.mechanism(of_scores(1, neighbours, unit=unit), half)
    return choose, geometric.mechanism(of_count(neighbours, unit=unit), half)


def _draw(rule, rounds, epsilon, repeats, choose, measure, exact, *, rng):
    plan = [(f"{what} {t}", m) for t in range(rounds) for what, m in _of_round(choose, measure)]
    ledger = Ledger(epsilon, neighbours=choose.neighbours, unit=choose.unit, plan=plan)
    y, left = rule.start, np.arange(len(rule.queries))
    released = np.zeros((rounds, 2), dtype=np.int64)
    for t in range(rounds):
        scores = np.abs(exact - _expected(rule.queries, y))[left]
        at = ledger.release(f"choice {t}", choose, scores, rng=rng)
        q = left[at]
        released[t] = q, ledger.release(f"count {t}", measure, int(exact[q]), rng=rng)
        left = left if repeats else np.delete(left, at)
        y = _followed(rule, y, released[: t + 1])
    return released


def _expected(queries, y):
    """Return the answers of a guess as integers from 0 to 2^60, whatever the guess is."""
    most = float(_MOST * _PERSONS)
    answers = np.nan_to_num(np.rint(queries.answers(y)), nan=0, posinf=most, neginf=0)
    return np.clip(answers, 0, most).astype(np.int64)


def _of_round(choose, measure):
    return ("choice", choose), ("count", measure)


def _followed(rule, y, released):
    """Return the guess after one more round, whose release is the last row."""
    rows = released if rule.sweeps else released[-1:]
    labels, inside = rule.queries.pieces(rows[:, 0])
    n = rule.start.sum()
    before = np.bincount(labels, weights=y, minlength=inside.shape[1])
    after, r = before.copy(), np.clip(rows[:, 1], 0, n).astype(float)
    _compiled()(after, inside.astype(float), r, n, float(rule.step), max(rule.sweeps, 1), _FLOOR)
    return np.maximum(y * (after / before)[labels], n * _FLOOR)


def _sweep(weights, inside, measured, n, step, sweeps, floor):
    """Correct the pieces of a guess in place; `corrected` is the plain twin (points 4 and 5)."""
    for _ in range(sweeps):
        for k in range(measured.size):
            held = others = 0.0
            for i in range(weights.size):
                held += weights[i] * inside[k, i]
                others += weights[i] * (1 - inside[k, i])
            factor = math.exp(step * (measured[k] - held) / (2 * n))
            scale = n / (held * factor + others)
            for i in range(weights.size):
                weights[i] *= scale * (1 + inside[k, i] * (factor - 1))
                weights[i] = max(weights[i], n * floor)


@cache
def _compiled():
    import numba

    return numba.njit(cache=True)(_sweep)


# ------------------------------------------------------------------------------------------ reading


def _read(queries, counts):
    """Return the exact answers, whole numbers of shape (m,); refuse a public type or shape only."""
    cells = private.column("counts", counts, private.INTEGERS)
    if cells.shape != (queries.cells,):
        raise ValueError(f"counts must have shape ({queries.cells},), got {cells.shape}")
    return queries.answers(np.clip(gaps.whole_steps(cells), 0, _PERSONS))


def _released(queries, released):
    array = np.asarray(released)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        kind = f"type {array.dtype} and shape {array.shape}"
        raise ValueError(f"released must be integers of shape (T, 2), got {kind}")
    if array.size and not 0 <= array[:, 0].min() <= array[:, 0].max() < len(queries):
        raise ValueError(f"released must name queries from 0 to {len(queries) - 1}")
    return array


def _ends(name, value):
    array = np.asarray(value)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        kind = f"type {array.dtype} and shape {array.shape}"
        raise ValueError(f"{name} must be integers of shape (m,), not empty, got {kind}")
    _at_most(name, array.size)
    return array.astype(np.int64)


def _at_most(name, size):
    if size > _MOST:
        raise ValueError(f"{name} must be at most 2**20 long, got {size}")


def _rounds(rounds):
    return checks.within("rounds", checks.integer("rounds", rounds, low=1), 1, _ROUNDS)


# ------------------------------------------------------------------------------------- a paid start


def spread(totals, width, cells, n):
    """Return a first guess from noisy totals of blocks: evenly in each block.

    Privacy
        Computed from what was released and is public; the totals must have been paid for.

    Parameters
    ----------
    totals : array of shape (ceil(cells/width),)
        Noisy counts of blocks of `width` cells, the last block shorter if they do not fit; at most
        2^70 in absolute value. They are cut off at 1/2 and n, so that the guess is positive.
    width, cells : int
    n : number
        Of persons, public: the sum of the guess.

    Returns
    -------
    array of shape (cells,)
    """
    N = checks.within("cells", checks.integer("cells", cells, low=1), 1, _MOST)
    width = checks.within("width", checks.integer("width", width, low=1), 1, N)
    n = checks.within("n", checks.positive("n", n), 1, float(_PERSONS))
    totals = checks.floats("totals", totals, -(2.0**70), 2.0**70)
    starts = np.arange(0, N, width)
    if totals.shape != starts.shape:
        raise ValueError(f"totals must be {starts.size} numbers, got {totals!r}")
    sizes = np.diff(starts, append=N)
    y = np.repeat(np.clip(totals, 0.5, n) / sizes, sizes)
    return y * (n / y.sum())
