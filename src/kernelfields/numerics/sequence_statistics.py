"""Level, spread, extremes and slope of the columns of a sequence, and of its parts.

    rows (T, d)  ->  (5 d (1 + parts) + 1,)

A slope is that of the least-squares line over a part, in units of the column from its first to its last position. A
part without positions, of a sequence shorter than their number, has the numbers of the whole.

Cost: O(T d).
"""

from __future__ import annotations

import numpy as np

STATISTICS = ("mean", "deviation", "minimum", "maximum", "slope")


def summary(rows: np.ndarray, parts: int) -> np.ndarray:
    """Return the statistics of a sequence (T, d) and of its parts."""
    pieces = [rows, *(piece if len(piece) else rows for piece in np.array_split(rows, parts) if parts > 1)]
    return np.concatenate([np.ravel([_statistics(piece) for piece in pieces]), [np.log(len(rows))]])


def _statistics(rows: np.ndarray) -> np.ndarray:
    """Return the statistics of each column, (5, d)."""
    time = np.linspace(-0.5, 0.5, len(rows)) if len(rows) > 1 else np.zeros(1)
    slope = time @ rows / max(time @ time, 1.0 / 12.0)
    return np.array([rows.mean(axis=0), rows.std(axis=0), rows.min(axis=0), rows.max(axis=0), slope])
