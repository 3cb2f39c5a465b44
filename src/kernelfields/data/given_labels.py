"""What is given of the labels of packed positions: each label, what is known of it, or a target in its place.

    KnownLabels     numbers of labels (N,)
    PartialRows     log q (N, L), up to a constant in each row; zero where a label may be any     partial_labels.py
    TargetRows      probabilities (N, L), and of neighbours (N, L, L)

Whoever asks what labels are possible, certain or to be counted asks these objects, and not which of them it has. What a
fit is told of labels beside y is LabelsAlone, nothing, or a PartialLabels (models/partial.py).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kernelfields.data.partial_labels import (
    LabelWeights,
    SoftRows,
    as_log_weights,
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

    @property
    def decided(self) -> np.ndarray | None:
        """The labels (N,), None unless each is known."""
        ...

    def check_complete(self, message: str) -> None:
        """Raise ValueError unless each label is known."""

    def check_learnable(self, message: str) -> None:
        """Raise ValueError unless each label is known or has a target."""

    def check_informative(self) -> None:
        """Raise ValueError if nothing is known of any label."""

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

    def possible(self, weights: np.ndarray) -> np.ndarray:
        """Return the sorted labels that positions may have; where labels are known, those with a positive weight."""
        ...

    def log_probability(self, answers: Any) -> np.ndarray:
        """Return log p(what is given | x), (S,), from answers about these labels."""
        ...

    def completed(self, answers: Any) -> np.ndarray:
        """Return the labels (N,), in the place of unknown ones the most probable, given those that are known."""
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

    @property
    def decided(self) -> np.ndarray:
        """The labels (N,)."""
        return self.numbers

    def check_complete(self, message: str) -> None:
        """Raise nothing."""

    check_learnable = check_complete

    def check_informative(self) -> None:
        """Raise nothing."""

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

    def possible(self, weights: np.ndarray) -> np.ndarray:
        """Return the sorted labels of the positions with a positive weight."""
        return np.unique(self.numbers[weights > 0])

    def log_probability(self, answers: Any) -> np.ndarray:
        """Return log p(labels | x), (S,)."""
        return answers.label_scores(answers.data.labelling) - answers.log_partition

    def completed(self, answers: Any) -> np.ndarray:
        """Return the labels."""
        return self.numbers

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all positions and their labels."""
        return np.arange(len(self.numbers)), self.numbers

    def labellings(self, members: np.ndarray, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the labelling of each clique."""
        return None, np.ravel_multi_index(tuple(self.numbers[members].T), (n_labels,) * members.shape[1])


class PartialRows:
    """Weights of the labels that a position may have."""

    complete = False
    decided = None

    def __init__(self, numbers: np.ndarray, weights: np.ndarray):
        self.numbers, self.weights = numbers, weights

    def check_complete(self, message: str) -> None:
        """Raise ValueError with a message."""
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

    def possible(self, weights: np.ndarray) -> np.ndarray:
        """Return the sorted labels that positions may have, whatever these weigh."""
        return np.flatnonzero((self.weights > -np.inf).any(axis=0))

    def log_probability(self, answers: Any) -> np.ndarray:
        """Return log p(what is known of labels | x), (S,)."""
        return answers.log_probability(self.log_weights())

    def completed(self, answers: Any) -> np.ndarray:
        """Return the labels that are certain, and the most probable ones in their company."""
        return np.where(self.certain(), self.numbers, answers.given(self.log_weights()).best_labels())

    def log_weights(self) -> np.ndarray:
        """Return log q (N, L)."""
        return self.weights

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

    def check_learnable(self, message: str) -> None:
        """Raise nothing."""

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


def given_labels(numbers: np.ndarray, partial: LabelWeights | None) -> KnownLabels | PartialRows | TargetRows:
    """Return what is given of labels, of numbers and weights as they are packed."""
    if partial is None:
        return KnownLabels(numbers)
    return TargetRows(numbers, partial) if isinstance(partial, SoftRows) else PartialRows(numbers, partial)


class LabelsElsewhere:
    """Labels that lie in parts, each with a process of its own: something is taken to be known of them."""

    def check_informative(self) -> None:
        """Raise nothing."""


class LabelsAlone:
    """What a fit is told of labels beside y: nothing. PartialLabels (models/partial.py) says more."""

    #: All labels there are; None for those that y names.
    classes: Any = None

    @property
    def expects_shares(self) -> bool:
        """Whether the objective has expected shares of labels."""
        return False

    def check(self) -> None:
        """Raise if a parameter cannot be used."""

    def steps(self, data: Any, classes: np.ndarray) -> list:
        """Return the steps of a fit to data; ValueError if labels could be anything."""
        data.given.check_informative()
        return []


_NOTHING = LabelsAlone()


def stated_labels(settings: object) -> LabelsAlone:
    """Return what ``partial_labels`` says, None for nothing; raise if it cannot be used."""
    stated = _NOTHING if settings is None else settings
    if not isinstance(stated, LabelsAlone):
        raise TypeError(f"partial_labels must be None or a PartialLabels(...), got {settings!r}")
    stated.check()
    return stated
