import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data import Graphs


def random_graph(rng, n_nodes, width=2):
    """Features, all pairs of a random half in random directions, and features of these."""
    pairs = np.argwhere(np.triu(rng.random((n_nodes, n_nodes)) < 0.5, 1))
    turned = rng.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned, ::-1]
    return rng.normal(size=(n_nodes, width)), pairs, rng.normal(size=(len(pairs), 3))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.booleans(), st.integers(0, 2**31))
def test_packing_and_splitting_are_inverse(sizes, sparse, seed):
    rng = np.random.default_rng(seed)
    X = [random_graph(rng, size) for size in sizes]
    kind = sp.csr_array if sparse else np.asarray
    graphs = Graphs.from_graphs([(kind(nodes), edges, kind(features)) for nodes, edges, features in X])
    assert graphs.labels is None
    (factors,) = graphs.factors
    assert factors.name == "edge"
    assert factors.members.flags.c_contiguous
    assert factors.members.dtype == factors.offsets.dtype == graphs.offsets.dtype == np.int64
    np.testing.assert_array_equal(graphs.lengths, sizes)
    parts = graphs.split(graphs.inputs)
    for index, (nodes, edges, features) in enumerate(X):
        rows = slice(*factors.offsets[index : index + 2])
        np.testing.assert_array_equal(parts[index].toarray() if sparse else parts[index], nodes)
        np.testing.assert_array_equal(factors.members[rows] - graphs.starts[index], edges)
        there = factors.inputs[rows]
        np.testing.assert_array_equal(there.toarray() if sparse else there, features)


def test_edges_may_be_lists_and_missing():
    nodes = [[1.0], [2.0], [3.0]]
    for none in ([], np.empty((0, 2)), np.empty((0, 2), int), (), np.empty(0)):
        graphs = Graphs.from_graphs([(nodes, none), (nodes, [(2, 0), [1, 2]]), [nodes, none]])
        (factors,) = graphs.factors
        np.testing.assert_array_equal(factors.members, [[5, 3], [4, 5]])
        np.testing.assert_array_equal(factors.offsets, [0, 0, 2, 2])
        assert factors.inputs is None
        (factors,) = Graphs.from_graphs([(nodes, none)]).factors
        assert factors.name == "edge"
        assert factors.members.shape == (0, 2)


def test_types_that_a_graph_lacks_are_empty_there():
    nodes = np.ones((4, 1))
    X = [
        (nodes, {"across": np.array([[0, 1]])}),
        (nodes, []),
        (nodes, {"triple": [[3, 1, 0], [1, 2, 3]], "across": []}),
    ]
    graphs = Graphs.from_graphs(X)
    assert [factors.name for factors in graphs.factors] == ["across", "triple"]
    np.testing.assert_array_equal(graphs.group("across").offsets, [0, 1, 1, 1])
    np.testing.assert_array_equal(graphs.group("triple").offsets, [0, 0, 0, 2])
    np.testing.assert_array_equal(graphs.group("triple").members, [[11, 9, 8], [9, 10, 11]])


def test_declared_types_come_in_their_order_even_when_absent():
    types = {"triple": 3, "down": 2, "across": 2}
    nodes = np.ones((4, 1))
    graphs = Graphs.from_graphs([(nodes, {"across": [[0, 1]], "triple": []}), (nodes, [])], types=types)
    assert {factors.name: factors.labels_per_clique for factors in graphs.factors} == types
    assert [factors.name for factors in graphs.factors] == list(types)
    assert [factors.n_factors for factors in graphs.factors] == [0, 0, 1]
    with pytest.raises(ValueError, match="graph 1 has edges of the type 'edge', known are 'triple', 'down', 'across'"):
        Graphs.from_graphs([(nodes, []), (nodes, [[0, 1]])], types=types)
    with pytest.raises(ValueError, match=r"edges\['triple'\] of graph 0 joins 2 nodes in a row, .* declared to join 3"):
        Graphs.from_graphs([(nodes, {"triple": [[0, 1]]})], types=types)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_of_no_edges_keep_their_width(kind):
    nodes = np.ones((3, 1))
    empty = kind(np.empty((0, 4)))
    graphs = Graphs.from_graphs([(nodes, [], []), (nodes, [], empty)])
    assert graphs.factors[0].inputs.shape == (0, 4)
    assert sp.issparse(graphs.factors[0].inputs) == sp.issparse(empty)
    graphs = Graphs.from_graphs([(nodes, [], empty), (nodes, [[0, 1]], kind(np.ones((1, 4))))])
    assert graphs.factors[0].inputs.shape == (1, 4)
    assert Graphs.from_graphs([(nodes, [], [])]).factors[0].inputs is None


def test_packing_never_changes_or_shares_what_came():
    nodes, edges = np.ones((3, 1)), np.array([[0, 1], [1, 2]], order="F")
    graphs = Graphs.from_graphs([(nodes, edges), (nodes, edges)])
    assert not np.shares_memory(graphs.inputs, nodes)
    assert not np.shares_memory(graphs.factors[0].members, edges)
    np.testing.assert_array_equal(edges, [[0, 1], [1, 2]])
    assert graphs.factors[0].members.flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_every_kind_of_whole_number_names_nodes(dtype):
    nodes = np.ones((200, 1))
    edges = [np.array([[0, 1]], np.int64), np.array([[100, 5], [6, 7]], dtype)]
    graphs = Graphs.from_graphs([(nodes, one) for one in edges])
    np.testing.assert_array_equal(graphs.factors[0].members, [[0, 1], [300, 205], [206, 207]])
    assert graphs.factors[0].members.dtype == np.int64
