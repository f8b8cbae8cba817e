"""The gallery of sweeps, a page of the site: what several hundred reruns of a chapter show in one
figure, with the command that made the table under it.

Each `Plate` (they stand in `gallery.toml`) names a chapter and a grid. Its command writes
`data/results/NN-name.csv` and the sidecar beside it; when the site is built, the figures are drawn
from these tables alone. `python -m tools.gallery` prints the commands.
"""

import math
import shlex
import sys
import textwrap
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from dputils import geometric, randomized_response
from dputils.book import data, plots

PAGE = "gallery"
FOLDER = Path("data", "results")
GROWTH = FOLDER / "sweep_growth.csv"
COST = """## What a point costs

![The time per point falls a little from ten points to a hundred, and then stays where it is.]({})

A point needs the time of its chapter, and what the sweep adds: handing it out, taking its row,
writing it down. This was measured with runs that take no time, on a machine of two cores; only the
shape of the curve carries over. From a hundred points to ten thousand it hardly changes.

```
make bench ARGS=sweep
```
"""
OPENING = """# Gallery of sweeps

A chapter shows its experiment at one setting of its parameters. Here it is run at many: each figure
is made from one table, each row of which is a rerun of the whole chapter, audits included. Under it
stands the command, which makes the table again: type it in a clone of the book. Bars are 99 %
intervals over the seeds.
"""


@dataclass(frozen=True)
class Plate:
    """A figure of the gallery: what was swept, how it is drawn, and what it shows."""

    title: str
    chapter: str  # the notebook's name
    grid: tuple  # what stands behind -p
    alt: str
    text: str
    draw: Callable  # table -> figure

    @property
    def number(self):
        """The chapter's number."""
        return int(self.chapter[:2])

    @property
    def file(self):
        """Where the table stands, from the root of the book."""
        return FOLDER / f"{self.chapter}.csv"

    @property
    def command(self):
        """The command that makes the table, as it is typed in a clone."""
        pairs = [word for pair in self.grid for word in ("-p", pair)]
        words = [".venv/bin/python", "-m", "dputils.sweep", str(self.number), *pairs]
        return shlex.join([*words, "-o", FOLDER.as_posix()])


def over(table, x, value):
    """Return the values of x and, for each, the runs that have it: arrays (k,) and (k, seeds)."""
    groups = {at: group[value].to_numpy(float) for at, group in table.groupby(x)}
    return np.array(list(groups)), np.array(list(groups.values()))


def logarithmic(ax, values):
    """Make the x axis logarithmic, with ticks at these values."""
    ax.set_xscale("log")
    ax.set_xticks(values, [f"{value:,g}" for value in values])
    ax.minorticks_off()


def members_found(table):
    """Draw the share of members found against the averages published, for each size of study."""
    fig, ax = plots.figure(height=3.4)
    fine = np.geomspace(table.averages.min(), table.averages.max(), 100)
    for (members, rows), colour in zip(table.groupby("members"), plots.COLOURS):
        theory = ndtr(np.sqrt(fine / members) - ndtri(0.95))  # (1.3)
        line = ax.plot(fine, theory, color=colour)[0]
        at, found = over(rows, "averages", "members_found")
        plots.errorbars(ax, at, found, colour=colour)
        plots.label(ax, line, f"{members} members", fine[10], side="above left")
    logarithmic(ax, at)
    ax.set(xlim=(170, None), ylim=(0, 1.05), xlabel="averages published")
    ax.set_ylabel("share of the members found")
    return fig


def shares(table):
    """Draw the errors of one share, noise on the rows against noise on the answer."""
    voters = data.load("anes96").vote.to_numpy()
    n, truth = len(voters), voters.mean()
    fig, ax = plots.figure(height=3.4)
    ax.set(xlabel="epsilon", ylabel="error of the share (RMS)", yscale="log")
    budgets = np.sort(table.epsilon.unique())
    logarithmic(ax, budgets)
    e = np.geomspace(budgets[0], budgets[-1], 200)
    theory = {
        "share_by_rows": [math.sqrt(randomized_response.variance(truth, n, 2, at)) for at in e],
        "share_by_answer": [math.sqrt(geometric.variance(1 / at)) / n for at in e],
    }
    for (name, curve), colour in zip(theory.items(), (plots.ORANGE, plots.BLUE)):
        line = ax.plot(e, curve, color=colour)[0]
        at, found = over(table, "epsilon", name)
        plots.errorbars(ax, at, (found - truth) ** 2, transform=np.sqrt, colour=colour)
        words = "noise on the " + name.removeprefix("share_by_")
        plots.label(ax, line, words, e[120], side="above right")
    return fig


