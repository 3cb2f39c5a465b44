"""The Triton kernels of masked_chains.py: sums over labellings, and losses with their gradients.

    _sum_labellings     one program for each item and each sum: forward and back along the positions of the item
    _reduce_losses      one program: losses of items, their mean or sum, its derivatives, and a report of bad items
    _combine_marginals  the gradient of the scores: weighted differences of marginals

Tables of pairs of labels stay in registers. A step is a product with exp(w - c), c the maxima of columns of w, taken
once: it costs one exponential for each label. Where a sum of such products is smaller than LEAST, or scores of steps
differ by position, the step is taken in logarithms, with one exponential for each pair. Labels are padded to a power
of two; padded ones have scores of minus infinity and are never stored.
"""

# mypy: allow-incomplete-defs

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

#: Sums of products below this one may have lost terms to underflow: logarithms replace them.
LEAST = tl.constexpr(1e-200)
#: How losses of items become one number, in the order of the kernel.
REDUCTIONS = "none", "mean", "token_mean", "sum"


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


@triton.jit
def _load_table(steps, pairs, row, cells, square, n_labels, tied: tl.constexpr):
    """Load the scores of steps into a position, minus infinity for padded labels."""
    table = tl.load(steps + cells, mask=square, other=-float("inf")).to(tl.float64)
    if not tied:
        table += tl.load(pairs + row * n_labels * n_labels + cells, mask=square, other=0.0).to(tl.float64)
    return table


