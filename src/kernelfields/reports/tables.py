"""Tables as plain text, as HTML and as JSON, and the HTML elements they are made of.

    print(Table(("kernel", "accuracy"), [("linear", "0.81"), ("rbf", "0.93")]).text())

A table has column heads (or none, for a list), rows of cells, columns of words (to the left) and of numbers (to
the right). Rows and cells may be shaded, green for positive and red for negative; colour only repeats the sign
that is written. An empty row is a gap: a blank line in text, a line above the next row in HTML.

HTML is escaped by construction: plain strings are escaped, and only :class:`Markup`, which elements return, passes
as it is. Text has control characters written out, and can be cut into bands of columns that fit a terminal.
Numbers in attributes must be finite: a browser drops a shape with "nan" in it without a word.

Cost: that of writing down the cells. Fails: ValueError when a row does not fit the columns.
This file imports nothing of the package, so that every room can show its results as a table.
"""

from __future__ import annotations

import html
import math
import numbers
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: Width of text, that of the narrowest usual terminal.
TEXT_WIDTH = 80
#: How a number that does not exist is shown.
ABSENT = "."
# The strongest shade leaves text readable on light and on dark paper.
_STRONGEST_SHADE = 0.45
_LONGEST_LABEL = 16
_PART_INDENT = 6
_UNCUT = 10**6
_VOID = frozenset({"img", "meta"})
# Neither HTML nor XML allows these, and lone surrogates cannot be written as UTF-8.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is already HTML or SVG."""

    __slots__ = ()


def valid_text(text: object) -> str:
    """Return text with the characters replaced that neither HTML nor XML can hold."""
    return _FORBIDDEN.sub("\ufffd", str(text))


def escape(text: object) -> Markup:
    """Return text safe between tags and inside quoted attributes; Markup is returned unchanged."""
    return text if isinstance(text, Markup) else Markup(html.escape(valid_text(text), quote=True))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """Return one element. ``class_`` and ``stroke_width`` become class and stroke-width; None is left out."""
    opening = tag + "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(name, value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        if children:
            raise ValueError(f"<{tag}> cannot have content, got {len(children)} children")
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def join(parts: Iterable[object]) -> Markup:
    """Return parts one after the other, escaping those that are not Markup."""
    return Markup("".join(escape(part) for part in parts))


def _attribute(name: str, value: object) -> str:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"attribute {name!r} must be a finite number, got {value!r}")
        # Adding zero turns -0.0 into 0.0.
        return f"{round(number, 2) + 0.0:.2f}".rstrip("0").rstrip(".")
    # str() takes a Markup back to plain text: inside quotes it is escaped like any other.
    return escape(str(value))


@dataclass(frozen=True)
class Row:
    """Cells of a row, how strongly they are shaded, and a role: "best", "part" of the row above, or "quiet".

    ``shade`` is one number for the row or one for each cell, from -1 (red) to 1 (green); NaN is not shaded.
    """

    cells: Sequence[object]
    shade: float | Sequence[float] = 0.0
    role: str = ""

    @property
    def indent(self) -> int:
        """How far text is set in."""
        return _PART_INDENT if self.role == "part" else 0

    def style(self, column: int | None = None) -> str | None:
        """Return the CSS of the row, or of one of its cells."""
        if isinstance(self.shade, Sequence):
            return None if column is None else shade(self.shade[column])
        return shade(self.shade) if column is None else None


