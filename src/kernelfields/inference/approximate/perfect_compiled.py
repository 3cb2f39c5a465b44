"""Compiled coupling from the past of perfect.py: two chains that see the same random numbers, from ever further back.

The numbers of a sweep are those of one 64-bit state (splitmix64), which is a counter: sweep t before now of a draw
starts at its seed plus t steps of the length of the graph, and nothing has to be kept.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from kernelfields.inference.approximate.sweeps_compiled import uniform
from kernelfields.numerics.compiled import njit


@njit(nogil=True, cache=True)
def coupled_draws(first, last, offsets, field, start, neighbour, strength, seeds, most_sweeps, drawn, sweeps):
    """Draw numbers first..last-1; draw k is a labelling of graph k % S for row k // S of drawn and sweeps.

    The first one whose chains have not met after so many sweeps gets -1 for its sweeps, and no further one is made.
    """
    n_graphs = len(offsets) - 1
    low, high = np.empty(len(field), np.uint8), np.empty(len(field), np.uint8)
    for k in range(first, last):
        row, g = k // n_graphs, k % n_graphs
        begin, end = offsets[g], offsets[g + 1]
        reach = 1
        while not meet(begin, end, field, start, neighbour, strength, seeds[row, g], reach, low, high):
            reach *= 2
            if reach > most_sweeps:
                sweeps[row, g] = -1
                return
        sweeps[row, g] = reach
        for v in range(begin, end):
            drawn[row, v] = low[v]


@njit(nogil=True, cache=True)
def meet(begin, end, field, start, neighbour, strength, seed, reach, low, high):
    """Run both chains from ``reach`` sweeps before now; return whether they have met."""
    state = np.empty(1, np.uint64)
    for v in range(begin, end):
        low[v], high[v] = 0, 1
    for t in range(reach, 0, -1):
        state[0] = seed + uint64(t) * uint64(end - begin) * uint64(0x9E3779B97F4A7C15)
        for v in range(begin, end):
            share = uniform(state)
            least = -np.inf if share == 0.0 else np.log(share) - np.log1p(-share)
            below = above = field[v]
            for k in range(start[v], start[v + 1]):
                below += strength[k] * low[neighbour[k]]
                above += strength[k] * high[neighbour[k]]
            low[v], high[v] = least < below, least < above
    apart = 0
    for v in range(begin, end):
        apart += low[v] != high[v]
    return apart == 0
