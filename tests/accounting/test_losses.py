"""Privacy losses: k equal responses against enumeration and many digits, laws on a grid."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dputils.accounting import composition, losses, rounding
from dputils.accounting.costs import Pure


def of(x):
    """An exact fraction with many digits."""
    return mpmath.mpf(x.numerator) / x.denominator


def precise(epsilon0, k, epsilon):
    """Delta of k responses at 40 digits, by the sum over the number of lies."""
    with mpmath.workdps(40):
        e0, e = mpmath.mpf(repr(epsilon0)), mpmath.mpf(repr(epsilon))
        terms = (
            mpmath.binomial(k, i) * max(0, mpmath.exp((k - i) * e0) - mpmath.exp(e + i * e0))
            for i in range(k + 1)
        )
        return mpmath.fsum(terms) / (1 + mpmath.exp(e0)) ** k


@pytest.mark.parametrize("k", range(1, 13))
def test_exact_delta_by_enumeration_of_all_answers(k):
    """All 2^k answer patterns with fractions: odds of truth 3 to 2, thresholds rational in
    e^epsilon."""
    truth = Fraction(3, 5)
    epsilon0 = math.log(1.5)
    for power in range(k):
        odds = Fraction(3, 2) ** power * Fraction(11, 10)
        delta = Fraction(0)
        for lies in itertools.product((0, 1), repeat=k):
            i = sum(lies)
            delta += max(
                Fraction(0),
                truth ** (k - i) * (1 - truth) ** i - odds * truth**i * (1 - truth) ** (k - i),
            )
        ours = losses.exact_pure_delta(epsilon0, k, math.log(odds))
        assert ours == pytest.approx(float(delta), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(
    "epsilon0,k",
    [(1e-5, 7), (0.01, 400), (0.1, 100), (1.0, 1), (1.0, 60), (3.0, 9), (40.0, 3), (0.5, 1500)],
)
def test_exact_delta_is_never_below_and_hardly_above(epsilon0, k):
    total = epsilon0 * k
    for epsilon in [0.0, total * 1e-3, total * 0.11, total / 3, total * 0.7, total * (1 - 1e-6)]:
        ours, exact = losses.exact_pure_delta(epsilon0, k, epsilon), precise(epsilon0, k, epsilon)
        assert exact <= ours <= exact * (1 + 1e-8) + mpmath.mpf(10) ** -300
    assert losses.exact_pure_delta(epsilon0, k, total * 1.01) == 0
    grid = np.array([[0, total / 2], [total / 3, total]])
    assert (
        losses.exact_pure_delta(epsilon0, k, grid)
        == [[losses.exact_pure_delta(epsilon0, k, e) for e in row] for row in grid]
    ).all()


@pytest.mark.parametrize(
    "epsilon0,k",
    [(1e-5, 7), (0.001, 10**5), (0.01, 400), (0.1, 100), (1.0, 1), (3.0, 9), (40.0, 3)],
)
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30, 1e-10, 1e-6, 1e-3, 0.1, 0.4])
def test_exact_epsilon_is_the_smallest_on_the_safe_side(epsilon0, k, delta):
    epsilon = losses.exact_pure_epsilon(epsilon0, k, delta)
    assert 0 <= epsilon <= math.nextafter(epsilon0 * k, math.inf)
    assert losses.exact_pure_delta(epsilon0, k, epsilon) <= delta
    if epsilon:
        assert losses.exact_pure_delta(epsilon0, k, epsilon * (1 - 1e-7)) > delta * (1 - 1e-7)
    if k <= 400:
        assert precise(epsilon0, k, epsilon) <= delta


def test_exact_epsilon_without_delta_is_the_sum():
    assert losses.exact_pure_epsilon(0.1, 3, 0) == 0.3 and losses.exact_pure_delta(0.1, 3, 0.3) == 0


@pytest.mark.parametrize("epsilon0", 10.0 ** np.arange(-8, 3))
def test_exact_pure_round_trip_over_ten_decades(epsilon0):
    for k in (1, 30, 1000):
        for share in (0.1, 0.5, 0.9):
            epsilon = share * k * epsilon0
            delta = losses.exact_pure_delta(epsilon0, k, epsilon)
            if not 1e-300 < delta < 1:
                continue
            back = losses.exact_pure_epsilon(epsilon0, k, delta)
            # epsilon itself is ill-conditioned where delta hardly falls: judge by delta
            assert delta * (1 - 1e-6) - 1e-14 <= losses.exact_pure_delta(epsilon0, k, back) <= delta
            more = losses.exact_pure_delta(epsilon0, k, 1.01 * epsilon)
            assert more <= delta  # falls with epsilon


@pytest.mark.parametrize("epsilon0,k,delta", [(0.1, 100, 1e-6), (0.5, 20, 1e-4), (1.0, 3, 1e-3)])
def test_exact_agrees_with_dp_accounting(epsilon0, k, delta):
    """Its randomized response on a grid that rounds losses up by at most 1e-4 each."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    flip = pld.from_randomized_response(
        2 / (1 + math.exp(epsilon0)), 2, value_discretization_interval=1e-4
    )
    theirs = flip.self_compose(k).get_epsilon_for_delta(delta)
    assert (
        theirs * (1 - 0.002) < losses.exact_pure_epsilon(epsilon0, k, delta) <= theirs * (1 + 1e-12)
    )


