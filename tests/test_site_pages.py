"""What the site makes of plain Markdown, shown on a toy book: links, folded solutions, described
pictures, refusals.
"""

import base64
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import matplotlib
import nbformat
import numpy as np
import pytest
from nbformat import v4

from dputils.book import plots
from tools import frames, setup

PICTURE = {
    "image/png": base64.b64encode(plots.png(plots.figure()[0])).decode(),
    "text/plain": '[figure: A line <rises> & "falls".]',
}

EXPLORER = """from dputils.book import plots

plots.style()

def draw(height, width, shade):
    fig, ax = plots.figure(height=2.0)
    ax.bar([0], [height], width=width, color=str(shade))
    ax.set(xlim=(-1, 1), ylim=(0, 3))
    return fig

plots.explore(draw, "A bar of height 1 and width 0.5.", height=("height & more", 1, 3, 1, 1),
              width=("width", 0.5, 1.0, 0.5, 0.5), shade=("shade", 0.0, 1.0, 0.5, 0.5),
              frames={"height": [1, 2, 3], "width": [1.0, 0.5]})"""

LINKS = '<a href="02-more-toys.ipynb#cell-id=c-01234567">there</a> <a href="x.ipynb">elsewhere</a>'

ONE = [
    r"""# 01 Toys

Take $x_1$ (and $|x_2|$, not `$x_3$`). Costs `$5`. [Chapter 02](02-more-toys.ipynb)
uses [(1.1)](#equation-1-1); (1.2) and chapter 02 are not linked.

$$ x = 1. \tag{1.1} $$

**Theorem 1.1 (Nobody 2001).** By [(1.1)](#equation-1-1), {math}`x` stays as typed.
% so does this line

$$\begin{aligned} a &= b \\ &= c \end{aligned} \tag{1.2}$$
**Theorem 1.1** once more, and **Theorem 7.7** of another chapter.

Theorem 1.1 of Balle and Wang is not [ours](#theorem-1-1), [exercise 1](#Exercise-1:-none) is.""",
    ("y = 1", ()),
    ("print('worked')", ("solution",)),
    ("print('drawn')", ("hide-input",)),
    (EXPLORER, ("explorer",)),
    "## Exercises\n\n### Exercise 1: none",
    ("## Appendix: more of it\n\nWords under a fold.", ("appendix",)),
    ("z = 3", ("appendix",)),
    (LINKS, ()),
    "## References\n\n- Wang. Theorem 1.1, chapter 02.",
]
TWO = [
    "# 02 More toys\n\nSee equation [(1.2)](01-toys.ipynb#equation-1-2) and "
    "[Theorem 1.1](01-toys.ipynb#theorem-1-1).\n\n"
    "> **Privacy statement**\n>\n> | | |\n> |---|---|\n> | Delta | $0$ |\n\n"
    "Back to [the first](01-toys.ipynb#Exercises).",
    ("shown = 4", ()),
]


def write(path, cells):
    """Write an executed notebook: a string is Markdown; a pair is a source and its tags, Markdown
    if it opens with a heading and code if not.
    """
    made = []
    for cell in cells:
        source, tags = (cell, ()) if isinstance(cell, str) else cell
        if isinstance(cell, str) or source.startswith("#"):
            made.append(v4.new_markdown_cell(source, metadata={"tags": list(tags)}))
        else:
            made.append(v4.new_code_cell(source, metadata={"tags": list(tags)}, execution_count=1))
    for cell in made:
        if cell.source.startswith("print"):
            cell.outputs = [v4.new_output("stream", text=cell.source[7:-2] + "\n")]
        elif cell.source == LINKS:
            cell.outputs = [v4.new_output("display_data", data={"text/html": LINKS})]
        elif cell.source == "shown = 4":
            cell.id = "c-01234567"
        elif cell.source == EXPLORER:
            widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
            cell.outputs = [v4.new_output("display_data", data={**widget, **PICTURE})]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(
        v4.new_notebook(cells=made, metadata={"language_info": {"name": "python"}}), path
    )


def run(*arguments):
    """Run tools.site in a fresh process and return `(status, what it said)`."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", *map(str, arguments)],
        cwd=setup.ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A book of two toy chapters, and its site."""
    root = tmp_path_factory.mktemp("toy")
    write(root / "notebooks" / "01-toys.ipynb", ONE)
    write(root / "notebooks" / "02-more-toys.ipynb", TWO)
    (root / "README.md").write_text("# Toys\n\nStart with [01](notebooks/01-toys.ipynb).\n")
    status, said = run("--root", root, "--into", root / "site")
    assert status == 0, said
    return SimpleNamespace(root=root, one=page(root, "01-toys"), two=page(root, "02-more-toys"))


