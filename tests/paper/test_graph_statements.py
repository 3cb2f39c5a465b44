"""Sections 3 and 4 beyond chains: a fitted graph is a Markov network, and edges without labels do not matter."""

import itertools

import numpy as np
import pytest

from kernelfields import GraphCRF, GraphFactors
from kernelfields.data import GraphNodes, grid_edges

TIGHT = {"tol": 1e-12, "max_iter": 2000}
EDGES = grid_edges(2, 3)


def grids(seed=0, n_graphs=12):
    random = np.random.default_rng(seed)
    X = [(random.normal(size=(6, 2)), EDGES, random.normal(size=(len(EDGES), 2))) for _ in range(n_graphs)]
    return X, [random.integers(2, size=6) for _ in X]


@pytest.mark.parametrize("node", range(6))
def test_theorem_4_a_label_of_a_grid_depends_on_its_neighbours_only(node):
    X, y = grids()
    crf = GraphCRF("linear", random_state=0).fit(X, y)
    labellings = np.array(list(itertools.product([0, 1], repeat=6)))
    log_probability = crf.log_likelihood([X[0]] * 64, list(labellings), per_item=True)
    assert np.exp(log_probability).sum() == pytest.approx(1.0, abs=1e-10)
    touching = EDGES[(node == EDGES).any(axis=1)]
    neighbours = sorted(set(touching.ravel().tolist()) - {node})
    number = labellings @ (1 << np.arange(6))
    flipped = np.argsort(number)[np.searchsorted(np.sort(number), number ^ (1 << node))]
    log_odds = (log_probability - log_probability[flipped])[labellings[:, node] == 1]
    seen = labellings[labellings[:, node] == 1][:, neighbours]
    for blanket in np.unique(seen, axis=0):
        alike = log_odds[(seen == blanket).all(axis=1)]
        assert len(alike) == 2 ** (5 - len(neighbours))
        np.testing.assert_allclose(alike, alike[0], atol=1e-9)
    assert np.ptp(log_odds) > 1e-3


def test_lemma_12_features_of_edges_alone_get_no_weight():
    X, y = grids()
    crf = GraphCRF("linear", **TIGHT).fit(X, y)
    weights = crf.coef_["edge features"]
    np.testing.assert_allclose(weights.sum(axis=1), 0.0, atol=1e-6)
    assert np.abs(weights).max() > 1e-2
    np.testing.assert_allclose(crf.edge_scores_["edge"].sum(), 0.0, atol=1e-6)


def test_lemma_5_the_kernel_of_a_graph_sums_over_its_cliques():
    """The norm of the fit, and its scores, by the kernel of whole graphs: nodes and edges, tied within a type."""
    X, y = grids(n_graphs=4)
    cliques = [GraphNodes("linear"), GraphFactors("linear", name="edge features")]
    crf = GraphCRF(cliques=cliques, **TIGHT).fit(X, y)
    labellings = np.array(list(itertools.product([0, 1], repeat=6)))

    def statistics(graph, labels):
        x, edges, features = graph
        nodes = np.eye(2)[labels].T @ x
        pairs = np.eye(4)[2 * labels[edges[:, 0]] + labels[edges[:, 1]]].T @ features
        return np.concatenate([nodes.ravel(), pairs.ravel()])

    # At the optimum the field is s times the observed minus the expected statistics (representer theorem), so
    # every score is a sum of kernels of whole graphs, k = <Phi, Phi'>.
    field = np.zeros(2 * 2 + 4 * 2)
    for graph, labels in zip(X, y, strict=True):
        probability = np.exp(crf.log_likelihood([graph] * 64, list(labellings), per_item=True))
        expected = probability @ np.array([statistics(graph, each) for each in labellings])
        field += statistics(graph, labels) - expected
    new = grids(seed=1, n_graphs=1)[0][0]
    scores = np.array([statistics(new, each) @ field for each in labellings])
    log_probability = crf.log_likelihood([new] * 64, list(labellings), per_item=True)
    np.testing.assert_allclose(scores - np.logaddexp.reduce(scores), log_probability, atol=1e-4)
