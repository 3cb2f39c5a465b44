"""block <- block - A B^T in float32 with the matrix units of a CUDA device, as accurate as float32 itself.

Each operand is cut into two parts of 11 bits in registers, and three products of parts are summed in float32 (Triton
calls this tf32x3): about 2^-22 of a term is lost, where products of float32 lose 2^-24, at several times their speed.
Arrays: block (n, p), A (n, k), B (p, k), float32, the last axis contiguous.
"""

# mypy: allow-incomplete-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl

_ROWS, _COLUMNS, _DEPTH = 128, 128, 32


@triton.jit
def _subtract_product(
    block,
    left,
    right,
    n_rows,
    n_columns,
    depth,
    block_stride,
    left_stride,
    right_stride,
    rows: tl.constexpr,
    columns: tl.constexpr,
    step: tl.constexpr,
):
    # Programs that share rows of A stand next to each other: these are read from memory once.
    row = tl.program_id(1).to(tl.int64) * rows + tl.arange(0, rows)
    column = tl.program_id(0).to(tl.int64) * columns + tl.arange(0, columns)
    inner = tl.arange(0, step)
    has_row, has_column = row < n_rows, column < n_columns
    a = left + row[:, None] * left_stride + inner[None, :]
    b = right + column[None, :] * right_stride + inner[:, None]
    total = tl.zeros((rows, columns), dtype=tl.float32)
    for begin in range(0, depth, step):
        has_inner = inner < depth - begin
        parts = tl.load(a, mask=has_row[:, None] & has_inner[None, :], other=0.0)
        others = tl.load(b, mask=has_column[None, :] & has_inner[:, None], other=0.0)
        total += tl.dot(parts, others, input_precision="tf32x3")
        a += step
        b += step
    place = block + row[:, None] * block_stride + column[None, :]
    inside = has_row[:, None] & has_column[None, :]
    tl.store(place, tl.load(place, mask=inside, other=0.0) - total, mask=inside)


def subtract_product(block: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Take A B^T from a block in place."""
    (n_rows, n_columns), depth = block.shape, left.shape[1]
    if depth == 0 or n_rows == 0 or n_columns == 0:
        return
    grid = (triton.cdiv(n_columns, _COLUMNS), triton.cdiv(n_rows, _ROWS))
    strides = block.stride(0), left.stride(0), right.stride(0)
    _subtract_product[grid](
        block, left, right, n_rows, n_columns, depth, *strides, _ROWS, _COLUMNS, _DEPTH, num_warps=8, num_stages=3
    )
