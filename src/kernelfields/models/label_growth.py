"""New labels of a fitted field: the extension of everything that depends on the labels.

Classes are sorted, so that a label which is added moves the numbers of others: old label i is now places[i]. What a
fitted estimator keeps of its labels is listed once, where it admits classes (estimators/base.py):

    classes       (L,), sorted
    reader        the labels that words may have, by number
    spec          how many labels there are; masks of constraints, which are resolved again
    terms         scores of k labels: the old ones at the old labellings, zero where a label is new
    precisions    of constant terms: the old ones at the old labellings, that of the prior where a label is new
    choices       thresholds of rare labels; 1, which nothing exceeds, for new ones

With E the (M', M) places of the old labellings among those of more labels, A and A' the label factors, scores V A^T
become V' A'^T = V A^T E^T, and a precision K in label coordinates follows its coefficients:

    V' = V T,    K' = T^T K T + (I - T^T T) / s,    T = A^T E^T A'^+T

One table of scores for all labels (T = 1) is that of new labels, too. Cost: that of the tables, O(r L^k).
Raises ValueError for a label kernel given as a matrix, which has no rows for new labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelfields.data.whole_numbers import find_whole_places
from kernelfields.objective.term import Term, label_factor


@dataclass(frozen=True, eq=False)
class LabelGrowth:
    """New numbers ``places[i]`` of the old labels among ``n_labels``."""

    places: np.ndarray
    n_labels: int

    @classmethod
    def between(cls, before: np.ndarray, classes: np.ndarray) -> LabelGrowth:
        """Return the growth from sorted classes to a superset."""
        return cls(find_whole_places(classes, before), len(classes))

    def labellings(self, labels_per_clique: int) -> np.ndarray:
        """Return the new numbers of the old labellings of a clique: y_1 L^(k-1) + ... + y_k."""
        numbers = self.places
        for _ in range(labels_per_clique - 1):
            numbers = (numbers[:, None] * self.n_labels + self.places).ravel()
        return numbers

    def term(self, term: Term) -> Term:
        """Extend a fitted term by scores of zero for labellings with new labels."""
        factor = label_factor(term.clique, self.n_labels, term.pairs)
        return replace(term, label_factor=factor, coefficients=self._convert_coordinates(term, factor, term.known))

    def precisions(self, before: Sequence[Term], terms: Sequence[Term], known: Sequence[np.ndarray]) -> list:
        """Return the precisions of extended terms from the precisions ``before``."""
        return [self._precision(*own) for own in zip(before, terms, known, strict=True)]

    def _precision(self, before: Term, term: Term, known: np.ndarray) -> np.ndarray:
        if term.has_pivots:  # shared by all labels
            return known
        if term.label_factor is None:
            grown = np.full(term.known.shape[1], 1.0 / term.prior_variance)
            grown[self.labellings(term.labels_per_clique)] = known
            return grown
        moved = self._convert_coordinates(before, term.label_factor, np.eye(before.known.shape[1]))
        if has_separate_coordinates(term):
            return known @ moved**2 + (1.0 - (moved**2).sum(axis=0)) / term.prior_variance
        whole = known if known.ndim == 2 else np.diag(known)
        return moved.T @ whole @ moved + (np.eye(moved.shape[1]) - moved.T @ moved) / term.prior_variance

    def _convert_coordinates(self, term: Term, factor: np.ndarray | None, values: np.ndarray) -> np.ndarray:
        """Convert values (n, q) to the label coordinates of a factor for more labels."""
        if term.clique.one_table:
            return values
        table = np.zeros((len(values), term.clique.n_configurations(self.n_labels)))
        table[:, self.labellings(term.labels_per_clique)] = term.to_labellings(values)
        return table if factor is None else table @ np.linalg.pinv(factor).T


def has_separate_coordinates(term: Term) -> bool:
    """Whether each labelling has its own label coordinate, so that diagonals stay diagonal."""
    factor = term.label_factor
    return factor is None or bool((np.count_nonzero(factor, axis=1) <= 1).all())
