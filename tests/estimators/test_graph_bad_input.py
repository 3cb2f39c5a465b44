"""Bad input to GraphCRF is refused with the graph, the row and what to do; odd but sound input works."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from kernelfields import GraphCRF
from kernelfields.data import grid_edges

CHAIN = np.array([[0, 1], [1, 2], [2, 3]])
LABELS = np.array(["a", "b", "a", "b"])


def nodes(count=4, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 2))


def graphs(*last):
    """Good graphs, then the given one: messages must say graph 3."""
    X = [(nodes(seed=seed), CHAIN) for seed in range(3)]
    return [*X, *last], [LABELS] * (3 + len(last))


def fitted(**parameters):
    return GraphCRF("linear", **parameters).fit(*graphs())


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([[0, 1], [2, 2]], "row 1 of edges of graph 3 joins node 2 with itself: remove self loops"),
        (
            [[0, 1], [1, 2], [0, 1]],
            r"row 2 of edges of graph 3 joins the nodes \[0, 1\], which row 0 joins already",
        ),
        ([[0, 1], [1, 0]], "row 1 of edges of graph 3 .* does not make another edge"),
        ([[0, 1], [0, 4]], "row 1 of edges of graph 3 names node 4, but the graph has 4 nodes, 0 to 3"),
        ([[-1, 1]], "row 0 of edges of graph 3 names node -1"),
        ([[0.5, 1.0]], "edges of graph 3 holds float64 values"),
        ([[0, 1, 2]], r"edges of graph 3 has shape \(1, 3\), expected \(edges, 2\)"),
        ({"edge": [[0, 1, 2]]}, "edges of graph 3 joins 3 nodes in a row"),
        ({"triple": [[0, 1, 1]]}, r"row 0 of edges\['triple'\] of graph 3 names a node twice"),
    ],
)
def test_wrong_edges_are_refused_in_fitting_and_in_prediction(edges, words):
    with pytest.raises(ValueError, match=words):
        GraphCRF("linear").fit(*graphs((nodes(), edges)))
    if not isinstance(edges, dict):
        with pytest.raises(ValueError, match=words):
            fitted().predict(graphs((nodes(), edges))[0])


@pytest.mark.parametrize(
    ("labels", "error", "words"),
    [
        (None, ValueError, "GraphCRF requires y to be passed, but the target y is None: give an array for each graph"),
        (3, TypeError, "y must be a list with one list or array of labels per graph, got int"),
        ([None, None, None], ValueError, "no node of y is labelled"),
    ],
    ids=["none", "a number", "none in the list"],
)
def test_graphs_need_labels_to_learn_from(labels, error, words):
    with pytest.raises(error, match=words):
        GraphCRF("linear").fit(graphs()[0], labels)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ((nodes(), CHAIN, np.ones((2, 1))), "edge_features of graph 3 has 2 rows but edges has 3"),
        ((nodes(), CHAIN, np.ones((3, 2))), "edge_features of graph 3 has 2 features but .* graph 0 has 1"),
        ((nodes(), CHAIN), "graph 3 has edges without edge_features, but graph 0 has them"),
        ((nodes(), CHAIN, np.full((3, 1), np.nan)), "edge_features of graph 3 holds nan in row 0"),
    ],
)
def test_edge_features_must_fit_the_edges(last, words):
    X, y = graphs(last)
    X = [(x, edges, np.ones((3, 1))) for x, edges in X[:3]] + X[3:]
    with pytest.raises(ValueError, match=words):
        GraphCRF("linear").fit(X, y)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a", "b", "a"], "graph 3 has 4 rows in X but 3 labels in y"),
        (["a", "b", {"c": -1.0}, "b"], "the weight of 'c' at graph 3, node 2 is -1.0"),
        ([0, 1, 0, 1], "graph 3"),
    ],
)
def test_labels_must_fit_the_nodes(labels, words):
    X, y = graphs((nodes(), CHAIN))
    with pytest.raises((ValueError, TypeError), match=words):
        GraphCRF("linear").fit(X, [*y[:3], labels])
    with pytest.raises(ValueError, match="X has 4 graphs but y has 3"):
        GraphCRF("linear").fit(X, y[:3])
    with pytest.raises(ValueError, match="one class only, 'a'"):
        GraphCRF("linear").fit(X, [["a"] * 4] * 4)


@pytest.mark.parametrize("ask", ["log_likelihood", "certify"])
def test_labels_outside_those_of_the_fit_are_named(ask):
    X, y = graphs()
    with pytest.raises(ValueError, match="unknown label 'c' at graph 1, node 2: known are 'a', 'b'"):
        getattr(fitted(), ask)(X, [y[0], ["a", "b", "c", "b"], y[2]])


@pytest.mark.slow
def test_a_treewidth_that_does_not_fit_says_width_memory_and_alternatives():
    X, y = [(nodes(900), grid_edges(30, 30))], [np.tile(["a", "b", "c", "d", "e", "f"], 150)]
    with pytest.raises(MemoryError, match=r"graph 0, width \d+ or more, 6 labels\), so .* GiB .*\"trw\", \"loopy\""):
        GraphCRF("linear", inference="junction").fit(X, y)
    with pytest.raises(ValueError, match=r'graph 0 have a cycle through nodes .*"junction", or "trw"'):
        GraphCRF("linear", inference="tree").fit(X, y)
    with pytest.raises(MemoryError, match=r"graph 0, width \d+ or more"):
        fitted(inference="junction").predict(X)
    crf = GraphCRF("linear", tol=0.9, inference="auto").fit(X, y)
    assert crf.inference_.method == "trw"
    assert "approximate: exact inference needs tables" in crf.inference_.description


@pytest.mark.parametrize("edges", [[], np.zeros((0, 2), int), np.zeros((0, 2)), {}, None], ids=str)
def test_graphs_without_edges_are_single_nodes(edges):
    X, y = graphs()
    entry = {"x": X[0][0], "edges": edges} if edges is None else (X[0][0], edges)
    crf = fitted()
    alone = crf.predict_marginals([(x[None], []) for x in X[0][0]])
    np.testing.assert_allclose(crf.predict_marginals([entry])[0], np.vstack(alone), atol=1e-12)
    bare = GraphCRF("linear", tol=1e-9, max_iter=1000).fit([(x, []) for x, _ in X], y)
    singles = GraphCRF("linear", tol=1e-9, max_iter=1000).fit(
        [(row[None], []) for x, _ in X for row in x], [[label] for labels in y for label in labels]
    )
    assert bare.solution_.value == pytest.approx(singles.solution_.value, rel=1e-8)


def test_prediction_needs_a_fit_and_known_types():
    X, _ = graphs()
    with pytest.raises(NotFittedError):
        GraphCRF().predict(X)
    with pytest.raises(ValueError, match="graph 0 has edges of the type 'far', known are 'edge'"):
        fitted().predict([(nodes(), {"far": [[0, 1]]})])
    with pytest.raises(ValueError, match="sample_weight holds one number per graph, 3 here"):
        GraphCRF("linear").fit(*graphs(), [1.0, 2.0])
