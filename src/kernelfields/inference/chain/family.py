"""Chains with factors of neighbouring labels: log partition, marginals, covariances, best labellings, samples.

    score(y) = sum_t node[t, y_t] + sum_{t not a start} edge[t or 0, y_{t-1}, y_t]

    node (N, L), edge (1, L, L) or (N, L, L), offsets (S + 1,)

edge[t] scores the step from t-1 into t; entries at the start of a sequence are ignored. Minus infinity forbids.
Log partition, mean and covariance products each cost a forward-backward pass, O(N L^2).

A member keeps three arrays as large as the potentials, and most points that a fit visits need none of them: where
nothing is to be kept, more than a few thousand positions are inferred in blocks of whole sequences.
Raises ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from kernelfields.inference import measures
from kernelfields.inference.chain.dense import Layout
from kernelfields.inference.chain.recursions import chosen, list_forms
from kernelfields.inference.family import LabelFamily, Labellings, Member, RankedLabellings
from kernelfields.inference.packing import exponentials
from kernelfields.inference.potentials import EDGE, Arrangement, Group, Observed, Potentials
from kernelfields.numerics.threads import Workers

if TYPE_CHECKING:
    from kernelfields.inference.junction.family import RescuedItems

# Potentials of positions that are inferred at once where nothing is kept; fewer, down to the second number, if threads
# would have nothing to do.
_BLOCK_VALUES, _FEWEST_VALUES = 2**15, 2**13
# Probabilities of steps, and positions, whose entropies are computed and summed at once.
_ENTROPY_VALUES, _SUMMED_AT_ONCE = 2**16, 2**12


class ChainMember(Member):
    """Marginals of packed chains, and the arrays for covariance products."""

    family: ChainFamily

    def __init__(self, family: ChainFamily, potentials: Potentials, weights: np.ndarray | None, workers: Workers):
        node, edge = potentials.node, potentials.edge
        transfer, shift = exponentials(edge)
        if len(edge) == len(node):
            transfer[family.offsets[:-1]] = 0.0  # nothing steps into a start, whatever stands there, NaN included
        sums = chosen("sum", family.forms)
        self._passes, log_partition, troubled = sums(family.layout, potentials, transfer, shift, workers)
        super().__init__(family, potentials, log_partition, weights)
        self._workers = workers
        #: Sequences whose probabilities leave the range of doubles.
        self._rescued = self._rescue(np.flatnonzero(troubled)) if troubled.any() else None

    def _rescue(self, sequences: np.ndarray) -> RescuedItems:
        """Infer some sequences in logarithms and blank their scaled quantities."""
        from kernelfields.inference.chain.as_graphs import rescue

        rescued = rescue(self, sequences, self._workers)
        self.log_partition[sequences] = rescued.member.log_partition
        self._passes.marginals[rescued.rows] = rescued.member.node_marginals
        self._passes.alpha[rescued.rows] = self._passes.inverse_predicted[rescued.rows] = 0.0
        return rescued

    @property
    def _tied(self) -> bool:
        return self._passes.transfer.shape[0] == 1

    def _weighted_rows(self, rows: np.ndarray) -> np.ndarray:
        return self._weighted(rows, self.family.position_items)

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return p(y_t), (N, L), or p(y_{t-1} = a, y_t = b), (N, L, L), zero at the start of each sequence."""
        if group is None:
            return self._passes.marginals
        marginals = self._scaled_steps(0, self.family.n_positions)
        if self._rescued is not None:
            marginals[self._rescued.factors[0]] = self._rescued.member._table_marginals(0)
        return marginals

    def _scaled_steps(self, first: int, last: int) -> np.ndarray:
        """Return the marginals of the steps into positions first..last-1, zero for rescued sequences."""
        alpha, transfer = self._passes.alpha, self._passes.transfer
        gamma = self._passes.marginals[first:last] * self._passes.inverse_predicted[first:last]
        steps = np.zeros((last - first, alpha.shape[1], alpha.shape[1]))
        begin = max(first, 1)
        np.multiply(alpha[begin - 1 : last - 1, :, None], gamma[begin - first :, None, :], out=steps[begin - first :])
        steps *= transfer if self._tied else transfer[first:last]
        return steps

    def mean(self) -> Potentials:
        """Return the weighted marginals; marginals of tied transitions are summed."""
        node = self._weighted_rows(self._passes.marginals)
        node = node.copy() if node is self._passes.marginals else node
        if not self._tied:
            return Potentials(node, {EDGE: self._weighted_rows(self.marginals(EDGE))})
        edge = self._passes.transfer * self._summed_steps()
        if self._rescued is not None:
            self._rescued.add([edge], self._rescued.member._expected_tables())
        return Potentials(node, {EDGE: edge})

    def _summed_steps(self) -> np.ndarray:
        """Return sum_t weight_t alpha_{t-1} gamma_t^T, (L, L): expected steps before the transfer."""
        alpha, inverse_predicted, items = self._passes.alpha, self._passes.inverse_predicted, self.family.position_items
        last = len(alpha) - 1

        def part(first: int, end: int) -> np.ndarray:
            rows = slice(first + 1, end + 1)
            gamma = self._passes.marginals[rows] * inverse_predicted[rows]
            return alpha[first:end].T @ self._weighted(gamma, items[rows])

        return self._workers.sum(part, self._workers.pieces(last, last * alpha.shape[1] ** 2))

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        d_node = np.ascontiguousarray(direction.node, dtype=np.float64)
        d_edge = np.ascontiguousarray(direction.edge, dtype=np.float64)
        passes = self._passes
        transfer, alpha = passes.transfer, passes.alpha
        if d_edge.shape != transfer.shape:
            raise ValueError(f"edge direction has shape {d_edge.shape}, expected {transfer.shape}")
        moved = transfer * d_edge
        tangents = chosen("tangent", self.family.forms)
        past, ahead, d_marginals = tangents(self.family.layout, passes, d_node, moved, self._workers)
        gamma = passes.marginals * passes.inverse_predicted
        if self._tied:
            gamma = self._weighted_rows(gamma)
            edge = transfer * (
                (alpha[:-1] * past[:-1]).T @ gamma[1:] + alpha[:-1].T @ (gamma[1:] * ahead[1:])
            ) + moved * (alpha[:-1].T @ gamma[1:])
        else:
            edge = d_edge.copy()
            edge[0] = 0.0
            edge[1:] += past[:-1, :, None]
            edge[1:] += ahead[1:, None, :]
            edge[1:] *= alpha[:-1, :, None]
            edge *= transfer
            edge *= gamma[:, None, :]
            edge = self._weighted_rows(edge)
        node = self._weighted_rows(d_marginals)
        if self._rescued is not None:
            node[self._rescued.rows], more = self._rescued.responses(d_node, [d_edge])
            self._rescued.add([edge], more)
        return Potentials(node, {EDGE: edge})

    def entropy(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,): of its first label, and of each label given the previous one."""
        marginals, offsets, n_positions = self._passes.marginals, self.family.offsets, self.family.n_positions
        # Of a label given the one before: the entropy of both less that of the one before.
        single, own = entr(marginals).sum(axis=1), np.zeros(n_positions)
        steps = self.family.clique_members(EDGE)
        own[offsets[:-1]] = single[offsets[:-1]]
        own[steps[:, 1]] = -single[steps[:, 0]]

        def run(first: int, last: int) -> None:
            own[first:last] += entr(self._scaled_steps(first, last)).sum(axis=(1, 2))

        size = max(1, _ENTROPY_VALUES // self.family.n_labels**2)
        self._workers.each(run, [(at, min(at + size, n_positions)) for at in range(0, n_positions, size)])
        if self._rescued is not None:
            own[self._rescued.factors[0]] += entr(self._rescued.member._table_marginals(0)).sum(axis=(1, 2))
        # Sums of sums: a long one would lose digits.
        cuts = np.union1d(offsets[:-1], np.arange(0, n_positions, _SUMMED_AT_ONCE))
        sums = np.add.reduceat(own, cuts)
        return np.maximum(np.bincount(self.family.position_items[cuts], sums, minlength=self.family.n_items), 0.0)

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N): the last label of a sequence first, then each given the next one."""
        # One uniform per label, drawn before the work is shared out: threads cannot change the result.
        uniforms = random.random((n_samples, self.family.n_positions))
        labels = chosen("draw", self.family.forms)(self.family.layout, self._passes, uniforms, self._workers)
        if self._rescued is not None:
            labels[:, self._rescued.rows] = self._rescued.draw(n_samples, random, self._workers)
        return labels


