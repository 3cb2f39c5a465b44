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

from kernelfields.features.readers import ChainReader
from kernelfields.fields.chains import Chains, weigh_classes
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.fields.reading import check_sample_weight, encode_labels


@dataclass(frozen=True, eq=False)
class Part:
    """Packed training sequences and the held-out ones that can be scored; ``test`` is None if there are none."""

    reader: ChainReader
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
        inputs, offsets = ChainReader().learn_inputs(X, keep_zeros=keep_zeros)
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
        reader = ChainReader()
        packed, offsets = reader.learn_inputs([self.X[i] for i in train], keep_zeros=self._keep_zeros)
        chains = Chains(packed, offsets, np.concatenate([self.labels[i] for i in train]), self.weights[train])
        known = np.zeros(len(self.classes), dtype=bool)
        known[chains.labels] = True
        scored = [i for i in test if known[self.labels[i]].all()]
        X_test, y_test = [self.X[i] for i in scored], [self.y[i] for i in scored]
        return Part(
            reader,
            weigh_classes(chains, self.classes, self._class_weight),
            reader.read(X_test, y_test, None, self.classes) if scored else None,
            X_test,
            y_test,
            len(test) - len(scored),
        )
