"""Inputs of very different k(x, x): one of them must not hide the others."""

import numpy as np
import pytest

from kernelfields.basis import AllPoints, Gradient, GreedyCholesky, PanelCholesky, RandomCholesky, Uniform
from kernelfields.kernels import Linear, Polynomial, Precomputed


def inputs_with_an_outlier(scale):
    inputs = np.random.default_rng(3).normal(size=(200, 6))
    inputs[17] *= scale
    return inputs


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("basis", [GreedyCholesky(), RandomCholesky(), Uniform(), AllPoints()], ids=repr)
def test_an_outlier_does_not_cost_the_other_inputs_their_features(basis, dtype):
    # The outlier has k(x, x) about 1e12 times that of the others, which once put them all below the floor.
    inputs = inputs_with_an_outlier(100.0)
    kernel = Polynomial(3, gamma=0.1)
    panel = PanelCholesky(kernel, inputs, 200, dtype)
    basis.select(panel, np.random.default_rng(0))
    assert panel.is_exhausted or panel.rank == 200
    gram = kernel(inputs)
    scale = np.sqrt(np.diagonal(gram))
    features = panel.features.astype(np.float64) / scale[:, None]
    allowed = 1e-6 if dtype == np.float64 else 5e-3
    np.testing.assert_allclose(features @ features.T, gram / np.outer(scale, scale), atol=allowed)


@pytest.mark.parametrize("basis", [GreedyCholesky(), RandomCholesky(), Uniform(), AllPoints()], ids=repr)
def test_pivots_do_not_depend_on_the_units_of_single_inputs(basis):
    # A linear kernel of six columns has rank six, whatever the lengths of the inputs.
    inputs = np.random.default_rng(4).normal(size=(100, 6))
    inputs *= 10.0 ** np.random.default_rng(5).uniform(-3, 3, size=(100, 1))
    panel = PanelCholesky(Linear(), inputs, 100)
    basis.select(panel, np.random.default_rng(0))
    assert panel.rank == 6
    lengths = np.linalg.norm(inputs, axis=1, keepdims=True)
    features, rows = panel.features / lengths, inputs / lengths
    np.testing.assert_allclose(features @ features.T, rows @ rows.T, atol=1e-8)


def test_gradient_scores_reach_inputs_of_small_norm():
    inputs = inputs_with_an_outlier(100.0)
    panel = PanelCholesky(Polynomial(3, gamma=0.1), inputs, 60, np.float32)
    basis = Gradient(initial=1, growth=4.0)
    random = np.random.default_rng(0)
    basis.select(panel, random)
    residuals = np.random.default_rng(1).normal(size=(200, 2))
    before = panel.rank
    assert basis.grow(panel, residuals, random) == min(3 * before, 60 - before)


@pytest.mark.parametrize(("smallest", "rank"), [(3e-15, 2), (3e-16, 1)])
def test_what_rounding_of_the_largest_could_be_is_no_pivot(smallest, rank):
    """Entries of a matrix may be rounded on the scale of its largest: below 1e-15 of that nothing is told apart."""
    matrix = np.diag([1.0, smallest])
    panel = PanelCholesky(Precomputed(matrix), np.arange(2.0)[:, None], 2)
    AllPoints().select(panel, np.random.default_rng(0))
    assert panel.rank == rank
