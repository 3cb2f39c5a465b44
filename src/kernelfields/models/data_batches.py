"""Batches of whole sequences, graphs or instances whose potentials and features fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kernelfields.fields.segments import DURATION, SEGMENT
from kernelfields.inference.choice import FamilySpec, only_ngrams, reaches_far
from kernelfields.objective.term import Term

# Positions of sequences, and bytes of their scores of single labels and of steps.
_POSITIONS = 200_000
_NODE_BYTES, _EDGE_BYTES = 512 * 2**20, 256 * 2**20
# Numbers: potentials of graphs, features and potentials of instances; rows of single inputs.
_GRAPH_VALUES, _INSTANCE_VALUES, _ROWS = 32 * 2**20, 16 * 2**20, 20_000


def batches(data: Any, terms: Sequence[Term], spec: FamilySpec, size: int | None = None) -> Iterator[Any]:
    """Cut packed data into batches of whole items.

    ``size`` is about how many positions, rows or values of potentials a batch has; None for the usual number.
    """
    sizes, limit = _sizes(data, terms, spec)
    limit = size or limit
    ends = np.concatenate([[0], np.cumsum(sizes)])
    begin, n_items = 0, len(sizes)
    while begin < n_items:
        last = int(np.searchsorted(ends, ends[begin] + limit, side="right")) - 1
        end = min(max(last, begin + 1), n_items)
        yield data if end - begin == n_items else data.subset(slice(begin, end))
        begin = end


def _sizes(data: Any, terms: Sequence[Term], spec: FamilySpec) -> tuple[np.ndarray, int]:
    """Return the size of every item, (S,), and the largest size of a batch."""
    if spec.kind == "single":
        return data.lengths, _ROWS
    if spec.kind == "instances":
        rank = max(term.subspace.rank for term in terms if not term.tied_everywhere)
        tied = all(term.tied_everywhere for term in terms if term.group is not None)
        each = rank + 4 * spec.n_names + (0 if tied else 8 * len(spec.pairs))
        return np.ones(len(data.lengths), dtype=np.int64), max(1, _INSTANCE_VALUES // each)
    if spec.kind == "graph":
        values = data.lengths * spec.n_labels
        for factors in data.factors:
            values = values + factors.counts * spec.n_labels**factors.labels_per_clique
        return values, _GRAPH_VALUES
    return data.lengths, _positions_of_chains(terms, spec.n_labels)


def _positions_of_chains(terms: Sequence[Term], n_labels: int) -> int:
    limit = max(1, min(_POSITIONS, _NODE_BYTES // (8 * n_labels)))
    terms = [term for term in terms if term.clique.group not in (DURATION, SEGMENT)]
    reach = max((term.clique.steps_back[0] for term in terms if not term.tied_everywhere), default=0)
    if reach or (reaches_far(terms) and not only_ngrams(terms)):
        # Beside n-grams, edges that see inputs are the largest tables; else those of the junction tree are.
        reach = reach if only_ngrams(terms) else max(term.clique.steps_back[0] for term in terms)
        limit = max(1, min(limit, _EDGE_BYTES // (8 * n_labels ** (reach + 1))))
    return limit
