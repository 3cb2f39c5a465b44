"""Some thousand positions at once to names and weights, without a Python step per feature.

The names of all features of a chunk become one text, the weights one array. Chunks of plain dicts, or of lists or
tuples of strings, are read by built-in functions that run over all features; what they cannot read, such as nested
values or chunks of both kinds, is left to position_features.py, which also says what is wrong and where. Cost: a
few flat buffers of the size of a chunk.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, pairwise
from typing import Any, NamedTuple

import numpy as np

from kernelfields.features.name_table import NAME_END, NameText, join_names, split_names
from kernelfields.features.position_features import SEPARATOR, features_of

_TEXTS = {str, np.str_}
_NUMBERS = {bool, int, float, np.bool_} | {
    np.dtype(code).type for code in np.typecodes["AllInteger"] + np.typecodes["Float"]
}
#: Strings are joined in parts so small that they are still near the processor when they are read again.
_POSITIONS_PER_PART = 128
#: Dicts are read key by key where a key has at least so many values on average.
_VALUES_PER_KEY = 16
#: A name, the entries of the chunk that have it, and their values.
_Column = tuple[Any, np.ndarray, list]


class Chunk(NamedTuple):
    """Features of consecutive positions: names (n,), weights (n,) or None if all are 1, counts per position."""

    names: NameText
    weights: np.ndarray | None
    counts: np.ndarray

    def select(self, chosen: np.ndarray) -> Chunk:
        """Return the features marked in ``chosen``."""
        weights = None if self.weights is None else self.weights[chosen]
        return Chunk(self.names.select(chosen), weights, kept_counts(self.counts, chosen))


def kept_counts(counts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return how many of each position's features are marked in ``chosen``."""
    before = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(chosen, out=before[1:])
    ends = np.cumsum(counts)
    return before[ends] - before[ends - counts]


def read_chunk(positions: list, place: Callable[[int], str]) -> Chunk:
    """Return the features of positions; ``place`` names a position in messages of errors."""
    kinds = set(map(type, positions))
    chunk = None
    if kinds == {dict}:
        chunk = _read_dicts(positions)
    elif kinds <= {list, tuple}:
        chunk = _read_strings(positions)
    return read_plainly(positions, place) if chunk is None else chunk


def read_plainly(positions: list, place: Callable[[int], str]) -> Chunk:
    """Return the features of positions of every kind, one after the other."""
    names: list[str] = []
    weights: list[float] = []
    counts = np.empty(len(positions), dtype=np.int64)
    for row, position in enumerate(positions):
        before = len(names)
        try:
            for name, weight in features_of(position):
                names.append(name)
                weights.append(weight)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{place(row)}: {error}") from error
        counts[row] = len(names) - before
    return Chunk(join_names(names), np.array(weights), counts)


def _flatten(groups: Iterable[Iterable]) -> list[Any]:
    # Group by group, not through one long iterator: so the waits for the objects' memory overlap.
    flat: list[Any] = []
    deque(map(flat.extend, groups), maxlen=0)
    return flat


def _lengths(positions: list) -> np.ndarray:
    return np.fromiter(map(len, positions), dtype=np.int64, count=len(positions))


def _read_strings(positions: list) -> Chunk | None:
    parts, n_names = [], 0
    try:
        for start in range(0, len(positions), _POSITIONS_PER_PART):
            if strings := _flatten(positions[start : start + _POSITIONS_PER_PART]):
                parts.append(NAME_END.join(strings))
                n_names += len(strings)
    except TypeError:
        return None
    names = split_names(NAME_END.join(parts), n_names)
    return Chunk(join_names(_flatten(positions)) if names is None else names, None, _lengths(positions))


def _read_dicts(positions: list) -> Chunk | None:
    rows_by_keys: dict[tuple, list[int]] = {}
    for row, keys in enumerate(map(tuple, positions)):
        rows_by_keys.setdefault(keys, []).append(row)
    names = set(chain.from_iterable(rows_by_keys))
    counts = _lengths(positions)
    try:
        if len(rows_by_keys) * _VALUES_PER_KEY <= len(positions):
            read = _join_columns(_columns_of_equals(positions, rows_by_keys, counts), counts.sum())
        elif len(names) * _VALUES_PER_KEY <= counts.sum():
            read = _join_columns(_columns_of_others(positions), counts.sum())
        else:
            read = _read_numbers(positions)
    except (TypeError, OverflowError):
        return None
    return None if read is None or not np.isfinite(read[1]).all() else Chunk(*read, counts)


def _read_numbers(positions: list) -> tuple[NameText, np.ndarray] | None:
    """Read dicts all of whose values are numbers."""
    values = _flatten(map(dict.values, positions))
    if not set(map(type, values)) <= _NUMBERS:
        return None
    return join_names(_flatten(positions)), np.fromiter(values, dtype=np.float64, count=len(values))


def _columns_of_equals(positions: list, rows_by_keys: dict[tuple, list], counts: np.ndarray) -> Iterator[_Column]:
    """Yield the columns of dicts many of which have the same keys in the same order."""
    starts = np.cumsum(counts) - counts
    for keys, rows in rows_by_keys.items():
        values = _flatten(positions[row].values() for row in rows)
        first = starts[np.array(rows)]
        for order, key in enumerate(keys):
            yield key, first + order, values[order :: len(keys)]


def _columns_of_others(positions: list) -> Iterator[_Column]:
    """Yield the columns of dicts with few keys, of which each dict has its own choice."""
    names, values = _flatten(positions), _flatten(map(dict.values, positions))
    numbers: dict[Any, int] = defaultdict(count().__next__)
    keys = np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
    by_key = np.argsort(keys, kind="stable")
    stops = np.cumsum(np.bincount(keys))
    values = np.fromiter(values, dtype=object, count=len(values))[by_key].tolist()
    for key, (start, stop) in zip(numbers, pairwise([0, *stops.tolist()]), strict=True):
        yield key, by_key[start:stop], values[start:stop]


def _join_columns(columns: Iterable[_Column], n_entries: int) -> tuple[NameText, np.ndarray] | None:
    """Join names with their values where those are text, all values of a column at once."""
    weights = np.ones(n_entries)
    parts: list[str] = []  # of the text; a part is a name or, where values are text, one name for each
    n_names = 0
    name_of = np.empty(n_entries, dtype=np.int64)
    for name, entries, values in columns:
        kinds = set(map(type, values))
        if type(name) not in _TEXTS or not (kinds <= _TEXTS or kinds <= _NUMBERS):
            return None
        if kinds <= _TEXTS:
            head = name + SEPARATOR
            parts.append(head + (NAME_END + head).join(values))
            name_of[entries] = np.arange(n_names, n_names + len(values))
            n_names += len(values)
        else:
            parts.append(name)
            name_of[entries] = n_names
            weights[entries] = np.fromiter(values, dtype=np.float64, count=len(values))
            n_names += 1
    names = split_names(NAME_END.join(parts), n_names)
    return None if names is None else (names.select(name_of), weights)
