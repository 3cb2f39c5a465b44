"""Exact inference on packed graphs of small treewidth, with factors of any order, by junction trees.

    plan = JunctionInference(offsets, members, n_labels)     width and memory are known, and checked, from here on
    beliefs = plan.infer(node, factors)

Arrays as in inference/beliefs.py, the equations in passes_compiled.py, the layout of tables in plan.py. The way up
runs in the range of doubles, with tables exponentiated once, and in the log domain for graphs that doubles cannot
hold: so potentials of any size are safe. Beliefs keep the conditional tables q and the separator marginals S;
marginals of factors, gradients and Hessian products are summed from them when asked for.

Cost: the sum over nodes of L^(1 + later neighbours), a pass over the clique tables, for log partition and
marginals, gradient, Hessian product, decoding alike; memory the same, a copy of the potentials of factors, and a
second set of tables for a Hessian product.

Fails: TooWide (a MemoryError) before the work starts; ValueError naming the graph where every labelling is
forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.inference.beliefs import GraphBeliefs, GraphInference, GraphPotentials
from kernelfields.inference.junction.orders import TooWide
from kernelfields.inference.junction.plan import plan_junction
from kernelfields.inference.packing import InfeasibleGraph, end_to_end, raise_if_infeasible
from kernelfields.numerics.threads import Workers

__all__ = ["JunctionBeliefs", "JunctionInference", "TooWide"]

# Fewer table entries than this are not worth a run of their own; runs depend on nothing else, so that sums over
# them come out the same with any number of threads.
_ENTRIES_PER_RUN = 50_000
_MOST_RUNS = 64


class Derivatives(NamedTuple):
    """Derivatives along a direction, filled by compiled passes; passes_compiled.py has the equations."""

    tables: np.ndarray  # (entries of cliques,), r on the way up, dB on the way down
    expected: np.ndarray  # (entries of separators,), E_i less its mean
    centres: np.ndarray  # (N,), that mean
    separators: np.ndarray  # (entries of separators,), dS
    node: np.ndarray  # (N, L), of the weighted marginals


class ItemSums(NamedTuple):
    """Sums over factors, and where each item of the ``Layout``, a factor that a clique takes up, adds to them."""

    start: np.ndarray  # (items,), first entry of the item's table among the sums, -1 where it is not wanted
    tied: np.ndarray  # (items,), whether that is in by_group
    by_factor: np.ndarray  # flat tables of untied groups, one per factor
    by_group: np.ndarray  # flat tables of tied groups, one per group; of one run of graphs


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
        #: Number of entries of a table of each group.
        self.entries = np.array([n_labels ** each.shape[1] for each in members], dtype=np.int64)
        self.description = (
            f"junction trees of width {self.plan.width} with {n_labels} labels: exact, "
            f"at most {self.plan.memory / 1024**2:.3g} MiB of tables"
        )

    def _cut(self) -> list[tuple[int, int]]:
        ends = self.plan.layout.table_start[self.offsets]
        wanted = max(1, min(self.n_graphs, _MOST_RUNS, int(ends[-1]) // _ENTRIES_PER_RUN))
        inner = np.searchsorted(ends, np.linspace(0, ends[-1], wanted + 1)[1:-1])
        return list(pairwise(np.unique([0, *inner.tolist(), self.n_graphs]).tolist()))

    def item_places(self, tables: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray:
        """Return where each item's table starts when the tables of all groups, of these sizes, are end to end."""
        group, factor = self.plan.layout.item_group, self.plan.layout.item_factor
        counts = np.array([len(table) for table in tables], dtype=np.int64)
        bases = np.cumsum(counts * sizes) - counts * sizes
        return bases[group] + np.where(counts > 1, sizes, 0)[group] * factor

    def _infer(self, given: GraphPotentials, workers: Workers) -> JunctionBeliefs:
        from kernelfields.inference.junction.passes_compiled import downward

        layout = self.plan.layout
        tables, log_partition = self._condition(given, workers)
        separators, marginals = np.zeros(layout.separator_start[-1]), np.empty_like(given.node)
        workers.each(
            lambda first, last: downward(first, last, self.offsets, layout, tables, separators, marginals), self.runs
        )
        return JunctionBeliefs(self, given, log_partition, marginals, tables, separators, workers)

    def _condition(self, given: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Run the upward pass: return the tables q and log partition functions."""
        from kernelfields.inference.junction.passes_compiled import condition, condition_scaled
        from kernelfields.inference.tree.passes_compiled import exponentials

        offsets, layout, node = self.offsets, self.plan.layout, given.node
        tables, messages = np.empty(layout.table_start[-1]), np.empty(layout.separator_start[-1])
        log_partition = np.empty(self.n_graphs)
        values, shifts = exponentials(given.tables, workers)
        places = self.item_places(given.tables, self.entries)
        item_shift = shifts[self.item_places(given.tables, np.ones_like(self.entries))]

        def run(first: int, last: int) -> None:
            factors = values, places, item_shift
            condition_scaled(first, last, offsets, layout, node, *factors, tables, messages, log_partition)

        def run_in_logarithms(first: int, last: int) -> None:
            condition(first, last, offsets, layout, node, flat, places, tables, messages, log_partition)

        workers.each(run, self.runs)
        troubled = np.flatnonzero(np.isnan(log_partition)).tolist()
        if troubled:
            flat = end_to_end(given.tables)
            workers.each(run_in_logarithms, [(graph, graph + 1) for graph in troubled])
        raise_if_infeasible(log_partition, InfeasibleGraph)
        return tables, log_partition

    def _decode(self, given: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        from kernelfields.inference.junction.passes_compiled import best_labelling

        offsets, layout = self.offsets, self.plan.layout
        potentials = given.node, end_to_end(given.tables), self.item_places(given.tables, self.entries)
        messages = np.empty(layout.separator_start[-1])
        choices = np.empty(layout.separator_start[-1], dtype=np.int32)
        labels, scores = np.zeros(self.n_nodes, dtype=np.int64), np.empty(self.n_graphs)
        workers.each(
            lambda first, last: best_labelling(
                first, last, offsets, layout, *potentials, messages, choices, labels, scores
            ),
            self.runs,
        )
        raise_if_infeasible(scores, InfeasibleGraph)
        return labels, scores

    def _sample(self, given: GraphPotentials, n_samples: int, random: np.random.Generator) -> np.ndarray:
        from kernelfields.inference.junction.passes_compiled import draw_labellings

        tables, _ = self._condition(given, Workers(1))
        uniforms = random.random((n_samples, self.n_nodes))
        labels = np.zeros((n_samples, self.n_nodes), dtype=np.int64)
        draw_labellings(0, self.n_graphs, self.offsets, self.plan.layout, tables, uniforms, labels)
        return labels


class JunctionBeliefs(GraphBeliefs):
    """Calibrated cliques: conditional tables q and separator marginals S; see passes_compiled.py."""

    inference: JunctionInference

    def __init__(self, inference, given, log_partition, node_marginals, tables, separators, workers):
        super().__init__(inference, given, log_partition, node_marginals, workers)
        self._tables = tables
        self._separators = separators

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        layout = self.inference.plan.layout
        marginals = np.zeros(self.inference.table_shape(group, False))
        targets = np.where(layout.item_group == group, layout.item_factor * self.inference.entries[group], -1)
        sums = ItemSums(targets, np.zeros(len(targets), dtype=np.bool_), marginals.reshape(-1), np.zeros(0))
        self._add_marginals(np.ones(self.inference.n_graphs), lambda first: sums)
        return marginals

    def _expected_tables(self) -> list[np.ndarray]:
        sums = _FactorSums(self.inference, self.tied)
        self._add_marginals(self._graph_weights(), sums.of_run)
        return sums.tables()

    def _graph_weights(self) -> np.ndarray:
        return np.ones(self.inference.n_graphs) if self.weights is None else self.weights

    def _add_marginals(self, weights: np.ndarray, sums_of: Callable[[int], ItemSums]) -> None:
        """Add the marginals of factors to sums; ``sums_of`` gives those of the run that starts at a graph."""
        from kernelfields.inference.junction.passes_compiled import factor_sums

        offsets, layout = self.inference.offsets, self.inference.plan.layout
        tables, separators = self._tables, self._separators
        self._workers.each(
            lambda first, last: factor_sums(first, last, offsets, layout, tables, separators, weights, sums_of(first)),
            self.inference.runs,
        )

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        from kernelfields.inference.junction.passes_compiled import belief_responses, score_expectations

        inference, q, separators = self.inference, self._tables, self._separators
        offsets, layout, weights = inference.offsets, inference.plan.layout, self._graph_weights()
        direction = d_node, end_to_end(d_tables), inference.item_places(d_tables, inference.entries)
        expected, d_separators = np.zeros_like(separators), np.zeros_like(separators)
        centres, d_marginals = np.zeros(inference.n_nodes), np.empty_like(d_node)
        derivatives = Derivatives(np.empty_like(q), expected, centres, d_separators, d_marginals)
        sums = _FactorSums(inference, self.tied)

        def run(first: int, last: int) -> None:
            score_expectations(first, last, offsets, layout, *direction, q, derivatives)
            belief_responses(first, last, offsets, layout, q, separators, derivatives, weights, sums.of_run(first))

        self._workers.each(run, inference.runs)
        return d_marginals, sums.tables()


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
        tied_items = self._tied[layout.item_group]
        rows = np.where(tied_items, 0, layout.item_factor)
        places = self._starts[layout.item_group] + rows * inference.entries[layout.item_group]
        self._items = ItemSums(places, tied_items, np.zeros(int(sizes[~self._tied].sum())), np.zeros(0))
        self._by_run = np.zeros((len(inference.runs), int(sizes[self._tied].sum())))
        self._row_of_run = {first: row for (first, _), row in zip(inference.runs, self._by_run, strict=True)}
        self._sizes = sizes

    def of_run(self, first: int) -> ItemSums:
        """Return the sums that the run of graphs from ``first`` on adds to."""
        return self._items._replace(by_group=self._row_of_run[first])

    def tables(self) -> list[np.ndarray]:
        """Return the sums in the shapes of the potentials."""
        summed = self._by_run.sum(axis=0)
        return [
            (summed if tied else self._items.by_factor)[start : start + size].reshape(shape)
            for tied, start, size, shape in zip(self._tied, self._starts, self._sizes, self._shapes, strict=True)
        ]
