"""A step that rewrites the columns of rows: what every step can do, and what it is given.

    rows (N, d)  ->  rows (N, d')        of each item by itself: item i is rows offsets[i] .. offsets[i + 1] - 1

A step that changes nothing is none: lists of steps are empty for plain arrays, and ask no questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

#: Rows (N, d), dense or sparse.
Rows = Any


class Layout(NamedTuple):
    """Where items begin and end, (S + 1,), and the rows that factors of each type join, (M, k) each."""

    offsets: np.ndarray
    members: Mapping[str, np.ndarray] = {}


class Table(NamedTuple):
    """Rows that steps learn from, how they lie, and the weight of each."""

    rows: Rows
    layout: Layout
    weights: np.ndarray
    #: How many columns, the last ones, are categories.
    categories: int = 0


@dataclass(frozen=True, eq=False)
class InputStep(ABC):
    """A step that rewrites columns; a derived class says how, and what a file keeps of it.

    ``own`` are places of columns that kernels read as they come, in what the step is given; ``categories`` is the
    number of columns, the last ones, that are there or not. No step changes the values of either.
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
        """Return the rows with their columns rewritten."""

    @abstractmethod
    def names(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of the columns, given those before the step."""

    @abstractmethod
    def columns(self, chosen: np.ndarray, n_columns: int) -> np.ndarray:
        """Return where chosen ones of ``n_columns`` columns are after the step."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return plain values and arrays for a model file."""

    @classmethod
    @abstractmethod
    def rebuild(cls, described: Mapping[str, Any], n_columns: int) -> Self:
        """Return the step for ``n_columns`` columns that the inputs of a model describe."""

    @classmethod
    def asked(cls, own: Sequence[int]) -> Sequence[Self]:
        """Return the steps that inputs are read with when users ask by the setting."""
        return [cls(own=tuple(own))]

    def fit(self, table: Table) -> Sequence[InputStep]:
        """Return the steps, if any, that rows need: by default this one, which learns nothing."""
        return [replace(self, categories=table.categories)]

    def undone(self, rows: Rows) -> Rows:
        """Return rewritten rows with the values that came; columns that the step has added stay."""
        return rows

    def arithmetic(self, rows: Any) -> Any:
        """Return rows that know operators alone, such as those of a graph for ONNX; ValueError if it needs more."""
        raise ValueError(f"this field sees {self.entry} of its inputs, which operators on single rows cannot make")

    def kept_columns(self) -> dict[str, object]:
        """Return what a file says of columns that the step leaves as they come."""
        return {"own_columns": list(self.own)} if self.own else {}


def described_columns(described: Mapping[str, Any], n_columns: int) -> dict[str, Any]:
    """Return own columns and the number of categories as the inputs of a model describe them; ValueError if wrong."""
    own, categories = tuple(map(int, described.get("own_columns", ()))), int(described.get("categories", 0))
    if not all(0 <= column < n_columns for column in own):
        raise ValueError("the columns that kernels read as they come are not among those of the inputs")
    return {"own": own, "categories": categories}
