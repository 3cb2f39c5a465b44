"""Triton kernels for CUDA devices: the scaled passes of chains for tied transitions, and products in float32.

Passes: a program computes a block of sequences, forward and back, step by step with one small product each: two
launches whatever the length, where the plain twin needs some for each step. Rows are in the order of the chains, so
nothing is gathered; programs have sequences of about one length, the longest first. Labels are padded to a power of
two; padded ones have probability zero and are never stored. Arrays: float64, (N, L), contiguous; transfer (1, L, L).
Cost O(N L^2).

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

from kernelfields.engines.torch.steps import DeviceSteps
from kernelfields.inference.chain.step_passes import LEAST_MARGINAL
from kernelfields.inference.packing import LEAST_SCALE, TINY
from kernelfields.kernels.tensors import float32_products

_TINY, _LEAST_SCALE = tl.constexpr(TINY), tl.constexpr(LEAST_SCALE)
_LEAST_MARGINAL = tl.constexpr(LEAST_MARGINAL)
# Entries of the block of rows, sequences times labels, that a program holds; a product has at least so many rows.
_BLOCK_ENTRIES, _LEAST_SIDE = 1024, 16
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
    """Load T(a, b) as (b, a)."""
    inside = (labels[:, None] < n_labels) & (labels[None, :] < n_labels)
    return tl.load(pointer + labels[None, :] * n_labels + labels[:, None], mask=inside, other=0.0)


@triton.jit
def _own_sequences(starts, lengths, n_sequences, at_once: tl.constexpr):
    """Load begins and lengths of the sequences of a program; the first is the longest."""
    first = tl.program_id(0) * at_once
    rank = first + tl.arange(0, at_once)
    there = rank < n_sequences
    start = tl.load(starts + rank, mask=there, other=0)
    length = tl.load(lengths + rank, mask=there, other=0)
    return rank, there, start, length, tl.load(lengths + first)


@triton.jit
def _forward_backward(
    node,
    transfer,
    shift,
    starts,
    lengths,
    alpha,
    inverse_predicted,
    marginals,
    log_partition,
    low,
    n_sequences,
    n_labels,
    width: tl.constexpr,
    at_once: tl.constexpr,
):
    rank, there, start, length, longest = _own_sequences(starts, lengths, n_sequences, at_once)
    labels = tl.arange(0, width)
    inside = labels < n_labels
    steps = _matrix(transfer, labels, n_labels)
    shift_per_step = tl.load(shift)

    row = start[:, None] * n_labels + labels[None, :]
    here = there[:, None] & inside[None, :]
    scores = tl.load(node + row, mask=here, other=-float("inf"))
    top = tl.max(scores, axis=1)
    current = tl.exp(scores - top[:, None])
    scale = tl.sum(current, axis=1)
    current = current / scale[:, None]
    total = tl.log(scale) + top
    fine = scale > _LEAST_SCALE
    lowest = tl.min(tl.where(inside[None, :], current, 1.0), axis=1)
    tl.store(alpha + row, current, mask=here)
    tl.store(inverse_predicted + row, tl.zeros_like(current), mask=here)
    # Rows are read a step ahead, so that nothing waits for memory.
    here = (length > 1)[:, None] & inside[None, :]
    following = tl.load(node + row + n_labels, mask=here, other=-float("inf"))
    for t in range(1, longest):
        active = t < length
        here = active[:, None] & inside[None, :]
        row = (start[:, None] + t) * n_labels + labels[None, :]
        scores = following
        then = (t + 1 < length)[:, None] & inside[None, :]
        following = tl.load(node + row + n_labels, mask=then, other=-float("inf"))
        predicted = tl.dot(current, steps)
        top = tl.max(scores, axis=1)
        moved = predicted * tl.exp(scores - top[:, None])
        scale = tl.sum(moved, axis=1)
        moved = moved / scale[:, None]
        current = tl.where(active[:, None], moved, current)
        total = tl.where(active, total + (tl.log(scale) + top + shift_per_step), total)
        fine = fine & ((scale > _LEAST_SCALE) | (t >= length))
        lowest = tl.minimum(lowest, tl.min(tl.where(here, current, 1.0), axis=1))
        tl.store(alpha + row, current, mask=here)
        tl.store(inverse_predicted + row, tl.where(predicted > 0.0, 1.0 / predicted, 0.0), mask=here)
    # What other threads of this program stored is read below.
    tl.debug_barrier()

    steps = _transposed(transfer, labels, n_labels)
    row = (start[:, None] + length[:, None] - 1) * n_labels + labels[None, :]
    tl.store(marginals + row, current, mask=there[:, None] & inside[None, :])
    row = (start[:, None] + longest - 1) * n_labels + labels[None, :]
    here = (longest <= length)[:, None] & (longest > 1) & inside[None, :]
    inverse = tl.load(inverse_predicted + row, mask=here, other=0.0)
    before = tl.load(alpha + row - n_labels, mask=here, other=0.0)
    for back in range(1, longest):
        t = longest - back
        active = t < length
        here = active[:, None] & inside[None, :]
        row = (start[:, None] + t - 1) * n_labels + labels[None, :]
        gamma = current * inverse
        filtered = before
        then = (t - 1 < length)[:, None] & (t > 1) & inside[None, :]
        inverse = tl.load(inverse_predicted + row, mask=then, other=0.0)
        before = tl.load(alpha + row - n_labels, mask=then, other=0.0)
        future = tl.dot(gamma, steps)
        current = tl.where(active[:, None], filtered * future, current)
        fine = fine & ((tl.sum(current, axis=1) < float("inf")) | (t >= length))
        tl.store(marginals + row, current, mask=here)
    tl.store(log_partition + rank, tl.where(fine, total, float("nan")), mask=there)
    tl.store(low + rank, lowest < _TINY, mask=there)


@triton.jit
def _score_expectations(
    d_node,
    transfer,
    transfer_times_d_edge,
    starts,
    lengths,
    alpha,
    inverse_predicted,
    marginals,
    past,
    ahead,
    d_marginals,
    n_sequences,
    n_labels,
    width: tl.constexpr,
    at_once: tl.constexpr,
):
    _, there, start, length, longest = _own_sequences(starts, lengths, n_sequences, at_once)
    labels = tl.arange(0, width)
    inside = labels < n_labels
    steps = _matrix(transfer, labels, n_labels)
    moved = _matrix(transfer_times_d_edge, labels, n_labels)

    row = start[:, None] * n_labels + labels[None, :]
    here = there[:, None] & inside[None, :]
    before = tl.load(d_node + row, mask=here, other=0.0)
    filtered = tl.load(alpha + row, mask=here, other=0.0)
    tl.store(past + row, before, mask=here)
    for t in range(1, longest):
        active = t < length
        here = active[:, None] & inside[None, :]
        expected = tl.dot(filtered * before, steps) + tl.dot(filtered, moved)
        row = (start[:, None] + t) * n_labels + labels[None, :]
        inverse = tl.load(inverse_predicted + row, mask=here, other=0.0)
        reached = tl.load(d_node + row, mask=here, other=0.0) + expected * inverse
        before = tl.where(active[:, None], reached, before)
        filtered = tl.where(active[:, None], tl.load(alpha + row, mask=here, other=0.0), filtered)
        tl.store(past + row, before, mask=here)
    # What other threads of this program stored is read below.
    tl.debug_barrier()

    steps = _transposed(transfer, labels, n_labels)
    moved = _transposed(transfer_times_d_edge, labels, n_labels)
    row = (start[:, None] + length[:, None] - 1) * n_labels + labels[None, :]
    here = there[:, None] & inside[None, :]
    probabilities = tl.load(marginals + row, mask=here, other=0.0)
    direction = tl.load(d_node + row, mask=here, other=0.0)
    mean = tl.sum(probabilities * before, axis=1)
    after = tl.zeros_like(before)
    tl.store(d_marginals + row, probabilities * (before - mean[:, None]), mask=here)
    tl.store(ahead + row, direction - mean[:, None], mask=here)
    for back in range(1, longest):
        t = longest - back
        active = t < length
        here = active[:, None] & inside[None, :]
        row = (start[:, None] + t) * n_labels + labels[None, :]
        gamma = probabilities * tl.load(inverse_predicted + row, mask=here, other=0.0)
        expected = tl.dot(gamma * (direction + after), steps) + tl.dot(gamma, moved)
        row -= n_labels
        earlier = tl.load(marginals + row, mask=here, other=0.0)
        counts = earlier >= _LEAST_MARGINAL
        ratio = tl.load(alpha + row, mask=here, other=0.0) / tl.where(counts, earlier, 1.0)
        after = tl.where(active[:, None], tl.where(counts, expected * ratio, 0.0), after)
        probabilities = tl.where(active[:, None], earlier, probabilities)
        direction = tl.where(active[:, None], tl.load(d_node + row, mask=here, other=0.0), direction)
        before = tl.load(past + row, mask=here, other=0.0)
        tl.store(d_marginals + row, probabilities * (before + after - mean[:, None]), mask=here)
        tl.store(ahead + row, direction + after - mean[:, None], mask=here)


def _shape(n_labels: int) -> dict[str, int]:
    """Return the padded width, the number of sequences of a program, and its warps."""
    width = max(_LEAST_SIDE, triton.next_power_of_2(n_labels))
    at_once = max(_LEAST_SIDE, _BLOCK_ENTRIES // width)
    return {"width": width, "at_once": at_once, "num_warps": 4}


def forward_backward(
    node: torch.Tensor,
    transfer: torch.Tensor,
    shift: torch.Tensor,
    steps: DeviceSteps,
    alpha: torch.Tensor,
    inverse_predicted: torch.Tensor,
    marginals: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fill the arrays; return log partitions by rank, (S,), NaN outside the range of doubles, and flags ``low``."""
    n_sequences, n_labels = steps.order.n_sequences, node.shape[1]
    log_partition = node.new_empty(n_sequences)
    low = torch.zeros(n_sequences, dtype=torch.bool, device=node.device)
    if n_sequences:
        with torch.cuda.device_of(node):
            shape = _shape(n_labels)
            _forward_backward[(triton.cdiv(n_sequences, shape["at_once"]),)](
                node,
                transfer,
                shift,
                steps.starts,
                steps.lengths,
                alpha,
                inverse_predicted,
                marginals,
                log_partition,
                low,
                n_sequences,
                n_labels,
                **shape,
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
    n_sequences, shape = steps.order.n_sequences, _shape(d_node.shape[1])
    if n_sequences:
        with torch.cuda.device_of(d_node):
            _score_expectations[(triton.cdiv(n_sequences, shape["at_once"]),)](
                d_node.contiguous(),
                transfer,
                transfer_times_d_edge.contiguous(),
                steps.starts,
                steps.lengths,
                alpha,
                inverse_predicted,
                marginals,
                past,
                ahead,
                d_marginals,
                n_sequences,
                d_node.shape[1],
                **shape,
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
    """Split float32 values into 11 significant bits, halves to even, and the remainders."""
    high, low = (torch.empty(values.shape, dtype=torch.float32, device=values.device) for _ in range(2))
    grid = (values.shape[0], triton.cdiv(values.shape[1], _WIDTH))
    _cut[grid](values, high, low, values.shape[1], values.stride(0), _WIDTH)
    return high, low


def subtract_product(block: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Subtract A B^T from a block in place."""
    if len(block) == 0:
        return
    with float32_products("tf32"):
        for begin in range(0, left.shape[1], _DEPTH):
            columns = slice(begin, begin + _DEPTH)
            left_high, left_low = cut(left[:, columns])
            right_high, right_low = cut(right[:, columns])
            for one, other in ((left_high, right_high), (left_high, right_low), (left_low, right_high)):
                block.addmm_(one, other.T, alpha=-1.0)
