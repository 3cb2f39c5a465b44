"""Random graphs of a few nodes, and the comparison of a method with the sum over all their labellings."""

from functools import partial

import numpy as np
import pytest

from tests.arrays import decode_graphs, infer_graphs, n_best_graphs
from tests.oracles.graphs import GraphEnumeration


def packed(sizes):
    return np.concatenate([[0], np.cumsum(sizes)])


def random_graphs(rng, orders=(2, 2, 3), largest=6, density=1.0, n_graphs=4):
    """Offsets and members: parallel and reverse factors, isolated nodes, several components, empty groups."""
    sizes = rng.integers(1, largest + 1, size=n_graphs)
    offsets = packed(sizes)
    members = []
    for order in orders:
        rows = [
            offsets[g] + rng.permutation(size)[:order]
            for g, size in enumerate(sizes)
            if size >= order
            for _ in range(rng.poisson(density * size / order))
        ]
        members.append(rng.permutation(np.array(rows, dtype=np.int64).reshape(-1, order)))
    return offsets, members


def random_forests(rng, n_groups=3, largest=6, n_graphs=4, joined=0.8, repeated=0.25):
    """Offsets and members of forests: nodes and factors in any order, some pairs with two factors."""
    sizes = rng.integers(1, largest + 1, size=n_graphs)
    offsets = packed(sizes)
    rows = []
    for g, size in enumerate(sizes):
        names = offsets[g] + rng.permutation(size)
        for v in range(1, size):
            if rng.random() < joined:
                pair = [names[v], names[rng.integers(v)]]
                rows += [rng.permutation(pair) for _ in range(1 + (rng.random() < repeated))]
    rows = rng.permutation(np.array(rows, dtype=np.int64).reshape(-1, 2))
    group = rng.integers(n_groups, size=len(rows))
    return offsets, [rows[group == f] for f in range(n_groups)]


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
    """Compare (node, factors) with (node, factors)."""
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=atol)
    assert len(ours[1]) == len(theirs[1])
    for a, b in zip(ours[1], theirs[1], strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def equal_to_enumeration(plan, rng, node, factors, weights, atol=1e-9):
    """Compare all that a plan computes; False where a graph has no possible labelling, which must be said."""
    oracle = GraphEnumeration(plan.offsets, plan.members, plan.n_labels)
    try:
        expected = oracle.infer(node, factors, weights=weights)
    except ValueError as error:
        for attempt in (infer_graphs, decode_graphs, partial(n_best_graphs, k=3)):
            with pytest.raises(ValueError, match=str(error)):
                attempt(plan, node, factors)
        return False
    beliefs = infer_graphs(plan, node, factors, weights=weights)
    assert beliefs.family is plan
    assert (plan.exact, plan.bound) == (True, "exact")
    np.testing.assert_allclose(beliefs.log_partition, expected.log_partition, rtol=1e-12, atol=atol)
    np.testing.assert_allclose(beliefs.node_marginals, expected.node_marginals, rtol=0, atol=atol)
    for group in range(len(factors)):
        np.testing.assert_allclose(beliefs.factor_marginals(group), expected.factor_marginals(group), rtol=0, atol=atol)
    assert_same(beliefs.gradient(), expected.gradient(), atol)
    direction = directions_like(rng, node, factors)
    assert_same(beliefs.hessian_product(*direction), expected.hessian_product(*direction), atol)
    labels, scores = decode_graphs(plan, node, factors)
    best_labels, best_scores = oracle.decode(node, factors)
    np.testing.assert_allclose(scores, best_scores, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(labels, best_labels)
    assert_ranked(expected, *n_best_graphs(plan, node, factors, 30), 30)
    return True


def assert_ranked(expected, labellings, scores, k):
    """The k best labellings of each graph have the best of all scores, are all different, and have their own score."""
    for every, all_scores, labels, found in zip(expected.labellings, expected.scores, labellings, scores, strict=True):
        possible = np.sort(all_scores[np.isfinite(all_scores)])[::-1]
        np.testing.assert_allclose(found, possible[:k], rtol=1e-12, atol=1e-9)
        assert len(labels) == len(np.unique(labels, axis=0)) == len(found)
        score_of = dict(zip(map(tuple, every.tolist()), all_scores, strict=True))
        own = [score_of[tuple(row)] for row in labels.tolist()]
        np.testing.assert_allclose(own, found, rtol=1e-12, atol=1e-9)
