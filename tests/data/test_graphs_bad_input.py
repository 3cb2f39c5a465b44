import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.data import Graphs
from kernelfields.data.graph_reader import GraphReader
from kernelfields.data.graph_reading import stack_members

NODES = np.ones((4, 2))
GOOD = (NODES, np.array([[0, 1], [1, 2]]))
ADJACENCY = np.ones((4, 4), int)


def graph_with(edges, features=None):
    """A good graph, then the one that is wrong: messages must say graph 1."""
    return [GOOD, (NODES, edges, features)]


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (GOOD, ValueError, r"got one graph: wrap it, \[X\]"),
        ((sp.csr_array(NODES), [], None), ValueError, r"wrap it, \[X\]"),
        (([[1.0]], []), ValueError, r"graph 0 is a list of 1, .*wrap it: \[X\]"),
        (NODES, TypeError, "list of graphs.*got ndarray"),
        (None, TypeError, "got NoneType"),
        ("graphs", TypeError, "got str"),
        ({"a": GOOD}, TypeError, "got dict"),
        ((graph for graph in [GOOD]), TypeError, "got generator.*in a list"),
        ([], ValueError, "at least one graph"),
        ([GOOD, NODES], ValueError, r"graph 1 is a ndarray, expected .*\(node_features, \[\]\)"),
        ([GOOD, (NODES,)], ValueError, "graph 1 is a tuple of 1"),
        ([GOOD, (NODES, [], None, None)], ValueError, "graph 1 is a tuple of 4"),
        ([GOOD, (np.ones((0, 2)), [])], ValueError, "node_features of graph 1 has no rows: remove empty graphs"),
        (
            [GOOD, (np.ones((4, 3)), [])],
            ValueError,
            "node_features of graph 1 has 3 features but .* graph 0 has 2",
        ),
        (
            [GOOD, (np.ones(4), [])],
            ValueError,
            r"node_features of graph 1 has shape \(4,\).*per node use x.reshape",
        ),
        ([GOOD, (sp.csr_array(NODES), [])], ValueError, "graph 1 is sparse but .* graph 0 is dense"),
        (
            [GOOD, ([["a", "b"]], [])],
            ValueError,
            "node_features of graph 1 holds .* numbers are needed.*OneHotEncoder",
        ),
        ([GOOD, ([[1.0, np.nan]], [])], ValueError, "node_features of graph 1 holds nan in row 0, column 1"),
        ([GOOD, ([[np.inf, 1.0]], [])], ValueError, "node_features of graph 1 holds inf in row 0, column 0"),
    ],
)
def test_x_must_be_a_list_of_graphs(X, error, words):
    with pytest.raises(error, match=words):
        Graphs.from_graphs(X)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([[0, 1], [2, 2]], "row 1 of edges of graph 1 joins node 2 with itself: remove self loops"),
        (
            [[0, 1], [1, 2], [0, 1]],
            r"row 2 of edges of graph 1 joins the nodes \[0, 1\], which row 0 joins already",
        ),
        ([[0, 1], [3, 2], [1, 0]], r"row 2 of edges of graph 1 joins the nodes \[1, 0\], which row 0 .*keep one"),
        ([[1, 0], [0, 1], [1, 0]], "row 1 .* which row 0"),
        ([[0, 1], [1, 4]], "row 1 of edges of graph 1 names node 4, but the graph has 4 nodes, 0 to 3"),
        ([[0, 1], [-1, 2]], "row 1 of edges of graph 1 names node -1"),
        ([[0, 1], [1, 2.5]], r"edges of graph 1 holds float64 values, in row 1 \[1.0, 2.5\].*astype\(int\)"),
        ([[0.0, 1.0]], r"edges of graph 1 holds float64 values, in row 0 .*astype\(int\)"),
        ([[True, False]], "edges of graph 1 holds bool values"),
        ([["a", "b"]], "edges of graph 1 holds <U1 values"),
        (np.array([[0, 1], [1, None]], object), r"holds object values, in row 1 \[1, None\]"),
        ([[0, 1], [1]], "edges of graph 1 cannot be read as rows of node numbers"),
        ([0, 1], r"edges of graph 1 has shape \(2,\), expected \(edges, 2\).*pass \[\]"),
        (None, r"edges of graph 1 has shape \(\)"),
        ([[]], r"edges of graph 1 has shape \(1, 0\)"),
        (np.ones((5, 3), int), r"shape \(5, 3\).*by type, for example \{'triple': edges\}"),
        (np.ones((2, 5), int), r"shape \(2, 5\).*edges\.T"),
        (ADJACENCY, r"shape \(4, 4\).*adjacency.*np\.argwhere\(np\.triu"),
        (sp.csr_array(ADJACENCY), "edges of graph 1 is a sparse matrix.*nonzero"),
        ({"tall": [[0, 1], [2, 2]]}, r"row 1 of edges\['tall'\] of graph 1 joins node 2 with itself"),
        ({"tall": [[0, 1], [1, 9]]}, r"row 1 of edges\['tall'\] of graph 1 names node 9"),
        ({"tall": [[0], [1]]}, r"edges\['tall'\] of graph 1 has shape \(2, 1\), expected \(cliques, 2 or more\)"),
        (
            {"three": [[0, 1, 2], [1, 3, 1]]},
            r"row 1 of edges\['three'\] of graph 1 names a node twice, \[1, 3, 1\]",
        ),
        ({"three": [[0, 1, 2], [3, 1, 2], [2, 0, 1]]}, r"row 2 of edges\['three'\] of graph 1 .* which row 0"),
        (
            {"edge": [[0, 1, 2]]},
            "edges of graph 1 joins 3 nodes in a row, those of graph 0 join 2: .*type of their own",
        ),
        ({3: [[0, 1]]}, "edges of graph 1 has the type 3: types are named by strings"),
    ],
)
def test_edges_are_checked(edges, words):
    with pytest.raises(ValueError, match=words):
        Graphs.from_graphs(graph_with(edges))


