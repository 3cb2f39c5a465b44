"""Stochastic ascent of the dual: its coefficients belong to its marginals, and end near the optimum."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.data import Chains, Constraints, EdgeCliques, resolve_constraints
from kernelfields.inference import EDGE, Potentials
from kernelfields.kernels import Delta
from kernelfields.kernels.labels import resolve_label_kernel
from kernelfields.numerics import Workers
from kernelfields.objective import LogPosterior
from kernelfields.objective import stochastic as module
from kernelfields.objective.designs.supports import observed_support
from kernelfields.objective.stochastic import dual_ascent
from kernelfields.solvers import StochasticStart, minimize, resolve_solver
from tests.samples import chain_datafit, design_of
from tests.solvers.test_stochastic_start import tagging_posterior

L = 3
CONTRASTS = Delta().factor(L)


def ascent_of(datafit):
    """Return the ascent of the dual of a datafit; None if it has none."""
    return dual_ascent(datafit.likelihood, datafit.designs)


def sparse_chains(seed=0, n_sequences=30, n_features=8, weighted=True):
    """Sticky labels behind sparse features: each label has two features of its own, and there is some noise."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=n_sequences)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.repeat(rng.integers(L, size=offsets[-1]), 2)[: offsets[-1]]
    inputs = (rng.random((offsets[-1], n_features)) < 0.2) * rng.normal(size=(offsets[-1], n_features))
    inputs[np.arange(offsets[-1]), labels * 2 + rng.integers(2, size=offsets[-1])] += 1.0
    weights = rng.uniform(0.2, 3.0, size=n_sequences) if weighted else None
    return Chains(sp.csr_array(inputs), offsets, labels, weights)


def node_set(chains, observed=False, label_factor=None, prior_variance=2.0, features=None, **settings):
    features = chains.inputs if features is None else features
    support = observed_support(features, chains.labels, L) if observed else None
    return design_of(
        "node",
        features,
        positions=None,
        labels_per_clique=1,
        n_labels=L,
        prior_variance=prior_variance,
        label_factor=label_factor,
        support=support,
        whitened=False,
        **settings,
    )


def edge_set(chains, observed=False, prior_variance=0.7, features=None, label_factor=None):
    steps = np.flatnonzero(~chains.is_start)
    support = observed_support(None, EdgeCliques().observed(chains, L)[1], L**2) if observed else None
    return design_of(
        "edge",
        None if features is None else features[steps],
        positions=steps,
        labels_per_clique=2,
        n_labels=L,
        prior_variance=prior_variance,
        label_factor=label_factor,
        support=support,
    )


def engine_of(chains, designs, masks=None):
    return chain_datafit(chains, designs, L, masks=masks, workers=Workers(1))


def allowed_chains(masks, seed=0):
    """Weighted chains whose labels keep to the constraints, with features as in :func:`sparse_chains`."""
    chains, rng = sparse_chains(seed), np.random.default_rng(seed)
    allowed = masks.label == 0
    labels = []
    for length in chains.lengths:
        # Drawn until one is allowed: there are few labels.
        while True:
            drawn = rng.choice(np.flatnonzero(allowed), size=length)
            if masks.start[drawn[0]] == masks.end[drawn[-1]] == 0 and not masks.edge[drawn[:-1], drawn[1:]].any():
                break
        labels.append(drawn)
    inputs = chains.inputs.toarray()
    inputs[np.arange(len(inputs)), np.concatenate(labels) * 2] += 1.0
    return Chains(sp.csr_array(inputs), chains.offsets, np.concatenate(labels), chains.weights)


FIELDS = {
    "every pair": lambda chains: [node_set(chains), edge_set(chains)],
    "observed": lambda chains: [node_set(chains, observed=True), edge_set(chains, observed=True)],
    "contrasts": lambda chains: [node_set(chains, label_factor=CONTRASTS), edge_set(chains)],
    "no transitions": lambda chains: [node_set(chains, observed=True)],
    "float32": lambda chains: [node_set(chains, features=chains.inputs.astype(np.float32)), edge_set(chains)],
}
#: Steps, first, last and all labels that are forbidden; one label may stand alone only.
CONSTRAINTS = {
    "none": Constraints(),
    "steps": Constraints([(0, 1), (1, 1), (2, 0)]),
    "ends": Constraints(start=[1], end=[2]),
    "a dead end": Constraints([(2, 0), (2, 1), (2, 2)]),
    "all of them": Constraints([(1, 1), (2, 0)], start=[2], end=[2]),
    "a label": Constraints(labels=[2]),
}
MASKS = {name: resolve_constraints(each, np.arange(L)) for name, each in CONSTRAINTS.items()}


def refused():
    chains = sparse_chains()
    node, edge = node_set(chains), edge_set(chains)
    dense = node_set(chains, features=chains.inputs.toarray())
    half = resolve_label_kernel(np.eye(L) + 0.5).factor(L) * 1.3
    # A projection onto one contrast is orthonormal as well, but gradients leave its space.
    narrow = CONTRASTS[:, :1]
    start = design_of("start", None, positions=chains.starts, labels_per_clique=1, n_labels=L, prior_variance=1.0)
    everywhere = design_of(
        "everywhere", chains.inputs, positions=None, labels_per_clique=1, n_labels=L, prior_variance=1.0
    )
    pairs = resolve_label_kernel(np.eye(L**2) + 0.2).factor(L**2)
    return {
        "dense inputs": [dense, edge],
        "edge kernel": [node, edge_set(chains, features=chains.inputs)],
        "label kernel": [node_set(chains, label_factor=half), edge],
        "label kernel of one contrast": [node_set(chains, label_factor=narrow), edge],
        "label kernel of pairs": [node, edge_set(chains, label_factor=pairs)],
        "start cliques": [node, start],
        "three sets": [node, edge, start],
        "a sum of kernels": [node, everywhere],
        "transitions first": [edge, node],
        "no features": [start, edge],
    }


