"""Classifiers of single positions that are tried beside fields, on the same folds, and never chosen.

    forest                  trees on the columns of a position: what plain tools reach
    shares of the labels    log n_k / n of the training positions with label k: what is reached without inputs

Arrays: marginals (N, L) of the N held-out positions of a fold. Cost: of trees O(N log N) each; of shares O(N).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kernelfields.engines.engine import PackedData
from kernelfields.models.choices import SHARES
from kernelfields.models.pilot_folds import Folds
from kernelfields.objective.term import Term

#: A forest of so few trees is nearly as good, at a fraction of the cost.
PILOT_TREES = 40
# The least probability of a label: that of a forest may be zero.
_LEAST_SHARE = 1e-3


#: Predicts the labels of held-out positions: their numbers (K,), and probabilities (N, K).
Classify: TypeAlias = Callable[[PackedData, PackedData], tuple[np.ndarray, np.ndarray]]


@dataclass(eq=False)
class Peer:
    """A classifier of the positions of one fold, among ``n_classes`` labels; ``units`` as in a Stage."""

    classify: Classify
    train: PackedData
    held_out: PackedData
    units: np.ndarray
    n_classes: int
    start: Sequence[np.ndarray] | None = None

    def predicted(self, variance: float | None) -> tuple[list[Term], np.ndarray]:
        """Return the probabilities (N, L) of the labels, and no terms."""
        table = np.full((self.held_out.n_positions, self.n_classes), _LEAST_SHARE)
        labels, found = self.classify(self.train, self.held_out)
        table[:, labels] = np.maximum(found, _LEAST_SHARE)
        return [], table


def make_peer(kind: str, folds: Folds, n_classes: int, number: int) -> Peer:
    """Return a peer on a fold, by its name among the settings: "forest on windows" is a forest."""
    classify = predict_shares if kind == SHARES else grow_forest
    return Peer(classify, *folds[number], folds.held_out_units(number), n_classes)


def grow_forest(train: PackedData, held_out: PackedData) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of trees for each label."""
    from sklearn.ensemble import ExtraTreesClassifier

    grown = ExtraTreesClassifier(PILOT_TREES, min_samples_leaf=5, random_state=0)
    grown.fit(train.inputs, train.required_labels, train.position_weights)
    return grown.classes_, grown.predict_proba(held_out.inputs)


def predict_shares(train: PackedData, held_out: PackedData) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of the labels in training, for every position."""
    labels, places = np.unique(train.required_labels, return_inverse=True)
    counts = np.bincount(places, train.position_weights)
    return labels, np.tile(counts / counts.sum(), (held_out.n_positions, 1))
