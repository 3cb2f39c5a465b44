"""What is given of the labels of packed positions: each label, what is known of it, or a target in its place.

    KnownLabels     numbers of labels (N,)
    PartialRows     log q (N, L), up to a constant in each row; zero where a label may be any     partial_labels.py
    TargetRows      probabilities (N, L), and of neighbours (N, L, L)

Whoever asks what labels are possible, certain or to be counted asks these objects, and not which of them it has.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kernelfields.data.partial_labels import (
    LabelWeights,
    SoftRows,
    certain,
    informative,
    label_shares,
    possible_labellings,
    shown_labels,
)


class GivenLabels(Protocol):
    """What is given of the labels of N positions, of L labels; ``numbers`` (N,) are the likeliest ones."""

    numbers: np.ndarray

    @property
    def complete(self) -> bool:
        """Whether each label is known."""
        ...

    def certain(self) -> np.ndarray:
        """Return a mask of the positions that can have one label only, (N,)."""
        ...

    def informative(self) -> np.ndarray:
        """Return a mask of the positions of which something is known, (N,)."""
        ...

    def learnable(self) -> np.ndarray:
        """Return a mask of the positions whose label is known or has a target, (N,): folds spread these."""
        ...

    def judged(self) -> np.ndarray:
        """Return what predictions are compared with: the labels (N,), or log q (N, L)."""
        ...

    def shares(self, n_labels: int) -> np.ndarray:
        """Return how much of each label a position is known to have, (N, L): rows add up to one, or are zero."""
        ...

    def totals(self, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Return the weight of each label, (L,), for weights (N,) of positions."""
        ...

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and the labels that count as seen there: several at one where several are possible."""
        ...

    def labellings(self, members: np.ndarray, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return cliques (n,), None for all in their order, and the labellings seen there; ``members`` (n, k)."""
        ...


class KnownLabels:
    """A label at each position."""

    complete = True

    def __init__(self, numbers: np.ndarray):
        self.numbers = numbers

    def certain(self) -> np.ndarray:
        """Return a mask of all positions."""
        return np.ones(len(self.numbers), dtype=bool)

    informative = learnable = certain

    def judged(self) -> np.ndarray:
        """Return the labels."""
        return self.numbers

    def shares(self, n_labels: int) -> np.ndarray:
        """Return one for each label and zero for the others."""
        return np.eye(n_labels)[self.numbers]

    def totals(self, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Return the weight of each label, (L,)."""
        return np.bincount(self.numbers, weights, minlength=n_labels)

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all positions and their labels."""
        return np.arange(len(self.numbers)), self.numbers

    def labellings(self, members: np.ndarray, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the labelling of each clique."""
        return None, np.ravel_multi_index(tuple(self.numbers[members].T), (n_labels,) * members.shape[1])


class PartialRows:
    """Weights of the labels that a position may have."""

    complete = False

    def __init__(self, numbers: np.ndarray, weights: np.ndarray):
        self.numbers, self.weights = numbers, weights

    def certain(self) -> np.ndarray:
        """Return a mask of the positions that can have one label only, (N,)."""
        return certain(self.weights)

    learnable = certain

    def informative(self) -> np.ndarray:
        """Return a mask of the positions of which something is known, (N,)."""
        return informative(self.weights)

    def judged(self) -> np.ndarray:
        """Return log q (N, L)."""
        return self.weights

    def shares(self, n_labels: int) -> np.ndarray:
        """Return q, and zero for all labels of positions of which nothing is known."""
        return label_shares(self.weights)

    def totals(self, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Return the expected weight of each label, (L,)."""
        return weights @ self.shares(n_labels)

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labels of a thousandth of the largest weight there, or more, where something is known."""
        positions, labels = np.nonzero(shown_labels(self.weights) & (self.shares(self.weights.shape[1]) > 0))
        return positions, labels

    def labellings(self, members: np.ndarray, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return a row for each possible labelling of a clique."""
        return possible_labellings(self.weights, members)


class TargetRows(PartialRows):
    """Probabilities that a field is to match."""

    def __init__(self, numbers: np.ndarray, targets: SoftRows):
        super().__init__(numbers, targets.logs)
        self.targets = targets

    def informative(self) -> np.ndarray:
        """Return a mask of all positions."""
        return np.ones(len(self.numbers), dtype=bool)

    learnable = informative

    def shares(self, n_labels: int) -> np.ndarray:
        """Return the targets."""
        return self.targets.node


def given_labels(numbers: np.ndarray, partial: LabelWeights | None) -> KnownLabels | PartialRows | TargetRows:
    """Return what is given of labels, of numbers and weights as they are packed."""
    if partial is None:
        return KnownLabels(numbers)
    return TargetRows(numbers, partial) if isinstance(partial, SoftRows) else PartialRows(numbers, partial)
