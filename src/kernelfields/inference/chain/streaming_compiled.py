"""Filtering, fixed-lag smoothing and survivors of Viterbi on the rows of a stream, compiled.

Equations and arrays, ``StreamRows``, are those of streaming.py. Rows whose filtered probabilities leave the range of
doubles are kept as logarithms, and the steps around them are taken in logarithms, so that no row before them is needed
again.
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.inference.chain.scaled_compiled import filter_positions
from kernelfields.inference.packing import TINY
from kernelfields.inference.sums_compiled import best_steps, copy_row, first_largest
from kernelfields.numerics.compiled import REORDER, njit

#: How the step into a row was taken: in numbers; in logarithms; in logarithms, where its alpha has to stay.
PLAIN, BY_LOGARITHMS, IN_LOGARITHMS = 0, 1, 2


@njit(nogil=True, cache=True)
def _log_step(rows, t, start):
    """Filter row t in logarithms; return False if it leaves no label."""
    n_labels = rows.node.shape[1]
    scores, now = rows.node[t], rows.log_alpha[t]
    if start:
        copy_row(scores, now)
    else:
        before, step = rows.log_alpha[t - 1], rows.edge[t if rows.edge.shape[0] > 1 else 0]
        if rows.logs[t - 1] != IN_LOGARITHMS:
            for a in range(n_labels):
                before[a] = math.log(rows.alpha[t - 1, a]) if rows.alpha[t - 1, a] > 0.0 else -math.inf
        for b in range(n_labels):
            top = -math.inf
            for a in range(n_labels):
                top = max(top, before[a] + step[a, b])
            now[b] = -math.inf
            if top > -math.inf and scores[b] > -math.inf:
                total = 0.0
                for a in range(n_labels):
                    total += math.exp(before[a] + step[a, b] - top)
                now[b] = top + math.log(total) + scores[b]
    top = -math.inf
    for b in range(n_labels):
        top = max(top, now[b])
    if top == -math.inf:
        return False
    total = 0.0
    for b in range(n_labels):
        now[b] -= top
        rows.alpha[t, b] = math.exp(now[b])
        total += rows.alpha[t, b]
    rows.logs[t] = BY_LOGARITHMS
    for b in range(n_labels):
        rows.alpha[t, b] /= total
        rows.reachable[t, b] = 1.0 if now[b] > -math.inf else 0.0
        if now[b] > -math.inf and rows.alpha[t, b] < TINY:
            rows.logs[t] = IN_LOGARITHMS
    return True


@njit(nogil=True, cache=True)
def filter_rows(rows, first, last, begins, has_forbidden, predicted):
    """Fill alpha of rows first..last-1 from the row before; if ``begins``, row first begins the sequence.

    Return the row that leaves no label, -1 where there is none. predicted (L,) is overwritten.
    """
    known = rows.transfer, rows.alpha, rows.inverse_predicted, rows.reachable, predicted
    for t in range(first, last):
        top = -math.inf
        for score in rows.node[t]:
            top = max(top, score)
        for b in range(len(predicted)):
            rows.alpha[t, b] = math.exp(rows.node[t, b] - top)
    begin = first if begins else -1
    t = first
    while t < last:
        if t == begin or rows.logs[t - 1] != IN_LOGARITHMS:
            upto, _ = filter_positions(t, last, begin, rows.node, has_forbidden, *known)
            for row in range(t, upto):
                rows.logs[row] = PLAIN
            t = upto
        if t < last:
            if not _log_step(rows, t, t == begin):
                return t
            t += 1
    return -1


@njit(nogil=True, cache=True)
def _step_back_in_logarithms(rows, t, now, before):
    """Fill before = p(y_{t-1}) from now = p(y_t): sum_b p(y_{t-1} | y_t = b, x_1..t-1) p(y_t = b)."""
    n_labels = len(now)
    step = rows.edge[t if rows.edge.shape[0] > 1 else 0]
    logs = np.empty(n_labels)
    for a in range(n_labels):
        before[a] = 0.0
        if rows.logs[t - 1] == IN_LOGARITHMS:
            logs[a] = rows.log_alpha[t - 1, a]
        else:
            logs[a] = math.log(rows.alpha[t - 1, a]) if rows.alpha[t - 1, a] > 0.0 else -math.inf
    for b in range(n_labels):
        if now[b] > 0.0:
            top, total = -math.inf, 0.0
            for a in range(n_labels):
                top = max(top, logs[a] + step[a, b])
            for a in range(n_labels):
                total += math.exp(logs[a] + step[a, b] - top)
            for a in range(n_labels):
                before[a] += now[b] * math.exp(logs[a] + step[a, b] - top) / total


@njit(nogil=True, cache=True, forceinline=True, fastmath=REORDER)
def smooth_rows(rows, last, first, end, marginals, work):
    """Write p(y_t | x_1..x_last) of rows first..end-1 into marginals (end - first, L); work (3, L) is scratch."""
    n_labels = rows.node.shape[1]
    stride = 0 if rows.edge.shape[0] == 1 else 1
    now, before, gamma = work[0], work[1], work[2]
    for b in range(n_labels):
        now[b] = rows.alpha[last, b]
    for t in range(last, first - 1, -1):
        if t < end:
            for b in range(n_labels):
                marginals[t - first, b] = now[b]
        if t == first:
            break
        fine = rows.logs[t] == PLAIN
        if fine:
            step = rows.transfer[t * stride]
            for b in range(n_labels):
                gamma[b] = now[b] * rows.inverse_predicted[t, b]
            total = 0.0
            for a in range(n_labels):
                value = 0.0
                for b in range(n_labels):
                    value += step[a, b] * gamma[b]
                before[a] = rows.alpha[t - 1, a] * value
                total += value
            fine = math.isfinite(total)
        if not fine:
            _step_back_in_logarithms(rows, t, now, before)
        now, before = before, now


@njit(nogil=True, cache=True)
def answer_by_lag(rows, first, n_groups, lag, every, marginals, work):
    """Fill marginals (n_groups * every, L) of groups of rows, each given all rows up to ``lag`` after its last."""
    for group in range(n_groups):
        begin = group * every
        last = first + begin + every - 1 + lag
        smooth_rows(rows, last, first + begin, first + begin + every, marginals[begin : begin + every], work)


@njit(nogil=True, cache=True)
def _best_step(scores, step, best, previous, pointers):
    """Replace best (L,), scores of the best labellings that end in each label, by the scores one position later.

    scores (L,) are those of the labels there, step (L, L) of the steps into them; pointers (L,) get the labels before,
    the lowest of equals. previous (L,) is overwritten.
    """
    copy_row(best, previous)
    best_steps(previous, step, best, pointers)
    best += scores


@njit(nogil=True, cache=True)
def _step_survivors(rows, t, start, pending, best, roots, work):
    """Make the step of Viterbi into row t; fill roots with the labels of row ``pending`` that survive."""
    n_labels = len(best)
    previous, origins = work[0], work[1]
    pointer = rows.pointers[t]
    if start:
        copy_row(rows.node[t], best)
        pointer[:] = 0
    else:
        _best_step(rows.node[t], rows.edge[t if rows.edge.shape[0] > 1 else 0], best, previous, pointer)
    copy_row(roots, origins)
    for b in range(n_labels):
        roots[b] = b if t == pending else origins[pointer[b]]
    peak = best.max()
    if peak == -np.inf:
        return False
    best -= peak
    return True


@njit(nogil=True, cache=True)
def _common_root(best, roots):
    """Return the common first label of all survivors, -1 if they differ."""
    common = -1
    for b in range(len(best)):
        if best[b] > -np.inf:
            if common < 0:
                common = int(roots[b])
            elif roots[b] != common:
                return -1
    return common


@njit(nogil=True, cache=True)
def _last_common(rows, t, best, reached, back):
    """Return the last row up to which all survivors of row t agree, and their label there."""
    n_labels = len(best)
    for b in range(n_labels):
        reached[b] = 1.0 if best[b] > -np.inf else 0.0
    row = t
    while reached.sum() > 1.0:
        back[:] = 0.0
        for b in range(n_labels):
            if reached[b] > 0.0:
                back[rows.pointers[row, b]] = 1.0
        copy_row(back, reached)
        row -= 1
    return row, np.argmax(reached)


@njit(nogil=True, cache=True)
def _find_roots(rows, t, pending, roots, origins):
    """Fill roots with the label of row ``pending`` from which each label of row t survives."""
    for b in range(len(roots)):
        roots[b] = b
    for row in range(pending + 1, t + 1):
        copy_row(roots, origins)
        for b in range(len(roots)):
            roots[b] = origins[rows.pointers[row, b]]


@njit(nogil=True, cache=True)
def _backtrack_from(rows, pending, t, before, path):
    """Fill path (n,) with the best labels of rows pending..t that may follow the label ``before``; False for none."""
    n_labels, n_rows = rows.node.shape[1], t - pending + 1
    stride = 0 if rows.edge.shape[0] == 1 else 1
    pointers = np.zeros((n_rows, n_labels), np.int32)
    scores, previous = rows.delta[pending].copy(), np.empty(n_labels)
    for b in range(n_labels):
        if rows.edge[pending * stride, before, b] == -np.inf:
            scores[b] = -np.inf
    for row in range(1, n_rows):
        _best_step(rows.node[pending + row], rows.edge[(pending + row) * stride], scores, previous, pointers[row])
    label = first_largest(scores)
    if scores[label] == -np.inf:
        return False
    for row in range(n_rows - 1, -1, -1):
        path[row] = label
        label = pointers[row, label]
    return True


@njit(nogil=True, cache=True)
def _trace(rows, row, label, pending, labels):
    """Fill the labels of rows pending..row on the best labelling that has ``label`` at ``row``."""
    while row >= pending:
        labels[row - pending] = label
        label = rows.pointers[row, label]
        row -= 1


@njit(nogil=True, cache=True)
def _is_possible_step(rows, row, before, label):
    return before < 0 or rows.edge[row if rows.edge.shape[0] > 1 else 0, before, label] > -np.inf


@njit(nogil=True, cache=True)
def answer_by_survivors(rows, pending, first, last, number, lag, every, best, roots, before, labels, marginals, work):
    """Filter rows first..last-1, where row first is position ``number``, and label the rows on which survivors agree.

    ``pending`` is the first row without an answer; labels and marginals are filled from it on. best and roots (L,)
    belong to the row before; before (1,) is the last label that was given out, -1 for none. Return how many rows have
    answers, or minus one and the row that leaves no label.
    """
    begin = pending
    for t in range(first, last):
        if not _step_survivors(rows, t, number == 0 and t == first, pending, best, roots, work):
            return -1 - t
        copy_row(best, rows.delta[t])
        if (number + t - first + 1) % every != 0:
            continue
        while pending <= t:
            end, label = pending, roots[first_largest(best)]
            if _common_root(best, roots) >= 0:
                end, label = _last_common(rows, t, best, work[0], work[1])
            elif t - pending < lag:
                break
            done = pending - begin
            smooth_rows(rows, t, pending, end + 1, marginals[done:], work)
            _trace(rows, end, int(label), pending, labels[done:])
            for row in range(pending, end + 1):
                # Labels that were given out too early cannot be taken back; what follows them has to be possible.
                if not _is_possible_step(rows, row, before[0], labels[row - begin]):
                    path = np.empty(t - row + 1, np.int64)
                    if not _backtrack_from(rows, row, t, before[0], path):
                        return -1 - row
                    labels[row - begin] = path[0]
                before[0] = labels[row - begin]
            pending = end + 1
            if pending <= t:
                _find_roots(rows, t, pending, roots, work[0])
    return pending - begin


@njit(nogil=True, cache=True)
def answer_last(rows, pending, t, best, before, labels, marginals, work):
    """Label rows pending..t, the last of the sequence; return False if no label may follow the answered labels."""
    copy_row(best, rows.delta[t])
    smooth_rows(rows, t, pending, t + 1, marginals, work)
    _trace(rows, t, first_largest(best), pending, labels)
    return _is_possible_step(rows, pending, before[0], labels[0]) or _backtrack_from(
        rows, pending, t, before[0], labels
    )
