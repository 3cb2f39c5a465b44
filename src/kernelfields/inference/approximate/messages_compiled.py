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

``PartedSweeps`` visits one large graph in levels, the ranges of each side by side in threads (pair_graph.py): the same
messages in another order of the nodes. Cost: the same, divided by the threads but for the trunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelfields.inference.pair_graph import Levels, Messages, PairGraph, PairTables
from kernelfields.inference.sums_compiled import collect, copy_row
from kernelfields.numerics.compiled import INLINED, REORDER, njit
from kernelfields.numerics.threads import Workers


class PartedSweeps:
    """Sweeps over one graph in levels of ranges; log-sums, or maxima where ``maximise``."""

    def __init__(
        self,
        graph: PairGraph,
        forest: bool,
        levels: Levels,
        tables: PairTables,
        node: np.ndarray,
        messages: Messages,
        workers: Workers,
        maximise: bool = False,
    ):
        self._graph, self._tables, self._node, self._messages = graph, tables, node, messages
        self._levels, self._n_nodes = levels, levels[-1][-1][1] - levels[0][0][0]
        self._forest, self._workers, self._maximise = forest, workers, maximise

    def propagate(self, bounded: bool, tolerance: float, damping: float, max_iter: int) -> tuple:
        """Sweep until marginals rest, as ``propagate`` below; return what it reports."""
        value = self._up()
        change, converged, sweeps, moved = np.inf, False, 0, True
        kept, milestone = damping if bounded else 0.0, np.inf
        while value > -np.inf and moved and not converged and sweeps < max_iter:
            sweeps += 1
            if bounded:
                value, change, moved = self._descend(kept, value)
            else:
                change, value = self._down(kept), self._up()
            change = 0.0 if self._forest else change / (1.0 - kept)
            converged = change <= tolerance
            if not bounded and sweeps % PATIENCE == 0:
                kept = damping if change > 0.5 * milestone else kept
                milestone = change
        return value, sweeps, change, converged

    def tree_marginals(self) -> None:
        """Replace the marginals of all nodes but roots by averages over their parents."""
        messages = self._messages

        def run(first: int, last: int) -> None:
            tree_marginals(first, last, self._graph, self._tables, messages.down, messages.beliefs, messages.chances)

        self._workers.in_turn(run, self._levels)

    def best_labels(self, tolerance: float, max_iter: int, labels: np.ndarray) -> float:
        """Label the graph, as ``best_labels`` below; return the bound."""
        trial, nodes = np.zeros_like(labels), self._graph.order[self._levels[0][0][0] :][: self._n_nodes]
        bound, score, sweeps, idle, moved = self._up(), -np.inf, 0, 0, True
        while bound > -np.inf:
            reached = self._label(trial)
            if reached > score or sweeps == 0:
                score, labels[nodes] = reached, trial[nodes]
            slack = ROUNDING * (1.0 + abs(bound)) * self._n_nodes
            if self._forest or score >= bound - slack or sweeps >= max_iter or idle >= _IDLE or not moved:
                break
            sweeps += 1
            fresh, _, moved = self._descend(0.0, bound)
            idle = idle + 1 if bound - fresh < tolerance * (1.0 + abs(bound)) else 0
            bound = fresh
        return bound

    def _label(self, labels: np.ndarray) -> float:
        graph, tables, node, up = self._graph, self._tables, self._node, self._messages.up
        return math.fsum(
            self._workers.in_turn(
                lambda first, last: label_range(first, last, graph, tables, node, up, labels), self._levels
            )
        )

    def _up(self) -> float:
        """Renew messages upward; return the value, -inf if the graph is infeasible."""
        fixed = self._graph, self._tables, self._maximise, self._node, self._messages
        return math.fsum(self._workers.in_turn(lambda first, last: up_range(first, last, *fixed), self._levels[::-1]))

    def _down(self, damping: float) -> float:
        """Renew messages downward; return the largest change of a node's softmax."""
        fixed = self._graph, self._tables, self._maximise, damping, self._node, self._messages
        return max(self._workers.in_turn(lambda first, last: down_range(first, last, *fixed), self._levels))

    def _descend(self, damping: float, value: float) -> tuple[float, float, bool]:
        """Sweep down and up so that the bound does not rise; see ``descend`` below."""
        messages = self._messages
        self._each(copy_messages, messages.down, messages.saved)
        change, fresh = self._down(damping), self._up()
        slack = ROUNDING * (1.0 + abs(value)) * self._n_nodes
        halvings = 0
        while fresh > value + slack and halvings < HALVINGS:
            halvings += 1
            if halvings == HALVINGS:
                self._each(copy_messages, messages.saved, messages.down)
            else:
                self._each(draw_back, messages.saved, messages.down)
            fresh = self._up()
        return fresh, change, halvings < HALVINGS

    def _each(self, function: Callable[..., None], source: np.ndarray, target: np.ndarray) -> None:
        """Run a function over the pairs of all ranges."""
        self._workers.in_turn(lambda first, last: function(first, last, self._graph, source, target), self._levels)


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