@dataclass(frozen=True)
class Table:
    """Heads, rows of as many cells, and which columns hold words; the others hold numbers.

    In text, columns are ``gap`` characters apart, numbers take at least ``least`` characters, and words are cut to
    ``longest``; HTML shows them whole.
    """

    columns: Sequence[object]
    rows: Sequence[Row | Sequence[object]]
    caption: str = ""
    words: Collection[int] = (0,)
    gap: int = 3
    least: int = 0
    longest: int | None = None

    def __post_init__(self) -> None:
        expected = len(self.columns)
        for index, row in enumerate(self._rows):
            if expected and row.cells and len(row.cells) != expected:
                raise ValueError(
                    f"row {index} of the table has {len(row.cells)} cells, but there are {expected} columns"
                )

    @property
    def _rows(self) -> list[Row]:
        return [row if isinstance(row, Row) else Row(row) for row in self.rows]

    def text(self, width: int | None = None) -> str:
        """Return lines with aligned columns, cut into bands of columns where ``width`` characters are too few."""
        rows = self._rows
        written = [[self._written(cell, column, row) for column, cell in enumerate(row.cells)] for row in rows]
        if self.columns:
            rows = [Row(self.columns), *rows]
            written = [[printable(head, self.longest or _UNCUT) for head in self.columns], *written]
        widths = [
            max(0 if column in self.words else self.least, *map(len, cells))
            for column, cells in enumerate(zip(*filter(None, written), strict=True))
        ]
        bands = ["\n".join(self._aligned(rows, written, widths, band)) for band in self._bands(widths, width)]
        return "\n".join(filter(None, [printable(self.caption), "\n\n".join(bands)]))

    def _written(self, cell: object, column: int, row: Row) -> str:
        if self.longest is None or column not in self.words:
            return printable(cell, _UNCUT)
        return printable(cell, self.longest - row.indent)

    def _bands(self, widths: Sequence[int], width: int | None) -> list[list[int]]:
        """Return which columns stand beside each other; the first is repeated in every band."""
        bands: list[list[int]] = [[0]] if widths else []
        for column in range(1, len(widths)):
            used = sum(widths[each] + self.gap for each in bands[-1])
            if width is not None and len(bands[-1]) > 1 and used + widths[column] > width:
                bands.append([0])
            bands[-1].append(column)
        return bands

    def _aligned(
        self, rows: Sequence[Row], written: Sequence[Sequence[str]], widths: Sequence[int], band: Sequence[int]
    ) -> Iterable[str]:
        for row, cells in zip(rows, written, strict=True):
            line = (" " * self.gap).join(
                cells[column].ljust(widths[column]) if column in self.words else cells[column].rjust(widths[column])
                for column in (band if cells else ())
            )
            yield (" " * row.indent + line).rstrip()

    def markup(self) -> Markup:
        """Return a table element inside one that scrolls where the window is too narrow."""
        parts = [element("caption", self.caption)] if self.caption else []
        if self.columns:
            heads = [
                element("th", head, scope="col", class_=self._role(column)) if str(head) else element("td")
                for column, head in enumerate(self.columns)
            ]
            parts.append(element("thead", element("tr", *heads)))
        body, after_gap = [], False
        for row in self._rows:
            if row.cells:
                body.append(self._row_markup(row, after_gap))
            after_gap = not row.cells
        return element("div", element("table", *parts, element("tbody", *body)), class_="kf-wide")

    def _row_markup(self, row: Row, after_gap: bool) -> Markup:
        head = 0 if self.columns and 0 in self.words else None
        cells = [
            element(
                "th" if column == head else "td",
                cell,
                scope="row" if column == head else None,
                class_=self._role(column),
                style=row.style(column),
            )
            for column, cell in enumerate(row.cells)
        ]
        roles = [f"kf-{row.role}"] * bool(row.role) + ["kf-total"] * after_gap
        return element("tr", *cells, class_=" ".join(roles) or None, style=row.style())

    def _role(self, column: int) -> str | None:
        return "kf-words" if column in self.words else None


def matrix_table(
    caption: str,
    row_labels: Sequence[object],
    column_labels: Sequence[object],
    cells: Sequence[Sequence[str]],
    values: Sequence[Sequence[float]],
) -> Table:
    """Return a matrix of cells with its labels, each cell shaded by its value; NaN is not shaded."""
    largest = largest_magnitude(value for row in values for value in row)
    rows = [
        Row((label, *line), [math.nan, *(value / largest for value in row)])
        for label, line, row in zip(row_labels, cells, values, strict=True)
    ]
    return Table(("", *column_labels), rows, caption, gap=2, least=6, longest=_LONGEST_LABEL)


def list_table(caption: str, rows: Sequence[Row]) -> Table:
    """Return a list without heads: rows of a number and of what it belongs to."""
    return Table((), rows, caption, words=(1,), gap=2, least=10, longest=TEXT_WIDTH - 12)


def text_of(heading: str, tables: Sequence[Table]) -> str:
    """Return a heading and tables with lines between them."""
    return "\n\n".join([heading, *(table.text() for table in tables)])


def html_of(heading: str, tables: Sequence[Table]) -> str:
    """Return a heading and tables as one element."""
    return str(element("div", element("p", heading), *(table.markup() for table in tables)))


def json_value(value: Any) -> Any:
    """Return plain values that JSON can hold: numbers of NumPy as Python's, None for NaN and infinity."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        value = value.tolist()
    if isinstance(value, dict):
        return {name: json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


def largest_magnitude(values: Iterable[float]) -> float:
    """Return the largest finite |value|; 1 if there is none but zero."""
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0


def shade(share: float) -> str | None:
    """Return the CSS of a background: green for positive, red for negative, strongest at -1 and 1."""
    strength = 0.0 if math.isnan(share) else _STRONGEST_SHADE * min(abs(share), 1.0)
    if round(strength, 3) == 0:
        return None
    colour = "0,140,60" if share > 0 else "210,30,30"
    return f"background-color:rgba({colour},{strength:.3f})"
