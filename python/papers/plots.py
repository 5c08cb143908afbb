"""Plots of the pages: our points as lines, the paper's as open marks in the same colour.

A value of the paper without an x, such as a bound, is a horizontal line.
"""

from __future__ import annotations

import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter, StrMethodFormatter

from .answers import Answered
from .rows import Plot, Rows

COLOURS = ["#1f5fa8", "#c8501e", "#2e8540", "#7a3e9d", "#8a6d00", "#555555", "#b3246b"]
MARKS = "osD^vPX"
#: So many different x, at most, are the labels of the axis.
MOST_TICKS = 7
#: Equal points give equal files: names inside of the file are derived from this and the content.
STYLE: Any = {"svg.hashsalt": "papers", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False}

Points = list[tuple[float, float]]


def plots(paper: str, rows: Rows, answered: list[Answered]) -> dict[str, str]:
    """The plots of a paper's page by name, as SVG; those without a point of ours are left out."""
    made = {}
    for name, plot in rows.plots.items():
        curves = [one for one in answered if one.row.cells[0].plot == name]
        if any(each.ours is not None for one in curves for each in one.answers):
            made[name] = _drawn(plot, curves)
    return made


def _drawn(plot: Plot, curves: list[Answered]) -> str:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        axes = figure.add_subplot(title=plot.title, xlabel=plot.x, ylabel=plot.y)
        xs = set()
        for place, one in enumerate(curves):
            label, colour = one.row.cells[0].label, COLOURS[place % len(COLOURS)]
            mark = MARKS[place % len(MARKS)]
            ours, theirs = _points(one)
            if ours:
                axes.plot(*zip(*ours, strict=True), color=colour, marker=mark, markersize=4, label=label)
            if theirs:
                dots = axes.plot(*zip(*theirs, strict=True), color=colour, marker=mark, markersize=6, linestyle=":")
                dots[0].set(markerfacecolor="none", label=f"{label}, paper")
            xs |= {x for x, _ in ours + theirs}
            for each in one.answers:
                if each.cell.x is None and isinstance(each.cell.paper, int | float):
                    name = ", ".join(filter(None, [label, each.cell.at, "paper"]))
                    axes.axhline(each.cell.paper, color=colour, linestyle=":", label=name)
        if "x" in plot.logarithmic:
            axes.set_xscale("log", base=2)
        if "x" in plot.logarithmic or len(xs) <= MOST_TICKS:
            axes.set_xticks(sorted(xs))
            axes.xaxis.set_major_formatter(ScalarFormatter())
        if "y" in plot.logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.margins(y=0.1)
        axes.grid(color="#e3e5e8", linewidth=0.8)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # Lines of the file end with blanks otherwise, which tools for texts complain about.
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _points(one: Answered) -> tuple[Points, Points]:
    """Our points and the paper's."""
    ours: Points = []
    theirs: Points = []
    for each in one.answers:
        if each.cell.x is None:
            continue
        if each.ours is not None:
            ours.append((each.cell.x, each.ours))
        if isinstance(each.cell.paper, int | float):
            theirs.append((each.cell.x, each.cell.paper))
    return sorted(ours), sorted(theirs)
