"""Pivots out of order: float32 columns stay as close to the Gram matrix as float32 allows."""

import numpy as np
import pytest

from kernelfields.basis import AllPoints, GreedyCholesky, RandomCholesky, Uniform
from kernelfields.basis.panel import PanelCholesky
from kernelfields.kernels import RBF

KERNEL = RBF(0.5)


def smooth_inputs(n_inputs=2000):
    """Few dimensions and a wide kernel: eigenvalues fall fast, and K_BB is close to singular."""
    return np.tanh(np.random.default_rng(0).normal(size=(n_inputs, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("basis", [RandomCholesky(), Uniform(), GreedyCholesky(), AllPoints()], ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_float32_columns_reproduce_the_gram_matrix_whatever_the_order(basis, seed):
    inputs = smooth_inputs()
    panel = PanelCholesky(KERNEL, inputs, 300, np.float32)
    basis.select(panel, np.random.default_rng(seed))
    features = panel.features.astype(np.float64)
    left = KERNEL(inputs) - features @ features.T
    # What is left is a Gram matrix: no negative variance, and no entry above the largest variance.
    assert np.diagonal(left).min() > -5e-5
    assert np.abs(left).max() < panel.residual.max() + 5e-5
    np.testing.assert_allclose(np.maximum(np.diagonal(left), 0.0), panel.residual, atol=5e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_factor_is_that_of_the_pivots_in_float64(dtype):
    panel = PanelCholesky(KERNEL, smooth_inputs().astype(dtype), 300, dtype)
    Uniform().select(panel, np.random.default_rng(0))
    subspace = panel.subspace()
    exact = KERNEL(subspace.pivots.astype(np.float64))
    np.testing.assert_allclose(subspace.factor @ subspace.factor.T, exact, atol=1e-12)
    assert np.all(np.triu(subspace.factor, 1) == 0)
