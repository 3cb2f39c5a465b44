import numpy as np
import pytest

from kernelfields.data import Graphs
from kernelfields.data.graph_reader import GraphReader


class Drawn:
    """Quacks like a networkx graph: nodes and edges with attributes, in the order in which they were drawn."""

    def __init__(self, nodes, edges):
        self._nodes, self._edges = nodes, edges

    def nodes(self, data=False):
        return list(self._nodes.items()) if data else list(self._nodes)

    def edges(self, data=False):
        return [(one, other, kept) if data else (one, other) for one, other, kept in self._edges]

    def is_directed(self):
        return False


def drawn_by_hand(nodes, edges):
    return Drawn(nodes, edges)


def drawn_by_networkx(nodes, edges):
    graph = pytest.importorskip("networkx").Graph()
    graph.add_nodes_from(nodes.items())
    graph.add_edges_from(edges)
    return graph


DRAWN = pytest.mark.parametrize("draw", [drawn_by_hand, drawn_by_networkx])
NODES = {"c": {"x": [1.0, 2.0]}, "a": {"x": np.array([3.0, 4.0])}, "b": {"x": (5.0, 6.0)}}


@DRAWN
def test_nodes_and_edges_come_in_the_order_of_the_graph(draw):
    graph = draw(NODES, [("c", "b", {}), ("a", "b", {})])
    graphs, classes = GraphReader().learn([graph, graph], [["u", "v", "u"], ["v", "v", "v"]])
    np.testing.assert_array_equal(graphs.inputs, [[1, 2], [3, 4], [5, 6]] * 2)
    assert classes.tolist() == ["u", "v"]
    np.testing.assert_array_equal(graphs.labels, [0, 1, 0, 1, 1, 1])
    (factors,) = graphs.factors
    assert factors.name == "edge"
    assert factors.inputs is None
    np.testing.assert_array_equal(factors.members, [[0, 2], [1, 2], [3, 5], [4, 5]])


@DRAWN
def test_types_and_features_of_edges_are_attributes(draw):
    edges = [
        ("c", "b", {"type": "tall", "x": 0.5}),
        ("a", "b", {"type": "wide"}),
        ("c", "a", {"type": "tall", "features": [1.5]}),
    ]
    graphs = Graphs.from_graphs([draw(NODES, edges), draw(NODES, [])])
    tall, wide = graphs.group("tall"), graphs.group("wide")
    found = dict(zip(map(tuple, tall.members.tolist()), tall.inputs.ravel().tolist(), strict=True))
    assert found == {(0, 2): 0.5, (0, 1): 1.5}
    np.testing.assert_array_equal(wide.members, [[1, 2]])
    assert wide.inputs is None
    np.testing.assert_array_equal(wide.offsets, [0, 1, 1])


def test_one_number_is_a_row_of_one_feature():
    nodes = {0: {"features": 1.0}, 1: {"features": np.float64(2.0)}, 2: {"features": np.array(3.0)}}
    graphs = Graphs.from_graphs([Drawn(nodes, [])])
    np.testing.assert_array_equal(graphs.inputs, [[1], [2], [3]])


def test_labels_among_the_attributes_are_not_read():
    nodes = {name: {**kept, "y": "u", "label": "u"} for name, kept in NODES.items()}
    graphs = Graphs.from_graphs([Drawn(nodes, [])])
    assert graphs.labels is None


def test_networkx_graphs_and_tuples_may_stand_together():
    graphs = Graphs.from_graphs([Drawn(NODES, [("c", "b", {})]), (np.ones((2, 2)), [[1, 0]])])
    np.testing.assert_array_equal(graphs.factors[0].members, [[0, 2], [4, 3]])


def test_directed_and_parallel_edges_of_networkx():
    networkx = pytest.importorskip("networkx")
    directed = networkx.DiGraph([(1, 0), (1, 2)])
    networkx.set_node_attributes(directed, 1.0, "x")
    graphs = Graphs.from_graphs([directed])
    assert list(directed.nodes) == [1, 0, 2]
    np.testing.assert_array_equal(graphs.factors[0].members, [[0, 1], [0, 2]])
    parallel = networkx.MultiGraph([(0, 1), (0, 1)])
    networkx.set_node_attributes(parallel, 1.0, "x")
    with pytest.raises(ValueError, match=r"row 1 of edges of graph 0 .* which row 0 joins already"):
        Graphs.from_graphs([parallel])


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ({}, [], "graph 1 has no nodes: remove empty graphs"),
        (
            {"c": {"x": [1.0, 2.0]}, "a": {"y": 1}},
            [],
            r"node 'a' of graph 1 has no attribute 'x' or 'features': set",
        ),
        ({"c": {"x": [1.0, 2.0]}, "a": {"x": [1.0]}}, [], "node_features of graph 1 .*different lengths"),
        (NODES, [("c", "c", {})], "row 0 of edges of graph 1 joins node 0 with itself"),
        (NODES, [("c", "a", {"type": 3})], "the edge 'c' - 'a' of graph 1 has the type 3: .*strings"),
        (
            NODES,
            [("c", "a", {"x": 1.0}), ("c", "b", {})],
            "the edge 'c' - 'b' of graph 1 lacks features .*'edge' before it have them",
        ),
        (
            NODES,
            [("c", "a", {}), ("c", "b", {"x": 1.0})],
            "the edge 'c' - 'b' of graph 1 has features .*'edge' before it have none",
        ),
    ],
)
def test_errors_name_the_graph_and_the_node(nodes, edges, words):
    with pytest.raises(ValueError, match=words):
        Graphs.from_graphs([Drawn(NODES, []), Drawn(nodes, edges)])


def test_a_graph_alone_must_be_wrapped():
    with pytest.raises(ValueError, match=r"got one graph: wrap it, \[X\]"):
        Graphs.from_graphs(Drawn(NODES, []))
