"""Tree-reweighted from above, mean field from below, on hundreds of random graphs, against all labellings."""

import numpy as np
import pytest

from kernelfields.inference import LoopyBelief, TreeReweighted, plan_inference
from kernelfields.inference.approximate.base import MeanField
from kernelfields.numerics import Workers
from tests.arrays import infer_graphs
from tests.oracles.graphs import GraphEnumeration


def random_graphs(rng, orders=(2, 2), spread=1.0, forbidden=0.0, sizes=(1, 2, 5, 4), n_labels=None):
    """Graphs with any number of parallel, reversed and missing factors; groups tied or not by chance."""
    n_labels = int(rng.integers(1, 4)) if n_labels is None else n_labels
    offsets = np.concatenate([[0], np.cumsum(sizes)])

    def draw(*shape):
        potentials = spread * rng.normal(size=shape)
        potentials[rng.random(shape) < forbidden] = -np.inf
        return potentials

    members, factors = [], []
    for order in orders:
        rows = [
            offsets[i] + rng.choice(size, order, replace=False)
            for i, size in enumerate(sizes)
            if size >= order
            for _ in range(rng.integers(0, 2 * size))
        ]
        members.append(np.array(rows, dtype=np.int64).reshape(-1, order))
        factors.append(draw(1 if rng.random() < 0.5 else len(rows), *(n_labels,) * order))
    return offsets, members, n_labels, draw(offsets[-1], n_labels), factors


def enumerated(offsets, members, n_labels, node, factors, **options):
    return GraphEnumeration(offsets, members, n_labels).infer(node, factors, **options)


@pytest.mark.slow
@pytest.mark.parametrize("forbidden", [0.0, 0.1])
@pytest.mark.parametrize("spread", [0.3, 2.0, 40.0])
def test_the_bounds_hold_after_any_number_of_sweeps(spread, forbidden):
    rng = np.random.default_rng(int(10 * spread))
    n_feasible = 0
    for trial in range(40):
        *graphs, node, factors = random_graphs(rng, spread=spread, forbidden=forbidden)
        try:
            exact = enumerated(*graphs, node, factors)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                infer_graphs(plan_inference(*graphs, "trw"), node, factors)
            with pytest.raises(ValueError, match="no allowed labelling was found"):
                infer_graphs(plan_inference(*graphs, "mean-field"), node, factors)
            continue
        n_feasible += 1
        slack = 1e-9 * (1 + np.abs(exact.log_partition))
        for max_iter in (1, 2, 5, 500):
            damping = 0.4 if trial % 4 == 0 else 0.0
            upper = infer_graphs(
                plan_inference(*graphs, TreeReweighted(max_iter=max_iter, damping=damping)), node, factors
            )
            lower = infer_graphs(plan_inference(*graphs, MeanField(max_iter=max_iter)), node, factors)
            assert np.all(upper.log_partition >= exact.log_partition - slack)
            assert np.all(lower.log_partition <= exact.log_partition + slack)
            assert np.all(upper.diagnostics["iterations"] <= max_iter)
        assert (upper.family.method, upper.family.exact, upper.family.bound) == ("trw", False, "upper")
        assert (lower.family.method, lower.family.exact, lower.family.bound) == ("mean-field", False, "lower")
    assert n_feasible >= 10


@pytest.mark.slow
@pytest.mark.parametrize("method", ["trw", "mean-field"])
def test_more_sweeps_never_make_a_bound_worse(method):
    options, sign = (TreeReweighted, 1) if method == "trw" else (MeanField, -1)
    rng = np.random.default_rng(5)
    for _ in range(20):
        *graphs, node, factors = random_graphs(rng, orders=(2, 2, 2), spread=3.0, sizes=(5, 6))
        values = [
            infer_graphs(plan_inference(*graphs, options(max_iter=n, tolerance=0)), node, factors).log_partition
            for n in (1, 2, 3, 5, 8, 20, 60)
        ]
        assert np.all(sign * np.diff(values, axis=0) <= 1e-9)


