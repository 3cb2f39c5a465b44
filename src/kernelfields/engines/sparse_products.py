"""Products with sparse features, compiled: rows of a table, weighted and added.

    out[i] = sum_k values[k] table[indices[k]]      over the stored entries k of row i

The same loop serves both products: positions over features (scores) and, along the transposed index, features
over positions (gradients). Each run of rows writes rows of its own, so threads need no locks. Cost: O(non-zeros *
width).
"""

from __future__ import annotations

from numba import njit

# Sums may be reordered, which lets them run in vector registers.
_REORDER = {"reassoc", "contract", "nsz"}


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
