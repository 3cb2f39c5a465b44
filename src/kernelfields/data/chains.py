"""Packed sequences: one array of positions and the offsets at which sequences begin.

    sequence i owns rows offsets[i] .. offsets[i + 1] - 1,    i = 0 .. S - 1

Arrays: inputs (N, d) dense C-contiguous float32 or float64, or CSR; offsets (S + 1,) int64; labels (N,)
int64 indices into the sorted classes (L,); weights (S,) float64. Everything else in the package loops over
these arrays and never over Python lists. Graphs are packed alike, with nodes for positions (graphs.py).
Cost: one copy of the data; the checks are in reading.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np

from kernelfields.data import label_forms, sequence_forms
from kernelfields.data.any_labels import ANY_LABELS, Allowed
from kernelfields.data.given_labels import GivenLabels, given_labels
from kernelfields.data.reading import (
    Matrix,
)
from kernelfields.inputs.step import Layout, Table
from kernelfields.numerics.group import ALONE, Group
from kernelfields.numerics.parameters import check_window
from kernelfields.numerics.sparse_rows import gather_entries

if TYPE_CHECKING:
    from kernelfields.inputs.steps import ColumnSteps

#: Which sequences or graphs are chosen: whole numbers, a mask of length S, or a slice.
Items: TypeAlias = slice | np.ndarray | Sequence[int] | int

#: What is fitted to data, whatever that is.
Fit = TypeVar("Fit")

#: Why a label is impossible where :meth:`Packed.find_forbidden` is true.
UNLISTED = "it is not among the allowed labels"


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows of S packed sequences or graphs, with labels (None if unknown) and a weight for each."""

    inputs: Matrix
    offsets: np.ndarray
    labels: np.ndarray | None = None
    weights: np.ndarray = None  # type: ignore[assignment]  # filled in: ones
    #: What is known of labels that are not, see partial_labels.py. None where all are known, or none.
    partial: label_forms.LabelWeights | None = None
    #: The labels that positions may have.
    allowed: Allowed = ANY_LABELS

    #: What messages call a row.
    part: ClassVar[str] = "position"
    #: Whether the labels of an item share one row of the inputs.
    share_rows: ClassVar[bool] = False
    #: The processes that have parts of the data: this one has all.
    processes: ClassVar[Group] = ALONE
    #: Fields with an entry for every row.
    row_fields: ClassVar[tuple[str, ...]] = ("inputs", "labels", "partial", "allowed")

    def __post_init__(self) -> None:
        if self.weights is None:
            object.__setattr__(self, "weights", np.ones(len(self.offsets) - 1))
        rows = self._n_rows
        if self.offsets[0] != 0 or self.offsets[-1] != rows:
            raise ValueError(
                f"offsets must run from 0 to the number of rows, {rows}, got {self.offsets[0]} to {self.offsets[-1]}"
            )

    @property
    def _n_rows(self) -> int:
        """Number of rows, which the last offset must equal."""
        return self.inputs.shape[0]

    @property
    def required_labels(self) -> np.ndarray:
        """Labels (N,); ValueError for data without labels."""
        if self.labels is None:
            raise ValueError("labels are needed, and these data have none")
        return self.labels

    @cached_property
    def given(self) -> GivenLabels:
        """The given labels of the rows; ValueError for data without labels."""
        return given_labels(self.required_labels, self.partial)

    @property
    def certain_labels(self) -> np.ndarray | None:
        """Labels of the rows if all are known; else None."""
        return None if self.labels is None else self.given.decided

    @property
    def known_labels(self) -> np.ndarray | None:
        """Labels of the rows, -1 for rows with several possible labels; None without labels."""
        return None if self.labels is None else np.where(self.given.certain(), self.labels, -1)

    @property
    def n_positions(self) -> int:
        """Number of rows N, all sequences or graphs together."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of every sequence or graph, (S,)."""
        return np.diff(self.offsets)

    @property
    def starts(self) -> np.ndarray:
        """First row of every sequence or graph, (S,)."""
        return self.offsets[:-1]

    @property
    def ends(self) -> np.ndarray:
        """Last row of every sequence or graph, (S,)."""
        return self.offsets[1:] - 1

    @property
    def position_weights(self) -> np.ndarray:
        """The weight of every row, (N,): the weight of its sequence or graph."""
        return np.repeat(self.weights, self.lengths)

    @property
    def labelling(self) -> Any:
        """The observed labelling: labels of rows (N,), and for segments their begins."""
        return self.labels

    def find_forbidden(self, labels: np.ndarray) -> np.ndarray:
        """Return the rows whose lists of allowed labels lack the given label.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.

        Returns
        -------
        bool array (N,)
            The mask of these rows.
        """
        return ~self.allowed.is_allowed(labels)

    @property
    def penalties(self) -> np.ndarray | None:
        """Penalties of labels (N, L): minus infinity for labels that are not allowed, else 0; None without lists."""
        return self.allowed.penalties()

    def find_followers(self, reach: int = 1) -> np.ndarray:
        """Return the rows with at least ``reach`` rows before them in their sequence or graph.

        Parameters
        ----------
        reach : int, default 1
            The number of steps.

        Returns
        -------
        array (n,)
            The numbers of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains
        >>> chains = Chains(np.arange(10.0).reshape(5, 2), np.array([0, 3, 5]))  # three positions and two
        >>> chains.find_followers().tolist(), chains.find_followers(2).tolist()
        ([1, 2, 4], [2])
        """
        places = np.arange(self.n_positions) - np.repeat(self.starts, self.lengths)
        return np.flatnonzero(places >= reach)

    def find_predecessors(self, rows: np.ndarray, steps: np.ndarray | int) -> np.ndarray:
        """Return the predecessors of rows by ``steps`` positions.

        Parameters
        ----------
        rows : array
            Numbers of rows.
        steps : int or array
            The number of steps; shapes are broadcast.

        Returns
        -------
        array
            The numbers of the rows.
        """
        return np.asarray(rows - steps)

    def windows(self, window: int | tuple[int, int]) -> Matrix:
        """Concatenate the inputs around each position, with zeros beyond the ends of its sequence.

        Parameters
        ----------
        window : int or (int, int)
            The number of positions seen, an odd number; or how many before and after.

        Returns
        -------
        array or CSR matrix (N, width)
            The inputs of the windows.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains
        >>> chains = Chains(np.arange(10.0).reshape(5, 2), np.array([0, 3, 5]))  # three positions and two
        >>> chains.windows((1, 0))[:2]
        array([[0., 0., 0., 1.],
               [0., 1., 2., 3.]])
        """
        if check_window(window) == (0, 0):
            return self.inputs
        return sequence_forms.window_view(self.inputs, self.offsets, window)

    @property
    def tables(self) -> dict[str | None, Table]:
        """The tables of rows that steps of inputs transform: of positions or nodes, and of types of factors."""
        return {None: Table(self.inputs, Layout(self.offsets), self.position_weights)}

    def apply_steps(self, steps: ColumnSteps) -> Self:
        """Return the items with columns transformed by steps.

        Parameters
        ----------
        steps : ColumnSteps
            The steps, such as a scale.

        Returns
        -------
        Chains or Graphs
            The items.
        """
        if not steps.tables:
            return self
        return self.with_rows({name: steps(table.rows, table.layout, name) for name, table in self.tables.items()})

    def with_rows(self, rows: Mapping[str | None, Matrix]) -> Self:
        """Return the items with other rows in their tables.

        Parameters
        ----------
        rows : dict
            The rows of positions or nodes under None, and those of types of factors under their names.

        Returns
        -------
        Chains or Graphs
            The items.
        """
        return replace(self, inputs=rows[None])

    def select_labelled_nodes(self) -> Packed:
        """Return labelled positions or nodes, each as an item.

        Returns
        -------
        Chains or Graphs
            The items, each with the weight of its sequence or graph.
        """
        return replace(self, offsets=np.arange(self.n_positions + 1), weights=self.position_weights)

    def without_factors(self) -> Self:
        """Return the items without factors beyond their order.

        Returns
        -------
        Chains or Graphs
            The items.
        """
        return self

    def split(self, array: Matrix) -> list:
        """Split an array with N rows into one view for each sequence or graph.

        Parameters
        ----------
        array : array or CSR matrix (N, ...)
            A row for each position or node.

        Returns
        -------
        list of arrays
            The rows of each sequence or graph.

        Raises
        ------
        ValueError
            If the array has another number of rows.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains
        >>> chains = Chains(np.arange(10.0).reshape(5, 2), np.array([0, 3, 5]))  # three positions and two
        >>> [len(part) for part in chains.split(np.arange(5))]
        [3, 2]
        """
        if array.shape[0] != self.n_positions:
            raise ValueError(f"expected {self.n_positions} rows, one per {self.part}, got {array.shape[0]}")
        return [array[first:last] for first, last in pairwise(self.offsets.tolist())]

    def subset(self, indices: Items) -> Self:
        """Copy the chosen sequences or graphs.

        Parameters
        ----------
        indices : slice, mask or numbers
            The items.

        Returns
        -------
        Chains or Graphs
            The chosen items.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains
        >>> chains = Chains(np.arange(10.0).reshape(5, 2), np.array([0, 3, 5]))  # three positions and two
        >>> chains.subset([1]).n_positions
        2
        """
        chosen = np.arange(len(self.offsets) - 1)[indices].reshape(-1)
        rows, offsets = gather_entries(self.offsets, chosen)
        values = {name: getattr(self, name) for name in self.row_fields}
        parts: dict[str, Any] = {name: None if value is None else value[rows] for name, value in values.items()}
        return replace(self, offsets=offsets, weights=self.weights[chosen], **parts, **self._parts(chosen, offsets))

    @property
    def own(self) -> Self:
        """The data of this process."""
        return self

    def apply(self, change: Callable[[Self], Self]) -> Self:
        """Apply a function to the data.

        Parameters
        ----------
        change : callable
            It maps data of this process to data.

        Returns
        -------
        Self
            The data.
        """
        return change(self)

    def engine(self, asked: object) -> object:
        """Return the requested engine: data of one process suit every engine.

        Parameters
        ----------
        asked : str or Engine
            The engine, or its name.

        Returns
        -------
        str or Engine
            The same.
        """
        return asked

    def drop_weightless(self) -> Self:
        """Return the sequences or graphs of nonzero weight.

        Returns
        -------
        Self
            The data.
        """
        return self if self.weights.all() else self.subset(self.weights > 0)

    def draw_items(self, reader: object, most: int) -> tuple[Self, np.ndarray]:
        """Draw some of the items by a fixed seed.

        Parameters
        ----------
        reader : InputReader
            What has read the data.
        most : int
            The number of positions to stop at.

        Returns
        -------
        data : Self
            The items.
        numbers : ndarray
            Their numbers.
        """
        numbers = draw_item_numbers(self.lengths, most)
        return (self if len(numbers) == len(self.lengths) else self.subset(numbers)), numbers

    def check_groups(self, groups: np.ndarray, noun: str) -> None:
        """Raise an error unless each item has a group.

        Parameters
        ----------
        groups : array (n_items,)
            The groups.
        noun : str
            What messages call an item.

        Raises
        ------
        ValueError
            If the numbers differ.
        """
        if groups.shape != self.weights.shape:
            raise ValueError(f"groups must hold one value for each {noun}: {len(self.weights)}, got {groups.shape}")

    def select_fit(self, everything: Fit, some: Fit) -> Fit:
        """Return the fit whose data are in this process, of the fits to all data and to a part.

        Parameters
        ----------
        everything : FitState
            The fit to all data.
        some : FitState
            The fit to some.

        Returns
        -------
        FitState
            The first.
        """
        return everything

    def kernel_refusal(self, kernel: object) -> str:
        """Return the reason why a kernel is not available for the data.

        Parameters
        ----------
        kernel : Kernel
            The kernel.

        Returns
        -------
        str
            The reason; nothing if it can.
        """
        return ""

    def with_known(self, labels: np.ndarray, partial: label_forms.LabelWeights | None, n_labels: int) -> Self:
        """Return the data with known labels.

        Parameters
        ----------
        labels : array (N,)
            Numbers of labels.
        partial : LabelWeights or None
            The weights of labels if some are not known.
        n_labels : int
            The number of labels.

        Returns
        -------
        Packed
            The data.
        """
        return replace(self, labels=labels, partial=partial)

    @property
    def nonempty(self) -> Self:
        """The sequences or graphs with at least one row."""
        return self if self.lengths.all() else self.subset(self.lengths > 0)

    def _parts(self, chosen: np.ndarray, offsets: np.ndarray) -> dict[str, Any]:
        """Return the further fields of a subset with ``chosen`` items and given offsets."""
        return {}


