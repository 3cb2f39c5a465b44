"""Methods of estimators that run on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from kernelfields.engines.choice import cluster_of_call, is_collection

if TYPE_CHECKING:
    from kernelfields.engines.dask.engine import Dask

Method = TypeVar("Method", bound=Callable[..., Any])


def distribute_method(method: Method) -> Method:
    """Make a method that places data run on all workers, if the estimator has a cluster for its engine."""

    @wraps(method)
    def run(self: Any, X: object, *arguments: Any, **settings: Any) -> Any:
        cluster = get_cluster(self, X, *arguments[:1])
        if cluster is None:
            return method(self, X, *arguments, **settings)
        from kernelfields.estimators.on_cluster import run_on_workers

        return run_on_workers(cluster, self, method.__name__, (X, *arguments), settings)

    return run  # type: ignore[return-value]


def get_cluster(estimator: Any, X: object, y: object = None) -> Dask | None:
    """Return the cluster of an estimator; None for this process and for workers.

    This is where a fit learns that its data are Dask collections: workers get their partitions.
    """
    engine = getattr(estimator, "engine", None)
    if engine is None:
        nested = getattr(estimator, "estimator", None)
        # Estimators around a field read no collections, and refuse them in this process.
        return None if nested is None or is_collection(X) or is_collection(y) else get_cluster(nested, X, y)
    return cluster_of_call(engine, X, y)
