"""Scores and scorers of label sequences, named as in sklearn_crfsuite's modules ``metrics`` and ``scorers``.

The flat scores are those of ``sklearn.metrics`` over the positions of all sequences, and pass their keywords on.
``flat_accuracy`` and ``sequence_accuracy`` are scorers for scikit-learn's model selection.
Fails: ValueError for flat scores, naming the first sequence whose true and predicted labels differ in number, where
joining the sequences would compare labels of different positions. As a whole such sequences are just not equal.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import sklearn.metrics


def flat_accuracy_score(y_true: Any, y_pred: Any) -> float:
    """Return the share of positions whose label is right."""
    return float(sklearn.metrics.accuracy_score(*_flat(y_true, y_pred)))


def flat_precision_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.precision_score`` over all positions."""
    return sklearn.metrics.precision_score(*_flat(y_true, y_pred), **kwargs)


def flat_recall_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.recall_score`` over all positions."""
    return sklearn.metrics.recall_score(*_flat(y_true, y_pred), **kwargs)


def flat_f1_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.f1_score`` over all positions."""
    return sklearn.metrics.f1_score(*_flat(y_true, y_pred), **kwargs)


def flat_fbeta_score(y_true: Any, y_pred: Any, beta: float, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.fbeta_score`` over all positions."""
    return sklearn.metrics.fbeta_score(*_flat(y_true, y_pred), beta=beta, **kwargs)


def flat_classification_report(y_true: Any, y_pred: Any, labels: Any = None, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.classification_report`` over all positions."""
    return sklearn.metrics.classification_report(*_flat(y_true, y_pred), labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Any, y_pred: Any) -> float:
    """Return the share of sequences whose labels are all right; 0 if there is no sequence."""
    true, predicted = _listed(y_true), _listed(y_pred)
    if not true:
        return 0.0
    _check_numbers(true, predicted)
    return sum(one == other for one, other in zip(true, predicted, strict=True)) / len(true)


def _flat(y_true: Any, y_pred: Any) -> tuple[list, list]:
    true, predicted = _paired(y_true, y_pred)
    return list(chain.from_iterable(true)), list(chain.from_iterable(predicted))


def _paired(y_true: Any, y_pred: Any) -> tuple[list[list], list[list]]:
    """Return both as lists of lists, sequence by sequence of the same length."""
    true, predicted = _listed(y_true), _listed(y_pred)
    _check_numbers(true, predicted)
    for index, (one, other) in enumerate(zip(true, predicted, strict=True)):
        if len(one) != len(other):
            raise ValueError(
                f"sequence {index} has {len(one)} labels in y_true but {len(other)} in y_pred: "
                "are both of the same data, in the same order?"
            )
    return true, predicted


def _listed(y: Any) -> list[list]:
    return [list(labels) for labels in y]


def _check_numbers(true: list, predicted: list) -> None:
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} sequences but y_pred has {len(predicted)}")


flat_accuracy = sklearn.metrics.make_scorer(flat_accuracy_score)
sequence_accuracy = sklearn.metrics.make_scorer(sequence_accuracy_score)
