"""Scores of held-out items; higher is better.

    "log_likelihood"   log p(y | x) per token, node, label or sample: proper and smooth, so it can tell close candidates
                       apart; needs exact inference
    "accuracy"         what the estimator's own predictions get right: tokens, nodes, samples, or whole sets of labels
    "entity_f1"        chains: F1 of entities, micro-averaged; the scheme is that of the estimator's constraints where
                       they name one, else it is guessed from the labels
    "micro_f1"         several labels: F1 of all labels of all instances together
    "hamming"          several labels: the share of single labels that are right, one minus the Hamming loss
    a name             tables: any scorer of scikit-learn, such as "roc_auc" or "f1_macro"
    a function         scoring(estimator, X, y) of a fitted estimator and held-out items

Predictions are those of the estimator itself (``FoldFit.predictions``), whichever way it decodes.
Fails: before any fit, ValueError for an unknown score or for labels that hold no entities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.metrics import f1_score, get_scorer, get_scorer_names

from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.evaluation.label_scores import token_accuracy
from kernelfields.features.indicators import read_indicator
from kernelfields.fields.constraints import Constraints, guess_scheme
from kernelfields.fields.evidence import informative
from kernelfields.selection.variance_path import FoldFit

Scorer = Callable[[FoldFit], float]
#: Makes the scorer of a name for an estimator, whose sorted classes are given.
ScorerMaker = Callable[[Any, np.ndarray], Scorer]


def resolve_scoring(
    scoring: Any,
    estimator: Any,
    classes: np.ndarray,
    makers: Mapping[str, ScorerMaker],
    *,
    of_scikit_learn: bool = False,
) -> Scorer:
    """Return the function of a fold's fit that ``scoring`` means; ``makers`` are the names that the estimator has."""
    if callable(scoring):
        return lambda fit: _number(scoring(fit.estimator(), fit.part.X_test, fit.part.y_test), scoring)
    if isinstance(scoring, str) and scoring in makers:
        return makers[scoring](estimator, classes)
    names = ", ".join(map(repr, makers))
    if not of_scikit_learn:
        raise ValueError(f"scoring must be one of {names} or a function, got {scoring!r}")
    if not isinstance(scoring, str) or scoring not in get_scorer_names():
        raise ValueError(f"scoring must be one of {names}, a scorer of scikit-learn or a function, got {scoring!r}")
    return resolve_scoring(get_scorer(scoring), estimator, classes, makers)


#: Scores that count what is known where labels are partly known; functions are left to whoever wrote them.
COUNT_WHAT_IS_KNOWN = ("log_likelihood", "accuracy")


def check_partly_known(scoring: Any) -> None:
    """Raise ValueError if a score needs every label."""
    if isinstance(scoring, str) and scoring not in COUNT_WHAT_IS_KNOWN:
        names = " or ".join(map(repr, COUNT_WHAT_IS_KNOWN))
        raise ValueError(f"scoring={scoring!r} needs every label, and labels are partly known here: use {names}")


def log_likelihood(estimator: Any, classes: np.ndarray) -> Scorer:
    """Return the log-likelihood per position, of those of which something is known."""

    def score(fit: FoldFit) -> float:
        evidence = fit.part.test.evidence
        count = fit.part.test.n_positions if evidence is None else max(1, int(informative(evidence).sum()))
        return fit.log_likelihood() / count

    return score


def position_accuracy(estimator: Any, classes: np.ndarray) -> Scorer:
    """Return the share of positions whose label is right, of those whose label is known."""

    def score(fit: FoldFit) -> float:
        if fit.part.test.evidence is not None:
            return fit.estimator().score(fit.part.X_test, fit.part.y_test)
        return token_accuracy(fit.part.y_test, fit.predictions())

    return score


def own_accuracy(estimator: Any, classes: np.ndarray) -> Scorer:
    """Return what the estimator calls its accuracy."""
    return lambda fit: fit.estimator().score(fit.part.X_test, fit.part.y_test)


def entity_f1(estimator: Any, classes: np.ndarray) -> Scorer:
    """Return the F1 of entities; ValueError if the labels hold none."""
    scheme = _entity_scheme(estimator, classes)
    return lambda fit: entity_f1_score(fit.part.y_test, fit.predictions(), scheme=scheme)


def micro_f1(estimator: Any, classes: np.ndarray) -> Scorer:
    """Return the F1 of all labels together; 0 where there are none and none are predicted."""
    return lambda fit: float(f1_score(*_indicators(fit), average="micro", zero_division=0.0))


def hamming(estimator: Any, classes: np.ndarray) -> Scorer:
    """Return the share of single labels that are right."""

    def score(fit: FoldFit) -> float:
        labels, predicted = _indicators(fit)
        return float(np.mean(labels == predicted))

    return score


def _indicators(fit: FoldFit) -> tuple[np.ndarray, np.ndarray]:
    """Return the true and the predicted labels of held-out instances, (n, K)."""
    predicted = fit.predictions()
    return read_indicator(fit.part.y_test, len(predicted))[0], predicted


def _entity_scheme(estimator: Any, classes: np.ndarray) -> str:
    """Return the name of the scheme that the labels follow; guessed from all of them, not fold by fold."""
    named = Constraints.of(estimator.constraints).scheme
    if named is not None:
        return named
    guessed = guess_scheme(classes.tolist())
    if guessed is None:
        shown = ", ".join(map(repr, classes[:10].tolist())) + (" and more" if len(classes) > 10 else "")
        raise ValueError(
            f"scoring='entity_f1' needs labels such as 'B-NP', 'I-NP' and 'O', got {shown}: use 'accuracy', or "
            "name their scheme in the estimator's constraints"
        )
    return guessed.name


def _number(value: Any, scoring: Any) -> float:
    if not isinstance(value, Real | np.number) or isinstance(value, bool):
        raise TypeError(f"scoring {scoring!r} must return a number, got {value!r}")
    return float(value)
