"""Sequences laid end to end: one array of positions and the offsets where sequences begin.

    sequence i owns rows offsets[i] .. offsets[i + 1] - 1,    i = 0 .. S - 1

Arrays: inputs (N, d) dense C-contiguous float32 or float64, or CSR; offsets (S + 1,) int64; labels (N,)
int64 indices into the sorted classes (L,); weights (S,) float64. Everything else in the package walks
these arrays and never Python lists. Cost: one copy of the data, O(N d) checks, O(N log L) for labels.
Fails: ValueError or TypeError naming the sequence (counted from 0) and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp

_EXPECTED_X = "X must be a list of sequences, each an array of shape (rows, features)"
_EXPECTED_Y = "y must be a list with one list or array of labels per sequence"
_DICTS = "Lists of feature dicts, one dict per position, are the way to pass words and categories."
_SHOWN_CLASSES = 10


@dataclass(frozen=True, eq=False)
class Chains:
    """Packed sequences with their labels (None when unknown) and one weight per sequence."""

    inputs: Any
    offsets: np.ndarray
    labels: Any = None
    weights: np.ndarray = None  # type: ignore[assignment]  # ones, filled in below

    def __post_init__(self) -> None:
        if self.weights is None:
            object.__setattr__(self, "weights", np.ones(len(self.offsets) - 1))
        rows = self.inputs.shape[0]
        if self.offsets[0] != 0 or self.offsets[-1] != rows:
            raise ValueError(
                f"offsets must run from 0 to the number of rows, {rows}, "
                f"got {self.offsets[0]} to {self.offsets[-1]}"
            )

    @classmethod
    def from_sequences(
        cls, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None
    ) -> tuple[Chains, np.ndarray | None]:
        """Check and pack lists of sequences; return the chains and the sorted classes.

        Without ``y`` the labels are None and ``classes`` comes back as it was given.
        """
        inputs, offsets = pack_inputs(X)
        labels = None
        if y is not None:
            labels, classes = encode_labels(y, classes, np.diff(offsets))
        weights = check_sample_weight(sample_weight, len(offsets) - 1)
        return cls(inputs, offsets, labels, weights), classes

    @property
    def n_sequences(self) -> int:
        """Number of sequences S."""
        return len(self.offsets) - 1

    @property
    def n_positions(self) -> int:
        """Number of positions N, all sequences together."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> np.ndarray:
        """Number of positions of every sequence, (S,)."""
        return np.diff(self.offsets)

    @property
    def starts(self) -> np.ndarray:
        """Row of the first position of every sequence, (S,)."""
        return self.offsets[:-1]

    @property
    def ends(self) -> np.ndarray:
        """Row of the last position of every sequence, (S,)."""
        return self.offsets[1:] - 1

    @property
    def is_start(self) -> np.ndarray:
        """Mask of the rows that begin a sequence, (N,)."""
        mask = np.zeros(self.n_positions, dtype=bool)
        mask[self.starts] = True
        return mask

    @property
    def position_weights(self) -> np.ndarray:
        """The weight of its sequence for every position, (N,)."""
        return np.repeat(self.weights, self.lengths)

    def split(self, array: Any) -> list:
        """Cut an array with N rows into one view per sequence."""
        if array.shape[0] != self.n_positions:
            raise ValueError(f"expected {self.n_positions} rows, one per position, got {array.shape[0]}")
        return [array[first:last] for first, last in pairwise(self.offsets.tolist())]

    def subset(self, indices: Any) -> Chains:
        """Copy the chosen sequences: whole numbers, a mask of length S, or a slice."""
        chosen = np.arange(self.n_sequences)[indices].reshape(-1)
        lengths = self.lengths[chosen]
        offsets = _offsets(lengths)
        rows = np.repeat(self.starts[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        labels = None if self.labels is None else self.labels[rows]
        return Chains(self.inputs[rows], offsets, labels, self.weights[chosen])


def pack_inputs(X: Any, *, finite: bool = True) -> tuple[Any, np.ndarray]:
    """Stack a list of per-sequence arrays into one (N, d) array or CSR; return it with the offsets.

    float32 is kept when every sequence is float32; everything else becomes float64. ``finite=False``
    lets NaN and infinity pass, for data that is still to be imputed.
    """
    items = _list_input_sequences(X)
    sparse = sp.issparse(items[0])
    arrays = []
    for index, item in enumerate(items):
        if sp.issparse(item) != sparse:
            kinds = ("dense", "sparse") if sparse else ("sparse", "dense")
            raise ValueError(
                f"sequence {index} is {kinds[0]} but sequence 0 is {kinds[1]}: make all sequences one kind, "
                "scipy.sparse.csr_array(x) or x.toarray()"
            )
        arrays.append(_numeric_table(item, index))
    lengths = np.array([array.shape[0] for array in arrays], dtype=np.int64)
    widths = np.array([array.shape[1] for array in arrays])
    _check_shapes(lengths, widths)
    offsets = _offsets(lengths)
    single = all(array.dtype == np.float32 for array in arrays)
    dtype = np.float32 if single else np.float64
    shape = (int(offsets[-1]), int(widths[0]))
    if sparse:
        inputs = _stack_sparse(arrays, shape, dtype)
    else:
        # Written into a fresh array: concatenate alone would keep the column order of Fortran inputs.
        inputs = np.concatenate(arrays, out=np.empty(shape, dtype), casting="same_kind")
    if finite:
        _check_finite(inputs, offsets)
    return inputs, offsets


def encode_labels(y: Any, classes: Any = None, lengths: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Turn label sequences into indices (N,) into sorted classes (L,); return both.

    ``classes=None`` learns them and needs at least two. ``lengths`` holds the rows of every sequence in X.
    """
    items = _list_label_sequences(y)
    if lengths is not None and len(items) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences but y has {len(items)}: each needs its labels")
    arrays = [_label_array(item, f"sequence {index} of y") for index, item in enumerate(items)]
    sizes = np.array([len(array) for array in arrays], dtype=np.int64)
    if lengths is not None and (wrong := np.flatnonzero(sizes != lengths)).size:
        index = wrong[0]
        raise ValueError(
            f"sequence {index} has {lengths[index]} rows in X but {sizes[index]} labels in y. Each position "
            "needs one label; if the last one is unknown, drop that row."
        )
    if (empty := np.flatnonzero(sizes == 0)).size:
        raise ValueError(f"sequence {empty[0]} of y is empty: remove it from X and y")
    strings = np.array([array.dtype.kind == "U" for array in arrays])
    if (other := np.flatnonzero(strings != strings[0])).size:
        names = ("strings", "numbers") if strings[0] else ("numbers", "strings")
        raise ValueError(
            f"labels mix strings and numbers: sequence 0 has {names[0]}, sequence {other[0]} has {names[1]}. "
            "Use one kind throughout, for example str(label)."
        )
    flat = np.concatenate(arrays)
    offsets = _offsets(sizes)
    _check_whole(flat, offsets)
    if classes is None:
        known = np.unique(flat)
        if len(known) < 2:
            raise ValueError(
                f"y holds one class only, {known[0].item()!r}: fitting needs at least two different labels"
            )
    else:
        known = np.unique(_label_array(list(classes), "classes"))
        if (known.dtype.kind == "U") != strings[0]:
            raise ValueError(
                f"unknown label {flat[0].item()!r} at sequence 0, position 0: known are {_show(known)}"
            )
    labels = np.minimum(np.searchsorted(known, flat), len(known) - 1)
    if classes is not None and (unknown := np.flatnonzero(known[labels] != flat)).size:
        sequence, position = _locate(offsets, unknown[0])
        raise ValueError(
            f"unknown label {flat[unknown[0]].item()!r} at sequence {sequence}, position {position}: "
            f"known are {_show(known)}"
        )
    return labels, known


def check_sample_weight(sample_weight: Any, n_sequences: int) -> np.ndarray:
    """Return one non-negative finite weight per sequence, ones for None."""
    if sample_weight is None:
        return np.ones(n_sequences)
    expected = f"sample_weight holds one number per sequence, {n_sequences} here"
    single = "Weights of single positions are not supported; weigh whole sequences."
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected}, got {type(sample_weight).__name__} ({error}). {single}") from error
    if weights.shape != (n_sequences,):
        raise ValueError(f"{expected}, got shape {weights.shape}. {single}")
    if (bad := np.flatnonzero(~np.isfinite(weights) | (weights < 0))).size:
        raise ValueError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}: weights must be finite and not negative")
    if not weights.any():
        raise ValueError("sample_weight is zero for every sequence: nothing is left to fit")
    return weights


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64, copy=False)


def _locate(offsets: np.ndarray, row: int) -> tuple[int, int]:
    sequence = int(np.searchsorted(offsets, row, side="right")) - 1
    return sequence, int(row - offsets[sequence])


def _show(known: np.ndarray) -> str:
    shown = ", ".join(repr(label) for label in known[:_SHOWN_CLASSES].tolist())
    rest = len(known) - _SHOWN_CLASSES
    return f"{shown} and {rest} more" if rest > 0 else shown


def _is_sequence(values: Any) -> bool:
    text_or_table = isinstance(values, str | bytes | Mapping)
    return hasattr(values, "__len__") and hasattr(values, "__getitem__") and not text_or_table


def _list_input_sequences(X: Any) -> list:
    ndim = getattr(X, "ndim", 1)
    if ndim == 2:
        raise ValueError(
            f"{_EXPECTED_X}, got one {type(X).__name__} of shape {X.shape}. "
            "If it is a single sequence, wrap it: [X]."
        )
    if ndim == 3:
        raise ValueError(
            f"{_EXPECTED_X}, got a 3-D array of shape {X.shape}, where padding would be taken for data. "
            "If no row is padding, use list(X); otherwise [x[:length] for x, length in zip(X, lengths)]."
        )
    if ndim != 1 or not _is_sequence(X):
        raise TypeError(f"{_EXPECTED_X}, got {type(X).__name__}. Collect the sequences in a list first.")
    items = list(X)
    if not items:
        raise ValueError(f"{_EXPECTED_X}, got an empty one: at least one sequence is needed")
    return items


def _numeric_table(item: Any, index: int) -> Any:
    if sp.issparse(item):
        array = item.tocsr() if item.ndim == 2 else item
    elif type(item) is np.ndarray:
        array = item
    else:
        if isinstance(item, np.ma.MaskedArray):
            raise ValueError(f"sequence {index} is a masked array: fill or drop the masked rows first")
        try:
            array = np.asarray(item)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"sequence {index} cannot be read as an array of shape (rows, features): {error}. "
                "Do its rows have different lengths?"
            ) from error
    if array.dtype.kind == "O":
        array = _numbers_of_objects(array, index)
    if array.dtype.kind in "USTMmV":
        raise ValueError(f"sequence {index} holds {array.dtype} values where numbers are needed. {_DICTS}")
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: sequence {index} is {array.dtype}. "
            "Pass real and imaginary parts as columns."
        )
    if array.ndim != 2:
        raise ValueError(
            f"sequence {index} has shape {array.shape}, expected two dimensions (rows, features). With one "
            "number per position use x.reshape(-1, 1); if X is a single sequence, wrap it: [X]."
        )
    return array


def _numbers_of_objects(array: np.ndarray, index: int) -> np.ndarray:
    for value in array.ravel():
        if not isinstance(value, Number) or isinstance(value, complex):
            raise ValueError(
                f"sequence {index} holds {value!r:.60} ({type(value).__name__}) where numbers are needed. {_DICTS}"
            )
    return array.astype(np.float64)


def _check_shapes(lengths: np.ndarray, widths: np.ndarray) -> None:
    if (empty := np.flatnonzero(lengths == 0)).size:
        raise ValueError(f"sequence {empty[0]} has no rows: remove empty sequences from X and y")
    if (other := np.flatnonzero(widths != widths[0])).size:
        raise ValueError(
            f"sequence {other[0]} has {widths[other[0]]} features but sequence 0 has {widths[0]}: "
            "all sequences need the same columns"
        )
    if widths[0] == 0:
        raise ValueError(
            "sequence 0 has no features: at least one column is needed; use a column of ones for none"
        )


def _stack_sparse(arrays: list, shape: tuple[int, int], dtype: type) -> Any:
    counts = np.concatenate([np.diff(array.indptr) for array in arrays])
    indptr = _offsets(counts)
    # A CSR may carry spare room after its last row, so only the first nnz entries count.
    values = [array.data[: array.indptr[-1]] for array in arrays]
    data: np.ndarray = np.concatenate(values, dtype=dtype, casting="same_kind")
    columns = np.concatenate([array.indices[: array.indptr[-1]] for array in arrays])
    index = np.int32 if max(indptr[-1], *shape) <= np.iinfo(np.int32).max else np.int64
    stacked = sp.csr_array((data, columns.astype(index, copy=False), indptr.astype(index)), shape=shape)
    stacked.check_format(full_check=True)
    stacked.sum_duplicates()
    return stacked


def _check_finite(inputs: Any, offsets: np.ndarray) -> None:
    values = inputs.data if sp.issparse(inputs) else inputs
    if not values.size or (np.isfinite(values.min()) and np.isfinite(values.max())):
        return
    if sp.issparse(inputs):
        entry = int(np.flatnonzero(~np.isfinite(values))[0])
        row, column = int(np.searchsorted(inputs.indptr, entry, side="right")) - 1, int(inputs.indices[entry])
        value = values[entry]
    else:
        row, column = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
        value = values[row, column]
    sequence, position = _locate(offsets, row)
    raise ValueError(
        f"sequence {sequence} holds {value} in row {position}, column {column}: inputs must be finite. "
        "Impute or drop it."
    )


def _list_label_sequences(y: Any) -> list:
    if not _is_sequence(y) or getattr(y, "ndim", 1) == 0:
        raise TypeError(f"{_EXPECTED_Y}, got {type(y).__name__}")
    return list(y)


def _label_array(item: Any, where: str) -> np.ndarray:
    if isinstance(item, Iterable) and not isinstance(item, str | bytes | Mapping | list | tuple | np.ndarray):
        item = np.asarray(item) if hasattr(item, "__array__") else list(item)
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind in "OT":
        item = item.tolist()
    if not isinstance(item, list | tuple | np.ndarray):
        raise ValueError(f"{where} is {item!r:.60} ({type(item).__name__}): {_EXPECTED_Y}")
    if not isinstance(item, np.ndarray):
        # np.asarray would silently turn the 1 of ["a", 1] into "1".
        textual = {issubclass(kind, str) for kind in set(map(type, item))}
        if len(textual) == 2:
            first = isinstance(item[0], str)
            position = next(place for place, label in enumerate(item) if isinstance(label, str) != first)
            raise ValueError(
                f"{where} mixes strings with other labels: position 0 is {item[0]!r}, position {position} is "
                f"{item[position]!r}. Every position needs one label of one kind."
            )
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"{where} is not a flat list of labels: {error}") from error
    if array.ndim != 1:
        raise ValueError(
            f"{where} has shape {array.shape}, expected one label per position. For one-hot rows use "
            "labels.argmax(axis=1), for a single column labels.ravel()."
        )
    if array.dtype.kind not in "biufU":
        raise ValueError(
            f"{where} holds labels of type {type(item[0]).__name__} ({item[0]!r:.60}): use strings, "
            "whole numbers or booleans, and leave no label missing"
        )
    return array


def _check_whole(flat: np.ndarray, offsets: np.ndarray) -> None:
    if flat.dtype.kind != "f":
        return
    if (bad := np.flatnonzero(~np.isfinite(flat) | (flat != np.floor(flat)))).size:
        sequence, position = _locate(offsets, bad[0])
        raise ValueError(
            f"label {flat[bad[0]]} at sequence {sequence}, position {position} is not a whole number: "
            "labels are classes, and these look like regression targets. Bin them, or pass strings."
        )
