"""Semi-Markov inference far outside the range of doubles, by enumeration and by counts that are known."""

import numpy as np
import pytest

from tests.arrays import infer_segments
from tests.oracles.families import SegmentEnumeration
from tests.samples import make_offsets


def test_steep_scores_on_long_chains():
    """Windows whose values span thousands of nats: gradients add up to counts that are known."""
    random = np.random.default_rng(0)
    offsets = make_offsets([900, 400])
    node = 30.0 * np.sin(np.arange(1300)[:, None] / 90.0 + np.arange(3)) + random.normal(size=(1300, 3))
    edge = random.normal(size=(1, 3, 3)) - np.where(np.eye(3), np.inf, 0.0)
    duration = -np.linspace(0, 900, 300)[:, None] * np.array([1.0, 0.5, 0.0])
    beliefs = infer_segments(node, edge, duration, offsets)
    np.testing.assert_allclose(
        np.arange(1, 301) @ beliefs.expected_durations, beliefs.node_marginals.sum(axis=0), rtol=1e-9
    )
    np.testing.assert_allclose(beliefs.expected_durations.sum(), beliefs.expected_steps.sum() + 2, rtol=1e-12)


def test_a_sequence_that_cannot_be_cut_is_named():
    node, offsets = np.zeros((8, 2)), make_offsets([7, 1])
    node[:7, 1] = -np.inf
    edge = np.where(np.eye(2), -np.inf, 0.0)[None]
    with pytest.raises(ValueError, match="sequence 0: its 7 positions cannot be cut into segments of at most 2"):
        infer_segments(node, edge, np.zeros((2, 2)), offsets)


STEEP = [*((scale, seed) for scale in (1.0, 30.0, 300.0, 700.0) for seed in range(3)), (5000.0, 0)]


@pytest.mark.parametrize(("scale", "seed"), STEEP)
def test_steep_scores_and_forbidden_ones_are_enumerated(scale, seed):
    random = np.random.default_rng(seed)
    n_labels, longest, length = 2 + seed % 2, 1 + seed % 4 * 2, 6 - seed % 2
    offsets, tied = np.array([0, length, length + 3]), bool(seed % 2)
    node = scale * random.normal(size=(offsets[-1], n_labels))
    edge = scale * random.normal(size=(1 if tied else offsets[-1], n_labels, n_labels))
    duration = scale * random.normal(size=(longest, n_labels))
    for scores, share in ((node, 0.15), (edge, 0.2), (duration, 0.1)):
        scores[random.random(scores.shape) < share] = -np.inf
    every = SegmentEnumeration(offsets, n_labels, longest, tied=tied)
    potentials = dict(zip(every.groups, (node, edge, duration), strict=True))
    truth = every.distribution(potentials, np.zeros_like(node), np.zeros(n_labels**2))
    if not truth.possible:
        with pytest.raises(ValueError, match="cannot be cut into segments"):
            infer_segments(node, edge, duration, offsets)
        return
    beliefs = infer_segments(node, edge, duration, offsets)
    # Sums of thousands of nats have lost so many digits before they are compared.
    near = 1e-9 * max(1.0, scale / 100)
    np.testing.assert_allclose(beliefs.log_partition, truth.log_partition, rtol=1e-12)
    along = [random.normal(size=each.shape) for each in (node, edge, duration)]
    moved = truth.covariance_product(dict(zip(every.groups, along, strict=True)))
    for ours, expected, digits in (
        (beliefs.gradient(), truth.mean(), near),
        (beliefs.hessian_product(*along), moved, 10 * near),
    ):
        for found, table in zip(ours, expected.values(), strict=True):
            np.testing.assert_allclose(found, table.reshape(found.shape), atol=digits)
