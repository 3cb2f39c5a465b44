"""Step-major order of packed sequences: all first positions, then all second positions, and so on.

Sequences are ranked by length, longest first and equal ones in the order given. Step t then is one run of n_t
rows, row k of it the position t of the sequence of rank k, and the positions before them are the first n_t rows of
step t - 1: a recursion over all sequences at once works on slices and gathers nothing.

    rows of step t           begins[t] .. begins[t + 1] - 1,     n_t = counts[t],  n_0 >= n_1 >= ...
    packed to step-major     array[permutation]
    step-major to packed     array[inverse]

Arrays: offsets (S + 1,), permutation and inverse (N,), counts (T,), begins (T + 1,), int64; T is the largest
length. Cost: O(N) and one sort of the lengths. Fails: ValueError for offsets that do not increase from zero.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.inference.packing import check_offsets


class StepOrder:
    """The step-major order of packed sequences."""

    def __init__(self, offsets: ArrayLike):
        given = np.asarray(offsets)
        self.offsets = check_offsets(given, int(given[-1]) if given.ndim == 1 and given.size else 0)
        lengths = np.diff(self.offsets)
        #: Which sequence has rank k, (S,).
        self.sequences = np.argsort(-lengths, kind="stable")
        #: Lengths by rank, (S,), longest first.
        self.lengths = lengths[self.sequences]
        longest = int(self.lengths[0]) if len(lengths) else 0
        # Lengths fall, so the sequences that have a position t are the first n_t.
        self.counts = np.searchsorted(-self.lengths, -np.arange(longest), side="left")
        self.begins = np.concatenate([[0], np.cumsum(self.counts)])
        steps = np.repeat(np.arange(longest), self.counts)
        #: Rank of the sequence of every row, (N,).
        self.ranks = np.arange(self.n_positions) - self.begins[steps]
        self.permutation = self.offsets[self.sequences[self.ranks]] + steps
        self.inverse = np.empty_like(self.permutation)
        self.inverse[self.permutation] = np.arange(self.n_positions)

    @property
    def n_positions(self) -> int:
        """Number of positions N."""
        return int(self.offsets[-1])

    @property
    def n_sequences(self) -> int:
        """Number of sequences S; they start in the rows 0 .. S - 1."""
        return len(self.lengths)

    @property
    def n_steps(self) -> int:
        """Number of steps T, the length of the longest sequence."""
        return len(self.counts)

    @cached_property
    def pairs(self) -> list[tuple[slice, slice]]:
        """Rows of step t and the rows before them, for t = 1, 2, ..."""
        return [
            (slice(first, last), slice(before, before + last - first))
            for (before, first), (_, last) in pairwise(pairwise(self.begins.tolist()))
        ]

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """Return packed rows (N, ...) in step-major order; one row for all positions as it is."""
        return rows if len(rows) == 1 else rows[self.permutation]

    def sums(self, rows: Any) -> Any:
        """Return the sum of one number per row (N,), an array or a tensor, over every sequence, by rank, (S,)."""
        totals = rows[: self.n_sequences] + 0.0
        for here, _ in self.pairs:
            totals[: here.stop - here.start] += rows[here]
        return totals

    @cached_property
    def ends(self) -> np.ndarray:
        """Row of the last position of every sequence, by rank, (S,)."""
        return self.begins[self.lengths - 1] + np.arange(self.n_sequences)

    @cached_property
    def links(self) -> list[tuple[int, int, int]]:
        """Neighbours as runs (before, after, count): row before + k comes before row after + k.

        Steps with as many rows as the one before them are joined to one run: the list is as long as there are
        different lengths, at most twice, however long the sequences are.
        """
        links: list[tuple[int, int, int]] = []
        for t in range(1, self.n_steps):
            before, after, count = int(self.begins[t - 1]), int(self.begins[t]), int(self.counts[t])
            if links:
                last_before, last_after, last_count = links[-1]
                if before == last_before + last_count and after == last_after + last_count:
                    links[-1] = (last_before, last_after, last_count + count)
                    continue
            links.append((before, after, count))
        return links
