"""Stochastic ascent of the dual: its coefficients belong to its marginals, and end near the optimum."""

from dataclasses import replace

import numpy as np
import pytest

from kernelfields.data.chains import Chains
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.objective import stochastic as module
from kernelfields.objective.posterior import LogPosterior
from kernelfields.objective.stochastic import dual_ascent
from kernelfields.solvers import minimize, resolve_solver
from kernelfields.solvers.lbfgs import StochasticStart
from tests.solvers.test_stochastic_descent import FIELDS, MASKS, L, allowed_chains, edge_set, engine_of, sparse_chains
from tests.solvers.test_stochastic_start import tagging_posterior


def ascent_of(engine):
    return dual_ascent(engine.stochastic_descent())


@pytest.mark.slow
@pytest.mark.parametrize("field", [field for field in FIELDS if field != "no prior"])
def test_coefficients_are_those_of_the_marginals_kept(field):
    chains = sparse_chains()
    designs = FIELDS[field](chains)
    engine = engine_of(chains, designs)
    ascent = ascent_of(engine)
    ascent.run(np.random.default_rng(0))
    dual, priors = ascent.dual, ascent.priors
    weights = chains.position_weights
    observed = np.eye(L)[chains.labels]
    node = weights[:, None] * (observed - dual.marginals)
    edge = np.zeros((1, L, L))
    if len(designs) > 1:
        kept = np.zeros((chains.n_sequences, L * L))
        support = designs[1].term.support
        kept[:, slice(None) if support is None else support.outcomes] = dual.step_sums
        steps = np.flatnonzero(~chains.is_start)
        counts = np.zeros((L, L))
        np.add.at(counts, (chains.labels[steps - 1], chains.labels[steps]), weights[steps])
        edge[0] = counts - (chains.weights @ kept).reshape(L, L)
    pulled = engine.pull_back(Potentials(node, {EDGE: edge}))
    variances = [priors.node_variance, priors.edge_variance]
    parts = ascent.coefficients()
    for part, slope, variance in zip(parts, pulled, variances, strict=False):
        np.testing.assert_allclose(part, variance * slope, atol=2e-5)


@pytest.mark.parametrize(
    ("field", "constraints"),
    [*((field, "none") for field in FIELDS if field != "no prior"), *(("observed", name) for name in MASKS)],
)
def test_the_ascent_ends_near_the_optimum(monkeypatch, field, constraints):
    monkeypatch.setattr(module, "_CLOSE_IF_SMOOTH", 1e-3)
    masks = MASKS[constraints]
    chains = sparse_chains() if constraints == "none" else allowed_chains(masks)
    posterior = LogPosterior(engine_of(chains, FIELDS[field](chains), masks))
    ascent = ascent_of(posterior.datafit)
    reached = posterior.at(posterior.flatten(ascent.run(np.random.default_rng(0)))).value
    best = minimize(posterior, resolve_solver("lbfgs", posterior, 1e-6), tol=1e-6, max_iter=500).value
    assert best <= reached * (1 + 1e-6)
    assert reached <= 1.01 * best
    assert ascent.value == pytest.approx(reached, rel=0.05)
    assert 3 <= ascent.epochs <= 60


@pytest.mark.parametrize(
    ("field", "constraints"), [("every pair", "none"), ("contrasts", "none"), ("observed", "steps")]
)
def test_of_partial_labels_the_gradient_vanishes_where_the_ascent_ends(monkeypatch, field, constraints):
    monkeypatch.setattr(module, "_CLOSE_IF_PARTIAL", 1e-6)
    masks = MASKS[constraints]
    chains = sparse_chains() if constraints == "none" else allowed_chains(masks)
    random = np.random.default_rng(1)
    log_weights = np.log(random.uniform(0.2, 1.0, size=(chains.n_positions, L)))
    known = random.random(chains.n_positions) < 0.4
    log_weights[known] = np.where(np.eye(L)[chains.labels[known]] > 0, 0.0, -np.inf)
    chains = replace(chains, partial=log_weights)
    posterior = LogPosterior(engine_of(chains, FIELDS[field](chains), masks))
    ascent = ascent_of(posterior.datafit)
    reached = posterior.at(posterior.flatten(ascent.run(np.random.default_rng(0))))
    assert reached.value < 0.9 * posterior.value_at_zero
    assert sum(posterior.gap_parts(reached).values()) < 1e-3 * reached.value
    assert ascent.value == pytest.approx(reached.value, rel=0.01)


