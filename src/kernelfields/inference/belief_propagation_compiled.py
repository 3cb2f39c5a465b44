"""Sweeps of belief propagation over ordered pairs, compiled; rho = 1 is loopy, rho of spanning trees reweighted.

For node v with parents u in pa(v) and children c (see ``pair_layout``), all in logarithms:

    B_v(x)     = node_v(x) + sum_c rho_vc up_vc(x) + sum_u rho_uv down_uv(x)
    up_uv(x)   = log sum_y exp(w_uv(x, y) / rho_uv + B_v(y) - down_uv(y))     children to parents, last node first
    down_uv(y) = log sum_x exp(w_uv(x, y) / rho_uv + B_u(x) - up_uv(x))       parents to children, first node first
    value      = sum_v (1 - sum_u rho_uv) log sum_x exp B_v(x)                after a sweep upward

With the weights of spanning trees only roots count in the value, and it bounds log Z from above whatever the
messages downward: sum_u rho_uv (B_v - down_uv) = node_v + sum_c rho_vc up_vc, so a sweep upward splits what is
known at v among its parents, and Hölder's inequality holds at each node. The value is convex in the messages
downward. Its gradient in the potentials, these messages held, are the marginals of ``belief_readout``. Where rho
is 1 it is Bethe's, stationary in the messages at a fixed point. Maxima in place of log-sums bound the best score.

Messages are kept with maximum 0, their constants added up. Arrays: up, down (2, P, L), logarithms and their
exponentials; beliefs, chances (N, L). Cost: O(P L^2) per sweep.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kernelfields.inference.belief_messages import gather, send

# A rise of the bound below this share of its size and of the number of nodes is rounding.
ROUNDING = 1e-13
# A sweep that raises the bound is drawn back by half, so many times before it is given up.
HALVINGS = 8
# After so many sweeps without halving the change, loopy messages are damped.
_PATIENCE = 10


@njit(nogil=True, cache=True)
def sweep_up(graph, g, tables, maximise, node, up, down, beliefs, chances):
    """Renew messages upward, beliefs and their softmax in graph g; return the value, -inf if it is infeasible."""
    size = node.shape[1]
    cavity, weights = np.empty(size), np.empty(size)
    total, dropped = 0.0, 0.0
    for k in range(graph.offsets[g + 1] - 1, graph.offsets[g] - 1, -1):
        v = graph.order[k]
        belief, chance = beliefs[v], chances[v]
        top, offset = gather(graph, v, node, up[0], down[0], belief, chance)
        if top == -np.inf:
            return -np.inf
        share, local = 1.0, 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            rho = graph.rho[e]
            share -= rho
            constant = send(
                tables.logs[tables.log_of[e]],
                tables.exps[tables.exp_of[e]],
                tables.shift[tables.exp_of[e]],
                rho,
                tables.flipped[e],
                maximise,
                belief,
                chance,
                offset,
                down[0, e],
                down[1, e],
                cavity,
                weights,
                up[0, e],
                up[1, e],
            )
            if constant == -np.inf:
                return -np.inf
            local += rho * constant
        if abs(share) > 1e-9:
            local += share * (top if maximise else offset)
        # Summed with a correction for what rounding drops: the value is compared from sweep to sweep.
        moved = total + local
        dropped += (total - moved) + local if abs(total) >= abs(local) else (local - moved) + total
        total = moved
    return total + dropped


@njit(nogil=True, cache=True)
def sweep_down(graph, g, tables, maximise, damping, node, up, down, chances):
    """Renew messages downward in graph g; return the largest change of a node's softmax."""
    size = node.shape[1]
    belief, chance, cavity, weights = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    before = np.empty(size)
    change = 0.0
    for k in range(graph.offsets[g], graph.offsets[g + 1]):
        v = graph.order[k]
        top, offset = gather(graph, v, node, up[0], down[0], belief, chance)
        if top == -np.inf:
            return np.inf
        for x in range(size):
            change = max(change, abs(chance[x] - chances[v, x]))
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = graph.down[j]
            message, linear = down[0, e], down[1, e]
            for x in range(size):
                before[x] = message[x]
            send(
                tables.logs[tables.log_of[e]],
                tables.exps[tables.exp_of[e]],
                tables.shift[tables.exp_of[e]],
                graph.rho[e],
                not tables.flipped[e],
                maximise,
                belief,
                chance,
                offset,
                up[0, e],
                up[1, e],
                cavity,
                weights,
                message,
                linear,
            )
            if damping > 0.0:
                for x in range(size):
                    _mix(message, linear, x, before[x], damping)
    return change


