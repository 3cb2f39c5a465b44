"""Choice of an engine by name, and Dask collections as inputs.

"auto" chooses the torch engine if torch is installed, sees a CUDA device, and the features are large enough for it to
pay, also for the steps of the longest chain, which a device takes one after the other; the Dask engine if the data are
on a cluster; otherwise the threads of this process. "auto" never chooses torch on the processor, where our threads are
faster (docs/engines.md).

Dask collections are recognised by the protocol that they share, so that Dask is loaded only by those who use it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch, wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from sklearn.utils.validation import check_is_fitted

from kernelfields.numerics.user_warnings import warn_user

if TYPE_CHECKING:
    from kernelfields.engines.engine import Engine


#: Values of features from which a device pays for the import of torch and the start of CUDA, a few seconds;
#: docs/engines.md has the times of fits on both.
MANY_VALUES = 100_000_000
#: Values of features whose products save on a device what a step of its longest chain costs there: a fit of about 60
#: passes forward and backward takes 2 microseconds for each step, and 8,000 values on threads a quarter millisecond.
VALUES_PER_STEP = 8_000

Method = TypeVar("Method", bound=Callable[..., object])
#: Reader, labelled data and sorted classes.
Learnt = TypeVar("Learnt")


def resolve_engine(engine: object, *, n_values: int = 0) -> Engine:
    """Return the engine of a name, ready for a fit; an engine is returned unchanged.

    ``n_values`` is the number of values of the features.
    """
    from kernelfields.engines.threads import Threads

    chosen = _find_engine(engine, n_values)
    if chosen is None:
        return Threads()
    chosen.check()
    return chosen


def resolve_scoring_engine(engine: object, *, n_values: int = 0) -> Engine | None:
    """Return the engine that scores new data, None for this process; raise if it is not available."""
    chosen = _find_engine(engine, n_values)
    if chosen is not None:
        chosen.check_scoring()
    return chosen


def check_engine(engine: object) -> None:
    """Raise ValueError unless ``engine`` is an engine or the name of one, available or not."""
    from kernelfields.engines.engine import Engine

    if not isinstance(engine, Engine) and not (isinstance(engine, str) and engine in _BY_NAME):
        raise ValueError(f"engine must be one of {', '.join(map(repr, _BY_NAME))}, or an Engine, got {engine!r}")


def restore_engine(engine: str | Engine) -> str | Engine:
    """Return the engine of a loaded model, or "auto" with a warning if it is not available."""
    try:
        resolve_scoring_engine(engine)
    except (ImportError, RuntimeError) as error:
        warn_user(f"engine={engine!r} is not here, 'auto' takes its place: {error}")
        return "auto"
    return engine


def _find_engine(engine: Any, n_values: int) -> Engine | None:
    """Return the engine of a name, None for threads without settings."""
    if isinstance(engine, str) and engine in _BY_NAME:
        return _BY_NAME[engine](n_values)
    check_engine(engine)
    return engine


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
    """The partitions of a collection in a process: their indices and contents."""

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


@singledispatch
def learn_labelled(X: object, y: object, sample_weight: object, structure: Any, learn: Callable[..., Learnt]) -> Learnt:
    """Return reader, labelled data and sorted classes, which ``learn`` finds in data of this process."""
    return learn(X, y, sample_weight)


@learn_labelled.register
def _(X: Partitions, y: object, sample_weight: object, structure: Any, learn: Callable[..., Learnt]) -> Learnt:
    return structure.learn_collection(X, y, sample_weight)


def refuse_collections(*values: object, error: Exception) -> None:
    """Raise an error if one of some values is a Dask collection."""
    if any(map(is_collection, values)):
        raise error


def cluster_of_call(engine: object, *values: object) -> Engine | None:
    """Return the engine whose workers run a method with some values; None for this process.

    ValueError for values that are Dask collections if the engine is not that of a cluster.
    """
    from kernelfields.engines.engine import Engine

    has_collections = any(map(is_collection, values))
    if has_collections and getattr(engine, "name", engine) not in ("auto", "dask"):
        raise ValueError(
            f"X is a Dask collection: use engine='dask' or 'auto', or pass X.compute(), got engine={engine!r}"
        )
    means_workers: dict[str | None, bool] = {"dask": True, "auto": has_collections}
    chosen = _dask(0) if means_workers.get(engine if isinstance(engine, str) else None) else engine
    return chosen.call_engine if isinstance(chosen, Engine) else None


class Travelling(Protocol):
    """An estimator that can be sent to other processes."""

    @property
    def structure(self) -> Any:
        """The structure of the labels of an item."""

    def _picklable(self) -> Self:
        """Return a copy without attributes that cannot be pickled."""


def accept_collections_by_item(method: Method) -> Method:
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
        return map_partitions(partial(getattr(self._picklable(), method.__name__), **chosen), X, table)

    return answer  # type: ignore[return-value]
