"""The weights of a linear field by name, as ``pycrfsuite.Tagger.info()`` gives them.

Only weights other than zero are listed, because CRFsuite writes no others to its model files: an attribute is
known if it has a weight for some label. Cost: one dict entry per weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


class NamedWeights:
    """``state_features`` {(attribute, label): weight}, ``transitions`` {(from, to): weight}, ``attributes``."""

    def __init__(self, field: Any):
        classes = np.array(field.classes_.tolist(), dtype=object)
        names = np.asarray(field.feature_names_in_, dtype=object)
        rows, columns, values = _nonzero(field.coef_["node"])
        self.state_features = _keyed(names[rows], classes[columns], values)
        self.attributes = names[np.unique(rows)].tolist()
        _, pairs, values = _nonzero(field.coef_["edge"])
        self.transitions = _keyed(classes[pairs // len(classes)], classes[pairs % len(classes)], values)


def n_weights(field: Any) -> int:
    """Return how many weights a field has, zero or not."""
    return sum(each.nnz if scipy.sparse.issparse(each) else each.size for each in field.coef_.values())


def _nonzero(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values of the entries that are not zero, in order of rows and columns."""
    sparse = scipy.sparse.csr_array(matrix, copy=True)
    sparse.eliminate_zeros()
    sparse.sort_indices()
    rows = np.repeat(np.arange(sparse.shape[0]), np.diff(sparse.indptr))
    return rows, sparse.indices, sparse.data


def _keyed(left: np.ndarray, right: np.ndarray, values: np.ndarray) -> dict[tuple, float]:
    return dict(zip(zip(left.tolist(), right.tolist(), strict=True), values.tolist(), strict=True))
