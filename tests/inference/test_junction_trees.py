"""Junction trees: equal to the sum over all labellings on random graphs of any structure."""

import numpy as np
import pytest

from kernelfields.inference.graph import plan_inference
from kernelfields.inference.graph_enumeration import GraphEnumeration


def random_graphs(rng, orders=(2, 2, 3), largest=6, density=1.0, n_graphs=4):
    """Offsets and members: parallel and reverse factors, isolated nodes, several components, empty groups."""
    sizes = rng.integers(1, largest + 1, size=n_graphs)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    members = []
    for order in orders:
        rows = [
            offsets[g] + rng.permutation(size)[:order]
            for g, size in enumerate(sizes)
            if size >= order
            for _ in range(rng.poisson(density * size / order))
        ]
        rows = [rows[i] for i in rng.permutation(len(rows))]
        members.append(np.array(rows, dtype=np.int64).reshape(-1, order))
    return offsets, members


def random_potentials(rng, offsets, members, n_labels, tied, spread=1.0, forbidden=0.0):
    node = spread * rng.normal(size=(offsets[-1], n_labels))
    factors = [
        spread * rng.normal(size=(1 if each else len(m), *(n_labels,) * m.shape[1]))
        for m, each in zip(members, tied, strict=True)
    ]
    for potentials in (node, *factors):
        potentials[rng.random(potentials.shape) < forbidden] = -np.inf
    return node, factors


def directions_like(rng, node, factors):
    return rng.normal(size=node.shape), [rng.normal(size=each.shape) for each in factors]


def assert_same(ours, theirs, atol):
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=atol)
    assert len(ours[1]) == len(theirs[1])
    for a, b in zip(ours[1], theirs[1], strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def assert_equal_to_enumeration(plan, rng, node, factors, weights, atol=1e-9):
    """Compare everything; return False where the potentials forbid every labelling of a graph, and that is said."""
    oracle = GraphEnumeration(plan.offsets, plan.members, plan.n_labels)
    try:
        expected = oracle.infer(node, factors, weights=weights)
    except ValueError as error:
        for attempt in (plan.infer, plan.decode):
            with pytest.raises(ValueError, match=str(error)[:30]):
                attempt(node, factors)
        return False
    beliefs = plan.infer(node, factors, weights=weights)
    np.testing.assert_allclose(beliefs.log_partition, expected.log_partition, rtol=1e-12, atol=atol)
    np.testing.assert_allclose(beliefs.node_marginals, expected.node_marginals, rtol=0, atol=atol)
    for group in range(len(factors)):
        np.testing.assert_allclose(
            beliefs.factor_marginals(group), expected.factor_marginals(group), rtol=0, atol=atol
        )
    assert_same(beliefs.gradient(), expected.gradient(), 10 * atol)
    direction = directions_like(rng, node, factors)
    assert_same(beliefs.hessian_product(*direction), expected.hessian_product(*direction), 10 * atol)
    labels, scores = plan.decode(node, factors)
    best_labels, best_scores = oracle.decode(node, factors)
    np.testing.assert_allclose(scores, best_scores, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(labels, best_labels)
    return True


@pytest.mark.parametrize("spread", [1.0, 50.0, 5000.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_equal_to_enumeration_on_random_graphs(spread, forbidden):
    rng = np.random.default_rng(int(spread) + int(100 * forbidden))
    compared = 0
    for trial in range(40):
        n_labels = int(rng.integers(1, 4))
        offsets, members = random_graphs(rng, density=rng.choice([0.0, 0.7, 2.0]))
        tied = rng.random(len(members)) < 0.5
        node, factors = random_potentials(rng, offsets, members, n_labels, tied, spread, forbidden)
        weights = rng.uniform(0, 3, size=len(offsets) - 1) if trial % 2 else None
        plan = plan_inference(offsets, members, n_labels, "junction")
        compared += assert_equal_to_enumeration(plan, rng, node, factors, weights)
    assert compared >= 10
