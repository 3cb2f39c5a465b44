"""Potentials of a field as one vector: arrays of scores for single labels and for labels that meet, and their layout.

    chains    node (N, L)    terms of single labels, at all positions or at some
              edge (1, L, L) or (N, L, L)                terms of neighbouring labels, tied or one table for each step
    graphs    node (N, L)    terms of single nodes, all of them or those at ``positions``
              factors (1, L, .., L) or (M_f, L, .., L)   terms of a group of factors, tied or one table each

A layout says where the scores of terms go and where their residuals come from. Transitions, or a group of factors,
are tied if no term of them sees inputs; then one table serves all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernelfields.fields.graphs import Graphs
from kernelfields.numerics.vectors import add_scaled, dot


class Placed(Protocol):
    """What a layout asks of a clique set, on training data or on new ones."""

    @property
    def labels_per_clique(self) -> int:
        """How many labels meet in a clique."""

    @property
    def group(self) -> str | None:
        """Name of the factors it scores; None for single labels."""

    @property
    def positions(self) -> np.ndarray | None:
        """The positions it scores; None for all."""

    @property
    def tied_everywhere(self) -> bool:
        """Whether the potential is one and the same at all cliques."""

    @property
    def outcomes(self) -> np.ndarray | None:
        """The labellings that tied scores are listed for; None where there is one for each of all labellings."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The place of a fitted set in new chains or graphs."""

    labels_per_clique: int
    group: str | None
    positions: np.ndarray | None
    tied_everywhere: bool
    outcomes: np.ndarray | None = None


class Potentials:
    """Scores of labels and of labels that meet, or a direction or gradient in them."""

    def __init__(self, *arrays: np.ndarray):
        self.arrays = arrays

    @property
    def node(self) -> np.ndarray:
        """Scores of single labels, (N, L)."""
        return self.arrays[0]

    @property
    def edge(self) -> np.ndarray:
        """Scores of neighbouring labels of chains, (1 or N, L, L)."""
        return self.arrays[1]

    @property
    def factors(self) -> tuple[np.ndarray, ...]:
        """Scores of labels that meet, one array for each group of factors."""
        return self.arrays[1:]

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return all(np.isfinite(each.sum()) for each in self.arrays)

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        return max(float(np.abs(each).max(initial=0.0)) for each in self.arrays)

    def moved(self, step: float, direction: Potentials) -> Potentials:
        """Return self + step * direction."""
        moved = Potentials(*(step * each for each in direction.arrays))
        for new, old in zip(moved.arrays, self.arrays, strict=True):
            new += old
        return moved

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            add_scaled(mine, step, theirs)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for each in self.arrays:
            each *= factor

    def dot(self, other: Potentials) -> float:
        """Return the inner product."""
        return sum(dot(mine, theirs) for mine, theirs in zip(self.arrays, other.arrays, strict=True))


class ChainLayout:
    """The potentials of N positions with L labels each."""

    def __init__(self, n_positions: int, n_labels: int, *, tied: bool):
        self.n_positions = n_positions
        self.n_labels = n_labels
        self.tied = tied

    @classmethod
    def of_terms(cls, n_positions: int, n_labels: int, placed: Sequence[Placed]) -> ChainLayout:
        """Return the layout that some clique sets need."""
        tied = all(term.tied_everywhere for term in placed if term.labels_per_clique == 2)
        return cls(n_positions, n_labels, tied=tied)

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        return Potentials(
            np.zeros((self.n_positions, self.n_labels)),
            np.zeros((1 if self.tied else self.n_positions, self.n_labels, self.n_labels)),
        )

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them."""
        target = potentials.node if term.labels_per_clique == 1 else potentials.edge
        scores = scores.reshape((-1, *target.shape[1:]))
        if term.positions is None or (term.labels_per_clique == 2 and term.tied_everywhere):
            target += scores
        else:
            target[term.positions] += scores

    def clique_residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if it is tied."""
        rows = residual.node if term.labels_per_clique == 1 else residual.edge
        summed = term.labels_per_clique == 2 and self.tied
        if term.positions is not None and not summed:
            rows = rows[term.positions]
        rows = rows.reshape(len(rows), self.n_labels**term.labels_per_clique)
        return rows.sum(axis=0, keepdims=True) if term.tied_everywhere and not summed else rows


