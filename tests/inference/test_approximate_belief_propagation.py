"""Belief propagation where it is exact, its weights, warm starts, large potentials, labellings, errors."""

import numpy as np
import pytest

from kernelfields.inference import LoopyBelief, TreeReweighted, plan_inference
from kernelfields.inference.pair_graph import PairGraphs
from tests.arrays import decode_graphs, infer_graphs
from tests.oracles.graphs import GraphEnumeration

METHODS = ["trw", "loopy"]


def random_forest(rng, sizes, n_labels, spread=1.0, forbidden=0.0):
    """Trees in a shuffled numbering, some edges doubled or reversed in a second, tied group."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    edges = []
    for i, size in enumerate(sizes):
        names = offsets[i] + rng.permutation(size)
        edges += [[names[rng.integers(k)], names[k]] for k in range(1, size) if rng.random() < 0.9]
    edges = np.array(edges, dtype=np.int64).reshape(-1, 2)
    again = edges[rng.random(len(edges)) < 0.5]
    again = np.where(rng.random(len(again))[:, None] < 0.5, again, again[:, ::-1])

    def draw(*shape):
        potentials = spread * rng.normal(size=shape)
        potentials[rng.random(shape) < forbidden] = -np.inf
        return potentials

    factors = [draw(len(edges), n_labels, n_labels), draw(1, n_labels, n_labels)]
    return offsets, [edges, again], n_labels, draw(offsets[-1], n_labels), factors


def grid(height, width):
    cells = np.arange(height * width).reshape(height, width)
    across = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    return np.array([0, height * width]), [across, down]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", [1.0, 50.0, 4000.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_exact_on_forests(method, spread, forbidden):
    rng = np.random.default_rng(int(spread))
    n_feasible = 0
    for _ in range(25):
        *graphs, node, factors = random_forest(rng, (1, 2, 6, 5), int(rng.integers(1, 4)), spread, forbidden)
        plan = plan_inference(*graphs, method)
        try:
            exact = GraphEnumeration(*graphs).infer(node, factors)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                infer_graphs(plan, node, factors)
            with pytest.raises(ValueError, match=str(error)):
                decode_graphs(plan, node, factors)
            continue
        n_feasible += 1
        beliefs = infer_graphs(plan, node, factors)
        np.testing.assert_allclose(beliefs.log_partition, exact.log_partition, rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(beliefs.node_marginals, exact.node_marginals, atol=1e-9)
        for group in range(2):
            np.testing.assert_allclose(beliefs.factor_marginals(group), exact.factor_marginals(group), atol=1e-9)
        assert np.all(beliefs.diagnostics["iterations"] == 1)
        labels, scores = decode_graphs(plan, node, factors)
        np.testing.assert_allclose(scores, GraphEnumeration(*graphs).decode(node, factors)[1], rtol=1e-12)
        given = [labels[None, a:b] for a, b in zip(graphs[0][:-1], graphs[0][1:], strict=True)]
        reached = GraphEnumeration(*graphs).compute_scores(given, node, factors)
        np.testing.assert_allclose(scores, np.concatenate(reached), rtol=1e-12)
    assert n_feasible >= 5


def test_the_weights_are_those_of_random_spanning_trees():
    """A pair joins a node to an earlier one; drawing one such pair per node always gives a spanning forest."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 12))
        edges = np.array([rng.choice(n, 2, replace=False) for _ in range(rng.integers(1, 3 * n))])
        layout = PairGraphs(np.array([0, n]), [edges])
        graph = layout.graph
        assert {frozenset(pair) for pair in edges.tolist()} == {
            frozenset(pair) for pair in zip(graph.parent.tolist(), graph.child.tolist(), strict=True)
        }
        rank = np.argsort(graph.order)
        assert np.all(rank[graph.parent] < rank[graph.child])
        parents = np.bincount(graph.child, graph.rho, n)
        components = list(range(n))
        for u, v in edges:
            components = [components[u] if c == components[v] else c for c in components]
        # Weights at a node add up to one, except at exactly one root per component.
        assert np.sum(parents == 0) == len(set(components))
        np.testing.assert_allclose(parents[parents > 0], 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_warm_start_saves_sweeps_and_changes_nothing_beyond_the_tolerance(method):
    rng = np.random.default_rng(3)
    offsets, members = grid(8, 8)
    node, factors = rng.normal(size=(64, 4)), [rng.normal(size=(1, 4, 4)) for _ in members]
    kind = TreeReweighted if method == "trw" else LoopyBelief
    warm = plan_inference(offsets, members, 4, kind(tolerance=1e-9, max_iter=2000))
    cold = plan_inference(offsets, members, 4, kind(tolerance=1e-9, max_iter=2000, warm_start=False))
    first = infer_graphs(warm, node, factors)
    np.testing.assert_array_equal(first.log_partition, infer_graphs(cold, node, factors).log_partition)
    kept = first.factor_marginals(0)
    node = node + 1e-3 * rng.normal(size=node.shape)
    ours, theirs = infer_graphs(warm, node, factors), infer_graphs(cold, node, factors)
    assert ours.diagnostics["iterations"][0] < theirs.diagnostics["iterations"][0]
    np.testing.assert_allclose(ours.log_partition, theirs.log_partition, rtol=1e-11)
    np.testing.assert_allclose(ours.node_marginals, theirs.node_marginals, atol=1e-6)
    # Beliefs of the first call are not touched by the second.
    np.testing.assert_array_equal(first.factor_marginals(0), kept)


def test_what_was_forbidden_before_is_possible_after_a_warm_start():
    rng = np.random.default_rng(4)
    offsets, members = grid(3, 3)
    node, factors = rng.normal(size=(9, 2)), [rng.normal(size=(1, 2, 2)) for _ in members]
    for method in METHODS:
        plan = plan_inference(offsets, members, 2, method)
        closed = node.copy()
        closed[4, 0] = -np.inf
        assert infer_graphs(plan, closed, factors).node_marginals[4, 0] == 0
        fresh = infer_graphs(plan_inference(offsets, members, 2, method), node, factors)
        np.testing.assert_allclose(infer_graphs(plan, node, factors).log_partition, fresh.log_partition, rtol=1e-8)


def test_the_tree_reweighted_bound_is_convex_in_the_potentials():
    rng = np.random.default_rng(5)
    offsets, members = grid(3, 4)
    plan = plan_inference(offsets, members, 3, TreeReweighted(tolerance=1e-10, max_iter=5000))
    for _ in range(20):
        ends = [(rng.normal(size=(12, 3)), [2 * rng.normal(size=(1, 3, 3)) for _ in members]) for _ in range(2)]
        middle = (ends[0][0] + ends[1][0]) / 2, [(a + b) / 2 for a, b in zip(ends[0][1], ends[1][1], strict=True)]
        values = [infer_graphs(plan, *point).log_partition[0] for point in (*ends, middle)]
        assert values[2] <= (values[0] + values[1]) / 2 + 1e-8


def test_loopy_is_close_where_couplings_are_weak():
    rng = np.random.default_rng(6)
    offsets, members = grid(4, 4)
    node, factors = rng.normal(size=(16, 2)), [0.2 * rng.normal(size=(len(m), 2, 2)) for m in members]
    exact = GraphEnumeration(offsets, members, 2).infer(node, factors)
    beliefs = infer_graphs(plan_inference(offsets, members, 2, "loopy"), node, factors)
    assert beliefs.family.bound is None
    np.testing.assert_allclose(beliefs.log_partition, exact.log_partition, atol=1e-3)
    np.testing.assert_allclose(beliefs.node_marginals, exact.node_marginals, atol=1e-3)


@pytest.mark.parametrize("method", ["trw", "loopy", "mean-field"])
def test_labellings_are_locally_best_and_carry_their_true_score(method):
    rng = np.random.default_rng(7)
    offsets, members = grid(3, 4)
    reached, n_best = GraphEnumeration(offsets, members, 2), 0
    for _ in range(10):
        node, factors = rng.normal(size=(12, 2)), [1.5 * rng.normal(size=(1, 2, 2)) for _ in members]
        labels, scores = decode_graphs(plan_inference(offsets, members, 2, method), node, factors)
        flipped = np.concatenate([labels[None], np.where(np.eye(12, dtype=bool), 1 - labels, labels)])
        all_scores = reached.compute_scores([flipped], node, factors)[0]
        assert scores[0] == pytest.approx(all_scores[0], rel=1e-12)
        assert np.all(all_scores[1:] <= all_scores[0] + 1e-9)
        n_best += scores[0] >= reached.decode(node, factors)[1][0] - 1e-9
    assert n_best >= (9 if method in METHODS else 5)


def test_unfinished_sweeps_are_reported():
    rng = np.random.default_rng(8)
    offsets, members = grid(6, 6)
    node, factors = rng.normal(size=(36, 3)), [3 * rng.normal(size=(1, 3, 3)) for _ in members]
    for method, options in (("trw", TreeReweighted(max_iter=2)), ("loopy", LoopyBelief(max_iter=2))):
        diagnostics = infer_graphs(plan_inference(offsets, members, 3, options), node, factors).diagnostics
        assert not diagnostics["converged"].any()
        assert diagnostics["change"][0] > 1e-6
        assert method in diagnostics["warnings"][0]
        assert "raise max_iter" in diagnostics["warnings"][0]


@pytest.mark.parametrize("method", METHODS)
def test_graphs_without_pairs(method):
    node = np.random.default_rng(9).normal(size=(3, 2))
    for members, factors in ([], []), ([np.zeros((0, 2), int)], [np.zeros((1, 2, 2))]):
        plan = plan_inference([0, 1, 3], members, 2, method)
        beliefs = infer_graphs(plan, node, factors)
        expected = np.log(np.exp(node).sum(axis=1))
        np.testing.assert_allclose(beliefs.log_partition, [expected[0], expected[1] + expected[2]], rtol=1e-13)
        assert decode_graphs(plan, node, factors)[0].tolist() == node.argmax(axis=1).tolist()
        assert [each.shape for each in beliefs.gradient()[1]] == [each.shape for each in factors]


def test_larger_factors_are_refused_with_the_alternatives():
    for method in METHODS:
        with pytest.raises(ValueError, match=r"group 1 joins 3 nodes.*use \"mean-field\", or"):
            plan_inference([0, 3], [np.array([[0, 1]]), np.array([[0, 1, 2]])], 2, method)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TreeReweighted(damping=1.0), "damping must be below 1"),
        (LoopyBelief(tolerance=-1), "tolerance must be a finite number of at least 0"),
        (TreeReweighted(max_iter=0), "max_iter must be a whole number of at least 1"),
        (TreeReweighted(damping="much"), "damping must be a finite number"),
        (object(), "approximate inference is one of 'trw' or TreeReweighted"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plan_inference([0, 2], [np.array([[0, 1]])], 2, options)
