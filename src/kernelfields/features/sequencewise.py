"""Tabular scikit-learn transformers, applied to the positions of sequences.

    (x_1, ..., x_S)  ->  stack to (N, d)  ->  transform to (N, d')  ->  split into S sequences

The transformer is applied to all positions at once, so a StandardScaler learns one mean per column, not one per
sequence. After ``set_output`` each sequence becomes a data frame, with column names derived from those of the inputs.
Cost: one stacked copy of the data, and that of the transformer.

``SequenceUnion`` concatenates the outputs of several transformers of the same sequences at each position:

    words  ->  Embeddings: (T, 384)  |  feature dicts: (T, 20000) sparse  ->  (T, 20384) sparse

Parts are arrays, CSR, or feature dicts and strings, whose names become columns as in ChainCRF. The result is sparse
if a part is sparse. Cost: one copy of all parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.readers import RowReader
from kernelfields.data.reading import Matrix, is_empty
from kernelfields.features.folds import known_labels, repeat_labels
from kernelfields.features.stored_transformers import (
    is_text_transformer,
    rebuild_sklearn_transformer,
    store_transformer,
)
from kernelfields.features.text import TRANSFORMERS, describe_transformer, rebuild_transformer
from kernelfields.features.text_reader import TextReader, choose_reader

_PASSTHROUGH = "passthrough"


def _has_feature_names(sequencewise: Sequencewise) -> bool:
    """Whether the transformer has names of its output columns."""
    inner = getattr(sequencewise, "transformer_", sequencewise.transformer)
    return hasattr(inner, "get_feature_names_out")


def _has_set_output(sequencewise: Sequencewise) -> bool:
    """Whether the transformer has ``set_output``."""
    return hasattr(sequencewise.transformer, "set_output")


# The output is a list of sequences, which scikit-learn's set_output must not wrap into one data frame.
class SequenceTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of transformers of sequences, which compare number and names of columns with the fit."""

    n_features_in_: int
    _reader: RowReader

    def _set_reader(self, reader: RowReader) -> None:
        """Store the reader of the sequences of a fit."""
        self._reader, self.n_features_in_ = reader, reader.n_features
        self.__dict__.pop("feature_names_in_", None)
        if reader.columns is not None:
            self.feature_names_in_ = np.array(reader.columns, dtype=object)

    def _read(self, X: Any) -> tuple[Matrix, np.ndarray]:
        """Return the rows and the offsets of sequences; ValueError if their columns differ from the fit."""
        check_is_fitted(self, "n_features_in_")
        if is_empty(X):
            return np.zeros((0, self.n_features_in_)), np.zeros(1, dtype=np.int64)
        return self._reader.read_inputs(X)


