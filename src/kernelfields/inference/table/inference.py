"""Exact inference on many small graphs of one structure, by tables of all labellings and matrix products.

Every graph has the same K nodes and the same factors, as the labels of an instance in a multi-label field have.
Labellings y are numbered with the first node slowest. Where all factors are tied, a labelling (a, b) of the first
half of the nodes and of the rest scores s_i(a) + r_i(b) + w(a, b), and w is the same for all graphs:

    Z_i      = sum_ab E_i(a) W(a, b) F_i(b)              E = exp s, F = exp r, W = exp w
    p_i(a)   = E_i(a) (W F_i)(a) / Z_i                   and likewise p_i(b)
    sum_i weight_i p_i(a, b) = W(a, b) sum_i E_i(a) F_i(b) weight_i / Z_i

so that S graphs cost a few products of (S, L^(K/2)) with (L^(K/2), L^(K/2)) matrices and no exponential of an
(S, L^K) table, and the joint marginals of tied factors are never held per graph. Derivatives of these equations
along a direction give Hessian products. Where a factor has a table for each graph, where Z underflows, and for
best labellings and samples, the (S, L^K) table is made, in blocks of graphs (rows.py).

Arrays as in inference/beliefs.py. Time O(S L^K) multiplications where tied, O(S L^K K) otherwise; memory L^K and
blocks. Fails: ValueError if the graphs differ in structure, MemoryError if there are too many labellings, and
ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelfields.inference.beliefs import GraphBeliefs, GraphInference
from kernelfields.inference.packing import check_structure, raise_if_infeasible_graph
from kernelfields.inference.table.rows import LabelTableRows, outer_sums
from kernelfields.numerics.threads import Workers

#: Most labellings of a graph, with one table for all graphs.
MOST_LABELLINGS = 2**20
#: Below this a sum may have lost terms to underflow, and the graph is done again in logarithms.
_SAFE_SUM = 1e-250
_BLOCK_ENTRIES = 2**16
_MOST_BLOCKS = 16


@dataclass
class _Halves:
    """One block of graphs: exponentials (S, A) and (S, B) of both halves, their products with W, and Z."""

    left: np.ndarray
    right: np.ndarray
    left_sums: np.ndarray  # W F, (S, A)
    right_sums: np.ndarray  # E W, (S, B)
    totals: np.ndarray
    peaks: np.ndarray


class LabelTableBeliefs(GraphBeliefs):
    """Beliefs from tables; the potentials are kept, tables are made again where they are needed."""

    inference: LabelTables

    def __init__(self, inference, log_partition, node_marginals, *, tied, weights, node, factors, sums, workers):
        super().__init__(inference, log_partition, node_marginals, tied=tied, weights=weights)
        self._node = node
        self._factors = factors
        self._sums = sums
        self._workers = workers

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        rows = self.inference.rows
        parts = [rows.factor_sums(masses, [group])[0] for _, masses in rows.probabilities(self._node, self._factors)]
        return np.concatenate(parts).reshape(self.inference.table_shape(group, False))

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the gradient of the weighted log partition in (node, factors), shaped like them."""
        return self._weighted(self.node_marginals, self.inference.node_graphs), self._sums

    def hessian_product(
        self, d_node: np.ndarray, d_factors: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        d_node, tables = self._check_direction(d_node, d_factors)
        response, sums = self.inference.responses(self, d_node, tables)
        return self._weighted(response, self.inference.node_graphs), sums


class LabelTables(GraphInference):
    """Exact inference on small graphs of one structure by tables of all their labellings."""

    method = "table"
    exact = True
    bound = "exact"

    def __init__(self, offsets, members, n_labels):
        super().__init__(*check_structure(offsets, members, n_labels))
        self.rows = LabelTableRows(self.offsets, self.members, self.n_labels)
        self.n_columns = self.rows.n_columns
        n_labellings = self.n_labels**self.n_columns
        if n_labellings > MOST_LABELLINGS:
            raise MemoryError(
                f"{self.n_columns} nodes with {self.n_labels} labels have {n_labellings:,} labellings, and a "
                f'table takes at most {MOST_LABELLINGS:,}: use fewer edges and "junction", or "trw"'
            )
        self.rows.prepare()
        size = max(1, _BLOCK_ENTRIES // self.rows.shape[1])
        size = max(size, -(-self.n_graphs // _MOST_BLOCKS))
        self._blocks = [(first, min(first + size, self.n_graphs)) for first in range(0, self.n_graphs, size)]
        self.description = f"tables of all {n_labellings:,} labellings of {self.n_columns} nodes: exact"

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> LabelTableBeliefs:
        """Compute log partition functions and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        weights = self.check_weights(weights)
        node, checked, tied = self.check_potentials(node, factors)
        workers = workers or Workers(1)
        log_partition = np.full(self.n_graphs, -np.inf)
        marginals = np.empty((self.n_graphs, self.n_columns * self.n_labels))
        scale = np.ones(self.n_graphs) if weights is None else weights
        whole = np.ones(self.n_graphs, dtype=np.bool_)
        sums = [np.zeros(self.table_shape(group, each)) for group, each in enumerate(tied)]
        if self._halved(checked):
            self.rows.add_joint(sums, self._infer_halves(node, checked, scale, workers, log_partition, marginals))
            whole = np.isneginf(log_partition)
        for graphs, masses in self.rows.probabilities(node, checked, np.flatnonzero(whole), log_partition):
            marginals[graphs] = self.rows.nodes(masses.sum(axis=2), masses.sum(axis=1))
            self.rows.add(sums, masses, graphs, scale)
        return LabelTableBeliefs(
            self,
            log_partition,
            marginals.reshape(node.shape),
            tied=tied,
            weights=weights,
            node=node,
            factors=checked,
            sums=sums,
            workers=workers,
        )

    def _halved(self, factors: Sequence[np.ndarray]) -> bool:
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
        return _Halves(left, right, right @ table.T, right_sums, totals, peaks)

    def _infer_halves(self, node, factors, scale, workers, log_partition, marginals):
        """Fill in what halves can tell; return the weighted sum of joint probabilities, (A, B)."""
        table, peak = self._table(factors)
        partial: dict[int, np.ndarray] = {}

        def run(first: int, last: int) -> None:
            halves = self._halves(node, table, first, last)
            safe = halves.totals > _SAFE_SUM
            inverse = np.where(safe, 1.0 / np.where(safe, halves.totals, 1.0), 0.0)
            log_totals = np.log(halves.totals, out=np.full(last - first, -np.inf), where=safe)
            log_partition[first:last] = log_totals + halves.peaks + peak
            sides = ((halves.left, halves.left_sums), (halves.right, halves.right_sums))
            marginals[first:last] = self.rows.nodes(*(side * sums * inverse[:, None] for side, sums in sides))
            partial[first] = (halves.left * (scale[first:last] * inverse)[:, None]).T @ halves.right

        workers.each(run, self._blocks)
        return table * sum(partial[first] for first, _ in self._blocks)

    def responses(
        self, beliefs: LabelTableBeliefs, d_node: np.ndarray, d_factors: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return how marginals (N, L) and weighted factor sums respond to a direction in the potentials."""
        node, factors, rows = beliefs._node, beliefs._factors, self.rows
        scale = np.ones(self.n_graphs) if beliefs.weights is None else beliefs.weights
        response = np.empty((self.n_graphs, self.n_columns * self.n_labels))
        whole = np.ones(self.n_graphs, dtype=np.bool_)
        sums = [np.zeros(self.table_shape(group, each)) for group, each in enumerate(beliefs.tied)]
        if self._halved(factors):
            joint, whole = self._respond_halves(beliefs, d_node, d_factors, scale, response)
            rows.add_joint(sums, joint)
        shared = rows.shared_scores(d_factors)
        for graphs, masses in rows.probabilities(node, factors, np.flatnonzero(whole)):
            changes = rows.scores(d_node, d_factors, graphs, shared)
            masses *= changes - np.einsum("ijk,ijk->i", masses, changes)[:, None, None]
            response[graphs] = rows.nodes(masses.sum(axis=2), masses.sum(axis=1))
            rows.add(sums, masses, graphs, scale)
        return response.reshape(node.shape), sums

    def _respond_halves(self, beliefs, d_node, d_factors, scale, response):
        table, _ = self._table(beliefs._factors)
        d_table = table * self.rows.shared_scores(d_factors)
        partial: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        whole = np.zeros(self.n_graphs, dtype=np.bool_)

        def run(first: int, last: int) -> None:
            halves = self._halves(beliefs._node, table, first, last)
            safe = halves.totals > _SAFE_SUM
            whole[first:last] = ~safe
            inverse = np.where(safe, 1.0 / np.where(safe, halves.totals, 1.0), 0.0)[:, None]
            left, right = halves.left * inverse, halves.right  # so that all sums below are those of probabilities
            d_scores = self._split(d_node, first, last)
            d_left, d_right = left * d_scores[0], right * d_scores[1]
            d_left_sums = d_right @ table.T + right @ d_table.T
            d_right_sums = d_left @ table + left @ d_table
            right_sums = halves.right_sums * inverse
            mean = np.einsum("ij,ij->i", d_right_sums, right) + np.einsum("ij,ij->i", right_sums, d_right)
            d_left -= mean[:, None] * left
            d_right_sums -= mean[:, None] * right_sums
            masses = (
                d_left * halves.left_sums + left * d_left_sums,
                d_right_sums * right + right_sums * d_right,
            )
            response[first:last] = self.rows.nodes(*masses)
            weights = scale[first:last, None]
            plain = (left * weights).T @ right
            partial[first] = ((d_left * weights).T @ right + (left * weights).T @ d_right, plain)

        beliefs._workers.each(run, self._blocks)
        moved, plain = (sum(partial[first][part] for first, _ in self._blocks) for part in (0, 1))
        return table * moved + d_table * plain, whole

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score per graph (S,); the first of equals."""
        node, checked, _ = self.check_potentials(node, factors)
        best, scores = np.empty(self.n_graphs, dtype=np.int64), np.empty(self.n_graphs)
        shared = self.rows.shared_scores(checked)
        for graphs in self.rows.blocks(np.arange(self.n_graphs)):
            table = self.rows.scores(node, checked, graphs, shared).reshape(len(graphs), -1)
            best[graphs] = table.argmax(axis=1)
            scores[graphs] = table[np.arange(len(table)), best[graphs]]
        raise_if_infeasible_graph(scores)
        return self.rows.labellings(best).reshape(-1), scores

    def sample(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw independent labellings (n_samples, N) from p(y)."""
        if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        node, checked, _ = self.check_potentials(node, factors)
        uniforms = np.random.default_rng(random).random((self.n_graphs, n_samples))
        drawn = np.empty((self.n_graphs, n_samples), dtype=np.int64)
        for graphs, masses in self.rows.probabilities(node, checked):
            ends = np.cumsum(masses.reshape(len(masses), -1), axis=1)
            for graph, row in zip(graphs.tolist(), ends, strict=True):
                # Scaled by the last sum, a draw never lands behind it, nor on a labelling of probability zero.
                drawn[graph] = np.searchsorted(row, uniforms[graph] * row[-1], side="right")
        return np.swapaxes(self.rows.labellings(drawn), 0, 1).reshape(n_samples, -1)
