"""Sums over labellings of padded chains with masks on a device, of which nothing is read back.

    scores (B, T, L), inside (B, T): the chain of an item are its positions inside, whatever lies between
    log_partition (K, B), marginals (K, B, T, L), steps (K, B, L, L), or (K, B, T, L, L) for scores of pairs
    loss = log_partition[0] - log_partition[1], reduced; its gradients are differences of marginals

For k = 0 sums are over all labellings, for k = 1 over those that fit what is known: numbers of labels (B, T), -1 if a
label is not known, or sets (B, T, L). Recursions are in log space, shifted to a maximum of zero at every position:

    d_t(b) = u_t(b) + log sum_a exp(d_s(a) + w_t(a, b))                         s the position before t
    p(y_s = a, y_t = b) = exp(d_s(a) + w_t(a, b) + u_t(b) + b_t(b) - log Z),    b_s(a) from its sums over b

so that scores of any size are safe, minus infinity included. Lengths are no numbers of the host: the plain recursions
have a few operations for each of T positions, and the kernel of triton_masked.py, for up to 64 labels, one program for
each item and k. Steps are those from each position inside to the next one; of an item without positions all sums are
zero. All sums are float64. Cost: O(K B T L^2).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch

from kernelfields.engines.torch.steps import finite_or_zero

# A program of the kernel holds tables of pairs of labels in registers.
_MOST_LABELS = 64


class MaskedChains(NamedTuple):
    """Padded chains: scores, mask, known labels or None, and scores of steps, first and last labels.

    A position is inside if the mask selects it, it comes before the length of its item, and its label is not
    ``ignored``.
    """

    scores: torch.Tensor
    inside: torch.Tensor | None
    known: torch.Tensor | None
    steps: torch.Tensor
    start: torch.Tensor
    end: torch.Tensor
    pairs: torch.Tensor | None
    lengths: torch.Tensor | None = None
    ignored: int | None = None

    @property
    def can_compile(self) -> bool:
        """Whether the kernel takes these chains."""
        return self.scores.is_cuda and self.scores.shape[2] <= _MOST_LABELS and _has_triton()

    def selected(self) -> torch.Tensor:
        """Return the positions that the mask and the lengths select, (B, T)."""
        shape, device = self.scores.shape[:2], self.scores.device
        selected = torch.ones(shape, dtype=torch.bool, device=device) if self.inside is None else self.inside != 0
        if self.lengths is not None:
            selected = selected & (torch.arange(shape[1], device=device) < self.lengths[:, None])
        return selected

    def positions(self) -> torch.Tensor:
        """Return the positions inside, (B, T)."""
        if self.ignored is None or self.known is None or self.known.dtype == torch.bool:
            return self.selected()
        return self.selected() & (self.known != self.ignored)

    def restrict_scores(self) -> torch.Tensor:
        """Return scores in float64, minus infinity for excluded labels."""
        scores = self.scores.double()
        if self.known is None:
            return scores
        if self.known.dtype == torch.bool:
            return scores.masked_fill(~self.known, -torch.inf)
        own = self.known[..., None]
        labels = torch.arange(scores.shape[2], device=scores.device)
        return scores.masked_fill((own != -1) & (own != labels), -torch.inf)


class MaskedSums(NamedTuple):
    """Log partitions (K, B), marginals (K, B, T, L), and expected steps (K, B, L, L) or (K, B, T, L, L)."""

    log_partition: torch.Tensor
    marginals: torch.Tensor
    steps: torch.Tensor


class MaskedLoss(NamedTuple):
    """A loss, its derivatives by the two log partitions of each item (2, B), and what its gradient needs.

    Marginals are (2, B, T, L); totals (2, B, L + 2, L) are expected steps, and marginals of first and last labels. The
    report of bad items is whether there is one, its number, and why: 0 for NaN, 1 for an infinite loss, 2 if it is
    empty.
    """

    value: torch.Tensor
    weights: torch.Tensor
    marginals: torch.Tensor
    totals: torch.Tensor
    inside: torch.Tensor
    report: torch.Tensor


def find_bounds(inside: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first position of each item, and the one after its last, (B,); zero without positions."""
    places = torch.arange(1, inside.shape[1] + 1, device=inside.device)
    return inside.to(torch.int8).argmax(dim=1), (inside * places).amax(dim=1)


def sum_labellings(chains: MaskedChains, kinds: tuple[int, ...], compiled: bool | None = None) -> MaskedSums:
    """Return sums over all labellings (0), consistent labellings (1), or both; ``compiled`` selects the kernel."""
    if chains.can_compile if compiled is None else compiled:
        from kernelfields.engines.torch import triton_masked

        sums, n_labels = triton_masked.sum_labellings(chains, kinds), chains.scores.shape[2]
        steps = sums["tables"] if "tables" in sums else sums["totals"][:, :, :n_labels]
        return MaskedSums(sums["log_partition"], sums["marginals"], steps)
    found = [_sum_plainly(chains, chains.restrict_scores() if kind else chains.scores.double()) for kind in kinds]
    return MaskedSums(*(torch.stack(each) for each in zip(*found, strict=True)))


def compute_loss(chains: MaskedChains, reduction: str, dtype: torch.dtype, compiled: bool | None = None) -> MaskedLoss:
    """Return the loss of known labels under scores of steps that are the same everywhere, reduced as layers name it.

    The loss of an empty item is NaN.
    """
    if chains.can_compile if compiled is None else compiled:
        from kernelfields.engines.torch import triton_masked

        found = triton_masked.sum_labellings(chains, (0, 1), with_zeros=False)
        reduced = triton_masked.reduce_losses(found["log_partition"], found["counts"], reduction, dtype)
        value, weights, report = reduced
        return MaskedLoss(value, weights, found["marginals"], found["totals"], found["flags"][0], report)
    return _compute_loss_plainly(chains, reduction, dtype)


