"""Feature tables whose coefficients belong to chosen (feature, labelling) pairs; see basis/support.py.

product(v)             (P, 1) coefficients -> (n, L^k) scores
transposed_product(R)  (n, L^k) residuals  -> (P, 1) gradient
"""

from __future__ import annotations

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
        from kernelfields.engines.pair_products import gather_pairs

        layout, support = self._layout, self._layout.support
        scores = np.empty((features.shape[0], support.n_outcomes))
        workers.each(
            lambda first, last: gather_pairs(
                first,
                last,
                features.indptr,
                features.indices,
                features.data,
                support.begin,
                support.outcomes,
                self._flat,
                layout.slots,
                self._table,
                scores,
            ),
            workers.weighted_pieces(features.indptr, support.n_outcomes),
        )
        return scores


class PairTable:
    """A CSR Z (n, r) with a support; products by compiled loops over positions, in float64."""

    def __init__(self, features: Any, support: Support):
        self.features = scipy.sparse.csr_array(features)
        self.support = support
        self.shape = (support.size, 1)
        self.dtype = self.features.dtype
        self.stored_values = self.features.nnz
        self._layout = PairLayout(support)

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
        return PairScorer(self._layout, coefficients).scores(self.features, workers)

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the gradient of every pair, (P, 1) float64."""
        from kernelfields.engines.pair_products import scatter_pairs

        features, support, layout = self.features, self.support, self._layout
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        pieces = self._private_pieces(workers)
        tables = np.zeros((len(pieces), *layout.table_shape))
        gradients = np.zeros((len(pieces), support.size))
        number = {first: index for index, (first, _) in enumerate(pieces)}

        def run(first: int, last: int) -> None:
            index = number[first]
            scatter_pairs(
                first,
                last,
                features.indptr,
                features.indices,
                features.data,
                support.begin,
                support.outcomes,
                layout.slots,
                rows,
                tables[index],
                gradients[index],
            )

        workers.each(run, pieces)
        for other in range(1, len(pieces)):
            tables[0] += tables[other]
            gradients[0] += gradients[other]
        gradients[0, layout.wide_pairs] = tables[0].reshape(-1)[layout.wide_places]
        return gradients[0][:, None].copy() if len(pieces) > 1 else gradients[0][:, None]

    def _private_pieces(self, workers: Workers) -> list[tuple[int, int]]:
        """Cut the rows into one run per thread; fewer where arrays per thread would outweigh the data."""
        pieces = workers.weighted_pieces(self.features.indptr, self.support.n_outcomes)
        each = 8 * (self.support.size + self._layout.table_shape[0] * self._layout.table_shape[1])
        affordable = max(1, 12 * self.stored_values // max(1, each))
        wanted = min(len(pieces), workers.n_threads, affordable)
        cuts = [pieces[index * len(pieces) // wanted][0] for index in range(wanted)] + [pieces[-1][1]]
        return list(pairwise(cuts))
