"""The index of dputils: each public name with its module, what it does, and where the book first
uses it.

Read from the sources: the names and first sentences from the files of dputils, the uses from the
code cells of the notebooks. A name is used where a cell calls or reads it through what the notebook
imports; text and strings do not count.
"""

import ast
import json
import re
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from dputils.book import chapter

FOLDER = Path(__file__).resolve().parents[1]
HEADS = ("name", "what it does", "first used in")


class Entry(NamedTuple):
    """One public name."""

    module: str  # below dputils, `accounting.ledger`; `accounting` for what a package shows
    name: str
    sentence: str  # the first of its docstring
    title: str  # of the notebook that uses it first, empty if none does
    link: str  # to the first cell that uses it
    users: tuple  # files of dputils that use it, by their modules


# ---- the names -----------------------------------------------------------------------------------


def files(folder=FOLDER):
    """Return `{dotted name below dputils: syntax tree}` of the files of dputils."""
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(folder.rglob("*.py"))
    }


def public(trees):
    """Return `{module.name: node}` of the functions and classes without an underscore.

    `main` is run by its file and not called.
    """
    return {
        f"{module}.{node.name}": node
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and node.name != "main"
    }


def homes(trees):
    """Return `{package.name: module.name}` of what a package shows of its modules."""
    shown = {}
    for module, tree in trees.items():
        package, _, last = module.rpartition(".")
        if last == "__init__":
            for name, home in _imports(tree).items():
                shown[f"{package}.{name}"] = home
    return shown


# ---- their uses ----------------------------------------------------------------------------------


def _imports(tree):
    """Return `{name: dotted name below dputils}` of what a tree imports from dputils."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dputils":
            base = node.module.removeprefix("dputils").lstrip(".")
            for alias in node.names:
                found[alias.asname or alias.name] = f"{base}.{alias.name}".lstrip(".")
    return found


def used(tree, known=None):
    """Return what a tree uses of dputils, as dotted names; `known` are the imports that it sees."""
    known, names = _imports(tree) if known is None else known, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in known:
            names.add(known[node.id])
        if isinstance(node, ast.Attribute):
            names.add(_dotted(node, known))
    return names


def _dotted(node, known):
    """The dotted name of an attribute of something imported; empty for anything else."""
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if not isinstance(node, ast.Attribute):
        return ""
    value = _dotted(node.value, known)
    return f"{value}.{node.attr}" if value else ""


def users(trees):
    """Return `{dotted name: modules of the other files that use it}`."""
    found = {}
    for module, tree in trees.items():
        for name in used(tree):
            if not name.startswith(f"{module}."):
                found.setdefault(name, []).append(module)
    return found


def _first_uses(shown, folder=chapter.BOOK):
    """Return `{dotted name: (title, link)}` of the first cell of the book that uses each name.

    The chapters come in reading order, what stands beside them last. A name that a package shows
    (`shown`, as `homes` returns them) counts where it is defined.
    """
    found, own = {}, "reference-index.ipynb"
    for path in sorted(folder.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.name != own else []
        title = chapter.plain_title("".join(cells[0]["source"])) if cells else ""
        code = [("".join(c["source"]), c["id"]) for c in cells if c["cell_type"] == "code"]
        known = {}
        for text, _ in code:
            known |= _imports(chapter.parsed(text)) if "dputils" in text else {}
        for text, id in code:
            for name in used(chapter.parsed(text), known):
                found.setdefault(shown.get(name, name), (title, f"{path.name}#cell-id={id}"))
    return found


@lru_cache(maxsize=1)
def entries():
    """Return the entry of each public name, by module and in the order of its file."""
    trees = files()
    uses, inside = _first_uses(homes(trees)), users(trees)
    found = []
    for name, node in public(trees).items():
        module, _, last = name.rpartition(".")
        use, by = uses.get(name, ("", "")), tuple(sorted(inside.get(name, ())))
        found.append(Entry(module, last, _sentence(node), *use, by))
    return found


def _sentence(node):
    """Return the first sentence of a docstring, without its final stop."""
    text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s(?=[A-Z`])", text)[0].rstrip(".:;")


# ---- what a reader sees --------------------------------------------------------------------------


def listing(package=""):
    """Display the modules of a package ("" for dputils itself), a folded table for each.

    Raises
    ------
    ValueError
        If dputils has no such package.
    """
    from IPython.display import display

    own = [entry for entry in entries() if entry.module.rpartition(".")[0] == package]
    if not own:
        raise ValueError(f"package must be one of dputils, got {package!r}")
    trees = files()
    html, plain = [], []
    for module in sorted({entry.module for entry in own}):
        rows = [entry for entry in own if entry.module == module]
        html.append(
            chapter.folded(
                f"<b>{module}</b>: {_marked(_sentence(trees[module]))}", HEADS, map(_cells, rows)
            )
        )
        plain += [f"{module}.{entry.name}  {entry.link}".rstrip() for entry in rows]
    display({"text/html": "\n".join(html), "text/plain": "\n".join(plain)}, raw=True)


def _cells(entry):
    yield f"<code>{entry.name}</code>"
    yield f"{_marked(entry.sentence)}"
    inside = f"inside dputils: {', '.join(entry.users)}" if entry.users else ""
    yield f"{_anchor(entry, entry.title) if entry.link else inside}"


def _marked(text):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchor(entry, text):
    return f'<a href="{entry.link}">{escape(text)}</a>'


def alphabetical():
    """Display all names from A to Z, each with its modules, linked to their first uses."""
    from IPython.display import display

    by_name = {}
    for entry in entries():
        by_name.setdefault(entry.name, []).append(entry)
    html, plain = [], []
    for name in sorted(by_name, key=str.lower):
        own = by_name[name]
        modules = [_anchor(one, one.module) if one.link else one.module for one in own]
        html.append(f"<code>{name}</code>: {', '.join(modules)}")
        plain.append(f"{name}: {', '.join(one.module for one in own)}")
    display({"text/html": f"<p>{'<br>'.join(html)}</p>", "text/plain": "\n".join(plain)}, raw=True)
