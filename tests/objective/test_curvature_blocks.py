"""Blocks of within-clique covariances (eq. 30): fast products against plain sums over cliques and labellings."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.objective.curvature_blocks import supported_curvature

RANDOM = np.random.default_rng(0)
N, RANK, OUTCOMES = 11, 5, 6
MARGINALS = RANDOM.dirichlet(np.ones(OUTCOMES), size=N)
WEIGHTS = RANDOM.uniform(0.0, 2.0, size=N)
FEATURES = RANDOM.normal(size=(N, RANK)) * (RANDOM.random((N, RANK)) < 0.6)


def plain_curvature(features, factor, marginals, weights):
    """sum_t weight_t (A^T Cov_t A) kron (z_t z_t^T), clique by clique, as (r, q, r, q)."""
    total = 0.0
    for z, m, weight in zip(features, marginals, weights, strict=True):
        covariance = np.diag(m) - np.outer(m, m)
        total = total + weight * np.einsum("f,g,ij->figj", z, z, factor.T @ covariance @ factor)
    return total


@pytest.mark.parametrize("block_bytes", [1, 8 * 17 * 4, 2**20])
def test_the_block_of_a_support_holds_the_covariances_of_its_pairs(block_bytes):
    chosen = np.flatnonzero(RANDOM.random(RANK * OUTCOMES) < 0.6)
    columns, outcomes = chosen // OUTCOMES, chosen % OUTCOMES
    found = supported_curvature(sp.csr_array(FEATURES), columns, outcomes, MARGINALS, WEIGHTS, block_bytes)
    everything = plain_curvature(FEATURES, np.eye(OUTCOMES), MARGINALS, WEIGHTS).reshape(RANK * OUTCOMES, -1)
    np.testing.assert_allclose(found, everything[np.ix_(chosen, chosen)], rtol=1e-12, atol=1e-13)


def test_a_support_without_pairs_has_an_empty_block():
    none = np.empty(0, dtype=np.int64)
    assert supported_curvature(sp.csr_array(FEATURES), none, none, MARGINALS, WEIGHTS).shape == (0, 0)
