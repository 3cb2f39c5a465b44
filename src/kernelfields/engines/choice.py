"""Which engine a name stands for, and which one "auto" takes.

"auto" takes the torch engine where a device is named, or where torch is installed, sees a CUDA device, and the
features are large enough to be worth the way there; else the threads of this process. torch on the processor is
never taken by itself: benchmarks/engines.py compares it with our threads.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from kernelfields.engines.engine import Engine, Threads

NAMES = ("auto", "threads", "torch", "dask")
# Values of features from which a device pays for the import of torch and the start of CUDA, some seconds.
_LARGE = 100_000_000


def resolve_engine(engine: Any, *, device: Any = None, memory: Any = None, n_values: int = 0) -> Engine:
    """Turn a name into an engine that can run here; an engine is returned as it is.

    ``device`` is for torch and ``memory`` for threads; ``n_values`` is how many values the features will have.
    """
    if isinstance(engine, Engine):
        if device is not None or memory is not None:
            raise ValueError(
                f"engine={engine!r} has settings of its own: give it device or memory, not the estimator"
            )
        chosen = engine
    elif not isinstance(engine, str) or engine not in NAMES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, NAMES))}, or an Engine, got {engine!r}")
    else:
        chosen = _named(engine, device, memory, n_values)
    chosen.check()
    return chosen


def _named(engine: str, device: Any, memory: Any, n_values: int) -> Engine:
    if device is not None and engine not in ("auto", "torch"):
        raise ValueError(f"device={device!r} is for engine='torch', got engine={engine!r}")
    if engine == "torch" or (engine == "auto" and (device is not None or _device_pays(n_values, memory))):
        if memory is not None:
            raise ValueError("memory is a budget for engine='threads': a device has the memory it has")
        from kernelfields.engines.torch_engine import Torch

        return Torch(device)
    if engine == "dask":
        if memory is not None:
            raise ValueError("memory is a budget for engine='threads': set the memory of Dask workers in Dask")
        from kernelfields.engines.dask_engine import Dask

        return Dask()
    return Threads(memory=memory)


def _device_pays(n_values: int, memory: Any) -> bool:
    if n_values < _LARGE or memory is not None or find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()
