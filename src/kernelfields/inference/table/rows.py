"""Tables of all labellings of graphs of one structure, in blocks of graphs; see inference.py.

A labelling is numbered with the first node slowest, so that a table (.., L^K) is also (.., A, B), the labellings
of the first K // 2 nodes by those of the rest. With I_A and I_B (labellings, nodes L), which say by 0 or 1 which
label each node has, and Q (.., K L, K L) the tables of pairs of nodes u < v, in parts by the halves of u and v,

    scores of pairs     = I_A Q_AB I_B^T + rowwise(I_A Q_AA, I_A) + rowwise(I_B Q_BB, I_B)
    sums over masses M  = I_A^T M I_B,     I_A^T diag(M 1) I_A,     I_B^T diag(M^T 1) I_B

for one table or for one per graph. Larger factors, and pairs that forbid something, go through an array with an
axis for each node. Cost: O(S L^K K) for pairs, O(S L^K F) for F other factors of a graph; a block holds some
millions of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kernelfields.inference.packing import InfeasibleGraph


def outer_sums(scores: np.ndarray) -> np.ndarray:
    """Return sum_k scores[i, k, y_k] for all labellings y, (S, L^K), from scores (S, K, L)."""
    sums = np.zeros((len(scores), 1))
    for column in reversed(range(scores.shape[1])):  # the slowest last: long inner loops
        sums = (scores[:, column, :, None] + sums[:, None, :]).reshape(len(scores), -1)
    return sums


class LabelTableRows:
    """The structure that all graphs share, and sums over their labellings."""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int, block_entries: int):
        sizes = np.diff(offsets)
        if (sizes != sizes[0]).any():
            graph = int((sizes != sizes[0]).argmax())
            raise ValueError(
                f"tables of labellings need graphs of one structure: graph {graph} has {sizes[graph]} nodes, "
                f"graph 0 has {sizes[0]}"
            )
        self.block_entries = block_entries
        self.n_items = len(sizes)
        self.n_labels = n_labels
        self.n_columns = int(sizes[0])
        self.half = self.n_columns // 2
        #: Nodes of each factor of a graph, counted within the graph, group by group.
        self.local = [self._local_members(group, each, offsets) for group, each in enumerate(members)]

    def _local_members(self, group: int, members: np.ndarray, offsets: np.ndarray) -> list[tuple[int, ...]]:
        if not len(members):
            return []
        if len(members) % self.n_items == 0:
            rows = members.reshape(self.n_items, -1, members.shape[1]) - offsets[:-1, None, None]
            if (rows == rows[0]).all() and rows.min() >= 0 and rows.max() < self.n_columns:
                return [tuple(row) for row in rows[0].tolist()]
        raise ValueError(
            f"tables of labellings need graphs of one structure: factor group {group} does not join the same "
            "nodes in every graph, graph by graph in the same order"
        )

    def prepare(self) -> None:
        """Lay out the labellings of both halves; apart from the checks, as there may be too many."""
        counts = (self.half, self.n_columns - self.half)
        self.indicators = [self._indicators(count) for count in counts]
        self.shape = (self.n_labels ** counts[0], self.n_labels ** counts[1])

    def _indicators(self, n_positions: int) -> np.ndarray:
        labels = _digits(np.arange(self.n_labels**n_positions), self.n_labels, n_positions)
        return (labels[:, :, None] == np.arange(self.n_labels)).reshape(len(labels), -1).astype(np.float64)

    def labellings(self, numbers: np.ndarray) -> np.ndarray:
        """Return the labels (.., K) of labellings given by their numbers."""
        return _digits(numbers, self.n_labels, self.n_columns)

    def by_graph(self, node: np.ndarray) -> np.ndarray:
        """Return node potentials (N, L) as (S, K, L)."""
        return node.reshape(self.n_items, self.n_columns, self.n_labels)

    def blocks(self, graphs: np.ndarray) -> Iterator[np.ndarray]:
        """Cut graphs into blocks whose tables fit in memory."""
        size = max(1, self.block_entries // self.n_labels**self.n_columns)
        for begin in range(0, len(graphs), size):
            yield graphs[begin : begin + size]

    def shared_scores(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the summed scores (A, B) of tied factors for all labellings, those of graphs' own left out."""
        tied = [
            (nodes, tables)
            for local, tables in zip(self.local, factors, strict=True)
            if len(tables) == 1
            for nodes in local
        ]
        return self._factor_scores(1, tied)[0]

    def _own_scores(self, factors: Sequence[np.ndarray], graphs: np.ndarray) -> np.ndarray | None:
        """Return the summed scores (S, A, B) of factors with a table for each graph; None if there are none."""
        untied = [
            (nodes, tables.reshape(self.n_items, len(local), *tables.shape[1:])[graphs, place])
            for local, tables in zip(self.local, factors, strict=True)
            if len(tables) > 1
            for place, nodes in enumerate(local)
        ]
        return self._factor_scores(len(graphs), untied) if untied else None

    def _factor_scores(self, n_rows: int, factors: list[tuple[tuple[int, ...], np.ndarray]]) -> np.ndarray:
        """Return the summed scores (S, A, B) of factors, given as their nodes and tables (S, L, .., L)."""
        width, step = self.n_columns * self.n_labels, self.n_labels
        pairs, others = np.zeros((n_rows, width, width)), []
        for nodes, tables in factors:
            if len(nodes) == 2 and np.isfinite(tables.sum()):
                u, v = min(nodes) * step, max(nodes) * step
                pairs[:, u : u + step, v : v + step] += tables if nodes[0] < nodes[1] else tables.swapaxes(1, 2)
            else:
                others.append((nodes, tables))
        cut, (left, right) = self.half * step, self.indicators
        scores = left @ pairs[:, :cut, cut:] @ right.T
        scores += np.einsum("tik,ik->ti", left @ pairs[:, :cut, :cut], left)[:, :, None]
        scores += np.einsum("tik,ik->ti", right @ pairs[:, cut:, cut:], right)[:, None, :]
        shaped = scores.reshape(n_rows, *(step,) * self.n_columns)
        for nodes, tables in others:
            sizes = [step if column in nodes else 1 for column in range(self.n_columns)]
            shaped += tables.transpose(0, *(1 + np.argsort(nodes))).reshape(n_rows, *sizes)
        return scores

    def scores(
        self, node: np.ndarray, factors: Sequence[np.ndarray], graphs: np.ndarray, shared: np.ndarray
    ) -> np.ndarray:
        """Return the scores (S, A, B) of all labellings of some graphs; ``shared`` are those of tied factors."""
        table = outer_sums(self.by_graph(node)[graphs]).reshape(-1, *self.shape)
        table += shared
        own = self._own_scores(factors, graphs)
        return table if own is None else np.add(table, own, out=table)

    def probabilities(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        chosen: np.ndarray | None = None,
        log_partition: np.ndarray | None = None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of graphs and the probabilities (S, A, B) of their labellings; note log partitions."""
        shared = self.shared_scores(factors)
        for graphs in self.blocks(np.arange(self.n_items) if chosen is None else chosen):
            table = self.scores(node, factors, graphs, shared)
            peaks = table.max(axis=(1, 2))
            if np.isneginf(peaks).any():
                raise InfeasibleGraph(int(graphs[np.isneginf(peaks).argmax()]))
            np.exp(np.subtract(table, peaks[:, None, None], out=table), out=table)
            totals = table.sum(axis=(1, 2))
            table /= totals[:, None, None]
            if log_partition is not None:
                log_partition[graphs] = np.log(totals) + peaks
            yield graphs, table

    def nodes(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the mass of every label at every node, (S, K L), from the masses of both halves."""
        return np.hstack([left @ self.indicators[0], right @ self.indicators[1]])

    def pair_sums(self, masses: np.ndarray) -> np.ndarray:
        """Return the mass of the labels at every pair of nodes u < v, (S, K L, K L), the rest left empty."""
        left, right = self.indicators
        cut, width = left.shape[1], left.shape[1] + right.shape[1]
        sums = np.empty((len(masses), width, width))
        sums[:, :cut, cut:] = left.T @ masses @ right
        sums[:, :cut, :cut] = (left.T * masses.sum(axis=2)[:, None, :]) @ left
        sums[:, cut:, cut:] = (right.T * masses.sum(axis=1)[:, None, :]) @ right
        return sums

    def joined_pairs(
        self, left: np.ndarray, table: np.ndarray, right: np.ndarray, sides: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """Return the same where the masses are left_i(a) table(a, b) right_i(b) and ``sides`` their sums over b, a."""
        first, last = self.indicators
        (n_rows, cut), width = (len(left), first.shape[1]), first.shape[1] + last.shape[1]
        sums = np.empty((n_rows, width, width))
        # One large product in place of one for each graph.
        carried = (left[:, None, :] * first.T).reshape(n_rows * cut, len(first)) @ table
        carried = (carried.reshape(n_rows, cut, len(last)) * right[:, None, :]).reshape(n_rows * cut, len(last))
        sums[:, :cut, cut:] = (carried @ last).reshape(n_rows, cut, width - cut)
        for side, indicators, own in zip(sides, self.indicators, (slice(cut), slice(cut, width)), strict=True):
            both = indicators[:, :, None] * indicators[:, None, :]
            sums[:, own, own] = (side @ both.reshape(len(both), -1)).reshape(n_rows, *both.shape[1:])
        return sums

    def pair_tables(self, pairs: np.ndarray, group: int) -> np.ndarray:
        """Return the marginals (S, factors of a graph, L, L) of a group of pairs, given those of all pairs."""
        step, tables = self.n_labels, np.empty((len(pairs), len(self.local[group]), *(self.n_labels,) * 2))
        for place, nodes in enumerate(self.local[group]):
            u, v = min(nodes) * step, max(nodes) * step
            part = pairs[:, u : u + step, v : v + step]
            tables[:, place] = part if nodes[0] < nodes[1] else part.swapaxes(1, 2)
        return tables

    def factor_sums(self, masses: np.ndarray, groups: Sequence[int]) -> list[np.ndarray]:
        """Return the masses of the labels at factors, (S, factors of a graph, L, .., L), for some groups."""
        shaped, axes = masses.reshape(len(masses), *(self.n_labels,) * self.n_columns), range(1 + self.n_columns)
        step, sums = self.n_labels, []
        pairs = self.pair_sums(masses) if any(len(n) == 2 for group in groups for n in self.local[group]) else None
        for group in groups:
            tables = []
            for nodes in self.local[group]:
                if len(nodes) == 2:
                    assert pairs is not None
                    u, v = min(nodes) * step, max(nodes) * step
                    table = pairs[:, u : u + step, v : v + step]
                    tables.append(table if nodes[0] < nodes[1] else table.swapaxes(1, 2))
                else:
                    tables.append(np.einsum(shaped, list(axes), [0, *(node + 1 for node in nodes)]))
            sums.append(np.stack(tables, axis=1) if tables else np.zeros((len(masses), 0)))
        return sums


class LabelSums:
    """Masses of labels: at nodes (S, K L), and at factors, weighted and shaped like their potentials."""

    def __init__(self, rows: LabelTableRows, factors: Sequence[np.ndarray], weights: np.ndarray | None):
        self._rows = rows
        self.weights = np.ones(rows.n_items) if weights is None else weights
        self.node = np.empty((rows.n_items, rows.n_columns * rows.n_labels))
        self.factors = [np.zeros(each.shape) for each in factors]

    def add(self, blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        """Add the masses (S, A, B) of the labellings of some graphs, block by block."""
        for graphs, masses in blocks:
            self.node[graphs] = self._rows.nodes(masses.sum(axis=2), masses.sum(axis=1))
            self.add_joint(np.tensordot(self.weights[graphs], masses, axes=1))
            untied = [group for group, total in enumerate(self.factors) if len(total) > 1]
            for group, rows in zip(untied, self._rows.factor_sums(masses, untied) if untied else [], strict=True):
                total = self.factors[group].reshape(self._rows.n_items, -1, *self.factors[group].shape[1:])
                total[graphs] += self.weights[graphs].reshape((-1,) + (1,) * (rows.ndim - 1)) * rows

    def add_joint(self, joint: np.ndarray) -> None:
        """Add weighted masses summed over graphs, (A, B), to tied factors; the others stay as they are."""
        tied = [group for group, total in enumerate(self.factors) if len(total) == 1 and self._rows.local[group]]
        for group, rows in zip(tied, self._rows.factor_sums(joint[None], tied), strict=True):
            self.factors[group][0] += rows[0].sum(axis=0)


def _digits(numbers: np.ndarray, base: int, count: int) -> np.ndarray:
    """Return the digits of numbers, the first one the most significant, (.., count)."""
    return np.asarray(numbers)[..., None] // base ** np.arange(count)[::-1] % base
