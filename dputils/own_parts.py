"""The releases of a reader's own table, one kind after the other, each made of `opendp`'s
measurements; `own_release` plans, checks and draws them.

Letters: d the distance of neighbouring tables in rows, K the number of candidates.

1. Whole numbers. A value is clamped to its bounds, rounded to a public grid, and counted in steps
   from the middle of the bounds; opendp adds its noise to sums of these whole numbers. No
   measurement here needs opendp's feature "idealized-numerics" (formerly "floating-point").
2. Scales. The noise of a count or a sum has the scale d times the most that one row moves it,
   divided by epsilon. A quantile chooses among K candidates by their scores, which one row moves by
   max(a, 1 - a) at most, for the rank a; its scale is twice d times that, divided by epsilon. Each
   is rounded up by half of `TOLERANCE`.
3. Intervals say where the exact answer of the rows that counted lies: they account for the noise,
   not for the sampling of people. They are computed from public facts and released numbers. Those
   of counts and means hold for any table. What holds of a quantile is a number of rows: with noise
   of scale b the score of the chosen candidate is more than b ln(K/beta) below that of the best
   candidate with probability beta at most. How far the best candidate is, nobody is told: all
   rows may lie between two candidates. Intervals of coefficients are simulated from the released
   sums and so approximate.
4. The ridge of a regression is as large as the noise of one sum. It does not bound what is
   released: where the regressors vary little within their bounds, or go together, noise can leave
   a nearly singular matrix, and coefficients far from those without noise, in either direction.
5. The check. What is not read as a number, a decimal comma say, is replaced by the rule for what is
   missing, and a thousand replaced values give a narrow interval around a wrong mean. So where the
   answer does not show it, the share `CHECK` of its epsilon pays for a tally of two: the rows whose
   numbers were read, and those of which one was not. That is each mean, quantile, regression and
   histogram whose missing numbers are filled in, and a quantile always.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, geometric, noise, own_table, private
from dputils.accounting.costs import Pure
from dputils.accounting.mechanism import Mechanism

TOLERANCE = Fraction(1, 10**9)
STEPS = 1 << 20  # on each side of the middle of the bounds: so many or more
FINEST = 1 << 40  # steps at most: sums of 2^22 rows fit 64 bits
COARSE = 1 << 10  # steps for regressions, whose products have the square of it
CANDIDATES = 1000  # steps between those of a quantile, or the next multiple of whole bounds
DRAWS = 4000  # of the noise, for the intervals of a regression
OTHER = "(any other)"
COUNTED = "rows that counted in it"
CHECK = Fraction(1, 10)  # of the epsilon of an answer, where its numbers are checked
READ = "check: rows whose numbers were read"
UNREAD = "check: rows with a number not read"


@dataclass(frozen=True)
class Scale:
    """A column's public grid: `half` steps on each side of the middle of its bounds.

    Parameters
    ----------
    lower, upper, grid : Fraction
    half : int
    """

    lower: Fraction
    upper: Fraction
    grid: Fraction
    half: int

    @property
    def middle(self):
        """The middle of the bounds, a fraction."""
        return (self.lower + self.upper) / 2

    def steps(self, values):
        """Return values as whole steps from the middle, between -half and half; NaN as -half."""
        offset = int(self.middle / self.grid)
        return private.to_grid(values, self.lower, self.upper, self.grid) - offset

    def coarse(self, steps):
        """Return steps as whole steps of half widths over `COARSE`, rounded row by row."""
        return (2 * COARSE * steps + self.half) // (2 * self.half)

    def value(self, steps):
        """Return the value of a number of steps, which need not be whole, as a float."""
        return float(self.middle) + float(self.grid) * float(steps)


@dataclass(frozen=True)
class Part:
    """One measurement of opendp within a release.

    Parameters
    ----------
    what : str
    moves : int or Fraction
        The most that one row moves the answer, or the scores of a quantile.
    epsilon : Fraction
        What it may cost.
    scale : float
        Of its noise, by the book's formula.
    measurement : opendp measurement
    read : function of the table's columns
        Returns the whole numbers that the measurement takes.
    """

    what: str
    moves: int | Fraction
    epsilon: Fraction
    scale: float
    measurement: object
    read: Callable


@dataclass(frozen=True)
class Release:
    """One line of the plan.

    Parameters
    ----------
    label : str
    epsilon : Fraction
    parts : tuple of Part
    mechanism : Mechanism
        For a `Ledger`; it reads the columns of `own_table.rows` and draws the answers of the parts.
    noise : float
        The most rows by which the noise is off, with the plan's confidence.
    answer : function of what was drawn
        Returns the rows of the report.
    kind : str
        Of the kinds that can be asked for.
    asked : str
        What was understood: categories, edges, bounds.
    reach : function of an int
        Returns in words how far the noise may reach where so many rows count.
    """

    label: str
    epsilon: Fraction
    parts: tuple
    mechanism: Mechanism
    noise: float
    answer: Callable
    kind: str
    asked: str
    reach: Callable


def scale(column, lower, upper):
    """Return the public grid of a column: its bounds, and the middle of them, are multiples.

    Parameters
    ----------
    column : str
        For errors.
    lower, upper : Fraction

    Raises
    ------
    ValueError
        If the bounds are out of order, too large, or too fine.
    """
    if not lower < upper:
        raise ValueError(f"bounds of {column!r} must increase, got {float(lower)}, {float(upper)}")
    grid = Fraction(1, 2 * math.lcm(lower.denominator, upper.denominator))
    while (upper - lower) / 2 < STEPS * grid:
        grid /= 2
    ends = (lower, upper, (lower + upper) / 2)
    while (upper - lower) / 2 > 2 * STEPS * grid and all(_is_whole(x / grid / 2) for x in ends):
        grid *= 2
    half = (upper - lower) / 2 / grid
    if half > FINEST or max(abs(lower), abs(upper)) > grid * 2**53 or not 1e-99 < grid:
        got = f"{float(lower):.17g}, {float(upper):.17g}"
        raise ValueError(
            f"bounds of {column!r} must be nearer to 0 or to each other, or have fewer digits: "
            f"they are too far apart for the whole steps of their grid, got {got}"
        )
    return Scale(lower, upper, grid, int(half))


def _is_whole(number):
    return number.denominator == 1


# --------------------------------------------------------------------------- releases of each kind


@dataclass(frozen=True)
class Maker:
    """Makes each kind of release from the public facts.

    Parameters
    ----------
    distance : int
        d.
    neighbours : {"add-remove", "replace-one"}
    missing : {"leave out", "lower bound", "middle"}
    scales : dict
        Column -> Scale, of those with bounds.
    beta : float
        The probability with which an interval misses.
    """

    distance: int
    neighbours: str
    missing: str
    scales: dict
    beta: float

    def bounded(self, name, column, rest=()):
        """Refuse a column without bounds, or with more than its name."""
        if rest:
            raise ValueError(f"{name} of {column!r} takes no more than the column, got {rest}")
        if column not in self.scales:
            more = ": between columns stands a semicolon" * ("," in column)
            raise ValueError(f"bounds must be given for {column!r}, which {name} uses{more}")

    def count(self, label, epsilon):
        """Release the number of rows."""
        part = self._counted("number of rows", epsilon, lambda table: [0] * _length(table))
        within = self._tail(part)
        answer = partial(self._one_count, part)
        return self._release(label, (part,), within, answer, "count", "", partial(_in_rows, within))

    def counts(self, column, names, label, epsilon):
        """Release the rows of each category, and of any other."""
        places = {name: i for i, name in enumerate(names)}
        part = self._tallied(
            f"counts by {column}",
            epsilon,
            len(names) + 1,
            lambda table: [places.get(text, len(names)) for text in table[column]],
        )
        asked = " | ".join([*names, OTHER])
        return self._tally(label, part, [*names, OTHER], "counts", asked)

    def histogram(self, column, edges, label, epsilon):
        """Release the rows between edges; beyond them, the nearest bin."""
        floats = np.array([float(edge) for edge in edges])
        middle = float((edges[0] + edges[-1]) / 2)
        share, check = self._check((column,), epsilon)
        part = self._tallied(
            f"histogram of {column}",
            share,
            len(edges) - 1,
            lambda table: _bins(self._filled(table[column], floats[0], middle), floats),
        )
        ends = [plain(edge) for edge in edges]
        names = [f"{a} to below {b}" for a, b in zip(ends, ends[1:])]
        names[-1] = f"{ends[-2]} to {ends[-1]}"
        return self._tally(label, part, names, "histogram", " | ".join(names), check)

    def mean(self, column, label, epsilon):
        """Release the mean of a clamped column: half the budget for its sum, half for its count."""
        scale = self.scales[column]
        read = partial(self._steps, (column,), (scale,))
        share, check = self._check((column,), epsilon)
        total = self._summed(
            f"sum of {column}", share / 2, scale.half, lambda table: read(table)[0].tolist()
        )
        number = self._counted(
            f"count of {column}", share / 2, lambda table: [0] * len(read(table)[0])
        )
        tails = [self._tail(part, 2) for part in (total, number)]
        rows = tails[0] / scale.half + tails[1]
        answer, reach = partial(_mean_of, scale, tails), partial(_in_unit, scale, rows, tails[1])
        asked = _between(scale)
        return self._release(label, (total, number), rows, answer, "mean", asked, reach, check)

    def quantile(self, column, alpha, label, epsilon):
        """Release one quantile of a clamped column, among public candidates."""
        scale = self.scales[column]
        candidates = _candidates(scale)
        share, check = self._check((column,), epsilon, always=True)
        part = self._chosen(column, alpha, share, scale, candidates)
        rows = part.scale * math.log(len(candidates) / self.beta)
        apart = float((scale.upper - scale.lower) / (len(candidates) - 1))
        answer, reach = partial(_quantile_of, scale, rows, apart), partial(_in_ranks, alpha, rows)
        asked = _between(scale)
        return self._release(label, (part,), rows, answer, "quantile", asked, reach, check)

    def regression(self, columns, label, epsilon):
        """Release ridge coefficients from a count, sums and sums of products, equal shares each."""
        scales = [self.scales[column] for column in columns]
        read = partial(self._coarse_steps, columns, scales)
        pairs = [(i, j) for j in range(-1, len(columns)) for i in range(-1, j + 1)][:-1]
        share, check = self._check(columns, epsilon)
        share /= len(pairs)
        parts = tuple(
            self._product(columns, pair, share, partial(_products, read, pair)) for pair in pairs
        )
        rows = max(self._tail(p, len(parts)) / float(p.moves) for p in parts)
        number = self._tail(parts[0])
        answer = partial(_fit_of, columns, scales, pairs, parts, self.beta, number)
        asked = "; ".join(f"{name} {_between(s)}" for name, s in zip(columns, scales))
        reach = partial(_in_rows, rows)
        return self._release(label, parts, rows, answer, "regression", asked, reach, check)

    # ---- measurements of opendp, at the scale of the book's formula

    def _counted(self, what, epsilon, read):
        dp, space = _opendp()
        scale = self._scale(what, 1, epsilon)
        made = dp.t.make_count(*space, TO="i64") >> dp.m.then_laplace(scale=scale)
        return Part(what, 1, epsilon, scale, made, read)

    def _tallied(self, what, epsilon, bins, read):
        dp, space = _opendp()
        scale, places = self._scale(what, 1, epsilon), list(range(bins))
        tally = dp.t.make_count_by_categories(
            *space, categories=places, null_category=False, TOA="i64"
        )
        return Part(what, 1, epsilon, scale, tally >> dp.m.then_laplace(scale=scale), read)

    def _summed(self, what, epsilon, most, read, least=None):
        dp, space = _opendp()
        scale = self._scale(what, most, epsilon)
        ends = (-most if least is None else least, most)
        total = dp.t.make_clamp(*space, ends) >> dp.t.then_sum()
        return Part(what, most, epsilon, scale, total >> dp.m.then_laplace(scale=scale), read)

    def _product(self, columns, pair, epsilon, read):
        i, j = pair
        if j < 0:
            return self._counted("number of rows", epsilon, lambda table: [0] * len(read(table)))
        if i < 0:
            return self._summed(f"sum of {columns[j]}", epsilon, COARSE, read)
        least = 0 if i == j else None
        what = f"sum of {columns[i]} times {columns[j]}"
        return self._summed(what, epsilon, COARSE**2, read, least)

    def _chosen(self, column, alpha, epsilon, scale, candidates):
        dp, space = _opendp()
        moves = max(alpha, 1 - alpha)
        what = f"quantile of {column}"
        b = self._scale(what, 2 * moves, epsilon)
        made = dp.t.make_clamp(*space, (-scale.half, scale.half)) >> dp.m.then_private_quantile(
            dp.max_divergence(), candidates=candidates, alpha=float(alpha), scale=b
        )
        read = partial(self._steps, (column,), (scale,))
        return Part(what, moves, epsilon, b, made, lambda table: read(table)[0].tolist())

    def _scale(self, what, moves, epsilon):
        """Return the scale of point 2: distance times sensitivity over epsilon, a little more."""
        exact = self.distance * Fraction(moves) / epsilon * (1 + TOLERANCE / 2)
        if not checks.STEPS[0] < exact < checks.STEPS[1]:
            raise ValueError(
                f"epsilon of the {what} must suit its bounds and rows_per_person, got "
                f"{float(epsilon):.3g} and a noise of {float(exact):.3g} steps of the public grid, "
                "where 2**-50 to 2**50 are drawn; narrower bounds of fewer digits help"
            )
        return float(exact)

    # ---- from texts to whole numbers

    def _filled(self, texts, lower, middle):
        """Return numbers with what is missing mapped by the rule; left out or filled in."""
        values = own_table.numbers(texts)
        gone = np.isnan(values)
        if self.missing == "leave out":
            return values[~gone]
        return np.where(gone, lower if self.missing == "lower bound" else middle, values)

    def _steps(self, columns, scales, table):
        """Return columns in steps, an int64 array each; rows are left out in all of them."""
        values = [own_table.numbers(table[column]) for column in columns]
        if self.missing == "leave out":
            whole = ~np.any([np.isnan(column) for column in values], axis=0)
            values = [column[whole] for column in values]
        else:
            low = self.missing == "lower bound"
            values = [
                np.where(np.isnan(v), float(s.lower if low else s.middle), v)
                for v, s in zip(values, scales)
            ]
        return [scale.steps(column) for scale, column in zip(scales, values)]

    def _coarse_steps(self, columns, scales, table):
        steps = self._steps(columns, scales, table)
        return [scale.coarse(column) for scale, column in zip(scales, steps)]

    # ---- a release

    def _check(self, columns, epsilon, *, always=False):
        """Return what of epsilon is left for the answer, and the parts of the check, one or none:
        point 5 of the module.
        """
        if self.missing == "leave out" and not always:
            return epsilon, ()
        what = f"rows read of {', '.join(columns)}"
        return epsilon * (1 - CHECK), (
            self._tallied(what, epsilon * CHECK, 2, partial(_unread, columns)),
        )

    def _release(self, label, parts, rows, answer, kind, asked, reach, check=()):
        if check:
            answer = partial(_checked, answer, geometric.accuracy(check[0].scale, self.beta, 2))
            parts = (*parts, *check)
        epsilon = sum(part.epsilon for part in parts)
        mechanism = Mechanism(
            name=f"opendp: {', '.join(f'{p.what} at scale {p.scale:.6g}' for p in parts)}",
            costs=(Pure(epsilon),),
            neighbours=self.neighbours,
            unit="person",
            read=lambda table: [part.read(table) for part in parts],
            draw=partial(_draw, parts),
            exact=True,
        )
        return Release(label, epsilon, parts, mechanism, float(rows), answer, kind, asked, reach)

    def _tail(self, part, among=1):
        """Return what noise of a part exceeds with probability beta/among at most, whole steps."""
        return geometric.accuracy(part.scale, self.beta / among)

    def _tally(self, label, part, names, kind, asked, check=()):
        within = geometric.accuracy(part.scale, self.beta, len(names))
        answer, reach = partial(_tally_of, names, within), partial(_in_rows, within)
        return self._release(label, (part,), within, answer, kind, asked, reach, check)

    def _one_count(self, part, drawn):
        return [_row("rows", drawn[0], self._tail(part), least=0)]


def _opendp():
    """Return opendp and the space of vectors of whole numbers in its symmetric distance.

    Its `prelude` would import scikit-learn, which takes seconds.
    """
    from types import SimpleNamespace

    from opendp import domains, measurements, measures, metrics, mod, transformations

    mod.enable_features("contrib")
    dp = SimpleNamespace(t=transformations, m=measurements, max_divergence=measures.max_divergence)
    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.symmetric_distance()
    return dp, space


def _draw(parts, vectors, *, rng):
    """Let opendp draw; `rng` says only that the randomness is the operating system's."""
    if rng is not noise.SYSTEM:
        raise ValueError("rng must be noise.SYSTEM: opendp draws its own noise, without a seed")
    return [part.measurement(vector) for part, vector in zip(parts, vectors)]


