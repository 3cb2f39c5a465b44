"""Types of nodes: read from dicts and networkx graphs, packed, kept by subsets, refused with the place."""

import numpy as np
import pytest

from kernelfields.data import GraphNodes, Graphs
from kernelfields.data.graph_reader import GraphReader

X = np.arange(6.0).reshape(3, 2)
EDGES = [[0, 1], [1, 2]]


def typed(kinds, x=X, **parts):
    return {"x": x, "edges": EDGES, "node_types": kinds, **parts}


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda names: np.array(names, dtype=object)])
def test_types_are_packed_as_numbers_of_their_names(kind):
    graphs = Graphs.from_graphs([typed(kind(["word", "stop", "word"])), typed(kind(["word", "word", "word"]))])
    types = graphs.node_types
    assert types.names == ("stop", "word")
    assert types.codes.tolist() == [1, 0, 1, 1, 1, 1]
    assert types.codes.dtype == np.int64
    assert types.select_nodes("stop").tolist() == [1]


def test_declared_types_keep_their_order_and_may_be_missing():
    graphs = Graphs.from_graphs([typed(["b", "a", "b"])], node_types=["b", "c", "a"])
    assert graphs.node_types.names == ("b", "c", "a")
    assert graphs.node_types.codes.tolist() == [0, 2, 0]
    assert graphs.node_types.select_nodes("c").size == 0


def test_a_set_of_a_type_sees_its_nodes_and_their_labels():
    graphs, _ = GraphReader().learn([typed(["a", "b", "a"])] * 2, [["u", "v", "w"], ["v", "u", "w"]])
    nodes = GraphNodes("linear", node_type="a")
    assert nodes.positions(graphs).tolist() == [0, 2, 3, 5]
    np.testing.assert_array_equal(nodes.view(graphs), graphs.inputs[[0, 2, 3, 5]])
    assert nodes.observed(graphs, 3)[1].tolist() == [0, 2, 1, 2]
    everywhere = GraphNodes("linear")
    assert everywhere.positions(graphs) is None
    assert everywhere.view(graphs) is graphs.inputs
    assert everywhere.observed(graphs, 3)[1].tolist() == [0, 1, 2, 1, 0, 2]


class Drawn:
    """Quacks like a networkx graph without edges."""

    def __init__(self, types):
        self._nodes = {
            f"n{number}": {"x": [float(number)]} | ({} if kind is None else {"type": kind})
            for number, kind in enumerate(types)
        }

    def nodes(self, data=False):
        return list(self._nodes.items()) if data else list(self._nodes)

    def edges(self, data=False):
        return []

    def is_directed(self):
        return False


def test_types_are_attributes_of_networkx_nodes():
    graphs = Graphs.from_graphs([Drawn(["b", "a"]), Drawn(["a"])])
    assert graphs.node_types.names == ("a", "b")
    assert graphs.node_types.codes.tolist() == [1, 0, 0]
    assert Graphs.from_graphs([Drawn([None, None])]).node_types is None


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (typed(["a", "b"]), "node_types of graph 1 has 2 entries but node_features has 3 rows"),
        (typed(["a", 3, "b"]), "node_types of graph 1 holds 3 at node 1: types are named by strings"),
        (typed([0, 1, 0]), "node_types of graph 1 holds 0 at node 0"),
        (typed("abc"), "node_types of graph 1 is 'abc', expected a list"),
        (typed(np.array([["a"], ["b"], ["a"]])), r"node_types of graph 1 has shape \(3, 1\)"),
        ((X, EDGES), "graph 1 has no node_types, but graph 0 has them"),
        ({"x": X, "edge": EDGES}, "graph 1 is a dict with the key 'edge', known are 'x', 'edges'"),
        ({"edges": EDGES}, "graph 1 is a dict without 'x'"),
        (Drawn(["a", None]), "node 'n1' of graph 1 has no attribute 'type', but other nodes have one"),
        (Drawn(["a", 7]), "node 'n1' of graph 1 has the type 7: types are named by strings"),
    ],
)
def test_wrong_types_are_refused_with_their_place(bad, words):
    with pytest.raises(ValueError, match=words):
        Graphs.from_graphs([typed(["a", "b", "a"]), bad])


def test_unknown_types_are_named():
    with pytest.raises(ValueError, match="node 1 of graph 1 has the type 'c', known are 'a', 'b'"):
        Graphs.from_graphs([typed(["a", "b", "a"]), typed(["a", "c", "a"])], node_types=["a", "b"])
    graphs = Graphs.from_graphs([typed(["a", "b", "a"])])
    with pytest.raises(ValueError, match="no nodes have the type 'c'; there are 'a', 'b'"):
        GraphNodes(node_type="c").positions(graphs)
    with pytest.raises(ValueError, match="type 'c', and the graphs have no types of nodes"):
        GraphNodes(node_type="c").view(Graphs.from_graphs([(X, EDGES)]))


def test_one_graph_must_be_wrapped():
    with pytest.raises(ValueError, match=r"got one graph: wrap it, \[X\]"):
        Graphs.from_graphs(typed(["a", "b", "a"]))
