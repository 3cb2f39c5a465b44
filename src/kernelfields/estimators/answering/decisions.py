"""How labels are chosen from their distribution: as a whole, one by one, above thresholds.

    "viterbi"      the labels of the most probable labelling          a whole that is possible
    "posterior"    the most probable label of each position           the fewest wrong labels in expectation

A rule says what ``decode`` means for an estimator, None for its own way; a decision is what it comes to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.numerics.parameters import check_choice, settled

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers
    from kernelfields.models.choices import Choices
    from kernelfields.models.field import Field

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
    """The most probable label, of items that have one each."""

    def decision(self, model: Any, decode: str | None) -> Decision:
        """Return the decision of a fitted model."""
        return LikeliestLabels()

    def learns(self, model: Any) -> bool:
        """Whether the present way to decide needs what a short fit learns from held-out data."""
        return False

    def learn(self, model: Any, training: Any, field: Field, held_out: Any) -> Choices:
        """Return what is chosen by the predictions of a field, fitted to a part of the data, for a part held out."""
        from kernelfields.models.choices import Choices

        return Choices()

    def describe(self, model: Any) -> dict[str, Any]:
        """Return what is to be kept in a file of how labels are decided."""
        return {}

    def rebuilt_choices(self, choices: Choices, described: Mapping[str, Any]) -> Choices:
        """Return the choices of a file, with what it keeps of decisions beside them."""
        return choices


@dataclass(frozen=True)
class DecodeRule(DecisionRule):
    """What ``decode`` means; "auto" is the best labelling as a whole if ``jointly``.

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
        """Return the way of a model if none is named."""
        return "auto"

    def decision(self, model: Any, decode: str | None) -> Decision:
        """Return the decision of a fitted model; None means the way of the model."""
        check_is_fitted(model)
        chosen = self.usual(model) if decode is None else decode
        check_choice(chosen, "decode", DECODINGS)
        is_joint = settled(chosen, "viterbi" if self.is_joint(model) else "posterior") == "viterbi"
        return BestLabelling() if is_joint else LikeliestLabels()


@dataclass(frozen=True)
class ParameterRule(DecodeRule):
    """What ``decode`` means for models with a parameter of this name."""

    def usual(self, model: Any) -> str:
        """Return the parameter of a model."""
        return model.decode
