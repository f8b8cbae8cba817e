"""Randomized response: its epsilon by enumeration, its estimate and variance by enumeration, its
sampler against its law.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import audit, noise, sensitivity
from dputils import randomized_response as rr
from dputils.accounting import Pure


def law_of_report(truth, k, ratio):
    """The exact law of one report for e^epsilon = ratio, a Fraction."""
    return {
        report: (ratio if report == truth else Fraction(1)) / (ratio + k - 1) for report in range(k)
    }


def law_of_reports(table, k, ratio):
    """The exact joint law of the reports of a table of persons."""
    laws = [law_of_report(truth, k, ratio) for truth in table]
    return {
        reports: math.prod(law[r] for law, r in zip(laws, reports))
        for reports in itertools.product(range(k), repeat=len(table))
    }


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("ratio", [Fraction(3), Fraction(3, 2), Fraction(10**5 + 1, 10**5)])
def test_epsilon_is_exact_by_enumeration(k, ratio):
    epsilon = math.log1p(ratio - 1)
    laws = [law_of_report(truth, k, ratio) for truth in range(k)]
    assert all(sum(law.values()) == 1 for law in laws)
    assert all(
        max(p[r] / q[r] for r in range(k)) == ratio for p, q in itertools.permutations(laws, 2)
    )
    assert all(
        math.isclose(audit.finite_epsilon(p, q), epsilon, rel_tol=1e-15)
        for p, q in itertools.combinations(laws, 2)
    )
    np.testing.assert_allclose(
        rr.probabilities(epsilon, k), [float(laws[0][0]), float(laws[0][1])], rtol=1e-14
    )


def test_epsilon_of_a_whole_table_of_reports():
    # the tables of `neighbour_pairs` are sorted, so a pair may differ in several rows: keep those
    # that differ in one person
    pairs = [
        (a, b)
        for a, b in sensitivity.neighbour_pairs(range(3), 3, "replace-one")
        if sum(x != y for x, y in zip(a, b)) == 1
    ]
    assert len(pairs) > 10
    epsilon, _ = audit.mechanism_epsilon(lambda table: law_of_reports(table, 3, Fraction(4)), pairs)
    assert epsilon == math.log(4)


@given(st.floats(1e-5, 500), st.integers(2, 50))
def test_probabilities_are_a_law_with_the_stated_ratio(epsilon, k):
    p, q = rr.probabilities(epsilon, k)
    assert p + (k - 1) * q == pytest.approx(1, rel=1e-14) and p > q > 0
    assert math.log(p / q) == pytest.approx(epsilon, rel=1e-14, abs=1e-15)
    stronger = rr.probabilities(2 * epsilon, k)
    assert stronger[0] >= p and stronger[1] <= q


@pytest.mark.parametrize("table,k", [((0, 1, 1), 2), ((2, 0, 0), 3), ((1, 1), 4)])
def test_estimate_and_variance_by_enumeration(table, k):
    ratio, n = Fraction(5, 2), len(table)
    epsilon = math.log(ratio)
    law = law_of_reports(table, k, ratio)
    estimates = {reports: rr.estimate(reports, k, epsilon) for reports in law}
    truth = np.bincount(table, minlength=k) / n
    mean = sum(float(law[r]) * estimates[r] for r in law)
    variance = sum(float(law[r]) * (estimates[r] - truth) ** 2 for r in law)
    np.testing.assert_allclose(mean, truth, atol=1e-13)
    np.testing.assert_allclose(rr.variance(truth, n, k, epsilon), variance, rtol=1e-11)
    assert all(estimate.sum() == pytest.approx(1) for estimate in estimates.values())


def test_estimate_and_variance_over_ten_decades():
    reports = [0, 0, 1, 2]
    for epsilon in 10.0 ** np.arange(-6, 3):
        e = Fraction(epsilon)  # (share - q)/(p - q) in fractions, with the series of e^-epsilon
        a = (
            sum((-e) ** j / math.factorial(j) for j in range(60))
            if epsilon <= 1
            else Fraction(math.exp(-epsilon))
        )
        p, q = 1 / (1 + 2 * a), a / (1 + 2 * a)
        exact = [float((Fraction(share) - q) / (p - q)) for share in (0.5, 0.25, 0.25)]
        np.testing.assert_allclose(
            rr.estimate(reports, 3, epsilon), exact, rtol=1e-7 if epsilon < 1e-6 else 1e-9
        )
        expected = float(q * (1 - q) / (7 * (p - q) ** 2))
        assert rr.variance(0, 7, 3, epsilon) == pytest.approx(expected, rel=1e-12)


def test_estimate_of_no_reports_and_of_strange_ones():
    assert rr.estimate([], 4, 1.0) == pytest.approx(0.25)
    np.testing.assert_allclose(rr.estimate([-3, 9], 2, 1.0), [0.5, 0.5])


def cdf_of(truth, k, epsilon):
    """The distribution function of one report."""
    p, q = rr.probabilities(epsilon, k)
    steps = np.cumsum([0.0] + [p if report == truth else q for report in range(k)])
    return lambda x: steps[np.clip(np.floor(x) + 1, 0, k).astype(int)].clip(0, 1)


@pytest.mark.parametrize("k,truth", [(2, 1), (3, 0), (6, 4)])
def test_the_release_follows_its_law_and_a_weaker_one_is_caught(k, truth):
    """False alarm 1e-6; the twin spends twice the epsilon it states and is missed with probability
    at most 1e-6.
    """
    epsilon = 0.8
    claimed, true = cdf_of(truth, k, epsilon), cdf_of(truth, k, 2 * epsilon)
    distance = np.abs(claimed(np.arange(k)) - true(np.arange(k))).max()
    n = audit.law_test_size(distance, tests=3)
    assert n < 20_000
    generator = np.random.default_rng(11)
    honest = rr.release(np.full(n, truth), k, epsilon, rng=generator)
    twin = rr.release(np.full(n, truth), k, 2 * epsilon, rng=generator)
    assert audit.law_test(honest, claimed, discrete=True, rng=generator).passes()
    assert not audit.law_test(twin, claimed, discrete=True, rng=generator).passes()


HOSTILE = [
    math.nan,
    math.inf,
    -math.inf,
    -5,
    99,
    1.4,
    None,
    "?",
    10**400,
    -(10**30),
    pd.NA,
    True,
    [1],
    2**63,
]


def test_release_refuses_no_private_value():
    certain = rr.release(
        HOSTILE, 3, 700, rng=np.random.default_rng(0)
    )  # at this epsilon the truth is reported
    assert (
        certain.tolist() == [0, 2, 0, 0, 2, 1, 0, 0, 2, 0, 0, 1, 0, 2] and certain.dtype == np.int64
    )
    for values in (
        [],
        np.array([]),
        np.array([math.nan, 7.0]),
        np.array([1, 2], dtype=np.uint8),
        np.array([True]),
        pd.Series([1, None]),
    ):
        reports = rr.release(values, 3, Fraction(1, 3), rng=noise.SYSTEM)
        assert len(reports) == len(values) and set(reports.tolist()) <= {0, 1, 2}


def test_release_leaves_the_values_alone():
    values = np.array([0, 1, 2, 1])
    rr.release(values, 3, 0.1, rng=np.random.default_rng(1))
    assert values.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("values", [[], [1, 0]])
@pytest.mark.parametrize(
    "k,epsilon,rng,message",
    [
        (1, 1.0, noise.SYSTEM, "k must be at least 2, got 1"),
        (2.0, 1.0, noise.SYSTEM, "k must be an integer, got 2.0"),
        (2, 0, noise.SYSTEM, "epsilon must be positive and finite, got 0"),
        (2, math.inf, noise.SYSTEM, "epsilon must be positive and finite, got inf"),
        (2, 1.0, None, "rng must be a np.random.Generator or dputils.noise.SYSTEM, got None"),
    ],
)
def test_release_refuses_public_arguments_whatever_the_table(values, k, epsilon, rng, message):
    with pytest.raises(ValueError) as caught:
        rr.release(values, k, epsilon, rng=rng)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: rr.probabilities(-1), "epsilon must be positive and finite, got -1"),
        (lambda: rr.probabilities(1, 1), "k must be at least 2, got 1"),
        (lambda: rr.estimate([0], 1, 1), "k must be at least 2, got 1"),
        (lambda: rr.estimate([0], 2, math.nan), "epsilon must be positive and finite, got nan"),
        (lambda: rr.variance(0.5, 0, 2, 1), "n must be at least 1, got 0"),
        (lambda: rr.probabilities(9e-7), "epsilon must be between 1e-06 and 1000, got 9e-07"),
        (lambda: rr.probabilities(1001), "epsilon must be between 1e-06 and 1000, got 1001"),
        (
            lambda: rr.probabilities(1, 2**50 + 1),
            "k must be between 2 and 2**50, got 1125899906842625",
        ),
        (
            lambda: rr.variance(0.5, 2**60, 2, 1),
            "n must be between 1 and 2**50, got 1152921504606846976",
        ),
        (lambda: rr.tail(0.1, 0, 2, 1), "n must be at least 1, got 0"),
        (lambda: rr.accuracy(10, 2, 1, 1e-251), "beta must be between 1e-250 and 1, got 1e-251"),
        (lambda: rr.mechanism(1, 1), "k must be at least 2, got 1"),
        (lambda: rr.mechanism(2, -1), "epsilon must be positive and finite, got -1"),
        (
            lambda: rr.mechanism(2, 1)(np.zeros((2, 2)), rng=noise.SYSTEM),
            "values must have shape (n,), got (2, 2)",
        ),
        (lambda: rr.logpmf(0, 0, 1, 1), "k must be at least 2, got 1"),
        (lambda: rr.cdf(0, 0, 2, 0), "epsilon must be positive and finite, got 0"),
        (lambda: rr.variance(0.5, 10, 2, 0), "epsilon must be positive and finite, got 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_accuracy_covers_and_is_the_inverse_of_its_tail():
    n, k, epsilon, beta = 500, 3, 1.0, 0.05
    alpha = rr.accuracy(n, k, epsilon, beta)
    p, q = rr.probabilities(epsilon, k)
    assert 2 * np.exp(-2 * n * ((p - q) * alpha) ** 2) == pytest.approx(beta)
    rng = np.random.default_rng(5)
    truth = np.arange(n) % k
    errors = [
        rr.estimate(rr.release(truth, k, epsilon, rng=rng), k, epsilon)[0] - np.mean(truth == 0)
        for _ in range(300)
    ]
    assert (
        np.mean(np.abs(errors) > alpha) < 0.2
    )  # expected at most 0.05: false alarm below 1e-6 by Hoeffding
    with pytest.raises(ValueError, match="beta must be strictly between 0 and 1, got 2"):
        rr.accuracy(n, k, epsilon, 2)


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [1e-6, 0.8, 30])
def test_the_law_of_one_report(k, epsilon):
    p, q = rr.probabilities(epsilon, k)
    for truth in range(k):
        chances = np.exp(rr.logpmf(np.arange(k), truth, k, epsilon))
        np.testing.assert_allclose(chances, [p if r == truth else q for r in range(k)], rtol=1e-14)
        np.testing.assert_allclose(
            rr.cdf(np.arange(k) + 0.5, truth, k, epsilon), np.cumsum(chances), rtol=1e-13
        )
    assert rr.cdf([-1, -0.5, k - 1, k, math.inf], 0, k, epsilon).tolist() == [0, 0, 1, 1, 1]
    assert rr.logpmf([-1, 0.5, k], 1, k, epsilon).tolist() == [-math.inf] * 3


def test_the_tail_is_the_inverse_of_the_accuracy():
    alpha = rr.accuracy(500, 3, 1.0, 0.05)
    assert rr.tail(alpha, 500, 3, 1.0) == pytest.approx(0.05)
    assert rr.tail([-1, 0], 500, 3, 1.0).tolist() == [1, 1]


def test_the_mechanism_is_its_release_and_its_law_that_of_its_reports():
    mechanism = rr.mechanism(4, 0.8)
    assert mechanism.costs == (Pure(0.8),) and mechanism.exact and mechanism.discrete
    assert (mechanism.neighbours, mechanism.unit) == ("replace-one", "one person's own value")
    values = [0, 3, 2, math.nan, 9]
    rng = np.random.default_rng
    assert mechanism(values, rng=rng(3)).tolist() == rr.release(values, 4, 0.8, rng=rng(3)).tolist()
    assert mechanism([1, 2], rng=noise.SYSTEM).shape == (2,)
    reports = mechanism(np.zeros(20_000), rng=rng(4))
    assert audit.law_test(reports, mechanism.law(1), discrete=True, rng=rng(5)).passes()
    assert not audit.law_test(reports, mechanism.law(1.5), discrete=True, rng=rng(5)).passes()


@pytest.mark.parametrize("epsilon", [5.0, 10.0])
def test_a_few_draws_at_a_large_epsilon_are_audited(epsilon):
    """No larger budget is caught by 100 draws; the search for one does not leave the range of
    epsilon.
    """
    survey = rr.mechanism(2, epsilon)
    reports = survey(np.zeros(100, dtype=int), rng=np.random.default_rng(7))
    missed = audit.assert_law(
        reports, survey.law(1), weaker=survey.law, discrete=True, rng=np.random.default_rng(8)
    ).missed
    assert missed.budget == math.inf
