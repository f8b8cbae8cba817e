"""The gallery of audits: whole, within the claims, a sample computed again, its methods checked."""

import ast
import csv
import importlib
import json
import math
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from scipy.stats import norm

from dputils import audit, discrete_gaussian, gaussian, geometric, laplace, selection
from dputils.accounting import Mechanism, costs, curves, losses
from dputils.book import chapter
from dputils.sensitivity import of_count
from tools import audits_recorded as gallery
from tools import setup

with (gallery.FOLDER / "audits_recorded.csv").open(encoding="utf-8") as file:
    RECORDED = list(csv.DictReader(file))
BESIDE = json.loads((gallery.FOLDER / "audits_recorded.json").read_text(encoding="utf-8"))
BY_KEY = {entry.key: entry for entry in gallery.ENTRIES}
SAMPLE = (
    "laplace.mechanism",
    "ratios.mechanism",
    "selection.mechanism, permute-and-flip",
    "selection.top_k_mechanism",
    "sparse_vector.mechanism",
    "locations.mechanism",
    "objectives.output_mechanism",
)
"""Rows that are made again with their draws, and attacked: all ways to ask a mechanism."""


def keyed(row):
    return f"{row['mechanism']}, {row['variant']}" if row["variant"] else row["mechanism"]


# ------------------------------------------------------------------------------------ completeness


