"""The sequences of a search, checked once, and the packed part of them that one fold trains and scores on.

Every fold knows the labels of all training sequences, those its own part lacks included: constraints, label
kernels and class weights then mean the same everywhere. But nothing can be learnt about a label that is not there,
and how badly it is predicted depends on the prior alone. So held-out sequences with such a label are left out of
the scores, and ``n_dropped`` counts them.

Cost: one packed copy of the chosen sequences for each part. Fails: ValueError or TypeError as ChainCRF.fit does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.class_weights import weigh_classes
from kernelfields.features import FeatureDictEncoder, is_feature_sequences
from kernelfields.fields import Chains, ConstraintMasks, check_sample_weight, encode_labels, pack_inputs


@dataclass(frozen=True, eq=False)
class Part:
    """Packed training sequences and the held-out ones that can be scored; ``test`` is None if there are none."""

    inputs: ChainInputs
    train: Chains
    test: Chains | None
    X_test: list
    y_test: list
    n_dropped: int


class TrainingData:
    """X and y as lists of sequences, with ``labels`` as numbers and the ``chains`` of everything.

    ``keep_zeros`` lets features of weight zero count as seen, as ChainCRF does for an observed support.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any, *, keep_zeros: bool, class_weight: Any):
        X, y = (list(each) if hasattr(each, "__next__") else each for each in (X, y))
        self._keep_zeros, self._class_weight = keep_zeros, class_weight
        _, inputs, offsets = self._learn(X)
        codes, self.classes = encode_labels(y, None, np.diff(offsets))
        self.weights = check_sample_weight(sample_weight, len(offsets) - 1)
        self.chains = Chains(inputs, offsets, codes, self.weights)
        weigh_classes(self.chains, self.classes, class_weight)
        self.X, self.y = list(X), list(y)
        self.labels = self.chains.split(codes)

    def check_constraints(self, masks: ConstraintMasks) -> None:
        """Raise ValueError if the constraints forbid labels that are there."""
        masks.check_labels(self.chains.labels, self.chains.offsets, self.classes)

    def part(self, train: np.ndarray, test: np.ndarray) -> Part:
        """Return the chosen sequences, packed; inputs are learnt from the training ones alone."""
        inputs, packed, offsets = self._learn([self.X[i] for i in train])
        chains = Chains(packed, offsets, np.concatenate([self.labels[i] for i in train]), self.weights[train])
        known = np.zeros(len(self.classes), dtype=bool)
        known[chains.labels] = True
        scored = [i for i in test if known[self.labels[i]].all()]
        X_test, y_test = [self.X[i] for i in scored], [self.y[i] for i in scored]
        return Part(
            inputs,
            weigh_classes(chains, self.classes, self._class_weight),
            inputs.chains(X_test, y_test, None, self.classes)[0] if scored else None,
            X_test,
            y_test,
            len(test) - len(scored),
        )

    def _learn(self, X: Any) -> tuple[ChainInputs, Any, np.ndarray]:
        """Return what ChainCRF would remember of inputs X, and X packed."""
        encoder = None
        if is_feature_sequences(X):
            encoder = FeatureDictEncoder(keep_zeros=self._keep_zeros)
            packed, offsets = encoder.fit_transform(X)
        else:
            packed, offsets = pack_inputs(X)
        return ChainInputs(packed.shape[1], scipy.sparse.issparse(packed), encoder), packed, offsets
