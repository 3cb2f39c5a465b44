"""Transition scores as a heat map: from the label of a row to that of a column.

Scores, forbidden steps and steps without a weight are read as in ``kernelfields.reports.transitions``, which also
says what a score means. Cost: O(L^2). Fails: ValueError when shapes do not fit the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.plots.canvas import MUTED, new_axes, tick_labels
from kernelfields.reports.transitions import read_transitions, score_text, strongest_labels

# Numbers are written where the cells have room for them.
_MOST_WRITTEN = 14


def plot_transitions(scores: Any, labels: Sequence[object], forbidden: Any = None, ax: Any = None) -> Any:
    """Plot transition scores (L, L), such as ``crf.transitions_`` and ``crf.classes_``; return the Axes."""
    scores, ruled_out = read_transitions(scores, labels, forbidden)
    chosen = strongest_labels(scores)
    shown, grid = [labels[index] for index in chosen], np.ix_(chosen, chosen)
    scores, ruled_out = scores[grid], ruled_out[grid]
    side = min(max(0.5 * len(chosen), 3.0), 9.0)
    ax = new_axes(ax, (side + 1.6, side + 0.6))
    full = float(np.nanmax(np.abs(scores), initial=0.0)) or 1.0
    image = ax.imshow(np.ma.masked_invalid(scores), cmap="RdBu", vmin=-full, vmax=full)
    ax.figure.colorbar(image, ax=ax, label="score", shrink=0.8)
    places = range(len(shown))
    tick_labels(ax.xaxis, places, shown, rotation=90 if max(len(str(each)) for each in shown) > 4 else 0)
    tick_labels(ax.yaxis, places, shown)
    for i, j in np.argwhere(ruled_out):
        ax.text(j, i, "×", ha="center", va="center", color=MUTED)
    if len(shown) <= _MOST_WRITTEN:
        for i, j in np.argwhere(np.isfinite(scores)):
            colour = "white" if abs(scores[i, j]) > 0.6 * full else "black"
            ax.text(j, i, score_text(scores[i, j]), ha="center", va="center", color=colour, fontsize="x-small")
    left_out = len(labels) - len(shown)
    ax.set_xlabel(f"to (the {len(shown)} labels with the strongest scores of {len(labels)})" if left_out else "to")
    ax.set_ylabel("from")
    return ax
