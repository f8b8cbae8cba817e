"""A release of the reader's own table through `opendp`: planned, checked, drawn once, reported.

Letters: k the most rows of a person, d the distance of neighbouring tables in rows.

1. Plan. `plan` reads the parameters and the header, nothing below it, and makes every measurement.
   Whatever is refused is refused there or by the ledger, before a row is read: columns, bounds,
   budgets, and what opendp itself refuses. From then on nothing is refused, so no error tells of
   the data.
2. Distance. A person has at most k rows, so neighbouring tables are d = k rows apart under
   add-remove, in opendp's symmetric distance, and d = 2k under replace-one: a removal and an
   addition.
3. Cross-check. Each measurement is made at the scale that the book's formula gives (`own_parts`).
   Then opendp's own privacy map is asked what the distance d costs: it must not exceed epsilon and
   must come within a factor of 1 - `own_parts.TOLERANCE` of it.
4. Randomness is opendp's own, from the operating system. It cannot be seeded.
"""

import math
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

from dputils import checks, noise, own_parts, own_table
from dputils.accounting.rounding import ceiling

MISSING = ("leave out", "lower bound", "middle")
CONSTRUCTORS = {
    "transformations": ("clamp", "count", "sum", "count_by_categories"),
    "measurements": ("laplace", "private_quantile"),
    "combinators": ("chain_tt", "chain_mt"),
}  # of opendp, all that this file calls
RANKS = 10**4  # opendp rounds the rank of a quantile to so many parts
MOST_UNREAD = 10  # an answer is warned of where one row in so many or more was not read
FEW = 3  # and where the rows that counted are not so many times their noise
SMALLEST = Fraction(1, 1000)  # epsilon of one release: its noise is about a thousand rows


@dataclass(frozen=True)
class Plan:
    """All that will be released, and all that is public about it.

    Parameters
    ----------
    releases : tuple of Release
    columns : tuple of str
        All that are read, `person` first if there is one.
    facts : dict
        The parameters that the report repeats.
    """

    releases: tuple
    columns: tuple
    facts: dict

    @property
    def lines(self):
        """The lines for `Ledger(..., plan=)`."""
        return [(release.label, release.mechanism) for release in self.releases]


# ------------------------------------------------------------------------------------------- a plan


