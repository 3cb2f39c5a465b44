"""Inputs of sequences as a model was fitted on them: arrays, sparse rows, feature dicts or feature strings.

    {"word": "cat", "upper": True, "len": 3.0}  ->  ("word:cat", 1), ("upper", 1), ("len", 3)
    ["bias", "word=cat"]                        ->  ("bias", 1), ("word=cat", 1)

Names and weights are read as features/chunks.py reads them; names that the model does not know are left out. Sparse
rows are any object with data, indices, indptr and shape, as scipy's CSR arrays are; scipy itself is not needed.
Fails: ValueError or TypeError that names the sequence and what differs from the data of the fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from .name_table import NameList
from .sparse_rows import SparseRows, canonical, sparse_of
from .tensor_file import ServingError

_PLAIN_VALUES = {str, bool, float}
_COLLECTIONS = (list, tuple, set, frozenset, Set)


class Packed:
    """Sequences laid end to end: rows (N, d), dense or sparse, offsets (S + 1,), and which labels are allowed."""

    def __init__(self, rows: Any, lengths: list[int], allowed: np.ndarray | None = None):
        self.rows = rows
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        #: Penalties of 0 and minus infinity (N, L); None where all labels are allowed.
        self.allowed = allowed

    def split(self, array: Any) -> list:
        """Cut an array with N rows into one for each sequence."""
        return [array[first:last] for first, last in pairwise(self.offsets.tolist())]


class Inputs:
    """How inputs become rows: ``described`` is the entry "inputs" of a model's document."""

    def __init__(self, described: Mapping[str, Any]):
        self.n_features = int(described["n_features"])
        self.sparse = bool(described["sparse"])
        self.columns = None if described.get("columns") is None else list(described["columns"])
        names = described["feature_names"]
        #: Names of the features of dicts and strings; None where inputs are numbers.
        self.names = None if names is None else NameList.of(names)
        if self.names is not None and len(self.names) != self.n_features:
            raise ServingError("the names of the features do not match their number")
        scaling = described.get("scaling")
        self.scaling = None if scaling is None else (scaling["centre"], scaling["spread"])
        self.dictionary = _dictionary(described.get("allowed"))

    def read(self, X: Any) -> Packed:
        """Return sequences as rows."""
        sequences = list(X)
        rows, lengths = self._arrays(sequences) if self.names is None else self._features(sequences, self.names)
        values = rows.data if isinstance(rows, SparseRows) else rows
        if not np.isfinite(values).all():
            raise ValueError("inputs must be finite: impute or drop what is not")
        allowed = None if self.dictionary is None else self.dictionary.penalties(sequences, rows)
        if self.scaling is not None:
            centre, spread = (each.astype(values.dtype) for each in self.scaling)
            rows = (rows - centre) / spread
        return Packed(rows, lengths, allowed)

    def encoded(self, x: Any) -> dict[str, np.ndarray]:
        """Return one sequence as the graph of ONNX takes it: inputs, or indptr, indices and values."""
        rows = self._arrays([x])[0] if self.names is None else self._features([x], self.names)[0]
        if not isinstance(rows, SparseRows):
            return {"inputs": rows.astype(np.float64, copy=False)}
        whole = (each.astype(np.int64, copy=False) for each in (rows.indptr, rows.indices))
        return dict(zip(("indptr", "indices", "values"), (*whole, rows.data.astype(np.float64)), strict=True))

    def _features(self, sequences: list, table: NameList) -> tuple[SparseRows, list[int]]:
        names: list[str] = []
        weights: list[float] = []
        ends: list[int] = []
        for index, sequence in enumerate(sequences):
            if isinstance(sequence, str | Mapping) or not hasattr(sequence, "__len__") or not len(sequence):
                raise ValueError(f"sequence {index} must be a list of feature dicts or of lists of feature strings")
            for position in sequence:
                try:
                    if not _add_plainly(position, names, weights):
                        for name, weight in features_of(position):
                            names.append(name)
                            weights.append(weight)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"sequence {index}: {error}") from error
                ends.append(len(names))
        columns, values = table.find(names), np.array(weights)
        known = (columns >= 0) & (values != 0.0)
        counts = np.diff(np.concatenate([[0], np.cumsum(known)])[np.array([0, *ends])])
        return canonical(values[known], columns[known], counts, self.n_features), [len(each) for each in sequences]

    def _arrays(self, sequences: list) -> tuple[Any, list[int]]:
        tables = [self._table(item, f"sequence {index}") for index, item in enumerate(sequences)]
        single = all(_dtype(table) in (np.float32, np.float16) for table in tables)
        dtype, lengths = np.float32 if single else np.float64, [table.shape[0] for table in tables]
        if not self.sparse:
            dense = [table.toarray() if isinstance(table, SparseRows) else table for table in tables]
            return np.concatenate(dense).astype(dtype, copy=False), lengths
        parts = [table if isinstance(table, SparseRows) else sparse_of(table) for table in tables]
        data = np.concatenate([each.data for each in parts]).astype(dtype, copy=False)
        counts = np.concatenate([np.diff(each.indptr) for each in parts])
        return canonical(data, np.concatenate([each.indices for each in parts]), counts, self.n_features), lengths

    def _table(self, item: Any, name: str) -> Any:
        if hasattr(item, "tocsr"):
            item = item.tocsr()
        if self.columns is not None and hasattr(item, "columns") and list(item.columns) != self.columns:
            raise ValueError(f"{name} has other columns than the data of the fit: {', '.join(self.columns[:5])} ...")
        if hasattr(item, "indptr"):
            entries = int(item.indptr[-1])
            table: Any = SparseRows(item.data[:entries], item.indices[:entries], np.asarray(item.indptr), item.shape)
        else:
            table = np.asarray(item)
            if table.dtype.kind not in "biuf":
                raise ValueError(f"{name} holds {table.dtype} values, and this model was fitted on numeric arrays")
        if len(table.shape) != 2 or table.shape[0] == 0 or table.shape[1] != self.n_features:
            raise ValueError(
                f"{name} has the shape {tuple(table.shape)}, and this model needs (positions, {self.n_features}); one "
                "sequence alone is passed as [x]"
            )
        return table


