"""The log-domain twin against enumeration, and identities where enumeration cannot reach."""

import numpy as np
import pytest

from tests.oracles.chains import enumerate_chain
from tests.oracles.log_domain import reference_beliefs, reference_hessian_product
from tests.samples import any_chain_potentials


@pytest.mark.parametrize("spread", [1.0, 30.0, 5000.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.25])
@pytest.mark.parametrize("n_labels", [1, 2, 3, 4])
def test_equal_to_enumeration(spread, forbidden, n_labels):
    rng = np.random.default_rng(n_labels)
    n_feasible = 0
    for _ in range(12):
        node, edge, offsets = any_chain_potentials(rng, n_labels, spread, forbidden)
        try:
            oracle = enumerate_chain(node, edge, offsets)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                reference_beliefs(node, edge, offsets)
            continue
        n_feasible += 1
        beliefs = reference_beliefs(node, edge, offsets)
        np.testing.assert_allclose(beliefs.log_partition, oracle.log_partition, rtol=1e-13, atol=1e-12)
        np.testing.assert_allclose(beliefs.node_marginals, oracle.node_marginals, atol=1e-10)
        np.testing.assert_allclose(beliefs.edge_marginals, oracle.edge_marginals, atol=1e-10)

        d_node, d_edge = rng.normal(size=node.shape), rng.normal(size=edge.shape)
        d_marginals, d_pairs = reference_hessian_product(beliefs, d_node, d_edge, offsets)
        expected_marginals, expected_pairs = oracle.hessian_product(d_node, d_edge)
        np.testing.assert_allclose(d_marginals, expected_marginals, atol=1e-10)
        np.testing.assert_allclose(d_pairs, expected_pairs, atol=1e-10)
    assert n_feasible >= 1 or n_labels == 1


def test_weights_are_the_conditionals_of_their_prefix_and_of_the_whole():
    rng = np.random.default_rng(0)
    node, edge = rng.normal(size=(5, 3)), rng.normal(size=(5, 3, 3))
    edge[3, :, 1] = -np.inf  # no way into label 1 ...
    edge[2, 0, :] = -np.inf  # ... and none out of label 0
    beliefs = reference_beliefs(node, edge, np.array([0, 5]))
    assert not beliefs.backward_weights[3, :, 1].any()
    assert not beliefs.forward_weights[2, 0].any()
    assert not beliefs.backward_weights[0].any()
    assert not beliefs.forward_weights[0].any()
    for t in range(1, 5):
        prefix = enumerate_chain(node[: t + 1], edge[: t + 1], np.array([0, t + 1]))
        pairs, ends = prefix.edge_marginals[t], prefix.node_marginals[t]
        np.testing.assert_allclose(beliefs.backward_weights[t] * ends, pairs, atol=1e-12)
        given = beliefs.node_marginals[t - 1][:, None]
        np.testing.assert_allclose(beliefs.forward_weights[t] * given, beliefs.edge_marginals[t], atol=1e-12)
    feasible = np.array([1.0, 0.0, 1.0])
    np.testing.assert_allclose(beliefs.backward_weights[3].sum(axis=0), feasible, atol=1e-14)


def test_a_label_that_looks_hopeless_until_late_is_not_lost():
    # Label 0 leads by e^5000 at every position, and the last step can only be taken from label 1.
    node = np.tile([5000.0, 0.0], (4, 1))
    edge = np.zeros((4, 2, 2))
    edge[1:3] = [[0.0, -np.inf], [-np.inf, 0.0]]
    edge[3] = [[-np.inf, -np.inf], [1.0, 0.0]]
    beliefs = reference_beliefs(node, edge, np.array([0, 4]))
    np.testing.assert_array_equal(beliefs.node_marginals, [[0, 1], [0, 1], [0, 1], [1, 0]])
    np.testing.assert_allclose(beliefs.log_partition, [5001.0], rtol=1e-15)


def test_a_long_markov_chain_keeps_its_digits():
    rng = np.random.default_rng(1)
    transitions = rng.dirichlet(np.ones(3), size=3)
    length, constant = 2000, 4096.0
    node = np.full((length, 3), constant)
    beliefs = reference_beliefs(node, np.log(transitions)[None], np.array([0, length]))
    np.testing.assert_allclose(beliefs.log_partition, length * constant + np.log(3), rtol=1e-14)
    expected = np.full(3, 1 / 3)
    for t in range(length):
        np.testing.assert_allclose(beliefs.node_marginals[t], expected, atol=1e-11)
        expected = expected @ transitions
    np.testing.assert_allclose(
        beliefs.forward_weights[1:], np.broadcast_to(transitions, (length - 1, 3, 3)), atol=1e-11
    )


def test_hessian_product_is_symmetric_and_ignores_constants():
    rng = np.random.default_rng(2)
    offsets = np.array([0, 1, 40, 60])
    node, edge = 3 * rng.normal(size=(60, 4)), 3 * rng.normal(size=(60, 4, 4))
    beliefs = reference_beliefs(node, edge, offsets)
    first = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    second = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    of_first = reference_hessian_product(beliefs, *first, offsets)
    of_second = reference_hessian_product(beliefs, *second, offsets)
    crossed = [sum(np.vdot(a, b) for a, b in zip(x, hy, strict=True)) for x, hy in
               ((second, of_first), (first, of_second))]  # fmt: skip
    np.testing.assert_allclose(crossed[0], crossed[1], rtol=1e-11)
    constants = rng.normal(size=(60, 1)) + np.zeros((60, 4)), np.full((1, 4, 4), 2.0)
    for derivative in reference_hessian_product(beliefs, *constants, offsets):
        np.testing.assert_allclose(derivative, 0, atol=1e-12)


def test_directions_of_another_shape_are_refused():
    offsets = np.array([0, 2])
    beliefs = reference_beliefs(np.zeros((2, 3)), np.zeros((1, 3, 3)), offsets)
    with pytest.raises(ValueError, match=r"d_node must have the shape \(2, 3\)"):
        reference_hessian_product(beliefs, np.zeros((3, 2)), np.zeros((1, 3, 3)), offsets)
    with pytest.raises(ValueError, match=r"d_edge must have shape .* write d_edge\[None\]"):
        reference_hessian_product(beliefs, np.zeros((2, 3)), np.zeros((3, 3)), offsets)
