"""Inputs of kernels: rows of a dense or CSR matrix in float32 or float64, and blocks of rows.

A kernel block between n and m rows is dense (n, m); it is float32 only when both sides are.

Rows may also be a tensor of PyTorch, on any device: k(X, Z) is then a tensor there. Functions marked with
``with_tensor_twin`` have a twin of the same name in kernels/tensors.py, the one module here that imports PyTorch;
it is loaded when the first tensor comes.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np
from scipy import sparse

# About 16 MB of float64: large enough for fast matrix products, small beside the block itself.
_BLOCK_ENTRIES = 2**21
_SMALLEST_BLOCK = 16

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of PyTorch, which is not imported to find out."""
    torch = sys.modules.get("torch")
    return isinstance(X, getattr(torch, "Tensor", ()))


def with_tensor_twin(function: _Function) -> _Function:
    """Let the function of the same name in kernels/tensors.py answer when the first argument is a tensor."""

    @functools.wraps(function)
    def answer(first: Any, *others: Any) -> Any:
        if is_tensor(first):
            twin = getattr(importlib.import_module("kernelfields.kernels.tensors"), function.__name__)
            return twin(first, *others)
        return function(first, *others)

    return cast(_Function, answer)


@with_tensor_twin
def as_rows(X: Any, name: str = "X") -> Any:
    """Return X as a two-dimensional ndarray or canonical CSR matrix of float32 or float64.

    A tensor stays where it is; a sparse one becomes dense, so pass it by blocks of rows.
    """
    if sparse.issparse(X):
        if X.ndim != 2:
            raise ValueError(not_two_dimensional(name, X.shape))
        X = _as_float(X.tocsr(), name)
        if not X.has_canonical_format:
            X = X.copy()  # the caller's matrix keeps its order of entries
            X.sum_duplicates()
        return X
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(not_two_dimensional(name, X.shape))
    return _as_float(X, name)


def not_real(name: str, dtype: Any) -> str:
    """Return what to say of inputs that are no real numbers."""
    return f"{name} must hold real numbers, got dtype {dtype}."


def _as_float(X: Any, name: str) -> Any:
    if X.dtype in (np.float32, np.float64):
        return X
    if X.dtype.kind not in "biufO":
        raise ValueError(not_real(name, X.dtype))
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers, but an entry is not one: {error}.") from error


def not_two_dimensional(name: str, shape: tuple[int, ...]) -> str:
    """Return what to say of inputs that are no matrix."""
    return (
        f"{name} must be two-dimensional (rows, columns), got shape {shape}. "
        "Use x.reshape(1, -1) for a single row, x.reshape(-1, 1) for a single column."
    )


@with_tensor_twin
def on_host(X: Any) -> Any:
    """Return X as a matrix in the memory of the processor; only a tensor may have to move."""
    return X


def _place(X: Any) -> str:
    return f"a tensor on {X.device}" if is_tensor(X) else f"a {type(X).__name__}"


def check_comparable(X: Any, Z: Any) -> None:
    """Raise ValueError unless X and Z have as many columns and lie in the same place."""
    if is_tensor(X) != is_tensor(Z) or (is_tensor(X) and X.device != Z.device):
        raise ValueError(
            f"X is {_place(X)} but Z is {_place(Z)}. A kernel compares rows in one place: "
            "move one of them, with torch.as_tensor(Z, device=X.device) say."
        )
    if X.shape[1] != Z.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns but Z has {Z.shape[1]}. "
            "A kernel compares rows with the same columns: build both sides in the same way."
        )


@with_tensor_twin
def block_dtype(X: Any, Z: Any | None) -> np.dtype:
    """Return the dtype of k(X, Z)."""
    return np.result_type(X.dtype, X.dtype if Z is None else Z.dtype)


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Cut the rows of an (n_rows, n_columns) array into blocks of a few megabytes."""
    step = max(_SMALLEST_BLOCK, _BLOCK_ENTRIES // max(n_columns, 1))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))
