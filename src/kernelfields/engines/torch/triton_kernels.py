"""Triton kernels for CUDA devices: the scaled passes of passes.py for tied transitions, and products in float32.

Passes: one program computes one sequence, forward and back, with the transfer matrix in registers: two launches
whatever the length, where the plain twin needs some for each step. Labels are padded to a power of two; padded ones
have probability zero and are never stored. Positions are in step-major order, so neighbouring programs read
neighbouring rows. Arrays: float64, (N, L), contiguous; transfer (1, L, L). Cost O(N L^2), a program for each of the S
sequences.

Products: block <- block - A B^T in float32 with the matrix units of a device, about as accurate as float32 itself.

    A = A_h + A_l,   B = B_h + B_l,   parts of 11 bits each:     A B^T ~ A_h B_h^T + A_h B_l^T + A_l B_h^T

About 2^-22 of a term is lost, where products of float32 lose 2^-24, at several times their speed. A is cut in one pass
over it, some columns at a time. Arrays: block (n, p), A (n, k), B (p, k), float32, the last axis contiguous.
"""

# mypy: allow-incomplete-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernelfields.engines.torch.passes import NO_SAY
from kernelfields.engines.torch.steps import DeviceSteps
from kernelfields.inference.packing import LEAST_SCALE, TINY
from kernelfields.kernels.tensors import float32_products

_TINY, _LEAST_SCALE = tl.constexpr(TINY), tl.constexpr(LEAST_SCALE)
_NO_SAY = tl.constexpr(NO_SAY)
# Matrix entries held by one warp of 32 threads: 32 doubles each.
_ENTRIES_PER_WARP = 1024
#: Columns of A that are cut at once.
_DEPTH = 2048
_WIDTH = 1024


@triton.jit
def _matrix(pointer, labels, n_labels):
    """Load T(a, b) as (a, b), zero where padded."""
    inside = (labels[:, None] < n_labels) & (labels[None, :] < n_labels)
    return tl.load(pointer + labels[:, None] * n_labels + labels[None, :], mask=inside, other=0.0)


@triton.jit
def _transposed(pointer, labels, n_labels):
    """Load T(a, b) as (b, a): sums over the first axis stay within a thread, those over the second do not."""
    inside = (labels[:, None] < n_labels) & (labels[None, :] < n_labels)
    return tl.load(pointer + labels[None, :] * n_labels + labels[:, None], mask=inside, other=0.0)


@triton.jit
def _forward_backward(
    node,
    transfer,
    shift,
    begins,
    lengths,
    alpha,
    inverse_predicted,
    marginals,
    log_partition,
    low,
    n_labels,
    width: tl.constexpr,
):
    sequence = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + sequence)
    labels = tl.arange(0, width)
    inside = labels < n_labels
    steps = _matrix(transfer, labels, n_labels)
    shift_per_step = tl.load(shift)

    row = sequence * n_labels + labels
    scores = tl.load(node + row, mask=inside, other=-float("inf"))
    top = tl.max(scores, axis=0)
    current = tl.exp(scores - top)
    scale = tl.sum(current, axis=0)
    current = current / scale
    total = tl.log(scale) + top
    fine = scale > _LEAST_SCALE
    lowest = tl.min(tl.where(inside, current, 1.0), axis=0)
    tl.store(alpha + row, current, mask=inside)
    tl.store(inverse_predicted + row, tl.zeros_like(current), mask=inside)
    for t in range(1, length):
        row = (tl.load(begins + t) + sequence) * n_labels + labels
        scores = tl.load(node + row, mask=inside, other=-float("inf"))
        predicted = tl.sum(steps * current[:, None], axis=0)
        top = tl.max(scores, axis=0)
        current = predicted * tl.exp(scores - top)
        scale = tl.sum(current, axis=0)
        current = current / scale
        total += tl.log(scale) + top + shift_per_step
        fine = fine & (scale > _LEAST_SCALE)
        lowest = tl.minimum(lowest, tl.min(tl.where(inside, current, 1.0), axis=0))
        tl.store(alpha + row, current, mask=inside)
        tl.store(inverse_predicted + row, tl.where(predicted > 0.0, 1.0 / predicted, 0.0), mask=inside)
    # What other threads of this program stored is read below.
    tl.debug_barrier()

    steps = _transposed(transfer, labels, n_labels)
    tl.store(marginals + row, current, mask=inside)
    for back in range(1, length):
        t = length - back
        row = (tl.load(begins + t) + sequence) * n_labels + labels
        gamma = current * tl.load(inverse_predicted + row, mask=inside, other=0.0)
        future = tl.sum(steps * gamma[:, None], axis=0)
        row = (tl.load(begins + t - 1) + sequence) * n_labels + labels
        current = tl.load(alpha + row, mask=inside, other=0.0) * future
        fine = fine & (tl.sum(current, axis=0) < float("inf"))
        tl.store(marginals + row, current, mask=inside)
    tl.store(log_partition + sequence, tl.where(fine, total, float("nan")))
    tl.store(low + sequence, lowest < _TINY)


