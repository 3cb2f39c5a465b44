"""The passes of scaled_compiled.py for few short chains, in NumPy: all sequences take a step at a time.

A fit to few data ends long before a compiler has loaded. Equations and arrays are those of scaled_compiled.py; here
positions are in the order of their steps, and sequences by length, so that a step is a few operations on neighbours.
There are no passes for labels that are forbidden, or as good as impossible: the caller then takes the compiled ones.
Cost: O(N L^2), some microseconds for each step.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kernelfields.inference.packing import LEAST_PREDICTED, LEAST_SCALE, TINY, ScaledPasses

# Positions of the longest sequence, and potentials of positions, up to which the compiler does not pay.
_MOST_STEPS, _MOST_VALUES = 16, 2**13


class ShortChains:
    """Positions of packed chains, step by step."""

    def __init__(self, offsets: np.ndarray):
        lengths = np.diff(offsets)
        ranked = np.argsort(-lengths, kind="stable")
        counts = np.searchsorted(-lengths[ranked], -np.arange(lengths.max()), side="left")
        cuts = np.concatenate([[0], np.cumsum(counts)]).tolist()
        #: Rows of positions in the order of their steps, (N,).
        self.order = np.concatenate([offsets[ranked[:count]] + t for t, count in enumerate(counts)])
        self.n_sequences = len(lengths)
        self._offsets = offsets
        # For each step the places of its positions in this order, and of those before them; all of these, (N - S,).
        self._steps = [
            (slice(here, end), slice(before, before + end - here))
            for (before, here), (_, end) in zip(pairwise(cuts), pairwise(cuts[1:]), strict=False)
        ]
        self._before = np.concatenate([np.arange(own.start, own.stop) for _, own in self._steps] or [self.order[:0]])

    @classmethod
    def of(cls, offsets: np.ndarray, n_labels: int) -> ShortChains | None:
        """Return the steps of chains that are few and short, None for others."""
        small = 0 < offsets[-1] * n_labels <= _MOST_VALUES and np.diff(offsets).max(initial=0) <= _MOST_STEPS
        return cls(offsets) if small else None

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")  # what is no number is found below
    def forward_backward(self, node: np.ndarray, passes: ScaledPasses, log_partition: np.ndarray) -> bool:
        """Fill the arrays for potentials without minus infinity; False where doubles do not do."""
        transfer, scores = self._tables(passes.transfer), node[self.order]
        top = scores.max(axis=1)
        alpha = np.exp(scores - top[:, None])
        scale, predicted = alpha.sum(axis=1), np.ones_like(alpha)
        alpha[: self.n_sequences] /= scale[: self.n_sequences, None]
        for here, before in self._steps:
            now, total = alpha[here], scale[here]
            now *= _forward(alpha[before], transfer, here, predicted[here])
            np.add.reduce(now, axis=1, out=total)
            now /= total[:, None]
        if not (scale.min() > LEAST_SCALE and alpha.min() >= TINY and predicted.min() > LEAST_PREDICTED):
            return False
        inverse = 1.0 / predicted
        inverse[: self.n_sequences] = 0.0
        marginals = alpha.copy()
        for here, before in reversed(self._steps):
            earlier = marginals[before]
            earlier *= _backward(marginals[here] * inverse[here], transfer, here)
        passes.alpha[self.order], passes.inverse_predicted[self.order] = alpha, inverse
        passes.marginals[self.order] = marginals
        scale = np.log(scale) + top
        scale[self.n_sequences :] += (
            passes.shift if len(passes.shift) == 1 else passes.shift[self.order[self.n_sequences :]]
        )
        log_partition[:] = np.add.reduceat(self._as_given(scale), self._offsets[:-1])
        return bool(np.isfinite(marginals).all())

    def score_expectations(
        self, d_node: np.ndarray, moved: np.ndarray, passes: ScaledPasses
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return past = A, ahead = du + B - E and d_marginals = dm, (N, L) each; moved is T * dw."""
        transfer, moved = self._tables(passes.transfer), self._tables(moved)
        alpha, marginals, change = passes.alpha[self.order], passes.marginals[self.order], d_node[self.order]
        inverse = passes.inverse_predicted[self.order]
        before, here = self._before, slice(self.n_sequences, None)
        # alpha A, whose recursion needs one product a step.
        past = alpha * change
        weights = alpha * inverse
        past[here] += weights[here] * _forward(alpha[before], moved, here)
        for step, earlier in self._steps:
            now = past[step]
            now += weights[step] * _forward(past[earlier], transfer, step)
        past /= alpha
        # gamma (du + B) likewise. 1 / future: a label of probability zero has no use for its expectation.
        gamma, ahead = marginals * inverse, np.zeros_like(change)
        inverse_future = np.divide(alpha, marginals, out=np.zeros_like(alpha), where=marginals > 0.0)
        ahead[before] = inverse_future[before] * _backward(gamma[here], moved, here)
        later = gamma * (change + ahead)
        weights = gamma * inverse_future
        for step, earlier in reversed(self._steps):
            now = later[earlier]
            now += weights[earlier] * _backward(later[step], transfer, step)
        ahead[before] += inverse_future[before] * _backward(later[here], transfer, here)
        past, ahead = self._as_given(past), self._as_given(ahead)
        ends = self._offsets[1:] - 1
        mean = (passes.marginals[ends] * past[ends]).sum(axis=1)
        ahead -= np.repeat(mean, np.diff(self._offsets))[:, None]
        return past, ahead + d_node, passes.marginals * (past + ahead)

    def _tables(self, tables: np.ndarray) -> np.ndarray:
        return tables[0] if len(tables) == 1 else tables[self.order]

    def _as_given(self, rows: np.ndarray) -> np.ndarray:
        given = np.empty_like(rows)
        given[self.order] = rows
        return given


def _forward(rows: np.ndarray, tables: np.ndarray, here: slice, out: np.ndarray | None = None) -> np.ndarray:
    """Return sum_a rows[a] tables[a, b], (n, L)."""
    if tables.ndim == 2:
        return np.matmul(rows, tables, out=out)
    return np.matmul(rows[:, None, :], tables[here], out=None if out is None else out[:, None, :])[:, 0]


def _backward(rows: np.ndarray, tables: np.ndarray, here: slice) -> np.ndarray:
    """Return sum_b tables[a, b] rows[b], (n, L)."""
    return rows @ tables.T if tables.ndim == 2 else (tables[here] @ rows[:, :, None])[:, :, 0]
