"""Stochastic steps against gradients of the likelihood, and the fields they do not fit."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.data import Constraints, EdgeCliques
from kernelfields.data.chains import Chains
from kernelfields.data.constraints import resolve_constraints
from kernelfields.kernels import Delta
from kernelfields.kernels.labels import resolve_label_kernel
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.pairs import observed_support
from kernelfields.objective.posterior import LogPosterior
from tests.samples import chain_datafit, design_of

L = 3
CONTRASTS = Delta().factor(L)


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
    "no prior": lambda chains: [node_set(chains, prior_variance=np.inf), edge_set(chains, prior_variance=np.inf)],
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "constraints"),
    [*((field, "none") for field in FIELDS), *(("observed", name) for name in MASKS if name != "none")],
)
def test_a_step_is_one_along_the_gradient_of_its_sequence(field, constraints):
    """w <- (1 - speed / (s n)) w - speed * weight * gradient, spelled out with the gradient of an engine."""
    masks = MASKS[constraints]
    chains = sparse_chains() if constraints == "none" else allowed_chains(masks)
    designs = FIELDS[field](chains)
    descent = engine_of(chains, designs, masks).stochastic_descent()
    rate, order = 0.05, np.array([4, 17, 4, 9])
    cooling = max(rate / (designs[0].term.prior_variance * chains.n_sequences), 0.1 / chains.n_sequences)
    state = descent._fresh()
    expected = [np.zeros(each.shape) for each in designs]
    for step, sequence in enumerate(order):
        only = np.where(np.arange(chains.n_sequences) == sequence, chains.weights, 0.0)
        there = engine_of(Chains(chains.inputs, chains.offsets, chains.labels, only), designs, masks)
        gradients = there.pull_back(there.evaluate(there.potentials(expected)).residual)
        speed = rate / (1.0 + cooling * step)
        expected = [
            (1.0 - speed / (each.term.prior_variance * chains.n_sequences)) * part - speed * gradient
            for each, part, gradient in zip(designs, expected, gradients, strict=True)
        ]
        descent._epoch(state, order[step : step + 1], rate)
        for part, wanted in zip(descent._coefficients(state), expected, strict=True):
            np.testing.assert_allclose(part, wanted, rtol=1e-6 if field == "float32" else 1e-9, atol=1e-12)
    assert state.n_steps == len(order)


@pytest.mark.parametrize(
    ("field", "constraints"),
    [
        *((field, "none") for field in FIELDS),
        *((field, name) for name in MASKS for field in ("every pair", "contrasts")),
    ],
)
def test_the_loss_is_the_value_of_the_likelihood(field, constraints):
    masks = MASKS[constraints]
    chains = sparse_chains() if constraints == "none" else allowed_chains(masks)
    engine = engine_of(chains, FIELDS[field](chains), masks)
    descent = engine.stochastic_descent()
    every = np.arange(chains.n_sequences)
    state = descent._fresh()
    for _ in range(3):
        descent._epoch(state, every, 0.1)
        before = state.node.copy(), state.edge.copy(), state.scale, state.n_steps
        loss = descent._epoch(state, every, 0.1, moving=False)
        value = engine.evaluate(engine.potentials(descent._coefficients(state))).value
        np.testing.assert_allclose(loss, value, rtol=1e-9)
        for was, now in zip(before, (state.node, state.edge, state.scale, state.n_steps), strict=True):
            np.testing.assert_array_equal(was, now)


def test_contrasts_come_back_exactly():
    """The potentials of V are those of the pair weights W it was made from, whose rows sum to zero."""
    chains = sparse_chains()
    engine = engine_of(chains, FIELDS["contrasts"](chains))
    descent = engine.stochastic_descent()
    state = descent._fresh()
    descent._epoch(state, np.random.default_rng(0).permutation(chains.n_sequences), 0.2)
    pairs = (state.scale * state.node).reshape(-1, L)
    assert np.abs(pairs).max() > 0.1
    np.testing.assert_allclose(pairs.sum(axis=1), 0.0, atol=1e-13)
    potentials = engine.potentials(descent._coefficients(state))
    np.testing.assert_allclose(potentials.node, chains.inputs @ pairs, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(potentials.edge[0], state.edge.reshape(L, L), rtol=1e-14)


@pytest.mark.parametrize("field", FIELDS)
def test_a_few_epochs_do_the_work_of_several_gradient_steps(field):
    chains = sparse_chains(weighted=False)
    posterior = LogPosterior(engine_of(chains, FIELDS[field](chains)))
    descent = posterior.datafit.stochastic_descent()
    start = posterior.at(np.zeros(posterior.size))
    reached = posterior.at(posterior.flatten(descent.run(4, np.random.default_rng(0))))
    assert reached.value < 0.7 * start.value
    line = np.linspace(0.0, 1.0, 200) / np.sqrt(start.gradient @ start.gradient)
    along = min(posterior.at(-step * start.gradient).value for step in 20 * line)
    assert reached.value < along, "one steepest step, however long"


def test_the_same_seed_gives_the_same_start_and_another_another():
    chains = sparse_chains()
    runs = [
        engine_of(chains, FIELDS["observed"](chains)).stochastic_descent().run(3, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    ]
    for one, two, three in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, two)
        assert np.abs(one - three).max() > 1e-6


def test_a_sequence_of_weight_zero_is_not_there_but_for_the_decay():
    chains = sparse_chains(weighted=False)
    weights = np.ones(chains.n_sequences)
    weights[5] = 0.0
    silent = Chains(chains.inputs, chains.offsets, chains.labels, weights)
    descent = engine_of(silent, FIELDS["no prior"](silent)).stochastic_descent()
    state = descent._fresh()
    descent._epoch(state, np.array([5]), 0.3)
    assert not state.node.any()
    assert not state.edge.any()


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


@pytest.mark.parametrize("name", refused())
def test_fields_of_another_kind_have_no_stochastic_start(name):
    assert engine_of(sparse_chains(), refused()[name]).stochastic_descent() is None


@pytest.mark.parametrize("constraints", MASKS)
def test_the_value_at_zero_counts_the_labellings_that_are_allowed(constraints):
    masks = MASKS[constraints]
    chains = allowed_chains(masks)
    posterior = LogPosterior(engine_of(chains, FIELDS["observed"](chains), masks))
    assert posterior.value_at_zero == pytest.approx(posterior.at(np.zeros(posterior.size)).value, rel=1e-12)
    start = posterior.flatten(posterior.datafit.stochastic_descent().run(4, np.random.default_rng(0)))
    assert posterior.at(start).value < 0.8 * posterior.value_at_zero


def test_labels_that_cannot_be_there_do_not_drown_the_others():
    """A forbidden label may have a score beyond doubles: what is allowed beside it keeps its probabilities."""
    masks = MASKS["all of them"]
    chains = allowed_chains(masks)
    engine = engine_of(chains, FIELDS["every pair"](chains), masks)
    descent = engine.stochastic_descent()
    state = descent._fresh()
    state.node[2::L] = 500.0
    loss = descent._epoch(state, np.arange(chains.n_sequences), 0.1, moving=False)
    assert loss == pytest.approx(engine.evaluate(engine.potentials(descent._coefficients(state))).value, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e2])
@pytest.mark.parametrize("weight", [1e-2, 1.0, 1e4])
def test_the_rate_suits_features_and_weights_of_any_size(scale, weight):
    chains = sparse_chains(weighted=False)
    chains = Chains(scale * chains.inputs, chains.offsets, chains.labels, np.full(chains.n_sequences, float(weight)))
    designs = [node_set(chains, prior_variance=1.0 / scale**2), edge_set(chains)]
    posterior = LogPosterior(engine_of(chains, designs))
    coefficients = posterior.flatten(posterior.datafit.stochastic_descent().run(4, np.random.default_rng(0)))
    assert np.isfinite(coefficients).all()
    assert posterior.at(coefficients).value < posterior.at(np.zeros(posterior.size)).value


def test_a_loss_that_doubles_cannot_hold_is_infinite_not_left_out():
    chains = sparse_chains(weighted=False)
    descent = engine_of(chains, FIELDS["observed"](chains)).stochastic_descent()
    state = descent._fresh()
    state.edge[:] = -1e4
    every = np.arange(chains.n_sequences)
    assert descent._epoch(state, every, 0.1, moving=False) == np.inf
    descent._epoch(state, every, 0.1)
    assert np.isfinite(state.node).all(), "such sequences are passed over"


@pytest.mark.parametrize("size", [690.0, -690.0, 1e4], ids=str)
def test_sequences_beyond_the_range_of_doubles_are_passed_over(size):
    """exp(690) is a double still, but its products are none: no step is made, and the loss is infinite."""
    chains = sparse_chains(weighted=False)
    descent = engine_of(chains, FIELDS["observed"](chains)).stochastic_descent()
    state = descent._fresh()
    state.edge[:] = size
    longer = np.flatnonzero(np.diff(chains.offsets) > 1)
    assert descent._epoch(state, longer, 0.1) == np.inf
    assert state.n_steps == 0
    assert not state.node.any()
    np.testing.assert_array_equal(state.edge, size)


@pytest.mark.parametrize("size", [600.0, -600.0])
def test_what_doubles_still_hold_is_exact(size):
    """The same number on every transition changes no distribution: the loss and the steps are those of zero."""
    chains = sparse_chains(weighted=False)
    descent = engine_of(chains, FIELDS["every pair"](chains)).stochastic_descent()
    every = np.arange(chains.n_sequences)
    plain, shifted = descent._fresh(), descent._fresh()
    shifted.edge[:] = size
    np.testing.assert_allclose(
        descent._epoch(shifted, every, 0.1, moving=False), descent._epoch(plain, every, 0.1, moving=False), rtol=1e-9
    )
    descent._epoch(plain, every[:1], 0.1)
    descent._epoch(shifted, every[:1], 0.1)
    np.testing.assert_allclose(shifted.node, plain.node, rtol=1e-9, atol=1e-12)
