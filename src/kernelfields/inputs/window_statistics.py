"""Columns of positions beside means, differences and ranges of windows around them, see numerics/window_statistics.py.

    (numbers, categories)  ->  (numbers, statistics of numbers, categories)

A kernel's own columns stay where they are, and have no statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kernelfields.inputs.step import InputStep, Layout, Rows, described_columns
from kernelfields.numerics.window_statistics import WIDTHS, statistic_names, window_statistics
from kernelfields.numerics.windows import STATISTICS


@dataclass(frozen=True, eq=False)
class WindowStatistics(InputStep):
    """Joins positions with statistics of windows around them."""

    entry = "windows"
    setting: ClassVar[Mapping[str, object]] = {"window": STATISTICS}
    reach = (max(WIDTHS) // 2, max(WIDTHS) // 2)

    def __call__(self, rows: Rows, layout: Layout) -> np.ndarray:
        """Return the rows of sequences joined with statistics of the windows around them."""
        if not isinstance(rows, np.ndarray):
            raise TypeError("window='statistics' is for columns of numbers: X holds features that are there or not")
        numbers, categories = np.split(rows, [rows.shape[1] - self.categories], axis=1)
        made = window_statistics(np.delete(numbers, self.own, axis=1) if self.own else numbers, layout.offsets)
        return np.hstack([numbers, *made, categories]).astype(rows.dtype, copy=False)

    def names(self, names: Sequence[str]) -> list[str]:
        """Return names such as "mean 15 of temperature" beside those that are there."""
        n_numbers = len(names) - self.categories
        seen = [name for place, name in enumerate(names[:n_numbers]) if place not in self.own]
        return [*names[:n_numbers], *statistic_names(seen), *names[n_numbers:]]

    def columns(self, chosen: np.ndarray, n_columns: int) -> np.ndarray:
        """Return the places of columns of positions themselves: those of categories are the last."""
        added = len(self.names([""] * n_columns)) - n_columns
        return np.where(chosen < n_columns - self.categories, chosen, chosen + added)

    def arithmetic(self, rows: Any) -> Any:
        """Raise ValueError: a graph of operators has no windows."""
        raise ValueError("this field sees statistics of windows, which ONNX does not have here: fit with window=1")

    def describe(self) -> dict[str, object]:
        """Return plain values for a model file."""
        return {self.entry: True, **self.kept_columns()}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], n_columns: int) -> Self:
        """Return the step that was described."""
        return cls(**described_columns(described, n_columns))
