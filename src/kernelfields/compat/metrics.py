"""Scores and scorers of label sequences, named as in sklearn_crfsuite's modules ``metrics`` and ``scorers``.

The flat scores are those of ``sklearn.metrics`` over the positions of all sequences, and pass their keywords on.
``flat_accuracy`` and ``sequence_accuracy`` are scorers for scikit-learn's model selection.
Raises ValueError for flat scores, naming the first sequence whose true and predicted labels differ in number, where
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
    """Compute the share of positions whose label is right.

    Parameters
    ----------
    y_true : list of lists of str
        The true labels.
    y_pred : list of lists of str
        The predicted labels.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from kernelfields.compat import metrics
    >>> metrics.flat_accuracy_score([["a", "b"], ["a", "a"]], [["a", "b"], ["a", "b"]])
    0.75
    """
    return float(sklearn.metrics.accuracy_score(*_flatten(y_true, y_pred)))


def flat_precision_score(y_true: Labels, y_pred: Labels, **kwargs: object) -> Score:
    """Compute ``sklearn.metrics.precision_score`` over all positions.

    Parameters
    ----------
    y_true : list of lists of str
        The true labels.
    y_pred : list of lists of str
        The predicted labels.
    **kwargs : object
        Keyword arguments of the function of scikit-learn.

    Returns
    -------
    float or array (n_labels,)
        The precision.

    Examples
    --------
    >>> from kernelfields.compat import metrics
    >>> float(metrics.flat_precision_score([["a", "b"], ["a", "a"]], [["a", "b"], ["a", "b"]], pos_label="b"))
    0.5
    """
    return sklearn.metrics.precision_score(*_flatten(y_true, y_pred), **kwargs)


def flat_recall_score(y_true: Labels, y_pred: Labels, **kwargs: object) -> Score:
    """Compute ``sklearn.metrics.recall_score`` over all positions.

    Parameters
    ----------
    y_true : list of lists of str
        The true labels.
    y_pred : list of lists of str
        The predicted labels.
    **kwargs : object
        Keyword arguments of the function of scikit-learn.

    Returns
    -------
    float or array (n_labels,)
        The recall.

    Examples
    --------
    >>> from kernelfields.compat import metrics
    >>> float(metrics.flat_recall_score([["a", "b"], ["a", "a"]], [["a", "b"], ["a", "b"]], pos_label="b"))
    1.0
    """
    return sklearn.metrics.recall_score(*_flatten(y_true, y_pred), **kwargs)


def flat_f1_score(y_true: Labels, y_pred: Labels, **kwargs: object) -> Score:
    """Compute ``sklearn.metrics.f1_score`` over all positions.

    Parameters
    ----------
    y_true : list of lists of str
        The true labels.
    y_pred : list of lists of str
        The predicted labels.
    **kwargs : object
        Keyword arguments of the function of scikit-learn.

    Returns
    -------
    float or array (n_labels,)
        The F1 score.

    Examples
    --------
    >>> from kernelfields.compat import metrics
    >>> y_true, y_pred = [["a", "b"], ["a", "a"]], [["a", "b"], ["a", "b"]]
    >>> round(float(metrics.flat_f1_score(y_true, y_pred, average="weighted")), 3)
    0.767
    """
    return sklearn.metrics.f1_score(*_flatten(y_true, y_pred), **kwargs)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **kwargs: object) -> Score:
    """Compute ``sklearn.metrics.fbeta_score`` over all positions.

    Parameters
    ----------
    y_true : list of lists of str
        The true labels.
    y_pred : list of lists of str
        The predicted labels.
    beta : float
        The weight of recall against precision.
    **kwargs : object
        Keyword arguments of the function of scikit-learn.

    Returns
    -------
    float or array (n_labels,)
        The score.

    Examples
    --------
    >>> from kernelfields.compat import metrics
    >>> y_true, y_pred = [["a", "b"], ["a", "a"]], [["a", "b"], ["a", "b"]]
    >>> round(float(metrics.flat_fbeta_score(y_true, y_pred, 2.0, pos_label="b")), 3)
    0.833
    """
    return sklearn.metrics.fbeta_score(*_flatten(y_true, y_pred), beta=beta, **kwargs)


def flat_classification_report(
    y_true: Labels, y_pred: Labels, labels: list | None = None, **kwargs: object
) -> str | dict:
    """Compute ``sklearn.metrics.classification_report`` over all positions.

    Parameters
    ----------
    y_true : list of lists of str
        The true labels.
    y_pred : list of lists of str
        The predicted labels.
    labels : list, optional
        The labels to list; by default all of them, sorted.
    **kwargs : object
        Keyword arguments of the function of scikit-learn.

    Returns
    -------
    str or dict
        The report, a dict with ``output_dict=True``.

    Examples
    --------
    >>> from kernelfields.compat import metrics
    >>> y_true, y_pred = [["a", "b"], ["a", "a"]], [["a", "b"], ["a", "b"]]
    >>> metrics.flat_classification_report(y_true, y_pred, output_dict=True)["b"]["recall"]
    1.0
    """
    return sklearn.metrics.classification_report(*_flatten(y_true, y_pred), labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Compute the share of sequences whose labels are all right.

    Parameters
    ----------
    y_true : list of lists of str
        The true labels.
    y_pred : list of lists of str
        The predicted labels.

    Returns
    -------
    float
        The share; 0 if there is no sequence.

    Examples
    --------
    >>> from kernelfields.compat import metrics
    >>> metrics.sequence_accuracy_score([["a", "b"], ["a", "a"]], [["a", "b"], ["a", "b"]])
    0.5
    """
    true = [list(labels) for labels in y_true]
    if not true:
        return 0.0
    pairs = _list_pairs(true, y_pred)
    return sum(one == other for one, other in pairs) / len(pairs)


def _flatten(y_true: Labels, y_pred: Labels) -> tuple[list, list]:
    """Concatenate labels of all positions; ValueError for sequences of different lengths."""
    pairs = _list_pairs(y_true, y_pred)
    for index, (one, other) in enumerate(pairs):
        if len(one) != len(other):
            raise ValueError(
                f"sequence {index} has {len(one)} labels in y_true but {len(other)} in y_pred: "
                "are both of the same data, in the same order?"
            )
    return list(chain(*(one for one, _ in pairs))), list(chain(*(other for _, other in pairs)))


def _list_pairs(y_true: Labels, y_pred: Labels) -> list[tuple[list, list]]:
    true, predicted = ([list(labels) for labels in y] for y in (y_true, y_pred))
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} sequences but y_pred has {len(predicted)}")
    return list(zip(true, predicted, strict=True))


flat_accuracy = sklearn.metrics.make_scorer(flat_accuracy_score)
sequence_accuracy = sklearn.metrics.make_scorer(sequence_accuracy_score)
