"""What a user passes as X and y, remembered from fitting so that prediction sees inputs the same way."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.estimators.spaces import same_kind
from kernelfields.features import FeatureDictEncoder, is_feature_sequences
from kernelfields.fields import Chains, check_sample_weight, encode_labels, pack_inputs


class ChainInputs:
    """Kind of inputs (dense, sparse, feature dicts) and their width, learnt by ``fit_chains``."""

    def __init__(self, n_features: int = 0, sparse: bool = False, encoder: FeatureDictEncoder | None = None):
        self.n_features = n_features
        self.sparse = sparse
        self.encoder = encoder

    def fit_chains(
        self, X: Any, y: Any, sample_weight: Any, *, keep_zeros: bool = False
    ) -> tuple[Chains, np.ndarray]:
        """Learn the kind of X; return labelled chains and the sorted classes.

        ``keep_zeros`` lets features of weight zero count as seen, as CRFsuite does.
        """
        if is_feature_sequences(X):
            self.encoder = FeatureDictEncoder(keep_zeros=keep_zeros)
            inputs, offsets = self.encoder.fit_transform(X)
        else:
            inputs, offsets = pack_inputs(X)
        self.n_features = inputs.shape[1]
        self.sparse = scipy.sparse.issparse(inputs)
        return _labelled(inputs, offsets, y, sample_weight, None)

    def chains(
        self, X: Any, y: Any = None, sample_weight: Any = None, classes: np.ndarray | None = None
    ) -> tuple[Chains, Any]:
        """Return chains of new inputs; labelled ones if y is given, with labels among ``classes``."""
        if self.encoder is not None:
            try:
                inputs, offsets = self.encoder.transform(X)
            except (TypeError, ValueError) as error:
                raise type(error)(f"this model was fitted on feature dicts, pass the same: {error}") from error
        elif is_feature_sequences(X):
            raise ValueError(
                "X holds feature dicts, but this model was fitted on numeric arrays; pass arrays of "
                f"{self.n_features} columns"
            )
        else:
            inputs, offsets = pack_inputs(X)
            if inputs.shape[1] != self.n_features:
                raise ValueError(
                    f"X has {inputs.shape[1]} features per position, but this model was fitted with "
                    f"{self.n_features}; pass the same features in the same order"
                )
            inputs = same_kind(inputs, self.sparse)
        if y is None:
            return Chains(inputs, offsets), classes
        return _labelled(inputs, offsets, y, sample_weight, classes)


def _labelled(
    inputs: Any, offsets: np.ndarray, y: Any, sample_weight: Any, classes: np.ndarray | None
) -> tuple[Chains, np.ndarray]:
    labels, classes = encode_labels(y, classes, np.diff(offsets))
    if sample_weight is None:
        return Chains(inputs, offsets, labels), classes
    return Chains(inputs, offsets, labels, check_sample_weight(sample_weight, len(offsets) - 1)), classes
