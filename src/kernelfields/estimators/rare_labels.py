"""Labels that a field never predicts, and probability thresholds that find them.

Of a label that 1 in 100 positions has, the probability seldom exceeds that of the common ones, and the most probable
labels have none of it. They are right most often all the same: it is the F1 of the label that is lost. With
probabilities that are right, this F1 is largest if the label is predicted wherever its probability exceeds half of it:

    threshold_k = 1/2 max over c of F1({p_tk > c}, {y_t = k})           on held-out positions t

    Lipton, Elkan and Naryanaswamy (2014), Optimal thresholding of classifiers to maximize F1 measure.

A label has a threshold if the mean F1 of all labels is higher with it on held-out positions. The rarest is tried first.
Of new items probabilities may be so far off that this threshold gains nothing: then the best of some quantiles of the
label's probabilities is tried. Labels of more than half of the positions have none: they are what exceeds no threshold.

Cost: O(n log n + n L) for each of L labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators import library
from kernelfields.estimators.answering.decisions import Decision, ParameterRule
from kernelfields.estimators.going_on import has_learnt_to_decide
from kernelfields.numerics.parameters import is_auto
from kernelfields.numerics.user_warnings import warn_user

#: Labels by thresholds of probability, chosen by the F1 of rare ones.
BY_THRESHOLDS = "f1"
#: Values of ``decode`` for which a fit learns settings.
LEARNT_DECODINGS = (BY_THRESHOLDS,)
#: Labels of a smaller share of the positions may have thresholds.
MINORITY = 0.5
#: A label of so many held-out positions can be judged by them.
LEAST_POSITIONS = 10
# Labels that are found at a smaller share of their positions are as good as never predicted.
_ALMOST_NEVER = 0.02
# Probabilities of a label that may be its threshold.
_QUANTILES = np.linspace(0.02, 0.98, 49)
# Labels that break the constraints have to be right more often by this share of positions.
_WORTH_BREAKING_RULES = 0.01


def half_largest_f1(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return half the largest F1 over all labels above a common threshold; 1/2 without any label."""
    order = np.argsort(-probabilities, kind="stable")
    right = np.cumsum((weights * labels)[order])
    return 0.5 if not right[-1] > 0 else float((right / (np.cumsum(weights[order]) + right[-1])).max())


