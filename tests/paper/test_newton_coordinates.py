"""Section 5.1: Newton steps in theta (eq. 19) and in alpha with theta = A alpha (eq. 20), and their solvers."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from small_fields import KERNEL, as_lists, small_field, tied_field

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.solvers import Newton, minimize, resolve_solver
from kernelfields.solvers.newton import BlockJacobi, SubspaceDescent, full_hessian
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
    step = Newton().direction(field.posterior.make_point(theta), relative_gap=1.0).theta
    np.testing.assert_allclose(step, -np.linalg.solve(field.hessian(theta), field.gradient(theta)), rtol=1e-8)


def test_equation_20_is_the_same_step_in_kernel_coefficients():
    """alpha <- alpha - [A^T H A]^-1 A^T grad, computed from kernel values alone, moves theta = A alpha alike."""
    whitened, plain, gram = fields()
    # V = R^T alpha for nodes, since f(x) = k(x, .) alpha = z(x)^T R^T alpha
    change = scipy.linalg.block_diag(np.kron(np.linalg.cholesky(gram).T, np.eye(N_LABELS)), np.eye(N_LABELS**2))
    alpha = plain.random_theta(scale=0.3)
    theta = change @ alpha

    point = plain.posterior.make_point(alpha)
    precision = prior_precision(gram)
    gradient = point.gradient - plain.precision * alpha + precision @ alpha
    hessian = full_hessian(point) - np.diag(plain.precision) + precision
    np.testing.assert_allclose(gradient, change.T @ whitened.gradient(theta), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(hessian, change.T @ whitened.hessian(theta) @ change, rtol=1e-9, atol=1e-11)

    following = alpha - np.linalg.solve(hessian, gradient)
    direct = theta + Newton().direction(whitened.posterior.make_point(theta), relative_gap=1.0).theta
    np.testing.assert_allclose(change @ following, direct, rtol=1e-6, atol=1e-8)


def test_equation_20_is_a_step_in_the_coefficients_of_the_pivots():
    """One Newton step of a fit from zero, seen by PivotSubspace: alpha = -a [A^T H A]^-1 A^T grad by kernel values.

    At zero all labels are equally likely: expected labels are 1/L, covariances (1 - 1/L) of the contrasts 1 / L.
    """
    X, y = as_lists(random_chains((1,) * 9))
    with pytest.warns(ConvergenceWarning):
        crf = ChainCRF(
            KERNEL, basis="all", prior_variance=NODE_VARIANCE, solver="newton", max_iter=1, tol=1e-15, n_jobs=1
        ).fit(X, y)
    subspace = crf.basis_["node"]
    length = crf.solution_.history[-1].step
    order = subspace.indices
    gram = KERNEL(np.vstack(X)[order])
    labels = np.concatenate(y)[order]
    contrasts = np.eye(N_LABELS) - 1 / N_LABELS
    # A^T H A and A^T grad of one contrast between labels, of which the covariance is 1 / L.
    hessian = gram @ gram / N_LABELS + gram / NODE_VARIANCE
    gradient = -gram @ contrasts[labels]
    step = -np.linalg.solve(hessian, gradient)
    dual = subspace.dual_coefficients(crf.coef_["node"])
    np.testing.assert_allclose(dual, length * step, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(subspace.apply(np.vstack(X)[order], crf.coef_["node"]), gram @ dual, atol=1e-10)


def test_newton_converges_quadratically():
    """Near the minimiser the error of a step is at most a constant times the square of the error before."""
    field, _, _ = fields()
    minimiser = field.minimiser()
    theta = minimiser + 0.1 * field.random_theta()
    errors = []
    for _ in range(3):
        errors.append(np.linalg.norm(theta - minimiser))
        point = field.posterior.make_point(theta)
        theta = theta - np.linalg.solve(full_hessian(point), point.gradient)
    errors.append(np.linalg.norm(theta - minimiser))
    assert all(after <= before**2 + 1e-13 for before, after in pairwise(errors))


def test_block_jacobi_directions_are_those_of_equation_30():
    """-(eq. 30)^-1 g for every set, long-range covariances left out; rows of the whole Hessian are something else."""
    field, _, _ = fields()
    theta = field.random_theta()
    gradient, hessian = field.gradient(theta), field.hessian(theta)
    step = BlockJacobi().direction(field.posterior.make_point(theta), relative_gap=1.0).theta
    for index, block in enumerate(field.posterior.blocks):
        expected = -np.linalg.solve(field.within_cliques(theta, index), gradient[block.rows])
        np.testing.assert_allclose(step[block.rows], expected, rtol=1e-8, atol=1e-11)
        whole = -np.linalg.solve(hessian[block.rows, block.rows], gradient[block.rows])
        assert np.abs(expected - whole).max() > 1e-2 * np.abs(whole).max()


def test_subspace_descent_moves_in_the_block_of_the_largest_bound_alone():
    """Zero outside it; inside, -H_cc^-1 g_c. Which block it is, is decided by (s_c / 2) ||g_c||^2."""
    field, _, _ = fields()
    moved = set()
    for seed in range(8):
        theta = field.minimiser()
        block = field.posterior.blocks[seed % 2]
        theta[block.rows] += field.random_theta(seed)[block.rows]
        gradient, hessian = field.gradient(theta), field.hessian(theta)
        bounds = [0.5 * each.prior_variance * np.sum(gradient[each.rows] ** 2) for each in field.posterior.blocks]
        best = field.posterior.blocks[int(np.argmax(bounds))]
        moved.add(best.name)
        step = SubspaceDescent(tolerance=1e-12).direction(field.posterior.make_point(theta), relative_gap=1.0).theta
        inside = np.zeros(field.size, dtype=bool)
        inside[best.rows] = True
        np.testing.assert_array_equal(step[~inside], 0.0)
        expected = -np.linalg.solve(hessian[best.rows, best.rows], gradient[best.rows])
        np.testing.assert_allclose(step[inside], expected, rtol=1e-6, atol=1e-9)
    assert moved == {"node", "edge"}


@pytest.mark.parametrize("solver", ["newton", "block-jacobi", "subspace"])
def test_the_rule_that_is_named_is_the_one_that_runs(solver):
    """One iteration of a fit from zero goes along the direction of its rule, all from sums over labellings."""
    chains = random_chains((4, 3, 5, 2), seed=2)
    options = {"prior_variance": NODE_VARIANCE, "max_iter": 1, "tol": 1e-15, "n_jobs": 1}
    with pytest.warns(ConvergenceWarning):
        crf = ChainCRF(
            KERNEL, basis="all", edges=EdgeCliques(prior_variance=EDGE_VARIANCE), solver=solver, **options
        ).fit(*as_lists(chains))
    field = small_field(
        [NodeCliques(KERNEL, basis="all", prior_variance=NODE_VARIANCE), EdgeCliques(prior_variance=EDGE_VARIANCE)],
        chains,
    )
    nowhere = np.zeros(field.size)
    gradient, hessian, blocks = field.gradient(nowhere), field.hessian(nowhere), field.posterior.blocks
    bounds = [0.5 * each.prior_variance * np.sum(gradient[each.rows] ** 2) for each in blocks]
    rows = blocks[int(np.argmax(bounds))].rows
    alone = np.zeros(field.size)
    alone[rows] = np.linalg.solve(hessian[rows, rows], gradient[rows])
    map_blocks = [
        np.linalg.solve(field.within_cliques(nowhere, i), gradient[each.rows]) for i, each in enumerate(blocks)
    ]
    step = {"newton": np.linalg.solve(hessian, gradient), "block-jacobi": np.concatenate(map_blocks), "subspace": alone}
    reached = np.concatenate([each.coefficients.ravel() for each in crf.field_.terms])
    expected = -crf.solution_.history[-1].step * step[solver]
    # Subspace descent solves its systems to a tenth of the gradient.
    close = 0.3 if solver == "subspace" else 1e-6
    assert np.linalg.norm(reached - expected) <= close * np.linalg.norm(expected)
    np.testing.assert_array_equal(reached[expected == 0.0], 0.0)
    assert crf.solution_.solver == solver


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "block-jacobi", "subspace"])
def test_second_order_methods_reach_the_minimum(solver):
    """Section 5.1: Newton, block-Jacobi and subspace descent, with a line search, end in the same minimum."""
    field, _, _ = fields()
    minimum = field.value(field.minimiser())
    posterior = field.posterior
    solution = minimize(posterior, resolve_solver(solver, posterior, 1e-9), tol=1e-9, max_iter=500)
    assert solution.converged
    np.testing.assert_allclose(solution.value, minimum, rtol=2e-9)
