"""Semi-Markov inference on long chains far outside the range of doubles, by counts that are known."""

import numpy as np
import pytest

from tests.arrays import infer_segments
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
