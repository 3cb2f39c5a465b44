"""Figures to be drawn, read from whatever holds them: numbers, estimates with intervals, results from a file.

    0.93      an object with value, low and high      {"value": 0.93, "low": 0.91, "high": 0.95}      None

None and NaN mean that there is no figure. One list of figures is one curve; a mapping from names to lists is
several. Arrays: values, low, high (n,), NaN where there is none. Cost: O(n).
Fails: ValueError naming the entry that is no figure, or a list of another length than the places it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Curve:
    """The figures of one curve and the ends of their intervals, (n,) each; NaN where there is none."""

    name: str
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def interval(self, index: int) -> tuple[float, float] | None:
        """Return the ends of the interval of one figure, None if it has none."""
        low, high = float(self.low[index]), float(self.high[index])
        return (low, high) if np.isfinite(low) and np.isfinite(high) else None

    def words(self, index: int, form: str = ".4g") -> str:
        """Return one figure with its interval in words."""
        value, ends = self.values[index], self.interval(index)
        return f"{value:{form}}" + ("" if ends is None else f" [{ends[0]:{form}}, {ends[1]:{form}}]")

    def take(self, order: Any) -> Curve:
        """Return the curve with its figures in another order."""
        return Curve(self.name, self.values[order], self.low[order], self.high[order])


def read_figure(given: Any, where: str = "the figure") -> tuple[float, float, float]:
    """Return value, low and high of one figure, NaN where there is none."""
    if isinstance(given, Mapping):
        parts = [given.get(name) for name in ("value", "low", "high")]
        if "value" not in given:
            raise ValueError(f"{where} is {given!r:.80}, which has no 'value'")
    elif hasattr(given, "value") and hasattr(given, "low"):
        parts = [given.value, given.low, given.high]
    else:
        parts = [given, None, None]
    try:
        value, low, high = (float("nan") if part is None else float(part) for part in parts)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} is {given!r:.80}: pass a number, or a value with its interval such as an Estimate"
        ) from error
    return value, low, high


def read_curves(given: Any, n_places: int, name: str) -> list[Curve]:
    """Read one curve from a list of figures, or several from a mapping of names to lists."""
    several = given if isinstance(given, Mapping) else {"": given}
    if not several:
        raise ValueError(f"{name} is empty: pass a list of figures, or a mapping of names to lists")
    return [
        _read_curve(str(key), figures, n_places, f"{name} {key!r}" if key else name) for key, figures in several.items()
    ]


def _read_curve(name: str, figures: Any, n_places: int, what: str) -> Curve:
    if isinstance(figures, str | bytes | Mapping) or not hasattr(figures, "__len__"):
        raise ValueError(f"{what} must be a list of {n_places} figures, got {figures!r:.80}")
    if len(figures) != n_places:
        raise ValueError(f"{what} has {len(figures)} figures, but there are {n_places} places for them")
    read = [read_figure(each, f"entry {index} of {what}") for index, each in enumerate(figures)]
    values, low, high = np.array(read, dtype=float).reshape(-1, 3).T
    if not np.isfinite(values).any():
        raise ValueError(f"{what} has no finite figure to draw")
    return Curve(name, values, low, high)


def spread(curves: list[Curve]) -> tuple[float, float]:
    """Return the least and the largest finite number among figures and intervals."""
    numbers = np.concatenate([part for each in curves for part in (each.values, each.low, each.high)])
    finite = numbers[np.isfinite(numbers)]
    return float(finite.min()), float(finite.max())
