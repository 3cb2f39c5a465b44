"""Paired comparison of two predictions of the same sequences.

    difference = figure(second) - figure(first),    both from the same resampled sequences

Sequences that are hard for one prediction are mostly hard for the other, so the interval of the difference is much
narrower than the two intervals suggest. Cost and failures as in evaluation.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.evaluation.entities import entity_reader
from kernelfields.evaluation.evaluation import count_prediction, estimated_proportions, resampled_figures
from kernelfields.evaluation.label_scores import Counts, average_table, choose_labels
from kernelfields.evaluation.packed_labels import pack_labels, select_known
from kernelfields.evaluation.resampling import ResampledFigures, Resampling
from kernelfields.reports.tables import Estimate, Result, Table

_NAMES = {
    "entity_f1": "entity F1",
    "accuracy": "accuracy",
    "sequence_accuracy": "sequence accuracy",
    "macro_f1": "macro F1 of labels",
}


@dataclass(frozen=True)
class Difference(Result):
    """A figure for two predictions, and its difference.

    Parameters
    ----------
    first : Estimate
        The figure of the first prediction.
    second : Estimate
        The figure of the second.
    difference : Estimate
        The second minus the first.
    share_better : float or None
        The share of resamples in which the second is better, ties counted half; None without resamples, or of one
        sequence.

    Examples
    --------
    >>> from kernelfields.evaluation import compare
    >>> result = compare([["a", "b"], ["a"]], first=[["a", "a"], ["a"]], second=[["a", "b"], ["a"]], random_state=0)
    >>> round(result.accuracy.difference.value, 3)
    0.333
    """

    first: Estimate
    second: Estimate
    difference: Estimate
    share_better: float | None


@dataclass(frozen=True)
class Comparison(ResampledFigures):
    """The result of :func:`compare`.

    Parameters
    ----------
    n_sequences : int
        The number of sequences.
    n_tokens : int
        The number of positions.
    n_resamples : int
        The number of resamples for intervals.
    confidence : float
        The coverage of intervals.
    accuracy : Difference
        The share of right positions.
    sequence_accuracy : Difference
        The share of sequences without an error.
    macro_f1 : Difference
        The mean F1 of labels.
    entity_f1 : Difference or None
        The F1 of entities, None if there are none.
    nouns : tuple of str, default ("sequence", "position")
        What an item and a position of it are called.

    Examples
    --------
    >>> from kernelfields.evaluation import compare
    >>> result = compare([["a", "b"], ["a"]], first=[["a", "a"], ["a"]], second=[["a", "b"], ["a"]], random_state=0)
    >>> result.sequence_accuracy.second.value
    1.0
    """

    accuracy: Difference
    sequence_accuracy: Difference
    macro_f1: Difference
    entity_f1: Difference | None = None

    def parts(self) -> list[str | Table]:
        """Yield the size of the data, and the figures of both predictions with differences.

        Returns
        -------
        list of str and Table
            What is printed.
        """
        rows = [
            (words, figure.first.value, figure.second.value, figure.difference, figure.share_better)
            for name, words in _NAMES.items()
            if (figure := getattr(self, name)) is not None
        ]
        columns = ("figure", "first", "second", "second - first", "second better in")
        formats = dict(zip(columns[1:], (".4f", ".4f", "+.4f", ".3f"), strict=True))
        return [self._size("from {:,} paired resamples"), Table(columns, rows, formats=formats)]


def compare(
    y_true: object,
    first: object,
    second: object,
    *,
    scheme: str | None = "auto",
    labels: object = None,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: object = None,
) -> Comparison:
    """Compare two predictions of the same labels, with intervals for their differences.

    Parameters
    ----------
    y_true : list of label sequences
        The true labels.
    first : list of label sequences
        One prediction.
    second : list of label sequences
        Another one.
    scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None, default "auto"
        How labels write entities; None counts none.
    labels : list, optional
        The labels that ``macro_f1`` averages over; all that occur by default.
    n_resamples : int, default 1000
        The number of resamples of sequences; 0 for no intervals.
    confidence : float, default 0.95
        The coverage of intervals.
    random_state : int or Generator, optional
        The seed of resamples.

    Returns
    -------
    Comparison
        The figures of both, and their differences.

    See Also
    --------
    evaluate : All figures of one prediction.

    Examples
    --------
    >>> from kernelfields.evaluation import compare
    >>> result = compare([["a", "b"], ["a"]], first=[["a", "a"], ["a"]], second=[["a", "b"], ["a"]], random_state=0)
    >>> result.accuracy.first.value < result.accuracy.second.value
    True
    """
    resampling = Resampling(n_resamples, confidence, random_state)
    y_true, predicted, scheme = select_known(y_true, {"first": first, "second": second}, scheme)
    packed = pack_labels(y_true=y_true, **predicted)
    chosen = choose_labels(labels, packed)
    reader = entity_reader(scheme, packed.labels)
    statistics = {name: count_prediction(packed, reader, name) for name in ("first", "second")}
    sums = resampling.sums(
        {f"{name} {part}": values for name, parts in statistics.items() for part, values in parts.items()}
    )
    own, figures = [], []
    for name, parts in statistics.items():
        summed = {part: sums[f"{name} {part}"] for part in parts}
        labelled, resampled = (Counts(values["labels"]).select(chosen) for values in (parts, summed))
        averages = average_table(labelled, resampled, resampling)
        own.append({**estimated_proportions(parts, resampling), "macro_f1": averages["macro"].f1})
        figures.append(resampled_figures(summed, chosen))
    differences: dict[str, Any] = {}
    for name in figures[0]:
        gap, n_sequences = (
            figures[1][name] - figures[0][name],
            _count_sequences(name, statistics.values(), chosen),
        )
        defined = gap[1:][~np.isnan(gap[1:])]
        share = float(np.mean((np.sign(defined) + 1) / 2)) if defined.size and n_sequences > 1 else None
        differences[name] = Difference(own[0][name], own[1][name], resampling.estimate(gap, n_sequences), share)
    return Comparison(packed.n_sequences, packed.n_positions, int(n_resamples), float(confidence), **differences)


def _count_sequences(figure: str, statistics: Iterable[Mapping[str, np.ndarray]], columns: np.ndarray) -> int:
    """Count the sequences for which a figure is defined in both predictions."""
    if figure == "macro_f1":
        counts = [parts["labels"][:, 1:, columns].sum(axis=(1, 2)) for parts in statistics]
    elif figure == "entity_f1":
        counts = [parts["entities"][:, 1:].sum(axis=(1, 2)) for parts in statistics]
    else:
        counts = [parts["tokens"] for parts in statistics]
    return int(np.sum(np.sum(counts, axis=0) > 0))
