"""The spans in labels: entities of a scheme, runs of one label, segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernelfields.data.reading import plain_label
from kernelfields.estimators.answering.decisions import resolve_decision

if TYPE_CHECKING:
    from kernelfields.data.spans import SpanRules
    from kernelfields.inference.answers import Answers

#: Starts, stops and types of spans.
Bounds: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SpanReading:
    """Rule by which labels of positions form spans."""

    def rules(self, classes: np.ndarray, scheme: str | None, unseen: Sequence = ()) -> tuple[SpanRules, list]:
        """Return the label pairs of one span, and the names of the types of spans.

        Labels that were not in the fit, ``unseen``, are numbered after the classes, which decide the scheme.
        """
        from kernelfields.evaluation.entities import entity_reader, span_rules

        labels = [plain_label(label) for label in classes]
        if not unseen:
            return span_rules(labels, scheme)
        reader = entity_reader(scheme, labels)
        return span_rules([*labels, *unseen], None if reader is None else reader.scheme)

    def labelled(self, answers: Answers, labels: np.ndarray, rules: SpanRules) -> Bounds:
        """Return starts, stops and types of the spans in labels (N,) of data."""
        from kernelfields.data.spans import find_spans

        return find_spans(labels, answers.family.offsets, rules)

    def predicted(self, model: Any, answers: Answers, rules: SpanRules) -> Bounds:
        """Return starts, stops and types of the spans that a model predicts."""
        return self.labelled(answers, resolve_decision(model).choose(answers), rules)
