"""Regression from two noisy sums: exact sums in whole steps, sensitivities, scales, releases."""

import itertools
import math
import tracemalloc
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

from dputils import audit, discrete_gaussian, gaussian, noise, regression
from dputils.accounting import Ledger, curves
from dputils.accounting.costs import Approximate, Gaussian

BOUNDS = regression.Bounds(3, 1.0, 2.0)
DELTA = 1e-6


def table(n=200, d=3, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 0.5
    return X, X @ np.arange(1.0, d + 1) + rng.normal(size=n) * 0.1


def by_row(table, bounds):
    """The two sums in steps, one row at a time, with fractions and Python's integers."""
    d = bounds.columns
    gram, products = [[0] * d for _ in range(d)], [0] * d
    for x, y in zip(*table):
        steps = regression._in_steps((x[None], [y]), bounds)
        for i in range(d):
            products[i] += int(steps[1][i])
            for j in range(d):
                gram[i][j] += int(steps[0][i, j])
    return gram, products


@pytest.mark.parametrize("cut", [1, 7, 64, 200])
def test_sums_are_the_same_in_pieces_and_in_any_order_and_beside_any_rows(cut):
    X, y = table()
    X[::5] *= [[1e5], [1e-5], [1e200], [2.0], [9.0]] * 8
    whole = regression._in_steps((X, y), BOUNDS)
    pieces = ((X[i : i + cut], y[i : i + cut]) for i in range(0, len(X), cut))
    back = (X[::-1], y[::-1])
    strided = (np.repeat(X, 2, axis=1)[:, ::2], y)
    for other in (pieces, back, strided, (np.asfortranarray(X), y), (X.tolist(), y.tolist())):
        gram, products = regression._in_steps(other, BOUNDS)
        assert np.array_equal(gram, whole[0]) and np.array_equal(products, whole[1])
    gram, products = by_row((X, y), BOUNDS)
    assert whole[0].tolist() == gram and whole[1].tolist() == products


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_no_row_is_longer_than_the_bound_in_whole_steps(d):
    rng = np.random.default_rng(2)
    bounds = regression.Bounds(d, 1.0, 1.0)
    lengths = np.concatenate([10.0 ** rng.uniform(-9, 300, 500), 1 + rng.normal(size=500) * 1e-5])
    X = rng.normal(size=(1000, d))
    X *= (lengths / np.sqrt((X * X).sum(axis=1)))[:, None]
    X = np.vstack([X, np.ones((1, d)), np.full((1, d), 1 / math.sqrt(d)), np.zeros((1, d))])
    y = np.full(len(X), 1e9)
    records = regression._whole(X, y, bounds, np.empty((len(X), d + 1)))
    steps, responses = records[:, :-1], records[:, -1]
    assert (steps == np.rint(steps)).all()
    squares = [sum(int(v) ** 2 for v in row) for row in steps]
    assert max(squares) <= regression.STEPS**2 and (responses == regression.STEPS).all()
    kept = gaussian.clip_rows(X, 1.0) * regression.STEPS
    assert np.abs(steps - kept).max() <= 1.5


@pytest.mark.parametrize("d", [1, 3, 50])
def test_the_compiled_pass_writes_the_same_records(d, monkeypatch):
    rng = np.random.default_rng(3)
    bounds = regression.Bounds(d, 1.0, 2.0)
    X = rng.normal(size=(4000, d)) / math.sqrt(d)  # about half of the rows are too long
    X *= 10.0 ** rng.choice([0, 0, 0, 3, -3, 5, 100, 300], size=4000)[:, None]
    X[:1000] = np.rint(X[:1000] * 20) / 40 * (1 + 2**-15)  # ties of rounding
    y = rng.normal(size=4000) * 3
    X[7, 0], X[8, -1], X[9, 0], y[10], y[11], y[12] = math.nan, math.inf, -math.inf, *[math.nan] * 3
    y[13], y[14] = math.inf, -math.inf
    records = {}
    for many in (1, 1 << 60):
        monkeypatch.setattr(regression, "_MANY", many)
        records[many] = regression._whole(X, y, bounds, np.zeros((4000, d + 2)))
    plain, compiled = records.values()
    assert np.array_equal(plain, compiled)
    with np.errstate(over="ignore"):
        short = X.astype(np.float32)
    for array in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], short):
        monkeypatch.setattr(regression, "_MANY", 1)
        got = regression._whole(array, y, bounds, np.zeros((4000, d + 1)))
        monkeypatch.setattr(regression, "_MANY", 1 << 60)
        assert np.array_equal(got, regression._whole(array, y, bounds, np.zeros((4000, d + 1))))


