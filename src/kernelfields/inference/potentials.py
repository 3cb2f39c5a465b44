"""Potentials: natural parameters of families of labellings, and where the scores of clique sets stand in them.

    u_g[rows_c, columns_c] += s_c         scores s_c (n_c, labellings) of a clique set c, added to its group g
    R_c = R_g[rows_c, columns_c]          a gradient R in the potentials at the cliques of the set

A group is a kind of clique: neighbouring labels ("edge"), labels k steps apart ("lag2"), n-grams ("order2"), durations
of segments, or a type of factors that a user has named. Single labels are the group None. Arrays of potentials:

    node              (N, L)                one row for each position or node
    tables[group]     (1, *row)             one table for all cliques of the group (tied), or
                      (rows, *row)          one for each

Statistics are sparse: one entry for each clique, or counts of a tied table, so that subtracting them from expectations
touches one entry a row. An :class:`Arrangement` of arrays of NumPy is here, one of tensors in engines/torch/family.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    The cliques of ``steps`` join the position of their row with the one before, so that the first rows of items are
    none. ``listed`` are the numbers of the labellings that a row has, if these are not all.
    """

    name: str | None
    row: tuple[int, ...]
    n_rows: int
    items: np.ndarray | None
    tied: bool = False
    steps: bool = False
    listed: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Number of labellings of one clique."""
        return math.prod(self.row)


class Grouped(Protocol):
    """The properties of a clique set that decide the family of chains."""

    @property
    def group(self) -> str | None:
        """Name of the group that the set scores; None for single labels."""

    @property
    def labels_per_clique(self) -> int:
        """Number of labels of a clique."""

    @property
    def reach(self) -> int:
        """Number of steps between the first label of a clique of a chain and its last."""

    @property
    def is_constant(self) -> bool:
        """Whether the potential is the same at all cliques."""


class Placed(Grouped, Protocol):
    """Positions of the cliques of a set in some data, and the labellings with scores."""

    @property
    def positions(self) -> np.ndarray | None:
        """The positions that carry a clique; None for all."""

    @property
    def outcomes(self) -> np.ndarray | None:
        """The labellings with listed scores; None for scores of all labellings."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Places of the cliques of a fitted set in new data.

    Parameters
    ----------
    labels_per_clique : int
        The number of labels that meet.
    group : str or None
        The group that the set scores; None for single labels.
    positions : array or None
        The positions that carry a clique; None for all.
    is_constant : bool
        Whether the potential is the same at all cliques.
    outcomes : array, optional
        The labellings that tied scores are listed for; by default all.
    reach : int, default 1
        The steps between the first label of a clique of a chain and its last.

    Examples
    --------
    >>> from kernelfields.inference import Placement
    >>> Placement(2, "edge", None, is_constant=True).reach
    1
    """

    labels_per_clique: int
    group: str | None
    positions: np.ndarray | None
    is_constant: bool
    outcomes: np.ndarray | None = None
    reach: int = 1


class Potentials:
    """Hold scores of the labellings of cliques, or a direction or gradient in them.

    Parameters
    ----------
    node : array (N, L)
        The scores of single labels.
    tables : dict, optional
        For the name of each group of cliques the scores of their labellings, (1, ...) if all share them, else a row for
        each clique.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import Potentials
    >>> scores = Potentials(np.zeros((3, 2)), {"edge": np.eye(2)[None]})
    >>> scores.edge.shape, scores.largest
    ((1, 2, 2), 1.0)
    """

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
        """The arrays of all groups, the array of single labels first."""
        return self.node, *self.tables.values()

    def with_arrays(self, arrays: Iterable[Array]) -> Self:
        """Return other arrays for the same groups.

        Parameters
        ----------
        arrays : iterable of arrays
            The arrays, in the order of ``arrays``.

        Returns
        -------
        Potentials
            The potentials.
        """
        node, *tables = arrays
        return type(self)(node, dict(zip(self.tables, tables, strict=True)))

    @property
    def is_finite(self) -> bool:
        """Whether all entries, and their sum, are finite."""
        return all(np.isfinite(array.sum()) for array in self.arrays)

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        return max(float(np.abs(array).max(initial=0.0)) for array in self.arrays)

    def plus(self, step: float, direction: Potentials) -> Self:
        """Return self + step * direction.

        Parameters
        ----------
        step : float
            The step.
        direction : Potentials
            The direction.

        Returns
        -------
        Potentials
            The sum.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import Potentials
        >>> scores = Potentials(np.zeros((2, 2)), {"edge": np.eye(2)[None]})
        >>> scores.plus(2.0, scores).edge[0].tolist()
        [[3.0, 0.0], [0.0, 3.0]]
        """
        moved = self.with_arrays(step * array for array in direction.arrays)
        for new, old in zip(moved.arrays, self.arrays, strict=True):
            new += old
        return moved

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place.

        Parameters
        ----------
        step : float
            The step.
        direction : Potentials
            The direction.
        """
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            add_scaled(mine, step, theirs)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place.

        Parameters
        ----------
        factor : float
            The number.
        """
        for array in self.arrays:
            array *= factor

    def dot(self, other: Potentials) -> float:
        """Compute the inner product.

        Parameters
        ----------
        other : Potentials
            The other potentials.

        Returns
        -------
        float
            The product.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.inference import Potentials
        >>> scores = Potentials(np.zeros((2, 2)), {"edge": np.eye(2)[None]})
        >>> float(scores.dot(scores))
        2.0
        """
        return sum(dot(mine, theirs) for mine, theirs in zip(self.arrays, other.arrays, strict=True))

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place, as targets that replace labels.

        Parameters
        ----------
        mean : Potentials
            The expectations.
        """
        mean.add(-1.0, self)


