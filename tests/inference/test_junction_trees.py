"""Junction trees: equal to the sum over all labellings on random graphs of any structure, at any scale."""

import numpy as np
import pytest
from small_graphs import (
    assert_same,
    assert_samples_within_error_bars,
    directions_like,
    equal_to_enumeration,
    random_graphs,
    random_potentials,
)

from kernelfields.inference.choice import plan_inference
from kernelfields.inference.junction.family import JunctionFamily
from kernelfields.numerics.threads import Workers
from tests.arrays import decode_graphs, infer_graphs, sample_graphs
from tests.oracles.graphs import GraphEnumeration


@pytest.mark.slow
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
        compared += equal_to_enumeration(plan, rng, node, factors, weights)
    assert compared >= 10


def test_factors_of_four_and_five_nodes():
    rng = np.random.default_rng(0)
    for _ in range(10):
        offsets, members = random_graphs(rng, orders=(5, 2, 4), largest=7, density=1.5)
        node, factors = random_potentials(rng, offsets, members, 2, (True, False, False))
        plan = plan_inference(offsets, members, 2, "junction")
        assert equal_to_enumeration(plan, rng, node, factors, None)


def test_without_factors_nodes_are_independent():
    rng = np.random.default_rng(1)
    node = rng.normal(size=(5, 3))
    plan = plan_inference([0, 1, 5], [], 3, "junction")
    assert equal_to_enumeration(plan, rng, node, [], np.array([2.0, 0.5]))


def loopy(rng, n_graphs=12, n_labels=3):
    offsets, members = random_graphs(rng, orders=(2, 3), largest=8, density=1.2, n_graphs=n_graphs)
    return plan_inference(offsets, members, n_labels, "junction")


def test_samples_follow_the_marginals():
    rng = np.random.default_rng(2)
    plan = loopy(rng, n_graphs=3)
    node, factors = random_potentials(rng, plan.offsets, plan.members, 3, (True, False), forbidden=0.1)
    assert_samples_within_error_bars(plan, node, factors)


def test_the_number_of_threads_does_not_change_a_digit(monkeypatch):
    monkeypatch.setattr("kernelfields.inference.junction.family._ENTRIES_PER_RUN", 100)
    rng = np.random.default_rng(3)
    plan = loopy(rng, n_graphs=60)
    assert len(plan.runs) > 5
    node, factors = random_potentials(rng, plan.offsets, plan.members, 3, (True, False))
    direction = directions_like(rng, node, factors)
    results = []
    for n_jobs in (1, 2, 3):
        workers = Workers(n_jobs)
        beliefs = infer_graphs(plan, node, factors, weights=np.linspace(0, 2, 60), workers=workers)
        labels, scores = decode_graphs(plan, node, factors, workers)
        node_part, factor_part = beliefs.gradient()
        d_node, d_factors = beliefs.hessian_product(*direction)
        results.append([beliefs.log_partition, node_part, *factor_part, d_node, *d_factors, labels, scores])
    for other in results[1:]:
        for ours, theirs in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_tables_that_are_not_kept_give_the_same_numbers():
    rng = np.random.default_rng(5)
    offsets, members = random_graphs(rng, n_graphs=30)
    node, factors = random_potentials(rng, offsets, members, 3, (True, False, True), spread=300.0)
    direction, weights = directions_like(rng, node, factors), rng.random(30)
    results = []
    for kept_tables in (np.inf, 0.0):
        plan = JunctionFamily(offsets, members, 3, kept_tables=kept_tables)
        plan.runs = [(first, first + 5) for first in range(0, 30, 5)]
        beliefs = infer_graphs(plan, node, factors, weights=weights, workers=Workers(2))
        assert plan.keeps == (len(beliefs._kept) > 0) == (kept_tables > 0)
        gradient, response = beliefs.gradient(), beliefs.hessian_product(*direction)
        marginals = [beliefs.factor_marginals(group) for group in range(3)]
        draws = sample_graphs(plan, node, factors, 3, random=0)
        results.append([beliefs.log_partition, gradient[0], *gradient[1], response[0], *response[1], *marginals, draws])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_runs_of_many_graphs_stay_below_a_number_of_entries(monkeypatch):
    monkeypatch.setattr("kernelfields.inference.junction.family._ENTRIES_PER_RUN", 10)
    monkeypatch.setattr("kernelfields.inference.junction.family._MOST_ENTRIES_PER_RUN", 30)
    triangles = (np.array([[0, 1], [1, 2], [2, 0]]) + 3 * np.arange(300)[:, None, None]).reshape(-1, 2)
    plan = JunctionFamily(np.arange(301) * 3, [triangles], 2)
    entries = np.diff(plan.plan.layout.table_start[plan.offsets[[first for first, _ in plan.runs]]])
    assert len(plan.runs) == 300 * (8 + 4 + 2) // 30
    assert entries.max() <= 30 + 14


