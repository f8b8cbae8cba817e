"""What the site adds to the notebooks' plain Markdown, as an extension of Sphinx; no notebook is changed for it.

Equations with a `\\tag{3.1}`, paragraphs that open with **Theorem 3.1** and headings `Exercise 4` become targets, and
"(3.1)", "Theorem 3.1", "exercise 4" and "chapter 02" in the text become links to them, also across chapters. What does
not exist (a chapter that is still to be written) stays plain text. Solutions are folded, and figures get the sentence
that is stored beside them as their alternative text.
"""
import re
from itertools import groupby

from docutils import nodes
from sphinx.util import logging

STATEMENTS = "theorem|lemma|proposition|corollary|definition|claim|example|algorithm"
NUMBER = r"\d{1,2}(?:\.\d{1,2})?"
MENTION = re.compile(rf"(?P<equation>\({NUMBER}\))|\b(?P<word>chapter|exercise|{STATEMENTS})s?\s+"
                     rf"(?P<numbers>{NUMBER}\b(?:(?:,\s+|,?\s+(?:and|or)\s+|[-\u2013]){NUMBER}\b)*)", re.IGNORECASE)
STATED = re.compile(rf"({STATEMENTS}) (\d{{1,2}}\.\d{{1,2}})\b", re.IGNORECASE)
TAG = re.compile(r"\\tag\{(\d{1,2}\.\d{1,2})\}")
# Numbers of somebody else: behind "document 000", "its equation", or a year in the same sentence; before "of Wang".
FOREIGN_EQUATION = re.compile(r"(?:\bits|'s|s'|\bdocument \d{3},?)(?:\s+(?:equation|formula|inequality))?\s*$")
FOREIGN_STATEMENT = re.compile(r"\b(?:documents?|slides|thesis|paper|book|(?:19|20)\d\d)\b[^.;:]*$")
OTHERS = re.compile(r"\s+(?:of|in|by)\s+(?!chapter\b)[A-Z\u201c]")
UNTOUCHED = (nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.raw, nodes.math,
             nodes.math_block, nodes.comment)


def slug(title):
    """Return the anchor of a heading as JupyterLab writes it."""
    return title.strip().replace(" ", "-")


def mark(app, doctree):
    """Give ids to what can be referred to, fold the solutions, describe the figures."""
    page = re.match(r"notebooks/(\d\d)-", app.env.docname)
    chapter = int(page[1]) if page else None
    for node in list(doctree.findall(nodes.TextElement)):
        _join_lines(node)
    for block in doctree.findall(nodes.math_block):
        _set_equation(block)
    stated = set()
    for paragraph in doctree.findall(nodes.paragraph):
        found = STATED.match(paragraph.astext())
        if found and isinstance(paragraph[0], nodes.strong) and int(found[2].split(".")[0]) == chapter \
                and found[0] not in stated:
            stated.add(found[0])
            _label(paragraph, found[1].lower(), found[2])
    for section in doctree.findall(nodes.section):
        if found := re.match(r"Exercise (\d+)\b", section[0].astext()):
            section["targets"] = [("exercise", found[1], section["ids"][0])]
    for formula in list(doctree.findall(nodes.math)):
        _keep_together(formula)
    for cell in doctree.findall(lambda node: isinstance(node, nodes.container) and "nb_element" in node):
        if "tag_solution" in cell["classes"]:
            cell["hide_mode"], cell["prompt_show"], cell["prompt_hide"] = "all", "Show solution", "Hide solution"
        if cell["nb_element"] == "mime_bundle":
            _describe(cell)


def _join_lines(node):
    """Make one text of neighbouring ones: the parser starts a new one at each line, between `chapter` and `02` too."""
    groups = groupby(list(node.children), lambda child: isinstance(child, nodes.Text))
    children = [child for is_text, group in groups
                for child in ([nodes.Text("".join(group))] if is_text else group)]
    node.clear()
    node += [child for child in children if child != ""]


def _set_equation(block):
    """Make targets of the equation's tags, and hand it to MathJax as it is written."""
    for number in TAG.findall(block.astext()):
        _label(block, "equation", number)
    block["no-wrap"] = True
    latex = block.astext()
    block.clear()
    block += nodes.Text(rf"\[{latex}\]")


def _label(node, kind, number):
    name = f"{kind}-{number.replace('.', '-')}"
    node["ids"].append(name)
    node["targets"] = [*node.get("targets", []), (kind, number, name)]