def test_mean_field_takes_factors_of_any_order():
    rng = np.random.default_rng(6)
    for orders in [(3,), (2, 3), (4, 2), (3, 3, 2)]:
        for _ in range(10):
            *graphs, node, factors = random_graphs(rng, orders=orders, sizes=(5, 4, 2))
            exact = enumerated(*graphs, node, factors)
            beliefs = infer_graphs(plan_inference(*graphs, "mean-field"), node, factors)
            assert np.all(beliefs.log_partition <= exact.log_partition + 1e-9)
            for group, members in enumerate(graphs[1]):
                marginals = beliefs.factor_marginals(group)
                assert marginals.shape == (len(members), *(graphs[2],) * orders[group])
                for m, row in enumerate(members):
                    product = np.ones(())
                    for v in row:
                        product = np.multiply.outer(product, beliefs.node_marginals[v])
                    np.testing.assert_allclose(marginals[m], product, rtol=1e-12)


def test_a_second_start_frees_mean_field_from_a_saddle():
    """Two equal labels that attract: the softmax of the nodes is a stationary point, a labelling is better."""
    offsets, members, table = [0, 2], [np.array([[0, 1]])], 8.0 * np.eye(2)[None]
    node = np.zeros((2, 2))
    found = infer_graphs(plan_inference(offsets, members, 2, "mean-field"), node, [table]).log_partition[0]
    assert found > 8.0 > 4 + 2 * np.log(2), "the last is the bound at the softmax"


def shifted(factors, group, entry, step):
    moved = [each.copy() for each in factors]
    moved[group][entry] += step
    return moved


@pytest.mark.parametrize("method", ["trw", "loopy", "mean-field"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_gradient_is_that_of_the_value(method, tied):
    """Central differences of the weighted value, each point converged on its own."""
    rng = np.random.default_rng(8)
    offsets, members, n_labels = np.array([0, 4, 9]), [], 3
    pairs = [[0, 1], [1, 2], [2, 0], [3, 2], [4, 5], [6, 5], [6, 7], [7, 4], [8, 4], [5, 7]]
    members = [np.array(pairs), np.array([[1, 0], [4, 5], [5, 4]])]
    node = rng.normal(size=(9, n_labels))
    factors = [0.7 * rng.normal(size=(1 if tied else len(each), n_labels, n_labels)) for each in members]
    weights = np.array([0.5, 2.0])
    options = {
        "trw": TreeReweighted(tolerance=1e-12, max_iter=5000),
        "loopy": LoopyBelief(tolerance=1e-12, max_iter=5000),
        "mean-field": MeanField(tolerance=1e-13, max_iter=5000),
    }[method]
    plan = plan_inference(offsets, members, n_labels, options)
    beliefs = infer_graphs(plan, node, factors, weights=weights)
    assert beliefs.diagnostics["converged"].all()
    assert beliefs.diagnostics["warnings"] == []
    d_node, d_factors = beliefs.gradient()
    step = 1e-4

    def slope(first, second):
        return (
            weights
            @ (infer_graphs(plan, *first).log_partition - infer_graphs(plan, *second).log_partition)
            / (2 * step)
        )

    for entry in np.ndindex(node.shape):
        bump = np.zeros_like(node)
        bump[entry] = step
        assert d_node[entry] == pytest.approx(slope((node + bump, factors), (node - bump, factors)), abs=2e-7)
    for group, each in enumerate(factors):
        assert d_factors[group].shape == each.shape
        for entry in np.ndindex(each.shape):
            ends = ((node, shifted(factors, group, entry, sign * step)) for sign in (1, -1))
            assert d_factors[group][entry] == pytest.approx(slope(*ends), abs=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["trw", "loopy", "mean-field"])
def test_threads_change_nothing(method):
    rng = np.random.default_rng(10)
    *graphs, node, factors = random_graphs(rng, sizes=(6,) * 60, n_labels=11)
    alone = infer_graphs(plan_inference(*graphs, method), node, factors)
    together = infer_graphs(plan_inference(*graphs, method), node, factors, workers=Workers(2))
    np.testing.assert_array_equal(alone.log_partition, together.log_partition)
    np.testing.assert_array_equal(alone.node_marginals, together.node_marginals)
    for ours, theirs in zip(alone.gradient()[1], together.gradient()[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