def page(root, name):
    """Return the ids, links, alternative texts and article of a page."""
    source = (root / "site" / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
    article = re.search(r"<article.*?</article>", source, re.DOTALL)[0]
    found = {
        name: [html.unescape(value) for value in re.findall(rf' {name}="([^"]*)"', source)]
        for name in ("id", "href", "alt")
    }
    return SimpleNamespace(
        ids=set(found["id"]), links=found["href"], alts=found["alt"], article=article
    )


def named(page, words):
    """Return where the links of the article with this text lead."""
    text = rf"(?:<span[^>]*>)?{re.escape(words)}(?:</span>)?"
    return re.findall(rf'<a class="reference internal" href="([^"]*)">{text}</a>', page.article)


def test_equations_and_theorems_can_be_linked_also_across_chapters(toy):
    one, two = "01-toys.html", "02-more-toys.html"
    assert {"equation-1-1", "equation-1-2", "theorem-1-1"} <= toy.one.ids
    assert toy.one.article.count('id="theorem-') == 1
    assert named(toy.one, "(1.1)") == ["#equation-1-1"] * 2
    assert named(toy.one, "ours") == ["#theorem-1-1"] and named(toy.one, "exercise 1") == [
        "#exercise-1-none"
    ]
    assert named(toy.one, "Chapter 02") == [two]
    assert named(toy.two, "(1.2)") == [f"{one}#equation-1-2"] and named(toy.two, "Theorem 1.1") == [
        f"{one}#theorem-1-1"
    ]
    assert f"{one}#exercises" in toy.two.links


def test_stored_outputs_link_to_cells_of_other_pages(toy):
    assert "cell-id=c-01234567" in toy.two.ids
    assert '<a href="02-more-toys.html#cell-id=c-01234567">there</a>' in toy.one.article
    assert '<a href="x.ipynb">' in toy.one.article


def test_nothing_becomes_a_link_that_the_author_has_not_linked(toy):
    assert (
        named(toy.one, "(1.2)")
        == named(toy.one, "chapter 02")
        == named(toy.one, "Theorem 1.1")
        == []
    )


def test_the_markdown_stays_plain(toy):
    assert "{math}" in toy.one.article and "% so does this line" in toy.one.article
    assert r"\[\begin{aligned} a &amp;= b \\ &amp;= c \end{aligned} \tag{1.2}\]" in toy.one.article
    assert r'<span class="together">(and ' not in toy.one.article
    assert re.search(
        r'<span class="together"><span class="math[^>]*>\\\(\|x_2\|\\\)</span>,</span>',
        toy.one.article,
    )
    assert toy.one.article.count('<span class="math') == 2 and "<blockquote>" in toy.two.article


def test_solutions_are_folded_and_figures_described(toy):
    folded = re.findall(r"<details.*?</details>", toy.one.article, re.DOTALL)
    assert len(folded) == 3 and "Show solution" in folded[0] and "worked" in folded[0]
    assert "Show code cell source" in folded[1] and "drawn" in folded[1]
    assert toy.one.alts == ['A line <rises> & "falls".']
    assert "[figure:" not in toy.one.article


def shown(image):
    """Return the pixels of a picture."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"), dtype=int)


def drawn_here(places):
    """Return the pictures of the toy's explorer as a fresh kernel draws them."""
    space = {}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        exec(EXPLORER.split("plots.explore")[0], space)
        return [plots.png(space["draw"](height, width, 0.5)) for height, width in places]


def test_the_frames_are_the_pictures_that_the_sliders_would_give(toy):
    folder = toy.root / "site" / "_static" / "frames" / "01-toys"
    places = [(height, width) for height in (1, 2, 3) for width in (1.0, 0.5)]
    assert sorted(path.name for path in folder.glob("*.png")) == [f"0{k}.png" for k in range(6)]
    for number, whole in enumerate(map(shown, drawn_here(places))):
        ours = shown((folder / f"0{number}.png").read_bytes())
        assert ours.shape == whole.shape and np.abs(ours - whole).max() <= 12
    about = json.loads((folder / "explorer.json").read_text())
    assert [slider["label"] for slider in about["sliders"]] == ["height & more", "width"]
    assert [slider["start"] for slider in about["sliders"]] == [0, 1]


def test_frames_are_made_once_and_anew_when_the_code_changes(toy, tmp_path):
    path, changed = tmp_path / "01-toys.ipynb", [*ONE]
    write(path, changed)
    before = frames.key(path).hexdigest()
    assert (frames.CACHE / before[:32] / frames.MANIFEST).exists()
    changed[0] += " More text."
    write(path, changed)
    os.utime(path, ns=(0, 1))
    assert frames.key(path).hexdigest() == before
    changed[1] = ("y = 2", ())
    write(path, changed)
    os.utime(path, ns=(0, 2))
    assert frames.key(path).hexdigest() != before


def test_an_explorer_that_fails_is_named_and_no_frames_are_kept(tmp_path):
    write(tmp_path / "05-bad.ipynb", ["# 05 Bad", ("1 / 0", ("explorer",))])
    with pytest.raises(ValueError, match="05-bad.ipynb: ZeroDivisionError: division by zero"):
        frames.make([tmp_path / "05-bad.ipynb"], tmp_path / "into", tmp_path / "cache")
    write(tmp_path / "06-still.ipynb", ["# 06 Still", ("x = 1", ("explorer",))])
    with pytest.raises(ValueError, match="06-still.ipynb: its explorer declares no frames"):
        frames.make([tmp_path / "06-still.ipynb"], tmp_path / "into", tmp_path / "cache")
    assert not list((tmp_path / "cache").glob(f"*/{frames.MANIFEST}"))
    assert not (tmp_path / "into").exists()


PLACE = "document.querySelector('.cell_output:has(.explorer) img')"


@pytest.mark.parametrize("phone", [False, True], ids=["keyboard", "phone"])
def test_sliders_move_on_the_page(toy, browser, phone):
    size = {"width": 390, "height": 800} if phone else {"width": 1280, "height": 900}
    context = browser.new_context(viewport=size, has_touch=phone)
    page = context.new_page()
    page.goto((toy.root / "site" / "notebooks" / "01-toys.html").as_uri())
    height, width = (page.locator("div.explorer input").nth(k) for k in (0, 1))
    picture, still = page.locator("div.cell_output:has(div.explorer) img"), PICTURE["text/plain"]
    assert f"[figure: {picture.get_attribute('alt')}]" == still
    if phone:
        height.scroll_into_view_if_needed()
        box = height.bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    else:
        height.focus()
        page.keyboard.press("End")
    page.wait_for_function(f"{PLACE}.src.endsWith('/05.png') && {PLACE}.complete")
    assert picture.evaluate("e => e.naturalWidth") > 300
    assert picture.get_attribute("alt") == "The same picture at height & more 3, width 0.5."
    assert page.locator("div.explorer output").all_inner_texts() == ["3", "0.5"]
    assert height.get_attribute("aria-valuetext") == "3"
    width.press("ArrowLeft")
    page.wait_for_function(f"{PLACE}.src.endsWith('/04.png')")
    width.press("ArrowRight")
    height.press("Home")
    page.wait_for_function(f"!{PLACE}.src.includes('frames')")
    assert f"[figure: {picture.get_attribute('alt')}]" == still
    context.close()


def test_a_number_leads_to_its_equation(toy, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 300})
    page.goto((toy.root / "site" / "notebooks" / "02-more-toys.html").as_uri())
    page.get_by_role("link", name="(1.2)").first.click()
    page.wait_for_url("**#equation-1-2")
    page.wait_for_function("MathJax.startup && MathJax.startup.promise.then(() => true)")
    assert "(1.2)" in page.locator("#equation-1-2 mjx-assistive-mml").inner_text()
    page.close()


