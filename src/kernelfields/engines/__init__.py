"""Engines: the threads of this process, a torch device, a Dask cluster."""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.engines.dask.engine import Dask
    from kernelfields.engines.engine import Engine, Sample, SampleSettings
    from kernelfields.engines.threads import Threads
    from kernelfields.engines.torch.engine import Torch

__all__ = ["Dask", "Engine", "Sample", "SampleSettings", "Threads", "Torch"]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "dask.engine": ["Dask"],
        "engine": ["Engine", "Sample", "SampleSettings"],
        "threads": ["Threads"],
        "torch.engine": ["Torch"],
    },
)