@triton.jit(do_not_specialize=["first_kind", "ignored", "n_time", "n_items"])
def _sum_labellings(
    scores,
    inside,
    lengths,
    known,
    steps,
    start,
    end,
    pairs,
    marginals,
    tables,
    totals,
    log_partition,
    counts,
    flags,
    n_time,
    n_labels,
    n_items,
    first_kind,
    ignored,
    width: tl.constexpr,
    tied: tl.constexpr,
    sets: tl.constexpr,
    masked: tl.constexpr,
    cut: tl.constexpr,
    ignores: tl.constexpr,
):
    item = tl.program_id(0).to(tl.int64)
    kind = tl.program_id(1).to(tl.int64)
    fits = kind + first_kind
    labels = tl.arange(0, width)
    real = labels < n_labels
    square = real[:, None] & real[None, :]
    cells = labels[:, None] * n_labels + labels[None, :]
    base = item * n_time
    place = kind * n_items + item
    own = marginals + place * n_time * n_labels
    flags += place * n_time

    first, stop, n_selected, n_inside = n_time, 0, 0, 0
    for block in range(0, n_time, 128):
        t = block + tl.arange(0, 128)
        exists = t < n_time
        on = exists
        if cut:
            on = on & (t < tl.load(lengths + item))
        if masked:
            on = on & (tl.load(inside + base + t, mask=exists, other=0) != 0)
        n_selected += tl.sum(on.to(tl.int32), axis=0)
        if ignores:
            on = on & (tl.load(known + base + t, mask=exists, other=0) != ignored)
        n_inside += tl.sum(on.to(tl.int32), axis=0)
        first = tl.minimum(first, tl.min(tl.where(on, t, n_time), axis=0))
        stop = tl.maximum(stop, tl.max(tl.where(on, t + 1, 0), axis=0))
        tl.store(flags + t, on.to(tl.uint8), mask=exists)
    first = tl.where(stop > 0, first, 0)
    has_gaps = n_inside < stop - first
    here = labels < tl.where(stop > 0, n_labels, 0)
    if kind == 0:
        tl.store(counts + item, n_selected)
        tl.store(counts + n_items + item, n_inside)
    # What other threads of this program stored is read below.
    tl.debug_barrier()

    ends = tl.load(end + labels, mask=real, other=-float("inf")).to(tl.float64)
    if tied:
        table = _load_table(steps, pairs, base, cells, square, n_labels, tied)
        columns = tl.max(table, axis=0)
        has_column = real & (columns > -float("inf"))
        has_row = real & (tl.max(table, axis=1) > -float("inf"))
        columns = _finite(columns)
        factors = tl.exp(table - columns[None, :])

    alpha = _load_scores(scores, known, base + first, labels, here, n_labels, fits, sets)
    alpha += tl.load(start + labels, mask=real, other=-float("inf")).to(tl.float64)
    alpha = tl.where(first + 1 == stop, alpha + ends, alpha)
    total = tl.max(alpha, axis=0)
    alpha -= _finite(total)
    tl.store(own + first * n_labels + labels, alpha, mask=here)
    present = _load_scores(scores, known, base + tl.minimum(first + 1, n_time - 1), labels, here, n_labels, fits, sets)
    for t in range(first + 1, stop):
        following = _load_scores(
            scores, known, base + tl.minimum(t + 1, n_time - 1), labels, here, n_labels, fits, sets
        )
        goes_on = 1
        if has_gaps:
            goes_on = tl.load(flags + t).to(tl.int32)
        if goes_on != 0:
            reached = alpha
            exact = True
            if tied:
                sums = tl.sum(tl.exp(alpha)[:, None] * factors, axis=0)
                exact = not (tl.min(tl.where(has_column, sums, 1.0), axis=0) >= LEAST)
                reached = columns + tl.log(sums)
            if exact:
                joint = alpha[:, None] + _load_table(steps, pairs, base + t, cells, square, n_labels, tied)
                top = _finite(tl.max(joint, axis=0))
                reached = top + tl.log(tl.sum(tl.exp(joint - top[None, :]), axis=0))
            reached += present
            reached = tl.where(t + 1 == stop, reached + ends, reached)
            peak = tl.max(reached, axis=0)
            total += peak
            alpha = reached - _finite(peak)
            tl.store(own + t * n_labels + labels, alpha, mask=here)
        present = following
    tl.debug_barrier()

    scale = tl.log(tl.sum(tl.exp(alpha), axis=0))
    tl.store(log_partition + place, tl.where(stop > 0, total + scale, 0.0))
    after = stop - 1
    last = tl.where(here, tl.exp(alpha - _finite(scale)), 0.0)
    tl.store(own + after * n_labels + labels, last, mask=here)
    ahead = _load_scores(scores, known, base + tl.maximum(after, 0), labels, here, n_labels, fits, sets) + ends
    sums_of_steps = tl.zeros((width, width), dtype=tl.float64)
    share_of_labels = last
    earlier = tl.maximum(stop - 2, 0)
    present = _load_scores(scores, known, base + earlier, labels, here, n_labels, fits, sets)
    before = tl.load(own + earlier * n_labels + labels, mask=here, other=-float("inf"))
    for back in range(stop - 1 - first):
        t = stop - 2 - back
        earlier = tl.maximum(t - 1, 0)
        following = _load_scores(scores, known, base + earlier, labels, here, n_labels, fits, sets)
        before_that = tl.load(own + earlier * n_labels + labels, mask=here, other=-float("inf"))
        goes_on = 1
        if has_gaps:
            goes_on = tl.load(flags + t).to(tl.int32)
        if goes_on != 0:
            exact = True
            top = tl.zeros((width,), dtype=tl.float64)
            tile = sums_of_steps
            sums = top
            if tied:
                shifted = columns + ahead
                peak = _finite(tl.max(tl.where(real, shifted, -float("inf")), axis=0))
                tile = factors * tl.where(real, tl.exp(shifted - peak), 0.0)[None, :]
                sums = tl.sum(tile, axis=1)
                top += peak
                exact = not (tl.min(tl.where(has_row, sums, 1.0), axis=0) >= LEAST)
            if exact:
                joint = _load_table(steps, pairs, base + after, cells, square, n_labels, tied) + ahead[None, :]
                top = _finite(tl.max(joint, axis=1))
                tile = tl.exp(joint - top[:, None])
                sums = tl.sum(tile, axis=1)
            logs = tl.log(sums)
            before += top
            reached = before + logs
            peak = _finite(tl.max(reached, axis=0))
            whole = _finite(peak + tl.log(tl.sum(tl.exp(reached - peak), axis=0)))
            share = tl.where(sums > 0.0, tl.exp(before - whole), 0.0)
            if tied:
                sums_of_steps += share[:, None] * tile
            else:
                row = (place * n_time + after) * n_labels * n_labels
                tl.store(tables + row + cells, share[:, None] * tile, mask=square)
            share_of_labels = share * sums
            tl.store(own + t * n_labels + labels, share_of_labels, mask=here)
            behind = top + logs
            behind -= _finite(tl.max(behind, axis=0))
            ahead = behind + present
            after = t
        present = following
        before = before_that
    if tied:
        rows = totals + place * (n_labels + 2) * n_labels
        tl.store(rows + cells, sums_of_steps, mask=square)
        tl.store(rows + n_labels * n_labels + labels, tl.where(here, share_of_labels, 0.0), mask=real)
        tl.store(rows + (n_labels + 1) * n_labels + labels, last, mask=real)


