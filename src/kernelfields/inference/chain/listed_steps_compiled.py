"""Steps with a score between neighbouring lists of allowed labels, found once and written down; compiled.

Few pairs of labels have a score of their own, so that a table of all pairs is mostly one number, and walks over it miss
the cache at every step. A bit for each pair says which have one, 64 pairs to a word, beside the number of pairs before
each word:

    pair of (a, b) = ranks[a, b // 64] + bits set below b in bits[a, b // 64]

A step has a block of |A_{t-1}| |A_t| places. Of block k, matches starts[k] .. starts[k + 1] - 1 say which of them, row
by row, belong to which pair. Large blocks between equal lists, such as those of two unknown words, are one block; small
ones are written down as often as they occur, because what passes read in order they need not wait for. Lists are
compared label by label; hashes only say where to look.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint64(1)
_LOW = np.uint64(63)
_PRIME = np.uint64(1099511628211)
_MIX = np.uint64(11400714819323198485)
_HALF = np.uint64(32)


@njit(nogil=True, cache=True)
def bits_set(word):
    """Return how many bits are set (the sum in parallel that compilers know as one instruction)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(nogil=True, cache=True)
def mark_pairs(rows, begin, outcomes, bits, ranks):
    """Fill bits and ranks (R, W) for pairs begin[f] .. begin[f + 1] - 1 of f = rows[r], whose outcomes are sorted."""
    for row in range(len(rows)):
        for pair in range(begin[rows[row]], begin[rows[row] + 1]):
            word = outcomes[pair] >> 6
            if bits[row, word] == 0:
                ranks[row, word] = pair
            bits[row, word] |= _ONE << (np.uint64(outcomes[pair]) & _LOW)


@njit(nogil=True, cache=True)
def number_lists(begin, labels, slots, kinds):
    """Fill kinds (N,) with one number for equal lists; slots, a power of two of them, hold -1."""
    mask = np.uint64(len(slots) - 1)
    known = 0
    for t in range(len(begin) - 1):
        lo, hi = begin[t], begin[t + 1]
        value = np.uint64(hi - lo)
        for i in range(lo, hi):
            value = (value ^ np.uint64(labels[i])) * _PRIME
        slot = (value ^ (value >> _HALF)) & mask
        while True:
            other = slots[slot]
            if other < 0:
                slots[slot] = t
                kinds[t] = known
                known += 1
                break
            low = begin[other]
            same = begin[other + 1] - low == hi - lo
            for i in range(hi - lo):
                if not same or labels[low + i] != labels[lo + i]:
                    same = False
                    break
            if same:
                kinds[t] = kinds[other]
                break
            slot = (slot + _ONE) & mask
    return known


@njit(nogil=True, cache=True)
def number_steps(offsets, begin, kinds, slots, large, which, rows):
    """Fill which (N,) with the blocks of steps and rows with the first position of each.

    Blocks of ``large`` places or more are one where lists are equal.
    """
    mask = np.uint64(len(slots) - 1)
    known = 0
    for s in range(len(offsets) - 1):
        which[offsets[s]] = -1
        for t in range(offsets[s] + 1, offsets[s + 1]):
            if (begin[t] - begin[t - 1]) * (begin[t + 1] - begin[t]) < large:
                rows[known] = t
                which[t] = known
                known += 1
                continue
            value = (np.uint64(kinds[t - 1]) << _HALF | np.uint64(kinds[t])) * _MIX
            slot = (value >> _HALF) & mask
            while True:
                other = slots[slot]
                if other < 0:
                    slots[slot] = t
                    rows[known] = t
                    which[t] = known
                    known += 1
                    break
                if kinds[other] == kinds[t] and kinds[other - 1] == kinds[t - 1]:
                    which[t] = which[other]
                    break
                slot = (slot + _ONE) & mask
    return known


@njit(nogil=True, cache=True)
def write_steps(first, last, rows, lists, bits, ranks, starts, places, pairs):
    """Write down which places have a score, and their pairs, of blocks first..last-1; return how many.

    Block k is that of the step into position rows[k]. starts, one more than the blocks, places and pairs begin with
    the first of them.
    """
    begin, labels = lists
    longest = 1
    for k in range(first, last):
        t = rows[k]
        longest = max(longest, begin[t + 1] - begin[t])
    words, lows = np.empty(longest, np.uint32), np.empty(longest, np.uint64)
    m = 0
    for k in range(first, last):
        t = rows[k]
        lo, size = begin[t], begin[t + 1] - begin[t]
        for j in range(size):
            words[j], lows[j] = labels[lo + j] >> np.uint32(6), np.uint64(labels[lo + j]) & _LOW
        place = 0
        starts[k - first] = m
        for i in range(begin[t - 1], lo):
            row = labels[i]
            for j in range(size):
                word = bits[row, words[j]]
                if (word >> lows[j]) & _ONE:
                    places[m] = place
                    pairs[m] = ranks[row, words[j]] + bits_set(word & ((_ONE << lows[j]) - _ONE))
                    m += 1
                place += 1
    starts[last - first] = m
    return m
