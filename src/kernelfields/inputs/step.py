"""A step that transforms the columns of rows: the methods of every step, and their arguments.

    rows (N, d)  ->  rows (N, d')        of each item by itself: item i is rows offsets[i] .. offsets[i + 1] - 1

A step that changes nothing is none: lists of steps are empty for plain arrays, and ask no questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

#: The window of sequences whose columns are joined with statistics of windows, see window_statistics.py.
STATISTICS = "statistics"
#: Rows (N, d), dense or sparse.
Rows = Any


class Layout(NamedTuple):
    """Begins and ends of items, and the rows that their factors join.

    Parameters
    ----------
    offsets : array (S + 1,)
        The row at which each item begins, and N.
    members : dict, optional
        For each type of factors the rows that meet in them, (M, k).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inputs import Layout
    >>> Layout(np.array([0, 3, 5])).members
    {}
    """

    offsets: np.ndarray
    members: Mapping[str, np.ndarray] = {}


class Table(NamedTuple):
    """Rows from which steps learn.

    Parameters
    ----------
    rows : array or CSR matrix (N, d)
        The rows.
    layout : Layout
        How they lie.
    weights : array (N,)
        The weight of each row.
    categories : int, default 0
        The number of columns, the last ones, that are categories.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inputs import Layout, Table
    >>> table = Table(np.zeros((2, 3)), Layout(np.array([0, 2])), np.ones(2))
    >>> table.rows.shape, table.categories
    ((2, 3), 0)
    """

    rows: Rows
    layout: Layout
    weights: np.ndarray
    #: How many columns, the last ones, are categories.
    categories: int = 0


@dataclass(frozen=True, eq=False)
class InputStep(ABC):
    """Transform the columns of rows: the base class of steps.

    A derived class has an ``entry``, its name in files, and a ``setting``, the parameter of estimators that asks for it
    and its value; ``reach`` is how many rows before and after its own an answer depends on.

    Parameters
    ----------
    own : tuple of int, default ()
        Places of columns that kernels read as they come; no step changes their values.
    categories : int, default 0
        The number of columns, the last ones, that are there or not; no step changes their values.

    See Also
    --------
    register_step : Makes a step known to estimators and files.
    ColumnSteps : Runs steps one after the other.

    Examples
    --------
    >>> from kernelfields.inputs import InputStep, Neighbours
    >>> issubclass(Neighbours, InputStep), Neighbours.setting
    (True, {'neighbours': True})
    """

    own: tuple[int, ...] = field(default=(), kw_only=True)
    categories: int = field(default=0, kw_only=True)

    #: The entry of a model's inputs that describes the step.
    entry: ClassVar[str]
    #: The parameter of estimators by which users ask for the step, and its value.
    setting: ClassVar[Mapping[str, object]]
    #: How many rows before and after its own an answer depends on.
    reach: ClassVar[tuple[int, int]] = (0, 0)

    @abstractmethod
    def __call__(self, rows: Rows, layout: Layout) -> Rows:
        """Return the transformed rows."""

    @abstractmethod
    def names(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of the columns after the step.

        Parameters
        ----------
        names : sequence of str
            The names before the step.

        Returns
        -------
        sequence of str
            The names after it.
        """

    @abstractmethod
    def columns(self, chosen: np.ndarray, n_columns: int) -> np.ndarray:
        """Return the indices of columns after the step.

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

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Describe the step by plain values and arrays, for a model file.

        Returns
        -------
        dict
            The description.
        """

    @classmethod
    @abstractmethod
    def rebuild(cls, described: Mapping[str, Any], n_columns: int) -> Self:
        """Rebuild the step from its description in the inputs of a model.

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

    @classmethod
    def from_setting(cls, own: Sequence[int]) -> Sequence[Self]:
        """Return the steps for a value of the setting.

        Parameters
        ----------
        own : sequence of int
            Places of columns that kernels read as they come.

        Returns
        -------
        sequence of InputStep
            The steps.
        """
        return [cls(own=tuple(own))]

    def fit(self, table: Table) -> Sequence[InputStep]:
        """Return the steps for rows: by default the step itself, without learning.

        Parameters
        ----------
        table : Table
            The rows.

        Returns
        -------
        sequence of InputStep
            The steps.
        """
        return [replace(self, categories=table.categories)]

    def undo(self, rows: Rows) -> Rows:
        """Return transformed rows with the original values; added columns are kept.

        Parameters
        ----------
        rows : array (n, d)
            Rewritten rows.

        Returns
        -------
        array (n, d)
            The rows.
        """
        return rows

    def arithmetic(self, rows: Any) -> Any:
        """Transform rows by operators alone.

        Parameters
        ----------
        rows : object
            Rows with operators, such as those of a graph for ONNX.

        Returns
        -------
        object
            The rewritten rows.

        Raises
        ------
        ValueError
            If the step needs more than operators.
        """
        raise ValueError(f"this field sees {self.entry} of its inputs, which operators on single rows cannot make")

    def kept_columns(self) -> dict[str, object]:
        """Describe the columns that the step does not change, for a model file.

        Returns
        -------
        dict
            The description.
        """
        return {"own_columns": list(self.own)} if self.own else {}


def described_columns(described: Mapping[str, Any], n_columns: int) -> dict[str, Any]:
    """Return own columns and the number of categories from the inputs of a model; ValueError if invalid."""
    own, categories = tuple(map(int, described.get("own_columns", ()))), int(described.get("categories", 0))
    if not all(0 <= column < n_columns for column in own):
        raise ValueError("the columns that kernels read as they come are not among those of the inputs")
    return {"own": own, "categories": categories}
