"""Pufferfish: laws of the count against all paths, W against couplings by linear programming, the
promise for every chain and day, the account of one count, refusals, odd private values.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dputils import audit, geometric, noise, pufferfish
from dputils.accounting import Ledger, Pure

SOME = [
    pufferfish.symmetric(7, 0.8),
    pufferfish.Chain(6, 0.05, 0.3),
    pufferfish.Chain(8, Fraction(9, 10), 0.7, start=0.25),
    pufferfish.Chain(2, 0.0001, 0.9999, start=0.5),
]


def rng(seed=0):
    return np.random.default_rng(seed)


def by_paths(chain, day, state):
    """The law of the count given one day's state, by adding up all paths."""
    moves = [[1 - chain.rise, chain.rise], [chain.fall, 1 - chain.fall]]
    law = [Fraction(0)] * (chain.days + 1)
    for path in itertools.product((0, 1), repeat=chain.days):
        if path[day - 1] == state:
            chance = chain.start if path[0] else 1 - chain.start
            for here, there in itertools.pairwise(path):
                chance *= moves[here][there]
            law[sum(path)] += chance
    return [chance / sum(law) for chance in law]


def can_be_coupled(p, q, w):
    """Whether two laws have a coupling of entries at most w apart, as a linear program."""
    m = len(p)
    near = [(i, j) for i, j in itertools.product(range(m), repeat=2) if abs(i - j) <= w]
    sums = np.zeros((2 * m, len(near)))
    for column, (i, j) in enumerate(near):
        sums[i, column] = sums[m + j, column] = 1
    targets = np.array([*p, *q], dtype=float)
    return linprog(np.zeros(len(near)), A_eq=sums, b_eq=targets, method="highs").status == 0


def rows_of(n, scale):
    """The laws of the noisy counts 0, ..., n; answers beyond them are added to the ends."""
    cuts = np.arange(n)
    return [np.diff(geometric.cdf(cuts - f, scale), prepend=0, append=1) for f in range(n + 1)]


def chance_of(chain, day, state):
    """The probability of the state on this day."""
    one = chain.start
    for _ in range(day - 1):
        one = one * (1 - chain.fall) + (1 - one) * chain.rise
    return float(one if state else 1 - one)


def loss(chain, day, scale):
    """The largest log-ratio of the released count between the two states of one day."""
    rows = rows_of(chain.days, scale)
    zero, one = (np.array(pufferfish.counts(chain, day, s), float) @ rows for s in (0, 1))
    return np.abs(np.log(zero / one)).max()


@pytest.mark.parametrize("chain", SOME)
def test_the_law_of_the_count_adds_up_all_paths(chain):
    for day in range(1, chain.days + 1):
        for state in (0, 1):
            law = pufferfish.counts(chain, day, state)
            assert sum(law) == 1 and law == by_paths(chain, day, state)


weights = st.lists(st.integers(0, 5), min_size=6, max_size=6).filter(sum)


@settings(max_examples=60, deadline=None)
@given(weights, weights)
def test_w_is_the_smallest_distance_of_a_coupling(p, q):
    w = pufferfish.w_infinity(p, q)
    laws = [np.array(law) / sum(law) for law in (p, q)]
    assert can_be_coupled(*laws, w) and (w == 0 or not can_be_coupled(*laws, w - 1))
    assert w == pufferfish.w_infinity(q, p)


def test_w_by_hand():
    # two days that stay with probability 3/4: counts 0, 1 against 1, 2
    law = [pufferfish.counts(pufferfish.symmetric(2, 0.75), 1, state) for state in (0, 1)]
    assert law == [[Fraction(3, 4), Fraction(1, 4), 0], [0, Fraction(1, 4), Fraction(3, 4)]]
    assert pufferfish.w_infinity(*law) == 2
    assert pufferfish.w_infinity([1, 0, 0], [2, 0, 0]) == 0
    assert pufferfish.w_infinity([1, 0, 0], [10**400, 0, 1]) == 2


@pytest.mark.parametrize("days", [2, 9, 40])
def test_independent_days_need_the_noise_of_differential_privacy(days):
    for rise in (0.5, 0.1):
        assert pufferfish.worst_day(pufferfish.Chain(days, rise, 1 - rise)) == (1, 1)