@pytest.mark.parametrize("prior_variance", [1.0, 20.0])
def test_zeros_of_an_elastic_net_are_those_of_the_optimum(prior_variance):
    posterior = tagging_posterior(prior_variance, l1=0.5)
    start = StochasticStart(random_state=0)
    reached = posterior.at(start.point(posterior))
    assert start.knows_l1
    best = minimize(posterior, resolve_solver("lbfgs", posterior, 1e-8), tol=1e-8, max_iter=2000)
    assert reached.value <= 1.01 * best.value
    zeros = best.theta == 0.0
    assert 5 < zeros.sum() < len(zeros) - 5
    assert np.mean((reached.theta == 0.0) == zeros) > 0.9


def test_an_ascent_that_gains_no_more_far_from_its_end_is_left(monkeypatch):
    def undone(order, sequences, pairs, penalties, dual, priors, change):
        dual.gaps[:] = 1.0
        return 100.0, 0.5

    engine = tagging_posterior().datafit
    monkeypatch.setattr("kernelfields.objective.stochastic_compiled.ascend", undone)
    ascent = ascent_of(engine)
    assert ascent.run(np.random.default_rng(0)) is not None
    assert ascent.epochs == 2, "of the second epoch over all sequences nothing is left to gain that the first left"


def test_the_start_counts_its_epochs_and_nothing_else():
    posterior = tagging_posterior()
    ascent = ascent_of(posterior.datafit)
    expected = posterior.flatten(ascent.run(np.random.default_rng(3)))
    before = posterior.passes
    np.testing.assert_array_equal(StochasticStart(random_state=3).point(posterior), expected)
    assert posterior.passes - before == pytest.approx(ascent.epochs)


def test_a_sequence_of_weight_zero_is_not_there():
    chains = sparse_chains()
    weights = np.array(chains.weights)
    weights[5] = 0.0
    labels = np.array(chains.labels)
    labels[chains.offsets[5] : chains.offsets[6]] = 0
    runs = [
        ascent_of(engine_of(silent, FIELDS["every pair"](chains))).run(np.random.default_rng(0))
        for silent in (Chains(chains.inputs, chains.offsets, each, weights) for each in (chains.labels, labels))
    ]
    for one, two in zip(*runs, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)


def test_without_a_prior_or_room_there_is_no_ascent(monkeypatch):
    chains = sparse_chains()
    assert ascent_of(engine_of(chains, FIELDS["no prior"](chains))) is None
    half = [FIELDS["observed"](chains)[0], edge_set(chains, prior_variance=np.inf)]
    assert ascent_of(engine_of(chains, half)) is None
    monkeypatch.setattr(module, "_MOST_BYTES", 4 * chains.n_positions * L)
    assert ascent_of(engine_of(chains, FIELDS["no transitions"](chains))) is not None
    assert ascent_of(engine_of(chains, FIELDS["observed"](chains))) is None


def test_a_weak_prior_leaves_the_start_to_gradient_steps(monkeypatch):
    monkeypatch.setattr(module, "_SHORTEST_STEP", 2.0)
    posterior = tagging_posterior(l1=0.1)
    start = StochasticStart(random_state=0)
    reached = start.point(posterior)
    assert not start.knows_l1
    assert posterior.at(reached).value < 0.8 * posterior.value_at_zero


def test_without_l1_the_ascent_ends_early_and_batch_steps_go_on(monkeypatch):
    early = tagging_posterior(prior_variance=1.0)
    ascent = ascent_of(early.datafit)
    ascent.run(np.random.default_rng(0))
    monkeypatch.setattr(module, "_CLOSE_IF_SMOOTH", 1e-3)
    late = ascent_of(tagging_posterior(prior_variance=1.0).datafit)
    late.run(np.random.default_rng(0))
    assert ascent.epochs < late.epochs
