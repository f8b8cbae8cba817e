"""Accounts: caps on the safe side, what each takes, parallel composition against all ways
through."""

import dataclasses
import functools
import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dputils import audit
from dputils.accounting import Ledger, accounts, composition, costs, curves
from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure, Renyi
from dputils.accounting.mechanism import Mechanism

BOTH = ("add-remove", "replace-one")


def account(name, epsilon, delta, neighbours="add-remove", **more):
    return Ledger(epsilon, delta, neighbours=neighbours, unit="row", account=name, **more)


# --------------------------------------------------------------------------------------------- caps


def test_the_filters_are_data():
    units = {name: one.unit for name, one in accounts.FILTERS.items()}
    assert units == {"basic": "epsilon", "zcdp": "rho", "gaussian": "mu^2"}
    assert set(accounts.NAMES) == set(composition.BY) == set(composition.TAKES)
    for name, one in accounts.FILTERS.items():
        assert set(one.takes) <= set(composition.TAKES[name])


@pytest.mark.parametrize(
    "epsilon,delta",
    [
        (0.1, 1e-9),
        (1, 1e-6),
        (1 / 3, 1e-12),
        (8, 1e-5),
        (30, 0.01),
        (1e-6, 1e-300),
        (1e6, 0.9),
    ],
)
@pytest.mark.parametrize("name", ["zcdp", "gaussian"])
def test_a_cap_implies_the_budget_and_is_not_much_smaller(name, epsilon, delta):
    cap = accounts.cap(Approximate(epsilon, delta), name)
    assert composition.epsilon_at([cap], delta, name)[0] <= epsilon * (1 + 1e-9)
    larger = (
        ZCDP(cap.rho * (1 + Fraction(1, 10**6)))
        if name == "zcdp"
        else Gaussian(cap.mu * (1 + Fraction(1, 10**6)))
    )
    assert composition.epsilon_at([larger], delta, name)[0] > epsilon


def test_a_cap_for_a_delta_between_two_floats_is_rounded_down():
    small = Fraction(8, 5) * Fraction(1, 10**299)
    small += Fraction(math.ulp(float(small))) * 3 / 5  # nearer to the float above
    with mpmath.workdps(60):
        for epsilon in (0.5, 3, 40):
            log = -mpmath.log(mpmath.mpf(small.numerator) / small.denominator)
            e = mpmath.mpf(epsilon)
            t = mpmath.findroot(
                lambda t: (log - mpmath.log1p(t)) * (1 + 2 * t) / t**2 - mpmath.log1p(1 / t) - e,
                log / e * (1 + mpmath.sqrt(1 + e / log)),
            )
            exact = (e + mpmath.log1p(1 / t) - (log - mpmath.log1p(t)) / t) / (1 + t)
            rho = accounts.cap(Approximate(epsilon, small), "zcdp").rho
            assert exact * (1 - mpmath.mpf(10) ** -12) <= mpmath.mpf(float(rho)) <= exact
            mu = accounts.cap(Approximate(epsilon, small), "gaussian").mu
            mu = mpmath.mpf(mu.numerator) / mu.denominator
            with mpmath.workdps(700):  # the two terms differ by 1e-299
                delta = mpmath.erfc((e / mu - mu / 2) / mpmath.sqrt(2)) / 2 - mpmath.exp(e) * (
                    mpmath.erfc((e / mu + mu / 2) / mpmath.sqrt(2)) / 2
                )
            assert 0 < delta <= mpmath.mpf(small.numerator) / small.denominator


@pytest.mark.parametrize("name", ["zcdp", "gaussian"])
def test_a_cap_is_searched_for_no_more_than_what_is_stated(monkeypatch, name):
    asked = []

    def largest(*stated):
        asked.append(tuple(map(Fraction, stated)))
        return 1.0

    account = dataclasses.replace(accounts.FILTERS[name], largest=largest)
    monkeypatch.setitem(accounts.FILTERS, name, account)
    above = [Fraction(x) + Fraction(math.ulp(x)) * 3 / 5 for x in (0.3, 1e-6)]
    accounts.cap(Approximate(*above), name)
    assert asked == [(Fraction(0.3), Fraction(1e-6))]


