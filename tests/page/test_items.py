"""Graphs, instances of several labels and single inputs on the page, sets of labels, and labels that may be wrong."""

import numpy as np
import pytest
from sentences import city_model, sentences

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF, SequenceClassifier
from kernelfields.page import LabellingSession

RING = [[0, 1], [1, 2], [2, 3], [3, 0]]


def graphs(count, seed=0):
    random, X, y = np.random.default_rng(seed), [], []
    for _ in range(count):
        labels = np.repeat(random.integers(2, size=1), 4)
        X.append((np.column_stack([labels + 0.7 * random.normal(size=4), random.normal(size=4)]), RING))
        y.append(np.where(labels == 1, "warm", "cold").tolist())
    return X, y


def instances(count, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(2, size=(count, 1)) * np.ones((1, 3), dtype=int)
    return y + 0.8 * random.normal(size=y.shape), y.astype(float)


def test_nodes_of_a_graph_are_decoded_given_those_that_are_fixed():
    X, y = graphs(30)
    model = GraphCRF("linear", prior_variance=1.0, random_state=0).fit(X, y)
    new, _ = graphs(12, seed=1)
    session = LabellingSession(new, None, model)
    shown = session.show(0)
    assert session.state()["shape"] == "graph"
    assert shown["edges"] == [(0, 1), (0, 3), (1, 2), (2, 3)]
    places = np.array(shown["places"])
    assert np.linalg.norm(places[0] - places[1]) < np.linalg.norm(places[0] - places[2])
    assert shown["names"] == ["0", "1", "2", "3"]
    assert [row[0] for row in shown["cells"]] == ["1, 3", "0, 2", "1, 3", "0, 2"]
    assert shown["heads"] == ["beside", "0", "1"]
    label = shown["positions"][0]["label"]
    other = "cold" if label == "warm" else "warm"
    after = session.change(0, 0, [[0, [other]], [2, [other]]])["positions"]
    expected = model.predict(new[:1], known=[[other, None, other, None]])[0]
    assert [own["label"] for own in after] == list(expected)
    assert session.labels()[0] == [other, None, other, None]
    assert len(session.best(0)) == 4
    explained = session.explain(0, 1)  # of the labels on the page, given those that are fixed
    assert explained["label"] == after[1]["label"]
    assert explained["position"] == 1
    assert {entry["item"] for entry in session.queue("doubtful")} == set(range(12))


def test_named_nodes_of_networkx():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_node("a", x=[0.0])
    graph.add_node("b", x=[1.0])
    graph.add_edge("a", "b")
    shown = LabellingSession([graph], None, GraphCRF(), classes=["u", "v"]).show(0)
    assert shown["names"] == ["a", "b"]
    assert [row[0] for row in shown["cells"]] == ["b", "a"]


@pytest.mark.slow
def test_several_labels_from_a_few_to_a_model():
    X, y = instances(60)
    partly = y.copy()
    partly[20:] = np.nan
    session = LabellingSession(X, partly, MultiLabelCRF("linear", prior_variance=1.0, random_state=0))
    assert session.state()["known"] == 60
    assert "is in place" in session.refit(wait=True)
    shown = session.show(30)
    assert [own["label"] in (0, 1) for own in shown["positions"]] == [True] * 3
    assert shown["text"].startswith("0 = ")
    after = session.change(30, 0, [[0, [1]], [1, [1]]])["positions"]
    known = np.array([[1.0, 1.0, np.nan]])
    chance = session.model.predict_proba(X[30:31], known=known)[0, 2]
    assert after[2]["p"] == pytest.approx(chance if after[2]["label"] else 1 - chance, abs=1e-4)
    np.testing.assert_array_equal(session.labels()[30], known[0])
    assert "may be wrong" in session.check(wait=True)


def test_labels_of_a_frame_stay_a_frame():
    pandas = pytest.importorskip("pandas")
    X, y = instances(4)
    session = LabellingSession(X, pandas.DataFrame(y, columns=["red", "green", "blue"]), MultiLabelCRF())
    assert session.show(0)["names"] == ["red", "green", "blue"]
    assert list(session.labels().columns) == ["red", "green", "blue"]


def test_single_inputs():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, "plus", "minus").tolist()
    session = LabellingSession(X, [*y[:20], *[None] * 20], KernelClassifier("linear", prior_variance=1.0))
    assert "in place" in session.refit(wait=True)
    shown = session.show(25)
    assert shown["positions"][0]["label"] == y[25]
    session.change(25, 0, [[0, ["plus", "minus"]]])
    assert session.labels()[25] == {"plus", "minus"}
    assert session.explain(25, 0)["contributions"]
    assert session.show(25)["text"].startswith("0 = ")


def test_whole_sequences_have_one_label():
    random = np.random.default_rng(0)
    X = [random.normal(size=(5, 1)) + (i % 2) for i in range(12)]
    model = SequenceClassifier(n_states=1, random_state=0).fit(X, ["low", "high"] * 6)
    session = LabellingSession(X, None, model)
    assert session.show(1)["text"] == "5 positions"
    assert session.show(1)["positions"][0]["label"] in ("low", "high")


@pytest.mark.slow
def test_labels_that_may_be_wrong_come_first_until_they_are_changed():
    X, y = sentences(40, seed=2)
    item = next(i for i, words in enumerate(X) if "York" in words)
    place = X[item].index("York")
    y[item][place] = "O"
    session = LabellingSession(X, y, city_model(), words=X)
    assert "may be wrong" in session.check(wait=True)
    assert session.queue("suspicious")[0]["item"] == item
    assert session.show(item)["positions"][place]["suspect"] == "city"
    after = session.change(item, 0, [[place, ["I-city"]]])
    assert not any("suspect" in own for own in after["positions"])
    assert session.queue("suspicious")[0]["item"] != item


def test_bad_items():
    X, y = instances(3)
    with pytest.raises(ValueError, match="y must have a column for each label"):
        LabellingSession(X, None, MultiLabelCRF())
    with pytest.raises(ValueError, match="among 5 labelled items or more, got 3"):
        LabellingSession(X, y, MultiLabelCRF()).check()
    with pytest.raises(TypeError, match="the page labels sequences, graphs, instances and single inputs"):
        LabellingSession(X, None, object())
    with pytest.raises(ValueError, match="y holds labels of 2 items, and there are 3"):
        LabellingSession([X, X, X], [["a"] * 3] * 2, ChainCRF())
