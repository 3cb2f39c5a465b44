"""Rare labels: those that a field never predicts, and thresholds of probability that find them.

Of a label that 1 in 100 positions has, the probability seldom exceeds that of the common ones, and the most probable
labels have none of it. They are right most often all the same: it is the F1 of the label that is lost. With
probabilities that are right, this F1 is largest if the label is predicted wherever its probability exceeds half of it:

    threshold_k = 1/2 max over c of F1({p_tk > c}, {y_t = k})           on held-out positions t

    Lipton, Elkan and Naryanaswamy (2014), Optimal thresholding of classifiers to maximize F1 measure.

Cost: O(n log n) for each rare label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators import library
from kernelfields.estimators.answering.decisions import Decision, ParameterRule
from kernelfields.numerics.parameters import is_auto
from kernelfields.numerics.user_warnings import warn_user

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers
    from kernelfields.models.choices import Choices
    from kernelfields.models.field import Field

#: Labels by thresholds of probability, chosen by the F1 of rare ones.
BY_THRESHOLDS = "f1"
#: Labels of a smaller share of the positions are rare.
RARE = 0.05
#: A label of so many held-out positions can be judged by them.
LEAST_POSITIONS = 10
# Labels that break the constraints have to be right more often by this share of positions.
_WORTH_BREAKING_RULES = 0.01


def half_largest_f1(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return half the largest F1, over all labels together, of those above some threshold; 1/2 without any label."""
    order = np.argsort(-probabilities, kind="stable")
    right = np.cumsum((weights * labels)[order])
    return 0.5 if not right[-1] > 0 else float((right / (np.cumsum(weights[order]) + right[-1])).max())


def judged_labels(shares: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the rare labels, by their shares (L,) of all positions, that enough held-out positions have."""
    counts = np.bincount(labels[weights > 0], minlength=len(shares))
    return np.flatnonzero((shares < RARE) & (counts >= LEAST_POSITIONS))


def rare_thresholds(marginals: np.ndarray, labels: np.ndarray, weights: np.ndarray, rare: np.ndarray) -> np.ndarray:
    """Return thresholds (L,) of rare labels, by held-out marginals (n, L), labels (n,) and weights; 1 for others."""
    thresholds = np.ones(marginals.shape[1])
    for label in rare.tolist():
        thresholds[label] = half_largest_f1(marginals[:, label], labels == label, weights)
    return thresholds


def above_thresholds(marginals: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return labels (n,): the rare one that exceeds its threshold by the largest factor, else the most probable one."""
    excess = np.where(thresholds < 1.0, marginals / thresholds, 0.0)
    return np.where(excess.max(axis=1) > 1.0, excess.argmax(axis=1), marginals.argmax(axis=1))


def learnt_thresholds(model: Any) -> np.ndarray:
    """Return the thresholds (L,) that the fit of a chain has learnt; 1 for labels without one."""
    return np.asarray(model.choices_.chosen.get("thresholds", np.ones(len(model.classes_))))


@dataclass(frozen=True)
class RareLabels(Decision):
    """Rare labels above the thresholds that the fit of a chain has learnt, else the most probable ones."""

    model: Any

    def choose(self, answers: Answers) -> np.ndarray:
        """Return the numbers (N,) of the labels."""
        if not self.model._has_learnt_to_decide:
            raise ValueError(
                "decode='f1' takes thresholds that a fit with decode='f1' learns, and this field was fitted with "
                "another one: fit again, with warm_start=True from here, or set decode='posterior'"
            )
        return above_thresholds(answers.marginals, learnt_thresholds(self.model))


@dataclass(frozen=True)
class ChainRule(ParameterRule):
    """What ``decode`` means for chains: "auto" is the best labelling under constraints and for labels of entities."""

    def is_joint(self, model: Any) -> bool:
        """Whether "auto" means the most probable labelling for a fitted chain."""
        if (chosen := model.choices_.chosen.get("decode")) is not None:
            return chosen == "viterbi"
        return model.field_.spec.constrained or library.guess_scheme(model.classes_.tolist()) is not None

    def decision(self, model: Any, decode: str | None) -> Decision:
        """Return the decision of a fitted chain; None means the ``decode`` of the chain."""
        if decode is None and model.decode == BY_THRESHOLDS:
            check_is_fitted(model)
            return RareLabels(model)
        return super().decision(model, decode)

    def learns(self, model: Any) -> bool:
        """Whether rare labels have thresholds, which a short fit learns."""
        return model.decode == BY_THRESHOLDS

    def learn(self, model: Any, training: Any, field: Field, held_out: Any) -> Choices:
        """Return thresholds of rare labels, or whether labels under constraints are decided one by one."""
        from kernelfields.models.choices import Choices, Trial

        answers = field.answers(held_out, training.run.settings.workers, training.run.engine)
        labels, weights = held_out.required_labels, held_out.position_weights * held_out.given.informative()
        if not weights.any():
            return Choices()
        shares = np.bincount(training.data.required_labels, minlength=len(training.classes)) / training.data.n_positions
        rare = judged_labels(shares, labels, weights)
        if model.decode == BY_THRESHOLDS:
            return Choices({"thresholds": rare_thresholds(answers.marginals, labels, weights, rare).tolist()})
        fits = library.guess_scheme(training.classes.tolist()) is not None
        if not is_auto(model.decode):
            return Choices()
        if fits or not training.spec.constrained:
            predicted = answers.best_labels() if fits else answers.likeliest_labels()
            _warn_of_rare_labels(training.classes[rare], shares[rare], np.isin(rare, predicted))
            return Choices()
        decoded = {"viterbi": answers.best_labels(), "posterior": answers.likeliest_labels()}
        share_right = {name: float(np.average(found == labels, weights=weights)) for name, found in decoded.items()}
        trials = tuple(Trial({"decode": name}, share) for name, share in share_right.items())
        pays = share_right["posterior"] >= share_right["viterbi"] + _WORTH_BREAKING_RULES
        chosen = "posterior" if pays else "viterbi"
        _warn_of_rare_labels(training.classes[rare], shares[rare], np.isin(rare, decoded[chosen]))
        return Choices({"decode": chosen}, trials)

    def describe(self, model: Any) -> dict[str, Any]:
        """Return whether "auto" means whole labellings, which readers of files need not guess."""
        return {"jointly": self.is_joint(model)}


def _warn_of_rare_labels(labels: np.ndarray, shares: np.ndarray, predicted: np.ndarray) -> None:
    """Warn of rare labels that are never predicted for held-out data."""
    if predicted.all():
        return
    left = zip(labels[~predicted].tolist(), shares[~predicted].tolist(), strict=True)
    named = ", ".join(f"{label!r} ({share:.1%} of the positions)" for label, share in left)
    warn_user(
        f"never predicted for held-out data: {named}. decode='f1' predicts rare labels above thresholds of their own, "
        "decode='posterior' or 'viterbi' confirms that the most probable labels are wanted (docs/rare_events.md)",
    )
