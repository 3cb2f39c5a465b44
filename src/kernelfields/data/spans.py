"""Spans in labels: entities of a scheme, runs of a label, segments.

Each label has a type, or is outside of all spans, and may be gone on with (opens) or go on (joins):

    goes_on(a, b)  =  opens(a) and joins(b) and a, b have the same type

A span is a longest run of positions whose neighbours go on with each other. Labels that break their scheme are mended
by writing the spans that they make anew: O I-X I-X is O B-X I-X in "bio", B-X O is S-X O in "bioes".

Arrays: labels (N,) packed, offsets (S + 1,). Cost: O(N), without loops over positions; labels are mended in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from kernelfields.data.constraints import Scheme
from kernelfields.numerics.containers import list_entries

#: The type of spans whose labels are tags alone.
UNTYPED = "_"


class SpanRules(NamedTuple):
    """For each label (L,) the number of its type, -1 outside, and whether spans continue after and before it."""

    types: np.ndarray
    opens: np.ndarray
    joins: np.ndarray

    @property
    def goes_on(self) -> np.ndarray:
        """Mask (L, L) of neighbouring labels of one span."""
        same = (self.types[:, None] == self.types) & (self.types >= 0)
        return self.opens[:, None] & self.joins & same


def find_spans(labels: np.ndarray, offsets: np.ndarray, rules: SpanRules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return starts, stops and types of the spans in labels (N,)."""
    types = rules.types[labels]
    goes_on = np.zeros(len(labels) + 1, dtype=bool)  # whether a position, or the end, belongs to the one before
    goes_on[1:-1] = rules.goes_on[labels[:-1], labels[1:]]
    goes_on[offsets] = False
    inside = types >= 0
    starts = np.flatnonzero(inside & ~goes_on[:-1])
    return starts, np.flatnonzero(inside & ~goes_on[1:]) + 1, types[starts]


def rules_of_scheme(scheme: Scheme, labels: Sequence) -> tuple[SpanRules, list[str]]:
    """Return the span rules of labels by conlleval, and the sorted types."""
    tags, kinds = zip(*(scheme.parse(label) for label in labels), strict=True)
    named = [None if tag == "O" else kind or UNTYPED for tag, kind in zip(tags, kinds, strict=True)]
    types = sorted({kind for kind in named if kind is not None})
    numbers = np.array([-1 if kind is None else types.index(kind) for kind in named])
    opens, joins = np.array([tag in "BI" for tag in tags]), np.array([tag in "IEL" for tag in tags])
    return SpanRules(numbers, opens, joins), types


def spans_of_scheme(labels: Sequence[str], scheme: Scheme) -> list[tuple[str, int, int]]:
    """Return type, first position and end of the spans of one sequence."""
    if not labels:
        return []
    classes = sorted(set(labels))
    rules, types = rules_of_scheme(scheme, classes)
    codes = np.array([classes.index(label) for label in labels])
    starts, stops, kinds = (column.tolist() for column in find_spans(codes, np.array([0, len(labels)]), rules))
    return [(types[kind], start, stop) for kind, start, stop in zip(kinds, starts, stops, strict=True)]


class Mended(NamedTuple):
    """A changed label: the numbers of its sequence and position, the old label and the new one."""

    sequence: int
    position: int
    label: str
    new: str


def rewrite_labels(y: Iterable[Iterable | None], scheme: Scheme) -> tuple[list, list[Mended]]:
    """Rewrite labels of sequences by a scheme; return them and the changes.

    Entries that are no single labels, such as None or sets, may be whatever fits. Labels of another form than that of
    the scheme are left to those who check them.
    """
    sequences = [(item, [] if item is None else list_entries(item)) for item in y]
    changed: list[Mended] = []
    if not scheme.matches({entry for _, entries in sequences for entry in entries if isinstance(entry, str)}):
        return [item for item, _ in sequences], changed
    follows = cache(scheme.is_allowed_step)
    found = []
    for number, (item, entries) in enumerate(sequences):
        new = entries if _fits(entries, follows, scheme) else _rewrite_entries(entries, scheme)
        changes = [
            Mended(number, position, label, other)
            for position, (label, other) in enumerate(zip(entries, new, strict=True))
            if isinstance(label, str) and label != other
        ]
        changed += changes
        found.append(new if changes else item)
    return found, changed


def _fits(entries: list, follows: Callable[[str, str | None], bool], scheme: Scheme) -> bool:
    """Whether every step between known labels is allowed."""
    for position, label in enumerate(entries):
        before = entries[position - 1] if position else None
        if isinstance(label, str) and (position == 0 or isinstance(before, str)) and not follows(label, before):
            return False
    return not entries or not isinstance(entries[-1], str) or scheme.is_allowed_end(entries[-1])


def _rewrite_entries(entries: list, scheme: Scheme) -> list:
    """Return the entries of a sequence with the labels of their spans by the scheme."""
    new, begin = list(entries), 0
    for known, run in groupby(entries, lambda entry: isinstance(entry, str)):
        labels = list(run)
        end = begin + len(labels)
        if known:
            # Beside an entry that is not known, a span may go on beyond the labels.
            before = _find_neighbour(scheme.after, labels[0]) if begin else []
            after = _find_neighbour(scheme.before, labels[-1]) if end < len(entries) else []
            padded = [*before, *labels, *after]
            new[begin:end] = _tagged(padded, scheme)[len(before) : len(padded) - len(after)]
        begin = end
    return new


def _find_neighbour(needed: dict[str, str], label: str) -> list[str]:
    """Return the required neighbour of a label as a list; empty if the label may be alone."""
    nearest = [other for other in needed.get(label[0], "") if other not in needed]
    return [nearest[0] + label[1:]] if nearest else []


def _tagged(labels: list[str], scheme: Scheme) -> list[str]:
    tags = ["O"] * len(labels)
    stop_before, kind_before = -1, ""
    for kind, start, stop in spans_of_scheme(labels, scheme):
        tags[start:stop] = scheme.span_tags(stop - start, touching=(stop_before, kind_before) == (start, kind))
        stop_before, kind_before = stop, kind
    return [tag if tag == "O" else tag + label[1:] for tag, label in zip(tags, labels, strict=True)]
