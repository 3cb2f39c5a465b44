"""Semi-Markov inference far outside the range of doubles, by enumeration and by counts that are known."""

from itertools import pairwise

import numpy as np
import pytest

from tests.arrays import infer_segments
from tests.oracles.segments import Enumerated
from tests.samples import offsets_of


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


def test_a_sequence_that_cannot_be_cut_is_named():
    node, offsets = np.zeros((8, 2)), offsets_of([7, 1])
    node[:7, 1] = -np.inf
    edge = np.where(np.eye(2), -np.inf, 0.0)[None]
    with pytest.raises(ValueError, match="sequence 0: its 7 positions cannot be cut into segments of at most 2"):
        infer_segments(node, edge, np.zeros((2, 2)), offsets)


STEEP = [*((scale, seed) for scale in (1.0, 30.0, 300.0, 700.0) for seed in range(3)), (5000.0, 0)]


def sequences_of(node, edge, duration, offsets):
    """What enumeration says of each sequence."""
    for begin, end in pairwise(offsets):
        own = slice(begin, end)
        yield Enumerated(node[own], edge if len(edge) == 1 else edge[own], duration)


@pytest.mark.parametrize(("scale", "seed"), STEEP)
def test_steep_scores_and_forbidden_ones_are_enumerated(scale, seed):
    random = np.random.default_rng(seed)
    n_labels, longest, length = 2 + seed % 2, 1 + seed % 4 * 2, 6 - seed % 2
    offsets, tied = np.array([0, length, length + 3]), seed % 2
    node = scale * random.normal(size=(offsets[-1], n_labels))
    edge = scale * random.normal(size=(1 if tied else offsets[-1], n_labels, n_labels))
    duration = scale * random.normal(size=(longest, n_labels))
    for scores, share in ((node, 0.15), (edge, 0.2), (duration, 0.1)):
        scores[random.random(scores.shape) < share] = -np.inf
    truth = list(sequences_of(node, edge, duration, offsets))
    if any(np.isneginf(each.best_score) for each in truth):
        with pytest.raises(ValueError, match="cannot be cut into segments"):
            infer_segments(node, edge, duration, offsets)
        return
    beliefs = infer_segments(node, edge, duration, offsets)
    # Sums of thousands of nats have lost so many digits before they are compared.
    near = 1e-9 * max(1.0, scale / 100)
    np.testing.assert_allclose(beliefs.log_partition, [each.log_partition for each in truth], rtol=1e-12)
    np.testing.assert_allclose(beliefs.node_marginals, np.concatenate([each.marginals for each in truth]), atol=near)
    np.testing.assert_allclose(beliefs.expected_durations, sum(each.durations for each in truth), atol=near)
    along = [random.normal(size=each.shape) for each in (node, edge, duration)]
    ours = beliefs.hessian_product(*along)
    parts = [
        each.response(along[0][own], along[1] if tied else along[1][own], along[2])
        for each, own in zip(truth, (slice(0, length), slice(length, length + 3)), strict=True)
    ]
    summed = [
        sum(pair) if place == 2 or (place == 1 and tied) else np.concatenate(pair)
        for place, pair in enumerate(zip(*parts, strict=True))
    ]
    for response, expected in zip(ours, summed, strict=True):
        np.testing.assert_allclose(response, expected, atol=10 * near)
