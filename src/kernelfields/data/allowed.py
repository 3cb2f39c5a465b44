"""Allowed labels: for each position the labels that it may have, as ragged lists.

    position t may have labels[begin[t] : begin[t + 1]], which are sorted

Arrays: begin (N + 1,) int64, labels (A,) int32. They hold for the field itself: its normaliser sums over allowed
labels only. Partial labels (partial_labels.py) instead concern the labels of a field that may have others. Inference
costs sum_t |A_{t-1}| |A_t|. Fails: ValueError naming the position that is left without labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from kernelfields.data.reading import SEQUENCES
from kernelfields.numerics.sparse_rows import entries_of, offsets_of


@dataclass(frozen=True, eq=False)
class AnyLabels:
    """Positions may have any label: there are no lists."""

    #: Whether some labels are not allowed somewhere.
    restrict: ClassVar[bool] = False
    #: The pairs of labels that neighbours may have, for each position: as many as there are.
    step_pairs: ClassVar[float] = np.inf
    begin: ClassVar[np.ndarray] = np.empty(0, dtype=np.int64)
    labels: ClassVar[np.ndarray] = np.empty(0, dtype=np.int32)

    def __getitem__(self, rows: np.ndarray | slice) -> AnyLabels:
        """Return the lists of some positions: none either."""
        return self

    def check_labels(self, n_labels: int) -> None:
        """Raise ValueError unless the lists are those of a field with so many labels; there are none."""

    def within(self, labels: np.ndarray) -> np.ndarray:
        """Return a mask of the positions that may have the label given for them, (N,)."""
        return np.ones(len(labels), dtype=bool)

    def admitting(self, labels: np.ndarray) -> AnyLabels:
        """Return the same with the label given for each position, (N,), among those that are allowed."""
        return self

    def alike(self, lengths: np.ndarray) -> np.ndarray:
        """Return one of all items that have the same labellings, as those of one length have."""
        return np.unique(lengths, return_index=True)[1]

    def penalties(self) -> np.ndarray | None:
        """Return None for the penalties of labels that are not allowed, (N, L)."""
        return None

    def penalized(self, log_weights: np.ndarray | None) -> np.ndarray | None:
        """Return log-weights of labels (N, L), None for zero, with minus infinity where these are not allowed."""
        return log_weights

    def possible(self, log_weights: np.ndarray | None) -> AllowedLabels | None:
        """Return the lists of labels that log-weights (N, L), None for zero, leave; None where these leave all."""
        if log_weights is None or not np.isneginf(log_weights.min(initial=0.0)):
            return None
        return AllowedLabels.of_mask(log_weights > -np.inf)


#: Where there are no lists.
ANY_LABELS = AnyLabels()


@dataclass(frozen=True, eq=False)
class AllowedLabels:
    """Sorted labels of each of N positions, out of ``n_labels``."""

    begin: np.ndarray
    labels: np.ndarray
    n_labels: int

    restrict: ClassVar[bool] = True

    @classmethod
    def of_mask(cls, mask: np.ndarray) -> AllowedLabels:
        """Return the labels that a mask (N, L) allows."""
        return cls(offsets_of(mask.sum(axis=1)), np.nonzero(mask)[1].astype(np.int32), mask.shape[1])

    @classmethod
    def of_sets(cls, sets: Sequence[np.ndarray], which: np.ndarray, n_labels: int) -> AllowedLabels:
        """Return the labels of positions whose set is the one numbered ``which`` (N,)."""
        entries, begin = entries_of(offsets_of(np.array([len(labels) for labels in sets], dtype=np.int64)), which)
        flat = np.concatenate([np.empty(0, np.int32), *sets]).astype(np.int32)
        return cls(begin, flat[entries], n_labels)

    @property
    def n_positions(self) -> int:
        """Number of positions N."""
        return len(self.begin) - 1

    @cached_property
    def rows(self) -> np.ndarray:
        """The position of every entry, (A,)."""
        return np.repeat(np.arange(self.n_positions), np.diff(self.begin))

    @cached_property
    def cells(self) -> np.ndarray:
        """Where every entry stands in a table (N, L) laid out flat, (A,)."""
        return self.rows * np.int64(self.n_labels) + self.labels

    def taken(self, table: np.ndarray) -> np.ndarray:
        """Return the entries of a table (N, L), (A,)."""
        return np.ascontiguousarray(table).reshape(-1).take(self.cells)

    def __getitem__(self, rows: np.ndarray | slice) -> AllowedLabels:
        """Return the lists of some positions: whole numbers (n,), or a slice."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(self.n_positions)
            begin = self.begin[first : last + 1]
            return AllowedLabels(begin - begin[0], self.labels[begin[0] : begin[-1]], self.n_labels)
        entries, begin = entries_of(self.begin, rows)
        return AllowedLabels(begin, self.labels[entries], self.n_labels)

    def kept(self, mask: np.ndarray) -> AllowedLabels:
        """Return the entries of a mask (A,)."""
        return AllowedLabels(offsets_of(mask)[self.begin], self.labels[mask], self.n_labels)

    def check_labels(self, n_labels: int) -> None:
        """Raise ValueError unless the lists are those of a field with so many labels."""
        if self.n_labels != n_labels:
            raise ValueError(f"{self.n_labels} labels may be allowed, and the field has {n_labels}")

    def alike(self, lengths: np.ndarray) -> np.ndarray:
        """Return one of all items that have the same labellings: each has its own."""
        return np.arange(len(lengths))

    def penalized(self, log_weights: np.ndarray | None) -> np.ndarray:
        """Return log-weights of labels (N, L), None for zero, with minus infinity where these are not allowed."""
        return self.penalties() if log_weights is None else log_weights + self.penalties()

    def possible(self, log_weights: np.ndarray | None) -> AllowedLabels:
        """Return the lists of labels that log-weights (N, L), None for zero, leave."""
        return self if log_weights is None else self.kept(self.taken(log_weights) > -np.inf)

    def within(self, labels: np.ndarray) -> np.ndarray:
        """Return a mask of the positions that may have the label given for them, (N,)."""
        return self.places(labels) >= 0

    def places(self, labels: np.ndarray) -> np.ndarray:
        """Return the entry of the label given for each position, (N,), -1 where it is not allowed."""
        # Entries are sorted by position and label, so that one number for both can be searched for.
        keys = self.cells
        wanted = np.arange(self.n_positions) * np.int64(self.n_labels) + labels
        found = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        return np.where(keys[found] == wanted, found, -1) if len(keys) else np.full(len(wanted), -1)

    def admitting(self, labels: np.ndarray) -> AllowedLabels:
        """Return the same with the label given for each position, (N,), among those that are allowed."""
        missing = np.flatnonzero(~self.within(labels))
        if not len(missing):
            return self
        rows = np.concatenate([self.rows, missing])
        both = np.concatenate([self.labels, labels[missing].astype(np.int32)])
        begin = self.begin + offsets_of(np.bincount(missing, minlength=self.n_positions))
        return AllowedLabels(begin, both[np.lexsort((both, rows))], self.n_labels)

    @cached_property
    def step_pairs(self) -> float:
        """The pairs of labels that neighbours may have, for each position: |A_{t-1}| |A_t|, ends of chains included."""
        sizes = np.diff(self.begin).astype(np.float64)
        return float(sizes[:-1] @ sizes[1:]) / max(1, len(sizes) - 1)

    def penalties(self) -> np.ndarray:
        """Return 0 for allowed labels and minus infinity for others, (N, L)."""
        return self.spread(0.0, -np.inf)

    def spread(self, values: np.ndarray | float, elsewhere: float = 0.0) -> np.ndarray:
        """Return numbers of entries (A,) as a table (N, L), with one number for labels that are not allowed."""
        table = np.full((self.n_positions, self.n_labels), elsewhere)
        table.reshape(-1)[self.cells] = values
        return table

    def check(self, offsets: np.ndarray) -> None:
        """Raise ValueError at the first position that may have no label."""
        if (empty := np.flatnonzero(np.diff(self.begin) == 0)).size:
            place = SEQUENCES.place(offsets, int(empty[0]))
            raise ValueError(f"{place}: no label is allowed there. Allow one, or leave the position open.")
