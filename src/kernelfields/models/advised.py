"""Errors of estimators with hints for names of other packages; the hints are in hints.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, signature

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields import models


def with_advice(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__`` of an estimator: unknown parameters raise TypeError with advice."""
    parameters = signature(init).parameters
    open_ended = any(own.kind is Parameter.VAR_KEYWORD for own in parameters.values())

    # The signature stays that of the class: scikit-learn reads the names of parameters from it.
    @wraps(init)
    def advising(self: BaseEstimator, *arguments: object, **settings: object) -> None:
        for name in () if open_ended else settings:
            if name not in parameters:
                raise TypeError(models.hints.parameter_hint(type(self), name, parameters))
        init(self, *arguments, **settings)

    return advising


def check_parameter_names(estimator: BaseEstimator, names: Iterable[str]) -> None:
    """Raise ValueError with advice for the name of a parameter of another package."""
    known = estimator.get_params(deep=False)
    for name in names:
        if name not in known and models.hints.advice(models.hints.PARAMETERS, type(estimator), name):
            raise ValueError(models.hints.parameter_hint(type(estimator), name, known))


def check_attribute_name(estimator: BaseEstimator, name: str) -> None:
    """Raise AttributeError with advice for the name of an attribute of another package."""
    words = models.hints.advice(models.hints.ATTRIBUTES, type(estimator), name)
    if not words:
        return
    if name == "feature_names_in_":
        check_is_fitted(estimator, "field_")
    raise AttributeError(f"{type(estimator).__name__} has no {name}: {words}", name=name, obj=estimator)
