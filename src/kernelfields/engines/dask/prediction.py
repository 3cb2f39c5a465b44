"""Predictions for Dask collections: collections again, computed where their partitions are.

The fitted field travels once, as a task that all partitions share, and takes the way of any other data from worker
to worker. Partitions without sequences give empty ones.
"""

from __future__ import annotations

import copy
from typing import Any

from kernelfields.engines.dask.collections import partitions

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
    if settings.get("cliques"):
        raise ValueError("cliques= gives two lists: ask for a partition of the collection at a time")
    if settings.get("known") is not None:
        raise ValueError("known labels cannot be dealt out to a Dask collection: ask for a partition of it at a time")
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
