"""Sums over sequences, on the threads of one machine.

For clique sets c with features Z_c (n_c, r_c), coefficients V_c (r_c, q_c) and label factor A_c (L^k, q_c):

    potentials   = sum_c  scatter_c(Z_c V_c A_c^T)                     half a pass over the features
    likelihood   : value, residual and Hessian response in the potentials, no pass (see likelihood.py)
    pulled back  = Z_c^T gather_c(residual) A_c                        half a pass

``passes`` counts full passes over all features, a product in one set counting for its share of the stored
values. Inference and reductions are float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.engines.fused_passes import FusedPasses, fused_passes
from kernelfields.engines.likelihood import ChainLikelihood, Evaluation
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.stochastic_descent import of_field
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.workers import Workers


class ThreadsEngine:
    """The clique sets of a training sample, and everything a posterior asks of them."""

    def __init__(
        self,
        chains: Chains,
        sets: Sequence[CliqueFeatures],
        n_labels: int,
        *,
        masks: ConstraintMasks | None = None,
        workers: Workers | None = None,
    ):
        self.chains = chains
        self.sets = list(sets)
        tied = all(each.tied_everywhere for each in self.sets if each.labels_per_clique == 2)
        self.likelihood = ChainLikelihood(chains, n_labels, tied=tied, masks=masks, workers=workers)
        self._masks = masks
        self.passes = 0.0
        self._stored_values = max(1, sum(each.stored_values for each in self.sets))

    def potentials(self, coefficients: Sequence[np.ndarray], only: Sequence[int] | None = None) -> Potentials:
        """Return the potentials of the given coefficients; ``only`` names the sets that are not zero."""
        total = self.likelihood.zeros()
        for index, each in self._chosen(only):
            scores = each.scores(coefficients[index], self.likelihood.workers)
            self.passes += 0.5 * each.stored_values / self._stored_values
            if each.labels_per_clique == 2:
                scores = scores.reshape((-1, *total.edge.shape[1:]))
                if each.tied_everywhere:
                    total.edge += scores
                else:
                    total.edge[each.positions] += scores
            elif each.positions is None:
                total.node += scores
            else:
                total.node[each.positions] += scores
        return total

    def pull_back(self, residual: Potentials, only: Sequence[int] | None = None) -> list[np.ndarray]:
        """Turn a gradient in potentials into one in the coefficients of each set (of those in ``only``)."""
        gradients = []
        for _, each in self._chosen(only):
            self.passes += 0.5 * each.stored_values / self._stored_values
            gradients.append(each.pull_back(self.clique_residuals(residual, each), self.likelihood.workers))
        return gradients

    def clique_residuals(self, residual: Potentials, each: CliqueFeatures) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if tied."""
        rows = residual.node if each.labels_per_clique == 1 else residual.edge
        summed = each.labels_per_clique == 2 and self.likelihood.tied
        if each.positions is not None and not summed:
            rows = rows[each.positions]
        rows = rows.reshape(len(rows), each.n_configurations)
        return rows.sum(axis=0, keepdims=True) if each.tied_everywhere and not summed else rows

    def start_curvature(self, index: int) -> float:
        """Return about how curved the likelihood is in one coordinate of a set, before any label is known."""
        each = self.sets[index]
        n_cliques = self.chains.n_positions if each.positions is None else len(each.positions)
        return each.start_curvature(n_cliques) * float(self.chains.position_weights.mean())

    def curvature_diagonal(self, evaluation: Evaluation, index: int) -> np.ndarray | None:
        """Return sum_t z_tf^2 p (1 - p) for every coefficient of a set of sparse weights; None for other sets.

        This is the diagonal of eq. 30 where coefficients belong to single labels; half a pass.
        """
        each = self.sets[index]
        if each.labels_per_clique != 1 or not scipy.sparse.issparse(each.features):
            return None
        marginals = evaluation.beliefs.node_marginals
        variances = marginals * (1.0 - marginals) * self.chains.position_weights[:, None]
        if each.positions is not None:
            variances = variances[each.positions]
        self.passes += 0.5 * each.stored_values / self._stored_values
        return each.squared_pull_back(variances, self.likelihood.workers)

    @cached_property
    def fused(self) -> FusedPasses | None:
        """Passes that keep nothing per position, for sparse fields with a support; None for others."""
        likelihood = self.likelihood
        return fused_passes(self.chains, self.sets, likelihood.n_labels, self._masks, likelihood.workers)

    def stochastic_descent(self) -> Any:
        """Return a StochasticDescent on this field's objective, or None if it is not of the kind for it."""
        return of_field(self.chains, self.sets, self.likelihood.n_labels, self.likelihood.constrained)

    def _chosen(self, only: Sequence[int] | None) -> list[tuple[int, CliqueFeatures]]:
        chosen = range(len(self.sets)) if only is None else only
        return [(index, self.sets[index]) for index in chosen]

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials; no pass over features."""
        return self.likelihood.evaluate(potentials)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian of the likelihood in the potentials times a direction."""
        return self.likelihood.hessian_response(evaluation, direction)

    def curvature_block(self, evaluation: Evaluation, index: int) -> np.ndarray:
        """Return eq. 30 without the prior: within-clique covariances of one set, (r q, r q).

        Sum over cliques of (A^T Cov_t A) kron (z_t z_t^T), in the order of coefficients V.ravel(). With a support
        its pairs only, (P, P).
        """
        each = self.sets[index]
        marginals = (
            evaluation.beliefs.node_marginals
            if each.labels_per_clique == 1
            else evaluation.beliefs.edge_marginals().reshape(self.chains.n_positions, -1)
        )
        weights = self.chains.position_weights
        if each.positions is not None:
            marginals, weights = marginals[each.positions], weights[each.positions]
        factor = np.eye(each.n_configurations) if each.label_factor is None else each.label_factor
        outputs = factor.shape[1]
        means = marginals @ factor
        support, features = each.support, each.features
        if features is None:
            block = factor.T @ ((weights @ marginals)[:, None] * factor) - (means * weights[:, None]).T @ means
            return block if support is None else block[np.ix_(support.outcomes, support.outcomes)]
        size = each.shape[0] * each.shape[1]
        block = np.zeros((size, size))
        # The coefficients of one output, and the columns of the features they belong to.
        places = [
            np.arange(output, size, outputs) if support is None else np.flatnonzero(support.outcomes == output)
            for output in range(outputs)
        ]
        columns = [features if support is None else features[:, support.features[place]] for place in places]
        for i in range(outputs):
            for j in range(i + 1):
                covariance = marginals @ (factor[:, i] * factor[:, j]) - means[:, i] * means[:, j]
                product = columns[i].T @ _scaled_rows(columns[j], covariance * weights)
                if scipy.sparse.issparse(product):
                    product = product.toarray()
                block[np.ix_(places[i], places[j])] = product
                block[np.ix_(places[j], places[i])] = product.T
        return block


def _scaled_rows(features: Any, scale: np.ndarray) -> Any:
    if scipy.sparse.issparse(features):
        return scipy.sparse.diags_array(scale) @ features
    return features * scale[:, None]
