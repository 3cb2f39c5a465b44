"""Exact inference on many small graphs of equal structure, by tables of all labellings and matrix products.

Every graph has the same K nodes and the same factors, as the labels of an instance in a multi-label field have.
Labellings are numbered with the first node slowest, so that a table (.., L^K) is also (.., A, B): the labellings a of
the first K // 2 nodes by the labellings b of the rest. The indicators I_A (A, nodes L) and I_B (B, nodes L) say by 0
or 1 which label each node has.

Scores and sums. Let Q (.., K L, K L) hold the tables of pairs of nodes u < v, in parts by the halves of u and v, for
all graphs or one per graph. Then

    scores of pairs     = I_A Q_AB I_B^T + rowwise(I_A Q_AA, I_A) + rowwise(I_B Q_BB, I_B)
    sums over masses M  = I_A^T M I_B,     I_A^T diag(M 1) I_A,     I_B^T diag(M^T 1) I_B

Larger factors, and pairs that forbid something, go through an array with an axis for each node.

Tied factors. Where all factors are tied, a labelling (a, b) of graph i scores s_i(a) + r_i(b) + w(a, b), and w is the
same for all graphs:

    Z_i      = sum_ab E_i(a) W(a, b) F_i(b)              E = exp s, F = exp r, W = exp w
    p_i(a)   = E_i(a) (W F_i)(a) / Z_i                   and likewise p_i(b)
    sum_i weight_i p_i(a, b) = W(a, b) sum_i E_i(a) F_i(b) weight_i / Z_i

so that S graphs cost a few products of (S, L^(K/2)) with (L^(K/2), L^(K/2)) matrices and no exponential of an
(S, L^K) table, and the joint marginals of tied factors are never held per graph. Derivatives of these equations
along a direction give Hessian products, and the marginals of all pairs u < v of one graph are

    I_A^T diag(E_i) W diag(F_i) I_B / Z_i,     I_A^T diag(p_i(a)) I_A,     I_B^T diag(p_i(b)) I_B

Where a factor has a table for each graph, where Z underflows, and for best labellings and samples, the (S, L^K)
table is made, in blocks of graphs of some millions of entries.

Arrays as in inference/graphs.py. Time: O(S L^K) multiplications where all factors are tied; otherwise O(S L^K K) for
pairs and O(S L^K F) for F larger factors of a graph. Memory: L^K and blocks. Raises ValueError if the graphs differ in
structure, MemoryError if there are too many labellings, and ValueError naming the graph where every labelling is
forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelfields.inference.family import RankedLabellings
from kernelfields.inference.graphs import GraphFamily, GraphMember, GraphPotentials
from kernelfields.inference.junction.family import JunctionFamily
from kernelfields.inference.packed_graphs import InfeasibleGraph, check_structure
from kernelfields.inference.packing import raise_if_infeasible
from kernelfields.numerics.threads import Workers


def outer_sums(scores: np.ndarray) -> np.ndarray:
    """Return sum_k scores[i, k, y_k] for all labellings y, (S, L^K), from scores (S, K, L)."""
    sums = np.zeros((len(scores), 1))
    for column in reversed(range(scores.shape[1])):  # the slowest last: long inner loops
        sums = (scores[:, column, :, None] + sums[:, None, :]).reshape(len(scores), -1)
    return sums


class LabelTableRows:
    """The common structure of graphs, and sums over their labellings."""

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
        """Arrange the labellings of both halves; called after the checks, as there may be too many."""
        counts = (self.half, self.n_columns - self.half)
        self.indicators = [self._indicators(count) for count in counts]
        self.shape = (self.n_labels ** counts[0], self.n_labels ** counts[1])

    def _indicators(self, n_positions: int) -> np.ndarray:
        labels = _digits(np.arange(self.n_labels**n_positions), self.n_labels, n_positions)
        return (labels[:, :, None] == np.arange(self.n_labels)).reshape(len(labels), -1).astype(np.float64)

    def labellings(self, numbers: np.ndarray) -> np.ndarray:
        """Return the labels (.., K) of labellings given by number."""
        return _digits(numbers, self.n_labels, self.n_columns)

    def by_graph(self, node: np.ndarray) -> np.ndarray:
        """Return node potentials (N, L) as (S, K, L)."""
        return node.reshape(self.n_items, self.n_columns, self.n_labels)

    def blocks(self, graphs: np.ndarray) -> Iterator[np.ndarray]:
        """Split graphs into blocks with tables that fit in memory."""
        size = max(1, self.block_entries // self.n_labels**self.n_columns)
        for begin in range(0, len(graphs), size):
            yield graphs[begin : begin + size]

    def shared_scores(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the summed scores (A, B) of tied factors for all labellings."""
        tied = [
            (nodes, tables)
            for local, tables in zip(self.local, factors, strict=True)
            if len(tables) == 1
            for nodes in local
        ]
        return self._factor_scores(1, tied)[0]

    def _own_scores(self, factors: Sequence[np.ndarray], graphs: np.ndarray) -> np.ndarray | None:
        """Return the summed scores (S, A, B) of factors with a table for each graph; None without such factors."""
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
        """Return the scores (S, A, B) of all labellings of some graphs; ``shared`` are the scores of tied factors."""
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
        """Yield blocks of graphs and the probabilities (S, A, B) of their labellings; set log partitions."""
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
        """Return the mass of the labels at every pair of nodes u < v, (S, K L, K L); other entries are undefined."""
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
        """Return pair sums for masses left_i(a) table(a, b) right_i(b), with ``sides`` their sums over b, a."""
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
        """Return the marginals (S, factors of a graph, L, L) of a group of pairs, given the marginals of all pairs."""
        step, tables = self.n_labels, np.empty((len(pairs), len(self.local[group]), *(self.n_labels,) * 2))
        for place, nodes in enumerate(self.local[group]):
            u, v = min(nodes) * step, max(nodes) * step
            part = pairs[:, u : u + step, v : v + step]
            tables[:, place] = part if nodes[0] < nodes[1] else part.swapaxes(1, 2)
        return tables

    def factor_sums(self, masses: np.ndarray, groups: Sequence[int]) -> list[np.ndarray]:
        """Return the masses of the labels at factors, (S, factors of a graph, L, .., L), for some groups."""
        shaped, axes = masses.reshape(len(masses), *(self.n_labels,) * self.n_columns), range(1 + self.n_columns)
        sums, pairs = [], None
        for group in groups:
            local = self.local[group]
            if local and len(local[0]) == 2:
                pairs = self.pair_sums(masses) if pairs is None else pairs
                sums.append(self.pair_tables(pairs, group))
            else:
                tables = [np.einsum(shaped, list(axes), [0, *(node + 1 for node in nodes)]) for nodes in local]
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
        """Add weighted masses summed over graphs, (A, B), to tied factors alone."""
        tied = [group for group, total in enumerate(self.factors) if len(total) == 1 and self._rows.local[group]]
        for group, rows in zip(tied, self._rows.factor_sums(joint[None], tied), strict=True):
            self.factors[group][0] += rows[0].sum(axis=0)


