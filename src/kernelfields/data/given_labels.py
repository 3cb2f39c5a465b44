"""Given labels of packed positions: known labels, partly known ones, or targets.

    KnownLabels     numbers of labels (N,)
    PartialRows     log q (N, L), up to a constant in each row; zero where a label may be any     partial_rows.py
    TargetRows      probabilities (N, L), and of neighbours (N, L, L)                             partial_rows.py

Whoever asks what labels are possible, certain or to be counted asks these objects, and not which of them it has. What a
fit is told of labels beside y is LabelsAlone, nothing, or a PartialLabels (models/partial.py).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kernelfields.data import label_forms


class GivenLabels(Protocol):
    """Given labels of N positions, of L labels; ``numbers`` (N,) are the most probable labels."""

    numbers: np.ndarray

    @property
    def complete(self) -> bool:
        """Whether each label is known."""
        ...

    @property
    def decided(self) -> np.ndarray | None:
        """The labels (N,); None unless all are known."""
        ...

    def check_complete(self, message: str) -> None:
        """Raise ValueError unless each label is known."""

    def check_learnable(self, message: str) -> None:
        """Raise ValueError unless each label is known or has a target."""

    def check_informative(self) -> None:
        """Raise ValueError if no label is known at all."""

    def certain(self) -> np.ndarray:
        """Return a mask (N,) of the positions with one possible label."""
        ...

    def informative(self) -> np.ndarray:
        """Return a mask (N,) of the positions with fewer than all labels possible."""
        ...

    def learnable(self) -> np.ndarray:
        """Return a mask (N,) of the positions with a known label or a target."""
        ...

    def get_truth(self) -> np.ndarray:
        """Return the true labels (N,), or their log-weights log q (N, L), for the evaluation of predictions."""
        ...

    def shares(self, n_labels: int) -> np.ndarray:
        """Return the known share of each label at each position, (N, L): rows add up to one, or are zero."""
        ...

    def totals(self, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Return the weight of each label, (L,), for weights (N,) of positions."""
        ...

    def possible(self, weights: np.ndarray) -> np.ndarray:
        """Return the sorted labels that positions may have."""
        ...

    def log_probability(self, answers: Any) -> np.ndarray:
        """Return the log-probability of the given labels, (S,), from answers about these labels."""
        ...

    def fill_unknown(self, answers: Any) -> np.ndarray:
        """Return labels (N,), with the most probable labels in place of unknown labels."""
        ...

    def list_observed_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and their labels; positions with several possible labels are repeated."""
        ...

    def labellings(self, members: np.ndarray, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return cliques (n,), None for all, and their possible labellings; ``members`` (n, k)."""
        ...


class KnownLabels:
    """A known label at each position."""

    complete = True

    def __init__(self, numbers: np.ndarray):
        self.numbers = numbers

    @property
    def decided(self) -> np.ndarray:
        """The labels (N,)."""
        return self.numbers

    def check_complete(self, message: str) -> None:
        """Accept the labels."""

    check_learnable = check_complete

    def check_informative(self) -> None:
        """Accept the labels."""

    def certain(self) -> np.ndarray:
        """Return a mask of all positions."""
        return np.ones(len(self.numbers), dtype=bool)

    informative = learnable = certain

    def get_truth(self) -> np.ndarray:
        """Return the labels."""
        return self.numbers

    def shares(self, n_labels: int) -> np.ndarray:
        """Return one for the label of a position and zero for the others."""
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

    def fill_unknown(self, answers: Any) -> np.ndarray:
        """Return the labels."""
        return self.numbers

    def list_observed_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all positions and their labels."""
        return np.arange(len(self.numbers)), self.numbers

    def labellings(self, members: np.ndarray, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the labelling of each clique."""
        return None, np.ravel_multi_index(tuple(self.numbers[members].T), (n_labels,) * members.shape[1])


def given_labels(numbers: np.ndarray, partial: label_forms.LabelWeights | None) -> GivenLabels:
    """Make given labels from packed numbers and weights."""
    return KnownLabels(numbers) if partial is None else label_forms.make_given_labels(numbers, partial)


class LabelsElsewhere:
    """Labels in parts, each in another process; some of them are assumed to be known."""

    def check_informative(self) -> None:
        """Accept the labels: other processes check them."""


class LabelsAlone:
    """No information about labels besides y; PartialLabels (models/partial.py) adds some."""

    #: All labels there are; None for those that y names.
    classes: Any = None

    @property
    def has_expected_shares(self) -> bool:
        """Whether the objective has expected shares of labels."""
        return False

    def check(self) -> None:
        """Raise if a parameter cannot be used."""

    def steps(self, data: Any, classes: np.ndarray) -> list:
        """Return the steps of a fit to data; ValueError if no label is known at all."""
        data.given.check_informative()
        return []


_NOTHING = LabelsAlone()


def resolve_partial_labels(settings: object) -> LabelsAlone:
    """Return the information about labels in ``partial_labels``; raise if it is not valid."""
    if settings is None:
        return _NOTHING
    if not isinstance(settings, LabelsAlone):
        raise TypeError(f"partial_labels must be None or a PartialLabels(...), got {settings!r}")
    settings.check()
    return settings
