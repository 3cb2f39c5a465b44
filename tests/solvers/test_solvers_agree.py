"""Five solvers, one optimum: against each other, against SciPy, and under their own certificates."""

import numpy as np
import pytest
import scipy.optimize

from kernelfields.basis import PanelCholesky, RandomCholesky
from kernelfields.data import Chains
from kernelfields.kernels import RBF
from kernelfields.numerics import Workers
from kernelfields.objective import Direction, LogPosterior
from kernelfields.solvers import SOLVERS, DirectionRule, minimize, resolve_solver
from tests.samples import chain_datafit, design_of

NAMES = sorted(SOLVERS)


def kernel_chain(dtype=np.float64, seen_edges=True):
    """Sticky labels behind noisy inputs: a kernel on the nodes, transitions, input-dependent transitions."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 15, size=24)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.repeat(rng.integers(3, size=offsets[-1] // 2 + 1), 2)[: offsets[-1]]
    inputs = np.eye(3)[labels] + 0.7 * rng.normal(size=(offsets[-1], 3))
    chains = Chains(inputs, offsets, labels)
    steps = np.flatnonzero(~chains.is_start)
    panel = PanelCholesky(RBF(gamma=0.5), inputs, 20, dtype)
    RandomCholesky().select(panel, rng)

    def clique_features(name, features, positions, labels_per_clique, prior_variance):
        return design_of(
            name,
            features,
            positions=positions,
            labels_per_clique=labels_per_clique,
            n_labels=3,
            prior_variance=prior_variance,
        )

    designs = [
        clique_features("node", panel.features, None, 1, 10.0),
        clique_features("edge", None, steps, 2, 2.0),
    ]
    if seen_edges:
        designs.append(clique_features("seen", inputs[steps].astype(dtype), steps, 2, 0.1))
    return LogPosterior(chain_datafit(chains, designs, 3, workers=Workers(1)))


@pytest.fixture(scope="module")
def optimum():
    """The minimiser to the last digits: Newton's method until the gradient is rounding."""
    posterior = kernel_chain()
    solution = minimize(posterior, resolve_solver("newton", posterior, 0.0), tol=1e-15, max_iter=50)
    point = posterior.make_point(solution.theta)
    assert np.linalg.norm(point.gradient) < 1e-9
    return point


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_solver_reaches_the_optimum(name, optimum):
    posterior = kernel_chain()
    solution = minimize(posterior, resolve_solver(name, posterior, 1e-6), tol=1e-6, max_iter=3000)
    # Features of a kernel are dense, and have no stochastic start.
    assert solution.solver == name.removeprefix("sgd+")
    assert solution.reason == "gap"
    assert solution.converged
    assert solution.relative_gap <= 1e-6
    excess = solution.value - optimum.value
    # The gap is true: the minimum lies between lower bound and value.
    assert -1e-9 <= excess <= solution.gap + 1e-9
    assert excess <= 1e-6 * optimum.value
    # The prior alone curves the objective by S^-1: coefficients are near as soon as values are.
    distance = solution.theta - optimum.theta
    assert 0.5 * distance @ (posterior.prior_precision * distance) <= excess + 1e-9
    np.testing.assert_allclose(posterior.make_point(solution.theta).value, solution.value, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_history_falls_in_value_and_rises_in_the_bound(name, optimum):
    posterior = kernel_chain()
    solution = minimize(posterior, resolve_solver(name, posterior, 1e-4), tol=1e-4, max_iter=1000)
    values, bounds, passes, seconds = (
        np.array([getattr(each, quantity) for each in solution.history])
        for quantity in ("value", "lower_bound", "passes", "seconds")
    )
    # Rounding of the value may hide an ascent of its own size, see line_search.ROUNDING.
    assert np.all(np.diff(values) <= 1e-12 * values[0])
    assert np.all(np.diff(bounds) >= 0)
    assert np.all(bounds <= optimum.value + 1e-9)
    assert np.all(np.diff(passes) >= 0)
    assert np.all(np.diff(seconds) >= 0)
    assert [each.iteration for each in solution.history] == list(range(solution.iterations + 1))
    last = solution.history[-1]
    assert (last.value, last.lower_bound) == (solution.value, solution.lower_bound)
    assert last.gap == solution.gap
    assert last.relative_gap == solution.relative_gap
    assert last.gradient_norm == solution.gradient_norm
    assert solution.passes <= posterior.passes
    np.testing.assert_allclose(values[0], posterior.datafit.likelihood.data.n_positions * np.log(3), rtol=1e-12)


def test_lbfgs_against_scipy(optimum):
    posterior = kernel_chain()

    def value_and_gradient(theta):
        point = posterior.make_point(theta)
        return point.value, point.gradient

    theirs = scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(posterior.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 40},
    )
    ours = minimize(posterior, resolve_solver("lbfgs", posterior, 1e-10), tol=1e-10, max_iter=2000)
    assert ours.converged
    np.testing.assert_allclose([ours.value, theirs.fun], optimum.value, rtol=1e-9)
    np.testing.assert_allclose(ours.theta, theirs.x, atol=1e-4 * np.abs(theirs.x).max())


