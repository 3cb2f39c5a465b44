"""Progress of labelling: the F1 on held-out items with an interval, and a forecast of labels for the next mark.

    F1 = 2 right / (predicted + true)        of spans; for positions it is the share of right labels

The interval is a bootstrap over items. The forecast draws values of the last refits within their intervals and fits
1 - F1 = a n^-b to each draw, n being the number of labelled items: the answer is the median of the n at which the next
mark is reached, with the range of four fifths of the draws.

Cost: O(draws x items). With too few items or refits the result is None.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: The fewest items that are scored with an interval, and the fewest refits that are extrapolated.
FEWEST_ITEMS, FEWEST_POINTS = 10, 3
_DRAWS = 500
_MARKS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
# Maximal ratio of a forecast to the number of labelled items.
_FARTHEST = 20.0


class Score(NamedTuple):
    """The F1 of ``items`` items with its 95 % interval, None for too few items."""

    value: float
    low: float | None
    high: float | None
    n_items: int

    def text(self, measure: str) -> str:
        """Format the score with its interval."""
        told = "too few to tell" if self.low is None else f"95 % between {self.low:.2f} and {self.high:.2f}"
        return f"{measure} {self.value:.2f} on {self.n_items} set aside ({told})"


def span_score(counts: np.ndarray) -> Score | None:
    """Compute the score from counts (S, 3) of right, predicted and true spans; None without items."""
    if not len(counts):
        return None
    low = high = None
    if len(counts) >= FEWEST_ITEMS:
        drawn = np.random.default_rng(0).integers(len(counts), size=(_DRAWS, len(counts)))
        low, high = np.quantile(_f1(counts[drawn].sum(axis=1)), [0.025, 0.975]).tolist()
    return Score(float(_f1(counts.sum(axis=0))), low, high, len(counts))


def _f1(counts: np.ndarray) -> np.ndarray:
    right, predicted, true = np.moveaxis(counts, -1, 0)
    return np.where(predicted + true > 0, 2 * right / np.maximum(predicted + true, 1), 1.0)


def forecast(curve: list[dict[str, Any]]) -> dict[str, float] | None:
    """Forecast the next goal and the number of items for it, from refits with "items", "right", "low", "high"."""
    points = [own for own in curve if own.get("low") is not None]
    n = np.array([own["items"] for own in points], dtype=np.float64)
    if len(np.unique(n)) < FEWEST_POINTS:
        return None
    value = np.array([own["right"] for own in points])
    spread = np.array([own["high"] - own["low"] for own in points]) / 3.92
    mark = next((one for one in _MARKS if one > value[-1]), None)
    if mark is None:
        return None
    random = np.random.default_rng(0)
    drawn = np.clip(value + np.maximum(spread, 1e-3) * random.normal(size=(_DRAWS, len(n))), 1e-3, 1 - 1e-3)
    centred = np.log(n) - np.log(n).mean()
    errors = np.log1p(-drawn)
    rate = -(errors @ centred) / (centred @ centred)
    reached = (errors.mean(axis=1) + rate * np.log(n).mean() - np.log1p(-mark)) / np.where(rate > 0, rate, np.nan)
    more = np.where(rate > 0, np.exp(np.minimum(np.nan_to_num(reached), 50.0)) - n[-1], np.inf)
    low, middle, high = np.quantile(np.maximum(more, 1.0), [0.1, 0.5, 0.9], method="nearest")
    if middle > _FARTHEST * n[-1]:
        return None
    found = {"mark": mark, "more": float(np.ceil(middle)), "low": float(np.ceil(low))}
    return found if not np.isfinite(high) or high > _FARTHEST * n[-1] else {**found, "high": float(np.ceil(high))}
