"""Blocks of the curvature within cliques, as matrices: eq. 30 without the prior.

    sum_t weight_t (A^T Cov_t A) kron (z_t z_t^T)

Cov_t are the covariances of the one-hot labellings of a clique under its marginals (n, L^k). Cost: a product of the
features with themselves for each pair of label coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.sparse

from kernelfields.inference.potentials import Array
from kernelfields.numerics.sparse_rows import entry_rows, is_sparse
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.pairs import EveryPair
from kernelfields.objective.designs.tables import weighted_product

_BLOCK_BYTES = 64 * 2**20


def compute_block(
    design: LocalDesign, marginals: Array, weights: Array, read_back: Callable[[Array], np.ndarray]
) -> np.ndarray:
    """Return the block of a term for the marginals (n, L^k) and the weights (n,) of its cliques.

    ``read_back`` returns arrays of a family as those of this process.
    """
    pairs, features = design.term.pairs, design.features
    if pairs.listing is not None:
        return np.diag(weights @ marginals) - (marginals * weights[:, None]).T @ marginals
    if is_sparse(features):
        marginals, weights = read_back(marginals), read_back(weights)
    factor = design.labels_like(marginals)
    if features is None:
        means = marginals @ factor
        squares = factor.T @ ((weights @ marginals)[:, None] * factor)
        block = read_back(squares - (means * weights[:, None]).T @ means)
        return pairs.restrict_matrix(block)
    if not isinstance(pairs, EveryPair):
        return supported_curvature(features, pairs.features, pairs.outcomes, marginals, weights)
    return within_clique_curvature(design.table, factor, marginals, weights)


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
