"""Trees and forests: equal to junction trees where they are large, digits where doubles alone would lose them."""

import numpy as np
import pytest
from small_graphs import (
    assert_same,
    directions_like,
    random_forests,
    random_potentials,
)

from kernelfields.inference import plan_inference
from kernelfields.numerics import Workers
from tests.arrays import decode_graphs, infer_graphs
from tests.oracles.chains import enumerate_chain
from tests.samples import faint_chain


def chains(lengths, turned=False):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    later = np.setdiff1d(np.arange(offsets[-1]), offsets[:-1])
    pairs = np.column_stack([later, later - 1]) if turned else np.column_stack([later - 1, later])
    return offsets, later, pairs


@pytest.mark.parametrize("forbidden", [0.0, 0.05])
def test_larger_forests_equal_junction_trees(forbidden):
    rng = np.random.default_rng(6)
    offsets, members = random_forests(rng, n_graphs=8, largest=150, repeated=0.1)
    tied = (True, False, True)
    node, factors = random_potentials(rng, offsets, members, 5, tied, 2.0, forbidden)
    weights = rng.uniform(0, 2, size=8)
    direction = directions_like(rng, node, factors)
    plans = [plan_inference(offsets, members, 5, method) for method in ("tree", "junction")]
    tree, junction = (infer_graphs(plan, node, factors, weights=weights) for plan in plans)
    np.testing.assert_allclose(tree.log_partition, junction.log_partition, rtol=1e-13)
    assert_same(tree.gradient(), junction.gradient(), 1e-10)
    assert_same(tree.hessian_product(*direction), junction.hessian_product(*direction), 1e-10)
    for ours, theirs in zip(*(decode_graphs(plan, node, factors) for plan in plans), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)


@pytest.mark.parametrize("leaves", [1, 1500])
def test_a_star_of_many_leaves_does_not_underflow(leaves):
    # log Z = log sum_a e^{u(a)} (sum_b e^{w(a, b)})^leaves, in logarithms
    rng = np.random.default_rng(2)
    table = rng.normal(size=(1, 3, 3))
    centre = np.zeros((leaves + 1, 3))
    members = [np.column_stack([np.zeros(leaves, dtype=int), np.arange(1, leaves + 1)])]
    beliefs = infer_graphs(plan_inference([0, leaves + 1], members, 3), centre, [table])
    terms = leaves * np.log(np.exp(table[0]).sum(axis=1))
    np.testing.assert_allclose(beliefs.log_partition, np.logaddexp.reduce(terms), rtol=1e-13)
    shares = np.exp(terms - np.logaddexp.reduce(terms))
    np.testing.assert_allclose(beliefs.node_marginals[0], shares, atol=1e-11)


def test_hessian_products_keep_their_digits_on_a_long_chain():
    # A direction with a large mean: the derivative of marginals does not see constants.
    rng = np.random.default_rng(3)
    offsets, _, pairs = chains([20_000])
    plan = plan_inference(offsets, [pairs], 3)
    node, factors = random_potentials(rng, offsets, [pairs], 3, (True,))
    beliefs = infer_graphs(plan, node, factors)
    d_node, d_factors = directions_like(rng, node, factors)
    plain = beliefs.hessian_product(d_node, d_factors)
    lifted = beliefs.hessian_product(d_node + 100.0, d_factors)
    np.testing.assert_allclose(lifted[0], plain[0], atol=1e-11)


def test_the_number_of_threads_does_not_change_a_digit():
    rng = np.random.default_rng(5)
    offsets, members = random_forests(rng, n_groups=2, n_graphs=300, largest=40)
    node, factors = random_potentials(rng, offsets, members, 6, (True, False))
    direction = directions_like(rng, node, factors)
    plan = plan_inference(offsets, members, 6)
    results = []
    for n_jobs in (1, 2, 3):
        workers = Workers(n_jobs)
        assert (len(workers.runs(offsets, 6)) > 1) == (n_jobs > 1)
        beliefs = infer_graphs(plan, node, factors, weights=np.linspace(0, 2, 300), workers=workers)
        labels, scores = decode_graphs(plan, node, factors, workers)
        node_part, factor_part = beliefs.gradient()
        d_node, d_factors = beliefs.hessian_product(*direction)
        results.append([beliefs.log_partition, node_part, *factor_part, d_node, *d_factors, labels, scores])
    for other in results[1:]:
        for ours, theirs in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_what_is_not_a_forest_is_refused_by_name():
    with pytest.raises(ValueError, match=r"graph 1 have a cycle through nodes \d and \d; use \"junction\""):
        plan_inference([0, 2, 5], [[[0, 1], [2, 3], [3, 4]], [[4, 2]]], 2, "tree")
    with pytest.raises(ValueError, match="factor group 1 joins 3 nodes at a time"):
        plan_inference([0, 3], [[[0, 1]], [[0, 1, 2]]], 2, "tree")


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("nats", range(10))
def test_labels_of_few_digits_are_inferred_in_logarithms(nats, backwards):
    node, edge, offsets = faint_chain(nats, backwards)
    exact = enumerate_chain(node, edge, offsets)
    found = infer_graphs(plan_inference(offsets, [np.array([[0, 1], [1, 2]])], 3, "tree"), node, [edge[1:]])
    np.testing.assert_allclose(found.log_partition, exact.log_partition, rtol=1e-13)
    np.testing.assert_allclose(found.node_marginals, exact.node_marginals, rtol=1e-12, atol=1e-100)
