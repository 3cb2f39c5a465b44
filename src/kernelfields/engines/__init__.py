"""Engines: the threads of this process, a torch device, a Dask cluster."""

from kernelfields.engines.dask.engine import Dask
from kernelfields.engines.engine import Engine, Sample, SampleSettings
from kernelfields.engines.threads import Threads
from kernelfields.engines.torch.engine import Torch

__all__ = ["Dask", "Engine", "Sample", "SampleSettings", "Threads", "Torch"]
