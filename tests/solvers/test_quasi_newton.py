"""L-BFGS as an operator: the metric of the start before any step, then the secant equation, symmetric and positive."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from kernelfields.data import Chains
from kernelfields.objective import LogPosterior
from kernelfields.objective.coordinates import Coordinates
from kernelfields.objective.posterior import Trials
from kernelfields.solvers import LBFGS
from kernelfields.solvers.lbfgs import StepPairs
from kernelfields.solvers.newton import check_memory
from tests.samples import chain_datafit, design_of


@pytest.fixture
def posterior():
    rng = np.random.default_rng(0)
    chains = Chains(rng.normal(size=(60, 4)), np.arange(0, 61, 6), rng.integers(3, size=60))
    steps = np.flatnonzero(~chains.is_start)
    designs = [
        design_of("node", chains.inputs, positions=None, labels_per_clique=1, n_labels=3, prior_variance=0.1),
        design_of("edge", None, positions=steps, labels_per_clique=2, n_labels=3, prior_variance=2.0),
    ]
    return LogPosterior(chain_datafit(chains, designs, 3))


def test_steps_satisfy_the_secant_equation(posterior):
    """H y = s for the last step s and its change of gradient y; H is symmetric and positive."""
    rule, random = LBFGS(), np.random.default_rng(1)
    rule.prepare(posterior)
    points = [posterior.make_point(theta) for theta in random.normal(size=(4, posterior.size))]
    for before, after in pairwise(points):
        rule.learn(before, after)
        y, s = after.gradient - before.gradient, after.theta - before.theta
        np.testing.assert_allclose(rule.quasi_newton(y), s, rtol=1e-9)
    matrix = np.array([rule.quasi_newton(unit) for unit in np.eye(posterior.size)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_free_coordinates_have_a_quasi_newton_matrix_of_their_own():
    """It is that of the pairs' parts alone; the other coordinates are scaled like the first matrix of the recursion."""
    random = np.random.default_rng(2)
    metric, free = random.uniform(1.0, 3.0, size=8), np.arange(8) % 3 != 1
    whole = StepPairs(3, Coordinates(metric, (), np.dtype(np.float64)))
    part = StepPairs(3, Coordinates(metric[free], (), np.dtype(np.float64)))
    for _ in range(4):
        s = random.normal(size=8)
        y = metric * s + 0.1 * random.normal(size=8)
        whole.add(s, y, s @ y)
        part.add(s[free], y[free], s[free] @ y[free])
    vector = random.normal(size=8)
    found = whole.inverse_product(vector, free)
    np.testing.assert_allclose(found[free], part.inverse_product(vector[free]), rtol=1e-12)
    gamma = s[free] @ y[free] / (y[free] @ (y[free] / metric[free]))
    np.testing.assert_allclose(found[~free], gamma * vector[~free] / metric[~free], rtol=1e-12)
    np.testing.assert_array_equal(whole.inverse_product(vector, np.ones(8, bool)), whole.inverse_product(vector))
    none = whole.inverse_product(vector, np.zeros(8, bool))
    np.testing.assert_allclose(none, vector / metric, rtol=1e-12)


@pytest.mark.parametrize(("size", "pairs"), [(10, 40), (10**6, 33), (10**8, 8)])
def test_steps_that_are_kept_take_256_mebibytes_at_most_but_eight_are_kept(size, pairs):
    """Two vectors of float32 for each step, if doubles take more: 8 million bytes for a million coefficients."""
    large = SimpleNamespace(
        trials=Trials(),
        dtype=np.dtype("float64"),
        metric=SimpleNamespace(at_start=None),
        size=size,
        datafit=SimpleNamespace(usual_pairs=40, designs=[SimpleNamespace(pair_table=None)]),
    )
    rule = LBFGS()
    rule.prepare(large)
    assert rule._limit == pairs


def test_dense_matrices_fit_to_the_byte():
    """Matrix and factor of 100 x 100 doubles."""
    check_memory("newton", "the Hessian", 100, "use another", 160_000)
    with pytest.raises(MemoryError, match="use another"):
        check_memory("newton", "the Hessian", 100, "use another", 159_999)
