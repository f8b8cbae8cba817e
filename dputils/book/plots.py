"""Figures of the book: one style, one way to show a figure, one explorer with sliders.

A figure is stored as a PNG whose bytes depend on the drawing alone, beside a sentence that says
what it shows. An explorer holds a live picture where a kernel runs and the same still picture
everywhere else (a viewer, the site, nbval, papermill).
"""

import asyncio
import io
import math
import textwrap
from itertools import cycle, product

import numpy as np

from dputils import checks

# Okabe and Ito's colours, told apart by readers with any of the usual colour deficiencies.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
    "#666666",
)
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
DPI = 90
WIDTH = 6.6  # inches
REST = 0.3  # seconds without a move after which an explorer's picture is laid out anew
FRAMES = 48  # pictures of an explorer that the site can hold
NORMAL_99 = 2.5758293035489004  # 99 % of a normal law lie within so many standard deviations
SIDES = {  # of a label: its offset in points, and where it is anchored
    "above": ((0, 5), "center", "bottom"),
    "below": ((0, -5), "center", "top"),
    "left": ((-6, 0), "right", "center"),
    "right": ((6, 0), "left", "center"),
    "above left": ((-3, 4), "right", "bottom"),
    "above right": ((3, 4), "left", "bottom"),
    "below left": ((-3, -4), "right", "top"),
    "below right": ((3, -4), "left", "top"),
}


def style():
    """Set matplotlib's defaults for the book: one font, quiet axes, fixed resolution."""
    import matplotlib as mpl

    mpl.rcParams.update(mpl.rcParamsDefault)
    mpl.rcParams.update(
        {
            "figure.dpi": DPI,
            "savefig.dpi": DPI,
            "figure.figsize": (WIDTH, 3.2),
            "figure.constrained_layout.use": True,
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "axes.titlesize": 10.5,
            "axes.titlelocation": "left",
            "axes.labelsize": 10,
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
            "legend.fontsize": 9,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
            "axes.prop_cycle": mpl.cycler(color=COLOURS),
            "svg.hashsalt": "dputils",
            "axes.formatter.use_mathtext": True,
        }
    )


