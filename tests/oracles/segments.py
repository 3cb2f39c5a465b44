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


def score_of(segments, node, edge, duration):
    """The score of a segmentation of one chain: node (T, L), edge (1 or T, L, L), duration (D, L)."""
    total = 0.0
    for place, (begin, end, label) in enumerate(segments):
        total += node[begin:end, label].sum() + duration[end - begin - 1, label]
        if place:
            table = edge[begin] if len(edge) > 1 else edge[0]
            total += table[segments[place - 1][2], label]
    return total


def counts_of(segments, shape, n_durations):
    """What the score of a segmentation is linear in: labels, steps and durations."""
    labels, steps, durations = np.zeros(shape), np.zeros((*shape, shape[1])), np.zeros((n_durations, shape[1]))
    for place, (begin, end, label) in enumerate(segments):
        labels[begin:end, label] = 1.0
        durations[end - begin - 1, label] += 1.0
        if place:
            steps[begin, segments[place - 1][2], label] = 1.0
    return labels, steps, durations


class Enumerated:
    """Log partition, marginals, expected durations and steps, and the best segmentation of one chain."""

    def __init__(self, node, edge, duration):
        length, n_labels = node.shape
        every = list(segmentations(length, n_labels, len(duration)))
        self.shape, self.n_durations, self.tied = node.shape, len(duration), len(edge) == 1
        scores = np.array([score_of(each, node, edge, duration) for each in every])
        self.ranked = [(every[i], scores[i]) for i in np.argsort(-scores, kind="stable") if scores[i] > -np.inf]
        self.best_score = scores.max()
        self.best = every[int(scores.argmax())]
        if np.isneginf(self.best_score):
            self.log_partition = -np.inf
            return
        self.log_partition = self.best_score + np.log(np.exp(scores - self.best_score).sum())
        self.probabilities = dict(zip(map(tuple, every), np.exp(scores - self.log_partition).tolist(), strict=True))
        self.marginals = np.zeros((length, n_labels))
        self.durations = np.zeros(duration.shape)
        self.steps = np.zeros((length, n_labels, n_labels))
        self.segments = {}
        self.entropy = 0.0
        for segments, chance in self.probabilities.items():
            self.entropy -= chance * np.log(chance) if chance > 0 else 0.0
            for place, (begin, end, label) in enumerate(segments):
                self.marginals[begin:end, label] += chance
                self.durations[end - begin - 1, label] += chance
                self.segments[begin, end, label] = self.segments.get((begin, end, label), 0.0) + chance
                if place:
                    self.steps[begin, segments[place - 1][2], label] += chance

    def response(self, *direction):
        """The Hessian of the log partition times a direction in node, edge and duration scores."""
        possible = [(segments, chance) for segments, chance in self.probabilities.items() if chance > 0]
        counts = [counts_of(segments, self.shape, self.n_durations) for segments, _ in possible]
        scores = np.array([sum(np.sum(c * d) for c, d in zip(each, direction, strict=True)) for each in counts])
        chances = np.array([chance for _, chance in possible])
        moves = chances * (scores - chances @ scores)
        found = [np.einsum("s,s...->...", moves, np.stack(parts)) for parts in zip(*counts, strict=True)]
        if self.tied:
            found[1] = found[1].sum(axis=0, keepdims=True)
        return found
