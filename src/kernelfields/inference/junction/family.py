"""Exact inference on packed graphs of small treewidth, with factors of any order, by junction trees.

    plan = JunctionFamily(offsets, members, n_labels)     width and memory are known, and checked, from here on
    member = plan.distribution(potentials)

Arrays as in inference/graphs.py, the equations in passes_compiled.py, the layout of tables in plan.py. The way up
runs in the range of doubles, with tables exponentiated once, and in the log domain for graphs that doubles cannot
hold: so potentials of any size are safe.

Graphs are taken in runs of some millions of table entries, each with the conditional tables q and the separator
marginals S of its own graphs. Beliefs keep those of all runs where they are small in all, and sum marginals of factors,
gradients and Hessian products from them when asked for. Else a run's tables are let go as soon as its marginals and
its share of the gradient are summed, and made again for what is asked later: the same numbers, in the memory of one
run for each thread.

Cost: the sum over nodes of L^(1 + later neighbours), a pass over the clique tables, for log partition and
marginals, gradient, Hessian product (three where tables are made again), decoding alike; memory the tables of a run
for each thread or those of all graphs, a copy of the potentials of factors, and a second set of tables for a Hessian
product.

Raises TooWide (a MemoryError) before the work starts; ValueError naming the graph where every labelling is
forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.inference import junction
from kernelfields.inference.family import LabelFamily, RankedLabellings
from kernelfields.inference.graphs import GraphFamily, GraphMember, GraphPotentials
from kernelfields.inference.junction.elimination import TooWide
from kernelfields.inference.junction.plan import Layout, plan_junction
from kernelfields.inference.packed_graphs import InfeasibleGraph, concatenate
from kernelfields.inference.packing import exponentials, raise_if_infeasible
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers

__all__ = ["JunctionFamily", "JunctionMember", "TooWide"]

# Fewer table entries than this are not worth a run of their own; runs depend on nothing else, so that sums over
# them come out the same with any number of threads.
_ENTRIES_PER_RUN = 50_000
_MOST_RUNS = 64
# Beyond this many, runs of more graphs than one are cut smaller, however many that makes.
_MOST_ENTRIES_PER_RUN = 4_000_000
#: Bytes of tables of all graphs, as plans count them, up to which beliefs keep them.
KEPT_TABLES = 2.0**28


class Derivatives(NamedTuple):
    """Derivatives along a direction, filled by compiled passes; passes_compiled.py has the equations."""

    tables: np.ndarray  # (entries of cliques,), r on the way up, dB on the way down
    expected: np.ndarray  # (entries of separators,), E_i less its mean
    centres: np.ndarray  # (N,), that mean
    separators: np.ndarray  # (entries of separators,), dS
    node: np.ndarray  # (N, L), of the weighted marginals


class RunTables(NamedTuple):
    """Tables of a run of graphs, calibrated; passes_compiled.py has the equations."""

    layout: Layout  # which counts them from zero
    tables: np.ndarray  # (entries of the run's cliques,), q
    separators: np.ndarray  # (entries of their separators,), S


class ReadyPotentials(NamedTuple):
    """Potentials, and the exponentials for the upward pass."""

    checked: GraphPotentials
    values: np.ndarray  # exponentials of all tables, end to end
    places: np.ndarray  # (items,), where each item's table starts among them
    item_shift: np.ndarray  # (items,), logarithm that was taken off before


class ItemSums(NamedTuple):
    """Sums over factors, with the index of each item of the ``Layout`` in these sums."""

    start: np.ndarray  # (items,), first entry of the item's table among the sums, -1 where it is not wanted
    tied: np.ndarray  # (items,), whether that is in by_group
    by_factor: np.ndarray  # flat tables of untied groups, one per factor
    by_group: np.ndarray  # flat tables of tied groups, one per group; of one run of graphs


class JunctionFamily(GraphFamily):
    """Exact inference by junction trees; ``plan.width`` and ``plan.memory`` are their size."""

    method = "junction"

    def __init__(
        self,
        offsets: np.ndarray,
        members: Sequence[np.ndarray],
        n_labels: int,
        *,
        memory: float | None = None,
        order: np.ndarray | None = None,
        kept_tables: float = KEPT_TABLES,
    ):
        super().__init__(offsets, members, n_labels)
        self.plan = plan_junction(offsets, members, n_labels, memory, order)
        self.runs = self._cut()
        #: Whether beliefs keep the tables of all graphs.
        self.keeps = self.plan.memory <= kept_tables
        #: Number of entries of a table of each group.
        self.entries = np.array([n_labels ** each.shape[1] for each in members], dtype=np.int64)
        held = "" if self.keeps else ", held for some graphs at a time"
        self.description = (
            f"junction trees of width {self.plan.width} with {n_labels} labels: exact, "
            f"at most {self.plan.memory / 1024**2:.3g} MiB of tables{held}"
        )

    def _cut(self) -> list[tuple[int, int]]:
        ends = self.plan.layout.table_start[self.offsets]
        many = max(_MOST_RUNS, int(ends[-1]) // _MOST_ENTRIES_PER_RUN)
        wanted = max(1, min(self.n_items, many, int(ends[-1]) // _ENTRIES_PER_RUN))
        inner = np.searchsorted(ends, np.linspace(0, ends[-1], wanted + 1)[1:-1])
        return list(pairwise(np.unique([0, *inner.tolist(), self.n_items]).tolist()))

    def _with_other_graphs(self, offsets: np.ndarray, members: Sequence[np.ndarray]) -> JunctionFamily:
        return type(self)(offsets, members, self.n_labels, memory=np.inf)

    def item_places(self, tables: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray:
        """Return the start of each item's table among the concatenated tables of all groups, of these sizes."""
        group, factor = self.plan.layout.item_group, self.plan.layout.item_factor
        counts = np.array([len(table) for table in tables], dtype=np.int64)
        bases = np.cumsum(counts * sizes) - counts * sizes
        return bases[group] + np.where(counts > 1, sizes, 0)[group] * factor

    def _member(self, checked: GraphPotentials, workers: Workers) -> JunctionMember:
        ready = self._prepare(checked)
        log_partition, marginals = np.empty(self.n_items), np.empty_like(checked.node)
        beliefs = JunctionMember(self, checked, log_partition, marginals, workers)
        beliefs.ready = ready

        def run(first: int, last: int) -> None:
            tables = self.calibrate(ready, first, last, log_partition, marginals)
            if tables is not None:
                beliefs.take(first, last, tables)

        workers.each(run, self.runs)
        raise_if_infeasible(log_partition, InfeasibleGraph)
        return beliefs

    def _prepare(self, checked: GraphPotentials) -> ReadyPotentials:
        values, shifts = zip(*map(exponentials, checked.tables), strict=True) if checked.tables else ((), ())
        places = self.item_places(checked.tables, self.entries)
        item_shift = concatenate(shifts)[self.item_places(checked.tables, np.ones_like(self.entries))]
        return ReadyPotentials(checked, concatenate(values), places, item_shift)

    def calibrate(
        self, ready: ReadyPotentials, first: int, last: int, log_partition: np.ndarray, marginals: np.ndarray
    ) -> RunTables | None:
        """Fill the results of a run of graphs, and return its tables; None if a graph is infeasible."""
        layout, tables = self._condition(ready, first, last, log_partition)
        if np.isneginf(log_partition[first:last]).any():
            return None
        separators = np.zeros(layout.separator_start[self.offsets[last]])
        junction.passes_compiled.downward(first, last, self.offsets, layout, tables, separators, marginals)
        return RunTables(layout, tables, separators)

    def _run_layout(self, first: int, last: int) -> Layout:
        return self.plan.layout.select_cliques(int(self.offsets[first]), int(self.offsets[last]))

    def _condition(
        self, ready: ReadyPotentials, first: int, last: int, log_partition: np.ndarray
    ) -> tuple[Layout, np.ndarray]:
        """Run the upward pass over a run of graphs: return its layout and tables q; fill log partition functions."""
        compiled = junction.passes_compiled
        offsets, layout, node = self.offsets, self._run_layout(first, last), ready.checked.node
        tables = np.empty(layout.table_start[offsets[last]])
        messages = np.empty(layout.separator_start[offsets[last]])
        factors = ready.values, ready.places, ready.item_shift
        compiled.condition_scaled(first, last, offsets, layout, node, *factors, tables, messages, log_partition)
        troubled = first + np.flatnonzero(np.isnan(log_partition[first:last]))
        if troubled.size:
            flat = concatenate(ready.checked.tables)
            for graph in troubled.tolist():
                compiled.condition(
                    graph, graph + 1, offsets, layout, node, flat, ready.places, tables, messages, log_partition
                )
        return layout, tables

    def _impossible(self) -> np.ndarray:
        assert self.base is not None
        if self.base.step is None:
            return super()._impossible()
        # Steps may close circles, so that what is left of each label depends on all others: inference finds out.
        return np.isneginf(self._log_partition(self.with_base(self.zeros()), Workers(1)))

    def log_partition_given(
        self, log_weights: np.ndarray, potentials: Potentials, workers: Workers | None = None
    ) -> np.ndarray:
        """Return g given log-weights (N, L) of labels, (S,), by the upward pass alone."""
        return self._log_partition(self.condition(log_weights).with_base(potentials), workers or Workers(1))

    def _log_partition(self, potentials: Potentials, workers: Workers) -> np.ndarray:
        """Return g at potentials that include the base measure, (S,); minus infinity if all is forbidden."""
        ready, log_partition = self._prepare(self.check_potentials(potentials)), np.empty(self.n_items)

        def run(first: int, last: int) -> None:
            self._condition(ready, first, last, log_partition)

        workers.each(run, self.runs)
        return log_partition

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        labels, scores = self._best_labellings(checked, 1, workers)
        return labels[0], scores[:, 0]

    def _ranked(self, checked: GraphPotentials, k: int, workers: Workers) -> RankedLabellings:
        with np.errstate(over="ignore"):  # L^n beyond the largest float is inf, and k is the smaller one
            most = np.power(float(self.n_labels), np.diff(self.offsets).max(initial=0))
        labels, scores = self._best_labellings(checked, int(min(most, k)), workers)
        counts, ends = np.count_nonzero(scores > -np.inf, axis=1).tolist(), self.offsets.tolist()
        parts = zip(counts, pairwise(ends), strict=True)
        return [labels[:count, a:b].copy() for count, (a, b) in parts], [
            own[:count].copy() for own, count in zip(scores, counts, strict=True)
        ]

    def _best_labellings(self, checked: GraphPotentials, k: int, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labellings (k, N) and their scores (S, k), minus infinity beyond the last."""
        best_labellings = junction.passes_compiled.best_labellings
        offsets = self.offsets
        potentials = checked.node, concatenate(checked.tables), self.item_places(checked.tables, self.entries)
        labels, scores = np.zeros((k, self.n_positions), dtype=np.int64), np.empty((self.n_items, k))

        def run(first: int, last: int) -> None:
            layout = self._run_layout(first, last)
            size = layout.separator_start[offsets[last]]
            room = np.empty(size), np.empty(size, dtype=np.int32)
            best_labellings(first, last, offsets, layout, *potentials, *room, labels, scores)

        workers.each(run, self.runs)
        raise_if_infeasible(scores[:, 0], InfeasibleGraph)
        return labels, scores

    def _draw(
        self, checked: GraphPotentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        draw_labellings = junction.passes_compiled.draw_labellings
        ready, log_partition = self._prepare(checked), np.empty(self.n_items)
        uniforms = random.random((n_samples, self.n_positions))
        labels = np.zeros((n_samples, self.n_positions), dtype=np.int64)

        def run(first: int, last: int) -> None:
            layout, tables = self._condition(ready, first, last, log_partition)
            draw_labellings(first, last, self.offsets, layout, tables, uniforms, labels)

        workers.each(run, self.runs)
        raise_if_infeasible(log_partition, InfeasibleGraph)
        return labels


class JunctionMember(GraphMember):
    """Calibrated cliques of runs of graphs, stored or recomputed; see passes_compiled.py."""

    family: JunctionFamily
    ready: ReadyPotentials

    def __init__(self, family, checked, log_partition, node_marginals, workers):
        super().__init__(family, checked, log_partition, node_marginals, workers)
        self._kept: dict[int, RunTables] = {}
        #: Where tables are not kept, the gradient is summed while they are there.
        self._sums = None if family.keeps else _FactorSums(family, self.tied)

    def take(self, first: int, last: int, tables: RunTables) -> None:
        """Store the tables of a run of graphs, or their parts of a gradient."""
        if self._sums is None:
            self._kept[first] = tables
        else:
            self._add_marginals(first, last, tables, self.item_weights, self._sums.run_sums(first))

    def _tables(self, first: int, last: int) -> RunTables:
        """Return the tables of a run of graphs."""
        if first in self._kept:
            return self._kept[first]
        again = np.empty_like(self.log_partition), np.empty_like(self.node_marginals)
        tables = self.family.calibrate(self.ready, first, last, *again)
        assert tables is not None, "the graphs were feasible"
        return tables

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        layout = self.family.plan.layout
        marginals = np.zeros(self.family.table_shape(group, False))
        targets = np.where(layout.item_group == group, layout.item_factor * self.family.entries[group], -1)
        sums = ItemSums(targets, np.zeros(len(targets), dtype=np.bool_), marginals.reshape(-1), np.zeros(0))
        ones = np.ones(self.family.n_items)
        self._workers.each(
            lambda first, last: self._add_marginals(first, last, self._tables(first, last), ones, sums),
            self.family.runs,
        )
        return marginals

    def _expected_tables(self) -> list[np.ndarray]:
        if self._sums is not None:
            return self._sums.tables()
        sums, weights = _FactorSums(self.family, self.tied), self.item_weights
        self._workers.each(
            lambda first, last: self._add_marginals(first, last, self._kept[first], weights, sums.run_sums(first)),
            self.family.runs,
        )
        return sums.tables()

    def _add_marginals(self, first: int, last: int, tables: RunTables, weights: np.ndarray, sums: ItemSums) -> None:
        """Add the marginals of the factors of a run of graphs to sums."""
        junction.passes_compiled.factor_sums(first, last, self.family.offsets, *tables, weights, sums)

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        compiled = junction.passes_compiled
        family, offsets, weights = self.family, self.family.offsets, self.item_weights
        direction = d_node, concatenate(d_tables), family.item_places(d_tables, family.entries)
        centres, d_marginals = np.zeros(family.n_positions), np.empty_like(d_node)
        sums = _FactorSums(family, self.tied)

        def run(first: int, last: int) -> None:
            layout, q, separators = self._tables(first, last)
            expected, d_separators = np.zeros_like(separators), np.zeros_like(separators)
            derivatives = Derivatives(np.empty_like(q), expected, centres, d_separators, d_marginals)
            compiled.score_expectations(first, last, offsets, layout, *direction, q, derivatives)
            compiled.belief_responses(
                first, last, offsets, layout, q, separators, derivatives, weights, sums.run_sums(first)
            )

        self._workers.each(run, family.runs)
        return d_marginals, sums.tables()


class RescuedItems:
    """Items outside the range of doubles, inferred by junction trees in logarithms.

    ``items`` are their numbers, ``rows`` their positions and ``factors`` the rows of their factors in the tables of all
    items. Those are the numbers of the factors, or ``table_rows`` of each group. ``order`` (N,) lists the nodes of all
    items in the order of elimination. Raises InfeasibleGraph with the number of the item among all.
    """

    def __init__(
        self,
        items: np.ndarray,
        family: LabelFamily,
        members: Sequence[np.ndarray],
        checked: GraphPotentials,
        workers: Workers,
        *,
        table_rows: Sequence[np.ndarray] | None = None,
        order: np.ndarray | None = None,
    ):
        self.items = items
        chosen = np.zeros(family.n_items, dtype=np.bool_)
        chosen[items] = True
        inside = chosen[family.position_items]
        number = np.cumsum(inside) - 1
        kept = [np.flatnonzero(inside[nodes[:, 0]]) for nodes in members]
        self.rows = np.flatnonzero(inside)
        self.factors = kept if table_rows is None else [rows[k] for rows, k in zip(table_rows, kept, strict=True)]
        self._tied = checked.tied
        self._checked = GraphPotentials(
            checked.node[self.rows],
            self.own(checked.tables),
            checked.tied,
            None if checked.weights is None else checked.weights[items],
        )
        junction = JunctionFamily(
            np.concatenate([[0], np.cumsum(np.diff(family.offsets)[items])]),
            [number[nodes[k]] for nodes, k in zip(members, kept, strict=True)],
            family.n_labels,
            memory=np.inf,
            order=None if order is None else number[order[inside[order]]],
        )
        try:
            self.member = junction._member(self._checked, workers)
        except InfeasibleGraph as error:
            raise InfeasibleGraph(int(items[error.graph])) from None

    def own(self, tables: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the rows of these items in tables of all items."""
        return [t if tied else t[rows] for t, rows, tied in zip(tables, self.factors, self._tied, strict=True)]

    def add(self, tables: Sequence[np.ndarray], more: Sequence[np.ndarray]) -> None:
        """Add sums of tied groups in place, and set the rows of other groups."""
        for group, (rows, tied) in enumerate(zip(self.factors, self._tied, strict=True)):
            if tied:
                tables[group][:] += more[group]
            else:
                tables[group][rows] = more[group]

    def responses(self, d_node: np.ndarray, d_tables: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian product with a direction of all items: rows of node, and tables for ``add``."""
        return self.member._responses(d_node[self.rows], self.own(d_tables))

    def draw(self, n_samples: int, random: np.random.Generator, workers: Workers) -> np.ndarray:
        """Draw labellings, (n_samples, rows)."""
        return self.member.family._draw(self._checked, n_samples, random, workers)


class _FactorSums:
    """Arrays for sums over factors: a row per factor of untied groups, a table per run of graphs of tied groups."""

    def __init__(self, family: JunctionFamily, tied: Sequence[bool]):
        layout = family.plan.layout
        self._shapes = [family.table_shape(group, each) for group, each in enumerate(tied)]
        self._tied = np.array(tied, dtype=np.bool_)
        sizes = np.array([int(np.prod(shape)) for shape in self._shapes], dtype=np.int64)
        self._starts = np.zeros(len(sizes), dtype=np.int64)
        for kind in (True, False):
            chosen = self._tied == kind
            self._starts[chosen] = np.cumsum(sizes[chosen]) - sizes[chosen]
        tied_items = self._tied[layout.item_group]
        rows = np.where(tied_items, 0, layout.item_factor)
        places = self._starts[layout.item_group] + rows * family.entries[layout.item_group]
        self._items = ItemSums(places, tied_items, np.zeros(int(sizes[~self._tied].sum())), np.zeros(0))
        self._by_run = np.zeros((len(family.runs), int(sizes[self._tied].sum())))
        self._row_of_run = {first: row for (first, _), row in zip(family.runs, self._by_run, strict=True)}
        self._sizes = sizes

    def run_sums(self, first: int) -> ItemSums:
        """Return the sums of the run of graphs from ``first`` on."""
        return self._items._replace(by_group=self._row_of_run[first])

    def tables(self) -> list[np.ndarray]:
        """Return the sums in the shapes of the potentials."""
        summed = self._by_run.sum(axis=0)
        return [
            (summed if tied else self._items.by_factor)[start : start + size].reshape(shape)
            for tied, start, size, shape in zip(self._tied, self._starts, self._sizes, self._shapes, strict=True)
        ]
