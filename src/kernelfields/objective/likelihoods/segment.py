"""The weighted negative log-likelihood of chains cut into segments, and segments as a label structure.

    value    = sum_i weight_i (log Z_i - score_i(segments^i))
    residual = weight * (expected - observed) counts: of labels at positions, of steps between segments, of durations,
               and of 1 / d at the positions of segments with a label, where means over segments score

Potentials have a third array beside those of a chain, the scores of durations (D, L), and a fourth one, mean scores
(N, L), where there are SegmentCliques. Inference is exact, in inference/segments/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.fields.segments import DURATION, SEGMENT, SegmentedChains
from kernelfields.inference.beliefs import GraphInference
from kernelfields.inference.segments.answers import SegmentAnswers
from kernelfields.inference.segments.beliefs import SegmentBeliefs, infer_segments, segment_log_partition
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.vectors import dot
from kernelfields.objective.designs.memory import check_transitions_fit
from kernelfields.objective.likelihoods.chain import ChainStructure
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood
from kernelfields.objective.likelihoods.partial import with_evidence
from kernelfields.objective.potentials import ChainLayout, Placed, Potentials


class SegmentLayout(ChainLayout):
    """The potentials of N positions with L labels, and of segments of up to D of them."""

    def __init__(self, n_positions: int, n_labels: int, max_duration: int, *, tied: bool, means: bool = False):
        super().__init__(n_positions, n_labels, tied=tied)
        self.max_duration = max_duration
        #: Whether means over segments score.
        self.means = means

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        means = [np.zeros((self.n_positions, self.n_labels))] if self.means else []
        return Potentials(*super().zeros().arrays, np.zeros((self.max_duration, self.n_labels)), *means)

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them."""
        if term.group in (DURATION, SEGMENT):
            potentials.arrays[2 if term.group == DURATION else 3][...] += scores
        else:
            super().add_scores(potentials, term, scores)

    def clique_residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if it is tied."""
        if term.group not in (DURATION, SEGMENT):
            return super().clique_residuals(residual, term)
        rows = residual.arrays[2 if term.group == DURATION else 3]
        return rows.sum(axis=0, keepdims=True) if term.tied_everywhere else rows


class SegmentLikelihood:
    """Labelled chains that are cut into segments, with constraints as penalties on positions and steps."""

    approximation: str | None = None
    inference = None
    convex = True

    def __init__(
        self, chains: SegmentedChains, structure: SegmentStructure, layout: SegmentLayout, *, workers: Workers
    ):
        self.chains = chains
        self.n_labels = structure.n_labels
        self.layout = layout
        self.workers = workers
        self.doubts: list[str] = []
        self.structure = structure
        self._observed = self._count()

    def _count(self) -> Potentials:
        """Return the weighted numbers of observed labels, steps and durations, shaped like potentials."""
        counts, chains = self.layout.zeros(), self.chains
        begins, ends, labels = chains.segments
        weights = chains.position_weights
        counts.node[np.arange(chains.n_positions), chains.labels] = weights
        np.add.at(counts.arrays[2], (ends - begins - 1, labels), weights[begins])
        after = np.flatnonzero(~chains.is_start[begins])
        rows = np.zeros_like(after) if self.layout.tied else begins[after]
        np.add.at(counts.edge, (rows, labels[after - 1], labels[after]), weights[begins[after]])
        if self.layout.means:
            durations = ends - begins
            shares = np.repeat(1.0 / durations, durations)
            counts.arrays[3][np.arange(chains.n_positions), chains.labels] = weights * shares
        return counts

    @cached_property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all segmentations that are allowed equally likely."""
        node, edge, duration, *_ = self._constrained(self.layout.zeros())
        return float(
            self.chains.weights @ segment_log_partition(node, edge, duration, self.chains.offsets, self.workers)
        )

    @property
    def constrained(self) -> bool:
        """Whether some segmentations are forbidden."""
        return True

    @cached_property
    def _penalties(self) -> tuple[np.ndarray | None, np.ndarray]:
        """Penalties of positions, (N, L), None for none, and of steps, (L, L)."""
        masks, shape = self.structure.masks, (self.chains.n_positions, self.n_labels)
        plain = not (masks.label.any() or masks.start.any() or masks.end.any())
        return None if plain else masks.apply(np.zeros(shape), self.chains.offsets), self.structure.edge_penalties

    def _constrained(self, potentials: Potentials) -> tuple[np.ndarray, ...]:
        positions, steps = self._penalties
        node = potentials.node if positions is None else potentials.node + positions
        return node, potentials.edge + steps, *potentials.arrays[2:]

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k).

        Of durations, the share of positions where a segment of this length and label begins; of means over segments,
        the expected 1 / d of the segment of this label at a position.
        """
        beliefs: SegmentBeliefs = evaluation.beliefs
        if term.group == DURATION:
            return beliefs.expected_durations / self.clique_weights(term)[:, None]
        if term.group == SEGMENT:
            assert beliefs.covers is not None
            return beliefs.covers
        rows = beliefs.node_marginals
        if term.labels_per_clique == 2:
            rows = beliefs.edge_marginals().reshape(self.chains.n_positions, -1)
        return rows if term.positions is None else rows[term.positions]

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,); that of all positions for a duration."""
        weights = self.chains.position_weights
        if term.group == DURATION:
            return np.full(self.layout.max_duration, weights.sum())
        return weights if term.positions is None else weights[term.positions]

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        offsets, weights, positions = self.chains.offsets, self.chains.weights, self.chains.position_weights[:, None]
        node, edge, duration, *mean = self._constrained(potentials)
        beliefs = infer_segments(node, edge, duration, offsets, *mean, weights=weights, workers=self.workers)
        value = float(beliefs.log_partition @ weights) - self._observed_score(potentials)
        residual = Potentials(
            beliefs.node_marginals * positions,
            beliefs.expected_steps.copy(),
            beliefs.expected_durations.copy(),
            *([] if beliefs.covers is None else [beliefs.covers * positions]),
        )
        residual.add(-1.0, self._observed)
        return Evaluation(value, residual, beliefs)

    def _observed_score(self, potentials: Potentials) -> float:
        """Return the weighted score of the segments; nodes one by one, as others may be minus infinity."""
        chosen = potentials.node[np.arange(self.chains.n_positions), self.chains.labels]
        others = zip(potentials.arrays[1:], self._observed.arrays[1:], strict=True)
        return float(chosen @ self.chains.position_weights) + sum(dot(scores, counts) for scores, counts in others)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        return Potentials(*evaluation.beliefs.hessian_product(*direction.arrays))


