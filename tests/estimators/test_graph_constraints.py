"""Constraints on the edges of graphs against the list of all labellings: triangles, stars, edges of any direction."""

import itertools

import numpy as np
import pytest

from kernelfields import GraphCRF

GRAPHS = {
    "triangle": [[0, 1], [1, 2], [0, 2]],
    "two edges into one node": [[1, 0], [2, 0]],
    "star": [[0, 1], [2, 0], [0, 3]],
    "circle": [[0, 1], [2, 1], [2, 3], [0, 3]],
    "no edges": [],
}


def fitted(edges, method="auto", constraints=(("a", "a"), ("b", "c"))):
    """Return a field on graphs of these edges, and one graph."""
    random, edges = np.random.default_rng(0), np.array(edges, dtype=int).reshape(-1, 2)
    X = [(random.normal(size=(4, 2)), edges) for _ in range(9)]
    legal = [list(labels) for labels in labellings() if allowed(labels, edges, constraints)]
    y = [legal[number] for number in random.integers(len(legal), size=9)]
    y[0] = ["a", "b", "b", "c"] if allowed("abbc", edges, constraints) else ["c", "b", "a", "b"]
    settings = {"constraints": list(constraints), "inference": method, "max_iter": 3, "prior_variance": 1.0}
    return GraphCRF("linear", **settings).fit(X, y), X[3]


def labellings(n_nodes=4):
    return itertools.product("abc", repeat=n_nodes)


def allowed(labels, edges, constraints=(("a", "a"), ("b", "c"))):
    return all((labels[v], labels[w]) not in constraints for v, w in edges)


@pytest.mark.parametrize("method", ["auto", "junction"])
@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_probabilities_of_labellings_sum_to_one(edges, method):
    model, x = fitted(edges, method)
    every = [list(labels) for labels in labellings()]
    logs = model.log_likelihood([x] * len(every), every, per_item=True)
    np.testing.assert_array_equal(np.isneginf(logs), [not allowed(labels, edges) for labels in every])
    assert np.exp(logs).sum() == pytest.approx(1.0)
