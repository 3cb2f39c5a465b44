"""One labelled sequence: at every position the marginal probabilities as a stack of coloured bars.

The labels that were chosen stand above the bars, wrong ones with a cross and the true label. Only labels that are
probable somewhere have a colour of their own in the legend; the others share grey. Colours are those of reports.
Cost: O(T L). Fails: TypeError for anything but a LabelledSequence, ValueError for one without positions.
"""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np

from kernelfields.plots.canvas import MUTED, legend, new_axes, plain, tick_labels
from kernelfields.reports.label_colours import label_hues
from kernelfields.reports.labelled_sequences import LabelledSequence

_NOTABLE = 0.05
_MOST_NAMED = 12
_MOST_WORDS = 80
_INCHES_PER_POSITION = 0.45
# The height that a slanted letter takes, small above the bars and of usual size below them.
_INCHES_ABOVE, _INCHES_BELOW = 0.06, 0.08
_SLANT = 60


def plot_sequence(sequence: LabelledSequence, ax: Any = None) -> Any:
    """Plot what ``show()`` of a fitted estimator returns; return the Axes."""
    if not isinstance(sequence, LabelledSequence):
        raise TypeError(f"plot_sequence takes what show() returns, a LabelledSequence, got {type(sequence).__name__}")
    if not len(sequence):
        raise ValueError("the sequence has no positions: there is nothing to plot")
    n_positions = len(sequence)
    words = [plain(sequence.word(t)) for t in range(n_positions)]
    marks = [_mark(sequence, t) for t in range(n_positions)]
    ax = new_axes(ax, _size(words, marks))
    places = np.arange(n_positions)
    named = _named_labels(sequence)
    bottom = np.zeros(n_positions)
    handles, names = [], []
    for column in named:
        share = sequence.marginals[:, column]
        handles.append(ax.bar(places, share, bottom=bottom, width=0.9, color=_colour(sequence, column, named)))
        names.append(sequence.classes[column])
        bottom = bottom + share
    if len(named) < len(sequence.classes):
        handles.append(ax.bar(places, np.maximum(1.0 - bottom, 0.0), bottom=bottom, width=0.9, color="#d5d9de"))
        names.append(f"{len(sequence.classes) - len(named)} others")
    if n_positions <= _MOST_WORDS:
        for t, (mark, wrong) in enumerate(zip(marks, sequence.wrong, strict=True)):
            style = {"color": "#b3261e" if wrong else MUTED, "fontsize": "x-small", "rotation": _SLANT}
            ax.text(t, 1.02, mark, ha="left", va="bottom", rotation_mode="anchor", parse_math=False, **style)
        tick_labels(ax.xaxis, range(n_positions), words, rotation=_SLANT, ha="right", rotation_mode="anchor")
    ax.set(xlim=(-0.6, n_positions - 0.4), ylim=(0, 1))
    ax.set_ylabel("marginal probability")
    legend(ax, handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return ax


def _named_labels(sequence: LabelledSequence) -> list[int]:
    """Return the columns of labels that are chosen or probable somewhere, the most probable if they are many."""
    largest = sequence.marginals.max(axis=0)
    chosen = np.isin(np.arange(len(sequence.classes)), [sequence.classes.index(each) for each in sequence.labels])
    notable = np.flatnonzero(chosen | (largest >= _NOTABLE))
    order = notable[np.argsort(-(largest + chosen)[notable], kind="stable")][:_MOST_NAMED]
    return sorted(order.tolist())


def _colour(sequence: LabelledSequence, column: int, named: list[int]) -> tuple[float, float, float]:
    """Return the colour of a label; labels of one entity type share a hue and differ in lightness."""
    hues = label_hues(sequence.classes)
    hue = hues[str(sequence.classes[column])]
    if hue is None:
        return (0.72, 0.75, 0.78)
    alike = [other for other in named if hues[str(sequence.classes[other])] == hue]
    lightness = 0.5 + 0.25 * alike.index(column) / max(len(alike) - 1, 1) if len(alike) > 1 else 0.55
    return colorsys.hls_to_rgb(hue / 360.0, lightness, 0.6)


def _mark(sequence: LabelledSequence, position: int) -> str:
    """Return the label of a position, with a cross and the true label where it is wrong."""
    label = plain(sequence.labels[position])
    if sequence.truth is None or sequence.truth[position] == sequence.labels[position]:
        return label
    return f"✗ {label} ({plain(sequence.truth[position])})"


def _size(words: list[str], marks: list[str]) -> tuple[float, float]:
    """Return inches that leave room for the bars, the labels above them and the words below."""
    width = min(max(3.0 + _INCHES_PER_POSITION * len(words), 5.0), 16.0)
    if len(words) > _MOST_WORDS:
        return width, 3.2
    return width, 2.4 + _INCHES_ABOVE * max(map(len, marks)) + _INCHES_BELOW * max(map(len, words))
