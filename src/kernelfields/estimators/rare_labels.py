"""Rare labels: those that a field never predicts, and thresholds of probability that find them.

Of a label that 1 in 100 positions has, the probability seldom exceeds that of the common ones, and the most probable
labels have none of it. They are right most often all the same: it is the F1 of the label that is lost. With
probabilities that are right, this F1 is largest if the label is predicted wherever its probability exceeds half of it:

    threshold_k = 1/2 max over c of F1({p_tk > c}, {y_t = k})           on held-out positions t

    Lipton, Elkan and Naryanaswamy (2014), Optimal thresholding of classifiers to maximize F1 measure.

Cost: O(n log n) for each rare label.
"""

from __future__ import annotations

import numpy as np

#: Labels of a smaller share of the positions are rare.
RARE = 0.05
#: A label of so many held-out positions can be judged by them.
LEAST_POSITIONS = 10


def half_largest_f1(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return half the largest F1, over all labels together, of those above some threshold; 1/2 without any label."""
    order = np.argsort(-probabilities, kind="stable")
    right = np.cumsum((weights * labels)[order])
    return 0.5 if not right[-1] > 0 else float((right / (np.cumsum(weights[order]) + right[-1])).max())


def judged_labels(shares: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the rare labels, by their shares (L,) of all positions, that enough held-out positions have."""
    counts = np.bincount(labels[weights > 0], minlength=len(shares))
    return np.flatnonzero((shares < RARE) & (counts >= LEAST_POSITIONS))


def rare_thresholds(marginals: np.ndarray, labels: np.ndarray, weights: np.ndarray, rare: np.ndarray) -> np.ndarray:
    """Return thresholds (L,) of rare labels, by held-out marginals (n, L), labels (n,) and weights; 1 for others."""
    thresholds = np.ones(marginals.shape[1])
    for label in rare.tolist():
        thresholds[label] = half_largest_f1(marginals[:, label], labels == label, weights)
    return thresholds


def above_thresholds(marginals: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return labels (n,): the rare one that exceeds its threshold by the largest factor, else the most probable one."""
    excess = np.where(thresholds < 1.0, marginals / thresholds, 0.0)
    return np.where(excess.max(axis=1) > 1.0, excess.argmax(axis=1), marginals.argmax(axis=1))
