"""The field of data where all positions have the same label: nothing to learn, and that label for every answer.

CRFsuite trains such models, with no weight other than zero; small folds of a cross-validation need them. Inputs
are checked as for any other field.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.features import FeatureDictEncoder
from kernelfields.fields import encode_labels


class OneLabel:
    """What a ChainCRF is asked for by this face, for a single label."""

    def __init__(self, label: Any, encoder: FeatureDictEncoder):
        self.classes_ = np.array([label])
        self.encoder = encoder
        self.feature_names_in_ = np.array(encoder.feature_names_, dtype=object)
        self.coef_ = {
            "node": scipy.sparse.csr_array((len(self.feature_names_in_), 1)),
            "edge": scipy.sparse.csr_array((1, 1)),
        }

    @classmethod
    def fit(cls, X: list, y: list, label: Any) -> OneLabel:
        """Check the data and learn the names of their features."""
        encoder = FeatureDictEncoder()
        _, offsets = encoder.fit_transform(X)
        encode_labels(y, [label], np.diff(offsets))
        return cls(label, encoder)

    def predict(self, X: list) -> list[np.ndarray]:
        """Return the label for every position."""
        return [np.repeat(self.classes_, length) for length in self._lengths(X)]

    def predict_marginals(self, X: list) -> list[np.ndarray]:
        """Return ones, (T, 1) per sequence."""
        return [np.ones((length, 1)) for length in self._lengths(X)]

    def _lengths(self, X: list) -> np.ndarray:
        return np.diff(self.encoder.transform(X)[1])
