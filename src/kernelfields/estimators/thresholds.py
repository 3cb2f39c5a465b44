"""Probability thresholds of rare labels, and the labels above them.

Of a label that 1 in 100 positions has, the probability seldom exceeds that of the common ones, and the most probable
labels have none of it. They are right most often all the same: it is the F1 of the label that is lost. With
probabilities that are right, this F1 is largest if the label is predicted wherever its probability exceeds half of it:

    threshold_k = 1/2 max over c of F1({p_tk > c}, {y_t = k})           on held-out positions t

    Lipton, Elkan and Naryanaswamy (2014), Optimal thresholding of classifiers to maximize F1 measure.

A label has a threshold if the mean F1 of all labels is higher with it on held-out positions. The rarest is tried first.
Of new items probabilities may be so far off that this threshold gains nothing: then the best of some quantiles of the
label's probabilities is tried. Labels of more than half of the positions have none: they are what exceeds no threshold.

Cost: O(n log n + n L) for each of L labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.estimators.answering.decisions import Decision
from kernelfields.estimators.going_on import has_learnt_to_decide
from kernelfields.inference.answers import Answers

# Probabilities of a label that may be its threshold.
_QUANTILES = np.linspace(0.02, 0.98, 49)


def half_largest_f1(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return half the largest F1 over all labels above a common threshold; 1/2 without any label."""
    order = np.argsort(-probabilities, kind="stable")
    right = np.cumsum((weights * labels)[order])
    return 0.5 if not right[-1] > 0 else float((right / (np.cumsum(weights[order]) + right[-1])).max())


def choose_thresholds(
    marginals: np.ndarray, labels: np.ndarray, weights: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """Return thresholds (L,) by held-out marginals (n, L), labels (n,) and weights; 1 for labels without one.

    ``candidates`` are the labels that may have one, the rarest first.
    """
    thresholds = np.ones(marginals.shape[1])
    best = compute_mean_f1(labels, choose_by_thresholds(marginals, thresholds), weights, len(thresholds))

    def reached(label: int, threshold: float) -> float:
        tried = thresholds.copy()
        tried[label] = threshold
        return compute_mean_f1(labels, choose_by_thresholds(marginals, tried), weights, len(thresholds))

    for label in candidates.tolist():
        own = marginals[:, label]
        for tried in ([half_largest_f1(own, labels == label, weights)], _find_positive_quantiles(own)):
            gains = [reached(label, threshold) for threshold in tried]
            if max(gains, default=0.0) > best:
                best, thresholds[label] = max(gains), tried[int(np.argmax(gains))]
                break
    return thresholds


def _find_positive_quantiles(probabilities: np.ndarray) -> np.ndarray:
    """Return quantiles of probabilities that can be thresholds."""
    found = np.unique(np.quantile(probabilities, _QUANTILES))
    return found[(found > 0.0) & (found < 1.0)]


def compute_mean_f1(labels: np.ndarray, predicted: np.ndarray, weights: np.ndarray, n_labels: int) -> float:
    """Return the mean F1 of the labels that occur."""
    true, found, both = (
        np.bincount(own, counted, minlength=n_labels)
        for own, counted in ((labels, weights), (predicted, weights), (labels, weights * (labels == predicted)))
    )
    occurring = true > 0
    return float(np.mean(2.0 * both[occurring] / (true + found)[occurring]))


def choose_by_thresholds(marginals: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return labels (n,): the one with the largest ratio to its threshold, else the most probable one."""
    excess = np.where(thresholds < 1.0, marginals / thresholds, 0.0)
    return np.where(excess.max(axis=1) > 1.0, excess.argmax(axis=1), marginals.argmax(axis=1))


def get_thresholds(model: Any) -> np.ndarray:
    """Return the learnt thresholds (L,) of a chain; 1 for labels without one."""
    return np.asarray(model.choices_.chosen.get("thresholds", np.ones(len(model.classes_))))


def list_thresholds(model: Any) -> dict[Any, float]:
    """Return the thresholds of the labels of a chain that have one."""
    labels = model.classes_.tolist()
    return {label: own for label, own in zip(labels, get_thresholds(model), strict=True) if own < 1.0}


@dataclass(frozen=True)
class RareLabels(Decision):
    """Labels above learnt thresholds, else the most probable labels."""

    model: Any

    def choose(self, answers: Answers) -> np.ndarray:
        """Return the numbers (N,) of the labels."""
        if not has_learnt_to_decide(self.model):
            raise ValueError(
                "decode='f1' takes thresholds that a fit with decode='f1' learns, and this field was fitted with "
                "another one: fit again, with warm_start=True from here, or set decode='posterior'"
            )
        return choose_by_thresholds(answers.marginals, get_thresholds(self.model))