class BlockwiseMember(Member):
    """Log partition and mean of chains, inferred block by block; other questions infer all chains again."""

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
                member = part.distribution(family.arrangement.cut(potentials, begin, end), own_weights)
                rows, mean = slice(family.offsets[begin], family.offsets[end]), member.mean()
                self.log_partition[begin:end], node[rows] = member.log_partition, mean.node
                edge[slice(index, index + 1) if tied else rows] = mean.edge

        workers.each(run, [(index, index + 1) for index in range(len(blocks))])
        summed = edge.sum(axis=0, keepdims=True) if tied else edge
        self._mean: Potentials | None = Potentials(node, {EDGE: summed})

    @cached_property
    def _whole(self) -> Member:
        return self.family.distribution(self._without_base, self.weights, self._workers)

    @cached_property
    def potentials(self) -> Potentials:  # type: ignore[override]
        """The potentials with the base measure."""
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


class ChainLabellings(Labellings):
    """The best labellings of chains, and draws."""

    family: ChainFamily

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,), and its score for each sequence, (S,)."""
        return chosen("max", self.family.forms)(self.family.layout, self.potentials, self.workers)

    def _n_best(self, k: int) -> RankedLabellings:
        from kernelfields.inference.chain.as_graphs import rank_labellings

        if not self.family.n_items:
            return [], []
        return rank_labellings(self.family, self.potentials, k, self.workers)

    def _sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        return ChainMember(self.family, self.potentials, None, self.workers).sample(n_samples, random)


class ChainFamily(LabelFamily):
    """Infer labellings of chains with factors of neighbours, exactly.

    Log partition, mean and covariance products each cost a forward-backward pass, O(N L^2).

    Parameters
    ----------
    offsets : array (S + 1,)
        The position at which each chain begins, and N.
    n_labels : int
        The number of labels.
    tied : bool, default True
        Whether one table of transitions serves all positions.
    base : BaseMeasure, optional
        The labels that are allowed, and how much they count; by default all alike.
    at_once : int, optional
        The positions that are inferred at once if nothing is kept; by default enough to be fast.
    forms : sequence of str, optional
        The forms of the recursions; by default those that suit the chains.
    narrow : callable, optional
        A function of a family and a base measure of :meth:`condition` that returns a family that infers these
        labellings with less work, or None; by default all labels are inferred.

    References
    ----------
    Rabiner (1989), A tutorial on hidden Markov models and selected applications in speech recognition.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import ChainFamily, Potentials
    >>> family = ChainFamily(np.array([0, 2]), n_labels=2)  # a sequence of two positions
    >>> scores = Potentials(np.array([[1.0, 0.0], [0.0, 0.0]]), {"edge": np.array([[[1.0, 0.0], [0.0, 0.5]]])})
    >>> family.distribution(scores).marginals().round(2)
    array([[0.79, 0.21],
           [0.66, 0.34]])
    """

    method = "chain"
    _labellings_type: type[Labellings] = ChainLabellings

    def __init__(
        self,
        offsets: ArrayLike,
        n_labels: int,
        *,
        tied: bool = True,
        base: measures.BaseMeasure | None = None,
        at_once: int | None = None,
        forms: Sequence[str] | None = None,
        narrow: Callable[[ChainFamily, measures.BaseMeasure], ChainFamily | None] | None = None,
    ):
        super().__init__(offsets, n_labels, (), base)
        edge = Group(EDGE, (n_labels, n_labels), self.n_positions, self.position_items, tied, steps=True)
        self.groups = (*self.groups, edge)
        self.arrangement = Arrangement(self.offsets, self.groups)
        self.tied = tied
        self._at_once = at_once
        self._narrow = narrow
        self._given_forms = forms
        self._known_blocks: tuple[int, list[tuple[int, int, ChainFamily]]] | None = None

    @cached_property
    def forms(self) -> Sequence[str]:
        """The forms of recursions by which these chains are inferred, the best one first."""
        return list_forms(self.offsets, self.n_labels) if self._given_forms is None else self._given_forms

    @cached_property
    def layout(self) -> Layout:
        """The order of passes over the chains."""
        return Layout(self.offsets)

    def clique_members(self, group: str) -> np.ndarray:
        """Return the positions of the labels in each clique of a group.

        Parameters
        ----------
        group : str
            The name of the group.

        Returns
        -------
        array (M, k)
            Numbers of positions.
        """
        return self.step_pairs()

    def observed(self, labels: np.ndarray) -> dict[str | None, Observed]:
        """Find the cliques of labelled data in each group.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        dict
            For the name of each group an Observed: rows, labellings, items.
        """
        steps = self.arrangement.followers
        numbers = labels[steps - 1] * self.n_labels + labels[steps]
        return {**super().observed(labels), EDGE: Observed(steps, numbers, self.position_items[steps])}

    def log_labellings(self) -> np.ndarray:
        """Compute the logarithm of the number of labellings of each sequence, weighted by the base measure.

        Returns
        -------
        array (S,)
            The logarithms.
        """
        base = self.base
        if base is not None and base.masks is not None and base.has_only_constraints:
            return base.masks.log_labellings(np.diff(self.offsets))
        return super().log_labellings()

    def distribution(
        self,
        potentials: Potentials,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
        *,
        keep: bool = True,
    ) -> Member:
        """Return the distribution at potentials.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        weights : array (S,), optional
            The weights of items in its mean and covariances; ones by default.
        workers : Workers, optional
            The threads; by default one.
        keep : bool, default True
            Whether to keep what questions beyond log partition and mean need; otherwise they infer again.

        Returns
        -------
        Member
            The distribution.

        Raises
        ------
        ValueError
            If all labellings of an item are forbidden; the message names it.
        """
        workers = workers or Workers(1)
        if not keep and len(blocks := self._blocks(workers)) > 1:
            return BlockwiseMember(self, potentials, weights, workers, blocks)
        return super().distribution(potentials, weights, workers, keep=keep)

    def _blocks(self, workers: Workers) -> list[tuple[int, int, ChainFamily]]:
        """Return runs of sequences to be inferred together, and their families."""
        if self._known_blocks is None or self._known_blocks[0] != workers.n_threads:
            size = self._at_once or positions_per_block(self.n_positions, self.n_labels, workers.n_threads)
            # The pieces of a long chain are passed side by side where all chains are inferred at once.
            cut = (self.layout.count_pieces(workers.n_threads) > 1).any()
            runs = [] if cut else blocks_of_sequences(self.offsets, size)
            blocks = [(first, last, self.part(first, last)) for first, last in runs] if len(runs) > 1 else []
            self._known_blocks = workers.n_threads, blocks
        return self._known_blocks[1]

    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers) -> Member:
        return ChainMember(self, potentials, weights, workers)

    def condition(self, log_weights: np.ndarray) -> ChainFamily:
        """Return the family with the base measure multiplied by weights of single labels.

        Parameters
        ----------
        log_weights : array (N, L)
            The logarithms of the weights of labels; minus infinity forbids.

        Returns
        -------
        LabelFamily
            The family.
        """
        base = (self.base or measures.BaseMeasure(self.offsets, self.n_labels)).multiply(log_weights)
        if self._narrow is not None and (narrower := self._narrow(self, base)) is not None:
            return narrower
        family = copy.copy(self)
        family.base, family._known_blocks = base, None
        return family

    def part(self, first: int, last: int) -> ChainFamily:
        """Return the family of items first..last-1.

        Parameters
        ----------
        first : int
            The first item.
        last : int
            The item after the last.

        Returns
        -------
        LabelFamily
            The family of the part.
        """
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        base = self.base and self.base.part(first, last)
        at_once, forms, narrow = int(offsets[-1]), self.forms, self._narrow
        return ChainFamily(
            offsets, self.n_labels, tied=self.tied, base=base, at_once=at_once, forms=forms, narrow=narrow
        )


def positions_per_block(n_positions: int, n_labels: int, n_threads: int) -> int:
    """Return the number of positions of a block whose potentials fit the cache, with blocks for every thread."""
    values = n_positions * n_labels
    for_threads = min(2 * n_threads, values // _FEWEST_VALUES) if n_threads > 1 else 1
    n_blocks = max(1, values // _BLOCK_VALUES, for_threads)
    return max(1, n_positions // n_blocks)


def blocks_of_sequences(offsets: np.ndarray, at_once: int) -> list[tuple[int, int]]:
    """Split sequences into runs of about ``at_once`` positions, at least one sequence each."""
    n_blocks = max(1, int(offsets[-1]) // at_once)
    ends = np.linspace(0, offsets[-1], n_blocks + 1)
    cuts = np.unique(np.searchsorted(offsets, ends))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]