def test_an_appendix_is_folded_with_all_that_stands_under_its_heading(toy, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((toy.root / "site" / "notebooks" / "01-toys.html").as_uri())
    under = [page.get_by_text("Words under a fold."), page.get_by_text("z = 3")]
    after = page.get_by_role("heading", name="References")
    assert page.get_by_role("heading", name="Appendix: more of it").is_visible()
    assert after.is_visible() and not any(place.is_visible() for place in under)
    page.get_by_text("Show this section").click()
    assert all(place.is_visible() for place in under)
    page.close()


def test_a_page_can_be_downloaded_as_the_notebook_it_came_from(toy):
    assert "../_sources/notebooks/01-toys.ipynb" in toy.one.links
    stored, given = (
        toy.root / place / "notebooks" / "01-toys.ipynb" for place in ("", "site/_sources")
    )
    assert given.read_bytes() == stored.read_bytes()


def test_building_again_changes_no_byte(toy, tmp_path):
    assert run("--root", toy.root, "--into", tmp_path / "site")[0] == 0
    first, again = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (toy.root / "site", tmp_path / "site")
    )
    assert first == again


def test_a_warning_is_an_error_and_leaves_the_old_site_alone(toy, tmp_path):
    shutil.copytree(toy.root / "notebooks", tmp_path / "notebooks")
    write(
        tmp_path / "notebooks" / "03-bad.ipynb",
        ["# 03 Bad\n\n[gone](04-gone.ipynb) [no](#theorem-3-9)\n\n$$x \\tag{1.1}$$"],
    )
    (tmp_path / "README.md").write_text("# Toys\n")
    (tmp_path / "site").mkdir()
    status, said = run("--root", tmp_path, "--into", tmp_path / "site")
    assert status == 1 and said.endswith("the site was not built\n")
    assert (
        "equation 1.1 is numbered twice" in said
        and "04-gone.ipynb" in said
        and "theorem-3-9" in said
    )
    assert re.search(r"(?m)^notebooks/03-bad\.ipynb:", said) and str(tmp_path) not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "notebooks", "site"]
