"""Estimators around a field: each declares the questions that the fitted field inside answers.

    FrameCRF        data frames              AnnotatedCRF     labels of several annotators
    CalibratedField calibrated probabilities ConformalField   prediction sets
    FieldSearchCV   the best of a search     compat.CRF       sklearn-crfsuite's names

A wrapper defines a question, forwards it (``forward_questions``), or refuses it in words (``refuse_questions``). No
other name reaches the estimator inside. The names below are all that users ask of a fitted field.

``unwrap_field`` finds the field that answers for any model, through pipelines, searches and these classes, and X and y
as that field takes them. ``get_field`` makes one estimator of a fitted pipeline, which takes what the pipeline does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import update_wrapper, wraps
from types import MethodType
from typing import Any, ClassVar, Self, TypeVar

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kernelfields.models.stored import StoredEstimator

#: Labels, which are the same whatever is done to probabilities.
OF_LABELS = ("predict", "predict_states", "score")
#: Probabilities, and answers that are made of them.
OF_PROBABILITIES = (
    *("predict_marginals", "predict_proba", "predict_log_proba", "predict_nbest", "predict_entities"),
    *("predict_boundaries", "predict_segments", "predict_joint", "decision_function", "entropy", "log_likelihood"),
    *("sample", "stream", "show", "plot"),
)
#: The coefficients and their fit.
OF_THE_FIT = ("predict_variances", "explain", "weights", "summary", "certify", "sample_coefficients")
#: What changes the field.
CHANGING = ("partial_fit", "laplace")
#: Attributes of a fitted field, and what it calls its items.
FITTED = (
    *("allowed_", "basis_", "certificate_", "choices_", "classes_", "coef_", "continuation_", "dev_log_likelihoods_"),
    *("durations_", "edge_scores_", "evidence_path_", "feature_names_in_", "features_", "field_", "inference_"),
    *("label_edges_", "label_names_", "laplace_", "max_duration_", "n_features_in_", "n_iter_", "n_labels_"),
    *("n_states_", "prior_variance_", "rkhs_certificate_", "scale_", "solution_", "stationarity_", "threshold_"),
    *("thresholds_", "transitions_", "_answer_format"),
)

#: What is read from the estimator inside, and not called.
_SHOWN = (*FITTED, "estimator_", "plot")

Wrapper = TypeVar("Wrapper", bound=type)

#: The words of a question that no known class has.
_CARRIED = """Ask the estimator inside: its ``{name}``.

Parameters
----------
*arguments : object
    The arguments of the method there.
**settings : object
    Its keyword arguments.

Returns
-------
object
    What it returns.
