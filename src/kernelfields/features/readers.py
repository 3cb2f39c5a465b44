"""Readers: the kind of inputs that a fit was given, so that prediction sees new ones in the same way.

    ChainReader    lists of arrays (T, d), dense or CSR, of feature dicts or of feature strings    -> Chains
    GraphReader    graphs with features of nodes and of each type of factors                       -> Graphs
    TableReader    one table (n, d), dense or CSR, and what scikit-learn notes of it                -> rows

Fails: ValueError or TypeError that names what differs from the data of the fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from kernelfields.features.chunks import is_collection
from kernelfields.features.dicts import FeatureDictEncoder
from kernelfields.features.label_dictionary import readable_again, rebuild_rule, with_allowed
from kernelfields.features.scaling import Scaling, learn_scaling
from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import CliqueSet, check_window
from kernelfields.fields.evidence import is_unknown, read_labels
from kernelfields.fields.graph_reading import given_tables
from kernelfields.fields.graphs import Factors, Graphs
from kernelfields.fields.reading import (
    Nouns,
    check_sample_weight,
    is_empty,
    is_listing,
    open_groups,
    pack_inputs,
    refuse_containers,
    refuse_tensor,
)

# Messages list so many names of each kind.
_SHOWN = 5
# Sparse inputs of so many columns are taken for features of words and the like.
_WIDE = 100


def is_feature_sequences(X: Any) -> bool:
    """Whether X looks like sequences of feature dicts or of lists of feature strings."""
    for sequence in X if is_listing(X) else ():
        for position in sequence if is_listing(sequence) else ():
            if isinstance(position, Mapping):
                return True
            if not is_collection(position):
                return False
            if len(position):
                return isinstance(next(iter(position)), str | bytes)
    return False


@dataclass(eq=False)
class ChainReader:
    """Kind of inputs of sequences (dense, sparse, feature dicts) and their width, learnt by ``learn``."""

    n_features: int = 0
    sparse: bool = False
    encoder: FeatureDictEncoder | None = None
    #: Names of the columns, where sequences were data frames.
    columns: list[str] | None = None
    scaling: Scaling | None = None
    allowed: Any = None  # which labels positions may have, a rule such as a FittedDictionary

    @property
    def holds_features(self) -> bool:
        """Whether inputs are features that are there or not, each with weights of its own, rather than numbers."""
        return self.encoder is not None or is_wide(self)

    def scale(self, data: Chains, always: bool) -> Chains:
        """Learn how columns come to one scale, if they need it; return the data on that scale."""
        self.scaling = learn_scaling(data.inputs, data.position_weights, always=always)
        return data if self.scaling is None else replace(data, inputs=self.scaling(data.inputs))

    @staticmethod
    def is_empty(X: Any) -> bool:
        """Whether X holds no sequence, so that there is nothing to answer."""
        return is_empty(X)

    @property
    def names(self) -> list[str] | None:
        """Names of the features: those of dicts and strings, or of columns; None for arrays."""
        return self.columns if self.encoder is None else self.encoder.feature_names_

    def learn(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        keep_zeros: bool = False,
        classes: np.ndarray | None = None,
        allowed: Any = None,
    ) -> tuple[Chains, np.ndarray]:
        """Learn the kind of X; return labelled chains and the sorted classes, ``classes`` where they are known.

        ``keep_zeros`` lets features of weight zero count as seen, as CRFsuite does. ``allowed`` is learnt from both.
        """
        X, y = open_groups(X if allowed is None else readable_again(X), y)
        chains, known = _labelled(*self.learn_inputs(X, keep_zeros=keep_zeros), y, sample_weight, classes)
        self.allowed = None if allowed is None else allowed.learn(X, chains, known)
        return chains if allowed is None else with_allowed(X, chains, self.allowed).admitting_labels(), known

    def learn_inputs(self, X: Any, *, keep_zeros: bool = False) -> tuple[Any, np.ndarray]:
        """Learn the kind of X; return its rows (N, d) and the offsets of the sequences (S + 1,)."""
        refuse_containers(X, "X")
        if is_feature_sequences(X):
            self.encoder = FeatureDictEncoder(keep_zeros=keep_zeros)
            inputs, offsets = self.encoder.fit_transform(X)
        else:
            inputs, offsets = pack_inputs(X)
            self.columns = shared_columns(X, "sequence")
        self.n_features = inputs.shape[1]
        self.sparse = scipy.sparse.issparse(inputs)
        return inputs, offsets

    def read(self, X: Any, y: Any = None, sample_weight: Any = None, classes: np.ndarray | None = None) -> Chains:
        """Return chains of new inputs; labelled ones if y is given, with labels among ``classes``."""
        X, y = open_groups(X if self.allowed is None else readable_again(X), y, self.columns)
        refuse_containers(X, "X")
        if self.encoder is not None:
            try:
                inputs, offsets = self.encoder.transform(X)
            except (TypeError, ValueError) as error:
                raise type(error)(f"this model was fitted on feature dicts, pass the same: {error}") from error
        elif is_feature_sequences(X):
            raise ValueError(
                "X holds feature dicts, but this model was fitted on numeric arrays; pass arrays of "
                f"{self.n_features} columns"
            )
        else:
            inputs, offsets = pack_inputs(X)
            check_columns(X, self.columns, "sequence")
            inputs = _as_fitted(inputs, self, Chains.part)
        chains = Chains(inputs, offsets) if y is None else _labelled(inputs, offsets, y, sample_weight, classes)[0]
        chains = chains if self.allowed is None else with_allowed(X, chains, self.allowed)
        return chains if self.scaling is None else replace(chains, inputs=self.scaling(inputs))

    def with_rule(self, rule: Any, X: Any, y: Any, classes: np.ndarray) -> ChainReader:
        """Return a reader of the same inputs whose rule of allowed labels is learnt from other labelled data."""
        reader = replace(self, allowed=None)
        if rule is not None:
            X, y = open_groups(X, y, self.columns)
            chains = replace(reader, scaling=None).read(X, y, None, classes)
            reader.allowed = rule.learn(X, chains, classes)
        return reader

    def width(self, clique: CliqueSet) -> int:
        """Return how many columns the cliques of a set see."""
        return clique.width(self.n_features)

    def describe(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        names = None if self.encoder is None else self.encoder.spec()
        size = {"n_features": int(self.n_features), "sparse": bool(self.sparse)}
        described = {**size, "feature_names": names, "columns": self.columns, "scaling": _described(self.scaling)}
        return described if self.allowed is None else {**described, "allowed": self.allowed.describe()}

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> ChainReader:
        """Return the reader that was described; ValueError if names and number of features differ."""
        names, n_features = description["feature_names"], int(description["n_features"])
        if names is not None and len(names) != n_features:
            raise ValueError("the feature names do not match the number of features")
        encoder = None if names is None else FeatureDictEncoder.from_spec(names)
        columns = _rebuilt_columns(description.get("columns"), n_features)
        scaling = Scaling.rebuild(description.get("scaling"), n_features)
        allowed = rebuild_rule(description.get("allowed"))
        return cls(n_features, bool(description["sparse"]), encoder, columns, scaling, allowed)


def is_wide(reader: ChainReader | GraphReader | TableReader) -> bool:
    """Whether inputs are sparse and of many columns, as those of words are."""
    return reader.sparse and reader.n_features >= _WIDE


def _described(scaling: Scaling | None) -> dict[str, Any] | None:
    return None if scaling is None else scaling.describe()


def _rebuilt_columns(described: Any, n_features: int | None) -> list[str] | None:
    """Return names of columns that were described; files from before there were any have none."""
    if described is None:
        return None
    if len(described) != n_features or not all(isinstance(name, str) for name in described):
        raise ValueError("the names of columns do not match the number of features")
    return list(described)


def _labelled(
    inputs: Any, offsets: np.ndarray, y: Any, sample_weight: Any, classes: np.ndarray | None
) -> tuple[Chains, np.ndarray]:
    labels, evidence, classes = read_labels(y, classes, np.diff(offsets))
    weights = check_sample_weight(sample_weight, len(offsets) - 1)
    return Chains(inputs, offsets, labels, weights, evidence), classes


def _as_fitted(inputs: Any, reader: ChainReader | GraphReader, part: str) -> Any:
    """Return inputs of the kind of the fit; ValueError if they have another width."""
    if inputs.shape[1] != reader.n_features:
        raise ValueError(
            f"X has {inputs.shape[1]} features per {part}, but this model was fitted with {reader.n_features}; pass "
            "the same features in the same order"
        )
    return same_kind(inputs, reader.sparse)


def same_kind(inputs: Any, sparse: bool) -> Any:
    """Return inputs as CSR if ``sparse``, else dense."""
    if sparse == scipy.sparse.issparse(inputs):
        return inputs
    return scipy.sparse.csr_array(inputs) if sparse else inputs.toarray()


@dataclass(eq=False)
class GraphReader:
    """Widths and kinds of the inputs of nodes and of each type of factors, learnt by ``learn``.

    ``factors`` maps the name of a type to (nodes, number of features or None, whether they are sparse).
    ``node_types`` are the names of the types of nodes, None where nodes had none. ``columns`` are names of the
    features of nodes, under None, and of factors by type, where they were data frames.
    """

    n_features: int = 0
    sparse: bool = False
    factors: dict[str, tuple[int, int | None, bool]] = field(default_factory=dict)
    node_types: tuple[str, ...] | None = None
    columns: dict[str | None, list[str]] = field(default_factory=dict)
    #: How columns come to one scale: of nodes, under None, and of factors by type.
    scaling: dict[str | None, Scaling] = field(default_factory=dict)

    @property
    def names(self) -> list[str] | None:
        """Names of the features of nodes, where they were data frames."""
        return self.columns.get(None)

    @property
    def holds_features(self) -> bool:
        """Whether the inputs of nodes are features that are there or not, rather than numbers."""
        return is_wide(self)

    def scale(self, data: Graphs, always: bool) -> Graphs:
        """Learn how columns of nodes and of factors come to one scale, if they need it; return the data on it."""
        found: dict[str | None, Scaling | None] = {}
        found[None] = learn_scaling(data.inputs, data.position_weights, always=always)
        for each in data.factors:
            if each.inputs is not None:
                found[each.name] = learn_scaling(each.inputs, data.factor_weights(each.name), always=always)
        self.scaling = {kind: scaling for kind, scaling in found.items() if scaling is not None}
        return self._scaled(data)

    def _scaled(self, graphs: Graphs) -> Graphs:
        if not self.scaling:
            return graphs
        factors = tuple(
            replace(each, inputs=self.scaling[each.name](each.inputs)) if each.name in self.scaling else each
            for each in graphs.factors
        )
        inputs = self.scaling[None](graphs.inputs) if None in self.scaling else graphs.inputs
        return replace(graphs, inputs=inputs, factors=factors)

    @staticmethod
    def is_empty(X: Any) -> bool:
        """Whether X holds no graph, so that there is nothing to answer."""
        return is_empty(X)

    def learn(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> tuple[Graphs, np.ndarray]:
        """Learn the kind of X; return labelled graphs and the sorted classes, ``classes`` where they are known."""
        if y is None:
            raise ValueError("GraphCRF requires y to be passed, but the target y is None: give an array for each graph")
        graphs, classes = Graphs.from_graphs(X, y, sample_weight, classes)
        assert classes is not None
        self.n_features = graphs.inputs.shape[1]
        self.sparse = scipy.sparse.issparse(graphs.inputs)
        self.node_types = None if graphs.node_types is None else graphs.node_types.names
        self.factors = {
            each.name: (
                each.labels_per_clique,
                None if each.inputs is None else each.inputs.shape[1],
                scipy.sparse.issparse(each.inputs),
            )
            for each in graphs.factors
        }
        found = {kind: shared_columns(tables, "graph") for kind, tables in given_tables(X).items()}
        self.columns = {kind: names for kind, names in found.items() if names is not None}
        return graphs, classes

    def read(self, X: Any, y: Any = None, sample_weight: Any = None, classes: np.ndarray | None = None) -> Graphs:
        """Return graphs of new inputs; labelled ones if y is given, with labels among ``classes``."""
        types = {name: order for name, (order, _, _) in self.factors.items()}
        graphs, _ = Graphs.from_graphs(X, y, sample_weight, classes, types=types, node_types=self.node_types)
        if (graphs.node_types is None) != (self.node_types is None):
            came, before = ("no types", "them") if graphs.node_types is None else ("types", "none")
            raise ValueError(f"the nodes of X have {came}, but this model was fitted to graphs with {before}")
        for kind, tables in given_tables(X).items():
            check_columns(tables, self.columns.get(kind), "graph")
        inputs = _as_fitted(graphs.inputs, self, graphs.part)
        factors = tuple(self._checked(each) for each in graphs.factors)
        return self._scaled(replace(graphs, inputs=inputs, factors=factors))

    def _checked(self, factors: Factors) -> Factors:
        _, width, sparse = self.factors[factors.name]
        given = None if factors.inputs is None else factors.inputs.shape[1]
        if given != width and factors.n_factors == 0:
            # No factor, no row: nothing that could be wrong.
            return replace(factors, inputs=None if width is None else same_kind(np.zeros((0, width)), sparse))
        if given == width:
            return factors if width is None else replace(factors, inputs=same_kind(factors.inputs, sparse))
        came, expected = ("no features" if each is None else f"{each} features" for each in (given, width))
        raise ValueError(
            f"factors named {factors.name!r} have {came}, but this model was fitted with {expected}; pass the "
            "same features in the same order"
        )

    def width(self, clique: CliqueSet) -> int | None:
        """Return how many columns the cliques of a set see; None for factors without features."""
        return self.n_features if clique.group is None else self.factors[clique.group][1]

    def describe(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        return {
            "n_features": int(self.n_features),
            "sparse": bool(self.sparse),
            "factors": [[name, *kind] for name, kind in self.factors.items()],
            "node_types": None if self.node_types is None else list(self.node_types),
            "columns": [[kind, names] for kind, names in self.columns.items()],
            "scaling": [[kind, scaling.describe()] for kind, scaling in self.scaling.items()],
        }

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> GraphReader:
        """Return the reader that was described."""
        factors = {
            str(name): (int(order), None if width is None else int(width), bool(sparse))
            for name, order, width, sparse in description["factors"]
        }
        kinds = description["node_types"]
        node_types, n_features = None if kinds is None else tuple(map(str, kinds)), int(description["n_features"])
        columns: dict = {}
        for kind, names in description.get("columns", ()):
            columns[kind] = _rebuilt_columns(names, n_features if kind is None else factors[kind][1])
        scaling: dict = {}
        for kind, described in description.get("scaling", ()):
            scaling[kind] = Scaling.rebuild(dict(described), n_features if kind is None else factors[kind][1])
        return cls(n_features, bool(description["sparse"]), factors, node_types, columns, scaling)


INSTANCES = Nouns(whole="instance", part="label")
_EXPECTED = "Y must be a table of 0 and 1, a row for each instance and a column for each label"
_SETS = "Sets of labels become one by sklearn.preprocessing.MultiLabelBinarizer().fit_transform(Y)."


@dataclass(eq=False)
class TableReader:
    """Whether the rows of a table were sparse; scikit-learn notes number and names of features on the estimator."""

    n_features: int = 0
    sparse: bool = False
    feature_names: list[str] | None = None
    scaling: Scaling | None = None

    @property
    def names(self) -> list[str] | None:
        """Names of the columns, where the table had them."""
        return self.feature_names

    @property
    def holds_features(self) -> bool:
        """Whether inputs are features that are there or not, rather than numbers."""
        return is_wide(self)

    def scale(self, data: Any, always: bool) -> Any:
        """Learn how columns come to one scale, if they need it; return the data, a row for each weight, on it."""
        self.scaling = learn_scaling(data.inputs, data.weights, always=always)
        return data if self.scaling is None else replace(data, inputs=self.scaling(data.inputs))

    @staticmethod
    def is_empty(X: Any) -> bool:
        """Never: scikit-learn's estimators refuse tables without rows."""
        return False

    def learn(self, estimator: Any, X: Any, **options: Any) -> Any:
        """Return X (n, d), and y where it is among the options, checked; learn its kind."""
        checked = _validated(estimator, X, reset=True, **options)
        inputs = checked[0] if isinstance(checked, tuple) else checked
        self.n_features, self.sparse = inputs.shape[1], scipy.sparse.issparse(inputs)
        names = getattr(estimator, "feature_names_in_", None)
        self.feature_names = None if names is None else [str(name) for name in names]
        return checked

    def read(self, estimator: Any, X: Any, **options: Any) -> Any:
        """Return new X (n, d), and y where it is among the options, checked and of the kind of the fit."""
        checked = _validated(estimator, X, self.sparse, reset=False, **options)
        if self.scaling is None:
            return checked
        return (self.scaling(checked[0]), checked[1]) if isinstance(checked, tuple) else self.scaling(checked)

    def width(self, clique: CliqueSet) -> int:
        """Return how many columns the cliques of a set see: windows are for sequences, and would show here."""
        return self.n_features * (sum(check_window(clique.window)) + 1)

    def describe(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        size = {"n_features": self.n_features, "sparse": self.sparse}
        return {**size, "feature_names": self.feature_names, "scaling": _described(self.scaling)}

    @classmethod
    def rebuild(cls, description: dict[str, Any]) -> TableReader:
        """Return the reader that was described."""
        names, n_features = description["feature_names"], int(description["n_features"])
        if names and len(names) != n_features:
            raise ValueError("the feature names do not match the number of features")
        scaling = Scaling.rebuild(description.get("scaling"), n_features)
        return cls(n_features, bool(description["sparse"]), list(map(str, names)) if names else None, scaling)


def _validated(estimator: Any, X: Any, sparse: bool | None = None, **options: Any) -> Any:
    """Check X, and y if it is given, by scikit-learn; X comes back contiguous or, if ``sparse``, as canonical CSR."""
    refuse_tensor(X, "X")
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], **options}
    checked = validate_data(estimator, X, **options)
    inputs = checked[0] if isinstance(checked, tuple) else checked
    if scipy.sparse.issparse(inputs):
        inputs = scipy.sparse.csr_array(inputs)
        if not inputs.has_canonical_format:
            inputs = inputs.copy()
            inputs.sum_duplicates()
    else:
        inputs = np.ascontiguousarray(inputs)
    inputs = inputs if sparse is None else same_kind(inputs, sparse)
    return (inputs, checked[1]) if isinstance(checked, tuple) else inputs


