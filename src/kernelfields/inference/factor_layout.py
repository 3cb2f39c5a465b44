"""Factors of any order as single-site methods read them: which factors meet at a node, tables end to end.

    conditional score of label b at v given the others = node[v, b] + sum_{factors at v} table[.., b, ..]

Arrays: F factors of all groups one after the other, I = sum of their orders incidences. Tables are laid end to end
in one array, tied ones once; a single group is not copied. Cost: O(I) memory once, O(I L) time per sweep over the
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.inference.workers import Workers


class Incidence(NamedTuple):
    """Where nodes and factors meet, as compiled sweeps read it."""

    offsets: np.ndarray  # (S + 1,)
    node_start: np.ndarray  # (N + 1,), incidences of node v are node_start[v] .. node_start[v + 1] - 1
    factor_of: np.ndarray  # (I,)
    place_of: np.ndarray  # (I,), which axis of the factor's table belongs to the node
    start: np.ndarray  # (F + 1,), nodes of factor f are nodes[start[f]] .. nodes[start[f + 1] - 1]
    nodes: np.ndarray  # (I,)
    table_start: np.ndarray  # (F,), where the factor's table begins; filled per call


class FactorLayout:
    """Incidence of packed graphs, and the arrangement of their potentials."""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray]):
        self.members = tuple(members)
        n_nodes = int(offsets[-1])
        nodes = np.concatenate([np.zeros(0, np.int64), *(each.ravel() for each in members)])
        orders = np.concatenate([np.zeros(0, np.int64), *(np.full(len(m), m.shape[1]) for m in members)])
        start = np.concatenate([[0], np.cumsum(orders)])
        factor = np.repeat(np.arange(len(orders)), orders)
        by_node = np.argsort(nodes, kind="stable")
        self.incidence = Incidence(
            offsets,
            np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=n_nodes))]),
            factor[by_node],
            by_node - start[factor[by_node]],
            start,
            nodes,
            np.zeros(len(orders), np.int64),
        )
        #: Incidences at or before each graph's end, (S + 1,): the work of a sweep.
        self.work = self.incidence.node_start[offsets] + offsets

    def arrange(self, factors: Sequence[np.ndarray]) -> tuple[Incidence, np.ndarray]:
        """Return the incidence with the places of all tables, and the tables end to end."""
        places, begin = [np.zeros(0, np.int64)], 0
        for members, table in zip(self.members, factors, strict=True):
            size = int(np.prod(table.shape[1:]))
            rows = np.zeros(len(members), np.int64) if len(table) == 1 else np.arange(len(members))
            places.append(begin + size * rows)
            begin += table.size
        flat = [table.ravel() for table in factors]
        tables = flat[0] if len(flat) == 1 else np.concatenate([np.zeros(0), *flat])
        return self.incidence._replace(table_start=np.concatenate(places)), tables

    def runs(self, workers: Workers, n_labels: int) -> list[tuple[int, int]]:
        """Cut the graphs into runs of about equal work."""
        return workers.weighted_pieces(self.work, 10 * n_labels)


def climb(
    layout: FactorLayout,
    node: np.ndarray,
    factors: Sequence[np.ndarray],
    labels: np.ndarray,
    workers: Workers,
) -> tuple[np.ndarray, np.ndarray]:
    """Improve a labelling one node at a time until none helps; return it and its scores (S,).

    Where a forbidden combination remains, a search with growing penalties looks for an allowed labelling; the
    score is -inf if it finds none, which does not prove that there is none.
    """
    from kernelfields.inference.single_site import iterated_modes, labelling_scores, penalised_search

    incidence, tables = layout.arrange(factors)
    labels = np.array(labels, dtype=np.int64)
    scores = np.empty(len(incidence.offsets) - 1)

    def run(first: int, last: int) -> None:
        iterated_modes(first, last, incidence, node, tables, labels)
        labelling_scores(first, last, incidence, node, tables, labels, scores)
        penalised_search(first, last, incidence, node, tables, labels, scores)

    workers.each(run, layout.runs(workers, node.shape[1]))
    return labels, scores
