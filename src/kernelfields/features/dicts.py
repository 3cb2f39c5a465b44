"""Feature dicts, one per position, to sparse rows.

    {"word": "cat", "upper": True, "len": 3.0}  ->  word:cat = 1, upper = 1, len = 3

The naming is that of python-crfsuite: a string value joins its name with ":" and weighs 1, numbers are
weights, True is 1 and False nothing, a nested dict or a collection of strings puts its name in front
("a:b"). A position may also be a plain list of feature strings, each of weight 1. A name seen twice in
one position adds up. Weights of zero leave no trace, so they do not enter the vocabulary.

Result: CSR (N, d) float64 with sorted columns and offsets (S + 1,). Cost: one pass over the Python
objects into flat buffers of 12 bytes per feature. Columns are numbered in order of first sight; sets are
read in sorted order because their own changes from run to run.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from kernelfields.fields.sequences import is_sequence, locate

_SEPARATOR = ":"
_COLLECTIONS = (list, tuple, set, frozenset)


def is_feature_sequences(X: Any) -> bool:
    """Whether X looks like sequences of feature dicts or of lists of feature strings."""
    for sequence in X if _is_listing(X) else ():
        for position in sequence if _is_listing(sequence) else ():
            if isinstance(position, Mapping):
                return True
            if not isinstance(position, _COLLECTIONS):
                return False
            if position:
                return isinstance(next(iter(position)), str)
    return False


class FeatureDictEncoder:
    """Learns the columns of feature names; unseen names are ignored when transforming.

    Attributes: ``vocabulary_`` maps a feature's name to its column, in order of first sight.
    """

    vocabulary_: dict[str, int]

    def fit(self, X: Any) -> FeatureDictEncoder:
        """Learn the vocabulary of a list of sequences."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any) -> tuple[Any, np.ndarray]:
        """Learn the vocabulary; return the packed CSR (N, d) and the offsets (S + 1,)."""
        self.vocabulary_ = {}
        encoded = self._encode(X, grow=True)
        if not self.vocabulary_:
            raise ValueError("X holds no features: every position is empty or all its weights are zero")
        return encoded

    def transform(self, X: Any) -> tuple[Any, np.ndarray]:
        """Return the packed CSR (N, d) over the learnt vocabulary and the offsets (S + 1,)."""
        if not hasattr(self, "vocabulary_"):
            raise ValueError("this FeatureDictEncoder has no vocabulary yet: call fit first")
        return self._encode(X, grow=False)

    @property
    def feature_names_(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.vocabulary_)

    def spec(self) -> list[str]:
        """Describe the encoder by its feature names."""
        return self.feature_names_

    @classmethod
    def from_spec(cls, names: Iterable[str]) -> FeatureDictEncoder:
        """Rebuild the encoder from what ``spec`` returned."""
        encoder = cls()
        encoder.vocabulary_ = {name: column for column, name in enumerate(names)}
        return encoder

    def _encode(self, X: Any, grow: bool) -> tuple[Any, np.ndarray]:
        if not _is_listing(X) or len(X) == 0:
            raise ValueError(
                f"X must be a list with at least one sequence of feature dicts, got {type(X).__name__}"
            )
        columns, weights, row_ends, offsets = array("i"), array("d"), array("q", [0]), array("q", [0])
        vocabulary = self.vocabulary_
        for index, sequence in enumerate(X):
            if not _is_listing(sequence) or len(sequence) == 0:
                raise ValueError(
                    f"sequence {index} must be a list with at least one feature dict, got {sequence!r:.60}"
                )
            for row, position in enumerate(sequence):
                for name, weight in _features(position, index, row):
                    if weight == 0.0:
                        continue
                    column = vocabulary.setdefault(name, len(vocabulary)) if grow else vocabulary.get(name)
                    if column is not None:
                        columns.append(column)
                        weights.append(weight)
                row_ends.append(len(columns))
            offsets.append(len(row_ends) - 1)
        return self._assemble(columns, weights, row_ends, np.array(offsets, dtype=np.int64))

    def _assemble(
        self, columns: array, weights: array, row_ends: array, offsets: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        data, indices, indptr = np.asarray(weights), np.asarray(columns), np.asarray(row_ends)
        if (bad := np.flatnonzero(~np.isfinite(data))).size:
            entry = int(bad[0])
            row = int(np.searchsorted(indptr, entry, side="right")) - 1
            sequence, place = locate(offsets, row)
            raise ValueError(
                f"sequence {sequence}, position {place}: feature "
                f"{self.feature_names_[indices[entry]]!r} is {data[entry]}. Weights must be finite; "
                "leave the feature out where it is unknown."
            )
        if len(data) <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        packed = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(self.vocabulary_)))
        packed.sum_duplicates()
        return packed, offsets


def _is_listing(values: Any) -> bool:
    # Arrays of numbers and sparse matrices can be walked as well, but hold no features with names.
    return is_sequence(values) and getattr(values, "dtype", np.dtype(object)) == np.dtype(object)


def _features(position: Any, index: int, row: int) -> Iterator[tuple[str, float]]:
    """Yield the names and weights of one position."""
    if isinstance(position, Mapping):
        for name, value in position.items():
            kind = type(value)
            if not isinstance(name, str):
                raise _bad_name(name, index, row)
            if kind is str:
                yield f"{name}{_SEPARATOR}{value}", 1.0
            elif kind is float or kind is bool or kind is int:
                yield name, value
            elif isinstance(value, Mapping | list | tuple | set | frozenset):
                for inner, weight in _features(value, index, row):
                    yield f"{name}{_SEPARATOR}{inner}", weight
            elif isinstance(value, str):
                yield f"{name}{_SEPARATOR}{value}", 1.0
            elif isinstance(value, Real | np.bool_):
                yield name, float(value)
            else:
                raise TypeError(
                    f"sequence {index}, position {row}: feature {name!r} is {value!r:.60} "
                    f"({type(value).__name__}). Use a number, a bool, a string, a dict or a list of strings."
                )
    elif isinstance(position, _COLLECTIONS):
        ordered = position if isinstance(position, list | tuple) else sorted(position, key=str)
        for name in ordered:
            if not isinstance(name, str):
                raise _bad_name(name, index, row)
            yield name, 1.0
    else:
        raise TypeError(
            f"sequence {index}, position {row} is {position!r:.60} ({type(position).__name__}), expected a "
            "feature dict or a list of feature strings"
        )


def _bad_name(name: Any, index: int, row: int) -> TypeError:
    return TypeError(
        f"sequence {index}, position {row}: feature name {name!r:.60} is {type(name).__name__}, expected a "
        "string; write str(name)"
    )
