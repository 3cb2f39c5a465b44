"""Sequences that a fit goes on with: read by the reader of the fit, with the allowed labels that they add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.data import extras
from kernelfields.data.chains import Chains
from kernelfields.data.readers import InputReader, apply_transformer
from kernelfields.data.reading import materialize_iterator
from kernelfields.inputs.steps import ColumnSteps


def learn_batch(
    self: Any, X: object, y: object, sample_weight: object, *, further: bool = False
) -> tuple[InputReader, Chains, np.ndarray]:
    """Read a batch, or the data of a continued fit, by the reader of the fit; see ``Structure.learn_batch``."""
    X, y, classes = materialize_iterator(X), self.training_labels(materialize_iterator(y), warn=True), self.classes
    given = self.settings.allowed, X, self.position_labels(y), classes, sample_weight
    reader = replace(self.reader, limits=learn_limits(self.reader, *given, further=further))
    return reader, self.with_reader(reader, classes).read_training(X, y, sample_weight), classes


def learn_limits(
    reader: InputReader,
    rule: extras.LabelDictionary | None,
    X: object,
    y: object,
    classes: np.ndarray,
    sample_weight: object = None,
    *,
    further: bool = False,
) -> Sequence[extras.FittedDictionary]:
    """Learn allowed labels from labelled data by a rule, in the form that a reader applies.

    With ``further`` the dictionaries of the reader learn from these data as well.
    """
    if rule is None:
        return ()
    X = apply_transformer(reader.features, X)
    plain = replace(reader, limits=(), features=None, steps=ColumnSteps())
    chains = plain.read(X, y, sample_weight, classes)
    known = [rule.learn_more(limit, X, chains) for limit in reader.limits] if further else []
    return known or [rule.learn(X, chains, classes)]
