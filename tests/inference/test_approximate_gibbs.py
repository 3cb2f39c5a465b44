"""Gibbs sampling within its own standard errors, its diagnostics, hard constraints, samples."""

import numpy as np
import pytest

from kernelfields.inference.approximate.base import Gibbs
from kernelfields.inference.choice import plan_inference
from tests.arrays import decode_graphs, infer_graphs, sample_graphs
from tests.oracles.graphs import GraphEnumeration


def triangle_and_pair(rng, spread=1.0):
    offsets, members = np.array([0, 4, 6]), [np.array([[0, 1], [1, 2], [2, 0], [5, 4]]), np.array([[3, 1, 2]])]
    node, factors = rng.normal(size=(6, 3)), [spread * rng.normal(size=(4, 3, 3)), rng.normal(size=(1, 3, 3, 3))]
    return offsets, members, 3, node, factors


def test_marginals_are_within_their_standard_errors():
    rng = np.random.default_rng(0)
    scores = []
    for seed in range(8):
        *graphs, node, factors = triangle_and_pair(rng)
        exact = GraphEnumeration(*graphs).infer(node, factors)
        beliefs = infer_graphs(plan_inference(*graphs, Gibbs(sweeps=2000, random_state=seed)), node, factors)
        errors = beliefs.diagnostics["standard_errors"]
        assert beliefs.diagnostics["converged"].all()
        assert np.all(errors > 0)
        assert errors.max() < 0.02
        scores.append((beliefs.node_marginals - exact.node_marginals) / errors)
        for group in range(2):
            assert np.abs(beliefs.factor_marginals(group) - exact.factor_marginals(group)).max() < 0.03
    # Not further off than several errors, and the errors are about as large as the differences.
    assert np.abs(scores).max() < 5
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.6


def test_there_is_no_log_partition_function():
    *graphs, node, factors = triangle_and_pair(np.random.default_rng(1))
    beliefs = infer_graphs(plan_inference(*graphs, "gibbs"), node, factors)
    assert np.isnan(beliefs.log_partition).all()
    assert (beliefs.family.bound, beliefs.family.exact, beliefs.family.method) == (None, False, "gibbs")


def test_the_effective_size_sees_slow_chains():
    """Two labels that attract each other more and more: fewer independent draws, larger errors."""
    offsets, members, node = [0, 2], [np.array([[0, 1]])], np.zeros((2, 2))
    sizes = []
    for coupling in (0.0, 1.0, 3.0):
        beliefs = infer_graphs(
            plan_inference(offsets, members, 2, Gibbs(sweeps=2000)), node, [coupling * np.eye(2)[None]]
        )
        sizes.append(beliefs.diagnostics["effective_size"].min())
    assert sizes[0] == 8000  # the conditional distribution never changes
    assert sizes[0] > sizes[1] > sizes[2]


def test_chains_that_do_not_mix_say_so():
    """Four nodes that must agree: single changes are forbidden, so chains stay where they start."""
    offsets, members = np.array([0, 4]), [np.array([[0, 1], [1, 2], [2, 3]])]
    table = np.where(np.eye(2), 0.0, -np.inf)[None]
    diagnostics = infer_graphs(
        plan_inference(offsets, members, 2, Gibbs(chains=8)), np.zeros((4, 2)), [table]
    ).diagnostics
    assert not diagnostics["converged"][0]
    assert np.isinf(diagnostics["r_hat"]).all()
    assert "the chains have not mixed on 1 of 1 graphs" in diagnostics["warnings"][0]


def test_seeds_decide():
    *graphs, node, factors = triangle_and_pair(np.random.default_rng(2))
    first, again, other = (
        infer_graphs(plan_inference(*graphs, Gibbs(sweeps=50, random_state=seed)), node, factors).node_marginals
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4


@pytest.mark.parametrize("method", ["gibbs", "trw", "loopy", "mean-field"])
def test_samples_follow_the_distribution(method):
    rng = np.random.default_rng(5)
    offsets, members, node = [0, 3, 5], [np.array([[0, 1], [1, 2], [2, 0], [3, 4]])], rng.normal(size=(5, 2))
    factors = [rng.normal(size=(1, 2, 2))]
    plan = plan_inference(offsets, members, 2, method)
    drawn = sample_graphs(plan, node, factors, 4000, 0)
    assert drawn.shape == (4000, 5)
    exact = GraphEnumeration(offsets, members, 2).infer(node, factors)
    np.testing.assert_allclose((drawn[..., None] == np.arange(2)).mean(axis=0), exact.node_marginals, atol=0.04)
    np.testing.assert_array_equal(drawn, sample_graphs(plan, node, factors, 4000, 0))
    assert sample_graphs(plan, node, factors, 0).shape == (0, 5)
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        sample_graphs(plan, node, factors, 1.5)


@pytest.mark.parametrize("method", ["gibbs", "mean-field", "trw"])
def test_colourings_are_found_and_kept(method):
    """Neighbours of a ring of nine must differ, three colours: no step of marginals or samples breaks the rule."""
    ring = np.stack([np.arange(9), np.roll(np.arange(9), -1)], axis=1)
    table = np.where(np.eye(3), -np.inf, 0.0)[None]
    node = np.tile([2.0, 0.0, 0.0], (9, 1))
    plan = plan_inference([0, 9], [ring], 3, method)
    labels, scores = decode_graphs(plan, node, [table])
    assert np.all(labels != np.roll(labels, 1))
    assert scores[0] == pytest.approx(2.0 * np.sum(labels == 0))
    drawn = sample_graphs(plan, node, [table], 50, 1)
    assert np.all(drawn != np.roll(drawn, 1, axis=1))
    assert np.all(infer_graphs(plan, node, [table]).factor_marginals(0)[:, np.eye(3, dtype=bool)] == 0)


def test_a_graph_without_allowed_labelling_is_named():
    """A triangle cannot have two colours; the pair before it can."""
    table = np.where(np.eye(2), -np.inf, 0.0)[None]
    members = [np.array([[0, 1], [2, 3], [3, 4], [4, 2]])]
    for method in ("gibbs", "mean-field"):
        with pytest.raises(ValueError, match=rf"graph 1: no allowed labelling was found, so '{method}'"):
            infer_graphs(plan_inference([0, 2, 5], members, 2, method), np.zeros((5, 2)), [table])


def test_a_decoded_score_of_minus_infinity_says_that_nothing_allowed_was_found():
    table = np.where(np.eye(2), -np.inf, 0.0)[None]
    plan = plan_inference([0, 3], [np.array([[0, 1], [1, 2], [2, 0]])], 2, "trw")
    assert np.isneginf(decode_graphs(plan, np.zeros((3, 2)), [table])[1][0])


def test_too_few_sweeps_are_refused():
    with pytest.raises(ValueError, match="sweeps must be a whole number of at least 4"):
        plan_inference([0, 1], [], 2, Gibbs(sweeps=2))
