"""Losses of chains on a device, without copies of masks, lengths and labels to the host.

    values (2, B) = log sums over all labellings, and over those consistent with the labels
    loss          = values[0] - values[1],      gradients = marginals of the first less those of the second

Both sums, and what their gradients need, come from one call of engines/torch/masked_chains.py; so do the reduced loss
and the weights of items in its gradient, if scores of steps are the same at all positions. No tensor of a batch is
copied to the host, so a training step does not wait, and cannot raise an error for invalid values at once: the loss is
NaN or infinite, and a later loss raises the error, once the device has finished the batch. Second derivatives are those
of packed_chains.py.

Arrays: scores (B, T, L), pair scores (B, T, L, L). Cost: O(B T L^2), one pass.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from kernelfields.data.constraints import resolve_constraints
from kernelfields.engines.torch.masked_chains import (
    MaskedChains,
    compute_gradients,
    compute_loss,
    find_bounds,
    sum_labellings,
)
from kernelfields.layers.packed_chains import (
    ChainRules,
    ChainTerms,
    PackedChains,
    check_labels,
    check_mask,
    check_pair_scores,
    check_scores,
    result_type,
)
from kernelfields.layers.positions import check_lengths, check_mask_form


class _Report(NamedTuple):
    """The validity of a batch on its way to the host: an error flag, the sequence, and the reason."""

    found: torch.Tensor
    arrived: Any


_REASONS = (
    "its scores are NaN or infinite, or no labelling has a score that is finite",
    "its labels are out of range, or forbidden by the constraints or by scores of minus infinity",
    "it is empty: leave sequences without positions out of the batch",
)
#: Reports that have not been read, the oldest first.
_REPORTS: deque[_Report] = deque()


def is_on_device(scores: Any) -> bool:
    """Whether padded scores are on a device whose tensors should not be copied to the host."""
    return isinstance(scores, torch.Tensor) and scores.is_cuda and scores.ndim == 3


def read_chains(
    terms: ChainTerms,
    scores: Any,
    lengths: Any = None,
    mask: Any = None,
    *,
    labels: Any = None,
    pair_scores: torch.Tensor | None = None,
) -> PackedChains | DeviceChains:
    """Return a batch of chains for losses and log partition functions, on the device of the scores if possible."""
    kind = DeviceChains if is_on_device(scores) and terms.rules.weights is None else PackedChains
    return kind(terms, scores, lengths, mask, labels=labels, pair_scores=pair_scores)


class DeviceChains:
    """A batch of padded chains on a device."""

    def __init__(
        self,
        terms: ChainTerms,
        scores: Any,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: Any = None,
        pair_scores: torch.Tensor | None = None,
    ):
        check_scores(scores, len(terms.rules.names), terms.transitions)
        check_labels(labels, scores, len(terms.rules.names))
        check_mask(mask, scores)
        if pair_scores is not None:
            check_pair_scores(pair_scores, scores)
        read_reports()
        inside = lengths_there = None
        if mask is not None:
            check_mask_form(scores.shape[:2], lengths, mask)
            inside = torch.as_tensor(mask, device=scores.device)
            inside = inside if inside.dtype == torch.bool else inside != 0
        elif lengths is not None:
            if not (isinstance(lengths, torch.Tensor) and lengths.is_cuda):
                lengths = torch.as_tensor(check_lengths(scores.shape[:2], lengths))
            lengths_there = lengths.to(scores.device, non_blocking=True)
        self._chains = MaskedChains(
            scores,
            inside,
            labels,
            _forbid(terms, terms.transitions, "steps"),
            _forbid(terms, terms.start, "start"),
            _forbid(terms, terms.end, "end"),
            pair_scores,
            lengths_there,
            terms.rules.ignore_index,
        )

    @cached_property
    def inside(self) -> torch.Tensor:
        """The positions that belong to chains, (B, T)."""
        return self._chains.positions()

    def log_partition(self) -> torch.Tensor:
        """Compute the log partition function of each sequence, (B,), 0 for empty sequences."""
        return self._report_values(self._sum((0,))[0], 0)

    def known_log_partition(self) -> torch.Tensor:
        """Compute the log sum over labellings consistent with the known labels, (B,)."""
        return self._report_values(self._sum((1,))[0], 1)

    def loss(self, reduction: str) -> torch.Tensor:
        """Return the negative log-likelihoods of labels, (B,), or their sum, or their mean over sequences or positions.

        Means are over what has positions. All are at least zero.
        """
        chains, dtype = self._chains, result_type(self._chains.scores.dtype)
        if chains.pairs is None:
            value, report = _Loss.apply(chains, reduction, dtype, chains.scores, *chains[3:6])
            _send_report(report)
            return value
        losses = self._report_values(_subtract(self._sum((0, 1))), 1)
        return self.restore(_reduce(losses, self.inside, reduction))

    def restore(self, values: torch.Tensor) -> torch.Tensor:
        """Return results in the type of the scores; float32 for half precision."""
        return values.to(result_type(self._chains.scores.dtype))

    def _sum(self, kinds: tuple[int, ...]) -> torch.Tensor:
        chains = self._chains
        batch = _Batch(self.inside, chains.known, kinds)
        found: torch.Tensor = _LogSums.apply(batch, chains.scores, *chains[3:7])
        return found

    def _report_values(self, values: torch.Tensor, reason: int) -> torch.Tensor:
        """Return values, NaN for empty sequences, and send a report on them to the host."""
        known = values.detach()
        is_empty = ~self._chains.selected().any(dim=1)
        values = values.masked_fill(is_empty, torch.nan)
        wrong = ~torch.isfinite(values.detach())
        why = torch.where(is_empty, 2, torch.where(torch.isnan(known), 0, reason))
        sequence = wrong.to(torch.int8).argmax(dim=0, keepdim=True)
        _send_report(torch.cat([wrong.gather(0, sequence).long(), sequence, why.gather(0, sequence).long()]))
        return values


def _subtract(sums: torch.Tensor) -> torch.Tensor:
    """Return the differences of sums over all labellings and over consistent ones, at least zero."""
    every, fitting = sums
    # The difference of two sums that are nearly equal may be below zero by their rounding.
    return (every - fitting).clamp_min(0.0)


def _reduce(losses: torch.Tensor, inside: torch.Tensor, reduction: str) -> torch.Tensor:
    """Return losses (B,), their sum, or their mean over sequences with positions or over positions."""
    if reduction == "none":
        return losses
    total = losses.sum()
    if reduction == "sum":
        return total
    counted = inside if reduction == "token_mean" else inside.any(dim=1)
    return total / counted.sum().clamp_min(1)


class _Loss(torch.autograd.Function):
    """A reduced loss and its report, by one call of the sums."""

    @staticmethod
    def forward(
        ctx: Any,
        chains: MaskedChains,
        reduction: str,
        dtype: torch.dtype,
        scores: torch.Tensor,
        steps: torch.Tensor,
        start: torch.Tensor,
        end: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        compiled = chains.can_compile
        # Without the graph of the inputs, which the context would keep alive.
        own = chains._replace(scores=scores.detach(), steps=steps.detach(), start=start.detach(), end=end.detach())
        loss = compute_loss(own, reduction, dtype, compiled)
        ctx.chains, ctx.reduction, ctx.dtype, ctx.compiled = own, reduction, dtype, compiled
        ctx.save_for_backward(loss.weights, loss.marginals, loss.totals, loss.inside, scores, steps, start, end)
        ctx.mark_non_differentiable(loss.report)
        return loss.value, loss.report

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weights, marginals, totals, inside, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, None, *_differentiable_loss_gradients(ctx, outer, inputs)
        scores, steps, start, end = inputs
        node, shared = compute_gradients(marginals, totals, inside, weights * outer, scores.dtype, ctx.compiled)
        n_labels = scores.shape[2]
        shared = shared.to(steps.dtype)
        first, last = shared[n_labels].to(start.dtype), shared[n_labels + 1].to(end.dtype)
        return None, None, None, node, shared[:n_labels], first, last


def _differentiable_loss_gradients(
    ctx: Any, outer: torch.Tensor, inputs: list[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Return gradients of a loss that are differentiable again, by sums whose gradients are."""
    inside = ctx.chains.positions()
    losses = _subtract(_LogSums.apply(_Batch(inside, ctx.chains.known, (0, 1)), *inputs, None))
    value = _reduce(losses, inside, ctx.reduction).to(ctx.dtype)
    return torch.autograd.grad(value, inputs, outer, create_graph=True, allow_unused=True)