def _length(table):
    return len(next(iter(table.values()), ()))


def _bins(values, edges):
    """Return the bin of each value; what is out of the edges counts in the nearest."""
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2).tolist()


def _unread(columns, table):
    """Return for each row 0 if it has a number in all columns, else 1."""
    gone = np.any([np.isnan(own_table.numbers(table[column])) for column in columns], axis=0)
    return gone.astype(np.int64).tolist()


def _products(read, pair, table):
    """Return the products of two columns, row by row; -1 is the column of ones."""
    columns = read(table)
    ones = np.ones(columns[0].size, dtype=np.int64)
    first, second = ((*columns, ones)[i] for i in pair)
    return (first * second).tolist()


def _candidates(scale):
    """Return the candidates of a quantile in steps: an even grid from bound to bound.

    Between whole bounds at most `CANDIDATES` apart the whole numbers are among them.
    """
    width = scale.upper - scale.lower
    whole = scale.lower.denominator == scale.upper.denominator == 1 and width <= CANDIDATES
    number = int(width) * math.ceil(CANDIDATES / width) if whole else CANDIDATES
    return [round(Fraction(2 * scale.half * i, number)) - scale.half for i in range(number + 1)]


# -------------------------------------------------------------------- what the plan says in words


def _between(scale):
    return f"{plain(scale.lower)} to {plain(scale.upper)}"


