"""Pictures of result pages: figures at named places, against ranks or sizes, curves, gaps of solvers, reliability.

A figure is a number, or a dict of value, low and high, whose interval is a whisker; None means that there is none.
``curves`` maps the name of a curve to its list of figures, one for each place. All functions return a figure of
matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

_MARKS, _DASHES = "osD^v", ("-", "--", ":", "-.", (0, (6, 2, 1, 2)))
# Curves that share a place stand this far apart, so that their whiskers can be told.
_APART = 0.09
# Letters of a legend on one line.
_WIDEST_LEGEND = 60
Curves = Mapping[str, Sequence[Any]]


def at_places(places: Sequence[Any], curves: Curves, name: str, axis: str = "") -> Figure:
    """Draw figures at places at equal distances; places that are numbers and neighbours are joined by a line."""
    figure = Figure((6.6, 3.4), layout="constrained")
    panel = figure.subplots()
    breaks = [i for i in range(1, len(places)) if isinstance(places[i - 1], str) or isinstance(places[i], str)]
    runs = np.split(np.arange(len(places)), breaks)
    for number, (curve, figures) in enumerate(curves.items()):
        where = np.arange(len(places)) + _APART * (number - (len(curves) - 1) / 2)
        _draw(panel, number, curve, where, figures, runs)
    panel.set(xticks=range(len(places)), xticklabels=list(map(str, places)), xlabel=axis, ylabel=name)
    return _with_legend(figure, curves)


def by_rank(ranks: Sequence[int], accuracies: Curves, gaps: Curves, name: str) -> Figure:
    """Draw what a larger basis brings: accuracy in the upper panel, relative gap in the lower one."""
    figure = Figure((6.6, 5.0), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True)
    for panel, curves, what in ((upper, accuracies, name), (lower, gaps, "relative gap")):
        _against(panel, ranks, curves)
        panel.set_ylabel(what)
    lower.set(yscale="log", xlabel="rank")
    return _with_legend(figure, accuracies, upper)


def by_size(sizes: Sequence[int], curves: Curves, name: str) -> Figure:
    """Draw a positive figure against the size of the sample, both on logarithmic axes."""
    figure = Figure((6.6, 3.4), layout="constrained")
    panel = figure.subplots()
    _against(panel, sizes, curves)
    panel.set(yscale="log", xlabel="samples", ylabel=name)
    return _with_legend(figure, curves)


def smooth(x: Sequence[float], curves: Curves, name: str, histogram: dict | None = None) -> Figure:
    """Draw curves over x, over a histogram where there is one."""
    figure = Figure((6.6, 3.2), layout="constrained")
    panel = figure.subplots()
    if histogram is not None:
        panel.stairs(histogram["heights"], histogram["edges"], fill=True, color="C0", alpha=0.15)
    for number, (curve, values) in enumerate(curves.items()):
        panel.plot(x, values, color=f"C{number}", linestyle=_DASHES[number], label=curve)
    panel.set(xlim=(x[0], x[-1]), ylim=(0.0, None), xlabel=name, ylabel="density")
    return _with_legend(figure, curves)


def gap_curves(charts: Mapping[str, Curves], name: str, tol: float | None = None) -> Figure:
    """Draw pairs (place, gap) in charts beside each other, all axes logarithmic; charts are named by their places."""
    figure = Figure((9.0, 4.0), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(charts), sharey=True))
    for panel, (axis, curves) in zip(panels, charts.items(), strict=True):
        for number, (curve, pairs) in enumerate(curves.items()):
            panel.plot(*zip(*pairs, strict=True), color=f"C{number}", linestyle=_DASHES[number], label=curve)
        if tol is not None:
            panel.axhline(tol, color="grey", linewidth=0.8)
        panel.set(xscale="log", yscale="log", xlabel=axis)
    panels[0].set_ylabel(name)
    return _with_legend(figure, next(iter(charts.values())))


def reliability(calibration: dict) -> Figure:
    """Draw the share of right labels against their mean probability, with its interval, for the bins that have any."""
    figure = Figure((3.6, 3.4), layout="constrained")
    panel = figure.subplots()
    panel.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    columns = (calibration["curve"][name] for name in ("confidence", "accuracy_low", "accuracy", "accuracy_high"))
    confidence, low, value, high = np.array(list(columns), dtype=float)
    panel.errorbar(confidence, value, [value - low, high - value], color="C0", marker="o", capsize=2)
    panel.set(xlabel="mean probability", ylabel="share of right labels", xlim=(0, 1), ylim=(0, 1))
    return figure


def _against(panel: Any, places: Sequence[int], curves: Curves) -> None:
    for number, (curve, figures) in enumerate(curves.items()):
        _draw(panel, number, curve, np.asarray(places, dtype=float), figures, [np.arange(len(places))])
    panel.set(xscale="log", xticks=places, xticklabels=[f"{place:,}" for place in places])
    panel.minorticks_off()


def _draw(panel: Any, number: int, curve: str, places: np.ndarray, figures: Sequence[Any], runs: list) -> None:
    """Draw one curve: marks with whiskers, and a line along each run of places."""
    low, value, high = np.array([_ends(each) for each in figures]).T
    style = {"color": f"C{number}", "marker": _MARKS[number % len(_MARKS)]}
    panel.errorbar(places, value, [value - low, high - value], linestyle="none", capsize=2, label=curve, **style)
    for run in runs:
        panel.plot(places[run], value[run], color=style["color"], linestyle=_DASHES[number % len(_DASHES)])


def _ends(figure: Any) -> tuple[float, float, float]:
    if isinstance(figure, Mapping):
        return figure["low"], figure["value"], figure["high"]
    return (np.nan,) * 3 if figure is None else (figure,) * 3


def _with_legend(figure: Figure, curves: Curves, panel: Any = None) -> Figure:
    if len(curves) > 1:
        handles, labels = (panel or figure.axes[0]).get_legend_handles_labels()
        columns = len(labels) if sum(map(len, labels)) < _WIDEST_LEGEND else 2
        figure.legend(handles, labels, loc="outside upper right", ncols=columns, frameon=False)
    return figure