@njit(nogil=True, cache=True)
def _mix(message, linear, x, other, share):
    """Move entry x of a message by a share towards another value; infinite ones are left."""
    if message[x] > -np.inf and other > -np.inf:
        message[x] += share * (other - message[x])
        linear[x] = np.exp(message[x])


@njit(nogil=True, cache=True)
def copy_messages(graph, g, source, target):
    """Copy the messages of the pairs of graph g."""
    for v in range(graph.offsets[g], graph.offsets[g + 1]):
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            for x in range(source.shape[2]):
                target[0, e, x] = source[0, e, x]
                target[1, e, x] = source[1, e, x]


@njit(nogil=True, cache=True)
def descend(graph, g, tables, maximise, damping, node, up, down, saved, beliefs, chances, value):
    """Sweep down and up so that the bound does not rise above value; return it, the change, whether it moved.

    The bound is convex in the messages downward: a sweep that raises it has gone too far and is halved.
    """
    copy_messages(graph, g, down, saved)
    change = sweep_down(graph, g, tables, maximise, damping, node, up, down, chances)
    fresh = sweep_up(graph, g, tables, maximise, node, up, down, beliefs, chances)
    slack = ROUNDING * (1.0 + abs(value)) * (graph.offsets[g + 1] - graph.offsets[g])
    halvings = 0
    while fresh > value + slack and halvings < HALVINGS:
        halvings += 1
        if halvings == HALVINGS:
            copy_messages(graph, g, saved, down)
        else:
            for v in range(graph.offsets[g], graph.offsets[g + 1]):
                for e in range(graph.up_start[v], graph.up_start[v + 1]):
                    for x in range(node.shape[1]):
                        _mix(down[0, e], down[1, e], x, saved[0, e, x], 0.5)
        fresh = sweep_up(graph, g, tables, maximise, node, up, down, beliefs, chances)
    return fresh, change, halvings < HALVINGS


@njit(nogil=True, cache=True)
def propagate(
    first,
    last,
    graph,
    tables,
    bounded,
    tolerance,
    damping,
    max_iter,
    node,
    up,
    down,
    saved,
    beliefs,
    chances,
    report,
):
    """Sweep graphs first..last-1 until marginals rest; report (S, 4) gets value, sweeps, change, converged.

    ``bounded``: rho are those of spanning trees, and the value never rises. Otherwise damping sets in where the
    changes do not shrink.
    """
    for g in range(first, last):
        value = sweep_up(graph, g, tables, False, node, up, down, beliefs, chances)
        change, converged, sweeps, moved = np.inf, False, 0, True
        kept, milestone = damping if bounded else 0.0, np.inf
        while value > -np.inf and moved and not converged and sweeps < max_iter:
            sweeps += 1
            if bounded:
                value, change, moved = descend(
                    graph, g, tables, False, kept, node, up, down, saved, beliefs, chances, value
                )
            else:
                change = sweep_down(graph, g, tables, False, kept, node, up, down, chances)
                value = sweep_up(graph, g, tables, False, node, up, down, beliefs, chances)
            change /= 1.0 - kept
            if graph.forest[g]:
                change = 0.0
            converged = change <= tolerance
            if not bounded and sweeps % _PATIENCE == 0:
                if change > 0.5 * milestone:
                    kept = damping
                milestone = change
        report[g, 0] = value
        report[g, 1] = sweeps
        report[g, 2] = change
        report[g, 3] = converged
