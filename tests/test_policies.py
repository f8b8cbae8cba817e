"""Policies: the map against great circles, chains against `metrics.closed`, beliefs against Bayes'
rule and the promise, refusals.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dputils import metrics, policies


def rng(seed=0):
    return np.random.default_rng(seed)


def matrix(metric):
    i = np.arange(metric.size)
    return metric.distance(i[:, None], i)


# -------------------------------------------------------------------------------------------- maps


def test_distances_on_the_ground():
    quarter = math.pi / 2 * policies.EARTH
    found = policies.ground([0, 90, -90, 0, 0], [90, 12, 77, 180, 0], (0, 0))
    assert np.allclose(found, [quarter, quarter, quarter, 2 * quarter, 0])
    paris, london = (48.8566, 2.3522), (51.5074, -0.1278)
    (d,) = policies.ground([paris[0]], [paris[1]], london)
    assert d == pytest.approx(343.6, abs=0.3)
    (turned,) = policies.ground([paris[0]], [paris[1] - 360], london)
    assert turned == pytest.approx(d)


def by_vectors(u, v):
    u, v = np.radians(u), np.radians(v)
    return np.column_stack([np.cos(u) * np.cos(v), np.cos(u) * np.sin(v), np.sin(u)])


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    st.integers(0, 2**32 - 1),
    st.floats(0.01, 89),
)
def test_the_map_keeps_the_centre_and_never_shortens(centre, seed, most):
    source = rng(seed)
    # places in the cap around the centre: turn the pole into it
    angle, turn = np.radians(source.uniform(0, most, 30)), source.uniform(0, 2 * np.pi, 30)
    u0, v0 = np.radians(centre)
    up = by_vectors([centre[0]], [centre[1]])[0]
    east = np.array([-np.sin(v0), np.cos(v0), 0])
    north = np.cross(up, east)
    x = np.outer(np.cos(angle), up) + np.outer(np.sin(angle) * np.sin(turn), east)
    x += np.outer(np.sin(angle) * np.cos(turn), north)
    lat = np.degrees(np.arcsin(np.clip(x[:, 2], -1, 1)))
    lon = np.degrees(np.arctan2(x[:, 1], x[:, 0]))
    flat = policies.project(lat, lon, centre)
    scale = policies.EARTH
    assert np.allclose(np.hypot(*flat.T), angle * scale, atol=1e-3)
    if abs(centre[0]) < 89.9:
        assert np.allclose(flat, (angle * scale * np.array([np.sin(turn), np.cos(turn)])).T, atol=1)
    on_map = np.hypot(*(flat[:, None] - flat).transpose(2, 0, 1))
    for i in range(30):
        on_ground = policies.ground(lat, lon, (lat[i], lon[i]))
        assert (on_map[i] >= on_ground - 1e-3).all()
        assert (on_map[i] <= on_ground * angle.max() / np.sin(angle.max()) + 1e-3).all()


def test_a_map_does_not_depend_on_the_last_bits_of_a_sine(monkeypatch):
    lat, lon = np.linspace(25, 49, 400), np.linspace(-124, -67, 400)
    flat, sine = policies.project(lat, lon, (40, -95)), np.sin
    monkeypatch.setattr(policies.np, "sin", lambda x: sine(x) * (1 + 2.0**-52))
    assert np.array_equal(policies.project(lat, lon, (40, -95)), flat)
    assert np.array_equal(flat, np.round(flat, 6))


def test_the_ground_by_vectors():
    source = rng(5)
    lat, lon = source.uniform(-90, 90, 50), source.uniform(-180, 180, 50)
    x = by_vectors(lat, lon)
    for i in range(0, 50, 7):
        angle = np.arctan2(np.linalg.norm(np.cross(x[i], x), axis=1), x @ x[i])
        assert np.allclose(policies.ground(lat, lon, (lat[i], lon[i])), angle * policies.EARTH)


def test_maps_refuse():
    for call, name in (
        (lambda: policies.ground([91], [0], (0, 0)), "latitude"),
        (lambda: policies.ground([0], [400], (0, 0)), "longitude"),
        (lambda: policies.ground([0, 1], [0], (0, 0)), "latitude and longitude"),
        (lambda: policies.ground(0.0, 0.0, (0, 0)), "latitude and longitude"),
        (lambda: policies.ground([np.nan], [0], (0, 0)), "latitude"),
        (lambda: policies.ground([0], [0], 5), "centre"),
        (lambda: policies.ground([0], [0], (0, 0, 0)), "centre"),
        (lambda: policies.project([0], [0], (95, 0)), "latitude"),
        (lambda: policies.project([0], [91], (0, 0)), "centre must be within 90 degrees"),
        (lambda: policies.project(["here"], [0], (0, 0)), "latitude"),
    ):
        with pytest.raises(ValueError, match=name):
            call()


# ------------------------------------------------------------------------------------------ chains


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.integers(0, 2**32 - 1), st.floats(0.05, 2), st.integers(1, 2))
def test_hops_are_the_shortest_paths_of_the_policy(n, seed, radius, dimensions):
    x = rng(seed).uniform(0, 3, (n, dimensions)).round(1)  # some places coincide
    x = x[:, 0] if dimensions == 1 else x
    steps = matrix(metrics.blowfish(x, radius, 1))
    closed = matrix(metrics.closed(steps))
    numbers = policies.regions(x, radius)
    assert np.array_equal(np.isfinite(closed), numbers[:, None] == numbers)
    assert sorted(set(numbers.tolist())) == list(range(numbers.max() + 1))
    for start in {0, n // 2, n - 1}:
        assert np.array_equal(policies.hops(x, radius, start), closed[start])


def test_what_lies_on_the_border_is_within():
    x = [0, 0.1, 0.2, 0.30000000000000004, 1]
    assert policies.hops(x, 0.1, 0).tolist() == [0, 1, 2, 3, math.inf]
    assert policies.regions(x, 0.1).tolist() == [0, 0, 0, 0, 1]
    far = [[1e9, 0], [1e9 + 0.1, 0]]
    assert policies.hops(far, 0.1, 0)[1] == matrix(metrics.blowfish(far, 0.1, 1))[0, 1]
    assert policies.hops([5, 5], 1, 1).tolist() == [1, 0]
    beyond = [0, 1 + 2.0**-25]
    assert policies.hops(beyond, 1, 0)[1] == math.inf and policies.regions(beyond, 1)[1] == 1


def test_the_count_of_a_region_is_not_protected_and_any_other_one_is():
    x = rng(3).uniform(0, 20, (200, 2))
    numbers = policies.regions(x, 1.0)
    assert numbers.max() > 3
    metric = metrics.blowfish(x, 1.0, 0.5)
    for one in range(numbers.max() + 1):
        assert metrics.scale((numbers == one).astype(int), metric) == 0
    largest = np.flatnonzero(numbers == np.argmax(np.bincount(numbers)))
    half = np.zeros(200, dtype=int)
    half[largest[::2]] = 1
    assert metrics.scale(half, metric) == pytest.approx(2, rel=1e-11)


def test_chains_refuse():
    x = [[0, 0], [1, 0]]
    for call, name in (
        (lambda: policies.hops(x, 0, 0), "radius"),
        (lambda: policies.hops(x, 1, 2), "start"),
        (lambda: policies.hops(x, 1, -1), "start"),
        (lambda: policies.hops(x, 1, 0.0), "start"),
        (lambda: policies.hops([[0, np.nan], [1, 0]], 1, 0), "places"),
        (lambda: policies.regions([1], 1), "places"),
        (lambda: policies.regions(np.zeros(5900), 1), "radius must leave"),
    ):
        with pytest.raises(ValueError, match=name):
            call()


# ----------------------------------------------------------------------------------------- beliefs


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**32 - 1), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_beliefs_are_those_of_bayes_and_keep_the_promise(n, seed, scale, seen):
    source = rng(seed)
    q, prior = source.normal(0, 10, n), source.random(n) * (source.random(n) < 0.8)
    prior[0] = 0.5
    found = policies.posterior(prior, q, scale, seen)
    assert found.sum() == pytest.approx(1) and (found[prior == 0] == 0).all()
    nearest = np.abs(q - seen)[prior > 0].min()
    by_hand = prior * np.exp(np.minimum(nearest - np.abs(q - seen), 0) / scale)
    assert np.allclose(found, by_hand / by_hand.sum(), atol=1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(found) - np.log(prior)
        lost = np.abs(moved[:, None] - moved)
    sure = found > 1e-290
    both = sure[:, None] & sure
    allowed = np.abs(q[:, None] - q) / scale
    assert (lost[both] <= allowed[both] * (1 + 1e-9) + 1e-9).all()


def test_beliefs_after_an_exact_answer_and_far_away():
    prior, q = [2, 1, 1, 0], [5, 5, 7, 9]
    assert np.allclose(policies.posterior(prior, q, 0, 5), [2 / 3, 1 / 3, 0, 0])
    assert policies.posterior(prior, q, 0, 9).tolist() == [0, 0, 0, 0]
    assert policies.posterior(prior, q, 1e-3, -1e6) == pytest.approx([2 / 3, 1 / 3, 0, 0])
    flat = policies.posterior(prior, q, 1e9, 0)
    assert flat == pytest.approx([0.5, 0.25, 0.25, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("prior", "query", "scale", "seen", "expected"),
    [
        ([1, 1], [0, 1], 5e-324, 0.5, [0.5, 0.5]),
        ([1, 3], [0, 1e50], 1e-300, 5e49, [0.25, 0.75]),
        ([1, 1], [0, 1], 1e-300, 1e10, [0, 1]),
        ([0, 1, 1], [0, 1, 2], 5e-324, -1, [0, 1, 0]),  # the nearest place is impossible
        ([0, 1, 1], [0, 1e50, -1e50], 5e-324, 0, [0, 0.5, 0.5]),
    ],
)
def test_beliefs_at_tiny_scales(prior, query, scale, seen, expected):
    assert policies.posterior(prior, query, scale, seen).tolist() == expected


def test_what_is_near_on_the_ground_is_within_the_stretched_radius_on_the_map():
    source = rng(4)
    lat, lon = source.uniform(40, 50, 400), source.uniform(-20, 80, 400)
    flat = policies.project(lat, lon, (45, 0))
    angle = np.hypot(*flat.T).max() / policies.EARTH
    on_map = np.hypot(*(flat[:, None] - flat).transpose(2, 0, 1))
    on_ground = np.array([policies.ground(lat, lon, here) for here in zip(lat, lon, strict=True)])
    near = on_ground <= 300
    assert (on_map[near] > 300).any()  # the stretch is needed
    assert (on_map[near] <= 300 * angle / np.sin(angle) * (1 + 1e-9)).all()


def test_beliefs_of_the_release_itself():
    """Against the law of `metrics.mechanism`, whole numbers."""
    x = rng(2).uniform(0, 10, (40, 2))
    q = np.rint(np.hypot(*x.T)).astype(int)
    release = metrics.mechanism(q, metrics.smooth(x, 2, 0.7))
    c, law, seen = metrics.scale(q, metrics.smooth(x, 2, 0.7)), release.law(1), 6
    chance = law(seen - q) - law(seen - q - 1)
    found = policies.posterior(np.ones(40), q, c, seen)
    assert np.allclose(found, chance / chance.sum(), rtol=1e-6)


def test_beliefs_refuse():
    for call, name in (
        (lambda: policies.posterior([1, 1], [1], 1, 0), "prior"),
        (lambda: policies.posterior([0, 0], [1, 2], 1, 0), "prior"),
        (lambda: policies.posterior([1, -1], [1, 2], 1, 0), "prior"),
        (lambda: policies.posterior([1, 1], [1, np.inf], 1, 0), "query"),
        (lambda: policies.posterior([1, 1], [1, 2], -1, 0), "scale"),
        (lambda: policies.posterior([1, 1], [1, 2], 1, np.nan), "seen"),
    ):
        with pytest.raises(ValueError, match=name):
            call()
