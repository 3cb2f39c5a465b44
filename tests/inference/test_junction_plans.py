"""Orders of elimination: the widths they reach, and that cliques hold every factor and every message."""

from itertools import pairwise

import numpy as np
import pytest
from small_graphs import random_graphs

from kernelfields.inference.junction.elimination import later_neighbours, min_degree_order
from kernelfields.inference.junction.elimination_compiled import eliminate
from kernelfields.inference.junction.plan import plan_junction


def neighbour_sets(n_nodes, members):
    """The nodes that share a factor with each node."""
    rows = [row for group in members for row in group.tolist()]
    return [{u for row in rows if v in row for u in row} - {v} for v in range(n_nodes)]


def filled_in(n_nodes, members, order):
    """Later neighbours of each node by the definition: eliminate it, and join all its neighbours."""
    neighbours = neighbour_sets(n_nodes, members)
    later = []
    for v in order:
        later.append(neighbours[v])
        for u in neighbours[v]:
            neighbours[u] = (neighbours[u] | neighbours[v]) - {u, v}
    return later


@pytest.mark.parametrize("seed", range(20))
def test_cliques_are_those_of_elimination_by_the_definition(seed):
    rng = np.random.default_rng(seed)
    _, members = random_graphs(rng, largest=12, n_graphs=1)
    size = 12
    orders = [rng.permutation(size), min_degree_order(size, members, size)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(size))
        starts, higher, parents, largest = eliminate(np.array([0, size]), *later_neighbours(order, members), 60)
        expected = filled_in(size, members, order)
        assert largest[0] == 1 + max(len(each) for each in expected)
        for i, later in enumerate(expected):
            mine = higher[starts[i] : starts[i + 1]]
            assert np.all(np.diff(mine) > 0)
            assert {int(order[j]) for j in mine} == later
            assert parents[i] == (mine[0] if len(mine) else -1)


def test_a_graph_too_wide_is_left_early_and_the_others_are_not():
    offsets = np.array([0, 5, 8])
    complete = np.array([(a, b) for a in range(5) for b in range(a)])
    members = [np.concatenate([complete, [[5, 6], [6, 7]]])]
    starts, _, parents, largest = eliminate(offsets, *later_neighbours(np.arange(8), members), 3)
    assert largest.tolist() == [4, 2]
    assert parents[5:].tolist() == [6, 7, -1]
    assert np.diff(starts)[5:].tolist() == [1, 1, 0]


def fewest_first(n_nodes, members):
    """The min-degree order by the definition: of the nodes with the fewest neighbours always the first."""
    neighbours, order = neighbour_sets(n_nodes, members), []
    while len(order) < n_nodes:
        v = min((u for u in range(n_nodes) if u not in order), key=lambda u: (len(neighbours[u]), u))
        order.append(v)
        for u in neighbours[v]:
            neighbours[u] = (neighbours[u] | neighbours[v]) - {u, v}
    return order


@pytest.mark.parametrize("seed", range(10))
def test_the_min_degree_order_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    members = [np.array([rng.permutation(30)[:order] for _ in range(count)]) for order, count in ((2, 40), (3, 4))]
    expected = fewest_first(30, members)
    assert min_degree_order(30, members, 30).tolist() == expected
    width = max(len(each) for each in filled_in(30, members, expected))
    assert min_degree_order(30, members, width + 1) is not None
    assert min_degree_order(30, members, width) is None


def test_chains_with_lags_and_triples_are_narrow_in_their_own_order():
    lengths = np.arange(1, 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    positions = [np.arange(a, b) for a, b in pairwise(offsets)]
    triples = np.concatenate([np.column_stack([t[:-2], t[1:-1], t[2:]]) for t in positions])
    lags = np.concatenate([np.column_stack([t[:-2], t[2:]]) for t in positions])
    plan = plan_junction(offsets, [triples, lags], 4)
    assert plan.width == 2
    assert len(plan.layout.high_start) - 1 < 20, "patterns do not grow with the chains"


def test_a_ladder_in_a_bad_order_is_found_narrow():
    rng = np.random.default_rng(0)
    names = rng.permutation(60)
    rungs = names.reshape(30, 2)
    rails = np.concatenate([np.column_stack([rungs[:-1, k], rungs[1:, k]]) for k in (0, 1)])
    assert plan_junction(np.array([0, 60]), [rungs, rails], 3).width == 2


def test_an_unlimited_memory_is_taken_at_its_word():
    complete = np.array([(a, b) for a in range(6) for b in range(a)])
    assert plan_junction(np.array([0, 6]), [complete], 3, memory=np.inf).width == 5
