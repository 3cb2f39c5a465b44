"""Certificates over the span and over the whole RKHS, and the quadratic forms behind them."""

import numpy as np
import pytest

from kernelfields.basis import AllPoints, GreedyCholesky, PanelCholesky
from kernelfields.data import Chains
from kernelfields.kernels import RBF
from kernelfields.objective import Certificate, LogPosterior
from kernelfields.objective.designs.design import FeatureOrigin, kernel_quadratic_form
from tests.samples import chain_datafit, design_of


def test_residuals_of_zero_have_no_form():
    assert kernel_quadratic_form(RBF(gamma=1.0), np.ones((3, 1)), np.zeros((3, 2))) == 0.0


def free_bound_of(panel, residuals):
    origin = FeatureOrigin(panel.kernel, panel.inputs[panel.pivots], panel.inputs, panel.residual)
    return origin.outside_bound(np.linalg.norm(residuals, axis=1)) ** 2


@pytest.mark.parametrize("rank", [1, 5, 20])
def test_the_free_bound_is_above_the_gradient_outside_the_span(rank):
    rng = np.random.default_rng(rank)
    inputs = rng.normal(size=(40, 2))
    panel = PanelCholesky(RBF(gamma=1.0), inputs, rank)
    GreedyCholesky().select(panel, rng)
    outside = panel.kernel(inputs) - panel.features @ panel.features.T
    for _ in range(20):
        residuals = rng.normal(size=(40, 3)) * rng.random((40, 1))
        exact = np.trace(residuals.T @ outside @ residuals)
        assert exact <= free_bound_of(panel, residuals)
    single = np.zeros((40, 3))
    single[np.argmax(panel.residual)] = [1.0, -2.0, 0.5]
    exact = np.trace(single.T @ outside @ single)
    np.testing.assert_allclose(free_bound_of(panel, single), exact, rtol=1e-9)


def kernel_chain(rank):
    """A chain with a kernel on the nodes, spanned by ``rank`` pivots (None: all inputs)."""
    rng = np.random.default_rng(3)
    chains = Chains(rng.normal(size=(36, 2)), np.arange(0, 37, 6), rng.integers(2, size=36))
    panel = PanelCholesky(RBF(gamma=0.8), chains.inputs, rank or 36)
    (GreedyCholesky() if rank else AllPoints()).select(panel, rng)
    node = design_of("node", panel.features, positions=None, labels_per_clique=1, n_labels=2, prior_variance=2.0)
    steps = np.flatnonzero(~chains.is_start)
    edge = design_of("edge", None, positions=steps, labels_per_clique=2, n_labels=2, prior_variance=1.0)
    return panel, LogPosterior(chain_datafit(chains, [node, edge], 2))


def newton(posterior, theta, n_steps):
    for _ in range(n_steps):
        point = posterior.make_point(theta)
        hessian = np.column_stack([posterior.hessian_product(point, unit)[0] for unit in np.eye(posterior.size)])
        theta = theta - np.linalg.solve(hessian, point.gradient)
    return posterior.make_point(theta)


@pytest.mark.parametrize("rank", [2, 8, 20])
def test_the_minimum_over_the_whole_space_lies_above_the_rkhs_bound(rank):
    _, everything = kernel_chain(None)
    best = newton(everything, np.zeros(everything.size), 12)
    assert np.linalg.norm(best.gradient) < 1e-10
    panel, restricted = kernel_chain(rank)
    point = newton(restricted, np.zeros(restricted.size), 12)
    residuals = point.evaluation.residual.node
    parts = restricted.gap_parts(point)
    span_bound = point.value - sum(parts.values())
    np.testing.assert_allclose(span_bound, point.value, rtol=1e-12)
    inside = np.sum((panel.features.T @ residuals) ** 2)
    outside = kernel_quadratic_form(panel.kernel, panel.inputs, residuals) - inside
    free = free_bound_of(panel, residuals)
    exact_bound, free_bound = span_bound - outside, span_bound - free  # s / 2 = 1
    assert free_bound <= exact_bound <= best.value + 1e-10
    assert best.value <= point.value + 1e-10
    if rank == 2:
        assert best.value < span_bound - 0.1, "two pivots are not the whole space, and the span bound cannot see it"
    # ||grad||^2 by the dual expansion of the docstring: ||f||^2 / s^2 + 2/s <f, R> + tr R^T K R.
    subspace = panel.subspace()
    V = restricted.blocks.split(point.theta)[0]
    alpha = subspace.dual_coefficients(V)
    f = subspace.apply(panel.inputs, V)
    norm = np.vdot(alpha, panel.kernel(subspace.pivots) @ alpha)
    squared = norm / 4 + np.vdot(f, residuals) + kernel_quadratic_form(panel.kernel, panel.inputs, residuals)
    block = restricted.blocks[0].rows
    np.testing.assert_allclose(squared, np.sum(point.gradient[block] ** 2) + outside, rtol=1e-9, atol=1e-9)


def test_a_certificate_says_what_it_knows():
    certificate = Certificate("rkhs", 10.0, 9.5, exact=False, parts={"node": 0.5})
    assert certificate.gap == 0.5
    assert certificate.relative_gap == 0.05
    assert str(certificate) == (
        "within 5 % of the best field in the whole RKHS; more rank or iterations would bring at most 0.5 nats "
        "(rkhs certificate: value 10, lower bound 9.5, relative gap at most 0.05)"
    )
    span = Certificate("span", 10.0, 9.97)
    assert (
        span.sentence
        == "within 0.3 % of the best field that its basis spans; more iterations would bring at most " + ("0.03 nats")
    )
    assert "relative gap 0.003" in str(span)
    assert Certificate("span", 10.0, 10.0).sentence.startswith("within 0.001 % of")
    for unknown in (0.0, -np.inf):
        assert "is not known: the lower bound is" in Certificate("rkhs", 10.0, unknown).sentence
    assert Certificate("span", 0.0, 0.0).relative_gap == 0.0
