"""Checks of the rows that kernels compare, and the cutting of long ones into blocks, for arrays and tensors alike."""

from __future__ import annotations

#: Bytes of a block of features or kernel rows.
BLOCK_BYTES = 64 * 2**20
#: Bytes of a block of a formula, large enough for fast matrix products and small beside its result, and its least rows.
FORMULA_BYTES, FORMULA_ROWS = 2**24, 16
#: Rows whose median is taken off before squared distances are computed.
MEDIAN_SAMPLE = 256


def check_matrix(shape: tuple[int, ...], name: str) -> None:
    """Raise ValueError unless a shape has two dimensions."""
    if len(shape) != 2:
        raise ValueError(
            f"{name} must be two-dimensional (rows, columns), got shape {tuple(shape)}. "
            "Use x.reshape(1, -1) for a single row, x.reshape(-1, 1) for a single column."
        )


def not_real_message(name: str, dtype: object) -> str:
    """Return the error message for inputs that are not real numbers."""
    return f"{name} must hold real numbers, got dtype {dtype}."


def row_blocks(
    n_rows: int, n_columns: int, itemsize: int = 8, budget: int = BLOCK_BYTES, least: int = 1
) -> list[slice]:
    """Split rows into slices whose (rows, n_columns) block has at most ``budget`` bytes, or ``least`` rows."""
    step = max(least, min(n_rows, budget // max(1, n_columns * itemsize)))
    return [slice(begin, min(begin + step, n_rows)) for begin in range(0, n_rows, step)]