class NgramLayout:
    """The potentials of chains whose labels meet in n-grams that see no inputs, one table for each length.

    node (N, L),  edge (1, L, L),  one table (1, P) for each length: a weight for every n-gram that some term lists

    Where edges see inputs, they are (M, L, L), without a row for the first position of a sequence.
    """

    def __init__(self, n_positions: int, n_sequences: int, n_labels: int, placed: Sequence[Placed]):
        self.n_positions = n_positions
        self.n_labels = n_labels
        self.tied = all(term.tied_everywhere for term in placed if term.labels_per_clique == 2)
        self._n_edges = 1 if self.tied else n_positions - n_sequences
        orders = {str(term.group): term.labels_per_clique for term in placed if term.labels_per_clique > 2}
        #: Groups of n-grams and the numbers of their labels, shortest first.
        self.groups = sorted(orders.items(), key=lambda item: item[1])
        #: Pairs of a length and the labellings that have weights, None for all.
        self.ngrams = [(length, _listed(group, placed)) for group, length in self.groups]

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        sizes = [self.n_labels**length if some is None else len(some) for length, some in self.ngrams]
        edge = np.zeros((self._n_edges, self.n_labels, self.n_labels))
        return Potentials(np.zeros((self.n_positions, self.n_labels)), edge, *(np.zeros((1, size)) for size in sizes))

    def index(self, group: str | None) -> int:
        """Return the number of a group of n-grams among the tables, edges having the first."""
        return 0 if group == "lag1" else 1 + [name for name, _ in self.groups].index(str(group))

    def places(self, term: Placed) -> slice | np.ndarray:
        """Return where the n-grams of a term stand in the table of their group."""
        some = self.ngrams[self.index(term.group) - 1][1]
        if some is None:
            return slice(None) if term.outcomes is None else term.outcomes
        assert term.outcomes is not None
        return slice(None) if len(some) == len(term.outcomes) else np.searchsorted(some, term.outcomes)

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L), or one row for all of them."""
        if term.labels_per_clique > 2:
            potentials.factors[self.index(term.group)][:, self.places(term)] += scores
        elif term.labels_per_clique == 2:
            potentials.edge[...] += scores.reshape(len(scores), self.n_labels, self.n_labels)
        elif term.positions is None:
            potentials.node[...] += scores
        else:
            potentials.node[term.positions] += scores

    def clique_residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L); summed over them if it is tied."""
        if term.labels_per_clique > 2:
            return residual.factors[self.index(term.group)][:, self.places(term)]
        if term.labels_per_clique == 2:
            rows = residual.edge.reshape(self._n_edges, self.n_labels**2)
        else:
            rows = residual.node if term.positions is None else residual.node[term.positions]
        return rows.sum(axis=0, keepdims=True) if term.tied_everywhere else rows


def _listed(group: str | None, placed: Sequence[Placed]) -> np.ndarray | None:
    """Return the labellings that the terms of a group list, sorted; None if one of them has weights for all."""
    lists = [term.outcomes for term in placed if term.group == group]
    if any(each is None for each in lists):
        return None
    return lists[0] if len(lists) == 1 else np.unique(np.concatenate([each for each in lists if each is not None]))


class GraphLayout:
    """The potentials of some graphs, given the clique sets that score them."""

    def __init__(self, graphs: Graphs, n_labels: int, placed: Sequence[Placed]):
        self.graphs = graphs
        self.n_labels = n_labels
        self.names = [factors.name for factors in graphs.factors]
        self.members = [factors.members for factors in graphs.factors]
        self.tied = [
            all(term.tied_everywhere for term in placed if term.group == factors.name) for factors in graphs.factors
        ]
        unknown = sorted({term.group for term in placed if term.group is not None} - set(self.names))
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

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them."""
        if term.group is not None:
            table = potentials.factors[self.index(term.group)]
            if term.outcomes is not None:
                table.reshape(len(table), -1)[:, term.outcomes] += scores
                return
            table += scores.reshape((-1, *table.shape[1:]))
        elif term.positions is None:
            potentials.node[...] += scores
        else:
            potentials.node[term.positions] += scores

    def clique_residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if it is tied."""
        if term.group is not None:
            rows = residual.factors[self.index(term.group)]
        else:
            rows = residual.node if term.positions is None else residual.node[term.positions]
        rows = rows.reshape(len(rows), self.n_labels**term.labels_per_clique)
        if term.outcomes is not None:
            rows = rows[:, term.outcomes]
        return rows.sum(axis=0, keepdims=True) if term.tied_everywhere else rows
