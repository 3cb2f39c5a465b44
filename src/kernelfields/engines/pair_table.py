"""Feature tables whose coefficients belong to chosen (feature, labelling) pairs; see basis/support.py.

product(v)             (P, 1) coefficients -> (n, L^k) scores
transposed_product(R)  (n, L^k) residuals  -> (P, 1) gradient
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import Support
from kernelfields.inference.workers import Workers

# A feature with pairs for this share of the labellings is cheaper as a full row, in vector registers.
_FULL_ROW_SHARE = 0.25


class PairLayout:
    """Which features of a support have a full row in a table, and where their pairs are in it."""

    def __init__(self, support: Support):
        self.support = support
        wide = np.flatnonzero(np.diff(support.begin) >= max(2, _FULL_ROW_SHARE * support.n_outcomes))
        self.slots = np.full(support.n_features, -1, dtype=np.int32)
        self.slots[wide] = np.arange(len(wide), dtype=np.int32)
        self.table_shape = (len(wide), support.n_outcomes)
        slot_of_pair = self.slots[support.features]
        self.wide_pairs = np.flatnonzero(slot_of_pair >= 0)
        rows = slot_of_pair[self.wide_pairs].astype(np.int64)
        self.wide_places = rows * support.n_outcomes + support.outcomes[self.wide_pairs]


class PairScorer:
    """Coefficients laid out for scoring any rows of features."""

    def __init__(self, layout: PairLayout, coefficients: np.ndarray):
        self._layout = layout
        self._flat = np.ascontiguousarray(coefficients, dtype=np.float64).reshape(-1)
        self._table = np.zeros(layout.table_shape)
        self._table.reshape(-1)[layout.wide_places] = self._flat[layout.wide_pairs]

    def scores(self, features: Any, workers: Workers) -> np.ndarray:
        """Return the scores of every row of a CSR, (n, L^k) float64."""
        scores = np.empty((features.shape[0], self._layout.support.n_outcomes))
        workers.each(
            lambda first, last: self._fill(features, first, last, scores[first:last]),
            workers.weighted_pieces(features.indptr, scores.shape[1]),
        )
        return scores

    def block(self, features: Any, first: int, last: int) -> np.ndarray:
        """Return the scores of rows first..last-1 of a CSR."""
        scores = np.empty((last - first, self._layout.support.n_outcomes))
        self._fill(features, first, last, scores)
        return scores

    def _fill(self, features: Any, first: int, last: int, scores: np.ndarray) -> None:
        from kernelfields.engines.pair_products import gather_pairs

        support = self._layout.support
        gather_pairs(
            features.indptr[first : last + 1],
            features.indices,
            features.data,
            support.begin,
            support.outcomes,
            self._flat,
            self._layout.slots,
            self._table,
            scores,
        )


class PairGatherer:
    """Adds up the gradient of every pair from rows of residuals, a run of rows at a time."""

    def __init__(self, features: Any, layout: PairLayout):
        self._features, self._layout = features, layout
        self._table = np.zeros(layout.table_shape)
        self._gradient = np.zeros(layout.support.size)

    def add(self, first: int, last: int, rows: np.ndarray) -> None:
        """Add what rows first..last-1 of the features make of residuals (last - first, L^k)."""
        from kernelfields.engines.pair_products import scatter_pairs

        features, support = self._features, self._layout.support
        scatter_pairs(
            features.indptr[first : last + 1],
            features.indices,
            features.data,
            support.begin,
            support.outcomes,
            self._layout.slots,
            np.ascontiguousarray(rows, dtype=np.float64),
            self._table,
            self._gradient,
        )

    def total(self, others: Sequence[PairGatherer]) -> np.ndarray:
        """Return the sum of this and others, in their order, (P, 1)."""
        for other in others:
            self._table += other._table
            self._gradient += other._gradient
        self._gradient[self._layout.wide_pairs] = self._table.reshape(-1)[self._layout.wide_places]
        return self._gradient[:, None]


class PairTable:
    """A CSR Z (n, r) with a support; products by compiled loops over positions, in float64."""

    def __init__(self, features: Any, support: Support):
        self.features = scipy.sparse.csr_array(features)
        self.support = support
        self.shape = (support.size, 1)
        self.dtype = self.features.dtype
        self.stored_values = self.features.nnz
        self.layout = PairLayout(support)

    def mean_square(self) -> float:
        """Return the mean over features of sum_t z_tf^2."""
        return float(np.einsum("i,i->", self.features.data, self.features.data)) / self.support.n_features

    def squared(self) -> PairTable:
        """Return the table of z_tf^2; the rest is shared."""
        table = copy(self)
        table.features = self.features.power(2)
        return table

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the scores of every row, (n, L^k) float64."""
        return PairScorer(self.layout, coefficients).scores(self.features, workers)

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the gradient of every pair, (P, 1) float64."""
        pieces = self._private_pieces(workers)
        gatherers = {first: self.gatherer() for first, _ in pieces}
        workers.each(lambda first, last: gatherers[first].add(first, last, rows[first:last]), pieces)
        first, *others = (gatherers[start] for start, _ in pieces)
        return first.total(others)

    def gatherer(self) -> PairGatherer:
        """Return an empty gradient to add rows of residuals to."""
        return PairGatherer(self.features, self.layout)

    def affordable_copies(self) -> int:
        """Return how many gradients may be held at a time: no more memory than a transposed index would take."""
        each = 8 * (self.support.size + self.layout.table_shape[0] * self.layout.table_shape[1])
        return max(1, 12 * self.stored_values // max(1, each))

    def _private_pieces(self, workers: Workers) -> list[tuple[int, int]]:
        """Cut the rows into one run per thread; fewer where arrays per thread would outweigh the data."""
        pieces = workers.weighted_pieces(self.features.indptr, self.support.n_outcomes)
        wanted = min(len(pieces), workers.n_threads, self.affordable_copies())
        cuts = [pieces[index * len(pieces) // wanted][0] for index in range(wanted)] + [pieces[-1][1]]
        return list(pairwise(cuts))
