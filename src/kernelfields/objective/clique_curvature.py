"""Curvature of the likelihood within cliques, term by term, for rules of second order.

    block     sum_t weight_t (A^T Cov_t A) kron (z_t z_t^T)            eq. 30 without the prior
    diagonal  sum_t weight_t z_tf^2 p (1 - p)                          of sparse weights of single labels
    at_start  its mean before any label is known, one number
    gram      about Z^T Z of dense features, from some of the rows     for the metric of coordinates.py

Cov_t are the covariances of the one-hot labellings of a clique under its marginals (n, L^k). Cost: a product of the
features with themselves for each pair of label coordinates, half a pass for a diagonal, O(r^3) for a Gram matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse

from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import Array, Placed
from kernelfields.kernels.arrays import on_host
from kernelfields.numerics.group import ALONE
from kernelfields.numerics.sparse_rows import entry_rows, is_sparse
from kernelfields.objective.coordinates import sample_rows, should_use_gram
from kernelfields.objective.designs.design import LocalDesign, has_dense_features
from kernelfields.objective.designs.pairs import EveryPair
from kernelfields.objective.designs.tables import weighted_product
from kernelfields.objective.likelihoods.likelihood import Evaluation, Objective

_BLOCK_BYTES = 64 * 2**20


def correlated_cliques(family: LabelFamily, term: Placed, n_cliques: int) -> float:
    """Return the effective number of cliques of a set in the curvature of shared weights.

    Cliques with the same node at the same place vary together: n of them count n^2 times. If inference is exact, this
    is left out.
    """
    if family.exact or term.group is None:
        return float(n_cliques)
    members = family.clique_members(term.group)
    return float(np.mean([np.square(np.bincount(nodes), dtype=np.float64).sum() for nodes in members.T]))


class Curvature:
    """The curvature of a likelihood in the terms of some designs; ``index`` is the number of a term."""

    def __init__(self, likelihood: Objective, designs: Sequence[LocalDesign]):
        self.likelihood = likelihood
        self.designs = designs

    def at_start(self, index: int) -> float:
        """Estimate the curvature of the likelihood in one coordinate of a term at equal probabilities."""
        curvature, weight, number = self._start_sums(index)
        return curvature * (weight / number) if number else 0.0

    def _start_sums(self, index: int) -> list:
        """Return the curvature of a term with cliques of weight one, the weights of its cliques, and their number."""
        design = self.designs[index]
        weights = self.likelihood.clique_weights(design)
        count = correlated_cliques(self.likelihood.family, design, len(weights))
        own = design.start_curvature(count) if len(weights) else 0.0
        return [own, float(weights.sum()), len(weights)]

    def diagonal(self, evaluation: Evaluation, index: int) -> np.ndarray | None:
        """Return sum_t z_tf^2 p (1 - p) for every coefficient of a term of sparse weights; None for other terms.

        This is the diagonal of eq. 30 where coefficients belong to single labels; half a pass.
        """
        design = self.designs[index]
        if design.labels_per_clique != 1 or not design.sparse:
            return None
        marginals = self.likelihood.clique_marginals(evaluation, design)
        variances = marginals * (1.0 - marginals) * self.likelihood.clique_weights(design)[:, None]
        return design.squared_pull_back(variances, self.likelihood.workers)

    def block(self, evaluation: Evaluation, index: int) -> np.ndarray:
        """Return eq. 30 without the prior: within-clique covariances of one term, (r q, r q).

        In the order of coefficients V.ravel(). With a support its pairs only, (P, P).
        """
        design = self.designs[index]
        marginals = self.likelihood.clique_marginals(evaluation, design)
        return self._block(design, marginals, self.likelihood.clique_weights(design))

    def _block(self, design: LocalDesign, marginals: Array, weights: Array) -> np.ndarray:
        """Return the block for the marginals (n, L^k) and the weights (n,) of the cliques of a term."""
        support, features, read_back = (
            design.term.pairs,
            design.features,
            self.likelihood.family.arrangement.read_back,
        )
        if support.listing is not None:
            return np.diag(weights @ marginals) - (marginals * weights[:, None]).T @ marginals
        if is_sparse(features):
            marginals, weights = read_back(marginals), read_back(weights)
        factor = design.labels_like(marginals)
        if features is None:
            means = marginals @ factor
            squares = factor.T @ ((weights @ marginals)[:, None] * factor)
            block = read_back(squares - (means * weights[:, None]).T @ means)
            return support.restrict_matrix(block)
        if not isinstance(support, EveryPair):
            return supported_curvature(features, support.features, support.outcomes, marginals, weights)
        return within_clique_curvature(design.table, factor, marginals, weights)

    def gram_scale(self, index: int) -> float:
        """Return the scale of a term's Gram matrix in the metric; zero if the matrix costs more than it saves."""
        design = self.designs[index]
        if not has_dense_features(design):
            return 0.0
        weight, number = self._weights(design)
        if not should_use_gram(int(number), *design.shape):
            return 0.0
        return weight / number * design.label_share / design.n_configurations

    def _weights(self, design: LocalDesign) -> list:
        """Return the total weight of the cliques of a term, and their number."""
        weights = self.likelihood.clique_weights(design)
        return [float(weights.sum()), len(weights)]

    def gram(self, index: int) -> np.ndarray:
        """Return the lower half of an estimate of Z^T Z for dense features, (r, r), from some rows."""
        n_rows, rank = self.designs[index].table.shape
        return self._gram(index, sample_rows(n_rows, rank, ALONE))

    def _gram(self, index: int, sampled: slice) -> np.ndarray:
        """Return the Gram matrix of some rows of this process."""
        return on_host(self.designs[index].table.gram(sampled))


