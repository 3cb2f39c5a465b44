"""Fused passes: the same value, gradient and curvature as with potentials kept for all positions."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.data import Chains, EdgeCliques, resolve_constraints
from kernelfields.inference import ChainFamily, ListFamily
from kernelfields.numerics import Workers
from kernelfields.objective import Direction, LogPosterior
from kernelfields.objective.designs.supports import observed_support
from kernelfields.objective.fused_trials import prefer_fused_passes
from kernelfields.objective.likelihoods.completion import Completion, frozen_posterior
from kernelfields.objective.likelihoods.fused import make_fused_passes
from tests.samples import chain_datafit, design_of

N_LABELS, N_FEATURES = 5, 40


def sparse_field(*, threads=1, weighted=False, masks=None, edges=True, features=None, l1=0.0, partial=None):
    """A field on random sparse rows, with observed support."""
    random = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(random.integers(1, 9, size=30))])
    n = int(offsets[-1])
    Z = sp.random_array((n, N_FEATURES), density=0.1, rng=random, format="csr") if features is None else features
    labels = random.integers(0, N_LABELS, size=n)
    chains = Chains(Z, offsets, labels, random.uniform(0.2, 3.0, size=30) if weighted else None)
    if partial is not None:
        chains = replace(chains, partial=partial(random, labels))
    shared = {"n_labels": N_LABELS, "l1": l1}
    node = design_of(
        "node",
        Z,
        positions=None,
        labels_per_clique=1,
        prior_variance=0.7,
        support=observed_support(Z, labels, N_LABELS),
        **shared,
    )
    designs = [node]
    if edges:
        steps = EdgeCliques().positions(chains)
        pairs = observed_support(None, labels[steps - 1] * N_LABELS + labels[steps], N_LABELS**2)
        designs.append(
            design_of("edge", None, positions=steps, labels_per_clique=2, prior_variance=2.0, support=pairs, **shared)
        )
    datafit = chain_datafit(chains, designs, N_LABELS, masks=masks, workers=Workers(threads))
    datafit.fused = make_fused_passes(datafit.likelihood, designs, at_once=16)
    return LogPosterior(datafit)


@pytest.mark.parametrize(("n_labels", "longest"), [(5, 3000), (50, 2**21 // 50**2), (400, 256)])
def test_tables_of_the_steps_of_a_block_are_small(n_labels, longest):
    """Far trials of a line search are inferred by tables of all steps of a block."""
    random = np.random.default_rng(0)
    offsets, labels = np.arange(0, 3001, 2), random.integers(n_labels, size=3000)
    chains = Chains(sp.csr_array(np.ones((3000, 1))), offsets, labels, None)
    node = design_of(
        "node",
        chains.inputs,
        positions=None,
        labels_per_clique=1,
        prior_variance=1.0,
        support=observed_support(chains.inputs, labels, n_labels),
        n_labels=n_labels,
    )
    passes = make_fused_passes(chain_datafit(chains, [node], n_labels, workers=Workers(2)).likelihood, [node])
    blocks = [int(end - begin) for begin, end in passes._rows]
    assert sum(blocks) == 3000
    assert 0.8 * longest <= max(blocks) <= 1.2 * longest


VARIANTS = [
    {},
    {"threads": 2},
    {"weighted": True, "threads": 3},
    {"edges": False},
    {"l1": 0.3},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_value_gradient_and_curvature_are_the_same(variant):
    plain, fused = sparse_field(**variant), sparse_field(**variant)
    prefer_fused_passes(fused)
    assert fused.trials.fused
    assert not plain.trials.fused
    theta = np.random.default_rng(0).normal(size=plain.size)
    expected, point = plain.make_point(theta), fused.make_point(theta)
    assert point.value == pytest.approx(expected.value, rel=1e-13)
    np.testing.assert_allclose(point.gradient, expected.gradient, atol=1e-11)
    fused_metric = fused.metric.estimate_curvature(fused.trials.curvature_diagonals(point))
    plain_metric = plain.metric.estimate_curvature(plain.trials.curvature_diagonals(expected))
    np.testing.assert_allclose(fused_metric, plain_metric, rtol=1e-11)
    np.testing.assert_allclose(point.potentials.node, expected.potentials.node, atol=1e-12)


def two_of_all(random, labels):
    """Evidence that leaves the label and one more, (N, L)."""
    log_weights = np.full((len(labels), N_LABELS), -np.inf)
    log_weights[np.arange(len(labels)), labels] = 0.0
    log_weights[np.arange(len(labels)), random.integers(0, N_LABELS, len(labels))] = 0.0
    return log_weights


@pytest.mark.parametrize("variant", [{}, {"weighted": True, "threads": 2}, {"edges": False}], ids=str)
def test_labels_are_completed_by_one_inference_for_all_passes(variant, monkeypatch):
    posterior = sparse_field(**variant, partial=two_of_all)
    prefer_fused_passes(posterior)
    assert posterior.trials.fused
    random, counted = np.random.default_rng(0), []
    theta, other = random.normal(size=(2, posterior.size))

    def counting(at):
        def count(family, *given, **options):
            counted.append(family.n_positions)
            return at(family, *given, **options)

        return count

    with monkeypatch.context() as patch:
        for family in (ChainFamily, ListFamily):
            patch.setattr(family, "distribution", counting(family.distribution))
        frozen = frozen_posterior(posterior, theta)
    assert sum(counted) == posterior.datafit.likelihood.family.n_positions
    plain = LogPosterior(frozen.datafit)
    assert frozen.trials.fused
    assert not plain.trials.fused
    for each in (theta, other):
        walked, kept = frozen.make_point(each), plain.make_point(each)
        assert walked.value == pytest.approx(kept.value, rel=1e-12)
        np.testing.assert_allclose(walked.gradient, kept.gradient, atol=1e-10)


@pytest.mark.parametrize("kept", [slice(0, 0), slice(0, 1), slice(1, None), slice(-1, None)], ids=str)
def test_items_without_weight_are_passed_over(kept):
    posterior = sparse_field(partial=two_of_all)
    prefer_fused_passes(posterior)
    datafit, theta = posterior.datafit, np.random.default_rng(0).normal(size=posterior.size)
    weights = np.zeros(len(datafit.likelihood.weights))
    weights[kept] = datafit.likelihood.weights[kept]
    labels = Completion(datafit)
    targets = labels.complete_statistics(posterior.potentials(theta), weights)
    few = LogPosterior(labels.fit_targets(targets, weights))
    plain_fit = labels.fit_targets(targets, weights)
    plain_fit.fused = None
    assert len(few.datafit.fused._blocks) <= max(1, np.count_nonzero(weights))
    prefer_fused_passes(few)
    for each in (np.zeros(posterior.size), theta):
        walked, expected = few.make_point(each), LogPosterior(plain_fit).make_point(each)
        assert walked.value == pytest.approx(expected.value, rel=1e-12)
        np.testing.assert_allclose(walked.gradient, expected.gradient, atol=1e-10)


def test_constraints_hold_in_every_block():
    allowed = np.random.default_rng(3)
    posterior = sparse_field()
    labels, offsets = posterior.datafit.likelihood.data.labels, posterior.datafit.likelihood.data.offsets
    steps = np.flatnonzero(~posterior.datafit.likelihood.data.is_start)
    seen = set(zip(labels[steps - 1].tolist(), labels[steps].tolist(), strict=True))
    unseen = [(a, b) for a in range(N_LABELS) for b in range(N_LABELS) if (a, b) not in seen]
    never_first = sorted(set(range(N_LABELS)) - set(labels[offsets[:-1]].tolist()))
    masks = resolve_constraints({"transitions": unseen, "start": never_first}, np.arange(N_LABELS))
    plain, fused = sparse_field(masks=masks), sparse_field(masks=masks)
    prefer_fused_passes(fused)
    theta = allowed.normal(size=plain.size)
    assert fused.make_point(theta).value == pytest.approx(plain.make_point(theta).value, rel=1e-13)
    np.testing.assert_allclose(fused.make_point(theta).gradient, plain.make_point(theta).gradient, atol=1e-11)


def test_lines_agree():
    plain, fused = sparse_field(), sparse_field()
    prefer_fused_passes(fused)
    random = np.random.default_rng(1)
    theta, direction = random.normal(size=plain.size), Direction(random.normal(size=plain.size))
    kept, walked = (field.make_line(field.make_point(theta), direction) for field in (plain, fused))
    assert walked.slope == pytest.approx(kept.slope)
    for step in (0.0, 0.3, 2.0):
        np.testing.assert_allclose(walked(step), kept(step), rtol=1e-11)
    np.testing.assert_allclose(walked.point(0.3).gradient, kept.point(0.3).gradient, atol=1e-10)
    origin = np.zeros(plain.size)
    from_zero = [field.make_line(field.make_point(origin), direction).reach for field in (plain, fused)]
    assert from_zero[1] == pytest.approx(from_zero[0])
    assert walked.reach == np.inf


def test_a_point_is_that_of_its_own_step_whichever_was_tried_last():
    fused = sparse_field()
    prefer_fused_passes(fused)
    random = np.random.default_rng(2)
    theta, direction = random.normal(size=fused.size), Direction(random.normal(size=fused.size))
    line = fused.make_line(fused.make_point(theta), direction)
    for tried, wanted in ((0.7, 0.7), (0.7, 0.2), (0.2, 0.7)):
        line(tried)
        before = fused.passes
        point = line.point(wanted)
        assert (fused.passes == before) == (tried == wanted), "the last step tried costs no pass again"
        np.testing.assert_allclose(point.theta, theta + wanted * direction.theta, rtol=1e-14)
        expected = fused.make_point(theta + wanted * direction.theta)
        assert point.value == pytest.approx(expected.value, rel=1e-13)
        np.testing.assert_allclose(point.gradient, expected.gradient, atol=1e-11)


def test_there_is_no_point_where_the_objective_is_not_finite():
    fused = sparse_field()
    prefer_fused_passes(fused)
    line = fused.make_line(fused.make_point(np.zeros(fused.size)), Direction(np.ones(fused.size)))
    line(0.5)
    assert line(np.inf) == (np.inf, np.inf)
    with pytest.raises(ValueError, match="the objective is not finite at step inf"):
        line.point(np.inf)


def test_coefficients_that_are_no_numbers_are_no_point():
    fused = sparse_field()
    prefer_fused_passes(fused)
    theta = np.zeros(fused.size)
    theta[0] = np.nan
    assert fused.trial(theta) is None
    with pytest.raises(ValueError, match="not finite"):
        fused.make_point(theta)


def test_other_fields_keep_their_potentials():
    dense = sparse_field()
    node = dense.datafit.designs[0]
    node_all = design_of(
        "node", node.features, positions=None, labels_per_clique=1, n_labels=N_LABELS, prior_variance=1.0
    )
    posterior = LogPosterior(chain_datafit(dense.datafit.likelihood.data, [node_all], N_LABELS))
    prefer_fused_passes(posterior)
    assert not posterior.trials.fused
    likelihood, (node, edge) = dense.datafit.likelihood, dense.datafit.designs
    start = design_of(
        "start", None, positions=likelihood.data.starts, labels_per_clique=1, n_labels=N_LABELS, prior_variance=1.0
    )
    assert make_fused_passes(likelihood, [node, edge]) is not None
    assert make_fused_passes(likelihood, [node, edge, start]) is None
    assert make_fused_passes(likelihood, [node, start]) is None