def makers(source):
    """Return the public functions of a module's source that return a Mechanism.

    By what stands in a `return`: `Mechanism(...)`, a call of a function of this module or another
    that makes one, or `replace(...)` of a name that was bound to such a call.
    """
    functions = {n.name: n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
    found, before = set(), None
    while found != before:
        before = set(found)
        found |= {name for name, node in functions.items() if _makes(node, found)}
    return {name for name in found if not name.startswith("_")}


def _makes(node, found):
    bound = {
        target.id
        for one in ast.walk(node)
        if isinstance(one, ast.Assign) and _is_made(one.value, found)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    for one in ast.walk(node):
        if isinstance(one, ast.Return) and one.value is not None:
            value = one.value
            if _is_made(value, found) or isinstance(value, ast.Name) and value.id in bound:
                return True
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "replace":
                first = value.args[0]
                if isinstance(first, ast.Name) and first.id in bound or _is_made(first, found):
                    return True
    return False


def _is_made(value, found):
    """Whether an expression is a call that makes a mechanism."""
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    last = name.rsplit(".", 1)[-1]
    made = last == "mechanism" or last.endswith("_mechanism") or name == "_counting"
    return name == "Mechanism" or name in found or made and not last.startswith("assert_")


def _documented(source):
    """Return the public functions whose docstring has a Mechanism under "Returns"."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            _, _, after = (ast.get_docstring(node) or "").partition("Returns\n-------\n")
            if after.split("\n")[0].strip() in ("Mechanism", "accounting.Mechanism"):
                names.add(node.name)
    return names


def constructs(source):
    """Whether a module makes a Mechanism anywhere, in whatever form."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func).rsplit(".", 1)[-1] == "Mechanism" for call in calls)


def modules():
    """Yield the names and sources of all modules of `dputils`."""
    for path in sorted((setup.ROOT / "dputils").rglob("*.py")):
        yield path.stem, path.read_text(encoding="utf-8")


@cache
def returned():
    """Return the names of all public functions of `dputils` that return a Mechanism."""
    return {
        f"{module}.{name}"
        for module, source in modules()
        for name in makers(source) | _documented(source)
    }


def test_each_module_that_makes_a_mechanism_has_a_row_or_a_reason():
    audited = {entry.function.split(".")[0] for entry in gallery.ENTRIES}
    for module, source in modules():
        assert not constructs(source) or module in audited | set(gallery.EXCUSED), module


@pytest.mark.parametrize(
    "source",
    [
        "def a(x):\n    return accounting.Mechanism(x)\n",
        "def a(x):\n    return Mechanism(x) if x else None\n",
        "class A:\n    def a(self, x):\n        return Mechanism(x)\n",
        "a = lambda x: Mechanism(x)\n",
    ],
)
def test_a_mechanism_made_in_an_unusual_way_needs_a_row_of_its_module(source):
    assert constructs(source) and not constructs("def a(x):\n    return other(x)\n")


def test_a_docstring_that_names_a_mechanism_needs_a_row():
    text = 'def a(x):\n    """Do.\n\n    Returns\n    -------\n    Mechanism\n    """\n'
    assert _documented(text) == {"a"} and not _documented(text.replace("    Mech", "    Of a Mech"))


def test_each_public_function_that_returns_a_mechanism_has_a_row():
    audited = {entry.function for entry in gallery.ENTRIES}
    missing = returned() - audited - set(gallery.EXCUSED)
    assert not missing, f"no row in tools/audits_recorded.py for {', '.join(sorted(missing))}"
    assert not set(gallery.EXCUSED) & audited and all(gallery.EXCUSED.values())
    assert audited <= returned()


def test_the_walk_finds_what_returns_a_mechanism():
    source = """
def mechanism(a):
    return Mechanism(a)
def other(a):
    inner = mechanism(a)
    return replace(inner, name="b")
def _inner(a):
    return Mechanism(a)
def third(a):
    return _inner(a)
def fourth(a):
    made = laplace.mechanism(a, 1)
    return made
def fifth(a):
    return replace(a, name="c")
def law(a):
    made = mechanism(a)
    return made.law(1)
"""
    assert makers(source) == {"mechanism", "other", "third", "fourth"}
    assert len(returned()) >= 54


def test_names_are_functions_and_rows_are_of_mechanisms():
    for entry in gallery.ENTRIES:
        module, name = entry.function.split(".")
        assert callable(getattr(importlib.import_module(f"dputils.{module}"), name))
    assert len(BY_KEY) == len(gallery.ENTRIES)
    assert all(isinstance(entry.made(1), Mechanism) for entry in gallery.ENTRIES)
    assert all(len(entry.pair) == 2 for entry in gallery.ENTRIES)


# ---------------------------------------------------------------------------------- the table


def test_the_recorded_table_is_whole_and_within_the_claims():
    assert [keyed(row) for row in RECORDED] == [
        entry.key for entry in sorted(gallery.ENTRIES, key=gallery._order)
    ]
    for row in RECORDED:
        entry = BY_KEY[keyed(row)]
        found, epsilon = float(row["found"]), float(row["epsilon"])
        assert 0 < found <= epsilon * (1 + 1e-4)
        assert (row["tight"] == "yes") == (found >= gallery.TIGHT * epsilon)
        assert row["method"] in (gallery.LAW, gallery.LISTED, gallery.BOUND)
        assert (row["method"] == gallery.BOUND) == (int(row["samples"]) > 0)
        assert int(row["samples"]) == entry.runs
        tested = 0 if entry.runs else gallery.TESTED * (2 + len(entry.also))
        assert int(row["code tested"]) == tested
        assert row["at 4 times the budget"] == "refused"
        assert row["seed"] == (str(gallery.SEED) if entry.runs else "")
        made = entry.made(1)
        assert (row["neighbours"], row["unit"]) == (made.neighbours, made.unit)
        stated, delta = gallery.claimed(made, entry.stated)
        assert math.isclose(epsilon, stated * entry.distance, rel_tol=1e-4)
        assert math.isclose(float(row["delta"]), delta, rel_tol=1e-4)
    assert BESIDE["command"] == gallery.COMMAND and BESIDE["seed"] == gallery.SEED


@pytest.mark.parametrize("key", [e.key for e in gallery.ENTRIES if not e.runs])
def test_what_exact_rows_found_is_computed_again(key):
    entry = BY_KEY[key]
    row = next(row for row in RECORDED if keyed(row) == key)
    made = entry.made(1)
    _, delta = gallery.claimed(made, entry.stated)
    assert math.isclose(
        entry.method.found(made, entry.pair, delta, None), float(row["found"]), rel_tol=1e-3
    )


@pytest.mark.parametrize("key", [*SAMPLE, "boundaries.at_once"])
def test_a_sample_of_rows_is_made_again_with_its_draws(key):
    row = next(row for row in RECORDED if keyed(row) == key)
    again = dict(zip(gallery.NAMES, gallery.row(BY_KEY[key]), strict=False))
    assert {name: str(value) for name, value in again.items()} == {
        name: value for name, value in row.items() if name != gallery.NAMES[-1]
    }


def broken(key, change):
    """Return the entry of a key with a changed mechanism, claims as before."""
    entry = BY_KEY[key]
    return replace(entry, made=lambda c: change(entry.made(c)))


@pytest.mark.parametrize("key", SAMPLE)
def test_one_draw_published_again_and_again_is_refused(key):
    first = chapter.stream(1, "one draw")

    def frozen(made):
        outputs = {}

        def draw(read, *, rng):
            return outputs.setdefault(str(read), made.draw(read, rng=first))

        return replace(made, draw=draw)

    with pytest.raises(audit.AuditFailed):
        gallery.row(broken(key, frozen))


@pytest.mark.parametrize("key", SAMPLE)
def test_four_times_the_budget_is_refused(key):
    assert gallery.louder(BY_KEY[key]) == "refused"


@pytest.mark.parametrize("key", SAMPLE)
def test_a_quarter_of_the_noise_in_the_code_alone_is_refused(key):
    loud = BY_KEY[key].made(4)
    with pytest.raises(audit.AuditFailed):
        gallery.row(broken(key, lambda made: replace(made, read=loud.read, draw=loud.draw)))


def test_the_truth_of_an_answer_is_refused():
    for key in ("laplace.mechanism", "geometric.mechanism", "ratios.mechanism"):
        with pytest.raises(audit.AuditFailed):
            gallery.row(broken(key, lambda made: replace(made, draw=lambda read, *, rng: read)))


# ------------------------------------------------------------------------------------ the methods


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_half_lines_find_the_epsilon_of_noise(epsilon):
    for module in (laplace, geometric):
        made = module.mechanism(of_count("add-remove"), epsilon)
        for shift in (1, 2):
            found = gallery.of_shift(made.law(1), shift, discrete=made.discrete)
            assert math.isclose(found, shift * epsilon, rel_tol=1e-6)


def test_half_lines_find_the_epsilon_of_gaussian_noise():
    for mu, delta in ((0.3, 1e-6), (1, 1e-5), (2, 1e-3)):
        made = gaussian.mechanism(of_count("add-remove"), mu=mu)
        found = gallery.of_shift(made.law(1), 1, delta)
        assert math.isclose(found, curves.gaussian_epsilon(mu, delta), rel_tol=1e-4)


def test_half_lines_find_the_delta_of_discrete_gaussian_noise():
    made = discrete_gaussian.mechanism(of_count("add-remove"), 0.5)
    found = gallery.of_shift(made.law(1), 1, 1e-4, discrete=True)
    assert math.isclose(discrete_gaussian.delta(found, 1), 1e-4, rel_tol=1e-3)


def test_a_loss_that_grows_without_end_is_infinite():
    assert gallery.of_shift(partial(norm.cdf, scale=18.2), 1) == math.inf
    with pytest.raises(ValueError, match="shift must be whole"):
        gallery.of_shift(partial(geometric.cdf, scale=1), 0.5, discrete=True)


def test_one_fit_moves_by_less_than_its_bound():
    entry = BY_KEY["objectives.output_mechanism"]
    found = entry.method.found(entry.made(1), entry.pair, 0.0, None)
    assert math.isclose(found, 0.470620, rel_tol=1e-5)  # twice 0.117655, over a scale of 0.5


def test_the_two_quantiles_listed_are_a_law():
    law = gallery._two_quantiles([1, 1, 5, 5, 5])
    assert math.isclose(sum(law.values()), 1) and all(low <= high for low, high in law)


def test_epsilon_of_lists_inverts_the_delta():
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.2, 0.3])
    assert math.isclose(gallery.of_lists(p, q), math.log(3))
    found = gallery.of_lists(p, q, 0.05)
    assert math.isclose(audit.finite_delta(p, q, found), 0.05, rel_tol=1e-6)
    assert gallery.of_lists(p, q, 0.5) < 1e-8


