"""Sweeps of belief propagation over ordered pairs, compiled; rho = 1 is loopy, rho of spanning trees reweighted.

For node v with parents u in pa(v) and children c (see ``pair_layout``), all in logarithms:

    B_v(x)    = node_v(x) + sum_c rho_vc up_vc(x) + sum_u rho_uv down_uv(x)
    up_uv(x)  = log sum_y exp(w_uv(x, y) / rho_uv + B_v(y) - down_uv(y))      children to parents, last node first
    down_uv(y) = log sum_x exp(w_uv(x, y) / rho_uv + B_u(x) - up_uv(x))       parents to children, first node first
    value     = sum_v (1 - sum_u rho_uv) log sum_x exp B_v(x)                 after a sweep upward

With the weights of spanning trees only roots count in the value, and it bounds log Z from above whatever the messages
downward: sum_u rho_uv (B_v - down_uv) = node_v + sum_c rho_vc up_vc, so a sweep upward splits what is known at v among
its parents, and Hölder's inequality holds at each node. It is convex in the messages downward, and its gradient in the
potentials, the messages downward held, are the marginals that ``tree_marginals`` follows from the roots down. With
rho = 1 the value is Bethe's, stationary in the messages at a fixed point. Maxima in place of log-sums bound the best
score in the same way.

Messages are kept with maximum 0, their constants added up. Sums run over exponentiated tables; an entry that would
leave the range of doubles is computed again in logarithms, so minus infinity always means forbidden.
Arrays: up, down (P, L); beliefs, marginals (N, L). Cost: O(P L^2) per sweep.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# A sum above this has lost nothing to underflow.
TINY = 1e-250
# A rise of the bound below this share of its size is rounding.
ROUNDING = 1e-13
_HALVINGS = 8
# After so many sweeps without halving the change, loopy messages are damped.
_PATIENCE = 10

_REORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=_REORDER)
def _sums(matrix, along_rows, weights, out):
    """out = weights @ matrix, or matrix @ weights where not along_rows."""
    size = weights.shape[0]
    if along_rows:
        for b in range(size):
            out[b] = 0.0
        for a in range(size):
            weight, row = weights[a], matrix[a]
            for b in range(size):
                out[b] += weight * row[b]
    else:
        for a in range(size):
            total, row = 0.0, matrix[a]
            for b in range(size):
                total += row[b] * weights[b]
            out[a] = total


@njit(nogil=True, cache=True)
def _log_sum(matrix, along_rows, column, power, values):
    """log sum_x exp(power matrix[x, column] + values[x]); the maximum where power is negative, standing for it."""
    top = -np.inf
    for x in range(len(values)):
        entry = matrix[x, column] if along_rows else matrix[column, x]
        top = max(top, abs(power) * entry + values[x])
    if top == -np.inf or power < 0.0:
        return top
    total = 0.0
    for x in range(len(values)):
        entry = matrix[x, column] if along_rows else matrix[column, x]
        total += np.exp(power * entry + values[x] - top)
    return top + np.log(total)


@njit(nogil=True, cache=True)
def _send(tables, e, rho, upward, maximise, values, weights, out):
    """Fill out with the message of the log weights ``values`` over pair e, maximum 0; return what was taken off."""
    size = len(values)
    top = -np.inf
    for x in range(size):
        top = max(top, values[x])
    if top == -np.inf:
        for x in range(size):
            out[x] = -np.inf
        return -np.inf
    # Summing over the child, the second axis of a table that is not flipped, means along its columns.
    along_rows = tables.flipped[e] == upward
    logs = tables.logs[tables.log_of[e]]
    for x in range(size):
        values[x] -= top
    if maximise:
        for x in range(size):
            out[x] = _log_sum(logs, along_rows, x, -1.0 / rho, values)
    else:
        for x in range(size):
            weights[x] = np.exp(values[x])
        which = tables.exp_of[e]
        _sums(tables.exps[which], along_rows, weights, out)
        shift = tables.shift[which]
        for x in range(size):
            if out[x] > TINY:
                out[x] = np.log(out[x]) + shift
            else:
                out[x] = _log_sum(logs, along_rows, x, 1.0 / rho, values)
    peak = -np.inf
    for x in range(size):
        peak = max(peak, out[x])
    if peak > -np.inf:
        for x in range(size):
            out[x] -= peak
    return top + peak


@njit(nogil=True, cache=True)
def _gather(graph, v, node, up, down, belief):
    """belief = B_v; return its maximum."""
    size = len(belief)
    for x in range(size):
        belief[x] = node[v, x]
    for e in range(graph.up_start[v], graph.up_start[v + 1]):
        rho = graph.rho[e]
        for x in range(size):
            belief[x] += rho * down[e, x]
    for k in range(graph.down_start[v], graph.down_start[v + 1]):
        e = graph.down[k]
        rho = graph.rho[e]
        for x in range(size):
            belief[x] += rho * up[e, x]
    top = -np.inf
    for x in range(size):
        top = max(top, belief[x])
    return top


@njit(nogil=True, cache=True)
def _exclude(belief, message, out):
    """out = belief - message; a label that is known to be impossible stays so."""
    for x in range(len(belief)):
        out[x] = belief[x] - message[x] if belief[x] > -np.inf else -np.inf


@njit(nogil=True, cache=True)
def _sweep_up(graph, g, tables, maximise, node, up, down, beliefs, marginals):
    """Renew messages upward, beliefs and their softmax in graph g; return the value, -inf if it is infeasible."""
    size = node.shape[1]
    cavity, weights = np.empty(size), np.empty(size)
    total, dropped = 0.0, 0.0
    for k in range(graph.offsets[g + 1] - 1, graph.offsets[g] - 1, -1):
        v = graph.order[k]
        belief = beliefs[v]
        top = _gather(graph, v, node, up, down, belief)
        if top == -np.inf:
            return -np.inf
        mass = 0.0
        for x in range(size):
            marginals[v, x] = np.exp(belief[x] - top)
            mass += marginals[v, x]
        share = 1.0
        local = 0.0
        for x in range(size):
            marginals[v, x] /= mass
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            share -= graph.rho[e]
            _exclude(belief, down[e], cavity)
            constant = _send(tables, e, graph.rho[e], True, maximise, cavity, weights, up[e])
            if constant == -np.inf:
                return -np.inf
            local += graph.rho[e] * constant
        if abs(share) > 1e-9:
            local += share * (top if maximise else top + np.log(mass))
        # Summed with a correction for what rounding drops: the value is compared from sweep to sweep.
        moved = total + local
        dropped += (total - moved) + local if abs(total) >= abs(local) else (local - moved) + total
        total = moved
    return total + dropped


@njit(nogil=True, cache=True)
def _sweep_down(graph, g, tables, maximise, damping, node, up, down, marginals):
    """Renew messages downward in graph g; return the largest change of a node's softmax."""
    size = node.shape[1]
    belief, cavity, weights, fresh = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    change = 0.0
    for k in range(graph.offsets[g], graph.offsets[g + 1]):
        v = graph.order[k]
        top = _gather(graph, v, node, up, down, belief)
        if top == -np.inf:
            return np.inf
        mass = 0.0
        for x in range(size):
            weights[x] = np.exp(belief[x] - top)
            mass += weights[x]
        for x in range(size):
            change = max(change, abs(weights[x] / mass - marginals[v, x]))
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = graph.down[j]
            _exclude(belief, up[e], cavity)
            _send(tables, e, graph.rho[e], False, maximise, cavity, weights, fresh)
            for x in range(size):
                if damping > 0.0 and fresh[x] > -np.inf and down[e, x] > -np.inf:
                    fresh[x] += damping * (down[e, x] - fresh[x])
                down[e, x] = fresh[x]
    return change