def _in_rows(within, expected):
    """Return how far noise reaches in rows; for a regression, in each of its sums."""
    return f"± {within:.4g} of {expected} rows"


def _in_unit(scale, rows, tail, expected):
    """Return how far noise moves a mean of so many rows at most: one at a bound moves the most."""
    half = float(scale.grid * scale.half)
    off = min(half * rows / max(expected - tail, 1), 2 * half)
    return f"± {off:.3g}, of values {_between(scale)}"


def _in_ranks(alpha, rows, expected):
    """Return between which ranks a quantile lies if the best candidate has the one asked for."""
    low, high = (float(alpha) + s * rows / expected for s in (-1, 1))
    return f"about rank {max(low, 0):.3f} to {min(high, 1):.3f}"


# ------------------------------------------------------------------ answers, from what was released


def plain(number):
    """Return a fraction that a float stands for as the shortest decimal of that float."""
    return repr(float(number)).removesuffix(".0")


def printed(row):
    """Return a row of the report with its numbers as decimals, the ends rounded outward.

    So many decimals are kept that rounding widens an interval by a fiftieth at most. A whole number
    stays one.
    """
    low, number, high = row["from"], row["released"], row["to"]
    if low is None:
        return row | {"released": plain(number)}
    if all(isinstance(x, int) for x in (low, number, high)):
        return row
    digits = _digits(high - low)
    with localcontext() as context:
        context.prec = 400  # floats have up to 309 digits before the point
        unit = Decimal(1).scaleb(-digits)
        texts = [
            format(Decimal(x).quantize(unit, rounding=how), "f")
            for x, how in ((low, ROUND_FLOOR), (number, ROUND_HALF_EVEN), (high, ROUND_CEILING))
        ]
    return row | dict(zip(("from", "released", "to"), texts))


