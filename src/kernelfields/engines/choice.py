"""Choice of an engine by name, and Dask collections as inputs.

"auto" chooses the torch engine if torch is installed, sees a CUDA device, and the features are large enough for it to
pay; the Dask engine if the data are on a cluster; otherwise the threads of this process. "auto" never chooses torch on
the processor: benchmarks/engines.py of commit 48b1fa7 compares it with our threads.

Dask collections are recognised by the protocol that they share, so that Dask is loaded only by those who use it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from sklearn.utils.validation import check_is_fitted

from kernelfields.numerics.user_warnings import warn_user

if TYPE_CHECKING:
    from kernelfields.engines.engine import Engine


#: Values of features from which a device pays for the import of torch and the start of CUDA, 3 to 5 s: 4 x 10^8 of them
#: were fitted in 0.5 s on an H200 and in 21 s by 16 threads beside it (benchmarks/gpu_fit.py).
MANY_VALUES = 100_000_000

Method = TypeVar("Method", bound=Callable[..., object])


def resolve_engine(engine: object, *, n_values: int = 0) -> Engine:
    """Return the engine of a name, ready for a fit; an engine is returned unchanged.

    ``n_values`` is the number of values of the features.
    """
    from kernelfields.engines.threads import Threads

    chosen = _find_engine(engine, n_values) or Threads()
    chosen.check()
    return chosen


def scoring_engine(engine: object, *, n_values: int = 0) -> Engine | None:
    """Return the engine that scores new data, None for this process; raise if it is not available."""
    chosen = _find_engine(engine, n_values)
    if chosen is not None:
        chosen.check_scoring()
    return chosen


def check_engine(engine: object) -> None:
    """Raise ValueError unless ``engine`` is an engine or the name of one, whether it is available or not."""
    from kernelfields.engines.engine import Engine

    if not isinstance(engine, Engine) and not (isinstance(engine, str) and engine in _BY_NAME):
        raise ValueError(f"engine must be one of {', '.join(map(repr, _BY_NAME))}, or an Engine, got {engine!r}")


def restore_engine(engine: str | Engine) -> str | Engine:
    """Return the engine of a model from a file, or "auto" with a warning if it is not available."""
    try:
        scoring_engine(engine)
    except (ImportError, RuntimeError) as error:
        warn_user(f"engine={engine!r} is not here, 'auto' takes its place: {error}")
        return "auto"
    return engine


def _find_engine(engine: Any, n_values: int) -> Engine | None:
    """Return the engine of a name, None for threads without settings."""
    check_engine(engine)
    return _BY_NAME[engine](n_values) if isinstance(engine, str) else engine


def _auto(n_values: int) -> Engine | None:
    return _torch(n_values) if n_values >= MANY_VALUES and _device_pays() else None


def _threads(n_values: int) -> None:
    return None


def _torch(n_values: int) -> Engine:
    from kernelfields.engines.torch.engine import Torch

    return Torch()


def _dask(n_values: int) -> Engine:
    from kernelfields.engines.dask.engine import Dask

    return Dask()


#: The engines of names, for features of so many values.
_BY_NAME: dict[str, Callable[[int], Engine | None]] = {
    "auto": _auto,
    "threads": _threads,
    "torch": _torch,
    "dask": _dask,
}


def _device_pays() -> bool:
    if find_spec("torch") is None:
        return False
    from kernelfields.engines.torch.engine import has_cuda

    return has_cuda()


@dataclass(frozen=True)
class Partitions:
    """The partitions of a collection in a process: their numbers and contents."""

    numbers: list[int]
    values: list[Any]


def is_collection(X: object) -> bool:
    """Whether X is a Dask collection, a list of Delayed or futures, or partitions of one; loads nothing."""
    if isinstance(X, Partitions):
        return True
    items = X if isinstance(X, list | tuple) else [X]
    return len(items) > 0 and all(map(_is_lazy, items))


def _is_lazy(value: object) -> bool:
    if hasattr(type(value), "__dask_graph__"):
        return value.__dask_graph__() is not None  # type: ignore[attr-defined]
    return type(value).__name__ == "Future" and hasattr(value, "key")


def reads_collections(read: Method) -> Method:
    """Make a reader of labelled data accept Dask collections, too."""

    @wraps(read)
    def reading(self: object, estimator: Any, X: object, y: object, sample_weight: object) -> object:
        if is_collection(X) or is_collection(y):
            return estimator.structure.learn_collection(X, y, sample_weight)
        return read(self, estimator, X, y, sample_weight)

    return reading  # type: ignore[return-value]


def refuse_collections(*values: object, error: Exception) -> None:
    """Raise an error if one of some values is a Dask collection."""
    if any(map(is_collection, values)):
        raise error


def cluster_of_call(engine: object, X: object) -> Engine | None:
    """Return the engine whose workers run a method with inputs X; None for this process."""
    from kernelfields.engines.engine import Engine

    means_workers: dict[str | None, bool] = {"dask": True, "auto": is_collection(X)}
    chosen = _dask(0) if means_workers.get(engine if isinstance(engine, str) else None) else engine
    return chosen.call_engine if isinstance(chosen, Engine) else None


class Travelling(Protocol):
    """An estimator that can be sent to other processes."""

    @property
    def structure(self) -> Any:
        """What the labels of an item are."""

    def _travelling(self) -> Self:
        """Return a copy without attributes that cannot be pickled."""


def answers_collections(method: Method) -> Method:
    """Make a method with one answer for each item of X accept Dask collections, too.

    The answers are a collection again, computed where the partitions of X are.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def answer(self: Travelling, X: object, *arguments: object, **settings: object) -> object:
        if not is_collection(X):
            return method(self, X, *arguments, **settings)
        from kernelfields.engines.dask.collections import map_partitions

        check_is_fitted(self)
        chosen = dict(signature.bind(self, X, *arguments, **settings).arguments)
        del chosen["self"], chosen["X"]
        if chosen.get("cliques"):
            raise ValueError("cliques= gives two lists: ask for a partition of the collection at a time")
        if chosen.get("known") is not None:
            raise ValueError(
                "known labels cannot be dealt out to a Dask collection: ask for a partition of it at a time"
            )
        from kernelfields.data.table_reader import TableReader

        table = issubclass(self.structure.reads, TableReader)
        return map_partitions(partial(getattr(self._travelling(), method.__name__), **chosen), X, table)

    return answer  # type: ignore[return-value]
