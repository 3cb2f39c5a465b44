"""Base measures p0(y): allowed labels and their weights, before any potential.

    log p0(y) = sum_t position_t(y_t) + sum_{t not a start} step(y_{t-1}, y_t)

One place holds all of it: constraints (labels that may not begin, end, occur or follow each other), lists of allowed
labels, known labels and weights of labels, messages of annotators. Minus infinity forbids. A base measure is multiplied
into a family of labellings; :meth:`BaseMeasure.multiply` multiplies it by further weights.

Arrays: position (N, L), step (L, L), offsets (S + 1,).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.data import label_forms
from kernelfields.data.any_labels import ANY_LABELS, Allowed
from kernelfields.inference import chain

if TYPE_CHECKING:
    from kernelfields.data.constraints import ConstraintMasks


@dataclass(frozen=True, eq=False)
class BaseMeasure:
    """Set the allowed labels of items, and their weights, before any potential.

    Parameters
    ----------
    offsets : array (S + 1,)
        The row at which each item begins, and N.
    n_labels : int
        The number of labels.
    masks : ConstraintMasks, optional
        Labels and transitions that constraints forbid.
    allowed : AllowedLabels, optional
        The labels that positions may have; by default any.
    log_weights : array (N, L), optional
        The logarithms of the weights of labels; zero by default.
    step_penalties : array (L, L), optional
        Penalties of neighbouring labels; by default those of the constraints.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.data import resolve_constraints
    >>> from kernelfields.inference import BaseMeasure, ChainFamily
    >>> masks = resolve_constraints([("a", "b")], np.array(["a", "b"]))
    >>> family = ChainFamily(np.array([0, 2]), 2, base=BaseMeasure(np.array([0, 2]), 2, masks))
    >>> np.exp(family.log_labellings()).round()  # three of the four labellings are left
    array([3.])
    """

    offsets: np.ndarray
    n_labels: int
    masks: ConstraintMasks | None = None
    allowed: Allowed = ANY_LABELS
    log_weights: np.ndarray | None = None
    step_penalties: np.ndarray | None = None

    def multiply(self, log_weights: np.ndarray) -> BaseMeasure:
        """Return the measure multiplied by weights of single labels.

        Parameters
        ----------
        log_weights : array (N, L)
            The logarithms of the weights of labels; minus infinity forbids.

        Returns
        -------
        BaseMeasure
            The product.
        """
        both = log_weights if self.log_weights is None else self.log_weights + log_weights
        return replace(self, log_weights=both)

    def part(self, first: int, last: int) -> BaseMeasure:
        """Return the measure of items first..last-1.

        Parameters
        ----------
        first : int
            The first item.
        last : int
            The item after the last.

        Returns
        -------
        BaseMeasure
            The measure of the part.
        """
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        return replace(
            self,
            offsets=self.offsets[first : last + 1] - rows.start,
            allowed=self.allowed[rows],
            log_weights=None if self.log_weights is None else self.log_weights[rows],
        )

    def gather(self, rows: np.ndarray, offsets: np.ndarray) -> BaseMeasure:
        """Return the measure of items that consist of some rows.

        Parameters
        ----------
        rows : array (n,)
            Numbers of rows.
        offsets : array
            The offsets of the items in these rows.

        Returns
        -------
        BaseMeasure
            The measure of the items.
        """
        return replace(
            self,
            offsets=offsets,
            allowed=self.allowed[rows],
            log_weights=None if self.log_weights is None else self.log_weights[rows],
        )

    @cached_property
    def step(self) -> np.ndarray | None:
        """Penalties of neighbouring labels, (L, L); None if all pairs are allowed."""
        if self.step_penalties is not None:
            return self.step_penalties
        return self.masks.edge if self.masks is not None and self.masks.edge.any() else None

    @property
    def _has_position_constraints(self) -> bool:
        """Whether constraints forbid labels at all positions, the first or the last."""
        masks = self.masks
        return masks is not None and bool(masks.label.any() or masks.start.any() or masks.end.any())

    @property
    def is_trivial(self) -> bool:
        """Whether all labellings have the same weight."""
        return self.has_only_constraints and self.step is None and not self._has_position_constraints

    @property
    def has_only_constraints(self) -> bool:
        """Whether the measure consists of constraints alone, equal for all items of one length."""
        return not self.allowed.restrict and self.log_weights is None

    @property
    def has_forbidden_labellings(self) -> bool:
        """Whether some labellings are forbidden."""
        weights = self.log_weights
        barred = weights is not None and bool(np.isneginf(weights.min(initial=0.0)))
        return self.allowed.restrict or self.step is not None or self._has_position_constraints or barred

    @cached_property
    def position(self) -> np.ndarray | None:
        """Log-weights of the labels of every position, (N, L); None if all weights are equal."""
        weights = self.allowed.penalize(self.log_weights)
        if not self._has_position_constraints:
            return weights
        assert self.masks is not None
        if weights is None:
            weights = np.zeros((int(self.offsets[-1]), self.n_labels))
        elif weights is self.log_weights:
            weights = weights.copy()
        return self.masks.apply(weights, self.offsets)

    @cached_property
    def lists(self) -> label_forms.AllowedLabels | None:
        """The allowed labels of each position; None without such lists."""
        if self.has_only_constraints:
            return None
        lists = self.allowed.possible(self.log_weights)
        masks = self.masks
        if lists is None or masks is None or not self._has_position_constraints:
            return lists
        return lists.without_barred(masks.label, masks.start, masks.end, self.offsets)

    def dead_rows(self) -> np.ndarray:
        """Return for each item the first row up to which every labelling is forbidden.

        Returns
        -------
        array (S,)
            The rows; -1 if a labelling is possible.
        """
        lists, none = self.lists, np.full(len(self.offsets) - 1, -1)
        if lists is None:
            if self.masks is None or not self.has_forbidden_labellings:
                return none
            barred = np.isneginf(self.masks.log_labellings(np.diff(self.offsets)))
            return np.where(barred, self.offsets[1:] - 1, -1)
        if self.step is None and np.diff(lists.begin).all():
            return none
        steps = np.ones((self.n_labels, self.n_labels), dtype=bool) if self.step is None else self.step == 0
        return chain.lists_compiled.lost_rows(self.offsets, (lists.begin, lists.labels.view(np.uint32)), steps)

    def label_scores(self, labels: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Compute log p0 of a labelling of each item.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.
        steps : array (M, 2)
            Rows, and the rows after them.

        Returns
        -------
        array (S,)
            The logarithms.
        """
        scores = np.zeros(len(labels))
        if self.position is not None:
            scores += self.position[np.arange(len(labels)), labels]
        if self.step is not None:
            # Several steps may lead to one row.
            np.add.at(scores, steps[:, 1], self.step[labels[steps[:, 0]], labels[steps[:, 1]]])
        return np.add.reduceat(scores, self.offsets[:-1])
