"""Data without labels beside those with labels: the same inputs, longer, with None for every label that is missing.

X, y, weights of S sequences and U more without labels become S + U sequences, the last U of them with None as labels
and a weight of one. Samples of a table are appended row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.features.frames import stacked_frames
from kernelfields.fields.reading import open_groups


def with_unlabelled(X: Any, y: Any, sample_weight: Any, unlabelled: Any) -> tuple[list, list, Any]:
    """Return sequences or graphs, labels and weights, with others appended whose labels are unknown."""
    for name, values in (("X", X), ("y", y), ("X_unlabelled", unlabelled)):
        if values is None or hasattr(type(values), "__dask_graph__"):
            raise TypeError(f"X_unlabelled is appended to lists of this process, and {name} is {type(values).__name__}")
    (X, y), (more, _) = open_groups(X, y), open_groups(unlabelled)
    return [*X, *more], [*y, *([None] * len(more))], _more_weights(sample_weight, len(more))


def with_unlabelled_rows(X: Any, y: Any, sample_weight: Any, unlabelled: Any) -> tuple[Any, Any, Any]:
    """Return a table (n, d), labels and weights, with rows appended whose labels are unknown."""
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(unlabelled):
        stacked: Any = scipy.sparse.vstack([scipy.sparse.csr_array(X), scipy.sparse.csr_array(unlabelled)])
    elif hasattr(X, "columns"):
        stacked = stacked_frames(X, unlabelled)
    else:
        stacked = np.vstack([np.asarray(X), np.asarray(unlabelled)])
    n_more = stacked.shape[0] - np.shape(y)[0]
    return stacked, [*y, *([None] * n_more)], _more_weights(sample_weight, n_more)


def _more_weights(sample_weight: Any, n_more: int) -> Any:
    return None if sample_weight is None else np.concatenate([np.asarray(sample_weight, dtype=float), np.ones(n_more)])
