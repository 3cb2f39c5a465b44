"""Scaled forward-backward and Hessian recursions on packed chains, compiled.

With T_t(a,b) = exp(w_t(a,b) - shift_t) and c_t(b) = sum_a alpha_{t-1}(a) T_t(a,b) (c = 1 at a start):

    alpha_t(b)  = c_t(b) e^{u_t(b) - top_t} / scale_t          filtered probabilities, sum to one
    log Z       = sum_t (log scale_t + top_t + shift_t)
    gamma_t(b)  = m_t(b) / c_t(b)                              0 at a start
    future_t(a) = sum_b T_{t+1}(a,b) gamma_{t+1}(b)            1 at an end
    m_t(a)      = alpha_t(a) future_t(a)                       node marginals (future itself is not kept)
    X_t(a,b)    = alpha_{t-1}(a) T_t(a,b) gamma_t(b)           edge marginals

Conditional expectations of a direction's score (du, dw), no exponentials needed:

    A_t(b) = du_t(b) + 1/c_t(b) sum_a alpha_{t-1}(a) T_t(a,b) (A_{t-1}(a) + dw_t(a,b))
    B_t(a) = 1/future_t(a) sum_b T_{t+1}(a,b) gamma_{t+1}(b) (dw_{t+1}(a,b) + du_{t+1}(b) + B_{t+1}(b))
    E      = sum_b m_T(b) A_T(b),    dm_t = m_t (A_t + B_t - E)

Arrays: (N, L) float64; transfer T (E, L, L) with E = 1 or N; ``ScaledPasses`` of packing.py has them. Cost O(N L^2)
time, O(N L) memory. Arrays to work in come from the caller, and loops over positions call no functions: numba takes
longer to compile an allocation or a call than a loop, and a new user waits for it. A sequence is flagged as troubled
where a probability that is not structurally zero leaves the range of doubles; the caller then recomputes it in the
log domain.

Long chains are passed piece by piece; long.py joins the pieces. A pass over a piece begins from the row beside it, or
from a guess: as if the chain began, or ended, there. It goes by steps of ``stride`` positions. A pass that corrects an
earlier one ends after a step whose last row is, to the last bit, what stood there: all that follow are then what they
would become. Its marginals are divided by their sum at every eighth position: two passes whose sums differ in the last
digit would go on to do so.
"""

from __future__ import annotations

import math

from kernelfields.inference.packing import LEAST_PREDICTED, LEAST_SCALE, TINY
from kernelfields.numerics.compiled import INLINED, REORDER, njit

#: How far a pass over a piece came: to its end, to a row that was there already, or to what doubles do not hold.
ENDED, MET, TROUBLED = 0, 1, 2


@njit(**INLINED, fastmath=REORDER)
def filter_positions(first, last, begin, node, has_forbidden, transfer, alpha, inverse_predicted, reachable, predicted):
    """Fill alpha and 1 / c of positions first..last-1 from the position before; ``begin`` starts their sequence.

    Their rows of alpha hold e^{u_t - top_t}: NumPy computes many exponentials in a quarter of the time.
    Return the first position at which doubles do not do, ``last`` for none, and the sum of log scale_t + top_t.
    reachable (n, L), whose row t % n belongs to t, is 1 where a label is not forbidden by what came before, which needs
    the row before the first position, too. predicted (L,) is overwritten.
    """
    n_labels = node.shape[1]
    whole = n_labels - n_labels % 4
    stride = 0 if transfer.shape[0] == 1 else 1
    n_rows = len(reachable)
    total = 0.0
    for t in range(first, last):
        scores, now, step, possible = node[t], alpha[t], transfer[t * stride], reachable[t % n_rows]
        start = 1.0 if t == begin else 0.0
        top = -math.inf
        for b in range(n_labels):
            predicted[b] = start
            possible[b] = 1.0
            if scores[b] > top:
                top = scores[b]
        if top == -math.inf:
            return t, total
        if t > begin:
            before = alpha[t - 1]
            # Four rows at a time, so that sums are read and written less often.
            for a in range(0, whole, 4):
                w0, w1, w2, w3 = before[a], before[a + 1], before[a + 2], before[a + 3]
                r0, r1, r2, r3 = step[a], step[a + 1], step[a + 2], step[a + 3]
                for b in range(n_labels):
                    predicted[b] += w0 * r0[b] + w1 * r1[b] + w2 * r2[b] + w3 * r3[b]
            for a in range(whole, n_labels):
                weight = before[a]
                for b in range(n_labels):
                    predicted[b] += weight * step[a, b]
            if has_forbidden:
                for b in range(n_labels):
                    possible[b] = 0.0
                for a in range(n_labels):
                    if reachable[(t - 1) % n_rows, a] > 0.0:
                        for b in range(n_labels):
                            if step[a, b] > 0.0:
                                possible[b] = 1.0
        scale = 0.0
        for b in range(n_labels):
            now[b] *= predicted[b]
            scale += now[b]
        if not scale > LEAST_SCALE:
            fine = scale > TINY
            for b in range(n_labels):
                if now[b] < LEAST_PREDICTED and possible[b] > 0.0 and scores[b] > -math.inf:
                    fine = False
            if not fine:
                return t, total
        inverse_scale = 1.0 / scale
        lowest = math.inf
        for b in range(n_labels):
            now[b] *= inverse_scale
            if now[b] < lowest:
                lowest = now[b]
        if t > begin:
            for b in range(n_labels):
                inverse_predicted[t, b] = 1.0 / predicted[b] if predicted[b] > LEAST_PREDICTED else 0.0
        if lowest < TINY:
            for b in range(n_labels):
                if scores[b] == -math.inf:
                    possible[b] = 0.0
                elif now[b] < TINY and possible[b] > 0.0:
                    return t, total
        total += math.log(scale) + top
    return last, total


