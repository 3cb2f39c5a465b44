"""Section 6: primal and dual optimisation of polynomial degree 1 reach the same model."""

import numpy as np
import pytest
from small_fields import as_lists, small_field

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.basis import ExplicitSubspace, PivotSubspace
from kernelfields.kernels import Polynomial
from tests.samples import random_chains

NEW = np.random.default_rng(7).normal(size=(5, 3))


def fitted(kernel, chains, solver="newton", window=1):
    crf = ChainCRF(
        kernel,
        basis="all",
        window=window,
        prior_variance=0.8,
        edges=EdgeCliques(prior_variance=1.7),
        solver=solver,
        tol=1e-14,
        max_iter=500,
        dtype="float64",
        n_jobs=1,
    )
    return crf.fit(*as_lists(chains))


@pytest.mark.parametrize("window", [1, 3])
def test_primal_linear_equals_dual_degree_one(window):
    """Explicit features (as many as inputs) and kernel expansions (as many as positions): one objective."""
    chains = random_chains((4, 6, 3, 5), n_features=3)
    primal = fitted("linear", chains, window=window)
    dual = fitted(Polynomial(1, gamma=1.0, coef0=0.0), chains, window=window)
    assert isinstance(primal.basis_["node"], ExplicitSubspace)
    assert isinstance(dual.basis_["node"], PivotSubspace)
    np.testing.assert_allclose(primal.solution_.value, dual.solution_.value, rtol=1e-10)
    np.testing.assert_allclose(primal.transitions_, dual.transitions_, atol=1e-8)
    for one, other in zip(primal.predict_marginals([NEW]), dual.predict_marginals([NEW]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_dual_fits_are_by_block_jacobi(degree):
    """Section 6: polynomials of degree 1, 2 and 3 by block-Jacobi end where Newton's method does.

    The first step is along -(eq. 30)^-1 g, the next ones too: the fit is that of the rule and no other.
    """
    chains = random_chains((4, 6, 3, 5), n_features=3)
    kernel = Polynomial(degree, gamma=0.5, coef0=0.0 if degree == 1 else 1.0)
    dual = fitted(kernel, chains, solver="block-jacobi")
    assert dual.solution_.solver == "block-jacobi"
    np.testing.assert_allclose(dual.solution_.value, fitted(kernel, chains).solution_.value, rtol=1e-9)
    edges = EdgeCliques(prior_variance=1.7)
    field = small_field([NodeCliques(kernel, basis="all", prior_variance=0.8), edges], chains)
    theta = np.zeros(field.size)
    for iteration in dual.solution_.history[1:4]:
        gradient = field.gradient(theta)
        direction = [
            -np.linalg.solve(field.within_cliques(theta, index), gradient[block.rows])
            for index, block in enumerate(field.posterior.blocks)
        ]
        theta = theta + iteration.step * np.concatenate(direction)
        np.testing.assert_allclose(field.value(theta), iteration.value, rtol=1e-9)


def test_primal_weights_are_the_dual_expansion():
    """w_y = sum_t alpha_ty x_t with alpha = s (1[y = y_t] - m_t(y)), eq. 16 in the primal."""
    chains = random_chains((4, 6, 3, 5), n_features=3)
    primal = fitted("linear", chains)
    X, _ = as_lists(chains)
    alpha = 0.8 * (np.eye(3)[chains.labels] - np.vstack(primal.predict_marginals(X)))
    np.testing.assert_allclose(primal.coef_["node"], chains.inputs.T @ alpha, atol=1e-8)


def test_degree_two_contains_degree_one():
    """(1 + x . x')^2 holds the functions of 2 x . x': at matched scale the richer model fits at least as well."""
    chains = random_chains((4, 6, 3, 5), n_features=3)
    linear = fitted(Polynomial(1, gamma=2.0, coef0=0.0), chains)
    quadratic = fitted(Polynomial(2, gamma=1.0, coef0=1.0), chains)
    assert quadratic.solution_.value < linear.solution_.value