@pytest.mark.parametrize(
    "call,message",
    [
        (
            lambda: accounts.cap(ZCDP(1), "basic"),
            "account must be 'zcdp' for a budget of rho 1, got 'basic'",
        ),
        (
            lambda: accounts.cap(Gaussian(1), "exact"),
            "account must be 'gaussian' for a budget of mu 1, got 'exact'",
        ),
        (
            lambda: accounts.cap(Pure(1), "zcdp"),
            "delta must be positive for the zcdp account, got 0",
        ),
        (
            lambda: accounts.cap(Pure(1), "exact"),
            "delta must be positive for the exact account, got 0",
        ),
        (
            lambda: accounts.cap(Renyi([2], [1]), "renyi"),
            "epsilon must be a number or a cost that adds up, got a Renyi curve of 1 orders",
        ),
        (
            lambda: accounts.cap(Renyi([2], [1]), "basic"),
            "epsilon must be a number or a cost that adds up, got a Renyi curve of 1 orders",
        ),
        (
            lambda: accounts.cap(Approximate(1e-300, 1e-6), "zcdp"),
            "epsilon must be between 1e-09 and 1e+06 or 0, got 9.99",
        ),
        (
            lambda: accounts.cap(Approximate(2 * 10**6, 1e-6), "gaussian"),
            "epsilon must be between 1e-09 and 1e+06 or 0, got 2000000.0",
        ),
        (
            lambda: accounts.cap(Approximate(1, Fraction(1, 10**400)), "gaussian"),
            "delta must be between 1e-300 and 1, got 0.0",
        ),
        (
            lambda: accounts.cap(Approximate(1, 1e-301), "zcdp"),
            "delta must be between 1e-300 and 1, got 9.99",
        ),
        (
            lambda: accounts.amount(Renyi([2], [1]), "zcdp"),
            "the zcdp account cannot take a cost of a Renyi curve of 1 orders; a basic ledger adds",
        ),
        (
            lambda: accounts.as_plan({"a": 0.1}),
            "plan must be a list of (label, mechanism or cost) pairs, got {'a': 0.1}",
        ),
        (lambda: accounts.Parallel("basic", "add-remove", 0), "most must be at least 1, got 0"),
        (lambda: accounts.Parallel("basic", "add-remove", 1.0), "most must be an integer, got 1.0"),
    ],
)
def test_refusals_of_accounts(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_the_first_cost_that_an_account_takes_is_booked():
    made = [Gaussian(0.5), ZCDP(0.125), Approximate(1, 1e-6)]
    gauss = Mechanism("g", tuple(made), "add-remove", "row", len, lambda value, *, rng: value)
    booked = {name: accounts.booked(gauss, name) for name in accounts.NAMES}
    assert booked["gaussian"] == booked["zcdp"] == booked["renyi"] == made[0]
    assert booked["basic"] == booked["advanced"] == made[2]
    discrete = Mechanism("d", (ZCDP(0.125),), "add-remove", "row", len, lambda value, *, rng: value)
    assert accounts.booked(discrete, "zcdp") == ZCDP(0.125)
    with pytest.raises(
        ValueError, match="the gaussian account cannot take the cost of the d, rho 0.125"
    ):
        accounts.booked(discrete, "gaussian")
    with pytest.raises(
        ValueError, match="the exact account cannot take the cost of the d, rho 0.125$"
    ):
        accounts.booked(discrete, "exact")


# ------------------------------------------------------------------- parallel composition: all ways

UNITS = {"basic": 1, "zcdp": 4, "gaussian": 4}


def two_steps(name, pair):
    """What a part costs that a removal and an addition touch."""
    amount, delta = pair
    if name != "basic":
        return UNITS[name] * amount, delta
    return 2 * amount, min(1.0, (1 + math.exp(amount)) * delta)


def ways(parts, most, neighbours):
    """All ways one unit can touch parts: a set, or the set it leaves and the set the other
    enters."""
    sets = [set(s) for n in range(most + 1) for s in itertools.combinations(parts, n)]
    if neighbours == "add-remove":
        return [(s, set()) for s in sets]
    return list(itertools.product(sets, sets))


def worst(name, sums, most, neighbours):
    """The largest amount, and the largest delta, over all ways; found one by one."""
    found = []
    for left, entered in ways(sums, most, neighbours):
        both = [two_steps(name, sums[p]) for p in left & entered]
        pairs = both + [sums[p] for p in left ^ entered]
        found.append((sum(a for a, _ in pairs), sum(d for _, d in pairs)))
    return max(a for a, _ in found), max(d for _, d in found)


SPENDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(1, 500), st.integers(0, 50)),
    min_size=1,
    max_size=9,
)