def figure(columns=1, rows=1, height=3.2, **options):
    """Return `(figure, axes)` of the book's width and `height` inches.

    They are made without pyplot, so that nothing is shown twice.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, **options)


def png(fig, **options):
    """Return the figure as PNG bytes, the same for the same drawing under the same matplotlib.

    Its layout is fixed from then on. Options are the encoder's (Pillow's).
    """
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None}, pil_kwargs=options)
    # computed anew from where it ended, a layout would move by a pixel
    fig.set_layout_engine("none")
    return buffer.getvalue()


def show(fig, alt):
    """Display a figure with `alt`, a sentence of 20 characters or more that says what to see.

    Raises
    ------
    ValueError
        If `alt` is missing or too short to be of use to a reader who cannot see the picture.
    """
    from IPython.display import display

    display(_bundle(png(fig), alt), raw=True)


def errorbars(
    ax, x, samples=None, *, mean=None, sd=None, n=None, transform=None, colour=ORANGE, **options
):
    """Draw means as points with their 99 % intervals, mean +- 2.576 sd/sqrt(n).

    Each interval holds by itself.

    Give either the samples or their mean, standard deviation and number (for a share p of n:
    `mean=p`, `sd=np.sqrt(p * (1 - p))`). On a logarithmic axis, set before the call, no interval
    reaches below a tenth of its mean, so that all of them can be drawn.

    Parameters
    ----------
    ax : matplotlib axes
    x : array of shape (k,), or number
    samples : array of shape (k, n), optional
        A row of independent measurements for each x.
    mean, sd : arrays of shape (k,), optional
    n : int or array of shape (k,), optional
    transform : function, optional
        Applied to mean and ends, for example `np.sqrt` where squared errors were measured.
    colour : str
    **options
        Handed on to `ax.errorbar`.

    Returns
    -------
    (low, high) : arrays of shape (k,)
        The ends that are drawn.

    Raises
    ------
    ValueError
        If there are neither samples nor mean, sd and n, or both.
    """
    if (
        (samples is None) == (mean is None)
        or (mean is None) != (sd is None)
        or (mean is None) != (n is None)
    ):
        raise ValueError("samples or else mean, sd and n must be given")
    if samples is not None:
        samples = np.atleast_2d(np.asarray(samples, dtype=float))
        mean, n = samples.mean(axis=1), samples.shape[1]
        sd = samples.std(axis=1, ddof=1)
    x, mean = np.atleast_1d(x), np.atleast_1d(np.asarray(mean, dtype=float))
    low, high = _interval(
        mean, NORMAL_99 * np.asarray(sd) / np.sqrt(n), ax.get_yscale() == "log", transform
    )
    centre = mean if transform is None else transform(mean)
    ax.errorbar(
        x,
        centre,
        [centre - low, high - centre],
        **{"fmt": "o", "color": colour, "capsize": 3, **options},
    )
    return low, high


def label(ax, at, text, x=None, *, side="above", colour=None, **options):
    """Write a text beside a line or a point, instead of a legend.

    Parameters
    ----------
    ax : matplotlib axes
        Its scales (linear, logarithmic) are set before.
    at : matplotlib line, or (x, y)
        A line gives its colour to the label.
    text : str
    x : number, optional
        Where on the line; required for a line.
    side : str
        Where the text stands from there (`SIDES`): "above", "below", "left", "right", "above
        left", ...
    colour : str, optional
    **options
        Handed on to `ax.annotate`.

    Raises
    ------
    ValueError
        If x is missing or lies outside the line, or there is no such side.
    """
    checks.one_of("side", side, tuple(SIDES))
    is_line = hasattr(at, "get_xdata")
    place = _on_line(ax, at, x) if is_line else at
    colour = colour or (at.get_color() if is_line else GREY)
    offset, horizontal, vertical = SIDES[side]
    ax.annotate(
        text,
        place,
        offset,
        textcoords="offset points",
        ha=horizontal,
        va=vertical,
        color=colour,
        **options,
    )


def explore(draw, alt, *, frames=None, **sliders):
    """Show `draw(**values) -> Figure` under sliders, and as a still picture without a kernel.

    The still picture is drawn at the starting values.

    Parameters
    ----------
    draw : function
        Takes one keyword argument per slider and returns a matplotlib figure (`figure()` makes
        one). Called anew while a slider is dragged; it should be quick and should draw its noise
        from a stream made inside, so that a value always gives the same picture. While the slider
        moves, the axes stay where they were; a moment later they are laid out anew.
    alt : str
        What to see in the still picture.
    frames : dict, optional
        Slider name -> the values that a page without a kernel offers, its start among them; a
        slider that is not named stays at its start. At most 48 pictures in all.
    **sliders
        `name=(label, low, high, step, start)`; whole numbers give an integer slider.

    Returns
    -------
    None
        Displays one output that holds the live view, the picture and its description together.

    Raises
    ------
    ValueError
        If `alt` says too little, a slider makes no sense, or the frames are not places of the
        sliders.
    """
    import ipywidgets as widgets
    from IPython.display import display

    _checked(alt)
    for name, spec in sliders.items():
        _check_slider(name, spec)
    if frames is not None:
        frame_values(frames, sliders)
    controls = {name: _slider(widgets, spec) for name, spec in sliders.items()}
    live = _Live(draw, controls)
    picture = live.settled()
    size = {"width": f"{WIDTH * DPI:.0f}px", "max_width": "100%", "object_fit": "contain"}
    image = live.image = widgets.Image(value=picture, format="png", layout=size)
    for control in controls.values():
        control.observe(live.move, names="value")
    box = widgets.VBox([*controls.values(), image])
    view = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    display({"application/vnd.jupyter.widget-view+json": view, **_bundle(picture, alt)}, raw=True)


def frame_values(frames, sliders):
    """Return what frames stand for: the arguments of each picture, the last slider fastest.

    Parameters
    ----------
    frames, sliders : dict
        As `explore` takes them.

    Raises
    ------
    ValueError
        If a name is no slider, a value is given twice or is no place of its slider, a start is
        left out, or there are more than 48 pictures.
    """
    if not isinstance(frames, dict) or not frames:
        raise ValueError(f"frames must be a dict, slider -> values, got {frames!r}")
    if unknown := [name for name in frames if name not in sliders]:
        raise ValueError(f"frames must name sliders, {', '.join(sliders)}, got {unknown[0]!r}")
    for name, values in frames.items():
        _check_frames(name, list(values), sliders[name])
    places = {name: frames.get(name, [spec[4]]) for name, spec in sliders.items()}
    count = math.prod(len(values) for values in places.values())
    if count > FRAMES:
        raise ValueError(f"frames must be at most {FRAMES} pictures in all, got {count}")
    return [dict(zip(places, values)) for values in product(*places.values())]


def ledger_bar(ledger):
    """Return a figure of a ledger's budget: one bar, a segment per release, the rest in grey.

    Parameters
    ----------
    ledger : dputils.accounting.Ledger
        Any ledger; parts of a partition are drawn as the one cost they have together. A label
        that does not fit is left out.
    """
    fig, ax = figure(height=1.5)
    left, total = 0.0, float(ledger.budget[0])
    for (label, cost), colour in zip((row for row in ledger.costs() if row[1]), cycle(COLOURS)):
        ax.barh([0], [float(cost)], left=left, color=colour, edgecolor="white")
        ax.text(
            left + float(cost) / 2,
            0,
            _fitted(label, 90 * float(cost) / total),
            ha="center",
            va="center",
            fontsize=8,
            color="black" if colour in (ORANGE, PURPLE, SKY) else "white",
        )
        left += float(cost)
    if ledger.remaining[0] > 0:
        ax.barh([0], [total - left], left=left, color="#e4e4e4", edgecolor="white")
    unit = ledger.measure
    ax.set(
        yticks=[],
        xlabel=f"privacy budget spent, {unit} ({ledger.neighbours} neighbours)",
        xlim=(0, total),
    )
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    return fig


def _fitted(label, width):
    """Return the label in lines of at most `width` characters, nothing if it does not fit.

    At 8 points a character is a 90th of the bar.
    """
    lines = textwrap.wrap(label, max(1, int(width)), break_long_words=False)
    return "\n".join(lines) if len(lines) <= 5 and max(map(len, lines), default=0) <= width else ""


class _Live:
    """The picture behind an explorer's sliders.

    It follows a drag in the layout of the last picture, and is laid out anew once the sliders rest:
    half of a picture's time goes into finding out where its axes stand.
    """

    def __init__(self, draw, controls):
        self.draw, self.controls = draw, controls
        self.canvas = self.image = self.later = None
        self.places = []

    def figure(self):
        fig = self.draw(**{name: control.value for name, control in self.controls.items()})
        # a canvas remembers the text it has set: the same bytes in two thirds of the time
        self.canvas = self.canvas or fig.canvas
        self.canvas.figure = fig
        fig.set_canvas(self.canvas)
        return fig

    def settled(self):
        """Return the picture of now in a layout of its own, as `png` gives it."""
        fig = self.figure()
        picture = png(fig)
        self.places = [ax.get_position() for ax in fig.axes]
        return picture

    def moving(self):
        """Return the picture of now in the layout of the last, where it has the same axes."""
        fig = self.figure()
        if len(fig.axes) == len(self.places):
            fig.set_layout_engine("none")
            for ax, place in zip(fig.axes, self.places):
                ax.set_position(place)
        return png(fig, compress_level=1)

    def move(self, change):
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel that could come back to it
            self.rest()
            return
        if self.later is not None:
            self.later.cancel()
        self.image.value = self.moving()
        self.later = loop.call_later(REST, self.rest)

    def rest(self):
        self.image.value = self.settled()


def _bundle(picture, alt):
    import base64

    return {
        "image/png": base64.b64encode(picture).decode("ascii"),
        "text/plain": f"[figure: {_checked(alt)}]",
    }


def _checked(alt):
    if not isinstance(alt, str) or len(alt.strip()) < 20:
        raise ValueError(f"alt must be a sentence of at least 20 characters, got {alt!r}")
    return alt


def _interval(mean, half, positive, transform):
    """Return the ends mean -+ half, kept from zero where only positive numbers can be drawn."""
    low, high = mean - half, mean + half
    if transform is not None:
        low, high = transform(np.maximum(low, 0)), transform(high)
        mean = transform(mean)
    return np.maximum(low, 0.1 * mean) if positive else low, high


def _on_line(ax, line, x):
    """Return the point of a line at x as drawn: straight between its points on the axes' scales."""
    xs, ys = (np.asarray(values, dtype=float) for values in line.get_data())
    if x is None or not xs.min() <= x <= xs.max():
        raise ValueError(f"x must be on the line, from {xs.min():g} to {xs.max():g}, got {x!r}")
    across, up = ax.xaxis.get_transform(), ax.yaxis.get_transform()
    order = np.argsort(xs, kind="stable")
    height = np.interp(across.transform(x), across.transform(xs[order]), up.transform(ys[order]))
    return x, float(up.inverted().transform(height))


