"""Scores of held-out items; higher is better.

    "auto"             "log_likelihood"; for approximate inference "accuracy", or "hamming" for several labels
    "log_likelihood"   log p(y | x) per token, node, label or sample: proper and smooth, so it separates close
                       candidates; needs exact inference
    "accuracy"         share of right predictions of tokens, nodes, samples, or whole sets of labels
    "entity_f1"        sequences: F1 of entities, micro-averaged; the scheme is that of the estimator's constraints,
                       or else guessed from the labels
    "micro_f1"         several labels: F1 of all labels of all instances together
    "hamming"          several labels: the share of single labels that are right, one minus the Hamming loss
    a name             any scorer of scikit-learn, such as "roc_auc" or "f1_macro", for classifiers and, counted by
                       positions, for sequences and graphs
    a function         scoring(estimator, X, y) of a fitted estimator and held-out items

"log_likelihood" and "accuracy" weight held-out items by their sample weights: an item of weight two counts as two items
of weight one. The other scores are unweighted. Raises ValueError before any fit for an unknown score, or for one that
is undefined for these labels.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import f1_score, get_scorer, get_scorer_names

from kernelfields.data.constraints import Constraints, guess_scheme
from kernelfields.data.given_labels import given_labels
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.fit_state import FitState
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.evaluation.scorers import position_scorer
from kernelfields.numerics.parameters import resolve_open
from kernelfields.selection.candidates import Searched
from kernelfields.selection.folds import Items, has_several_labels
from kernelfields.selection.variance_path import FoldFit
from kernelfields.structures.indicators import read_indicator

Scorer = Callable[[FoldFit], float]
#: What users give: a name, or a function of a fitted estimator, held-out inputs and their labels.
Scoring = str | Callable[..., float]


def resolve_scoring(scoring: Scoring, estimator: Searched, training: FitState, items: Items) -> tuple[str, Scorer]:
    """Return the name of the score, with "auto" resolved, and its function of a fitted fold."""
    if callable(scoring):
        return getattr(scoring, "__name__", "score"), _make_score(scoring)
    several = has_several_labels(estimator)
    known: dict[str, Scorer] = {
        "log_likelihood": lambda fit: fit.log_likelihood(),
        "accuracy": lambda fit: fit.estimator.score(*fit.test[:3]),
    }
    if isinstance(estimator, ChainCRF):
        known["entity_f1"] = lambda fit: entity_f1_score(fit.test.y, fit.estimator.predict(fit.test.X), scheme=scheme)
    if several:
        known["micro_f1"] = lambda fit: float(f1_score(*_to_indicators(fit), average="micro", zero_division=0.0))
        known["hamming"] = lambda fit: float(np.mean(np.equal(*_to_indicators(fit))))
    approximate = estimator.structure.approximate_method(training) if isinstance(estimator, FieldEstimator) else None
    instead = "hamming" if several else "accuracy"
    name: str = resolve_open(scoring, "log_likelihood" if approximate is None else instead)
    if name == "log_likelihood" and approximate is not None:
        raise ValueError(
            f"scoring='log_likelihood' needs exact inference, and these graphs are inferred by {approximate!r}, which "
            f"is approximate: use scoring={instead!r}, or an exact method if there is time for it"
        )
    counted = ["log_likelihood"] if isinstance(items.y, SoftTargets) else ["log_likelihood", "accuracy"]
    if name not in counted:
        names = " or ".join(map(repr, counted))
        items.given.check_complete(f"scoring={name!r} needs every label, and labels are partly known here: use {names}")
    if name in known:
        scheme = _guess_scheme(estimator, training.classes) if name == "entity_f1" else ""
        return name, known[name]
    if name in get_scorer_names():
        return name, _make_score(get_scorer(name) if is_classifier(estimator) else position_scorer(name))
    names = ", ".join(map(repr, known))
    raise ValueError(f"scoring must be one of {names}, a scorer of scikit-learn or a function, got {name!r}")


def _make_score(function: Callable[..., object]) -> Scorer:
    """Make a score of a function of a fitted estimator, held-out inputs and their labels."""

    def score(fit: FoldFit) -> float:
        """Return the score of a fitted fold."""
        value = function(fit.estimator, fit.test.X, fit.test.y)
        if not isinstance(value, Real | np.number) or isinstance(value, bool):
            raise TypeError(f"scoring {function!r} must return a number, got {value!r}")
        return float(value)

    return score


def _to_indicators(fit: FoldFit) -> tuple[np.ndarray, np.ndarray]:
    """Return the true and the predicted binary labels of held-out instances, (n, K)."""
    predicted = np.asarray(fit.estimator.predict(fit.test.X))
    labels, partial, _ = read_indicator(fit.test.y, len(predicted))
    given_labels(labels, partial).check_complete(
        "y holds labels that are not known, which cannot be compared with: drop their instances"
    )
    return labels, predicted


def _guess_scheme(estimator: Searched, classes: np.ndarray) -> str:
    """Guess the scheme of entity labels from the labels of all folds."""
    named = Constraints.parse(getattr(estimator, "constraints", None)).scheme
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
