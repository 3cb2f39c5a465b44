"""Columns of positions with means, differences and ranges of windows, see numerics/window_statistics.py.

    (numbers, categories)  ->  (numbers, statistics of numbers, categories)

A kernel's own columns stay where they are, and have no statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from kernelfields.inputs.step import STATISTICS, InputStep, Layout, Rows, described_columns
from kernelfields.numerics.window_statistics import WIDTHS, statistic_names, window_statistics


@dataclass(frozen=True, eq=False)
class WindowStatistics(InputStep):
    """Join the columns of positions with means, differences and ranges of windows around them.

    Parameters
    ----------
    own : tuple of int, default ()
        Places of columns that kernels read as they come; no step changes their values.
    categories : int, default 0
        The number of columns, the last ones, that are there or not; no step changes their values.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inputs import Layout, WindowStatistics
    >>> step = WindowStatistics()
    >>> joined = step(np.zeros((4, 1)), Layout(np.array([0, 4])))
    >>> joined.shape[1] == len(step.names(["temperature"]))
    True
    """

    entry = "windows"
    setting: ClassVar[Mapping[str, object]] = {"window": STATISTICS}
    reach = (max(WIDTHS) // 2, max(WIDTHS) // 2)

    def __call__(self, rows: Rows, layout: Layout) -> np.ndarray:
        """Concatenate the rows of sequences with statistics of the windows around them."""
        if not isinstance(rows, np.ndarray):
            raise TypeError("window='statistics' is for columns of numbers: X holds features that are there or not")
        numbers, categories = np.split(rows, [rows.shape[1] - self.categories], axis=1)
        made = window_statistics(np.delete(numbers, self.own, axis=1) if self.own else numbers, layout.offsets)
        return np.hstack([numbers, *made, categories]).astype(rows.dtype, copy=False)

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of columns, with new names such as "mean 15 of temperature".

        Parameters
        ----------
        names : sequence of str
            The names before the step.

        Returns
        -------
        sequence of str
            The names after it.
        """
        n_numbers = len(names) - self.categories
        seen = [name for place, name in enumerate(names[:n_numbers]) if place not in self.own]
        return [*names[:n_numbers], *statistic_names(seen), *names[n_numbers:]]

    def columns(self, chosen: np.ndarray, n_columns: int) -> np.ndarray:
        """Return the indices of the positions' own columns; categories are last.

        Parameters
        ----------
        chosen : array (m,)
            Places of columns.
        n_columns : int
            The number of columns before the step.

        Returns
        -------
        array (m,)
            Their places after the step.
        """
        added = len(self.names([""] * n_columns)) - n_columns
        return np.where(chosen < n_columns - self.categories, chosen, chosen + added)

    def arithmetic(self, rows: Any) -> NoReturn:
        """Raise ValueError: a graph of operators has no windows.

        Parameters
        ----------
        rows : object
            Rows with operators.

        Raises
        ------
        ValueError
            In any case.
        """
        raise ValueError("this field sees statistics of windows, which ONNX does not have here: fit with window=1")

    def describe(self) -> dict[str, object]:
        """Describe the step by plain values, for a model file.

        Returns
        -------
        dict
            The description.
        """
        return {self.entry: True, **self.kept_columns()}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], n_columns: int) -> Self:
        """Rebuild the step from its description.

        Parameters
        ----------
        described : dict
            The inputs of a model, as its file describes them.
        n_columns : int
            The number of columns before the step.

        Returns
        -------
        InputStep
            The step.

        Raises
        ------
        ValueError
            If the description is not sound.
        """
        return cls(**described_columns(described, n_columns))
