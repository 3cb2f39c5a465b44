"""Coupling from the past in plain Python, by the definition: the same numbers for the same sweep, from ever further."""

import math

import numpy as np

_STEP, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def _uniform(number):
    """Return the number of a counter (splitmix64) in [0, 1)."""
    z = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) / 2**53


def coupled_draw(couplings, begin, end, seed):
    """Return the draw (n,) of nodes begin..end-1 of couplings that attract, before labels are exchanged back."""
    n, start = int(end - begin), couplings.start
    pull = np.zeros((n, n))
    for v in range(n):
        pairs = slice(start[begin + v], start[begin + v + 1])
        pull[v, couplings.neighbour[pairs] - begin] += couplings.strength[pairs]
    reach = 1
    while True:
        chains = np.array([np.zeros(n, dtype=int), np.ones(n, dtype=int)])
        for sweep in range(reach, 0, -1):
            for v in range(n):
                share = _uniform((seed + (sweep * n + v + 1) * _STEP) & _MASK)
                odds = couplings.field[begin + v] + chains @ pull[v]
                chains[:, v] = math.log(share / (1 - share)) < odds
        if np.array_equal(*chains):
            return chains[0]
        reach *= 2
