"""block <- block - A B^T in float32 with the matrix units of a CUDA device, about as accurate as float32 itself.

    A = A_h + A_l,   B = B_h + B_l,   parts of 11 bits each:     A B^T ~ A_h B_h^T + A_h B_l^T + A_l B_h^T

About 2^-22 of a term is lost, where products of float32 lose 2^-24, at several times their speed. A is cut in one pass
over it, some columns at a time. Arrays: block (n, p), A (n, k), B (p, k), float32, the last axis contiguous.
"""

# mypy: allow-incomplete-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernelfields.kernels.tensors import float32_products

#: Columns of A that are cut at once.
_DEPTH = 2048
_WIDTH = 1024


@triton.jit(do_not_specialize=["n_columns", "stride"])
def _cut(source, high, low, n_columns, stride, width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * width + tl.arange(0, width)
    inside = column < n_columns
    values = tl.load(source + row * stride + column, mask=inside, other=0.0)
    bits = values.to(tl.int32, bitcast=True)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).to(tl.float32, bitcast=True)
    place = row * n_columns + column
    tl.store(high + place, rounded, mask=inside)
    tl.store(low + place, values - rounded, mask=inside)


def cut(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 values rounded to 11 significant bits, ties to even, and what that leaves of them."""
    high, low = (torch.empty(values.shape, dtype=torch.float32, device=values.device) for _ in range(2))
    grid = (values.shape[0], triton.cdiv(values.shape[1], _WIDTH))
    _cut[grid](values, high, low, values.shape[1], values.stride(0), _WIDTH)
    return high, low


def subtract_product(block: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Take A B^T from a block in place."""
    if len(block) == 0:
        return
    with float32_products("tf32"):
        for begin in range(0, left.shape[1], _DEPTH):
            columns = slice(begin, begin + _DEPTH)
            left_high, left_low = cut(left[:, columns])
            right_high, right_low = cut(right[:, columns])
            for one, other in ((left_high, right_high), (left_high, right_low), (left_low, right_high)):
                block.addmm_(one, other.T, alpha=-1.0)
