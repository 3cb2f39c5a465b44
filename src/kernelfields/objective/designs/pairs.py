"""Support of sparse weights: chosen (feature, labelling) pairs, and feature tables with coefficients for those alone.

The pairs of feature f are begin[f] .. begin[f + 1] - 1; pair p joins it with labelling outcomes[p], a label or a
pair of labels a L + b. Coefficients are one number per pair, (P, 1): those of a sparse (r, L^k) matrix with a
fixed pattern. A term without features, such as plain transitions, has one feature, the constant. The observed
support holds the pairs that occur in the training data: a product of two sparse matrices, O(non-zeros).

    product(v)             (P, 1) coefficients -> (n, L^k) scores
    transposed_product(R)  (n, L^k) residuals  -> (P, 1) gradient

On chains with lists of allowed labels, scores and residuals are one number per allowed label, (A,). A fit passes over
its data many times, so which pairs meet an entry is written down once (:class:`PairLists`): 4 bytes, and the value
where not all are one, for each feature of a position and each of its allowed labels that have a coefficient together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from kernelfields.data.allowed import AllowedLabels
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.tables import squares_of

#: Runs of rows [first, last).
Runs = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Support:
    """Pairs of features and labellings: ``begin`` (r + 1,), ``outcomes`` (P,) sorted within each feature."""

    begin: np.ndarray
    outcomes: np.ndarray
    n_outcomes: int
    #: Whether a table of all labellings would be too long: scores of the only feature are one number per pair.
    listed: bool = False

    @property
    def n_features(self) -> int:
        """Number of features, with pairs or without."""
        return len(self.begin) - 1

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.outcomes)

    @cached_property
    def features(self) -> np.ndarray:
        """The feature of every pair, (P,)."""
        return np.repeat(np.arange(self.n_features, dtype=np.int32), np.diff(self.begin))

    def matrix(self, values: np.ndarray) -> csr_array:
        """Return one number per pair as a sparse (r, L^k) matrix, a copy."""
        shape = (self.n_features, self.n_outcomes)
        # SciPy works in place, eliminate_zeros for one, and must not reach the support itself.
        return csr_array((np.ravel(values), self.outcomes, self.begin), shape=shape, copy=True)

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return one number per pair of the only feature as (1, L^k), zero elsewhere; (1, P) if they are listed."""
        if self.listed:
            return np.reshape(values, (1, -1))
        row = np.zeros((1, self.n_outcomes))
        row[0, self.outcomes] = np.ravel(values)
        return row

    def picked(self, row: np.ndarray) -> np.ndarray:
        """Return the entries of a row, shaped as :meth:`row` makes them, that belong to pairs, (P, 1)."""
        return (row[0] if self.listed else row[0, self.outcomes])[:, None]

    def check(self) -> None:
        """Raise ValueError unless begin and outcomes fit together."""
        begin, outcomes = self.begin, self.outcomes
        whole = all(array.ndim == 1 and array.dtype.kind == "i" for array in (begin, outcomes))
        sound = whole and len(begin) > 1 and begin[0] == 0 and begin[-1] == len(outcomes)
        sound = sound and bool(np.all(np.diff(begin) >= 0))
        if not sound or (len(outcomes) and not 0 <= outcomes.min() <= outcomes.max() < self.n_outcomes):
            raise ValueError("the pairs of features and labels do not fit together")
        if np.any(np.diff(self.features.astype(np.int64) * self.n_outcomes + outcomes) <= 0):
            raise ValueError("the pairs of features and labels are not sorted, or one occurs twice")


def observed_support(
    features: Rows | None,
    labellings: np.ndarray,
    n_outcomes: int,
    min_freq: float = 0.0,
    weights: np.ndarray | None = None,
) -> Support:
    """Return the pairs that occur: ``features`` (n, r) or None for the constant, ``labellings`` (n,).

    A pair whose total weight in the data is below ``min_freq`` is left out; ``weights`` (n,) are those of rows.
    """
    n_rows = len(labellings)
    if features is None:
        features = np.ones((n_rows, 1))
    indicator = csr_array(
        (np.ones(n_rows), labellings.astype(np.int32), np.arange(n_rows + 1)), shape=(n_rows, n_outcomes)
    )
    stored = csr_array(features).T.tocsr()
    # Of ones, so that weights that cancel, or stored zeros, count as seen.
    ones = csr_array((np.ones(stored.nnz), stored.indices, stored.indptr), shape=stored.shape)
    seen = csr_array(ones @ indicator)
    seen.sort_indices()
    begin, outcomes = seen.indptr, seen.indices
    if min_freq > 0 and len(outcomes):
        rows = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        if weights is not None:
            indicator = csr_array((weights, indicator.indices, indicator.indptr), shape=indicator.shape)
        kept = np.asarray(csr_matrix(stored @ indicator)[rows, outcomes]).ravel() >= min_freq
        begin = np.concatenate([[0], np.cumsum(kept)])[begin]
        outcomes = outcomes[kept]
    return Support(begin.astype(np.int32), outcomes.astype(np.int32), n_outcomes)


