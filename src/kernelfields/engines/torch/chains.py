"""Exact inference on chains on a torch device: the twin of chain.py, in step-major order and on tensors.

    node (N, L), edge (1, L, L) or (N, L, L), float64, rows in the order of ``StepOrder``

What has one entry per sequence is in the order of ranks, longest sequence first. Which sequences leave the range
of doubles is read back once, at the end of a pass; those are inferred again on the host, by inference/chain/family.py.
On a CUDA device tied transitions run in one compiled kernel where Triton is installed.
Fails: ValueError naming the sequence, as it was numbered before sorting, when every labelling is forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import torch

from kernelfields.engines.torch import passes
from kernelfields.engines.torch.steps import DeviceSteps
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import EDGE, Member, Potentials
from kernelfields.inference.packing import InfeasibleSequence
from kernelfields.numerics.sparse_rows import entries_of

# Steps with more rows than this keep a device busy by themselves: with 50,000 rows a step plain products were a
# tenth faster than compiled passes, with 200 rows thirty times slower (benchmarks/torch_inference.py).
_ROWS_OF_A_STEP = 4096
# A kernel holds the transfer matrices in registers.
_MOST_COMPILED = 64


@dataclass
class Rescued:
    """Sequences inferred on the host: their ranks, the rows of their positions and their distribution."""

    ranks: torch.Tensor
    rows: torch.Tensor
    member: Member

    def on_device(self, array: np.ndarray) -> torch.Tensor:
        """Return an array of the host as a tensor."""
        return torch.as_tensor(array, device=self.rows.device)


@dataclass
class TorchChainBeliefs:
    """Marginals of chains on a device and what Hessian products need; see :func:`infer_step_chains`."""

    steps: DeviceSteps
    log_partition: torch.Tensor
    node_marginals: torch.Tensor
    position_weights: torch.Tensor | None
    compiled: bool
    _alpha: torch.Tensor
    _inverse_predicted: torch.Tensor
    _transfer: torch.Tensor
    rescued: Rescued | None = None
    _expected_steps: torch.Tensor | None = None

    @property
    def _tied(self) -> bool:
        return self._transfer.shape[0] == 1

    def _weighted(self, rows: torch.Tensor) -> torch.Tensor:
        if self.position_weights is None:
            return rows
        return rows * self.position_weights.reshape((-1,) + (1,) * (rows.ndim - 1))

    def _gamma(self) -> torch.Tensor:
        return self.node_marginals * self._inverse_predicted

    def edge_marginals(self) -> torch.Tensor:
        """Return p(y_{t-1} = a, y_t = b) as (N, L, L), zero at the start of each sequence."""
        gamma = self._gamma()
        n_positions, n_labels = gamma.shape
        marginals = gamma.new_zeros(n_positions, n_labels, n_labels)
        for before, after, count in self.steps.order.links:
            rows = slice(after, after + count)
            torch.mul(self._alpha[before : before + count, :, None], gamma[rows, None, :], out=marginals[rows])
        marginals *= self._transfer
        if self.rescued is not None:
            marginals[self.rescued.rows] = self.rescued.on_device(self.rescued.member.marginals(EDGE))
        return marginals

    def gradient(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradient of the weighted log partition in (node, edge), shaped like them."""
        node = self._weighted(self.node_marginals)
        if not self._tied:
            return node, self._weighted(self.edge_marginals())
        edge = self._transfer * self._summed_steps()
        if self.rescued is not None:
            edge += self.rescued.on_device(self.rescued.member.mean()[EDGE])
        return node, edge

    def _summed_steps(self) -> torch.Tensor:
        """Return sum_t weight_t alpha_{t-1} gamma_t^T, (L, L): expected steps before the transfer."""
        if self._expected_steps is None:
            self._expected_steps = self.steps.linked(self._alpha, self._weighted(self._gamma()))
        return self._expected_steps

    def hessian_product(self, d_node: torch.Tensor, d_edge: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        for name, given, wanted in (("node", d_node, self._alpha), ("edge", d_edge, self._transfer)):
            if given.shape != wanted.shape:
                raise ValueError(f"{name} direction has shape {tuple(given.shape)}, expected {tuple(wanted.shape)}")
        moved = self._transfer * d_edge
        past, ahead, d_marginals = _passes(self.compiled).score_expectations(
            d_node, self._transfer, moved, self.steps, self._alpha, self._inverse_predicted, self.node_marginals
        )
        if self._tied:
            gamma = self._weighted(self._gamma())
            edge = self.steps.linked(past.mul_(self._alpha), gamma)
            edge += self.steps.linked(self._alpha, ahead.mul_(gamma))
            edge = self._transfer * edge + moved * self._summed_steps()
        else:
            edge = self._moved_pairs(past, ahead, d_edge)
        d_marginals, edge = self._weighted(d_marginals), edge if self._tied else self._weighted(edge)
        if self.rescued is not None:
            self._respond(self.rescued, d_node, d_edge, d_marginals, edge)
        return d_marginals, edge

    def _moved_pairs(self, past: torch.Tensor, ahead: torch.Tensor, d_edge: torch.Tensor) -> torch.Tensor:
        """Return X_t(a, b) (A_{t-1}(a) + dw_t(a, b) + du_t(b) + B_t(b) - E), (N, L, L)."""
        gamma, edge = self._gamma(), torch.zeros_like(d_edge)
        for before, after, count in self.steps.order.links:
            rows, earlier = slice(after, after + count), slice(before, before + count)
            part = torch.add(d_edge[rows], past[earlier, :, None], out=edge[rows])
            part += ahead[rows, None, :]
            part *= self._alpha[earlier, :, None]
            part *= self._transfer[rows]
            part *= gamma[rows, None, :]
        return edge

    def _respond(
        self,
        rescued: Rescued,
        d_node: torch.Tensor,
        d_edge: torch.Tensor,
        d_marginals: torch.Tensor,
        edge: torch.Tensor,
    ) -> None:
        """Put the response of the rescued sequences in the place of what the scaled passes left there."""
        steps = d_edge if self._tied else d_edge[rescued.rows]
        direction = Potentials(d_node[rescued.rows].cpu().numpy(), {EDGE: steps.cpu().numpy()})
        node_part, edge_part = map(rescued.on_device, rescued.member.covariance_product(direction).arrays)
        d_marginals[rescued.rows] = node_part
        if self._tied:
            edge += edge_part
        else:
            edge[rescued.rows] = edge_part


def infer_step_chains(
    node: torch.Tensor,
    edge: torch.Tensor,
    steps: DeviceSteps,
    *,
    position_weights: torch.Tensor | None = None,
    compiled: bool | None = None,
) -> TorchChainBeliefs:
    """Compute log partition functions and marginals of chains in step-major order.

    ``position_weights`` (N,), equal within a sequence, weigh the sequences in ``gradient`` and
    ``hessian_product``. ``compiled`` runs the recursions in Triton kernels; None does where that is faster.
    """
    check_step_arrays(node, edge, steps)
    n_sequences = steps.order.n_sequences
    if compiled is None:
        few = len(node) < _ROWS_OF_A_STEP * steps.order.n_steps
        compiled = node.is_cuda and few and edge.shape[0] == 1 and node.shape[1] <= _MOST_COMPILED and _has_triton()
    elif compiled and edge.shape[0] != 1:
        raise ValueError("the compiled passes are for one transition matrix that serves all positions")
    top = edge.amax(dim=(1, 2))
    shift = torch.where(torch.isfinite(top), top, 0.0)
    transfer = (edge - shift[:, None, None]).exp_()
    if edge.shape[0] == len(node):
        transfer[:n_sequences] = 0.0  # nothing steps into a start, whatever is there, NaN included
    alpha, inverse_predicted, marginals = (torch.empty_like(node) for _ in range(3))
    log_partition, low = _passes(compiled).forward_backward(
        node, transfer, shift, steps, alpha, inverse_predicted, marginals
    )
    beliefs = TorchChainBeliefs(
        steps, log_partition, marginals, position_weights, compiled, alpha, inverse_predicted, transfer
    )
    troubled = ~torch.isfinite(log_partition)
    any_low, any_troubled = torch.stack([low.any(), troubled.any()]).tolist()
    if any_low:
        troubled |= passes.underflown(node, edge, alpha, steps)
    if any_low or any_troubled:
        _rescue(beliefs, troubled, node, edge)
    return beliefs


def _rescue(beliefs: TorchChainBeliefs, troubled: torch.Tensor, node: torch.Tensor, edge: torch.Tensor) -> None:
    """Infer some sequences on the host and blank their scaled quantities."""
    order, weights = beliefs.steps.order, beliefs.position_weights
    found = np.flatnonzero(troubled.cpu().numpy())
    if not len(found):
        return
    # By their numbers, so that the first one is named if several are forbidden.
    found = found[np.argsort(order.sequences[found])]
    sequences, ranks = order.sequences[found], torch.as_tensor(found, device=node.device)
    positions, offsets = entries_of(order.offsets, sequences)
    rows = torch.as_tensor(order.inverse[positions], device=node.device)
    tables = edge if beliefs._tied else edge[rows]
    potentials = Potentials(node[rows].cpu().numpy(), {EDGE: tables.cpu().numpy()})
    own = None if weights is None else weights[rows].cpu().numpy()[offsets[:-1]]
    try:
        member = ChainFamily(offsets, node.shape[1], tied=beliefs._tied).at(potentials, own)
    except InfeasibleSequence as error:
        raise InfeasibleSequence(int(sequences[error.sequence])) from None
    beliefs.rescued = rescued = Rescued(ranks, rows, member)
    beliefs.log_partition[ranks] = rescued.on_device(member.log_partition)
    beliefs.node_marginals[rows] = rescued.on_device(member.marginals())
    for scaled in (beliefs._alpha, beliefs._inverse_predicted):
        scaled.index_fill_(0, rows, 0.0)


def _passes(compiled: bool) -> ModuleType:
    if not compiled:
        return passes
    from kernelfields.engines.torch import triton_kernels

    return triton_kernels


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def check_step_arrays(node: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps) -> None:
    """Raise for arrays that do not fit together; their values are not read."""
    n_positions = steps.order.n_positions
    if node.ndim != 2 or node.shape[0] != n_positions or node.shape[1] == 0:
        raise ValueError(
            f"node potentials must have shape ({n_positions}, labels) with at least one label, got {tuple(node.shape)}"
        )
    n_labels = node.shape[1]
    if edge.ndim != 3 or edge.shape[1:] != (n_labels, n_labels) or edge.shape[0] not in (1, n_positions):
        raise ValueError(
            f"edge potentials must have shape (1, {n_labels}, {n_labels}) or "
            f"({n_positions}, {n_labels}, {n_labels}), got {tuple(edge.shape)}"
        )
    for name, given in (("node", node), ("edge", edge)):
        if given.dtype != torch.float64:
            raise TypeError(f"{name} potentials must be float64, got {given.dtype}: chains are summed in doubles")
        if given.device != steps.device:
            raise ValueError(f"{name} potentials are on {given.device}, their order on {steps.device}")
        if not given.is_contiguous():
            raise ValueError(f"{name} potentials must be contiguous")