@settings(max_examples=150)
@given(SPENDS, st.integers(1, 5), st.sampled_from(BOTH), st.sampled_from(list(UNITS)))
def test_parallel_covers_all_ways_and_no_more(spends, most, neighbours, name):
    shared, sums = accounts.Parallel(name, neighbours, most), {}
    for part, e, d in spends:
        more = (Fraction(e, 1000), Fraction(d, 10**5) if name == "basic" else Fraction(0))
        ahead = shared.after(part, more)
        shared.add(part, more)
        assert ahead == shared.total()
        old = sums.get(part, (0.0, 0.0))
        sums[part] = (old[0] + float(more[0]), old[1] + float(more[1]))
        amount, delta = worst(name, sums, most, neighbours)
        assert float(ahead[0]) == pytest.approx(amount, rel=1e-9)
        assert float(ahead[1]) == pytest.approx(delta, rel=1e-9, abs=1e-15)
        assert float(ahead[0]) >= amount * (1 - 1e-14) and float(ahead[1]) >= delta * (1 - 1e-14)


def test_parallel_keeps_its_books_through_ties_and_zeros():
    shared = accounts.Parallel("basic", "add-remove", 2)
    third = (Fraction(1, 3), Fraction(0))
    for part in "abcab":
        shared.add(part, third)
    assert shared.total() == (Fraction(4, 3), 0)
    shared.add("c", (Fraction(1), Fraction(1, 10)))
    assert shared.total() == (Fraction(2), Fraction(1, 10))


def capped_geometric(count, n):
    """Geometric noise of ratio 1/2 on a count, clamped to 0..n: exactly ln 2 for counts one
    apart."""
    a = Fraction(1, 2)
    law = {r: (1 - a) / (1 + a) * a ** abs(r - count) for r in range(1, n)}
    law[0], law[n] = a**count / (1 + a), a ** (n - count) / (1 + a)
    assert sum(law.values()) == 1
    return law


def moves(parts, most, neighbours):
    """All changes of the counts of parts by one unit with a row in each of at most `most` parts."""
    found = set()
    for left, entered in ways(range(parts), most, neighbours):
        found.add(tuple((p in entered) - (p in left) for p in range(parts)))
    return found - {(0,) * parts}


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("most", [1, 2])
def test_parallel_composition_books_what_released_counts_attain(neighbours, most):
    """Counts of three parts with exact laws: the epsilon found over all neighbours is booked."""
    n, step, k = 2, math.log(2), 3

    @functools.cache
    def joint(sizes):
        laws = [capped_geometric(size, n) for size in sizes]
        return {
            r: math.prod(law[x] for law, x in zip(laws, r))
            for r in itertools.product(range(n + 1), repeat=k)
        }

    tables, changes = list(itertools.product(range(n + 1), repeat=k)), moves(k, most, neighbours)
    pairs = [
        (s, t) for s in tables for t in tables if tuple(b - a for a, b in zip(s, t)) in changes
    ]
    attained, _ = audit.mechanism_epsilon(joint, pairs)
    shared = accounts.Parallel("basic", neighbours, most)
    for part in range(k):
        shared.add(part, (Fraction(str(step)), Fraction(0)))
    booked = float(shared.total()[0])
    # a count moves by at most one when a unit is replaced: only sets without overlap count
    reach = min(2 * most, k) if neighbours == "replace-one" else most
    assert attained == pytest.approx(reach * step, rel=1e-12)
    assert attained <= booked * (1 + 1e-12)
    if reach == booked / step:
        assert attained == pytest.approx(booked, rel=1e-12)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("neighbours", BOTH)
