"""Labels of packed positions that are partly known, and targets in their place: two kinds of given labels.

    PartialRows     log q (N, L), up to a constant in each row; zero where a label may be any
    TargetRows      probabilities (N, L), and of neighbours (N, L, L)

What they answer is in given_labels.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.data.partial_labels import (
    LabelWeights,
    SoftRows,
    as_log_weights,
    certain,
    find_shown_labels,
    informative,
    label_shares,
    possible_labellings,
)


class PartialRows:
    """Weights of the labels that a position may have."""

    complete = False
    decided = None

    def __init__(self, numbers: np.ndarray, weights: np.ndarray):
        self.numbers, self.weights = numbers, weights

    def check_complete(self, message: str) -> None:
        """Raise ValueError: labels are partly known."""
        raise ValueError(message)

    check_learnable = check_complete

    def check_informative(self) -> None:
        """Raise ValueError if all labels are possible everywhere."""
        if not self.informative().any():
            raise ValueError(
                "nothing is known of any label in y, so that all labels fit equally well: label some positions, or say "
                "what is expected, as in partial_labels=PartialLabels(classes=[...], expectations=[LabelShares({...})])"
            )

    def certain(self) -> np.ndarray:
        """Return a mask (N,) of the positions with one possible label."""
        return certain(self.weights)

    learnable = certain

    def informative(self) -> np.ndarray:
        """Return a mask (N,) of the positions with fewer than all labels possible."""
        return informative(self.weights)

    def get_truth(self) -> np.ndarray:
        """Return log q (N, L)."""
        return self.weights

    def shares(self, n_labels: int) -> np.ndarray:
        """Return q (N, L), with zeros at positions of unknown label."""
        return label_shares(self.weights)

    def totals(self, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Return the expected weight of each label, (L,)."""
        return weights @ self.shares(n_labels)

    def possible(self, weights: np.ndarray) -> np.ndarray:
        """Return the sorted labels that positions may have, of any weight."""
        return np.flatnonzero((self.weights > -np.inf).any(axis=0))

    def log_probability(self, answers: Any) -> np.ndarray:
        """Return the log-probability of the possible labels, (S,)."""
        return answers.log_probability(self.log_weights())

    def fill_unknown(self, answers: Any) -> np.ndarray:
        """Return the labels (N,), with the most probable labels given the certain labels."""
        return np.where(self.certain(), self.numbers, answers.condition(self.log_weights()).best_labels())

    def log_weights(self) -> np.ndarray:
        """Return log q (N, L)."""
        return self.weights

    def list_observed_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return positions with their labels of at least a thousandth of the largest weight."""
        positions, labels = np.nonzero(find_shown_labels(self.weights) & (self.shares(self.weights.shape[1]) > 0))
        return positions, labels

    def labellings(self, members: np.ndarray, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return a row for each possible labelling of a clique."""
        return possible_labellings(self.weights, members)


class TargetRows(PartialRows):
    """Target probabilities of labels."""

    def __init__(self, numbers: np.ndarray, targets: SoftRows):
        super().__init__(numbers, targets.logs)
        self.targets = targets

    def check_learnable(self, message: str) -> None:
        """Accept the targets."""

    def informative(self) -> np.ndarray:
        """Return a mask of all positions."""
        return np.ones(len(self.numbers), dtype=bool)

    learnable = informative

    def shares(self, n_labels: int) -> np.ndarray:
        """Return the targets."""
        return self.targets.node

    def log_weights(self) -> np.ndarray:
        """Raise ValueError: targets have no likelihood."""
        return as_log_weights(self.numbers, self.targets, self.weights.shape[1])


def make_given_labels(numbers: np.ndarray, partial: LabelWeights) -> PartialRows:
    """Make given labels from packed numbers, and from weights or targets."""
    return TargetRows(numbers, partial) if isinstance(partial, SoftRows) else PartialRows(numbers, partial)
