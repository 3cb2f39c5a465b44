"""Fitted fields: terms and the family of their labellings, from data to potentials and answers.

    potentials(x) = sum_c scatter_c( z_c(view_c(x)) V_c A_c^T )

Prediction and scoring of labels of all kinds are computed alike. Data are cut into batches of whole items whose
potentials and features fit in memory. Where lists restrict the labels, potentials are those of listed_potentials.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelfields import models
from kernelfields.engines.engine import Engine, PackedData
from kernelfields.inference import families
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import BATCH_SIZES, FamilySpec, choose_family, has_long_reach
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers
from kernelfields.objective.term import Expansions, Scorer, Term

# Positions of sequences in a batch, and bytes of their scores of single labels and of steps.
_POSITIONS = 200_000
_NODE_BYTES, _EDGE_BYTES = 512 * 2**20, 256 * 2**20


@dataclass(eq=False)
class Field:
    """All terms of a fitted field, and the specification of its family of labellings."""

    terms: list[Term]
    spec: FamilySpec
    #: What scores of new data need again and again.
    expansions: Expansions = field(default_factory=Expansions, repr=False)

    def family(self, data: PackedData, *, lists: bool = False) -> LabelFamily:
        """Return the family of labellings of data; see ``choose_family`` for ``lists``."""
        return choose_family(data, [term.placement(data) for term in self.terms], self.spec, lists=lists)

    def potentials(
        self, data: PackedData, family: LabelFamily, workers: Workers, place: Scorer | None = None
    ) -> Potentials:
        """Return the potentials of data without the base measure; ``place`` is the engine of kernels, None for threads.

        Terms that share a subspace, as the labels of a multi-label field do, share the work of its kernel rows or
        features.
        """
        potentials = family.zeros()
        for terms in self._by_subspace():
            if terms[0].has_pivots:
                parts = self.expansions.scores(terms, data, place)
            elif len(terms) == 1:
                parts = [terms[0].scores(data, workers)]
            else:
                features = terms[0].features(data)
                parts = [term.compute_scores(features, term.known) for term in terms]
            for term, scores in zip(terms, parts, strict=True):
                family.arrangement.add_scores(potentials, term.placement(data), scores)
        return potentials

    def _by_subspace(self) -> list[list[Term]]:
        """Group the terms by subspace; a term with a support of pairs is a group by itself."""
        groups: dict[int, list[Term]] = {}
        for term in self.terms:
            groups.setdefault(id(term.pairs.sharer(term.subspace)), []).append(term)
        return list(groups.values())

    def answers(self, data: PackedData, workers: Workers, place: Engine | None = None) -> Answers:
        """Return the answers for data, inferred on the engine of kernels if possible."""
        filled = data.nonempty
        family, potentials = self._plan_answers(filled, workers, place)
        return Answers(filled, family, self._finite(potentials), workers, asked=data)

    def _plan_answers(self, data: PackedData, workers: Workers, place: Engine | None) -> tuple[LabelFamily, Potentials]:
        """Return the family that infers answers about data, and its potentials."""
        if not data.n_positions:
            return families.SingleFamily(0, self.spec.n_labels), Potentials(np.zeros((0, self.spec.n_labels)))
        family = self.family(data, lists=True)
        if family.packed is not None:
            return family, models.listed_potentials.listed_potentials(self, data, family, workers, place)
        kernels = any(term.has_pivots for term in self.terms)
        there = place.device_inference(family) if place is not None and kernels else None
        if there is not None:
            return there, self.potentials(data, there, workers, there)
        return family, self.potentials(data, family, workers, place)

    @staticmethod
    def _finite(potentials: Potentials) -> Potentials:
        if not potentials.is_finite:
            raise ValueError("scores of the inputs are not finite: they are larger than numbers can be")
        return potentials

    def batches(self, data: PackedData, size: int | None = None) -> Iterator[PackedData]:
        """Split packed data into batches of whole items.

        ``size`` is about how many positions, rows or values of potentials a batch has; None for as many as fit in
        memory.
        """
        sizes, limit = self._sizes(data)
        limit = size or limit
        ends = np.concatenate([[0], np.cumsum(sizes)])
        begin, n_items = 0, len(sizes)
        while begin < n_items:
            last = int(np.searchsorted(ends, ends[begin] + limit, side="right")) - 1
            end = min(max(last, begin + 1), n_items)
            yield data if end - begin == n_items else data.subset(slice(begin, end))
            begin = end

    def _sizes(self, data: PackedData) -> tuple[np.ndarray, int]:
        """Return the size of every item, (S,), and the maximal size of a batch."""
        sizes = BATCH_SIZES.get(self.spec.kind)
        if sizes is not None:
            return sizes(data, self.terms, self.spec)
        return data.lengths, _positions_of_chains(self.terms, self.spec.n_labels)


def _positions_of_chains(terms: Sequence[Term], n_labels: int) -> int:
    limit = max(1, min(_POSITIONS, _NODE_BYTES // (8 * n_labels)))
    terms = [term for term in terms if not term.clique.of_segments]
    if has_long_reach(terms):
        reach = families.table_reach(terms)
    else:
        reach = max((term.reach for term in terms if not term.is_constant), default=0)
    if reach:
        limit = max(1, min(limit, _EDGE_BYTES // (8 * n_labels ** (reach + 1))))
    return limit
