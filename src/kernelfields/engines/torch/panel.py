"""Incomplete Cholesky factorisation by panels, as in panel.py, with the columns on a device of PyTorch.

    H = K_PP - Z_P Z_P^T = L L^T,      Z <- [Z, (K_:P - Z Z_P^T) L^-T],      d <- d - rowsums(new^2)

On the device: the inputs (N, d), Z (N, capacity) in float32 or float64, the inputs of the pivots and, beside
float32 columns, the pivots' own rows R (capacity, capacity) in float64. On the host, where bases choose: the
residual d and the floor (N,) in float64, copied once per panel of pivots, and blocks (b, b) of candidates.

Policy, floors and order are those of the panel in memory: with float64 columns the same seed gives the same pivots
where candidates do not tie to within rounding. (They do in the first panel of ``extend`` if k(x, x) varies, since
floors are multiples of k(x, x): the same pivots then may come in another order.) Beside float32 columns, candidates
that are all well above their floors are taken in the order given, and the host sees nothing of them. Products of
float32 columns are as accurate as float32, on CUDA by matrix units (triton_kernels.py); columns and residuals then
agree with those of the kernel to about 1e-5 of the largest k(x, x).

Cost O(N r^2) in matrix products on blocks of rows whose temporaries stay within ``block_bytes``; if the device has
no room for them, smaller ones are tried (rows.py). Too little memory for Z itself is a MemoryError at once.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.engines.torch.rows import (
    Device,
    DeviceRows,
    block_bytes,
    is_out_of_memory,
    map_row_blocks,
    resolve_device,
)
from kernelfields.kernels.arrays import as_rows, on_host
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.rows import row_blocks
from kernelfields.kernels.tensors import float32_products, to_tensor

# Arrays as long as a block of new columns that a step holds at once, counted in float64.
_TEMPORARIES = 5
# Candidates so many times above their floors are taken as they come: their factor is far from ill-conditioned.
_WELL_ABOVE = 100.0


def _choose_product(columns: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]:
    """Return a function that subtracts A B^T from a block: by matrix units for float32 on CUDA, else by the library."""
    if columns.is_cuda and columns.dtype == torch.float32 and find_spec("triton") is not None:
        from kernelfields.engines.torch.triton_kernels import subtract_product

        return subtract_product
    return subtract_plain_product


def subtract_plain_product(block: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Subtract A B^T from a block in place, in its precision."""
    block.addmm_(left, right.T, alpha=-1.0)


