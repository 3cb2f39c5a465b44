"""Readers: the kind of inputs of a fit, by which new inputs are read for predictions.

    RowReader      lists of arrays (T, d), dense or CSR, of feature dicts or of feature strings    -> rows (N, d)
    InputReader    labelled sequences, their rows read by a RowReader                              -> Chains
    GraphReader    graphs with features of nodes and factors, graph_reader.py                      -> Graphs
    TableReader    one table (n, d), dense or CSR, table_reader.py                                 -> rows

Transformers have readers of rows alone, of strings as well (features/text_reader.py). Items are read by ``learn_items``
and ``read_items``, labels and weights by ``learn`` and ``read``, alike for all. ``describe`` and ``rebuild`` are for
model files.
Raises ValueError or TypeError that names what differs from the data of the fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse

from kernelfields.data import extras, label_forms
from kernelfields.data.chains import Chains, Packed
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.reading import (
    SEQUENCES,
    ItemNames,
    LabelForm,
    Matrix,
    check_sample_weight,
    encode_labels,
    has_no_rows,
    has_partial_labels,
    has_words,
    is_empty,
    is_feature_sequences,
    is_listing,
    listed,
    materialize_iterator,
    pack_inputs,
    wrap_labels,
)
from kernelfields.inputs.steps import ColumnSteps, OwnColumns
from kernelfields.numerics.containers import refuse_containers
from kernelfields.numerics.group import ALONE, Group
from kernelfields.numerics.user_warnings import warn_user

# Inputs of so many columns of which less than this share is not zero are taken for features of words and the like.
_WIDE, _MOSTLY_ZERO = 100, 0.1
# Sparse inputs of more values than this stay as they are.
_MOST_VALUES = 2**27
Data = TypeVar("Data", bound=Packed)


class Transformer(Protocol):
    """A transformer of sequences, as in scikit-learn."""

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Fit to labelled sequences; return their inputs."""

    def transform(self, X: Any) -> Any:
        """Return the inputs of new sequences."""


def read_labels(
    y: object,
    classes: Iterable | None = None,
    lengths: np.ndarray | None = None,
    nouns: ItemNames = SEQUENCES,
    *,
    fewest: int = 2,
) -> tuple[np.ndarray, label_forms.LabelWeights | None, np.ndarray]:
    """Return labels (N,), log-weights (N, L) or None if every label is known, and the sorted classes (L,).

    Where a label is not known, the one in ``labels`` is the most frequent of those that are possible. ``classes=None``
    learns them, the ``fewest`` or more, from all labels that are named, alone, in sets or with weights. ``lengths``
    holds the rows of every sequence, which are the length of one that is None. Of samples, which have one label each, y
    is their list, and ``lengths`` holds a one for each.
    """
    if isinstance(y, LabelForm):
        return y.read(classes, wrap_labels(y, lengths, nouns)[1], nouns)
    y, lengths = wrap_labels(y, lengths, nouns)
    if has_partial_labels(y):
        return label_forms.read_partial_labels(y, classes, lengths, nouns, fewest)
    labels, known = encode_labels(y, classes, lengths, nouns, fewest=fewest)
    return labels, None, known


