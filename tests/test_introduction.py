"""A name of dputils is public only if somebody outside its file uses it.

That is a code cell of the book, another file of dputils, or the short list below with its reason.
What a text cell lists does not count.
"""

import ast
from pathlib import Path

import nbformat

from dputils.book import index

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {  # files whose functions are the named steps of one proof, each tested alone
    "inversion": "the steps of the proof in its docstring",
    "law_tests": "one comparison each, with the bound that its docstring proves",
}
REASONS = {
    "accounting.accounts.Account": "the rows of `FILTERS`",
    "accounting.ledger.Entry": "what `Ledger.entries` holds",
    "accounting.ledger.Planned": "one line of a plan, shown when another release is refused",
    "accounting.losses.GridLaw": "what the steps of `numerical_epsilon` pass on",
    "accounting.losses.exact_pure_delta": "the closed form that `exact_pure_epsilon` inverts",
    "accounting.losses.cut": "a step of `numerical_epsilon`, tested alone",
    "accounting.losses.grid_step": "a step of `numerical_epsilon`, tested alone",
    "accounting.losses.on_grid": "a step of `numerical_epsilon`, tested alone",
    "accounting.partition.Part": "what `partition[name]` returns",
    "accounting.rounding.nearest": "what its neighbours round from, tested alone",
    "rescaling.Published": "what `mechanism` draws",
    "rescaling.end_mechanisms": "the two releases of a column, tested alone",
    "own_parts.Part": "one measurement of a plan, which `own_release.check` takes",
    "own_parts.Release": "what `Plan.releases` holds",
    "own_parts.Scale": "what `scale` returns",
    "own_release.Plan": "what `plan` returns",
    "own_release.check": "the cross-check of `plan`, for measurements made by hand",
    "functional.Fit": "what `minimise` returns",
    "from_counts.Tables": "what `bayes_mechanism` releases, and `bayes_predict` reads",
    "trees.Tree": "what a private tree is, and what `predict` reads",
    "regression.Fit": "what the mechanisms draw",
    "regression.adassp_mechanism": "for the chapter after sums of products",
    "regression.Sums": "what `sums` returns",
    "workloads.Queries": "what the makers of workloads return",
    "attacks.LowerBound": "what `epsilon_lower_bound` returns",
    "lower_bounds.ScoreEvent": "what `score_event` returns",
    "attacks.ratio_bound": "the bound of one event, tested alone",
    "audit.AuditFailed": "what an audit raises; a reader catches it",
    "audit.LawTest": "what `law_test` returns",
    "audit.tail_test_size": "for a reader's own audit of a cut tail",
    "book.data.DataError": "what `load` raises; a reader catches it",
    "book.data.Table": "one row of `tables`",
    "book.data.paths": "for experiments on the files themselves",
    "book.data.tables": "the list, read from data/tables.toml",
    "book.parameters.Parameter": "what `read_parameters` lists",
    "book.parameters.parse_parameters": "for an author's draft that is no file yet",
    "book.parameters.shown": "how a value is shown in refusals, tested alone",
    "book.errata.Decision": "what `decisions` holds",
    "book.errata.checked": "for the test that each claim is checked once, in its chapter",
    "book.index.Entry": "what `entries` lists",
    "book.index.files": "for the test that each name has a user",
    "book.index.homes": "for the test that each name has a user",
    "book.index.public": "for the test that each name has a user",
    "book.index.used": "for the test that each name has a user",
    "book.index.users": "for the test that each name has a user",
    "book.bibliography.Use": "what `works` holds for a chapter",
    "book.bibliography.Work": "what `works` lists",
    "book.bibliography.marked": "how a line becomes HTML, tested alone",
    "book.bibliography.plain": "under which titles are one work, for the tests too",
    "book.bibliography.read": "how a line of references is read, tested alone",
    "book.bibliography.unread": "for the test that each line can be read",
    "book.needs.Chapter": "what `chapters` lists",
    "book.needs.chapters": "what the map is made of, for the tests too",
    "book.needs.grid": "where the map puts its boxes, tested alone",
    "book.needs.needed": "how a chapter says what it needs, tested alone",
    "book.needs.reduced": "needs without those that follow from others, tested alone",
    "book.needs.ways": "how the arrows of the map run, tested alone",
    "book.engine.Lost": "what a sweep raises when its scheduler is gone",
    "book.engine.attempt": "what a worker runs, by this name",
    "book.engine.check": "refuses workers, tested alone",
    "book.kernels.Entry": "what jupyter_client loads",
    "book.kernels.Forked": "what jupyter_client holds in place of a process",
    "book.kernels.Parent": "what `forked` yields",
    "book.kernels.become_kernel": "the parent's side, run as a script",
    "book.kernels.forked": "for the workshop and the tests",
    "book.kernels.modules": "the parent's side, run as a script",
    "book.kernels.send": "the parent's side, run as a script",
    "book.kernels.serve": "the parent's side, run as a script",
    "book.kernels.serves": "tested alone",
    "book.kernels.settings": "tested alone",
    "book.kernels.status": "the parent's side, run as a script",
    "book.kernels.warm_up": "the parent's side, run as a script",
    "book.plots.frame_values": "for the site's pictures of an explorer",
    "book.plots.png": "for the site's pictures of an explorer",
    "book.run.execute": "one rerun, for scripts",
    "book.run.describe": "`python -m dputils.run --describe`",
    "book.run.of_the_book": "what a rerun must not overwrite, tested alone",
    "book.run.output_problems": "what is wrong with an output, tested alone",
    "book.sources.Claim": "what `claim` returns",
    "book.sources.ContradictedClaim": "what `check` raises",
    "book.sources.belongs": "for the test that each claim is checked in its chapter",
    "book.statement.rounded_up": "how the box rounds, tested alone",
    "book.sweep.rerun": "`python -m dputils.sweep`, tested alone",
    "book.sweep.sidecar": "`python -m dputils.sweep`, tested alone",
    "gaussian.tail": "one of the names that each mechanism has",
    "gaussian.variance": "one of the names that each mechanism has",
    "geometric.sum_release": "`sum_mechanism` without a ledger",
    "law_tests.Finding": "what each comparison returns",
    "local.Protocol": "what `direct` and its like return",
    "metrics.Metric": "what `attributes` and its like return",
    "misses.Misses": "what `would_miss` returns",
    "misses.law_distance": "the distance behind `would_miss`, tested alone",
    "private.answer": "the reading of `reals` and `integers`, tested alone",
    "private.table": "the reading of rows with their responses, for regressions",
    "randomized_response.cdf": "one of the names that each mechanism has",
    "randomized_response.logpmf": "one of the names that each mechanism has",
    "laplace.tail": "one of the names that each mechanism has",
    "randomized_response.tail": "one of the names that each mechanism has",
    "selection.permute_and_flip_release": "for experiments in floating point",
    "sparse_vector.Stream": "what `stream_mechanism` draws",
}


