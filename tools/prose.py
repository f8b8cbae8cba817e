"""Whether each number in the text of a notebook is shown by an output of its section.

A number counts as shown if an output of the same section (of the second level) prints it, with as
many digits or more, or if a code cell of the section that is not hidden holds it as a constant: the
named constants of a worked case. What is only cited stands in the notebook's metadata with the
reason, `metadata.dputils.cited = {"480,000": "subscribers, as Netflix announced them"}`.

Not asked for are references and the notes on the sources, whole numbers below 100, the years 1900
to 2099, and numbers that are part of a name: of chapters, theorems, equations, documents,
exercises, versions, in links and in inline code. LaTeX is read as the text is. Signs are left out.
"""

import html
import re
from dataclasses import dataclass
from fractions import Fraction

from tools import stored, syntax

EXEMPT = (stored.REFERENCES, stored.NOTES)
TIMES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
NUMBER = re.compile(
    r"(?<![\w.])(?P<digits>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?:[eE](?P<power>[-+]?\d{1,4})(?!\w))?"
    r"(?:\s(?P<times>thousand|million|billion)\b)?(?P<percent>\s?(?:%|per ?cent\b))?"
)
ABOUT = re.compile(r"\b(?:about|around|roughly|some|nearly|almost|near|over|under)\s+\Z", re.I)
YEAR = re.compile(r"(?:19|20)\d\d")

MARK = "\ufffc"  # stands for a formula while names are looked for
_N = r"\d{1,3}(?:\.\d+)*"
_NAMES = (
    r"chapter|section|part|theorem|lemma|proposition|corollary|definition|claim|example"
    r"|algorithm|equation|formula|inequality|exercise|figure|table|document|appendix|page"
    r"|version"
)
QUOTED = [
    r"!?\[[^\]]*\]\([^)]*\)",  # links and pictures
    r"`[^`]*`",
    r"https?://\S+",
]
PARTS_OF_NAMES = [
    r"(?m)^#+ \d+(?:\.\d+)*\.? ",  # the number of a heading
    rf"(?i)\b(?:{_NAMES})s?\s+\(?{_N}\)?"
    rf"(?:(?:,\s{_N})*,?\s(?:and|or|to)\s\(?{_N}\)?|[-\u2013]{_N})?",
    r"\b\d+\.\d+\.\d[\w.]*",  # versions
    r"\b[A-Za-z]+-?\d[\w.]*",  # SHA-256, L1
]
IN_LATEX = [  # what a formula writes otherwise than the text does, in this order
    (r"\\tag\{[^}]*\}", " "),
    (r"\\[hv]space\*?\{[^}]*\}|\\\\\[[^\]]*\]", " "),
    (r"\{,\}", ","),
    (r"(?<=\d)\\[,;:](?=\d{3}(?!\d))", ","),
    (r"\\[,;:! ]|~", " "),
    (r"\\%", "%"),
    (r"\\[td]?frac\s*(\d)\s*(\d)", r" \1/\2 "),
    (r"_\{[^{}]*\}|_\w", " "),
    (r"\\text(?:rm|bf|it)?\{([^{}]*)\}", r" \1 "),
    (r"(\d+(?:\.\d+)?)\s*(?:\\cdot|\\times)\s*10\s*\^\s*(?:\{\s*(-?\d+)\s*\}|(\d))", r" \1e\2\3 "),
    (r"(?<![\d.])10\s*\^\s*(?:\{\s*(-?\d+)\s*\}|(\d))", r" 1e\1\2 "),
    (r"\\[A-Za-z]+", " "),
]
POWER = re.compile(r"(?<![\d.])(\d{1,3})\s*\^\s*(?:\{\s*(\d{1,4})\s*\}|(\d))")


@dataclass(frozen=True)
class Number:
    """A number as the text writes it: its size and half a unit of its last digit, both exact."""

    text: str
    size: Fraction
    half: Fraction
    percent: bool

    def is_shown_by(self, sizes):
        """Return whether one of some sizes, rounded to the digits written here, is this number."""
        scales = (1, Fraction(1, 100)) if self.percent else (1,)
        return any(
            abs(size - self.size * scale) <= self.half * scale for scale in scales for size in sizes
        )


def numbers(text):
    """Return the numbers in a text without LaTeX, small whole ones and years among them."""
    return [_number(found, text) for found in NUMBER.finditer(text)]


def _number(found, text):
    digits = found["digits"].replace(",", "")
    scale = Fraction(10) ** int(found["power"] or 0) * TIMES.get(found["times"], 1)
    last = len(digits.partition(".")[2])
    unit = Fraction(1, 10**last)
    if not last and ABOUT.search(text, 0, found.start()):
        unit = Fraction(10 ** (len(digits) - len(digits.rstrip("0"))))
    return Number(
        found[0].strip(), Fraction(digits) * scale, unit * scale / 2, bool(found["percent"])
    )


