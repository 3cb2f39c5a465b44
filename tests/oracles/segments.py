"""Every segmentation of a short chain by enumeration: an oracle for semi-Markov inference."""

from __future__ import annotations

from itertools import product

import numpy as np


def compositions(length, longest):
    """Yield every way to cut a length into parts of at most ``longest``."""
    if length == 0:
        yield ()
    for first in range(1, min(length, longest) + 1):
        for others in compositions(length - first, longest):
            yield (first, *others)


def segmentations(length, n_labels, longest):
    """Yield every segmentation as a list of (begin, end, label)."""
    for parts in compositions(length, longest):
        ends = np.cumsum(parts).tolist()
        begins = [0, *ends[:-1]]
        for labels in product(range(n_labels), repeat=len(parts)):
            yield list(zip(begins, ends, labels, strict=True))


def score_of(segments, node, edge, duration, mean=None):
    """The score of a segmentation of one chain: node (T, L), edge (1 or T, L, L), duration (D, L), mean (T, L)."""
    total = 0.0
    for place, (begin, end, label) in enumerate(segments):
        total += node[begin:end, label].sum() + duration[end - begin - 1, label]
        if mean is not None:
            total += mean[begin:end, label].mean()
        if place:
            table = edge[begin] if len(edge) > 1 else edge[0]
            total += table[segments[place - 1][2], label]
    return total


class Enumerated:
    """Log partition, marginals, expected durations and steps, and the best segmentation of one chain."""

    def __init__(self, node, edge, duration, mean=None):
        length, n_labels = node.shape
        every = list(segmentations(length, n_labels, len(duration)))
        scores = np.array([score_of(each, node, edge, duration, mean) for each in every])
        self.ranked = [(every[i], scores[i]) for i in np.argsort(-scores, kind="stable") if scores[i] > -np.inf]
        self.best_score = scores.max()
        self.best = every[int(scores.argmax())]
        self.log_partition = self.best_score + np.log(np.exp(scores - self.best_score).sum())
        self.probabilities = dict(zip(map(tuple, every), np.exp(scores - self.log_partition).tolist(), strict=True))
        self.marginals = np.zeros((length, n_labels))
        self.durations = np.zeros(duration.shape)
        self.steps = np.zeros((length, n_labels, n_labels))
        self.covers = np.zeros((length, n_labels))
        self.segments = {}
        self.entropy = 0.0
        for segments, chance in self.probabilities.items():
            self.entropy -= chance * np.log(chance) if chance > 0 else 0.0
            for place, (begin, end, label) in enumerate(segments):
                self.marginals[begin:end, label] += chance
                self.covers[begin:end, label] += chance / (end - begin)
                self.durations[end - begin - 1, label] += chance
                self.segments[begin, end, label] = self.segments.get((begin, end, label), 0.0) + chance
                if place:
                    self.steps[begin, segments[place - 1][2], label] += chance
