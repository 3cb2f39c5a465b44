"""Answers about chains that are cut into segments, given their potentials."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn

import numpy as np

from kernelfields.fields.segments import SegmentedChains, begins_of, bounds_of
from kernelfields.inference.answers import ChainAnswers
from kernelfields.inference.segments.beliefs import SegmentBeliefs, best_segments, infer_segments
from kernelfields.numerics.threads import Workers


class SegmentAnswers(ChainAnswers):
    """Chains with node, edge and duration potentials, constraints included."""

    def __init__(
        self, chains: SegmentedChains, node: np.ndarray, edge: np.ndarray, duration: np.ndarray, workers: Workers
    ):
        super().__init__(chains, node, edge, workers)
        self.duration = duration

    @cached_property
    def beliefs(self) -> SegmentBeliefs:
        """Marginals and log partition functions."""
        return infer_segments(*self._potentials, workers=self.workers)

    @property
    def _potentials(self) -> tuple[np.ndarray, ...]:  # type: ignore[override]
        return self.node, self.edge, self.duration, self.data.offsets

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (N,) of the most probable segmentation, and a mask of where its segments begin."""
        node, edge, duration, offsets = self._potentials
        return best_segments(node, edge, duration, offsets, self.workers)[:2]

    def best_labels(self) -> np.ndarray:
        """Return the labels of the most probable segmentation of each sequence, (N,)."""
        return self.best()[0]

    def n_best(self, k: int) -> NoReturn:
        """Raise: the n best segmentations are not computed."""
        raise NotImplementedError("the n best segmentations are not computed: use sample to draw some")

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return np.stack([self.beliefs.sample(random)[0] for _ in range(n_samples)])

    def entropies(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,): log Z minus the expected score."""
        finite = (np.where(np.isneginf(each), 0.0, each) for each in self._potentials[:3])
        return np.maximum(self.log_partition - self.beliefs.expected_scores(*finite), 0.0)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a segmentation of each sequence, (S,): that of the data, else the runs of its labels."""
        data, longest = self.data, len(self.duration)
        own = labels is data.labels and data.begins is not None
        mask = data.begins | data.is_start if own else begins_of(labels, data.offsets)
        begins, ends = bounds_of(mask)
        scores = self.node[np.arange(len(labels)), labels]
        durations = ends - begins
        known = self.duration[np.minimum(durations, longest) - 1, labels[begins]]
        scores[begins] += np.where(durations > longest, -np.inf, known)
        steps = begins[~data.is_start[begins]]
        where = steps if len(self.edge) > 1 else np.zeros_like(steps)
        scores[steps] += self.edge[where, labels[steps - 1], labels[steps]]
        return np.add.reduceat(scores, data.starts)
