"""Exact inference on many small graphs of one structure, by tables of all labellings and matrix products.

Every graph has the same K nodes and the same factors, as the labels of an instance in a multi-label field have.
Labellings y are numbered with the first node slowest. Where all factors are tied, a labelling (a, b) of the first
half of the nodes and of the rest scores s_i(a) + r_i(b) + w(a, b), and w is the same for all graphs:

    Z_i      = sum_ab E_i(a) W(a, b) F_i(b)              E = exp s, F = exp r, W = exp w
    p_i(a)   = E_i(a) (W F_i)(a) / Z_i                   and likewise p_i(b)
    sum_i weight_i p_i(a, b) = W(a, b) sum_i E_i(a) F_i(b) weight_i / Z_i

so that S graphs cost a few products of (S, L^(K/2)) with (L^(K/2), L^(K/2)) matrices and no exponential of an
(S, L^K) table, and the joint marginals of tied factors are never held per graph. Derivatives of these equations
along a direction give Hessian products, and the marginals of all pairs u < v of one graph are

    I_A^T diag(E_i) W diag(F_i) I_B / Z_i,     I_A^T diag(p_i(a)) I_A,     I_B^T diag(p_i(b)) I_B     (I as in rows.py)

Where a factor has a table for each graph, where Z underflows, and for best labellings and samples, the (S, L^K)
table is made, in blocks of graphs (rows.py).

Arrays as in inference/graphs.py. Time O(S L^K) multiplications where tied, O(S L^K K) otherwise; memory L^K and
blocks. Fails: ValueError if the graphs differ in structure, MemoryError if there are too many labellings, and
ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernelfields.inference.graphs import GraphFamily, GraphMember, GraphPotentials
from kernelfields.inference.packing import InfeasibleGraph, check_structure, raise_if_infeasible
from kernelfields.inference.table.rows import LabelSums, LabelTableRows, outer_sums
from kernelfields.numerics.threads import Workers

#: Most labellings of a graph, with one table for all graphs.
MOST_LABELLINGS = 2**20
#: Below this a sum may have lost terms to underflow, and the graph is done again in logarithms.
_SAFE_SUM = 1e-250
_MOST_BLOCKS = 16
# Marginals of all pairs of all graphs are kept up to this many numbers, 256 MiB.
_MOST_PAIR_VALUES = 2**25


@dataclass
class _Halves:
    """One block of graphs: exponentials (S, A) and (S, B) of both halves, their products with W, and Z."""

    left: np.ndarray
    right: np.ndarray
    left_sums: np.ndarray  # W F, (S, A)
    right_sums: np.ndarray  # E W, (S, B)
    log_totals: np.ndarray  # log Z, -inf where the sum may have lost terms
    inverse: np.ndarray  # 1 / Z, (S, 1), 0 there


class TableMember(GraphMember):
    """Beliefs from tables; the potentials are kept, tables are made again where they are needed."""

    family: TableFamily

    def __init__(self, family, checked, log_partition, node_marginals, sums, workers):
        super().__init__(family, checked, log_partition, node_marginals, workers)
        self._checked = checked
        self._sums = sums

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        rows, shape = self.family.rows, self.family.table_shape(group, False)
        if len(shape) == 3 and self.family.halved(self._checked.tables):
            return self._pair_marginals(group).reshape(shape)
        masses_of_blocks = rows.probabilities(self._checked.node, self._checked.tables)
        parts = [rows.factor_sums(masses, [group])[0] for _, masses in masses_of_blocks]
        return np.concatenate(parts).reshape(shape)

    def _pair_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (S, factors of a graph, L, L) of a group of pairs."""
        rows, n_items = self.family.rows, self.family.n_items
        if n_items * (rows.n_columns * rows.n_labels) ** 2 <= _MOST_PAIR_VALUES:
            return rows.pair_tables(self._pairs, group)
        tables = np.empty((n_items, len(rows.local[group]), rows.n_labels, rows.n_labels))
        self.family.each_pair_block(
            self._checked,
            self._workers,
            lambda graphs, pairs: tables.__setitem__(graphs, rows.pair_tables(pairs, group)),
        )
        return tables

    @cached_property
    def _pairs(self) -> np.ndarray:
        """The marginals of every pair of nodes, (S, K L, K L): one pass over the tables for all groups."""
        size = self.family.n_columns * self.family.n_labels
        pairs = np.empty((self.family.n_items, size, size))
        self.family.each_pair_block(self._checked, self._workers, pairs.__setitem__)
        return pairs

    def _expected_tables(self) -> list[np.ndarray]:
        return self._sums

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        response, sums = self.family.responses(self._checked, d_node, d_tables, self._workers)
        return self._weighted(response, self.family.position_items), sums


