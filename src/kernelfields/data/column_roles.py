"""Columns of a table that are no features: times, ids, and what is one value in each sequence.

    date-times      of a type of dates, or text that reads so: an axis. A value of it does not come again
    growing         numbers that only grow, or only fall, within every sequence: times and row numbers
    ids             text, or whole numbers, of another value in nearly every row
    constants       one value in each sequence: what a sequence is recognised by

A field that learns from such a column learns the rows or the sequences of its fit. Readers of tables that find their
features by themselves leave these out and name them in one line; features that are given by name are taken as they are.
Cost: a pass over the columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.data.time_columns import Times, describe_order, is_time, read_times
from kernelfields.numerics.wording import inflect

# Fewer rows are not judged but for dates; of more, this share must have another value. Text of times has so many.
_LEAST_ROWS, _NEARLY_ALL, _LEAST_TIMES = 50, 0.95, 5

#: A column of a table: numbers, datetime64, or text.
Column = np.ndarray | Sequence[str]


class ColumnRoles(NamedTuple):
    """Columns of a table: names of features, reasons by the names of others, and the first column of times, if any."""

    features: list[Hashable]
    left_out: dict[Hashable, str]
    time: Hashable | None
    times: Times | None
    order: list[str]

    def line(self, advice: str) -> str:
        """Return one line about the omitted columns, with advice on how to use them."""
        reasons = ", ".join(f"{name!r} ({reason})" for name, reason in self.left_out.items())
        order = f" {self.time!r} {'; it '.join(self.order)}." if self.order else ""
        return f"left out of the features: {reasons}.{order} {advice}"


def column_roles(
    columns: Mapping[Hashable, Column | None], codes: np.ndarray, n_missing: Mapping[Hashable, int] | None = None
) -> ColumnRoles:
    """Separate the columns of features from the other columns.

    Parameters
    ----------
    columns : dict
        Columns by name; None for one that is not judged, which is a feature.
    codes : array (N,)
        The number of the sequence of each row.
    n_missing : dict, optional
        The number of missing values, filled here, of the columns that have some; orders of such times are not judged.

    Returns
    -------
    ColumnRoles
        The roles.
    """
    left_out: dict[Hashable, str] = {}
    time, times, order = None, None, list[str]()
    together = np.argsort(codes, kind="stable")
    in_order = bool((np.diff(together) == 1).all())
    for name, column in columns.items():
        if column is None:
            continue
        dated = _is_dated(column)
        reason = "date-times" if dated else _reason(column, codes, together)
        if reason is None:
            continue
        left_out[name] = reason
        if dated and time is None:
            time = name
            try:
                times = read_times(column)
            except ValueError as error:
                order = [f"is not looked at for its order: {error}"]
            if n_missing and name in n_missing:
                order = [f"is missing in {inflect(n_missing[name], 'row')}"]
            elif times is not None and in_order:
                order = describe_order(times, codes)
    features = [name for name in columns if name not in left_out]
    return ColumnRoles(features, left_out, time, times, order)


def _is_dated(column: Column) -> bool:
    """Whether a column holds date-times, by its type or as text."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind == "M"
    values = set(column)
    return len(values) >= _LEAST_TIMES and all(map(is_time, values))


def _reason(column: Column, codes: np.ndarray, together: np.ndarray) -> str | None:
    """Return the reason why a column is no feature, None for features; ``together`` (N,) orders rows by sequences."""
    if len(codes) < _LEAST_ROWS:
        return None
    values = column if isinstance(column, np.ndarray) else np.unique(np.asarray(column), return_inverse=True)[1]
    same = np.diff(codes[together]) == 0
    steps = np.diff(values[together])[same]
    if 2 * steps.size < len(codes):
        return None  # Of sequences of a row or two nothing can be said.
    if not steps.any():
        return "one value in each sequence"
    textual = not isinstance(column, np.ndarray)
    if not textual and ((steps > 0).all() or (steps < 0).all()):
        return f"values that only {'grow' if steps[0] > 0 else 'fall'} in {inflect(codes.max() + 1, 'sequence')}"
    n_values = len(np.unique(values))
    if n_values >= _NEARLY_ALL * len(codes) and (textual or (values == np.floor(values)).all()):
        return "another value in nearly every row"
    return None
