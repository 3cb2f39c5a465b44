"""Operations of kernels/arrays.py on tensors of PyTorch, on any device, by the same names; others are PyTorch's own.

Precision is that of the functions for arrays, whose docstrings hold here too: squared distances in float64 after a
shift by a median, exact symmetry where Z is None. Products of float32 rows are computed in full float32, whatever is
set for TF32. Results agree with those of arrays up to rounding.

Work beside the result stays within blocks of rows: a few megabytes on a processor, hundreds on a device, whose
launches cost more than its memory. Nothing here waits for the device, except what is computed on the host.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from kernelfields.kernels.rows import (
    FORMULA_BYTES,
    FORMULA_ROWS,
    MEDIAN_SAMPLE,
    check_matrix,
    not_real_message,
    row_blocks,
)

# Entries of a block of rows, by the kind of its device; those of all others.
_ENTRIES = {"cpu": 2**21}
_DEVICE_ENTRIES = 2**26


@contextmanager
def float32_products(precision: str = "ieee") -> Iterator[None]:
    """Multiply float32 matrices with all digits ("ieee") or 11 bits each ("tf32") inside the block.

    The setting belongs to the process and is restored at the end. Sums of float16 products are float32.
    """
    backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    before = [backend.fp32_precision for backend in backends]
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


def cut_rows(X: torch.Tensor, n_rows: int, n_columns: int = 1) -> list[slice]:
    """Split the rows of an (n_rows, n_columns) tensor into blocks that suit the device of X."""
    entries = _ENTRIES.get(X.device.type, _DEVICE_ENTRIES)
    return row_blocks(n_rows, n_columns, budget=8 * entries, least=FORMULA_ROWS)


def to_tensor(
    values: np.ndarray | torch.Tensor, device: torch.device, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return an array or a tensor as a tensor on the device, without a copy if possible."""
    if not isinstance(values, torch.Tensor):
        with warnings.catch_warnings():
            # PyTorch warns of arrays that may not be written to: no caller writes to what it gets.
            warnings.simplefilter("ignore", UserWarning)
            values = torch.from_numpy(np.ascontiguousarray(values))
    return values.detach().to(device=device, dtype=dtype)


def as_rows(X: torch.Tensor, name: str = "X") -> torch.Tensor:
    """Return X as a dense two-dimensional tensor of float32 or float64 on its device."""
    check_matrix(X.shape, name)
    if X.dtype.is_complex:
        raise ValueError(not_real_message(name, X.dtype))
    if X.layout != torch.strided:
        X = X.to_dense()
    return X if X.dtype in (torch.float32, torch.float64) else X.to(torch.float64)


def on_host(X: torch.Tensor) -> np.ndarray:
    """Return X as a NumPy array."""
    if X.device.type == "cpu":
        return X.detach().numpy()
    # NumPy's memory comes in large pages, which a copy from a device fills faster.
    array = np.empty(X.shape, dtype=str(X.dtype).removeprefix("torch."))
    torch.from_numpy(array).copy_(X.detach())
    return array


def location(X: torch.Tensor) -> torch.device:
    """Return the device of rows."""
    return X.device


def describe_location(X: torch.Tensor) -> str:
    """Return the device of rows, for messages."""
    return f"a tensor on {X.device}"


convert = torch.Tensor.to


def inner_products(X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
    """Return <x, z> for all rows, shape (n, m)."""
    other = X if Z is None else Z
    dtype = torch.promote_types(X.dtype, other.dtype)
    with float32_products():
        products = X.to(dtype) @ other.to(dtype).T
    return _mirror(products) if Z is None else products


def _mirror(block: torch.Tensor) -> torch.Tensor:
    """Copy the lower triangle of a block to the upper one, as libraries promise no symmetry."""
    lower = block.tril(-1)
    return block.tril_().add_(lower.T)


def squared_norms(X: torch.Tensor) -> torch.Tensor:
    """Return ||x||^2 of every row, shape (n,), in float64."""
    norms = torch.empty(len(X), dtype=torch.float64, device=X.device)
    for rows in cut_rows(X, *X.shape):
        norms[rows] = X[rows].to(torch.float64).square().sum(dim=1)
    return norms


def median_row(Z: torch.Tensor) -> torch.Tensor:
    """Return the median of a sample of the rows, (d,), in float64."""
    return Z[:: -(-len(Z) // MEDIAN_SAMPLE)].to(torch.float64).median(dim=0).values


def manhattan_distances(X: torch.Tensor, Z: torch.Tensor | None = None) -> torch.Tensor:
    """Return sum_j |x_j - z_j| for all rows, shape (n, m)."""
    other = X if Z is None else Z
    dtype = torch.promote_types(X.dtype, other.dtype)
    distances = torch.empty((len(X), len(other)), dtype=dtype, device=X.device)
    right = other.to(torch.float64)
    for rows in cut_rows(X, *distances.shape):
        distances[rows] = torch.cdist(X[rows].to(torch.float64), right, p=1.0)
    return _mirror(distances) if Z is None else distances


def compute_on_host(X: torch.Tensor, function: Callable[..., np.ndarray], *others: torch.Tensor | None) -> torch.Tensor:
    """Return function(X, ...) for a function of NumPy arrays; with a second matrix, in blocks of rows."""
    Z = others[0] if others else None
    if Z is None:
        return to_tensor(function(on_host(X), *others), X.device, X.dtype)
    right = on_host(Z)
    block = torch.empty((len(X), len(Z)), dtype=torch.promote_types(X.dtype, Z.dtype), device=X.device)
    for rows in row_blocks(len(X), len(Z), budget=FORMULA_BYTES, least=FORMULA_ROWS):
        block[rows] = to_tensor(function(on_host(X[rows]), right), X.device, block.dtype)
    return block


def __getattr__(name: str) -> object:
    """Return the function or dtype of PyTorch with a name of NumPy: ``exp``, ``where``, ``float64``."""
    return getattr(torch, name)