def used_by_the_book():
    """Return what the code cells of the notebooks use."""
    names = set()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        names |= index.used(ast.parse(code))
    return names


def without_a_user(trees, cells):
    """Return the public names that nobody uses."""
    homes = index.homes(trees)
    names = {homes.get(name, name) for name in index.users(trees).keys() | cells}
    lonely = index.public(trees).keys() - names - REASONS.keys()
    return sorted(name for name in lonely if name.rpartition(".")[0] not in ROOMS)


def test_each_public_name_has_a_user():
    assert not without_a_user(index.files(), used_by_the_book())


def test_reasons_are_given_for_names_that_exist():
    assert not REASONS.keys() - index.public(index.files())


def test_a_name_without_a_user_is_found():
    trees = {
        "noise": ast.parse("def draw(): pass\ndef lost(): pass\ndef _own(): pass"),
        "laplace": ast.parse("from dputils import noise\ndef release(): noise.draw()"),
        "accounting.__init__": ast.parse("from dputils.accounting.ledger import Ledger"),
        "accounting.ledger": ast.parse("class Ledger: pass\nclass Unseen: pass"),
    }
    cells = index.used(
        ast.parse("from dputils import accounting, laplace as l\naccounting.Ledger(); l.release()")
    )
    assert without_a_user(trees, cells) == ["accounting.ledger.Unseen", "noise.lost"]


def test_a_name_in_a_text_or_a_string_is_no_use():
    tree = ast.parse("from dputils import noise\n'noise.lost'\nlost = 1")
    assert index.used(tree) == set()