def select_judged_labels(labels: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
    """Return the labels with enough held-out positions to judge them by."""
    return np.flatnonzero(np.bincount(labels[weights > 0], minlength=n_labels) >= LEAST_POSITIONS)


def find_missing_labels(labels: np.ndarray, predicted: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
    """Return the labels with almost no right prediction at their held-out positions."""
    judged = select_judged_labels(labels, weights, n_labels)
    true, right = (
        np.bincount(own[weights > 0], minlength=n_labels)
        for own in (labels, np.where(predicted == labels, labels, n_labels))
    )
    return judged[right[judged] < _ALMOST_NEVER * true[judged]]


def choose_thresholds(
    marginals: np.ndarray, labels: np.ndarray, weights: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """Return thresholds (L,) by held-out marginals (n, L), labels (n,) and weights; 1 for labels without one.

    ``candidates`` are the labels that may have one, the rarest first.
    """
    thresholds = np.ones(marginals.shape[1])
    best = compute_mean_f1(labels, choose_by_thresholds(marginals, thresholds), weights, len(thresholds))

    def reached(label: int, threshold: float) -> float:
        tried = thresholds.copy()
        tried[label] = threshold
        return compute_mean_f1(labels, choose_by_thresholds(marginals, tried), weights, len(thresholds))

    for label in candidates.tolist():
        own = marginals[:, label]
        for tried in ([half_largest_f1(own, labels == label, weights)], _find_positive_quantiles(own)):
            gains = [reached(label, threshold) for threshold in tried]
            if max(gains, default=0.0) > best:
                best, thresholds[label] = max(gains), tried[int(np.argmax(gains))]
                break
    return thresholds


def _find_positive_quantiles(probabilities: np.ndarray) -> np.ndarray:
    """Return quantiles of probabilities that can be thresholds."""
    found = np.unique(np.quantile(probabilities, _QUANTILES))
    return found[(found > 0.0) & (found < 1.0)]


def compute_mean_f1(labels: np.ndarray, predicted: np.ndarray, weights: np.ndarray, n_labels: int) -> float:
    """Return the mean F1 of the labels that occur."""
    true, found, both = (
        np.bincount(own, counted, minlength=n_labels)
        for own, counted in ((labels, weights), (predicted, weights), (labels, weights * (labels == predicted)))
    )
    occurring = true > 0
    return float(np.mean(2.0 * both[occurring] / (true + found)[occurring]))


def choose_by_thresholds(marginals: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return labels (n,): the one with the largest ratio to its threshold, else the most probable one."""
    excess = np.where(thresholds < 1.0, marginals / thresholds, 0.0)
    return np.where(excess.max(axis=1) > 1.0, excess.argmax(axis=1), marginals.argmax(axis=1))


def get_thresholds(model: Any) -> np.ndarray:
    """Return the learnt thresholds (L,) of a chain; 1 for labels without one."""
    return np.asarray(model.choices_.chosen.get("thresholds", np.ones(len(model.classes_))))


def _find_scheme(classes: np.ndarray) -> library.Scheme | None:
    """Return the scheme of entities in labels; None without one, as for labels that are numbers."""
    return None if classes.dtype.kind in "biuf" else library.recognize_scheme(classes.tolist())


@dataclass(frozen=True)
class RareLabels(Decision):
    """Labels above learnt thresholds, else the most probable labels."""

    model: Any

    def choose(self, answers: library.Answers) -> np.ndarray:
        """Return the numbers (N,) of the labels."""
        if not has_learnt_to_decide(self.model):
            raise ValueError(
                "decode='f1' takes thresholds that a fit with decode='f1' learns, and this field was fitted with "
                "another one: fit again, with warm_start=True from here, or set decode='posterior'"
            )
        return choose_by_thresholds(answers.marginals, get_thresholds(self.model))


@dataclass(frozen=True)
class ChainRule(ParameterRule):
    """The meaning of ``decode`` for chains: "auto" is "viterbi" under constraints and for labels of entities."""

    def is_joint(self, model: Any) -> bool:
        """Whether "auto" means the most probable labelling for a fitted chain."""
        if (chosen := model.choices_.chosen.get("decode")) is not None:
            return chosen == "viterbi"
        return model.field_.spec.is_constrained or _find_scheme(model.classes_) is not None

    def decision(self, model: Any, decode: str | None) -> Decision:
        """Return the decision of a fitted chain; None means ``decode`` of the chain."""
        if decode is None and model.decode == BY_THRESHOLDS:
            check_is_fitted(model)
            return RareLabels(model)
        return super().decision(model, decode)

    def learn(
        self,
        model: Any,
        training: Any,
        field: library.Field,
        held_out: Any,
        predictions: Callable[[], library.Predictions],
    ) -> library.Choices:
        """Return thresholds of labels, or whether labels under constraints are decided one by one."""
        answers = field.answers(held_out, training.run.settings.workers, training.run.engine)
        labels, weights = held_out.required_labels, held_out.position_weights * held_out.given.informative()
        if not weights.any():
            return library.Choices()
        counts = np.bincount(training.data.required_labels, minlength=len(training.classes))
        shares = counts / training.data.n_positions
        if model.decode == BY_THRESHOLDS:
            found = predictions()
            known = select_judged_labels(found.labels, found.weights, len(shares))
            rarest = known[np.argsort(shares[known], kind="stable")]
            candidates = rarest[shares[rarest] < MINORITY]
            thresholds = choose_thresholds(found.marginals, found.labels, found.weights, candidates)
            return library.Choices({"thresholds": thresholds.tolist()})
        scheme = _find_scheme(training.classes)
        strays = () if scheme is None or scheme.notation is None else sorted(scheme.notation.strays)
        if not is_auto(model.decode):
            return library.Choices()
        if scheme is not None and strays:
            warn_user(
                f"labels are those of the scheme {scheme.name!r}, and {', '.join(map(repr, strays))} "
                f"({shares[np.isin(training.classes, strays)].sum():.1%} of the positions) outside of all entities"
            )
        fits = scheme is not None and not strays
        if fits:
            _warn_of_missing_labels(
                training, shares, find_missing_labels(labels, answers.best_labels(), weights, len(shares))
            )
            return library.Choices()
        if scheme is None and not training.spec.is_constrained:
            # Of few items one fold may lack some labels.
            right = np.bincount(labels[labels == answers.likeliest_labels()], minlength=len(shares))
            if (right[counts >= LEAST_POSITIONS] == 0).any():
                found = predictions()
                missing = find_missing_labels(found.labels, found.marginals.argmax(axis=1), found.weights, len(shares))
                _warn_of_missing_labels(training, shares, missing)
            return library.Choices()
        decoded = {"viterbi": answers.best_labels(), "posterior": answers.likeliest_labels()}
        share_right = {name: float(np.average(found == labels, weights=weights)) for name, found in decoded.items()}
        trials = tuple(library.Trial({"decode": name}, share) for name, share in share_right.items())
        pays = share_right["posterior"] >= share_right["viterbi"] + _WORTH_BREAKING_RULES
        chosen = "posterior" if pays else "viterbi"
        _warn_of_missing_labels(training, shares, find_missing_labels(labels, decoded[chosen], weights, len(shares)))
        return library.Choices({"decode": chosen}, trials)

    def describe(self, model: Any) -> dict[str, Any]:
        """Return whether "auto" means whole labellings."""
        return {"jointly": self.is_joint(model)}


def _warn_of_missing_labels(training: Any, shares: np.ndarray, missing: np.ndarray) -> None:
    """Warn of labels that are never predicted for held-out data."""
    if not len(missing):
        return
    left = zip(training.classes[missing].tolist(), shares[missing].tolist(), strict=True)
    named = ", ".join(f"{label!r} ({share:.1%} of the positions)" for label, share in left)
    warn_user(
        f"almost never found in held-out data: {named}. decode='f1' predicts labels above thresholds of their own, "
        "decode='posterior' or 'viterbi' confirms that the most probable labels are wanted (docs/rare_events.md)",
    )
