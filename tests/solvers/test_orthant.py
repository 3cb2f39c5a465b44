"""OWL-QN: the optimum that SciPy finds with split variables, and the conditions that mark it."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

from kernelfields.data import Chains
from kernelfields.numerics import Workers
from kernelfields.objective import Direction, LogPosterior
from kernelfields.solvers import LBFGS, OrthantLBFGS, StochasticStart, minimize, resolve_solver
from tests.samples import chain_datafit, design_of

L = 3


def sparse_posterior(l1=(0.8, 0.8), variances=(2.0, 2.0), seed=0, n_sequences=25, n_features=10):
    """Sparse features of which some say something about the labels, and transitions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, size=n_sequences)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.repeat(rng.integers(L, size=offsets[-1]), 2)[: offsets[-1]]
    inputs = (rng.random((offsets[-1], n_features)) < 0.3) * rng.normal(size=(offsets[-1], n_features))
    inputs[np.arange(offsets[-1]), labels] += 1.0
    chains = Chains(sp.csr_array(inputs), offsets, labels, rng.uniform(0.5, 2.0, size=n_sequences))
    steps = np.flatnonzero(~chains.is_start)
    shared = {"n_labels": L}
    node = design_of(
        "node", chains.inputs, positions=None, labels_per_clique=1, prior_variance=variances[0], l1=l1[0], **shared
    )
    edge = design_of(
        "edge", None, positions=steps, labels_per_clique=2, prior_variance=variances[1], l1=l1[1], **shared
    )
    return LogPosterior(chain_datafit(chains, [node, edge], L, workers=Workers(1)))


def by_scipy(posterior):
    """theta = a - b with a, b >= 0: a smooth problem with bounds."""
    size = posterior.size

    def value_and_gradient(parts):
        theta = parts[:size] - parts[size:]
        point = posterior.make_point(theta)
        value = point.value + posterior.penalty.threshold @ (parts.reshape(2, size).sum(axis=0) - np.abs(theta))
        return value, np.concatenate(
            [point.gradient + posterior.penalty.threshold, posterior.penalty.threshold - point.gradient]
        )

    found = scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(2 * size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * size),
        options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
    )
    return posterior.make_point(found.x[:size] - found.x[size:])


PROBLEMS = {
    "elastic net": {},
    "strong": {"l1": (5.0, 5.0)},
    "nodes alone": {"l1": (0.8, 0.0)},
    "transitions alone": {"l1": (0.0, 3.0)},
    "lasso": {"variances": (np.inf, np.inf)},
    "lasso of nodes": {"variances": (np.inf, 2.0), "l1": (2.0, 0.0)},
}


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_optimum_is_scipys_and_satisfies_the_subgradient_conditions(problem):
    posterior = sparse_posterior(**PROBLEMS[problem])
    rule = resolve_solver("lbfgs", posterior, 1e-9)
    assert rule.name == "owl-qn"
    solution = minimize(posterior, rule, tol=1e-9, max_iter=2000)
    theirs = by_scipy(posterior)
    assert solution.value == pytest.approx(theirs.value, rel=1e-8)
    np.testing.assert_allclose(solution.theta, theirs.theta, atol=2e-3 * np.abs(theirs.theta).max())
    gradient, l1 = posterior.make_point(solution.theta).gradient, posterior.penalty.threshold
    at_zero = solution.theta == 0.0
    # 0 lies in grad + l1 d|theta|: within the interval at zero, on its end elsewhere.
    assert np.all(np.abs(gradient[at_zero]) <= l1[at_zero] + 2e-3)
    np.testing.assert_allclose(gradient[~at_zero], -(l1 * np.sign(solution.theta))[~at_zero], atol=5e-3)
    if problem != "transitions alone":
        assert at_zero.any(), "l1 makes weights exactly zero"


def test_a_penalty_that_outweighs_the_first_gradient_leaves_nothing():
    free = sparse_posterior(l1=(1e-3, 1e-3))
    largest = np.abs(free.make_point(np.zeros(free.size)).gradient).max()
    above = sparse_posterior(l1=(1.001 * largest,) * 2)
    solution = minimize(above, OrthantLBFGS(), tol=1e-9)
    assert not solution.theta.any()
    assert solution.converged
    assert solution.iterations == 0
    below = sparse_posterior(l1=(0.9 * largest,) * 2)
    assert minimize(below, OrthantLBFGS(), tol=1e-6).theta.any()


def test_the_steepest_direction_holds_the_steepest_slopes():
    """Along coordinate j the objective falls by |steepest_j| a step, to the better side."""
    posterior = sparse_posterior()
    rng = np.random.default_rng(1)
    theta = rng.normal(scale=0.5, size=posterior.size)
    theta[::2] = 0.0
    point = posterior.make_point(theta)
    step = 1e-6
    for j, expected in enumerate(point.steepest):
        unit = np.zeros(posterior.size)
        unit[j] = step
        slopes = [(posterior.make_point(theta + sign * unit).value - point.value) / step for sign in (1, -1)]
        # Of a convex function at most one side falls.
        numeric = min(*slopes, 0.0)
        assert -abs(expected) == pytest.approx(numeric, abs=1e-4)
        if abs(expected) > 1e-3:
            assert np.argmin(slopes) == (0 if expected < 0 else 1)