def test_sums_are_those_of_the_clamped_rows_up_to_rounding():
    X, y = table(5000)
    got = regression.sums((X, y), BOUNDS)
    rows, responses = gaussian.clip_rows(X, 1.0), np.clip(y, -2, 2)
    n = len(X)
    assert np.abs(got.gram - rows.T @ rows).max() < 2 * n / regression.STEPS
    assert np.abs(got.products - rows.T @ responses).max() < 4 * n / regression.STEPS


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "odd", [math.nan, math.inf, -math.inf, 1e308, None, "text", 10**400, np.ma.masked]
)
def test_odd_records_raise_nothing_and_leave_the_others_alone(odd):
    X, y = table(6)
    cells = X.astype(object)
    cells[2, 1] = odd
    rest = np.arange(6) != 2
    exact = regression.sums((X[rest], y[rest]), BOUNDS)
    got = regression.sums((cells, y), BOUNDS)
    assert np.linalg.norm(got.gram - exact.gram) <= 1 + 1e-9
    responses = y.astype(object)
    responses[2] = odd
    got = regression.sums((X, responses), BOUNDS)
    assert np.linalg.norm(got.products - exact.products) <= 2 + 1e-9


def test_a_missing_value_makes_the_record_zeros_and_an_infinite_response_is_clamped():
    X = np.array([[0.5, 0.0, 0.0]])
    zero = regression.sums((np.full((1, 3), math.nan), [1.0]), BOUNDS)
    assert not zero.gram.any() and not zero.products.any()
    zero = regression.sums((X, [math.nan]), BOUNDS)
    assert not zero.gram.any() and not zero.products.any()
    assert regression.sums((X, [math.inf]), BOUNDS).products[0] == 1.0
    masked = np.ma.masked_array(X, mask=[[True, False, False]])
    assert not regression.sums((masked, [1.0]), BOUNDS).gram.any()


@pytest.mark.parametrize("empty", [([], []), (np.empty((0, 3)), np.empty(0)), iter(())])
def test_an_empty_table_is_answered(empty):
    assert not regression.sums(empty, BOUNDS).gram.any()
    mechanism = regression.adassp_mechanism(BOUNDS, "add-remove", 1.0, DELTA)
    fit = mechanism(([], []), rng=np.random.default_rng(1))
    assert np.isfinite(fit.coefficients).all()


@pytest.mark.parametrize("make", [regression.ssp_mechanism, regression.adassp_mechanism])
def test_a_file_is_released_piece_by_piece_in_a_fraction_of_its_memory(make, tmp_path):
    X, y = table(120_000)
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}).to_csv(path, index=False)
    rows = []

    def pieces():
        with pd.read_csv(path, chunksize=2000) as read:
            for piece in read:
                rows.append(len(piece))
                yield piece[["a", "b", "c"]], piece["y"]

    release = make(BOUNDS, "add-remove", 1.0, DELTA)
    one = Ledger(1.0, DELTA, neighbours="add-remove", unit="row", account="gaussian")
    whole = one.release("whole", release, (X, y), rng=np.random.default_rng(5))
    other = Ledger(1.0, DELTA, neighbours="add-remove", unit="row", account="gaussian")
    tracemalloc.start()
    try:
        fit = other.release("pieces", release, pieces(), rng=np.random.default_rng(5))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == [2000] * 60  # each piece was read once
    assert np.array_equal(fit.gram, whole.gram) and np.array_equal(fit.products, whole.products)
    assert np.array_equal(fit.coefficients, whole.coefficients)
    assert most < (X.nbytes + y.nbytes) / 3


