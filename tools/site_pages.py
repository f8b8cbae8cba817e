"""What the site adds to the notebooks' plain Markdown, as an extension of Sphinx; no notebook is
changed for it.

Equations with a `\\tag{3.1}` and paragraphs that open with **Theorem 3.1** become targets of links:
`#equation-3-1`, `#theorem-3-1`, in the same notebook or behind the name of another one, as the
author wrote them. Headings and code cells have the anchors that JupyterLab gives them, and links
to notebooks in stored outputs lead to their pages. Solutions, appendices and the notes on the
sources are folded, as their tags say, and figures get the sentence that is stored beside them as
their alternative text. The picture of an explorer gets sliders over the frames that were laid into
`_static/frames`; `site.js` moves them.
"""

import json
import re
from html import escape
from itertools import groupby
from pathlib import Path

from docutils import nodes
from docutils.transforms import Transform
from sphinx.util import logging

from tools import stored

STATEMENTS = "theorem|lemma|proposition|corollary|definition|claim|example|algorithm"
STILL = "In JupyterLab, sliders change this picture; here it is as they start."
STATED = re.compile(rf"({STATEMENTS}) (\d{{1,2}}\.\d{{1,2}})\b", re.IGNORECASE)
NOTEBOOK = re.compile(
    r'href="((?:\d\d|reference|release)-[a-z0-9-]+)\.ipynb(#[^"]*)?"'
)  # beside this one
TAG = re.compile(r"\\tag\{(\d{1,2}\.\d{1,2})\}")


def slug(title):
    """Return the anchor of a heading as JupyterLab writes it."""
    return title.strip().replace(" ", "-")


class Targets(Transform):
    """Give ids to what can be referred to, before myst resolves the links of the page."""

    default_priority = 870  # myst's own is 879

    def apply(self):
        """Label the equations and the statements of one page."""
        for block in self.document.findall(nodes.math_block):
            for number in TAG.findall(block.astext()):
                _label(self.document, block, "equation", number)
        stated = set()
        for paragraph in self.document.findall(nodes.paragraph):
            if (found := stated_in(paragraph, chapter_of(self.document))) and found not in stated:
                stated.add(found)
                _label(self.document, paragraph, *found)


def chapter_of(document):
    """Return the number of the chapter that a page is, None for other pages."""
    page = re.match(r"notebooks/(\d\d)-", document.settings.env.docname)
    return int(page[1]) if page else None


def stated_in(paragraph, chapter):
    """Return kind and number of the statement of this chapter that a paragraph opens with in bold,
    or None.
    """
    found = STATED.match(" ".join(paragraph.astext().split()))
    opening = next((child for child in paragraph if child.astext()), None)
    own = found and isinstance(opening, nodes.strong) and int(found[2].split(".")[0]) == chapter
    return (found[1].lower(), found[2]) if own else None


def _label(document, node, kind, number):
    """Make a node the target `kind-number`, for links from this page and from others."""
    name = f"{kind}-{number.replace('.', '-')}"
    node["ids"].append(name)
    document.myst_slugs[name] = (0, name, f"{kind} {number}")
    env = document.settings.env
    env.metadata[env.docname]["myst_slugs"] = document.myst_slugs


def mark(app, doctree):
    """Prepare formulas, fold the solutions, describe the figures."""
    for node in list(doctree.findall(nodes.TextElement)):
        _join_lines(node)
    for block in doctree.findall(nodes.math_block):
        _set_equation(block)
    for formula in list(doctree.findall(nodes.math)):
        _keep_together(formula)
    for cell in doctree.findall(
        lambda node: isinstance(node, nodes.container) and "nb_element" in node
    ):
        if "tag_solution" in cell["classes"]:
            cell["hide_mode"], cell["prompt_show"], cell["prompt_hide"] = (
                "all",
                "Show solution",
                "Hide solution",
            )
        if cell["nb_element"] == "mime_bundle":
            _describe(cell)
            _link_pages(cell)
        if cell["nb_element"] == "cell_code":
            _anchor(cell, Path(app.srcdir) / f"{app.env.docname}.ipynb")
        if "tag_explorer" in cell["classes"]:
            _add_sliders(cell, Path(app.srcdir), app.env.docname)
    _fold_sections(doctree, Path(app.srcdir) / f"{app.env.docname}.ipynb")


def _join_lines(node):
    """Make one text of neighbouring ones: the parser starts a new one at each line, between
    `chapter` and `02` too.
    """
    groups = groupby(list(node.children), lambda child: isinstance(child, nodes.Text))
    children = [
        child
        for is_text, group in groups
        for child in ([nodes.Text("".join(group))] if is_text else group)
    ]
    node.clear()
    node += [child for child in children if child != ""]


