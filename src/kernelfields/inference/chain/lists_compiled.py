"""Passes over chains of which each position has a list of allowed labels, compiled.

The equations are those of scaled_compiled.py and decoding.py, with sums over the labels A_t of a list instead of all:

    c_t(b)      = sum over a in A_{t-1} of alpha_{t-1}(a) T_t(a, b)          b in A_t
    future_t(a) = sum over b in A_{t+1} of T_{t+1}(a, b) gamma_{t+1}(b)
    edge(a, b) += weight alpha_t(a) T_{t+1}(a, b) gamma_{t+1}(b)             one table, or one for each position

Where few pairs of labels have a score of their own, the table T is mostly one number, and passes over it miss the cache
at every step. Passes then read *matches*: the places of the block A_{t-1} x A_t whose pair has a score, row by row,
with the number of the pair. Matches starts[k] .. starts[k + 1] - 1 belong to block k. Pairs are found by a bit for
each, 64 to a word, beside the number of pairs before each word:

    pair of (a, b) = ranks[a, b // 64] + bits set below b in bits[a, b // 64]

Large blocks between equal lists, such as those of two unknown words, are one block; small ones are written down as
often as they occur, because a pass does not wait for what it reads in order. Chains that are visited once have their
matches found during the pass.

Arrays: begin (N + 1,) and labels (A,) of data/allowed.py; scores, alpha, marginals and other values of an allowed label
of a position, (A,); transfer (E, L, L) with E = 1 or N. Cost: sum_t |A_{t-1}| |A_t|. A sequence is flagged as troubled
where a probability that is not structurally zero leaves the range of doubles; the caller then recomputes it by dense
passes.
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.inference.packing import LEAST_PREDICTED, LEAST_SCALE, TIE, TINY
from kernelfields.inference.sums_compiled import first_largest, shift
from kernelfields.numerics.compiled import REORDER, njit

_ONE = np.uint64(1)
_LOW = np.uint64(63)


@njit(nogil=True, cache=True)
def count_bits(word):
    """Count the set bits of a word (the sum in parallel that compilers recognise as one instruction)."""
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
def write_steps(first, last, rows, lists, bits, ranks, starts, places, pairs):
    """Write the scored places of blocks first..last-1, with their pairs; return the number of places.

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
                    pairs[m] = ranks[row, words[j]] + count_bits(word & ((_ONE << lows[j]) - _ONE))
                    m += 1
                place += 1
    starts[last - first] = m
    return m


# Numbers of blocks that are kept for the way back, 256 KiB: what is not far is read again faster than it is gathered.
_ROOM = 2**15