def plan(
    path,
    *,
    decided_for,
    separator,
    no_line_breaks_in,
    person,
    nobody,
    rows_per_person,
    neighbours,
    missing,
    bounds,
    count,
    counts,
    histogram,
    mean,
    quantile,
    regression,
    epsilon,
    shares,
    confidence,
    expected_rows,
):
    """Return what will be released, with every measurement made and checked; reads the header only.

    Every argument is public. Texts that name columns have the form `age: 18, 95; income: 1, 24`.

    Parameters
    ----------
    path : str
    decided_for : str
        The name of the file for which the other arguments were decided; must be that of `path`.
    separator : {"comma", "semicolon", "tab"}
    no_line_breaks_in : str
        The name of the file again: the caller knows that no field of it holds a line break, so that
        each row is one line (point 1 of `own_table`).
    person : str
        The column that names whose row it is; empty if none does.
    nobody : str
        Texts in that column that name no person, with commas between them: their rows do not count.
    rows_per_person : int
        k. With a column `person` it is enforced, without one it is promised by the caller.
    neighbours : {"add-remove", "replace-one"}
    missing : {"leave out", "lower bound", "middle"}
        What a missing number counts as: its row is left out of this release, or it has the lower
        bound, or the middle of the bounds.
    bounds : str
        Lower and upper bound of each column of numbers, for mean, quantile and regression.
    count : bool
        Whether to release the number of rows.
    counts, histogram, mean, quantile, regression : str
        Columns with their categories, edges, nothing, ranks in (0, 1), regressors; empty for none.
        Double quotation marks stand around what holds a comma, a semicolon or a colon, also in
        `nobody` and `bounds`.
    epsilon : float
        Of all releases together.
    shares : str
        The epsilon of each release, in the order of the plan; empty for equal ones.
    confidence : float
        Of each interval, between 0.5 and 0.9999.
    expected_rows : int
        A public guess: a release whose noise may be as large is refused. 0 for no guess.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If an argument is none of these, a column is not in the header, a budget is too small, or
        opendp's map does not confirm the cost of a measurement. Nothing below the header was read.
    """
    name = Path(own_table.find(path)).name
    if decided_for != name:
        raise ValueError(
            f"decided_for must be {name!r}, the name of the file: the other parameters were "
            f"decided for {decided_for!r}; decide each of them for this table"
        )
    if no_line_breaks_in != name:
        raise ValueError(
            f"no_line_breaks_in must be {name!r}, got {no_line_breaks_in!r}: if a field of "
            "the file holds a line break, one person can be many rows and write rows of others; "
            "write the file anew without them first"
        )
    if not isinstance(count, bool):
        raise ValueError(f"count must be True or False, got {count!r}")
    header = own_table.header(path, separator)
    checks.one_of("missing", missing, MISSING)
    checks.neighbours(neighbours)
    checks.integer("rows_per_person", rows_per_person, low=1)
    checks.within("confidence", confidence, 0.5, 0.9999)
    checks.integer("expected_rows", expected_rows, low=0)
    made = own_parts.Maker(
        distance=_distance(rows_per_person, neighbours),
        neighbours=neighbours,
        missing=missing,
        scales=dict(_bounds(column, ends) for column, ends in _items("bounds", bounds)),
        beta=1 - confidence,
    )
    whose = f" (at most {rows_per_person} of each person)" if person else ""
    asked = _asked(made, whose, count, counts, histogram, mean, quantile, regression)
    if not asked:
        raise ValueError("nothing is to be released: count, counts, histogram, mean, ... are empty")
    columns = dict.fromkeys([person] * bool(person))
    columns |= dict.fromkeys(column for _, _, used in asked for column in used)
    columns = columns or {next(filter(None, header)): None}  # a count needs one, whichever
    for column in [*columns, *made.scales]:
        if column not in header:
            raise ValueError(
                f"the table must have the column {column!r}: its first line does not name it"
            )
    shared = _shares(epsilon, shares, [label for label, _, _ in asked])
    releases = tuple(make(label, share) for (label, make, _), share in zip(asked, shared))
    for release in releases:
        check(release.parts, made.distance)
        _loud_enough(release, expected_rows)
    facts = {
        "path": name,
        "person": person,
        "nobody": tuple(_parts(_closed("nobody", nobody))),
        "rows_per_person": rows_per_person,
        "neighbours": neighbours,
        "missing": missing,
        "bounds": bounds,
        "asked": "; ".join(
            f"{kind} of {text}"
            for kind, text in {
                "counts": counts,
                "histogram": histogram,
                "mean": mean,
                "quantile": quantile,
                "regression": regression,
            }.items()
            if text.strip()
        ),
        "epsilon": sum(release.epsilon for release in releases),
        "confidence": confidence,
        "separator": separator,
        "expected_rows": expected_rows,
    }
    return Plan(releases, tuple(columns), facts)


def check(parts, distance):
    """Refuse measurements whose cost by opendp's own privacy map is not the booked one.

    Parameters
    ----------
    parts : sequence of Part
    distance : int
        d, in rows.

    Raises
    ------
    ValueError
        If a map and the book's formula disagree: point 3 of the module.
    """
    for part in parts:
        theirs, ours = Fraction(part.measurement.map(distance)), part.epsilon
        if not ours * (1 - own_parts.TOLERANCE) <= theirs <= ours:
            raise ValueError(
                f"the cost of the {part.what} must be epsilon {float(ours):.12g} for {distance} "
                f"rows, but opendp's map says {float(theirs):.12g}: nothing is released"
            )


def shown(plan):
    """Return the plan as rows of a table: each answer, what was understood, its cost and noise.

    How far the noise may reach in the answer's own unit is said for `expected_rows`, if it is not
    0.
    """
    expected = plan.facts["expected_rows"]
    distance = _distance(plan.facts["rows_per_person"], plan.facts["neighbours"])
    return [
        {
            "release": release.label,
            "understood as": release.asked,
            "measurements": len(release.parts),
            "epsilon": float(release.epsilon),
            "opendp's map": math.fsum(part.measurement.map(distance) for part in release.parts),
            "noise, in rows": release.noise,
            "at expected_rows": release.reach(expected) if expected else "",
        }
        for release in plan.releases
    ]


def constructors():
    """Return what the installed opendp says of each constructor used here, as rows of a table."""
    from importlib import import_module
    from importlib.metadata import version
    from inspect import getdoc, getsource

    found = []
    for module, names in CONSTRUCTORS.items():
        for name in names:
            made = getattr(import_module(f"opendp.{module}"), f"make_{name}")
            found.append(
                {
                    "constructor": f"make_{name}",
                    "opendp": version("opendp"),
                    "vetting completed": "no: contrib" if _in_contrib(getsource(made)) else "yes",
                    "proof linked": "yes" if "Proof Document" in getdoc(made) else "no",
                }
            )
    return found


