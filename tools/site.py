"""The book as a website that needs no network: `python -m tools.site [--into FOLDER]`, called by
`make site`.

The pages show the stored outputs. Only the explorers are executed, for the pictures under their
sliders (`frames.py`; `--frames none` leaves them still). The sources are laid out in a working
folder (byte copies of the notebooks, the README as the first page with the table of contents by
parts, the gallery of `gallery.py`), Sphinx with myst-nb makes pages of them, `site_pages.py` adds
what plain Markdown cannot say, and the finished site takes the place of the old one in one step. A
warning is an error.
Formulas are set in the reader's browser by the copy of MathJax that comes out of the installed
package sphinx-mathjax-offline; what the pages need of it is copied beside them.
"""

import argparse
import io
import re
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from dputils.book import needs
from tools import frames, gallery, setup

PARTS = (("", range(0, 1)), *needs.PARTS)  # the first page stands before them
BESIDE = (
    "data/README.md",
    "LICENSE",
    "LICENSE-text",
    "CITATION.cff",
    ".github/picture.png",
    ".github/CONTRIBUTING.md",
)  # the README links there
FORMULAS = (
    "tex-chtml.js",
    "input/tex/extensions",
    "output/chtml/fonts/woff-v2",
)  # what is needed of MathJax
PLAIN = [
    "front_matter",
    "myst_line_comment",
    "myst_block_break",
    "myst_target",
    "myst_role",
    "footnote_def",
    "footnote_ref",
]  # extensions of Markdown that JupyterLab does not know
FOOTER = "Text and figures: CC BY 4.0. Code: MIT. Data: see <em>The data of the book</em>."


def chapters(folder):
    """Return the notebooks of a folder that are chapters, `{number: path}`; each number belongs to
    one part.
    """
    found = {}
    for path in sorted(folder.glob("[0-9][0-9]-*.ipynb")):
        number = int(path.name[:2])
        if number in found:
            raise ValueError(
                f"two notebooks have the number {number:02}: {found[number].name} and {path.name}"
            )
        if not any(number in numbers for _, numbers in PARTS):
            raise ValueError(f"{path.name} belongs to no part of the book")
        found[number] = path
    return found


def beside_the_chapters(folder):
    """Return the notebooks of a folder that have no number: the release template, references."""
    return [*folder.glob("release-template.ipynb"), *sorted(folder.glob("reference-*.ipynb"))]


def contents(found, beside, appendix):
    """Return the table of contents of the site, by parts, as Markdown for the end of the first
    page.

    Parameters
    ----------
    found : dict
        The chapters, `{number: path}`.
    beside : list
        Paths of the notebooks that stand beside them.
    appendix : list
        Names of the other pages.
    """
    pages_beside = [f"notebooks/{path.stem}" for path in beside]
    last = [(":caption: Beside the chapters\n", pages_beside), (":caption: Appendix\n", appendix)]
    lists = [
        (
            f":caption: Part {title}\n" if title else "",
            [f"notebooks/{found[number].stem}" for number in numbers if number in found],
        )
        for title, numbers in PARTS
    ]
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in [*lists, *last]
        if pages
    )


def lay_out(root, source, moving):
    """Fill the folder `source` with what Sphinx reads: pages, the files they link to, styles, the
    formula setter, and the frames of the explorers that are `moving`, by the notebooks' names.
    """
    found, others = chapters(root / "notebooks"), beside_the_chapters(root / "notebooks")
    beside = [name for name in BESIDE if (root / name).exists()]
    notebooks = [f"notebooks/{path.name}" for path in [*found.values(), *others]]
    for name in [*notebooks, *beside]:
        _copy(root / name, source / name)
    paths = [source / name for name in notebooks]
    frames.make([path for path in paths if moves(path, moving)], source / "_static" / "frames")
    readme = (root / "README.md").read_text(encoding="utf-8")
    appendix = [name.removesuffix(".md") for name in beside if name.endswith(".md")]
    if swept := gallery.page(root, source):
        appendix.insert(0, swept)
    (source / "index.md").write_text(readme + contents(found, others, appendix), encoding="utf-8")
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    for name in FORMULAS:
        _copy(package / name, source / "_static" / "mathjax" / name)
    for name in ("site.css", "site.js"):
        _copy(Path(__file__).with_name(name), source / "_static" / name)


