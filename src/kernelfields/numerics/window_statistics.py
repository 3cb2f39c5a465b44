"""What happens around a position: means, differences and ranges of columns over windows of several widths.

    mean        (1 / |W|) sum of x_s over W = t - h .. t + h, cut off at the ends of the sequence
    difference  mean over t + 1 .. t + h minus mean over t - h .. t - 1; x_t where a side has no positions
    range       max - min over W

A field on single positions sees a level through noise; one on such columns sees how the level compares with seconds and
minutes around it, at a few columns instead of a whole window of them.

Arrays: rows (N, d) of packed sequences, offsets (S + 1,) -> (N, d (1 + widths statistics)), the columns themselves
first, then those of each statistic of the first width, and so on. Cost: O(N d) for each width and statistic, whatever
the width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

WIDTHS, USUAL = (5, 15, 45), ("mean", "difference", "range")


class _Windows:
    """Positions t - h .. t + h of packed sequences, cut off at their ends."""

    def __init__(self, rows: np.ndarray, offsets: np.ndarray, half: int):
        self.rows, self.offsets, self.half = rows, offsets, half
        self._here = np.arange(len(rows))
        lengths = np.diff(offsets)
        self._first = np.maximum(self._here - half, np.repeat(offsets[:-1], lengths))
        self._last = np.minimum(self._here + half + 1, np.repeat(offsets[1:], lengths))

    def _unit(self, deviations: np.ndarray) -> np.ndarray:
        """Return a power of two for each column, of which sums of multiples up to the largest number are exact."""
        largest = np.maximum(np.frexp(np.abs(deviations).max(axis=0))[1], -900)
        return np.ldexp(1.0, largest - min(52, 62 - len(deviations).bit_length()))

    def _means(self, rows: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return means of rows first .. last - 1; the row itself where there are none."""
        # Sums of whole numbers are exact: equal windows have equal means, wherever they are. The rounding of other sums
        # depends on all rows before, and trees learn from it where sequences come in an order.
        level = rows.mean(axis=0)
        unit = self._unit(rows - level)
        counts = np.rint((rows - level) / unit).astype(np.int64)
        sums = np.vstack([np.zeros_like(counts[:1]), np.cumsum(counts, axis=0)])
        size = (last - first)[:, None]
        return level + unit * np.where(size > 0, (sums[last] - sums[first]) / np.maximum(size, 1), counts)

    def mean(self) -> np.ndarray:
        return self._means(self.rows, self._first, self._last)

    def difference(self) -> np.ndarray:
        after = self._means(self.rows, self._here + 1, self._last)
        return after - self._means(self.rows, self._first, self._here)

    def range(self) -> np.ndarray:
        from scipy.ndimage import maximum_filter1d, minimum_filter1d

        made, size = np.empty_like(self.rows), 2 * self.half + 1
        for first, last in pairwise(self.offsets.tolist()):
            own = self.rows[first:last]
            if last > first:
                # Rows at the ends are repeated beyond them, which changes neither maximum nor minimum.
                highest = maximum_filter1d(own, size, axis=0, mode="nearest")
                made[first:last] = highest - minimum_filter1d(own, size, axis=0, mode="nearest")
        return made


STATISTICS: dict[str, Callable[[_Windows], np.ndarray]] = {
    "mean": _Windows.mean,
    "difference": _Windows.difference,
    "range": _Windows.range,
}


def with_window_columns(
    rows: np.ndarray,
    offsets: np.ndarray,
    widths: Sequence[int] = WIDTHS,
    statistics: Sequence[str] = USUAL,
    categories: int = 0,
) -> np.ndarray:
    """Return the rows of packed sequences joined with statistics over windows, in their own precision.

    The last columns, as many as there are ``categories``, have no statistics and stay the last.
    """
    if categories:
        numbers, others = np.split(rows, [rows.shape[1] - categories], axis=1)
        return np.hstack([with_window_columns(numbers, offsets, widths, statistics), others])
    if not len(rows):
        return np.zeros((0, rows.shape[1] * (1 + len(widths) * len(statistics))), dtype=rows.dtype)
    windows = [_Windows(np.asarray(rows, dtype=np.float64), offsets, width // 2) for width in widths]
    made = [STATISTICS[name](own) for own in windows for name in statistics]
    return np.hstack([rows, *made]).astype(rows.dtype, copy=False)


def window_names(
    names: Sequence[str], widths: Sequence[int] = WIDTHS, statistics: Sequence[str] = USUAL, categories: int = 0
) -> list[str]:
    """Return a name for each joined column, such as "mean 15 of temperature"."""
    numbers, others = names[: len(names) - categories], names[len(names) - categories :]
    made = (f"{what} {width} of {name}" for width in widths for what in statistics for name in numbers)
    return [*numbers, *made, *others]
