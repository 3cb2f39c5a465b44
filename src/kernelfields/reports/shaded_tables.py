"""Signed numbers in tables, for terminals and for notebooks: green for positive, red for negative.

Colour only repeats the sign that is written. Text is cut to the width of a narrow terminal; HTML brings its own
style, loads nothing, and escapes all names. NaN stands for a number that does not exist and is shown as a dot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kernelfields.reports.markup import Markup, element

#: Width of text, that of the narrowest usual terminal.
TEXT_WIDTH = 80
#: How a number that does not exist is shown.
ABSENT = "."
# The strongest shade leaves text readable on light and on dark paper.
_STRONGEST_SHADE = 0.45
_LONGEST_LABEL = 16
_SMALLEST_CELL = 6

_STYLE = """
.kf-inspect { font: 13px/1.4 system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
.kf-inspect table { border-collapse: collapse; width: auto; font-variant-numeric: tabular-nums; margin: 0; }
.kf-inspect th, .kf-inspect td { padding: 0.1rem 0.5rem; text-align: right; white-space: nowrap; border: 0; }
.kf-inspect th.kf-name { text-align: left; }
.kf-inspect td.kf-name { text-align: left; white-space: pre-wrap; overflow-wrap: anywhere; max-width: 24rem; }
.kf-inspect td.kf-part { padding-left: 1.5rem; }
.kf-inspect caption { text-align: left; font-weight: 650; padding: 0.3rem 0.5rem; caption-side: top; }
.kf-inspect .kf-quiet { font-style: italic; opacity: 0.75; }
.kf-inspect .kf-beside { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.kf-inspect .kf-wide { overflow-x: auto; }
.kf-inspect .kf-token { display: inline-block; padding: 0.1rem 0.4rem; text-align: center; border-radius: 4px;
  margin: 0.1rem 0.15rem 0.1rem 0; }
.kf-inspect .kf-token small { display: block; opacity: 0.75; }
"""


def signed(number: float) -> str:
    """Write a number with its sign and three decimals, in powers of ten where those say nothing."""
    if math.isnan(number):
        return ABSENT
    usual = number == 0 or 1e-3 <= abs(number) < 1e5
    return f"{number + 0.0:+.3f}" if usual else f"{number:+.2e}"


def printable(text: object, width: int = TEXT_WIDTH) -> str:
    """Return text for a line of a terminal: control characters written out, cut with an ellipsis to ``width``."""
    line = str(text)
    if not line.isprintable():
        line = repr(line)[1:-1]
    return line if len(line) <= width else line[: width - 1] + "…"


def matrix_text(row_labels: Sequence[Any], column_labels: Sequence[Any], cells: Sequence[Sequence[str]]) -> str:
    """Write a matrix of cells, cut into bands of columns that fit the width of a terminal."""
    rows = [printable(label, _LONGEST_LABEL) for label in row_labels]
    columns = [printable(label, _LONGEST_LABEL) for label in column_labels]
    left = max(len(row) for row in rows)
    widths = [
        2 + max(_SMALLEST_CELL, len(column), *(len(line[j]) for line in cells)) for j, column in enumerate(columns)
    ]
    bands: list[list[int]] = [[]]
    for j, width in enumerate(widths):
        if bands[-1] and left + sum(widths[k] for k in bands[-1]) + width > TEXT_WIDTH:
            bands.append([])
        bands[-1].append(j)
    written = []
    for band in bands:
        lines = [" " * left + "".join(f"{columns[j]:>{widths[j]}}" for j in band)]
        for row, line in zip(rows, cells, strict=True):
            lines.append(f"{row:<{left}}" + "".join(f"{line[j]:>{widths[j]}}" for j in band))
        written.append("\n".join(lines))
    return "\n\n".join(written)


def matrix_html(
    caption: str,
    row_labels: Sequence[Any],
    column_labels: Sequence[Any],
    values: np.ndarray,
    cells: Sequence[Sequence[str]],
) -> Markup:
    """Return a matrix of cells as a table, each shaded by its value; NaN is not shaded."""
    largest = largest_magnitude(values.ravel().tolist())
    head = element("tr", element("td"), *(element("th", column, scope="col") for column in column_labels))
    body = []
    for label, row, line in zip(row_labels, values.tolist(), cells, strict=True):
        entries = [element("td", text, style=shade(value, largest)) for value, text in zip(row, line, strict=True)]
        body.append(element("tr", element("th", label, scope="row"), *entries))
    whole = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", whole, class_="kf-wide")


def list_html(caption: str, rows: Iterable[Markup]) -> Markup:
    """Return rows of a list as a table with a caption."""
    return element("table", element("caption", caption), element("tbody", *rows))


def shaded_row(number: float, name: object, largest: float, part: bool = False) -> Markup:
    """Return one row of a list: the number and what it belongs to; a ``part`` of the row above is set in."""
    cells = element("td", signed(number)), element("td", name, class_="kf-name kf-part" if part else "kf-name")
    return element("tr", *cells, style=shade(number, largest))


def quiet_row(number: str, text: object) -> Markup:
    """Return a row that says something about a list instead of belonging to it."""
    return element("tr", element("td", number), element("td", text, class_="kf-name"), class_="kf-quiet")


def largest_magnitude(values: Iterable[float]) -> float:
    """Return the largest finite |value|; 1 if there is none but zero."""
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0


def shade(value: float, largest: float) -> str | None:
    """Return the CSS of a cell: green for positive, red for negative, as strong as its share of ``largest``."""
    strength = _STRONGEST_SHADE * min(abs(value) / largest, 1.0) if math.isfinite(value) else 0.0
    if round(strength, 3) == 0:
        return None
    colour = "0,140,60" if value > 0 else "210,30,30"
    return f"background-color:rgba({colour},{strength:.3f})"


def fragment(parts: Iterable[object]) -> str:
    """Return a piece of HTML that brings its own style, for a notebook or a page."""
    return str(element("div", element("style", Markup(_STYLE)), *parts, class_="kf-inspect"))