def _check_slider(name, spec):
    if len(spec) != 5:
        raise ValueError(f"{name} must be (label, low, high, step, start), got {spec!r}")
    _, low, high, step, start = spec
    if not (low <= start <= high and low < high and step > 0):
        raise ValueError(
            f"{name} must have low < high, step above 0 and start between low and high, "
            f"got {spec!r}"
        )


def _check_frames(name, values, spec):
    _, low, high, step, start = spec
    for value in values:
        places = (value - low) / step
        if not low <= value <= high or abs(places - round(places)) > 1e-6:
            raise ValueError(
                f"frames of {name} must be places of its slider, {spec!r}, got {value!r}"
            )
    if start not in values:
        raise ValueError(f"frames of {name} must hold its start, {start!r}, got {values!r}")
    if len(set(values)) < len(values):
        raise ValueError(f"frames of {name} must not repeat a value, got {values!r}")


def _slider(widgets, spec):
    label, low, high, step, start = spec
    kind = (
        widgets.IntSlider
        if all(isinstance(v, int) for v in (low, high, step, start))
        else widgets.FloatSlider
    )
    return kind(
        value=start,
        min=low,
        max=high,
        step=step,
        description=label,
        continuous_update=True,
        style={"description_width": "initial"},
        layout={"width": "32em"},
    )
