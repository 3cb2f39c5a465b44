"""What users pass for arrays: the shape, the columns and the entries of objects whose packages are not imported.

Arrays, sparse matrices, tensors and tables of pandas, polars and pyarrow differ in their methods; these functions are
the one place that asks an object which of them it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def shape_of(values: object) -> tuple[int, ...] | None:
    """Return the shape of an array, a sparse matrix, a tensor or a table; None for others, such as lists."""
    shape = getattr(values, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else None


def n_dimensions(values: object) -> int:
    """Return the number of dimensions: 1 for what has no shape, such as a list."""
    shape = shape_of(values)
    return 1 if shape is None else len(shape)


def n_rows_of(values: Any) -> int:
    """Return the number of rows of an array, a sparse matrix or a table, or the length of a list."""
    shape = shape_of(values)
    return int(shape[0]) if shape else len(values)


def columns_of(table: object) -> list | None:
    """Return what a table calls its columns; None where it has no such attribute."""
    if type(table) is np.ndarray:
        return None
    names = getattr(table, "column_names", None)
    # Of pyarrow, whose ``columns`` are the columns themselves; of others this can be a column of that name.
    columns = names if isinstance(names, list) else getattr(table, "columns", None)
    return None if columns is None or callable(columns) else list(columns)


def column_types(table: Any) -> dict:
    """Return the types of the columns of a table of pandas, polars or pyarrow; none for other objects."""
    types = table.schema.types if hasattr(table, "column_names") else getattr(table, "dtypes", None)
    return {} if types is None else dict(zip(columns_of(table) or (), types, strict=True))


def has_array(values: object) -> bool:
    """Whether NumPy can make an array of values without a look at their entries."""
    return hasattr(values, "__array__")


def entries_listed(values: Iterable[Any]) -> list:
    """Return the entries of a list, an array or a column as Python has them."""
    return np.asarray(values, dtype=object).tolist() if has_array(values) else list(values)
