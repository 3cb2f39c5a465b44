"""Exact inference on chains on a torch device: ``ChainMember`` of inference/chain/family.py on tensors.

    node (N, L), edge (1, L, L) or (N, L, L), float64, rows in the order of the chains

The plain passes work in step-major order (steps.py): rows are gathered into it before a pass, and back after it. On a
CUDA device with Triton, tied transitions run in one compiled kernel, in the order of the chains. Which sequences leave
the range of doubles is read back once, at the end of a pass; those are inferred again on the host, by
inference/chain/family.py. Numbers of potentials that leave the device (``dot``, ``largest``, ``finite``) are gathered
there and read once for all arrays.
Raises ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

from kernelfields.engines.torch.steps import TORCH, DeviceSteps, link_sums
from kernelfields.inference.chain import step_passes
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import Member
from kernelfields.inference.packing import InfeasibleSequence, ScaledPasses
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.sparse_rows import gather_entries

# A kernel holds the transfer matrices in registers.
_MOST_COMPILED = 64


# BLAS counts the entries of a vector in 32 bits.
_PIECE = 1 << 30


class TorchPotentials(Potentials):
    """Potentials whose arrays are float64 tensors of one device."""

    @property
    def is_finite(self) -> bool:
        """Whether all entries, and their sum, are finite."""
        return bool(torch.isfinite(torch.stack([array.sum() for array in self.arrays])).all())

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        filled = [array for array in self.arrays if array.numel()]
        if not filled:
            return 0.0
        return float(torch.stack([torch.linalg.vector_norm(array, ord=torch.inf) for array in filled]).max())

    def plus(self, step: float, direction: Potentials) -> TorchPotentials:
        """Return self + step * direction."""
        pairs = zip(self.arrays, direction.arrays, strict=True)
        return self.with_arrays(torch.add(mine, theirs, alpha=step) for mine, theirs in pairs)

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            mine.add_(theirs, alpha=step)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for array in self.arrays:
            array.mul_(factor)

    def dot(self, other: Potentials) -> float:
        """Return the inner product, summed in float64."""
        parts = [
            torch.dot(*pieces)
            for mine, theirs in zip(self.arrays, other.arrays, strict=True)
            for pieces in zip(mine.reshape(-1).split(_PIECE), theirs.reshape(-1).split(_PIECE), strict=True)
        ]
        return float(torch.stack(parts).sum())


class Rescued(NamedTuple):
    """Sequences inferred on the host: their numbers, the rows of their positions and their distribution."""

    sequences: np.ndarray
    rows: torch.Tensor
    member: Member

    def on_device(self, array: np.ndarray) -> torch.Tensor:
        """Return an array of the host as a tensor."""
        return torch.as_tensor(array, device=self.rows.device)


class TorchChainMember(Member):
    """Marginals of chains on a device, with arrays for covariance products, in step-major order.

    ``weights`` (S,) are a tensor. ``compiled`` runs the recursions in Triton kernels; None does where there are such.
    """

    def __init__(
        self,
        family: ChainFamily,
        potentials: Potentials,
        steps: DeviceSteps,
        weights: torch.Tensor | None = None,
        compiled: bool | None = None,
    ):
        node, edge = potentials.arrays
        check_chain_arrays(node, edge, steps)
        self._steps, self._tied = steps, edge.shape[0] == 1
        if compiled is None:
            compiled = node.is_cuda and self._tied and node.shape[1] <= _MOST_COMPILED and _has_triton()
        elif compiled and not self._tied:
            raise ValueError("the compiled passes are for one transition matrix that serves all positions")
        self.compiled = compiled
        self._row_weights = None if weights is None else self._sort_by_passes(weights[steps.items])
        transfer = edge.clone() if self._tied else edge[steps.permutation]
        top = transfer.amax(dim=(1, 2))
        shift = torch.where(torch.isfinite(top), top, 0.0)
        self._transfer = transfer.sub_(shift[:, None, None]).exp_()
        if len(transfer) == len(node):
            transfer[: steps.order.n_sequences] = 0.0  # nothing steps into a start, whatever is there, NaN included
        self._passes: Any
        if compiled:
            from kernelfields.engines.torch import triton_kernels

            filled = [torch.empty_like(node) for _ in range(3)]
            log_partition, low = triton_kernels.forward_backward(node, transfer, shift, steps, *filled)
            self._passes = ScaledPasses(transfer, shift, *filled)
        else:
            given = self._sort_by_steps(node), transfer, shift, steps.order
            self._passes, terms, low = step_passes.forward_backward(TORCH, *given)
            log_partition = steps.order.sums(terms)
        self._alpha, self._inverse_predicted, self._marginals = self._passes[2:]
        super().__init__(family, potentials, log_partition[steps.sequence_ranks], weights)
        troubled = ~torch.isfinite(log_partition)
        any_low, any_troubled = torch.stack([low.any(), troubled.any()]).tolist()
        if any_low:
            there = edge if self._tied else edge[steps.permutation]
            alpha = self._alpha[steps.permutation] if compiled else self._alpha
            tiny = step_passes.find_underflows(TORCH, node[steps.permutation], there, alpha, steps.order)
            troubled |= steps.order.sums(tiny) > 0.0
        found = np.flatnonzero(troubled.cpu().numpy()) if any_low or any_troubled else np.empty(0, dtype=np.int64)
        #: Sequences whose probabilities leave the range of doubles.
        self.rescued = self._rescue(np.sort(steps.order.sequences[found])) if len(found) else None

    def _rescue(self, sequences: np.ndarray) -> Rescued:
        """Infer some sequences on the host and clear their scaled quantities."""
        (node, edge), order = self.potentials.arrays, self._steps.order
        weights: Any = self.weights
        positions, offsets = gather_entries(order.offsets, sequences)
        of_passes = positions if self.compiled else order.inverse[positions]
        places, rows = (torch.as_tensor(each, device=node.device) for each in (positions, of_passes))
        tables = edge if self._tied else edge[places]
        potentials = Potentials(node[places].cpu().numpy(), {EDGE: tables.cpu().numpy()})
        own = None if weights is None else weights.cpu().numpy()[sequences]
        try:
            member = ChainFamily(offsets, node.shape[1], tied=self._tied).distribution(potentials, own)
        except InfeasibleSequence as error:
            raise InfeasibleSequence(int(sequences[error.sequence])) from None
        rescued = Rescued(sequences, rows, member)
        self.log_partition[torch.as_tensor(sequences, device=node.device)] = rescued.on_device(member.log_partition)
        self._marginals[rows] = rescued.on_device(member.marginals())
        for scaled in (self._alpha, self._inverse_predicted):
            scaled.index_fill_(0, rows, 0.0)
        return rescued

    def _sort_by_steps(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows of chains in step-major order."""
        return rows if self.compiled else rows[self._steps.permutation]

    def _sort_by_passes(self, rows: torch.Tensor) -> torch.Tensor:
        """Return step-major rows in the order of the passes."""
        return rows[self._steps.inverse] if self.compiled else rows

    def _sort_by_chains(self, rows: torch.Tensor) -> torch.Tensor:
        """Return a copy of step-major rows in the order of the chains."""
        return rows.clone() if self.compiled else rows[self._steps.inverse]

    @cached_property
    def _links(self) -> Sequence[tuple[int, int, int]]:
        # In the order of the chains the end of one comes before the start of the next, where gamma is zero.
        return [(0, 1, len(self._alpha) - 1)] if self.compiled else self._steps.order.links

    def _row_weighted(self, rows: torch.Tensor) -> torch.Tensor:
        if self._row_weights is None:
            return rows
        return rows * self._row_weights.reshape((-1,) + (1,) * (rows.ndim - 1))

    def _gamma(self) -> torch.Tensor:
        return self._marginals * self._inverse_predicted

    def _in_given_order(self, node: torch.Tensor, edge: torch.Tensor) -> TorchPotentials:
        return TorchPotentials(self._sort_by_chains(node), {EDGE: edge if self._tied else self._sort_by_chains(edge)})

    def marginals(self, group: str | None = None) -> Any:
        """Return p(y_t), (N, L), or p(y_{t-1} = a, y_t = b), (N, L, L), zero at the start of each sequence."""
        return self._sort_by_chains(self._marginals if group is None else self._step_marginals())

    def _step_marginals(self) -> torch.Tensor:
        gamma = self._gamma()
        n_positions, n_labels = gamma.shape
        marginals = gamma.new_zeros(n_positions, n_labels, n_labels)
        for before, after, count in self._links:
            rows = slice(after, after + count)
            torch.mul(self._alpha[before : before + count, :, None], gamma[rows, None, :], out=marginals[rows])
        marginals *= self._transfer
        if self.rescued is not None:
            marginals[self.rescued.rows] = self.rescued.on_device(self.rescued.member.marginals(EDGE))
        return marginals

    def mean(self) -> TorchPotentials:
        """Return the weighted marginals; marginals of tied transitions are summed."""
        node = self._row_weighted(self._marginals)
        if not self._tied:
            return self._in_given_order(node, self._row_weighted(self._step_marginals()))
        edge = self._transfer * self._summed_steps
        if self.rescued is not None:
            edge += self.rescued.on_device(self.rescued.member.mean()[EDGE])
        return self._in_given_order(node, edge)

    @cached_property
    def _summed_steps(self) -> torch.Tensor:
        """The sum_t weight_t alpha_{t-1} gamma_t^T, (L, L): expected steps before the transfer."""
        return link_sums(self._alpha, self._row_weighted(self._gamma()), self._links)

    def covariance_product(self, direction: Potentials) -> TorchPotentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        d_node, d_edge = direction.arrays
        for name, given, wanted in (("node", d_node, self._alpha), ("edge", d_edge, self._transfer)):
            if given.shape != wanted.shape:
                raise ValueError(f"{name} direction has shape {tuple(given.shape)}, expected {tuple(wanted.shape)}")
        d_node = self._sort_by_steps(d_node)
        d_edge = d_edge if self._tied else d_edge[self._steps.permutation]
        moved = self._transfer * d_edge
        if self.compiled:
            from kernelfields.engines.torch import triton_kernels

            found = triton_kernels.score_expectations(d_node, self._transfer, moved, self._steps, *self._passes[2:])
        else:
            steps = self._steps
            found = step_passes.score_expectations(
                TORCH, d_node, moved, self._passes, steps.order, steps.ends, steps.ranks
            )
        past, ahead, d_marginals = found
        if self._tied:
            gamma = self._row_weighted(self._gamma())
            edge = link_sums(past.mul_(self._alpha), gamma, self._links)
            edge += link_sums(self._alpha, ahead.mul_(gamma), self._links)
            edge = self._transfer * edge + moved * self._summed_steps
        else:
            edge = self._row_weighted(self._moved_pairs(past, ahead, d_edge))
        node = self._row_weighted(d_marginals)
        if self.rescued is not None:
            self._respond(self.rescued, d_node, d_edge, node, edge)
        return self._in_given_order(node, edge)

    def _moved_pairs(self, past: torch.Tensor, ahead: torch.Tensor, d_edge: torch.Tensor) -> torch.Tensor:
        """Return X_t(a, b) (A_{t-1}(a) + dw_t(a, b) + du_t(b) + B_t(b) - E), (N, L, L)."""
        gamma, edge = self._gamma(), torch.zeros_like(d_edge)
        for before, after, count in self._links:
            rows, earlier = slice(after, after + count), slice(before, before + count)
            part = torch.add(d_edge[rows], past[earlier, :, None], out=edge[rows])
            part += ahead[rows, None, :]
            part *= self._alpha[earlier, :, None]
            part *= self._transfer[rows]
            part *= gamma[rows, None, :]
        return edge

    def _respond(
        self, rescued: Rescued, d_node: torch.Tensor, d_edge: torch.Tensor, node: torch.Tensor, edge: torch.Tensor
    ) -> None:
        """Replace the response of rescued sequences by responses of the host."""
        steps = d_edge if self._tied else d_edge[rescued.rows]
        direction = Potentials(d_node[rescued.rows].cpu().numpy(), {EDGE: steps.cpu().numpy()})
        node_part, edge_part = map(rescued.on_device, rescued.member.covariance_product(direction).arrays)
        node[rescued.rows] = node_part
        if self._tied:
            edge += edge_part
        else:
            edge[rescued.rows] = edge_part


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def check_chain_arrays(node: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps) -> None:
    """Raise if the shapes of arrays do not fit together; values are not read."""
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