@njit(**INLINED, fastmath=REORDER)
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
def _maxima(matrix, along_rows, power, values, out):
    """out(y) = max_x power matrix[x, y] + values[x], or with matrix[y, x] where not along_rows."""
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
    """log sum_x exp(power matrix[x, column] + values[x])."""
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
    """out = belief - message; a label that is known to be impossible stays so. Return the maximum."""
    top = -np.inf
    for x in range(len(belief)):
        out[x] = belief[x] - message[x] if belief[x] > -np.inf else -np.inf
        top = max(top, out[x])
    return top


@njit(nogil=True, cache=True)
def _send_logarithms(logs, rho, along_rows, maximise, belief, reply, cavity, out, linear):
    """The same as ``send``, in logarithms throughout."""
    top = exclude(belief, reply, cavity)
    if maximise:
        _maxima(logs, along_rows, 1.0 / rho, cavity, out)
    peak = -np.inf
    for x in range(len(out)):
        if not maximise:
            out[x] = _log_sum(logs, along_rows, x, 1.0 / rho, cavity)
        peak = max(peak, out[x])
    if top == -np.inf or peak == -np.inf:
        return -np.inf
    for x in range(len(out)):
        out[x] -= peak
        if not maximise:
            linear[x] = np.exp(out[x])
    return peak


@njit(**_INLINE)
def send(graph, tables, e, along_rows, maximise, belief, chances, offset, replies, messages, scratch):
    """Renew the message over pair e in messages; return the constant that was taken off, -inf if all is.

    belief = log chances + offset is the sender's, replies (2, P, L) are the messages that senders got from
    receivers, scratch is (2, L). The table is summed along_rows where its first axis is the sender's.
    """
    # Numbers of the pair are read here: reading them in the loops below takes half as long again for a sweep.
    logs, exps = tables.logs[tables.log_of[e]], tables.exps[tables.exp_of[e]]
    shift, rho = tables.shift[tables.exp_of[e]], graph.rho[e]
    reply, linear_reply = replies[0, e], replies[1, e]
    out, linear = messages[0, e], messages[1, e]
    cavity, weights = scratch[0], scratch[1]
    size = len(belief)
    safe = not maximise
    if safe:
        for x in range(size):
            if belief[x] == -np.inf:
                weights[x] = 0.0
            elif chances[x] < SMALL or linear_reply[x] < SMALL:
                safe = False
            else:
                weights[x] = chances[x] / linear_reply[x]
    peak = 0.0
    if safe:
        _sums(exps, along_rows, weights, linear)
        for x in range(size):
            peak = max(peak, linear[x])
    if peak <= TINY:
        return _send_logarithms(logs, rho, along_rows, maximise, belief, reply, cavity, out, linear)
    constant = np.log(peak) + shift + offset
    inverse, excluded = 1.0 / peak, False
    for x in range(size):
        if linear[x] > TINY:
            linear[x] *= inverse
            out[x] = np.log(linear[x])
        else:
            if not excluded:
                exclude(belief, reply, cavity)
                excluded = True
            out[x] = _log_sum(logs, along_rows, x, 1.0 / rho, cavity) - constant
            linear[x] = np.exp(out[x])
    return constant


