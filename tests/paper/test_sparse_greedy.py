"""Section 5.3: incomplete Cholesky factorisation with the largest residual as next pivot."""

import numpy as np
import pytest
from small_fields import KERNEL, as_lists

from kernelfields import ChainCRF
from kernelfields.basis import GreedyCholesky, PanelCholesky
from tests.samples import random_chains

CHAINS = random_chains((6, 5, 7, 4), seed=3)


def greedy_panel(rank):
    panel = PanelCholesky(KERNEL, CHAINS.inputs, rank)
    GreedyCholesky(rank).select(panel, np.random.default_rng(0))
    return panel


def residual(gram, pivots):
    """K - K_:B K_BB^-1 K_B:, the part of the Gram matrix outside the span of the pivots."""
    return gram - gram[:, pivots] @ np.linalg.solve(gram[np.ix_(pivots, pivots)], gram[pivots])


def test_pivots_have_the_largest_residual():
    """Each pivot is where k(x, x) minus its projection onto the pivots before it is largest."""
    gram = KERNEL(CHAINS.inputs)
    panel = greedy_panel(8)
    for count in range(1, 8):
        left = np.diagonal(residual(gram, panel.pivots[:count]))
        np.testing.assert_allclose(left[panel.pivots[count]], left.max(), rtol=1e-9)


def test_a_field_named_greedy_has_these_pivots():
    """ChainCRF(basis="greedy-cholesky"): each pivot of the fit has the largest residual, whatever the seed."""
    gram = KERNEL(CHAINS.inputs)
    for seed in range(3):
        options = {"basis": "greedy-cholesky", "rank": 6, "random_state": seed, "n_jobs": 1}
        pivots = ChainCRF(KERNEL, **options).fit(*as_lists(CHAINS)).basis_["node"].indices
        for count in range(1, 6):
            left = np.diagonal(residual(gram, pivots[:count]))
            np.testing.assert_allclose(left[pivots[count]], left.max(), rtol=1e-9)


def test_features_are_whitened_projections():
    """Z Z^T is the Gram matrix of projections onto the span, and Z = k(x, B) R^-T also for new inputs."""
    gram = KERNEL(CHAINS.inputs)
    panel = greedy_panel(8)
    outside = residual(gram, panel.pivots)
    np.testing.assert_allclose(panel.features @ panel.features.T, gram - outside, atol=1e-11)
    np.testing.assert_allclose(panel.residual, np.diagonal(outside), atol=1e-11)
    subspace = panel.subspace()
    np.testing.assert_allclose(subspace.factor @ subspace.factor.T, KERNEL(subspace.pivots), atol=1e-12)
    np.testing.assert_allclose(subspace.features(CHAINS.inputs), panel.features, atol=1e-10)
    new = np.random.default_rng(0).normal(size=(4, 2))
    coefficients = np.random.default_rng(1).normal(size=(8, 2))
    dual = subspace.dual_coefficients(coefficients)
    np.testing.assert_allclose(subspace.features(new) @ coefficients, KERNEL(new, subspace.pivots) @ dual, atol=1e-9)
    # the norm of f = sum_j dual_j k(x_j, .) is Euclidean in these coordinates
    np.testing.assert_allclose(np.vdot(dual, KERNEL(subspace.pivots) @ dual), np.vdot(coefficients, coefficients))


def test_minimum_falls_as_the_basis_grows():
    """Greedy spans are nested: more pivots never fit worse, and all of them are the exact model."""
    options = {"solver": "newton", "tol": 1e-12, "dtype": "float64", "n_jobs": 1}
    values = [
        ChainCRF(KERNEL, basis="greedy-cholesky", rank=rank, **options).fit(*as_lists(CHAINS)).solution_.value
        for rank in (1, 2, 4, 8, 16, CHAINS.n_positions)
    ]
    exact = ChainCRF(KERNEL, basis="all", **options).fit(*as_lists(CHAINS)).solution_.value
    assert np.all(np.diff(values) < 0)
    assert values[-1] == pytest.approx(exact, rel=1e-10)
