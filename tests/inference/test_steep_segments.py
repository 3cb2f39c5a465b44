"""Hessian products of segments, the n best of them, and potentials of hundreds of nats, by enumeration."""

from itertools import pairwise

import numpy as np
import pytest

from kernelfields.numerics.threads import Workers
from tests.arrays import infer_segments, segment_potentials
from tests.inference.test_segment_beliefs import CASES, potentials
from tests.oracles.segments import Enumerated

STEEP = [*((scale, seed) for scale in (1.0, 30.0, 300.0, 700.0) for seed in range(3)), (5000.0, 0)]


def sequences_of(node, edge, duration, offsets):
    """What enumeration says of each sequence."""
    for begin, end in pairwise(offsets):
        own = slice(begin, end)
        yield Enumerated(node[own], edge if len(edge) == 1 else edge[own], duration)


def written(labels, begins):
    """A segmentation as enumeration writes it."""
    first = np.flatnonzero(begins).tolist()
    return [(b, e, int(labels[b])) for b, e in zip(first, [*first[1:], len(labels)], strict=True)]


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[2]])
def test_hessian_products_are_covariances_and_differences(case):
    node, edge, duration, offsets = potentials(*case)
    random = np.random.default_rng(9)
    given = [node, edge, duration]
    along = [random.normal(size=each.shape) for each in given]
    beliefs = infer_segments(*given, offsets)
    ours = beliefs.hessian_product(*along)
    step, sides = 1e-5, []
    for sign in (1.0, -1.0):
        at = [each + sign * step * way for each, way in zip(given, along, strict=True)]
        beyond = infer_segments(*at, offsets)
        sides.append((beyond.log_partition, beyond.node_marginals, beyond.expected_steps, beyond.expected_durations))
    for response, above, below in zip(ours, sides[0][1:], sides[1][1:], strict=True):
        np.testing.assert_allclose(response, (above - below) / (2 * step), atol=1e-7)
    slopes = (sides[0][0] - sides[1][0]) / (2 * step)
    np.testing.assert_allclose(beliefs.expected_scores(*along), slopes, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[4]])
def test_the_n_best_are_those_of_enumeration(case):
    node, edge, duration, offsets = potentials(*case)
    k = 7
    family = infer_segments(node, edge, duration, offsets).family
    scored = segment_potentials(node, edge, duration)
    labels, begins, scores = family.n_best_segmentations(scored, k, Workers(1))
    for sequence, each in enumerate(sequences_of(node, edge, duration, offsets)):
        own, n = slice(offsets[sequence], offsets[sequence + 1]), min(k, len(each.ranked))
        np.testing.assert_allclose(scores[sequence, :n], [score for _, score in each.ranked[:n]], atol=1e-9)
        assert np.isneginf(scores[sequence, n:]).all()
        found = [written(labels[rank, own], begins[rank, own]) for rank in range(n)]
        assert found == [segments for segments, _ in each.ranked[:n]]


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
