"""The spans that labels write: entities of a scheme, runs of one label, segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernelfields.data.reading import plain_label

if TYPE_CHECKING:
    from kernelfields.data.spans import SpanRules
    from kernelfields.inference.answers import Answers

#: Starts, stops and types of spans.
Bounds: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SpanReading:
    """How labels of positions write spans."""

    def rules(self, classes: np.ndarray, scheme: str | None, unseen: Sequence = ()) -> tuple[SpanRules, list]:
        """Return which labels belong to one span, and the names of the types of spans.

        Labels that were not in the fit, ``unseen``, are numbered after the classes, which decide the scheme.
        """
        from kernelfields.evaluation.entities import entity_reader, span_rules

        labels = [plain_label(label) for label in classes]
        if unseen:
            reader = entity_reader(scheme, labels)
            scheme = None if reader is None else reader.scheme.name
        return span_rules([*labels, *unseen], scheme)

    def labelled(self, answers: Answers, labels: np.ndarray, rules: SpanRules) -> Bounds:
        """Return starts, stops and types of the spans that labels (N,) of data write."""
        from kernelfields.data.spans import spans_of

        return spans_of(labels, answers.family.offsets, rules)

    def predicted(self, model: Any, answers: Answers, rules: SpanRules) -> Bounds:
        """Return starts, stops and types of the spans that a model predicts."""
        return self.labelled(answers, model.decision_rule.decision(model, None).choose(answers), rules)
