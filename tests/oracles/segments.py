"""Every segmentation of a short chain by enumeration: an oracle for semi-Markov inference."""

from __future__ import annotations

import numpy as np

from tests.oracles.labellings import Labellings, all_segmentations


def segment_counts(segments, length, n_labels, n_durations):
    """Return what the score of a segmentation is linear in.

    Labels (T, L), steps (T, L, L) into the first position of a segment, and durations (D, L).
    """
    labels, durations = np.zeros((length, n_labels)), np.zeros((n_durations, n_labels))
    steps = np.zeros((length, n_labels, n_labels))
    for place, (begin, end, label) in enumerate(segments):
        labels[begin:end, label] = 1.0
        durations[end - begin - 1, label] += 1.0
        if place:
            steps[begin, segments[place - 1][2], label] = 1.0
    return labels, steps, durations


class Enumerated:
    """Log partition, marginals, expected durations and steps, and the best segmentation of one chain.

    Scores are node (T, L), edge (1 or T, L, L) and duration (D, L).
    """

    def __init__(self, node, edge, duration):
        length, n_labels = node.shape
        every = list(all_segmentations(length, n_labels, len(duration)))
        counts = [segment_counts(each, length, n_labels, len(duration)) for each in every]
        self.counts, self.tied = [np.array(parts) for parts in zip(*counts, strict=True)], len(edge) == 1
        scores = self._scores(node, edge, duration)
        self.list = Labellings(self.counts[0].argmax(axis=2), scores, n_labels)
        order = [place for place in np.argsort(-scores, kind="stable").tolist() if scores[place] > -np.inf]
        self.ranked = [(list(every[place]), scores[place]) for place in order]
        self.best, self.best_score = list(every[int(scores.argmax())]), scores.max()
        self.log_partition = self.list.log_partition
        if not order:
            return
        chances = self.list.probabilities
        self.entropy = self.list.entropy
        self.probabilities = dict(zip(every, chances.tolist(), strict=True))
        self.marginals, self.steps, self.durations = self._expected(chances)
        self.segments = {}
        for segments, chance in self.probabilities.items():
            for own in segments:
                self.segments[own] = self.segments.get(own, 0.0) + chance

    def _scores(self, *tables):
        """The scores of all segmentations; what is minus infinity counts only where it occurs."""
        total = 0.0
        for counts, table in zip(self.counts, tables, strict=True):
            total = total + (counts * np.where(counts > 0, table, 0.0)).reshape(len(counts), -1).sum(axis=1)
        return total

    def _expected(self, masses):
        return [np.tensordot(masses, counts, axes=1) for counts in self.counts]

    def response(self, *direction):
        """The Hessian of the log partition times a direction in node, edge and duration scores."""
        found = self._expected(self.list.response(self._scores(*direction)))
        if self.tied:
            found[1] = found[1].sum(axis=0, keepdims=True)
        return found
