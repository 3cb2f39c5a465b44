"""Decodings side by side: what becomes of the figures if labels are read off the same field in another way.

    viterbi, joint    argmax_y p(y | x)             labels that fit together
    posterior         argmax_b p(y_t = b | x)       most labels right, one by one

Token accuracy mostly favours the second and entities the first, so a score says little without its decoding.
Cost and failures as in evaluation.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.evaluation.entities import EntityReader, entity_counts, find_entities
from kernelfields.evaluation.label_scores import score_table, wrong_sequences
from kernelfields.evaluation.packed_labels import PackedLabels, pack_labels
from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports.tables import Estimate, Result


@dataclass(frozen=True)
class DecodingScores(Result):
    """The main figures of one decoding, and at how many positions its labels are not those that were evaluated."""

    accuracy: Estimate
    sequence_accuracy: Estimate
    entity_f1: Estimate | None
    n_changed: int


def score_decodings(
    y_true: Any, y_pred: Any, decodings: Mapping[str, Any], scheme: str | None, resampling: Resampling
) -> dict[str, DecodingScores] | None:
    """Return the figures of each decoding by its name, None where none differs from ``y_pred``."""
    if not isinstance(decodings, Mapping):
        raise TypeError(
            f"decodings must map names to label sequences, such as {{'viterbi': ...}}, got {type(decodings).__name__}"
        )
    # Packed one by one: labels that one decoding alone predicts are not among those of the others.
    scores = {}
    for name, labels in decodings.items():
        packed = pack_labels(y_true=y_true, y_pred=y_pred, decoded=labels)
        scores[str(name)] = _scored(packed, find_entities(scheme, packed.labels), resampling)
    return scores if any(each.n_changed for each in scores.values()) else None


def _scored(packed: PackedLabels, reader: EntityReader | None, resampling: Resampling) -> DecodingScores:
    right = packed.codes["y_true"] == packed.codes["decoded"]
    entities = None
    if reader is not None:
        counts = entity_counts(packed, reader, "decoded").together()
        entities = score_table(counts, ["all"], resampling)["all"].f1
    return DecodingScores(
        resampling.share(np.add.reduceat(right, packed.offsets[:-1], dtype=np.int64), packed.lengths),
        resampling.share(1 - wrong_sequences(packed, "decoded"), np.ones(packed.n_sequences)),
        entities,
        int(np.sum(packed.codes["y_pred"] != packed.codes["decoded"])),
    )
