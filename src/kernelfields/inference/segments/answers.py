"""Answers about chains that are cut into segments, given their potentials."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernelfields.fields.segments import SegmentedChains, begins_of, bounds_of
from kernelfields.inference.answers import ChainAnswers, LabelAnswers
from kernelfields.inference.segments.beliefs import SegmentBeliefs, best_segments, infer_segments, k_best_segments
from kernelfields.numerics.threads import Workers


class SegmentAnswers(ChainAnswers):
    """Chains with node, edge and duration potentials and, perhaps, mean scores (N, L), constraints included."""

    def __init__(
        self,
        chains: SegmentedChains,
        node: np.ndarray,
        edge: np.ndarray,
        duration: np.ndarray,
        workers: Workers,
        mean: np.ndarray | None = None,
    ):
        super().__init__(chains, node, edge, workers)
        self.duration = duration
        self.mean = mean

    def given(self, evidence: np.ndarray | None) -> SegmentAnswers:
        """Return the same once more is known of the labels: log-weights (N, L), as in fields/evidence.py."""
        # Lists of allowed labels are for chains of positions.
        return LabelAnswers.given(self, evidence)

    @cached_property
    def beliefs(self) -> SegmentBeliefs:
        """Marginals and log partition functions."""
        node, edge, duration, offsets = self._potentials
        return infer_segments(node, edge, duration, offsets, self.mean, workers=self.workers)

    @property
    def _potentials(self) -> tuple[np.ndarray, ...]:  # type: ignore[override]
        return self.node, self.edge, self.duration, self.data.offsets

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (N,) of the most probable segmentation, and a mask of where its segments begin."""
        node, edge, duration, offsets = self._potentials
        return best_segments(node, edge, duration, offsets, self.workers, self.mean)[:2]

    def best_labels(self) -> np.ndarray:
        """Return the labels of the most probable segmentation of each sequence, (N,)."""
        return self.best()[0]

    def k_best(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels (k, N), masks of where segments begin (k, N), and scores (S, k) of the k best segmentations."""
        node, edge, duration, offsets = self._potentials
        return k_best_segments(node, edge, duration, offsets, k, self.workers, self.mean)

    def n_best(self, k: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the labels and scores of the k best segmentations of each sequence, or of as many as there are."""
        labels, _, scores = self.k_best(k)
        counts = np.isfinite(scores).sum(axis=1).tolist()
        rows = self.data.split(labels.T)
        return [each[:, :n].T for each, n in zip(rows, counts, strict=True)], [
            each[:n] for each, n in zip(scores, counts, strict=True)
        ]

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return self.sample_segments(n_samples, random)[0]

    def sample_segments(self, n_samples: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw segmentations: labels, and masks of where segments begin, (n_samples, N) both."""
        labels, begins = zip(*(self.beliefs.sample(random) for _ in range(n_samples)), strict=True)
        return np.stack(labels), np.stack(begins)

    def entropies(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,): log Z minus the expected score."""
        node, edge, duration = (np.where(np.isneginf(each), 0.0, each) for each in self._potentials[:3])
        return np.maximum(self.log_partition - self.beliefs.expected_scores(node, edge, duration, self.mean), 0.0)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a segmentation of each sequence, (S,): that of the data, else the runs of its labels."""
        data, longest, rows = self.data, len(self.duration), np.arange(len(labels))
        own = labels is data.labels and data.begins is not None
        mask = data.begins | data.is_start if own else begins_of(labels, data.offsets)
        begins, ends = bounds_of(mask)
        scores = self.node[rows, labels]
        durations = ends - begins
        known = self.duration[np.minimum(durations, longest) - 1, labels[begins]]
        scores[begins] += np.where(durations > longest, -np.inf, known)
        if self.mean is not None:
            scores += self.mean[rows, labels] / np.repeat(durations, durations)
        steps = begins[~data.is_start[begins]]
        where = steps if len(self.edge) > 1 else np.zeros_like(steps)
        scores[steps] += self.edge[where, labels[steps - 1], labels[steps]]
        return np.add.reduceat(scores, data.starts)
