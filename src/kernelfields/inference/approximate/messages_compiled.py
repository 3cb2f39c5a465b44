"""Belief propagation over ordered pairs, compiled: messages, sweeps, marginals and labellings.

For node v with parents u in pa(v) and children c (see pair_graph.py), all in logarithms:

    B_v(x)     = node_v(x) + sum_c rho_vc up_vc(x) + sum_u rho_uv down_uv(x)
    up_uv(x)   = log sum_y exp(w_uv(x, y) / rho_uv + B_v(y) - down_uv(y))     children to parents, last node first
    down_uv(y) = log sum_x exp(w_uv(x, y) / rho_uv + B_u(x) - up_uv(x))       parents to children, first node first
    value      = sum_v (1 - sum_u rho_uv) log sum_x exp B_v(x)                after a sweep upward

rho = 1 is loopy belief propagation: the value is Bethe's, stationary in the messages at a fixed point. With rho of
spanning trees (reweighted) only roots count in the value, and it bounds log Z from above whatever the messages
downward: sum_u rho_uv (B_v - down_uv) = node_v + sum_c rho_vc up_vc, so a sweep upward splits what is known at v
among its parents, and Hölder's inequality holds at each node. The value is convex in the messages downward.
Maxima in place of log-sums bound the best score. Marginals follow from the messages:

    p_uv(y | x)  proportional to exp(w_uv(x, y) / rho_uv + B_v(y) - down_uv(y))      child v given its parent u
    m_v(y)       = sum_{u in pa(v)} rho_uv sum_x m_u(x) p_uv(y | x)                trees; softmax of B_v at roots
    X_uv(x, y)   = m_u(x) p_uv(y | x)

With the weights of spanning trees (m, X) is the gradient of the bound in the potentials while the messages
downward are held; loopy beliefs use the softmax of B_v as m_v.

A message is the log-sum of the sender's belief without what the receiver said, times the exponentiated table. The
division is done on probabilities, which saves an exponential per label; where a number would leave the range of
doubles the message, or the entry, is computed in logarithms, so that minus infinity always means forbidden.
Messages are kept with maximum 0, their constants added up.

Arrays: node (N, L); graph, tables and messages are ``PairGraph``, ``PairTables`` and ``Messages`` of
pair_graph.py. Cost: O(L^2) multiplications and L logarithms per message, O(P L^2) per sweep over P pairs and for
their marginals. A sweep upward returns minus infinity for a graph in which a node has no label left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.inference.pair_graph import DOWN, UP
from kernelfields.inference.sums_compiled import collect, copy_row
from kernelfields.numerics.compiled import INLINED, njit

# A sum above this has lost nothing to underflow.
TINY = 1e-250
# Probabilities above this can be divided by each other.
SMALL = 1e-100
# A rise of the bound below this share of its size and of the number of nodes is rounding.
ROUNDING = 1e-13
# A sweep that raises the bound is drawn back by half, so many times before it is given up.
HALVINGS = 8
# After so many sweeps without halving the change, loopy messages are damped.
PATIENCE = 10
# Max-product sweeps end after so many that hardly lower the bound.
_IDLE = 5

# Small functions are inlined: passing their arrays would cost more than their work.
_INLINE: Any = {"nogil": True, "cache": True, "error_model": "numpy", "inline": "always"}


@njit(nogil=True, cache=True)
def _maxima(matrix, along_rows, power, values, out):
    """Fill out(y) with max_x power matrix[x, y] + values[x]; with matrix[y, x] unless ``along_rows``."""
    size = len(values)
    if along_rows:
        for b in range(size):
            out[b] = -np.inf
        for a in range(size):
            value, row = values[a], matrix[a]
            for b in range(size):
                entry = power * row[b] + value
                out[b] = entry if entry > out[b] else out[b]
    else:
        for a in range(size):
            top, row = -np.inf, matrix[a]
            for b in range(size):
                entry = power * row[b] + values[b]
                top = entry if entry > top else top
            out[a] = top


@njit(nogil=True, cache=True)
def _log_sum(matrix, along_rows, column, power, values):
    """Return log sum_x exp(power matrix[x, column] + values[x])."""
    top = -np.inf
    for x in range(len(values)):
        entry = matrix[x, column] if along_rows else matrix[column, x]
        top = max(top, power * entry + values[x])
    if top == -np.inf:
        return top
    total = 0.0
    for x in range(len(values)):
        entry = matrix[x, column] if along_rows else matrix[column, x]
        total += np.exp(power * entry + values[x] - top)
    return top + np.log(total)


@njit(**_INLINE)
def exclude(belief, message, out):
    """Fill out with belief - message, -inf for impossible labels; return the maximum."""
    top = -np.inf
    for x in range(len(belief)):
        out[x] = belief[x] - message[x] if belief[x] > -np.inf else -np.inf
        top = max(top, out[x])
    return top


@njit(nogil=True, cache=True)
def _send_logarithms(graph, tables, e, to_parent, maximise, belief, pairs, cavity):
    """Renew a message as ``send`` does, in logarithms; return the subtracted constant, -inf if all is impossible."""
    logs, power = tables.logs[tables.source[e, 0]], 1.0 / graph.rho[e]
    along_rows = (tables.source[e, 2] == 1) == to_parent
    sent, replied = (UP, DOWN) if to_parent else (DOWN, UP)
    out, linear = pairs[e, sent], pairs[e, sent + 1]
    top = exclude(belief, pairs[e, replied], cavity)
    if maximise:
        _maxima(logs, along_rows, power, cavity, out)
    peak = -np.inf
    for x in range(len(out)):
        if not maximise:
            out[x] = _log_sum(logs, along_rows, x, power, cavity)
        peak = max(peak, out[x])
    if top == -np.inf or peak == -np.inf:
        return -np.inf
    for x in range(len(out)):
        out[x] -= peak
        if not maximise:
            linear[x] = np.exp(out[x])
    return peak


@njit(**_INLINE)
def send(source, exps, e, to_parent, belief, chances, pairs, weights):
    """Renew the message over pair e, to the parent or to the child; return its divisor, beside the shift.

    That is 0 where numbers would leave the range of doubles: then ``_send_logarithms`` is to be called. belief, with
    the softmax chances, is the sender's, pairs (P, 4, L) are all messages, weights (L,) is room, ``source`` and
    ``exps`` are those of the tables. No tuple of arrays comes in, and entries are read one by one: numba counts
    references to all arrays of a tuple and to views, which takes longer than the rest.
    """
    table, along_rows = source[e, 1], (source[e, 2] == 1) == to_parent
    sent, replied = (UP, DOWN) if to_parent else (DOWN, UP)
    size = len(belief)
    for x in range(size):
        reply = pairs[e, replied + 1, x]
        if belief[x] == -np.inf:
            weights[x] = 0.0
        elif chances[x] < SMALL or reply < SMALL:
            return 0.0
        else:
            weights[x] = chances[x] / reply
    peak, least = 0.0, np.inf
    for y in range(size):
        total = 0.0
        if along_rows:
            for x in range(size):
                total += exps[table, x, y] * weights[x]
        else:
            for x in range(size):
                total += exps[table, y, x] * weights[x]
        pairs[e, sent + 1, y] = total
        peak, least = max(peak, total), min(least, total)
    if least <= TINY:
        return 0.0
    inverse = 1.0 / peak
    for x in range(size):
        entry = pairs[e, sent + 1, x]
        pairs[e, sent + 1, x] = entry * inverse
        pairs[e, sent, x] = 0.0 if entry == peak else np.log(entry * inverse)
    return peak


@njit(**_INLINE)
def gather(graph, v, maximise, node, pairs, belief, chances):
    """Fill belief = B_v and chances = its softmax; return (maximum, log-sum), -inf without a possible label.

    With ``maximise`` nobody reads the softmax, and it is left.
    """
    size = len(belief)
    for x in range(size):
        belief[x] = node[v, x]
    for e in range(graph.up_start[v], graph.up_start[v + 1]):
        rho = graph.rho[e]
        for x in range(size):
            belief[x] += rho * pairs[e, DOWN, x]
    for k in range(graph.down_start[v], graph.down_start[v + 1]):
        e = graph.down[k]
        rho = graph.rho[e]
        for x in range(size):
            belief[x] += rho * pairs[e, UP, x]
    top = -np.inf
    for x in range(size):
        top = max(top, belief[x])
    if top == -np.inf or maximise:
        return top, top
    mass = 0.0
    for x in range(size):
        chances[x] = np.exp(belief[x] - top)
        mass += chances[x]
    for x in range(size):
        chances[x] /= mass
    return top, top + np.log(mass)


@njit(nogil=True, cache=True)
def _mix(message, linear, x, other, share):
    """Move entry x of a message by a share towards another value; infinite values stay unchanged."""
    if message[x] > -np.inf and other > -np.inf:
        message[x] += share * (other - message[x])
        linear[x] = np.exp(message[x])


@njit(nogil=True, cache=True)
def copy_messages(first, last, graph, back, pairs, saved):
    """Save the downward messages to nodes at positions first..last-1, or restore them if ``back``."""
    for i in range(first, last):
        v = graph.order[i]
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            for x in range(saved.shape[2]):
                for k in range(2):
                    if back:
                        pairs[e, DOWN + k, x] = saved[e, k, x]
                    else:
                        saved[e, k, x] = pairs[e, DOWN + k, x]


@njit(nogil=True, cache=True)
def halve_changes(first, last, graph, pairs, saved):
    """Move the downward messages half the way back to the saved messages."""
    for k in range(first, last):
        v = graph.order[k]
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            for x in range(saved.shape[2]):
                _mix(pairs[e, DOWN], pairs[e, DOWN + 1], x, saved[e, 0, x], 0.5)


@njit(**INLINED)
def up_range(first, last, graph, tables, maximise, node, messages):
    """Renew the upward messages, beliefs and softmax of nodes at positions first..last-1.

    Return their share of the value, -inf where a node has no label left. The sum is corrected for rounding: values
    are compared from sweep to sweep.
    """
    pairs, beliefs, chances = messages.pairs, messages.beliefs, messages.chances
    source, exps, shift, rhos = tables.source, tables.exps, tables.shift, graph.rho
    scratch, sums = np.empty(node.shape[1]), np.zeros(2)
    for k in range(last - 1, first - 1, -1):
        v = graph.order[k]
        belief, chance = beliefs[v], chances[v]
        top, offset = gather(graph, v, maximise, node, pairs, belief, chance)
        if top == -np.inf:
            return -np.inf
        share, local, product, rho = 1.0, 0.0, 1.0, 1.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            rho = rhos[e]  # the same for all parents of a node
            share -= rho
            factor = 0.0 if maximise else send(source, exps, e, True, belief, chance, pairs, scratch)
            if factor == 0.0:
                constant = _send_logarithms(graph, tables, e, True, maximise, belief, pairs, scratch)
                if constant == -np.inf:
                    return -np.inf
                local += rho * constant
                continue
            local += rho * (offset + shift[source[e, 1]])
            product *= factor  # one logarithm for many factors
            if not SMALL < product < 1.0 / SMALL:
                local += rho * np.log(product)
                product = 1.0
        local += rho * np.log(product)
        if abs(share) > 1e-9:
            local += share * offset
        collect(local, sums)
    return sums[0] + sums[1]


@njit(**INLINED)
def down_range(first, last, graph, tables, maximise, damping, node, messages):
    """Renew the downward messages of nodes at positions first..last-1; return the largest change of their softmax."""
    pairs, chances, children = messages.pairs, messages.chances, graph.down
    source, exps, size = tables.source, tables.exps, node.shape[1]
    belief, chance, before = np.empty(size), np.zeros(size), np.empty(size)
    scratch, change = np.empty(size), 0.0
    for k in range(first, last):
        v = graph.order[k]
        top, _ = gather(graph, v, maximise, node, pairs, belief, chance)
        if top == -np.inf:
            return np.inf
        for x in range(size):
            change = max(change, abs(chance[x] - chances[v, x]))
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = children[j]
            if damping > 0.0:
                for x in range(size):
                    before[x] = pairs[e, DOWN, x]
            if maximise or send(source, exps, e, False, belief, chance, pairs, scratch) == 0.0:
                _send_logarithms(graph, tables, e, False, maximise, belief, pairs, scratch)
            if damping > 0.0:
                for x in range(size):
                    _mix(pairs[e, DOWN], pairs[e, DOWN + 1], x, before[x], damping)
    return change


@njit(**INLINED)
def descend(graph, g, tables, maximise, damping, node, messages, value):
    """Sweep down and up without a rise of the bound; return the bound, the change, and whether it moved.

    The bound is convex in the messages downward: a sweep that raises it has gone too far and is halved.
    """
    pairs, saved = messages.pairs, messages.saved
    first, last = graph.offsets[g], graph.offsets[g + 1]
    copy_messages(first, last, graph, False, pairs, saved)
    change = down_range(first, last, graph, tables, maximise, damping, node, messages)
    fresh = up_range(first, last, graph, tables, maximise, node, messages)
    slack = ROUNDING * (1.0 + abs(value)) * (last - first)
    halvings = 0
    while fresh > value + slack and halvings < HALVINGS:
        halvings += 1
        if halvings == HALVINGS:
            copy_messages(first, last, graph, True, pairs, saved)
        else:
            halve_changes(first, last, graph, pairs, saved)
        fresh = up_range(first, last, graph, tables, maximise, node, messages)
    return fresh, change, halvings < HALVINGS


@njit(nogil=True, cache=True)
def propagate(first, last, graph, tables, bounded, tolerance, damping, max_iter, node, messages, report):
    """Sweep graphs first..last-1 until marginals converge; report (S, 4) gets value, sweeps, change, converged.

    ``bounded``: rho are those of spanning trees, and the value never rises. Otherwise damping sets in where the
    changes do not shrink.
    """
    maximise = np.bool_(False)  # not a literal: all functions below would be compiled once more for each of its values
    for g in range(first, last):
        begin, end = graph.offsets[g], graph.offsets[g + 1]
        value = up_range(begin, end, graph, tables, maximise, node, messages)
        change, converged, sweeps, moved = np.inf, False, 0, True
        kept, milestone = damping if bounded else 0.0, np.inf
        while value > -np.inf and moved and not converged and sweeps < max_iter:
            sweeps += 1
            if bounded:
                value, change, moved = descend(graph, g, tables, maximise, kept, node, messages, value)
            else:
                change = down_range(begin, end, graph, tables, maximise, kept, node, messages)
                value = up_range(begin, end, graph, tables, maximise, node, messages)
            change /= 1.0 - kept
            if graph.forest[g]:
                change = 0.0
            converged = change <= tolerance
            if not bounded and sweeps % PATIENCE == 0:
                if change > 0.5 * milestone:
                    kept = damping
                milestone = change
        report[g, 0] = value
        report[g, 1] = sweeps
        report[g, 2] = change
        report[g, 3] = converged


@njit(nogil=True, cache=True)
def _follow_logarithms(graph, tables, e, belief, pairs, cavity, out):
    """Fill out with conditional probabilities, as ``_follow`` does, in logarithms."""
    logs, turned, rho = tables.logs[tables.source[e, 0]], tables.source[e, 2] == 1, graph.rho[e]
    exclude(belief, pairs[e, DOWN], cavity)
    size = len(cavity)
    for x in range(size):
        top, total = -np.inf, 0.0
        for y in range(size):
            out[x, y] = (logs[y, x] if turned else logs[x, y]) / rho + cavity[y]
            top = max(top, out[x, y])
        for y in range(size):
            out[x, y] = np.exp(out[x, y] - top) if top > -np.inf else 0.0
            total += out[x, y]
        if total > 0.0:
            for y in range(size):
                out[x, y] /= total


@njit(**_INLINE)
def _follow(source, exps, e, v, chances, pairs, weights, out):
    """Fill out(x, y) = p(y at the child v | x at the parent), 0 for impossible x; False if logarithms are needed.

    Arrays come in by themselves, as in ``send``.
    """
    table, turned, size = source[e, 1], source[e, 2] == 1, len(weights)
    for y in range(size):
        reply = pairs[e, DOWN + 1, y]
        if chances[v, y] < SMALL or reply < SMALL:
            return False
        weights[y] = chances[v, y] / reply
    for x in range(size):
        total = 0.0
        for y in range(size):
            out[x, y] = weights[y] * (exps[table, y, x] if turned else exps[table, x, y])
            total += out[x, y]
        if total <= TINY:
            return False
        for y in range(size):
            out[x, y] /= total
    return True


@njit(nogil=True, cache=True)
def tree_marginals(first, last, graph, tables, messages, marginals):
    """Fill the marginals of nodes at positions first..last-1 with averages over the labels of their parents.

    Those of roots are the softmax of their beliefs. The result is the gradient of the bound.
    """
    pairs, chances, beliefs = messages.pairs, messages.chances, messages.beliefs
    source, exps, rhos, parents = tables.source, tables.exps, graph.rho, graph.parent
    size = chances.shape[1]
    weights, shares = np.empty(size), np.empty((size, size))
    for k in range(first, last):
        v = graph.order[k]
        root = graph.up_start[v] == graph.up_start[v + 1]
        for y in range(size):
            marginals[v, y] = chances[v, y] if root else 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            u, rho = parents[e], rhos[e]
            if not _follow(source, exps, e, v, chances, pairs, weights, shares):
                _follow_logarithms(graph, tables, e, beliefs[v], pairs, weights, shares)
            for x in range(size):
                mass = rho * marginals[u, x]
                for y in range(size):
                    marginals[v, y] += mass * shares[x, y]


@njit(nogil=True, cache=True)
def pair_marginals(first, last, factors, graph, tables, messages, marginals, weights, tied, out):
    """Fill out[j] with the marginals of factor j, or add all to out[0], weighted by factor, if tied.

    factors are the ``GroupPairs`` of the group; without weights, (0,), all count the same.
    """
    pairs, chances, beliefs = messages.pairs, messages.chances, messages.beliefs
    source, exps, parents, children = tables.source, tables.exps, graph.parent, graph.child
    pair, turned = factors.pair, factors.turned
    size = chances.shape[1]
    room, shares = np.empty(size), np.empty((size, size))
    for j in range(first, last):
        e = pair[j]
        u, v, row = parents[e], children[e], 0 if tied else j
        if not _follow(source, exps, e, v, chances, pairs, room, shares):
            _follow_logarithms(graph, tables, e, beliefs[v], pairs, room, shares)
        for x in range(size):
            mass = marginals[u, x]
            if tied and len(weights) > 0:
                mass *= weights[j]
            for y in range(size):
                if turned[j]:
                    out[row, y, x] += mass * shares[x, y]
                else:
                    out[row, x, y] += mass * shares[x, y]


@njit(nogil=True, cache=True)
def label_range(first, last, graph, tables, node, pairs, labels):
    """Label nodes at positions first..last-1 given their parents and the messages of children; return their score."""
    size = node.shape[1]
    local, ahead = np.empty(size), np.empty(size)
    score = 0.0
    for k in range(first, last):
        v = graph.order[k]
        for x in range(size):
            local[x] = node[v, x]
            ahead[x] = 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            source, y = tables.source[e], labels[graph.parent[e]]
            logs = tables.logs[source[0]]
            for x in range(size):
                local[x] += logs[x, y] if source[2] else logs[y, x]
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = graph.down[j]
            for x in range(size):
                ahead[x] += graph.rho[e] * pairs[e, UP, x]
        best = 0
        for x in range(1, size):
            if local[x] + ahead[x] > local[best] + ahead[best]:
                best = x
        labels[v] = best
        score += local[best]
    return score


@njit(nogil=True, cache=True)
def best_labels(first, last, graph, tables, tolerance, max_iter, node, messages, trial, labels, bounds):
    """Label graphs first..last-1 by max-product sweeps; bounds (S,) are upper bounds of the best scores."""
    maximise = np.bool_(True)  # not a literal, as in ``propagate``
    for g in range(first, last):
        begin, end = graph.offsets[g], graph.offsets[g + 1]
        rows = slice(begin, end)
        bound = up_range(begin, end, graph, tables, maximise, node, messages)
        score, sweeps, idle, moved = -np.inf, 0, 0, True
        labels[rows] = 0
        while bound > -np.inf:
            reached = label_range(begin, end, graph, tables, node, messages.pairs, trial)
            if reached > score or sweeps == 0:
                score = reached
                copy_row(trial[rows], labels[rows])
            slack = ROUNDING * (1.0 + abs(bound)) * (end - begin)
            if graph.forest[g] or score >= bound - slack or sweeps >= max_iter or idle >= _IDLE or not moved:
                break
            sweeps += 1
            fresh, _, moved = descend(graph, g, tables, maximise, 0.0, node, messages, bound)
            idle = idle + 1 if bound - fresh < tolerance * (1.0 + abs(bound)) else 0
            bound = fresh
        bounds[g] = bound
