"""Semi-Markov inference against enumeration and finite differences, and far outside the range of doubles."""

from itertools import pairwise

import numpy as np
import pytest

from kernelfields.numerics.threads import Workers
from tests.arrays import infer_chains, infer_segments
from tests.oracles.segments import Enumerated
from tests.samples import offsets_of

CASES = [  # labels, longest, spread, tied, repeats, seed
    (2, 3, 1.0, True, False, 0),
    (3, 2, 2.0, False, True, 1),
    (2, 8, 40.0, True, False, 2),
    (3, 4, 1000.0, False, False, 3),
    (2, 1, 3.0, True, True, 4),
]


def potentials(n_labels, longest, spread, tied, repeats, seed, lengths=(7, 1, 5, 8)):
    """Scores of nodes, steps and durations, and offsets."""
    random = np.random.default_rng(seed)
    offsets = offsets_of(lengths if n_labels == 2 else [min(6, each) for each in lengths])
    n = offsets[-1]
    node = spread * random.normal(size=(n, n_labels))
    edge = spread * random.normal(size=(1 if tied else n, n_labels, n_labels))
    if not repeats:
        edge[:, np.arange(n_labels), np.arange(n_labels)] = -np.inf
    return node, edge, spread * random.normal(size=(longest, n_labels)), offsets


def enumerated(node, edge, duration, offsets):
    """What enumeration says of each sequence."""
    for begin, end in pairwise(offsets):
        yield Enumerated(node[begin:end], edge if len(edge) == 1 else edge[begin:end], duration)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_beliefs_are_those_of_enumeration(case):
    node, edge, duration, offsets = potentials(*case)
    weights = np.arange(1.0, len(offsets))
    beliefs = infer_segments(node, edge, duration, offsets, weights=weights)
    truth = list(enumerated(node, edge, duration, offsets))
    np.testing.assert_allclose(beliefs.log_partition, [each.log_partition for each in truth], rtol=1e-12)
    np.testing.assert_allclose(beliefs.node_marginals, np.concatenate([each.marginals for each in truth]), atol=1e-9)
    durations = sum(weight * each.durations for weight, each in zip(weights, truth, strict=True))
    np.testing.assert_allclose(beliefs.expected_durations, durations, atol=1e-9)
    steps = np.concatenate([each.steps for each in truth])
    np.testing.assert_allclose(beliefs.edge_marginals(), steps, atol=1e-9)
    weighted = steps * np.repeat(weights, np.diff(offsets))[:, None, None]
    expected = weighted.sum(axis=0, keepdims=True) if len(edge) == 1 else weighted
    np.testing.assert_allclose(beliefs.expected_steps, expected, atol=1e-9)
    for sequence, each in enumerate(truth):
        begins, ends, labels = np.array(list(each.segments)).T
        chances = beliefs.segment_log_probabilities(begins + offsets[sequence], ends + offsets[sequence], labels)
        np.testing.assert_allclose(np.exp(chances), list(each.segments.values()), atol=1e-9)


@pytest.mark.parametrize("case", [CASES[0], CASES[1], (2, 5, 12.0, True, True, 5)])
def test_hessian_products_are_differences_of_gradients(case):
    node, edge, duration, offsets = potentials(*case)
    random = np.random.default_rng(9)
    weights = np.arange(1.0, len(offsets))
    direction = [random.normal(size=each.shape) for each in (node, edge, duration)]
    step = 1e-5
    sides = [
        infer_segments(
            *(each + sign * step * along for each, along in zip((node, edge, duration), direction, strict=True)),
            offsets,
            weights=weights,
        )
        for sign in (1.0, -1.0)
    ]
    beliefs = infer_segments(node, edge, duration, offsets, weights=weights)
    product = beliefs.hessian_product(*direction)
    spread = np.repeat(weights, np.diff(offsets))[:, None]
    gradients = [(spread * b.node_marginals, b.expected_steps, b.expected_durations) for b in sides]
    for ours, above, below in zip(product, *gradients, strict=True):
        np.testing.assert_allclose(ours, (above - below) / (2 * step), atol=2e-7)
    slopes = (sides[0].log_partition - sides[1].log_partition) / (2 * step)
    np.testing.assert_allclose(beliefs.expected_scores(*direction), slopes, rtol=1e-6, atol=1e-7)


def test_one_position_each_is_a_chain():
    node, edge, _, offsets = potentials(3, 1, 2.0, False, True, 6)
    beliefs = infer_segments(node, edge, np.zeros((1, 3)), offsets)
    chain = infer_chains(node, edge, offsets)
    np.testing.assert_allclose(beliefs.log_partition, chain.log_partition, rtol=1e-12)
    np.testing.assert_allclose(beliefs.node_marginals, chain.node_marginals, atol=1e-12)


def test_labels_that_are_forbidden_somewhere():
    node, edge, duration, offsets = potentials(2, 4, 1.0, True, False, 7)
    node[[2, 9], [0, 1]] = -np.inf
    duration[1, 0] = -np.inf
    beliefs = infer_segments(node, edge, duration, offsets)
    for (begin, end), each in zip(pairwise(offsets), enumerated(node, edge, duration, offsets), strict=True):
        np.testing.assert_allclose(beliefs.node_marginals[begin:end], each.marginals, atol=1e-12)


def test_steep_scores_on_long_chains():
    """Windows whose values span thousands of nats: gradients add up to counts that are known."""
    random = np.random.default_rng(0)
    offsets = offsets_of([900, 400])
    node = 30.0 * np.sin(np.arange(1300)[:, None] / 90.0 + np.arange(3)) + random.normal(size=(1300, 3))
    edge = random.normal(size=(1, 3, 3)) - np.where(np.eye(3), np.inf, 0.0)
    duration = -np.linspace(0, 900, 300)[:, None] * np.array([1.0, 0.5, 0.0])
    beliefs = infer_segments(node, edge, duration, offsets)
    np.testing.assert_allclose(
        np.arange(1, 301) @ beliefs.expected_durations, beliefs.node_marginals.sum(axis=0), rtol=1e-9
    )
    np.testing.assert_allclose(beliefs.expected_durations.sum(), beliefs.expected_steps.sum() + 2, rtol=1e-12)


def test_threads_do_not_change_a_digit():
    node, edge, duration, offsets = potentials(2, 4, 1.0, True, False, 8)
    one, many = (infer_segments(node, edge, duration, offsets, workers=Workers(n, least_work=1)) for n in (1, 3))
    np.testing.assert_allclose(many.expected_durations, one.expected_durations, rtol=1e-13)
    np.testing.assert_array_equal(many.node_marginals, one.node_marginals)


def test_a_sequence_that_cannot_be_cut_is_named():
    node, edge, duration, offsets = potentials(2, 2, 1.0, True, False, 0)
    node[:7, 1] = -np.inf
    with pytest.raises(ValueError, match="sequence 0: its 7 positions cannot be cut into segments of at most 2"):
        infer_segments(node, edge, duration, offsets)