@njit(nogil=True, cache=True, forceinline=True, fastmath=REORDER, error_model="numpy")
def forward_backward(
    first, last, offsets, lists, scores, matches, transfer, has_forbidden, marginals, log_partition, troubled, expected
):
    """Fill the marginals of entries of sequences first..last-1; add the expected steps if they are counted.

    ``lists`` are begin and labels, ``matches`` which, starts, places and pairs as above: they say
    which of the values stands where in the block of a step, other places have the background. Without matches the
    values are one table (stride 0) or one for each position. ``transfer`` are values, (width, stride), background and
    shifts; ``expected`` is (weights (S,), steps shaped as the values or empty).
    """
    # Loops call no functions and cut no slices: numba counts references to arrays at each, which takes longer than the
    # block of a step.
    begin, labels = lists
    which, starts, places, pairs = matches
    values, (width, stride), background, shifts = transfer
    weights, steps = expected
    listed, tied, counted = len(which) > 0, len(shifts) == 1, len(steps) > 0
    longest, largest, entries = 1, _ROOM, 1
    for s in range(first, last):
        entries = max(entries, begin[offsets[s + 1]] - begin[offsets[s]])
        for t in range(offsets[s], offsets[s + 1]):
            longest = max(longest, begin[t + 1] - begin[t])
            if t > offsets[s]:
                largest = max(largest, (begin[t] - begin[t - 1]) * (begin[t + 1] - begin[t]))
    predicted, gamma = np.empty(longest), np.empty(longest)
    reachable, reached_before = np.ones(longest), np.ones(longest)
    blocks, alpha, inverse = np.empty(largest), np.empty(entries), np.empty(entries)
    for s in range(first, last):
        start, end = offsets[s], offsets[s + 1] - 1
        base, cells, block = begin[start], 0, 0
        for t in range(start + 1, end + 1):
            cells += (begin[t] - begin[t - 1]) * (begin[t + 1] - begin[t])
        # Blocks of a sequence that are not too many are kept for the way back.
        kept = cells <= largest
        total, fine = 0.0, True
        for t in range(start, end + 1):
            lo, size = begin[t], begin[t + 1] - begin[t]
            now = lo - base
            top = -math.inf
            for i in range(lo, lo + size):
                top = max(top, scores[i])
            if top == -math.inf:
                fine = False
                break
            if t == start:
                for j in range(size):
                    predicted[j] = 1.0
                    reachable[j] = 1.0
            else:
                n_before, before = lo - begin[t - 1], begin[t - 1] - base
                if listed:
                    for place in range(block, block + n_before * size):
                        blocks[place] = background
                    for m in range(starts[which[t]], starts[which[t] + 1]):
                        blocks[block + places[m]] = values[pairs[m]]
                else:
                    for i in range(n_before):
                        row, place = t * stride + labels[base + before + i] * width, block + i * size
                        # A list of all labels needs no looking up.
                        if size == width:
                            for j in range(size):
                                blocks[place + j] = values[row + j]
                        else:
                            for j in range(size):
                                blocks[place + j] = values[row + labels[lo + j]]
                for j in range(size):
                    predicted[j] = 0.0
                whole = n_before - n_before % 4
                # Four rows at a time, so that sums are read and written less often.
                for i in range(0, whole, 4):
                    w0, w1 = alpha[before + i], alpha[before + i + 1]
                    w2, w3 = alpha[before + i + 2], alpha[before + i + 3]
                    r0 = block + i * size
                    r1, r2, r3 = r0 + size, r0 + 2 * size, r0 + 3 * size
                    for j in range(size):
                        predicted[j] += (
                            w0 * blocks[r0 + j] + w1 * blocks[r1 + j] + w2 * blocks[r2 + j] + w3 * blocks[r3 + j]
                        )
                for i in range(whole, n_before):
                    weight, row = alpha[before + i], block + i * size
                    for j in range(size):
                        predicted[j] += weight * blocks[row + j]
                total += shifts[0 if tied else t]
                if has_forbidden:
                    for i in range(n_before):
                        reached_before[i] = reachable[i]
                    for j in range(size):
                        reachable[j] = 0.0
                        for i in range(n_before):
                            if reached_before[i] > 0.0 and blocks[block + i * size + j] > 0.0:
                                reachable[j] = 1.0
                else:
                    for j in range(size):
                        reachable[j] = 1.0
                if kept:
                    block += n_before * size
            scale = 0.0
            for j in range(size):
                alpha[now + j] = predicted[j] * math.exp(scores[lo + j] - top)
                scale += alpha[now + j]
            fine = scale > TINY
            if not scale > LEAST_SCALE:
                for j in range(size):
                    if alpha[now + j] < LEAST_PREDICTED and reachable[j] > 0.0 and scores[lo + j] > -math.inf:
                        fine = False
            if not fine:
                break
            inverse_scale = 1.0 / scale
            lowest = math.inf
            for j in range(size):
                alpha[now + j] *= inverse_scale
                inverse[now + j] = 1.0 / predicted[j]
                lowest = min(lowest, min(alpha[now + j], predicted[j]))
            if lowest < TINY:
                for j in range(size):
                    if not predicted[j] > LEAST_PREDICTED:
                        inverse[now + j] = 0.0
                        fine = fine and alpha[now + j] == 0.0
                    if scores[lo + j] == -math.inf:
                        reachable[j] = 0.0
                    elif alpha[now + j] < TINY and reachable[j] > 0.0:
                        fine = False
                if not fine:
                    break
            total += math.log(scale) + top
        log_partition[s] = total
        troubled[s] = not fine
        if not fine:
            continue
        for i in range(begin[end], begin[end + 1]):
            marginals[i] = alpha[i - base]
        for t in range(end, start, -1):
            lo, size = begin[t], begin[t + 1] - begin[t]
            n_before, before = lo - begin[t - 1], begin[t - 1] - base
            if kept:
                block -= n_before * size
            elif listed:
                for place in range(n_before * size):
                    blocks[place] = background
                for m in range(starts[which[t]], starts[which[t] + 1]):
                    blocks[places[m]] = values[pairs[m]]
            else:
                for i in range(n_before):
                    row, place = t * stride + labels[base + before + i] * width, i * size
                    for j in range(size):
                        blocks[place + j] = values[row + labels[lo + j]]
            for j in range(size):
                gamma[j] = marginals[lo + j] * inverse[lo - base + j]
            for i in range(n_before):
                row, weight = block + i * size, weights[s] * alpha[before + i]
                future = 0.0
                for j in range(size):
                    product = blocks[row + j] * gamma[j]
                    future += product
                    blocks[row + j] = weight * product
                marginals[base + before + i] = alpha[before + i] * future
            if not counted:
                continue
            if listed:
                for m in range(starts[which[t]], starts[which[t] + 1]):
                    steps[pairs[m]] += blocks[block + places[m]]
            else:
                for i in range(n_before):
                    row, place = t * stride + labels[base + before + i] * width, block + i * size
                    if size == width:
                        for j in range(size):
                            steps[row + j] += blocks[place + j]
                    else:
                        for j in range(size):
                            steps[row + labels[lo + j]] += blocks[place + j]


