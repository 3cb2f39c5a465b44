"""NeighbourFeatures: graphs whose nodes have the means of their neighbours' columns, too."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

from kernelfields import GraphCRF, load, save
from kernelfields.features import NeighbourFeatures

RANDOM = np.random.default_rng(0)
X = [RANDOM.normal(size=(size, 2)) for size in (4, 6)]
PATHS = [np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))]) for x in X]
GRAPHS = list(zip(X, PATHS, strict=True))
Y = [np.arange(len(x)) % 2 for x in X]
FIXED = {"kernel": "linear", "prior_variance": 1.0, "scale": False}


def test_graphs_keep_their_form():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from((node, {"x": row}) for node, row in enumerate(X[0]))
    graph.add_edges_from(PATHS[0].tolist(), x=[1.0])
    strengths = np.ones((len(PATHS[0]), 1))
    given = [(X[0], PATHS[0], strengths), {"x": X[0], "edges": PATHS[0], "edge_features": strengths}, graph]
    joined, parts, read = NeighbourFeatures().fit_transform(given)
    np.testing.assert_allclose(joined[0][0], [*X[0][0], *X[0][1], np.log(2)])
    np.testing.assert_allclose(joined[0][1, 2:], [*(X[0][0] + X[0][2]) / 2, np.log(3)])
    assert joined[2] is strengths
    assert set(parts) == {"x", "edges", "edge_features"}
    np.testing.assert_array_equal(parts["x"], joined[0])
    np.testing.assert_array_equal(read["x"], joined[0])
    GraphCRF(**FIXED).fit([joined, parts, read], [Y[0]] * 3)


def test_in_front_of_a_field_it_is_neighbours_true(tmp_path):
    model = make_pipeline(NeighbourFeatures(), GraphCRF(**FIXED)).fit(GRAPHS, Y)
    inside = GraphCRF(neighbours=True, **FIXED).fit(GRAPHS, Y)
    save(model, tmp_path / "model.kf")
    joined, again = model[:-1].transform(GRAPHS), load(tmp_path / "model.kf")
    expected = model[-1].predict_marginals(joined)
    for found in (inside.predict_marginals(GRAPHS), again[-1].predict_marginals(again[:-1].transform(GRAPHS))):
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-12)


def test_columns_have_names():
    frames = [(pd.DataFrame(x, columns=["age", "size"]), path) for x, path in GRAPHS]
    made = NeighbourFeatures().fit(frames)
    expected = ["age", "size", "neighbours' age", "neighbours' size", "log(1 + degree)"]
    assert made.get_feature_names_out().tolist() == expected
    assert NeighbourFeatures().fit(GRAPHS).get_feature_names_out()[2] == "neighbours' x0"
    again = NeighbourFeatures.rebuild(made.describe())
    with pytest.raises(ValueError, match="Graph 0: they must be in the same order"):
        again.transform([(x[["size", "age"]], path) for x, path in frames])


def test_bad_input():
    with pytest.raises(TypeError, match="node_features are sparse"):
        NeighbourFeatures().fit([(sp.csr_array(x), path) for x, path in GRAPHS])
    with pytest.raises(ValueError, match="X must be a list of graphs"):
        NeighbourFeatures().fit(GRAPHS[0])
    with pytest.raises(ValueError, match="X has 3 columns, but NeighbourFeatures was fitted with 2"):
        NeighbourFeatures().fit(GRAPHS).transform([(np.zeros((2, 3)), [])])
    assert NeighbourFeatures().fit(GRAPHS).transform([]) == []
