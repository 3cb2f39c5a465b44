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

from kernelfields.inference.beliefs import GraphBeliefs, GraphInference
from kernelfields.inference.junction.orders import TooWide
from kernelfields.inference.junction.plan import plan_junction
from kernelfields.inference.packing import raise_if_infeasible_graph
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

    def item_rows(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """Return the row of each item's table, counting through the tables of all groups."""
        layout = self.plan.layout
        sizes = np.array([len(table) for table in tables], dtype=np.int64)
        bases = np.cumsum(sizes) - sizes
        return bases[layout.item_group] + (sizes > 1)[layout.item_group] * layout.item_factor

    def item_offsets(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """Return where each item's table starts when the tables of all groups are laid end to end."""
        layout = self.plan.layout
        sizes = np.array([table.size for table in tables], dtype=np.int64)
        bases = np.cumsum(sizes) - sizes
        steps = np.array([table.size // len(table) if len(table) > 1 else 0 for table in tables], dtype=np.int64)
        return bases[layout.item_group] + steps[layout.item_group] * layout.item_factor

    def entries(self) -> np.ndarray:
        """Return the number of entries of a table of each group."""
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
        from kernelfields.inference.junction.passes_compiled import downward

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
        from kernelfields.inference.junction.passes_compiled import condition, condition_scaled
        from kernelfields.inference.tree.passes_compiled import exponentials

        node, checked, tied = self.check_potentials(node, factors)
        layout = self.plan.layout
        tables, messages = np.empty(layout.table_start[-1]), np.empty(layout.separator_start[-1])
        log_partition = np.empty(self.n_graphs)
        values, shifts = exponentials(checked, workers)
        item_offset, item_shift = self.item_offsets(checked), shifts[self.item_rows(checked)]
        workers.each(
            lambda first, last: condition_scaled(
                first,
                last,
                self.offsets,
                layout,
                node,
                values,
                item_offset,
                item_shift,
                tables,
                messages,
                log_partition,
            ),
            self.runs,
        )
        troubled = np.flatnonzero(np.isnan(log_partition)).tolist()
        if troubled:
            flat = end_to_end(checked)
            workers.each(
                lambda first, last: condition(
                    first, last, self.offsets, layout, node, flat, item_offset, tables, messages, log_partition
                ),
                [(graph, graph + 1) for graph in troubled],
            )
        raise_if_infeasible_graph(log_partition)
        return node, tied, tables, log_partition

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score per graph (S,); ties have a fixed winner."""
        from kernelfields.inference.junction.passes_compiled import best_labelling

        node, checked, _ = self.check_potentials(node, factors)
        flat, item_offset = end_to_end(checked), self.item_offsets(checked)
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
        from kernelfields.inference.junction.passes_compiled import draw_labellings

        if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        _, _, tables, _ = self._condition(node, factors, Workers(1))
        uniforms = np.random.default_rng(random).random((n_samples, self.n_nodes))
        labels = np.zeros((n_samples, self.n_nodes), dtype=np.int64)
        draw_labellings(0, self.n_graphs, self.offsets, self.plan.layout, tables, uniforms, labels)
        return labels


class JunctionBeliefs(GraphBeliefs):
    """Calibrated cliques: conditional tables q and separator marginals S; see passes_compiled.py."""

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
        sums = ItemSums(targets, np.zeros(len(targets), dtype=np.bool_), marginals.reshape(-1), np.zeros(0))
        self._add_marginals(np.ones(self.inference.n_graphs), lambda first: sums)
        return marginals

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the gradient of the weighted log partition in (node, factors), shaped like them."""
        sums = _FactorSums(self.inference, self.tied)
        self._add_marginals(self._graph_weights(), sums.of_run)
        return self._weighted(self.node_marginals, self.inference.node_graphs), sums.tables()

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

    def hessian_product(
        self, d_node: np.ndarray, d_factors: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        from kernelfields.inference.junction.passes_compiled import belief_responses, score_expectations

        d_node, tables = self._check_direction(d_node, d_factors)
        inference = self.inference
        offsets, layout = inference.offsets, inference.plan.layout
        flat, item_offset = end_to_end(tables), inference.item_offsets(tables)
        weights = self._graph_weights()
        derivatives = Derivatives(
            np.empty_like(self._tables),
            np.zeros_like(self._separators),
            np.zeros(inference.n_nodes),
            np.zeros_like(self._separators),
            np.empty_like(self.node_marginals),
        )
        sums = _FactorSums(inference, self.tied)

        def run(first: int, last: int) -> None:
            q, separators = self._tables, self._separators
            score_expectations(first, last, offsets, layout, d_node, flat, item_offset, q, derivatives)
            belief_responses(first, last, offsets, layout, q, separators, derivatives, weights, sums.of_run(first))

        self._workers.each(run, inference.runs)
        return derivatives.node, sums.tables()


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
        places = self._starts[layout.item_group] + rows * inference.entries()[layout.item_group]
        self._items = ItemSums(places, tied_items, np.zeros(int(sizes[~self._tied].sum())), np.zeros(0))
        self._by_run = np.zeros((len(inference.runs), int(sizes[self._tied].sum())))
        self._sizes, self._run_number = sizes, inference.run_number

    def of_run(self, first: int) -> ItemSums:
        """Return the sums that the run of graphs from ``first`` on adds to."""
        return self._items._replace(by_group=self._by_run[self._run_number(first)])

    def tables(self) -> list[np.ndarray]:
        """Return the sums in the shapes of the potentials."""
        summed = self._by_run.sum(axis=0)
        return [
            (summed if tied else self._items.by_factor)[start : start + size].reshape(shape)
            for tied, start, size, shape in zip(self._tied, self._starts, self._sizes, self._shapes, strict=True)
        ]


def end_to_end(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return the tables of all groups as one flat array, a view if there is only one."""
    if len(tables) == 1:
        return tables[0].reshape(-1)
    return np.concatenate([np.zeros(0), *(table.reshape(-1) for table in tables)])
