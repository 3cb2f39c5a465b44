"""Precision, recall and F1 from counts; accuracies of positions and of whole sequences.

    precision = hits / predicted,   recall = hits / true,   F1 = 2 hits / (predicted + true)
    micro: of the summed counts;  macro: mean over labels;  weighted: mean weighted by true

A label that is never predicted has precision 0 and one that is never true has recall 0, as in scikit-learn and
conlleval. A label that is neither has no scores and no part in averages. A resample that merely did not draw a
label does not make its scores 0: what has nothing below the line there has no part in the intervals. With nothing
to score at all, scores are 0. Intervals of shares are those of shares.py, which know small counts.

Arrays: hits, predicted, true (S, L) by sequence, or (1 + n_resamples, L) summed over sequences, the data first.
Cost: O(N) to count, O(L) per resample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels
from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports.tables import Estimate, Result
from kernelfields.evaluation.shares import f1_interval, mean_interval, share_interval

AVERAGES = ("micro", "macro", "weighted")


@dataclass(frozen=True)
class Scores(Result):
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

    def together(self) -> Counts:
        """Return the counts of all labels as those of one, (..., 1)."""
        return Counts(*(each.sum(axis=1, keepdims=True) for each in (self.hits, self.predicted, self.true)))

    def intervals(self, confidence: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the ends (L,) of the intervals of precision, recall and F1, of counts by sequence."""
        return [
            share_interval(self.hits, self.predicted, confidence),
            share_interval(self.hits, self.true, confidence),
            f1_interval(self.hits, self.predicted, self.true, confidence),
        ]

    def average(self, kind: str) -> np.ndarray:
        """Precision, recall and F1 averaged over labels, (3, 1 + n_resamples); NaN where there is none."""
        if kind == "micro":
            return self.together().scores()[..., 0]
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


def score_table(counts: Counts, names: list, resampling: Resampling) -> dict[Any, Scores]:
    """Score each label, from counts by sequence (S, L)."""
    total = counts.summed()
    ends = counts.intervals(resampling.confidence)
    figures = [
        resampling.shares(values, each, len(counts.hits))
        for values, each in zip(total.scores()[:, 0], ends, strict=True)
    ]
    return dict(zip(names, _joined(figures, total), strict=True))


def average_table(counts: Counts, sums: Counts, resampling: Resampling) -> dict[str, Scores]:
    """Average over labels, from counts by sequence (S, L) and their resampled sums (1 + n_resamples, L).

    The micro average is a share like those of labels. For the others the interval is the wider, at each end, of the
    resamples' and of that which the labels' own intervals give: resamples know how labels depend on each other,
    those of labels know how few there are.
    """
    n_sequences, together, total = len(counts.hits), counts.together(), counts.summed()
    table = {"micro": score_table(together, ["micro"], resampling)["micro"]}
    ends, values = counts.intervals(resampling.confidence), total.scores()[:, 0]
    for kind in AVERAGES[1:]:
        figures = []
        for resampled, own, value in zip(sums.average(kind), ends, values, strict=True):
            weights = ~np.isnan(value) * (1.0 if kind == "macro" else total.true[0])
            figures.append([resampling.widened(resampled, n_sequences, mean_interval(value, own, weights))])
        table[kind] = _joined(figures, together.summed())[0]
    return table


def _joined(figures: Sequence[list[Estimate]], total: Counts) -> list[Scores]:
    """Join precision, recall and F1 with how many of each label were true and predicted, (1, L)."""
    counts = (each[0].astype(int).tolist() for each in (total.true, total.predicted))
    return [Scores(*each) for each in zip(*figures, *counts, strict=True)]


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
