"""The book as a whole: every public name of dputils is introduced in it, and its links lead somewhere."""
import ast
import re

import nbformat
import pytest

from tools import book, setup

ROOT = setup.ROOT
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [path for path in [ROOT / "README.md", ROOT / "data" / "README.md"] if path.exists()]
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def public_names(source):
    """Return the public functions and classes of a module, and what it takes from its inner half (`dputils._name`) only
    to pass it on; of a command (a module with `main`) the reader meets only that."""
    body = ast.parse(source).body
    found = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    inner = [node for node in body if isinstance(node, ast.ImportFrom) and node.module.startswith("dputils._")]
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    found += [alias.name for node in inner for alias in node.names if alias.name not in used]
    return [] if "main" in found else [name for name in found if not name.startswith("_")]


def code_spans(markdown):
    """Return what stands between backticks."""
    return [match[2] for match in re.finditer(r"(?s)(`+)(.+?)\1", markdown)]


def introductions(nb):
    """Return the text in which a notebook introduces names: its code cells and the code in its prose."""
    return [text for cell in nb.cells
            for text in ([cell.source] if cell.cell_type == "code" else code_spans(cell.source))]


def prose(path):
    """Return the Markdown of a notebook or a page, without code and formulas."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    else:
        text = path.read_text(encoding="utf-8")
    return re.sub(r"(?s)(`+).+?\1|\$\$.+?\$\$|\$[^$\n]+\$", "", text)


def links(text):
    """Return the targets of Markdown links, pictures and references, and of HTML attributes."""
    return (re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
            + re.findall(r"(?m)^\[[^\]]+\]:\s*(\S+)", text)
            + re.findall(r"(?:href|src)=\"([^\"]+)\"", text))


def anchors(path):
    """Return the names that headings can be linked by: JupyterLab's form, and the lower-case form of code hosts."""
    titles = re.findall(r"(?m)^#{1,6} (.+?)\s*$", prose(path))
    host = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return {title.replace(" ", "-") for title in titles} | set(host)


def dead_links(path):
    """Return the relative links of a page that lead nowhere."""
    dead = []
    for target in links(prose(path)):
        if OUTSIDE.match(target):
            continue
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or (anchor and to.suffix in (".ipynb", ".md") and anchor not in anchors(to)):
            dead.append(target)
    return dead


def missing_names(modules, texts):
    """Return the public names, as `module.name`, that occur in none of the texts."""
    text = "\n".join(texts)
    every = [f"{module}.{name}" for module, source in modules.items() for name in public_names(source)]
    return [name for name in every if not re.search(rf"\b{re.escape(name)}\b", text)]


def test_every_public_name_of_dputils_is_introduced():
    modules = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "dputils").glob("[!_]*.py"))}
    texts = [text for path in NOTEBOOKS for text in introductions(nbformat.read(path, as_version=4))]
    texts += [span for page in PAGES[:1] for span in code_spans(page.read_text(encoding="utf-8"))]
    missing = missing_names(modules, texts)
    missing += [f"python -m dputils.{name}" for name, source in modules.items()
                if "\ndef main(" in source and not any(f"python -m dputils.{name}" in text for text in texts)]
    assert not missing, f"in no code cell, and in no `code` of a text cell or the README: {', '.join(missing)}"


def test_a_name_that_no_chapter_introduces_is_found():
    lines = ["import numpy as np", "SCALE = 1", "def draw(): return 4", "def bits(): return 0", "def size(): return 2",
             "def _own(): return 5", "class Law: x = 6"]
    modules = {"noise": "\n".join(lines), "run": "def find(): pass\ndef main(): pass"}
    half = {"curves": "from dputils._half import shown, helper, _own\ndef slope(): return helper()"}
    assert missing_names(half, []) == ["curves.slope", "curves.shown"]
    assert missing_names(modules, []) == ["noise.draw", "noise.bits", "noise.size", "noise.Law"]
    text = "`noise.size` is named, noise.bits only in prose, `noise.Laws` is another name"
    cells = [nbformat.v4.new_code_cell("x = noise.draw(3)"), nbformat.v4.new_markdown_cell(text)]
    nb = nbformat.v4.new_notebook(cells=cells)
    assert missing_names(modules, introductions(nb)) == ["noise.bits", "noise.Law"]


def test_the_picture_of_the_readme_is_the_first_figure_of_chapter_04():
    assert (ROOT / ".github" / "picture.png").read_bytes() == book.first_picture(ROOT / "notebooks" / "04-laplace-mechanism.ipynb")


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    assert not dead_links(path)


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "02.md").write_text("# One two, three\n")
    page = tmp_path / "01.md"
    page.write_text("# Here\n[a](02.md) ![b](no.png) [c](02.md#One-two,-three) [d](02.md#one-two-three)\n"
                    "[e](02.md#four) [f](#Here) [g](#There) <img src=\"none.png\"> [h](https://example.org/x) `[code](x)`\n"
                    "$[0](1)$\n\n[ref]: gone.md\n")
    assert dead_links(page) == ["no.png", "02.md#four", "#There", "gone.md", "none.png"]