def read_indicator(Y: Any, n_instances: int, known: list | None = None) -> tuple[np.ndarray, list[str] | None]:
    """Return Y as (n, K) of 0 and 1, and the names of its columns where it is a table that has them.

    ``known`` are the labels of the fit, numbers where they had no names, None if this is the fit.
    """
    if Y is None:
        raise ValueError(f"the estimator requires y to be passed, but the target y is None. {_EXPECTED}.")
    columns = _columns_of(Y)
    names = None if columns is None else [str(name) for name in columns]
    try:
        table = Y.toarray() if scipy.sparse.issparse(Y) else np.asarray(Y)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}: {error}. {_SETS}") from error
    if table.ndim == 1:
        raise ValueError(f"{_EXPECTED}, got one dimension. {_hint(table)}")
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(f"{_EXPECTED}, got shape {table.shape}")
    if len(table) != n_instances:
        counts = f"X has {n_instances} instances, Y has {len(table)}"
        raise ValueError(f"X and Y have inconsistent numbers of samples: {counts}")
    if known is not None and table.shape[1] != len(known):
        raise ValueError(f"Y has {table.shape[1]} columns, but this model was fitted with {len(known)} labels")
    if names is not None and known is not None and isinstance(known[0], str) and names != known:
        raise ValueError(f"the columns of Y should match those that were passed during fit: {difference(names, known)}")
    return _binary(table), names