@dataclass(frozen=True, eq=False)
class Chains(Packed):
    """Packed sequences with their labels and weights.

    Parameters
    ----------
    inputs : array or CSR matrix (N, d)
        The inputs of all positions, those of the first sequence first.
    offsets : array (S + 1,)
        The row at which each sequence begins, and N.
    labels : array (N,), optional
        Numbers of labels in the sorted classes.
    weights : array (S,), optional
        The weight of each sequence; ones by default.
    partial : LabelWeights, optional
        What is known of labels that are not; by default all are known, or none.
    allowed : AllowedLabels, optional
        The labels that positions may have; by default any.

    See Also
    --------
    Graphs : Holds graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.data import Chains
    >>> chains = Chains(np.arange(10.0).reshape(5, 2), np.array([0, 3, 5]))  # three positions and two
    >>> chains.n_sequences, chains.n_positions, chains.lengths.tolist()
    (2, 5, [3, 2])
    """

    #: Whether a part of a sequence says as much of its labels as the whole: the lengths of segments are cut as well.
    can_be_cut: ClassVar[bool] = True

    @property
    def n_sequences(self) -> int:
        """Number of sequences S."""
        return len(self.offsets) - 1

    @property
    def is_start(self) -> np.ndarray:
        """Mask of the rows that begin a sequence, (N,)."""
        mask = np.zeros(self.n_positions, dtype=bool)
        mask[self.starts] = True
        return mask

    def for_fit(self) -> Self:
        """Return labelled chains with their labels added to the allowed labels.

        Returns
        -------
        Chains
            The chains.

        Raises
        ------
        ValueError
            If a sequence has no positions.
        """
        if (empty := np.flatnonzero(self.lengths == 0)).size:
            raise ValueError(f"sequence {empty[0]} has no rows: remove empty sequences from X and y")
        if self.certain_labels is None:
            return self
        return replace(self, allowed=self.allowed.with_allowed(self.certain_labels))

    def cut(self, longest: int, length: int, may_begin: np.ndarray | None = None) -> Self:
        """Cut long sequences into pieces, each with the weight of its sequence.

        Parameters
        ----------
        longest : int
            The most positions of a sequence that stays whole.
        length : int
            The positions of a piece, about.
        may_begin : bool array (N,), optional
            The positions at which a piece may begin; by default any.

        Returns
        -------
        Chains
            The pieces, or the same chains if none is long.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains
        >>> chains = Chains(np.arange(10.0).reshape(5, 2), np.array([0, 4, 5]))  # four positions and one
        >>> chains.cut(longest=3, length=2).lengths.tolist()
        [2, 2, 1]
        """
        long = np.flatnonzero(self.lengths > longest)
        if not self.can_be_cut or not long.size:
            return self
        cuts = np.concatenate([np.arange(self.offsets[i] + length, self.offsets[i + 1], length) for i in long])
        if may_begin is not None:
            begins = np.flatnonzero(may_begin)
            places = np.searchsorted(begins, cuts)
            cuts = begins[places[places < len(begins)]]
        return self.cut_at(np.union1d(self.offsets, cuts))[0]

    def cut_at(self, offsets: np.ndarray) -> tuple[Self, np.ndarray]:
        """Cut sequences into pieces, each with the weight of its sequence.

        Parameters
        ----------
        offsets : int array (P + 1,)
            The begin of each piece, and the number of positions; the offsets of the sequences are among them.

        Returns
        -------
        chains : Chains
            The pieces.
        sequences : int array (P,)
            The number of the sequence of each piece.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.data import Chains
        >>> chains = Chains(np.arange(10.0).reshape(5, 2), np.array([0, 4, 5]))
        >>> chains.cut_at(np.array([0, 3, 4, 5]))[1].tolist()
        [0, 0, 1]
        """
        sequences = np.searchsorted(self.offsets, offsets[:-1], side="right") - 1
        return replace(self, offsets=offsets, weights=self.weights[sequences]), sequences


def draw_item_numbers(lengths: np.ndarray, most: int) -> np.ndarray:
    """Draw the numbers of items with about ``most`` positions by a fixed seed; all items if they have fewer."""
    if lengths.sum() <= most:
        return np.arange(len(lengths))
    order = np.random.default_rng(0).permutation(len(lengths))
    return np.sort(order[: int(np.searchsorted(np.cumsum(lengths[order]), most)) + 1])
