"""The choice of a method for graphs, and what is said about graphs and potentials that do not fit."""

import numpy as np
import pytest

from kernelfields.inference import plan_inference
from tests.arrays import decode_graphs, infer_graphs

PAIRS = np.array([[0, 1], [1, 2]])


def grid(height, width):
    cell = np.arange(height * width).reshape(height, width)
    across = np.column_stack([cell[:, :-1].ravel(), cell[:, 1:].ravel()])
    down = np.column_stack([cell[:-1].ravel(), cell[1:].ravel()])
    return np.array([0, height * width]), [across, down]


def test_auto_takes_trees_then_junction_trees_then_says_why_it_approximates():
    assert plan_inference([0, 3], [PAIRS, PAIRS[:, ::-1]], 2).method == "tree"
    assert plan_inference([0, 3], [], 2).method == "tree"
    loop = plan_inference([0, 3], [PAIRS, [[2, 0]]], 2)
    assert loop.method == "junction"
    assert "width 2 with 2 labels: exact" in loop.description
    offsets, members = grid(30, 30)
    wide = plan_inference(offsets, members, 11)
    assert (wide.method, wide.exact, wide.bound) == ("trw", False, "upper")
    assert "exact inference needs tables over more than 7 nodes" in wide.description
    triples = [*members, np.array([[0, 1, 2]])]
    assert plan_inference(offsets, triples, 11).method == "mean-field"


def test_a_width_that_does_not_fit_is_refused_with_width_memory_and_alternatives():
    offsets, members = grid(40, 40)
    with pytest.raises(MemoryError) as refusal:
        plan_inference(offsets, members, 5, "junction", memory=1e9)
    message = str(refusal.value)
    for part in ("more than 11 nodes", "graph 0", "width 11 or more", "5 labels", "3.64 GiB", "trw", "mean-field"):
        assert part in message


def test_many_small_tables_that_do_not_fit_together_are_held_some_at_a_time():
    n_graphs = 1000
    offsets = np.arange(n_graphs + 1) * 3
    triangles = (np.array([[0, 1], [1, 2], [2, 0]]) + 3 * np.arange(n_graphs)[:, None, None]).reshape(-1, 2)
    plan = plan_inference(offsets, [triangles], 10, "junction")
    assert plan.plan.width == 2
    assert plan_inference(offsets, [triangles], 10, "junction", memory=1e7).plan.width == 2
    with pytest.raises(MemoryError, match=r"tables over 3 nodes at once .* KiB for the graph, more than the 9.77 KiB"):
        plan_inference(offsets, [triangles], 10, "junction", memory=1e4)
    # What was estimated is about what the tables take: two sets of 1,110 entries per triangle, and a little.
    assert 2 * 8 * 1110 * n_graphs < plan.plan.memory < 3 * 8 * 1110 * n_graphs


@pytest.mark.parametrize(
    ("offsets", "members", "message"),
    [
        ([0, 3], [[[0, 0]]], r"factor 0 of group 0 has a node twice: \[0, 0\]"),
        ([0, 3], [PAIRS, [[0, 3]]], "factor 0 of group 1 has node 3, but nodes are 0 to 2"),
        ([0, 3], [[[-1, 2]]], "factor 0 of group 0 has node -1"),
        ([0, 2, 3], [PAIRS], r"factor 1 of group 0 joins nodes of different graphs: \[1, 2\]"),
        ([0, 3], [[[0.0, 1.0]]], "must be whole numbers of shape"),
        ([0, 3], [[[0], [1]]], "at least two nodes per factor"),
        ([0, 3], [[0, 1]], "at least two nodes per factor"),
        ([0, 2, 2], [], "graph 1 runs from 2 to 2; drop graphs without nodes"),
        ([1, 2], [], "rise from 0"),
        ([0.0, 2.0], [], "offsets must be whole numbers"),
    ],
)
def test_structures_that_make_no_sense_are_refused(offsets, members, message):
    with pytest.raises(ValueError, match=message):
        plan_inference(offsets, members, 2)


@pytest.mark.parametrize("n_labels", [0, 2.0, True])
def test_n_labels_has_to_be_a_number_of_labels(n_labels):
    with pytest.raises(ValueError, match="n_labels must be a whole number of at least 1"):
        plan_inference([0, 3], [PAIRS], n_labels)


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match=r"method must be one of 'auto', 'tree', .* got 'exact'"):
        plan_inference([0, 3], [PAIRS], 2, "exact")


@pytest.mark.parametrize("method", ["tree", "junction"])
def test_potentials_that_do_not_fit_are_refused(method):
    plan = plan_inference([0, 3], [PAIRS], 2, method)
    node, table = np.zeros((3, 2)), np.zeros((1, 2, 2))
    for wrong_node, wrong_factors, message in (
        (node[:2], [table], r"node potentials must have shape \(nodes, labels\) = \(3, 2\), got \(2, 2\)"),
        (node, [], "expected potentials for 1 factor groups, got 0"),
        (node, [np.zeros((3, 2, 2))], r"factor group 0 must have shape \(1, 2, 2\), .* or \(2, 2, 2\)"),
        (node + np.nan, [table], r"node potentials must be finite or -inf, got nan at \(0, 0\) and 6 such"),
        (node, [table + np.inf], "factor group 0 must be finite or -inf, got inf"),
    ):
        for attempt in (infer_graphs, decode_graphs):
            with pytest.raises(ValueError, match=message):
                attempt(plan, wrong_node, wrong_factors)
    with pytest.raises(ValueError, match=r"weights must have shape \(1,\), one per graph, got \(2,\)"):
        infer_graphs(plan, node, [table], weights=[1.0, 2.0])
    beliefs = infer_graphs(plan, node, [table])
    for d_node, d_factors, message in (
        (node[:1], [table], r"node direction has shape \(1, 2\), expected \(3, 2\)"),
        (node, [table, table], "the direction has 2 factor groups, expected 1"),
        (node, [np.zeros((2, 2, 2))], r"factor group 0 has shape \(2, 2, 2\), expected \(1, 2, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            beliefs.hessian_product(d_node, d_factors)


@pytest.mark.parametrize("method", ["trw", "loopy", "mean-field"])
def test_hessian_products_of_approximations_are_refused_by_name(method):
    node, table = np.zeros((3, 2)), np.zeros((1, 2, 2))
    beliefs = infer_graphs(plan_inference([0, 3], [PAIRS], 2, method), node, [table])
    with pytest.raises(TypeError, match=f"Hessian products need exact inference, and '{method}' is approximate"):
        beliefs.hessian_product(node, [table])
