"""Potentials: the natural parameters of a family of labellings, one array for each group of cliques.

    node              (N, L)                one row for each position or node
    tables[group]     (1, *row)             one table for all cliques of the group (tied), or
                      (rows, *row)          one for each

A group is a kind of clique: neighbouring labels ("edge"), labels k steps apart ("lag2"), n-grams ("order2"), durations
of segments, or a type of factors that a user has named. Single labels are the group None.

:class:`Statistics` hold how often cliques have each labelling in labelled data. They are sparse: one entry for each
clique, or counts of a tied table, so that subtracting them from expectations touches one entry a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from kernelfields.numerics.vectors import add_scaled, dot

#: The group of neighbouring labels of a chain.
EDGE = "edge"
#: An array of NumPy, or a tensor of the device on which a family infers.
Array = Any


class Group(NamedTuple):
    """A kind of clique: the rows of one array of potentials.

    ``row`` is the shape of a row, ``n_rows`` the number of rows M, ``items`` (M,) the sequence, graph or instance of
    each; None where rows belong to no item, as those of durations. A ``tied`` group has one table for all its cliques.
    """

    name: str | None
    row: tuple[int, ...]
    n_rows: int
    items: np.ndarray | None
    tied: bool = False

    @property
    def size(self) -> int:
        """Number of labellings of one clique."""
        return int(np.prod(self.row, dtype=np.int64))


class Placed(Protocol):
    """Where the cliques of a set stand in some data, and what is scored there."""

    @property
    def labels_per_clique(self) -> int:
        """How many labels meet in a clique."""

    @property
    def group(self) -> str | None:
        """Name of the group that the set scores; None for single labels."""

    @property
    def positions(self) -> np.ndarray | None:
        """The positions that carry a clique; None for all."""

    @property
    def tied_everywhere(self) -> bool:
        """Whether the potential is one and the same at all cliques."""

    @property
    def outcomes(self) -> np.ndarray | None:
        """The labellings that tied scores are listed for; None where there is one for each of all labellings."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The place of a fitted set in new data."""

    labels_per_clique: int
    group: str | None
    positions: np.ndarray | None
    tied_everywhere: bool
    outcomes: np.ndarray | None = None


class Potentials:
    """Scores of the labellings of cliques, or a direction or gradient in them: see the module for the arrays."""

    def __init__(self, node: Array, tables: Mapping[str, Array] | None = None):
        self.node = node
        self.tables: dict[str, Array] = {} if tables is None else dict(tables)

    def __getitem__(self, group: str | None) -> Array:
        return self.node if group is None else self.tables[group]

    @property
    def edge(self) -> Array:
        """Scores of neighbouring labels, (1 or N, L, L)."""
        return self.tables[EDGE]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of all groups, that of single labels first."""
        return self.node, *self.tables.values()

    def of(self, arrays: Iterable[Array]) -> Self:
        """Return other arrays, in the order of ``arrays``, for the same groups."""
        node, *tables = arrays
        return type(self)(node, dict(zip(self.tables, tables, strict=True)))

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return all(np.isfinite(array.sum()) for array in self.arrays)

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        return max(float(np.abs(array).max(initial=0.0)) for array in self.arrays)

    def moved(self, step: float, direction: Potentials) -> Self:
        """Return self + step * direction."""
        moved = self.of(step * array for array in direction.arrays)
        for new, old in zip(moved.arrays, self.arrays, strict=True):
            new += old
        return moved

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            add_scaled(mine, step, theirs)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for array in self.arrays:
            array *= factor

    def dot(self, other: Potentials) -> float:
        """Return the inner product."""
        return sum(dot(mine, theirs) for mine, theirs in zip(self.arrays, other.arrays, strict=True))

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place, as targets that take the place of labels."""
        mean.add(-1.0, self)


class Observed(NamedTuple):
    """The cliques of labelled data in one group: row of the table, number of the labelling, item, and amount."""

    rows: np.ndarray
    labellings: np.ndarray
    items: np.ndarray
    amounts: np.ndarray | None = None  # None: one each


class Statistics:
    """Weighted counts of the labellings of cliques: flat places in the array of a group, all different, and amounts.

    Amounts are an array, or one number for all places.
    """

    def __init__(self, entries: Mapping[str | None, tuple[np.ndarray, np.ndarray | float]]):
        self.entries = dict(entries)

    @classmethod
    def count(
        cls, groups: Sequence[Group], observed: Mapping[str | None, Observed], weights: np.ndarray | None
    ) -> Statistics:
        """Count observed cliques, weighted by items (S,), None for ones."""
        entries: dict[str | None, tuple[np.ndarray, np.ndarray | float]] = {}
        for group in groups:
            rows, labellings, items, own = observed[group.name]
            amounts: np.ndarray | float = 1.0 if weights is None else weights[items]
            if own is not None:
                amounts = own * amounts
            if group.tied or group.items is None:
                places = labellings if group.tied else rows * group.size + labellings
                counts = np.bincount(places, np.broadcast_to(amounts, places.shape))
                entries[group.name] = np.flatnonzero(counts), counts[counts != 0]
            else:
                entries[group.name] = rows * group.size + labellings, amounts
        return cls(entries)

    def dot(self, potentials: Potentials) -> float:
        """Return the inner product with potentials."""
        total = 0.0
        for group, (places, amounts) in self.entries.items():
            chosen = potentials[group].reshape(-1)[places]
            total += float(chosen.sum() * amounts if isinstance(amounts, float) else chosen @ amounts)
        return total

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract the counts from expectations in place."""
        for group, (places, amounts) in self.entries.items():
            mean[group].reshape(-1)[places] -= amounts
