"""Features of the positions of a sequence as columns of weights, cached on first use.

    {"word": "cat", "len": 3.0, "next": {"upper": True}}  ->  the columns of "word:cat", 3 * "len" and "next:upper"

A feature is a pair of name and value, whose column is looked up by both, so that its text is made once. For
sequences of plain dicts there is no Python loop over features, for nested dicts and lists of strings a short one. All
others are read by data/chunks.py, which raises errors for invalid features. Columns are cached as bytes, which join to
an array. Memory: an entry for each attribute and for a number of other features, after which the cache is cleared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from threading import Lock

import numpy as np

from kernelfields.compat.pycrfsuite.item_sequence import Item
from kernelfields.data.chunks import SEPARATOR, iterate_features
from kernelfields.models.crfsuite_file import CRFsuiteModel
from kernelfields.numerics.sparse_rows import make_offsets

# Texts that no attribute has are noted up to this length.
_LONGEST_UNKNOWN = 100
_NOTED = frozenset([str, bool, int, float])


class Columns:
    """Numbers of weight columns of attributes, with an empty column for unknown texts.

    Column k has the entries from ``spans[k, 0]`` to ``spans[k, 1]`` of ``labels`` and ``weights``, times ``scales[k]``;
    these are the ``arrays``. They are ``full`` when many more features were noted than there are attributes.

    Parameters
    ----------
    by_text : Texts
        Columns of attributes.
    labels : ndarray of shape (n,)
        Labels of the weights of all attributes, one attribute after the other.
    weights : ndarray of shape (n,)
        The weights.
    offsets : ndarray of shape (n_attributes + 1,)
        Where those of each attribute begin.
    n_more : int
        How many features more are noted than there are attributes.
    """

    def __init__(self, by_text: Texts, labels: np.ndarray, weights: np.ndarray, offsets: np.ndarray, n_more: int):
        self._by_text, self._offsets, self._n_more = by_text, offsets, n_more
        spans = np.column_stack([offsets, np.append(offsets[1:], offsets[-1])])
        self.arrays: tuple[np.ndarray, ...] = spans, np.ones(len(offsets)), labels, weights
        self._n_columns, self._n_noted, self.full = len(offsets), 0, False
        self._by_feature, self._inside = _Features(self, ""), _DictFeatures(self)
        # Any thread looks up what was noted; one at a time adds columns.
        self._adding = Lock()

    @classmethod
    def from_model(cls, model: CRFsuiteModel, n_more: int) -> Columns:
        """Return the columns of a model."""
        order = np.lexsort((model.states.labels, model.states.sources))
        offsets = make_offsets(np.bincount(model.states.sources, minlength=len(model.attributes)))
        labels, weights = model.states.labels[order], model.states.values[order]
        return cls(Texts(model.attributes), labels, weights, offsets, n_more)

    def without_cache(self) -> Columns:
        """Return the columns with an empty cache."""
        _, _, labels, weights = self.arrays
        return Columns(self._by_text, labels, weights, self._offsets, self._n_more)

    def find(self, sequence: list) -> bytes:
        """Return the number of features of each position, followed by the columns of all features, in int64."""
        try:
            features = chain.from_iterable(map(dict.items, sequence))
            found = map(self._by_feature.__getitem__, features)
            return b"".join(chain(map(_NUMBERS.__getitem__, map(len, sequence)), found))
        except TypeError:  # there are positions or values of other kinds
            return self._find_each(sequence)

    def _find_each(self, sequence: list) -> bytes:
        counts: list[bytes] = []
        columns: list[bytes] = []
        for position in sequence:
            begin = len(columns)
            try:
                is_plain = self._add_columns(position, columns)
            except TypeError:  # a value without a hash, or with several features
                is_plain = False
                del columns[begin:]
            if not is_plain:
                columns += map(self._by_feature.__getitem__, iterate_features(position))
            counts.append(_NUMBERS[len(columns) - begin])
        return b"".join(counts + columns)

    def _add_columns(self, position: object, columns: list[bytes]) -> bool:
        """Append the columns of a position; return False for a position of another type."""
        find = self._by_feature.__getitem__
        if type(position) is dict:
            inside = self._inside
            for name, value in position.items():
                if type(value) is dict:
                    columns += map(inside[name], value.items())
                else:
                    columns.append(find((name, value)))
        elif type(position) is list or type(position) is tuple:
            columns += map(self._by_text.__getitem__, position)
        elif type(position) is Item:
            columns += map(find, zip(*position, strict=True))
        else:
            return False
        return True

    def find_column(self, text: str, weight: float) -> bytes:
        """Return the column of a feature, and count the cached features."""
        self._n_noted += 1
        self.full = self._n_noted > len(self._by_text) + self._n_more
        column = self._by_text[text] if weight else self._by_text.unknown
        if weight == 1.0 or column == self._by_text.unknown:
            return column
        [number] = np.frombuffer(column, np.int64)
        with self._adding:
            added = self._n_columns
            spans, scales, *weights = self.arrays
            if added == len(scales):
                spans, scales = (np.concatenate([each, each]) for each in (spans, scales))
                self.arrays = spans, scales, *weights
            spans[added], scales[added] = spans[number], weight
            self._n_columns += 1
        return _as_bytes(added)

    def should_cache(self, text: str, column: bytes) -> bool:
        """Whether a text is short, or the name of an attribute."""
        return column != self._by_text.unknown or len(text) <= _LONGEST_UNKNOWN


class Texts(dict[str, bytes]):
    """Columns of attributes by text, and the column of all other texts.

    Parameters
    ----------
    attributes : list of str
        The texts of the attributes.
    """

    def __init__(self, attributes: list[str]):
        super().__init__(zip(attributes, map(_as_bytes, range(len(attributes))), strict=True))
        #: The column of all other texts.
        self.unknown = _as_bytes(len(attributes))

    def __missing__(self, text: str) -> bytes:
        if type(text) is not str:
            raise TypeError(text)
        return self.unknown


class _Features(dict[tuple, bytes]):
    """Cached columns of pairs of name and value, with a prefix of their texts."""

    def __init__(self, columns: Columns, prefix: str):
        super().__init__()
        self._columns, self._prefix = columns, prefix

    def __missing__(self, feature: tuple) -> bytes:
        name, value = feature
        if type(name) is str and type(value) is str:
            text, weight = self._prefix + name + SEPARATOR + value, 1.0
        elif type(name) is str and type(value) is bool:
            text, weight = self._prefix + name, float(value)
        else:
            features = list(iterate_features({name: value}, self._prefix))
            if len(features) != 1:
                raise TypeError(feature)
            [(text, weight)] = features
        column = self._columns.find_column(text, weight)
        # A value of another type may change.
        if _NOTED.issuperset(map(type, feature)) and self._columns.should_cache(text, column):
            self[feature] = column
        return column


class _DictFeatures(dict[str, Callable[[tuple], bytes]]):
    """Cached features of dicts inside of positions, by the names of these dicts."""

    def __init__(self, columns: Columns):
        super().__init__()
        self._columns = columns

    def __missing__(self, name: str) -> Callable[[tuple], bytes]:
        if type(name) is not str:
            raise TypeError(name)
        self[name] = _Features(self._columns, name + SEPARATOR).__getitem__
        return self[name]


class _FeatureNumbers(dict[int, bytes]):
    """Cached numbers of features as bytes."""

    def __missing__(self, number: int) -> bytes:
        self[number] = _as_bytes(number)
        return self[number]


def _as_bytes(number: int) -> bytes:
    return number.to_bytes(8, sys.byteorder)


_NUMBERS = _FeatureNumbers()
