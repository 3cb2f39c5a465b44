"""The Triton kernel of masked_chains.py: one program for each item, and each sum over labellings.

It goes over the positions of its item forward and back, skips those that are not inside, and holds tables of pairs of
labels in registers, so that a step costs one exponential for each pair. Labels are padded to a power of two; padded
ones have scores of minus infinity and are never stored.
"""

# mypy: allow-incomplete-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _finite(values):
    """Return values with 0 for minus infinity."""
    return tl.where(values == -float("inf"), 0.0, values)


@triton.jit
def _load_scores(scores, known, row, labels, here, n_labels, fits, sets: tl.constexpr):
    """Load the scores of a position, minus infinity for excluded labels."""
    own = tl.load(scores + row * n_labels + labels, mask=here, other=-float("inf")).to(tl.float64)
    if sets:
        allowed = tl.load(known + row * n_labels + labels, mask=here, other=0) != 0
    else:
        label = tl.load(known + row).to(tl.int64)
        allowed = (label == -1) | (labels == label)
    return tl.where(allowed | (fits == 0), own, -float("inf"))


@triton.jit(do_not_specialize=["first_kind"])
def _sum_labellings(
    scores,
    inside,
    known,
    firsts,
    stops,
    steps,
    start,
    end,
    pairs,
    marginals,
    expected,
    log_partition,
    n_time,
    n_labels,
    n_items,
    first_kind,
    width: tl.constexpr,
    tied: tl.constexpr,
    sets: tl.constexpr,
):
    item = tl.program_id(0).to(tl.int64)
    kind = tl.program_id(1).to(tl.int64)
    fits = kind + first_kind
    labels = tl.arange(0, width)
    real = labels < n_labels
    square = real[:, None] & real[None, :]
    cells = labels[:, None] * n_labels + labels[None, :]
    table = tl.load(steps + cells, mask=square, other=-float("inf"))
    ends = tl.load(end + labels, mask=real, other=-float("inf"))
    first = tl.load(firsts + item)
    stop = tl.load(stops + item)
    base = item * n_time
    place = kind * n_items + item
    own = marginals + place * n_time * n_labels
    here = real & (stop > 0)

    alpha = _load_scores(scores, known, base + first, labels, here, n_labels, fits, sets)
    alpha += tl.load(start + labels, mask=real, other=-float("inf"))
    alpha = tl.where(first + 1 == stop, alpha + ends, alpha)
    total = tl.max(alpha, axis=0)
    alpha -= _finite(total)
    tl.store(own + first * n_labels + labels, alpha, mask=here)
    for t in range(first + 1, stop):
        if tl.load(inside + base + t) != 0:
            joint = alpha[:, None] + table
            if not tied:
                joint += tl.load(pairs + (base + t) * n_labels * n_labels + cells, mask=square, other=0.0)
            top = _finite(tl.max(joint, axis=0))
            reached = top + tl.log(tl.sum(tl.exp(joint - top[None, :]), axis=0))
            reached += _load_scores(scores, known, base + t, labels, here, n_labels, fits, sets)
            reached = tl.where(t + 1 == stop, reached + ends, reached)
            peak = tl.max(reached, axis=0)
            total += peak
            alpha = reached - _finite(peak)
            tl.store(own + t * n_labels + labels, alpha, mask=here)
    # What other threads of this program stored is read below.
    tl.debug_barrier()

    scale = tl.log(tl.sum(tl.exp(alpha), axis=0))
    tl.store(log_partition + place, total + scale)
    after = stop - 1
    tl.store(own + after * n_labels + labels, tl.exp(alpha - _finite(scale)), mask=here)
    ahead = _load_scores(scores, known, base + tl.maximum(after, 0), labels, here, n_labels, fits, sets) + ends
    sums_of_steps = tl.zeros((width, width), dtype=tl.float64)
    for back in range(stop - 1 - first):
        t = stop - 2 - back
        if tl.load(inside + base + t) != 0:
            joint = table + ahead[None, :]
            if not tied:
                joint += tl.load(pairs + (base + after) * n_labels * n_labels + cells, mask=square, other=0.0)
            top = _finite(tl.max(joint, axis=1))
            tile = tl.exp(joint - top[:, None])
            sums = tl.sum(tile, axis=1)
            logs = tl.log(sums)
            before = tl.load(own + t * n_labels + labels, mask=here, other=-float("inf")) + top
            reached = before + logs
            peak = _finite(tl.max(reached, axis=0))
            whole = _finite(peak + tl.log(tl.sum(tl.exp(reached - peak), axis=0)))
            share = tl.where(sums > 0.0, tl.exp(before - whole), 0.0)
            tile = share[:, None] * tile
            if tied:
                sums_of_steps += tile
            else:
                row = (place * n_time + after) * n_labels * n_labels
                tl.store(expected + row + cells, tile, mask=square)
            tl.store(own + t * n_labels + labels, share * sums, mask=here)
            behind = top + logs
            behind -= _finite(tl.max(behind, axis=0))
            ahead = behind + _load_scores(scores, known, base + t, labels, here, n_labels, fits, sets)
            after = t
    if tied:
        tl.store(expected + place * n_labels * n_labels + cells, sums_of_steps, mask=square)


def sum_labellings(
    scores: torch.Tensor,
    inside: torch.Tensor,
    known: torch.Tensor | None,
    steps: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    pairs: torch.Tensor | None,
    bounds: tuple[torch.Tensor, torch.Tensor],
    kinds: tuple[int, ...],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log partitions, marginals and expected steps over all labellings (0), consistent labellings (1), or both.

    ``bounds`` are the first position of each item and the one after its last.
    """
    scores, (n_items, n_time, n_labels), (firsts, stops) = scores.contiguous(), scores.shape, bounds
    tied, sets = pairs is None, known is not None and known.dtype == torch.bool
    options = {"dtype": torch.float64, "device": scores.device}
    marginals = torch.zeros((len(kinds), n_items, n_time, n_labels), **options)
    shape = (n_labels, n_labels) if tied else (n_time, n_labels, n_labels)
    expected = (torch.empty if tied else torch.zeros)((len(kinds), n_items, *shape), **options)
    log_partition = torch.empty((len(kinds), n_items), **options)
    inside = inside.contiguous().view(torch.uint8)
    labels = inside if known is None else known.contiguous()
    width = max(16, triton.next_power_of_2(n_labels))
    with torch.cuda.device_of(scores):
        _sum_labellings[(n_items, len(kinds))](
            scores,
            inside,
            labels.view(torch.uint8) if sets else labels,
            firsts,
            stops,
            steps.double().contiguous(),
            start.double().contiguous(),
            end.double().contiguous(),
            scores if pairs is None else pairs.contiguous(),
            marginals,
            expected,
            log_partition,
            n_time,
            n_labels,
            n_items,
            kinds[0],
            width=width,
            tied=tied,
            sets=sets,
            num_warps={16: 1, 32: 4}.get(width, 8),
        )
    return torch.where(stops > 0, log_partition, 0.0), marginals, expected
