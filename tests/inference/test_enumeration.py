"""The oracle itself, against closed forms, finite differences and identities."""

import numpy as np
import pytest

from tests.oracles.chains import enumerate_chain

OFFSETS = np.array([0, 1, 4, 8])


def random_potentials(seed, n_labels, tied):
    rng = np.random.default_rng(seed)
    n_positions = OFFSETS[-1]
    n_edges = 1 if tied else n_positions
    return rng.normal(size=(n_positions, n_labels)), rng.normal(size=(n_edges, n_labels, n_labels))


def test_without_edges_positions_are_independent():
    node, edge = random_potentials(0, 3, tied=True)
    chains = enumerate_chain(node, 0 * edge, OFFSETS)
    independent = np.exp(node) / np.exp(node).sum(axis=1, keepdims=True)
    pairs = independent[:-1, :, None] * independent[1:, None, :]
    starts = np.isin(np.arange(1, len(node)), OFFSETS)
    np.testing.assert_allclose(chains.node_marginals, independent, atol=1e-13)
    np.testing.assert_allclose(chains.edge_marginals[1:][~starts], pairs[~starts], atol=1e-13)
    assert not chains.edge_marginals[OFFSETS[:-1]].any()
    log_sums = np.log(np.exp(node).sum(axis=1))
    np.testing.assert_allclose(chains.log_partition, np.add.reduceat(log_sums, OFFSETS[:-1]), atol=1e-13)
    np.testing.assert_array_equal(chains.labels, node.argmax(axis=1))


@pytest.mark.parametrize("tied", [True, False])
def test_labellings_are_complete_sorted_and_normalised(tied):
    node, edge = random_potentials(1, 3, tied)
    chains = enumerate_chain(node, edge, OFFSETS)
    for i, sequence in enumerate(chains.sequences):
        length = OFFSETS[i + 1] - OFFSETS[i]
        assert len(np.unique(sequence.labellings, axis=0)) == 3**length
        assert (np.diff(sequence.scores) <= 0).all()
        np.testing.assert_allclose(np.exp(sequence.logs).sum(), 1, atol=1e-13)
        np.testing.assert_allclose(sequence.logs, sequence.scores - sequence.log_partition, atol=1e-12)
        expected_score = np.exp(sequence.logs) @ sequence.scores
        np.testing.assert_allclose(chains.entropy[i], sequence.log_partition - expected_score, atol=1e-12)


@pytest.mark.parametrize("tied", [True, False])
def test_log_partition_has_the_marginals_as_gradient(tied):
    node, edge = random_potentials(2, 3, tied)
    rng = np.random.default_rng(3)
    d_node, d_edge = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    step = 1e-5
    above = enumerate_chain(node + step * d_node, edge + step * d_edge, OFFSETS)
    below = enumerate_chain(node - step * d_node, edge - step * d_edge, OFFSETS)
    here = enumerate_chain(node, edge, OFFSETS)
    slope = (above.log_partition - below.log_partition).sum() / (2 * step)
    inner = np.sum(here.node_marginals * d_node) + np.sum(here.edge_marginals * d_edge)
    np.testing.assert_allclose(slope, inner, rtol=1e-8)

    d_marginals, d_pairs = here.hessian_product(d_node, d_edge)
    differences = (above.node_marginals - below.node_marginals) / (2 * step)
    np.testing.assert_allclose(d_marginals, differences, atol=1e-8)
    differences = (above.edge_marginals - below.edge_marginals) / (2 * step)
    np.testing.assert_allclose(d_pairs, differences, atol=1e-8)


def test_forbidden_labellings_are_left_out():
    node = np.array([[0.0, -np.inf], [0.0, 0.0]])
    edge = np.array([[[0.0, 1.0], [0.0, 0.0]]])
    chains = enumerate_chain(node, edge, np.array([0, 2]))
    assert chains.sequences[0].labellings.tolist() == [[0, 1], [0, 0]]
    np.testing.assert_allclose(chains.log_partition, np.log(1 + np.e), atol=1e-14)


def test_equal_scores_are_ordered_by_their_last_label_first():
    chains = enumerate_chain(np.zeros((2, 2)), np.zeros((1, 2, 2)), np.array([0, 2]))
    assert chains.sequences[0].labellings.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_infeasible_and_oversized_sequences_are_refused():
    node, edge = random_potentials(4, 2, tied=True)
    node[2] = -np.inf
    with pytest.raises(ValueError, match="sequence 1: every labelling is forbidden"):
        enumerate_chain(node, edge, OFFSETS)
    with pytest.raises(ValueError, match=r"there are 2\^21 labellings, enumeration takes at most 1,000,000"):
        enumerate_chain(np.zeros((21, 2)), edge, np.array([0, 21]))