def test_sums_over_parts_attain_what_is_booked_in_rho_and_mu(neighbours, most):
    """Sums of values in [-1, 1], Gaussian noise: the shift over all ways, in closed form."""
    spreads = (2.0, 5.0, 3.0)
    attained = 0
    for left, entered in ways(range(3), most, neighbours):
        for old, new in itertools.product(itertools.product((-1, 1), repeat=3), repeat=2):
            shift = [new[p] * (p in entered) - old[p] * (p in left) for p in range(3)]
            attained = max(attained, sum((x / s) ** 2 for x, s in zip(shift, spreads)))
    for name, factor in (("gaussian", 1), ("zcdp", 0.5)):
        shared = accounts.Parallel(name, neighbours, most)
        for part, spread in enumerate(spreads):
            shared.add(part, accounts.amount(Gaussian(1 / spread), name))
        assert float(shared.total()[0]) == pytest.approx(factor * attained, rel=1e-12)


def adaptive(sums, most, neighbours, epsilon):
    """Delta at epsilon for an analyst who sees each answer before the next part's question.

    Each part answers by randomized response of cost e on its own unit's bit, which leaks it with
    probability d; a touched part adds its loss, an untouched one none. The worst unit's way is
    chosen beforehand, the analyst's order does not matter: losses are enumerated.
    """
    most_delta = 0.0
    for left, entered in ways(sums, most, neighbours):
        law = {0.0: 1.0}
        for p in left | entered:
            pair = two_steps("basic", sums[p]) if p in left & entered else sums[p]
            e, d = pair
            truth = 1 / (1 + math.exp(-e))
            new = {}
            for loss, q in law.items():
                for step, r in ((e, (1 - d) * truth), (-e, (1 - d) * (1 - truth)), (math.inf, d)):
                    new[loss + step] = new.get(loss + step, 0.0) + q * r
            law = new
        gains = (
            q * (1 if loss == math.inf else max(0.0, -math.expm1(epsilon - loss)))
            for loss, q in law.items()
        )
        most_delta = max(most_delta, sum(gains))
    return most_delta


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=4),
    st.integers(1, 3),
    st.sampled_from(BOTH),
)
def test_the_booked_pair_is_a_guarantee_for_every_way_through(costs_of_parts, most, neighbours):
    shared, sums = accounts.Parallel("basic", neighbours, most), {}
    for part, (e, d) in enumerate(costs_of_parts):
        shared.add(part, (Fraction(e, 10), Fraction(d, 1000)))
        sums[part] = (e / 10, d / 1000)
    epsilon, delta = map(float, shared.total())
    assert adaptive(sums, most, neighbours, epsilon) <= delta + 1e-12
    assert adaptive(sums, most, neighbours, 0.9 * epsilon) > 0
    if not delta:
        assert adaptive(sums, most, neighbours, epsilon * 0.999) > 0  # the epsilon is attained


