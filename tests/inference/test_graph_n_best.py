"""The n best labellings of graphs: those of a list of all labellings, sorted."""

import numpy as np
import pytest
from small_graphs import packed, random_forests, random_graphs, random_potentials

from kernelfields.inference import InfeasibleGraph, plan_inference
from tests.arrays import decode_graphs, n_best_graphs
from tests.oracles.graphs import GraphEnumeration


def assert_the_best(offsets, members, node, factors, k, method="auto"):
    """Compare scores with all scores, and labellings with their scores."""
    n_labels = node.shape[1]
    known = GraphEnumeration(offsets, members, n_labels).infer(node, factors)
    labellings, scores = n_best_graphs(plan_inference(offsets, members, n_labels, method), node, factors, k)
    for every, all_scores, labels, found in zip(known.labellings, known.scores, labellings, scores, strict=True):
        possible = np.sort(all_scores[np.isfinite(all_scores)])[::-1]
        np.testing.assert_allclose(found, possible[:k], atol=1e-10)
        assert len(labels) == len(np.unique(labels, axis=0)) == len(found)
        place = {row.tobytes(): index for index, row in enumerate(every)}
        own = [all_scores[place[row.tobytes()]] for row in labels.astype(every.dtype)]
        np.testing.assert_allclose(own, found, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 2, 7, 1000])
def test_the_best_of_all_labellings(seed, k):
    rng = np.random.default_rng(seed)
    kinds = (random_forests, random_graphs)
    offsets, members = kinds[seed % 2](rng)
    tied = rng.random(len(members)) < 0.5
    given = random_potentials(rng, offsets, members, int(rng.integers(2, 4)), tied)
    assert_the_best(offsets, members, *given, k)


def test_forbidden_labels_are_not_listed():
    rng = np.random.default_rng(3)
    offsets, members = random_graphs(rng, largest=5)
    node, factors = random_potentials(rng, offsets, members, 3, [False] * 3)
    for table in (node, *factors):
        table[..., 0][rng.random(table.shape[:-1]) < 0.4] = -np.inf
    assert_the_best(offsets, members, node, factors, 30, "junction")


def test_the_best_is_that_of_decoding_on_a_grid():
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


def test_what_cannot_be_listed():
    plan = plan_inference(packed([2]), [np.array([[0, 1]])], 2)
    with pytest.raises(InfeasibleGraph):
        n_best_graphs(plan, np.zeros((2, 2)), [np.full((1, 2, 2), -np.inf)], 3)