def _digits(width):
    """Return how many decimals show a hundredth of a width."""
    return max(2 - math.floor(math.log10(width)), 0) if width > 0 else 0


def _row(quantity, released, within, least=-math.inf):
    low, high = max(released - within, least), max(released + within, least)
    return {"quantity": quantity, "released": released, "from": low, "to": high}


def _tally_of(names, within, drawn):
    return [_row(name, count, within, least=0) for name, count in zip(names, drawn[0])]


def _checked(answer, within, drawn):
    """Return the rows of an answer and those of its check, which was drawn last."""
    return [*answer(drawn[:-1]), *_tally_of((READ, UNREAD), within, drawn[-1:])]


def _mean_of(scale, tails, drawn):
    """Return the mean with an interval, the extremes of sum over count while both are in range, and
    the count.
    """
    total, number = drawn
    ends = [
        (total + s * tails[0]) / n
        for s in (-1, 1)
        for n in (max(number - tails[1], 1), max(number + tails[1], 1))
    ]
    half, room = scale.half, Fraction(1, 2)  # rounding to the grid moves a mean by half a step
    low, mid, high = (
        scale.value(max(-half, min(x, half)))
        for x in (min(ends) - room, total / max(number, 1), max(ends) + room)
    )
    return [
        {"quantity": "mean", "released": mid, "from": low, "to": high},
        _row(COUNTED, number, tails[1], least=0),
    ]