def test_the_order_of_the_largest_scores_is_a_law():
    law = gallery._plackett_luce([0, 1, 2], 2, 1.5)
    assert math.isclose(sum(law.values()), 1) and len(law) == 6
    first = [sum(p for order, p in law.items() if order[0] == i) for i in range(3)]
    assert np.allclose(first, selection.exponential_law([0, 1, 2], 1.5))


@pytest.mark.parametrize(
    ("cost", "stated"),
    [
        (costs.Pure(1), (1, 0)),
        (costs.Approximate(1, 0.01), (1, 0.01)),
        (costs.Gaussian(0.5), (curves.gaussian_epsilon(0.5, 1e-6), 1e-6)),
    ],
)
def test_claims(cost, stated):
    made = Mechanism("a", (cost,), "add-remove", "row", lambda value: value, lambda value: value)
    assert gallery.claimed(made) == pytest.approx(stated)


def test_a_finding_above_the_claim_is_refused():
    def twice_as_loud(c):
        made = laplace.mechanism(of_count("add-remove"), 2)
        return Mechanism(
            "broken",
            (costs.Pure(1),),
            made.neighbours,
            made.unit,
            made.read,
            made.draw,
            law=made.law,
        )

    for method, runs in ((gallery._law(), 0), (gallery._drawn(float, 4000), 4000)):
        loud = gallery.Entry("laplace.mechanism", "", "", twice_as_loud, (3, 4), "", method, runs)
        with pytest.raises(audit.AuditFailed, match="claims 1, and"):
            gallery.row(loud)


# ------------------------------------------------------------------------- what the chapter says


def test_permute_and_flip_spends_up_to_four_times_an_eighth():
    def spent(epsilon):
        p, q = (selection.permute_and_flip_law(s, 2 / epsilon) for s in ([-1, 0], [0, -1]))
        return float((p * np.log(p / q)).sum()) / (epsilon**2 / 8)

    assert [round(spent(e), 2) for e in (1e-3, 0.1, 1)] == [4, 3.81, 2.62]
    assert losses.exact_pure_epsilon(math.log(2 * math.exp(0.05) - 1), 100, 1e-6) > 4.6


def test_two_candidates_do_not_show_a_published_maximum():
    t = np.linspace(-30, 30, 6001)
    loss = np.log(laplace.cdf(t, 2) / laplace.cdf(t - 1, 2))
    assert math.isclose(loss.max(), 0.5, rel_tol=1e-6)
