"""Where the scores of clique sets go in the potentials of chains, and where their residuals come from.

    node (N, L)                      sets of single labels, at all positions or at some
    edge (1, L, L) or (N, L, L)      sets of neighbouring labels, tied or one table for each step into t

The transitions are tied if no set of them sees inputs; then one table serves all positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.engines.placement import Placed
from kernelfields.engines.potentials import Potentials


class ChainLayout:
    """The potentials of N positions with L labels each."""

    def __init__(self, n_positions: int, n_labels: int, *, tied: bool):
        self.n_positions = n_positions
        self.n_labels = n_labels
        self.tied = tied

    @classmethod
    def of_sets(cls, n_positions: int, n_labels: int, sets: Sequence[Placed]) -> ChainLayout:
        """Return the layout that some clique sets need."""
        tied = all(each.tied_everywhere for each in sets if each.labels_per_clique == 2)
        return cls(n_positions, n_labels, tied=tied)

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        return Potentials(
            np.zeros((self.n_positions, self.n_labels)),
            np.zeros((1 if self.tied else self.n_positions, self.n_labels, self.n_labels)),
        )

    def add_scores(self, potentials: Potentials, each: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them."""
        target = potentials.node if each.labels_per_clique == 1 else potentials.edge
        scores = scores.reshape((-1, *target.shape[1:]))
        if each.positions is None or (each.labels_per_clique == 2 and each.tied_everywhere):
            target += scores
        else:
            target[each.positions] += scores

    def clique_residuals(self, residual: Potentials, each: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if it is tied."""
        rows = residual.node if each.labels_per_clique == 1 else residual.edge
        summed = each.labels_per_clique == 2 and self.tied
        if each.positions is not None and not summed:
            rows = rows[each.positions]
        rows = rows.reshape(len(rows), self.n_labels**each.labels_per_clique)
        return rows.sum(axis=0, keepdims=True) if each.tied_everywhere and not summed else rows
