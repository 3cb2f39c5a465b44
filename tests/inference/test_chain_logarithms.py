"""Chains that are rescued in the log domain against their plain twin and against the sum over all labellings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import EDGE
from kernelfields.inference.graphs import GraphPotentials
from kernelfields.inference.junction.family import RescuedItems
from kernelfields.inference.packing import InfeasibleGraph
from kernelfields.numerics.threads import Workers
from tests.arrays import infer_chains
from tests.oracles.chains import enumerate_chain
from tests.oracles.log_domain import reference_beliefs


def beliefs(node, edge):
    """What is found for one sequence that is rescued: log Z, marginals, and pairs; log Z alone if all is forbidden."""
    length, n_labels = node.shape
    family = ChainFamily(np.array([0, length]), n_labels, tied=len(edge) == 1)
    steps = family.clique_members(EDGE)
    checked = GraphPotentials(node, [edge], (len(edge) == 1,))
    try:
        found = RescuedItems(np.zeros(1, int), family, [steps], checked, Workers(1), table_rows=[steps[:, 1]])
    except InfeasibleGraph:
        return -np.inf, None, None
    pairs = np.zeros((length, n_labels, n_labels))
    pairs[found.factors[0]] = found.member.marginals("0")
    return found.member.log_partition[0], found.member.marginals(), pairs


def assert_equal_to_the_twin(node, edge, atol=1e-12):
    twin = reference_beliefs(node, edge, np.array([0, len(node)]))
    log_partition, *arrays = beliefs(node, edge)
    np.testing.assert_allclose(log_partition, twin.log_partition[0], rtol=1e-14, atol=atol)
    for ours, theirs in zip(arrays, (twin.node_marginals, twin.edge_marginals), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


def potentials(rng, length, n_labels, spread, forbidden, tied):
    node = spread * rng.normal(size=(length, n_labels))
    edge = spread * rng.normal(size=(1 if tied else length, n_labels, n_labels))
    for each in (node, edge):
        each[rng.random(each.shape) < forbidden] = -np.inf
    return node, edge


@pytest.mark.slow
@given(
    st.integers(0, 100_000),
    st.integers(1, 12),
    st.integers(1, 5),
    st.sampled_from([0.0, 1.0, 30.0, 700.0, 5000.0, 1e6]),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.booleans(),
)
@settings(deadline=None, max_examples=200)
def test_the_compiled_pass_is_its_twin(seed, length, n_labels, spread, forbidden, tied):
    node, edge = potentials(np.random.default_rng(seed), length, n_labels, spread, forbidden, tied)
    if beliefs(node, edge)[0] == -np.inf:
        with pytest.raises(ValueError, match="every labelling"):
            reference_beliefs(node, edge, np.array([0, length]))
        return
    assert_equal_to_the_twin(node, edge)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("spread", [1.0, 50.0, 4000.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.25])
def test_the_compiled_pass_is_the_sum_over_labellings(spread, forbidden, tied):
    compared = 0
    for seed in range(12):
        # A grid of 1/64 adds up without rounding, however large the spread.
        node, edge = potentials(np.random.default_rng(seed), 5, 3, spread, forbidden, tied)
        node, edge = (np.round(64 * each) / 64 for each in (node, edge))
        try:
            oracle = enumerate_chain(node, edge, np.array([0, 5]))
        except ValueError:
            assert beliefs(node, edge)[0] == -np.inf
            continue
        compared += 1
        log_partition, marginals, pairs = beliefs(node, edge)
        np.testing.assert_allclose(log_partition, oracle.log_partition[0], rtol=1e-13, atol=1e-12)
        np.testing.assert_allclose(marginals, oracle.node_marginals, rtol=0, atol=1e-12)
        np.testing.assert_allclose(pairs, oracle.edge_marginals, rtol=0, atol=1e-12)
    assert compared >= 5


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 2000.0])
def test_long_chains_lose_no_digits(spread):
    rng = np.random.default_rng(0)
    node, edge = potentials(rng, 20_000, 4, spread, 0.1, True)
    edge[0, 0] = np.where(np.isneginf(edge[0, 0]), 0.0, edge[0, 0])  # a label from which every step is allowed
    node[:, 0] = np.where(np.isneginf(node[:, 0]), 0.0, node[:, 0])
    assert_equal_to_the_twin(node, edge)
    marginals = beliefs(node, edge)[1]
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=1e-12)


def test_a_large_shift_takes_no_digits_from_those_that_follow():
    # 1e12 at the start and -1e12 at the end: a plain running sum would round at 1e-4 for all positions between.
    rng = np.random.default_rng(1)
    node, edge = rng.normal(size=(3000, 2)), rng.normal(size=(1, 2, 2))
    node[0] += 1e12
    node[-1] -= 1e12
    # Both cancel in log Z, and taking them away is exact.
    plain = node.copy()
    plain[0] -= 1e12
    plain[-1] += 1e12
    twin = reference_beliefs(plain, edge, np.array([0, 3000]))
    assert 1e2 < abs(twin.log_partition[0]) < 1e5
    assert beliefs(node, edge)[0] == pytest.approx(twin.log_partition[0], rel=1e-12)


def test_every_labelling_forbidden_is_minus_infinity():
    free = np.zeros((4, 2))
    for node, edge in [
        (np.where(np.arange(4)[:, None] == 0, -np.inf, free), np.zeros((1, 2, 2))),
        (np.where(np.arange(4)[:, None] == 2, -np.inf, free), np.zeros((1, 2, 2))),
        (free, np.full((1, 2, 2), -np.inf)),
    ]:
        assert beliefs(node, edge)[0] == -np.inf
        with pytest.raises(ValueError, match=r"sequence 1\b.*every labelling|every labelling.*sequence 1\b"):
            infer_chains(np.vstack([free, node]), _stacked(edge), np.array([0, 4, 8]))


def _stacked(edge):
    """Steps that are free in the first sequence, and those given in the second."""
    return np.concatenate([np.zeros((4, 2, 2)), np.broadcast_to(edge, (4, 2, 2))])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_gradients_where_some_sequences_are_rescued(n_jobs, weighted, monkeypatch):
    monkeypatch.setattr("kernelfields.numerics.threads._SMALL", 1)
    monkeypatch.setattr("kernelfields.numerics.threads._SMALL_PRODUCT", 1)
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 7, size=20)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    node, edge = rng.normal(size=(offsets[-1], 3)), rng.normal(size=(1, 3, 3))
    node[np.repeat(np.arange(20) % 3 == 0, lengths)] *= 3000.0
    node = np.round(64 * node) / 64
    weights = np.repeat(rng.uniform(0.0, 3.0, size=20), lengths) if weighted else None
    found = infer_chains(node, edge, offsets, position_weights=weights, workers=Workers(n_jobs))
    assert 0 < len(found._rescued.items) < 20
    oracle = enumerate_chain(node, edge, offsets)
    used = np.ones(offsets[-1]) if weights is None else weights
    node_sums, edge_sums = found.gradient()
    np.testing.assert_allclose(node_sums, oracle.node_marginals * used[:, None], rtol=0, atol=1e-10)
    expected = np.einsum("t,tab->ab", used, oracle.edge_marginals)
    np.testing.assert_allclose(edge_sums[0], expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.edge_marginals(), oracle.edge_marginals, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_expected_steps_are_the_same_on_any_number_of_threads(n_jobs, monkeypatch):
    monkeypatch.setattr("kernelfields.numerics.threads._SMALL_PRODUCT", 1)
    rng = np.random.default_rng(4)
    offsets = np.array([0, 1, 7, 8, 30, 31])
    node, edge = rng.normal(size=(31, 4)), rng.normal(size=(1, 4, 4))
    weights = np.repeat(rng.uniform(0.5, 2.0, size=5), np.diff(offsets))
    twin = reference_beliefs(node, edge, offsets)
    found = infer_chains(node, edge, offsets, position_weights=weights, workers=Workers(n_jobs))
    expected = np.einsum("t,tab->ab", weights, twin.edge_marginals)
    np.testing.assert_allclose(found.gradient()[1][0], expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(found.gradient()[1], found.gradient()[1])


def test_a_single_position_has_no_steps():
    found = infer_chains(np.array([[0.0, 1.0]]), np.ones((1, 2, 2)), np.array([0, 1]), workers=Workers(2))
    np.testing.assert_array_equal(found.gradient()[1], np.zeros((1, 2, 2)))
