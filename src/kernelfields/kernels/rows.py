"""Checks of the rows that kernels compare, and the cutting of long ones into blocks, for arrays and tensors alike."""

from __future__ import annotations

from collections.abc import Iterator

# About 16 MB of float64: large enough for fast matrix products, small beside the block itself.
_BLOCK_ENTRIES = 2**21
_SMALLEST_BLOCK = 16
#: Rows whose median is taken off before squared distances are computed.
MEDIAN_SAMPLE = 256


def check_matrix(shape: tuple[int, ...], name: str) -> None:
    """Raise ValueError unless a shape has two dimensions."""
    if len(shape) != 2:
        raise ValueError(
            f"{name} must be two-dimensional (rows, columns), got shape {tuple(shape)}. "
            "Use x.reshape(1, -1) for a single row, x.reshape(-1, 1) for a single column."
        )


def not_real(name: str, dtype: object) -> str:
    """Return the message for inputs that are no real numbers."""
    return f"{name} must hold real numbers, got dtype {dtype}."


def row_blocks(n_rows: int, n_columns: int, entries: int | None = None) -> Iterator[slice]:
    """Cut the rows of an (n_rows, n_columns) array into blocks of about ``entries``; None for a few megabytes."""
    step = max(_SMALLEST_BLOCK, (entries or _BLOCK_ENTRIES) // max(n_columns, 1))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))