class _Batch(NamedTuple):
    inside: torch.Tensor
    known: torch.Tensor | None
    kinds: tuple[int, ...]


class _LogSums(torch.autograd.Function):
    """An autograd function of log sums over labellings, (K, B), whose gradients are marginals."""

    @staticmethod
    def forward(
        ctx: Any,
        batch: _Batch,
        scores: torch.Tensor,
        steps: torch.Tensor,
        start: torch.Tensor,
        end: torch.Tensor,
        pairs: torch.Tensor | None,
    ) -> torch.Tensor:
        chains = MaskedChains(scores.detach(), batch.inside, batch.known, steps, start, end, pairs)
        sums, (firsts, stops) = sum_labellings(chains, batch.kinds), find_bounds(batch.inside)
        ctx.batch = batch
        own = (scores, steps, start, end) if pairs is None else (scores, steps, start, end, pairs)
        ctx.save_for_backward(sums.marginals, sums.steps, firsts, stops, *own)
        return sums.log_partition

    @staticmethod
    def backward(ctx: Any, weights: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        marginals, expected, firsts, stops, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *_differentiable_gradients(ctx.batch, weights, inputs), *([None] * (5 - len(inputs)))
        scores, steps, start, end, *rest = inputs
        node = (weights[..., None, None] * marginals).sum(dim=0)
        items = torch.arange(len(firsts), device=node.device)
        first, last = node[items, firsts].sum(dim=0), node[items, (stops - 1).clamp_min(0)].sum(dim=0)
        if rest:
            tables = (weights[..., None, None, None] * expected).sum(dim=0)
            pairs, total = tables.to(rest[0].dtype), tables.sum(dim=(0, 1))
        else:
            pairs, total = None, (weights[..., None, None] * expected).sum(dim=(0, 1))
        return None, node.to(scores.dtype), total.to(steps.dtype), first.to(start.dtype), last.to(end.dtype), pairs


def _differentiable_gradients(
    batch: _Batch, weights: torch.Tensor, inputs: list[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Compute gradients that can be differentiated again, by packed chains on the host."""
    scores, steps, start, end, *rest = inputs
    rows = batch.inside.any(dim=1).nonzero()[:, 0]
    names = list(range(scores.shape[2]))
    rules = ChainRules(names, resolve_constraints(None, np.array(names)), None)
    terms = ChainTerms(steps, start, end, rules, {})
    pairs = rest[0][rows] if rest else None
    labels = None if batch.known is None else batch.known[rows]
    chains = PackedChains(terms, scores[rows], None, batch.inside[rows], labels=labels, pair_scores=pairs)
    sums = [chains.known_log_partition() if kind else chains.log_partition() for kind in batch.kinds]
    own = weights[:, rows].to(sums[0].device)
    return torch.autograd.grad(torch.stack(sums), inputs, own, create_graph=True, allow_unused=True)


def _forbid(terms: ChainTerms, own: torch.Tensor | None, name: str) -> torch.Tensor:
    """Return a parameter, or zeros without one, with minus infinity for forbidden entries."""
    given = torch.zeros_like(terms.transitions[0]) if own is None else own
    return torch.where(terms.forbidden[name], -torch.inf, given) if terms.rules.masks.any else given


def _send_report(there: torch.Tensor) -> None:
    """Send the host a report (3,) of whether a sequence is wrong, which, and why, without waiting."""
    if not there.is_cuda:
        _raise_report(there, "")
        return
    if torch.cuda.is_current_stream_capturing():
        return  # a graph that is replayed has no host to read a report
    found = torch.empty(3, dtype=torch.int64, pin_memory=True)
    found.copy_(there, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()
    _REPORTS.append(_Report(found, arrived))


def read_reports() -> None:
    """Raise ValueError if the report on an earlier batch has arrived and contains an error."""
    if _REPORTS and torch.cuda.is_current_stream_capturing():
        return
    while _REPORTS and _REPORTS[0].arrived.query():
        _raise_report(_REPORTS.popleft().found, " of a batch before this one")


def _raise_report(found: torch.Tensor, which: str) -> None:
    wrong, sequence, reason = found.tolist()
    if wrong:
        _REPORTS.clear()
        raise ValueError(f"sequence {sequence}{which}: {_REASONS[reason]}")