@pytest.mark.slow
@pytest.mark.parametrize("field", list(FIELDS))
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
        kept[:, designs[1].term.pairs.labellings(kept.shape[1])] = dual.step_sums
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
    [*((field, "none") for field in FIELDS), *(("observed", name) for name in MASKS)],
)
def test_the_ascent_ends_near_the_optimum(monkeypatch, field, constraints):
    monkeypatch.setattr(module, "_CLOSE_IF_SMOOTH", 1e-3)
    monkeypatch.setattr(module, "_SLOW", 1.0)
    masks = MASKS[constraints]
    chains = sparse_chains() if constraints == "none" else allowed_chains(masks)
    posterior = LogPosterior(engine_of(chains, FIELDS[field](chains), masks))
    ascent = ascent_of(posterior.datafit)
    reached = posterior.make_point(posterior.blocks.flatten(ascent.run(np.random.default_rng(0)))).value
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
    reached = posterior.make_point(posterior.blocks.flatten(ascent.run(np.random.default_rng(0))))
    assert reached.value < 0.9 * posterior.datafit.likelihood.value_at_zero
    assert sum(posterior.gap_parts(reached).values()) < 1e-3 * reached.value
    assert ascent.value == pytest.approx(reached.value, rel=0.01)


@pytest.mark.parametrize("prior_variance", [1.0, 20.0])
def test_zeros_of_an_elastic_net_are_those_of_the_optimum(prior_variance):
    posterior = tagging_posterior(prior_variance, l1=0.5)
    reached = posterior.make_point(StochasticStart(random_state=0).point(posterior))
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
    monkeypatch.setattr("kernelfields.objective.compiled.ascend", undone)
    ascent = ascent_of(engine)
    assert ascent.run(np.random.default_rng(0)) is not None
    assert ascent.epochs == 2, "of the second epoch over all sequences nothing is left to gain that the first left"


@pytest.mark.parametrize(
    ("share", "l1", "close", "n_epochs"),
    [(0.9, 0.0, 0.0, 5), (0.6, 0.0, 0.0, 60), (0.9, 0.1, 1e-3, 5), (0.9, 0.1, 1e-6, 60)],
)
def test_a_slow_ascent_is_left_to_batch_steps_where_these_are_few(monkeypatch, share, l1, close, n_epochs):
    visits = []

    def slow(order, sequences, pairs, penalties, dual, priors, change):
        visits.append(len(order))
        dual.gaps[:] = share ** len(visits)
        return 1e-20, 0.5

    engine = tagging_posterior(l1=l1).datafit
    monkeypatch.setattr("kernelfields.objective.compiled.ascend", slow)
    assert ascent_of(engine).run(np.random.default_rng(0), close) is not None
    assert len(visits) == n_epochs


def test_the_start_counts_its_epochs_and_nothing_else():
    posterior = tagging_posterior()
    ascent = ascent_of(posterior.datafit)
    expected = posterior.blocks.flatten(ascent.run(np.random.default_rng(3)))
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
    half = [FIELDS["observed"](chains)[0], edge_set(chains, prior_variance=np.inf)]
    assert ascent_of(engine_of(chains, half)) is None
    monkeypatch.setattr(module, "_MOST_BYTES", 4 * chains.n_positions * L)
    assert ascent_of(engine_of(chains, FIELDS["no transitions"](chains))) is not None
    assert ascent_of(engine_of(chains, FIELDS["observed"](chains))) is None


def test_labels_of_which_nothing_is_known_leave_the_start_at_zero():
    chains = sparse_chains()
    chains = replace(chains, partial=np.zeros((chains.n_positions, L)))
    assert ascent_of(engine_of(chains, FIELDS["every pair"](chains))) is None


def test_a_weak_prior_leaves_the_start_at_zero(monkeypatch):
    monkeypatch.setattr(module, "_SHORTEST_STEP", 2.0)
    assert not StochasticStart(random_state=0).point(tagging_posterior(l1=0.1)).any()


@pytest.mark.parametrize("name", refused())
def test_fields_of_another_kind_have_no_stochastic_start(name):
    assert ascent_of(engine_of(sparse_chains(), refused()[name])) is None


@pytest.mark.parametrize("constraints", MASKS)
def test_the_value_at_zero_counts_the_labellings_that_are_allowed(constraints):
    masks = MASKS[constraints]
    chains = allowed_chains(masks)
    posterior = LogPosterior(engine_of(chains, FIELDS["observed"](chains), masks))
    assert posterior.datafit.likelihood.value_at_zero == pytest.approx(
        posterior.make_point(np.zeros(posterior.size)).value, rel=1e-12
    )


@pytest.mark.parametrize("size", [690.0, 1e4])
def test_sequences_beyond_the_range_of_doubles_are_passed_over(size):
    """exp(690) is a double still, but its products are none: no step is made, and there is no start."""
    chains = sparse_chains(weighted=False)
    ascent = ascent_of(engine_of(chains, FIELDS["every pair"](chains)))
    ascent.dual.edge[:] = size / ascent.priors.edge_variance
    assert ascent.run(np.random.default_rng(0)) is None
    assert np.isfinite(ascent.dual.node).all()
