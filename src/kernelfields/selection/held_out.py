"""Fields inside models, and answers of fields for items that their fits held out.

A model may be an estimator of labels, a Pipeline that ends in one, a search, a FrameCRF on tables, or the CRF of
kernelfields.compat. Folds contain whole sequences, graphs, instances or samples, those with rare labels distributed
evenly. Cost: one fit for each fold. Raises ValueError if items cannot be folded, TypeError for a model without labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing

from kernelfields.data.frames import FrameReader
from kernelfields.data.given_labels import given_labels
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import SAMPLES, SEQUENCES, is_sequence, listed
from kernelfields.data.segments import are_segments, read_segments
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.frame_crf import FrameCRF
from kernelfields.estimators.probabilities import share_of_fit
from kernelfields.estimators.questions import LabelField
from kernelfields.estimators.sequence_classifier import SequenceClassifier
from kernelfields.inference.answers import Answers
from kernelfields.models.partial import PartialLabels
from kernelfields.models.wrapped_field import unwrap_field
from kernelfields.numerics.containers import count_rows, n_dimensions
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.selection.folds import Split, split_items

#: Shares of items that were in the fit: more than chance would have, and too many.
_SUSPICIOUS, _TOO_MANY = 0.1, 0.5


class HeldOutAnswers(NamedTuple):
    """A batch of items, a field fitted to other items, and its answers for the batch."""

    items: np.ndarray
    field: LabelField
    answers: Answers


def unwrap_fitted_field(
    model: object, X: object, y: object = None, *, labelled: bool | None = None
) -> tuple[LabelField, Any, Any]:
    """Return the fitted field inside a model, with X and y in its form; if ``labelled``, y may be a column of X."""
    field, inputs, labels = unwrap_field(model, X, y, labelled=y is not None if labelled is None else labelled)
    if not isinstance(field, FieldEstimator | SequenceClassifier):
        raise TypeError(
            f"estimator must be one of labels of sequences, segments, graphs, instances or samples, or end in one, got "
            f"{type(model).__name__}"
        )
    return field, inputs, labels


def refuse_items_of_fit(model: object, X: object, advice: str) -> None:
    """Raise ValueError, or warn, if the items of an evaluation were training items of the model."""
    field, inputs, _ = unwrap_fitted_field(model, X)
    share = share_of_fit(field, inputs)
    found = f"{share:.0%} of these items were in the fit of the estimator: {advice}"
    if share >= _TOO_MANY:
        raise ValueError(found)
    if share >= _SUSPICIOUS:
        warn_user(found, UserWarning)


def unwrap_frame(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the estimator of sequences inside a FrameCRF, and the sequences of a table; others unchanged."""
    if not isinstance(estimator, FrameCRF):
        return estimator, X, y
    made = tuple(estimator.time_features or ())
    reader = FrameReader(estimator.sequence, estimator.label, estimator.features, estimator.sort, made)
    sequences = reader.learn(X, y, partly=True)
    return (ChainCRF() if estimator.estimator is None else estimator.estimator), sequences.X, sequences.y


def get_parameter(model: BaseEstimator, name: str) -> str:
    """Return a parameter of a model, or of the estimator inside it, as a dict by full name; empty without it."""
    return min((own for own in model.get_params() if own.split("__")[-1] == name), key=len, default="")


def take_items(values: Any, items: np.ndarray) -> Any:
    """Select items of X or y, in their original form."""
    if isinstance(values, SoftTargets):
        return values.subset(items)
    return [values[item] for item in items] if isinstance(values, list) else _safe_indexing(values, items)


def iterate_answers(field: LabelField, X: Any, y: Any, numbers: np.ndarray) -> Iterator[HeldOutAnswers]:
    """Yield answers of a field for numbered items, in batches."""
    begin = 0
    for answers in field.answers(X, y):
        end = begin + len(answers.requested.lengths)
        yield HeldOutAnswers(numbers[begin:end], field, answers)
        begin = end


class LabelledItems:
    """Labelled items: X and y in the user's form, and the labels of each item."""

    def __init__(self, X: Any, y: Any):
        self.n_items = count_rows(X)
        if y is None or isinstance(y, SoftTargets):
            raise ValueError("y must hold labels, got " + ("None" if y is None else "SoftTargets"))
        if isinstance(y, Mapping) or any(isinstance(own, Mapping) and any(map(is_sequence, own.values())) for own in y):
            raise TypeError(
                "y holds labels of several annotators: AnnotatedCRF finds how reliable each is; pass one label for "
                "each position, such as its consensus_"
            )
        if count_rows(y) != self.n_items:
            raise ValueError(f"X has {self.n_items} items and y has labels of {count_rows(y)}")
        listed_y = read_segments(y)[0] if are_segments(y) else y
        # Without sequences of labels, y is a list of single ones, or a table of several.
        self.table = n_dimensions(y) == 2
        self.single = not self.table and not any(map(is_sequence, listed_y))
        if not self.single and any(own is None for own in listed_y):
            place = next(number for number, own in enumerate(listed_y) if own is None)
            raise ValueError(f"item {place} has no labels: leave out items without any")
        self.X, self.y = X, y
        self.classes: np.ndarray = np.zeros(0)
        self.labels: list[np.ndarray] = [np.zeros(0, dtype=np.int64)] * self.n_items
        if not self.table:
            lengths = np.ones(self.n_items, dtype=np.int64) if self.single else np.array([len(own) for own in listed_y])
            if not lengths.sum():
                raise ValueError("y has no labels")
            codes, partial, self.classes = read_labels(listed_y, None, lengths, SAMPLES if self.single else SEQUENCES)
            known = given_labels(codes, partial).learnable()
            ends = np.cumsum(lengths)[:-1]
            pairs = zip(np.split(codes, ends), np.split(known, ends), strict=True)
            self.labels = [own[certain] for own, certain in pairs]

    def folds(self, cv: Any, groups: Any, random: np.random.Generator) -> list[Split]:
        """Return the training and held-out items of each fold; some items may be in neither."""
        splits = split_items(cv, self.labels, groups, random, "item", np.zeros(self.n_items), None)
        if np.bincount(np.concatenate([test for _, test in splits])).max() > 1:
            raise ValueError("cv must hold out each item once at most: repeated splits do not")
        return splits

    def held_out(self, estimator: BaseEstimator, folds: Sequence[Split]) -> Iterator[HeldOutAnswers]:
        """Yield answers for the held-out items of each fold, by an estimator fitted to its training items."""
        for number, (train, test) in enumerate(folds):
            model = self._with_all_classes(clone(estimator), train, number)
            model.fit(take_items(self.X, train), take_items(self.y, train))
            field, inputs, _ = unwrap_fitted_field(model, take_items(self.X, test))
            yield from iterate_answers(field, inputs, take_items(self.y, test), test)

    def _with_all_classes(self, estimator: BaseEstimator, train: np.ndarray, fold: int) -> Any:
        """Add labels that are missing in the training items to an estimator, if it supports them."""
        learnt = np.zeros(len(self.classes), dtype=bool)
        learnt[np.concatenate([self.labels[item] for item in train])] = True
        if learnt.all():
            return estimator
        lacking = f"fold {fold} holds out every item with the label {listed(self.classes[~learnt])}"
        if not (name := get_parameter(estimator, "partial_labels")):
            raise ValueError(f"{lacking}, which its field cannot learn: correct or leave out these items")
        partial = clone(estimator.get_params()[name] or PartialLabels())
        return estimator.set_params(**{name: partial.set_params(classes=self.classes.tolist())})
