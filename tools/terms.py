"""Whether the text uses a key term of the field before the chapter that introduces it.

`terms.toml` says which chapter introduces what. It stands in the workshop and not beside the
notebooks: it is a list for tests and authors, which no reader opens and no chapter loads. A term
in the text of an earlier chapter is refused unless it is the text of a link; so is a chapter that
never says a term which it introduces by the list. References, source notes and inline code are not
searched.
"""

import re
import tomllib
from functools import lru_cache
from pathlib import Path

from tools import stored

LIST = Path(__file__).with_name("terms.toml")
EXEMPT = (stored.REFERENCES, stored.NOTES)
NAME = re.compile(r"\d\d-[a-z0-9]+(?:-[a-z0-9]+)*")


@lru_cache
def introduced(path=LIST):
    """Return `{term: chapter}` from a list; a term is all its forms, joined by `|`.

    Raises
    ------
    ValueError
        If a chapter has no name of the form NN-short-name or comes before the one above it, or if a
        form of a term stands in the list twice.
    """
    listed = tomllib.loads(path.read_text(encoding="utf-8"))
    if wrong := [name for name in listed if not NAME.fullmatch(name)]:
        raise ValueError(f"chapters must be called NN-short-name, got {', '.join(wrong)}")
    if list(listed) != sorted(listed):
        raise ValueError(f"chapters must be in reading order, got {', '.join(listed)}")
    found = {term: name for name, chapter in listed.items() for term in chapter["terms"]}
    forms = [
        form.lower()
        for name in listed
        for term in listed[name]["terms"]
        for form in term.split("|")
    ]
    if twice := sorted({form for form in forms if forms.count(form) > 1}):
        raise ValueError(f"terms must stand in the list once, got twice: {', '.join(twice)}")
    return found


def uses(text, terms):
    """Return `(term, form)` for the terms that a text uses, in its order."""
    by_form = {form: term for term in terms for form in term.split("|")}
    longest = sorted(by_form, key=len, reverse=True)
    if not longest:
        return []
    pattern = "|".join(rf"(?P<f{k}>{_written(form)})" for k, form in enumerate(longest))
    return [
        (by_form[longest[int(found.lastgroup[1:])]], found[0])
        for found in re.finditer(rf"(?<![\w-])(?:{pattern})s?(?![\w])", text)
    ]


def _written(form):
    """Return the pattern of a form: any white space; any case, unless it has capitals."""
    words = r"\s+".join(re.escape(word) for word in form.split(" "))
    return words if form != form.lower() else f"(?i:{words})"


def text_of(markdown):
    """Return Markdown without links, code and the dress of formulas: `$d_\\mathcal X$` is `d_X`."""
    plain = re.sub(r"!?\[[^\]]*\]\([^)]*\)|`[^`]*`|https?://\S+", " ", markdown)
    return stored.LATEX.sub(lambda found: _undressed(found[0]), plain)


def _undressed(formula):
    return re.sub(r"\\(?:mathcal|mathbb|mathrm|text|operatorname)\b|[${}\s]", "", formula)


def problems(path, nb, terms=None):
    """Yield a sentence for each term that is used too early, or introduced by the list alone.

    Parameters
    ----------
    path : Path
        The file; its number says where the chapter stands.
    nb : NotebookNode
    terms : dict, optional
        `{term: chapter}`, by default the book's list.
    """
    terms = introduced() if terms is None else terms
    number, said = path.stem[:2], set()
    yield from _misnamed(path, set(terms.values()))
    for part in stored.sections(nb):
        if part.title in EXEMPT:
            continue
        for i, text in part.prose:
            for term, form in uses(text_of(text), terms):
                said.add(term)
                if terms[term][:2] > number:
                    yield (
                        f"{stored.place(nb, i)} says {form!r}, which {terms[term]} "
                        "introduces: link to that chapter or say it otherwise"
                    )
    for term, name in terms.items():
        if name == path.stem and term not in said:
            yield f"terms.toml says that {name} introduces {term!r}, which it does not say"


def _misnamed(path, names):
    """Yield a sentence if the list gives this chapter another name or another number."""
    for name in sorted(names - {path.stem}):
        if name[:2] == path.stem[:2] or name[3:] == path.stem[3:]:
            yield f"terms.toml has {name} where the book has {path.stem}"