def _digits(numbers: np.ndarray, base: int, count: int) -> np.ndarray:
    """Return the digits of numbers, the most significant first, (.., count)."""
    return np.asarray(numbers)[..., None] // base ** np.arange(count)[::-1] % base


#: Most labellings of a graph, with one table for all graphs.
MOST_LABELLINGS = 2**20
#: Below this a sum may have lost terms to underflow, and the graph is done again in logarithms.
_SAFE_SUM = 1e-250
_MOST_BLOCKS = 16


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
    """Beliefs from tables, which are recomputed from potentials."""

    family: TableFamily

    def __init__(self, family, checked, log_partition, node_marginals, sums, workers):
        super().__init__(family, checked, log_partition, node_marginals, workers)
        self._sums = sums

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        rows, shape = self.family.rows, self.family.table_shape(group, False)
        if len(shape) == 3:
            return rows.pair_tables(self._pairs, group).reshape(shape)
        masses_of_blocks = rows.probabilities(self._checked.node, self._checked.tables)
        parts = [rows.factor_sums(masses, [group])[0] for _, masses in masses_of_blocks]
        return np.concatenate(parts).reshape(shape)

    @cached_property
    def _pairs(self) -> np.ndarray:
        """The marginals of every pair of nodes, (S, K L, K L): one pass over the tables for all groups."""
        return self.family.pair_marginals(self._checked, self._workers)

    def _expected_tables(self) -> list[np.ndarray]:
        return self._sums

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        response, sums = self.family.responses(self._checked, d_node, d_tables, self._workers)
        return self._weighted(response, self.family.position_items), sums