def test_a_long_second_order_chain_equals_the_chain_of_pairs():
    # Labels (y_{t-1}, y_t) make a second-order chain a first-order one with L^2 labels.
    from tests.arrays import infer_chains

    rng = np.random.default_rng(4)
    length, n_labels = 400, 3
    t = np.arange(length)
    pairs, triples = np.column_stack([t[1:], t[:-1]]), np.column_stack([t[:-2], t[1:-1], t[2:]])
    node, (pair, triple) = random_potentials(rng, [0, length], [pairs, triples], n_labels, (True, False))
    plan = plan_inference([0, length], [pairs, triples], n_labels)
    assert (plan.method, plan.plan.width) == ("junction", 2)
    beliefs = infer_graphs(plan, node, [pair, triple])

    joint = node[1:, None, :] + pair[0].T  # (t, y_{t-1}, y_t)
    joint[0] += node[0][:, None]
    steps = np.full((length - 1, n_labels, n_labels, n_labels, n_labels), -np.inf)
    for b in range(n_labels):
        steps[1:, :, b, b, :] = triple[:, :, b, :]
    square = n_labels**2
    chain = infer_chains(joint.reshape(-1, square), steps.reshape(-1, square, square), np.array([0, length - 1]))
    np.testing.assert_allclose(beliefs.log_partition, chain.log_partition, rtol=1e-12)
    expected = chain.node_marginals.reshape(-1, n_labels, n_labels)
    np.testing.assert_allclose(beliefs.factor_marginals(0).transpose(0, 2, 1), expected, atol=1e-11)
    np.testing.assert_allclose(beliefs.node_marginals[1:], expected.sum(axis=1), atol=1e-11)


def test_hessian_products_are_symmetric_and_ignore_constants():
    rng = np.random.default_rng(5)
    plan = loopy(rng)
    node, factors = random_potentials(rng, plan.offsets, plan.members, 3, (False, True), spread=2.0)
    beliefs = infer_graphs(plan, node, factors)
    first, second = directions_like(rng, node, factors), directions_like(rng, node, factors)

    def product(one, other):
        moved = beliefs.hessian_product(*other)
        return np.vdot(one[0], moved[0]) + sum(np.vdot(a, b) for a, b in zip(one[1], moved[1], strict=True))

    np.testing.assert_allclose(product(first, second), product(second, first), rtol=1e-10)
    constant = np.full(node.shape, 3.0), [np.full(each.shape, -2.0) for each in factors]
    zero = np.zeros(node.shape), [np.zeros(each.shape) for each in factors]
    assert_same(beliefs.hessian_product(*constant), zero, 1e-12)


def test_evidence_that_turns_around_is_not_lost_to_underflow():
    # Labels {0, 1} and {2, 3} cannot meet in a triple; the group that wins in the end is far behind half way.
    length = 60
    node = np.zeros((length, 4))
    node[: length // 2, :2] = 30.0
    node[length // 2 :, :2] = -31.0
    group = np.arange(4) // 2
    same = (group[:, None, None] == group[:, None]) & (group[:, None] == group)
    t = np.arange(length)
    members = [np.column_stack([t[:-2], t[1:-1], t[2:]])]
    plan = plan_inference([0, length], members, 4)
    beliefs = infer_graphs(plan, node, [np.where(same, 0.0, -np.inf)[None]])
    expected = np.logaddexp(length * np.log(2) - length // 2, length * np.log(2))
    np.testing.assert_allclose(beliefs.log_partition, expected, rtol=1e-13)
    np.testing.assert_allclose(beliefs.node_marginals[:, 2:].sum(axis=1), 1 / (1 + np.exp(-30)), rtol=1e-12)


def test_a_wrong_number_of_samples_is_refused():
    plan = plan_inference([0, 2], [[[0, 1]]], 2, "junction")
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1, got 0"):
        sample_graphs(plan, np.zeros((2, 2)), [np.zeros((1, 2, 2))], 0)


@pytest.fixture
def without_logarithms(monkeypatch):
    def refuse(*given):
        pytest.fail("the log domain was asked for")

    monkeypatch.setattr("kernelfields.inference.junction.passes_compiled.condition", refuse)


CIRCLES = np.array([0, 4, 7]), [np.array([[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 4]])]


@pytest.mark.usefixtures("without_logarithms")
def test_forbidden_labels_alone_need_no_log_domain():
    """A zero that a potential asks for is no underflow: doubles hold all the rest."""
    rng = np.random.default_rng(7)
    plan = plan_inference(*CIRCLES, 3, "junction")
    for _ in range(20):
        node, factors = random_potentials(rng, *CIRCLES, 3, [False])
        node[rng.permutation(7)[:3], rng.integers(3, size=3)] = -np.inf
        assert np.isfinite(infer_graphs(plan, node, factors).log_partition).all()


@pytest.mark.usefixtures("without_logarithms")
@pytest.mark.parametrize("turned", [False, True])
def test_labels_that_nodes_and_factors_forbid_together_need_no_log_domain(turned):
    """Beside one label of its neighbour, a node forbids itself one of its labels, and their factor all the others."""
    rng, plan = np.random.default_rng(8), plan_inference(*CIRCLES, 4, "junction")
    for _ in range(20):
        node, (tables,) = random_potentials(rng, *CIRCLES, 4, [False])
        for edge in (rng.integers(4), 4 + rng.integers(3)):
            own, other = rng.integers(4, size=2)
            v = CIRCLES[1][0][edge, 1 if turned else 0]
            node[v, own] = -np.inf
            beside = tables[edge].T if turned else tables[edge]
            beside[np.arange(4) != own, other] = -np.inf
        expected = GraphEnumeration(*CIRCLES, 4).infer(node, [tables]).log_partition
        np.testing.assert_allclose(infer_graphs(plan, node, [tables]).log_partition, expected, rtol=1e-10)