@njit(nogil=True, cache=True)
def forward_backward_marked(
    first, last, offsets, lists, scores, marks, transfer, has_forbidden, marginals, log_partition, troubled, expected
):
    """Fill the marginals of chains that are visited once; matches of a few sequences are found during the pass.

    ``marks`` are the block of each position, (N,), to be filled, and bits and ranks as above.
    """
    begin, _ = lists
    which, bits, ranks = marks
    places, pairs = np.empty(_ROOM, np.uint32), np.empty(_ROOM, np.uint32)
    rows, starts = np.empty(_ROOM, np.int64), np.empty(_ROOM + 1, np.int64)
    s = first
    while s < last:
        upto, cells, known = s, 0, 0
        while upto < last:
            more = 0
            for t in range(offsets[upto] + 1, offsets[upto + 1]):
                more += (begin[t] - begin[t - 1]) * (begin[t + 1] - begin[t])
            if upto > s and cells + more > _ROOM:
                break
            cells, upto = cells + more, upto + 1
        if cells > len(places):
            places, pairs = np.empty(cells, np.uint32), np.empty(cells, np.uint32)
            rows, starts = np.empty(cells, np.int64), np.empty(cells + 1, np.int64)
        for sequence in range(s, upto):
            for t in range(offsets[sequence] + 1, offsets[sequence + 1]):
                rows[known], which[t] = t, known
                known += 1
        write_steps(0, known, rows, lists, bits, ranks, starts, places, pairs)
        matches = which, starts, places, pairs
        out = marginals, log_partition, troubled, expected
        forward_backward(s, upto, offsets, lists, scores, matches, transfer, has_forbidden, *out)
        s = upto


@njit(nogil=True, cache=True)
def largest_entries(allowed, entries, out):
    """Fill out (N,) with the label of the largest entry of each position; the lowest label wins among equals."""
    begin, labels = allowed
    for t in range(len(out)):
        out[t] = labels[begin[t] + first_largest(entries[begin[t] : begin[t + 1]])]


@njit(nogil=True, cache=True)
def best_prefixes(s, offsets, allowed, scores, edge, best, sums):
    """Fill best (A,) with the score of the best labelling up to each label of sequence s.

    At every position the largest is taken away and added to sums (2,). Return whether there is a labelling.
    """
    begin, labels = allowed
    stride = 0 if edge.shape[0] == 1 else 1
    for t in range(offsets[s], offsets[s + 1]):
        lo, hi, step = begin[t], begin[t + 1], edge[t * stride]
        for j in range(lo, hi):
            top = 0.0
            if t > offsets[s]:
                top = -np.inf
                for i in range(begin[t - 1], lo):
                    top = max(top, best[i] + step[labels[i], labels[j]])
            best[j] = top + scores[j]
        if lo == hi or not shift(best[lo:hi], sums):
            return False
    return True


@njit(nogil=True, cache=True)
def viterbi(first, last, offsets, allowed, scores, edge, best, best_labels, best_scores):
    """Fill the best labels (N,) and scores (S,) of sequences first..last-1; the lowest label wins among equals.

    best (A,) is overwritten.
    """
    begin, labels = allowed
    stride = 0 if edge.shape[0] == 1 else 1
    for s in range(first, last):
        sums = np.zeros(2)
        if not best_prefixes(s, offsets, allowed, scores, edge, best, sums):
            best_scores[s] = -np.inf
            continue
        best_scores[s] = sums[0] + sums[1]
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            # Where the best labelling comes from is looked for again, on the way back along it.
            top, after = -np.inf, t + 1 < offsets[s + 1]
            for i in range(begin[t], begin[t + 1]):
                value = best[i] + (edge[(t + 1) * stride, labels[i], best_labels[t + 1]] if after else 0.0)
                if value > top:
                    if value > top + TIE:
                        best_labels[t] = labels[i]
                    top = value


@njit(nogil=True, cache=True)
def lost_rows(offsets, allowed, possible):
    """Return for each sequence the first row without a path of possible steps (L, L), (S,); -1 without such a row."""
    begin, labels = allowed
    out = np.full(len(offsets) - 1, -1)
    reached, following = np.zeros(possible.shape[0], np.bool_), np.zeros(possible.shape[0], np.bool_)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            lo, hi = begin[t], begin[t + 1]
            some = False
            for j in range(lo, hi):
                following[j - lo] = t == offsets[s]
                if t > offsets[s]:
                    for i in range(begin[t - 1], lo):
                        if reached[i - begin[t - 1]] and possible[labels[i], labels[j]]:
                            following[j - lo] = True
                            break
                some = some or following[j - lo]
            for j in range(hi - lo):
                reached[j] = following[j]
            if not some:
                out[s] = t
                break
    return out