class TorchPanel(PanelCholesky):
    """A growing factor Z of the Gram matrix of ``inputs`` (N, d), its columns on ``device``.

    ``inputs`` are an array, a CSR matrix or a tensor; they stay as given in ``inputs``, and ``rows`` are those on
    the device. ``device`` None is that of a tensor, else CUDA where it is available, else the processor.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Any,
        capacity: int,
        dtype: DTypeLike = np.float64,
        device: Device = None,
        *,
        block_bytes: int | None = None,
    ):
        self.kernel: Any = kernel
        self.inputs = inputs
        self.dtype = np.dtype(dtype)
        self.device = resolve_device(device, inputs)
        self._keeps_factor = self.dtype != np.float64
        self._block_bytes = block_bytes
        self._step = inputs.shape[0]
        self._allocate(min(capacity, inputs.shape[0]))
        self._begin(self._kernel_diagonal())

    def _allocate(self, capacity: int) -> None:
        """Put the inputs on the device and allocate the memory of Z; MemoryError with its size."""
        n_rows = self.inputs.shape[0]
        dtype = torch.float64 if self.dtype == np.float64 else torch.float32
        factor_size = capacity if self._keeps_factor else 0
        try:
            self.rows = DeviceRows(self.inputs, self.device)
            self._tensor = torch.empty((n_rows, capacity), dtype=dtype, device=self.device)
            self._pivot_rows = self.rows[:0].new_empty((capacity, self.rows.shape[1]))
            self._wide_factor = torch.zeros((factor_size,) * 2, dtype=torch.float64, device=self.device)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            needed = n_rows * capacity * self.dtype.itemsize + 8 * factor_size**2
            raise MemoryError(
                f"features of {n_rows:,} inputs at rank {capacity:,} need {needed / 2**30:,.1f} GiB in "
                f"{self.dtype} on {self.device}, which has less. Use a smaller rank, dtype='float32', or "
                f"engine='threads'. PyTorch's message: {error}"
            ) from error

    def _value_dtype(self) -> np.dtype:
        """Return the precision of kernel values on the device."""
        return on_host(self.kernel(self.rows[:1], self.rows[:1])).dtype

    def _kernel_diagonal(self) -> np.ndarray:
        n_rows, n_columns = self.rows.shape
        diagonal = np.empty(n_rows)

        def fill(rows: slice) -> None:
            diagonal[rows] = on_host(self.kernel.diag(self.rows[rows]))

        map_row_blocks(n_rows, self._rows_at_once(n_columns), fill, "the diagonal of the Gram matrix")
        return diagonal

    def _rows_at_once(self, n_columns: int) -> int:
        budget = self._block_bytes or block_bytes(self.device)
        return max(1, budget // max(1, 8 * _TEMPORARIES * n_columns + self.rows.dense_bytes))

    @property
    def capacity(self) -> int:
        """Largest number of columns."""
        return self._tensor.shape[1]

    @property
    def features(self) -> torch.Tensor:
        """The (N, rank) whitened features of the inputs on the device, a view."""
        return self._tensor[:, : self.rank]

    @property
    def factor(self) -> np.ndarray:
        """The pivots' own rows of Z in float64, (rank, rank) lower: a copy on the host."""
        if self._keeps_factor:
            return on_host(self._wide_factor[: self.rank, : self.rank].contiguous())
        return np.tril(on_host(self.features[self._index(self.pivots)]))

    def _index(self, rows: np.ndarray) -> torch.Tensor:
        return to_tensor(rows, self.device)

    def residual_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the residual K - Z Z^T among some of the inputs, in float64 on the host."""
        return on_host(self._device_block(rows, self._device_features(rows)))

    def _device_block(self, rows: np.ndarray, features: torch.Tensor) -> torch.Tensor:
        """Return the residual block on the device, for the features z(x) of the inputs."""
        inputs = self.rows[rows].to(torch.float64)
        return self.kernel(inputs, inputs).to(torch.float64) - features @ features.T

    def extend(self, candidates: np.ndarray) -> int:
        """Add the candidates outside the span; return their number."""
        candidates = np.asarray(candidates, dtype=np.int64)[: self.capacity - self.rank]
        if self._keeps_factor and len(candidates) > 1:
            features = self._device_features(candidates)
            factor, failed = torch.linalg.cholesky_ex(self._device_block(candidates, features))
            lowest = _WELL_ABOVE * to_tensor(self.floor[candidates], self.device)
            if bool((failed == 0) & (factor.diagonal().square() > lowest).all()):
                self._append(candidates, features, factor)
                return len(candidates)
        return super().extend(candidates)

    def _device_features(self, rows: np.ndarray) -> torch.Tensor:
        """Return z(x) of a few inputs in float64, (n, rank), on the device."""
        if not self._keeps_factor:
            return self.features[self._index(rows)]
        inputs = self.rows[rows].to(torch.float64)
        block = torch.empty((self.rank, len(rows)), dtype=torch.float64, device=self.device)
        for some in row_blocks(self.rank, self.rows.shape[1], budget=block_bytes(self.device)):
            block[some] = self.kernel(self._pivot_rows[some].to(torch.float64), inputs)
        factor = self._wide_factor[: self.rank, : self.rank]
        return torch.linalg.solve_triangular(factor, block, upper=False).T

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots whose residual block has the lower Cholesky factor ``local_factor``."""
        if len(pivots) > 0:
            factor = to_tensor(local_factor, self.device, torch.float64)
            self._append(pivots, self._device_features(pivots), factor)

    def _append(self, pivots: np.ndarray, wide_features: torch.Tensor, local_factor: torch.Tensor) -> None:
        begin, end = self.rank, self.rank + len(pivots)
        inputs = self.rows[pivots]
        decrease = self._fill_columns(inputs, wide_features, local_factor)
        if not np.all(np.isfinite(decrease)):
            raise ValueError(f"{self.kernel!r} returned values that are not finite")
        self._pivot_rows[begin:end] = inputs
        if self._keeps_factor:
            self._wide_factor[begin:end, :begin] = wide_features
            self._wide_factor[begin:end, begin:end] = local_factor
        self.residual -= decrease
        self._add(pivots)

    def _fill_columns(
        self, inputs: torch.Tensor, wide_features: torch.Tensor, local_factor: torch.Tensor
    ) -> np.ndarray:
        """Write the columns of new pivots, block by block, and return the row sums of their squares."""
        size, n_rows = len(inputs), self.rows.shape[0]
        begin, end = self.rank, self.rank + size
        dtype = self._tensor.dtype
        identity = torch.eye(size, dtype=torch.float64, device=self.device)
        # Negative: the one product there is takes its result away.
        inverse = torch.linalg.solve_triangular(-local_factor, identity, upper=False).to(dtype).contiguous()
        narrow = wide_features.to(dtype).contiguous()
        decrease = torch.empty(n_rows, dtype=torch.float64, device=self.device)

        def fill(rows: slice) -> None:
            block = self.kernel(self.rows[rows], inputs).to(dtype).contiguous()
            subtract_product(block, self._tensor[rows, :begin], narrow)
            columns = torch.zeros_like(block)
            subtract_product(columns, block, inverse)
            self._tensor[rows, begin:end] = columns
            decrease[rows] = torch.linalg.vector_norm(columns, dim=1, dtype=torch.float64).square_()

        subtract_product = _choose_product(self._tensor)
        step = min(self._step, self._rows_at_once(size))
        with float32_products():
            reached = map_row_blocks(n_rows, step, fill, f"the columns of rank {end:,} of {self.capacity:,}")
        if reached < min(step, n_rows):
            self._step = reached  # what did not fit once is not tried again
        return on_host(decrease)

    def subspace(self) -> PivotSubspace:
        """Return the subspace spanned by the pivots, in arrays of NumPy, able to score new inputs."""
        pivots = as_rows(self.inputs)[self.pivots]
        return PivotSubspace(self.kernel, on_host(pivots), self.factor, self.number_rows(self.pivots))

    def candidate_scores(self, candidates: np.ndarray, residuals: np.ndarray | torch.Tensor) -> np.ndarray:
        """Return ||(K - Z Z^T)_j R||^2 / d_j, see basis/gradient.py, for residuals R (N, q), an array or a tensor."""
        residuals = to_tensor(residuals, self.device, torch.float64)
        size, features, inputs = (len(candidates), residuals.shape[1]), self.features, self.rows[candidates]
        projected = torch.zeros(size, dtype=torch.float64, device=self.device)
        inside = torch.zeros((self.rank, size[1]), dtype=torch.float64, device=self.device)

        def add(rows: slice) -> None:
            products = self.kernel(inputs, self.rows[rows]).to(torch.float64) @ residuals[rows]
            span = (features[rows].T @ residuals[rows].to(features.dtype)).to(torch.float64)
            projected.add_(products)
            inside.add_(span)

        with float32_products():
            map_row_blocks(self.rows.shape[0], self._rows_at_once(size[0]), add, "scores of candidates")
        projected -= features[self._index(candidates)].to(torch.float64) @ inside
        left = np.maximum(self.residual[candidates], self.floor[candidates])
        return on_host(projected.square().sum(dim=1)) / left
