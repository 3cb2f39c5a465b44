"""Feature names and their columns without one Python object per name.

    column(name) = the number of different names before it

Names are looked up by the thousand: they are joined to one text in UTF-8, with a zero byte after each, and
compiled loops find each part of it in a hash table of flat arrays. Names are compared byte by byte, so the answer
is exact. Memory per name: its bytes, 8 for where it begins, 16 to 32 for its slots, and as much again at most for
growth. Raises TypeError where a name is not a string.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kernelfields.data import compiled

#: What separates names in a text; a name may hold it all the same.
NAME_END = "\0"
#: What stands for the character "\0" inside a name: bytes that are in no other text in UTF-8.
_ZERO = b"\xc0\x80"
#: The compiled loops read eight bytes at a time, so that up to seven beyond the end of a text have to be there.
_SPARE = 8
_FEWEST_SLOTS = 64


class NameText(NamedTuple):
    """Names in one text: name k is ``text[starts[k]:stops[k]]``, bytes in UTF-8, and its hash ``hashes[k]``."""

    text: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    hashes: np.ndarray

    def select(self, chosen: np.ndarray) -> NameText:
        """Select names over the same text."""
        return NameText(self.text, self.starts[chosen], self.stops[chosen], self.hashes[chosen])


def join_names(names: list[str]) -> NameText:
    """Join strings in one text; TypeError for anything else."""
    joined = split_names(NAME_END.join(names), len(names))
    if joined is None:
        ended = b"".join(_encoded(name).replace(b"\0", _ZERO) + b"\0" for name in names)
        joined = _scan(np.frombuffer(bytearray(ended + bytes(_SPARE)), dtype=np.uint8), len(names))
    return joined


def split_names(text: str, count: int) -> NameText | None:
    """Return the names of a text separated by ``NAME_END``; None for more than ``count`` names."""
    # A bytearray, as the names of a table are: arrays that may not be written to are a type of their own to numba,
    # and everything would be compiled twice.
    encoded = np.frombuffer(bytearray(_encoded(text + NAME_END * _SPARE)), dtype=np.uint8)
    names = _scan(encoded, count)
    return names if count == 0 or names.stops[-1] == len(encoded) - _SPARE else None


def _scan(text: np.ndarray, count: int) -> NameText:
    starts, stops, hashes = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint64)
    compiled.scan(text, starts, stops, hashes)
    return NameText(text, starts, stops, hashes)


def _encoded(text: str) -> bytes:
    # Half of a surrogate pair is no valid text, but a name all the same.
    return text.encode("utf-8", "surrogatepass")


class NameTable:
    """Columns of names, numbered in the order in which names are added."""

    def __init__(self, names: Iterable[str] = ()):
        self._count = 0
        self._slots = np.zeros(_FEWEST_SLOTS, dtype=np.uint64)
        self._names = np.zeros(_SPARE, dtype=np.uint8)
        self._begins = np.zeros(1, dtype=np.int64)
        if given := list(names):
            self.add(join_names(given))

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> tuple[type[NameTable], tuple[list[str]]]:
        return NameTable, (self.names(),)

    def names(self) -> list[str]:
        """Return the names in the order of their columns."""
        text = self._names[: self._begins[self._count]].tobytes()
        if _ZERO not in text:
            return text.decode("utf-8", "surrogatepass").split(NAME_END)[:-1]
        parts = text.split(b"\0")[:-1]
        return [part.replace(_ZERO, b"\0").decode("utf-8", "surrogatepass") for part in parts]

    def find(self, names: NameText) -> np.ndarray:
        """Return the columns (n,) int32 of names, -1 for unknown names."""
        columns = np.empty(len(names.starts), dtype=np.int32)
        compiled.find(*names, self._slots, self._names, self._begins, columns)
        return columns

    def add(self, names: NameText) -> np.ndarray:
        """Return the columns (n,) int32 of names, with new columns for unknown names."""
        columns = self.find(names)
        missing = columns < 0
        if missing.any():
            n_missing = int(missing.sum())
            self._make_room(n_missing, int((names.stops - names.starts)[missing].sum()) + n_missing)
            self._count = compiled.add_missing(*names, self._slots, self._names, self._begins, self._count, columns)
        return columns

    def keep(self, kept: np.ndarray) -> NameTable:
        """Return a table of the columns marked in ``kept``, in the same order."""
        table = NameTable()
        table.add(_scan(self._names, self._count).select(kept))
        return table

    def _make_room(self, n_names: int, n_bytes: int) -> None:
        self._names = _with_room(self._names, int(self._begins[self._count]) + n_bytes + _SPARE)
        self._begins = _with_room(self._begins, self._count + n_names + 1)
        n_slots = len(self._slots)
        while n_slots < 2 * (self._count + n_names):
            n_slots *= 2
        if n_slots > len(self._slots):
            self._slots = np.zeros(n_slots, dtype=np.uint64)
            compiled.enter_all(self._slots, _scan(self._names, self._count).hashes)


def _with_room(values: np.ndarray, size: int) -> np.ndarray:
    """Return values with capacity for ``size``; capacity doubles if it is exceeded."""
    if size <= len(values):
        return values
    longer = np.zeros(max(size, 2 * len(values)), dtype=values.dtype)
    longer[: len(values)] = values
    return longer
