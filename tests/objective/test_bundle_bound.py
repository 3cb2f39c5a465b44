"""Lower bounds on the minimum: below it at every step, never falling, and the best that the cuts allow."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelfields.data import Chains
from kernelfields.objective import LogPosterior, LowerBound
from kernelfields.objective.bounds import maximise_on_simplex
from tests.samples import chain_datafit, design_of


def small_posterior(seed=0, n_labels=3):
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 41, 5)
    chains = Chains(rng.normal(size=(40, 6)), offsets, rng.integers(n_labels, size=40))
    steps = np.flatnonzero(~chains.is_start)
    node = design_of("node", chains.inputs, positions=None, labels_per_clique=1, n_labels=n_labels, prior_variance=0.5)
    edge = design_of("edge", None, positions=steps, labels_per_clique=2, n_labels=n_labels, prior_variance=4.0)
    return LogPosterior(chain_datafit(chains, [node, edge], n_labels))


def optimum(posterior):
    """Newton's method spelled out, until the gradient is rounding."""
    theta = np.zeros(posterior.size)
    for _ in range(30):
        point = posterior.make_point(theta)
        hessian = np.column_stack([posterior.hessian_product(point, unit)[0] for unit in np.eye(posterior.size)])
        theta = theta - np.linalg.solve(hessian, point.gradient)
    point = posterior.make_point(theta)
    assert np.linalg.norm(point.gradient) < 1e-11
    return point


def gradient_descent(posterior, n_points, step=0.02):
    theta = np.random.default_rng(1).normal(size=posterior.size)
    for _ in range(n_points):
        point = posterior.make_point(theta)
        yield point
        theta = theta - step * point.gradient


def test_far_from_the_gap_that_is_wanted_single_cuts_do():
    posterior = small_posterior()
    wanted, eager = LowerBound(wanted=1e-6), LowerBound()
    points = list(gradient_descent(posterior, 10))
    singles = []
    for point in points:
        wanted.add(point)
        eager.add(point)
        singles.append(wanted.single)
    assert wanted.value == max(singles) <= eager.value
    best = optimum(posterior)
    sideways = 1e-3 * np.random.default_rng(3).normal(size=posterior.size)
    for sign in (1, -1):
        wanted.add(posterior.make_point(best.theta + sign * sideways))
        singles.append(wanted.single)
    gap, single_gap = best.value - wanted.value, best.value - max(singles)
    assert single_gap > 1e-6, "rounding does not decide"
    assert -1e-10 <= gap < 0.2 * single_gap, "near the end cuts are combined"


@pytest.mark.parametrize("rank", [1, 4, 12])
@pytest.mark.parametrize("seed", range(5))
def test_the_simplex_problem_against_slsqp(seed, rank):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(8, rank))
    linear, gram = rng.normal(size=8), half @ half.T
    weights, value = maximise_on_simplex(linear, gram, max_steps=2000)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(value, weights @ linear - 0.5 * weights @ gram @ weights, rtol=1e-12)
    peer = minimize(
        lambda w: 0.5 * w @ gram @ w - w @ linear,
        np.full(8, 1 / 8),
        jac=lambda w: gram @ w - linear,
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(8)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(value, -peer.fun, rtol=1e-7, atol=1e-7)
    # Fewer steps give a lower bound all the same, and earlier weights are not made worse.
    early, below = maximise_on_simplex(linear, gram, max_steps=5)
    assert below <= value + 1e-12
    assert maximise_on_simplex(linear, gram, early, max_steps=5)[1] >= below - 1e-12
    assert maximise_on_simplex(linear, gram, weights, max_steps=0)[1] >= value - 1e-12
