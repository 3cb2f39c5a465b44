"""Belief propagation on pairs: tree-reweighted, with an upper bound on the log partition function, and loopy.

Both sweep over the nodes in an order in which every node but the first of a component follows a neighbour, upward
and downward in turn (messages_compiled.py has the equations), and differ in the weights of the pairs:

    "trw"    rho_uv = 1 / number of earlier neighbours of v     log_partition >= log Z
    "loopy"  rho = 1                                            Bethe's value: neither bound, often closer

Tree-reweighted: rho is the chance of a pair in a random spanning tree (pair_graph.py). The value returned is an
upper bound whether or not the sweeps have converged, and ``gradient`` is its exact gradient at the last messages.
At convergence the messages minimise the bound, which is then a convex function of the potentials. Both methods are
exact on forests. Decoding takes maxima in place of sums, with the weights of trees in both.

Graphs are shared out among threads.

Arrays as in inference/graphs.py; factors of two nodes only. Cost: O(P L^2) per sweep for P pairs; memory O(P L)
for messages and one exponentiated table per different table. Raises ValueError for larger factors, and naming a
graph in which forbidden labels leave a node without any.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference import approximate
from kernelfields.inference.approximate.base import (
    ApproximateFamily,
    LoopyBelief,
    TreeReweighted,
    convergence_threshold,
    diagnose,
)
from kernelfields.inference.graphs import GraphMember, GraphPotentials
from kernelfields.inference.packed_graphs import InfeasibleGraph
from kernelfields.inference.packing import raise_if_infeasible
from kernelfields.inference.pair_graph import DOWN, Messages, PairGraph, PairGraphs, PairTables
from kernelfields.numerics.threads import Workers

# Labellings settle long before a bound does: sweeps, and the share of the bound below which a gain does not count.
_DECODING_LIMITS = 1e-5, 30


class PropagatedMember(GraphMember):
    """Marginals of nodes, and messages from which marginals of pairs follow."""

    family: PropagationFamily
    _state: tuple[PairGraph, PairTables, Messages]

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, L) of the labels at the factors of a group."""
        return self._pair_marginals(group, False)

    def _expected_tables(self) -> list[np.ndarray]:
        return [
            self._pair_marginals(group, True) if tied else self._sum_factors(group, self._table_marginals(group))
            for group, tied in enumerate(self.tied)
        ]

    def _pair_marginals(self, group: int, tied: bool) -> np.ndarray:
        """Return the marginals (M, L, L) of a group or, if tied, their weighted sum (1, L, L)."""
        pair_marginals = approximate.messages_compiled.pair_marginals
        family, workers, shape = self.family, self._workers, self.family.table_shape(group, tied)
        weighted = tied and self.weights is not None
        weights = self.item_weights[family.factor_items(group)] if weighted else np.zeros(0)
        every = np.zeros(shape)

        def part(first: int, last: int) -> np.ndarray:
            out = np.zeros(shape) if tied else every
            pairs = family.pairs.groups[group]
            pair_marginals(first, last, pairs, *self._state, self.node_marginals, weights, tied, out)
            return out

        n_factors = len(family.members[group])
        pieces = workers.pieces(n_factors, 10 * n_factors * family.n_labels**2)
        if tied:
            return workers.sum(part, pieces)
        workers.each(part, pieces)
        return every


class PropagationFamily(ApproximateFamily):
    """Tree-reweighted or loopy belief propagation, by the options.

    With ``warm_start`` the plan keeps the last messages and begins the next call with them.
    """

    options: TreeReweighted | LoopyBelief

    def __init__(self, offsets, members, n_labels, options):
        self.reweighted = isinstance(options, TreeReweighted)
        self.method = "trw" if self.reweighted else "loopy"
        self.bound = "upper" if self.reweighted else None
        for group, nodes in enumerate(members):
            if nodes.shape[1] != 2:
                raise ValueError(
                    f"factor group {group} joins {nodes.shape[1]} nodes, and {self.method!r} takes pairs only; "
                    'use "mean-field", or "junction" where the graphs are narrow'
                )
        self.pairs = PairGraphs(offsets, members)
        super().__init__(offsets, members, n_labels, options)
        what = (
            "tree-reweighted belief propagation: the log partition function from above"
            if self.reweighted
            else "loopy belief propagation: Bethe's approximation, no bound"
        )
        self.description = f"{what}; {self.pairs.n_pairs} pairs, exact on forests only"
        self._graph = self.pairs.graph if self.reweighted else self.pairs.without_weights()
        self._messages: np.ndarray | None = None
        self.tolerance = convergence_threshold(options, self.pairs.n_pairs / self.n_items)

    @property
    def is_single_threaded(self) -> bool:
        """Whether inference runs on one thread, as for a single graph."""
        return self.n_items == 1

    def _member(self, checked: GraphPotentials, workers: Workers) -> PropagatedMember:
        compiled = approximate.messages_compiled
        node, options, graph = checked.node, self.options, self._graph
        tables = self.pairs.tables(checked.tables, checked.tied, graph)
        messages = Messages.flat(self.pairs.n_pairs, *node.shape)
        pairs, marginals = messages.pairs, np.empty_like(node) if self.reweighted else messages.chances
        if self._messages is not None:
            pairs[:, DOWN] = self._messages
            pairs[:, DOWN + 1] = np.exp(self._messages)
        report = np.zeros((self.n_items, 4))
        limits = self.reweighted, self.tolerance, options.damping, options.max_iter

        def run(first: int, last: int) -> None:
            compiled.propagate(first, last, graph, tables, *limits, node, messages, report)
            if self.reweighted:
                compiled.tree_marginals(*graph.offsets[[first, last]], graph, tables, messages, marginals)

        workers.each(run, self._runs(workers))
        raise_if_infeasible(report[:, 0], InfeasibleGraph)
        if options.warm_start:
            # What was impossible now may be possible at the next potentials: nothing infinite is carried over.
            self._messages = np.where(np.isneginf(pairs[:, DOWN]), 0.0, pairs[:, DOWN])
        holds = "the bound holds, but is not the tightest" if self.reweighted else "the values may mean little"
        diagnostics = diagnose(report, repr(self.method), f"{holds}; raise max_iter or damping")
        result = PropagatedMember(self, checked, report[:, 0].copy(), marginals, workers, diagnostics)
        result._state = graph, tables, messages
        return result

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labelling of tree-reweighted max-product sweeps, exact on forests, after local search."""
        best_labels = approximate.messages_compiled.best_labels
        node, graph = checked.node, self.pairs.graph
        tables = self.pairs.tables(checked.tables, checked.tied, graph)
        messages = Messages.flat(self.pairs.n_pairs, *node.shape)
        trial, labels = np.zeros(self.n_positions, np.int64), np.zeros(self.n_positions, np.int64)
        bounds = np.zeros(self.n_items)
        workers.each(
            lambda first, last: best_labels(
                first, last, graph, tables, *_DECODING_LIMITS, node, messages, trial, labels, bounds
            ),
            self._runs(workers),
        )
        raise_if_infeasible(bounds, InfeasibleGraph)
        return self.climb(checked, labels, workers)

    def _runs(self, workers: Workers) -> list[tuple[int, int]]:
        """Split the graphs into runs of about equal work."""
        return workers.weighted_pieces(self._graph.up_start[self.offsets] + self.offsets, 100 * self.n_labels**2)
