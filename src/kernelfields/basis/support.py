"""Which (feature, labelling) pairs have a coefficient, where not all of them do.

The pairs of feature f are begin[f] .. begin[f + 1] - 1; pair p joins it with labelling outcomes[p], a label or a
pair of labels a L + b. Coefficients are one number per pair, (P, 1): those of a sparse (r, L^k) matrix with a
fixed pattern. A set without features, such as plain transitions, has one feature, the constant.

The observed support holds the pairs that occur in the training data. Its cost is a product of two sparse
matrices, O(non-zeros).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse


@dataclass(frozen=True, eq=False)
class Support:
    """Pairs of features and labellings: ``begin`` (r + 1,), ``outcomes`` (P,) sorted within each feature."""

    begin: np.ndarray
    outcomes: np.ndarray
    n_outcomes: int

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

    def matrix(self, values: np.ndarray) -> Any:
        """Return one number per pair as a sparse (r, L^k) matrix, a copy."""
        shape = (self.n_features, self.n_outcomes)
        # SciPy works in place, eliminate_zeros for one, and must not reach the support itself.
        return scipy.sparse.csr_array((np.ravel(values), self.outcomes, self.begin), shape=shape, copy=True)

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return one number per pair of the only feature as (1, L^k), zero elsewhere."""
        row = np.zeros((1, self.n_outcomes))
        row[0, self.outcomes] = np.ravel(values)
        return row

    def check(self) -> None:
        """Raise ValueError unless begin and outcomes fit together."""
        begin, outcomes = self.begin, self.outcomes
        whole = all(each.ndim == 1 and each.dtype.kind == "i" for each in (begin, outcomes))
        sound = whole and len(begin) > 1 and begin[0] == 0 and begin[-1] == len(outcomes)
        sound = sound and bool(np.all(np.diff(begin) >= 0))
        if not sound or (len(outcomes) and not 0 <= outcomes.min() <= outcomes.max() < self.n_outcomes):
            raise ValueError("the pairs of features and labels do not fit together")
        if np.any(np.diff(self.features.astype(np.int64) * self.n_outcomes + outcomes) <= 0):
            raise ValueError("the pairs of features and labels are not sorted, or one occurs twice")


def observed_support(features: Any, labellings: np.ndarray, n_outcomes: int, min_freq: float = 0.0) -> Support:
    """Return the pairs that occur: ``features`` (n, r) or None for the constant, ``labellings`` (n,).

    A pair whose total weight in the data is below ``min_freq`` is left out.
    """
    n_rows = len(labellings)
    if features is None:
        features = np.ones((n_rows, 1))
    indicator = scipy.sparse.csr_array(
        (np.ones(n_rows), labellings.astype(np.int32), np.arange(n_rows + 1)), shape=(n_rows, n_outcomes)
    )
    stored = scipy.sparse.csr_array(features).T.tocsr()
    # Of ones, so that weights that cancel, or stored zeros, count as seen.
    ones = scipy.sparse.csr_array((np.ones(stored.nnz), stored.indices, stored.indptr), shape=stored.shape)
    seen = scipy.sparse.csr_array(ones @ indicator)
    seen.sort_indices()
    begin, outcomes = seen.indptr, seen.indices
    if min_freq > 0:
        kept = _totals(stored @ indicator, seen) >= min_freq
        begin = np.concatenate([[0], np.cumsum(kept)])[begin]
        outcomes = outcomes[kept]
    return Support(begin.astype(np.int32), outcomes.astype(np.int32), n_outcomes)


def _totals(totals: Any, seen: Any) -> np.ndarray:
    """Return the entries of one sparse matrix at the places of another, zero where it holds none."""
    width = seen.shape[1]
    totals = scipy.sparse.coo_array(totals)
    keys = totals.row.astype(np.int64) * width + totals.col
    order = np.argsort(keys)
    rows = np.repeat(np.arange(seen.shape[0], dtype=np.int64), np.diff(seen.indptr))
    wanted = rows * width + seen.indices
    places = np.minimum(np.searchsorted(keys[order], wanted), max(0, len(keys) - 1))
    if len(keys) == 0:
        return np.zeros(len(wanted))
    return np.where(keys[order][places] == wanted, totals.data[order][places], 0.0)