@njit(**_INLINE)
def gather(graph, v, maximise, node, up, down, belief, chances):
    """Fill belief = B_v and chances = its softmax; return (maximum, log-sum), -inf where no label is left.

    With ``maximise`` nobody reads the softmax, and it is left.
    """
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
    """Move entry x of a message by a share towards another value; infinite ones are left."""
    if message[x] > -np.inf and other > -np.inf:
        message[x] += share * (other - message[x])
        linear[x] = np.exp(message[x])


@njit(nogil=True, cache=True)
def copy_messages(first, last, graph, source, target):
    """Copy the messages of the pairs of nodes at positions first..last-1 and their parents."""
    for k in range(first, last):
        v = graph.order[k]
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            for x in range(source.shape[2]):
                target[0, e, x] = source[0, e, x]
                target[1, e, x] = source[1, e, x]


@njit(nogil=True, cache=True)
def draw_back(first, last, graph, source, target):
    """Move the same messages of the target half the way to those of the source."""
    for k in range(first, last):
        v = graph.order[k]
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            for x in range(source.shape[2]):
                _mix(target[0, e], target[1, e], x, source[0, e, x], 0.5)


@njit(nogil=True, cache=True, forceinline=True)  # Python calls it, too
def up_range(first, last, graph, tables, maximise, node, messages):
    """Renew what nodes at positions first..last-1 send upward, their beliefs and the softmax of these.

    Return their share of the value, -inf where a node has no label left. The sum is corrected for rounding: values
    are compared from sweep to sweep.
    """
    up, down, beliefs, chances = messages.up, messages.down, messages.beliefs, messages.chances
    scratch, sums = np.empty((2, node.shape[1])), np.zeros(2)
    for k in range(last - 1, first - 1, -1):
        v = graph.order[k]
        belief, chance = beliefs[v], chances[v]
        top, offset = gather(graph, v, maximise, node, up[0], down[0], belief, chance)
        if top == -np.inf:
            return -np.inf
        share, local = 1.0, 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            rho = graph.rho[e]
            share -= rho
            constant = send(graph, tables, e, tables.flipped[e], maximise, belief, chance, offset, down, up, scratch)
            if constant == -np.inf:
                return -np.inf
            local += rho * constant
        if abs(share) > 1e-9:
            local += share * offset
        collect(local, sums)
    return sums[0] + sums[1]


@njit(nogil=True, cache=True, forceinline=True)  # Python calls it, too
def down_range(first, last, graph, tables, maximise, damping, node, messages):
    """Renew what nodes at positions first..last-1 send downward; return the largest change of their softmax."""
    up, down, chances = messages.up, messages.down, messages.chances
    size = node.shape[1]
    belief, chance, before = np.empty(size), np.zeros(size), np.empty(size)
    scratch = np.empty((2, size))
    change = 0.0
    for k in range(first, last):
        v = graph.order[k]
        top, offset = gather(graph, v, maximise, node, up[0], down[0], belief, chance)
        if top == -np.inf:
            return np.inf
        for x in range(size):
            change = max(change, abs(chance[x] - chances[v, x]))
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = graph.down[j]
            message, linear = down[0, e], down[1, e]
            for x in range(size):
                before[x] = message[x]
            send(graph, tables, e, not tables.flipped[e], maximise, belief, chance, offset, up, down, scratch)
            if damping > 0.0:
                for x in range(size):
                    _mix(message, linear, x, before[x], damping)
    return change


@njit(**INLINED)
def descend(graph, g, tables, maximise, damping, node, messages, value):
    """Sweep down and up so that the bound does not rise above value; return it, the change, whether it moved.

    The bound is convex in the messages downward: a sweep that raises it has gone too far and is halved.
    """
    down, saved = messages.down, messages.saved
    first, last = graph.offsets[g], graph.offsets[g + 1]
    copy_messages(first, last, graph, down, saved)
    change = down_range(first, last, graph, tables, maximise, damping, node, messages)
    fresh = up_range(first, last, graph, tables, maximise, node, messages)
    slack = ROUNDING * (1.0 + abs(value)) * (last - first)
    halvings = 0
    while fresh > value + slack and halvings < HALVINGS:
        halvings += 1
        if halvings == HALVINGS:
            copy_messages(first, last, graph, saved, down)
        else:
            draw_back(first, last, graph, saved, down)
        fresh = up_range(first, last, graph, tables, maximise, node, messages)
    return fresh, change, halvings < HALVINGS