@njit(nogil=True, cache=True)
def _copy_messages(graph, g, source, target, share):
    """target += share (source - target) on the pairs of graph g; an infinite entry is taken over."""
    for v in range(graph.offsets[g], graph.offsets[g + 1]):
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            for x in range(source.shape[1]):
                if share == 1.0 or source[e, x] == -np.inf or target[e, x] == -np.inf:
                    target[e, x] = source[e, x]
                else:
                    target[e, x] += share * (source[e, x] - target[e, x])


@njit(nogil=True, cache=True)
def propagate(
    first, last, graph, tables, bounded, tolerance, damping, max_iter, node, up, down, saved, beliefs, marginals, report
):
    """Sweep graphs first..last-1 until marginals rest; report (S, 4) gets value, sweeps, change, converged.

    ``bounded``: rho are those of spanning trees, and a sweep that raises the bound is drawn back towards the last one.
    Otherwise damping sets in where the changes do not shrink.
    """
    for g in range(first, last):
        value = _sweep_up(graph, g, tables, False, node, up, down, beliefs, marginals)
        change, converged, sweeps = np.inf, False, 0
        kept = damping if bounded else 0.0
        milestone = np.inf
        while value > -np.inf and not converged and sweeps < max_iter:
            if bounded:
                _copy_messages(graph, g, down, saved, 1.0)
            sweeps += 1
            change = _sweep_down(graph, g, tables, False, kept, node, up, down, marginals) / (1.0 - kept)
            fresh = _sweep_up(graph, g, tables, False, node, up, down, beliefs, marginals)
            if bounded:
                slack = ROUNDING * (1.0 + abs(value)) * (graph.offsets[g + 1] - graph.offsets[g])
                halvings = 0
                while fresh > value + slack and halvings < _HALVINGS:
                    halvings += 1
                    _copy_messages(graph, g, saved, down, 0.5 if halvings < _HALVINGS else 1.0)
                    fresh = _sweep_up(graph, g, tables, False, node, up, down, beliefs, marginals)
                converged = change <= tolerance
                if halvings == _HALVINGS:
                    value = fresh
                    break
            else:
                converged = change <= tolerance
                if sweeps % _PATIENCE == 0:
                    if change > 0.5 * milestone:
                        kept = damping
                    milestone = change
            value = fresh
            if graph.forest[g]:
                change, converged = 0.0, True
        report[g, 0] = value
        report[g, 1] = sweeps
        report[g, 2] = change
        report[g, 3] = converged


