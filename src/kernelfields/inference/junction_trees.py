"""Exact inference on packed graphs of small treewidth, with factors of any order, by junction trees.

    plan = JunctionInference(offsets, members, n_labels)     width and memory are known, and checked, from here on
    beliefs = plan.infer(node, factors)

Arrays as in ``graph``, the equations in ``junction_compiled``, the layout in ``junction_plans``. The way up runs
in the range of doubles, with tables exponentiated once, and in the log domain for graphs that doubles cannot hold:
so potentials of any size are safe. Cost: the sum over nodes of L^(1 + later neighbours), for log partition and
marginals, gradient, Hessian product, decoding alike; memory the same, and a copy of the potentials of factors.

Fails: TooWide (a MemoryError) before the work starts; ValueError naming the graph where every labelling is
forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kernelfields.inference.graph import GraphInference
from kernelfields.inference.graph_packing import raise_if_infeasible_graph
from kernelfields.inference.junction_beliefs import JunctionBeliefs, end_to_end
from kernelfields.inference.junction_plans import TooWide, plan_junction
from kernelfields.inference.workers import Workers

__all__ = ["JunctionBeliefs", "JunctionInference", "TooWide"]

# Fewer table entries than this are not worth a run of their own; runs depend on nothing else, so that sums over
# them come out the same with any number of threads.
_ENTRIES_PER_RUN = 50_000
_MOST_RUNS = 64


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
        from kernelfields.inference.graph_exponentials import exponentials
        from kernelfields.inference.junction_upward import condition, condition_scaled

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
        from kernelfields.inference.junction_upward import best_labelling

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
        from kernelfields.inference.junction_upward import draw_labellings

        if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        _, _, tables, _ = self._condition(node, factors, Workers(1))
        uniforms = np.random.default_rng(random).random((n_samples, self.n_nodes))
        labels = np.zeros((n_samples, self.n_nodes), dtype=np.int64)
        draw_labellings(0, self.n_graphs, self.offsets, self.plan.layout, tables, uniforms, labels)
        return labels