class _WeighingTable(Protocol):
    """Features Z (n, r), on any device."""

    shape: tuple[int, int]

    def weighted_gram(self, weights: Array) -> np.ndarray:
        """Return Z^T diag(w) Z, (r, r), for w (n,)."""


def within_clique_curvature(table: _WeighingTable, factor: Array, marginals: Array, weights: Array) -> np.ndarray:
    """Return sum_t weight_t (A^T Cov_t A) kron (z_t z_t^T) for features (n, r), in the order V.ravel(), (r q, r q).

    Cov_t are the covariances of the one-hot labellings of a clique under its marginals (n, L^k).
    """
    rank, outputs = table.shape[1], factor.shape[1]
    block = np.zeros((rank, outputs, rank, outputs))
    means = marginals @ factor
    for i in range(outputs):
        for j in range(i + 1):
            covariances = marginals @ (factor[:, i] * factor[:, j]) - means[:, i] * means[:, j]
            product = table.weighted_gram(covariances * weights)
            block[:, i, :, j] = product
            block[:, j, :, i] = product.T
    return block.reshape(rank * outputs, rank * outputs)


def supported_curvature(
    features: scipy.sparse.csr_array,
    columns: np.ndarray,
    outcomes: np.ndarray,
    marginals: np.ndarray,
    weights: np.ndarray,
    block_bytes: int = _BLOCK_BYTES,
) -> np.ndarray:
    """Return the curvature of P pairs, each a column of the features (n, r) and a labelling, (P, P).

    Cov_t = diag(m_t) - m_t m_t^T: one product for each labelling, less one of all pairs' z_t m_t, some columns of
    ``block_bytes`` at a time.
    """
    size, pairs = len(columns), features[:, columns].tocsr()
    pairs.data = pairs.data * marginals[entry_rows(pairs), outcomes[pairs.indices]]
    block = np.empty((size, size))
    step = max(1, block_bytes // (8 * max(1, size)))
    for begin in range(0, size, step):
        part = slice(begin, begin + step)
        np.negative(weighted_product(pairs, pairs[:, part], weights), out=block[:, part])
    for outcome in np.unique(outcomes):
        places = np.flatnonzero(outcomes == outcome)
        own = features[:, columns[places]]
        block[np.ix_(places, places)] += weighted_product(own, own, weights * marginals[:, outcome])
    return block
