"""What happens around a position: means, differences and ranges of columns over windows of several widths.

    mean        (1 / |W|) sum of x_s over W = t - h .. t + h, cut off at the ends of the sequence
    difference  mean over t + 1 .. t + h minus mean over t - h .. t - 1; x_t where a side has no positions
    range       max - min over W

A field on single positions sees a level through noise; one on such columns sees how the level compares with seconds and
minutes around it, at a few columns instead of a whole window of them.

Arrays: sequences (T, d) -> (T, d (1 + widths statistics)), the columns themselves first,
then those of each statistic of the first width, and so on. Cost: O(N d) for each width and statistic, whatever the
width. Fails: ValueError or TypeError that names the parameter, the sequence or the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.graph_reading import holds_graphs
from kernelfields.data.readers import InputReader
from kernelfields.data.reading import Matrix
from kernelfields.features.sequencewise import SequenceTransformer
from kernelfields.features.text import TRANSFORMERS
from kernelfields.numerics.parameters import is_sequence, is_whole

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


_STATISTICS: dict[str, Callable[[_Windows], np.ndarray]] = {
    "mean": _Windows.mean,
    "difference": _Windows.difference,
    "range": _Windows.range,
}


def window_columns(
    rows: np.ndarray, offsets: np.ndarray, widths: Sequence[int] = WIDTHS, statistics: Sequence[str] = USUAL
) -> np.ndarray:
    """Return the statistics of packed sequences over windows, (N, widths statistics d)."""
    windows = [_Windows(rows, offsets, width // 2) for width in widths]
    return np.hstack([_STATISTICS[name](own) for own in windows for name in statistics])


@TRANSFORMERS.register("windows")
class WindowFeatures(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Add means, differences and ranges over windows to the columns of sequences of numbers.

    Attributes after fit: ``n_features_in_``, and ``feature_names_in_`` for data frames.

    Parameters
    ----------
    widths : odd int or sequence of odd ints, default (5, 15, 45)
        Numbers of positions, the one in the middle included.
    statistics : sequence of "mean", "difference", "range", default all three
    """

    def __init__(self, *, widths: Any = WIDTHS, statistics: Sequence[str] = USUAL):
        self.widths = widths
        self.statistics = statistics

    def fit(self, X: Any, y: object = None) -> Self:
        """Check the parameters, and learn the number and the names of columns; labels are not read."""
        self._checked()
        if holds_graphs(X):
            raise TypeError("X holds graphs, whose nodes have no order: windows are for sequences")
        reader = InputReader()
        _dense(reader.learn_arrays(X)[0])
        self._read_by(reader)
        return self

    def transform(self, X: Any) -> list[np.ndarray]:
        """Return sequences with the columns of the windows."""
        packed, offsets = self._read(X)
        widths, statistics = self._checked()
        rows = _dense(packed)
        if not len(rows):
            return [np.zeros((0, len(self.get_feature_names_out()))) for _ in X]
        made = np.hstack([rows, window_columns(rows, offsets, widths, statistics)])
        return [made[first:last] for first, last in pairwise(offsets.tolist())]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column, such as "mean 15 of temperature"."""
        check_is_fitted(self, "n_features_in_")
        given = self._reader.columns if input_features is None else list(input_features)
        names = [f"x{column}" for column in range(self.n_features_in_)] if given is None else [*map(str, given)]
        widths, statistics = self._checked()
        made = names + [f"{what} {width} of {name}" for width in widths for what in statistics for name in names]
        return np.array(made, dtype=object)

    def describe(self) -> dict[str, object]:
        """Return the parameters, and the number and the names of columns."""
        check_is_fitted(self, "n_features_in_")
        widths, statistics = self._checked()
        columns = {"n_features": self.n_features_in_, "names": self._reader.columns}
        return {"widths": widths, "statistics": statistics, **columns}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Return the transformer that was described."""
        made = cls(widths=described["widths"], statistics=described["statistics"])
        made._checked()
        made._read_by(InputReader(int(described["n_features"]), columns=described["names"]))
        return made

    def _checked(self) -> tuple[list[int], list[str]]:
        """Return the widths and the names of statistics."""
        widths = [self.widths] if is_whole(self.widths) else self.widths
        if not is_sequence(widths) or not len(widths):
            raise ValueError(f"widths must be odd whole numbers from 3 on, got {self.widths!r:.60}")
        for width in widths:
            if not is_whole(width) or width < 3 or width % 2 == 0:
                raise ValueError(f"widths must be odd whole numbers from 3 on, got {width!r}")
        names = [self.statistics] if isinstance(self.statistics, str) else self.statistics
        if not is_sequence(names) or not len(names):
            raise ValueError(f"statistics must be names among {', '.join(_STATISTICS)}, got {self.statistics!r:.60}")
        for name in names:
            if name not in _STATISTICS:
                raise ValueError(f"statistics must be names among {', '.join(_STATISTICS)}, got {name!r}")
        return [int(width) for width in widths], list(names)


def _dense(rows: Matrix) -> np.ndarray:
    if sp.issparse(rows):
        raise TypeError("X is sparse: windows over columns that are mostly zero are for dense arrays; use toarray()")
    return np.asarray(rows, dtype=np.float64)
