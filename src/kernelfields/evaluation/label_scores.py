"""Precision, recall and F1 from counts; accuracies of positions and of whole sequences.

    precision = hits / predicted,   recall = hits / true,   F1 = 2 hits / (predicted + true)
    micro: of the summed counts;  macro: mean over labels;  weighted: mean weighted by true

A label that is never predicted has precision 0 and one that is never true has recall 0, as in scikit-learn and
conlleval. A label that is neither has no scores and no part in averages. A resample that merely did not draw a
label does not make its scores 0: a score whose denominator is 0 there has no part in the intervals. With nothing
to score at all, scores are 0. Intervals of proportions are Wilson's (intervals.py).

Arrays: counts (S, 3, L) by sequence, or (1 + n_resamples, 3, L) summed over sequences, all data first.
Cost: O(N) to count, O(L) per resample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from kernelfields.evaluation.intervals import mean_interval
from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels
from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports.tables import Estimate, Result

AVERAGES = ("micro", "macro", "weighted")

Name = TypeVar("Name")


@dataclass(frozen=True)
class Scores(Result):
    """Precision, recall and F1 of a label, an entity type or an average.

    Parameters
    ----------
    precision : Estimate
        The share of predicted ones that are right.
    recall : Estimate
        The share of true ones that are found.
    f1 : Estimate
        Their harmonic mean.
    support : int
        How many are true.
    predicted : int
        How many are predicted.

    Examples
    --------
    >>> from kernelfields.evaluation import evaluate
    >>> scores = evaluate([["a", "b"], ["a", "a"]], [["a", "a"], ["a", "a"]], random_state=0).per_label["a"]
    >>> scores.precision.value, scores.recall.value
    (0.75, 1.0)
    """

    precision: Estimate
    recall: Estimate
    f1: Estimate
    support: int
    predicted: int


@dataclass(frozen=True, eq=False)
class Counts:
    """Hits, predicted and true labels, ``values`` (S, 3, L) by sequence or (1 + n_resamples, 3, L) in total."""

    values: np.ndarray

    @property
    def hits(self) -> np.ndarray:
        """Number of positions where a label is predicted and true, (S, L)."""
        return self.values[:, 0]

    @property
    def predicted(self) -> np.ndarray:
        """Number of positions where a label is predicted, (S, L)."""
        return self.values[:, 1]

    @property
    def true(self) -> np.ndarray:
        """Number of positions where a label is true, (S, L)."""
        return self.values[:, 2]

    def select(self, columns: np.ndarray) -> Counts:
        """Return the counts of selected labels."""
        return Counts(self.values[:, :, columns])

    def sum_sequences(self) -> Counts:
        """Sum the counts over sequences, (1, 3, L)."""
        return Counts(self.values.sum(axis=0, keepdims=True))

    def sum_labels(self) -> Counts:
        """Sum the counts over labels, (S, 3, 1)."""
        return Counts(self.values.sum(axis=2, keepdims=True))

    def average(self, kind: str) -> np.ndarray:
        """Average precision, recall and F1 over labels, (3, 1 + n_resamples); NaN if undefined."""
        if kind == "micro":
            return self.sum_labels()._scores()[..., 0]
        scores = self._scores()
        defined = ~np.isnan(scores)
        weights = defined * (1.0 if kind == "macro" else self.true)
        total = weights.sum(axis=2)
        weighted = np.where(defined, scores, 0.0) * weights
        return np.divide(weighted.sum(axis=2), total, out=np.full(total.shape, np.nan), where=total > 0)

    def _scores(self) -> np.ndarray:
        """Compute precision, recall and F1 from counts, (3, 1 + n_resamples, L); NaN if undefined."""
        both = self.predicted + self.true
        above = np.stack([self.hits, self.hits, 2 * self.hits])
        below = np.stack([self.predicted, self.true, both])
        otherwise = np.where((below[:, :1] == 0) & (both > 0), 0.0, np.nan)
        return np.divide(above, below, out=otherwise, where=below > 0)


def label_counts(packed: PackedLabels, predicted: str = "y_pred") -> Counts:
    """Count labels by sequence."""
    true, guessed, n_labels = packed.codes["y_true"], packed.codes[predicted], len(packed.labels)
    right, everywhere = true == guessed, slice(None)
    groups: list[tuple[np.ndarray | slice, np.ndarray]] = [
        (right, true[right]),
        (everywhere, guessed),
        (everywhere, true),
    ]
    return Counts(np.stack([packed.count(where, codes, n_labels) for where, codes in groups], axis=1))


def score_table(counts: Counts, names: Iterable[Name], resampling: Resampling) -> dict[Name, Scores]:
    """Score each label from counts by sequence."""
    precision = resampling.proportions(counts.hits, counts.predicted)
    recall = resampling.proportions(counts.hits, counts.true)
    f1 = resampling.f1_scores(counts.hits, counts.predicted, counts.true)
    support, predicted = (total.sum(axis=0).astype(int).tolist() for total in (counts.true, counts.predicted))
    return dict(zip(names, map(Scores, precision, recall, f1, support, predicted), strict=True))


def average_table(counts: Counts, sums: Counts, resampling: Resampling) -> dict[str, Scores]:
    """Average scores over labels, from counts by sequence and resampled sums.

    The micro average is a proportion like those of labels. For the others the interval is the wider, at each end, of
    the resamples' and of that of a mean of the labels' own estimates: resamples reflect how labels depend on each
    other, the estimates how few there are.
    """
    table, n_sequences = score_table(counts.sum_labels(), ["micro"], resampling), len(counts.values)
    own, total = score_table(counts, range(counts.values.shape[2]), resampling).values(), counts.sum_sequences()
    seen = (total.predicted + total.true)[0] > 0
    for kind in AVERAGES[1:]:
        weights = seen * (1.0 if kind == "macro" else total.true[0])
        precision, recall, f1 = (
            resampling.estimate(
                resampled, n_sequences, mean_interval([getattr(scores, name) for scores in own], weights)
            )
            for name, resampled in zip(("precision", "recall", "f1"), sums.average(kind), strict=True)
        )
        table[kind] = replace(table["micro"], precision=precision, recall=recall, f1=f1)
    return table


def right_sequences(packed: PackedLabels, predicted: str = "y_pred") -> np.ndarray:
    """Return a mask (S,) of the sequences without wrong labels."""
    return np.minimum.reduceat(packed.codes["y_true"] == packed.codes[predicted], packed.offsets[:-1])


def choose_labels(labels: object, packed: PackedLabels) -> np.ndarray:
    """Return the columns of the labels to average over, None for all; labels without data have none."""
    if labels is None:
        return np.arange(len(packed.labels))
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"labels must be a list of the labels to average over, got {labels!r}")
    chosen = set(labels)
    return np.array([code for code, label in enumerate(packed.labels) if label in chosen], dtype=np.int64)


def token_accuracy(y_true: object, y_pred: object) -> float:
    """Return the share of positions whose label is right.

    Parameters
    ----------
    y_true : list of label sequences
        The true labels.
    y_pred : list of label sequences
        The predicted labels.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from kernelfields.evaluation import token_accuracy
    >>> token_accuracy([["a", "b"], ["a", "a"]], [["a", "a"], ["a", "a"]])
    0.75
    """
    packed = pack_labels(y_true=y_true, y_pred=y_pred)
    return float(np.mean(packed.codes["y_true"] == packed.codes["y_pred"]))


def sequence_accuracy(y_true: object, y_pred: object) -> float:
    """Return the share of sequences with all labels right.

    Parameters
    ----------
    y_true : list of label sequences
        The true labels.
    y_pred : list of label sequences
        The predicted labels.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from kernelfields.evaluation import sequence_accuracy
    >>> sequence_accuracy([["a", "b"], ["a", "a"]], [["a", "a"], ["a", "a"]])
    0.5
    """
    return float(right_sequences(pack_labels(y_true=y_true, y_pred=y_pred)).mean())


def label_f1_score(y_true: object, y_pred: object, *, average: str = "macro", labels: object = None) -> float:
    """Compute the F1 of labels, averaged.

    Parameters
    ----------
    y_true : list of label sequences
        The true labels.
    y_pred : list of label sequences
        The predicted labels.
    average : {"macro", "micro", "weighted"}, default "macro"
        "macro" is the mean, "micro" the F1 of the summed counts, "weighted" the mean by how often a label is true.
    labels : list, optional
        The labels to average over; all that occur by default. To leave the outside of entities out, pass
        ``[label for label in crf.classes_ if label != "O"]``.

    Returns
    -------
    float
        The average.

    Examples
    --------
    >>> from kernelfields.evaluation import label_f1_score
    >>> round(label_f1_score([["a", "b"], ["a", "a"]], [["a", "a"], ["a", "a"]]), 3)
    0.429
    """
    check_average(average)
    packed = pack_labels(y_true=y_true, y_pred=y_pred)
    counts = label_counts(packed).select(choose_labels(labels, packed))
    return total_f1(counts, average)


def total_f1(counts: Counts, average: str) -> float:
    """Compute the averaged F1 of counts summed over sequences; 0 if no label is true or predicted."""
    f1 = float(counts.sum_sequences().average(average)[2, 0])
    return 0.0 if np.isnan(f1) else f1


def check_average(average: object) -> None:
    """Raise ValueError for an unknown ``average``."""
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {', '.join(map(repr, AVERAGES))}, got {average!r}")
