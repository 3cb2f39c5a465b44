"""Spans that labels write: entities of a scheme, runs of a label, segments.

Each label has a type, or is outside of all spans, and may be gone on with (opens) or go on (joins):

    goes_on(a, b)  =  opens(a) and joins(b) and a, b have the same type

A span is a longest run of positions whose neighbours go on with each other.

Arrays: labels (N,) packed, offsets (S + 1,). Cost: O(N), without loops over positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.fields.constraints import Scheme

#: The type of spans whose labels are tags alone.
UNTYPED = "_"


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


def rules_of_scheme(scheme: Scheme, labels: Sequence) -> tuple[SpanRules, list[str]]:
    """Return which labels belong to one span by conlleval's rules, and the sorted types of the labels."""
    tags, kinds = zip(*(scheme.parse(label) for label in labels), strict=True)
    named = [None if tag == "O" else kind or UNTYPED for tag, kind in zip(tags, kinds, strict=True)]
    types = sorted({kind for kind in named if kind is not None})
    numbers = np.array([-1 if kind is None else types.index(kind) for kind in named])
    opens, joins = np.array([tag in "BI" for tag in tags]), np.array([tag in "IEL" for tag in tags])
    return SpanRules(numbers, opens, joins), types


def spans_of_scheme(labels: Sequence[str], scheme: Scheme) -> list[tuple[str, int, int]]:
    """Return type, first position and position after the last of the spans of one sequence."""
    if not labels:
        return []
    classes = sorted(set(labels))
    rules, types = rules_of_scheme(scheme, classes)
    codes = np.array([classes.index(label) for label in labels])
    starts, stops, kinds = (column.tolist() for column in spans_of(codes, np.array([0, len(labels)]), rules))
    return [(types[kind], start, stop) for kind, start, stop in zip(kinds, starts, stops, strict=True)]
