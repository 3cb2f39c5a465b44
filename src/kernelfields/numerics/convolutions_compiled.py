"""The loops behind convolutions.py, compiled: sums stand in the order of NumPy's."""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.compiled import njit


@njit(nogil=True, cache=True)
def pool_convolutions(columns, offsets, mixtures, taps, dilations, inner, thresholds, pooled):
    """Write the maxima and shares (S, 2 m) of convolutions of packed sequences; ``columns`` are (d, N)."""
    n_columns, count, n_taps = columns.shape[0], taps.shape[0], taps.shape[1]
    longest = 0
    for s in range(offsets.size - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    widest = 0
    for i in range(count):
        widest = max(widest, dilations[i])
    half = n_taps // 2
    padded, values = np.empty(longest + 2 * half * widest), np.empty(longest)
    for s in range(offsets.size - 1):
        first = offsets[s]
        length = offsets[s + 1] - first
        for i in range(count):
            dilation = dilations[i]
            reach = half * dilation
            for t in range(length):
                padded[reach + t] = 0.0
            for c in range(n_columns):
                weight = mixtures[i, c]
                if weight != 0.0:
                    for t in range(length):
                        padded[reach + t] += weight * columns[c, first + t]
            begin, end = padded[reach], padded[reach + length - 1]
            for t in range(reach):
                padded[t] = begin
                padded[reach + length + t] = end
            for t in range(length):
                values[t] = 0.0
            for j in range(n_taps):
                weight, shift = taps[i, j], j * dilation
                for t in range(length):
                    values[t] += weight * padded[shift + t]
            low, high = 0, length
            if inner[i] and length > 2 * reach:
                low, high = reach, length - reach
            most, above = values[low], 0
            for t in range(low, high):
                most = max(most, values[t])
                above += values[t] > thresholds[i]
            pooled[s, i] = most
            pooled[s, count + i] = above / (high - low)
