"""GraphCRF and MultiLabelCRF explained, tabulated, drawn and listed: sums that agree with the field's own scores."""

import math
from functools import cache

import numpy as np
import pytest

from kernelfields import EdgeCliques, GraphCRF, GraphFactors, MultiLabelCRF
from kernelfields.data import grid_edges
from kernelfields.kernels import RBF

SETTINGS = {"tol": 1e-2, "n_jobs": 1, "random_state": 0}


def graphs(n_graphs=6, seed=0):
    """Cycles with a chord and features of edges, and paths; labels by the first feature."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for index in range(n_graphs):
        size = 4 + index % 2
        edges = [[v, v + 1] for v in range(size - 1)] + ([[0, size - 1], [0, 2]] if index % 2 else [])
        x = random.normal(size=(size, 2))
        X.append((x, np.array(edges), random.normal(size=(len(edges), 2))))
        y.append(np.array(["a", "b", "c"])[np.digitize(x[:, 0], [-0.5, 0.5])])
    return X, y


X, Y = graphs()


FIELDS = {
    "linear": {"kernel": "linear"},
    "kernels": {"kernel": RBF(0.3), "edges": GraphFactors(RBF(0.2)), "rank": 6},
    "symmetric": {"kernel": "linear", "edges": GraphFactors(symmetric=True)},
}


@cache
def fitted(name):
    return GraphCRF(**FIELDS[name], **SETTINGS).fit(X, Y)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("graph", [0, 1])
def test_contributions_add_up_to_differences_of_log_probabilities(name, graph):
    crf, x = fitted(name), X[graph]
    for given in (None, Y[graph]):
        explanation = crf.explain(x, given)
        labels = np.array([each.label for each in explanation.positions])
        whole = crf.log_likelihood([x], [labels])
        for v, each in enumerate(explanation.positions):
            other = labels.copy()
            other[v] = each.other
            summed = math.fsum(term.amount for term in each.contributions) + each.more_amount
            assert summed == pytest.approx(each.difference, abs=1e-9)
            assert each.difference == pytest.approx(whole - crf.log_likelihood([x], [other]), abs=1e-8)
            for term in each.contributions:
                if term.parts and term.parts[0].kind != "similar":
                    assert math.fsum(part.amount for part in term.parts) == pytest.approx(term.amount, abs=1e-9)


def test_edges_are_named_by_where_they_lead():
    crf = fitted("linear")
    explanation = crf.explain(X[1], Y[1], tokens=list("uvwxy"), feature_names=["height", "width"])
    names = {term.name for term in explanation.positions[0].contributions}
    assert {f"edge with v ({Y[1][1]})", f"edge with y ({Y[1][4]})", f"edge with w ({Y[1][2]})"} <= names
    assert "height" in names
    assert f"e0, edge with v ({Y[1][1]})" in {
        term.name for term in crf.explain(X[1], Y[1], top=99, tokens=list("uvwxy")).positions[0].contributions
    }


def test_larger_factors_are_explained():
    random = np.random.default_rng(0)
    triples = [(random.normal(size=(3, 1)), {"triple": [[0, 1, 2]]}) for _ in range(8)]
    labels = [np.array([a, b, a ^ b]) for a, b in random.integers(2, size=(8, 2))]
    crf = GraphCRF("linear", **SETTINGS).fit(triples, labels)
    explanation = crf.explain(triples[0], labels[0])
    first = next(t for t in explanation.positions[1].contributions if t.clique_set == "triple")
    assert first.name == f"triple with 0 ({labels[0][0]}) and 2 ({labels[0][2]})"
    table = crf.edge_scores_["triple"]
    a, b, c = labels[0]
    assert first.amount == pytest.approx(table[a, b, c] - table[a, 1 - b, c])
    assert "8 scores of 3 labels" in str(crf.weights())


def test_weights_are_those_of_the_field():
    crf = fitted("linear")
    table = crf.weights(top=None, feature_names=["height", "width"])
    rows = {(row["set"], row["previous"], row["label"], row["feature"]): row["weight"] for row in table.to_rows()}
    for j, label in enumerate("abc"):
        assert rows["node", None, label, "height"] == crf.coef_["node"][0, j]
    assert rows["edge", "a", "b", None] == crf.edge_scores_["edge"][0, 1]
    assert rows["edge features", "a", "c", "e1"] == crf.coef_["edge features"][1, 2]
    text = str(table)
    assert "edge, from row to column" in text
    assert "edge features: pairs of labels by feature" in text
    named = crf.weights(feature_names={"edge": ["near", "far"]}, feature_re="near")
    assert {row["feature"] for row in named.to_rows() if row["set"] == "edge features"} == {"near"}
    assert "no weights per feature" in str(fitted("kernels").weights())
    assert "from row to column" not in str(fitted("symmetric").weights())
    with pytest.raises(ValueError, match="feature_names of 'node' has 1 names, but the inputs have 2 features"):
        crf.weights(feature_names=["one"])


def test_a_summary_says_what_nodes_and_edges_see():
    text = str(fitted("linear").summary())
    assert "one node, explicit features" in text
    assert "one edge, explicit features" in text
    assert "of the best field in the whole RKHS" in text
    rough = GraphCRF("linear", inference="trw", **SETTINGS).fit(X, Y)
    assert "among" not in str(rough.summary())


def test_approximate_inference_lists_nothing():
    crf = GraphCRF("linear", inference="trw", **SETTINGS).fit(X, Y)
    with pytest.raises(ValueError, match="the n best labellings need exact inference"):
        crf.predict_nbest(X, 2)


def test_a_shown_graph_has_the_labels_and_probabilities_of_the_field():
    crf = fitted("linear")
    shown = crf.show(X[1], Y[1], tokens=list("uvwxy"), caption="one")
    assert list(shown.labels) == list(crf.predict([X[1]])[0])
    np.testing.assert_array_equal(shown.marginals, crf.predict_marginals([X[1]])[0])
    np.testing.assert_array_equal(shown.edges["edge"], X[1][1])
    random = np.random.default_rng(1)
    images = [(random.normal(size=(12, 1)), grid_edges(3, 4, by_direction=True)) for _ in range(4)]
    pixels = [(x[:, 0] > 0).astype(int) for x, _ in images]
    assert GraphCRF("linear", **SETTINGS).fit(images, pixels).show(images[0]).grid_shape() == (3, 4)


@pytest.mark.parametrize("kernel", ["linear", RBF(0.3)])
def test_labels_of_an_instance_are_explained_by_features_and_by_each_other(kernel):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(40, 3))
    labels = (inputs @ random.normal(size=(3, 3)) + random.normal(size=(40, 1)) > 0).astype(int)
    crf = MultiLabelCRF(kernel, rank=5, edges=EdgeCliques("linear"), **SETTINGS).fit(inputs, labels)
    for given in (None, [1, 0, 1]):
        explanation = crf.explain(inputs[0], given)
        chosen = np.array([each.label for each in explanation.positions])
        for k, each in enumerate(explanation.positions):
            other = chosen.copy()
            other[k] = 1 - other[k]
            logs = [crf.log_likelihood(inputs[:1], row[None]) for row in (chosen, other)]
            assert each.difference == pytest.approx(logs[0] - logs[1], abs=1e-8)
    assert any("is not there" in term.name for term in explanation.positions[0].contributions)
    with pytest.raises(ValueError, match="explain takes one instance, got 2"):
        crf.explain(inputs[:2])


def test_weights_of_several_labels_are_log_odds():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(40, 2))
    labels = (inputs @ random.normal(size=(2, 3)) > 0).astype(int)
    crf = MultiLabelCRF("linear", **SETTINGS).fit(inputs, labels)
    table = crf.weights(top=None, feature_names=["u", "v"])
    rows = {(row["set"], row["previous"], row["label"], row["feature"]): row["weight"] for row in table.to_rows()}
    assert rows["label", None, 1, "v"] == crf.coef_["label 1"][1]
    assert rows["bias", None, 2, None] == crf.coef_["bias 2"][0]
    assert rows["log odds ratios of pairs", 0, 1, None] == crf.edge_scores_[0, 1]
    assert np.isnan(table.tables["log odds ratios of pairs"][1, 1])
    assert [row["label"] for row in crf.weights(labels=[2], top=1).to_rows() if row["set"] == "label"] == [2]
    assert "no weights per feature" in str(MultiLabelCRF(RBF(0.5), **SETTINGS).fit(inputs, labels).weights())