def read_partial_indicator(
    Y: Any, n_instances: int, known: list | None = None
) -> tuple[np.ndarray, np.ndarray | None, list[str] | None]:
    """Return Y as :func:`read_indicator` does, with evidence (n K, 2) where labels are NaN or None, which is unknown.

    An unknown label is in Y what most instances have of which it is known.
    """
    columns = _columns_of(Y)
    try:
        raw = None if Y is None or scipy.sparse.issparse(Y) else np.asarray(Y)
    except ValueError:
        raw = None  # of rows of different lengths, which is refused below
    unknown = None
    if raw is not None and raw.ndim == 2 and raw.dtype.kind in "fO":
        unknown = np.isnan(raw) if raw.dtype.kind == "f" else np.vectorize(is_unknown, otypes=[bool])(raw)
    if unknown is None or not unknown.any():
        labels, names = read_indicator(Y, n_instances, known)
        return labels, None, names
    assert raw is not None
    filled = raw.copy()
    filled[unknown] = 0
    labels, _ = read_indicator(filled, n_instances, known)
    names = None if columns is None else [str(name) for name in columns]
    if known is None and (silent := np.flatnonzero(unknown.all(axis=0))).size:
        name = silent[0] if names is None else repr(names[silent[0]])
        raise ValueError(f"label {name} is unknown of every instance: leave its column out, or label some of them")
    counts = (~unknown).sum(axis=0)
    usual = np.where(2 * (labels * ~unknown).sum(axis=0) > counts, 1, 0)
    labels = np.where(unknown, usual, labels)
    evidence = np.where(labels[..., None] == np.arange(2), 0.0, -np.inf)
    evidence[unknown] = 0.0
    return labels, evidence.reshape(-1, 2), names