class Observed(NamedTuple):
    """The cliques of labelled data in one group: row of the table, number of the labelling, item."""

    rows: np.ndarray
    labellings: np.ndarray
    items: np.ndarray


class Statistics:
    """Weighted counts of the labellings of cliques: flat indices in the array of a group, all different, and amounts.

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
            rows, labellings, items = observed[group.name]
            amounts: np.ndarray | float = 1.0 if weights is None else weights[items]
            if group.tied or group.items is None:
                places = labellings if group.tied else rows * group.size + labellings
                counts = np.bincount(places, np.broadcast_to(amounts, places.shape))
                entries[group.name] = np.flatnonzero(counts), counts[counts != 0]
            else:
                entries[group.name] = rows * group.size + labellings, amounts
        return cls(entries)

    def dot(self, potentials: Potentials) -> float:
        """Return the inner product with potentials."""
        total: Any = 0.0
        for group, (places, amounts) in self.entries.items():
            chosen = potentials[group].reshape(-1)[places]
            total += chosen.sum() * amounts if isinstance(amounts, float) else chosen @ amounts
        return total

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract the counts from expectations in place."""
        for group, (places, amounts) in self.entries.items():
            mean[group].reshape(-1)[places] -= amounts


class Arrangement:
    """Places of the cliques of sets in the potentials of a family, as arrays of this process.

    Parameters
    ----------
    offsets : array (S + 1,)
        The position at which each item begins, and N.
    groups : sequence of Group
        The groups of cliques, that of single labels first.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inference import ChainFamily
    >>> arrangement = ChainFamily(np.array([0, 2, 3]), n_labels=2).arrangement
    >>> arrangement.zeros().edge.shape, arrangement.places("edge")
    ((1, 2, 2), array([1]))
    """

    def __init__(self, offsets: np.ndarray, groups: Sequence[Group]):
        self.offsets = offsets
        self.groups = groups

    def group(self, name: str | None) -> Group:
        """Return the group of a name, None for single labels; ValueError for an unknown name."""
        for group in self.groups:
            if group.name == name:
                return group
        known = ", ".join(repr(group.name) for group in self.groups if group.name is not None)
        raise ValueError(f"no cliques are called {name!r}: there are {known or 'single labels only'}")

    @cached_property
    def followers(self) -> np.ndarray:
        """The positions that follow another position of their item."""
        follows = np.ones(int(self.offsets[-1]), dtype=bool)
        follows[self.offsets[:-1]] = False
        return np.flatnonzero(follows)

    def places(self, name: str | None) -> np.ndarray | None:
        """Return the rows of a group that are cliques; None if all are."""
        return self.followers if self.group(name).steps else None

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        node, *tables = (np.zeros((1 if group.tied else group.n_rows, *group.row)) for group in self.groups)
        return Potentials(node, {str(group.name): table for group, table in zip(self.groups[1:], tables, strict=True)})

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of the cliques of a set, (n, labellings) or one row for all of them, to potentials."""
        group = self.group(term.group)
        columns, table = self._columns(group, term), potentials[term.group]
        table = table.reshape(len(table), group.size)
        rows = None if group.tied else self._rows(group, term)
        scores = scores.reshape(len(scores), math.prod(scores.shape[1:]))
        # One row for all cliques is added to all rows: those that are no cliques are never read.
        if rows is None or (term.is_constant and self._is_whole_group(group, rows)):
            table[:, columns] += scores
        elif isinstance(columns, slice):
            table[rows] += scores
        else:
            table[np.ix_(rows, columns)] += scores

    def residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set; summed over cliques if they share a table."""
        group = self.group(term.group)
        if group.tied:
            return residual[term.group].reshape(1, group.size)[:, self._columns(group, term)]
        rows = self.rows(residual[term.group], term)
        return rows.sum(axis=0, keepdims=True) if term.is_constant else rows

    def rows(self, table: np.ndarray, term: Placed) -> np.ndarray:
        """Select the rows of a set's cliques from a table of all cliques of a group, such as marginals."""
        group = self.group(term.group)
        flat, chosen = table.reshape(len(table), group.size), self._rows(group, term)
        return (flat if chosen is None else flat[chosen])[:, self._columns(group, term)]

    def weights(self, weights: np.ndarray, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,), given those of items (S,).

        Cliques that belong to no item have the weight of all positions.
        """
        group = self.group(term.group)
        chosen = Arrangement._rows(self, group, term)
        if group.items is None:
            n_cliques = group.n_rows if chosen is None else len(chosen)
            return np.full(n_cliques, float(weights @ np.diff(self.offsets)))
        return weights[group.items if chosen is None else group.items[chosen]]

    def count(self, observed: Mapping[str | None, Observed], weights: np.ndarray | None = None) -> Statistics:
        """Count observed cliques, weighted by items (S,), None for ones."""
        return Statistics.count(self.groups, observed, weights)

    def cut(self, potentials: Potentials, first: int, last: int) -> Potentials:
        """Return the potentials of items first..last-1, as views if rows are in the order of the items."""
        arrays, positions = [], self.groups[0].items
        for group, array in zip(self.groups, potentials.arrays, strict=True):
            if group.tied or group.items is None:
                arrays.append(array)
            elif group.items is positions:
                arrays.append(array[self.offsets[first] : self.offsets[last]])
            elif np.all(group.items[1:] >= group.items[:-1]):
                begin, end = np.searchsorted(group.items, (first, last))
                arrays.append(array[begin:end])
            else:
                arrays.append(array[(group.items >= first) & (group.items < last)])
        return potentials.with_arrays(arrays)

    def place_potentials(self, potentials: Potentials) -> Potentials:
        """Return potentials, or targets, of this process where the family stores its own."""
        return potentials

    def place_array(self, array: np.ndarray | None) -> Array:
        """Return an array, such as the weights of items, where the family stores its own."""
        return array

    def read_back(self, array: Array) -> np.ndarray:
        """Return an array of the family, such as marginals, as one of this process."""
        return array

    def _rows(self, group: Group, term: Placed) -> np.ndarray | None:
        """Return the rows of a group that are the cliques of a set; None if these are all rows in order."""
        return None if term.positions is None or len(term.positions) == group.n_rows else term.positions

    def _is_whole_group(self, group: Group, rows: np.ndarray) -> bool:
        """Whether rows of a group are all of its cliques."""
        return group.steps and len(rows) == len(self.followers)

    def _columns(self, group: Group, term: Placed) -> slice | np.ndarray:
        """Return the columns of a group's table for the labellings of a set."""
        if term.outcomes is None:
            return slice(None)
        if group.listed is None:
            return term.outcomes
        whole = len(group.listed) == len(term.outcomes)
        return slice(None) if whole else np.searchsorted(group.listed, term.outcomes)
