"""Chains that are divided into segments: log partition, marginals, expected durations, covariances, best segmentations.

    score = sum over segments (b, e, y) of  sum_{b <= t < e} node_t(y) + duration(e - b, y)
            + sum over neighbouring segments  edge_e(y, y')

    node (N, L), edge (1, L, L) or (N, L, L), duration (D, L), offsets (S + 1,)

edge[t] scores the step into a segment that begins at t. Segments have at most D positions; minus infinity forbids a
label at a position, a step, or a duration. The equations are in passes_compiled.py. Segments of the same label follow
each other only where the base measure allows that step.
Raises ValueError naming the sequence that cannot be cut into segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from math import isqrt
from typing import NamedTuple

import numpy as np

from kernelfields.data.segments import DURATION, Segmentation, SegmentedChains, find_begins, segment_bounds
from kernelfields.inference import segments
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.choice import FamilySpec, builds
from kernelfields.inference.family import LabelFamily, Labellings, Member, RankedLabellings, is_group_constant
from kernelfields.inference.potentials import EDGE, Arrangement, Group, Observed, Placed, Potentials
from kernelfields.numerics.threads import Workers


class Durations(NamedTuple):
    """Scores of durations for compiled passes, (L, D): logarithms, exp(logs - top), and both reversed."""

    logs: np.ndarray
    weights: np.ndarray
    reversed_logs: np.ndarray
    reversed_weights: np.ndarray
    tops: np.ndarray

    @classmethod
    def from_array(cls, duration: np.ndarray) -> Durations:
        """Return scores (D, L) in this form."""
        logs = np.ascontiguousarray(duration.T)
        tops = logs.max(axis=1)
        tops[tops == -np.inf] = 0.0
        weights = np.exp(logs - tops[:, None])
        return cls(logs, weights, _reversed(logs), _reversed(weights), tops)


class SegmentPasses(NamedTuple):
    """Arrays of the passes, (L, N + S); passes_compiled.py has the equations."""

    totals: np.ndarray
    reach: np.ndarray
    ahead: np.ndarray
    opened: np.ndarray
    q: np.ndarray
    ended: np.ndarray
    g: np.ndarray


class Prepared(NamedTuple):
    """The results of passes over runs of sequences."""

    passes: SegmentPasses
    durations: Durations
    shifts: np.ndarray  # (S,), to be added to scores and log Z
    runs: list[tuple[int, int]]


#: Node scores (N, L), edge (1 or N, L, L) and durations (D, L), as contiguous doubles.
SegmentArrays = tuple[np.ndarray, np.ndarray, np.ndarray]


class ExpectedSums(NamedTuple):
    """Accumulators of forward passes: expected durations, reversed, (L, D), their derivatives, expected steps."""

    durations: np.ndarray
    moved: np.ndarray
    steps: np.ndarray


class Moved(NamedTuple):
    """A direction, and the derivatives of the passes along it."""

    edge: np.ndarray
    durations: np.ndarray
    weights: np.ndarray
    reversed_durations: np.ndarray
    reversed_weights: np.ndarray
    totals: np.ndarray
    opened: np.ndarray
    q: np.ndarray
    ended: np.ndarray
    g: np.ndarray


def _reversed(table: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(table[:, ::-1])


class SegmentMember(Member):
    """Marginals of segmentations, and the arrays for covariance products."""

    family: SegmentFamily

    def __init__(self, family: SegmentFamily, potentials: Potentials, weights: np.ndarray | None, workers: Workers):
        forward = segments.passes_compiled.forward
        arrays = family.arrays(potentials)
        node, edge, _ = arrays
        self.offsets, self.edge = family.offsets, edge
        prepared, within = family.backward(arrays, workers)
        self._passes, self.durations, self._runs = prepared.passes, prepared.durations, prepared.runs
        check_possible(within, self.offsets, family.max_duration)
        super().__init__(family, potentials, within + prepared.shifts, weights)
        self._workers, self._log_partition_within = workers, within
        self._node_marginals = np.empty(node.shape)
        known = self.offsets, edge, self.durations, self.item_weights, self._passes, within, self._node_marginals
        #: Expected numbers of segments of each duration and label, (D, L), and of steps between labels, (1 or N, L, L),
        #: both weighted.
        counts, _, self._expected_steps = self._run_sums(lambda first, last, sums: forward(first, last, *known, sums))
        self._expected_durations = np.ascontiguousarray(counts[:, ::-1].T)

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return the marginals of a group of cliques.

        Of positions, p(y_t), (N, L). Of steps, p(a segment of a ends and one of b begins at t), (N, L, L), zero at the
        start of each sequence. Of durations, the share of positions where a segment of this length and label begins,
        (D, L).
        """
        if group == DURATION:
            return self._expected_durations / float(self.item_weights @ np.diff(self.offsets))
        return self._node_marginals if group is None else self._edge_marginals()

    def mean(self) -> Potentials:
        """Return weighted marginals, expected steps and durations."""
        marginals = self._weighted(self._node_marginals, self.family.position_items)
        arrays = marginals, self._expected_steps, self._expected_durations
        return self.potentials.with_arrays(array.copy() for array in arrays)

    @cached_property
    def _places(self) -> np.ndarray:
        """The place in the arrays of the passes of every position, (N,)."""
        return np.arange(self.offsets[-1]) + self.family.position_items

    def _edge_marginals(self) -> np.ndarray:
        ended, opened = self._passes.ended[:, self._places].T, self._passes.opened[:, self._places].T
        within = self._log_partition_within[self.family.position_items]
        marginals = np.exp(ended[:, :, None] + self.edge + opened[:, None, :] - within[:, None, None])
        marginals[self.offsets[:-1]] = 0.0
        return marginals

    def segment_log_probabilities(self, begins: np.ndarray, ends: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return log p(segment) of some segments by their rows begin .. end - 1 in the packed chains and labels."""
        sequences = np.searchsorted(self.offsets, begins, side="right") - 1
        durations = ends - begins
        logs, longest = self.durations.logs, self.durations.logs.shape[1]
        known = logs[labels, np.minimum(durations, longest) - 1]
        inside = np.where(durations <= self._passes.reach[labels, ends + sequences], known, -np.inf)
        outside = self._passes.g[labels, begins + sequences] + self._passes.q[labels, ends + sequences]
        return outside + inside - self._log_partition_within[sequences]

    def sample(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw a segmentation of every sequence: labels (N,) and a mask of begins of segments (N,)."""
        draw_segments = segments.decoding_compiled.draw_segments
        uniforms = random.random((self._passes.totals.shape[1], 2))
        labels, begins = np.empty(self.offsets[-1], dtype=np.int64), np.empty(self.offsets[-1], dtype=np.bool_)
        known = self.offsets, self.edge, self.durations, self._passes, uniforms, labels, begins
        self._workers.each(lambda first, last: draw_segments(first, last, *known), self._runs)
        return labels, begins

    def expected_scores(self, direction: Potentials) -> np.ndarray:
        """Return the expected score of each sequence under other potentials, (S,)."""
        return self._tangent(direction)[1]

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the weighted log partition times a direction, shaped like it."""
        forward_tangent = segments.tangents_compiled.forward_tangent
        moved, expected = self._tangent(direction)
        marginals, within, weights = np.empty_like(self._node_marginals), self._log_partition_within, self.item_weights
        known = self.offsets, self.edge, self.durations, weights, self._passes, within, moved, expected, marginals
        counts, changes, steps = self._run_sums(lambda first, last, sums: forward_tangent(first, last, *known, sums))
        changes += counts * moved.reversed_durations
        marginals = self._weighted(marginals, self.family.position_items)
        return direction.with_arrays([marginals, steps, np.ascontiguousarray(changes[:, ::-1].T)])

    def _run_sums(self, forward: Callable[[int, int, ExpectedSums], None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Call a forward pass for every run; return its sums of durations, their derivatives and steps, in order."""
        edge, shape = self.edge, self.durations.logs.shape
        tables: dict[int, ExpectedSums] = {}
        own_rows = np.zeros_like(edge) if len(edge) > 1 else None

        def run(first: int, last: int) -> None:
            steps = np.zeros_like(edge) if own_rows is None else own_rows
            tables[first] = ExpectedSums(np.zeros(shape), np.zeros(shape), steps)
            forward(first, last, tables[first])

        self._workers.each(run, self._runs)
        counts, changes = (reduce(np.add, [tables[first][part] for first, _ in self._runs]) for part in range(2))
        steps = reduce(np.add, [tables[first].steps for first, _ in self._runs]) if own_rows is None else own_rows
        return counts, changes, steps

    def _tangent(self, direction: Potentials) -> tuple[Moved, np.ndarray]:
        """Return a direction with the derivatives of the backward pass, and the derivatives of log Z, (S,)."""
        add_up_scores = segments.passes_compiled.add_up_scores
        backward_tangent = segments.tangents_compiled.backward_tangent
        node, edge, duration = self.family.arrays(direction)
        table = np.ascontiguousarray(duration.T, dtype=np.float64)
        weights = table * self.durations.weights
        room = [np.empty_like(self._passes.totals) for _ in range(5)]
        moved = Moved(edge, table, weights, _reversed(table), _reversed(weights), *room)
        expected = np.empty(self.family.n_items)

        def run(first: int, last: int) -> None:
            add_up_scores(first, last, self.offsets, node, moved.totals)
            backward_tangent(first, last, self.offsets, self.edge, self.durations, self._passes, moved, expected)

        self._workers.each(run, self._runs)
        return moved, expected


def check_possible(log_values: np.ndarray, offsets: np.ndarray, longest: int) -> None:
    """Raise ValueError for the first sequence with log Z or best score (S,) of minus infinity."""
    for sequence in np.flatnonzero(np.isneginf(log_values)).tolist():
        length = int(offsets[sequence + 1] - offsets[sequence])
        raise ValueError(
            f"sequence {sequence}: its {length} positions cannot be cut into segments of at most {longest} positions "
            "with the labels, steps and durations that are allowed. Drop a constraint, raise max_duration, or lower "
            "min_duration."
        )


class SegmentLabellings(Labellings):
    """The labels of the best and of drawn segmentations."""

    family: SegmentFamily

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels of the most probable segmentation, (N,), and its score for each sequence, (S,)."""
        labels, _, scores = self.family._best_segments(self.potentials, self.workers)
        return labels, scores

    def _n_best(self, k: int) -> RankedLabellings:
        labels, _, scores = self.family._k_best_segments(self.potentials, k, self.workers)
        counts, bounds = np.isfinite(scores).sum(axis=1).tolist(), self.family.offsets.tolist()
        return [labels[:count, bounds[i] : bounds[i + 1]] for i, count in enumerate(counts)], [
            scores[i, :count] for i, count in enumerate(counts)
        ]

    def _sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        member = SegmentMember(self.family, self.potentials, None, self.workers)
        return np.stack([member.sample(random)[0] for _ in range(n_samples)])


class SegmentFamily(LabelFamily):
    """Infer segmentations of chains, exactly.

    Parameters
    ----------
    offsets : array (S + 1,)
        The position at which each chain begins, and N.
    n_labels : int
        The number of labels.
    max_duration : int
        The positions of the longest segment.
    tied : bool, default True
        Whether one table of steps between segments serves all positions.
    base : BaseMeasure, optional
        The labels that are allowed, and how much they count; by default all alike.
    shortest : tuple of int, optional
        The least positions of a segment of each label, at the ends of a chain too; one by default.

    References
    ----------
    Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import SegmentFamily
    >>> family = SegmentFamily(np.array([0, 4]), 2, max_duration=3)
    >>> scores = family.zeros()
    >>> scores.node[2:, 1] = 1.0  # the last two positions have the label 1
    >>> family.distribution(scores).marginals()[-1].round(2)
    array([0.22, 0.78])
    """

    method = "segments"
    _labellings_type: type[Labellings] = SegmentLabellings

    def __init__(
        self,
        offsets: np.ndarray,
        n_labels: int,
        max_duration: int,
        *,
        tied: bool = True,
        base: BaseMeasure | None = None,
        shortest: tuple[int, ...] | None = None,
    ):
        super().__init__(offsets, n_labels, (), base)
        self.max_duration, self.tied, self.shortest = max_duration, tied, shortest
        rows = self.n_positions, self.position_items
        self.groups = (
            *self.groups,
            Group(EDGE, (n_labels, n_labels), *rows, tied, steps=True),
            Group(DURATION, (n_labels,), max_duration, None),
        )
        self.arrangement = Arrangement(self.offsets, self.groups)

    @cached_property
    def _durations(self) -> np.ndarray:
        """The logarithms of the base measure of durations, (D, L): minus infinity for short segments."""
        least = np.ones(self.n_labels) if self.shortest is None else np.array(self.shortest)
        return np.where(np.arange(1, self.max_duration + 1)[:, None] < least, -np.inf, 0.0)

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return potentials plus the logarithm of the base measure, with minus infinity for short segments.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.

        Returns
        -------
        Potentials
            The sum.
        """
        found = super().with_base(potentials)
        if self.shortest is None:
            return found
        node, edge, durations = found.arrays
        return found.with_arrays([node, edge, durations + self._durations])

    def arrays(self, potentials: Potentials) -> SegmentArrays:
        """Return potentials as contiguous arrays of doubles.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.

        Returns
        -------
        tuple of arrays
            Those of labels, edges and durations.
        """
        node, edge, duration = (np.ascontiguousarray(array, dtype=np.float64) for array in potentials.arrays)
        return node, edge, duration

    def run_passes(
        self, arrays: SegmentArrays, workers: Workers, compiled: Callable[..., None], *results: int | np.ndarray
    ) -> Prepared:
        """Add up scores and call a compiled pass for every run of sequences.

        Parameters
        ----------
        arrays : tuple of arrays
            What :meth:`arrays` returns.
        workers : Workers
            The threads.
        compiled : callable
            It is called with first, last, offsets, edge, durations, the passes and ``results``, and fills both.
        *results : int or array
            Further arguments.

        Returns
        -------
        Prepared
            What was filled.
        """
        add_up = segments.passes_compiled.sum_segment_scores
        node, edge, duration = arrays
        shape = self.n_labels, self.n_positions + self.n_items
        reaches = [np.empty(shape, dtype=np.int32) for _ in range(2)]
        passes = SegmentPasses(np.empty(shape), *reaches, *(np.empty(shape) for _ in range(4)))
        durations, shifts = Durations.from_array(duration), np.empty(self.n_items)

        def run(first: int, last: int) -> None:
            add_up(first, last, self.offsets, node, len(duration), passes, shifts)
            compiled(first, last, self.offsets, edge, durations, passes, *results)

        # A chain of so many labels would take about as long: the root of L^2 + L D.
        runs = workers.runs(self.offsets, isqrt(self.n_labels * (self.n_labels + len(duration))))
        workers.each(run, runs)
        return Prepared(passes, durations, shifts, runs)

    def backward(self, arrays: SegmentArrays, workers: Workers) -> tuple[Prepared, np.ndarray]:
        """Run the backward pass.

        Parameters
        ----------
        arrays : tuple of arrays
            What :meth:`arrays` returns.
        workers : Workers
            The threads.

        Returns
        -------
        pair
            What the pass filled, and log partitions less the shifts, (S,); minus infinity if a sequence cannot be cut
            into segments.
        """
        within = np.empty(self.n_items)
        return self.run_passes(arrays, workers, segments.passes_compiled.backward, within), within

    def _segments(self, labels: np.ndarray | Segmentation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels of positions, and the first and end rows of segments."""
        if isinstance(labels, Segmentation):
            return labels.labels, *segment_bounds(labels.begins)
        return labels, *segment_bounds(find_begins(labels, self.offsets))

    def observed(self, labels: np.ndarray | Segmentation) -> dict[str | None, Observed]:
        """Find labels, steps between segments, and durations of a segmentation.

        Parameters
        ----------
        labels : array (N,) or Segmentation
            Numbers of labels, whose runs are the segments; or labels and where segments begin.

        Returns
        -------
        dict
            For the name of each group an Observed: rows, labellings, items.
        """
        labels, begins, ends = self._segments(labels)
        items, durations = self.position_items, ends - begins
        after = begins[self.offsets[items[begins]] < begins]
        known = np.minimum(durations, self.max_duration) - 1
        return {
            **super().observed(labels),
            EDGE: Observed(after, labels[after - 1] * self.n_labels + labels[after], items[after]),
            DURATION: Observed(known, labels[begins], items[begins]),
        }

    def label_scores(self, potentials: Potentials, labels: np.ndarray | Segmentation) -> np.ndarray:
        """Compute the score of a segmentation of each sequence, base measure included.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        labels : array (N,) or Segmentation
            Numbers of labels, whose runs are the segments; or labels and where segments begin.

        Returns
        -------
        array (S,)
            The scores; minus infinity if a segment is too long.
        """
        own, begins, ends = self._segments(labels)
        scores = super().label_scores(potentials, labels)  # type: ignore[arg-type]
        scores[self.position_items[begins[ends - begins > self.max_duration]]] = -np.inf
        if self.shortest is not None:
            short = ends - begins < np.array(self.shortest)[own[begins]]
            scores[self.position_items[begins[short]]] = -np.inf
        return scores

    def _base_scores(self, labels: np.ndarray | Segmentation) -> np.ndarray:
        labels, begins, _ = self._segments(labels)
        assert self.base is not None
        after = begins[self.offsets[self.position_items[begins]] < begins]
        return self.base.label_scores(labels, after[:, None] + np.array([-1, 0]))

    def log_labellings(self) -> np.ndarray:
        """Compute the logarithm of the number of segmentations of each sequence, weighted by the base measure.

        Returns
        -------
        array (S,)
            The logarithms.
        """
        prepared, within = self.backward(self.arrays(self.with_base(self.zeros())), Workers(1))
        return within + prepared.shifts

    def impossible(self) -> np.ndarray:
        """Find the sequences that cannot be cut into segments.

        Returns
        -------
        bool array (S,)
            The mask of these sequences.
        """
        return super().impossible() if self.shortest is None else np.isneginf(self.log_labellings())

    def _impossible(self) -> np.ndarray:
        base = self.base
        assert base is not None
        if base.position is None and (base.masks is None or not base.masks.any) and self.n_labels > 1:
            return np.zeros(self.n_items, dtype=bool)
        return np.isneginf(self.log_labellings())

    def _infer(self, potentials: Potentials, weights: np.ndarray | None, workers: Workers) -> SegmentMember:
        return SegmentMember(self, potentials, weights, workers)

    def best_segmentation(self, potentials: Potentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """Find the most probable segmentation of each sequence.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        workers : Workers
            The threads.

        Returns
        -------
        pair of arrays (N,)
            Labels, and a mask of the positions where segments begin.

        Raises
        ------
        ValueError
            If a sequence cannot be cut into segments.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import SegmentFamily
        >>> from kernelfields.numerics import Workers
        >>> family = SegmentFamily(np.array([0, 4]), 2, max_duration=3)
        >>> scores = family.zeros()
        >>> scores.node[2:, 1] = 1.0  # the last two positions have the label 1
        >>> labels, begins = family.best_segmentation(scores, Workers(1))
        >>> labels[2:].tolist(), begins.shape
        ([1, 1], (4,))
        """
        return self._best_segments(self.with_base(potentials), workers)[:2]

    def _best_segments(self, potentials: Potentials, workers: Workers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels (N,), a mask of begins of segments (N,), and scores (S,) of the best segmentations."""
        scores = np.empty(self.n_items)
        labels, begins = np.zeros(self.n_positions, dtype=np.int64), np.zeros(self.n_positions, dtype=np.bool_)
        prepared = self.run_passes(
            self.arrays(potentials), workers, segments.decoding_compiled.best_segments, scores, labels, begins
        )
        check_possible(scores, self.offsets, self.max_duration)
        return labels, begins, scores + prepared.shifts

    def n_best_segmentations(
        self, potentials: Potentials, k: int, workers: Workers
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the k best segmentations of each sequence.

        A sequence with fewer than k has scores of minus infinity, and is one segment of label 0 there.

        Parameters
        ----------
        potentials : Potentials
            The potentials, base measure not included.
        k : int
            The number of segmentations.
        workers : Workers
            The threads.

        Returns
        -------
        tuple of arrays (k, N), (k, N) and (S, k)
            Labels, masks of the positions where segments begin, and scores, which fall.

        Raises
        ------
        ValueError
            If a sequence cannot be cut into segments.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import SegmentFamily
        >>> from kernelfields.numerics import Workers
        >>> family = SegmentFamily(np.array([0, 4]), 2, max_duration=3)
        >>> scores = family.zeros()
        >>> scores.node[2:, 1] = 1.0  # the last two positions have the label 1
        >>> labels, begins, found = family.n_best_segmentations(scores, 2, Workers(1))
        >>> labels.shape, begins.shape, found.shape
        ((2, 4), (2, 4), (1, 2))
        """
        return self._k_best_segments(self.with_base(potentials), k, workers)

    def _k_best_segments(
        self, potentials: Potentials, k: int, workers: Workers
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scores, shape = np.empty((self.n_items, k)), (k, self.n_positions)
        labels, begins = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
        prepared = self.run_passes(
            self.arrays(potentials), workers, segments.decoding_compiled.k_best_segments, k, scores, labels, begins
        )
        check_possible(scores[:, 0], self.offsets, self.max_duration)
        # No segment of the sequence before runs into one that has less than k.
        begins[:, self.offsets[:-1]] = True
        return labels, begins, scores + prepared.shifts[:, None]

    def part(self, first: int, last: int) -> SegmentFamily:
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
        offsets, base = self.offsets[first : last + 1] - self.offsets[first], self.base and self.base.part(first, last)
        least = self.shortest
        return SegmentFamily(offsets, self.n_labels, self.max_duration, tied=self.tied, base=base, shortest=least)


@builds("segments")
def _segment_family(
    chains: SegmentedChains, placed: Sequence[Placed], spec: FamilySpec, **options: object
) -> SegmentFamily:
    tied, base = is_group_constant(placed, EDGE), spec.base_measure(chains)
    longest, least = spec.max_duration, spec.shortest
    return SegmentFamily(chains.offsets, spec.n_labels, longest, tied=tied, base=base, shortest=least)