def test_w_reaches_the_number_of_days():
    assert pufferfish.worst_day(pufferfish.symmetric(30, 0.99))[0] == 30


def test_w_does_not_grow_with_the_days_and_is_near_a_spell():
    for stay, spell in ((0.8, 5), (0.9, 10)):
        found = [pufferfish.worst_day(pufferfish.symmetric(n, stay))[0] for n in (30, 60, 120)]
        assert found == [spell] * 3


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
def test_the_promise_holds_for_each_chain_and_day(epsilon):
    for chains in (SOME[:1], SOME[1:2], [pufferfish.symmetric(20, s) for s in (0.5, 0.7, 0.9)]):
        scale = geometric.scale(pufferfish.of_count(chains), epsilon)
        losses = [
            loss(chain, day, float(scale)) for chain in chains for day in range(1, chain.days + 1)
        ]
        assert max(losses) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("days", [20, 40, 60])
def test_w_of_a_symmetric_chain_grows_with_the_probability_to_stay(days):
    chains = [pufferfish.symmetric(days, Fraction(x, 100)) for x in range(50, 100)]
    found = [pufferfish.worst_day(chain)[0] for chain in chains]
    assert found == sorted(found)


def test_a_mixture_of_chains_is_covered_only_if_a_day_does_not_tell_the_chain():
    def mixed(chains):
        """The loss of the observer to whom both chains are equally likely."""
        scale = float(geometric.scale(pufferfish.of_count(chains), 0.5))
        n, worst = chains[0].days, 0
        rows = rows_of(n, scale)
        for day in range(1, n + 1):
            laws = []
            for state in (0, 1):
                weights = [chance_of(chain, day, state) for chain in chains]
                parts = [np.array(pufferfish.counts(c, day, state), float) for c in chains]
                laws.append(np.average(parts, axis=0, weights=weights) @ rows)
            worst = max(worst, np.abs(np.log(laws[0] / laws[1])).max())
        return worst

    even = [pufferfish.symmetric(20, 0.6), pufferfish.symmetric(20, 0.9)]
    tilted = [pufferfish.Chain(20, 0.1, 0.5), pufferfish.Chain(20, 0.5, 0.1)]
    assert mixed(even) <= 0.5 and mixed(tilted) > 1.4


@pytest.mark.parametrize("n", [3, 6])
def test_the_list_of_changes_tells_nothing_of_a_day(n):
    p = Fraction(4, 5)
    for day in range(n):
        laws = [{}, {}]
        for path in itertools.product((0, 1), repeat=n):
            changes = tuple(a != b for a, b in itertools.pairwise(path))
            chance = p ** changes.count(False) * (1 - p) ** changes.count(True)
            law = laws[path[day]]
            law[changes] = law.get(changes, 0) + chance
        assert laws[0] == laws[1]


def test_noise_for_independent_days_breaks_the_promise():
    chain = pufferfish.symmetric(20, 0.9)
    assert max(loss(chain, day, 1.0) for day in range(1, 21)) > 3


def test_two_releases_of_one_count_add_up():
    chain, scales = SOME[0], (float(3), float(6))
    f, cuts = np.arange(8), np.arange(7)
    laws = [[np.diff(geometric.cdf(cuts - k, s), prepend=0, append=1) for k in f] for s in scales]
    w, day = pufferfish.worst_day(chain)
    both = [
        np.einsum("f,fi,fj->ij", np.array(pufferfish.counts(chain, day, s), float), *laws)
        for s in (0, 1)
    ]
    assert np.abs(np.log(both[0] / both[1])).max() <= w * (1 / 3 + 1 / 6) + 1e-9


def test_the_class_decides_and_names_the_unit():
    weak, strong = pufferfish.symmetric(20, 0.6), pufferfish.symmetric(20, 0.9)
    both = pufferfish.of_count([weak, strong])
    assert both.size == pufferfish.of_count((strong,)).size == 9
    assert both.unit == pufferfish.of_count([strong, weak, weak]).unit
    assert both.unit != pufferfish.of_count([strong]).unit
    assert pufferfish.symmetric(20, Fraction(9, 10)) == strong
    shorter = pufferfish.of_count([pufferfish.symmetric(19, 0.6), pufferfish.symmetric(19, 0.9)])
    assert both.unit != shorter.unit and "others drawn" in both.unit
    assert "Pufferfish" in pufferfish.mechanism([weak], 1).name