class TableFamily(GraphFamily):
    """Exact inference on small graphs of one structure by tables of all their labellings.

    Blocks of graphs have about ``half_entries`` entries of their halves and ``table_entries`` of whole tables.
    """

    method = "table"
    exact = True
    bound = "exact"

    def __init__(self, offsets, members, n_labels, *, half_entries=2**16, table_entries=2**21):
        super().__init__(*check_structure(offsets, members, n_labels))
        self.rows = LabelTableRows(self.offsets, self.members, self.n_labels, table_entries)
        self.n_columns = self.rows.n_columns
        n_labellings = self.n_labels**self.n_columns
        if n_labellings > MOST_LABELLINGS:
            raise MemoryError(
                f"{self.n_columns} nodes with {self.n_labels} labels have {n_labellings:,} labellings, and a "
                f'table takes at most {MOST_LABELLINGS:,}: use fewer edges and "junction", or "trw"'
            )
        self.rows.prepare()
        size = max(1, half_entries // self.rows.shape[1])
        size = max(size, -(-self.n_items // _MOST_BLOCKS))
        self._blocks = [(first, min(first + size, self.n_items)) for first in range(0, self.n_items, size)]
        self.description = f"tables of all {n_labellings:,} labellings of {self.n_columns} nodes: exact"

    def _member(self, checked: GraphPotentials, workers: Workers) -> TableMember:
        log_partition, sums = np.full(self.n_items, -np.inf), LabelSums(self.rows, checked.tables, checked.weights)
        if self.halved(checked.tables):
            sums.add_joint(self._infer_halves(checked, workers, log_partition, sums))
        left = np.flatnonzero(np.isneginf(log_partition))
        sums.add(self.rows.probabilities(checked.node, checked.tables, left, log_partition))
        return TableMember(self, checked, log_partition, sums.node.reshape(checked.node.shape), sums.factors, workers)

    def _planned_again(self, offsets: np.ndarray, members: Sequence[np.ndarray]) -> TableFamily:
        return TableFamily(offsets, members, self.n_labels)

    def halved(self, factors: Sequence[np.ndarray]) -> bool:
        """Whether one table serves the factors of all graphs, and some labelling is allowed by it."""
        tied = all(len(each) == 1 or each.size == 0 for each in factors)
        return tied and bool(np.isfinite(self.rows.shared_scores(factors).max()))

    def _table(self, factors: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
        """Return exp(w - peak) of the factors (A, B), and the peak."""
        scores = self.rows.shared_scores(factors)
        peak = float(scores.max())
        return np.exp(scores - peak), peak

    def _split(self, node: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the summed node potentials of the labellings of both halves, (S, A) and (S, B)."""
        rows, half = self.rows.by_graph(node)[first:last], self.rows.half
        return outer_sums(rows[:, :half]), outer_sums(rows[:, half:])

    def _halves(self, node: np.ndarray, table: np.ndarray, first: int, last: int) -> _Halves:
        sides, peaks = [], np.zeros(last - first)
        for scores in self._split(node, first, last):
            peak = scores.max(axis=1)
            # Where a node forbids all its labels the sum is zero, and the rows in logarithms name the graph.
            peak[np.isneginf(peak)] = 0.0
            sides.append(np.exp(scores - peak[:, None]))
            peaks += peak
        left, right = sides
        right_sums = left @ table
        totals = np.einsum("ij,ij->i", right_sums, right)
        safe = totals > _SAFE_SUM
        inverse = np.where(safe, 1.0 / np.where(safe, totals, 1.0), 0.0)
        log_totals = np.log(totals, out=np.full(last - first, -np.inf), where=safe) + peaks
        return _Halves(left, right, right @ table.T, right_sums, log_totals, inverse[:, None])

    def _infer_halves(
        self, checked: GraphPotentials, workers: Workers, log_partition: np.ndarray, sums: LabelSums
    ) -> np.ndarray:
        """Fill in what halves can tell; return the weighted sum of joint probabilities, (A, B)."""
        table, peak = self._table(checked.tables)

        def part(first: int, last: int) -> np.ndarray:
            halves = self._halves(checked.node, table, first, last)
            log_partition[first:last] = halves.log_totals + peak
            sides = ((halves.left, halves.left_sums), (halves.right, halves.right_sums))
            sums.node[first:last] = self.rows.nodes(*(side * each * halves.inverse for side, each in sides))
            return (halves.left * (sums.weights[first:last, None] * halves.inverse)).T @ halves.right

        return table * workers.sum(part, self._blocks)

    def each_pair_block(
        self, checked: GraphPotentials, workers: Workers, take: Callable[[Any, np.ndarray], None]
    ) -> None:
        """Give ``take`` graphs and the marginals (.., K L, K L) of their pairs of nodes u < v, block by block."""
        table, _ = self._table(checked.tables)
        whole = np.zeros(self.n_items, dtype=np.bool_)

        def part(first: int, last: int) -> None:
            halves = self._halves(checked.node, table, first, last)
            whole[first:last] = halves.inverse[:, 0] == 0.0
            left, right_sums = halves.left * halves.inverse, halves.right_sums * halves.inverse
            sides = left * halves.left_sums, right_sums * halves.right
            take(slice(first, last), self.rows.joined_pairs(left, table, halves.right, sides))

        size = max(1, self.rows.block_entries // (self.rows.half * self.n_labels * self.rows.shape[1] + 1))
        workers.each(part, [(at, min(at + size, self.n_items)) for at in range(0, self.n_items, size)])
        for graphs, masses in self.rows.probabilities(checked.node, checked.tables, np.flatnonzero(whole)):
            take(graphs, self.rows.pair_sums(masses))

    def responses(
        self, checked: GraphPotentials, d_node: np.ndarray, d_tables: list[np.ndarray], workers: Workers
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return how marginals (N, L) and weighted factor sums respond to a direction in the potentials."""
        rows, left = self.rows, np.arange(self.n_items)
        sums = LabelSums(rows, checked.tables, checked.weights)
        if self.halved(checked.tables):
            joint, left = self._respond_halves(checked, d_node, d_tables, workers, sums)
            sums.add_joint(joint)
        shared = rows.shared_scores(d_tables)

        def moved() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for graphs, masses in rows.probabilities(checked.node, checked.tables, left):
                changes = rows.scores(d_node, d_tables, graphs, shared)
                masses *= changes - np.einsum("ijk,ijk->i", masses, changes)[:, None, None]
                yield graphs, masses

        sums.add(moved())
        return sums.node.reshape(d_node.shape), sums.factors

    def _respond_halves(self, checked, d_node, d_tables, workers, sums):
        """Fill in what halves can tell; return the derivative of what ``_infer_halves`` does, and who is left."""
        table, _ = self._table(checked.tables)
        d_table = table * self.rows.shared_scores(d_tables)
        whole = np.zeros(self.n_items, dtype=np.bool_)

        def part(first: int, last: int) -> np.ndarray:
            halves = self._halves(checked.node, table, first, last)
            whole[first:last] = halves.inverse[:, 0] == 0.0
            # Divided by Z, so that all sums below are those of probabilities.
            left, right, right_sums = halves.left * halves.inverse, halves.right, halves.right_sums * halves.inverse
            d_scores = self._split(d_node, first, last)
            d_left, d_right = left * d_scores[0], right * d_scores[1]
            d_left_sums = d_right @ table.T + right @ d_table.T
            d_right_sums = d_left @ table + left @ d_table
            mean = np.einsum("ij,ij->i", d_right_sums, right) + np.einsum("ij,ij->i", right_sums, d_right)
            d_left -= mean[:, None] * left
            d_right_sums -= mean[:, None] * right_sums
            sums.node[first:last] = self.rows.nodes(
                d_left * halves.left_sums + left * d_left_sums, d_right_sums * right + right_sums * d_right
            )
            weights, both = sums.weights[first:last, None], np.empty((2, *table.shape))
            np.matmul((left * weights).T, right, out=both[1])
            both[0] = (d_left * weights).T @ right + (left * weights).T @ d_right
            return both

        moved, plain = workers.sum(part, self._blocks)
        return table * moved + d_table * plain, np.flatnonzero(whole)

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        best, scores = np.empty(self.n_items, dtype=np.int64), np.empty(self.n_items)
        shared = self.rows.shared_scores(checked.tables)
        for graphs in self.rows.blocks(np.arange(self.n_items)):
            table = self.rows.scores(checked.node, checked.tables, graphs, shared).reshape(len(graphs), -1)
            best[graphs] = table.argmax(axis=1)  # the first of equals
            scores[graphs] = table[np.arange(len(table)), best[graphs]]
        raise_if_infeasible(scores, InfeasibleGraph)
        return self.rows.labellings(best).reshape(-1), scores

    def _draw(
        self, checked: GraphPotentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        uniforms = random.random((self.n_items, n_samples))
        drawn = np.empty((self.n_items, n_samples), dtype=np.int64)
        for graphs, masses in self.rows.probabilities(checked.node, checked.tables):
            ends = np.cumsum(masses.reshape(len(masses), -1), axis=1)
            for graph, row in zip(graphs.tolist(), ends, strict=True):
                # Scaled by the last sum, a draw never lands behind it, nor on a labelling of probability zero.
                drawn[graph] = np.searchsorted(row, uniforms[graph] * row[-1], side="right")
        return np.swapaxes(self.rows.labellings(drawn), 0, 1).reshape(n_samples, -1)
