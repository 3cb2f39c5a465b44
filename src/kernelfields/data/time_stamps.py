"""A warning of columns with time stamps, ids or other values that occur once.

Text becomes a feature for each value. Where it is another one in nearly every row, or a date or a time of day, these
are features that no new row has; a number that is another one in nearly every row, and always whole, counts rows or
seconds, or is an id. A field learns the rows of its fit by them.

    named features    name:value for text, name for numbers; columns of CSR
    tables            columns with names
Cost: a look at some names and rows. Arrays whose columns have no names are not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.data.time_columns import is_time
from kernelfields.numerics.user_warnings import warn_user

# A value in so many rows of the data, or in fewer, is not judged; of the others this share must be different.
_LEAST_ROWS, _NEARLY_ALL = 50, 0.95
# So many rows and names are looked at, and date-times of so many different values at least.
_ROWS, _NAMES, _LEAST_TIMES = 5000, 5000, 5


def warn_of_time_stamps(inputs: Any, names: Sequence[str] | None, *, named: bool) -> None:
    """Warn of columns of inputs (N, d) with time stamps or ids; ``named`` for features with text values."""
    if not names or not inputs.shape[0]:
        return
    advice = (
        "Leave it out, or make numbers of it that new rows share, such as the hour or the time since the row before"
    )
    for name, count in _text(names, inputs).items() if named else ():
        warn_user(
            f"column {name!r} holds {count}, each of which becomes a feature that new rows do not have. {advice}",
        )
    for name in _whole_numbers(inputs, names):
        warn_user(
            f"column {name!r} holds another whole number in nearly every row, as time stamps and ids do: a field "
            f"learns rows by it, and new ones have others. {advice}",
        )


def _text(names: Sequence[str], inputs: Any) -> dict[str, str]:
    """Return the suspicious text values by the name of their column."""
    values = defaultdict(list)
    for name in names[:_NAMES]:
        column, colon, value = name.partition(":")
        if colon:
            values[column].append(value)
    found = {}
    for column, some in values.items():
        times = len(some) >= _LEAST_TIMES and all(map(is_time, some))
        if not times and len(some) < _NEARLY_ALL * _LEAST_ROWS:
            continue
        own = np.flatnonzero([name.startswith(f"{column}:") for name in names])
        n_rows = int(np.isin(inputs.indices, own).sum()) if hasattr(inputs, "indices") else inputs.shape[0]
        if times:
            found[column] = f"date-times, {len(own):,} of them"
        elif n_rows >= _LEAST_ROWS and len(own) >= _NEARLY_ALL * n_rows:
            found[column] = f"{len(own):,} values in {n_rows:,} rows"
    return found


def _whole_numbers(inputs: Any, names: Sequence[str]) -> list[str]:
    """Return the names of columns of whole numbers with a new value in nearly every row."""
    if inputs.shape[0] < _LEAST_ROWS or len(names) != inputs.shape[1]:
        return []
    some = inputs[:_ROWS]
    if isinstance(some, np.ndarray):
        whole = np.flatnonzero((some[:_LEAST_ROWS] == np.floor(some[:_LEAST_ROWS])).all(axis=0))
        columns = ((place, some[:, place]) for place in whole.tolist())
    else:
        by_column = some.tocsc()
        full = np.flatnonzero(np.diff(by_column.indptr) >= _NEARLY_ALL * some.shape[0])
        columns = ((place, by_column.data[slice(*by_column.indptr[place : place + 2])]) for place in full.tolist())
    return [
        names[place]
        for place, column in columns
        if len(np.unique(column)) >= _NEARLY_ALL * len(column) and (column == np.floor(column)).all()
    ]