def outside_contrib():
    """Return `(number, names)`: of all constructors of the installed opendp, those that have
    completed vetting.
    """
    from importlib import import_module
    from inspect import getsource

    every = [
        made
        for module in map(import_module, (f"opendp.{name}" for name in CONSTRUCTORS))
        for name, made in vars(module).items()
        if name.startswith("make_") and made.__module__ == module.__name__
    ]
    return len(every), [made.__name__ for made in every if not _in_contrib(getsource(made))]


# ---------------------------------------------------------------------------------------- a release


def publish(plan, ledger, path):
    """Read the table, draw every release of the plan through the ledger, return what was drawn.

    Privacy
        What the ledger, opened with the plan's lines, states. Public: all parameters of the plan.

    Parameters
    ----------
    plan : Plan
    ledger : Ledger
        Opened with `plan.lines`, nothing spent.
    path : str

    Returns
    -------
    list of dict
        Rows of the report: release, quantity, released, from, to. What is no whole number is a
        decimal, in a text; the ends of intervals are rounded outward.
    """
    table = own_table.rows(path, plan.facts["separator"], plan.columns)
    if plan.facts["person"]:
        owners, most = table[plan.facts["person"]], plan.facts["rows_per_person"]
        nobody = [text.casefold() for text in plan.facts["nobody"]]
        rows = own_table.kept(owners, most, nobody=nobody, rng=noise.SYSTEM)
        table = {name: [texts[i] for i in rows] for name, texts in table.items()}
    drawn = [
        ledger.release(release.label, release.mechanism, table, rng=noise.SYSTEM)
        for release in plan.releases
    ]
    return [
        {"release": release.label, **own_parts.printed(row)}
        for release, values in zip(plan.releases, drawn)
        for row in release.answer(values)
    ]


def report(plan, answers):
    """Return what is to be said beside the numbers: guarantee, public, unprotected; sentences."""
    facts = plan.facts
    k, level = facts["rows_per_person"], 100 * facts["confidence"]
    relation = {
        "add-remove": "one person more or less",
        "replace-one": "one person replaced by another",
    }
    marks = ", ".join(map(repr, facts["nobody"]))
    whose = (
        f"A person is a text in the column {facts['person']!r}; {k} of their rows count at most, "
        f"drawn at random, and rows with no text there{f' or with one of {marks}' * bool(marks)} "
        "do not count. For people who share a text, the epsilon of each is up to twice as large. A "
        "person of several texts has the epsilon once for each."
        if facts["person"]
        else f"No column names persons: that each has at most {k} of the rows is assumed, not "
        "enforced."
    )
    number = {
        "leave out": "a number that is missing leaves its row out of that release",
        "lower bound": "a number that is missing counts as its lower bound, or the lowest edge",
        "middle": "a number that is missing counts as the middle of its bounds, or of the edges",
    }
    shares = ", ".join(f"{_short(x.epsilon)} for {x.label}" for x in plan.releases)
    count, kinds = len(plan.releases), {release.kind for release in plan.releases}
    many, is_one = (f"{count} answers", False) if count > 1 else ("1 answer", True)
    verb = ("was" if is_one else "were") + " released"
    if not answers:
        verb = ("is" if is_one else "are") + " planned, none released"
    return [
        f"{many} about {facts['path']} {verb}.",
        *_warnings(plan, answers),
        f"Guarantee: all of them together are epsilon-differentially private with epsilon "
        f"{_upward(facts['epsilon'])} and delta 0, for tables that differ in "
        f"{relation[facts['neighbours']]}. A row is a line of the file. {whose}",
        f"Of this epsilon at most {shares}.",
        f"Each interval holds the exact answer of the rows that counted with probability "
        f"{level:.6g} % over the noise alone: who was asked, and whether they told the truth, is "
        "not in it. Those of counts by category or bin hold all at once.",
        *[
            "A quantile is one of evenly spaced candidates between its bounds. It is compared with "
            "the best of them, and if all rows lie between two candidates the best is far from the "
            "place that was asked for, too."
        ]
        * ("quantile" in kinds),
        *[
            "Coefficients are those of a ridge regression of clamped columns, whose ridge is as "
            "large as the noise of one sum. Where the regressors vary little within their bounds "
            "or go together, or where rows are few for the noise, they may be far from the fit "
            "without noise, in either direction. Their intervals are for the ridge fit without "
            "noise, are simulated, and so are approximate."
        ]
        * ("regression" in kinds),
        "Assumed public, and decided without a look at the rows: the name of the file, its header, "
        "that no field of it holds a line break, what names a person and how many rows of one "
        f"count, the bounds ({facts['bounds'] or 'none'}), what was asked for with its categories, "
        f"edges and ranks ({facts['asked'] or 'the number of rows alone'}), and the budgets.",
        "A text is UTF-8; a number has a decimal point and no marks between thousands, else it is "
        f"missing, and {number[facts['missing']]}. A value out of bounds counts as the nearest "
        "bound, one beyond the edges in the nearest bin."
        + " The missing numbers that were replaced are in the answer and its interval as if they "
        "had been measured; the lines named check say, with noise, how many rows they were in."
        * (facts["missing"] != "leave out" and not kinds <= {"count", "counts"})
        + " Where next to no rows counted, or next to "
        "no numbers were read, ask first whether the file writes its numbers so.",
        "Not protected: how long the computation took, the file itself, and this kernel, which "
        "may hold rows until it is shut down. Another run on the same people spends the same "
        "again.",
    ]


