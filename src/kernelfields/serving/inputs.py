"""Inputs of sequences in the forms of a fit: arrays, sparse rows, feature dicts or feature strings.

    {"word": "cat", "upper": True, "len": 3.0}  ->  ("word:cat", 1), ("upper", 1), ("len", 3)
    ["bias", "word=cat"]                        ->  ("bias", 1), ("word=cat", 1)

Names and weights are those of data/chunks.py; names that the model does not have are left out. Sparse
rows are any object with data, indices, indptr and shape, as scipy's CSR arrays are; scipy itself is not needed.
Models of words have transformers, which make features of them: pipelines take words or rows alone, and a model that
``kernelfields train`` wrote takes words and tuples of cells beside lists and dicts of features.
Raises ValueError or TypeError with the sequence and the difference from the data of the fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kernelfields.data.chunks import feature_text, iterate_features, number_word
from kernelfields.inputs.step import Layout
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.models.model_file import Document
from kernelfields.numerics.containers import find_column_names
from kernelfields.numerics.sparse_rows import Rows, SparseRows, is_sparse, make_offsets
from kernelfields.numerics.stored_arrays import whole_array, whole_number

if TYPE_CHECKING:
    from kernelfields.features.text import StoredTransformer


class ServingError(ValueError):
    """A model is unreadable or unsupported.

    Examples
    --------
    >>> from kernelfields import SegmentCRF
    >>> from kernelfields.serving import ServingError, load_chain
    >>> SegmentCRF("linear", prior_variance=1.0).fit([[[0.0], [1.0]]], [["a", "b"]]).save("segments.safetensors")
    >>> try:
    ...     load_chain("segments.safetensors")
    ... except ServingError as error:
    ...     print(error)
    segments.safetensors: a model of the kind 'SegmentCRF' cannot be served: ChainCRF, KernelClassifier can
    """


class Packed(NamedTuple):
    """Concatenated sequences: rows (N, d), dense or sparse, offsets (S + 1,), and penalties of labels."""

    rows: Rows
    offsets: np.ndarray
    #: Penalties of 0 and minus infinity (N, L); None where all labels are allowed.
    penalties: np.ndarray | None = None

    def split(self, array: np.ndarray) -> list[np.ndarray]:
        """Split an array over positions by sequence."""
        return [array[first:last] for first, last in pairwise(self.offsets.tolist())]

    def part(self, first: int, last: int) -> Packed:
        """Return the sequences from ``first`` to ``last`` - 1."""
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        penalties = None if self.penalties is None else self.penalties[rows]
        return Packed(self.rows[rows], self.offsets[first : last + 1] - self.offsets[first], penalties)


class Inputs:
    """A reader of inputs, from the entry "inputs" of a model's document.

    ``transformers`` make features of words, always or, with ``features_too``, where there are words and not features.
    ``of_rows`` reads one table, each row of which is a sequence of one position.
    """

    def __init__(
        self,
        described: Document,
        n_labels: int,
        transformers: Sequence[StoredTransformer] = (),
        *,
        features_too: bool = False,
        of_rows: bool = False,
    ):
        self.transformers, self.features_too, self.of_rows = transformers, features_too, of_rows
        self.n_features = whole_number(described["n_features"], "the number of features", 1)
        self.sparse = bool(described["sparse"])
        self.columns = None if described.get("columns") is None else list(described["columns"])
        names = described.get("feature_names")
        #: Columns of the features of dicts and strings, by their names; None where inputs are numbers.
        self.names: dict[str, int] | None = None if names is None else dict(zip(names, range(len(names)), strict=True))
        if self.names is not None and len(self.names) != self.n_features:
            raise ServingError("the names of the features do not match their number")
        whole_number(described.get("categories", 0), "the number of categories", 0)
        #: What is done to the columns, and how many there are then.
        self.steps = ColumnSteps.rebuild({None: described})
        self.n_columns = self.steps.n_columns(self.n_features)
        allowed = described.get("allowed")
        self.dictionary = None if allowed is None else Dictionary(allowed, n_labels)

    def read(self, sequences: Sequence) -> Packed:
        """Convert sequences to rows."""
        sequences = self._features_of_words(sequences)
        rows, lengths = self._rows(sequences)
        if not np.isfinite(rows.data if is_sparse(rows) else rows).all():
            raise ValueError("inputs must be finite: impute or drop what is not")
        penalties = None if self.dictionary is None else self.dictionary.penalties(sequences, rows)
        offsets = np.arange(rows.shape[0] + 1) if self.of_rows else make_offsets(np.array(lengths))
        return Packed(self.steps(rows, Layout(offsets)), offsets, penalties)

    def encode(self, x: Sequence) -> dict[str, np.ndarray]:
        """Convert one sequence to inputs of the ONNX graph: an array, or indptr, indices and values."""
        rows, _ = self._rows(self._features_of_words([x]))
        if not is_sparse(rows):
            return {"inputs": rows.astype(np.float64, copy=False)}
        whole = {"indptr": rows.indptr.astype(np.int64), "indices": rows.indices.astype(np.int64)}
        return {**whole, "values": rows.data.astype(np.float64)}

    def _features_of_words(self, sequences: Sequence) -> Sequence:
        if self.features_too and not any(isinstance(next(iter(x), None), str | tuple) for x in sequences):
            return sequences
        for transformer in self.transformers:
            sequences = transformer.transform(sequences)
        return sequences

    def _rows(self, sequences: Sequence) -> tuple[Rows, list[int]]:
        return self._arrays(sequences) if self.names is None else self._features(sequences, self.names)

    def _features(self, sequences: Sequence, columns_by_name: Mapping[str, int]) -> tuple[Rows, list[int]]:
        columns: list[int] = []
        weights: list[float] = []
        counts: list[int] = []
        for index, sequence in enumerate(sequences):
            if isinstance(sequence, str | Mapping) or not isinstance(sequence, Collection) or not len(sequence):
                raise ValueError(f"{self._name(index)} must be a list of feature dicts or of lists of feature strings")
            for position in sequence:
                before = len(columns)
                try:
                    for name, weight in iterate_features(position):
                        if weight and name in columns_by_name:
                            columns.append(columns_by_name[name])
                            weights.append(weight)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{self._name(index)}: {error}") from error
                counts.append(len(columns) - before)
        found = np.array(weights), np.array(columns, dtype=np.int64), np.array(counts)
        rows = SparseRows.from_entries(*found, self.n_features)
        return rows if self.sparse else rows.toarray(), [len(sequence) for sequence in sequences]

    def _arrays(self, sequences: Sequence) -> tuple[Rows, list[int]]:
        tables = [self._table(item, self._name(index)) for index, item in enumerate(sequences)]
        single = all(table.dtype in (np.float32, np.float16) for table in tables)
        dtype, lengths = np.float32 if single else np.float64, [table.shape[0] for table in tables]
        if not self.sparse:
            dense = [table.toarray() if is_sparse(table) else table for table in tables]
            return np.concatenate(dense).astype(dtype, copy=False), lengths
        parts = [SparseRows.from_rows(table) for table in tables]
        data = np.concatenate([part.data for part in parts]).astype(dtype, copy=False)
        indices = np.concatenate([part.indices for part in parts])
        counts = np.concatenate([np.diff(part.indptr) for part in parts])
        return SparseRows.from_entries(data, indices, counts, self.n_features), lengths

    def _table(self, item: object, name: str) -> Rows:
        if is_sparse(item):
            item = item.tocsr()
        if self.columns is not None and find_column_names(item) not in (None, self.columns):
            raise ValueError(f"{name} has other columns than the data of the fit: {', '.join(self.columns[:5])} ...")
        if is_sparse(item):
            table: Rows = SparseRows.from_rows(item)
        else:
            table = np.asarray(item)
            if table.dtype.kind not in "biuf":
                raise ValueError(f"{name} holds {table.dtype} values, and this model was fitted on numeric arrays")
        if len(table.shape) != 2 or table.shape[0] == 0 or table.shape[1] != self.n_features:
            needed = f"(rows, {self.n_features}): one row alone is passed as [x]"
            if not self.of_rows:
                needed = f"(positions, {self.n_features}); one sequence alone is passed as [x]"
            raise ValueError(f"{name} has the shape {tuple(table.shape)}, and this model needs {needed}")
        return table

    def _name(self, index: int) -> str:
        """Return the name of a sequence, or of the table of rows, in messages."""
        return "X" if self.of_rows else f"sequence {index}"


class Dictionary:
    """Allowed labels by the value of a feature; see data/label_dictionary.py."""

    def __init__(self, described: Document, n_labels: int):
        if described["kind"] != "dictionary":
            raise ServingError(f"labels allowed by {described['kind']!r} cannot be served: use a LabelDictionary")
        self.feature = described["feature"]
        self._numbers = {word: number for number, word in enumerate(described["words"], start=1)}
        sizes = whole_array(described["sizes"], "the sizes of allowed sets", (len(self._numbers) + 1,), n_labels + 1)
        labels = whole_array(described["labels"], "the labels allowed", (int(sizes.sum()),), n_labels)
        if (sizes == 0).any() or not isinstance(self.feature, str | int):
            raise ServingError("a word of the dictionary has no label, or its feature is no name and no column")
        self._penalties = np.full((len(sizes), n_labels), -np.inf)
        self._penalties[np.repeat(np.arange(len(sizes)), sizes), labels] = 0.0

    def penalties(self, sequences: Sequence, rows: Rows) -> np.ndarray:
        """Return 0 for allowed labels and minus infinity for others, (N, L)."""
        return self._penalties[[self._numbers.get(word, 0) for word in self._words(sequences, rows)]]

    def _words(self, sequences: Sequence, rows: Rows) -> Iterable[str | None]:
        if isinstance(self.feature, str):
            return [feature_text(position, self.feature) for sequence in sequences for position in sequence]
        column = rows[:, self.feature : self.feature + 1]
        return [number_word(value) for value in (column.toarray() if is_sparse(column) else column)[:, 0]]
