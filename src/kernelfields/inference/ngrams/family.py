"""Exact inference on chains with label n-grams, by an automaton; see automaton.py.

    node     (N, L)      potentials of labels
    edge     (1, L, L)   of neighbours, everywhere, or
             (M, L, L)   those of each position but the first of a sequence
    tables   (1, P)      weights of n-grams, one array for each length, in the order of their labellings

Sequences are sorted by length and worked on in batches of lanes, batches in runs that do not depend on the number of
threads. Sequences whose probabilities leave the range of doubles are inferred again by logarithms.py. Beliefs keep
marginals and expected n-grams; Hessian products run the passes again.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse

from kernelfields.data.graphs import group_name
from kernelfields.inference import ngrams
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.family import RankedLabellings
from kernelfields.inference.graphs import GraphFamily, GraphMember, GraphPotentials
from kernelfields.inference.ngrams.automaton import NgramAutomaton, find_places
from kernelfields.inference.ngrams.logarithms import SequenceBeliefs, infer_in_logarithms, log_futures
from kernelfields.inference.packing import InfeasibleSequence, exponentials, raise_if_infeasible
from kernelfields.inference.potentials import Observed, Potentials
from kernelfields.numerics.threads import Workers

# Sequences side by side, and the bytes of panels that a thread may keep: fewer lanes, then fewer positions.
_LANES = 64
_PANEL_BYTES = 32 * 2**20
_FEWEST_POSITIONS = 16
_MOST_RUNS = 16
# Sums over arcs of all runs, in numbers.
_SUMMED = 2**24


#: Changes of the scores of arcs (A,), of node potentials (N, L) and of edges, (M, L^2) or without rows.
Direction = tuple[np.ndarray, np.ndarray, np.ndarray]


class NgramFamily(GraphFamily):
    """Infer labellings of chains with n-grams without inputs, exactly, by an automaton.

    Parameters
    ----------
    offsets : array (S + 1,)
        The position at which each chain begins, and N.
    n_labels : int
        The number of labels.
    ngrams : sequence of (int, array or None)
        The lengths, from three on, and the numbers of the labellings that have scores; None for all of them.
    tied : bool, default True
        Whether one table of transitions serves all positions.
    base : BaseMeasure, optional
        The labels that are allowed, and how much they count; by default all alike.
    automaton : NgramAutomaton, optional
        The automaton, if it is known.
    lanes : int, optional
        The sequences that are inferred side by side.
    panel_bytes : int, optional
        The bytes of panels that a thread may keep.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import NgramFamily
    >>> family = NgramFamily(np.array([0, 3]), 2, [(3, None)])
    >>> scores = family.zeros()
    >>> scores["order2"][0, 1, 0, 1] = 1.0  # the labels 1, 0, 1 in a row
    >>> family.labellings(scores).best()[0].tolist()
    [1, 0, 1]
    """

    method = "n-grams"

    def __init__(
        self,
        offsets: np.ndarray,
        n_labels: int,
        ngrams: Sequence[tuple[int, np.ndarray | None]],
        *,
        tied: bool = True,
        base: BaseMeasure | None = None,
        automaton: NgramAutomaton | None = None,
        lanes: int = _LANES,
        panel_bytes: int = _PANEL_BYTES,
    ):
        lengths = [2, *(length for length, _ in ngrams)]
        self.automaton = automaton or NgramAutomaton(n_labels, ngrams)
        self._ngrams = list(ngrams)
        self._sizes = [len(some) for _, some in self.automaton.ngrams]
        self.listed = {group: some for group, (_, some) in enumerate(self.automaton.ngrams, start=1)}
        super().__init__(offsets, [_members(offsets, length) for length in lengths], n_labels)
        self.names = tuple(group_name(range(length - 1, -1, -1)) for length in lengths)
        self._set_groups(self.names if tied else self.names[1:])
        self.base = None if base is None or base.is_trivial else base
        self._lanes = lanes
        self._panel_bytes = panel_bytes
        self._batches = self._cut(min(lanes, self._lanes_that_fit()))
        n_runs = max(1, min(_MOST_RUNS, len(self._batches), _SUMMED // self.automaton.n_arcs))
        cuts = np.linspace(0, len(self._batches), n_runs + 1).astype(int)
        self._runs = [(int(a), int(b)) for a, b in pairwise(cuts)]
        self.description = (
            f"an automaton of {self.automaton.n_states:,} contexts and {self.automaton.n_arcs:,} arcs for n-grams of "
            f"up to {max(lengths)} of {n_labels} labels: exact"
        )

    def _with_other_graphs(self, offsets: np.ndarray, members: Sequence[np.ndarray]) -> NgramFamily:
        return NgramFamily(
            offsets,
            self.n_labels,
            self._ngrams,
            automaton=self.automaton,
            lanes=self._lanes,
            panel_bytes=self._panel_bytes,
        )

    def observed(self, labels: np.ndarray) -> dict[str | None, Observed]:
        """Find the labels, the edges, and the n-grams with a weight.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        dict
            For the name of each group an Observed: rows, labellings, items.
        """
        found = super().observed(labels)
        for name, (_, some) in zip(self.names[1:], self.automaton.ngrams, strict=True):
            places, items = find_places(some, found[name].labellings), found[name].items
            rows = np.flatnonzero(places >= 0)
            found[name] = Observed(rows, places[rows], items[rows])
        return found

    def _impossible(self) -> np.ndarray:
        # Its edges are the steps of chains.
        assert self.base is not None
        return self.base.dead_rows() >= 0

    def _lanes_that_fit(self) -> int:
        longest = int(np.diff(self.offsets).max(initial=1))
        return max(1, int(self._panel_bytes // (self._bytes_per_position() * min(longest, _FEWEST_POSITIONS))))

    def _bytes_per_position(self) -> float:
        """Return the bytes of a panel, and of kept arrays, for one position of one lane."""
        arcs = self.automaton.arcs
        return 8.0 * (self.automaton.n_states + len(arcs.sums.begin) + self.n_labels)

    def _cut(self, lanes: int) -> list[np.ndarray]:
        """Return the sequences of each batch, the longest first."""
        order = np.argsort(-np.diff(self.offsets), kind="stable")
        return [order[begin : begin + lanes] for begin in range(0, len(order), lanes)]

    def table_shape(self, group: int, tied: bool) -> tuple[int, ...]:
        """Return the shape of the potentials of a group.

        Parameters
        ----------
        group : int
            The number of the group.
        tied : bool
            Whether one table serves all factors.

        Returns
        -------
        tuple of int
            The shape.
        """
        listed = group > 0 and self._ngrams[group - 1][1] is not None
        return (1, self._sizes[group - 1]) if listed else super().table_shape(group, tied or group > 0)

    def arc_scores(self, tables: Sequence[np.ndarray], edge: np.ndarray | None = None) -> np.ndarray:
        """Compute the scores of the arcs of the automaton.

        Parameters
        ----------
        tables : sequence of arrays
            The tables of edges and n-grams.
        edge : array (L, L), optional
            The scores of steps; zero by default.

        Returns
        -------
        array (A,)
            The scores.
        """
        weights = np.concatenate([np.zeros(0), *(table.reshape(-1) for table in tables[1:])])
        return self.automaton.arc_scores(np.zeros(self.n_labels**2) if edge is None else edge.reshape(-1), weights)

    def scores(self, tables: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Compute the scores of arcs, and of the edges of each position.

        Parameters
        ----------
        tables : sequence of arrays
            The tables of edges and n-grams.

        Returns
        -------
        pair of arrays (A,) and (M, L^2)
            The scores; the second without rows if one table of steps serves all positions.
        """
        if len(tables[0]) == 1:
            return self.arc_scores(tables, tables[0]), np.zeros((0, 0))
        return self.arc_scores(tables), tables[0].reshape(len(tables[0]), self.n_labels**2)

    def edge_rows(self, sequence: int) -> slice:
        """Return the rows of the edges of a sequence.

        Parameters
        ----------
        sequence : int
            The number of the sequence.

        Returns
        -------
        slice
            The rows.
        """
        begin, end = self.offsets[sequence : sequence + 2].tolist()
        return slice(begin - sequence, end - sequence - 1)

    def position_scores(self, scores: np.ndarray, edge: np.ndarray, sequence: int) -> np.ndarray:
        """Compute the scores of the arcs into every position of a sequence.

        Parameters
        ----------
        scores : array (A,)
            The scores of arcs, as :meth:`scores` returns them.
        edge : array (M, L^2)
            The scores of edges, as :meth:`scores` returns them.
        sequence : int
            The number of the sequence.

        Returns
        -------
        array (T, A)
            The scores.
        """
        begin, end = self.offsets[sequence : sequence + 2].tolist()
        if not edge.size:
            return np.broadcast_to(scores, (end - begin, len(scores)))
        return np.concatenate([scores[None], scores + edge[self.edge_rows(sequence)][:, self.automaton.arcs.edges]])

    def arrange_tables(self, counts: np.ndarray, edge: np.ndarray) -> list[np.ndarray]:
        """Arrange sums over arcs in the shapes of the potentials.

        Parameters
        ----------
        counts : array (A,)
            The sums.
        edge : array (M, L^2)
            The sums of the edges of each position; without rows if one table serves all.

        Returns
        -------
        list of arrays
            The tables of edges and n-grams.
        """
        summed, flat = self.automaton.split(counts)
        parts = np.split(flat, np.cumsum(self._sizes)[:-1]) if self._sizes else []
        rows = edge if edge.shape[1] else summed[None]
        ngrams = [part.reshape(self.table_shape(group, True)) for group, part in enumerate(parts, start=1)]
        return [rows.reshape(len(rows), self.n_labels, self.n_labels), *ngrams]

    def _member(self, checked: GraphPotentials, workers: Workers) -> NgramMember:
        beliefs = NgramMember(self, checked, np.empty(self.n_items), np.empty_like(checked.node), workers)
        beliefs.counts = beliefs.run(beliefs.log_partition, beliefs.node_marginals, beliefs.edge_marginals)
        return beliefs

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        best_labellings = ngrams.decoding_compiled.best_labellings
        automaton, scores, edge = self.automaton, self.arc_scores(checked.tables), self._edges(checked)
        labels, totals = np.zeros(self.n_positions, dtype=np.int64), np.empty(self.n_items)
        shared = automaton.arcs, automaton.arc_table, scores, edge, checked.node, labels, totals
        workers.each(
            lambda first, last: best_labellings(first, last, self.offsets, *shared),
            workers.runs(self.offsets, self.n_labels),
        )
        raise_if_infeasible(totals)
        return labels, totals

    def _edges(self, checked: GraphPotentials, sequence: int | None = None) -> np.ndarray:
        """Return the edges of a sequence, or of all of them, for decoding_compiled.py."""
        edge = checked.tables[0].reshape(len(checked.tables[0]), self.n_labels**2)
        return edge if sequence is None or len(edge) == 1 else edge[self.edge_rows(sequence)]

    def _draw(
        self, checked: GraphPotentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        automaton, scores, both = self.automaton, self.arc_scores(checked.tables), self.scores(checked.tables)
        labels, uniforms = (
            np.zeros((n_samples, self.n_positions), np.int64),
            random.random((n_samples, self.n_positions)),
        )
        for sequence, (begin, end) in enumerate(pairwise(self.offsets.tolist())):
            node = checked.node[begin:end]
            futures = log_futures(automaton, self.position_scores(*both, sequence), node)
            if np.isneginf(node[0] + futures[0, : self.n_labels]).all():
                raise InfeasibleSequence(sequence)
            drawn = np.zeros((n_samples, end - begin), dtype=np.int64)
            shares = np.ascontiguousarray(uniforms[:, begin:end])
            edge = self._edges(checked, sequence)
            ngrams.decoding_compiled.draw_labellings(
                automaton.arcs, automaton.arc_table, scores, edge, node, futures, shares, drawn
            )
            labels[:, begin:end] = drawn
        return labels

    def _ranked(self, checked: GraphPotentials, k: int, workers: Workers) -> RankedLabellings:
        scores, both, found = self.arc_scores(checked.tables), self.scores(checked.tables), []
        for sequence, (begin, end) in enumerate(pairwise(self.offsets.tolist())):
            futures = np.empty((end - begin, self.automaton.n_states))
            ngrams.decoding_compiled.best_futures(
                self.automaton.arcs, scores, self._edges(checked, sequence), checked.node[begin:end], futures
            )
            best = self._best_first(self.position_scores(*both, sequence), checked.node[begin:end], futures, k)
            if not best:
                raise InfeasibleSequence(sequence)
            found.append(best)
        return [np.array([labels for _, labels in best]) for best in found], [
            np.array([score for score, _ in best]) for best in found
        ]

    def _best_first(
        self, scores: np.ndarray, node: np.ndarray, futures: np.ndarray, k: int
    ) -> list[tuple[float, tuple[int, ...]]]:
        """Return the k best labellings and their scores, by best-first extension of prefixes."""
        arc_table, targets, n_labels = self.automaton.arc_table, self.automaton.arcs.target, self.n_labels
        # What the best end scores, labels so far, the score so far, and the state.
        waiting: list[tuple[float, tuple[int, ...], float, int]] = [(0.0, (), 0.0, -1)]
        best: list[tuple[float, tuple[int, ...]]] = []
        while waiting and len(best) < k:
            _, labels, score, state = heapq.heappop(waiting)
            t = len(labels)
            if t == len(node):
                best.append((score, labels))
                continue
            reached = targets[arc_table[state]] if t else np.arange(n_labels)
            so_far = score + node[t] + (scores[t][arc_table[state]] if t else 0.0)
            ends = so_far + futures[t][reached]
            for label in np.flatnonzero(ends > -np.inf).tolist():
                item = -float(ends[label]), (*labels, label), float(so_far[label]), int(reached[label])
                heapq.heappush(waiting, item)
        return best


class NgramMember(GraphMember):
    """Log partition functions, marginals and expected arcs of chains, with the potentials."""

    family: NgramFamily
    counts: np.ndarray
    #: Of the edges that are those of each position, (M, L^2); else without rows.
    edge_marginals: np.ndarray

    def __init__(self, family, checked, log_partition, node_marginals, workers):
        super().__init__(family, checked, log_partition, node_marginals, workers)
        self._scores, self._edge = family.scores(checked.tables)
        self.edge_marginals = np.empty_like(self._edge)
        (self._steps,), (self._shift,) = exponentials(self._scores[None])
        self._edge_steps, self._edge_tops = exponentials(self._edge)
        self._rescued: set[int] = set()

    def run(
        self, first: np.ndarray, second: np.ndarray, third: np.ndarray, direction: Direction | None = None
    ) -> np.ndarray:
        """Fill log Z (S,), marginals (N, L) and marginals of edges, or expected scores and derivatives.

        Return weighted sums over arcs. ``third`` is (M, L^2), or without rows.
        """
        family = self.family
        totals = np.zeros((len(family._runs), family.automaton.n_arcs))
        numbers = {begin: number for number, (begin, _) in enumerate(family._runs)}

        def each(begin: int, end: int) -> None:
            for batch in family._batches[begin:end]:
                self._batch(batch, (first, second, third), totals[numbers[begin]], direction)

        self._workers.each(each, family._runs)
        return totals.sum(axis=0)

    def _batch(
        self,
        batch: np.ndarray,
        filled: tuple[np.ndarray, np.ndarray, np.ndarray],
        counts: np.ndarray,
        direction: Direction | None,
    ) -> None:
        """Infer the sequences of a batch, troubled sequences in logarithms."""
        first, second, third = filled
        troubled = np.array([sequence in self._rescued for sequence in batch.tolist()])
        while not troubled.all():
            some = batch[~troubled]
            log_sums, flags = np.empty(len(some)), np.zeros(len(some), dtype=np.bool_)
            sums = self._passes(some, self._checked.node, (log_sums, flags, second), third, direction)
            if not flags.any():
                first[some] = log_sums if direction is not None else log_sums + self._excluded_logs(some)
                counts += sums
                break
            troubled[np.flatnonzero(~troubled)[flags]] = True
        for sequence in batch[troubled].tolist():
            self._rescued.add(sequence)
            rows, exact = self._in_logarithms(sequence, direction)
            first[sequence], second[rows] = exact.log_partition, exact.marginals
            if len(third):
                third[self.family.edge_rows(sequence)] = self._sum_edges(exact.arcs[1:])
            counts += self.item_weights[sequence] * exact.arcs.sum(axis=0)

    def _excluded_logs(self, batch: np.ndarray) -> np.ndarray:
        """Return the part of log Z outside the exponentials of the edges of some sequences."""
        if not len(self._edge_tops):
            return np.zeros(len(batch))
        return np.array([self._edge_tops[self.family.edge_rows(sequence)].sum() for sequence in batch.tolist()])

    def _sum_edges(self, arcs: np.ndarray) -> np.ndarray:
        """Sum posteriors of arcs (n, A) to posteriors of edges (n, L^2)."""
        automaton = self.family.automaton
        ones = np.ones(automaton.n_arcs), (np.arange(automaton.n_arcs), automaton.arcs.edges)
        return arcs @ scipy.sparse.csr_array(ones, shape=(automaton.n_arcs, self.family.n_labels**2))

    def _passes(
        self,
        batch: np.ndarray,
        node: np.ndarray,
        results: tuple[np.ndarray, np.ndarray, np.ndarray],
        edge_posterior: np.ndarray,
        direction: Direction | None = None,
    ) -> np.ndarray:
        """Run the compiled passes over a batch; return sums over arcs."""
        compiled = ngrams.passes_compiled
        family, offsets = self.family, self.family.offsets
        kinds = 1 if direction is None else 2
        lengths, arcs = offsets[batch + 1] - offsets[batch], family.automaton.arcs
        segment = max(2, int(family._panel_bytes // (kinds * family._bytes_per_position() * len(batch))))
        d_scores, d_node, d_edge = (None, np.zeros((0, 0)), np.zeros((0, 0))) if direction is None else direction
        steps = self._steps[None] if d_scores is None else np.stack([self._steps, self._steps * d_scores])
        sums = np.zeros(family.automaton.n_arcs)
        compiled.run_lanes(
            offsets[batch],
            lengths,
            self.item_weights[batch],
            arcs,
            node,
            d_node,
            compiled.Edges(self._edge_steps, d_edge, edge_posterior, offsets[batch] - batch - 1),
            steps,
            self._shift,
            segment,
            compiled.Room.allocate(
                arcs, family.n_labels, len(batch), int(lengths[0]), segment, kinds, bool(self._edge.size)
            ),
            results,
            sums,
        )
        return sums

    def _in_logarithms(self, sequence: int, direction: Direction | None) -> tuple[slice, SequenceBeliefs]:
        family = self.family
        rows = slice(int(family.offsets[sequence]), int(family.offsets[sequence + 1]))
        scores = family.position_scores(self._scores, self._edge, sequence)
        changes = None
        if direction is not None:
            d_scores, d_node, d_edge = direction
            changes = family.position_scores(d_scores, d_edge, sequence), d_node[rows]
        exact = infer_in_logarithms(family.automaton, scores, self._checked.node[rows], changes)
        if exact.log_partition == -np.inf:
            raise InfeasibleSequence(sequence)
        return rows, exact

    def _expected_tables(self) -> list[np.ndarray]:
        weighted = self.edge_marginals
        if len(weighted):
            weighted = self._weighted(weighted, self.family.factor_items(0))
        return self.family.arrange_tables(self.counts, weighted)

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        family = self.family
        d_marginals, means, d_edges = map(np.empty_like, (d_node, self.log_partition, self._edge))
        d_scores, d_edge = family.scores(d_tables)
        counts = self.run(means, d_marginals, d_edges, (d_scores, d_node, d_edge))
        if len(d_edges):
            d_edges = self._weighted(d_edges, family.factor_items(0))
        return self._weighted(d_marginals, family.position_items), family.arrange_tables(counts, d_edges)

    def expected_scores(self, direction: Potentials) -> np.ndarray:
        """Return the expected score of each sequence under given scores of arcs, (S,)."""
        scores, edge = self.family.scores([direction[name] for name in self.family.names])
        means = np.empty_like(self.log_partition)
        changes = scores, np.ascontiguousarray(direction.node), edge
        self.run(means, np.empty_like(direction.node), np.empty_like(edge), changes)
        return means

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals of edges (M, L, L), or of the n-grams of a group, listed (M, P) or all (M, L, .., L)."""
        family, automaton = self.family, self.family.automaton
        shape = family.table_shape(group, True)[1:]
        if group == 0 and self.edge_marginals.size:
            return self.edge_marginals.reshape(-1, *shape)
        wanted = None
        if group > 0:
            begin = sum(family._sizes[: group - 1])
            wanted = automaton.incidence[:, begin : begin + family._sizes[group - 1]]
        places = np.full(family.n_positions, -1)
        places[family.members[group][:, -1]] = np.arange(len(family.members[group]))
        marginals = np.zeros((len(family.members[group]), int(np.prod(shape))))
        for sequence, (begin, end) in enumerate(pairwise(family.offsets.tolist())):
            some = np.flatnonzero(places[begin:end] >= 0)
            if len(some):
                arcs = self._in_logarithms(sequence, None)[1].arcs[some]
                marginals[places[begin:end][some]] = self._sum_edges(arcs) if wanted is None else arcs @ wanted
        return marginals.reshape(len(marginals), *shape)


def _members(offsets: np.ndarray, length: int) -> np.ndarray:
    """Return the positions of each n-gram of a length, (M, length)."""
    steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return np.flatnonzero(steps >= length - 1)[:, None] - np.arange(length - 1, -1, -1)