@njit(nogil=True, cache=True, fastmath=REORDER)
def forward_backward(first, last, offsets, node, has_forbidden, passes, log_partition, troubled, work):
    """Fill the arrays above for sequences first..last-1; troubled[s] is True outside the range of doubles.

    passes are ``ScaledPasses``, with transfer, shift and the exponentials in alpha filled, and zeros elsewhere. work
    (4, L) is overwritten.
    """
    transfer, shift = passes.transfer, passes.shift
    alpha, inverse_predicted, marginals = passes.alpha, passes.inverse_predicted, passes.marginals
    n_labels = node.shape[1]
    stride = 0 if transfer.shape[0] == 1 else 1
    predicted, gamma, reachable = work[0], work[1], work[2:]
    for s in range(first, last):
        begin, end = offsets[s], offsets[s + 1]
        reached, total = filter_positions(
            begin, end, begin, node, has_forbidden, transfer, alpha, inverse_predicted, reachable, predicted
        )
        fine = reached == end
        if fine:
            for t in range(begin + 1, end):
                total += shift[t * stride]
            for b in range(n_labels):
                marginals[end - 1, b] = alpha[end - 1, b]
            for t in range(end - 2, begin - 1, -1):
                for b in range(n_labels):
                    gamma[b] = marginals[t + 1, b] * inverse_predicted[t + 1, b]
                step = transfer[(t + 1) * stride]
                for a in range(n_labels):
                    value = 0.0
                    for b in range(n_labels):
                        value += step[a, b] * gamma[b]
                    marginals[t, a] = alpha[t, a] * value
                    if not math.isfinite(value):
                        fine = False
        log_partition[s] = total
        troubled[s] = not fine


@njit(nogil=True, cache=True, fastmath=REORDER)
def scores_below_tops(first, last, node, relative, tops):
    """Fill u_t(b) - top_t, relative (N, L), and top_t, (N,), of positions first..last-1; top_t is 0 without a label."""
    n_labels = node.shape[1]
    for t in range(first, last):
        top = -math.inf
        for b in range(n_labels):
            top = max(top, node[t, b])
        tops[t] = top if top > -math.inf else 0.0
        for b in range(n_labels):
            relative[t, b] = node[t, b] - tops[t]


@njit(**INLINED, fastmath=REORDER)
def has_underflow(t, begin, least, emission, transfer, alpha):
    """Whether a label that may be reached at position t has an entry below ``least`` in alpha."""
    n_labels = alpha.shape[1]
    step = 0 if transfer.shape[0] == 1 else t
    for b in range(n_labels):
        if alpha[t, b] < least and emission[t, b] > 0.0:
            if t == begin:
                return True
            for a in range(n_labels):
                # Where doubles do, a label that may be reached has at least this probability, and others have none.
                if alpha[t - 1, a] >= TINY and transfer[step, a, b] > 0.0:
                    return True
    return False


