"""Columns that a field makes of its inputs, written out once more: statistics of windows, and one scale of all.

mean, difference, range    over t - h .. t + h of each width 2 h + 1, cut off at the ends, each by a loop
(x - m) / s                m the weighted mean, s = max(deviation, range / 8), the range of a column that hardly varies
"""

from __future__ import annotations

import numpy as np

WIDTHS = (5, 15, 45)


def with_statistics(rows: np.ndarray) -> np.ndarray:
    """Return the rows (T, d) of one sequence beside means, differences and ranges of its windows."""
    tables = [rows]
    for width in WIDTHS:
        half, statistics = width // 2, []
        for place in range(len(rows)):
            before, after = rows[max(0, place - half) : place], rows[place + 1 : place + 1 + half]
            window = rows[max(0, place - half) : place + 1 + half]
            sides = [own.mean(axis=0) if len(own) else rows[place] for own in (after, before)]
            statistics.append((window.mean(axis=0), sides[0] - sides[1], window.max(axis=0) - window.min(axis=0)))
        tables += [np.array(own).reshape(rows.shape) for own in zip(*statistics, strict=True)]
    return np.hstack(tables)


def scale_of(rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what is taken off each column of weighted rows (N, d), and what it is divided by."""
    rows, weights = rows[weights > 0], weights[weights > 0]
    shares = weights / weights.sum()
    centre = shares @ rows
    deviation = np.sqrt(shares @ (rows - centre) ** 2)
    low, high = rows.min(axis=0), rows.max(axis=0)
    hardly = shares @ (rows == np.median(rows, axis=0)) >= 0.95
    spread = np.maximum(deviation, (high - low) / np.where(hardly, 1.0, 8.0))
    varies = high - low > 32 * np.finfo(np.float32).eps * np.maximum(np.abs(low), np.abs(high))
    return np.where(varies, centre, 0.0), np.where(varies, spread, 1.0)
