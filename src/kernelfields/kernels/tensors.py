"""Tensor twins of kernels/arrays.py: its functions once more, for tensors of PyTorch on any device.

The formulas and their precision are those of the NumPy twins, whose docstrings hold here too: squared distances in
float64 after a shift by a median, exact symmetry where Z is None. Products of float32 rows are computed in full
float32, whatever is set for TF32. Results agree with the twins up to rounding.

Work beside the result stays within blocks of rows: a few megabytes on a processor, hundreds on a device, whose
launches cost more than its memory. Nothing here waits for the device, except what goes by way of the host.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from kernelfields.kernels import arrays

_HOST_ENTRIES = 2**21
_DEVICE_ENTRIES = 2**26


@contextmanager
def float32_products(precision: str = "ieee") -> Iterator[None]:
    """Multiply float32 matrices with all their digits ("ieee") or with 11 bits each ("tf32") inside the block.

    The setting belongs to the process; what it was comes back at the end. Sums of float16 products are float32.
    """
    mkldnn: Any = torch.backends.mkldnn
    backends = torch.backends.cuda.matmul, mkldnn.matmul
    before = [each.fp32_precision for each in backends]
    reduced = torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    try:
        backends[0].fp32_precision = precision
        backends[1].fp32_precision = "ieee"
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        yield
    finally:
        for backend, setting in zip(backends, before, strict=True):
            backend.fp32_precision = setting
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduced


def tensor_blocks(X: torch.Tensor, n_rows: int, n_columns: int) -> Iterator[slice]:
    """Cut the rows of an (n_rows, n_columns) tensor into blocks that suit the device of X."""
    return arrays.row_blocks(n_rows, n_columns, _HOST_ENTRIES if X.device.type == "cpu" else _DEVICE_ENTRIES)


def blocks_of(block: torch.Tensor) -> Iterator[slice]:
    """Cut the rows of a block into such blocks."""
    return tensor_blocks(block, *block.shape)


def tensor_from(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return an array or a tensor as a tensor on the device; memory is shared where nothing has to change."""
    if not isinstance(values, torch.Tensor):
        with warnings.catch_warnings():
            # PyTorch warns of arrays that may not be written to: no caller writes to what it gets.
            warnings.simplefilter("ignore", UserWarning)
            values = torch.from_numpy(np.ascontiguousarray(values))
    return values.detach().to(device=device, dtype=dtype)


def as_rows(X: torch.Tensor, name: str = "X") -> torch.Tensor:
    """Return X as a dense two-dimensional tensor of float32 or float64 on its device."""
    arrays.check_matrix(X, name)
    if X.dtype.is_complex:
        raise ValueError(arrays.not_real(name, X.dtype))
    if X.layout != torch.strided:
        X = X.to_dense()
    return X if X.dtype in (torch.float32, torch.float64) else X.to(torch.float64)


def on_host(X: torch.Tensor) -> np.ndarray:
    """Return X as a NumPy array."""
    return X.detach().cpu().numpy()


def block_dtype(X: torch.Tensor, Z: torch.Tensor | None) -> torch.dtype:
    """Return the dtype of k(X, Z)."""
    return torch.promote_types(X.dtype, X.dtype if Z is None else Z.dtype)