def _keep_together(formula):
    """Let no line break separate a formula in the text from what touches it: a bracket, a comma, `-private`."""
    parent, at = formula.parent, formula.parent.index(formula)
    before, after = parent[at - 1] if at else None, parent[at + 1] if at + 1 < len(parent) else None
    head = re.search(r"\S*\Z", before)[0] if isinstance(before, nodes.Text) else ""
    tail = re.match(r"\S*", after)[0] if isinstance(after, nodes.Text) else ""
    short = len(formula.astext()) <= 40 or len(head + tail) <= 2  # the rest would not fit on a line of a phone
    if (head or tail) and short:
        together = nodes.inline("", classes=["together"])
        parent.replace(formula, together)
        together += [nodes.Text(head), formula, nodes.Text(tail)]
        if head:
            parent[at - 1] = nodes.Text(before[:len(before) - len(head)])
        if tail:
            parent[at + 1] = nodes.Text(after[len(tail):])


def _describe(bundle):
    """Move the sentence of `[figure: ...]` to the picture that it is stored with."""
    forms = {form["mime_type"]: form for form in bundle}
    text = forms["text/plain"].astext().strip() if "text/plain" in forms else ""
    if found := re.fullmatch(r"\[figure: (.*)\]", text, re.DOTALL):
        for image in bundle.findall(nodes.image):
            image["alt"] = found[1]


def collect(app, env):
    """Gather the targets of all pages: `{(kind, number): (page, id)}`; exercises are numbered page by page.

    A theorem may be restated, then its first place counts; an equation has its number once.
    """
    env.book_labels = labels = {}
    for page in sorted(env.found_docs):
        if found := re.match(r"notebooks/(\d\d)-", page):
            labels["chapter", found[1]] = (page, "")
        for node in env.get_doctree(page).findall(lambda node: isinstance(node, nodes.Element) and "targets" in node):
            for kind, number, name in node["targets"]:
                key = (kind, number, page) if kind == "exercise" else (kind, number)
                if kind == "equation" and key in labels:
                    logging.getLogger(__name__).warning("equation %s is numbered twice, here and in %s", number,
                                                        labels[key][0], location=node)
                labels.setdefault(key, (page, name))


def link(app, doctree, page):
    """Turn the mentions in the text of a page into links."""
    for text in list(doctree.findall(nodes.Text)):
        above = list(_above(text))
        if any(isinstance(node, UNTOUCHED) or _is_reference_list(node) for node in above):
            continue
        if isinstance(above[0], nodes.strong) and "targets" in above[1] and above[1].index(above[0]) == 0:
            continue
        pieces = list(_pieces(app, page, text))
        if len(pieces) > 1:
            text.parent.replace(text, pieces)


def _above(node):
    while node.parent is not None:
        node = node.parent
        yield node


def _is_reference_list(node):
    return isinstance(node, nodes.section) and node[0].astext() == "References"


def _pieces(app, page, text):
    """Yield the text cut into plain pieces and links."""
    whole, done = str(text), 0
    siblings = text.parent.children[:text.parent.index(text)]
    before = "".join(str(node) for node in siblings if isinstance(node, nodes.Text))
    for start, end, target in mentions(whole, before, app.env.book_labels, page):
        yield nodes.Text(whole[done:start])
        uri = app.builder.get_relative_uri(page, target[0]) + f"#{target[1]}" * bool(target[1])
        yield nodes.reference("", whole[start:end], internal=True, refuri=uri)
        done = end
    yield nodes.Text(whole[done:])


def mentions(text, before, labels, page):
    """Yield `(start, end, target)` for what the text refers to, if such a target exists; `before` precedes the text."""
    for found in MENTION.finditer(text):
        lead = before + text[:found.start()]
        if found["equation"]:
            target = labels.get(("equation", found["equation"][1:-1]))
            if target and not FOREIGN_EQUATION.search(lead):
                yield *found.span(), target
            continue
        kind = found["word"].lower()
        if kind != "chapter" and (FOREIGN_STATEMENT.search(lead) or OTHERS.match(text, found.end())):
            continue
        numbers = list(re.finditer(NUMBER, found["numbers"]))
        for number in numbers:
            target = labels.get((kind, number[0], page) if kind == "exercise" else (kind, number[0]))
            first = found.start("numbers")
            start = found.start() if len(numbers) == 1 else first + number.start()
            if target and target != (page, ""):
                yield start, first + number.end(), target


def setup(app):
    """Called by Sphinx."""
    app.connect("doctree-read", mark)
    app.connect("env-updated", collect)
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