def test_data_frames_and_columns_are_read():
    X, y = table(20)
    frame = pd.DataFrame(X)
    exact = regression.sums((X, y), BOUNDS)
    assert np.array_equal(regression.sums((frame, pd.Series(y)), BOUNDS).gram, exact.gram)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ((np.zeros((2, 2)), [1, 2]), "X"),
        ((np.zeros(3), [1, 2, 3]), "X"),
        ((np.zeros((2, 3)), [1, 2, 3]), "y"),
        ((np.array([["a"] * 3]), [1]), "X"),
        ((np.zeros((1, 3)), np.array(["a"])), "y"),
    ],
)
def test_public_shapes_are_refused(value, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        regression.sums(value, BOUNDS)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"columns": 0}, "columns"),
        ({"columns": 2.0}, "columns"),
        ({"norm": 0}, "norm"),
        ({"norm": 1e50}, "norm"),
        ({"response": math.nan}, "response"),
    ],
)
def test_bounds_are_checked(change, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        regression.Bounds(**({"columns": 3, "norm": 1.0, "response": 1.0} | change))


# ------------------------------------------------------------------------------- sensitivity


def records(d):
    """Rows of length 1 and shorter ones with a response of either sign."""
    angles = np.linspace(0, np.pi, 25)
    rows = [np.r_[np.cos(a), np.sin(a), np.zeros(d - 2)] for a in angles] if d > 1 else []
    rows += [np.eye(d)[0], -np.eye(d)[0], 0.6 * np.eye(d)[0], np.zeros(d)]
    return [(row, y) for row in rows for y in (-1.0, -0.4, 1.0)]


def moved(first, second):
    (x, y), (z, w) = first, second
    gram = np.outer(x, x) - np.outer(z, z)
    return math.hypot(np.linalg.norm(gram), np.linalg.norm(x * y - z * w))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_sensitivity_by_brute_force(d):
    found = records(d)
    nothing = (np.zeros(d), 0.0)
    add = max(moved(record, nothing) for record in found)
    replace = max(moved(*pair) for pair in itertools.combinations(found, 2))
    stated = {k: regression.sensitivity_of(k).size for k in ("add-remove", "replace-one")}
    assert add <= stated["add-remove"] * (1 + 1e-12) and add > 1.4142
    assert replace <= stated["replace-one"] * (1 + 1e-12)
    assert replace > (2.1212 if d > 1 else 1.9999)  # 60 degrees is among the angles


def test_random_records_never_move_the_sums_further():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 20_000, 3))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1)
    y, w = rng.uniform(-1, 1, (2, 20_000))
    gram = np.einsum("ni,nj->nij", x, x) - np.einsum("ni,nj->nij", z, z)
    b = x * y[:, None] - z * w[:, None]
    assert ((gram**2).sum(axis=(1, 2)) + (b**2).sum(axis=1)).max() < 4.5


def test_the_whole_numbered_sums_keep_to_the_sensitivity():
    rng = np.random.default_rng(4)
    unit = regression.STEPS**2
    for _ in range(300):
        pair = [(rng.normal(size=(1, 3)) * 10.0 ** rng.uniform(-3, 3), rng.normal(size=1) * 3)]
        pair += [(rng.normal(size=(1, 3)), rng.normal(size=1) * 3)]
        (a, b), (c, e) = (regression._in_steps(one, BOUNDS) for one in pair)
        assert math.hypot(np.linalg.norm(a / unit), np.linalg.norm(b / unit)) <= math.sqrt(2)
        far = math.hypot(np.linalg.norm((a - c) / unit), np.linalg.norm((b - e) / unit))
        assert far <= math.sqrt(4.5)


def test_scales_are_those_of_one_gaussian_release():
    one = gaussian.sigma(1.0, 1.0, DELTA)
    expected = {("add-remove", 2): 2, ("add-remove", 3): 3, ("replace-one", 2): 4.5}
    for (neighbours, pieces), square in expected.items():
        s = regression.scale(neighbours, 1.0, DELTA, pieces=pieces)
        assert s == pytest.approx(math.sqrt(square) * one, rel=1e-12)
    with pytest.raises(ValueError, match="^pieces must"):
        regression.scale("add-remove", 1.0, DELTA, pieces=4)


# ------------------------------------------------------------------------------------- costs


@pytest.mark.parametrize("sigma", [30, 300, 3000])
def test_discrete_noise_on_a_fine_grid_is_as_private_as_continuous_noise(sigma):
    shift = sigma // 4
    mu = shift / math.sqrt(sigma**2 - 16)
    for epsilon in np.linspace(0.01, 1.5, 40):
        assert discrete_gaussian.delta(epsilon, sigma, shift) <= curves.gaussian_delta(epsilon, mu)


