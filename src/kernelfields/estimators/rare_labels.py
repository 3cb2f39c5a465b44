"""The meaning of ``decode`` for chains, and labels that a field never predicts.

A fit under constraints tries on held-out items whether whole labellings or single labels are right more often. It warns
of labels that are found at almost none of their held-out positions; thresholds that find them are in thresholds.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators import library
from kernelfields.estimators.answering.decisions import Decision, ParameterRule
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
# Labels that break the constraints have to be right more often by this share of positions.
_WORTH_BREAKING_RULES = 0.01


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


def _find_scheme(classes: np.ndarray) -> library.Scheme | None:
    """Return the scheme of entities in labels; None without one, as for labels that are numbers."""
    return None if classes.dtype.kind in "biuf" else library.recognize_scheme(classes.tolist())


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
            return library.RareLabels(model)
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
            thresholds = library.choose_thresholds(found.marginals, found.labels, found.weights, candidates)
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