def _hint(table: np.ndarray) -> str:
    """Return what to do about labels of one dimension."""
    if table.dtype.kind == "O":
        return _SETS
    if table.dtype.kind == "f" and not np.array_equal(table, np.floor(table)):
        return "Unknown label type: these values are continuous, as for regression."
    if len(np.unique(table)) > 2:
        return "Only binary classification is supported. For classes that exclude each other use a classifier."
    return "For a single label of two classes use Y.reshape(-1, 1)."


def _binary(table: np.ndarray) -> np.ndarray:
    ones = np.asarray(table == 1)
    wrong = ~(ones | np.asarray(table == 0))
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        value = table[row, column]
        hint = (
            "a label that is not known cannot be compared with: drop the instance"
            if isinstance(value, float | np.floating) and np.isnan(value)
            else "Unknown label type: labels are 0 or 1"
        )
        raise ValueError(f"{_EXPECTED}, got {value!r} in row {row}, column {column}. {hint}.")
    return ones.astype(np.int64)


# Names of the columns of data frames, so that columns in another order than at the fit are not taken for others. As
# in scikit-learn: names are strings, all of them or none; tables without names pass, with a warning where others have
# some.


def _columns_of(table: Any) -> Any:
    """Return what a table calls its columns; None where it is none."""
    names = getattr(table, "column_names", None)
    # Of pyarrow, whose ``columns`` are the columns themselves; of others this can be a column of that name.
    return names if isinstance(names, list) else getattr(table, "columns", None)


