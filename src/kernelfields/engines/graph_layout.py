"""Where the scores of clique sets go in the potentials of graphs, and where their residuals come from.

    node    (N, L)                                     sets of single nodes, all of them or those at ``positions``
    factors (1, L, .., L) or (M_f, L, .., L)           sets of a group of factors, tied or one table each

A group is tied if no set of it sees inputs; then one table serves all its factors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.engines.placement import Placed
from kernelfields.engines.potentials import Potentials
from kernelfields.fields import Graphs


class GraphLayout:
    """The potentials of some graphs, given the clique sets that score them."""

    def __init__(self, graphs: Graphs, n_labels: int, sets: Sequence[Placed]):
        self.graphs = graphs
        self.n_labels = n_labels
        self.names = [factors.name for factors in graphs.factors]
        self.members = [factors.members for factors in graphs.factors]
        self.tied = [
            all(each.tied_everywhere for each in sets if each.group == factors.name) for factors in graphs.factors
        ]
        unknown = sorted({each.group for each in sets if each.group is not None} - set(self.names))
        if unknown:
            raise ValueError(
                f"the field scores factors named {unknown[0]!r}, and the graphs have none of that name: they have "
                f"{', '.join(map(repr, self.names)) or 'no factors at all'}"
            )

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        tables = [
            np.zeros((1 if tied else len(members),) + (self.n_labels,) * members.shape[1])
            for members, tied in zip(self.members, self.tied, strict=True)
        ]
        return Potentials(np.zeros((self.graphs.n_positions, self.n_labels)), *tables)

    def index(self, group: str) -> int:
        """Return the number of a group of factors."""
        return self.names.index(group)

    def add_scores(self, potentials: Potentials, each: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them."""
        if each.group is not None:
            table = potentials.factors[self.index(each.group)]
            table += scores.reshape((-1, *table.shape[1:]))
        elif each.positions is None:
            potentials.node[...] += scores
        else:
            potentials.node[each.positions] += scores

    def clique_residuals(self, residual: Potentials, each: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if it is tied."""
        if each.group is not None:
            rows = residual.factors[self.index(each.group)]
        else:
            rows = residual.node if each.positions is None else residual.node[each.positions]
        rows = rows.reshape(len(rows), self.n_labels**each.labels_per_clique)
        return rows.sum(axis=0, keepdims=True) if each.tied_everywhere else rows
