"""Sparse features with coefficients of pairs, on chains with lists of allowed labels.

    gathered_scores    new data: (P, 1) coefficients -> (A,) scores of allowed labels
    PairLists          data of a fit: the same, and (A,) residuals -> (P, 1) gradients

A fit walks its data many times, so which pairs meet an entry is written down once: 4 bytes, and the value where not all
are one, for each feature of a position and each of its allowed labels that have a coefficient together.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.pairs import PairScorer, Support, merged_runs

# About how many operations an allowed label of a position takes, for the decision whether threads are worth it.
_WORK = 20


def gathered_scores(scorer: PairScorer, features: csr_array, lists: AllowedLabels, workers: Workers) -> np.ndarray:
    """Return the scores of allowed labels, (A,), of a CSR (N, r)."""
    from kernelfields.objective.designs.lists_compiled import gather_lists

    scores = np.empty(len(lists.labels))
    table, support, _ = _arrays(features, scorer.layout.support, lists)
    arrays = table, support, scorer.flat, (scorer.layout.slots, scorer.table), scorer.layout.marks
    entries = lists.begin, lists.labels.view(np.uint32)
    workers.each(
        lambda first, last: gather_lists(first, last, *arrays, entries, scores),
        workers.weighted_pieces(lists.begin, _WORK),
    )
    return scores


def _arrays(features: csr_array, support: Support, lists: AllowedLabels) -> tuple[tuple, tuple, tuple]:
    table = features.indptr, features.indices, features.data
    return table, (support.begin, support.outcomes), (lists.begin, lists.labels)


class PairLists:
    """A CSR Z (N, r) with a support and the allowed labels of its rows; ``copies`` limits gradients held at a time."""

    def __init__(self, features: csr_array, support: Support, lists: AllowedLabels, workers: Workers, copies: int = 1):
        from kernelfields.objective.designs.lists_compiled import walk_matches

        arrays = _arrays(features, support, lists)
        counts = np.zeros(len(lists.labels), dtype=np.int64)
        walk_matches(*arrays, counts, np.empty(0, dtype=np.uint32), features.data[:0])
        self._indptr = np.concatenate([[0], np.cumsum(counts)])
        self._pairs = np.empty(self._indptr[-1], dtype=np.uint32)  # unsigned: compiled code need not look for -1
        self._values = np.empty(self._indptr[-1], dtype=features.data.dtype)
        walk_matches(*arrays, self._indptr[:-1].copy(), self._pairs, self._values)
        if (self._values == 1.0).all():
            self._values = self._values[:0].copy()  # features that are there or not need no weights
        self._size, self._workers = support.size, workers
        self._pieces = workers.weighted_pieces(self._indptr, _WORK)
        self._runs = merged_runs(self._pieces, min(workers.n_threads, copies))

    def scores(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of allowed labels, (A,)."""
        from kernelfields.objective.designs.lists_compiled import product

        scores = np.empty(len(self._indptr) - 1)
        flat = np.ascontiguousarray(coefficients, dtype=np.float64).reshape(-1)
        self._workers.each(
            lambda first, last: product(first, last, self._indptr, self._pairs, self._values, flat, scores),
            self._pieces,
        )
        return scores

    def gradient(self, residual: np.ndarray, squared: bool = False) -> np.ndarray:
        """Return what residuals of allowed labels (A,) make of every pair, (P, 1); with z^2 instead of z if squared."""
        from kernelfields.objective.designs.lists_compiled import scatter

        def part(first: int, last: int) -> np.ndarray:
            total = np.zeros(self._size)
            scatter(first, last, self._indptr, self._pairs, self._values, residual, squared, total)
            return total

        return self._workers.sum(part, self._runs)[:, None]
