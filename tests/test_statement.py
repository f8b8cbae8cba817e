"""Privacy statements: each line is the mechanism's, numbers are rounded up."""

import json
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dputils.accounting.costs import ZCDP, Approximate, Gaussian, Pure, Renyi
from dputils.accounting.curves import gaussian_delta
from dputils.accounting.mechanism import Mechanism
from dputils.accounting.renyi import rdp_to_epsilon, zcdp_delta
from dputils.book import chapter, statement
from dputils.sensitivity import Sensitivity, of_count, of_histogram


def mechanism(
    *costs,
    neighbours="add-remove",
    unit="person",
    exact=False,
    sensitivity=None,
    name="Laplace mechanism",
):
    return Mechanism(
        name,
        costs,
        neighbours,
        unit,
        lambda value: value,
        lambda value, rng: value,
        exact=exact,
        sensitivity=sensitivity,
    )


def lines(mechanism, public="the bounds", delta=None):
    return dict(statement.lines(statement.content(mechanism, public, delta)))


@pytest.mark.parametrize(
    "cost, expected",
    [
        (Pure(0.5), {"Epsilon": "0.5 (pure differential privacy)", "Delta": "0"}),
        (Pure(Fraction(1, 3)), {"Epsilon": "0.333334 (pure differential privacy)", "Delta": "0"}),
        (
            Approximate(2, 1e-6),
            {"Epsilon": "2 (approximate differential privacy)", "Delta": "1e-6"},
        ),
        (
            ZCDP(0.125),
            {
                "Epsilon": "not stated by itself: rho implies one for every delta",
                "Delta": "not stated by itself",
                "Rho": "0.125 (zero-concentrated differential privacy)",
            },
        ),
        (
            Gaussian(1),
            {
                "Epsilon": "not stated by itself: mu implies one for every delta",
                "Delta": "not stated by itself",
                "Mu": "1 (Gaussian differential privacy)",
            },
        ),
    ],
)
def test_each_notion_is_stated_in_words(cost, expected):
    found = lines(mechanism(cost))
    head = ["Mechanism", "Arithmetic", "Unit", "Neighbours", "Sensitivity"]
    assert list(found) == [*head, *expected, "Public"]
    assert {label: found[label] for label in expected} == expected


def test_all_costs_are_stated_in_their_order():
    found = lines(mechanism(Gaussian(0.25), Approximate(1, 1e-6), Pure(3)))
    assert found["Epsilon"] == "1 (approximate differential privacy); 3 (pure differential privacy)"
    assert (found["Delta"], found["Mu"]) == ("1e-6; 0", "0.25 (Gaussian differential privacy)")
    both = lines(mechanism(Gaussian(0.25), ZCDP(0.03125)))
    assert both["Epsilon"] == "not stated by itself: mu and rho implies one for every delta"


@pytest.mark.parametrize(
    "cost, letter, delta_of",
    [
        (ZCDP(0.25), "rho", lambda epsilon: zcdp_delta(0.25, epsilon)),
        (Gaussian(0.7), "mu", lambda epsilon: gaussian_delta(epsilon, 0.7)),
    ],
)
def test_the_implied_epsilon_holds_at_the_asked_delta_and_is_near(cost, letter, delta_of):
    content = statement.content(mechanism(cost), "n", delta=1e-6)
    (pair,) = content["implied"]
    assert pair["by"] == type(cost).__name__ and Fraction(pair["delta"]) == Fraction(1, 10**6)
    epsilon = float(pair["epsilon"])
    assert 0.999999e-6 < delta_of(epsilon) <= 1.0000001e-6
    found = dict(statement.lines(content))
    assert found["Epsilon"].endswith(f"(implied by {letter})") and found["Delta"] == "1e-6"
    printed = Fraction(found["Epsilon"].split()[0])
    assert 0 <= printed - Fraction(pair["epsilon"]) < Fraction(1, 10**5)


def test_an_implied_pair_stands_behind_the_stated_ones():
    found = lines(mechanism(Gaussian(0.25), Approximate(1, 1e-6)), delta=Fraction(1, 10**5))
    assert re.fullmatch(
        r"1 \(approximate differential privacy\); 0.\d+ \(implied by mu\)", found["Epsilon"]
    )
    assert found["Delta"] == "1e-6; 1e-5"


@pytest.mark.parametrize(
    "exact, words",
    [(True, "exact"), (False, "real arithmetic: for experiments, not for a release")],
)
def test_floating_point_is_not_for_a_release(exact, words):
    assert lines(mechanism(Pure(1), exact=exact))["Arithmetic"] == words


def test_unit_relation_and_sensitivity_are_the_mechanism_s():
    found = lines(
        mechanism(Pure(1), unit="visit", sensitivity=of_count("add-remove", unit="visit"))
    )
    assert (
        found["Unit"] == "visit"
        and found["Neighbours"] == "add-remove: one visit is added or removed"
    )
    assert found["Sensitivity"] == "1 (the absolute difference of one number)"
    size = of_histogram("replace-one", "l2", unit="person")
    found = lines(mechanism(Gaussian(1), neighbours="replace-one", sensitivity=size))
    assert found["Neighbours"] == "replace-one: one person is replaced by another"
    assert found["Sensitivity"] == "1.41422 (the Euclidean distance of all numbers)"
    assert lines(mechanism(Pure(1)))["Sensitivity"] == "none stated"


