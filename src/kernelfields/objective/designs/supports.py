"""Supports: chosen pairs of features and labellings that have a weight, and tables with their coefficients.

The pairs of feature f are begin[f] .. begin[f + 1] - 1; pair p joins it with labelling outcomes[p], a label or a pair
of labels a L + b. Coefficients are one number per pair, (P, 1): those of a sparse (r, L^k) matrix with a fixed pattern.
The observed support holds the pairs that occur in the training data: a product of two sparse matrices, O(non-zeros).

    product(v)             (P, 1) coefficients -> (n, L^k) scores
    transposed_product(R)  (n, L^k) residuals  -> (P, 1) gradient

On chains with lists of allowed labels, scores and residuals are one number per allowed label, (A,). A fit passes over
its data many times, so which pairs meet an entry is written down once (:class:`PairLists`): 4 bytes, and the value
where not all are one, for each feature of a position and each of its allowed labels that have a coefficient together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from kernelfields.basis.subspace import PivotSubspace, Subspace
from kernelfields.data.allowed import AllowedLabels
from kernelfields.data.chains import Packed
from kernelfields.data.cliques import CliqueSet
from kernelfields.numerics.group import Group
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.numerics.threads import Workers
from kernelfields.objective import designs
from kernelfields.objective.designs.tables import FeatureTable, squared_entries

#: Runs of rows [first, last).
Runs = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Support:
    """Pairs of features and labellings: ``begin`` (r + 1,), ``outcomes`` (P,) sorted within each feature."""

    begin: np.ndarray
    outcomes: np.ndarray
    n_outcomes: int

    complete: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def select_pairs(
        self, data: Packed, clique: CliqueSet, n_labels: int, features: Rows | None, find: object
    ) -> Support:
        """Return the pairs unchanged: further fits use them."""
        return self

    def free_coefficients(self, table: np.ndarray) -> np.ndarray:
        """Return the coefficients, or a gradient in them: all are free."""
        return table

    @property
    def n_features(self) -> int:
        """Number of features, with or without pairs."""
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

    @property
    def listing(self) -> np.ndarray | None:
        """The labellings with scores of the only feature; None for a table of all labellings."""
        return None

    def shape(self, rank: int, width: int) -> tuple[int, int]:
        """Return the shape of the coefficients, (P, 1)."""
        return self.size, 1

    def check_term(self, name: str, subspace: Subspace, factor: np.ndarray | None, values: np.ndarray) -> None:
        """Raise ValueError unless the coefficients of a set fit its pairs."""
        if values.shape != (self.size, 1):
            raise ValueError(f"the coefficients of set {name!r} do not fit its pairs of features and labels")
        if factor is not None:
            raise ValueError(f"set {name!r} has both pairs of features and labels and a label factor")
        if isinstance(subspace, PivotSubspace):
            raise ValueError(f"set {name!r} has pairs of features and labels, and pivots instead of features")

    def dense(self, values: np.ndarray) -> np.ndarray:
        """Return one number per pair as an array (r, L^k)."""
        return self.matrix(values).toarray()

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return one number per pair of the only feature as (1, L^k), zero elsewhere."""
        row = np.zeros((1, self.n_outcomes))
        row[0, self.outcomes] = np.ravel(values)
        return row

    def pick(self, row: np.ndarray) -> np.ndarray:
        """Return the entries of pairs, (P, 1), from a row of :meth:`row`."""
        return row[0, self.outcomes][:, None]

    def restrict_matrix(self, block: np.ndarray) -> np.ndarray:
        """Return the part of a matrix over labellings for pairs of the only feature, (P, P)."""
        return block[np.ix_(self.outcomes, self.outcomes)]

    def product(self, features: Rows, values: np.ndarray) -> np.ndarray:
        """Return the scores of known features (n, r), (n, L^k)."""
        return (csr_array(features) @ self.matrix(values)).toarray()

    def slope(self, features: Rows, residuals: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the gradient in the coefficients for residuals (n, L^k) of known features, (P, 1)."""
        return self.table(features).transposed_product(residuals, workers)

    def table(self, features: Rows | FeatureTable) -> PairTable:
        """Return the products of features with coefficients."""
        return PairTable(csr_array(features), self)

    def find_occupied(self, features: Rows | FeatureTable, group: Group) -> np.ndarray | None:
        """Return None: features without pairs have no coefficients in any case."""
        return None

    def scorer(self, subspace: Subspace, values: np.ndarray) -> SupportScorer:
        """Return fitted coefficients, prepared for scores of inputs."""
        return SupportScorer(subspace, PairScorer(PairLayout(self), values))

    def sharer(self, features: object) -> object:
        """Return the key of terms that share work: pairs belong to one term alone."""
        return self

    def count(self, n_outcomes: int) -> int:
        """Return the number of labellings with a coefficient of the only feature."""
        return self.size

    def labellings(self, n_outcomes: int) -> np.ndarray:
        """Return the labellings with a coefficient of the only feature."""
        return self.outcomes.astype(np.int64)

    def list_pairs(self, n_features: int, n_outcomes: int) -> Support:
        """Return the pairs unchanged."""
        return self

    def make_coefficients(self, values: np.ndarray, n_features: int) -> np.ndarray:
        """Return one number per pair as coefficients, (P, 1)."""
        return values.reshape(-1, 1)

    def describe_pairs(self) -> dict[str, Mapping[str, np.ndarray]]:
        """Return the entries of a document with the pairs."""
        return {"pairs": {"begin": self.begin, "outcomes": self.outcomes}}

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


class ListedSupport(Support):
    """Pairs of the only feature, with one score per pair, instead of too long tables of labellings."""

    @property
    def listing(self) -> np.ndarray:
        """The labellings with scores."""
        return self.outcomes

    def dense(self, values: np.ndarray) -> np.ndarray:
        """Return one number per pair as (1, P)."""
        return self.row(values)

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return one number per pair as (1, P)."""
        return np.reshape(values, (1, -1))

    def pick(self, row: np.ndarray) -> np.ndarray:
        """Return a row (1, P) as coefficients, (P, 1)."""
        return row[0][:, None]


def observed_support(
    features: Rows | None,
    labellings: np.ndarray,
    n_outcomes: int,
    min_freq: float = 0.0,
    weights: np.ndarray | None = None,
) -> Support:
    """Return the observed pairs: ``features`` (n, r) or None for the constant, ``labellings`` (n,).

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
    """Return the labellings with a total weight of at least ``min_freq`` as pairs of a term without features."""
    outcomes, places = np.unique(labellings, return_inverse=True)
    outcomes = outcomes[np.bincount(places, weights, minlength=len(outcomes)) >= min_freq].astype(np.int64)
    return ListedSupport(np.array([0, len(outcomes)]), outcomes, n_outcomes)


def merge_runs(runs: Runs, most: int) -> list[tuple[int, int]]:
    """Merge neighbouring runs into at most ``most``, and at least one."""
    wanted = max(1, min(len(runs), most))
    return list(pairwise([*(runs[number * len(runs) // wanted][0] for number in range(wanted)), runs[-1][1]]))


# A feature with pairs for this share of the labellings is cheaper as a full row, in vector registers.
_FULL_ROW_SHARE = 0.25
# So many pairs are read in turn faster than looked for.
_FEW_PAIRS = 8
# About how many operations an allowed label of a position takes, for the decision whether threads are worth it.
_WORK = 20


class PairLayout:
    """The features of a support with a full row in a table, and the columns of their pairs in it."""

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
        """Bits for features with many pairs but no full row: their numbers (r,), bits and ranks."""
        from kernelfields.inference.chain.scored_steps import marked

        support = self.support
        # No more memory than twelve bytes for each pair; fewer pairs are found by walking along them.
        many = np.diff(support.begin) >= max(self._few_pairs, -(-support.n_outcomes // 64))
        rows = np.flatnonzero(many & (self.slots < 0))
        numbers = np.full(support.n_features, -1, dtype=np.int32)
        numbers[rows] = np.arange(len(rows), dtype=np.int32)
        return numbers, *marked(rows, support.begin, support.outcomes, support.n_outcomes)


class PairScorer:
    """Coefficients in the layout, for scores of any rows of features."""

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
        gather_lists = designs.pairs_compiled.gather_lists
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
        support = self.layout.support
        designs.pairs_compiled.gather_pairs(
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


@dataclass(frozen=True, eq=False)
class SupportScorer:
    """Coefficients of pairs of the features of a subspace."""

    subspace: Subspace
    pairs: PairScorer

    def scores(self, inputs: Rows, workers: Workers) -> np.ndarray:
        """Return the scores of every row of inputs, (n, L^k)."""
        return self.pairs.scores(csr_array(self.subspace.features(inputs)), workers)

    def listed_scores(self, inputs: Rows, lists: AllowedLabels, workers: Workers) -> np.ndarray:
        """Return the scores of allowed labels, (A,), of inputs (N, d)."""
        return self.pairs.listed_scores(csr_array(self.subspace.features(inputs)), lists, workers)


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

    def square_entries(self) -> PairTable:
        """Return the table of z_tf^2; other arrays are shared."""
        table = copy(self)
        table.features = squared_entries(self.features)
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
        """Return the gradient of every pair, (P, 1); ``residuals`` of a run are rows begin, end and an (n, L^k) array.

        Every run adds to an array of its own: gradients of pairs, and the table of full rows.
        """
        scatter_pairs = designs.pairs_compiled.scatter_pairs
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
        """Return the number of gradients that fit in the memory of a transposed index."""
        size = 8 * (self.support.size + self.layout.table_shape[0] * self.layout.table_shape[1])
        return max(1, 12 * self.stored_values // max(1, size))

    def runs(self, workers: Workers) -> list[tuple[int, int]]:
        """Split the rows into one run per thread; fewer if arrays per thread would exceed the data."""
        pieces = workers.weighted_pieces(self.features.indptr, self.support.n_outcomes)
        return merge_runs(pieces, min(workers.n_threads, self.affordable_copies()))


def _arrays(features: csr_array, support: Support, lists: AllowedLabels) -> tuple[tuple, tuple, tuple]:
    table = features.indptr, features.indices, features.data
    return table, (support.begin, support.outcomes), (lists.begin, lists.labels)


class PairLists:
    """A CSR Z (N, r) with a support and the allowed labels of its rows; ``copies`` limits the number of gradients."""

    def __init__(self, features: csr_array, support: Support, lists: AllowedLabels, workers: Workers, copies: int = 1):
        walk_matches = designs.pairs_compiled.walk_matches
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
        self._runs = merge_runs(self._pieces, min(workers.n_threads, copies))

    def scores(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the scores of allowed labels, (A,)."""
        product = designs.pairs_compiled.product
        scores = np.empty(len(self._indptr) - 1)
        flat = np.ascontiguousarray(coefficients, dtype=np.float64).reshape(-1)
        self._workers.each(
            lambda first, last: product(first, last, self._indptr, self._pairs, self._values, flat, scores),
            self._pieces,
        )
        return scores

    def gradient(self, residual: np.ndarray, squared: bool = False) -> np.ndarray:
        """Return the gradient of every pair, (P, 1), for residuals of allowed labels (A,); with z^2 if squared."""
        scatter = designs.pairs_compiled.scatter

        def part(first: int, last: int) -> np.ndarray:
            total = np.zeros(self._size)
            scatter(first, last, self._indptr, self._pairs, self._values, residual, squared, total)
            return total

        return self._workers.sum(part, self._runs)[:, None]
