"""GraphCRF(neighbours=...): the columns of neighbours beside those of a node, given or chosen on held-out nodes."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields import FieldSearchCV, GraphCRF, load
from kernelfields.data import Graphs, LabelSymmetry
from kernelfields.inputs import Neighbours

FIXED = {"kernel": "linear", "prior_variance": 1.0, "scale": False}


def joined_nodes(*given):
    """The columns of the nodes of graphs, with those of their neighbours."""
    graphs = Graphs.from_graphs(list(given))
    return graphs.split(Neighbours()(*graphs.tables[None][:2]))


def told_by_neighbours(seed=0, n_nodes=600, known=0.8):
    """A graph whose labels follow from the inputs of the neighbours, not from those of the node itself."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_nodes, 2))
    pairs = np.sort(random.integers(n_nodes, size=(2 * n_nodes, 2)), axis=1)
    edges = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    (joined,) = joined_nodes((x, edges))
    labels = (joined[:, 2] + 0.2 * random.normal(size=n_nodes) > 0).astype(int)
    seen = random.random(n_nodes) < known
    y = [int(label) if told else None for label, told in zip(labels, seen, strict=True)]
    return (x, edges), y, labels, seen


def test_columns_are_means_over_all_who_meet_a_node():
    x = np.arange(10.0).reshape(5, 2)
    edges = {"edge": [[0, 1], [2, 0]], "other": [[1, 0]], "triple": [[1, 2, 3]]}
    found, other = joined_nodes((x, edges), (x, {"edge": [[3, 4]]}))
    neighbours = [{1, 2}, {0, 2, 3}, {0, 1, 3}, {1, 2}, set()]
    for node, around in enumerate(neighbours):
        mean = x[sorted(around)].mean(axis=0) if around else x[node]
        np.testing.assert_allclose(found[node], [*x[node], *mean, np.log1p(len(around))])
    np.testing.assert_allclose(other[3, 2:], [*x[4], np.log(2)])


def test_a_single_graph_chooses_on_nodes_that_are_held_out():
    graph, y, labels, seen = told_by_neighbours()
    graph = (graph[0] * [1.0, 40.0], graph[1])
    crf = GraphCRF(random_state=0).fit([graph], [y])
    assert crf.choices_.chosen["neighbours"] is True
    tried = [trial.settings for trial in crf.choices_.trials]
    assert {own["neighbours"] for own in tried} == {False, True}
    assert {own["kernel"] for own in tried} >= {"rbf", "laplacian", "forest"}
    assert crf.get_params()["neighbours"] == "auto"
    assert crf.n_features_in_ == 2
    accuracy = [
        np.mean(np.asarray(each.predict([graph])[0])[~seen] == labels[~seen])
        for each in (crf, GraphCRF(neighbours=False, random_state=0).fit([graph], [y]))
    ]
    assert accuracy[0] > 0.8 > accuracy[1] + 0.1
    assert "neighbours True" in str(crf.choices_)


def test_given_columns_of_neighbours_have_their_parameters_chosen():
    graph, y, labels, seen = told_by_neighbours()
    crf = GraphCRF(neighbours=True, random_state=0).fit([graph], [y])
    assert crf.choices_.trials
    assert not any("neighbours" in trial.settings for trial in crf.choices_.trials)
    assert np.mean(np.asarray(crf.predict([graph])[0])[~seen] == labels[~seen]) > 0.8


def test_what_gains_nothing_is_left_out():
    (x, edges), y, _, _ = told_by_neighbours()
    own = [None if label is None else int(row[0] > 0) for label, row in zip(y, x, strict=True)]
    crf = GraphCRF(random_state=0).fit([(x, edges)], [own])
    assert crf.choices_.chosen["neighbours"] is False
    assert not crf._reader.steps.has_step(Neighbours)


def test_few_labelled_nodes_are_decided_by_rule():
    graph, y, _, _ = told_by_neighbours(known=0.3)
    crf = GraphCRF(random_state=0).fit([graph], [y])
    assert crf.choices_.trials == ()
    assert crf.choices_.chosen["prior_variance"] == 1.0


@pytest.mark.parametrize("scale", [True, "auto"])
def test_the_choice_is_kept_in_files(tmp_path, scale):
    (x, edges), y, _, _ = told_by_neighbours(n_nodes=400)
    graph = (x * [1.0, 40.0], edges)
    crf = GraphCRF(scale=scale, random_state=0).fit([graph], [y])
    assert crf.choices_.chosen["neighbours"]
    assert crf.scale_
    crf.save(tmp_path / "model.kf")
    again = load(tmp_path / "model.kf")
    np.testing.assert_allclose(again.predict_marginals([graph])[0], crf.predict_marginals([graph])[0], atol=1e-12)


def test_joined_by_hand_and_by_the_field_is_the_same():
    graph, y, _, _ = told_by_neighbours()
    joined = (joined_nodes(graph)[0], graph[1])
    inside, outside = GraphCRF(neighbours=True, **FIXED), GraphCRF(neighbours=False, **FIXED)
    found, expected = inside.fit([graph], [y]), outside.fit([joined], [y])
    np.testing.assert_allclose(found.coef_["node"], expected.coef_["node"])
    np.testing.assert_allclose(found.predict_marginals([graph])[0], expected.predict_marginals([joined])[0])
    names = {row["feature"] for row in found.weights(feature_names=["a", "b"]).to_rows()}
    assert names - {None} == {"a", "b", "neighbours' a", "neighbours' b", "log(1 + degree)"}
    with pytest.raises(ValueError, match="has 5 names, but the inputs have 2 features"):
        found.weights(feature_names=list("abcde"))


def test_a_search_keeps_to_the_columns_it_is_given():
    graph, y, _, _ = told_by_neighbours(n_nodes=60)
    graphs, labels = [graph] * 4, [y] * 4
    for neighbours, width in (("auto", 2), (True, 5)):
        field = GraphCRF(neighbours=neighbours, scale=False, random_state=0)
        search = FieldSearchCV(field, kernels="linear", prior_variances=[1.0], cv=2)
        assert search.fit(graphs, labels).best_estimator_.coef_["node"].shape[0] == width
    uneven = (graph[0] * [1.0, 40.0], graph[1])
    search = FieldSearchCV(GraphCRF(random_state=0), prior_variances=[1.0], cv=2, halving=False)
    assert search.fit([uneven] * 2, [y] * 2).best_estimator_.n_features_in_ == 2
    assert not search.best_estimator_._reader.steps.has_step(Neighbours)


def test_bad_input():
    graph, y, _, _ = told_by_neighbours()
    with pytest.raises(ValueError, match="neighbours"):
        GraphCRF(neighbours="yes").fit([graph], [y])
    with pytest.raises(TypeError, match="node_features are sparse: means over neighbours are for dense arrays"):
        GraphCRF(neighbours=True, **FIXED).fit([(sp.csr_array(graph[0]), graph[1])], [y])
    with pytest.raises(ValueError, match="ties move columns"):
        GraphCRF(neighbours=True, ties=[LabelSymmetry({0: 1, 1: 0})], **FIXED).fit([graph], [y])