def _compute_loss_plainly(chains: MaskedChains, reduction: str, dtype: torch.dtype) -> MaskedLoss:
    sums, inside = sum_labellings(chains, (0, 1), compiled=False), chains.positions()
    every, fitting = sums.log_partition
    difference = every - fitting
    is_empty = ~chains.selected().any(dim=1)
    losses = difference.clamp_min(0.0).masked_fill(is_empty, torch.nan)
    if reduction == "mean":
        count = inside.any(dim=1).sum().clamp_min(1)
    elif reduction == "token_mean":
        count = inside.sum().clamp_min(1)
    else:
        count = inside.new_ones((), dtype=torch.int64)
    value = losses if reduction == "none" else losses.sum() / count
    weights = torch.where(is_empty | (difference < 0), 0.0, 1.0 / count.double())
    (firsts, stops), items = find_bounds(inside), torch.arange(len(inside), device=inside.device)
    ends = [sums.marginals[:, items, places] for places in (firsts, (stops - 1).clamp_min(0))]
    totals = torch.cat([sums.steps, torch.stack(ends, dim=2)], dim=2)
    wrong = ~torch.isfinite(losses)
    reasons = torch.where(is_empty, 2, torch.where(torch.isnan(difference), 0, 1))
    item = wrong.to(torch.int8).argmax()
    report = torch.stack([wrong.any().long(), item, reasons[item]])
    report = torch.where(wrong.any(), report, 0)
    return MaskedLoss(value.to(dtype), torch.stack([weights, -weights]), sums.marginals, totals, inside, report)


def compute_gradients(
    marginals: torch.Tensor,
    totals: torch.Tensor,
    inside: torch.Tensor,
    weights: torch.Tensor,
    dtype: torch.dtype,
    compiled: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of scores (B, T, L), and of steps, first and last labels (L + 2, L)."""
    shared = (weights.reshape(1, -1) @ totals.flatten(0, 1).flatten(1)).reshape(totals.shape[2:])
    if compiled:
        from kernelfields.engines.torch import triton_masked

        return triton_masked.combine_marginals(marginals, inside, weights, dtype), shared
    return (weights[..., None, None] * marginals).sum(dim=0).to(dtype), shared


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _log_sum(joint: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the log of the sum of exponentials along an axis; minus infinity if all are."""
    top = finite_or_zero(joint.amax(dim=axis))
    return top + (joint - top.unsqueeze(axis)).exp().sum(dim=axis).log()


def _sum_plainly(chains: MaskedChains, node: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log partitions (B,), marginals (B, T, L) and expected steps, position by position."""
    n_items, n_time, n_labels = node.shape
    inside = chains.positions()
    firsts, stops = find_bounds(inside)
    steps, items = chains.steps.double(), torch.arange(n_items, device=node.device)
    alpha, total = node.new_zeros(n_items, n_labels), node.new_zeros(n_items)
    filtered = []
    for t in range(n_time):
        on, is_first, is_last = inside[:, t], firsts == t, stops == t + 1
        own = steps if chains.pairs is None else steps + chains.pairs[:, t].double()
        reached = _log_sum(alpha[:, :, None] + own, 1)
        found = torch.where(is_first[:, None], chains.start.double(), reached) + node[:, t]
        found = found + torch.where(is_last[:, None], chains.end.double(), 0.0)
        peak = found.amax(dim=1)
        total = torch.where(on, total + peak, total)
        alpha = torch.where(on[:, None], found - finite_or_zero(peak)[:, None], alpha)
        filtered.append(alpha)
    log_partition = torch.where(stops > 0, total + _log_sum(alpha, 1), 0.0)
    marginals = torch.zeros_like(node)
    shape = (n_items, n_labels, n_labels) if chains.pairs is None else (n_items, n_time, n_labels, n_labels)
    expected, ahead, after = node.new_zeros(shape), torch.zeros_like(alpha), torch.zeros_like(stops)
    for t in reversed(range(n_time)):
        on, is_last = inside[:, t], stops == t + 1
        own = steps if chains.pairs is None else steps + chains.pairs[items, after].double()
        joint = own + ahead[:, None, :]
        top = finite_or_zero(joint.amax(dim=2))
        tile = (joint - top[:, :, None]).exp()
        sums = tile.sum(dim=2)
        scores = filtered[t] + top
        scale = finite_or_zero(_log_sum(scores + sums.log(), 1))
        share = torch.where(sums > 0.0, (scores - scale[:, None]).exp(), 0.0)
        last = (filtered[t] - finite_or_zero(_log_sum(filtered[t], 1))[:, None]).exp()
        goes_on = on & ~is_last
        marginals[:, t] = torch.where(on[:, None], torch.where(is_last[:, None], last, share * sums), 0.0)
        pair = torch.where(goes_on[:, None, None], share[:, :, None] * tile, 0.0)
        if chains.pairs is None:
            expected += pair
        else:
            expected[items, after] += pair
        behind = top + sums.log()
        behind = behind - finite_or_zero(behind.amax(dim=1))[:, None]
        behind = torch.where(is_last[:, None], chains.end.double(), behind)
        ahead = torch.where(on[:, None], node[:, t] + behind, ahead)
        after = torch.where(on, t, after)
    return log_partition, marginals, expected