def plain(text, equations=()):
    """Return Markdown with its LaTeX as plain text and without the numbers that belong to names.

    `equations` are the numbers of equations, so that `(3.9)` is one of them and `(1.24)` is not.
    """
    formulas = []
    for pattern in QUOTED:
        text = re.sub(pattern, " ", text)
    text = stored.LATEX.sub(lambda found: _set_aside(found, formulas), text)
    for pattern in PARTS_OF_NAMES:
        text = re.sub(pattern, " ", text)
    text = re.sub(
        r"\((\d{1,2}\.\d{1,2})\)", lambda found: " " if found[1] in equations else found[0], text
    )
    return re.sub(MARK, lambda found: f" {formulas.pop(0)} ", text)


def _set_aside(found, formulas):
    formulas.append(from_latex(found[0].strip("$")))
    return MARK


def from_latex(formula):
    """Return the numbers and signs of a formula as plain text."""
    for pattern, replacement in IN_LATEX:
        formula = re.sub(pattern, replacement, formula)
    formula = POWER.sub(lambda found: f" {int(found[1]) ** int(found[2] or found[3])} ", formula)
    return re.sub(r"(?<=[A-Za-z])(?=\d)", " ", re.sub(r"[{}]", " ", formula))


def is_exempt(number):
    """Return whether a number may stand unshown: a whole number below 100 or a year."""
    whole = "." not in number.text and number.size.denominator == 1
    return whole and number.size < 100 or bool(YEAR.fullmatch(number.text))


def asked(nb, equations=()):
    """Return `(section's place in the order, index of the cell, number)` of what is to be shown."""
    return [
        (k, i, number)
        for k, part in enumerate(stored.sections(nb))
        if part.title not in EXEMPT
        for i, text in part.prose
        for number in numbers(plain(text, equations))
        if not is_exempt(number)
    ]


def sizes(part):
    """Return the sizes that a section shows: printed by its outputs, or constants of its code."""
    text = "\n".join(_visible(output) for _, cell in part.code for output in cell.outputs)
    found = {number.size for number in numbers(text)}
    found |= {number.size / 100 for number in numbers(text) if number.percent}
    return found | {
        size
        for _, cell in part.code
        if _gives_constants(cell)
        for size in map(_exact, syntax.numbers(syntax.tree(cell.source)))
    }


def _visible(output):
    """Return what a reader sees of an output as text; the description of a picture is no output."""
    data = output.get("data", {})
    if "image/png" in data:
        return ""
    table = html.unescape(re.sub(r"<[^>]*>", " ", data.get("text/html", "")))
    return "\n".join(
        [table, data.get("text/plain", ""), output.get("text", ""), output.get("evalue", "")]
    )


def _gives_constants(cell):
    return not {"hide-input", "parameters", "injected-parameters"} & set(stored.tags(cell))


def _exact(number):
    try:
        return Fraction(repr(number))
    except ValueError:  # an infinity
        return Fraction(0)


def cited(nb):
    """Return `{number: reason}` of the facts that the notebook cites."""
    listed = stored.about(nb).get("cited", {})
    return {number: reason for text, reason in listed.items() for number in numbers(text)}


def unshown(nb, equations=()):
    """Return `(index of the cell, number)` of what a notebook's own outputs do not show.

    Parameters
    ----------
    nb : NotebookNode
        An executed notebook.
    equations : collection of str
        The numbers of the equations that the text may name, `3.9`.
    """
    return [(i, number) for i, number, _ in unshown_in([nb], equations)]


def unshown_in(runs, equations=()):
    """Return `(index of the cell, number, runs that do not show it)` for runs of a notebook.

    Parameters
    ----------
    runs : list of NotebookNode
        The stored notebook first, then executed copies of it, as at the ends of its ranges. A run
        is named by its position.
    equations : collection of str
        The numbers of the equations that the text may name.

    Raises
    ------
    ValueError
        If the runs have not the same sections.
    """
    parts = [stored.sections(run) for run in runs]
    titles = [[part.title for part in each] for each in parts]
    if any(each != titles[0] for each in titles):
        raise ValueError(f"runs must be of one notebook, got sections {titles}")
    shown = [[sizes(part) for part in each] for each in parts]
    excused = {(number.size, number.half) for number in cited(runs[0])}
    found = []
    for k, i, number in asked(runs[0], equations):
        silent = [run for run, each in enumerate(shown) if not number.is_shown_by(each[k])]
        if silent and (number.size, number.half) not in excused:
            found.append((i, number, silent))
    return found


def problems(nb, equations=()):
    """Yield a sentence for each number that nothing shows and each cited fact that is none."""
    for i, number in unshown(nb, equations):
        yield f"{stored.place(nb, i)} says {number.text}, which no output of its section shows"
    present = {(number.size, number.half) for _, _, number in asked(nb, equations)}
    for text, reason in stored.about(nb).get("cited", {}).items():
        if not {(number.size, number.half) for number in numbers(text)} & present:
            yield f"metadata.dputils.cited lists {text}, which the text does not say"
        if len(str(reason).split()) < 3:
            yield f"metadata.dputils.cited gives no reason for {text}: {reason!r}"
