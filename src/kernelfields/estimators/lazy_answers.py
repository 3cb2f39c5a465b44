"""Methods that answer Dask collections with collections; Dask is not loaded where nobody has."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def is_dask_collection(X: Any) -> bool:
    """Whether X lies in a Dask collection."""
    if "dask" not in sys.modules:
        return False
    from kernelfields.estimators import dask_data

    return dask_data.is_dask_collection(X)


def answers_collections(method: Method) -> Method:
    """Let a method of one answer for each sequence of X take Dask collections of sequences as well."""
    signature = inspect.signature(method)

    @wraps(method)
    def answer(self: Any, X: Any, *arguments: Any, **settings: Any) -> Any:
        if not is_dask_collection(X):
            return method(self, X, *arguments, **settings)
        from kernelfields.estimators.dask_prediction import predict_collection

        given = dict(signature.bind(self, X, *arguments, **settings).arguments)
        del given["self"], given["X"]
        return predict_collection(self, X, method.__name__, **given)

    return answer  # type: ignore[return-value]
