"""Products with sparse features, compiled: gather along positions, scatter along features.

    scores[t, y]    = sum_f x[t, f] weight[f, y]        one run of positions per thread
    gradient[f, y]  = sum_t x[t, f] residual[t, y]      one run of features per thread

Each run writes rows of its own, so no locks are needed. The second product walks the transposed index, which costs
as much memory as the features themselves. Weights exist for every label of a feature ("rows": a dense (d, q)
array), or only for the pairs of a feature and a label that the training data shows ("pairs": one flat vector, the
pairs of feature f at pair_begin[f] .. pair_begin[f + 1], their labels in pair_label). Cost: O(non-zeros * labels)
or O(non-zeros * observed labels per feature). ``values`` may be empty: every stored value is then one.
"""

from __future__ import annotations

from numba import njit

# Sums may be reordered, which lets them run in vector registers.
_REORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=_REORDER)
def add_rows(first, last, indptr, indices, values, table, out):
    """out[i] = sum_k values[k] table[indices[k]] over the stored entries k of row i, for rows first..last-1."""
    width = table.shape[1]
    weighted = values.size > 0
    for i in range(first, last):
        row = out[i]
        for b in range(width):
            row[b] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            source = table[indices[k]]
            if weighted:
                value = values[k]
                for b in range(width):
                    row[b] += value * source[b]
            else:
                for b in range(width):
                    row[b] += source[b]


@njit(nogil=True, cache=True)
def gather_pairs(first, last, indptr, indices, values, pair_begin, pair_label, weights, out):
    """out[t, label] = sum over stored features f of value * weight of the pair (f, label)."""
    width = out.shape[1]
    weighted = values.size > 0
    for t in range(first, last):
        row = out[t]
        for b in range(width):
            row[b] = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            feature = indices[k]
            value = values[k] if weighted else 1.0
            for pair in range(pair_begin[feature], pair_begin[feature + 1]):
                row[pair_label[pair]] += value * weights[pair]


@njit(nogil=True, cache=True)
def scatter_pairs(first, last, indptr, indices, values, pair_begin, pair_label, residual, gradient):
    """gradient[pair (f, label)] = sum over positions t with feature f of value * residual[t, label]."""
    weighted = values.size > 0
    for feature in range(first, last):
        begin, end = pair_begin[feature], pair_begin[feature + 1]
        for pair in range(begin, end):
            gradient[pair] = 0.0
        for k in range(indptr[feature], indptr[feature + 1]):
            row = residual[indices[k]]
            value = values[k] if weighted else 1.0
            for pair in range(begin, end):
                gradient[pair] += value * row[pair_label[pair]]
