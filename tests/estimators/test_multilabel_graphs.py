"""Which labels meet: trees of largest mutual information, and the inference that a graph of labels gets."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from kernelfields import MultiLabelCRF
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.inference.graph_families import plan_labels
from kernelfields.models.label_graph import label_edges, mutual_information, spanning_tree
from tests.samples import labelled_instances

_, Y = labelled_instances(300)


def test_mutual_information_is_that_of_counts_with_half_an_instance_more():
    corners = np.array(list(itertools.product([0, 1], repeat=2)))
    ours = mutual_information(Y, np.ones(len(Y)))
    np.testing.assert_allclose(np.diag(ours), 0.0)
    for j, k in itertools.combinations(range(4), 2):
        doubled = np.vstack([Y[:, [j, k]], Y[:, [j, k]], corners])
        assert ours[j, k] == pytest.approx(mutual_info_score(doubled[:, 0], doubled[:, 1]), rel=1e-10)
    weights = np.arange(len(Y)) % 3
    repeated = np.repeat(Y, weights, axis=0)
    np.testing.assert_allclose(
        mutual_information(Y, weights.astype(float)), mutual_information(repeated, np.ones(len(repeated)))
    )


def test_no_spanning_tree_weighs_more():
    rng = np.random.default_rng(0)
    for _ in range(20):
        weight = rng.random((4, 4))
        weight += weight.T
        heaviest = max(
            sum(weight[edge] for edge in tree)
            for tree in itertools.combinations(itertools.combinations(range(4), 2), 3)
            if len({frozenset(edge) for edge in tree}) == 3 and connects(tree, 4)
        )
        assert sum(weight[edge] for edge in spanning_tree(weight)) == pytest.approx(heaviest)
    assert spanning_tree(np.zeros((1, 1))) == []


def connects(edges, n_nodes):
    reached = {0}
    for _ in range(n_nodes):
        reached |= {b for edge in edges for a, b in (edge, edge[::-1]) if a in reached}
    return len(reached) == n_nodes


def test_graphs_by_name():
    instances, names = LabelledInstances.build(np.zeros((len(Y), 1)), 4, {}, Y), range(4)
    assert label_edges("none", instances, names) == []
    assert len(label_edges("full", instances, names)) == 6
    assert {(0, 1), (2, 3)} < set(label_edges("tree", instances, names))
    assert label_edges("auto", None, names) == label_edges("full", instances, names)
    wide = LabelledInstances.build(np.zeros((len(Y), 1)), 20, {}, np.hstack([Y] * 5))
    assert len(label_edges("auto", wide, range(20))) == 19
    assert label_edges(np.array([[3, 1]]), None, names) == [(1, 3)]
    with pytest.raises(ValueError, match="is read off labels of this process"):
        label_edges("tree", None, names)


def plan(n_labels, edges, method="auto", tied=True):
    offsets = n_labels * np.arange(4)
    return plan_labels(offsets, [offsets[:-1, None] + np.array(edge) for edge in edges], method, tied=tied)


def test_the_inference_fits_the_graph():
    full = {count: list(itertools.combinations(range(count), 2)) for count in (6, 14, 18, 24)}
    ring = [(k, (k + 1) % 18) for k in range(18)]
    assert plan(6, []).method == "tree"
    assert plan(6, [(0, 1), (1, 2), (3, 4)]).method == "tree"
    assert plan(6, [(0, 1), (1, 2), (0, 2)]).method == "table"
    assert plan(14, full[14]).method == "table"
    assert plan(18, ring).method == "junction"
    assert plan(18, full[18]).method == "table"
    assert plan(18, full[18], tied=False).method != "table"
    wide = plan(24, full[24])
    assert wide.exact or wide.method == "trw"
    assert plan(6, full[6], "junction").method == "junction"
    with pytest.raises(MemoryError, match="24 nodes"):
        plan(24, full[24], "table")


def test_the_default_graph_says_what_it_is():
    X, labels = labelled_instances(40)
    crf = MultiLabelCRF(random_state=0).fit(X, labels)
    assert len(crf.label_edges_) == 6
    assert "16 labellings" in crf.inference_.description
