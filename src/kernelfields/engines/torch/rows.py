"""Rows of inputs on a device, and work on blocks of rows that shrink if memory runs out.

:class:`DeviceExpansion` scores new inputs with a kernel expansion, k(x, B) alpha, on a device: O(n r (d + q)).
:class:`DeviceRows` holds dense inputs as one tensor; of a CSR matrix it holds indices and values, and makes the
rows dense, zeros included, only for the block that is read: (rows, d) values at a time.

``map_row_blocks`` starts with blocks that fit a number of bytes. Where the device still has no room, blocks are
halved until they are a few rows; then it is a MemoryError, since what is missing is not the room for blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch

from kernelfields.basis.subspace import Expansion, PivotSubspace
from kernelfields.data.reading import Matrix
from kernelfields.kernels.arrays import as_rows
from kernelfields.kernels.rows import row_blocks
from kernelfields.kernels.tensors import to_tensor
from kernelfields.numerics.sparse_rows import SparseRows

#: A device, or its name; None for the usual one.
Device: TypeAlias = "str | torch.device | None"

# Temporaries of a block of rows: caches hold a few megabytes, and a device is only busy with many rows.
_BLOCK_BYTES = {"cpu": 64 * 2**20, "cuda": 2**30}
_SMALLEST_BLOCK = 256
# Columns of a triangular matrix that are multiplied at once: zeros behind them are left out.
_TRIANGLE = 512


def resolve_device(device: Device, inputs: object) -> torch.device:
    """Return the named device, else the device of the inputs if they are a tensor, else CUDA if available."""
    if device is not None:
        return torch.device(device)
    if isinstance(inputs, torch.Tensor):
        return inputs.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def block_bytes(device: torch.device) -> int:
    """Return the bytes for the temporaries of one block."""
    return _BLOCK_BYTES.get(device.type, _BLOCK_BYTES["cuda"])


class DeviceRows:
    """Inputs (N, d) on a device, float32 or float64; ``rows[a:b]`` and ``rows[indices]`` are dense tensors there.

    ``dtype`` is that of NumPy. The values are copied unless they are on the device already.
    """

    def __init__(self, inputs: Matrix | torch.Tensor, device: torch.device):
        rows = as_rows(inputs)
        self.shape: tuple[int, int] = (rows.shape[0], rows.shape[1])
        self.device = device
        self._host: SparseRows | None = None
        if isinstance(rows, np.ndarray | torch.Tensor):
            self._values = to_tensor(rows, device)
        else:
            self._host = rows
            self._columns = to_tensor(rows.indices, device)
            self._counts = to_tensor(np.diff(rows.indptr), device)
            self._values = to_tensor(rows.data, device)
        self.dtype = np.dtype(str(self._values.dtype).removeprefix("torch."))

    @property
    def dense_bytes(self) -> int:
        """Bytes of one row in a block, beyond its stored form."""
        return 0 if self._host is None else self.shape[1] * (self.dtype.itemsize + 1)

    def __getitem__(self, rows: slice | np.ndarray) -> torch.Tensor:
        if isinstance(rows, slice):
            return self._values[rows] if self._host is None else self._dense_run(*rows.indices(self.shape[0])[:2])
        if self._host is not None:
            return to_tensor(self._host[rows].toarray(), self.device)
        return self._values[to_tensor(rows, self.device)]

    def _dense_run(self, begin: int, end: int) -> torch.Tensor:
        assert self._host is not None
        n_rows, n_columns = max(0, end - begin), self.shape[1]
        first, last = int(self._host.indptr[begin]), int(self._host.indptr[max(begin, end)])
        starts = torch.arange(n_rows, device=self.device) * n_columns
        # With its size known beforehand, nothing has to wait for the device.
        where = starts.repeat_interleave(self._counts[begin:end], output_size=last - first)
        dense = torch.zeros(n_rows * n_columns, dtype=self._values.dtype, device=self.device)
        dense[where + self._columns[first:last]] = self._values[first:last]
        return dense.view(n_rows, n_columns)


class DeviceExpansion:
    """The kernel expansion k(x, B) alpha on a device: with pivots B (r, d) and dual coefficients alpha (r, q).

    Products with alpha are in float64: its entries may be large and cancel. Sparse pivots are kept sparse, and made
    dense for each call.
    """

    def __init__(self, expansion: Expansion, device: torch.device):
        subspace = expansion.subspace
        self._device, self._rank, self._kernel = device, subspace.rank, subspace.kernel
        self._dual = _solve_dual(expansion, device)
        self._pivots = DeviceRows(subspace.pivots, device)
        self._kernel_rows = self._kernel.towards(self._pivots[:]) if self._pivots.dense_bytes == 0 else None

    def scores(self, inputs: Matrix, max_bytes: int | None = None) -> np.ndarray:
        """Return k(x, B) alpha, (n, q) on the host; blocks of rows take ``max_bytes``, or suit the device."""
        values = np.zeros((inputs.shape[0], self._dual.shape[1]))

        def keep(rows: slice, block: torch.Tensor) -> None:
            values[rows] = block.cpu().numpy()

        self._by_blocks(inputs, keep, max_bytes)
        return values

    def device_scores(self, inputs: Matrix, max_bytes: int | None = None) -> torch.Tensor:
        """Return k(x, B) alpha as a tensor on the device."""
        values = self._dual.new_zeros(inputs.shape[0], self._dual.shape[1])
        self._by_blocks(inputs, values.__setitem__, max_bytes)
        return values

    def _by_blocks(self, inputs: Matrix, keep: Callable[[slice, torch.Tensor], None], max_bytes: int | None) -> None:
        if self._rank == 0:
            return
        n_rows, rows_there = inputs.shape[0], DeviceRows(inputs, self._device)
        kernel_rows = self._kernel_rows or self._kernel.towards(self._pivots[:])

        def fill(rows: slice) -> None:
            values: Any = kernel_rows(rows_there[rows])
            keep(rows, values.to(torch.float64) @ self._dual)

        step = (max_bytes or block_bytes(self._device)) // (40 * self._rank + rows_there.dense_bytes)
        map_row_blocks(n_rows, step, fill, f"scores of new inputs at rank {self._rank:,}")


def device_expansion(expansion: Expansion, device: torch.device) -> DeviceExpansion:
    """Return an expansion on a device, copied there once."""
    if device not in expansion.placed:
        expansion.placed[device] = DeviceExpansion(expansion, device)
    return expansion.placed[device]


def _solve_dual(expansion: Expansion, device: torch.device) -> torch.Tensor:
    """Return R^-T V, solved on a device if R fits in its memory, else on the host."""
    if device.type != "cpu":
        try:
            factor = to_tensor(np.asarray(expansion.subspace.factor), device, torch.float64)
            return torch.linalg.solve_triangular(
                factor.T, to_tensor(expansion.coefficients, device, torch.float64), upper=True
            )
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
    return to_tensor(expansion.dual, device, torch.float64)


class SubspaceRows:
    """Features R^-1 k(B, x) of inputs in an existing subspace, computed on access.

    ``rows[a:b]`` is a tensor (b - a, r) on the device; ``largest`` bounds its magnitudes.
    """

    def __init__(self, subspace: PivotSubspace, inputs: Matrix, device: torch.device, dtype: np.dtype):
        self.shape = (inputs.shape[0], subspace.rank)
        self.kernel, self.device = subspace.kernel, device
        self.inputs, self.pivots = DeviceRows(inputs, device), DeviceRows(subspace.pivots, device)[:]
        self.factor = to_tensor(np.asarray(subspace.factor), device, torch.float64)
        # Products with the inverse keep a device busy, where a triangular system has it wait for one block after the
        # other, and float64 has digits to spare.
        self._inverse = torch.linalg.solve_triangular(
            self.factor, torch.eye(subspace.rank).to(self.factor), upper=False
        )
        self._dtype = torch.float64 if dtype == np.float64 else torch.float32
        #: k(x, x) of every input, and ||z(x)||^2 of those that were read.
        self._diagonal, self._squared = (torch.zeros(self.shape[0], dtype=torch.float64, device=device) for _ in "kz")
        for begin in range(0, self.shape[0], self.at_once):
            rows = slice(begin, begin + self.at_once)
            self._diagonal[rows] = self.kernel.diag(self.inputs[rows])
        self.largest = float(self._diagonal.max().sqrt()) if self.shape[0] else 0.0

    @property
    def squared_norms(self) -> np.ndarray:
        """||z(x)||^2 of the rows read so far, (n,), on the host."""
        return self._squared.cpu().numpy()

    @property
    def left(self) -> np.ndarray:
        """k(x, x) - ||z(x)||^2, the residual variance of the rows read so far, (n,), on the host."""
        return (self._diagonal - self._squared).clamp_(min=0.0).cpu().numpy()

    @property
    def at_once(self) -> int:
        """Number of rows in a block that suits the device."""
        return max(1, block_bytes(self.device) // (40 * max(1, self.shape[1]) + self.inputs.dense_bytes))

    def kernel_rows(self, rows: slice | np.ndarray) -> torch.Tensor:
        """Return k(x, B) of some inputs, (n, r) in float64."""
        values: Any = self.kernel(self.inputs[rows], self.pivots)
        return values.to(torch.float64)

    def __getitem__(self, rows: slice | np.ndarray) -> torch.Tensor:
        values = self.kernel_rows(rows)
        features = torch.empty_like(values)
        for some in row_blocks(self.shape[1], 1, itemsize=1, budget=_TRIANGLE):
            torch.mm(values[:, : some.stop], self._inverse[some, : some.stop].T, out=features[:, some])
        chosen = rows if isinstance(rows, slice) else to_tensor(rows, self.device)
        self._squared[chosen] = torch.linalg.vector_norm(features, dim=1).square_()
        return features.to(self._dtype)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error of PyTorch means that memory has run out."""
    words = ("can't allocate memory", "CUDA error: out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(each in str(error) for each in words)


@contextmanager
def name_memory_errors(purpose: str, device: torch.device) -> Iterator[None]:
    """Convert an out-of-memory error of a device to a MemoryError that names the purpose.

    A device that is lost is a RuntimeError in one line.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            if "CUDA error" not in str(error):
                raise
            said = str(error).splitlines()[0]
            raise RuntimeError(
                f"{device} was lost during {purpose} ({said}): fit again, or use engine='threads'"
            ) from error
        raise MemoryError(
            f"no memory is left on {device} for {purpose}. Use fewer data, a smaller rank, dtype='float32', or "
            f"engine='threads'. PyTorch's message: {error}"
        ) from error


def map_row_blocks(n_rows: int, step: int, work: Callable[[slice], object], purpose: str) -> int:
    """Call ``work`` on consecutive blocks of ``step`` rows, halved whenever memory runs out.

    ``work`` may be called again on rows it has begun. Returns the last size of blocks, for the next time.
    """
    step = max(1, min(step, n_rows))
    begin = 0
    while begin < n_rows:
        rows = slice(begin, min(begin + step, n_rows))
        failure = None
        try:
            work(rows)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            failure = str(error)
        # Outside the handler, which would keep the temporaries of the failed call alive.
        if failure is None:
            begin = rows.stop
            continue
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if step <= _SMALLEST_BLOCK:
            raise MemoryError(
                f"no memory is left on the device for {purpose}, not even for {step} rows at a time. "
                f"Use a smaller rank, dtype='float32', or engine='threads'. PyTorch's message: {failure}"
            )
        step = max(_SMALLEST_BLOCK, step // 2)
    return step
