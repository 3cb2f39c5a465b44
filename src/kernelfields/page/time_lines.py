"""Time lines of the page: the columns that are drawn, and the axis below them.

    date-times       an axis of wall-clock time, in milliseconds since 1970; gaps are drawn to scale
    numbers          an axis of these numbers, in a column named time, t, seconds, timestamp or date
    neither          an axis of positions

Any numeric column of a table may be drawn, a feature or not; cells without a number are gaps of the line.

Raises SequenceFileError with the name of a column that is missing or not numeric.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.data.column_roles import Column, column_roles
from kernelfields.data.frames import NUMBER
from kernelfields.data.text_files import SequenceFileError
from kernelfields.formats.sequence_tables import SequenceTable

_TIME = re.compile("t|times?|timestamp|seconds?|date", re.IGNORECASE)
_MILLISECOND = np.timedelta64(1000, "us")


@dataclass(frozen=True, eq=False)
class TimeLines:
    """Columns of numbers (T, c) of each item, with their ``names``; ``time`` is the index of the time column.

    With ``has_clock``, times are milliseconds since 1970.
    """

    values: Sequence[Any]
    names: Sequence[str] | None
    time: int | None = None
    has_clock: bool = False

    @property
    def drawn_columns(self) -> list[str] | None:
        """The names of the drawn columns, without the time column."""
        return None if self.names is None else [name for k, name in enumerate(self.names) if k != self.time]

    @property
    def axis(self) -> dict[str, Any] | None:
        """The name of the axis and its kind; None for an axis of positions."""
        if self.time is None or self.names is None:
            return None
        return {"name": self.names[self.time], "clock": self.has_clock}

    def show(self, item: int, rows: slice) -> dict[str, Any]:
        """Return columns and times of positions for the page."""
        columns = np.asarray(self.values[item], dtype=np.float64)[rows].T.tolist()
        times = None if self.time is None else columns.pop(self.time)
        shown = {"columns": [list(map(number_or_none, column)) for column in columns]}
        return shown | {"times": times if times is not None and np.isfinite(times).all() else None}


def make_array_lines(X: Sequence, columns: Sequence[str] | None) -> TimeLines:
    """Return the time lines of arrays (T, c) with named columns."""
    named = [k for k, name in enumerate(columns or ()) if _TIME.fullmatch(name)]
    return TimeLines(X, columns, named[0] if named and len(columns or ()) > 1 else None)


def make_table_lines(table: SequenceTable, wanted: Sequence[str] | None, path: str) -> TimeLines | None:
    """Return the time lines of a table; None if there is no column to draw."""
    cells = dict(zip(table.header, map(list, zip(*table.rows, strict=True)), strict=True))
    others = [name for name in table.header if name not in (table.reading["sequence"], table.reading.get("label"))]
    numbers = {name: _numbers(cells[name]) for name in others}
    textual: dict[Hashable, Column | None] = {
        name: None if _is_numeric(numbers[name]) else cells[name] for name in others
    }
    roles = column_roles(textual, table.groups.codes)
    time = (
        str(roles.time)
        if roles.times is not None
        else next((name for name in others if _TIME.fullmatch(name) and np.isfinite(numbers[name]).all()), None)
    )
    if wanted is None:
        kinds = table.reading["kinds"]
        wanted = [name for name in others if kinds.get(name) == NUMBER and name != time]
        if not wanted:
            return None
    for name in wanted:
        if name not in cells:
            there = ", ".join(map(repr, table.header))
            raise SequenceFileError(f"{path} has no column {name!r} to draw; there are {there}: --columns NAME,NAME")
        if name not in numbers or not _is_numeric(numbers[name]):
            found = cells[name][0]
            raise SequenceFileError(f"{path}: column {name!r} holds {found!r:.40}, and a time line draws numbers")
    drawn = [numbers[name] for name in wanted]
    if time is None:
        return TimeLines(_by_sequence(table, drawn), list(wanted))
    if roles.times is not None:
        since = (roles.times.wall - np.datetime64(0, "us")) / _MILLISECOND
        return TimeLines(_by_sequence(table, [*drawn, since]), [*wanted, time], len(drawn), True)
    return TimeLines(_by_sequence(table, [*drawn, numbers[time]]), [*wanted, time], len(drawn))


def number_or_none(value: float) -> float | None:
    """Return a number for the page, or None for infinity and NaN."""
    return round(float(value), 6) if np.isfinite(value) else None


def _by_sequence(table: SequenceTable, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    rows = np.column_stack(columns)[table.groups.rows]
    return np.split(rows, table.groups.offsets[1:-1])


def _numbers(cells: Sequence[str]) -> np.ndarray:
    """Return the numbers in cells, NaN for other texts."""
    found = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        try:
            found[row] = float(cell)
        except ValueError:
            continue
    return found


def _is_numeric(numbers: np.ndarray) -> bool:
    """Whether at least half of the cells of a column hold numbers."""
    return 2 * int(np.isfinite(numbers).sum()) >= len(numbers)