@pytest.mark.parametrize("name", NAMES)
def test_a_warm_start_at_the_optimum_is_done(name, optimum):
    posterior = kernel_chain()
    rule = resolve_solver(name, posterior, 1e-8)
    solution = minimize(posterior, rule, start=optimum.theta, tol=1e-8, max_iter=5)
    assert solution.reason == "gap"
    assert solution.iterations == 0
    np.testing.assert_allclose(solution.theta, optimum.theta, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_can_be_used_again(name):
    posterior = kernel_chain(seen_edges=False)
    rule = resolve_solver(name, posterior, 1e-4)
    first, second = (minimize(posterior, rule, tol=1e-4, max_iter=1000) for _ in range(2))
    np.testing.assert_array_equal(first.theta, second.theta)


@pytest.mark.parametrize("name", ["lbfgs", "newton", "newton-cg"])
def test_single_precision_ends_gracefully_at_an_absurd_tolerance(name):
    posterior = kernel_chain(np.float32, seen_edges=False)
    solution = minimize(posterior, resolve_solver(name, posterior, 1e-16), tol=1e-16, max_iter=1000)
    # Rounding may also bring the bound up to the value itself, and the gap to nothing.
    assert solution.reason == "precision" or solution.gap <= 1e-16 * solution.value
    assert solution.iterations < 300
    if solution.reason == "precision":
        assert "dtype='float64' goes further" in solution.message
    assert solution.relative_gap < 1e-9
    exact = kernel_chain(seen_edges=False)
    best = minimize(exact, resolve_solver("newton", exact, 1e-12), tol=1e-12)
    np.testing.assert_allclose(solution.value, best.value, rtol=1e-5)


def test_names_and_rules_of_ones_own():
    posterior = kernel_chain(seen_edges=False)
    for name, kind in SOLVERS.items():
        assert type(resolve_solver(name, posterior, 1e-3)) is kind
        assert resolve_solver(name, posterior, 1e-3).name == name
    assert resolve_solver("auto", posterior, 1e-3).name in SOLVERS

    class SteepestDescent(DirectionRule):
        name = "steepest"

        def prepare(self, posterior):
            self.prepared = True

        def direction(self, point, relative_gap):
            return Direction(-point.gradient)

        def advance(self, point, direction):
            following, step = super().advance(point, direction)
            assert following is None or following.value <= point.value + 1e-9
            return following, step

    rule = SteepestDescent()
    assert resolve_solver(rule, posterior, 1e-3) is rule
    solution = minimize(posterior, rule, tol=0.05, max_iter=2000)
    assert rule.prepared
    assert solution.converged
    assert solution.solver == "steepest"
    for wrong in ("sgd", None, 3):
        with pytest.raises(ValueError, match=r"solver must be 'auto' or one of \['block-jacobi', 'lbfgs', "):
            resolve_solver(wrong, posterior, 1e-3)
