"""Estimators whose errors say what names of other packages are here; the words are in hints.py."""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields import models
from kernelfields.numerics.parameters import set_nested


class AdvisedEstimator(BaseEstimator):
    """An estimator whose errors name what takes the place of parameters and attributes of other packages."""

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        cls._parameters_declared()

    @classmethod
    def _parameters_declared(cls) -> None:
        """Let ``__init__``, once it is there, raise TypeError with advice for parameters that it does not have."""
        init = cls.__dict__.get("__init__")
        if init is None:
            return
        parameters = signature(init).parameters
        open_ended = any(own.kind is Parameter.VAR_KEYWORD for own in parameters.values())

        # The signature stays that of the class: scikit-learn reads the names of parameters from it.
        @wraps(init)
        def advising(self: AdvisedEstimator, *arguments: object, **settings: object) -> None:
            for name in () if open_ended else settings:
                if name not in parameters:
                    raise TypeError(models.hints.on_parameter(type(self), name, parameters))
            init(self, *arguments, **settings)

        cls.__init__ = advising  # type: ignore[method-assign, assignment]

    def set_params(self, **settings: object) -> Self:
        """Set parameters, as in scikit-learn; an unknown name raises an error that says what is meant.

        Parameters of a parameter that is None are set on the object that None stands for; of a dict, on all its values.

        Parameters
        ----------
        **settings : object
            Parameters by name, ``name__inner`` for those of a parameter.

        Returns
        -------
        Self
            The estimator.
        """
        known = self.get_params(deep=False)
        for name in settings:
            if name not in known and models.hints.advice(models.hints.PARAMETERS, type(self), name):
                raise ValueError(models.hints.on_parameter(type(self), name, known))
        return super().set_params(**set_nested(self, settings))

    if not TYPE_CHECKING:  # with it, a checker of types would take every name for an attribute

        def __getattr__(self, name):
            # Only what is not found comes this way. The second lookup raises Python's own error, or a property's.
            if words := models.hints.advice(models.hints.ATTRIBUTES, type(self), name):
                if name == "feature_names_in_":
                    check_is_fitted(self, "field_")
                raise AttributeError(f"{type(self).__name__} has no {name}: {words}", name=name, obj=self)
            return object.__getattribute__(self, name)
