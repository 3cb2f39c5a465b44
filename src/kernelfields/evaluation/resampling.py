"""Estimates with intervals, by resampling sequences.

    figure = g(sum_i n_i t_i),    n = (1, ..., 1) for the value,    n ~ multinomial(S, 1/S) for each resample

Positions of a sequence depend on each other, so whole sequences are drawn, with replacement (the bootstrap). Every
figure here is a function g of sums over sequences of some statistics t_i (counts, mostly): B resamples of all
figures are one matrix product, (B, S) by (S, K), done for a block of resamples at a time, O(B S K) in all.
An interval holds the middle share, ``confidence``, of the resampled figures. A resample in which a figure is not
defined (a rare label that was not drawn) is left out for that figure. Proportions (accuracies, precision, recall, F1)
have the intervals of intervals.py instead: resamples of a handful of cases are too much alike, those of 1 of 1 all the
same. Where all figures rest on one sequence, the variance between sequences is unknown: there is no interval, its
ends are NaN, and it is shown as "0.500 [–]", like that of a proportion of no cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from kernelfields.data.reading import random_generator
from kernelfields.evaluation.intervals import f1_intervals, wilson_intervals
from kernelfields.numerics.wording import inflect
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import NO_ENDS, Estimate

# Draws and counts of a block of resamples take 24 bytes each.
_BLOCK_COUNTS = 1_000_000
#: Maximal number of unseen labels in a message.
_MOST_UNSEEN = 5


@dataclass(frozen=True)
class ResampledFigures(Shown):
    """Figures with intervals over sequences; ``to_dict()`` returns them for JSON.

    ``nouns`` name an item and a position of it.
    """

    n_sequences: int
    n_tokens: int
    n_resamples: int
    confidence: float
    nouns: tuple[str, str] = field(default=("sequence", "position"), kw_only=True)

    @property
    def shown_nouns(self) -> tuple[str, str]:
        """The nouns for items and for positions; the latter is empty if items have one label."""
        return item_nouns(self.nouns)

    def _size(self, intervals: str, unseen: Mapping[object, int] = MappingProxyType({})) -> str:
        """Describe the size of the data and the method of the intervals.

        Parameters
        ----------
        intervals : how, with places for the number of resamples and what an item is called
        unseen : labels that the fit never saw, with their counts
        """
        whole, part = self.shown_nouns
        words = inflect(self.n_sequences, whole) + (f", {inflect(self.n_tokens, part)}" if part else "")
        if unseen:
            shown = [f"{label!r} ({count:,})" for label, count in unseen.items()][:_MOST_UNSEEN]
            more = f" and {len(unseen) - _MOST_UNSEEN} more" if len(unseen) > _MOST_UNSEEN else ""
            words += f"; labels that the fit never saw, counted as errors: {', '.join(shown)}{more}"
        if not self.n_resamples:
            return words
        if self.n_sequences == 1:
            return f"{words}; no intervals, as resamples of one {whole} are all alike"
        made = f"{100 * self.confidence:g} % intervals {intervals.format(self.n_resamples, whole)}"
        lacking = f", {NO_ENDS} where there is too little to count" if _has_missing_intervals(self.to_dict()) else ""
        return f"{words}; {made}{lacking}"


def item_nouns(nouns: tuple[str, str]) -> tuple[str, str]:
    """Return the nouns for items and for positions."""
    whole, part = nouns
    return whole, "label" if part == "label name" else part


def _has_missing_intervals(values: object) -> bool:
    """Whether a figure among plain values lacks an interval."""
    if isinstance(values, Mapping):
        if "value" in values and "low" in values:
            return values["value"] is not None and values["low"] is None
        return any(map(_has_missing_intervals, values.values()))
    return isinstance(values, list) and any(map(_has_missing_intervals, values))


@dataclass(frozen=True)
class Resampling:
    """The number of resamples, the level of the intervals, and the random state."""

    n_resamples: int = 1000
    confidence: float = 0.95
    random_state: object = None

    def __post_init__(self) -> None:
        count, share = self.n_resamples, self.confidence
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 0:
            raise ValueError(f"n_resamples must be a whole number, 0 for no intervals, got {count!r}")
        if not isinstance(share, int | float | np.number) or not 0 < share < 1:
            raise ValueError(f"confidence must be a number between 0 and 1, such as 0.95, got {share!r}")

    def sums(self, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sum statistics (S, ...) over resampled sequences, (1 + n_resamples, ...); row 0 has all sequences.

        The same resamples serve all statistics, so figures computed from the same rows are paired.
        """
        arrays = {name: np.asarray(values, dtype=np.float64) for name, values in statistics.items()}
        table = np.concatenate([values.reshape(len(values), values[0].size) for values in arrays.values()], axis=1)
        n_sequences = len(table)
        random = random_generator(self.random_state)
        sums = np.empty((1 + self.n_resamples, table.shape[1]))
        sums[0] = table.sum(axis=0)
        block = max(1, _BLOCK_COUNTS // n_sequences)
        for begin in range(1, len(sums), block):
            rows = sums[begin : begin + block]
            np.matmul(_draw_counts(random, len(rows), n_sequences), table, out=rows)
        ends = np.cumsum([values[0].size for values in arrays.values()])
        parts = zip(arrays.items(), np.split(sums, ends[:-1], axis=1), strict=True)
        return {name: part.reshape(len(sums), *values.shape[1:]) for (name, values), part in parts}

    def estimate(
        self, figures: np.ndarray, n_sequences: int, at_least: tuple[float, float] = (np.nan, np.nan)
    ) -> Estimate:
        """Make an estimate of a figure from its value and its resamples, (1 + n_resamples,).

        Parameters
        ----------
        figures : the value in all data, then in each resample; NaN where it is not defined
        n_sequences : number of sequences that the figure rests on; one has no interval
        at_least : ends that the interval reaches at least; NaN for none
        """
        value = 0.0 if np.isnan(figures[0]) else float(figures[0])
        if self.n_resamples == 0:
            return Estimate(value)
        ordered = np.sort(figures[1:][~np.isnan(figures[1:])])
        if n_sequences <= 1 or not ordered.size:
            return Estimate(value, np.nan, np.nan)
        tail = (1 - self.confidence) / 2
        low, high = _quantile(ordered, tail), _quantile(ordered, 1 - tail)
        return Estimate(value, float(np.fmin(low, at_least[0])), float(np.fmax(high, at_least[1])))

    def proportions(self, hits: np.ndarray, cases: np.ndarray) -> list[Estimate]:
        """Estimate the proportions of hits (S, K) among cases (S, K); 0 without cases."""
        total = cases.sum(axis=0)
        values = np.divide(hits.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
        return self._estimates(values, wilson_intervals(hits, cases, self.confidence), len(hits))

    def f1_scores(self, hits: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> list[Estimate]:
        """Estimate the F1 of labels from counts (S, K); 0 if a label is neither predicted nor true."""
        total = (predicted + true).sum(axis=0)
        values = np.divide(2 * hits.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
        return self._estimates(values, f1_intervals(hits, predicted, true, self.confidence), len(hits))

    def _estimates(self, values: np.ndarray, ends: tuple[np.ndarray, np.ndarray], n_sequences: int) -> list[Estimate]:
        if self.n_resamples == 0:
            return [Estimate(value) for value in values.tolist()]
        low, high = (end if n_sequences > 1 else np.full(len(values), np.nan) for end in ends)
        return [Estimate(*parts) for parts in zip(values.tolist(), low.tolist(), high.tolist(), strict=True)]

    def proportion(self, hits: np.ndarray, cases: np.ndarray) -> Estimate:
        """Estimate the proportion of hits (S,) among cases (S,)."""
        return self.proportions(hits[:, None], cases[:, None])[0]


def _draw_counts(random: np.random.Generator, n_resamples: int, n_sequences: int) -> np.ndarray:
    """Draw multiplicities of sequences, (n_resamples, n_sequences) float64; each row sums to S."""
    drawn = random.integers(n_sequences, size=(n_resamples, n_sequences))
    drawn += n_sequences * np.arange(n_resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=drawn.size)
    return counts.reshape(drawn.shape).astype(np.float64)


def _quantile(ordered: np.ndarray, share: float) -> float:
    """Interpolate a quantile of sorted values linearly; minus infinity next to minus infinity."""
    rank = share * (len(ordered) - 1)
    below = int(rank)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    # From minus infinity there is no way up by interpolation.
    return float(low + (rank - below) * (high - low) if np.isfinite(low) else low)
