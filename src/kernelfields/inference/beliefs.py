"""Inference on packed graphs: what every method offers.

S graphs are laid end to end; graph i owns the nodes offsets[i] .. offsets[i + 1] - 1, N in all, each with one of L
labels. A factor group is a kind of clique ("edge", "horizontal", "triple"):

    offsets     (S + 1,)                 rising from 0 to N
    members[f]  (M_f, k_f), k_f >= 2     nodes of each factor, rows of node, in the order of its axes
    node        (N, L)                   potentials of labels
    factors[f]  (1, L, .., L)            one table for all factors of the group (tied), or
                (M_f, L, .., L)          one table each

    score(y)       = sum_v node[v, y_v] + sum_f sum_m factors[f][m or 0][y at members[f][m]]
    F(node, factors) = sum_i weight_i log Z_i,      Z_i = sum_y exp score_i(y)

:class:`GraphBeliefs` holds log Z, marginals, the gradient of F and, where the method is exact, its Hessian
products. Minus infinity forbids a label or a combination of labels. Graphs may be disconnected, nodes isolated,
groups empty, and several factors may share their nodes.

Fails: ValueError naming the group, factor or graph that is wrong, or the graph whose labellings are all forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.inference.packing import check_values
from kernelfields.numerics.threads import Workers


class GraphBeliefs:
    """Log partition functions (or bounds) and marginals of packed graphs; the result of ``GraphInference.infer``.

    ``tied`` says for each group whether it has one table for all factors; ``weights`` (S,) or None weigh the
    graphs in ``gradient`` and ``hessian_product``.
    """

    def __init__(
        self,
        inference: GraphInference,
        log_partition: np.ndarray,
        node_marginals: np.ndarray,
        *,
        tied: Sequence[bool],
        weights: np.ndarray | None = None,
        diagnostics: dict[str, Any] | None = None,
    ):
        self.inference = inference
        self.log_partition = log_partition
        self.node_marginals = node_marginals
        self.tied = tuple(tied)
        self.weights = weights
        self.diagnostics = diagnostics or {}

    @property
    def method(self) -> str:
        """Name of the method that computed these beliefs."""
        return self.inference.method

    @property
    def exact(self) -> bool:
        """Whether log partition and marginals are exact."""
        return self.inference.exact

    @property
    def bound(self) -> str | None:
        """What ``log_partition`` is: "exact", an "upper" or a "lower" bound, or None for neither."""
        return self.inference.bound

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        raise NotImplementedError

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the gradient of the weighted log partition in (node, factors), shaped like them."""
        node = self._weighted(self.node_marginals, self.inference.node_graphs)
        return node, [self._summed(group, self.factor_marginals(group)) for group in range(len(self.tied))]

    def hessian_product(
        self, d_node: np.ndarray, d_factors: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it, where exact."""
        raise TypeError(
            f"Hessian products need exact inference, and {self.method!r} is approximate; "
            'use "tree" or "junction" where the graphs allow it, or a solver that needs gradients only'
        )

    def _weighted(self, rows: np.ndarray, graphs: np.ndarray) -> np.ndarray:
        """Multiply rows by the weights of the graphs they belong to."""
        if self.weights is None:
            return rows
        return rows * self.weights[graphs].reshape((-1,) + (1,) * (rows.ndim - 1))

    def _summed(self, group: int, rows: np.ndarray) -> np.ndarray:
        """Weigh one row per factor and bring the result to the shape of the group's potentials."""
        rows = self._weighted(rows, self.inference.factor_graphs(group))
        return rows.sum(axis=0, keepdims=True) if self.tied[group] else rows

    def _check_direction(
        self, d_node: ArrayLike, d_factors: Sequence[ArrayLike]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the direction as contiguous float64 arrays shaped like the potentials, or raise ValueError."""
        node = np.ascontiguousarray(d_node, dtype=np.float64)
        if node.shape != self.node_marginals.shape:
            raise ValueError(f"node direction has shape {node.shape}, expected {self.node_marginals.shape}")
        factors = [np.ascontiguousarray(each, dtype=np.float64) for each in d_factors]
        if len(factors) != len(self.tied):
            raise ValueError(f"the direction has {len(factors)} factor groups, expected {len(self.tied)}")
        for group, (table, tied) in enumerate(zip(factors, self.tied, strict=True)):
            expected = self.inference.table_shape(group, tied)
            if table.shape != expected:
                raise ValueError(f"direction of factor group {group} has shape {table.shape}, expected {expected}")
        return node, factors


class GraphInference:
    """What is known about packed graphs before their potentials: a plan that serves any number of potentials.

    Derived classes set ``method``, ``exact``, ``bound`` and ``description`` (one sentence: what was chosen and
    what it costs), and write ``infer``, ``decode`` and ``sample``. Arrays as checked by ``check_structure``.
    """

    method = ""
    exact = False
    bound: str | None = None
    description = ""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        self.offsets = offsets
        self.members = tuple(members)
        self.n_labels = n_labels
        self.n_graphs = len(offsets) - 1
        self.n_nodes = int(offsets[-1])
        self.node_graphs = np.repeat(np.arange(self.n_graphs), np.diff(offsets))

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> GraphBeliefs:
        """Compute log partition functions and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        raise NotImplementedError

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score per graph (S,), approximate where not exact."""
        raise NotImplementedError

    def sample(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw labellings (n_samples, N)."""
        raise TypeError(f'{self.method!r} cannot draw samples; use "tree", "junction" or "gibbs"')

    def factor_graphs(self, group: int) -> np.ndarray:
        """Return the graph of every factor of a group, (M,)."""
        return self.node_graphs[self.members[group][:, 0]]

    def table_shape(self, group: int, tied: bool) -> tuple[int, ...]:
        """Return the shape of a group's potentials."""
        count, order = self.members[group].shape
        return (1 if tied else count, *(self.n_labels,) * order)

    def check_potentials(
        self, node: ArrayLike, factors: Sequence[ArrayLike]
    ) -> tuple[np.ndarray, list[np.ndarray], tuple[bool, ...]]:
        """Return node and factors as contiguous float64, and which groups are tied, or raise ValueError."""
        node = np.ascontiguousarray(node, dtype=np.float64)
        if node.shape != (self.n_nodes, self.n_labels):
            raise ValueError(
                f"node potentials must have shape (nodes, labels) = ({self.n_nodes}, {self.n_labels}), got {node.shape}"
            )
        tables = [np.ascontiguousarray(each, dtype=np.float64) for each in factors]
        if len(tables) != len(self.members):
            raise ValueError(
                f"expected potentials for {len(self.members)} factor groups, got {len(tables)}; "
                "pass a list with one array per group"
            )
        for group, table in enumerate(tables):
            shared, own = self.table_shape(group, True), self.table_shape(group, False)
            if table.shape not in (shared, own):
                raise ValueError(
                    f"potentials of factor group {group} must have shape {shared}, one table for all factors, "
                    f"or {own}, one per factor, got {table.shape}"
                )
            check_values(f"potentials of factor group {group}", table)
        check_values("node potentials", node)
        return node, tables, tuple(len(table) == 1 for table in tables)

    def check_weights(self, weights: ArrayLike | None) -> np.ndarray | None:
        """Return weights as float64 of shape (S,), None as None, or raise ValueError."""
        if weights is None:
            return None
        checked = np.ascontiguousarray(weights, dtype=np.float64)
        if checked.shape != (self.n_graphs,):
            raise ValueError(f"weights must have shape ({self.n_graphs},), one per graph, got {checked.shape}")
        return checked

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.description or self.method}>"