def _set_equation(block):
    """Hand an equation to MathJax as it is written."""
    block["no-wrap"] = True
    latex = block.astext()
    block.clear()
    block += nodes.Text(rf"\[{latex}\]")


def _keep_together(formula):
    """Let no line break separate a formula in the text from what touches it: a bracket, a comma,
    `-private`.
    """
    parent, at = formula.parent, formula.parent.index(formula)
    before, after = parent[at - 1] if at else None, parent[at + 1] if at + 1 < len(parent) else None
    head = re.search(r"\S*\Z", before)[0] if isinstance(before, nodes.Text) else ""
    tail = re.match(r"\S*", after)[0] if isinstance(after, nodes.Text) else ""
    # A longer one would not fit on a line of a phone.
    short = len(formula.astext()) <= 40 or len(head + tail) <= 2
    if (head or tail) and short:
        together = nodes.inline("", classes=["together"])
        parent.replace(formula, together)
        together += [nodes.Text(head), formula, nodes.Text(tail)]
        if head:
            parent[at - 1] = nodes.Text(before[: len(before) - len(head)])
        if tail:
            parent[at + 1] = nodes.Text(after[len(tail) :])


def _describe(bundle):
    """Move the sentence of `[figure: ...]` to the picture that it is stored with."""
    forms = {form["mime_type"]: form for form in bundle}
    text = forms["text/plain"].astext().strip() if "text/plain" in forms else ""
    if found := re.fullmatch(r"\[figure: (.*)\]", text, re.DOTALL):
        for image in bundle.findall(nodes.image):
            image["alt"] = found[1]


def _link_pages(bundle):
    """Lead links of a stored output from notebooks to the pages made of them."""
    for html in bundle.findall(nodes.raw):
        text = NOTEBOOK.sub(r'href="\1.html\2"', html.astext())
        html.clear()
        html += nodes.Text(text)


def _anchor(cell, path):
    """Give a code cell the anchor by which JupyterLab finds it: `#cell-id=c-0123abcd`."""
    cell["ids"].append(f"cell-id={stored.read(path).cells[cell['cell_index']].id}")


def _fold_sections(doctree, path):
    """Fold what stands under the headings of appendices and notes, which the notebook's tags name.

    A link into a folded section opens it: browsers do that for `details`.
    """
    if not path.exists():
        return
    cells = [cell for cell in stored.read(path).cells if stored.opens_a_folded_section(cell)]
    titles = {_plain(cell.source.splitlines()[0].removeprefix("## ")) for cell in cells}
    for section in list(doctree.findall(nodes.section)):
        if _plain(section[0].astext()) in titles:
            opening = '<details class="section"><summary>Show this section</summary>'
            section.insert(1, nodes.raw("", opening, format="html"))
            section += nodes.raw("", "</details>", format="html")


def _plain(title):
    return " ".join(title.replace("$", "").split())


def _add_sliders(cell, source, page):
    """Put sliders above the picture of an explorer, if there are frames for them, and a sentence
    for where nothing moves.
    """
    output = next(child for child in cell if "cell_output" in child["classes"])
    folder = source / "_static" / "frames" / Path(page).name
    up = "../" * page.count("/")
    html = ""
    if (folder / "explorer.json").exists():
        found = json.loads((folder / "explorer.json").read_text(encoding="utf-8"))
        html = sliders(found["sliders"], f"{up}_static/frames/{folder.name}")
    output.insert(0, nodes.raw("", f'{html}\n<p class="explorer-still">{STILL}</p>', format="html"))


def sliders(found, folder):
    """Return the HTML of an explorer's sliders, hidden until a script can move them.

    Parameters
    ----------
    found : list of dict
        For each slider its label, its values as text, and which of them is the start.
    folder : str
        Where the page finds the frames.
    """
    lines = [
        f"<label><span>{escape(slider['label'])}</span>"
        f'<input type="range" min="0" max="{len(slider["values"]) - 1}" step="1" '
        f'value="{slider["start"]}" autocomplete="off"><output></output></label>'
        for slider in found
    ]
    about = escape(json.dumps(found))
    opening = f'<div class="explorer" data-folder="{folder}" data-sliders="{about}" hidden>'
    return "\n".join([opening, *lines, "</div>"])


def check(app, env):
    """Warn of an equation that two pages, or two places of one, number alike."""
    first = {}
    for page in sorted(env.found_docs):
        for block in env.get_doctree(page).findall(nodes.math_block):
            for number in TAG.findall(block.astext()):
                if number in first:
                    logging.getLogger(__name__).warning(
                        "equation %s is numbered twice, here and in %s",
                        number,
                        first[number],
                        location=block,
                    )
                first.setdefault(number, page)


def setup(app):
    """Called by Sphinx."""
    app.add_transform(Targets)
    app.connect("doctree-read", mark)
    app.connect("env-updated", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
