"""Rows of a panel that the worker of a cluster keeps on a device of PyTorch: engines/torch/panel.py, in shards."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.data.reading import Matrix
from kernelfields.engines.dask.shard_panel import ShardRows
from kernelfields.engines.torch.panel import TorchPanel
from kernelfields.engines.torch.rows import Device, DeviceRows
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.tensors import tensor_from


class DeviceShardPanel(ShardRows, TorchPanel):
    """Rows of a panel on a device; their number may be less than that of the columns."""

    def __init__(
        self,
        kernel: Kernel,
        inputs: Matrix,
        capacity: int,
        dtype: DTypeLike,
        largest: float,
        first_row: int,
        device: Device,
    ):
        self._room = capacity
        TorchPanel.__init__(self, kernel, inputs, capacity, dtype, device)
        self._begin_at(first_row, largest)

    def _allocate(self, capacity: int) -> None:
        super()._allocate(self._room)

    def _add_columns(self, inputs: Matrix, wide_features: np.ndarray, local_factor: np.ndarray) -> None:
        rows = DeviceRows(inputs, self.device)[:]
        wide = (tensor_from(each, self.device, self._wide_factor.dtype) for each in (wide_features, local_factor))
        self.residual -= self._fill_columns(rows, *wide)
