"""Newton's method where rounding loses a weak prior beside the likelihood, so that the Hessian has no factor."""

import numpy as np
import pytest

from kernelfields.data import Chains
from kernelfields.objective import LogPosterior
from kernelfields.solvers import SOLVERS, minimize
from kernelfields.solvers.newton import _solve_singular, full_hessian
from tests.samples import chain_datafit, design_of


def weak_posterior(prior_variance):
    """Single labels, whose likelihood does not change where all labels of a feature gain the same."""
    rng = np.random.default_rng(0)
    chains = Chains(rng.normal(size=(60, 4)), np.arange(61), rng.integers(3, size=60))
    node = design_of(
        "node", chains.inputs, positions=None, labels_per_clique=1, n_labels=3, prior_variance=prior_variance
    )
    return LogPosterior(chain_datafit(chains, [node], 3))


@pytest.mark.parametrize("units", [1.0, 1e6, 1e-6])
def test_systems_are_solved_where_the_matrix_curves(units):
    """Two coordinates that the data cannot tell apart, and a third; whatever the units, g = H x gives back H x."""
    scale = np.array([1.0, units, 3.0])
    exact = np.array([[2.0, 2.0, 0.5], [2.0, 2.0, 0.5], [0.5, 0.5, 1.0]]) * np.outer(scale, scale)
    rounded = exact.copy()
    rounded[0, 0] *= 1.0 - 4e-16
    assert np.linalg.eigvalsh(rounded / np.outer(scale, scale)).min() < 0
    gradient = exact @ (np.array([1.0, -0.5, 2.0]) / scale)
    solution = _solve_singular(rounded.copy, gradient)
    np.testing.assert_allclose(rounded @ solution, gradient, rtol=1e-6)
    assert solution @ gradient > 0, "minus the solution leads downhill"


def test_positive_matrices_are_solved_to_the_last_digits():
    rng = np.random.default_rng(1)
    root, expected = rng.normal(size=(6, 6)), rng.normal(size=6)
    matrix = root @ root.T
    np.testing.assert_allclose(_solve_singular(matrix.copy, matrix @ expected), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["newton", "block-jacobi"])
@pytest.mark.parametrize("prior_variance", [1e10, 1e18, 1e25], ids=str)
def test_the_minimum_is_that_of_conjugate_gradients(name, prior_variance):
    posterior = weak_posterior(prior_variance)
    expected = minimize(posterior, SOLVERS["newton-cg"](), tol=1e-10)
    solution = minimize(posterior, SOLVERS[name](), tol=1e-10, max_iter=15)
    assert solution.value == pytest.approx(expected.value, rel=1e-9)
    smallest = np.linalg.eigvalsh(full_hessian(posterior.make_point(solution.theta))).min()
    assert (smallest < 1e-13) == (prior_variance > 1e15), "the statement is about Hessians that are singular"