def listed_support(
    labellings: np.ndarray, n_outcomes: int, min_freq: float = 0.0, weights: np.ndarray | None = None
) -> Support:
    """Return the labellings of a total weight of ``min_freq`` or more as the pairs of a term without features."""
    outcomes, places = np.unique(labellings, return_inverse=True)
    outcomes = outcomes[np.bincount(places, weights, minlength=len(outcomes)) >= min_freq].astype(np.int64)
    return Support(np.array([0, len(outcomes)]), outcomes, n_outcomes, listed=True)


def merged_runs(runs: Runs, most: int) -> list[tuple[int, int]]:
    """Join neighbouring runs so that there are ``most`` at most, and one at least."""
    wanted = max(1, min(len(runs), most))
    return list(pairwise([*(runs[number * len(runs) // wanted][0] for number in range(wanted)), runs[-1][1]]))


# A feature with pairs for this share of the labellings is cheaper as a full row, in vector registers.
_FULL_ROW_SHARE = 0.25
# So many pairs are read in turn faster than looked for.
_FEW_PAIRS = 8
# About how many operations an allowed label of a position takes, for the decision whether threads are worth it.
_WORK = 20


class PairLayout:
    """Which features of a support have a full row in a table, and where their pairs are in it."""

    def __init__(self, support: Support, full_row_share: float = _FULL_ROW_SHARE, few_pairs: int = _FEW_PAIRS):
        self.support = support
        self._few_pairs = few_pairs
        wide = np.flatnonzero(np.diff(support.begin) >= max(2, full_row_share * support.n_outcomes))
        self.slots = np.full(support.n_features, -1, dtype=np.int32)
        self.slots[wide] = np.arange(len(wide), dtype=np.int32)
        self.table_shape = (len(wide), support.n_outcomes)
        slot_of_pair = self.slots[support.features]
        self.wide_pairs = np.flatnonzero(slot_of_pair >= 0)
        rows = slot_of_pair[self.wide_pairs].astype(np.int64)
        self.wide_places = rows * support.n_outcomes + support.outcomes[self.wide_pairs]

    @cached_property
    def marks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of bits for features with pairs that are many, but no full row: their numbers (r,), bits and ranks."""
        from kernelfields.inference.chain.scored_steps import marked

        support = self.support
        # No more memory than twelve bytes for each pair; fewer pairs are found by walking along them.
        many = np.diff(support.begin) >= max(self._few_pairs, -(-support.n_outcomes // 64))
        rows = np.flatnonzero(many & (self.slots < 0))
        numbers = np.full(support.n_features, -1, dtype=np.int32)
        numbers[rows] = np.arange(len(rows), dtype=np.int32)
        return numbers, *marked(rows, support.begin, support.outcomes, support.n_outcomes)


class PairScorer:
    """Coefficients laid out for scoring any rows of features."""

    def __init__(self, layout: PairLayout, coefficients: np.ndarray):
        self.layout = layout
        self.flat = np.ascontiguousarray(coefficients, dtype=np.float64).reshape(-1)
        self.table = np.zeros(layout.table_shape)
        self.table.reshape(-1)[layout.wide_places] = self.flat[layout.wide_pairs]

    def scores(self, features: csr_array, workers: Workers) -> np.ndarray:
        """Return the scores of every row of a CSR, (n, L^k) float64."""
        scores = np.empty((features.shape[0], self.layout.support.n_outcomes))
        workers.each(
            lambda first, last: self._fill(features, first, last, scores[first:last]),
            workers.weighted_pieces(features.indptr, scores.shape[1]),
        )
        return scores

    def listed_scores(self, features: csr_array, lists: AllowedLabels, workers: Workers) -> np.ndarray:
        """Return the scores of allowed labels, (A,), of a CSR (N, r)."""
        from kernelfields.objective.designs.pairs_compiled import gather_lists

        scores = np.empty(len(lists.labels))
        table, support, _ = _arrays(features, self.layout.support, lists)
        arrays = table, support, self.flat, (self.layout.slots, self.table), self.layout.marks
        entries = lists.begin, lists.labels.view(np.uint32)
        workers.each(
            lambda first, last: gather_lists(first, last, *arrays, entries, scores),
            workers.weighted_pieces(lists.begin, _WORK),
        )
        return scores

    def block(self, features: csr_array, first: int, last: int) -> np.ndarray:
        """Return the scores of rows first..last-1 of a CSR."""
        scores = np.empty((last - first, self.layout.support.n_outcomes))
        self._fill(features, first, last, scores)
        return scores

    def _fill(self, features: csr_array, first: int, last: int, scores: np.ndarray) -> None:
        from kernelfields.objective.designs.pairs_compiled import gather_pairs

        support = self.layout.support
        gather_pairs(
            features.indptr[first : last + 1],
            features.indices,
            features.data,
            support.begin,
            support.outcomes,
            self.flat,
            self.layout.slots,
            self.table,
            scores,
        )


class PairTable:
    """A CSR Z (n, r) with a support; products by compiled loops over positions, in float64."""

    def __init__(self, features: csr_array, support: Support):
        self.features = features
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
        table.features = squares_of(self.features)
        return table

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the scores of every row, (n, L^k) float64."""
        return PairScorer(self.layout, coefficients).scores(self.features, workers)

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the gradient of every pair, (P, 1) float64."""
        return self.gradient(lambda first, last: [(first, last, rows[first:last])], self.runs(workers), workers)

    def gradient(
        self,
        residuals: Callable[[int, int], Iterable[tuple[int, int, np.ndarray]]],
        runs: list[tuple[int, int]],
        workers: Workers,
    ) -> np.ndarray:
        """Return the gradient of every pair, (P, 1): ``residuals`` of a run are rows begin, end and an (n, L^k) array.

        Every run adds to an array of its own: gradients of pairs, and the table of full rows.
        """
        from kernelfields.objective.designs.pairs_compiled import scatter_pairs

        features, support, layout = self.features, self.support, self.layout

        def part(first: int, last: int) -> np.ndarray:
            total = np.zeros(support.size + layout.table_shape[0] * layout.table_shape[1])
            gradient, table = total[: support.size], total[support.size :].reshape(layout.table_shape)
            for begin, end, rows in residuals(first, last):
                scatter_pairs(
                    features.indptr[begin : end + 1],
                    features.indices,
                    features.data,
                    support.begin,
                    support.outcomes,
                    layout.slots,
                    np.ascontiguousarray(rows, dtype=np.float64),
                    table,
                    gradient,
                )
            return total

        gradient, table = np.split(workers.sum(part, runs), [support.size])
        gradient[layout.wide_pairs] = table[layout.wide_places]
        return gradient[:, None]

    def affordable_copies(self) -> int:
        """Return how many gradients may be held at a time: no more memory than a transposed index would take."""
        size = 8 * (self.support.size + self.layout.table_shape[0] * self.layout.table_shape[1])
        return max(1, 12 * self.stored_values // max(1, size))

    def runs(self, workers: Workers) -> list[tuple[int, int]]:
        """Cut the rows into one run per thread; fewer where arrays per thread would outweigh the data."""
        pieces = workers.weighted_pieces(self.features.indptr, self.support.n_outcomes)
        return merged_runs(pieces, min(workers.n_threads, self.affordable_copies()))


def _arrays(features: csr_array, support: Support, lists: AllowedLabels) -> tuple[tuple, tuple, tuple]:
    table = features.indptr, features.indices, features.data
    return table, (support.begin, support.outcomes), (lists.begin, lists.labels)


class PairLists:
    """A CSR Z (N, r) with a support and the allowed labels of its rows; ``copies`` limits gradients held at a time."""

    def __init__(self, features: csr_array, support: Support, lists: AllowedLabels, workers: Workers, copies: int = 1):
        from kernelfields.objective.designs.pairs_compiled import walk_matches

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
        from kernelfields.objective.designs.pairs_compiled import product

        scores = np.empty(len(self._indptr) - 1)
        flat = np.ascontiguousarray(coefficients, dtype=np.float64).reshape(-1)
        self._workers.each(
            lambda first, last: product(first, last, self._indptr, self._pairs, self._values, flat, scores),
            self._pieces,
        )
        return scores

    def gradient(self, residual: np.ndarray, squared: bool = False) -> np.ndarray:
        """Return what residuals of allowed labels (A,) make of every pair, (P, 1); with z^2 instead of z if squared."""
        from kernelfields.objective.designs.pairs_compiled import scatter

        def part(first: int, last: int) -> np.ndarray:
            total = np.zeros(self._size)
            scatter(first, last, self._indptr, self._pairs, self._values, residual, squared, total)
            return total

        return self._workers.sum(part, self._runs)[:, None]