def moves(path, moving):
    """Return whether an explorer is to move: all of them, or those whose notebooks are named by
    their beginnings.
    """
    return "all" in moving or path.stem.startswith(tuple(moving))


def _copy(path, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if path.is_dir() else shutil.copyfile)(path, to)


def settings(source):
    """Return the configuration of Sphinx."""
    title = (source / "index.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    return {
        "project": title,
        "html_title": title,
        "author": "",
        "copyright": "",
        "root_doc": "index",
        "smartquotes": False,
        "extensions": ["myst_nb", "sphinx.ext.mathjax", "tools.site_pages"],
        "nb_execution_mode": "off",
        "nb_ipywidgets_js": {},
        "nb_mime_priority_overrides": [
            ("html", "image/png", 5)
        ],  # the still picture of an explorer, not its sliders
        "suppress_warnings": ["mystnb.unknown_mime_type"],  # results records, read by programs
        "myst_enable_extensions": ["dollarmath"],
        "myst_dmath_double_inline": True,
        "myst_dmath_allow_labels": False,
        "myst_disable_syntax": PLAIN,
        "myst_heading_anchors": 4,
        "myst_heading_slug_func": "tools.site_pages.slug",
        "mathjax_path": "mathjax/tex-chtml.js",
        "mathjax3_config": {
            "options": {"enableMenu": False},  # its menu offers parts that are not copied
            "chtml": {"matchFontHeight": False, "scale": 1.1},
        },
        "html_theme": "sphinx_book_theme",
        "html_static_path": [str(source / "_static")],
        "html_css_files": ["site.css"],
        "html_js_files": ["site.js"],
        "html_theme_options": {
            "toc_title": "On this page",
            "show_toc_level": 2,
            "extra_footer": FOOTER,
            "search_bar_text": "Search the book",
            "use_fullscreen_button": False,
            "navbar_start": [],
            "navbar_center": [],
            "navbar_end": [],
            "navbar_persistent": [],
        },
        "html_context": {"default_mode": "auto"},
        # summaries are fetched, which a page opened as a file may not do
        "html_show_search_summary": False,
        "html_use_index": False,
        "html_domain_indices": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
    }


def build(root, into, moving=("all",)):
    """Build the site of the book in `root` and return Sphinx's warnings; if there are any, `into`
    is left as it was. `moving` names the notebooks whose explorers move.
    """
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    work = into.with_name(into.name + ".work")
    shutil.rmtree(work, ignore_errors=True)
    try:
        source, warnings = work / "source", io.StringIO()
        lay_out(root, source, moving)
        with patch_docutils(), docutils_namespace():
            app = Sphinx(
                source,
                None,
                work / "site",
                work / "doctrees",
                "html",
                settings(source),
                status=None,
                warning=warnings,
                freshenv=True,
                warningiserror=True,
            )
            app.build(force_all=True)
        told = re.sub(r"\x1b\[[\d;]*m", "", warnings.getvalue()).replace(f"{source.resolve()}/", "")
        if not told and not app.statuscode:
            for path in [work / "site" / ".buildinfo", *(work / "site").rglob("*.map")]:
                path.unlink(missing_ok=True)  # for Sphinx and for debuggers, not for readers
            shutil.rmtree(into, ignore_errors=True)
            (work / "site").replace(into)
        return told or "Sphinx failed without a warning\n" * bool(app.statuscode)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main(arguments=None):
    """Build the site, say where it is and how large; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.site", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=setup.ROOT / "build" / "site",
        help="folder to fill (build/site)",
    )
    parser.add_argument(
        "--frames",
        nargs="*",
        default=["all"],
        metavar="NAME",
        help="notebooks whose explorers move, by the beginnings of their names; all, or none",
    )
    parser.add_argument("--root", type=Path, default=setup.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    start, into = time.monotonic(), options.into.resolve()
    into.parent.mkdir(parents=True, exist_ok=True)
    try:
        warnings = build(options.root.resolve(), into, options.frames)
    except ValueError as error:
        warnings = f"{error}\n"
    if warnings:
        sys.stderr.write(f"{warnings}the site was not built\n")
        return 1
    files = [path for path in into.rglob("*") if path.is_file()]
    pages = [path for path in files if path.suffix == ".html" and "_static" not in path.parts]
    size, took = sum(path.stat().st_size for path in files) / 1e6, time.monotonic() - start
    print(f"{into / 'index.html'}: {len(pages)} pages, {size:.1f} MB, {took:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
