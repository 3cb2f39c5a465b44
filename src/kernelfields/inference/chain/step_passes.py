"""Packed chains step by step: the step-major order, and scaled recursions in it on arrays and tensors.

Sequences are ranked by length, longest first and equal ones in the order given. Step t then is one run of n_t rows, row
k of it the position t of the sequence of rank k, and the positions before them are the first n_t rows of step t - 1: a
recursion over all sequences at once works on slices and gathers nothing.

    rows of step t           begins[t] .. begins[t + 1] - 1,     n_t = counts[t],  n_0 >= n_1 >= ...
    packed to step-major     array[permutation]
    step-major to packed     array[inverse]

Forward-backward and Hessian recursions are those of scaled_compiled.py: a step is a few operations on n_t rows, and
what does not depend on the step before it is computed for all positions at once. An operation has the same name in
NumPy and in PyTorch; the product of rows and tables differs, and is part of the :class:`Library`. Few short sequences
are done in NumPy before a compiler has loaded; on a device, no value is read back.

Arrays: offsets (S + 1,), permutation and inverse (N,), counts (T,), begins (T + 1,), int64, T the largest length; node
(N, L), tables (1, L, L) or (N, L, L), all in step-major order, float64. Cost: one sort of the lengths; O(N L^2) time;
on a device about eight launches for each step of forward-backward and ten of a Hessian product. Raises ValueError for
offsets that do not increase from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.inference.packing import LEAST_PREDICTED, LEAST_SCALE, TINY, ScaledPasses, check_offsets

#: An array of NumPy, or a tensor.
Array = Any
#: Marginals below this bound do not count in a derivative, and their reciprocals would overflow.
LEAST_MARGINAL = 1e-290


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
        """Return packed rows (N, ...) in step-major order; a single shared row unchanged."""
        return rows if len(rows) == 1 else rows[self.permutation]

    def sums(self, rows: Array) -> Array:
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


class Library(NamedTuple):
    """NumPy or PyTorch, and the product of rows (n, L) with tables (n, L, L) or (L, L)."""

    functions: ModuleType
    times: Callable[[Array, Array], Array]


def _times(rows: np.ndarray, tables: np.ndarray) -> np.ndarray:
    # Not a product of matrices: BLAS rounds a row differently with others beside it, and answers would depend on those.
    return (rows[:, :, None] * tables).sum(axis=1)


NUMPY = Library(np, _times)


def _tables(tables: Array, here: slice) -> Array:
    return tables[0] if len(tables) == 1 else tables[here]


def _transposed(tables: Array, here: slice) -> Array:
    return _tables(tables, here).swapaxes(-1, -2)


def forward_backward(
    library: Library, node: Array, transfer: Array, shift: Array, order: StepOrder
) -> tuple[ScaledPasses, Array, Array]:
    """Return the scaled passes, the terms of log Z, (N,), and the mask of doubtful positions, (N,).

    Terms are NaN where doubles do not hold a sum. In doubt are positions of a tiny alpha: it may be that of a forbidden
    label, which :func:`find_underflows` tells.
    """
    functions, times = library
    top = functions.amax(node, axis=1)
    alpha = functions.exp(node - functions.where(functions.isneginf(top), 0.0, top)[:, None])
    predicted, scale, first = functions.zeros_like(alpha), functions.empty_like(top), slice(0, order.n_sequences)
    scale[first] = alpha[first].sum(axis=1)
    alpha[first] /= scale[first, None]
    for here, before in order.pairs:
        predicted[here] = chances = times(alpha[before], _tables(transfer, here))
        rows = alpha[here]
        rows *= chances
        scale[here] = total = rows.sum(axis=1)
        rows /= total[:, None]
    inverse_predicted = functions.where(predicted > LEAST_PREDICTED, 1.0 / predicted, 0.0)
    marginals = alpha + 0.0
    for here, before in reversed(order.pairs):
        marginals[before] *= times(marginals[here] * inverse_predicted[here], _transposed(transfer, here))
    terms = functions.log(scale) + top
    terms[order.n_sequences :] += shift if len(shift) == 1 else shift[order.n_sequences :]
    fine = (scale > LEAST_SCALE) & functions.isfinite(marginals.sum(axis=1))
    low = ~(functions.amin(alpha, axis=1) >= TINY)  # NaN included
    passes = ScaledPasses(transfer, shift, alpha, inverse_predicted, marginals)
    return passes, functions.where(fine, terms, functions.nan), low


def find_underflows(library: Library, node: Array, edge: Array, alpha: Array, order: StepOrder) -> Array:
    """Return the mask of positions, (N,), with an allowed label of tiny probability."""
    reachable = 1.0 * (node > -np.inf)
    for here, before in order.pairs:
        reachable[here] *= library.times(reachable[before], 1.0 * (_tables(edge, here) > -np.inf)) > 0.0
    return ((reachable > 0.0) & (alpha < TINY)).any(axis=1)


def score_expectations(
    library: Library, d_node: Array, moved: Array, passes: ScaledPasses, order: StepOrder, ends: Array, ranks: Array
) -> tuple[Array, Array, Array]:
    """Return past = A, ahead = du + B - E and d_marginals = dm, (N, L) each.

    ``moved`` is T * dw; ``ends`` (S,) and ``ranks`` (N,) are those of the order, where the arrays are.
    """
    functions, times = library
    transfer, _, alpha, inverse_predicted, marginals = passes
    past = d_node + 0.0
    for here, before in order.pairs:
        expected = times(alpha[before] * past[before], _tables(transfer, here))
        expected += times(alpha[before], _tables(moved, here))
        past[here] += expected * inverse_predicted[here]
    mean = (marginals[ends] * past[ends]).sum(axis=1)
    # 1 / future, to be multiplied by what it divides as the recursion comes by; nothing is ahead of an end.
    ahead = functions.where(marginals < LEAST_MARGINAL, 0.0, alpha / marginals)
    ahead[ends] = 0.0
    for here, before in reversed(order.pairs):
        gamma = marginals[here] * inverse_predicted[here]
        expected = times(gamma * (ahead[here] + d_node[here]), _transposed(transfer, here))
        expected += times(gamma, _transposed(moved, here))
        ahead[before] *= expected
    ahead -= mean[ranks][:, None]
    return past, ahead + d_node, marginals * (past + ahead)
