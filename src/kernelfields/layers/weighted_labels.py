"""Losses with a weight for each label, as class weights of a cross-entropy, on the terms of the chain rule.

    loss = - sum_t weight(y_t) log p(y_t | y_1 .. y_{t-1}, x)

    log p(y_t | y_{t-1}, x) = w_t(y_{t-1}, y_t) + u_t(y_t) + b_t(y_t) - b_{t-1}(y_{t-1})
    b_t(a)                  = log sum_c exp(w_{t+1}(a, c) + u_{t+1}(c) + b_{t+1}(c)),      b_T = 0

With unit weights it equals the negative log-likelihood of the chain. Autograd records the recursion in float64: some
operations for each position of the longest sequence.

Arrays: node (N, L), edge (1, L, L) or (N, L, L), labels (N,), weights (L,). Cost: O(N L^2), in memory as well.
"""

from __future__ import annotations

import numpy as np
import torch

# What stands for minus infinity, whose differences have no gradient.
_LOWEST = -1e30


def weighted_losses(
    node: torch.Tensor, edge: torch.Tensor, offsets: np.ndarray, labels: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Compute the weighted negative log-likelihood of the labels of each chain, (S,)."""
    node, edge = node.clamp_min(_LOWEST), edge.clamp_min(_LOWEST)
    lengths, tied = np.diff(offsets), len(edge) == 1
    # Rows of all chains side by side, (S, T); those beyond an end repeat the last one and do not count.
    rows = torch.as_tensor(np.minimum(np.arange(lengths.max()), lengths[:, None] - 1) + offsets[:-1, None])
    rows = rows.to(node.device)
    inside = torch.as_tensor(np.arange(lengths.max()) < lengths[:, None], device=node.device)
    chains = torch.arange(len(lengths), device=node.device)
    chosen, shares = labels[rows], weights.to(node)[labels[rows]]
    ahead = torch.zeros_like(node[rows[:, 0]])
    losses = ahead.new_zeros(len(lengths))
    for t in range(rows.shape[1] - 1, 0, -1):
        here, now, before = rows[:, t], chosen[:, t], chosen[:, t - 1]
        steps = edge if tied else edge[here]
        following = steps + (node[here] + ahead)[:, None, :]
        reached = torch.logsumexp(following, dim=2)
        own = reached[chains, before] - following[chains, before, now]
        losses = losses + torch.where(inside[:, t], shares[:, t] * own, 0.0)
        ahead = torch.where(inside[:, t, None], reached, ahead)
    first = node[rows[:, 0]] + ahead
    return losses + shares[:, 0] * (torch.logsumexp(first, dim=1) - first[chains, chosen[:, 0]])
