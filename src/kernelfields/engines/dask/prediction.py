"""Predictions for Dask collections: collections again, computed where their partitions are.

The fitted field travels once, as a task that all partitions share, and takes the way of any other data from worker
to worker. Partitions without sequences give empty ones. Dask is not loaded where nobody has loaded it.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from kernelfields.engines.dask.collections import is_dask_collection, partitions

Method = TypeVar("Method", bound=Callable[..., Any])

#: Methods that give one item for each sequence.
METHODS = ("predict", "predict_marginals", "predict_nbest", "predict_variances", "entropy")


def predict_collection(crf: Any, X: Any, method: str = "predict", **settings: Any) -> Any:
    """Return a method's answers for a Dask bag of sequences as a bag, for a list of Delayed as a list of Delayed.

    ``settings`` are those of the method, such as decode="posterior" or k=3.
    """
    import dask
    import dask.bag
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(crf, "field_")
    if method not in METHODS:
        raise ValueError(f"method of a Dask collection must be one of {', '.join(METHODS)}, got {method!r}")
    if settings.get("pairs"):
        raise ValueError("pairs=True gives two lists: ask for a partition of the collection at a time")
    lists = isinstance(X, list | tuple)
    answer = dask.delayed(answered, pure=False)
    model = dask.delayed(_travelling(crf), traverse=False)
    parts = [answer(model, part, number, method, settings) for number, part in enumerate(partitions(X, "X"))]
    return parts if lists else dask.bag.from_delayed(parts)


def _travelling(crf: Any) -> Any:
    """Return a copy without what cannot leave this process; on a worker one thread is its share."""
    model = copy.copy(crf)
    model.callbacks, model.engine, model.n_jobs = None, "threads", 1
    return model


def answered(crf: Any, part: Any, number: int, method: str, settings: dict[str, Any]) -> list:
    """Task on a worker: return the answers for the sequences of one partition."""
    sequences = list(part)
    if not sequences:
        return []
    try:
        return list(getattr(crf, method)(sequences, **settings))
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error


def answers_collections(method: Method) -> Method:
    """Let a method of one answer for each sequence of X take Dask collections of sequences as well."""
    signature = inspect.signature(method)

    @wraps(method)
    def answer(self: Any, X: Any, *arguments: Any, **settings: Any) -> Any:
        if "dask" not in sys.modules or not is_dask_collection(X):
            return method(self, X, *arguments, **settings)
        given = dict(signature.bind(self, X, *arguments, **settings).arguments)
        del given["self"], given["X"]
        return predict_collection(self, X, method.__name__, **given)

    return answer  # type: ignore[return-value]
