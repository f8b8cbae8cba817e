"""The one stored form of a notebook: what depends on the run, the machine or the editor is taken
out. What is folded follows from the tags: a code cell with a tag of `stored.FOLDED` shows no source
in JupyterLab, a solution no output either, and the heading of an appendix or of the notes is
collapsed with all that stands under it.

`normalise` changes a notebook in place, `text` is what goes into the file. Normalising twice
changes nothing.
"""

import hashlib
import re

import nbformat

from tools import stored

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
ID = re.compile(r"c-[0-9a-f]{8}")
COLLAPSED = "jp-MarkdownHeadingCollapsed"  # JupyterLab's name for a heading that hides its section
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def normalise(nb, stem):
    """Bring a notebook into its stored form and return it; `stem` is its file name without
    `.ipynb`.
    """
    own = nb.metadata.get("dputils")
    nb.metadata = nbformat.from_dict({**METADATA, **({"dputils": own} if own else {})})
    nb.nbformat, nb.nbformat_minor = 4, 5
    taken = set()
    for cell in nb.cells:
        cell.source = cell.source.rstrip("\n")
        cell.metadata = _cell_metadata(cell)
        cell.id = _cell_id(cell, stem, taken)
        taken.add(cell.id)
        if cell.cell_type == "code":
            cell.outputs = _outputs(cell)
    return nb


def text(nb):
    """Return the text of a notebook file, ending in a newline."""
    return nbformat.writes(nb).rstrip("\n") + "\n"


def _cell_metadata(cell):
    tags = list(stored.tags(cell))
    kept = {"tags": tags} if tags else {}
    if cell.cell_type == "code" and stored.is_folded(cell):
        kept["jupyter"] = {"source_hidden": True}
        if "solution" in tags:
            kept["jupyter"]["outputs_hidden"] = True
    if stored.opens_a_folded_section(cell):
        kept[COLLAPSED] = True
    return nbformat.from_dict(kept)


def _cell_id(cell, stem, taken):
    """Return the id that was given here before, else one from the source as it is now: insertions
    renumber nothing.
    """
    if ID.fullmatch(cell.get("id", "")) and cell.id not in taken:
        return cell.id
    copy = 0
    while True:
        seed = f"{stem}|{cell.source}" + (f"|{copy}" if copy else "")
        name = "c-" + hashlib.sha1(seed.encode()).hexdigest()[:8]
        if name not in taken:
            return name
        copy += 1


def _outputs(cell):
    kept = []
    for output in cell.outputs:
        if output.output_type == "stream" and kept and kept[-1].get("name") == output.name:
            kept[-1].text += output.text
            continue
        if output.output_type == "error":
            # The reader sees what went wrong; frames would show this machine's folders.
            output.traceback = [f"{output.ename}: {output.evalue}"]
        if "data" in output:
            output.data.pop(WIDGET_VIEW, None)
            output.metadata = nbformat.from_dict({})
            if not output.data:
                continue
        if output.output_type == "execute_result":
            output.execution_count = cell.execution_count
        kept.append(output)
    return kept
