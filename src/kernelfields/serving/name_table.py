"""Long lists of names as a model file holds them, and the columns of names in them, without a Python object per name.

    text     ["the", "cat", ...]          JSON, as it lies in the file
    column   of a name: its place in the list

Names are compared in the form that JSON gives them, which is the same for the same name, and hashed eight bytes at a
time, all names at once: a list of 300,000 is ready in a few hundredths of a second, where a dict of it takes ten
times as long to build. Names that are looked up are joined and hashed in the same way, and compared byte by byte with
what is found. Cost: O(bytes) and a sort of the hashes. Fails: ValueError where the text is no list of strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_SPARE = 8  # bytes beyond the end of a text that are read with its last name
_QUOTE, _COMMA, _SPACE, _BACKSLASH = b'", \\'
#: What is left of eight bytes of which a name has so many.
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
# Names that are looked up at a time.
_AT_ONCE = 2**18


class NameText(NamedTuple):
    """Names in one text: name k has ``lengths[k]`` bytes from ``starts[k]``; ``words[i]`` is the eight from i on."""

    words: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def parts(self, offset: int, chosen: np.ndarray) -> np.ndarray:
        """Return the eight bytes of chosen names from an offset, zeros beyond their ends."""
        left = np.minimum(self.lengths[chosen] - offset, 8)
        return self.words[self.starts[chosen] + offset] & _MASKS[left]

    def hashes(self) -> np.ndarray:
        """Return a number for each name, the same for equal names."""
        # By length, so that those that go on are a slice of the array, and those that end in a word another.
        order = np.argsort(self.lengths)
        starts, lengths = self.starts[order], self.lengths[order]
        mixed = lengths.astype(np.uint64) * _PRIME
        for offset in range(0, int(lengths[-1]) if len(lengths) else 0, 8):
            first, whole = np.searchsorted(lengths, [offset + 1, offset + 8])
            words = self.words[starts[first:] + offset]
            words[: whole - first] &= _MASKS[lengths[first:whole] - offset]
            value = (mixed[first:] ^ words) * _PRIME
            mixed[first:] = value ^ (value >> _SHIFT)
        hashes = np.empty_like(mixed)
        hashes[order] = mixed
        return hashes


def name_text(text: bytes) -> NameText:
    """Return where the names of a JSON list of strings are."""
    letters = np.frombuffer(text + bytes(_SPARE), dtype=np.uint8)
    commas = np.flatnonzero(letters[: len(text)] == _COMMA)
    between = (letters[commas - 1] == _QUOTE) & (letters[commas + 1] == _SPACE) & (letters[commas + 2] == _QUOTE)
    commas = commas[between]
    if (letters[commas - 2] == _BACKSLASH).any():
        # The quote before a comma may be part of a name, or its end after a backslash: JSON knows.
        return _joined(text)
    if text == b"[]":
        return NameText(_words(letters), np.empty(0, np.int64), np.empty(0, np.int64))
    if text[:2] != b'["' or text[-2:] != b'"]':
        raise ValueError("the names are no list of strings")
    starts = np.concatenate([[2], commas + 3])
    return NameText(_words(letters), starts, np.concatenate([commas - 1, [len(text) - 2]]) - starts)


def _joined(text: bytes) -> NameText:
    encoded = [json.dumps(name)[1:-1].encode() for name in json.loads(text)]
    lengths = np.array([len(name) for name in encoded], dtype=np.int64)
    letters = np.frombuffer(b"".join(encoded) + bytes(_SPARE), dtype=np.uint8)
    return NameText(_words(letters), np.cumsum(lengths) - lengths, lengths)


def _words(letters: np.ndarray) -> np.ndarray:
    return np.ndarray((len(letters) - 7,), "<u8", letters, strides=(1,))


class NameList:
    """A list of different names; iterating gives them, ``find`` their places."""

    def __init__(self, text: bytes):
        self._json = text
        self._text = name_text(text)
        hashes = self._text.hashes()
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]

    @classmethod
    def of(cls, names: list[str] | NameList) -> NameList:
        """Return a list of names in this form."""
        return names if isinstance(names, NameList) else cls(json.dumps(names).encode())

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[str]:
        return iter(json.loads(self._json))

    def find(self, names: list[str]) -> np.ndarray:
        """Return the place of each name, (n,), -1 where it is not in the list."""
        parts = [self._find(names[begin : begin + _AT_ONCE]) for begin in range(0, len(names), _AT_ONCE)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _find(self, names: list[str]) -> np.ndarray:
        asked, own = name_text(json.dumps(names).encode()), self._text
        hashes, found = asked.hashes(), np.full(len(names), -1)
        ranks = np.searchsorted(self._hashes, hashes)
        open_ = np.arange(len(names))
        while len(open_):
            # One candidate for each, and the next one for names that share their hash with another.
            open_ = open_[ranks[open_] < len(self._order)]
            open_ = open_[self._hashes[ranks[open_]] == hashes[open_]]
            places = self._order[ranks[open_]]
            same = _equal(asked, open_, own, places)
            found[open_[same]] = places[same]
            open_ = open_[~same]
            ranks[open_] += 1
        return found


def _equal(one: NameText, chosen: np.ndarray, other: NameText, others: np.ndarray) -> np.ndarray:
    """Return a mask of the names that are equal, byte by byte."""
    same = one.lengths[chosen] == other.lengths[others]
    for offset in range(0, int(one.lengths[chosen].max(initial=0)), 8):
        left = np.flatnonzero(same & (one.lengths[chosen] > offset))
        same[left] = one.parts(offset, chosen[left]) == other.parts(offset, others[left])
    return same