def caps(table):
    """Draw the published mean of visits against epsilon, for each cap."""
    rand = data.load("randhie")
    exact = rand.visits.sum() / rand.person.nunique()
    fig, ax = plots.figure(height=3.4)
    budgets = np.sort(table.epsilon.unique())
    logarithmic(ax, budgets)
    ax.set(xlabel="epsilon", ylabel="published mean of visits")
    ax.axhline(exact, color=plots.GREY, ls=":")
    plots.label(ax, (budgets[0], exact), f"exact {exact:.2f}", side="above right")
    for (cap, rows), colour in zip(table.groupby("cap"), plots.COLOURS):
        at, found = over(rows, "epsilon", "mean_visits")
        plots.errorbars(ax, at, found, colour=colour, fmt="-o")
        plots.label(ax, (at[-1], found[-1].mean()), f"cap {cap}", side="right", colour=colour)
    ax.set_xlim(right=1.35 * budgets[-1])
    return fig


def angles(table):
    """Draw how far noise and sampling turn the first component, for each bound on a row."""
    fig, ax = plots.figure(height=3.4)
    budgets = np.sort(table.epsilon.unique())
    logarithmic(ax, budgets)
    ax.set(yscale="log", xlabel="epsilon (delta one in a million)", ylabel="sine of the angle")
    for (norm, rows), colour in zip(table.groupby("norm"), plots.COLOURS):
        for name, style in (("sine_privacy", "-"), ("sine_sampling", ":")):
            at, found = over(rows, "epsilon", name)
            ax.plot(at, found.mean(axis=1), style, color=colour)
        at, found = over(rows, "epsilon", "sine_privacy")
        label = f"rows up to length {norm:g}"
        side = "above right" if norm > 1 else "below left"
        plots.label(ax, (at[3], found[3].mean()), label, side=side, colour=colour)
    return fig


def errors_of_many(table):
    """Draw the standard error of a count against the number of counts, for each budget."""
    fig, ax = plots.figure(height=3.4)
    at = np.sort(table.releases.unique())
    logarithmic(ax, at)
    ax.set(yscale="log", xlabel="counts that share the budget", ylabel="error of each (persons)")
    for (epsilon, rows), colour in zip(table.groupby("epsilon"), plots.COLOURS):
        for name, style in (("share_by_sum", ":"), ("share_by_exact", "-")):
            at, each = over(rows, "releases", name)
            error = [math.sqrt(geometric.variance(1 / one)) for one in each[:, 0]]
            ax.plot(at, error, style, color=colour, marker="o", markersize=3)
        label = f"epsilon {epsilon:g} in all"
        plots.label(ax, (at[2], error[2]), label, side="above left", colour=colour)
    ax.set_xlim(left=1.2)
    return fig


def growth(table):
    """Draw what a sweep adds to each point against the number of its points."""
    fig, ax = plots.figure(height=2.6)
    logarithmic(ax, table.points)
    ax.plot(table.points, table.milliseconds, "o-", color=plots.BLUE)
    ax.set(ylim=(0, None), xlabel="points of the grid", ylabel="milliseconds a point")
    return fig


def plates():
    """Return the plates of the gallery in order, as `gallery.toml` lists them."""
    drawn = {f.__name__: f for f in (members_found, shares, caps, angles, errors_of_many)}
    text = Path(__file__).with_name("gallery.toml").read_text(encoding="utf-8")
    return [Plate(**entry, draw=drawn[name]) for name, entry in tomllib.loads(text).items()]


def page(root, source):
    """Lay the gallery into the folder that Sphinx reads; return its name, None without tables."""
    found = [plate for plate in plates() if (root / plate.file).exists()]
    if not found:
        return None
    plots.style()
    (source / PAGE).mkdir(parents=True, exist_ok=True)
    parts = [OPENING]
    for plate in found:
        table = pd.read_csv(root / plate.file)
        picture = f"{PAGE}/{plate.chapter}.png"
        (source / picture).write_bytes(plots.png(plate.draw(table)))
        parts.append(
            f"## {plate.title}\n\n![{_line(plate.alt)}]({picture})\n\n{plate.text.strip()}\n\n"
            f"```\n{on_lines(plate.command)}\n```\n\n{len(table):,} reruns of [the chapter]"
            f"(notebooks/{plate.chapter}.ipynb) stand in `{plate.file.as_posix()}`; the file "
            "beside it, `.json`, says what they were made from.\n"
        )
    if (root / GROWTH).exists():
        picture = f"{PAGE}/growth.png"
        (source / picture).write_bytes(plots.png(growth(pd.read_csv(root / GROWTH))))
        parts.append(COST.format(picture))
    (source / f"{PAGE}.md").write_text("\n".join(parts), encoding="utf-8")
    return PAGE


def on_lines(command):
    """Return a command on lines that a page shows whole, as a shell reads them."""
    return " \\\n    ".join(
        textwrap.wrap(command, 72, break_long_words=False, break_on_hyphens=False)
    )


def _line(text):
    return " ".join(text.split())


def main():
    """Print the commands that make the tables."""
    print(*(plate.command for plate in plates()), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
