"""Sums over sequences, on the threads of one machine.

For clique sets c with features Z_c (n_c, r_c), coefficients V_c (r_c, q_c) and label factor A_c (L^k, q_c):

    potentials   = sum_c  scatter_c(Z_c V_c A_c^T)                     half a pass over the features
    likelihood   : value, residual and Hessian response in the potentials, no pass (see likelihood.py)
    pulled back  = Z_c^T gather_c(residual) A_c                        half a pass

Dense products run in the features' own precision through BLAS with the short side first, which is the
faster layout for q << r; inference and reductions are float64. ``passes`` counts full passes over all
features, a product in one set counting for its share of the stored values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.engines.likelihood import ChainLikelihood, Evaluation
from kernelfields.engines.potentials import Potentials
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.workers import Workers


class CliqueFeatures:
    """Features of one clique set on the training chains.

    ``positions`` are the rows of the chain that carry a clique (None: all), ``features`` the matching rows
    Z (None: the constant 1), ``label_factor`` A (None: the identity), ``labels_per_clique`` 1 or 2.
    """

    def __init__(
        self,
        name: str,
        features: Any,
        *,
        positions: np.ndarray | None,
        labels_per_clique: int,
        n_labels: int,
        prior_variance: float,
        label_factor: np.ndarray | None = None,
    ):
        self.name = name
        self.features = features
        self.positions = positions
        self.labels_per_clique = labels_per_clique
        self.prior_variance = float(prior_variance)
        self.label_factor = label_factor
        self.n_configurations = n_labels**labels_per_clique
        self._transposed = None
        self._n_columns = 0 if features is None else features.shape[1]
        self._occupied: np.ndarray | None = None
        if scipy.sparse.issparse(features):
            # A feature that no training input has keeps the coefficient zero: leave its column out.
            occupied = np.unique(features.indices)
            if len(occupied) < self._n_columns:
                self._occupied, self.features = occupied, features[:, occupied]
            self._transposed = self.features.T.tocsr()

    def compress(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the rows of full coefficients that belong to occupied columns."""
        return coefficients if self._occupied is None else coefficients[self._occupied]

    def expand(self, coefficients: np.ndarray) -> np.ndarray:
        """Return full coefficients, zero where no training input has the feature."""
        if self._occupied is None:
            return coefficients
        full = np.zeros((self._n_columns, coefficients.shape[1]))
        full[self._occupied] = coefficients
        return full

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, q) of the coefficients."""
        rank = 1 if self.features is None else self.features.shape[1]
        outputs = self.n_configurations if self.label_factor is None else self.label_factor.shape[1]
        return rank, outputs

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features; a constant set does not lower or raise that of others."""
        return np.dtype(np.float32) if self.features is None else self.features.dtype

    @property
    def stored_values(self) -> int:
        """How many numbers a product reads."""
        if self.features is None:
            return 0
        return self.features.nnz if scipy.sparse.issparse(self.features) else self.features.size

    @property
    def tied_everywhere(self) -> bool:
        """Whether the potential is one and the same at all its positions."""
        return self.features is None

    def scores(self, coefficients: np.ndarray) -> np.ndarray:
        """Return Z V A^T, (n, L^k) float64; (1, L^k) for a constant set."""
        if self.features is None:
            scores = coefficients.T
        elif self._transposed is not None:
            scores = np.asarray(self.features @ coefficients.astype(self.features.dtype)).T
        else:
            short = np.ascontiguousarray(coefficients.T, dtype=self.features.dtype)
            scores = short @ self.features.T
        scores = scores.astype(np.float64, copy=False)
        if self.label_factor is not None:
            scores = self.label_factor @ scores
        return np.ascontiguousarray(scores.T)

    def pull_back(self, residual: np.ndarray) -> np.ndarray:
        """Return Z^T residual A, (r, q) float64, for residual (n, L^k), or its (1, L^k) sum if constant."""
        short = residual.T if self.label_factor is None else self.label_factor.T @ residual.T
        if self.features is None:
            return np.ascontiguousarray(short.T)
        if self._transposed is not None:
            pulled = np.asarray(self._transposed @ short.T.astype(self.features.dtype))
            return pulled.astype(np.float64, copy=False)
        pulled = np.ascontiguousarray(short, dtype=self.features.dtype) @ self.features
        return np.ascontiguousarray(pulled.T, dtype=np.float64)


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
        self.passes = 0.0
        self._stored_values = max(1, sum(each.stored_values for each in self.sets))

    def potentials(self, coefficients: Sequence[np.ndarray], only: Sequence[int] | None = None) -> Potentials:
        """Return the potentials of the given coefficients; ``only`` names the sets that are not zero."""
        total = self.likelihood.zeros()
        for index, each in self._chosen(only):
            scores = each.scores(coefficients[index])
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
            gradients.append(each.pull_back(self.clique_residuals(residual, each)))
        return gradients

    def clique_residuals(self, residual: Potentials, each: CliqueFeatures) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if tied."""
        rows = residual.node if each.labels_per_clique == 1 else residual.edge
        summed = each.labels_per_clique == 2 and self.likelihood.tied
        if each.positions is not None and not summed:
            rows = rows[each.positions]
        rows = rows.reshape(len(rows), each.n_configurations)
        return rows.sum(axis=0, keepdims=True) if each.tied_everywhere and not summed else rows

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

        Sum over cliques of (A^T Cov_t A) kron (z_t z_t^T), in the order of coefficients V.ravel().
        """
        each = self.sets[index]
        rank, outputs = each.shape
        marginals = (
            evaluation.beliefs.node_marginals
            if each.labels_per_clique == 1
            else evaluation.beliefs.edge_marginals().reshape(self.chains.n_positions, -1)
        )
        weights = self.chains.position_weights
        if each.positions is not None:
            marginals, weights = marginals[each.positions], weights[each.positions]
        factor = np.eye(each.n_configurations) if each.label_factor is None else each.label_factor
        means = marginals @ factor
        if each.features is None:
            return factor.T @ ((weights @ marginals)[:, None] * factor) - (means * weights[:, None]).T @ means
        features = each.features
        block = np.zeros((rank, outputs, rank, outputs))
        for i in range(outputs):
            for j in range(i + 1):
                covariance = marginals @ (factor[:, i] * factor[:, j]) - means[:, i] * means[:, j]
                weighted = _scaled_rows(features, covariance * weights)
                product = features.T @ weighted
                if scipy.sparse.issparse(product):
                    product = product.toarray()
                block[:, i, :, j] = product
                block[:, j, :, i] = product
        return block.reshape(rank * outputs, rank * outputs)


def _scaled_rows(features: Any, scale: np.ndarray) -> Any:
    if scipy.sparse.issparse(features):
        return scipy.sparse.diags_array(scale) @ features
    return features * scale[:, None]
