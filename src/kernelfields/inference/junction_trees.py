"""Exact inference on packed graphs of small treewidth, with factors of any order, by junction trees.

    plan = JunctionInference(offsets, members, n_labels)     width and memory are known, and checked, from here on
    beliefs = plan.infer(node, factors)

Arrays as in ``graph``; the equations are in ``junction_compiled``, the layout in ``junction_plans``. Everything stays in
the log domain until it is normalised, so potentials of any size are safe. Cost: sum over nodes of L^(1 + width at that
node) for each of log partition and marginals, gradient, Hessian product, decoding; memory the same.

Fails: TooWide (a MemoryError) before the work starts; ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kernelfields.inference.graph import GraphBeliefs, GraphInference
from kernelfields.inference.graph_packing import raise_if_infeasible_graph
from kernelfields.inference.junction_plans import TooWide, plan_junction
from kernelfields.inference.workers import Workers

__all__ = ["JunctionBeliefs", "JunctionInference", "TooWide"]

# Fewer table entries than this are not worth a run of their own; runs depend on nothing else, so that sums over
# them come out the same with any number of threads.
_ENTRIES_PER_RUN = 50_000
_MOST_RUNS = 64


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
        flat, item_offset = inference.flat_tables(tables, self.tied)
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


class JunctionInference(GraphInference):
    """Exact inference by junction trees; ``plan.width`` and ``plan.memory`` say what it takes."""

    method = "junction"
    exact = True
    bound = "exact"

    def __init__(
        self,
        offsets: np.ndarray,
        members: Sequence[np.ndarray],
        n_labels: int,
        *,
        memory: float | None = None,
        order: np.ndarray | None = None,
    ):
        super().__init__(offsets, members, n_labels)
        self.plan = plan_junction(offsets, members, n_labels, memory, order)
        self.runs = self._cut()
        self._run_numbers = {first: number for number, (first, _) in enumerate(self.runs)}
        self.description = (
            f"junction trees of width {self.plan.width} with {n_labels} labels: exact, "
            f"at most {self.plan.memory / 1024**2:.3g} MiB of tables"
        )

    def _cut(self) -> list[tuple[int, int]]:
        ends = self.plan.layout.table_start[self.offsets]
        wanted = max(1, min(self.n_graphs, _MOST_RUNS, int(ends[-1]) // _ENTRIES_PER_RUN))
        inner = np.searchsorted(ends, np.linspace(0, ends[-1], wanted + 1)[1:-1])
        return list(pairwise(np.unique([0, *inner.tolist(), self.n_graphs]).tolist()))

    def run_number(self, first: int) -> int:
        """Return which run starts at a graph."""
        return self._run_numbers[first]

    def flat_tables(self, tables: Sequence[np.ndarray], tied: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
        """Return all groups' tables end to end, and where among them the table of each item starts."""
        layout = self.plan.layout
        bases = np.cumsum([0, *(table.size for table in tables)])
        entries = self._entries() * ~np.array(tied, dtype=np.bool_)
        item_offset = bases[layout.item_group] + entries[layout.item_group] * layout.item_factor
        if len(tables) == 1:
            return tables[0].reshape(-1), item_offset
        return np.concatenate([np.zeros(0), *(table.reshape(-1) for table in tables)]), item_offset

    def _entries(self) -> np.ndarray:
        return np.array([self.n_labels ** each.shape[1] for each in self.members], dtype=np.int64)

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> JunctionBeliefs:
        """Compute log partition functions and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        from kernelfields.inference.junction_compiled import downward

        weights = self.check_weights(weights)
        workers = workers or Workers(1)
        node, tied, tables, log_partition = self._condition(node, factors, workers)
        layout = self.plan.layout
        separators = np.zeros(layout.separator_start[-1])
        marginals = np.empty_like(node)
        workers.each(
            lambda first, last: downward(first, last, self.offsets, layout, tables, separators, marginals),
            self.runs,
        )
        return JunctionBeliefs(
            self,
            log_partition,
            marginals,
            tied=tied,
            weights=weights,
            tables=tables,
            separators=separators,
            workers=workers,
        )

    def _condition(self, node, factors, workers):
        """Run the upward pass: return potentials as checked, the tables q, and log partition functions."""
        from kernelfields.inference.junction_compiled import upward

        node, checked, tied = self.check_potentials(node, factors)
        flat, item_offset = self.flat_tables(checked, tied)
        layout = self.plan.layout
        tables, messages = np.empty(layout.table_start[-1]), np.empty(layout.separator_start[-1])
        log_partition = np.empty(self.n_graphs)
        workers.each(
            lambda first, last: upward(
                first, last, self.offsets, layout, node, flat, item_offset, tables, messages, log_partition
            ),
            self.runs,
        )
        raise_if_infeasible_graph(log_partition)
        return node, tied, tables, log_partition

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score per graph (S,); ties have a fixed winner."""
        from kernelfields.inference.junction_compiled import best_labelling

        node, checked, tied = self.check_potentials(node, factors)
        flat, item_offset = self.flat_tables(checked, tied)
        layout = self.plan.layout
        messages = np.empty(layout.separator_start[-1])
        choices = np.empty(layout.separator_start[-1], dtype=np.int32)
        labels, scores = np.zeros(self.n_nodes, dtype=np.int64), np.empty(self.n_graphs)
        (workers or Workers(1)).each(
            lambda first, last: best_labelling(
                first, last, self.offsets, layout, node, flat, item_offset, messages, choices, labels, scores
            ),
            self.runs,
        )
        raise_if_infeasible_graph(scores)
        return labels, scores

    def sample(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw independent labellings (n_samples, N) from p(y)."""
        from kernelfields.inference.junction_compiled import draw_labellings

        if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        _, _, tables, _ = self._condition(node, factors, Workers(1))
        uniforms = np.random.default_rng(random).random((n_samples, self.n_nodes))
        labels = np.zeros((n_samples, self.n_nodes), dtype=np.int64)
        draw_labellings(0, self.n_graphs, self.offsets, self.plan.layout, tables, uniforms, labels)
        return labels


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
        self.targets = self._starts[layout.item_group] + rows * inference._entries()[layout.item_group]
        self._sizes = sizes

    def tables(self) -> list[np.ndarray]:
        """Return the sums in the shapes of the potentials."""
        summed = self.by_run.sum(axis=0)
        return [
            (summed if tied else self.own)[start : start + size].reshape(shape)
            for tied, start, size, shape in zip(self._tied, self._starts, self._sizes, self._shapes, strict=True)
        ]