EDGES = [[0, 1], [1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (np.ones((2, 2)), "edge_features of graph 1 has 2 rows but edges has 3: each edge needs one row"),
        (sp.csr_array(np.ones((4, 2))), "edge_features of graph 1 has 4 rows but edges has 3"),
        (
            sp.csr_array(np.ones((3, 2))),
            "edge_features of graph 1 is sparse but edge_features of graph 0 is dense",
        ),
        (7, "edge_features of graph 1 has 0 rows but edges has 3"),
        (np.array(7), "edge_features of graph 1 has 0 rows"),
        (np.ones(3), r"edge_features of graph 1 has shape \(3,\).*per edge use x.reshape"),
        (np.ones((3, 3)), "edge_features of graph 1 has 3 features but edge_features of graph 0 has 2"),
        ([[1, 2], [1, 2], [1, np.nan]], "edge_features of graph 1 holds nan in row 2, column 1"),
        ([[1, 2], [np.inf, 2], [1, 2]], "edge_features of graph 1 holds inf in row 1, column 0"),
        (None, "graph 1 has edges without edge_features, but graph 0 has them: pass features for all graphs"),
        ({"tall": np.ones((3, 2))}, "edge_features of graph 1 names the type 'tall', .* there are 'edge'"),
    ],
)
def test_edge_features_are_checked(features, words):
    first = (NODES, [[0, 1]], np.ones((1, 2)))
    with pytest.raises(ValueError, match=words):
        Graphs.from_graphs([first, (NODES, EDGES, features)])


