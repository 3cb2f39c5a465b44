from kernelfields.engines.dask.engine import Dask as Dask
from kernelfields.engines.engine import Engine as Engine, SampleSettings as SampleSettings
from kernelfields.engines.threads import Threads as Threads
from kernelfields.engines.torch.engine import Torch as Torch