def _warnings(plan, answers):
    """Return a sentence for each answer whose numbers were hardly read, from released numbers."""
    found = []
    for release in plan.releases:
        if release.kind == "counts":
            continue  # its categories may have any name
        rows = {row["quantity"]: row for row in answers if row["release"] == release.label}
        if own_parts.UNREAD in rows:
            read, unread = rows[own_parts.READ]["released"], rows[own_parts.UNREAD]["released"]
            bad = MOST_UNREAD * unread > read
            why = f"about {max(unread, 0)} rows had a number not read, about {max(read, 0)} all"
        else:
            few = rows.get(own_parts.COUNTED, {"released": 1, "to": 1})
            bad = few["released"] <= FEW * (few["to"] - few["released"])
            why = f"about {max(few['released'], 0)} rows counted in it"
        if bad:
            found.append(
                f"WARNING. Do not use {release.label}: {why}. The file may write its numbers in a "
                "way that is not read, such as with a decimal comma, or the noise is too large to "
                "tell."
            )
    return found


def _upward(epsilon):
    """Return an epsilon as a decimal, not below it."""
    return own_parts.plain(ceiling(epsilon))


def _short(epsilon):
    """Return an epsilon as a decimal of six significant digits, not below it."""
    exact = Decimal(_upward(epsilon))
    unit = Decimal(1).scaleb(min(exact.adjusted() - 5, 0))
    return f"{exact.quantize(unit, rounding=ROUND_CEILING).normalize():f}"


def _in_contrib(source):
    return 'assert_features("contrib"' in source


# -------------------------------------------------------------------------------- reading the plan


def _items(name, text):
    """Return `column: a, b; other: c` as pairs of a column and a list of texts.

    Marks between double quotation marks are letters: `"Emergency, Trauma"` is one text.
    """
    found = []
    for item in filter(None, map(str.strip, _split(_closed(name, text), ";"))):
        column, *rest = _split(item, ":", 1)
        column = _bare(column)
        if not column:
            raise ValueError(f"{name} must have the form 'column: a, b; column: c', got {text!r}")
        found.append((column, _parts(rest[0] if rest else "")))
    if twice := {column for column, _ in found if [c for c, _ in found].count(column) > 1}:
        raise ValueError(f"{name} must name each column once, got {sorted(twice)[0]!r} twice")
    return found


def _parts(text):
    """Return what stands between commas."""
    return [_bare(part) for part in _split(text, ",") if part.strip()]


def _closed(name, text):
    """Return a text whose double quotation marks come in pairs."""
    if text.count('"') % 2:
        raise ValueError(f"{name} must close each quotation mark, got {text!r}")
    return text


def _split(text, mark, most=0):
    """Return the pieces of a text between those marks that an even number of quotation marks
    follows.
    """
    return re.split(mark + r'(?=(?:[^"]*"[^"]*")*[^"]*$)', text, maxsplit=most)


def _bare(text):
    """Return a text without the blanks and then the double quotation marks around it."""
    text = text.strip()
    return text[1:-1] if re.fullmatch('"[^"]*"', text) else text


def _numbers(name, column, texts, least):
    """Return texts as increasing fractions."""
    found = [_decimal(f"{name} of {column!r}", text) for text in texts]
    if len(found) < least or any(a >= b for a, b in zip(found, found[1:])):
        got = ", ".join(texts) or "nothing after a colon"
        what = "2 numbers or more, increasing, with a comma between them"
        what = what if least == 2 else "1 number or more"
        raise ValueError(f"{name} of {column!r} must be {what}, got {got}")
    return found


