"""Feature dicts or lists of feature strings, one per position, as sparse rows.

Names and weights are those of python-crfsuite, as chunks.py spells out with an example. A name seen twice in one
position adds up. Weights of zero leave no trace and do not enter the vocabulary, unless ``keep_zeros`` is set.

Result: CSR (N, d) float64 with sorted columns and offsets (S + 1,). Columns are numbered in order of first sight.
Cost: one pass over the Python objects, some thousand positions at a time, into flat buffers of 12 bytes per
feature. Raises TypeError or ValueError that names sequence, position and feature.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from kernelfields.data.chunks import count_kept, read_chunk
from kernelfields.data.names import NameTable
from kernelfields.data.positions import show_value
from kernelfields.data.reading import SEQUENCES, is_listing
from kernelfields.inputs.scale import FEW_COLUMNS
from kernelfields.numerics.containers import find_shape
from kernelfields.numerics.group import ALONE, Group
from kernelfields.numerics.parameters import is_real
from kernelfields.numerics.sparse_rows import make_offsets

_EXPECTED = "X must be a list with at least one sequence of feature dicts or of lists of feature strings"


class FeatureDictEncoder:
    """Learn the columns of feature names, and encode feature dicts as sparse rows.

    Names that were not seen in the fit are ignored. X may also be an iterator over sequences; then only one chunk of it
    is held in memory. Attributes after fit: ``vocabulary_`` maps a feature's name to its column, in order of first
    sight.

    Parameters
    ----------
    min_freq : float, default 0
        Names that occur in fewer positions of the fitted data are left out.
    keep_zeros : bool, default False
        Whether weights of zero in the fitted data become entries of the matrix. They change no score, but CRFsuite
        counts them among the features that occur with a label.
    at_once : int, default 2048
        The positions of an iterator that are held in memory.

    Examples
    --------
    >>> from kernelfields.features import FeatureDictEncoder
    >>> encoder = FeatureDictEncoder()
    >>> rows, offsets = encoder.fit_transform([[{"word": "Ann", "upper": 1.0}, {"word": "sings"}]])
    >>> encoder.feature_names_
    ['word:Ann', 'upper', 'word:sings']
    >>> rows.toarray()
    array([[1., 1., 0.],
           [0., 0., 1.]])
    """

    #: Columns of the names; empty before a fit.
    _table = NameTable()

    def __init__(self, min_freq: float = 0, *, keep_zeros: bool = False, at_once: int = 2048):
        if not is_real(min_freq) or not 0 <= min_freq < np.inf:
            raise ValueError(f"min_freq must be a number of positions that is not negative, got {min_freq!r}")
        self.min_freq = min_freq
        self.keep_zeros = keep_zeros
        self.at_once = at_once

    def fit(self, X: object) -> FeatureDictEncoder:
        """Learn the vocabulary of sequences.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        self
            The fitted encoder.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: object) -> tuple[sp.csr_array, np.ndarray]:
        """Learn the vocabulary; return the rows of all positions.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        rows : CSR array (N, d)
            The rows of all sequences.
        offsets : array (S + 1,)
            Where each sequence begins.
        """
        table = NameTable()
        packed, offsets = _encode(X, table, grow=True, keep_zeros=self.keep_zeros, at_once=self.at_once)
        if not len(table):
            raise ValueError("X holds no features: every position is empty or all its weights are zero")
        if self.min_freq > 0:
            packed, table = _drop_rare(packed, table, self.min_freq)
        self._table = table
        return packed, offsets

    def transform(self, X: object) -> tuple[sp.csr_array, np.ndarray]:
        """Return the rows of all positions over the learnt vocabulary.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        rows : CSR array (N, d)
            The rows of all sequences.
        offsets : array (S + 1,)
            Where each sequence begins.
        """
        if not len(self._table):
            raise ValueError("this FeatureDictEncoder has no vocabulary yet: call fit first")
        return _encode(X, self._table, grow=False, keep_zeros=False, at_once=self.at_once)

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Columns by name."""
        return {name: column for column, name in enumerate(self.feature_names_)}

    @property
    def feature_names_(self) -> list[str]:
        """Names of the columns, in order."""
        return self._table.names()

    def spec(self) -> list[str]:
        """Describe the encoder by its feature names.

        Returns
        -------
        list of str
            The names.
        """
        return self.feature_names_

    @classmethod
    def from_spec(cls, names: Iterable[str]) -> FeatureDictEncoder:
        """Rebuild the encoder from its description.

        Parameters
        ----------
        names : iterable of str
            The names.

        Returns
        -------
        FeatureDictEncoder
            The encoder.
        """
        given = list(names)
        encoder = cls()
        encoder._table = NameTable(given)
        if len(encoder._table) < len(given):
            raise ValueError(f"{len(given) - len(encoder._table)} feature names are there twice")
        return encoder

    def keep(self, kept: np.ndarray) -> FeatureDictEncoder:
        """Return an encoder of selected columns, in the same order.

        Parameters
        ----------
        kept : array (d,)
            Whether a column stays.

        Returns
        -------
        FeatureDictEncoder
            The encoder.
        """
        encoder = FeatureDictEncoder()
        encoder._table = self._table.keep(kept)
        return encoder


def _without_names(value: object) -> str:
    return show_value(value) + ("" if find_shape(value) is None else ", which has no names of features")


def _iterate_checked(X: Iterable, lengths: array, empty: bool) -> Iterator[Sequence]:
    """Yield the sequences of X and append their lengths to ``lengths``; ``empty`` allows empty sequences."""
    for index, sequence in enumerate(X):
        if not (type(sequence) is list or is_listing(sequence)):
            raise ValueError(
                f"sequence {index} must be a list of feature dicts or of lists of feature strings, "
                f"got {_without_names(sequence)}"
            )
        if len(sequence) == 0 and not empty:
            raise ValueError(f"sequence {index} is empty: remove empty sequences from X and y")
        lengths.append(len(sequence))
        yield sequence


def _encode(
    X: object, table: NameTable, *, grow: bool, keep_zeros: bool, at_once: int
) -> tuple[sp.csr_array, np.ndarray]:
    """Encode sequences as CSR over the names of a table, with offsets; ``grow`` adds unknown names."""
    if not is_listing(X) and not isinstance(X, Iterator):
        raise ValueError(f"{_EXPECTED}, got {_without_names(X)}")
    lengths, rows = array("q"), _Rows()
    positions = chain.from_iterable(_iterate_checked(X, lengths, not grow))

    def place(row: int) -> str:
        return SEQUENCES.place(make_offsets(np.asarray(lengths)), len(rows.counts) + row)

    while some := list(islice(positions, at_once)):
        chunk = read_chunk(some, place)
        if chunk.weights is not None and not keep_zeros and not chunk.weights.all():
            chunk = chunk.select(chunk.weights != 0.0)
        columns = table.add(chunk.names) if grow else table.find(chunk.names)
        rows.append(columns, chunk.weights, chunk.counts)
    if not lengths:
        raise ValueError(f"{_EXPECTED}, got an empty one")
    return rows.packed(len(table)), make_offsets(np.asarray(lengths))


class _Rows:
    """Growing flat buffers of a CSR matrix: columns, weights, and numbers of entries of rows."""

    def __init__(self) -> None:
        self.columns, self.weights, self.counts = array("i"), array("d"), array("q")

    def append(self, columns: np.ndarray, weights: np.ndarray | None, counts: np.ndarray) -> None:
        if weights is not None:
            self._weigh_all()
            _extend(self.weights, weights)
        _extend(self.columns, columns)
        _extend(self.counts, counts)

    def packed(self, n_columns: int) -> sp.csr_array:
        """Return the CSR with sorted columns; entries of column -1 are dropped, equal columns add up."""
        columns, counts = np.asarray(self.columns), np.asarray(self.counts)
        if self.weights:
            self._weigh_all()
        weights = np.asarray(self.weights) if self.weights else np.ones(len(columns))
        if not (known := columns >= 0).all():
            columns, weights, counts = columns[known], weights[known], count_kept(counts, known)
        indptr = make_offsets(counts)
        index = np.int32 if indptr[-1] <= np.iinfo(np.int32).max else np.int64
        packed = sp.csr_array((weights, columns, indptr.astype(index)), shape=(len(counts), n_columns))
        packed.sum_duplicates()
        return packed

    def _weigh_all(self) -> None:
        # Entries that came without weights weigh 1; they are written when the first weight comes.
        _extend(self.weights, np.ones(len(self.columns) - len(self.weights)))


def _extend(values: array, more: np.ndarray) -> None:
    values.frombytes(more.view(np.uint8).data)


def _drop_rare(packed: sp.csr_array, table: NameTable, min_freq: float) -> tuple[sp.csr_array, NameTable]:
    kept = np.bincount(packed.indices[packed.data != 0.0], minlength=len(table)) >= min_freq
    if kept.all():
        return packed, table
    if not kept.any():
        raise ValueError(f"no feature occurs in min_freq={min_freq} positions: make it smaller")
    return packed[:, np.flatnonzero(kept)], table.keep(kept)


def with_categories(rows: Any, data: Any, among: Group = ALONE) -> Any:
    """Return the named features of rows, a RowReader, as columns of numbers followed by columns of categories.

    For few columns some of which hold other numbers than 0 and 1; others stay as they are.
    """
    inputs: Any = data.inputs  # sparse, where features have names
    if rows.encoder is None or inputs.shape[1] > FEW_COLUMNS:
        return data
    is_number = np.zeros(inputs.shape[1], dtype=bool)
    is_number[inputs.indices[(inputs.data != 0.0) & (inputs.data != 1.0)]] = True
    is_number = among.total(is_number.astype(np.float64)) > 0.0
    if not isinstance(rows.apart, bool):
        is_number = np.isin(rows.encoder.feature_names_, rows.apart)
    if not is_number.any() or is_number.all():
        return data
    order = np.argsort(~is_number, kind="stable")
    rows.categories, rows.sparse = int(np.count_nonzero(~is_number)), False
    rows.encoder = FeatureDictEncoder.from_spec([rows.encoder.feature_names_[column] for column in order])
    return replace(data, inputs=inputs.toarray()[:, order])
