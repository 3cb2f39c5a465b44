"""The fast scaled passes where doubles alone would fail, and on sequences too long for enumeration."""

import numpy as np
import pytest
from scipy.special import logsumexp

from kernelfields.numerics import Workers
from tests.arrays import infer_chains
from tests.oracles.chains import enumerate_chain
from tests.samples import chain_potentials


def conflicting_evidence(length, nats):
    """Labels {0, 1} and {2, 3} cannot reach each other; the first half of the evidence is for one group and
    the second, a little stronger, for the other."""
    node = np.zeros((length, 4))
    node[: length // 2, :2] = nats
    node[length // 2 :, :2] = -nats - 1
    node[:, 1] += 0.5
    edge = np.full((1, 4, 4), -np.inf)
    edge[0, :2, :2] = edge[0, 2:, 2:] = [[0.3, -0.2], [0.0, 0.1]]
    return node, edge, np.array([0, length])


def test_evidence_that_turns_around_is_not_lost_to_underflow():
    # Half way the group that wins in the end is behind by e^-900: 0 in doubles, and no flag from a scale.
    node, edge, offsets = conflicting_evidence(60, 30.0)
    beliefs = infer_chains(node, edge, offsets)
    assert beliefs._rescued.items.tolist() == [0]
    groups = [
        infer_chains(node[:, group], edge[:, group][:, :, group], offsets) for group in (slice(0, 2), slice(2, 4))
    ]
    assert not groups[0]._rescued
    assert not groups[1]._rescued
    log_masses = np.array([group.log_partition[0] for group in groups])
    np.testing.assert_allclose(beliefs.log_partition, logsumexp(log_masses), rtol=1e-13)
    shares = np.exp(log_masses - logsumexp(log_masses))
    assert shares[1] > 0.99
    expected = np.hstack([share * group.node_marginals for share, group in zip(shares, groups, strict=True)])
    np.testing.assert_allclose(beliefs.node_marginals, expected, atol=1e-11)


def test_a_step_that_underflows_is_not_taken_for_a_forbidden_one():
    # The only way into label 1 costs 2000 nats, exp(-2000) = 0; evidence of 30 nats a step makes it worth it.
    node = np.zeros((110, 2))
    node[1:, 1] = 30.0
    node[0, 1] = -np.inf
    edge = np.array([[[0.0, -2000.0], [-2000.0, 0.0]]])
    beliefs = infer_chains(node, edge, np.array([0, 110]))
    assert beliefs._rescued.items.tolist() == [0]
    np.testing.assert_allclose(beliefs.log_partition, 109 * 30 - 2000, rtol=1e-14)
    np.testing.assert_allclose(beliefs.node_marginals[1:, 1], 1.0, atol=1e-12)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e300])
def test_edge_potentials_at_starts_are_never_read(garbage):
    rng = np.random.default_rng(1)
    node, edge, offsets = chain_potentials(rng, 3, tied=False)
    clean = edge.copy()
    clean[offsets[:-1]] = 0.0
    edge[offsets[:-1]] = garbage
    ours, theirs = infer_chains(node, edge, offsets), infer_chains(node, clean, offsets)
    directions = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    np.testing.assert_array_equal(ours.log_partition, theirs.log_partition)
    assert not ours.edge_marginals()[offsets[:-1]].any()
    for quantity in ("gradient", "hessian_product"):
        arguments = directions if quantity == "hessian_product" else ()
        for a, b in zip(getattr(ours, quantity)(*arguments), getattr(theirs, quantity)(*arguments), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_number_of_threads_does_not_change_a_digit():
    rng = np.random.default_rng(3)
    node, edge, offsets = chain_potentials(rng, 5, lengths=rng.integers(1, 60, size=200))
    directions = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    position_weights = np.repeat(rng.random(200), np.diff(offsets))
    results = []
    for n_jobs in (1, 2, 3):
        workers = Workers(n_jobs)
        beliefs = infer_chains(node, edge, offsets, position_weights=position_weights, workers=workers)
        assert (len(workers.runs(offsets, 5)) > 1) == (n_jobs > 1)
        results.append([beliefs.log_partition, *beliefs.gradient(), *beliefs.hessian_product(*directions)])
    for other in results[1:]:
        for ours, theirs in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_direction_of_another_shape_is_refused():
    node, edge, offsets = chain_potentials(np.random.default_rng(5), 3)
    with pytest.raises(ValueError, match=r"edge direction has shape \(3, 3\), expected \(1, 3, 3\)"):
        infer_chains(node, edge, offsets).hessian_product(node, edge[0])


def test_a_million_positions_in_one_sequence():
    # Constant potentials: log Z = log 1^T (D T)^(n-1) D 1 with D = diag(e^u), T = e^w, by eigenvalues.
    rng = np.random.default_rng(6)
    length, n_labels = 1_000_000, 3
    u, w = rng.normal(size=n_labels), rng.normal(size=(n_labels, n_labels))
    matrix = np.exp(w) * np.exp(u)
    values, right = np.linalg.eig(matrix.T)
    shares = np.linalg.solve(right, np.exp(u))
    top = np.argmax(np.abs(values))
    expected = (length - 1) * np.log(values[top].real) + np.log((right.sum(axis=0) * shares)[top].real)

    beliefs = infer_chains(np.tile(u, (length, 1)), w[None], np.array([0, length]))
    assert not beliefs._rescued
    # A running sum of n equal terms rounds the same way every time: n eps at worst.
    np.testing.assert_allclose(beliefs.log_partition, expected, rtol=length * np.finfo(float).eps)
    # Far from both ends the marginals are the product of the two Perron vectors.
    left = np.linalg.eig(matrix)[1][:, np.argmax(np.abs(np.linalg.eig(matrix)[0]))].real
    middle = right[:, top].real * left
    np.testing.assert_allclose(beliefs.node_marginals[length // 2], middle / middle.sum(), atol=1e-12)
    # The gradient of the log partition along constant moves is the length: marginals sum to one everywhere.
    node, edge = beliefs.gradient()
    np.testing.assert_allclose([node.sum(), edge.sum()], [length, length - 1], rtol=1e-10)


# Found among thousands: labels whose steps underflow while what scores favour is all but impossible given the past.
@pytest.mark.parametrize("seed", [35, 71, 331, *range(400, 460)])
def test_hundreds_of_nats_and_forbidden_labels_leave_no_trace_of_rounding(seed):
    rng = np.random.default_rng(seed)
    n_labels, length = rng.integers(2, 6), rng.integers(2, 7)
    scale = rng.choice([100, 300, 400, 500, 700])
    node, edge = rng.normal(size=(length, n_labels)) * scale, rng.normal(size=(length, n_labels, n_labels)) * scale
    node[rng.random(node.shape) < 0.3] = -np.inf
    edge[rng.random(edge.shape) < 0.3] = -np.inf
    offsets = np.array([0, length])
    try:
        oracle = enumerate_chain(node, edge, offsets)
    except ValueError:
        with pytest.raises(ValueError, match="sequence 0"):
            infer_chains(node, edge, offsets)
        return
    beliefs = infer_chains(node, edge, offsets)
    np.testing.assert_allclose(beliefs.log_partition, oracle.log_partition, rtol=1e-12)
    np.testing.assert_allclose(beliefs.node_marginals, oracle.node_marginals, atol=1e-10)
    np.testing.assert_allclose(beliefs.edge_marginals(), oracle.edge_marginals, atol=1e-10)
    directions = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    products = beliefs.hessian_product(*directions), oracle.hessian_product(*directions)
    for ours, theirs in zip(*products, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