def _decimal(name, text):
    """Return the number that a text writes, as an exact decimal."""
    try:
        return checks.as_fraction(name, checks.within(name, float(text), -1e30, 1e30))
    except ValueError:
        hint = ""
        if ":" in text:
            hint = "; put double quotation marks around a name that holds a colon"
        elif len(re.findall(r"\d+", text)) > 2:
            hint = "; a date is not a number: add a column of years or months to the file"
        raise ValueError(
            f"{name} must be numbers with commas between them, none beyond 1e30, got {text!r}{hint}"
        ) from None


def _rank(text):
    """Return a rank, or the text where it is none and is refused later."""
    try:
        return float(text)
    except ValueError:
        return text


def _bounds(column, texts):
    ends = _numbers("bounds", column, texts, 2)
    if len(ends) > 2:
        raise ValueError(f"bounds of {column!r} must be a lower and an upper, got {len(ends)}")
    return column, own_parts.scale(column, *ends)


def _shares(epsilon, shares, labels):
    """Return the epsilon of each release."""
    number = len(labels)
    whole = checks.as_fraction("epsilon", checks.epsilon(epsilon))
    texts = _parts(shares)
    if texts and len(texts) != number:
        raise ValueError(
            f"shares must have one number for each of {number} releases, the epsilon of "
            f"{', of '.join(labels)}, got {shares}"
        )
    found = [_decimal("shares", text) for text in texts] or [whole / number] * number
    if sum(found) > whole:
        asked = float(sum(found))
        raise ValueError(f"shares must sum to at most epsilon {float(whole):g}, got {asked:g}")
    if min(found) < SMALLEST:
        least, got = float(SMALLEST), float(min(found))
        raise ValueError(
            f"epsilon of each of {number} releases must be at least {least:g}, got {got:.3g}"
        )
    return found


def _loud_enough(release, expected_rows):
    if expected_rows and release.noise >= expected_rows:
        raise ValueError(
            f"epsilon {float(release.epsilon):.3g} is too small for {release.label!r}: its noise "
            f"may be as large as {release.noise:.4g} rows, and expected_rows is {expected_rows}; "
            "give it more, or leave it out"
        )


def _asked(made, whose, count, counts, histogram, mean, quantile, regression):
    """Return `(label, function of label and epsilon, columns)` of each release asked for."""
    found = [(f"number of rows{whose}", made.count, ())] * bool(count)
    for column, names in _items("counts", counts):
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"counts of {column!r} must be different categories after a colon, got "
                f"{', '.join(names) or 'none'}; after a semicolon comes the next column, so put "
                "double quotation marks around one with a semicolon"
            )
        if any(
            not name or name[0] == "'" or '"' in name or name == own_parts.OTHER for name in names
        ):
            raise ValueError(
                f"counts of {column!r} must be categories, and not {own_parts.OTHER}, got {names}; "
                "double quotation marks stand around a whole category, single ones around none"
            )
        found.append((f"rows by {column}{whose}", partial(made.counts, column, names), (column,)))
    for column, texts in _items("histogram", histogram):
        edges = _numbers("histogram", column, texts, 2)
        label = f"histogram of {column}{whose}"
        found.append((label, partial(made.histogram, column, edges), (column,)))
    for column, rest in _items("mean", mean):
        made.bounded("mean", column, rest)
        found.append((f"mean of {column}", partial(made.mean, column), (column,)))
    for column, texts in _items("quantile", quantile):
        made.bounded("quantile", column)
        if len({*map(_rank, texts)}) < len(texts):
            raise ValueError(f"quantile of {column!r} must be different ranks, got {texts}")
        for text in texts or [""]:
            alpha = _numbers("quantile", column, [text] if text else [], 1)[0]
            if not 0 < alpha < 1 or alpha * RANKS % 1:
                where = f"between 0 and 1 with at most 4 decimals, got {text}"
                raise ValueError(f"quantile of {column!r} must lie {where}")
            label = f"quantile {text} of {column}"
            found.append((label, partial(made.quantile, column, alpha), (column,)))
    for column, regressors in _items("regression", regression):
        if not regressors or len({column, *regressors}) < 1 + len(regressors):
            raise ValueError(f"regression of {column!r} must have other columns, got {regressors}")
        for one in (column, *regressors):
            made.bounded("regression", one)
        label = f"regression of {column}"
        made_of = (*regressors, column)
        found.append((label, partial(made.regression, made_of), made_of))
    return found


def _distance(rows_per_person, neighbours):
    """Return d: point 2 of the module."""
    return rows_per_person * {"add-remove": 1, "replace-one": 2}[neighbours]
