"""Segments with means over their positions, the n best of them, and potentials of hundreds of nats, by enumeration."""

from itertools import pairwise

import numpy as np
import pytest

from kernelfields.inference.segments.passes_compiled import exponentiate
from kernelfields.numerics.threads import Workers
from tests.arrays import infer_segments, segment_potentials
from tests.inference.test_segment_beliefs import CASES, potentials
from tests.oracles.segments import Enumerated

STEEP = [*((scale, seed) for scale in (1.0, 30.0, 300.0, 700.0) for seed in range(3)), (5000.0, 0)]


def sequences_of(node, edge, duration, offsets, mean=None):
    """What enumeration says of each sequence."""
    for begin, end in pairwise(offsets):
        own = slice(begin, end)
        yield Enumerated(
            node[own], edge if len(edge) == 1 else edge[own], duration, None if mean is None else mean[own]
        )


def written(labels, begins):
    """A segmentation as enumeration writes it."""
    first = np.flatnonzero(begins).tolist()
    return [(b, e, int(labels[b])) for b, e in zip(first, [*first[1:], len(labels)], strict=True)]


def test_exponentials_are_those_of_the_library():
    values = np.concatenate([-np.random.default_rng(0).exponential(50.0, size=1000), [0.0, -699.9, -701.0, -np.inf]])
    ours = values + 3.0
    exponentiate(ours, len(ours), 3.0)
    np.testing.assert_allclose(ours[:-2], np.exp((values + 3.0) - 3.0)[:-2], rtol=5e-16)
    np.testing.assert_array_equal(ours[-2:], 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_beliefs_with_means_are_those_of_enumeration(case):
    node, edge, duration, offsets = potentials(*case)
    mean = case[2] * np.random.default_rng(5).normal(size=node.shape)
    weights = np.arange(1.0, len(offsets))
    beliefs = infer_segments(node, edge, duration, offsets, mean, weights=weights)
    truth = list(sequences_of(node, edge, duration, offsets, mean))
    np.testing.assert_allclose(beliefs.log_partition, [each.log_partition for each in truth], rtol=1e-12)
    np.testing.assert_allclose(beliefs.node_marginals, np.concatenate([each.marginals for each in truth]), atol=1e-9)
    np.testing.assert_allclose(beliefs.covers, np.concatenate([each.covers for each in truth]), atol=1e-9)
    durations = sum(weight * each.durations for weight, each in zip(weights, truth, strict=True))
    np.testing.assert_allclose(beliefs.expected_durations, durations, atol=1e-9)
    for sequence, each in enumerate(truth):
        begins, ends, labels = np.array(list(each.segments)).T
        chances = beliefs.segment_log_probabilities(begins + offsets[sequence], ends + offsets[sequence], labels)
        np.testing.assert_allclose(np.exp(chances), list(each.segments.values()), atol=1e-9)
    scored = segment_potentials(node, edge, duration, mean)
    labels, begins = beliefs.family.best_segmentation(scored, Workers(1))
    np.testing.assert_array_equal(beliefs.family.best(scored)[0], labels)
    scores = beliefs.family.best(scored)[1]
    np.testing.assert_allclose(scores, [each.best_score for each in truth], rtol=1e-12)
    for sequence, each in enumerate(truth):
        own = slice(offsets[sequence], offsets[sequence + 1])
        assert written(labels[own], begins[own]) == each.best


def test_means_of_one_position_are_scores_of_positions():
    node, edge, duration, offsets = potentials(3, 1, 2.0, False, True, 6)
    mean = np.random.default_rng(0).normal(size=node.shape)
    ours, plain = (
        infer_segments(node, edge, duration, offsets, mean),
        infer_segments(node + mean, edge, duration, offsets),
    )
    np.testing.assert_allclose(ours.log_partition, plain.log_partition, rtol=1e-13)
    np.testing.assert_allclose(ours.covers, plain.node_marginals, atol=1e-13)


@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[2]])
def test_hessian_products_are_covariances_and_differences(case, means):
    node, edge, duration, offsets = potentials(*case)
    random = np.random.default_rng(9)
    given = [node, edge, duration, *([case[2] * random.normal(size=node.shape)] if means else [])]
    along = [random.normal(size=each.shape) for each in given]
    beliefs = infer_segments(*given[:3], offsets, *given[3:])
    ours = beliefs.hessian_product(*along)
    step, sides = 1e-5, []
    for sign in (1.0, -1.0):
        at = [each + sign * step * way for each, way in zip(given, along, strict=True)]
        beyond = infer_segments(*at[:3], offsets, *at[3:])
        parts = beyond.node_marginals, beyond.expected_steps, beyond.expected_durations, beyond.covers
        sides.append((beyond.log_partition, *parts[: len(given)]))
    for response, above, below in zip(ours, sides[0][1:], sides[1][1:], strict=True):
        np.testing.assert_allclose(response, (above - below) / (2 * step), atol=1e-7)
    slopes = (sides[0][0] - sides[1][0]) / (2 * step)
    np.testing.assert_allclose(beliefs.expected_scores(*along), slopes, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[4]])
