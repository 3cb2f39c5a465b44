"""Scores of a fold's fit on the sequences that were held out; higher is better.

    "log_likelihood"   log p(y | x) per token: proper and smooth, so it can tell close candidates apart
    "accuracy"         share of tokens whose Viterbi label is right, as ChainCRF.score
    "entity_f1"        F1 of entities, micro-averaged; the scheme is that of the estimator's constraints where they
                       name one, else it is guessed from the labels
    a function         scoring(estimator, X, y) of a fitted ChainCRF and the held-out sequences

Fails: ValueError for an unknown name or for labels that hold no entities, before any fit.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.evaluation.label_scores import token_accuracy
from kernelfields.fields.constraints import Constraints, guess_scheme
from kernelfields.selection.variance_path import FoldFit

NAMES = ("log_likelihood", "accuracy", "entity_f1")

Scorer = Callable[[FoldFit], float]


def resolve_scoring(scoring: Any, estimator: ChainCRF, classes: np.ndarray) -> Scorer:
    """Return the function of a fold's fit that ``scoring`` means; ``classes`` are all labels there are."""
    if callable(scoring):
        return lambda fit: _number(scoring(fit.estimator(), fit.part.X_test, fit.part.y_test), scoring)
    if scoring == "log_likelihood":
        return lambda fit: fit.log_likelihood() / fit.chains.n_positions
    if scoring == "accuracy":
        return lambda fit: token_accuracy(fit.part.y_test, fit.predictions())
    if scoring == "entity_f1":
        scheme = _entity_scheme(estimator, classes)
        return lambda fit: entity_f1_score(fit.part.y_test, fit.predictions(), scheme=scheme)
    raise ValueError(f"scoring must be one of {', '.join(map(repr, NAMES))} or a function, got {scoring!r}")


def _entity_scheme(estimator: ChainCRF, classes: np.ndarray) -> str:
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