def test_dp_accounting_on_a_bad_grid_says_more():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    flip = pld.from_randomized_response(
        2 / (1 + math.exp(0.01)), 2, value_discretization_interval=1e-4
    )
    assert flip.self_compose(10**4).get_epsilon_for_delta(1e-6) == pytest.approx(5.360, abs=1e-3)


@pytest.mark.parametrize("epsilon0", [0.1, 0.3, 0.7, 1.1, Fraction(1, 3), 2.3])
def test_the_highest_loss_counts_up_to_its_last_digit(epsilon0):
    """Just below the sum of all epsilons only the highest loss is left, by less than its
    rounding."""
    with mpmath.workdps(60):
        for k in range(1, 40):
            most, epsilon = k * Fraction(str(epsilon0)), rounding.lower(k * Fraction(str(epsilon0)))
            if Fraction(repr(epsilon)) < most:  # read as its decimal
                exact = (1 + mpmath.exp(-of(Fraction(str(epsilon0))))) ** -k * -mpmath.expm1(
                    of(Fraction(repr(epsilon)) - most)
                )
                assert 0 < exact <= losses.exact_pure_delta(epsilon0, k, epsilon)


def test_a_split_loss_keeps_both_probabilities():
    """The law on a grid has the mass of k responses under both neighbours, to rounding, and never
    less delta."""
    low, law, lost = losses.on_grid(Fraction(1, 3), Fraction(0), 7, 0.1)
    points = (low + np.arange(law.size)) * 0.1
    assert law.sum() + lost == pytest.approx(1) and (law * np.exp(-points)).sum() == pytest.approx(
        1
    )
    for epsilon in np.linspace(0, 2.3, 24):
        delta = lost + (law * np.maximum(0, -np.expm1(epsilon - points))).sum()
        assert (
            losses.exact_pure_delta(1 / 3, 7, epsilon) * (1 - 1e-12)
            <= delta
            < losses.exact_pure_delta(1 / 3, 7, epsilon) + 5e-4
        )


