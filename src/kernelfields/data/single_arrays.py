"""Sequences that come as one object: a long array with lengths, a padded one, one of equal lengths, or a table.

    X (N, d) or N positions,   lengths (S,)     ->  S sequences, end to end in X
    X (S, T, d),               lengths (S,)     ->  the first rows of each sequence
    X (S, T, d),               a mask (S, T)    ->  the rows that it marks, in their order
    X (S, T, d)                                 ->  S sequences of T rows

Labels are cut like the positions that they belong to. Without lengths, rows at the end that are zero or NaN in some
sequences, but not in as many rows of each, are taken for padding and refused. A table that is no list is answered by
the FrameCRF that reads it, with the names of its own columns.
Raises ValueError or TypeError that says what to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse

from kernelfields.numerics.containers import (
    column_types,
    count_rows,
    find_column_names,
    find_shape,
    list_entries,
    n_dimensions,
    refuse_tensor,
)
from kernelfields.numerics.parameters import is_sequence
from kernelfields.numerics.sparse_rows import make_offsets

# Columns of tables whose names hold one of these are taken for those of sequence ids, and of labels, in this order.
_IDS = ("sequence", "seq", "session", "subject", "participant", "patient", "recording", "night", "trial", "sentence")
_MORE_IDS = ("series", "group", "document", "doc", "person", "user", "video", "track", "week", "day", "id")
_LABELS = ("label", "target", "class", "tag", "state", "stage", "phase", "activity", "behavior", "behaviour")
_COMMON = ("y",)
# A column of sequence ids is looked for in so many rows.
_LOOKED_AT = 10_000


class OneArray(Protocol):
    """Sequences in one object, with rules to cut it into sequences and to join answers."""

    def cut(self, values: Any) -> list:
        """Return the sequences of an object that has the positions of X."""

    def cut_labels(self, y: Any) -> Any:
        """Return labels as one entry for each sequence."""

    def join(self, answers: list, axis: int) -> Any:
        """Return answers about positions, one entry for each sequence, in the form of the object."""


@dataclass(frozen=True)
class LongArray:
    """Concatenated sequences in one array, list or table."""

    lengths: np.ndarray

    def cut(self, values: Any) -> list:
        """Return the sequences of an object with a row for each position."""
        total, n_rows = int(self.lengths.sum()), count_rows(values)
        if total != n_rows:
            raise ValueError(f"lengths add up to {total}, but there are {n_rows} positions")
        rows = values.tocsr() if scipy.sparse.issparse(values) else values
        return [rows[first:last] for first, last in pairwise(make_offsets(self.lengths).tolist())]

    def cut_labels(self, y: Any) -> Any:
        """Return the labels of each sequence; a list of sequences stays unchanged."""
        if not is_sequence(y) or not len(y) or count_rows(y) == len(self.lengths) != int(self.lengths.sum()):
            return y
        return y if count_rows(y) == len(self.lengths) and is_sequence(list_entries(y[:1])[0]) else self.cut(y)

    def join(self, answers: list, axis: int) -> np.ndarray:
        """Return one array of all positions."""
        return np.concatenate(list(answers), axis=axis)


@dataclass(frozen=True)
class PaddedArray:
    """Sequences of a padded array; ``marked`` holds a mask (T,) of the true positions of each."""

    marked: Sequence[np.ndarray]

    def cut(self, values: Any) -> list:
        """Return the marked rows of each sequence."""
        if count_rows(values) != len(self.marked):
            raise ValueError(f"lengths are those of {len(self.marked)} sequences, but X has {count_rows(values)}")
        return [
            self._kept(row, mask, number) for number, (row, mask) in enumerate(zip(values, self.marked, strict=True))
        ]

    def cut_labels(self, y: Any) -> Any:
        """Return the labels of the marked positions; unchanged for sequences without padding."""
        if not is_sequence(y) or count_rows(y) != len(self.marked) or not all(map(is_sequence, y)):
            return y
        pairs = zip(y, self.marked, strict=True)
        return [
            row if count_rows(row) == int(mask.sum()) else self._kept(row, mask, number)
            for number, (row, mask) in enumerate(pairs)
        ]

    def join(self, answers: list, axis: int) -> list:
        """Return the answers by sequence, without the padding."""
        return answers

    @staticmethod
    def _kept(row: Any, mask: np.ndarray, number: int) -> Any:
        n_rows = count_rows(row)
        if len(mask) < n_rows and find_shape(row) is None:
            mask = np.concatenate([mask, np.zeros(n_rows - len(mask), dtype=bool)])
        if len(mask) != n_rows:
            raise ValueError(f"sequence {number} has {n_rows} rows, but lengths or the mask are those of {len(mask)}")
        if find_shape(row) is None:
            return [entry for entry, kept in zip(row, mask, strict=True) if kept]
        last = int(mask.sum())
        return row[:last] if mask[:last].all() else row[mask]


def one_array(X: Any, lengths: Any) -> OneArray:
    """Return the form of X as one object that holds sequences of some lengths.

    Parameters
    ----------
    X : array, list or table
        The positions of all sequences, or a padded array (S, T, d).
    lengths : array (S,) or mask (S, T)
        The lengths of the sequences, or the positions that count.

    Returns
    -------
    LongArray or PaddedArray
        How it is cut, and answers are put together.
    """
    if not is_sequence(X):
        raise TypeError(f"lengths= is for one array of all positions, or a padded one, got {type(X).__name__}")
    sizes = np.asarray(lengths)
    if sizes.dtype == bool and sizes.ndim == 2:
        if (empty := np.flatnonzero(~sizes.any(axis=1))).size:
            raise ValueError(f"the mask marks no position of sequence {empty[0]}: leave the sequence out")
        return PaddedArray(list(sizes))
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes <= 0).any() or not len(sizes):
        raise ValueError(
            f"lengths must be a list of positive whole numbers, one per sequence, or a mask of booleans (n, T), got "
            f"{lengths!r:.60}"
        )
    dimensions, n_rows = n_dimensions(X), count_rows(X)
    if dimensions == 3 or (find_shape(X) is None and n_rows == len(sizes) != int(sizes.sum())):
        longest = int(find_shape(X)[1]) if dimensions == 3 else int(sizes.max())  # type: ignore[index]  # it has three
        if sizes.max() > longest:
            raise ValueError(f"sequence {sizes.argmax()} is to have {sizes.max()} rows, but X has {longest} of each")
        return PaddedArray([np.arange(longest) < size for size in sizes])
    return LongArray(sizes)


def list_equal_sequences(X: Any) -> list:
    """Return the sequences of an array (S, T, d); ValueError if some rows look like padding."""
    refuse_tensor(X, "X")
    values = np.asarray(X)
    if values.shape[0] == 0:
        raise ValueError(f"X is an array of shape {values.shape}: at least one sequence is needed")
    if values.dtype.kind == "f":
        _refuse_padding(np.isnan(values).all(axis=2), "NaN", values.shape, equal=False)
    if values.dtype.kind in "biuf":
        _refuse_padding(np.logical_not(values.any(axis=2)), "zeros", values.shape, equal=True)
    return list(X)


def _refuse_padding(idle: np.ndarray, what: str, shape: tuple[int, ...], *, equal: bool) -> None:
    """Raise ValueError if sequences end in idle rows, unless ``equal`` numbers of them are data."""
    rows = np.argmin(idle[:, ::-1], axis=1)
    rows[idle.all(axis=1)] = shape[1]
    if not rows.any() or (equal and (rows == rows[0]).all()):
        return
    worst = int(rows.argmax())
    raise ValueError(
        f"X of shape {shape} looks padded: sequence {worst} ends in {rows[worst]} rows of {what}. Pass its lengths, as "
        "in fit(X, y, lengths=[...]), or a mask (n, T) of the rows that count; if all rows are data, list(X)"
    )


def frame_advice(table: Any) -> str:
    """Return advice for a table in the place of sequences, with the names of its columns."""
    names = find_column_names(table) or []
    sequence = _named(names, (*_IDS, *_MORE_IDS), ()) or _repeating(table, names)
    label = _named([name for name in names if name != sequence], _LABELS, _COMMON)
    known = {"sequence": sequence, "label": label}
    given = "".join(f", {parameter}={name!r}" for parameter, name in known.items() if name is not None)
    nouns = {"sequence": "sequence ids", "label": "labels"}
    unnamed = [f"the column of {noun} by {parameter}=" for parameter, noun in nouns.items() if known[parameter] is None]
    advice = f"use FrameCRF(ChainCRF(){given}).fit(X)" + (f", and name {' and '.join(unnamed)}" if unnamed else "")
    return (
        f"{advice}. Without a column of ids pass lengths=, and if each row is a sequence of one number per position, "
        "X.to_numpy()[:, :, None]."
    )


def _named(names: list, words: Sequence[str], whole: Sequence[str]) -> Any:
    """Return the first name that contains a word or equals a name of the lists; None without a match."""
    texts = [(name, name.lower().replace("-", "_")) for name in names if isinstance(name, str)]
    for word in words:
        for name, text in texts:
            if word == text or (word in text.split("_")) or (len(word) > 2 and text.startswith(word)):
                return name
    return next((name for name, text in texts if text in whole), None)


def _repeating(table: Any, names: list) -> Any:
    """Return the name of the first column of text or integers with equal values in neighbouring rows."""
    types = column_types(table)
    for name in names:
        if "float" in str(types.get(name, "")).lower() or "double" in str(types.get(name, "")).lower():
            continue
        entries = list_entries(table[name])[:_LOOKED_AT]
        runs = 1 + sum(one != other for one, other in pairwise(entries))
        if 1 < runs == len(set(map(str, entries))) <= len(entries) // 2:
            return name
    return None
