"""Potentials of chains whose labels are restricted by lists: scores of allowed labels, (A,), in place of (N, L).

Weights of observed pairs are gathered for allowed labels alone; other terms score all labels of a few sequences at a
time, of which the others are discarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Protocol

import numpy as np

from kernelfields.data.allowed import AllowedLabels
from kernelfields.data.chains import Chains
from kernelfields.engines.engine import Engine, PackedData
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.chain.list_family import ListFamily
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.supports import SupportScorer
from kernelfields.objective.term import Expansions, Scorer, Term

# Bytes of the scores of all labels that are computed at a time.
_TABLE_BYTES = 64 * 2**20


class ScoredField(Protocol):
    """A fitted field: its terms, and the potentials of data."""

    terms: list[Term]
    spec: FamilySpec
    expansions: Expansions

    def batches(self, data: PackedData, size: int | None = None) -> Iterator[PackedData]:
        """Split packed data into batches of whole items."""

    def potentials(
        self, data: PackedData, family: LabelFamily, workers: Workers, place: Scorer | None = None
    ) -> Potentials:
        """Return the potentials of data."""


def listed_potentials(
    field: ScoredField, data: PackedData, family: LabelFamily, workers: Workers, place: Engine | None
) -> Potentials:
    """Return the potentials of allowed labels, and of the steps between all, for a family of lists."""
    assert isinstance(family, ListFamily)
    node = _score_lists(field, data, family.lists, workers, place)
    pairs = [term for term in field.terms if term.labels_per_clique == 2]
    edge, steps = field.expansions.steps(pairs, field.spec)
    family.use_steps(edge, steps)
    return Potentials(node, {EDGE: edge})


def _score_lists(
    field: ScoredField, data: PackedData, lists: AllowedLabels, workers: Workers, place: Engine | None
) -> np.ndarray:
    """Return the scores of allowed labels, (A,)."""
    nodes = [term for term in field.terms if term.labels_per_clique == 1]
    scorers = [term.scorer for term in nodes if not term.is_constant]
    gathered = [scorer for scorer in scorers if isinstance(scorer, SupportScorer)]
    if len(gathered) == len(nodes) and all(term.placement(data).positions is None for term in nodes):
        views = [term.clique.view(data) for term in nodes]
        parts = [own.listed_scores(view, lists, workers) for own, view in zip(gathered, views, strict=True)]
        return reduce(np.add, parts) if parts else np.zeros(len(lists.labels))
    tables, row = [], 0
    for batch in field.batches(data, max(1, _TABLE_BYTES // (8 * lists.n_labels))):
        assert isinstance(batch, Chains), "lists are of the labels of chains"
        dense = ChainFamily(batch.offsets, lists.n_labels)
        potentials = field.potentials(batch, dense, workers, place)
        tables.append(lists[row : row + batch.n_positions].gather(potentials.node))
        row += batch.n_positions
    return np.concatenate(tables)
