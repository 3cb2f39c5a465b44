"""Exact inference on packed chains: log partition, marginals, Hessian products.

The weighted sum of log partition functions F(node, edge) = sum_i weight_i log Z_i is seen as a function of
the arrays of potentials. :class:`ChainBeliefs` holds its value, its gradient (expected statistics: marginals)
and its exact Hessian products (covariances of statistics), all at the cost of a forward-backward pass.

    node (N, L), edge (1, L, L) or (N, L, L), offsets (S + 1,)

edge[t] scores the step from t-1 into t; entries at the start of a sequence are ignored. Minus infinity
forbids. Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kernelfields.inference.chain.logarithms import LogDomainBeliefs, infer_in_logarithms
from kernelfields.inference.packing import check_potentials, infeasible
from kernelfields.numerics.threads import Workers


class ScaledPasses(NamedTuple):
    """Arrays of the scaled passes, read and filled by compiled code; scaled_compiled.py has the equations."""

    transfer: np.ndarray  # (E, L, L), exp(w_t - shift_t), E = 1 or N; 0 where forbidden
    shift: np.ndarray  # (E,), largest entry of w_t, 0 where all are forbidden
    alpha: np.ndarray  # (N, L), filtered probabilities
    inverse_predicted: np.ndarray  # (N, L), 1 / c_t, 0 at a start and where c_t is
    marginals: np.ndarray  # (N, L), p(y_t = b | x)


@dataclass
class ChainBeliefs:
    """Marginals of packed chains and what Hessian products need; see :func:`infer_chains`."""

    offsets: np.ndarray
    log_partition: np.ndarray
    node_marginals: np.ndarray
    position_weights: np.ndarray | None
    _passes: ScaledPasses
    _workers: Workers
    _runs: list[tuple[int, int]]
    # Sequences whose probabilities leave the range of doubles, computed in the log domain.
    _rescued: dict[int, LogDomainBeliefs] = field(default_factory=dict)

    @property
    def _tied(self) -> bool:
        return self._passes.transfer.shape[0] == 1

    def _weighted(self, rows: np.ndarray) -> np.ndarray:
        if self.position_weights is None:
            return rows
        return rows * self.position_weights.reshape((-1,) + (1,) * (rows.ndim - 1))

    def _rows(self, sequence: int) -> slice:
        return slice(self.offsets[sequence], self.offsets[sequence + 1])

    def _sequence_weight(self, sequence: int) -> float:
        return 1.0 if self.position_weights is None else float(self.position_weights[self.offsets[sequence]])

    def edge_marginals(self) -> np.ndarray:
        """Return p(y_{t-1} = a, y_t = b) as (N, L, L), zero at the start of each sequence."""
        gamma = self.node_marginals * self._passes.inverse_predicted
        marginals = np.zeros((len(gamma), gamma.shape[1], gamma.shape[1]))
        np.multiply(self._passes.alpha[:-1, :, None], gamma[1:, None, :], out=marginals[1:])
        marginals *= self._passes.transfer
        for sequence, beliefs in self._rescued.items():
            marginals[self._rows(sequence)] = beliefs.edge_marginals
        return marginals

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the weighted log partition in (node, edge), shaped like them."""
        node = self._weighted(self.node_marginals)
        if not self._tied:
            return node, self._weighted(self.edge_marginals())
        edge = self._passes.transfer * self._summed_steps()
        for sequence, beliefs in self._rescued.items():
            edge += self._sequence_weight(sequence) * beliefs.edge_marginals.sum(axis=0)
        return node, edge

    def _summed_steps(self) -> np.ndarray:
        """Return sum_t weight_t alpha_{t-1} gamma_t^T, (L, L): expected steps before the transfer."""
        alpha, inverse_predicted = self._passes.alpha, self._passes.inverse_predicted
        last = len(alpha) - 1

        def part(first: int, end: int) -> np.ndarray:
            rows = slice(first + 1, end + 1)
            gamma = self.node_marginals[rows] * inverse_predicted[rows]
            if self.position_weights is not None:
                gamma *= self.position_weights[rows, None]
            return alpha[first:end].T @ gamma

        return self._workers.sum(part, self._workers.pieces(last, last * alpha.shape[1] ** 2))

    def hessian_product(self, d_node: np.ndarray, d_edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        d_node = np.ascontiguousarray(d_node, dtype=np.float64)
        d_edge = np.ascontiguousarray(d_edge, dtype=np.float64)
        passes = self._passes
        transfer, alpha = passes.transfer, passes.alpha
        if d_edge.shape != transfer.shape:
            raise ValueError(f"edge direction has shape {d_edge.shape}, expected {transfer.shape}")
        from kernelfields.inference.chain.scaled_compiled import score_expectations

        moved = transfer * d_edge
        past, ahead, d_marginals = np.empty_like(d_node), np.empty_like(d_node), np.empty_like(d_node)
        self._workers.each(
            lambda first, last: score_expectations(
                first, last, self.offsets, d_node, moved, passes, past, ahead, d_marginals, room_to_work(d_node)
            ),
            self._runs,
        )
        responses = {}
        for sequence, beliefs in self._rescued.items():
            rows = self._rows(sequence)
            responses[sequence] = beliefs.hessian_product(d_node[rows], d_edge if self._tied else d_edge[rows])
            d_marginals[rows] = responses[sequence][0]
        gamma = self.node_marginals * passes.inverse_predicted
        if self._tied:
            gamma = self._weighted(gamma)
            edge = transfer * (
                (alpha[:-1] * past[:-1]).T @ gamma[1:] + alpha[:-1].T @ (gamma[1:] * ahead[1:])
            ) + moved * (alpha[:-1].T @ gamma[1:])
            for sequence, response in responses.items():
                edge += self._sequence_weight(sequence) * response[1].sum(axis=0)
        else:
            edge = d_edge.copy()
            edge[0] = 0.0
            edge[1:] += past[:-1, :, None]
            edge[1:] += ahead[1:, None, :]
            edge[1:] *= alpha[:-1, :, None]
            edge *= transfer
            edge *= gamma[:, None, :]
            for sequence, response in responses.items():
                edge[self._rows(sequence)] = response[1]
            edge = self._weighted(edge)
        return self._weighted(d_marginals), edge

    def rescue(self, sequence: int, node: np.ndarray, edge: np.ndarray) -> None:
        """Recompute one sequence in the log domain and blank its scaled quantities."""
        rows = self._rows(sequence)
        exact = infer_in_logarithms(node[rows], edge if self._tied else edge[rows])
        if exact.log_partition == -np.inf:
            raise infeasible(sequence)
        self._rescued[sequence] = exact
        self.log_partition[sequence] = exact.log_partition
        self.node_marginals[rows] = exact.node_marginals
        self._passes.alpha[rows] = self._passes.inverse_predicted[rows] = 0.0


def room_to_work(node: np.ndarray) -> np.ndarray:
    """Return an array that one run of the scaled passes may write to, (4, L)."""
    return np.empty((4, node.shape[1]))


def infer_chains(
    node: np.ndarray,
    edge: np.ndarray,
    offsets: np.ndarray,
    *,
    position_weights: np.ndarray | None = None,
    workers: Workers | None = None,
    check: bool = True,
) -> ChainBeliefs:
    """Compute log partition functions and marginals of packed chains.

    ``position_weights`` (N,), equal within a sequence, weigh the sequences in ``gradient`` and
    ``hessian_product``; ``check=False`` skips the validation of arrays that are known to be sound.
    """
    if check:
        node, edge, offsets = check_potentials(node, edge, offsets)
    from kernelfields.inference.chain.scaled_compiled import forward_backward

    workers = workers or Workers(1)
    top = edge.max(axis=(1, 2))
    shift = np.where(np.isfinite(top), top, 0.0)
    transfer = np.exp(edge - shift[:, None, None])
    # Sums are minus infinity exactly where an entry is: potentials are never plus infinity here.
    has_forbidden = not (np.isfinite(edge.sum()) and np.isfinite(node.sum()))
    if has_forbidden:
        # Zero must mean forbidden: a step that only underflows stays possible, if only just.
        transfer[(transfer == 0.0) & (edge > -np.inf)] = np.finfo(np.float64).smallest_subnormal
    if edge.shape[0] == len(node):
        transfer[offsets[:-1]] = 0.0  # nothing steps into a start, whatever stands there, NaN included
    shape = node.shape
    passes = ScaledPasses(transfer, shift, np.zeros(shape), np.zeros(shape), np.zeros(shape))
    log_partition = np.empty(len(offsets) - 1)
    troubled = np.zeros(len(offsets) - 1, dtype=np.bool_)
    runs = workers.runs(offsets, shape[1])
    workers.each(
        lambda first, last: forward_backward(
            first, last, offsets, node, has_forbidden, passes, log_partition, troubled, room_to_work(node)
        ),
        runs,
    )
    beliefs = ChainBeliefs(offsets, log_partition, passes.marginals, position_weights, passes, workers, runs)
    for sequence in np.flatnonzero(troubled).tolist():
        beliefs.rescue(sequence, node, edge)
    return beliefs