@njit(nogil=True, cache=True)
def _follow(tables, e, rho, x, cavity, out):
    """out(y) = p(y at the child | x at the parent), zero where x is impossible."""
    size = len(cavity)
    logs = tables.logs[tables.log_of[e]]
    turned = tables.flipped[e]
    top = -np.inf
    for y in range(size):
        out[y] = (logs[y, x] if turned else logs[x, y]) / rho + cavity[y]
        top = max(top, out[y])
    total = 0.0
    for y in range(size):
        out[y] = np.exp(out[y] - top) if top > -np.inf else 0.0
        total += out[y]
    if total > 0.0:
        for y in range(size):
            out[y] /= total


@njit(nogil=True, cache=True)
def tree_marginals(first, last, graph, tables, down, beliefs, marginals):
    """Replace the marginals of all nodes but roots by averages over their parents: the gradient of the bound."""
    size = beliefs.shape[1]
    cavity, chance = np.empty(size), np.empty(size)
    for g in range(first, last):
        for k in range(graph.offsets[g], graph.offsets[g + 1]):
            v = graph.order[k]
            if graph.up_start[v] == graph.up_start[v + 1]:
                continue
            for y in range(size):
                marginals[v, y] = 0.0
            for e in range(graph.up_start[v], graph.up_start[v + 1]):
                u, rho = graph.parent[e], graph.rho[e]
                _exclude(beliefs[v], down[e], cavity)
                for x in range(size):
                    if marginals[u, x] > 0.0:
                        _follow(tables, e, rho, x, cavity, chance)
                        for y in range(size):
                            marginals[v, y] += rho * marginals[u, x] * chance[y]


