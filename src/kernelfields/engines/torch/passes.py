"""Forward-backward and Hessian recursions on tensors, scaled to the range of doubles.

The equations of inference/chain/scaled_compiled.py for all sequences: positions are in step-major order (steps.py), so
step t is a few operations on n_t rows, tied transitions one product (n_t, L) @ (L, L). What does not depend on the step
before it is computed for all positions in one go. A sequence that leaves the range of doubles has a log partition of
NaN; ``underflown`` distinguishes labels of tiny probability from forbidden ones, which the caller runs where ``low``
marks any.

Arrays: float64, (N, L); transfer (E, L, L) with E = 1 or N. Cost: O(N L^2) time, seven launches per step for
forward-backward and nine for a Hessian product, three arrays (N, L) kept, no value read back to the host.
"""

from __future__ import annotations

import torch

from kernelfields.engines.torch.steps import (
    DeviceSteps,
    backward_product,
    forward_product,
)
from kernelfields.inference.packing import LEAST_SCALE, TINY

# Marginals below this bound do not count in a derivative, and their reciprocals would overflow.
NO_SAY = 1e-290


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
    n_sequences = steps.order.n_sequences
    top = node.amax(dim=1)
    torch.sub(node, top[:, None], out=alpha)
    alpha.exp_()
    predicted, scale = inverse_predicted, torch.empty_like(top)
    predicted[:n_sequences] = 0.0
    _normalise(alpha[:n_sequences], scale[:n_sequences])
    for here, before in steps.pairs:
        forward_product(alpha[before], transfer, here, predicted[here])
        _normalise(alpha[here].mul_(predicted[here]), scale[here])
    never = predicted == 0.0
    inverse_predicted.reciprocal_().masked_fill_(never, 0.0)
    del never

    marginals.copy_(alpha)
    gamma = torch.empty_like(alpha[n_sequences : 2 * n_sequences])
    future = torch.empty_like(gamma)
    for here, before in reversed(steps.pairs):
        count = here.stop - here.start
        torch.mul(marginals[here], inverse_predicted[here], out=gamma[:count])
        backward_product(gamma[:count], transfer, here, future[:count])
        marginals[before].mul_(future[:count])

    terms = scale.log().add_(top)
    terms[n_sequences:].add_(shift if len(shift) == 1 else shift[n_sequences:])
    fine = (scale > LEAST_SCALE) & torch.isfinite(marginals.sum(dim=1))
    terms.masked_fill_(~fine, torch.nan)
    return steps.sums(terms), alpha.amin(dim=1) < TINY


def _normalise(rows: torch.Tensor, scale: torch.Tensor) -> None:
    torch.sum(rows, dim=1, out=scale)
    rows /= scale[:, None]


def underflown(node: torch.Tensor, alpha: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps) -> torch.Tensor:
    """Return which sequences, by rank, (S,), have a tiny probability that is not structurally zero."""
    reachable = node > -torch.inf
    for here, before in steps.pairs:
        allowed = (edge if edge.shape[0] == 1 else edge[here]) > -torch.inf
        ways = torch.zeros(reachable[here].shape, dtype=torch.float32, device=node.device)
        forward_product(reachable[before].to(ways.dtype), allowed.to(ways.dtype), slice(None), ways)
        reachable[here].logical_and_(ways > 0.0)
    return steps.any_of((reachable & (alpha < TINY)).any(dim=1))


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
    n_sequences = steps.order.n_sequences
    past = d_node.clone()
    weighted = torch.empty_like(d_node[n_sequences : 2 * n_sequences])
    gamma, expected = torch.empty_like(weighted), torch.empty_like(weighted)
    for here, before in steps.pairs:
        count = here.stop - here.start
        torch.mul(alpha[before], past[before], out=weighted[:count])
        forward_product(weighted[:count], transfer, here, expected[:count])
        forward_product(alpha[before], transfer_times_d_edge, here, expected[:count], add=True)
        past[here].addcmul_(expected[:count], inverse_predicted[here])
    mean = (marginals[steps.ends] * past[steps.ends]).sum(dim=1)

    # 1 / future, to be multiplied by what it divides as the recursion comes by; nothing is ahead of an end.
    ahead = alpha / marginals
    ahead.masked_fill_(marginals < NO_SAY, 0.0)
    ahead.index_fill_(0, steps.ends, 0.0)
    for here, before in reversed(steps.pairs):
        count = here.stop - here.start
        torch.mul(marginals[here], inverse_predicted[here], out=gamma[:count])
        torch.add(ahead[here], d_node[here], out=weighted[:count])
        weighted[:count].mul_(gamma[:count])
        backward_product(weighted[:count], transfer, here, expected[:count])
        backward_product(gamma[:count], transfer_times_d_edge, here, expected[:count], add=True)
        ahead[before].mul_(expected[:count])
    ahead -= mean[steps.ranks][:, None]
    d_marginals = (past + ahead).mul_(marginals)
    return past, ahead.add_(d_node), d_marginals
