"""The loop around the rules: reasons to stop, interrupts, callbacks, and refusals before any work."""

import numpy as np
import pytest

from kernelfields.data import Chains
from kernelfields.objective import LogPosterior
from kernelfields.objective.bounds import relative_gap
from kernelfields.solvers import SOLVERS, minimize
from kernelfields.solvers.loop import REASONS
from tests.samples import chain_datafit, design_of


def small_posterior():
    rng = np.random.default_rng(0)
    chains = Chains(rng.normal(size=(60, 4)), np.arange(0, 61, 6), rng.integers(3, size=60))
    steps = np.flatnonzero(~chains.is_start)
    designs = [
        design_of("node", chains.inputs, positions=None, labels_per_clique=1, n_labels=3, prior_variance=1.0),
        design_of("edge", None, positions=steps, labels_per_clique=2, n_labels=3, prior_variance=1.0),
    ]
    return LogPosterior(chain_datafit(chains, designs, 3))


@pytest.mark.parametrize("max_iter", [0, 1, 3])
@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_max_iter(name, max_iter):
    solution = minimize(small_posterior(), SOLVERS[name](), tol=1e-15, max_iter=max_iter)
    assert solution.reason == "max_iter"
    assert not solution.converged
    assert solution.iterations == max_iter == len(solution.history) - 1
    assert "raise max_iter or tol" in solution.message


def test_a_callback_sees_every_iteration_and_can_stop():
    seen = []

    def stop_after_three(iteration):
        seen.append(iteration)
        return len(seen) == 3

    solution = minimize(small_posterior(), SOLVERS["lbfgs"](), tol=1e-12, watch=stop_after_three)
    assert solution.reason == "callback"
    assert solution.message == REASONS["callback"]
    assert seen == solution.history
    assert len(seen) == 3
    assert solution.value == seen[-1].value


@pytest.mark.parametrize("after", [1, 4])
def test_an_interrupt_keeps_the_best_point_so_far(after):
    seen = []

    def interrupt(iteration):
        seen.append(iteration)
        if len(seen) == after:
            raise KeyboardInterrupt

    posterior = small_posterior()
    solution = minimize(posterior, SOLVERS["lbfgs"](), tol=1e-12, watch=interrupt)
    assert solution.reason == "interrupted"
    assert not solution.converged
    assert solution.iterations == after - 1
    np.testing.assert_allclose(posterior.make_point(solution.theta).value, solution.value, rtol=1e-12)
    assert solution.value == min(each.value for each in seen)


def test_an_interrupt_before_there_is_anything_to_keep(monkeypatch):
    posterior = small_posterior()

    def interrupted(theta):
        raise KeyboardInterrupt

    monkeypatch.setattr(posterior, "make_point", interrupted)
    with pytest.raises(KeyboardInterrupt):
        minimize(posterior, SOLVERS["lbfgs"]())


def test_errors_of_a_callback_are_not_swallowed():
    def fail(iteration):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        minimize(small_posterior(), SOLVERS["lbfgs"](), watch=fail)


def test_dense_solvers_refuse_what_does_not_fit():
    posterior = small_posterior()  # 4 * 3 + 9 = 21 coefficients, blocks of 12 and 9
    with pytest.raises(MemoryError, match=r"solver='newton' would factor the Hessian of 21 coefficients, .*"):
        minimize(posterior, SOLVERS["newton"](max_bytes=16 * 20**2))
    assert minimize(posterior, SOLVERS["block-jacobi"](max_bytes=16 * 20**2), tol=1e-3).converged
    with pytest.raises(MemoryError, match=r"the block of clique set 'node' of 12 coefficients, .* use solver='"):
        minimize(posterior, SOLVERS["block-jacobi"](max_bytes=16 * 10**2))
    before = posterior.passes
    with pytest.raises(MemoryError):
        minimize(posterior, SOLVERS["newton"](max_bytes=16 * 10**2))
    assert posterior.passes == before, "refused before any work"


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_an_absurd_tolerance_ends_where_rounding_does(name):
    solution = minimize(small_posterior(), SOLVERS[name](), tol=0.0, max_iter=1000)
    assert solution.reason in ("precision", "gap")
    assert solution.iterations < 300
    assert abs(solution.relative_gap) < 1e-12


def test_the_relative_gap_survives_a_value_of_zero():
    assert relative_gap(2.0, 1.5) == 0.25
    assert relative_gap(0.0, 0.0) == 0.0


def test_an_interrupt_before_the_first_point_is_noted_has_nothing_to_return(monkeypatch):
    class Interrupted:
        def add(self, point):
            raise KeyboardInterrupt

    monkeypatch.setattr("kernelfields.solvers.loop._lower_bound", lambda posterior, tol, enough: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        minimize(small_posterior(), SOLVERS["lbfgs"]())


@pytest.mark.parametrize("name", ["newton", "newton-cg"])
def test_steps_of_newton_are_whole_where_the_objective_is_nearly_quadratic(name):
    solution = minimize(small_posterior(), SOLVERS[name](), tol=1e-10)
    assert solution.converged
    assert [iteration.step for iteration in solution.history[-2:]] == [1.0, 1.0]
