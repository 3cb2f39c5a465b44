"""Choice of labels from their distribution: as a whole, one by one, above thresholds.

    "viterbi"      the labels of the most probable labelling          a whole that is possible
    "posterior"    the most probable label of each position           the fewest wrong labels in expectation

A rule says what ``decode`` means for an estimator, None for its own way; a decision is what it comes to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.numerics.parameters import check_choice, resolve_open

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers
    from kernelfields.models.choices import Choices
    from kernelfields.models.field import Field
    from kernelfields.models.pilot_fit import Predictions

#: How labels are chosen: the best labelling as a whole, or the most probable label of each position.
DECODINGS = ("auto", "viterbi", "posterior")


class Decision(ABC):
    """A way to choose labels."""

    #: Whether labels are those of the most probable labelling as a whole.
    jointly: ClassVar[bool] = False

    @abstractmethod
    def choose(self, answers: Answers) -> np.ndarray:
        """Return the numbers (N,) of the labels."""


class BestLabelling(Decision):
    """The labels of the most probable labelling."""

    jointly: ClassVar[bool] = True

    def choose(self, answers: Answers) -> np.ndarray:
        """Return the numbers (N,) of the labels."""
        return answers.best_labels()


class LikeliestLabels(Decision):
    """The most probable label of each position."""

    def choose(self, answers: Answers) -> np.ndarray:
        """Return the numbers (N,) of the labels."""
        return answers.likeliest_labels()


@dataclass(frozen=True)
class DecisionRule:
    """The most probable label, for items with one label each."""

    def decision(self, model: Any, decode: str | None) -> Decision:
        """Return the decision of a fitted model."""
        return LikeliestLabels()

    def learn(
        self, model: Any, training: Any, field: Field, held_out: Any, predictions: Callable[[], Predictions]
    ) -> Choices:
        """Learn the settings of the decision from held-out data.

        ``field`` is that of the first fold, ``held_out`` what it has not seen, and ``predictions`` are of all folds.
        """
        from kernelfields.models.choices import Choices

        return Choices()

    def describe(self, model: Any) -> dict[str, Any]:
        """Return the settings of the decision for a model file."""
        return {}

    def rebuild_choices(self, choices: Choices, described: Mapping[str, Any]) -> Choices:
        """Return the choices of a file with the settings of the decision."""
        return choices


@dataclass(frozen=True)
class DecodeRule(DecisionRule):
    """The meaning of ``decode``; "auto" is the best labelling if ``jointly``, else the best labels.

    Parameters
    ----------
    jointly : bool, default False
        Whether "auto" means the most probable labelling.
    """

    jointly: bool = False

    def is_joint(self, model: Any) -> bool:
        """Whether "auto" means the most probable labelling for a fitted model."""
        return self.jointly

    def usual(self, model: Any) -> str:
        """Return the default decoding of a model."""
        return "auto"

    def decision(self, model: Any, decode: str | None) -> Decision:
        """Return the decision of a fitted model; None means its default decoding."""
        check_is_fitted(model)
        chosen = self.usual(model) if decode is None else decode
        check_choice(chosen, "decode", DECODINGS)
        is_joint = resolve_open(chosen, "viterbi" if self.is_joint(model) else "posterior") == "viterbi"
        return BestLabelling() if is_joint else LikeliestLabels()


@dataclass(frozen=True)
class ParameterRule(DecodeRule):
    """The meaning of ``decode`` for models with a parameter of this name."""

    def usual(self, model: Any) -> str:
        """Return the parameter of a model."""
        return model.decode


def resolve_decision(model: Any, decode: str | None = None) -> Decision:
    """Return the decision of an estimator: by ``decode``, or by its own rule for None."""
    return model._decision_rule.decision(model, decode)