def test_a_ledger_books_one_count_and_refuses_another():
    chains = [pufferfish.symmetric(10, 0.7)]
    release = pufferfish.mechanism(chains, 0.5)
    ledger = Ledger(1, neighbours="replace-one", unit=release.unit)
    for label in ("one", "two"):
        ledger.release(label, release, [0, 1] * 5, rng=rng())
    assert ledger.spent[0] == 1 and release.costs == (Pure(0.5),)
    other = pufferfish.mechanism([pufferfish.symmetric(10, 0.6)], 0.5)
    with pytest.raises(ValueError, match="unit"):
        ledger.release("three", other, [0, 1] * 5, rng=rng())


def test_the_code_follows_its_law():
    release = pufferfish.mechanism([pufferfish.symmetric(12, 0.8)], 1)
    for days in ([0] * 12, [1] * 12):
        drawn = np.array([release(days, rng=rng(s)) for s in range(3000)]) - sum(days)
        test = audit.law_test(drawn, release.law(1), discrete=True, rng=rng(1))
        assert test.passes()  # false alarm 1e-6


@pytest.mark.parametrize("chain", SOME)
def test_the_code_draws_at_the_scale_of_w(chain):
    w, _ = pufferfish.worst_day(chain)
    law, z = pufferfish.mechanism([chain], 0.5).law(1), np.arange(-9, 10)
    assert np.allclose(law(z), geometric.cdf(z, 2 * w))


def test_odd_private_values_are_read_and_never_refused():
    release = pufferfish.mechanism([pufferfish.symmetric(6, 0.8)], 1)
    odd = [np.nan, None, np.inf, -np.inf, 7, 10**400]
    assert release.read(odd) == 3 and release.read(["a"] * 6) == 0
    assert release.read(np.full(6, np.nan)) == 0
    assert isinstance(release(odd, rng=noise.SYSTEM), int)
    with pytest.raises(ValueError, match="^value must be the states of 6 days, got 5"):
        release([1] * 5, rng=rng())


CHAIN = SOME[0]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: pufferfish.Chain(1, 0.5, 0.5), "^days must be at least 2"),
        (lambda: pufferfish.Chain(121, 0.5, 0.5), "^days must be at most 120"),
        (lambda: pufferfish.Chain(5.0, 0.5, 0.5), "^days must be an integer"),
        (lambda: pufferfish.Chain(5, 0, 0.5), "^rise must be strictly"),
        (lambda: pufferfish.Chain(5, 0.5, 1.0), "^fall must be strictly"),
        (lambda: pufferfish.Chain(5, 0.5, 0.00015), "^fall must be a multiple"),
        (lambda: pufferfish.Chain(5, 0.5, 0.5, start=1), "^start must be strictly"),
        (lambda: pufferfish.symmetric(5, np.nan), "^stay must be strictly"),
        (lambda: pufferfish.counts(CHAIN, 0, 1), "^day must be at least 1"),
        (lambda: pufferfish.counts(CHAIN, 8, 1), "^day must be at most 7"),
        (lambda: pufferfish.counts(CHAIN, 1, 2), "^state must be 0 or 1"),
        (lambda: pufferfish.counts("chain", 1, 1), "^chain must be a Chain"),
        (lambda: pufferfish.worst_day(3), "^chain must be a Chain"),
        (lambda: pufferfish.w_infinity([0.5, 0.5], [1, 1]), "^p must hold whole"),
        (lambda: pufferfish.w_infinity([1, 1], [1, -1]), "^q must hold whole"),
        (lambda: pufferfish.w_infinity([0, 0], [1, 1]), "^p must have a positive sum"),
        (lambda: pufferfish.w_infinity([1, 0], [1, 1, 1]), "^q must have as many"),
        (lambda: pufferfish.of_count([]), "^chains must be a list"),
        (lambda: pufferfish.of_count(CHAIN), "^chains must be a list"),
        (lambda: pufferfish.of_count([CHAIN] * 65), "^chains must be a list"),
        (lambda: pufferfish.of_count(SOME), "^chains must have one number"),
        (lambda: pufferfish.mechanism([CHAIN], 0), "^epsilon must be"),
        (lambda: pufferfish.mechanism([CHAIN], 1e-7), "^epsilon must be"),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
