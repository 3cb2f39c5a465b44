"""Exact inference on packed trees and forests: two passes in the range of doubles, with a rescue beyond it.

    plan = TreeInference(offsets, members, n_labels)
    beliefs = plan.infer(node, factors)

Arrays as in ``graph``, the equations in ``graph_trees_compiled``. Tables are used where they are: a tied one is
never copied, and only factors on the same two nodes are summed up first (``graph_forests``). A graph whose
probabilities leave the range of doubles is computed in the log domain by junction trees of width one, as are
best labellings and samples of all.

Cost: O(L^2) time per pair for log partition and marginals, for the gradient and for a Hessian product; O(N L)
memory, and that of the tables. Fails: NotAForest (a ValueError) where the pairs have a cycle or a factor is not
a pair; ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kernelfields.inference.graph import GraphInference
from kernelfields.inference.graph_forests import Forest, NotAForest
from kernelfields.inference.graph_tree_beliefs import TreeBeliefs
from kernelfields.inference.junction_trees import JunctionInference
from kernelfields.inference.workers import Workers

__all__ = ["NotAForest", "TreeBeliefs", "TreeInference"]


class TreeInference(GraphInference):
    """Exact inference on forests; ``TreeInference(offsets, members, n_labels)`` raises NotAForest for others."""

    method = "tree"
    exact = True
    bound = "exact"

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        super().__init__(offsets, members, n_labels)
        self.forest = Forest(offsets, members)
        n_trees = int(np.count_nonzero(self.forest.parent < 0))
        self.description = f"two passes over {n_trees} trees in {self.n_graphs} graphs, {n_labels} labels: exact"

    @cached_property
    def logarithms(self) -> JunctionInference:
        """The same trees in the log domain."""
        return self.in_logarithms(self.offsets, self.members, self.forest.order)

    def in_logarithms(
        self, offsets: np.ndarray, members: Sequence[np.ndarray], order: np.ndarray
    ) -> JunctionInference:
        """Return log-domain inference for trees whose nodes are listed breadth first, graph by graph."""
        # Backwards within each graph: then every node has its parent as the only later neighbour.
        backwards = np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(len(order))
        return JunctionInference(offsets, members, self.n_labels, memory=np.inf, order=order[backwards])

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> TreeBeliefs:
        """Compute log partition functions and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        from kernelfields.inference.graph_exponentials import exponentials
        from kernelfields.inference.graph_trees_compiled import leaves_to_roots, roots_to_leaves

        node, tables, tied = self.check_potentials(node, factors)
        weights = self.check_weights(weights)
        workers = workers or Workers(1)
        forest = self.forest
        pairs = forest.pair_tables(tables, self.n_labels)
        table_of = forest.table_of(pairs)
        values, shift = exponentials(pairs, workers)
        transfer = values.reshape(-1, self.n_labels, self.n_labels)
        # Sums are minus infinity exactly where an entry is: potentials are never plus infinity here.
        restricted = not all(np.isfinite(each.sum()) for each in (node, *pairs))
        open_labels = np.ones(node.shape if restricted else (1, 1), dtype=np.bool_)
        alpha = np.ones_like(node)
        inverse, gamma, marginals = np.zeros_like(node), np.zeros_like(node), np.zeros_like(node)
        total = np.empty(self.n_graphs)
        tree = forest.order, forest.parent, table_of, forest.flipped

        def run(first: int, last: int) -> None:
            leaves_to_roots(
                first, last, self.offsets, *tree, node, transfer, shift, open_labels, alpha, inverse, total
            )
            roots_to_leaves(first, last, self.offsets, *tree, transfer, alpha, inverse, gamma, marginals, total)

        workers.each(run, workers.runs(self.offsets, self.n_labels))
        beliefs = TreeBeliefs(
            self,
            total,
            marginals,
            tied=tied,
            weights=weights,
            passes=(table_of, transfer, alpha, inverse, gamma),
            workers=workers,
        )
        beliefs.rescue(node, tables)
        return beliefs

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score per graph (S,); ties have a fixed winner."""
        return self.logarithms.decode(node, factors, workers)

    def sample(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw independent labellings (n_samples, N) from p(y)."""
        return self.logarithms.sample(node, factors, n_samples, random)