def test_two_gaussian_steps_are_one_discrete_step():
    """The rounding of the module's head, by quadrature: s = 4 around a real number."""
    sigma, s = 40.0, 4.0
    x = np.linspace(-12 * sigma, 12 * sigma, 40_001)
    z = np.arange(-3, 4)[:, None]
    width = x[1] - x[0]
    shares = np.exp(-((z - x) ** 2) / (2 * s * s))
    nearest = np.rint(x)
    normaliser = sum(np.exp(-((nearest + k - x) ** 2) / (2 * s * s)) for k in range(-60, 61))
    wide = sigma**2 - s**2
    mixed = (np.exp(-(x**2) / (2 * wide)) * shares / normaliser).sum(axis=1) * width
    mixed /= math.sqrt(2 * math.pi * wide)
    exact = np.exp(discrete_gaussian.logpmf(z[:, 0], sigma))
    assert np.abs(mixed / exact - 1).max() < 1e-9


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_costs_follow_from_the_noise(neighbours, epsilon):
    mechanism = regression.ssp_mechanism(BOUNDS, neighbours, epsilon, DELTA)
    mu, pair = mechanism.costs
    assert isinstance(mu, Gaussian) and pair == Approximate(epsilon, DELTA)
    fit = mechanism(([], []), rng=np.random.default_rng(1))
    true = regression.sensitivity_of(neighbours).size / fit.noise
    assert true <= float(mu.mu) < true * (1 + 1e-8)
    assert fit.product_noise == pytest.approx(2 * fit.noise)
    assert curves.gaussian_delta(epsilon, true) <= DELTA


