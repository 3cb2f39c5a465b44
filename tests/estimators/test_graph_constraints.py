"""Constraints on the edges of graphs and rings: what contradicts them is named, and fits know them."""

import itertools

import numpy as np
import pytest

from kernelfields import GraphCRF, PartialLabels, RingCRF

GRAPHS = {
    "two edges into one node": [[1, 0], [2, 0]],
    "star": [[0, 1], [2, 0], [0, 3]],
    "circle": [[0, 1], [2, 1], [2, 3], [0, 3]],
}


def fitted(edges, method="auto", constraints=(("a", "a"), ("b", "c"))):
    """Return a field on graphs of these edges, and one graph."""
    random, edges = np.random.default_rng(0), np.array(edges, dtype=int).reshape(-1, 2)
    X = [(random.normal(size=(4, 2)), edges) for _ in range(9)]
    legal = [list(labels) for labels in labellings() if allowed(labels, edges, constraints)]
    y = [legal[number] for number in random.integers(len(legal), size=9)]
    y[0] = ["a", "b", "b", "c"] if allowed("abbc", edges, constraints) else ["c", "b", "a", "b"]
    settings = {"constraints": list(constraints), "inference": method, "prior_variance": 1.0}
    return GraphCRF("linear", **settings).fit(X, y), X[3]


def labellings(n_nodes=4):
    return itertools.product("abc", repeat=n_nodes)


def allowed(labels, edges, constraints=(("a", "a"), ("b", "c"))):
    return all((labels[v], labels[w]) not in constraints for v, w in edges)


@pytest.mark.parametrize("method", ["trw", "mean-field"])
def test_approximate_inference_says_contradictions_that_edges_show(method):
    model, x = fitted(GRAPHS["circle"])
    model.set_params(inference=method)
    with pytest.raises(ValueError, match="known: graph 1: what y says of its labels contradicts the constraints"):
        model.predict([x, x], known=[[None] * 4, ["a", {"a"}, None, None]])


def test_labels_that_constraints_forbid_are_named_by_node_and_edge():
    model, x = fitted(GRAPHS["star"], constraints=(("a", "a"),))
    with pytest.raises(ValueError, match="known: graph 0: an edge joins node 2, labelled 'a', to node 0, labelled 'a'"):
        model.predict([x], known=[["a", "b", "a", "c"]])
    X, y = [x, x], [["a", "b", "c", "b"], ["a", "b", None, "a"]]
    with pytest.raises(ValueError, match="graph 1: what y says of its labels contradicts the constraints"):
        GraphCRF("linear", constraints=[("a", "a")], partial_labels=PartialLabels()).fit(X, y)
    with pytest.raises(ValueError, match="graph 0, node 3: label 'b' is forbidden everywhere by the constraints"):
        GraphCRF("linear", constraints={"labels": ["b"]}).fit(X[:1], [["a", "c", "c", "b"]])


def test_partly_known_labels_are_fitted_whatever_order_the_nodes_have():
    """Nodes 1 and 2 of a star are no neighbours: the same fit as with the nodes in another order."""
    random, order = np.random.default_rng(2), np.array([2, 0, 1, 3])
    edges = np.array(GRAPHS["star"])
    X = [(random.normal(size=(4, 2)), edges) for _ in range(8)]
    y = [["b", "a", "a", "a"], ["a", None, "c", "b"], ["c", "a", None, "a"], [None, "a", "a", None]] * 2
    turned = [(x[order], np.argsort(order)[edges]) for x, _ in X], [[own[v] for v in order] for own in y]
    settings = {"constraints": [("a", "a")], "partial_labels": PartialLabels(), "prior_variance": 1.0, "tol": 1e-8}
    one, other = (GraphCRF("linear", **settings).fit(*data) for data in ((X, y), turned))
    assert one.solution_.value == pytest.approx(other.solution_.value, rel=1e-7)
    logs = one.log_likelihood(X, y, per_item=True), other.log_likelihood(*turned, per_item=True)
    np.testing.assert_allclose(*logs, rtol=1e-3)


def test_edges_of_three_nodes_have_no_pairs_to_forbid():
    x = (np.zeros((4, 1)), {"edge": np.array([[0, 1, 2]])})
    with pytest.raises(ValueError, match="these have pairs named none"):
        GraphCRF("linear", constraints=[("a", "a")]).fit([x], [["a", "b", "a", "c"]])


def rings():
    random = np.random.default_rng(0)
    X = [random.normal(size=(4, 2)) for _ in range(6)]
    return X, [["a", "b", "c", "b"], ["a", "c", "b", "b"], ["b", "c", "c", "b"]] * 2


def test_rings_say_contradictions_of_the_closing_step():
    X, y = rings()
    model = RingCRF("linear", constraints=[("a", "a")]).fit(X, y)
    assert model.log_likelihood(X[:1], [["a", None, None, "a"]]) == -np.inf
    with pytest.raises(ValueError, match="known: sequence 1: what y says of its labels contradicts the constraints"):
        model.predict(X[:2], known=[["a", None, "a", None], ["a", None, None, "a"]])
    with pytest.raises(ValueError, match="sequence 0: what y says of its labels contradicts the constraints"):
        RingCRF("linear", constraints=[("a", "a")], partial_labels=PartialLabels()).fit(
            X, [["a", None, "b", "a"], *y[1:]]
        )


def test_rings_that_constraints_leave_no_labelling_are_named():
    """Two labels that may not follow themselves need an even length."""
    X, _ = rings()
    model = RingCRF("linear", constraints=[("a", "a"), ("b", "b")]).fit(X, [list("abab"), list("baba")] * 3)
    with pytest.raises(ValueError, match="sequence 1: the constraints leave no labelling of a ring of its length, 3"):
        model.predict([X[0], X[1][:3]])
    assert model.predict([X[0][:1]])[0][0] in ("a", "b")


def check_explanations(model, x, n_nodes=4):
    """Compare explained differences with those of log-likelihoods, for every legal labelling and other label."""
    every = [list(labels) for labels in labellings(n_nodes)]
    logs = dict(zip(map(tuple, every), model.log_likelihood([x] * len(every), every, per_item=True), strict=True))
    infinite = 0
    for labels in every[:: len(every) // 12]:
        if logs[tuple(labels)] == -np.inf:
            continue
        for against in "abc":
            for position in model.explain(x, labels, against=against).positions:
                rival = list(labels)
                rival[position.position] = position.other
                expected = logs[tuple(labels)] - logs[tuple(rival)]
                assert position.difference == pytest.approx(expected, abs=1e-9)
                assert bool([part for part in position.contributions if part.kind == "rule"]) == np.isinf(expected)
                infinite += np.isinf(expected)
    return infinite


def test_explained_rules_name_the_other_end_of_an_edge():
    model, x = fitted(GRAPHS["two edges into one node"], constraints=(("b", "a"),))
    position = model.explain(x, list("bbcb"), against="a", tokens=["w", "x", "y", "z"]).positions[0]
    rules = [part.name for part in position.contributions if part.kind == "rule"]
    assert rules == ["a is forbidden after x (b) by the constraints"]


def test_explained_rules_of_rings_hold_the_closing_step():
    X, _ = rings()
    model = RingCRF("linear", constraints=[("a", "a"), ("c", "b")]).fit(X, [list("abcc"), list("bbca")] * 3)
    assert check_explanations(model, X[1]) > 0
    position = model.explain(X[0], list("abbb"), against="a").positions[3]
    assert [part.name for part in position.contributions if part.kind == "rule"] == [
        "a is forbidden before a by the constraints"
    ]