def test_values_include_the_penalty_and_never_rise():
    posterior = sparse_posterior()
    theta = np.random.default_rng(2).normal(size=posterior.size)
    likelihood = posterior.datafit.evaluate(posterior.potentials(theta)).value
    expected = likelihood + 0.25 * theta @ theta + 0.8 * np.abs(theta).sum()
    assert posterior.make_point(theta).value == pytest.approx(expected, rel=1e-12)
    solution = minimize(posterior, OrthantLBFGS(), tol=1e-7, max_iter=500)
    values = np.array([each.value for each in solution.history])
    bounds = np.array([each.lower_bound for each in solution.history])
    assert np.all(np.diff(values) < 0)
    assert np.all(np.diff(bounds) >= 0)
    assert solution.history[-1].gradient_norm == pytest.approx(
        np.linalg.norm(posterior.make_point(solution.theta).steepest), rel=1e-6
    )


def test_a_step_that_walls_turn_uphill_is_shortened():
    posterior = sparse_posterior()
    point = posterior.make_point(np.where(np.arange(posterior.size) % 2, 1e-3, 1.0))
    direction = -point.steepest
    downhill = np.flatnonzero((direction < 0.0) & (point.theta == 1e-3))[0]
    direction[:] = 0.05 * point.steepest
    direction[downhill] = -1e3 * point.steepest[downhill]
    assert direction @ point.steepest < 0.0
    cut = np.maximum(point.theta + direction, 0.0) - point.theta
    assert cut @ point.steepest > 0.0, "of the long step only what climbs is left"
    rule = OrthantLBFGS()
    rule.prepare(posterior)
    following, step = rule.advance(point, Direction(direction))
    assert following.value < point.value
    assert 0.0 < step < 1.0


def test_a_step_stays_in_its_orthant():
    posterior = sparse_posterior()
    rng = np.random.default_rng(3)
    theta = rng.normal(size=posterior.size)
    theta[::3] = 0.0
    point = posterior.make_point(theta)
    rule = OrthantLBFGS()
    rule.prepare(posterior)
    direction = rule.direction(point, 1.0).theta
    assert np.all(direction * point.steepest <= 0)
    following, step = rule.advance(point, Direction(50.0 * direction))
    assert following.value < point.value
    assert 0 < step <= 1
    sides = np.where(theta == 0.0, -np.sign(point.steepest), np.sign(theta))
    assert np.all(following.theta * sides >= 0)
    assert np.any((following.theta == 0) & (theta != 0)), "so long a step meets the walls"


def test_no_step_is_made_where_none_improves():
    posterior = sparse_posterior()
    best = by_scipy(posterior)
    assert OrthantLBFGS().advance(best, Direction(np.zeros(posterior.size))) == (None, 0.0)
    assert OrthantLBFGS().advance(best, Direction(best.steepest)) == (None, 0.0), "uphill"


def test_a_step_too_far_for_doubles_is_shortened():
    posterior = sparse_posterior(l1=(1e-6, 1e-6), variances=(1e8, 1e8))
    start = posterior.make_point(np.zeros(posterior.size))
    assert posterior.trial(-1e6 * start.gradient, near=start) is None
    rule = OrthantLBFGS()
    rule.prepare(posterior)
    following, step = rule.advance(start, Direction(-1e6 * start.gradient))
    assert following.value < start.value
    assert step < 1e-3


def test_solvers_for_smooth_objectives_are_refused():
    posterior = sparse_posterior()
    for name in ("newton", "newton-cg", "block-jacobi", "subspace"):
        with pytest.raises(ValueError, match=rf"with l1 .* only solver='lbfgs' minimizes it; got '{name}'"):
            resolve_solver(name, posterior, 1e-3)
    with pytest.raises(ValueError, match="only solver='lbfgs'"):
        resolve_solver(object(), posterior, 1e-3)
    assert resolve_solver("auto", posterior, 1e-3).name == "owl-qn"
    assert resolve_solver("sgd+lbfgs", posterior, 1e-3).name == "sgd+owl-qn"
    given = LBFGS(7, StochasticStart())
    resolved = resolve_solver(given, posterior, 1e-3)
    assert (resolved.name, resolved.memory, resolved.start) == ("sgd+owl-qn", 7, given.start)
    own = OrthantLBFGS(5)
    assert resolve_solver(own, posterior, 1e-3) is own


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_stochastic_start_ends_in_the_same_optimum(problem):
    posterior = sparse_posterior(**PROBLEMS[problem])
    rule = OrthantLBFGS(20, StochasticStart(random_state=0))
    start = rule.first_point(posterior)
    assert np.isfinite(start).all()
    assert posterior.make_point(start).value < posterior.make_point(np.zeros(posterior.size)).value or not start.any()
    solution = minimize(posterior, rule, tol=1e-6, max_iter=2000)
    assert solution.value == pytest.approx(by_scipy(posterior).value, rel=1e-6)