@pytest.mark.parametrize("epsilon,delta", [(0.5, 1e-3), (1e-3, 0.01), (3.0, 1e-3)])
def test_replacing_inside_one_part_attains_the_group_delta(epsilon, delta):
    """Three laws, each (epsilon, delta)-close to the next: with, without, with another unit."""
    leaks = [(1 + math.exp(epsilon)) * delta, delta, 0.0]  # probabilities of one telling output
    laws = [{"tells": leak, "silent": 1 - leak} for leak in leaks]
    for a, b in itertools.pairwise(laws):
        assert audit.finite_delta(a, b, epsilon) == pytest.approx(delta, rel=1e-9)
    shared = accounts.Parallel("basic", "replace-one", 1)
    shared.add("a", (Fraction(str(epsilon)), Fraction(str(delta))))
    booked = shared.total()
    attained = audit.finite_delta(laws[0], laws[2], 2 * epsilon)
    assert float(booked[0]) == pytest.approx(2 * epsilon)
    assert attained == pytest.approx(float(booked[1]), rel=1e-9)
    assert booked[1] >= Fraction(leaks[0]) * (1 - Fraction(1, 10**15))


@pytest.mark.parametrize(
    "cost,doubled",
    [
        (ZCDP(0.1), ZCDP(0.4)),
        (Gaussian(0.3), Gaussian(0.6)),
        (Pure(0.3), Pure(0.6)),
        (Approximate(0.5, 1e-3), Approximate(*costs.group(0.5, 1e-3, 2))),
    ],
)
def test_a_replacement_inside_a_part_costs_two_steps_in_every_unit(cost, doubled):
    for name, one in accounts.FILTERS.items():
        if type(cost) not in one.takes:
            continue
        booked = one.replaced(*accounts.amount(cost, name))
        if isinstance(cost, Pure) and name == "gaussian":  # mu of 2 epsilon is below twice mu
            assert booked[0] > accounts.amount(doubled, name)[0]
        else:
            assert booked == accounts.amount(doubled, name)


def test_a_group_delta_never_passes_one():
    twice = accounts.FILTERS["basic"].replaced
    assert twice(Fraction(1000), Fraction(1, 10**300)) == (2000, 1)
    assert twice(Fraction(1, 10), Fraction(6, 10)) == (Fraction(1, 5), 1)
    assert twice(Fraction(0), Fraction(0)) == (0, 0)


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("unit", ["zcdp", "gaussian"])
def test_pure_releases_on_parts_stay_within_rho_and_mu(neighbours, unit):
    """Sums with geometric noise, values in [-1, 1]: divergences and deltas over all neighbours."""
    step, n = math.log(2), 3
    shared = accounts.Parallel(unit, neighbours, 1)
    for part in "ab":
        shared.add(part, accounts.amount(Pure(step), unit))
    changes = [(1, 0), (0, 1)] if neighbours == "add-remove" else [(1, 1), (1, -1), (2, 0), (0, 2)]
    spent = float(shared.total()[0])
    for one in itertools.product(range(n + 1), repeat=2):
        for change in changes:
            other = tuple(a + b for a, b in zip(one, change))
            if not all(0 <= x <= n for x in other):
                continue
            laws = [
                {
                    (i, j): float(p * q)
                    for (i, p), (j, q) in itertools.product(
                        capped_geometric(t[0], n).items(), capped_geometric(t[1], n).items()
                    )
                }
                for t in (one, other)
            ]
            if unit == "gaussian":
                for e in (0, 0.2, 0.7, 1.3):
                    assert audit.finite_delta(*laws, e) <= curves.gaussian_delta(
                        e, math.sqrt(spent)
                    )
                continue
            for order in (1.001, 1.5, 2, 4, 16):
                total = math.fsum(p**order * laws[1][o] ** (1 - order) for o, p in laws[0].items())
                assert math.log(total) / (order - 1) <= order * spent * (1 + 1e-9)


# ------------------------------------------------------------- costs chosen on the way: adversaries


def adversary(epsilon, choices, allowed):
    """The most that delta at `epsilon` can become when each next randomized response, of cost n
    quarters, is chosen from the answers so far: exact, over the whole tree. `allowed(counts)` says
    what the filter lets pass."""

    @functools.lru_cache(None)
    def most(counts, position):
        best = max(0.0, -math.expm1(epsilon - position / 4))
        for i, n in enumerate(choices):
            after = tuple(c + (j == i) for j, c in enumerate(counts))
            if allowed(after):
                p = 1 / (1 + math.exp(-n / 4))
                best = max(
                    best, p * most(after, position + n) + (1 - p) * most(after, position - n)
                )
        return best

    return most((0,) * len(choices), 0)