@triton.jit(do_not_specialize=["n_items"])
def _reduce_losses(log_partition, counts, value, weights, report, n_items, reduction: tl.constexpr):
    total, count, worst = tl.full((), 0.0, tl.float64), tl.full((), 0.0, tl.float64), 4 * n_items
    for block in range(0, n_items, 256):
        item = block + tl.arange(0, 256)
        here = item < n_items
        every = tl.load(log_partition + item, mask=here, other=0.0)
        loss = every - tl.load(log_partition + n_items + item, mask=here, other=0.0)
        reason = tl.where(loss == loss, 1, 0)
        # The difference of two sums that are nearly equal may be below zero by their rounding.
        loss = tl.where(loss < 0.0, 0.0, loss)
        is_empty = here & (tl.load(counts + item, mask=here, other=1) == 0)
        loss = tl.where(is_empty, float("nan"), loss)
        n_inside = tl.load(counts + n_items + item, mask=here, other=0)
        if reduction == 0:
            tl.store(value + item, loss, mask=here)
        total += tl.sum(tl.where(here, loss, 0.0), axis=0)
        if reduction == 1:
            count += tl.sum(tl.where(here & (n_inside > 0), 1.0, 0.0), axis=0)
        if reduction == 2:
            count += tl.sum(tl.where(here, n_inside, 0).to(tl.float64), axis=0)
        is_wrong = here & ((loss != loss) | (loss == float("inf")))
        code = 4 * item + tl.where(is_empty, 2, reason)
        worst = tl.minimum(worst, tl.min(tl.where(is_wrong, code, 4 * n_items), axis=0))
    # Of no reduction and of a sum, the count is zero.
    count = tl.maximum(count, 1.0)
    if reduction != 0:
        tl.store(value, total / count)
    found = worst < 4 * n_items
    tl.store(report, found.to(tl.int64))
    tl.store(report + 1, tl.where(found, worst // 4, 0).to(tl.int64))
    tl.store(report + 2, tl.where(found, worst % 4, 0).to(tl.int64))
    for block in range(0, n_items, 256):
        item = block + tl.arange(0, 256)
        here = item < n_items
        loss = tl.load(log_partition + item, mask=here, other=0.0)
        loss -= tl.load(log_partition + n_items + item, mask=here, other=0.0)
        is_empty = tl.load(counts + item, mask=here, other=0) == 0
        weight = tl.where(is_empty | (loss < 0.0), 0.0, 1.0 / count)
        tl.store(weights + item, weight, mask=here)
        tl.store(weights + n_items + item, -weight, mask=here)


@triton.jit(do_not_specialize=["n_items", "n_time"])
def _combine_marginals(marginals, flags, weights, gradient, n_time, n_labels, n_items, block: tl.constexpr):
    item = tl.program_id(0).to(tl.int64)
    cell = tl.program_id(1) * block + tl.arange(0, block)
    here = cell < n_time * n_labels
    on = here & (tl.load(flags + item * n_time + cell // n_labels, mask=here, other=0) != 0)
    row = item * n_time * n_labels + cell
    every = tl.load(marginals + row, mask=on, other=0.0)
    fitting = tl.load(marginals + n_items * n_time * n_labels + row, mask=on, other=0.0)
    found = tl.load(weights + item) * every + tl.load(weights + n_items + item) * fitting
    tl.store(gradient + row, tl.where(on, found, 0.0), mask=here)


def sum_labellings(chains: Any, kinds: tuple[int, ...], *, with_zeros: bool = True) -> dict[str, torch.Tensor]:
    """Return sums over all labellings (0), consistent labellings (1), or both, by name; see masked_chains.py.

    ``chains`` are a MaskedChains. ``counts`` (2, B) are how many positions of each item a mask and lengths select, and
    how many are inside; ``flags`` (K, B, T) say which. Without ``with_zeros``, marginals of positions that are not
    inside are not written.
    """
    scores, known, pairs = chains.scores.contiguous(), chains.known, chains.pairs
    (n_items, n_time, n_labels), tied, n_kinds = scores.shape, pairs is None, len(kinds)
    sets = known is not None and known.dtype == torch.bool
    options: dict[str, Any] = {"dtype": torch.float64, "device": scores.device}
    make_marginals = torch.zeros if with_zeros else torch.empty
    found = {
        "log_partition": torch.empty((n_kinds, n_items), **options),
        "marginals": make_marginals((n_kinds, n_items, n_time, n_labels), **options),
        "counts": torch.empty((2, n_items), dtype=torch.int32, device=scores.device),
        "flags": torch.empty((n_kinds, n_items, n_time), dtype=torch.uint8, device=scores.device),
    }
    if tied:
        found["totals"] = torch.empty((n_kinds, n_items, n_labels + 2, n_labels), **options)
    else:
        found["tables"] = torch.zeros((n_kinds, n_items, n_time, n_labels, n_labels), **options)
    # Arguments that a batch does not have are never read.
    nothing = found["flags"]
    labels = nothing if known is None else known.contiguous()
    inside = nothing if chains.inside is None else chains.inside.contiguous()
    width = max(16, triton.next_power_of_2(n_labels))
    with torch.cuda.device_of(scores):
        _sum_labellings[(n_items, n_kinds)](
            scores,
            inside.view(torch.uint8),
            nothing if chains.lengths is None else chains.lengths.contiguous(),
            labels.view(torch.uint8) if sets else labels,
            chains.steps.contiguous(),
            chains.start.contiguous(),
            chains.end.contiguous(),
            scores if pairs is None else pairs.contiguous(),
            found["marginals"],
            found.get("tables", nothing),
            found.get("totals", nothing),
            found["log_partition"],
            found["counts"],
            nothing,
            n_time,
            n_labels,
            n_items,
            kinds[0],
            0 if chains.ignored is None else chains.ignored,
            width=width,
            tied=tied,
            sets=sets,
            masked=chains.inside is not None,
            cut=chains.lengths is not None,
            ignores=chains.ignored is not None and known is not None and not sets,
            num_warps={16: 1}.get(width, 8),
        )
    return found


def reduce_losses(
    log_partition: torch.Tensor, counts: torch.Tensor, reduction: str, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the loss (B,) or (), its derivatives by the log partitions (2, B), and the report of bad items (3,)."""
    n_items, options = log_partition.shape[1], {"device": log_partition.device}
    value = torch.empty((n_items,) if reduction == "none" else (), dtype=dtype, **options)
    weights = torch.empty_like(log_partition)
    report = torch.empty(3, dtype=torch.int64, **options)
    with torch.cuda.device_of(log_partition):
        code = REDUCTIONS.index(reduction)
        _reduce_losses[(1,)](log_partition, counts, value, weights, report, n_items, reduction=code)
    return value, weights, report


def combine_marginals(
    marginals: torch.Tensor, flags: torch.Tensor, weights: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Return the weighted sums of the two marginals of each position, (B, T, L), zero at positions not inside."""
    _, n_items, n_time, n_labels = marginals.shape
    gradient = torch.empty((n_items, n_time, n_labels), dtype=dtype, device=marginals.device)
    block = 1024
    with torch.cuda.device_of(marginals):
        _combine_marginals[(n_items, triton.cdiv(n_time * n_labels, block))](
            marginals, flags, weights.contiguous(), gradient, n_time, n_labels, n_items, block=block
        )
    return gradient
