"""The scaled passes of passes.py as Triton kernels, for tied transitions on a CUDA device.

One program walks one sequence, forward and back, with the transfer matrix in registers: two launches whatever the
length, where the plain twin needs some for each step. Labels are padded to a power of two; padded ones have
probability zero and are never stored. Positions stand in step-major order, so neighbouring programs read
neighbouring rows.

Arrays: float64, (N, L), contiguous; transfer (1, L, L). Cost O(N L^2), a program for each of the S sequences.
"""

# mypy: allow-incomplete-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernelfields.engines.torch.passes import NO_SAY
from kernelfields.engines.torch.steps import DeviceSteps
from kernelfields.inference.packing import LEAST_SCALE, TINY

_TINY, _LEAST_SCALE = tl.constexpr(TINY), tl.constexpr(LEAST_SCALE)
_NO_SAY = tl.constexpr(NO_SAY)
# Matrix entries held by one warp of 32 threads: 32 doubles each.
_ENTRIES_PER_WARP = 1024


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
        heard = probabilities >= _NO_SAY
        after = tl.where(heard, expected * (filtered / tl.where(heard, probabilities, 1.0)), 0.0)
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