@njit(nogil=True, cache=True, fastmath=REORDER)
def filter_piece(first, last, begin, correcting, stride, passes, totals, work):
    """Fill alpha and 1 / c of positions first..last-1; ``begin`` starts the chain, or is ``first`` for a guess.

    The marginals of passes hold e^{u_t - top_t}. totals are sums of log scale_t, those of steps from ``first`` on. work
    (2, L) is overwritten. Entries are read one by one: for few labels, views of rows would cost more than the sums.
    """
    transfer, alpha = passes.transfer, passes.alpha
    inverse_predicted, emission = passes.inverse_predicted, passes.marginals
    n_labels = alpha.shape[1]
    predicted, old = work[0], work[1]
    tied = transfer.shape[0] == 1
    for at in range(first, last, stride):
        end = min(at + stride, last)
        for b in range(n_labels):
            old[b] = alpha[end - 1, b]
        total, product = 0.0, 1.0
        for t in range(at, end):
            if t == begin:
                for b in range(n_labels):
                    predicted[b] = 1.0
            else:
                step = 0 if tied else t
                for b in range(n_labels):
                    predicted[b] = 0.0
                for a in range(n_labels):
                    weight = alpha[t - 1, a]
                    for b in range(n_labels):
                        predicted[b] += weight * transfer[step, a, b]
                for b in range(n_labels):
                    inverse_predicted[t, b] = 1.0 / predicted[b] if predicted[b] > LEAST_PREDICTED else 0.0
            mass = 0.0
            for b in range(n_labels):
                alpha[t, b] = predicted[b] * emission[t, b]
                mass += alpha[t, b]
            if not mass > TINY:
                return TROUBLED
            inverse, lowest = 1.0 / mass, math.inf
            for b in range(n_labels):
                alpha[t, b] *= inverse
                lowest = min(lowest, alpha[t, b])
            least = max(TINY, LEAST_PREDICTED * inverse)
            if lowest < least and has_underflow(t, begin, least, emission, transfer, alpha):
                return TROUBLED
            product *= mass
            if t % 4 == 0 or product < 1e-50:  # few logarithms, of normal doubles
                total += math.log(product)
                product = 1.0
        totals[(at - first) // stride] = total + math.log(product)
        if correcting:
            same = True
            for b in range(n_labels):
                same = same and alpha[end - 1, b] == old[b]
            if same:
                return MET
    return ENDED


@njit(nogil=True, cache=True, fastmath=REORDER)
def smooth_piece(first, last, end, correcting, stride, passes, work):
    """Fill the marginals of positions last-1 down to first; ``end`` ends the chain, or is ``last`` for a guess.

    work (2, L) is overwritten.
    """
    transfer, alpha = passes.transfer, passes.alpha
    inverse_predicted, marginals = passes.inverse_predicted, passes.marginals
    n_labels = alpha.shape[1]
    tied = transfer.shape[0] == 1
    gamma, old = work[0], work[1]
    for at in range(last, first, -stride):
        begin = max(at - stride, first)
        for b in range(n_labels):
            old[b] = marginals[begin, b]
        for t in range(at - 1, begin - 1, -1):
            if t == end - 1:
                for b in range(n_labels):
                    marginals[t, b] = alpha[t, b]
                continue
            for b in range(n_labels):
                gamma[b] = marginals[t + 1, b] * inverse_predicted[t + 1, b]
            step = transfer[0 if tied else t + 1]
            total = 0.0
            for a in range(n_labels):
                value = 0.0
                for b in range(n_labels):
                    value += step[a, b] * gamma[b]
                marginals[t, a] = alpha[t, a] * value
                total += marginals[t, a]
                if not math.isfinite(value):
                    return TROUBLED
            if t % 8 == 0:
                if not total > 0.0:
                    return TROUBLED
                for a in range(n_labels):
                    marginals[t, a] /= total
        if correcting:
            same = True
            for b in range(n_labels):
                same = same and marginals[begin, b] == old[b]
            if same:
                return MET
    return ENDED


@njit(nogil=True, cache=True, fastmath=REORDER)
def score_expectations(first, last, offsets, d_node, moved, passes, past, ahead, d_marginals, work):
    """Fill past = A, ahead = du + B - E and d_marginals = dm for sequences first..last-1; moved = T * dw.

    work (4, L) is overwritten.
    """
    transfer, alpha = passes.transfer, passes.alpha
    inverse_predicted, marginals = passes.inverse_predicted, passes.marginals
    n_labels = d_node.shape[1]
    stride = 0 if transfer.shape[0] == 1 else 1
    expected, weighted, gamma = work[0], work[1], work[2]
    for s in range(first, last):
        begin, end = offsets[s], offsets[s + 1]
        for t in range(begin, end):
            step = t * stride
            for b in range(n_labels):
                expected[b] = 0.0
            if t > begin:
                for a in range(n_labels):
                    weight = alpha[t - 1, a]
                    known = weight * past[t - 1, a]
                    for b in range(n_labels):
                        expected[b] += known * transfer[step, a, b] + weight * moved[step, a, b]
            for b in range(n_labels):
                past[t, b] = d_node[t, b] + expected[b] * inverse_predicted[t, b]
        mean = 0.0
        for b in range(n_labels):
            mean += marginals[end - 1, b] * past[end - 1, b]
            expected[b] = 0.0
        for t in range(end - 1, begin - 1, -1):
            if t < end - 1:
                step = (t + 1) * stride
                for b in range(n_labels):
                    gamma[b] = marginals[t + 1, b] * inverse_predicted[t + 1, b]
                    weighted[b] = gamma[b] * (d_node[t + 1, b] + expected[b])  # B_{t+1} is used up here
                for a in range(n_labels):
                    value = 0.0
                    for b in range(n_labels):
                        value += transfer[step, a, b] * weighted[b] + moved[step, a, b] * gamma[b]
                    # 1 / future_t(a); a label of probability zero has no use for its expectation
                    expected[a] = value * alpha[t, a] / marginals[t, a] if marginals[t, a] > 0.0 else 0.0
            for b in range(n_labels):
                d_marginals[t, b] = marginals[t, b] * (past[t, b] + expected[b] - mean)
                ahead[t, b] = d_node[t, b] + expected[b] - mean
