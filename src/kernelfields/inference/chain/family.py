"""Chains whose neighbouring labels meet: log partition, marginals, covariances, best labellings, samples.

    score(y) = sum_t node[t, y_t] + sum_{t not a start} edge[t or 0, y_{t-1}, y_t]

    node (N, L), edge (1, L, L) or (N, L, L), offsets (S + 1,)

edge[t] scores the step from t-1 into t; entries at the start of a sequence are ignored. Minus infinity forbids.
Log partition, mean and covariance products each cost a forward-backward pass, O(N L^2).

A member keeps three arrays as large as the potentials, and most points that a fit visits need none of them: where
nothing is to be kept, more than a few thousand positions are inferred in blocks of whole sequences.
Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.chain.logarithms import LogDomainBeliefs, infer_in_logarithms
from kernelfields.inference.family import LabelFamily, Member, RankedLabellings
from kernelfields.inference.packing import infeasible
from kernelfields.inference.potentials import EDGE, Group, Observed, Potentials
from kernelfields.numerics.threads import Workers

# Potentials of positions that are inferred at once where nothing is kept; fewer, down to the second number, if threads
# would have nothing to do.
_BLOCK_VALUES, _FEWEST_VALUES = 2**15, 2**13


class ScaledPasses(NamedTuple):
    """Arrays of the scaled passes, read and filled by compiled code; scaled_compiled.py has the equations."""

    transfer: np.ndarray  # (E, L, L), exp(w_t - shift_t), E = 1 or N; 0 where forbidden
    shift: np.ndarray  # (E,), largest entry of w_t, 0 where all are forbidden
    alpha: np.ndarray  # (N, L), filtered probabilities
    inverse_predicted: np.ndarray  # (N, L), 1 / c_t, 0 at a start and where c_t is
    marginals: np.ndarray  # (N, L), p(y_t = b | x)


class ChainMember(Member):
    """Marginals of packed chains and what covariance products need."""

    family: ChainFamily

    def __init__(self, family: ChainFamily, potentials: Potentials, weights: np.ndarray | None, workers: Workers):
        super().__init__(family, potentials, np.empty(family.n_items), weights)
        self._workers, self._runs = workers, workers.runs(family.offsets, family.n_labels)
        # Sequences whose probabilities leave the range of doubles, computed in the log domain.
        self._rescued: dict[int, LogDomainBeliefs] = {}
        node, edge = potentials.node, potentials.edge
        self._passes, has_forbidden = _exponentials(node, edge, family.offsets)
        for sequence in self._forward_backward(node, has_forbidden).tolist():
            self._rescue(sequence, node, edge)

    def _forward_backward(self, node: np.ndarray, has_forbidden: bool) -> np.ndarray:
        """Run the passes; return the sequences that leave the range of doubles."""
        from kernelfields.inference.chain.scaled_compiled import forward_backward

        troubled = np.zeros(len(self.log_partition), dtype=np.bool_)
        shared = self.family.offsets, node, has_forbidden, self._passes, self.log_partition, troubled
        self._workers.each(lambda first, last: forward_backward(first, last, *shared, _work_space(node)), self._runs)
        return np.flatnonzero(troubled)

    def _rescue(self, sequence: int, node: np.ndarray, edge: np.ndarray) -> None:
        """Recompute one sequence in the log domain and blank its scaled quantities."""
        rows = self._rows(sequence)
        exact = infer_in_logarithms(node[rows], edge if self._tied else edge[rows])
        if exact.log_partition == -np.inf:
            raise infeasible(sequence)
        self._rescued[sequence] = exact
        self.log_partition[sequence] = exact.log_partition
        self._passes.marginals[rows] = exact.node_marginals
        self._passes.alpha[rows] = self._passes.inverse_predicted[rows] = 0.0

    @property
    def _tied(self) -> bool:
        return self._passes.transfer.shape[0] == 1

    def _rows(self, sequence: int) -> slice:
        return slice(self.family.offsets[sequence], self.family.offsets[sequence + 1])

    def _sequence_weight(self, sequence: int) -> float:
        return 1.0 if self.weights is None else float(self.weights[sequence])

    @cached_property
    def _position_weights(self) -> np.ndarray | None:
        return None if self.weights is None else self.weights[self.family.position_items]

    def _weighted_rows(self, rows: np.ndarray) -> np.ndarray:
        weights = self._position_weights
        return rows if weights is None else rows * weights.reshape((-1,) + (1,) * (rows.ndim - 1))

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return p(y_t), (N, L), or p(y_{t-1} = a, y_t = b), (N, L, L), zero at the start of each sequence."""
        if group is None:
            return self._passes.marginals
        gamma = self._passes.marginals * self._passes.inverse_predicted
        marginals = np.zeros((len(gamma), gamma.shape[1], gamma.shape[1]))
        np.multiply(self._passes.alpha[:-1, :, None], gamma[1:, None, :], out=marginals[1:])
        marginals *= self._passes.transfer
        for sequence, beliefs in self._rescued.items():
            marginals[self._rows(sequence)] = beliefs.edge_marginals
        return marginals

    def mean(self) -> Potentials:
        """Return the weighted marginals; those of steps are summed where transitions are tied."""
        node = self._weighted_rows(self._passes.marginals)
        node = node.copy() if node is self._passes.marginals else node
        if not self._tied:
            return Potentials(node, {EDGE: self._weighted_rows(self.marginals(EDGE))})
        edge = self._passes.transfer * self._summed_steps()
        for sequence, beliefs in self._rescued.items():
            edge += self._sequence_weight(sequence) * beliefs.edge_marginals.sum(axis=0)
        return Potentials(node, {EDGE: edge})

    def _summed_steps(self) -> np.ndarray:
        """Return sum_t weight_t alpha_{t-1} gamma_t^T, (L, L): expected steps before the transfer."""
        alpha, inverse_predicted, weights = self._passes.alpha, self._passes.inverse_predicted, self._position_weights
        last = len(alpha) - 1

        def part(first: int, end: int) -> np.ndarray:
            rows = slice(first + 1, end + 1)
            gamma = self._passes.marginals[rows] * inverse_predicted[rows]
            if weights is not None:
                gamma *= weights[rows, None]
            return alpha[first:end].T @ gamma

        return self._workers.sum(part, self._workers.pieces(last, last * alpha.shape[1] ** 2))

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        d_node = np.ascontiguousarray(direction.node, dtype=np.float64)
        d_edge = np.ascontiguousarray(direction.edge, dtype=np.float64)
        passes = self._passes
        transfer, alpha = passes.transfer, passes.alpha
        if d_edge.shape != transfer.shape:
            raise ValueError(f"edge direction has shape {d_edge.shape}, expected {transfer.shape}")
        from kernelfields.inference.chain.scaled_compiled import score_expectations

        moved = transfer * d_edge
        past, ahead, d_marginals = np.empty_like(d_node), np.empty_like(d_node), np.empty_like(d_node)
        shared = self.family.offsets, d_node, moved, passes, past, ahead, d_marginals
        self._workers.each(
            lambda first, last: score_expectations(first, last, *shared, _work_space(d_node)), self._runs
        )
        responses = {}
        for sequence, beliefs in self._rescued.items():
            rows = self._rows(sequence)
            responses[sequence] = beliefs.hessian_product(d_node[rows], d_edge if self._tied else d_edge[rows])
            d_marginals[rows] = responses[sequence][0]
        gamma = passes.marginals * passes.inverse_predicted
        if self._tied:
            gamma = self._weighted_rows(gamma)
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
            edge = self._weighted_rows(edge)
        return Potentials(self._weighted_rows(d_marginals), {EDGE: edge})

    def entropy(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,), without marginals of steps."""
        from kernelfields.inference.chain.decoding import chain_entropy

        return chain_entropy(self.potentials.node, self.potentials.edge, self.family.offsets, self._workers)


def _work_space(node: np.ndarray) -> np.ndarray:
    """Return an array that one run of the scaled passes may write to, (4, L)."""
    return np.empty((4, node.shape[1]))


def _exponentials(node: np.ndarray, edge: np.ndarray, offsets: np.ndarray) -> tuple[ScaledPasses, bool]:
    """Return the arrays of the passes with exponentials of steps, and whether something is forbidden."""
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
    arrays = (np.zeros(node.shape) for _ in range(3))
    return ScaledPasses(transfer, shift, *arrays), has_forbidden


class BlockwiseMember(Member):
    """Log partition and mean of chains, inferred block by block; what else is asked infers all of them again."""

    family: ChainFamily

    def __init__(
        self,
        family: ChainFamily,
        potentials: Potentials,
        weights: np.ndarray | None,
        workers: Workers,
        blocks: Sequence[tuple[int, int, ChainFamily]],
    ):
        self.family, self.weights, self.log_partition = family, weights, np.empty(family.n_items)
        self._without_base, self._workers = potentials, workers
        edges = potentials.edge.shape
        tied = edges[0] == 1
        node, edge = np.empty_like(potentials.node), np.empty((len(blocks), *edges[1:]) if tied else edges)

        def run(first: int, last: int) -> None:
            for index in range(first, last):
                begin, end, part = blocks[index]
                own_weights = None if weights is None else weights[begin:end]
                member = part.at(family.cut(potentials, begin, end), own_weights)
                rows, mean = slice(family.offsets[begin], family.offsets[end]), member.mean()
                self.log_partition[begin:end], node[rows] = member.log_partition, mean.node
                edge[slice(index, index + 1) if tied else rows] = mean.edge

        workers.each(run, [(index, index + 1) for index in range(len(blocks))])
        summed = edge.sum(axis=0, keepdims=True) if tied else edge
        self._mean: Potentials | None = Potentials(node, {EDGE: summed})

    @cached_property
    def _whole(self) -> Member:
        return self.family.at(self._without_base, self.weights, self._workers)

    @cached_property
    def potentials(self) -> Potentials:  # type: ignore[override]
        """The potentials, base measure included."""
        return self.family.with_base(self._without_base)

    def mean(self) -> Potentials:
        """Return the weighted marginals."""
        if self._mean is None:
            return self._whole.mean()
        mean, self._mean = self._mean, None  # the caller may change it
        return mean

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return marginals of positions or steps."""
        return self._whole.marginals(group)

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        return self._whole.covariance_product(direction)

    def entropy(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return self._whole.entropy()


class ChainFamily(LabelFamily):
    """Labellings of chains whose neighbours meet; ``tied``: one table of transitions serves all positions.

    Beyond ``at_once`` positions (None: enough to be fast), inference that keeps nothing runs block by block.
    """

    method = "chain"

    def __init__(
        self,
        offsets: ArrayLike,
        n_labels: int,
        *,
        tied: bool = True,
        base: BaseMeasure | None = None,
        at_once: int | None = None,
    ):
        super().__init__(offsets, n_labels, (), base)
        edge = Group(EDGE, (n_labels, n_labels), self.n_positions, self.position_items, tied)
        self.groups = (*self.groups, edge)
        self.tied = tied
        self._at_once = at_once
        self._known_blocks: tuple[int, list[tuple[int, int, ChainFamily]]] | None = None

    def clique_members(self, group: str) -> np.ndarray:
        """Return the neighbouring positions of each step, (M, 2)."""
        steps = self._following
        return np.stack([steps - 1, steps], axis=1)

    def clique_places(self, group: str) -> np.ndarray | None:
        """Return the rows that are cliques: steps lead to all positions but the first of each sequence."""
        return self._following if group == EDGE else None

    def observed(self, labels: np.ndarray) -> Mapping[str | None, Observed]:
        """Return the labels and the steps between them."""
        steps, items = self._following, self.position_items
        return {
            None: Observed(np.arange(self.n_positions), labels, items),
            EDGE: Observed(steps, labels[steps - 1] * self.n_labels + labels[steps], items[steps]),
        }

    def log_labellings(self) -> np.ndarray:
        """Return the logarithm of the number of labellings of each sequence, weighted by p0, (S,)."""
        base, lengths = self.base, np.diff(self.offsets)
        if base is None:
            return lengths * np.log(self.n_labels)
        if base.masks is not None and base.allowed is None and base.log_weights is None:
            return base.masks.log_labellings(lengths)
        return super().log_labellings()

    def at(
        self,
        potentials: Potentials,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
        *,
        keep: bool = True,
    ) -> Member:
        """Return the distribution at potentials; block by block, with the base measure of each, to keep nothing."""
        workers = workers or Workers(1)
        if not keep and len(blocks := self._blocks(workers)) > 1:
            return BlockwiseMember(self, potentials, weights, workers, blocks)
        return super().at(potentials, weights, workers, keep=keep)

    def _blocks(self, workers: Workers) -> list[tuple[int, int, ChainFamily]]:
        """Return runs of sequences that are inferred at once, and their families."""
        if self._known_blocks is None or self._known_blocks[0] != workers.n_threads:
            size = self._at_once or positions_at_once(self.n_positions, self.n_labels, workers.n_threads)
            runs = blocks_of_sequences(self.offsets, size)
            blocks = [(first, last, self.part(first, last)) for first, last in runs] if len(runs) > 1 else []
            self._known_blocks = workers.n_threads, blocks
        return self._known_blocks[1]

    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers, keep: bool) -> Member:
        return ChainMember(self, potentials, weights, workers)

    def _best(self, potentials: Potentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        from kernelfields.inference.chain.decoding import viterbi

        return viterbi(potentials.node, potentials.edge, self.offsets, workers)

    def _n_best(self, potentials: Potentials, k: int, workers: Workers) -> RankedLabellings:
        from kernelfields.inference.chain.decoding import n_best

        return n_best(potentials.node, potentials.edge, self.offsets, k, workers)

    def _sample(
        self, potentials: Potentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        from kernelfields.inference.chain.decoding import sample_chains

        return sample_chains(potentials.node, potentials.edge, self.offsets, n_samples, random, workers)

    def given(self, log_weights: np.ndarray) -> ChainFamily:
        """Return the family with p0 multiplied by weights of labels; restricted to lists where these leave few."""
        from kernelfields.inference.chain.lists import ListFamily, worth_lists

        base = (self.base or BaseMeasure(self.offsets, self.n_labels)).times(log_weights)
        if base.lists is not None and worth_lists(base.lists) and np.diff(base.lists.begin).all():
            return ListFamily(self.offsets, self.n_labels, base.lists, tied=self.tied, base=base)
        family = self._with_measure(base)
        family._known_blocks = None
        return family

    def cut(self, potentials: Potentials, first: int, last: int) -> Potentials:
        """Return views of the potentials of sequences first..last-1."""
        rows, edge = slice(self.offsets[first], self.offsets[last]), potentials.edge
        return Potentials(potentials.node[rows], {EDGE: edge if len(edge) == 1 else edge[rows]})

    def part(self, first: int, last: int) -> ChainFamily:
        """Return the family of sequences first..last-1."""
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        settings = {"tied": self.tied, "base": self._base_of(first, last), "at_once": int(offsets[-1])}
        return ChainFamily(offsets, self.n_labels, **settings)  # type: ignore[arg-type]


def positions_at_once(n_positions: int, n_labels: int, n_threads: int) -> int:
    """Return the positions of a block whose potentials stay in the cache while every thread has blocks to infer."""
    values = n_positions * n_labels
    n_blocks = max(1, values // _BLOCK_VALUES, min(2 * n_threads, values // _FEWEST_VALUES))
    return max(1, n_positions // n_blocks)


def blocks_of_sequences(offsets: np.ndarray, at_once: int) -> list[tuple[int, int]]:
    """Cut sequences into runs of about ``at_once`` positions, at least one sequence each."""
    n_blocks = max(1, int(offsets[-1]) // at_once)
    targets = np.linspace(0, offsets[-1], n_blocks + 1)
    cuts = np.unique(np.searchsorted(offsets, targets))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]