@njit(nogil=True, cache=True)
def propagate(first, last, graph, tables, bounded, tolerance, damping, max_iter, node, messages, report):
    """Sweep graphs first..last-1 until marginals rest; report (S, 4) gets value, sweeps, change, converged.

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
    """Replace the marginals of nodes at positions first..last-1, given those of their parents, by averages over these.

    Roots keep theirs. The result is the gradient of the bound.
    """
    size = beliefs.shape[1]
    cavity, chance = np.empty(size), np.empty(size)
    for k in range(first, last):
        v = graph.order[k]
        if graph.up_start[v] == graph.up_start[v + 1]:
            continue
        for y in range(size):
            marginals[v, y] = 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            u, rho = graph.parent[e], graph.rho[e]
            exclude(beliefs[v], down[0, e], cavity)
            for x in range(size):
                if marginals[u, x] > 0.0:
                    _follow(tables, e, rho, x, cavity, chance)
                    for y in range(size):
                        marginals[v, y] += rho * marginals[u, x] * chance[y]


@njit(nogil=True, cache=True)
def pair_marginals(first, last, pairs, graph, tables, down, beliefs, marginals, weights, tied, out):
    """Fill out[j] with the marginals of factor j, or add all to out[0], weighted by factor, where tied.

    pairs are the ``GroupPairs`` of the factors; without weights, (0,), all count the same.
    """
    size = beliefs.shape[1]
    cavity, chance = np.empty(size), np.empty(size)
    for j in range(first, last):
        e, turned = pairs.pair[j], pairs.turned[j]
        u, v = graph.parent[e], graph.child[e]
        row = out[0 if tied else j]
        exclude(beliefs[v], down[0, e], cavity)
        for x in range(size):
            mass = marginals[u, x]
            if mass == 0.0:
                continue
            if tied and len(weights) > 0:
                mass *= weights[j]
            _follow(tables, e, graph.rho[e], x, cavity, chance)
            for y in range(size):
                if turned:
                    row[y, x] += mass * chance[y]
                else:
                    row[x, y] += mass * chance[y]


@njit(nogil=True, cache=True)
def label_range(first, last, graph, tables, node, up, labels):
    """Label nodes at positions first..last-1 given the labels of parents and what children say; return their score."""
    size = node.shape[1]
    local, ahead = np.empty(size), np.empty(size)
    score = 0.0
    for k in range(first, last):
        v = graph.order[k]
        for x in range(size):
            local[x] = node[v, x]
            ahead[x] = 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            logs, y = tables.logs[tables.log_of[e]], labels[graph.parent[e]]
            for x in range(size):
                local[x] += logs[x, y] if tables.flipped[e] else logs[y, x]
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = graph.down[j]
            for x in range(size):
                ahead[x] += graph.rho[e] * up[0, e, x]
        best = 0
        for x in range(1, size):
            if local[x] + ahead[x] > local[best] + ahead[best]:
                best = x
        labels[v] = best
        score += local[best]
    return score


@njit(nogil=True, cache=True)
def best_labels(first, last, graph, tables, tolerance, max_iter, node, messages, trial, labels, bounds):
    """Label graphs first..last-1 by max-product sweeps; bounds (S,) lie above the best scores."""
    maximise = np.bool_(True)  # not a literal, as in ``propagate``
    for g in range(first, last):
        begin, end = graph.offsets[g], graph.offsets[g + 1]
        rows = slice(begin, end)
        bound = up_range(begin, end, graph, tables, maximise, node, messages)
        score, sweeps, idle, moved = -np.inf, 0, 0, True
        labels[rows] = 0
        while bound > -np.inf:
            reached = label_range(begin, end, graph, tables, node, messages.up, trial)
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