def test_a_unit_that_says_one_itself_is_not_counted_twice():
    found = lines(mechanism(Pure(1), neighbours="replace-one", unit="one person's own value"))
    assert found["Unit"] == "one person's own value"
    assert found["Neighbours"] == "replace-one: one person's own value is replaced by another"


@pytest.mark.parametrize("change", [{"neighbours": "replace-one"}, {"unit": "row"}])
def test_a_mechanism_that_contradicts_its_sensitivity_is_refused(change):
    ((name, value),) = change.items()
    size = Sensitivity(1, "l1", "add-remove", "person")
    with pytest.raises(
        ValueError, match=f"mechanism must have the {name} of its sensitivity, .*, got {value!r}"
    ):
        statement.content(mechanism(Pure(1), sensitivity=size, **change), "n")


@pytest.mark.parametrize("public", ["", "  ", None, 3])
def test_what_is_public_has_to_be_said(public):
    with pytest.raises(ValueError, match="public must be a string that is not empty"):
        statement.content(mechanism(Pure(1)), public)


def test_misuse_is_refused():
    with pytest.raises(
        ValueError, match="mechanism must be a dputils.accounting.mechanism.Mechanism, got 1"
    ):
        statement.content(1, "n")
    with pytest.raises(
        ValueError, match="delta must be left out for the Laplace mechanism, .*, got 1e-06"
    ):
        statement.content(mechanism(Pure(1)), "n", delta=1e-6)
    for delta in (0, 1, -1e-6, "1e-6"):
        with pytest.raises(ValueError, match="delta must be strictly between 0 and 1"):
            statement.content(mechanism(ZCDP(1)), "n", delta=delta)


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**9))
def test_a_printed_number_is_never_below_the_one_that_holds(x):
    printed = Fraction(statement.rounded_up(x))
    assert 0 <= printed - x <= x / 10**5


@pytest.mark.parametrize(
    "x, text",
    [
        (1, "1"),
        (0.5, "0.5"),
        (Fraction(1, 10), "0.1"),
        (1234567, "1234570"),
        (0.1, "0.100001"),
        (Fraction(1, 10**6), "1e-6"),
        (Fraction(1, 10**400), "1e-400"),
        (Fraction(10**20), "1e20"),
        (2**0.5, "1.41422"),
    ],
)
def test_printed_numbers(x, text):
    assert statement.rounded_up(x) == text


def test_a_notion_without_a_number_is_described_by_its_own_words():
    found = lines(mechanism(Renyi((2.0, 3.0), (0.1, 0.2))))
    assert "a Renyi curve of 2 orders" in found.values()
    assert found["Epsilon"].startswith("not stated by itself")


def test_the_box_and_its_content_say_the_same(monkeypatch):
    bundles = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    release = mechanism(Approximate(Fraction(1, 3), 1e-6), name="A <b> mechanism")
    chapter.statement(release, public="the bounds 0 and 77,\n  and " + "n " * 50)
    (bundle,) = bundles
    assert set(bundle) == {"text/html", "text/plain", chapter.STATEMENT}
    content = json.loads(json.dumps(bundle[chapter.STATEMENT], allow_nan=False))
    (cost,) = content["costs"]
    assert Approximate(Fraction(cost["epsilon"]), Fraction(cost["delta"])) == release.costs[0]
    assert content["mechanism"] == "A <b> mechanism" and content["sensitivity"] is None
    cells = re.findall(r"<td [^>]*>([^<]*)</td>", bundle["text/html"])
    labels, texts = cells[::2], cells[1::2]
    assert (
        "<caption>Privacy statement</caption>" in bundle["text/html"]
        and texts[0] == "A &lt;b&gt; mechanism"
    )
    assert list(zip(labels, texts))[1:] == statement.lines(content)[1:]
    plain = bundle["text/plain"].splitlines()
    assert plain[0] == "Privacy statement" and plain[1] == "Mechanism    A <b> mechanism"
    assert max(map(len, plain)) <= 88
    assert " ".join(bundle["text/plain"].split()).endswith(
        "Public the bounds 0 and 77, and" + " n" * 50
    )


def test_a_statement_follows_the_mechanism():
    one = statement.content(mechanism(Pure(1)), "n")
    for other in (
        mechanism(Pure(0.5)),
        mechanism(Approximate(1, 0.1)),
        mechanism(Pure(1), exact=True),
        mechanism(Pure(1), unit="row"),
        mechanism(Pure(1), neighbours="replace-one"),
        mechanism(Pure(1), name="other"),
        mechanism(Pure(1), sensitivity=of_count("add-remove", unit="person")),
    ):
        changed = statement.content(other, "n")
        assert changed != one and statement.lines(changed) != statement.lines(one)


def test_a_renyi_curve_implies_an_epsilon_at_a_delta():
    curve = Renyi((2.0, 3.0), (0.1, 0.2))
    content = statement.content(mechanism(curve), "n", delta=1e-6)
    implied = rdp_to_epsilon((2.0, 3.0), (0.1, 0.2), 1e-6)
    assert [pair["by"] for pair in content["implied"]] == ["Renyi"]
    assert Fraction(content["implied"][0]["epsilon"]) >= Fraction(implied)
    assert float(content["implied"][0]["epsilon"]) == pytest.approx(implied, rel=1e-12)
    found = dict(statement.lines(content))
    assert found["Epsilon"].endswith("(implied by Renyi curve)") and found["Delta"] == "1e-6"
    assert found["Renyi curve"] == "a Renyi curve of 2 orders"