class TableFamily(GraphFamily):
    """Infer small graphs of equal structure, exactly, by tables of all their labellings.

    Parameters
    ----------
    offsets : array (S + 1,)
        The node at which each graph begins, and N.
    members : sequence of arrays (M, k)
        The nodes of the factors of each group.
    n_labels : int
        The number of labels.
    half_entries : int, default 65536
        The entries of the halves of tables in a block of graphs, about.
    table_entries : int, default 2097152
        The entries of whole tables in a block of graphs, about.

    Raises
    ------
    ValueError
        If the graphs differ in structure.
    MemoryError
        If there are too many labellings.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import TableFamily
    >>> family = TableFamily(np.array([0, 3]), [np.array([[0, 1], [1, 2], [2, 0]])], n_labels=2)
    >>> scores = family.zeros()
    >>> np.exp(family.distribution(scores).log_partition).round()  # eight labellings
    array([8.])
    """

    method = "table"

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
        if self.is_halved(checked.tables):
            sums.add_joint(self._infer_halves(checked, workers, log_partition, sums))
        left = np.flatnonzero(np.isneginf(log_partition))
        sums.add(self.rows.probabilities(checked.node, checked.tables, left, log_partition))
        return TableMember(self, checked, log_partition, sums.node.reshape(checked.node.shape), sums.factors, workers)

    def is_halved(self, factors: Sequence[np.ndarray]) -> bool:
        """Whether all graphs share one table of factors, multiplied in halves.

        Parameters
        ----------
        factors : sequence of arrays
            The tables of the groups.

        Returns
        -------
        bool
            Whether halves of tables are enough.
        """
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
        """Fill the results from halves; return the weighted sum of joint probabilities, (A, B)."""
        table, peak = self._table(checked.tables)

        def part(first: int, last: int) -> np.ndarray:
            halves = self._halves(checked.node, table, first, last)
            log_partition[first:last] = halves.log_totals + peak
            sides = ((halves.left, halves.left_sums), (halves.right, halves.right_sums))
            sums.node[first:last] = self.rows.nodes(*(side * each * halves.inverse for side, each in sides))
            return (halves.left * (sums.weights[first:last, None] * halves.inverse)).T @ halves.right

        return table * workers.sum(part, self._blocks)

    def pair_marginals(self, checked: GraphPotentials, workers: Workers) -> np.ndarray:
        """Compute the marginals of the pairs of nodes u < v of all graphs.

        Parameters
        ----------
        checked : GraphPotentials
            The potentials, as ``check_potentials`` returns them.
        workers : Workers
            The threads.

        Returns
        -------
        array (S, K L, K L)
            The marginals; other blocks are left empty.
        """
        rows, whole = self.rows, np.ones(self.n_items, dtype=np.bool_)
        width = self.n_columns * self.n_labels
        pairs = np.empty((self.n_items, width, width))
        if self.is_halved(checked.tables):
            table, _ = self._table(checked.tables)

            def part(first: int, last: int) -> None:
                halves = self._halves(checked.node, table, first, last)
                whole[first:last] = halves.inverse[:, 0] == 0.0
                left, right_sums = halves.left * halves.inverse, halves.right_sums * halves.inverse
                sides = left * halves.left_sums, right_sums * halves.right
                pairs[first:last] = rows.joined_pairs(left, table, halves.right, sides)

            size = max(1, rows.block_entries // (rows.half * self.n_labels * rows.shape[1] + 1))
            workers.each(part, [(at, min(at + size, self.n_items)) for at in range(0, self.n_items, size)])
        for graphs, masses in rows.probabilities(checked.node, checked.tables, np.flatnonzero(whole)):
            pairs[graphs] = rows.pair_sums(masses)
        return pairs

    def responses(
        self, checked: GraphPotentials, d_node: np.ndarray, d_tables: list[np.ndarray], workers: Workers
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Compute the response of marginals and weighted sums of factors to a direction in the potentials.

        Parameters
        ----------
        checked : GraphPotentials
            The potentials, as ``check_potentials`` returns them.
        d_node : array (N, L)
            The direction in the scores of nodes.
        d_tables : list of arrays
            The direction in the tables of factors.
        workers : Workers
            The threads.

        Returns
        -------
        pair
            The derivatives of the marginals, (N, L), and of the sums.
        """
        rows, left = self.rows, np.arange(self.n_items)
        sums = LabelSums(rows, checked.tables, checked.weights)
        if self.is_halved(checked.tables):
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
        """Fill the responses from halves; return the derivative of the joint probabilities, and the rest."""
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

    def _ranked(self, checked: GraphPotentials, k: int, workers: Workers) -> RankedLabellings:
        return JunctionFamily(self.offsets, self.members, self.n_labels)._ranked(checked, k, workers)

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
