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
from kernelfields.engines.likelihood import ChainLikelihood, Evaluation, Likelihood
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.shared_features import runs_of_one_table, shared_pull_back, shared_scores
from kernelfields.engines.step_pairs import StepPairs
from kernelfields.engines.stochastic_descent import of_field
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.workers import Workers


class ThreadsEngine:
    """The clique sets of a training sample, and everything a posterior asks of them."""

    def __init__(self, likelihood: Likelihood, sets: Sequence[CliqueFeatures]):
        self.likelihood = likelihood
        self.sets = list(sets)
        self.passes = 0.0
        self._stored_values = max(1, sum(each.stored_values for each in self.sets))

    @classmethod
    def for_chains(
        cls,
        chains: Chains,
        sets: Sequence[CliqueFeatures],
        n_labels: int,
        *,
        masks: ConstraintMasks | None = None,
        workers: Workers | None = None,
    ) -> ThreadsEngine:
        """Return the engine of labelled chains whose neighbours meet."""
        tied = all(each.tied_everywhere for each in sets if each.labels_per_clique == 2)
        return cls(ChainLikelihood(chains, n_labels, tied=tied, masks=masks, workers=workers), sets)

    def potentials(self, coefficients: Sequence[np.ndarray], only: Sequence[int] | None = None) -> Potentials:
        """Return the potentials of the given coefficients; ``only`` names the sets that are not zero."""
        total = self.likelihood.layout.zeros()
        for run in runs_of_one_table(self._chosen(only)):
            sets = [each for _, each in run]
            parts = [coefficients[index] for index, _ in run]
            for each, scores in zip(sets, shared_scores(sets, parts, self.likelihood.workers), strict=True):
                self.passes += 0.5 * each.stored_values / self._stored_values
                self.likelihood.layout.add_scores(total, each, scores)
        return total

    def pull_back(self, residual: Potentials, only: Sequence[int] | None = None) -> list[np.ndarray]:
        """Turn a gradient in potentials into one in the coefficients of each set (of those in ``only``)."""
        gradients: list[np.ndarray] = []
        for run in runs_of_one_table(self._chosen(only)):
            sets = [each for _, each in run]
            self.passes += 0.5 * sum(each.stored_values for each in sets) / self._stored_values
            residuals = [self.clique_residuals(residual, each) for each in sets]
            gradients += shared_pull_back(sets, residuals, self.likelihood.workers)
        return gradients

    def clique_residuals(self, residual: Potentials, each: CliqueFeatures) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if tied."""
        return self.likelihood.layout.clique_residuals(residual, each)

    def label_residuals(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the residuals of a set's cliques in label coordinates, (n, q)."""
        each = self.sets[index]
        return each.in_coordinates(self.clique_residuals(residual, each))

    def outside_bound(self, residual: Potentials, index: int) -> float:
        """Return a bound on the squared norm of a set's gradient outside the span of its pivots; free."""
        origin = self.sets[index].origin
        return 0.0 if origin is None else origin.outside_bound(self.residual_norms(residual, index)) ** 2

    def residual_norms(self, residual: Potentials, index: int) -> np.ndarray:
        """Return the norms of the residuals of a set's cliques in label coordinates, (n,)."""
        rows = self.label_residuals(residual, index)
        return np.sqrt(np.einsum("tq,tq->t", rows, rows))

    def outside_gradient(self, residual: Potentials, index: int) -> float:
        """Return the squared norm of a set's gradient outside the span, exactly: O(n^2) kernel values."""
        each = self.sets[index]
        if each.origin is None:
            return 0.0
        inside = each.pull_back(self.clique_residuals(residual, each))
        whole = each.origin.squared_gradient(self.label_residuals(residual, index))
        return max(whole - float(np.vdot(inside, inside)), 0.0)

    def feature_rounding(self, residual: Potentials, index: int, coefficients: np.ndarray) -> float:
        """Return about how the value would change if a set's features were not rounded."""
        each = self.sets[index]
        if each.origin is None or each.dtype == np.float64:
            return 0.0
        return each.origin.rounding(each.features, coefficients, self.label_residuals(residual, index))

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings equally likely; no labels forbidden."""
        return self.likelihood.value_at_zero

    @property
    def approximation(self) -> str | None:
        """How approximate inference is called; None where it is exact."""
        return self.likelihood.approximation

    def start_curvature(self, index: int) -> float:
        """Return about how curved the likelihood is in one coordinate of a set, before any label is known."""
        each = self.sets[index]
        weights = self.likelihood.clique_weights(each)
        return each.start_curvature(len(weights)) * float(weights.mean()) if len(weights) else 0.0

    def curvature_diagonal(self, evaluation: Evaluation, index: int) -> np.ndarray | None:
        """Return sum_t z_tf^2 p (1 - p) for every coefficient of a set of sparse weights; None for other sets.

        This is the diagonal of eq. 30 where coefficients belong to single labels; half a pass.
        """
        each = self.sets[index]
        if each.labels_per_clique != 1 or not scipy.sparse.issparse(each.features):
            return None
        marginals = self.likelihood.clique_marginals(evaluation, each)
        variances = marginals * (1.0 - marginals) * self.likelihood.clique_weights(each)[:, None]
        self.passes += 0.5 * each.stored_values / self._stored_values
        return each.squared_pull_back(variances, self.likelihood.workers)

    @cached_property
    def fused(self) -> FusedPasses | None:
        """Passes that keep nothing per position, for sparse fields with a support; None for others."""
        likelihood = self.likelihood
        if not isinstance(likelihood, ChainLikelihood):
            return None
        return fused_passes(
            likelihood.chains, self.sets, likelihood.n_labels, likelihood.masks, likelihood.workers
        )

    def stochastic_descent(self) -> Any:
        """Return a StochasticDescent on this field's objective, or None if it is not of the kind for it."""
        likelihood = self.likelihood
        if not isinstance(likelihood, ChainLikelihood):
            return None
        return of_field(likelihood.chains, self.sets, likelihood.n_labels, likelihood.constrained)

    #: Steps that limited-memory BFGS should remember.
    usual_pairs = 40

    def step_pairs(self, limit: int, metric: np.ndarray, dtype: np.dtype) -> StepPairs:
        """Return room for the steps that limited-memory BFGS remembers."""
        return StepPairs(limit, metric, dtype)

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
        marginals = self.likelihood.clique_marginals(evaluation, each)
        weights = self.likelihood.clique_weights(each)
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