def _quantile_of(scale, rows, apart, drawn):
    digits = _digits(apart)
    spacing = plain(round(apart, digits))
    off = f"of candidates {spacing} apart; the best is at most {rows:.4g} rows better"
    value = round(scale.value(drawn[0]), digits)
    return [{"quantity": off, "released": value, "from": None, "to": None}]


def _fit_of(columns, scales, pairs, parts, beta, tail, drawn):
    """Return ridge coefficients from noisy sums, with intervals from simulated noise; the count."""
    sizes = [float(part.moves) for part in parts]
    sums = np.array(drawn) / sizes
    spread = np.array([part.scale for part in parts]) / sizes
    ridge = float(np.max(spread)) * math.sqrt(2)
    rng = np.random.default_rng(0)  # public: what is simulated is no release
    simulated = sums + noise.laplace(1.0, (DRAWS, sums.size), rng=rng) * spread
    fits = _in_units(_solved(np.vstack([sums, simulated]), pairs, len(columns), ridge), scales)
    centre, others = fits[0], fits[1:]
    within = np.quantile(np.abs(others - centre), 1 - beta, axis=0)
    names = ["intercept", *(f"coefficient of {column}" for column in columns[:-1])]
    rows = [_row(name, float(c), float(w)) for name, c, w in zip(names, centre, within)]
    return [*rows, _row(COUNTED, drawn[0], tail, least=0)]


def _solved(sums, pairs, number, ridge):
    """Return the coefficients of each row of sums in units of half widths, intercept first.

    Where noise has left no definite matrix, an inverse may not exist: a pseudoinverse always does.
    """
    gram = np.zeros((len(sums), number + 1, number + 1))
    for (i, j), values in zip(pairs, sums.T):
        gram[:, i + 1, j + 1] = gram[:, j + 1, i + 1] = values
    matrix = gram[:, :-1, :-1] + ridge * np.eye(number)
    inverse = np.linalg.pinv(matrix, hermitian=True)
    return (inverse @ gram[:, :-1, -1:])[:, :, 0]


def _in_units(fits, scales):
    """Return coefficients in the units of the columns."""
    halves = np.array([float(scale.grid * scale.half) for scale in scales])
    middles = np.array([float(scale.middle) for scale in scales])
    slopes = fits[:, 1:] * halves[-1] / halves[:-1]
    start = middles[-1] + fits[:, 0] * halves[-1] - slopes @ middles[:-1]
    return np.column_stack([start, slopes])
