"""Audit every mechanism of the book in one table: writes data/results/audits_recorded.csv.

    python -m tools.audits_recorded

A row for each entry of `ENTRIES`: a small pair of neighbouring tables, the epsilon and delta that
the mechanism claims for it, and an epsilon that the audit found, by the strongest of three methods
that was at hand.

- "exact law": the release is an answer plus noise. The largest log-ratio, or at a delta the epsilon
  that the delta leaves, is computed for the pair's answers.
- "exact enumeration": the probabilities of all outputs on both tables, from a formula of the book.
- "lower bound": outputs alone, `attacks.epsilon_lower_bound` at 95 %: the event is chosen on half
  of the runs and counted on the other half. It is right with probability 95 %, row by row.

In an exact row a formula speaks, so the mechanism itself is asked, too: its own `read` and `draw`
release each table of the row `TESTED` times ("code tested": all draws), and `audit.law_test`
compares them with the law that was used. Every row is made once more with a mechanism of `LOUDER`
times the budget under the old claim, and must refuse it.

What is found holds for this pair only; where it reaches the claim, no pair is worse. A cost that
names no epsilon (zCDP, Gaussian, Renyi) is converted at `DELTA`, and where a cost allows both, the
pure one is claimed. Another module adds its mechanisms by lines of `ENTRIES`: a test walks over
`dputils` and names each public function that returns a `Mechanism` and has no line. Beside the
table `audits_recorded.json` says how it was made.
"""

import csv
import json
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import scipy
from scipy.stats import binom

from dputils import (
    attacks,
    audit,
    boundaries,
    clustering,
    composites,
    contributions,
    discrete_gaussian,
    from_counts,
    functional,
    gaussian,
    geometric,
    gradient,
    graphs,
    histograms,
    laplace,
    local,
    local_sensitivity,
    locations,
    means,
    methods,
    metrics,
    mwem,
    objectives,
    partitions,
    preprocessing,
    pufferfish,
    quantiles,
    randomized_response,
    ratios,
    regression,
    rescaling,
    samples,
    selection,
    shuffling,
    sparse_vector,
    stability,
    synthetic,
    trees,
    unlisted,
    workloads,
)
from dputils.accounting import costs, curves, renyi
from dputils.book import chapter, data
from dputils.sensitivity import of_count, of_scores

DELTA, CONFIDENCE, TIGHT = 1e-6, 0.95, 0.99
SEED, RUNS, TESTED, LOUDER = 8, 20_000, 2_000, 4
LAW, LISTED, BOUND = "exact law", "exact enumeration", "lower bound"
NAMES = (
    "mechanism",
    "variant",
    "chapter",
    "neighbours",
    "unit",
    "pair",
    "epsilon",
    "delta",
    "found",
    "tight",
    "method",
    "samples",
    "seed",
    "code tested",
    "at 4 times the budget",
)
COMMAND = "python -m tools.audits_recorded"
FOLDER = data.FOLDER / "results"


@dataclass(frozen=True, eq=False)
class Entry:
    """One audit: a mechanism with public arguments, a pair of tables, and the method.

    Parameters
    ----------
    function : str
        Module and name in `dputils`.
    variant : str
        What tells rows of one function apart, or "".
    chapter : str
        The chapter that introduces it.
    made : function of a number c
        Returns the `Mechanism` at c times its budget.
    pair : tuple of two tables
        In the form that the mechanism reads.
    words : str
        The pair, for the table.
    method : Method
    also : tuple of tables
        Others on which the code is compared with its law: where the worst pair is a place at which
        most outputs hardly have noise.
    runs : int
        How often a sampled method draws on each table; 0 for exact ones.
    distance : float
        By which the budget is multiplied: of the pair, where the promise is d-private.
    stated : kind of cost, optional
        Which of the costs is claimed.
    """

    function: str
    variant: str
    chapter: str
    made: Callable
    pair: tuple
    words: str
    method: Callable
    runs: int = 0
    also: tuple = ()
    distance: float = 1
    stated: type | None = None

    @property
    def key(self):
        """The name of the row."""
        return f"{self.function}, {self.variant}" if self.variant else self.function


def claimed(mechanism, kind=None):
    """Return the epsilon and the delta of a kind of cost: the pure one, or else the first one."""
    pure = [cost for cost in mechanism.costs if isinstance(cost, costs.Pure)]
    stated = [cost for cost in mechanism.costs if isinstance(cost, costs.Approximate)]
    named = [cost for cost in mechanism.costs if kind and isinstance(cost, kind)]
    first = (named + pure + stated + list(mechanism.costs))[0]
    if isinstance(first, costs.Pure):
        return float(first.epsilon), 0.0
    if isinstance(first, costs.Approximate):
        return float(first.epsilon), float(first.delta)
    if isinstance(first, costs.Gaussian):
        return float(curves.gaussian_epsilon(float(first.mu), DELTA)), DELTA
    if isinstance(first, costs.ZCDP):
        return float(renyi.zcdp_epsilon(float(first.rho), DELTA)), DELTA
    epsilon = renyi.rdp_to_epsilon(np.array(first.orders), np.array(first.divergences), DELTA)
    return float(epsilon), DELTA


# ------------------------------------------------------------------------------------------ methods


@dataclass(frozen=True, eq=False)
class Method:
    """How a row is found, and for an exact row how the code is compared with the same law.

    Parameters
    ----------
    kind : str
        For the table.
    found : function of the mechanism, the pair, delta and a stream
        Returns the epsilon found.
    tested : function of the mechanism, a table and a stream, optional
        Draws `TESTED` releases of the mechanism and returns an `audit.LawTest` of each part that
        has a law of its own.
    """

    kind: str
    found: Callable
    tested: Callable | None = None


def drawn(mechanism, table, score, rng, n):
    """Return what a function makes of n releases of one table."""
    read = mechanism.read(table)
    return [score(mechanism.draw(read, rng=rng)) for _ in range(n)]


# -------------------------------------------------------------------------------- exact: by the law


