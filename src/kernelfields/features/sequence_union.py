"""Features of several transformers side by side, position by position: FeatureUnion for lists of sequences.

    words  ->  Embeddings: (T, 384)  |  feature dicts: (T, 20000) sparse  ->  (T, 20384) sparse

Parts are arrays, CSR, or feature dicts and strings, whose names become columns as in ChainCRF. ``columns_`` maps
each part to its columns, for kernels that see some columns only. Sparse where a part is. Cost: one copy of all parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from kernelfields.features.dicts import FeatureDictEncoder
from kernelfields.features.readers import is_feature_sequences
from kernelfields.fields.reading import pack_inputs

_PASSTHROUGH = "passthrough"


# The output is a list of sequences, which scikit-learn's set_output must not wrap into one data frame.
class SequenceUnion(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Join what several transformers make of the same sequences.

    ``transformers`` is a list of (name, transformer) as in scikit-learn's FeatureUnion; "passthrough" takes the
    sequences as they are. Attributes after fit: ``transformers_``, the fitted copies by name, and ``columns_``, which
    maps a name to its first column and the one after its last: ``Columns(RBF(), *union.columns_["words"])``.
    """

    def __init__(self, transformers: Sequence[tuple[str, Any]]):
        self.transformers = transformers

    def fit(self, X: Any, y: Any = None) -> SequenceUnion:
        """Fit every transformer, and learn names and numbers of columns."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> list:
        """Fit every transformer; return the joined sequences."""
        self._check_parameters()
        self.transformers_ = {name: part if part == _PASSTHROUGH else clone(part) for name, part in self.transformers}
        self._encoders: dict[str, FeatureDictEncoder] = {}
        parts = {}
        for name, transformer in self.transformers_.items():
            made = X if isinstance(transformer, str) else transformer.fit_transform(X, y)
            if is_feature_sequences(made):
                self._encoders[name] = FeatureDictEncoder()
                parts[name] = self._encoders[name].fit_transform(made)
            else:
                parts[name] = pack_inputs(made)
        ends = np.cumsum([0, *(rows.shape[1] for rows, _ in parts.values())]).tolist()
        self.columns_ = dict(zip(parts, pairwise(ends), strict=True))
        return self._joined(parts)

    def transform(self, X: Any) -> list:
        """Return the joined sequences."""
        check_is_fitted(self, "columns_")
        parts = {}
        for name, transformer in self.transformers_.items():
            made = X if isinstance(transformer, str) else transformer.transform(X)
            parts[name] = self._encoders[name].transform(made) if name in self._encoders else pack_inputs(made)
            first, last = self.columns_[name]
            if (width := parts[name][0].shape[1]) != last - first:
                raise ValueError(f"{name!r} made {width} columns, but {last - first} when it was fitted")
        return self._joined(parts)

    def _check_parameters(self) -> None:
        given = self.transformers
        pairs = isinstance(given, list | tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in given)
        if not pairs or not given or not all(isinstance(name, str) for name, _ in given):
            raise ValueError(f"transformers must be a list of (name, transformer), got {given!r:.80}")
        if len({name for name, _ in given}) < len(given):
            raise ValueError("transformers: each needs a name of its own")
        for name, transformer in given:
            if transformer != _PASSTHROUGH and not hasattr(transformer, "transform"):
                raise TypeError(f"{name!r} is {type(transformer).__name__}: give a transformer or 'passthrough'")

    @staticmethod
    def _joined(parts: dict[str, tuple[Any, np.ndarray]]) -> list:
        names = list(parts)
        offsets = parts[names[0]][1]
        for name in names[1:]:
            if not np.array_equal(parts[name][1], offsets):
                raise ValueError(
                    f"{name!r} made sequences of other lengths than {names[0]!r}: one row a position is needed"
                )
        tables = [rows for rows, _ in parts.values()]
        if any(sp.issparse(table) for table in tables):
            rows = sp.csr_array(sp.hstack([sp.csr_array(table) for table in tables], format="csr"))
        else:
            rows = np.hstack(tables)
        return [rows[first:last] for first, last in pairwise(offsets.tolist())]
