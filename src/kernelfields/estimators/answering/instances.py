"""Answers about several yes-or-no labels of an instance: their form, and the threshold of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.given_labels import given_labels
from kernelfields.data.partial_labels import LabelWeights
from kernelfields.data.ragged import refuse_scorers_of_one_label
from kernelfields.data.reading import check_sample_weight
from kernelfields.estimators.answering.decisions import BestLabelling, Decision, DecodeRule
from kernelfields.estimators.answering.formats import AnswerFormat, Labelled, Parts, Tokens
from kernelfields.estimators.going_on import has_learnt_to_decide
from kernelfields.estimators.thresholds import half_largest_f1
from kernelfields.models.stored_values import share
from kernelfields.numerics.parameters import should_learn_settings
from kernelfields.structures.indicators import INSTANCES, read_indicator

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers
    from kernelfields.models.choices import Choices
    from kernelfields.models.field import Field
    from kernelfields.models.pilot_fit import Predictions


class WithLabelNames(Labelled, Protocol):
    """A fitted model of several named labels."""

    label_names_: np.ndarray


@dataclass(frozen=True)
class InstanceFormat(AnswerFormat[WithLabelNames]):
    """The form of answers for instances of K yes-or-no labels: one array (n, K, ..) of all."""

    def labels(self, model: WithLabelNames) -> np.ndarray:
        """Return 0 and 1."""
        return np.arange(2)

    def arrange(self, parts: Parts) -> np.ndarray:
        """Join rows (n K, ..) of batches."""
        return np.concatenate([_by_instance(data, rows) for data, rows in parts])

    def arrange_labels(self, parts: Parts) -> np.ndarray:
        """Join labels (n K,) of batches; metrics of one label an instance are refused."""
        refuse_scorers_of_one_label()
        return self.arrange(parts)

    def arrange_draws(self, parts: Parts, labels: np.ndarray, single: bool) -> np.ndarray:
        """Join draws (k, n K) of batches."""
        drawn = np.concatenate([_by_instance(data, rows.T) for data, rows in parts])
        return drawn[..., 0] if single else np.moveaxis(drawn, -1, 0)

    def arrange_variances(self, parts: Parts) -> np.ndarray:
        """Join the variances of log odds; a log odds of one is a potential of one half."""
        return 4.0 * self.arrange(parts)[..., 1]

    def place(self, model: WithLabelNames, whole: int, part: int, tokens: Tokens | None) -> tuple[int, object, object]:
        """Return the name of an instance and of a label, and the token of the instance."""
        return whole, model.label_names_[part].item(), None if tokens is None else tokens[whole]

    def read_known(self, model: WithLabelNames, known: object, data: Any) -> tuple[np.ndarray, LabelWeights | None]:
        """Return known labels (n K,) and, unless all are known, log-weights (n K, 2)."""
        labels, partial, _ = read_indicator(known, data.n_instances, model.label_names_.tolist())
        return labels.reshape(-1), partial

    def score(self, model: Any, X: object, y: Any, sample_weight: object, decode: str | None) -> float:
        """Return the share of instances whose known labels are all right."""
        predicted = model.predict(X, decode)
        labels, partial, _ = read_indicator(y, len(predicted), model.label_names_.tolist())
        known = given_labels(labels.reshape(-1), partial).informative().reshape(labels.shape)
        weights = check_sample_weight(sample_weight, len(labels), INSTANCES) * known.any(axis=1)
        if not weights.any():
            raise ValueError("no label of y is known: there is no instance to compare predictions with")
        return float(np.average(((predicted == labels) | ~known).all(axis=1), weights=weights))


def _by_instance(data: Any, rows: np.ndarray) -> np.ndarray:
    """Return rows (n K, ..) of labels as (n, K, ..)."""
    return rows.reshape(-1, int(data.offsets[1]), *rows.shape[1:])


@dataclass(frozen=True)
class AboveThreshold(Decision):
    """The labels with probabilities above a threshold."""

    threshold: float

    def choose(self, answers: Answers) -> np.ndarray:
        """Return 0 and 1 for the labels (n K,)."""
        return (answers.marginals[:, 1] > self.threshold).astype(np.int64)


@dataclass(frozen=True)
class SetRule(DecodeRule):
    """The meaning of ``decode`` for several labels; None is the ``decision`` of the estimator."""

    def decision(self, model: Any, decode: str | None) -> Decision:
        """Return the decision of a fitted model."""
        if decode is not None:
            chosen = super().decision(model, decode)
            return chosen if chosen.jointly else AboveThreshold(0.5)
        check_is_fitted(model)
        if model.decision == "subset":
            return BestLabelling()
        if not has_learnt_to_decide(model):
            raise ValueError(
                f"decision={model.decision!r} takes a threshold that a fit with it learns, and this field was fitted "
                "with another one: fit again, with warm_start=True from here, or set decision='hamming'"
            )
        return AboveThreshold(model.threshold_ if should_learn_settings(model) else 0.5)

    def learn(
        self, model: Any, training: Any, field: Field, held_out: Any, predictions: Callable[[], Predictions]
    ) -> Choices:
        """Learn the threshold of the decision from the predictions of a field for held-out data."""
        if not should_learn_settings(model):
            return super().learn(model, training, field, held_out, predictions)
        from kernelfields.models.choices import Choices

        marginals = field.answers(held_out, training.run.settings.workers, training.run.engine).marginals
        learn = half_largest_f1 if model.decision == "f1" else _lowest_without_loss
        weights = held_out.position_weights * held_out.given.informative()
        return Choices({"threshold": float(learn(marginals[:, 1], held_out.required_labels, weights))})

    def describe(self, model: Any) -> dict[str, Any]:
        """Return the threshold."""
        return {"threshold": float(model.threshold_)}

    def rebuild_choices(self, choices: Choices, described: Mapping[str, Any]) -> Choices:
        """Return the choices of a file with its threshold."""
        threshold = share(described.get("threshold", 0.5), "the threshold of probabilities")
        if threshold == choices.chosen.get("threshold", 0.5):
            return choices
        return replace(choices, chosen={**choices.chosen, "threshold": threshold})


def _lowest_without_loss(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return the lowest threshold from 0.1 to 0.5 with at most as many wrong labels as 0.5."""
    thresholds = np.linspace(0.1, 0.5, 41)
    wrong = np.array([weights @ ((probabilities > threshold) != labels) for threshold in thresholds])
    return float(thresholds[np.argmax(wrong <= wrong[-1])])
