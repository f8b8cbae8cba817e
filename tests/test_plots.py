"""Figures: the same drawing gives the same bytes, no picture without words, sliders redraw, the ledger's bar."""
import base64
import functools
import math
import os
import subprocess
import sys

import ipywidgets
import numpy as np
import pytest
from matplotlib.colors import to_hex

from dputils.book import plots
from dputils.accounting import Ledger
from dputils.accounting.costs import ZCDP

ALT = "A straight line that rises from zero to the chosen slope."
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, as a list of MIME bundles."""
    bundles = []

    def display(bundle, raw=False):
        assert raw
        bundles.append(bundle)

    monkeypatch.setattr("IPython.display.display", display)
    return bundles


def line(slope=1.0, times=1):
    plots.style()
    fig, ax = plots.figure(height=1.5)
    ax.plot([0, 1], [0, slope * times])
    ax.set_xlabel("x")
    return fig


DRAW = """
from dputils.book import plots
import hashlib
plots.style()
fig, axes = plots.figure(columns=2)
for ax, colour in zip(axes, plots.COLOURS):
    ax.semilogy([1, 2, 3], [1e-3, 2, 1e4], "o-", color=colour)
    ax.set(xlabel=r"epsilon $\\varepsilon$", title="title")
print(hashlib.sha256(plots.png(fig)).hexdigest())
"""


def test_the_same_drawing_gives_the_same_bytes_in_every_process():
    run = functools.partial(subprocess.run, [sys.executable, "-c", DRAW], capture_output=True, text=True, check=True)
    digests = {run(env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("0", "7")}
    assert len(digests) == 1 and len(digests.pop()) == 65


def test_bytes_change_with_the_drawing_and_carry_no_version():
    assert plots.png(line(1.0)) == plots.png(line(1.0)) != plots.png(line(1.1))
    fig = line()
    picture = plots.png(fig)
    assert plots.png(fig) == picture  # the layout is computed once
    assert picture.startswith(b"\x89PNG") and b"Software" not in picture and b"atplotlib" not in picture
    width, height = (int.from_bytes(picture[at:at + 4], "big") for at in (16, 20))
    assert (width, height) == (round(plots.WIDTH * plots.DPI), round(1.5 * plots.DPI))


def test_style_undoes_whatever_was_set_before():
    import matplotlib as mpl
    plain = plots.png(line())
    mpl.rcParams.update({"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "pink", "xtick.direction": "in"})
    assert plots.png(line()) == plain
    assert "matplotlib.pyplot" not in sys.modules or not mpl.pyplot.get_fignums()  # figures are not shown twice


def test_colours_are_distinct_also_in_grey():
    def lightness(colour):
        red, green, blue = (int(to_hex(colour)[i:i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    assert len(set(plots.COLOURS)) == len(plots.COLOURS)
    assert abs(lightness(plots.BLUE) - lightness(plots.ORANGE)) > 0.2  # the pair used most


def test_show_displays_picture_and_words(shown):
    fig = line()
    plots.show(fig, ALT)
    assert list(shown[0]) == ["image/png", "text/plain"]
    assert base64.b64decode(shown[0]["image/png"]) == plots.png(fig)
    assert shown[0]["text/plain"] == f"[figure: {ALT}]"


@pytest.mark.parametrize("alt", [None, "", "A short text.", " " * 40, "x" * 19, 12345678901234567890123])
def test_a_picture_without_words_is_refused(alt, shown):
    for call in (lambda: plots.show(line(), alt), lambda: plots.explore(line, alt, slope=("slope", 0.0, 2.0, 0.5, 1.0))):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == f"alt must be a sentence of at least 20 characters, got {alt!r}"
    assert shown == []


def test_an_explorer_holds_view_picture_and_words_and_redraws(shown):
    calls = []

    def draw(slope, times):
        calls.append((slope, times))
        return line(slope, times)

    plots.explore(draw, ALT, slope=("slope a", 0.0, 2.0, 0.5, 1.0), times=("how often", 1, 5, 1, 2))
    assert len(shown) == 1 and set(shown[0]) == {VIEW, "image/png", "text/plain"} and calls == [(1.0, 2)]
    assert base64.b64decode(shown[0]["image/png"]) == plots.png(line(1.0, 2))
    box = ipywidgets.widgets.widget._instances[shown[0][VIEW]["model_id"]]
    slope, times, image = box.children
    assert isinstance(slope, ipywidgets.FloatSlider) and isinstance(times, ipywidgets.IntSlider)
    assert (slope.description, slope.min, slope.max, slope.step, slope.value) == ("slope a", 0, 2, 0.5, 1)
    assert bytes(image.value) == plots.png(line(1.0, 2))
    slope.value = 1.5
    assert calls[-1] == (1.5, 2) and bytes(image.value) == plots.png(line(1.5, 2))
    times.value = 4
    assert calls == [(1.0, 2), (1.5, 2), (1.5, 4)] and bytes(image.value) == plots.png(line(1.5, 4))
    assert base64.b64decode(shown[0]["image/png"]) == plots.png(line(1.0, 2))  # the still picture stays


@pytest.mark.parametrize("spec,problem", [
    (("slope", 0, 1, 1), "slope must be (label, low, high, step, start), got "),
    (("slope", 1, 0, 1, 1), "slope must have low < high, step above 0 and start between low and high, got "),
    (("slope", 0, 1, 0.1, 1.5), "slope must have low < high, step above 0 and start between low and high, got "),
    (("slope", 0, 1, 0, 1), "slope must have low < high, step above 0 and start between low and high, got "),
    (("slope", 0, 1, 0.1, math.nan), "slope must have low < high, step above 0 and start between low and high, got "),
])
def test_a_slider_that_makes_no_sense_is_refused(spec, problem, shown):
    with pytest.raises(ValueError) as caught:
        plots.explore(line, ALT, slope=spec)
    assert str(caught.value) == problem + repr(spec) and shown == []


# ------------------------------------------------------------------------------------------------------------ ledger_bar


def segments(fig):
    return [(round(bar.get_x(), 12), round(bar.get_width(), 12), to_hex(bar.get_facecolor())) for bar in fig.axes[0].patches]


def test_ledger_bar_has_one_segment_per_release_and_the_rest_in_grey():
    ledger = Ledger(2.0, neighbours="replace-one")
    ledger.spend("count", 0.5)
    parts = ledger.partition("sex", str, ["f", "m"])
    parts.spend("f", "sum", 0.25), parts.spend("m", "sum", 0.25)
    ledger.free("mean")
    plots.style()
    fig = plots.ledger_bar(ledger)
    assert [s[:2] for s in segments(fig)] == [(0, 0.5), (0.5, 0.5), (1.0, 1.0)] and segments(fig)[-1][2] == "#e4e4e4"
    assert [text.get_text() for text in fig.axes[0].texts] == ["count", "sex"]
    assert fig.axes[0].get_xlabel() == "privacy budget spent, epsilon (replace-one neighbours)"
    assert fig.axes[0].get_xlim() == (0, 2)
    assert plots.png(fig).startswith(b"\x89PNG")


def test_ledger_bar_of_a_zcdp_ledger_is_in_rho():
    ledger = Ledger(ZCDP(0.5), neighbours="add-remove")
    ledger.spend("counts", ZCDP(0.2))
    fig = plots.ledger_bar(ledger)
    assert [s[:2] for s in segments(fig)] == [(0, 0.2), (0.2, 0.3)]
    assert fig.axes[0].get_xlabel() == "privacy budget spent, rho (add-remove neighbours)"


def test_ledger_bar_of_nothing_and_of_everything():
    empty = Ledger(1.0, neighbours="add-remove")
    assert segments(plots.ledger_bar(empty)) == [(0, 1, "#e4e4e4")]
    for releases, cost in ((10, 0.1), (200, 0.005)):  # in floats ten times 0.1 is below 1; 200 are more than there are colours
        full = Ledger(1.0, neighbours="add-remove")
        for i in range(releases):
            full.spend(f"release {i}", cost)
        bars = segments(plots.ledger_bar(full))
        assert len(bars) == releases and "#e4e4e4" not in {bar[2] for bar in bars}
        np.testing.assert_allclose(bars[-1][0] + bars[-1][1], 1)


def test_ledger_bar_leaves_out_labels_that_do_not_fit():
    ledger = Ledger(1.0, neighbours="add-remove")
    for label, cost in (("regression coefficients", 0.2), ("median", 0.01), ("visits", 0.1)):
        ledger.spend(label, cost)
    texts = [text.get_text() for text in plots.ledger_bar(ledger).axes[0].texts]
    assert texts == ["regression\ncoefficients", "", "visits"]
