"""The reader of one table (n, d), dense or CSR, with the attributes that scikit-learn sets.

Raises ValueError or TypeError, of scikit-learn's checks or naming a row of strings or named features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from kernelfields.data.cliques import CliqueSet
from kernelfields.data.column_names import column_names
from kernelfields.data.graphs import Graphs
from kernelfields.data.positions import is_collection, is_feature_position
from kernelfields.data.readers import InputReader, apply_transformer, check_own_column, same_kind
from kernelfields.data.reading import Matrix, check_finite, is_listing
from kernelfields.inputs.step import Layout
from kernelfields.numerics.containers import n_dimensions, refuse_tensor

# What scikit-learn's validate_data takes for a call without y; None is an error where y is needed.
_NO_TARGETS = "no_validation"


@dataclass(eq=False)
class TableReader(InputReader):
    """Reader of a dense or sparse table, with the checks of scikit-learn."""

    is_table = True

    @staticmethod
    def is_empty(X: object) -> bool:
        """Return False: scikit-learn's estimators refuse tables without rows."""
        return False

    def learn_rows(self, estimator: BaseEstimator, X: object, y: object = _NO_TARGETS) -> tuple[Matrix, np.ndarray]:
        """Return X (n, d) and, if given, y (n,), checked by scikit-learn; learn the kind of X.

        ``estimator`` gets the attributes ``n_features_in_`` and, for data frames, ``feature_names_in_``.
        """
        inputs, targets = _validate_rows(estimator, X, y, reset=True)
        self.rows.columns = column_names(X)
        self.rows.learn_kind(inputs)
        for column in self.own.rows:
            check_own_column(self, column)
        return inputs, targets

    def learn_items(self, X: object, *, keep_zeros: bool = False) -> Graphs:
        """Learn the kind of X; return its rows as graphs of one node each."""
        inputs, _ = self.learn_rows(BaseEstimator(), X)
        return Graphs(inputs, np.arange(inputs.shape[0] + 1))

    def read_rows(self, estimator: BaseEstimator, X: object, y: object = _NO_TARGETS) -> tuple[Matrix, np.ndarray]:
        """Return new X (n, d) of the kind and scale of the fit, and y (n,) if given, checked."""
        inputs, targets = _validate_rows(estimator, apply_transformer(self.features, X), y, reset=False)
        inputs = same_kind(inputs, self.rows.sparse)
        return self.steps(inputs, Layout(np.arange(inputs.shape[0] + 1))), targets

    def width(self, clique: CliqueSet) -> int:
        """Return the number of input columns of a clique set; raise for windows, which sequences have."""
        return self.rows.n_features * (sum(clique.neighbours) + 1)


def refuse_named_features(X: object) -> None:
    """Raise if the rows of a table are strings or named features."""
    rows = X if is_listing(X) and n_dimensions(X) == 1 else ()
    first = next((row for row in rows if not is_collection(row) or len(row)), None)
    if isinstance(first, str | bytes) or is_feature_position(first):
        raise ValueError(
            f"X must be a table (n, d) of numbers, and its first row is {first!r:.60}: "
            "sklearn.feature_extraction.DictVectorizer makes numbers of feature dicts, CountVectorizer of texts"
        )


def _validate_rows(estimator: BaseEstimator, X: object, y: object, *, reset: bool) -> tuple[Matrix, np.ndarray]:
    """Check X and y by scikit-learn; return contiguous X or canonical CSR, and y, empty without labels."""
    refuse_tensor(X, "X")
    refuse_named_features(X)
    dtypes = [np.float64, np.float32]
    checked = validate_data(estimator, X, y, reset=reset, accept_sparse="csr", dtype=dtypes, ensure_all_finite=False)
    inputs, targets = checked if isinstance(checked, tuple) else (checked, np.empty(0))
    check_finite(inputs, lambda number: "X")
    if scipy.sparse.issparse(inputs):
        inputs = scipy.sparse.csr_array(inputs)
        if not inputs.has_canonical_format:
            inputs = inputs.copy()
            inputs.sum_duplicates()
        return inputs, targets
    return np.ascontiguousarray(inputs), targets
