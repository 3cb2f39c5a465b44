"""Compiled chains of gibbs.py: sweeps, and sweeps for as long as the chains of a graph disagree.

Arrays: incidence as in base.py, tables (all entries,), node (N, L), labels (N,) or (C, N) of C chains, one 64-bit
random state for each graph and chain.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference.approximate.sweeps_compiled import draw
from kernelfields.numerics.compiled import njit


@njit(nogil=True, cache=True)
def sample_sweeps(first, last, incidence, node, tables, labels, states, n_sweeps):
    """Draw every node given the others, n_sweeps[g] times in graphs first..last-1; states (S,) are random."""
    scores, broken, chances = np.empty(node.shape[1]), np.empty(node.shape[1]), np.empty(node.shape[1])
    for g in range(first, last):
        state = states[g : g + 1]
        for _ in range(n_sweeps[g]):
            for v in range(incidence.offsets[g], incidence.offsets[g + 1]):
                draw(v, incidence, node, tables, labels, np.inf, 1.0, state, scores, broken, chances)


@njit(nogil=True, cache=True)
def mix(first, last, incidence, node, tables, labels, states, half, trials, mixed, spread, halves):
    """Sweep the chains of graphs first..last-1 until they agree, at most ``trials`` times.

    ``spread`` (S,) gets R-hat of the last trial, and ``halves`` (S,) the sweeps of each of its halves.
    """
    n_chains, n_labels = len(labels), node.shape[1]
    scores, broken, chances = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    for g in range(first, last):
        begin, end = incidence.offsets[g], incidence.offsets[g + 1]
        counts = np.empty((end - begin, n_labels, 2 * n_chains), np.int32)
        spread[g], halves[g] = np.inf, half
        for trial in range(trials):
            halves[g] = half << trial
            counts[:] = 0
            for part in range(2 * n_chains):
                chain = part // 2
                state = states[chain, g : g + 1]
                for _ in range(halves[g]):
                    for v in range(begin, end):
                        draw(v, incidence, node, tables, labels[chain], np.inf, 1.0, state, scores, broken, chances)
                        counts[v - begin, labels[chain, v], part] += 1
            spread[g] = largest_spread(counts, halves[g])
            if spread[g] <= mixed:
                break


@njit(nogil=True, cache=True)
def largest_spread(counts, n):
    """Return the largest R-hat of any label at any node from its counts in halves of n sweeps, (nodes, L, halves)."""
    n_nodes, n_labels, n_halves = counts.shape
    largest = 1.0
    for v in range(n_nodes):
        for b in range(n_labels):
            mean, squares = 0.0, 0.0
            for j in range(n_halves):
                share = counts[v, b, j] / n
                mean += share / n_halves
                squares += share * share / n_halves
            between = (squares - mean * mean) * n_halves / (n_halves - 1)
            within = (mean - squares) * n / (n - 1)
            if within > 0.0:
                largest = max(largest, np.sqrt((n - 1) / n + between / within))
            elif mean > 0.0 and mean < 1.0:
                return np.inf  # halves that never leave their label, and do not agree on it
    return largest
