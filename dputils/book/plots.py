"""Figures of the book: one style, one way to show a figure, one explorer with sliders.

A figure is stored as a PNG whose bytes depend on the drawing alone, beside a sentence that says what it shows. An
explorer holds a live picture where a kernel runs and the same still picture everywhere else (a viewer, the site,
nbval, papermill).
"""
import io
import textwrap
from itertools import cycle

# Okabe and Ito's colours, told apart by readers with any of the usual colour deficiencies.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#666666")
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
DPI = 90
WIDTH = 6.6  # inches


def style():
    """Set matplotlib's defaults for the book: DejaVu Sans, quiet axes, no frame above and right, fixed resolution."""
    import matplotlib as mpl
    mpl.rcParams.update(mpl.rcParamsDefault)
    mpl.rcParams.update({
        "figure.dpi": DPI, "savefig.dpi": DPI, "figure.figsize": (WIDTH, 3.2), "figure.constrained_layout.use": True,
        "font.family": "DejaVu Sans", "font.size": 10, "axes.titlesize": 10.5, "axes.titlelocation": "left",
        "axes.labelsize": 10, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9, "legend.frameon": False,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd",
        "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.linewidth": 1.8, "lines.markersize": 5,
        "axes.prop_cycle": mpl.cycler(color=COLOURS), "svg.hashsalt": "dputils", "axes.formatter.use_mathtext": True,
    })


def figure(columns=1, rows=1, height=3.2, **options):
    """Return `(figure, axes)` of the book's width and `height` inches, made without pyplot so that nothing is shown
    twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    fig = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, **options)


def png(fig):
    """Return the figure as PNG bytes, the same for the same drawing under the same matplotlib; its layout is fixed
    from then on."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    fig.set_layout_engine("none")  # computed anew from where it ended, a layout would move by a pixel
    return buffer.getvalue()


def show(fig, alt):
    """Display a figure with `alt`, a sentence of at least 20 characters that says what to see in it.

    Raises
    ------
    ValueError
        If `alt` is missing or too short to be of use to a reader who cannot see the picture.
    """
    from IPython.display import display
    display(_bundle(png(fig), alt), raw=True)


def explore(draw, alt, **sliders):
    """Show `draw(**values) -> Figure` under sliders, and as a still picture at their starting values where no
    kernel runs.

    Parameters
    ----------
    draw : function
        Takes one keyword argument per slider and returns a matplotlib figure (`figure()` makes one). Called anew at
        each move; it should be quick and should draw its noise from a stream made inside, so that a value always
        gives the same picture.
    alt : str
        What to see in the still picture.
    **sliders
        `name=(label, low, high, step, start)`; whole numbers give an integer slider.

    Returns
    -------
    None
        Displays one output that holds the live view, the picture and its description together.
    """
    import ipywidgets as widgets
    from IPython.display import display
    _checked(alt)
    controls = {name: _slider(widgets, name, spec) for name, spec in sliders.items()}
    picture = png(draw(**{name: control.value for name, control in controls.items()}))
    size = {"width": f"{WIDTH * DPI:.0f}px", "max_width": "100%", "object_fit": "contain"}
    image = widgets.Image(value=picture, format="png", layout=size)

    def redraw(change):
        image.value = png(draw(**{name: control.value for name, control in controls.items()}))

    for control in controls.values():
        control.observe(redraw, names="value")
    box = widgets.VBox([*controls.values(), image])
    view = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    display({"application/vnd.jupyter.widget-view+json": view, **_bundle(picture, alt)}, raw=True)


def ledger_bar(ledger):
    """Return a figure of a ledger's budget: one bar in the ledger's unit, one segment per release, the rest in grey.

    Parameters
    ----------
    ledger : dputils.accounting.Ledger
        Any ledger; parts of a partition are drawn as the one cost they have together. A label that does not fit is
        left out.
    """
    fig, ax = figure(height=1.5)
    left, total = 0.0, float(ledger.budget[0])
    for (label, cost), colour in zip((row for row in ledger.costs() if row[1]), cycle(COLOURS)):
        ax.barh([0], [float(cost)], left=left, color=colour, edgecolor="white")
        ax.text(left + float(cost) / 2, 0, _fitted(label, 90 * float(cost) / total),
                ha="center", va="center", fontsize=8, color="black" if colour in (ORANGE, PURPLE, SKY) else "white")
        left += float(cost)
    if ledger.remaining[0] > 0:
        ax.barh([0], [total - left], left=left, color="#e4e4e4", edgecolor="white")
    unit = ledger.unit or "epsilon"
    ax.set(yticks=[], xlabel=f"privacy budget spent, {unit} ({ledger.neighbours} neighbours)", xlim=(0, total))
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    return fig


def _fitted(label, width):
    """The label in lines of at most `width` characters, at 8 points a 90th of the bar each; nothing if it does not
    fit."""
    lines = textwrap.wrap(label, max(1, int(width)), break_long_words=False)
    return "\n".join(lines) if len(lines) <= 5 and max(map(len, lines), default=0) <= width else ""


def _bundle(picture, alt):
    import base64
    return {"image/png": base64.b64encode(picture).decode("ascii"), "text/plain": f"[figure: {_checked(alt)}]"}


def _checked(alt):
    if not isinstance(alt, str) or len(alt.strip()) < 20:
        raise ValueError(f"alt must be a sentence of at least 20 characters, got {alt!r}")
    return alt


def _slider(widgets, name, spec):
    if len(spec) != 5:
        raise ValueError(f"{name} must be (label, low, high, step, start), got {spec!r}")
    label, low, high, step, start = spec
    if not (low <= start <= high and low < high and step > 0):
        raise ValueError(f"{name} must have low < high, step above 0 and start between low and high, got {spec!r}")
    kind = widgets.IntSlider if all(isinstance(v, int) for v in (low, high, step, start)) else widgets.FloatSlider
    return kind(value=start, min=low, max=high, step=step, description=label, continuous_update=False,
                style={"description_width": "initial"}, layout={"width": "32em"})
