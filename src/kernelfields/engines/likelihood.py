"""The weighted negative log-likelihood of labelled chains, as a function of potentials.

value    = sum_i weight_i (log Z_i - score_i(y^i))
residual = weight * (marginals - one-hot labels)      its gradient in the potentials
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kernelfields.engines.chain_layout import ChainLayout
from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.engines.placement import Placed
from kernelfields.engines.potentials import Potentials
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.chain import infer_chains
from kernelfields.inference.workers import Workers


@dataclass
class Evaluation:
    """Value and gradient at some potentials, and the beliefs behind them."""

    value: float
    residual: Potentials
    beliefs: Any


class Layout(Protocol):
    """Where the scores of clique sets go in potentials, and where their residuals come from."""

    def zeros(self) -> Potentials:
        """Return potentials of zero, in the right shapes."""

    def add_scores(self, potentials: Potentials, each: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them."""

    def clique_residuals(self, residual: Potentials, each: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, summed over them if it is tied."""


class Likelihood(Protocol):
    """What an engine asks of labelled chains or graphs; the structure of the field ends here."""

    n_labels: int
    workers: Workers
    #: How approximate inference is called, None where it is exact.
    approximation: str | None

    @property
    def layout(self) -> Layout:
        """Where scores go in the potentials."""

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero, constraints aside."""

    @property
    def constrained(self) -> bool:
        """Whether some labellings are forbidden."""

    def clique_marginals(self, evaluation: Evaluation, each: CliqueFeatures) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques."""

    def clique_weights(self, each: CliqueFeatures) -> np.ndarray:
        """Return the weight of every clique of a set."""

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs."""

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""


class ChainLikelihood:
    """Labelled chains with constraints; ``tied`` says whether one transition matrix serves all positions."""

    approximation: str | None = None

    def __init__(
        self,
        chains: Chains,
        n_labels: int,
        *,
        tied: bool = True,
        masks: ConstraintMasks | None = None,
        workers: Workers | None = None,
    ):
        if chains.labels is None:
            raise ValueError("a likelihood needs labelled chains")
        self.chains = chains
        self.labels = chains.labels
        self.n_labels = n_labels
        self.layout = ChainLayout(chains.n_positions, n_labels, tied=tied)
        self.workers = workers or Workers()
        self._rows = np.arange(chains.n_positions)
        self._steps = np.flatnonzero(~chains.is_start)
        weights = chains.position_weights
        # None stands for weights that are all one, the usual case, where no product is needed.
        self._weights = None if np.all(weights == 1.0) else weights
        self.masks = masks if masks is not None and masks.any else None
        self._edge_counts = self._count_edges()

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings equally likely; no labels forbidden."""
        return float(self.chains.weights @ self.chains.lengths) * float(np.log(self.n_labels))

    @property
    def constrained(self) -> bool:
        """Whether some labellings are forbidden."""
        return self.masks is not None

    @cached_property
    def _node_mask(self) -> np.ndarray:
        """Penalties of every position, (N, L), for constrained fields."""
        assert self.masks is not None
        return self.masks.apply(np.zeros((self.chains.n_positions, self.n_labels)), self.chains.offsets)

    def _count_edges(self) -> np.ndarray:
        """Return the weighted number of observed steps a -> b, (L, L)."""
        counts = np.zeros((self.n_labels, self.n_labels))
        weights = 1.0 if self._weights is None else self._weights[self._steps]
        np.add.at(counts, (self.labels[self._steps - 1], self.labels[self._steps]), weights)
        return counts

    def clique_marginals(self, evaluation: Evaluation, each: CliqueFeatures) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k)."""
        marginals = (
            evaluation.beliefs.node_marginals
            if each.labels_per_clique == 1
            else evaluation.beliefs.edge_marginals().reshape(self.chains.n_positions, -1)
        )
        return marginals if each.positions is None else marginals[each.positions]

    def clique_weights(self, each: CliqueFeatures) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        weights = self.chains.position_weights
        return weights if each.positions is None else weights[each.positions]

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        node, edge = potentials.node, potentials.edge
        score = self._observed_score(node, edge)
        if self.masks is not None:
            node, edge = node + self._node_mask, edge + self.masks.edge
        beliefs = infer_chains(
            node,
            edge,
            self.chains.offsets,
            position_weights=self._weights,
            workers=self.workers,
            check=False,
        )
        value = float(beliefs.log_partition @ self.chains.weights) - score
        node_residual, edge_residual = beliefs.gradient()
        if node_residual is beliefs.node_marginals:
            node_residual = node_residual.copy()
        node_residual[self._rows, self.labels] -= 1.0 if self._weights is None else self._weights
        if self.layout.tied:
            edge_residual = edge_residual - self._edge_counts
        else:
            weights = 1.0 if self._weights is None else self._weights[self._steps]
            edge_residual[self._steps, self.labels[self._steps - 1], self.labels[self._steps]] -= weights
        return Evaluation(value, Potentials(node_residual, edge_residual), beliefs)

    def _observed_score(self, node: np.ndarray, edge: np.ndarray) -> float:
        observed = node[self._rows, self.labels]
        score = float(observed.sum() if self._weights is None else observed @ self._weights)
        if self.layout.tied:
            return score + float(np.vdot(self._edge_counts, edge[0]))
        steps = edge[self._steps, self.labels[self._steps - 1], self.labels[self._steps]]
        return score + float(steps.sum() if self._weights is None else steps @ self._weights[self._steps])

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        return Potentials(*evaluation.beliefs.hessian_product(direction.node, direction.edge))
