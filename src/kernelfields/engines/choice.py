"""Choice of an engine by name, and Dask collections as inputs.

"auto" chooses the torch engine if torch is installed, sees a CUDA device, and the features are large enough for it to
pay, also for the steps of the longest chain, which a device takes one after the other; the Dask engine if the data are
on a cluster; otherwise the threads of this process (named.py). "auto" never chooses torch on the processor, where our
threads are faster (docs/engines.md).

Dask collections are recognised by the protocol that they share, so that Dask is loaded only by those who use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from kernelfields import engines
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


def runs_here(engine: object, n_values: int) -> bool:
    """Whether an engine, or the name of one, means the threads of this process, without settings."""
    return isinstance(engine, str) and (engine == "threads" or (engine == "auto" and n_values < MANY_VALUES))


def resolve_engine(engine: object, *, n_values: int = 0) -> Engine:
    """Return the engine of a name, ready for a fit; an engine is returned unchanged.

    ``n_values`` is the number of values of the features.
    """
    if runs_here(engine, n_values):
        return engines.Threads()
    from kernelfields.engines.named import find_engine

    chosen = find_engine(engine)
    if chosen is None:
        return engines.Threads()
    chosen.check()
    return chosen


def resolve_scoring_engine(engine: object, *, n_values: int = 0) -> Engine | None:
    """Return the engine that scores new data, None for this process; raise if it is not available."""
    if runs_here(engine, n_values):
        return None
    from kernelfields.engines.named import find_engine

    chosen = find_engine(engine)
    if chosen is not None:
        chosen.check_scoring()
    return chosen


def restore_engine(engine: str | Engine) -> str | Engine:
    """Return the engine of a loaded model, or "auto" with a warning if it is not available."""
    try:
        resolve_scoring_engine(engine)
    except (ImportError, RuntimeError) as error:
        warn_user(f"engine={engine!r} is not here, 'auto' takes its place: {error}")
        return "auto"
    return engine


@dataclass(frozen=True)
class Partitions:
    """The partitions of a collection in a process: their indices and contents."""

    numbers: list[int]
    values: list[Any]


def is_collection(X: object) -> bool:
    """Whether X is a Dask collection, a list of Delayed or futures, or partitions of one; loads nothing."""
    if isinstance(X, Partitions):
        return True
    items: Any = X if isinstance(X, list | tuple) else [X]
    return len(items) > 0 and all(
        value.__dask_graph__() is not None
        if hasattr(type(value), "__dask_graph__")
        else type(value).__name__ == "Future" and hasattr(value, "key")
        for value in items
    )


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


def accept_collections_by_item(method: Method) -> Method:
    """Make a method with one answer for each item of X accept Dask collections, too.

    The answers are a collection again, computed where the partitions of X are.
    """

    @wraps(method)
    def answer(self: Any, X: object, *arguments: object, **settings: object) -> object:
        if not is_collection(X):
            return method(self, X, *arguments, **settings)
        from kernelfields.engines.dask.collections import answer_by_partition

        return answer_by_partition(method, self, X, arguments, settings)

    return answer  # type: ignore[return-value]
