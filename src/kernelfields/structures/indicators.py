"""Indicator tables of several labels: 0 and 1 for each instance and label.

    Y (n, K): dense, sparse, or a data frame whose columns name the labels        ->  labels (n, K) int64

NaN or None is a label that is not known. Cost: O(n K). Raises ValueError that names the row and the column.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from kernelfields.data.column_names import difference
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.reading import ItemNames, is_unknown
from kernelfields.numerics.containers import find_column_names

INSTANCES = ItemNames(whole="instance", part="label")
_EXPECTED = "Y must be a table of 0 and 1, a row for each instance and a column for each label"
_SETS = "Sets of labels become one by sklearn.preprocessing.MultiLabelBinarizer().fit_transform(Y)."


def read_indicator(
    Y: object, n_instances: int, known: list | None = None
) -> tuple[np.ndarray, np.ndarray | None, list[str] | None]:
    """Read Y as (n, K) of 0 and 1, log-weights (n K, 2) of unknown labels, and the names of columns.

    ``known`` are the labels of the fit, numbers where they had no names, None if this is the fit. The log-weights are
    None where all labels are known; an unknown label, NaN or None, has in Y the value that most instances have for
    which it is known. Names are None where Y is no table that has them.
    """
    if Y is None:
        raise ValueError(f"the estimator requires y to be passed, but the target y is None. {_EXPECTED}.")
    if isinstance(Y, SoftTargets):
        raise TypeError(f"{_EXPECTED}; SoftTargets are for labels of which one is true. NaN stands for unknown ones")
    names = _label_names(Y)
    try:
        table = Y.toarray() if scipy.sparse.issparse(Y) else np.asarray(Y)  # type: ignore[attr-defined]
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}: {error}. {_SETS}") from error
    if table.ndim == 1:
        raise ValueError(f"{_EXPECTED}, got one dimension. {_advice(table)}")
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(f"{_EXPECTED}, got shape {table.shape}")
    if len(table) != n_instances:
        counts = f"X has {n_instances} instances, Y has {len(table)}"
        raise ValueError(f"X and Y have inconsistent numbers of samples: {counts}")
    if known is not None and table.shape[1] != len(known):
        raise ValueError(f"Y has {table.shape[1]} columns, but this model was fitted with {len(known)} labels")
    if names is not None and known is not None and isinstance(known[0], str) and names != known:
        raise ValueError(f"the columns of Y should match those that were passed during fit: {difference(names, known)}")
    unknown = _find_unknown(table)
    if not unknown.any():
        return _binary(table), None, names
    if known is None and (silent := np.flatnonzero(unknown.all(axis=0))).size:
        name = silent[0] if names is None else repr(names[silent[0]])
        raise ValueError(f"label {name} is unknown of every instance: leave its column out, or label some of them")
    labels = _binary(np.where(unknown, 0, table))
    usual = 2 * labels.sum(axis=0) > (~unknown).sum(axis=0)
    labels = np.where(unknown, usual.astype(np.int64), labels)
    partial = np.where(labels[..., None] == np.arange(2), 0.0, -np.inf)
    partial[unknown] = 0.0
    return labels, partial.reshape(-1, 2), names


def _find_unknown(table: np.ndarray) -> np.ndarray:
    """Return a mask (n, K) of unknown labels."""
    if table.dtype.kind == "O":
        return np.vectorize(is_unknown, otypes=[bool])(table)
    return np.isnan(table) if table.dtype.kind == "f" else np.zeros(table.shape, dtype=bool)


def _label_names(Y: object) -> list[str] | None:
    columns = find_column_names(Y)
    return None if columns is None else [str(name) for name in columns]


def _advice(table: np.ndarray) -> str:
    """Return the advice about labels of one dimension."""
    if table.dtype.kind == "O":
        return _SETS
    if table.dtype.kind == "f" and not np.array_equal(table, np.floor(table)):
        return "Unknown label type: these values are continuous, as for regression."
    if len(np.unique(table)) > 2:
        return "Only binary classification is supported. For classes that exclude each other use a classifier."
    return "For a single label of two classes use Y.reshape(-1, 1)."


def _binary(table: np.ndarray) -> np.ndarray:
    ones = np.asarray(table == 1)
    wrong = ~(ones | np.asarray(table == 0))
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        found = f"got {table[row, column]!r} in row {row}, column {column}"
        raise ValueError(f"{_EXPECTED}, {found}. Unknown label type: labels are 0 or 1.")
    return ones.astype(np.int64)
