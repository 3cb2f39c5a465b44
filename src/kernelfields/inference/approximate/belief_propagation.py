"""Belief propagation on pairs: tree-reweighted, with an upper bound on the log partition function, and loopy.

Both sweep over the nodes in an order in which every node but the first of a component follows a neighbour, upward
and downward in turn (messages_compiled.py has the equations), and differ in the weights of the pairs:

    "trw"    rho_uv = 1 / number of earlier neighbours of v     log_partition >= log Z
    "loopy"  rho = 1                                            Bethe's value: neither bound, often closer

Tree-reweighted: rho is the chance of a pair in a random spanning tree (pair_layout.py). The value returned is an
upper bound whether or not the sweeps have converged, and ``gradient`` is its exact gradient at the last messages.
At convergence the messages minimise the bound, which is then a convex function of the potentials. Both methods are
exact on forests. Decoding takes maxima in place of sums, with the weights of trees in both.

Arrays as in inference/beliefs.py; factors of two nodes only. Cost: O(P L^2) per sweep for P pairs; memory O(P L)
for messages and one exponentiated table per different table. Fails: ValueError for larger factors, and naming a
graph in which forbidden labels leave a node without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.inference.approximate.base import ApproximateInference, LoopyBelief, TreeReweighted, climb
from kernelfields.inference.approximate.pair_layout import Messages, PairGraph, PairLayout, PairTables
from kernelfields.inference.beliefs import GraphBeliefs
from kernelfields.inference.packing import raise_if_infeasible_graph
from kernelfields.numerics.threads import Workers

# Labellings settle long before a bound does: sweeps, and the share of the bound below which a gain does not count.
_DECODING_LIMITS = 1e-5, 30


class PropagatedBeliefs(GraphBeliefs):
    """Marginals of nodes, and the messages from which those of pairs are made when they are asked for."""

    inference: BeliefPropagation
    _state: tuple[PairGraph, PairTables, np.ndarray, np.ndarray]
    _workers: Workers

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, L) of the labels at the factors of a group."""
        n_labels = self.inference.n_labels
        marginals = np.zeros((len(self.inference.members[group]), n_labels, n_labels))
        self._fill(group, np.zeros(0), False, lambda first, last: marginals)
        return marginals

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the gradient of the weighted log partition in (node, factors), shaped like them."""
        node = self._weighted(self.node_marginals, self.inference.node_graphs)
        return node, [
            self._tied_sum(group) if tied else self._summed(group, self.factor_marginals(group))
            for group, tied in enumerate(self.tied)
        ]

    def _tied_sum(self, group: int) -> np.ndarray:
        """Return the weighted sum (1, L, L) of a group's marginals without making them."""
        weights = np.zeros(0) if self.weights is None else self.weights[self.inference.factor_graphs(group)]
        n_labels = self.inference.n_labels
        partial: dict[int, np.ndarray] = {}

        def sum_of_run(first: int, last: int) -> np.ndarray:
            return partial.setdefault(first, np.zeros((1, n_labels, n_labels)))

        self._fill(group, weights, True, sum_of_run)
        # In order, so that the sum does not depend on which thread was first.
        return np.sum([partial[first] for first in sorted(partial)], axis=0)

    def _fill(self, group: int, weights: np.ndarray, tied: bool, target: Any) -> None:
        from kernelfields.inference.approximate.messages_compiled import pair_marginals

        graph, tables, down, beliefs = self._state
        pairs, marginals = self.inference.pairs.groups[group], self.node_marginals

        def run(first: int, last: int) -> None:
            out = target(first, last)
            pair_marginals(first, last, pairs, graph, tables, down, beliefs, marginals, weights, tied, out)

        n_factors = len(pairs.pair)
        pieces = self._workers.pieces(n_factors, 10 * n_factors * self.inference.n_labels**2)
        self._workers.each(run, pieces)


