"""Counts of one prediction by sequence, and its main figures.

    accuracy             share of right labels
    sequence_accuracy    share of sequences all of whose labels are right
    macro_f1             mean F1 of the chosen labels
    entity_f1            F1 of entities, where there are any

Evaluations, comparisons and decodings use the same statistics. Arrays have one row for each of S sequences, or, summed,
one for all data and one for each resample.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernelfields.evaluation.entities import EntityReader, entity_counts
from kernelfields.evaluation.label_scores import Counts, label_counts, right_sequences, score_table
from kernelfields.evaluation.packed_labels import PackedLabels
from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports.tables import Estimate


def count_prediction(
    packed: PackedLabels, reader: EntityReader | None, predicted: str = "y_pred"
) -> dict[str, np.ndarray]:
    """Count sequences, tokens and right sequences (S,), labels (S, 3, L) and entities (S, 3, T)."""
    statistics = {
        "sequences": np.ones(packed.n_sequences),
        "tokens": packed.lengths,
        "right": right_sequences(packed, predicted),
        "labels": label_counts(packed, predicted).values,
    }
    if reader is not None:
        statistics["entities"] = entity_counts(packed, reader, predicted).values
    return statistics


def resampled_figures(sums: Mapping[str, np.ndarray], columns: np.ndarray) -> dict[str, np.ndarray]:
    """Return the figures (1 + n_resamples,) of summed statistics; ``columns`` are the labels to average over."""
    labels = Counts(sums["labels"])
    figures = {
        "accuracy": labels.hits.sum(axis=1) / sums["tokens"],
        "sequence_accuracy": sums["right"] / sums["sequences"],
        "macro_f1": labels.take(columns).average("macro")[2],
    }
    if "entities" in sums:
        figures["entity_f1"] = Counts(sums["entities"]).average("micro")[2]
    return figures


def estimated_proportions(statistics: Mapping[str, np.ndarray], resampling: Resampling) -> dict[str, Estimate]:
    """Return the figures that are proportions, with Wilson intervals, from statistics by sequence."""
    figures = {
        "accuracy": resampling.proportion(Counts(statistics["labels"]).hits.sum(axis=1), statistics["tokens"]),
        "sequence_accuracy": resampling.proportion(statistics["right"], statistics["sequences"]),
    }
    if "entities" in statistics:
        figures["entity_f1"] = score_table(Counts(statistics["entities"]).together(), ["all"], resampling)["all"].f1
    return figures
