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

import numpy as np

from kernelfields.inference.chain_reference import (
    ReferenceBeliefs,
    reference_hessian_product,
)
from kernelfields.inference.packing import check_potentials, infeasible
from kernelfields.inference.workers import Workers


@dataclass
class ChainBeliefs:
    """Marginals of packed chains and what Hessian products need; see :func:`infer_chains`."""

    offsets: np.ndarray
    log_partition: np.ndarray
    node_marginals: np.ndarray
    position_weights: np.ndarray | None
    _alpha: np.ndarray
    _inverse_predicted: np.ndarray
    _transfer: np.ndarray
    _workers: Workers
    _runs: list[tuple[int, int]]
    # Sequences whose probabilities leave the range of doubles, computed in the log domain.
    _rescued: dict[int, ReferenceBeliefs] = field(default_factory=dict)

    @property
    def _tied(self) -> bool:
        return self._transfer.shape[0] == 1

    def _weighted(self, rows: np.ndarray) -> np.ndarray:
        if self.position_weights is None:
            return rows
        return rows * self.position_weights.reshape((-1,) + (1,) * (rows.ndim - 1))

    def edge_marginals(self) -> np.ndarray:
        """Return p(y_{t-1} = a, y_t = b) as (N, L, L), zero at the start of each sequence."""
        gamma = self.node_marginals * self._inverse_predicted
        marginals = np.zeros((len(gamma), gamma.shape[1], gamma.shape[1]))
        np.multiply(self._alpha[:-1, :, None], gamma[1:, None, :], out=marginals[1:])
        marginals *= self._transfer
        for sequence, beliefs in self._rescued.items():
            marginals[self.offsets[sequence] : self.offsets[sequence + 1]] = beliefs.edge_marginals
        return marginals

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the weighted log partition in (node, edge), shaped like them."""
        node = self._weighted(self.node_marginals)
        if not self._tied:
            return node, self._weighted(self.edge_marginals())
        edge = self._transfer * self._summed_steps()
        for sequence, beliefs in self._rescued.items():
            edge += self._sequence_weight(sequence) * beliefs.edge_marginals.sum(axis=0)
        return node, edge

    def _summed_steps(self) -> np.ndarray:
        """Return sum_t weight_t alpha_{t-1} gamma_t^T, (L, L): expected steps before the transfer."""
        last = len(self._alpha) - 1
        pieces = self._workers.pieces(last, last * self._alpha.shape[1] ** 2)
        partial: dict[int, np.ndarray] = {}

        def run(first: int, end: int) -> None:
            rows = slice(first + 1, end + 1)
            gamma = self.node_marginals[rows] * self._inverse_predicted[rows]
            if self.position_weights is not None:
                gamma *= self.position_weights[rows, None]
            partial[first] = self._alpha[first:end].T @ gamma

        self._workers.each(run, pieces)
        # In order, so that the sum does not depend on which thread was first.
        return np.sum([partial[first] for first, _ in pieces], axis=0)

    def hessian_product(self, d_node: np.ndarray, d_edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        d_node = np.ascontiguousarray(d_node, dtype=np.float64)
        d_edge = np.ascontiguousarray(d_edge, dtype=np.float64)
        if d_edge.shape != self._transfer.shape:
            raise ValueError(f"edge direction has shape {d_edge.shape}, expected {self._transfer.shape}")
        from kernelfields.inference.chain_scaled import score_expectations

        moved = self._transfer * d_edge
        past, ahead, d_marginals = np.empty_like(d_node), np.empty_like(d_node), np.empty_like(d_node)
        self._workers.each(
            lambda first, last: score_expectations(
                first,
                last,
                self.offsets,
                d_node,
                self._transfer,
                moved,
                self._alpha,
                self._inverse_predicted,
                self.node_marginals,
                past,
                ahead,
                d_marginals,
            ),
            self._runs,
        )
        responses = {}
        for sequence, beliefs in self._rescued.items():
            rows = slice(self.offsets[sequence], self.offsets[sequence + 1])
            responses[sequence] = reference_hessian_product(
                beliefs,
                d_node[rows],
                d_edge if self._tied else d_edge[rows],
                np.array([0, rows.stop - rows.start]),
            )
            d_marginals[rows] = responses[sequence][0]
        gamma = self.node_marginals * self._inverse_predicted
        if self._tied:
            gamma = self._weighted(gamma)
            edge = self._transfer * (
                (self._alpha[:-1] * past[:-1]).T @ gamma[1:] + self._alpha[:-1].T @ (gamma[1:] * ahead[1:])
            ) + moved * (self._alpha[:-1].T @ gamma[1:])
            for sequence, response in responses.items():
                edge += self._sequence_weight(sequence) * response[1].sum(axis=0)
        else:
            edge = d_edge.copy()
            edge[0] = 0.0
            edge[1:] += past[:-1, :, None]
            edge[1:] += ahead[1:, None, :]
            edge[1:] *= self._alpha[:-1, :, None]
            edge *= self._transfer
            edge *= gamma[:, None, :]
            for sequence, response in responses.items():
                edge[self.offsets[sequence] : self.offsets[sequence + 1]] = response[1]
            edge = self._weighted(edge)
        return self._weighted(d_marginals), edge

    def _sequence_weight(self, sequence: int) -> float:
        return 1.0 if self.position_weights is None else float(self.position_weights[self.offsets[sequence]])


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
    from kernelfields.inference.chain_scaled import forward_backward

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
    alpha, inverse_predicted = np.zeros(shape), np.zeros(shape)
    marginals = np.zeros(shape)
    log_partition = np.empty(len(offsets) - 1)
    troubled = np.zeros(len(offsets) - 1, dtype=np.bool_)
    runs = workers.runs(offsets, shape[1])
    workers.each(
        lambda first, last: forward_backward(
            first,
            last,
            offsets,
            node,
            transfer,
            shift,
            has_forbidden,
            alpha,
            inverse_predicted,
            marginals,
            log_partition,
            troubled,
        ),
        runs,
    )
    beliefs = ChainBeliefs(
        offsets,
        log_partition,
        marginals,
        position_weights,
        alpha,
        inverse_predicted,
        transfer,
        workers,
        runs,
    )
    for sequence in np.flatnonzero(troubled):
        _rescue(beliefs, int(sequence), node, edge)
    return beliefs


def _rescue(beliefs: ChainBeliefs, sequence: int, node: np.ndarray, edge: np.ndarray) -> None:
    """Recompute one sequence in the log domain and blank its scaled quantities."""
    from kernelfields.inference.chain_logarithms import log_domain_beliefs

    rows = slice(beliefs.offsets[sequence], beliefs.offsets[sequence + 1])
    length, n_labels = node[rows].shape
    exact = ReferenceBeliefs(
        log_partition=np.zeros(1),
        node_marginals=np.zeros((length, n_labels)),
        edge_marginals=np.zeros((length, n_labels, n_labels)),
        backward_weights=np.zeros((length, n_labels, n_labels)),
        forward_weights=np.zeros((length, n_labels, n_labels)),
    )
    exact.log_partition[0] = log_domain_beliefs(
        node[rows],
        edge if edge.shape[0] == 1 else edge[rows],
        exact.node_marginals,
        exact.edge_marginals,
        exact.backward_weights,
        exact.forward_weights,
    )
    if exact.log_partition[0] == -np.inf:
        raise infeasible(sequence)
    beliefs._rescued[sequence] = exact
    beliefs.log_partition[sequence] = exact.log_partition[0]
    beliefs.node_marginals[rows] = exact.node_marginals
    for scaled in (beliefs._alpha, beliefs._inverse_predicted):
        scaled[rows] = 0.0
