"""The sparse vector technique: which of many counts reach their thresholds, exactly, where only the
c answers "above" are paid for.

Letters: q_i the counts, T_i their thresholds, c how many answers "above" are given, Delta the
sensitivity of every count, rho the noise of the threshold, of scale s, drawn once; nu_i that of
query i, of scale t; epsilon = epsilon_1 + epsilon_2, where s = Delta/epsilon_1 and t = 2 c
Delta/epsilon_2, or c Delta/epsilon_2 if the counts are monotone.

Ranges: the scales s and t 2^-50 to 2^50; counts are cut off at +-2^61, thresholds lie within 2^60;
k and c to 2^50.

1. Why it is private. The answer to query i is "above" where nu_i >= T_i + rho - q_i. Let D and D'
   be neighbours, and compare rho on D with rho + Delta on D'. Each T_i + rho - q_i moves by between
   0 and 2 Delta, never down. So an answer "below" is at least as likely on D'. An answer "above" is
   at least exp(-2 Delta/t) = exp(-epsilon_2/c) times as likely, as P(nu >= x + d) >= exp(-d/t)
   P(nu >= x) for all whole x and d >= 0; there are at most c of them. And rho + Delta has at least
   exp(-epsilon_1) times the probability of rho. Sum over rho: any sequence of answers is at least
   exp(-epsilon) times as likely on D'. How many answers "below" there are does not matter.
2. Monotone counts all rise, or all fall. If they rise from D to D', the same shift moves T_i + rho
   - q_i by between 0 and Delta; if they fall, no shift of rho does. So half the scale t is enough.
3. The gap q_i + nu_i - T_i - rho of an answer "above" may be published. P(nu = x + d) is at least
   exp(-|d|/t) P(nu = x), so point 1 holds with "the gap is g" in place of "above". The noisy count
   q_i + nu_i may not: beside the answers "below" it tells of rho itself.
4. Queries may depend on earlier answers: given these, point 1 compares the same query on both
   tables.
"""

import math
import os
import threading
import warnings
from fractions import Fraction
from functools import partial

import numpy as np

from dputils import checks, gaps, geometric, noise, private
from dputils.accounting.costs import Pure
from dputils.accounting.ledger import BudgetExceeded
from dputils.accounting.mechanism import Mechanism
from dputils.sensitivity import named, of_scores

_FAR = 1 << 61  # counts beyond are cut off: sums with a threshold and two noises fit 64 bits
_THRESHOLDS = 1 << 60
_COUNTS = 1 << 50
_BLOCK = 1 << 14  # queries answered at a time: what is drawn beyond the last answer is thrown away
_COUNTING = threading.RLock()  # one stream counts at a time: filters of warnings are the process's


def best_share(c, *, monotone=False):
    """Return the share epsilon_1/epsilon of the threshold for which rho - nu_i varies least if both
    are Laplace noise; for whole-numbered noise of small scales the best share is another.

    Parameters
    ----------
    c : int
    monotone : bool

    Returns
    -------
    Fraction
        1/(1 + (2c)^(2/3)), or 1/(1 + c^(2/3)) if monotone, to within 1e-6: any share between 0 and
        1 is private.

    Source
        Lyu, Su, Li 2017, section 4.2.
    """
    moves = _answers(c) * _directions(monotone)
    million = 10**6
    return Fraction(million, million + round(million * moves ** (2 / 3)))