@triton.jit
def _score_expectations(
    d_node,
    transfer,
    transfer_times_d_edge,
    begins,
    lengths,
    alpha,
    inverse_predicted,
    marginals,
    past,
    ahead,
    d_marginals,
    n_labels,
    width: tl.constexpr,
):
    sequence = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + sequence)
    labels = tl.arange(0, width)
    inside = labels < n_labels
    steps = _matrix(transfer, labels, n_labels)
    moved = _matrix(transfer_times_d_edge, labels, n_labels)

    row = sequence * n_labels + labels
    before = tl.load(d_node + row, mask=inside, other=0.0)
    tl.store(past + row, before, mask=inside)
    for t in range(1, length):
        filtered = tl.load(alpha + row, mask=inside, other=0.0)
        weighted = filtered * before
        expected = tl.sum(steps * weighted[:, None] + moved * filtered[:, None], axis=0)
        row = (tl.load(begins + t) + sequence) * n_labels + labels
        inverse = tl.load(inverse_predicted + row, mask=inside, other=0.0)
        before = tl.load(d_node + row, mask=inside, other=0.0) + expected * inverse
        tl.store(past + row, before, mask=inside)
    # What other threads of this program stored is read below.
    tl.debug_barrier()

    steps = _transposed(transfer, labels, n_labels)
    moved = _transposed(transfer_times_d_edge, labels, n_labels)
    probabilities = tl.load(marginals + row, mask=inside, other=0.0)
    direction = tl.load(d_node + row, mask=inside, other=0.0)
    mean = tl.sum(probabilities * before, axis=0)
    after = tl.zeros_like(before)
    tl.store(d_marginals + row, probabilities * (before - mean), mask=inside)
    tl.store(ahead + row, direction - mean, mask=inside)
    for back in range(1, length):
        gamma = probabilities * tl.load(inverse_predicted + row, mask=inside, other=0.0)
        weighted = gamma * (direction + after)
        expected = tl.sum(steps * weighted[:, None] + moved * gamma[:, None], axis=0)
        row = (tl.load(begins + length - back - 1) + sequence) * n_labels + labels
        probabilities = tl.load(marginals + row, mask=inside, other=0.0)
        direction = tl.load(d_node + row, mask=inside, other=0.0)
        filtered = tl.load(alpha + row, mask=inside, other=0.0)
        counts = probabilities >= _NO_SAY
        after = tl.where(counts, expected * (filtered / tl.where(counts, probabilities, 1.0)), 0.0)
        before = tl.load(past + row, mask=inside, other=0.0)
        tl.store(d_marginals + row, probabilities * (before + after - mean), mask=inside)
        tl.store(ahead + row, direction + after - mean, mask=inside)


def _shape(n_labels: int, matrices: int) -> dict[str, int]:
    """Padded width, and as many warps as hold the matrices."""
    width = triton.next_power_of_2(n_labels)
    warps = max(1, min(16, matrices * width * width // _ENTRIES_PER_WARP))
    return {"width": width, "num_warps": warps, "enable_fp_fusion": True}


def forward_backward(
    node: torch.Tensor,
    transfer: torch.Tensor,
    shift: torch.Tensor,
    steps: DeviceSteps,
    alpha: torch.Tensor,
    inverse_predicted: torch.Tensor,
    marginals: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fill the arrays; return log partitions by rank, (S,), NaN where doubles do not do, and flags ``low``."""
    n_sequences, n_labels = steps.order.n_sequences, node.shape[1]
    log_partition = node.new_empty(n_sequences)
    low = torch.zeros(n_sequences, dtype=torch.bool, device=node.device)
    if n_sequences:
        with torch.cuda.device_of(node):
            _forward_backward[(n_sequences,)](
                node,
                transfer,
                shift,
                steps.begins,
                steps.lengths,
                alpha,
                inverse_predicted,
                marginals,
                log_partition,
                low,
                n_labels,
                **_shape(n_labels, 1),
            )
    return log_partition, low


def score_expectations(
    d_node: torch.Tensor,
    transfer: torch.Tensor,
    transfer_times_d_edge: torch.Tensor,
    steps: DeviceSteps,
    alpha: torch.Tensor,
    inverse_predicted: torch.Tensor,
    marginals: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return past = A, ahead = du + B - E and d_marginals = dm, (N, L) each."""
    past, ahead, d_marginals = (torch.empty_like(d_node) for _ in range(3))
    if steps.order.n_sequences:
        with torch.cuda.device_of(d_node):
            _score_expectations[(steps.order.n_sequences,)](
                d_node.contiguous(),
                transfer,
                transfer_times_d_edge.contiguous(),
                steps.begins,
                steps.lengths,
                alpha,
                inverse_predicted,
                marginals,
                past,
                ahead,
                d_marginals,
                d_node.shape[1],
                **_shape(d_node.shape[1], 2),
            )
    return past, ahead, d_marginals


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