def test_the_n_best_are_those_of_enumeration(case, means):
    node, edge, duration, offsets = potentials(*case)
    mean = np.random.default_rng(3).normal(size=node.shape) if means else None
    k = 7
    family = infer_segments(node, edge, duration, offsets, mean).family
    scored = segment_potentials(node, edge, duration, mean)
    labels, begins, scores = family.n_best_segmentations(scored, k, Workers(1))
    for sequence, each in enumerate(sequences_of(node, edge, duration, offsets, mean)):
        own, n = slice(offsets[sequence], offsets[sequence + 1]), min(k, len(each.ranked))
        np.testing.assert_allclose(scores[sequence, :n], [score for _, score in each.ranked[:n]], atol=1e-9)
        assert np.isneginf(scores[sequence, n:]).all()
        found = [written(labels[rank, own], begins[rank, own]) for rank in range(n)]
        assert found == [segments for segments, _ in each.ranked[:n]]


@pytest.mark.parametrize(("scale", "seed"), STEEP)
@pytest.mark.parametrize("means", [False, True])
def test_steep_scores_and_forbidden_ones_are_enumerated(scale, seed, means):
    random = np.random.default_rng(seed)
    n_labels, longest, length = 2 + seed % 2, 1 + seed % 4 * 2, 6 - seed % 2
    offsets, tied = np.array([0, length, length + 3]), seed % 2
    node, mean = (scale * random.normal(size=(offsets[-1], n_labels)) for _ in range(2))
    edge = scale * random.normal(size=(1 if tied else offsets[-1], n_labels, n_labels))
    duration = scale * random.normal(size=(longest, n_labels))
    for scores, share in ((node, 0.15), (edge, 0.2), (duration, 0.1)):
        scores[random.random(scores.shape) < share] = -np.inf
    given = [node, edge, duration, *([mean] if means else [])]
    truth = list(sequences_of(node, edge, duration, offsets, *given[3:]))
    if any(np.isneginf(each.best_score) for each in truth):
        with pytest.raises(ValueError, match="cannot be cut into segments"):
            infer_segments(node, edge, duration, offsets, *given[3:])
        return
    beliefs = infer_segments(node, edge, duration, offsets, *given[3:])
    # Sums of thousands of nats have lost so many digits before they are compared.
    near = 1e-9 * max(1.0, scale / 100)
    np.testing.assert_allclose(beliefs.log_partition, [each.log_partition for each in truth], rtol=1e-12)
    np.testing.assert_allclose(beliefs.node_marginals, np.concatenate([each.marginals for each in truth]), atol=near)
    np.testing.assert_allclose(beliefs.expected_durations, sum(each.durations for each in truth), atol=near)
    along = [random.normal(size=each.shape) for each in given]
    ours = beliefs.hessian_product(*along)
    parts = [
        each.response(along[0][own], along[1] if tied else along[1][own], along[2], *(way[own] for way in along[3:]))
        for each, own in zip(truth, (slice(0, length), slice(length, length + 3)), strict=True)
    ]
    summed = [
        sum(pair) if place == 2 or (place == 1 and tied) else np.concatenate(pair)
        for place, pair in enumerate(zip(*parts, strict=True))
    ]
    for response, expected in zip(ours, summed, strict=True):
        np.testing.assert_allclose(response, expected, atol=10 * near)
