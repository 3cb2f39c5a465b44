"""Spans that labels write: entities of a scheme, runs of a label, segments.

Each label has a type, or is outside of all spans, and may be gone on with (opens) or go on (joins):

    goes_on(a, b)  =  opens(a) and joins(b) and a, b have the same type

A span is a longest run of positions whose neighbours go on with each other.

Arrays: labels (N,) packed, offsets (S + 1,). Cost: O(N), without loops over positions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SpanRules(NamedTuple):
    """Of each label (L,): the number of its type, -1 outside; whether a span may go on after it, and before it."""

    types: np.ndarray
    opens: np.ndarray
    joins: np.ndarray

    @property
    def goes_on(self) -> np.ndarray:
        """Which labels (L, L) belong to one span as neighbours."""
        same = (self.types[:, None] == self.types) & (self.types >= 0)
        return self.opens[:, None] & self.joins & same


def spans_of(labels: np.ndarray, offsets: np.ndarray, rules: SpanRules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return starts, stops and types of the spans that labels (N,) write."""
    types = rules.types[labels]
    goes_on = np.zeros(len(labels) + 1, dtype=bool)  # whether a position, or the end, belongs to the one before
    goes_on[1:-1] = rules.goes_on[labels[:-1], labels[1:]]
    goes_on[offsets] = False
    inside = types >= 0
    starts = np.flatnonzero(inside & ~goes_on[:-1])
    return starts, np.flatnonzero(inside & ~goes_on[1:]) + 1, types[starts]
