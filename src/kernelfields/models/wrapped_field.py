"""Estimators around a field: what they do not answer themselves, the fitted field inside them answers.

    FrameCRF        data frames              AnnotatedCRF     labels of several annotators
    CalibratedField calibrated probabilities ConformalField   prediction sets
    FieldSearchCV   the best of a search     compat.CRF       sklearn-crfsuite's names

``field_inside`` finds the field that answers for any model, through pipelines, searches and these classes, and X and y
as that field takes them. ``field_of`` makes one estimator of a fitted pipeline, which takes what the pipeline does.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kernelfields.models.stored import StoredEstimator


class WrappedField(BaseEstimator):
    """An estimator with a fitted one inside; questions that it does not define are passed on to that one."""

    #: The attribute that holds the fitted estimator.
    _inside: ClassVar[str] = "estimator_"
    #: The questions that are passed on, beside attributes of the fit; None for all.
    _passed_on: ClassVar[tuple[str, ...] | None] = None

    def __sklearn_is_fitted__(self) -> bool:
        return self._inside in vars(self)

    def fitted_inside(self) -> Any:
        """Return the fitted estimator; NotFittedError before a fit."""
        check_is_fitted(self)
        return vars(self)[self._inside]

    def behind(self, transformer: Any) -> Self:
        """Return a copy whose field takes what a fitted transformer takes, as the last step of a pipeline does."""
        other = copy.copy(self)
        setattr(other, self._inside, field_of(self.fitted_inside()).behind(transformer))
        return other

    def asked(self, X: object, y: object, labelled: bool) -> tuple[Any, Any, Any]:
        """Return the estimator that evaluations ask, with X and y as it takes them.

        ``labelled`` is True if labels may be a part of X, such as a column of a table.
        """
        return self, X, y

    def _passes_on(self, name: str) -> bool:
        """Whether a question that this class does not define is passed on."""
        if self._passed_on is not None and name in self._passed_on:
            return True
        return self._inside in vars(self) and (self._passed_on is None or name.endswith("_"))

    if not TYPE_CHECKING:  # with it, a checker of types would take every name for an attribute

        def __getattr__(self, name):
            # Only what is not found here comes this way; private names must not, or copying would go in circles.
            if not name.startswith("_") and self._passes_on(name):
                return getattr(self.fitted_inside(), name)
            above = getattr(super(), "__getattr__", None)  # advice on names of other packages, where a class has it
            return object.__getattribute__(self, name) if above is None else above(name)


def opened(model: object, X: object) -> tuple[Any, Any]:
    """Return the estimator inside pipelines, searches and frozen estimators, and inputs as it takes them."""
    if isinstance(model, Pipeline):
        return opened(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
    inner = _inner(model)
    return (model, X) if inner is None else opened(inner, X)


def _inner(model: object) -> Any:
    """Return the estimator inside a frozen one or a search, None for others."""
    return model.estimator if isinstance(model, FrozenEstimator) else getattr(model, "best_estimator_", None)


def field_of(model: object) -> Any:
    """Return the estimator that answers for a fitted pipeline or search, with inputs as the pipeline takes them.

    The last step of a pipeline answers questions that scikit-learn's Pipeline does not have, such as
    ``predict_entities``, ``explain`` and ``save``, once its inputs are made by the steps before. Here it makes them
    itself: ``field_of(pipeline).predict_entities(sentences)``. Other estimators are returned as they are.
    """
    if isinstance(model, Pipeline):
        *before, (_, last) = [step for step in model.steps if step[1] not in (None, "passthrough")]
        field = field_of(last)
        if not before:
            return field
        return field.behind(Pipeline(before) if len(before) > 1 else before[0][1])
    if not isinstance(model, WrappedField) and (inner := _inner(model)) is not None:
        return field_of(inner)
    if not isinstance(model, WrappedField | StoredEstimator):
        raise TypeError(
            "model must be a fitted estimator of kernelfields, or a pipeline or search that ends in one, got "
            f"{model!r:.60}"
        )
    check_is_fitted(model)
    return model


def field_inside(model: object, X: object, y: object, *, labelled: bool = True) -> tuple[Any, Any, Any]:
    """Return the field that answers for a model, with X and y as it takes them; mostly the model itself.

    Where X is a table with a column of labels, that takes the place of a missing y unless ``labelled`` is False.
    """
    model, X = opened(model, X)
    return model.asked(X, y, labelled) if isinstance(model, WrappedField) else (model, X, y)
