"""A matrix as a heat map: the value is written in each cell, and its size sets the strength of the colour.

Hovering over a cell tells row, column and value. Cells shrink as the labels grow in number, and numbers are left
to hovering where they no longer fit; labels of columns are turned where they are wider than their cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.reports.markup import Markup, element
from kernelfields.reports.picture import picture, short, text, text_width

_CELL, _SMALLEST_CELL = 44.0, 14.0
_MOST_WIDTH = 720.0
_SMALLEST_WRITTEN = 34.0
_MARGIN_TOP, _MARGIN_LEFT = 44.0, 24.0
_TURNED, _UPRIGHT = 45, 90
# Below this size of cells, labels turned by 45 degrees would run into each other.
_SMALLEST_TURNED = 20.0


@dataclass(frozen=True)
class Cell:
    """What is written in a cell, what it says on hover, how strong its colour is (0 to 1), and its role."""

    written: str
    title: str
    strength: float
    role: str = "kf-cell"


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
    check_labels(matrix, row_labels, column_labels)
    if not np.all(np.isfinite(matrix)) or np.any(matrix < 0):
        raise ValueError("a heat map shows finite numbers >= 0; turn scores into probabilities first")
    full = float(matrix.max(initial=0.0) if largest is None else largest) or 1.0
    said_row, said_column = row_name or "row", column_name or "column"
    cells = [
        [
            Cell(_written(value, form), f"{said_row} {row}, {said_column} {column}: {value:{form}}", value / full)
            for column, value in zip(column_labels, line, strict=True)
        ]
        for row, line in zip(row_labels, matrix.tolist(), strict=True)
    ]
    return cell_map(cells, row_labels, column_labels, row_name, column_name)


def check_labels(matrix: np.ndarray, row_labels: Sequence[object], column_labels: Sequence[object]) -> None:
    """Raise unless a matrix has a row and a column for each label."""
    if matrix.shape != (len(row_labels), len(column_labels)):
        raise ValueError(
            f"matrix has shape {matrix.shape}, but there are {len(row_labels)} row labels and "
            f"{len(column_labels)} column labels"
        )


def cell_map(
    cells: Sequence[Sequence[Cell]],
    row_labels: Sequence[object],
    column_labels: Sequence[object],
    row_name: str,
    column_name: str,
) -> Markup:
    """Return rows of cells as an SVG picture with their labels."""
    rows, columns = [short(label) for label in row_labels], [short(label) for label in column_labels]
    size = min(_CELL, max(_SMALLEST_CELL, _MOST_WIDTH / max(len(columns), 1)))
    widths = [text_width(label) for label in columns]
    widest = max(widths, default=0.0)
    angle = 0 if widest <= size else _TURNED if size >= _SMALLEST_TURNED else _UPRIGHT
    left = _MARGIN_LEFT + 8 + max((text_width(label) for label in rows), default=1.0)
    top = _MARGIN_TOP + widest * math.sin(math.radians(angle))
    right = left + size * len(columns)
    # The last labels, turned, reach beyond the cells.
    reach = math.cos(math.radians(angle)) if angle else 0.0
    beyond = max([0.0, *(reach * width + 12 - size * (len(widths) - j - 0.5) for j, width in enumerate(widths))])
    shapes = [
        text((left + right) / 2, 14, column_name, text_anchor="middle", class_="kf-label"),
        element(
            "text",
            row_name,
            transform=f"translate(14 {top + size * len(rows) / 2:.1f}) rotate(-90)",
            text_anchor="middle",
            class_="kf-label",
        ),
    ]
    for j, label in enumerate(columns):
        x = left + size * (j + 0.5)
        if angle:
            place = f"translate({x + 4:.1f} {top - 7:.1f}) rotate(-{angle})"
            shapes.append(element("text", label, transform=place))
        else:
            shapes.append(text(x, top - 8, label, text_anchor="middle"))
    for i, label in enumerate(rows):
        shapes.append(text(left - 8, top + size * (i + 0.5) + 4, label, text_anchor="end"))
        for j, cell in enumerate(cells[i]):
            shapes += _cell(left + size * j, top + size * i, size, cell)
    return picture(
        right + (beyond if angle else 0.0) + 1,
        top + size * len(rows) + 1,
        f"heat map, {row_name} by {column_name}",
        *shapes,
    )


def _cell(x: float, y: float, size: float, cell: Cell) -> list[Markup]:
    box = {"x": x, "y": y, "width": size, "height": size, "fill_opacity": min(cell.strength, 1.0)}
    parts = [element("rect", element("title", cell.title), **box, class_=cell.role)]
    if cell.written and (size >= _SMALLEST_WRITTEN or len(cell.written) == 1):
        middle = (x + size / 2, y + size / 2 + 4)
        # Text takes no pointer: the title of the cell below it is what hovering should show.
        roles = "kf-label kf-small"
        parts.append(text(*middle, cell.written, text_anchor="middle", class_=roles, pointer_events="none"))
    return parts


def _written(value: float, form: str) -> str:
    written = format(value, form)
    return "" if float(written) == 0.0 else written