def of_shift(cdf, shift, delta=0.0, *, discrete=False):
    """Return the epsilon that noise on two answers that far apart needs at a delta.

    The noise is symmetric about 0, its density log-concave, as all noise here is but Cauchy's: then
    the half-lines are the worst events at every epsilon (Neyman and Pearson), and those of one
    side are enough. It is infinite if no half-line is the worst one: at delta 0 the loss must not
    grow any more in the outer half of the grid, as that of Gaussian noise does.

    Parameters
    ----------
    cdf : function
        The law of the noise.
    shift : number
        Of the answers, at least 0; whole for noise on the whole numbers.
    """
    if not shift:
        return 0.0
    if discrete and shift != round(shift):
        raise ValueError(f"shift must be whole for whole noise, got {shift!r}")
    reach, end = 1.0, min(1e-9, delta / 1000 or 1)  # beyond it a difference would lose its digits
    while cdf(np.array([-reach]))[0] < end:
        reach /= 2
    while cdf(np.array([-reach]))[0] > end:
        reach *= 1.1
    t = np.linspace(-reach, reach, 40_001)
    t = np.unique(np.rint(t)) if discrete else t
    near, far = np.asarray(cdf(t), dtype=float) - delta, np.asarray(cdf(t - shift), dtype=float)
    if (far[near > 0] == 0).any():
        return math.inf
    loss = np.log(near[near > 0] / far[near > 0])
    inner = np.abs(t[near > 0]) <= reach / 2
    if not delta and loss.max() > loss[inner].max() * (1 + 1e-4):
        return math.inf
    return max(0.0, float(loss.max()))


def _flat(release):
    return np.asarray(release, dtype=float).ravel()


def _law(statistic=None, euclidean=False, flat=_flat):
    """Return the method for noise on an answer: the same for each coordinate, independent.

    `statistic` makes the exact answer of a table, where it is not what the mechanism reads, and
    `flat` the coordinates of a release.
    """

    def answer(mechanism, table):
        return np.asarray((statistic or mechanism.read)(table), dtype=float).ravel()

    def found(mechanism, pair, delta, rng):
        one, other = (answer(mechanism, table) for table in pair)
        moved = np.abs(one - other)
        cdf = mechanism.law(1)
        if euclidean:
            return of_shift(cdf, float(np.linalg.norm(moved)), delta)
        shift = partial(of_shift, cdf, discrete=mechanism.discrete)
        if delta:
            (alone,) = moved[moved > 0]  # one coordinate moves
            return shift(alone, delta)
        return sum(shift(one) for one in moved.tolist())

    def tested(mechanism, table, rng):
        noises = np.array(drawn(mechanism, table, flat, rng, TESTED)) - answer(mechanism, table)
        law, discrete = mechanism.law(1), mechanism.discrete
        return [audit.law_test(noises, law, discrete=discrete, rng=rng)]

    return Method(LAW, found, tested)


def _parts_law(parts):
    """Return the method for several answers with a noise each: (answer, cdf, discrete)."""

    def found(mechanism, pair, delta, rng):
        return sum(
            of_shift(cdf, abs(float(answer(pair[0])) - float(answer(pair[1]))), discrete=whole)
            for answer, cdf, whole in parts
        )

    def tested(mechanism, table, rng):
        noises = np.array(drawn(mechanism, table, _flat, rng, TESTED))
        return [
            audit.law_test(noises[:, k] - float(answer(table)), cdf, discrete=whole, rng=rng)
            for k, (answer, cdf, whole) in enumerate(parts)
        ]

    return Method(LAW, found, tested)


def _in_cells(cdf_of, edges):
    """Return a test of one number against a law that depends on the table, by cells.

    `cdf_of` returns for a mechanism and a table the probability of at most x.
    """

    def tested(mechanism, table, rng):
        upto = np.asarray(cdf_of(mechanism, table)(edges), dtype=float)
        score = partial(np.searchsorted, edges)
        places = drawn(mechanism, table, lambda out: int(score(float(_flat(out)[0]))), rng, TESTED)
        return [audit.law_test(np.array(places), np.diff(upto, prepend=0, append=1), rng=rng)]

    return tested


def _clamped_cauchy(low, high):
    """Return the method for Cauchy noise whose scale depends on the table, clamped to two ends."""

    def found(mechanism, pair, delta, rng):
        read = [mechanism.read(table) for table in pair]
        x = np.linspace(low, high, 20_001)
        logs = [math.log(s / math.pi) - np.log(s**2 + (x - m) ** 2) for m, s in read]
        below = [0.5 + math.atan((low - m) / s) / math.pi for m, s in read]
        above = [0.5 - math.atan((high - m) / s) / math.pi for m, s in read]
        ends = [abs(math.log(p / q)) for p, q in (below, above)]
        return max(*ends, float(np.abs(logs[0] - logs[1]).max()))

    def cdf_of(mechanism, table):
        middle, scale = map(float, mechanism.read(table))
        return lambda x: 0.5 + np.arctan((x - middle) / scale) / math.pi

    edges = np.linspace(low, high, 20)
    edges[-1] = np.nextafter(high, low)  # what is clamped to the upper end is beyond it
    return Method(LAW, found, _in_cells(cdf_of, edges))


def _fit_law(loss, ridge):
    """Return the method for output perturbation of one coefficient: the fit moves, noise is added.

    The law of the length of one-dimensional spherical noise is that of half the noise.
    """

    def fit(mechanism, table):
        return objectives.minimise(loss, *mechanism.read(table), ridge)[0]

    def noise_cdf(mechanism):
        length = mechanism.law(1)

        def cdf(x):
            tail = (1 - length(np.abs(x))) / 2
            return np.where(x < 0, tail, 1 - tail)

        return cdf

    def found(mechanism, pair, delta, rng):
        one, other = (fit(mechanism, table) for table in pair)
        return of_shift(noise_cdf(mechanism), abs(one - other))

    def tested(mechanism, table, rng):
        noises = np.array(drawn(mechanism, table, _flat, rng, TESTED)) - fit(mechanism, table)
        return [audit.law_test(noises, noise_cdf(mechanism), rng=rng)]

    return Method(LAW, found, tested)


