"""What calibrated junction trees know: marginals of factors, gradients, Hessian products.

Kept are the conditional tables q and the separator marginals S of ``junction_compiled``; everything else is
summed from them when asked for. Each costs a pass over the clique tables; a Hessian product needs a second set
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.inference.graph import GraphBeliefs

if TYPE_CHECKING:
    from kernelfields.inference.junction_trees import JunctionInference


class JunctionBeliefs(GraphBeliefs):
    """Calibrated cliques: conditional tables q and separator marginals S; see ``junction_compiled``."""

    inference: JunctionInference

    def __init__(self, inference, log_partition, node_marginals, *, tied, weights, tables, separators, workers):
        super().__init__(inference, log_partition, node_marginals, tied=tied, weights=weights)
        self._tables = tables
        self._separators = separators
        self._workers = workers

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        layout = self.inference.plan.layout
        marginals = np.zeros(self.inference.table_shape(group, False))
        entries = self.inference.n_labels ** self.inference.members[group].shape[1]
        targets = np.where(layout.item_group == group, layout.item_factor * entries, -1)
        own, flat = np.zeros(len(targets), dtype=np.bool_), marginals.reshape(-1)
        self._add_marginals(np.ones(self.inference.n_graphs), targets, own, flat, np.zeros((1, 0)))
        return marginals

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the gradient of the weighted log partition in (node, factors), shaped like them."""
        sums = _FactorSums(self.inference, self.tied)
        self._add_marginals(self._graph_weights(), sums.targets, sums.shared, sums.own, sums.by_run)
        return self._weighted(self.node_marginals, self.inference.node_graphs), sums.tables()

    def _graph_weights(self) -> np.ndarray:
        return np.ones(self.inference.n_graphs) if self.weights is None else self.weights

    def _add_marginals(self, weights, targets, shared, own, by_run):
        from kernelfields.inference.junction_compiled import factor_sums

        inference = self.inference

        def run(first: int, last: int) -> None:
            factor_sums(
                first,
                last,
                inference.offsets,
                inference.plan.layout,
                self._tables,
                self._separators,
                weights,
                targets,
                shared,
                own,
                by_run[inference.run_number(first) if len(by_run) > 1 else 0],
            )

        self._workers.each(run, inference.runs)

    def hessian_product(
        self, d_node: np.ndarray, d_factors: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        from kernelfields.inference.junction_compiled import belief_responses, score_expectations

        d_node, tables = self._check_direction(d_node, d_factors)
        inference = self.inference
        layout = inference.plan.layout
        flat, item_offset = end_to_end(tables), inference.item_offsets(tables)
        weights = self._graph_weights()
        expected, centres = np.zeros_like(self._separators), np.zeros(inference.n_nodes)
        d_separators = np.zeros_like(self._separators)
        responses = np.empty_like(self._tables)
        d_marginals = np.empty_like(self.node_marginals)
        sums = _FactorSums(inference, self.tied)

        def run(first: int, last: int) -> None:
            score_expectations(
                first,
                last,
                inference.offsets,
                layout,
                d_node,
                flat,
                item_offset,
                self._tables,
                expected,
                centres,
                responses,
            )
            belief_responses(
                first,
                last,
                inference.offsets,
                layout,
                self._tables,
                self._separators,
                expected,
                centres,
                responses,
                d_separators,
                weights,
                d_marginals,
                sums.targets,
                sums.shared,
                sums.own,
                sums.by_run[inference.run_number(first)],
            )

        self._workers.each(run, inference.runs)
        return d_marginals, sums.tables()


def end_to_end(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return the tables of all groups as one flat array, a view if there is only one."""
    if len(tables) == 1:
        return tables[0].reshape(-1)
    return np.concatenate([np.zeros(0), *(table.reshape(-1) for table in tables)])


class _FactorSums:
    """Where sums over factors go: a row per factor for untied groups, a table per run of graphs for tied ones."""

    def __init__(self, inference: JunctionInference, tied: Sequence[bool]):
        layout = inference.plan.layout
        self._shapes = [inference.table_shape(group, each) for group, each in enumerate(tied)]
        self._tied = np.array(tied, dtype=np.bool_)
        sizes = np.array([int(np.prod(shape)) for shape in self._shapes], dtype=np.int64)
        self._starts = np.zeros(len(sizes), dtype=np.int64)
        for kind in (True, False):
            chosen = self._tied == kind
            self._starts[chosen] = np.cumsum(sizes[chosen]) - sizes[chosen]
        self.own = np.zeros(int(sizes[~self._tied].sum()))
        self.by_run = np.zeros((len(inference.runs), int(sizes[self._tied].sum())))
        self.shared = self._tied[layout.item_group]
        rows = np.where(self.shared, 0, layout.item_factor)
        self.targets = self._starts[layout.item_group] + rows * inference.entries()[layout.item_group]
        self._sizes = sizes

    def tables(self) -> list[np.ndarray]:
        """Return the sums in the shapes of the potentials."""
        summed = self.by_run.sum(axis=0)
        return [
            (summed if tied else self.own)[start : start + size].reshape(shape)
            for tied, start, size, shape in zip(self._tied, self._starts, self._sizes, self._shapes, strict=True)
        ]
