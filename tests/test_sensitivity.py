"""The formulas against brute force over all neighbouring small tables, for both relations, several
sizes and domains."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils import sensitivity
from dputils.sensitivity import Sensitivity

BOTH = ("add-remove", "replace-one")
DOMAINS = [(0, 1), (1, 2, 3, 4), (-5, 0, 2), (-3.5, -1.25, -0.5)]


def worst(query, domain, n, neighbours, norm="l1"):
    pairs = sensitivity.neighbour_pairs(domain, n, neighbours)
    return sensitivity.brute_force(query, pairs, norm)[0]


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_formulas_equal_brute_force(domain, n, neighbours):
    low, high = min(domain), max(domain)
    public_n = n if neighbours == "replace-one" else None
    thresholds = [low + (high - low) * share for share in (0, 0.3, 0.6, 1)][1:]
    claims = [
        (sensitivity.of_count(neighbours), lambda table: sum(x >= high for x in table)),
        (sensitivity.of_sum(low, high, neighbours), sum),
        (
            sensitivity.of_mean(low, high, neighbours, public_n),
            lambda table: np.mean(table) if table else (low + high) / 2,
        ),
    ]
    for claimed, query in claims:
        assert worst(query, domain, n, neighbours) == pytest.approx(claimed.size, rel=1e-12)
        assert (claimed.norm, claimed.neighbours, claimed.unit) == ("absolute", neighbours, "row")

    def histogram(table):
        return [table.count(x) for x in domain]

    def counts(table):
        return [sum(x >= c for x in table) for c in thresholds]

    for norm in ("l1", "l2"):
        claimed = sensitivity.of_histogram(neighbours, norm)
        most = worst(histogram, domain, n, neighbours, norm)
        assert most <= claimed.size <= most * (1 + 4e-16) and claimed.norm == norm
        claimed = sensitivity.of_counts(3, neighbours, norm)
        most = worst(counts, domain, n, neighbours, norm)
        assert most <= claimed.size <= most * (1 + 4e-16) and claimed.norm == norm
    scores = sensitivity.of_scores(1, neighbours)
    assert worst(histogram, domain, n, neighbours, "max") == scores.size and scores.norm == "max"


def test_the_mean_of_a_private_number_of_records_needs_its_rule_for_the_empty_table():
    other_rule = worst(lambda t: np.mean(t) if t else 0.0, (0, 10), 3, "add-remove")
    assert other_rule == 10 > sensitivity.of_mean(0, 10, "add-remove").size


def test_brute_force_catches_the_sensitivity_of_the_other_relation():
    pairs = sensitivity.neighbour_pairs("abc", 2, "replace-one")
    distance, pair = sensitivity.brute_force(lambda table: [table.count(x) for x in "abc"], pairs)
    assert distance == 2 > sensitivity.of_histogram("add-remove").size
    gone, come = Counter(pair[0]) - Counter(pair[1]), Counter(pair[1]) - Counter(pair[0])
    assert gone.total() == come.total() == 1 and gone != come


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("size,n", [(1, 2), (2, 3), (3, 3), (4, 2)])
def test_neighbour_pairs_are_all_of_them_once(size, n, neighbours):
    domain = "dcba"[:size]  # in no alphabetical order
    pairs = sensitivity.neighbour_pairs(domain, n, neighbours)
    found = [frozenset((tuple(sorted(a)), tuple(sorted(b)))) for a, b in pairs]
    sizes = range(n + 1) if neighbours == "add-remove" else [n]
    tables = [t for k in sizes for t in itertools.combinations_with_replacement(sorted(domain), k)]
    gap = {(1, 0), (0, 1)} if neighbours == "add-remove" else {(1, 1)}
    expected = {
        frozenset((a, b))
        for a, b in itertools.combinations(tables, 2)
        if ((Counter(a) - Counter(b)).total(), (Counter(b) - Counter(a)).total()) in gap
    }
    assert len(found) == len(set(found)) and set(found) == expected
    for a, b in pairs:
        assert list(a) == sorted(a, key=domain.index) and len(a) - len(b) == (
            neighbours == "add-remove"
        )


@given(st.integers(-1000, 1000), st.integers(1, 1000), st.integers(0, 500))
def test_wider_bounds_never_have_less(low, width, more):
    for neighbours in BOTH:
        n = 3 if neighbours == "replace-one" else None
        wide, narrow = (low - more, low + width + more), (low, low + width)
        sums = [sensitivity.of_sum(*ends, neighbours).size for ends in (wide, narrow)]
        means = [sensitivity.of_mean(*ends, neighbours, n).size for ends in (wide, narrow)]
        assert sums[0] >= sums[1] > 0 and means[0] >= means[1] > 0


@given(st.integers(-100, 100), st.integers(1, 100))
def test_a_replacement_is_a_removal_and_an_addition(low, width):
    added = sensitivity.of_sum(low, low + width, "add-remove").size
    replaced = sensitivity.of_sum(low, low + width, "replace-one").size
    assert replaced <= 2 * added and (replaced == 2 * added) == (low == -(low + width))


def test_small_numpy_integers_do_not_wrap_around():
    low, high = np.int8(-100), np.int8(100)
    assert sensitivity.of_sum(low, high, "replace-one").size == 200
    assert sensitivity.of_sum(np.int8(-128), np.int8(0), "add-remove").size == 128
    assert sensitivity.of_mean(low, high, "add-remove").size == 100
    assert sensitivity.of_mean(low, high, "replace-one", 4).size == 50


def test_a_query_without_an_answer_has_no_sensitivity():
    pairs = sensitivity.neighbour_pairs((0, 1), 2, "add-remove")
    distance, pair = sensitivity.brute_force(lambda t: sum(t) / len(t) if t else math.nan, pairs)
    assert distance == math.inf and pair[1] == ()


def test_answers_of_different_lengths_are_refused():
    pairs = sensitivity.neighbour_pairs((0, 1), 1, "add-remove")
    with pytest.raises(
        ValueError,
        match=r"query must give answers of one shape, got \(1,\) and \(0,\) on \(\(0,\), \(\)\)",
    ):
        sensitivity.brute_force(lambda table: list(table), pairs)


@pytest.mark.parametrize(
    "call,message",
    [
        (
            lambda: sensitivity.of_count("bounded"),
            "neighbours must be one of 'add-remove', 'replace-one', got 'bounded'",
        ),
        (
            lambda: sensitivity.of_histogram(None),
            "neighbours must be one of 'add-remove', 'replace-one', got None",
        ),
        (
            lambda: sensitivity.of_sum(1, 0, "add-remove"),
            "lower must be less than upper, got lower=1, upper=0",
        ),
        (
            lambda: sensitivity.of_sum(0, 1, "either"),
            "neighbours must be one of 'add-remove', 'replace-one', got 'either'",
        ),
        (lambda: sensitivity.of_mean(0, math.inf, "add-remove"), "upper must be finite, got inf"),
        (lambda: sensitivity.of_mean(0, 1, "replace-one"), "n must be an integer, got None"),
        (lambda: sensitivity.of_mean(0, 1, "replace-one", 0), "n must be at least 1, got 0"),
        (
            lambda: sensitivity.of_mean(0, 1, "add-remove", 3),
            "n must be left out under add-remove, where the number of records is private, got 3",
        ),
        (lambda: sensitivity.of_counts(0, "add-remove"), "k must be at least 1, got 0"),
        (
            lambda: sensitivity.of_counts(2, "x"),
            "neighbours must be one of 'add-remove', 'replace-one', got 'x'",
        ),
        (
            lambda: sensitivity.of_counts(2, "add-remove", "max"),
            "norm must be one of 'l1', 'l2', got 'max'",
        ),
        (
            lambda: sensitivity.of_histogram("add-remove", 1),
            "norm must be one of 'l1', 'l2', got 1",
        ),
        (lambda: sensitivity.of_scores(0, "add-remove"), "size must be positive and finite, got 0"),
        (
            lambda: sensitivity.of_count("add-remove", unit=""),
            "unit must be a string that is not empty, got ''",
        ),
        (
            lambda: Sensitivity(math.inf, "l1", "add-remove"),
            "size must be positive and finite, got inf",
        ),
        (
            lambda: Sensitivity(1, "l3", "add-remove"),
            "norm must be one of 'absolute', 'l1', 'l2', 'max', got 'l3'",
        ),
        (
            lambda: Sensitivity(1, "l1", "both"),
            "neighbours must be one of 'add-remove', 'replace-one', got 'both'",
        ),
        (
            lambda: sensitivity.of_sum(-1e308, 1e308, "replace-one"),
            "size must be positive and finite, got inf",
        ),
        (
            lambda: sensitivity.of_count("replace-one").of_units(5, "person"),
            "neighbours must be 'add-remove' for a unit of several rows, got 'replace-one'",
        ),
        (
            lambda: sensitivity.of_count("add-remove").of_units(0, "person"),
            "rows must be at least 1, got 0",
        ),
        (
            lambda: sensitivity.of_count("add-remove").of_units(2, " "),
            "unit must be a string that is not empty, got ' '",
        ),
        (lambda: sensitivity.size_of(0, "l1"), "sensitivity must be positive and finite, got 0"),
        (
            lambda: sensitivity.size_of(Sensitivity(1, "l2", "add-remove"), "absolute", "l1"),
            "sensitivity must be in the norm 'absolute' or 'l1', got 'l2'",
        ),
        (
            lambda: sensitivity.brute_force(sum, [((1,), ())], "l3"),
            "norm must be one of 'absolute', 'l1', 'l2', 'max', got 'l3'",
        ),
        (
            lambda: sensitivity.neighbour_pairs((0, 1), 0, "add-remove"),
            "n must be at least 1, got 0",
        ),
        (
            lambda: sensitivity.neighbour_pairs((0, 1), 1, "x"),
            "neighbours must be one of 'add-remove', 'replace-one', got 'x'",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def gram(rows, upper):
    matrix = np.array(rows).T @ np.array(rows)
    return matrix[np.triu_indices(len(matrix))] if upper else matrix.ravel()


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("d", [2, 3])
def test_gram_sensitivity_is_attained_and_never_passed(d, upper):
    rng, norm = np.random.default_rng(d), 1.7
    rows = rng.normal(size=(300, d))
    rows *= (
        norm
        * np.minimum(1, rng.uniform(0, 1.5, (300, 1)))
        / np.linalg.norm(rows, axis=1, keepdims=True)
    )
    rows = np.vstack(
        [rows, norm * np.eye(d), np.zeros((1, d))]
    )  # two orthogonal rows are the worst replacement
    grams = np.array([gram([row], upper) for row in rows])
    add = np.linalg.norm(grams, axis=1).max()
    assert add == pytest.approx(sensitivity.of_gram(norm, "add-remove").size, rel=1e-14)
    replace = np.linalg.norm(grams[:, None] - grams[None], axis=2).max()
    assert replace == pytest.approx(sensitivity.of_gram(norm, "replace-one").size, rel=1e-14)


def test_gram_sensitivity_by_brute_force_over_tables():
    domain = [(1.0, 0.0), (0.0, 1.0), (0.6, -0.8), (0.0, 0.0)]
    for neighbours in BOTH:
        pairs = sensitivity.neighbour_pairs(domain, 3, neighbours)
        moved = max(
            np.linalg.norm(gram(a or [(0, 0)], False) - gram(b or [(0, 0)], False))
            for a, b in pairs
        )
        assert moved == pytest.approx(sensitivity.of_gram(1, neighbours).size, rel=1e-12)


def test_gram_sensitivity_refuses_and_rounds_up():
    assert sensitivity.of_gram(2, "add-remove").size == 4
    assert sensitivity.of_gram(Fraction(1, 3), "add-remove").size >= Fraction(1, 9)
    rng = np.random.default_rng(1)
    ends = [1.0, 1e-150, 1e-149, 1e149, 1e150]
    for norm in np.concatenate([rng.uniform(1, 2, 300), 10 ** rng.uniform(-150, -148, 300), ends]):
        exact = Fraction(norm) ** 2
        added = Fraction(sensitivity.of_gram(norm, "add-remove").size)
        replaced = Fraction(sensitivity.of_gram(norm, "replace-one").size)
        assert exact <= added <= exact * (1 + Fraction(1, 10**15))
        assert 2 * exact**2 <= replaced**2 <= 2 * exact**2 * (1 + Fraction(1, 10**14))
    for norm in (0, math.inf, math.nan, -1, "1"):
        with pytest.raises(ValueError, match="norm must be positive and finite, got"):
            sensitivity.of_gram(norm, "add-remove")
    for norm in (9e-151, 1.1e150, 1e155):
        with pytest.raises(ValueError, match="norm must be between 1e-150 and 1e150, got"):
            sensitivity.of_gram(norm, "replace-one")
    with pytest.raises(ValueError, match="neighbours must be one of"):
        sensitivity.of_gram(1, "add")


# ------------------------------------------------------------------------------------- what it says


@pytest.mark.parametrize("k", range(1, 60))
def test_counts_in_l2_are_rounded_up(k):
    size = sensitivity.of_counts(k, "replace-one", "l2").size
    assert k <= Fraction(size) ** 2 <= k * (1 + Fraction(1, 10**15))


def test_a_sensitivity_is_a_record_that_compares_as_it_reads():
    class Equal(str):
        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    count = sensitivity.of_count("add-remove", unit=Equal("person"))
    assert type(count.unit) is str and count != sensitivity.of_count("add-remove")
    assert count == Sensitivity(1, "absolute", "add-remove", "person")
    assert str(sensitivity.of_histogram("replace-one")) == (
        "2 (the sum of the absolute differences of all numbers)"
    )
    with pytest.raises(AttributeError):
        count.size = 0.5


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_unit_of_several_rows_moves_an_answer_by_their_sum(rows):
    """All ways one person's rows can leave a table: at most `rows` times what one row moves."""
    claimed = sensitivity.of_sum(-2, 3, "add-remove").of_units(rows, "person")
    assert claimed == Sensitivity(3 * rows, "absolute", "add-remove", "person")
    moved = max(
        abs(sum(own)) for n in range(rows + 1) for own in itertools.product((-2, 0, 3), repeat=n)
    )
    assert moved == claimed.size


def test_sizes_come_from_numbers_and_from_the_right_norm():
    assert sensitivity.size_of(2.5, "l1") == 2.5
    assert sensitivity.size_of(sensitivity.of_histogram("replace-one"), "absolute", "l1") == 2
