"""Fingerprints of the items of a fit, by which items of the fit are recognised.

Each item has a mark, a hash of 64 bits of its length and of up to four of its rows, of dense ones up to 16 columns:

    h(x) = sum_j mix(bits of x_j) c_j        mark = mix(length) + sum_r mix(h(x_r) + r c)        (modulo 2^64)

with mix(0) = 0, so that zeros that sparse rows store do not count. Of the fraction of a number the first 12 bits count,
rounded: inputs that were cast, as to float32, are the same items. The smallest ``MOST`` marks are kept: an item whose
mark lies below the largest of these was in the fit exactly if its mark is among them. Where items are often equal,
equal marks mean little, so the share of training items with a twin is kept as well:

    share = (share of items whose mark is kept - twins) / (1 - twins)

Arrays: marks (m,) uint64, rising. Cost: O(S), four rows of each item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from kernelfields.numerics.parameters import is_whole

#: How many marks are kept, and how many rows and dense columns of an item decide its mark.
MOST, ROWS, COLUMNS = 2048, 4, 16
#: How many bits of the fraction of a number count, and how many did in files that do not say.
BITS, _ALL_BITS = 12, 52
_STEP = 0x9E3779B97F4A7C15
_LAST = np.iinfo(np.uint64).max


class Fingerprint(NamedTuple):
    """The smallest hashes of some items, the number of items, and the share of duplicates.

    ``bits`` of the fraction of numbers count in marks.
    """

    marks: np.ndarray
    n_items: int
    twins: float
    bits: int = BITS

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Fingerprint:
        """Rebuild the fingerprint of a model file; ValueError if it is not sound."""
        marks, n_items, twins = np.asarray(described["marks"]), described["n_items"], described["twins"]
        rising = marks.ndim == 1 and len(marks) <= MOST and bool((marks[1:] > marks[:-1]).all())
        if marks.dtype != np.uint64 or not rising or not is_whole(n_items) or not 0.0 <= twins <= 1.0:
            raise ValueError("the marks of the items that it was fitted to are none")
        bits = described.get("bits", _ALL_BITS)
        if not is_whole(bits) or not 1 <= bits <= _ALL_BITS:
            raise ValueError(f"the marks of items count bits from 1 to {_ALL_BITS}, got {bits!r:.60}")
        return cls(marks, int(n_items), float(twins), int(bits))

    def with_items(self, data: Any) -> Fingerprint:
        """Add the labelled items of packed data to the fingerprint."""
        other = fingerprint(data, self.bits)
        n_items = self.n_items + other.n_items
        twins = (self.n_items * self.twins + other.n_items * other.twins) / max(n_items, 1)
        return Fingerprint(np.union1d(self.marks, other.marks)[:MOST], n_items, twins, self.bits)

    def share(self, data: Any) -> float:
        """Return the share of items of packed data that are in the fingerprint, less the share by chance."""
        marks, last = mark_items(data, self.bits), self.marks[-1] if len(self.marks) == MOST else _LAST
        comparable = marks[marks <= last]
        if not len(comparable) or self.twins == 1.0:
            return 0.0
        found = float(np.isin(comparable, self.marks).mean())
        return max(0.0, (found - self.twins) / (1.0 - self.twins))


def fingerprint(data: Any, bits: int = BITS) -> Fingerprint:
    """Return the fingerprint of the labelled items of packed data."""
    marks = mark_items(data, bits)
    if data.labels is not None:
        # Items of which no label was known were not in the fit.
        items = np.repeat(np.arange(len(data.offsets) - 1), np.diff(data.offsets))
        known = np.bincount(items, data.given.informative(), minlength=len(data.offsets) - 1)
        marks = marks[known[np.diff(data.offsets) > 0] > 0]
    kept, counts = np.unique(marks, return_counts=True)
    twins = float(counts[counts > 1].sum() / max(len(marks), 1))
    return Fingerprint(kept[:MOST], len(marks), twins, bits)


def mark_items(data: Any, bits: int = BITS) -> np.ndarray:
    """Return the hash of each item of packed data with positions, (S,) uint64."""
    inputs, offsets = data.inputs, data.offsets
    if inputs.shape[0] != offsets[-1]:  # instances, whose labels share one row
        offsets = np.arange(inputs.shape[0] + 1)
    lengths = np.diff(offsets)
    begins, lengths = offsets[:-1][lengths > 0], lengths[lengths > 0]
    marks = _mix_bits(lengths.astype(np.uint64))
    for place in range(ROWS):
        rows = _row_marks(inputs, begins + place * lengths // ROWS, bits)
        marks += _mix_bits(rows + np.uint64(place * _STEP % 2**64))
    return marks


def _row_marks(inputs: Any, rows: np.ndarray, bits: int) -> np.ndarray:
    """Return the hashes of rows of dense or sparse inputs, (n,)."""
    if not scipy.sparse.issparse(inputs):
        width = inputs.shape[1]
        columns = np.arange(min(width, COLUMNS)) * width // COLUMNS if width > COLUMNS else np.arange(width)
        return (_mix_bits(_round_bits(inputs[np.ix_(rows, columns)], bits)) * _factors(columns)).sum(
            axis=1, dtype=np.uint64
        )
    chosen = scipy.sparse.csr_array(inputs[rows])
    chosen.sum_duplicates()
    products = _mix_bits(_round_bits(chosen.data, bits)) * _factors(chosen.indices)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(products, dtype=np.uint64)])
    return sums[chosen.indptr[1:]] - sums[chosen.indptr[:-1]]


def _round_bits(values: np.ndarray, bits: int) -> np.ndarray:
    """Round the fractions of numbers to the first ``bits``, and return them as integers of 64 bits."""
    # Minus zero is zero.
    whole, rest = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64), np.uint64(_ALL_BITS - bits)
    half = np.uint64(1) << rest >> np.uint64(1)
    return (whole + half) >> rest << rest


def _factors(columns: np.ndarray) -> np.ndarray:
    return _mix_bits((columns.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP)) | np.uint64(1)


def _mix_bits(values: np.ndarray) -> np.ndarray:
    """Mix integers of 64 bits (splitmix64): a change of one bit changes about half of the bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
