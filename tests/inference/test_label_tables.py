"""Tables of labellings: equal to the sum over all labellings, one by one, on equal graphs of any structure."""

import itertools

import numpy as np
import pytest

from kernelfields.inference.choice import plan_inference
from kernelfields.inference.table import TableFamily
from kernelfields.numerics.threads import Workers
from tests.arrays import decode_graphs, infer_graphs, sample_graphs
from tests.oracles.graphs import GraphEnumeration


def equal_graphs(rng, n_graphs, n_columns, orders=(2, 2, 3)):
    """Offsets and members of graphs of one structure: isolated nodes, parallel factors, empty groups."""
    offsets = n_columns * np.arange(n_graphs + 1)
    members = []
    for order in orders:
        count = rng.integers(0, 3) if order <= n_columns else 0
        local = np.array([rng.permutation(n_columns)[:order] for _ in range(count)], dtype=np.int64)
        rows = offsets[:-1, None, None] + local.reshape(1, count, order)
        members.append(rows.reshape(-1, order))
    return offsets, members


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


def assert_equal_to_enumeration(plan, rng, node, factors, weights):
    oracle = GraphEnumeration(plan.offsets, plan.members, plan.n_labels)
    try:
        expected = oracle.infer(node, factors, weights=weights)
    except ValueError as error:
        for attempt in (infer_graphs, decode_graphs):
            with pytest.raises(ValueError, match=str(error)[:30]):
                attempt(plan, node, factors)
        return False
    beliefs = infer_graphs(plan, node, factors, weights=weights, workers=Workers(2))
    assert beliefs.family.exact
    np.testing.assert_allclose(beliefs.log_partition, expected.log_partition, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(beliefs.node_marginals, expected.node_marginals, rtol=0, atol=1e-9)
    for group in range(len(factors)):
        ours, theirs = beliefs.factor_marginals(group), expected.factor_marginals(group)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert_same(beliefs.gradient(), expected.gradient())
    direction = rng.normal(size=node.shape), [rng.normal(size=each.shape) for each in factors]
    assert_same(beliefs.hessian_product(*direction), expected.hessian_product(*direction))
    labels, scores = decode_graphs(plan, node, factors)
    best_labels, best_scores = oracle.decode(node, factors)
    np.testing.assert_allclose(scores, best_scores, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(labels, best_labels)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("all_tied", [True, False])
@pytest.mark.parametrize("spread", [1.0, 50.0, 5000.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_equal_to_enumeration_on_random_structures(spread, forbidden, all_tied):
    rng = np.random.default_rng([int(spread), int(100 * forbidden), all_tied])
    compared = 0
    for trial in range(25):
        n_labels, n_columns = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        offsets, members = equal_graphs(rng, int(rng.integers(1, 6)), n_columns)
        tied = (rng.random(len(members)) < 0.5) | all_tied
        node, factors = potentials(rng, offsets, members, n_labels, tied, spread, forbidden)
        weights = rng.uniform(0, 3, size=len(offsets) - 1) if trial % 2 else None
        plan = TableFamily(offsets, members, n_labels)
        compared += assert_equal_to_enumeration(plan, rng, node, factors, weights)
    assert compared >= 8


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


@pytest.mark.parametrize("tied", [True, False])
def test_samples_have_the_frequencies_of_the_marginals(tied):
    rng = np.random.default_rng(5)
    offsets, members = np.array([0, 3, 6]), [np.array([[0, 2], [3, 5]]), np.array([[1, 0], [4, 3]])]
    node, factors = potentials(rng, offsets, members, 2, [tied, tied])
    node[4, 1] = -np.inf
    plan = TableFamily(offsets, members, 2)
    draws = sample_graphs(plan, node, factors, 20_000, 0)
    assert draws.shape == (20_000, 6)
    np.testing.assert_allclose(draws.mean(axis=0), infer_graphs(plan, node, factors).node_marginals[:, 1], atol=0.015)
    together = (draws[:, 0] == 1) & (draws[:, 2] == 1)
    assert together.mean() == pytest.approx(infer_graphs(plan, node, factors).factor_marginals(0)[0, 1, 1], abs=0.015)
    assert not draws[:, 4].any()
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        sample_graphs(plan, node, factors, 0)


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