"""


class Question:
    """A method of a wrapper that exists if the estimator inside has the method."""

    def __init__(self, method: Callable):
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]  # it is shown as the method

    def __get__(self, wrapper: WrappedField | None, kind: type | None = None) -> Callable:
        if wrapper is None:
            return self.method
        wrapper.check_offered(self.method.__name__)
        return MethodType(self.method, wrapper)


def forward_questions(*names: str, way: str = "ask", like: Iterable[type] = ()) -> Callable[[Wrapper], Wrapper]:
    """Return a decorator that forwards questions and fitted attributes to the estimator inside.

    ``way`` is the method of the class that carries a question, with its name as the first argument. Questions have the
    signature and the words of the first class of ``like`` that has them.
    """

    def declare(cls: Wrapper) -> Wrapper:
        for name in names:
            if name in vars(cls):
                raise TypeError(f"{cls.__name__} defines {name} itself, and cannot pass it on")
            setattr(cls, name, _shown(name) if name in _SHOWN else Question(_carried(name, way, like)))
        return cls

    return declare


def refuse_questions(**reasons: str) -> Callable[[Wrapper], Wrapper]:
    """Return a decorator that refuses some questions of fields, with reasons."""

    def declare(cls: Wrapper) -> Wrapper:
        for name, reason in reasons.items():
            setattr(cls, name, _refused(name, reason))
        return cls

    return declare


def besides(names: Iterable[str], *own: str) -> tuple[str, ...]:
    """Return the names without a definition in a class."""
    return tuple(name for name in names if name not in own)


def _carried(name: str, way: str, like: Iterable[type]) -> Callable:
    def carry(self: Any, *arguments: object, **settings: object) -> Any:
        return getattr(self, way)(name, *arguments, **settings)

    known = next((vars(base)[name] for kind in like for base in kind.__mro__ if name in vars(base)), None)
    known = getattr(known, "__func__", known)
    if callable(known):
        return wraps(known)(carry)
    carry.__name__, carry.__doc__ = name, _CARRIED.format(name=name)
    return carry


def _shown(name: str) -> property:
    return property(lambda self: getattr(self.get_fitted(), name), doc=f"``{name}`` of the estimator inside.")


def _refused(name: str, reason: str) -> property:
    def refuse(self: object) -> Any:
        raise AttributeError(f"{type(self).__name__} has no {name}: {reason}", name=name, obj=self)

    return property(refuse, doc=f"Not there: {reason}.")


class WrappedField(BaseEstimator):
    """An estimator that contains a fitted one, and forwards declared questions to it; see the module."""

    #: The attribute that holds the fitted estimator.
    _inside: ClassVar[str] = "estimator_"

    def __sklearn_is_fitted__(self) -> bool:
        return self._inside in vars(self)

    def get_fitted(self) -> Any:
        """Return the fitted estimator; for a pipeline the estimator of ``get_field``.

        Returns
        -------
        estimator
            The fitted estimator.

        Raises
        ------
        NotFittedError
            If there is none yet.
        """
        check_is_fitted(self)
        return get_field(vars(self)[self._inside])

    def to_be_fitted(self) -> Any:
        """Return the estimator to fit, or its class.

        Returns
        -------
        estimator, type or None
            The estimator; None if it is not known yet.
        """
        return self.get_params(deep=False).get("estimator")

    def check_offered(self, name: str) -> None:
        """Raise an error if the estimator inside lacks a method.

        Parameters
        ----------
        name : str
            The name of the method.

        Raises
        ------
        AttributeError
            If there is no such method, in the words of the estimator inside.
        """
        inside = self.get_fitted() if self.__sklearn_is_fitted__() else self.to_be_fitted()
        while isinstance(inside, Pipeline):
            inside = inside[-1]
        if inside is not None:
            getattr(inside, name)

    def ask(self, name: str, *arguments: object, **settings: object) -> Any:
        """Return the answer of the fitted estimator inside.

        Parameters
        ----------
        name : str
            The name of the method.
        *arguments : object
            Its arguments.
        **settings : object
            Its keywords.

        Returns
        -------
        object
            The answer.
        """
        return getattr(self.get_fitted(), name)(*arguments, **settings)

    def around(self, inside: object) -> Self:
        """Return a copy with another fitted estimator inside.

        Parameters
        ----------
        inside : estimator
            The fitted estimator.

        Returns
        -------
        Self
            The copy.
        """
        other = copy.copy(self)
        setattr(other, self._inside, inside)
        return other

    def _with_preprocessor(self, transformer: Any) -> Self:
        """Return a copy whose field applies a fitted transformer to its inputs, as a pipeline does."""
        return self.around(self.get_fitted()._with_preprocessor(transformer))

    def prepare_evaluation(self, X: object, y: object, labelled: bool) -> tuple[Any, Any, Any]:
        """Return the estimator for evaluations, with converted X and y.

        Parameters
        ----------
        X : inputs
            The inputs.
        y : labels or None
            The labels.
        labelled : bool
            Whether labels may be a part of X, such as a column of a table.

        Returns
        -------
        estimator : object
            The fitted estimator.
        X : inputs
            The inputs as it takes them.
        y : labels or None
            The labels as it takes them.
        """
        return self.get_fitted(), X, y


def unwrap_pipeline(model: object, X: object) -> tuple[Any, Any]:
    """Return the estimator inside pipelines, searches and frozen estimators, with converted inputs."""
    if isinstance(model, Pipeline):
        return unwrap_pipeline(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
    inner = _inner(model)
    return (model, X) if inner is None else unwrap_pipeline(inner, X)


def unwrap_best(model: object) -> Any:
    """Return the best estimator of a search, frozen or not; other models unchanged."""
    inner = _inner(model)
    return model if inner is None else unwrap_best(inner)


def _inner(model: object) -> Any:
    """Return the estimator inside a frozen one or a fitted search; None for others."""
    if isinstance(model, FrozenEstimator):
        return model.estimator
    return vars(model).get("best_estimator_") if isinstance(model, BaseEstimator) else None


def copy_nested(model: Any) -> Any:
    """Return a shallow copy of an estimator and of the fitted estimators inside it."""
    inside = vars(model).get(model._inside) if isinstance(model, WrappedField) else None
    return copy.copy(model) if inside is None else model.around(copy_nested(inside))


def get_field(model: object) -> Any:
    """Return the estimator that answers for a fitted pipeline or search, with the inputs of the pipeline.

    The last step of a pipeline answers questions that scikit-learn's Pipeline does not have, such as
    ``predict_entities``, ``explain`` and ``save``, once its inputs are made by the steps before. Here it makes them
    itself. Other estimators are returned as they are.

    Parameters
    ----------
    model : Pipeline, search or estimator
        The fitted model.

    Returns
    -------
    estimator
        The field; of a pipeline a copy that takes the inputs of the pipeline.

    Raises
    ------
    TypeError
        If no estimator of kernelfields answers for the model.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelfields import ChainCRF, TextFeatures, get_field
    >>> pipeline = make_pipeline(TextFeatures(), ChainCRF(prior_variance=1.0, random_state=0))
    >>> pipeline = pipeline.fit([["Ada", "met", "Bob"], ["Bob", "slept"]], [["PER", "O", "PER"], ["PER", "O"]])
    >>> [(entity.label, entity.begin) for entity in get_field(pipeline).predict_entities([["Ada", "slept"]])[0]]
    [('PER', 0)]
    """
    if isinstance(model, Pipeline):
        *before, (_, last) = [step for step in model.steps if step[1] not in (None, "passthrough")]
        field = get_field(last)
        if not before:
            return field
        return field._with_preprocessor(Pipeline(before) if len(before) > 1 else before[0][1])
    if not isinstance(model, WrappedField | StoredEstimator):
        if (inner := _inner(model)) is None:
            raise TypeError(
                "model must be a fitted estimator of kernelfields, or a pipeline or search that ends in one, got "
                f"{model!r:.60}"
            )
        return get_field(inner)
    check_is_fitted(model)
    return model


def unwrap_field(model: object, X: object, y: object, *, labelled: bool = True) -> tuple[Any, Any, Any]:
    """Return the field inside a model, with converted X and y.

    If X is a table with a column of labels, that takes the place of a missing y unless ``labelled`` is False.
    """
    model, X = unwrap_pipeline(model, X)
    if not isinstance(model, WrappedField):
        return model, X, y
    inner, X, y = model.prepare_evaluation(X, y, labelled)
    return (inner, X, y) if inner is model else unwrap_field(inner, X, y, labelled=labelled)