@dataclass(eq=False)
class RowReader:
    """Kind of the rows of a fit: width, names and density of columns, and the encoding of named features."""

    n_features: int = 0
    sparse: bool = False
    #: Names of the columns, where the inputs were data frames.
    columns: list[str] | None = None
    #: Columns of named features, where the inputs were feature dicts or lists of feature strings.
    encoder: extras.FeatureDictEncoder | None = None
    #: Whether to warn of inputs without any known feature, as positions that come one by one may be, and of names that
    #: the inputs of the fit did not have.
    warns: bool = True
    #: Whether NaN and infinity are errors.
    finite: bool = True
    #: How many columns, the last ones, are categories that are there or not, beside columns of numbers.
    categories: int = 0
    #: Whether numbers and categories with names come apart when they are learnt, or which names are numbers.
    apart: bool | Sequence[str] = False
    #: What messages call rows and items.
    nouns: ItemNames = SEQUENCES

    @classmethod
    def from_names(cls, names: Iterable[str] | None, n_features: int, **settings: Any) -> Self:
        """Make a reader of inputs of a given width or, with names, of feature dicts with these columns."""
        encoder = None if names is None else extras.FeatureDictEncoder.from_spec(names)
        return cls(n_features, encoder=encoder, **settings)

    @property
    def names(self) -> list[str] | None:
        """Names of the features: of dicts and strings, or of columns; None for arrays."""
        return self.columns if self.encoder is None else self.encoder.feature_names_

    @property
    def has_weighted_features(self) -> bool:
        """Whether inputs are indicator features with a weight each instead of numbers.

        Sparse inputs of many columns, as those of words, are taken for features; so are others that are mostly zero
        (:meth:`to_natural_sparsity`). Where there are ``categories``, the other columns are numbers.
        """
        named = self.encoder is not None and not self.categories
        return named or (self.sparse and self.n_features >= _WIDE)

    def learn_inputs(self, X: Any, *, keep_zeros: bool = False) -> tuple[Matrix, np.ndarray]:
        """Learn the kind of X; return the rows (N, d) of sequences and their offsets (S + 1,)."""
        refuse_containers(X, "X")
        if not is_feature_sequences(X):
            return self.learn_arrays(X)
        self.encoder = extras.FeatureDictEncoder(keep_zeros=keep_zeros)
        inputs, offsets = self.encoder.fit_transform(X)
        self.learn_kind(inputs)
        return inputs, offsets

    def learn_arrays(self, X: Any) -> tuple[Matrix, np.ndarray]:
        """Learn the kind of X, which holds no feature dicts or strings; see :meth:`learn_inputs`."""
        inputs, offsets = pack_inputs(X, finite=self.finite)
        self.columns = None if _are_plain(X) else extras.shared_columns(X, "sequence")
        self.learn_kind(inputs)
        return inputs, offsets

    def read_inputs(self, X: Any) -> tuple[Matrix, np.ndarray]:
        """Return the rows (N, d) of new sequences and their offsets (S + 1,), dense or sparse as given."""
        refuse_containers(X, "X")
        if self.encoder is not None:
            return self._encode_named(X)
        if (words := has_words(X)) or is_feature_sequences(X):
            raise ValueError(
                f"X holds {'words' if words else 'feature dicts'}, but this model was fitted on numeric arrays; pass "
                f"arrays of {self.n_features} columns"
            )
        inputs, offsets = pack_inputs(X, finite=self.finite, width=self.n_features)
        if self.columns is not None or (self.warns and not _are_plain(X)):
            extras.check_columns([x for x in X if not has_no_rows(x)], self.columns, "sequence")
        if inputs.shape[1] != self.n_features and (np.diff(offsets) == self.n_features).all():
            raise ValueError(
                f"X has {inputs.shape[1]} features per {self.nouns.part} and {self.n_features} {self.nouns.part}s in "
                f"each {self.nouns.whole}, but this model was fitted with {self.n_features} features: pass "
                f"X.transpose(0, 2, 1), or x.T of each"
            )
        self.check_width(inputs)
        return inputs, offsets

    def learn_kind(self, inputs: Matrix) -> None:
        """Learn the width of inputs and whether they are sparse; warn of columns that look like time stamps."""
        self.n_features, self.sparse = inputs.shape[1], bool(scipy.sparse.issparse(inputs))
        if self.warns and (self.encoder is not None or self.columns is not None):
            extras.warn_of_time_stamps(inputs, self.names, named=self.encoder is not None)

    def to_natural_sparsity(self, data: Data, among: Group = ALONE) -> Data:
        """Choose dense or sparse storage by the density of data, for further data, too.

        Wide inputs that are mostly zero become sparse, all others dense. The numbers may be ``among`` those of others.
        """
        inputs = data.inputs
        if self.encoder is not None or inputs is None or not inputs.shape[0]:
            return data
        size = inputs.shape[0] * inputs.shape[1]
        n_values = np.count_nonzero(inputs) if isinstance(inputs, np.ndarray) else inputs.count_nonzero()
        n_values, size = among.total(np.array([n_values, size]))
        sparse = inputs.shape[1] >= _WIDE and n_values < _MOSTLY_ZERO * size
        if sparse == self.sparse or (self.sparse and size > _MOST_VALUES):
            return data
        self.sparse = sparse
        return replace(data, inputs=same_kind(inputs, sparse))

    @property
    def numbers(self) -> list[str]:
        """Names of the numeric columns of inputs with categories."""
        return (self.names or [])[: self.n_features - self.categories]

    def _encode_named(self, sequences: object) -> tuple[Matrix, np.ndarray]:
        """Encode new sequences of named features as rows and offsets; warn if no feature is known."""
        assert self.encoder is not None
        try:
            inputs, offsets = self.encoder.transform(sequences)
        except (TypeError, ValueError) as error:
            raise type(error)(f"this model was fitted on feature dicts, pass the same: {error}") from error
        if self.warns and not inputs.nnz and is_listing(sequences) and any(map(len, chain.from_iterable(sequences))):
            warn_user(
                "no feature of X is known to this model, whose answers then depend on no input: its features are named "
                f"{listed(self.encoder.feature_names_[:3])} and so on; make those of X as in the fit",
            )
        return inputs, offsets

    def check_width(self, inputs: Matrix) -> None:
        """Raise ValueError if inputs differ in width from the fit."""
        if inputs.shape[1] != self.n_features:
            raise ValueError(
                f"X has {inputs.shape[1]} features per {self.nouns.part}, but this model was fitted with "
                f"{self.n_features}; pass the same features in the same order"
            )

    @property
    def tied_columns(self) -> extras.TiedColumns:
        """The columns that ties permute."""
        return extras.TiedColumns(self.n_features, self.names)

    def with_features(self, kept: np.ndarray) -> Self:
        """Return a copy with only the named features marked in ``kept``, in the same order."""
        assert self.encoder is not None
        return replace(self, n_features=int(np.count_nonzero(kept)), encoder=self.encoder.keep(kept))

    def with_names(self, names: Sequence[str]) -> Self:
        """Return a copy that reads features of given names, one column each."""
        return replace(self, n_features=len(names), encoder=extras.FeatureDictEncoder.from_spec(names))

    def describe(self) -> dict[str, object]:
        """Return plain values and arrays for a model file."""
        size = {"n_features": int(self.n_features), "sparse": bool(self.sparse)}
        named = None if self.encoder is None else self.encoder.spec()
        return {**size, "columns": self.columns, "scaling": None, "feature_names": named}

    @classmethod
    def rebuild(cls, described: Mapping, **settings: Any) -> Self:
        """Rebuild the reader from its description; ValueError if names contradict the number of features."""
        n_features, columns = int(described["n_features"]), described.get("columns")
        if columns is not None and (len(columns) != n_features or not all(isinstance(name, str) for name in columns)):
            raise ValueError("the names of columns do not match the number of features")
        named = described.get("feature_names")
        if named is not None and len(named) != n_features:
            raise ValueError("the feature names do not match the number of features")
        encoder = None if named is None else extras.FeatureDictEncoder.from_spec(named)
        names, categories = None if columns is None else list(columns), int(described.get("categories", 0))
        if not 0 <= categories < max(n_features, 1):
            raise ValueError("the number of categories does not match the number of features")
        return cls(n_features, bool(described["sparse"]), names, encoder, categories=categories, **settings)


