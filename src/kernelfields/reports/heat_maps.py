"""Heat maps: a matrix with the value written in each cell, coloured by its size.

    plot_transitions(crf)
    plot_transitions(scores, labels)
    plot_heat_map(confusions, labels, labels, row_name="truth", column_name="predicted")

Cells shrink as the number of labels grows; if numbers no longer fit, a colour scale replaces them. Labels of columns
are rotated if they are wider than cells.

A transition score is the logarithm of a factor, score(y | x) = ... + sum_t w(y_{t-1}, y_t): +1 makes a step e
times as probable as a score of 0 would. Scores are relative, so compare them within the map.

Arrays: matrix (r, c); scores (L, L), minus infinity for a forbidden step; forbidden (L, L) bool or None.
Cost: O(cells). Raises ValueError when shapes do not fit the labels or a number cannot be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.reports.figures import Picture, draw_squares, note, panels, set_tick_labels, short_label
from kernelfields.reports.markup import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelfields.reports.figures import AxesOrNone

#: Most labels that are drawn by default.
MOST_LABELS = 50
_FORBIDDEN, _ABSENT = "×", "."
# Inches: the side of a cell, the room for a letter of usual size, and the smallest cell a number fits into.
_CELL, _SMALLEST_CELL, _LETTER, _SMALLEST_WRITTEN = 0.46, 0.15, 0.08, 0.34
_MOST_WIDTH = 7.5
# Below this size of cells, labels turned by 45 degrees would run into each other.
_SMALLEST_TURNED = 0.21
_STEPS_OF_SCALE = 9


def plot_heat_map(
    matrix: ArrayLike,
    row_labels: Sequence[object],
    column_labels: Sequence[object],
    ax: AxesOrNone = None,
    *,
    row_name: str = "",
    column_name: str = "",
    largest: float | None = None,
    form: str = ".2f",
) -> Picture:
    """Plot a matrix of nonnegative numbers.

    Entries that round to zero are left blank, so that the pattern shows.

    Parameters
    ----------
    matrix : array (r, c)
        The numbers.
    row_labels : list
        The names of rows.
    column_labels : list
        The names of columns.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    row_name : str, default ""
        What rows are.
    column_name : str, default ""
        What columns are.
    largest : float, optional
        The value of full colour, by default the largest entry; give two maps the same one to compare them.
    form : str, default ".2f"
        The format of entries.

    Returns
    -------
    Picture
        The drawing.

    Examples
    --------
    >>> from kernelfields.reports import plot_heat_map
    >>> picture = plot_heat_map([[0.9, 0.1], [0.0, 1.0]], ["a", "b"], ["a", "b"], row_name="true")
    >>> len(picture.axes)
    1
    """
    entries = np.asarray(matrix, dtype=float)
    _check_labels(entries, row_labels, column_labels)
    if not np.all(np.isfinite(entries)) or np.any(entries < 0):
        raise ValueError("a heat map shows finite numbers >= 0; turn scores into probabilities first")
    full = float(entries.max(initial=0.0) if largest is None else largest) or 1.0
    written = ["" if float(f"{value:{form}}") == 0.0 else f"{value:{form}}" for value in entries.ravel().tolist()]
    scale = {0.0: "0", full: f"{full:{form}}"}
    labels, names = (row_labels, column_labels), (row_name, column_name)
    return _draw_map(ax, labels, names, entries / full, written, scale)


def plot_transitions(
    scores: Any,
    labels: Sequence[object] | None = None,
    forbidden: ArrayLike | None = None,
    ax: AxesOrNone = None,
    *,
    most: int = MOST_LABELS,
) -> Picture:
    """Plot transition scores from row labels to column labels.

    Each sign has its colour. Forbidden steps are crossed out; NaN, a step without a weight of its own, is shown as a
    dot.

    Parameters
    ----------
    scores : fitted estimator or array (L, L)
        The scores.
    labels : list, optional
        The labels, for an array.
    forbidden : array (L, L), optional
        Which steps are forbidden, for an array.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    most : int, default 50
        Of more labels those with the strongest scores are shown, and the axis is labelled so.

    Returns
    -------
    Picture
        The drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> from kernelfields.reports import plot_transitions
    >>> picture = plot_transitions(crf)
    >>> len(picture.axes)
    1
    """
    if hasattr(scores, "summary"):
        model = scores.summary()
        if model.transitions is None:
            raise ValueError(f"{model.name} has no transitions that are the same for all inputs: nothing to plot")
        scores, labels, forbidden = model.transitions, model.labels, model.forbidden
    if labels is None:
        raise ValueError("labels must name the rows and columns of the scores; or pass a fitted estimator alone")
    weights, ruled_out = read_transitions(scores, labels, forbidden)
    chosen = strongest_labels(weights, most)
    shown, cells = [labels[index] for index in chosen], np.ix_(chosen, chosen)
    note_on_labels = f" (the {len(chosen)} labels with the strongest scores of {len(weights)})"
    to = f"to{note_on_labels if len(chosen) < len(weights) else ''}"
    weights, ruled_out = weights[cells], ruled_out[cells]
    full = float(np.nanmax(np.abs(weights), initial=0.0)) or 1.0
    written = [
        _FORBIDDEN if out else _ABSENT if np.isnan(value) else score_text(value)
        for value, out in zip(weights.ravel().tolist(), ruled_out.ravel().tolist(), strict=True)
    ]
    scale = {-full: f"{-full:+.3g}", 0.0: "0", full: f"{full:+.3g}"}
    return _draw_map(ax, (shown, shown), ("from", to), np.nan_to_num(weights / full), written, scale)


def read_transitions(
    scores: ArrayLike, labels: Sequence[object], forbidden: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (L, L), NaN for forbidden and missing steps, and a mask (L, L) of forbidden steps."""
    weights = np.array(scores, dtype=float)
    _check_labels(weights, labels, labels)
    ruled_out = np.isneginf(weights)
    if forbidden is not None:
        steps = np.asarray(forbidden, dtype=bool)
        if steps.shape != weights.shape:
            raise ValueError(f"forbidden has shape {steps.shape}, but there are {len(labels)} labels")
        ruled_out |= steps
    weights[ruled_out] = np.nan
    if np.isinf(weights).any():
        row, column = np.argwhere(np.isinf(weights))[0]
        raise ValueError(f"the score from {labels[row]!r} to {labels[column]!r} is infinite: scores are finite")
    return weights, ruled_out


