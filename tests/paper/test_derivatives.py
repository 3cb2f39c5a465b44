"""Section 5.1: gradient and Hessian of the negative log-posterior (eq. 21, 22)."""

import numpy as np
import pytest
from small_fields import KERNEL, derivative_along, small_field

from kernelfields import EdgeCliques, EndCliques, NodeCliques, StartCliques
from kernelfields.kernels import Linear
from kernelfields.objective import Direction
from kernelfields.solvers.newton import full_hessian
from tests.samples import random_chains

LABEL_KERNEL = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
FIELDS = {
    "node and transitions": [
        NodeCliques(KERNEL, basis="all", prior_variance=2.0),
        EdgeCliques(prior_variance=0.3),
    ],
    "explicit features": [NodeCliques(Linear(), window=3), EdgeCliques()],
    "low rank": [NodeCliques(KERNEL, basis="greedy-cholesky", rank=4), EdgeCliques()],
    "transitions that see inputs": [NodeCliques(KERNEL, rank=5), EdgeCliques(KERNEL, rank=3), EdgeCliques()],
    "ends": [NodeCliques(KERNEL, rank=5), EdgeCliques(), StartCliques(), EndCliques(KERNEL, rank=2)],
    "label kernel": [NodeCliques(KERNEL, label_kernel=LABEL_KERNEL), EdgeCliques(label_kernel="centred")],
}


@pytest.fixture(params=FIELDS)
def field(request):
    return small_field(FIELDS[request.param], random_chains(weighted=request.param == "ends"))


def test_value_is_the_enumerated_posterior(field):
    """P = sum_c ||theta_c||^2 / (2 s_c) + sum_i weight_i (g(theta; x^i) - <Phi(x^i, y^i), theta>)."""
    theta = field.random_theta()
    np.testing.assert_allclose(field.posterior.make_point(theta).value, field.value(theta), rtol=1e-13)


def test_equation_21_gradient_is_expected_minus_observed_statistics(field):
    """dP = sum_i E[Phi(x^i, y)] - Phi(x^i, y^i) + theta / s."""
    theta = field.random_theta()
    gradient = field.posterior.make_point(theta).gradient
    np.testing.assert_allclose(gradient, field.gradient(theta), rtol=1e-10, atol=1e-12)
    for seed in (2, 3):
        direction = field.random_theta(seed)
        slope = derivative_along(lambda at: field.posterior.make_point(at).value, theta, direction)
        np.testing.assert_allclose(slope, gradient @ direction, rtol=1e-8)


def test_equation_22_hessian_is_the_covariance_of_statistics(field):
    """d2P = sum_i Cov[Phi(x^i, y)] + 1 / s, long-range covariances included."""
    theta = field.random_theta()
    point = field.posterior.make_point(theta)
    hessian = field.hessian(theta)
    np.testing.assert_allclose(full_hessian(point), hessian, rtol=1e-10, atol=1e-12)
    for seed in (2, 3):
        direction = field.random_theta(seed)
        product, potentials = field.posterior.hessian_product(point, direction)
        np.testing.assert_allclose(product, hessian @ direction, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(potentials.node, field.posterior.potentials(direction).node)
        change = derivative_along(lambda at: field.posterior.make_point(at).gradient, theta, direction)
        np.testing.assert_allclose(product, change, rtol=1e-7, atol=1e-9)


def test_equation_22_restricted_to_one_clique_set(field):
    """A product within one set is that set's principal block of the Hessian."""
    theta = field.random_theta()
    point = field.posterior.make_point(theta)
    hessian = field.hessian(theta)
    for index, block in enumerate(field.posterior.blocks):
        direction = np.zeros(field.size)
        direction[block.rows] = field.random_theta(4)[block.rows]
        product, _ = field.posterior.hessian_product(point, direction, only=(index,))
        expected = np.zeros(field.size)
        expected[block.rows] = (hessian @ direction)[block.rows]
        np.testing.assert_allclose(product, expected, rtol=1e-10, atol=1e-12)


def test_the_prior_bounds_the_hessian_from_below(field):
    """In whitened coordinates d2P >= 1 / s for every set, so P is strongly convex."""
    theta = field.random_theta()
    smallest = np.linalg.eigvalsh(full_hessian(field.posterior.make_point(theta)))[0]
    assert smallest >= field.precision.min() - 1e-12


def test_values_and_slopes_along_a_line(field):
    """The posterior restricted to a line has the same values, and gradient . direction as slope."""
    theta, direction = field.random_theta(), field.random_theta(5)
    line = field.posterior.make_line(field.posterior.make_point(theta), Direction(direction))
    for step in (0.0, 0.3, 1.7):
        value, slope = line(step)
        there = field.posterior.make_point(theta + step * direction)
        np.testing.assert_allclose(value, there.value, rtol=1e-12)
        np.testing.assert_allclose(slope, there.gradient @ direction, rtol=1e-10)
        np.testing.assert_allclose(line.point(step).gradient, there.gradient, rtol=1e-10, atol=1e-12)
