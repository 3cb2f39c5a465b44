"""Random convolutions of sequences of numbers, and their largest values and shares above a threshold.

    z_t = sum over a few columns c of a_c x_tc                      one mixture of columns for each convolution
    o_t = sum over j = 0 .. 8 of w_j z_(t + (j - 4) s)              sum of w_j = 0: levels do not matter, shapes do
    (x_1, ..., x_T)  ->  max of o_t,   share of the t with o_t > b

Weights w are normal numbers less their mean, dilations s are 2^U with U even between 0 and what makes the convolution
as long as a usual sequence, and thresholds b are quantiles, at even levels, of the convolution of one of the sequences
that they are drawn for. Rocket has such weights and dilations, maxima and shares (Dempster, Petitjean and Webb, Data
Mining and Knowledge Discovery 34, 2020, section 3: 10,000 convolutions); MiniRocket such thresholds (the same authors
and Schmidt, KDD 2021, section 3.1). Of a column, a_c is plus or minus one spread.

Beyond its ends a sequence goes on with its first and its last position. A convolution that is ``inner`` has no
position near the ends, where it would see them, unless the sequence is too short for it.

The compiled loops (convolutions_compiled.py) and NumPy add up in the same order and agree in every digit, so that a
reader without a compiler answers the same.

Arrays: rows (N, d) float64, offsets (S + 1,), m convolutions, result (S, 2 m). Cost: O(N m (9 + columns of one)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from kernelfields import numerics
from kernelfields.numerics.stored_arrays import finite_array, whole_array

TAPS = 9
_HALF = TAPS // 2
# Fewer products than this are left to NumPy: loading the compiler takes longer.
_FEW_PRODUCTS = 2**22
# Distances between neighbours in files that are sound.
_LONGEST = 2**24
# Differences of so many units in the last place are rounding.
_ROUNDING = 32.0


@dataclass(frozen=True, eq=False)
class Convolutions:
    """Random convolutions, with a threshold each.

    Parameters
    ----------
    mixtures : array (m, d)
        The weights of columns.
    taps : array (m, 9)
        The weights of neighbours.
    dilations : array (m,)
        The distances between neighbours.
    inner : array (m,) of bool
        Whether positions count only where the convolution is within the sequence.
    thresholds : array (m,)
        The thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.numerics.convolutions import Convolutions
    >>> rows, offsets = np.sin(np.arange(40.0))[:, None], np.array([0, 25, 40])
    >>> Convolutions.draw(np.random.default_rng(0), 3, rows, offsets).pool(rows, offsets).shape
    (2, 6)
    """

    mixtures: np.ndarray
    taps: np.ndarray
    dilations: np.ndarray
    inner: np.ndarray
    thresholds: np.ndarray

    @classmethod
    def draw(cls, random: np.random.Generator, count: int, rows: np.ndarray, offsets: np.ndarray) -> Self:
        """Draw convolutions for sequences.

        Parameters
        ----------
        random : Generator
            The source of randomness.
        count : int
            The number of convolutions.
        rows : array (N, d)
            The rows of the sequences, which give spreads of columns, a usual length, and thresholds.
        offsets : array (S + 1,)
            Where each sequence begins.

        Returns
        -------
        Convolutions
            The convolutions.
        """
        usual = float(np.median(np.diff(offsets)))
        most = np.log2(max(1.0, (usual - 1.0) / (TAPS - 1)))
        scales = _inverse_spreads(rows)
        n_columns = 2.0 ** random.uniform(0.0, np.log2(min(rows.shape[1], TAPS) + 1), size=count)
        mixtures = np.zeros((count, rows.shape[1]))
        for mixture, own in zip(mixtures, n_columns.astype(np.int64).tolist(), strict=True):
            chosen = random.choice(rows.shape[1], size=own, replace=False)
            mixture[chosen] = random.choice([-1.0, 1.0], size=own) * scales[chosen]
        taps = random.normal(size=(count, TAPS))
        taps -= taps.mean(axis=1, keepdims=True)
        dilations = (2.0 ** random.uniform(0.0, most, size=count)).astype(np.int64)
        drawn = cls(mixtures, taps, dilations, random.random(count) < 0.5, np.zeros(count))
        levels, sequences = random.uniform(size=count), random.integers(len(offsets) - 1, size=count)
        for number, (level, sequence) in enumerate(zip(levels, sequences.tolist(), strict=True)):
            values = drawn._convolve(rows[offsets[sequence] : offsets[sequence + 1]], number)
            drawn.thresholds[number] = np.quantile(values, level)
        return drawn

    def __len__(self) -> int:
        return len(self.taps)

    def pool(self, rows: np.ndarray, offsets: np.ndarray, few_products: int = _FEW_PRODUCTS) -> np.ndarray:
        """Return the largest value of each convolution and its share above the threshold, for each sequence.

        Parameters
        ----------
        rows : array (N, d)
            The rows of all sequences, end to end; each has one or more.
        offsets : array (S + 1,)
            Where each sequence begins.
        few_products : int, optional
            Fewer products are left to NumPy.

        Returns
        -------
        array (S, 2 m)
            The maxima, then the shares.
        """
        if rows.size * len(self) * TAPS < few_products:
            return self.pool_plainly(rows, offsets)
        pooled = np.empty((len(offsets) - 1, 2 * len(self)))
        numerics.convolutions_compiled.pool_convolutions(
            np.ascontiguousarray(rows.T), offsets, *vars(self).values(), pooled
        )
        return pooled

    def pool_plainly(self, rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return the result of :meth:`pool`, computed by NumPy alone.

        Parameters
        ----------
        rows : array (N, d)
            The rows of all sequences.
        offsets : array (S + 1,)
            Where each sequence begins.

        Returns
        -------
        array (S, 2 m)
            The maxima, then the shares.
        """
        pooled = np.empty((len(offsets) - 1, 2 * len(self)))
        for row, (first, last) in zip(pooled, pairwise(offsets.tolist()), strict=True):
            for number, threshold in enumerate(self.thresholds):
                values = self._convolve(rows[first:last], number)
                row[number] = values.max()
                row[len(self) + number] = np.count_nonzero(values > threshold) / len(values)
        return pooled

    def _convolve(self, rows: np.ndarray, number: int) -> np.ndarray:
        """Return a convolution of one sequence at its valid positions."""
        mixed = np.zeros(len(rows))
        for column in np.flatnonzero(self.mixtures[number]):
            mixed += self.mixtures[number, column] * rows[:, column]
        dilation = int(self.dilations[number])
        reach = _HALF * dilation
        padded = np.pad(mixed, reach, mode="edge")
        values = np.zeros(len(rows))
        for tap, weight in enumerate(self.taps[number]):
            values += weight * padded[tap * dilation : tap * dilation + len(rows)]
        is_inner = bool(self.inner[number]) and len(rows) > 2 * reach
        return values[reach : len(rows) - reach] if is_inner else values

    def describe(self) -> dict[str, np.ndarray]:
        """Describe the convolutions by arrays, for a model file.

        Returns
        -------
        dict
            The description.
        """
        return {**vars(self), "inner": self.inner.astype(np.int64)}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], n_columns: int) -> Self:
        """Rebuild the convolutions from their description.

        Parameters
        ----------
        described : dict
            What :meth:`describe` returned.
        n_columns : int
            The number of columns.

        Returns
        -------
        Convolutions
            The convolutions.

        Raises
        ------
        ValueError
            If the description is not sound.
        """
        mixtures = finite_array(described["mixtures"], "the weights of columns", (None, n_columns))
        count = len(mixtures)
        taps = finite_array(described["taps"], "the weights of neighbours", (count, TAPS))
        thresholds = finite_array(described["thresholds"], "the thresholds", (count,))
        dilations = whole_array(described["dilations"], "the dilations", (count,), below=_LONGEST, least=1)
        inner = whole_array(described["inner"], "the kinds of convolutions", (count,))
        return cls(mixtures, taps, dilations, inner.astype(bool), thresholds)


def _inverse_spreads(rows: np.ndarray) -> np.ndarray:
    """Return the inverse deviation of each column, 0 for columns that are constant up to rounding."""
    deviation = rows.std(axis=0)
    varying = deviation > _ROUNDING * np.finfo(np.float64).eps * np.abs(rows).max(axis=0)
    return np.divide(1.0, deviation, out=np.zeros(rows.shape[1]), where=varying)
