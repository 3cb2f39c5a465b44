"""Accuracy against the degree of the kernel, and accuracy and relative gap against the rank of the basis.

Figures are numbers or values with intervals, one list or a mapping of names to lists; see
``kernelfields.reports.estimates``. Cost: O(figures). Fails: ValueError when figures and places do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.plots.canvas import COLOURS, MARKERS, legend, new_axes, new_panels, tick_labels
from kernelfields.reports.degrees import joined_degrees
from kernelfields.reports.estimates import Curve, read_curves
from kernelfields.reports.ranks import rank_ticks, read_ranks

# Curves that share a place stand this far apart, so that their whiskers can be told.
_APART = 0.06


def plot_degrees(degrees: Sequence[Any], accuracy: Any, ax: Any = None, *, name: str = "token accuracy") -> Any:
    """Plot accuracy against degree; return the Axes.

    Neighbouring degrees that are numbers are joined by a line; a kernel without a degree, such as "RBF", is not.
    """
    if not len(degrees):
        raise ValueError("degrees is empty: name at least one")
    curves = read_curves(accuracy, len(degrees), "accuracy")
    ax = new_axes(ax, (5.6, 3.4))
    joined = joined_degrees(degrees)
    handles = []
    for number, each in enumerate(curves):
        places = np.arange(len(degrees)) + _APART * (number - (len(curves) - 1) / 2)
        handles.append(_whiskers(ax, number, places, each, line=False))
        runs = np.split(np.arange(len(degrees)), [i for i in range(1, len(degrees)) if not joined[i]])
        for run in runs:
            ax.plot(places[run], each.values[run], color=COLOURS[number % len(COLOURS)])
    tick_labels(ax.xaxis, range(len(degrees)), degrees)
    ax.set_xlim(-0.5, len(degrees) - 0.5)
    ax.set_xlabel("degree")
    ax.set_ylabel(name)
    if len(curves) > 1:
        legend(ax, handles, [each.name for each in curves])
    return ax


def plot_rank(ranks: Any, accuracy: Any, gap: Any, axes: Any = None, *, name: str = "token accuracy") -> Any:
    """Plot accuracy and relative gap against rank, in two panels; return their two Axes."""
    places, accuracies, gaps = read_ranks(ranks, accuracy, gap)
    ticks = rank_ticks(places)
    upper, lower = panels = new_panels(axes, 2, (5.6, 5.0))
    for ax, curves, what in ((upper, accuracies, name), (lower, gaps, "relative gap")):
        handles = [_whiskers(ax, number, places, each) for number, each in enumerate(curves)]
        ax.set_xscale("log")
        ax.xaxis.minorticks_off()
        ax.set_xticks(ticks, [f"{rank:,.6g}" for rank in ticks])
        ax.set_ylabel(what)
        if len(curves) > 1:
            legend(ax, handles, [each.name for each in curves])
    lower.set_yscale("log")
    lower.set_xlabel("rank")
    return panels


def _whiskers(ax: Any, number: int, places: np.ndarray, curve: Curve, *, line: bool = True) -> Any:
    """Draw marks, intervals where there are any, and the line through them."""
    known = np.isfinite(curve.low) & np.isfinite(curve.high)
    below = np.where(known, curve.values - curve.low, 0.0)
    above = np.where(known, curve.high - curve.values, 0.0)
    return ax.errorbar(
        places,
        curve.values,
        yerr=np.maximum([below, above], 0.0) if known.any() else None,
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        linestyle="-" if line else "none",
        capsize=3,
    )
