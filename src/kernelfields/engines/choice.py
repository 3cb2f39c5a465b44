"""Choice of an engine by name, and collections that lie with one.

"auto" takes the torch engine where torch is installed, sees a CUDA device, and the features are large enough to be
worth the way there; the cluster, where the data are there; else the threads of this process. torch on the processor
is never taken by itself: benchmarks/engines.py compares it with our threads.

Collections of Dask are known by the protocol that they share, so that Dask is loaded by those alone who use it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any, TypeVar

from kernelfields.engines.engine import Engine
from kernelfields.engines.threads import Threads

NAMES = ("auto", "threads", "torch", "dask")
# Values of features from which a device pays for the import of torch and the start of CUDA, some seconds.
_LARGE = 100_000_000

Method = TypeVar("Method", bound=Callable[..., Any])


def resolve_engine(engine: Any, *, n_values: int = 0, data: Any = None) -> Engine:
    """Turn a name into an engine that can run a fit here; an engine is returned as it is.

    ``n_values`` is how many values the features will have. Data that lie with an engine name it in ``lie_with``.
    """
    chosen = _named(engine, n_values, getattr(data, "lie_with", None)) or Threads()
    chosen.check()
    return chosen


def scoring_engine(engine: Any, *, n_values: int = 0, data: Any = None) -> Engine | None:
    """Return where new data are scored, None for this process; ImportError and the like if that is not here."""
    chosen = _named(engine, n_values, getattr(data, "lie_with", None))
    if chosen is not None:
        chosen.check_scoring()
    return chosen


def check_engine(engine: Any) -> None:
    """Raise ValueError unless ``engine`` is an engine or the name of one, whether it is here or not."""
    if not isinstance(engine, Engine) and not (isinstance(engine, str) and engine in NAMES):
        raise ValueError(f"engine must be one of {', '.join(map(repr, NAMES))}, or an Engine, got {engine!r}")


def engine_here(engine: Any) -> Any:
    """Return the engine of a model that was read from a file; "auto", with a warning, if it is not here."""
    try:
        scoring_engine(engine)
    except (ImportError, RuntimeError) as error:
        warnings.warn(f"engine={engine!r} is not here, 'auto' takes its place: {error}", stacklevel=3)
        return "auto"
    return engine


def _named(engine: Any, n_values: int, lie_with: str | None) -> Engine | None:
    """Return the engine of a name, None for threads with nothing to be said of them."""
    check_engine(engine)
    if isinstance(engine, Engine):
        chosen: Engine | None = engine
    else:
        name = lie_with if engine == "auto" and lie_with is not None else engine
        chosen = None
        if name == "torch" or (name == "auto" and _device_pays(n_values)):
            from kernelfields.engines.torch.engine import Torch

            chosen = Torch()
        elif name == "dask":
            from kernelfields.engines.dask.engine import Dask

            chosen = Dask()
    if lie_with is not None and (chosen is None or chosen.name != lie_with):
        raise ValueError(f"X is a Dask collection: use engine='dask' or 'auto', got engine={engine!r}")
    return chosen


def _device_pays(n_values: int) -> bool:
    if n_values < _LARGE or find_spec("torch") is None:
        return False
    from kernelfields.engines.torch.engine import cuda_is_there

    return cuda_is_there()


def is_collection(X: Any) -> bool:
    """Whether X is a Dask collection, or a list of Delayed or of futures; loads nothing."""
    items = X if isinstance(X, list | tuple) else [X]
    return len(items) > 0 and all(map(_is_lazy, items))


def _is_lazy(value: Any) -> bool:
    if hasattr(type(value), "__dask_graph__"):
        return value.__dask_graph__() is not None
    return type(value).__name__ == "Future" and hasattr(value, "key")


def answers_collections(method: Method) -> Method:
    """Let a method of one answer for each sequence of X take Dask collections of sequences as well."""
    signature = inspect.signature(method)

    @wraps(method)
    def answer(self: Any, X: Any, *arguments: Any, **settings: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *arguments, **settings)
        from kernelfields.engines.dask.prediction import predict_collection

        given = dict(signature.bind(self, X, *arguments, **settings).arguments)
        del given["self"], given["X"]
        return predict_collection(self, X, method.__name__, **given)

    return answer  # type: ignore[return-value]