@njit(nogil=True, cache=True)
def pair_marginals(first, last, pair_of, turned, graph, tables, down, beliefs, marginals, weights, tied, out):
    """Fill out[j] with the marginals of factor j, or add all to out[0], weighted by factor, where tied."""
    size = beliefs.shape[1]
    cavity, chance = np.empty(size), np.empty(size)
    for j in range(first, last):
        e = pair_of[j]
        u, v = graph.parent[e], graph.child[e]
        row = out[0 if tied else j]
        _exclude(beliefs[v], down[e], cavity)
        for x in range(size):
            mass = marginals[u, x]
            if mass == 0.0:
                continue
            if tied and len(weights) > 0:
                mass *= weights[j]
            _follow(tables, e, graph.rho[e], x, cavity, chance)
            for y in range(size):
                if turned[j]:
                    row[y, x] += mass * chance[y]
                else:
                    row[x, y] += mass * chance[y]


@njit(nogil=True, cache=True)
def _round(graph, g, tables, node, up, labels):
    """Label graph g node by node, given the labels of parents and what children say; return the score."""
    size = node.shape[1]
    given, ahead = np.empty(size), np.empty(size)
    score = 0.0
    for k in range(graph.offsets[g], graph.offsets[g + 1]):
        v = graph.order[k]
        for x in range(size):
            given[x] = node[v, x]
            ahead[x] = 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            logs, y = tables.logs[tables.log_of[e]], labels[graph.parent[e]]
            for x in range(size):
                given[x] += logs[x, y] if tables.flipped[e] else logs[y, x]
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = graph.down[j]
            for x in range(size):
                ahead[x] += graph.rho[e] * up[e, x]
        best = 0
        for x in range(1, size):
            if given[x] + ahead[x] > given[best] + ahead[best]:
                best = x
        labels[v] = best
        score += given[best]
    return score


@njit(nogil=True, cache=True)
def best_labels(
    first, last, graph, tables, tolerance, max_iter, node, up, down, saved, beliefs, marginals, trial, labels, report
):
    """Label graphs first..last-1 by max-product sweeps; report (S, 2) gets score and bound on the best score."""
    for g in range(first, last):
        rows = slice(graph.offsets[g], graph.offsets[g + 1])
        bound = _sweep_up(graph, g, tables, True, node, up, down, beliefs, marginals)
        score, sweeps, idle = -np.inf, 0, 0
        labels[rows] = 0
        while bound > -np.inf:
            reached = _round(graph, g, tables, node, up, trial)
            if reached > score or sweeps == 0:
                score = reached
                labels[rows] = trial[rows]
            slack = ROUNDING * (1.0 + abs(bound)) * (graph.offsets[g + 1] - graph.offsets[g])
            if graph.forest[g] or score >= bound - slack or sweeps >= max_iter or idle >= 5:
                break
            sweeps += 1
            _copy_messages(graph, g, down, saved, 1.0)
            _sweep_down(graph, g, tables, True, 0.0, node, up, down, marginals)
            fresh = _sweep_up(graph, g, tables, True, node, up, down, beliefs, marginals)
            halvings = 0
            while fresh > bound + slack and halvings < _HALVINGS:
                halvings += 1
                _copy_messages(graph, g, saved, down, 0.5 if halvings < _HALVINGS else 1.0)
                fresh = _sweep_up(graph, g, tables, True, node, up, down, beliefs, marginals)
            idle = idle + 1 if bound - fresh < tolerance * (1.0 + abs(bound)) else 0
            bound = min(bound, fresh)
        report[g, 0] = score
        report[g, 1] = bound
