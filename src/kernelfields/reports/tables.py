"""Tables as plain text, as HTML and as rows of values; numbers with intervals.

    print(Table(("kernel", "accuracy"), [("linear", 0.8123), ("rbf", 0.9311)], formats={"accuracy": ".2f"}).text())

A table has column heads (none for a list), rows of cells, columns of words (aligned left) and columns of numbers
(aligned right). Cells hold values; ``formats`` gives the format of a column. Rows and cells can be shaded, green for
positive and red for negative values; colour only repeats the sign that is written. An empty row is a gap: a blank
line in text, a line above the next row in HTML.

Text has escaped control characters, and can be split into blocks of columns that fit a terminal.

Cost: that of writing the cells. Raises ValueError when a row does not fit the columns.
This module imports no other room, so that every room can show its results as tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from kernelfields.reports.markup import Markup, notebook, render

#: Plain values by name, as JSON holds them: what ``to_dict`` returns, and what is read back.
PlainValues: TypeAlias = dict[str, Any]

#: Width of text, that of the narrowest usual terminal.
TEXT_WIDTH = 80
#: The text of a number that does not exist, and of an interval that does not.
ABSENT, NO_ENDS = ".", "[–]"
# The strongest shade leaves text readable on light and on dark paper.
_STRONGEST_SHADE = 0.45
_LONGEST_LABEL = 16
_PART_INDENT = 6
_LAST_BRACKET = re.compile(r" \([^()]*\)$")


class Result:
    """Base class of results: dataclasses of numbers, arrays and other results."""

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON by field name.

        Returns
        -------
        dict
            The values.
        """
        return {part.name: json_value(getattr(self, part.name)) for part in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Estimate(Result):
    """A number and the ends of its interval.

    Parameters
    ----------
    value : float
        The number.
    low : float, optional
        The lower end; None if no interval was computed, NaN if the data do not determine one.
    high : float, optional
        The upper end.

    Examples
    --------
    >>> from kernelfields.reports import Estimate
    >>> print(Estimate(0.9133, 0.89, 0.93))
    0.913 [0.890, 0.930]
    >>> f"{Estimate(0.9133):.1f}"
    '0.9'
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __float__(self) -> float:
        return self.value

    def __format__(self, form: str) -> str:
        form = form or ".3f"
        if self.low is None or self.high is None:
            return f"{self.value:{form}}"
        if math.isnan(self.low) or math.isnan(self.high):
            return f"{self.value:{form}} {NO_ENDS}"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"

    def __str__(self) -> str:
        return f"{self}"


@dataclass(frozen=True)
class Row:
    """The cells of a row, their shades, and a role: "best", "part" of the previous row, or "quiet".

    ``shade`` is one number for the row or one for each cell, from -1 (red) to 1 (green); NaN is not shaded.
    """

    cells: Sequence[object]
    shade: float | Sequence[float] = 0.0
    role: str = ""

    @property
    def indent(self) -> int:
        """The number of characters to indent."""
        return _PART_INDENT if self.role == "part" else 0

    def style(self, column: int | None = None) -> str | None:
        """Return the CSS of the row, or of one of its cells."""
        if isinstance(self.shade, Sequence):
            return None if column is None else shade(self.shade[column])
        return shade(self.shade) if column is None else None


@dataclass(frozen=True, repr=False)
class Table(Result):
    """A table with text and HTML representations.

    Parameters
    ----------
    columns : list
        The heads; empty for a list.
    rows : list of list
        The cells of each row.
    caption : str, default ""
        The caption.
    words : collection of int, default (0,)
        Which columns hold words, aligned left; the others hold numbers.
    formats : dict, optional
        Format specifications such as ".3f" by head, for cells that are no strings.
    note : str, default ""
        A line below the table.
    gap : int, default 3
        The number of characters between columns of text.
    least : int, default 0
        The least number of characters of a number.
    longest : int, optional
        The most characters of a word.
    width : int, optional
        The most characters of a line; columns beyond it form further bands.
    optional : collection of str, default ()
        Heads of columns that are not shown if all their cells are empty.

    Examples
    --------
    >>> from kernelfields.reports import Table
    >>> print(Table(["kernel", "accuracy"], [("linear", 0.8123), ("rbf", 0.9311)], formats={"accuracy": ".2f"}))
    kernel   accuracy
    linear       0.81
    rbf          0.93
    """

    columns: Sequence[object]
    rows: Sequence[Row | Sequence[object]]
    caption: str = ""
    words: Collection[int] = (0,)
    formats: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    gap: int = 3
    least: int = 0
    longest: int | None = None
    width: int | None = None
    optional: Collection[str] = ()

    def __post_init__(self) -> None:
        expected = len(self.columns)
        for index, row in enumerate(self._rows):
            if expected and row.cells and len(row.cells) != expected:
                raise ValueError(
                    f"row {index} of the table has {len(row.cells)} cells, but there are {expected} columns"
                )

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return notebook([self.markup()])

    def _shown(self) -> Table:
        """Return the table without empty optional columns, and without heads if it has no rows."""
        kept = [
            column
            for column, head in enumerate(self.columns if self.rows else ())
            if head not in self.optional or any(row.cells[column] not in (None, "") for row in self._rows if row.cells)
        ]
        if len(kept) == len(self.columns):
            return self
        rows = [replace(row, cells=[row.cells[column] for column in kept if row.cells]) for row in self._rows]
        words = [place for place, column in enumerate(kept) if column in self.words]
        return replace(self, columns=[self.columns[column] for column in kept], rows=rows, words=words)

    @property
    def _rows(self) -> list[Row]:
        return [row if isinstance(row, Row) else Row(row) for row in self.rows]

    def _cells(self, row: Row) -> list[object]:
        """Return the cells of a row as text."""
        formats = [self.formats.get(str(head), "") for head in self.columns] or [""] * len(row.cells)
        return [
            "" if cell is None else cell if isinstance(cell, str) else format(cell, form)
            for cell, form in zip(row.cells, formats if row.cells else (), strict=True)
        ]

    def shown_rows(self) -> list[list[object]]:
        """Return the cells of all rows as text, without gaps.

        Returns
        -------
        list of list
            The cells.
        """
        return [self._cells(row) for row in self._rows if row.cells]

    def text(self) -> str:
        """Return lines with aligned columns, split into blocks of columns narrower than ``width`` characters.

        Returns
        -------
        str
            The text.
        """
        if (shown := self._shown()) is not self:
            return shown.text()
        rows = self._rows
        written = [[self._cut(cell, column, row) for column, cell in enumerate(self._cells(row))] for row in rows]
        if self.columns:
            rows = [Row(self.columns), *rows]
            written = [[printable(head, self.longest) for head in self.columns], *written]
        widths = [
            max(0 if column in self.words else self.least, *map(len, cells))
            for column, cells in enumerate(zip(*filter(None, written), strict=True))
        ]
        bands = ["\n".join(self._aligned(rows, written, widths, band)) for band in self._bands(widths)]
        note = printable(self.note, None)
        return "\n".join(filter(None, [printable(self.caption, self.width), "\n\n".join(bands), note]))

    def _cut(self, cell: object, column: int, row: Row) -> str:
        if self.longest is None or column not in self.words:
            return printable(cell, None)
        return printable(cell, self.longest - row.indent)

    def _bands(self, widths: Sequence[int]) -> list[list[int]]:
        """Return the columns of each block; each begins with the first column."""
        bands: list[list[int]] = [[0]] if widths else []
        for column in range(1, len(widths)):
            used = sum(widths[other] + self.gap for other in bands[-1])
            if self.width is not None and len(bands[-1]) > 1 and used + widths[column] > self.width:
                bands.append([0])
            bands[-1].append(column)
        return bands

    def _aligned(
        self, rows: Sequence[Row], written: Sequence[Sequence[str]], widths: Sequence[int], band: Sequence[int]
    ) -> Iterator[str]:
        for row, cells in zip(rows, written, strict=True):
            line = (" " * self.gap).join(
                cells[column].ljust(widths[column]) if column in self.words else cells[column].rjust(widths[column])
                for column in (band if cells else ())
            )
            yield (" " * row.indent + line).rstrip()

    def markup(self) -> Markup:
        """Return a table element inside a scrollable one.

        Returns
        -------
        Markup
            The HTML.
        """
        if (shown := self._shown()) is not self:
            return shown.markup()
        rows = self._rows
        written = [
            (row, self._cells(row), bool(index) and not rows[index - 1].cells)
            for index, row in enumerate(rows)
            if row.cells
        ]
        return render("table.html", table=self, rows=written)

    def to_dict(self) -> PlainValues:
        """Return the caption and the rows as plain values for JSON.

        Returns
        -------
        dict
            The values.
        """
        return {"caption": self.caption, "rows": json_value(self.to_rows())}

    def to_rows(self) -> list[PlainValues]:
        """Return one dict for each row, by column heads; the ends of an Estimate are separate entries.

        Returns
        -------
        list of dict
            The rows.
        """
        return [
            {
                name: value
                for head, cell in zip(self.columns, row.cells, strict=True)
                for name, value in _named_values(str(head), cell)
            }
            for row in self._rows
            if row.cells and self.columns
        ]


def _named_values(name: str, cell: object) -> list[tuple[str, object]]:
    if not isinstance(cell, Estimate):
        return [(name, cell)]
    return [(name, cell.value), (f"{name} low", cell.low), (f"{name} high", cell.high)]


def matrix_table(
    caption: str,
    row_labels: Sequence[object],
    column_labels: Sequence[object],
    cells: Sequence[Sequence[str]],
    values: Sequence[Sequence[float]],
) -> Table:
    """Return a labelled matrix of cells, each shaded by its value unless it is NaN."""
    largest = largest_magnitude(value for row in values for value in row)
    rows = [
        Row((label, *line), [math.nan, *(value / largest for value in row)])
        for label, line, row in zip(row_labels, cells, values, strict=True)
    ]
    return Table(("", *column_labels), rows, caption, gap=2, least=6, longest=_LONGEST_LABEL, width=TEXT_WIDTH)


def list_table(caption: str, rows: Sequence[Row]) -> Table:
    """Return a table without heads whose rows are a number and its name."""
    return Table((), rows, caption, words=(1,), gap=2, least=10, longest=TEXT_WIDTH - 12, width=TEXT_WIDTH)


def json_value(value: object) -> object:
    """Convert values for JSON: NumPy numbers to Python numbers, NaN and infinity to None."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: json_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def signed(number: float) -> str:
    """Format a number with its sign and three decimals, or in scientific notation if it is very small or large."""
    if math.isnan(number):
        return ABSENT
    usual = number == 0 or 1e-3 <= abs(number) < 1e5
    return f"{number + 0.0:+.3f}" if usual else f"{number:+.2e}"


def printable(text: object, width: int | None = TEXT_WIDTH) -> str:
    """Return text for a line of a terminal: control characters escaped, shortened to ``width``.

    What stands in brackets at the end, as numbers do, is kept where it takes no more than half of the width.
    """
    line = str(text)
    if not line.isprintable():
        line = repr(line)[1:-1]
    if width is None or len(line) <= width:
        return line
    bracket = _LAST_BRACKET.search(line)
    end = bracket[0] if bracket and len(bracket[0]) <= width // 2 else ""
    return f"{line[: width - 1 - len(end)]}…{end}"


def largest_magnitude(values: Iterable[float]) -> float:
    """Return the largest finite |value|; 1 if all finite values are zero."""
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0


def shade(share: float) -> str | None:
    """Return the CSS of a background: green for positive, red for negative, strongest at -1 and 1."""
    strength = 0.0 if math.isnan(share) else _STRONGEST_SHADE * min(abs(share), 1.0)
    if round(strength, 3) == 0:
        return None
    colour = "0,140,60" if share > 0 else "210,30,30"
    return f"background-color:rgba({colour},{strength:.3f})"
