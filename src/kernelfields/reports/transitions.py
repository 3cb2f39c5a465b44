"""Transition scores as a heat map: from the label of a row to that of a column, one colour for each sign.

    score(y | x) = ... + sum_t w(y_{t-1}, y_t)

A score is the logarithm of a factor: +1 makes a step e times as probable as a score of 0 would. Scores are
relative, so compare them within the map. Forbidden steps are crossed out; NaN, a step without a weight of its own,
is shown as a dot. A map of more labels than can be told apart shows those with the strongest scores, and says so.

Arrays: scores (L, L), minus infinity for a forbidden step; forbidden (L, L) bool or None. Cost: O(L^2).
Fails: ValueError when shapes do not fit the labels or a score is plus infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.reports.heat_map import Cell, cell_map, check_labels
from kernelfields.reports.markup import Markup

_MOST_LABELS = 50
_FORBIDDEN, _ABSENT = "×", "."


def read_transitions(scores: Any, labels: Sequence[object], forbidden: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (L, L), NaN where a step is forbidden or has none, and which steps are forbidden, (L, L)."""
    scores = np.array(scores, dtype=float)
    check_labels(scores, labels, labels)
    ruled_out = np.isneginf(scores)
    if forbidden is not None:
        given = np.asarray(forbidden, dtype=bool)
        if given.shape != scores.shape:
            raise ValueError(f"forbidden has shape {given.shape}, but there are {len(labels)} labels")
        ruled_out |= given
    scores[ruled_out] = np.nan
    if np.isinf(scores).any():
        row, column = np.argwhere(np.isinf(scores))[0]
        raise ValueError(f"the score from {labels[row]!r} to {labels[column]!r} is infinite: scores are finite")
    return scores, ruled_out


def strongest_labels(scores: np.ndarray, most: int = _MOST_LABELS) -> np.ndarray:
    """Return the indices of the ``most`` labels with the largest scores by size, in their own order."""
    if len(scores) <= most:
        return np.arange(len(scores))
    sizes = np.nan_to_num(np.abs(scores))
    strength = np.maximum(sizes.max(axis=0), sizes.max(axis=1))
    return np.sort(np.argsort(-strength, kind="stable")[:most])


def transition_plot(
    scores: Any, labels: Sequence[object], forbidden: Any = None, *, most: int = _MOST_LABELS
) -> Markup:
    """Return transition scores between labels as an SVG picture of at most ``most`` labels."""
    scores, ruled_out = read_transitions(scores, labels, forbidden)
    chosen = strongest_labels(scores, most)
    shown = [labels[index] for index in chosen]
    grid = np.ix_(chosen, chosen)
    full = float(np.nanmax(np.abs(scores[grid]), initial=0.0)) or 1.0
    cells = [
        [
            _cell(f"from {row} to {column}", value, out, full)
            for column, value, out in zip(shown, line, outs, strict=True)
        ]
        for row, line, outs in zip(shown, scores[grid].tolist(), ruled_out[grid].tolist(), strict=True)
    ]
    left_out = len(scores) - len(chosen)
    note = f" (the {len(chosen)} labels with the strongest scores of {len(scores)})" if left_out else ""
    return cell_map(cells, shown, shown, "from", f"to{note}")


def _cell(step: str, value: float, forbidden: bool, full: float) -> Cell:
    if forbidden:
        return Cell(_FORBIDDEN, f"{step}: forbidden", 0.0)
    if np.isnan(value):
        return Cell(_ABSENT, f"{step}: no weight", 0.0)
    role = "kf-cell" if value >= 0 else "kf-below"
    return Cell(score_text(value), f"{step}: {value:+.4g}", abs(value) / full, role)


def score_text(value: float) -> str:
    """Write a score with its sign in at most six characters; nothing where it rounds to zero."""
    size = abs(value)
    if size < 0.005:
        return ""
    decimals = 2 if size < 10 else 1 if size < 100 else 0
    return f"{value:+.{decimals}f}" if size < 1e4 else f"{value:+.0e}"
