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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.inference.packing import check_values, check_whole
from kernelfields.numerics.threads import Workers


class GraphPotentials(NamedTuple):
    """Potentials as ``GraphInference`` has checked them, and the weights of the graphs."""

    node: np.ndarray
    tables: list[np.ndarray]  # factors, group by group
    tied: tuple[bool, ...]  # for each group whether it has one table for all factors
    weights: np.ndarray | None = None  # (S,)

    @property
    def restricted(self) -> bool:
        """Whether something is forbidden."""
        # Sums are minus infinity exactly where an entry is: potentials are never plus infinity here.
        return not all(np.isfinite(each.sum()) for each in (self.node, *self.tables))


class GraphBeliefs:
    """Log partition functions (or bounds) and marginals of packed graphs; the result of ``GraphInference.infer``.

    Derived classes write ``factor_marginals``, exact ones ``_responses``, and ``_expected_tables`` where marginals
    can be summed without making all of them.
    """

    def __init__(
        self,
        inference: GraphInference,
        given: GraphPotentials,
        log_partition: np.ndarray,
        node_marginals: np.ndarray,
        workers: Workers | None = None,
        diagnostics: dict[str, Any] | None = None,
    ):
        self.inference = inference
        self.log_partition = log_partition
        self.node_marginals = node_marginals
        self.tied, self.weights = given.tied, given.weights
        self.diagnostics = diagnostics or {}
        self._workers = workers or Workers(1)

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
        return self._weighted(self.node_marginals, self.inference.node_graphs), self._expected_tables()

    def _expected_tables(self) -> list[np.ndarray]:
        """Return the gradient in the factors."""
        return [self._summed(group, self.factor_marginals(group)) for group in range(len(self.tied))]

    def hessian_product(self, d_node: ArrayLike, d_factors: Sequence[ArrayLike]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it, where exact."""
        if not self.exact:
            raise TypeError(
                f"Hessian products need exact inference, and {self.method!r} is approximate; "
                'use "tree" or "junction" where the graphs allow it, or a solver that needs gradients only'
            )
        node = np.ascontiguousarray(d_node, dtype=np.float64)
        if node.shape != self.node_marginals.shape:
            raise ValueError(f"node direction has shape {node.shape}, expected {self.node_marginals.shape}")
        tables = [np.ascontiguousarray(each, dtype=np.float64) for each in d_factors]
        if len(tables) != len(self.tied):
            raise ValueError(f"the direction has {len(tables)} factor groups, expected {len(self.tied)}")
        for group, (table, tied) in enumerate(zip(tables, self.tied, strict=True)):
            expected = self.inference.table_shape(group, tied)
            if table.shape != expected:
                raise ValueError(f"direction of factor group {group} has shape {table.shape}, expected {expected}")
        return self._responses(node, tables)

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian product with a direction that has been checked."""
        raise NotImplementedError

    def _weighted(self, rows: np.ndarray, graphs: np.ndarray) -> np.ndarray:
        """Multiply rows by the weights of the graphs they belong to."""
        if self.weights is None:
            return rows
        return rows * self.weights[graphs].reshape((-1,) + (1,) * (rows.ndim - 1))

    def _summed(self, group: int, rows: np.ndarray) -> np.ndarray:
        """Weigh one row per factor and bring the result to the shape of the group's potentials."""
        rows = self._weighted(rows, self.inference.factor_graphs(group))
        return rows.sum(axis=0, keepdims=True) if self.tied[group] else rows


class GraphInference:
    """What is known about packed graphs before their potentials: a plan that serves any number of potentials.

    Derived classes set ``method``, ``exact``, ``bound`` and ``description`` (one sentence: what was chosen and
    what it costs), and write ``_infer``, ``_decode`` and ``_sample``. Arrays as checked by ``check_structure``.
    """

    method = ""
    exact = False
    bound: str | None = None
    description = ""
    #: The smallest number of samples that may be asked for.
    fewest_samples = 1

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        self.offsets = offsets
        self.members = tuple(members)
        self.n_labels = n_labels
        self.n_graphs = len(offsets) - 1
        self.n_nodes = int(offsets[-1])
        self.node_graphs = np.repeat(np.arange(self.n_graphs), np.diff(offsets))

    def infer(
        self,
        node: ArrayLike,
        factors: Sequence[ArrayLike],
        *,
        weights: ArrayLike | None = None,
        workers: Workers | None = None,
    ) -> GraphBeliefs:
        """Compute log partition functions and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        return self._infer(self.check_potentials(node, factors, weights), workers or Workers(1))

    def decode(
        self, node: ArrayLike, factors: Sequence[ArrayLike], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score per graph (S,), approximate where not exact.

        Ties have a fixed winner. A score of -inf says that an approximate method found no allowed labelling.
        """
        return self._decode(self.check_potentials(node, factors), workers or Workers(1))

    def sample(
        self,
        node: ArrayLike,
        factors: Sequence[ArrayLike],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw labellings (n_samples, N) from p(y), independent ones where the method is exact."""
        check_whole("n_samples", n_samples, self.fewest_samples)
        return self._sample(self.check_potentials(node, factors), n_samples, np.random.default_rng(random))

    def _infer(self, given: GraphPotentials, workers: Workers) -> GraphBeliefs:
        raise NotImplementedError

    def _decode(self, given: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _sample(self, given: GraphPotentials, n_samples: int, random: np.random.Generator) -> np.ndarray:
        raise TypeError(f'{self.method!r} cannot draw samples; use "tree", "junction" or "gibbs"')

    def factor_graphs(self, group: int) -> np.ndarray:
        """Return the graph of every factor of a group, (M,)."""
        return self.node_graphs[self.members[group][:, 0]]

    def table_shape(self, group: int, tied: bool) -> tuple[int, ...]:
        """Return the shape of a group's potentials."""
        count, order = self.members[group].shape
        return (1 if tied else count, *(self.n_labels,) * order)

    def check_potentials(
        self, node: ArrayLike, factors: Sequence[ArrayLike], weights: ArrayLike | None = None
    ) -> GraphPotentials:
        """Return all as contiguous float64, and which groups are tied, or raise ValueError."""
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
        if weights is not None:
            weights = np.ascontiguousarray(weights, dtype=np.float64)
            if weights.shape != (self.n_graphs,):
                raise ValueError(f"weights must have shape ({self.n_graphs},), one per graph, got {weights.shape}")
        return GraphPotentials(node, tables, tuple(len(table) == 1 for table in tables), weights)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.description or self.method}>"