@pytest.mark.parametrize(
    "epsilon0,k,step",
    [(0.7, 3, 0.7), (0.1, 7, 0.1), (0.3, 5, 0.1), (1.1, 9, 1.1), (0.75, 3, 0.15), (0.5, 4, 0.13)],
)
def test_a_law_on_the_grid_is_nowhere_below_the_true_one(epsilon0, k, step):
    """Also just below each loss, where the true law has its kinks; a step is a float, the losses
    are decimals."""
    with mpmath.workdps(50):
        low, law, lost = losses.on_grid(Fraction(str(epsilon0)), Fraction(0), k, step)
        e0, points = (
            mpmath.mpf(str(epsilon0)),
            [(low + i) * mpmath.mpf(step) for i in range(law.size)],
        )
        p = 1 / (1 + mpmath.exp(-e0))
        true = [
            (mpmath.binomial(k, i) * p ** (k - i) * (1 - p) ** i, (k - 2 * i) * e0)
            for i in range(k + 1)
        ]

        def delta(law, epsilon):
            return mpmath.fsum(m * max(0, -mpmath.expm1(epsilon - loss)) for m, loss in law)

        for _, loss in true[: k // 2 + 1]:
            for below in (1e-25, 1e-17, 1e-9, 0.01):
                ours = lost + delta(
                    [(mpmath.mpf(m), x) for m, x in zip(law.tolist(), points)], loss - below
                )
                assert delta(true, loss - below) <= ours


def test_what_the_grid_cuts_off_counts_as_an_infinite_loss():
    for costs, delta in (
        ([Pure(0.1)] * 1000, 1e-60),
        ([Pure(0.1)] * 150 + [Pure(0.2)] * 150, 1e-90),
    ):
        with pytest.raises(
            ValueError,
            match=r"^delta must be above \d\.?\d*e-\d\d for the numerical account, got 1e-[69]0$",
        ):
            composition.numerical(costs, delta)
    assert composition.numerical([Pure(0.1)] * 1000, 1e-40) >= losses.exact_pure_epsilon(
        0.1, 1000, 1e-40
    ) * (1 - 1e-11)
    low, law, lost = losses.on_grid(Fraction(1, 10), Fraction(0), 1000, 0.1)
    with mpmath.workdps(40):
        p, top = 1 / (1 + mpmath.exp(-mpmath.mpf("0.1"))), low + int(np.flatnonzero(law)[-1]) - 1
        tail = mpmath.fsum(
            mpmath.binomial(1000, i) * p ** (1000 - i) * (1 - p) ** i
            for i in range(501)
            if 1000 - 2 * i > top
        )
        assert 0 < tail <= lost < 1e-42
    low, law, lost = losses.cut(losses.GridLaw(-3, np.arange(1.0, 9), 0.5), 2)
    assert (low, law.tolist(), lost) == (-2, [3.0, 3, 4, 5, 6], 15.5)


def test_the_ends_of_the_stated_range():
    assert (
        losses.exact_pure_epsilon(1e6, 1, 0.1) <= 1e6
        and losses.exact_pure_delta(1, 10**6, 1e6) == 0
    )
    assert losses.exact_pure_delta(1e5, 10, 5) == losses.exact_pure_delta(1e6, 1, 5) == 1
    assert losses.exact_pure_delta(1e6, 1, 1e6) == 0
    assert losses.exact_pure_epsilon(0.1, 3, Fraction(1, 10**400)) == 0.3
    assert losses.exact_pure_epsilon(0.1, 3, 1 - Fraction(1, 10**30)) == 0


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: losses.exact_pure_delta(0, 3, 1), "epsilon0 must be positive and finite, got 0"),
        (lambda: losses.exact_pure_delta(1, 0, 1), "k must be at least 1, got 0"),
        (lambda: losses.exact_pure_delta(1, 1, -1), "epsilon must be at least 0, got -1"),
        (
            lambda: losses.exact_pure_delta(1, 10**6 + 1, 1),
            "k epsilon0 must be at most 1e+06, got k=1000001, epsilon0=1",
        ),
        (
            lambda: losses.exact_pure_epsilon(1e308, 10, 0.5),
            "k epsilon0 must be at most 1e+06, got k=10, epsilon0=1e+308",
        ),
        (lambda: losses.exact_pure_epsilon(1, 1.5, 0.1), "k must be an integer, got 1.5"),
        (lambda: losses.exact_pure_epsilon(1, 1, 1), "delta must be in [0, 1), got 1"),
    ],
)
def test_refusals_of_losses(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message
