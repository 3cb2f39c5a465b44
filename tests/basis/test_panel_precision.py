"""Kernel values coarser than the columns are rounding, not a sign of a kernel that is none."""

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.basis import PanelCholesky, RandomCholesky
from kernelfields.kernels import RBF, Polynomial


def smooth_inputs(dtype):
    return np.random.default_rng(0).random((300, 3)).astype(dtype)


@pytest.mark.parametrize("kernel", [Polynomial(3, gamma=0.03), RBF(0.1)])
@pytest.mark.parametrize("inputs_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns_dtype", [np.float32, np.float64])
def test_residuals_stay_near_the_true_ones_in_every_mix_of_precisions(kernel, inputs_dtype, columns_dtype):
    inputs = smooth_inputs(inputs_dtype)
    panel = PanelCholesky(kernel, inputs, 200, columns_dtype)
    RandomCholesky().select(panel, np.random.default_rng(1))
    exact = kernel(inputs.astype(np.float64))
    features = panel.features.astype(np.float64)
    error = np.abs(exact - features @ features.T).max()
    coarse = np.float32 in (inputs_dtype, columns_dtype)
    assert error <= (2e-4 if coarse else 1e-8) * exact.max()


def test_small_fits_on_float32_inputs_use_kernel_values_in_float64():
    random = np.random.default_rng(2)
    X = [random.random((6, 3)).astype(np.float32) for _ in range(40)]
    y = [(sequence[:, 0] > 0.5).astype(int) for sequence in X]
    model = ChainCRF(Polynomial(3, gamma=0.03), rank=200, tol=1e-6, random_state=0).fit(X, y)
    twin = ChainCRF(Polynomial(3, gamma=0.03), rank=200, tol=1e-6, random_state=0).fit(
        [sequence.astype(np.float64) for sequence in X], y
    )
    assert model.solution_.value == pytest.approx(twin.solution_.value, rel=1e-9)
    assert model.basis_["node"].pivots.dtype == np.float64
