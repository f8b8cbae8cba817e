"""The order of the files of dputils, from the ground up: each imports only from files before it."""

import ast

import pytest

from tools import setup

ORDER = (
    "checks private bits inversion noise segments sensitivity"
    " accounting.rounding accounting.curves accounting.renyi accounting.losses accounting.costs"
    " accounting.composition accounting.accounts accounting.mechanism accounting.partition"
    " accounting.ledger accounting"
    " laplace geometric gaussian discrete_gaussian randomized_response samples"
    " gaps selection quantiles local_sensitivity stability sparse_vector"
    " ratios means composites graphs histograms thresholds unlisted shrinkage partitions boundaries"
    " contributions clustering methods metrics pufferfish"
    " workloads mwem policies locations synthetic"
    " functional regression preprocessing rescaling trees from_counts gradient objectives"
    " local shuffling choices"
    " law_tests misses audit attacks lower_bounds own_table own_parts own_release"
    " book book.parameters book.statement book.chapter book.plots book.sources book.errata"
    " book.index book.bibliography book.needs"
    " book.data book.made book.kernels book.run book.grid book.finished book.engine"
    " book.sweep run sweep"
).split()
FOLDER = setup.ROOT / "dputils"


def name_of(path):
    """Return the name of a file's module behind `dputils.`, empty for the package itself."""
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


FILES = {name_of(path): path.read_text(encoding="utf-8") for path in sorted(FOLDER.rglob("*.py"))}


def imported(source):
    """Return `(module, name)` of all that a source imports from dputils, at any depth; the name is
    None where a whole module is imported.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: an import must name dputils in full"
            found += [from_package(node.module, alias.name) for alias in node.names]
    inside = [(module.split("."), name) for module, name in found]
    return [(".".join(parts[1:]), name) for parts, name in inside if parts[0] == "dputils"]


def from_package(module, name):
    inner = f"{module}.{name}".removeprefix("dputils.")
    return (f"dputils.{inner}", None) if inner in FILES else (module, name)


def problems(name, source):
    """Yield what a module imports that does not stand before it, or bears an underscore name."""
    before = ORDER[: ORDER.index(name)]
    modules = imported(source)
    for module, what in modules:
        if module not in before:
            yield f"{name} imports {module}, which does not stand before it"
        if (what or "").startswith("_"):
            yield f"{name} imports {what} of {module}"
    known = {module.rpartition(".")[2] for module, what in modules if what is None}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            private = node.attr.startswith("_") and not node.attr.endswith("__")
            if private and node.value.id in known:
                yield f"{name} uses {node.value.id}.{node.attr}"


@pytest.mark.parametrize("name", [name for name in FILES if name])
def test_each_file_imports_only_from_files_before_it(name):
    assert name in ORDER, f"{name} has no place in the order"
    assert list(problems(name, FILES[name])) == []


def test_no_name_stands_twice_and_no_file_has_an_underscore_name():
    assert len(set(ORDER)) == len(ORDER)
    assert not [name for name in FILES if name.rpartition(".")[2].startswith("_")]


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("checks", "from dputils import noise", "checks imports noise, which"),
        ("checks", "import dputils.noise", "checks imports noise, which"),
        ("bits", "from dputils.checks import _end", "bits imports _end of checks"),
        ("bits", "from dputils import checks\nchecks._end(1)", "bits uses checks._end"),
        ("gaps", "def late():\n    from dputils import audit", "gaps imports audit, which"),
        ("misses", "from dputils import misses", "misses imports misses, which"),
        ("noise", "from dputils.book.run import main", "noise imports book.run, which"),
    ],
)
def test_what_is_out_of_order_is_found(name, source, said):
    assert [problem[: len(said)] for problem in problems(name, source)] == [said]


def test_what_is_in_order_passes():
    source = "import dputils.checks\nfrom dputils.accounting import Pure, costs\nimport numpy"
    assert list(problems("laplace", source)) == []