@dataclass(frozen=True, eq=False)
class SegmentStructure:
    """Labels of segments of up to ``max_duration`` positions; ``repeats``: whether neighbours may have the same."""

    n_labels: int
    masks: ConstraintMasks
    max_duration: int
    repeats: bool = False

    @cached_property
    def edge_penalties(self) -> np.ndarray:
        """Penalties of steps between segments, (L, L)."""
        return self.masks.edge if self.repeats else self.masks.edge + np.where(np.eye(self.n_labels), -np.inf, 0.0)

    def check_labels(self, chains: SegmentedChains, classes: np.ndarray) -> None:
        """Raise ValueError at the first label that is forbidden where it stands, or the first segment too long."""
        if chains.evidence is not None:
            self._check_evidence(chains)
            return
        begins, ends, labels = chains.segments
        sequences = np.searchsorted(chains.offsets, begins, side="right") - 1
        within = self.masks.edge.copy()
        np.fill_diagonal(within, 0.0)
        ConstraintMasks(within, self.masks.start, self.masks.end, self.masks.label, self.masks.scheme).check_labels(
            chains.labels, chains.offsets, classes
        )
        places = begins - chains.offsets[sequences]
        if (long := np.flatnonzero(ends - begins > self.max_duration)).size:
            segment, longest = int(long[0]), int((ends - begins).max())
            raise ValueError(
                f"sequence {sequences[segment]}: the segment of {classes[labels[segment]].item()!r} from position "
                f"{places[segment]} on has {ends[segment] - begins[segment]} positions, more than "
                f"max_duration={self.max_duration}: no segmentation that the field knows could have it. The longest "
                f"segment of y has {longest}: use max_duration={longest} or more, or repeats=True, which cuts it."
            )
        after = np.flatnonzero(~chains.is_start[begins])
        if (wrong := after[self.edge_penalties[labels[after - 1], labels[after]] != 0]).size:
            segment = int(wrong[0])
            raise ValueError(
                f"sequence {sequences[segment]}, position {places[segment]}: a segment of "
                f"{classes[labels[segment]].item()!r} follows one of the same label, which is forbidden. Join them, or "
                "use repeats=True without a constraint on that step."
            )

    def _check_evidence(self, chains: SegmentedChains) -> None:
        """Raise ValueError at the first chain that what is known of its labels leaves no segmentation."""
        for sequence in np.flatnonzero(self.impossible(chains, chains.evidence)).tolist():
            raise ValueError(
                f"sequence {sequence}: the labels that are known of it leave no segmentation with segments of at most "
                f"{self.max_duration} positions and steps that are allowed. Raise max_duration, or drop a constraint."
            )

    def check_lengths(self, chains: SegmentedChains) -> None:
        """Raise ValueError at the first chain that cannot be cut into segments."""
        infeasible = self.impossible(chains, None)
        if infeasible.any():
            # Which of them, and what to do, is told where it is inferred.
            node, edge, duration = self._penalties(chains, None)
            infer_segments(node, edge, duration, chains.offsets)

    def impossible(self, chains: SegmentedChains, evidence: np.ndarray | None) -> np.ndarray:
        """Return a mask of the chains that cannot be cut into segments, given log-weights (N, L), (S,)."""
        free = self.repeats and not self.masks.any and evidence is None
        if free or (evidence is None and not self.masks.any and self.n_labels > 1):
            return np.zeros(chains.n_sequences, dtype=bool)
        return np.isneginf(segment_log_partition(*self._penalties(chains, evidence), chains.offsets, Workers(1)))

    def _penalties(
        self, chains: SegmentedChains, evidence: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shape = chains.n_positions, self.n_labels
        node = np.zeros(shape) if evidence is None else np.where(np.isneginf(evidence), -np.inf, 0.0)
        node = self.masks.apply(node, chains.offsets)
        return node, self.edge_penalties[None], np.zeros((self.max_duration, self.n_labels))

    def layout(self, chains: SegmentedChains, placed: Sequence[Placed]) -> SegmentLayout:
        """Return where scores go: node, edge, duration and, for terms of whole segments, means."""
        tied = ChainLayout.of_terms(chains.n_positions, self.n_labels, placed).tied
        means = any(term.group == SEGMENT for term in placed)
        return SegmentLayout(chains.n_positions, self.n_labels, self.max_duration, tied=tied, means=means)

    def plan(self, chains: SegmentedChains, layout: Any = None) -> GraphInference | None:
        """Return None: there is no choice."""
        return None

    def likelihood(
        self, chains: SegmentedChains, placed: Sequence[Placed], workers: Workers, plan: GraphInference | None = None
    ) -> Likelihood:
        """Return the likelihood of labelled chains; MemoryError if transitions of every position do not fit."""
        layout = self.layout(chains, placed)
        if not layout.tied:
            check_transitions_fit(chains.n_positions, self.n_labels)
        return with_evidence(SegmentLikelihood(chains, self, layout, workers=workers), chains)

    def constrained(self, chains: SegmentedChains, layout: Any, potentials: Potentials) -> Potentials:
        """Return potentials with the penalties of the constraints; the nodes are changed in place."""
        node = self.masks.apply(potentials.node, chains.offsets)
        return Potentials(node, potentials.edge + self.edge_penalties, *potentials.arrays[2:])

    def answers(
        self,
        chains: SegmentedChains,
        layout: Any,
        potentials: Potentials,
        workers: Workers,
        plan: GraphInference | None = None,
    ) -> SegmentAnswers:
        """Return what can be asked of chains with potentials, constraints included."""
        node, edge, duration, *mean = potentials.arrays
        return SegmentAnswers(chains, node, edge, duration, workers, *mean)

    def batches(self, chains: SegmentedChains, terms: Sequence[Any], size: int | None = None) -> Iterator[Any]:
        """Cut chains into batches of whole sequences whose potentials fit in memory, ``size`` positions each."""
        near = [term for term in terms if term.clique.group not in (DURATION, SEGMENT)]
        return ChainStructure(self.n_labels, self.masks).batches(chains, near, size)