def scales(c, sensitivity, epsilon, *, monotone=False, share=None):
    """Return the exact scales (s, t) of the noise on the threshold and on each query.

    Parameters
    ----------
    c : int
        The most answers "above", from 1 to 2^50.
    sensitivity : Sensitivity in the norm "max" or "absolute"
        A whole number: no count moves further between neighbours.
    epsilon : int, float or Fraction
        For all answers together; a float is read as the decimal that prints it.
    monotone : bool
        All counts move in the same direction (or stay) between neighbours; only for add-remove.
    share : int, float or Fraction, optional
        The public share epsilon_1/epsilon, strictly between 0 and 1; `best_share` if left out.

    Returns
    -------
    (Fraction, Fraction)

    Raises
    ------
    ValueError
        If an argument is none of these, or a scale is out of range.
    """
    size = checks.integer("sensitivity", named(sensitivity, "max", "absolute").size, low=1)
    whole = checks.as_fraction("epsilon", checks.epsilon(epsilon))
    if share is None:
        share = best_share(c, monotone=monotone)
    first = checks.as_fraction("share", checks.probability("share", share)) * whole
    moves = _answers(c) * _directions(monotone, sensitivity.neighbours)
    s, t = Fraction(size) / first, Fraction(moves * size) / (whole - first)
    for scale in (s, t):
        checks.within("sensitivity/epsilon", scale, *checks.STEPS)
    return s, t


def mechanism(thresholds, c, sensitivity, epsilon, *, monotone=False, gap=False, share=None):
    """Return the technique for k counts that are all known beforehand, for a `Ledger`.

    Privacy
        epsilon-differentially private, exactly, for the relation and the unit of the sensitivity:
        all answers together, and how many there are. Public: thresholds, c, the sensitivity,
        epsilon, k.

    Parameters
    ----------
    thresholds : int, or integers of shape (k,)
        Public.
    c, sensitivity, epsilon, monotone, share
        As `scales`.
    gap : bool
        Whether an answer "above" comes with its gap (point 3 of the module).

    Returns
    -------
    Mechanism
        Exact. From k counts, integers of shape (k,), to the answers in order, up to the c-th
        "above" if there are that many: a bool array, or with `gap` an int64 array of gaps, -1
        standing for "below". Counts are cut off at +-2^61; what is missing counts as the lowest.

    Error
        See `accuracy`.

    Source
        Lyu, Su, Li 2017, Algorithms 1 and 7; Ding, Wang, Zhang, Kifer 2019 (the gap); points 1 to 3
        of the module (whole-numbered noise).
    """
    s, t = scales(c, sensitivity, epsilon, monotone=monotone, share=share)
    limits = _whole_thresholds(thresholds)
    return _mechanism(
        "sparse vector technique",
        (c, s, t, _flag("gap", gap)),
        sensitivity,
        epsilon,
        read=partial(_read_counts, limits),
        draw=partial(_all_answers, limits, c, s, t, gap),
    )


def stream_mechanism(example, c, epsilon, *, neighbours, unit, gap=False, share=None):
    """Return the technique for questions that come one by one, for a `Ledger`: it draws a `Stream`.

    Privacy
        epsilon-differentially private, exactly, for the relation and the unit: all answers of the
        stream together, and when it ends, also if each question is chosen after the answers before
        it. Each question is a predicate on one record, so that no count moves by more than 1. Under
        add-remove such counts are monotone, and t = c/epsilon_2. Public: the questions, c, epsilon.

    Parameters
    ----------
    example : a record
        Public and made up: each predicate is tried on it before it sees the table.
    c, epsilon, share
        As `scales`.
    neighbours : {"add-remove", "replace-one"}
    unit : str
        What is added, removed or replaced: each has one record.
    gap : bool
        As `mechanism`.

    Returns
    -------
    Mechanism
        Exact. From a table, a list or tuple of records, to a `Stream`.
    """
    counted = of_scores(1, neighbours, unit=unit)
    monotone = neighbours == "add-remove"
    s, t = scales(c, counted, epsilon, monotone=monotone, share=share)
    return _mechanism(
        "sparse vector technique, one by one",
        (c, s, t, _flag("gap", gap)),
        counted,
        epsilon,
        read=_records,
        draw=partial(Stream, example, c, s, t, gap),
    )


