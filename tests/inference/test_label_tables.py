"""Tables of labellings: equal to the sum over all labellings, one by one, on equal graphs of any structure."""

import itertools

import numpy as np
import pytest

from kernelfields.inference import TableFamily, plan_inference
from kernelfields.numerics import Workers
from tests.arrays import infer_graphs


def potentials(rng, offsets, members, n_labels, tied, spread=1.0, forbidden=0.0):
    node = spread * rng.normal(size=(offsets[-1], n_labels))
    factors = [
        spread * rng.normal(size=(1 if each else len(m), *(n_labels,) * m.shape[1]))
        for m, each in zip(members, tied, strict=True)
    ]
    for each in (node, *factors):
        each[rng.random(each.shape) < forbidden] = -np.inf
    return node, factors


def assert_same(ours, theirs, atol=1e-9):
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=atol)
    for a, b in zip(ours[1], theirs[1], strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("tied", [True, False])
def test_blocks_do_not_change_the_result(tied):
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.combinations(range(5), 2)))
    offsets = 5 * np.arange(42)
    members = [offsets[:-1, None] + pair for pair in pairs]
    node, factors = potentials(rng, offsets, members, 2, [tied] * 10)
    direction = rng.normal(size=node.shape), [rng.normal(size=each.shape) for each in factors]
    weights = rng.random(41)
    at_once = infer_graphs(TableFamily(offsets, members, 2), node, factors, weights=weights)
    expected = at_once.gradient(), at_once.hessian_product(*direction)
    plan = TableFamily(offsets, members, 2, half_entries=8, table_entries=96)
    assert len(plan._blocks) > 8
    in_blocks = infer_graphs(plan, node, factors, weights=weights, workers=Workers(2))
    np.testing.assert_allclose(in_blocks.log_partition, at_once.log_partition, rtol=1e-13)
    assert_same(in_blocks.gradient(), expected[0], 1e-12)
    assert_same(in_blocks.hessian_product(*direction), expected[1], 1e-12)


def test_equal_to_a_junction_tree_on_a_full_graph_of_ten_labels():
    rng = np.random.default_rng(3)
    offsets = 10 * np.arange(8)
    members = [offsets[:-1, None] + np.array(pair) for pair in itertools.combinations(range(10), 2)]
    node, factors = potentials(rng, offsets, members, 2, [True] * len(members))
    one, two = (
        infer_graphs(plan, node, factors)
        for plan in (TableFamily(offsets, members, 2), plan_inference(offsets, members, 2, "junction"))
    )
    np.testing.assert_allclose(one.log_partition, two.log_partition, rtol=1e-12)
    assert_same(one.gradient(), two.gradient())
    direction = rng.normal(size=node.shape), [rng.normal(size=each.shape) for each in factors]
    assert_same(one.hessian_product(*direction), two.hessian_product(*direction))


@pytest.mark.parametrize(
    ("offsets", "members"),
    [
        ([0, 3, 5], []),
        ([0, 2, 4], [[[0, 1]]]),
        ([0, 2, 4], [[[0, 1], [3, 2]]]),
        ([0, 2, 4], [[[0, 1], [0, 1]]]),
    ],
)
def test_graphs_that_differ_are_refused(offsets, members):
    with pytest.raises(ValueError, match="graphs of one structure"):
        TableFamily(offsets, [np.array(each) for each in members], 2)


def test_too_many_labellings_are_refused_before_the_work_starts():
    with pytest.raises(MemoryError, match="21 nodes with 2 labels have 2,097,152 labellings"):
        TableFamily([0, 21], [], 2)
    assert "16 labellings of 4 nodes" in TableFamily([0, 4], [], 2).description
