"""Estimators of the page: the default estimator, and its preparation for partly known labels.

prepare_for_fit(model, known)     sets ``partial_labels`` if labels are unknown, and ``warm_start``
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.constraints import Scheme
from kernelfields.data.reading import plain_label
from kernelfields.estimators import ChainCRF, MultiLabelCRF
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.models.partial import PartialLabels
from kernelfields.page.items import Known
from kernelfields.selection.field_search_cv import FieldSearchCV
from kernelfields.selection.held_out import get_parameter


def unwrap_estimator(model: Any) -> Any:
    """Return the estimator of labels inside pipelines and searches, fitted if possible."""
    if isinstance(model, Pipeline):
        return unwrap_estimator(model[-1])
    if isinstance(model, FieldSearchCV | BaseSearchCV | FrozenEstimator):
        return unwrap_estimator(vars(model).get("best_estimator_", model.estimator))
    return model


def list_model_labels(model: BaseEstimator) -> list:
    """Return the labels of a model as plain values."""
    field = unwrap_estimator(model)
    return [plain_label(label) for label in get_answer_format(field).labels(field)]


def prepare_for_fit(model: Any, known: list[list[Known]]) -> Any:
    """Set the parameters of an estimator for partly known labels and a warm start."""
    field = unwrap_estimator(model)
    named = {label for item in known for entry in item if entry is not None for label in entry}
    if len(named) < 2:
        raise ValueError("all labels that are known are the same: two different ones make a model")
    partly = any(entry is None or len(entry) > 1 for item in known for entry in item)
    if own := get_parameter(model, "partial_labels"):
        several = isinstance(field, MultiLabelCRF)
        partial = PartialLabels() if several else PartialLabels(classes=sorted(named, key=str))
        model.set_params(**{own: partial if partly else None})
    elif partly:
        raise ValueError(f"{type(field).__name__} needs all labels of the items that it is fitted to")
    if own := get_parameter(model, "warm_start"):
        old = set(list_model_labels(field)) if hasattr(field, "classes_") else set()
        model.set_params(**{own: old == named})
    return model


def make_default_estimator(words: bool, scheme: Scheme | None) -> Any:
    """Return a ChainCRF for words, whose labels may follow a scheme, or for numbers."""
    return ChainCRF(constraints=None if scheme is None or not words else scheme.name, random_state=0)


def get_if_fitted(estimator: BaseEstimator | None) -> Any:
    """Return the estimator if it is fitted, else None."""
    if estimator is None:
        return None
    try:
        check_is_fitted(unwrap_estimator(estimator))
    except NotFittedError:
        return None
    return estimator
