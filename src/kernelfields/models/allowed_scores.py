"""Scores of new chains for the labels in lists of allowed ones: what prediction with many labels keeps."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.numerics.threads import Workers

# Scores of all labels, where a field has to compute them, are made for so many bytes at a time.
_TABLE_BYTES = 64 * 2**20


def _dense_family(chains: Any, n_labels: int) -> ChainFamily:
    """Return the family of chains whose potentials are those of all labels."""
    return ChainFamily(chains.offsets, n_labels)


def scores_of_lists(
    field: Any, data: Any, lists: AllowedLabels, workers: Workers, place: Any, table_bytes: int = _TABLE_BYTES
) -> np.ndarray:
    """Return scores of allowed labels, (A,).

    Weights of observed pairs are gathered for allowed labels alone; other terms score all labels of a few sequences at
    a time.
    """
    nodes = [term for term in field.terms if term.labels_per_clique == 1]
    gathered = [term for term in nodes if term.support is not None and not term.tied_everywhere]
    if len(gathered) < len(nodes) or any(term.placement(data).positions is not None for term in nodes):
        return _by_tables(field, data, lists, workers, place, max(1, table_bytes // (8 * lists.n_labels)))
    parts = [term.scorer.listed_scores(term.features(data), lists, workers) for term in gathered]
    return reduce(np.add, parts, np.zeros(len(lists.labels))) if len(parts) != 1 else parts[0]


def _by_tables(field: Any, data: Any, lists: AllowedLabels, workers: Workers, place: Any, at_once: int) -> np.ndarray:
    parts, row = [], 0
    for batch in field.batches(data, at_once):
        potentials = field.potentials(batch, _dense_family(batch, lists.n_labels), workers, place)
        here = lists[row : row + batch.n_positions]
        parts.append(here.taken(potentials.node))
        row += batch.n_positions
    return np.concatenate(parts)