@pytest.mark.parametrize(
    "name,budget",
    [
        ("zcdp", (1.5, 0.1)),
        ("zcdp", (2.0, 0.01)),
        ("gaussian", (1.5, 0.1)),
        ("gaussian", (1.8, 0.05)),
        ("basic", (1.5, 0.0)),
    ],
)
def test_no_adversary_passes_the_cap_of_a_filter(name, budget):
    choices = (1, 2, 4)
    book = account(name, *budget)
    amounts = [accounts.amount(Pure(Fraction(n, 4)), name)[0] for n in choices]
    cap = book.budget[0]
    assert any(a <= cap for a in amounts)
    worst = adversary(
        budget[0], choices, lambda counts: sum(c * a for c, a in zip(counts, amounts)) <= cap
    )
    assert worst <= budget[1]
    if name != "basic":
        assert worst > 0  # there was something to attack
        loose = adversary(
            budget[0],
            choices,
            lambda counts: sum(c * a for c, a in zip(counts, amounts)) <= 4 * cap,
        )
        assert loose > budget[1]  # the broken twin, a cap four times too large


def stopped(epsilon0, bounds):
    """Delta that an adversary reaches against bounds stated after each of n releases, by stopping
    when it pays: exact."""
    p, n = 1 / (1 + math.exp(-epsilon0)), len(bounds)

    def gain(k, i):
        return max(0.0, -math.expm1(bounds[k - 1] - (k - 2 * i) * epsilon0)) if k else 0.0

    values = [gain(n, i) for i in range(n + 1)]
    for k in range(n - 1, -1, -1):
        values = [max(gain(k, i), p * values[i] + (1 - p) * values[i + 1]) for i in range(k + 1)]
    return values[0]


@pytest.mark.parametrize(
    "name,delta,times",
    [("exact", 0.01, 4.3), ("exact", 1e-6, 12.2), ("zcdp", 0.01, 1.66), ("zcdp", 1e-6, 1.03)],
)
def test_the_realised_amount_is_no_bound(name, delta, times):
    """Why a ledger without a plan states its cap: stop when the loss is high, and the total of what
    was spent is false."""
    bounds = [composition.epsilon_at([Pure(0.1)] * k, delta, name)[0] for k in range(1, 301)]
    assert stopped(0.1, bounds[-1:] * 300) <= delta * (1 + 1e-6)  # the same bound, fixed beforehand
    assert stopped(0.1, bounds) > times * delta


def test_an_exact_account_is_no_filter():
    """Why "exact" needs a plan: two ways to go on with one price, chosen by the first answer, cost
    more than the price."""
    epsilon, first = 1.0, 0.5

    def delta(left, costs):
        law = {0.0: 1.0}
        for e in costs:
            p, new = 1 / (1 + math.exp(-e)), {}
            for loss, q in law.items():
                new[loss + e], new[loss - e] = (
                    new.get(loss + e, 0) + p * q,
                    new.get(loss - e, 0) + (1 - p) * q,
                )
            law = new
        return sum(q * max(0.0, -math.expm1(left - loss)) for loss, q in law.items())

    one = [1.0]
    low, high = 1e-6, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if delta(epsilon, [first] + [middle] * 4) <= delta(epsilon, [first, *one])
            else (low, middle)
        )
    four, price, p = [low] * 4, delta(epsilon, [first, *one]), 1 / (1 + math.exp(-first))
    switching = sum(
        q * max(delta(left, one), delta(left, four))
        for q, left in ((p, epsilon - first), (1 - p, epsilon + first))
    )
    assert (
        delta(epsilon, [first, *four]) == pytest.approx(price, rel=1e-9) and switching > 1.1 * price
    )
