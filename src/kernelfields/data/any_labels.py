"""All labels at all positions: what lists of allowed labels (allowed.py) answer where there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from kernelfields.data import label_forms


@dataclass(frozen=True, eq=False)
class AnyLabels:
    """All labels at all positions: there are no lists."""

    #: Whether some labels are not allowed somewhere.
    restrict: ClassVar[bool] = False
    #: The pairs of labels that neighbours may have, for each position: as many as there are.
    step_pairs: ClassVar[float] = np.inf
    begin: ClassVar[np.ndarray] = np.empty(0, dtype=np.int64)
    labels: ClassVar[np.ndarray] = np.empty(0, dtype=np.int32)

    def __getitem__(self, rows: np.ndarray | slice) -> AnyLabels:
        """Return itself: no position has a list."""
        return self

    def check_labels(self, n_labels: int) -> None:
        """Accept any number of labels."""

    def is_allowed(self, labels: np.ndarray) -> np.ndarray:
        """Return a mask (N,) of positions whose given label is allowed."""
        return np.ones(len(labels), dtype=bool)

    def with_allowed(self, labels: np.ndarray) -> AnyLabels:
        """Add the given label (N,) of each position to the allowed labels."""
        return self

    def representatives(self, lengths: np.ndarray) -> np.ndarray:
        """Return one item of each length: items of one length have the same labellings."""
        return np.unique(lengths, return_index=True)[1]

    def penalties(self) -> np.ndarray | None:
        """Return None: no label has a penalty."""
        return None

    def penalize(self, log_weights: np.ndarray | None) -> np.ndarray | None:
        """Return log-weights of labels (N, L) with minus infinity for labels that are not allowed."""
        return log_weights

    def possible(self, log_weights: np.ndarray | None) -> label_forms.AllowedLabels | None:
        """Return the labels of finite log-weight (N, L) as lists; None if all labels are possible."""
        if log_weights is None or not np.isneginf(log_weights.min(initial=0.0)):
            return None
        return label_forms.AllowedLabels.from_mask(log_weights > -np.inf)


#: Where there are no lists.
ANY_LABELS = AnyLabels()

#: The labels that positions may have: any, or those of lists.
Allowed: TypeAlias = "AnyLabels | label_forms.AllowedLabels"
