"""Weights of a chain by the names of its features and labels, nonzero ones only, as in CRFsuite's lists."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from kernelfields.data.reading import Matrix
from kernelfields.estimators.chain_crf import ChainCRF


class NamedWeights:
    """Nonzero weights ``state_features`` {(attribute, label): weight}, ``transitions`` {(from, to): weight}."""

    def __init__(self, field: ChainCRF):
        classes = np.array(field.classes_.tolist(), dtype=object)
        names = np.asarray(field.feature_names_in_, dtype=object)
        rows, columns, values = _find_nonzero(field.coef_["node"])
        self.state_features = _weights_by_name(names[rows], classes[columns], values)
        self.attributes = names[np.unique(rows)].tolist()
        _, pairs, values = _find_nonzero(field.coef_["edge"])
        self.transitions = _weights_by_name(classes[pairs // len(classes)], classes[pairs % len(classes)], values)


def check_weights(field: ChainCRF) -> None:
    """Raise ValueError unless the chain of a file has weights of named features and transitions."""
    names, coefficients = field.feature_names_in_, field.coef_
    if set(coefficients) != {"node", "edge"}:
        raise ValueError("it has no weights of named features and of transitions")
    if coefficients["node"].shape[0] != len(names) or coefficients["edge"].shape != (1, len(field.classes_) ** 2):
        raise ValueError("its weights do not fit the names of its features and its labels")


def _find_nonzero(matrix: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values of nonzero entries, sorted by row and column."""
    columns, rows, values = scipy.sparse.find(matrix.T)
    return rows, columns, values


def _weights_by_name(left: np.ndarray, right: np.ndarray, values: np.ndarray) -> dict[tuple, float]:
    """Return nonzero weights by pairs of names."""
    return dict(zip(zip(left.tolist(), right.tolist(), strict=True), values.tolist(), strict=True))