def strongest_labels(scores: np.ndarray, most: int = MOST_LABELS) -> np.ndarray:
    """Return the indices of the ``most`` labels with the largest absolute scores, in ascending order."""
    if len(scores) <= most:
        return np.arange(len(scores))
    sizes = np.nan_to_num(np.abs(scores))
    strength = np.maximum(sizes.max(axis=0), sizes.max(axis=1))
    return np.sort(np.argsort(-strength, kind="stable")[:most])


def score_text(value: float) -> str:
    """Format a score with its sign in at most six characters; empty if it rounds to zero."""
    size = abs(value)
    if size < 0.005:
        return ""
    decimals = 2 if size < 10 else 1 if size < 100 else 0
    return f"{value:+.{decimals}f}" if size < 1e4 else f"{value:+.0e}"


def _check_labels(matrix: np.ndarray, row_labels: Sequence[object], column_labels: Sequence[object]) -> None:
    if matrix.shape != (len(row_labels), len(column_labels)):
        raise ValueError(
            f"matrix has shape {matrix.shape}, but there are {len(row_labels)} row labels and "
            f"{len(column_labels)} column labels"
        )


def _draw_map(
    ax: AxesOrNone,
    labels: tuple[Sequence[object], Sequence[object]],
    names: tuple[str, str],
    shares: np.ndarray,
    written: Sequence[str],
    scale: Mapping[float, str],
) -> Picture:
    """Draw cells and labels, with a colour scale if numbers do not fit.

    Parameters
    ----------
    labels, names : of the rows and of the columns
    shares : (r, c) entries as shares of the largest, from -1 to 1
    written : (r c,) texts of the cells, row by row
    scale : texts of some values on the scale of colours, the last one that of full colour
    """
    (rows, columns), own = shares.shape, ax[0] if isinstance(ax, Sequence | np.ndarray) else ax
    # The side of a cell in inches: the usual one, or that for which the Axes passed have room.
    side = min(_CELL, max(_SMALLEST_CELL, _MOST_WIDTH / max(columns, 1)))
    if own is not None:
        side = min(own.bbox.width / max(columns, 1), own.bbox.height / max(rows, 1)) / own.figure.dpi
    longest = [_LETTER * max((len(short_label(label)) for label in side_labels), default=1) for side_labels in labels]
    angle = 0 if longest[1] <= side else 45 if side >= _SMALLEST_TURNED else 90
    fits, top = side >= _SMALLEST_WRITTEN, longest[1] * np.sin(np.radians(angle))
    size = (0.5 + longest[0] + side * columns + 0.7 * top + (0.0 if fits else 0.9), 0.6 + side * rows + top)
    with panels(ax, f"heat map, {names[0]} by {names[1]}", size) as picture:
        (panel,) = picture.axes
        places = [(column, row) for row in range(rows) for column in range(columns)]
        colours = [_colour(share) for share in shares.ravel().tolist()]
        draw_squares(panel, places, colours, edgecolors=LIGHT["line"], linewidths=0.75)
        for (column, row), text in zip(places, written, strict=True):
            if text and (fits or len(text) == 1):
                note(panel, column + 0.5, row + 0.5, text, ha="center", va="center", color=LIGHT["ink"])
        panel.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal")
        turned = {"rotation": angle, "ha": "left", "rotation_mode": "anchor"} if angle else {}
        panel.xaxis.tick_top()
        panel.xaxis.set_label_position("top")
        set_tick_labels(panel.yaxis, np.arange(rows) + 0.5, labels[0])
        set_tick_labels(panel.xaxis, np.arange(columns) + 0.5, labels[1], **turned)
        panel.set_ylabel(names[0], parse_math=False)
        panel.set_xlabel(names[1], parse_math=False)
        panel.tick_params(length=0)
        panel.grid(False)
        panel.spines[:].set_visible(False)
        if not fits:
            _draw_colour_scale(panel, scale)
    return picture


def _draw_colour_scale(panel: Axes, scale: Mapping[float, str]) -> None:
    """Draw a colour scale of a few steps."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    ticks = list(scale)
    edges = np.linspace(ticks[0], ticks[-1], _STEPS_OF_SCALE + 1)
    middles = (edges[:-1] + edges[1:]) / 2 / ticks[-1]
    steps = ListedColormap([_colour(share) for share in middles.tolist()])
    mapping = ScalarMappable(BoundaryNorm(edges.tolist(), _STEPS_OF_SCALE), steps)
    bar = panel.figure.colorbar(mapping, ax=panel, shrink=0.6, aspect=16, ticks=ticks)
    bar.ax.set_yticklabels(list(scale.values()))
    bar.ax.tick_params(length=0, labelcolor=LIGHT["muted"])
    bar.minorticks_off()
    bar.outline.set_visible(False)


def _colour(share: float) -> tuple[str, float]:
    """Return the colour for a sign, with an opacity."""
    return LIGHT["cell" if share >= 0 else "cell-below"], min(abs(share), 1.0)