def _are_plain(tables: Any) -> bool:
    """Whether tables are arrays without names of columns."""
    return all(type(table) is np.ndarray for table in tables)


def same_kind(inputs: Matrix, sparse: bool) -> Matrix:
    """Convert inputs to CSR if ``sparse``, else to dense."""
    if isinstance(inputs, np.ndarray):
        return scipy.sparse.csr_array(inputs) if sparse else inputs
    return inputs if sparse else inputs.toarray()


@dataclass(eq=False)
class InputReader:
    """Reader of sequences, and base of all readers: rows of one kind, steps of columns, lists of labels."""

    #: What the rows of inputs are.
    rows: RowReader = field(default_factory=RowReader)
    #: What limits the labels that positions may have: a dictionary, to be learnt before a fit, or nothing.
    limits: Sequence[Any] = ()
    #: What is done to the columns; nothing for plain arrays.
    steps: ColumnSteps = field(default_factory=ColumnSteps)
    #: Places of columns that kernels read as they come, which no step changes.
    own: OwnColumns = field(default_factory=OwnColumns)
    #: What makes inputs of what users pass, such as features of words; None where these are taken as they come.
    features: Transformer | None = None

    #: What items are packed as, and what messages call them.
    packs: ClassVar[type[Any]] = Chains
    #: Whether inputs are the rows of one table.
    is_table: ClassVar[bool] = False
    nouns: ClassVar[ItemNames] = SEQUENCES

    @property
    def n_columns(self) -> int:
        """Number of columns of positions or nodes after all steps."""
        return self.steps.n_columns(self.rows.n_features)

    @staticmethod
    def is_empty(X: object) -> bool:
        """Whether X holds no sequence or graph."""
        return is_empty(X)

    def learn(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        *,
        keep_zeros: bool = False,
        classes: np.ndarray | None = None,
    ) -> tuple[Any, np.ndarray]:
        """Learn the kind of X; return labelled data and the sorted classes.

        ``keep_zeros`` lets features of weight zero count as seen, as CRFsuite does.
        """
        for rule in self.limits:
            X = rule.readable(X)
        if self.features is not None:
            y = materialize_iterator(y)
            X = self.features.fit_transform(materialize_iterator(X), y)
        items: Any = self.learn_items(X, keep_zeros=keep_zeros)
        items = extras.with_categories(self.rows, items) if self.rows.apart else items
        data, known = self._labelled(items, y, sample_weight, classes)
        self.limits = [rule.learn(X, data, known) for rule in self.limits]
        for limit in self.limits:
            data = limit.limit_for_fit(X, data)
        if self.steps.tables:
            self.steps = self.steps.fit(data.tables, self.rows.categories)
        return data.apply_steps(self.steps), known

    def read(self, X: object, y: object = None, sample_weight: object = None, classes: np.ndarray | None = None) -> Any:
        """Read new inputs; with y, labelled inputs with labels among ``classes``.

        X may be items that were read already, as ``read_items`` returns them.
        """
        if isinstance(X, self.packs):
            data: Any = X
        else:
            for limit in self.limits:
                X = limit.readable(X)
            X = apply_transformer(self.features, X)
            data = self.read_items(X)
        if y is not None:
            data, _ = self._labelled(data, y, sample_weight, classes)
        for limit in self.limits:
            data = limit.limit(X, data)
        return data.apply_steps(self.steps)

    def _labelled(
        self, data: Packed, y: object, sample_weight: object, classes: np.ndarray | None
    ) -> tuple[Any, np.ndarray]:
        labels, partial, classes = read_labels(y, classes, data.lengths, self.nouns)
        weights = check_sample_weight(sample_weight, len(data.lengths), self.nouns)
        return replace(data, labels=labels, weights=weights, partial=partial), classes

    def learn_items(self, X: Any, *, keep_zeros: bool = False) -> Packed:
        """Learn the kind of X; return its items without labels."""
        inputs, offsets = self.rows.learn_inputs(X, keep_zeros=keep_zeros)
        for column in self.own.rows:
            check_own_column(self, column)
        return self.packs(inputs, offsets)

    def read_items(self, X: Any) -> Packed:
        """Read new items without labels, dense or sparse as in the fit, before scaling."""
        inputs, offsets = self.rows.read_inputs(X)
        return self.packs(same_kind(inputs, self.rows.sparse), offsets)

    def tied_columns(self, group: str | None = None) -> extras.TiedColumns:
        """Return the columns that ties permute: of inputs, or of a type of factors."""
        return self.rows.tied_columns

    def width(self, clique: CliqueSet) -> int | None:
        """Return the number of input columns of a clique set; None for factors without features."""
        return clique.width(self.n_columns)

    def describe(self) -> dict[str, object]:
        """Return plain values and arrays for a model file."""
        described = self.rows.describe() | self.steps.describe()
        if self.rows.categories:
            described["categories"] = self.rows.categories
        for limit in self.limits:
            described["allowed"] = limit.describe()
        return described

    @classmethod
    def rebuild(cls, described: Mapping) -> Self:
        """Rebuild the reader from its description; ValueError if names or scales contradict the number of features."""
        limits = filter(None, [described.get("allowed")])
        made = cls(RowReader.rebuild(described, nouns=cls.nouns), limits=list(map(extras.rebuild_dictionary, limits)))
        made.steps = ColumnSteps.rebuild({None: described})
        return made


def apply_transformer(features: Transformer | None, X: Any) -> Any:
    """Apply a transformer to new X; return X itself without one."""
    return X if features is None else features.transform(X)


def check_own_column(reader: InputReader, column: int) -> None:
    """Raise ValueError if inputs lack a column of the parameters of kernels."""
    n_columns, part = reader.rows.n_features, reader.nouns.part
    if not 0 <= column < n_columns:
        raise ValueError(
            f"own_columns of a kernel names column {column}, and X has {n_columns} features per {part}: name "
            f"columns of one {part}, from 0 to {n_columns - 1}"
        )