def test_printed_noise_of_adassp_costs_less_than_it_states():
    true = {"wang": 0.596, "thesis": 0.418}
    for calibration, epsilon in true.items():
        mechanism = regression.adassp_mechanism(
            BOUNDS, "add-remove", 1.0, DELTA, calibration=calibration
        )
        assert float(mechanism.costs[1].epsilon) == pytest.approx(epsilon, abs=5e-4)
        assert mechanism.costs[1].delta == Fraction(1, 10**6)
    joint = regression.adassp_mechanism(BOUNDS, "add-remove", 1.0, DELTA)
    assert joint(([], []), rng=np.random.default_rng(1)).noise == pytest.approx(7.31736, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"bounds": 3}, "bounds"),
        ({"neighbours": "both"}, "neighbours"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1e3}, "epsilon and delta"),
        ({"epsilon": 1e-6, "delta": 1e-300}, "epsilon and delta"),
        ({"delta": 0}, "delta"),
        ({"unit": ""}, "unit"),
    ],
)
@pytest.mark.parametrize(
    "make", [regression.ssp_mechanism, regression.adassp_mechanism], ids=["ssp", "adassp"]
)
def test_public_arguments_are_refused(make, change, name):
    good = {"bounds": BOUNDS, "neighbours": "add-remove", "epsilon": 1.0, "delta": DELTA}
    with pytest.raises(ValueError, match=f"^{name} must"):
        make(**(good | change))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"method": "best"}, "method"),
        ({"method": "ridge", "penalty": -1}, "penalty"),
        ({"penalty": 99.0}, "penalty"),  # the method "inverse" has none
    ],
)
def test_options_of_ssp_are_refused(options, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        regression.ssp_mechanism(BOUNDS, "add-remove", 1.0, DELTA, **options)


@pytest.mark.parametrize(
    ("options", "name"), [({"calibration": "best"}, "calibration"), ({"failure": 1}, "failure")]
)
def test_options_of_adassp_are_refused(options, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        regression.adassp_mechanism(BOUNDS, "add-remove", 1.0, DELTA, **options)


def test_adassp_takes_a_thousand_columns_at_most():
    regression.adassp_mechanism(regression.Bounds(1000, 1.0, 1.0), "add-remove", 1.0, DELTA)
    with pytest.raises(ValueError, match="^bounds must have at most 1000 columns"):
        regression.adassp_mechanism(regression.Bounds(1001, 1.0, 1.0), "add-remove", 1.0, DELTA)


def test_adassp_refuses_before_it_reads_what_it_could_not_draw():
    """The eigenvalue's noise is the largest of the three."""
    bounds = regression.Bounds(3, 1.0, 1.0)
    with pytest.raises(ValueError, match="^epsilon and delta must"):
        regression.adassp_mechanism(bounds, "add-remove", 1.9205e-6, 1e-7)
    mechanism = regression.adassp_mechanism(bounds, "add-remove", 1.93e-6, 1e-7)
    assert np.isfinite(mechanism(([], []), rng=np.random.default_rng(1)).penalty)


# ---------------------------------------------------------------------------------- releases


def noises(mechanism, value, n, rng):
    exact = regression.sums(value, BOUNDS)
    read = mechanism.read(value)
    fits = [mechanism.draw(read, rng=rng) for _ in range(n)]
    scales = fits[0].noise, fits[0].product_noise
    return np.array([regression.standardised(fit, exact, scales) for fit in fits])


@pytest.mark.parametrize("value", [table(50), ([], [])], ids=["full", "empty"])
@pytest.mark.parametrize(
    "make", [regression.ssp_mechanism, regression.adassp_mechanism], ids=["ssp", "adassp"]
)
def test_the_noise_has_its_law(make, value):
    """A false alarm has probability 1e-6; noise of half the size is caught."""
    mechanism, rng = make(BOUNDS, "add-remove", 1.0, DELTA), np.random.default_rng(5)
    drawn = noises(mechanism, value, 1500, rng)
    audit.assert_law(drawn, mechanism.law(1), weaker=mechanism.law)
    audit.assert_caught(drawn / 2, mechanism.law(1))


def test_gram_is_symmetric_and_system_randomness_works_through_a_ledger():
    ledger = Ledger(1.0, DELTA, neighbours="add-remove", unit="row", account="gaussian")
    mechanism = regression.ssp_mechanism(BOUNDS, "add-remove", 1.0, DELTA)
    fit = ledger.release("ssp", mechanism, table(), rng=noise.SYSTEM)
    assert np.array_equal(fit.gram, fit.gram.T)
    assert fit.coefficients == pytest.approx(np.linalg.solve(fit.gram, fit.products))
    assert not ledger.budget or ledger.total("approximate", DELTA) <= 1 + 1e-9


@pytest.mark.parametrize("form", [*regression.METHODS, "adassp"])
def test_a_fit_shows_noisy_steps_and_public_numbers_and_nothing_else(form):
    """Not even in the last digits; the noise and its sizes do not depend on the table."""
    if form == "adassp":
        mechanism = regression.adassp_mechanism(BOUNDS, "add-remove", 1.0, DELTA)
    else:
        mechanism = regression.ssp_mechanism(BOUNDS, "add-remove", 1.0, DELTA, method=form)
    tables, n = (table(400), table(399), ([], [])), 100
    fits = [mechanism(value, rng=np.random.default_rng(i)) for value in tables for i in range(n)]
    assert len({(fit.noise, fit.product_noise) for fit in fits}) == 1
    for fit in fits:
        steps = 2**29 * np.vstack([2 * fit.gram, fit.products])  # B_x is 1, B_y is 2
        assert np.array_equal(steps, np.rint(steps))
        solve = partial(regression.ridge, penalty=fit.penalty)
        if form == "spectral":
            solve = partial(regression.spectral_filter, threshold=fit.noise * math.sqrt(6))
        assert np.array_equal(solve(fit.gram, fit.products), fit.coefficients)


def test_methods_are_post_processing_of_the_same_sums():
    value, d = table(3000), 3
    fits = {
        method: regression.ssp_mechanism(BOUNDS, "add-remove", 1.0, DELTA, method=method)(
            value, rng=np.random.default_rng(6)
        )
        for method in regression.METHODS
    }
    a, b = fits["inverse"].gram, fits["inverse"].products
    level = fits["ridge"].noise * math.sqrt(2 * d)
    assert all(np.array_equal(fit.gram, a) for fit in fits.values())
    assert fits["ridge"].penalty == level and fits["inverse"].penalty == 0
    assert fits["ridge"].coefficients == pytest.approx(np.linalg.solve(a + level * np.eye(d), b))
    assert fits["spectral"].coefficients == pytest.approx(regression.spectral_filter(a, b, level))


def test_adassp_follows_its_three_lines():
    value, d = table(400), 3
    mechanism = regression.adassp_mechanism(BOUNDS, "add-remove", 1.0, DELTA, calibration="wang")
    exact = regression.sums(value, BOUNDS)
    s = math.sqrt(math.log(6 / DELTA)) / (1.0 / 3)
    eta = math.sqrt(d * math.log(6 / DELTA) * math.log(2 * d * d / 0.05)) / (1.0 / 3)
    offset = math.log(6 / DELTA) / (1.0 / 3)
    lowest = np.linalg.eigvalsh(exact.gram)[0]
    read, rng = mechanism.read(value), np.random.default_rng(7)
    fits = [mechanism.draw(read, rng=rng) for _ in range(400)]
    assert fits[0].noise == pytest.approx(s, rel=1e-6)
    penalties = np.array([fit.penalty for fit in fits])
    assert 0 <= penalties.min() and penalties.max() <= eta * (1 + 1e-6)
    inside = (penalties > 0) & (penalties < eta)
    expected = eta - np.maximum(lowest - offset + s * np.random.default_rng(8).normal(size=9**5), 0)
    mean = np.clip(expected, 0, None).mean()
    assert abs(penalties.mean() - mean) < 5 * s / 20 and inside.any()
    fit = fits[0]
    again = np.linalg.solve(fit.gram + fit.penalty * np.eye(d), fit.products)
    assert fit.coefficients == pytest.approx(again)


def test_the_smallest_eigenvalue_has_noise_of_its_own():
    """A false alarm has probability 1e-6: the penalty is that eigenvalue, where it is not cut."""
    mechanism = regression.adassp_mechanism(BOUNDS, "add-remove", 1.0, DELTA, failure=1e-9)
    rows = np.vstack([np.repeat(np.eye(3), 60, axis=0), np.full((60, 3), 3**-0.5)])
    read = mechanism.read((rows, np.ones(240)))  # eigenvalues 60, 60 and 120; a diagonal of 80
    rng = np.random.default_rng(9)
    fits = [mechanism.draw(read, rng=rng) for _ in range(400)]
    s = fits[0].noise
    shift = s * (math.sqrt(3 * math.log(18 / 1e-9)) + math.sqrt(math.log(6 / DELTA))) - 60
    assert 0 < min(fit.penalty for fit in fits) and shift > 4 * s
    drawn = np.array([(fit.penalty - shift) / s for fit in fits])
    audit.assert_law(drawn[:, None], mechanism.law(1))
    solved = [regression.ridge(fit.gram, fit.products, fit.penalty) for fit in fits]
    assert np.allclose([fit.coefficients for fit in fits], solved)


def test_the_noise_of_the_eigenvalue_has_room_for_its_rounding():
    drawn = regression._joint("add-remove", 1.0, DELTA, 3)
    more = Fraction(regression._for_eigenvalue(drawn), drawn.sigma)
    assert 1 + Fraction(1, 2**10) <= more < 1 + Fraction(1, 2**9)
    rng = np.random.default_rng(12)
    X = np.rint(rng.normal(size=(400, 40)) * 2**14).astype(np.int64)
    gram = X.T @ X
    found = regression._smallest(gram) - np.linalg.svd(X.astype(float), compute_uv=False)[-1] ** 2
    assert abs(float(found)) < 2**20 / 100


# --------------------------------------------------------------------------- post-processing


def test_ridge_is_least_squares_for_no_penalty_and_works_on_stacks():
    X, y = table(40)
    a, b = X.T @ X, X.T @ y
    assert regression.ridge(a, b) == pytest.approx(np.linalg.lstsq(X, y, rcond=None)[0])
    stack = regression.ridge(np.stack([a, 2 * a]), np.stack([b, b]), np.array([1.0, 2.0]))
    assert stack[1] == pytest.approx(np.linalg.solve(2 * a + 2 * np.eye(3), b))
    assert not regression.ridge(np.zeros((2, 2)), np.ones(2)).any()


def test_spectral_filter_keeps_large_directions_and_drops_negative_ones():
    a = np.diag([1e6, 1.0, -3.0])
    theta = regression.spectral_filter(a, np.ones(3), 10.0)
    assert theta == pytest.approx([1e-6, 1 / 101, 0.0])
    with pytest.raises(ValueError, match="^threshold must"):
        regression.spectral_filter(a, np.ones(3), 0)
