"""Feature matrices on a device of PyTorch and their two products.

    product(V)             = Z V          (n, q) float64, a tensor on the device
    transposed_product(R)  = Z^T R        (r, q) float64, an array of NumPy

Z is stored once, in one of three ways; products are as accurate as float32 (float64) for the Z that is stored.

    storage   bytes   rounded to                              product on CUDA                on the processor
    float64   8       float64                                 float64                        float64
    float32   4       11 bits on CUDA, elsewhere float32      TF32, V and R in two parts     float32
    half      2       11 bits, columns times powers of two    float16, V and R in two parts  float32, by blocks

A table that does not fit may be kept in pinned memory of the host, from which blocks come while the last one is
multiplied (:class:`TorchHostTable`), or nowhere (:class:`TorchRecomputedTable`), with kernel rows in every product,

    product(V) = k(X, B) (R^-T V),      transposed_product(G) = R^-1 (k(B, X) G)        in float64

Tables that are ``read_back`` return Z V as an array: their scores meet a family that is inferred on the host.

A product sums over r, or over up to 16384 rows, in float32 (float64); sums over more rows are added in float64. It
costs one pass over Z and memory for a block of rows, and blocks shrink when the device has no room
(engines/torch/rows.py). A sparse Z is a CSR tensor in float64, in both orders.

The thin side of a product comes in parts that matrix units multiply exactly. Units of a device multiply numbers of 11
significant bits (float16, TF32) and add in float32. A feature stored with 11 bits loses nothing there; the thin operand
X (m, q), coefficients or residuals, is split so that it keeps 22:

    half    X = 2^e (H + 2^-11 L)     H, L in float16, e of each column such that |H| < 2^15
    TF32    X = H + L                 H, L of float32 with 11 significant bits

H and L are side by side, 2 q columns filled up to a multiple of 8, in one product. An entry of X is kept to 2^-22 of
itself, or in float16 to 2^-49 of the largest in its column if that is more. Products are then as accurate as float32
with respect to the features stored. Nothing here waits for the device.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse
import torch

from kernelfields.engines.torch.rows import (
    Device,
    SubspaceRows,
    block_bytes,
    is_out_of_memory,
    map_row_blocks,
    name_memory_errors,
    resolve_device,
)
from kernelfields.kernels.tensors import float32_products, to_tensor
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.tables import weighted_product

Array: TypeAlias = "np.ndarray | torch.Tensor"

STORAGES = {"float64": torch.float64, "float32": torch.float32, "half": torch.float16}
_LOW_BITS = 11
# The largest magnitude in float16 is a little under 2^16.
_LARGEST_EXPONENT = 15
# Columns in multiples of this many are aligned as the fast kernels of the libraries need.
ALIGNMENT = 8


class Operand:
    """The form of a thin operand X in a product; here X itself in one precision."""

    def __init__(self, dtype: torch.dtype = torch.float32):
        self.dtype = dtype

    def scale(self, X: torch.Tensor) -> torch.Tensor | None:
        """Return the scale of all rows of X for ``parts`` and ``combined``."""
        return None

    def parts(self, X: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        """Return some rows of X in the form of the product, (m, p)."""
        return X.to(self.dtype)

    def combine(self, products: torch.Tensor, n_columns: int, scale: torch.Tensor | None) -> torch.Tensor:
        """Convert products (..., p) with parts to products with X, (..., q) float64."""
        return products.to(torch.float64)


class SplitTF32(Operand):
    """X = H + L with 11 significant bits each, stored in float32 for its range of exponents."""

    def parts(self, X: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        """Return H and L as concatenated columns."""
        high = round_to_tf32(X.to(torch.float32))
        low = round_to_tf32((X - high).to(torch.float32))
        return _side_by_side(high, low)

    def combine(self, products: torch.Tensor, n_columns: int, scale: torch.Tensor | None) -> torch.Tensor:
        """Return the sum of the products with H and L."""
        wide = products[..., : 2 * n_columns].to(torch.float64)
        return wide[..., :n_columns] + wide[..., n_columns:]


class SplitHalf(Operand):
    """X = 2^e (H + 2^-11 L) in float16, with an exponent e for each column."""

    def scale(self, X: torch.Tensor) -> torch.Tensor:
        """Return 2^e, (q,)."""
        return power_of_two_above(X, dim=0).mul_(2.0**-_LARGEST_EXPONENT)

    def parts(self, X: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        """Return H and L as concatenated columns."""
        assert scale is not None
        scaled = X.to(torch.float64) / scale
        high = scaled.to(torch.float16)
        low = scaled.sub_(high).mul_(2.0**_LOW_BITS).to(torch.float16)
        return _side_by_side(high, low)

    def combine(self, products: torch.Tensor, n_columns: int, scale: torch.Tensor | None) -> torch.Tensor:
        """Return products with H plus 2^-11 times products with L, times 2^e."""
        assert scale is not None
        wide = products[..., : 2 * n_columns].to(torch.float64)
        return wide[..., :n_columns].add(wide[..., n_columns:], alpha=2.0**-_LOW_BITS).mul_(scale)


def _side_by_side(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    width = high.shape[1]
    both = high.new_zeros((high.shape[0], align_size(2 * width)))
    both[:, :width] = high
    both[:, width : 2 * width] = low
    return both


def align_size(width: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-width // ALIGNMENT) * ALIGNMENT


def power_of_two_above(X: torch.Tensor, dim: int) -> torch.Tensor:
    """Return for each slice the next power of two above its largest magnitude, in float64; 1 for zeros."""
    if X.shape[dim] == 0:
        return torch.ones(X.shape[1 - dim], dtype=torch.float64, device=X.device)
    largest = torch.linalg.vector_norm(X, ord=float("inf"), dim=dim).to(torch.float64)
    # Within these bounds the powers and their inverses are normal numbers.
    exponents = torch.frexp(largest).exponent.clamp(-900, 900)
    return torch.ldexp(torch.ones_like(largest), exponents)


def round_to_tf32(X: torch.Tensor) -> torch.Tensor:
    """Return float32 values rounded to 11 significant bits, halves to even; their last 13 bits are zero."""
    bits = X.contiguous().view(torch.int32)
    bits = bits + 0xFFF + ((bits >> 13) & 1)
    return (bits & ~0x1FFF).view(torch.float32)


class DeviceTable:
    """The base of tables on a device, which defines where products are stored."""

    device: torch.device
    #: Whether products are arrays of NumPy rather than tensors.
    reads_back = False

    def read_back(self) -> Self:
        """Return the same table with products as arrays of NumPy."""
        table = copy.copy(self)
        table.reads_back = True
        return table

    def _returned(self, product: torch.Tensor) -> Any:
        return product.cpu().numpy() if self.reads_back else product


class TorchTable(DeviceTable):
    """A dense Z (n, r) on ``device``, stored as float64, float32 or half.

    ``features`` is an array, a tensor or :class:`SubspaceRows`; it is shared where storage changes nothing, otherwise
    copied by blocks of rows. With ``matrix_units`` Z and the thin operands are rounded and split for TF32 or float16;
    None means on CUDA. ``dtype`` is the precision of the products in terms of NumPy. Blocks have at most
    ``block_rows`` rows; products of ``summed_rows`` are summed before float64 takes over, which leaves enough batches
    to keep all of a device busy.
    """

    def __init__(
        self,
        features: np.ndarray | torch.Tensor | SubspaceRows,
        storage: str = "float32",
        device: Device = None,
        *,
        matrix_units: bool | None = None,
        block_rows: int = 2**18,
        summed_rows: int = 2**14,
    ):
        if storage not in STORAGES:
            raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
        self.storage = storage
        self.device = resolve_device(device, features)
        self.shape: tuple[int, int] = (features.shape[0], features.shape[1])
        self.dtype = np.dtype(np.float64 if storage == "float64" else np.float32)
        self.stored_values = self.shape[0] * self.shape[1]
        units = self.device.type == "cuda" if matrix_units is None else matrix_units
        self._units = units and storage != "float64"
        self._block_rows, self._summed_rows = block_rows, summed_rows
        self._operand = Operand(torch.float64 if storage == "float64" else torch.float32)
        if self._units:
            self._operand = SplitHalf() if storage == "half" else SplitTF32()
        self._scale: torch.Tensor | None = None  # Z = stored / scale, column by column
        try:
            self._stored = self._store(features)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            needed = self.stored_values * STORAGES[storage].itemsize
            raise MemoryError(
                f"features of {self.shape[0]:,} positions at rank {self.shape[1]:,} need "
                f"{needed / 2**30:,.1f} GiB as {storage} on {self.device}, which has less. "
                f"Use a smaller rank or storage='half'. PyTorch's message: {error}"
            ) from error

    def _room(self, width: int) -> torch.Tensor:
        """Return an array for features (n, width) in their stored form."""
        return torch.empty((self.shape[0], width), dtype=STORAGES[self.storage], device=self.device)

    def _store(self, features: np.ndarray | torch.Tensor | SubspaceRows) -> torch.Tensor:
        rank, computed = self.shape[1], isinstance(features, SubspaceRows)
        if not isinstance(features, SubspaceRows) and not self._units and self.storage != "half":
            return to_tensor(features, self.device, STORAGES[self.storage])

        def given(rows: slice) -> torch.Tensor:
            return to_tensor(features[rows], self.device)

        width = rank
        if self.storage == "half":
            width = align_size(rank)
            if isinstance(features, SubspaceRows):
                # A bound for all columns: the range of float16 leaves room for those that are smaller.
                above = torch.full((1, rank), features.largest, dtype=torch.float64, device=self.device)
                self._scale = 2.0**_LARGEST_EXPONENT / power_of_two_above(above, dim=0)
            else:
                self._scale = self._column_scale(given)
        stored = self._room(width)
        stored[:, rank:] = 0

        def fill(rows: slice) -> None:
            block = given(rows)
            if self._scale is not None:
                block = block * self._scale.to(block.dtype)
            elif self._units:
                block = round_to_tf32(block.to(torch.float32))
            stored[rows, :rank] = block.to(stored.dtype)

        self._by_blocks(fill, "the copy of the features", (48 if computed else 24) * rank)
        return stored

    def _column_scale(self, given: Callable[[slice], torch.Tensor]) -> torch.Tensor:
        """Return the powers of two that bring the largest magnitude of every column between 2^14 and 2^15."""
        above = torch.zeros(self.shape[1], dtype=torch.float64, device=self.device)

        def widen(rows: slice) -> None:
            largest = torch.linalg.vector_norm(given(rows), ord=float("inf"), dim=0).to(torch.float64)
            torch.maximum(above, largest, out=above)

        self._by_blocks(widen, "the scale of the features", 8 * self.shape[1])
        # float32 features are multiplied in float32: its powers of two end before the inverses of its numbers do.
        limit = 2.0**120 if given(slice(0, 0)).dtype == torch.float32 else float("inf")
        return (2.0**15 / power_of_two_above(above[None], dim=0)).clamp_(max=limit)

    def _by_blocks(self, work: Callable[[slice], object], purpose: str, bytes_per_row: int) -> None:
        step = min(self._block_rows, block_bytes(self.device) // max(1, bytes_per_row))
        map_row_blocks(self.shape[0], step, work, purpose)

    @property
    def stored(self) -> torch.Tensor:
        """Z in its stored form, with scaled and padded columns."""
        return self._stored

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return some rows of Z in their stored form, (n, r) float64 on the host."""
        chosen = rows if isinstance(rows, slice) else to_tensor(rows, self._stored.device)
        block = self._stored[chosen, : self.shape[1]].to(self.device, torch.float64)
        return (block if self._scale is None else block / self._scale).cpu().numpy()

    @property
    def _converted(self) -> bool:
        """Whether products need another form of the rows than the stored one."""
        # Only CUDA has products of float16 that are summed and returned in float32.
        return self.storage == "half" and (self.device.type != "cuda" or not self._units)

    def _factor(self, rows: slice) -> torch.Tensor:
        """Return stored rows in the form for products."""
        block = self._stored[rows]
        return block.to(torch.float32) if self._converted else block

    def _multiplied(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return left @ right, or one product for each entry of a first axis."""
        if left.dtype == torch.float16:
            multiply: Any = torch.bmm if left.ndim == 3 else torch.mm
            return multiply(left, right, out_dtype=torch.float32)
        return left @ right.to(left.dtype)

    def _precision(self) -> AbstractContextManager[None]:
        # All operands have 11 significant bits where these are split: then the fast products round nothing.
        return float32_products("tf32" if isinstance(self._operand, SplitTF32) else "ieee")

    def _bytes_per_row(self, n_columns: int) -> int:
        return 64 * n_columns + (8 * self._stored.shape[1] if self._converted else 0)

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""
        sums = torch.zeros(self._stored.shape[1], dtype=torch.float64, device=self.device)

        def add(rows: slice) -> None:
            sums.add_(self._factor(rows).to(torch.float64).square().sum(dim=0))

        self._by_blocks(add, "the squares of the features", 16 * len(sums))
        sums = sums[: self.shape[1]]
        return float((sums if self._scale is None else sums / self._scale.square()).sum()) / self.shape[1]

    def product(self, coefficients: Array, workers: Workers | None = None) -> Any:
        """Return Z V, (n, q) float64, for an array or a tensor V (r, q); ``workers`` is not used."""
        V = to_tensor(coefficients, self.device, torch.float64)
        if self._scale is not None:
            V = V / self._scale[:, None]
        scale = self._operand.scale(V)
        parts = self._operand.parts(V, scale)
        right = parts.new_zeros((self._stored.shape[1], parts.shape[1]))
        right[: len(parts)] = parts
        out = torch.empty((self.shape[0], V.shape[1]), dtype=torch.float64, device=self.device)

        def multiply(rows: slice) -> None:
            out[rows] = self._operand.combine(self._multiplied(self._factor(rows), right), V.shape[1], scale)

        with self._precision():
            self._by_blocks(multiply, "a product with the features", self._bytes_per_row(V.shape[1]))
        return self._returned(out)

    def transposed_product(self, rows: Array, workers: Workers | None = None) -> np.ndarray:
        """Return Z^T R, (r, q) float64 on the host, for a tensor R (n, q); ``workers`` is not used."""
        R = to_tensor(rows, self.device)
        scale = self._operand.scale(R)
        total = torch.zeros((self._stored.shape[1], R.shape[1]), dtype=torch.float64, device=self.device)

        def add(rows: slice) -> None:
            left, right = self._factor(rows), self._operand.parts(R[rows], scale)
            batch = self._summed_rows
            cut = len(left) // batch * batch
            partial = []
            if cut > 0:
                batches = left[:cut].unflatten(0, (-1, batch)).transpose(1, 2)
                partial.append(self._multiplied(batches, right[:cut].unflatten(0, (-1, batch))))
            if cut < len(left):
                partial.append(self._multiplied(left[cut:].T, right[cut:])[None])
            for products in partial:
                total.add_(self._operand.combine(products, R.shape[1], scale).sum(dim=0))

        with self._precision():
            self._by_blocks(add, "a product with the features", self._bytes_per_row(R.shape[1]))
        total = total[: self.shape[1]]
        return (total if self._scale is None else total / self._scale[:, None]).cpu().numpy()

    def gram(self, sampled: slice) -> torch.Tensor:
        """Return Z^T Z, (r, r) float64 on the device, from every n-th row, by products in float32."""
        rows = self._stored[sampled]
        total = torch.zeros((rows.shape[1],) * 2, dtype=torch.float64, device=self.device)
        for begin in range(0, len(rows), self._summed_rows):
            block = rows[begin : begin + self._summed_rows].to(self.device)
            if self.storage == "half" and self.device.type != "cuda":
                block = block.to(torch.float32)
            total.add_(self._multiplied(block.T, block))
        total = total[: self.shape[1], : self.shape[1]].contiguous()
        if self._scale is not None:
            total /= self._scale[:, None] * self._scale
        return total.mul_(sampled.step)

    def weighted_gram(self, weights: Array) -> np.ndarray:
        """Return Z^T diag(w) Z, (r, r) float64 on the host, for w (n,), from products in float32."""
        weights = to_tensor(weights, self.device)
        total = torch.zeros((self.shape[1],) * 2, dtype=torch.float64, device=self.device)
        wide = torch.float64 if self.storage == "float64" else torch.float32

        def add(rows: slice) -> None:
            block = self._factor(rows)[:, : self.shape[1]].to(wide)
            total.add_((block * weights[rows, None].to(wide)).T @ block)

        with float32_products():
            self._by_blocks(add, "a Gram matrix of the features", 16 * self.shape[1])
        if self._scale is not None:
            total /= self._scale[:, None] * self._scale
        return total.cpu().numpy()


class TorchHostTable(TorchTable):
    """A dense Z in host memory, pinned for CUDA; its products are on ``device``."""

    def __init__(self, features: SubspaceRows, storage: str = "float32", *, matrix_units: bool | None = None):
        #: The block that is on its way: its rows, itself, and the event of its arrival.
        self._ahead: tuple[slice, torch.Tensor, torch.cuda.Event] | None = None
        super().__init__(features, storage, features.device, matrix_units=matrix_units)

    def _room(self, width: int) -> torch.Tensor:
        shape, dtype = (self.shape[0], width), STORAGES[self.storage]
        return torch.empty(shape, dtype=dtype, pin_memory=self.device.type == "cuda")

    @cached_property
    def _copies(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self.device)

    def _copy_rows(self, rows: slice) -> tuple[slice, torch.Tensor, torch.cuda.Event]:
        """Begin to copy some rows to the device."""
        with torch.cuda.stream(self._copies):
            block = self._stored[rows].to(self.device, non_blocking=True)
            return rows, block, self._copies.record_event()

    def _factor(self, rows: slice) -> torch.Tensor:
        if self.device.type != "cuda":
            return super()._factor(rows)
        there = self._ahead if self._ahead is not None and self._ahead[0] == rows else self._copy_rows(rows)
        following = slice(rows.stop, min(2 * rows.stop - rows.start, self.shape[0]))
        self._ahead = self._copy_rows(following) if following.start < following.stop else None
        stream, (_, block, arrived) = torch.cuda.current_stream(self.device), there
        stream.wait_event(arrived)
        block.record_stream(stream)
        return block.to(torch.float32) if self._converted else block


class TorchRecomputedTable(DeviceTable):
    """A Z without storage: every product computes the rows of its kernel, in float64."""

    storage = "recomputed"

    def __init__(self, features: SubspaceRows):
        self.device, self.shape, self.dtype = features.device, features.shape, np.dtype(np.float64)
        self.stored_values = self.shape[0] * self.shape[1]
        self._rows = features

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return some rows of Z, (n, r) float64 on the host."""
        return self._rows[rows].to(torch.float64).cpu().numpy()

    def _by_blocks(self, work: Callable[[slice], object]) -> None:
        map_row_blocks(self.shape[0], self._rows.at_once, work, "features that are computed in every pass")

    def _of_pivots(self, values: torch.Tensor, *, transposed: bool) -> torch.Tensor:
        """Return R^-1, or R^-T, times values (r, q)."""
        factor = self._rows.factor
        return torch.linalg.solve_triangular(factor.T if transposed else factor, values, upper=transposed)

    @cached_property
    def squared_norms(self) -> np.ndarray:
        """||z(x)||^2 of every row, on the host; a pass."""
        self._by_blocks(self._rows.__getitem__)
        return self._rows.squared_norms

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""
        return float(self.squared_norms.sum()) / self.shape[1]

    def product(self, coefficients: Array, workers: Workers | None = None) -> Any:
        """Return Z V, (n, q) float64, for an array or a tensor V (r, q); ``workers`` is not used."""
        dual = self._of_pivots(to_tensor(coefficients, self.device, torch.float64), transposed=True)
        out = torch.empty((self.shape[0], dual.shape[1]), dtype=torch.float64, device=self.device)

        def multiply(rows: slice) -> None:
            out[rows] = self._rows.kernel_rows(rows) @ dual

        self._by_blocks(multiply)
        return self._returned(out)

    def transposed_product(self, rows: Array, workers: Workers | None = None) -> np.ndarray:
        """Return Z^T R, (r, q) float64 on the host, for R (n, q); ``workers`` is not used."""
        R = to_tensor(rows, self.device, torch.float64)
        total = torch.zeros((self.shape[1], R.shape[1]), dtype=torch.float64, device=self.device)
        self._by_blocks(lambda some: total.add_(self._rows.kernel_rows(some).T @ R[some]))
        return self._of_pivots(total, transposed=False).cpu().numpy()

    def gram(self, sampled: slice) -> torch.Tensor:
        """Return Z^T Z, (r, r) float64 on the device, from every n-th row."""
        chosen = np.arange(self.shape[0])[sampled]
        total = torch.zeros((self.shape[1],) * 2, dtype=torch.float64, device=self.device)
        for begin in range(0, len(chosen), self._rows.at_once):
            block = self._rows[chosen[begin : begin + self._rows.at_once]].to(torch.float64)
            total.addmm_(block.T, block)
        return total.mul_(sampled.step)

    def weighted_gram(self, weights: Array) -> np.ndarray:
        """Return Z^T diag(w) Z, (r, r) float64 on the host, for w (n,)."""
        weights = to_tensor(weights, self.device, torch.float64)
        total = torch.zeros((self.shape[1],) * 2, dtype=torch.float64, device=self.device)

        def add(rows: slice) -> None:
            block = self._rows[rows].to(torch.float64)
            total.addmm_((block * weights[rows, None]).T, block)

        self._by_blocks(add)
        return total.cpu().numpy()


class TorchSparseTable(DeviceTable):
    """A CSR Z of SciPy and its transpose as CSR tensors on ``device``, in float64."""

    def __init__(self, features: scipy.sparse.csr_array, device: Device = None):
        self.device = resolve_device(device, None)
        #: Z on the host, which has it as inputs: curvature blocks and sets of weights are made there.
        self.features = features
        self.shape: tuple[int, int] = features.shape
        self.dtype = np.dtype(np.float64)
        self.stored_values = features.nnz
        with name_memory_errors(f"{features.nnz:,} sparse features", self.device):
            self._stored = csr_tensor(features, self.device)
            self._transposed = csr_tensor(features.T.tocsr(), self.device)

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""
        return float(self._stored.values().square().sum()) / self.shape[1]

    def square_entries(self) -> TorchSparseTable:
        """Return the table of z_tr^2."""
        table = copy.copy(self)
        table._stored, table._transposed = (
            _csr(each.crow_indices(), each.col_indices(), each.values().square(), each.shape)
            for each in (self._stored, self._transposed)
        )
        return table

    def product(self, coefficients: Array, workers: Workers | None = None) -> Any:
        """Return Z V, (n, q) float64, for an array or a tensor V (r, q); ``workers`` is not used."""
        return self._returned(self._stored @ to_tensor(coefficients, self.device, torch.float64))

    def transposed_product(self, rows: Array, workers: Workers | None = None) -> np.ndarray:
        """Return Z^T R, (r, q) float64 on the host, for a tensor R (n, q); ``workers`` is not used."""
        return (self._transposed @ to_tensor(rows, self.device, torch.float64)).cpu().numpy()

    def weighted_gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Z^T diag(w) Z, (r, r), for w (n,) of the host, computed there."""
        return weighted_product(self.features, self.features, weights)


def csr_tensor(matrix: scipy.sparse.csr_array, device: torch.device) -> torch.Tensor:
    """Return a CSR matrix of SciPy as a tensor in float64 on a device."""
    index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    starts, columns = (to_tensor(numbers.astype(index), device) for numbers in (matrix.indptr, matrix.indices))
    return _csr(starts, columns, to_tensor(matrix.data, device, torch.float64), matrix.shape)


def _csr(starts: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    with warnings.catch_warnings():
        # PyTorch calls its CSR tensors a beta version whenever one is made.
        warnings.filterwarnings("ignore", message=".*[Ss]parse.*", category=UserWarning)
        return torch.sparse_csr_tensor(starts, columns, values, size=tuple(shape), check_invariants=False)
