"""Tensors of a step-major order of sequences (inference/chain/step_passes.py), and products along it.

    times      (x_t T_t)(b) = sum_a x_t(a) T_t(a, b)        x (n_t, L), T (L, L) or (n_t, L, L)
    linked     sum_t before_{t-1}^T after_t                 (L, L), over all neighbours

Index tensors are made once and stay on the device, so the passes read nothing back. No sum depends on which thread was
first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from kernelfields.inference.chain.step_passes import Library, StepOrder

# Rows to a block of ``linked``: a device multiplies many short blocks side by side, one long one alone.
_BLOCK_ROWS = 512


class DeviceSteps:
    """A step-major order and its tensors for passes on a device."""

    def __init__(self, order: StepOrder, device: torch.device | str = "cpu"):
        self.order = order
        # "cuda" has tensors on "cuda:0": take the name that tensors will have.
        self.device = torch.empty(0, device=device).device
        #: The row of every position and the position of every row, (N,).
        self.inverse, self.permutation = self._tensor(order.inverse), self._tensor(order.permutation)
        #: Rank and number of the sequence of every row, (N,).
        self.ranks, self.items = self._tensor(order.ranks), self._tensor(order.sequences[order.ranks])
        #: Rank of every sequence, (S,); by rank, the row of its last position, its length and its first position.
        self.sequence_ranks = self._tensor(np.argsort(order.sequences))
        self.ends, self.lengths = self._tensor(order.ends), self._tensor(order.lengths)
        self.starts = self._tensor(order.offsets[order.sequences])
        self.pairs = order.pairs

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(array, dtype=torch.int64, device=self.device)


def link_sums(before: torch.Tensor, after: torch.Tensor, links: Sequence[tuple[int, int, int]]) -> torch.Tensor:
    """Return the sum of before_{t-1}^T after_t over runs of neighbours, (L, L), for arrays (N, L)."""
    n_labels = before.shape[1]
    total = before.new_zeros(n_labels, n_labels)
    for first, second, count in links:
        whole = count - count % _BLOCK_ROWS
        if whole:
            left = before[first : first + whole].view(-1, _BLOCK_ROWS, n_labels)
            right = after[second : second + whole].view(-1, _BLOCK_ROWS, n_labels)
            total += torch.bmm(left.transpose(1, 2), right).sum(dim=0)
        if whole < count:
            total.addmm_(before[first + whole : first + count].T, after[second + whole : second + count])
    return total


def _times(rows: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    return rows @ tables if tables.ndim == 2 else (rows[:, None, :] @ tables)[:, 0]


TORCH = Library(torch, _times)


def finite_or_zero(logarithms: torch.Tensor) -> torch.Tensor:
    """Return logarithms with 0 for -inf: -inf minus -inf is NaN, while exp(-inf - 0) is 0."""
    return torch.where(torch.isneginf(logarithms), 0.0, logarithms)


def shift_to_zero(rows: torch.Tensor) -> torch.Tensor:
    """Shift rows (n, L) to a maximum of zero in place; return the shifts (n,), -inf for rows of -inf alone."""
    peaks = rows.amax(dim=1)
    rows -= finite_or_zero(peaks)[:, None]
    return peaks
