"""Best labellings of chains on a torch device, in step-major order: the twin of ``viterbi`` of chain_decoding.py.

    d_t(b) = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then follow the arg max backwards

Scores are shifted to a maximum of zero at every position, and shifts summed with a correction, so potentials of
any size, -inf included, are safe. Arrays: node (N, L), edge (1 or N, L, L), float64. Cost O(N L^2) time, (N, L)
pointers of 32 bits and, at a time, at most ``_MOST_ENTRIES`` sums of pairs. Scores are read back once.
Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

import torch

from kernelfields.engines.torch.chains import check_step_arrays
from kernelfields.engines.torch.steps import CompensatedSum, DeviceSteps, shift_to_zero
from kernelfields.inference.packing import infeasible

_MOST_ENTRIES = 1 << 26


def step_viterbi(node: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best labelling (N,) and its score by rank (S,); ties go to the lowest label."""
    check_step_arrays(node, edge, steps)
    n_sequences, n_labels = steps.order.n_sequences, node.shape[1]
    pointers = torch.zeros(node.shape, dtype=torch.int32, device=node.device)
    finals = torch.zeros(n_sequences, dtype=torch.int64, device=node.device)
    best = node[:n_sequences].clone()
    total = CompensatedSum(shift_to_zero(best))
    for here, _ in steps.forward_steps():
        count = here.stop - here.start
        # The sequences from ``count`` on have ended in the step before.
        finals[count : len(best)] = best[count:].argmax(dim=1)
        best = _step(best[:count], edge, here, pointers[here], max(1, _MOST_ENTRIES // n_labels**2))
        best += node[here]
        total.add(shift_to_zero(best))
    finals[: len(best)] = best.argmax(dim=1)

    scores = total.value()
    forbidden = torch.nonzero(torch.isneginf(scores))[:, 0].cpu().numpy()
    if len(forbidden):
        raise infeasible(int(steps.order.sequences[forbidden].min()))
    labels = torch.empty(len(node), dtype=torch.int64, device=node.device)
    labels[steps.ends] = finals
    for here, before in steps.backward_steps():
        labels[before] = pointers[here].gather(1, labels[here][:, None])[:, 0].to(labels.dtype)
    return labels, scores


def _step(
    previous: torch.Tensor, edge: torch.Tensor, here: slice, pointers: torch.Tensor, most_rows: int
) -> torch.Tensor:
    """Return max_a (previous(a) + w(a, b)), (n, L), and note the arg max in pointers."""
    best = torch.empty_like(previous)
    for first in range(0, len(previous), most_rows):
        rows = slice(first, min(first + most_rows, len(previous)))
        table = edge if edge.shape[0] == 1 else edge[here][rows]
        best[rows], places = torch.max(previous[rows][:, :, None] + table, dim=1)
        pointers[rows] = places.to(pointers.dtype)
    return best
