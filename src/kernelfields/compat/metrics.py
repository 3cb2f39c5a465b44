"""Scores and scorers of label sequences, named as in sklearn_crfsuite's modules ``metrics`` and ``scorers``.

The flat scores are those of ``sklearn.metrics`` over the positions of all sequences, and pass their keywords on.
``flat_accuracy`` and ``sequence_accuracy`` are scorers for scikit-learn's model selection.
Fails: ValueError for flat scores, naming the first sequence whose true and predicted labels differ in number, where
joining the sequences would compare labels of different positions. As a whole such sequences are just not equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import sklearn.metrics

#: Labels of every sequence.
Labels = Iterable[Iterable]
Score = float | np.ndarray


def flat_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the share of positions whose label is right."""
    return float(sklearn.metrics.accuracy_score(*_flat(y_true, y_pred)))


def flat_precision_score(y_true: Labels, y_pred: Labels, **kwargs: object) -> Score:
    """Return ``sklearn.metrics.precision_score`` over all positions."""
    return sklearn.metrics.precision_score(*_flat(y_true, y_pred), **kwargs)


def flat_recall_score(y_true: Labels, y_pred: Labels, **kwargs: object) -> Score:
    """Return ``sklearn.metrics.recall_score`` over all positions."""
    return sklearn.metrics.recall_score(*_flat(y_true, y_pred), **kwargs)


def flat_f1_score(y_true: Labels, y_pred: Labels, **kwargs: object) -> Score:
    """Return ``sklearn.metrics.f1_score`` over all positions."""
    return sklearn.metrics.f1_score(*_flat(y_true, y_pred), **kwargs)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **kwargs: object) -> Score:
    """Return ``sklearn.metrics.fbeta_score`` over all positions."""
    return sklearn.metrics.fbeta_score(*_flat(y_true, y_pred), beta=beta, **kwargs)


def flat_classification_report(
    y_true: Labels, y_pred: Labels, labels: list | None = None, **kwargs: object
) -> str | dict:
    """Return ``sklearn.metrics.classification_report`` over all positions."""
    return sklearn.metrics.classification_report(*_flat(y_true, y_pred), labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the share of sequences whose labels are all right; 0 if there is no sequence."""
    true = [list(labels) for labels in y_true]
    if not true:
        return 0.0
    pairs = _pairs(true, y_pred)
    return sum(one == other for one, other in pairs) / len(pairs)


def _flat(y_true: Labels, y_pred: Labels) -> tuple[list, list]:
    """Return the labels of all positions; ValueError unless all sequences have the same lengths in both."""
    pairs = _pairs(y_true, y_pred)
    for index, (one, other) in enumerate(pairs):
        if len(one) != len(other):
            raise ValueError(
                f"sequence {index} has {len(one)} labels in y_true but {len(other)} in y_pred: "
                "are both of the same data, in the same order?"
            )
    return list(chain(*(one for one, _ in pairs))), list(chain(*(other for _, other in pairs)))


def _pairs(y_true: Labels, y_pred: Labels) -> list[tuple[list, list]]:
    true, predicted = ([list(labels) for labels in y] for y in (y_true, y_pred))
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} sequences but y_pred has {len(predicted)}")
    return list(zip(true, predicted, strict=True))


flat_accuracy = sklearn.metrics.make_scorer(flat_accuracy_score)
sequence_accuracy = sklearn.metrics.make_scorer(sequence_accuracy_score)