def inner_products(X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
    """Return <x, z> for all rows, shape (n, m)."""
    dtype = block_dtype(X, Z)
    other = X if Z is None else Z
    with float32_products():
        products = X.to(dtype) @ other.to(dtype).T
    return _mirrored(products) if Z is None else products


def _mirrored(block: torch.Tensor) -> torch.Tensor:
    """Return the block with its lower triangle in place of the upper one: libraries promise no symmetry."""
    lower = block.tril(-1)
    return block.tril_().add_(lower.T)


def squared_norms(X: torch.Tensor) -> torch.Tensor:
    """Return ||x||^2 of every row, shape (n,), in float64."""
    norms = torch.empty(len(X), dtype=torch.float64, device=X.device)
    for rows in blocks_of(X):
        norms[rows] = X[rows].to(torch.float64).square().sum(dim=1)
    return norms


def destinations(Z: torch.Tensor) -> arrays.Destinations:
    """Return what squared distances to Z need that does not depend on the other rows."""
    rows, shift = Z.to(torch.float64), None
    if len(Z) > 0:
        shift = rows[:: -(-len(Z) // arrays.MEDIAN_SAMPLE)].median(dim=0).values
        rows = rows - shift
    return arrays.Destinations(Z, shift, rows, squared_norms(rows))


def squared_distances(X: torch.Tensor, Z: Any = None) -> torch.Tensor:
    """Return ||x - z||^2 for all rows, shape (n, m); Z may also be the ``Destinations`` of rows that stay."""
    to = Z if isinstance(Z, arrays.Destinations) else destinations(X if Z is None else Z)
    distances = torch.empty((len(X), len(to.rows)), dtype=block_dtype(X, to.given), device=X.device)
    if distances.numel() == 0:
        return distances
    for rows in blocks_of(distances):
        left = X[rows].to(torch.float64) - to.shift
        sums = squared_norms(left)[:, None] + to.norms
        products = (left @ to.rows.T).mul_(-2.0).add_(sums)
        distances[rows] = products.masked_fill_(products <= sums.mul_(32 * np.finfo(np.float64).eps), 0.0)
    if Z is None:
        distances = _mirrored(distances)
        distances.fill_diagonal_(0.0)
    return distances


def manhattan_distances(X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
    """Return sum_j |x_j - z_j| for all rows, shape (n, m)."""
    other = X if Z is None else Z
    distances = torch.empty((len(X), len(other)), dtype=block_dtype(X, Z), device=X.device)
    right = other.to(torch.float64)
    for rows in blocks_of(distances):
        distances[rows] = torch.cdist(X[rows].to(torch.float64), right, p=1.0)
    return _mirrored(distances) if Z is None else distances


# Twins that PyTorch has under names of its own.
contiguous = torch.Tensor.contiguous
converted = torch.Tensor.to
exponential = torch.Tensor.exp_
square_root = torch.Tensor.sqrt_


def side_by_side(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the columns of two matrices in one."""
    return torch.hstack([left, right])


def filled(X: torch.Tensor, shape: tuple[int, ...], value: float, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of one value, where X is."""
    return torch.full(shape, value, dtype=dtype, device=X.device)


def set_diagonal(block: torch.Tensor, values: torch.Tensor) -> None:
    """Write the diagonal of a square block."""
    block.diagonal().copy_(values)


def inverse_or_zero(values: torch.Tensor) -> torch.Tensor:
    """Return 1 / values where they are positive, and 0 elsewhere."""
    return torch.where(values > 0, values.reciprocal(), torch.zeros_like(values))


def computed_on_host(values: torch.Tensor, function: Callable[[np.ndarray], np.ndarray]) -> torch.Tensor:
    """Return function(values) for a function of NumPy arrays, by copies there and back."""
    return tensor_from(function(on_host(values)), values.device, values.dtype)


def block_by_host(block_of: Callable[[Any, Any], np.ndarray], X: torch.Tensor, Z: torch.Tensor | None) -> Any:
    """Return k(X, Z) by a formula that needs NumPy arrays: rows and values are copied, some rows at a time."""
    dtype = block_dtype(X, Z)
    if Z is None:
        return tensor_from(block_of(on_host(X), None), X.device, dtype)
    right = on_host(Z)
    block = torch.empty((len(X), len(Z)), dtype=dtype, device=X.device)
    for rows in arrays.row_blocks(*block.shape):
        block[rows] = tensor_from(block_of(on_host(X[rows]), right), X.device, dtype)
    return block


def diagonal_by_host(diagonal_of: Callable[[Any], np.ndarray], X: torch.Tensor) -> Any:
    """Return k(x, x) by a formula that needs NumPy arrays."""
    return tensor_from(diagonal_of(on_host(X)), X.device, X.dtype)
