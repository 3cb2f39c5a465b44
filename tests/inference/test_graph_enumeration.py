"""The oracle for graphs: its derivatives are those of finite differences."""

import numpy as np
import pytest
from small_graphs import directions_like, random_graphs, random_potentials

from tests.oracles.graphs import GraphEnumeration


def test_gradients_and_hessian_products_are_derivatives():
    rng = np.random.default_rng(1)
    offsets, members = random_graphs(rng, largest=5)
    node, factors = random_potentials(rng, offsets, members, 2, (True, False, True))
    weights = rng.uniform(0, 2, size=len(offsets) - 1)
    graphs = GraphEnumeration(offsets, members, 2)
    d_node, d_factors = directions_like(rng, node, factors)

    def at(step):
        moved = [each + step * d for each, d in zip(factors, d_factors, strict=True)]
        return graphs.infer(node + step * d_node, moved, weights=weights)

    step = 1e-5
    here, ahead, behind = at(0.0), at(step), at(-step)
    slope = weights @ (ahead.log_partition - behind.log_partition) / (2 * step)
    gradient = here.gradient()
    inner = np.vdot(d_node, gradient[0]) + sum(map(np.vdot, d_factors, gradient[1]))
    np.testing.assert_allclose(inner, slope, rtol=1e-8)
    product = here.hessian_product(d_node, d_factors)
    changes = [
        (a - b) / (2 * step)
        for a, b in zip(
            [ahead.gradient()[0], *ahead.gradient()[1]], [behind.gradient()[0], *behind.gradient()[1]], strict=True
        )
    ]
    for ours, theirs in zip([product[0], *product[1]], changes, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)


def test_an_infeasible_graph_is_named():
    node = np.zeros((4, 2))
    node[3] = -np.inf
    with pytest.raises(ValueError, match="graph 1: every labelling is forbidden"):
        GraphEnumeration([0, 2, 4], [], 2).infer(node, [])


def test_samples_are_drawn_from_possible_labellings():
    node = np.array([[0.0, -np.inf], [0.0, 1.0]])
    labels = GraphEnumeration([0, 2], [], 2).sample(node, [], 50, 0)
    assert labels.shape == (50, 2)
    assert not labels[:, 0].any()
    assert 0 < labels[:, 1].sum() < 50
