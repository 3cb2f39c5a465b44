"""Engines by name beside the threads of this process: a device where one pays, the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from kernelfields import engines
from kernelfields.engines.engine import Engine


def check_engine(engine: object) -> None:
    """Raise ValueError unless ``engine`` is an engine or the name of one, available or not."""
    if not isinstance(engine, Engine) and not (isinstance(engine, str) and engine in _BY_NAME):
        raise ValueError(f"engine must be one of {', '.join(map(repr, _BY_NAME))}, or an Engine, got {engine!r}")


def find_engine(engine: Any) -> Engine | None:
    """Return the engine of a name for large features, None for threads without settings; an engine unchanged."""
    check_engine(engine)
    return _BY_NAME[engine]() if isinstance(engine, str) else engine


def _auto() -> Engine | None:
    return engines.Torch() if _device_pays() else None


def _threads() -> None:
    return None


def _torch() -> Engine:
    return engines.Torch()


def _dask() -> Engine:
    return engines.Dask()


#: The engines of names, for large features.
_BY_NAME: dict[str, Callable[[], Engine | None]] = {
    "auto": _auto,
    "threads": _threads,
    "torch": _torch,
    "dask": _dask,
}


def _device_pays() -> bool:
    """Whether torch is installed and sees a CUDA device."""
    if find_spec("torch") is None:
        return False
    from kernelfields.engines.torch.engine import has_cuda

    return has_cuda()
