"""Strongly coupled chains: where undamped block steps diverge and the line search makes them converge.

The block of eq. 30 keeps within-clique covariances only and is too small by a factor up to about 2 T - 1.
"""

import numpy as np
import pytest

from kernelfields.data import Chains
from kernelfields.objective import LogPosterior
from kernelfields.solvers import SOLVERS, minimize
from tests.samples import chain_datafit, design_of


def sticky_chains(length):
    """Four sequences that never change their label, weak inputs, and a prior that lets transitions be strong."""
    rng = np.random.default_rng(0)
    n_positions = 4 * length
    inputs, labels = rng.normal(size=(n_positions, 2)), np.repeat([0, 1, 0, 1], length)
    chains = Chains(inputs, np.arange(0, n_positions + 1, length), labels)
    designs = [
        design_of("node", inputs, positions=None, labels_per_clique=1, n_labels=2, prior_variance=1.0),
        design_of(
            "edge",
            None,
            positions=np.flatnonzero(~chains.is_start),
            labels_per_clique=2,
            n_labels=2,
            prior_variance=100.0,
        ),
    ]
    return LogPosterior(chain_datafit(chains, designs, 2))


def undamped_block_jacobi(posterior, n_steps):
    theta, values = np.zeros(posterior.size), []
    for _ in range(n_steps):
        point = posterior.make_point(theta)
        values.append(point.value)
        step = np.empty(posterior.size)
        for index, block in enumerate(posterior.blocks):
            matrix = posterior.curvature_block(point, index)
            step[block.rows] = np.linalg.solve(matrix, point.gradient[block.rows])
        theta = theta - step
    return values


@pytest.mark.parametrize("length", range(3, 10))
def test_the_line_search_is_what_makes_block_steps_converge(length):
    values = undamped_block_jacobi(sticky_chains(length), 40)
    assert min(values[-5:]) > 10 * values[0], "without a line search the objective runs away"
    damped = minimize(sticky_chains(length), SOLVERS["block-jacobi"](), tol=1e-8, max_iter=500)
    newton = minimize(sticky_chains(length), SOLVERS["newton"](), tol=1e-8, max_iter=30)
    assert damped.reason == newton.reason == "gap"
    assert newton.iterations <= 10
    np.testing.assert_allclose(damped.value, newton.value, rtol=1e-7)
    assert damped.value < 0.3 * values[0]


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_every_solver_converges_on_the_longest(name):
    best = minimize(sticky_chains(9), SOLVERS["newton"](), tol=1e-12, max_iter=50)
    solution = minimize(sticky_chains(9), SOLVERS[name](), tol=1e-6, max_iter=500)
    assert solution.converged
    assert -1e-10 <= solution.value - best.value <= solution.gap
