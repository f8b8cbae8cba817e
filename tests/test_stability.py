"""A test and chunks: the threshold and the laws of both releases against independent computations,
on all small tables; what is refused.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dputils import audit, geometric, local_sensitivity, noise, sensitivity, stability
from dputils.accounting import Approximate, Ledger, Pure
from tests.examples import HOSTILE

LOWER, UPPER = 0, 4
PAIRS = sensitivity.neighbour_pairs(range(LOWER, UPPER + 1), 6, "add-remove")


# ---------------------------------------------------------------------------- propose-test-release


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, Fraction(1, 3), 1, 5, 1000])
@pytest.mark.parametrize("delta", [1e-300, 1e-9, 1e-6, 1e-3, 0.1, 0.9])
def test_the_threshold_is_the_smallest_that_keeps_delta(epsilon, delta):
    t = stability.threshold(epsilon, delta)

    def log_mass(t):
        return -t * float(epsilon) - math.log1p(math.exp(-float(epsilon)))

    assert log_mass(t) <= math.log(delta) * (1 - 1e-15)
    assert t == 1 or log_mass(t - 1) > math.log(delta) - 1e-9


def ptr_law(table, lower, upper, bound, epsilon, delta):
    """The law of a release, for a grid of 1."""
    half, far = epsilon / 2, local_sensitivity.distance(table, lower, upper, bound)
    t = stability.threshold(half, delta)
    none = float(geometric.cdf(t - far - 1, 1 / half))
    centre = 2 * local_sensitivity.median(table, lower, upper)
    upto = geometric.cdf(np.arange(2 * lower, 2 * upper) - centre, 2 * bound / half)
    answers = (1 - none) * np.diff(upto, prepend=0, append=1)
    return {None: none} | dict(zip(np.arange(2 * lower, 2 * upper + 1) / 2, answers, strict=True))


@pytest.mark.parametrize("epsilon,delta", [(1.0, 0.01), (2.0, 1e-3), (0.5, 0.05)])
def test_propose_test_release_keeps_its_promise_on_all_small_tables(epsilon, delta):
    laws = {
        t: ptr_law(t, LOWER, UPPER, 0.5, epsilon, delta)
        for t in {t for pair in PAIRS for t in pair}
    }
    worst = max(audit.finite_delta(laws[a], laws[b], epsilon) for a, b in PAIRS)
    assert worst <= delta * (1 + 1e-9)


@pytest.mark.parametrize("table", [[3, 5, 5, 5, 5, 5, 6, 6, 9], [5] * 4 + [7] * 4])
def test_propose_test_release_follows_its_law(table):
    epsilon, delta = 1.0, 0.05
    mechanism = stability.ptr_mechanism(0, 10, 1, 1, epsilon, delta)
    law, rng = ptr_law(table, 0, 10, 1, epsilon, delta), np.random.default_rng(5)
    drawn = [mechanism(table, rng=rng) for _ in range(6000)]
    assert 0.1 < law[None] < 0.9
    assert audit.law_test(drawn, law, rng=rng).passes()
    wrong = ptr_law(table, 0, 10, 1, 1.4 * epsilon, delta)
    assert not audit.law_test(drawn, wrong, rng=rng).passes()


@pytest.mark.parametrize("table", [[0] * 20 + [10] * 20, [0] * 20 + [10] * 21, [], [5] * 3])
def test_propose_test_release_answers_nothing_where_it_must_not(table):
    mechanism = stability.ptr_mechanism(0, 10, 1, 1, 1.0, 1e-9)
    rng = np.random.default_rng(12)
    assert all(mechanism(table, rng=rng) is None for _ in range(2000))  # false alarm 1e-4


# ----------------------------------------------------------------------------- sample and aggregate


def aggregate_law(table, lower, upper, m, epsilon):
    """The law of a release on the steps of the sum, by all ways to fill the chunks; grid 1."""
    law, ends = 0, (2 * m * lower, 2 * m * upper)
    for places in itertools.product(range(m), repeat=len(table)):
        chunks = [[v for v, p in zip(table, places, strict=True) if p == i] for i in range(m)]
        total = sum(2 * local_sensitivity.median(chunk, lower, upper) for chunk in chunks)
        upto = geometric.cdf(np.arange(*ends) - total, (upper - lower) / epsilon)
        law = law + np.diff(upto, prepend=0, append=1) / m ** len(table)
    return dict(zip(np.arange(ends[0], ends[1] + 1) / (2 * m), law, strict=True))


def test_sample_and_aggregate_keeps_its_promise_and_follows_its_law():
    tables = [(0, 1, 4, 4), (0, 1, 4), (1, 4, 4), (0, 4, 4), (), (4,)]
    laws = {t: aggregate_law(t, LOWER, UPPER, 2, 1.0) for t in tables}
    for a, b in ((0, 1), (0, 2), (0, 3), (4, 5)):
        assert audit.finite_epsilon(laws[tables[a]], laws[tables[b]]) <= 1 + 1e-9
    mechanism = stability.aggregate_mechanism(LOWER, UPPER, 1, 2, 1.0)
    rng = np.random.default_rng(6)
    drawn = [mechanism(tables[0], rng=rng) for _ in range(6000)]
    assert audit.law_test(drawn, laws[tables[0]], rng=rng).passes()
    assert mechanism.sensitivity.size == 1


def test_each_value_has_a_chunk_of_its_own_draw():
    table = (0, 4, 0, 4, 4)  # with little noise, so that the chunks show
    law = aggregate_law(table, LOWER, UPPER, 2, 40.0)
    mechanism = stability.aggregate_mechanism(LOWER, UPPER, 1, 2, 40.0)
    rng = np.random.default_rng(12)
    drawn = [mechanism(table, rng=rng) for _ in range(4000)]
    assert audit.law_test(drawn, law, rng=rng).passes()


@pytest.mark.parametrize("m", [1, 7, 50])
def test_many_chunks_of_few_values_follow_the_law_of_geometric_noise(m):
    mechanism = stability.aggregate_mechanism(0, 10, 1, m, 0.5)
    for table, total in (([], 10 * m), ([2], 10 * (m - 1) + 4)):
        upto = geometric.cdf(np.arange(20 * m) - total, 20)
        law = dict(enumerate(np.diff(upto, prepend=0, append=1)))
        rng = np.random.default_rng(10)
        drawn = [round(2 * m * mechanism(table, rng=rng)) for _ in range(6000)]
        assert audit.law_test(drawn, law, rng=rng).passes()


@pytest.mark.parametrize(
    "centre,m", [(1 << 42, 1 << 20), (1 << 52, 1 << 10), (-(1 << 52), 1 << 10)]
)
def test_chunks_of_values_far_from_zero_do_not_overflow(centre, m):
    lower, upper = centre - 50, centre + 50
    if abs(centre) == 1 << 52:  # the largest bounds are those of `private.grid_steps`
        lower, upper = (lower - 50, upper - 50) if centre > 0 else (lower + 50, upper + 50)
    mechanism = stability.aggregate_mechanism(lower, upper, 1, m, 1000)
    for table in ([], [lower], [upper]):
        answer = mechanism(table, rng=np.random.default_rng(11))
        assert abs(answer - (lower + upper) / 2) <= 1


# ----------------------------------------------------------------------- both of them, and refusals

PUBLIC = (0, 10, 1)
MECHANISMS = {
    "ptr": stability.ptr_mechanism(*PUBLIC, 1, 1, 1e-6, unit="person"),
    "aggregate": stability.aggregate_mechanism(*PUBLIC, 5, 1, unit="person"),
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_no_private_value_makes_a_release_raise(mechanism, recwarn):
    rng = np.random.default_rng(8)
    for table in ([], [math.nan], HOSTILE, [7] * 50, [1e308] * 3, np.array([], dtype=int)):
        answer = mechanism(table, rng=rng)
        assert answer is None or isinstance(answer, float) and 0 <= answer <= 10
    assert not recwarn.list


@pytest.mark.parametrize("name", MECHANISMS)
def test_both_take_the_bits_of_the_operating_system(name):
    answer = MECHANISMS[name]([3, 4, 4, 5] * 20, rng=noise.SYSTEM)
    assert answer is None or 0 <= answer <= 10


def test_costs_and_units_reach_a_ledger():
    ledger = Ledger(2, 1e-6, neighbours="add-remove", unit="person")
    rng = np.random.default_rng(9)
    for name, mechanism in MECHANISMS.items():
        ledger.release(name, mechanism, [1, 2, 3], rng=rng)
    assert ledger.spent[0] == 2 and math.isclose(ledger.spent[1], 1e-6)
    assert MECHANISMS["ptr"].costs == (Approximate(1, 1e-6),)
    assert MECHANISMS["aggregate"].costs == (Pure(1),)


def test_a_table_on_a_coarse_grid_is_answered_in_its_units():
    law = ptr_law([2] * 90, 0, 10, 1, 4.0, 0.01)  # the same table in quarters
    mechanism = stability.ptr_mechanism(0, 2.5, 0.25, 0.25, 4.0, 0.01)
    rng = np.random.default_rng(13)
    drawn = [mechanism([0.5] * 90, rng=rng) for _ in range(4000)]
    scaled = [None if answer is None else 4 * answer for answer in drawn]
    assert audit.law_test(scaled, law, rng=rng).passes()


@pytest.mark.parametrize(
    "call,name",
    [
        (lambda: stability.threshold(1, 0), "delta"),
        (lambda: stability.ptr_mechanism(0, 5, 1, 1, -1, 0.1), "epsilon"),
        (lambda: stability.ptr_mechanism(0, 5, 1, -1, 1, 0.1), "bound"),
        (lambda: stability.ptr_mechanism(0, 5, 1, 2.5, 1, 0.1), "bound"),
        (lambda: stability.ptr_mechanism(0, 1 << 41, 1, 1, 1, 0.1), "grid"),
        (lambda: stability.aggregate_mechanism(0, 5, 1, 0, 1), "chunks"),
        (lambda: stability.aggregate_mechanism(0, 5, 1, 1 << 21, 1), "chunks"),
        (lambda: stability.aggregate_mechanism(0, 5, 1, 2.0, 1), "chunks"),
        (lambda: stability.aggregate_mechanism(0, 1 << 41, 1, 5, 1), "grid"),
    ],
)
def test_public_arguments_are_refused_by_name(call, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        call()
