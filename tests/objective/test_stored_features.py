"""Features in a file are those in memory, to the digit, and leave nothing behind."""

import os

import numpy as np
import pytest

from kernelfields.basis import Gradient, PanelCholesky, RandomCholesky
from kernelfields.kernels import RBF
from kernelfields.objective.designs.budget import mapped_array

N_ROWS, RANK = 700, 90
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_panel_in_a_file_is_that_in_memory(dtype, tmp_path):
    inputs = np.random.default_rng(0).normal(size=(N_ROWS, 5)).astype(dtype)
    residuals = np.random.default_rng(4).normal(size=(N_ROWS, 3))
    panels = []
    for room in (None, mapped_array((N_ROWS, RANK), dtype, tmp_path)):
        panel = PanelCholesky(RBF(0.3), inputs, RANK, dtype, room)
        random, basis = np.random.default_rng(5), Gradient(initial=30)
        basis.select(panel, random)
        assert basis.grow(panel, residuals, random) > 10
        RandomCholesky().select(panel, random)
        panels.append(panel)
    memory, file = panels
    assert file.rank == RANK
    np.testing.assert_array_equal(file.pivots, memory.pivots)
    np.testing.assert_array_equal(file.features, memory.features)
    np.testing.assert_array_equal(file.residual, memory.residual)
    np.testing.assert_array_equal(file.subspace().factor, memory.subspace().factor)


def test_a_panel_that_ends_early_has_the_features_it_has():
    few = np.repeat(np.random.default_rng(0).normal(size=(20, 5)), 10, axis=0)
    panel = PanelCholesky(RBF(0.3), few, 60, np.float32, mapped_array((200, 60), DTYPES[0]))
    RandomCholesky().select(panel, np.random.default_rng(0))
    assert panel.features.shape == (200, 20)
    np.testing.assert_allclose(panel.features @ panel.features.T, RBF(0.3)(few, few), atol=1e-5)
    np.testing.assert_allclose(panel.subspace().factor, panel.features[panel.pivots], atol=1e-6)


def test_the_file_has_no_name(tmp_path):
    array = mapped_array((3, 4), DTYPES[0], tmp_path)
    assert os.listdir(tmp_path) == []
    array += 1.0
    assert array.sum() == 12.0
    assert mapped_array((0, 4), DTYPES[0], tmp_path).shape == (0, 4)


def test_a_disk_that_is_full_is_an_error_before_the_work(tmp_path):
    with pytest.raises(OSError, match=r"no room for .* GiB of features in"):
        mapped_array((2**40, 2**20), DTYPES[0], tmp_path)
    assert os.listdir(tmp_path) == []
