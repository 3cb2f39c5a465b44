"""Means, differences and ranges of columns over windows of several widths around each position.

    mean        (1 / |W|) sum of x_s over W = t - h .. t + h, cut off at the ends of the sequence
    difference  mean over t + 1 .. t + h minus mean over t - h .. t - 1; x_t where a side has no positions
    range       max - min over W

A field on single positions sees a level through noise; one on such columns sees how the level compares with seconds and
minutes around it, at a few columns instead of a whole window of them.

Each window is put together from blocks of 1, 2, 4, ... positions within it, whose means, minima and maxima are halves
of those of twice the length:

    m_0(t) = x_t,    m_k+1(t) = m_k(t) / 2 + m_k(t + 2^k) / 2

So what is said of a window depends on the values in it alone: equal windows have equal statistics to the last digit,
wherever they are, and neither other sequences nor values elsewhere in its own take part in the rounding.

Arrays: rows (N, d) of packed sequences, offsets (S + 1,) -> (N, d (1 + widths statistics)), the columns themselves
first, then those of each statistic of the first width, and so on. Cost: O(N d log width) for each width and statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

WIDTHS, USUAL = (5, 15, 45), ("mean", "difference", "range")


class _Blocks:
    """Means, minima and maxima of the blocks of 2^k positions that begin at each row; ``rows`` are float64."""

    def __init__(self, rows: np.ndarray):
        self._means, self._least, self._most = [rows], [rows], [rows]

    def _grow(self, level: int) -> None:
        """Compute the blocks of 2^level positions within the rows."""
        while len(self._means) <= level:
            step = 1 << (len(self._means) - 1)
            mean, least, most = self._means[-1], self._least[-1], self._most[-1]
            self._means.append(0.5 * mean[:-step] + 0.5 * mean[step:])
            self._least.append(np.minimum(least[:-step], least[step:]))
            self._most.append(np.maximum(most[:-step], most[step:]))

    def bounds(self, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return minima and maxima of rows first .. last - 1, at least one, from two overlapping blocks."""
        least, most = (np.empty((len(first), self._means[0].shape[1])) for _ in range(2))
        levels = _levels(last - first)
        for level in np.unique(levels).tolist():
            self._grow(level)
            own = levels == level
            begin, end = first[own], last[own] - (1 << level)
            least[own] = np.minimum(self._least[level][begin], self._least[level][end])
            most[own] = np.maximum(self._most[level][begin], self._most[level][end])
        return least, most

    def means(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return means of rows first .. last - 1, at least one, from disjoint blocks, the longest first."""
        sizes = last - first
        whole = _levels(sizes)
        total, begin = np.zeros((len(first), self._means[0].shape[1])), first.copy()
        for level in range(int(whole.max()), -1, -1):
            own = np.flatnonzero((sizes >> level) & 1)
            if own.size:
                self._grow(level)
                # Relative to the longest block: a sum of large numbers would be infinite.
                total[own] += np.ldexp(self._means[level][begin[own]], (level - whole[own] - 1)[:, None])
                begin[own] += 1 << level
        # A mean of equal numbers is that number; rounding alone would make it another one.
        return np.clip(total / np.ldexp(sizes.astype(np.float64), -whole - 1)[:, None], *self.bounds(first, last))


def _levels(sizes: np.ndarray) -> np.ndarray:
    """Return the largest k such that windows of these sizes have 2^k positions."""
    return np.frexp(sizes.astype(np.float64))[1] - 1


class _Windows:
    """Positions t - h .. t + h of packed sequences, truncated at their ends."""

    def __init__(self, blocks: _Blocks, rows: np.ndarray, offsets: np.ndarray, half: int):
        self.rows, self._blocks = rows, blocks
        self._here = np.arange(len(rows))
        lengths = np.diff(offsets)
        self._first = np.maximum(self._here - half, np.repeat(offsets[:-1], lengths))
        self._last = np.minimum(self._here + half + 1, np.repeat(offsets[1:], lengths))

    def _side(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return means of rows first .. last - 1; the row itself for an empty range."""
        there = last > first
        return self._blocks.means(np.where(there, first, self._here), np.where(there, last, self._here + 1))

    def mean(self) -> np.ndarray:
        return self._blocks.means(self._first, self._last)

    def difference(self) -> np.ndarray:
        return self._side(self._here + 1, self._last) - self._side(self._first, self._here)

    def range(self) -> np.ndarray:
        least, most = self._blocks.bounds(self._first, self._last)
        return most - least


STATISTICS: dict[str, Callable[[_Windows], np.ndarray]] = {
    "mean": _Windows.mean,
    "difference": _Windows.difference,
    "range": _Windows.range,
}


def window_statistics(
    rows: np.ndarray, offsets: np.ndarray, widths: Sequence[int] = WIDTHS, statistics: Sequence[str] = USUAL
) -> list[np.ndarray]:
    """Return each statistic over each window of the rows of packed sequences, (N, d) of float64."""
    if not len(rows):
        return [np.zeros(rows.shape)] * (len(widths) * len(statistics))
    exact = np.asarray(rows, dtype=np.float64)
    blocks, largest = _Blocks(exact), np.finfo(rows.dtype).max
    windows = [_Windows(blocks, exact, offsets, width // 2) for width in widths]
    with np.errstate(over="ignore"):  # differences of the largest numbers are as large as a number can be
        return [np.clip(STATISTICS[name](own), -largest, largest) for own in windows for name in statistics]


def with_window_columns(
    rows: np.ndarray, offsets: np.ndarray, widths: Sequence[int] = WIDTHS, statistics: Sequence[str] = USUAL
) -> np.ndarray:
    """Concatenate the rows of packed sequences with statistics over windows, in their own precision."""
    made = window_statistics(rows, offsets, widths, statistics)
    return np.hstack([rows, *made]).astype(rows.dtype, copy=False)


def statistic_names(
    names: Sequence[str], widths: Sequence[int] = WIDTHS, statistics: Sequence[str] = USUAL
) -> list[str]:
    """Return a name for each column of statistics, such as "mean 15 of temperature"."""
    return [f"{what} {width} of {name}" for width in widths for what in statistics for name in names]


def window_names(names: Sequence[str], widths: Sequence[int] = WIDTHS, statistics: Sequence[str] = USUAL) -> list[str]:
    """Return a name for each concatenated column."""
    return [*names, *statistic_names(names, widths, statistics)]
