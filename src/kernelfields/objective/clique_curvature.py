"""Curvature of the likelihood within cliques, term by term, for rules of second order.

    block     sum_t weight_t (A^T Cov_t A) kron (z_t z_t^T)            eq. 30 without the prior
    diagonal  sum_t weight_t z_tf^2 p (1 - p)                          of sparse weights of single labels
    at_start  its mean before any label is known, one number
    gram      about Z^T Z of dense features, from some of the rows     for the metric of coordinates.py

Cov_t are the covariances of the one-hot labellings of a clique under its marginals (n, L^k); curvature_blocks.py has
the products of blocks. Cost: half a pass for a diagonal, O(r^3) for a Gram matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import Array, Placed
from kernelfields.kernels.arrays import on_host
from kernelfields.numerics.group import ALONE, Group
from kernelfields.objective.coordinates import count_together, sample_rows, should_use_gram
from kernelfields.objective.designs.design import LocalDesign, has_dense_features
from kernelfields.objective.designs.tables import DenseTable
from kernelfields.objective.likelihoods.likelihood import Evaluation, Objective


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
        from kernelfields.objective.curvature_blocks import compute_block

        return compute_block(design, marginals, weights, self.likelihood.family.arrangement.read_back)

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

    def gram(self, index: int) -> list:
        """Return the lower half of an estimate of Z^T Z for dense features, from some rows.

        Of many pivots it is that of the first columns. The mean of the diagonal of the others comes with it, zero where
        there are none.
        """
        return self._gram(index, ALONE)

    def _gram(self, index: int, group: Group) -> list:
        """Return the share of this process in the Gram matrix and in the mean of the rest of its diagonal."""
        design = self.designs[index]
        table: Any = design.table
        n_rows, rank = table.shape
        if not design.term.has_pivots or not isinstance(table, DenseTable):
            return [on_host(table.gram(sample_rows(n_rows, rank, group))), 0.0]
        columns = count_together(rank)
        sampled = sample_rows(n_rows, columns, group)
        return [table.gram(sampled, columns), table.mean_square(sampled, columns)]
