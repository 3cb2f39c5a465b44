"""Section 5.1: Newton steps in theta (eq. 19) and in alpha with theta = A alpha (eq. 20), and their solvers."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
from small_fields import KERNEL, tied_field

from kernelfields.solvers import Newton, minimize, resolve_solver
from kernelfields.solvers.newton import full_hessian
from tests.samples import random_chains

N_LABELS, NODE_VARIANCE, EDGE_VARIANCE = 3, 1.3, 0.7


def fields():
    """The same field twice: whitened coordinates, and kernel values k(x_j, .) as features."""
    chains = random_chains()
    gram = KERNEL(chains.inputs)
    whitened = tied_field(chains, N_LABELS, NODE_VARIANCE, EDGE_VARIANCE)
    plain = tied_field(chains, N_LABELS, NODE_VARIANCE, EDGE_VARIANCE, features=gram)
    return whitened, plain, gram


def prior_precision(gram):
    """The prior of alpha: alpha^T (K (x) 1) alpha / (2 s) for nodes, a plain square for transitions."""
    node = np.kron(gram, np.eye(N_LABELS)) / NODE_VARIANCE
    return scipy.linalg.block_diag(node, np.eye(N_LABELS**2) / EDGE_VARIANCE)


def test_equation_19_is_the_direction_of_the_newton_solver():
    """theta <- theta - H^-1 grad, with the enumerated Hessian and gradient."""
    field, _, _ = fields()
    theta = field.random_theta()
    step = Newton().direction(field.posterior.at(theta), relative_gap=1.0).theta
    np.testing.assert_allclose(step, -np.linalg.solve(field.hessian(theta), field.gradient(theta)), rtol=1e-8)


def test_equation_20_is_the_same_step_in_kernel_coefficients():
    """alpha <- alpha - [A^T H A]^-1 A^T grad, computed from kernel values alone, moves theta = A alpha alike."""
    whitened, plain, gram = fields()
    # V = R^T alpha for nodes, since f(x) = k(x, .) alpha = z(x)^T R^T alpha
    change = scipy.linalg.block_diag(np.kron(np.linalg.cholesky(gram).T, np.eye(N_LABELS)), np.eye(N_LABELS**2))
    alpha = plain.random_theta(scale=0.3)
    theta = change @ alpha

    point = plain.posterior.at(alpha)
    precision = prior_precision(gram)
    gradient = point.gradient - plain.posterior.prior_precision * alpha + precision @ alpha
    hessian = full_hessian(point) - np.diag(plain.posterior.prior_precision) + precision
    np.testing.assert_allclose(gradient, change.T @ whitened.gradient(theta), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(hessian, change.T @ whitened.hessian(theta) @ change, rtol=1e-9, atol=1e-11)

    following = alpha - np.linalg.solve(hessian, gradient)
    direct = theta + Newton().direction(whitened.posterior.at(theta), relative_gap=1.0).theta
    np.testing.assert_allclose(change @ following, direct, rtol=1e-6, atol=1e-8)


def test_newton_converges_quadratically():
    """Near the minimiser the error of a step is at most a constant times the square of the error before."""
    field, _, _ = fields()
    minimiser = field.minimiser()
    theta = minimiser + 0.1 * field.random_theta()
    errors = []
    for _ in range(3):
        errors.append(np.linalg.norm(theta - minimiser))
        point = field.posterior.at(theta)
        theta = theta - np.linalg.solve(full_hessian(point), point.gradient)
    errors.append(np.linalg.norm(theta - minimiser))
    assert all(after <= before**2 + 1e-13 for before, after in pairwise(errors))


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "block-jacobi", "subspace"])
def test_second_order_methods_reach_the_minimum(solver):
    """Section 5.1: Newton, block-Jacobi and subspace descent, with a line search, end in the same minimum."""
    field, _, _ = fields()
    minimum = field.value(field.minimiser())
    posterior = field.posterior
    solution = minimize(posterior, resolve_solver(solver, posterior, 1e-9), tol=1e-9, max_iter=500)
    assert solution.converged
    np.testing.assert_allclose(solution.value, minimum, rtol=2e-9)
