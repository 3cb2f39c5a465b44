"""Figures with intervals, by resampling sequences.

    figure = g(sum_i n_i t_i),    n = (1, ..., 1) for the value,    n ~ multinomial(S, 1/S) for each resample

Positions of a sequence depend on each other, so whole sequences are drawn, with replacement (the bootstrap). Every
figure here is a function g of sums over sequences of some statistics t_i (counts, mostly): B resamples of all
figures are one matrix product, (B, S) by (S, K), done for a block of resamples at a time, O(B S K) in all.
An interval holds the middle share, ``confidence``, of the resampled figures. A resample in which a figure is not
defined (a rare label that was not drawn) is left out for that figure. Shares (accuracies, precision, recall, F1) have
the intervals of shares.py instead: resamples of a handful of cases are too much alike, those of 1 of 1 all the same.
Where all figures rest on one sequence, nothing is known of how sequences differ: there is no interval, NaN for its
ends, and it is shown as "0.500 [–]", like that of a share of nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelfields.evaluation.shares import share_interval
from kernelfields.fields.reading import random_generator
from kernelfields.reports.page import Shown
from kernelfields.reports.report import INTERVALS, data_words
from kernelfields.reports.tables import Estimate, Table

# Draws and counts of a block of resamples take 24 bytes each.
_BLOCK_COUNTS = 1_000_000


@dataclass(frozen=True)
class ResampledFigures(Shown):
    """What figures of sequences rest on; print them, show them in a notebook, or take ``to_dict()`` for JSON."""

    n_sequences: int
    n_tokens: int
    n_resamples: int
    confidence: float

    #: How the intervals were computed, with a place for the number of resamples.
    _intervals: ClassVar[str] = INTERVALS

    def parts(self) -> list[str | Table]:
        """Return the size of the data, and the tables below it."""
        return [data_words(self.to_dict(), self._intervals), *self._tables()]

    def _tables(self) -> list[Table]:
        raise NotImplementedError


@dataclass(frozen=True)
class Resampling:
    """How often to resample, which share of the resampled figures an interval holds, and the random state."""

    n_resamples: int = 1000
    confidence: float = 0.95
    random_state: Any = None

    def __post_init__(self) -> None:
        count, share = self.n_resamples, self.confidence
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 0:
            raise ValueError(f"n_resamples must be a whole number, 0 for no intervals, got {count!r}")
        if not isinstance(share, int | float | np.number) or not 0 < share < 1:
            raise ValueError(f"confidence must be a number between 0 and 1, such as 0.95, got {share!r}")

    def sums(self, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sum statistics (S, K) over sequences: (1 + n_resamples, K) each, all sequences in the first row.

        The same resamples serve all statistics, so figures computed from the same rows are paired.
        """
        table = np.column_stack([np.asarray(each, dtype=np.float64) for each in statistics.values()])
        n_sequences = len(table)
        random = random_generator(self.random_state)
        sums = np.empty((1 + self.n_resamples, table.shape[1]))
        sums[0] = table.sum(axis=0)
        block = max(1, _BLOCK_COUNTS // n_sequences)
        for begin in range(1, len(sums), block):
            rows = sums[begin : begin + block]
            np.matmul(_draw_counts(random, len(rows), n_sequences), table, out=rows)
        ends = np.cumsum([each.shape[1] if each.ndim == 2 else 1 for each in statistics.values()])
        return dict(zip(statistics, np.split(sums, ends[:-1], axis=1), strict=True))

    def estimates(self, figures: np.ndarray, holders: Any) -> list[Estimate]:
        """Turn figures (1 + n_resamples, K), the value first, into K estimates. NaN marks what is not defined.

        ``holders`` (K,), or one number for all, says on how many sequences each figure rests.
        """
        values = np.where(np.isnan(figures[0]), 0.0, figures[0]).tolist()
        if self.n_resamples == 0:
            return [Estimate(value) for value in values]
        resampled = np.sort(figures[1:], axis=0)  # NaN comes last
        defined = np.sum(~np.isnan(resampled), axis=0)
        tail = (1 - self.confidence) / 2
        low, high = (_quantile(resampled, defined, share) for share in (tail, 1 - tail))
        known = (np.broadcast_to(holders, defined.shape) > 1) & (defined > 0)
        ends = zip(values, low.tolist(), high.tolist(), known.tolist(), strict=True)
        return [Estimate(value, a, b) if spread else Estimate(value, np.nan, np.nan) for value, a, b, spread in ends]

    def shares(self, values: np.ndarray, ends: tuple[np.ndarray, np.ndarray], n_sequences: int) -> list[Estimate]:
        """Return shares (K,), NaN for what is not defined, with the ends of their intervals (shares.py)."""
        known = np.where(np.isnan(values), 0.0, values).tolist()
        if self.n_resamples == 0:
            return [Estimate(value) for value in known]
        if n_sequences == 1:
            return [Estimate(value, np.nan, np.nan) for value in known]
        return [Estimate(*each) for each in zip(known, *(end.tolist() for end in ends), strict=True)]

    def share(self, hits: np.ndarray, cases: np.ndarray) -> Estimate:
        """Return the share of all cases (S,) that are hits (S,)."""
        ends = share_interval(hits[:, None], cases[:, None], self.confidence)
        return self.shares(np.array([hits.sum() / cases.sum()]), ends, len(hits))[0]

    def widened(self, figures: np.ndarray, n_sequences: int, ends: tuple[float, float]) -> Estimate:
        """Return an estimate whose interval reaches at least from one of ``ends`` to the other, NaN for unknown."""
        found = self.estimate(figures, n_sequences)
        if found.low is None or found.high is None or n_sequences == 1:
            return found
        return Estimate(found.value, float(np.fmin(found.low, ends[0])), float(np.fmax(found.high, ends[1])))

    def estimate(self, figures: np.ndarray, holders: int) -> Estimate:
        """Turn the figures (1 + n_resamples,) of one kind, which rests on ``holders`` sequences, into an estimate."""
        return self.estimates(figures[:, None], holders)[0]


def _draw_counts(random: np.random.Generator, n_resamples: int, n_sequences: int) -> np.ndarray:
    """Return how often each sequence is drawn, (n_resamples, n_sequences) float64, rows adding up to S."""
    drawn = random.integers(n_sequences, size=(n_resamples, n_sequences))
    drawn += n_sequences * np.arange(n_resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=drawn.size)
    return counts.reshape(drawn.shape).astype(np.float64)


def _quantile(ordered: np.ndarray, defined: np.ndarray, share: float) -> np.ndarray:
    """Linear interpolation among the first ``defined`` entries of each column of ordered (B, K)."""
    place = np.maximum(share * (defined - 1), 0.0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(defined - 1, 0))
    columns = np.arange(ordered.shape[1])
    low, high = ordered[below, columns], ordered[above, columns]
    # From minus infinity there is no way up by interpolation.
    step = np.subtract(high, low, out=np.zeros(len(columns)), where=np.isfinite(low))
    return low + (place - below) * step
