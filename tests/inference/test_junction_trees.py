"""Junction trees: equal to the sum over all labellings on random graphs of any structure, at any scale."""

import numpy as np
import pytest
from small_graphs import (
    directions_like,
    equal_to_enumeration,
    packed,
    random_graphs,
    random_potentials,
)

from kernelfields.inference import plan_inference
from kernelfields.inference.junction.family import JunctionFamily
from kernelfields.numerics import Workers
from tests.arrays import decode_graphs, infer_graphs, n_best_graphs, sample_graphs


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


def test_the_first_of_the_best_labellings_of_a_grid_is_that_of_decoding():
    rng = np.random.default_rng(0)
    size = 5
    places = np.arange(size * size).reshape(size, size)
    members = [np.column_stack([places[:, :-1].ravel(), places[:, 1:].ravel()])]
    members.append(np.column_stack([places[:-1].ravel(), places[1:].ravel()]))
    offsets = packed([size * size])
    node, factors = random_potentials(rng, offsets, members, 3, [True, False])
    plan = plan_inference(offsets, members, 3)
    labels, scores = n_best_graphs(plan, node, factors, 5)
    best, best_score = decode_graphs(plan, node, factors)
    np.testing.assert_array_equal(labels[0][0], best)
    assert scores[0][0] == pytest.approx(best_score[0])
    # No single change, and no change at neighbours, is better than the second of them.
    for v in range(len(best)):
        for label in set(range(3)) - {best[v]}:
            other = best.copy()
            other[v] = label
            change = node[np.arange(25), other].sum()
            for members_of, tables in zip(members, factors, strict=True):
                rows = np.arange(len(members_of)) if len(tables) > 1 else np.zeros(len(members_of), int)
                change += tables[rows, other[members_of[:, 0]], other[members_of[:, 1]]].sum()
            assert change <= scores[0][1] + 1e-9


def loopy(rng, n_graphs=12, n_labels=3):
    offsets, members = random_graphs(rng, orders=(2, 3), largest=8, density=1.2, n_graphs=n_graphs)
    return plan_inference(offsets, members, n_labels, "junction")


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


def test_a_large_shift_takes_no_digits_from_those_that_follow():
    # 1e12 at the start and -1e12 at the end: a plain running sum would round at 1e-4 for all positions between.
    rng, t = np.random.default_rng(1), np.arange(3000)
    plan = plan_inference([0, 3000], [np.column_stack([t[:-1], t[1:]])], 2, "junction")
    node, factors = random_potentials(rng, plan.offsets, plan.members, 2, (True,))
    # Both cancel in log Z, and taking them away is exact.
    node[0] += 1e12
    node[-1] -= 1e12
    shifted = infer_graphs(plan, node, factors).log_partition[0]
    node[0] -= 1e12
    node[-1] += 1e12
    known = infer_graphs(plan, node, factors).log_partition[0]
    assert 1e2 < abs(known) < 1e5
    assert shifted == pytest.approx(known, rel=1e-12)