def _push_law(loss, ridge):
    """Return the method for objective perturbation of one coefficient, without its second noise.

    theta is published when v = -F'(theta) is drawn: its density is that of v times F''(theta).
    """

    def rate_of(mechanism):
        return -math.log1p(-float(mechanism.law(1)(np.array([1.0]))[0]))

    def slope(mechanism, table, theta):
        rows, labels = mechanism.read(table)
        margins = np.outer(theta, rows[:, 0])
        return loss.first(margins, labels) @ rows[:, 0] + ridge * theta

    def found(mechanism, pair, delta, rng):
        rate = rate_of(mechanism)
        theta, logs = np.linspace(-20, 20, 20_001), []
        for table in pair:
            rows, labels = mechanism.read(table)
            margins = np.outer(theta, rows[:, 0])
            bend = loss.second(margins, labels) @ rows[:, 0] ** 2 + ridge
            logs.append(np.log(bend) - rate * np.abs(slope(mechanism, table, theta)))
        return float(np.abs(logs[0] - logs[1]).max())

    def cdf_of(mechanism, table):
        scale = 1 / rate_of(mechanism)
        return lambda theta: laplace.cdf(slope(mechanism, table, theta), scale)

    return Method(LAW, found, _in_cells(cdf_of, np.linspace(-1.5, 1.5, 25)))


# ---------------------------------------------------------------------- exact: by all the outputs


def of_lists(p, q, delta=0.0):
    """Return the least epsilon that a delta leaves of two finite laws."""
    if not delta:
        return audit.finite_epsilon(p, q)
    low, high = 0.0, 50.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        enough = audit.finite_delta(p, q, middle) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def _listed(law, outcome=int):
    """Return the method for a law: a function of a table that returns its probabilities.

    `outcome` makes of a release its place, or its key, in the law.
    """

    def found(mechanism, pair, delta, rng):
        return of_lists(law(pair[0]), law(pair[1]), delta)

    def tested(mechanism, table, rng):
        outcomes = drawn(mechanism, table, outcome, rng, TESTED)
        stated = law(table)
        if isinstance(stated, dict):  # outcomes by their place: keys may be tuples
            places = {key: place for place, key in enumerate(stated)}
            outcomes = [places.get(one, len(places)) for one in outcomes]
            stated = np.array([*stated.values(), 0.0])
        return [audit.law_test(np.array(outcomes), np.asarray(stated, dtype=float), rng=rng)]

    return Method(LISTED, found, tested)


def _two_quantiles(values):
    """Return the law of the quantiles of levels 1/4 and 3/4, half of the budget each."""
    law, values = {}, np.sort(values)
    upper = quantiles.law(values, 0.75, 0, 5, 1, 2 * 0.75 / 0.5)
    for high, mass in enumerate(upper):
        part = values[values <= high].tolist()
        lower = (
            quantiles.law(part, Fraction(1, 3), 0, high, 1, 2 * (2 / 3) / 0.5) if high else [1.0]
        )
        law |= {(low, high): float(mass * p) for low, p in enumerate(lower)}
    return law


def _two_choices(table):
    """Return the law of a choice in each of two rows."""
    one, other = (selection.permute_and_flip_law(row, 1) for row in table)
    return {(i, j): p * q for i, p in enumerate(one) for j, q in enumerate(other)}


def _plackett_luce(scores, k, scale):
    """Return the law of the k largest scores in order, with Gumbel noise of this scale."""
    orders = {(): 1.0}
    for _ in range(k):
        longer = {}
        for order, mass in orders.items():
            rest = [i for i in range(len(scores)) if i not in order]
            law = selection.exponential_law([scores[i] for i in rest], scale)
            longer |= {(*order, i): mass * p for i, p in zip(rest, law.tolist(), strict=True)}
        orders = longer
    return orders


def _in_window(cdf, answer, reach):
    """Return the law of an answer plus symmetric whole noise; each tail is one output."""
    edges = np.arange(-reach, reach + 1)
    below, above = cdf(edges - answer), cdf(answer - edges - 1)  # at most, and more than
    inner = np.where(edges[1:] <= answer, np.diff(below), -np.diff(above))
    return np.concatenate([below[:1], inner, above[-1:]])


def _sampled(cdf, step, reach, rate=0.1):
    """Return the method for a noisy answer to a Poisson sample of one record, which adds `step`."""

    def law(table):
        share = rate if len(table) else 0.0
        out, in_sample = (_in_window(cdf, answer, reach) for answer in (0, step))
        return (1 - share) * out + share * in_sample

    return _listed(law, lambda out: int(np.clip(_flat(out)[0], -reach, reach + 1)) + reach)


def _published_labels(values, tau, scale):
    """Return the law of the noisy count of one label that is published from tau on."""
    if not values:
        return {"none": 1.0}
    cdf = partial(geometric.cdf, scale=scale)
    listed = range(tau, tau + 200)
    law = {x: float(cdf(x - len(values)) - cdf(x - 1 - len(values))) for x in listed}
    return law | {"none": 1 - sum(law.values())}


def _streamed(table):
    """Return the law of nine questions to a stream: how many 1s, eight times, and how many 2s."""
    s, t = sparse_vector.scales(1, of_scores(1, ADD), 1, monotone=True)
    return sparse_vector.law([table.count(1)] * 8 + [table.count(2)], 1, 1, s, t)


def _answers(stream):
    """Return the answers of a stream to nine questions, until one is "above"."""
    answers = []
    for value in [1] * 8 + [2]:
        answers.append(bool(stream(value.__eq__, 1)))
        if not stream.left:
            break
    return tuple(answers)


# ---------------------------------------------------------------------------- sampled: lower bounds


def _drawn(score, runs=RUNS):
    """Return the method for outputs alone; `score` makes a number of an output."""

    def found(mechanism, pair, delta, rng):
        outputs = [drawn(mechanism, table, score, rng, runs) for table in pair]
        bound = attacks.epsilon_lower_bound(*outputs, delta=delta, confidence=CONFIDENCE)
        return bound.epsilon

    return Method(BOUND, found)


