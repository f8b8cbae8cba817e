"""Figures: the same bytes each time, words with every picture, sliders, labels, a ledger's bar."""

import asyncio
import base64
import functools
import io
import math
import os
import subprocess
import sys

import ipywidgets
import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image
from scipy import stats

from dputils.accounting import Ledger
from dputils.accounting.costs import ZCDP
from dputils.book import plots

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
    run = functools.partial(
        subprocess.run, [sys.executable, "-c", DRAW], capture_output=True, text=True, check=True
    )
    digests = {run(env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("0", "7")}
    assert len(digests) == 1 and len(digests.pop()) == 65


def test_bytes_change_with_the_drawing_and_carry_no_version():
    assert plots.png(line(1.0)) == plots.png(line(1.0)) != plots.png(line(1.1))
    fig = line()
    picture = plots.png(fig)
    assert plots.png(fig) == picture  # the layout is computed once
    assert (
        picture.startswith(b"\x89PNG")
        and b"Software" not in picture
        and b"atplotlib" not in picture
    )
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (round(plots.WIDTH * plots.DPI), round(1.5 * plots.DPI))


def test_style_undoes_whatever_was_set_before():
    import matplotlib as mpl

    plain = plots.png(line())
    mpl.rcParams.update(
        {"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "pink", "xtick.direction": "in"}
    )
    assert plots.png(line()) == plain
    # figures are not shown twice
    assert "matplotlib.pyplot" not in sys.modules or not mpl.pyplot.get_fignums()


def test_colours_are_distinct_also_in_grey():
    def lightness(colour):
        red, green, blue = (int(to_hex(colour)[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2

    assert len(set(plots.COLOURS)) == len(plots.COLOURS)
    assert abs(lightness(plots.BLUE) - lightness(plots.ORANGE)) > 0.2  # the pair used most


def test_show_displays_picture_and_words(shown):
    fig = line()
    plots.show(fig, ALT)
    assert list(shown[0]) == ["image/png", "text/plain"]
    assert base64.b64decode(shown[0]["image/png"]) == plots.png(fig)
    assert shown[0]["text/plain"] == f"[figure: {ALT}]"


@pytest.mark.parametrize(
    "alt", [None, "", "A short text.", " " * 40, "x" * 19, 12345678901234567890123]
)
def test_a_picture_without_words_is_refused(alt, shown):
    for call in (
        lambda: plots.show(line(), alt),
        lambda: plots.explore(line, alt, slope=("slope", 0.0, 2.0, 0.5, 1.0)),
    ):
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
    assert (
        len(shown) == 1
        and set(shown[0]) == {VIEW, "image/png", "text/plain"}
        and calls == [(1.0, 2)]
    )
    assert base64.b64decode(shown[0]["image/png"]) == plots.png(line(1.0, 2))
    box = ipywidgets.widgets.widget._instances[shown[0][VIEW]["model_id"]]
    slope, times, image = box.children
    assert isinstance(slope, ipywidgets.FloatSlider) and isinstance(times, ipywidgets.IntSlider)
    assert (slope.description, slope.min, slope.max, slope.step, slope.value) == (
        "slope a",
        0,
        2,
        0.5,
        1,
    )
    assert bytes(image.value) == plots.png(line(1.0, 2))
    assert slope.continuous_update and times.continuous_update  # the picture follows a drag
    slope.value = 1.5
    assert calls[-1] == (1.5, 2) and bytes(image.value) == plots.png(line(1.5, 2))
    times.value = 4
    assert calls == [(1.0, 2), (1.5, 2), (1.5, 4)] and bytes(image.value) == plots.png(line(1.5, 4))
    # the still picture stays
    assert base64.b64decode(shown[0]["image/png"]) == plots.png(line(1.0, 2))


def test_a_drag_keeps_the_axes_where_they_were_and_is_laid_out_anew_at_rest(shown, monkeypatch):
    """In a kernel, that is under an event loop."""
    monkeypatch.setattr(plots, "REST", 0.05)
    drawn, places = [], []

    def draw(slope):
        fig = line(slope)
        fig.axes[0].set_ylabel("m\n" * round(slope))  # a label of another width moves the axes
        drawn.append(fig)
        return fig

    async def drag():
        plots.explore(draw, ALT, slope=("slope a", 0.0, 5.0, 1.0, 1.0))
        slope, image = ipywidgets.widgets.widget._instances[shown[0][VIEW]["model_id"]].children
        for value in (2.0, 3.0, 4.0):
            slope.value = value
            places.append(drawn[-1].axes[0].get_position().bounds)
        moving = bytes(image.value)
        await asyncio.sleep(0.5)
        return moving, bytes(image.value)

    moving, settled = asyncio.run(drag())
    assert places == [drawn[0].axes[0].get_position().bounds] * 3
    assert settled == plots.png(draw(4.0)) and len(drawn) == 6  # start, three moves, rest, and this
    assert moving != settled and drawn[4].axes[0].get_position().bounds != places[0]
    with Image.open(io.BytesIO(moving)) as one, Image.open(io.BytesIO(settled)) as other:
        assert one.size == other.size


def test_a_drag_that_changes_the_number_of_axes_is_laid_out_at_once(shown):
    drawn = []

    def draw(columns):
        fig, _ = plots.figure(columns=columns)
        drawn.append(fig)
        return fig

    async def drag():
        plots.explore(draw, ALT, columns=("columns", 1, 3, 1, 1))
        columns, image = ipywidgets.widgets.widget._instances[shown[0][VIEW]["model_id"]].children
        columns.value = 3
        return bytes(image.value)

    moving = asyncio.run(drag())
    fig, _ = plots.figure(columns=3)
    plots.png(fig)
    assert [ax.get_position().bounds for ax in drawn[1].axes] == [
        ax.get_position().bounds for ax in fig.axes
    ]
    with Image.open(io.BytesIO(moving)) as one, Image.open(io.BytesIO(plots.png(fig))) as other:
        assert np.array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize(
    "spec,problem",
    [
        (("slope", 0, 1, 1), "slope must be (label, low, high, step, start), got "),
        (
            ("slope", 1, 0, 1, 1),
            "slope must have low < high, step above 0 and start between low and high, got ",
        ),
        (
            ("slope", 0, 1, 0.1, 1.5),
            "slope must have low < high, step above 0 and start between low and high, got ",
        ),
        (
            ("slope", 0, 1, 0, 1),
            "slope must have low < high, step above 0 and start between low and high, got ",
        ),
        (
            ("slope", 0, 1, 0.1, math.nan),
            "slope must have low < high, step above 0 and start between low and high, got ",
        ),
    ],
)
def test_a_slider_that_makes_no_sense_is_refused(spec, problem, shown):
    with pytest.raises(ValueError) as caught:
        plots.explore(line, ALT, slope=spec)
    assert str(caught.value) == problem + repr(spec) and shown == []


# --- frames

SLIDERS = {"slope": ("slope a", 0.0, 2.0, 0.1, 1.0), "times": ("how often", 1, 5, 1, 2)}


PLACES = f"frames of slope must be places of its slider, {SLIDERS['slope']}, got "


def test_an_explorer_takes_frames_and_shows_the_same(shown):
    plots.explore(line, ALT, **SLIDERS)
    plots.explore(line, ALT, frames={"slope": [0.3, 1.0, 2.0], "times": range(1, 6)}, **SLIDERS)
    assert shown[0]["image/png"] == shown[1]["image/png"] and set(shown[1]) == set(shown[0])


def test_frames_stand_for_all_pictures_in_order():
    found = plots.frame_values({"slope": [0.3, 1.0]}, SLIDERS)
    assert found == [{"slope": 0.3, "times": 2}, {"slope": 1.0, "times": 2}]
    found = plots.frame_values({"times": [2, 3], "slope": [0.3, 1.0]}, SLIDERS)
    assert [tuple(one.values()) for one in found] == [(0.3, 2), (0.3, 3), (1.0, 2), (1.0, 3)]
    wide = {**SLIDERS, "n": ("persons", 1, 100, 1, 1)}
    assert len(plots.frame_values({"n": range(1, 49)}, wide)) == plots.FRAMES == 48


@pytest.mark.parametrize(
    "frames, problem",
    [
        ({}, "frames must be a dict, slider -> values, got {}"),
        ([1.0], "frames must be a dict, slider -> values, got [1.0]"),
        ({"slop": [1.0]}, "frames must name sliders, slope, times, got 'slop'"),
        ({"slope": [0.5, 2.0]}, "frames of slope must hold its start, 1.0, got [0.5, 2.0]"),
        (
            {"slope": [1.0, 2.5]},
            PLACES + "2.5",
        ),
        (
            {"slope": [1.0, 0.55]},
            PLACES + "0.55",
        ),
        ({"times": [2, 2]}, "frames of times must not repeat a value, got [2, 2]"),
        ({"times": []}, "frames of times must hold its start, 2, got []"),
        (
            {"slope": [k / 10 for k in range(10, 20)], "times": [1, 2, 3, 4, 5]},
            "frames must be at most 48 pictures in all, got 50",
        ),
    ],
)
def test_frames_that_make_no_sense_are_refused(frames, problem, shown):
    with pytest.raises(ValueError) as caught:
        plots.explore(line, ALT, frames=frames, **SLIDERS)
    assert str(caught.value) == problem and shown == []


# --- points and labels


def drawn_bars(ax):
    """Middle, lower and upper end of each error bar."""
    points, _, (bars,) = ax.containers[0].lines
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    return np.asarray(points.get_ydata(), dtype=float), ends[:, 0], ends[:, 1]


def test_errorbars_of_samples_are_99_percent_intervals():
    fig, ax = plots.figure()
    samples = np.random.default_rng(3).normal([[5], [9]], [[1], [2]], (2, 400))
    low, high = plots.errorbars(ax, [10, 20], samples)
    half = stats.norm.ppf(0.995) * samples.std(axis=1, ddof=1) / 20
    np.testing.assert_allclose(
        [low, high], [samples.mean(axis=1) - half, samples.mean(axis=1) + half]
    )
    np.testing.assert_allclose(drawn_bars(ax), [samples.mean(axis=1), low, high])


def test_errorbars_cover_what_they_state():
    # 4,000 intervals for a mean of 0, each missed with probability about 1 %: the count of misses
    # has mean 40 (a little more, as the deviation is estimated from 200) and deviation 6.3;
    # beyond 40 +- 45 with probability below 1e-9.
    _, ax = plots.figure()
    samples = np.random.default_rng(1).normal(size=(4000, 200))
    low, high = plots.errorbars(ax, np.arange(4000), samples)
    assert 40 - 35 < ((low > 0) | (high < 0)).sum() < 40 + 45


def test_errorbars_of_shares_stay_above_zero_on_a_logarithmic_axis():
    share = np.array([0.5, 0.001])
    deviation = np.sqrt(share * (1 - share))
    for scale, lowest in (("linear", 0.001 - 2.5758293 * deviation[1] / 10), ("log", 0.0001)):
        _, ax = plots.figure()
        ax.set_yscale(scale)
        low, high = plots.errorbars(ax, [1, 2], mean=share, sd=deviation, n=100)
        np.testing.assert_allclose(low[1], lowest, rtol=1e-7)
        np.testing.assert_allclose(high, share + 2.5758293 * deviation / 10, rtol=1e-7)


def test_errorbars_of_squared_errors_are_drawn_as_roots():
    _, ax = plots.figure()
    low, high = plots.errorbars(ax, [1, 2], mean=[9, 0.01], sd=[5, 5], n=100, transform=np.sqrt)
    half = 2.5758293 * 0.5
    np.testing.assert_allclose(low, [np.sqrt(9 - half), 0])
    np.testing.assert_allclose(high, [np.sqrt(9 + half), np.sqrt(0.01 + half)])
    np.testing.assert_allclose(drawn_bars(ax)[0], [3, 0.1])


def test_one_point_has_one_bar_with_the_options_given():
    _, ax = plots.figure()
    low, high = plots.errorbars(ax, 3, [1.0, 2.0, 3.0], colour=plots.RED, label="measured", fmt="s")
    assert low.shape == high.shape == (1,) and ax.get_legend_handles_labels()[1] == ["measured"]
    assert (
        ax.containers[0].lines[0].get_color() == plots.RED
        and ax.containers[0].lines[0].get_marker() == "s"
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"samples": [1.0, 2.0], "mean": 1.0, "sd": 1.0, "n": 2},
        {"mean": 1.0},
        {"mean": 1.0, "sd": 1.0},
        {"mean": 1.0, "n": 3},
        {"samples": [1.0], "n": 1},
        {"samples": [1.0], "sd": 1},
    ],
)
def test_errorbars_need_samples_or_their_summary(given):
    _, ax = plots.figure()
    with pytest.raises(ValueError, match="samples or else mean, sd and n must be given"):
        plots.errorbars(ax, 1, **given)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_label_stands_on_its_line_in_its_colour(scale):
    _, ax = plots.figure()
    ax.set(xscale=scale, yscale=scale)
    (drawn,) = ax.plot([100, 1], [10_000, 1], color=plots.GREEN)
    plots.label(ax, drawn, "grows", 10, side="above left")
    (text,) = ax.texts
    assert text.xy == (10, pytest.approx(100 if scale == "log" else 1 + 9 * 9999 / 99))
    assert (text.get_text(), text.get_color()) == ("grows", plots.GREEN)
    assert (text.get_ha(), text.get_va()) == ("right", "bottom")


def test_a_label_at_a_point_takes_any_colour():
    _, ax = plots.figure()
    plots.label(ax, (1, 2), "here")
    plots.label(ax, (1, 2), "there", side="below", colour=plots.RED, fontsize=8)
    assert [text.get_color() for text in ax.texts] == [plots.GREY, plots.RED]
    assert ax.texts[1].get_fontsize() == 8 and ax.texts[1].get_va() == "top"


@pytest.mark.parametrize(
    "x, side, problem",
    [
        (None, "above", "x must be on the line, from 1 to 100, got None"),
        (101, "above", "x must be on the line, from 1 to 100, got 101"),
        (10, "over", "side must be one of 'above'"),
    ],
)
def test_a_label_beside_its_line_is_refused(x, side, problem):
    _, ax = plots.figure()
    (drawn,) = ax.plot([1, 100], [1, 2])
    with pytest.raises(ValueError, match=problem):
        plots.label(ax, drawn, "text", x, side=side)
    assert not ax.texts


# --- ledger_bar


def segments(fig):
    return [
        (round(bar.get_x(), 12), round(bar.get_width(), 12), to_hex(bar.get_facecolor()))
        for bar in fig.axes[0].patches
    ]


def test_ledger_bar_has_one_segment_per_release_and_the_rest_in_grey():
    ledger = Ledger(2.0, neighbours="replace-one", unit="row")
    ledger.spend("count", 0.5)
    parts = ledger.partition("sex", ["f", "m", "m"], str, ["f", "m"], examples="fm")
    parts["f"].spend("sum", 0.25)
    parts["m"].spend("sum", 0.25)
    ledger.free("mean")
    plots.style()
    fig = plots.ledger_bar(ledger)
    assert [s[:2] for s in segments(fig)] == [(0, 0.5), (0.5, 0.5), (1.0, 1.0)] and segments(fig)[
        -1
    ][2] == "#e4e4e4"
    assert [text.get_text() for text in fig.axes[0].texts] == ["count", "sex"]
    assert fig.axes[0].get_xlabel() == "privacy budget spent, epsilon (replace-one neighbours)"
    assert fig.axes[0].get_xlim() == (0, 2)
    assert plots.png(fig).startswith(b"\x89PNG")


def test_ledger_bar_of_a_zcdp_ledger_is_in_rho():
    ledger = Ledger(ZCDP(0.5), neighbours="add-remove", unit="row")
    ledger.spend("counts", ZCDP(0.2))
    fig = plots.ledger_bar(ledger)
    assert [s[:2] for s in segments(fig)] == [(0, 0.2), (0.2, 0.3)]
    assert fig.axes[0].get_xlabel() == "privacy budget spent, rho (add-remove neighbours)"


def test_ledger_bar_of_nothing_and_of_everything():
    empty = Ledger(1.0, neighbours="add-remove", unit="row")
    assert segments(plots.ledger_bar(empty)) == [(0, 1, "#e4e4e4")]
    for releases, cost in (
        (10, 0.1),
        (200, 0.005),
    ):  # in floats ten times 0.1 is below 1; 200 are more than there are colours
        full = Ledger(1.0, neighbours="add-remove", unit="row")
        for i in range(releases):
            full.spend(f"release {i}", cost)
        bars = segments(plots.ledger_bar(full))
        assert len(bars) == releases and "#e4e4e4" not in {bar[2] for bar in bars}
        np.testing.assert_allclose(bars[-1][0] + bars[-1][1], 1)


def test_ledger_bar_leaves_out_labels_that_do_not_fit():
    ledger = Ledger(1.0, neighbours="add-remove", unit="row")
    for label, cost in (("regression coefficients", 0.2), ("median", 0.01), ("visits", 0.1)):
        ledger.spend(label, cost)
    texts = [text.get_text() for text in plots.ledger_bar(ledger).axes[0].texts]
    assert texts == ["regression\ncoefficients", "", "visits"]
