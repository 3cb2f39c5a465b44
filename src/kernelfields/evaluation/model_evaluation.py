"""Predictions of a fitted field for labelled data: labels in both decodings, likelihoods and probabilities.

A classifier of single inputs, or of whole sequences, is evaluated as sequences of one label, several labels of an
instance as a sequence of them.

Cost: four passes over the data, for the labels of both decodings, marginals and likelihoods.
Raises TypeError for a model without probabilities; else as the model does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from kernelfields.data.partial_labels import replace_unseen, single_labels
from kernelfields.data.reading import is_partial, is_sequence
from kernelfields.data.segments import are_segments, read_segments
from kernelfields.evaluation.packed_labels import NOTHING_KNOWN, known_places, take_entries
from kernelfields.models.wrapped_field import unwrap_field

#: The two ways to predict labels from a field, as evaluations name them.
JOINT, POSTERIOR = "viterbi", "posterior"


@runtime_checkable
class FittedModel(Protocol):
    """The interface of a fitted estimator of labels."""

    def predict(self, X: Any) -> Iterable[object]:
        """Return the labels of each item."""


class AnswerForm(Protocol):
    """The form of a field's answers; ``is_single``: one label for each item, of common classes."""

    is_single: ClassVar[bool]

    @property
    def headings(self) -> tuple[str, str]:
        """The names of items and their positions in tables."""


@runtime_checkable
class LabelField(Protocol):
    """The interface of a fitted field of labels."""

    _answer_format: AnswerForm


@dataclass
class Predictions:
    """True and predicted labels, likelihoods and probabilities, as arguments of ``evaluate``."""

    y_true: Any
    y_pred: Any
    decodings: Mapping[str, Any] | None = None
    log_likelihood: object = None
    marginals: Any = None
    classes: object = None
    unseen: dict[object, int] = field(default_factory=dict)
    nouns: tuple[str, str] = ("sequence", "position")


def collect_predictions(
    model: FittedModel, X: Any, y: Any, decode: str | None = None, labels_only: bool = False
) -> Predictions:
    """Predict labels of X with the decoding ``decode`` and, unless ``labels_only``, probabilities."""
    asked, X, y = unwrap_field(model, X, y)
    is_field = isinstance(asked, LabelField)
    if not is_field:
        raise TypeError(f"evaluate takes a fitted estimator of labels, got {type(asked).__name__}")
    single = asked._answer_format.is_single
    if decode not in (None, JOINT, POSTERIOR):
        raise ValueError(f"decode must be 'viterbi', 'posterior' or None for the model's own, got {decode!r}")
    _refuse_annotators(y)
    listed = [[label] for label in y] if single else y
    if any(map(is_partial, listed)):
        # Sequences of which nothing is known have no part in any figure.
        known = [number for number, labels in enumerate(listed) if known_places(single_labels(labels)).size]
        X, y, listed = (take_entries(values, known) for values in (X, y, listed))
        if not known:
            raise ValueError(NOTHING_KNOWN)
    listed = read_segments(y)[0] if are_segments(y) else listed
    decoded = {} if single else {way: asked.predict(X, decode=way) for way in (JOINT, POSTERIOR)}
    predicted = decoded[decode] if decoded and decode is not None else asked.predict(X)
    found = Predictions(listed, [[label] for label in predicted] if single else predicted, decoded or None)
    if not labels_only:
        inference = getattr(asked, "inference_", None)
        # A calibrated field has no distribution of labellings.
        if hasattr(asked, "log_likelihood") and (inference is None or inference.exact):
            found.log_likelihood = _log_likelihoods(asked, X, y)
        found.marginals = asked.predict_proba(X)[:, None] if single else asked.predict_marginals(X)
        found.classes = np.unique(asked.classes_)
    unseen = Counter(label for _, _, label in replace_unseen(listed, np.asarray(asked.classes_), None)[1])
    found.unseen = dict(sorted(unseen.items()))
    found.nouns = asked._answer_format.headings
    return found


def _refuse_annotators(y: object) -> None:
    """Raise TypeError for labels of several annotators."""
    if isinstance(y, Mapping) or (is_sequence(y) and any(isinstance(item, Mapping) for item in y)):
        raise TypeError(
            "y holds labels of several annotators, and predictions are compared with one label for each position: pass "
            "labels that are known to be right, or model.consensus(X, y)"
        )


def _log_likelihoods(field: Any, X: Any, y: Any) -> np.ndarray:
    """Compute log p(y | x) of each item, minus infinity for labels outside the classes."""
    seen, unseen = replace_unseen(y, field.classes_, field.classes_[0])
    found = np.array(field.log_likelihood(X, seen, per_item=True))
    found[[item for item, _, _ in unseen]] = -np.inf
    return found
