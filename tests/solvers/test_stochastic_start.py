"""Starting L-BFGS from stochastic steps: the same optimum, and a metric that never divides by zero."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.data import Chains, resolve_constraints
from kernelfields.numerics import Workers
from kernelfields.objective import LogPosterior
from kernelfields.objective.designs.supports import observed_support
from kernelfields.objective.stochastic import dual_ascent
from kernelfields.solvers import LBFGS, NewtonCG, OrthantLBFGS, StochasticStart, minimize, resolve_solver
from kernelfields.solvers.choice import choose, sparse_values
from tests.samples import chain_datafit, design_of

L = 4


def tagging_posterior(
    prior_variance=1.0,
    observed=True,
    sparse=True,
    seed=0,
    lengths=None,
    weights=None,
    stored_zeros=False,
    l1=0.0,
    constrained=False,
):
    """Words as indicators, labels that words and their neighbours tell: a small tagging problem."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=40) if lengths is None else np.asarray(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.repeat(rng.integers(L, size=offsets[-1]), 2)[: offsets[-1]]
    words = 3 * labels + rng.integers(3, size=offsets[-1])
    words[rng.random(offsets[-1]) < 0.2] = 12
    columns = np.column_stack([words, 13 + rng.integers(10, size=offsets[-1])])
    values = np.ones(columns.size)
    if stored_zeros:
        values[1::2] = 0.0
    indptr = np.arange(0, columns.size + 1, 2)
    inputs = sp.csr_array((values, columns.ravel().astype(np.int32), indptr), shape=(offsets[-1], 23))
    inputs.sort_indices()
    chains = Chains(inputs if sparse else inputs.toarray(), offsets, labels, weights)
    steps = np.flatnonzero(~chains.is_start)
    pairs = labels[steps - 1] * L + labels[steps]
    shared = {"n_labels": L, "prior_variance": prior_variance, "l1": l1}
    designs = [
        design_of(
            "node",
            chains.inputs,
            positions=None,
            labels_per_clique=1,
            support=observed_support(inputs, labels, L) if observed else None,
            whitened=False,
            **shared,
        ),
        design_of(
            "edge",
            None,
            positions=steps,
            labels_per_clique=2,
            support=observed_support(None, pairs, L**2) if observed else None,
            **shared,
        ),
    ]
    # What never occurs is forbidden, labels that come first and last included.
    masks = resolve_constraints(None, np.arange(L)) if constrained else None
    if masks is not None:
        masks.edge[...] = np.where(np.bincount(pairs, minlength=L**2).reshape(L, L) > 3, 0.0, -np.inf)
        masks.edge[labels[steps - 1], labels[steps]] = 0.0
        masks.start[np.setdiff1d(np.arange(L), labels[chains.starts])] = -np.inf
        masks.end[np.setdiff1d(np.arange(L), labels[chains.ends])] = -np.inf
    return LogPosterior(chain_datafit(chains, designs, L, masks=masks, workers=Workers(1)))


@pytest.mark.slow
@pytest.mark.parametrize("observed", [True, False])
def test_the_start_is_far_below_zero_and_the_end_is_the_same(observed):
    posterior = tagging_posterior(observed=observed)
    zero = posterior.make_point(np.zeros(posterior.size)).value
    start = StochasticStart(random_state=0).point(posterior)
    assert posterior.make_point(start).value < 0.7 * zero
    plain, ours = (
        minimize(posterior, resolve_solver(name, posterior, 1e-9, np.random.default_rng(0)), tol=1e-9, max_iter=500)
        for name in ("lbfgs", "sgd+lbfgs")
    )
    assert (plain.solver, ours.solver) == ("lbfgs", "sgd+lbfgs")
    assert plain.converged
    assert ours.converged
    assert ours.value == pytest.approx(plain.value, rel=2e-9)
    np.testing.assert_allclose(ours.theta, plain.theta, atol=2e-4)
    assert ours.history[0].value < plain.history[0].value


