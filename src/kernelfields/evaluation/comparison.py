"""Two predictions of the same sequences: how much better is the second, and is that more than chance?

    difference = figure(second) - figure(first),    both from the same resampled sequences

Sequences that are hard for one prediction are mostly hard for the other, so the interval of the difference is much
narrower than the two intervals suggest. Cost and failures as in evaluation.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelfields.evaluation.entities import EntityReader, entity_counts, find_entities
from kernelfields.evaluation.label_scores import (
    Counts,
    average_table,
    choose_labels,
    label_counts,
    score_table,
    wrong_sequences,
)
from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels
from kernelfields.evaluation.resampling import ResampledFigures, Resampling
from kernelfields.reports.tables import Estimate, Result, Table

_NAMES = {
    "entity_f1": "entity F1",
    "accuracy": "token accuracy",
    "sequence_accuracy": "sequence accuracy",
    "macro_f1": "macro F1 of labels",
}


@dataclass(frozen=True)
class Difference(Result):
    """A figure of both predictions, second minus first, and the share of resamples in which second is better.

    Resamples in which both are equal count half for the share; without resamples, or with those of one sequence
    alone, it is None.
    """

    first: Estimate
    second: Estimate
    difference: Estimate
    share_better: float | None


@dataclass(frozen=True)
class Comparison(ResampledFigures):
    """What :func:`compare` found; ``entity_f1`` is None if there are no entities."""

    accuracy: Difference
    sequence_accuracy: Difference
    macro_f1: Difference
    entity_f1: Difference | None = None

    _intervals: ClassVar[str] = "from {:,} paired resamples"

    def _tables(self) -> list[Table]:
        rows = [
            (
                words,
                f"{each.first.value:.4f}",
                f"{each.second.value:.4f}",
                f"{each.difference:+.4f}",
                "" if each.share_better is None else f"{each.share_better:.3f}",
            )
            for name, words in _NAMES.items()
            if (each := getattr(self, name)) is not None
        ]
        return [Table(("figure", "first", "second", "second - first", "second better in"), rows)]


def compare(
    y_true: Any,
    first: Any,
    second: Any,
    *,
    scheme: str | None = "auto",
    labels: Any = None,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: Any = None,
) -> Comparison:
    """Compare two predictions ``first`` and ``second`` of ``y_true``; parameters as in :func:`evaluate`.

    ``macro_f1`` averages over ``labels``, all that occur for None.
    """
    resampling = Resampling(n_resamples, confidence, random_state)
    packed = pack_labels(y_true=y_true, first=first, second=second)
    chosen = choose_labels(labels, packed)
    reader = find_entities(scheme, packed.labels)
    statistics = {"tokens": packed.lengths}
    for name in ("first", "second"):
        statistics |= {f"{name} {part}": each for part, each in label_statistics(packed, reader, name).items()}
    sums = resampling.sums(statistics)
    figures = [_resampled_figures(sums, name, chosen, packed.n_sequences) for name in ("first", "second")]
    own = [_estimates(statistics, sums, name, chosen, resampling) for name in ("first", "second")]
    return Comparison(
        packed.n_sequences,
        packed.n_positions,
        int(n_resamples),
        float(confidence),
        **{
            name: _difference([each[name] for each in figures], [each[name] for each in own], resampling, holders)
            for name in figures[0]
            for holders in [_holders(statistics, name, chosen)]
        },
    )


def label_statistics(
    packed: PackedLabels, reader: EntityReader | None, predicted: str = "y_pred"
) -> dict[str, np.ndarray]:
    """Return what is counted by sequence of one prediction: whether it is wrong, its labels, its entities."""
    parts = {"wrong": wrong_sequences(packed, predicted), "labels": label_counts(packed, predicted).stacked}
    if reader is not None:
        parts["entities"] = entity_counts(packed, reader, predicted).stacked
    return parts


def _resampled_figures(
    sums: dict[str, np.ndarray], name: str, chosen: np.ndarray, n_sequences: int
) -> dict[str, np.ndarray]:
    """Figures (1 + n_resamples,) of one prediction, by the names Comparison has for them."""
    counts = Counts.split(sums[f"{name} labels"])
    figures = {
        "accuracy": counts.hits.sum(axis=1) / sums["tokens"][:, 0],
        "sequence_accuracy": 1 - sums[f"{name} wrong"][:, 0] / n_sequences,
        "macro_f1": counts.take(chosen).average("macro")[2],
    }
    if f"{name} entities" in sums:
        figures["entity_f1"] = Counts.split(sums[f"{name} entities"]).average("micro")[2]
    return figures


def _holders(statistics: dict[str, np.ndarray], figure: str, chosen: np.ndarray) -> int:
    """Return on how many sequences a figure of both predictions rests."""
    if figure in ("accuracy", "sequence_accuracy"):
        return len(statistics["tokens"])
    part, columns = ("entities", slice(None)) if figure == "entity_f1" else ("labels", chosen)
    counts = (Counts.split(statistics[f"{name} {part}"]) for name in ("first", "second"))
    seen = sum((each.predicted + each.true)[:, columns].sum(axis=1) for each in counts)
    return int(np.sum(seen > 0))


def _estimates(
    statistics: dict[str, np.ndarray],
    sums: dict[str, np.ndarray],
    name: str,
    chosen: np.ndarray,
    resampling: Resampling,
) -> dict[str, Estimate]:
    """The figures of one prediction with their intervals, as :func:`evaluate` has them."""
    tokens = statistics["tokens"]
    counts, resampled = (Counts.split(each[f"{name} labels"]) for each in (statistics, sums))
    averages = average_table(counts.take(chosen), resampled.take(chosen), resampling)
    figures = {
        "accuracy": resampling.share(counts.hits.sum(axis=1), tokens),
        "sequence_accuracy": resampling.share(1 - statistics[f"{name} wrong"], np.ones(len(tokens))),
        "macro_f1": averages["macro"].f1,
    }
    if f"{name} entities" in statistics:
        entities = Counts.split(statistics[f"{name} entities"]).together()
        figures["entity_f1"] = score_table(entities, ["all"], resampling)["all"].f1
    return figures


def _difference(
    figures: Sequence[np.ndarray], own: Sequence[Estimate], resampling: Resampling, holders: int
) -> Difference:
    gap = figures[1] - figures[0]
    resampled = gap[1:][~np.isnan(gap[1:])]
    share = float(np.mean((np.sign(resampled) + 1) / 2)) if resampled.size and holders > 1 else None
    return Difference(own[0], own[1], resampling.estimate(gap, holders), share)
