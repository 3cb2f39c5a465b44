"""Subspaces that need no pivots, and the cut of rows into blocks."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.basis import ConstantSubspace, ExplicitSubspace
from kernelfields.kernels import Constant, Linear
from kernelfields.kernels.rows import row_blocks


@pytest.mark.parametrize("sparse", [False, True])
def test_linear_features_are_the_inputs(sparse):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(10, 4))
    given = sp.csr_array(inputs) if sparse else inputs
    kernel = Linear()
    subspace = ExplicitSubspace(kernel, kernel.feature_map(given).shape[1])
    assert subspace.rank == subspace.features(given).shape[1]
    features = subspace.features(given, np.float32)
    assert features.dtype == np.float32
    assert sp.issparse(features) == sparse
    full = subspace.features(given)
    full = full.toarray() if sparse else full
    np.testing.assert_allclose(full @ full.T, kernel(inputs), atol=1e-13)
    V = rng.normal(size=(subspace.rank, 3))
    applied = subspace.apply(given, V)
    assert isinstance(applied, np.ndarray)
    np.testing.assert_allclose(applied, full @ V, atol=1e-13)


def test_the_constant_subspace_repeats_its_coefficients():
    subspace = ConstantSubspace(Constant(1.0))
    inputs, V = np.zeros((4, 2)), np.array([[1.0, -2.0, 3.0]])
    assert subspace.rank == 1
    np.testing.assert_array_equal(subspace.features(inputs) @ V, subspace.apply(inputs, V))
    np.testing.assert_array_equal(subspace.apply(inputs, V), np.tile(V, (4, 1)))


@pytest.mark.parametrize(("n_rows", "n_columns", "budget"), [(10, 3, 48), (10, 3, 1), (7, 100, 10**6), (5, 0, 64)])
def test_row_blocks_cover_all_rows_within_the_budget(n_rows, n_columns, budget):
    blocks = row_blocks(n_rows, n_columns, budget=budget)
    covered = np.concatenate([np.arange(n_rows)[block] for block in blocks])
    np.testing.assert_array_equal(covered, np.arange(n_rows))
    sizes = [block.stop - block.start for block in blocks]
    assert all(size == 1 or size * n_columns * 8 <= budget for size in sizes)


def test_no_rows_need_no_blocks():
    assert row_blocks(0, 5) == []