def test_a_seed_decides_the_start():
    posterior = tagging_posterior()
    starts = [StochasticStart(random_state=seed).point(posterior) for seed in (5, 5, 6)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert np.abs(starts[0] - starts[2]).max() > 1e-6
    drawn = StochasticStart(random_state=np.random.default_rng(5)).point(posterior)
    np.testing.assert_array_equal(drawn, starts[0])


def test_fields_without_a_stochastic_start_begin_at_zero():
    posterior = tagging_posterior(observed=False, sparse=False)
    assert dual_ascent(posterior.datafit.likelihood, posterior.datafit.designs) is None
    assert not StochasticStart().point(posterior).any()
    solution = minimize(posterior, resolve_solver("sgd+lbfgs", posterior, 1e-6), tol=1e-6)
    assert solution.converged
    assert solution.history[0].coefficient_norm == 0.0
    assert solution.solver == "lbfgs"


@pytest.mark.parametrize("l1", [0.0, 0.05])
def test_constraints_keep_the_stochastic_start(l1):
    posterior = tagging_posterior(l1=l1, lengths=[2] * 15, constrained=True)
    assert posterior.datafit.likelihood.is_constrained
    plain, ours = (
        minimize(posterior, resolve_solver(name, posterior, 1e-7, np.random.default_rng(0)), tol=1e-7, max_iter=500)
        for name in ("lbfgs", "sgd+lbfgs")
    )
    name = "owl-qn" if l1 else "lbfgs"
    assert (plain.solver, ours.solver) == (name, f"sgd+{name}")
    assert ours.history[0].value < 0.8 * plain.history[0].value
    assert ours.value == pytest.approx(plain.value, rel=1e-6)


@pytest.mark.parametrize("l1", [0.0, 0.1])
def test_the_name_of_the_solver_tells_whether_a_stochastic_start_was_made(l1):
    plain = "owl-qn" if l1 else "lbfgs"
    posterior = tagging_posterior(l1=l1)
    rule = resolve_solver("sgd+lbfgs", posterior, 1e-3, np.random.default_rng(0))
    assert minimize(posterior, rule).solver == f"sgd+{plain}"
    # The same rule, where the caller says where to begin.
    assert minimize(posterior, rule, start=np.full(posterior.size, 0.01)).solver == plain


def test_many_sparse_values_ask_for_a_stochastic_start():
    posterior = tagging_posterior(prior_variance=1.0)
    assert choose(posterior, small=10) == "lbfgs"
    assert sparse_values(posterior) == posterior.datafit.designs[0].stored_values > 10
    assert choose(posterior, small=10, many_values=10) == "sgd+lbfgs"
    dense = tagging_posterior(observed=False, sparse=False)
    assert sparse_values(dense) == 0
    assert choose(dense, small=10, many_values=10) == "lbfgs", "raw dense inputs in the coordinates of a metric"
    dense.metric.__dict__["dense_sets"] = []
    assert choose(dense, small=10, many_values=10) == "newton-cg", "raw dense inputs"
    assert choose(posterior, small=10_000, many_values=10) == "newton-cg"
    without_prior = tagging_posterior(prior_variance=np.inf)
    assert choose(without_prior, small=10_000, many_values=10) == "sgd+lbfgs", "no prior, no Newton"


@pytest.mark.parametrize("stored_zeros", [False, True])
@pytest.mark.parametrize("prior_variance", [1.0, 1e8, np.inf])
@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_the_metric_is_positive_wherever_the_fit_may_stand(prior_variance, stored_zeros, scale):
    # Features stored as zero have no curvature, nor have labels that are certain: only a prior would give some.
    posterior = tagging_posterior(prior_variance, stored_zeros=stored_zeros)
    theta = scale * np.random.default_rng(0).normal(size=posterior.size)
    diagonals = posterior.trials.curvature_diagonals(posterior.make_point(theta))
    for metric in (posterior.metric.at_start, posterior.metric.estimate_curvature(diagonals)):
        assert np.all(metric > 0)
        assert np.isfinite(metric).all()


def test_the_metric_lies_between_the_curvature_and_its_mean():
    posterior = tagging_posterior(0.5)
    point = posterior.make_point(0.3 * np.random.default_rng(1).normal(size=posterior.size))
    diagonal = np.diag(posterior.curvature_block(point, 0))
    rows = posterior.blocks[0].rows
    expected = np.sqrt(diagonal * diagonal.mean())
    metric = posterior.metric.estimate_curvature(posterior.trials.curvature_diagonals(point))
    np.testing.assert_allclose(metric[rows], expected, rtol=1e-10)
    other = posterior.blocks[1].rows
    np.testing.assert_array_equal(metric[other], posterior.metric.at_start[other])


@pytest.mark.slow
@pytest.mark.parametrize("l1", [0.0, 0.1])
@pytest.mark.parametrize("name", ["lbfgs", "sgd+lbfgs"])
@pytest.mark.parametrize("observed", [True, False])
def test_without_a_prior_nothing_becomes_nan(name, l1, observed):
    # Chains of length one leave transitions without a clique; zeros leave features without curvature.
    for lengths, stored_zeros in (([1] * 30, False), (None, observed)):
        posterior = tagging_posterior(np.inf, observed=observed, lengths=lengths, stored_zeros=stored_zeros, l1=l1)
        rule = resolve_solver(name, posterior, 1e-3, np.random.default_rng(0))
        solution = minimize(posterior, rule, tol=1e-3, max_iter=200)
        assert np.isfinite(solution.theta).all()
        assert np.isfinite(solution.value)
        assert 0.0 <= solution.lower_bound <= solution.value + 1e-9
        assert solution.value < posterior.make_point(np.zeros(posterior.size)).value


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "block-jacobi", "subspace", NewtonCG()])
def test_solvers_that_need_a_prior_say_so(solver):
    with pytest.raises(ValueError, match=r"needs a Gaussian prior .* infinite: use solver='lbfgs'"):
        resolve_solver(solver, tagging_posterior(np.inf), 1e-3)
    assert resolve_solver(solver, tagging_posterior(1.0), 1e-3) is not None


@pytest.mark.parametrize("kind", [LBFGS, OrthantLBFGS])
def test_the_first_step_from_a_stochastic_start_moves_potentials_by_a_nat_at_most(kind):
    posterior = tagging_posterior(20.0, l1=0.5 if kind is OrthantLBFGS else 0.0)
    rule = kind(start=StochasticStart(random_state=0))
    rule.prepare(posterior)
    assert posterior.trials.fused
    start = posterior.make_point(rule.first_point(posterior))
    direction = rule.direction(start, 1.0).theta
    guess = -start.steepest / posterior.metric.estimate_curvature(posterior.trials.curvature_diagonals(start))
    assert direction @ start.steepest < 0
    furthest = posterior.trials.largest_potential(posterior, guess)
    np.testing.assert_allclose(direction, guess / max(1.0, furthest), rtol=1e-9)
    # One that is long enough to be cut.
    start.gradient *= 100.0
    start.__dict__.pop("steepest", None)
    again = rule.direction(start, 1.0).theta
    np.testing.assert_allclose(posterior.trials.largest_potential(posterior, again), 1.0, rtol=1e-9)
