"""One message of belief propagation over a pair, compiled; see ``belief_propagation_compiled`` for the equations.

A message is the log-sum of the sender's belief without what the receiver said, times the exponentiated table. The
division is done on probabilities, which saves an exponential per label; where a number would leave the range of
doubles the message, or the entry, is computed in logarithms, so that minus infinity always means forbidden.

Arrays: rows of L labels; a message is kept as logarithms with maximum 0 and as their exponentials ("linear").
Cost: O(L^2) multiplications and L logarithms per message.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# A sum above this has lost nothing to underflow.
TINY = 1e-250
# Probabilities above this can be divided by each other.
SMALL = 1e-100

# Small functions are inlined: passing their arrays would cost more than their work.
_INLINE: Any = {"nogil": True, "cache": True, "error_model": "numpy", "inline": "always"}
# Sums may be reordered, which lets them run in vector registers; infinities and NaN keep their meaning.
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
def _log_sum(matrix, along_rows, column, power, maximise, values):
    """log sum_x exp(power matrix[x, column] + values[x]), or the maximum."""
    top = -np.inf
    for x in range(len(values)):
        entry = matrix[x, column] if along_rows else matrix[column, x]
        top = max(top, power * entry + values[x])
    if top == -np.inf or maximise:
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
    peak = -np.inf
    for x in range(len(out)):
        out[x] = _log_sum(logs, along_rows, x, 1.0 / rho, maximise, cavity)
        peak = max(peak, out[x])
    if top == -np.inf or peak == -np.inf:
        return -np.inf
    for x in range(len(out)):
        out[x] -= peak
        linear[x] = np.exp(out[x])
    return peak


@njit(**_INLINE)
def send(
    logs,
    exps,
    shift,
    rho,
    along_rows,
    maximise,
    belief,
    chances,
    offset,
    reply,
    linear_reply,
    cavity,
    weights,
    out,
    linear,
):
    """Fill out and linear with the message over a pair; return the constant that was taken off, -inf if all is.

    belief = log chances + offset is the sender's; reply is the message it got from the receiver. The table is
    summed along_rows where its first axis is the sender's.
    """
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
            out[x] = _log_sum(logs, along_rows, x, 1.0 / rho, False, cavity) - constant
            linear[x] = np.exp(out[x])
    return constant


@njit(**_INLINE)
def gather(graph, v, node, up, down, belief, chances):
    """Fill belief = B_v and chances = its softmax; return (maximum, log-sum), -inf where no label is left."""
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
    if top == -np.inf:
        return top, top
    mass = 0.0
    for x in range(size):
        chances[x] = np.exp(belief[x] - top)
        mass += chances[x]
    for x in range(size):
        chances[x] /= mass
    return top, top + np.log(mass)
