"""A matrix as a heat map: the value is written in each cell, and its size sets the strength of the colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.reports.markup import Markup, element, join
from kernelfields.reports.picture import picture, text

_CELL = 40.0
_MARGIN_TOP, _MARGIN_LEFT = 44.0, 24.0
_LETTER = 7.0
_LONGEST_LABEL = 24


def heat_map(
    matrix: Any,
    row_labels: Sequence[object],
    column_labels: Sequence[object],
    *,
    row_name: str = "",
    column_name: str = "",
    largest: float | None = None,
    form: str = ".2f",
) -> Markup:
    """Return a non-negative (r, c) matrix as an SVG picture.

    ``largest`` is the value of full colour (default: the largest entry); give two maps the same one to compare
    them. Entries that round to zero are left blank, so that the pattern shows.
    """
    matrix = np.asarray(matrix, dtype=float)
    if matrix.shape != (len(row_labels), len(column_labels)):
        raise ValueError(
            f"matrix has shape {matrix.shape}, but there are {len(row_labels)} row labels and "
            f"{len(column_labels)} column labels"
        )
    if not np.all(np.isfinite(matrix)) or np.any(matrix < 0):
        raise ValueError("a heat map shows finite numbers >= 0; turn scores into probabilities first")
    full = float(matrix.max(initial=0.0) if largest is None else largest) or 1.0
    rows, columns = [_short(label) for label in row_labels], [_short(label) for label in column_labels]
    left = _MARGIN_LEFT + 8 + _LETTER * max((len(label) for label in rows), default=1)
    width, height = left + _CELL * len(columns), _MARGIN_TOP + _CELL * len(rows)
    shapes = [
        text(left + _CELL * len(columns) / 2, 14, column_name, text_anchor="middle", class_="kf-label"),
        element(
            "text",
            row_name,
            transform=f"translate(14 {_MARGIN_TOP + _CELL * len(rows) / 2:.1f}) rotate(-90)",
            text_anchor="middle",
            class_="kf-label",
        ),
    ]
    for j, label in enumerate(columns):
        shapes.append(text(left + _CELL * (j + 0.5), _MARGIN_TOP - 8, label, text_anchor="middle"))
    for i, label in enumerate(rows):
        shapes.append(text(left - 8, _MARGIN_TOP + _CELL * (i + 0.5) + 4, label, text_anchor="end"))
        shapes += [
            _cell(left + _CELL * j, _MARGIN_TOP + _CELL * i, float(value), full, form)
            for j, value in enumerate(matrix[i])
        ]
    return picture(width + 1, height + 1, f"heat map, {row_name} by {column_name}", *shapes)


def _cell(x: float, y: float, value: float, full: float, form: str) -> Markup:
    strength = min(value / full, 1.0)
    written = format(value, form)
    parts = [
        element("rect", x=x, y=y, width=_CELL, height=_CELL, fill_opacity=strength, class_="kf-cell"),
        element("rect", x=x, y=y, width=_CELL, height=_CELL, class_="kf-frame"),
    ]
    if float(written) != 0.0:
        middle = (x + _CELL / 2, y + _CELL / 2 + 4)
        parts.append(text(*middle, written, text_anchor="middle", class_="kf-label kf-small"))
    return join(parts)


def _short(label: object) -> str:
    label = str(label)
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
