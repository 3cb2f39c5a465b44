"""What a user passes to a multi-label estimator: inputs (n, d) and an indicator of labels (n, K), checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.estimators.spaces import same_kind
from kernelfields.fields.sequences import Nouns

INSTANCES = Nouns(whole="instance", part="label")
_EXPECTED = "Y must be a table of 0 and 1, a row for each instance and a column for each label"


def read_inputs(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """Return X (n, d) as a float array or CSR; learn or compare the number and the names of its features."""
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": fitting}
    if hasattr(estimator, "_validate_data"):  # scikit-learn 1.5
        inputs = estimator._validate_data(X, **options)
    else:
        from sklearn.utils.validation import validate_data

        inputs = validate_data(estimator, X, **options)
    if scipy.sparse.issparse(inputs):
        inputs = scipy.sparse.csr_array(inputs)
        if not inputs.has_canonical_format:
            inputs = inputs.copy()
            inputs.sum_duplicates()
    else:
        inputs = np.ascontiguousarray(inputs)
    if fitting:
        estimator._sparse = scipy.sparse.issparse(inputs)
        return inputs
    return same_kind(inputs, estimator._sparse)


def read_indicator(Y: Any, n_instances: int, n_labels: int | None = None) -> tuple[np.ndarray, list[str] | None]:
    """Return Y as (n, K) of 0 and 1, and the names of its columns where it is a table that has them."""
    if Y is None:
        raise ValueError(f"the estimator requires y to be passed, but the target y is None. {_EXPECTED}.")
    names = [str(name) for name in Y.columns] if hasattr(Y, "columns") else None
    table = Y.toarray() if scipy.sparse.issparse(Y) else _array_of(Y)
    if table.ndim == 1:
        raise ValueError(f"{_EXPECTED}, got one dimension. {_hint(table)}")
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(f"{_EXPECTED}, got shape {table.shape}")
    if len(table) != n_instances:
        raise ValueError(
            f"X and Y have inconsistent numbers of samples: X has {n_instances} instances, Y has {len(table)}"
        )
    if n_labels is not None and table.shape[1] != n_labels:
        raise ValueError(f"Y has {table.shape[1]} columns, but this model was fitted with {n_labels} labels")
    return _binary(table), names


def _hint(table: np.ndarray) -> str:
    """Return what to do about labels of one dimension."""
    if table.dtype.kind == "O":
        return "Sets of labels become one by sklearn.preprocessing.MultiLabelBinarizer().fit_transform(Y)."
    if table.dtype.kind == "f" and not np.array_equal(table, np.floor(table)):
        return "Unknown label type: these values are continuous, as for regression."
    if len(np.unique(table)) > 2:
        return "Only binary classification is supported. For classes that exclude each other use a classifier."
    return "For a single label of two classes use Y.reshape(-1, 1)."


def _array_of(Y: Any) -> np.ndarray:
    try:
        return np.asarray(Y)
    except ValueError as error:
        raise ValueError(
            f"{_EXPECTED}: {error}. Sets of labels become one by "
            "sklearn.preprocessing.MultiLabelBinarizer().fit_transform(Y)."
        ) from error


def _binary(table: np.ndarray) -> np.ndarray:
    ones = np.asarray(table == 1)
    wrong = ~(ones | np.asarray(table == 0))
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        value = table[row, column]
        hint = (
            "a label that is not known cannot be used: drop the instance"
            if isinstance(value, float | np.floating) and np.isnan(value)
            else "Unknown label type: labels are 0 or 1"
        )
        raise ValueError(f"{_EXPECTED}, got {value!r} in row {row}, column {column}. {hint}.")
    return ones.astype(np.int64)