def test_edge_features_of_types_are_named():
    edges = {"tall": EDGES}
    with pytest.raises(ValueError, match=r"edge_features of graph 0 is a ndarray.* pass a dict .*\{'tall': features\}"):
        Graphs.from_graphs([(NODES, edges, np.ones((3, 1)))])
    with pytest.raises(ValueError, match=r"edge_features\['tall'\] of graph 0 has 2 rows but edges\['tall'\] has 3"):
        Graphs.from_graphs([(NODES, edges, {"tall": np.ones((2, 1))})])
    # Graph 1 has no such edges; the number of the graph must not slip.
    bad = np.array([[0.0], [np.nan], [0.0]])
    good = {"tall": np.ones((3, 1))}
    with pytest.raises(ValueError, match=r"edge_features\['tall'\] of graph 2 holds nan in row 1"):
        Graphs.from_graphs([(NODES, edges, good), (NODES, {}, {}), (NODES, edges, {"tall": bad})])


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([[0, 1, 0, 1]], "X has 2 graphs but y has 1"),
        (
            [[0, 1, 0, 1], [0, 1, 0]],
            "graph 1 has 4 rows in X but 3 labels in y. Each node needs one .*None where it is not",
        ),
        ([[0, 1, 0, 1], [0, 1, None]], r"graph 1 has 4 rows in X but 3 labels in y.*None where it is not known"),
        (
            [list("abab"), ["a", 1, None, "a"]],
            "mix strings with others: graph 0, node 0 has 'a', graph 1, node 1 has 1",
        ),
        ([[0, 1, 0, 1], [0, 1, 0.5, np.nan]], "label 0.5 at graph 1, node 2 is not a whole number"),
        ([[0, 1, 0, 1], [0, 1, set(), 1]], "allowed labels at graph 1, node 2 is empty"),
        ([[0, 1, 0, 1], [0, 1, 0.5, 1]], "label 0.5 at graph 1, node 2 is not a whole number"),
        ([[0, 1, 0, 1], np.zeros((2, 2))], r"graph 1 of y has shape \(2, 2\).*a grid labels\.ravel\(\)"),
        ([[0, 1, 0, 1], list("abab")], "mix strings and numbers: graph 0 has numbers, graph 1 has strings"),
        ([[0, 1, 0, 1], []], "graph 1 has 4 rows in X but 0 labels"),
    ],
)
def test_labels_are_checked(y, words):
    with pytest.raises(ValueError, match=words):
        GraphReader().learn([GOOD, GOOD], y)


def test_labels_outside_the_declared_classes_are_named():
    with pytest.raises(ValueError, match="unknown label 7 at graph 1, node 2: known are 0, 1"):
        GraphReader().learn([GOOD, GOOD], [[0, 1, 0, 1], [0, 1, 7, 1]], classes=[0, 1])
    with pytest.raises(ValueError, match="unknown label 'a' at graph 0, node 0"):
        GraphReader().learn([GOOD], [list("abab")], classes=[0, 1])
    with pytest.raises(TypeError, match="y must be a list with one list or array of labels per graph, got int"):
        GraphReader().learn([GOOD], 3)


def test_weights_are_per_graph():
    with pytest.raises(ValueError, match=r"one number per graph, 2 here.*Weights of single nodes"):
        GraphReader().learn([GOOD, GOOD], [[0, 1, 0, 1]] * 2, sample_weight=np.ones(8))


def test_repeats_are_found_where_numbers_of_sets_would_overflow():
    """Four billion nodes to the third power do not fit into 64 bits; ranks of rows take the place of numbers."""
    lengths = np.array([5, 2**32])
    tables = [np.array([[0, 1, 2], [1, 2, 3]]), np.array([[7, 2**32 - 1, 9], [7, 8, 9]])]
    members, offsets = stack_members(tables, lengths, "edges")
    np.testing.assert_array_equal(members, np.concatenate([tables[0], tables[1] + 5]))
    np.testing.assert_array_equal(offsets, [0, 2, 4])
    tables[1][1] = [9, 7, 2**32 - 1]
    with pytest.raises(ValueError, match=r"row 1 of edges of graph 1 .* which row 0"):
        stack_members(tables, lengths, "edges")
