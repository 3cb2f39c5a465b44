"""Sparse features with coefficients of pairs, on chains with lists of allowed labels.

    scores(v)     (P, 1) coefficients -> (A,) scores of allowed labels
    gradient(r)   (A,) residuals      -> (P, 1) gradient
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.pairs import Support

# About how many operations an allowed label of a position takes, for the decision whether threads are worth it.
_WORK = 20


class PairLists:
    """A CSR Z (N, r) with a support and the allowed labels of its rows; ``copies`` limits gradients held at a time."""

    def __init__(self, features: Any, support: Support, lists: AllowedLabels, workers: Workers, copies: int = 1):
        self._features = features.indptr, features.indices, features.data
        self._support = support.begin, support.outcomes
        self._lists = lists.begin, lists.labels
        self._size = support.size
        self._workers = workers
        self._pieces = workers.weighted_pieces(lists.begin, _WORK)
        self._copies = copies

    def scores(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of allowed labels, (A,)."""
        from kernelfields.objective.designs.lists_compiled import gather_lists

        scores = np.empty(len(self._lists[1]))
        flat = np.ascontiguousarray(coefficients, dtype=np.float64).reshape(-1)
        self._workers.each(
            lambda first, last: gather_lists(first, last, self._features, self._support, flat, self._lists, scores),
            self._pieces,
        )
        return scores

    def gradient(self, residual: np.ndarray, squared: bool = False) -> np.ndarray:
        """Return what residuals of allowed labels (A,) make of every pair, (P, 1); with z^2 instead of z if squared."""
        from kernelfields.objective.designs.lists_compiled import scatter_lists

        indptr, indices, values = self._features
        features = (indptr, indices, values**2 if squared else values)

        def part(first: int, last: int) -> np.ndarray:
            total = np.zeros(self._size)
            scatter_lists(first, last, features, self._support, residual, self._lists, total)
            return total

        wanted = max(1, min(len(self._pieces), self._workers.n_threads, self._copies))
        cuts = [self._pieces[index * len(self._pieces) // wanted][0] for index in range(wanted)]
        runs = list(zip(cuts, [*cuts[1:], self._pieces[-1][1]], strict=True))
        return self._workers.sum(part, runs)[:, None]
