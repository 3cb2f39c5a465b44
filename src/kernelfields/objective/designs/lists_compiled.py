"""Products of sparse features with coefficients of pairs, for allowed labels only, compiled.

    gather    scores[i] += z_tf v_p              for entries i of position t and the pairs p = (f, labels[i])
    scatter   gradient[p] += z_tf residual[i]

The twins of gather_pairs and scatter_pairs in products_compiled.py. Pairs of a feature are sorted by label, as the
entries of a position are: few pairs are walked along with the entries, among many each entry is searched for.
"""

from __future__ import annotations

from numba import njit

# A walk over so many pairs costs as much as one search.
_SEARCH = 8


@njit(nogil=True, cache=True)
def _next_pair(outcomes, low, high, label):
    """Return the first of the pairs low..high-1 whose label is not below the given one."""
    while low < high:
        middle = (low + high) // 2
        if outcomes[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def gather_lists(first, last, features, support, coefficients, lists, scores):
    """Fill scores (A,) of the entries of rows first..last-1."""
    indptr, indices, values = features
    begin, outcomes = support
    starts, labels = lists
    for t in range(first, last):
        lo, hi = starts[t], starts[t + 1]
        for i in range(lo, hi):
            scores[i] = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            f, value = indices[k], values[k]
            p, stop = begin[f], begin[f + 1]
            if stop - p == 1:
                label = outcomes[p]
                for i in range(lo, hi):
                    if labels[i] == label:
                        scores[i] += value * coefficients[p]
                        break
                continue
            searched = stop - p > _SEARCH * (hi - lo)
            for i in range(lo, hi):
                label = labels[i]
                if searched:
                    p = _next_pair(outcomes, p, stop, label)
                else:
                    while p < stop and outcomes[p] < label:
                        p += 1
                if p == stop:
                    break
                if outcomes[p] == label:
                    scores[i] += value * coefficients[p]


@njit(nogil=True, cache=True)
def scatter_lists(first, last, features, support, residual, lists, gradient):
    """Add what entries (A,) of rows first..last-1 have to the gradient of every pair, (P,)."""
    indptr, indices, values = features
    begin, outcomes = support
    starts, labels = lists
    for t in range(first, last):
        lo, hi = starts[t], starts[t + 1]
        for k in range(indptr[t], indptr[t + 1]):
            f, value = indices[k], values[k]
            p, stop = begin[f], begin[f + 1]
            if stop - p == 1:
                label = outcomes[p]
                for i in range(lo, hi):
                    if labels[i] == label:
                        gradient[p] += value * residual[i]
                        break
                continue
            searched = stop - p > _SEARCH * (hi - lo)
            for i in range(lo, hi):
                label = labels[i]
                if searched:
                    p = _next_pair(outcomes, p, stop, label)
                else:
                    while p < stop and outcomes[p] < label:
                        p += 1
                if p == stop:
                    break
                if outcomes[p] == label:
                    gradient[p] += value * residual[i]
