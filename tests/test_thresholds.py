"""Thresholds on listed bins: survival, bias and error against sums over the law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import geometric, thresholds


@given(
    st.integers(0, 60), st.integers(1, 40), st.sampled_from([0.05, 0.4, 1.0, 3.7]), st.booleans()
)
def test_survival_bias_and_error_are_sums_over_the_law(count, theta, scale, lowered):
    z = np.arange(-400, 401)
    p = np.exp(geometric.logpmf(z, scale))
    shown = (thresholds.soft if lowered else thresholds.hard)(count + z, theta)
    bias, mse = thresholds.errors(count, theta, scale, lowered=lowered)
    survives = thresholds.kept(count, theta, scale)
    assert survives == pytest.approx(p[count + z >= theta].sum(), rel=1e-9, abs=1e-12)
    assert bias == pytest.approx(np.sum(p * (shown - count)), rel=1e-9, abs=1e-9)
    assert mse == pytest.approx(np.sum(p * (shown - count) ** 2), rel=1e-9, abs=1e-9)


def test_moments_of_arrays_far_counts_and_extreme_scales():
    counts = np.array([[0, 5], [10**6, 2**50]])
    for lowered in (False, True):
        bias, mse = thresholds.errors(counts, 5, 2, lowered=lowered)
        by = 5 if lowered else 0
        assert bias.shape == mse.shape == (2, 2)
        np.testing.assert_allclose(bias[1], -by, atol=1e-9)
        np.testing.assert_allclose(mse[1], geometric.variance(2) + by**2)
    wide = 2.0**40
    bias, mse = thresholds.errors(0, 1, wide)  # half of the noise, its negative half cut off
    assert bias == pytest.approx(wide / 2, rel=1e-6)
    assert mse == pytest.approx(wide**2, rel=1e-6)
    assert thresholds.errors(3, 1, 2.0**-50) == (0, 0)


@given(st.integers(1, 10**9), st.sampled_from([0.1, 1, 7.3, 1e6]), st.floats(1e-12, 0.999))
def test_the_smallest_threshold_is_the_smallest(empty, scale, beta):
    theta = thresholds.smallest(empty, scale, beta)

    def some(t):
        return -math.expm1(empty * math.log1p(-float(thresholds.kept(0, t, scale))))

    assert some(theta) <= beta * (1 + 1e-9)
    assert theta == 1 or some(theta - 1) > beta * (1 - 1e-9)


def test_hard_and_soft_keep_type_and_shape():
    noisy = np.array([[-3, 4], [5, 9]])
    assert thresholds.hard(noisy, 5).tolist() == [[0, 0], [5, 9]]
    assert thresholds.soft(noisy, 5).tolist() == [[0, 0], [0, 4]]
    assert thresholds.hard(noisy, 5).dtype == thresholds.soft(noisy, 5).dtype == np.int64


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: thresholds.kept(0, 0, 1), "theta must be positive and finite, got 0"),
        (lambda: thresholds.kept(0, 1.5, 1), "theta must be an integer, got 1.5"),
        (lambda: thresholds.kept(0.5, 1, 1), "counts must be whole numbers, got 0.5"),
        (lambda: thresholds.errors(-1, 1, 1), "counts must be between 0 and"),
        (lambda: thresholds.errors(1, 1, 0), "scale must be positive and finite, got 0"),
        (lambda: thresholds.smallest(0, 1, 0.1), "empty must be at least 1, got 0"),
        (lambda: thresholds.smallest(5, 1, 1), "beta must be between"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ValueError) as refusal:
        call()
    assert str(refusal.value).startswith(said)