@TRANSFORMERS.register("sequencewise")
class Sequencewise(SequenceTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Apply a transformer of scikit-learn to all positions of sequences.

    NaN and infinity reach the transformer, so an imputer can be wrapped too. Attributes after fit: ``transformer_``,
    the fitted copy, ``n_features_in_``, and ``feature_names_in_`` for data frames.

    Parameters
    ----------
    transformer : transformer
        The transformer of rows, for example a StandardScaler, or of texts, as a TfidfVectorizer.

    See Also
    --------
    kernelfields.features.SequenceUnion : Several transformers side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kernelfields import Sequencewise
    >>> X = [np.array([[1.0], [3.0]]), np.array([[5.0]])]
    >>> [rows.ravel().round(2) for rows in Sequencewise(StandardScaler()).fit_transform(X)]
    [array([-1.22,  0.  ]), array([1.22])]
    """

    def __init__(self, transformer: BaseEstimator):
        self.transformer = transformer

    def fit(self, X: object, y: object = None) -> Sequencewise:
        """Fit the transformer on all positions.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences, optional
            Labels, which are stacked the same way if all of them are known. A label of a whole sequence is one of each
            of its positions.

        Returns
        -------
        self
            The fitted transformer.
        """
        stacked, labels, _ = self._stack_for_fit(X, y)
        self.transformer_.fit(stacked, labels)
        return self

    def fit_transform(self, X: object, y: object = None) -> list:
        """Fit the transformer and return the transformed sequences.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences, optional
            Labels.

        Returns
        -------
        list
            The sequences.
        """
        stacked, labels, offsets = self._stack_for_fit(X, y)
        return self._split(self.transformer_.fit_transform(stacked, labels), offsets)

    def transform(self, X: Any) -> list:
        """Return the transformed sequences.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list
            The sequences.
        """
        stacked, offsets = self._read(X)
        return self._split(self.transformer_.transform(stacked), offsets) if stacked.shape[0] else list(X)

    @available_if(_has_feature_names)
    def get_feature_names_out(self, input_features: Iterable[str] | None = None) -> np.ndarray:
        """Return the names of the output columns.

        Parameters
        ----------
        input_features : list of str, optional
            The names of the columns of inputs; those of the fit by default.

        Returns
        -------
        array of str
            The names.
        """
        check_is_fitted(self, "transformer_")
        names = self._reader.columns if input_features is None else input_features
        return self.transformer_.get_feature_names_out(names)

    @available_if(_has_set_output)
    def set_output(self, *, transform: str | None = None) -> Sequencewise:
        """Set the output of the transformer: data frames, one for each sequence, or arrays.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            The kind; None leaves it as it is.

        Returns
        -------
        self
            The transformer.
        """
        self.transformer.set_output(transform=transform)
        if hasattr(self, "transformer_"):
            self.transformer_.set_output(transform=transform)
        return self

    def describe(self) -> dict[str, object]:
        """Return the fitted transformer as plain values and arrays, for a model file.

        Returns
        -------
        dict
            The description.

        Raises
        ------
        TypeError
            If a part of it is no data.
        """
        check_is_fitted(self, "transformer_")
        columns = {"n_features": self.n_features_in_, "names": self._reader.columns}
        return {"transformer": store_transformer(self.transformer_), **columns}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description.

        Parameters
        ----------
        described : dict
            What ``describe`` returned.

        Returns
        -------
        Sequencewise
            The transformer.
        """
        width = int(described["n_features"])
        fitted = rebuild_sklearn_transformer(described["transformer"], width)
        made = cls(clone(fitted))
        made.transformer_ = fitted
        texts = is_text_transformer(described["transformer"])
        made._set_reader(TextReader() if texts else RowReader(width, columns=described["names"], finite=False))
        return made

    def _stack_for_fit(self, X: object, y: object) -> tuple[Matrix, np.ndarray | None, np.ndarray]:
        reader, labels = choose_reader(X), None
        stacked, offsets = reader.learn_arrays(X)
        if y is not None:
            every, known = known_labels(repeat_labels(y, np.diff(offsets)), np.diff(offsets))
            labels = every if known.all() else None
        self.transformer_ = clone(self.transformer)
        self._set_reader(reader)
        return stacked, labels, offsets

    def _split(self, rows: Any, offsets: np.ndarray) -> list:
        if rows.shape[0] != offsets[-1]:
            raise ValueError(
                f"the transformer made {rows.shape[0]} rows of {offsets[-1]} positions: it must keep each row"
            )
        rows = rows.tocsr() if sp.issparse(rows) else rows
        if hasattr(rows, "columns") and self._reader.columns is not None and _has_feature_names(self):
            # The transformer has seen an array, whose columns have no names.
            rows.columns = list(self.get_feature_names_out())
        parts = [rows[first:last] for first, last in pairwise(offsets.tolist())]
        # Positions of a pandas frame have numbers of their own: each sequence begins with 0.
        return [part.reset_index(drop=True) for part in parts] if hasattr(rows, "reset_index") else parts


@TRANSFORMERS.register("union")
class SequenceUnion(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Concatenate the outputs of several transformers of the same sequences.

    Attributes after fit: ``transformers_``, the fitted copies by name; ``columns_``, which maps a name to its first
    column and the one after its last: ``Columns(RBF(), *union.columns_["words"])``; ``weights_``, by which the columns
    of a part are multiplied: 1, unless a field found better ones.

    Parameters
    ----------
    transformers : list of (str, transformer)
        Names and transformers, as scikit-learn's FeatureUnion has them; "passthrough" takes the sequences as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import WindowFeatures
    >>> from kernelfields.features import SequenceUnion
    >>> union = SequenceUnion([("raw", "passthrough"), ("windows", WindowFeatures(widths=3))])
    >>> union.fit_transform([np.array([[1.0], [2.0], [6.0]])])[0].shape
    (3, 5)
    >>> union.columns_["windows"]
    (1, 5)
    """

    def __init__(self, transformers: Sequence[tuple[str, BaseEstimator | str]]):
        self.transformers = transformers

    def fit(self, X: object, y: object = None) -> SequenceUnion:
        """Fit every transformer, and store names and numbers of columns.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences, optional
            Labels, for transformers that learn from them.

        Returns
        -------
        self
            The fitted transformer.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: object, y: object = None) -> list:
        """Fit every transformer, and concatenate their outputs.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences, optional
            Labels.

        Returns
        -------
        list
            The sequences.
        """
        self._check_parameters()
        self.transformers_ = {name: part if part == _PASSTHROUGH else clone(part) for name, part in self.transformers}
        self._readers = {name: RowReader(warns=False) for name in self.transformers_}
        parts = {}
        for name, transformer in self.transformers_.items():
            made = X if isinstance(transformer, str) else transformer.fit_transform(X, y)
            parts[name] = self._readers[name].learn_inputs(made)
        ends = np.cumsum([0, *(reader.n_features for reader in self._readers.values())]).tolist()
        self.columns_ = dict(zip(parts, pairwise(ends), strict=True))
        self.weights_ = dict.fromkeys(parts, 1.0)
        return self._join(parts)

    def transform(self, X: object) -> list:
        """Concatenate the outputs of the transformers.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list
            The sequences.
        """
        check_is_fitted(self, "columns_")
        parts = {}
        for name, transformer in self.transformers_.items():
            made = X if isinstance(transformer, str) else transformer.transform(X)
            try:
                parts[name] = self._readers[name].read_inputs(made)
            except (TypeError, ValueError) as error:
                raise type(error)(f"what {name!r} made of X: {error}") from error
        return self._join({name: (rows * self.weights_[name], offsets) for name, (rows, offsets) in parts.items()})

    def describe(self) -> dict[str, object]:
        """Return the fitted transformer as plain values and arrays, for a model file.

        Returns
        -------
        dict
            The description.

        Raises
        ------
        TypeError
            If a part of it is no data.
        """
        check_is_fitted(self, "columns_")
        parts = []
        for name, transformer in self.transformers_.items():
            made = transformer if isinstance(transformer, str) else describe_transformer(transformer)
            encoder = self._readers[name].encoder
            names = None if encoder is None else encoder.spec()
            own = {"columns": list(self.columns_[name]), "weight": self.weights_[name]}
            parts.append({"name": name, "transformer": made, "names": names, **own})
        return {"parts": parts}

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from its description.

        Parameters
        ----------
        described : dict
            What ``describe`` returned.

        Returns
        -------
        SequenceUnion
            The transformer.
        """
        parts = {str(part["name"]): part for part in described["parts"]}
        made = {name: part["transformer"] for name, part in parts.items()}
        transformers = {name: own if own == _PASSTHROUGH else rebuild_transformer(own) for name, own in made.items()}
        union = cls(list(transformers.items()))
        union._check_parameters()
        union.transformers_ = transformers
        union.columns_ = {
            name: (int(first), int(last)) for name, part in parts.items() for first, last in [part["columns"]]
        }
        # Files of older versions have no weights.
        union.weights_ = {name: float(part.get("weight", 1.0)) for name, part in parts.items()}
        union._readers = {
            name: RowReader.from_names(part["names"], last - first, warns=False)
            for (name, part), (first, last) in zip(parts.items(), union.columns_.values(), strict=True)
        }
        return union

    def _check_parameters(self) -> None:
        given = self.transformers
        pairs = isinstance(given, list | tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in given)
        if not pairs or not given or not all(isinstance(name, str) for name, _ in given):
            raise ValueError(f"transformers must be a list of (name, transformer), got {given!r:.80}")
        if len({name for name, _ in given}) < len(given):
            raise ValueError("transformers: each needs a name of its own")
        for name, transformer in given:
            if transformer != _PASSTHROUGH and not hasattr(transformer, "transform"):
                raise TypeError(f"{name!r} is {type(transformer).__name__}: give a transformer or 'passthrough'")

    @staticmethod
    def _join(parts: dict[str, tuple[Matrix, np.ndarray]]) -> list:
        names = list(parts)
        offsets = parts[names[0]][1]
        for name in names[1:]:
            if not np.array_equal(parts[name][1], offsets):
                raise ValueError(
                    f"{name!r} made sequences of other lengths than {names[0]!r}: one row a position is needed"
                )
        tables = [rows for rows, _ in parts.values()]
        if any(sp.issparse(table) for table in tables):
            rows = sp.csr_array(sp.hstack([sp.csr_array(table) for table in tables], format="csr"))
        else:
            rows = np.hstack(tables)
        return [rows[first:last] for first, last in pairwise(offsets.tolist())]
