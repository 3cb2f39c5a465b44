"""Products with sparse features, compiled: all coefficients of a feature, or those of some labellings only.

    rows      out[i] = sum_k values[k] table[indices[k]]      over the stored entries k of row i
    gather    scores[t, outcomes[p]] += z_tf v_p              over the pairs p of the features f of position t
    scatter   gradient[p] += z_tf residual[t, outcomes[p]]

The first serves both products: positions over features (scores) and, along the transposed index, features over
positions (gradients). Each run of rows writes rows of its own, so threads need no locks. The others walk the
positions, so that scores and residuals stream through the cache and only coefficients are looked up. Features with
many pairs have a ``slot``: a full row of L^k coefficients in a small table, added in vector registers; the others walk
their pairs. Each thread scatters into arrays of its own, added up afterwards in a fixed order.
"""

from __future__ import annotations

from numba import njit

_REORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=_REORDER)
def gather_pairs(indptr, indices, values, begin, outcomes, coefficients, slots, table, scores):
    """Fill scores (n, L^k) from n rows, whose stored entries are indptr[i] .. indptr[i + 1] - 1."""
    n_rows, width = scores.shape
    for i in range(n_rows):
        row = scores[i]
        for b in range(width):
            row[b] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            f, value = indices[k], values[k]
            slot = slots[f]
            if slot >= 0:
                source = table[slot]
                for b in range(width):
                    row[b] += value * source[b]
            else:
                for p in range(begin[f], begin[f + 1]):
                    row[outcomes[p]] += value * coefficients[p]


@njit(nogil=True, cache=True, fastmath=_REORDER)
def scatter_pairs(indptr, indices, values, begin, outcomes, slots, residual, table, gradient):
    """Add residual (n, L^k) to the table (features with a slot) and the gradient (the others)."""
    n_rows, width = residual.shape
    for i in range(n_rows):
        row = residual[i]
        for k in range(indptr[i], indptr[i + 1]):
            f, value = indices[k], values[k]
            slot = slots[f]
            if slot >= 0:
                target = table[slot]
                for b in range(width):
                    target[b] += value * row[b]
            else:
                for p in range(begin[f], begin[f + 1]):
                    gradient[p] += value * row[outcomes[p]]


@njit(nogil=True, cache=True, fastmath=_REORDER)
def add_rows(first, last, indptr, indices, values, table, out):
    """Fill rows first..last-1 of out."""
    width = table.shape[1]
    for i in range(first, last):
        row = out[i]
        for b in range(width):
            row[b] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            source, value = table[indices[k]], values[k]
            for b in range(width):
                row[b] += value * source[b]
