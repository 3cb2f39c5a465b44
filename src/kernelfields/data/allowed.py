"""Allowed labels: for each position the labels that it may have, as ragged lists.

    position t may have labels[begin[t] : begin[t + 1]], which are sorted

Arrays: begin (N + 1,) int64, labels (A,) int32. They hold for the field itself: its normaliser sums over allowed
labels only. Partial labels (partial_labels.py) instead concern the labels of a field that may have others. Inference
costs sum_t |A_{t-1}| |A_t|. Raises ValueError naming the position that is left without labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from kernelfields.data.reading import SEQUENCES
from kernelfields.numerics.sparse_rows import gather_entries, make_offsets


@dataclass(frozen=True, eq=False)
class AllowedLabels:
    """Sorted labels of each of N positions, out of ``n_labels``."""

    begin: np.ndarray
    labels: np.ndarray
    n_labels: int

    restrict: ClassVar[bool] = True

    @classmethod
    def from_mask(cls, mask: np.ndarray) -> AllowedLabels:
        """Make lists from a mask (N, L) of allowed labels."""
        return cls(make_offsets(mask.sum(axis=1)), np.nonzero(mask)[1].astype(np.int32), mask.shape[1])

    @classmethod
    def from_sets(cls, sets: Sequence[np.ndarray], which: np.ndarray, n_labels: int) -> AllowedLabels:
        """Make lists from the numbers (N,) of the sets of labels at each position."""
        entries, begin = gather_entries(make_offsets(np.array([len(labels) for labels in sets], dtype=np.int64)), which)
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
        """Flat index of every entry in a table (N, L), (A,)."""
        return self.rows * np.int64(self.n_labels) + self.labels

    def gather(self, table: np.ndarray) -> np.ndarray:
        """Gather the entries (A,) of a table (N, L)."""
        return np.ascontiguousarray(table).reshape(-1).take(self.cells)

    def __getitem__(self, rows: np.ndarray | slice) -> AllowedLabels:
        """Return the lists of some positions: whole numbers (n,), or a slice."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(self.n_positions)
            begin = self.begin[first : last + 1]
            return AllowedLabels(begin - begin[0], self.labels[begin[0] : begin[-1]], self.n_labels)
        entries, begin = gather_entries(self.begin, rows)
        return AllowedLabels(begin, self.labels[entries], self.n_labels)

    def select(self, mask: np.ndarray) -> AllowedLabels:
        """Select entries by a mask (A,)."""
        return AllowedLabels(make_offsets(mask)[self.begin], self.labels[mask], self.n_labels)

    def without_barred(
        self, everywhere: np.ndarray, first: np.ndarray, last: np.ndarray, offsets: np.ndarray
    ) -> AllowedLabels:
        """Return the lists without labels of negative penalty (L,): everywhere, first or last in the items."""
        is_start, is_end = np.zeros((2, self.n_positions), dtype=bool)
        is_start[offsets[:-1]] = is_end[offsets[1:] - 1] = True
        barred = everywhere[self.labels] < 0
        barred |= is_start[self.rows] & (first[self.labels] < 0)
        barred |= is_end[self.rows] & (last[self.labels] < 0)
        return self.select(~barred) if barred.any() else self

    def check_labels(self, n_labels: int) -> None:
        """Raise ValueError unless the lists belong to a field with ``n_labels`` labels."""
        if self.n_labels != n_labels:
            raise ValueError(f"{self.n_labels} labels may be allowed, and the field has {n_labels}")

    def representatives(self, lengths: np.ndarray) -> np.ndarray:
        """Return all items: each has labellings of its own."""
        return np.arange(len(lengths))

    def penalize(self, log_weights: np.ndarray | None) -> np.ndarray:
        """Return log-weights of labels (N, L) with minus infinity for labels that are not allowed."""
        return self.penalties() if log_weights is None else log_weights + self.penalties()

    def possible(self, log_weights: np.ndarray | None) -> AllowedLabels:
        """Return the allowed labels of finite log-weight (N, L) as lists."""
        return self if log_weights is None else self.select(self.gather(log_weights) > -np.inf)

    def is_allowed(self, labels: np.ndarray) -> np.ndarray:
        """Return a mask (N,) of positions whose given label is allowed."""
        return self.places(labels) >= 0

    def places(self, labels: np.ndarray) -> np.ndarray:
        """Return the entry of the given label of each position, (N,); -1 for labels that are not allowed."""
        # Entries are sorted by position and label, so that one number for both can be searched for.
        keys = self.cells
        wanted = np.arange(self.n_positions) * np.int64(self.n_labels) + labels
        found = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        return np.where(keys[found] == wanted, found, -1) if len(keys) else np.full(len(wanted), -1)

    def with_allowed(self, labels: np.ndarray) -> AllowedLabels:
        """Add the given label (N,) of each position to the allowed labels."""
        missing = np.flatnonzero(~self.is_allowed(labels))
        if not len(missing):
            return self
        rows = np.concatenate([self.rows, missing])
        both = np.concatenate([self.labels, labels[missing].astype(np.int32)])
        begin = self.begin + make_offsets(np.bincount(missing, minlength=self.n_positions))
        return AllowedLabels(begin, both[np.lexsort((both, rows))], self.n_labels)

    @cached_property
    def step_pairs(self) -> float:
        """Number of pairs of allowed labels of neighbours, |A_{t-1}| |A_t|, ends of chains included."""
        sizes = np.diff(self.begin).astype(np.float64)
        return float(sizes[:-1] @ sizes[1:]) / max(1, len(sizes) - 1)

    def penalties(self) -> np.ndarray:
        """Return 0 for allowed labels and minus infinity for others, (N, L)."""
        return self.scatter(0.0, -np.inf)

    def scatter(self, values: np.ndarray | float, elsewhere: float = 0.0) -> np.ndarray:
        """Scatter entries (A,) into a table (N, L) filled with one number elsewhere."""
        table = np.full((self.n_positions, self.n_labels), elsewhere)
        table.reshape(-1)[self.cells] = values
        return table

    def check(self, offsets: np.ndarray) -> None:
        """Raise ValueError at the first position that may have no label."""
        if (empty := np.flatnonzero(np.diff(self.begin) == 0)).size:
            place = SEQUENCES.place(offsets, int(empty[0]))
            raise ValueError(f"{place}: no label is allowed there. Allow one, or leave the position open.")