class Stream:
    """A table that answers whether counts reach thresholds, until c of them did.

    Privacy
        See `stream_mechanism`, which draws it. It holds if each predicate looks at its one record
        and at nothing else, remembers and changes nothing, and takes a time that stays hidden: a
        stream cannot enforce this, and a predicate with a memory can move a count by more than 1. A
        record on which one fails is not counted, no warning is shown, an interrupt alone passes.

        A stream cannot be copied or pickled, and no other process can ask it: a second one would
        give c more answers "above" beside the same noisy threshold. Threads wait for each other.
        Code of the same process is trusted: it can read the table and rho in the stream itself.
    """

    def __init__(self, example, c, s, t, gap, records, *, rng):
        """Draw the noise of the threshold."""
        self._example, self._records, self._gap = example, records, gap
        self._left, self._scale, self._rng = c, t, rng
        self._process = os.getpid()
        self._rho = noise.discrete_laplace(s, rng=rng)

    def __reduce__(self):
        """Refuse copies and pickles."""
        raise TypeError("a stream cannot be copied or pickled: a second one would answer c more")

    @property
    def left(self):
        """How many answers "above" are left: public, as all answers are."""
        return self._left

    def __call__(self, predicate, threshold):
        """Ask whether the number of records with a property is at least a threshold.

        Parameters
        ----------
        predicate : function of one record
            Public. Records for which it is true are counted.
        threshold : int
            Public, within 2^60.

        Returns
        -------
        bool; with `gap` an int, the gap or -1 for "below"

        Raises
        ------
        BudgetExceeded
            If c answers "above" were given: everybody knows that from the answers.
        ValueError
            If the predicate fails on the example, or the threshold is no whole number in range.
        """
        limit = int(_whole_thresholds(checks.integer("threshold", threshold)))
        if os.getpid() != self._process:
            raise RuntimeError("a stream belongs to the process that opened it")
        self._end_if_none_left()
        self._try(predicate)
        with _COUNTING:
            self._end_if_none_left()
            excess = self._excess(predicate, limit)
            if excess is None:  # the predicate asked this stream itself, and ended it
                self._end_if_none_left()
            self._left -= excess >= 0
        return max(excess, -1) if self._gap else excess >= 0

    def _end_if_none_left(self):
        if not self._left:
            raise BudgetExceeded("the stream has given all its answers above the threshold")

    def _try(self, predicate):
        """Refuse what fails on the public example."""
        try:
            bool(predicate(self._example))
        except Exception as error:
            raise ValueError(
                f"predicate must be a function of one record, fails on the example: {error!r}"
            ) from error

    def _excess(self, predicate, limit):
        """Count and compare; nothing is refused here, and no warning shown."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            count = sum(_holds(predicate, record) for record in self._records)
        if not self._left:
            return None
        return count + noise.discrete_laplace(self._scale, rng=self._rng) - limit - self._rho


def law(counts, thresholds, c, s, t):
    """Return the exact law of the answers: a dict from tuples of bool to probabilities.

    Parameters
    ----------
    counts, thresholds : integers of shape (k,), or one threshold
        A few, near the thresholds: there are up to 2^k outcomes, each a sum of some 160 s + 2 max
        |q_i - T_i| terms.
    c : int
    s, t : number
        The scales of rho and of nu_i.

    Returns
    -------
    dict
        Each probability is a sum over rho, relatively right to some 1e-12: beyond max |q_i - T_i| +
        80 s the terms sum to less than 2^k exp(-79) of the whole.
    """
    counts, limits = np.broadcast_arrays(np.asarray(counts), np.asarray(thresholds))
    moved = limits - counts
    reach = int(np.abs(moved).max(initial=0)) + math.ceil(80 * s)
    rho = np.arange(-reach, reach + 1)
    ended, still = {}, {(): np.exp(geometric.logpmf(rho, s))}
    for x in moved:
        going, still = still, {}
        for answers, weights in going.items():
            still[(*answers, False)] = weights * _at_least(1 - x - rho, t)
            above, rest = (*answers, True), weights * _at_least(x + rho, t)
            (ended if sum(above) == c else still)[above] = rest
    return {answers: float(weights.sum()) for answers, weights in (ended | still).items()}


def accuracy(k, beta, s, t):
    """Return an alpha such that, with probability at least 1 - beta, of up to k answers every count
    answered "above" is at least its threshold minus alpha, and every other below it plus alpha.

    Parameters
    ----------
    k : int
    beta : float
    s, t : number
        The scales, `scales`.

    Returns
    -------
    int

    Source
        The union bound of Dwork and Roth 2014, Theorem 3.24, with the tails of whole-numbered
        noise: half of beta for rho, half for all nu_i.
    """
    return geometric.accuracy(s, beta / 2) + geometric.accuracy(t, beta / 2, k)


def _mechanism(name, constants, sensitivity, epsilon, read, draw):
    c, s, t, gap = constants
    shown = f"{name}{', with gaps' * gap}, c {c}, scales {float(s):.6g} and {float(t):.6g}"
    relation, unit = sensitivity.neighbours, sensitivity.unit
    costs = (Pure(epsilon),)
    return Mechanism(shown, costs, relation, unit, read, draw, exact=True, sensitivity=sensitivity)


def _all_answers(limits, c, s, t, gap, counts, *, rng):
    """Answer in blocks, up to the c-th answer "above"."""
    rho, found, left = noise.discrete_laplace(s, rng=rng), [], c
    limits = np.broadcast_to(limits, counts.shape)
    for start in range(0, counts.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        excess = np.clip(gaps.whole_steps(counts[block]), -_FAR, _FAR)
        excess -= limits[block]
        excess += noise.discrete_laplace(t, excess.size, rng=rng)
        above = excess >= rho
        hits = np.flatnonzero(above)[:left]
        left -= hits.size
        end = above.size if left else hits[-1] + 1
        found.append((np.where(above, excess - rho, -1) if gap else above)[:end])
        if not left:
            break
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64 if gap else bool)


def _read_counts(limits, counts):
    """Return k counts as an array; refuse a public type or shape only."""
    cells = private.column("counts", counts, private.INTEGERS)
    if limits.shape not in ((), cells.shape):
        raise ValueError(f"counts must have shape {limits.shape}, got {cells.shape}")
    return cells


def _records(table):
    if not isinstance(table, (list, tuple)):
        raise ValueError(
            f"table must be a list of records, one for each unit, got type {type(table).__name__}"
        )
    return tuple(table)


def _holds(predicate, record):
    try:
        return bool(predicate(record))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whether it fails, or exits, is private
        return False


def _at_least(x, t):
    """P(nu >= x) at whole x, relatively exact in both tails."""
    return np.where(x > 0, geometric.tail(x - 1, t) / 2, 1 - geometric.tail(-x, t) / 2)


def _whole_thresholds(thresholds):
    limits = np.asarray(thresholds)
    if limits.dtype.kind not in "iu" or limits.ndim > 1:
        raise ValueError(
            "thresholds must be an integer or integers of shape (k,), got type "
            f"{limits.dtype}, shape {limits.shape}"
        )
    if limits.size and (limits.max() > _THRESHOLDS or limits.min() < -_THRESHOLDS):
        raise ValueError("thresholds must lie within 2**60 of zero")
    return limits.astype(np.int64)


def _answers(c):
    if checks.integer("c", c, low=1) > _COUNTS:
        raise ValueError(f"c must be at most 2**50, got {c}")
    return int(c)


def _directions(monotone, neighbours="add-remove"):
    """Return 1 if all counts move the same way between neighbours, else 2."""
    if _flag("monotone", monotone) and neighbours != "add-remove":
        raise ValueError(
            f"neighbours must be 'add-remove' beside monotone=True, got {neighbours!r}: where a "
            "record leaves and another comes, counts move both ways"
        )
    return 1 if monotone else 2


def _flag(name, value):
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)
