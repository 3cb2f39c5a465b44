"""Inputs of sequences, packed: a list of S arrays (T_i, d) becomes one (N, d) array and the offsets.

Result: dense C-contiguous float32 or float64, or CSR with sorted columns; offsets (S + 1,) int64. Cost: one copy
of the data and O(N d) checks, O(nnz) for sparse inputs.
Fails: ValueError or TypeError naming the sequence (counted from 0) and what to do about it.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp

from kernelfields.fields.sequences import SEQUENCES, Nouns, is_sequence, locate, offsets_of

_EXPECTED_X = "X must be a list of sequences, each an array of shape (rows, features)"


def pack_inputs(X: Any, *, finite: bool = True) -> tuple[Any, np.ndarray]:
    """Stack a list of per-sequence arrays into one (N, d) array or CSR; return it with the offsets.

    float32 is kept when every sequence is float32; everything else becomes float64. ``finite=False``
    lets NaN and infinity pass, for data that is still to be imputed.
    """
    return stack_tables(_list_input_sequences(X), finite=finite)


def stack_tables(
    items: list, nouns: Nouns = SEQUENCES, numbers: Any = None, *, finite: bool = True
) -> tuple[Any, np.ndarray]:
    """Stack tables (rows, features) with at least one row each, as ``pack_inputs`` does with those of sequences.

    ``numbers`` holds the number by which messages call each table; None counts them from 0.
    """
    names = [nouns.name(number) for number in (range(len(items)) if numbers is None else numbers)]
    sparse = sp.issparse(items[0])
    arrays = []
    for item, name in zip(items, names, strict=True):
        if sp.issparse(item) != sparse:
            kinds = ("dense", "sparse") if sparse else ("sparse", "dense")
            raise ValueError(
                f"{name} is {kinds[0]} but {names[0]} is {kinds[1]}: make all {nouns.whole}s one kind, "
                "scipy.sparse.csr_array(x) or x.toarray()"
            )
        arrays.append(_numeric_table(item, name, nouns))
    lengths = np.array([array.shape[0] for array in arrays], dtype=np.int64)
    widths = np.array([array.shape[1] for array in arrays])
    _check_shapes(lengths, widths, names, nouns)
    offsets = offsets_of(lengths)
    single = all(array.dtype == np.float32 for array in arrays)
    dtype = np.float32 if single else np.float64
    shape = (int(offsets[-1]), int(widths[0]))
    if sparse:
        inputs = _stack_sparse(arrays, shape, dtype)
    else:
        # Written into a fresh array: concatenate alone would keep the column order of Fortran inputs.
        inputs = np.concatenate(arrays, out=np.empty(shape, dtype), casting="same_kind")
    if finite:
        _check_finite(inputs, offsets, names)
    return inputs, offsets


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
    if ndim != 1 or not is_sequence(X):
        raise TypeError(f"{_EXPECTED_X}, got {type(X).__name__}. Collect the sequences in a list first.")
    items = list(X)
    if not items:
        raise ValueError(f"{_EXPECTED_X}, got an empty one: at least one sequence is needed")
    return items


def _numeric_table(item: Any, name: str, nouns: Nouns) -> Any:
    if sp.issparse(item):
        array = item.tocsr() if item.ndim == 2 else item
    elif type(item) is np.ndarray:
        array = item
    else:
        if isinstance(item, np.ma.MaskedArray):
            raise ValueError(f"{name} is a masked array: fill or drop the masked rows first")
        try:
            array = np.asarray(item)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} cannot be read as an array of shape (rows, features): {error}. "
                "Do its rows have different lengths?"
            ) from error
    if array.dtype.kind == "O":
        array = _numbers_of_objects(array, name, nouns)
    if array.dtype.kind in "USTMmV":
        raise ValueError(f"{name} holds {array.dtype} values where numbers are needed. {nouns.words}")
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} is {array.dtype}. Pass real and imaginary parts as columns."
        )
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}, expected two dimensions (rows, features). With one "
            f"number per {nouns.part} use x.reshape(-1, 1); if X is a single {nouns.whole}, wrap it: [X]."
        )
    return array


def _numbers_of_objects(array: np.ndarray, name: str, nouns: Nouns) -> np.ndarray:
    for value in array.ravel():
        if not isinstance(value, Number) or isinstance(value, complex):
            raise ValueError(
                f"{name} holds {value!r:.60} ({type(value).__name__}) where numbers are needed. {nouns.words}"
            )
    return array.astype(np.float64)


def _check_shapes(lengths: np.ndarray, widths: np.ndarray, names: list[str], nouns: Nouns) -> None:
    if (empty := np.flatnonzero(lengths == 0)).size:
        raise ValueError(f"{names[empty[0]]} has no rows: remove empty {nouns.whole}s from X and y")
    if (other := np.flatnonzero(widths != widths[0])).size:
        raise ValueError(
            f"{names[other[0]]} has {widths[other[0]]} features but {names[0]} has {widths[0]}: "
            f"all {nouns.whole}s need the same columns"
        )
    if widths[0] == 0:
        raise ValueError(
            f"{names[0]} has no features: at least one column is needed; use a column of ones for none"
        )


def _stack_sparse(arrays: list, shape: tuple[int, int], dtype: type) -> Any:
    counts = np.concatenate([np.diff(array.indptr) for array in arrays])
    indptr = offsets_of(counts)
    # A CSR may carry spare room after its last row, so only the first nnz entries count.
    values = [array.data[: array.indptr[-1]] for array in arrays]
    data: np.ndarray = np.concatenate(values, dtype=dtype, casting="same_kind")
    columns = np.concatenate([array.indices[: array.indptr[-1]] for array in arrays])
    index = np.int32 if max(indptr[-1], *shape) <= np.iinfo(np.int32).max else np.int64
    stacked = sp.csr_array((data, columns.astype(index, copy=False), indptr.astype(index)), shape=shape)
    stacked.check_format(full_check=True)
    stacked.sum_duplicates()
    return stacked


def _check_finite(inputs: Any, offsets: np.ndarray, names: list[str]) -> None:
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
    sequence, position = locate(offsets, row)
    raise ValueError(
        f"{names[sequence]} holds {value} in row {position}, column {column}: inputs must be finite. "
        "Impute or drop it."
    )
