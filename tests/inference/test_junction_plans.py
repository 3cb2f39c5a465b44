"""Orders of elimination: the widths they reach, and that cliques hold every factor and every message."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from small_graphs import random_graphs

from kernelfields.inference.choice import plan_inference
from kernelfields.inference.junction import plan as junction_plan
from kernelfields.inference.junction.plan import (
    eliminate,
    is_wide_in_the_middle,
    later_neighbours,
    min_degree_order,
    min_fill_order,
    plan_junction,
)

networkx = pytest.importorskip("networkx")


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
    orders.append(min_fill_order(size, members))
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
def test_the_compiled_min_degree_order_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    members = [np.array([rng.permutation(30)[:order] for _ in range(count)]) for order, count in ((2, 40), (3, 4))]
    expected = fewest_first(30, members)
    assert min_degree_order(30, members, 30).tolist() == expected
    width = max(len(each) for each in filled_in(30, members, expected))
    assert min_degree_order(30, members, width + 1) is not None
    assert min_degree_order(30, members, width) is None


def lattice(height, width):
    cell = np.arange(height * width).reshape(height, width)
    return [
        np.column_stack([cell[:, :-1].ravel(), cell[:, 1:].ravel()]),
        np.column_stack([cell[:-1].ravel(), cell[1:].ravel()]),
    ]


@pytest.mark.parametrize(("height", "width", "wide"), [(60, 60, True), (1200, 3, False), (3600, 1, False)])
def test_a_large_lattice_is_refused_by_its_middle(height, width, wide, monkeypatch):
    members = [each for each in lattice(height, width) if len(each)]
    assert is_wide_in_the_middle(height * width, members, 4) == wide
    tried = []
    monkeypatch.setattr(junction_plan, "min_degree_order", lambda *given: tried.append(given))
    if wide:
        with pytest.raises(MemoryError, match="tables over more than 4 nodes at once"):
            plan_junction(np.array([0, height * width]), members, 8, memory=16 * 8.0**4)
        assert not tried


def test_min_fill_reaches_the_width_that_networkx_reports():
    for seed in range(10):
        graph = networkx.gnp_random_graph(25, 0.15, seed=seed)
        members = [np.array(list(graph.edges))]
        order = min_fill_order(25, members)
        largest = eliminate(np.array([0, 25]), *later_neighbours(order, members), 60)[3]
        assert largest[0] - 1 == networkx.algorithms.approximation.treewidth_min_fill_in(graph)[0]


def test_chains_with_lags_and_triples_need_no_search(monkeypatch):
    def refuse(*_):
        raise AssertionError("the natural order is good enough")

    for name in ("min_degree_order", "min_fill_order"):
        monkeypatch.setattr(junction_plan, name, refuse)
    lengths = np.arange(1, 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    positions = [np.arange(a, b) for a, b in pairwise(offsets)]
    triples = np.concatenate([np.column_stack([t[:-2], t[1:-1], t[2:]]) for t in positions])
    lags = np.concatenate([np.column_stack([t[:-2], t[2:]]) for t in positions])
    plan = plan_junction(offsets, [triples, lags], 4)
    assert plan.width == 2
    assert len(plan.layout.high_start) - 1 < 20, "patterns do not grow with the chains"


def test_equal_structures_are_planned_once(monkeypatch):
    calls = []
    search = junction_plan.min_degree_order
    monkeypatch.setattr(junction_plan, "min_degree_order", lambda *a: calls.append(1) or search(*a))
    complete = np.array([(a, b) for a in range(5) for b in range(a)])
    members = [np.concatenate([complete + 5 * g for g in range(50)])]
    assert plan_junction(np.arange(51) * 5, members, 2).width == 4
    assert len(calls) == 1


def test_a_ladder_in_a_bad_order_is_found_narrow():
    rng = np.random.default_rng(0)
    names = rng.permutation(60)
    rungs = names.reshape(30, 2)
    rails = np.concatenate([np.column_stack([rungs[:-1, k], rungs[1:, k]]) for k in (0, 1)])
    assert plan_junction(np.array([0, 60]), [rungs, rails], 3).width == 2


def test_without_networkx_the_other_orders_do_and_a_refusal_mentions_it(monkeypatch):
    monkeypatch.setattr(junction_plan, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "networkx", None)
    complete = np.array([(a, b) for a in range(12) for b in range(a)])
    assert plan_inference([0, 12], [complete], 2).plan.width == 11
    with pytest.raises(MemoryError, match="one more order is tried where networkx is installed"):
        plan_inference([0, 12], [complete], 2, "junction", memory=1000)


def test_large_tables_are_worth_a_min_fill_order(monkeypatch):
    calls = []
    search = junction_plan.min_fill_order
    monkeypatch.setattr(junction_plan, "min_fill_order", lambda *a: calls.append(1) or search(*a))
    complete = np.array([(a, b) for a in range(7) for b in range(a)])
    plan_junction(np.array([0, 7]), [complete], 4)
    assert not calls
    plan_junction(np.array([0, 7]), [complete], 8)
    assert len(calls) == 1


def test_an_unlimited_memory_is_taken_at_its_word():
    complete = np.array([(a, b) for a in range(6) for b in range(a)])
    assert plan_junction(np.array([0, 6]), [complete], 3, memory=np.inf).width == 5