class BeliefPropagation(ApproximateInference):
    """Tree-reweighted or loopy belief propagation, as the options say.

    With ``warm_start`` the plan keeps the last messages and begins the next call with them.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        members: Sequence[np.ndarray],
        n_labels: int,
        options: TreeReweighted | LoopyBelief,
    ):
        super().__init__(offsets, members, n_labels)
        self.options = options
        self.reweighted = isinstance(options, TreeReweighted)
        self.method = "trw" if self.reweighted else "loopy"
        self.bound = "upper" if self.reweighted else None
        for group, nodes in enumerate(members):
            if nodes.shape[1] != 2:
                raise ValueError(
                    f"factor group {group} joins {nodes.shape[1]} nodes, and {self.method!r} takes pairs only; "
                    'use "mean-field" or "gibbs", or "junction" where the graphs are narrow'
                )
        self.pairs = PairLayout(offsets, members)
        what = (
            "tree-reweighted belief propagation: the log partition function from above"
            if self.reweighted
            else "loopy belief propagation: Bethe's approximation, no bound"
        )
        self.description = f"{what}; {self.pairs.n_pairs} pairs, exact on forests only"
        self._graph = self.pairs.graph if self.reweighted else self.pairs.unweighted()
        self._messages: np.ndarray | None = None

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> PropagatedBeliefs:
        """Compute bounds or Bethe values and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        from kernelfields.inference.approximate.messages_compiled import propagate, tree_marginals

        node, tables, tied = self.check_potentials(node, factors)
        weights = self.check_weights(weights)
        workers = workers or Workers(1)
        options, graph = self.options, self._graph
        arranged = self.pairs.tables(tables, tied, graph)
        messages = Messages.flat(self.pairs.n_pairs, *node.shape)
        down, beliefs, marginals = messages.down, messages.beliefs, messages.chances
        if self._messages is not None:
            down[0] = self._messages
            np.exp(down[0], out=down[1])
        report = np.zeros((self.n_graphs, 4))
        limits = self.reweighted, options.tolerance, options.damping, options.max_iter

        def run(first: int, last: int) -> None:
            propagate(first, last, graph, arranged, *limits, node, messages, report)
            if self.reweighted:
                tree_marginals(first, last, graph, arranged, down, beliefs, marginals)

        workers.each(run, self._runs(workers))
        raise_if_infeasible_graph(report[:, 0])
        if options.warm_start:
            # What was impossible now may be possible at the next potentials: nothing infinite is carried over.
            self._messages = np.where(np.isneginf(down[0]), 0.0, down[0])
        result = PropagatedBeliefs(
            self, report[:, 0].copy(), marginals, tied=tied, weights=weights, diagnostics=self._diagnose(report)
        )
        result._state = graph, arranged, down, beliefs
        result._workers = workers
        return result

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a good labelling (N,) and its true score per graph (S,), exact on forests.

        Tree-reweighted max-product sweeps, the best labelling found on the way, then changes of single labels
        until none helps. A score of -inf says that no allowed labelling was found.
        """
        from kernelfields.inference.approximate.messages_compiled import best_labels

        node, tables, tied = self.check_potentials(node, factors)
        workers = workers or Workers(1)
        graph = self.pairs.graph
        arranged = self.pairs.tables(tables, tied, graph)
        messages = Messages.flat(self.pairs.n_pairs, *node.shape)
        trial, labels = np.zeros(self.n_nodes, np.int64), np.zeros(self.n_nodes, np.int64)
        bounds = np.zeros(self.n_graphs)
        workers.each(
            lambda first, last: best_labels(
                first, last, graph, arranged, *_DECODING_LIMITS, node, messages, trial, labels, bounds
            ),
            self._runs(workers),
        )
        raise_if_infeasible_graph(bounds)
        return climb(self.layout, node, tables, labels, workers)

    def _runs(self, workers: Workers) -> list[tuple[int, int]]:
        return workers.weighted_pieces(self._graph.up_start[self.offsets] + self.offsets, 100 * self.n_labels**2)

    def _diagnose(self, report: np.ndarray) -> dict[str, Any]:
        slow = np.flatnonzero(report[:, 3] == 0)
        notes = []
        if slow.size:
            holds = "the bound holds, but is not the tightest" if self.reweighted else "the values may mean little"
            notes.append(
                f"{self.method!r} has not converged on {slow.size} of {self.n_graphs} graphs, the first is "
                f"{slow[0]}: marginals still change by {report[slow, 2].max():.1e}; {holds}; "
                "raise max_iter or damping"
            )
        return {
            "converged": report[:, 3] > 0,
            "iterations": report[:, 1].astype(np.int64),
            "change": report[:, 2].copy(),
            "warnings": notes,
        }