def _dtype(table: Any) -> np.dtype:
    return table.data.dtype if isinstance(table, SparseRows) else table.dtype


def _add_plainly(position: Any, names: list[str], weights: list[float]) -> bool:
    """Add the features of a list of strings, or of a plain dict of strings and numbers; False for others."""
    if type(position) is list:
        if set(map(type, position)) != {str}:
            return False
        names += position
        weights += [1.0] * len(position)
        return True
    if type(position) is not dict or set(map(type, position)) != {str}:
        return False
    if not set(map(type, position.values())) <= _PLAIN_VALUES or not all(map(_is_text_or_finite, position.values())):
        return False
    names += [f"{name}:{value}" if type(value) is str else name for name, value in position.items()]
    weights += [1.0 if type(value) is str else float(value) for value in position.values()]
    return True


def _is_text_or_finite(value: Any) -> bool:
    return type(value) is str or isfinite(value)


def features_of(position: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield names and weights of the features of a position, ``prefix`` before every name."""
    if isinstance(position, dict | Mapping):
        for name, value in position.items():
            full = prefix + _text(name)
            if isinstance(value, str | bytes):
                yield full + ":" + _text(value), 1.0
            elif isinstance(value, int | float):
                yield full, _weight(full, value)
            elif isinstance(value, Mapping) or _is_collection(value):
                yield from features_of(value, full + ":")
            else:
                yield full, _weight(full, value)
    elif _is_collection(position):
        for name in sorted(position, key=str) if isinstance(position, set | frozenset) else position:
            yield prefix + _text(name), 1.0
    else:
        raise TypeError(f"expected a feature dict or a list of feature strings, got {position!r:.60}")


def _is_collection(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind in "OU"
    return isinstance(values, _COLLECTIONS)


def _text(text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8")
    if not isinstance(text, str):
        raise TypeError(f"feature name {text!r:.60} must be a string")
    return "".join([text])


def _weight(name: str, value: Any) -> float:
    if getattr(value, "ndim", 0) != 0 or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"feature {name!r} is {value!r:.60}: use a number, a bool, a string, a dict or strings")
    weight = float(value)
    if not isfinite(weight):
        raise ValueError(f"feature {name!r} is {weight}: weights must be finite")
    return weight


class Dictionary:
    """Labels that positions may have, by the value of one feature, as features/label_dictionary.py learnt them."""

    def __init__(self, described: Mapping[str, Any]):
        self.feature = described["feature"]
        self._places = {word: place for place, word in enumerate(described["words"], start=1)}
        sizes, labels = described["sizes"], described["labels"]
        self._penalties = np.full((len(sizes), int(described["n_labels"])), -np.inf)
        self._penalties[np.repeat(np.arange(len(sizes)), sizes), labels] = 0.0

    def penalties(self, sequences: list, rows: Any) -> np.ndarray:
        """Return 0 for labels that are allowed and minus infinity for others, (N, L)."""
        which = [self._places.get(word, 0) if word is not None else 0 for word in self._words(sequences, rows)]
        return self._penalties[which]

    def _words(self, sequences: list, rows: Any) -> Iterable[str | None]:
        if isinstance(self.feature, str):
            return [_word(position, self.feature) for sequence in sequences for position in sequence]
        dense = rows.toarray() if isinstance(rows, SparseRows) else rows
        # As number_word of features/label_dictionary.py: one text for one number.
        return [str(value + 0.0).removesuffix(".0") for value in dense[:, self.feature]]


def _word(position: Any, feature: str) -> str | None:
    if isinstance(position, Mapping):
        value = position.get(feature)
        return value if value is None or isinstance(value, str) else str(value)
    return next((name for name in position if isinstance(name, str) and name.startswith(feature)), None)


def _dictionary(described: Mapping[str, Any] | None) -> Dictionary | None:
    if described is None:
        return None
    if described["kind"] != "dictionary":
        raise ServingError(f"labels allowed by {described['kind']!r} cannot be served: use a LabelDictionary")
    return Dictionary(described)
