"""Methods of estimators that run where the engine says: in this process, or elsewhere (on_cluster.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from kernelfields.engines.choice import is_collection

Method = TypeVar("Method", bound=Callable[..., Any])
# Names of engines that run in this process, unless the data lie elsewhere.
_HERE = ("auto", "threads", "torch")


def distribute_method(method: Method) -> Method:
    """Make a method that places data run elsewhere if the engine of its estimator, or the data, lie there."""

    @wraps(method)
    def run(self: Any, X: object, *arguments: Any, **settings: Any) -> Any:
        engine = getattr(self, "engine", None)
        if isinstance(engine, str) and engine in _HERE and not any(map(is_collection, (X, *arguments[:1]))):
            return method(self, X, *arguments, **settings)
        from kernelfields.estimators.on_cluster import run_elsewhere

        return run_elsewhere(method, self, (X, *arguments), settings)

    return run  # type: ignore[return-value]
