"""Products with sparse features, compiled: all coefficients of a feature, or those of some labellings only.

    rows      out[i] = sum_k values[k] table[indices[k]]      over the stored entries k of row i
    gather    scores[t, outcomes[p]] += z_tf v_p              over the pairs p of the features f of position t
    scatter   gradient[p] += z_tf residual[t, outcomes[p]]

The first serves both products: positions over features (scores) and, along the transposed index, features over
positions (gradients). Each run of rows writes rows of its own, so threads need no locks. The others run over
the positions, so that scores and residuals stream through the cache and only coefficients are looked up. Features with
many pairs have a ``slot``: a full row of L^k coefficients in a small table, added in vector registers; the others run
over their pairs. Each thread scatters into arrays of its own, added up afterwards in a fixed order.

For allowed labels only, with entries i of position t:

    gather_lists   scores[i] += z_tf v_p          for the pairs p = (f, labels[i]), on new data
    matches        the same triples (i, p, z_tf) written down once, as a CSR over entries, for data of many passes
    product        scores[i] = sum_m values[m] v[pairs[m]]
    scatter        gradient[pairs[m]] += values[m] residual[i]

Pairs of a feature are sorted by label, as the entries of a position are: few pairs are read along with the entries,
among many each entry is searched for.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference.chain.lists_compiled import count_bits
from kernelfields.numerics.compiled import REORDER, njit

# A loop over so many pairs costs as much as one search.
_SEARCH = 4
_ONE, _LOW = np.uint64(1), np.uint64(63)


@njit(nogil=True, cache=True, fastmath=REORDER)
def gather_pairs(indptr, indices, values, begin, outcomes, coefficients, slots, table, scores):
    """Fill scores (n, L^k) from n rows with stored entries indptr[i] .. indptr[i + 1] - 1."""
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


@njit(nogil=True, cache=True, fastmath=REORDER)
def scatter_pairs(indptr, indices, values, begin, outcomes, slots, residual, table, gradient):
    """Add residual (n, L^k) to the table (features with a row) and to the gradient (other features)."""
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


@njit(nogil=True, cache=True, fastmath=REORDER)
def add_rows(first, last, indptr, indices, values, table, out):
    """Fill rows first..last-1 of out with sums of rows."""
    width = table.shape[1]
    for i in range(first, last):
        row = out[i]
        for b in range(width):
            row[b] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            source, value = table[indices[k]], values[k]
            for b in range(width):
                row[b] += value * source[b]


@njit(nogil=True, cache=True)
def _next_pair(outcomes, low, high, label, searched):
    """Return the first of the pairs low..high-1 whose label is at least the given one."""
    if not searched:
        while low < high and outcomes[low] < label:
            low += 1
        return low
    while low < high:
        middle = (low + high) >> 1
        if outcomes[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def gather_lists(first, last, features, support, coefficients, rows, marks, lists, scores):
    """Fill scores (A,) of the entries of rows first..last-1.

    ``rows`` are the slot of each feature, -1 for none, and a table of full rows of coefficients; ``marks`` the same
    with bits and ranks of inference/chain/lists_compiled.py. Other features have few pairs, which are read in turn.
    """
    indptr, indices, values = features
    begin, outcomes = support
    slots, table = rows
    places, bits, ranks = marks
    starts, labels = lists
    for t in range(first, last):
        lo, hi = starts[t], starts[t + 1]
        for i in range(lo, hi):
            scores[i] = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            f, value = indices[k], values[k]
            slot, place = slots[f], places[f]
            if slot >= 0:
                for i in range(lo, hi):
                    scores[i] += value * table[slot, labels[i]]
            elif place >= 0:
                for i in range(lo, hi):
                    number, low = labels[i] >> np.uint32(6), np.uint64(labels[i]) & _LOW
                    word = bits[place, number]
                    if (word >> low) & _ONE:
                        pair = ranks[place, number] + count_bits(word & ((_ONE << low) - _ONE))
                        scores[i] += value * coefficients[pair]
            else:
                p, stop = begin[f], begin[f + 1]
                for i in range(lo, hi):
                    while p < stop and outcomes[p] < labels[i]:
                        p += 1
                    if p < stop and outcomes[p] == labels[i]:
                        scores[i] += value * coefficients[p]


@njit(nogil=True, cache=True)
def walk_matches(features, support, lists, places, pairs, weights):
    """Write pairs and values of every entry from places (A,) on, and advance these; without pairs only advance."""
    written = len(pairs) > 0
    indptr, indices, values = features
    begin, outcomes = support
    starts, labels = lists
    for t in range(len(starts) - 1):
        lo, hi = starts[t], starts[t + 1]
        for k in range(indptr[t], indptr[t + 1]):
            p, stop = begin[indices[k]], begin[indices[k] + 1]
            searched = stop - p > _SEARCH * (hi - lo)
            for i in range(lo, hi):
                p = _next_pair(outcomes, p, stop, labels[i], searched)
                if p == stop:
                    break
                if outcomes[p] == labels[i]:
                    if written:
                        pairs[places[i]] = p
                        weights[places[i]] = values[k]
                    places[i] += 1


@njit(nogil=True, cache=True, fastmath=REORDER)
def product(first, last, indptr, pairs, weights, coefficients, scores):
    """Fill scores of entries first..last-1; weights may be missing for ones."""
    ones = len(weights) == 0
    for i in range(first, last):
        total = 0.0
        if ones:
            for m in range(indptr[i], indptr[i + 1]):
                total += coefficients[pairs[m]]
        else:
            for m in range(indptr[i], indptr[i + 1]):
                total += weights[m] * coefficients[pairs[m]]
        scores[i] = total


@njit(nogil=True, cache=True, fastmath=REORDER)
def scatter(first, last, indptr, pairs, weights, residual, squared, gradient):
    """Add the products of entries first..last-1 with residuals to every pair, (P,); squared entries if ``squared``."""
    ones = len(weights) == 0
    for i in range(first, last):
        value = residual[i]
        if ones:
            for m in range(indptr[i], indptr[i + 1]):
                gradient[pairs[m]] += value
        else:
            for m in range(indptr[i], indptr[i + 1]):
                weight = weights[m]
                gradient[pairs[m]] += (weight * weight if squared else weight) * value