def _as_place(starts):
    """Return a number for a set of places."""
    return float(sum(2 ** int(x) for x in starts))


def _least_count(trees):
    """Return the least noisy count of class 0 in the first leaves of all trees."""
    return float(min(tree.counts[0, 0] for tree in trees))


def _split_and_count(tree):
    """Return a number for the first question and the count of class 1 in the second leaf."""
    return float(tree.counts[1, 1] - 1000 * tree.splits[0][0])


def _least_of_tables(released):
    """Return the least of the counts of zeros in all tables of a synthetic release."""
    return float(min(table.ravel()[0] for table in (*released.columns, *released.pairs)))


def _or_nan(released):
    return math.nan if released is None else released


# ------------------------------------------------------------------------------------------ entries

ADD, REPLACE = "add-remove", "replace-one"
COUNT = of_count(ADD)
FOUR = np.arange(4)  # where four bins start
LOSS = objectives.logistic_loss()
LINE = metrics.euclidean([0, 1, 2, 3], 1)
PLACES = locations.Grid(3, 3, 1)
BOUNDS = regression.Bounds(1, 1, 1)
STAR = np.array([[0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
PATH = np.array([[0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]])
LESS = np.array([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]])
EACH = workloads.of_matrix([[1, 0], [0, 1]])
MAPPED = regression.Bounds(2, 2**0.5, 1.0)
NEAR = (Fraction(49, 100), Fraction(51, 100))  # both quantiles are nearly the median
BOUGHT = rescaling.Rule(preprocessing.Ranges([(-1, 1)], (-1, 1)), (1,), NEAR, stretch=1)
STEPS = gradient.Rule("squared", [-1], [1], (-1, 1), steps=4, clip=1, rate=0.1, size=10)
ASKED = mwem.Rule(mwem.Ranges([0, 1, 2, 3], [1, 2, 3, 4], 4), [2.0] * 4)
"""Public arguments that several entries share."""


def _noise():
    """Yield the entries of noise on answers."""
    one_more, with_record = ((3, 4), "the count 3, and 4"), "nobody, and one record at the bound"
    law = _law()
    yield Entry(
        "laplace.mechanism", "", "04", lambda c: laplace.mechanism(COUNT, c), *one_more, law
    )
    yield Entry(
        "geometric.mechanism", "", "05", lambda c: geometric.mechanism(COUNT, c), *one_more, law
    )
    yield Entry(
        "geometric.sum_mechanism",
        "",
        "05",
        lambda c: geometric.sum_mechanism(0, 10, 1, ADD, c),
        ([], [10]),
        with_record,
        law,
    )
    yield Entry(
        "gaussian.mechanism",
        "",
        "08",
        lambda c: gaussian.mechanism(COUNT, c, DELTA),
        *one_more,
        law,
    )
    yield Entry(
        "gaussian.gram_mechanism",
        "",
        "09",
        lambda c: gaussian.gram_mechanism(1, 2, ADD, c, DELTA),
        (np.zeros((0, 2)), np.array([[0.6, 0.8]])),
        "no rows, and one of length 1",
        _law(
            lambda table: gaussian.coordinates(table.T @ table),
            euclidean=True,
            flat=gaussian.coordinates,
        ),
    )
    yield Entry(
        "discrete_gaussian.mechanism",
        "epsilon and delta",
        "12",
        lambda c: discrete_gaussian.mechanism(COUNT, epsilon=c, delta=DELTA),
        *one_more,
        law,
    )
    yield Entry(
        "discrete_gaussian.mechanism",
        "rho",
        "12",
        lambda c: discrete_gaussian.mechanism(COUNT, 0.02 * c**2),
        *one_more,
        law,
    )
    yield Entry(
        "randomized_response.mechanism",
        "",
        "02",
        lambda c: randomized_response.mechanism(3, c),
        ([0], [1]),
        "a person of category 0, and of 1",
        _listed(lambda own: np.roll(_categories(3), own[0]), lambda out: int(out[0])),
    )
    yield Entry(
        "ratios.mechanism",
        "",
        "20",
        lambda c: ratios.mechanism(0, 10, 0.5 * c, 0.5 * c, ADD),
        ([], [10]),
        with_record,
        _parts_law(
            [
                (sum, partial(laplace.cdf, scale=20), False),
                (len, partial(laplace.cdf, scale=2), False),
            ]
        ),
    )
    yield Entry(
        "means.mechanism",
        "",
        "21",
        lambda c: means.mechanism(0, 10, 1, ADD, c),
        ([], [10]),
        with_record,
        law,
    )
    yield Entry(
        "composites.mechanism",
        "",
        "23",
        lambda c: composites.mechanism([(0, 10, 1)], c, ADD),
        ([[]], [[10]]),
        with_record,
        law,
    )
    yield Entry(
        "samples.poisson",
        "rate 0.1",
        "14",
        lambda c: samples.poisson(geometric.mechanism(COUNT, c), len, 0.1, ADD),
        (np.array([]), np.array([1.0])),
        "nobody, and one record",
        _sampled(geometric.mechanism(COUNT, 1).law(1), 1, 30),
    )


def _categories(k):
    """Return the law of the report of a person of category 0, at epsilon 1."""
    return np.array([math.e, *[1.0] * (k - 1)]) / (math.e + k - 1)


def _choices():
    """Yield the entries of choices."""
    laws = {
        "permute-and-flip": selection.permute_and_flip_law,
        "exponential mechanism": selection.exponential_law,
        "laplace noise": partial(selection.noisy_max_law, noise="laplace"),
        "exponential noise": partial(selection.noisy_max_law, noise="exponential"),
        "gumbel noise": partial(selection.noisy_max_law, noise="gumbel"),
    }
    scored = of_scores(1, REPLACE)
    apart = (
        ([0] * 5 + [-20], [-1] * 5 + [-19]),
        "five equal scores, one far below; it rises, they fall",
    )
    for name, law in laws.items():
        yield Entry(
            "selection.mechanism",
            name,
            "07" if name.endswith("noise") or name.startswith("permute") else "06",
            partial(selection.mechanism, scored, choice=name),
            *apart,
            _listed(partial(law, scale=2)),
            also=([0, -1, -3],),
        )
    yield Entry(
        "selection.top_k_mechanism",
        "",
        "07",
        lambda c: selection.top_k_mechanism(2, scored, c),
        ([0] * 4 + [-40] * 2, [-1] * 4 + [-39] * 2),
        "four equal scores, two far below; these rise, the others fall",
        _listed(partial(_plackett_luce, k=2, scale=4), lambda out: tuple(out.tolist())),
        also=([0, -2, -6],),
    )
    yield Entry(
        "selection.parallel_mechanism",
        "",
        "78",
        lambda c: selection.parallel_mechanism(of_scores(1, ADD), c, monotone=True),
        ([[0, 0], [0, 0]], [[1, 0], [0, 0]]),
        "equal scores; one of them rises",
        _listed(_two_choices, lambda out: tuple(out.tolist())),
        also=([[0, -2], [-1, 0]],),
    )
    yield Entry(
        "quantiles.mechanism",
        "",
        "27",
        lambda c: quantiles.mechanism(0.5, 0, 5, 1, ADD, c),
        ([1, 1, 5, 5, 5], [1, 1, 1, 5, 5, 5]),
        "two records at 1, three at 5, and one more at 1",
        _listed(
            lambda values: quantiles.law(values, 0.5, 0, 5, 1, float(quantiles.scale(0.5, 1, ADD)))
        ),
    )
    yield Entry(
        "quantiles.several",
        "one substep",
        "27",
        lambda c: quantiles.several([0.25, 0.75], 0, 5, 1, c, substeps=1),
        ([1, 1, 5, 5, 5], [1, 1, 1, 5, 5, 5]),
        "two records at 1, three at 5, and one more at 1",
        _listed(_two_quantiles, lambda out: tuple(out.astype(int).tolist())),
    )
    yield Entry(
        "quantiles.search",
        "",
        "28",
        lambda c: quantiles.search(0.5, 0, 7, 1, ADD, c),
        ([0, 0], [0, 0, 7]),
        "two records at the low end, and one more at the high end",
        _drawn(float),
        RUNS,
    )
    yield Entry(
        "local_sensitivity.inverse_mechanism",
        "",
        "24",
        lambda c: local_sensitivity.inverse_mechanism(0, 5, 1, c),
        ([1, 1, 5, 5], [0, 1, 1, 5, 5]),
        "two records at 1, two at 5, and one more at 0",
        _listed(
            lambda values: selection.permute_and_flip_law(
                -local_sensitivity.rank_distances(values, 0, 5), 2
            )
        ),
    )
    scales = sparse_vector.scales(1, of_scores(1, ADD), 1)
    yield Entry(
        "sparse_vector.mechanism",
        "",
        "37",
        lambda c: sparse_vector.mechanism(0, 1, of_scores(1, ADD), c),
        ([-1] * 19 + [1], [0] * 20),
        "twenty answers of sensitivity 1; all rise but the last, which falls",
        _listed(
            lambda answers: sparse_vector.law(answers, 0, 1, *scales),
            lambda out: tuple(out.tolist()),
        ),
        also=([-3, 0, 2],),
    )
    yield Entry(
        "sparse_vector.mechanism",
        "with gaps",
        "37",
        lambda c: sparse_vector.mechanism(0, 1, of_scores(1, ADD), c, gap=True),
        ([-1, -1, 1], [0, 0, 0]),
        "three answers of sensitivity 1; two rise, the last one falls",
        _drawn(lambda gaps: float(100 * len(gaps) + gaps[-1])),
        RUNS,
    )
    yield Entry(
        "sparse_vector.stream_mechanism",
        "",
        "37",
        lambda c: sparse_vector.stream_mechanism(0, 1, c, neighbours=ADD, unit="row"),
        ([], [1]),
        "nobody, and one record that eight of nine questions count",
        _listed(_streamed, _answers),
        also=([1, 2, 2],),
    )


def _statistics():
    """Yield the entries of statistics of a column or a graph."""
    yield Entry(
        "local_sensitivity.smooth_mechanism",
        "",
        "24",
        lambda c: local_sensitivity.smooth_mechanism(0, 10, 1, c),
        ([4, 5, 5, 6], [4, 5, 5, 6, 10]),
        "four records in the middle, and one more at the high end",
        _clamped_cauchy(0, 10),
    )
    yield Entry(
        "stability.ptr_mechanism",
        "",
        "25",
        lambda c: stability.ptr_mechanism(0, 10, 1, 1, c, 0.01),
        ([4] * 5 + [6] * 4, [4] * 5 + [6] * 5),
        "a median at a gap that moves by the bound",
        _drawn(_or_nan),
        RUNS,
    )
    yield Entry(
        "stability.aggregate_mechanism",
        "",
        "25",
        lambda c: stability.aggregate_mechanism(0, 10, 1, 2, c),
        ([], [10]),
        "nobody, and one record at the bound",
        _drawn(float),
        RUNS,
    )
    yield Entry(
        "graphs.smooth_mechanism",
        "triangles",
        "26",
        lambda c: graphs.smooth_mechanism("triangles", 4, c),
        (LESS, PATH),
        "four nodes with four edges, and with five",
        _clamped_cauchy(0, 4),
    )
    yield Entry(
        "graphs.projected_mechanism",
        "",
        "26",
        lambda c: graphs.projected_mechanism(4, 3, c),
        (np.zeros((4, 4)), STAR),
        "no edges, and a person who knows three others",
        _law(),
    )
    yield Entry(
        "contributions.mechanism",
        "once",
        "35",
        lambda c: contributions.mechanism(3, 2, "once", c),
        ((["a"], [0]), (["a", "b", "b"], [0, 0, 1])),
        "one person, and one more with two rows",
        _law(lambda table: np.bincount(table[1], minlength=3)),
    )
    yield Entry(
        "clustering.mechanism",
        "one round",
        "36",
        lambda c: clustering.mechanism(_centres(), 1, c),
        ((["a"], [0]), (["a", "b"], [0, 1])),
        "one person, and one more",
        _law(_segment_sums),
    )
    yield Entry(
        "unlisted.mechanism",
        "",
        "34",
        lambda c: unlisted.mechanism(c, DELTA),
        (["red"] * 15, ["red"] * 16),
        "a label of 15 persons, and of 16",
        _listed(
            lambda values: _published_labels(values, unlisted.cut(1, DELTA, 1), 1),
            lambda out: out.get("red", "none"),
        ),
        also=(["red"] * 20,),
    )


def _histograms():
    """Yield the entries of histograms and of linear queries."""
    law, joins = _law(), (([0, 2], [0, 2, 2]), "two records, and one more")
    for name, chapter_of, made in (
        ("histograms.mechanism", "29", lambda c: histograms.mechanism(FOUR, ADD, c)),
        ("histograms.tree_mechanism", "29", lambda c: histograms.tree_mechanism(FOUR, 2, ADD, c)),
        (
            "boundaries.group_mechanism",
            "32",
            lambda c: boundaries.group_mechanism(FOUR, [0, 0, 1, 1], ADD, c),
        ),
    ):
        yield Entry(name, "", chapter_of, made, *joins, law)
    moves = (
        ([1, 1, 1, 2, 2], [0, 1, 1, 1, 2, 2]),
        "five records in the middle, and one at the end",
    )
    for name, made in (
        ("boundaries.one_by_one", lambda c: boundaries.one_by_one(FOUR, 2, 3, ADD, c)),
        ("boundaries.at_once", lambda c: boundaries.at_once(FOUR, 2, 3, ADD, c)),
    ):
        yield Entry(name, "", "32", made, *moves, _drawn(_as_place, RUNS // 2), RUNS // 2)
    yield Entry(
        "partitions.mechanism",
        "",
        "31",
        lambda c: partitions.mechanism(FOUR, 4, ADD, c, 1),
        ([0, 0, 3, 3], [0, 0, 1, 3, 3]),
        "four records at the ends, and one in between",
        _drawn(_as_place, RUNS // 2),
        RUNS // 2,
    )
    for name in ("NoiseFirst mended", "wavelet"):
        yield Entry(
            "methods.mechanism",
            name,
            "40",
            partial(methods.mechanism, name, FOUR, ADD),
            *joins,
            _drawn(lambda bins: float(bins[2])),
            RUNS,
        )
    yield Entry(
        "workloads.mechanism",
        "epsilon",
        "52",
        lambda c: workloads.mechanism(workloads.prefixes(3), ADD, c),
        ([1, 1, 1], [2, 1, 1]),
        "three cells, and one person more in the first",
        law,
    )
    yield Entry(
        "workloads.mechanism",
        "rho",
        "52",
        lambda c: workloads.mechanism(EACH, ADD, rho=0.02 * c**2),
        ([1, 1], [2, 1]),
        "two cells, and one person more in the first",
        law,
    )
    yield Entry(
        "mwem.mechanism",
        "one round",
        "54",
        lambda c: mwem.mechanism(ASKED, 1, c, ADD),
        ([2, 2, 2, 2], [3, 2, 2, 2]),
        "eight persons, two in each cell, and one more in the first",
        _drawn(lambda rounds: float(rounds[0, 1] - 1000 * rounds[0, 0]), RUNS // 2),
        RUNS // 2,
    )
    for edges, score in ((0, None), (1, _least_of_tables)):
        yield Entry(
            "synthetic.mechanism",
            "one pair" if edges else "no pairs",
            "58",
            partial(synthetic.mechanism, (2, 2, 2), edges),
            (np.zeros((0, 3)), np.zeros((1, 3))),
            "nobody, and one person",
            _drawn(score, RUNS // 2) if score else _law(_marginals, flat=_all_columns),
            RUNS // 2 if score else 0,
        )


def _all_columns(released):
    return np.concatenate(released.columns)


def _marginals(table):
    """Return the exact counts of three columns of zeros and ones."""
    return [[len(table) - sum(column), sum(column)] for column in np.asarray(table, int).T]


def _centres():
    return np.array([[1, 0], [0, 1]]) * clustering.STEPS


def _segment_sums(table):
    """Return the sums of the first round of k-means."""
    return clustering.sums(clustering.profiles(*table, 2), _centres())


def _places():
    """Yield the entries of promises that depend on a distance."""
    weights = np.arange(4)
    apart = (([0], [1]), "one record, which moves to the next place")
    yield Entry(
        "metrics.mechanism", "", "50", lambda c: metrics.mechanism(weights, LINE, c), *apart, _law()
    )
    squares = weights.astype(float) / 2
    both = (weights, squares)
    yield Entry(
        "metrics.together",
        "",
        "50",
        lambda c: metrics.together(both, LINE, c),
        *apart,
        _parts_law([_metric_part(both, k) for k in (0, 1)]),
    )
    scores = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    yield Entry(
        "metrics.choice",
        "",
        "50",
        lambda c: metrics.choice(scores, LINE, c),
        *apart,
        _listed(lambda table: selection.permute_and_flip_law(scores[:, table[0]], 2)),
    )
    yield Entry(
        "locations.mechanism",
        "",
        "57",
        lambda c: locations.mechanism(PLACES, c),
        ((0, 0), (2, 0)),
        "a cell, and one at a distance of 2",
        _listed(
            lambda place: locations.law(PLACES, 1)[3 * place[0] + place[1]],
            lambda out: int(3 * out[0] + out[1]),
        ),
        distance=2,
    )


def _reports():
    """Yield the entries of answers that are sent without a curator."""
    for name, made in (("direct", local.direct), ("bits", local.symmetric_unary)):
        yield Entry(
            "local.mechanism",
            name,
            "85",
            lambda c, made=made: local.mechanism(made(3, c)),
            ([0], [1]),
            "a person of value 0, and of 1",
            _listed(
                lambda table, made=made: local.law(made(3, 1), table[0]),
                lambda out: tuple(out[0].tolist()),
            ),
        )
    yield Entry(
        "shuffling.mechanism",
        "",
        "86",
        lambda c: shuffling.mechanism(local.direct(2, c), 1000, DELTA),
        ([0] * 1000, [1] + [0] * 999),
        "a thousand persons of value 0, and one of them of value 1",
        _listed(_count_of_ones(999), lambda out: int(out.sum())),
        stated=costs.Approximate,
    )
    days = [pufferfish.symmetric(8, Fraction(3, 4))]
    yield Entry(
        "pufferfish.mechanism",
        "",
        "91",
        lambda c: pufferfish.mechanism(days, c),
        (0, 1),
        "the worst of eight days in state 0, and in state 1; the others by the chain",
        _days(days),
    )


def _count_of_ones(others):
    """Return the law of how many of all answers are 1, if one person is 1 or not, the others 0."""

    def law(table):
        p, q = randomized_response.probabilities(1, 2)
        own = p if table[0] else q
        rest = binom.pmf(np.arange(others + 1), others, q)
        return np.convolve(rest, [1 - own, own])

    return law


def _days(chains):
    """Return the method for a count of days whose secret is the state of the worst day.

    A "table" is the state of this day: the others are drawn by the chain, and the law of the count
    is mixed over them. The code is compared with its noise on a table of equal days.
    """
    (chain,) = chains
    whole = np.arange(chain.days + 1)

    def mixed(mechanism, state):
        weights = np.array(pufferfish.counts(chain, pufferfish.worst_day(chain)[1], state), float)
        cdf, t = mechanism.law(1), np.arange(-60, 60 + chain.days)
        below = weights @ cdf(t[None, :] - whole[:, None])
        return np.diff(below, prepend=0, append=1)

    def found(mechanism, pair, delta, rng):
        return of_lists(*(mixed(mechanism, state) for state in pair), delta)

    def tested(mechanism, state, rng):
        return _law().tested(mechanism, [state] * chain.days, rng)

    return Method(LISTED, found, tested)


def _metric_part(queries, k):
    """Return an answer and the law of its noise, which has half of the budget."""
    part = metrics.mechanism(queries[k], LINE, 0.5)
    return lambda table: queries[k][table[0]], part.law(1), part.discrete


def _learning():
    """Yield the entries of regressions, classifiers and trees."""
    row = ((np.zeros((0, 1)), np.zeros(0)), (np.ones((1, 1)), np.ones(1)))
    words = "no rows, and one at the bounds"
    yield Entry(
        "functional.mechanism",
        "",
        "70",
        lambda c: functional.mechanism([(-1, 1)], (-1, 1), c, ADD),
        row,
        words,
        _law(flat=_as_drawn),
    )
    yield Entry(
        "functional.logistic_mechanism",
        "",
        "72",
        lambda c: functional.logistic_mechanism([(-1, 1)], c, ADD),
        row,
        words,
        _law(flat=_as_drawn),
    )
    s = regression.scale(ADD, 1, DELTA)
    yield Entry(
        "regression.ssp_mechanism",
        "",
        "73",
        lambda c: regression.ssp_mechanism(BOUNDS, ADD, c, DELTA),
        row,
        words,
        _law(
            lambda table: _standard(regression.sums(table, BOUNDS), s),
            euclidean=True,
            flat=lambda fit: _standard(fit, s),
        ),
    )
    yield Entry(
        "regression.adassp_mechanism",
        "",
        "74",
        lambda c: regression.adassp_mechanism(BOUNDS, ADD, c, DELTA),
        row,
        words,
        _drawn(lambda fit: float(fit.gram[0, 0] + fit.products[0])),
        RUNS,
    )
    yield Entry(
        "rescaling.fit_mechanism",
        "ridge",
        "75",
        _mapped_fit,
        ((np.zeros((0, 2)), np.zeros(0)), (np.ones((1, 2)), np.ones(1))),
        words,
        _law(
            lambda table: _standard_mapped(regression.sums(table, MAPPED)),
            euclidean=True,
            flat=_standard_mapped,
        ),
    )
    shifted = (_responses([0, 0, 1, 1]), _responses([-1, 0, 0, 1, 1]))
    joins = "two responses in the middle, two at the upper end, and one more at the lower end"
    yield Entry(
        "rescaling.ranges_mechanism",
        "",
        "75",
        lambda c: rescaling.ranges_mechanism(BOUGHT, ADD, Fraction(1, 50) * c**2),
        shifted,
        joins,
        _drawn(lambda ranges: float(ranges.response[1]), RUNS // 4),
        RUNS // 4,
    )
    yield Entry(
        "rescaling.mechanism",
        "nine tenths for the ranges",
        "75",
        lambda c: rescaling.mechanism(BOUGHT, ADD, c, DELTA, share=0.9, method="ridge"),
        shifted,
        joins,
        _drawn(lambda out: float(out.ranges.response[1]), RUNS // 4),
        RUNS // 4,
    )
    one = np.array([[1 << 20]])
    yield Entry(
        "gradient.step",
        "",
        "80",
        lambda c: gradient.step(1, Fraction(4, c), ADD),
        (one[:0], one),
        "nobody, and one gradient at the clip norm",
        _law(lambda rows: rows.sum(axis=0)),
    )
    yield Entry(
        "gradient.step",
        "a sample of rate 0.1",
        "80",
        lambda c: gradient.step(1, Fraction(1, c), ADD, sample=0.1, grid=8),
        (one[:0], one),
        "nobody, and one gradient at the clip norm",
        _sampled(partial(discrete_gaussian.cdf, sigma=8), 8, 100),
    )
    yield Entry(
        "gradient.mechanism",
        "four steps",
        "80",
        lambda c: gradient.mechanism(STEPS, Fraction(4, c), ADD),
        row,
        words,
        _drawn(lambda sums: float(-sums.sum()), RUNS // 4),
        RUNS // 4,
    )
    labelled = ((np.ones((1, 1)), np.ones(1)), (np.ones((1, 1)), -np.ones(1)))
    for name, method in (
        ("output_mechanism", _fit_law(LOSS, 4.0)),
        ("objective_mechanism", _push_law(LOSS, 4.0)),
    ):
        yield Entry(
            f"objectives.{name}",
            "",
            "81",
            partial(_perturbed, name),
            labelled,
            "one person, whose label turns",
            method,
        )
    persons = (([[0]], [0]), ([[0, 0]], [0, 0]))
    joins = "one person, and one more of the same kind"
    yield Entry(
        "from_counts.bayes_mechanism",
        "",
        "79",
        lambda c: from_counts.bayes_mechanism((2,), 2, c, ADD),
        persons,
        joins,
        _law(_class_counts, flat=lambda out: out.counts[0].ravel()),
    )
    yield Entry(
        "from_counts.forest_mechanism",
        "",
        "79",
        lambda c: from_counts.forest_mechanism((2,), 2, 1, 2, c, ADD),
        persons,
        joins,
        _drawn(_least_count, RUNS // 2),
        RUNS // 2,
    )
    yield Entry(
        "from_counts.noisy_tree_mechanism",
        "",
        "79",
        lambda c: from_counts.noisy_tree_mechanism((2,), 2, 1, c, ADD),
        persons,
        joins,
        _drawn(lambda tree: _least_count([tree]), RUNS // 2),
        RUNS // 2,
    )
    yield Entry(
        "trees.mechanism",
        "",
        "78",
        lambda c: trees.mechanism((2, 2), 2, 1, c, ADD),
        (([[0], [0]], [0]), ([[0, 1], [0, 0]], [0, 1])),
        "one person, and one of the other class, whom one attribute tells apart",
        _drawn(_split_and_count, RUNS // 2),
        RUNS // 2,
    )


def _mapped_fit(c):
    return rescaling.fit_mechanism(1, ADD, Fraction(1, 50) * c**2, method="ridge")


def _standard_mapped(sums):
    """Return the sums of mapped rows in units of the noise that rho = 1/50 needs."""
    sd = 1 / math.sqrt(2 / 50)  # of one unit: the larger of its two parts is sqrt 2 of it
    nothing = regression.Sums(*(np.zeros_like(part) for part in (sums.gram, sums.products)))
    return regression.standardised(sums, nothing, (2 * sd * 2**0.5, 2 * sd))


def _responses(values):
    """Return a table of one column of zeros with these responses."""
    return np.zeros((len(values), 1)), np.array(values, dtype=float)


def _perturbed(name, c):
    return getattr(objectives, name)(LOSS, 1, 1, 4, c, REPLACE)


def _as_drawn(objective):
    return objective.coefficients


def _standard(sums, s):
    """Return X'X and X'y in units of their noise."""
    nothing = regression.Sums(*(np.zeros_like(part) for part in (sums.gram, sums.products)))
    return regression.standardised(sums, nothing, (s, s))


def _class_counts(table):
    """Return the exact counts of the values of one attribute by class."""
    return np.histogram2d(table[0][0], table[1], bins=2, range=((0, 2), (0, 2)))[0]


ENTRIES = [
    *_noise(),
    *_choices(),
    *_statistics(),
    *_histograms(),
    *_places(),
    *_learning(),
    *_reports(),
]
EXCUSED = {
    "own_parts": "its noise is drawn by opendp, whose law tests/test_own_release.py audits",
}
"""Functions, or modules, that make a Mechanism and have no row, each with the reason."""


# -------------------------------------------------------------------------------------------- rows


def row(entry, budget=1):
    """Return the row of an entry at a multiple of its budget.

    Raises
    ------
    audit.AuditFailed
        If more is found than is claimed at a budget of 1, or if the code of an exact row does not
        draw from the law that was used.
    """
    stated, mechanism = entry.made(1), entry.made(budget)
    epsilon, delta = claimed(stated, entry.stated)
    epsilon *= entry.distance
    found = entry.method.found(mechanism, entry.pair, delta, chapter.stream(SEED, entry.key))
    if not found <= epsilon * (1 + 1e-6):
        raise audit.AuditFailed(f"{entry.key} claims {epsilon:.6g}, and {found:.6g} was found")
    tables = (*entry.pair, *entry.also) if entry.method.tested else ()
    rng = chapter.stream(SEED, f"{entry.key}, code")
    for table in tables:
        for test in entry.method.tested(mechanism, table, rng):
            if not test.passes():
                raise audit.AuditFailed(f"{entry.key} does not draw from its law: {test}")
    return (
        entry.function,
        entry.variant,
        entry.chapter,
        stated.neighbours,
        stated.unit,
        entry.words,
        f"{epsilon:.5g}",
        f"{delta:.5g}",
        f"{found:.5g}",
        "yes" if found >= TIGHT * epsilon else "",
        entry.method.kind,
        entry.runs,
        SEED if entry.runs else "",
        TESTED * len(tables),
    )


def louder(entry):
    """Return whether the row of an entry is refused at `LOUDER` times the budget."""
    try:
        row(entry, LOUDER)
    except audit.AuditFailed:
        return "refused"
    return "passes"


def main():
    """Write the table, and how it was made."""
    with (FOLDER / "audits_recorded.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(NAMES)
        writer.writerows((*row(entry), louder(entry)) for entry in sorted(ENTRIES, key=_order))
    beside = {
        "command": COMMAND,
        "delta of costs without one": DELTA,
        "confidence of a lower bound": CONFIDENCE,
        "tight from": TIGHT,
        "seed": SEED,
        "draws that compare code and law, a table": TESTED,
        "versions": {
            "python": platform.python_version(),
            **{package.__name__: package.__version__ for package in (np, scipy)},
        },
    }
    text = json.dumps(beside, indent=1) + "\n"
    (FOLDER / "audits_recorded.json").write_text(text, encoding="utf-8")


def _order(entry):
    return entry.chapter, entry.key


if __name__ == "__main__":
    main()
