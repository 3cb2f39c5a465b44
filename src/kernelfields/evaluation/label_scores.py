"""Precision, recall and F1 from counts; accuracies of positions and of whole sequences.

    precision = hits / predicted,   recall = hits / true,   F1 = 2 hits / (predicted + true)
    micro: of the summed counts;  macro: mean over labels;  weighted: mean weighted by true

A label that is never predicted has precision 0 and one that is never true has recall 0, as in scikit-learn and
conlleval. A label that is neither has no scores and no part in averages. A resample that merely did not draw a
label does not make its scores 0: what has nothing below the line there has no part in the intervals. With nothing
to score at all, scores are 0.

Arrays: hits, predicted, true (S, L) by sequence, or (1 + n_resamples, L) summed over sequences, the data first.
Cost: O(N) to count, O(L) per resample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels
from kernelfields.evaluation.resampling import Estimate, Figures, Resampling

AVERAGES = ("micro", "macro", "weighted")


@dataclass(frozen=True)
class Scores(Figures):
    """Precision, recall and F1 of a label, an entity type or an average, and how many were true and predicted."""

    precision: Estimate
    recall: Estimate
    f1: Estimate
    support: int
    predicted: int


@dataclass(frozen=True, eq=False)
class Counts:
    """Hits, predicted and true, by sequence (S, L) or summed (1 + n_resamples, L)."""

    hits: np.ndarray
    predicted: np.ndarray
    true: np.ndarray

    @classmethod
    def split(cls, sums: np.ndarray) -> Counts:
        """Read what ``stacked`` wrote, (..., 3 L), summed over sequences or not."""
        return cls(*np.split(sums, 3, axis=1))

    @property
    def stacked(self) -> np.ndarray:
        """The three beside each other, (..., 3 L)."""
        return np.concatenate([self.hits, self.predicted, self.true], axis=1)

    def take(self, columns: np.ndarray) -> Counts:
        """Return the counts of the chosen labels."""
        return Counts(self.hits[:, columns], self.predicted[:, columns], self.true[:, columns])

    def summed(self) -> Counts:
        """Return the counts of all sequences, (1, L)."""
        return Counts(*(each.sum(axis=0, keepdims=True) for each in (self.hits, self.predicted, self.true)))

    def scores(self) -> np.ndarray:
        """Precision, recall and F1 of summed counts, (3, 1 + n_resamples, L); NaN where they are not defined."""
        both = self.predicted + self.true
        above = np.stack([self.hits, self.hits, 2 * self.hits])
        below = np.stack([self.predicted, self.true, both])
        otherwise = np.where((below[:, :1] == 0) & (both > 0), 0.0, np.nan)
        return np.divide(above, below, out=otherwise, where=below > 0)

    def holders(self) -> np.ndarray:
        """How many sequences the precision, recall and F1 of each label rest on, (3, L), of counts by sequence."""
        both = self.predicted + self.true
        counts = [np.sum(each > 0, axis=0) for each in (self.predicted, self.true, both)]
        # What is never predicted has precision 0 because of the sequences where it is true.
        return np.where(np.array(counts) > 0, counts, counts[2])

    def average_holders(self) -> np.ndarray:
        """The same of averages over all labels, (3, 1)."""
        together = (each.sum(axis=1, keepdims=True) for each in (self.hits, self.predicted, self.true))
        return Counts(*together).holders()

    def average(self, kind: str) -> np.ndarray:
        """Precision, recall and F1 averaged over labels, (3, 1 + n_resamples); NaN where there is none."""
        if kind == "micro":
            together = (each.sum(axis=1, keepdims=True) for each in (self.hits, self.predicted, self.true))
            return Counts(*together).scores()[..., 0]
        scores = self.scores()
        defined = ~np.isnan(scores)
        weights = defined * (1.0 if kind == "macro" else self.true)
        total = weights.sum(axis=2)
        weighted = np.where(defined, scores, 0.0) * weights
        return np.divide(weighted.sum(axis=2), total, out=np.full(total.shape, np.nan), where=total > 0)


def label_counts(packed: PackedLabels, predicted: str = "y_pred") -> Counts:
    """Count labels by sequence, (S, L) each."""
    true, guessed, n_labels = packed.codes["y_true"], packed.codes[predicted], len(packed.labels)
    right, everywhere = true == guessed, slice(None)
    return Counts(
        packed.count(right, true[right], n_labels),
        packed.count(everywhere, guessed, n_labels),
        packed.count(everywhere, true, n_labels),
    )


def score_table(counts: Counts, names: list, resampling: Resampling, holders: np.ndarray) -> dict[Any, Scores]:
    """Score each label from summed counts (1 + n_resamples, L); ``holders`` as :meth:`Counts.holders` has them."""
    scored = _scores(counts.scores(), counts.true[0], counts.predicted[0], resampling, holders)
    return dict(zip(names, scored, strict=True))


def average_table(counts: Counts, resampling: Resampling, holders: np.ndarray) -> dict[str, Scores]:
    """Average over the labels of summed counts (1 + n_resamples, L); ``holders`` are those of averages."""
    true, predicted = (each[0].sum(keepdims=True) for each in (counts.true, counts.predicted))
    figures = {kind: counts.average(kind)[..., None] for kind in AVERAGES}
    return {kind: _scores(each, true, predicted, resampling, holders)[0] for kind, each in figures.items()}


def _scores(
    figures: np.ndarray, true: np.ndarray, predicted: np.ndarray, resampling: Resampling, holders: np.ndarray
) -> list[Scores]:
    """Join figures (3, 1 + n_resamples, L) with the counts (L,) of the data."""
    precision, recall, f1 = (resampling.estimates(*each) for each in zip(figures, holders, strict=True))
    counts = (true.astype(int).tolist(), predicted.astype(int).tolist())
    return [Scores(*each) for each in zip(precision, recall, f1, *counts, strict=True)]


def wrong_sequences(packed: PackedLabels, predicted: str = "y_pred") -> np.ndarray:
    """Which sequences (S,) have a wrong label."""
    wrong = packed.codes["y_true"] != packed.codes[predicted]
    return np.maximum.reduceat(wrong, packed.offsets[:-1])


def choose_labels(labels: Any, packed: PackedLabels) -> np.ndarray:
    """Return the columns of the labels to average over: all for None; labels that do not occur have none."""
    if labels is None:
        return np.arange(len(packed.labels))
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"labels must be a list of the labels to average over, got {labels!r}")
    chosen = set(labels)
    return np.array([code for code, label in enumerate(packed.labels) if label in chosen], dtype=np.int64)


def token_accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of positions whose label is right."""
    packed = pack_labels(y_true=y_true, y_pred=y_pred)
    return float(np.mean(packed.codes["y_true"] == packed.codes["y_pred"]))


def sequence_accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of sequences all of whose labels are right."""
    return 1.0 - float(wrong_sequences(pack_labels(y_true=y_true, y_pred=y_pred)).mean())


def label_f1_score(y_true: Any, y_pred: Any, *, average: str = "macro", labels: Any = None) -> float:
    """Return the F1 of labels, averaged over ``labels`` (all that occur, for None).

    average is "micro" (of the summed counts), "macro" (the mean) or "weighted" (by how often a label is true).
    To leave the outside of entities out, pass ``labels=[label for label in crf.classes_ if label != "O"]``.
    """
    check_average(average)
    packed = pack_labels(y_true=y_true, y_pred=y_pred)
    counts = label_counts(packed).take(choose_labels(labels, packed))
    return total_f1(counts, average)


def total_f1(counts: Counts, average: str) -> float:
    """Return the averaged F1 of counts (S, L) summed over sequences, 0 where nothing is true or predicted."""
    f1 = float(counts.summed().average(average)[2, 0])
    return 0.0 if np.isnan(f1) else f1


def check_average(average: Any) -> None:
    """Raise unless ``average`` names a way to average."""
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {', '.join(map(repr, AVERAGES))}, got {average!r}")