def column_names(table: Any) -> list[str] | None:
    """Return the names of the columns of a table; None where it has none, or none that are strings."""
    columns = _columns_of(table)
    if columns is None or callable(columns):
        return None
    names = list(columns)
    kinds = {isinstance(name, str) for name in names}
    if kinds == {True, False}:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but these columns are named "
            f"by {', '.join(sorted({type(name).__name__ for name in names}))}: use table.columns.astype(str)"
        )
    return names if kinds == {True} else None


def shared_columns(tables: Sequence[Any], noun: str) -> list[str] | None:
    """Return the names of the columns of all tables, None where they have none; messages count tables as ``noun``."""
    first, expected, unnamed = 0, None, False
    for number, table in enumerate(tables):
        names = column_names(table)
        if names is None:
            unnamed = True
        elif expected is None:
            first, expected = number, names
        elif names != expected:
            raise ValueError(
                f"the columns of {noun} {number} are not those of {noun} {first}: {difference(names, expected)}"
            )
    if unnamed and expected is not None:
        warnings.warn(
            f"some {noun}s have names of columns, such as {noun} {first}, and others none: their columns are taken to "
            "be in the same order",
            stacklevel=2,
        )
    return expected


def check_columns(tables: Sequence[Any], expected: list[str] | None, noun: str) -> None:
    """Raise or warn, as scikit-learn does, where tables have other columns than the fit ``expected``."""
    named = unnamed = False
    for number, table in enumerate(tables):
        names = column_names(table)
        named, unnamed = named or names is not None, unnamed or names is None
        if names is not None and expected is not None and names != expected:
            raise ValueError(
                "The feature names should match those that were passed during fit. "
                f"{noun.capitalize()} {number}: {difference(names, expected)}"
            )
    if named and expected is None:
        warnings.warn("X has feature names, but this model was fitted without feature names", stacklevel=2)
    if unnamed and expected is not None:
        warnings.warn("X does not have valid feature names, but this model was fitted with feature names", stacklevel=2)


def difference(names: Sequence[str], expected: Sequence[str]) -> str:
    """Say how names of columns differ from those that are expected."""
    parts = []
    if unseen := [name for name in names if name not in set(expected)]:
        parts.append(f"unseen at fit time: {_listed(unseen)}")
    if missing := [name for name in expected if name not in set(names)]:
        parts.append(f"seen at fit time, yet now missing: {_listed(missing)}")
    return "; ".join(parts) or f"they must be in the same order, {_listed(expected)}, got {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
