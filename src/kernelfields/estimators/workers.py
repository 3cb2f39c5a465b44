"""Which methods of estimators run on the workers of a cluster, and where that is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from kernelfields.engines.choice import cluster_of_call

if TYPE_CHECKING:
    from kernelfields.engines.dask.engine import Dask

Method = TypeVar("Method", bound=Callable[..., Any])


def runs_on_workers(method: Method) -> Method:
    """Let a method that places data run on all workers of a cluster where the estimator has one for its engine."""

    @wraps(method)
    def run(self: Any, X: object, *arguments: Any, **settings: Any) -> Any:
        cluster = cluster_of(self, X)
        if cluster is None:
            return method(self, X, *arguments, **settings)
        from kernelfields.estimators.on_cluster import launched

        return launched(cluster, self, method.__name__, (X, *arguments), settings)

    return run  # type: ignore[return-value]


def cluster_of(estimator: Any, X: object) -> Dask | None:
    """Return the cluster on which an estimator runs; None for this process, and on a worker of one."""
    engine = getattr(estimator, "engine", None)
    if engine is None:
        nested = getattr(estimator, "estimator", None)
        return None if nested is None else cluster_of(nested, X)
    return cluster_of_call(engine, X)
