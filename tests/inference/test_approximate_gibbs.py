"""Gibbs sampling: draws follow the distribution and keep to hard constraints."""

import numpy as np
import pytest

from kernelfields.inference import plan_inference
from tests.arrays import decode_graphs, infer_graphs, sample_graphs
from tests.oracles.graphs import GraphEnumeration


@pytest.mark.parametrize("method", ["trw", "loopy", "mean-field"])
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


@pytest.mark.parametrize("method", ["mean-field", "trw"])
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
    plan, node = plan_inference([0, 2, 5], members, 2, "mean-field"), np.zeros((5, 2))
    with pytest.raises(ValueError, match="graph 1: no allowed labelling was found, so 'mean-field'"):
        infer_graphs(plan, node, [table])
    with pytest.raises(ValueError, match="graph 1: no allowed labelling was found, so 'sampling'"):
        sample_graphs(plan, node, [table], 1)


def test_a_decoded_score_of_minus_infinity_says_that_nothing_allowed_was_found():
    table = np.where(np.eye(2), -np.inf, 0.0)[None]
    plan = plan_inference([0, 3], [np.array([[0, 1], [1, 2], [2, 0]])], 2, "trw")
    assert np.isneginf(decode_graphs(plan, np.zeros((3, 2)), [table])[1][0])
